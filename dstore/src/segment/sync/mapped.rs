//! A page as a mapped file, and the processor's own atomics.

use std::fs::File;
use std::mem::offset_of;

use memmap2::{MmapOptions, MmapRaw};

use super::super::page::{PAGE_HEADER_LEN, PAGE_LEN, PageEntry, PageHeader};

pub(in super::super) use parking_lot::Mutex;
pub(in super::super) use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::atomic::{AtomicU32, AtomicU64};

/// Entries of one page.
pub(in super::super) const PAGE_CAPACITY: u64 = ((PAGE_LEN - PAGE_HEADER_LEN) / size_of::<PageEntry>()) as u64;

/// The memory of one page.
///
/// Nothing of it is ever borrowed as a slice: bytes beyond the published entries may change at any time.
pub(in super::super) struct PageMemory {
    map: MmapRaw,
}

impl PageMemory {
    /// Maps a page file, which the caller has seen to be of [`PAGE_LEN`], for reading only.
    pub(in super::super) fn read_only(file: &File) -> std::io::Result<PageMemory> {
        Ok(PageMemory { map: MmapOptions::new().len(PAGE_LEN).map_raw_read_only(file)? })
    }

    /// Maps a page file of [`PAGE_LEN`] for reading and writing.
    #[cfg(feature = "builder")]
    pub(in super::super) fn writable(file: &File) -> std::io::Result<PageMemory> {
        Ok(PageMemory { map: MmapOptions::new().len(PAGE_LEN).map_raw(file)? })
    }

    /// Bytes of the header that never change.
    pub(in super::super) fn constant<const N: usize>(&self, offset: usize) -> [u8; N] {
        assert!(offset + N <= PAGE_HEADER_LEN && !(64..72).contains(&offset), "constant part of the header");
        // SAFETY: within the mapping, which is PAGE_LEN long; the bytes were written before the page got its name or
        // its first count, and never change.
        unsafe { self.map.as_ptr().add(offset).cast::<[u8; N]>().read() }
    }

    /// How many entries of all pages are complete; the server alone stores it.
    #[inline]
    pub(in super::super) fn count(&self) -> &AtomicU64 {
        // SAFETY: an aligned word within the mapping, which lives as long as `self`; it is accessed as an atomic only,
        // by every process. Loads of an atomic in read-only memory are allowed; `PageWriter` alone stores.
        unsafe { &*self.map.as_ptr().add(offset_of!(PageHeader, count)).cast::<AtomicU64>() }
    }

    /// Whether the namespace is gone; the server alone stores it.
    #[inline]
    pub(in super::super) fn retired(&self) -> &AtomicU32 {
        // SAFETY: as in `count`.
        unsafe { &*self.map.as_ptr().add(offset_of!(PageHeader, retired)).cast::<AtomicU32>() }
    }

    /// Entry `index` of this page, which a count loaded before covers.
    pub(in super::super) fn entry(&self, index: u64) -> PageEntry {
        // SAFETY: within the mapping and aligned. The caller has loaded a count that covers the entry, so its bytes
        // were written before and never change.
        unsafe { self.map.as_ptr().add(Self::offset(index)).cast::<PageEntry>().read() }
    }

    /// Writes entry `index` of this page, which no published count covers yet.
    #[cfg(feature = "builder")]
    pub(in super::super) fn write_entry(&mut self, index: u64, entry: PageEntry) {
        // SAFETY: within the writable mapping and aligned; no reader looks at it before the count covers it, and this
        // process writes through `&mut self`.
        unsafe { self.map.as_mut_ptr().add(Self::offset(index)).cast::<PageEntry>().write(entry) };
    }

    fn offset(index: u64) -> usize {
        assert!(index < PAGE_CAPACITY, "the page has room for the entry");
        PAGE_HEADER_LEN + index as usize * size_of::<PageEntry>()
    }
}

/// A value that is complete before its address is stored where others load it.
pub(in super::super) struct Complete<T>(T);

impl<T> Complete<T> {
    pub(in super::super) fn new(value: T) -> Complete<T> {
        Complete(value)
    }

    #[inline]
    pub(in super::super) fn get(&self) -> &T {
        &self.0
    }
}
