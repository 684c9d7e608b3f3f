//! Queries: the host answers first, then this server.
//!
//! A host knows more than one server does: other nodes, jobs that are waiting. So it is asked first. Process sets are
//! answered by the server, because the host has defined them there. Keys that the host does not answer are looked up in the
//! registered data. Resolving peers and nodes is a query, too.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::CString;
use std::time::{Duration, Instant};

use pmix_client::GetOptions;
use pmix_client::resolve::{nodes, peers_on};
use pmix_dstore::model::proc_state::{
    CONNECTED, PREPPED, TERMINATED, TERMINATED_WITHOUT_FINALIZE, UNDEFINED, status_of_job,
};
use pmix_dstore::model::{
    DataArray, DataType, Info, InfoFlags, Key, Nspace, Proc, ProcInfo, Query, Rank, Status, Value, keys,
};
use pmix_dstore::realm_resolution::{Caller, JobLookup};
use pmix_wire::reply::{InfosReply, NodesReply, PeersReply};

use super::apart::sign;
use super::attributes::{self, list};
use super::nspaces::NspaceState;
use super::peer::{Actor, Peer, PeerId};
use super::statistics::MemoryQuery;
use super::{Continuation, Engine, Output};
use crate::completion::UpcallResult;
use crate::upcall::Upcall;

/// How long the host may take to resolve peers or nodes: the calls have no time-out of their own.
const RESOLVE_WAIT: Duration = Duration::from_secs(10);

/// How a query is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// With all infos.
    Infos,
    /// With the processes of a node.
    Peers,
    /// With the nodes of a job.
    Nodes,
}

/// A query that is with the host.
pub(super) struct Asked {
    id: PeerId,
    tag: u32,
    form: Form,
    asker: Actor,
    /// What the host is asked now.
    queries: Vec<Query>,
    /// What the host is asked after that: one key at a time.
    later: Vec<Query>,
    /// The end of the host's time.
    until: Option<Instant>,
    found: Found,
}

impl Asked {
    /// Whether it is this request.
    pub fn is_of(&self, id: PeerId, tag: u32) -> bool {
        (self.id, self.tag) == (id, tag)
    }
}

/// What is found of a query so far.
#[derive(Default)]
struct Found {
    infos: Vec<Info>,
    memory: Vec<MemoryQuery>,
    /// How many keys have an answer.
    answered: usize,
    /// How many keys have none.
    missing: usize,
    /// The last reason for that.
    failed: Option<Status>,
}

impl Found {
    fn status(&self) -> Status {
        match self.failed {
            Some(failed) if self.answered == 0 => failed,
            Some(_) if self.missing > 0 => Status::QUERY_PARTIAL_SUCCESS,
            _ => Status::SUCCESS,
        }
    }
}

/// A query that is answered but for the memory usage.
#[derive(Debug)]
pub(crate) struct MemoryAsked {
    id: PeerId,
    tag: u32,
    status: Status,
    infos: Vec<Info>,
    memory: Vec<MemoryQuery>,
}

impl MemoryAsked {
    /// Reads the usage.
    pub fn read(&self) -> Vec<Value> {
        self.memory.iter().map(MemoryQuery::read).collect()
    }
}

/// Process sets by their names.
pub(super) type ProcessSets = BTreeMap<CString, Vec<Proc>>;

impl Engine {
    /// The host defines a set of processes, or deletes one.
    pub fn set_process_set(&mut self, name: CString, members: Option<Vec<Proc>>) {
        match members {
            Some(members) => drop(self.psets.insert(name, members)),
            None => drop(self.psets.remove(&name)),
        }
    }

