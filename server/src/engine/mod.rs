//! The protocol engine: messages, host answers and ticks in; messages, upcalls and callbacks out. No I/O.
//!
//! One [`Engine`] is behind one lock. The server's thread and the host's threads (in API calls) feed it, which produces
//! [`Output`]s; the server's thread performs them in order, outside the lock. So an upcall may call back into
//! the server, and a run of the engine can be replayed from its inputs.

mod apart;
mod attributes;
mod buffering;
mod collective;
mod collectives;
mod connected;
mod constructs;
mod data;
mod events;
mod forms;
mod get;
mod groups;
mod inspection;
mod ledger;
mod limits;
mod members;
mod modex_delta;
mod monitors;
mod nspaces;
mod output;
mod peer;
mod peers;
mod publication;
mod query;
mod resources;
mod server_mark;
mod services;
#[cfg(feature = "simulate")]
mod simulated;
mod slurm;
mod standing;
mod statistics;
mod successor;
#[cfg(test)]
mod tests;
mod tools;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use pmix_client::get::timeout_of;
use pmix_dstore::codec::{Dialect, Module, Untyped};
use pmix_dstore::job::{JobData, Values};
use pmix_dstore::model::{Backing, Bytes, Nspace, Proc, Result, Status};
use pmix_wire::reply::StatusReply;
use pmix_wire::{IoDelivery, Reply, Request, TAG_DELETED, Version};

use self::collective::{Collective, Kind};
use self::events::EventCache;
pub(crate) use self::events::{Range, Sender};
pub(crate) use self::ledger::{Batch, Content, DirectoryNumber, LiveSegment, Merged, ModexBatch, Replacement, Written};
pub(crate) use self::nspaces::JobPlan;
use self::nspaces::NspaceState;
pub(crate) use self::peer::{Peer, PeerId, Transport};
pub(crate) use self::publication::{Plan, Published, Ticket, Work, without_shared_memory};
#[cfg(feature = "simulate")]
pub(crate) use self::query::MemoryAsked;
use self::services::Shape;
#[cfg(feature = "simulate")]
pub use self::simulated::Kept;
pub(crate) use self::standing::Standing;
pub(crate) use self::successor::JournalEntry;
use crate::cleanup::Cleanup;
use crate::completion::{self, AnswerSink, UpcallResult};
use crate::config::Config;
use crate::journal::Reason;
use crate::restart::Estate;
use crate::upcall::Upcall;
use crate::usage::{Target, Usage};
use crate::{DmodexDone, Stats};

/// Something that the server's thread has to do.
pub(crate) enum Output {
    /// Answer a handshake; with an error the connection is closed.
    Admit {
        /// The peer.
        peer: PeerId,
        /// The result.
        status: Status,
        /// The answer's bytes.
        reply: Vec<u8>,
    },
    /// Send a message.
    Send {
        /// The receiver.
        peer: PeerId,
        /// The request's tag, or a reserved one.
        tag: u32,
        /// The payload.
        payload: Vec<u8>,
    },
    /// Drop a connection.
    Close(PeerId),
    /// Carry out the plan for a namespace's directory, unless another thread has taken it: [`Engine::take_plan`].
    Publish(DirectoryNumber),
    /// Listen on the Unix socket of a namespace, in this directory.
    Listen(Nspace, DirectoryNumber),
    /// Stop listening there.
    Unlisten(Nspace),
    /// Ask the host.
    Upcall {
        /// The upcall's number.
        id: u64,
        /// The upcall.
        upcall: Upcall,
    },
    /// Show output of a process where this server's host asked for that.
    Show(IoDelivery),
    /// Call back into the host or into this process's client.
    Call(Box<dyn FnOnce() + Send>),
    /// Look at a file as this user, for a monitor.
    Look {
        /// The monitor's number.
        monitor: u64,
        /// The file.
        path: PathBuf,
        /// User and group.
        user: (u32, u32),
    },
    /// Read the resource usage, for a monitor.
    Measure {
        /// The monitor's number.
        monitor: u64,
        /// The requested values.
        usage: Usage,
        /// The processes, if it is the usage of processes.
        targets: Vec<Target>,
        /// The name of this node.
        hostname: String,
    },
    /// Read memory usage, for a query.
    ReadMemory(Box<query::MemoryAsked>),
    /// Remove the files of a clean-up that a process of this user and group registered.
    CleanUp((u32, u32), Cleanup),
    /// Write a log line.
    Log(Reason, String),
}

