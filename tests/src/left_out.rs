//! Tests, or parts of them, that this machine does not allow. Unit tests of other crates have this file as a module of theirs.
//!
//! * `PMIX_TEST_STRICT=1` makes each of them fail. `PMIX_TEST_WITHOUT` may then name, with blanks between them, what there is
//!   not: `root`, `packages`, `kernel`, `release` (the installed profile), `toolchain` (that of recorded figures), `peers`
//!   (`PMIX_TEST_PEERS`), `suite` (`PMIX_TEST_SUITE`), `openmpi5` (`PMIX_TEST_OPENMPI5`).
//! * `PMIX_TEST_REPORT` names a file that gets a line for each; `make test` shows it in the end.

use std::fmt::Display;
use std::fs::OpenOptions;
use std::io::Write;
use std::panic::Location;

/// Says that the test that runs, or a part of it, is left out: for lack of `what`, a word of the list above.
///
/// # Panics
/// With `PMIX_TEST_STRICT=1`, unless `PMIX_TEST_WITHOUT` names `what`.
#[track_caller]
pub fn left_out(what: &str, reason: impl Display) {
    eprintln!("left out: {reason}");
    note("left out", &reason);
    let variable = |name| std::env::var(name).unwrap_or_default();
    let is_admitted = variable("PMIX_TEST_WITHOUT").split_whitespace().any(|word| word == what);
    if variable("PMIX_TEST_STRICT") == "1" && !is_admitted {
        panic!("PMIX_TEST_STRICT=1, and this is left out: {reason} (no `{what}`)");
    }
}

/// Adds a line to the report: what happened in which test.
///
/// # Panics
/// When the report cannot be written.
#[track_caller]
pub fn note(what: &str, text: impl Display) {
    let Some(report) = std::env::var_os("PMIX_TEST_REPORT").filter(|name| !name.is_empty()) else { return };
    let thread = std::thread::current();
    let line = format!("{what}: {} ({}): {text}\n", thread.name().unwrap_or("?"), Location::caller().file());
    // One write, since other tests' lines come at the same time.
    let written =
        OpenOptions::new().create(true).append(true).open(&report).and_then(|mut file| file.write_all(line.as_bytes()));
    written.unwrap_or_else(|error| panic!("PMIX_TEST_REPORT, {}: {error}", report.display()));
}
