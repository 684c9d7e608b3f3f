//! Chooses the form of a column and writes it.

use std::collections::HashMap;

use super::stored::{Stored, is_aligned};
use super::writer::{Heap, Writer, width_of};
use super::{BuildError, reserve, vec_for};
use crate::codec::ValueRef;
use crate::fallible_alloc;
use crate::job::{Formula, FullColumn, Piece, Piecewise};
use crate::model::{DataType, Key};
use crate::segment::layout::bytes::{LINE_LEN, per_line};
use crate::segment::layout::toc::{
    ColumnToc, DictEntry, Extent, NULL_LEN, PieceEntry, SOURCE_DENSE, SOURCE_FORMULA, SOURCE_NONE, SOURCE_PIECES,
    SOURCE_RANKS, SparseEntry,
};

/// A column in its chosen form; its variable values are in the heap already.
pub(crate) struct PlannedColumn<'a> {
    key: u32,
    realm: u32,
    ty: DataType,
    rows: u32,
    source: Source<'a>,
    /// Whether a row has a value of the column's type; empty if all rows have one.
    present: Vec<bool>,
    /// Position in the heap and length of each text; empty for numbers.
    dictionary: Vec<(u64, u32)>,
    sparse: Vec<SparseValue>,
}

/// A number per row, or an index into the dictionary.
enum Source<'a> {
    Formula(Formula),
    Piecewise(Piecewise),
    /// 0 for rows without a value of the column's type.
    Numbers(Vec<u64>),
    /// As in the registered values.
    Registered(FullColumn<'a>),
    /// Texts of the ranks of as many nodes.
    Ranks(u32),
}

/// A value in the side table.
struct SparseValue {
    row: u32,
    ty: DataType,
    /// The number, or the position in the heap.
    value: u64,
    len: u32,
}