/// The action on the host's answer to an upcall.
enum Continuation {
    /// Admit the client.
    Admit(PeerId),
    /// Admit the tool.
    AdmitTool(PeerId),
    /// Reply to a request in the shape that its command has.
    Reply(PeerId, u32, Shape),
    /// Reply to a spawn with a pull of output on these channels.
    Spawned(PeerId, u32, u16),
    /// Reply to a pull of output with this number.
    Pulled(PeerId, u32, u64),
    /// Reply to a request for a monitor, or perform it if the host does not.
    Monitor(PeerId, u32, Box<Result<Option<monitors::Wish>>>),
    /// Reply to a query, a part of which was passed to the host.
    Query(Box<query::Asked>),
    /// Reply to finalize.
    Finalized(PeerId, u32),
    /// Store the contributions of a collective, and release the participants.
    Collective(u64),
    /// Store a rank's data, and answer the Gets that wait for it. With a user that has no known right to read the job: success
    /// means that the host allows this user to read it.
    Dmodex(Proc, Option<u32>),
    /// Reply to the registration of events; these codes were passed to the host.
    EventsRegistered(PeerId, u32, Vec<Status>),
    /// The answer is ignored.
    Nothing,
}

/// How long the requester of an upcall waits for the host.
struct Limit {
    until: Instant,
    /// When the host was asked.
    since: Instant,
    /// The host's function.
    slot: &'static str,
    /// The requester.
    asker: PeerId,
}

/// The state of a server.
pub(crate) struct Engine {
    config: Config,
    sink: Weak<dyn AnswerSink>,
    nspaces: HashMap<Nspace, NspaceState>,
    peers: HashMap<PeerId, Peer>,
    /// Tools that wait for the host's answer.
    knocking: HashMap<PeerId, tools::Knocking>,
    /// By number: of two that a process may join, it joins the older.
    collectives: BTreeMap<u64, Collective>,
    collective_next: u64,
    upcalls: HashMap<u64, Continuation>,
    /// Time-outs of upcalls: when the requester gets `ERR_TIMEOUT`.
    late: BTreeSet<(Instant, u64)>,
    limits: HashMap<u64, Limit>,
    /// By connect, not yet ended by disconnect.
    connected: Vec<connected::Connected>,
    /// Processes that have finalized, with the number of their finalizes, and the time after which they are not
    /// expected back.
    farewells: VecDeque<(Instant, Proc, u32)>,
    /// Processes that were connected to the server before this one, with the time after which they are not expected back.
    awaited: VecDeque<(Instant, Proc)>,
    gets: get::Waiting,
    missed: inspection::MissedKeys,
    events: EventCache,
    psets: query::ProcessSets,
    /// Values that all jobs have.
    resources: Values,
    /// Values of the sessions that the host has registered apart from jobs.
    sessions: HashMap<u32, Values>,
    host_attributes: attributes::HostAttributes,
    groups: groups::Groups,
    /// Hosts that another library serves and that have been logged.
    foreign_hosts: BTreeSet<Vec<u8>>,
    /// What servers of other nodes read.
    forms: forms::Sets,
    outputs_of_procs: output::Outputs,
    monitors: monitors::Monitors,
    outputs: VecDeque<Output>,
    /// Memory that the host has lent and that has not been returned, with the publications that read it.
    lent: Vec<(Arc<Backing>, Vec<Ticket>)>,
    publications: publication::Publications,
    /// What is to be written to the journals, in this order; empty where the server is not to be restarted.
    journal: VecDeque<(DirectoryNumber, JournalEntry)>,
    /// What servers that were killed have left of namespaces that are to be registered again.
    estates: HashMap<Nspace, Estate>,
    /// Data of deregistered jobs, to be freed later: freeing a large job takes long.
    discarded: Vec<Arc<JobData>>,
    stats: Stats,
    first_fork: Option<Instant>,
    /// Lost processes that the host's handlers have not been notified of.
    losses: Vec<peers::Loss>,
    /// A fence has collected data: the wire-up is over.
    collected: bool,
    /// Messages refused for lack of memory.
    refused: u64,
    /// The line that peers over TCP cannot be admitted has been logged.
    no_table_told: bool,
    /// Cached standings of users, since the last change of clients.
    standings: HashMap<u32, Standing>,
    port: u16,
    /// When the server's thread wakes by itself.
    wakes_at: Option<Instant>,
    ended: bool,
    /// The time of a simulation.
    #[cfg(feature = "simulate")]
    simulated: Option<Instant>,
}

