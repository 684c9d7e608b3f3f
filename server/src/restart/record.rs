//! The records of a journal. They are read as if anybody had written them.
//!
//! A file is [`MAGIC`] and records. A record is its kind, the length of its payload and the payload's hash, the hash of these three, and the
//! payload; numbers are little-endian. The first record is the header.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use pmix_dstore::codec::{Dialect, Module, Untyped};
use pmix_dstore::fallible_alloc;
use pmix_dstore::gather::{GatherBuf, Slices};
use pmix_dstore::model::{Bytes, Key, Kval, Nspace, Rank, Result, Status, Value};
use pmix_wire::{MESSAGE_LEN_MAX, Request, Version};
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use crate::secret::Secret;

/// The first bytes of a journal; the last one is the version of its format.
const MAGIC: [u8; 8] = *b"PMIXDJN1";
/// The bytes before a payload.
const HEAD_LEN: usize = 24;
/// The longest payload: a commit, and what is before it.
const PAYLOAD_MAX: usize = MESSAGE_LEN_MAX + 64;
/// A journal's first record is in so many bytes.
pub(super) const HEADER_MAX: usize = 4096;
/// How many of a connection's fences that are over are remembered. A client that was not told of more than these has not read for a while.
const RELEASED_MAX: usize = 64;
/// Values as servers exchange them.
const DIALECT: Dialect = Dialect::plain(Module::V61).with_untyped(Untyped::Replaced);

const HEADER: u32 = 1;
const SECRET: u32 = 2;
const FATE: u32 = 3;
const COMMIT: u32 = 4;
const REMOTE: u32 = 5;
const RELEASED: u32 = 6;

/// A record, as it is written.
pub(crate) struct Record {
    own: Vec<u8>,
    rest: GatherBuf,
}

impl Slices for Record {
    fn slices(&self) -> impl Iterator<Item = &[u8]> {
        std::iter::once(self.own.as_slice()).chain(self.rest.slices())
    }
}

/// A whole journal, as it is written.
pub(crate) struct Journal<'r> {
    header: Record,
    records: &'r [Record],
}

impl Slices for Journal<'_> {
    fn slices(&self) -> impl Iterator<Item = &[u8]> {
        std::iter::once(&MAGIC[..]).chain(std::iter::once(&self.header).chain(self.records).flat_map(Record::slices))
    }
}

impl<'r> Journal<'r> {
    /// The journal of a namespace.
    ///
    /// # Errors
    /// `NOMEM`; `OUT_OF_RESOURCE` for an origin that is too long.
    pub fn new(nspace: &Nspace, origin: &Origin, records: &'r [Record]) -> Result<Journal<'r>> {
        Ok(Journal { header: Record::header(nspace, origin)?, records })
    }
}

/// What a journal says of itself, in its first record: whose it is, and of what.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Origin {
    /// How many servers the namespace had before.
    pub life: u32,
    /// For how many seconds clients wait for the next one.
    pub patience: u32,
    /// The boot of the machine.
    pub boot: Vec<u8>,
    /// The directory that the journal is in: a copy elsewhere is none.
    pub directory: Vec<u8>,
    /// The name that the host gives the server, the same in each of its lives; empty if it gives none.
    pub server: Vec<u8>,
}

/// What has become of a process of this node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fate {
    /// How often it has finalized.
    pub finalized: u32,
    /// It has died.
    pub is_gone: bool,
    /// It has finalized and is not expected back.
    pub is_over: bool,
    /// The host has deregistered it.
    pub has_left: bool,
    /// It is connected, or was when a server was killed and has not come again so far.
    pub is_here: bool,
}

impl Record {
    fn new(kind: u32, payload: &[u8], rest: GatherBuf) -> Result<Record> {
        let len = payload.len() + rest.len();
        if len > PAYLOAD_MAX {
            return Err(Status::ERR_OUT_OF_RESOURCE);
        }
        let mut hasher = Xxh3::new();
        hasher.update(payload);
        rest.slices().for_each(|slice| hasher.update(slice));
        let mut own = fallible_alloc::vec(HEAD_LEN + payload.len())?;
        own.extend(kind.to_le_bytes());
        own.extend((len as u32).to_le_bytes());
        own.extend(hasher.digest().to_le_bytes());
        own.extend(xxh3_64(&own).to_le_bytes());
        own.extend(payload);
        Ok(Record { own, rest })
    }

    /// The first record.
    pub fn header(nspace: &Nspace, origin: &Origin) -> Result<Record> {
        let mut payload = [origin.life, origin.patience].map(u32::to_le_bytes).as_flattened().to_vec();
        for part in [nspace.as_bytes(), &origin.boot, &origin.directory, &origin.server] {
            put_bytes(&mut payload, part)?;
        }
        Record::new(HEADER, &payload, GatherBuf::new())
    }

