//! The ledger of a namespace: published, dirty and in-flight values. Data only: `crate::publisher` writes the files.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use pmix_dstore::codec::ValueRef;
use pmix_dstore::fallible_alloc;
use pmix_dstore::job::JobData;
use pmix_dstore::model::{Backing, Key, Rank, Result, Status, Value};
use pmix_dstore::modex::ModexData;
use pmix_dstore::segment::FileId;

use crate::Stats;
use crate::restart::{Record, Segment};

/// The number of a namespace's directory, which no other directory of this server ever has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct DirectoryNumber(pub u64);

/// A value of a segment.
pub(crate) struct Content {
    pub rank: Rank,
    /// Index of the key in [`ModexBatch::keys`].
    pub key: u32,
    pub value: Arc<Value>,
}

impl Content {
    /// Whether the value is in memory that a host has lent.
    pub fn is_lent(&self) -> bool {
        self.value
            .bytes()
            .and_then(|bytes| bytes.backing())
            .is_some_and(|whole| matches!(**whole, Backing::External(_)))
    }
}

/// A published modex segment.
pub(crate) struct LiveSegment {
    /// Its place in the directory.
    pub place: u64,
    pub bytes: u64,
    /// In the order of ranks and keys, each once.
    pub contents: Vec<Content>,
}

/// The modex values that one publication writes.
pub(crate) struct ModexBatch {
    pub keys: Arc<Vec<Key>>,
    /// New values, in the order of ranks and keys, each once.
    pub fresh: Vec<Content>,
    /// Deleted values that are in a segment, sorted.
    pub gone: Vec<(Rank, u32)>,
    /// The published segments, oldest first.
    pub live: Vec<LiveSegment>,
}

/// A segment that was built of new values and of the segments that it replaces.
pub(crate) struct Merged<S> {
    pub segment: S,
    pub contents: Vec<Content>,
    /// First and last place of the segments that it replaces.
    pub replaces: Option<(u64, u64)>,
    /// The remaining live segments.
    pub live: Vec<LiveSegment>,
}

impl ModexBatch {
    /// Bytes of the new values, estimated without packing them.
    pub fn weight(&self) -> u64 {
        self.fresh.iter().map(|content| weight_of(&content.value)).sum()
    }

    /// Estimated bytes of the segment to write.
    pub fn total_weight(&self) -> u64 {
        /// Bytes per value in the segment's tables.
        const ENTRY: u64 = 16;
        let fresh = self.weight() + ENTRY * self.fresh.len() as u64;
        let staying = ModexBatch::staying(&self.live, self.first_with_gone(), fresh);
        fresh + self.live[staying..].iter().map(|live| live.bytes).sum::<u64>()
    }

    /// Whether there is nothing to write.
    pub fn is_empty(&self) -> bool {
        self.fresh.is_empty() && self.gone.is_empty()
    }

    /// The index of the first live segment with a deleted value.
    fn first_with_gone(&self) -> usize {
        let holds = |live: &LiveSegment, gone: &(Rank, u32)| {
            live.contents.binary_search_by_key(gone, |content| (content.rank, content.key)).is_ok()
        };
        let first = self.live.iter().position(|live| self.gone.iter().any(|gone| holds(live, gone)));
        first.unwrap_or(self.live.len())
    }

    /// The number of live segments that stay beside a new one of `weight` bytes: each live segment must be more than twice as
    /// large as all that follow it, so that readers probe about log2 of them. No segment stays from `stale` on, which has a
    /// deleted value, because segments cannot express a deletion.
    fn staying(live: &[LiveSegment], stale: usize, mut weight: u64) -> usize {
        let mut staying = live.len();
        while staying > 0 && (staying > stale || live[staying - 1].bytes <= 2 * weight) {
            staying -= 1;
            weight += live[staying].bytes;
        }
        staying
    }