    /// A client requests the processes on a node (this one by default), or the nodes of a job.
    pub(super) fn resolve(
        &mut self,
        id: PeerId,
        tag: u32,
        form: Form,
        (nspace, node): (Option<Nspace>, Option<Option<CString>>),
        now: Instant,
    ) {
        let qualifier = |key, text: &[u8]| Info { flags: InfoFlags::QUALIFIER, ..Info::new(key, Value::string(text)) };
        let mut qualifiers = Vec::new();
        if let Some(nspace) = nspace.filter(|nspace| !nspace.is_empty()) {
            qualifiers.push(qualifier(keys::NSPACE, nspace.as_bytes()));
        }
        if let Some(node) = node {
            let node = node.as_ref().map_or(self.config.hostname.as_bytes(), |node| node.as_bytes());
            qualifiers.push(qualifier(keys::HOSTNAME, node));
        }
        let key = if form == Form::Nodes { keys::QUERY_RESOLVE_NODE } else { keys::QUERY_RESOLVE_PEERS };
        let queries = vec![Query { keys: CString::new(key).into_iter().collect(), qualifiers }];
        self.query(id, tag, form, queries, (Some(RESOLVE_WAIT), now));
    }

    /// A client asks.
    pub(super) fn query(
        &mut self,
        id: PeerId,
        tag: u32,
        form: Form,
        queries: Vec<Query>,
        (time, now): (Option<Duration>, Instant),
    ) {
        let Some(asker) = self.peers.get(&id).map(Peer::actor) else { return };
        let until = time.map(|time| now + time);
        let mut infos = Vec::new();
        let mut left = Vec::new();
        for Query { keys, qualifiers } in queries {
            let mut others = Vec::new();
            for key in keys {
                let own = || {
                    self.of_attributes(&key, &qualifiers).or_else(|| self.inspect(&key, &qualifiers, (id, &asker), now))
                };
                match self.of_process_sets(&key, &qualifiers, &asker).or_else(own) {
                    Some(info) => infos.push(info),
                    None => others.push(key),
                }
            }
            if !others.is_empty() {
                left.push(Query { keys: others, qualifiers });
            }
        }
        if left.is_empty() && !infos.is_empty() {
            return self.reply(id, tag, &InfosReply { status: Status::SUCCESS, infos: Some(infos) });
        }
        let found = Found { answered: infos.len(), infos, ..Found::default() };
        let asked = Asked { id, tag, form, asker, queries: left, later: Vec::new(), until, found };
        if id == PeerId::OWN && form != Form::Infos {
            // The host itself is the requester. An upcall would give no new information, and may need the thread that
            // waits for the answer.
            return self.query_answered(asked, UpcallResult::Op(Status::ERR_NOT_SUPPORTED));
        }
        self.query_host(asked);
    }

    /// Asks the host, which learns whose query it is.
    fn query_host(&mut self, asked: Asked) {
        let Asked { queries, asker, until, .. } = &asked;
        let signed = queries.iter().map(|query| {
            let mut query = query.clone();
            sign(&mut query.qualifiers, asker.user);
            query
        });
        let (upcall, until) = (Upcall::Query { proc: asker.proc.clone(), queries: signed.collect() }, *until);
        let (id, now) = (asked.id, self.now());
        self.upcall_until(Continuation::Query(Box::new(asked)), id, upcall, (until, now));
    }

    /// The host has answered a query, or has not.
    pub(super) fn query_answered(&mut self, mut asked: Asked, answer: UpcallResult) {
        let host = answer.status();
        let succeeded = matches!(host, Status::SUCCESS | Status::OPERATION_SUCCEEDED);
        let mut told = match answer {
            UpcallResult::Infos(_, told) => told,
            _ => Vec::new(),
        };
        // The host leaves the other keys to us.
        let is_partial = asked.form == Form::Infos && host == Status::QUERY_PARTIAL_SUCCESS;
        let is_for_us = match asked.form {
            Form::Infos => is_partial || matches!(host, Status::ERR_NOT_SUPPORTED | Status::ERR_NOT_FOUND),
            // The host has failed, or its answer does not contain the result.
            _ => !succeeded || resolved(asked.form, &told).is_none(),
        };
        if is_partial {
            asked.later.append(&mut take_ambiguous(&mut asked.queries, &mut told));
        }
        let keys: usize = asked.queries.iter().map(|query| query.keys.len()).sum();
        match is_for_us {
            true => {
                asked.found.failed = Some(host);
                let of_host = told.iter().filter(|_| is_partial).map(|info| info.key.as_bytes()).collect();
                self.known_for(&asked.queries, &of_host, &asked.asker, &mut asked.found);
            }
            false if succeeded => asked.found.answered += keys,
            false => {
                asked.found.missing += keys;
                asked.found.failed = Some(host);
            }
        }
        if is_partial || !is_for_us {
            asked.found.infos.append(&mut told);
        }
        match asked.later.pop().filter(|_| self.peers.contains_key(&asked.id)) {
            Some(next) => self.query_host(Asked { queries: vec![next], ..asked }),
            None => self.reply_found(asked),
        }
    }

