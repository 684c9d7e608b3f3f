//! The engine alone, for fuzzing and simulation: no socket, no file, no thread, no clock. Not part of the public interface.
//!
//! The simulating program takes the place of the network, the host, the clock and the publisher: it feeds [`Simulation`] and takes
//! its outputs, each as an [`Event`].

use std::collections::BTreeMap;
use std::ffi::{CString, OsString};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use pmix_client::Task;
use pmix_dstore::model::{Bytes, Info, Key, Nspace, Proc, Query, Regattr, Result, Status, Value};
use pmix_wire::{FlowControl, Hello, IoDelivery};

use crate::access::Access;
use crate::cleanup::FileState;
use crate::completion::{self, AnswerSink, UpcallResult};
use crate::config::{ANNOUNCED_VERSION, Config, LATE_KEY_WAIT, RendezvousOptions, SlurmFence};
pub use crate::engine::Kept;
use crate::engine::{DirectoryNumber, Engine, JobPlan, MemoryAsked, Output, PeerId, Plan, Sender};
use crate::engine::{Standing, Transport};
use crate::upcall::Upcall;
use crate::{DmodexDone, GroupOperation, SECURITY_NAME, STORE_NAME, Stats};

mod remains;

use self::remains::Files;
pub use self::remains::Remains;

/// The name of this library's store in a handshake.
pub const STORE: &str = STORE_NAME;

/// The release that the server's own process has.
pub const RELEASE: &str = ANNOUNCED_VERSION;

/// The name of this library's security module.
pub const SECURITY: &str = SECURITY_NAME;

/// Connections of one life of a server.
pub const CONNECTIONS_OF_LIFE: u64 = crate::restart::CONNECTIONS_OF_LIFE;

/// The server's own process among the peers.
pub const OWN: u64 = PeerId::OWN.0;

/// An output of the engine.
#[derive(Debug)]
pub enum Event {
    /// A handshake was answered.
    Admitted {
        /// The peer.
        peer: u64,
        /// The status.
        status: Status,
    },
    /// A message.
    Sent {
        /// The receiver.
        peer: u64,
        /// The tag of the request that it answers, or a reserved one.
        tag: u32,
        /// The payload.
        payload: Vec<u8>,
    },
    /// A connection is dropped.
    Closed(u64),
    /// The host is asked.
    Asked {
        /// By which number it answers.
        id: u64,
        /// Its return value is the whole answer.
        answered_at_once: bool,
        /// What it is asked.
        question: Question,
    },
    /// A publication is requested for this directory.
    Publish(u64),
    /// A line for the administrator.
    Logged(String),
    /// A file is to be looked at for this monitor: [`Simulation::looked`].
    Look(u64),
    /// Usage is to be read for this monitor: [`Simulation::measured`].
    Measure(u64),
    /// Memory is to be read for a query: [`Simulation::memory_read`] with this number.
    ReadMemory(u64),
    /// Output that the server's own process shows.
    Shown(IoDelivery),
    /// The files of this user are removed that a process has named for its end.
    CleanedUp(u32),
}

/// By whose word a peer is somebody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    /// The peer's own; it comes over loopback.
    Claim,
    /// The kernel's, who knows this user of its socket.
    Kernel(u32),
    /// The kernel's, of the Unix socket of its job: user, group, number of the process.
    Unix(u32, u32, i32),
    /// Munge's: user and group. It comes from another host, and the credential is for this server.
    Munge {
        /// User and group.
        user: (u32, u32),
        /// From another host.
        is_remote: bool,
        /// Made for this server.
        is_bound: bool,
    },
    /// Nobody's: it comes from another host.
    Nobody,
}

impl From<Word> for Transport {
    fn from(word: Word) -> Transport {
        match word {
            Word::Claim => Transport::Tcp { owner: None },
            Word::Kernel(uid) => Transport::Tcp { owner: Some(uid) },
            Word::Unix(uid, gid, pid) => Transport::Unix { uid, gid, pid },
            Word::Munge { user: (uid, gid), is_remote, is_bound } => Transport::Munge { uid, gid, is_remote, is_bound },
            Word::Nobody => Transport::Remote,
        }
    }
}

