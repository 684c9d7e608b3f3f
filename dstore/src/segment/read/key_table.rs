//! The interned keys of a segment.
//!
//! A key table of usual size is read once, when its segment is attached. Its intact slots are copied into this process's memory,
//! where they need no check. A large table stays in the file, and each look-up verifies its slots.

use std::mem::offset_of;

use crate::fallible_alloc;
use crate::model::KeyRef;
use crate::realm_resolution::{self, Realm, RealmMask};
use crate::segment::layout::bytes::{Miss, Read, Table, u32_at, u64_at};
use crate::segment::layout::error::SegmentError;
use crate::segment::layout::toc::{KeySlot, KeysToc, NO_ID};

/// Reads the key table of a segment.
#[derive(Default)]
pub(crate) struct KeyTable {
    slots: Table<KeySlot>,
    ids: Table<u32>,
    /// Position and length of the texts.
    text: (usize, usize),
    /// A verified copy of the slots; empty if there are too many, or one is corrupt.
    own: Box<[CachedSlot]>,
}

/// Tables of more slots than this are not copied: every client of a node has its own copy.
const OWN_SLOTS_MAX: usize = 1024;

/// A slot in this process's memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CachedSlot {
    hash: u64,
    /// Position of the text in the file.
    text: usize,
    text_len: u32,
    /// [`NO_ID`] in an empty slot.
    pub(crate) id: u32,
    pub(crate) realms: RealmMask,
    /// The key's default realm.
    pub(crate) default_realm: Option<Realm>,
    /// [`NO_ID`] for none.
    pub(crate) columns: [u32; 5],
    /// In a job segment, the routes of the fast path to the job's value, and to a process's.
    pub(crate) routes: [Route; 2],
}

/// The location of a key's value for a Get without directives.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Route {
    /// Index of the column, or of the cached value.
    pub(crate) column: u32,
    pub(crate) row: Row,
    /// Whether no other realm is tried if there is no value.
    pub(crate) is_last: bool,
}

/// The row of a column for the fast path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Row {
    First,
    OfRank,
    CallerNode,
    /// No row: the value is cached, and the route's `column` is its index.
    Ready,
    /// There is no value.
    None,
    /// Only the slow path can find the value.
    NeedSlowPath,
}

impl Route {
    pub(crate) const NEED_SLOW_PATH: Route = Route { column: NO_ID, row: Row::NeedSlowPath, is_last: false };
}

/// The result of a look-up among the cached slots.
pub(crate) enum CachedKey<'a> {
    /// The index of the slot, and the slot.
    Found(usize, &'a CachedSlot),
    Absent,
    /// There is no copy of the slots, or a key with the same hash has another text.
    NeedSlowPath,
}

/// A key that was found: the index of its slot.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FoundKey(usize);

impl KeyTable {
    /// Checks the extents of the table against the file `bytes`.
    ///
    /// # Errors
    /// An extent outside the file or a slot count that is no power of two.
    pub(crate) fn check(toc: KeysToc, bytes: &[u8]) -> Result<KeyTable, SegmentError> {
        let len = bytes.len();
        let mut table = KeyTable {
            slots: Table::check(toc.slots, len).ok_or(SegmentError::Extent("key slots"))?,
            ids: Table::check(toc.ids, len).ok_or(SegmentError::Extent("key ids"))?,
            text: Table::<u8>::check(toc.text, len).ok_or(SegmentError::Extent("key texts"))?.span(),
            own: Box::default(),
        };
        let count = table.slots.count();
        if count != 0 && !count.is_power_of_two() {
            return Err(SegmentError::Extent("key slots are no power of two"));
        }
        if count <= OWN_SLOTS_MAX {
            // On failure, each look-up verifies the slots and detects corruption itself.
            table.own = table.copy_slots(bytes).unwrap_or_default();
        }
        Ok(table)
    }

    /// A copy of all slots; `None` if one is corrupt, or an allocation fails.
    fn copy_slots(&self, bytes: &[u8]) -> Option<Box<[CachedSlot]>> {
        let mut own = fallible_alloc::vec(self.slots.count()).ok()?;
        for index in 0..self.slots.count() {
            own.push(self.read_slot(bytes, index).ok()?);
        }
        // A search ends at an empty slot; if there is none, only the search in the file counts the slots.
        own.iter().any(|slot| slot.id == NO_ID).then(|| own.into())
    }

    /// Reads and verifies a slot of the file.
    #[inline]
    fn read_slot(&self, bytes: &[u8], index: usize) -> Read<CachedSlot> {
        let pos = self.slots.entry::<{ offset_of!(KeySlot, check) }>(bytes, index)?;
        let number = |offset: usize| u32_at(bytes, pos + offset);
        let mut columns = [NO_ID; 5];
        for (column, realm) in columns.iter_mut().zip(0..) {
            *column = number(offset_of!(KeySlot, columns) + 4 * realm)?;
        }
        let mut slot = CachedSlot {
            hash: u64_at(bytes, pos + offset_of!(KeySlot, hash))?,
            text: 0,
            text_len: number(offset_of!(KeySlot, text_len))?,
            id: number(offset_of!(KeySlot, id))?,
            realms: RealmMask(number(offset_of!(KeySlot, realms))? as u8),
            default_realm: None,
            columns,
            routes: [Route::NEED_SLOW_PATH; 2],
        };
        if slot.id != NO_ID {
            let (first, len) = self.text;
            let pos = number(offset_of!(KeySlot, text_pos))?;
            if u64::from(pos) + u64::from(slot.text_len) > len as u64 {
                return Err(Miss::Damaged);
            }
            slot.text = first + pos as usize;
            slot.default_realm = realm_resolution::default_realm_of(&KeyRef::new(self.text(bytes, &slot)?));
        }
        Ok(slot)
    }

