//! Builds a modex segment from published values.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Deref;

use super::keys::{KeyRow, write_keys};
use super::stored::{Stored, is_aligned};
use super::writer::Writer;
use super::{BuildError, reserve, vec_for};
use crate::fallible_alloc;
use crate::gather::GatherBuf;
use crate::model::{Bytes, DataType, Key, Nspace, Rank, Value};
use crate::segment::layout::header::SegmentKind;
use crate::segment::layout::toc::{
    Extent, FIELD_FIXED, FIELD_NUMBER, FIELD_VARIABLE, FieldEntry, LocationEntry, ModexToc, NO_ID, NULL_LEN,
    PLACEMENT_SLOTS, PLACEMENT_SORTED, PLACEMENT_STRIDE, PLACEMENT_TABLE, ShapeEntry, VariableEntry,
};

/// Collects published values and builds a modex segment. Until then, it only references the values.
pub struct ModexBuilder<'a> {
    nspace: Nspace,
    /// The keys in order of first occurrence.
    keys: Vec<Key>,
    key_ids: HashMap<Key, u32>,
    /// Id of the key that was added last.
    key_last: usize,
    cells: Vec<Cell>,
    /// The bytes of the values that are not numbers.
    texts: Vec<Text<'a>>,
}

/// Bytes to store.
enum Text<'a> {
    /// A byte object.
    Object(&'a Bytes),
    /// Other bytes.
    Other(Cow<'a, [u8]>),
}

impl Text<'_> {
    /// Number of bytes that the segment references instead of copying.
    fn shared_len(&self) -> usize {
        match self {
            Text::Object(bytes) if bytes.is_shared() => bytes.len(),
            _ => 0,
        }
    }
}

impl Deref for Text<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Text::Object(bytes) => bytes,
            Text::Other(bytes) => bytes,
        }
    }
}

/// One value of one rank.
#[derive(Clone, Copy)]
struct Cell {
    rank: u32,
    key: u32,
    ty: DataType,
    /// The number, or the index in `texts`.
    value: u64,
    /// Length of the bytes, [`NULL_LEN`] for a NULL string.
    len: u32,
}

