//! `pmixrun --dvm`: the front end of a job in a persistent `pmixrun`. It is a tool there: it starts the job by `PMIx_Spawn`, writes its
//! output, sends its input, and ends as the job ends.

mod input;
mod reconnect;

use std::collections::HashMap;
use std::ffi::{CString, OsStr, OsString};
use std::io::IsTerminal;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crossbeam::channel::{Receiver, Sender, unbounded};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::signal::Signal;
use nix::sys::signalfd::SignalFd;
use nix::unistd::write;
use parking_lot::Mutex;
use pmix_client::events::range;
use pmix_client::output::{IoDelivery, STDOUT};
use pmix_client::{Client, Environment, Event, EventDone, HandlerId, tool};
use pmix_dstore::model::{App, Info, Nspace, Proc, Rank, Status, Value, keys};
use pmix_dstore::settings::is_of_launcher;

use self::input::CurrentClient;
use super::args::{AppArgs, Args, Dvm, Library};
use super::output::{Lines, Stream};
use super::ranks::Program;
use super::supervise::{block_signals, is_in_foreground, next_signal};
use super::{EXIT_OUTPUT, acknowledged, complain};

/// The most output that is on its way or waits to be written. The library drops what comes faster from 16 MiB on.
const WINDOW: u64 = 1 << 20;
/// The interval at which the front end checks whether it may read its terminal.
const FOREGROUND_CHECK: Duration = Duration::from_millis(200);
/// How long it waits for the end of the job after the grace period is over.
const PATIENCE: Duration = Duration::from_secs(30);