    /// Merges the new values with as many live segments as the sizes require. `build` makes a segment from the values and returns its
    /// size in bytes.
    ///
    /// # Errors
    /// Errors of `build`; `NOMEM`. All live segments are lost then.
    pub fn merge<S, E: From<Status>>(
        self,
        mut build: impl FnMut(&[Key], &[Content]) -> Result<(S, u64), E>,
    ) -> Result<Merged<S>, E> {
        // A value takes at least as many bytes in a segment as in memory. This lower bound usually determines the merge, so that
        // a segment is rarely built twice.
        let mut weight = self.weight();
        let stale = self.first_with_gone();
        let ModexBatch { keys, fresh: mut contents, gone, mut live } = self;
        let mut replaces = None;
        loop {
            let staying = ModexBatch::staying(&live, stale, weight);
            let older = live[staying..].iter().map(|live| live.contents.len()).sum();
            fallible_alloc::reserve(&mut contents, older)?;
            for merged in live.drain(staying..).rev() {
                replaces = Some((merged.place, replaces.map_or(merged.place, |(_, last)| last)));
                // Newer values come first, and deduplication keeps the first.
                contents.extend(merged.contents);
            }
            contents.sort_by_key(|content| (content.rank, content.key));
            contents.dedup_by_key(|content| (content.rank, content.key));
            if !gone.is_empty() {
                contents.retain(|content| gone.binary_search(&(content.rank, content.key)).is_err());
            }
            let (segment, bytes) = build(&keys, &contents)?;
            if ModexBatch::staying(&live, stale, bytes) == live.len() {
                return Ok(Merged { segment, contents, replaces, live });
            }
            weight = bytes;
        }
    }
}

/// The steps of one publication, in this order. Each directory has at most one at a time.
pub(crate) struct Batch {
    /// The present data of the job.
    pub job: Arc<JobData>,
    /// The new owner of the directory, which is created for or given to this user.
    pub owner: Option<(u32, u32)>,
    /// Whether to create the directory first.
    pub opens: bool,
    /// The job's data have changed.
    pub writes_job: bool,
    pub modex: Option<ModexBatch>,
    /// The first records of the journal, or why there are none, if the directory is opened and the server may be restarted.
    pub journal: Option<Result<Vec<Record>>>,
}

/// A value in lent memory, and its copy.
pub(crate) struct Replacement {
    pub rank: Rank,
    pub key: u32,
    pub lent: Arc<Value>,
    pub copy: Arc<Value>,
}

/// The result of a publication.
#[derive(Default)]
pub(crate) struct Written {
    /// The directory, if it was created, and whether the clients' socket was.
    pub opened: Option<(PathBuf, FileId, bool)>,
    /// The number of entries in the directory page.
    pub count: u64,
    /// Bytes of the job segment, if one was written.
    pub job_bytes: Option<u64>,
    /// The live modex segments; `None` if the batch had no values and left them in the ledger.
    pub live: Option<Vec<LiveSegment>>,
    /// Copies of values that a host has lent.
    pub replacements: Vec<Replacement>,
    /// The journal could not be begun.
    pub has_no_journal: bool,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Stage {
    /// No client yet.
    #[default]
    New,
    /// The directory is being made.
    Opening,
    Open,
    /// Shared memory failed, or is turned off: all values go over the socket.
    Off,
}

/// The ledger of one namespace.
#[derive(Default)]
pub(crate) struct Ledger {
    stage: Stage,
    number: Option<DirectoryNumber>,
    directory: Option<(PathBuf, FileId)>,
    count: u64,
    job_bytes: u64,
    modex_bytes: u64,
    segments: u64,
    /// Empty while a publication owns them.
    live: Vec<LiveSegment>,
    /// (rank, key) in a segment, or in an unfinished publication: after a change of one of them, readers must not keep
    /// the old value.
    published: HashSet<(Rank, u32)>,
    key_ids: HashMap<Key, u32>,
    keys: Arc<Vec<Key>>,
    dirty: Vec<(Rank, u32)>,
    owner: Option<(u32, u32)>,
    is_job_dirty: bool,
    /// Deadline for the publication of the dirty values.
    pub due: Option<Instant>,
    pub journal: JournalState,
}

/// What the journal of a server that may be restarted holds.
#[derive(Default)]
pub(crate) struct JournalState {
    /// It could not be written, and there is none any more.
    pub is_off: bool,
    /// Bytes added since it was last written anew.
    pub added: usize,
    /// Bytes with which it was last written anew.
    pub base: usize,
    /// Values were added since then.
    pub has_values: bool,
}

impl Ledger {
    fn key_id(&mut self, key: &Key) -> u32 {
        if let Some(id) = self.key_ids.get(key) {
            return *id;
        }
        let id = self.keys.len() as u32;
        Arc::make_mut(&mut self.keys).push(key.clone());
        self.key_ids.insert(key.clone(), id);
        id
    }

