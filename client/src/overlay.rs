//! Values that only this process has: its puts, values that it stored internally, and refreshed values. A Get looks
//! here first.

use std::collections::HashMap;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};

use pmix_dstore::model::{Key, KeyRef, Nspace, Proc, Rank, Result, Status, Value};
use pmix_dstore::{fallible_alloc, qualified};

use crate::forked::{RwLock, RwLockWriteGuard};
use crate::pin::{self, PinToken};

/// Words of the filter.
const FILTER_WORDS: usize = 128;
const WORDS: u64 = FILTER_WORDS as u64;

/// Unlinked entries are freed in batches of about this many bytes: to check for readers takes a system call
/// (`membarrier`) that interrupts all threads of the process.
const BATCH: usize = 16 << 10;

/// Where a value of the overlay comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Put or stored internally: kept until it is replaced or deleted.
    Own,
    /// The answer to a `PMIX_GET_REFRESH_CACHE`: newer than the segments until the next fence.
    Refreshed,
}

/// A value in the table. Immutable once it is linked.
struct Entry {
    hash: u64,
    nspace: Nspace,
    rank: Rank,
    origin: Origin,
    key: Arc<[u8]>,
    value: Arc<Value>,
}

/// The overlay. A Get of a value that is not in it costs one load from a small filter. A Get of a value in it takes no
/// lock if the thread holds a pin ([`PinToken`]). Therefore writers do not free an entry that such a thread may be
/// reading.
pub struct Overlay {
    filter: [AtomicU64; FILTER_WORDS],
    /// The same table as in the state, for readers without the lock.
    table: AtomicPtr<Table>,
    state: RwLock<State>,
    refreshed: AtomicUsize,
}

/// An open-addressed hash table of entries; at most half of the slots are in use.
struct Table {
    slots: Box<[AtomicPtr<Entry>]>,
}

struct State {
    /// Made by `Box::into_raw`, as are all entries.
    table: *mut Table,
    /// Slots that are not empty, including those of removed entries.
    count: usize,
    /// Unlinked entries and tables that pinned threads may still be reading. The list stays below [`BATCH`] bytes,
    /// unless at each check some thread is inside a Get.
    gone: Vec<Gone>,
    /// Approximate number of bytes in `gone`.
    gone_len: usize,
    /// At this value of `gone_len` the next check for readers is made.
    sweep_at: usize,
    /// Keys that this process has deleted and the server may still have.
    deleted: HashMap<Key, Proc>,
    /// The key of the last value. The next one's is shared with it where they are equal: Open MPI stores a number of each peer on its node
    /// under one key.
    last_key: Option<Arc<[u8]>>,
    /// The last value, if it is a number, for the same.
    last_number: Option<Arc<Value>>,
}

enum Gone {
    Entry(*mut Entry),
    Table(*mut Table),
}

// SAFETY: the state owns its tables and entries, and their contents are `Send`.
unsafe impl Send for State {}
// SAFETY: the same; they are changed only under the write lock.
unsafe impl Sync for State {}

impl Drop for Gone {
    fn drop(&mut self) {
        match *self {
            // SAFETY: made by `Box::into_raw`, and no thread can reach it any more.
            Gone::Entry(entry) => drop(unsafe { Box::from_raw(entry) }),
            // SAFETY: the same.
            Gone::Table(table) => drop(unsafe { Box::from_raw(table) }),
        }
    }
}

impl Drop for State {
    fn drop(&mut self) {
        // SAFETY: the table is valid; the overlay is being dropped, so there are no readers.
        let slots = unsafe { &(*self.table).slots };
        slots.iter().filter_map(|slot| taken(slot.load(Ordering::Relaxed))).for_each(|entry| drop(Gone::Entry(entry)));
        drop(Gone::Table(self.table));
    }
}

/// The tombstone: the content of a removed entry's slot.
fn removed() -> *mut Entry {
    ptr::dangling_mut()
}

/// The entry in a slot, if there is one.
#[inline(always)]
fn taken(entry: *mut Entry) -> Option<*mut Entry> {
    (!entry.is_null() && entry != removed()).then_some(entry)
}

impl Table {
    const SLOTS_MIN: usize = 16;

