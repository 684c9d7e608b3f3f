//! `pmixrun`: jobs on one node, with the server embedded in the launcher.

mod acknowledged;
pub mod args;
mod binding;
mod checkpoint;
mod clerk;
mod control;
mod credentials;
mod directories;
mod frame;
mod front;
mod groups;
mod halts;
mod hang;
mod host;
mod hosts;
mod job;
mod log;
mod output;
mod partner;
mod placement;
mod pmi;
mod published;
mod ranks;
mod refused;
mod report;
mod server;
mod spelling;
mod supervise;
mod table;
mod watchdog;

use std::io::Write;
use std::rc::Rc;
use std::sync::Arc;

use pmix_client::rendezvous::Point;
use pmix_dstore::model::{Info, InfoFlags, Nspace, Status, Value, keys};

use self::args::{AppArgs, Args, Mode, RANKS_MAX};
use self::binding::Binding;
use self::directories::Directories;
use self::host::{Beside, Jobs, RunHost};
use self::job::{Application, Plan, Session};
use self::partner::{Partner, Unstarted};
use self::ranks::Program;
use self::server::Serving;
use self::supervise::Launcher;
use self::watchdog::Watchdog;
use crate::usage;

/// Exit status of a job that could not be started.
const EXIT_SETUP: i32 = 125;

/// Exit status of a successful job whose report could not be written.
const EXIT_OUTPUT: i32 = 1;

/// Runs a job to its end; returns the exit status.
pub fn run(args: &Args) -> i32 {
    let ended = match &args.mode {
        Mode::Front(dvm) => front::run(args, dvm),
        Mode::Job | Mode::Serve => set_up_and_run(args),
    };
    match ended {
        Ok(status) => status,
        Err(message) => {
            complain(&message);
            EXIT_SETUP
        }
    }
}

/// Whether this is the process of a launcher's server, and not a launcher: then it serves, and this is its exit status.
pub fn serve_launcher(words: impl Iterator<Item = impl AsRef<std::ffi::OsStr>>) -> Option<i32> {
    let launcher = server::process::launcher(words)?;
    Some(match server::process::run(&launcher) {
        Ok(()) => 0,
        Err(message) => {
            complain(&message);
            EXIT_SETUP
        }
    })
}

/// Prints a message to the user.
fn complain(message: &str) {
    usage::complain("pmixrun", message);
}

fn set_up_and_run(args: &Args) -> Result<i32, String> {
    args.warnings.iter().for_each(|warning| complain(warning));
    args.outlets.check()?;
    ranks::bear_full_files()?;
    let of = |app: &AppArgs| Program::of(app, &args.library, args.stops.on_exec);
    let apps =
        args.apps.iter().map(|app| Ok(Application { program: of(app)?, ranks: app.ranks, pset: app.pset.clone() }));
    let apps = apps.collect::<Result<Vec<_>, String>>()?;
    // Dropped at the end of this function, after everything that it guards.
    let programs: Vec<Program> = apps.iter().map(|app| app.program.clone()).collect();
    let watchdog = Rc::new(Watchdog::begin(&programs)?);
    leave_out_plugins();
    let is_serving = args.mode == Mode::Serve;
    // How many ranks the jobs of a persistent launcher will have is not known.
    let ranks = if is_serving { RANKS_MAX } else { args.ranks() };
    let binding = Binding::new(args.bind_to, ranks)?;
    // From here on a signal ends the job, not the launcher, because the launcher must clean up.
    let signals = supervise::block_signals()?;
    let directories = Directories::create(&args.tmpdir, ranks, &watchdog)?;
    let universe = if is_serving { binding.slots() } else { ranks };
    let session = Session::new(universe, args.bind_to, args.cluster_id.clone())?;
    let jobs = Jobs::default();
    let mut beside = Beside { published: Arc::default(), partner: None, outlets: args.outlets.clone() };
    let partner = args.partner.as_ref().zip(args.cluster_id.as_ref());
    let partner = partner.map(|(socket, cluster)| Partner::open(socket, cluster, Arc::clone(&beside.published)));
    let partner = partner.transpose()?;
    beside.partner = partner.as_ref().map(Unstarted::partner);
    let (host, events) = RunHost::new(Arc::clone(&jobs), &session.server.nspace, beside)?;
    let server = begin_server(args, &session, &directories, Arc::new(host))?;
    let in_this_process = server.in_this_process();
    let partner = partner.zip(in_this_process).map(|(partner, server)| partner.start(server)).transpose()?;
    let stops = args.stops.clone();
    let plan = (!is_serving).then_some(Plan { apps, stops, parent: None, others: Vec::new(), has_input: true });
    if is_serving {
        report_uri(args, &server)?;
        say_how_to_reach(&session.server.nspace)?;
    }
    let launcher =
        Launcher { args, watchdog: &watchdog, binding: &binding, directories: &directories, server: &server };
    let ended = supervise::supervise(launcher, session, plan, (jobs, events), signals)?;
    let is_reported = args.report.is_none() || report::print(args, &server.stats(), &ended);
    drop(partner);
    server.finalize();
    Ok(if ended.exit_status == 0 && !is_reported { EXIT_OUTPUT } else { ended.exit_status })
}

