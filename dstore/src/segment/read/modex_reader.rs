//! Reads a modex segment.

use std::mem::offset_of;

use super::checked::{CheckedSegment, or_empty, payload, table};
use super::fast_path::FastValue;
use super::key_table::{self, FoundKey, KeyTable};
use super::region::Region;
use crate::codec::ValueRef;
use crate::fallible_alloc;
use crate::model::{DataType, KeyRef, Rank};
use crate::segment::layout::bytes::{Lines, Miss, Read, Table, slice_at, u16_at, u32_at, u64_at, verify};
use crate::segment::layout::error::SegmentError;
use crate::segment::layout::header::SegmentKind;
use crate::segment::layout::raw_header::RawHeader;
use crate::segment::layout::toc::{
    ArchivedModexToc, FIELD_FIXED, FIELD_NUMBER, FIELD_VARIABLE, FieldEntry, LocationEntry, ModexToc, NO_ID, NULL_LEN,
    PLACEMENT_SLOTS, PLACEMENT_SORTED, PLACEMENT_STRIDE, PLACEMENT_TABLE, ShapeEntry, VariableEntry,
};

/// A modex segment: published values of ranks.
pub struct ModexReader {
    segment: CheckedSegment,
    keys: KeyTable,
    first_rank: u32,
    last_rank: u32,
    rank_step: u32,
    placement: Placement,
    rank_count: u64,
    shapes: Table<ShapeEntry>,
    fields: Table<FieldEntry>,
    /// A verified copy of the two tables; none if they are large, or corrupt.
    own: Option<CachedShapes>,
    records: Table<u8>,
}

/// Copies of the shapes and fields of a segment of usual size. Every client of a node has its own copy.
struct CachedShapes {
    shapes: Box<[Shape]>,
    fields: Box<[Field]>,
    places: CachedLocations,
}

/// Segments with more shapes or fields leave them in the file, where each look-up verifies them.
const OWN_FIELDS_MAX: usize = 2048;

/// Locations of few ranks in any order, with positions in the file: an open-addressed table, at most half full, or empty.
#[derive(Default)]
struct CachedLocations {
    slots: Box<[RecordLocation]>,
}

/// Larger tables of locations stay in the file.
const OWN_PLACES_MAX: usize = 256;

/// Location of a rank's record.
#[derive(Clone, Copy)]
struct RecordLocation {
    /// [`NO_ID`] for none.
    rank: u32,
    /// [`NO_ID`] for a rank without a record.
    shape: u32,
    pos: u64,
    len: u32,
}

/// The fields of a record.
#[derive(Clone, Copy)]
struct Shape {
    first: u32,
    count: u32,
}

/// A field of a record.
#[derive(Clone, Copy)]
struct Field {
    key: u32,
    ty: DataType,
    form: u16,
    offset: u32,
    len: u32,
    /// A mask of the bits of a number of this type; 0 for other types.
    mask: u64,
}

/// All values of a rank in this segment.
#[derive(Clone, Copy)]
struct Record<'a> {
    bytes: &'a [u8],
    /// Position in the file.
    pos: usize,
    shape: usize,
}

/// How the record of a rank is found.
enum Placement {
    /// Shape ids from `odd` on are special: `none` means no record, one less means that the slot holds the record's location.
    Stride {
        stride: u64,
        shape_ids: Lines,
        odd: u64,
        none: u64,
    },
    Table(Table<LocationEntry>),
    Sorted(Table<LocationEntry>),
}

impl ModexReader {
    /// Opens a modex segment, checking its header, its table of contents and the extents of its regions.
    ///
    /// # Errors
    /// The segment cannot be read.
    pub fn open(region: Box<dyn Region>) -> Result<ModexReader, SegmentError> {
        ModexReader::of(CheckedSegment::open(region)?, &mut Err)
    }

    /// Reads as much as possible of a corrupt segment; `problem` receives the errors.
    ///
    /// # Errors
    /// An invalid table of contents.
    pub(crate) fn open_damaged(
        region: Box<dyn Region>,
        mut problem: impl FnMut(SegmentError),
    ) -> Result<ModexReader, SegmentError> {
        ModexReader::of(CheckedSegment::open_damaged(region)?, &mut |error| {
            problem(error);
            Ok(())
        })
    }