/// The dialect in which the servers of a job exchange data. The releases of the other servers are unknown. The newest encoder
/// packs values of older types in the same bytes as older encoders, and can also pack newer types, which clients of 6.x put.
const EXCHANGE: Dialect = Dialect::plain(Module::V61).with_untyped(Untyped::Replaced);

/// How long values of a direct modex wait to be published together with others.
const PUBLISH_DELAY: Duration = Duration::from_millis(5);

/// The delay from the loss of a process to the event for the host's handlers, unless it was the last process here. Slurm ends
/// the job on this event. The delay gives the host time to see the exit status itself, and the job time to end by
/// itself. Released servers collect events for as long.
const LOSS_DELAY: Duration = Duration::from_secs(1);

/// The time for which collectives wait for a process that has finalized to connect again, as the next program of a
/// script or in its next cycle. After that they continue without it.
const RETURN_DELAY: Duration = Duration::from_secs(3);

impl Engine {
    /// A server that listens on TCP `port`. `sink` takes the host's answers.
    pub fn new(config: Config, port: u16, sink: Weak<dyn AnswerSink>) -> Engine {
        let own = Peer::own(&config);
        Engine {
            config,
            sink,
            nspaces: HashMap::new(),
            peers: HashMap::from([(PeerId::OWN, own)]),
            knocking: HashMap::new(),
            collectives: BTreeMap::new(),
            collective_next: 0,
            upcalls: HashMap::new(),
            late: BTreeSet::new(),
            limits: HashMap::new(),
            connected: Vec::new(),
            farewells: VecDeque::new(),
            awaited: VecDeque::new(),
            gets: get::Waiting::default(),
            missed: inspection::MissedKeys::default(),
            events: EventCache::default(),
            psets: query::ProcessSets::new(),
            resources: Values::new(),
            sessions: HashMap::new(),
            host_attributes: attributes::HostAttributes::new(),
            groups: groups::Groups::new(),
            foreign_hosts: BTreeSet::new(),
            forms: forms::Sets::default(),
            outputs_of_procs: output::Outputs::default(),
            monitors: monitors::Monitors::default(),
            outputs: VecDeque::new(),
            lent: Vec::new(),
            publications: publication::Publications::default(),
            journal: VecDeque::new(),
            estates: HashMap::new(),
            discarded: Vec::new(),
            stats: Stats::default(),
            first_fork: None,
            losses: Vec::new(),
            collected: false,
            refused: 0,
            no_table_told: false,
            standings: HashMap::new(),
            port,
            wakes_at: None,
            ended: false,
            #[cfg(feature = "simulate")]
            simulated: None,
        }
    }

    /// The time, for host calls and answers that come without one.
    fn now(&self) -> Instant {
        #[cfg(feature = "simulate")]
        if let Some(now) = self.simulated {
            return now;
        }
        Instant::now()
    }

    /// Figures for reports.
    pub fn stats(&self) -> Stats {
        let mut stats = self.stats.clone();
        for state in self.nspaces.values() {
            state.ledger.add_to(&mut stats);
        }
        stats
    }

    /// Takes the outputs, in order.
    pub fn take_outputs(&mut self) -> VecDeque<Output> {
        std::mem::take(&mut self.outputs)
    }

