//! Namespaces and the clients registered in them.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ffi::OsString;
use std::sync::Arc;
use std::time::Instant;

use pmix_dstore::codec::Dialect;
use pmix_dstore::fallible_alloc;
use pmix_dstore::job::{Given, JobData, Refused, Values};
use pmix_dstore::model::{Info, Key, Nspace, Proc, Rank, Result, Status, Value, keys};
use pmix_dstore::modex::ModexData;
use pmix_wire::MESSAGE_LEN_MAX;
use pmix_wire::jobinfo::{self, Recipient};

use super::ledger::Ledger;
use super::limits::CONNECTIONS_MAX;
use super::modex_delta::Changes;
use super::peer::{Actor, Peer, PeerId};
use super::{Engine, Output, RETURN_DELAY};
use crate::access::{self, Access, User};
use crate::cleanup::Cleanup;
use crate::env::SharedEnv;
use crate::restart::{Fate, Released};
use crate::secret::Secret;

/// A process of this node that the host registered.
pub(super) struct LocalClient {
    pub uid: u32,
    pub gid: u32,
    pub object: usize,
    pub secret: Secret,
    /// Connections open now: a rank may run two programs, one after the other or at once.
    pub connections: BTreeSet<PeerId>,
    /// Has committed at least once.
    pub committed: bool,
    /// An allocation failed for a commit of it, or a message that may have been one.
    pub refused: bool,
    /// Has been admitted once.
    pub has_connected: bool,
    /// Was connected to the server before this one, and has not come again so far.
    pub is_awaited: bool,
    /// The number of its finalizes followed by the end of its last connection.
    pub finalized: u32,
    /// Files to remove when it ends.
    pub cleanup: Cleanup,
}

impl LocalClient {
    fn new(uid: u32, gid: u32, object: usize, secret: Secret) -> LocalClient {
        LocalClient {
            uid,
            gid,
            object,
            secret,
            connections: BTreeSet::new(),
            committed: false,
            refused: false,
            has_connected: false,
            is_awaited: false,
            finalized: 0,
            cleanup: Cleanup::default(),
        }
    }
}

/// What the server before this one knew of a process.
#[derive(Default)]
pub(super) struct Heir {
    pub secret: Option<Secret>,
    pub committed: bool,
    pub fate: Fate,
}

/// A tool in a namespace that it has named itself.
#[derive(Clone, Copy)]
pub(super) struct Guest {
    uid: u32,
    /// The host has admitted the tool. A host without an upcall for tools cannot mean it with a registration.
    is_known: bool,
}

/// The origin of a tool's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NamedBy {
    /// The host.
    Host,
    /// The tool, and the host has let it in.
    Itself,
    /// The tool, and the host has no upcall to confirm it.
    ItselfUnasked,
}

/// The agreement of a namespace's servers about fences without data, see `super::slurm`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Agreement {
    /// No fence of the whole namespace has collected data so far.
    #[default]
    Open,
    /// The first one has begun: the collective of this number.
    Asked(u64),
    /// All servers request the ring.
    Reached,
    /// Not all do.
    Refused,
}

/// One namespace.
pub(super) struct NspaceState {
    /// How many of its processes run on this node.
    pub nlocal: u32,
    pub job: Arc<JobData>,
    /// Registered with data, so a missing value does not exist.
    pub complete: bool,
    /// Never registered: a job of other servers, known only from direct modex.
    pub foreign: bool,
    /// For a namespace that was never registered itself: the job whose registration describes it. The namespace ends
    /// with that job.
    described_by: Option<Nspace>,
    pub clients: BTreeMap<Rank, LocalClient>,
    /// Secrets of processes whose environment was requested before the host registered them.
    pub early: BTreeMap<Rank, Secret>,
    /// The users of the job: those of its processes here, and the one in its registration.
    pub users: BTreeSet<u32>,
    /// Further users with access, from its registration.
    pub access: Access,
    /// Further users that may read its data: those the host has allowed, and those that have connected with the job.
    pub readers: BTreeSet<u32>,
    /// Local ranks that have died, and will not commit any more.
    pub gone: BTreeSet<Rank>,
    /// Local ranks that have finalized and are not expected back.
    pub over: BTreeSet<Rank>,
    /// Numbers of its processes that the host has stored beside its registration.
    pub pids: BTreeMap<Rank, i32>,
    /// Made for tools, not registered by the host: it ends with the last of them.
    pub is_of_tools: bool,
    /// Tools that chose this name themselves, until a registration names their user.
    guests: BTreeMap<PeerId, Guest>,
    /// The host is ending its processes, or one of them has asked it to: their ends are not logged.
    pub is_ending: bool,
    /// Clients that the host has deregistered.
    pub deregistered: BTreeSet<Rank>,
    /// Local ranks that ended before they connected, not logged yet.
    pub ended_unconnected: BTreeSet<Rank>,
    /// Files to remove when the job has ended, by the user that requested it.
    pub cleanup: BTreeMap<(u32, u32), Cleanup>,
    /// Values for this node's processes: local ranks' local buffers, other ranks' remote ones.
    pub visible: ModexData,
    /// Values for other nodes: local ranks' remote buffers.
    pub remote: ModexData,
    /// The changes of `remote`.
    pub changes: Changes,
    /// The agreement of a Slurm step's servers about fences without data.
    pub agreement: Agreement,
    /// The first fence of the whole namespace that collects data and went to the host, see `super::server_mark`.
    pub first_fence: Option<u64>,
    pub ledger: Ledger,
    /// What the server before this one knew of processes that the host has not registered again so far.
    pub heirs: BTreeMap<Rank, Heir>,
    /// The fences that are over, for clients that have not got the reply; only where the server may be restarted.
    pub released: Released,
    /// Job-info replies by dialect and release, made once.
    pub(super) job_replies: HashMap<(Dialect, String), Vec<u8>>,
}

