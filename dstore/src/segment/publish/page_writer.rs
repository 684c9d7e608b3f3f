//! The server's side of a directory page.

use std::fs::File;
use std::mem::offset_of;
use std::num::NonZeroU64;

use crate::model::Nspace;
use crate::segment::directory::page::{Entry, counted, first_word, position};
use crate::segment::directory::sync::{Ordering, PageFile};
use crate::segment::layout::page::{PAGE_LEN, PAGE_MAGIC, PAGE_VERSION, PageEntry, PageHeader};

/// The server's side of a page.
pub(crate) struct PageWriter {
    page: PageFile,
}

impl PageWriter {
    /// All bytes of a new page without entries. The file is written whole before its first entry, so that no later write needs a
    /// block that the file system lacks.
    pub(crate) fn image(nspace: &Nspace, number: u64) -> Vec<u8> {
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

    /// Wraps a page file that holds an image and is open for writing.
    ///
    /// # Errors
    /// The page cannot be opened.
    pub(crate) fn new(file: File) -> std::io::Result<PageWriter> {
        Ok(PageWriter { page: PageFile::new(file)? })
    }

    /// Writes entry `index` of this page, which must be above the published count.
    ///
    /// # Errors
    /// An error of the system; the file was truncated.
    pub(crate) fn write_entry(&mut self, index: u64, entry: &Entry) -> std::io::Result<()> {
        self.page.write_entry(index, entry.raw(position(index)))
    }

    /// Publishes all entries below `count`. For page 0 only.
    ///
    /// # Errors
    /// An error of the system.
    pub(crate) fn publish(&self, count: NonZeroU64) -> std::io::Result<()> {
        // PUBLISH: pairs with the acquire load in `PageMap::count`.
        self.page.store_count(counted(count.get()).to_le(), Ordering::Release)
    }

    /// Makes page `number` the first one that readers need. It begins with published entries of all live segments. For page 0 only.
    ///
    /// # Errors
    /// An error of the system.
    pub(crate) fn begin_at(&self, number: u64) -> std::io::Result<()> {
        // FIRST: pairs with the acquire load in `PageMap::first`.
        self.page.store_first(first_word(number).to_le(), Ordering::Release)
    }

    /// Marks the namespace as ended. For page 0 only.
    ///
    /// # Errors
    /// An error of the system.
    pub(crate) fn retire(&self) -> std::io::Result<()> {
        // RETIRE: pairs with the acquire load in `PageMap::is_retired`.
        self.page.store_retired(1u32.to_le(), Ordering::Release)
    }
}