impl<'a> ModexBuilder<'a> {
    /// Nothing yet of the ranks of `nspace`.
    pub fn new(nspace: Nspace) -> ModexBuilder<'a> {
        ModexBuilder {
            nspace,
            keys: Vec::new(),
            key_ids: HashMap::new(),
            key_last: 0,
            cells: Vec::new(),
            texts: Vec::new(),
        }
    }

    /// Adds a value. Of two values of one key of one rank, the later one counts.
    ///
    /// # Errors
    /// A value that cannot be stored. Values added before stay.
    pub fn add(&mut self, rank: Rank, key: &Key, value: &'a Value) -> Result<(), BuildError> {
        let (number, len) = match Stored::of(key, value.into())? {
            Stored::Number(bits) => (bits, 0),
            Stored::Null => (0, NULL_LEN),
            Stored::Bytes(bytes) => {
                let (index, len) = (self.texts.len() as u64, bytes.len() as u32);
                reserve(&mut self.texts, 1)?;
                self.texts.push(value.bytes().map_or(Text::Other(bytes), Text::Object));
                (index, len)
            }
        };
        let id = self.key_id(key);
        reserve(&mut self.cells, 1)?;
        self.cells.push(Cell { rank: rank.0, key: id, ty: value.data_type(), value: number, len });
        Ok(())
    }

    /// The id of a key, in order of first occurrence. Most ranks publish the same keys in the same order, so the key that
    /// followed the last one is tried before the map.
    fn key_id(&mut self, key: &Key) -> u32 {
        let next = if self.key_last + 1 < self.keys.len() { self.key_last + 1 } else { 0 };
        let id = match self.keys.get(next) {
            Some(other) if other == key => next as u32,
            _ => *self.key_ids.entry(key.clone()).or_insert_with(|| {
                self.keys.push(key.clone());
                self.keys.len() as u32 - 1
            }),
        };
        self.key_last = id as usize;
        id
    }

    /// Adds all values of a rank.
    ///
    /// # Errors
    /// As [`ModexBuilder::add`].
    pub fn add_rank<'k>(
        &mut self,
        rank: Rank,
        values: impl IntoIterator<Item = (&'k Key, &'a Value)>,
    ) -> Result<(), BuildError> {
        values.into_iter().try_for_each(|(key, value)| self.add(rank, key, value))
    }

    /// Whether nothing was added.
    pub fn is_empty(&self) -> bool {
        self.cells.is_empty()
    }

    /// Builds the segment; it references long values instead of copying them. `creator` names the program for `pmixctl inspect`.
    /// Equal data give equal bytes, in any order of adding.
    ///
    /// # Errors
    /// A rank whose values take 4 GiB or more; too little memory.
    pub fn finish(mut self, creator: &str) -> Result<GatherBuf, BuildError> {
        // An estimate: tables of a few words for each value and rank.
        let tables = self.cells.len() * 64;
        fallible_alloc::probe(tables).map_err(|_| BuildError::NoMemory { needed: tables as u64 })?;
        let mut keys: Vec<(&Key, usize)> = self.keys.iter().enumerate().map(|(id, key)| (key, id)).collect();
        keys.sort_unstable();
        let mut ids = vec![0; keys.len()];
        keys.iter().enumerate().for_each(|(id, (_, old))| ids[*old] = id as u32);
        self.cells.iter_mut().for_each(|cell| cell.key = ids[cell.key as usize]);
        // Stable, so that the last of equal ones is the latest.
        self.cells.sort_by_key(|cell| (cell.rank, cell.key));
        self.cells.dedup_by(|later, kept| {
            let is_again = (later.rank, later.key) == (kept.rank, kept.key);
            if is_again {
                *kept = *later;
            }
            is_again
        });
        let ranks: Vec<&[Cell]> = self.cells.chunk_by(|a, b| a.rank == b.rank).collect();
        let (shapes, shape_of) = shapes_of(&ranks)?;

        let mut writer = Writer::new();
        let mut toc = ModexToc { rank_count: ranks.len() as u64, rank_step: 1, ..ModexToc::default() };
        let hints = hints(&shapes, keys.len());
        let mut first_ranks = vec![NO_ID; keys.len()];
        self.cells.iter().rev().for_each(|cell| first_ranks[cell.key as usize] = cell.rank);
        let rows: Vec<KeyRow<'_>> = keys
            .iter()
            .zip(hints.iter().zip(&first_ranks))
            .map(|((key, _), (hint, rank))| KeyRow { key, realms: 0, columns: [*hint, *rank, NO_ID, NO_ID, NO_ID] })
            .collect();
        toc.keys = write_keys(&mut writer, &rows)?;
        (toc.shapes, toc.fields) = write_shapes(&mut writer, &shapes)?;
        let plan = Plan { ranks: &ranks, shapes: &shapes, shape_of: &shape_of, texts: &self.texts };
        plan.write_records(&mut writer, &mut toc)?;
        writer.finish(SegmentKind::Modex, &self.nspace, creator, &toc)
    }
}

/// A list of fields that records of several ranks share.
struct Shape {
    fields: Vec<Field>,
    /// Bytes up to where variable values begin.
    fixed_len: u64,
}

struct Field {
    key: u32,
    ty: DataType,
    form: u16,
    offset: u32,
    len: u32,
}

fn write_shapes(writer: &mut Writer, shapes: &[Shape]) -> Result<(Extent, Extent), BuildError> {
    let shape_table = writer.region(shapes.len(), size_of::<ShapeEntry>(), |writer| {
        let mut first = 0;
        for shape in shapes {
            let start = writer.pos();
            writer.put_u32(first);
            writer.put_u32(shape.fields.len() as u32);
            writer.put_check(start);
            writer.put_u32(0);
            first += shape.fields.len() as u32;
        }
    })?;
    let count = shapes.iter().map(|shape| shape.fields.len()).sum();
    let fields = writer.region(count, size_of::<FieldEntry>(), |writer| {
        for field in shapes.iter().flat_map(|shape| &shape.fields) {
            let start = writer.pos();
            writer.put_u32(field.key);
            writer.put(&field.ty.0.to_le_bytes());
            writer.put(&field.form.to_le_bytes());
            writer.put_u32(field.offset);
            writer.put_u32(field.len);
            writer.put_check(start);
            writer.put_u32(0);
        }
    })?;
    Ok((shape_table, fields))
}

