//! The sources of a segment's bytes.

use std::fs::File;

use memmap2::Mmap;

/// The bytes of one segment.
///
/// # Safety
/// [`Region::bytes`] returns the same bytes at the same address, with the same length, as long as the region lives, even when the
/// region itself is moved.
pub unsafe trait Region: Send + Sync {
    /// All bytes. The address of the first is a multiple of 64.
    fn bytes(&self) -> &[u8];
}

/// A file mapped read-only.
pub struct MappedRegion(Mmap);

impl MappedRegion {
    /// Maps the first `len` bytes of `file`. The caller has checked that it is at least that long.
    ///
    /// # Errors
    /// The error of `mmap`.
    pub fn map(file: &File, len: usize) -> std::io::Result<MappedRegion> {
        // SAFETY: the bytes of a published segment do not change and its file does not shrink: it belongs to the
        // server (the caller checked the owner), which writes it once, before its entry is published, and afterwards
        // only unlinks it. This is one of the stated assumptions of the format.
        let map = unsafe { memmap2::MmapOptions::new().len(len).map(file)? };
        // The kernel maps pages as they are read, sixteen at a time. Mapping all of them at once takes longer.
        Ok(MappedRegion(map))
    }
}

impl AsRef<[u8]> for MappedRegion {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

// SAFETY: a mapping stays where it is until it is dropped, however its handle moves.
unsafe impl Region for MappedRegion {
    fn bytes(&self) -> &[u8] {
        &self.0
    }
}

/// A copy in the heap.
pub struct HeapRegion {
    chunks: Box<[Chunk]>,
    len: usize,
}

#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Chunk([u8; 64]);

impl HeapRegion {
    /// A copy of `bytes` at an aligned address.
    pub fn new(bytes: &[u8]) -> HeapRegion {
        let mut chunks = vec![Chunk([0; 64]); bytes.len().div_ceil(64)].into_boxed_slice();
        for (chunk, part) in chunks.iter_mut().zip(bytes.chunks(64)) {
            chunk.0[..part.len()].copy_from_slice(part);
        }
        HeapRegion { chunks, len: bytes.len() }
    }
}

// SAFETY: the boxed chunks stay where they are and are never changed after `new`.
unsafe impl Region for HeapRegion {
    fn bytes(&self) -> &[u8] {
        // SAFETY: the chunks are `repr(C)` arrays without padding, `len` was covered by them in `new`.
        unsafe { std::slice::from_raw_parts(self.chunks.as_ptr().cast(), self.len) }
    }
}