    /// Answers a query.
    fn reply_found(&mut self, Asked { id, tag, form, found, .. }: Asked) {
        let status = found.status();
        let Found { infos, memory, .. } = found;
        match form {
            Form::Infos if !memory.is_empty() => {
                self.outputs.push_back(Output::ReadMemory(Box::new(MemoryAsked { id, tag, status, infos, memory })));
            }
            Form::Infos => self.reply(id, tag, &InfosReply { status, infos: Some(infos) }),
            Form::Peers => {
                let procs = resolved(form, &infos).map(|value| value.iter_procs().cloned().collect());
                self.reply(id, tag, &PeersReply { status, procs: procs.filter(|_| status.is_success()) });
            }
            Form::Nodes => {
                let nodes = resolved(form, &infos).and_then(|value| value.as_c_str()).map(Into::into);
                self.reply(id, tag, &NodesReply { status, nodes: nodes.filter(|_| status.is_success()) });
            }
        }
    }

    /// Adds what this server knows of queries, except for keys that the host has told, and what has to be read for those about memory.
    fn known_for(&self, queries: &[Query], of_host: &BTreeSet<&[u8]>, asker: &Actor, found: &mut Found) {
        for (key, qualifiers) in queries.iter().flat_map(|query| query.keys.iter().map(|key| (key, &query.qualifiers)))
        {
            let known = match key.as_bytes() {
                key if of_host.contains(key) => Ok(()),
                key if key == keys::QUERY_MEMORY_USAGE.as_bytes() => {
                    self.of_memory(qualifiers, asker).map(|query| found.memory.push(query))
                }
                _ => self.known_of(key, qualifiers, asker).map(|info| found.infos.push(info)),
            };
            match known {
                Ok(()) => found.answered += 1,
                Err(status) => {
                    found.missing += 1;
                    found.failed = Some(status).filter(|status| *status != Status::ERR_NOT_FOUND).or(found.failed);
                }
            }
        }
    }

    /// What has to be read for a query about memory.
    ///
    /// # Errors
    /// As [`Engine::known_of`].
    fn of_memory(&self, qualifiers: &[Info], asker: &Actor) -> Result<MemoryQuery, Status> {
        self.check_required(qualifiers)?;
        let about = About::read(qualifiers)?;
        let procs = about.nspace.clone().map(|nspace| Proc::new(nspace, about.rank.unwrap_or(Rank::WILDCARD)));
        if procs.is_some() {
            self.job_about(&about, asker)?;
        }
        let wants_each = !Info::is_set(qualifiers, keys::QUERY_REPORT_AVG);
        Ok(self.memory_query(asker, procs.into_iter().collect(), wants_each))
    }

    /// Answers a query whose memory usage has been read.
    pub fn memory_read(&mut self, asked: MemoryAsked, values: Vec<Value>) {
        let MemoryAsked { id, tag, status, mut infos, .. } = asked;
        infos.extend(values.into_iter().filter_map(|value| info(keys::QUERY_MEMORY_USAGE, value)));
        self.reply(id, tag, &InfosReply { status, infos: Some(infos) });
    }

    /// Which attributes are supported.
    fn of_attributes(&self, key: &CString, qualifiers: &[Info]) -> Option<Info> {
        let key = key.to_str().ok().filter(|key| *key == keys::QUERY_ATTRIBUTE_SUPPORT)?;
        info(key, attributes::support(qualifiers, &self.host_attributes)?)
    }