/// What the main thread must hear of.
enum News {
    /// A job has ended, with this exit status; all its output was written before.
    End(Nspace, i32),
    /// The same of the job of this front end.
    OwnEnd(i32),
    /// The connection of this number is lost.
    Lost(u32),
    /// The launcher waits so many seconds at this address for this process to reconnect.
    MayReconnect(u32, String),
    /// Reconnected: the connection's number, and total bytes written at that time.
    Reconnected(Arc<Client>, u32, u64),
    /// It could not.
    NotReconnected,
    /// Output was written.
    Written,
    /// Nobody reads the output any more.
    Closed,
    /// Output cannot be written.
    Failed(&'static str, Errno),
}

/// Sends news to the main thread and wakes it.
#[derive(Clone)]
struct Teller {
    sender: Sender<News>,
    wake: Arc<EventFd>,
    /// The number of the connection.
    connection: u32,
    /// How much output was written over all of them.
    written: Arc<AtomicU64>,
}

impl Teller {
    fn tell(&self, news: News) {
        // The receiver lives as long as the process.
        let _ = self.sender.send(news);
        let _ = self.wake.write(1);
    }
}

/// Runs a job in the persistent launcher to its end; returns the exit status.
pub(super) fn run(args: &Args, dvm: &Dvm) -> Result<i32, String> {
    args.warnings.iter().for_each(|warning| complain(warning));
    super::ranks::bear_full_files()?;
    let apps = args.apps.iter().map(|app| application(app, args)).collect::<Result<Vec<App>, String>>()?;
    let signals = block_signals()?;
    let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
    let wake = Arc::new(EventFd::from_flags(flags).map_err(|error| format!("eventfd: {error}"))?);
    let (sender, news) = unbounded();
    let written = Arc::new(AtomicU64::new(0));
    let teller = Teller { sender, wake: Arc::clone(&wake), connection: 0, written };
    let starting = teller.clone();
    let (client, job) = unless_ended(&signals, || start(args, dvm, apps, starting))?;
    let mut front = Front {
        client: Arc::new(client),
        current: Arc::default(),
        way: reconnect::Way { dvm: dvm.clone(), address: None, is_tagged: args.tag_output, teller },
        seconds: None,
        is_away: false,
        last_lost: 0,
        job: Proc::new(job, Rank::WILDCARD),
        news,
        wake,
        signals,
        said: 0,
        ended: None,
        job_end: None,
        signal: None,
        has_lost_output: false,
        late_at: None,
        wants_input: true,
        grace: args.grace,
    };
    let exit = front.wait();
    // The job has ended; a server that is lost meanwhile changes nothing.
    let _ = front.client.finalize(&[]);
    Ok(exit)
}

/// Has a thread do what may wait for the persistent launcher; a signal to end ends the process meanwhile.
fn unless_ended<T: Send>(signals: &SignalFd, work: impl FnOnce() -> Result<T, String> + Send) -> Result<T, String> {
    // The worker's end of the pipe is closed when it returns, and when it panics.
    let (done, working) = std::io::pipe().map_err(|error| format!("a pipe: {error}"))?;
    std::thread::scope(|scope| {
        let worker = std::thread::Builder::new().name("pmixrun-start".into()).spawn_scoped(scope, move || {
            let _working = working;
            work()
        });
        let worker = worker.map_err(|error| format!("no thread to start the job: {error}"))?;
        loop {
            let mut polled = [done.as_fd(), signals.as_fd()].map(|fd| PollFd::new(fd, PollFlags::POLLIN));
            // An error shows at the next attempt.
            let _ = poll(&mut polled, PollTimeout::NONE);
            if polled[0].any().unwrap_or(false) {
                break;
            }
            // Signals for the ranks come too early.
            let is_end = |signal: &Signal| !matches!(signal, Signal::SIGUSR1 | Signal::SIGUSR2);
            if let Some(signal) = std::iter::from_fn(|| next_signal(signals)).find(is_end) {
                complain(&format!(
                    "{signal}: the persistent pmixrun has not answered yet; it ends what it starts for this one"
                ));
                // It ends the job of a tool that is lost. A finalize would wait for it.
                std::process::exit(128 + signal as i32);
            }
        }
        worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Starts the job in the persistent launcher; returns its name.
fn start(args: &Args, dvm: &Dvm, apps: Vec<App>, teller: Teller) -> Result<(Client, Nspace), String> {
    let (client, _) = connect(dvm, &[])?;
    hear(&client, teller.clone(), Vec::new())?;
    write_output(&client, args.tag_output, teller);
    let job = client.spawn(of_job(args), apps).wait().map_err(|status| match status {
        Status::ERR_LOST_CONNECTION => "the persistent pmixrun is gone".to_owned(),
        status => format!("the persistent pmixrun starts no job: {status}"),
    })?;
    Ok((client, job))
}

/// Connects to the persistent launcher as a tool, with these attributes. Returns also the name of the server there.
fn connect(dvm: &Dvm, infos: &[Info]) -> Result<(Client, Option<Proc>), String> {
    let (info, name) = match dvm {
        Dvm::Pid(pid) => (Info::new(keys::SERVER_PIDINFO, Value::Pid(pid.cast_signed())), format!("process {pid}")),
        Dvm::Nspace(nspace) => (Info::new(keys::SERVER_NSPACE, Value::string(nspace)), nspace.clone()),
        Dvm::Uri(uri) => (Info::new(keys::SERVER_URI, Value::string(uri)), uri.clone()),
    };
    let env = Environment::from_process().map_err(|status| format!("the PMIX_ variables of this process: {status}"))?;
    let refused = |status| {
        format!(
            "cannot reach the persistent pmixrun {name}: {status}; pmixctl servers lists what this user can reach, and pmixrun --serve starts one"
        )
    };
    let infos: Vec<Info> = std::iter::once(info).chain(infos.iter().cloned()).collect();
    let (client, servers) = tool::connect(env, &infos).map_err(refused)?;
    Ok((client, servers.all().into_iter().next()))
}

/// An application for the persistent launcher, with the environment and the directory of this process.
fn application(app: &AppArgs, args: &Args) -> Result<App, String> {
    let program = Program::of(app, &Library::System, args.stops.on_exec)?;
    let text =
        |word: &OsStr| CString::new(word.as_bytes()).map_err(|_| format!("{}: has a NUL", word.to_string_lossy()));
    // The last of several values of a variable counts, also there.
    let mut variables: HashMap<OsString, OsString> =
        std::env::vars_os().filter(|(name, _)| !is_of_launcher(name)).collect();
    variables.extend(program.variables.iter().cloned());
    let env = variables
        .into_iter()
        .map(|(name, value)| text(OsStr::from_bytes(&[name.as_bytes(), b"=", value.as_bytes()].concat())));
    let directory = match program.wdir.clone() {
        Some(directory) => directory,
        None => std::env::current_dir().map_err(|error| format!("the directory of this process: {error}"))?,
    };
    let path = std::path::absolute(&program.path).map_err(|error| format!("{}: {error}", program.path.display()))?;
    let mut infos = Vec::new();
    infos.extend(app.pset.as_ref().map(|name| Info::new(keys::PSET_NAME, Value::String(Some(name.clone())))));
    infos.extend(args.stops.on_exec.then(|| Info::new(keys::DEBUG_STOP_ON_EXEC, Value::Bool(true))));
    Ok(App {
        cmd: Some(text(path.as_os_str())?),
        argv: std::iter::once(&program.name).chain(&program.args).map(|word| text(word)).collect::<Result<_, _>>()?,
        env: env.collect::<Result<_, _>>()?,
        cwd: Some(text(directory.as_os_str())?),
        maxprocs: i32::try_from(app.ranks).unwrap_or(i32::MAX),
        infos,
    })
}

/// The attributes of the job.
fn of_job(args: &Args) -> Vec<Info> {
    let is = |key| Info::new(key, Value::Bool(true));
    let mut infos = vec![
        is(keys::FWD_STDOUT),
        is(keys::FWD_STDERR),
        Info::new(keys::FWD_STDIN, Value::Rank(Rank(0))),
        Info::new(acknowledged::WINDOW, Value::Uint64(WINDOW)),
        is(acknowledged::RECONNECTS),
    ];
    infos.extend(args.timeout.map(|time| Info::new(keys::JOB_TIMEOUT, Value::Double(time.as_secs_f64()))));
    infos.extend(args.stops.in_init.then(|| is(keys::DEBUG_STOP_IN_INIT)));
    infos.extend(args.stops.in_app.as_ref().map(|_| is(keys::DEBUG_STOP_IN_APP)));
    let breakpoint = args.stops.in_app.iter().flatten();
    infos.extend(breakpoint.map(|name| Info::new(keys::BREAKPOINT, Value::string(name))));
    infos
}

/// Hears of the ends of jobs, of the end of the launcher, and of what it says of that.
fn hear(client: &Client, teller: Teller, infos: Vec<Info>) -> Result<(), String> {
    let me = client.me().clone();
    let on_event = move |_: HandlerId, event: Event, done: EventDone| {
        if event.status == Status::ERR_LOST_CONNECTION {
            // Programs may send events of this code, too.
            if event.source == me {
                teller.tell(News::Lost(teller.connection));
            }
        } else if let Some((seconds, address)) = acknowledged::invitation(event.status, &event.infos) {
            teller.tell(News::MayReconnect(seconds, address));
        } else if let Some(exit) = acknowledged::ended(event.status, &event.infos) {
            teller.tell(News::OwnEnd(exit));
        } else if let Some(Value::Proc(job)) = Info::find(&event.infos, keys::EVENT_AFFECTED_PROC)
            // By a later connection the server's copy of the event comes, before the output.
            && teller.connection == 0
        {
            let exit = match Info::find(&event.infos, keys::EXIT_CODE) {
                Some(Value::Int(exit) | Value::Int32(exit)) => Some(*exit),
                _ => None,
            };
            let status = match Info::find(&event.infos, keys::JOB_TERM_STATUS) {
                Some(Value::Status(status)) => *status,
                _ => Status::SUCCESS,
            };
            let exit = exit.unwrap_or(i32::from(!status.is_success()));
            teller.tell(News::End(job.nspace.clone(), exit));
        }
        done.finish(Status::SUCCESS, Vec::new());
    };
    let codes = vec![Status::EVENT_JOB_END, Status::ERR_LOST_CONNECTION, acknowledged::CODE];
    let registered = client.register_event_handler(codes, infos, Arc::new(on_event)).wait();
    registered.map(drop).map_err(|status| format!("the persistent pmixrun takes no event handler: {status}"))
}

/// Has output written as it comes.
fn write_output(client: &Client, is_tagged: bool, teller: Teller) {
    let lines: Mutex<HashMap<(Proc, bool), Lines>> = Mutex::default();
    client.hand_output_to(Arc::new(move |output: &IoDelivery| {
        let is_out = output.channel == STDOUT;
        // What the launcher itself says of the job has no mark.
        let written = if is_tagged && output.source.rank != Rank::WILDCARD {
            let stream = if is_out { Stream::Out } else { Stream::Err };
            let rank = output.source.rank.to_string();
            let mut lines = lines.lock();
            let lines = lines.entry((output.source.clone(), is_out));
            // Pieces are whole lines, but for very long ones and for the last one.
            let lines = lines.or_insert_with(|| Lines::new(&rank, stream, true));
            let mut whole = lines.take(&output.data);
            if !output.data.ends_with(b"\n") {
                whole.extend(lines.finish());
            }
            write_all(is_out, &whole)
        } else {
            write_all(is_out, &output.data)
        };
        match written {
            Ok(()) => {}
            Err(Errno::EPIPE) => teller.tell(News::Closed),
            Err(error) => teller.tell(News::Failed(if is_out { "standard output" } else { "standard error" }, error)),
        }
        teller.written.fetch_add(output.data.len() as u64, Ordering::AcqRel);
        teller.tell(News::Written);
    }));
}

/// Writes to one of the own streams.
fn write_all(is_out: bool, mut bytes: &[u8]) -> Result<(), Errno> {
    let (stdout, stderr) = (std::io::stdout(), std::io::stderr());
    let fd = if is_out { stdout.as_fd() } else { stderr.as_fd() };
    while !bytes.is_empty() {
        match write(fd, bytes) {
            Ok(len) => bytes = &bytes[len..],
            Err(Errno::EINTR) => {}
            // Whoever has started this process may have made the stream non-blocking.
            Err(Errno::EAGAIN) => drop(poll(&mut [PollFd::new(fd, PollFlags::POLLOUT)], PollTimeout::NONE)),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// The front end while its job runs.
struct Front {
    client: Arc<Client>,
    /// The same for who sends input.
    current: CurrentClient,
    /// How the launcher is reached again.
    way: reconnect::Way,
    /// For how many seconds it waits then; none if it does not.
    seconds: Option<u32>,
    /// The connection is lost, and another one is tried.
    is_away: bool,
    /// The last connection that was lost meanwhile.
    last_lost: u32,
    /// All ranks of the job.
    job: Proc,
    news: Receiver<News>,
    wake: Arc<EventFd>,
    signals: SignalFd,
    /// How much output the launcher knows to be written.
    said: u64,
    /// The exit status of the job, when all is done.
    ended: Option<i32>,
    /// The exit status that was heard; the new connection may not be in use yet.
    job_end: Option<i32>,
    /// The signal that has ended the job.
    signal: Option<Signal>,
    has_lost_output: bool,
    /// The time at which the front end waits no more.
    late_at: Option<Instant>,
    /// Whether the input is not forwarded yet.
    wants_input: bool,
    grace: Duration,
}

impl Front {
    /// Waits for the end of the job; returns the exit status.
    fn wait(&mut self) -> i32 {
        loop {
            self.take_news();
            if let Some(exit) = self.ended {
                let of_signal = self.signal.map(|signal| 128 + signal as i32);
                return match of_signal.unwrap_or(exit) {
                    0 if self.has_lost_output => EXIT_OUTPUT,
                    exit => exit,
                };
            }
            self.forward_input();
            let now = Instant::now();
            if self.late_at.is_some_and(|at| at <= now) {
                complain("the job does not end, or its output is not read");
                // Not by finalize, which would wait for the thread that writes. The launcher ends the job of a tool that is lost.
                std::process::exit(self.signal.map_or(1, |signal| 128 + signal as i32));
            }
            let input = self.wants_input.then(|| now + FOREGROUND_CHECK);
            let wait = match [input, self.late_at].into_iter().flatten().min() {
                None => PollTimeout::NONE,
                Some(at) => PollTimeout::try_from(at.saturating_duration_since(now) + Duration::from_millis(1))
                    .unwrap_or(PollTimeout::MAX),
            };
            let mut polled = [&self.wake.as_fd(), &self.signals.as_fd()].map(|fd| PollFd::new(*fd, PollFlags::POLLIN));
            // An error shows at the next attempt.
            let _ = poll(&mut polled, wait);
            while let Some(signal) = next_signal(&self.signals) {
                self.obey(signal);
            }
        }
    }

    fn take_news(&mut self) {
        // Reading clears the wake-up; later news wake again.
        let _ = self.wake.read();
        let news: Vec<News> = self.news.try_iter().collect();
        for one in news {
            match one {
                News::End(job, exit) if job == self.job.nspace => self.job_end = Some(exit),
                News::End(..) => {}
                News::OwnEnd(exit) => self.job_end = Some(exit),
                // A persistent launcher that ends tells the ends of the jobs first.
                News::Lost(_) | News::NotReconnected if self.ended.is_some() => {}
                // The new one, before it is in use.
                News::Lost(connection) if self.is_away => self.last_lost = connection,
                News::Lost(connection) if connection != self.way.teller.connection => {}
                News::Lost(_) => self.reconnect(),
                News::MayReconnect(seconds, address) => {
                    self.seconds = Some(seconds);
                    self.way.address = Some(address);
                }
                News::Reconnected(client, connection, said) => self.has_reconnected(client, connection, said),
                News::NotReconnected => self.is_gone(),
                News::Written => {}
                News::Closed => self.end(Signal::SIGPIPE),
                News::Failed(name, error) if !std::mem::replace(&mut self.has_lost_output, true) => {
                    complain(&format!(
                        "cannot write to {name}: {error}; what the ranks print there from here on is lost"
                    ));
                }
                News::Failed(..) => {}
            }
        }
        self.finish();
        let written = self.way.teller.written.load(Ordering::Acquire);
        let unsaid = written.saturating_sub(self.said);
        if unsaid >= WINDOW / 4 && self.ended.is_none() && !self.is_away {
            self.said = written;
            self.tell(acknowledged::infos(unsaid));
        }
    }

    /// Ends when the job has ended, and tells the launcher that.
    fn finish(&mut self) {
        // While it is away, the launcher would not hear that it is to wait no longer.
        if self.job_end.is_some() && self.ended.is_none() && !self.is_away {
            self.ended = self.job_end;
            self.tell(acknowledged::heard_end());
        }
    }

    /// Tells the launcher of output or of the end.
    fn tell(&self, infos: Vec<Info>) {
        let me = self.client.me().clone();
        // A launcher that is gone needs none.
        let _ = self.client.notify_event(acknowledged::CODE, me, range::RM, infos).start(Box::new(|_| ()));
    }

    /// Does what a signal asks for.
    fn obey(&mut self, signal: Signal) {
        match signal {
            Signal::SIGUSR1 | Signal::SIGUSR2 => {
                self.control(Info::new(keys::JOB_CTRL_SIGNAL, Value::Int(signal as i32)));
            }
            // The second request.
            Signal::SIGINT if self.signal.is_some() => self.control(Info::new(keys::JOB_CTRL_KILL, Value::Bool(true))),
            signal => {
                complain(&format!("{signal}: ending the job"));
                self.end(signal);
            }
        }
    }

    /// Ends the job.
    fn end(&mut self, signal: Signal) {
        if self.signal.is_some() || self.ended.is_some() {
            return;
        }
        self.signal = Some(signal);
        self.late_at = Instant::now().checked_add(self.grace + PATIENCE);
        self.control(Info::new(keys::JOB_CTRL_TERMINATE, Value::Bool(true)));
    }

    /// Asks the launcher to do something to the job, whose end is the answer. One that is gone has ended it.
    fn control(&self, directive: Info) {
        let _ = self.client.job_control(vec![self.job.clone()], vec![directive]).start(Box::new(|_| ()));
    }

    /// Forwards the input as soon as it may be read: in the background of a terminal it is for the foreground job.
    fn forward_input(&mut self) {
        if self.wants_input && (!std::io::stdin().is_terminal() || is_in_foreground()) {
            self.wants_input = false;
            let rank = Proc { rank: Rank(0), ..self.job.clone() };
            *self.current.lock() = Some(Arc::clone(&self.client));
            // Without it rank 0 gets no input, and no end of it.
            if let Err(why) = input::forward(rank, Arc::clone(&self.current)) {
                complain(&format!("the input is not forwarded: {why}"));
            }
        }
    }
}
