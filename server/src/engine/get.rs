//! Get requests over the socket, and direct modex in both directions.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use pmix_client::GetOptions;
use pmix_dstore::codec::Packer;
use pmix_dstore::codec::ValueRef;
use pmix_dstore::job::JobData;
use pmix_dstore::model::{Info, Key, KeyRef, Kval, Nspace, Proc, Rank, Status, Value, keys};
use pmix_dstore::qualified;
use pmix_dstore::realm_resolution::{self, Caller, JobLookup, Selector};
use pmix_wire::reply::{GetWriter, refresh_reply};
use pmix_wire::{blob, jobinfo};

use super::apart::{REFUSED, Reach, sign_with_name};
use super::nspaces::{NspaceState, recipient};
use super::peer::{Actor, Peer, PeerId};
use super::{Continuation, EXCHANGE, Engine, Output};
use crate::DmodexDone;
use crate::journal::Reason;
use crate::upcall::Upcall;

/// How long a Get with `PMIX_IMMEDIATE` waits for the first commit of a local rank.
const FIRST_COMMIT_WAIT: Duration = Duration::from_secs(2);

/// How long a refresh waits for the host.
const REFRESH_WAIT: Duration = Duration::from_secs(2);

/// How long a value of another job waits for the data of that job. Some hosts never answer requests for these.
const JOB_WAIT: Duration = Duration::from_secs(2);

/// A Get that cannot be answered yet.
pub(super) struct WaitingGet {
    pub peer: PeerId,
    tag: u32,
    infos: Vec<Info>,
    pub key: Option<Key>,
    /// When it was asked.
    pub since: Instant,
    /// It is a refresh: the answer is all present values, with or without the host's.
    refreshes: bool,
    deadline: Option<Instant>,
    /// The status for the answer when the deadline passes.
    late: Status,
    /// The value has been found. Until this time the Get waits for the data of the other job, which are sent with it.
    job_deadline: Option<Instant>,
}

/// All Gets that wait for a process's data.
#[derive(Default)]
pub(super) struct Waiting {
    gets: HashMap<Proc, Vec<WaitingGet>>,
    /// Other servers' requests for a local rank's data.
    served: HashMap<Proc, Vec<DmodexDone>>,
    /// Requests at the host, one per process at a time. True if a fence has brought values of the process since: the host's
    /// answer may be older.
    asked: HashMap<Proc, bool>,
    /// Jobs that the host does not know, for all users or for one. No namespace state is made for a name that a process may have
    /// invented.
    unknown: HashSet<(Nspace, Option<u32>)>,
    /// A lower bound of all deadlines, not exact: its Get may have been answered. It is read with every message, and a scan of all
    /// Gets would be too slow for that.
    deadline: Option<Instant>,
}

/// Upper limit of the unknown jobs kept; the host is asked again about a job that was dropped.
const UNKNOWN_MAX: usize = 1024;

impl Waiting {
    fn note_unknown(&mut self, nspace: &Nspace, user: Option<u32>) {
        if self.unknown.len() >= UNKNOWN_MAX {
            self.unknown.clear();
        }
        self.unknown.insert((nspace.clone(), user));
    }

    fn forget_unknown(&mut self, nspace: &Nspace) {
        self.unknown.retain(|(unknown, _)| unknown != nspace);
    }

    pub fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// Gets that wait, with the processes whose values they want.
    pub fn waiting(&self) -> impl Iterator<Item = (&Proc, &WaitingGet)> {
        self.gets.iter().flat_map(|(proc, gets)| gets.iter().map(move |get| (proc, get)))
    }

    /// Whether the host has been asked for a process's data and has not answered.
    pub fn is_asked(&self, proc: &Proc) -> bool {
        self.asked.contains_key(proc)
    }

    /// Computes the deadline from all waiting Gets.
    fn find_deadline(&mut self) {
        self.deadline = self.gets.values().flatten().filter_map(|get| get.deadline).min();
    }

    fn push(&mut self, proc: Proc, get: WaitingGet) {
        self.deadline = self.deadline.into_iter().chain(get.deadline).min();
        self.gets.entry(proc).or_default().push(get);
    }

    pub fn forget_peer(&mut self, peer: PeerId) {
        self.gets.retain(|_, gets| {
            gets.retain(|get| get.peer != peer);
            !gets.is_empty()
        });
        self.find_deadline();
    }
}

/// The present result of a Get.
enum Outcome {
    /// There is no value, for the reason in the status.
    Nothing(Status),
    /// The data of the job.
    Job,
    /// One value, of the process or realm asked for.
    One(Key, Value),
    /// All values of a rank that the asking process may read; for another namespace together with the job's data.
    Rank(Rank),
    /// Wait for the rank's commit, at most for this time.
    Wait(Option<Duration>, Status),
    /// Ask the host.
    Ask,
}

