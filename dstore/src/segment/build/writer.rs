//! The growing bytes of a segment.

use std::collections::HashMap;

use rkyv::api::high::HighSerializer;
use rkyv::rancor;
use rkyv::ser::allocator::ArenaHandle;
use rkyv::util::AlignedVec;

use super::BuildError;
use crate::model::Nspace;
use crate::segment::bytes::{LINE_LEN, LINE_PAYLOAD, check_of, per_line};
use crate::segment::header::{self, HEADER_LEN, SegmentKind};
use crate::segment::toc::Extent;

/// A segment under construction: the header's place, then regions one after the other.
pub(super) struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    pub(super) fn new() -> Writer {
        Writer { bytes: vec![0; HEADER_LEN] }
    }

    /// Position of the next byte.
    pub(super) fn pos(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// Adds zeros up to a multiple of `align`, a power of two.
    pub(super) fn align(&mut self, align: usize) {
        self.bytes.resize(self.bytes.len().next_multiple_of(align), 0);
    }

    /// Makes room for `len` more bytes at once.
    pub(super) fn reserve(&mut self, len: usize) {
        self.bytes.reserve(len);
    }

    /// Adds zeros up to the position `pos`.
    pub(super) fn fill_to(&mut self, pos: u64) {
        self.bytes.resize(pos as usize, 0);
    }

    pub(super) fn put(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    pub(super) fn put_u32(&mut self, number: u32) {
        self.put(&number.to_le_bytes());
    }

    pub(super) fn put_u64(&mut self, number: u64) {
        self.put(&number.to_le_bytes());
    }

    /// A region of `count` items of `width` bytes, written by `fill`, at a multiple of 64 bytes when it is larger than
    /// a cache line.
    pub(super) fn region(&mut self, count: usize, width: usize, fill: impl FnOnce(&mut Writer)) -> Extent {
        if count == 0 {
            return Extent { width: width as u32, ..Extent::default() };
        }
        self.align(if count * width > 64 { 64 } else { 8 });
        let pos = self.pos();
        fill(self);
        debug_assert_eq!(self.pos() - pos, (count * width) as u64, "a region has the length it says");
        Extent { pos, count: count as u64, width: width as u32, reserved: 0 }
    }

    /// Ends an entry that began at `start`, at most 64 bytes ago, with its check.
    pub(super) fn put_check(&mut self, start: u64) {
        let check = check_of(&self.bytes[start as usize..], start);
        self.put_u32(check);
    }

    /// Numbers of `width` bytes in lines, each with its check.
    pub(super) fn lines(&mut self, numbers: impl ExactSizeIterator<Item = u64>, width: usize) -> Extent {
        let count = numbers.len();
        if count == 0 {
            return Extent { width: width as u32, ..Extent::default() };
        }
        self.align(LINE_LEN);
        let pos = self.pos();
        let per_line = per_line(width);
        self.reserve(count.div_ceil(per_line) * LINE_LEN);
        for (index, number) in numbers.enumerate() {
            self.put(&number.to_le_bytes()[..width]);
            if (index + 1) % per_line == 0 || index + 1 == count {
                let start = pos + (index / per_line * LINE_LEN) as u64;
                self.fill_to(start + LINE_PAYLOAD as u64);
                self.put_check(start);
            }
        }
        Extent { pos, count: count as u64, width: width as u32, reserved: 0 }
    }

    /// Numbers in the narrowest of 1, 2, 4 and 8 bytes that holds all of them.
    pub(super) fn numbers(&mut self, numbers: &[u64]) -> Extent {
        let width = width_of(numbers.iter().copied().max().unwrap_or(0));
        self.lines(numbers.iter().copied(), width)
    }

    /// Appends the table of contents and fills the header.
    pub(super) fn finish<T>(
        mut self,
        kind: SegmentKind,
        nspace: &Nspace,
        creator: &str,
        toc: &T,
    ) -> Result<Vec<u8>, BuildError>
    where
        T: for<'a> rkyv::Serialize<HighSerializer<AlignedVec, ArenaHandle<'a>, rancor::Error>>,
    {
        let archive = rkyv::to_bytes::<rancor::Error>(toc).map_err(|error| BuildError::Archive(error.to_string()))?;
        self.align(64);
        let toc_pos = self.bytes.len();
        self.put(&archive);
        header::fill(&mut self.bytes, kind, nspace, creator, toc_pos);
        Ok(self.bytes)
    }
}

/// The narrowest width that holds `number`.
pub(super) fn width_of(number: u64) -> usize {
    match number {
        0..=0xff => 1,
        0x100..=0xffff => 2,
        0x1_0000..=0xffff_ffff => 4,
        _ => 8,
    }
}

/// The bytes of variable values, each different one once.
///
/// Positions count from the heap's beginning: it comes last, behind the regions that every lookup reads.
#[derive(Default)]
pub(super) struct Heap {
    bytes: Vec<u8>,
    places: HashMap<Box<[u8]>, [Option<u64>; 2]>,
}

impl Heap {
    /// Stores bytes unless they are there already; `aligned` ones lie on a multiple of eight, others are texts and have
    /// a NUL behind them. Answers where they are.
    pub(super) fn intern(&mut self, bytes: &[u8], aligned: bool) -> u64 {
        if let Some(Some(pos)) = self.places.get(bytes).map(|places| places[usize::from(aligned)]) {
            return pos;
        }
        if aligned {
            self.bytes.resize(self.bytes.len().next_multiple_of(8), 0);
        }
        let pos = self.bytes.len() as u64;
        self.bytes.extend_from_slice(bytes);
        if !aligned {
            self.bytes.push(0);
        }
        self.places.entry(bytes.into()).or_default()[usize::from(aligned)] = Some(pos);
        pos
    }

    /// Writes the heap as a region.
    pub(super) fn write(&self, writer: &mut Writer) -> Extent {
        writer.region(self.bytes.len(), 1, |writer| writer.put(&self.bytes))
    }
}
