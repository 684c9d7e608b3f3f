//! `pmixrun`: starts the processes of one job on this node, with a PMIx server inside.
//!
//! * [`options`]: the command line.
//! * [`job`]: what the server is told about the job; [`binding`]: which core a rank has.
//! * [`ranks`]: the processes; [`output`]: their output, line by line.
//! * [`host`]: what the server asks of the launcher; [`store`]: published values.
//! * [`supervise`]: the loop that watches over all of these; [`report`]: what it tells at the end.

mod binding;
mod host;
mod job;
mod options;
mod output;
mod ranks;
mod report;
mod store;
mod supervise;

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::unistd::{getgid, gethostname, getuid};
use pmix_dstore::model::{Info, Nspace, Proc, Rank, Status, Value, keys};
use pmix_server::Server;

use self::binding::Cores;
use self::host::LaunchHost;
use self::job::{JobPlan, Place};
use self::options::{Binding, Options, Request};
use self::report::Report;
use self::supervise::{Outcome, Supervisor};

/// Wrong use of the command line.
const EXIT_USAGE: u8 = 2;
/// The launcher itself could not do its work.
const EXIT_FAILED: u8 = 1;
/// As a shell has it: the program cannot be run.
const EXIT_NOT_EXECUTABLE: u8 = 126;
/// As a shell has it: there is no such program.
const EXIT_NOT_FOUND: u8 = 127;

/// Why there was no job, or no end to it: an exit status and a message.
struct Failure {
    status: u8,
    message: String,
}

impl Failure {
    fn new(message: impl Into<String>) -> Failure {
        Failure { status: EXIT_FAILED, message: message.into() }
    }
}

/// What a call of the PMIx server failed with, as a message.
fn pmix_failure(what: &str) -> impl FnOnce(Status) -> Failure {
    move |status| Failure::new(format!("{what}: {status}"))
}

/// Runs `pmixrun` with the arguments after its name; returns its exit status.
pub fn run(args: impl IntoIterator<Item = OsString>) -> u8 {
    match options::parse(args) {
        Ok(Request::Help) => {
            // Nothing useful can be done where the help cannot be written.
            let _ = write!(io::stdout(), "{}", options::HELP);
            0
        }
        Ok(Request::Run(options)) => launch(&options).unwrap_or_else(|failure| {
            complain(&failure.message);
            failure.status
        }),
        Err(message) => {
            complain(&message);
            complain("`pmixrun --help` tells how to use it");
            EXIT_USAGE
        }
    }
}

/// A line on stderr. One that is closed leaves nowhere to complain to.
fn complain(message: &str) {
    let _ = writeln!(io::stderr(), "pmixrun: {message}");
}

fn launch(options: &Options) -> Result<u8, Failure> {
    check_program(&options.command[0])?;
    let cores = match options.binding {
        Binding::None => None,
        Binding::Core => Some(Cores::find().map_err(Failure::new)?),
    };
    let directory = SessionDirectory::make()
        .map_err(|(path, error)| Failure::new(format!("no directory for the job: {}: {error}", path.display())))?;
    let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
    let wake = EventFd::from_flags(flags).map_err(|error| Failure::new(format!("eventfd: {error}")))?;
    let host = Arc::new(LaunchHost::new(wake));
    // Before the server's thread exists, so that no signal finds a thread that would die of it.
    let mut supervisor = Supervisor::new(host.clone(), options).map_err(|error| Failure::new(error.to_string()))?;

    let server = start_server(host, &directory)?;
    let plan = plan(options, cores.as_ref(), &server, &directory)?;
    register(&server, &plan)?;
    let start = Instant::now();
    start_ranks(options, cores.as_ref(), &server, &plan, &mut supervisor)?;
    let forking = start.elapsed();
    let Outcome { status, figures } = supervisor.watch();
    let report = options.report.map(|form| {
        let total = start.elapsed();
        Report { ranks: options.ranks, forking, total, stats: server.stats(), figures }.render(form)
    });
    server.deregister_nspace(&plan.nspace, None);
    server.finalize();
    if let Some(report) = report {
        // As for complaints.
        let _ = write!(io::stderr(), "{report}");
    }
    Ok(status)
}

/// Says early, and once, that there is no such program.
fn check_program(program: &OsStr) -> Result<(), Failure> {
    let name = program.display();
    let candidates: Vec<PathBuf> = if program.as_encoded_bytes().contains(&b'/') {
        vec![program.into()]
    } else {
        let path = env::var_os("PATH").unwrap_or_else(|| "/usr/bin:/bin".into());
        env::split_paths(&path).map(|directory| directory.join(program)).collect()
    };
    let mut failure = Failure { status: EXIT_NOT_FOUND, message: format!("{name}: no such program") };
    for candidate in candidates {
        match fs::metadata(&candidate) {
            Ok(data) if data.is_file() && data.permissions().mode() & 0o111 != 0 => return Ok(()),
            Ok(_) => {
                let message = format!("{}: not an executable file", candidate.display());
                failure = Failure { status: EXIT_NOT_EXECUTABLE, message };
            }
            Err(_) => {}
        }
    }
    Err(failure)
}