impl<'a> PlannedColumn<'a> {
    fn new((key, realm): (u32, u32), ty: DataType, rows: u32) -> PlannedColumn<'a> {
        PlannedColumn {
            key,
            realm,
            ty,
            rows,
            source: Source::Numbers(Vec::new()),
            present: Vec::new(),
            dictionary: Vec::new(),
            sparse: Vec::new(),
        }
    }

    /// Chooses a form for the values of `key` in one realm, given per row.
    ///
    /// # Errors
    /// A value that cannot be stored.
    pub(crate) fn plan<'v>(
        key: (u32, &Key),
        realm: u32,
        cells: impl Iterator<Item = Option<ValueRef<'v>>> + Clone,
        heap: &mut Heap,
    ) -> Result<PlannedColumn<'a>, BuildError> {
        let ty = most_common_type(cells.clone().flatten());
        let mut column = PlannedColumn::new((key.0, realm), ty, 0);
        let mut indices: HashMap<(u64, u32), u64> = HashMap::new();
        let count = cells.clone().count();
        let mut numbers: Vec<u64> = vec_for(count)?;
        reserve(&mut column.present, count)?;
        for (row, cell) in cells.enumerate() {
            let row = row as u32;
            let mut number = None;
            if let Some(value) = cell {
                column.rows = row + 1;
                let place = match Stored::of(key.1, value)? {
                    Stored::Number(bits) => (bits, 0),
                    Stored::Null => (0, NULL_LEN),
                    Stored::Bytes(bytes) => (heap.intern(&bytes, is_aligned(value.data_type()))?, bytes.len() as u32),
                };
                if value.data_type() != ty {
                    reserve(&mut column.sparse, 1)?;
                    column.sparse.push(SparseValue { row, ty: value.data_type(), value: place.0, len: place.1 });
                } else if ty.scalar_mask().is_some() {
                    number = Some(place.0);
                } else {
                    let next = column.dictionary.len() as u64;
                    reserve(&mut column.dictionary, 1)?;
                    fallible_alloc::reserve_entries(&mut indices, 1)
                        .map_err(|_| BuildError::NoMemory { needed: 32 * next })?;
                    let index = *indices.entry(place).or_insert(next);
                    if index == next {
                        column.dictionary.push(place);
                    }
                    number = Some(index);
                }
            }
            column.present.push(number.is_some());
            numbers.push(number.unwrap_or(0));
        }
        numbers.truncate(column.rows as usize);
        column.present.truncate(column.rows as usize);
        if column.present.iter().all(|present| *present) {
            column.present = Vec::new();
        }
        column.prefer_sparse(&mut numbers)?;
        column.source = column.source_of(numbers)?;
        Ok(column)
    }

    /// The same for registered values that all have one type.
    ///
    /// # Errors
    /// A value that cannot be stored.
    pub(crate) fn plan_whole(
        key: (u32, &Key),
        realm: u32,
        whole: FullColumn<'a>,
        heap: &mut Heap,
    ) -> Result<PlannedColumn<'a>, BuildError> {
        let rows = whole.rows();
        let mut column = PlannedColumn::new((key.0, realm), whole.ty(), rows);
        let Some(texts) = whole.texts() else {
            let mask = whole.ty().scalar_mask().unwrap_or(u64::MAX);
            let known = match whole.pieces() {
                Some(pieces) => Some(pieces.clone()),
                None => pieces_of((0..rows).map(|row| whole.number(row)), mask)?,
            };
            let most = || whole.distinct().max().unwrap_or(0);
            column.source = known.and_then(|pieces| computed(pieces, most)).unwrap_or(Source::Registered(whole));
            return Ok(column);
        };
        let mut place = |number: u64| -> Result<(u64, u32), BuildError> {
            Ok(match Stored::of(key.1, ValueRef::Str(texts.get(number as u32)))? {
                Stored::Bytes(bytes) => (heap.intern(&bytes, is_aligned(DataType::STRING))?, bytes.len() as u32),
                _ => (0, NULL_LEN),
            })
        };
        const UNSEEN: u64 = u64::MAX;
        let mut index_of: Vec<u64> = vec_for(texts.len())?;
        index_of.resize(texts.len(), UNSEEN);
        let mut are_same = true;
        for number in whole.distinct() {
            let index = &mut index_of[number as usize];
            if *index == UNSEEN {
                *index = column.dictionary.len() as u64;
                are_same &= *index == number;
                reserve(&mut column.dictionary, 1)?;
                column.dictionary.push(place(number)?);
            }
        }
        if let Some(pieces) = whole.pieces() {
            // Mostly the texts were numbered in the order of the rows.
            let source = computed(pieces.clone(), || column.dictionary.len() as u64).filter(|_| are_same);
            if let Some(source) = source {
                column.source = source;
                return Ok(column);
            }
        }
        let mut numbers = vec_for(rows as usize)?;
        numbers.extend((0..rows).map(|row| index_of[whole.number(row) as usize]));
        column.source = column.source_of(numbers)?;
        Ok(column)
    }

    /// Texts of ranks that readers build: see [`SOURCE_RANKS`]. Each row has the ranks of `nodes` nodes after `prefix`; `present`
    /// says which rows have a text, and is empty if all have one.
    ///
    /// # Errors
    /// Not enough memory.
    pub(crate) fn ranks(
        (key, realm): (u32, u32),
        (nodes, prefix): (u32, &[u8]),
        rows: u32,
        present: Vec<bool>,
        heap: &mut Heap,
    ) -> Result<PlannedColumn<'a>, BuildError> {
        let mut column = PlannedColumn::new((key, realm), DataType::STRING, rows);
        reserve(&mut column.dictionary, 1)?;
        column.dictionary.push((heap.intern(prefix, is_aligned(DataType::STRING))?, prefix.len() as u32));
        column.source = Source::Ranks(nodes);
        column.present = present;
        Ok(column)
    }

    /// The source of these numbers: formulas if there are some.
    fn source_of(&self, numbers: Vec<u64>) -> Result<Source<'a>, BuildError> {
        if !self.present.is_empty() {
            // Of rows without a value, any number will do.
            let mut present =
                numbers.iter().zip(&self.present).filter(|(_, present)| **present).map(|(number, _)| *number);
            if let Some(first) = present.next()
                && present.all(|number| number == first)
            {
                return Ok(Source::Formula(Formula::constant(first)));
            }
        }
        let pieces = pieces_of(numbers.iter().copied(), self.ty.scalar_mask().unwrap_or(u64::MAX))?;
        let most = || numbers.iter().copied().max().unwrap_or(0);
        Ok(pieces.and_then(|pieces| computed(pieces, most)).unwrap_or(Source::Numbers(numbers)))
    }

    /// Moves all values to the sparse table if that is smaller: only a small share of the rows has a value.
    fn prefer_sparse(&mut self, numbers: &mut Vec<u64>) -> Result<(), BuildError> {
        if self.present.is_empty() {
            return Ok(());
        }
        let count = self.present.iter().filter(|present| **present).count();
        let width = width_of(numbers.iter().copied().max().unwrap_or(0));
        let dense = lines(self.rows as usize, width) + lines(self.rows.div_ceil(64) as usize, 8);
        if count * size_of::<SparseEntry>() >= dense {
            return Ok(());
        }
        reserve(&mut self.sparse, count)?;
        for (row, _) in self.present.iter().enumerate().filter(|(_, present)| **present) {
            let number = numbers[row];
            let (value, len) = match self.dictionary.get(number as usize) {
                Some(place) if self.ty.scalar_mask().is_none() => *place,
                _ => (number, 0),
            };
            self.sparse.push(SparseValue { row: row as u32, ty: self.ty, value, len });
        }
        self.sparse.sort_by_key(|entry| entry.row);
        self.rows = 0;
        self.present = Vec::new();
        self.dictionary = Vec::new();
        numbers.clear();
        Ok(())
    }

    /// Writes the column's regions.
    ///
    /// # Errors
    /// There is no memory for them.
    pub(crate) fn write(&self, writer: &mut Writer) -> Result<ColumnToc, BuildError> {
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
            toc.source = SOURCE_DENSE;
            match &self.source {
                Source::Formula(formula) => {
                    toc.source = SOURCE_FORMULA;
                    (toc.start, toc.step) = (formula.start, formula.step);
                    (toc.divisor, toc.modulus) = (formula.divisor.into(), formula.modulus.into());
                }
                Source::Piecewise(pieces) => {
                    toc.source = SOURCE_PIECES;
                    toc.numbers = write_pieces(pieces, writer)?;
                }
                Source::Ranks(nodes) => {
                    toc.source = SOURCE_RANKS;
                    toc.step = (*nodes).into();
                }
                Source::Numbers(numbers) => toc.numbers = writer.numbers(numbers.iter().copied())?,
                Source::Registered(whole) => {
                    toc.numbers = writer.numbers((0..self.rows).map(|row| whole.number(row)))?;
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

/// The bytes of `count` numbers of `width` bytes in lines.
fn lines(count: usize, width: usize) -> usize {
    count.div_ceil(per_line(width)) * LINE_LEN
}

/// The pieces of these numbers, if they are few.
fn pieces_of(numbers: impl Iterator<Item = u64>, mask: u64) -> Result<Option<Piecewise>, BuildError> {
    Piecewise::of(numbers, mask).map_err(|_| BuildError::NoMemory { needed: size_of::<PieceEntry>() as u64 })
}

/// A formula or several, if they are smaller than an array of the numbers, of which `most` gives the largest.
fn computed<'a>(pieces: Piecewise, most: impl FnOnce() -> u64) -> Option<Source<'a>> {
    if let Some(formula) = pieces.formula() {
        return Some(Source::Formula(formula));
    }
    // The format has steps of 32 bits.
    let is_storable = pieces.iter().all(|piece| i32::try_from(piece.formula.step as i64).is_ok());
    let is_smaller = || pieces.count() * size_of::<PieceEntry>() < lines(pieces.rows() as usize, width_of(most()));
    (is_storable && is_smaller()).then_some(Source::Piecewise(pieces))
}

fn write_pieces(pieces: &Piecewise, writer: &mut Writer) -> Result<Extent, BuildError> {
    writer.region(pieces.count(), size_of::<PieceEntry>(), |writer| {
        for Piece { rows, formula } in pieces.iter() {
            let start = writer.pos();
            writer.put_u64(formula.start);
            for number in [rows.start, rows.end, formula.step as u32, formula.divisor, formula.modulus] {
                writer.put_u32(number);
            }
            writer.put_check(start);
        }
    })
}

/// The type that most values have; among equals the first.
fn most_common_type<'a>(values: impl Iterator<Item = ValueRef<'a>>) -> DataType {
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
