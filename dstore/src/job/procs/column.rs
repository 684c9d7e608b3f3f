//! The values of one key.

use std::collections::BTreeMap;
use std::ffi::CStr;

use super::numbers::{Formula, Numbers};
use super::texts::Texts;
use crate::codec::ValueRef;
use crate::fallible_alloc;
use crate::model::{DataType, Rank, Result, Value};

/// The values of one key. It costs memory for its values, not for the ranks below the highest: a server tells the ranks
/// of one node of a large job, and who means harm names a high rank under many keys.
#[derive(Clone, Debug, Default)]
pub struct Column {
    /// The lowest ranks, as long as a fair part of them has values of one type, numbers or texts.
    dense: Option<Dense>,
    /// All others: of ranks above these, of other types.
    apart: BTreeMap<u32, Value>,
    /// Which values are derived: ranges of ranks, from and to, ascending.
    derived: Vec<(u32, u32)>,
}

/// Values of one type in rows from 0 on.
#[derive(Clone, Debug)]
struct Dense {
    ty: DataType,
    /// Numbers, or those of the texts.
    numbers: Numbers,
    /// Whether a row has a value; empty where all have.
    present: Vec<u64>,
    /// How many have.
    filled: usize,
    texts: Option<Box<Texts>>,
}

/// The values of a column whose rows all have one, of one type.
pub(crate) struct FullColumn<'a> {
    dense: &'a Dense,
}

impl Column {
    /// A dense part of at most this length is kept whatever it holds.
    pub(super) const DENSE_LEN: usize = 16;
    /// Above that one in so many has a value.
    const DENSE_SHARE: usize = 4;

    /// Sets the value of a row.
    ///
    /// # Errors
    /// `NOMEM`.
    pub(in crate::job) fn set(&mut self, row: u32, value: Value) -> Result<()> {
        fallible_alloc::check()?;
        match Plain::of(ValueRef::from(&value)) {
            Some(plain) => self.set_plain(row, &plain),
            None => self.set_apart(row, value),
        }
    }

    /// As [`Column::set`], of a value that its owner keeps.
    ///
    /// # Errors
    /// `NOMEM`; as [`ValueRef::to_value`].
    pub(in crate::job) fn set_ref(&mut self, row: u32, value: ValueRef<'_>) -> Result<()> {
        match Plain::of(value) {
            Some(plain) => self.set_plain(row, &plain),
            None => self.set_apart(row, value.to_value()?),
        }
    }

    /// Whether `row` is the next one, and all before it have values of this type: hosts name their ranks one after the other.
    #[inline]
    pub(in crate::job) fn is_next(&self, row: u32, ty: DataType) -> bool {
        let is_next = |dense: &Dense| dense.ty == ty && dense.rows() == row && dense.present.is_empty();
        self.apart.is_empty() && self.dense.as_ref().is_some_and(is_next)
    }

    /// Adds rows behind those that there are, where all of these have values of one type ([`Column::is_next`]): their numbers, or
    /// those of their texts.
    ///
    /// # Errors
    /// `NOMEM`.
    pub(in crate::job) fn push_rows(&mut self, numbers: &[u64]) -> Result<()> {
        if let Some(dense) = &mut self.dense {
            dense.numbers.push_all(numbers)?;
            dense.filled += numbers.len();
        }
        Ok(())
    }

    /// The number of a text in a column of texts.
    ///
    /// # Errors
    /// `NOMEM`.
    #[inline]
    pub(in crate::job) fn number_of_text(&mut self, text: Option<&CStr>) -> Result<u64> {
        let texts = self.dense.as_mut().and_then(|dense| dense.texts.as_mut());
        texts.map_or(Ok(0), |texts| texts.number_of(text).map(u64::from))
    }

    #[inline]
    fn set_plain(&mut self, row: u32, value: &Plain<'_>) -> Result<()> {
        if self.is_next(row, value.ty())
            && let Some(dense) = &mut self.dense
        {
            return dense.push(value);
        }
        self.set_anywhere(row, value)
    }