    /// A message of a peer, with the tag that a reply needs.
    pub fn message(&mut self, peer: PeerId, tag: u32, payload: impl Into<Bytes>, now: Instant) {
        let payload = payload.into();
        let Some(state) = self.peers.get(&peer) else { return };
        match Request::decode_message(state.dialect, state.version, &payload) {
            // The only request without a reply.
            Ok(request @ Request::DeregisterEvents { .. }) => self.request(peer, tag, request, payload.len(), now),
            Ok(request) => {
                if self.open_request(peer, tag, payload.len()) {
                    self.request(peer, tag, request, payload.len(), now);
                }
            }
            Err(Status::ERR_NOMEM) => {
                let is_commit = Request::is_commit(state.dialect, &payload);
                self.refuse(peer, tag, payload.len(), is_commit);
            }
            Err(status) => {
                let (proc, version) = (&state.proc, &state.version_text);
                let len = payload.len();
                self.log(format!("dropped {proc} (PMIx {version}): malformed message of {len} bytes ({status})"));
                self.outputs.push_back(Output::Close(peer));
                self.lose(peer, now, false);
            }
        }
    }

    /// An allocation failed for a peer's message or its request: the reply has `ERR_NOMEM`, and the peer stays connected. If the
    /// message is or may be a commit, the Gets that wait for its values get the error as well, because released clients ignore the
    /// answer to a commit.
    pub fn refuse(&mut self, peer: PeerId, tag: u32, len: usize, is_commit: bool) {
        let Some(state) = self.peers.get(&peer) else { return };
        let proc = state.proc.clone();
        let status = Status::ERR_NOMEM;
        self.refused += 1;
        // Logged at powers of two only: many lines do not help when memory is short.
        if self.refused.is_power_of_two() {
            let count = self.refused;
            self.log(format!("out of memory: refused a message of {len} bytes from {proc}; {count} refused so far"));
        }
        self.reply_status(peer, tag, status);
        let nspace = self.nspaces.get_mut(&proc.nspace).filter(|_| is_commit);
        if let Some(client) = nspace.and_then(|state| state.clients.get_mut(&proc.rank)) {
            client.refused = true;
            self.retry_gets(&proc);
        }
    }

    fn request(&mut self, peer: PeerId, tag: u32, request: Request, len: usize, now: Instant) {
        match request {
            Request::JobInfo => self.job_info(peer, tag),
            Request::Commit { parts } => self.commit(peer, tag, parts, len),
            Request::Fence { .. } if self.is_over_for_former(peer, tag) => {}
            Request::Fence { procs, infos } => self.enter(Kind::Fence, peer, tag, procs, infos, now),
            Request::Connect { procs, infos, .. } => self.enter(Kind::Connect, peer, tag, procs, infos, now),
            Request::Disconnect { procs, infos } => self.enter(Kind::Disconnect, peer, tag, procs, infos, now),
            Request::GroupConstruct { group, procs, infos } => self.construct(peer, tag, group, procs, infos, now),
            Request::GroupDestruct { group, infos, .. } => self.destruct(peer, tag, group, infos, now),
            Request::GroupLeave { group, infos } => {
                self.leave_group(peer, tag, group, (timeout_of(&infos), now));
            }
            Request::Get { nspace, rank, infos, key } => self.get(peer, tag, Proc::new(nspace, rank), infos, key, now),
            Request::RefreshCache { nspace, rank } => self.refresh(peer, tag, Proc::new(nspace, rank), now),
            Request::Finalize => self.finalize_peer(peer, tag),
            Request::RegisterEvents { codes, infos } => self.register_events(peer, tag, codes, infos, now),
            Request::DeregisterEvents { codes } => self.deregister_events(peer, &codes),
            Request::Notify { status, range, infos } => self.notify(peer, tag, status, range, infos, now),
            Request::IoPull { procs, infos, channels, handler } => {
                self.pull_output(peer, tag, procs, infos, (channels, handler), now);
            }
            Request::IoDeregister { infos, handler } => self.stop_output(peer, tag, infos, handler, now),
            Request::IoPush { targets, infos, data } => self.push_input(peer, tag, targets, infos, data, now),
            other => self.service(peer, tag, other, now),
        }
    }

    /// The tag of this process's own spawn, if it is what the upcall `id` is about.
    pub fn own_spawn(&self, id: u64) -> Option<u32> {
        match self.upcalls.get(&id) {
            Some(Continuation::Spawned(PeerId::OWN, tag, _)) => Some(*tag),
            _ => None,
        }
    }