/// What a host is asked, as far as a simulated host looks at it. The fields are the arguments of the method of that name in
/// [`Host`](crate::Host).
#[derive(Debug)]
pub enum Question {
    /// All local participants have entered a collective.
    Collective {
        /// Which.
        kind: Collective,
        /// The participants.
        procs: Vec<Proc>,
        /// Directives.
        infos: Vec<Info>,
        /// A fence's contribution.
        data: Vec<u8>,
    },
    /// Values of a process of another server.
    DirectModex {
        /// The process.
        proc: Proc,
        /// Directives.
        infos: Vec<Info>,
    },
    /// Publish values.
    Publish {
        /// The publisher.
        proc: Proc,
        /// Values and directives.
        infos: Vec<Info>,
    },
    /// Look up values.
    Lookup {
        /// Who asks.
        proc: Proc,
        /// The keys.
        keys: Vec<Key>,
        /// Directives.
        infos: Vec<Info>,
    },
    /// Start a job.
    Spawn {
        /// Who asks.
        proc: Proc,
        /// Directives.
        infos: Vec<Info>,
    },
    /// An event for other servers.
    Notify {
        /// Its code.
        code: Status,
        /// Its source.
        source: Proc,
        /// Its range.
        range: u8,
        /// Its infos.
        infos: Vec<Info>,
    },
    /// Abort processes.
    Abort {
        /// Who asks.
        proc: Proc,
        /// The exit status.
        status: Status,
        /// The processes.
        procs: Vec<Proc>,
    },
    /// Queries.
    Query {
        /// Who asks.
        proc: Proc,
        /// What.
        queries: Vec<Query>,
    },
    /// A tool has come.
    Tool {
        /// What is known of it.
        infos: Vec<Info>,
    },
    /// Output of processes is wanted, or not any more.
    Pull {
        /// Of these processes.
        procs: Vec<Proc>,
        /// Directives.
        infos: Vec<Info>,
        /// The channels.
        channels: u16,
    },
    /// Anything else.
    Other {
        /// The name of the host's function.
        slot: &'static str,
        /// Who asks, if the function is told.
        proc: Option<Proc>,
        /// Directives.
        infos: Vec<Info>,
    },
}

/// A collective that reaches the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Collective {
    /// A fence.
    Fence,
    /// A connect.
    Connect,
    /// A disconnect.
    Disconnect,
    /// A group is formed.
    Construct(CString),
    /// A group is dissolved.
    Destruct(CString),
}

/// An engine with its unfinished publications.
pub struct Simulation {
    engine: Engine,
    hostname: String,
    plans: BTreeMap<u64, Plan>,
    /// Queries whose memory is being read, by number.
    memory: BTreeMap<u64, MemoryAsked>,
    memory_last: u64,
    /// What is in its directories.
    files: Files,
    /// How many servers were before it.
    life: u32,
}

struct NoSink;

impl AnswerSink for NoSink {
    fn answer(&self, _id: u64, _answer: UpcallResult) -> Option<Task> {
        None
    }

    fn defer(&self, _job: Task) {}
}

impl Simulation {
    /// The server `me` on a node; user and group are `user`'s.
    pub fn new(me: Proc, hostname: &str, user: (u32, u32)) -> Simulation {
        Simulation::of_gateway(me, hostname, user, false)
    }

    /// As [`Simulation::new`], of the gateway, or not: it writes what is logged, and its host has release 4 of the stock library.
    pub fn of_gateway(me: Proc, hostname: &str, user: (u32, u32), is_gateway: bool) -> Simulation {
        Simulation::of(configuration(me, hostname, user, is_gateway), hostname)
    }

