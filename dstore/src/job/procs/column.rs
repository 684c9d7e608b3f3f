//! The values of one key.

use std::collections::BTreeMap;
use std::ffi::CStr;

use super::numbers::{Formula, Numbers, Piecewise};
use super::texts::Texts;
use crate::codec::ValueRef;
use crate::fallible_alloc;
use crate::job::placement::{Stretch, Stretches};
use crate::model::{DataType, Rank, Result, Value};

/// The values of one key. Its memory grows with its values, not with the highest rank: a server registers only the ranks of its
/// node of a large job, and a hostile peer could name a high rank under many keys.
#[derive(Clone, Debug, Default)]
pub struct Column {
    /// Values of one type, numbers or texts, of the lowest ranks, while enough of these ranks have one.
    dense: Option<Dense>,
    /// All other values: of higher ranks, or of other types.
    apart: BTreeMap<u32, Value>,
    /// Ranges of derived values by first and last rank, ascending.
    derived: Vec<(u32, u32)>,
}

/// Values of one type in rows from 0 on.
#[derive(Clone, Debug)]
struct Dense {
    ty: DataType,
    /// The values, or the numbers of the texts.
    numbers: Numbers,
    /// Bit set of rows with a value; empty if all rows have one.
    present: Vec<u64>,
    /// Number of rows with a value.
    filled: usize,
    texts: Option<Box<Texts>>,
}

/// A column in which all rows have a value, of one type.
pub(crate) struct FullColumn<'a> {
    dense: &'a Dense,
}

impl Column {
    /// A dense part of at most this length is kept regardless of its fill.
    pub(super) const DENSE_LEN: usize = 16;
    /// A longer one needs a value in at least one of this many rows.
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

    /// As [`Column::set`], for a borrowed value.
    ///
    /// # Errors
    /// `NOMEM`; as [`ValueRef::to_value`].
    pub(in crate::job) fn set_ref(&mut self, row: u32, value: ValueRef<'_>) -> Result<()> {
        match Plain::of(value) {
            Some(plain) => self.set_plain(row, &plain),
            None => self.set_apart(row, value.to_value()?),
        }
    }

    /// Whether `row` is the next one, and all rows before it have values of this type: hosts usually register ranks in order.
    #[inline]
    pub(in crate::job) fn is_next(&self, row: u32, ty: DataType) -> bool {
        let is_next = |dense: &Dense| dense.ty == ty && dense.rows() == row && dense.present.is_empty();
        self.apart.is_empty() && self.dense.as_ref().is_some_and(is_next)
    }