/// Starts the server where the command line wants it.
fn begin_server(
    args: &Args,
    session: &Session,
    directories: &Directories,
    host: Arc<RunHost>,
) -> Result<Serving, String> {
    let mut infos = server_infos(args, session, directories);
    let Some(seconds) = args.restart else { return Serving::here(host, &infos) };
    // Tools find the server also by the number of this process, which stays.
    let name = Point::Server(&std::process::id().to_string()).file_name(&session.hostname);
    let file = directories.top().join(name);
    infos.push(Info::new(keys::LAUNCHER_RENDEZVOUS_FILE, Value::string(file.as_os_str().as_encoded_bytes())));
    Serving::restartable(host, infos, seconds, directories.lock()?)
}

/// What the server is told of itself.
fn server_infos(args: &Args, session: &Session, directories: &Directories) -> Vec<Info> {
    let mut infos = vec![
        Info::new(keys::SERVER_NSPACE, Value::string(session.server.nspace.as_bytes())),
        Info::new(keys::SERVER_RANK, Value::Rank(session.server.rank)),
        Info::new(keys::SERVER_TMPDIR, Value::string(directories.top().as_os_str().as_encoded_bytes())),
        Info::new(keys::HOSTNAME, Value::string(&session.hostname)),
        // Rendezvous files in the directory above, by which tools find the server: one without a name, one by its process and one by its
        // namespace. They are removed with it.
        Info::new(keys::SERVER_SESSION_SUPPORT, Value::Bool(true)),
        Info::new(keys::SERVER_TOOL_SUPPORT, Value::Bool(true)),
    ];
    if args.remote {
        // Who asks for it must not wait for tools that cannot come.
        infos
            .push(Info { flags: InfoFlags::REQUIRED, ..Info::new(keys::SERVER_REMOTE_CONNECTIONS, Value::Bool(true)) });
    }
    infos
}

/// Writes the server's address where the command line wants it.
fn report_uri(args: &Args, server: &Serving) -> Result<(), String> {
    args.report_uri.as_ref().map_or(Ok(()), |target| server.report_uri(target))
}

/// The one line that a persistent launcher prints.
fn say_how_to_reach(nspace: &Nspace) -> Result<(), String> {
    let pid = std::process::id();
    let line = format!(
        "pmixrun serves as {nspace}: pmixrun --dvm {pid} -n N PROGRAM starts a job, pmixctl ps --pid {pid} lists them\n"
    );
    let mut stdout = std::io::stdout();
    let written = stdout.write_all(line.as_bytes()).and_then(|()| stdout.flush());
    match usage::is_written(&written) {
        true => Ok(()),
        false => Err("cannot write to standard output".to_owned()),
    }
}

/// Lets hwloc look for no plugins in this process. They use hwloc's functions by name, which they find only in a program that is linked to
/// hwloc; here they fail to load, and to try takes longer than to discover the processors. A user's own directory of plugins counts.
/// Ranks do not get the variable: the watchdog, which starts them, is another process.
#[expect(clippy::disallowed_methods, reason = "the process is our own and has no other thread yet")]
fn leave_out_plugins() {
    const DIRECTORY: &str = "HWLOC_PLUGINS_PATH";
    if std::env::var_os(DIRECTORY).is_none() {
        // SAFETY: the launcher, which is the only caller, has one thread until its server starts.
        unsafe { std::env::set_var(DIRECTORY, "/nonexistent") };
    }
}

/// Checks the server's answer to a registration.
fn check(what: &str, status: Status) -> Result<(), String> {
    match status {
        Status::SUCCESS | Status::OPERATION_SUCCEEDED => Ok(()),
        status => Err(format!("cannot {what}: {status}")),
    }
}

/// A namespace from a text that is short enough.
fn nspace(text: String) -> Result<Nspace, String> {
    Nspace::new(&text).map_err(|error| format!("namespace {text}: {error}"))
}