/// There is no such value.
const NOT_FOUND: Outcome = Outcome::Nothing(Status::ERR_NOT_FOUND);

/// A Get, and what it is answered from.
#[derive(Clone, Copy)]
struct PresentGet<'a> {
    /// The asker.
    peer: &'a Peer,
    /// The namespace of the process asked for.
    state: &'a NspaceState,
    /// The process asked for.
    proc: &'a Proc,
    get: &'a WaitingGet,
    options: &'a GetOptions<'a>,
    /// The asker wants what is here now; the host is not asked.
    at_once: bool,
}

impl PresentGet<'_> {
    /// Whether its key is one that the host registers.
    fn is_of_reserved_key(&self) -> bool {
        self.get.key.as_ref().is_some_and(Key::is_reserved) && !self.options.flags.qualified()
    }

    /// Whether the registration has a value of `key` with the qualifiers that the Get names.
    fn qualified_of_job(&self, key: &Key) -> Result<bool, Status> {
        let (job, infos) = (&*self.state.job, &self.get.infos);
        realm_resolution::find_qualified(job, self.proc.rank, key.as_bytes(), infos).map(|found| found.is_some())
    }
}

/// The result of a Get of a process's committed values; `None` if they do not have it.
fn in_commits(present: &PresentGet<'_>) -> Option<Outcome> {
    let PresentGet { state, proc, get, options, at_once, .. } = *present;
    let found = match &get.key {
        Some(key) if options.flags.qualified() => {
            let published = state.visible.get(proc.rank, keys::QUALIFIED_VALUE.as_bytes());
            if published.is_some_and(|all| qualified::find(all, key.as_bytes(), &get.infos).is_some()) {
                true
            } else {
                match present.qualified_of_job(key) {
                    Ok(true) => return Some(Outcome::Job),
                    Ok(false) => false,
                    Err(status) => return Some(Outcome::Nothing(status)),
                }
            }
        }
        Some(key) => state.visible.get(proc.rank, key.as_bytes()).is_some(),
        // Values that the host registered for a rank exist from the start, so the rank's commit may still be to come.
        None => state.visible.has_rank(proc.rank) || at_once && has_values(&state.job, proc.rank),
    };
    (found && (!options.flags.refresh() || state.is_local(proc.rank))).then_some(Outcome::Rank(proc.rank))
}

/// Whether the host has registered anything of a rank.
fn has_values(job: &JobData, rank: Rank) -> bool {
    job.procs.row(rank).next().is_some()
}

impl Engine {
    /// A client's Get.
    pub(super) fn get(&mut self, peer: PeerId, tag: u32, proc: Proc, infos: Vec<Info>, key: Option<Key>, now: Instant) {
        self.stats.gets += 1;
        let late = Status::ERR_NOT_FOUND;
        let get = WaitingGet {
            peer,
            tag,
            infos,
            key,
            since: now,
            refreshes: false,
            deadline: None,
            late,
            job_deadline: None,
        };
        self.resolve_get(proc, get, true, now);
    }

    /// A client requests all present values of a process, before it looks for a fresh one. For a process of another
    /// node that has committed before, the server asks the host. Otherwise this server has all values, and the client's
    /// Get, which follows, waits for more.
    pub(super) fn refresh(&mut self, peer: PeerId, tag: u32, proc: Proc, now: Instant) {
        self.stats.gets += 1;
        let state = self.nspaces.get(&proc.nspace);
        let is_elsewhere = proc.rank.is_process()
            && self.reads_all(peer, &proc.nspace)
            && state.is_some_and(|state| state.visible.has_rank(proc.rank) && !state.is_local(proc.rank));
        if !is_elsewhere {
            return self.reply_refreshed(peer, tag, &proc);
        }
        let infos = vec![Info::new(keys::GET_REFRESH_CACHE, Value::Bool(true))];
        // The request has no timeout, and hosts lose requests.
        let deadline = Some(now + REFRESH_WAIT);
        let late = Status::ERR_NOT_FOUND;
        let get =
            WaitingGet { peer, tag, infos, key: None, since: now, refreshes: true, deadline, late, job_deadline: None };
        self.ask_host(proc, get);
    }

    /// Answers a refresh with the values of a process; for a whole job, with the job's values.
    fn reply_refreshed(&mut self, peer: PeerId, tag: u32, proc: &Proc) {
        let reply = self.refreshed(peer, proc);
        self.send(peer, tag, |_, _| reply);
    }

