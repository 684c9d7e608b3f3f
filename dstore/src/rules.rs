//! Which realm answers a `PMIx_Get`: the rules of RFC0009 and the standard's server chapter.
//!
//! The key's class, more than the rank, chooses the realm: real programs ask for job-level keys with a rank and for
//! node-level keys with the wildcard. The server uses these rules for what it answers over the socket, the client for
//! what it reads itself.

use crate::model::{KeyRef, Rank, ValueRef, keys};

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

/// A store of job data, in the heap or in a segment.
pub trait JobLookup {
    /// A key of this store, found once and used for several realms.
    type Key<'a>: Copy;

    /// The store's own handle for a key and the realms that hold it; `None` where no realm does.
    fn find_key<'a>(&self, key: KeyRef<'a>) -> Option<(Self::Key<'a>, RealmMask)>;

    /// The value of a key in one instance of a realm: `row` is 0 for session and job, otherwise as
    /// [`JobLookup::app_row`] and [`JobLookup::node_row_by_id`] say, and the rank for processes.
    fn value(&self, realm: Realm, row: u32, key: Self::Key<'_>) -> Option<ValueRef<'_>>;

    /// The row of an application.
    fn app_row(&self, appnum: u32) -> Option<u32>;

    /// The row of a node by its number.
    fn node_row_by_id(&self, nodeid: u32) -> Option<u32>;

    /// The row of a node by its name or one of its aliases.
    fn node_row_by_name(&self, name: &[u8]) -> Option<u32>;

    /// How many applications are known.
    fn app_count(&self) -> u32;

    /// How many nodes are known; their rows are `0..node_count`.
    fn node_count(&self) -> u32;

    /// How many processes the job has.
    fn proc_count(&self) -> u32;
}

/// What a caller said, beside key and rank, about where to look.
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
    /// `PMIX_APPNUM` as a qualifier.
    pub appnum: Option<u32>,
    /// `PMIX_NODEID` as a qualifier.
    pub nodeid: Option<u32>,
    /// `PMIX_HOSTNAME` as a qualifier, without a NUL.
    pub hostname: Option<&'a [u8]>,
}

/// Who asks: what "my node" and "my application" mean.
#[derive(Clone, Copy, Debug)]
pub struct Caller<'a> {
    /// The caller's rank where the job is its own.
    pub rank: Option<Rank>,
    /// The name of the caller's node.
    pub hostname: &'a [u8],
}

/// The realm that the standard gives a reserved key, where it gives one.
fn class_of(key: &KeyRef<'_>) -> Option<Realm> {
    let text = key.text().strip_prefix(b"pmix.")?;
    const fn tail(key: &'static str) -> &'static [u8] {
        key.as_bytes().split_at(5).1
    }
    macro_rules! classes {
        ($($realm:ident: $($key:ident)+;)+) => {
            $($(const $key: &[u8] = tail(keys::$key);)+)+
            match text {
                $($($key)|+ => Some(Realm::$realm),)+
                _ => None,
            }
        };
    }
    classes! {
        Session: SESSION_ID CLUSTER_ID UNIV_SIZE RM_NAME RM_VERSION;
        Job: JOBID JOB_SIZE JOB_NUM_APPS NPROC_OFFSET MAX_PROCS NUM_SLOTS NUM_NODES NODE_MAP PROC_MAP NODE_MAP_RAW
            PROC_MAP_RAW ANL_MAP NODE_LIST ALLOCATED_NODELIST NUM_ALLOCATED_NODES NSDIR MAPBY RANKBY BINDTO
            SERVER_NSPACE SERVER_RANK;
        App: APP_SIZE APPLDR APP_ARGV WDIR APP_MAP_TYPE APP_MAP_REGEX PSET_NAMES;
        Node: LOCAL_SIZE LOCAL_PEERS LOCALLDR LOCAL_CPUSETS LOCAL_PROCS NODE_SIZE AVAIL_PHYS_MEMORY HOSTNAME_ALIASES
            NODE_OVERSUBSCRIBED;
        Proc: RANK GLOBAL_RANK APP_RANK LOCAL_RANK NODE_RANK PACKAGE_RANK APPNUM PROCDIR CPUSET CPUSET_BITMAP
            LOCALITY_STRING PROC_PID REINCARNATION SPAWNED PARENT_ID EXIT_CODE HOSTNAME NODEID;
    }
}

/// Finds the value of `key` for `rank` in the data of one job.
///
/// A rank of a process asks for that process; the wildcard and undefined ranks ask for the job. Selectors override
/// the class of the key.
pub fn find<'s, S: JobLookup>(
    store: &'s S,
    rank: Rank,
    key: KeyRef<'_>,
    selector: &Selector<'_>,
    caller: &Caller<'_>,
) -> Option<ValueRef<'s>> {
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
    let order: &[Realm] = match class_of(&key) {
        Some(Realm::Session) => &[Realm::Session, Realm::Job],
        Some(Realm::Job) => &[Realm::Job, Realm::Session],
        Some(Realm::App) => &[Realm::App, Realm::Job, Realm::Proc],
        Some(Realm::Node) => &[Realm::Node, Realm::Job, Realm::Proc],
        Some(Realm::Proc) if rank.is_process() => &[Realm::Proc],
        Some(Realm::Proc) => &[Realm::Job, Realm::Node],
        None if rank.is_process() => &[Realm::Proc, Realm::Job, Realm::Session, Realm::Node, Realm::App],
        None => &[Realm::Job, Realm::Session, Realm::Node, Realm::App],
    };
    order.iter().find_map(|realm| look(*realm))
}

/// The application meant: the one named, else that of the rank asked about, else the caller's, else the only one.
fn app_row<S: JobLookup>(store: &S, rank: Rank, selector: &Selector<'_>, caller: &Caller<'_>) -> Option<u32> {
    if let Some(appnum) = selector.appnum {
        return store.app_row(appnum);
    }
    let of_rank = if rank.is_process() { Some(rank) } else { caller.rank };
    let appnum = of_rank.and_then(|rank| proc_number(store, rank, keys::APPNUM));
    match appnum {
        Some(appnum) => store.app_row(appnum),
        None if store.app_count() == 1 => store.app_row(0),
        None => None,
    }
}

/// The node meant: the one named, else the caller's own; where the caller is not of the job, its host's.
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

/// The row of the node that a rank runs on.
pub fn node_row_of<S: JobLookup>(store: &S, rank: Rank) -> Option<u32> {
    if let Some(row) = proc_number(store, rank, keys::NODEID).and_then(|nodeid| store.node_row_by_id(nodeid)) {
        return Some(row);
    }
    let (handle, _) = store.find_key(KeyRef::from(keys::HOSTNAME))?;
    match store.value(Realm::Proc, rank.0, handle)? {
        ValueRef::Str(Some(name)) => store.node_row_by_name(name.to_bytes()),
        _ => None,
    }
}

fn proc_number<S: JobLookup>(store: &S, rank: Rank, key: &str) -> Option<u32> {
    let (handle, realms) = store.find_key(KeyRef::from(key))?;
    if !realms.has(Realm::Proc) {
        return None;
    }
    match store.value(Realm::Proc, rank.0, handle)? {
        ValueRef::Scalar { bits, .. } => u32::try_from(bits).ok(),
        _ => None,
    }
}