    fn new(len: usize) -> Result<Box<Table>> {
        let mut slots = fallible_alloc::vec(len)?;
        slots.resize_with(len, || AtomicPtr::new(ptr::null_mut()));
        Ok(Box::new(Table { slots: slots.into() }))
    }

    /// The slot of the matching entry, or else an empty slot.
    ///
    /// # Safety
    /// No entry that is in a slot now may be freed while the result is in use.
    #[inline(always)]
    unsafe fn slot(&self, hash: u64, is_of: impl Fn(&Entry) -> bool) -> (&AtomicPtr<Entry>, Option<&Entry>) {
        let mask = self.slots.len() - 1;
        let mut index = hash as usize & mask;
        // The search ends at an empty slot. There is one: at most half of the slots are in use.
        loop {
            let slot = &self.slots[index];
            let entry = slot.load(Ordering::Acquire);
            if entry.is_null() {
                return (slot, None);
            }
            // SAFETY: it points to an entry, which is not freed meanwhile by the caller's promise.
            if let Some(entry) = taken(entry).map(|entry| unsafe { &*entry })
                && entry.hash == hash
                && is_of(entry)
            {
                return (slot, Some(entry));
            }
            index = (index + 1) & mask;
        }
    }

    /// All entries.
    ///
    /// # Safety
    /// As [`Table::slot`], for as long as the table is borrowed.
    unsafe fn entries(&self) -> impl Iterator<Item = &Entry> {
        // SAFETY: they point to entries, which are not freed meanwhile by the caller's promise.
        self.slots.iter().filter_map(|slot| taken(slot.load(Ordering::Acquire)).map(|entry| unsafe { &*entry }))
    }
}

impl State {
    fn table(&self) -> &Table {
        // SAFETY: the state owns the table, and frees it only after replacing it.
        unsafe { &*self.table }
    }

    /// All entries.
    fn entries(&self) -> impl Iterator<Item = &Entry> {
        // SAFETY: entries are freed only under the write lock. This thread holds the state's lock, and frees no entry
        // here.
        unsafe { self.table().entries() }
    }

    /// A key and a value for a new entry, shared with the last ones if they are equal.
    fn shared(&mut self, key: &Key, value: Arc<Value>) -> (Arc<[u8]>, Arc<Value>) {
        let key =
            self.last_key.take().filter(|last| **last == *key.as_bytes()).unwrap_or_else(|| key.as_bytes().into());
        let bits = value.scalar_bits();
        let is_equal = |last: &Arc<Value>| last.scalar_bits() == bits && last.data_type() == value.data_type();
        let value = self.last_number.take().filter(is_equal).unwrap_or(value);
        self.last_key = Some(Arc::clone(&key));
        // Nothing else is kept longer than its entry.
        self.last_number = bits.map(|_| Arc::clone(&value));
        (key, value)
    }

    fn find(&self, nspace: &[u8], rank: Rank, key: &KeyRef<'_>) -> Option<&Entry> {
        // SAFETY: the same.
        unsafe { self.table().slot(mix(rank, key), |entry| entry.is(nspace, rank, key)) }.1
    }

    /// Replaces the entry of the same name, or puts the new one into an empty slot.
    ///
    /// # Errors
    /// `NOMEM`.
    fn put(&mut self, overlay: &Overlay, entry: Entry) -> Result<()> {
        fallible_alloc::reserve(&mut self.gone, 2)?;
        if 2 * (self.count + 1) > self.table().slots.len() {
            // Moves the entries without the tombstones, so that the new table need not be larger.
            let all = self.table().slots.iter().filter_map(|slot| taken(slot.load(Ordering::Relaxed)));
            let count = all.clone().count();
            let other = Table::new((4 * (count + 1)).next_power_of_two().max(Table::SLOTS_MIN))?;
            for entry in all {
                // SAFETY: entries are freed only under the write lock, which the caller holds.
                unsafe { other.slot((*entry).hash, |_| false) }.0.store(entry, Ordering::Relaxed);
            }
            let other = Box::into_raw(other);
            overlay.table.store(other, Ordering::Release);
            self.gone_len += size_of_val(&*self.table().slots);
            self.gone.push(Gone::Table(std::mem::replace(&mut self.table, other)));
            self.count = count;
        }
        let entry = Box::new(entry);
        let (nspace, rank, key) = (entry.nspace.as_bytes(), entry.rank, KeyRef::new(&entry.key));
        // SAFETY: the same.
        let (slot, _) = unsafe { self.table().slot(entry.hash, |other| other.is(nspace, rank, &key)) };
        let before = slot.load(Ordering::Relaxed);
        slot.store(Box::into_raw(entry), Ordering::Release);
        match taken(before) {
            Some(before) => {
                // SAFETY: the same.
                self.gone_len += unsafe { &*before }.len();
                self.gone.push(Gone::Entry(before));
            }
            None => self.count += 1,
        }
        Ok(())
    }