    fn refreshed(&self, peer: PeerId, proc: &Proc) -> Result<Vec<u8>, Status> {
        if !self.reads_all(peer, &proc.nspace) {
            // The Get that follows decides whether to ask the host.
            return Err(Status::ERR_NOT_FOUND);
        }
        let (Some(peer), Some(state)) = (self.peers.get(&peer), self.nspaces.get(&proc.nspace)) else {
            return Err(Status::ERR_NOT_FOUND);
        };
        let of_rank = state.visible.rank(proc.rank).map(|(key, value)| (key, ValueRef::from(value)));
        let of_job = state.job.job.iter().filter(|_| proc.rank == Rank::WILDCARD);
        let of_job = of_job.map(|(key, value)| (key, ValueRef::from(value)));
        let mut values = qualified::spread_refs(of_rank.chain(of_job)).peekable();
        let status = if values.peek().is_some() { Status::SUCCESS } else { Status::ERR_NOT_FOUND };
        refresh_reply(peer.dialect, peer.version, status, |reply| {
            values.try_for_each(|(key, value)| reply.kval_ref_if_known(key, value))
        })
    }

    /// Ends a Get without a value.
    fn fail_get(&mut self, proc: &Proc, get: &WaitingGet, status: Status) {
        match get.refreshes {
            true => self.reply_refreshed(get.peer, get.tag, proc),
            false => self.reply_status(get.peer, get.tag, status),
        }
    }

    /// Requests a process's data from the host, unless that is done already, and adds a waiting Get.
    fn ask_host(&mut self, proc: Proc, get: WaitingGet) {
        let mut infos = get.infos.clone();
        if let Some(key) = &get.key {
            infos.push(Info::new(keys::REQUIRED_KEY, Value::string(key.as_bytes())));
        }
        let asker = get.peer;
        self.gets.push(proc.clone(), get);
        self.ask_for(asker, proc, infos);
    }

    /// Answers a Get or makes it wait. A Get that has waited is not refreshed again.
    fn resolve_get(&mut self, proc: Proc, mut get: WaitingGet, is_new: bool, now: Instant) {
        if get.refreshes {
            return self.reply_refreshed(get.peer, get.tag, &proc);
        }
        let mut options = GetOptions::from_infos(&get.infos);
        if !is_new {
            options.flags.clear_refresh();
        }
        let (asked, is_plain, immediate) = (options.timeout, options.selector.is_empty(), options.flags.immediate());
        match self.outcome(&proc, &get, &options) {
            None => {}
            Some(Outcome::Nothing(status)) => self.reply_status(get.peer, get.tag, status),
            Some(Outcome::Job) => {
                let reply = self.get_reply(get.peer, &proc.nspace, true, None);
                self.send(get.peer, get.tag, |_, _| reply);
            }
            Some(Outcome::One(..) | Outcome::Rank(_)) if self.waits_for_job(&proc, &mut get, now) => {
                self.gets.push(proc, get);
            }
            Some(Outcome::One(key, value)) => {
                let with_job = is_plain && self.is_of_other_job(&proc, &get);
                let reply = self.get_one_reply(get.peer, &proc, &key, &value, with_job);
                self.send(get.peer, get.tag, |_, _| reply);
            }
            Some(Outcome::Rank(rank)) => {
                let other = self.peers.get(&get.peer).is_some_and(|peer| peer.proc.nspace != proc.nspace);
                let other = other && self.nspaces.get(&proc.nspace).is_some_and(NspaceState::has_data);
                let reply = self.get_reply(get.peer, &proc.nspace, other, Some((rank, get.key.is_none())));
                self.send(get.peer, get.tag, |_, _| reply);
            }
            Some(Outcome::Wait(wait, late)) => {
                // A caller's own time is kept to the end, but for a Get that waits only a short time in any case.
                let asked = asked.filter(|asked| !immediate || wait.is_none_or(|wait| *asked < wait));
                get.late = if asked.is_some() { Status::ERR_TIMEOUT } else { late };
                let wait = asked.or(wait);
                get.deadline = get.deadline.or(wait.map(|wait| now + wait));
                self.gets.push(proc, get);
            }
            Some(Outcome::Ask) => {
                get.late = Status::ERR_TIMEOUT;
                get.deadline = get.deadline.or(asked.map(|wait| now + wait));
                // First, since hosts mostly answer in this order.
                if let Some(job) = self.job_to_ask(&proc, &get) {
                    self.ask_for(get.peer, job, Vec::new());
                }
                self.ask_host(proc, get);
            }
        }
    }

    /// Whether a peer may read a job's data without the host's decision.
    fn reads_all(&self, id: PeerId, nspace: &Nspace) -> bool {
        self.peers.get(&id).is_some_and(|peer| self.reads(&peer.proc, peer.user, nspace) == Reach::All)
    }

