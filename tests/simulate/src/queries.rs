//! What processes ask about what a server knows, and Gets in other ways than by a rank's key.

use std::collections::BTreeSet;
use std::ffi::CString;

use pmix_dstore::model::{Info, InfoFlags, Key, Nspace, Proc, Query, Rank as Number, Status, Value, keys};
use pmix_server::UpcallResult;
use pmix_wire::reply::{GetReply, InfosReply, JobInfoReply, NodesReply, PeersReply, RefreshReply, StatusReply};
use pmix_wire::{Reply, Request, Version};

use crate::calls::{TIMEOUT, key};
use crate::invariant::Invariant;
use crate::rank::{Call, Role};
use crate::world::{SERVERS, World, node};

/// The keys of queries.
const KEYS: [&str; 34] = [
    keys::QUERY_NAMESPACES,
    keys::QUERY_NAMESPACE_INFO,
    keys::QUERY_JOB_STATUS,
    keys::QUERY_PROC_TABLE,
    keys::QUERY_LOCAL_PROC_TABLE,
    keys::QUERY_NUM_PSETS,
    keys::QUERY_PSET_NAMES,
    keys::QUERY_PSET_MEMBERSHIP,
    keys::QUERY_NUM_GROUPS,
    keys::QUERY_GROUP_NAMES,
    keys::QUERY_GROUP_MEMBERSHIP,
    keys::QUERY_MEMORY_USAGE,
    keys::QUERY_SPAWN_SUPPORT,
    keys::QUERY_DEBUG_SUPPORT,
    keys::QUERY_AVAIL_SERVERS,
    keys::QUERY_RESOLVE_PEERS,
    keys::QUERY_RESOLVE_NODE,
    keys::QUERY_SUPPORTED_KEYS,
    keys::QUERY_SUPPORTED_QUALIFIERS,
    keys::QUERY_ATTRIBUTE_SUPPORT,
    "pmix.dstore.collectives",
    "pmix.dstore.waits",
    "pmix.dstore.missed",
    "pmix.dstore.connections",
    "pmix.dstore.lost",
    "pmix.dstore.directory",
    keys::JOB_SIZE,
    keys::LOCAL_PROCS,
    keys::LOCAL_PEERS,
    keys::HOSTNAME,
    "sim.unknown",
    RESOURCE,
    "resolve peers",
    "resolve nodes",
];
const RESOLVE_PEERS: usize = KEYS.len() - 2;
const RESOLVE_NODES: usize = KEYS.len() - 1;
/// The kinds of queries: each key with four sets of qualifiers.
pub(crate) const QUERIES: u8 = KEYS.len() as u8 * 4;

/// A value that hosts register for all jobs.
pub(crate) const RESOURCE: &str = "sim.resource";
/// A value of a session, and the session.
pub(crate) const OF_SESSION: &str = "sim.session";
pub(crate) const SESSION: u32 = 7;
/// How hosts answer queries.
const HOST: &str = "host";

/// The kinds of reads.
pub(crate) const READS: u8 = 22;
const JOB_SIZE: u8 = 0;
const HOSTNAME: u8 = 1;
const FRESH: u8 = 5;
const REFRESH: u8 = 6;
const OF_JOB: u8 = 13;
const NOBODY: u8 = 8;
const REQUIRED: u8 = 15;

impl World {
    /// Whether a rank may know of a job.
    fn may_know(&self, rank: usize, nspace: &Nspace) -> bool {
        let job = self.jobs.iter().find(|job| job.nspace == *nspace);
        job.is_none_or(|job| self.has_consented(self.ranks[rank].user, job.user))
    }