impl NspaceState {
    pub fn new(nspace: Nspace) -> NspaceState {
        NspaceState {
            nlocal: 0,
            job: Arc::new(JobData::new(nspace)),
            complete: false,
            foreign: false,
            described_by: None,
            clients: BTreeMap::new(),
            early: BTreeMap::new(),
            users: BTreeSet::new(),
            access: Access::default(),
            readers: BTreeSet::new(),
            gone: BTreeSet::new(),
            over: BTreeSet::new(),
            pids: BTreeMap::new(),
            is_of_tools: false,
            guests: BTreeMap::new(),
            is_ending: false,
            deregistered: BTreeSet::new(),
            ended_unconnected: BTreeSet::new(),
            cleanup: BTreeMap::new(),
            visible: ModexData::default(),
            remote: ModexData::default(),
            changes: Changes::default(),
            agreement: Agreement::default(),
            first_fence: None,
            ledger: Ledger::default(),
            heirs: BTreeMap::new(),
            released: Released::new(),
            job_replies: HashMap::new(),
        }
    }

    /// Whether this server has any data of the job.
    pub fn has_data(&self) -> bool {
        let job = &self.job;
        !(job.session.is_empty() && job.job.is_empty() && job.nodes.is_empty()) || job.procs.rows() > 0
    }

    /// Whether tools of this user have the name by their own word only.
    pub fn is_guest(&self, uid: u32) -> bool {
        self.guests.values().any(|guest| guest.uid == uid)
    }

    /// A tool has closed its connection. Returns its user if it had chosen the name of a job itself.
    pub fn forget_guest(&mut self, id: PeerId) -> Option<u32> {
        self.guests.remove(&id).filter(|_| !self.is_of_tools).map(|guest| guest.uid)
    }

    /// Whether the process's connections are only tools that chose this name themselves.
    fn is_guests(&self, client: &LocalClient) -> bool {
        let connections = &client.connections;
        !connections.is_empty() && connections.iter().all(|id| self.guests.contains_key(id))
    }

    /// Whether a tool of this user may choose the name of this rank.
    fn may_be_taken(&self, rank: Rank, uid: u32) -> bool {
        let is_registered = !self.is_of_tools && self.clients.get(&rank).is_some_and(|client| client.uid == uid);
        let mut uids = self.clients.values().map(|client| client.uid).chain(self.users.iter().copied());
        is_registered || (!self.foreign && uids.all(|other| other == uid))
    }

    /// Whether a process of the namespace runs, or ran, on this node.
    pub fn is_local(&self, rank: Rank) -> bool {
        self.clients.contains_key(&rank) || self.has_left(rank)
    }

    /// The processes that run, or ran, on this node; some may come twice.
    pub fn local_ranks(&self) -> impl Iterator<Item = Rank> {
        self.clients.keys().chain(&self.deregistered).copied()
    }

    /// The processes of this node that can enter no further collective.
    pub fn ended(&self) -> impl Iterator<Item = Rank> {
        self.gone.iter().chain(&self.deregistered).copied()
    }

    /// Whether the process ran on this node and the host has deregistered it.
    pub fn has_left(&self, rank: Rank) -> bool {
        self.deregistered.contains(&rank)
    }

    /// Whether the host has registered it as a job here. A name that tools alone have says nothing: the job may be registered at other servers.
    pub fn is_job(&self) -> bool {
        self.complete && !self.is_of_tools
    }

    /// Whether the process runs on this node and may still enter a collective.
    pub fn is_alive(&self, rank: Rank) -> bool {
        self.clients.contains_key(&rank) && !self.gone.contains(&rank)
    }

