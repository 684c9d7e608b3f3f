//! Writes the key table.

use super::writer::Writer;
use super::{BuildError, vec_for};
use crate::model::{Key, KeyRef};
use crate::segment::layout::toc::{KeySlot, KeysToc, NO_ID};

/// The entry of one key in the key table.
pub(crate) struct KeyRow<'a> {
    pub(crate) key: &'a Key,
    /// Realms that hold the key, one bit each.
    pub(crate) realms: u8,
    /// Column per realm, [`NO_ID`] for none.
    pub(crate) columns: [u32; 5],
}

/// Writes the key table. The id of a key is its index.
///
/// # Errors
/// More keys or text than 32 bits can count.
pub(crate) fn write_keys(writer: &mut Writer, rows: &[KeyRow<'_>]) -> Result<KeysToc, BuildError> {
    let text_len: u64 = rows.iter().map(|row| row.key.as_bytes().len() as u64 + 1).sum();
    let len_max = u64::from(u32::MAX) - 1;
    if text_len > len_max {
        return Err(BuildError::TooLarge { what: "bytes of all keys", len: text_len, len_max });
    }
    // Half empty, so that a search for a key that is not there ends soon.
    let slot_count = if rows.is_empty() { 0 } else { (rows.len() * 2).next_power_of_two() };
    let mut slots: Vec<Option<(u64, u32)>> = vec_for(slot_count)?;
    slots.resize(slot_count, None);
    let mut slot_of = vec_for(rows.len())?;
    for (id, row) in rows.iter().enumerate() {
        let hash = KeyRef::from(row.key).hash();
        let mut index = hash as usize & (slot_count - 1);
        while slots[index].is_some() {
            index = (index + 1) & (slot_count - 1);
        }
        slots[index] = Some((hash, id as u32));
        slot_of.push(index as u32);
    }
    let mut text_pos = 0;
    let text_pos: Vec<u32> = rows
        .iter()
        .map(|row| {
            let pos = text_pos;
            text_pos += row.key.as_bytes().len() as u32 + 1;
            pos
        })
        .collect();
    let slots = writer.region(slot_count, size_of::<KeySlot>(), |writer| {
        for slot in slots {
            let row = slot.map(|(_, id)| &rows[id as usize]);
            let start = writer.pos();
            writer.put_u64(slot.map_or(0, |(hash, _)| hash));
            writer.put_u32(slot.map_or(0, |(_, id)| text_pos[id as usize]));
            writer.put_u32(row.map_or(0, |row| row.key.as_bytes().len() as u32));
            writer.put_u32(slot.map_or(NO_ID, |(_, id)| id));
            writer.put_u32(row.map_or(0, |row| row.realms.into()));
            row.map_or([NO_ID; 5], |row| row.columns).iter().for_each(|column| writer.put_u32(*column));
            writer.put_check(start);
            writer.put(&[0; 16]);
        }
    })?;
    let ids = writer.region(rows.len(), 4, |writer| slot_of.iter().for_each(|slot| writer.put_u32(*slot)))?;
    let text = writer.region(text_len as usize, 1, |writer| {
        for row in rows {
            writer.put(row.key.as_bytes());
            writer.put(&[0]);
        }
    })?;
    Ok(KeysToc { slots, ids, text })
}
