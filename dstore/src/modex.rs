//! Published values of a job's ranks, in the heap of one process.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::fallible_alloc;
use crate::model::{Backing, Bytes, Key, Rank, Result, Value};

/// Published values of the ranks of one job, each rank's in key order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ModexData {
    ranks: HashMap<Rank, BTreeMap<Key, Arc<Value>>>,
}

impl ModexData {
    /// Stores a value, which others may share. Returns whether anything changed.
    ///
    /// # Errors
    /// `NOMEM`; then nothing has changed.
    pub fn set(&mut self, rank: Rank, key: Key, value: impl Into<Arc<Value>>) -> Result<bool> {
        let value = value.into();
        fallible_alloc::reserve_entries(&mut self.ranks, 1)?;
        let values = self.ranks.entry(rank).or_default();
        Ok(match values.get_mut(key.as_bytes()) {
            Some(old) if *old == value => false,
            Some(old) => {
                *old = value;
                true
            }
            None => {
                values.insert(key, value);
                true
            }
        })
    }

    /// Removes a value. Returns whether there was one. The rank still counts as one that has published.
    pub fn remove(&mut self, rank: Rank, key: &[u8]) -> bool {
        self.ranks.get_mut(&rank).is_some_and(|values| values.remove(key).is_some())
    }

    /// Removes a rank and all its values: it counts as one that has not published.
    pub fn forget_rank(&mut self, rank: Rank) {
        self.ranks.remove(&rank);
    }

    /// Replaces `old` by `new` if the key still has that same value.
    pub fn replace(&mut self, rank: Rank, key: &[u8], old: &Arc<Value>, new: Arc<Value>) {
        let value = self.ranks.get_mut(&rank).and_then(|values| values.get_mut(key));
        if let Some(value) = value.filter(|value| Arc::ptr_eq(value, old)) {
            *value = new;
        }
    }

    /// Copies the bytes of values that are parts of `whole`, so that `whole` can be freed.
    ///
    /// # Errors
    /// `NOMEM`; then some values are not copied.
    pub fn copy_parts_of(&mut self, whole: &Arc<Backing>) -> Result<()> {
        for value in self.ranks.values_mut().flat_map(BTreeMap::values_mut) {
            let Some(bytes) = value.bytes().filter(|bytes| bytes.is_part_of(whole)) else { continue };
            let copied = value.with_bytes(Bytes::copy_of(bytes)?);
            *value = copied.map_or_else(|| Arc::clone(value), Arc::new);
        }
        Ok(())
    }

    /// The value of one key of one rank.
    pub fn get(&self, rank: Rank, key: &[u8]) -> Option<&Value> {
        self.shared(rank, key).map(|value| &**value)
    }

    /// As [`ModexData::get`], as a shared value.
    pub fn shared(&self, rank: Rank, key: &[u8]) -> Option<&Arc<Value>> {
        self.ranks.get(&rank)?.get(key)
    }

    /// All values of a rank, in key order; nothing for a rank that published nothing.
    pub fn rank(&self, rank: Rank) -> impl Iterator<Item = (&Key, &Value)> {
        self.ranks.get(&rank).into_iter().flatten().map(|(key, value)| (key, &**value))
    }

    /// Whether anything is stored for the rank.
    pub fn has_rank(&self, rank: Rank) -> bool {
        self.ranks.contains_key(&rank)
    }

    /// The ranks that have values, in no order.
    pub fn ranks(&self) -> impl Iterator<Item = Rank> {
        self.ranks.keys().copied()
    }
}