    /// Checks all extents. If `judge` accepts an error, the part is treated as empty.
    fn of(
        segment: CheckedSegment,
        judge: &mut dyn FnMut(SegmentError) -> Result<(), SegmentError>,
    ) -> Result<ModexReader, SegmentError> {
        let toc = ModexToc::from(segment.toc::<ArchivedModexToc>(SegmentKind::Modex)?);
        let len = segment.bytes().len();
        let keys = or_empty(KeyTable::check(toc.keys, segment.bytes()), judge)?;
        let places = table(toc.places, len, "places", judge)?;
        let shapes = table(toc.shapes, len, "shapes", judge)?;
        let fields = table(toc.fields, len, "fields", judge)?;
        let records = table(toc.records, len, "records", judge)?;
        let placement = match toc.placement {
            PLACEMENT_STRIDE | PLACEMENT_SLOTS => {
                if toc.placement == PLACEMENT_SLOTS && toc.stride < size_of::<LocationEntry>() as u64 {
                    return Err(SegmentError::Extent("stride"));
                }
                let lines = Lines::check(toc.shape_ids, len).ok_or(SegmentError::Extent("shape ids"));
                let shape_ids = or_empty(lines, judge)?;
                let none = u64::MAX >> (64 - 8 * shape_ids.width().max(1));
                let odd = none - u64::from(toc.placement == PLACEMENT_SLOTS);
                Placement::Stride { stride: toc.stride, shape_ids, odd, none }
            }
            PLACEMENT_TABLE => Placement::Table(places),
            PLACEMENT_SORTED => Placement::Sorted(places),
            _ => return Err(SegmentError::Extent("placement")),
        };
        if toc.rank_step == 0 {
            return Err(SegmentError::Extent("rank step"));
        }
        let mut reader = ModexReader {
            keys,
            first_rank: toc.first_rank,
            last_rank: toc.last_rank,
            rank_step: toc.rank_step,
            placement,
            rank_count: toc.rank_count,
            shapes,
            fields,
            own: None,
            records,
            segment,
        };
        if reader.shapes.count().max(reader.fields.count()) <= OWN_FIELDS_MAX {
            // On failure, each look-up verifies the tables and detects corruption itself.
            reader.own = reader.copy_shapes();
        }
        Ok(reader)
    }

    /// A copy of all shapes and fields; `None` if one is corrupt, or an allocation fails.
    fn copy_shapes(&self) -> Option<CachedShapes> {
        let (mut shapes, mut fields) =
            (fallible_alloc::vec(self.shapes.count()).ok()?, fallible_alloc::vec(self.fields.count()).ok()?);
        for index in 0..self.shapes.count() {
            shapes.push(self.shape(index).ok()?);
        }
        for index in 0..self.fields.count() {
            fields.push(self.field_at(index).ok()?);
        }
        let places = match &self.placement {
            Placement::Sorted(places) if places.count() <= OWN_PLACES_MAX => self.copy_places(places)?,
            _ => CachedLocations::default(),
        };
        Some(CachedShapes { shapes: shapes.into(), fields: fields.into(), places })
    }

    fn copy_places(&self, places: &Table<LocationEntry>) -> Option<CachedLocations> {
        let bytes = self.segment.bytes();
        let mut own = CachedLocations::with_room(places.count())?;
        for index in 0..places.count() {
            let location = location_at(places, bytes, index).and_then(|at| self.location(at)).ok()?;
            if location.shape != NO_ID {
                let record = self.record_at(location.pos, location.len.into(), location.shape as usize).ok()?;
                own.add(RecordLocation { pos: record.pos as u64, ..location });
            }
        }
        Some(own)
    }