    fn set_anywhere(&mut self, row: u32, value: &Plain<'_>) -> Result<()> {
        if self.filled() == 0 {
            self.dense = ((row as usize) < Column::DENSE_LEN).then(|| Dense::new(value.ty()));
        }
        let Some(dense) = &mut self.dense else { return self.set_apart(row, value.to_value()?) };
        if dense.ty != value.ty() || row as usize >= dense.len_max().max(dense.numbers.len()) {
            return self.set_apart(row, value.to_value()?);
        }
        dense.set(row, value)?;
        self.apart.remove(&row);
        // Those between that are of another type stay where they are.
        let mut next = dense.numbers.len() as u32;
        while let Some((row, value)) = self.apart.range(next..).next() {
            let (row, is_next) = (*row, *row == next);
            next = row + 1;
            if row as usize >= dense.len_max() {
                break;
            }
            match Plain::of(ValueRef::from(value)).filter(|value| value.ty() == dense.ty) {
                // A formula is not given up for what will follow soon.
                Some(_) if !is_next && dense.numbers.formula().is_some() => break,
                Some(plain) => dense.set(row, &plain)?,
                None => continue,
            }
            self.apart.remove(&row);
        }
        Ok(())
    }

    fn set_apart(&mut self, row: u32, value: Value) -> Result<()> {
        if let Some(dense) = &mut self.dense {
            dense.unset(row)?;
        }
        self.apart.insert(row, value);
        Ok(())
    }

    /// Takes out what was derived.
    ///
    /// # Errors
    /// `NOMEM`.
    pub(super) fn forget_derived(&mut self) -> Result<()> {
        let derived = std::mem::take(&mut self.derived);
        if derived.is_empty() {
            return Ok(());
        }
        // What is left of a large column takes no more room than it needs.
        let left = std::mem::take(self);
        if matches!(derived[..], [(0, last)] if last + 1 == left.rows()) {
            return Ok(());
        }
        let mut derived = derived.into_iter().peekable();
        for (Rank(row), value) in left.iter() {
            while derived.next_if(|(_, last)| *last < row).is_some() {}
            if derived.peek().is_none_or(|(first, _)| *first > row) {
                self.set_ref(row, value)?;
            }
        }
        Ok(())
    }

