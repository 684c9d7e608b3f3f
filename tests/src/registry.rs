//! The program `registry`: a host that executes a script, and prints the results of its own calls and of its ranks'.
//!
//! The head of `tests/programs/registry.c` documents the script.

use std::fmt::Write;

use crate::{Ended, Library, Run, program};

/// Runs a script with a library; returns the lines of its answers.
///
/// # Panics
/// If the host or one of its ranks fails.
pub fn run(library: Library, script: &str) -> Vec<String> {
    succeeded(library, script).stdout.lines().map(str::to_owned).collect()
}

fn succeeded(library: Library, script: &str) -> Ended {
    let ended = ended(library, script);
    assert_eq!(ended.code(), 0, "{library:?}: {}", ended.stderr);
    let failed = ended.stderr.lines().find(|line| line.starts_with("registry: "));
    assert_eq!(failed, None, "{library:?}");
    ended
}

/// As [`run`]; returns the complete output, standard error included.
pub fn ended(library: Library, script: &str) -> Ended {
    Run::new(program("registry"), library).input(script.as_bytes().to_vec()).run()
}

/// Runs a script whose lines have their expected answers behind "=>"; lines between "rank" and "end" are a rank's. The ranks use
/// our library, first with shared memory and then without.
///
/// # Panics
/// If the host or a rank fails, or an answer differs.
pub fn told(script: &str) {
    told_to(script, &[(Library::ours(), ""), (Library::ours(), " PMIX_DSTORE_SHM=0")]);
}

/// As [`told`], once for each library of the ranks, with variables of their environment.
///
/// # Panics
/// As [`told`].
pub fn told_to(script: &str, ranks: &[(Library, &str)]) {
    // A line may continue in the next one.
    let script: Vec<String> =
        script.replace("\\\n", "").lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    let lines: Vec<(&str, Option<&str>)> = script
        .iter()
        .map(String::as_str)
        .filter(|line| !line.is_empty() && !line.starts_with("//"))
        .map(|line| line.split_once(" => ").map_or((line, None), |(line, answer)| (line, Some(answer))))
        .collect();
    for (library, variables) in ranks {
        let directory = text(library.directory().display().to_string());
        let spoken = |line: &str| match line.strip_prefix("rank ") {
            Some(rest) => format!("rank {rest} {directory}{variables}\n"),
            None => format!("{line}\n"),
        };
        let ended = succeeded(Library::ours(), &lines.iter().map(|(line, _)| spoken(line)).collect::<String>());
        let mut answers = ended.stdout.lines();
        for (line, answer) in &lines {
            if line.starts_with("rank ") || line.starts_with("deregister ") {
                continue;
            }
            let expected = match *line {
                "end" => "rank ended with 0",
                _ => answer.unwrap_or("status 0"),
            };
            assert_eq!(answers.next(), Some(expected), "{library:?}{variables}: {line}\n{}", ended.stderr);
        }
    }
}

/// A text in the notation of scripts and answers.
pub fn text(text: impl AsRef<[u8]>) -> String {
    let mut written = String::new();
    for byte in text.as_ref() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'_' | b'-' => written.push(char::from(*byte)),
            other => drop(write!(written, "%{other:02X}")),
        }
    }
    // A single `-` would denote a missing text.
    if written == "-" { "%2D".into() } else { written }
}

/// The bytes of a text in an answer.
///
/// # Panics
/// If it is not a text in that notation.
pub fn bytes(text: &str) -> Vec<u8> {
    let mut parts = text.split('%');
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        bytes.push(u8::from_str_radix(&part[..2], 16).expect("two digits"));
        bytes.extend_from_slice(&part.as_bytes()[2..]);
    }
    bytes
}

/// The answer to a question that succeeded, without its status.
///
/// # Panics
/// If the question failed.
pub fn success(answer: &str) -> &str {
    answer.strip_suffix("status 0").unwrap_or_else(|| panic!("{answer}")).trim_end()
}
