//! Realm resolution: which realm answers a `PMIx_Get`, by RFC0009 and the standard's server chapter.
//!
//! The key's default realm decides more than the rank does where to look: real programs request job-level keys with a rank, and
//! node-level keys with the wildcard. The server uses these rules for replies over the socket, the client for its own reads.

use xxhash_rust::const_xxh3::xxh3_64;

use crate::codec::ValueRef;
use crate::maps::{self, Ranks};
use crate::model::{DataType, Info, KeyRef, Rank, Result, Value, keys};
use crate::qualified;

/// The level at which a value is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Realm {
    /// The session (allocation).
    Session = 0,
    /// The job (namespace).
    Job = 1,
    /// One application of the job.
    App = 2,
    /// One node.
    Node = 3,
    /// One process.
    Proc = 4,
}

impl Realm {
    /// All realms, in the order of their codes.
    pub const ALL: [Realm; 5] = [Realm::Session, Realm::Job, Realm::App, Realm::Node, Realm::Proc];
}

/// A set of realms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RealmMask(pub u8);

impl RealmMask {
    /// Every realm.
    pub const ALL: RealmMask = RealmMask(0x1f);

    /// The mask with `realm` added.
    pub fn with(self, realm: Realm) -> RealmMask {
        RealmMask(self.0 | 1 << realm as u8)
    }

    /// Whether `realm` is in the mask.
    pub fn has(self, realm: Realm) -> bool {
        self.0 & 1 << realm as u8 != 0
    }
}

/// A key that gives a rank's location.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum RankLocationKey {
    /// `PMIX_NODEID`.
    NodeId,
    /// `PMIX_APPNUM`.
    AppNum,
    /// `PMIX_HOSTNAME`.
    Hostname,
}

impl RankLocationKey {
    /// All location keys, in the order of their codes.
    pub const ALL: [RankLocationKey; 3] = [RankLocationKey::NodeId, RankLocationKey::AppNum, RankLocationKey::Hostname];

    /// The key.
    pub const fn text(self) -> &'static str {
        match self {
            RankLocationKey::NodeId => keys::NODEID,
            RankLocationKey::AppNum => keys::APPNUM,
            RankLocationKey::Hostname => keys::HOSTNAME,
        }
    }
}

/// A store of job data, in the heap or in a segment.
pub trait JobLookup {
    /// A key of this store, found once and used for several realms.
    type Key<'a>: Copy;

    /// The store's own handle for a key and the realms that hold it; `None` if no realm does.
    fn find_key<'a>(&self, key: &KeyRef<'a>) -> Option<(Self::Key<'a>, RealmMask)>;

    /// The same for a location key. A store may have its handle cached.
    #[inline]
    fn find_location_key(&self, key: RankLocationKey) -> Option<(Self::Key<'static>, RealmMask)> {
        self.find_key(&KeyRef::from(key.text()))
    }

    /// The default realm of a reserved key that was found. Some stores have it in the key's entry.
    #[inline]
    fn default_realm(&self, key: &KeyRef<'_>, _found: Self::Key<'_>) -> Option<Realm> {
        default_realm_of(key)
    }

    /// The value of a key in one instance of a realm. `row` is 0 for session and job, the result of [`JobLookup::app_row`] or
    /// [`JobLookup::node_row_by_id`] for applications and nodes, and the rank for processes.
    fn value(&self, realm: Realm, row: u32, key: Self::Key<'_>) -> Option<ValueRef<'_>>;

    /// The row of an application.
    fn app_row(&self, appnum: u32) -> Option<u32>;

    /// The row of a node by its number.
    fn node_row_by_id(&self, nodeid: u32) -> Option<u32>;

    /// The row of a node by its name or one of its aliases.
    fn node_row_by_name(&self, name: &[u8]) -> Option<u32>;

    /// The ranks of a node in the order of its list of local peers, if the store knows them without that list.
    fn node_ranks(&self, _row: u32) -> Option<Ranks> {
        None
    }

    /// Number of known applications.
    fn app_count(&self) -> u32;

    /// Number of known nodes; their rows are `0..node_count`.
    fn node_count(&self) -> u32;

    /// Number of processes of the job.
    fn proc_count(&self) -> u32;
}

/// The directives of a Get that select where to look, besides key and rank.
#[derive(Clone, Copy, Debug, Default)]
pub struct Selector<'a> {
    /// `PMIX_SESSION_INFO`.
    pub session: bool,
    /// `PMIX_JOB_INFO`.
    pub job: bool,
    /// `PMIX_APP_INFO`.
    pub app: bool,
    /// `PMIX_NODE_INFO`.
    pub node: bool,
    /// `PMIX_SESSION_ID` as a qualifier; if it is set, `session` is set.
    pub session_id: Option<u32>,
    /// `PMIX_APPNUM` as a qualifier.
    pub appnum: Option<u32>,
    /// `PMIX_NODEID` as a qualifier.
    pub nodeid: Option<u32>,
    /// `PMIX_HOSTNAME` as a qualifier, without a NUL.
    pub hostname: Option<&'a [u8]>,
}

