//! Fences, connects and disconnects of processes of both clusters.
//!
//! One of the two launchers decides: that which was there first. Each launcher tells it when all its processes have entered, and it answers
//! both, so that both have the same result.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use pmix_dstore::fallible_alloc;
use pmix_dstore::model::{Nspace, Proc, Rank, Status};

use super::names::Names;

/// The most operations of one cluster that wait for the other one.
const WAITING_MAX: usize = 65_536;
/// The most bytes of their data.
const BYTES_MAX: usize = 512 << 20;
/// The most members of an operation, wildcards expanded.
const MEMBERS_MAX: usize = 1 << 22;

/// An operation that both clusters enter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in super::super) enum Operation {
    Fence = 0,
    Connect = 1,
    Disconnect = 2,
}

impl Operation {
    pub fn of_code(code: u8) -> Option<Operation> {
        [Operation::Fence, Operation::Connect, Operation::Disconnect].into_iter().find(|one| *one as u8 == code)
    }
}

/// What tells one operation from another: the n-th of one cluster belongs to the n-th of the other.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Round {
    pub operation: Operation,
    /// Its members, with their clusters.
    pub procs: Vec<Proc>,
    /// `PMIX_CONNECT_ID`.
    pub id: Option<Vec<u8>>,
}

/// A cluster, as the deciding launcher sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Own,
    Partner,
}

/// A cluster's part in an operation.
#[derive(Debug)]
pub(super) struct Entry {
    pub side: Side,
    /// Its launcher's number of the operation.
    pub id: u64,
    /// The first failure among its processes.
    pub status: Status,
    /// Processes of the other cluster that have ended are no failure.
    pub is_excused: bool,
    /// Its part of what a fence exchanges.
    pub data: Vec<u8>,
}

/// The result of an operation, for the launcher of one side.
#[derive(Debug, PartialEq)]
pub(super) struct Outcome {
    pub side: Side,
    pub id: u64,
    pub status: Status,
    pub data: Vec<u8>,
}

impl Entry {
    fn ends(self, status: Status, data: Vec<u8>) -> Outcome {
        Outcome { side: self.side, id: self.id, status, data }
    }

    /// The other cluster will not come.
    pub fn alone(self, operation: Operation) -> Outcome {
        let status = if self.is_excused { self.status } else { lost(operation) };
        let (own, entry) = (self.data, Entry { data: Vec::new(), ..self });
        entry.ends(status, own)
    }
}

/// The status of an operation whose members of the other cluster have ended: as where these are of the same one.
pub(super) fn lost(operation: Operation) -> Status {
    if operation == Operation::Fence { Status::ERR_PARTIAL_SUCCESS } else { Status::ERR_LOST_CONNECTION }
}

/// The operations that one cluster has entered, and the jobs of both.
pub(super) struct Rounds {
    own: Names,
    waiting: BTreeMap<Round, VecDeque<Entry>>,
    /// How many entries of the partner wait, and their bytes.
    of_partner: (usize, usize),
    /// The jobs that have not ended, with their sizes.
    jobs: BTreeMap<Nspace, u32>,
    /// Processes of these that have ended.
    ended: BTreeSet<Proc>,
}

impl Rounds {
    pub fn new(own: Names) -> Rounds {
        let (waiting, of_partner) = (BTreeMap::new(), (0, 0));
        Rounds { own, waiting, of_partner, jobs: BTreeMap::new(), ended: BTreeSet::new() }
    }

    fn side_of(&self, proc: &Proc) -> Side {
        if self.own.has(&proc.nspace) { Side::Own } else { Side::Partner }
    }

    /// A job is about to start.
    pub fn job_begins(&mut self, nspace: Nspace, size: u32) {
        self.jobs.insert(nspace, size);
    }

    /// All processes of a job have ended; returns the results of what waits for it.
    pub fn job_ends(&mut self, nspace: &Nspace) -> Vec<Outcome> {
        self.jobs.remove(nspace);
        self.ended.retain(|proc| proc.nspace != *nspace);
        self.give_up()
    }

    /// A process has ended; returns the results of what waits for it and no other of its cluster.
    pub fn process_ends(&mut self, proc: Proc) -> Vec<Outcome> {
        if self.jobs.get(&proc.nspace).is_none_or(|size| proc.rank.0 >= *size) {
            return Vec::new();
        }
        self.ended.insert(proc);
        self.give_up()
    }

