//! Get requests over the socket, and direct modex in both directions.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use pmix_client::wire::{GetReply, JobInfoReply};
use pmix_dstore::codec::{BufferType, Dialect, Module, Packer, Unpacker};
use pmix_dstore::model::{Info, Key, KeyRef, Kval, Nspace, Proc, Rank, Status, Value, keys};
use pmix_dstore::rules::{self, Caller, Selector};

use super::peers::PeerId;
use super::{Engine, Then, directive, timeout};
use crate::DmodexDone;
use crate::upcall::Upcall;

/// How long a Get waits for a key of a local rank that has committed others: it may commit again.
const LATE_KEY_WAIT: Duration = Duration::from_secs(2);

/// The dialect in which servers of one job exchange data.
const EXCHANGE: Dialect = Dialect { module: Module::V41, buffer: BufferType::NonDescribed };

/// A Get that cannot be answered yet.
struct WaitingGet {
    peer: PeerId,
    tag: u32,
    infos: Vec<Info>,
    key: Option<Key>,
    deadline: Option<Instant>,
    /// What the answer is when the deadline passes.
    late: Status,
}

/// All that waits for some process's data.
#[derive(Default)]
pub(super) struct Waiting {
    gets: HashMap<Proc, Vec<WaitingGet>>,
    /// Other servers' requests for a local rank's data.
    served: HashMap<Proc, Vec<DmodexDone>>,
    /// Requests at the host, by process: one at a time.
    asked: HashMap<Proc, ()>,
}

impl Waiting {
    pub fn deadline(&self) -> Option<Instant> {
        self.gets.values().flatten().filter_map(|get| get.deadline).min()
    }

    pub fn forget_peer(&mut self, peer: PeerId) {
        self.gets.retain(|_, gets| {
            gets.retain(|get| get.peer != peer);
            !gets.is_empty()
        });
    }
}

/// What can be said about a Get now.
enum Outcome {
    Reply(GetReply),
    /// Wait for the rank's commit, at most so long.
    Wait(Option<Duration>, Status),
    /// Ask the host.
    Ask,
}

impl Engine {
    /// A client asks for data.
    pub(super) fn get(
        &mut self,
        peer: PeerId,
        tag: u32,
        proc: Proc,
        infos: Vec<Info>,
        key: Option<Key>,
        now: Instant,
    ) {
        self.stats.gets += 1;
        let refresh = directive(&infos, keys::GET_REFRESH_CACHE);
        let get = WaitingGet { peer, tag, infos, key, deadline: None, late: Status::ERR_NOT_FOUND };
        self.resolve_get(proc, get, refresh, now);
    }

    fn resolve_get(&mut self, proc: Proc, mut get: WaitingGet, refresh: bool, now: Instant) {
        match self.outcome(&proc, &get, refresh) {
            None => {}
            Some(Outcome::Reply(reply)) => self.send(get.peer, get.tag, |dialect| reply.encode(dialect)),
            Some(Outcome::Wait(wait, late)) => {
                let asked = timeout(&get.infos);
                let wait = match (wait, asked) {
                    (Some(a), Some(b)) => Some(a.min(b)),
                    (a, b) => a.or(b),
                };
                get.late = if asked.is_some() && wait == asked { Status::ERR_TIMEOUT } else { late };
                get.deadline = get.deadline.or(wait.map(|wait| now + wait));
                self.gets.gets.entry(proc).or_default().push(get);
            }
            Some(Outcome::Ask) => {
                let asked = timeout(&get.infos);
                get.late = Status::ERR_TIMEOUT;
                get.deadline = asked.map(|wait| now + wait);
                let mut infos = get.infos.clone();
                if let Some(key) = &get.key {
                    infos.push(Info::new(keys::REQUIRED_KEY, Value::string(key.as_bytes())));
                }
                self.gets.gets.entry(proc.clone()).or_default().push(get);
                if self.gets.asked.insert(proc.clone(), ()).is_none() {
                    self.upcall(Then::Dmodex(proc.clone()), Upcall::DirectModex { proc, infos });
                }
            }
        }
    }