    /// Makes room for one [`Ledger::note`].
    ///
    /// # Errors
    /// `NOMEM`.
    pub fn make_room(&mut self) -> Result<()> {
        fallible_alloc::reserve_entries(&mut self.key_ids, 1)?;
        fallible_alloc::reserve(Arc::make_mut(&mut self.keys), 1)?;
        fallible_alloc::reserve(&mut self.dirty, 1)
    }

    /// Notes that a value changed; returns whether readers may have the old one from a segment.
    pub fn note(&mut self, rank: Rank, key: &Key) -> bool {
        if self.stage == Stage::Off {
            return false;
        }
        let id = self.key_id(key);
        if self.dirty.len() == self.dirty.capacity() {
            // Deduplicated before it grows, so that repeated commits of a value take no more memory.
            self.dirty.sort_unstable();
            self.dirty.dedup();
            self.dirty.reserve(self.dirty.len().max(64));
        }
        self.dirty.push((rank, id));
        self.published.contains(&(rank, id))
    }

    /// Whether values wait to be published.
    pub fn is_dirty(&self) -> bool {
        !self.dirty.is_empty()
    }

    /// Path and file id of the directory for clients' environments, while there is one.
    pub fn directory(&self) -> Option<(PathBuf, FileId)> {
        self.directory.clone()
    }

    /// The directory's number, while there is one or one is being made.
    pub fn number(&self) -> Option<DirectoryNumber> {
        self.number
    }

    /// Whether the directory is being made.
    pub fn is_opening(&self) -> bool {
        self.stage == Stage::Opening
    }

    /// How many entries the directory page has.
    pub fn count(&self) -> Option<u64> {
        (self.stage == Stage::Open).then_some(self.count)
    }

    /// Whether no directory has been requested yet.
    pub fn is_new(&self) -> bool {
        self.stage == Stage::New
    }

    /// Requests the directory `number` for a user, with the present job data.
    pub fn open(&mut self, number: DirectoryNumber, owner: (u32, u32)) {
        (self.stage, self.number, self.owner, self.is_job_dirty) = (Stage::Opening, Some(number), Some(owner), true);
    }

    /// Requests a new owner of the directory; returns whether there is one.
    pub fn give_to(&mut self, owner: (u32, u32)) -> bool {
        if self.number.is_some() {
            self.owner = Some(owner);
        }
        self.number.is_some()
    }

    /// Notes that the job's data have changed; returns whether there is a directory with them.
    pub fn note_job(&mut self) -> bool {
        self.is_job_dirty = self.number.is_some();
        self.is_job_dirty
    }

    /// Turns shared memory off: everything goes over the socket.
    pub fn turn_off(&mut self) {
        *self = Ledger { stage: Stage::Off, ..Ledger::default() };
    }

    /// Takes the segments that the server before this one has published.
    ///
    /// # Errors
    /// `NOMEM`.
    pub fn adopt(&mut self, segments: Vec<Segment>) -> Result<()> {
        for Segment { place, bytes, contents: values } in segments {
            let mut contents = Vec::new();
            fallible_alloc::reserve(&mut contents, values.len())?;
            self.published.try_reserve(values.len()).map_err(|_| Status::ERR_NOMEM)?;
            for (rank, key, value) in values {
                let key = self.key_id(&key);
                self.published.insert((rank, key));
                contents.push(Content { rank, key, value });
            }
            contents.sort_by_key(|content| (content.rank, content.key));
            self.live.push(LiveSegment { place, bytes, contents });
        }
        Ok(())
    }