    /// The asker, if the host must decide about its access.
    fn stranger(&self, id: PeerId, nspace: &Nspace) -> Option<Actor> {
        let peer = self.peers.get(&id)?;
        (self.reads(&peer.proc, peer.user, nspace) == Reach::HostSays).then(|| peer.actor())
    }

    /// Requests a process's data from the host on behalf of a client, unless that is done already.
    fn ask_for(&mut self, asker: PeerId, proc: Proc, mut infos: Vec<Info>) {
        let stranger = self.stranger(asker, &proc.nspace);
        if let Entry::Vacant(entry) = self.gets.asked.entry(proc.clone()) {
            entry.insert(false);
            if let Some(stranger) = &stranger {
                sign_with_name(&mut infos, stranger);
            }
            let user = stranger.map(|stranger| stranger.user.uid);
            self.upcall(Continuation::Dmodex(proc.clone(), user), Upcall::DirectModex { proc, infos });
        }
    }

    /// Whether a Get is for a process of another job than the asking one's.
    fn is_of_other_job(&self, proc: &Proc, get: &WaitingGet) -> bool {
        let is_other = |peer: &Peer| peer.proc.nspace != proc.nspace && get.peer != PeerId::OWN;
        proc.rank.is_process() && self.peers.get(&get.peer).is_some_and(is_other)
    }

    /// The job whose data are requested from the host together with a value of one of its processes: a job other than
    /// the requester's, of which this server has no data.
    fn job_to_ask(&self, proc: &Proc, get: &WaitingGet) -> Option<Proc> {
        let state = self.nspaces.get(&proc.nspace);
        let is_unheard = state.is_none_or(|state| state.foreign && !state.has_data());
        let is_new = is_unheard && !self.is_unknown_to(get.peer, &proc.nspace);
        let job = || Proc::new(proc.nspace.clone(), Rank::WILDCARD);
        (is_new && self.is_of_other_job(proc, get)).then(job)
    }

    /// Whether the host has answered that it does not know a job, for all users or for this peer's.
    fn is_unknown_to(&self, id: PeerId, nspace: &Nspace) -> bool {
        let user = self.peers.get(&id).map(|peer| peer.actor().user.uid);
        [None, user].into_iter().any(|user| self.gets.unknown.contains(&(nspace.clone(), user)))
    }

    /// Whether the answer waits for the data of the other job, of which the host has been asked.
    fn waits_for_job(&self, proc: &Proc, get: &mut WaitingGet, now: Instant) -> bool {
        let job = Proc::new(proc.nspace.clone(), Rank::WILDCARD);
        let is_other = self.is_of_other_job(proc, get);
        if !is_other || !self.gets.is_asked(&job) || self.is_unknown_to(get.peer, &proc.nspace) {
            return false;
        }
        // Before the process itself gives up.
        let left = get.deadline.map(|deadline| deadline.saturating_duration_since(now) / 2);
        let until = *get.job_deadline.get_or_insert(now + left.map_or(JOB_WAIT, |left| left.min(JOB_WAIT)));
        get.deadline = Some(until);
        now < until
    }

    /// The present result; `None` if the asker has disconnected.
    fn outcome(&self, proc: &Proc, get: &WaitingGet, options: &GetOptions<'_>) -> Option<Outcome> {
        let peer = self.peers.get(&get.peer)?;
        if options.flags.refused()
            && let Err(status) = self.check_required(&get.infos)
        {
            return Some(Outcome::Nothing(status));
        }
        // The server process's own Get reads from the engine the values that a client has in its own memory, and it may occupy the
        // only thread on which the host could answer.
        let at_once = options.flags.immediate() || options.flags.optional() || get.peer == PeerId::OWN;
        let from_host = || if at_once { NOT_FOUND } else { Outcome::Ask };
        match self.reads(&peer.proc, peer.user, &proc.nspace) {
            Reach::All => {}
            Reach::Nothing => return Some(Outcome::Nothing(REFUSED)),
            Reach::HostSays => return Some(from_host()),
        }
        let Some(state) = self.nspaces.get(&proc.nspace) else { return Some(from_host()) };
        let get = PresentGet { peer, state, proc, get, options, at_once };
        let found = self.in_registration(&get).or_else(|| in_commits(&get));
        Some(found.unwrap_or_else(|| self.of_absent(&get)))
    }

