//! Test programs of other PMIx libraries, on their own libraries and on ours. A program must behave on ours as on its
//! own library.
//!
//! `PMIX_TEST_SUITE` names a directory with compiled programs; nothing here builds them. Without it these tests are
//! left out. The directory has two tables, with a tab between columns and `#` before remarks:
//!
//! * `cases.tsv`: name, groups (for the summary, comma between them), flavour, directory of the flavour's own library,
//!   command, and optionally a letter: the reason in `docs/interop.md` why ours is not expected to pass, with `?` if
//!   the result varies. A program that passes in spite of a letter without `?` fails the test, so that the letter is
//!   removed. The command is for a shell, in the subdirectory with the flavour's name.
//! * `mixed.tsv`: flavour, directory of its library, command with `-e ./CLIENT` in it, and optionally `our server` or
//!   `our clients`: the side on which ours must fail, as `docs/interop.md` explains. The command's own program is a
//!   server. A script in place of `./CLIENT` gives its clients the other library.
//!
//! The reference is three runs of the program on its own library; a program that never ends with 0 there is left out.
//! On ours it passes if it ends with 0, prints the final lines that it always prints there, and prints no error line
//! that was in none of those runs. Log lines of the libraries and the spelling of error names do not count.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use pmix_tests::{Library, Run, left_out};

/// How long a program may take, in seconds; the longest take 5 on an idle machine.
const PATIENCE: u32 = 40;
/// The number of programs that run at the same time.
const AT_ONCE: usize = 2;
/// Texts that mark a line as an error.
const ERRORS: [&str; 14] = [
    "ERR", "rror", "FAIL", "ailed", "fault", "dumped", "lost", "Lost", "mismatch", "NOT", "UNREACH", "TIMEOUT",
    "abort", "ABORT",
];
/// Texts that programs print on success.
const SUCCESSES: [&str; 2] = ["Test SUCCEEDED", "Test finished OK!"];
/// Lines of the libraries themselves.
const LOGGED: [&str; 2] = ["PMIX ERROR:", "pmix-dstore "];

/// The directory of the suite; reports the test as left out if there is none.
fn suite() -> Option<PathBuf> {
    let directory = std::env::var_os("PMIX_TEST_SUITE").map(PathBuf::from);
    if directory.is_none() {
        left_out("suite", "PMIX_TEST_SUITE names no directory with test programs");
    }
    directory
}

/// The rows of a table, which must not be empty.
fn table(directory: &Path, name: &str) -> Vec<Vec<String>> {
    let file = directory.join(name);
    let text = fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let rows = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    let rows: Vec<Vec<String>> = rows.map(|line| line.split('\t').map(str::to_owned).collect()).collect();
    assert!(!rows.is_empty(), "{}: no rows", file.display());
    rows
}

/// The outcome of a program; it may not have ended within [`PATIENCE`].
struct Outcome {
    code: i32,
    text: String,
}

impl Outcome {
    fn of(directory: &Path, library: Library, command: &str) -> Outcome {
        let temporary = tempfile::tempdir().expect("a temporary directory");
        let script = format!("cd '{}' && {command}", directory.display());
        let run = Run::new("timeout", library).env("TMPDIR", temporary.path());
        let ended = run.args(&format!("-k 1 {PATIENCE} /bin/sh -c")).arg(script).run();
        Outcome { code: ended.code(), text: ended.stdout + &ended.stderr }
    }

    fn says(&self, text: &str) -> bool {
        self.text.contains(text)
    }

    /// The wanted lines, with one spelling of names, and without numbers, which differ from run to run.
    fn lines(&self, is_wanted: impl Fn(&str) -> bool) -> BTreeSet<String> {
        let lines = self.text.lines().filter(|line| !LOGGED.iter().any(|logged| line.contains(logged)));
        let plain = |line: &str| {
            // The names of servers differ.
            let words = line.split(' ').map(|word| if word.starts_with("pmix-server") { "" } else { word });
            let line = words.collect::<String>().replace("PMIX_ERR_", "").replace("PMIX_", "").replace("PMIX", "");
            let kept = line.chars().filter(|letter| !letter.is_ascii_digit() && !"-_".contains(*letter));
            kept.collect::<String>()
        };
        lines.filter(|line| is_wanted(line)).map(plain).collect()
    }

    /// The deficiency of this outcome compared with the runs on the program's own library.
    fn lacks(&self, own: &[Outcome]) -> Option<String> {
        if self.code != 0 {
            let how = if self.code == 124 { "does not end".to_owned() } else { format!("ends with {}", self.code) };
            return Some(how);
        }
        let good = || own.iter().filter(|run| run.code == 0);
        if let Some(missing) = SUCCESSES.iter().find(|text| !self.says(text) && good().all(|run| run.says(text))) {
            return Some(format!("does not say '{missing}'"));
        }
        let known: BTreeSet<_> = own.iter().flat_map(|run| run.lines(|_| true)).collect();
        let is_error = |line: &str| ERRORS.iter().any(|word| line.contains(word));
        let new: Vec<_> = self.lines(is_error).difference(&known).cloned().collect();
        (!new.is_empty()).then(|| format!("says {new:?}"))
    }
}