    /// Whether the last connection of the process was lost, and the host has not deregistered it.
    pub fn is_lost(&self, rank: Rank) -> bool {
        self.gone.contains(&rank)
    }

    /// How often a process of this node has finalized.
    pub fn cycle_of(&self, rank: Rank) -> u32 {
        self.clients.get(&rank).map_or(0, |client| client.finalized)
    }

    /// Whether some have finalized and are not expected back.
    pub fn has_over(&self) -> bool {
        !self.over.is_empty()
    }

    /// The ranks that are not expected back and have finalized more often than `cycle`: a process with `cycle`
    /// finalizes continues without them. Ranks initialise and finalize the library in cycles, and scripts start one
    /// program after the other: a process in a later cycle waits for those in earlier ones.
    pub fn over_for(&self, cycle: u32) -> impl Iterator<Item = Rank> {
        self.over.iter().copied().filter(move |rank| self.cycle_of(*rank) > cycle)
    }

    /// Whether a rank is among them.
    pub fn is_over_for(&self, rank: Rank, cycle: u32) -> bool {
        self.over.contains(&rank) && self.cycle_of(rank) > cycle
    }

    /// Whether a process of another node need not wait for a rank. Its count of finalizes is not known here; it is assumed to be the
    /// highest of this node's connected processes.
    pub fn is_over_elsewhere(&self, rank: Rank) -> bool {
        let here = self.clients.values().filter(|client| !client.connections.is_empty());
        self.is_over_for(rank, here.map(|client| client.finalized).max().unwrap_or(0))
    }

    /// A process is here, or is expected again.
    pub fn expect(&mut self, rank: Rank) {
        self.over.remove(&rank);
    }

    /// The number of processes on this node, as far as the host has registered it.
    pub fn local_size(&self) -> usize {
        (self.nlocal as usize).max(self.clients.len() + self.deregistered.len())
    }

    /// The number of local ranks that may still take part in collectives.
    pub fn local_alive(&self) -> usize {
        self.local_size() - self.deregistered.len() - self.gone.len()
    }
}

/// Limit of cached job-info replies: the key contains the peer's release, which the peer may choose freely.
const JOB_REPLIES_MAX: usize = 8;

/// From this size on, a registration leaves much freed memory, which is returned to the system.
const LARGE: u32 = 1 << 16;

/// A registration, read and derived outside the lock.
pub(crate) struct JobPlan {
    nspace: Nspace,
    nlocal: i32,
    job: Option<JobData>,
    /// The user in the registration.
    user: Option<u32>,
    /// Further users with access.
    access: Access,
}

impl JobPlan {
    /// Reads a host's infos about a job; `known` is the earlier registration.
    pub fn read<'a>(
        nspace: &Nspace,
        nlocal: i32,
        given: impl Into<Given<'a>>,
        known: Option<Arc<JobData>>,
        hostname: &str,
    ) -> std::result::Result<JobPlan, Refused> {
        let given = given.into();
        let no_data = Info::is_set(given.infos, keys::REGISTER_NODATA);
        let (user, access) = (access::owner(given.infos), Access::read(given.infos));
        let job = if no_data {
            None
        } else {
            let mut job = match known {
                Some(job) => {
                    fallible_alloc::probe(2 * job.procs.bytes())?;
                    (*job).clone()
                }
                None => JobData::new(nspace.clone()),
            };
            job.register(given, hostname.as_bytes())?;
            Some(job)
        };
        Ok(JobPlan { nspace: nspace.clone(), nlocal, job, user, access })
    }

    /// Returns memory to the system that was freed when this was read, and when the infos were dropped.
    pub fn trim(&self) {
        if self.job.as_ref().is_some_and(|job| job.procs.rows() >= LARGE) {
            fallible_alloc::trim();
        }
    }
}

impl Engine {
    /// The host is ending the processes of a namespace.
    pub fn announce_end(&mut self, nspace: &Nspace) {
        if let Some(state) = self.nspaces.get_mut(nspace) {
            state.is_ending = true;
        }
    }

    /// The registered data of a namespace; `None` if only another job's registration describes it.
    pub fn job(&self, nspace: &Nspace) -> Option<Arc<JobData>> {
        self.nspaces.get(nspace).filter(|state| state.described_by.is_none()).map(|state| state.job.clone())
    }

    /// All jobs that are registered with data.
    pub fn jobs(&self) -> Vec<Arc<JobData>> {
        self.nspaces.values().filter(|state| state.complete).map(|state| state.job.clone()).collect()
    }