    /// The result of a Get of what a registration has: a reserved key, or data of a job. `None` if commits may have it.
    fn in_registration(&self, present: &PresentGet<'_>) -> Option<Outcome> {
        let PresentGet { peer, state, proc, get, options, at_once } = *present;
        let reserved = present.is_of_reserved_key();
        if !reserved && proc.rank.is_process() {
            return None;
        }
        let unheard = state.foreign && !at_once;
        let Some(key) = &get.key else { return Some(if unheard { Outcome::Ask } else { Outcome::Job }) };
        if options.flags.qualified() {
            return Some(match present.qualified_of_job(key) {
                Ok(true) => Outcome::Job,
                Ok(false) if unheard => Outcome::Ask,
                Ok(false) => NOT_FOUND,
                Err(status) => Outcome::Nothing(status),
            });
        }
        let caller = Caller {
            rank: (peer.proc.nspace == proc.nspace).then_some(peer.proc.rank),
            hostname: self.config.hostname.as_bytes(),
        };
        match self.registered(state, proc.rank, key, &options.selector, &caller, &peer.actor()) {
            Some(Ok(value)) => return Some(Outcome::One(key.clone(), value)),
            Some(Err(Status::ERR_NOMEM)) => return Some(Outcome::Nothing(Status::ERR_NOMEM)),
            _ => {}
        }
        if reserved
            && key.is(keys::LOCAL_PROCS)
            && let Ok(Value::DataArray(procs)) = self.local_procs(&get.infos, &peer.actor())
            && !procs.items.is_empty()
        {
            return Some(Outcome::One(key.clone(), Value::DataArray(procs)));
        }
        if unheard && reserved {
            return Some(Outcome::Ask);
        }
        if reserved && !proc.rank.is_process() {
            // Released servers answer an unknown job-level key with success and nothing.
            let wild = proc.rank == Rank::WILDCARD && state.complete;
            return Some(if wild { Outcome::Nothing(Status::SUCCESS) } else { NOT_FOUND });
        }
        if !proc.rank.is_process() {
            let owner = state.visible.ranks().find(|rank| state.visible.get(*rank, key.as_bytes()).is_some());
            return Some(owner.map_or(NOT_FOUND, Outcome::Rank));
        }
        (reserved && state.visible.get(proc.rank, key.as_bytes()).is_none()).then_some(NOT_FOUND)
    }

    /// The result of a Get of a value that is not here: it may still be committed, or be at another node.
    fn of_absent(&self, present: &PresentGet<'_>) -> Outcome {
        let PresentGet { peer, state, proc, get, at_once, .. } = *present;
        if at_once && !self.awaits_first_commit(present) {
            return NOT_FOUND;
        }
        match state.clients.get(&proc.rank) {
            Some(client) if client.refused => Outcome::Nothing(Status::ERR_NOMEM),
            Some(_) if state.gone.contains(&proc.rank) => NOT_FOUND,
            Some(_) if state.is_over_for(proc.rank, self.cycle_of(&peer.proc)) => NOT_FOUND,
            // Put for other nodes only: a further commit would not change its scope.
            Some(_) if get.key.as_ref().is_some_and(|key| state.remote.get(proc.rank, key.as_bytes()).is_some()) => {
                NOT_FOUND
            }
            Some(_) if at_once => Outcome::Wait(Some(FIRST_COMMIT_WAIT), Status::ERR_NOT_FOUND),
            // It may commit again.
            Some(client) if client.committed => Outcome::Wait(Some(self.config.late_key_wait), Status::ERR_NOT_FOUND),
            Some(_) => Outcome::Wait(None, Status::ERR_NOT_FOUND),
            None if state.has_left(proc.rank) => NOT_FOUND,
            None if state.complete && proc.rank.0 >= state.job.size() => NOT_FOUND,
            // A local rank that the host has not registered yet will commit here.
            None if state.complete && self.runs_here(state, proc.rank) => Outcome::Wait(None, Status::ERR_NOT_FOUND),
            None => Outcome::Ask,
        }
    }

    /// Whether a Get with `PMIX_IMMEDIATE` waits, for a short time, since its rank is a local one that has not committed yet.
    ///
    /// With asynchronous modex Open MPI 5 reads its neighbours' keys in this way before they commit. It takes "not found" for a
    /// neighbour without shared memory, and the job hangs. The attribute forbids only a request to the host.
    fn awaits_first_commit(&self, present: &PresentGet<'_>) -> bool {
        let PresentGet { peer, state, proc, get, options, .. } = *present;
        let is_allowed = options.flags.immediate() && !options.flags.optional() && get.peer != PeerId::OWN;
        // A rank that waits for its own commit would wait in vain.
        is_allowed
            && peer.proc != *proc
            && get.key.is_some()
            && state.clients.get(&proc.rank).is_some_and(|client| !client.committed)
    }

    /// A value that the host registered: of the job, or of a session that is not the job's, of which `reader` asks.
    pub(super) fn registered(
        &self,
        state: &super::NspaceState,
        rank: Rank,
        key: &Key,
        selector: &Selector<'_>,
        caller: &Caller<'_>,
        reader: &Actor,
    ) -> Option<Result<Value, Status>> {
        let found = realm_resolution::find(&*state.job, rank, &KeyRef::from(key), selector, caller);
        let of_session = || self.of_session(selector.session_id?, key, reader).map(Value::copy);
        found.map(|value| value.to_value()).or_else(of_session)
    }

