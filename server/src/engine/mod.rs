//! The protocol engine: messages, host answers and ticks in; messages, upcalls and callbacks out. No I/O.
//!
//! One [`Engine`] is behind one lock. Whoever feeds it (the server's thread, or a thread of the host in an API call)
//! leaves [`Output`]s; the server's thread performs them in order, outside the lock. So an upcall may call back into
//! the server, and a run of the engine replays from its inputs.

mod apart;
mod attributes;
mod collective;
mod connected;
mod data;
mod events;
mod get;
mod groups;
mod ledger;
mod limits;
mod members;
mod modex_delta;
mod monitors;
mod nspaces;
mod output;
mod peers;
mod publication;
mod query;
mod resources;
mod services;
mod slurm;
mod standing;
mod statistics;
#[cfg(test)]
mod tests;
mod tools;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use pmix_dstore::codec::{Dialect, Module, Untyped};
use pmix_dstore::job::{JobData, Values};
use pmix_dstore::model::{Backing, Bytes, Nspace, Proc, Result, Status};
use pmix_wire::reply::StatusReply;
use pmix_wire::{Reply, Request, TAG_DELETED, Version};

use self::collective::{Collective, Kind};
use self::events::EventCache;
pub(crate) use self::events::{Range, Sender};
pub(crate) use self::ledger::{Batch, Content, DirectoryNumber, LiveSegment, Merged, ModexBatch, Replacement, Written};
pub(crate) use self::nspaces::JobPlan;
use self::nspaces::NspaceState;
pub(crate) use self::peers::{Peer, PeerId, Transport};
pub(crate) use self::publication::{Plan, Published, Ticket, Work, without_shared_memory};
use self::services::Shape;
pub(crate) use self::standing::Standing;
use crate::cleanup::Cleanup;
use crate::completion::{self, Answer, AnswerSink};
use crate::config::Config;
use crate::journal::Reason;
use crate::upcall::Upcall;
use crate::usage::{Target, Usage};
use crate::{DmodexDone, Stats};

/// Something that the server's thread has to do.
pub(crate) enum Output {
    /// Answer a handshake; with an error the connection is closed.
    Admit {
        /// Whose.
        peer: PeerId,
        /// The result.
        status: Status,
        /// The answer's bytes.
        reply: Vec<u8>,
    },
    /// Send a message.
    Send {
        /// To whom.
        peer: PeerId,
        /// The request's tag, or a reserved one.
        tag: u32,
        /// The payload.
        payload: Vec<u8>,
    },
    /// Drop a connection.
    Close(PeerId),
    /// Carry out the plan for a namespace's directory, where no other thread has taken it: [`Engine::take_plan`].
    Publish(DirectoryNumber),
    /// Listen on the Unix socket of a namespace, in this directory.
    Listen(Nspace, DirectoryNumber),
    /// Stop listening there.
    Unlisten(Nspace),
    /// Ask the host.
    Upcall {
        /// The upcall's number.
        id: u64,
        /// What is asked.
        upcall: Upcall,
    },
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
    /// Read what is used, for a monitor.
    Measure {
        /// The monitor's number.
        monitor: u64,
        /// What is wanted.
        usage: Usage,
        /// Of which processes, where it is of processes.
        targets: Vec<Target>,
        /// What this node is called.
        hostname: String,
    },
    /// Remove what a process of this user and group asked to have removed.
    CleanUp((u32, u32), Cleanup),
    /// Tell the administrator.
    Log(Reason, String),
}

/// What to do when the host answers an upcall.
enum Continuation {
    /// Let the client in.
    Admit(PeerId),
    /// Let the tool in.
    AdmitTool(PeerId),
    /// Reply to a request in the shape that its command has.
    Reply(PeerId, u32, Shape),
    /// Reply to a spawn whose output on these channels the process wants.
    Spawned(PeerId, u32, u16),
    /// Reply to a pull of output with this number.
    Pulled(PeerId, u32, u64),
    /// Reply to who wants something to be watched, or do it where the host does not.
    Monitor(PeerId, u32, Box<Result<Option<monitors::Wish>>>),
    /// Reply to a query, of which the host was asked a part.
    Query(Box<query::Asked>),
    /// Reply to finalize.
    Finalized(PeerId, u32),
    /// Store what the exchange brought, and release the participants.
    Collective(u64),
    /// Store a rank's data, and answer those who wait for it. With a user that is none of the job's, as far as is known here:
    /// success is the host's word that this user may read it.
    Dmodex(Proc, Option<u32>),
    /// Reply to the registration of events, of which the host was told of these.
    EventsRegistered(PeerId, u32, Vec<Status>),
    /// Nobody waits for the answer.
    Nothing,
}

