//! The interned keys of a segment.

use std::mem::offset_of;

use super::bytes::{Table, slice_at, u32_at, u64_at};
use super::header::SegmentError;
use super::toc::{KeyEntry, KeySlot, KeysToc, NO_ID};
use crate::model::KeyRef;
use crate::rules::RealmMask;

/// Reads the key table of a segment.
#[derive(Clone, Copy, Debug)]
pub(super) struct KeyTable {
    slots: Table,
    entries: Table,
    text: Table,
}

impl KeyTable {
    /// Checks the extents of the table against a file of `len` bytes.
    ///
    /// # Errors
    /// An extent outside the file or a slot count that is no power of two.
    pub(super) fn check(toc: KeysToc, len: usize) -> Result<KeyTable, SegmentError> {
        let table = KeyTable {
            slots: Table::check(toc.slots, len, size_of::<KeySlot>()).ok_or(SegmentError::Extent("key slots"))?,
            entries: Table::check(toc.entries, len, size_of::<KeyEntry>()).ok_or(SegmentError::Extent("keys"))?,
            text: Table::check(toc.text, len, 1).ok_or(SegmentError::Extent("key texts"))?,
        };
        if table.slots.count() != 0 && !table.slots.count().is_power_of_two() {
            return Err(SegmentError::Extent("key slots are no power of two"));
        }
        Ok(table)
    }

    /// The id of a key and the realms that hold it. The hash leads to it, the text is compared.
    #[inline]
    pub(super) fn find(&self, bytes: &[u8], key: &KeyRef<'_>) -> Option<(u32, RealmMask)> {
        let count = self.slots.count();
        let mask = count.wrapping_sub(1);
        let mut index = key.hash() as usize;
        // At most once around: a damaged table may have no empty slot.
        for _ in 0..count {
            let slot = self.slots.at(index & mask)?;
            let id = u32_at(bytes, slot + offset_of!(KeySlot, id))?;
            if id == NO_ID {
                return None;
            }
            let hash = u64_at(bytes, slot + offset_of!(KeySlot, hash))?;
            if hash == key.hash() && self.text(bytes, id)? == key.text() {
                let realms = u32_at(bytes, slot + offset_of!(KeySlot, realms))?;
                return Some((id, RealmMask(realms as u8)));
            }
            index = index.wrapping_add(1);
        }
        None
    }

    /// The text of a key.
    #[inline]
    pub(super) fn text<'a>(&self, bytes: &'a [u8], id: u32) -> Option<&'a [u8]> {
        let entry = self.entries.at(id as usize)?;
        let pos = u32_at(bytes, entry + offset_of!(KeyEntry, text_pos))?;
        let len = u32_at(bytes, entry + offset_of!(KeyEntry, text_len))?;
        let (first, text_len) = self.text.span();
        let end = u64::from(pos) + u64::from(len);
        if end > text_len as u64 {
            return None;
        }
        slice_at(bytes, first as u64 + u64::from(pos), len.into())
    }

    /// The column of a key in realm `index`, or in a modex segment (index 0) where to look first.
    #[inline]
    pub(super) fn column(&self, bytes: &[u8], id: u32, index: usize) -> Option<u32> {
        let entry = self.entries.at(id as usize)?;
        let column = u32_at(bytes, entry + offset_of!(KeyEntry, columns) + 4 * index)?;
        (column != NO_ID).then_some(column)
    }

    /// Number of keys.
    pub(super) fn count(&self) -> u32 {
        self.entries.count() as u32
    }
}