    /// All processes of a side have entered an operation; returns the results that follow.
    pub fn enter(&mut self, round: Round, entry: Entry) -> Vec<Outcome> {
        let operation = round.operation;
        let Some(round) = self.expanded(round) else {
            return vec![entry.ends(Status::ERR_OUT_OF_RESOURCE, Vec::new())];
        };
        let is_other = |waiting: &VecDeque<Entry>| waiting.front().is_some_and(|first| first.side != entry.side);
        if let Some(other) =
            self.waiting.get_mut(&round).filter(|waiting| is_other(waiting)).and_then(VecDeque::pop_front)
        {
            if self.waiting.get(&round).is_some_and(VecDeque::is_empty) {
                self.waiting.remove(&round);
            }
            self.uncount(&other);
            return together(other, entry);
        }
        if self.is_alone(&round, entry.side) {
            return vec![entry.alone(operation)];
        }
        if entry.side == Side::Partner {
            let (count, bytes) = (self.of_partner.0 + 1, self.of_partner.1 + entry.data.len());
            if count > WAITING_MAX || bytes > BYTES_MAX {
                return vec![entry.ends(Status::ERR_OUT_OF_RESOURCE, Vec::new())];
            }
            self.of_partner = (count, bytes);
        }
        self.waiting.entry(round).or_default().push_back(entry);
        Vec::new()
    }

    /// A launcher waits no longer for an operation that it has entered.
    pub fn withdraw(&mut self, side: Side, id: u64) {
        for gone in self.take(|_, entry| entry.side == side && entry.id == id) {
            self.uncount(&gone.1);
        }
    }

    /// An operation with the members each by its rank, sorted; `None` for too many.
    fn expanded(&self, round: Round) -> Option<Round> {
        let mut each = Vec::new();
        for proc in round.procs {
            match self.jobs.get(&proc.nspace).filter(|_| proc.rank == Rank::WILDCARD) {
                None => each.push(proc),
                Some(size) if each.len() + *size as usize > MEMBERS_MAX => return None,
                Some(size) => each.extend((0..*size).map(|rank| Proc::new(proc.nspace.clone(), Rank(rank)))),
            }
        }
        each.sort_unstable();
        each.dedup();
        Some(Round { procs: each, ..round })
    }

    /// Whether all members of the other cluster have ended.
    fn is_alone(&self, round: &Round, side: Side) -> bool {
        let has_ended = |proc: &Proc| !self.jobs.contains_key(&proc.nspace) || self.ended.contains(proc);
        round.procs.iter().filter(|proc| self.side_of(proc) != side).all(has_ended)
    }

    /// Ends what waits for processes that have ended.
    fn give_up(&mut self) -> Vec<Outcome> {
        let alone: Vec<(Round, Side)> = self
            .waiting
            .iter()
            .filter_map(|(round, waiting)| Some((round, waiting.front()?.side)))
            .filter(|(round, side)| self.is_alone(round, *side))
            .map(|(round, side)| (round.clone(), side))
            .collect();
        let mut outcomes = Vec::new();
        for (round, _) in alone {
            for entry in self.waiting.remove(&round).unwrap_or_default() {
                self.uncount(&entry);
                outcomes.push(entry.alone(round.operation));
            }
        }
        outcomes
    }

    fn take(&mut self, is_taken: impl Fn(&Round, &Entry) -> bool) -> Vec<(Operation, Entry)> {
        let mut taken = Vec::new();
        self.waiting.retain(|round, waiting| {
            let mut kept = VecDeque::new();
            for entry in std::mem::take(waiting) {
                match is_taken(round, &entry) {
                    true => taken.push((round.operation, entry)),
                    false => kept.push_back(entry),
                }
            }
            *waiting = kept;
            !waiting.is_empty()
        });
        taken
    }

    fn uncount(&mut self, entry: &Entry) {
        if entry.side == Side::Partner {
            self.of_partner = (self.of_partner.0.saturating_sub(1), self.of_partner.1.saturating_sub(entry.data.len()));
        }
    }
}

/// Both sides have come.
fn together(one: Entry, other: Entry) -> Vec<Outcome> {
    let status = if one.status.is_success() { other.status } else { one.status };
    let all = |is_wanted: bool| {
        let mut all = Vec::new();
        let mut parts = [&one.data, &other.data].into_iter().filter(|_| is_wanted);
        parts.try_for_each(|part| fallible_alloc::extend(&mut all, part)).map(|()| all)
    };
    let both = all(status.is_success()).and_then(|first| Ok((first, all(status.is_success())?)));
    let (status, (first, second)) = both.map_or_else(|failed| (failed, Default::default()), |both| (status, both));
    vec![one.ends(status, first), other.ends(status, second)]
}

#[cfg(test)]
#[path = "rounds_tests.rs"]
mod tests;
