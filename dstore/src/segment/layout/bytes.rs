//! Little-endian numbers in a byte region; every read is bounds-checked.
//!
//! A segment has two kinds of arrays. In *tables*, each entry has its own check; *lines* hold as many numbers as fit into 60
//! bytes, followed by a check. A reader verifies the check at every read, because the file can become corrupt long after it was
//! mapped. A check is seeded with its position, so that an entry is valid only at that position.

use std::marker::PhantomData;

use super::toc::Extent;

/// Why a read of a segment has no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Miss {
    /// There is no value: the tables that were read are intact and do not list it.
    Absent,
    /// A byte that was read on the way is corrupt.
    Damaged,
}

/// The result of a read in a segment.
pub(crate) type Read<T> = Result<T, Miss>;

macro_rules! read_at {
    ($($name:ident: $ty:ty;)+) => {
        $(
            #[doc = concat!("The `", stringify!($ty), "` at byte `pos`, which must lie in the region.")]
            #[inline]
            pub(crate) fn $name(bytes: &[u8], pos: usize) -> Read<$ty> {
                let found = bytes.get(pos..).and_then(<[u8]>::first_chunk).ok_or(Miss::Damaged)?;
                Ok(<$ty>::from_le_bytes(*found))
            }
        )+
    };
}

read_at! {
    u8_at: u8;
    u16_at: u16;
    u32_at: u32;
    u64_at: u64;
}

/// `len` bytes at `pos`, which must lie in the region.
#[inline]
pub(crate) fn slice_at(bytes: &[u8], pos: u64, len: u64) -> Read<&[u8]> {
    let end = pos.checked_add(len).ok_or(Miss::Damaged)?;
    let range = usize::try_from(pos).ok().zip(usize::try_from(end).ok()).ok_or(Miss::Damaged)?;
    bytes.get(range.0..range.1).ok_or(Miss::Damaged)
}

/// The first 512 bits of the fraction of pi.
const SEEDS: [u64; 8] = [
    0x243f_6a88_85a3_08d3,
    0x1319_8a2e_0370_7344,
    0xa409_3822_299f_31d0,
    0x082e_fa98_ec4e_6c89,
    0x4528_21e6_38d0_1377,
    0xbe54_66cf_34e9_0c6c,
    0xc0ac_29b7_c97c_50dd,
    0x3f84_d5b5_b547_0917,
];

/// The check of at most 64 `bytes` at position `pos` of a segment: products of their words. It costs a look-up about two
/// nanoseconds; a hash for any length takes ten.
#[inline(always)]
pub(crate) fn check_of(bytes: &[u8], pos: u64) -> u32 {
    let (seeds, _) = SEEDS.as_chunks::<2>();
    let mut sum = pos.wrapping_mul(SEEDS[0]);
    for (pair, [a, b]) in bytes.chunks(16).zip(seeds) {
        let (x, y) = (word(pair, 0) ^ a, word(pair, 8) ^ b);
        let product = u128::from(x) * u128::from(y);
        sum ^= product as u64 ^ (product >> 64) as u64;
    }
    (sum ^ sum >> 32) as u32
}

/// The word at `at`, padded with zeros. Lengths are nearly always multiples of four, and then no byte is copied: assembling a
/// word from two recent partial writes would take longer than the rest of the check.
#[inline(always)]
fn word(bytes: &[u8], at: usize) -> u64 {
    let bytes = bytes.get(at..).unwrap_or(&[]);
    match (bytes.first_chunk::<8>(), bytes.first_chunk::<4>()) {
        (Some(word), _) => u64::from_le_bytes(*word),
        (None, Some(half)) if bytes.len() == 4 => u32::from_le_bytes(*half).into(),
        _ => bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)),
    }
}

/// Verifies an entry of `LEN` bytes at `pos` with the check that follows it.
#[inline]
pub(crate) fn verify<const LEN: usize>(bytes: &[u8], pos: usize) -> Read<()> {
    let entry: &[u8; LEN] = bytes.get(pos..).and_then(<[u8]>::first_chunk).ok_or(Miss::Damaged)?;
    let check = u32_at(bytes, pos + LEN)?;
    if check_of(entry, pos as u64) == check { Ok(()) } else { Err(Miss::Damaged) }
}

/// A table of a segment with items of the size of `T`. Its extent has been checked: it lies in the file and is aligned for its items.
pub(crate) struct Table<T> {
    pos: usize,
    count: usize,
    of: PhantomData<fn() -> T>,
}

// Derived, these would want them of `T`, too.
impl<T> Clone for Table<T> {
    fn clone(&self) -> Table<T> {
        *self
    }
}

impl<T> Copy for Table<T> {}

impl<T> Default for Table<T> {
    fn default() -> Table<T> {
        Table { pos: 0, count: 0, of: PhantomData }
    }
}

impl<T> Table<T> {
    /// Checks that `extent` lies within a file of `len` bytes and has such items.
    pub(crate) fn check(extent: Extent, len: usize) -> Option<Table<T>> {
        let width = size_of::<T>();
        let count = usize::try_from(extent.count).ok()?;
        if count == 0 {
            return Some(Table::default());
        }
        let pos = usize::try_from(extent.pos).ok()?;
        let end = count.checked_mul(width)?.checked_add(pos)?;
        let aligned = pos.is_multiple_of(width.next_power_of_two().min(8));
        (extent.width as usize == width && end <= len && aligned).then_some(Table { pos, count, of: PhantomData })
    }