/// Groups ranks by their lists of (key, type) and places the fields of each group: first numbers and the offsets of
/// variable values, then values of one length in all ranks, then the variable ones.
fn shapes_of(ranks: &[&[Cell]]) -> Result<(Vec<Shape>, Vec<u32>), BuildError> {
    let mut ids: HashMap<Vec<(u32, DataType)>, u32> = HashMap::new();
    // Per shape and field: the length that all ranks have, if they have one.
    let mut lens: Vec<Vec<Option<u32>>> = Vec::new();
    let mut signatures: Vec<Vec<(u32, DataType)>> = Vec::new();
    let mut shape_of = Vec::with_capacity(ranks.len());
    let mut signature = Vec::new();
    for cells in ranks {
        let as_before = shape_of.last().filter(|id: &&u32| {
            let before: &Vec<(u32, DataType)> = &signatures[**id as usize];
            before.len() == cells.len() && before.iter().zip(*cells).all(|(a, b)| *a == (b.key, b.ty))
        });
        signature.clear();
        if as_before.is_none() {
            signature.extend(cells.iter().map(|cell| (cell.key, cell.ty)));
        }
        let id = match as_before.or_else(|| ids.get(&signature)) {
            Some(id) => *id,
            None => {
                let id = signatures.len() as u32;
                ids.insert(signature.clone(), id);
                signatures.push(signature.clone());
                lens.push(cells.iter().map(|cell| (cell.len != NULL_LEN).then_some(cell.len)).collect());
                id
            }
        };
        for (len, cell) in lens[id as usize].iter_mut().zip(*cells) {
            if *len != Some(cell.len) {
                *len = None;
            }
        }
        shape_of.push(id);
    }
    let shapes = signatures.iter().zip(&lens).map(|(signature, lens)| lay_out_fields(signature, lens));
    Ok((shapes.collect::<Result<_, _>>()?, shape_of))
}

fn lay_out_fields(signature: &[(u32, DataType)], lens: &[Option<u32>]) -> Result<Shape, BuildError> {
    let mut offset: u64 = 0;
    let mut fields: Vec<Field> = Vec::with_capacity(signature.len());
    for ((key, ty), len) in signature.iter().zip(lens) {
        let form = match (ty.scalar_mask(), len) {
            (Some(_), _) => FIELD_NUMBER,
            (None, Some(_)) => FIELD_FIXED,
            (None, None) => FIELD_VARIABLE,
        };
        fields.push(Field { key: *key, ty: *ty, form, offset: 0, len: len.unwrap_or(0) });
    }
    for field in fields.iter_mut().filter(|field| field.form != FIELD_FIXED) {
        field.offset = record_offset(offset)?;
        offset += if field.form == FIELD_NUMBER { 8 } else { size_of::<VariableEntry>() as u64 };
    }
    for field in fields.iter_mut().filter(|field| field.form == FIELD_FIXED) {
        field.offset = record_offset(offset)?;
        offset += value_room(field.ty, field.len);
    }
    Ok(Shape { fields, fixed_len: offset })
}

/// An offset in a record, which 32 bits must hold.
fn record_offset(offset: u64) -> Result<u32, BuildError> {
    let len_max = u64::from(u32::MAX) - 1;
    match u32::try_from(offset) {
        Ok(small) if offset <= len_max => Ok(small),
        _ => Err(BuildError::TooLarge { what: "bytes of one rank's values", len: offset, len_max }),
    }
}

/// Bytes that a value takes in a record, including its NUL and the padding to a multiple of eight.
fn value_room(ty: DataType, len: u32) -> u64 {
    let nul = u64::from(!is_aligned(ty));
    (u64::from(len) + nul).next_multiple_of(8)
}

/// For each key, the index of its field in the first shape that has it: most segments have one shape.
fn hints(shapes: &[Shape], keys: usize) -> Vec<u32> {
    let mut hints = vec![NO_ID; keys];
    for shape in shapes {
        for (index, field) in shape.fields.iter().enumerate() {
            let hint = &mut hints[field.key as usize];
            if *hint == NO_ID {
                *hint = index as u32;
            }
        }
    }
    hints
}

/// The length of slots for the records of all ranks, or of nearly all, if little space is wasted: one slot for each of `indices`.
/// Longer records are stored elsewhere.
fn stride_of(lens: &[u64], indices: u64) -> Option<u64> {
    /// At most one record in this many may be longer than a slot.
    const ELSEWHERE_SHARE: usize = 16;
    let total: u64 = lens.iter().sum();
    let stride_for = |longest: u64| {
        // Whole cache lines if that costs little: then each record starts on its own line.
        let longest = longest.max(8);
        let lines = longest.next_multiple_of(64);
        let stride = if (lines - longest) * 8 <= longest { lines } else { longest };
        let elsewhere: u64 = lens.iter().filter(|len| **len > stride).sum();
        (indices * stride + elsewhere <= total + total / 4).then_some(stride)
    };
    let longest = lens.iter().copied().max()?;
    stride_for(longest).or_else(|| {
        let mut lens = lens.to_vec();
        let most = lens.len() - 1 - lens.len() / ELSEWHERE_SHARE;
        lens.sort_unstable();
        // A slot must have space for a location.
        stride_for(lens[most].max(size_of::<LocationEntry>() as u64))
    })
}