    pub(crate) fn query(&self, kind: u8, about: usize, is_lost: bool) -> Request {
        let (of_key, form) = (usize::from(kind) % KEYS.len(), usize::from(kind) / KEYS.len());
        let about = &self.ranks[about];
        let on = node(about.server);
        match of_key {
            RESOLVE_PEERS => {
                let node = CString::new(on).ok().filter(|_| form != 1);
                return Request::ResolvePeers { node, nspace: Some(about.proc.nspace.clone()).filter(|_| form != 3) };
            }
            RESOLVE_NODES => {
                return Request::ResolveNodes { nspace: Some(about.proc.nspace.clone()).filter(|_| form != 3) };
            }
            _ => {}
        }
        let mut qualifiers = Vec::new();
        if form & 1 != 0 {
            qualifiers.push(Info::new(keys::NSPACE, Value::string(about.proc.nspace.as_bytes())));
            qualifiers.push(Info::new(keys::RANK, Value::Rank(about.proc.rank)));
        }
        if form & 2 != 0 {
            qualifiers.push(Info::new(keys::HOSTNAME, Value::string(on)));
        }
        match KEYS[of_key] {
            keys::QUERY_PSET_MEMBERSHIP => qualifiers.push(Info::new(keys::PSET_NAME, Value::string("set"))),
            keys::QUERY_GROUP_MEMBERSHIP => {
                let last = self.operations.len().saturating_sub(1 + form);
                qualifiers.push(Info::new(keys::GROUP_ID, Value::string(format!("op{last}."))));
            }
            keys::QUERY_PROC_TABLE if form == 3 => {
                qualifiers.push(Info::new(keys::QUERY_LOCAL_ONLY, Value::Bool(true)));
            }
            keys::QUERY_MEMORY_USAGE if form == 2 => {
                qualifiers = vec![Info::new(keys::QUERY_REPORT_AVG, Value::Bool(true))];
            }
            keys::QUERY_ATTRIBUTE_SUPPORT => {
                let ways = [
                    Vec::new(),
                    vec![Info::new(keys::CLIENT_FUNCTIONS, Value::Bool(true))],
                    vec![Info::new(keys::SERVER_ATTRIBUTES, Value::string("all"))],
                    vec![Info::new(keys::CLIENT_ATTRIBUTES, Value::string("PMIx_Get,PMIx_Fence"))],
                ];
                qualifiers = ways[form % ways.len()].clone();
            }
            "sim.unknown" => {
                let unknown = Info::new("sim.qualifier", Value::Bool(true));
                qualifiers.push(Info { flags: InfoFlags::REQUIRED, ..unknown });
            }
            // Two nodes.
            keys::LOCAL_PEERS | keys::QUERY_RESOLVE_PEERS if form == 2 => {
                qualifiers.push(Info::new(keys::HOSTNAME, Value::string(node((about.server + 1) % SERVERS))));
            }
            _ => {}
        }
        if is_lost {
            qualifiers.push(Info::new(keys::TIMEOUT, Value::Int(TIMEOUT)));
        }
        let keys = [KEYS[of_key], KEYS[(of_key + 1 + form) % (KEYS.len() - 2)]];
        let keys = keys.iter().take(1 + form % 2).filter_map(|key| CString::new(*key).ok()).collect();
        Request::Query { queries: vec![Query { keys, qualifiers }] }
    }

    /// A server asks its host a query, which leaves some to the server.
    pub(crate) fn asked_query(&mut self, server: usize, id: u64, proc: &Proc, queries: &[Query]) {
        for query in queries {
            self.check_signed(proc, &query.qualifiers);
        }
        let is_lost = queries.iter().any(|query| query.qualifiers.iter().any(|info| info.key.is(keys::TIMEOUT)));
        let kind = self.kind_of_answer(5);
        let asked: Vec<&CString> = queries.iter().flat_map(|query| &query.keys).collect();
        let of_nodes = [keys::QUERY_RESOLVE_PEERS, keys::QUERY_RESOLVE_NODE];
        let resolves = |key: &&CString| key.to_str().is_ok_and(|key| of_nodes.contains(&key));
        let infos = |many: usize| {
            let keys = asked.iter().filter(|key| !resolves(key)).take(many);
            keys.filter_map(|key| Key::new(key.to_bytes()).ok())
                .map(|key| Info::new(key, Value::string(HOST)))
                .collect()
        };
        let answer = match kind {
            0 => UpcallResult::Op(Status::ERR_NOT_FOUND),
            1 => UpcallResult::Infos(Status::QUERY_PARTIAL_SUCCESS, infos(1)),
            2 => UpcallResult::Infos(Status::SUCCESS, infos(usize::MAX)),
            _ => UpcallResult::Op(Status::ERR_NOT_SUPPORTED),
        };
        self.answer_or_lose(server, id, answer, is_lost);
    }

