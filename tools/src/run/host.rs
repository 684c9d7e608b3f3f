//! The launcher's implementation of [`Host`]: the upcalls of its server.

use std::ffi::{CStr, CString};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crossbeam::channel::{Receiver, Sender, unbounded};
use nix::sys::eventfd::{EfdFlags, EventFd};
use parking_lot::Mutex;
use pmix_client::events::range;
use pmix_dstore::fallible_alloc;
use pmix_dstore::gather::GatherBuf;
use pmix_dstore::model::{App, Bytes, Info, Key, Nspace, Proc, Query, Rank, Status, Value, keys};
use pmix_server::{Completion, Credential, GroupOperation, Host};

use super::acknowledged;
use super::checkpoint;
use super::clerk::Clerk;
use super::control::{Control, JobRanks, Ranks, may_control};
use super::credentials;
use super::groups::Groups;
use super::log::{self, Outlets};
use super::output::Stream;
use super::partner::{Done, Operation, Partner};
use super::published::{self, Lookup, Published, Terms, WaitingLookup};
use super::refused;
use super::table;

/// Events of which the host must hear: a debugger's release and a rank's checkpoint that are told to all processes of the node, and the loss
/// of a tool.
pub(super) const HEARD: [Status; 4] = [
    Status::DEBUGGER_RELEASE,
    Status::ERR_LOST_CONNECTION,
    Status::JCTRL_CHECKPOINT_COMPLETE,
    Status::ERR_PROC_CHECKPOINT,
];

/// The answer to a query or a job control.
pub(super) type Infos = Completion<(Status, Vec<Info>)>;

/// The answer to a spawn.
pub(super) type Spawned = Completion<(Status, Option<Nspace>)>;

/// The jobs of the launcher; the first is the launched one.
pub(super) type Jobs = Arc<Mutex<Vec<JobRanks>>>;

/// Messages from the server's thread to the launcher's. A rank is named by its number.
#[derive(Debug)]
pub(super) enum Event {
    /// A rank has connected.
    Connected(u32),
    /// A rank has called finalize.
    Finalized(u32),
    /// Texts of a rank's `PMIx_Log`, or about its call. The call completes when they are written, so that no rank prints faster than
    /// the reader reads.
    Print(Proc, Vec<(Stream, Vec<u8>)>, Continuation),
    /// A rank waits at this breakpoint for a debugger.
    Halted(u32, CString),
    /// A debugger releases these ranks; it has told only the launcher if `is_ours` is set.
    Released {
        /// The ranks.
        ranks: Ranks,
        /// Whether the launcher must tell them.
        is_ours: bool,
    },
    /// A process controls ranks.
    Control {
        /// What it does.
        control: Control,
        /// The process.
        by: Proc,
        /// Takes the answer.
        done: Infos,
    },
    /// A process asks for a checkpoint of ranks, or tells how those of its job want to be asked.
    Checkpoint {
        /// What it asks.
        request: checkpoint::Request,
        /// The ranks.
        ranks: Ranks,
        /// The process.
        by: Proc,
        /// Takes the answer.
        done: Infos,
    },
    /// A rank's checkpoint is complete, or has failed.
    Checkpointed {
        /// The rank.
        rank: u32,
        /// The name of the checkpoint, if the rank tells it.
        id: Option<CString>,
        /// Whether it is complete.
        is_complete: bool,
    },
    /// A process starts a job.
    Spawn {
        /// The process.
        by: Proc,
        /// Attributes of the job.
        infos: Vec<Info>,
        /// Its applications.
        apps: Vec<App>,
        /// Takes the answer.
        done: Spawned,
    },
    /// A process asks for what the launcher does not have. It is answered when the line is written.
    Refused {
        /// The process.
        by: Proc,
        /// What it asks for, and why it does not get it.
        why: String,
        /// Takes the answer.
        done: Infos,
    },
    /// A process has input for ranks.
    Input {
        /// The process.
        by: Proc,
        /// The ranks.
        targets: Vec<Proc>,
        /// The input; none, or an empty one, is its end.
        data: Option<Vec<u8>>,
        /// Where it begins, if the process says so.
        at: Option<u64>,
        /// Takes the answer.
        done: Completion<Status>,
    },
    /// A tool has written so much of the output that it was sent.
    Taken {
        /// The tool.
        by: Proc,
        /// How much.
        bytes: u64,
    },
    /// A tool has heard of the end of its job.
    EndHeard(Proc),
    /// The connection of this tool is lost.
    ToolLost(Proc),
    /// The server's process of this number has ended.
    ServerEnded(u32),
    /// A process asks about the job.
    Query(Vec<Query>, Infos),
    /// A process asks to end the job.
    Abort {
        /// The rank; none if it is a tool.
        rank: Option<u32>,
        /// The process.
        by: Proc,
        /// The requested exit status.
        status: i32,
        /// Its message.
        message: Option<CString>,
    },
}

