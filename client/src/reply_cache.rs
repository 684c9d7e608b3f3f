//! A cache of the server's replies about jobs and ranks, so that each is requested only once.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use pmix_dstore::codec::ValueRef;
use pmix_dstore::job::JobData;
use pmix_dstore::model::{Info, Key, KeyRef, Nspace, Rank, Result, Value, keys};
use pmix_dstore::modex::ModexData;
use pmix_dstore::qualified;
use pmix_dstore::realm_resolution::{self, Caller, Selector};

use crate::forked::{RwLock, RwLockReadGuard, RwLockWriteGuard};

/// The cached data of one namespace.
struct Namespace {
    job: JobData,
    /// Whether the server has sent all of the job's data, so that a miss here is final.
    is_whole: bool,
    modex: ModexData,
}

/// The server's replies, by namespace.
#[derive(Default)]
pub struct ReplyCache {
    /// Whether anything is cached. Saves a Get the lock if the cache is empty.
    has_any: AtomicBool,
    namespaces: RwLock<HashMap<Nspace, Namespace>>,
    /// The number of times that values of ranks were dropped.
    fences: RwLock<u64>,
    /// The ranks of the own job and node from which values have come, or whose first commit a Get has awaited.
    heard_of: Mutex<HashSet<Rank>>,
}

/// The locks during a fork.
pub(crate) struct Held<'a> {
    _namespaces: Option<RwLockWriteGuard<'a, HashMap<Nspace, Namespace>>>,
    _fences: Option<RwLockWriteGuard<'a, u64>>,
}

impl ReplyCache {
    /// Adds data of a job to the data cached before.
    ///
    /// # Errors
    /// `NOMEM`; a part of it may be kept.
    pub fn add_job(&self, job: JobData, is_whole: bool) -> Result<()> {
        self.with(job.nspace.clone(), |namespace| {
            merge(&mut namespace.job, job)?;
            namespace.is_whole |= is_whole;
            Ok(())
        })
    }

    /// Caches a value of a rank.
    ///
    /// # Errors
    /// `NOMEM`.
    pub fn add(&self, nspace: &Nspace, rank: Rank, key: Key, value: Arc<Value>) -> Result<()> {
        self.with(nspace.clone(), |namespace| namespace.modex.set(rank, key, value).map(drop))
    }

    /// Finds the value with the qualifiers among `infos`: of the rank, or else of its job.
    ///
    /// # Errors
    /// `NOMEM`.
    pub fn qualified(&self, nspace: &[u8], rank: Rank, key: &[u8], infos: &[Info]) -> Result<Option<Value>> {
        let namespaces = self.namespaces.read()?;
        let Some(Namespace { job, modex, .. }) = namespaces.get(nspace) else { return Ok(None) };
        let published = modex.get(rank, keys::QUALIFIED_VALUE.as_bytes());
        let found = published.and_then(|all| qualified::find(all, key, infos));
        match found {
            Some(value) => value.copy().map(Some),
            None => realm_resolution::find_qualified(job, rank, key, infos),
        }
    }

