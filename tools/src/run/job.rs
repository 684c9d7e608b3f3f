//! The registration of the job: all attributes that the standard's server chapter requires.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::path::Path;

use pmix_dstore::model::{Info, Nspace, Proc, Rank, Value, keys};

use super::args::Stops;
use super::binding::Binding;
use super::control::JobRanks;
use super::directories::{Directories, JobDirectory};
use super::placement::BindTo;
use super::ranks::Program;

/// The launcher's server and its node.
#[derive(Clone)]
pub(super) struct Session {
    /// The server.
    pub server: Proc,
    /// The node's name.
    pub hostname: String,
    /// The node's name with its domain.
    full_name: String,
    /// The number of ranks that the launcher was asked for; of a persistent one the slots.
    universe: u32,
    /// Whether ranks are bound.
    bind_to: BindTo,
    /// The name of the cluster.
    cluster: Option<String>,
}

/// A node's name without its domain.
pub(super) fn node_name(full_name: &str) -> String {
    full_name.split('.').next().filter(|name| !name.is_empty()).unwrap_or("localhost").to_owned()
}

/// With what the namespace of a launcher of the node begins; its process follows.
pub(super) fn name_prefix(hostname: &str) -> String {
    format!("run-{hostname}-")
}

impl Session {
    /// The server of this process.
    pub fn new(universe: u32, bind_to: BindTo, cluster: Option<String>) -> Result<Session, String> {
        let full_name = nix::unistd::gethostname().ok().and_then(|name| name.into_string().ok()).unwrap_or_default();
        let hostname = node_name(&full_name);
        // Without a dot in the server's: stock tools take an address's text up to its first dot for the namespace. And without `pmix`
        // before it: programs build keys from their namespace, and keys with that prefix are reserved.
        let server = super::nspace(format!("{}{}", name_prefix(&hostname), std::process::id()))?;
        Ok(Session { server: Proc::new(server, Rank(0)), hostname, full_name, universe, bind_to, cluster })
    }

    /// The namespace of a job: that of the launched one has the number 0.
    pub fn job_name(&self, number: u32) -> Result<Nspace, String> {
        let number = if number == 0 { String::new() } else { number.to_string() };
        super::nspace(format!("{}.job{number}", self.server.nspace))
    }
}

/// An application of a job: so many ranks of a program.
pub(super) struct Application {
    pub program: Program,
    pub ranks: u32,
    /// Their process set.
    pub pset: Option<CString>,
}

/// What a job is to be.
pub(super) struct Plan {
    /// Its applications, of which there is at least one.
    pub apps: Vec<Application>,
    /// Where its ranks are to wait for a debugger.
    pub stops: Stops,
    /// The process that has spawned it.
    pub parent: Option<Proc>,
    /// What else its ranks are told of the job.
    pub others: Vec<Info>,
    /// Whether its rank 0 has a standard input.
    pub has_input: bool,
}

impl Plan {
    /// The number of ranks.
    pub fn ranks(&self) -> u32 {
        self.apps.iter().map(|app| app.ranks).sum()
    }

    /// The applications with their numbers and the ranks before them.
    fn numbered(&self) -> impl Iterator<Item = (u32, u32, &Application)> {
        let mut before = 0;
        (0..).zip(&self.apps).map(move |(number, app)| {
            let first = before;
            before += app.ranks;
            (number, first, app)
        })
    }

    /// The process sets of the applications, with their members in the job of this name.
    pub fn process_sets(&self, nspace: &Nspace) -> BTreeMap<CString, Vec<Proc>> {
        let mut sets: BTreeMap<CString, Vec<Proc>> = BTreeMap::new();
        for (_, first, app) in self.numbered() {
            if let Some(name) = &app.pset {
                let members = (first..first + app.ranks).map(|rank| Proc::new(nspace.clone(), Rank(rank)));
                sets.entry(name.clone()).or_default().extend(members);
            }
        }
        sets
    }

    /// A rank's application: its number, and its first rank.
    pub fn app_of(&self, rank: u32) -> (u32, u32) {
        let found = self.numbered().find(|(_, first, app)| (*first..*first + app.ranks).contains(&rank));
        found.map_or((0, 0), |(number, first, _)| (number, first))
    }
}

/// A job on one node.
pub(super) struct Job {
    /// Its namespace, and the numbers of its ranks.
    pub ranks: JobRanks,
    /// How many ranks of other jobs ran when it was started.
    beside: u32,
    session: Session,
    pub plan: Plan,
    infos: Vec<Info>,
}

fn info(key: &'static str, value: Value) -> Info {
    Info::new(key, value)
}

fn array(key: &'static str, infos: Vec<Info>) -> Info {
    info(key, Value::infos(infos))
}