    /// The host registers a job; a registration that contradicts itself changes nothing.
    pub fn register_nspace(&mut self, nspace: &Nspace, nlocal: i32, infos: &[Info]) {
        let known = self.engine.job(nspace);
        if let Ok(plan) = JobPlan::read(nspace, nlocal, infos, known, &self.hostname) {
            self.engine.register_nspace(plan);
        }
    }

    /// Whether a job is registered.
    pub fn is_registered(&self, nspace: &Nspace) -> bool {
        self.engine.job(nspace).is_some()
    }

    /// The host forgets a job.
    pub fn deregister_nspace(&mut self, nspace: &Nspace) {
        self.engine.deregister_nspace(nspace);
    }

    /// The host registers a process of a user and group.
    pub fn register_client(&mut self, proc: &Proc, user: (u32, u32)) {
        self.engine.register_client(proc, user.0, user.1, 0);
    }

    /// The host forgets a process.
    pub fn deregister_client(&mut self, proc: &Proc) {
        self.engine.deregister_client(proc);
    }

    /// The host requests a process's environment.
    pub fn setup_fork(&mut self, proc: &Proc) -> Vec<(String, OsString)> {
        self.engine.setup_fork(proc)
    }

    /// The host will register a process whose environment it requests before.
    pub fn prepare_client(&mut self, proc: &Proc) {
        self.engine.prepare_client(proc);
    }

    /// The host says that it is ending a job.
    pub fn announce_end(&mut self, nspace: &Nspace) {
        self.engine.announce_end(nspace);
    }

    /// The host keeps the number of a process.
    pub fn note_pid(&mut self, proc: &Proc, pid: i32) {
        self.engine.note_pid(proc, pid);
    }

    /// The host defines a set of processes, or without members deletes one.
    pub fn set_process_set(&mut self, name: CString, members: Option<Vec<Proc>>) {
        self.engine.set_process_set(name, members);
    }

    /// The host registers values of all jobs.
    pub fn register_resources(&mut self, infos: Vec<Info>) -> Status {
        self.engine.register_resources(infos)
    }

    /// It takes them away again.
    pub fn deregister_resources(&mut self, infos: &[Info]) -> Status {
        self.engine.deregister_resources(infos)
    }

    /// The host registers values of a session.
    pub fn register_session(&mut self, session: u32, infos: Vec<Info>) -> Status {
        self.engine.register_session(session, infos)
    }

    /// It takes them away again.
    pub fn deregister_session(&mut self, session: u32) -> Status {
        self.engine.deregister_session(session)
    }

    /// The host names attributes that it supports.
    pub fn register_attributes(&mut self, function: CString, attributes: Vec<Regattr>) -> Status {
        self.engine.register_attributes(function, attributes)
    }

    /// The jobs of these processes, for other servers.
    ///
    /// # Errors
    /// As the engine's.
    pub fn collect_job_info(&self, procs: &[Proc]) -> Result<Vec<u8>> {
        self.engine.collect_job_info(procs)
    }

    /// Kept events with this code are forgotten.
    pub fn forget_events(&mut self, code: Status) {
        self.engine.forget_events(code);
    }

    /// How many collectives and Gets wait, as a report tells it.
    pub fn waiting(&self, now: Instant) -> (usize, usize) {
        let waiting = self.engine.waiting(now);
        (waiting.collectives.len(), waiting.gets.len())
    }

    /// Figures for reports.
    pub fn stats(&self) -> Stats {
        self.engine.stats()
    }

    /// The host has output of a process.
    pub fn deliver_output(&mut self, source: Proc, channel: u16, data: Vec<u8>, now: Instant) -> Status {
        self.engine.deliver_output(source, channel, data, Vec::new(), now)
    }

    /// The host pauses or resumes input. Returns whether the server's own process is told.
    pub fn control_input(&mut self, control: &FlowControl) -> bool {
        let mut is_own_told = false;
        self.engine.control_input(control, |_| is_own_told = true);
        is_own_told
    }