    /// The values that are in no segment: rank and key, some twice.
    pub fn unpublished(&self) -> impl Iterator<Item = (Rank, &Key)> {
        self.dirty.iter().map(|(rank, key)| (*rank, &self.keys[*key as usize]))
    }

    /// Takes the batch to publish now.
    ///
    /// # Errors
    /// `NOMEM`.
    pub fn plan(&mut self, job: &Arc<JobData>, visible: &ModexData) -> Result<Batch> {
        self.due = None;
        let modex = match self.dirty.is_empty() {
            true => None,
            false => Some(self.plan_modex(visible)?),
        };
        Ok(Batch {
            job: Arc::clone(job),
            owner: self.owner.take(),
            opens: self.stage == Stage::Opening && self.directory.is_none(),
            writes_job: std::mem::take(&mut self.is_job_dirty),
            modex,
            journal: None,
        })
    }

    fn plan_modex(&mut self, visible: &ModexData) -> Result<ModexBatch> {
        let (mut fresh, mut gone) = (Vec::new(), Vec::new());
        self.dirty.sort_unstable();
        self.dirty.dedup();
        fallible_alloc::reserve(&mut fresh, self.dirty.len())?;
        self.published.try_reserve(self.dirty.len()).map_err(|_| Status::ERR_NOMEM)?;
        for (rank, key) in std::mem::take(&mut self.dirty) {
            match visible.shared(rank, self.keys[key as usize].as_bytes()) {
                Some(value) => {
                    self.published.insert((rank, key));
                    fresh.push(Content { rank, key, value: Arc::clone(value) });
                }
                None if self.published.remove(&(rank, key)) => fallible_alloc::push(&mut gone, (rank, key))?,
                None => {}
            }
        }
        Ok(ModexBatch { keys: Arc::clone(&self.keys), fresh, gone, live: std::mem::take(&mut self.live) })
    }

    /// Takes the result of a publication; values of `visible` in lent memory are replaced by their copies.
    pub fn take_written(&mut self, written: Written, visible: &mut ModexData) {
        if let Some((path, id, _)) = written.opened {
            (self.stage, self.directory) = (Stage::Open, Some((path, id)));
        }
        self.count = written.count;
        self.job_bytes = written.job_bytes.unwrap_or(self.job_bytes);
        if let Some(live) = written.live {
            self.live = live;
        }
        self.modex_bytes = self.live.iter().map(|live| live.bytes).sum();
        self.segments = self.live.len() as u64 + 1;
        for Replacement { rank, key, lent, copy } in written.replacements {
            visible.replace(rank, self.keys[key as usize].as_bytes(), &lent, copy);
        }
    }

    /// Makes the published values reference other memory than `whole`: the present values, which have been copied.
    pub fn reference_copies(&mut self, whole: &Arc<Backing>, visible: &ModexData) {
        for content in self.live.iter_mut().flat_map(|live| &mut live.contents) {
            if content.value.bytes().is_some_and(|bytes| bytes.is_part_of(whole))
                && let Some(value) = visible.shared(content.rank, self.keys[content.key as usize].as_bytes())
            {
                content.value = Arc::clone(value);
            }
        }
    }

    /// Adds the sizes of the published segments to `stats`.
    pub fn add_to(&self, stats: &mut Stats) {
        stats.job_segment_bytes += self.job_bytes;
        stats.modex_segment_bytes += self.modex_bytes;
        stats.segments += self.segments;
    }
}

/// The approximate bytes of a value, without packing it.
fn weight_of(value: &Value) -> u64 {
    let len = match ValueRef::from(value) {
        ValueRef::Str(text) => text.map_or(0, |text| text.count_bytes()),
        ValueRef::Bytes { bytes, .. } => bytes.len(),
        _ => 0,
    };
    len as u64
}
