//! Deadlines that do not pass while the machine stands still.
//!
//! The virtual machine on which the tests were written is suspended at times (2026-11-26: for 39 s, by a script that wrote down gaps of
//! its clock). All clocks go on then, so that a job that is well would be taken for one that hangs.

use std::thread;
use std::time::{Duration, Instant};

/// The time between two looks at what is waited for.
const PAUSE: Duration = Duration::from_millis(5);
/// No more than this counts between two looks. A busy machine may take longer over them, too; a wait is only prolonged then.
const COUNTS: Duration = Duration::from_secs(1);

/// The end of a wait.
#[derive(Debug)]
pub struct Deadline {
    left: Duration,
    looked: Instant,
}

impl Deadline {
    /// A deadline `after` this much time in which the machine runs.
    pub fn new(after: Duration) -> Deadline {
        Deadline { left: after, looked: Instant::now() }
    }

    /// Sleeps until it is time to look again, if the deadline has not passed. Returns whether it has not.
    pub fn pause(&mut self) -> bool {
        if self.left.is_zero() {
            return false;
        }
        thread::sleep(PAUSE);
        self.count(Instant::now());
        true
    }

    fn count(&mut self, now: Instant) {
        let passed = now.duration_since(self.looked);
        if passed > COUNTS {
            eprintln!("the machine, or this process, stood still for {passed:.1?}");
        }
        self.left = self.left.saturating_sub(passed.min(COUNTS));
        self.looked = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_in_which_the_machine_stands_still_does_not_count() {
        let mut deadline = Deadline::new(Duration::from_secs(40));
        let begun = deadline.looked;
        deadline.count(begun + Duration::from_secs(39));
        assert_eq!(deadline.left, Duration::from_secs(39));
        for second in 40..78 {
            deadline.count(begun + Duration::from_secs(second));
        }
        assert!(deadline.pause());
        deadline.count(begun + Duration::from_secs(79));
        assert!(!deadline.pause());
    }
}