/// What completes a call.
pub(super) struct Continuation(Box<dyn FnOnce() + Send>);

impl Continuation {
    pub fn new(then: impl FnOnce() + Send + 'static) -> Continuation {
        Continuation(Box::new(then))
    }

    pub fn complete(self) {
        (self.0)();
    }
}

impl fmt::Debug for Continuation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Continuation")
    }
}

/// The sending end of the events.
#[derive(Clone)]
pub(super) struct Post {
    sender: Sender<Event>,
    wake: Arc<EventFd>,
}

impl Post {
    pub fn send(&self, event: Event) {
        // Ignore the error: the launcher's loop ends before the server only when the process ends.
        let _ = self.sender.send(event);
        self.wake();
    }

    /// Has the launcher's loop look at what it waits for.
    fn wake(&self) {
        let _ = self.wake.write(1);
    }
}

/// The receiving end of the events, with a descriptor to poll.
pub(super) struct Events {
    receiver: Receiver<Event>,
    /// Readable while there may be events.
    pub wake: Arc<EventFd>,
    published: Arc<Mutex<Published>>,
    groups: Arc<Mutex<Groups>>,
    writer: Arc<Clerk>,
    /// The launcher of another cluster, if there is one.
    partner: Option<Arc<Partner>>,
}

impl Events {
    /// The events that have arrived.
    pub fn take(&self) -> impl Iterator<Item = Event> {
        // Reading clears the wake-up; later events wake again.
        let _ = self.wake.read();
        self.receiver.try_iter()
    }

    /// A job is about to be registered with these infos.
    pub fn job_begins(&self, job: &JobRanks, infos: &[Info]) {
        self.partner.iter().for_each(|partner| partner.job_begins(&job.nspace, job.size, infos));
    }

    /// All ranks of a job have ended: its values of that persistence go.
    pub fn job_ended(&self, job: &Nspace) {
        self.published.lock().job_ended(job);
        self.partner.iter().for_each(|partner| partner.job_ends(job));
    }

    /// Neither server nor launcher knows a job any more.
    pub fn job_is_forgotten(&self, job: &Nspace) {
        self.partner.iter().for_each(|partner| partner.job_is_forgotten(job));
    }

    /// Waits at most so long until syslog and files have what processes have logged.
    pub fn finish_logging(&self, wait: Duration) {
        self.writer.close(wait);
    }

    /// A process has ended: its values of that persistence go, and no group waits for it.
    pub fn process_ended(&self, process: &Proc) {
        self.published.lock().process_ended(process);
        self.groups.lock().process_ended(process);
        self.partner.iter().for_each(|partner| partner.process_ends(process));
    }

    /// Answers the lookups whose time-out has passed; returns the time of the next one.
    pub fn expire(&self, now: Instant) -> Option<Instant> {
        let (late, next) = self.published.lock().expire(now);
        for done in late {
            done.complete((Status::ERR_TIMEOUT, Vec::new()));
        }
        next
    }
}