impl Selector<'_> {
    /// No directives.
    pub const NOTHING: Selector<'static> = Selector {
        session: false,
        job: false,
        app: false,
        node: false,
        session_id: None,
        appnum: None,
        nodeid: None,
        hostname: None,
    };

    /// Whether no directive is set.
    #[inline]
    pub fn is_empty(&self) -> bool {
        let named = self.appnum.is_some() | self.nodeid.is_some() | self.hostname.is_some();
        !(self.session | self.job | self.app | self.node | named)
    }
}

/// The caller, which determines "my node" and "my application".
#[derive(Clone, Copy, Debug)]
pub struct Caller<'a> {
    /// The caller's rank, if the job is the caller's own.
    pub rank: Option<Rank>,
    /// The name of the caller's node.
    pub hostname: &'a [u8],
}

/// The default realms of reserved keys.
const DEFAULT_REALM_KEYS: &[(Realm, &[&str])] = &[
    (
        Realm::Session,
        &[
            keys::SESSION_ID,
            keys::CLUSTER_ID,
            keys::UNIV_SIZE,
            keys::TMPDIR,
            keys::TDIR_RMCLEAN,
            keys::HOSTNAME_KEEP_FQDN,
            keys::RM_NAME,
            keys::RM_VERSION,
        ],
    ),
    (
        Realm::Job,
        &[
            keys::JOBID,
            keys::JOB_SIZE,
            keys::JOB_NUM_APPS,
            keys::NPROC_OFFSET,
            keys::MAX_PROCS,
            keys::NUM_SLOTS,
            keys::NUM_NODES,
            keys::NODE_MAP,
            keys::PROC_MAP,
            keys::NODE_MAP_RAW,
            keys::PROC_MAP_RAW,
            keys::ANL_MAP,
            keys::NODE_LIST,
            keys::ALLOCATED_NODELIST,
            keys::NUM_ALLOCATED_NODES,
            keys::NSDIR,
            keys::MAPBY,
            keys::RANKBY,
            keys::BINDTO,
            keys::SERVER_NSPACE,
            keys::SERVER_RANK,
        ],
    ),
    (
        Realm::App,
        &[
            keys::APP_SIZE,
            keys::APPLDR,
            keys::APP_ARGV,
            keys::WDIR,
            keys::APP_MAP_TYPE,
            keys::APP_MAP_REGEX,
            keys::PSET_NAMES,
        ],
    ),
    (
        Realm::Node,
        &[
            keys::LOCAL_SIZE,
            keys::LOCAL_PEERS,
            keys::LOCALLDR,
            keys::LOCAL_CPUSETS,
            keys::LOCAL_PROCS,
            keys::NODE_SIZE,
            keys::AVAIL_PHYS_MEMORY,
            keys::HOSTNAME_ALIASES,
            keys::NODE_OVERSUBSCRIBED,
        ],
    ),
    (
        Realm::Proc,
        &[
            keys::RANK,
            keys::GLOBAL_RANK,
            keys::APP_RANK,
            keys::LOCAL_RANK,
            keys::NODE_RANK,
            keys::PACKAGE_RANK,
            keys::APPNUM,
            keys::PROCDIR,
            keys::CPUSET,
            keys::CPUSET_BITMAP,
            keys::LOCALITY_STRING,
            keys::PROC_PID,
            keys::REINCARNATION,
            keys::SPAWNED,
            keys::PARENT_ID,
            keys::EXIT_CODE,
            keys::HOSTNAME,
            keys::NODEID,
        ],
    ),
];

