//! Connects that give the connected processes a namespace of their own, as RFC0003 proposes.
//!
//! Servers and hosts do not know these namespaces. Each member derives the name and its rank from what all members know: who they are, and
//! the identifier of the operation. A client replaces the name by the real processes in its calls.
//!
//! With processes of several clusters, those of the own one have names that the others do not know. Then names and ranks are derived from
//! the names with their clusters, which all members know.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pmix_dstore::fallible_alloc;
use pmix_dstore::model::{Info, KeyRef, NSPACE_LEN_MAX, Nspace, Proc, Rank, Result, Status, Value, keys};
use pmix_dstore::realm_resolution::{self, JobLookup, Selector};

use super::{Client, Inner};
use crate::events::range;
use crate::forked::{RwLock, RwLockWriteGuard};
use crate::operation::Operation;

/// The largest number of members. It bounds the cost of a wrong job size.
const MEMBERS_MAX: usize = 1 << 24;

/// What the names of these namespaces begin with.
const PREFIX: &str = "connect.";

/// The directives of a connect that also hold for later operations of its namespace.
const LASTING: [&str; 3] = [keys::CONNECT_ID, keys::CONNECT_OPTIONAL, keys::CONNECT_EARLY_TERM_ALLOWED];

/// The infos that name the processes of an event.
const OF_EVENTS: [&str; 3] = [keys::EVENT_CUSTOM_RANGE, keys::EVENT_AFFECTED_PROC, keys::EVENT_AFFECTED_PROCS];

/// The namespaces of connects that this process has not disconnected from.
#[derive(Default)]
pub(crate) struct Connections {
    /// Whether there is any. Saves calls the lock if not.
    has_any: AtomicBool,
    /// A tree costs the start of a rank, which has none, nothing.
    by_name: RwLock<BTreeMap<Nspace, Connection>>,
}

/// Connected processes with a namespace.
struct Connection {
    /// The members, sorted by the names that all of them know. A member's rank in the namespace is its place here.
    members: Arc<Vec<Proc>>,
    /// What the connect was told that later operations are told, too.
    directives: Vec<Info>,
    /// The number of connects without a disconnect.
    count: u32,
}

/// The lock during a fork.
pub(crate) struct Held<'a> {
    _by_name: Option<RwLockWriteGuard<'a, BTreeMap<Nspace, Connection>>>,
}

impl Connections {
    /// Whether this process is in any such namespace.
    pub fn has_any(&self) -> bool {
        self.has_any.load(Ordering::Acquire)
    }