    /// A reply with a job's data, a rank's, or both; a request for all values of a rank also gets the registered ones.
    fn get_reply(
        &self,
        peer: PeerId,
        nspace: &Nspace,
        job: bool,
        rank: Option<(Rank, bool)>,
    ) -> Result<Vec<u8>, Status> {
        let (Some(peer), Some(state)) = (self.peers.get(&peer), self.nspaces.get(nspace)) else {
            return Err(Status::ERR_NOT_FOUND);
        };
        let mut reply = GetWriter::new(peer.dialect, peer.version, Status::SUCCESS);
        if job {
            let to = recipient(peer, &self.config.hostname);
            let pack = |object: &mut Packer| jobinfo::pack(object, &state.job, &to, jobinfo::all_ranks(&state.job));
            reply.object(&Proc::new(nspace.clone(), Rank::WILDCARD), pack)?;
        }
        if let Some((rank, is_all)) = rank {
            let published = state.visible.rank(rank).map(|(key, value)| (key, ValueRef::from(value)));
            let registered = state.job.procs.row(rank).filter(|_| is_all);
            let mut values = qualified::spread_refs(published.chain(registered));
            // An old client misses values of types that came after it, not the whole answer.
            let pack_one = |object: &mut Packer, (key, value)| object.kval_ref_if_known(key, value);
            let pack = |object: &mut Packer| values.try_for_each(|kval| pack_one(object, kval));
            reply.object(&Proc::new(nspace.clone(), rank), pack)?;
        }
        Ok(reply.into_bytes())
    }

    /// One value, and with that of another job's process the data of that job.
    fn get_one_reply(
        &self,
        peer: PeerId,
        proc: &Proc,
        key: &Key,
        value: &Value,
        with_job: bool,
    ) -> Result<Vec<u8>, Status> {
        let (Some(peer), Some(state)) = (self.peers.get(&peer), self.nspaces.get(&proc.nspace)) else {
            return Err(Status::ERR_NOT_FOUND);
        };
        let mut reply = GetWriter::new(peer.dialect, peer.version, Status::SUCCESS);
        reply.object(proc, |object| object.kval(key, value))?;
        if with_job {
            let to = recipient(peer, &self.config.hostname);
            let pack = |object: &mut Packer| jobinfo::pack(object, &state.job, &to, jobinfo::all_ranks(&state.job));
            reply.object(&Proc::new(proc.nspace.clone(), Rank::WILDCARD), pack)?;
        }
        Ok(reply.into_bytes())
    }

    /// The row of this node in a job, which may call it by another name: it is where its clients are.
    pub(super) fn own_row(&self, state: &super::NspaceState) -> Option<u32> {
        let of_client = || realm_resolution::node_row_of(&*state.job, *state.clients.keys().next()?);
        state.job.node_row_by_name(self.config.hostname.as_bytes()).or_else(of_client)
    }

    /// Whether the maps place a rank on this node, which they may call by another name: it is where its clients are.
    pub(super) fn runs_here(&self, state: &super::NspaceState, rank: Rank) -> bool {
        let own = self.own_row(state);
        own.is_some()
            && realm_resolution::node_row_of(&*state.job, rank) == own
            && state.clients.len() < state.nlocal as usize
    }

    /// A local rank has committed.
    pub(super) fn committed(&mut self, proc: &Proc) {
        self.retry_gets(proc);
        if let Some(waiting) = self.gets.served.remove(proc) {
            for done in waiting {
                self.give_remote_data(proc, done);
            }
        }
    }

    /// Retries the Gets that wait for a process; those that must wait on keep their deadlines.
    pub(super) fn retry_gets(&mut self, proc: &Proc) {
        let now = self.now();
        for get in self.gets.gets.remove(proc).unwrap_or_default() {
            self.resolve_get(proc.clone(), get, false, now);
        }
    }

    /// A namespace became known: retries the Gets that wait for its processes.
    pub(super) fn retry_gets_of(&mut self, nspace: &Nspace) {
        let waiting = self.gets.gets.keys().filter(|proc| proc.nspace == *nspace && !self.gets.is_asked(proc));
        for proc in waiting.cloned().collect::<Vec<_>>() {
            self.retry_gets(&proc);
        }
    }

    /// A fence has brought values of these processes: they may answer Gets that wait for the host's answer. Some hosts lose
    /// direct modex requests.
    pub(super) fn fenced(&mut self, procs: &[Proc]) {
        for proc in procs {
            if let Some(is_fenced) = self.gets.asked.get_mut(proc) {
                *is_fenced = true;
                self.retry_gets(proc);
            }
        }
    }

