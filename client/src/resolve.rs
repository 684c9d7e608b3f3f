//! Resolves the processes on a node, and the nodes of a job.

use std::collections::HashSet;
use std::ffi::CString;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pmix_dstore::codec::ValueRef;
use pmix_dstore::job::JobData;
use pmix_dstore::maps::{NODE_BYTES_MAX, NODE_COUNT_MAX, Ranks};
use pmix_dstore::model::{Info, Key, KeyRef, Nspace, Proc, Rank, Result, Status, Value, keys};
use pmix_dstore::realm_resolution::{JobLookup, Realm, has_no_ranks, node_row_of};
use pmix_dstore::segment::{FastResult, Target};

use crate::client::{Client, ClientKind, Inner};
use crate::pin::Reading;
use pmix_wire::reply::{GetReply, NodesReply, PeersReply};
use pmix_wire::{Reply, Request, Version};

/// Servers from this release on resolve peers themselves. From older servers the client gets the values, and resolves
/// them here.
const RESOLVES_PEERS: Version = Version::new(6, 0, 0);

/// The same for nodes. Releases 6.0 and 6.1 never set the namespace of the query, so their answer
/// depends on uninitialised memory.
const RESOLVES_NODES: Version = Version::new(7, 0, 0);

/// The largest number of ranks that is searched. It bounds the cost of a wrong job size or range.
const RANKS_MAX: usize = 1 << 24;

/// The time limit for a server's reply. Our server gives its host half of it.
const ANSWER_WAIT: Duration = Duration::from_secs(20);

const NODE_LIST: KeyRef<'static> = KeyRef::of_constant(keys::NODE_LIST);

impl Client {
    /// The fast path of [`Client::resolve_peers`] for the own job; `None` if the slow path is needed.
    pub fn peers_here(&self, reading: Reading<'_>, node: Option<&[u8]>) -> Option<Result<Ranks>> {
        let caller = self.inner.local.caller(true);
        let job = self.inner.local.mapped_job(reading)?;
        peers(job, node, caller.rank, caller.hostname).filter(|_| !job.is_damaged())
    }

    /// The fast path of [`Client::resolve_nodes`] for the own job: passes the list to `take`, borrowed from the
    /// segment; `None` if the slow path is needed.
    pub fn nodes_here<R>(&self, reading: Reading<'_>, take: impl FnOnce(&[u8]) -> R) -> Option<R> {
        let job = self.inner.local.mapped_job(reading)?;
        match job.fast_value_in(Target::Job, &NODE_LIST).result() {
            // Passed without its NUL.
            FastResult::Text(list) if list.len() > 1 => Some(take(&list[..list.len() - 1])),
            _ => None,
        }
    }

    /// The processes of a job that run on a node. The default for the node is the caller's, for the namespace all jobs
    /// that this process or its server knows.
    ///
    /// # Errors
    /// `ERR_INVALID_NAMESPACE` for an unknown job; `ERR_DATA_VALUE_NOT_FOUND` if the node's processes are unknown. A
    /// node that is not one of the job's has no processes.
    pub fn resolve_peers(&self, node: Option<&[u8]>, nspace: Option<&Nspace>) -> Result<Vec<Proc>> {
        if nspace.is_none_or(Nspace::is_empty)
            && let Some(told) = self.inner.peers_of_all(node)?
        {
            return Ok(told);
        }
        if let Some((nspace, members)) =
            nspace.and_then(|name| Some((name, self.inner.connections.members(name.as_bytes())?)))
        {
            return self.inner.peers_among(node, nspace, &members);
        }
        let mut procs = self.inner.of_jobs(nspace, |nspace| self.inner.peers_in(node, nspace))?;
        match &mut procs[..] {
            [procs] => Ok(std::mem::take(procs)),
            _ => Ok(procs.into_iter().flatten().collect()),
        }
    }

