//! What actions do: they add calls to the programs of ranks. All members of an operation have the same operations in the same order, so that
//! none waits for another by the programs alone.

use std::collections::{BTreeMap, HashMap};

use crate::rank::{Call, Kind, Operation, Role};
use crate::script::Action;
use crate::world::{Report, SERVERS, What, World};

/// As many jobs and tools there are at most.
const JOBS_MAX: usize = 24;

/// The ranges of events, as on the wire: this node, the job, everybody, some processes.
const RANGES: [u8; 4] = [2, 3, 5, 6];

impl World {
    pub(crate) fn act(&mut self, action: Action) {
        match action {
            Action::Put { rank, key } => {
                // Servers' own processes put values, too, but seldom.
                let of_any = rank.is_multiple_of(16);
                let rank = if of_any { rank } else { self.of_jobs(rank) };
                self.add(rank, |_| Call::Commit { key });
            }
            Action::Fence { job, members, collects, is_lost } => self.fence(job, members, collects, is_lost),
            Action::FenceHere { job, server, collects } => self.fence_here(job, server, collects),
            Action::Get { reader, owner, key, has_timeout } => {
                // Nobody asks for values of who puts none.
                let owner = usize::from(self.of_jobs(owner));
                let reader = if reader.is_multiple_of(8) { reader } else { self.of_jobs(reader) };
                self.add(reader, |_| Call::Get { owner, key, has_timeout, at_least: 0, deleted: 0 });
            }
            Action::Group { members, has_context, is_dissolved, is_lost, form } => {
                self.group(members, has_context, is_dissolved, is_lost, form);
            }
            Action::Connect { members, disconnects, is_lost, form } => {
                self.connect(members, disconnects, is_lost, form);
            }
            Action::Register { rank, code } => self.add(rank, |_| Call::Register { code }),
            Action::Notify { rank, code, range, target } => {
                let (from, target) = (usize::from(rank) % self.ranks.len(), usize::from(target) % self.ranks.len());
                // Nobody may name another user's process.
                if self.ranks[from].user == self.ranks[target].user && self.ranks[from].is_admitted {
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
            Action::Fleet { rank, key, deletes } => {
                let key = crate::rank::FLEETING + key;
                self.add(rank, |_| if deletes { Call::Delete { key } } else { Call::Commit { key } });
            }
            Action::Serve { rank, kind, is_lost } => {
                self.numbers += 1;
                let number = self.numbers;
                self.add_of_any(rank, |_| Call::Serve { kind, number, is_lost });
            }
            Action::Query { rank, kind, about, is_lost } => {
                let about = usize::from(about) % self.ranks.len();
                self.add_of_any(rank, |_| Call::Query { kind, about, is_lost });
            }
            Action::Read { rank, kind, owner } => {
                let owner = usize::from(owner) % self.ranks.len();
                if self.ranks[owner].role == Role::Rank {
                    self.add_of_any(rank, |_| Call::Read { kind, owner, at_least: 0 });
                }
            }
            Action::Pull { rank, owner, form, is_lost } => {
                let (of, owner) = (usize::from(rank) % self.ranks.len(), usize::from(owner) % self.ranks.len());
                if self.ranks[of].lives && self.ranks[owner].role == Role::Rank {
                    let call = self.new_pull(of, owner, form, is_lost);
                    self.add_of_any(rank, |_| call);
                }
            }
            Action::StopPull { rank } => {
                let of = usize::from(rank) % self.ranks.len();
                if let Some(call) = self.stop_of(of) {
                    self.add_of_any(rank, |_| call);
                }
            }
            Action::Write { rank, channel } => self.write(usize::from(rank) % self.ranks.len(), channel),
            Action::Push { rank, target } => {
                self.numbers += 1;
                let (number, target) = (self.numbers, usize::from(target) % self.ranks.len());
                if self.ranks[target].role == Role::Rank {
                    self.add_of_any(rank, |_| Call::Push { number, target });
                }
            }
            Action::Watch { rank, kind } => self.add_of_any(rank, |_| Call::Watch { kind }),
            Action::Beat { rank } => {
                let rank = usize::from(rank) % self.ranks.len();
                if self.ranks[rank].lives && self.ranks[rank].is_admitted {
                    (0..6).for_each(|number| self.after(number * 900, What::Beat(rank)));
                }
            }
            Action::Unregister { rank, code } => self.add_of_any(rank, |_| Call::Unregister { code }),
            Action::Tool { server, user, form } => {
                let user = [1000, 2000][usize::from(user) % 2];
                let server = usize::from(server) % SERVERS;
                if self.jobs.len() < JOBS_MAX {
                    self.start_tool(server, user, form);
                }
            }
            Action::Intrude { server, way } => self.intrude(usize::from(server) % SERVERS, way),
            Action::Garble { rank } => self.garble(usize::from(rank) % self.ranks.len()),
            Action::Host { server, kind, rank } => {
                let rank = usize::from(rank) % self.ranks.len();
                self.host_call(usize::from(server) % SERVERS, kind, rank);
            }
            Action::Return { rank } => self.add(rank, |_| Call::Finalize { returns: true }),
            Action::Leave { rank } => self.leave(usize::from(rank) % self.ranks.len()),
            Action::Restart { server, form } => self.restart(usize::from(server) % SERVERS, form),
            Action::Wait { .. } => {}
        }
    }

    /// Chooses among the ranks of jobs.
    fn of_jobs(&self, number: u8) -> u8 {
        let is_rank = |rank: &usize| self.ranks[*rank].role == Role::Rank;
        let ranks: Vec<usize> = (0..self.ranks.len()).filter(is_rank).collect();
        ranks[usize::from(number) % ranks.len()] as u8
    }

    /// Adds a call that ranks of jobs make.
    fn add(&mut self, rank: u8, call: impl FnOnce(&World) -> Call) {
        let number = usize::from(rank) % self.ranks.len();
        let call = call(self);
        // A server's own process puts values, too.
        let can_call = match self.ranks[number].role {
            Role::Rank => true,
            Role::Server => !matches!(call, Call::Finalize { .. }),
            Role::Tool(_) => !matches!(call, Call::Commit { .. } | Call::Delete { .. } | Call::Finalize { .. }),
        };
        if can_call {
            self.add_of_any(rank, |_| call);
        }
    }

    /// Adds a call that tools and servers' own processes make, too.
    fn add_of_any(&mut self, rank: u8, call: impl FnOnce(&World) -> Call) {
        let rank = usize::from(rank) % self.ranks.len();
        if self.ranks[rank].lives {
            let call = call(self);
            self.ranks[rank].program.push_back(call);
            self.go_on(rank);
        }
    }

    /// The living ranks of a mask.
    fn chosen(&self, mask: u8) -> Vec<usize> {
        let is_rank = |rank: &usize| self.ranks[*rank].lives && self.ranks[*rank].role == Role::Rank;
        (0..self.ranks.len()).filter(|rank| is_rank(rank) && mask & (1 << (rank % 8)) != 0).collect()
    }

    fn fence(&mut self, job: u8, mask: u8, collects: bool, is_lost: bool) {
        let jobs: Vec<usize> = (0..self.jobs.len()).filter(|job| !self.jobs[*job].is_of_tool).collect();
        let job = jobs[usize::from(job) % jobs.len()];
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

    fn fence_here(&mut self, job: u8, server: u8, collects: bool) {
        let (job, server) = (usize::from(job) % self.jobs.len(), usize::from(server) % SERVERS);
        let on = |rank: &usize| self.ranks[*rank].server == server;
        let members: Vec<usize> = self.jobs[job].ranks.iter().copied().filter(on).collect();
        // By their names they are the same fence.
        let is_spent = self.spent.iter().any(|spent| spent.iter().all(|rank| members.contains(rank)));
        if self.jobs[job].is_of_tool || members.is_empty() || is_spent {
            return;
        }
        let living: Vec<usize> = members.iter().copied().filter(|rank| self.ranks[*rank].lives).collect();
        self.fenced.extend([members.clone(), living]);
        if let Some(number) = self.begin(Kind::Fence { collects }, members, false, None) {
            self.operations[number].is_of_node = true;
            let of_node = self.operations[number].members.clone();
            of_node.into_iter().for_each(|rank| self.go_on(rank));
        }
    }

    fn group(&mut self, mask: u8, has_context: bool, is_dissolved: bool, is_lost: bool, form: u8) {
        let mut members = self.chosen(mask);
        let form = form % crate::rank::GROUP_FORMS;
        if form == crate::rank::LOCAL_ONLY {
            let server = members.first().map(|first| self.ranks[*first].server);
            members.retain(|rank| Some(self.ranks[*rank].server) == server);
        }
        if members.len() < 2 && matches!(form, crate::rank::BOOTSTRAP | crate::rank::ADDED) {
            return;
        }
        self.consent(&members);
        let first = self.begin(Kind::Construct { has_context, form }, members.clone(), is_lost, None);
        if let Some(first) = first.filter(|_| is_dissolved && !is_lost) {
            self.operations[first].is_dissolved = true;
            self.begin(Kind::Destruct, members, false, Some(first));
        } else if let Some(first) = first.filter(|_| form == crate::rank::LOCAL_ONLY && !is_lost) {
            // A fence of the group, by its name.
            self.operations[first].is_dissolved = true;
            self.begin(Kind::Fence { collects: has_context }, members, false, Some(first));
        }
    }

    fn connect(&mut self, mask: u8, disconnects: bool, is_lost: bool, form: u8) {
        let members = self.chosen(mask);
        let form = form % crate::rank::CONNECT_FORMS;
        let users: Vec<u32> = members.iter().map(|rank| self.ranks[*rank].user).collect();
        // Nobody asks another user's processes to come.
        if form == crate::rank::REQUEST && users.windows(2).any(|two| two[0] != two[1]) {
            return;
        }
        self.consent(&members);
        let first = self.begin(Kind::Connect { form }, members.clone(), is_lost, None);
        let ends = disconnects && !is_lost && form != crate::rank::EXCHANGE;
        if let Some(first) = first.filter(|_| ends) {
            self.begin(Kind::Disconnect { form }, members, false, Some(first));
        }
    }

    /// A rank leaves the newest group that it belongs to, and that nothing is to be done with.
    fn leave(&mut self, rank: usize) {
        let may_leave = |operation: &Operation| {
            matches!(operation.kind, Kind::Construct { .. })
                && !operation.is_dissolved
                && operation.results.get(&rank).is_some_and(|status| status.is_success())
        };
        if let Some(number) = self.operations.iter().rposition(may_leave).filter(|_| self.ranks[rank].lives) {
            self.ranks[rank].program.push_back(Call::Leave(number));
            self.go_on(rank);
        }
    }

    /// A process is gone whose server has dropped it.
    pub(crate) fn kill_now(&mut self, rank: usize) {
        let one = &mut self.ranks[rank];
        (one.lives, one.has_died, one.is_cut, one.returns) = (false, true, true, false);
        one.program.clear();
        one.calls.clear();
        one.sent.clear();
        let late = 5 + self.delay("learns", rank as u64, 0);
        self.after(late, What::Learns(rank));
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
            is_of_node: false,
            is_lost,
            after,
            results: BTreeMap::new(),
            groups: Vec::new(),
            is_dissolved: false,
            committed: HashMap::new(),
        });
        // Of those that end by their time-out, one may not come at all.
        let is_without = is_lost && members.len() > 1 && self.happens("absent", number as u64, 0, 2);
        let come = members.into_iter().skip(usize::from(is_without));
        let is_there = |rank: &usize| self.ranks[*rank].lives || self.ranks[*rank].returns;
        for rank in come.filter(is_there).collect::<Vec<_>>() {
            self.ranks[rank].program.push_back(Call::Enter(number));
        }
        for rank in self.operations[number].members.clone() {
            let late = self.delay("enters", rank as u64, number as u64);
            self.after(late, What::GoOn(rank));
        }
        Some(number)
    }

    fn kill(&mut self, rank: usize) {
        if !self.ranks[rank].lives || self.ranks[rank].role == Role::Server || self.ranks[rank].returns {
            return;
        }
        let loses_messages = self.happens("loses", rank as u64, 0, 2);
        let (one, time) = (&mut self.ranks[rank], self.now);
        (one.lives, one.has_died) = (false, true);
        one.ends_unseen = one.calls.values().any(|call| matches!(call, Call::Finalize { .. }));
        one.is_cut = loses_messages;
        one.program.clear();
        one.calls.clear();
        one.sent.clear();
        let time = one.arrivals[0].max(time + 1);
        self.at(time, What::Ended(rank));
    }
}