    /// A heartbeat of a peer has come.
    pub fn beat(&mut self, peer: u64) {
        self.engine.beat(PeerId(peer));
    }

    /// A file was looked at: when it was changed, `None` if it is not there.
    pub fn looked(&mut self, monitor: u64, changed: Option<i64>, now: Instant) {
        let seen = changed.map(|time| FileState { size: time, accessed: (time, 0), modified: (time, 0) });
        self.engine.looked(monitor, seen, now);
    }

    /// Usage was read.
    pub fn measured(&mut self, monitor: u64, told: Vec<Info>) {
        self.engine.measured(monitor, told);
    }

    /// Memory was read for a query of this number.
    pub fn memory_read(&mut self, number: u64, value: Value) {
        let Some(asked) = self.memory.remove(&number) else { return };
        self.engine.memory_read(asked, vec![value]);
    }

    /// Another job's registration describes a job, if nobody has registered it.
    pub fn describe_nspace(&mut self, nspace: &Nspace, infos: &[Info], by: &Nspace) {
        let Some(known) = self.engine.may_describe(nspace) else { return };
        if let Ok(plan) = JobPlan::read(nspace, 0, infos, known, &self.hostname) {
            plan.trim();
            self.engine.describe_nspace(plan, by);
            self.engine.free_discarded();
        }
    }

    /// How many jobs are registered with data.
    pub fn jobs(&self) -> usize {
        self.engine.jobs().len()
    }

    /// Whether a connection of this user would be dropped at once, since nobody of it is here. `None`: whose it is is not known.
    pub fn is_nobody(&mut self, user: Option<u32>) -> bool {
        let standing = self.engine.standing(user);
        standing == Standing::Nobody
    }

    /// When the server's thread sleeps until; whether there is something for it to do before, which is wrong when it has just done all.
    pub fn plan_wake_up(&mut self) -> (Option<Instant>, bool) {
        let until = self.engine.plan_wake_up();
        (until, self.engine.needs_thread())
    }

    /// Takes the reply to a request of the server's own process, if it is there.
    pub fn take_own_reply(&mut self, tag: u32) -> Option<Vec<u8>> {
        self.engine.take_own_reply(tag)
    }

    /// The server ends as it does without another thread: takes outputs until there are none. Returns whether a task that came last was done.
    pub fn end(&mut self) -> bool {
        let is_done = Arc::new(AtomicBool::new(false));
        let done = Arc::clone(&is_done);
        self.engine.defer(Box::new(move || done.store(true, Ordering::Relaxed)));
        while !self.engine.is_ended() {
            let outputs = self.engine.take_last_outputs();
            outputs.into_iter().for_each(|output| drop(self.event(output)));
        }
        is_done.load(Ordering::Relaxed)
    }

    /// A request of the server's own process is taken back.
    pub fn take_back(&mut self, tag: u32) {
        self.engine.take_back(tag);
    }

    /// An allocation failed for a message of a peer.
    pub fn refuse(&mut self, peer: u64, tag: u32, len: usize, is_commit: bool) {
        self.engine.refuse(PeerId(peer), tag, len, is_commit);
    }

    /// A connection over TCP introduces itself.
    pub fn hello(&mut self, peer: u64, hello: Hello) {
        self.engine.hello(PeerId(peer), Transport::Tcp { owner: None }, hello);
    }

    /// A connection introduces itself, and somebody says whose it is.
    pub fn hello_by(&mut self, peer: u64, word: Word, hello: Hello) {
        self.engine.hello(PeerId(peer), word.into(), hello);
    }

    /// A message of a peer.
    pub fn message(&mut self, peer: u64, tag: u32, payload: impl Into<Bytes>, now: Instant) {
        self.engine.message(PeerId(peer), tag, payload, now);
    }

    /// A connection has ended.
    pub fn disconnected(&mut self, peer: u64, now: Instant) {
        self.engine.disconnected(PeerId(peer), now);
    }