    /// The names of a job's nodes, separated by commas; `None` if it has none. Without a namespace the nodes of all
    /// jobs that this process or its server knows, each once.
    ///
    /// # Errors
    /// `ERR_INVALID_NAMESPACE` for an unknown job.
    pub fn resolve_nodes(&self, nspace: Option<&Nspace>) -> Result<Option<Vec<u8>>> {
        if nspace.is_none_or(Nspace::is_empty)
            && let Some(lists) = self.inner.nodes_of_all()
        {
            return Ok(united(&lists));
        }
        if let Some(members) = nspace.and_then(|name| self.inner.connections.members(name.as_bytes())) {
            return self.inner.nodes_among(&members);
        }
        let mut lists = self.inner.of_jobs(nspace, |nspace| self.inner.nodes_in(nspace))?;
        if lists.len() == 1 {
            return Ok(lists.pop().flatten().filter(|list| !list.is_empty()));
        }
        Ok(united(&lists.into_iter().flatten().collect::<Vec<_>>()))
    }
}

/// The names of several lists, each once; `None` if there are none.
fn united(lists: &[Vec<u8>]) -> Option<Vec<u8>> {
    let mut known = HashSet::new();
    let names = lists.iter().flat_map(|list| list.split(|byte| *byte == b','));
    let names: Vec<&[u8]> = names.filter(|name| !name.is_empty() && known.insert(*name)).collect();
    (!names.is_empty()).then(|| names.join(&b','))
}

impl Inner {
    /// Runs `resolve` for the named job, or for all known jobs; jobs other than the own one are skipped on errors.
    fn of_jobs<T>(&self, nspace: Option<&Nspace>, resolve: impl Fn(&Nspace) -> Result<T>) -> Result<Vec<T>> {
        if let Some(nspace) = nspace.filter(|nspace| !nspace.is_empty()) {
            return Ok(vec![resolve(nspace)?]);
        }
        let own = resolve(&self.me.nspace);
        let others: Vec<T> = self.other_jobs_known().iter().filter_map(|nspace| resolve(nspace).ok()).collect();
        match own {
            Err(status) if others.is_empty() => Err(status),
            own => Ok(own.into_iter().chain(others).collect()),
        }
    }

    /// The jobs that this process knows, without its own.
    fn other_jobs_known(&self) -> Vec<Nspace> {
        let mut others = self.local.reply_cache.jobs();
        others.extend(self.link.jobs().iter().map(|job| job.nspace.clone()));
        others.retain(|nspace| *nspace != self.me.nspace);
        others.sort();
        others.dedup();
        others
    }

    /// The own job and the others that this process knows.
    fn jobs_known(&self) -> impl Iterator<Item = Nspace> {
        std::iter::once(self.me.nspace.clone()).chain(self.other_jobs_known())
    }

    /// The processes of all jobs on a node, if the server resolves them: those that this process knows itself, its own job first, and
    /// then the server's. `None` if the server does not answer, or cannot resolve all jobs.
    ///
    /// # Errors
    /// `ERR_BAD_PARAM` for a node's name with a NUL; the status of the own job if there are no processes.
    fn peers_of_all(&self, node: Option<&[u8]>) -> Result<Option<Vec<Proc>>> {
        if !self.asks_of_all(RESOLVES_PEERS) {
            return Ok(None);
        }
        let name = node.map(CString::new).transpose().map_err(|_| Status::ERR_BAD_PARAM)?;
        let told = self.await_reply(&Request::ResolvePeers { node: name, nspace: None });
        let Some(told) = told.ok().filter(|reply: &PeersReply| reply.status.is_success()) else { return Ok(None) };
        let mut procs = Vec::new();
        let mut resolved = HashSet::new();
        let mut own = Ok(());
        for nspace in self.jobs_known() {
            match self.peers_known(node, &nspace) {
                Some(Some(Ok(ranks))) => {
                    procs.extend(ranks.iter().map(|rank| Proc::new(nspace.clone(), rank)));
                    resolved.insert(nspace);
                }
                Some(Some(Err(status))) if nspace == self.me.nspace => own = Err(status),
                _ => {}
            }
        }
        procs.extend(told.procs.unwrap_or_default().into_iter().filter(|proc| !resolved.contains(&proc.nspace)));
        if procs.is_empty() {
            own?;
        }
        Ok(Some(procs))
    }