/// A reserved key and its realm. The text is inline: a pointer would need a relocation in every process, and so a private copy of
/// the table's pages.
#[derive(Clone, Copy)]
struct DefaultRealm {
    hash: u64,
    realm: Realm,
    len: u8,
    text: [u8; RESERVED_KEY_LEN_MAX],
}

/// Length of the longest key with a realm; a longer key does not compile.
const RESERVED_KEY_LEN_MAX: usize = 22;

/// Slots of the table of default realms: a power of two, several times the number of keys.
const DEFAULT_REALM_SLOTS: usize = 256;

/// The default realms as an open-addressed table by the key's hash, built at compile time. Every Get reads it.
static DEFAULT_REALMS: [Option<DefaultRealm>; DEFAULT_REALM_SLOTS] = default_realms();

const fn default_realms() -> [Option<DefaultRealm>; DEFAULT_REALM_SLOTS] {
    let mut slots = [None; DEFAULT_REALM_SLOTS];
    let mut group = 0;
    while group < DEFAULT_REALM_KEYS.len() {
        let (realm, keys) = DEFAULT_REALM_KEYS[group];
        let mut index = 0;
        while index < keys.len() {
            let key = keys[index].as_bytes();
            let mut text = [0; RESERVED_KEY_LEN_MAX];
            text.split_at_mut(key.len()).0.copy_from_slice(key);
            let entry = DefaultRealm { hash: xxh3_64(key), realm, len: key.len() as u8, text };
            let mut slot = entry.hash as usize % DEFAULT_REALM_SLOTS;
            while slots[slot].is_some() {
                slot = (slot + 1) % DEFAULT_REALM_SLOTS;
            }
            slots[slot] = Some(entry);
            index += 1;
        }
        group += 1;
    }
    slots
}

/// The default realm of a reserved key, if it has one.
#[inline]
pub(crate) fn default_realm_of(key: &KeyRef<'_>) -> Option<Realm> {
    let mut slot = key.hash() as usize % DEFAULT_REALM_SLOTS;
    while let Some(entry) = &DEFAULT_REALMS[slot] {
        if entry.hash == key.hash() && entry.text.get(..usize::from(entry.len)) == Some(key.text()) {
            return Some(entry.realm);
        }
        slot = (slot + 1) % DEFAULT_REALM_SLOTS;
    }
    None
}

/// Finds the value of `key` for `rank` in the data of one job.
///
/// A Get with the rank of a process asks for that process; one with the wildcard or an undefined rank asks for the job. Selectors
/// override the default realm of the key. The fast path of a segment answers most Gets without this function:
/// [`JobReader::fast_value`](crate::segment::JobReader::fast_value).
pub fn find<'s, S: JobLookup>(
    store: &'s S,
    rank: Rank,
    key: &KeyRef<'_>,
    selector: &Selector<'_>,
    caller: &Caller<'_>,
) -> Option<ValueRef<'s>> {
    if selector.app && !selector.session && key.text() == keys::LOCAL_SIZE.as_bytes() {
        return local_size(store, rank, key, selector, caller);
    }
    let (handle, realms) = store.find_key(key)?;
    let look = |realm: Realm| -> Option<ValueRef<'s>> {
        if !realms.has(realm) {
            return None;
        }
        let row = match realm {
            Realm::Session | Realm::Job => 0,
            Realm::App => app_row(store, rank, selector, caller)?,
            Realm::Node => node_row(store, rank, selector, caller)?,
            Realm::Proc if rank.is_process() => rank.0,
            Realm::Proc => return None,
        };
        store.value(realm, row, handle)
    };
    if selector.session {
        if selector.session_id.is_some_and(|id| session_id(store) != Some(id)) {
            return None;
        }
        return look(Realm::Session).or_else(|| look(Realm::Job));
    }
    if selector.node || selector.nodeid.is_some() || selector.hostname.is_some() {
        return look(Realm::Node);
    }
    if selector.app || selector.appnum.is_some() {
        return look(Realm::App);
    }
    if selector.job {
        return look(Realm::Job).or_else(|| look(Realm::Session));
    }
    let order: &[Realm] = match store.default_realm(key, handle) {
        Some(Realm::Session) => &[Realm::Session, Realm::Job],
        Some(Realm::Job) => &[Realm::Job, Realm::Session],
        Some(Realm::App) => &[Realm::App, Realm::Job, Realm::Proc],
        Some(Realm::Node) => &[Realm::Node, Realm::Job, Realm::Proc],
        Some(Realm::Proc) if rank.is_process() => &[Realm::Proc],
        Some(Realm::Proc) => &[Realm::Job, Realm::Node],
        None if rank.is_process() => &[Realm::Proc, Realm::Job, Realm::Session, Realm::Node, Realm::App],
        None => &[Realm::Job, Realm::Session, Realm::Node, Realm::App],
    };
    order.iter().find_map(|realm| look(*realm)).or_else(|| look(Realm::Node).filter(|_| is_of_nodes_too(key)))
}