    /// Holds the lock for a fork.
    pub fn hold_for_fork(&self) -> Held<'_> {
        Held { _by_name: self.by_name.hold_for_fork() }
    }

    /// The members of a namespace; `None` for any other name.
    pub fn members(&self, nspace: &[u8]) -> Option<Arc<Vec<Proc>>> {
        if !self.has_any() {
            return None;
        }
        self.by_name.read().ok()?.get(nspace).map(|connection| Arc::clone(&connection.members))
    }

    /// Notes a connect.
    ///
    /// # Errors
    /// `ERR_EXISTS` if other processes have this name.
    fn add(&self, name: Nspace, members: Vec<Proc>, directives: Vec<Info>) -> Result<()> {
        let mut by_name = self.by_name.wait_write();
        let new = Connection { members: Arc::new(members), directives, count: 1 };
        match by_name.get_mut(&name) {
            Some(known) if known.members != new.members => return Err(Status::ERR_EXISTS),
            // The directives of the latest connect hold.
            Some(known) => *known = Connection { count: known.count.saturating_add(1), ..new },
            None => drop(by_name.insert(name, new)),
        }
        self.has_any.store(true, Ordering::Release);
        Ok(())
    }

    /// Notes a disconnect of processes, each named once. The name is unknown after as many as there were connects.
    fn remove(&self, mut procs: Vec<Proc>, id: Option<&[u8]>) {
        let mut by_name = self.by_name.wait_write();
        let mut is_of = |known: &Connection| {
            let of_known = Info::find(&known.directives, keys::CONNECT_ID).and_then(Value::as_text);
            if of_known != id || known.members.len() != procs.len() {
                return false;
            }
            // The members are in the order of other names if there are several clusters.
            procs.sort_unstable();
            known.members.iter().all(|member| procs.binary_search(member).is_ok())
        };
        let name = by_name.iter().find(|(_, known)| is_of(known)).map(|(name, _)| name.clone());
        if let Some(name) = name
            && let Some(known) = by_name.get_mut(&name)
        {
            known.count -= 1;
            if known.count == 0 {
                by_name.remove(&name);
            }
        }
        self.has_any.store(!by_name.is_empty(), Ordering::Release);
    }

    /// Replaces the names of connections by real processes. The directives are those of the connection, if all processes are of one.
    ///
    /// # Errors
    /// `ERR_BAD_PARAM` for a rank that a connection does not have; `ERR_NOMEM`; as [`RwLock::read`].
    fn expand(&self, procs: Vec<Proc>) -> Result<(Vec<Proc>, Vec<Info>)> {
        let by_name = self.by_name.read()?;
        let Some(first) = procs.iter().find_map(|proc| by_name.get_key_value(proc.nspace.as_bytes())) else {
            return Ok((procs, Vec::new()));
        };
        let is_of_one = procs.iter().all(|proc| proc.nspace == *first.0);
        let directives = if is_of_one { Info::copies(&first.1.directives)? } else { Vec::new() };
        let mut real = Vec::new();
        for proc in procs {
            match by_name.get(proc.nspace.as_bytes()) {
                None => fallible_alloc::push(&mut real, proc)?,
                Some(of) if proc.rank == Rank::WILDCARD => {
                    of.members.iter().try_for_each(|member| fallible_alloc::push(&mut real, member.clone()))?;
                }
                Some(of) => fallible_alloc::push(&mut real, member(&of.members, proc.rank)?)?,
            }
        }
        Ok((real, directives))
    }

    /// Whether any of these processes is named by a connection.
    fn name_any<'p>(&self, mut procs: impl Iterator<Item = &'p Proc>) -> bool {
        self.by_name.read().is_ok_and(|by_name| procs.any(|proc| by_name.contains_key(proc.nspace.as_bytes())))
    }
}

/// The process that has a rank in a connection.
///
/// # Errors
/// `ERR_BAD_PARAM` if there is none.
pub(crate) fn member(members: &[Proc], rank: Rank) -> Result<Proc> {
    members.get(rank.0 as usize).filter(|_| rank.is_process()).cloned().ok_or(Status::ERR_BAD_PARAM)
}

/// The namespace of connected processes: the same at each of them.
///
/// # Errors
/// `ERR_NOMEM`.
fn name_of(members: &[Proc], id: Option<&[u8]>) -> Result<Nspace> {
    let mut text = Vec::new();
    for Proc { nspace, rank } in members {
        fallible_alloc::extend(&mut text, nspace.as_bytes())?;
        fallible_alloc::extend(&mut text, &[0])?;
        fallible_alloc::extend(&mut text, &rank.0.to_le_bytes())?;
    }
    // No namespace begins with a NUL, so that the identifier is no member.
    if let Some(id) = id {
        fallible_alloc::extend(&mut text, &[0])?;
        fallible_alloc::extend(&mut text, id)?;
    }
    let name = format!("{PREFIX}{:016x}", KeyRef::new(&text).hash());
    Nspace::new(name).map_err(|_| Status::ERR_BAD_PARAM)
}

/// The identifier of a connect among its infos.
///
/// # Errors
/// `ERR_BAD_PARAM` for one that is no string, or is longer than a namespace.
pub fn connect_id(infos: &[Info]) -> Result<Option<Vec<u8>>> {
    let Some(id) = Info::find(infos, keys::CONNECT_ID) else { return Ok(None) };
    let text = id.as_text().filter(|text| text.len() <= NSPACE_LEN_MAX);
    text.map(|text| Some(text.to_vec())).ok_or(Status::ERR_BAD_PARAM)
}