    /// Unlinks an entry; returns the origin of its value.
    fn remove(&mut self, hash: u64, is_it: impl Fn(&Entry) -> bool) -> Option<Origin> {
        // SAFETY: the table is the state's and is not replaced here; entries are freed only under the write lock, which
        // the caller holds.
        let (slot, entry) = unsafe { (*self.table).slot(hash, is_it) };
        let entry = entry?;
        self.gone_len += entry.len();
        let origin = entry.origin;
        self.gone.push(Gone::Entry(slot.swap(removed(), Ordering::AcqRel)));
        Some(origin)
    }

    /// Whether this process has deleted a value; the server may not know that yet.
    fn is_deleted(&self, nspace: &[u8], rank: Rank, key: &KeyRef<'_>) -> bool {
        let of = self.deleted.get(key.text());
        of.is_some_and(|me| me.rank == rank && me.nspace.as_bytes() == nspace)
    }

    /// Returns the unlinked entries for the caller to free, once there are enough of them and no thread can be reading
    /// them.
    fn sweep(&mut self) -> Vec<Gone> {
        if self.gone_len < self.sweep_at {
            return Vec::new();
        }
        if !pin::is_unused() {
            self.sweep_at = self.gone_len + BATCH;
            return Vec::new();
        }
        (self.gone_len, self.sweep_at) = (0, BATCH);
        std::mem::take(&mut self.gone)
    }
}

/// The lock during a fork.
pub(crate) struct Held<'a> {
    _state: Option<RwLockWriteGuard<'a, State>>,
}

impl Overlay {
    /// An empty overlay.
    pub fn new() -> Overlay {
        let slots = (0..Table::SLOTS_MIN).map(|_| AtomicPtr::new(ptr::null_mut())).collect();
        let table = Box::into_raw(Box::new(Table { slots }));
        Overlay {
            filter: [const { AtomicU64::new(0) }; FILTER_WORDS],
            table: AtomicPtr::new(table),
            state: RwLock::from(State {
                table,
                count: 0,
                gone: Vec::new(),
                gone_len: 0,
                sweep_at: BATCH,
                deleted: HashMap::new(),
                last_key: None,
                last_number: None,
            }),
            refreshed: AtomicUsize::new(0),
        }
    }