/// Whether a node can have its own directory under this key, instead of that of the session or the job.
fn is_of_nodes_too(key: &KeyRef<'_>) -> bool {
    [keys::TMPDIR, keys::NSDIR].iter().any(|name| key.text() == name.as_bytes())
}

/// Finds the value of `key` with the qualifiers among `infos`: of the rank, otherwise of its job.
///
/// # Errors
/// `NOMEM`.
pub fn find_qualified<S: JobLookup>(job: &S, rank: Rank, key: &[u8], infos: &[Info]) -> Result<Option<Value>> {
    let Some((handle, realms)) = job.find_key(&KeyRef::from(keys::QUALIFIED_VALUE)) else { return Ok(None) };
    let of_rank = (Realm::Proc, rank.0);
    for (realm, row) in Some(of_rank).filter(|_| rank.is_process()).into_iter().chain([(Realm::Job, 0)]) {
        let Some(all) = job.value(realm, row, handle).filter(|_| realms.has(realm)) else { continue };
        let unpacked;
        let all = match all {
            ValueRef::Owned(all) => all,
            packed => {
                unpacked = packed.to_value()?;
                &unpacked
            }
        };
        if let Some(value) = qualified::find(all, key, infos) {
            return Ok(Some(value.copy()?));
        }
    }
    Ok(None)
}

/// `PMIX_LOCAL_SIZE` of an application: the number of its processes on the selected node. The host's value, otherwise a count of
/// the node's ranks in the application. `key` is `PMIX_LOCAL_SIZE`.
fn local_size<'s, S: JobLookup>(
    store: &'s S,
    rank: Rank,
    key: &KeyRef<'_>,
    selector: &Selector<'_>,
    caller: &Caller<'_>,
) -> Option<ValueRef<'s>> {
    let app = app_row(store, rank, selector, caller)?;
    let said = store.find_key(key).filter(|(_, realms)| realms.has(Realm::App));
    if let Some(size) = said.and_then(|(handle, _)| store.value(Realm::App, app, handle)) {
        return Some(size);
    }
    let node = node_row(store, rank, selector, caller)?;
    let is_of_app = |rank: &Rank| {
        let appnum = proc_number(store, *rank, RankLocationKey::AppNum);
        appnum.is_some_and(|appnum| store.app_row(appnum) == Some(app))
    };
    let count = match store.node_ranks(node) {
        Some(ranks) => ranks.iter().filter(is_of_app).count(),
        None if has_no_ranks(store, node) => 0,
        None => {
            let (handle, realms) = store.find_key(&KeyRef::from(keys::LOCAL_PEERS))?;
            let peers = store.value(Realm::Node, node, handle).filter(|_| realms.has(Realm::Node))?;
            let peers = maps::parse_ranks(peers.to_value().ok()?.as_text()?).ok()?;
            peers.into_iter().map(Rank).filter(is_of_app).count()
        }
    };
    Some(ValueRef::Scalar { ty: DataType::UINT32, bits: count as u64 })
}