/// What processes have published, the partner, who is told of it, and where processes log.
pub(super) struct Beside {
    pub published: Arc<Mutex<Published>>,
    pub partner: Option<Arc<Partner>>,
    pub outlets: Outlets,
}

/// The launcher as a host.
pub(super) struct RunHost {
    post: Post,
    /// Writes what processes log to other places than the launcher's streams.
    writer: Arc<Clerk>,
    outlets: Outlets,
    /// Asks munge, which may be stopped.
    security: Clerk,
    published: Arc<Mutex<Published>>,
    jobs: Jobs,
    /// The server's name, with which the names of tools begin.
    server: Nspace,
    groups: Arc<Mutex<Groups>>,
    /// How many tools have got a name.
    tools: AtomicU64,
    /// The launcher of another cluster, if there is one.
    partner: Option<Arc<Partner>>,
}

impl RunHost {
    /// The host of these jobs and of their server, and the receiving end of its events.
    pub fn new(jobs: Jobs, server: &Nspace, beside: Beside) -> Result<(RunHost, Events), String> {
        let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
        let wake = Arc::new(EventFd::from_flags(flags).map_err(|error| format!("eventfd: {error}"))?);
        let (sender, receiver) = unbounded();
        let Beside { published, partner, outlets } = beside;
        let groups: Arc<Mutex<Groups>> = Arc::default();
        let writer = Arc::new(Clerk::new("pmixrun-log"));
        let (published_there, groups_there) = (Arc::clone(&published), Arc::clone(&groups));
        let (wake_there, partner_there) = (Arc::clone(&wake), partner.clone());
        let events = Events {
            receiver,
            wake: wake_there,
            published: published_there,
            groups: groups_there,
            writer: Arc::clone(&writer),
            partner: partner_there,
        };
        let (server, tools) = (server.clone(), AtomicU64::new(0));
        let post = Post { sender, wake };
        let security = Clerk::new("pmixrun-munge");
        Ok((RunHost { post, writer, outlets, security, published, groups, jobs, server, tools, partner }, events))
    }

    fn send(&self, event: Event) {
        self.post.send(event);
    }

    /// One of [`HEARD`] has come.
    pub fn heard(&self, code: Status, source: &Proc, infos: &[Info]) {
        match code {
            // The ranks have been told.
            Status::DEBUGGER_RELEASE => self.release(infos, false),
            Status::ERR_LOST_CONNECTION => self.lost(infos),
            code => self.checkpointed(code, source, infos),
        }
    }

    /// The server's process of this number has ended: what its processes waited for is answered to nobody. They ask the next one.
    pub fn server_ended(&self, number: u32) {
        self.published.lock().forget_waiting();
        self.groups.lock().forget_forming();
        self.send(Event::ServerEnded(number));
    }

    /// A process is gone that has not called finalize. Of ranks the watchdog tells, too.
    fn lost(&self, infos: &[Info]) {
        if let Some(Value::Proc(proc)) = Info::find(infos, keys::EVENT_AFFECTED_PROC)
            && self.number(proc).is_none()
        {
            self.send(Event::ToolLost(proc.clone()));
        }
    }

    /// A debugger releases the ranks that it names, or all.
    fn release(&self, infos: &[Info], is_ours: bool) {
        let named = Info::find(infos, keys::EVENT_CUSTOM_RANGE);
        let ranks = Ranks::read(&self.jobs.lock(), named.iter().flat_map(|named| named.iter_procs()));
        if let Ok(ranks) = ranks {
            self.send(Event::Released { ranks, is_ours });
        }
    }

