//! The values that ranks have published under `pmixrun`, and lookups that wait for keys not published yet.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Instant;

use pmix_dstore::codec::{pack_stored, unpack_stored};
use pmix_dstore::model::{Key, Pdata, Proc, Result, Status, Value};
use pmix_server::Completion;

pub(super) type Lookup = Completion<(Status, Vec<Pdata>)>;

/// The most values that a process may have published.
const VALUES_MAX: usize = 65_536;
/// The most bytes of these values, keys included.
const BYTES_MAX: usize = 16 << 20;

/// A lookup that waits for its keys.
pub(super) struct WaitingLookup {
    pub keys: Vec<Key>,
    pub deadline: Option<Instant>,
    pub done: Lookup,
}

/// A published value.
struct Item {
    publisher: Proc,
    value: Value,
    /// Whether the first lookup removes it.
    once: bool,
    bytes: usize,
}

/// The amount that a process has published.
#[derive(Default)]
struct Share {
    values: usize,
    bytes: usize,
}

/// Published values, and lookups that wait for keys not published yet.
#[derive(Default)]
pub(super) struct Published {
    values: HashMap<Key, Item>,
    shares: BTreeMap<Proc, Share>,
    waiting: Vec<WaitingLookup>,
}

impl Published {
    /// Adds values: all of them, or none.
    ///
    /// # Errors
    /// `ERR_DUPLICATE_KEY`; `ERR_OUT_OF_RESOURCE` if the process would exceed its limits.
    pub fn add<'a>(
        &mut self,
        publisher: &Proc,
        values: impl Iterator<Item = (&'a Key, &'a Value)> + Clone,
        once: bool,
    ) -> Result<()> {
        let mut names = HashSet::new();
        if values.clone().any(|(key, _)| self.values.contains_key(key) || !names.insert(key)) {
            return Err(Status::ERR_DUPLICATE_KEY);
        }
        let share = self.shares.entry(publisher.clone()).or_default();
        let (mut items, mut bytes_all) = (Vec::new(), share.bytes);
        for (key, value) in values {
            // Store a copy: the received value may keep the memory of the whole message.
            let packed = pack_stored(value)?;
            let bytes = key.as_bytes().len() + packed.len();
            bytes_all += bytes;
            if share.values + items.len() >= VALUES_MAX || bytes_all > BYTES_MAX {
                return Err(Status::ERR_OUT_OF_RESOURCE);
            }
            let value = unpack_stored(value.data_type(), &packed)?;
            items.push((key, Item { publisher: publisher.clone(), value, once, bytes }));
        }
        for (key, item) in items {
            share.values += 1;
            share.bytes += item.bytes;
            self.values.insert(key.clone(), item);
        }
        Ok(())
    }

    /// Unpublishes values of a process: those of `keys`, or all if `keys` is empty.
    pub fn remove(&mut self, publisher: &Proc, keys: &[Key]) {
        let gone: Vec<Key> = match keys {
            [] => self
                .values
                .iter()
                .filter(|(_, item)| item.publisher == *publisher)
                .map(|(key, _)| key.clone())
                .collect(),
            keys => keys
                .iter()
                .filter(|key| self.values.get(*key).is_some_and(|item| item.publisher == *publisher))
                .cloned()
                .collect(),
        };
        gone.iter().for_each(|key| self.take_out(key));
    }

    fn take_out(&mut self, key: &Key) {
        let Some(item) = self.values.remove(key) else { return };
        if let Some(share) = self.shares.get_mut(&item.publisher) {
            share.values -= 1;
            share.bytes -= item.bytes;
        }
    }

    /// Whether all of `keys` are published.
    pub fn has_all(&self, keys: &[Key]) -> bool {
        keys.iter().all(|key| self.values.contains_key(key))
    }

    /// Adds a waiting lookup.
    pub fn wait(&mut self, lookup: WaitingLookup) {
        self.waiting.push(lookup);
    }

    /// The published values of `keys`; values for one reader are removed.
    pub fn read(&mut self, keys: &[Key]) -> Vec<Pdata> {
        let mut found = Vec::new();
        for key in keys {
            let Some(item) = self.values.get(key) else { continue };
            let once = item.once;
            found.push(Pdata { proc: item.publisher.clone(), key: key.clone(), value: item.value.clone() });
            if once {
                self.take_out(key);
            }
        }
        found
    }

    /// Lookups that can be answered now, with their answers.
    pub fn ready(&mut self) -> Vec<(Lookup, Vec<Pdata>)> {
        let (ready, waiting) =
            std::mem::take(&mut self.waiting).into_iter().partition(|lookup| self.has_all(&lookup.keys));
        self.waiting = waiting;
        let ready: Vec<WaitingLookup> = ready;
        ready.into_iter().map(|lookup| (lookup.done, self.read(&lookup.keys))).collect()
    }

    /// Removes and returns the lookups whose time limit has passed; also returns the next time limit.
    pub fn expire(&mut self, now: Instant) -> (Vec<Lookup>, Option<Instant>) {
        let is_late = |lookup: &WaitingLookup| lookup.deadline.is_some_and(|deadline| deadline <= now);
        let (late, waiting): (Vec<_>, Vec<_>) = std::mem::take(&mut self.waiting).into_iter().partition(is_late);
        self.waiting = waiting;
        let next = self.waiting.iter().filter_map(|lookup| lookup.deadline).min();
        (late.into_iter().map(|lookup| lookup.done).collect(), next)
    }
}

