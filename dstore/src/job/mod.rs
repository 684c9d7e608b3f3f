//! What a host registered about a job, sorted into realms, in the heap of one process.
//!
//! The server fills it from `PMIx_server_register_nspace` and builds the job segment from it; a client without
//! shared memory fills it from the server's job-info reply. Both are read by the same [`rules`](crate::rules).

mod derive;
mod register;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use crate::model::{Key, KeyRef, Nspace, Rank, Result, Status, Value, ValueRef};
use crate::rules::{JobLookup, Realm, RealmMask};

/// Values of one realm instance by key, in a stable order.
pub type Values = BTreeMap<Key, Value>;

/// One node of a job.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Node {
    /// The node's number (`PMIX_NODEID`), where the host gave one.
    pub nodeid: Option<u32>,
    /// The node's name (`PMIX_HOSTNAME`), without a NUL.
    pub hostname: Vec<u8>,
    /// Its other names (`PMIX_HOSTNAME_ALIASES`).
    pub aliases: Vec<Vec<u8>>,
    /// All node-level values, hostname, aliases and node id included.
    pub values: Values,
}

/// Process-level values as columns: one per key, indexed by rank.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProcTable {
    columns: BTreeMap<Key, Vec<Option<Value>>>,
    rows: u32,
}

impl ProcTable {
    /// Ranks above this are refused: a wrong rank must not cost gigabytes.
    pub const RANK_MAX: u32 = 1 << 28;

    /// One more than the highest rank that has a value.
    pub fn rows(&self) -> u32 {
        self.rows
    }

    /// Sets the value of `key` for `rank`.
    ///
    /// # Errors
    /// `BAD_PARAM` for a special rank or one above [`ProcTable::RANK_MAX`].
    pub fn set(&mut self, rank: Rank, key: Key, value: Value) -> Result<()> {
        if rank.0 > Self::RANK_MAX {
            return Err(Status::ERR_BAD_PARAM);
        }
        let column = self.columns.entry(key).or_default();
        let row = rank.0 as usize;
        if column.len() <= row {
            column.resize(row + 1, None);
        }
        column[row] = Some(value);
        self.rows = self.rows.max(rank.0 + 1);
        Ok(())
    }

    /// The value of `key` for `rank`.
    pub fn get(&self, rank: Rank, key: &[u8]) -> Option<&Value> {
        self.columns.get(key)?.get(rank.0 as usize)?.as_ref()
    }

    /// The columns in key order; a column may be shorter than [`ProcTable::rows`].
    pub fn columns(&self) -> impl Iterator<Item = (&Key, &[Option<Value>])> {
        self.columns.iter().map(|(key, cells)| (key, cells.as_slice()))
    }

    /// The values of one rank in key order.
    pub fn row(&self, rank: Rank) -> impl Iterator<Item = (&Key, &Value)> {
        self.columns.iter().filter_map(move |(key, cells)| Some((key, cells.get(rank.0 as usize)?.as_ref()?)))
    }
}

/// All that is registered about one job.
#[derive(Clone, Debug, PartialEq)]
pub struct JobData {
    /// The job's namespace.
    pub nspace: Nspace,
    /// Session-level values.
    pub session: Values,
    /// Job-level values.
    pub job: Values,
    /// Application-level values by `PMIX_APPNUM`.
    pub apps: BTreeMap<u32, Values>,
    /// The nodes, in the order of the node map.
    pub nodes: Vec<Node>,
    /// Process-level values.
    pub procs: ProcTable,
}

impl JobData {
    /// Nothing known yet of `nspace`.
    pub fn new(nspace: Nspace) -> JobData {
        JobData {
            nspace,
            session: Values::new(),
            job: Values::new(),
            apps: BTreeMap::new(),
            nodes: Vec::new(),
            procs: ProcTable::default(),
        }
    }

    /// Number of processes: `PMIX_JOB_SIZE` where known, otherwise as many as have a value.
    pub fn size(&self) -> u32 {
        let registered = self.job.get(crate::model::keys::JOB_SIZE.as_bytes()).and_then(Value::as_u32);
        registered.unwrap_or_else(|| self.procs.rows())
    }
}

impl JobLookup for JobData {
    type Key<'a> = KeyRef<'a>;

    fn find_key<'a>(&self, key: KeyRef<'a>) -> Option<(KeyRef<'a>, RealmMask)> {
        // A heap store has no key table; every realm may hold the key.
        Some((key, RealmMask::ALL))
    }

    fn value(&self, realm: Realm, row: u32, key: KeyRef<'_>) -> Option<ValueRef<'_>> {
        let text = key.text();
        let value = match realm {
            Realm::Session => self.session.get(text),
            Realm::Job => self.job.get(text),
            Realm::App => self.apps.get(&row)?.get(text),
            Realm::Node => self.nodes.get(row as usize)?.values.get(text),
            Realm::Proc => self.procs.get(Rank(row), text),
        };
        value.map(ValueRef::from)
    }

    fn app_row(&self, appnum: u32) -> Option<u32> {
        self.apps.contains_key(&appnum).then_some(appnum)
    }

    fn node_row_by_id(&self, nodeid: u32) -> Option<u32> {
        let row = self.nodes.iter().position(|node| node.nodeid == Some(nodeid))?;
        Some(row as u32)
    }

    fn node_row_by_name(&self, name: &[u8]) -> Option<u32> {
        let row = self.nodes.iter().position(|node| node.hostname == name || node.aliases.iter().any(|a| a == name))?;
        Some(row as u32)
    }

    fn app_count(&self) -> u32 {
        self.apps.len() as u32
    }

    fn node_count(&self) -> u32 {
        self.nodes.len() as u32
    }

    fn proc_count(&self) -> u32 {
        self.size()
    }
}
