//! The directory page: which segments a namespace has.
//!
//! A page is a small file that readers map read-only and the server writes. It is hand-laid, not an archive,
//! because it holds the only words of the store that change. Everything the reader believes about order hangs on
//! one pair, labelled PUBLISH: the server writes an entry completely and then stores the count with release (with two system calls and a fence between them); who loads
//! the count with acquire sees all entries below it. Entries are never rewritten. A count of more entries than a page
//! holds means that the next page, whose name follows from its number, exists and holds the rest: the count of the
//! first page is the count of all.

use std::fs::File;
use std::mem::offset_of;
#[cfg(feature = "builder")]
use std::num::NonZeroU64;

use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::bytes::{u32_at, u64_at};
use super::header::SegmentKind;
#[cfg(feature = "builder")]
use super::sync::PageFile;
use super::sync::{Ordering, PageMemory};
use crate::model::Nspace;

/// First eight bytes of every page.
pub const PAGE_MAGIC: [u8; 8] = *b"PMIXDPAG";
/// Version of the page's layout.
pub const PAGE_VERSION: u32 = 2;
/// Length of a page file.
pub const PAGE_LEN: usize = 65536;
/// Length of the page's header; the entries follow.
pub const PAGE_HEADER_LEN: usize = 512;
/// Entries of one page.
pub const PAGE_CAPACITY: u64 = super::sync::PAGE_CAPACITY;
/// As many pages as a reader follows: a count above this is damage.
pub const PAGES_MAX: u64 = 4096;

/// The header of a page, by which its bytes are laid out; `count` and `retired` are accessed as atomics only.
#[repr(C)]
pub(super) struct PageHeader {
    pub(super) magic: [u8; 8],
    pub(super) version: u32,
    pub(super) page_len: u32,
    pub(super) number: u32,
    pub(super) entry_len: u32,
    pub(super) creator_pid: u32,
    pub(super) nspace_len: u32,
    pub(super) reserved: [u8; 32],
    /// Entries of all pages that are complete, as [`counted`] has them; only the first page's is used.
    pub(super) count: u64,
    /// 1 when the namespace was deregistered; only the first page's is used.
    pub(super) retired: u32,
    pub(super) reserved2: [u8; 180],
    pub(super) nspace: [u8; 256],
}

const _: () = assert!(size_of::<PageHeader>() == PAGE_HEADER_LEN);
// The words that change have a cache line of their own.
const _: () = assert!(offset_of!(PageHeader, count) == 64);
const _: () = assert!(size_of::<PageEntry>() == 64);
#[cfg(not(loom))]
const _: () = assert!(PAGE_CAPACITY == 1016);

/// One entry as it lies in the page, numbers little-endian.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct PageEntry {
    pub(super) kind: u32,
    pub(super) flags: u32,
    pub(super) file: u64,
    pub(super) len: u64,
    pub(super) content_hash: u64,
    pub(super) replaces_first: u64,
    pub(super) replaces_last: u64,
    pub(super) place: u64,
    /// xxh3-64 of all before it, seeded with the entry's position in the page.
    pub(super) check: u64,
}

/// `replaces_first` and `replaces_last` are meant.
pub(super) const ENTRY_REPLACES: u32 = 1;

/// An entry of the directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// What the segment holds.
    pub kind: SegmentKind,
    /// Number of its file.
    pub file: u64,
    /// Length of the file in bytes.
    pub len: u64,
    /// The segment's content hash.
    pub content_hash: u64,
    /// Place of the segment in the order from old to new among those of its kind: the entry's own number, or, where it
    /// replaces segments with newer ones behind them, the place of the newest that it replaces.
    pub place: u64,
    /// First and last place of the segments that this one replaces.
    pub replaces: Option<(u64, u64)>,
}

impl Entry {
    /// Whether this entry replaces one of `kind` at `place`.
    pub fn does_replace(&self, kind: SegmentKind, place: u64) -> bool {
        self.kind == kind && self.replaces.is_some_and(|(first, last)| (first..=last).contains(&place))
    }