    /// The host answers the upcall with this number. A second answer is ignored.
    pub fn answer(&mut self, id: u64, answer: UpcallResult) {
        if completion::close(id) {
            self.engine.answer(id, answer);
        }
    }

    /// Another server requests a rank's data.
    pub fn dmodex_request(&mut self, proc: Proc, done: DmodexDone) {
        self.engine.dmodex_request(proc, done);
    }

    /// The host reports an event.
    pub fn notify(&mut self, code: Status, source: &Proc, range: u8, infos: Vec<Info>, now: Instant) {
        self.engine.deliver_event(Sender::Server, code, source, range, infos, now);
    }

    /// Time has passed.
    pub fn tick(&mut self, now: Instant) {
        self.engine.tick(now);
    }

    /// The time of the engine's next tick.
    pub fn deadline(&self) -> Option<Instant> {
        self.engine.deadline()
    }

    /// The publisher begins with a directory; returns whether there is a plan.
    pub fn begin_publication(&mut self, directory: u64) -> bool {
        let number = DirectoryNumber(directory);
        // A host's thread takes removals and small plans itself.
        let plan = self.engine.take_removal(number).or_else(|| self.engine.take_plan(number));
        let Some(plan) = plan else { return false };
        self.plans.insert(directory, plan);
        true
    }

    /// The directories that the publisher is at.
    pub fn publications(&self) -> impl Iterator<Item = u64> {
        self.plans.keys().copied()
    }

    /// The publisher is done with a directory, or has failed.
    pub fn end_publication(&mut self, directory: u64, has_failed: bool) {
        let Some(plan) = self.plans.remove(&directory) else { return };
        let published = self.publish(plan, has_failed);
        self.engine.published(published);
    }

    /// The time at which the host's next calls and answers come. Without it, and between calls that say the time, it is the clock's.
    pub fn set_time(&mut self, now: Instant) {
        self.engine.set_time(now);
    }

    /// What is kept for requests that are not over.
    pub fn kept(&self) -> Kept {
        self.engine.kept()
    }

    /// Whether publications are requested, unfinished or awaited.
    pub fn is_publishing(&self) -> bool {
        self.engine.is_publishing()
    }

    /// Takes the outputs in order. Callbacks are called.
    pub fn take_events(&mut self) -> Vec<Event> {
        let outputs = self.engine.take_outputs();
        self.write_journals();
        outputs.into_iter().filter_map(|output| self.event(output)).collect()
    }

    /// The server ends.
    pub fn shut_down(&mut self) -> Vec<Event> {
        let outputs = self.engine.shut_down();
        outputs.into_iter().filter_map(|output| self.event(output)).collect()
    }

    fn event(&mut self, output: Output) -> Option<Event> {
        Some(match output {
            Output::Admit { peer, status, .. } => Event::Admitted { peer: peer.0, status },
            Output::Send { peer, tag, payload } => Event::Sent { peer: peer.0, tag, payload },
            Output::Close(peer) => Event::Closed(peer.0),
            Output::Upcall { id, upcall } => {
                Event::Asked { id, answered_at_once: upcall.answered_at_once(), question: question(upcall) }
            }
            Output::Publish(directory) => Event::Publish(directory.0),
            Output::Log(_, line) => Event::Logged(line),
            Output::Call(call) => {
                call();
                return None;
            }
            // A simulation has no files: the simulating program says what is seen.
            Output::Show(output) => Event::Shown(output),
            Output::Look { monitor, .. } => Event::Look(monitor),
            Output::Measure { monitor, .. } => Event::Measure(monitor),
            Output::ReadMemory(asked) => {
                self.memory_last += 1;
                self.memory.insert(self.memory_last, *asked);
                Event::ReadMemory(self.memory_last)
            }
            Output::CleanUp((uid, _), _) => Event::CleanedUp(uid),
            Output::Listen(nspace, _) => {
                self.files.set_listening(nspace, true);
                return None;
            }
            Output::Unlisten(nspace) => {
                self.files.set_listening(nspace, false);
                return None;
            }
        })
    }
}

