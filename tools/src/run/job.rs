//! The registration of the job: all attributes that the standard's server chapter requires.

use std::ffi::CString;
use std::path::Path;

use pmix_dstore::model::{Info, Nspace, Proc, Rank, Value, keys};

use super::args::Args;
use super::binding::Binding;
use super::directories::Directories;
use super::placement::BindTo;

/// A job on one node with one application.
pub(super) struct Job {
    /// Its namespace.
    pub nspace: Nspace,
    /// The launcher's server.
    pub server: Proc,
    /// The node's name.
    pub hostname: String,
    /// The file of the ranks' program, with its whole path.
    pub executable: CString,
    infos: Vec<Info>,
}

fn info(key: &'static str, value: Value) -> Info {
    Info::new(key, value)
}

fn array(key: &'static str, infos: Vec<Info>) -> Info {
    info(key, Value::infos(infos))
}

impl Job {
    /// Names the job and collects its data.
    pub fn new(args: &Args, program: &Path, binding: &Binding, directories: &Directories) -> Result<Job, String> {
        let pid = std::process::id();
        let full_name = nix::unistd::gethostname().ok().and_then(|name| name.into_string().ok()).unwrap_or_default();
        let hostname = full_name.split('.').next().filter(|name| !name.is_empty()).unwrap_or("localhost").to_owned();
        // Without a dot in the server's: stock tools take an address's text up to its first dot for the namespace.
        let nspace = super::nspace(format!("pmixrun-{hostname}-{pid}.job"))?;
        let server = Proc::new(super::nspace(format!("pmixrun-{hostname}-{pid}"))?, Rank(0));
        let executable = std::path::absolute(program).unwrap_or_else(|_| program.to_owned());
        let executable = CString::new(executable.into_os_string().into_encoded_bytes()).unwrap_or_default();
        let mut job = Job { nspace, server, hostname, executable, infos: Vec::new() };
        let mut infos = vec![
            job.session(args, directories),
            job.job_level(args, binding, directories),
            job.app(args),
            job.node(args, binding, directories, &full_name),
        ];
        infos.extend((0..args.ranks).map(|rank| job.rank(rank, binding, directories)));
        job.infos = infos;
        Ok(job)
    }

    /// The info array for the registration.
    pub fn infos(&self) -> Vec<Info> {
        self.infos.clone()
    }

    fn session(&self, args: &Args, directories: &Directories) -> Info {
        array(
            keys::SESSION_INFO_ARRAY,
            vec![
                info(keys::SESSION_ID, Value::Uint32(std::process::id())),
                info(keys::UNIV_SIZE, Value::Uint32(args.ranks)),
                info(keys::MAX_PROCS, Value::Uint32(args.ranks)),
                info(keys::ALLOCATED_NODELIST, Value::string(&self.hostname)),
                info(keys::TMPDIR, path(directories.top())),
                info(keys::TDIR_RMCLEAN, Value::Bool(true)),
                info(keys::RM_NAME, Value::string("pmixrun")),
                info(keys::RM_VERSION, Value::string(env!("CARGO_PKG_VERSION"))),
            ],
        )
    }

    fn job_level(&self, args: &Args, binding: &Binding, directories: &Directories) -> Info {
        let bind_to = match args.bind_to {
            BindTo::None => "none",
            BindTo::Core => "core",
        };
        let ranks = format!("0-{}", args.ranks - 1);
        let topology = |key| binding.topology().map(|xml| info(key, Value::String(Some(xml.clone()))));
        let mut infos = vec![
            info(keys::SERVER_NSPACE, Value::string(self.server.nspace.as_bytes())),
            info(keys::SERVER_RANK, Value::Rank(self.server.rank)),
            info(keys::NSPACE, Value::string(self.nspace.as_bytes())),
            info(keys::JOBID, Value::string(self.nspace.as_bytes())),
            info(keys::JOB_SIZE, Value::Uint32(args.ranks)),
            info(keys::MAX_PROCS, Value::Uint32(args.ranks)),
            info(keys::NUM_SLOTS, Value::Uint32(binding.slots())),
            info(keys::NPROC_OFFSET, Value::Uint32(0)),
            info(keys::JOB_NUM_APPS, Value::Uint32(1)),
            info(keys::NODE_MAP, Value::string(&self.hostname)),
            info(keys::PROC_MAP, Value::string(if args.ranks == 1 { "0".into() } else { ranks })),
            info(keys::MAPBY, Value::string("slot")),
            info(keys::RANKBY, Value::string("slot")),
            info(keys::BINDTO, Value::string(bind_to)),
            info(keys::NSDIR, path(directories.job())),
        ];
        // Open MPI 4 reads the first, `PMIx_Load_topology` the second.
        infos.extend([keys::LOCAL_TOPO, keys::HWLOC_XML_V2].into_iter().filter_map(topology));
        infos.extend(stops(args));
        array(keys::JOB_INFO_ARRAY, infos)
    }

