//! A column: the values of one key in one realm.

use std::mem::offset_of;

use super::checked::payload;
use super::fast_path::{CachedValue, FastValue};
use crate::codec::ValueRef;
use crate::fallible_alloc;
use crate::maps::{NODE_COUNT_MAX, NodeRuns, RankList};
use crate::model::DataType;
use crate::segment::layout::bytes::{Lines, Miss, Read, Table, u32_at, u64_at};
use crate::segment::layout::error::SegmentError;
use crate::segment::layout::toc::{
    ColumnToc, DictEntry, NO_ID, PieceEntry, SOURCE_DENSE, SOURCE_FORMULA, SOURCE_NONE, SOURCE_PIECES, SOURCE_RANKS,
    SparseEntry,
};

/// Limit for cached values. Longer ones would be read at attach only to fill the cache.
const NOTED_LEN_MAX: u32 = 4096;

/// Reads a column.
#[derive(Clone, Copy, Default)]
pub(crate) struct Column {
    key: u32,
    rows: u32,
    ty: DataType,
    realm: u8,
    source: Source,
    /// A mask of the bits of the column's numbers; 0 if the numbers are indices of the dictionary.
    mask: u64,
    /// Empty if every row has a value.
    presence: Lines,
    dictionary: Table<DictEntry>,
    /// Index of the dictionary's first value among the cached values; [`NO_ID`] if they are not cached.
    cached_values: u32,
    sparse: Table<SparseEntry>,
}

/// The source of the rows' numbers.
#[derive(Clone, Copy, Default)]
enum Source {
    #[default]
    None,
    Formula(Formula),
    Dense(Lines),
    /// A formula for each piece of the rows.
    Pieces(Table<PieceEntry>),
    /// Texts of the ranks of nodes. Each row covers this number of nodes; the dictionary's text is the prefix.
    Ranks(u32),
}

/// See [`crate::job::Formula`].
#[derive(Clone, Copy, Debug)]
struct Formula {
    start: u64,
    step: u64,
    divisor: Divisor,
    modulus: Divisor,
}

impl Formula {
    /// The number of a row, not masked.
    #[inline(always)]
    fn at(self, row: u32) -> u64 {
        let n = self.modulus.remainder(self.divisor.divide(row));
        self.start.wrapping_add(self.step.wrapping_mul(n.into()))
    }
}

/// A divisor that is used often: two multiplications take a fifth of a division's time. Packed, because each process has all columns of its
/// job in its memory.
#[derive(Clone, Copy, Debug)]
#[repr(C, packed(4))]
struct Divisor {
    number: u32,
    /// 2^64 divided by the number, rounded up. The rounding error does not affect quotients of 32 bits. 0 for the numbers 0 and
    /// 1.
    reciprocal: u64,
}

impl Divisor {
    fn new(number: u32) -> Divisor {
        let reciprocal = if number > 1 { u64::MAX / u64::from(number) + 1 } else { 0 };
        Divisor { number, reciprocal }
    }

    /// `n` divided by the number; `n` itself for 0 and 1.
    #[inline]
    fn divide(self, n: u32) -> u32 {
        if self.reciprocal == 0 { n } else { ((u128::from(self.reciprocal) * u128::from(n)) >> 64) as u32 }
    }

    /// The remainder of `n`; `n` itself for 0.
    #[inline]
    fn remainder(self, n: u32) -> u32 {
        match self.number {
            0 => n,
            1 => 0,
            number => n - self.divide(n) * number,
        }
    }
}

