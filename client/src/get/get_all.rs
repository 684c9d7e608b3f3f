//! A Get without a key: all values of a rank, or of a job, as an array of infos.

use pmix_dstore::codec::ValueRef;
use pmix_dstore::compression;
use pmix_dstore::model::{Info, Key, KeyRef, Kval, Proc, Rank, Result, Status, Value, keys};
use pmix_dstore::realm_resolution::{JobLookup, Realm};
use pmix_dstore::{fallible_alloc, qualified};

use crate::client::Inner;
use crate::local::Local;
use crate::pin::Reader;

/// Each instance of these realms is returned as an array of its values.
const ARRAYS: [&str; 3] = [keys::SESSION_INFO_ARRAY, keys::APP_INFO_ARRAY, keys::NODE_INFO_ARRAY];
/// Keys that transport values of other processes; a Get of all values leaves them out.
const TRANSPORT_KEYS: [&str; 3] = [keys::PROC_BLOB, keys::MAP_BLOB, keys::BFROPS_MODULE];

/// Collects values; the first value of each key wins.
#[derive(Default)]
struct AllValues {
    infos: Vec<Info>,
    qualified: Option<Value>,
}

impl AllValues {
    /// Adds a value.
    ///
    /// # Errors
    /// `NOMEM`.
    fn add(&mut self, key: Key, value: Value) -> Result<()> {
        if qualified::is_key(&key) {
            self.qualified = Some(qualified::merge(Some(&value), self.qualified.as_ref().unwrap_or(&value))?);
            return Ok(());
        }
        let is_one_of = |keys: &[&str]| keys.iter().any(|name| key.is(name));
        if is_one_of(&TRANSPORT_KEYS) || !is_one_of(&ARRAYS) && self.infos.iter().any(|info| info.key == key) {
            return Ok(());
        }
        let value = match compression::expand(&value) {
            Ok(expanded) => expanded.unwrap_or(value),
            Err(Status::ERR_NOMEM) => return Err(Status::ERR_NOMEM),
            Err(_) => value,
        };
        fallible_alloc::push(&mut self.infos, Info { key, flags: 0, value })
    }

    /// Removes values of deleted keys, which caches and segments may still hold.
    pub fn leave_out(&mut self, deleted: &[Key]) {
        self.infos.retain(|info| !deleted.contains(&info.key));
    }

    fn add_ref(&mut self, key: &KeyRef<'_>, value: ValueRef<'_>) -> Result<()> {
        match Key::new(key.text()) {
            Ok(key) => self.add(key, value.to_value()?),
            Err(_) => Ok(()),
        }
    }

    /// Adds the job's values that this process can read itself. `values` returns those of one instance of a realm.
    fn add_job<'a, K: Into<KeyRef<'a>>, V: Into<ValueRef<'a>>, I: IntoIterator<Item = (K, V)>>(
        &mut self,
        apps: impl Iterator<Item = u32>,
        nodes: u32,
        values: impl Fn(Realm, u32) -> I,
    ) -> Result<()> {
        for (key, value) in values(Realm::Job, 0) {
            self.add_ref(&key.into(), value.into())?;
        }
        let sessions = [(Realm::Session, 0)].into_iter();
        let others = apps.map(|row| (Realm::App, row)).chain((0..nodes).map(|row| (Realm::Node, row)));
        for (realm, row) in sessions.chain(others) {
            let mut one = AllValues::default();
            for (key, value) in values(realm, row) {
                one.add_ref(&key.into(), value.into())?;
            }
            if !one.infos.is_empty() {
                let key = match realm {
                    Realm::Session => keys::SESSION_INFO_ARRAY,
                    Realm::App => keys::APP_INFO_ARRAY,
                    _ => keys::NODE_INFO_ARRAY,
                };
                self.add(key.into(), one.into_value()?)?;
            }
        }
        Ok(())
    }

    /// The collected values as an array of infos.
    ///
    /// # Errors
    /// `NOMEM`.
    fn into_value(mut self) -> Result<Value> {
        for value in self.qualified.as_ref().map_or(&[][..], qualified::each) {
            fallible_alloc::push(&mut self.infos, Info::new(keys::QUALIFIED_VALUE, value.copy()?))?;
        }
        Ok(Value::infos(self.infos))
    }
}

impl Inner {
    /// All values of a rank as an array of infos. In order of precedence: own values, the server's reply, earlier
    /// replies, segments.
    ///
    /// # Errors
    /// `NOMEM`; as [`Overlay::rank`](crate::overlay::Overlay::rank).
    pub(super) fn all_values(&self, of: Proc, objects: Vec<(Proc, Vec<Kval>)>) -> Result<Value> {
        let mut all = AllValues::default();
        for (key, value) in self.local.overlay.rank(of.nspace.as_bytes(), of.rank)? {
            all.add(key, value.copy()?)?;
        }
        let replied: Vec<Kval> =
            objects.into_iter().filter(|(proc, _)| *proc == of).flat_map(|(_, kvals)| kvals).collect();
        // For a job the server's reply is complete.
        let is_whole = !of.rank.is_process() && !replied.is_empty();
        replied.into_iter().try_for_each(|Kval { key, value }| all.add(key, value))?;
        for (key, value) in self.local.reply_cache.rank(of.nspace.as_bytes(), of.rank)? {
            all.add(key, value)?;
        }
        if !is_whole {
            self.local.add_all_values(&of, &mut all)?;
        }
        if of == self.me {
            all.leave_out(&self.local.overlay.deleted()?);
        }
        all.into_value()
    }
}

impl Local {
    /// Adds the mapped values of a process of the own namespace, or at the wildcard rank of the job.
    ///
    /// # Errors
    /// `NOMEM`.
    fn add_all_values(&self, of: &Proc, all: &mut AllValues) -> Result<()> {
        if !self.is_own(of.nspace.as_bytes()) {
            return Ok(());
        }
        let reader = Reader::new(None);
        if let Some(view) = self.view(reader.reading()).filter(|_| of.rank.is_process()) {
            view.modex_rank(of.rank).try_for_each(|(key, value)| all.add_ref(&key, value))?;
        }
        match (self.mapped_job(reader.reading()), &self.job) {
            (Some(job), _) if of.rank.is_process() => {
                job.values(Realm::Proc, of.rank.0).try_for_each(|(key, value)| all.add_ref(&key, value))
            }
            (None, Some(job)) if of.rank.is_process() => {
                job.procs.row(of.rank).try_for_each(|(key, value)| all.add_ref(&key.into(), value))
            }
            (Some(job), _) if of.rank == Rank::WILDCARD => {
                all.add_job(0..job.app_count(), job.node_count(), |realm, row| job.values(realm, row))
            }
            (None, Some(job)) if of.rank == Rank::WILDCARD => {
                all.add_job(job.apps.keys().copied(), job.node_count(), |realm, row| job.values(realm, row))
            }
            _ => Ok(()),
        }
    }
}
