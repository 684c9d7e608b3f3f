//! A connected peer: its number, its transport, its user, and what it has asked for.

use std::collections::HashSet;

use pmix_dstore::codec::{Dialect, Module};
use pmix_dstore::model::{Info, Proc, Status, Value, keys};
use pmix_wire::{Hello, PeerKind, Version};

use super::limits::Unanswered;
use crate::access::User;
use crate::config::{ANNOUNCED_VERSION, Config};

/// One connection. Of two connections of a server no two have the same number, however many there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct PeerId(pub u64);

impl PeerId {
    /// The server process as its own client.
    pub const OWN: PeerId = PeerId(0);

    /// The index for the peer: a positive number that its library stores; this server does not use it.
    pub(super) fn index(self) -> u32 {
        (self.0 & 0x7fff_ffff) as u32
    }
}

/// How a peer has connected, and what the kernel or munge says of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transport {
    /// Over the Unix socket of a namespace; the kernel provides the user.
    Unix {
        /// Effective user of the other end.
        uid: u32,
        /// Its group.
        gid: u32,
        /// Its process id in this pid namespace; 0 if it has none.
        pid: i32,
    },
    /// Over TCP on loopback.
    Tcp {
        /// The user of the socket at the other end; `None` if this process cannot get it from the kernel.
        owner: Option<u32>,
    },
    /// Over TCP from another host, or by an address that other hosts reach; not identified.
    Remote,
    /// Over TCP, with a munge credential that has been decoded.
    Munge {
        /// The user that it was made for.
        uid: u32,
        /// Its group.
        gid: u32,
        /// It comes as [`Transport::Remote`]; otherwise on loopback.
        is_remote: bool,
        /// The credential was made for this server, and not for any.
        is_bound: bool,
    },
}

impl Transport {
    /// The user, by the word of the kernel or of munge.
    pub fn user(self) -> Option<u32> {
        match self {
            Transport::Unix { uid, .. } | Transport::Munge { uid, .. } => Some(uid),
            Transport::Tcp { owner } => owner,
            Transport::Remote => None,
        }
    }

    /// Whether the peer may be on another host.
    pub fn is_remote(self) -> bool {
        matches!(self, Transport::Remote | Transport::Munge { is_remote: true, .. })
    }

    /// The process id on this node: from the kernel, or else the peer's claim.
    pub(super) fn pid(self, hello: &Hello) -> Option<i32> {
        let said = || match Info::find(&hello.infos, keys::PROC_PID) {
            Some(Value::Pid(pid)) => Some(*pid),
            _ => None,
        };
        match self {
            Transport::Unix { pid, .. } => Some(pid),
            Transport::Tcp { .. } | Transport::Munge { is_remote: false, .. } => said(),
            // The number of a process of another host means nothing here.
            Transport::Remote | Transport::Munge { is_remote: true, .. } => None,
        }
        .filter(|pid| *pid > 0)
    }
}

/// A connected peer. Encoder, buffer type and store belong to the peer, not to its namespace.
pub(crate) struct Peer {
    pub proc: Proc,
    /// The user of its process.
    pub user: User,
    /// Its process id on this node, if known; it may be the peer's own claim.
    pub pid: Option<i32>,
    pub dialect: Dialect,
    /// Its release, parsed.
    pub version: Version,
    /// Its release, as in its handshake.
    pub version_text: String,
    /// Reads our segments.
    pub shared: bool,
    /// Event codes that it is registered for.
    pub codes: HashSet<Status>,
    /// Is registered for all events.
    pub default_events: bool,
    /// Has called finalize.
    pub finalized: bool,
    /// The handshake is answered.
    pub admitted: bool,
    /// The host has not launched it, and gets no report of its end.
    pub is_tool: bool,
    /// It may be on another host.
    pub is_remote: bool,
    /// Whether it gets notifications of deleted keys: it then removes its cached values of them.
    pub gets_deletions: bool,
    /// Whether it can be told to pause the input that it has for others.
    pub controls_input: bool,
    /// It has had input for others.
    pub has_pushed: bool,
    /// How often the host has resumed its input.
    pub resumed: u64,
    /// Requests with input whose replies wait until the host resumes input.
    pub held_input: Vec<u32>,
    /// Its unanswered requests.
    pub(super) unanswered: Unanswered,
}

impl Peer {
    /// The server process as its own client.
    pub fn own(config: &Config) -> Peer {
        Peer {
            proc: config.me.clone(),
            user: User { uid: config.uid, gid: Some(config.gid) },
            pid: None,
            dialect: Dialect::plain(Module::V41),
            version: Version::OURS,
            version_text: ANNOUNCED_VERSION.to_owned(),
            shared: false,
            codes: HashSet::new(),
            default_events: false,
            finalized: false,
            admitted: true,
            is_tool: false,
            is_remote: false,
            // The server's own client caches no values.
            gets_deletions: false,
            controls_input: true,
            has_pushed: false,
            resumed: 0,
            held_input: Vec::new(),
            unanswered: Unanswered::default(),
        }
    }

    /// A peer that has sent `hello` and has got no answer yet.
    pub fn new(proc: Proc, user: User, hello: &Hello) -> Peer {
        let is_ours = hello.psec == crate::SECURITY_NAME;
        Peer {
            proc,
            user,
            pid: None,
            dialect: hello.dialect(hello.release()),
            version: hello.release(),
            version_text: hello.version.clone(),
            shared: false,
            codes: HashSet::new(),
            default_events: false,
            finalized: false,
            admitted: false,
            is_tool: false,
            is_remote: false,
            gets_deletions: is_ours || hello.flag == PeerKind::Client as u8 && hello.release().deletes_keys(),
            controls_input: is_ours || hello.release().controls_input(),
            has_pushed: false,
            resumed: 0,
            held_input: Vec::new(),
            unanswered: Unanswered::default(),
        }
    }

    /// As the one who acts.
    pub(super) fn actor(&self) -> Actor {
        Actor { proc: self.proc.clone(), user: self.user }
    }
}

/// The process that acts, and its user.
#[derive(Clone, Debug)]
pub(super) struct Actor {
    pub proc: Proc,
    pub user: User,
}
