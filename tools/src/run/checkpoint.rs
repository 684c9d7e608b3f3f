//! Checkpoints: `PMIx_Job_control` has ranks save their own state. The launcher asks them, by an event or a signal, and waits for their word
//! where it is given the time. Ranks are named by their numbers.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{CStr, CString};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use pmix_dstore::model::{Info, Proc, Status, Value, keys};
use pmix_server::Completion;

/// The key of `PMIX_JOB_CTRL_CHECKPOINT_SIGNAL`, which releases before 7.0 use for the time-out, too.
const SIGNAL_OR_TIMEOUT: &str = keys::JOB_CTRL_CHECKPOINT_SIGNAL;

/// How ranks learn that they are to save their state.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Trigger {
    /// By `PMIX_JCTRL_CHECKPOINT`.
    pub is_event: bool,
    /// By this signal.
    pub signal: Option<Signal>,
}

impl Trigger {
    /// Whether there is any.
    pub fn is_none(self) -> bool {
        !self.is_event && self.signal.is_none()
    }
}

/// A request about checkpoints.
#[derive(Debug, PartialEq)]
pub(super) enum Request {
    /// How the ranks of the caller's job want to be asked.
    Declare(Trigger),
    /// A checkpoint.
    Take {
        /// Its name; empty without one.
        id: CString,
        /// How the ranks are asked, unless as they want it.
        trigger: Trigger,
        /// How long the caller waits for their word.
        limit: Option<Duration>,
    },
}

impl Request {
    /// Reads a request; `None` if it is about something else.
    ///
    /// # Errors
    /// `ERR_BAD_PARAM` for values of another type, a signal that does not exist, and a checkpoint together with another action.
    pub fn read(directives: &[Info]) -> Result<Option<Request>, Status> {
        const OTHERS: [&str; 6] = [
            keys::JOB_CTRL_KILL,
            keys::JOB_CTRL_TERMINATE,
            keys::JOB_CTRL_PAUSE,
            keys::JOB_CTRL_RESUME,
            keys::JOB_CTRL_SIGNAL,
            keys::JOB_CTRL_RESTART,
        ];
        const OURS: [&str; 4] = [
            keys::JOB_CTRL_CHECKPOINT,
            keys::JOB_CTRL_CHECKPOINT_EVENT,
            SIGNAL_OR_TIMEOUT,
            keys::JOB_CTRL_CHECKPOINT_METHOD,
        ];
        let has = |keys: &[&str]| {
            directives.iter().any(|info| keys.iter().any(|key| info.key.is(key)) && info.value != Value::Bool(false))
        };
        if !has(&OURS) {
            return Ok(None);
        }
        if has(&OTHERS) {
            return Err(Status::ERR_BAD_PARAM);
        }
        if let Some(methods) = Info::find(directives, keys::JOB_CTRL_CHECKPOINT_METHOD) {
            let methods: Vec<Info> = methods.iter_infos().cloned().collect();
            let (trigger, _) = trigger(&methods)?;
            return if trigger.is_none() { Err(Status::ERR_BAD_PARAM) } else { Ok(Some(Request::Declare(trigger))) };
        }
        let id = match Info::find(directives, keys::JOB_CTRL_CHECKPOINT) {
            None => CString::default(),
            Some(id) => id.as_c_str().ok_or(Status::ERR_BAD_PARAM)?.to_owned(),
        };
        let (trigger, limit) = trigger(directives)?;
        Ok(Some(Request::Take { id, trigger, limit }))
    }
}

