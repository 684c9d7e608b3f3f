//! The server's own process: carries out the launcher's orders, and hands it the server's upcalls.

use std::ffi::{CStr, OsStr};
use std::fs::OpenOptions;
use std::io::{self, BufReader, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Weak};
use std::time::Duration;

use crossbeam::channel::{Receiver, Sender, unbounded};
use nix::sys::prctl;
use nix::sys::signal::{SigSet, Signal};
use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use nix::unistd::{dup2_stdin, dup2_stdout, getppid};
use pmix_dstore::fallible_alloc::{self, Thread};
use pmix_dstore::model::{App, Info, Key, Nspace, Pdata, Proc, Query, Status, keys};
use pmix_server::{Completion, Credential, GroupOperation, Host, Server, UpcallResult};

use super::super::frame;
use super::super::ranks;
use super::calls::Call;
use super::hear;
use super::message::{Order, Reply, ServerMessage};
use super::results;

/// The first word of this process's command line. The second one is the launcher's process.
pub(super) const MODE: &str = "--server-process";
/// How often a new server looks whether it has done something, and for how long.
const LOOK: Duration = Duration::from_millis(10);
const LOOKS: u32 = 1000;
/// Signals of faults of this process.
const FAULTS: [Signal; 7] =
    [Signal::SIGSEGV, Signal::SIGBUS, Signal::SIGILL, Signal::SIGFPE, Signal::SIGABRT, Signal::SIGTRAP, Signal::SIGSYS];
/// Descriptors that a job takes, in ranks.
const DESCRIPTORS_OF_A_JOB: u32 = 3;

/// Whether a command line is that of such a process; returns the launcher's process.
pub fn launcher(mut words: impl Iterator<Item = impl AsRef<OsStr>>) -> Option<String> {
    words.nth(1).filter(|word| word.as_ref() == MODE)?;
    Some(words.next().map_or_else(String::new, |word| word.as_ref().to_string_lossy().into_owned()))
}

/// Serves the launcher to its end.
///
/// # Errors
/// A message for the user.
pub fn run(launcher: &str) -> Result<(), String> {
    let (stream, lock) = stand_alone(launcher).map_err(|error| format!("{MODE} is for pmixrun itself: {error}"))?;
    ranks::bear_full_files()?;
    let writing = stream.try_clone().map_err(|error| error.to_string())?;
    let (frames, queue) = unbounded();
    let writer = fallible_alloc::spawn("pmixrun-say", move || write(writing, &queue));
    let writer = writer.map_err(|error| format!("no thread for the server's messages: {error}"))?;
    let process = Process { teller: Teller(frames), server: None, descriptors: 0 };
    process.serve(stream, writer);
    drop(lock);
    Ok(())
}

/// Separates this process from the launcher's terminal and ties it to the launcher. Returns the socket to it, and the lock of its directory,
/// which were put in the place of the standard streams.
fn stand_alone(launcher: &str) -> io::Result<(UnixStream, OwnedFd)> {
    let refused = |why: &str| io::Error::other(why.to_owned());
    let mut mask = SigSet::all();
    FAULTS.iter().for_each(|signal| mask.remove(*signal));
    mask.thread_block()?;
    prctl::set_name(c"pmix-server")?;
    prctl::set_pdeathsig(Signal::SIGKILL)?;
    if launcher.parse::<i32>() != Ok(getppid().as_raw()) {
        return Err(refused("its parent is no pmixrun, or has ended"));
    }
    let socket = io::stdin().as_fd().try_clone_to_owned()?;
    getsockopt(&socket, PeerCredentials)?;
    let lock = io::stdout().as_fd().try_clone_to_owned()?;
    let null = OpenOptions::new().read(true).write(true).open("/dev/null")?;
    dup2_stdin(&null)?;
    dup2_stdout(&null)?;
    Ok((UnixStream::from(socket), lock))
}