    /// The number of fences and deletions that have invalidated values of ranks. A reply to a request from before the
    /// last of them must not be cached. The count cannot change while the guard lives.
    ///
    /// # Errors
    /// As [`RwLock::read`].
    pub fn fences(&self) -> Result<RwLockReadGuard<'_, u64>> {
        self.fences.read()
    }

    /// Holds the locks for a fork.
    pub fn hold_for_fork(&self) -> Held<'_> {
        let fences = self.fences.hold_for_fork();
        Held { _namespaces: self.namespaces.hold_for_fork(), _fences: fences }
    }

    /// Notes that no Get need await this rank's first commit any more. Without memory for that a later Get asks once more.
    pub fn hear_of(&self, rank: Rank) {
        let mut heard_of = self.heard_of.lock();
        if heard_of.try_reserve(1).is_ok() {
            heard_of.insert(rank);
        }
    }

    /// Whether no Get need await this rank's first commit.
    pub fn has_heard_of(&self, rank: Rank) -> bool {
        self.heard_of.lock().contains(&rank)
    }

    /// Drops the values of ranks: after a fence they are stale.
    pub fn forget_ranks(&self) {
        *self.fences.wait_write() += 1;
        if !self.is_empty() {
            for namespace in self.namespaces.wait_write().values_mut() {
                namespace.modex = ModexData::default();
            }
        }
    }

    /// Drops a value that its rank has deleted. A reply in flight may still hold it; the count of fences keeps it out
    /// of the cache.
    ///
    /// # Errors
    /// As [`RwLock::read`].
    pub fn forget(&self, nspace: &[u8], rank: Rank, key: &[u8]) -> Result<()> {
        *self.fences.write()? += 1;
        if let Some(namespace) = self.namespaces.write()?.get_mut(nspace) {
            namespace.modex.remove(rank, key);
        }
        Ok(())
    }

    /// Whether the cache is empty.
    #[inline]
    pub fn is_empty(&self) -> bool {
        !self.has_any.load(Ordering::Relaxed)
    }

    /// Passes a value to `take`, if it is cached.
    #[inline]
    pub fn get<R>(
        &self,
        nspace: &[u8],
        rank: Rank,
        key: KeyRef<'_>,
        selector: &Selector<'_>,
        caller: &Caller<'_>,
        take: impl FnOnce(ValueRef<'_>) -> R,
    ) -> Option<R> {
        if self.is_empty() {
            return None;
        }
        self.look_up(nspace, rank, key, selector, caller, take)
    }

    /// Not inlined, so that a Get costs one load if the cache is empty.
    #[inline(never)]
    fn look_up<R>(
        &self,
        nspace: &[u8],
        rank: Rank,
        key: KeyRef<'_>,
        selector: &Selector<'_>,
        caller: &Caller<'_>,
        take: impl FnOnce(ValueRef<'_>) -> R,
    ) -> Option<R> {
        let namespaces = self.namespaces.read().ok()?;
        let namespace = namespaces.get(nspace)?;
        let modex = &namespace.modex;
        let published = match rank {
            Rank::UNDEF if !key.is_reserved() => modex.ranks().find_map(|rank| modex.get(rank, key.text())),
            rank => modex.get(rank, key.text()),
        };
        let found = published.map(ValueRef::from);
        Some(take(found.or_else(|| realm_resolution::find(&namespace.job, rank, &key, selector, caller))?))
    }

    /// Passes a job to `take`, if all of its data is cached.
    pub fn job<R>(&self, nspace: &[u8], take: impl FnOnce(&JobData) -> R) -> Option<R> {
        if self.is_empty() {
            return None;
        }
        let namespaces = self.namespaces.read().ok()?;
        let namespace = namespaces.get(nspace).filter(|namespace| namespace.is_whole)?;
        Some(take(&namespace.job))
    }

    /// The jobs of which all data is cached; none in a child that cannot tell.
    pub fn jobs(&self) -> Vec<Nspace> {
        let Ok(namespaces) = self.namespaces.read() else { return Vec::new() };
        let whole = namespaces.iter().filter(|(_, namespace)| namespace.is_whole);
        let mut names: Vec<Nspace> = whole.map(|(nspace, _)| nspace.clone()).collect();
        names.sort();
        names
    }

    /// The cached values that a rank published.
    ///
    /// # Errors
    /// `NOMEM`.
    pub fn rank(&self, nspace: &[u8], rank: Rank) -> Result<Vec<(Key, Value)>> {
        let namespaces = self.namespaces.read()?;
        let published = namespaces.get(nspace).into_iter().flat_map(|namespace| namespace.modex.rank(rank));
        published.map(|(key, value)| Ok((key.clone(), value.copy()?))).collect()
    }

    fn with(&self, nspace: Nspace, change: impl FnOnce(&mut Namespace) -> Result<()>) -> Result<()> {
        let mut namespaces = self.namespaces.wait_write();
        let changed = change(namespaces.entry(nspace.clone()).or_insert_with(|| Namespace {
            job: JobData::new(nspace),
            is_whole: false,
            modex: ModexData::default(),
        }));
        self.has_any.store(true, Ordering::Relaxed);
        changed
    }
}

/// Merges newer data of a job into older data; the newer values win.
fn merge(job: &mut JobData, newer: JobData) -> Result<()> {
    job.session.extend(newer.session);
    job.job.extend(newer.job);
    for (appnum, values) in newer.apps {
        job.apps.entry(appnum).or_default().extend(values);
    }
    for node in newer.nodes {
        let is_same = |old: &pmix_dstore::job::Node| match (&old.nodeid, &node.nodeid) {
            _ if !node.hostname.is_empty() => old.hostname == node.hostname,
            (Some(old), Some(new)) => old == new,
            _ => false,
        };
        match job.nodes.iter_mut().find(|old| is_same(old)) {
            Some(old) => {
                old.nodeid = node.nodeid.or(old.nodeid);
                old.aliases.extend(node.aliases);
                old.values.extend(node.values);
            }
            None => job.nodes.push(node),
        }
    }
    job.procs.merge(newer.procs)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn get(known: &ReplyCache, nspace: &str, rank: Rank, key: &str) -> Option<Value> {
        let caller = Caller { rank: None, hostname: b"here" };
        let take = |value: ValueRef<'_>| value.to_value().unwrap();
        known.get(nspace.as_bytes(), rank, key.into(), &Selector::default(), &caller, take)
    }

    #[test]
    fn jobs_and_ranks_are_known_by_namespace_until_a_fence() {
        let known = ReplyCache::default();
        assert_eq!(get(&known, "other", Rank(0), "key"), None);
        let other = Nspace::new("other").unwrap();
        let mut job = JobData::new(other.clone());
        job.job.insert(keys::JOB_SIZE.into(), Value::Uint32(4));
        known.add_job(job, false).unwrap();
        known.add(&other, Rank(1), "key".into(), Value::Int(1).into()).unwrap();
        assert_eq!(get(&known, "other", Rank::WILDCARD, keys::JOB_SIZE), Some(Value::Uint32(4)));
        assert_eq!(get(&known, "other", Rank(1), keys::JOB_SIZE), Some(Value::Uint32(4)));
        assert_eq!(get(&known, "other", Rank(1), "key"), Some(Value::Int(1)));
        assert_eq!(get(&known, "other", Rank::UNDEF, "key"), Some(Value::Int(1)));
        assert_eq!(get(&known, "other", Rank(2), "key"), None);
        assert_eq!(get(&known, "unknown", Rank(1), "key"), None);
        known.forget_ranks();
        assert_eq!(get(&known, "other", Rank(1), "key"), None);
        assert_eq!(get(&known, "other", Rank(1), keys::JOB_SIZE), Some(Value::Uint32(4)));
    }

    #[test]
    fn a_second_reply_adds_to_the_first() {
        let known = ReplyCache::default();
        let other = Nspace::new("other").unwrap();
        let node = |name: &str, key: &'static str, value: i32| pmix_dstore::job::Node {
            hostname: name.into(),
            values: [(key.into(), Value::Int(value))].into(),
            ..Default::default()
        };
        let mut first = JobData::new(other.clone());
        first.nodes = vec![node("a", "pmix.x", 1), node("b", "pmix.x", 2)];
        first.procs.set(Rank(0), "pmix.r".into(), Value::Int(0)).unwrap();
        let mut second = JobData::new(other);
        second.nodes = vec![node("b", "pmix.y", 3), node("c", "pmix.y", 4)];
        second.procs.set(Rank(2), "pmix.r".into(), Value::Int(2)).unwrap();
        known.add_job(first, false).unwrap();
        assert!(known.job(b"other", |_| ()).is_none());
        known.add_job(second, true).unwrap();
        known
            .job(b"other", |job| {
                assert_eq!(job.nodes.len(), 3);
                assert_eq!(job.nodes[1].values.len(), 2);
                assert_eq!(job.procs.get(Rank(0), b"pmix.r"), Some((&Value::Int(0)).into()));
                assert_eq!(job.procs.get(Rank(2), b"pmix.r"), Some((&Value::Int(2)).into()));
            })
            .unwrap();
    }
}