impl Column {
    /// Checks the extents of a column against a file of `len` bytes.
    ///
    /// # Errors
    /// An extent outside the file, or an invalid description.
    pub(crate) fn check(toc: &ColumnToc, len: usize) -> Result<Column, SegmentError> {
        let lines = |extent, what| Lines::check(extent, len).ok_or(SegmentError::Extent(what));
        let is_text = toc.ty == u32::from(DataType::STRING.0);
        let source = match toc.source {
            SOURCE_NONE => Source::None,
            SOURCE_FORMULA => {
                let small = |number: u64| u32::try_from(number).map_err(|_| SegmentError::Extent("formula"));
                let (divisor, modulus) = (small(toc.divisor)?, small(toc.modulus)?);
                if divisor == 0 {
                    return Err(SegmentError::Extent("formula"));
                }
                let (divisor, modulus) = (Divisor::new(divisor), Divisor::new(modulus));
                Source::Formula(Formula { start: toc.start, step: toc.step, divisor, modulus })
            }
            SOURCE_DENSE => {
                if toc.numbers.count < u64::from(toc.rows) {
                    return Err(SegmentError::Extent("numbers"));
                }
                Source::Dense(lines(toc.numbers, "numbers")?)
            }
            SOURCE_PIECES => Source::Pieces(Table::check(toc.numbers, len).ok_or(SegmentError::Extent("pieces"))?),
            SOURCE_RANKS => match u32::try_from(toc.step) {
                Ok(nodes @ 1..) if nodes as usize <= NODE_COUNT_MAX && is_text && toc.dictionary.count == 1 => {
                    Source::Ranks(nodes)
                }
                _ => return Err(SegmentError::Extent("ranks")),
            },
            _ => return Err(SegmentError::Extent("source of a column")),
        };
        let ty = DataType(u16::try_from(toc.ty).map_err(|_| SegmentError::Extent("type of a column"))?);
        let presence = lines(toc.presence, "presence")?;
        let is_short = presence.width() != 8 || presence.count() < (toc.rows as usize).div_ceil(64);
        if presence.count() != 0 && is_short {
            return Err(SegmentError::Extent("presence"));
        }
        let dictionary: Table<DictEntry> =
            Table::check(toc.dictionary, len).ok_or(SegmentError::Extent("dictionary"))?;
        let mask = match ty.scalar_mask() {
            Some(mask) if dictionary.count() == 0 => mask,
            None => 0,
            Some(_) => return Err(SegmentError::Extent("dictionary of numbers")),
        };
        let sparse = Table::check(toc.sparse, len).ok_or(SegmentError::Extent("sparse values"))?;
        Ok(Column {
            key: toc.key,
            rows: toc.rows,
            ty,
            // No realm has such a number.
            realm: u8::try_from(toc.realm).unwrap_or(u8::MAX),
            source,
            mask,
            presence,
            dictionary,
            cached_values: NO_ID,
            sparse,
        })
    }

