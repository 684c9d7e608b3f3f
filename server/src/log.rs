//! Log lines for the administrator, on stderr.

use std::io::{self, Write};

/// One line for the administrator.
pub(crate) fn log(line: &str) {
    pmix_dstore::file_ban::check();
    let line = format!("pmix-dstore server {}: {}\n", std::process::id(), one_line(line));
    // In one piece, since the daemons of a job may share a terminal. A daemon may have closed its stderr; there is
    // nowhere else to complain.
    let _ = io::stderr().write_all(line.as_bytes());
}

/// Escapes control characters, which names of peers may contain, and limits the length of a line.
fn one_line(text: &str) -> String {
    /// Longer than any path.
    const LEN_MAX: usize = 6000;
    let escaped = |c: char| if c.is_control() { c.escape_default().collect() } else { String::from(c) };
    text.chars().take(LEN_MAX).map(escaped).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_peers_stay_within_their_log_line() {
        assert_eq!(one_line("a\nserver 1: b\u{1b}[2J"), "a\\nserver 1: b\\u{1b}[2J");
        assert_eq!(one_line(&"\n".repeat(100_000)).len(), 12_000);
    }
}
