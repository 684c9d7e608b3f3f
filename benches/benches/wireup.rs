//! Start-up time of a job: from the start of mpirun or srun until the slowest rank has left `MPI_Init`.
//!
//! `make bench-wireup`, or `cargo bench -p pmix-benches --bench wireup -- [--rounds N] [--ranks N,N...] [--nodes N]
//! [--json]`. In each round the stock library and ours take turns on the server's and the ranks' side. Each round
//! starts with another pair, so that other load of the machine affects all pairs alike. Ratios are taken within a
//! round. With `--nodes N` it measures steps under Slurm on N nodes, which are network namespaces of this machine; this
//! takes root.

use std::error::Error;
use std::time::{SystemTime, UNIX_EPOCH};

use pmix_tests::{Cluster, Library, Pair, Traces, USERS, program};

struct Options {
    rounds: usize,
    sizes: Vec<usize>,
    /// The number of nodes under Slurm; `None` for mpirun.
    nodes: Option<usize>,
    is_json: bool,
}

impl Options {
    fn read() -> Result<Options, Box<dyn Error>> {
        let mut options = Options { rounds: 15, sizes: vec![2, 8, 32], nodes: None, is_json: false };
        let mut args = std::env::args().skip(1);
        while let Some(arg) = args.next() {
            let mut value = || args.next().ok_or_else(|| format!("{arg} needs a value"));
            match arg.as_str() {
                "--rounds" => options.rounds = value()?.parse()?,
                "--ranks" => options.sizes = value()?.split(',').map(str::parse).collect::<Result<_, _>>()?,
                "--nodes" => options.nodes = Some(value()?.parse()?),
                "--json" => options.is_json = true,
                // Cargo adds this option.
                "--bench" => {}
                _ => return Err(format!("unknown argument {arg}").into()),
            }
        }
        if options.rounds == 0 {
            return Err("at least one round".into());
        }
        Ok(options)
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let options = Options::read()?;
    let (ours, stock) = (Library::ours(), Library::Stock);
    let pairs = [
        Pair { server: stock, ranks: stock },
        Pair { server: ours, ranks: ours },
        Pair { server: ours, ranks: stock },
        Pair { server: stock, ranks: ours },
    ];
    let cluster = match options.nodes.map(Cluster::start) {
        Some(None) => return Err("no cluster".into()),
        Some(cluster) => cluster,
        None => None,
    };
    let launcher = match (&cluster, options.nodes) {
        (Some(cluster), Some(nodes)) => Launcher::Slurm { cluster, nodes },
        _ => Launcher::Mpirun,
    };
    let mut rows = Vec::new();
    for &size in &options.sizes {
        let mut times: [Vec<f64>; 4] = Default::default();
        // The first round fills caches.
        for round in 0..=options.rounds {
            for turn in 0..pairs.len() {
                let which = (round + turn) % pairs.len();
                let time = launcher.wire_up(pairs[which], size)?;
                if round > 0 {
                    times[which].push(time);
                }
            }
        }
        let [base, ..] = &times;
        for (pair, times) in pairs.iter().zip(&times) {
            let ratios = times.iter().zip(base).map(|(time, base)| time / base).collect();
            let name = |library: Library| if library.is_ours() { "ours" } else { "stock" };
            rows.push(Row {
                size,
                server: name(pair.server),
                ranks: name(pair.ranks),
                median: quantile(times.clone(), 0.5),
                p90: quantile(times.clone(), 0.9),
                ratio: quantile(ratios, 0.5),
            });
        }
    }
    if options.is_json {
        let rows: Vec<String> = rows.iter().map(Row::json).collect();
        println!("{{\"rounds\":{},\"wireup\":[{}]}}", options.rounds, rows.join(","));
    } else {
        let start = options.nodes.map_or("mpirun".to_owned(), |nodes| format!("srun on {nodes} nodes"));
        println!("from the start of {start} until the last rank has left MPI_Init; {} rounds\n", options.rounds);
        println!("| ranks | server | clients | median, ms | p90, ms | of stock |\n|---|---|---|---|---|---|");
        rows.iter().for_each(|row| println!("{}", row.text()));
    }
    if let Some(cluster) = cluster {
        cluster.end();
    }
    Ok(())
}

/// One line of the table.
struct Row {
    size: usize,
    server: &'static str,
    ranks: &'static str,
    median: f64,
    p90: f64,
    ratio: f64,
}

impl Row {
    fn text(&self) -> String {
        let Row { size, server, ranks, median, p90, ratio } = self;
        format!("| {size} | {server} | {ranks} | {median:.1} | {p90:.1} | {ratio:.2} |")
    }

    fn json(&self) -> String {
        let Row { size, server, ranks, median, p90, ratio } = self;
        format!(
            "{{\"ranks\":{size},\"server\":\"{server}\",\"clients\":\"{ranks}\",\
             \"median_ms\":{median:.3},\"p90_ms\":{p90:.3},\"ratio\":{ratio:.4}}}"
        )
    }
}

/// The launcher of the ranks.
enum Launcher<'a> {
    Mpirun,
    Slurm { cluster: &'a Cluster, nodes: usize },
}

impl Launcher<'_> {
    /// Milliseconds that one job took.
    fn wire_up(&self, pair: Pair, size: usize) -> Result<f64, Box<dyn Error>> {
        let traces = Traces::begin();
        let run = match self {
            Launcher::Mpirun => {
                let library = format!("LD_LIBRARY_PATH={}", pair.ranks.directory().display());
                pair.mpirun(&traces).args(&format!("-np {size} env")).arg(library)
            }
            // In Debian's Slurm the other kind of fence does not wait for other nodes.
            Launcher::Slurm { cluster, nodes } => {
                cluster.srun(pair, USERS[0], &format!("-N {nodes} -n {size}")).env("SLURM_PMIX_FENCE", "ring")
            }
        };
        let started = SystemTime::now().duration_since(UNIX_EPOCH)?;
        let ended = run.arg(program("wireup")).succeed();
        let times = ended.stdout.lines().filter_map(|line| line.strip_prefix("wired up at "));
        let times: Vec<u128> = times.map(str::parse).collect::<Result<_, _>>()?;
        let last = times.iter().max().filter(|_| times.len() == size).ok_or_else(|| ended.to_string())?;
        Ok(last.saturating_sub(started.as_nanos()) as f64 / 1e6)
    }
}

/// The quantile of `values` for `part`, between 0 and 1.
fn quantile(mut values: Vec<f64>, part: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    values[((values.len() - 1) as f64 * part).round() as usize]
}