impl Client {
    /// Connects processes as [`Client::connect_procs`] does, and gives them a namespace: the answer is this process under its new name and
    /// rank. The namespace can be named in fences, Gets, events, [`Client::resolve_peers`] and [`Client::resolve_nodes`], further connects
    /// and disconnects, until [`Client::disconnect_namespace`]. `None` with `PMIX_CONNECT_XCHG_ONLY`, which connects nobody.
    ///
    /// Connects of the same processes at the same time are told apart by `PMIX_CONNECT_ID`. Ranks are given in the order of the real
    /// names. The same processes with the same identifier get the same name again.
    ///
    /// The operation fails with `ERR_NOT_FOUND` if all processes of a job are named, whose size nobody has told. They are connected, then.
    pub fn connect_namespace(&self, procs: Vec<Proc>, infos: Vec<Info>) -> Operation<Option<Proc>> {
        let inner = &self.inner;
        let prepared = connect_id(&infos).and_then(|id| Ok((id, self.each_named(procs)?)));
        let (id, procs) = match prepared {
            Ok(prepared) => prepared,
            Err(status) => return Operation::ready(&inner.link, Err(status)),
        };
        let keeps_nothing = Info::is_set(&infos, keys::CONNECT_XCHG_ONLY);
        let cluster = self.cluster_beside_others(&procs);
        let lasting = LASTING.into_iter().filter_map(|key| Some(Info::new(key, Info::find(&infos, key)?.clone())));
        let directives = lasting.collect();
        let named = procs.clone();
        self.connect_then(procs, infos, move |inner| match keeps_nothing {
            true => Ok(None),
            false => inner.assign(named, id.as_deref(), cluster.as_deref(), directives).map(Some),
        })
    }

    /// Ends the connection whose namespace [`Client::connect_namespace`] has given, as all its members do.
    ///
    /// The operation fails with `ERR_INVALID_NAMESPACE` if this process is not connected by that name.
    pub fn disconnect_namespace(&self, nspace: &Nspace, infos: Vec<Info>) -> Operation<()> {
        if self.inner.connections.members(nspace.as_bytes()).is_none() {
            return Operation::ready(&self.inner.link, Err(Status::ERR_INVALID_NAMESPACE));
        }
        self.disconnect_procs(vec![Proc::new(nspace.clone(), Rank::WILDCARD)], infos)
    }

    /// The processes as all of them know them: without names that this process alone knows.
    fn each_named(&self, procs: Vec<Proc>) -> Result<Vec<Proc>> {
        let inner = &self.inner;
        let (procs, _) = inner.connections.expand(procs)?;
        let mut named = Vec::new();
        for mut proc in inner.members_of_groups(procs) {
            if proc.nspace.is_empty() {
                proc.nspace = inner.me.nspace.clone();
            }
            match proc.rank {
                Rank::LOCAL_NODE => named.extend(self.resolve_peers(None, None)?),
                Rank::LOCAL_PEERS => named.extend(self.resolve_peers(None, Some(&proc.nspace))?),
                _ => fallible_alloc::push(&mut named, self.of_own_cluster(proc))?,
            }
        }
        Ok(named)
    }

    /// Removes the name of the own cluster from the name of a job: `cluster:nspace`.
    fn of_own_cluster(&self, proc: Proc) -> Proc {
        let Some((cluster, job)) = proc.nspace.split_cluster().filter(|_| proc.nspace != self.me().nspace) else {
            return proc;
        };
        match Nspace::new(job) {
            Ok(nspace) if self.own_cluster().as_deref() == Some(cluster) => Proc::new(nspace, proc.rank),
            _ => proc,
        }
    }

