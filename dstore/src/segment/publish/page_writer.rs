//! The server's side of a directory page.

use std::fs::File;
use std::mem::offset_of;
use std::num::NonZeroU64;

use crate::model::Nspace;
use crate::segment::directory::page::{Entry, counted, position};
use crate::segment::directory::sync::{Ordering, PageFile};
use crate::segment::layout::page::{PAGE_LEN, PAGE_MAGIC, PAGE_VERSION, PageEntry, PageHeader};

/// The server's side of a page.
pub(crate) struct PageWriter {
    page: PageFile,
}

impl PageWriter {
    /// All bytes of a new page without entries. They are written to the file before it has any, so that no later write needs a
    /// block that the file system does not have.
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

    /// Keeps a page file that holds an image, open for writing.
    ///
    /// # Errors
    /// Where the page cannot be had.
    pub(crate) fn new(file: File) -> std::io::Result<PageWriter> {
        Ok(PageWriter { page: PageFile::new(file)? })
    }

    /// Writes entry `index` of this page, which no published count covers yet.
    ///
    /// # Errors
    /// What the system says; where the file has been cut.
    pub(crate) fn write_entry(&mut self, index: u64, entry: &Entry) -> std::io::Result<()> {
        self.page.write_entry(index, entry.raw(position(index)))
    }

    /// Makes all entries below `count` known. Of the first page only.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn publish(&self, count: NonZeroU64) -> std::io::Result<()> {
        // PUBLISH: pairs with the acquire load in `PageMap::count`.
        self.page.store_count(counted(count.get()).to_le(), Ordering::Release)
    }

    /// Says that the namespace is gone. Of the first page only.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn retire(&self) -> std::io::Result<()> {
        // RETIRE: pairs with the acquire load in `PageMap::is_retired`.
        self.page.store_retired(1u32.to_le(), Ordering::Release)
    }
}