    /// The lists of the nodes of all jobs: this process's, and then the server's. `None` as for the processes.
    fn nodes_of_all(&self) -> Option<Vec<Vec<u8>>> {
        if !self.asks_of_all(RESOLVES_NODES) {
            return None;
        }
        let told = self.await_reply(&Request::ResolveNodes { nspace: None });
        let told = told.ok().filter(|reply: &NodesReply| reply.status.is_success())?;
        let known = self.jobs_known().filter_map(|nspace| self.nodes_known(&nspace).flatten());
        Some(known.chain(told.nodes.map(CString::into_bytes)).collect())
    }

    /// Whether the server is asked for all jobs. The server in this process has told its jobs already.
    fn asks_of_all(&self, since: Version) -> bool {
        let is_able = || self.link.awaits_commits() || self.link.server_version() >= since;
        self.kind() == ClientKind::Launched && self.link.has_server() && is_able()
    }

    /// The processes of a job on a node, without a message; an empty answer if the job or its nodes are unknown here.
    fn peers_known(&self, node: Option<&[u8]>, nspace: &Nspace) -> Option<Option<Result<Ranks>>> {
        let caller = self.local.caller(self.local.is_own(nspace.as_bytes()));
        let of = |job: &JobData| peers(job, node, caller.rank, caller.hostname);
        let local = self.local.with_job(nspace, |job| peers(job, node, caller.rank, caller.hostname), of);
        local.or_else(|| self.linked(nspace).map(|job| of(&job)))
    }

    /// The same for the nodes of a job.
    fn nodes_known(&self, nspace: &Nspace) -> Option<Option<Vec<u8>>> {
        let local = self.local.with_job(nspace, nodes, nodes);
        local.or_else(|| self.linked(nspace).map(|job| nodes(&*job)))
    }

    fn peers_in(&self, node: Option<&[u8]>, nspace: &Nspace) -> Result<Vec<Proc>> {
        self.map_to_resolve(nspace);
        let ranks = match self.peers_known(node, nspace) {
            Some(Some(ranks)) => ranks?,
            // This process does not know the job's nodes.
            known => return self.unless_known(known.is_some(), || self.ask_peers(node, nspace)),
        };
        Ok(ranks.iter().map(|rank| Proc::new(nspace.clone(), rank)).collect())
    }

    /// The members of a connect on a node, by their ranks in its namespace.
    fn peers_among(&self, node: Option<&[u8]>, nspace: &Nspace, members: &[Proc]) -> Result<Vec<Proc>> {
        let mut on_node = Vec::new();
        for job in members.chunk_by(|one, next| one.nspace == next.nspace) {
            on_node.extend(self.peers_in(node, &job[0].nspace)?);
        }
        on_node.sort_unstable();
        let places = (0..).map(Rank).zip(members).filter(|(_, member)| on_node.binary_search(member).is_ok());
        Ok(places.map(|(rank, _)| Proc::new(nspace.clone(), rank)).collect())
    }

    /// The nodes of the members of a connect, each once.
    fn nodes_among(&self, members: &[Proc]) -> Result<Option<Vec<u8>>> {
        let mut nodes = Vec::new();
        for job in members.chunk_by(|one, next| one.nspace == next.nspace) {
            let nspace = &job[0].nspace;
            let list = self.nodes_in(nspace)?.unwrap_or_default();
            for node in list.split(|byte| *byte == b',').filter(|node| !node.is_empty()) {
                if self.peers_in(Some(node), nspace)?.iter().any(|peer| job.binary_search(peer).is_ok()) {
                    nodes.push(node.to_vec());
                }
            }
        }
        Ok(united(&nodes))
    }

    /// Maps the segments of a job that is not the own one. If they are not to be had, the server resolves.
    fn map_to_resolve(&self, nspace: &Nspace) {
        if !self.local.is_own(nspace.as_bytes()) {
            let _ = self.map_other_job(nspace.as_bytes(), Some(Instant::now() + ANSWER_WAIT));
        }
    }

    fn nodes_in(&self, nspace: &Nspace) -> Result<Option<Vec<u8>>> {
        self.map_to_resolve(nspace);
        match self.nodes_known(nspace) {
            Some(Some(nodes)) => Ok(Some(nodes)),
            known => self.unless_known(known.is_some(), || self.ask_nodes(nspace)),
        }
    }

