//! What starts the ranks of a job, and what is measured of it.

use std::error::Error;
use std::fmt;
use std::fs;
use std::ops::Range;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use pmix_benches::figures::median;
use pmix_hwloc::Machine;
use pmix_tests::{
    Cluster, Ended, Library, Pair, Root, Run, Traces, USERS, benchmark_program, floor_library, pmixrun, program,
    release_of_mpirun,
};

/// A job of 128 ranks of Open MPI 6 with the stock library takes minutes on two processors. Some stock releases hang now and then.
const DEADLINE: Duration = Duration::from_secs(600);
/// A job of processes that do nothing. mpirun 4.1 with either library may wait for ever for some of 96 processes that end at once.
const DEADLINE_OF_TRUE: Duration = Duration::from_secs(10);

/// Name and unit of each figure.
pub const FIGURES: [(&str, &str); 8] = [
    // Of the rank that takes longest for it.
    ("MPI_Init", "ms"),
    // From the launcher's start until the last rank has left MPI_Init.
    ("wired up", "ms"),
    // From the launcher's start to its end.
    ("whole job", "ms"),
    // Of the launcher and all processes under it.
    ("processor time", "ms"),
    // The largest resident memory of the daemon that starts the ranks, with the code of its libraries.
    ("memory of the daemon", "MiB"),
    // Its own memory when the job is over, without code.
    ("own memory of the daemon", "MiB"),
    // Of the median rank, wired up: its anonymous memory, and how much of that lies in mappings of libpmix.so.2.
    ("memory of a rank", "KiB"),
    ("pages of libpmix.so.2", "KiB"),
];

/// Where the figures of each source are: what ranks print of their start, the stopwatch, the daemon's memory, that of ranks.
const OF_START: Range<usize> = 0..2;
const OF_STOPWATCH: Range<usize> = 2..4;
const OF_DAEMON: Range<usize> = 4..6;
const OF_RANKS: Range<usize> = 6..8;
/// The one of the stopwatch that it cannot see under Slurm.
const PROCESSOR_TIME: usize = 3;

/// The figures of one job, in this order; NaN where a launcher or a job has none.
pub type Figures = [f64; FIGURES.len()];

/// What is started.
#[derive(Clone, Copy)]
pub enum Job {
    /// This number of processes that use neither MPI nor PMIx: `true`.
    True(usize),
    /// An MPI program with this number of ranks.
    Mpi(usize),
    /// The same, whose ranks read their memory: that takes time, so that their times do not count.
    Memory(usize),
}

impl fmt::Display for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Job::True(1) => f.write_str("true"),
            Job::True(size) => write!(f, "true@{size}"),
            Job::Mpi(size) => write!(f, "{size}"),
            Job::Memory(size) => write!(f, "memory@{size}"),
        }
    }
}

/// What starts the ranks.
#[derive(Clone)]
pub enum Launcher<'a> {
    /// This machine's mpirun.
    Own {
        release: String,
    },
    /// mpirun of another Debian release.
    Root(Root),
    Slurm {
        cluster: &'a Cluster,
        nodes: usize,
    },
    /// Our launcher, here or in a root, with that Open MPI in the ranks.
    Pmixrun {
        release: String,
        root: Option<Root>,
    },
    /// MPICH's launcher, for processes without PMIx.
    Hydra,
    /// No launcher and no PMIx: `benches/programs/floor.c`.
    Floor {
        release: String,
        topology: PathBuf,
    },
}

impl fmt::Display for Launcher<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Launcher::Own { release } => write!(f, "Open MPI {release}"),
            Launcher::Root(root) => write!(f, "Open MPI {}", root.release()),
            Launcher::Slurm { nodes: 1, .. } => f.write_str("srun on a node"),
            Launcher::Slurm { nodes, .. } => write!(f, "srun on {nodes} nodes"),
            Launcher::Hydra => f.write_str("hydra"),
            Launcher::Pmixrun { release, .. } => write!(f, "Open MPI {release}, pmixrun"),
            Launcher::Floor { release, .. } => write!(f, "Open MPI {release}, floor"),
        }
    }
}

