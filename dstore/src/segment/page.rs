//! The directory page: which segments a namespace has.
//!
//! A page is a small file that readers map read-only and the server maps writable. It is hand-laid, not an archive,
//! because it holds the only words of the store that change. Everything the reader believes about order hangs on
//! one pair, labelled PUBLISH: the server writes an entry completely and then stores the count with release; who loads
//! the count with acquire sees all entries below it. Entries are never rewritten. A count of more entries than a page
//! holds means that the next page, whose name follows from its number, exists and holds the rest: the count of the
//! first page is the count of all.

use std::fs::File;
use std::mem::offset_of;
#[cfg(feature = "builder")]
use std::num::NonZeroU64;

use memmap2::{MmapOptions, MmapRaw};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::bytes::{u32_at, u64_at};
use super::header::SegmentKind;
use super::sync::{AtomicU32, AtomicU64, Ordering};
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
pub const PAGE_CAPACITY: u64 = ((PAGE_LEN - PAGE_HEADER_LEN) / size_of::<PageEntry>()) as u64;
/// As many pages as a reader follows: a count above this is damage.
pub const PAGES_MAX: u64 = 4096;

/// The header of a page.
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
    pub(super) count: AtomicU64,
    /// 1 when the namespace was deregistered; only the first page's is used.
    pub(super) retired: AtomicU32,
    pub(super) reserved2: [u8; 180],
    pub(super) nspace: [u8; 256],
}

const _: () = assert!(size_of::<PageHeader>() == PAGE_HEADER_LEN);
// The words that change have a cache line of their own.
const _: () = assert!(offset_of!(PageHeader, count) == 64);
const _: () = assert!(size_of::<PageEntry>() == 64);
const _: () = assert!(PAGE_CAPACITY == 1016);

/// One entry as it lies in the page, numbers little-endian.
#[repr(C)]
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
        let first = usize::try_from(index).ok().and_then(|index| index.checked_mul(size_of::<PageEntry>()));
        let first = first.and_then(|first| first.checked_add(PAGE_HEADER_LEN)).ok_or(DamagedEntry)?;
        let bytes = page.get(first..).and_then(<[u8]>::first_chunk).ok_or(DamagedEntry)?;
        Entry::read(bytes, first)
    }

    /// The entry of these bytes, which are at position `pos` of a page.
    fn read(bytes: &[u8; size_of::<PageEntry>()], pos: usize) -> Result<Option<Entry>, DamagedEntry> {
        let word = |offset: usize| u64_at(bytes, offset).map_err(|_| DamagedEntry);
        let half = |offset: usize| u32_at(bytes, offset).map_err(|_| DamagedEntry);
        let (checked, _) = bytes.split_at(offset_of!(PageEntry, check));
        if word(offset_of!(PageEntry, check))? != xxh3_64_with_seed(checked, pos as u64) {
            return Err(DamagedEntry);
        }
        let Some(kind) = SegmentKind::from_code(half(offset_of!(PageEntry, kind))?) else { return Ok(None) };
        let replaces = (word(offset_of!(PageEntry, replaces_first))?, word(offset_of!(PageEntry, replaces_last))?);
        Ok(Some(Entry {
            kind,
            file: word(offset_of!(PageEntry, file))?,
            len: word(offset_of!(PageEntry, len))?,
            content_hash: word(offset_of!(PageEntry, content_hash))?,
            place: word(offset_of!(PageEntry, place))?,
            replaces: (half(offset_of!(PageEntry, flags))? & ENTRY_REPLACES != 0).then_some(replaces),
        }))
    }

    /// The bytes of the entry at position `pos` of a page.
    #[cfg(feature = "builder")]
    fn bytes(&self, pos: usize) -> [u8; size_of::<PageEntry>()] {
        let (first, last) = self.replaces.unwrap_or((0, 0));
        let flags = if self.replaces.is_some() { ENTRY_REPLACES } else { 0 };
        let mut bytes = [0; size_of::<PageEntry>()];
        let mut put = |offset: usize, field: &[u8]| bytes[offset..offset + field.len()].copy_from_slice(field);
        put(offset_of!(PageEntry, kind), &(self.kind as u32).to_le_bytes());
        put(offset_of!(PageEntry, flags), &flags.to_le_bytes());
        put(offset_of!(PageEntry, file), &self.file.to_le_bytes());
        put(offset_of!(PageEntry, len), &self.len.to_le_bytes());
        put(offset_of!(PageEntry, content_hash), &self.content_hash.to_le_bytes());
        put(offset_of!(PageEntry, replaces_first), &first.to_le_bytes());
        put(offset_of!(PageEntry, replaces_last), &last.to_le_bytes());
        put(offset_of!(PageEntry, place), &self.place.to_le_bytes());
        let (checked, check) = bytes.split_at_mut(offset_of!(PageEntry, check));
        check.copy_from_slice(&xxh3_64_with_seed(checked, pos as u64).to_le_bytes());
        bytes
    }
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
///
/// Nothing of it is ever borrowed as a slice: bytes beyond the published entries may change at any time.
pub(super) struct PageMap {
    map: MmapRaw,
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
        let map = MmapOptions::new().len(PAGE_LEN).map_raw_read_only(file).map_err(Err)?;
        let page = PageMap { map };
        let header: [u8; 32] = page.copy(0);
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
        Ok(page)
    }

    /// The namespace that the page names.
    pub(super) fn nspace(&self) -> Option<Nspace> {
        let len = u32::from_le_bytes(self.copy(offset_of!(PageHeader, nspace_len)));
        let bytes: [u8; 256] = self.copy(offset_of!(PageHeader, nspace));
        Nspace::new(bytes.get(..len as usize)?).ok()
    }

    /// Bytes of the header that never change.
    fn copy<const N: usize>(&self, offset: usize) -> [u8; N] {
        assert!(offset + N <= PAGE_HEADER_LEN && !(64..72).contains(&offset), "constant part of the header");
        // SAFETY: within the mapping, which is PAGE_LEN long; the bytes were written before the page got its name or
        // its first count, and never change.
        unsafe { self.map.as_ptr().add(offset).cast::<[u8; N]>().read() }
    }

    #[inline]
    fn count_word(&self) -> &AtomicU64 {
        // SAFETY: an aligned word within the mapping, which lives as long as `self`; it is accessed as an atomic only,
        // by every process. Loads of an atomic in read-only memory are allowed; `PageWriter` alone stores.
        unsafe { &*self.map.as_ptr().add(offset_of!(PageHeader, count)).cast::<AtomicU64>() }
    }

    #[inline]
    fn retired_word(&self) -> &AtomicU32 {
        // SAFETY: as in `count_word`.
        unsafe { &*self.map.as_ptr().add(offset_of!(PageHeader, retired)).cast::<AtomicU32>() }
    }

    /// The word of how many entries were published so far, which [`count_of`] reads; all of them can be read after this.
    #[inline]
    pub(super) fn count(&self) -> u64 {
        // PUBLISH: pairs with the release store in `PageWriter::publish`.
        u64::from_le(self.count_word().load(Ordering::Acquire))
    }

    /// Whether the namespace was deregistered.
    #[inline]
    pub(super) fn is_retired(&self) -> bool {
        // RETIRE: pairs with the release store in `PageWriter::retire`. Nothing is read after it that depends on it.
        self.retired_word().load(Ordering::Acquire) != 0
    }

    /// Entry `index` of this page, which a count loaded before covers; [`None`] for one of an unknown kind.
    ///
    /// # Errors
    /// It is damaged.
    pub(super) fn entry(&self, index: u64) -> Result<Option<Entry>, DamagedEntry> {
        if index >= PAGE_CAPACITY {
            return Err(DamagedEntry);
        }
        let offset = PAGE_HEADER_LEN + index as usize * size_of::<PageEntry>();
        // SAFETY: within the mapping. The caller has loaded a count that covers the entry, so its bytes were written
        // before and never change.
        let bytes = unsafe { self.map.as_ptr().add(offset).cast::<[u8; size_of::<PageEntry>()]>().read() };
        Entry::read(&bytes, offset)
    }
}