    /// Answers a query about process sets, if there are any.
    fn of_process_sets(&self, key: &CString, qualifiers: &[Info], asker: &Actor) -> Option<Info> {
        if self.psets.is_empty() {
            return None;
        }
        let sees = |member: &&Proc| self.sees(&asker.proc, asker.user, &member.nspace);
        let is_seen = |members: &Vec<Proc>| members.is_empty() || members.iter().any(|member| sees(&member));
        let seen = || self.psets.iter().filter(|(_, members)| is_seen(members));
        let key = key.to_str().ok()?;
        let value = match key {
            keys::QUERY_NUM_PSETS => Value::Size(seen().count() as u64),
            keys::QUERY_PSET_NAMES => list(seen().map(|(name, _)| name.as_bytes())),
            keys::QUERY_PSET_MEMBERSHIP => {
                let name = Info::find(qualifiers, keys::PSET_NAME)?.as_text()?;
                let members = self.psets.get(&CString::new(name).ok()?)?;
                Value::procs(members.iter().filter(sees).cloned())
            }
            _ => return None,
        };
        info(key, value)
    }

    /// Answers a query from the registered data.
    ///
    /// # Errors
    /// `ERR_NOT_FOUND` for an unknown key, `ERR_INVALID_NAMESPACE` for a namespace that is unknown or out of the asker's
    /// reach.
    pub(super) fn known_of(&self, key: &CString, qualifiers: &[Info], asker: &Actor) -> Result<Info, Status> {
        let key = key.to_str().map_err(|_| Status::ERR_NOT_FOUND)?;
        self.check_required(qualifiers)?;
        let about = About::read(qualifiers)?;
        let value = match key {
            keys::QUERY_SUPPORTED_KEYS | keys::QUERY_SUPPORTED_QUALIFIERS => {
                attributes::supported(key).ok_or(Status::ERR_NOT_FOUND)?
            }
            keys::QUERY_SPAWN_SUPPORT => attributes::of_spawn(&self.host_attributes),
            keys::QUERY_DEBUG_SUPPORT => attributes::of_debuggers(&self.host_attributes),
            keys::QUERY_AVAIL_SERVERS => array(DataType::INFO, vec![self.as_server()]),
            // Process sets are counted by `of_process_sets`, if there are any. Where there are none, the host's status about their names
            // stands, as with the stock library.
            keys::QUERY_NUM_PSETS if self.psets.is_empty() => Value::Size(0),
            keys::QUERY_NAMESPACES => list(self.jobs_for(asker).map(|(nspace, _)| nspace.as_bytes())),
            keys::QUERY_NAMESPACE_INFO => {
                let jobs =
                    self.jobs_for(asker).map(|(nspace, state)| self.of_namespace(nspace, state, qualifiers, asker));
                array(DataType::INFO, jobs.collect::<Option<_>>().ok_or(Status::ERR_NOT_FOUND)?)
            }
            keys::QUERY_JOB_STATUS => Value::Status(self.job_about(&about, asker)?.1.status_of_job()?),
            keys::QUERY_NUM_GROUPS | keys::QUERY_GROUP_NAMES | keys::QUERY_GROUP_MEMBERSHIP => {
                self.of_groups_for(key, qualifiers, asker)?
            }
            keys::QUERY_PROC_TABLE | keys::QUERY_LOCAL_PROC_TABLE => {
                let (nspace, state) = self.job_about(&about, asker)?;
                let state = Some(state).filter(|state| state.complete).ok_or(Status::ERR_NOT_FOUND)?;
                let is_whole = key == keys::QUERY_PROC_TABLE && !Info::is_set(qualifiers, keys::QUERY_LOCAL_ONLY);
                let is_wanted = |rank: &Rank| is_whole || state.is_local(*rank);
                let ranks = (0..state.job.size()).map(Rank).filter(is_wanted);
                array(DataType::PROC_INFO, ranks.map(|rank| self.proc_info(nspace, state, rank, asker)).collect())
            }
            keys::LOCAL_PROCS if let Some(value) = self.registered_procs(&about, qualifiers, asker) => value,
            keys::QUERY_RESOLVE_PEERS | keys::LOCAL_PROCS => self.procs_on(&about, asker)?,
            keys::QUERY_RESOLVE_NODE => self.nodes_of(&about, asker)?,
            keys::LOCAL_PEERS if about.nodes.len() > 1 => {
                let (_, state) = self.job_about(&about, asker)?;
                let ranks: Vec<String> = self.ranks_on(&about, state)?.iter().map(Rank::to_string).collect();
                Value::string(ranks.join(","))
            }
            // A value of one node is not that of two.
            _ if about.nodes.len() > 1 => return Err(Status::ERR_NOT_FOUND),
            _ => {
                let (_, state) = self.job_about(&about, asker)?;
                if let Some(size) = self.count_of_tools(state).filter(|_| key == keys::JOB_SIZE) {
                    return info(key, Value::Uint32(size)).ok_or(Status::ERR_NOT_FOUND);
                }
                let rank = about.rank.unwrap_or(Rank::WILDCARD);
                return self.of_job(state, rank, key, qualifiers, asker).ok_or(Status::ERR_NOT_FOUND);
            }
        };
        info(key, value).ok_or(Status::ERR_NOT_FOUND)
    }