    fn checkpoint(
        &self,
        by: &Proc,
        targets: &[Proc],
        directives: &[Info],
        request: checkpoint::Request,
        done: Infos,
    ) -> Status {
        if !may_control(directives) {
            return Status::ERR_NO_PERMISSIONS;
        }
        let ranks = match Ranks::read(&self.jobs.lock(), targets) {
            Ok(ranks) => ranks,
            Err(status) => return status,
        };
        self.send(Event::Checkpoint { request, ranks, by: by.clone(), done });
        Status::SUCCESS
    }

    /// A process has told that its checkpoint is complete, or has failed.
    fn checkpointed(&self, code: Status, source: &Proc, infos: &[Info]) {
        let Some(rank) = self.number(source) else { return };
        let id = Info::find(infos, keys::JOB_CTRL_CHECKPOINT).and_then(Value::as_c_str).map(CStr::to_owned);
        self.send(Event::Checkpointed { rank, id, is_complete: code == Status::JCTRL_CHECKPOINT_COMPLETE });
    }

    /// Does what a process asks of munge; `done` takes the answer, and the launcher's loop says why there is none.
    fn ask_munge<T: 'static>(
        &self,
        by: &Proc,
        what: &'static str,
        work: impl FnOnce() -> Result<T, credentials::Refusal> + Send + 'static,
        done: impl FnOnce(Status, Option<T>) + Send + 'static,
    ) -> Status {
        let (post, by) = (self.post.clone(), by.clone());
        let task = move || match work() {
            Ok(answer) => done(Status::SUCCESS, Some(answer)),
            Err((status, why)) => {
                let line = format!("pmixrun: {by} {what} {}: {why}\n", refused::named(status));
                let answer = Continuation::new(move || done(status, None));
                post.send(Event::Print(by, vec![(Stream::Err, line.into_bytes())], answer));
            }
        };
        if self.security.ask(task) { Status::SUCCESS } else { Status::ERR_OUT_OF_RESOURCE }
    }

    /// The number of a rank; none of a tool.
    fn number(&self, proc: &Proc) -> Option<u32> {
        self.jobs.lock().iter().find(|job| job.nspace == proc.nspace)?.number(proc.rank)
    }

    /// The partner, if some of these processes are its.
    fn partner_of(&self, procs: &[Proc]) -> Option<&Arc<Partner>> {
        self.partner.as_ref().filter(|partner| procs.iter().any(|proc| partner.is_beyond(proc)))
    }
}

impl Host for RunHost {
    // Each rank is registered with its number as its object.

    fn client_connected(&self, _proc: &Proc, object: usize, _infos: &[Info]) -> Status {
        self.send(Event::Connected(object as u32));
        Status::SUCCESS
    }

    fn client_finalized(&self, _proc: &Proc, object: usize, _done: Completion<Status>) -> Status {
        self.send(Event::Finalized(object as u32));
        Status::OPERATION_SUCCEEDED
    }

    /// A tool of this user or of root; the server refuses those of other users.
    fn tool_connected(&self, _infos: &[Info], done: Completion<(Status, Option<Proc>)>) -> Status {
        let number = self.tools.fetch_add(1, Ordering::Relaxed) + 1;
        // The server keeps the name of a tool that has one.
        match Nspace::new(format!("{}.tool-{number}", self.server)) {
            Ok(nspace) => done.complete((Status::SUCCESS, Some(Proc::new(nspace, Rank(0))))),
            Err(_) => return Status::ERR_BAD_PARAM,
        }
        Status::SUCCESS
    }

    fn abort(
        &self,
        proc: &Proc,
        _object: usize,
        status: i32,
        message: Option<&CStr>,
        procs: &[Proc],
        _done: Completion<Status>,
    ) -> Status {
        if procs.iter().any(|proc| proc.rank.is_process()) {
            // The jobs can only be aborted as a whole.
            return Status::ERR_PARAM_VALUE_NOT_SUPPORTED;
        }
        let rank = self.number(proc);
        self.send(Event::Abort { rank, by: proc.clone(), status, message: message.map(CStr::to_owned) });
        Status::OPERATION_SUCCEEDED
    }