    /// The name of the cluster that this process is in, if the host has told it.
    fn own_cluster(&self) -> Option<Vec<u8>> {
        let job = Proc::new(self.me().nspace.clone(), Rank::WILDCARD);
        let cluster = self.get_value(&job, keys::CLUSTER_ID, &[Info::new(keys::IMMEDIATE, Value::Bool(true))]).ok()?;
        cluster.as_text().map(<[u8]>::to_vec)
    }

    /// The name of the own cluster, if some of these processes are named with another one.
    fn cluster_beside_others(&self, procs: &[Proc]) -> Option<Vec<u8>> {
        let has_cluster = |proc: &Proc| proc.nspace.has_cluster() && proc.nspace != self.me().nspace;
        procs.iter().any(has_cluster).then(|| self.own_cluster()).flatten()
    }
}

/// The processes by the names that those of other clusters know, too.
///
/// # Errors
/// `ERR_BAD_PARAM` for a name that gets too long; `ERR_NOMEM`.
fn known_to_all(procs: &[Proc], cluster: &[u8]) -> Result<Vec<Proc>> {
    let mut all = Vec::new();
    let mut last: Option<(&Nspace, Nspace)> = None;
    for proc in procs {
        let known = match &last {
            Some((nspace, known)) if *nspace == &proc.nspace => known.clone(),
            _ if proc.nspace.has_cluster() => proc.nspace.clone(),
            _ => Nspace::new([cluster, proc.nspace.as_bytes()].join(&b':')).map_err(|_| Status::ERR_BAD_PARAM)?,
        };
        last = Some((&proc.nspace, known.clone()));
        fallible_alloc::push(&mut all, Proc::new(known, proc.rank))?;
    }
    Ok(all)
}

impl Inner {
    /// Gives connected processes their namespace; this process under its new name. `cluster` is its own, if there are others.
    fn assign(
        &self,
        procs: Vec<Proc>,
        id: Option<&[u8]>,
        cluster: Option<&[u8]>,
        directives: Vec<Info>,
    ) -> Result<Proc> {
        let mut members = self.each_member(procs)?;
        let name = match cluster {
            None => name_of(&members, id)?,
            Some(cluster) => {
                let mut all: Vec<_> = known_to_all(&members, cluster)?.into_iter().zip(members).collect();
                all.sort_unstable();
                let (known, here): (Vec<Proc>, Vec<Proc>) = all.into_iter().unzip();
                members = here;
                name_of(&known, id)?
            }
        };
        let rank = members.iter().position(|member| *member == self.me).ok_or(Status::ERR_BAD_PARAM)?;
        self.connections.add(name.clone(), members, directives)?;
        // There are at most `MEMBERS_MAX` of them.
        Ok(Proc::new(name, Rank(rank as u32)))
    }

    /// Processes, with wildcard ranks expanded; sorted, each once.
    ///
    /// # Errors
    /// `ERR_NOT_FOUND` if the size of a job is unknown; `ERR_OUT_OF_RESOURCE` for too many; `ERR_NOMEM`.
    fn each_member(&self, procs: Vec<Proc>) -> Result<Vec<Proc>> {
        let mut each = Vec::new();
        for proc in procs {
            if proc.rank != Rank::WILDCARD {
                fallible_alloc::push(&mut each, proc)?;
                continue;
            }
            let size = self.size_of(&proc.nspace)?;
            if size as usize > MEMBERS_MAX - each.len().min(MEMBERS_MAX) {
                return Err(Status::ERR_OUT_OF_RESOURCE);
            }
            let mut ranks = (0..size).map(|rank| Proc::new(proc.nspace.clone(), Rank(rank)));
            ranks.try_for_each(|proc| fallible_alloc::push(&mut each, proc))?;
        }
        each.sort_unstable();
        each.dedup();
        Ok(each)
    }