impl Launcher<'_> {
    pub fn own() -> Result<Launcher<'static>, Box<dyn Error>> {
        Ok(Launcher::Own { release: release_of_mpirun(None).ok_or("mpirun is not installed")? })
    }

    /// Our launcher for ranks of the same Open MPI, where it can start them.
    pub fn pmixrun(&self) -> Option<Launcher<'static>> {
        match self {
            Launcher::Own { release } => Some(Launcher::Pmixrun { release: release.clone(), root: None }),
            Launcher::Root(root) => {
                Some(Launcher::Pmixrun { release: root.release().to_owned(), root: Some(root.clone()) })
            }
            _ => None,
        }
    }

    /// The floor beneath jobs of this machine's mpirun. Its ranks get the topology that this writes to the directory.
    pub fn floor(&self, directory: &Traces) -> Result<Option<Launcher<'static>>, Box<dyn Error>> {
        let Launcher::Own { release } = self else { return Ok(None) };
        let topology = directory.directory().join("topology.xml");
        let machine = Machine::look(true).map_err(|status| format!("libhwloc.so.15: {status}"))?;
        let xml = machine.xml().map_err(|status| format!("the node's topology as XML: {status}"))?;
        fs::write(&topology, xml.as_bytes())?;
        Ok(Some(Launcher::Floor { release: release.clone(), topology }))
    }

    /// Whether it is the floor.
    pub fn is_floor(&self) -> bool {
        matches!(self, Launcher::Floor { .. })
    }

    /// Whether it can start the job.
    pub fn starts(&self, job: Job) -> bool {
        !matches!(self, Launcher::Hydra) || matches!(job, Job::True(_))
    }

    /// The libraries of server and ranks, as results name them.
    pub fn libraries(&self, pair: Pair) -> [&'static str; 2] {
        let name = |library: Library| if library.is_ours() { "ours" } else { "stock" };
        if matches!(self, Launcher::Floor { .. } | Launcher::Hydra) {
            ["none", "none"]
        } else {
            [name(pair.server), name(pair.ranks)]
        }
    }

    /// Whether a rank's parent is the daemon with its server.
    fn is_parent(&self) -> bool {
        !matches!(self, Launcher::Pmixrun { .. } | Launcher::Hydra | Launcher::Floor { .. })
    }

    /// The figures of one job, or none if it fails or hangs, which it reports.
    pub fn run(&self, pair: Pair, job: Job) -> Result<Option<Figures>, Box<dyn Error>> {
        let traces = Traces::begin();
        let deadline = if let Job::True(_) = job { DEADLINE_OF_TRUE } else { DEADLINE };
        let run = self.command(pair, job, &traces).deadline(deadline);
        let started = SystemTime::now().duration_since(UNIX_EPOCH)?;
        let outcome = run.attempt();
        // mpirun may die and leave its ranks, which would take part in later measurements.
        for process in traces.processes().into_keys() {
            let _ = kill(Pid::from_raw(process as i32), Signal::SIGKILL);
        }
        match outcome {
            Ok(ended) if ended.code() == 0 => {
                let mut figures = read(&ended, job, started.as_nanos() as f64, self.is_parent())?;
                // srun's processes are slurmd's children.
                if let Launcher::Slurm { .. } = self {
                    figures[PROCESSOR_TIME] = f64::NAN;
                }
                Ok(Some(figures))
            }
            Ok(ended) => {
                eprintln!("{self}, {job} ranks, {pair}: {ended}");
                Ok(None)
            }
            Err(hung) => {
                eprintln!("{self}, {job} ranks, {pair}: {hung}");
                Ok(None)
            }
        }
    }

    fn command(&self, pair: Pair, job: Job, traces: &Traces) -> Run {
        let (Job::Mpi(size) | Job::True(size) | Job::Memory(size)) = job;
        let (run, wireup) = match self {
            Launcher::Own { .. } => {
                let run = own_run(pair, traces).args(&format!("mpirun --oversubscribe -np {size} -x"));
                let library = format!("LD_LIBRARY_PATH={}", pair.ranks.directory().display());
                (run.arg(library), program("wireup"))
            }
            Launcher::Root(root) => {
                let (server, ranks) = (Root::directory_for_prrte(pair.server), Root::directory(pair.ranks));
                let run = root.enter().traced(traces).args(&format!("env LD_LIBRARY_PATH={server} /mnt/bin/stopwatch"));
                let run = run.args(&format!("mpirun --oversubscribe -np {size} -x LD_LIBRARY_PATH={ranks}"));
                (run, "/mnt/bin/wireup".into())
            }
            Launcher::Slurm { cluster, nodes } => {
                // In Debian's Slurm the other kind of fence does not wait for other nodes.
                // The cluster's nodes have 64 processors by name.
                let layout = format!("-N {nodes} -n {size} --overcommit");
                let run = cluster.srun_by(program("stopwatch"), pair, USERS[0], &layout);
                (run.env("SLURM_PMIX_FENCE", "ring"), program("wireup"))
            }
            Launcher::Pmixrun { root: None, .. } => {
                (own_run(pair, traces).arg(pmixrun()).args(&format!("-n {size}")), program("wireup"))
            }
            Launcher::Pmixrun { root: Some(root), .. } => {
                let library = Root::directory(pair.ranks);
                let run =
                    root.enter().traced(traces).args(&format!("env LD_LIBRARY_PATH={library} /mnt/bin/stopwatch"));
                (run.args(&format!("/mnt/bin/pmixrun -n {size}")), "/mnt/bin/wireup".into())
            }
            Launcher::Hydra => (own_run(pair, traces).args(&format!("mpiexec.hydra -n {size}")), program("wireup")),
            Launcher::Floor { topology, .. } => {
                let run = own_run(pair, traces).env("LD_LIBRARY_PATH", floor_library());
                let run = run.arg(benchmark_program("floor", &[])).args(&size.to_string()).arg(topology);
                (run, program("wireup"))
            }
        };
        match job {
            Job::True(_) => run.arg("true"),
            Job::Mpi(_) => run.arg(wireup),
            Job::Memory(_) => run.arg(wireup).arg("--memory"),
        }
    }
}