    /// The host answered an upcall, or it was answered by its return value.
    pub fn answer(&mut self, id: u64, answer: UpcallResult) {
        let lent = match &answer {
            UpcallResult::Data(_, data) => {
                data.backing().filter(|whole| matches!(***whole, Backing::External(_))).cloned()
            }
            _ => None,
        };
        let before = self.outputs.len();
        let ((), tickets) = self.recording(|engine| engine.take_answer(id, answer));
        self.lent.extend(lent.map(|whole| (whole, tickets)));
        self.give_back(before);
    }

    /// Returns lent memory on the server's thread, because the release callback may take a lock that the host holds while it answers.
    /// A host may accept no new collective before the callback. So the callback is inserted before the replies from `place` on.
    fn give_back(&mut self, place: usize) {
        for (whole, tickets) in &mut self.lent {
            tickets.retain(|ticket| !self.publications.is_done(ticket));
            if tickets.is_empty() && Arc::strong_count(whole) > 1 {
                // Copies values that the publisher has not copied. If an allocation fails, the host's memory is returned later.
                let _ = self.nspaces.values_mut().try_for_each(|state| state.copy_out_of(whole));
            }
        }
        for (whole, _) in self.lent.extract_if(.., |(whole, _)| Arc::strong_count(whole) == 1) {
            self.outputs.insert(place, Output::Call(Box::new(move || drop(whole))));
        }
    }

    fn take_answer(&mut self, id: u64, answer: UpcallResult) {
        if let Some(limit) = self.limits.remove(&id) {
            self.late.remove(&(limit.until, id));
        }
        match self.upcalls.remove(&id) {
            None | Some(Continuation::Nothing) => {}
            Some(Continuation::EventsRegistered(peer, tag, codes)) => {
                self.host_registered_events(peer, tag, &codes, answer.status());
            }
            Some(Continuation::Admit(peer)) => self.admit(peer, answer.status()),
            Some(Continuation::AdmitTool(peer)) => self.admit_tool(peer, answer),
            Some(Continuation::Spawned(peer, tag, channels)) => self.spawned(peer, tag, channels, answer),
            Some(Continuation::Pulled(peer, tag, number)) => self.pulled(peer, tag, number, answer.status()),
            Some(Continuation::Monitor(peer, tag, wish)) => self.monitor_answered(peer, tag, *wish, answer),
            Some(Continuation::Query(asked)) => self.query_answered(*asked, answer),
            Some(Continuation::Reply(peer, tag, shape)) => self.reply_answer(peer, tag, shape, answer),
            Some(Continuation::Finalized(peer, tag)) => self.finalized(peer, tag, answer.status()),
            Some(Continuation::Collective(id)) => match answer {
                UpcallResult::Data(status, data) => self.collective_answered(id, status, data),
                UpcallResult::Infos(status, infos) => self.group_answered(id, status, &infos),
                other => self.collective_answered(id, other.status(), Bytes::default()),
            },
            Some(Continuation::Dmodex(proc, user)) => match answer {
                UpcallResult::Data(status, data) => self.dmodex_answered(&proc, user, status, &data),
                other => self.dmodex_answered(&proc, user, other.status(), &[]),
            },
        }
    }

    /// Time has passed.
    pub fn tick(&mut self, now: Instant) {
        if self.deadline().is_some_and(|deadline| deadline <= now) {
            self.expire_gets(now);
            self.expire_collectives(now);
            self.expire_upcalls(now);
            self.publish_due(now);
            self.give_up_awaited(now);
            self.report_losses(now);
            self.give_up_returns(now);
            self.look_at_monitors(now);
            self.send_due_output(now);
        }
    }

    /// The time of the next tick.
    pub fn deadline(&self) -> Option<Instant> {
        let publish = self.nspaces.values().filter_map(|state| state.ledger.due).min();
        let loss = self.losses.iter().map(|loss| loss.due).min();
        let late = self.late.first().map(|(deadline, _)| *deadline);
        let farewell = self.farewells.front().map(|(due, ..)| *due);
        let awaited = self.awaited.front().map(|(due, _)| *due);
        let monitor = self.monitors.deadline();
        let output = self.outputs_of_procs.deadline();
        [self.gets.deadline(), self.collective_deadline(), late, publish, loss, farewell, awaited, monitor, output]
            .into_iter()
            .flatten()
            .min()
    }