    /// The reply to a query.
    pub(crate) fn queried(&mut self, rank: usize, call: &Call, bytes: &[u8]) -> Option<()> {
        let Call::Query { kind, about, is_lost } = *call else { return None };
        let dialect = self.ranks[rank].dialect();
        let (of_key, form) = (usize::from(kind) % KEYS.len(), usize::from(kind) / KEYS.len());
        let (job, one) = (&self.jobs[self.ranks[about].job], &self.ranks[rank]);
        // What the answer must be. A server knows the user of a job that has a process there; of another one it need not tell.
        let has_process = || job.ranks.iter().any(|rank| self.ranks[*rank].server == one.server);
        let is_known = self.ranks[about].role == Role::Rank
            && job.servers.contains(&one.server)
            && (job.user == one.user && has_process() || one.role == Role::Server)
            && form != 3;
        match of_key {
            RESOLVE_PEERS => {
                let reply = PeersReply::decode(dialect, Version::OURS, bytes).ok()?;
                let on = if form == 1 { one.server } else { self.ranks[about].server };
                let procs: BTreeSet<Proc> = reply.procs.iter().flatten().cloned().collect();
                let there = job.ranks.iter().filter(|rank| self.ranks[**rank].server == on);
                let there: BTreeSet<Proc> = there.map(|rank| self.ranks[*rank].proc.clone()).collect();
                if is_known && procs != there {
                    let what = format!("rank {rank} asked who runs on node{on} of job {}: {reply:?}", job.nspace);
                    self.violated(Invariant::OwnAnswer, what);
                }
                self.check_names(rank, call, procs.iter().map(|proc| proc.nspace.clone()).collect());
            }
            RESOLVE_NODES => {
                let reply = NodesReply::decode(dialect, Version::OURS, bytes).ok()?;
                let told = reply.nodes.as_ref().map(|nodes| nodes.to_string_lossy().into_owned()).unwrap_or_default();
                let all = (0..SERVERS).map(node).collect::<Vec<_>>().join(",");
                if is_known && told != all {
                    let what = format!("rank {rank} asked for the nodes of {}: {reply:?}", job.nspace);
                    self.violated(Invariant::OwnAnswer, what);
                }
            }
            _ => {
                let reply = InfosReply::decode(dialect, Version::OURS, bytes).ok()?;
                if reply.status == Status::ERR_TIMEOUT && !is_lost {
                    self.violated(Invariant::NamedCause, format!("{call:?} of rank {rank} timed out"));
                }
                let infos = reply.infos.unwrap_or_default();
                let mut names = Vec::new();
                infos.iter().for_each(|info| collect_names(&info.value, &mut names));
                for info in infos.iter().filter(|info| info.key.is(keys::QUERY_NAMESPACES)) {
                    let told = info.value.as_text().unwrap_or_default();
                    if told != HOST.as_bytes() {
                        let listed = told.split(|byte| *byte == b',').filter(|name| !name.is_empty());
                        names.extend(listed.filter_map(|name| Nspace::new(name).ok()));
                        let own = &self.ranks[rank];
                        if own.role == Role::Rank && !names.contains(&own.proc.nspace) {
                            let what = format!("{} does not see its own job: {names:?}", own.proc);
                            self.violated(Invariant::OwnAnswer, what);
                            return Some(());
                        }
                    }
                }
                self.check_names(rank, call, names);
            }
        }
        Some(())
    }

    /// A process was told only of jobs that it may know.
    fn check_names(&mut self, rank: usize, call: &Call, names: Vec<Nspace>) {
        if let Some(name) = names.iter().find(|name| !self.may_know(rank, name)) {
            let what = format!("{call:?} told {} of user {} of {name}", self.ranks[rank].proc, self.ranks[rank].user);
            self.violated(Invariant::MayRead, what);
        }
    }

    pub(crate) fn read(&self, kind: u8, owner: usize) -> Request {
        let number = owner as u8 % 6;
        let Proc { nspace, rank: owner_rank } = self.ranks[owner].proc.clone();
        let flag = |key: &'static str| vec![Info::new(key, Value::Bool(true))];
        let of_job = |key: &str, infos: Vec<Info>| Request::Get {
            nspace: nspace.clone(),
            rank: Number::WILDCARD,
            infos,
            key: Key::new(key).ok(),
        };
        let of_rank =
            |key: Option<Key>, infos: Vec<Info>| Request::Get { nspace: nspace.clone(), rank: owner_rank, infos, key };
        let session = || Info::new(keys::SESSION_ID, Value::Uint32(SESSION));
        match kind {
            JOB_SIZE => of_job(keys::JOB_SIZE, Vec::new()),
            HOSTNAME => of_rank(Some(keys::HOSTNAME.into()), Vec::new()),
            2 => of_rank(None, flag(keys::IMMEDIATE)),
            3 => of_rank(Some(key(number)), flag(keys::IMMEDIATE)),
            4 => of_rank(Some(key(number)), flag(keys::OPTIONAL)),
            FRESH => {
                let infos = [flag(keys::GET_REFRESH_CACHE), flag(keys::IMMEDIATE)].concat();
                of_rank(Some(key(number)), infos)
            }
            REFRESH => Request::RefreshCache { nspace, rank: owner_rank },
            7 => of_job(&key(number).to_string(), flag(keys::IMMEDIATE)),
            NOBODY => {
                let nspace = Nspace::new("nobody").unwrap_or(nspace);
                Request::Get { nspace, rank: Number(owner as u32), infos: Vec::new(), key: Some(key(number)) }
            }
            9 => {
                let context = Info::new(keys::GROUP_CONTEXT_ID, Value::Size(1));
                let context = Info { flags: InfoFlags::QUALIFIER, ..context };
                of_rank(Some(Key::from("sim.group")), [vec![context], flag(keys::IMMEDIATE)].concat())
            }
            10 => {
                let on = Info::new(keys::HOSTNAME, Value::string(node(self.ranks[owner].server)));
                of_job(keys::LOCAL_PEERS, [flag(keys::NODE_INFO), vec![on]].concat())
            }
            11 => of_job(RESOURCE, Vec::new()),
            12 => of_job(OF_SESSION, [flag(keys::SESSION_INFO), vec![session()]].concat()),
            OF_JOB => Request::JobInfo,
            14 => Request::Get { nspace, rank: Number(1000), infos: Vec::new(), key: Some(key(number)) },
            REQUIRED => {
                let unknown = Info::new("sim.directive", Value::Bool(true));
                of_rank(Some(key(number)), vec![Info { flags: InfoFlags::REQUIRED, ..unknown }])
            }
            16 => of_job(keys::LOCAL_PROCS, flag(keys::OPTIONAL)),
            17 => Request::RefreshCache { nspace, rank: Number::WILDCARD },
            18 => of_job(keys::JOB_SIZE, flag(keys::OPTIONAL)),
            // All of the job.
            19 => Request::Get { nspace, rank: Number::WILDCARD, infos: Vec::new(), key: None },
            20 => {
                let context = Info::new(keys::GROUP_CONTEXT_ID, Value::Size(1));
                let context = Info { flags: InfoFlags::QUALIFIER, ..context };
                of_job("sim.group", [vec![context], flag(keys::IMMEDIATE)].concat())
            }
            _ => Request::JobInfoFallback { store: Some(c"hash".to_owned()) },
        }
    }

