//! Chooses the form of a column and writes it.

use std::collections::HashMap;

use super::stored::{Stored, is_aligned};
use super::writer::{Heap, Writer, width_of};
use super::{BuildError, reserve};
use crate::model::{DataType, Key, Value};
use crate::room;
use crate::segment::bytes::{LINE_LEN, per_line};
use crate::segment::checked::number_mask;
use crate::segment::toc::{
    ColumnToc, DictEntry, Extent, NULL_LEN, SOURCE_DENSE, SOURCE_FORMULA, SOURCE_NONE, SparseEntry,
};

/// A column whose values have been sorted out; variable values are in the heap already.
pub(super) struct PlannedColumn {
    key: u32,
    realm: u32,
    ty: DataType,
    rows: u32,
    /// A number per row, or an index into the dictionary; 0 for rows without a value of the column's type.
    numbers: Vec<u64>,
    /// Whether a row has a value of the column's type; empty where all have one.
    present: Vec<bool>,
    /// Place in the heap and length; empty for numbers.
    dictionary: Vec<(u64, u32)>,
    sparse: Vec<SparseValue>,
}

/// A value in the side table.
struct SparseValue {
    row: u32,
    ty: DataType,
    /// The number, or place in the heap.
    value: u64,
    len: u32,
}

impl PlannedColumn {
    /// Sorts out the values of `key` in one realm, given per row.
    ///
    /// # Errors
    /// A value that cannot be stored.
    pub(super) fn plan<'a>(
        key: (u32, &Key),
        realm: u32,
        cells: impl Iterator<Item = Option<&'a Value>> + Clone,
        heap: &mut Heap,
    ) -> Result<PlannedColumn, BuildError> {
        let ty = most_common_type(cells.clone().flatten());
        let mut column = PlannedColumn {
            key: key.0,
            realm,
            ty,
            rows: 0,
            numbers: Vec::new(),
            present: Vec::new(),
            dictionary: Vec::new(),
            sparse: Vec::new(),
        };
        let mut indices: HashMap<(u64, u32), u64> = HashMap::new();
        let count = cells.clone().count();
        reserve(&mut column.present, count)?;
        reserve(&mut column.numbers, count)?;
        let mut rows = 0;
        let mut absent = false;
        for (row, cell) in cells.enumerate() {
            let row = row as u32;
            let mut number = None;
            if let Some(value) = cell {
                rows = row + 1;
                let place = match Stored::of(key.1, value)? {
                    Stored::Number(bits) => (bits, 0),
                    Stored::Null => (0, NULL_LEN),
                    Stored::Bytes(bytes) => (heap.intern(&bytes, is_aligned(value.data_type()))?, bytes.len() as u32),
                };
                if value.data_type() != ty {
                    reserve(&mut column.sparse, 1)?;
                    column.sparse.push(SparseValue { row, ty: value.data_type(), value: place.0, len: place.1 });
                } else if number_mask(ty).is_some() {
                    number = Some(place.0);
                } else {
                    let next = column.dictionary.len() as u64;
                    reserve(&mut column.dictionary, 1)?;
                    room::reserve_entries(&mut indices, 1).map_err(|_| BuildError::NoMemory { needed: 32 * next })?;
                    let index = *indices.entry(place).or_insert(next);
                    if index == next {
                        column.dictionary.push(place);
                    }
                    number = Some(index);
                }
            }
            absent |= number.is_none();
            column.present.push(number.is_some());
            column.numbers.push(number.unwrap_or(0));
        }
        column.rows = rows;
        column.numbers.truncate(rows as usize);
        column.present.truncate(rows as usize);
        if !absent || column.present.iter().all(|present| *present) {
            column.present = Vec::new();
        }
        column.prefer_sparse()?;
        Ok(column)
    }

    /// Moves all values to the side table where that takes less room: a few rows of many.
    fn prefer_sparse(&mut self) -> Result<(), BuildError> {
        if self.present.is_empty() {
            return Ok(());
        }
        let count = self.present.iter().filter(|present| **present).count();
        let width = width_of(self.numbers.iter().copied().max().unwrap_or(0));
        let lines = |count: usize, width| count.div_ceil(per_line(width)) * LINE_LEN;
        let dense = lines(self.rows as usize, width) + lines(self.rows.div_ceil(64) as usize, 8);
        if count * size_of::<SparseEntry>() >= dense {
            return Ok(());
        }
        reserve(&mut self.sparse, count)?;
        for (row, _) in self.present.iter().enumerate().filter(|(_, present)| **present) {
            let number = self.numbers[row];
            let (value, len) = match self.dictionary.get(number as usize) {
                Some(place) if number_mask(self.ty).is_none() => *place,
                _ => (number, 0),
            };
            self.sparse.push(SparseValue { row: row as u32, ty: self.ty, value, len });
        }
        self.sparse.sort_by_key(|entry| entry.row);
        self.rows = 0;
        self.numbers = Vec::new();
        self.present = Vec::new();
        self.dictionary = Vec::new();
        Ok(())
    }

    /// Writes the column's regions.
    ///
    /// # Errors
    /// There is no memory for them.
    pub(super) fn write(&self, writer: &mut Writer) -> Result<ColumnToc, BuildError> {
        let mut toc = ColumnToc {
            key: self.key,
            realm: self.realm,
            ty: self.ty.0.into(),
            rows: self.rows,
            source: SOURCE_NONE,
            divisor: 1,
            ..ColumnToc::default()
        };
        if self.rows != 0 {
            match Formula::of(&self.numbers, &self.present, number_mask(self.ty).unwrap_or(u64::MAX)) {
                Some(formula) => {
                    toc.source = SOURCE_FORMULA;
                    (toc.start, toc.step) = (formula.start, formula.step);
                    (toc.divisor, toc.modulus) = (formula.divisor, formula.modulus);
                }
                None => {
                    toc.source = SOURCE_DENSE;
                    toc.numbers = writer.numbers(&self.numbers)?;
                }
            }
        }
        let words = self.present.chunks(64);
        let word = |bits: &[bool]| bits.iter().enumerate().fold(0, |word, (bit, set)| word | u64::from(*set) << bit);
        toc.presence = writer.lines(words.map(word), 8)?;
        toc.dictionary = writer.region(self.dictionary.len(), size_of::<DictEntry>(), |writer| {
            for (place, len) in &self.dictionary {
                let start = writer.pos();
                writer.put_u64(*place);
                writer.put_u32(*len);
                writer.put_check(start);
            }
        })?;
        toc.sparse = self.write_sparse(writer)?;
        Ok(toc)
    }

    fn write_sparse(&self, writer: &mut Writer) -> Result<Extent, BuildError> {
        writer.region(self.sparse.len(), size_of::<SparseEntry>(), |writer| {
            for entry in &self.sparse {
                let start = writer.pos();
                writer.put_u32(entry.row);
                writer.put_u32(entry.ty.0.into());
                writer.put_u64(entry.value);
                writer.put_u32(entry.len);
                writer.put_check(start);
            }
        })
    }
}

