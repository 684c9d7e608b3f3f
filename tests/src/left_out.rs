//! Reports tests, or parts of them, that cannot run on this machine. Other crates include this file for their unit tests.
//!
//! * `PMIX_TEST_STRICT=1` makes each of them fail. `PMIX_TEST_WITHOUT` then lists exceptions, separated by blanks:
//!   `root`, `packages`, `kernel`, `release` (the installed profile), `toolchain` (of the recorded figures), `peers`
//!   (`PMIX_TEST_PEERS`), `suite` (`PMIX_TEST_SUITE`), `openmpi5` (`PMIX_TEST_OPENMPI5`, `PMIX_TEST_OPENMPI6`), `stock` (what a
//!   release of Open MPI cannot do with the stock library).
//! * `PMIX_TEST_REPORT` names a file to which each appends a line; `make test` prints it at the end.

use std::fmt::Display;
use std::fs::OpenOptions;
use std::io::Write;
use std::panic::Location;

/// Reports that the running test, or a part of it, is left out because `what`, a word of the list above, is missing.
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

/// Appends a line to the report: the event, and the test.
///
/// # Panics
/// If the report cannot be written.
#[track_caller]
pub fn note(what: &str, text: impl Display) {
    let Some(report) = std::env::var_os("PMIX_TEST_REPORT").filter(|name| !name.is_empty()) else { return };
    let thread = std::thread::current();
    let line = format!("{what}: {} ({}): {text}\n", thread.name().unwrap_or("?"), Location::caller().file());
    // Write each line with one call: other tests may write at the same time.
    let written =
        OpenOptions::new().create(true).append(true).open(&report).and_then(|mut file| file.write_all(line.as_bytes()));
    written.unwrap_or_else(|error| panic!("PMIX_TEST_REPORT, {}: {error}", report.display()));
}