    /// The secret of a process.
    pub fn secret(rank: Rank, secret: &Secret) -> Result<Record> {
        let payload = [&rank.0.to_le_bytes()[..], secret.text().as_bytes()].concat();
        Record::new(SECRET, &payload, GatherBuf::new())
    }

    /// What has become of a process.
    pub fn fate(rank: Rank, fate: Fate) -> Result<Record> {
        let flags = [fate.is_gone, fate.is_over, fate.has_left, fate.is_here];
        let flags = flags.iter().rev().fold(0, |flags, flag| flags << 1 | u8::from(*flag));
        let payload = [&rank.0.to_le_bytes()[..], &fate.finalized.to_le_bytes(), &[flags]].concat();
        Record::new(FATE, &payload, GatherBuf::new())
    }

    /// Values that a process has committed, each part with its scope.
    pub fn commit(rank: Rank, parts: &[(u8, Vec<(&Key, &Value)>)]) -> Result<Record> {
        Record::new(COMMIT, &rank.0.to_le_bytes(), Request::encode_commit(DIALECT, parts)?)
    }

    /// Keys whose values, which segments have, are for other nodes, too.
    pub fn remote<'k>(rank: Rank, keys: impl Iterator<Item = &'k Key>) -> Result<Record> {
        let mut payload = rank.0.to_le_bytes().to_vec();
        for key in keys {
            put_bytes(&mut payload, key.as_bytes())?;
        }
        Record::new(REMOTE, &payload, GatherBuf::new())
    }

    /// A fence is over with this status; its participants by rank, index of the connection, and tag of the request.
    pub fn released(status: Status, participants: &[(Rank, u32, u32)]) -> Result<Record> {
        let mut payload = fallible_alloc::vec(4 + 12 * participants.len())?;
        payload.extend(status.0.to_le_bytes());
        for (rank, index, tag) in participants {
            payload.extend([rank.0, *index, *tag].map(u32::to_le_bytes).as_flattened());
        }
        Record::new(RELEASED, &payload, GatherBuf::new())
    }
}

/// Appends bytes with their length.
fn put_bytes(to: &mut Vec<u8>, bytes: &[u8]) -> Result<()> {
    fallible_alloc::extend(to, &(bytes.len() as u32).to_le_bytes())?;
    fallible_alloc::extend(to, bytes)
}

/// A part of what a process has committed, in the order in which it came.
pub(crate) enum Change {
    /// Parts of commits, each with its scope.
    Commit(Rank, Vec<(u8, Vec<Kval>)>),
    /// Keys whose values are for other nodes, too.
    Remote(Rank, Vec<Key>),
}

/// The values of a published segment.
#[derive(Clone)]
pub(crate) struct Segment {
    pub place: u64,
    pub bytes: u64,
    pub contents: Vec<(Rank, Key, Arc<Value>)>,
}

/// The fences that are over, by rank and index of the connection: the tag of the request, and the status.
pub(crate) type Released = BTreeMap<(Rank, u32), VecDeque<(u32, Status)>>;

/// What a server has left of a namespace.
pub(crate) struct Estate {
    pub nspace: Nspace,
    pub origin: Origin,
    pub secrets: BTreeMap<Rank, Secret>,
    pub fates: BTreeMap<Rank, Fate>,
    pub changes: Vec<Change>,
    pub released: Released,
    /// Oldest first.
    pub segments: Vec<Segment>,
}

impl Estate {
    /// Nothing of a namespace without a name.
    pub fn new() -> Option<Estate> {
        Some(Estate {
            nspace: Nspace::new("").ok()?,
            origin: Origin::default(),
            secrets: BTreeMap::new(),
            fates: BTreeMap::new(),
            changes: Vec::new(),
            released: Released::new(),
            segments: Vec::new(),
        })
    }

    /// Reads the beginning of a journal, of which `first` are [`HEADER_MAX`] bytes or all.
    pub fn read_origin(first: &[u8]) -> Option<Origin> {
        let rest = first.strip_prefix(&MAGIC)?;
        let len = u32::from_le_bytes(rest.get(4..8)?.try_into().ok()?) as usize;
        let header = first.get(..MAGIC.len() + HEAD_LEN.checked_add(len)?)?;
        Estate::read(header).ok().map(|(estate, _)| estate.origin)
    }