    fn job_control(&self, proc: &Proc, targets: &[Proc], directives: &[Info], done: Infos) -> Status {
        if Info::is_set(directives, keys::GROUP_ASSIGN_CONTEXT_ID) {
            // The leader of a group that is formed by invitation.
            done.complete((Status::SUCCESS, vec![self.groups.lock().next_context()]));
            return Status::SUCCESS;
        }
        match checkpoint::Request::read(directives) {
            Ok(None) => {}
            Ok(Some(request)) => return self.checkpoint(proc, targets, directives, request, done),
            Err(status) => return status,
        }
        let control = Control::read(&self.jobs.lock(), targets, directives);
        match control {
            Ok(control) => self.send(Event::Control { control, by: proc.clone(), done }),
            Err(status) => match refused::control(directives).filter(|_| status == Status::ERR_NOT_SUPPORTED) {
                Some(why) => self.send(Event::Refused { by: proc.clone(), why, done }),
                None => return status,
            },
        }
        Status::SUCCESS
    }

    fn allocate(&self, proc: &Proc, directive: u8, infos: &[Info], done: Infos) -> Status {
        if directive == 0 {
            // There is no such directive: a wrong call is the caller's to tell.
            return Status::ERR_BAD_PARAM;
        }
        self.send(Event::Refused { by: proc.clone(), why: refused::allocation(directive, infos), done });
        Status::SUCCESS
    }

    fn spawn(&self, proc: &Proc, infos: &[Info], apps: &[App], done: Spawned) -> Status {
        let Ok(infos) = Info::copies(infos) else { return Status::ERR_NOMEM };
        // The launcher's loop starts processes.
        self.send(Event::Spawn { by: proc.clone(), infos, apps: apps.to_vec(), done });
        Status::SUCCESS
    }

    fn query(&self, _proc: &Proc, queries: &[Query], done: Infos) -> Status {
        if !table::is_asked(queries) {
            return Status::ERR_NOT_SUPPORTED;
        }
        // The launcher's loop knows the processes.
        self.send(Event::Query(queries.to_vec(), done));
        Status::SUCCESS
    }

    fn publish(&self, proc: &Proc, infos: &[Info], done: Completion<Status>) -> Status {
        let terms = match Terms::read(infos) {
            Ok(terms) => terms,
            Err(status) => return status,
        };
        let mut published = self.published.lock();
        if let Err(status) = published.add(proc, published::values(infos), &terms) {
            return status;
        }
        let status = match self.partner.as_ref().filter(|_| terms.is_beyond()) {
            None => Status::OPERATION_SUCCEEDED,
            // With the lock: a partner that comes now is told once.
            Some(partner) => {
                let keys: Vec<Key> = published::values(infos).map(|(key, _)| key.clone()).collect();
                let status = partner.publish(proc, infos, keys.clone(), done);
                if !matches!(status, Status::SUCCESS | Status::OPERATION_SUCCEEDED) {
                    // All of a publication or nothing.
                    published.remove(proc, &keys);
                }
                status
            }
        };
        published::answer_ready(published);
        status
    }

