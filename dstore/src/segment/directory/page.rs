//! The directory page: the list of a namespace's segments.
//!
//! A page is a small file that readers map read-only and the server writes. Its layout is fixed by hand, not an archive, because
//! it has the only mutable words of the store. The order of a reader's loads rests on one pair of operations, labelled PUBLISH.
//! The server writes an entry completely and then stores the count with release (two system calls with a fence between them). A
//! reader that loads the count with acquire sees all entries below it. Entries are never rewritten. If the count exceeds the
//! entries of a page, the next page exists and holds the rest; its name follows from its number. The count of page 0 covers all
//! pages.
//!
//! So that the directory of a long job does not grow, the server begins a page with the entries of all live segments now and then: they
//! are *carried over*. It counts them with one store, then stores the number of that page as the first one that readers need, labelled
//! FIRST, and then removes the pages before it, but for page 0, which has the words.

use std::fmt;
use std::fs::File;
use std::mem::offset_of;
use std::os::unix::fs::FileExt;

use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::sync::{Ordering, PageMemory};
use crate::model::Nspace;
use crate::segment::layout::bytes::{u32_at, u64_at};
use crate::segment::layout::error::OTHER_RELEASE;
use crate::segment::layout::header::SegmentKind;
use crate::segment::layout::page::{
    ENTRY_CARRIED, ENTRY_REPLACES, PAGE_HEADER_LEN, PAGE_LEN, PAGE_MAGIC, PAGE_VERSION, PageEntry, PageHeader,
};

/// Entries of one page.
pub(crate) const PAGE_CAPACITY: u64 = super::sync::PAGE_CAPACITY;
/// Limit of pages from the first one that readers need on: a reader treats a larger count as corrupt.
pub(crate) const PAGES_MAX: u64 = 4096;
/// Limit of entries that a directory ever has: their number fits the 32 bits of its word, with a page to spare.
#[cfg(feature = "builder")]
pub(crate) const ENTRIES_MAX: u64 = u32::MAX as u64 - PAGE_CAPACITY;
/// Live segments are carried over to a new page when as many pages lie before it that readers need. Few, because the files stay in memory and
/// each reader that attaches reads the entries of all of them. More than one: readers that look rarely then find the next page where they
/// left off, and readers of former releases, which need page 1, can attach to all but long jobs.
#[cfg(feature = "builder")]
pub(crate) const PAGES_KEPT: u64 = super::sync::PAGES_KEPT;
/// So many live segments at most are carried over: new entries fill most of the page.
#[cfg(feature = "builder")]
pub(crate) const CARRIED_MAX: u64 = super::sync::CARRIED_MAX;

#[cfg(not(loom))]
const _: () = assert!(PAGE_CAPACITY == 1016);

/// An entry of the directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// The contents of the segment.
    pub kind: SegmentKind,
    /// Number of its file.
    pub file: u64,
    /// Length of the file in bytes.
    pub len: u64,
    /// The segment's content hash.
    pub content_hash: u64,
    /// Position of the segment among those of its kind, from old to new. It is the entry's own number. If the entry replaces
    /// segments and newer ones exist, it is the order of the newest replaced segment.
    pub order: u64,
    /// First and last order of the segments that this one replaces.
    pub replaces: Option<(u64, u64)>,
    /// It repeats the entry of a segment that was live when the page began.
    pub is_carried: bool,
}

impl Entry {
    /// Whether both are entries of one segment.
    pub(crate) fn has_segment_of(&self, other: &Entry) -> bool {
        let segment = |entry: &Entry| (entry.kind, entry.file, entry.len, entry.content_hash, entry.order);
        segment(self) == segment(other)
    }

    /// Whether this entry replaces one of `kind` with this order.
    pub(crate) fn does_replace(&self, kind: SegmentKind, order: u64) -> bool {
        self.kind == kind && self.replaces.is_some_and(|(first, last)| (first..=last).contains(&order))
    }

