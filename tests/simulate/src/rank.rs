//! A rank: a small client over the wire's requests and replies, with a program of calls. Its calls go out in order; collectives, commits and
//! spawns block it, others do not.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

use pmix_dstore::codec::{BufferType, Dialect, Module};
use pmix_dstore::model::{Proc, Status};
use pmix_server::simulate::STORE;
use pmix_wire::{Hello, PeerKind, TAG_FIRST, Version};

/// A call of a rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call {
    /// Commit the version of a key that is the newest then.
    Commit { key: u8 },
    /// Enter an operation of several.
    Enter(usize),
    /// Get a rank's value.
    Get { owner: usize, key: u8, has_timeout: bool, at_least: u32 },
    /// Register for an event.
    Register { code: u8 },
    /// Report the event of this number.
    Notify(usize),
    /// Publish a value.
    Publish { key: u8 },
    /// Look one up.
    Lookup { key: u8, is_lost: bool },
    /// Start a job.
    Spawn { is_lost: bool },
    /// The end.
    Finalize,
}

impl Call {
    /// Whether the rank waits for the reply before its next call.
    pub fn blocks(&self) -> bool {
        matches!(self, Call::Commit { .. } | Call::Enter(_) | Call::Spawn { .. } | Call::Finalize)
    }
}

/// A rank, with its connection.
pub struct Rank {
    /// Its name.
    pub proc: Proc,
    /// The number of its job.
    pub job: usize,
    /// Its server.
    pub server: usize,
    /// Its user, and group.
    pub user: u32,
    /// It has not died, nor finalized.
    pub lives: bool,
    /// It died.
    pub has_died: bool,
    /// Its host knows that it ended.
    pub is_known_dead: bool,
    /// What it sends does not arrive any more.
    pub is_cut: bool,
    /// The server has seen its handshake.
    pub has_connected: bool,
    /// The server has let it in.
    pub is_admitted: bool,
    /// What it will call.
    pub program: VecDeque<Call>,
    /// What it has called, by tag.
    pub calls: BTreeMap<u32, Call>,
    /// The call that it waits for.
    pub blocked: Option<u32>,
    /// Its next tag.
    pub tag: u32,
    /// When the last message to the server arrives, and the last from it.
    pub arrivals: [u64; 2],
    /// Messages so far.
    pub messages: u64,
    /// The newest version of each key that it has put.
    pub put: BTreeMap<u8, u32>,
    /// The versions that the last fences brought.
    pub known: HashMap<(usize, u8), u32>,
    /// Events that it is registered for; whether that is answered.
    pub registered: BTreeMap<u8, bool>,
    /// Events that it got.
    pub got: HashSet<usize>,
    /// The values that it has been told to publish.
    pub published: u32,
}

impl Rank {
    /// A rank that has not begun.
    pub fn new(proc: Proc, job: usize, server: usize, user: u32) -> Rank {
        Rank {
            proc,
            job,
            server,
            user,
            lives: true,
            has_died: false,
            is_known_dead: false,
            is_cut: false,
            has_connected: false,
            is_admitted: false,
            program: VecDeque::from([Call::Commit { key: 5 }]),
            calls: BTreeMap::new(),
            blocked: None,
            tag: TAG_FIRST,
            arrivals: [0; 2],
            messages: 0,
            put: BTreeMap::from([(5, 1)]),
            known: HashMap::new(),
            registered: BTreeMap::new(),
            got: HashSet::new(),
            published: 0,
        }
    }

    /// The version of its library: ours, and two released ones.
    fn release(&self) -> (Module, &'static str) {
        match self.proc.rank.0 % 3 {
            1 => (Module::V41, "4.2.2"),
            2 => (Module::V61, "6.1.0"),
            _ => (Module::V41, "4.1.2"),
        }
    }

    /// Its handshake.
    pub fn hello(&self) -> Hello {
        let (module, version) = self.release();
        Hello {
            psec: "native".into(),
            credential: Hello::native_credential(self.user, self.user),
            flag: PeerKind::Client as u8,
            uid_gid: None,
            proc: Some(self.proc.clone()),
            version: version.into(),
            module,
            buffer: BufferType::NonDescribed,
            gds: if self.proc.rank.0.is_multiple_of(2) { STORE.into() } else { "hash".into() },
            infos: Vec::new(),
        }
    }

    /// How it packs.
    pub fn dialect(&self) -> Dialect {
        self.hello().dialect(self.version())
    }

    /// Its release.
    pub fn version(&self) -> Version {
        Version::parse(self.release().1).unwrap_or(Version::OURS)
    }
}

/// The scopes of the keys, as codes on the wire: local, remote, global.
pub fn scope_of(key: u8) -> u8 {
    key % 3 + 1
}

/// Whether a key's scope reaches a reader.
pub fn reaches(key: u8, is_same_node: bool) -> bool {
    match scope_of(key) {
        1 => is_same_node,
        2 => !is_same_node,
        _ => true,
    }
}

/// The text of a value, from which can be read whose it is.
pub fn value_text(proc: &Proc, key: u8, version: u32) -> String {
    format!("{proc} k{key} {version}")
}

/// The version in a value of this owner and key.
pub fn version_in(text: &[u8], proc: &Proc, key: u8) -> Option<u32> {
    let text = std::str::from_utf8(text).ok()?;
    text.strip_prefix(&format!("{proc} k{key} "))?.parse().ok()
}

/// An operation that several ranks enter.
pub struct Operation {
    /// Which.
    pub kind: Kind,
    /// Who enters it.
    pub members: Vec<usize>,
    /// It names a whole job.
    pub is_of_job: bool,
    /// The host does not answer in time.
    pub is_lost: bool,
    /// The operation that must have succeeded before.
    pub after: Option<usize>,
    /// The results.
    pub results: BTreeMap<usize, Status>,
    /// The groups that members were told of.
    pub groups: Vec<(Vec<Proc>, Option<u64>)>,
    /// What each member had committed when it entered.
    pub committed: HashMap<usize, BTreeMap<u8, u32>>,
}

/// The kind of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A fence; whether it collects.
    Fence { collects: bool },
    /// A group is formed.
    Construct { has_context: bool },
    /// It is dissolved.
    Destruct,
    /// A connect.
    Connect,
    /// A disconnect.
    Disconnect,
}