    /// As [`Engine::deadline`], for the server's thread, which then sleeps until that time at most.
    pub fn plan_wake_up(&mut self) -> Option<Instant> {
        self.wakes_at = self.deadline();
        self.wakes_at
    }

    /// Whether the server's thread must be woken: there are outputs, or something is due before it wakes by itself.
    pub fn needs_thread(&self) -> bool {
        let is_earlier = |due| self.wakes_at.is_none_or(|at| due < at);
        !self.outputs.is_empty() || self.deadline().is_some_and(is_earlier)
    }

    /// Runs `task` on the server's thread after the present outputs, or during finalize.
    pub fn defer(&mut self, task: Box<dyn FnOnce() + Send>) {
        self.outputs.push_back(Output::Call(task));
    }

    /// Takes the remaining outputs during finalize; once it has returned none, later ones are not performed.
    pub fn take_last_outputs(&mut self) -> VecDeque<Output> {
        self.ended = self.outputs.is_empty();
        self.take_outputs()
    }

    /// Whether nothing will be done any more.
    pub fn is_ended(&self) -> bool {
        self.ended
    }

    /// The reply to one of this process's own requests, if it has arrived.
    pub fn take_own_reply(&mut self, tag: u32) -> Option<Vec<u8>> {
        let is_reply = |output: &Output| matches!(output, Output::Send { peer: PeerId::OWN, tag: t, .. } if *t == tag);
        let position = self.outputs.iter().position(is_reply)?;
        match self.outputs.remove(position)? {
            Output::Send { payload, .. } => Some(payload),
            _ => None,
        }
    }

    /// This process cannot wait for the reply to its request: it is on the server's thread, which would have to receive the reply. Takes
    /// the request back as far as nobody has seen it: the upcalls that it has led to are made by this same thread.
    pub fn take_back(&mut self, tag: u32) {
        let is_of_it = |then: &Continuation| match then {
            Continuation::Reply(peer, of, _)
            | Continuation::Spawned(peer, of, _)
            | Continuation::Pulled(peer, of, _)
            | Continuation::Monitor(peer, of, _)
            | Continuation::EventsRegistered(peer, of, _) => (*peer, *of) == (PeerId::OWN, tag),
            Continuation::Query(asked) => asked.is_of(PeerId::OWN, tag),
            _ => false,
        };
        // One that others have entered, too, goes on.
        if let Some(collective) = self.withdraw_arrival(PeerId::OWN, tag) {
            let is_its = |then: &Continuation| matches!(then, Continuation::Collective(of) if *of == collective);
            let ids: Vec<u64> = self.upcalls.iter().filter(|(_, then)| is_its(then)).map(|(id, _)| *id).collect();
            ids.into_iter().for_each(|id| self.unmake(id));
        }
        let ids: Vec<u64> = self.upcalls.iter().filter(|(_, then)| is_of_it(then)).map(|(id, _)| *id).collect();
        for id in ids {
            self.unmake(id);
        }
    }

    /// Takes an upcall back that has not been made.
    fn unmake(&mut self, id: u64) {
        self.outputs.retain(|output| !matches!(output, Output::Upcall { id: of, .. } if *of == id));
        completion::close(id);
        // Undoes what has been noted for the answer. The reply goes to nobody.
        self.answer(id, UpcallResult::Op(Status::ERR_WOULD_BLOCK));
    }

    /// Deregisters all namespaces: their directories and files are removed. The caller, which holds the lock now, performs the
    /// returned outputs.
    pub fn shut_down(&mut self) -> VecDeque<Output> {
        let nspaces: Vec<Nspace> = self.nspaces.keys().cloned().collect();
        for nspace in nspaces {
            self.deregister_nspace(&nspace);
        }
        for id in std::mem::take(&mut self.upcalls).into_keys() {
            completion::close(id);
        }
        self.give_back(self.outputs.len());
        self.take_outputs()
    }