/// The configuration of a server that nothing was said about.
fn configuration(me: Proc, hostname: &str, user: (u32, u32), is_gateway: bool) -> Config {
    Config {
        wants_remote: false,
        munge_for_loopback: false,
        me,
        hostname: hostname.to_owned(),
        server_tmpdir: "/nonexistent".into(),
        system_tmpdir: "/nonexistent".into(),
        rendezvous: RendezvousOptions { tools: true, ..RendezvousOptions::default() },
        uid: user.0,
        gid: user.1,
        singleton: None,
        is_gateway,
        foreign_tools: false,
        descriptors: 1024,
        access: Access::default(),
        port: 0,
        socket_mode: 0o600,
        shared_memory: true,
        trust_claims: true,
        tool_secret: None,
        slurm_fence: SlurmFence::Agreed,
        late_key_wait: LATE_KEY_WAIT,
        stock_release: is_gateway.then_some(4),
        restart: None,
        life: 0,
        lasting_name: String::new(),
    }
}

/// What an upcall asks.
fn question(upcall: Upcall) -> Question {
    let collective = |kind, procs, infos, data| Question::Collective { kind, procs, infos, data };
    match upcall {
        Upcall::Fence { procs, infos, data } => {
            collective(Collective::Fence, procs, infos, data.into_bytes().unwrap_or_default())
        }
        Upcall::Connect { procs, infos } => collective(Collective::Connect, procs, infos, Vec::new()),
        Upcall::Disconnect { procs, infos } => collective(Collective::Disconnect, procs, infos, Vec::new()),
        Upcall::Group { operation, group, procs, infos } => {
            let kind = match operation {
                GroupOperation::Construct => Collective::Construct(group),
                GroupOperation::Destruct => Collective::Destruct(group),
            };
            collective(kind, procs, infos, Vec::new())
        }
        Upcall::DirectModex { proc, infos } => Question::DirectModex { proc, infos },
        Upcall::Publish { proc, infos } => Question::Publish { proc, infos },
        Upcall::Lookup { proc, keys, infos } => Question::Lookup { proc, keys, infos },
        Upcall::Spawn { proc, infos, .. } => Question::Spawn { proc, infos },
        Upcall::NotifyEvent { code, source, range, infos } => Question::Notify { code, source, range, infos },
        Upcall::Abort { proc, status, procs, .. } => Question::Abort { proc, status, procs },
        Upcall::Query { proc, queries } => Question::Query { proc, queries },
        Upcall::ToolConnected { infos } => Question::Tool { infos },
        Upcall::IofPull { procs, infos, channels } => Question::Pull { procs, infos, channels },
        other => {
            let slot = other.slot();
            let (proc, infos) = particulars(other);
            Question::Other { slot, proc, infos }
        }
    }
}

/// Who asks, as far as the host is told, and the directives.
fn particulars(upcall: Upcall) -> (Option<Proc>, Vec<Info>) {
    match upcall {
        Upcall::ClientConnected { proc, infos, .. }
        | Upcall::Unpublish { proc, infos, .. }
        | Upcall::Allocate { proc, infos, .. }
        | Upcall::GetCredential { proc, infos }
        | Upcall::ValidateCredential { proc, infos, .. }
        | Upcall::ResourceBlock { proc, infos, .. }
        | Upcall::Log { proc, directives: infos, .. }
        | Upcall::JobControl { proc, directives: infos, .. }
        | Upcall::Monitor { proc, directives: infos, .. }
        | Upcall::Fabric { proc, directives: infos, .. }
        | Upcall::SessionControl { proc, directives: infos, .. }
        | Upcall::PushStdin { source: proc, infos, .. } => (Some(proc), infos),
        Upcall::ClientFinalized { proc, .. } => (Some(proc), Vec::new()),
        Upcall::RegisterEvents { infos, .. } => (None, infos),
        _ => (None, Vec::new()),
    }
}
