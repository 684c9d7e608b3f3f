//! Bytes for gather I/O: a message or a segment is written without first being copied together. Large values stay in their own
//! buffers.

use crate::fallible_alloc;
use crate::model::{Bytes, Result};

/// Bytes in one or several pieces.
pub trait Slices {
    /// The pieces in order; some may be empty.
    fn slices(&self) -> impl Iterator<Item = &[u8]>;

    /// Length of all pieces.
    fn total_len(&self) -> usize {
        self.slices().map(<[u8]>::len).sum()
    }
}

impl Slices for [u8] {
    fn slices(&self) -> impl Iterator<Item = &[u8]> {
        std::iter::once(self)
    }
}

impl Slices for Vec<u8> {
    fn slices(&self) -> impl Iterator<Item = &[u8]> {
        std::iter::once(self.as_slice())
    }
}

/// The pieces without the first `skip` bytes.
pub fn behind<'a>(slices: impl Iterator<Item = &'a [u8]>, mut skip: usize) -> impl Iterator<Item = &'a [u8]> {
    slices.map(move |slice| {
        let done = skip.min(slice.len());
        skip -= done;
        &slice[done..]
    })
}

/// Own bytes with shared buffers between them.
#[derive(Clone, Debug, Default)]
pub struct GatherBuf {
    own: Vec<u8>,
    shared: Vec<Shared>,
    shared_len: usize,
}

#[derive(Clone, Debug)]
struct Shared {
    /// Number of own bytes before it.
    at: usize,
    /// Position among all bytes.
    pos: usize,
    bytes: Bytes,
}

impl GatherBuf {
    /// No bytes.
    pub fn new() -> GatherBuf {
        GatherBuf::default()
    }

    /// Length of all pieces.
    pub fn len(&self) -> usize {
        self.own.len() + self.shared_len
    }

    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Length of the shared buffers.
    pub fn shared_len(&self) -> usize {
        self.shared_len
    }

    /// The own bytes, without the shared buffers between them. They may grow. Only bytes after the last shared buffer may change
    /// or be removed.
    pub fn own(&mut self) -> &mut Vec<u8> {
        &mut self.own
    }

    /// The bytes of a buffer without shared parts.
    pub(crate) fn own_bytes(&self) -> &[u8] {
        debug_assert!(self.shared.is_empty(), "all bytes are own ones");
        &self.own
    }

    /// The same by value.
    pub fn into_own(self) -> Vec<u8> {
        debug_assert!(self.shared.is_empty(), "all bytes are own ones");
        self.own
    }

    /// Appends bytes: shared if possible, otherwise copied.
    ///
    /// # Errors
    /// `NOMEM`; nothing is added.
    pub fn push(&mut self, bytes: &Bytes) -> Result<()> {
        if !bytes.is_shared() {
            return fallible_alloc::extend(&mut self.own, bytes);
        }
        let piece = Shared { at: self.own.len(), pos: self.len(), bytes: bytes.clone() };
        fallible_alloc::push(&mut self.shared, piece)?;
        self.shared_len += bytes.len();
        Ok(())
    }

    /// The shared buffers and their positions among all bytes.
    pub fn shared(&self) -> impl Iterator<Item = (u64, &Bytes)> {
        self.shared.iter().map(|piece| (piece.pos as u64, &piece.bytes))
    }

    /// The current end, for [`GatherBuf::back_to`].
    pub(crate) fn mark(&self) -> Mark {
        Mark { own: self.own.len(), shared: self.shared.len(), len: self.len() }
    }

    /// Removes the bytes that were appended after `mark`.
    pub(crate) fn back_to(&mut self, mark: Mark) {
        self.own.truncate(mark.own);
        self.shared_len -= self.shared.drain(mark.shared..).map(|piece| piece.bytes.len()).sum::<usize>();
    }

    /// Moves the own bytes that were appended after `tail` to `mark`, ahead of the bytes between `mark` and `tail`.
    pub(crate) fn rotate(&mut self, mark: Mark, tail: Mark) {
        let moved = self.own.len() - tail.own;
        self.own[mark.own..].rotate_right(moved);
        for piece in &mut self.shared[mark.shared..] {
            piece.at += moved;
            piece.pos += moved;
        }
    }