    /// How many tools a job has that has nothing else, and whose size no host has said. A host may have registered the tools as clients.
    fn count_of_tools(&self, state: &NspaceState) -> Option<u32> {
        let is_tool = |id: &PeerId| self.peers.get(id).is_some_and(|peer| peer.is_tool);
        let mut connections = state.clients.values().flat_map(|client| &client.connections).peekable();
        // Clients that have not connected may be ranks.
        let are_tools = state.job.size() == 0 && connections.peek().is_some() && connections.all(is_tool);
        are_tools.then_some(state.clients.len() as u32)
    }

    /// Answers a query about groups, as far as this server knows them: those with a member on this node.
    fn of_groups_for(&self, key: &str, qualifiers: &[Info], asker: &Actor) -> Result<Value, Status> {
        let mut groups = self.groups_for(asker);
        Ok(match key {
            keys::QUERY_NUM_GROUPS => Value::Size(groups.count() as u64),
            keys::QUERY_GROUP_NAMES => {
                array(DataType::STRING, groups.map(|(name, _)| Value::string(name.as_bytes())).collect())
            }
            _ => {
                let wanted = Info::find(qualifiers, keys::GROUP_ID).and_then(Value::as_text);
                let wanted = wanted.ok_or(Status::ERR_BAD_PARAM)?;
                let group = groups.find(|(name, _)| name.as_bytes() == wanted);
                let (_, members) = group.ok_or(Status::ERR_NOT_FOUND)?;
                let sees = |member: &&Proc| self.sees(&asker.proc, asker.user, &member.nspace);
                Value::procs(members.iter().filter(sees).cloned())
            }
        })
    }