/// Writes what is queued up to an empty frame, so that neither the server nor the reader of orders waits for the launcher.
fn write(mut stream: UnixStream, queue: &Receiver<Vec<u8>>) {
    // If the launcher is gone, the end of its orders says so.
    queue.iter().take_while(|frame| !frame.is_empty() && stream.write_all(frame).is_ok()).for_each(drop);
}

/// Tells the launcher.
#[derive(Clone)]
struct Teller(Sender<Vec<u8>>);

impl Teller {
    fn tell(&self, id: u64, said: &ServerMessage) -> Status {
        match said.frame(id) {
            Ok(frame) => {
                let _ = self.0.send(frame);
                Status::SUCCESS
            }
            Err(status) => status,
        }
    }
}

struct Process {
    teller: Teller,
    server: Option<Arc<Server>>,
    /// How many ranks and jobs there are that need descriptors.
    descriptors: u32,
}

impl Process {
    /// Carries out orders until the launcher ends, or wants the end.
    fn serve(mut self, stream: UnixStream, writer: Thread) {
        let mut stream = BufReader::new(stream);
        while let Ok(Some(message)) = frame::receive(&mut stream) {
            let Ok((id, order)) = Order::read(&message) else { break };
            let is_end = order == Order::Finalize;
            let reply = self.obey(id, order);
            if id != 0
                && let Some(reply) = reply
            {
                self.reply(id, reply);
            }
            if is_end {
                // What is queued is to be written.
                let _ = self.teller.0.send(Vec::new());
                writer.join();
                return;
            }
        }
        // The launcher has ended: its watchdog removes the files.
        std::process::exit(0);
    }

    fn reply(&self, id: u64, reply: Reply) {
        let status = self.teller.tell(id, &ServerMessage::Reply(reply));
        if status != Status::SUCCESS {
            // One without memory, which takes little.
            self.teller.tell(id, &ServerMessage::Reply(Reply::Status(status)));
        }
    }

    fn obey(&mut self, id: u64, order: Order) -> Option<Reply> {
        if let Order::Begin { infos } = order {
            return Some(self.begin(infos).unwrap_or_else(Reply::Failed));
        }
        let Some(server) = self.server.clone() else { return Some(Reply::Failed("there is no server".into())) };
        let status = match order {
            Order::RegisterNspace { nspace, size, infos } => {
                self.allow_descriptors(size);
                server.register_nspace(nspace, size as i32, infos, None)
            }
            Order::RegisterClient { proc, uid, gid, object } => {
                server.register_client(proc, uid, gid, object as usize, None)
            }
            Order::DeregisterClient { proc } => server.deregister_client(&proc, None),
            Order::DeregisterNspace { nspace } => server.deregister_nspace(&nspace, None),
            Order::DefineSet { name, members } => server.define_process_set(name, members),
            Order::DeleteSet { name } => server.delete_process_set(name),
            Order::Notify { code, source, range, infos } => server.notify_event(code, source, range, infos, None),
            Order::ForgetEvents { code } => server.forget_events(code),
            Order::Deliver { source, channel, data } => server.deliver_output(source, channel, data, Vec::new(), None),
            Order::ResumeInput { by } => {
                server.control_input(Some(by), pmix_client::output::STDIN, false, Vec::new(), None)
            }
            Order::AnnounceEnd { nspace } => {
                server.announce_end(&nspace);
                Status::SUCCESS
            }
            Order::Answer { result } => {
                results::answer(id, result);
                return None;
            }
            Order::Finalize => {
                self.server = None;
                server.finalize()
            }
            Order::Settle | Order::Begin { .. } => Status::SUCCESS,
            question @ (Order::SetupFork { .. } | Order::Waiting | Order::Stats | Order::ReportUri { .. }) => {
                return Some(answered(&server, question));
            }
        };
        Some(Reply::Status(status))
    }

