//! What tools and ranks may do to the ranks' processes: `PMIx_Job_control`.

use std::collections::BTreeSet;
use std::ops::Range;

use nix::sys::signal::Signal;
use nix::unistd::geteuid;
use pmix_dstore::model::{Info, InfoFlags, Nspace, Proc, Rank, Status, Value, keys};

/// A job and the numbers of its ranks' processes, by which the launcher knows them: they follow each other.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct JobRanks {
    /// The job.
    pub nspace: Nspace,
    /// The number of its rank 0.
    pub first: u32,
    /// How many ranks it has.
    pub size: u32,
    /// Whether the launcher was called for it: with it all others end.
    pub is_launched: bool,
}

impl JobRanks {
    /// The number of a rank.
    pub fn number(&self, rank: Rank) -> Option<u32> {
        (rank.0 < self.size).then_some(self.first + rank.0)
    }

    /// The numbers of all its ranks.
    pub fn numbers(&self) -> Range<u32> {
        self.first..self.first + self.size
    }
}

/// Ranks of the launcher's jobs, by their numbers.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Ranks {
    /// All of them.
    All,
    /// These.
    These(BTreeSet<u32>),
}

impl Ranks {
    /// The ranks that are named; all of them if none is, or the launched job as a whole.
    ///
    /// # Errors
    /// `ERR_INVALID_NAMESPACE` for a process of another job, `ERR_NOT_FOUND` for a rank that its job does not have.
    pub fn read<'p>(jobs: &[JobRanks], procs: impl IntoIterator<Item = &'p Proc>) -> Result<Ranks, Status> {
        let mut procs = procs.into_iter().peekable();
        let mut is_all = procs.peek().is_none();
        let mut these = BTreeSet::new();
        for proc in procs {
            let at = jobs.iter().position(|job| job.nspace == proc.nspace).ok_or(Status::ERR_INVALID_NAMESPACE)?;
            match proc.rank.is_process() {
                true => drop(these.insert(jobs[at].number(proc.rank).ok_or(Status::ERR_NOT_FOUND)?)),
                false if jobs[at].is_launched => is_all = true,
                false => these.extend(jobs[at].numbers()),
            }
        }
        Ok(if is_all { Ranks::All } else { Ranks::These(these) })
    }

    /// Whether the rank with this number is among them.
    pub fn contains(&self, number: usize) -> bool {
        match self {
            Ranks::All => true,
            Ranks::These(these) => u32::try_from(number).is_ok_and(|number| these.contains(&number)),
        }
    }
}

/// What to do to ranks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Action {
    /// SIGKILL.
    Kill,
    /// SIGTERM; if it concerns the whole job, SIGKILL after the grace period.
    Terminate,
    /// SIGSTOP.
    Pause,
    /// SIGCONT.
    Resume,
    /// Another signal.
    Signal(Signal),
}

impl Action {
    /// The attribute that asks for it, for messages.
    pub fn attribute(self) -> &'static str {
        match self {
            Action::Kill => "PMIX_JOB_CTRL_KILL",
            Action::Terminate => "PMIX_JOB_CTRL_TERMINATE",
            Action::Pause => "PMIX_JOB_CTRL_PAUSE",
            Action::Resume => "PMIX_JOB_CTRL_RESUME",
            Action::Signal(_) => "PMIX_JOB_CTRL_SIGNAL",
        }
    }

    /// The signal for it.
    pub fn signal(self) -> Signal {
        match self {
            Action::Kill => Signal::SIGKILL,
            Action::Terminate => Signal::SIGTERM,
            Action::Pause => Signal::SIGSTOP,
            Action::Resume => Signal::SIGCONT,
            Action::Signal(signal) => signal,
        }
    }

    fn read(info: &Info) -> Result<Option<Action>, Status> {
        const SWITCHES: [(&str, Action); 4] = [
            (keys::JOB_CTRL_KILL, Action::Kill),
            (keys::JOB_CTRL_TERMINATE, Action::Terminate),
            (keys::JOB_CTRL_PAUSE, Action::Pause),
            (keys::JOB_CTRL_RESUME, Action::Resume),
        ];
        /// Directives that change nothing here.
        const PASSED_OVER: [&str; 4] = [keys::USERID, keys::GRPID, keys::JOB_CTRL_ID, keys::TIMEOUT];
        if info.key.is(keys::JOB_CTRL_SIGNAL) {
            // nix knows no real-time signals.
            let number =
                info.value.as_u64().and_then(|number| i32::try_from(number).ok()).ok_or(Status::ERR_BAD_PARAM)?;
            return Signal::try_from(number)
                .map(|signal| Some(Action::Signal(signal)))
                .map_err(|_| Status::ERR_BAD_PARAM);
        }
        if let Some((_, action)) = SWITCHES.iter().find(|(key, _)| info.key.is(key)) {
            return Ok(info.value.is_true().then_some(*action));
        }
        let is_passed_over = PASSED_OVER.iter().any(|key| info.key.is(key));
        match is_passed_over || info.flags & InfoFlags::REQUIRED == 0 {
            true => Ok(None),
            false => Err(Status::ERR_NOT_SUPPORTED),
        }
    }
}

/// An action on some ranks.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Control {
    /// The ranks.
    pub ranks: Ranks,
    /// The action.
    pub action: Action,
}