    /// The jobs that a process may see, by their names.
    fn jobs_for<'e>(&'e self, asker: &Actor) -> impl Iterator<Item = (&'e Nspace, &'e NspaceState)> + use<'e> {
        let is_job = |(_, state): &(_, &NspaceState)| state.is_job();
        let sees = |(nspace, _): &(&Nspace, _)| self.sees(&asker.proc, asker.user, nspace);
        let mut jobs: Vec<_> = self.nspaces.iter().filter(is_job).filter(sees).collect();
        jobs.sort_by(|(a, _), (b, _)| a.as_bytes().cmp(b.as_bytes()));
        jobs.into_iter()
    }

    /// The queried job, or the requester's own.
    fn job_about<'a>(&'a self, about: &'a About, asker: &'a Actor) -> Result<(&'a Nspace, &'a NspaceState), Status> {
        let nspace = about.nspace.as_ref().unwrap_or(&asker.proc.nspace);
        let state = self.nspaces.get(nspace).filter(|state| !state.foreign || state.job.size() > 0);
        let state = state.filter(|_| self.sees(&asker.proc, asker.user, nspace));
        state.map(|state| (nspace, state)).ok_or(Status::ERR_INVALID_NAMESPACE)
    }

    /// The queried jobs: the one named, or all.
    fn jobs_about<'a>(
        &'a self,
        about: &'a About,
        asker: &'a Actor,
    ) -> Result<Vec<(&'a Nspace, &'a NspaceState)>, Status> {
        match about.nspace {
            Some(_) => Ok(vec![self.job_about(about, asker)?]),
            None => Ok(self.jobs_for(asker).collect()),
        }
    }

    /// The ranks of a job on the queried nodes; on this node if none is named.
    fn ranks_on(&self, about: &About, state: &NspaceState) -> Result<BTreeSet<Rank>, Status> {
        let mut ranks = BTreeSet::new();
        for row in about.rows(&*state.job, self.config.hostname.as_bytes()) {
            ranks.extend(peers_on(&*state.job, row)?.iter());
        }
        Ok(ranks)
    }

    /// The processes of one node, as the host has registered them.
    fn registered_procs(&self, about: &About, qualifiers: &[Info], asker: &Actor) -> Option<Value> {
        let (_, state) = self.job_about(about, asker).ok().filter(|_| about.nodes.len() <= 1)?;
        self.of_job(state, Rank::WILDCARD, keys::LOCAL_PROCS, qualifiers, asker).map(|info| info.value)
    }

    /// The processes of all jobs on the nodes that are asked about.
    pub(super) fn local_procs(&self, infos: &[Info], asker: &Actor) -> Result<Value, Status> {
        self.procs_on(&About::read(infos)?, asker)
    }

    /// The processes on the nodes that are asked about.
    fn procs_on(&self, about: &About, asker: &Actor) -> Result<Value, Status> {
        let mut procs = Vec::new();
        for (nspace, state) in self.jobs_about(about, asker)? {
            match self.ranks_on(about, state) {
                Ok(ranks) => procs.extend(ranks.into_iter().map(|rank| Proc::new(nspace.clone(), rank))),
                // A query about all jobs skips jobs without the value.
                Err(_) if about.nspace.is_none() => {}
                Err(status) => return Err(status),
            }
        }
        Ok(Value::procs(procs))
    }

    /// The nodes of the jobs that are asked about, each once, comma between them; none is NULL.
    fn nodes_of(&self, about: &About, asker: &Actor) -> Result<Value, Status> {
        let mut names: Vec<Vec<u8>> = Vec::new();
        for (_, state) in self.jobs_about(about, asker)? {
            let list = nodes(&*state.job).unwrap_or_default();
            let mut known: BTreeSet<Vec<u8>> = names.iter().cloned().collect();
            let new = list.split(|byte| *byte == b',').filter(|name| !name.is_empty());
            names.extend(new.filter(|name| known.insert(name.to_vec())).map(<[u8]>::to_vec));
        }
        Ok(if names.is_empty() { Value::String(None) } else { list(names.iter().map(Vec::as_slice)) })
    }

    /// The answer to `PMIX_QUERY_NAMESPACE_INFO` for one job.
    fn of_namespace(&self, nspace: &Nspace, state: &NspaceState, qualifiers: &[Info], asker: &Actor) -> Option<Value> {
        let mut infos = vec![Info::new(keys::NSPACE, Value::string(nspace.as_bytes()))];
        let of_job = [keys::JOB_SIZE, keys::CMD_LINE];
        infos.extend(of_job.iter().filter_map(|key| self.of_job(state, Rank::WILDCARD, key, qualifiers, asker)));
        info(keys::JOB_INFO_ARRAY, Value::infos(infos)).map(|info| Value::Info(Box::new(info)))
    }

    /// The answer to `PMIX_QUERY_AVAIL_SERVERS` for this server.
    fn as_server(&self) -> Value {
        let config = &self.config;
        let infos = [
            Info::new(keys::SERVER_NSPACE, Value::string(config.me.nspace.as_bytes())),
            Info::new(keys::SERVER_RANK, Value::Rank(config.me.rank)),
            Info::new(keys::VERSION_INFO, Value::string(crate::config::ANNOUNCED_VERSION)),
            Info::new(keys::SERVER_PIDINFO, Value::Uint32(std::process::id())),
            Info::new(keys::HOSTNAME, Value::string(&config.hostname)),
            Info::new(keys::USERID, Value::Uint32(config.uid)),
            Info::new(keys::GRPID, Value::Uint32(config.gid)),
            Info::new(keys::SERVER_URI, Value::string(crate::env::uri(config, self.port))),
        ];
        Value::Info(Box::new(Info::new(keys::SERVER_INFO_ARRAY, Value::infos(infos))))
    }

    /// A value of a job as a Get finds it.
    fn of_job(&self, state: &NspaceState, rank: Rank, key: &str, qualifiers: &[Info], asker: &Actor) -> Option<Info> {
        let caller = Caller { rank: None, hostname: self.config.hostname.as_bytes() };
        let selector = GetOptions::from_infos(qualifiers).selector;
        let name = Key::new(key).ok()?;
        let value = self.registered(state, rank, &name, &selector, &caller, asker)?;
        info(key, value.ok()?)
    }

    /// The process id of a rank that is connected.
    fn pid_of(&self, state: &NspaceState, rank: Rank) -> Option<i32> {
        let connections = &state.clients.get(&rank)?.connections;
        connections.iter().find_map(|id| self.peers.get(id)?.pid)
    }

    fn proc_info(&self, nspace: &Nspace, state: &NspaceState, rank: Rank, asker: &Actor) -> Value {
        let find = |key| self.of_job(state, rank, key, &[], asker).map(|info| info.value);
        let text = |key| find(key).and_then(|value| CString::new(value.as_text()?).ok());
        let pid = match find(keys::PROC_PID) {
            Some(Value::Pid(pid)) => Some(pid),
            _ => self.pid_of(state, rank),
        };
        let said = find(keys::PROC_STATE_STATUS).and_then(|state| state.as_u64()?.try_into().ok());
        let exit_code = find(keys::EXIT_CODE).and_then(|code| match code {
            Value::Int(code) | Value::Int32(code) => Some(code),
            Value::Status(status) => Some(status.0),
            other => other.as_u64()?.try_into().ok(),
        });
        Value::ProcInfo(Box::new(ProcInfo {
            proc: Proc::new(nspace.clone(), rank),
            hostname: text(keys::HOSTNAME),
            executable: text(keys::APP_ARGV).or_else(|| text(keys::CMD_LINE)).and_then(|line| first_word(&line)),
            pid: pid.unwrap_or(0),
            exit_code: exit_code.unwrap_or(0),
            state: said.unwrap_or_else(|| state.state_of(rank)),
        }))
    }
}