/// How the ranks are asked, and how long they have.
fn trigger(directives: &[Info]) -> Result<(Trigger, Option<Duration>), Status> {
    let is_event = Info::is_set(directives, keys::JOB_CTRL_CHECKPOINT_EVENT);
    let number = |info: &Info| info.value.as_u32().ok_or(Status::ERR_BAD_PARAM);
    let all = |key: &'static str| {
        directives.iter().filter(move |info| info.key.is(key)).map(number).collect::<Result<Vec<u32>, Status>>()
    };
    let (mut signals, mut limits) = (all(SIGNAL_OR_TIMEOUT)?, all(keys::JOB_CTRL_CHECKPOINT_TIMEOUT)?);
    // Where one key stands for both, the time-out is the second; or the only one, if the ranks are asked by an event.
    if limits.is_empty() && (signals.len() == 2 || signals.len() == 1 && is_event) {
        limits.extend(signals.pop());
    }
    if signals.len() > 1 || limits.len() > 1 {
        return Err(Status::ERR_BAD_PARAM);
    }
    let signal = signals.pop().map(|number| Signal::try_from(i32::try_from(number).unwrap_or(0)));
    let signal = signal.transpose().map_err(|_| Status::ERR_BAD_PARAM)?;
    let limit = limits.pop().filter(|seconds| *seconds > 0).map(|seconds| Duration::from_secs(seconds.into()));
    Ok((Trigger { is_event, signal }, limit))
}

/// A checkpoint that its caller waits for.
struct Pending {
    id: CString,
    by: Proc,
    missing: BTreeSet<u32>,
    failed: BTreeSet<u32>,
    until: Instant,
    done: Completion<(Status, Vec<Info>)>,
}

/// One that is over.
pub(super) struct Over {
    pub id: CString,
    pub by: Proc,
    /// `ERR_TIMEOUT` where ranks are missing, `ERR_PROC_CHECKPOINT` where others failed.
    pub status: Status,
    /// Those that have not said a word.
    pub missing: BTreeSet<u32>,
    /// Those that failed, or ended before.
    pub failed: BTreeSet<u32>,
    pub done: Completion<(Status, Vec<Info>)>,
}

/// The checkpoints of the launcher's jobs.
#[derive(Default)]
pub(super) struct Checkpoints {
    pending: Vec<Pending>,
    /// How ranks want to be asked, by the number of their job.
    methods: BTreeMap<u32, Trigger>,
}

impl Checkpoints {
    /// The ranks of a job want to be asked so.
    pub fn declare(&mut self, job: u32, trigger: Trigger) {
        self.methods.insert(job, trigger);
    }

    /// How the ranks of a job want to be asked.
    pub fn method(&self, job: u32) -> Option<Trigger> {
        self.methods.get(&job).copied()
    }

    /// A job is gone; another one may get its number.
    pub fn forget(&mut self, job: u32) {
        self.methods.remove(&job);
    }

    /// Ranks have been asked; the caller waits until then.
    pub fn wait(
        &mut self,
        id: CString,
        by: Proc,
        ranks: impl Iterator<Item = u32>,
        until: Instant,
        done: Completion<(Status, Vec<Info>)>,
    ) {
        let missing = ranks.collect();
        self.pending.push(Pending { id, by, missing, failed: BTreeSet::new(), until, done });
    }

    /// A rank has told that its checkpoint is complete, or failed: the one of this name, or without one all of its own. Returns those that are
    /// over.
    pub fn told(&mut self, rank: u32, id: Option<&CStr>, is_complete: bool) -> Vec<Over> {
        for pending in &mut self.pending {
            if id.is_none_or(|id| *id == *pending.id) && pending.missing.remove(&rank) && !is_complete {
                pending.failed.insert(rank);
            }
        }
        self.take_over(|pending| pending.missing.is_empty())
    }

    /// Those whose time is over.
    pub fn expire(&mut self, now: Instant) -> Vec<Over> {
        self.take_over(|pending| pending.until <= now)
    }

    /// When the next one's time is over.
    pub fn next(&self) -> Option<Instant> {
        self.pending.iter().map(|pending| pending.until).min()
    }

    fn take_over(&mut self, is_over: impl Fn(&Pending) -> bool) -> Vec<Over> {
        let over = self.pending.extract_if(.., |pending| is_over(pending));
        let over = over.map(|Pending { id, by, missing, failed, done, .. }| {
            let status = match (missing.is_empty(), failed.is_empty()) {
                (false, _) => Status::ERR_TIMEOUT,
                (true, false) => Status::ERR_PROC_CHECKPOINT,
                (true, true) => Status::SUCCESS,
            };
            Over { id, by, status, missing, failed, done }
        });
        over.collect()
    }
}

#[cfg(test)]
mod tests {
    use pmix_dstore::model::{Nspace, Rank};

    use super::*;

    fn event() -> Info {
        Info::new(keys::JOB_CTRL_CHECKPOINT_EVENT, Value::Bool(true))
    }

