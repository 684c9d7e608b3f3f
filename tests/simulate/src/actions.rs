//! What actions do: they add calls to the programs of ranks. All members of an operation have the same operations in the same order, so that
//! none waits for another by the programs alone.

use std::collections::{BTreeMap, HashMap};

use crate::rank::{Call, Kind, Operation};
use crate::script::Action;
use crate::world::{Report, What, World};

/// The ranges of events, as on the wire: this node, the job, everybody, some processes.
const RANGES: [u8; 4] = [2, 3, 5, 6];

impl World {
    pub(crate) fn act(&mut self, action: Action) {
        match action {
            Action::Put { rank, key } => self.add(rank, |_| Call::Commit { key }),
            Action::Fence { job, members, collects, is_lost } => self.fence(job, members, collects, is_lost),
            Action::Get { reader, owner, key, has_timeout } => {
                let owner = usize::from(owner) % self.ranks.len();
                self.add(reader, |_| Call::Get { owner, key, has_timeout, at_least: 0 });
            }
            Action::Group { members, has_context, is_dissolved, is_lost } => {
                let members = self.chosen(members);
                self.consent(&members);
                let first = self.begin(Kind::Construct { has_context }, members.clone(), is_lost, None);
                if let Some(first) = first.filter(|_| is_dissolved && !is_lost) {
                    self.begin(Kind::Destruct, members, false, Some(first));
                }
            }
            Action::Connect { members, disconnects, is_lost } => {
                let members = self.chosen(members);
                self.consent(&members);
                let first = self.begin(Kind::Connect, members.clone(), is_lost, None);
                if let Some(first) = first.filter(|_| disconnects && !is_lost) {
                    self.begin(Kind::Disconnect, members, false, Some(first));
                }
            }
            Action::Register { rank, code } => self.add(rank, |_| Call::Register { code }),
            Action::Notify { rank, code, range, target } => {
                let (from, target) = (usize::from(rank) % self.ranks.len(), usize::from(target) % self.ranks.len());
                // Nobody may name another user's process.
                if self.ranks[from].user == self.ranks[target].user {
                    let range = RANGES[usize::from(range) % RANGES.len()];
                    let report = Report { from, code, range, target, registered: Vec::new(), is_done: false };
                    self.reports.push(report);
                    let number = self.reports.len() - 1;
                    self.add(rank, |_| Call::Notify(number));
                }
            }
            Action::Publish { rank, key } => self.add(rank, |_| Call::Publish { key }),
            Action::Lookup { rank, key, is_lost } => self.add(rank, |_| Call::Lookup { key, is_lost }),
            Action::Spawn { rank, is_lost } => self.add(rank, |_| Call::Spawn { is_lost }),
            Action::Kill { rank } => self.kill(usize::from(rank) % self.ranks.len()),
            Action::Wait { .. } => {}
        }
    }

    fn add(&mut self, rank: u8, call: impl FnOnce(&World) -> Call) {
        let rank = usize::from(rank) % self.ranks.len();
        if self.ranks[rank].lives {
            let call = call(self);
            self.ranks[rank].program.push_back(call);
            self.go_on(rank);
        }
    }

    /// The living ranks of a mask.
    fn chosen(&self, mask: u8) -> Vec<usize> {
        (0..self.ranks.len()).filter(|rank| self.ranks[*rank].lives && mask & (1 << (rank % 8)) != 0).collect()
    }

    fn fence(&mut self, job: u8, mask: u8, collects: bool, is_lost: bool) {
        let job = usize::from(job) % self.jobs.len();
        let of_job = self.jobs[job].ranks.clone();
        let is_of_job = mask == u8::MAX;
        let members: Vec<usize> = if is_of_job {
            of_job
        } else {
            self.chosen(mask).into_iter().filter(|rank| of_job.contains(rank)).collect()
        };
        if members.is_empty() || !is_of_job && self.spent.contains(&members) {
            return;
        }
        let is_new = self.fenced.insert(members.clone());
        let is_lost = is_lost && !is_of_job && is_new;
        if is_lost {
            self.spent.insert(members.clone());
        }
        if let Some(number) = self.begin(Kind::Fence { collects }, members, is_lost, None) {
            self.operations[number].is_of_job = is_of_job;
        }
    }

    /// Jobs whose processes take part in one operation may read each other's values.
    fn consent(&mut self, members: &[usize]) {
        let users: Vec<u32> = members.iter().map(|rank| self.ranks[*rank].user).collect();
        for one in &users {
            self.consents.extend(users.iter().map(|other| (*one.min(other), *one.max(other))));
        }
    }

    fn begin(&mut self, kind: Kind, members: Vec<usize>, is_lost: bool, after: Option<usize>) -> Option<usize> {
        if members.is_empty() {
            return None;
        }
        let number = self.operations.len();
        if is_lost {
            let names: Vec<String> = members.iter().map(|rank| self.ranks[*rank].proc.to_string()).collect();
            self.host.lost.push(match kind {
                Kind::Fence { .. } => format!("Fence  {} #", names.join(" ")),
                _ => format!("op{number}."),
            });
        }
        self.operations.push(Operation {
            kind,
            members: members.clone(),
            is_of_job: false,
            is_lost,
            after,
            results: BTreeMap::new(),
            groups: Vec::new(),
            committed: HashMap::new(),
        });
        for rank in members.into_iter().filter(|rank| self.ranks[*rank].lives).collect::<Vec<_>>() {
            self.ranks[rank].program.push_back(Call::Enter(number));
        }
        for rank in self.operations[number].members.clone() {
            let late = self.delay("enters", rank as u64, number as u64);
            self.after(late, What::GoOn(rank));
        }
        Some(number)
    }

    fn kill(&mut self, rank: usize) {
        if !self.ranks[rank].lives {
            return;
        }
        let loses_messages = self.happens("loses", rank as u64, 0, 2);
        let (one, time) = (&mut self.ranks[rank], self.now);
        (one.lives, one.has_died) = (false, true);
        one.is_cut = loses_messages;
        one.program.clear();
        one.calls.clear();
        let time = one.arrivals[0].max(time + 1);
        self.at(time, What::Ended(rank));
    }
}
