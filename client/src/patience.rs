//! The sleeps of a thread that waits for a fence by looking again and again.
//!
//! Open MPI calls `PMIx_Fence_nb` and then sleeps 0.1 ms at a time until the callback has come. Where ranks share processors, those that
//! wait so take them from those that are still on their way: 96 ranks on two processors spent half of their processor time on it. So from
//! a fence that collects data to the thread's next Get, its sleeps may end later, by the timer slack of Linux. A thread that collects data
//! goes on to get it; the next fence and the finalize put the old slack back, too.
//!
//! A thread that is made in between begins with the longer slack and keeps it: Linux hands it on. This library is not called when a
//! program makes a thread or sleeps, so there is no place that could set it back.
//!
//! A Get pays nothing for this. The thread leaves the cache in which Gets find its hazard slot, and the way without the cache comes here.

use std::cell::Cell;
use std::time::Duration;

use nix::sys::prctl;
use nix::unistd::{SysconfVar, sysconf};

/// The interval at which a rank alone may look. All ranks of a processor together do not look more often.
const POLLING: Duration = Duration::from_micros(100);
/// A fence's end is noticed at most this much later.
const SLACK_MAX: Duration = Duration::from_millis(10);

thread_local! {
    /// The thread's timer slack before, in nanoseconds, while it has another one.
    static BEFORE: Cell<Option<u32>> = const { Cell::new(None) };
}

/// How much later than asked this many ranks on this many processors may wake from a sleep; none if they need not share a processor.
pub fn timer_slack(ranks: u32, processors: u32) -> Option<Duration> {
    (ranks > processors).then(|| (POLLING * ranks / processors.max(1)).min(SLACK_MAX))
}

/// Lets the calling thread sleep longer until [`end`], if this many ranks share the node's processors. Returns whether it does.
pub(crate) fn begin(ranks: u32) -> bool {
    // The processors of the node: a rank that is bound may use one of them.
    let processors = sysconf(SysconfVar::_NPROCESSORS_ONLN).ok().flatten().and_then(|count| u32::try_from(count).ok());
    let slack = processors.and_then(|processors| timer_slack(ranks, processors));
    let Some(slack) = slack.and_then(|slack| u32::try_from(slack.as_nanos()).ok()) else { return false };
    // Without it the sleeps are as long as before.
    let Ok(before) = prctl::get_timerslack().map(i32::unsigned_abs) else { return false };
    let has_begun = before < slack && BEFORE.get().is_none() && prctl::set_timerslack(slack.into()).is_ok();
    if has_begun {
        BEFORE.set(Some(before));
    }
    has_begun
}

/// Ends what [`begin`] began on this thread. Returns whether there was something to end.
pub(crate) fn end() -> bool {
    let before = BEFORE.take();
    if let Some(before) = before {
        // It cannot fail on a thread on which it did not.
        let _ = prctl::set_timerslack(before.into());
    }
    before.is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_of_a_processor_look_together_as_often_as_one() {
        let micros = |ranks| timer_slack(ranks, 2).map(|slack| slack.as_micros());
        assert_eq!([2, 4, 96, 65_536].map(micros), [None, Some(200), Some(4_800), Some(10_000)]);
    }
}