    /// Performs a registration.
    pub fn register_nspace(&mut self, plan: JobPlan) -> Status {
        self.inherit(&plan.nspace);
        self.evict_guests(&plan.nspace, plan.user);
        self.nspaces.values_mut().for_each(|state| state.changes.forget(&plan.nspace));
        let state = self.nspaces.entry(plan.nspace.clone()).or_insert_with(|| NspaceState::new(plan.nspace.clone()));
        (state.foreign, state.is_of_tools, state.described_by) = (false, false, None);
        // A second registration of more data may not repeat how many processes are local.
        state.nlocal = state.nlocal.max(u32::try_from(plan.nlocal).unwrap_or(0));
        state.users.extend(plan.user);
        if !plan.access.is_empty() {
            state.access = plan.access;
        }
        if let Some(job) = plan.job {
            state.job = Arc::new(job);
            state.complete = true;
            let sessions: Vec<u32> = state.job.sessions().collect();
            self.take_resources(&plan.nspace);
            sessions.into_iter().for_each(|id| self.share_session(id, Some(&plan.nspace)));
            self.publish_job(&plan.nspace);
        }
        self.connect_spawned(&plan.nspace);
        self.open_shared(&plan.nspace);
        self.retry_gets_of(&plan.nspace);
        Status::SUCCESS
    }

    /// `None` if the job has a registration of its own. Otherwise the data from another job's registration, if there are any.
    pub fn may_describe(&self, nspace: &Nspace) -> Option<Option<Arc<JobData>>> {
        match self.nspaces.get(nspace) {
            Some(state) if state.described_by.is_none() && !state.foreign => None,
            state => Some(state.map(|state| state.job.clone())),
        }
    }

    /// Stores the description of another job from the registration of `by`.
    pub fn describe_nspace(&mut self, plan: JobPlan, by: &Nspace) {
        let nspace = plan.nspace.clone();
        if self.may_describe(&nspace).is_some() {
            self.register_nspace(plan);
            let readers = self.nspaces.get(by).map(|state| state.users.clone()).unwrap_or_default();
            if let Some(state) = self.nspaces.get_mut(&nspace) {
                state.described_by = Some(by.clone());
                state.readers.extend(readers);
            }
        }
    }

    /// Makes the newest data of a job available to all its readers.
    pub(super) fn publish_job(&mut self, nspace: &Nspace) {
        if let Some(state) = self.nspaces.get_mut(nspace) {
            state.job_replies.clear();
            if state.ledger.note_job()
                && let Some(number) = state.ledger.number()
            {
                self.want_publication(number);
            }
        }
    }

    /// Gives each job of a session the values of the session: from all its jobs' registrations, those of `newest` after the others,
    /// and from its own.
    pub(super) fn share_session(&mut self, id: u32, newest: Option<&Nspace>) {
        let mut names: Vec<&Nspace> = self.nspaces.keys().filter(|name| Some(*name) != newest).collect();
        names.sort_unstable();
        let mut all = Values::new();
        for state in names.into_iter().chain(newest).filter_map(|name| self.nspaces.get(name)) {
            all.extend(state.job.said_of_session(id).map(|(key, value)| (key.clone(), value.clone())));
        }
        all.extend(self.sessions.get(&id).into_iter().flatten().map(|(key, value)| (key.clone(), value.clone())));
        let mut changed = Vec::new();
        for (nspace, state) in &mut self.nspaces {
            if state.job.session_id() == Some(id)
                && let Some(session) = state.job.beside_session(&all)
            {
                Arc::make_mut(&mut state.job).set_session(session);
                changed.push(nspace.clone());
            }
        }
        changed.iter().filter(|nspace| Some(*nspace) != newest).for_each(|nspace| self.publish_job(nspace));
    }

    /// A value of a session, from whichever job's registration that `reader` may read of; or from the session's own, if the
    /// reader may read of a job that is in it.
    pub(super) fn of_session(&self, id: u32, key: &Key, reader: &Actor) -> Option<&Value> {
        let seen = || self.nspaces.iter().filter(|(nspace, _)| self.sees(&reader.proc, reader.user, nspace));
        let mut said = seen().flat_map(|(_, state)| state.job.said_of_session(id));
        let of_job = said.find(|(name, _)| *name == key).map(|(_, value)| value);
        let is_in_it = || seen().any(|(_, state)| state.job.session_id() == Some(id));
        of_job.or_else(|| self.sessions.get(&id)?.get(key).filter(|_| is_in_it()))
    }

    /// Makes the namespace's directory and socket as soon as it has data and local readers. The user of the first
    /// registered client owns the directory; until then the server's user does.
    fn open_shared(&mut self, nspace: &Nspace) {
        let Some(state) = self.nspaces.get_mut(nspace).filter(|state| state.complete) else { return };
        let mut clients = state.clients.values().filter(|client| !state.is_guests(client));
        let of_client = clients.next().map(|client| (client.uid, client.gid));
        let of_server = (!state.early.is_empty()).then_some((self.config.uid, self.config.gid));
        let Some(user) = of_client.or(of_server) else { return };
        if !state.ledger.is_new() {
            if let Some(number) = state.ledger.number().filter(|_| state.ledger.is_opening()) {
                self.record(number);
            }
        } else if !self.config.shared_memory {
            state.ledger.turn_off();
        } else {
            let number = self.publications.new_directory(nspace);
            state.ledger.open(number, user);
            self.want_publication(number);
        }
    }