/// The server's side of a page.
#[cfg(feature = "builder")]
pub(super) struct PageWriter {
    page: PageMap,
}

#[cfg(feature = "builder")]
impl PageWriter {
    /// All bytes of a new page without entries. They are written to the file before it is mapped, so that no store
    /// through the mapping needs a block that the file system does not have.
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

    /// Maps a page file that holds an image, readable and writable.
    ///
    /// # Errors
    /// What the kernel says to the mapping.
    pub(super) fn map(file: &File) -> std::io::Result<PageWriter> {
        let map = MmapOptions::new().len(PAGE_LEN).map_raw(file)?;
        Ok(PageWriter { page: PageMap { map } })
    }

    /// Writes entry `index` of this page, which no published count covers yet.
    pub(super) fn write_entry(&mut self, index: u64, entry: &Entry) {
        assert!(index < PAGE_CAPACITY, "the page has room for the entry");
        let offset = PAGE_HEADER_LEN + index as usize * size_of::<PageEntry>();
        let bytes = entry.bytes(offset);
        // SAFETY: within the writable mapping; no reader looks at it before the count covers it, and this process writes
        // through `&mut self`.
        unsafe { self.page.map.as_mut_ptr().add(offset).cast::<[u8; size_of::<PageEntry>()]>().write(bytes) };
    }

    /// Makes all entries below `count` known. Of the first page only.
    pub(super) fn publish(&self, count: NonZeroU64) {
        // PUBLISH: pairs with the acquire load in `PageMap::count`.
        self.page.count_word().store(counted(count.get()).to_le(), Ordering::Release);
    }

    /// Says that the namespace is gone. Of the first page only.
    pub(super) fn retire(&self) {
        // RETIRE: pairs with the acquire load in `PageMap::is_retired`.
        self.page.retired_word().store(1u32.to_le(), Ordering::Release);
    }
}