    /// Holds the lock for a fork.
    pub fn hold_for_fork(&self) -> Held<'_> {
        Held { _state: self.state.hold_for_fork() }
    }

    /// Stores a value, replacing the previous one. An own value with qualifiers is added to those with other
    /// qualifiers.
    ///
    /// # Errors
    /// `NOMEM`, `BAD_PARAM` for a malformed qualified value; as [`RwLock::read`]. On an error the previous value is kept.
    pub fn set(
        &self,
        nspace: &Nspace,
        rank: Rank,
        key: Key,
        value: impl Into<Arc<Value>>,
        origin: Origin,
    ) -> Result<()> {
        let mut value = value.into();
        let key_ref = KeyRef::from(&key);
        let hash = mix(rank, &key_ref);
        let mut state = self.state.write()?;
        let before = state.find(nspace.as_bytes(), rank, &key_ref);
        if qualified::is_key(&key) && origin == Origin::Own {
            value = Arc::new(qualified::merge(before.map(|entry| &*entry.value), &value)?);
        }
        let before = before.map(|entry| entry.origin);
        // The server's values never replace own values.
        if before == Some(Origin::Own) && origin == Origin::Refreshed {
            return Ok(());
        }
        if !state.deleted.is_empty() {
            state.deleted.remove(key.as_bytes());
        }
        let (key, value) = state.shared(&key, value);
        state.put(self, Entry { hash, nspace: nspace.clone(), rank, origin, key, value })?;
        if before == Some(Origin::Refreshed) {
            self.refreshed.fetch_sub(1, Ordering::Relaxed);
        }
        if origin == Origin::Refreshed {
            self.refreshed.fetch_add(1, Ordering::Relaxed);
        }
        self.mark(hash);
        let gone = state.sweep();
        drop(state);
        drop(gone);
        Ok(())
    }

    /// Sets the hash's bit in the filter, so that a Get looks into the table.
    fn mark(&self, hash: u64) {
        // Relaxed is enough: a thread that learned of the value synchronised with this one and sees the bit, and the
        // entry is stored with release.
        self.filter[(hash >> 6 & (WORDS - 1)) as usize].fetch_or(1 << (hash & 63), Ordering::Relaxed);
    }

    /// Removes a value of this process, `me`. If the server may have the value, Gets answer `NOT_FOUND` until
    /// [`Overlay::forget_deleted`], even where segments or caches still hold it.
    ///
    /// # Errors
    /// `NOMEM`; as [`RwLock::read`]. The value is still there.
    pub fn delete(&self, me: &Proc, key: &Key, server_has_it: bool) -> Result<()> {
        let key_ref = KeyRef::from(key);
        let hash = mix(me.rank, &key_ref);
        let mut state = self.state.write()?;
        if server_has_it {
            fallible_alloc::reserve_entries(&mut state.deleted, 1)?;
            state.deleted.insert(key.clone(), me.clone());
            self.mark(hash);
        }
        self.take_out(state, hash, |entry| entry.is(me.nspace.as_bytes(), me.rank, &key_ref));
        Ok(())
    }

    /// Removes the refreshed value of another process which has deleted it.
    pub fn forget(&self, of: &Proc, key: &Key) {
        let key = KeyRef::from(key);
        if self.may_hold(of.rank, &key) {
            let is_it =
                |entry: &Entry| entry.origin == Origin::Refreshed && entry.is(of.nspace.as_bytes(), of.rank, &key);
            self.take_out(self.state.wait_write(), mix(of.rank, &key), is_it);
        }
    }

    fn take_out(&self, mut state: RwLockWriteGuard<'_, State>, hash: u64, is_it: impl Fn(&Entry) -> bool) {
        if state.remove(hash, is_it) == Some(Origin::Refreshed) {
            self.refreshed.fetch_sub(1, Ordering::Relaxed);
        }
        let gone = state.sweep();
        drop(state);
        drop(gone);
    }

    /// The keys that this process has deleted since the last [`Overlay::forget_deleted`].
    ///
    /// # Errors
    /// As [`RwLock::read`].
    pub fn deleted(&self) -> Result<Vec<Key>> {
        Ok(self.state.read()?.deleted.keys().cloned().collect())
    }

    /// Clears the list of deleted keys: the server has deleted them, too.
    pub fn forget_deleted(&self) {
        if !self.state.wait_read().deleted.is_empty() {
            self.state.wait_write().deleted.clear();
        }
    }

    /// Whether the overlay may hold a value of this rank and key, in any namespace.
    #[inline(always)]
    pub fn may_hold(&self, rank: Rank, key: &KeyRef<'_>) -> bool {
        let hash = mix(rank, key);
        self.filter[(hash >> 6 & (WORDS - 1)) as usize].load(Ordering::Relaxed) & 1 << (hash & 63) != 0
    }

    /// Passes the value to `take`, if the overlay holds it.
    ///
    /// # Errors
    /// `NOT_FOUND` for a value that this process has deleted: values found elsewhere are older. As [`RwLock::read`].
    #[inline]
    pub fn get<R>(
        &self,
        nspace: &[u8],
        rank: Rank,
        key: &KeyRef<'_>,
        take: impl FnOnce(&Value) -> R,
    ) -> Result<Option<R>> {
        if !self.may_hold(rank, key) {
            return Ok(None);
        }
        let state = self.state.read()?;
        match state.find(nspace, rank, key) {
            Some(entry) => Ok(Some(take(&entry.value))),
            None if state.is_deleted(nspace, rank, key) => Err(Status::ERR_NOT_FOUND),
            None => Ok(None),
        }
    }

    /// As [`Overlay::get`] without the lock, for a thread with a pin.
    ///
    /// # Safety
    /// The thread does not change the overlay while it uses the value.
    #[inline(always)]
    pub unsafe fn get_pinned<'a>(
        &'a self,
        _: &'a PinToken,
        nspace: &[u8],
        rank: Rank,
        key: &KeyRef<'_>,
    ) -> Option<&'a Value> {
        // SAFETY: other threads free no table and no entry that a pinned thread may have reached; this thread changes
        // nothing by the caller's promise.
        let entry = unsafe {
            let table = &*self.table.load(Ordering::Acquire);
            table.slot(mix(rank, key), |entry| entry.is(nspace, rank, key)).1
        };
        entry.map(|entry| &*entry.value)
    }

    /// A value that this process put or stored itself.
    pub fn own(&self, nspace: &[u8], rank: Rank, key: &KeyRef<'_>) -> Option<Arc<Value>> {
        let state = self.state.read().ok()?;
        let entry = state.find(nspace, rank, key).filter(|entry| entry.origin == Origin::Own)?;
        Some(Arc::clone(&entry.value))
    }

    /// All values of a rank, in the order of their keys.
    ///
    /// # Errors
    /// As [`RwLock::read`].
    pub fn rank(&self, nspace: &[u8], rank: Rank) -> Result<Vec<(Key, Arc<Value>)>> {
        let state = self.state.read()?;
        let of_rank = state.entries().filter(|e| e.nspace.as_bytes() == nspace && e.rank == rank);
        // It was a key when it was put.
        let key = |entry: &Entry| Key::new(&entry.key).map_err(|_| Status::ERR_BAD_PARAM);
        let pair = |entry: &Entry| Ok((key(entry)?, entry.value.clone()));
        let mut values = of_rank.map(pair).collect::<Result<Vec<_>>>()?;
        values.sort_by(|(a, _), (b, _)| a.cmp(b));
        Ok(values)
    }

    /// A rank with a value under `key`, for keys that are unique in the namespace.
    pub fn unique(&self, nspace: &[u8], key: &KeyRef<'_>) -> Option<Rank> {
        let state = self.state.read().ok()?;
        let mut all = state.entries();
        all.find(|e| e.nspace.as_bytes() == nspace && *e.key == *key.text()).map(|entry| entry.rank)
    }

    /// Drops refreshed values: a fence has brought newer ones.
    pub fn forget_refreshed(&self) {
        if self.refreshed.swap(0, Ordering::Relaxed) == 0 {
            return;
        }
        let mut state = self.state.wait_write();
        let State { table, gone, gone_len, .. } = &mut *state;
        // SAFETY: the table is the state's, and is not replaced here.
        for slot in unsafe { &(**table).slots } {
            let Some(entry) = taken(slot.load(Ordering::Relaxed)) else { continue };
            // SAFETY: entries are freed only under the write lock. This thread holds the state's lock, and frees no
            // entry here.
            let is = unsafe { &*entry };
            if is.origin == Origin::Refreshed {
                slot.store(removed(), Ordering::Release);
                *gone_len += is.len();
                gone.push(Gone::Entry(entry));
            }
        }
        let gone = state.sweep();
        drop(state);
        drop(gone);
    }
}

