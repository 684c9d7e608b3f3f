//! Whole jobs: from the start of mpirun or srun to its end.
//!
//! `make bench-wireup`, or `cargo bench -p pmix-benches --bench wireup -- [--rounds N] [--ranks N[:ROUNDS],...] [--root DIR]...
//! [--nodes N] [--pairs 2|4] [--out DIR]`. In each round the stock library and ours take turns on the server's and the ranks' side
//! (`--pairs 2`: on both sides at once), of each launcher in turn. Each round starts with another pair, so that other load of the
//! machine affects all pairs alike. Ratios are taken within a round. In place of a number of ranks, `true` is `mpirun -np 1 true`, a
//! job without MPI.
//!
//! The launcher is this machine's mpirun. With `--root DIR`, or where `PMIX_TEST_OPENMPI5` and `PMIX_TEST_OPENMPI6` name directories, it
//! is the one of the Debian release there (`tests/openmpi5/root.sh`); with `--nodes N` it is Slurm's srun on N nodes, which are network
//! namespaces of this machine. Both take root.

mod launcher;
mod report;

use std::error::Error;
use std::fs;
use std::path::PathBuf;

use pmix_tests::{Cluster, Library, Pair, Root};

use launcher::{FIGURES, Figures, Job, Launcher};
use report::Row;

struct Options {
    /// Rounds for jobs that name no other number.
    rounds: usize,
    jobs: Vec<(Job, Option<usize>)>,
    roots: Vec<PathBuf>,
    /// The number of nodes under Slurm.
    nodes: Option<usize>,
    /// Whether each library is also measured with the other one on the other side.
    is_mixed: bool,
    out: Option<PathBuf>,
}

impl Options {
    fn read() -> Result<Options, Box<dyn Error>> {
        let jobs = [2, 8, 32].map(|size| (Job::Mpi(size), None)).to_vec();
        let mut options = Options { rounds: 15, jobs, roots: Vec::new(), nodes: None, is_mixed: true, out: None };
        let mut args = std::env::args().skip(1);
        while let Some(arg) = args.next() {
            let mut value = || args.next().ok_or_else(|| format!("{arg} needs a value"));
            match arg.as_str() {
                "--rounds" => options.rounds = value()?.parse()?,
                "--ranks" => options.jobs = value()?.split(',').map(job).collect::<Result<_, _>>()?,
                "--root" => options.roots.push(value()?.into()),
                "--nodes" => options.nodes = Some(value()?.parse()?),
                "--pairs" => options.is_mixed = value()?.parse::<usize>()? == 4,
                "--out" => options.out = Some(value()?.into()),
                // Cargo adds this option.
                "--bench" => {}
                _ => return Err(format!("unknown argument {arg}").into()),
            }
        }
        if options.rounds == 0 || options.jobs.iter().any(|(_, rounds)| *rounds == Some(0)) {
            return Err("at least one round".into());
        }
        Ok(options)
    }

    /// The launchers that are measured.
    fn launchers<'a>(&self, cluster: Option<&'a Cluster>) -> Result<Vec<Launcher<'a>>, Box<dyn Error>> {
        if let (Some(cluster), Some(nodes)) = (cluster, self.nodes) {
            return Ok(vec![Launcher::Slurm { cluster, nodes }]);
        }
        let roots: Vec<_> = if self.roots.is_empty() {
            Root::named().unwrap_or_default()
        } else {
            self.roots.iter().map(Root::at).collect()
        };
        let roots: Vec<_> = roots.into_iter().map(Launcher::Root).collect();
        Ok(if roots.is_empty() { vec![Launcher::own()?] } else { roots })
    }
}

/// A job and its number of rounds, from `NUMBER` or `true` with `:ROUNDS` after it.
fn job(text: &str) -> Result<(Job, Option<usize>), Box<dyn Error>> {
    let (size, rounds) = text.split_once(':').map_or((text, None), |(size, rounds)| (size, Some(rounds)));
    let job = if size == "true" { Job::True } else { Job::Mpi(size.parse()?) };
    Ok((job, rounds.map(str::parse).transpose()?))
}

fn main() -> Result<(), Box<dyn Error>> {
    let options = Options::read()?;
    let (ours, stock) = (Library::ours(), Library::Stock);
    let mut pairs = vec![Pair { server: stock, ranks: stock }, Pair { server: ours, ranks: ours }];
    if options.is_mixed {
        pairs.extend([Pair { server: ours, ranks: stock }, Pair { server: stock, ranks: ours }]);
    }
    let cluster = match options.nodes.map(Cluster::start) {
        Some(None) => return Err("no cluster".into()),
        Some(cluster) => cluster,
        None => None,
    };
    let launchers = options.launchers(cluster.as_ref())?;
    let mut rows = Vec::new();
    for &(job, rounds) in &options.jobs {
        rows.extend(measure(&launchers, &pairs, job, rounds.unwrap_or(options.rounds))?);
    }
    print!("{}", report::text(&rows));
    if let Some(directory) = &options.out {
        fs::create_dir_all(directory)?;
        fs::write(directory.join("wireup.json"), report::json(&rows))?;
    }
    if let Some(cluster) = cluster {
        cluster.end();
    }
    Ok(())
}

/// The rows of one kind of job.
fn measure(launchers: &[Launcher<'_>], pairs: &[Pair], job: Job, rounds: usize) -> Result<Vec<Row>, Box<dyn Error>> {
    // By launcher and pair: the figures of each round, none where the job failed.
    let mut measured: Vec<Vec<Vec<Option<Figures>>>> = vec![vec![Vec::new(); pairs.len()]; launchers.len()];
    // The first round fills caches.
    for round in 0..=rounds {
        for (launcher, measured) in launchers.iter().zip(&mut measured) {
            for turn in 0..pairs.len() {
                let which = (round + turn) % pairs.len();
                let figures = launcher.run(pairs[which], job)?;
                if round > 0 {
                    measured[which].push(figures);
                }
            }
        }
    }
    let mut rows = Vec::new();
    for (launcher, measured) in launchers.iter().zip(&measured) {
        let [stock, ..] = &measured[..] else { return Err("the stock library comes first".into()) };
        let of_launcher = pairs.iter().zip(measured).map(|(pair, rounds)| {
            let figures = (0..FIGURES.len()).map(|which| report::Figure::of(rounds, stock, which)).collect();
            let failed = rounds.iter().filter(|figures| figures.is_none()).count();
            Row { launcher: launcher.to_string(), job, pair: *pair, rounds: rounds.len(), failed, figures }
        });
        rows.extend(of_launcher);
    }
    Ok(rows)
}
