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
    /// Get a rank's value; one that was deleted as this version must not be found.
    Get { owner: usize, key: u8, has_timeout: bool, at_least: u32, deleted: u32 },
    /// Get in another way: all values, job values, at once.
    Read { kind: u8, owner: usize, at_least: u32 },
    /// Delete a value.
    Delete { key: u8 },
    /// Ask the host for a service.
    Serve { kind: u8, number: u32, is_lost: bool },
    /// Ask what is known.
    Query { kind: u8, about: usize, is_lost: bool },
    /// Want the output of processes: the pull of this number.
    Pull(usize),
    /// Want it no more.
    StopPull(usize),
    /// Send input to a process.
    Push { number: u32, target: usize },
    /// Have something watched.
    Watch { kind: u8 },
    /// Have nothing watched any more.
    Unwatch,
    /// Deregister from an event.
    Unregister { code: u8 },
    /// Leave the group that an operation formed.
    Leave(usize),
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
    /// The end, or the end of one cycle.
    Finalize { returns: bool },
}

/// What a process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A rank of a job.
    Rank,
    /// A tool, with the number of its kind.
    Tool(u8),
    /// A server's own process.
    Server,
}

impl Call {
    /// Whether the rank waits for the reply before its next call.
    pub fn blocks(&self) -> bool {
        matches!(
            self,
            Call::Commit { .. } | Call::Delete { .. } | Call::Enter(_) | Call::Spawn { .. } | Call::Finalize { .. }
        )
    }
}

/// A rank, with its connection.
pub struct Rank {
    /// Its name.
    pub proc: Proc,
    /// What it is.
    pub role: Role,
    /// How often it has finalized and come back: each time with a new connection.
    pub cycle: u64,
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
    /// The server has seen its handshake, in this cycle.
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
    /// Events that it was ever registered for.
    pub ever: HashSet<u8>,
    /// Events that it got.
    pub got: HashSet<usize>,
    /// The values that it has been told to publish.
    pub published: u32,
    /// Keys that it has deleted and not put again; whether that is answered.
    pub deleted: BTreeMap<u8, bool>,
    /// Its connection is over the Unix socket, by our own library.
    pub is_ours: bool,
    /// It sends what nobody can read.
    pub is_garbling: bool,
    /// It has finalized, and will come back.
    pub returns: bool,
    /// It watches something that goes on for ever.
    pub watches: bool,
    /// Its library is ours, which maps the segments.
    pub shares: bool,
    /// The first connection of its server's life to which it is connected.
    pub life: u64,
    /// Its secret, in seeds with restarts.
    pub secret: Option<Vec<u8>>,
    /// The requests that it has sent and that are not answered, by tag; in seeds with restarts.
    pub sent: BTreeMap<u32, Vec<u8>>,
    /// The index of its connection to the server that was killed, until it is let in again.
    pub former: Option<u32>,
    /// When it does not wait any longer for the next server.
    pub gives_up: Option<u64>,
    /// It can connect to the next server.
    pub can_return: bool,
    /// Its server counts it as lost, though it has finalized.
    pub is_missed: bool,
    /// The host has deregistered it.
    pub is_deregistered: bool,
    /// It was killed in its finalize: for its server it may come back.
    pub ends_unseen: bool,
}

impl Rank {
    /// A rank that has not begun.
    pub fn new(proc: Proc, job: usize, server: usize, user: u32) -> Rank {
        Rank {
            shares: proc.rank.0.is_multiple_of(2),
            proc,
            role: Role::Rank,
            cycle: 0,
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
            ever: HashSet::new(),
            got: HashSet::new(),
            published: 0,
            deleted: BTreeMap::new(),
            is_ours: false,
            is_garbling: false,
            returns: false,
            watches: false,
            life: 0,
            secret: None,
            sent: BTreeMap::new(),
            former: None,
            gives_up: None,
            can_return: true,
            is_missed: false,
            is_deregistered: false,
            ends_unseen: false,
        }
    }

    /// A tool that is to come, by its kind.
    pub fn tool(proc: Proc, job: usize, server: usize, user: u32, kind: u8) -> Rank {
        let role = Role::Tool(kind);
        Rank { role, program: VecDeque::new(), put: BTreeMap::new(), ..Rank::new(proc, job, server, user) }
    }

    /// A server's own process, which is there from the start.
    pub fn of_server(proc: Proc, job: usize, server: usize, user: u32) -> Rank {
        let rank =
            Rank { role: Role::Server, is_admitted: true, has_connected: true, ..Rank::new(proc, job, server, user) };
        Rank { program: VecDeque::new(), put: BTreeMap::new(), ..rank }
    }

    /// The version of its library: ours, and two released ones.
    fn release(&self) -> (Module, &'static str) {
        if self.role == Role::Server {
            return (Module::V41, pmix_server::simulate::RELEASE);
        }
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
            gds: if self.shares { STORE.into() } else { "hash".into() },
            infos: Vec::new(),
        }
    }

    /// How it packs.
    pub fn dialect(&self) -> Dialect {
        match self.role {
            Role::Server => Dialect::plain(Module::V41),
            _ => self.hello().dialect(self.version()),
        }
    }

    /// Its release.
    pub fn version(&self) -> Version {
        Version::parse(self.release().1).unwrap_or(Version::OURS)
    }
}

/// Keys from here on are deleted, too.
pub const FLEETING: u8 = 6;

/// The forms of groups: plain; with what members send each other; with an event for the end of a member; going on without members that end;
/// of one server's processes; of leaders that know only their number; of one who adds the others.
pub const GROUP_FORMS: u8 = 7;
pub const SENDING: u8 = 1;
pub const TELLING: u8 = 2;
pub const FAULT_TOLERANT: u8 = 3;
pub const LOCAL_ONLY: u8 = 4;
pub const BOOTSTRAP: u8 = 5;
pub const ADDED: u8 = 6;

/// The forms of connects: plain; with an event for each who comes; with one that asks for the others; without those who have ended; without
/// an event for who ends; an exchange alone.
pub const CONNECT_FORMS: u8 = 6;
pub const NOTICE: u8 = 1;
pub const REQUEST: u8 = 2;
pub const OPTIONAL: u8 = 3;
pub const EARLY: u8 = 4;
pub const EXCHANGE: u8 = 5;

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
    /// It names the ranks of its node by what they are.
    pub is_of_node: bool,
    /// The host does not answer in time.
    pub is_lost: bool,
    /// The operation that must have succeeded before.
    pub after: Option<usize>,
    /// The results.
    pub results: BTreeMap<usize, Status>,
    /// The groups that members were told of.
    pub groups: Vec<(Vec<Proc>, Option<u64>)>,
    /// Something else is to be done with its group.
    pub is_dissolved: bool,
    /// What each member had committed when it entered.
    pub committed: HashMap<usize, BTreeMap<u8, u32>>,
}

/// The kind of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A fence; whether it collects.
    Fence { collects: bool },
    /// A group is formed, in one of several forms.
    Construct { has_context: bool, form: u8 },
    /// It is dissolved.
    Destruct,
    /// A connect, in one of several forms.
    Connect { form: u8 },
    /// Its disconnect.
    Disconnect { form: u8 },
}