impl Entry {
    /// Approximate size in bytes. An array counts as a whole [`BATCH`], so that it is freed soon.
    fn len(&self) -> usize {
        let value = match &*self.value {
            Value::DataArray(_) => BATCH,
            value => value.bytes().map(|bytes| bytes.len()).or(value.as_text().map(<[u8]>::len)).unwrap_or(0),
        };
        size_of::<Entry>() + self.key.len() + value
    }

    #[inline(always)]
    fn is(&self, nspace: &[u8], rank: Rank, key: &KeyRef<'_>) -> bool {
        // The pointer comparison is fast: Gets of the own namespace use the shared copy of its name.
        let is_name = || ptr::eq(self.nspace.as_bytes(), nspace) || self.nspace.as_bytes() == nspace;
        self.rank == rank && key.is_text(&self.key) && is_name()
    }
}

/// Hash of rank and key. The namespace is left out: a process has values of few namespaces.
#[inline]
fn mix(rank: Rank, key: &KeyRef<'_>) -> u64 {
    key.hash().wrapping_add(u64::from(rank.0).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn get(overlay: &Overlay, nspace: &Nspace, rank: u32, key: &str) -> Option<Value> {
        overlay.get(nspace.as_bytes(), Rank(rank), &KeyRef::from(key), Value::clone).ok().flatten()
    }

    #[test]
    fn a_deleted_value_is_gone_until_it_is_put_again() {
        let nspace = Nspace::new("a").unwrap();
        let (me, other) = (Proc::new(nspace.clone(), Rank(0)), Proc::new(nspace.clone(), Rank(1)));
        let overlay = Overlay::new();
        let ask = |rank| overlay.get(nspace.as_bytes(), Rank(rank), &KeyRef::from("key"), Value::clone);
        for rank in [0, 1] {
            let origin = if rank == 0 { Origin::Own } else { Origin::Refreshed };
            overlay.set(&nspace, Rank(rank), "key".into(), Value::Uint32(rank), origin).unwrap();
        }
        overlay.delete(&me, &"key".into(), true).unwrap();
        overlay.delete(&me, &"never".into(), true).unwrap();
        assert_eq!((ask(0), ask(1)), (Err(Status::ERR_NOT_FOUND), Ok(Some(Value::Uint32(1)))));
        assert_eq!(overlay.rank(nspace.as_bytes(), Rank(0)), Ok(Vec::new()));
        overlay.forget(&me, &"key".into());
        overlay.forget(&other, &"key".into());
        assert_eq!(ask(1), Ok(None));
        assert_eq!(overlay.deleted().unwrap().len(), 2);
        overlay.forget_deleted();
        assert_eq!(ask(0), Ok(None), "others may have it");
        overlay.delete(&me, &"key".into(), true).unwrap();
        overlay.set(&nspace, Rank(0), "key".into(), Value::Int(3), Origin::Own).unwrap();
        assert_eq!((ask(0), overlay.deleted()), (Ok(Some(Value::Int(3))), Ok(Vec::new())));
        overlay.forget(&me, &"key".into());
        assert_eq!(ask(0), Ok(Some(Value::Int(3))), "an own value is nobody else's to delete");
        overlay.delete(&me, &"key".into(), false).unwrap();
        assert_eq!(ask(0), Ok(None), "nobody else has one that is internal");
    }

    #[test]
    fn values_are_found_by_namespace_rank_and_key() {
        let (a, b) = (Nspace::new("a").unwrap(), Nspace::new("b").unwrap());
        let overlay = Overlay::new();
        assert_eq!(get(&overlay, &a, 0, "k"), None);
        for rank in 0..300 {
            overlay.set(&a, Rank(rank), "k".into(), Value::Uint32(rank), Origin::Own).unwrap();
            overlay.set(&a, Rank(rank), "l".into(), Value::Uint32(rank + 1000), Origin::Own).unwrap();
        }
        overlay.set(&b, Rank(7), "k".into(), Value::Bool(true), Origin::Own).unwrap();
        for rank in 0..300 {
            assert_eq!(get(&overlay, &a, rank, "k"), Some(Value::Uint32(rank)));
            assert_eq!(get(&overlay, &a, rank, "l"), Some(Value::Uint32(rank + 1000)));
            assert_eq!(get(&overlay, &a, rank, "m"), None);
        }
        assert_eq!(get(&overlay, &b, 7, "k"), Some(Value::Bool(true)));
        assert_eq!(get(&overlay, &b, 8, "k"), None);
        assert_eq!(overlay.rank(a.as_bytes(), Rank(3)).unwrap().len(), 2);
        assert_eq!(overlay.unique(b.as_bytes(), &KeyRef::from("k")), Some(Rank(7)));
        assert_eq!(overlay.unique(b.as_bytes(), &KeyRef::from("l")), None);
    }

    #[test]
    fn a_value_is_replaced_and_a_refreshed_one_goes_with_the_fence() {
        let nspace = Nspace::new("a").unwrap();
        let overlay = Overlay::new();
        overlay.set(&nspace, Rank(0), "own".into(), Value::Int(1), Origin::Own).unwrap();
        overlay.set(&nspace, Rank(0), "own".into(), Value::Int(2), Origin::Own).unwrap();
        overlay.set(&nspace, Rank(0), "own".into(), Value::Int(3), Origin::Refreshed).unwrap();
        overlay.set(&nspace, Rank(1), "peer".into(), Value::Int(4), Origin::Refreshed).unwrap();
        overlay.set(&nspace, Rank(1), "peer".into(), Value::Int(5), Origin::Refreshed).unwrap();
        assert_eq!(get(&overlay, &nspace, 0, "own"), Some(Value::Int(2)));
        assert_eq!(get(&overlay, &nspace, 1, "peer"), Some(Value::Int(5)));
        overlay.forget_refreshed();
        assert_eq!(get(&overlay, &nspace, 0, "own"), Some(Value::Int(2)));
        assert_eq!(get(&overlay, &nspace, 1, "peer"), None);
        // Repeated so often that removed entries would fill the table if it were not rebuilt.
        for number in 0..100 {
            let key = Key::new(format!("key-{number}")).unwrap();
            overlay.set(&nspace, Rank(1), key, Value::Int(number), Origin::Refreshed).unwrap();
            overlay.forget_refreshed();
        }
        assert_eq!(overlay.rank(nspace.as_bytes(), Rank(1)).unwrap().len(), 0);
        assert_eq!(overlay.rank(nspace.as_bytes(), Rank(0)).unwrap().len(), 1);
    }

    #[test]
    fn equal_numbers_of_peers_under_one_key_share_memory() {
        let nspace = Nspace::new("a").unwrap();
        let overlay = Overlay::new();
        let set = |rank, key: &str, value| {
            overlay.set(&nspace, Rank(rank), Key::new(key).unwrap(), value, Origin::Own).unwrap();
        };
        set(0, "k", Value::Uint16(7));
        set(1, "k", Value::Uint16(7));
        set(2, "k", Value::Uint32(7));
        set(3, "l", Value::Uint32(7));
        set(4, "l", Value::string(b"text"));
        set(5, "l", Value::string(b"text"));
        let of = |rank| {
            let state = overlay.state.wait_read();
            let entry = state.entries().find(|entry| entry.rank == Rank(rank)).unwrap();
            (Arc::as_ptr(&entry.key).cast::<u8>(), Arc::as_ptr(&entry.value))
        };
        assert!(of(0) == of(1), "the same number under the same key");
        assert!(of(1).0 == of(2).0 && of(1).1 != of(2).1, "a number of another type");
        assert!(of(2).0 != of(3).0 && of(2).1 == of(3).1, "another key");
        assert!(of(4).0 == of(5).0 && of(4).1 != of(5).1, "texts");
        assert_eq!(
            [0, 2, 4].map(|rank| get(&overlay, &nspace, rank, if rank < 3 { "k" } else { "l" })),
            [Some(Value::Uint16(7)), Some(Value::Uint32(7)), Some(Value::string(b"text")),]
        );
        assert!(size_of::<Entry>() <= 56, "a block of 64 bytes with malloc's own word");
    }

    #[test]
    fn replaced_values_are_freed_in_batches() {
        let nspace = Nspace::new("a").unwrap();
        let overlay = Overlay::new();
        let put = |value| {
            let value = Arc::new(value);
            let seen = Arc::downgrade(&value);
            overlay.set(&nspace, Rank(0), "key".into(), value, Origin::Own).unwrap();
            seen
        };
        let first = put(Value::Int(1));
        let second = put(Value::Int(2));
        assert!(first.upgrade().is_some() && second.upgrade().is_some());
        for number in 0..1000 {
            put(Value::Int(number));
        }
        assert!(first.upgrade().is_none() && second.upgrade().is_none());
        assert!(overlay.state.wait_read().gone_len < 2 * BATCH);
        let large = put(Value::ByteObject(vec![0; BATCH].into()));
        put(Value::Int(0));
        assert!(large.upgrade().is_none());
        let array = put(Value::infos([]));
        put(Value::Int(0));
        assert!(array.upgrade().is_none());
    }
}
