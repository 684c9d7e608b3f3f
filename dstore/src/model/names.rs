//! Names of things: namespaces, ranks, processes and keys.

use std::borrow::{Borrow, Cow};
use std::fmt;
use std::sync::Arc;

use xxhash_rust::xxh3::xxh3_64;

/// Longest namespace in bytes, without the terminating NUL (`PMIX_MAX_NSLEN`).
pub const NSPACE_LEN_MAX: usize = 255;
/// Longest key in bytes, without the terminating NUL (`PMIX_MAX_KEYLEN`).
pub const KEY_LEN_MAX: usize = 511;

/// Why a name was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameError {
    /// The name has more bytes than the standard allows.
    TooLong {
        /// Bytes given.
        len: usize,
        /// Bytes allowed.
        len_max: usize,
    },
    /// The name holds a NUL byte.
    HoldsNul,
}

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NameError::TooLong { len, len_max } => write!(f, "name of {len} bytes, at most {len_max} are allowed"),
            NameError::HoldsNul => f.write_str("name holds a NUL byte"),
        }
    }
}

impl std::error::Error for NameError {}

fn check(bytes: &[u8], len_max: usize) -> Result<(), NameError> {
    if bytes.len() > len_max {
        return Err(NameError::TooLong { len: bytes.len(), len_max });
    }
    if bytes.contains(&0) {
        return Err(NameError::HoldsNul);
    }
    Ok(())
}

/// A namespace: the name of a job. At most 255 bytes; cheap to clone.
///
/// ```
/// use pmix_dstore::model::{NameError, Nspace};
///
/// let job = Nspace::new("slurm.pmix.17.0")?;
/// assert_eq!(job.as_bytes(), b"slurm.pmix.17.0");
/// assert_eq!(job.to_string(), "slurm.pmix.17.0");
/// // A namespace is a C string in 256 bytes.
/// assert!(Nspace::new("with\0a NUL").is_err() && Nspace::new([b'n'; 256]).is_err());
/// # Ok::<(), NameError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Nspace(Arc<[u8]>);

impl Nspace {
    /// A namespace of these bytes, which need not be UTF-8.
    pub fn new(bytes: impl AsRef<[u8]>) -> Result<Nspace, NameError> {
        let bytes = bytes.as_ref();
        check(bytes, NSPACE_LEN_MAX)?;
        Ok(Nspace(bytes.into()))
    }

    /// The bytes of the name, without a NUL.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Whether the name is empty: an unset namespace.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The names of the cluster and of the job on it, where this name has both: `CLUSTER:JOB` (RFC0003).
    pub fn split_cluster(&self) -> Option<(&[u8], &[u8])> {
        let colon = self.0.iter().position(|byte| *byte == b':')?;
        Some((&self.0[..colon], &self.0[colon + 1..]))
    }

    /// Whether the name begins with that of a cluster.
    pub fn has_cluster(&self) -> bool {
        self.split_cluster().is_some()
    }
}

impl fmt::Display for Nspace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.0))
    }
}

impl fmt::Debug for Nspace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", String::from_utf8_lossy(&self.0))
    }
}

impl Borrow<[u8]> for Nspace {
    fn borrow(&self) -> &[u8] {
        &self.0
    }
}

/// The rank of a process in its namespace, or one of the special ranks.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Rank(pub u32);

impl Rank {
    /// `PMIX_RANK_UNDEF`: no rank given.
    pub const UNDEF: Rank = Rank(u32::MAX);
    /// `PMIX_RANK_WILDCARD`: all ranks of the namespace, or its job-level data.
    pub const WILDCARD: Rank = Rank(u32::MAX - 1);
    /// `PMIX_RANK_LOCAL_NODE`: all ranks of the node.
    pub const LOCAL_NODE: Rank = Rank(u32::MAX - 2);
    /// `PMIX_RANK_INVALID`.
    pub const INVALID: Rank = Rank(u32::MAX - 3);
    /// `PMIX_RANK_LOCAL_PEERS`: the ranks of the namespace on the node.
    pub const LOCAL_PEERS: Rank = Rank(u32::MAX - 4);
    /// `PMIX_RANK_VALID`: ranks below this one are ranks of processes.
    pub const VALID_MAX: Rank = Rank(u32::MAX - 50);

    /// Whether this is the rank of one process.
    pub fn is_process(self) -> bool {
        self < Rank::VALID_MAX
    }
}

impl fmt::Display for Rank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Rank::UNDEF => f.write_str("undef"),
            Rank::WILDCARD => f.write_str("wildcard"),
            Rank::LOCAL_NODE => f.write_str("local-node"),
            Rank::INVALID => f.write_str("invalid"),
            Rank::LOCAL_PEERS => f.write_str("local-peers"),
            Rank(rank) => write!(f, "{rank}"),
        }
    }
}

impl fmt::Debug for Rank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A process: namespace and rank (`pmix_proc_t`).
///
/// ```
/// use pmix_dstore::model::{NameError, Nspace, Proc, Rank};
///
/// let job = Nspace::new("job")?;
/// let (third, all) = (Proc::new(job.clone(), Rank(3)), Proc::new(job, Rank::WILDCARD));
/// assert!(all.covers(&third) && !third.covers(&all));
/// assert_eq!(third.to_string(), "job:3");
/// # Ok::<(), NameError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Proc {
    /// Its namespace.
    pub nspace: Nspace,
    /// Its rank, or a special rank that stands for several processes.
    pub rank: Rank,
}

impl Proc {
    /// The process `rank` of `nspace`.
    pub fn new(nspace: Nspace, rank: Rank) -> Proc {
        Proc { nspace, rank }
    }