impl Job {
    /// Collects the job's data; `beside` is how many ranks of other jobs run.
    pub fn new(
        session: &Session,
        (ranks, beside): (JobRanks, u32),
        plan: Plan,
        binding: &Binding,
        (directories, own): (&Directories, &JobDirectory),
    ) -> Job {
        let mut job = Job { ranks, beside, session: session.clone(), plan, infos: Vec::new() };
        let mut infos = vec![job.session(directories), job.job_level(binding, own)];
        infos.extend(job.plan.numbered().map(|(number, first, app)| Job::app(number, first, app)));
        infos.push(job.node(binding, directories, own));
        infos.extend((0..job.ranks.size).map(|rank| job.rank(rank, binding, own)));
        job.infos = infos;
        job
    }

    /// The file of the program of a rank, with its whole path.
    pub fn executable(&self, rank: u32) -> CString {
        let program = &self.plan.apps[self.plan.app_of(rank).0 as usize].program.path;
        let path = std::path::absolute(program).unwrap_or_else(|_| program.clone());
        CString::new(path.into_os_string().into_encoded_bytes()).unwrap_or_default()
    }

    /// The number of ranks that share the node, those of other jobs included.
    pub fn ranks_on_node(&self) -> u32 {
        self.beside + self.ranks.size
    }

    /// Takes the info array for the registration.
    pub fn take_infos(&mut self) -> Vec<Info> {
        std::mem::take(&mut self.infos)
    }

    fn session(&self, directories: &Directories) -> Info {
        let cluster = self.session.cluster.iter().map(|name| info(keys::CLUSTER_ID, Value::string(name)));
        let mut infos = vec![
            info(keys::SESSION_ID, Value::Uint32(std::process::id())),
            info(keys::UNIV_SIZE, Value::Uint32(self.session.universe)),
            info(keys::MAX_PROCS, Value::Uint32(self.session.universe)),
            info(keys::ALLOCATED_NODELIST, Value::string(&self.session.hostname)),
            info(keys::TMPDIR, path(directories.top())),
            info(keys::TDIR_RMCLEAN, Value::Bool(true)),
            info(keys::RM_NAME, Value::string("pmixrun")),
            info(keys::RM_VERSION, Value::string(env!("CARGO_PKG_VERSION"))),
        ];
        infos.extend(cluster);
        array(keys::SESSION_INFO_ARRAY, infos)
    }

    fn job_level(&self, binding: &Binding, own: &JobDirectory) -> Info {
        let bind_to = match self.session.bind_to {
            BindTo::None => "none",
            BindTo::Core => "core",
        };
        let JobRanks { nspace, size, .. } = &self.ranks;
        let ranks = format!("0-{}", size - 1);
        let topology = |key| binding.topology().map(|xml| info(key, Value::String(Some(xml.clone()))));
        let Session { server, hostname, .. } = &self.session;
        let mut infos = vec![
            info(keys::SERVER_NSPACE, Value::string(server.nspace.as_bytes())),
            info(keys::SERVER_RANK, Value::Rank(server.rank)),
            info(keys::NSPACE, Value::string(nspace.as_bytes())),
            info(keys::JOBID, Value::string(nspace.as_bytes())),
            info(keys::JOB_SIZE, Value::Uint32(*size)),
            info(keys::MAX_PROCS, Value::Uint32(*size)),
            info(keys::NUM_SLOTS, Value::Uint32(binding.slots())),
            info(keys::NPROC_OFFSET, Value::Uint32(self.ranks.first)),
            info(keys::JOB_NUM_APPS, Value::Uint32(self.plan.apps.len() as u32)),
            info(keys::NODE_MAP, Value::string(hostname)),
            info(keys::PROC_MAP, Value::string(if *size == 1 { "0".into() } else { ranks })),
            info(keys::MAPBY, Value::string("slot")),
            info(keys::RANKBY, Value::string("slot")),
            info(keys::BINDTO, Value::string(bind_to)),
            info(keys::NSDIR, path(own.path())),
        ];
        // Open MPI 4 reads the first, `PMIx_Load_topology` the second.
        infos.extend([keys::LOCAL_TOPO, keys::HWLOC_XML_V2].into_iter().filter_map(topology));
        infos.extend(stops(&self.plan.stops));
        infos.extend(self.plan.parent.iter().map(|parent| info(keys::PARENT_ID, Value::Proc(parent.clone()))));
        infos.extend(self.plan.others.iter().cloned());
        array(keys::JOB_INFO_ARRAY, infos)
    }