    /// Asks the server. If the server does not know the job either, but this process does, the job has no nodes.
    fn unless_known<T: Default>(&self, is_known: bool, ask: impl FnOnce() -> Result<T>) -> Result<T> {
        let asked = match self.kind() {
            ClientKind::Singleton => Err(Status::ERR_INVALID_NAMESPACE),
            _ => ask(),
        };
        match asked {
            Err(Status::ERR_INVALID_NAMESPACE | Status::ERR_TIMEOUT) if is_known => Ok(T::default()),
            asked => asked,
        }
    }

    /// A job of the server, if the server is in this process.
    pub(crate) fn linked(&self, nspace: &Nspace) -> Option<Arc<JobData>> {
        self.link.jobs().into_iter().find(|job| job.nspace == *nspace)
    }
}

/// The ranks of a job on a node; `None` if the job's nodes are unknown.
fn peers<S: JobLookup>(job: &S, node: Option<&[u8]>, me: Option<Rank>, here: &[u8]) -> Option<Result<Ranks>> {
    if job.node_count() == 0 {
        return None;
    }
    let row = match node {
        Some(name) => job.node_row_by_name(name),
        None => me.and_then(|rank| node_row_of(job, rank)).or_else(|| job.node_row_by_name(here)),
    };
    Some(row.map_or(Ok(Ranks::NONE), |row| peers_on(job, row)))
}

/// Whether a rank is on the caller's node, whose name is `here`. The answer is no if the job's nodes are unknown.
pub(crate) fn is_neighbour(job: &JobData, rank: Rank, me: Rank, here: &[u8]) -> bool {
    matches!(peers(job, None, Some(me), here), Some(Ok(ranks)) if ranks.iter().any(|peer| peer == rank))
}

/// The ranks of a job on one of its nodes.
///
/// # Errors
/// `ERR_DATA_VALUE_NOT_FOUND` if the host has not registered the node's ranks.
pub fn peers_on<S: JobLookup>(job: &S, row: u32) -> Result<Ranks> {
    if let Some(ranks) = job.node_ranks(row) {
        return Ok(ranks);
    }
    let listed = job.find_key(&KeyRef::from(keys::LOCAL_PEERS)).and_then(|(key, _)| job.value(Realm::Node, row, key));
    if let Some(ValueRef::Str(list)) = listed {
        let ranks = list.map_or(Some(Vec::new()), |list| ranks(list.to_bytes()));
        return ranks.map(Ranks::List).ok_or(Status::ERR_DATA_VALUE_NOT_FOUND);
    }
    if has_no_ranks(job, row) {
        return Ok(Ranks::NONE);
    }
    if job.proc_count() as usize > RANKS_MAX {
        return Err(Status::ERR_DATA_VALUE_NOT_FOUND);
    }
    let all = (0..job.proc_count()).map(Rank).filter(|rank| node_row_of(job, *rank) == Some(row));
    let derived: Vec<_> = all.collect();
    if derived.is_empty() { Err(Status::ERR_DATA_VALUE_NOT_FOUND) } else { Ok(Ranks::List(derived)) }
}

/// The names of a job's nodes, separated by commas; `None` if they are unknown.
pub fn nodes<S: JobLookup>(job: &S) -> Option<Vec<u8>> {
    let text = |realm, row, key: &str| text_of(job, realm, row, key);
    // This list has the order of the host's map; the nodes' own entries may have another order.
    if let Some(list) = text(Realm::Job, 0, keys::NODE_LIST).filter(|list| !list.is_empty()) {
        return Some(list.to_vec());
    }
    if !(1..=NODE_COUNT_MAX).contains(&(job.node_count() as usize)) {
        return None;
    }
    let names: Vec<_> = (0..job.node_count()).filter_map(|row| text(Realm::Node, row, keys::HOSTNAME)).collect();
    // A corrupt segment may give the same long name to all nodes.
    (names.iter().map(|name| name.len()).sum::<usize>() <= NODE_BYTES_MAX).then(|| names.join(&b','))
}