    /// All bytes of the segment.
    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        self.segment.bytes()
    }

    /// The segment's header.
    pub fn header(&self) -> &RawHeader {
        self.segment.header()
    }

    /// Number of ranks with values here.
    pub(crate) fn rank_count(&self) -> u64 {
        self.rank_count
    }

    /// Number of different record shapes.
    pub(crate) fn shape_count(&self) -> u64 {
        self.shapes.count() as u64
    }

    /// The placement of records: `stride`, `slots`, `table` or `sorted`.
    pub(crate) fn placement_name(&self) -> &'static str {
        match self.placement {
            Placement::Stride { odd, none, .. } if odd != none => "slots",
            Placement::Stride { .. } => "stride",
            Placement::Table(_) => "table",
            Placement::Sorted(_) => "sorted",
        }
    }

    /// The keys of the segment.
    pub fn keys(&self) -> impl Iterator<Item = KeyRef<'_>> {
        let bytes = self.segment.bytes();
        (0..self.keys.count()).filter_map(move |id| self.segment.found(self.key(bytes, id)))
    }

    /// Whether a look-up has found corruption. A missing value may then exist here, newer than the values of other segments.
    #[inline]
    pub fn is_damaged(&self) -> bool {
        self.segment.is_damaged()
    }

    /// Notes that a caller may point to a value of this segment from now on: then the segment stays mapped.
    #[inline(always)]
    pub(crate) fn lend(&self) {
        self.segment.lend();
    }

    /// Whether a caller may point to a value of this segment.
    pub(crate) fn is_lent(&self) -> bool {
        self.segment.is_lent()
    }

    /// The value of `key` of a rank, if the segment has it.
    #[inline(always)]
    pub fn get(&self, rank: Rank, key: &KeyRef<'_>) -> Option<ValueRef<'_>> {
        self.segment.found(self.read(rank, key))
    }

    #[inline(always)]
    fn read(&self, rank: Rank, key: &KeyRef<'_>) -> Read<ValueRef<'_>> {
        if rank.0 < self.first_rank || rank.0 > self.last_rank {
            return Err(Miss::Absent);
        }
        let bytes = self.segment.bytes();
        let key = self.keys.find(bytes, key)?;
        let record = self.record(rank)?;
        // By reference: copying a field in small pieces and reading it in large ones would double the cost of the look-up.
        match &self.own {
            Some(own) => {
                let hint = self.keys.column(bytes, key, 0).unwrap_or(NO_ID);
                self.field_value(record, own.field(record.shape, self.keys.id(bytes, key)?, hint)?)
            }
            None => self.read_in_file(record, key),
        }
    }

    #[cold]
    fn read_in_file<'a>(&'a self, record: Record<'a>, key: FoundKey) -> Read<ValueRef<'a>> {
        let bytes = self.segment.bytes();
        let Shape { first, count } = self.shape(record.shape)?;
        let range = (first as usize, (first + count) as usize);
        let id = self.keys.id(bytes, key)?;
        if let Ok(hint) = self.keys.column(bytes, key, 0)
            && hint < count
        {
            let field = self.fields.at((first + hint) as usize)?;
            if u32_at(bytes, field + offset_of!(FieldEntry, key))? == id {
                return self.field_value(record, &self.field_at((first + hint) as usize)?);
            }
        }
        let pos = self.fields.search::<FIELD_CHECKED>(bytes, range, offset_of!(FieldEntry, key), id)?;
        self.field_value(record, &self.field_at((pos - self.fields.span().0) / size_of::<FieldEntry>())?)
    }

    /// The value of `key` of a rank, on the fast path.
    #[inline(always)]
    pub fn fast_value(&self, rank: Rank, key: &KeyRef<'_>) -> FastValue<'_> {
        self.fast_value_of(rank, key.text(), key.hash())
    }

    /// The same, with all arguments in registers.
    #[inline(never)]
    fn fast_value_of(&self, rank: Rank, text: &[u8], hash: u64) -> FastValue<'_> {
        let key = &KeyRef::of_parts(text, hash);
        if rank.0 < self.first_rank || rank.0 > self.last_rank {
            return FastValue::ABSENT;
        }
        let bytes = self.segment.bytes();
        let Some(own) = &self.own else { return FastValue::NEED_SLOW_PATH };
        let slot = match self.keys.find_own(bytes, key) {
            key_table::CachedKey::Found(_, slot) => slot,
            key_table::CachedKey::Absent => return FastValue::ABSENT,
            key_table::CachedKey::NeedSlowPath => return FastValue::NEED_SLOW_PATH,
        };
        let record = match self.record(rank) {
            Ok(record) => record,
            Err(Miss::Absent) => return FastValue::ABSENT,
            Err(Miss::Damaged) => return FastValue::NEED_SLOW_PATH,
        };
        let field = match own.field(record.shape, slot.id, slot.columns[0]) {
            Ok(field) => field,
            Err(Miss::Absent) => return FastValue::ABSENT,
            Err(Miss::Damaged) => return FastValue::NEED_SLOW_PATH,
        };
        match field.form {
            FIELD_FIXED => FastValue::payload(record.bytes, field.ty, field.offset.into(), field.len),
            FIELD_NUMBER if field.mask != 0 => match u64_at(record.bytes, field.offset as usize) {
                Ok(bits) => FastValue::number(field.ty, bits & field.mask),
                Err(_) => FastValue::NEED_SLOW_PATH,
            },
            FIELD_VARIABLE => match self.variable(record, field.offset) {
                Ok((start, len)) => FastValue::payload(record.bytes, field.ty, start.into(), len),
                Err(_) => FastValue::NEED_SLOW_PATH,
            },
            _ => FastValue::NEED_SLOW_PATH,
        }
    }

    /// The lowest rank with a value of `key` here.
    pub fn first_rank_with(&self, key: &KeyRef<'_>) -> Option<Rank> {
        let bytes = self.segment.bytes();
        self.segment.found(self.keys.find(bytes, key).and_then(|key| self.keys.column(bytes, key, 1))).map(Rank)
    }

    /// All values of a rank, in the order of the key ids.
    pub fn rank(&self, rank: Rank) -> impl Iterator<Item = (KeyRef<'_>, ValueRef<'_>)> {
        let bytes = self.segment.bytes();
        let found = self.record(rank).and_then(|record| Ok((record, self.shape(record.shape)?)));
        self.segment.found(found).into_iter().flat_map(move |(record, Shape { first, count })| {
            let value = move |index: u32| {
                let field = self.field_at((first + index) as usize)?;
                Ok((self.key(bytes, field.key)?, self.field_value(record, &field)?))
            };
            (0..count).filter_map(move |index| self.segment.found(value(index)))
        })
    }

    /// The ranks that have values here, ascending.
    pub fn ranks(&self) -> impl Iterator<Item = Rank> {
        let bytes = self.segment.bytes();
        let count = match &self.placement {
            // At most as many as the records allow, even if the table of contents claims more.
            Placement::Stride { stride, .. } => {
                let indices = u64::from(self.last_rank.saturating_sub(self.first_rank) / self.rank_step) + 1;
                indices.min(self.records.count() as u64 / (*stride).max(8)) as usize
            }
            Placement::Table(places) | Placement::Sorted(places) => places.count(),
        };
        let rank = move |index: usize| match &self.placement {
            Placement::Sorted(places) => {
                u32_at(bytes, location_at(places, bytes, index)? + offset_of!(LocationEntry, rank))
            }
            _ => {
                let distance = u32::try_from(index).ok().and_then(|index| index.checked_mul(self.rank_step));
                distance.and_then(|distance| distance.checked_add(self.first_rank)).ok_or(Miss::Damaged)
            }
        };
        (0..count).filter_map(move |index| {
            let rank = rank(index).and_then(|rank| self.record(Rank(rank)).map(|_| Rank(rank)));
            self.segment.found(rank)
        })
    }

    /// The record of a rank and its shape.
    #[inline(always)]
    fn record(&self, rank: Rank) -> Read<Record<'_>> {
        let bytes = self.segment.bytes();
        if rank.0 < self.first_rank || rank.0 > self.last_rank {
            return Err(Miss::Absent);
        }
        let index = || {
            let distance = rank.0 - self.first_rank;
            match self.rank_step {
                1 => Ok(distance),
                step if distance.is_multiple_of(step) => Ok(distance / step),
                _ => Err(Miss::Absent),
            }
        };
        let location = match &self.placement {
            Placement::Stride { stride, shape_ids, odd, none } => {
                let index = index()?;
                let shape = match shape_ids.count() {
                    0 => 0,
                    _ => shape_ids.number(bytes, index as usize)?,
                };
                let pos = u64::from(index).checked_mul(*stride).ok_or(Miss::Damaged)?;
                if shape < *odd {
                    return self.record_at(pos, *stride, shape as usize);
                }
                if shape == *none {
                    return Err(Miss::Absent);
                }
                let slot = self.record_at(pos, *stride, 0)?.pos;
                verify::<LOCATION_CHECKED>(bytes, slot)?;
                self.location(slot)?
            }
            Placement::Table(places) => self.location(location_at(places, bytes, index()? as usize)?)?,
            Placement::Sorted(places) => {
                if let Some(own) = self.own.as_ref().filter(|own| !own.places.slots.is_empty()) {
                    let location = own.places.find(rank).ok_or(Miss::Absent)?;
                    let record =
                        bytes.get(location.pos as usize..).and_then(|bytes| bytes.get(..location.len as usize));
                    let bytes = record.ok_or(Miss::Damaged)?;
                    return Ok(Record { bytes, pos: location.pos as usize, shape: location.shape as usize });
                }
                self.location(search(places, bytes, rank)?)?
            }
        };
        if location.shape == NO_ID {
            return Err(Miss::Absent);
        }
        self.record_at(location.pos, location.len.into(), location.shape as usize)
    }

    /// The location in the verified entry at `at`.
    #[inline(always)]
    fn location(&self, at: usize) -> Read<RecordLocation> {
        let bytes = self.segment.bytes();
        Ok(RecordLocation {
            rank: u32_at(bytes, at + offset_of!(LocationEntry, rank))?,
            shape: u32_at(bytes, at + offset_of!(LocationEntry, shape))?,
            pos: u64_at(bytes, at + offset_of!(LocationEntry, pos))?,
            len: u32_at(bytes, at + offset_of!(LocationEntry, len))?,
        })
    }

    #[inline(always)]
    fn record_at(&self, pos: u64, len: u64, shape: usize) -> Read<Record<'_>> {
        let (first, all) = self.records.span();
        if pos.checked_add(len).is_none_or(|end| end > all as u64) {
            return Err(Miss::Damaged);
        }
        let bytes = slice_at(self.segment.bytes(), first as u64 + pos, len)?;
        Ok(Record { bytes, pos: first + pos as usize, shape })
    }

    /// An intact shape whose fields are in range.
    fn shape(&self, index: usize) -> Read<Shape> {
        let bytes = self.segment.bytes();
        let entry = self.shapes.entry::<{ offset_of!(ShapeEntry, check) }>(bytes, index)?;
        let first = u32_at(bytes, entry + offset_of!(ShapeEntry, field_first))?;
        let count = u32_at(bytes, entry + offset_of!(ShapeEntry, field_count))?;
        if u64::from(first) + u64::from(count) > self.fields.count() as u64 {
            return Err(Miss::Damaged);
        }
        Ok(Shape { first, count })
    }

    /// An intact field.
    fn field_at(&self, index: usize) -> Read<Field> {
        let bytes = self.segment.bytes();
        let entry = self.fields.entry::<FIELD_CHECKED>(bytes, index)?;
        let ty = DataType(u16_at(bytes, entry + offset_of!(FieldEntry, ty))?);
        Ok(Field {
            key: u32_at(bytes, entry + offset_of!(FieldEntry, key))?,
            ty,
            mask: ty.scalar_mask().unwrap_or(0),
            form: u16_at(bytes, entry + offset_of!(FieldEntry, form))?,
            offset: u32_at(bytes, entry + offset_of!(FieldEntry, offset))?,
            len: u32_at(bytes, entry + offset_of!(FieldEntry, len))?,
        })
    }

    fn key<'a>(&self, bytes: &'a [u8], id: u32) -> Read<KeyRef<'a>> {
        self.keys.by_id(bytes, id).map(|(_, text)| KeyRef::new(text))
    }

    #[inline(always)]
    fn field_value<'a>(&'a self, record: Record<'a>, field: &Field) -> Read<ValueRef<'a>> {
        let Field { ty, offset, mask, .. } = *field;
        match field.form {
            FIELD_NUMBER if mask != 0 => {
                Ok(ValueRef::Scalar { ty, bits: u64_at(record.bytes, offset as usize)? & mask })
            }
            FIELD_FIXED => {
                if field.len == NULL_LEN {
                    return Err(Miss::Damaged);
                }
                payload(record.bytes, ty, offset.into(), field.len)
            }
            FIELD_VARIABLE => {
                let (start, len) = self.variable(record, offset)?;
                payload(record.bytes, ty, start.into(), len)
            }
            _ => Err(Miss::Damaged),
        }
    }

    /// Position in the record and length of a value, from the entry at `offset`.
    #[inline(always)]
    fn variable(&self, record: Record<'_>, offset: u32) -> Read<(u32, u32)> {
        let offset = offset as usize;
        // Its check is seeded with its position in the file, not in the record.
        verify::<{ offset_of!(VariableEntry, check) }>(self.segment.bytes(), record.pos + offset)?;
        let start = u32_at(record.bytes, offset + offset_of!(VariableEntry, start))?;
        Ok((start, u32_at(record.bytes, offset + offset_of!(VariableEntry, len))?))
    }
}

