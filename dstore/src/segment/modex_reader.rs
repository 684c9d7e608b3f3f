//! Reads a modex segment.

use std::mem::offset_of;

use super::bytes::{Table, slice_at, u16_at, u32_at, u64_at};
use super::checked::{CheckedSegment, number_mask, or_empty, payload};
use super::header::{RawHeader, SegmentError, SegmentKind};
use super::key_table::{FoundKey, KeyTable};
use super::region::Region;
use super::toc::{
    ArchivedModexToc, FIELD_FIXED, FIELD_NUMBER, FIELD_VARIABLE, FieldEntry, ModexToc, NO_ID, NULL_LEN, PLACE_SORTED,
    PLACE_STRIDE, PLACE_TABLE, PlaceEntry, ShapeEntry,
};
use crate::model::{DataType, KeyRef, Rank, ValueRef};

/// A modex segment: values that some ranks published.
pub struct ModexReader {
    segment: CheckedSegment,
    keys: KeyTable,
    first_rank: u32,
    last_rank: u32,
    rank_step: u32,
    placement: Placement,
    rank_count: u64,
    shapes: Table,
    fields: Table,
    records: Table,
}

/// How the record of a rank is found.
enum Placement {
    Stride { stride: u64, shape_ids: Table, none: u64 },
    Table(Table),
    Sorted { ranks: Table, places: Table },
}

impl ModexReader {
    /// Opens a modex segment, checking its header, its table of contents and the extents of its regions.
    ///
    /// # Errors
    /// Why the segment cannot be read.
    pub fn open(region: Box<dyn Region>) -> Result<ModexReader, SegmentError> {
        ModexReader::of(CheckedSegment::open(region)?, &mut Err)
    }

    /// Reads what can be read of a damaged segment; `problem` is told what cannot.
    ///
    /// # Errors
    /// A table of contents that is none.
    pub(super) fn open_damaged(
        region: Box<dyn Region>,
        mut problem: impl FnMut(SegmentError),
    ) -> Result<ModexReader, SegmentError> {
        ModexReader::of(CheckedSegment::open_damaged(region)?, &mut |error| {
            problem(error);
            Ok(())
        })
    }

    /// Checks all extents. Where `judge` lets an error pass, the part is taken as empty.
    fn of(
        segment: CheckedSegment,
        judge: &mut dyn FnMut(SegmentError) -> Result<(), SegmentError>,
    ) -> Result<ModexReader, SegmentError> {
        let toc = ModexToc::from(segment.toc::<ArchivedModexToc>(SegmentKind::Modex)?);
        let len = segment.bytes().len();
        let keys = or_empty(KeyTable::check(toc.keys, len), judge)?;
        let mut table = |extent, width, what| {
            or_empty(Table::check(extent, len, width).ok_or(SegmentError::Extent(what)), &mut *judge)
        };
        let places = table(toc.places, size_of::<PlaceEntry>(), "places")?;
        let shapes = table(toc.shapes, size_of::<ShapeEntry>(), "shapes")?;
        let fields = table(toc.fields, size_of::<FieldEntry>(), "fields")?;
        let records = table(toc.records, 1, "records")?;
        let placement = match toc.placement {
            PLACE_STRIDE => {
                let width = match toc.shape_ids.width {
                    _ if toc.shape_ids.count == 0 => 1,
                    width @ (1 | 2 | 4) => width as usize,
                    _ => return Err(SegmentError::Extent("shape ids")),
                };
                let shape_ids = table(toc.shape_ids, width, "shape ids")?;
                Placement::Stride { stride: toc.stride, shape_ids, none: u64::MAX >> (64 - 8 * width) }
            }
            PLACE_TABLE => Placement::Table(places),
            PLACE_SORTED => Placement::Sorted { ranks: table(toc.ranks, 4, "ranks")?, places },
            _ => return Err(SegmentError::Extent("placement")),
        };
        if toc.rank_step == 0 {
            return Err(SegmentError::Extent("rank step"));
        }
        Ok(ModexReader {
            keys,
            first_rank: toc.first_rank,
            last_rank: toc.last_rank,
            rank_step: toc.rank_step,
            placement,
            rank_count: toc.rank_count,
            shapes,
            fields,
            records,
            segment,
        })
    }

