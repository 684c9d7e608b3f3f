//! Rate limit of log lines of one kind.

use std::collections::HashMap;
use std::panic::Location;
use std::time::{Duration, Instant};

/// Lines of one kind that are written within [`INTERVAL`].
const LINES_MAX: u32 = 20;
/// After it, one line counts the suppressed lines.
const INTERVAL: Duration = Duration::from_secs(60);

/// The kind of a line: its place in the code, what it is about, and the user that caused it. One user's lines do not suppress another's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Reason {
    at: &'static Location<'static>,
    about: &'static str,
    user: Option<u32>,
}

impl Reason {
    /// The caller's place in the code (through `#[track_caller]`), without a user.
    #[track_caller]
    pub fn here() -> Reason {
        Reason { at: Location::caller(), about: "", user: None }
    }

    /// The same, caused by a user.
    pub fn by(self, user: Option<u32>) -> Reason {
        Reason { user, ..self }
    }

    /// The same, about one of several things that the same place logs.
    pub fn about(self, about: &'static str) -> Reason {
        Reason { about, ..self }
    }
}

struct Kind {
    end: Instant,
    written: u32,
    withheld: u64,
    last: String,
}

/// The lines written in the last interval.
#[derive(Default)]
pub(crate) struct Journal {
    kinds: HashMap<Reason, Kind>,
}

impl Journal {
    /// Whether to write a line; otherwise it is counted.
    pub fn admits(&mut self, reason: Reason, line: &str, now: Instant) -> bool {
        let fresh = Kind { end: now + INTERVAL, written: 0, withheld: 0, last: String::new() };
        let kind = self.kinds.entry(reason).or_insert(fresh);
        if kind.written < LINES_MAX {
            kind.written += 1;
            return true;
        }
        kind.withheld += 1;
        line.clone_into(&mut kind.last);
        false
    }

    /// When the next count of suppressed lines is due.
    pub fn deadline(&self) -> Option<Instant> {
        self.kinds.values().filter(|kind| kind.withheld > 0).map(|kind| kind.end).min()
    }

    /// Lines that count the suppressed ones of the intervals that ended until `now`; `None`, at the end of the server, means all.
    pub fn summary(&mut self, now: Option<Instant>) -> Vec<String> {
        let is_over = |kind: &Kind| now.is_none_or(|now| kind.end <= now);
        let over = self.kinds.extract_if(|_, kind| is_over(kind)).map(|(_, kind)| kind);
        let silent = over.filter(|kind| kind.withheld > 0);
        silent.map(|kind| format!("{} more lines like this were not written: {}", kind.withheld, kind.last)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_one_kind_are_counted_when_they_are_many() {
        let (mut journal, now) = (Journal::default(), Instant::now());
        let reason = Reason::here();
        let mut write = |number: u32, reason| journal.admits(reason, &format!("line {number}"), now);
        let written = (0..10_000).filter(|number| write(*number, reason)).count();
        assert_eq!(written, LINES_MAX as usize);
        assert!(write(0, reason.by(Some(1000))), "another user's");
        assert!(write(0, reason.about("else")), "about something else");
        assert!(write(0, Reason::here()), "for another reason");
        assert_eq!(journal.deadline(), Some(now + INTERVAL));
        assert_eq!(journal.summary(Some(now)), Vec::<String>::new());
        let told = ["9980 more lines like this were not written: line 9999"];
        assert_eq!(journal.summary(Some(now + INTERVAL)), told);
        assert!(journal.deadline().is_none() && journal.kinds.is_empty());
        assert!(journal.admits(reason, "line", now + INTERVAL), "a new minute");
    }

    #[test]
    fn the_last_counts_are_logged_when_the_server_ends() {
        let (mut journal, now) = (Journal::default(), Instant::now());
        let reason = Reason::here();
        let written = (0..=LINES_MAX).filter(|_| journal.admits(reason, "line", now)).count();
        assert_eq!(written, LINES_MAX as usize);
        assert_eq!(journal.summary(None), ["1 more lines like this were not written: line"]);
    }
}