    /// Reads a journal; also how many bytes at its end were not written whole.
    ///
    /// # Errors
    /// Why it is refused.
    pub fn read(journal: &[u8]) -> std::result::Result<(Estate, usize), String> {
        let mut rest = journal.strip_prefix(&MAGIC).ok_or("it does not begin as a journal of this release")?;
        let mut estate = Estate::new().ok_or("no name is empty")?;
        let mut count = 0;
        while let Some((head, behind)) = rest.split_first_chunk::<HEAD_LEN>() {
            let refused = |why: &str| format!("record {count}: {why}");
            let mut fields = Reader(head);
            let (kind, len) = (fields.u32(), fields.u32());
            let (hash, of_head) = (fields.u64(), fields.u64());
            if of_head != Some(xxh3_64(&head[..HEAD_LEN - 8])) {
                return Err(refused("its head is damaged"));
            }
            let (Some(kind), Some(len)) = (kind, len.map(|len| len as usize)) else { break };
            if len > PAYLOAD_MAX {
                return Err(refused("it is too long"));
            }
            // The server was killed while it wrote it.
            let Some(payload) = behind.get(..len) else { break };
            if hash != Some(xxh3_64(payload)) {
                return Err(refused("its payload is damaged"));
            }
            if (kind == HEADER) != (count == 0) {
                return Err(refused("the header is not the first record, or not there"));
            }
            estate.take(kind, payload).map_err(|why| refused(&why))?;
            count += 1;
            rest = &behind[len..];
        }
        if count == 0 { Err("it has no header".into()) } else { Ok((estate, rest.len())) }
    }

    /// Takes a record.
    fn take(&mut self, kind: u32, payload: &[u8]) -> std::result::Result<(), String> {
        let mut from = Reader(payload);
        let taken = match kind {
            HEADER => self.take_header(&mut from),
            SECRET => self.take_secret(&mut from),
            FATE => self.take_fate(&mut from),
            COMMIT => return self.take_commit(&mut from),
            REMOTE => self.take_remote(&mut from),
            RELEASED => self.take_released(&mut from),
            _ => return Err(format!("its kind {kind} is unknown")),
        };
        match taken {
            Some(()) if from.0.is_empty() => Ok(()),
            _ => Err(format!("its contents are no record of kind {kind}")),
        }
    }

    fn take_header(&mut self, from: &mut Reader<'_>) -> Option<()> {
        let (life, patience) = (from.u32()?, from.u32()?);
        self.nspace = Nspace::new(from.bytes()?).ok()?;
        let [boot, directory, server] = [from.bytes()?, from.bytes()?, from.bytes()?].map(<[u8]>::to_vec);
        self.origin = Origin { life, patience, boot, directory, server };
        Some(())
    }

    fn take_secret(&mut self, from: &mut Reader<'_>) -> Option<()> {
        let rank = from.rank()?;
        self.secrets.insert(rank, Secret::of(from.take(Secret::LEN)?)?);
        Some(())
    }

    fn take_fate(&mut self, from: &mut Reader<'_>) -> Option<()> {
        let (rank, finalized, flags) = (from.rank()?, from.u32()?, *from.take(1)?.first()?);
        let is = |bit: u8| flags & bit != 0;
        let fate = Fate { finalized, is_gone: is(1), is_over: is(2), has_left: is(4), is_here: is(8) };
        self.fates.insert(rank, fate);
        (flags < 16).then_some(())
    }

    fn take_commit(&mut self, from: &mut Reader<'_>) -> std::result::Result<(), String> {
        let rank = from.rank().ok_or("its rank is missing")?;
        let message = Bytes::from(fallible_alloc::copy(from.0).map_err(|error| error.to_string())?);
        match Request::decode_message(DIALECT, Version::OURS, &message) {
            Ok(Request::Commit { parts }) => {
                fallible_alloc::push(&mut self.changes, Change::Commit(rank, parts)).map_err(|error| error.to_string())
            }
            Ok(_) => Err("it is no commit".into()),
            Err(status) => Err(format!("its values cannot be read: {status}")),
        }
    }

    fn take_remote(&mut self, from: &mut Reader<'_>) -> Option<()> {
        let (rank, mut keys) = (from.rank()?, Vec::new());
        while !from.0.is_empty() {
            fallible_alloc::push(&mut keys, Key::new(from.bytes()?).ok()?).ok()?;
        }
        fallible_alloc::push(&mut self.changes, Change::Remote(rank, keys)).ok()
    }

    fn take_released(&mut self, from: &mut Reader<'_>) -> Option<()> {
        let status = Status(from.u32()?.cast_signed());
        while !from.0.is_empty() {
            let (rank, index, tag) = (from.rank()?, from.u32()?, from.u32()?);
            add_released(&mut self.released, (rank, index), (tag, status));
        }
        Some(())
    }
}

/// Notes a fence that is over; the oldest is forgotten.
pub(crate) fn add_released(released: &mut Released, connection: (Rank, u32), fence: (u32, Status)) {
    let fences = released.entry(connection).or_default();
    if fences.len() >= RELEASED_MAX {
        fences.pop_front();
    }
    fences.push_back(fence);
}

/// The unread bytes of a record.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.take(4)?.try_into().ok()?))
    }

    fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }

    fn rank(&mut self) -> Option<Rank> {
        self.u32().map(Rank).filter(|rank| rank.is_process())
    }

    fn bytes(&mut self) -> Option<&'a [u8]> {
        let len = self.u32()? as usize;
        self.take(len)
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