    /// Fills in values where there is none. Ranks come in ascending order.
    ///
    /// # Errors
    /// `NOMEM`.
    #[inline]
    pub(super) fn derive<'v>(&mut self, values: impl Iterator<Item = (Rank, ValueRef<'v>)>) -> Result<()> {
        let mut values = values.peekable();
        if let (true, Some((_, value))) = (self.is_empty(), values.peek()) {
            self.dense = Plain::of(*value).map(|plain| Dense::new(plain.ty()));
        }
        // One after the other behind what there is, as most often.
        if self.apart.is_empty()
            && let Some(dense) = self.dense.as_mut().filter(|dense| dense.present.is_empty())
        {
            let (first, ty) = (dense.rows(), dense.ty);
            while values.next_if(|(rank, _)| rank.0 < first).is_some() {}
            let mut row = first;
            while let Some((_, value)) = values.next_if(|(rank, value)| rank.0 == row && value.data_type() == ty) {
                dense.push(&Plain(value))?;
                row += 1;
            }
            self.mark_derived(first, row)?;
        }
        values.try_for_each(|(rank, value)| self.derive_one(rank.0, value))
    }

    /// As [`Column::derive`], with numbers that a formula gives of so many ranks.
    ///
    /// # Errors
    /// `NOMEM`.
    pub(super) fn derive_numbers(&mut self, ty: DataType, formula: Formula, rows: u32) -> Result<()> {
        let mask = ty.scalar_mask().unwrap_or(u64::MAX);
        if !self.is_empty() {
            let number = |row| ValueRef::Scalar { ty, bits: formula.at(row) & mask };
            return self.derive((0..rows).map(|row| (Rank(row), number(row))));
        }
        let numbers = Numbers::of(formula, rows, mask);
        self.dense = Some(Dense { ty, numbers, present: Vec::new(), filled: rows as usize, texts: None });
        self.mark_derived(0, rows)
    }

    /// As [`Column::derive`], with one value for `per_block` ranks after the other, as many as there are `rows`: numbers of one type,
    /// or texts.
    ///
    /// # Errors
    /// `NOMEM`.
    pub(super) fn derive_blocks<'v>(
        &mut self,
        per_block: u32,
        rows: u32,
        values: impl Iterator<Item = ValueRef<'v>>,
    ) -> Result<()> {
        let blocks =
            (0..rows).step_by(per_block as usize).map(|first| first..rows.min(first.saturating_add(per_block)));
        let blocks = blocks.zip(values);
        if !self.is_empty() {
            return self.derive(blocks.flat_map(|(ranks, value)| ranks.map(move |rank| (Rank(rank), value))));
        }
        self.dense = None;
        for (ranks, value) in blocks {
            let plain = Plain(value);
            let dense = self.dense.get_or_insert_with(|| Dense::new(plain.ty()));
            dense.push_many(&plain, ranks.len() as u32)?;
        }
        self.mark_derived(0, self.rows())
    }

    /// Notes that these rows, which follow those that are noted, are derived.
    fn mark_derived(&mut self, first: u32, end: u32) -> Result<()> {
        if first < end { Ok(fallible_alloc::push(&mut self.derived, (first, end - 1))?) } else { Ok(()) }
    }

    fn derive_one(&mut self, row: u32, value: ValueRef<'_>) -> Result<()> {
        if self.get(row).is_some() {
            return Ok(());
        }
        self.set_ref(row, value)?;
        match self.derived.last_mut() {
            Some((_, last)) if *last + 1 == row => *last = row,
            _ => fallible_alloc::push(&mut self.derived, (row, row))?,
        }
        Ok(())
    }

    /// Whether no value is there.
    pub(super) fn is_empty(&self) -> bool {
        self.filled() == 0 && self.apart.is_empty()
    }

    fn filled(&self) -> usize {
        self.dense.as_ref().map_or(0, |dense| dense.filled)
    }

    /// Bytes of memory that it takes, about.
    pub(super) fn bytes(&self) -> usize {
        self.dense.as_ref().map_or(0, Dense::bytes) + 2 * self.apart.len() * size_of::<(u32, Value)>()
    }

    /// The value of a rank.
    #[inline]
    pub fn get(&self, row: u32) -> Option<ValueRef<'_>> {
        let dense = self.dense.as_ref().and_then(|dense| dense.get(row));
        match dense {
            None if !self.apart.is_empty() => self.apart.get(&row).map(ValueRef::from),
            dense => dense,
        }
    }

    /// One more than the highest rank that has a value.
    pub fn rows(&self) -> u32 {
        let apart = self.apart.last_key_value().map_or(0, |(row, _)| row + 1);
        apart.max(self.dense.as_ref().map_or(0, Dense::rows))
    }

    /// The ranks with their values, ascending.
    pub fn iter(&self) -> impl Iterator<Item = (Rank, ValueRef<'_>)> {
        let dense = self.dense.as_ref().map_or(0, Dense::rows);
        let mut apart = self.apart.iter().peekable();
        let mut row = 0;
        std::iter::from_fn(move || {
            loop {
                if let Some((at, value)) = apart.next_if(|(at, _)| row >= dense || **at <= row) {
                    row = row.max(at + 1);
                    return Some((Rank(*at), ValueRef::from(value)));
                }
                if row >= dense {
                    return None;
                }
                let found = self.dense.as_ref().and_then(|dense| dense.get(row));
                row += 1;
                if let Some(value) = found {
                    return Some((Rank(row - 1), value));
                }
            }
        })
    }

    /// Ranges of ranks that have values, from and to, ascending.
    pub(super) fn runs(&self) -> Vec<(u32, u32)> {
        if let Some(whole) = self.full() {
            return vec![(0, whole.rows() - 1)];
        }
        let mut runs: Vec<(u32, u32)> = Vec::new();
        for row in self.iter().map(|(rank, _)| rank.0) {
            match runs.last_mut() {
                Some((_, last)) if *last + 1 == row => *last = row,
                _ => runs.push((row, row)),
            }
        }
        runs
    }

    /// The values, where all rows have one and all are of one type.
    pub(crate) fn full(&self) -> Option<FullColumn<'_>> {
        let dense = self.dense.as_ref().filter(|dense| dense.filled == dense.numbers.len() && dense.filled != 0)?;
        self.apart.is_empty().then_some(FullColumn { dense })
    }

    /// The text of a row by its number among those of the column, of which there are [`Column::text_count`].
    pub(in crate::job) fn text_number(&self, row: u32) -> Option<u32> {
        let dense = self.dense.as_ref().filter(|dense| dense.texts.is_some() && dense.has(row))?;
        Some(dense.numbers.get(row) as u32)
    }

    /// How many different texts there are, at least.
    pub(in crate::job) fn text_count(&self) -> usize {
        self.dense.as_ref().and_then(|dense| dense.texts.as_ref()).map_or(0, |texts| texts.len())
    }
}

