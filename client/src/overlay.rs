//! Values that this process alone has, and that come before all others: what it put, what it stored internally, and
//! what it refreshed.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use parking_lot::RwLock;
use pmix_dstore::model::{Key, KeyRef, Nspace, Rank, Result, Value};
use pmix_dstore::{qualified, room};

/// Words of the filter.
const FILTER_WORDS: usize = 256;
const WORDS: u64 = FILTER_WORDS as u64;

/// Where a value of the overlay comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Put, or stored internally: stays.
    Own,
    /// The answer to a `PMIX_GET_REFRESH_CACHE`: newer than the segments until the next fence.
    Refreshed,
}

struct Entry {
    nspace: Nspace,
    rank: Rank,
    key: Key,
    value: Arc<Value>,
    origin: Origin,
}

/// The overlay. A Get of a value that is not in it costs one load from a small filter, and takes no lock.
pub struct Overlay {
    filter: [AtomicU64; FILTER_WORDS],
    entries: RwLock<HashMap<u64, Vec<Entry>, BuildHasherDefault<AlreadyHashed>>>,
    refreshed: AtomicUsize,
}

impl Overlay {
    /// An empty overlay.
    pub fn new() -> Overlay {
        Overlay {
            filter: [const { AtomicU64::new(0) }; FILTER_WORDS],
            entries: RwLock::default(),
            refreshed: AtomicUsize::new(0),
        }
    }

    /// Stores a value in place of the one before; an own one with qualifiers beside those with others.
    ///
    /// # Errors
    /// `NOMEM`, `BAD_PARAM` for a qualified value that is none; the one before is still there.
    pub fn set(
        &self,
        nspace: &Nspace,
        rank: Rank,
        key: Key,
        value: impl Into<Arc<Value>>,
        origin: Origin,
    ) -> Result<()> {
        let mut value = value.into();
        let hash = mix(rank, &KeyRef::from(&key));
        let mut entries = self.entries.write();
        room::reserve_entries(&mut entries, 1)?;
        let bucket = entries.entry(hash).or_default();
        let place = bucket.iter_mut().find(|entry| entry.is(nspace.as_bytes(), rank, key.as_bytes()));
        if qualified::is_key(&key) && origin == Origin::Own {
            value = Arc::new(qualified::merge(place.as_deref().map(|entry| &*entry.value), &value)?);
        }
        match place {
            // Own values are never shadowed by what the server says of them.
            Some(entry) if entry.origin == Origin::Own && origin == Origin::Refreshed => return Ok(()),
            Some(entry) => {
                if entry.origin == Origin::Refreshed {
                    self.refreshed.fetch_sub(1, Ordering::Relaxed);
                }
                entry.value = value;
                entry.origin = origin;
            }
            None => bucket.push(Entry { nspace: nspace.clone(), rank, key, value, origin }),
        }
        if origin == Origin::Refreshed {
            self.refreshed.fetch_add(1, Ordering::Relaxed);
        }
        // Relaxed is enough: who learned of the value by other means sees this bit too, and the lock orders the rest.
        self.filter[(hash >> 6 & (WORDS - 1)) as usize].fetch_or(1 << (hash & 63), Ordering::Relaxed);
        Ok(())
    }

    /// Hands a value to `take`, if it is here.
    #[inline]
    pub fn get<R>(&self, nspace: &[u8], rank: Rank, key: &KeyRef<'_>, take: impl FnOnce(&Value) -> R) -> Option<R> {
        let hash = mix(rank, key);
        if self.filter[(hash >> 6 & (WORDS - 1)) as usize].load(Ordering::Relaxed) & 1 << (hash & 63) == 0 {
            return None;
        }
        let entries = self.entries.read();
        let entry = entries.get(&hash)?.iter().find(|entry| entry.is(nspace, rank, key.text()))?;
        Some(take(&entry.value))
    }

    /// A value that this process put or stored itself.
    pub fn own(&self, nspace: &[u8], rank: Rank, key: &KeyRef<'_>) -> Option<Arc<Value>> {
        let entries = self.entries.read();
        let mut bucket = entries.get(&mix(rank, key))?.iter();
        let entry = bucket.find(|entry| entry.origin == Origin::Own && entry.is(nspace, rank, key.text()))?;
        Some(Arc::clone(&entry.value))
    }

    /// All values of a rank, in the order of their keys.
    pub fn rank(&self, nspace: &[u8], rank: Rank) -> Vec<(Key, Arc<Value>)> {
        let entries = self.entries.read();
        let of_rank = entries.values().flatten().filter(|e| e.nspace.as_bytes() == nspace && e.rank == rank);
        let mut values: Vec<_> = of_rank.map(|entry| (entry.key.clone(), entry.value.clone())).collect();
        values.sort_by(|(a, _), (b, _)| a.cmp(b));
        values
    }

    /// A rank of a namespace that has `key`, for keys that are unique in it.
    pub fn unique(&self, nspace: &[u8], key: &KeyRef<'_>) -> Option<Rank> {
        let entries = self.entries.read();
        let mut all = entries.values().flatten();
        all.find(|e| e.nspace.as_bytes() == nspace && e.key.as_bytes() == key.text()).map(|entry| entry.rank)
    }

    /// Drops refreshed values: a fence has brought newer ones.
    pub fn forget_refreshed(&self) {
        if self.refreshed.swap(0, Ordering::Relaxed) == 0 {
            return;
        }
        for bucket in self.entries.write().values_mut() {
            bucket.retain(|entry| entry.origin == Origin::Own);
        }
    }
}

impl Entry {
    fn is(&self, nspace: &[u8], rank: Rank, key: &[u8]) -> bool {
        self.rank == rank && self.key.as_bytes() == key && self.nspace.as_bytes() == nspace
    }
}

/// One number for rank and key. Namespaces are not worth hashing: a process has values of few of them.
#[inline]
fn mix(rank: Rank, key: &KeyRef<'_>) -> u64 {
    key.hash().wrapping_add(u64::from(rank.0).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

/// A hasher for numbers that are hashes.
#[derive(Default)]
struct AlreadyHashed(u64);

impl Hasher for AlreadyHashed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn get(overlay: &Overlay, nspace: &Nspace, rank: u32, key: &str) -> Option<Value> {
        overlay.get(nspace.as_bytes(), Rank(rank), &KeyRef::from(key), Value::clone)
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
        assert_eq!(overlay.rank(a.as_bytes(), Rank(3)).len(), 2);
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
    }
}