impl NspaceState {
    /// What `PMIX_QUERY_JOB_STATUS` answers, by the processes on this node.
    ///
    /// # Errors
    /// `ERR_NOT_FOUND` if the job has no process here.
    fn status_of_job(&self) -> Result<Status, Status> {
        status_of_job(self.local_ranks().map(|rank| self.state_of(rank)), None).ok_or(Status::ERR_NOT_FOUND)
    }

    /// The `pmix_proc_state_t` of a process, as far as this server sees it.
    fn state_of(&self, rank: Rank) -> u8 {
        match self.clients.get(&rank) {
            Some(_) if self.gone.contains(&rank) => TERMINATED_WITHOUT_FINALIZE,
            Some(client) if !client.connections.is_empty() => CONNECTED,
            Some(client) if client.has_connected => TERMINATED,
            Some(_) => PREPPED,
            None if self.has_left(rank) => TERMINATED,
            None => UNDEFINED,
        }
    }
}

/// The subject of a query, from its qualifiers.
struct About {
    nspace: Option<Nspace>,
    rank: Option<Rank>,
    /// The nodes, by name or number.
    nodes: Vec<NodeOf>,
}

enum NodeOf {
    Name(CString),
    Id(u32),
}

impl About {
    /// # Errors
    /// `ERR_BAD_PARAM` for a qualifier with an invalid value.
    fn read(qualifiers: &[Info]) -> Result<About, Status> {
        let mut about = About { nspace: None, rank: None, nodes: Vec::new() };
        for Info { key, value, .. } in qualifiers {
            let number = || value.as_u32().ok_or(Status::ERR_BAD_PARAM);
            if key.is(keys::NSPACE) {
                let name = value.as_text().ok_or(Status::ERR_BAD_PARAM)?;
                about.nspace = Some(Nspace::new(name).map_err(|_| Status::ERR_BAD_PARAM)?);
            } else if key.is(keys::RANK) {
                about.rank = Some(Rank(number()?));
            } else if key.is(keys::PROCID) {
                let proc = value.iter_procs().next().ok_or(Status::ERR_BAD_PARAM)?;
                (about.nspace, about.rank) = (Some(proc.nspace.clone()), Some(proc.rank));
            } else if key.is(keys::HOSTNAME) {
                about.nodes.push(NodeOf::Name(value.as_c_str().ok_or(Status::ERR_BAD_PARAM)?.into()));
            } else if key.is(keys::NODEID) {
                about.nodes.push(NodeOf::Id(number()?));
            }
        }
        about.nspace = about.nspace.filter(|nspace| !nspace.is_empty());
        Ok(about)
    }