    /// The size of a job of which this process has the data, without asking the server: this may be the thread that receives its answers.
    fn size_of(&self, nspace: &Nspace) -> Result<u32> {
        fn size<S: JobLookup>(job: &S, caller: &realm_resolution::Caller<'_>) -> Option<u64> {
            let key = KeyRef::from(keys::JOB_SIZE);
            realm_resolution::find(job, Rank::WILDCARD, &key, &Selector::NOTHING, caller)?.to_value().ok()?.as_u64()
        }
        let caller = self.local.caller(self.local.is_own(nspace.as_bytes()));
        let here = self.local.with_job(nspace, |job| size(job, &caller), |job| size(job, &caller)).flatten();
        let size = here.or_else(|| size(&*self.linked(nspace)?, &caller)).ok_or(Status::ERR_NOT_FOUND)?;
        u32::try_from(size).map_err(|_| Status::ERR_BAD_PARAM)
    }

    /// The processes and infos of a request in which a connection's namespace may be named, for the server.
    ///
    /// # Errors
    /// `ERR_BAD_PARAM` for a rank that a connection does not have; `ERR_NOMEM`.
    pub(crate) fn for_server(&self, procs: Vec<Proc>, mut infos: Vec<Info>) -> Result<(Vec<Proc>, Vec<Info>)> {
        if !self.connections.has_any() {
            return Ok((self.members_of(procs), infos));
        }
        let (procs, directives) = self.connections.expand(procs)?;
        for info in directives {
            if !infos.iter().any(|given| given.key == info.key) {
                infos.push(info);
            }
        }
        Ok((self.members_of(procs), infos))
    }

    /// Processes have disconnected: their namespace is unknown from now on.
    pub(crate) fn forget_connection(&self, procs: Vec<Proc>, infos: &[Info]) {
        // Processes of which this is not known have no namespace.
        if let (Ok(members), Ok(id)) = (self.each_member(procs), connect_id(infos)) {
            self.connections.remove(members, id.as_deref());
        }
    }

    /// The infos of an event or of a handler, with real processes in place of those that connections name; and whether its range had any.
    ///
    /// # Errors
    /// As [`Inner::for_server`].
    pub(crate) fn with_real_names(&self, mut infos: Vec<Info>) -> Result<(Vec<Info>, bool)> {
        let mut is_of_connection = false;
        if !self.connections.has_any() {
            return Ok((infos, false));
        }
        for info in infos.iter_mut().filter(|info| OF_EVENTS.iter().any(|key| info.key.is(key))) {
            if !self.connections.name_any(info.value.iter_procs()) {
                continue;
            }
            is_of_connection |= info.key.is(keys::EVENT_CUSTOM_RANGE);
            let (mut real, _) = self.connections.expand(info.value.iter_procs().cloned().collect())?;
            let value = match info.value {
                Value::Proc(_) if real.len() == 1 => Value::Proc(real.remove(0)),
                _ => Value::procs(real),
            };
            if info.key.is(keys::EVENT_AFFECTED_PROC) && !matches!(value, Value::Proc(_)) {
                *info = Info::new(keys::EVENT_AFFECTED_PROCS, value);
            } else {
                info.value = value;
            }
        }
        Ok((infos, is_of_connection))
    }

    /// An event's source, range and infos with real processes in place of those that connections name. All of a connection are a custom
    /// range of its members.
    ///
    /// # Errors
    /// As [`Inner::for_server`].
    pub(crate) fn event_with_real_names(
        &self,
        source: Proc,
        event_range: u8,
        infos: Vec<Info>,
    ) -> Result<(Proc, u8, Vec<Info>)> {
        let (mut infos, _) = self.with_real_names(infos)?;
        let Some(members) = self.connections.members(source.nspace.as_bytes()) else {
            return Ok((source, event_range, infos));
        };
        let source = if source.rank.is_process() { member(&members, source.rank)? } else { self.me.clone() };
        if event_range != range::NAMESPACE {
            return Ok((source, event_range, infos));
        }
        infos.retain(|info| !info.key.is(keys::EVENT_CUSTOM_RANGE));
        infos.push(Info::new(keys::EVENT_CUSTOM_RANGE, Value::procs(members.iter().cloned())));
        Ok((source, range::CUSTOM, infos))
    }
}

#[cfg(test)]
#[path = "connections_tests.rs"]
mod tests;
