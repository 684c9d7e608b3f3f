//! Segments in memory whose end is noticed, and whose hashes fit.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};

use pmix_dstore::segment::{FINGERPRINT, FORMAT_VERSION, HEADER_LEN, MAGIC, Region, content_hash};
use xxhash_rust::xxh3::xxh3_64;

/// A copy of a segment that ends where its allocation ends: the address sanitizer sees a read of the next byte.
pub struct Exact {
    address: *mut u8,
    layout: Layout,
}

impl Exact {
    /// A copy of `bytes`.
    pub fn new(bytes: &[u8]) -> Exact {
        let layout = Layout::from_size_align(bytes.len().max(1), 64).expect("a length in memory");
        // SAFETY: the layout is of at least one byte.
        let address = unsafe { alloc(layout) };
        if address.is_null() {
            handle_alloc_error(layout);
        }
        // SAFETY: the allocation is new and holds as many bytes.
        unsafe { address.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        Exact { address, layout: Layout::from_size_align(bytes.len(), 64).expect("as before") }
    }

    /// From where to where it lies.
    pub fn range(&self) -> std::ops::Range<usize> {
        self.address as usize..self.address as usize + self.layout.size()
    }
}

impl Drop for Exact {
    fn drop(&mut self) {
        let layout = Layout::from_size_align(self.layout.size().max(1), 64).expect("as in new");
        // SAFETY: allocated with this layout in `new`.
        unsafe { dealloc(self.address, layout) };
    }
}

// SAFETY: the bytes are owned, and never changed after `new`.
unsafe impl Send for Exact {}
// SAFETY: as above.
unsafe impl Sync for Exact {}

// SAFETY: the allocation stays where it is until the region is dropped.
unsafe impl Region for Exact {
    fn bytes(&self) -> &[u8] {
        // SAFETY: allocated and written in `new`.
        unsafe { std::slice::from_raw_parts(self.address, self.layout.size()) }
    }
}

/// Where the header's fields are, as `docs/segment-format.md` says.
const VERSION_AT: usize = 8;
const HEADER_LEN_AT: usize = 12;
const FINGERPRINT_AT: usize = 32;
const TOTAL_LEN_AT: usize = 48;
const CONTENT_HASH_AT: usize = 56;
const META_HASH_AT: usize = 64;
const TOC_POS_AT: usize = 72;
const TOC_LEN_AT: usize = 80;

/// Makes the bytes pass for a whole segment, as a liar would who knows the format: what a reader compares is right.
pub fn sign(bytes: &mut [u8]) {
    let len = bytes.len() as u64;
    if len < HEADER_LEN as u64 {
        return;
    }
    let mut put = |at: usize, field: &[u8]| bytes[at..at + field.len()].copy_from_slice(field);
    put(0, &MAGIC);
    put(VERSION_AT, &FORMAT_VERSION.to_le_bytes());
    put(HEADER_LEN_AT, &(HEADER_LEN as u32).to_le_bytes());
    put(FINGERPRINT_AT, &FINGERPRINT.to_le_bytes());
    put(TOTAL_LEN_AT, &len.to_le_bytes());
    put(CONTENT_HASH_AT, &[0; 8]);
    put(META_HASH_AT, &[0; 8]);
    let toc_pos = u64::from_le_bytes(*bytes[TOC_POS_AT..].first_chunk().expect("in the header"));
    if toc_pos <= len {
        bytes[TOC_LEN_AT..TOC_LEN_AT + 8].copy_from_slice(&(len - toc_pos).to_le_bytes());
        let meta = xxh3_64(&[&bytes[..HEADER_LEN], &bytes[toc_pos as usize..]].concat());
        bytes[META_HASH_AT..META_HASH_AT + 8].copy_from_slice(&meta.to_le_bytes());
    }
    let content = content_hash(bytes).expect("longer than a header");
    bytes[CONTENT_HASH_AT..CONTENT_HASH_AT + 8].copy_from_slice(&content.to_le_bytes());
}
