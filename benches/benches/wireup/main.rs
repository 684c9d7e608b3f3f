//! Whole jobs: from the start of mpirun or srun to its end.
//!
//! `make bench-wireup`, or `cargo bench -p pmix-benches --bench wireup -- [--rounds N] [--ranks N[:ROUNDS],...] [--root DIR]...
//! [--nodes N] [--also srun,hydra] [--pairs 2|4] [--out DIR]`. In each round the stock library and ours take turns on the server's and the
//! ranks' side (`--pairs 2`: on both sides at once), and after them `pmixrun`, of each launcher in turn. Each round starts with another of
//! them, so that other load of the machine affects all alike. Ratios are taken within a round. In place of a number of ranks, `true` is
//! `mpirun -np 1 true`, a job without MPI, and `true@32` has 32 processes. `memory@32` measures the memory of 32 ranks instead of times.
//!
//! The launcher is this machine's mpirun, with a floor beneath it: ranks that fork and exec start, and whose PMIx calls are answered out
//! of a table. With `--root DIR`, or where `PMIX_TEST_OPENMPI5` and `PMIX_TEST_OPENMPI6` name directories, it
//! is the one of the Debian release there (`tests/openmpi5/root.sh`); with `--nodes N` it is Slurm's srun on N nodes, which are network
//! namespaces of this machine. Both take root. `--also` adds, beside this machine's mpirun, Slurm on one node with our library, and
//! MPICH's `mpiexec.hydra`, which starts jobs without MPI.

mod launcher;
mod report;

use std::error::Error;
use std::fs;
use std::path::PathBuf;

use pmix_tests::{Cluster, Library, Pair, Root, Traces};

use launcher::{FIGURES, Job, Launcher};
use report::{Beside, Rounds, Row};

struct Options {
    /// Rounds for jobs that name no other number.
    rounds: usize,
    jobs: Vec<(Job, Option<usize>)>,
    roots: Vec<PathBuf>,
    /// The number of nodes under Slurm.
    nodes: Option<usize>,
    /// Other launchers beside this machine's mpirun.
    also: Vec<String>,
    /// Whether each library is also measured with the other one on the other side.
    is_mixed: bool,
    out: Option<PathBuf>,
}