fn text_of<'s, S: JobLookup>(job: &'s S, realm: Realm, row: u32, key: &str) -> Option<&'s [u8]> {
    let (key, realms) = job.find_key(&KeyRef::from(key))?;
    match job.value(realm, row, key).filter(|_| realms.has(realm))? {
        ValueRef::Str(text) => text.map(|text| text.to_bytes()),
        _ => None,
    }
}

/// Parses a list of ranks like `0,2-4`; `None` for a malformed list.
fn ranks(list: &[u8]) -> Option<Vec<Rank>> {
    let mut ranks = Vec::new();
    for item in std::str::from_utf8(list).ok()?.split(',').map(str::trim).filter(|item| !item.is_empty()) {
        let (first, last) = item.split_once('-').unwrap_or((item, item));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        if last < first || (last - first) as usize >= RANKS_MAX - ranks.len().min(RANKS_MAX) {
            return None;
        }
        ranks.extend((first..=last).map(Rank));
    }
    Some(ranks)
}

impl Inner {
    fn ask_peers(&self, node: Option<&[u8]>, nspace: &Nspace) -> Result<Vec<Proc>> {
        let name = node.map(CString::new).transpose().map_err(|_| Status::ERR_BAD_PARAM)?;
        if self.link.is_ours() || self.link.server_version() >= RESOLVES_PEERS {
            let reply: PeersReply =
                self.await_reply(&Request::ResolvePeers { node: name, nspace: Some(nspace.clone()) })?;
            return reply.status.ok().map(|()| reply.procs.unwrap_or_default());
        }
        let infos = || {
            vec![Info::new(keys::NODE_INFO, Value::Bool(true)), Info::new(keys::HOSTNAME, Value::String(name.clone()))]
        };
        let list = match self.ask_for(nspace, Rank::UNDEF, infos(), keys::LOCAL_PEERS) {
            Err(Status::ERR_INVALID_NAMESPACE) => {
                // The server knows the job if it knows its nodes. It may still not know the ranks of this node.
                let nodes = self.ask_nodes(nspace)?.unwrap_or_default();
                let node = node.unwrap_or(self.local.hostname());
                if nodes.split(|byte| *byte == b',').all(|name| name != node) {
                    return Ok(Vec::new());
                }
                let size = self.ask_for(nspace, Rank::UNDEF, infos(), keys::LOCAL_SIZE);
                let is_empty = size.is_ok_and(|size| size.as_u32() == Some(0));
                return if is_empty { Ok(Vec::new()) } else { Err(Status::ERR_DATA_VALUE_NOT_FOUND) };
            }
            list => list?,
        };
        let ranks = ranks(list.as_text().unwrap_or_default()).ok_or(Status::ERR_DATA_VALUE_NOT_FOUND)?;
        Ok(ranks.into_iter().map(|rank| Proc::new(nspace.clone(), rank)).collect())
    }

    fn ask_nodes(&self, nspace: &Nspace) -> Result<Option<Vec<u8>>> {
        if self.link.is_ours() || self.link.server_version() >= RESOLVES_NODES {
            let reply: NodesReply = self.await_reply(&Request::ResolveNodes { nspace: Some(nspace.clone()) })?;
            return reply.status.ok().map(|()| reply.nodes.map(CString::into_bytes));
        }
        match self.ask_for(nspace, Rank::WILDCARD, Vec::new(), keys::NODE_LIST) {
            // A server that has any other value of the job knows the job: it has no nodes.
            Err(Status::ERR_INVALID_NAMESPACE) => {
                self.ask_for(nspace, Rank::WILDCARD, Vec::new(), keys::JOB_SIZE).map(|_| None)
            }
            list => Ok(list?.as_text().map(<[u8]>::to_vec)),
        }
    }

    /// Asks the server, with a time limit: the call itself has no timeout, and the host may never answer.
    fn await_reply<R: Reply>(&self, request: &Request) -> Result<R> {
        let deadline = Some(Instant::now() + ANSWER_WAIT);
        self.decode(&self.link.request_wait(self.encode(request)?.into(), deadline)?)
    }