    /// The state of a namespace that may never have been registered here.
    pub(super) fn known_or_foreign(&mut self, nspace: &Nspace) -> &mut NspaceState {
        self.nspaces
            .entry(nspace.clone())
            .or_insert_with(|| NspaceState { foreign: true, ..NspaceState::new(nspace.clone()) })
    }

    /// Removes a namespace and everything that belongs to it.
    pub fn deregister_nspace(&mut self, nspace: &Nspace) -> Status {
        self.events.forget_nspace(nspace);
        self.send_held_of(nspace);
        self.outputs_of_procs.forget_nspace(nspace);
        // The host has deregistered the job: it needs no reports about its processes.
        self.log_losses(nspace);
        self.losses.retain(|loss| loss.proc.nspace != *nspace);
        let job = self.remove_nspace(nspace);
        self.discarded.extend(job);
        Status::SUCCESS
    }

    /// Frees the data of deregistered jobs, after the outputs about their end.
    pub fn free_discarded(&mut self) {
        let discarded = std::mem::take(&mut self.discarded);
        if !discarded.is_empty() {
            self.call(move || drop(discarded));
        }
    }

    /// Disconnects tools that have taken the name of a job which the host registers for `owner`. A tool of the owner stays: hosts register
    /// the tools that they have admitted, before or after their answer. If the registration names no user, tools that the host has admitted
    /// stay as well, without access to the job until the host registers their user.
    pub(super) fn evict_guests(&mut self, nspace: &Nspace, owner: Option<u32>) {
        let Some(state) = self.nspaces.get_mut(nspace) else { return };
        let is_meant = |guest: &Guest| owner.map_or(guest.is_known, |owner| guest.uid == owner);
        let evicted: Vec<(PeerId, Guest)> =
            state.guests.iter().filter(|(_, guest)| !is_meant(guest)).map(|(id, guest)| (*id, *guest)).collect();
        let is_of_tools = state.is_of_tools;
        if is_of_tools {
            // The registration determines users and ranks.
            state.users.clear();
            state.clients.retain(|_, client| !client.connections.is_empty());
        }
        if owner.is_some() {
            state.guests.clear();
        }
        let Some((_, first)) = evicted.first() else { return };
        let line = format!(
            "hung up on {} tools that had taken the name {nspace}, the first of user {}: the host registers it as a job",
            evicted.len(),
            first.uid
        );
        self.log(line);
        // Their puts must not become values of the job.
        if is_of_tools {
            let job = self.remove_nspace(nspace);
            self.discarded.extend(job);
            return;
        }
        for (id, guest) in evicted {
            let Some((peer, _)) = self.forget_connection(id) else { continue };
            self.outputs.push_back(Output::Close(id));
            self.forget_guests_client(&peer.proc, guest.uid);
        }
    }

    /// A tool has gone that had chosen the name of a job's process itself: removes its client and its puts from the job.
    pub(super) fn forget_guests_client(&mut self, proc: &Proc, uid: u32) {
        let Some(state) = self.nspaces.get_mut(&proc.nspace) else { return };
        let is_its = |client: &LocalClient| client.uid == uid && client.connections.is_empty();
        if state.clients.get(&proc.rank).is_some_and(is_its)
            && let Some(client) = state.clients.remove(&proc.rank)
        {
            state.gone.remove(&proc.rank);
            self.clean_up((client.uid, client.gid), client.cleanup);
            self.forget_values(proc);
        }
    }

    /// Whether a tool may have a name, as things are when the host has answered: jobs may have been registered since it came.
    fn check_name(&self, proc: &Proc, user: User, by: NamedBy) -> Result<()> {
        let Some(state) = self.nspaces.get(&proc.nspace) else { return Ok(()) };
        if state.clients.get(&proc.rank).is_some_and(|client| client.connections.len() >= CONNECTIONS_MAX) {
            return Err(Status::ERR_OUT_OF_RESOURCE);
        }
        match by == NamedBy::Host || self.is_privileged(user) || state.may_be_taken(proc.rank, user.uid) {
            true => Ok(()),
            false => Err(Status::ERR_NO_PERMISSIONS),
        }
    }