/// The type that most values have; among equals the first.
fn most_common_type<'a>(values: impl Iterator<Item = &'a Value>) -> DataType {
    let mut counts: Vec<(DataType, usize)> = Vec::new();
    for value in values {
        let ty = value.data_type();
        match counts.iter_mut().find(|(other, _)| *other == ty) {
            Some((_, count)) => *count += 1,
            None => counts.push((ty, 1)),
        }
    }
    let best = counts.iter().rev().max_by_key(|(_, count)| *count);
    best.map_or(DataType::UNDEF, |(ty, _)| *ty)
}

/// `start + ((row / divisor) % modulus) * step`: what ranks placed in blocks or in turn give. No modulus where it is 0.
#[derive(Debug, PartialEq)]
struct Formula {
    start: u64,
    step: u64,
    divisor: u64,
    modulus: u64,
}

impl Formula {
    /// The formula that gives these numbers in all rows that are present, if there is one.
    fn of(numbers: &[u64], present: &[bool], mask: u64) -> Option<Formula> {
        let is_present = |row: usize| present.is_empty() || present[row];
        let first = (0..numbers.len()).find(|row| is_present(*row))?;
        let start = numbers[first];
        let Some(divisor) = (first..numbers.len()).find(|row| is_present(*row) && numbers[*row] != start) else {
            return Some(Formula { start, step: 0, divisor: 1, modulus: 0 });
        };
        if !present.is_empty() {
            // With gaps, only one value for all is looked for.
            return None;
        }
        let step = numbers[divisor].wrapping_sub(start);
        let mut formula = Formula { start, step, divisor: divisor as u64, modulus: 0 };
        let blocks = numbers.iter().step_by(divisor).enumerate();
        if let Some((block, number)) = blocks.skip(2).find(|(block, n)| formula.at(block * divisor) & mask != **n) {
            if *number != start {
                return None;
            }
            formula.modulus = block as u64;
        }
        let fits = numbers.iter().enumerate().all(|(row, number)| formula.at(row) & mask == *number);
        fits.then_some(formula)
    }

    fn at(&self, row: usize) -> u64 {
        let mut n = row as u64 / self.divisor;
        if self.modulus != 0 {
            n %= self.modulus;
        }
        self.start.wrapping_add(self.step.wrapping_mul(n))
    }
}