/// Runs `work` for each number below `count`, some at the same time; returns the results in order.
fn each<T: Send>(count: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let (next, done) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= count {
                        return;
                    }
                    let result = work(number);
                    done.lock().unwrap().insert(number, result);
                }
            });
        }
    });
    done.into_inner().unwrap().into_values().collect()
}

/// The unexpected part of a program's outcome: a deficiency without a known `reason`, or success in spite of one.
fn surprise(lacks: Option<String>, reason: Option<&String>) -> Option<String> {
    match (lacks, reason.map(String::as_str)) {
        (Some(lacks), None) => Some(lacks),
        (None, Some(reason)) if !reason.ends_with('?') => {
            Some(format!("passes, and is known not to for reason {reason}: that is to go"))
        }
        _ => None,
    }
}

#[test]
fn a_known_failure_that_passes_is_told() {
    let surprise = |lacks: Option<&str>, reason: Option<&str>| {
        surprise(lacks.map(str::to_owned), reason.map(str::to_owned).as_ref()).is_some()
    };
    assert!(surprise(Some("ends with 1"), None));
    assert!(surprise(None, Some("b")));
    for (lacks, reason) in
        [(None, None), (Some("ends with 1"), Some("b")), (None, Some("c?")), (Some("is late"), Some("c?"))]
    {
        assert!(!surprise(lacks, reason), "{lacks:?} {reason:?}");
    }
}

#[test]
fn programs_pass_on_ours_that_pass_on_their_own_library() {
    let Some(directory) = suite() else { return };
    let cases = table(&directory, "cases.tsv");
    let results = each(cases.len(), |number| {
        let [name, _, flavour, library, command, ..] = cases[number].as_slice() else { panic!("{:?}", cases[number]) };
        let at = directory.join(flavour);
        let own: Vec<_> = (0..3).map(|_| Outcome::of(&at, Library::other(library), command)).collect();
        if own.iter().all(|run| run.code != 0) {
            return None;
        }
        let lacks = Outcome::of(&at, Library::ours(), command).lacks(&own);
        if let Some(lacks) = &lacks {
            eprintln!("{flavour} {name}: {lacks}");
        }
        Some(lacks)
    });
    let mut passed: BTreeMap<(&str, &str), (usize, usize)> = BTreeMap::new();
    let mut unexpected = Vec::new();
    for (case, result) in cases.iter().zip(results) {
        let Some(lacks) = result else { continue };
        for group in case[1].split(", ").chain(["all"]) {
            let (run, passes) = passed.entry((&case[2], group)).or_default();
            *run += 1;
            *passes += usize::from(lacks.is_none());
        }
        unexpected.extend(surprise(lacks, case.get(5)).map(|what| format!("{} {}: {what}", case[2], case[0])));
    }
    assert!(!passed.is_empty(), "no program runs on its own library");
    for ((flavour, group), (run, passes)) in passed {
        eprintln!("{flavour} {group}: {passes} of {run}");
    }
    assert!(unexpected.is_empty(), "{unexpected:#?}");
}

#[test]
fn servers_and_clients_of_releases_mix_with_ours() {
    let Some(directory) = suite() else { return };
    let rows = table(&directory, "mixed.tsv");
    let results = each(rows.len(), |number| {
        let [flavour, library, command, failing @ ..] = rows[number].as_slice() else { panic!("{:?}", rows[number]) };
        let at = directory.join(flavour);
        let scripts = tempfile::tempdir().expect("a temporary directory");
        let run = |server: Library, clients: Library| {
            let (before, client) = command.split_once("-e ./").expect("a client");
            let script = scripts.path().join("client");
            let file = at.join(client);
            let text = format!(
                "#!/bin/sh\nLD_LIBRARY_PATH='{}' exec '{}' \"$@\"\n",
                clients.directory().display(),
                file.display()
            );
            fs::write(&script, text).expect("a script");
            fs::set_permissions(&script, PermissionsExt::from_mode(0o755)).expect("a script's mode");
            Outcome::of(&at, server, &format!("{before}-e '{}'", script.display()))
        };
        let theirs = Library::other(library);
        let own: Vec<_> = (0..3).map(|_| run(theirs, theirs)).collect();
        if own.iter().all(|run| run.code != 0) {
            left_out("suite", format_args!("{flavour} {command} does not run on its own library"));
            return None;
        }
        let pairs = [("our server", Library::ours(), theirs), ("our clients", theirs, Library::ours())];
        let lacks = pairs.map(|(name, server, clients)| {
            let lacks = run(server, clients).lacks(&own);
            if let Some(lacks) = &lacks {
                eprintln!("{flavour} {command}: {name}: {lacks}");
            }
            let known = failing.iter().find(|side| *side == name);
            surprise(lacks, known).map(|what| format!("{flavour} {command}: {name}: {what}"))
        });
        Some(lacks.into_iter().flatten())
    });
    assert!(results.iter().any(Option::is_some), "no program runs on its own library");
    let failed: Vec<_> = results.into_iter().flatten().flatten().collect();
    assert!(failed.is_empty(), "{failed:#?}");
}