    /// Admits a process that is not a client of the host.
    ///
    /// # Errors
    /// `ERROR` if the system has no random numbers, as [`Secret::new`]; errors of a name that another user has by now.
    pub(super) fn add_tool(&mut self, id: PeerId, proc: &Proc, user: User, by: NamedBy) -> Result<()> {
        self.check_name(proc, user, by)?;
        let is_guest = by != NamedBy::Host && !self.is_privileged(user);
        /// `nogroup`, for a user without a known group.
        const NO_GROUP: u32 = 65_534;
        let (uid, gid) = (user.uid, user.gid.unwrap_or(NO_GROUP));
        let secret = Secret::new()?;
        let state = self.nspaces.entry(proc.nspace.clone()).or_insert_with(|| NspaceState {
            is_of_tools: true,
            // No registration will follow.
            complete: true,
            ..NspaceState::new(proc.nspace.clone())
        });
        let client = state.clients.entry(proc.rank).or_insert_with(|| LocalClient::new(uid, gid, 0, secret));
        client.connections.insert(id);
        client.has_connected = true;
        self.standings.clear();
        if is_guest && (state.is_of_tools || !state.users.contains(&uid)) {
            state.guests.insert(id, Guest { uid, is_known: by == NamedBy::Itself });
        }
        state.gone.remove(&proc.rank);
        if state.is_of_tools {
            state.users.insert(uid);
        }
        state.expect(proc.rank);
        Ok(())
    }

    /// A tool is gone: removes the state made for it.
    pub(super) fn forget_tool(&mut self, proc: &Proc) {
        let Some(state) = self.nspaces.get(&proc.nspace).filter(|state| state.is_of_tools) else { return };
        if state.clients.values().all(|client| client.connections.is_empty()) {
            self.remove_nspace(&proc.nspace);
        }
    }

    /// Removes a namespace and returns its job data, which outlive it.
    fn remove_nspace(&mut self, nspace: &Nspace) -> Option<Arc<JobData>> {
        let directory = self.nspaces.get(nspace)?.ledger.number();
        if let Some(number) = directory {
            self.give_up_waiting(number);
        }
        let state = self.nspaces.remove(nspace)?;
        self.standings.clear();
        state.ledger.add_to(&mut self.stats);
        if let Some(number) = directory {
            self.retire_directory(number);
        }
        // Tools choose their names: others may be waiting for a job of that name, which this server has not heard of.
        let is_gone =
            |proc: &Proc| proc.nspace == *nspace && (!state.is_of_tools || state.clients.contains_key(&proc.rank));
        self.end_collectives(is_gone);
        self.end_groups(is_gone);
        self.forget_connected(is_gone);
        let is_described = |state: &NspaceState| state.described_by.as_ref() == Some(nspace);
        let described: Vec<Nspace> =
            self.nspaces.iter().filter(|(_, state)| is_described(state)).map(|(name, _)| name.clone()).collect();
        for name in described {
            let job = self.remove_nspace(&name);
            self.discarded.extend(job);
        }
        self.farewells.retain(|(_, proc, _)| proc.nspace != *nspace);
        self.awaited.retain(|(_, proc)| proc.nspace != *nspace);
        match state.is_of_tools {
            true => state.clients.keys().for_each(|rank| self.fail_gets_for(&Proc::new(nspace.clone(), *rank))),
            false => self.fail_gets_of(nspace),
        }
        // These connections must not reach a later job of the same name.
        let left: BTreeSet<PeerId> =
            self.peers.iter().filter(|(_, peer)| peer.proc.nspace == *nspace).map(|(id, _)| *id).collect();
        for id in left.into_iter().filter(|id| *id != PeerId::OWN) {
            self.forget_connection(id);
            self.outputs.push_back(Output::Close(id));
        }
        // A host may register and deregister a job before the server's thread handles the registration.
        let is_its_socket = |output: &Output| matches!(output, Output::Listen(of, _) if of == nspace);
        match self.outputs.iter().position(is_its_socket) {
            Some(at) => drop(self.outputs.remove(at)),
            None => self.outputs.push_back(Output::Unlisten(nspace.clone())),
        }
        let of_clients = state.clients.into_values().map(|client| ((client.uid, client.gid), client.cleanup));
        for (user, cleanup) in of_clients.chain(state.cleanup) {
            self.clean_up(user, cleanup);
        }
        Some(state.job)
    }