    fn upcall(&mut self, then: Continuation, upcall: Upcall) -> u64 {
        let id = completion::open(self.sink.clone());
        self.upcalls.insert(id, then);
        self.outputs.push_back(Output::Upcall { id, upcall });
        id
    }

    /// As [`Engine::upcall`]; the requester gets `ERR_TIMEOUT` if the host has not answered within `time`.
    fn upcall_within(
        &mut self,
        then: Continuation,
        asker: PeerId,
        upcall: Upcall,
        (time, now): (Option<Duration>, Instant),
    ) {
        self.upcall_until(then, asker, upcall, (time.map(|time| now + time), now));
    }

    /// As [`Engine::upcall_within`], with the end of that time.
    fn upcall_until(
        &mut self,
        then: Continuation,
        asker: PeerId,
        upcall: Upcall,
        (until, since): (Option<Instant>, Instant),
    ) {
        let slot = upcall.slot();
        let id = self.upcall(then, upcall);
        if let Some(until) = until {
            self.late.insert((until, id));
            self.limits.insert(id, Limit { until, since, slot, asker });
        }
    }

    fn expire_upcalls(&mut self, now: Instant) {
        while let Some((_, id)) = self.late.first().copied().filter(|(deadline, _)| *deadline <= now) {
            // Nobody waits for the answer of a requester that is gone.
            if let Some(limit) = self.limits.get(&id)
                && let Some(peer) = self.peers.get(&limit.asker)
            {
                let (asker, answer) = (&peer.proc, answer_of_host(limit.slot, limit.since, now));
                let line = format!("a request of {asker} timed out; missing: {answer}");
                let reason = Reason::here().about(limit.slot).by(Some(peer.user.uid));
                self.outputs.push_back(Output::Log(reason, line));
            }
            // A later answer is ignored.
            self.answer(id, UpcallResult::Op(Status::ERR_TIMEOUT));
        }
    }

    #[track_caller]
    fn log(&mut self, line: String) {
        self.outputs.push_back(Output::Log(Reason::here(), line));
    }

    fn call(&mut self, call: impl FnOnce() + Send + 'static) {
        self.outputs.push_back(Output::Call(Box::new(call)));
    }

    /// Sends the result of `encode` in the peer's dialect and for its release; nothing if the peer is gone. If `encode`
    /// fails, the reply has the status instead.
    fn send(&mut self, id: PeerId, tag: u32, encode: impl FnOnce(Dialect, Version) -> Result<Vec<u8>>) {
        let Some(peer) = self.peers.get_mut(&id) else { return };
        // Tags of requests are larger than the reserved tags of unrequested messages.
        let is_reply = tag > TAG_DELETED;
        if is_reply {
            peer.unanswered.answered(tag);
        }
        let payload = match encode(peer.dialect, peer.version) {
            Ok(payload) => payload,
            // An event that cannot be packed for the peer is dropped.
            Err(_) if !is_reply => return,
            Err(status) => StatusReply { status }.bytes(peer.dialect),
        };
        self.outputs.push_back(Output::Send { peer: id, tag, payload });
    }

    fn reply(&mut self, peer: PeerId, tag: u32, reply: &impl Reply) {
        self.send(peer, tag, |dialect, version| reply.encode(dialect, version));
    }

    fn reply_status(&mut self, peer: PeerId, tag: u32, status: Status) {
        self.reply(peer, tag, &StatusReply { status });
    }

    /// A request is over, and its sender waits for no reply.
    fn needs_no_reply(&mut self, peer: PeerId, tag: u32) {
        if let Some(peer) = self.peers.get_mut(&peer) {
            peer.unanswered.answered(tag);
        }
    }

    /// Another server requests the committed values of a local rank for other nodes.
    pub fn dmodex_request(&mut self, proc: Proc, done: DmodexDone) -> Status {
        self.serve_dmodex(proc, done)
    }
}

/// What is missing where the host has not answered an upcall, in words.
fn answer_of_host(slot: &str, since: Instant, now: Instant) -> String {
    let seconds = now.saturating_duration_since(since).as_secs_f64();
    format!("the answer of the host to its {slot} upcall, asked {seconds:.1} s ago")
}