fn start_server(host: Arc<LaunchHost>, directory: &SessionDirectory) -> Result<Arc<Server>, Failure> {
    let name = format!("pmixrun-{}", std::process::id());
    let tmpdir = Value::string(directory.path.as_os_str().as_encoded_bytes());
    let infos = [
        Info::new(keys::SERVER_NSPACE, Value::string(name)),
        Info::new(keys::SERVER_RANK, Value::Rank(Rank(0))),
        Info::new(keys::SERVER_TMPDIR, tmpdir.clone()),
        Info::new(keys::SYSTEM_TMPDIR, tmpdir),
        Info::new(keys::HOSTNAME, Value::string(hostname()?)),
    ];
    Server::init(host, &infos).map_err(pmix_failure("the PMIx server does not start"))
}

fn hostname() -> Result<String, Failure> {
    let name = gethostname().map_err(|error| Failure::new(format!("no host name: {error}")))?;
    name.into_string().map_err(|_| Failure::new("the host name is not text"))
}

fn plan(
    options: &Options,
    cores: Option<&Cores>,
    server: &Server,
    directory: &SessionDirectory,
) -> Result<JobPlan, Failure> {
    let pid = std::process::id();
    let nspace = Nspace::new(format!("pmixrun-{pid}-1")).map_err(|error| Failure::new(error.to_string()))?;
    let wdir = env::current_dir().map_err(|error| Failure::new(format!("working directory: {error}")))?;
    let words: Vec<_> = options.command.iter().map(|word| word.to_string_lossy()).collect();
    let plan = JobPlan {
        server: server.me().clone(),
        nspace,
        session_id: pid,
        hostname: hostname()?,
        binding: options.binding,
        places: (0..options.ranks).map(|rank| cores.map_or_else(Place::default, |cores| cores.place(rank))).collect(),
        wdir,
        argv: words.join(" "),
        nsdir: directory.path.join("job"),
        memory: physical_memory(),
    };
    for path in std::iter::once(plan.nsdir.clone()).chain((0..plan.size()).map(|rank| plan.procdir(rank))) {
        private_directory(&path).map_err(|error| Failure::new(format!("{}: {error}", path.display())))?;
    }
    Ok(plan)
}

fn register(server: &Server, plan: &JobPlan) -> Result<(), Failure> {
    let accepted = |status: Status| match status {
        Status::SUCCESS | Status::OPERATION_SUCCEEDED => Ok(()),
        failed => Err(failed),
    };
    let infos = plan.infos().map_err(pmix_failure("describing the job"))?;
    accepted(server.register_nspace(plan.nspace.clone(), plan.size() as i32, infos, None))
        .map_err(pmix_failure("registering the job"))?;
    for rank in 0..plan.size() {
        let proc = Proc::new(plan.nspace.clone(), Rank(rank));
        accepted(server.register_client(proc, getuid().as_raw(), getgid().as_raw(), rank as usize, None))
            .map_err(pmix_failure("registering a rank"))?;
    }
    Ok(())
}

fn start_ranks(
    options: &Options,
    cores: Option<&Cores>,
    server: &Server,
    plan: &JobPlan,
    supervisor: &mut Supervisor,
) -> Result<(), Failure> {
    for rank in 0..plan.size() {
        let proc = Proc::new(plan.nspace.clone(), Rank(rank));
        let mut env = server.setup_fork(&proc).map_err(pmix_failure("preparing a rank's environment"))?;
        // Without a launcher that it recognises, Open MPI 4.1 makes every rank a job of its own. By this variable it
        // takes its general PMIx way, and leaves binding to the launcher.
        env.push(("JSM_JSRUN_PORT".into(), "0".into()));
        let start = ranks::Start { command: &options.command, env: &env, wdir: &plan.wdir, stdin: rank == 0 };
        let started = match cores {
            None => ranks::Rank::start(rank, &start),
            Some(cores) => cores.bound(rank, || ranks::Rank::start(rank, &start)).map_err(Failure::new)?,
        };
        match started {
            Ok((process, streams)) => supervisor.add(process, streams),
            Err(error) => {
                supervisor.abandon();
                let status = match error.kind() {
                    io::ErrorKind::NotFound => EXIT_NOT_FOUND,
                    io::ErrorKind::PermissionDenied => EXIT_NOT_EXECUTABLE,
                    _ => EXIT_FAILED,
                };
                let program = options.command[0].display();
                return Err(Failure { status, message: format!("rank {rank}: {program}: {error}") });
            }
        }
    }
    Ok(())
}

/// The node's memory in bytes.
fn physical_memory() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let kilobytes = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?.trim().strip_suffix(" kB")?;
    kilobytes.parse::<u64>().ok()?.checked_mul(1024)
}

fn private_directory(path: &Path) -> io::Result<()> {
    DirBuilder::new().mode(0o700).create(path)
}

/// The directory of this run, under the user's temporary directory; removed with all it holds.
struct SessionDirectory {
    path: PathBuf,
}

impl SessionDirectory {
    fn make() -> Result<SessionDirectory, (PathBuf, io::Error)> {
        let base = env::temp_dir();
        let pid = std::process::id();
        // A name may be taken by what an earlier process of this number left behind.
        for attempt in 0..100 {
            let path = base.join(format!("pmixrun-{pid}-{attempt}"));
            match private_directory(&path) {
                Ok(()) => return Ok(SessionDirectory { path }),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err((path, error)),
            }
        }
        Err((base, io::ErrorKind::AlreadyExists.into()))
    }
}

impl Drop for SessionDirectory {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.path) {
            complain(&format!("{}: {error}", self.path.display()));
        }
    }
}