    /// The pieces without the first `from` bytes.
    pub fn slices_from(&self, from: usize) -> impl Iterator<Item = &[u8]> {
        let first = self.shared.partition_point(|piece| piece.pos + piece.bytes.len() <= from);
        let (mut at, pos) = match first.checked_sub(1).map(|before| &self.shared[before]) {
            None => (0, 0),
            Some(before) => (before.at, before.pos + before.bytes.len()),
        };
        let last = self.shared.last().map_or(0, |piece| piece.at);
        let pairs = self.shared[first..].iter().flat_map(move |piece| {
            let own = &self.own[at..piece.at];
            at = piece.at;
            [own, piece.bytes.as_slice()]
        });
        behind(pairs.chain(std::iter::once(&self.own[last..])), from - pos)
    }

    /// All bytes in one piece.
    ///
    /// # Errors
    /// `NOMEM`.
    pub fn into_bytes(self) -> Result<Vec<u8>> {
        if self.shared.is_empty() {
            return Ok(self.own);
        }
        let mut bytes = fallible_alloc::vec(self.len())?;
        self.slices().for_each(|slice| bytes.extend_from_slice(slice));
        Ok(bytes)
    }
}

/// A position in [`GatherBuf`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    own: usize,
    shared: usize,
    len: usize,
}

impl Mark {
    /// The start of an empty buffer.
    pub(crate) const START: Mark = Mark { own: 0, shared: 0, len: 0 };

    /// Bytes from `before` to here.
    pub(crate) fn since(&self, before: &Mark) -> usize {
        self.len - before.len
    }
}

impl Slices for GatherBuf {
    fn slices(&self) -> impl Iterator<Item = &[u8]> {
        self.slices_from(0)
    }

    fn total_len(&self) -> usize {
        self.len()
    }
}

impl From<Vec<u8>> for GatherBuf {
    fn from(own: Vec<u8>) -> GatherBuf {
        GatherBuf { own, ..GatherBuf::default() }
    }
}

impl<const LEN: usize> From<[u8; LEN]> for GatherBuf {
    fn from(bytes: [u8; LEN]) -> GatherBuf {
        Vec::from(bytes).into()
    }
}

impl<const LEN: usize> From<&[u8; LEN]> for GatherBuf {
    fn from(bytes: &[u8; LEN]) -> GatherBuf {
        bytes.to_vec().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Alternating own and shared bytes, and the concatenation.
    fn sample() -> (GatherBuf, Vec<u8>) {
        let (mut pieces, mut all) = (GatherBuf::new(), Vec::new());
        for (index, len) in [3, 2000, 0, 1024, 5000, 1, 1500].into_iter().enumerate() {
            let bytes: Vec<u8> = (0..len).map(|at| (at * 7 + index) as u8).collect();
            all.extend_from_slice(&bytes);
            pieces.push(&bytes.into()).unwrap();
        }
        (pieces, all)
    }

    #[test]
    fn pieces_are_the_bytes_from_wherever_they_are_read() {
        let (pieces, all) = sample();
        assert_eq!((pieces.len(), pieces.shared_len()), (all.len(), all.len() - 4));
        for from in (0..all.len()).step_by(97).chain([2003, 3027, 8027, 8028, all.len()]) {
            assert_eq!(pieces.slices_from(from).collect::<Vec<_>>().concat(), all[from..], "from {from}");
        }
        assert_eq!(pieces.into_bytes().unwrap(), all);
    }

    #[test]
    fn a_header_written_last_goes_first_and_failed_parts_are_removed() {
        let (mut pieces, mut all) = (GatherBuf::new(), b"before".to_vec());
        pieces.own().extend_from_slice(b"before");
        let mark = pieces.mark();
        let (inner, bytes) = sample();
        inner.slices().for_each(|slice| pieces.push(&slice.to_vec().into()).unwrap());
        let tail = pieces.mark();
        assert_eq!(tail.since(&mark), bytes.len());
        pieces.own().extend_from_slice(b"head");
        pieces.rotate(mark, tail);
        all.extend_from_slice(b"head");
        all.extend_from_slice(&bytes);
        let whole = pieces.mark();
        pieces.push(&vec![0; 5000].into()).unwrap();
        pieces.own().push(1);
        pieces.back_to(whole);
        assert_eq!(pieces.len(), all.len());
        assert_eq!(pieces.slices_from(2010).collect::<Vec<_>>().concat(), all[2010..]);
        assert_eq!(pieces.into_bytes().unwrap(), all);
    }
}