    /// A description of the column's form.
    pub(crate) fn form(&self) -> String {
        let mut form = match self.source {
            Source::None => String::from("no rows"),
            Source::Formula(Formula { start, step: 0, .. }) => format!("{start} in all rows"),
            Source::Formula(Formula { start, step, divisor, modulus }) => {
                let (divisor, modulus) = (divisor.number, modulus.number);
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
            Source::Pieces(pieces) => format!("{} pieces with a formula each", pieces.count()),
            Source::Ranks(nodes) => format!("ranks of {nodes} nodes in each row"),
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
    pub(crate) fn is_of(&self, key: u32, realm: u32) -> bool {
        self.key == key && u32::from(self.realm) == realm
    }

    /// The value of a row; `heap` is the heap region of the segment `bytes`, `runs` are its runs of nodes.
    #[inline(always)]
    pub(crate) fn value<'a>(
        &self,
        bytes: &'a [u8],
        heap: &'a [u8],
        runs: impl FnOnce() -> Read<&'a NodeRuns>,
        row: u32,
    ) -> Read<ValueRef<'a>> {
        if row < self.rows && (self.presence.count() == 0 || self.presence.bit(bytes, row as usize)?) {
            let number = match self.source {
                Source::Dense(lines) => lines.number(bytes, row as usize)?,
                Source::Formula(formula) => formula.at(row),
                Source::Pieces(pieces) => number_in(&pieces, bytes, row)?,
                Source::Ranks(nodes) => {
                    // The row has a text: without runs it is not absent, but cannot be read.
                    let runs = runs().map_err(|_| Miss::Damaged)?;
                    return self.ranks(bytes, heap, runs, u64::from(row) * u64::from(nodes), nodes);
                }
                Source::None => return self.sparse_value(bytes, heap, row),
            };
            if self.mask != 0 {
                return Ok(ValueRef::Scalar { ty: self.ty, bits: number & self.mask });
            }
            let (pos, len) = self.place(bytes, number)?;
            return payload(heap, self.ty, pos, len);
        }
        self.sparse_value(bytes, heap, row)
    }

    /// Position in the heap and length of the dictionary's value `index`.
    #[inline(always)]
    fn place(&self, bytes: &[u8], index: u64) -> Read<(u64, u32)> {
        let index = usize::try_from(index).map_err(|_| Miss::Damaged)?;
        let entry = self.dictionary.entry::<{ offset_of!(DictEntry, check) }>(bytes, index)?;
        let pos = u64_at(bytes, entry + offset_of!(DictEntry, pos))?;
        Ok((pos, u32_at(bytes, entry + offset_of!(DictEntry, len))?))
    }

    /// The text of the ranks of `nodes` nodes from `node` on.
    #[cold]
    fn ranks<'a>(
        &self,
        bytes: &'a [u8],
        heap: &'a [u8],
        runs: &'a NodeRuns,
        node: u64,
        nodes: u32,
    ) -> Read<ValueRef<'a>> {
        let (pos, len) = self.place(bytes, 0)?;
        let ValueRef::Str(Some(prefix)) = payload(heap, self.ty, pos, len)? else { return Err(Miss::Damaged) };
        let first = u32::try_from(node).map_err(|_| Miss::Damaged)?;
        let end = first.checked_add(nodes).filter(|end| *end <= runs.nodes()).ok_or(Miss::Damaged)?;
        Ok(ValueRef::Ranks(RankList { prefix, runs, first, end }))
    }

    /// Caches the dictionary's values, if all are intact and plain, and the cache then has at most `max` values.
    pub(crate) fn note(&mut self, bytes: &[u8], heap: (usize, usize), cached: &mut Vec<CachedValue>, max: usize) {
        let (first, count) = (cached.len(), self.dictionary.count());
        if count == 0 || first + count > max || !self.is_fast(bytes) {
            return;
        }
        for index in 0..count as u64 {
            let place = CachedValue::of(self.listed(bytes, heap, index), bytes);
            if place.is_none_or(|place| fallible_alloc::push(cached, place).is_err()) {
                return cached.truncate(first);
            }
        }
        self.cached_values = first as u32;
    }

    /// Whether all values are short enough to read at attach. The lists of a large job's nodes are not: a process would read
    /// their pages for nothing else.
    pub(crate) fn is_fast(&self, bytes: &[u8]) -> bool {
        let mut places = (0..self.dictionary.count() as u64).map(|index| self.place(bytes, index));
        places.all(|place| place.is_ok_and(|(_, len)| len <= NOTED_LEN_MAX))
    }

    /// The value of the dictionary at `index`, on the fast path.
    // A separate function, so that the look-up of cached values needs few registers.
    #[inline(never)]
    fn listed<'a>(&self, bytes: &'a [u8], heap: (usize, usize), index: u64) -> FastValue<'a> {
        let Ok((pos, len)) = self.place(bytes, index) else { return FastValue::NEED_SLOW_PATH };
        match bytes.get(heap.0..heap.0 + heap.1) {
            Some(heap) => FastValue::payload(heap, self.ty, pos, len),
            None => FastValue::NEED_SLOW_PATH,
        }
    }

    /// The same on the fast path, for a row of the column's type; `heap` is the position and length of the heap region.
    #[inline(always)]
    pub(crate) fn fast_value<'a>(
        &self,
        bytes: &'a [u8],
        heap: (usize, usize),
        cached: &[CachedValue],
        row: u32,
    ) -> FastValue<'a> {
        if row >= self.rows || self.presence.count() != 0 {
            let is_beyond = row >= self.rows && self.sparse.count() == 0;
            return if is_beyond { FastValue::ABSENT } else { FastValue::NEED_SLOW_PATH };
        }
        let number = match self.source {
            Source::Dense(lines) => match lines.number(bytes, row as usize) {
                Ok(number) => number,
                Err(_) => return FastValue::NEED_SLOW_PATH,
            },
            Source::Formula(formula) => formula.at(row),
            Source::Pieces(pieces) => match number_in(&pieces, bytes, row) {
                Ok(number) => number,
                Err(_) => return FastValue::NEED_SLOW_PATH,
            },
            Source::Ranks(_) | Source::None => return FastValue::NEED_SLOW_PATH,
        };
        if self.mask != 0 {
            return FastValue::number(self.ty, number & self.mask);
        }
        if self.cached_values == NO_ID {
            return self.listed(bytes, heap, number);
        }
        if number >= self.dictionary.count() as u64 {
            return FastValue::NEED_SLOW_PATH;
        }
        match cached.get(self.cached_values as usize + number as usize) {
            Some(place) => FastValue::cached(bytes, place),
            None => FastValue::NEED_SLOW_PATH,
        }
    }

    /// The value of a row whose type differs from the column's.
    fn sparse_value<'a>(&self, bytes: &'a [u8], heap: &'a [u8], row: u32) -> Read<ValueRef<'a>> {
        let all = (0, self.sparse.count());
        let entry =
            self.sparse.search::<{ offset_of!(SparseEntry, check) }>(bytes, all, offset_of!(SparseEntry, row), row)?;
        let ty = u32_at(bytes, entry + offset_of!(SparseEntry, ty))?;
        let ty = DataType(u16::try_from(ty).map_err(|_| Miss::Damaged)?);
        let value = u64_at(bytes, entry + offset_of!(SparseEntry, value))?;
        if let Some(mask) = ty.scalar_mask() {
            return Ok(ValueRef::Scalar { ty, bits: value & mask });
        }
        let len = u32_at(bytes, entry + offset_of!(SparseEntry, len))?;
        payload(heap, ty, value, len)
    }
}