#[cfg(test)]
impl Column {
    pub(super) fn dense_len(&self) -> usize {
        self.dense.as_ref().map_or(0, |dense| dense.numbers.len())
    }

    pub(super) fn apart_len(&self) -> usize {
        self.apart.len()
    }
}

/// Equal are columns with equal values, however they were filled.
impl PartialEq for Column {
    fn eq(&self, other: &Column) -> bool {
        self.derived == other.derived && self.iter().eq(other.iter())
    }
}

impl FullColumn<'_> {
    /// How many rows there are.
    pub fn rows(&self) -> u32 {
        self.dense.rows()
    }

    /// So many rows one after the other, from the first on, are sure to have one value.
    pub fn block(&self) -> u32 {
        match self.dense.numbers.formula() {
            Some(Formula { step: 0, .. }) => self.rows(),
            Some(formula) => formula.divisor,
            None => 1,
        }
    }

    /// The value of a row that there is.
    pub fn value(&self, row: u32) -> ValueRef<'_> {
        self.dense.value(row)
    }
}

#[cfg(feature = "builder")]
impl FullColumn<'_> {
    pub fn ty(&self) -> DataType {
        self.dense.ty
    }

    /// What gives the number of each row, of a text that of its place in the order in which they came.
    pub fn formula(&self) -> Option<Formula> {
        self.dense.numbers.formula()
    }

    /// That number of a row.
    pub fn number(&self, row: u32) -> u64 {
        self.dense.numbers.get(row)
    }

    /// The texts by these numbers, where values are texts.
    pub fn texts(&self) -> Option<&Texts> {
        self.dense.texts.as_deref()
    }
}

/// A number, with bits of its type alone, or a text.
struct Plain<'a>(ValueRef<'a>);

impl<'a> Plain<'a> {
    #[inline]
    fn of(value: ValueRef<'a>) -> Option<Plain<'a>> {
        match value {
            ValueRef::Scalar { ty, bits } if ty.scalar_width().is_some() => {
                debug_assert!(ty.scalar_mask().is_some_and(|mask| bits & !mask == 0), "bits of {ty}");
                Some(Plain(value))
            }
            ValueRef::Str(_) => Some(Plain(value)),
            _ => None,
        }
    }

    #[inline]
    fn ty(&self) -> DataType {
        self.0.data_type()
    }

    fn to_value(&self) -> Result<Value> {
        self.0.to_value()
    }
}

impl Dense {
    fn new(ty: DataType) -> Dense {
        let texts = (ty == DataType::STRING).then(Box::default);
        Dense { ty, numbers: Numbers::new(ty.scalar_mask().unwrap_or(u64::MAX)), present: Vec::new(), filled: 0, texts }
    }

