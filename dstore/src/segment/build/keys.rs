//! Writes the key table.

use super::BuildError;
use super::writer::Writer;
use crate::model::{Key, KeyRef};
use crate::segment::toc::{KeyEntry, KeySlot, KeysToc, NO_ID};

/// What the key table says of one key.
pub(super) struct KeyRow<'a> {
    pub(super) key: &'a Key,
    /// Realms that hold the key, one bit each.
    pub(super) realms: u8,
    /// Column per realm, [`NO_ID`] for none.
    pub(super) columns: [u32; 5],
}

/// Writes the key table of keys whose ids are their indices.
///
/// # Errors
/// More keys or text than 32 bits count.
pub(super) fn write_keys(writer: &mut Writer, rows: &[KeyRow<'_>]) -> Result<KeysToc, BuildError> {
    let text_len: u64 = rows.iter().map(|row| row.key.as_bytes().len() as u64 + 1).sum();
    let len_max = u64::from(u32::MAX) - 1;
    if text_len > len_max {
        return Err(BuildError::TooLarge { what: "bytes of all keys", len: text_len, len_max });
    }
    // Half empty, so that a search for a key that is not there ends soon.
    let slot_count = if rows.is_empty() { 0 } else { (rows.len() * 2).next_power_of_two() };
    let mut slots: Vec<(u64, u32, u8)> = vec![(0, NO_ID, 0); slot_count];
    for (id, row) in rows.iter().enumerate() {
        let hash = KeyRef::from(row.key).hash();
        let mut index = hash as usize & (slot_count - 1);
        while slots[index].1 != NO_ID {
            index = (index + 1) & (slot_count - 1);
        }
        slots[index] = (hash, id as u32, row.realms);
    }
    let slots = writer.region(slot_count, size_of::<KeySlot>(), |writer| {
        for (hash, id, realms) in slots {
            writer.put_u64(hash);
            writer.put_u32(id);
            writer.put_u32(realms.into());
        }
    });
    let entries = writer.region(rows.len(), size_of::<KeyEntry>(), |writer| {
        let mut pos = 0;
        for row in rows {
            let len = row.key.as_bytes().len() as u32;
            writer.put_u32(pos);
            writer.put_u32(len);
            row.columns.iter().for_each(|column| writer.put_u32(*column));
            writer.put_u32(0);
            pos += len + 1;
        }
    });
    let text = writer.region(text_len as usize, 1, |writer| {
        for row in rows {
            writer.put(row.key.as_bytes());
            writer.put(&[0]);
        }
    });
    Ok(KeysToc { slots, entries, text })
}