    /// Entry `index` of a page that was read into memory; [`None`] where it is of an unknown kind.
    ///
    /// # Errors
    /// Where it is outside, or damaged.
    pub(super) fn in_page(page: &[u8], index: u64) -> Result<Option<Entry>, DamagedEntry> {
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
            place: u64::from_le(raw.place),
            replaces: (flags & ENTRY_REPLACES != 0).then_some(replaces),
        }))
    }

    /// What lies in a page at position `pos`.
    #[cfg(feature = "builder")]
    fn raw(&self, pos: usize) -> PageEntry {
        let (first, last) = self.replaces.unwrap_or((0, 0));
        let mut raw = PageEntry {
            kind: (self.kind as u32).to_le(),
            flags: if self.replaces.is_some() { ENTRY_REPLACES.to_le() } else { 0 },
            file: self.file.to_le(),
            len: self.len.to_le(),
            content_hash: self.content_hash.to_le(),
            replaces_first: first.to_le(),
            replaces_last: last.to_le(),
            place: self.place.to_le(),
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
fn position(index: u64) -> usize {
    PAGE_HEADER_LEN + index as usize * size_of::<PageEntry>()
}

/// An entry that is not as it was written: it may have said anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DamagedEntry;

/// The word that says that there are `count` entries: 32 bits of the number, and 32 bits of a check.
pub(super) fn counted(count: u64) -> u64 {
    count & 0xffff_ffff | (count + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) & 0xffff_ffff_0000_0000
}

/// The number of entries that the word says; [`None`] where nothing that the server stores looks like that.
pub(super) fn count_of(word: u64) -> Option<u64> {
    let count = word & 0xffff_ffff;
    (counted(count) == word && count <= PAGES_MAX * PAGE_CAPACITY).then_some(count)
}

/// Name of the file of page `number`.
pub fn page_name(number: u64) -> String {
    format!("page-{number}")
}

/// Name of the file of segment `number`.
pub fn segment_name(number: u64) -> String {
    format!("segment-{number}")
}

/// A mapped page.
pub(super) struct PageMap {
    memory: PageMemory,
}

impl PageMap {
    /// Maps a page read-only and checks its header: magic, version, number.
    ///
    /// # Errors
    /// `Err(Ok(what))` for a wrong header, `Err(Err(error))` where the kernel refuses.
    pub(super) fn open(file: &File, number: u64) -> Result<PageMap, Result<&'static str, std::io::Error>> {
        let len = file.metadata().map_err(Err)?.len();
        if len != PAGE_LEN as u64 {
            return Err(Ok("length"));
        }
        let memory = PageMemory::read_only(file).map_err(Err)?;
        let header: [u8; 32] = memory.constant(0);
        let word = |at: usize| u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
        if header[..8] != PAGE_MAGIC {
            return Err(Ok("magic"));
        }
        if word(offset_of!(PageHeader, version)) != PAGE_VERSION {
            return Err(Ok("version"));
        }
        let lens = (word(offset_of!(PageHeader, page_len)), word(offset_of!(PageHeader, entry_len)));
        if lens != (PAGE_LEN as u32, size_of::<PageEntry>() as u32) {
            return Err(Ok("layout"));
        }
        if u64::from(word(offset_of!(PageHeader, number))) != number {
            return Err(Ok("number"));
        }
        Ok(PageMap { memory })
    }

    /// The namespace that the page names.
    pub(super) fn nspace(&self) -> Option<Nspace> {
        let len = u32::from_le_bytes(self.memory.constant(offset_of!(PageHeader, nspace_len)));
        let bytes: [u8; 256] = self.memory.constant(offset_of!(PageHeader, nspace));
        Nspace::new(bytes.get(..len as usize)?).ok()
    }

    /// The word of how many entries were published so far, which [`count_of`] reads; all of them can be read after this.
    #[inline]
    pub(super) fn count(&self) -> u64 {
        // PUBLISH: pairs with the release store in `PageWriter::publish`.
        u64::from_le(self.memory.count().load(Ordering::Acquire))
    }

    /// The same where the word is whole: one that the server is just writing is looked at again. One that stays as no server
    /// writes it is damage.
    pub(super) fn whole_count(&self) -> u64 {
        /// Longer than it takes to write a word.
        const LOOKS: usize = 1000;
        let mut word = self.count();
        for _ in 0..LOOKS {
            if count_of(word).is_some() {
                break;
            }
            std::hint::spin_loop();
            word = self.count();
        }
        word
    }

    /// Whether the namespace was deregistered.
    #[inline]
    pub(super) fn is_retired(&self) -> bool {
        // RETIRE: pairs with the release store in `PageWriter::retire`. Who sees it sees the last count, too, and reads no
        // job segment that was replaced.
        self.memory.retired().load(Ordering::Acquire) != 0
    }

    /// Entry `index` of this page, which a count loaded before covers; [`None`] for one of an unknown kind.
    ///
    /// # Errors
    /// It is damaged.
    pub(super) fn entry(&self, index: u64) -> Result<Option<Entry>, DamagedEntry> {
        if index >= PAGE_CAPACITY {
            return Err(DamagedEntry);
        }
        Entry::read(&self.memory.entry(index), position(index))
    }
}

/// The server's side of a page.
#[cfg(feature = "builder")]
pub(super) struct PageWriter {
    page: PageFile,
}

#[cfg(feature = "builder")]
impl PageWriter {
    /// All bytes of a new page without entries. They are written to the file before it has any, so that no later write needs a
    /// block that the file system does not have.
    pub(super) fn image(nspace: &Nspace, number: u64) -> Vec<u8> {
        let mut bytes = vec![0; PAGE_LEN];
        let mut put = |offset: usize, field: &[u8]| bytes[offset..offset + field.len()].copy_from_slice(field);
        put(offset_of!(PageHeader, magic), &PAGE_MAGIC);
        put(offset_of!(PageHeader, version), &PAGE_VERSION.to_le_bytes());
        put(offset_of!(PageHeader, page_len), &(PAGE_LEN as u32).to_le_bytes());
        put(offset_of!(PageHeader, number), &(number as u32).to_le_bytes());
        put(offset_of!(PageHeader, entry_len), &(size_of::<PageEntry>() as u32).to_le_bytes());
        put(offset_of!(PageHeader, creator_pid), &std::process::id().to_le_bytes());
        put(offset_of!(PageHeader, nspace_len), &(nspace.as_bytes().len() as u32).to_le_bytes());
        put(offset_of!(PageHeader, count), &counted(0).to_le_bytes());
        put(offset_of!(PageHeader, nspace), nspace.as_bytes());
        bytes
    }

    /// Keeps a page file that holds an image, open for writing.
    ///
    /// # Errors
    /// Where the page cannot be had.
    pub(super) fn new(file: File) -> std::io::Result<PageWriter> {
        Ok(PageWriter { page: PageFile::new(file)? })
    }

    /// Writes entry `index` of this page, which no published count covers yet.
    ///
    /// # Errors
    /// What the system says; where the file has been cut.
    pub(super) fn write_entry(&mut self, index: u64, entry: &Entry) -> std::io::Result<()> {
        self.page.write_entry(index, entry.raw(position(index)))
    }

    /// Makes all entries below `count` known. Of the first page only.
    ///
    /// # Errors
    /// What the system says.
    pub(super) fn publish(&self, count: NonZeroU64) -> std::io::Result<()> {
        // PUBLISH: pairs with the acquire load in `PageMap::count`.
        self.page.store_count(counted(count.get()).to_le(), Ordering::Release)
    }

    /// Says that the namespace is gone. Of the first page only.
    ///
    /// # Errors
    /// What the system says.
    pub(super) fn retire(&self) -> std::io::Result<()> {
        // RETIRE: pairs with the acquire load in `PageMap::is_retired`.
        self.page.store_retired(1u32.to_le(), Ordering::Release)
    }
}