    fn lookup(&self, proc: &Proc, keys: &[Key], infos: &[Info], done: Lookup) -> Status {
        use pmix_dstore::model::keys::{RANGE, TIMEOUT, WAIT};
        let wait = Info::is_set(infos, WAIT);
        let seconds = Info::find(infos, TIMEOUT).and_then(Value::as_u64).filter(|s| *s > 0);
        let range = Info::find(infos, RANGE).and_then(Value::as_u64).unwrap_or_default();
        let is_beyond = [range::UNDEF, range::GLOBAL].into_iter().any(|wide| u64::from(wide) == range);
        // Whether nobody is left for it is asked with the lock, which the end of the partner takes afterwards.
        let mut published = self.published.lock();
        if wait && !published.has_all(proc, keys) {
            if is_beyond && self.partner.as_ref().is_some_and(|partner| partner.is_lost()) {
                return Status::ERR_LOST_CONNECTION;
            }
            let deadline = seconds.and_then(|seconds| Instant::now().checked_add(Duration::from_secs(seconds)));
            published.wait(WaitingLookup { by: proc.clone(), keys: keys.to_vec(), is_beyond, deadline, done });
            drop(published);
            // The launcher's loop must learn of the deadline.
            self.post.wake();
            return Status::SUCCESS;
        }
        let data = published.read(proc, keys);
        drop(published);
        done.complete((if data.is_empty() { Status::ERR_NOT_FOUND } else { Status::SUCCESS }, data));
        Status::SUCCESS
    }

    fn unpublish(&self, proc: &Proc, keys: &[Key], _infos: &[Info], _done: Completion<Status>) -> Status {
        self.published.lock().remove(proc, keys);
        self.partner.iter().for_each(|partner| partner.unpublish(proc, keys));
        Status::OPERATION_SUCCEEDED
    }

    // All processes are this server's clients but those of a partner.

    fn fence_nb(&self, procs: &[Proc], infos: &[Info], data: GatherBuf, done: Completion<(Status, Bytes)>) -> Status {
        let Some(partner) = self.partner_of(procs) else { return Status::ERR_NOT_SUPPORTED };
        match data.into_bytes() {
            Ok(data) => partner.enter(Operation::Fence, procs, infos, data, Done::Data(done)),
            Err(status) => status,
        }
    }

    fn connect(&self, procs: &[Proc], infos: &[Info], done: Completion<Status>) -> Status {
        let Some(partner) = self.partner_of(procs) else { return Status::ERR_NOT_SUPPORTED };
        partner.enter(Operation::Connect, procs, infos, Vec::new(), Done::Status(done))
    }

    fn disconnect(&self, procs: &[Proc], infos: &[Info], done: Completion<Status>) -> Status {
        let Some(partner) = self.partner_of(procs) else { return Status::ERR_NOT_SUPPORTED };
        partner.enter(Operation::Disconnect, procs, infos, Vec::new(), Done::Status(done))
    }

    fn direct_modex(&self, proc: &Proc, _infos: &[Info], done: Completion<(Status, Bytes)>) -> Status {
        match self.partner_of(std::slice::from_ref(proc)) {
            // The partner has told all there is of a job as a whole.
            Some(partner) if proc.rank.is_process() => partner.fetch(proc, done),
            _ => Status::ERR_NOT_SUPPORTED,
        }
    }

    fn notify_event(
        &self,
        code: Status,
        source: &Proc,
        range: u8,
        infos: &[Info],
        _done: Completion<Status>,
    ) -> Status {
        if code == Status::READY_FOR_DEBUG
            && let Some(number) = self.number(source)
        {
            let breakpoint = Info::find(infos, keys::BREAKPOINT).and_then(Value::as_c_str).unwrap_or_default();
            self.send(Event::Halted(number, breakpoint.to_owned()));
        }
        if let Some(bytes) = acknowledged::read(code, infos) {
            self.send(Event::Taken { by: source.clone(), bytes });
        }
        if acknowledged::has_heard_end(code, infos) {
            self.send(Event::EndHeard(source.clone()));
        }
        if code == Status::DEBUGGER_RELEASE {
            self.release(infos, range == range::RM);
        }
        if code == Status::JCTRL_CHECKPOINT_COMPLETE || code == Status::ERR_PROC_CHECKPOINT {
            self.checkpointed(code, source, infos);
        }
        let named: Vec<Proc> = Info::find(infos, keys::EVENT_CUSTOM_RANGE)
            .filter(|_| range == range::CUSTOM)
            .into_iter()
            .flat_map(|named| named.iter_procs().cloned())
            .collect();
        // The server has sent the event to all others.
        self.partner_of(&named).map_or(Status::OPERATION_SUCCEEDED, |partner| partner.notify(code, source, infos))
    }