#[cfg(test)]
mod tests {
    use pmix_dstore::model::{Nspace, Rank};

    use super::*;

    fn proc(rank: u32) -> Proc {
        Proc::new(Nspace::new("job").unwrap(), Rank(rank))
    }

    fn add(published: &mut Published, rank: u32, key: &str, value: Value, once: bool) -> Result<()> {
        published.add(&proc(rank), [(&Key::new(key).unwrap(), &value)].into_iter(), once)
    }

    #[test]
    fn published_data_of_a_process_is_bounded() {
        let mut published = Published::default();
        let mebibyte = || Value::ByteObject(vec![7; 1 << 20].into());
        for number in 0..15 {
            assert_eq!(add(&mut published, 0, &format!("large-{number}"), mebibyte(), false), Ok(()));
        }
        assert_eq!(add(&mut published, 0, "large-15", mebibyte(), false), Err(Status::ERR_OUT_OF_RESOURCE));
        let (small, large) = (Value::Bool(true), mebibyte());
        let twice = [&small, &large].map(|value| (Key::from("twice"), value));
        let twice = published.add(&proc(0), twice.iter().map(|(key, value)| (key, *value)), false);
        assert_eq!(twice, Err(Status::ERR_DUPLICATE_KEY));
        // Each process has a limit of its own; unpublished and consumed values free it.
        assert_eq!(add(&mut published, 1, "other", mebibyte(), false), Ok(()));
        published.remove(&proc(1), &[Key::from("large-0")]);
        assert_eq!(add(&mut published, 0, "large-15", mebibyte(), false), Err(Status::ERR_OUT_OF_RESOURCE));
        published.remove(&proc(0), &[Key::from("large-0")]);
        assert_eq!(add(&mut published, 0, "large-15", mebibyte(), true), Ok(()));
        assert_eq!(published.read(&[Key::from("large-15")]).len(), 1);
        assert_eq!(add(&mut published, 0, "large-16", mebibyte(), false), Ok(()));
        published.remove(&proc(0), &[]);
        for number in 0..VALUES_MAX {
            assert_eq!(add(&mut published, 0, &format!("small-{number}"), Value::Bool(true), false), Ok(()));
        }
        assert_eq!(add(&mut published, 0, "small", Value::Bool(true), false), Err(Status::ERR_OUT_OF_RESOURCE));
    }
}