    /// The reply to a read.
    pub(crate) fn was_read(&mut self, rank: usize, call: &Call, bytes: &[u8]) -> Option<()> {
        let Call::Read { kind, owner, at_least } = *call else { return None };
        let dialect = self.ranks[rank].dialect();
        match kind {
            OF_JOB => {
                // A process whose server knows no job of it gets a status.
                if self.ranks[rank].role == Role::Rank {
                    let reply = JobInfoReply::decode(dialect, Version::OURS, bytes).ok()?;
                    if reply.nspace != self.ranks[rank].proc.nspace {
                        let what = format!("rank {rank} got the job {}", reply.nspace);
                        self.violated(Invariant::OwnAnswer, what);
                    }
                }
                return Some(());
            }
            21 => return StatusReply::decode(dialect, Version::OURS, bytes).ok().map(|_| ()),
            REFRESH | 17 => {
                let status = StatusReply::decode(dialect, Version::OURS, bytes).ok()?.status;
                if status.is_success() {
                    let reply = RefreshReply::decode(dialect, Version::OURS, bytes).ok()?;
                    let proc = self.ranks[owner].proc.clone();
                    let objects = vec![(proc, reply.kvals)];
                    self.got(rank, (owner, u8::MAX), true, (0, 0), status, Some(GetReply { status, objects }));
                }
                return Some(());
            }
            _ => {}
        }
        let status = StatusReply::decode(dialect, Version::OURS, bytes).ok()?.status;
        let reply =
            if status.is_success() { Some(GetReply::decode(dialect, Version::OURS, bytes).ok()?) } else { None };
        let job = &self.jobs[self.ranks[owner].job];
        let objects = || reply.iter().flat_map(|reply| &reply.objects).flat_map(|(_, kvals)| kvals);
        let wrong = match kind {
            JOB_SIZE | 18 if self.ranks[owner].role == Role::Rank => {
                let sizes = objects().filter(|kval| kval.key.is(keys::JOB_SIZE));
                sizes.filter_map(|kval| kval.value.as_u32()).any(|size| size as usize != job.ranks.len())
            }
            HOSTNAME => {
                let on = node(self.ranks[owner].server);
                let names = objects().filter(|kval| kval.key.is(keys::HOSTNAME));
                names.filter_map(|kval| kval.value.as_text()).any(|name| name != on.as_bytes())
            }
            NOBODY | REQUIRED => status.is_success(),
            14 => status.is_success() && objects().next().is_some(),
            _ => false,
        };
        if wrong {
            let what = format!("{call:?} of rank {rank} was answered with {status}, {reply:?}");
            self.violated(Invariant::OwnAnswer, what);
        }
        if matches!(kind, 2..=5) {
            let wanted = if kind == 2 { u8::MAX } else { owner as u8 % 6 };
            self.got(rank, (owner, wanted), false, (at_least, 0), status, reply);
        }
        Some(())
    }
}

/// The namespaces that a value names.
fn collect_names(value: &Value, names: &mut Vec<Nspace>) {
    match value {
        Value::Proc(proc) => names.push(proc.nspace.clone()),
        Value::ProcInfo(info) => names.push(info.proc.nspace.clone()),
        Value::Info(info) => collect_names(&info.value, names),
        Value::DataArray(array) => array.items.iter().for_each(|item| collect_names(item, names)),
        _ => {}
    }
}
