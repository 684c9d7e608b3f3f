//! A page for loom: the mutable words are loom's atomics, and every entry is a cell whose accesses loom checks.
//!
//! The files exist as well. The [`Shared`] of a file's inode is to a model's threads what a mapping is to processes.

use std::collections::HashMap;
use std::fs::File;
use std::mem::offset_of;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::Arc;

use loom::cell::UnsafeCell;
use loom::lazy_static;

use crate::segment::layout::bytes::{u32_at, u64_at};
use crate::segment::layout::page::{PAGE_HEADER_LEN, PAGE_LEN, PageEntry, PageHeader};

use loom::sync::atomic::AtomicU32;
pub(crate) use loom::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

/// Entries of one page: few, so that a model needs a second page.
pub(crate) const PAGE_CAPACITY: u64 = 2;
/// As few that page 1 is removed when page 2 begins.
pub(crate) const PAGES_KEPT: u64 = 2;
/// One, so that a page has room for another entry after it: models of this have no job segment.
pub(crate) const CARRIED_MAX: u64 = 1;

/// A lock with the interface of the real one.
pub(crate) struct Mutex<T>(loom::sync::Mutex<T>);

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Mutex<T> {
        Mutex(loom::sync::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> loom::sync::MutexGuard<'_, T> {
        self.0.lock().expect("a model ends with the first panic")
    }

    pub(crate) fn try_lock(&self) -> Option<loom::sync::MutexGuard<'_, T>> {
        self.0.try_lock().ok()
    }
}

/// The memory of one page file, shared by all threads that have mapped it.
struct Shared {
    header: [u8; PAGE_HEADER_LEN],
    count: AtomicU64,
    retired: AtomicU32,
    first: AtomicU64,
    entries: [UnsafeCell<PageEntry>; PAGE_CAPACITY as usize],
}

// SAFETY: loom runs one thread at a time, and fails if two threads could access an entry at once.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

lazy_static! {
    /// Mapped pages by device and inode. This lock is the real one: it must not order anything in the model.
    static ref MAPPED: std::sync::Mutex<HashMap<(u64, u64), Arc<Shared>>> = std::sync::Mutex::default();
}

/// The memory of one page.
pub(crate) struct PageMemory {
    shared: Arc<Shared>,
}

impl PageMemory {
    pub(crate) fn read_only(file: &File) -> std::io::Result<PageMemory> {
        let stat = file.metadata()?;
        let mut mapped = MAPPED.lock().expect("a model ends with the first panic");
        if let Some(shared) = mapped.get(&(stat.dev(), stat.ino())) {
            return Ok(PageMemory { shared: Arc::clone(shared) });
        }
        let mut bytes = vec![0; PAGE_LEN];
        file.read_exact_at(&mut bytes, 0)?;
        let header = *bytes.first_chunk().expect("a page is longer than its header");
        let shared = Arc::new(Shared {
            header,
            count: AtomicU64::new(u64_at(&header, offset_of!(PageHeader, count)).unwrap_or(0)),
            retired: AtomicU32::new(u32_at(&header, offset_of!(PageHeader, retired)).unwrap_or(0)),
            first: AtomicU64::new(u64_at(&header, offset_of!(PageHeader, first)).unwrap_or(0)),
            entries: std::array::from_fn(|_| UnsafeCell::new(PageEntry::default())),
        });
        mapped.insert((stat.dev(), stat.ino()), Arc::clone(&shared));
        Ok(PageMemory { shared })
    }

    pub(crate) fn constant<const N: usize>(&self, offset: usize) -> [u8; N] {
        *self.shared.header[offset..].first_chunk().expect("within the header")
    }

    pub(crate) fn count(&self) -> &AtomicU64 {
        &self.shared.count
    }

    pub(crate) fn retired(&self) -> &AtomicU32 {
        &self.shared.retired
    }

    pub(crate) fn first(&self) -> &AtomicU64 {
        &self.shared.first
    }

    pub(crate) fn entry(&self, index: u64) -> PageEntry {
        // SAFETY: the cell's content lives during the call.
        self.shared.entries[index as usize].with(|entry| unsafe { *entry })
    }
}

/// The server's side of a page.
pub(crate) struct PageFile(PageMemory);

impl PageFile {
    pub(crate) fn new(file: File) -> std::io::Result<PageFile> {
        PageMemory::read_only(&file).map(PageFile)
    }

    pub(crate) fn write_entry(&mut self, index: u64, new: PageEntry) -> std::io::Result<()> {
        // SAFETY: as in `entry`; loom fails if another thread may read it at the same time.
        self.0.shared.entries[index as usize].with_mut(|entry| unsafe { *entry = new });
        Ok(())
    }

    pub(crate) fn store_count(&self, word: u64, ordering: Ordering) -> std::io::Result<()> {
        self.0.shared.count.store(word, ordering);
        Ok(())
    }

    pub(crate) fn store_first(&self, word: u64, ordering: Ordering) -> std::io::Result<()> {
        self.0.shared.first.store(word, ordering);
        Ok(())
    }

    pub(crate) fn store_retired(&self, word: u32, ordering: Ordering) -> std::io::Result<()> {
        self.0.shared.retired.store(word, ordering);
        Ok(())
    }
}

lazy_static! {
    /// The kernel's lock of the directory.
    static ref REMOVALS: loom::sync::Mutex<()> = loom::sync::Mutex::new(());
}

/// What the thread that removes a file has done before is seen by those that do not find it: see [`after_missing`].
pub(crate) fn before_removal() {
    drop(REMOVALS.lock());
}

/// A file was looked for and not found.
pub(crate) fn after_missing() {
    drop(REMOVALS.lock());
}

/// A value that is complete before its address is stored for other threads; loom checks this.
pub(crate) struct Complete<T>(UnsafeCell<T>);

// SAFETY: the value does not change after `new`.
unsafe impl<T: Send + Sync> Send for Complete<T> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync> Sync for Complete<T> {}

impl<T> Complete<T> {
    pub(crate) fn new(value: T) -> Complete<T> {
        Complete(UnsafeCell::new(value))
    }

    pub(crate) fn get(&self) -> &T {
        // SAFETY: the value does not change after `new`.
        self.0.with(|value| unsafe { &*value })
    }
}