    fn begin(&mut self, infos: Vec<Info>) -> Result<Reply, String> {
        let host = Arc::new(Forwarder(self.teller.clone()));
        let server = Server::init(host.clone(), &infos).or_else(|status| {
            // The port that the server before had may be another process's by now.
            let has_port = infos.iter().any(|info| info.key.is(keys::TCP_IPV4_PORT));
            let others = Info::copies(&infos)?.into_iter().filter(|info| !info.key.is(keys::TCP_IPV4_PORT));
            if has_port { Server::init(host, &others.collect::<Vec<_>>()) } else { Err(status) }
        });
        let server = server.map_err(|status| format!("the server did not start: {status}"))?;
        let teller = self.teller.clone();
        hear(&server, move |event| {
            if let Ok(infos) = Info::copies(&event.infos) {
                teller.tell(0, &ServerMessage::Event { code: event.status, source: event.source.clone(), infos });
            }
        })?;
        let (teller, looked_at) = (self.teller.clone(), Arc::downgrade(&server));
        // Without it the launcher gives up earlier.
        let _ = fallible_alloc::spawn("pmixrun-look", move || look(&looked_at, &teller));
        let uri = server.uri();
        self.server = Some(server);
        Ok(Reply::Started { uri })
    }

    fn allow_descriptors(&mut self, ranks: u32) {
        self.descriptors = self.descriptors.saturating_add(ranks).saturating_add(DESCRIPTORS_OF_A_JOB);
        ranks::allow_descriptors(self.descriptors);
    }
}

/// The reply to an order that asks for something.
fn answered(server: &Server, question: Order) -> Reply {
    match question {
        Order::SetupFork { proc } => match server.setup_fork(&proc) {
            Ok(variables) => Reply::Variables(variables),
            Err(status) => Reply::Status(status),
        },
        Order::Waiting => Reply::Waiting(server.waiting()),
        Order::ReportUri { target } => match server.report_uri(&target) {
            Ok(()) => Reply::Status(Status::SUCCESS),
            Err(error) => Reply::Failed(error.to_string()),
        },
        _ => Reply::Stats(server.stats()),
    }
}

/// Looks whether the server has done something for its processes, and tells the launcher once.
fn look(server: &Weak<Server>, teller: &Teller) {
    for _ in 0..LOOKS {
        std::thread::sleep(LOOK);
        let Some(stats) = server.upgrade().map(|server| server.stats()) else { return };
        if stats.fences > 0 || stats.gets > 0 {
            teller.tell(0, &ServerMessage::Achieved);
            return;
        }
    }
}

/// The server's host, which is the launcher: each upcall is answered later.
struct Forwarder(Teller);

impl Forwarder {
    fn pass<T: Into<UpcallResult>>(&self, done: &Completion<T>, call: Call) -> Status {
        self.0.tell(done.id(), &ServerMessage::Upcall(call))
    }

    /// An upcall with infos, for which there may be no memory.
    fn pass_with<T: Into<UpcallResult>>(
        &self,
        done: &Completion<T>,
        infos: &[Info],
        call: impl FnOnce(Vec<Info>) -> Call,
    ) -> Status {
        match Info::copies(infos) {
            Ok(infos) => self.pass(done, call(infos)),
            Err(status) => status,
        }
    }
}

type Infos = Completion<(Status, Vec<Info>)>;

impl Host for Forwarder {
    fn client_connected(&self, proc: &Proc, object: usize, _infos: &[Info]) -> Status {
        // The launcher admits all that it has registered.
        self.0.tell(0, &ServerMessage::Upcall(Call::ClientConnected { proc: proc.clone(), object: object as u64 }))
    }

    fn client_finalized(&self, proc: &Proc, object: usize, done: Completion<Status>) -> Status {
        // The process ends only when the launcher knows that it may.
        self.pass(&done, Call::ClientFinalized { proc: proc.clone(), object: object as u64 })
    }

    fn tool_connected(&self, infos: &[Info], done: Completion<(Status, Option<Proc>)>) -> Status {
        self.pass_with(&done, infos, |infos| Call::ToolConnected { infos })
    }