    /// A process will not commit any more: fails the Gets that wait for it.
    pub(super) fn fail_gets_for(&mut self, proc: &Proc) {
        for get in self.gets.gets.remove(proc).unwrap_or_default() {
            self.fail_get(proc, &get, Status::ERR_NOT_FOUND);
        }
        self.fail_served_gets(proc);
    }

    /// The same for other servers that wait for it.
    pub(super) fn fail_served_gets(&mut self, proc: &Proc) {
        for done in self.gets.served.remove(proc).unwrap_or_default() {
            self.call(move || done(Status::ERR_NOT_FOUND, Vec::new()));
        }
    }

    /// The same for all processes of a namespace that have finalized and are not expected back. One that was awaited because another one
    /// had come back may not be any more when that has finalized, too.
    pub(super) fn fail_served_gets_of_over(&mut self, nspace: &Nspace) {
        let Some(state) = self.nspaces.get(nspace) else { return };
        let is_over = |proc: &&Proc| proc.nspace == *nspace && state.is_over_elsewhere(proc.rank);
        let over: Vec<Proc> = self.gets.served.keys().filter(is_over).cloned().collect();
        over.iter().for_each(|proc| self.fail_served_gets(proc));
    }

    /// How often a process of this node has finalized.
    pub(super) fn cycle_of(&self, proc: &Proc) -> u32 {
        self.nspaces.get(&proc.nspace).map_or(0, |state| state.cycle_of(proc.rank))
    }

    /// A namespace is gone.
    pub(super) fn fail_gets_of(&mut self, nspace: &Nspace) {
        self.gets.forget_unknown(nspace);
        self.missed.forget(nspace);
        let waiting = self.gets.gets.keys().chain(self.gets.served.keys());
        let procs: Vec<Proc> = waiting.filter(|proc| proc.nspace == *nspace).cloned().collect();
        for proc in procs {
            self.fail_gets_for(&proc);
        }
    }

    pub(super) fn expire_gets(&mut self, now: Instant) {
        if self.gets.deadline.is_none_or(|deadline| now < deadline) {
            return;
        }
        let mut late = Vec::new();
        self.gets.gets.retain(|proc, gets| {
            late.extend(
                gets.extract_if(.., |get| get.deadline.is_some_and(|d| d <= now)).map(|get| (proc.clone(), get)),
            );
            !gets.is_empty()
        });
        self.gets.find_deadline();
        for (proc, get) in late {
            match get.job_deadline {
                // The value has been found. Later Gets do not wait for a host that does not answer.
                Some(_) => {
                    self.gets.note_unknown(&proc.nspace, None);
                    self.resolve_get(proc, get, false, now);
                }
                None => {
                    if let Some(key) = &get.key {
                        self.missed.count(&proc, key);
                    }
                    // The caller has set the time itself.
                    if get.late == Status::ERR_TIMEOUT {
                        self.log_late(&proc, &get, now);
                    }
                    self.fail_get(&proc, &get, get.late);
                }
            }
        }
    }

    /// Logs whom a Get has waited for whose `PMIX_TIMEOUT` has passed.
    fn log_late(&mut self, proc: &Proc, get: &WaitingGet, now: Instant) {
        let Some(peer) = self.peers.get(&get.peer) else { return };
        let what = get.key.as_ref().map_or_else(|| "all values".to_owned(), |key| format!("key {key}"));
        let state = self.nspaces.get(&proc.nspace);
        let client = state.and_then(|state| state.clients.get(&proc.rank));
        let who = match client {
            Some(client) if client.committed => "which has committed others".to_owned(),
            Some(client) if client.has_connected => "which has committed nothing".to_owned(),
            Some(_) => "which has not connected".to_owned(),
            None if self.gets.is_asked(proc) => super::answer_of_host("direct_modex", get.since, now),
            None => "which the host has not registered".to_owned(),
        };
        let line = format!("a Get of {} timed out; missing: {what} of {proc}, {who}", peer.proc);
        self.outputs.push_back(Output::Log(Reason::here().by(Some(peer.user.uid)), line));
    }