/// Writes a location: position in the records, length, shape and rank.
fn write_location(writer: &mut Writer, (pos, len, shape, rank): (u64, u32, u32, u32)) {
    let start = writer.pos();
    writer.put_u64(pos);
    writer.put_u32(len);
    writer.put_u32(shape);
    writer.put_u32(rank);
    writer.put_check(start);
}

/// All input for writing the records.
struct Plan<'a> {
    ranks: &'a [&'a [Cell]],
    shapes: &'a [Shape],
    shape_of: &'a [u32],
    texts: &'a [Text<'a>],
}

impl Plan<'_> {
    fn record_len(&self, index: usize) -> u64 {
        let shape = &self.shapes[self.shape_of[index] as usize];
        let cells = self.ranks[index].iter().zip(&shape.fields);
        let variable = cells.filter(|(cell, field)| field.form == FIELD_VARIABLE && cell.len != NULL_LEN);
        shape.fixed_len + variable.map(|(cell, _)| value_room(cell.ty, cell.len)).sum::<u64>()
    }

    /// Chooses the placement with the cheapest look-up that wastes little space, and writes the records.
    fn write_records(&self, writer: &mut Writer, toc: &mut ModexToc) -> Result<(), BuildError> {
        let (Some(first), Some(last)) = (self.ranks.first(), self.ranks.last()) else {
            toc.first_rank = 1;
            return Ok(());
        };
        (toc.first_rank, toc.last_rank) = (first[0].rank, last[0].rank);
        toc.rank_step = self.common_step();
        let lens: Vec<u64> = (0..self.ranks.len()).map(|index| self.record_len(index)).collect();
        for len in &lens {
            record_offset(*len)?;
        }
        let indices = (u64::from(toc.last_rank) - u64::from(toc.first_rank)) / u64::from(toc.rank_step) + 1;
        match stride_of(&lens, indices) {
            Some(stride) => self.write_strided(writer, toc, indices, &lens, stride),
            None => self.write_with_locations(writer, toc, indices, &lens),
        }
    }

    /// The greatest common divisor of all distances between ranks.
    fn common_step(&self) -> u32 {
        let gcd = |mut a: u32, mut b: u32| {
            while b != 0 {
                (a, b) = (b, a % b);
            }
            a
        };
        let step = self.ranks.windows(2).fold(0, |step, pair| gcd(step, pair[1][0].rank - pair[0][0].rank));
        step.max(1)
    }

    fn write_strided(
        &self,
        writer: &mut Writer,
        toc: &mut ModexToc,
        indices: u64,
        lens: &[u64],
        stride: u64,
    ) -> Result<(), BuildError> {
        let elsewhere: u64 = lens.iter().filter(|len| **len > stride).sum();
        toc.placement = if elsewhere == 0 { PLACEMENT_STRIDE } else { PLACEMENT_SLOTS };
        toc.stride = stride;
        let slots = self.by_index(toc, indices)?;
        if self.shapes.len() > 1 || elsewhere != 0 || slots.iter().any(Option::is_none) {
            let width = match self.shapes.len() {
                0..0xff => 1,
                0xff..0xffff => 2,
                _ => 4,
            };
            let id = |slot: &Option<usize>| match *slot {
                Some(index) if lens[index] > stride => u64::MAX - 1,
                Some(index) => self.shape_of[index].into(),
                None => u64::MAX,
            };
            toc.shape_ids = writer.lines(slots.iter().map(id), width)?;
        }
        let all = (indices * stride + elsewhere) as usize;
        toc.records = writer.region_with_shared(all, 1, self.shared_len(), |writer| {
            let start = writer.pos();
            let mut next = indices * stride;
            for (at, slot) in slots.iter().enumerate() {
                match *slot {
                    Some(index) if lens[index] > stride => {
                        self.write_location(writer, index, next, lens[index]);
                        next += lens[index];
                    }
                    Some(index) => self.write_record(writer, index)?,
                    None => {}
                }
                writer.fill_to(start + (at as u64 + 1) * stride);
            }
            let mut elsewhere = (0..self.ranks.len()).filter(|index| lens[*index] > stride);
            elsewhere.try_for_each(|index| self.write_record(writer, index))
        })?;
        Ok(())
    }

    /// Writes the location of a rank's record.
    fn write_location(&self, writer: &mut Writer, index: usize, pos: u64, len: u64) {
        write_location(writer, (pos, len as u32, self.shape_of[index], self.ranks[index][0].rank));
    }

    fn write_with_locations(
        &self,
        writer: &mut Writer,
        toc: &mut ModexToc,
        indices: u64,
        lens: &[u64],
    ) -> Result<(), BuildError> {
        let mut pos: u64 = 0;
        let pos_of: Vec<u64> = lens
            .iter()
            .map(|len| {
                pos += len;
                pos - len
            })
            .collect();
        // A table by rank if at least a quarter of it is used, otherwise a sorted list of ranks.
        let is_table = indices <= self.ranks.len() as u64 * 4;
        let slots: Vec<Option<usize>> = if is_table {
            toc.placement = PLACEMENT_TABLE;
            self.by_index(toc, indices)?
        } else {
            toc.placement = PLACEMENT_SORTED;
            (0..self.ranks.len()).map(Some).collect()
        };
        let (first_rank, rank_step) = (toc.first_rank, toc.rank_step);
        toc.places = writer.region(slots.len(), size_of::<LocationEntry>(), |writer| {
            for (at, slot) in slots.into_iter().enumerate() {
                match slot {
                    Some(index) => self.write_location(writer, index, pos_of[index], lens[index]),
                    None => write_location(writer, (0, 0, NO_ID, first_rank + at as u32 * rank_step)),
                }
            }
        })?;
        toc.records = writer.region_with_shared(pos as usize, 1, self.shared_len(), |writer| {
            (0..self.ranks.len()).try_for_each(|index| self.write_record(writer, index))
        })?;
        Ok(())
    }

    /// For each index of the table, the rank's index in `ranks`.
    fn by_index(&self, toc: &ModexToc, indices: u64) -> Result<Vec<Option<usize>>, BuildError> {
        let mut slots = vec_for(indices as usize)?;
        slots.resize(indices as usize, None);
        for (index, cells) in self.ranks.iter().enumerate() {
            slots[((cells[0].rank - toc.first_rank) / toc.rank_step) as usize] = Some(index);
        }
        Ok(slots)
    }

    /// Writes the record of one rank: the fixed part, then the variable values.
    fn write_record(&self, writer: &mut Writer, index: usize) -> Result<(), BuildError> {
        let shape = &self.shapes[self.shape_of[index] as usize];
        let cells = || self.ranks[index].iter().zip(&shape.fields);
        let start = writer.pos();
        let mut variable_pos = shape.fixed_len;
        for (cell, field) in cells().filter(|(_, field)| field.form != FIELD_FIXED) {
            if field.form == FIELD_NUMBER {
                writer.put_u64(cell.value);
                continue;
            }
            let entry = writer.pos();
            writer.put_u32(if cell.len == NULL_LEN { 0 } else { variable_pos as u32 });
            writer.put_u32(cell.len);
            writer.put_check(entry);
            writer.put_u32(0);
            if cell.len != NULL_LEN {
                variable_pos += value_room(cell.ty, cell.len);
            }
        }
        for form in [FIELD_FIXED, FIELD_VARIABLE] {
            for (cell, _) in cells().filter(|(cell, field)| field.form == form && cell.len != NULL_LEN) {
                let end = writer.pos() + value_room(cell.ty, cell.len);
                match &self.texts[cell.value as usize] {
                    Text::Object(bytes) => writer.put_shared(bytes)?,
                    Text::Other(bytes) => writer.put(bytes),
                }
                writer.fill_to(end);
            }
        }
        debug_assert_eq!(writer.pos() - start, variable_pos, "a record has the length it was planned with");
        Ok(())
    }

    /// Number of bytes of values that the segment references instead of copying.
    fn shared_len(&self) -> usize {
        let has_text = |cell: &&Cell| cell.ty.scalar_mask().is_none() && cell.len != NULL_LEN;
        let cells = self.ranks.iter().copied().flatten().filter(has_text);
        cells.map(|cell| self.texts[cell.value as usize].shared_len()).sum()
    }
}