impl CachedLocations {
    /// A table for `count` locations, empty for 0; `None` if the allocation fails.
    fn with_room(count: usize) -> Option<CachedLocations> {
        let len = if count == 0 { 0 } else { (2 * count).next_power_of_two() };
        let mut slots = fallible_alloc::vec(len).ok()?;
        slots.resize(len, RecordLocation { rank: NO_ID, shape: NO_ID, pos: 0, len: 0 });
        Some(CachedLocations { slots: slots.into() })
    }

    fn add(&mut self, location: RecordLocation) {
        let mut index = self.slot_of(location.rank);
        while self.slots[index].rank != NO_ID {
            index = (index + 1) & (self.slots.len() - 1);
        }
        self.slots[index] = location;
    }

    /// The location of a rank. The table must not be empty.
    #[inline(always)]
    fn find(&self, rank: Rank) -> Option<&RecordLocation> {
        let mut index = self.slot_of(rank.0);
        loop {
            let location = self.slots.get(index)?;
            if location.rank == rank.0 {
                return Some(location);
            }
            if location.rank == NO_ID {
                return None;
            }
            index = (index + 1) & (self.slots.len() - 1);
        }
    }

    #[inline(always)]
    fn slot_of(&self, rank: u32) -> usize {
        (rank.wrapping_mul(0x9e37_79b1) >> 16) as usize & (self.slots.len() - 1)
    }
}