    /// The host has answered with a remote rank's data. `user` is set if the host also decided about this user's access.
    pub(super) fn dmodex_answered(&mut self, proc: &Proc, user: Option<u32>, status: Status, data: &[u8]) {
        let is_fenced = self.gets.asked.remove(proc).unwrap_or(false);
        let kvals = if status.is_success() { blob::decode_modex(EXCHANGE, data) } else { Err(status) };
        // An empty answer means that the host has registered the job meanwhile.
        let stored =
            kvals.and_then(|kvals| if kvals.is_empty() { Ok(()) } else { self.store_modex(proc, kvals, is_fenced) });
        if let (Some(user), Ok(()), Some(state)) = (user, &stored, self.nspaces.get_mut(&proc.nspace)) {
            state.readers.insert(user);
        }
        let waiting = self.gets.gets.remove(proc).unwrap_or_default();
        // The host's answer to one user does not count for another.
        let is_of_another = |get: &WaitingGet| {
            self.stranger(get.peer, &proc.nspace).is_some_and(|stranger| Some(stranger.user.uid) != user)
        };
        let (others, waiting): (Vec<_>, Vec<_>) = waiting.into_iter().partition(is_of_another);
        let now = self.now();
        self.publish_soon(&proc.nspace, now);
        let of_job = !proc.rank.is_process();
        // A refusal may concern this user only.
        if of_job && stored.is_err() {
            self.gets.note_unknown(&proc.nspace, user);
        }
        for mut get in waiting {
            // The host's answer is complete: missing values are not requested again.
            get.infos.push(Info::new(keys::IMMEDIATE, Value::Bool(true)));
            // The data of the job may hold it.
            let is_registered = !of_job && get.key.as_ref().is_some_and(Key::is_reserved);
            match stored {
                _ if is_registered && self.waits_for_job(proc, &mut get, now) => self.gets.push(proc.clone(), get),
                Err(status) if !is_registered => self.fail_get(proc, &get, status),
                _ => self.resolve_get(proc.clone(), get, false, now),
            }
        }
        for get in others {
            self.resolve_get(proc.clone(), get, false, now);
        }
        if of_job {
            // Values of its processes may have waited for it.
            self.retry_gets_of(&proc.nspace);
        }
    }

    /// Stores the result of a direct modex: a rank's values or, for another server's job, the job's data. Values that a fence has brought
    /// since the request stay: which of the two is older is unknown, and fences bring each value once.
    fn store_modex(&mut self, proc: &Proc, mut kvals: Vec<Kval>, is_fenced: bool) -> Result<(), Status> {
        let state = self.known_or_foreign(&proc.nspace);
        if proc.rank.is_process() {
            kvals.retain(|kval| !is_fenced || state.visible.get(proc.rank, kval.key.as_bytes()).is_none());
            return self.store_remote(&proc.nspace, proc.rank, kvals);
        } else if state.foreign {
            match jobinfo::from_kvals(proc.nspace.clone(), EXCHANGE, kvals) {
                Ok(job) => {
                    state.job = Arc::new(job);
                    self.gets.forget_unknown(&proc.nspace);
                }
                Err(status) => self.log(format!("the data of job {} cannot be read: {status}", proc.nspace)),
            }
        }
        Ok(())
    }

    /// Another server requests a local rank's data: waits for the registration and the commit.
    pub(super) fn serve_dmodex(&mut self, proc: Proc, done: DmodexDone) -> Status {
        let state = self.nspaces.get(&proc.nspace);
        if let (Some(state), false) = (state, proc.rank.is_process()) {
            let own = Peer::own(&self.config);
            let mut packer = Packer::new(EXCHANGE);
            let to = recipient(&own, &self.config.hostname);
            let packed = jobinfo::pack(&mut packer, &state.job, &to, jobinfo::all_ranks(&state.job));
            let status = packed.err().unwrap_or(Status::SUCCESS);
            self.call(move || done(status, packer.into_bytes()));
            return Status::SUCCESS;
        }
        let client = state.and_then(|state| state.clients.get(&proc.rank));
        match client {
            Some(client) if client.committed => self.give_remote_data(&proc, done),
            // Committed values of a process remain after its end.
            None if state.is_some_and(|state| state.remote.has_rank(proc.rank)) => self.give_remote_data(&proc, done),
            None if state.is_some_and(|state| state.has_left(proc.rank)) => {
                self.call(move || done(Status::ERR_NOT_FOUND, Vec::new()));
            }
            Some(_) if state.is_some_and(|s| s.gone.contains(&proc.rank) || s.is_over_elsewhere(proc.rank)) => {
                self.call(move || done(Status::ERR_NOT_FOUND, Vec::new()))
            }
            _ => self.gets.served.entry(proc).or_default().push(done),
        }
        Status::SUCCESS
    }

    fn give_remote_data(&mut self, proc: &Proc, done: DmodexDone) {
        let packed = match self.nspaces.get(&proc.nspace) {
            Some(state) => blob::encode_modex(EXCHANGE, qualified::spread(state.remote.rank(proc.rank))),
            None => Err(Status::ERR_NOT_FOUND),
        };
        self.call(move || match packed {
            Ok(data) => done(Status::SUCCESS, data),
            Err(status) => done(status, Vec::new()),
        });
    }
}
