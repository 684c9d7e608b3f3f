//! Groups whose processes the host brings together: leaders that know only their number, and members that leaders add.
//!
//! The server tells of each such process by itself. The leaders of a plain construct come in one call, all of them.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{CStr, CString};
use std::time::{Duration, Instant};

use pmix_dstore::model::{Info, Proc, Result, Status, Value, keys};
use pmix_server::Completion;

/// The answer to a construct.
type Infos = Completion<(Status, Vec<Info>)>;

/// The groups that are being formed.
#[derive(Default)]
pub(super) struct Groups {
    forming: BTreeMap<CString, Forming>,
    /// The context id of the last group that has one.
    context: u64,
}

/// One of them.
#[derive(Default)]
struct Forming {
    /// How many calls of leaders there will be; unknown before the first of them.
    wanted: Option<u64>,
    calls: u64,
    leaders: BTreeSet<Proc>,
    added: BTreeSet<Proc>,
    /// The added members that have called.
    joined: BTreeSet<Proc>,
    /// What members send each other.
    sent: Vec<Info>,
    wants_context: bool,
    /// The server has given up waiting then.
    deadline: Option<Instant>,
    waiting: Vec<Infos>,
}

impl Forming {
    /// Whether a process has called.
    fn has(&self, proc: &Proc) -> bool {
        self.leaders.contains(proc) || self.joined.contains(proc)
    }

    fn is_complete(&self) -> bool {
        self.wanted.is_some_and(|wanted| self.calls >= wanted) && self.added.iter().all(|proc| self.has(proc))
    }

    fn fail(self) {
        self.waiting.into_iter().for_each(|done| done.complete((Status::GROUP_CONSTRUCT_ABORT, Vec::new())));
    }
}

impl Groups {
    /// A context id that no other group has.
    pub fn next_context(&mut self) -> Info {
        self.context += 1;
        Info::new(keys::GROUP_CONTEXT_ID, Value::Size(self.context))
    }

    /// The server asks to form a group, or tells of a process that is to be in it. Returns the status for the server.
    pub fn construct(&mut self, group: &CStr, procs: &[Proc], infos: &[Info], done: Infos, now: Instant) -> Status {
        let leaders = Info::find(infos, keys::GROUP_BOOTSTRAP).and_then(Value::as_u64);
        let adds = infos.iter().any(|info| info.key.is(keys::GROUP_ADD_MEMBERS));
        if !procs.is_empty() && leaders.is_none() && !adds {
            // All processes are this server's clients, so only the context id is left to assign.
            if !Info::is_set(infos, keys::GROUP_ASSIGN_CONTEXT_ID) {
                return Status::OPERATION_SUCCEEDED;
            }
            done.complete((Status::SUCCESS, vec![self.next_context()]));
            return Status::SUCCESS;
        }
        if let Err(status) = self.add(group, procs, leaders, infos, now) {
            return status;
        }
        let Some(forming) = self.forming.get_mut(group) else { return Status::ERR_NOT_FOUND };
        forming.waiting.push(done);
        if forming.is_complete()
            && let Some(formed) = self.forming.remove(group)
        {
            self.answer(formed);
        }
        Status::SUCCESS
    }

    /// Adds what one call says.
    ///
    /// # Errors
    /// `BAD_PARAM` for another number of leaders, or a member without a name; `NOMEM`.
    fn add(&mut self, group: &CStr, procs: &[Proc], leaders: Option<u64>, infos: &[Info], now: Instant) -> Result<()> {
        let named = Info::find(infos, keys::PROCID).into_iter().flat_map(Value::iter_procs).next();
        let callers = if procs.is_empty() { named.map(std::slice::from_ref).unwrap_or_default() } else { procs };
        if callers.is_empty() {
            return Err(Status::ERR_BAD_PARAM);
        }
        self.forming.retain(|_, forming| forming.deadline.is_none_or(|deadline| deadline > now));
        let is_again = |forming: &Forming| callers.iter().any(|proc| forming.has(proc));
        if self.forming.get(group).is_some_and(is_again) {
            // Its server has given up the attempt before.
            self.forming.remove(group).into_iter().for_each(Forming::fail);
        }
        let wanted = if procs.is_empty() { None } else { Some(leaders.unwrap_or(1)) };
        let known = self.forming.get(group).and_then(|forming| forming.wanted);
        if known.zip(wanted).is_some_and(|(known, wanted)| known != wanted) {
            return Err(Status::ERR_BAD_PARAM);
        }
        let sent = Info::copies(infos)?;
        let forming = self.forming.entry(group.to_owned()).or_default();
        forming.wanted = known.or(wanted);
        forming.calls += u64::from(wanted.is_some());
        let of_callers = if procs.is_empty() { &mut forming.joined } else { &mut forming.leaders };
        of_callers.extend(callers.iter().cloned());
        let added = Info::find(infos, keys::GROUP_ADD_MEMBERS).into_iter().flat_map(Value::iter_procs);
        forming.added.extend(added.cloned());
        forming.sent.extend(sent.into_iter().filter(|info| info.key.is(keys::GROUP_INFO)));
        forming.wants_context |= Info::is_set(infos, keys::GROUP_ASSIGN_CONTEXT_ID);
        let seconds = Info::find(infos, keys::TIMEOUT).and_then(Value::as_u64).filter(|seconds| *seconds > 0);
        let deadline = seconds.and_then(|seconds| now.checked_add(Duration::from_secs(seconds)));
        forming.deadline = forming.deadline.into_iter().chain(deadline).min();
        Ok(())
    }

    /// All processes of a group have called.
    fn answer(&mut self, formed: Forming) {
        let members: BTreeSet<Proc> = formed.leaders.union(&formed.added).cloned().collect();
        let mut answer = vec![Info::new(keys::GROUP_MEMBERSHIP, Value::procs(members))];
        answer.extend(formed.wants_context.then(|| self.next_context()));
        answer.extend(formed.sent);
        for done in formed.waiting {
            done.complete(match Info::copies(&answer) {
                Ok(answer) => (Status::SUCCESS, answer),
                Err(status) => (status, Vec::new()),
            });
        }
    }

    /// Nobody waits for a group any more.
    pub fn forget_forming(&mut self) {
        self.forming.clear();
    }

    /// A process has ended: the groups that it was to be in are not formed.
    pub fn process_ended(&mut self, process: &Proc) {
        let is_in = |forming: &Forming| forming.has(process) || forming.added.contains(process);
        for (_, forming) in self.forming.extract_if(.., |_, forming| is_in(forming)) {
            forming.fail();
        }
    }
}

#[cfg(test)]
#[path = "groups_tests.rs"]
mod tests;