    /// What can be said now; `None` where nobody listens any more.
    fn outcome(&self, proc: &Proc, get: &WaitingGet, refresh: bool) -> Option<Outcome> {
        let peer = self.peers.get(&get.peer)?;
        // The server process asks its own engine for what a client would find in its own memory.
        let at_once =
            directive(&get.infos, keys::IMMEDIATE) || directive(&get.infos, keys::OPTIONAL);
        let status = |status| Some(Outcome::Reply(GetReply { status, objects: Vec::new() }));
        let Some(state) = self.nspaces.get(&proc.nspace) else {
            return if at_once || get.peer == PeerId::OWN { status(Status::ERR_NOT_FOUND) } else { Some(Outcome::Ask) };
        };
        let reserved = get.key.as_ref().is_some_and(Key::is_reserved);
        if reserved || !proc.rank.is_process() {
            let Some(key) = &get.key else {
                let kvals = JobInfoReply::of_job(&state.job, peer.version).kvals;
                return Some(objects(vec![(job_level(&proc.nspace), kvals)]));
            };
            let caller = Caller {
                rank: (peer.proc.nspace == proc.nspace).then_some(peer.proc.rank),
                hostname: self.config.hostname.as_bytes(),
            };
            let selector = selector(&get.infos);
            let found = rules::find(&*state.job, proc.rank, KeyRef::from(key), &selector, &caller);
            if let Some(value) = found.and_then(|value| value.to_value().ok()) {
                return Some(objects(vec![(proc.clone(), vec![Kval { key: key.clone(), value }])]));
            }
            if reserved && !proc.rank.is_process() {
                // Released servers answer an unknown job-level key with success and nothing.
                let wild = proc.rank == Rank::WILDCARD && state.complete;
                return status(if wild { Status::SUCCESS } else { Status::ERR_NOT_FOUND });
            }
            if !proc.rank.is_process() {
                let owner = state.visible.ranks().find(|rank| state.visible.get(*rank, key.as_bytes()).is_some());
                return match owner {
                    Some(rank) => Some(objects(vec![(
                        Proc::new(proc.nspace.clone(), rank),
                        state.visible.rank(rank).map(kval).collect(),
                    )])),
                    None => status(Status::ERR_NOT_FOUND),
                };
            }
            if reserved && state.visible.get(proc.rank, key.as_bytes()).is_none() {
                return status(Status::ERR_NOT_FOUND);
            }
        }
        let found = match &get.key {
            Some(key) => state.visible.get(proc.rank, key.as_bytes()).is_some(),
            None => state.visible.has_rank(proc.rank),
        };
        if found && !(refresh && !state.is_local(proc.rank)) {
            let mut list = Vec::new();
            if peer.proc.nspace != proc.nspace {
                list.push((job_level(&proc.nspace), JobInfoReply::of_job(&state.job, peer.version).kvals));
            }
            list.push((proc.clone(), state.visible.rank(proc.rank).map(kval).collect()));
            return Some(objects(list));
        }
        if at_once {
            return status(Status::ERR_NOT_FOUND);
        }
        match state.clients.get(&proc.rank) {
            Some(client) if client.gone => status(Status::ERR_NOT_FOUND),
            Some(client) if client.committed => Some(Outcome::Wait(Some(LATE_KEY_WAIT), Status::ERR_NOT_FOUND)),
            Some(_) => Some(Outcome::Wait(None, Status::ERR_NOT_FOUND)),
            None if state.complete && proc.rank.0 >= state.job.size() => status(Status::ERR_NOT_FOUND),
            // A local rank that the host has not registered yet will commit here.
            None if state.complete && self.runs_here(state, proc.rank) => Some(Outcome::Wait(None, Status::ERR_NOT_FOUND)),
            None => Some(Outcome::Ask),
        }
    }

    /// Whether the maps place a rank on this node.
    fn runs_here(&self, state: &super::NspaceState, rank: Rank) -> bool {
        let own = pmix_dstore::rules::JobLookup::node_row_by_name(&*state.job, self.config.hostname.as_bytes());
        own.is_some() && rules::node_row_of(&*state.job, rank) == own && state.clients.len() < state.nlocal as usize
    }

    /// A local rank has committed.
    pub(super) fn committed(&mut self, proc: &Proc) {
        self.retry_gets(proc);
        if let Some(waiting) = self.gets.served.remove(proc) {
            let data = self.remote_data(proc);
            for done in waiting {
                let data = data.clone();
                self.call(move || done(Status::SUCCESS, data));
            }
        }
    }

    /// Looks again at the Gets that wait for a process; those that still must wait keep their deadlines.
    fn retry_gets(&mut self, proc: &Proc) {
        let now = Instant::now();
        for get in self.gets.gets.remove(proc).unwrap_or_default() {
            self.resolve_get(proc.clone(), get, false, now);
        }
    }

    /// A namespace became known: looks again at what waits for its processes.
    pub(super) fn retry_gets_of(&mut self, nspace: &Nspace) {
        let procs: Vec<Proc> = self.gets.gets.keys().filter(|proc| proc.nspace == *nspace).cloned().collect();
        for proc in procs.iter().filter(|proc| !self.gets.asked.contains_key(*proc)).cloned().collect::<Vec<_>>() {
            self.retry_gets(&proc);
        }
    }

    /// A process will not commit any more: who waits for it is told.
    pub(super) fn fail_gets_for(&mut self, proc: &Proc) {
        for get in self.gets.gets.remove(proc).unwrap_or_default() {
            self.reply_status(get.peer, get.tag, Status::ERR_NOT_FOUND);
        }
        for done in self.gets.served.remove(proc).unwrap_or_default() {
            self.call(move || done(Status::ERR_NOT_FOUND, Vec::new()));
        }
    }