    fn number(key: &'static str, number: i32) -> Info {
        Info::new(key, Value::Int(number))
    }

    fn take(directives: &[Info]) -> Result<(bool, Option<Signal>, Option<u64>), Status> {
        match Request::read(directives)? {
            Some(Request::Take { trigger, limit, .. }) => {
                Ok((trigger.is_event, trigger.signal, limit.map(|limit| limit.as_secs())))
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_key_of_signal_and_time_out_is_told_apart() {
        let old = |value| number(SIGNAL_OR_TIMEOUT, value);
        let new = |value| number(keys::JOB_CTRL_CHECKPOINT_TIMEOUT, value);
        let usr1 = Some(Signal::SIGUSR1);
        assert_eq!(take(&[event()]), Ok((true, None, None)));
        assert_eq!(take(&[event(), old(5)]), Ok((true, None, Some(5))));
        assert_eq!(take(&[old(10)]), Ok((false, usr1, None)));
        assert_eq!(take(&[old(10), old(5)]), Ok((false, usr1, Some(5))));
        assert_eq!(take(&[event(), old(10), old(5)]), Ok((true, usr1, Some(5))));
        assert_eq!(take(&[event(), old(10), new(5)]), Ok((true, usr1, Some(5))));
        assert_eq!(take(&[event(), new(0)]), Ok((true, None, None)));
        for wrong in [vec![old(4711)], vec![old(-1)], vec![old(1), old(2), old(3)], vec![event(), new(1), new(2)]] {
            assert_eq!(take(&wrong), Err(Status::ERR_BAD_PARAM), "{wrong:?}");
        }
    }

    #[test]
    fn a_request_is_about_checkpoints_alone() {
        let kill = Info::new(keys::JOB_CTRL_KILL, Value::Bool(true));
        assert_eq!(Request::read(std::slice::from_ref(&kill)), Ok(None));
        assert_eq!(Request::read(&[kill, event()]), Err(Status::ERR_BAD_PARAM));
        assert_eq!(Request::read(&[Info::new(keys::JOB_CTRL_CHECKPOINT_EVENT, Value::Bool(false))]), Ok(None));
        assert_eq!(Request::read(&[number(keys::JOB_CTRL_CHECKPOINT, 1)]), Err(Status::ERR_BAD_PARAM));
        let declare = |methods: Vec<Info>| Info::new(keys::JOB_CTRL_CHECKPOINT_METHOD, Value::infos(methods));
        let declared = Request::Declare(Trigger { is_event: true, signal: None });
        assert_eq!(Request::read(&[declare(vec![event()])]), Ok(Some(declared)));
        assert_eq!(Request::read(&[declare(Vec::new())]), Err(Status::ERR_BAD_PARAM));
    }

    #[test]
    fn a_checkpoint_is_over_when_all_have_told_or_its_time_is() {
        let now = Instant::now();
        let mut checkpoints = Checkpoints::default();
        let by = Proc::new(Nspace::new("job").unwrap(), Rank(0));
        let mut wait = |id: &CStr, seconds| {
            let until = now + Duration::from_secs(seconds);
            checkpoints.wait(id.to_owned(), by.clone(), 0..2, until, Completion::by_id(0));
        };
        wait(c"a", 1);
        wait(c"b", 2);
        assert!(checkpoints.told(7, None, true).is_empty() && checkpoints.told(0, None, true).is_empty());
        assert!(checkpoints.told(1, Some(c"other"), true).is_empty());
        let over = checkpoints.told(1, Some(c"b"), false);
        let [Over { status: Status::ERR_PROC_CHECKPOINT, id, failed, .. }] = &over[..] else { panic!() };
        assert_eq!((id.as_c_str(), failed), (c"b", &BTreeSet::from([1])));
        assert_eq!(checkpoints.next(), Some(now + Duration::from_secs(1)));
        assert!(checkpoints.expire(now).is_empty());
        let over = checkpoints.expire(now + Duration::from_secs(1));
        let [Over { status: Status::ERR_TIMEOUT, missing, .. }] = &over[..] else { panic!() };
        assert_eq!((missing, checkpoints.next()), (&BTreeSet::from([1]), None));
    }
}