    /// How many rows there may be with so many values.
    fn len_max(&self) -> usize {
        Column::DENSE_LEN + Column::DENSE_SHARE * self.filled
    }

    fn rows(&self) -> u32 {
        self.numbers.len() as u32
    }

    fn bytes(&self) -> usize {
        let texts = self.texts.as_ref().map_or(0, |texts| texts.bytes());
        self.numbers.bytes() + size_of_val(self.present.as_slice()) + texts
    }

    #[inline]
    fn number_of(&mut self, value: &Plain<'_>) -> Result<u64> {
        match (value.0, &mut self.texts) {
            (ValueRef::Scalar { bits, .. }, _) => Ok(bits),
            (ValueRef::Str(text), Some(texts)) => texts.number_of(text).map(u64::from),
            _ => Ok(0),
        }
    }

    /// Adds a row to those that all have values.
    #[inline]
    fn push(&mut self, value: &Plain<'_>) -> Result<()> {
        let number = self.number_of(value)?;
        self.numbers.push(number)?;
        self.filled += 1;
        Ok(())
    }

    /// The same for so many rows with one value.
    fn push_many(&mut self, value: &Plain<'_>, count: u32) -> Result<()> {
        let number = self.number_of(value)?;
        self.numbers.push_many(number, count)?;
        self.filled += count as usize;
        Ok(())
    }

    fn set(&mut self, row: u32, value: &Plain<'_>) -> Result<()> {
        let len = self.numbers.len();
        if row as usize == len && self.present.is_empty() {
            return self.push(value);
        }
        let number = self.number_of(value)?;
        if row as usize >= len {
            self.mark_all()?;
            let words = row as usize / 64 + 1;
            let more = words.saturating_sub(self.present.len());
            fallible_alloc::reserve(&mut self.present, more)?;
            self.numbers.resize(row as usize + 1)?;
            self.present.resize(words, 0);
        }
        self.numbers.replace(row, number)?;
        if !self.has(row) {
            self.present[row as usize / 64] |= 1 << (row % 64);
            self.filled += 1;
        }
        if self.filled == self.numbers.len() {
            self.present = Vec::new();
        }
        Ok(())
    }

    /// Says of each row that it has a value.
    fn mark_all(&mut self) -> Result<()> {
        if self.present.is_empty() {
            let len = self.numbers.len();
            self.present = fallible_alloc::filled(u64::MAX, len.div_ceil(64))?;
            if let (Some(last), true) = (self.present.last_mut(), !len.is_multiple_of(64)) {
                *last >>= 64 - len % 64;
            }
        }
        Ok(())
    }

    fn unset(&mut self, row: u32) -> Result<()> {
        if self.has(row) {
            self.mark_all()?;
            self.present[row as usize / 64] &= !(1 << (row % 64));
            self.filled -= 1;
        }
        Ok(())
    }

    #[inline]
    fn has(&self, row: u32) -> bool {
        let bit = || self.present.get(row as usize / 64).is_some_and(|word| word >> (row % 64) & 1 == 1);
        (row as usize) < self.numbers.len() && (self.present.is_empty() || bit())
    }

    #[inline]
    fn get(&self, row: u32) -> Option<ValueRef<'_>> {
        self.has(row).then(|| self.value(row))
    }

    #[inline]
    fn value(&self, row: u32) -> ValueRef<'_> {
        let number = self.numbers.get(row);
        match &self.texts {
            None => ValueRef::Scalar { ty: self.ty, bits: number },
            Some(texts) => ValueRef::Str(texts.get(number as u32)),
        }
    }
}