impl CachedShapes {
    /// The field of the key `id` in a shape: the one at `hint`, else by binary search.
    #[inline(always)]
    fn field(&self, shape: usize, id: u32, hint: u32) -> Read<&Field> {
        let Shape { first, count } = self.shapes.get(shape).ok_or(Miss::Damaged)?;
        let fields = self.fields.get(*first as usize..).and_then(|fields| fields.get(..*count as usize));
        let fields = fields.ok_or(Miss::Damaged)?;
        if let Some(field) = fields.get(hint as usize)
            && field.key == id
        {
            return Ok(field);
        }
        search_field(fields, id).ok_or(Miss::Absent)
    }
}

#[inline(never)]
fn search_field(fields: &[Field], id: u32) -> Option<&Field> {
    fields.binary_search_by_key(&id, |field| field.key).ok().map(|index| &fields[index])
}

/// Bytes of an entry before its check.
const LOCATION_CHECKED: usize = offset_of!(LocationEntry, check);
const FIELD_CHECKED: usize = offset_of!(FieldEntry, check);

/// Position of a rank's location in a table that ascends by rank. The entry is verified.
fn search(places: &Table<LocationEntry>, bytes: &[u8], rank: Rank) -> Read<usize> {
    places.search::<LOCATION_CHECKED>(bytes, (0, places.count()), offset_of!(LocationEntry, rank), rank.0)
}

/// Position of the location at `index`, after verifying it.
#[inline]
fn location_at(places: &Table<LocationEntry>, bytes: &[u8], index: usize) -> Read<usize> {
    places.entry::<LOCATION_CHECKED>(bytes, index)
}