/// A job of this machine's Open MPI under the stopwatch. Its launcher decides whether ranks yield while they wait.
fn own_run(pair: Pair, traces: &Traces) -> Run {
    Run::new(program("stopwatch"), pair.server).traced(traces).without("OMPI_MCA_mpi_yield_when_idle")
}

/// The figures that a job's processes printed. Those of the daemon are left out where it is not the ranks' parent.
fn read(ended: &Ended, job: Job, started: f64, is_parent: bool) -> Result<Figures, Box<dyn Error>> {
    const MILLISECOND: f64 = 1e6;
    let numbers = |text: &str, line: &str| -> Vec<Vec<f64>> {
        let lines = text.lines().filter_map(|it| it.strip_prefix(line));
        lines.map(|rest| rest.split_whitespace().filter_map(|word| word.parse().ok()).collect()).collect()
    };
    let (mut began, mut took, mut used) = (started, f64::NAN, f64::NAN);
    if let Some([at, time, processor]) = numbers(&ended.stderr, "stopwatch: ").first().map(Vec::as_slice) {
        (began, took, used) = (*at, time / MILLISECOND, processor / MILLISECOND);
    }
    let mut figures = [f64::NAN; FIGURES.len()];
    let (Job::True(size) | Job::Mpi(size) | Job::Memory(size)) = job;
    if !matches!(job, Job::Memory(_)) {
        figures[OF_STOPWATCH].copy_from_slice(&[took, used]);
    }
    if matches!(job, Job::True(_)) {
        return Ok(figures);
    }
    let line = if let Job::Memory(_) = job { "rank held " } else { "wired up " };
    let of_ranks = numbers(&ended.stdout, line);
    let of = |which: usize| of_ranks.iter().filter_map(move |of_rank| of_rank.get(which)).copied();
    if of_ranks.len() != size {
        return Err(ended.to_string().into());
    }
    if let Job::Memory(_) = job {
        figures[OF_RANKS].copy_from_slice(&[median(of(0)), median(of(1))]);
    } else {
        let latest = |which: usize| of(which).fold(f64::NAN, f64::max);
        figures[OF_START].copy_from_slice(&[latest(1) / MILLISECOND, (latest(0) - began) / MILLISECOND]);
    }
    if is_parent && let Some(held) = numbers(&ended.stdout, "daemon held ").first() {
        held.iter().zip(&mut figures[OF_DAEMON]).for_each(|(kib, figure)| *figure = kib / 1024.0);
    }
    Ok(figures)
}