    /// Entry `index` of a page that was read into memory; [`None`] for an unknown kind.
    ///
    /// # Errors
    /// The entry is out of range, or corrupt.
    pub(crate) fn in_page(page: &[u8], index: u64) -> Result<Option<Entry>, DamagedEntry> {
        if index >= PAGE_CAPACITY {
            return Err(DamagedEntry);
        }
        let pos = position(index);
        let bytes = page.get(pos..).ok_or(DamagedEntry)?;
        let word = |offset: usize| u64_at(bytes, offset).map(u64::to_le).map_err(|_| DamagedEntry);
        let half = |offset: usize| u32_at(bytes, offset).map(u32::to_le).map_err(|_| DamagedEntry);
        let raw = PageEntry {
            kind: half(offset_of!(PageEntry, kind))?,
            flags: half(offset_of!(PageEntry, flags))?,
            file: word(offset_of!(PageEntry, file))?,
            len: word(offset_of!(PageEntry, len))?,
            content_hash: word(offset_of!(PageEntry, content_hash))?,
            replaces_first: word(offset_of!(PageEntry, replaces_first))?,
            replaces_last: word(offset_of!(PageEntry, replaces_last))?,
            place: word(offset_of!(PageEntry, place))?,
            check: word(offset_of!(PageEntry, check))?,
        };
        Entry::read(&raw, pos)
    }

    /// The entry at position `pos` of a page.
    fn read(raw: &PageEntry, pos: usize) -> Result<Option<Entry>, DamagedEntry> {
        if u64::from_le(raw.check) != raw.check_at(pos) {
            return Err(DamagedEntry);
        }
        let Some(kind) = SegmentKind::from_code(u32::from_le(raw.kind)) else { return Ok(None) };
        let flags = u32::from_le(raw.flags);
        let replaces = (u64::from_le(raw.replaces_first), u64::from_le(raw.replaces_last));
        Ok(Some(Entry {
            kind,
            file: u64::from_le(raw.file),
            len: u64::from_le(raw.len),
            content_hash: u64::from_le(raw.content_hash),
            order: u64::from_le(raw.place),
            replaces: (flags & ENTRY_REPLACES != 0).then_some(replaces),
            is_carried: flags & ENTRY_CARRIED != 0,
        }))
    }

    /// The bytes of the entry for position `pos` of a page.
    #[cfg(feature = "builder")]
    pub(crate) fn raw(&self, pos: usize) -> PageEntry {
        let (first, last) = self.replaces.unwrap_or((0, 0));
        let replaces = if self.replaces.is_some() { ENTRY_REPLACES } else { 0 };
        let carried = if self.is_carried { ENTRY_CARRIED } else { 0 };
        let mut raw = PageEntry {
            kind: (self.kind as u32).to_le(),
            flags: (replaces | carried).to_le(),
            file: self.file.to_le(),
            len: self.len.to_le(),
            content_hash: self.content_hash.to_le(),
            replaces_first: first.to_le(),
            replaces_last: last.to_le(),
            place: self.order.to_le(),
            check: 0,
        };
        raw.check = raw.check_at(pos).to_le();
        raw
    }
}

impl PageEntry {
    /// The check of the entry at position `pos` of a page.
    fn check_at(&self, pos: usize) -> u64 {
        let halves = [self.kind, self.flags].map(u32::to_ne_bytes);
        let words = [self.file, self.len, self.content_hash, self.replaces_first, self.replaces_last, self.place];
        let bytes = [halves.as_flattened(), words.map(u64::to_ne_bytes).as_flattened()].concat();
        xxh3_64_with_seed(&bytes, pos as u64)
    }
}

/// Position in a page of its entry `index`.
pub(crate) fn position(index: u64) -> usize {
    PAGE_HEADER_LEN + index as usize * size_of::<PageEntry>()
}

/// A corrupt entry. Nothing is known of its original contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DamagedEntry;