    /// Registers a process that will be started on this node; again with other particulars.
    pub fn register_client(&mut self, proc: &Proc, uid: u32, gid: u32, object: usize) -> Status {
        if !proc.rank.is_process() || proc.nspace.is_empty() {
            return Status::ERR_BAD_PARAM;
        }
        let new_secret = match Secret::new() {
            Ok(secret) => secret,
            Err(status) => return status,
        };
        self.standings.clear();
        self.inherit(&proc.nspace);
        self.evict_guests(&proc.nspace, Some(uid));
        let state = self.nspaces.entry(proc.nspace.clone()).or_insert_with(|| NspaceState::new(proc.nspace.clone()));
        (state.foreign, state.is_of_tools) = (false, false);
        let mut is_given = false;
        // Its environment may exist already, and with it the directory.
        let heir = state.heirs.remove(&proc.rank).unwrap_or_default();
        let secret = state.early.remove(&proc.rank).or(heir.secret).unwrap_or(new_secret);
        if state.clients.is_empty() {
            is_given = state.ledger.give_to((uid, gid));
        }
        state.users.insert(uid);
        if let Some(client) = state.clients.get_mut(&proc.rank) {
            // Its connections and committed values stay valid.
            (client.uid, client.gid, client.object) = (uid, gid, object);
            state.gone.remove(&proc.rank);
            state.expect(proc.rank);
            self.journal_fate(proc);
            return Status::SUCCESS;
        }
        let directory = state.ledger.number().filter(|_| is_given);
        let mut client = LocalClient::new(uid, gid, object, secret);
        (client.committed, client.finalized, client.is_awaited) =
            (heir.committed, heir.fate.finalized, heir.fate.is_here);
        state.clients.insert(proc.rank, client);
        // Replies of large jobs contain only this node's processes, which have changed.
        state.job_replies.clear();
        // A rank that comes back, as one that the host starts again does, is not counted twice.
        state.deregistered.remove(&proc.rank);
        state.ended_unconnected.remove(&proc.rank);
        if let Some(number) = directory {
            self.want_publication(number);
        }
        self.take_fate(proc, heir.fate);
        self.journal_client(proc);
        self.open_shared(&proc.nspace);
        Status::SUCCESS
    }

    /// Takes what the server before this one knew of the end of a process.
    fn take_fate(&mut self, proc: &Proc, fate: Fate) {
        let now = self.now();
        let Some(state) = self.nspaces.get_mut(&proc.nspace) else { return };
        // One that the host had deregistered, and registers again as it did at first, has ended all the same, unless it comes.
        if fate.is_gone || fate.has_left {
            state.gone.insert(proc.rank);
        }
        if fate.is_here {
            let limit = self.config.restart.unwrap_or_default();
            self.awaited.push_back((now + limit, proc.clone()));
        }
        match fate {
            Fate { is_over: true, .. } => drop(state.over.insert(proc.rank)),
            // It may come back, as if it had finalized now.
            Fate { finalized: 1.., is_here: false, .. } => {
                self.farewells.push_back((now + RETURN_DELAY, proc.clone(), fate.finalized));
            }
            _ => {}
        }
    }

    /// Forgets a process. Its connections stay until it closes them; its secret opens no new ones.
    pub fn deregister_client(&mut self, proc: &Proc) -> Status {
        self.standings.clear();
        let Some(state) = self.nspaces.get_mut(&proc.nspace) else { return Status::SUCCESS };
        if let Some(client) = state.clients.remove(&proc.rank) {
            state.gone.remove(&proc.rank);
            state.expect(proc.rank);
            state.deregistered.insert(proc.rank);
            if !client.has_connected {
                state.ended_unconnected.insert(proc.rank);
            }
            self.clean_up((client.uid, client.gid), client.cleanup);
            // Its connection may not have closed yet. The connected processes hear of its end before collectives go on without it: they
            // may disconnect at once.
            let open = client.connections.iter().find_map(|id| self.peers.get(id));
            if let Some(has_finalized) = open.map(|peer| peer.finalized) {
                self.notify_connected_of_end(proc, has_finalized, self.now());
            }
            self.rank_is_gone(proc);
            self.journal_fate(proc);
        }
        Status::SUCCESS
    }

    /// A local rank will not commit any more: fails the Gets that wait for it.
    pub(super) fn rank_is_gone(&mut self, proc: &Proc) {
        if let Some(state) = self.nspaces.get_mut(&proc.nspace).filter(|state| state.clients.contains_key(&proc.rank)) {
            state.gone.insert(proc.rank);
            state.expect(proc.rank);
        }
        self.journal_fate(proc);
        self.fail_gets_for(proc);
        self.leave_collectives(proc);
    }

    /// A process has finalized and closed its last connection. It may come back.
    pub(super) fn rank_has_finalized(&mut self, proc: &Proc, now: Instant) {
        let state = self.nspaces.get_mut(&proc.nspace);
        let Some(client) = state.and_then(|state| state.clients.get_mut(&proc.rank)) else { return };
        client.finalized = client.finalized.saturating_add(1);
        self.farewells.push_back((now + RETURN_DELAY, proc.clone(), client.finalized));
        self.journal_fate(proc);
    }