    /// Appends rows to a column in which all rows have values of one type ([`Column::is_next`]). `numbers` are the values, or the
    /// numbers of their texts.
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
        // Moves adjoining values from `apart` into the dense part. Values of another type stay there.
        let mut next = dense.numbers.len() as u32;
        while let Some((row, value)) = self.apart.range(next..).next() {
            let (row, is_next) = (*row, *row == next);
            next = row + 1;
            if row as usize >= dense.len_max() {
                break;
            }
            match Plain::of(ValueRef::from(value)).filter(|value| value.ty() == dense.ty) {
                // A gap would end the formulas, and the missing rows probably follow soon.
                Some(_) if !is_next && dense.numbers.pieces().is_some() => break,
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

    /// Removes derived values.
    ///
    /// # Errors
    /// `NOMEM`.
    pub(super) fn forget_derived(&mut self) -> Result<()> {
        let derived = std::mem::take(&mut self.derived);
        if derived.is_empty() {
            return Ok(());
        }
        // Rebuilds the column, so that few remaining values do not keep the memory of a large one.
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

    /// Fills in missing values. Ranks come in ascending order.
    ///
    /// # Errors
    /// `NOMEM`.
    #[inline]
    pub(super) fn derive<'v>(&mut self, values: impl Iterator<Item = (Rank, ValueRef<'v>)>) -> Result<()> {
        let mut values = values.peekable();
        if let (true, Some((_, value))) = (self.is_empty(), values.peek()) {
            self.dense = Plain::of(*value).map(|plain| Dense::new(plain.ty()));
        }
        // The common case: consecutive rows after the existing ones.
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

    /// As [`Column::derive`], with the numbers of a formula for the first `rows` ranks.
    ///
    /// # Errors
    /// `NOMEM`.
    pub(super) fn derive_numbers(&mut self, ty: DataType, formula: Formula, rows: u32) -> Result<()> {
        let mask = ty.scalar_mask().unwrap_or(u64::MAX);
        if !self.is_empty() {
            let number = |row| ValueRef::Scalar { ty, bits: formula.at(row) & mask };
            return self.derive((0..rows).map(|row| (Rank(row), number(row))));
        }
        self.set_derived(Dense { numbers: Numbers::of(formula, rows, mask), ..Dense::new(ty) })
    }

    /// As [`Column::derive`], with the values of the nodes on which all ranks are: numbers of one type, or texts.
    ///
    /// # Errors
    /// `NOMEM`.
    pub(super) fn derive_of_nodes(&mut self, placed: &Stretches, of_nodes: &[ValueRef<'_>]) -> Result<()> {
        if !self.is_empty() {
            let values = placed.blocks().flat_map(|(ranks, row)| ranks.map(move |rank| (Rank(rank), row)));
            return self.derive(values.map(|(rank, row)| (rank, of_nodes[row as usize])));
        }
        let Some(first) = of_nodes.first() else { return Ok(()) };
        let mut dense = Dense::new(Plain(*first).ty());
        const UNSEEN: u64 = u64::MAX;
        let mut number_of = fallible_alloc::filled(UNSEEN, of_nodes.len())?;
        for (Stretch { block, .. }, rows, times) in placed.alike().map(|(one, times)| (one, one.rows(), times)) {
            // Texts are numbered in the order of the ranks.
            for (number, value) in number_of[rows.clone()].iter_mut().zip(&of_nodes[rows.clone()]) {
                if *number == UNSEEN {
                    *number = dense.number_of(&Plain(*value))?;
                }
            }
            let round = &number_of[rows];
            dense.numbers.push_rounds(times, |numbers| match block {
                1 => numbers.push_all(round),
                block => round.iter().try_for_each(|number| numbers.push_many(*number, *block)),
            })?;
        }
        self.set_derived(dense)
    }

    /// As [`Column::derive`], with the local ranks.
    ///
    /// # Errors
    /// `NOMEM`.
    pub(super) fn derive_locals(&mut self, placed: &Stretches, ty: DataType) -> Result<()> {
        if !self.is_empty() {
            let number = |number: u32| ValueRef::Scalar { ty, bits: number.into() };
            let locals = placed.iter().flat_map(|one| (0..one.ranks()).map(move |at| one.local + at % one.block));
            return self.derive((0..).map(Rank).zip(locals.map(number)));
        }
        let most = placed.iter().map(|one| one.local + one.block).max().unwrap_or(0);
        let ascending = fallible_alloc::collect((0..most).map(u64::from))?;
        let mut dense = Dense::new(ty);
        for one in placed.iter() {
            let round = &ascending[one.local as usize..][..one.block as usize];
            match round {
                [number] => dense.numbers.push_many(*number, one.nodes)?,
                round => dense.numbers.push_rounds(one.nodes, |numbers| numbers.push_all(round))?,
            }
        }
        self.set_derived(dense)
    }

    /// Takes the values of all ranks, which are derived.
    fn set_derived(&mut self, dense: Dense) -> Result<()> {
        let (filled, rows) = (dense.numbers.len(), dense.rows());
        self.dense = Some(Dense { filled, ..dense });
        self.mark_derived(0, rows)
    }

    /// Records these rows as derived. They follow the rows recorded before.
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

    /// Whether there is no value.
    pub(super) fn is_empty(&self) -> bool {
        self.filled() == 0 && self.apart.is_empty()
    }

    fn filled(&self) -> usize {
        self.dense.as_ref().map_or(0, |dense| dense.filled)
    }

    /// Approximate memory in bytes.
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

    /// The number of a row's text, below [`Column::text_count`].
    pub(in crate::job) fn text_number(&self, row: u32) -> Option<u32> {
        let dense = self.dense.as_ref().filter(|dense| dense.texts.is_some() && dense.has(row))?;
        Some(dense.numbers.get(row) as u32)
    }

    /// At least the number of distinct texts.
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

/// Columns are equal if their values are, regardless of their form.
impl PartialEq for Column {
    fn eq(&self, other: &Column) -> bool {
        self.derived == other.derived && self.iter().eq(other.iter())
    }
}

impl FullColumn<'_> {
    /// Number of rows.
    pub fn rows(&self) -> u32 {
        self.dense.rows()
    }

    /// The numbers of the values in the order of the rows, with as many consecutive rows as have each. Of texts, equal numbers are
    /// equal texts.
    pub fn runs(&self) -> impl Iterator<Item = (u64, u32)> {
        self.dense.numbers.runs()
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

    /// The formulas of the rows' numbers, if they are few; for texts, numbers are assigned in order of first occurrence.
    pub fn pieces(&self) -> Option<&Piecewise> {
        self.dense.numbers.pieces()
    }

    /// All numbers in the order of their first rows. A number may come several times.
    pub fn distinct(&self) -> impl Iterator<Item = u64> {
        let stored = if self.pieces().is_some() { 0 } else { self.rows() };
        self.pieces().into_iter().flat_map(Piecewise::distinct).chain((0..stored).map(|row| self.number(row)))
    }

    /// The number of a row.
    pub fn number(&self, row: u32) -> u64 {
        self.dense.numbers.get(row)
    }

    /// The texts by number, if the values are texts.
    pub fn texts(&self) -> Option<&Texts> {
        self.dense.texts.as_deref()
    }
}

/// A number, with only the bits of its type, or a text.
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

    /// Maximum number of rows for the current number of values.
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

    /// Appends a row to a dense part without gaps.
    #[inline]
    fn push(&mut self, value: &Plain<'_>) -> Result<()> {
        let number = self.number_of(value)?;
        self.numbers.push(number)?;
        self.filled += 1;
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
