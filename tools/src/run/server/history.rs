//! How often a server may end before its launcher gives up.

use std::time::Duration;

/// So many servers in a row may end with nothing achieved. A request that ends each server that reads it comes again and again.
pub(super) const IN_VAIN_MAX: u32 = 10;
/// A server that has lived so long has not ended for what was there when it started.
const LONG: Duration = Duration::from_secs(10);

/// The servers that have ended.
#[derive(Default)]
pub(super) struct History {
    in_vain: u32,
}

impl History {
    /// A server has ended. Returns the number of the next attempt, or `None` to give up.
    pub fn ended(&mut self, lived: Duration, has_achieved: bool) -> Option<u32> {
        if has_achieved || lived >= LONG {
            self.in_vain = 0;
        }
        self.in_vain += 1;
        (self.in_vain <= IN_VAIN_MAX).then_some(self.in_vain)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_that_end_at_once_are_started_so_often_and_others_for_ever() {
        let mut history = History::default();
        for _ in 0..1000 {
            assert_eq!(history.ended(Duration::from_millis(1), true), Some(1));
            assert_eq!(history.ended(LONG, false), Some(1));
        }
        for attempt in 2..=IN_VAIN_MAX {
            assert_eq!(history.ended(Duration::from_millis(1), false), Some(attempt));
        }
        assert_eq!(history.ended(Duration::from_millis(1), false), None);
    }
}