    /// Number of items.
    #[inline]
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Position in the file of item `index`. The item is not verified.
    ///
    /// # Errors
    /// `Damaged` if the index is out of range: it comes from a corrupt number.
    #[inline]
    pub(crate) fn at(&self, index: usize) -> Read<usize> {
        if index < self.count { Ok(self.pos + index * size_of::<T>()) } else { Err(Miss::Damaged) }
    }

    /// Position in the file of entry `index`, after verifying its first `LEN` bytes with the check that follows them.
    #[inline]
    pub(crate) fn entry<const LEN: usize>(&self, bytes: &[u8], index: usize) -> Read<usize> {
        let pos = self.at(index)?;
        verify::<LEN>(bytes, pos)?;
        Ok(pos)
    }

    /// Binary search for `wanted` in the entries `first..last`, which ascend by the number at `offset`. Returns the entry's
    /// position.
    ///
    /// # Errors
    /// `Absent` if the two entries around the gap are intact and confirm it; otherwise `Damaged`.
    #[inline]
    pub(crate) fn search<const LEN: usize>(
        &self,
        bytes: &[u8],
        (first, last): (usize, usize),
        offset: usize,
        wanted: u32,
    ) -> Read<usize> {
        let (mut low, mut high) = (first, last);
        while low < high {
            let middle = low + (high - low) / 2;
            match u32_at(bytes, self.at(middle)? + offset)?.cmp(&wanted) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
                std::cmp::Ordering::Equal => return self.entry::<LEN>(bytes, middle),
            }
        }
        // A corrupt entry may have misled the search. Two intact entries with `wanted` between them prove that it is absent.
        let is_below = low == first || u32_at(bytes, self.entry::<LEN>(bytes, low - 1)? + offset)? < wanted;
        let is_above = low == last || u32_at(bytes, self.entry::<LEN>(bytes, low)? + offset)? > wanted;
        Err(if is_below && is_above { Miss::Absent } else { Miss::Damaged })
    }

    /// First position and length in bytes.
    pub(crate) fn span(&self) -> (usize, usize) {
        (self.pos, self.count * size_of::<T>())
    }
}

/// Bytes of a line that hold numbers.
pub(crate) const LINE_PAYLOAD: usize = 60;
/// Bytes of a line with its check.
pub(crate) const LINE_LEN: usize = 64;

/// Number of numbers of `width` bytes in a line.
pub(crate) const fn per_line(width: usize) -> usize {
    LINE_PAYLOAD / width
}

/// An array of numbers of one, two, four or eight bytes in lines.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Lines {
    pos: usize,
    count: usize,
    width: usize,
}

impl Lines {
    /// Checks that the lines of `extent` lie within a file of `len` bytes.
    pub(crate) fn check(extent: Extent, len: usize) -> Option<Lines> {
        let count = usize::try_from(extent.count).ok()?;
        if count == 0 {
            return Some(Lines::default());
        }
        let width = extent.width as usize;
        if !matches!(width, 1 | 2 | 4 | 8) {
            return None;
        }
        let pos = usize::try_from(extent.pos).ok()?;
        let end = count.div_ceil(per_line(width)).checked_mul(LINE_LEN)?.checked_add(pos)?;
        (pos.is_multiple_of(LINE_LEN) && end <= len).then_some(Lines { pos, count, width })
    }

    /// Count of the numbers.
    #[inline]
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Bytes of a number; 0 in an empty array.
    #[inline]
    pub(crate) fn width(&self) -> usize {
        self.width
    }

    /// Number `index`, zero-extended, after verifying its line.
    #[inline]
    pub(crate) fn number(&self, bytes: &[u8], index: usize) -> Read<u64> {
        if index >= self.count {
            return Err(Miss::Damaged);
        }
        // Divisions by constants are cheaper.
        let (line, place) = match self.width {
            1 => (index / const { per_line(1) }, index % const { per_line(1) }),
            2 => (index / const { per_line(2) }, index % const { per_line(2) }),
            4 => (index / const { per_line(4) }, index % const { per_line(4) }),
            _ => (index / const { per_line(8) }, index % const { per_line(8) }),
        };
        let line = self.pos + line * LINE_LEN;
        verify::<LINE_PAYLOAD>(bytes, line)?;
        let pos = line + place * self.width;
        match self.width {
            1 => u8_at(bytes, pos).map(u64::from),
            2 => u16_at(bytes, pos).map(u64::from),
            4 => u32_at(bytes, pos).map(u64::from),
            _ => u64_at(bytes, pos),
        }
    }

    /// Whether bit `index` is set, the numbers being words of 64 bits.
    #[inline]
    pub(crate) fn bit(&self, bytes: &[u8], index: usize) -> Read<bool> {
        Ok(self.number(bytes, index / 64)? >> (index % 64) & 1 != 0)
    }
}
