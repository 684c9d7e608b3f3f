//! The interned keys of a segment.

use std::mem::offset_of;

use super::bytes::{Miss, Read, Table, slice_at, u32_at, u64_at};
use super::header::SegmentError;
use super::toc::{KeySlot, KeysToc, NO_ID};
use crate::model::KeyRef;
use crate::rules::RealmMask;

/// Reads the key table of a segment.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct KeyTable {
    slots: Table,
    ids: Table,
    text: Table,
}

/// A key that was found: the position in the file of its slot.
#[derive(Clone, Copy, Debug)]
pub(super) struct FoundKey(usize);

impl KeyTable {
    /// Checks the extents of the table against a file of `len` bytes.
    ///
    /// # Errors
    /// An extent outside the file or a slot count that is no power of two.
    pub(super) fn check(toc: KeysToc, len: usize) -> Result<KeyTable, SegmentError> {
        let table = KeyTable {
            slots: Table::check(toc.slots, len, size_of::<KeySlot>()).ok_or(SegmentError::Extent("key slots"))?,
            ids: Table::check(toc.ids, len, 4).ok_or(SegmentError::Extent("key ids"))?,
            text: Table::check(toc.text, len, 1).ok_or(SegmentError::Extent("key texts"))?,
        };
        if table.slots.count() != 0 && !table.slots.count().is_power_of_two() {
            return Err(SegmentError::Extent("key slots are no power of two"));
        }
        Ok(table)
    }

    /// Finds a key. The hash leads to it, the text is compared.
    #[inline]
    pub(super) fn find(&self, bytes: &[u8], key: &KeyRef<'_>) -> Read<FoundKey> {
        let count = self.slots.count();
        let mask = count.wrapping_sub(1);
        let mut index = key.hash() as usize;
        // At most once around: a table that means harm may have no empty slot.
        for _ in 0..count {
            let found = self.slot(bytes, index & mask)?;
            if found.id(bytes)? == NO_ID {
                return Err(Miss::Absent);
            }
            let hash = u64_at(bytes, found.0 + offset_of!(KeySlot, hash))?;
            if hash == key.hash() {
                let text = self.text(bytes, found)?;
                if text == key.text() {
                    return Ok(found);
                }
                // Another key of the same hash, or what is left of this one.
                if KeyRef::new(text).hash() != hash {
                    return Err(Miss::Damaged);
                }
            }
            index = index.wrapping_add(1);
        }
        Err(Miss::Absent)
    }

    #[inline]
    fn slot(&self, bytes: &[u8], index: usize) -> Read<FoundKey> {
        self.slots.entry::<{ offset_of!(KeySlot, check) }>(bytes, index).map(FoundKey)
    }

    /// The key of an id.
    pub(super) fn by_id(&self, bytes: &[u8], id: u32) -> Read<FoundKey> {
        let slot = u32_at(bytes, self.ids.at(id as usize)?)?;
        let found = self.slot(bytes, slot as usize)?;
        if found.id(bytes)? == id { Ok(found) } else { Err(Miss::Damaged) }
    }

    /// The text of a key.
    #[inline]
    pub(super) fn text<'a>(&self, bytes: &'a [u8], key: FoundKey) -> Read<&'a [u8]> {
        let pos = u32_at(bytes, key.0 + offset_of!(KeySlot, text_pos))?;
        let len = u32_at(bytes, key.0 + offset_of!(KeySlot, text_len))?;
        let (first, text_len) = self.text.span();
        let end = u64::from(pos) + u64::from(len);
        if end > text_len as u64 {
            return Err(Miss::Damaged);
        }
        slice_at(bytes, first as u64 + u64::from(pos), len.into())
    }

    /// Number of keys.
    pub(super) fn count(&self) -> u32 {
        self.ids.count() as u32
    }
}

impl FoundKey {
    /// The key's id.
    #[inline]
    pub(super) fn id(self, bytes: &[u8]) -> Read<u32> {
        u32_at(bytes, self.0 + offset_of!(KeySlot, id))
    }

    /// The realms that hold the key.
    #[inline]
    pub(super) fn realms(self, bytes: &[u8]) -> Read<RealmMask> {
        u32_at(bytes, self.0 + offset_of!(KeySlot, realms)).map(|realms| RealmMask(realms as u8))
    }

    /// The column of the key in realm `index`, or in a modex segment where to look first (0) and the lowest rank (1).
    #[inline]
    pub(super) fn column(self, bytes: &[u8], index: usize) -> Read<u32> {
        match u32_at(bytes, self.0 + offset_of!(KeySlot, columns) + 4 * index)? {
            NO_ID => Err(Miss::Absent),
            column => Ok(column),
        }
    }
}