/// The state of a server.
pub(crate) struct Engine {
    config: Config,
    sink: Weak<dyn AnswerSink>,
    nspaces: HashMap<Nspace, NspaceState>,
    peers: HashMap<PeerId, Peer>,
    /// Tools of which the host has not said who they are to be.
    knocking: HashMap<PeerId, tools::Knocking>,
    /// By number: of two that a process may join, it joins the older.
    collectives: BTreeMap<u64, Collective>,
    collective_next: u64,
    upcalls: HashMap<u64, Continuation>,
    /// When those that wait for the host's answer to one are told that it is late.
    late: BTreeSet<(Instant, u64)>,
    deadlines: HashMap<u64, Instant>,
    /// By connect, not yet ended by disconnect.
    connected: Vec<connected::Connected>,
    /// Processes that have finalized, how often they had by then, and when they are no longer expected back.
    farewells: VecDeque<(Instant, Proc, u32)>,
    gets: get::Waiting,
    events: EventCache,
    psets: query::ProcessSets,
    /// Values that all jobs have.
    resources: Values,
    host_attributes: attributes::HostAttributes,
    groups: groups::Groups,
    outputs_of_procs: output::Outputs,
    monitors: monitors::Monitors,
    outputs: VecDeque<Output>,
    /// What hosts have lent and has not been given back, with the publications that read it.
    lent: Vec<(Arc<Backing>, Vec<Ticket>)>,
    publications: publication::Publications,
    /// Data of jobs that are forgotten: to free those of a large one takes its time.
    discarded: Vec<Arc<JobData>>,
    stats: Stats,
    first_fork: Option<Instant>,
    /// Processes that are gone, of whom the host's handlers are to be told.
    losses: Vec<peers::Loss>,
    /// A fence has collected data: the wire-up is over.
    collected: bool,
    /// Messages for which there was no memory.
    refused: u64,
    /// The log has been told that peers over TCP can't be let in.
    no_table_told: bool,
    /// What users have here, as far as it was asked since a client came or went.
    standings: HashMap<u32, Standing>,
    port: u16,
    ended: bool,
}

/// The dialect in which the servers of a job exchange data. The newest encoder packs what older ones know in the same
/// bytes, and values of newer types, which clients of 6.x put, too. Which releases the others are of is not known.
const EXCHANGE: Dialect = Dialect::plain(Module::V61).with_untyped(Untyped::Replaced);

/// How long what direct modex brought may wait to be published with more of it.
const PUBLISH_DELAY: Duration = Duration::from_millis(5);

/// How long after a process was lost the host's handlers are told, unless it was the last one here. A host ends the job for
/// it (Slurm does). Until then it has seen itself how the process ended, and a job that comes to its end without the
/// process is left to do so. Released servers gather events for as long.
const LOSS_DELAY: Duration = Duration::from_secs(1);

