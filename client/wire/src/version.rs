//! Releases of PMIx libraries, and their differences on the wire.

use std::fmt;

use pmix_dstore::codec::Untyped;

/// The release of a peer's library. Alphas and release candidates count as the release.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Version {
    /// Major number.
    pub major: u32,
    /// Minor number.
    pub minor: u32,
    /// Release number.
    pub release: u32,
}

impl Version {
    /// The release whose protocol this library speaks and announces.
    pub const OURS: Version = Version::new(4, 2, 2);

    /// The release `major.minor.release`.
    pub const fn new(major: u32, minor: u32, release: u32) -> Version {
        Version { major, minor, release }
    }

    /// Parses a version, for example `4.2.2rc2`, `v6.1.0` or `7.0.0a1`; a missing number counts as 0.
    pub fn parse(text: &str) -> Option<Version> {
        let text = text.trim().trim_start_matches('v');
        let mut numbers = text.split('.').map(|part| {
            let digits = part.find(|c: char| !c.is_ascii_digit()).unwrap_or(part.len());
            part[..digits].parse().ok()
        });
        let major = numbers.next()??;
        let mut next = || numbers.next().flatten().unwrap_or(0);
        Some(Version { major, minor: next(), release: next() })
    }

    /// How a peer packs arrays without a type.
    pub fn untyped_arrays(self) -> Untyped {
        match self {
            _ if self < Version::new(6, 1, 0) => Untyped::Counted,
            _ if self.major < 7 => Untyped::Either,
            _ => Untyped::Bare,
        }
    }

    /// Whether a server expects the time in a log request.
    pub(crate) fn takes_log_timestamp(self) -> bool {
        self >= Version::new(3, 0, 0)
    }

    /// Whether a client reads session values as an array. Older ones expect them as plain job-level values.
    pub(crate) fn reads_session_arrays(self) -> bool {
        self >= Version::new(4, 2, 0)
    }

    /// Whether a client reads node values under the node array's key. Older ones expect the hostname as the key.
    pub(crate) fn reads_node_arrays(self) -> bool {
        self >= Version::new(3, 1, 100)
    }

    /// Whether a peer can read compressed strings. Releases before 5.0 crash on one.
    pub fn reads_compressed_strings(self) -> bool {
        self.major >= 5
    }

    /// Whether two messages list a group's members: the request that destructs the group, and the reply to its
    /// construction.
    pub fn names_group_members(self) -> bool {
        self >= Version::new(4, 2, 4)
    }

    /// Whether the reply to a group's construction has a flag for the context id, and carries infos.
    pub(crate) fn has_long_group_reply(self) -> bool {
        self.major >= 6
    }

    /// Whether what members of a group send each other begins with their names, and endpoint data is among it.
    pub fn takes_group_data(self) -> bool {
        self.major >= 6
    }

    /// Whether keys can be deleted, and the server notifies clients of keys that others have deleted.
    pub fn deletes_keys(self) -> bool {
        self.major >= 7
    }

    /// Whether a process that pushes input can be told to pause and to resume. Older ones give up input that is not answered with
    /// success.
    pub fn controls_input(self) -> bool {
        self.major >= 7
    }

    /// Whether connect requests may carry endpoint and job data.
    pub(crate) fn takes_connect_data(self) -> bool {
        self.major >= 6
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.release)
    }
}