    /// Whether this process, possibly a wildcard, stands for `other`.
    pub fn covers(&self, other: &Proc) -> bool {
        self.nspace == other.nspace && (self.rank == Rank::WILDCARD || self.rank == other.rank)
    }

    /// The first of some processes, and how many more there are, for the log.
    pub fn list(procs: &[Proc]) -> String {
        const NAMED_MAX: usize = 8;
        let mut words: Vec<String> = procs.iter().take(NAMED_MAX).map(Proc::to_string).collect();
        if procs.len() > NAMED_MAX {
            words.push(format!("and {} more", procs.len() - NAMED_MAX));
        }
        words.join(" ")
    }
}

impl fmt::Display for Proc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.nspace, self.rank)
    }
}

impl fmt::Debug for Proc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[inline]
fn begins_with_pmix(key: &[u8]) -> bool {
    key.starts_with(b"pmix")
}

#[inline]
fn is_reserved(key: &[u8]) -> bool {
    begins_with_pmix(key) && key != super::keys::GROUP_LOCAL_CID.as_bytes()
}

/// The key of a value. At most 511 bytes, no NUL, not necessarily UTF-8. A key from a constant allocates nothing.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key(Cow<'static, [u8]>);

impl Key {
    /// A key of these bytes.
    pub fn new(bytes: impl AsRef<[u8]>) -> Result<Key, NameError> {
        let bytes = bytes.as_ref();
        check(bytes, KEY_LEN_MAX)?;
        Ok(Key(Cow::Owned(bytes.to_vec())))
    }

    /// The bytes of the key, without a NUL.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Whether this is the key `name`.
    pub fn is(&self, name: &str) -> bool {
        *self.0 == *name.as_bytes()
    }

    /// Whether the host provides the values under the key: see [`KeyRef::is_reserved`].
    pub fn is_reserved(&self) -> bool {
        is_reserved(&self.0)
    }
}

/// A key from a constant of [`keys`](super::keys), or another literal.
///
/// # Panics
/// If the literal is longer than 511 bytes or contains a NUL.
impl From<&'static str> for Key {
    fn from(name: &'static str) -> Key {
        match check(name.as_bytes(), KEY_LEN_MAX) {
            Ok(()) => Key(Cow::Borrowed(name.as_bytes())),
            Err(error) => panic!("key literal {name:?}: {error}"),
        }
    }
}

impl Borrow<[u8]> for Key {
    fn borrow(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.0))
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", String::from_utf8_lossy(&self.0))
    }
}

/// A key to look up, with its hash. The hash is computed once for all stores that are searched.
#[derive(Clone, Copy)]
pub struct KeyRef<'a> {
    text: &'a [u8],
    hash: u64,
}

impl<'a> KeyRef<'a> {
    /// The key `text`. The caller has cut it at its NUL.
    #[inline]
    pub fn new(text: &'a [u8]) -> KeyRef<'a> {
        KeyRef { text, hash: xxh3_64(text) }
    }

    /// The key of a constant, hashed by the compiler.
    pub const fn of_constant(name: &'static str) -> KeyRef<'static> {
        KeyRef { text: name.as_bytes(), hash: xxhash_rust::const_xxh3::xxh3_64(name.as_bytes()) }
    }

    /// The key `text` with this hash.
    #[inline(always)]
    pub(crate) fn of_parts(text: &'a [u8], hash: u64) -> KeyRef<'a> {
        KeyRef { text, hash }
    }

    /// The bytes of the key.
    #[inline]
    pub fn text(&self) -> &'a [u8] {
        self.text
    }

    /// The hash of the key: xxh3 of its bytes with seed 0. Part of the segment format.
    #[inline]
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// Whether the key begins with `pmix`, as the standard's do.
    #[inline]
    pub fn begins_with_pmix(&self) -> bool {
        begins_with_pmix(self.text)
    }

    /// Whether the host, not a rank, provides the values under the key: the key is one of the standard's, except
    /// `PMIX_GROUP_LOCAL_CID`, which each member of a group puts itself.
    #[inline]
    pub fn is_reserved(&self) -> bool {
        is_reserved(self.text)
    }

    /// Whether these are the bytes of the key. It compares without a call of `memcmp`, because keys are short and the call would
    /// take most of the time.
    #[inline]
    pub fn is_text(&self, text: &[u8]) -> bool {
        if text.len() != self.text.len() {
            return false;
        }
        // The first and the last chunk overlap in the middle.
        match text.len() {
            8..16 => ends::<8>(text) == ends::<8>(self.text),
            16..=32 => ends::<16>(text) == ends::<16>(self.text),
            _ => text == self.text,
        }
    }

    /// Whether this is the key `name`.
    #[inline]
    pub fn is(&self, name: &str) -> bool {
        self.text == name.as_bytes()
    }
}

/// The first and the last `N` bytes of a text that has at least `N` bytes.
#[inline(always)]
fn ends<const N: usize>(text: &[u8]) -> (Option<&[u8; N]>, Option<&[u8; N]>) {
    (text.first_chunk(), text.last_chunk())
}

impl<'a> From<&'a Key> for KeyRef<'a> {
    #[inline]
    fn from(key: &'a Key) -> KeyRef<'a> {
        KeyRef::new(key.as_bytes())
    }
}

impl<'a> From<&'a str> for KeyRef<'a> {
    #[inline]
    fn from(name: &'a str) -> KeyRef<'a> {
        KeyRef::new(name.as_bytes())
    }
}

impl fmt::Debug for KeyRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", String::from_utf8_lossy(self.text))
    }
}