    fn push_stdin(
        &self,
        source: &Proc,
        targets: &[Proc],
        infos: &[Info],
        data: Option<&[u8]>,
        done: Completion<Status>,
    ) -> Status {
        let at = acknowledged::position(infos);
        let Ok(data) = data.map(fallible_alloc::copy).transpose() else { return Status::ERR_NOMEM };
        self.send(Event::Input { by: source.clone(), targets: targets.to_vec(), data, at, done });
        Status::SUCCESS
    }

    fn group(
        &self,
        operation: GroupOperation,
        group: &CStr,
        procs: &[Proc],
        infos: &[Info],
        done: Completion<(Status, Vec<Info>)>,
    ) -> Status {
        if self.partner_of(procs).is_some() {
            return Status::ERR_NOT_SUPPORTED;
        }
        match operation {
            GroupOperation::Construct => self.groups.lock().construct(group, procs, infos, done, Instant::now()),
            GroupOperation::Destruct => Status::OPERATION_SUCCEEDED,
        }
    }

    fn get_credential(&self, proc: &Proc, infos: &[Info], done: Completion<(Status, Credential)>) -> Status {
        let Ok(infos) = Info::copies(infos) else { return Status::ERR_NOMEM };
        let done =
            move |status, credential: Option<Credential>| done.complete((status, credential.unwrap_or_default()));
        self.ask_munge(proc, "asks for a credential, and gets", move || credentials::get(&infos), done)
    }

    fn validate_credential(&self, proc: &Proc, credential: &[u8], infos: &[Info], done: Infos) -> Status {
        let (Ok(infos), Ok(credential)) = (Info::copies(infos), fallible_alloc::copy(credential)) else {
            return Status::ERR_NOMEM;
        };
        let done = move |status, said: Option<Vec<Info>>| done.complete((status, said.unwrap_or_default()));
        self.ask_munge(proc, "shows a credential, and gets", move || credentials::validate(&credential, &infos), done)
    }

