//! Which numbers of users say whose something is.
//!
//! To a process in a user namespace the kernel shows each user that has no number there by one and the same number (`overflowuid`, usually
//! 65534). Where there are such users, that number says nothing: not even the process itself can be told from others by it where
//! it has no number of its own.

use std::fs;

/// The numbers of users in the user namespace of the thread that has asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UserNumbers {
    /// The number of all who have none.
    of_nobody: Option<u32>,
}

impl UserNumbers {
    /// As the kernel tells this thread; where it does not, its default number counts as that of many.
    pub fn of_this_thread() -> UserNumbers {
        let map = fs::read_to_string("/proc/thread-self/uid_map").unwrap_or_default();
        let overflow = fs::read_to_string("/proc/sys/kernel/overflowuid").unwrap_or_default();
        UserNumbers::parse(&map, &overflow)
    }

    fn parse(map: &str, overflow: &str) -> UserNumbers {
        const OVERFLOW_DEFAULT: u32 = 65_534;
        // All numbers but the last, which is no user's.
        const ALL: u64 = u32::MAX as u64;
        let counts = map.lines().map(|line| line.split_ascii_whitespace().nth(2)?.parse::<u64>().ok());
        let mapped: Option<u64> = counts.sum();
        let overflow = overflow.trim().parse().unwrap_or(OVERFLOW_DEFAULT);
        UserNumbers { of_nobody: (mapped != Some(ALL)).then_some(overflow) }
    }

    /// Whether a number is that of one user.
    pub fn tells(self, uid: u32) -> bool {
        self.of_nobody != Some(uid)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::process::{Command, Stdio};

    use super::*;
    use crate::left_out::left_out;

    /// Set in a test that runs again in a user namespace, to the options with which that was made.
    const INSIDE: &str = "PMIX_TEST_USER_NAMESPACE";

    /// The test `name` of this crate again, in a user namespace that `unshare` makes with these options; `None` where that is not allowed.
    pub fn again_inside(name: &str, options: &[&str]) -> Option<Command> {
        let unshare = || {
            let mut command = Command::new("unshare");
            command.arg("--user").args(options);
            command
        };
        if !unshare().arg("true").stderr(Stdio::null()).status().is_ok_and(|status| status.success()) {
            left_out("kernel", "user namespaces are not for this user");
            return None;
        }
        let mut command = unshare();
        command.arg(std::env::current_exe().unwrap()).args(["--exact", name, "--nocapture"]);
        command.env(INSIDE, options.join(" "));
        Some(command)
    }

    /// The options of the user namespace, where this test runs in one that [`again_inside`] has made.
    pub fn inside() -> Option<String> {
        std::env::var(INSIDE).ok()
    }

    #[test]
    fn where_not_all_users_have_numbers_one_number_tells_nothing() {
        let tells = |map: &str, overflow: &str, uid| UserNumbers::parse(map, overflow).tells(uid);
        let all = "         0          0 4294967295\n";
        assert!(tells(all, "65534\n", 65_534));
        assert!(tells("0 100000 1000\n1000 0 4294966295\n", "65534\n", 65_534), "all have one");
        let of_container = "0 1000 1\n1 100000 65536\n";
        for map in [of_container, "1000 1000 1\n", "", "nonsense"] {
            assert!(!tells(map, "65534\n", 65_534), "{map}");
            assert!(!tells(map, "", 65_534), "{map}");
            assert!(tells(map, "65534\n", 1000) && tells(map, "65534\n", 0), "{map}");
            assert!(tells(map, "99\n", 65_534) && !tells(map, "99\n", 99), "{map}");
        }
    }
}
