//! A host's registration of a job, sorted into realms, in the heap of one process.
//!
//! The server fills it from `PMIx_server_register_nspace` and builds the job segment from it; a client without
//! shared memory fills it from the server's job-info reply. Both are read by the same [`realm_resolution`](crate::realm_resolution).

mod arrays;
mod check;
mod derive;
mod placement;
mod procs;
mod refused;
mod register;
mod sessions;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use crate::codec::ValueRef;
use crate::maps;
use crate::model::{Key, KeyRef, Nspace, Rank, Value};
use crate::realm_resolution::{JobLookup, Realm, RealmMask};

pub use arrays::{KeyText, LentInfos, ProcArrays};
pub(crate) use procs::Formula;
pub use procs::{Column, ProcTable};
#[cfg(feature = "builder")]
pub(crate) use procs::{FullColumn, Piece, Piecewise};
pub use refused::Refused;
pub use register::{Given, OtherJob, other_jobs};
pub use sessions::Taken;

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
    /// Whether the host registered the node itself, instead of only naming it in a map or as the node of a rank.
    pub is_given: bool,
    /// Keys of derived values.
    pub derived: Vec<&'static str>,
}

/// The host's node map and process map.
#[derive(Clone, Debug, Default, PartialEq)]
struct Maps {
    /// The nodes in their order.
    nodes: Option<Vec<Vec<u8>>>,
    /// The ranks of each of them.
    procs: Option<Vec<Vec<u32>>>,
}

/// Keys of derived values outside nodes and processes, which record their own.
#[derive(Clone, Debug, Default, PartialEq)]
struct Derived {
    /// Session values from other jobs' registrations.
    session: BTreeSet<Key>,
    /// Resources, which all jobs have.
    resources: BTreeSet<Key>,
    job: Vec<&'static str>,
    apps: BTreeMap<u32, Vec<&'static str>>,
    /// Whether each node with ranks lists those of the process map, as [`maps::write_ranks`] writes them.
    peers: bool,
}

/// All that is registered about one job.
#[derive(Clone, Debug, PartialEq)]
pub struct JobData {
    /// The job's namespace.
    pub nspace: Nspace,
    /// Values of the job's session.
    pub session: Values,
    /// Values of sessions that the job is not of, by `PMIX_SESSION_ID`.
    pub other_sessions: BTreeMap<u32, Values>,
    /// Job-level values.
    pub job: Values,
    /// Application-level values by `PMIX_APPNUM`.
    pub apps: BTreeMap<u32, Values>,
    /// The nodes, in the order of the node map.
    pub nodes: Vec<Node>,
    /// Process-level values.
    pub procs: ProcTable,
    maps: Maps,
    derived: Derived,
}

impl JobData {
    /// Nothing known yet of `nspace`.
    pub fn new(nspace: Nspace) -> JobData {
        JobData {
            nspace,
            session: Values::new(),
            other_sessions: BTreeMap::new(),
            job: Values::new(),
            apps: BTreeMap::new(),
            nodes: Vec::new(),
            procs: ProcTable::default(),
            maps: Maps::default(),
            derived: Derived::default(),
        }
    }

    /// All values of one instance of a realm; `row` as [`JobLookup::value`] has it.
    pub fn values(&self, realm: Realm, row: u32) -> Vec<(&Key, ValueRef<'_>)> {
        let values = match realm {
            Realm::Session => Some(&self.session),
            Realm::Job => Some(&self.job),
            Realm::App => self.apps.get(&row),
            Realm::Node => self.nodes.get(row as usize).map(|node| &node.values),
            Realm::Proc => return self.procs.row(Rank(row)).collect(),
        };
        values.into_iter().flatten().map(|(key, value)| (key, value.into())).collect()
    }

    /// The ranks of a node whose list of local peers is known to be made of them.
    #[cfg(feature = "builder")]
    pub(crate) fn mapped_peers(&self, row: usize) -> Option<&[u32]> {
        let mapped = self.maps.procs.as_ref().filter(|_| self.derived.peers)?.get(row)?;
        (!mapped.is_empty()).then_some(mapped)
    }

    /// Number of processes: `PMIX_JOB_SIZE` if known, otherwise the number of ranks up to the highest with a value.
    pub fn size(&self) -> u32 {
        let registered = self.job.get(crate::model::keys::JOB_SIZE.as_bytes()).and_then(Value::as_u32);
        registered.unwrap_or_else(|| self.procs.rows())
    }
}

/// The ranks in a node's list of local peers; `None` if the value is not a list of ranks.
fn peers_of(list: &Value) -> Option<Vec<u32>> {
    match list {
        Value::String(None) => Some(Vec::new()),
        list => maps::parse_ranks(list.as_text()?).ok(),
    }
}

impl JobLookup for JobData {
    type Key<'a> = KeyRef<'a>;

    fn find_key<'a>(&self, key: &KeyRef<'a>) -> Option<(KeyRef<'a>, RealmMask)> {
        // A heap store has no key table; every realm may hold the key.
        Some((*key, RealmMask::ALL))
    }

    fn value(&self, realm: Realm, row: u32, key: KeyRef<'_>) -> Option<ValueRef<'_>> {
        let text = key.text();
        let value = match realm {
            Realm::Proc => return self.procs.get(Rank(row), text),
            Realm::Session => self.session.get(text),
            Realm::Job => self.job.get(text),
            Realm::App => self.apps.get(&row)?.get(text),
            Realm::Node => self.nodes.get(row as usize)?.values.get(text),
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