    fn app(number: u32, first: u32, app: &Application) -> Info {
        let mut infos = vec![
            info(keys::APPNUM, Value::Uint32(number)),
            info(keys::APP_SIZE, Value::Uint32(app.ranks)),
            info(keys::MAX_PROCS, Value::Uint32(app.ranks)),
            info(keys::APPLDR, Value::Rank(Rank(first))),
            info(keys::APP_ARGV, Value::string(app.program.line())),
        ];
        if let Some(directory) = app.program.wdir.clone().or_else(|| std::env::current_dir().ok()) {
            infos.push(info(keys::WDIR, path(&directory)));
        }
        array(keys::APP_INFO_ARRAY, infos)
    }

    fn node(&self, binding: &Binding, directories: &Directories, own: &JobDirectory) -> Info {
        let JobRanks { nspace, size, .. } = &self.ranks;
        let ranks: Vec<String> = (0..*size).map(|rank| rank.to_string()).collect();
        let procs = (0..*size).map(|rank| Proc::new(nspace.clone(), Rank(rank)));
        let mut infos = vec![
            info(keys::HOSTNAME, Value::string(&self.session.hostname)),
            info(keys::NODEID, Value::Uint32(0)),
            info(keys::HOSTNAME_ALIASES, Value::string(&self.session.full_name)),
            info(keys::LOCAL_SIZE, Value::Uint32(*size)),
            info(keys::NODE_SIZE, Value::Uint32(self.ranks_on_node())),
            info(keys::MAX_PROCS, Value::Uint32(binding.slots())),
            info(keys::LOCALLDR, Value::Rank(Rank(0))),
            info(keys::LOCAL_PEERS, Value::string(ranks.join(","))),
            info(keys::LOCAL_PROCS, Value::procs(procs)),
            info(keys::TMPDIR, path(directories.top())),
            info(keys::NSDIR, path(own.path())),
            info(keys::NODE_OVERSUBSCRIBED, Value::Bool(binding.is_oversubscribed(self.ranks_on_node()))),
        ];
        let cpusets: Option<Vec<String>> = self.ranks.numbers().map(|number| binding.cpuset_list(number)).collect();
        infos.extend(cpusets.map(|sets| info(keys::LOCAL_CPUSETS, Value::string(sets.join(":")))));
        infos.extend(available_memory().map(|bytes| info(keys::AVAIL_PHYS_MEMORY, Value::Uint64(bytes))));
        array(keys::NODE_INFO_ARRAY, infos)
    }

    fn rank(&self, rank: u32, binding: &Binding, own: &JobDirectory) -> Info {
        let small = |number: u32| Value::Uint16(u16::try_from(number).unwrap_or(u16::MAX));
        let number = self.ranks.first + rank;
        let (app, first) = self.plan.app_of(rank);
        let mut infos = vec![
            info(keys::RANK, Value::Rank(Rank(rank))),
            info(keys::APPNUM, Value::Uint32(app)),
            info(keys::APPLDR, Value::Rank(Rank(first))),
            info(keys::APP_RANK, Value::Rank(Rank(rank - first))),
            info(keys::GLOBAL_RANK, Value::Rank(Rank(number))),
            info(keys::LOCAL_RANK, small(rank)),
            info(keys::NODE_RANK, small(number)),
            info(keys::NODEID, Value::Uint32(0)),
            info(keys::HOSTNAME, Value::string(&self.session.hostname)),
            info(keys::REINCARNATION, Value::Uint32(0)),
            info(keys::SPAWNED, Value::Bool(self.plan.parent.is_some())),
            info(keys::PROCDIR, path(&own.rank(rank))),
        ];
        // Processes ask for it by the job's name and by their own; both name the same.
        infos.extend(self.plan.parent.iter().map(|parent| info(keys::PARENT_ID, Value::Proc(parent.clone()))));
        infos.extend(binding.cpuset_list(number).map(|list| info(keys::CPUSET, Value::string(list))));
        infos.extend(binding.locality(number).map(|text| info(keys::LOCALITY_STRING, Value::string(text))));
        array(keys::PROC_INFO_ARRAY, infos)
    }
}

/// Where the ranks are to wait for a debugger, for the ranks themselves.
fn stops(stops: &Stops) -> impl Iterator<Item = Info> {
    let in_init = stops.in_init.then(|| info(keys::DEBUG_STOP_IN_INIT, Value::Bool(true)));
    let in_app = stops.in_app.as_ref().map(|_| info(keys::DEBUG_STOP_IN_APP, Value::Bool(true)));
    let breakpoint = stops.in_app.iter().flatten().map(|name| info(keys::BREAKPOINT, Value::string(name)));
    in_init.into_iter().chain(in_app).chain(breakpoint)
}

fn path(path: &Path) -> Value {
    Value::string(path.as_os_str().as_encoded_bytes())
}

/// `MemAvailable` of `/proc/meminfo`, in bytes.
fn available_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}