/// The number of a row by the formula of its piece, not masked.
#[inline(never)]
fn number_in(pieces: &Table<PieceEntry>, bytes: &[u8], row: u32) -> Read<u64> {
    // The last piece that begins at the row or before it.
    let (mut low, mut high) = (0, pieces.count());
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        let is_before = u32_at(bytes, pieces.at(middle)? + offset_of!(PieceEntry, first))? <= row;
        (low, high) = if is_before { (middle, high) } else { (low, middle) };
    }
    // Pieces cover all rows, so that a search that a corrupt entry misled does not find the row.
    let entry = pieces.entry::<{ offset_of!(PieceEntry, check) }>(bytes, low)?;
    let number = |offset: usize| u32_at(bytes, entry + offset);
    let (first, end) = (number(offset_of!(PieceEntry, first))?, number(offset_of!(PieceEntry, end))?);
    let (divisor, modulus) = (number(offset_of!(PieceEntry, divisor))?, number(offset_of!(PieceEntry, modulus))?);
    if !(first..end).contains(&row) {
        return Err(Miss::Damaged);
    }
    let mut n = (row - first).checked_div(divisor).ok_or(Miss::Damaged)?;
    if modulus != 0 {
        n %= modulus;
    }
    let step = i64::from(number(offset_of!(PieceEntry, step))? as i32) as u64;
    Ok(u64_at(bytes, entry + offset_of!(PieceEntry, start))?.wrapping_add(step.wrapping_mul(n.into())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::segment::layout::toc::Extent;

    #[test]
    fn texts_of_ranks_have_bounds() {
        let dictionary = Extent { pos: 64, count: 1, width: size_of::<DictEntry>() as u32, reserved: 0 };
        let (ty, rows, source) = (DataType::STRING.0.into(), 2, SOURCE_RANKS);
        let good = ColumnToc { ty, rows, source, step: 1, divisor: 1, dictionary, ..ColumnToc::default() };
        let check = |change: fn(&mut ColumnToc)| {
            let mut toc = good;
            change(&mut toc);
            Column::check(&toc, 4096).is_ok()
        };
        assert!(check(|_| {}) && check(|toc| toc.step = NODE_COUNT_MAX as u64));
        assert!(!check(|toc| toc.step = 0) && !check(|toc| toc.step = 1 + NODE_COUNT_MAX as u64));
        assert!(!check(|toc| toc.dictionary.count = 0) && !check(|toc| toc.ty = DataType::REGEX.0.into()));
    }

    #[test]
    fn divisors_divide_as_the_processor_does() {
        let edges = [0, 1, 2, 3, 5, 7, 16, 60, 641, 65_535, 65_536, 6_700_417, 1 << 31, u32::MAX - 1, u32::MAX];
        let some = (0..2000u32).map(|n| n.wrapping_mul(2_654_435_761));
        let numbers: Vec<u32> = edges.into_iter().chain(some).collect();
        for by in numbers.iter().copied().filter(|by| *by != 0) {
            let divisor = Divisor::new(by);
            let around = [by.wrapping_sub(1), by, by.wrapping_add(1), by.wrapping_mul(2).wrapping_sub(1)];
            for n in numbers.iter().copied().chain(around) {
                assert_eq!((divisor.divide(n), divisor.remainder(n)), (n / by, n % by), "{n} by {by}");
            }
        }
        assert_eq!(Divisor::new(0).remainder(7), 7);
    }
}