    fn log(&self, proc: &Proc, data: &[Info], directives: &[Info], done: Completion<Status>) -> Status {
        let request = match log::Request::read(proc, data, directives) {
            Ok(request) => request,
            Err(status) => return status,
        };
        let (post, outlets, may_wait) = (self.post.clone(), self.outlets.clone(), request.may_wait());
        let by = proc.clone();
        let log = move || {
            let log::Logged { texts, status } = request.perform(&outlets);
            // The launcher's loop prints, because the server's thread must not wait for the reader.
            post.send(Event::Print(by, texts, Continuation::new(move || done.complete(status))));
        };
        match may_wait {
            false => log(),
            true if self.writer.ask(log) => {}
            true => return Status::ERR_OUT_OF_RESOURCE,
        }
        Status::SUCCESS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn me() -> Proc {
        Proc::new(Nspace::new("job").unwrap(), Rank(0))
    }

    fn host() -> (RunHost, Events) {
        let job = JobRanks { nspace: Nspace::new("job").unwrap(), first: 0, size: 4, is_launched: true };
        let outlets = Outlets { syslog: "/nonexistent".into(), record: None };
        let beside = Beside { published: Arc::default(), partner: None, outlets };
        RunHost::new(Arc::new(Mutex::new(vec![job])), &Nspace::new("server").unwrap(), beside).unwrap()
    }

    #[test]
    fn published_values_are_found_once_or_for_ever() {
        let (host, _events) = host();
        let publish = |infos: &[Info]| host.publish(&me(), infos, Completion::by_id(0));
        assert_eq!(publish(&[Info::new("a", Value::Int(1))]), Status::OPERATION_SUCCEEDED);
        assert_eq!(publish(&[Info::new("a", Value::Int(2))]), Status::ERR_DUPLICATE_KEY);
        let once = Value::Code { ty: pmix_dstore::model::DataType::PERSIST, bits: 1 };
        publish(&[Info::new("b", Value::Int(3)), Info::new(keys::PERSISTENCE, once)]);
        let mut published = host.published.lock();
        let keys = [Key::from("a"), Key::from("b"), Key::from("c")];
        assert_eq!(published.read(&me(), &keys).len(), 2);
        assert_eq!(published.read(&me(), &keys).len(), 1);
    }

    #[test]
    fn a_lookup_waits_for_its_key_or_its_time() {
        let (host, events) = host();
        let keys = [Key::from("later")];
        let wait = [Info::new(keys::WAIT, Value::Bool(true)), Info::new(keys::TIMEOUT, Value::Int(5))];
        assert_eq!(host.lookup(&me(), &keys, &wait, Completion::by_id(0)), Status::SUCCESS);
        assert!(events.expire(Instant::now()).is_some());
        assert_eq!(events.expire(Instant::now() + Duration::from_secs(6)), None);
        host.lookup(&me(), &keys, &wait, Completion::by_id(0));
        host.publish(&me(), &[Info::new("later", Value::Int(1))], Completion::by_id(0));
        assert_eq!(events.expire(Instant::now()), None);
    }

    /// Two wait for a value that the first of them takes; a third has ended before.
    #[test]
    fn a_value_for_one_reader_goes_to_one_that_lives() {
        let (host, events) = host();
        let keys = [Key::from("once")];
        let wait = [Info::new(keys::WAIT, Value::Bool(true))];
        for rank in 1..4 {
            let by = Proc { rank: Rank(rank), ..me() };
            assert_eq!(host.lookup(&by, &keys, &wait, Completion::by_id(u64::from(rank))), Status::SUCCESS);
        }
        events.process_ended(&Proc { rank: Rank(1), ..me() });
        let once = Value::Code { ty: pmix_dstore::model::DataType::PERSIST, bits: 1 };
        let infos = [Info::new("once", Value::Int(1)), Info::new(keys::PERSISTENCE, once)];
        let values = infos[..1].iter().map(|info| (&info.key, &info.value));
        let mut published = host.published.lock();
        published.add(&me(), values, &Terms::read(&infos).unwrap()).unwrap();
        assert_eq!(published.ready().into_iter().map(|(_, data)| data.len()).collect::<Vec<_>>(), [1]);
        assert!(published.ready().is_empty(), "the other one waits");
    }

    #[test]
    fn an_allocation_is_refused_by_the_loop_which_can_say_why() {
        let (host, events) = host();
        assert_eq!(host.allocate(&me(), 0, &[], Completion::by_id(0)), Status::ERR_BAD_PARAM);
        assert_eq!(host.allocate(&me(), 3, &[], Completion::by_id(0)), Status::SUCCESS);
        assert!(matches!(events.take().next(), Some(Event::Refused { why, .. }) if why.starts_with("gives back")));
    }

    #[test]
    fn a_job_is_aborted_as_a_whole() {
        let (host, events) = host();
        let third = Proc { rank: Rank(3), ..me() };
        let abort = |procs: &[Proc]| host.abort(&third, 3, 7, Some(c"no"), procs, Completion::by_id(0));
        assert_eq!(abort(&[me()]), Status::ERR_PARAM_VALUE_NOT_SUPPORTED);
        assert_eq!(abort(&[]), Status::OPERATION_SUCCEEDED);
        assert!(matches!(events.take().next(), Some(Event::Abort { rank: Some(3), status: 7, .. })));
        // A tool has no rank.
        let tool = Proc::new(Nspace::new("server.tool-1").unwrap(), Rank(0));
        host.abort(&tool, 0, 7, None, &[], Completion::by_id(0));
        assert!(matches!(events.take().next(), Some(Event::Abort { rank: None, .. })));
    }
}
