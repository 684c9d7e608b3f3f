//! What the ranks of a job published, in the heap of one process.

use std::collections::{BTreeMap, HashMap};

use crate::model::{Key, Rank, Value};

/// Published values of the ranks of one job, each rank's in key order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ModexData {
    ranks: HashMap<Rank, BTreeMap<Key, Value>>,
}

impl ModexData {
    /// Stores a value; tells whether that changed anything.
    pub fn set(&mut self, rank: Rank, key: Key, value: Value) -> bool {
        let values = self.ranks.entry(rank).or_default();
        match values.get_mut(key.as_bytes()) {
            Some(old) if *old == value => false,
            Some(old) => {
                *old = value;
                true
            }
            None => {
                values.insert(key, value);
                true
            }
        }
    }

    /// The value of one key of one rank.
    pub fn get(&self, rank: Rank, key: &[u8]) -> Option<&Value> {
        self.ranks.get(&rank)?.get(key)
    }

    /// All values of a rank, in key order; nothing for a rank that published nothing.
    pub fn rank(&self, rank: Rank) -> impl Iterator<Item = (&Key, &Value)> {
        self.ranks.get(&rank).into_iter().flatten()
    }

    /// Whether anything is stored for the rank.
    pub fn has_rank(&self, rank: Rank) -> bool {
        self.ranks.contains_key(&rank)
    }

    /// The ranks that have values, in no order.
    pub fn ranks(&self) -> impl Iterator<Item = Rank> {
        self.ranks.keys().copied()
    }

    /// Forgets all values of a rank.
    pub fn remove_rank(&mut self, rank: Rank) {
        self.ranks.remove(&rank);
    }
}
