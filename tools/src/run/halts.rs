//! Where ranks wait for a debugger.

use std::ffi::{CStr, CString};

use super::control::{JobRanks, Ranks};

/// Name of the breakpoint at which the launcher itself stops ranks: their program has been loaded, and nothing of it has run.
pub(super) const ON_EXEC: &CStr = c"pmix-exec";

/// The breakpoints of the ranks of a job that wait. Ranks are named by their numbers.
pub(super) struct Halts {
    /// The number of the job's rank 0.
    first: usize,
    at: Vec<Option<CString>>,
    /// Whether all have been reported as waiting, and none has gone on since.
    is_reported: bool,
}

impl Halts {
    /// No rank of this job waits.
    pub fn new(job: &JobRanks) -> Halts {
        Halts { first: job.first as usize, at: vec![None; job.size as usize], is_reported: false }
    }

    /// The ranks by their numbers.
    fn numbered(&mut self) -> impl Iterator<Item = (usize, &mut Option<CString>)> {
        (self.first..).zip(&mut self.at)
    }

    /// A rank waits at a breakpoint.
    pub fn add(&mut self, rank: usize, breakpoint: &CStr) {
        if let Some(at) = rank.checked_sub(self.first).and_then(|rank| self.at.get_mut(rank)) {
            *at = Some(breakpoint.to_owned());
        }
    }

    /// Ranks go on. Returns those among them that the launcher stopped on exec.
    pub fn release(&mut self, ranks: &Ranks) -> Vec<usize> {
        let (mut on_exec, mut go_on) = (Vec::new(), false);
        for (rank, at) in self.numbered().filter(|(rank, _)| ranks.contains(*rank)) {
            if let Some(at) = at.take() {
                go_on = true;
                on_exec.extend((*at == *ON_EXEC).then_some(rank));
            }
        }
        self.is_reported &= !go_on;
        on_exec
    }

    /// Ranks are continued by SIGCONT, which those that wait in the library do not see.
    pub fn resume(&mut self, ranks: &Ranks) {
        let mut go_on = false;
        for (_, at) in self.numbered().filter(|(rank, _)| ranks.contains(*rank)) {
            if at.as_deref() == Some(ON_EXEC) {
                (*at, go_on) = (None, true);
            }
        }
        self.is_reported &= !go_on;
    }

    /// Where the first of the ranks `running` waits, if all of them wait.
    fn first(&self, running: impl Iterator<Item = usize>) -> Option<&CString> {
        let mut breakpoints = running.map(|rank| self.at.get(rank.checked_sub(self.first)?)?.as_ref());
        let first = breakpoints.next()??;
        breakpoints.all(|at| at.is_some()).then_some(first)
    }

    /// Whether there are ranks `running` and all of them wait.
    pub fn is_whole(&self, running: impl Iterator<Item = usize>) -> bool {
        self.first(running).is_some()
    }

    /// If all of those `running` wait now and that was not reported yet: where the first of them waits.
    pub fn report(&mut self, running: impl Iterator<Item = usize>) -> Option<CString> {
        let first = self.first(running).filter(|_| !self.is_reported).cloned()?;
        self.is_reported = true;
        Some(first)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use pmix_dstore::model::Nspace;

    use super::*;

    fn ranks(first: u32) -> JobRanks {
        JobRanks { nspace: Nspace::new("job").unwrap(), first, size: 3, is_launched: false }
    }

    #[test]
    fn a_job_is_ready_once_when_all_its_ranks_wait() {
        let mut halts = Halts::new(&ranks(0));
        assert_eq!(halts.report(0..3), None);
        halts.add(0, ON_EXEC);
        halts.add(1, c"here");
        assert_eq!(halts.report(0..3), None);
        assert_eq!(halts.report(0..2).as_deref(), Some(ON_EXEC), "one has ended");
        halts.add(2, ON_EXEC);
        assert!(halts.is_whole(0..3));
        assert_eq!(halts.report(0..3), None, "it was reported");
        assert_eq!(halts.release(&Ranks::These(BTreeSet::from([1, 2]))), [2]);
        assert!(!halts.is_whole(0..3));
        halts.add(1, c"there");
        halts.add(2, c"there");
        assert!(halts.report(0..3).is_some(), "the next breakpoint");
        halts.resume(&Ranks::All);
        assert!(!halts.is_whole(0..1) && halts.is_whole(1..3));
        assert!(!halts.is_whole(std::iter::empty()), "all have ended");
        halts.add(0, ON_EXEC);
        assert_eq!(halts.release(&Ranks::All), [0]);
        assert_eq!(halts.release(&Ranks::All), Vec::<usize>::new());
        assert!(!halts.is_whole(std::iter::empty()));
        // A rank that the job does not have.
        halts.add(7, c"there");
        assert!(!halts.is_whole(std::iter::empty()));
    }

    #[test]
    fn the_ranks_of_a_spawned_job_have_later_numbers() {
        let mut halts = Halts::new(&ranks(4));
        (4..7).for_each(|rank| halts.add(rank, ON_EXEC));
        halts.add(1, ON_EXEC);
        assert!(halts.is_whole(4..7) && !halts.is_whole(0..1));
        assert_eq!(halts.release(&Ranks::These(BTreeSet::from([1, 5]))), [5]);
    }
}