/// The word for a count of entries: 32 bits of the number, and 32 bits of a check.
pub(crate) fn counted(count: u64) -> u64 {
    count & 0xffff_ffff | (count + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) & 0xffff_ffff_0000_0000
}

/// The number of entries in the word; [`None`] if the server cannot have stored the word.
pub(crate) fn count_of(word: u64) -> Option<u64> {
    let count = word & 0xffff_ffff;
    (counted(count) == word).then_some(count)
}

/// The word for the number of the first page that readers need.
#[cfg(feature = "builder")]
pub(crate) fn first_word(number: u64) -> u64 {
    if number == 0 { 0 } else { counted(number) }
}

/// The number of the first page that readers need in the word, which is zero in a directory of which they need all pages; [`None`] if the
/// server cannot have stored the word.
pub(crate) fn first_of(word: u64) -> Option<u64> {
    if word == 0 { Some(0) } else { count_of(word).filter(|number| *number > 0) }
}

/// Whether a directory can have these numbers: of entries, and of the first page that readers need. A later first page than page 0 begins
/// with at least one entry.
pub(crate) fn may_be(count: u64, first: u64) -> bool {
    let begin = first * PAGE_CAPACITY;
    (first == 0 || begin < count) && count.saturating_sub(begin) <= PAGES_MAX * PAGE_CAPACITY
}

/// What names of pages and segments begin with, before their numbers. The functions below have them as literals: each rank's start
/// makes such names, and to format a constant costs more.
pub(crate) const PAGE_PREFIX: &str = "page-";
pub(crate) const SEGMENT_PREFIX: &str = "segment-";

/// Name of the file of page `number`.
pub(crate) fn page_name(number: u64) -> String {
    format!("page-{number}")
}

/// Name of the file of segment `number`.
pub(crate) fn segment_name(number: u64) -> String {
    format!("segment-{number}")
}

/// Why a page is refused.
#[derive(Debug)]
pub(crate) enum PageError {
    /// An error of the kernel.
    Io(std::io::Error),
    /// It is of another version.
    Version(u32),
    /// A wrong field of the header, or a wrong length.
    Wrong(&'static str),
}

impl fmt::Display for PageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PageError::Io(error) => error.fmt(f),
            PageError::Version(found) => {
                write!(f, "directory page of version {found}, this build reads version {PAGE_VERSION}: {OTHER_RELEASE}")
            }
            PageError::Wrong(what) => write!(f, "unusable directory page: {what}"),
        }
    }
}

/// The bytes of a page's header that are checked.
pub(crate) const PAGE_CHECKED_LEN: usize = 32;

/// Checks the beginning of the header of page `number`.
///
/// # Errors
/// Why it is refused; never an error of the kernel.
#[inline]
pub(crate) fn check_header(header: &[u8; PAGE_CHECKED_LEN], number: u64) -> Result<(), PageError> {
    let word = |at: usize| u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
    if header[..8] != PAGE_MAGIC {
        return Err(PageError::Wrong("magic"));
    }
    let version = word(offset_of!(PageHeader, version));
    if version != PAGE_VERSION {
        return Err(PageError::Version(version));
    }
    let lens = (word(offset_of!(PageHeader, page_len)), word(offset_of!(PageHeader, entry_len)));
    if lens != (PAGE_LEN as u32, size_of::<PageEntry>() as u32) {
        return Err(PageError::Wrong("layout"));
    }
    if u64::from(word(offset_of!(PageHeader, number))) != number {
        return Err(PageError::Wrong("number"));
    }
    Ok(())
}

/// Why a page of another length is refused: pages of other versions may have one.
#[cold]
fn wrong_length(file: &File) -> PageError {
    let mut header = [0; PAGE_CHECKED_LEN];
    let read = file.read_exact_at(&mut header, 0).map_err(PageError::Io);
    match read.and_then(|()| check_header(&header, 0)) {
        Err(error @ PageError::Version(_)) => error,
        _ => PageError::Wrong("length"),
    }
}