    /// Finds a key by its hash, and compares the text.
    #[inline(always)]
    pub(crate) fn find(&self, bytes: &[u8], key: &KeyRef<'_>) -> Read<FoundKey> {
        match self.find_own(bytes, key) {
            CachedKey::Found(index, _) => Ok(FoundKey(index)),
            CachedKey::Absent => Err(Miss::Absent),
            CachedKey::NeedSlowPath => self.find_in_file(bytes, key),
        }
    }

    /// Sets the routes of all cached slots.
    pub(crate) fn set_routes(&mut self, mut routes: impl FnMut(&CachedSlot) -> [Route; 2]) {
        for slot in self.own.iter_mut().filter(|slot| slot.id != NO_ID) {
            slot.routes = routes(slot);
        }
    }

    /// Finds a key among the cached slots.
    #[inline(always)]
    pub(crate) fn find_own(&self, bytes: &[u8], key: &KeyRef<'_>) -> CachedKey<'_> {
        let mask = self.own.len().wrapping_sub(1);
        let mut index = key.hash() as usize & mask;
        loop {
            let Some(slot) = self.own.get(index) else { return CachedKey::NeedSlowPath };
            if slot.id == NO_ID {
                return CachedKey::Absent;
            }
            if slot.hash == key.hash() {
                let is_of = self.text(bytes, slot).is_ok_and(|text| key.is_text(text));
                return if is_of { CachedKey::Found(index, slot) } else { CachedKey::NeedSlowPath };
            }
            index = (index + 1) & mask;
        }
    }

    #[cold]
    fn find_in_file(&self, bytes: &[u8], key: &KeyRef<'_>) -> Read<FoundKey> {
        let count = self.slots.count();
        let mask = count.wrapping_sub(1);
        let mut index = key.hash() as usize & mask;
        for _ in 0..count {
            let slot = self.read_slot(bytes, index)?;
            if slot.id == NO_ID {
                return Err(Miss::Absent);
            }
            if slot.hash == key.hash() {
                let text = self.text(bytes, &slot)?;
                if key.is_text(text) {
                    return Ok(FoundKey(index));
                }
                // Another key with the same hash, or a corrupt text of this one.
                if KeyRef::new(text).hash() != slot.hash {
                    return Err(Miss::Damaged);
                }
            }
            index = (index + 1) & mask;
        }
        Err(Miss::Absent)
    }

    /// The key of an id, with its text.
    pub(crate) fn by_id<'a>(&self, bytes: &'a [u8], id: u32) -> Read<(FoundKey, &'a [u8])> {
        let index = u32_at(bytes, self.ids.at(id as usize)?)? as usize;
        let slot = self.read_slot(bytes, index)?;
        if slot.id == id { Ok((FoundKey(index), self.text(bytes, &slot)?)) } else { Err(Miss::Damaged) }
    }

    /// The text of a key.
    #[inline(always)]
    fn text<'a>(&self, bytes: &'a [u8], slot: &CachedSlot) -> Read<&'a [u8]> {
        bytes.get(slot.text..).and_then(|bytes| bytes.get(..slot.text_len as usize)).ok_or(Miss::Damaged)
    }

    /// Number of keys.
    pub(crate) fn count(&self) -> u32 {
        self.ids.count() as u32
    }

    /// A number in the slot of a key. The slot is verified already.
    #[inline]
    fn number(&self, bytes: &[u8], key: FoundKey, offset: usize) -> Read<u32> {
        u32_at(bytes, self.slots.at(key.0)? + offset)
    }

    /// The id of a key.
    #[inline]
    pub(crate) fn id(&self, bytes: &[u8], key: FoundKey) -> Read<u32> {
        match self.own.get(key.0) {
            Some(slot) => Ok(slot.id),
            None => self.number(bytes, key, offset_of!(KeySlot, id)),
        }
    }

    /// The realms that hold a key.
    #[inline]
    pub(crate) fn realms(&self, bytes: &[u8], key: FoundKey) -> Read<RealmMask> {
        match self.own.get(key.0) {
            Some(slot) => Ok(slot.realms),
            None => self.number(bytes, key, offset_of!(KeySlot, realms)).map(|realms| RealmMask(realms as u8)),
        }
    }

    /// The default realm of a key, if its slot is cached.
    #[inline]
    pub(crate) fn default_realm(&self, key: FoundKey) -> Option<Option<Realm>> {
        self.own.get(key.0).map(|slot| slot.default_realm)
    }

    /// The column of a key in realm `index`. In a modex segment: the index of the field to try first (0), and the lowest rank
    /// (1).
    #[inline]
    pub(crate) fn column(&self, bytes: &[u8], key: FoundKey, index: usize) -> Read<u32> {
        let column = match self.own.get(key.0) {
            Some(slot) => slot.columns[index],
            None => self.number(bytes, key, offset_of!(KeySlot, columns) + 4 * index)?,
        };
        if column == NO_ID { Err(Miss::Absent) } else { Ok(column) }
    }
}