    fn abort(
        &self,
        proc: &Proc,
        object: usize,
        status: i32,
        message: Option<&CStr>,
        procs: &[Proc],
        done: Completion<Status>,
    ) -> Status {
        let (message, procs) = (message.map(CStr::to_owned), procs.to_vec());
        self.pass(&done, Call::Abort { proc: proc.clone(), object: object as u64, status, message, procs })
    }

    fn job_control(&self, proc: &Proc, targets: &[Proc], directives: &[Info], done: Infos) -> Status {
        let (proc, targets) = (proc.clone(), targets.to_vec());
        self.pass_with(&done, directives, |directives| Call::JobControl { proc, targets, directives })
    }

    fn allocate(&self, proc: &Proc, directive: u8, infos: &[Info], done: Infos) -> Status {
        self.pass_with(&done, infos, |infos| Call::Allocate { proc: proc.clone(), directive, infos })
    }

    fn spawn(&self, proc: &Proc, infos: &[Info], apps: &[App], done: Completion<(Status, Option<Nspace>)>) -> Status {
        self.pass_with(&done, infos, |infos| Call::Spawn { proc: proc.clone(), infos, apps: apps.to_vec() })
    }

    fn query(&self, proc: &Proc, queries: &[Query], done: Infos) -> Status {
        self.pass(&done, Call::Query { proc: proc.clone(), queries: queries.to_vec() })
    }

    fn publish(&self, proc: &Proc, infos: &[Info], done: Completion<Status>) -> Status {
        self.pass_with(&done, infos, |infos| Call::Publish { proc: proc.clone(), infos })
    }

    fn lookup(&self, proc: &Proc, keys: &[Key], infos: &[Info], done: Completion<(Status, Vec<Pdata>)>) -> Status {
        self.pass_with(&done, infos, |infos| Call::Lookup { proc: proc.clone(), keys: keys.to_vec(), infos })
    }

    fn unpublish(&self, proc: &Proc, keys: &[Key], infos: &[Info], done: Completion<Status>) -> Status {
        self.pass_with(&done, infos, |infos| Call::Unpublish { proc: proc.clone(), keys: keys.to_vec(), infos })
    }

    fn notify_event(&self, code: Status, source: &Proc, range: u8, infos: &[Info], done: Completion<Status>) -> Status {
        self.pass_with(&done, infos, |infos| Call::NotifyEvent { code, source: source.clone(), range, infos })
    }

    fn push_stdin(
        &self,
        source: &Proc,
        targets: &[Proc],
        infos: &[Info],
        data: Option<&[u8]>,
        done: Completion<Status>,
    ) -> Status {
        let Ok(data) = data.map(fallible_alloc::copy).transpose() else { return Status::ERR_NOMEM };
        let (source, targets) = (source.clone(), targets.to_vec());
        self.pass_with(&done, infos, |infos| Call::PushStdin { source, targets, infos, data })
    }

    fn group(&self, operation: GroupOperation, group: &CStr, procs: &[Proc], infos: &[Info], done: Infos) -> Status {
        let is_construct = operation == GroupOperation::Construct;
        let (group, procs) = (group.to_owned(), procs.to_vec());
        self.pass_with(&done, infos, |infos| Call::Group { is_construct, group, procs, infos })
    }

    fn get_credential(&self, proc: &Proc, infos: &[Info], done: Completion<(Status, Credential)>) -> Status {
        self.pass_with(&done, infos, |infos| Call::GetCredential { proc: proc.clone(), infos })
    }

    fn validate_credential(&self, proc: &Proc, credential: &[u8], infos: &[Info], done: Infos) -> Status {
        let Ok(credential) = fallible_alloc::copy(credential) else { return Status::ERR_NOMEM };
        self.pass_with(&done, infos, |infos| Call::ValidateCredential { proc: proc.clone(), credential, infos })
    }

    fn log(&self, proc: &Proc, data: &[Info], directives: &[Info], done: Completion<Status>) -> Status {
        let Ok(data) = Info::copies(data) else { return Status::ERR_NOMEM };
        self.pass_with(&done, directives, |directives| Call::Log { proc: proc.clone(), data, directives })
    }
}