/// Reads a word until it is whole, for a bounded time.
fn whole(load: impl Fn() -> u64, is_whole: impl Fn(u64) -> bool) -> u64 {
    /// Number of reads; they take longer than writing a word.
    const LOOKS: usize = 1000;
    /// Number of yields after them, so that a server thread that waits for this processor runs.
    const YIELDS: usize = 100;
    for look in 0..LOOKS + YIELDS {
        let word = load();
        if is_whole(word) {
            return word;
        }
        match look {
            ..LOOKS => std::hint::spin_loop(),
            _ => std::thread::yield_now(),
        }
    }
    load()
}

/// A mapped page.
pub(crate) struct PageMap {
    memory: PageMemory,
}

impl PageMap {
    /// Maps a page read-only and checks its header: magic, version, number.
    ///
    /// # Errors
    /// Why it is refused.
    pub(crate) fn open(file: &File, number: u64) -> Result<PageMap, PageError> {
        let len = file.metadata().map_err(PageError::Io)?.len();
        if len != PAGE_LEN as u64 {
            return Err(wrong_length(file));
        }
        let memory = PageMemory::read_only(file).map_err(PageError::Io)?;
        check_header(&memory.constant(0), number)?;
        Ok(PageMap { memory })
    }

    /// The namespace that the page names.
    pub(crate) fn nspace(&self) -> Option<Nspace> {
        let len = u32::from_le_bytes(self.memory.constant(offset_of!(PageHeader, nspace_len)));
        let bytes: [u8; 256] = self.memory.constant(offset_of!(PageHeader, nspace));
        Nspace::new(bytes.get(..len as usize)?).ok()
    }

    /// The word with the number of published entries, for [`count_of`]. All of them can be read after this load.
    #[inline]
    pub(crate) fn count(&self) -> u64 {
        // PUBLISH: pairs with the release store in `PageWriter::publish`.
        u64::from_le(self.memory.count().load(Ordering::Acquire))
    }

    /// As [`PageMap::count`], but reads a torn word, which the server is just writing, again.
    ///
    /// The server may be preempted while it writes the word, for longer than this function retries. Giving up is safe
    /// nevertheless. A torn word is no number ([`count_of`]), so no entry is read because of it. The server notifies a
    /// process that waits for a value only after it has written the count, so the entries of the torn count are not due
    /// yet. The reader treats the word as corrupt: from then on it asks the server about each miss. The finished word
    /// differs from the torn one, so that the next look-up reads the entries.
    pub(crate) fn whole_count(&self) -> u64 {
        whole(|| self.count(), |word| count_of(word).is_some())
    }

    /// The number of the first page that readers need; [`None`] if its word is corrupt. All pages from it on, and a count above its
    /// beginning, can be read after this load. A torn word is read again, as in [`PageMap::whole_count`].
    pub(crate) fn first(&self) -> Option<u64> {
        // FIRST: pairs with the release store in `PageWriter::begin_at`.
        let load = || u64::from_le(self.memory.first().load(Ordering::Acquire));
        first_of(whole(load, |word| first_of(word).is_some()))
    }

    /// Whether the namespace was deregistered.
    #[inline]
    pub(crate) fn is_retired(&self) -> bool {
        // RETIRE: pairs with the release store in `PageWriter::retire`. A reader that sees it also sees the last count, and reads
        // no replaced job segment.
        self.memory.retired().load(Ordering::Acquire) != 0
    }

    /// Entry `index` of this page, which must be below a count loaded before; [`None`] for an unknown kind.
    ///
    /// # Errors
    /// The entry is corrupt.
    pub(crate) fn entry(&self, index: u64) -> Result<Option<Entry>, DamagedEntry> {
        if index >= PAGE_CAPACITY {
            return Err(DamagedEntry);
        }
        Entry::read(&self.memory.entry(index), position(index))
    }
}