/// Whether a node is registered as one that has no ranks of the job.
pub fn has_no_ranks<S: JobLookup>(store: &S, node: u32) -> bool {
    let size = store.find_key(&KeyRef::from(keys::LOCAL_SIZE)).and_then(|(key, _)| store.value(Realm::Node, node, key));
    matches!(size, Some(ValueRef::Scalar { bits: 0, .. }))
}

/// The number of the job's session.
fn session_id<S: JobLookup>(store: &S) -> Option<u32> {
    let (handle, realms) = store.find_key(&KeyRef::from(keys::SESSION_ID))?;
    let of = |realm| store.value(realm, 0, handle).filter(|_| realms.has(realm));
    match of(Realm::Session).or_else(|| of(Realm::Job))? {
        ValueRef::Scalar { bits, .. } => u32::try_from(bits).ok(),
        value => value.to_value().ok()?.as_u32(),
    }
}

/// The selected application: the named one, else the rank's, else the caller's, else the only one.
fn app_row<S: JobLookup>(store: &S, rank: Rank, selector: &Selector<'_>, caller: &Caller<'_>) -> Option<u32> {
    if let Some(appnum) = selector.appnum {
        return store.app_row(appnum);
    }
    let of_rank = if rank.is_process() { Some(rank) } else { caller.rank };
    let appnum = of_rank.and_then(|rank| proc_number(store, rank, RankLocationKey::AppNum));
    match appnum {
        Some(appnum) => store.app_row(appnum),
        None if store.app_count() == 1 => store.app_row(0),
        None => None,
    }
}

/// The selected node: the named one; with `PMIX_NODE_INFO`, the node of the rank; else the caller's own node, by the caller's
/// rank in the job or by hostname.
fn node_row<S: JobLookup>(store: &S, rank: Rank, selector: &Selector<'_>, caller: &Caller<'_>) -> Option<u32> {
    if let Some(nodeid) = selector.nodeid {
        return store.node_row_by_id(nodeid);
    }
    if let Some(name) = selector.hostname {
        return store.node_row_by_name(name);
    }
    if selector.node
        && rank.is_process()
        && let Some(row) = node_row_of(store, rank)
    {
        return Some(row);
    }
    caller.rank.and_then(|rank| node_row_of(store, rank)).or_else(|| store.node_row_by_name(caller.hostname))
}

/// The row of a rank's node.
pub fn node_row_of<S: JobLookup>(store: &S, rank: Rank) -> Option<u32> {
    if let Some(row) = proc_number(store, rank, RankLocationKey::NodeId).and_then(|nodeid| store.node_row_by_id(nodeid))
    {
        return Some(row);
    }
    let (handle, _) = store.find_location_key(RankLocationKey::Hostname)?;
    match store.value(Realm::Proc, rank.0, handle)? {
        ValueRef::Str(Some(name)) => store.node_row_by_name(name.to_bytes()),
        _ => None,
    }
}

fn proc_number<S: JobLookup>(store: &S, rank: Rank, key: RankLocationKey) -> Option<u32> {
    let (handle, realms) = store.find_location_key(key)?;
    if !realms.has(Realm::Proc) {
        return None;
    }
    match store.value(Realm::Proc, rank.0, handle)? {
        ValueRef::Scalar { bits, .. } => u32::try_from(bits).ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reserved_key_has_its_realm_and_no_other_key_has_one() {
        for (realm, keys) in DEFAULT_REALM_KEYS {
            for key in *keys {
                assert_eq!(default_realm_of(&KeyRef::from(*key)), Some(*realm), "{key}");
                assert_eq!(default_realm_of(&KeyRef::new(&key.as_bytes()[1..])), None, "{key}");
            }
        }
        assert_eq!(default_realm_of(&KeyRef::from("btl.tcp.6.1")), None);
        assert_eq!(default_realm_of(&KeyRef::from("")), None);
        assert!(DEFAULT_REALMS.iter().flatten().count() < DEFAULT_REALM_SLOTS / 2, "searches end soon");
    }
}
