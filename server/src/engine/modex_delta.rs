//! The modex delta: the puts of local ranks for other nodes in order, and the part of them that other servers have.
//!
//! The servers of the same participants keep the values that a fence brought, so the next fence of these participants carries only
//! later puts. Otherwise each fence would carry all earlier puts. A server that lacks a value nevertheless, because of a failed
//! allocation or because it learned of the job later, requests it by direct modex.

use std::collections::{BTreeSet, HashMap, HashSet};

use pmix_dstore::fallible_alloc;
use pmix_dstore::model::{Key, Nspace, Proc, Rank, Result};

/// Limits of the remembered sets of participants, and of the participants in all of them. Beyond them the set with the oldest fence
/// is dropped: its next fence carries all values again.
const DELIVERED_MAX: usize = 64;
const PARTICIPANTS_MAX: usize = 1 << 16;
/// Shorter logs are not compacted.
const LOG_MIN: usize = 64;

/// The changes of one namespace's local ranks.
#[derive(Default)]
pub(super) struct Changes {
    count: u64,
    ranks: HashMap<Rank, Log>,
    /// Keys that were put and have been deleted: other servers may have them.
    gone: HashMap<Rank, BTreeSet<Key>>,
    /// The participants of earlier fences, and the number of changes that they have; the latest fence is the last.
    delivered: Vec<(Vec<Proc>, u64)>,
}

/// The keys of one rank, with the number of the change.
#[derive(Default)]
struct Log {
    entries: Vec<(u64, Key)>,
    /// The length at which the next compaction drops superseded entries.
    len_max: usize,
}

impl Changes {
    /// How many changes there have been.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Makes room for one [`Changes::note`].
    ///
    /// # Errors
    /// `NOMEM`.
    pub fn make_room(&mut self, rank: Rank) -> Result<()> {
        fallible_alloc::reserve_entries(&mut self.ranks, 1)?;
        fallible_alloc::reserve(&mut self.ranks.entry(rank).or_default().entries, 1)
    }

    /// Notes that a value is new or another one.
    pub fn note(&mut self, rank: Rank, key: &Key) {
        if let Some(gone) = self.gone.get_mut(&rank) {
            gone.remove(key.as_bytes());
        }
        self.add(rank, key);
    }

    /// Notes that a value has been deleted.
    pub fn note_gone(&mut self, rank: Rank, key: &Key) {
        self.gone.entry(rank).or_default().insert(key.clone());
        self.add(rank, key);
    }

    /// The keys of a rank that have been deleted, and not put again.
    pub fn gone(&self, rank: Rank) -> impl Iterator<Item = &Key> {
        self.gone.get(&rank).into_iter().flatten()
    }

    fn add(&mut self, rank: Rank, key: &Key) {
        self.count += 1;
        let log = self.ranks.entry(rank).or_default();
        if log.entries.len() >= log.len_max.max(LOG_MIN) {
            log.shorten();
        }
        log.entries.push((self.count, key.clone()));
    }

    /// The keys of a rank that have changed after `count` changes, each once.
    pub fn since(&self, rank: Rank, count: u64) -> Vec<&Key> {
        let Some(log) = self.ranks.get(&rank) else { return Vec::new() };
        let first = log.entries.partition_point(|(at, _)| *at <= count);
        let mut seen = HashSet::new();
        log.entries[first..].iter().map(|(_, key)| key).filter(|key| seen.insert(*key)).collect()
    }

    /// The number of changes that these participants' servers have.
    pub fn delivered(&self, participants: &[Proc]) -> u64 {
        self.delivered.iter().find(|(to, _)| to == participants).map_or(0, |(_, count)| *count)
    }

    /// Notes that the servers of these participants have the first `count` changes.
    pub fn mark_delivered(&mut self, participants: &[Proc], count: u64) {
        self.delivered.retain(|(to, _)| to != participants);
        let mut all = participants.len() + self.delivered.iter().map(|(to, _)| to.len()).sum::<usize>();
        while !self.delivered.is_empty() && (self.delivered.len() == DELIVERED_MAX || all > PARTICIPANTS_MAX) {
            all -= self.delivered.remove(0).0.len();
        }
        if all <= PARTICIPANTS_MAX {
            self.delivered.push((participants.to_vec(), count));
        }
    }

    /// The job `nspace` may have started on other servers: fences with its processes carry everything again.
    pub fn forget(&mut self, nspace: &Nspace) {
        self.delivered.retain(|(to, _)| !to.iter().any(|proc| proc.nspace == *nspace));
    }
}

impl Log {
    /// Drops all but the last change of each key.
    fn shorten(&mut self) {
        let mut seen = HashSet::new();
        let mut is_last: Vec<bool> = self.entries.iter().rev().map(|(_, key)| seen.insert(key)).collect();
        self.entries.retain(|_| is_last.pop().unwrap_or(true));
        self.len_max = 2 * self.entries.len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: u64) -> Key {
        Key::new(format!("k{number}")).unwrap()
    }

    #[test]
    fn repeated_changes_are_reported_once() {
        let mut changes = Changes::default();
        for round in 0..1000 {
            for number in [7, 8, round % 10] {
                changes.make_room(Rank(3)).unwrap();
                changes.note(Rank(3), &key(number));
            }
            let recent: HashSet<Key> = changes.since(Rank(3), changes.count() - 3).into_iter().cloned().collect();
            assert_eq!(recent, HashSet::from([key(7), key(8), key(round % 10)]), "round {round}");
            assert_eq!(changes.since(Rank(3), 0).len(), (round as usize + 1).min(7) + 2 + usize::from(round > 8));
        }
        assert!(changes.ranks[&Rank(3)].entries.len() <= LOG_MIN, "the log does not grow with the changes");
        assert!(changes.since(Rank(3), changes.count()).is_empty() && changes.since(Rank(4), 0).is_empty());
    }

    #[test]
    fn those_told_first_are_forgotten_first() {
        let nspace = |name: &str| Nspace::new(name).unwrap();
        let proc = |rank| vec![Proc::new(nspace("job"), Rank(rank))];
        let mut changes = Changes::default();
        for rank in 0..=DELIVERED_MAX as u32 {
            changes.mark_delivered(&proc(rank), u64::from(rank) + 1);
            changes.mark_delivered(&proc(1), 99);
        }
        assert_eq!((changes.delivered(&proc(0)), changes.delivered(&proc(1)), changes.delivered(&proc(2))), (0, 99, 3));
        let many = (0..PARTICIPANTS_MAX as u32).flat_map(proc).collect::<Vec<_>>();
        let mut other = Changes::default();
        other.mark_delivered(&proc(7), 1);
        other.mark_delivered(&many[1..], 2);
        assert_eq!((other.delivered(&proc(7)), other.delivered(&many[1..])), (1, 2));
        other.mark_delivered(&many, 3);
        assert_eq!((other.delivered(&proc(7)), other.delivered(&many[1..]), other.delivered(&many)), (0, 0, 3));
        other.mark_delivered(&[&many[..], &proc(7)].concat(), 4);
        assert_eq!(other.delivered, []);
        changes.forget(&nspace("other"));
        assert_eq!(changes.delivered(&proc(1)), 99);
        changes.forget(&nspace("job"));
        assert_eq!(changes.delivered(&proc(1)), 0);
    }
}
