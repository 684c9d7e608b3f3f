//! Little-endian numbers at positions of a byte region; every read is checked.

use super::toc::Extent;

macro_rules! read_at {
    ($($name:ident: $ty:ty;)+) => {
        $(
            #[doc = concat!("The `", stringify!($ty), "` at byte `pos`, if it lies in the region.")]
            #[inline]
            pub(super) fn $name(bytes: &[u8], pos: usize) -> Option<$ty> {
                Some(<$ty>::from_le_bytes(*bytes.get(pos..)?.first_chunk()?))
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

/// `len` bytes at `pos`, if they lie in the region.
#[inline]
pub(super) fn slice_at(bytes: &[u8], pos: u64, len: u64) -> Option<&[u8]> {
    let pos = usize::try_from(pos).ok()?;
    let len = usize::try_from(len).ok()?;
    bytes.get(pos..)?.get(..len)
}

/// An array of a segment whose extent has been checked: it lies in the file and is aligned for its items.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Table {
    pos: usize,
    count: usize,
    width: usize,
}

impl Table {
    /// Checks that `extent` lies within a file of `len` bytes and is made of items of `width` bytes.
    pub(super) fn check(extent: Extent, len: usize, width: usize) -> Option<Table> {
        let count = usize::try_from(extent.count).ok()?;
        if count == 0 {
            return Some(Table { pos: 0, count: 0, width });
        }
        let pos = usize::try_from(extent.pos).ok()?;
        let end = count.checked_mul(width)?.checked_add(pos)?;
        let aligned = pos.is_multiple_of(width.next_power_of_two().min(8));
        (extent.width as usize == width && end <= len && aligned).then_some(Table { pos, count, width })
    }

    /// Number of items.
    #[inline]
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Position in the file of item `index`, if there is one.
    #[inline]
    pub(super) fn at(&self, index: usize) -> Option<usize> {
        (index < self.count).then(|| self.pos + index * self.width)
    }

    /// Item `index` of an array of numbers of one, two, four or eight bytes, zero-extended.
    #[inline]
    pub(super) fn number(&self, bytes: &[u8], index: usize) -> Option<u64> {
        let pos = self.at(index)?;
        match self.width {
            1 => u8_at(bytes, pos).map(u64::from),
            2 => u16_at(bytes, pos).map(u64::from),
            4 => u32_at(bytes, pos).map(u64::from),
            8 => u64_at(bytes, pos),
            _ => None,
        }
    }

    /// Whether bit `index` is set, the table being an array of 64-bit words.
    #[inline]
    pub(super) fn bit(&self, bytes: &[u8], index: usize) -> bool {
        self.number(bytes, index / 64).is_some_and(|word| word >> (index % 64) & 1 != 0)
    }

    /// First position and length in bytes.
    pub(super) fn span(&self) -> (usize, usize) {
        (self.pos, self.count * self.width)
    }
}