    /// A value of a job from the server. A missing value is reported as an unknown job.
    fn ask_for(&self, nspace: &Nspace, rank: Rank, infos: Vec<Info>, key: &'static str) -> Result<Value> {
        let request = Request::Get { nspace: nspace.clone(), rank, infos, key: Some(Key::from(key)) };
        let reply: GetReply = self.await_reply(&request)?;
        match reply.status {
            // The server does not have the value, or its host cannot ask other servers.
            Status::ERR_NOT_FOUND | Status::ERR_NOT_SUPPORTED => return Err(Status::ERR_INVALID_NAMESPACE),
            status => status.ok()?,
        }
        let mut kvals = reply.objects.into_iter().flat_map(|(_, kvals)| kvals).filter(|kval| kval.key.is(key));
        kvals.next().map(|kval| kval.value).ok_or(Status::ERR_INVALID_NAMESPACE)
    }
}

#[cfg(test)]
mod tests {
    use pmix_dstore::job::Node;

    use super::*;

    fn node(name: &str, list: Option<Value>) -> Node {
        let mut values = vec![(Key::from(keys::HOSTNAME), Value::string(name))];
        values.extend(list.map(|list| (Key::from(keys::LOCAL_PEERS), list)));
        Node { hostname: name.into(), values: values.into_iter().collect(), ..Node::default() }
    }

    #[test]
    fn lists_of_ranks_are_read() {
        let numbers =
            |list: &str| ranks(list.as_bytes()).map(|ranks| ranks.iter().map(|rank| rank.0).collect::<Vec<_>>());
        assert_eq!(numbers("0,2-4, 9"), Some(vec![0, 2, 3, 4, 9]));
        assert_eq!(numbers(""), Some(vec![]));
        for broken in ["a", "4-2", "0-4294967295", "0-16777215,5-16777215", "1-"] {
            assert_eq!(numbers(broken), None, "{broken}");
        }
    }

    #[test]
    fn peers_come_from_the_list_or_are_derived() {
        let mut job = JobData::new(Nspace::new("job").unwrap());
        assert_eq!(peers(&job, None, Some(Rank(0)), b"a"), None);
        assert_eq!(nodes(&job), None);
        job.nodes = vec![
            node("a", Some(Value::string("0,1"))),
            node("b", None),
            node("c", None),
            node("d", Some(Value::String(None))),
        ];
        for rank in 2..4 {
            job.procs.set(Rank(rank), keys::HOSTNAME.into(), Value::string("b")).unwrap();
        }
        let of = |node: Option<&str>, me: Option<u32>| {
            let ranks = peers(&job, node.map(str::as_bytes), me.map(Rank), b"a").unwrap();
            ranks.map(|ranks| ranks.iter().collect::<Vec<_>>())
        };
        assert_eq!(of(Some("a"), None), Ok(vec![Rank(0), Rank(1)]));
        assert_eq!(of(None, None), Ok(vec![Rank(0), Rank(1)]));
        assert_eq!(of(Some("b"), None), Ok(vec![Rank(2), Rank(3)]));
        assert_eq!(of(None, Some(3)), Ok(vec![Rank(2), Rank(3)]));
        assert_eq!(of(Some("c"), None), Err(Status::ERR_DATA_VALUE_NOT_FOUND));
        assert_eq!(of(Some("d"), None), Ok(vec![]));
        assert_eq!(of(Some("elsewhere"), None), Ok(vec![]));
        assert_eq!(nodes(&job), Some(b"a,b,c,d".to_vec()));
    }

    #[test]
    fn a_size_that_no_job_has_is_not_counted_through() {
        let mut job = JobData::new(Nspace::new("job").unwrap());
        job.nodes = vec![node("a", None)];
        job.job.insert(keys::JOB_SIZE.into(), Value::Uint32(u32::MAX));
        assert_eq!(peers(&job, Some(b"a"), None, b"a"), Some(Err(Status::ERR_DATA_VALUE_NOT_FOUND)));
        job.nodes = vec![node(&"a".repeat(1 << 20), None); 65];
        assert_eq!(nodes(&job), None);
    }
}