impl Options {
    fn read() -> Result<Options, Box<dyn Error>> {
        let jobs = [2, 8, 32].map(|size| (Job::Mpi(size), None)).to_vec();
        let mut options =
            Options { rounds: 15, jobs, roots: Vec::new(), nodes: None, also: Vec::new(), is_mixed: true, out: None };
        let mut args = std::env::args().skip(1);
        while let Some(arg) = args.next() {
            let mut value = || args.next().ok_or_else(|| format!("{arg} needs a value"));
            match arg.as_str() {
                "--rounds" => options.rounds = value()?.parse()?,
                "--ranks" => options.jobs = value()?.split(',').map(job).collect::<Result<_, _>>()?,
                "--root" => options.roots.push(value()?.into()),
                "--nodes" => options.nodes = Some(value()?.parse()?),
                "--also" => options.also = value()?.split(',').map(str::to_owned).collect(),
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

    /// The number of nodes that Slurm has; none where it is not measured.
    fn nodes_of_slurm(&self) -> Option<usize> {
        self.nodes.or(self.also.iter().any(|name| name == "srun").then_some(1))
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

/// A job and its number of rounds, from `NUMBER`, `memory@NUMBER`, `true` or `true@NUMBER` with `:ROUNDS` after it.
fn job(text: &str) -> Result<(Job, Option<usize>), Box<dyn Error>> {
    let (size, rounds) = text.split_once(':').map_or((text, None), |(size, rounds)| (size, Some(rounds)));
    let job = match size.split_once('@') {
        Some(("true", size)) => Job::True(size.parse()?),
        Some(("memory", size)) => Job::Memory(size.parse()?),
        None if size == "true" => Job::True(1),
        _ => Job::Mpi(size.parse()?),
    };
    Ok((job, rounds.map(str::parse).transpose()?))
}

fn main() -> Result<(), Box<dyn Error>> {
    let options = Options::read()?;
    let (ours, stock) = (Library::ours(), Library::Stock);
    let mut pairs = vec![Pair { server: stock, ranks: stock }, Pair { server: ours, ranks: ours }];
    if options.is_mixed {
        pairs.extend([Pair { server: ours, ranks: stock }, Pair { server: stock, ranks: ours }]);
    }
    let cluster = match options.nodes_of_slurm().map(Cluster::start) {
        Some(None) => return Err("no cluster".into()),
        Some(cluster) => cluster,
        None => None,
    };
    let launchers = options.launchers(cluster.as_ref())?;
    let directory = Traces::begin();
    let mut groups: Vec<_> =
        launchers.into_iter().map(|launcher| Group::new(launcher, &pairs, &directory)).collect::<Result<_, _>>()?;
    for name in &options.also {
        let launcher = match (name.as_str(), &cluster) {
            ("hydra", _) => Launcher::Hydra,
            ("srun", Some(cluster)) => Launcher::Slurm { cluster, nodes: 1 },
            _ => return Err(format!("--also has srun and hydra, not {name}").into()),
        };
        groups.iter_mut().for_each(|group| group.add(&launcher));
    }
    let mut rows = Vec::new();
    for &(job, rounds) in &options.jobs {
        rows.extend(measure(&groups, job, rounds.unwrap_or(options.rounds))?);
    }
    print!("{}", report::text(&rows));
    if let Some(directory) = &options.out {
        fs::create_dir_all(directory)?;
        // The documents show this machine's jobs beside those of other places, and memory beside both.
        let is_here = options.nodes.is_none() && groups.iter().all(Group::has_floor);
        let (memory, jobs): (Vec<_>, Vec<_>) = rows.into_iter().partition(|row| matches!(row.job, Job::Memory(_)));
        for (name, rows) in [(if is_here { "jobs.json" } else { "wireup.json" }, jobs), ("memory.json", memory)] {
            if !rows.is_empty() {
                fs::write(directory.join(name), report::json(&rows))?;
            }
        }
    }
    if let Some(cluster) = cluster {
        cluster.end();
    }
    Ok(())
}

/// Those that start the same jobs in one place, and are compared with each other.
struct Group<'a> {
    /// A launcher with the libraries of server and ranks. The first has the stock library on both sides, the second
    /// ours, the last may be the floor.
    starters: Vec<(Launcher<'a>, Pair)>,
}

impl<'a> Group<'a> {
    fn new(launcher: Launcher<'a>, pairs: &[Pair], directory: &Traces) -> Result<Group<'a>, Box<dyn Error>> {
        let ours = Pair { server: Library::ours(), ranks: Library::ours() };
        let others = launcher.pmixrun().into_iter().chain(launcher.floor(directory)?).map(|other| (other, ours));
        let others: Vec<_> = others.collect();
        let starters = pairs.iter().map(|pair| (launcher.clone(), *pair)).chain(others).collect();
        Ok(Group { starters })
    }

    /// Adds another launcher, with our library where it has one, before the floor.
    fn add(&mut self, launcher: &Launcher<'a>) {
        let end = self.starters.len() - usize::from(self.has_floor());
        self.starters.insert(end, (launcher.clone(), Pair { server: Library::ours(), ranks: Library::ours() }));
    }

    fn has_floor(&self) -> bool {
        self.starters.last().is_some_and(|(launcher, _)| launcher.is_floor())
    }
}

/// The rows of one kind of job.
fn measure(groups: &[Group<'_>], job: Job, rounds: usize) -> Result<Vec<Row>, Box<dyn Error>> {
    // By group and starter.
    let mut measured: Vec<Vec<Rounds>> = groups.iter().map(|group| vec![Vec::new(); group.starters.len()]).collect();
    // The first round fills caches.
    for round in 0..=rounds {
        for (group, measured) in groups.iter().zip(&mut measured) {
            for turn in 0..group.starters.len() {
                let which = (round + turn) % group.starters.len();
                let (launcher, pair) = &group.starters[which];
                if !launcher.starts(job) {
                    continue;
                }
                let figures = launcher.run(*pair, job)?;
                if round > 0 {
                    measured[which].push(figures);
                }
            }
        }
    }
    let mut rows = Vec::new();
    for (group, measured) in groups.iter().zip(&measured) {
        let [stock, ours, ..] = &measured[..] else { return Err("the stock library comes first, then ours".into()) };
        let beside = Beside { stock, ours, floor: measured.last().filter(|_| group.has_floor()) };
        let able = group.starters.iter().zip(measured).filter(|((launcher, _), _)| launcher.starts(job));
        let of_group = able.map(|((launcher, pair), rounds)| {
            let of = |which| report::Figure::of(rounds, beside, which);
            let failed = rounds.iter().filter(|figures| figures.is_none()).count();
            let figures = (0..FIGURES.len()).map(of).collect();
            let libraries = launcher.libraries(*pair);
            Row { launcher: launcher.to_string(), job, libraries, rounds: rounds.len(), failed, figures }
        });
        rows.extend(of_group);
    }
    Ok(rows)
}