    fn app(&self, args: &Args) -> Info {
        let words = std::iter::once(&args.program).chain(&args.args);
        let argv = words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ");
        let mut infos = vec![
            info(keys::APPNUM, Value::Uint32(0)),
            info(keys::APP_SIZE, Value::Uint32(args.ranks)),
            info(keys::MAX_PROCS, Value::Uint32(args.ranks)),
            info(keys::APPLDR, Value::Rank(Rank(0))),
            info(keys::APP_ARGV, Value::string(argv)),
        ];
        let wdir = args.wdir.as_ref().map_or_else(std::env::current_dir, std::path::absolute);
        if let Ok(directory) = wdir {
            infos.push(info(keys::WDIR, path(&directory)));
        }
        array(keys::APP_INFO_ARRAY, infos)
    }

    fn node(&self, args: &Args, binding: &Binding, directories: &Directories, full_name: &str) -> Info {
        let ranks: Vec<String> = (0..args.ranks).map(|rank| rank.to_string()).collect();
        let procs = (0..args.ranks).map(|rank| Proc::new(self.nspace.clone(), Rank(rank)));
        let mut infos = vec![
            info(keys::HOSTNAME, Value::string(&self.hostname)),
            info(keys::NODEID, Value::Uint32(0)),
            info(keys::HOSTNAME_ALIASES, Value::string(full_name)),
            info(keys::LOCAL_SIZE, Value::Uint32(args.ranks)),
            info(keys::NODE_SIZE, Value::Uint32(args.ranks)),
            info(keys::MAX_PROCS, Value::Uint32(binding.slots())),
            info(keys::LOCALLDR, Value::Rank(Rank(0))),
            info(keys::LOCAL_PEERS, Value::string(ranks.join(","))),
            info(keys::LOCAL_PROCS, Value::procs(procs)),
            info(keys::TMPDIR, path(directories.top())),
            info(keys::NSDIR, path(directories.job())),
            info(keys::NODE_OVERSUBSCRIBED, Value::Bool(binding.is_oversubscribed(args.ranks))),
        ];
        let cpusets: Option<Vec<String>> = (0..args.ranks).map(|rank| binding.cpuset_list(rank)).collect();
        infos.extend(cpusets.map(|sets| info(keys::LOCAL_CPUSETS, Value::string(sets.join(":")))));
        infos.extend(available_memory().map(|bytes| info(keys::AVAIL_PHYS_MEMORY, Value::Uint64(bytes))));
        array(keys::NODE_INFO_ARRAY, infos)
    }

    fn rank(&self, rank: u32, binding: &Binding, directories: &Directories) -> Info {
        let local = Value::Uint16(u16::try_from(rank).unwrap_or(u16::MAX));
        let mut infos = vec![
            info(keys::RANK, Value::Rank(Rank(rank))),
            info(keys::APPNUM, Value::Uint32(0)),
            info(keys::APPLDR, Value::Rank(Rank(0))),
            info(keys::APP_RANK, Value::Rank(Rank(rank))),
            info(keys::GLOBAL_RANK, Value::Rank(Rank(rank))),
            info(keys::LOCAL_RANK, local.clone()),
            info(keys::NODE_RANK, local),
            info(keys::NODEID, Value::Uint32(0)),
            info(keys::HOSTNAME, Value::string(&self.hostname)),
            info(keys::REINCARNATION, Value::Uint32(0)),
            info(keys::SPAWNED, Value::Bool(false)),
            info(keys::PROCDIR, path(&directories.rank(rank))),
        ];
        infos.extend(binding.cpuset_list(rank).map(|list| info(keys::CPUSET, Value::string(list))));
        infos.extend(binding.locality(rank).map(|text| info(keys::LOCALITY_STRING, Value::string(text))));
        array(keys::PROC_INFO_ARRAY, infos)
    }
}

/// Where the ranks are to wait for a debugger, for the ranks themselves.
fn stops(args: &Args) -> impl Iterator<Item = Info> {
    let in_init = args.stops.in_init.then(|| info(keys::DEBUG_STOP_IN_INIT, Value::Bool(true)));
    let in_app = args.stops.in_app.as_ref().map(|_| info(keys::DEBUG_STOP_IN_APP, Value::Bool(true)));
    let breakpoint = args.stops.in_app.iter().flatten().map(|name| info(keys::BREAKPOINT, Value::string(name)));
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