/// How long a process that has finalized may take to come back, as another program of its script or in its next cycle, before those
/// that wait for it go on without it.
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
            deadlines: HashMap::new(),
            connected: Vec::new(),
            farewells: VecDeque::new(),
            gets: get::Waiting::default(),
            events: EventCache::default(),
            psets: query::ProcessSets::new(),
            resources: Values::new(),
            host_attributes: attributes::HostAttributes::new(),
            groups: groups::Groups::new(),
            outputs_of_procs: output::Outputs::default(),
            monitors: monitors::Monitors::default(),
            outputs: VecDeque::new(),
            lent: Vec::new(),
            publications: publication::Publications::default(),
            discarded: Vec::new(),
            stats: Stats::default(),
            first_fork: None,
            losses: Vec::new(),
            collected: false,
            refused: 0,
            no_table_told: false,
            standings: HashMap::new(),
            port,
            ended: false,
        }
    }

    /// Figures for reports.
    pub fn stats(&self) -> Stats {
        let mut stats = self.stats.clone();
        for state in self.nspaces.values() {
            state.ledger.add_to(&mut stats);
        }
        stats
    }

    /// What is to be done, in order.
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

    /// There is no memory for a message of a peer, or for what it asks: it is told so in its reply, and goes on. Where it is, or
    /// may be, a commit, those who wait for its values are told so as well: released clients do not look at the answer to a
    /// commit.
    pub fn refuse(&mut self, peer: PeerId, tag: u32, len: usize, is_commit: bool) {
        let Some(state) = self.peers.get(&peer) else { return };
        let proc = state.proc.clone();
        let status = Status::ERR_NOMEM;
        self.refused += 1;
        // Who is out of memory has other worries than a full log.
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
            Request::Fence { procs, infos } => self.enter(Kind::Fence, peer, tag, procs, infos, now),
            Request::Connect { procs, infos, .. } => self.enter(Kind::Connect, peer, tag, procs, infos, now),
            Request::Disconnect { procs, infos } => self.enter(Kind::Disconnect, peer, tag, procs, infos, now),
            Request::GroupConstruct { group, procs, infos } => self.construct(peer, tag, group, procs, infos, now),
            Request::GroupDestruct { group, infos, .. } => self.destruct(peer, tag, group, infos, now),
            Request::GroupLeave { group, .. } => self.leave_group(peer, tag, group, now),
            Request::Get { nspace, rank, infos, key } => self.get(peer, tag, Proc::new(nspace, rank), infos, key, now),
            Request::RefreshCache { nspace, rank } => self.refresh(peer, tag, Proc::new(nspace, rank), now),
            Request::Finalize => self.finalize_peer(peer, tag),
            Request::RegisterEvents { codes, infos } => self.register_events(peer, tag, codes, infos, now),
            Request::DeregisterEvents { codes } => self.deregister_events(peer, &codes),
            Request::Notify { status, range, infos } => self.notify(peer, tag, status, range, infos, now),
            Request::IoPull { procs, infos, channels, handler } => {
                self.pull_output(peer, tag, procs, infos, channels, handler);
            }
            Request::IoDeregister { infos, handler } => self.stop_output(peer, tag, infos, handler),
            Request::IoPush { targets, infos, data } => self.push_input(peer, tag, targets, infos, data),
            other => self.service(peer, tag, other, now),
        }
    }

    /// The host answered an upcall, or it was answered by its return value.
    pub fn answer(&mut self, id: u64, answer: Answer) {
        let lent = match &answer {
            Answer::Data(_, data) => data.backing().filter(|whole| matches!(***whole, Backing::External(_))).cloned(),
            _ => None,
        };
        let before = self.outputs.len();
        let ((), tickets) = self.recording(|engine| engine.take_answer(id, answer));
        self.lent.extend(lent.map(|whole| (whole, tickets)));
        self.give_back(before);
    }

    /// Lets the server's thread drop what hosts have lent: it tells the host, which may take a lock that it holds while it
    /// answers, and may take nothing new for a collective until it is told. So that comes before the replies behind `place`.
    fn give_back(&mut self, place: usize) {
        for (whole, tickets) in &mut self.lent {
            tickets.retain(|ticket| !self.publications.is_done(ticket));
            if tickets.is_empty() && Arc::strong_count(whole) > 1 {
                // Values that the publisher has not copied. Where there is no room for a copy, the host waits for its memory.
                let _ = self.nspaces.values_mut().try_for_each(|state| state.leave(whole));
            }
        }
        for (whole, _) in self.lent.extract_if(.., |(whole, _)| Arc::strong_count(whole) == 1) {
            self.outputs.insert(place, Output::Call(Box::new(move || drop(whole))));
        }
    }

    fn take_answer(&mut self, id: u64, answer: Answer) {
        if let Some(deadline) = self.deadlines.remove(&id) {
            self.late.remove(&(deadline, id));
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
                Answer::Data(status, data) => self.collective_answered(id, status, data),
                Answer::Infos(status, infos) => self.group_answered(id, status, &infos),
                other => self.collective_answered(id, other.status(), Bytes::default()),
            },
            Some(Continuation::Dmodex(proc, user)) => match answer {
                Answer::Data(status, data) => self.dmodex_answered(&proc, user, status, &data),
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
            self.tell_host_of_losses(now);
            self.give_up_returns(now);
            self.look_at_monitors(now);
        }
    }

    /// When the engine wants its next tick.
    pub fn deadline(&self) -> Option<Instant> {
        let publish = self.nspaces.values().filter_map(|state| state.ledger.due).min();
        let loss = self.losses.iter().map(|loss| loss.due).min();
        let late = self.late.first().map(|(deadline, _)| *deadline);
        let farewell = self.farewells.front().map(|(due, ..)| *due);
        let monitor = self.monitors.deadline();
        [self.gets.deadline(), self.collective_deadline(), late, publish, loss, farewell, monitor]
            .into_iter()
            .flatten()
            .min()
    }

    /// Runs `job` on the server's thread, after what is due already, or where the server is finalized.
    pub fn defer(&mut self, job: Box<dyn FnOnce() + Send>) {
        self.outputs.push_back(Output::Call(job));
    }

    /// What is left to be done where the server is finalized; after nothing was left, nothing will be done any more.
    pub fn take_last_outputs(&mut self) -> VecDeque<Output> {
        self.ended = self.outputs.is_empty();
        self.take_outputs()
    }

    /// Whether nothing will be done any more.
    pub fn is_ended(&self) -> bool {
        self.ended
    }

    /// The reply to one of this process's own requests, where it is there already.
    pub fn take_own_reply(&mut self, tag: u32) -> Option<Vec<u8>> {
        let is_reply = |output: &Output| matches!(output, Output::Send { peer: PeerId::OWN, tag: t, .. } if *t == tag);
        let position = self.outputs.iter().position(is_reply)?;
        match self.outputs.remove(position)? {
            Output::Send { payload, .. } => Some(payload),
            _ => None,
        }
    }

    /// Forgets everything: directories and files of all namespaces are removed. What is left to be done is for the
    /// caller, who holds the lock now.
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

    /// As [`Engine::upcall`]; who asked hears of a time-out where the host has not answered within `time`.
    fn upcall_within(&mut self, then: Continuation, upcall: Upcall, time: Option<Duration>, now: Instant) {
        let id = self.upcall(then, upcall);
        if let Some(time) = time {
            self.late.insert((now + time, id));
            self.deadlines.insert(id, now + time);
        }
    }

    fn expire_upcalls(&mut self, now: Instant) {
        while let Some((_, id)) = self.late.first().copied().filter(|(deadline, _)| *deadline <= now) {
            // An answer that comes later finds nobody.
            self.answer(id, Answer::Op(Status::ERR_TIMEOUT));
        }
    }

    #[track_caller]
    fn log(&mut self, line: String) {
        self.outputs.push_back(Output::Log(Reason::here(), line));
    }

    fn call(&mut self, call: impl FnOnce() + Send + 'static) {
        self.outputs.push_back(Output::Call(Box::new(call)));
    }

    /// Sends what `encode` makes in the peer's dialect and for its release; nothing where the peer is gone. What
    /// cannot be told to the peer in its dialect becomes a reply with the reason.
    fn send(&mut self, id: PeerId, tag: u32, encode: impl FnOnce(Dialect, Version) -> Result<Vec<u8>>) {
        let Some(peer) = self.peers.get_mut(&id) else { return };
        // Requests have larger tags than what comes unasked.
        let is_reply = tag > TAG_DELETED;
        if is_reply {
            peer.unanswered.answered(tag);
        }
        let payload = match encode(peer.dialect, peer.version) {
            Ok(payload) => payload,
            // An event that the peer cannot be told is none.
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

    /// Another server asks for what a local rank published for other nodes.
    pub fn dmodex_request(&mut self, proc: Proc, done: DmodexDone) -> Status {
        self.serve_dmodex(proc, done)
    }
}
