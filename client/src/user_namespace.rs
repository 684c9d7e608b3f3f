//! Which user ids identify a single user.
//!
//! In a user namespace the kernel reports all users that have no id there under one id (`overflowuid`, usually 65534).
//! In a namespace with unmapped users that id does not identify a user. This holds for the process's own id as well, if
//! the process itself is unmapped.

use std::fs;

/// The meaning of user ids in the user namespace of the thread that made this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UserIds {
    /// The id that all unmapped users share; `None` if all users are mapped.
    shared_uid: Option<u32>,
}

impl UserIds {
    /// Read from `/proc` for this thread. If that fails, the kernel's default overflow id is taken as shared.
    pub fn of_this_thread() -> UserIds {
        let map = fs::read_to_string("/proc/thread-self/uid_map").unwrap_or_default();
        let overflow = fs::read_to_string("/proc/sys/kernel/overflowuid").unwrap_or_default();
        UserIds::parse(&map, &overflow)
    }

    fn parse(map: &str, overflow: &str) -> UserIds {
        const OVERFLOW_DEFAULT: u32 = 65_534;
        // All ids except the last, which is not a valid user id.
        const ALL: u64 = u32::MAX as u64;
        let counts = map.lines().map(|line| line.split_ascii_whitespace().nth(2)?.parse::<u64>().ok());
        let mapped: Option<u64> = counts.sum();
        let overflow = overflow.trim().parse().unwrap_or(OVERFLOW_DEFAULT);
        UserIds { shared_uid: (mapped != Some(ALL)).then_some(overflow) }
    }

    /// Whether an id identifies a single user.
    pub fn is_unique(self, uid: u32) -> bool {
        self.shared_uid != Some(uid)
    }
}

/// Whether users and groups have the same numbers in the user namespace of this thread as around it. If not, the numbers
/// that a process outside tells mean other users here. `false` if `/proc` does not say.
pub fn has_numbers_of_outside() -> bool {
    let keeps = |name: &str| {
        let map = fs::read_to_string(format!("/proc/thread-self/{name}")).unwrap_or_default();
        keeps_numbers(&map)
    };
    keeps("uid_map") && keeps("gid_map")
}

fn keeps_numbers(map: &str) -> bool {
    let mut lines = map.lines().map(|line| line.split_ascii_whitespace().collect::<Vec<_>>()).peekable();
    lines.peek().is_some() && lines.all(|line| matches!(line[..], [inside, outside, _] if inside == outside))
}

#[cfg(test)]
pub(crate) mod tests {
    use std::process::{Command, Stdio};

    use super::*;
    use crate::left_out::left_out;

    /// Set in a test that runs again in a user namespace; the value is the options of `unshare`.
    const INSIDE: &str = "PMIX_TEST_USER_NAMESPACE";

    /// A command that runs the test `name` of this crate again, in a user namespace made by `unshare` with these
    /// options; `None` where that is not allowed.
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

    /// The options of the user namespace, if this test runs in one made by [`again_inside`].
    pub fn inside() -> Option<String> {
        std::env::var(INSIDE).ok()
    }

    #[test]
    fn only_a_namespace_without_shifted_users_keeps_their_numbers() {
        for kept in ["         0          0 4294967295\n", "1000 1000 1\n", "0 0 1\n5 5 10\n"] {
            assert!(keeps_numbers(kept), "{kept}");
        }
        for other in ["", "0 1000 1\n", "1000 1000 1\n0 100000 1000\n", "nonsense", "0 0\n"] {
            assert!(!keeps_numbers(other), "{other}");
        }
    }

    #[test]
    fn the_overflow_uid_is_not_unique_if_users_are_unmapped() {
        let is_unique = |map: &str, overflow: &str, uid| UserIds::parse(map, overflow).is_unique(uid);
        let all = "         0          0 4294967295\n";
        assert!(is_unique(all, "65534\n", 65_534));
        assert!(is_unique("0 100000 1000\n1000 0 4294966295\n", "65534\n", 65_534), "all have one");
        let of_container = "0 1000 1\n1 100000 65536\n";
        for map in [of_container, "1000 1000 1\n", "", "nonsense"] {
            assert!(!is_unique(map, "65534\n", 65_534), "{map}");
            assert!(!is_unique(map, "", 65_534), "{map}");
            assert!(is_unique(map, "65534\n", 1000) && is_unique(map, "65534\n", 0), "{map}");
            assert!(is_unique(map, "99\n", 65_534) && !is_unique(map, "99\n", 99), "{map}");
        }
    }
}