    /// The segment's header.
    pub fn header(&self) -> &RawHeader {
        self.segment.header()
    }

    /// How many ranks have values here.
    pub fn rank_count(&self) -> u64 {
        self.rank_count
    }

    /// Number of different record shapes.
    pub fn shape_count(&self) -> u64 {
        self.shapes.count() as u64
    }

    /// How records are found: `stride`, `table` or `sorted`.
    pub fn placement_name(&self) -> &'static str {
        match self.placement {
            Placement::Stride { .. } => "stride",
            Placement::Table(_) => "table",
            Placement::Sorted { .. } => "sorted",
        }
    }

    /// The keys of the segment.
    pub fn keys(&self) -> impl Iterator<Item = KeyRef<'_>> {
        let bytes = self.segment.bytes();
        (0..self.keys.count()).filter_map(move |id| self.key(bytes, id))
    }

    /// The value of `key` of a rank, if the segment has it.
    #[inline]
    pub fn get(&self, rank: Rank, key: &KeyRef<'_>) -> Option<ValueRef<'_>> {
        if rank.0 < self.first_rank || rank.0 > self.last_rank {
            return None;
        }
        let bytes = self.segment.bytes();
        let key = self.keys.find(bytes, key)?;
        let (record, shape) = self.record(rank)?;
        let field = self.field(shape, key)?;
        self.field_value(record, field)
    }

    /// The lowest rank that has a value of `key` here.
    pub fn first_rank_with(&self, key: &KeyRef<'_>) -> Option<Rank> {
        let bytes = self.segment.bytes();
        self.keys.find(bytes, key)?.column(bytes, 1).map(Rank)
    }

    /// All values of a rank, in the order of the key ids.
    pub fn rank(&self, rank: Rank) -> impl Iterator<Item = (KeyRef<'_>, ValueRef<'_>)> {
        let bytes = self.segment.bytes();
        let found = self.record(rank).and_then(|(record, shape)| Some((record, self.shape_fields(shape)?)));
        found.into_iter().flat_map(move |(record, (first, count))| {
            (0..count).filter_map(move |index| {
                let field = self.fields.at(first.checked_add(index)?)?;
                let key = u32_at(bytes, field + offset_of!(FieldEntry, key))?;
                Some((self.key(bytes, key)?, self.field_value(record, field)?))
            })
        })
    }

    /// The ranks that have values here, ascending.
    pub fn ranks(&self) -> impl Iterator<Item = Rank> {
        let bytes = self.segment.bytes();
        let count = match &self.placement {
            Placement::Sorted { ranks, .. } => ranks.count(),
            // Not more than there are records for, whatever the table of contents says.
            Placement::Stride { stride, .. } => {
                let indices = u64::from(self.last_rank.saturating_sub(self.first_rank) / self.rank_step) + 1;
                indices.min(self.records.count() as u64 / (*stride).max(8)) as usize
            }
            Placement::Table(places) => places.count(),
        };
        (0..count).filter_map(move |index| {
            let rank = match &self.placement {
                Placement::Sorted { ranks, .. } => u32::try_from(ranks.number(bytes, index)?).ok()?,
                _ => u32::try_from(index).ok()?.checked_mul(self.rank_step)?.checked_add(self.first_rank)?,
            };
            self.record(Rank(rank)).map(|_| Rank(rank))
        })
    }

    /// The record of a rank and its shape.
    #[inline]
    fn record(&self, rank: Rank) -> Option<(&[u8], usize)> {
        let bytes = self.segment.bytes();
        let mut index = rank.0.checked_sub(self.first_rank)?;
        if rank.0 > self.last_rank {
            return None;
        }
        if self.rank_step != 1 && !matches!(self.placement, Placement::Sorted { .. }) {
            if !index.is_multiple_of(self.rank_step) {
                return None;
            }
            index /= self.rank_step;
        }
        let places = match &self.placement {
            Placement::Stride { stride, shape_ids, none } => {
                let shape = match shape_ids.count() {
                    0 => 0,
                    _ => shape_ids.number(bytes, index as usize)?,
                };
                if shape == *none {
                    return None;
                }
                let record = self.record_bytes(u64::from(index).checked_mul(*stride)?, *stride)?;
                return Some((record, shape as usize));
            }
            Placement::Table(places) => places,
            Placement::Sorted { ranks, places } => {
                index = self.index_of(ranks, rank)?;
                places
            }
        };
        let place = places.at(index as usize)?;
        let shape = u32_at(bytes, place + offset_of!(PlaceEntry, shape))?;
        if shape == NO_ID {
            return None;
        }
        let pos = u64_at(bytes, place + offset_of!(PlaceEntry, pos))?;
        let len = u32_at(bytes, place + offset_of!(PlaceEntry, len))?;
        Some((self.record_bytes(pos, len.into())?, shape as usize))
    }

    #[inline]
    fn record_bytes(&self, pos: u64, len: u64) -> Option<&[u8]> {
        let (first, all) = self.records.span();
        if pos.checked_add(len)? > all as u64 {
            return None;
        }
        slice_at(self.segment.bytes(), first as u64 + pos, len)
    }

    fn index_of(&self, ranks: &Table, rank: Rank) -> Option<u32> {
        let bytes = self.segment.bytes();
        let (mut low, mut high) = (0, ranks.count());
        while low < high {
            let middle = low + (high - low) / 2;
            match ranks.number(bytes, middle)?.cmp(&rank.0.into()) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
                std::cmp::Ordering::Equal => return u32::try_from(middle).ok(),
            }
        }
        None
    }

    #[inline]
    fn shape_fields(&self, shape: usize) -> Option<(usize, usize)> {
        let bytes = self.segment.bytes();
        let entry = self.shapes.at(shape)?;
        let first = u32_at(bytes, entry + offset_of!(ShapeEntry, field_first))?;
        let count = u32_at(bytes, entry + offset_of!(ShapeEntry, field_count))?;
        (u64::from(first) + u64::from(count) <= self.fields.count() as u64).then_some((first as usize, count as usize))
    }

    fn key<'a>(&self, bytes: &'a [u8], id: u32) -> Option<KeyRef<'a>> {
        let key = self.keys.by_id(bytes, id)?;
        self.keys.text(bytes, key).map(KeyRef::new)
    }

    /// Position of the field of a key in a shape: where the key's hint says, else by binary search.
    #[inline]
    fn field(&self, shape: usize, key: FoundKey) -> Option<usize> {
        let bytes = self.segment.bytes();
        let id = key.id(bytes)?;
        let (first, count) = self.shape_fields(shape)?;
        if let Some(hint) = key.column(bytes, 0).filter(|hint| (*hint as usize) < count) {
            let field = self.fields.at(first + hint as usize)?;
            if u32_at(bytes, field + offset_of!(FieldEntry, key))? == id {
                return Some(field);
            }
        }
        let (mut low, mut high) = (0, count);
        while low < high {
            let middle = low + (high - low) / 2;
            let field = self.fields.at(first + middle)?;
            match u32_at(bytes, field + offset_of!(FieldEntry, key))?.cmp(&id) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
                std::cmp::Ordering::Equal => return Some(field),
            }
        }
        None
    }

    #[inline]
    fn field_value<'a>(&'a self, record: &'a [u8], field: usize) -> Option<ValueRef<'a>> {
        let bytes = self.segment.bytes();
        let ty = DataType(u16_at(bytes, field + offset_of!(FieldEntry, ty))?);
        let offset = u32_at(bytes, field + offset_of!(FieldEntry, offset))?;
        match u16_at(bytes, field + offset_of!(FieldEntry, form))? {
            FIELD_NUMBER => {
                let bits = u64_at(record, offset as usize)? & number_mask(ty)?;
                Some(ValueRef::Scalar { ty, bits })
            }
            FIELD_FIXED => {
                let len = u32_at(bytes, field + offset_of!(FieldEntry, len))?;
                if len == NULL_LEN {
                    return None;
                }
                payload(record, ty, offset.into(), len)
            }
            FIELD_VARIABLE => {
                let start = u32_at(record, offset as usize)?;
                let len = u32_at(record, offset as usize + 4)?;
                payload(record, ty, start.into(), len)
            }
            _ => None,
        }
    }
}
