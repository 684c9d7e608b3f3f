//! The growing bytes of a segment.

use std::collections::HashMap;

use rkyv::api::high::HighSerializer;
use rkyv::rancor;
use rkyv::ser::allocator::ArenaHandle;
use rkyv::util::AlignedVec;
use xxhash_rust::xxh3::xxh3_64;

use super::{BuildError, header, reserve};
use crate::fallible_alloc;
use crate::gather::GatherBuf;
use crate::model::{Bytes, Nspace};
use crate::segment::layout::bytes::{LINE_LEN, LINE_PAYLOAD, check_of, per_line};
use crate::segment::layout::header::{HEADER_LEN, SegmentKind};
use crate::segment::layout::toc::Extent;

/// Alignment of larger regions: a cache line.
const ALIGN_MAX: usize = 64;

/// A segment under construction: space for the header, then the regions in order.
pub(crate) struct Writer {
    bytes: GatherBuf,
}

impl Writer {
    pub(crate) fn new() -> Writer {
        Writer { bytes: vec![0; HEADER_LEN].into() }
    }

    /// Position of the next byte.
    pub(crate) fn pos(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// Adds zeros up to a multiple of `align`, a power of two.
    pub(crate) fn align(&mut self, align: usize) {
        self.fill_to(self.pos().next_multiple_of(align as u64));
    }

    /// Reserves capacity for `len` more bytes.
    ///
    /// # Errors
    /// Not enough memory.
    pub(crate) fn reserve(&mut self, len: usize) -> Result<(), BuildError> {
        reserve(self.bytes.own(), len)
    }

    /// Adds zeros up to the position `pos`.
    pub(crate) fn fill_to(&mut self, pos: u64) {
        let gap = (pos - self.pos()) as usize;
        let own = self.bytes.own();
        own.resize(own.len() + gap, 0);
    }

    pub(crate) fn put(&mut self, bytes: &[u8]) {
        self.bytes.own().extend_from_slice(bytes);
    }

    /// Appends bytes: shared if possible, otherwise copied.
    ///
    /// # Errors
    /// Not enough memory.
    pub(crate) fn put_shared(&mut self, bytes: &Bytes) -> Result<(), BuildError> {
        self.bytes.push(bytes).map_err(|_| BuildError::NoMemory { needed: bytes.len() as u64 })
    }

    pub(crate) fn put_u32(&mut self, number: u32) {
        self.put(&number.to_le_bytes());
    }

    pub(crate) fn put_u64(&mut self, number: u64) {
        self.put(&number.to_le_bytes());
    }

    /// A region of `count` items of `width` bytes, written by `fill`. It is aligned to 64 bytes if it is larger than a cache
    /// line.
    ///
    /// # Errors
    /// Not enough memory.
    pub(crate) fn region(
        &mut self,
        count: usize,
        width: usize,
        fill: impl FnOnce(&mut Writer),
    ) -> Result<Extent, BuildError> {
        self.region_with_shared(count, width, 0, |writer| {
            fill(writer);
            Ok(())
        })
    }

    /// The same for a region in which `shared` bytes are referenced, not copied.
    ///
    /// # Errors
    /// Not enough memory; errors of `fill`.
    pub(crate) fn region_with_shared(
        &mut self,
        count: usize,
        width: usize,
        shared: usize,
        fill: impl FnOnce(&mut Writer) -> Result<(), BuildError>,
    ) -> Result<Extent, BuildError> {
        if count == 0 {
            return Ok(Extent { width: width as u32, ..Extent::default() });
        }
        self.reserve(count * width - shared + ALIGN_MAX)?;
        self.align(if count * width > 64 { ALIGN_MAX } else { 8 });
        let pos = self.pos();
        fill(self)?;
        debug_assert_eq!(self.pos() - pos, (count * width) as u64, "a region has the length it says");
        Ok(Extent { pos, count: count as u64, width: width as u32, reserved: 0 })
    }

    /// Ends an entry that began at `start`, at most 64 bytes ago, with its check.
    pub(crate) fn put_check(&mut self, start: u64) {
        let len = (self.pos() - start) as usize;
        let own = self.bytes.own();
        let check = check_of(&own[own.len() - len..], start);
        self.put_u32(check);
    }

    /// Numbers of `width` bytes in lines, each with its check.
    ///
    /// # Errors
    /// As [`Writer::region`].
    pub(crate) fn lines(
        &mut self,
        numbers: impl ExactSizeIterator<Item = u64>,
        width: usize,
    ) -> Result<Extent, BuildError> {
        let count = numbers.len();
        if count == 0 {
            return Ok(Extent { width: width as u32, ..Extent::default() });
        }
        let per_line = per_line(width);
        self.reserve((count.div_ceil(per_line) + 1) * LINE_LEN)?;
        self.align(LINE_LEN);
        let pos = self.pos();
        for (index, number) in numbers.enumerate() {
            self.put(&number.to_le_bytes()[..width]);
            if (index + 1) % per_line == 0 || index + 1 == count {
                let start = pos + (index / per_line * LINE_LEN) as u64;
                self.fill_to(start + LINE_PAYLOAD as u64);
                self.put_check(start);
            }
        }
        Ok(Extent { pos, count: count as u64, width: width as u32, reserved: 0 })
    }

    /// Numbers in the narrowest of 1, 2, 4 and 8 bytes that holds all of them.
    ///
    /// # Errors
    /// As [`Writer::region`].
    pub(crate) fn numbers(
        &mut self,
        numbers: impl ExactSizeIterator<Item = u64> + Clone,
    ) -> Result<Extent, BuildError> {
        let width = width_of(numbers.clone().max().unwrap_or(0));
        self.lines(numbers, width)
    }

    /// Appends the table of contents and fills the header.
    pub(crate) fn finish<T>(
        mut self,
        kind: SegmentKind,
        nspace: &Nspace,
        creator: &str,
        toc: &T,
    ) -> Result<GatherBuf, BuildError>
    where
        T: for<'a> rkyv::Serialize<HighSerializer<AlignedVec, ArenaHandle<'a>, rancor::Error>>,
    {
        let archive = rkyv::to_bytes::<rancor::Error>(toc).map_err(|error| BuildError::Archive(error.to_string()))?;
        self.reserve(archive.len() + ALIGN_MAX)?;
        self.align(ALIGN_MAX);
        let toc_pos = self.pos();
        self.put(&archive);
        header::fill(&mut self.bytes, kind, nspace, creator, toc_pos);
        Ok(self.bytes)
    }
}

/// The narrowest width that holds `number`.
pub(crate) fn width_of(number: u64) -> usize {
    match number {
        0..=0xff => 1,
        0x100..=0xffff => 2,
        0x1_0000..=0xffff_ffff => 4,
        _ => 8,
    }
}

/// The bytes of variable values, without duplicates.
///
/// Positions are relative to the start of the heap, because the heap comes last, after the regions that every look-up reads.
#[derive(Default)]
pub(crate) struct Heap {
    bytes: Vec<u8>,
    /// Position and length of the bytes with a hash, separately for aligned and other ones.
    places: HashMap<(u64, bool), (u64, usize)>,
}

impl Heap {
    /// Stores bytes, unless the heap has them. `aligned` bytes start at a multiple of eight; others are texts and end with a NUL.
    /// Returns their position.
    ///
    /// # Errors
    /// Not enough memory.
    pub(crate) fn intern(&mut self, bytes: &[u8], aligned: bool) -> Result<u64, BuildError> {
        let hash = (xxh3_64(bytes), aligned);
        if let Some((pos, len)) = self.places.get(&hash)
            && self.bytes.get(*pos as usize..*pos as usize + len) == Some(bytes)
        {
            return Ok(*pos);
        }
        reserve(&mut self.bytes, bytes.len() + 8)?;
        let entries = self.places.len() as u64 + 1;
        fallible_alloc::reserve_entries(&mut self.places, 1)
            .map_err(|_| BuildError::NoMemory { needed: 32 * entries })?;
        if aligned {
            self.bytes.resize(self.bytes.len().next_multiple_of(8), 0);
        }
        let pos = self.bytes.len() as u64;
        self.bytes.extend_from_slice(bytes);
        if !aligned {
            self.bytes.push(0);
        }
        // If two have the same hash, only the first is found.
        self.places.entry(hash).or_insert((pos, bytes.len()));
        Ok(pos)
    }

    /// Writes the heap as a region.
    ///
    /// # Errors
    /// As [`Writer::region`].
    pub(crate) fn write(&self, writer: &mut Writer) -> Result<Extent, BuildError> {
        writer.region(self.bytes.len(), 1, |writer| writer.put(&self.bytes))
    }
}