    /// The rows of the nodes in a job; nodes that the job does not have are left out.
    fn rows(&self, job: &impl JobLookup, here: &[u8]) -> Vec<u32> {
        if self.nodes.is_empty() {
            return job.node_row_by_name(here).into_iter().collect();
        }
        let row = |node: &NodeOf| match node {
            NodeOf::Name(name) => job.node_row_by_name(name.as_bytes()),
            NodeOf::Id(id) => job.node_row_by_id(*id),
        };
        self.nodes.iter().filter_map(row).collect()
    }
}

/// Takes out keys of several queries of which the host has answered some but not all, with these answers: a key does not say to which of
/// its queries it belongs. Returns a query for each.
fn take_ambiguous(queries: &mut [Query], told: &mut Vec<Info>) -> Vec<Query> {
    let mut counts: BTreeMap<CString, (usize, usize)> = BTreeMap::new();
    queries.iter().flat_map(|query| &query.keys).for_each(|key| counts.entry(key.clone()).or_default().0 += 1);
    let name = |info: &Info| CString::new(info.key.as_bytes()).unwrap_or_default();
    for info in told.iter() {
        counts.entry(name(info)).or_default().1 += 1;
    }
    counts.retain(|_, (asked, told)| (1..*asked).contains(told));
    told.retain(|info| !counts.contains_key(&name(info)));
    let mut again = Vec::new();
    for Query { keys, qualifiers } in queries {
        let ambiguous = keys.extract_if(.., |key| counts.contains_key(key));
        again.extend(ambiguous.map(|key| Query { keys: vec![key], qualifiers: qualifiers.clone() }));
    }
    // They are asked from the end on.
    again.reverse();
    again
}

/// The value of an answer that resolves peers or nodes.
fn resolved(form: Form, infos: &[Info]) -> Option<&Value> {
    match form {
        Form::Infos => None,
        Form::Peers => Info::find(infos, keys::QUERY_RESOLVE_PEERS).filter(
            |value| matches!(value, Value::DataArray(array) if array.ty == DataType::PROC || array.items.is_empty()),
        ),
        Form::Nodes => Info::find(infos, keys::QUERY_RESOLVE_NODE).filter(|value| matches!(value, Value::String(_))),
    }
}

/// The executable of a command line.
fn first_word(line: &CString) -> Option<CString> {
    let word = line.as_bytes().split(|byte| *byte == b' ').next()?;
    CString::new(word).ok()
}

fn info(key: &str, value: Value) -> Option<Info> {
    Some(Info { key: Key::new(key).ok()?, flags: 0, value })
}

fn array(ty: DataType, items: Vec<Value>) -> Value {
    Value::DataArray(Box::new(DataArray { ty, items }))
}
