//! A page as a mapped file, with the processor's atomics.

use std::fs::File;
use std::mem::offset_of;

use memmap2::{MmapOptions, MmapRaw};

#[cfg(feature = "builder")]
use crate::segment::directory::limit::check_length;
use crate::segment::layout::page::{PAGE_HEADER_LEN, PAGE_LEN, PageEntry, PageHeader};

pub(crate) use parking_lot::Mutex;
use std::sync::atomic::AtomicU32;
pub(crate) use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
#[cfg(feature = "builder")]
use std::{os::unix::fs::FileExt, sync::atomic::fence};

/// Entries of one page.
pub(crate) const PAGE_CAPACITY: u64 = ((PAGE_LEN - PAGE_HEADER_LEN) / size_of::<PageEntry>()) as u64;
/// Pages before a new one that readers need, when live segments are carried over to it.
#[cfg(feature = "builder")]
pub(crate) const PAGES_KEPT: u64 = 4;
/// Live segments that are carried over at most.
#[cfg(feature = "builder")]
pub(crate) const CARRIED_MAX: u64 = PAGE_CAPACITY / 4;

/// The memory of one page.
///
/// It is never borrowed as a slice: bytes beyond the published entries may change at any time.
pub(crate) struct PageMemory {
    map: MmapRaw,
}

impl PageMemory {
    /// Maps a page file for reading. The caller has checked its length, [`PAGE_LEN`].
    pub(crate) fn read_only(file: &File) -> std::io::Result<PageMemory> {
        Ok(PageMemory { map: MmapOptions::new().len(PAGE_LEN).map_raw_read_only(file)? })
    }

    /// Constant bytes of the header.
    pub(crate) fn constant<const N: usize>(&self, offset: usize) -> [u8; N] {
        assert!(offset + N <= PAGE_HEADER_LEN && !(64..88).contains(&offset), "constant part of the header");
        // SAFETY: within the mapping, which is PAGE_LEN long; the bytes were written before the page got its name or
        // its first count, and never change.
        unsafe { self.map.as_ptr().add(offset).cast::<[u8; N]>().read() }
    }

    /// Number of complete entries of all pages. Only the server stores it.
    #[inline]
    pub(crate) fn count(&self) -> &AtomicU64 {
        // SAFETY: an aligned word within the mapping, which lives as long as `self`; it is accessed as an atomic only,
        // by every process. Loads of an atomic in read-only memory are allowed; only `PageFile` stores.
        unsafe { &*self.map.as_ptr().add(offset_of!(PageHeader, count)).cast::<AtomicU64>() }
    }

    /// Whether the namespace has ended. Only the server stores it.
    #[inline]
    pub(crate) fn retired(&self) -> &AtomicU32 {
        // SAFETY: as in `count`.
        unsafe { &*self.map.as_ptr().add(offset_of!(PageHeader, retired)).cast::<AtomicU32>() }
    }

    /// The first page that readers need. Only the server stores it.
    pub(crate) fn first(&self) -> &AtomicU64 {
        // SAFETY: as in `count`.
        unsafe { &*self.map.as_ptr().add(offset_of!(PageHeader, first)).cast::<AtomicU64>() }
    }

    /// Entry `index` of this page, which must be below a count loaded before.
    pub(crate) fn entry(&self, index: u64) -> PageEntry {
        // SAFETY: within the mapping and aligned. The caller has loaded a count that covers the entry, so its bytes
        // were written before and never change.
        unsafe { self.map.as_ptr().add(Self::offset(index)).cast::<PageEntry>().read() }
    }

    fn offset(index: u64) -> usize {
        assert!(index < PAGE_CAPACITY, "the page has room for the entry");
        PAGE_HEADER_LEN + index as usize * size_of::<PageEntry>()
    }
}

/// The server's side of a page: a file that is written with system calls and not mapped.
///
/// A process that may write the file may also truncate it, and a store through a mapping would then end the server. `pwrite`
/// writes to the same page-cache pages that readers have mapped. The kernel copies a word in one piece or, on some processors, in
/// several. A count carries a check for this (`count_of`), and readers read a torn one again.
#[cfg(feature = "builder")]
pub(crate) struct PageFile {
    file: File,
}

#[cfg(feature = "builder")]
impl PageFile {
    /// A page file of [`PAGE_LEN`], open for writing.
    #[expect(clippy::unnecessary_wraps, reason = "a page under loom may not be had")]
    pub(crate) fn new(file: File) -> std::io::Result<PageFile> {
        Ok(PageFile { file })
    }

    /// Writes entry `index` of this page, which must be above the published count.
    ///
    /// # Errors
    /// An error of the system; `UnexpectedEof` if the file was truncated.
    pub(crate) fn write_entry(&mut self, index: u64, entry: PageEntry) -> std::io::Result<()> {
        if self.file.metadata()?.len() < PAGE_LEN as u64 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        // SAFETY: the entry has no padding, and any bit pattern is valid for bytes.
        let bytes: [u8; size_of::<PageEntry>()] = unsafe { std::mem::transmute(entry) };
        self.write(&bytes, PageMemory::offset(index))
    }

    /// Stores the count, ordered after all earlier writes.
    ///
    /// # Errors
    /// An error of the system.
    pub(crate) fn store_count(&self, word: u64, ordering: Ordering) -> std::io::Result<()> {
        // The fence is between the system calls: the kernel's copy into the page is not a release by itself.
        fence(ordering);
        self.write(&word.to_ne_bytes(), offset_of!(PageHeader, count))
    }

    /// Stores the first page that readers need, ordered after all earlier writes.
    ///
    /// # Errors
    /// An error of the system.
    pub(crate) fn store_first(&self, word: u64, ordering: Ordering) -> std::io::Result<()> {
        fence(ordering);
        self.write(&word.to_ne_bytes(), offset_of!(PageHeader, first))
    }

    /// Stores whether the namespace has ended, ordered after all earlier writes.
    ///
    /// # Errors
    /// An error of the system.
    pub(crate) fn store_retired(&self, word: u32, ordering: Ordering) -> std::io::Result<()> {
        fence(ordering);
        self.write(&word.to_ne_bytes(), offset_of!(PageHeader, retired))
    }

    fn write(&self, bytes: &[u8], offset: usize) -> std::io::Result<()> {
        check_length((offset + bytes.len()) as u64)?;
        self.file.write_all_at(bytes, offset as u64)
    }
}

#[cfg(feature = "builder")]
const _: () = assert!(size_of::<PageEntry>() == 2 * size_of::<u32>() + 7 * size_of::<u64>(), "no padding");

/// What this process has done before it removes a file is seen by those that do not find it: see [`after_missing`].
#[cfg(feature = "builder")]
pub(crate) fn before_removal() {
    // The kernel takes the lock of the directory.
}

/// A file was looked for and not found.
pub(crate) fn after_missing() {
    // The kernel has taken the lock of the directory, or has read what was written under it.
}

/// A value that is complete before its address is stored for other threads.
pub(crate) struct Complete<T>(T);

impl<T> Complete<T> {
    pub(crate) fn new(value: T) -> Complete<T> {
        Complete(value)
    }

    #[inline]
    pub(crate) fn get(&self) -> &T {
        &self.0
    }
}