    /// Continues collectives without processes that have finalized and not connected again in time.
    pub(super) fn give_up_returns(&mut self, now: Instant) {
        while let Some((_, proc, count)) = self.farewells.pop_front_if(|(due, ..)| *due <= now) {
            let Some(state) = self.nspaces.get_mut(&proc.nspace) else { continue };
            let is_away = |client: &LocalClient| client.finalized == count && client.connections.is_empty();
            if state.clients.get(&proc.rank).is_some_and(is_away) && !state.gone.contains(&proc.rank) {
                state.over.insert(proc.rank);
                self.journal_fate(&proc);
                self.retry_gets(&proc);
                self.fail_served_gets_of_over(&proc.nspace);
                self.go_on_without(&proc);
            }
        }
    }

    /// Performs the clean-up that a process registered for its end.
    pub(super) fn clean_up_after(&mut self, proc: &Proc) {
        let Some(state) = self.nspaces.get_mut(&proc.nspace) else { return };
        let Some(client) = state.clients.get_mut(&proc.rank) else { return };
        let (user, cleanup) = ((client.uid, client.gid), std::mem::take(&mut client.cleanup));
        self.clean_up(user, cleanup);
    }

    fn clean_up(&mut self, user: (u32, u32), cleanup: Cleanup) {
        if !cleanup.is_empty() {
            self.outputs.push_back(Output::CleanUp(user, cleanup));
        }
    }

    /// Prepares secret and directory for a client's environment, if the host registers the client only afterwards (Flux does). Called
    /// in the server's process only: a forked child's changes would not reach the server.
    pub fn prepare_client(&mut self, proc: &Proc) {
        let Some(state) = self.nspaces.get_mut(&proc.nspace).filter(|state| state.complete) else { return };
        let is_known = state.clients.contains_key(&proc.rank) || state.early.contains_key(&proc.rank);
        if is_known || !proc.rank.is_process() {
            return;
        }
        let known = state.heirs.get_mut(&proc.rank).and_then(|heir| heir.secret.take());
        // Without a secret the client gets everything over TCP.
        if let Some(secret) = known.or_else(|| Secret::new().ok()) {
            state.early.insert(proc.rank, secret);
            self.journal_client(proc);
            self.open_shared(&proc.nspace);
        }
    }

    /// The environment of a client. Hosts may request it in a forked child (Slurm does), so this creates no file.
    pub fn setup_fork(&mut self, proc: &Proc) -> Vec<(String, OsString)> {
        self.first_fork.get_or_insert_with(std::time::Instant::now);
        let shared = self.nspaces.get(&proc.nspace).and_then(|state| {
            let registered = state.clients.get(&proc.rank).map(|client| &client.secret);
            let secret = registered.or_else(|| state.early.get(&proc.rank))?.text().to_owned();
            let (directory, id) = state.ledger.directory()?;
            Some(SharedEnv { directory, id, secret })
        });
        crate::env::of_client(&self.config, proc, self.port, shared)
    }

    /// A client requests the job's data.
    pub(super) fn job_info(&mut self, id: PeerId, tag: u32) {
        let Some(peer) = self.peers.get(&id) else { return };
        let is_hidden = !self.sees(&peer.proc, peer.user, &peer.proc.nspace);
        let Some(state) = self.nspaces.get_mut(&peer.proc.nspace) else {
            self.reply_status(id, tag, Status::ERR_NOT_FOUND);
            return;
        };
        let of_peer = (peer.dialect, peer.version_text.clone());
        let payload = match state.job_replies.get(&of_peer) {
            // A tool that chose the job's name itself has no access to its data: the host decides about each value.
            _ if is_hidden => {
                let nothing = JobData::new(peer.proc.nspace.clone());
                let to = recipient(peer, &self.config.hostname);
                jobinfo::encode_within(&nothing, &to, MESSAGE_LEN_MAX, std::iter::empty())
            }
            Some(reply) => fallible_alloc::copy(reply),
            None => {
                let to = recipient(peer, &self.config.hostname);
                let local = state.clients.keys().copied();
                jobinfo::encode_within(&state.job, &to, MESSAGE_LEN_MAX, local).inspect(|reply| {
                    if state.job_replies.len() >= JOB_REPLIES_MAX {
                        state.job_replies.clear();
                    }
                    if let Ok(copy) = fallible_alloc::copy(reply) {
                        state.job_replies.insert(of_peer, copy);
                    }
                })
            }
        };
        self.send(id, tag, |_, _| payload);
    }

    /// The namespaces of these processes.
    pub(super) fn nspaces_of(procs: &[Proc]) -> Vec<Nspace> {
        let mut seen = HashSet::new();
        procs.iter().filter(|proc| seen.insert(proc.nspace.clone())).map(|proc| proc.nspace.clone()).collect()
    }
}

/// A peer as the receiver of a job's data.
pub(super) fn recipient<'a>(peer: &'a Peer, hostname: &'a str) -> Recipient<'a> {
    Recipient {
        dialect: peer.dialect,
        version: peer.version,
        version_text: &peer.version_text,
        hostname: hostname.as_bytes(),
    }
}