impl Control {
    /// Reads a request about ranks of these jobs.
    ///
    /// # Errors
    /// `ERR_NO_PERMISSIONS` for another user than the launcher's and root, `ERR_BAD_PARAM` for several actions or a signal that does not
    /// exist, `ERR_NOT_SUPPORTED` for other directives; and those of [`Ranks::read`].
    pub fn read(jobs: &[JobRanks], targets: &[Proc], directives: &[Info]) -> Result<Control, Status> {
        if !may_control(directives) {
            return Err(Status::ERR_NO_PERMISSIONS);
        }
        let ranks = Ranks::read(jobs, targets)?;
        let mut asked = None;
        for info in directives {
            if let Some(action) = Action::read(info)?
                && asked.replace(action).is_some()
            {
                return Err(Status::ERR_BAD_PARAM);
            }
        }
        Ok(Control { ranks, action: asked.ok_or(Status::ERR_NOT_SUPPORTED)? })
    }
}

/// Whether the user of a request, whom the server has verified, may control the job.
pub(super) fn may_control(infos: &[Info]) -> bool {
    let user = Info::find(infos, keys::USERID).and_then(Value::as_u32);
    // The server names no user for a request without directives, which controls nothing.
    user.is_none_or(|user| user == 0 || user == geteuid().as_raw())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job() -> Nspace {
        Nspace::new("job").unwrap()
    }

    fn rank(rank: Rank) -> Proc {
        Proc::new(job(), rank)
    }

    fn read(targets: &[Proc], directives: &[Info]) -> Result<Control, Status> {
        let spawned = JobRanks { nspace: Nspace::new("spawned").unwrap(), first: 4, size: 2, is_launched: false };
        let launched = JobRanks { nspace: job(), first: 0, size: 4, is_launched: true };
        Control::read(&[launched, spawned], targets, directives)
    }

    fn switch(key: &'static str) -> Info {
        Info::new(key, Value::Bool(true))
    }

    #[test]
    fn targets_are_all_ranks_or_those_named() {
        let ranks = |targets: &[Proc]| read(targets, &[switch(keys::JOB_CTRL_KILL)]).map(|control| control.ranks);
        assert_eq!(ranks(&[]), Ok(Ranks::All));
        assert_eq!(ranks(&[rank(Rank(1)), rank(Rank::WILDCARD)]), Ok(Ranks::All));
        assert_eq!(ranks(&[rank(Rank(3)), rank(Rank(1))]), Ok(Ranks::These(BTreeSet::from([1, 3]))));
        assert_eq!(ranks(&[rank(Rank(4))]), Err(Status::ERR_NOT_FOUND));
        let of_spawned = |rank| Proc::new(Nspace::new("spawned").unwrap(), rank);
        assert_eq!(ranks(&[of_spawned(Rank::WILDCARD)]), Ok(Ranks::These(BTreeSet::from([4, 5]))));
        assert_eq!(ranks(&[of_spawned(Rank(1)), rank(Rank(0))]), Ok(Ranks::These(BTreeSet::from([0, 5]))));
        assert_eq!(ranks(&[of_spawned(Rank(2))]), Err(Status::ERR_NOT_FOUND));
        let other = Proc::new(Nspace::new("other").unwrap(), Rank::WILDCARD);
        assert_eq!(ranks(&[rank(Rank::WILDCARD), other]), Err(Status::ERR_INVALID_NAMESPACE));
    }

    #[test]
    fn a_request_is_for_one_action() {
        let action = |directives: &[Info]| read(&[], directives).map(|control| control.action);
        assert_eq!(action(&[switch(keys::JOB_CTRL_PAUSE)]), Ok(Action::Pause));
        let off = Info::new(keys::JOB_CTRL_KILL, Value::Bool(false));
        assert_eq!(action(&[off.clone(), switch(keys::JOB_CTRL_RESUME)]), Ok(Action::Resume));
        let signal = |number| Info::new(keys::JOB_CTRL_SIGNAL, Value::Int(number));
        assert_eq!(action(&[signal(10)]), Ok(Action::Signal(Signal::SIGUSR1)));
        for wrong in [signal(0), signal(-9), signal(4711)] {
            assert_eq!(action(&[wrong]), Err(Status::ERR_BAD_PARAM));
        }
        assert_eq!(action(&[signal(10), switch(keys::JOB_CTRL_KILL)]), Err(Status::ERR_BAD_PARAM));
        assert_eq!(action(&[]), Err(Status::ERR_NOT_SUPPORTED));
        assert_eq!(action(&[off]), Err(Status::ERR_NOT_SUPPORTED));
        let checkpoint = Info { flags: InfoFlags::REQUIRED, ..switch(keys::JOB_CTRL_CHECKPOINT_EVENT) };
        assert_eq!(action(&[switch(keys::JOB_CTRL_KILL), checkpoint]), Err(Status::ERR_NOT_SUPPORTED));
    }

    #[test]
    fn other_users_control_nothing() {
        let by = |uid| read(&[], &[switch(keys::JOB_CTRL_KILL), Info::new(keys::USERID, Value::Uint32(uid))]);
        assert!(by(0).is_ok() && by(geteuid().as_raw()).is_ok());
        assert_eq!(by(geteuid().as_raw() + 1), Err(Status::ERR_NO_PERMISSIONS));
    }
}
