//! A column: the values of one key in one realm.

use std::mem::offset_of;

use super::bytes::{Lines, Miss, Read, Table, u32_at, u64_at};
use super::checked::{number_mask, payload};
use super::header::SegmentError;
use super::toc::{ColumnToc, DictEntry, SOURCE_DENSE, SOURCE_FORMULA, SOURCE_NONE, SparseEntry};
use crate::model::{DataType, ValueRef};

/// Reads a column.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Column {
    key: u32,
    realm: u32,
    ty: DataType,
    rows: u32,
    source: Source,
    /// Bits that a number of the column may have; 0 where the numbers are indices of the dictionary.
    mask: u64,
    /// Empty where every row has a value.
    presence: Lines,
    dictionary: Table,
    sparse: Table,
}

/// Where the number of a row comes from.
#[derive(Clone, Copy, Debug, Default)]
enum Source {
    #[default]
    None,
    Formula {
        start: u64,
        step: u64,
        divisor: u32,
        modulus: u32,
    },
    Dense(Lines),
}

impl Column {
    /// Checks the extents of a column against a file of `len` bytes.
    ///
    /// # Errors
    /// An extent outside the file, or a description that means nothing.
    pub(super) fn check(toc: &ColumnToc, len: usize) -> Result<Column, SegmentError> {
        let table = |extent, width, what| Table::check(extent, len, width).ok_or(SegmentError::Extent(what));
        let lines = |extent, what| Lines::check(extent, len).ok_or(SegmentError::Extent(what));
        let source = match toc.source {
            SOURCE_NONE => Source::None,
            SOURCE_FORMULA => {
                let small = |number: u64| u32::try_from(number).map_err(|_| SegmentError::Extent("formula"));
                let (divisor, modulus) = (small(toc.divisor)?, small(toc.modulus)?);
                if divisor == 0 {
                    return Err(SegmentError::Extent("formula"));
                }
                Source::Formula { start: toc.start, step: toc.step, divisor, modulus }
            }
            SOURCE_DENSE => {
                if toc.numbers.count < u64::from(toc.rows) {
                    return Err(SegmentError::Extent("numbers"));
                }
                Source::Dense(lines(toc.numbers, "numbers")?)
            }
            _ => return Err(SegmentError::Extent("source of a column")),
        };
        let ty = DataType(u16::try_from(toc.ty).map_err(|_| SegmentError::Extent("type of a column"))?);
        let presence = lines(toc.presence, "presence")?;
        let is_short = presence.width() != 8 || presence.count() < (toc.rows as usize).div_ceil(64);
        if presence.count() != 0 && is_short {
            return Err(SegmentError::Extent("presence"));
        }
        let dictionary = table(toc.dictionary, size_of::<DictEntry>(), "dictionary")?;
        let mask = match number_mask(ty) {
            Some(mask) if dictionary.count() == 0 => mask,
            None => 0,
            Some(_) => return Err(SegmentError::Extent("dictionary of numbers")),
        };
        let sparse = table(toc.sparse, size_of::<SparseEntry>(), "sparse values")?;
        Ok(Column { key: toc.key, realm: toc.realm, ty, rows: toc.rows, source, mask, presence, dictionary, sparse })
    }

    /// What the column is made of, in words.
    pub(super) fn form(&self) -> String {
        let mut form = match self.source {
            Source::None => String::from("no rows"),
            Source::Formula { start, step: 0, .. } => format!("{start} in all rows"),
            Source::Formula { start, step, divisor, modulus } => {
                let mut row = String::from("row");
                if divisor != 1 {
                    row = format!("(row / {divisor})");
                }
                if modulus != 0 {
                    row = format!("({row} % {modulus})");
                }
                format!("{start} + {} * {row}", step as i64)
            }
            Source::Dense(lines) => format!("{} numbers of {} bytes", lines.count(), lines.width()),
        };
        form.insert_str(0, &format!("{}: ", self.ty));
        if self.dictionary.count() != 0 {
            form.push_str(&format!(" as index of {} values", self.dictionary.count()));
        }
        if self.presence.count() != 0 {
            form.push_str(", some without a value");
        }
        if self.sparse.count() != 0 {
            form.push_str(&format!(", {} sparse values", self.sparse.count()));
        }
        form
    }

    /// Whether this is the column of the key `key` in `realm`.
    #[inline]
    pub(super) fn is_of(&self, key: u32, realm: u32) -> bool {
        self.key == key && self.realm == realm
    }

    /// The value of a row; `heap` is the heap region of the segment `bytes`.
    #[inline(always)]
    pub(super) fn value<'a>(&self, bytes: &'a [u8], heap: &'a [u8], row: u32) -> Read<ValueRef<'a>> {
        if row < self.rows && (self.presence.count() == 0 || self.presence.bit(bytes, row as usize)?) {
            let number = match self.source {
                Source::Dense(lines) => lines.number(bytes, row as usize)?,
                Source::Formula { start, step, divisor, modulus } => {
                    let mut n = row;
                    // Divisions are the dearest part of a formula; most formulas have one of them or none.
                    if divisor != 1 {
                        n /= divisor;
                    }
                    if modulus != 0 {
                        n %= modulus;
                    }
                    start.wrapping_add(step.wrapping_mul(n.into()))
                }
                Source::None => return self.sparse_value(bytes, heap, row),
            };
            if self.mask != 0 {
                return Ok(ValueRef::Scalar { ty: self.ty, bits: number & self.mask });
            }
            let index = usize::try_from(number).map_err(|_| Miss::Damaged)?;
            let entry = self.dictionary.entry::<{ offset_of!(DictEntry, check) }>(bytes, index)?;
            let pos = u64_at(bytes, entry + offset_of!(DictEntry, pos))?;
            let len = u32_at(bytes, entry + offset_of!(DictEntry, len))?;
            return payload(heap, self.ty, pos, len);
        }
        self.sparse_value(bytes, heap, row)
    }

    /// The value of a row that is not of the column's type.
    fn sparse_value<'a>(&self, bytes: &'a [u8], heap: &'a [u8], row: u32) -> Read<ValueRef<'a>> {
        let all = (0, self.sparse.count());
        let entry =
            self.sparse.search::<{ offset_of!(SparseEntry, check) }>(bytes, all, offset_of!(SparseEntry, row), row)?;
        let ty = u32_at(bytes, entry + offset_of!(SparseEntry, ty))?;
        let ty = DataType(u16::try_from(ty).map_err(|_| Miss::Damaged)?);
        let value = u64_at(bytes, entry + offset_of!(SparseEntry, value))?;
        if let Some(mask) = number_mask(ty) {
            return Ok(ValueRef::Scalar { ty, bits: value & mask });
        }
        let len = u32_at(bytes, entry + offset_of!(SparseEntry, len))?;
        payload(heap, ty, value, len)
    }
}