    /// A namespace is gone.
    pub(super) fn fail_gets_of(&mut self, nspace: &Nspace) {
        let waiting = self.gets.gets.keys().chain(self.gets.served.keys());
        let procs: Vec<Proc> = waiting.filter(|proc| proc.nspace == *nspace).cloned().collect();
        for proc in procs {
            self.fail_gets_for(&proc);
        }
    }

    pub(super) fn expire_gets(&mut self, now: Instant) {
        let mut late = Vec::new();
        self.gets.gets.retain(|_, gets| {
            let (expired, rest) = std::mem::take(gets).into_iter().partition(|get| get.deadline.is_some_and(|d| d <= now));
            *gets = rest;
            late.extend::<Vec<WaitingGet>>(expired);
            !gets.is_empty()
        });
        for get in late {
            self.reply_status(get.peer, get.tag, get.late);
        }
    }

    /// The host brought a remote rank's data.
    pub(super) fn dmodex_answered(&mut self, proc: &Proc, status: Status, data: &[u8]) {
        self.gets.asked.remove(proc);
        let kvals = if status.is_success() { unpack_kvals(data) } else { Err(status) };
        let waiting = self.gets.gets.remove(proc).unwrap_or_default();
        let now = Instant::now();
        match kvals {
            Ok(kvals) => {
                self.store_remote(&proc.nspace, proc.rank, kvals);
                self.publish_soon(&proc.nspace, now);
                for mut get in waiting {
                    // What the host brought is all there is now: what is missing is not asked for again.
                    get.infos.push(Info::new(keys::IMMEDIATE, Value::Bool(true)));
                    self.resolve_get(proc.clone(), get, false, now);
                }
            }
            Err(status) => {
                for get in waiting {
                    self.reply_status(get.peer, get.tag, status);
                }
            }
        }
    }

    /// Another server's host asks for a local rank's data: waits for the registration and the commit.
    pub(super) fn serve_dmodex(&mut self, proc: Proc, done: DmodexDone) -> Status {
        let state = self.nspaces.get(&proc.nspace);
        if let (Some(state), false) = (state, proc.rank.is_process()) {
            let job = JobInfoReply::of_job(&state.job, super::peers::Peer::own(self.config.me.clone()).version);
            let data = pack_kvals(job.kvals.iter().map(|kval| (&kval.key, &kval.value)));
            self.call(move || done(Status::SUCCESS, data));
            return Status::SUCCESS;
        }
        let client = state.and_then(|state| state.clients.get(&proc.rank));
        match client {
            Some(client) if client.committed => {
                let data = self.remote_data(&proc);
                self.call(move || done(Status::SUCCESS, data));
            }
            Some(client) if client.gone => self.call(move || done(Status::ERR_NOT_FOUND, Vec::new())),
            _ => self.gets.served.entry(proc).or_default().push(done),
        }
        Status::SUCCESS
    }

    fn remote_data(&self, proc: &Proc) -> Vec<u8> {
        match self.nspaces.get(&proc.nspace) {
            Some(state) => pack_kvals(state.remote.rank(proc.rank)),
            None => Vec::new(),
        }
    }
}

fn kval((key, value): (&Key, &Value)) -> Kval {
    Kval { key: key.clone(), value: value.clone() }
}

fn job_level(nspace: &Nspace) -> Proc {
    Proc::new(nspace.clone(), Rank::WILDCARD)
}

fn objects(objects: Vec<(Proc, Vec<Kval>)>) -> Outcome {
    Outcome::Reply(GetReply { status: Status::SUCCESS, objects })
}

/// The selectors in a request's infos.
fn selector(infos: &[Info]) -> Selector<'_> {
    let find = |key: &str| infos.iter().find(|info| info.key.is(key)).map(|info| &info.value);
    Selector {
        session: directive(infos, keys::SESSION_INFO),
        job: directive(infos, keys::JOB_INFO),
        app: directive(infos, keys::APP_INFO),
        node: directive(infos, keys::NODE_INFO),
        appnum: find(keys::APPNUM).and_then(Value::as_u32),
        nodeid: find(keys::NODEID).and_then(Value::as_u32),
        hostname: find(keys::HOSTNAME).and_then(Value::as_text),
    }
}

fn pack_kvals<'a>(kvals: impl Iterator<Item = (&'a Key, &'a Value)>) -> Vec<u8> {
    let mut packer = Packer::new(EXCHANGE);
    for (key, value) in kvals {
        packer.kval(key, value);
    }
    packer.into_bytes()
}

fn unpack_kvals(data: &[u8]) -> Result<Vec<Kval>, Status> {
    let mut unpacker = Unpacker::new(EXCHANGE, data);
    let mut kvals = Vec::new();
    while !unpacker.is_empty() {
        kvals.push(unpacker.kval()?);
    }
    Ok(kvals)
}
