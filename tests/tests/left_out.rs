//! The report of left-out tests (`tests/src/left_out.rs`).

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use pmix_tests::{left_out, repository};

/// Reports itself as left out, when the other tests of this file run it.
#[test]
#[ignore = "leaves something out on purpose: the other tests here run it"]
fn one_that_cannot_be_made() {
    left_out("kernel", "this kernel has no moon");
}

/// Runs that test alone with these variables, and returns the report.
fn alone(variables: &[(&str, &str)]) -> (Output, String) {
    let directory = tempfile::tempdir().expect("a directory");
    let report = directory.path().join("report");
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(["--ignored", "--exact", "one_that_cannot_be_made"]).env("PMIX_TEST_REPORT", &report);
    command.env_remove("PMIX_TEST_STRICT").env_remove("PMIX_TEST_WITHOUT").envs(variables.iter().copied());
    let output = command.output().expect("this program runs");
    (output, fs::read_to_string(report).expect("a report"))
}

#[test]
fn left_out_tests_are_reported_and_fail_in_strict_runs() {
    let line = "left out: one_that_cannot_be_made (tests/tests/left_out.rs): this kernel has no moon\n";
    let strict = ("PMIX_TEST_STRICT", "1");
    for (variables, passes) in [
        (vec![], true),
        (vec![strict], false),
        (vec![strict, ("PMIX_TEST_WITHOUT", "root peers")], false),
        (vec![strict, ("PMIX_TEST_WITHOUT", "peers kernel")], true),
    ] {
        let (output, report) = alone(&variables);
        let said = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.success(), passes, "{variables:?}: {said}");
        assert_eq!(report, line, "{variables:?}");
        assert!(passes || said.contains("PMIX_TEST_STRICT=1, and this is left out"), "{said}");
    }
}

/// The Rust sources below a directory.
fn sources(directory: &Path, found: &mut Vec<String>) {
    for entry in fs::read_dir(directory).expect("a directory").flatten() {
        let path = entry.path();
        let name = entry.file_name();
        if path.is_dir() && name != "target" && name != ".git" {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path.to_str().expect("text").to_owned());
        }
    }
}

#[test]
fn tests_leave_nothing_out_but_by_that_function() {
    let mut all = Vec::new();
    sources(repository(), &mut all);
    assert!(all.len() > 100, "{}", all.len());
    let prints = |line: &str| {
        ["\"left out", "\"skipped"]
            .iter()
            .any(|said| line.contains(&format!("print!({said}")) || line.contains(&format!("println!({said}")))
    };
    let by_itself = |file: &&String| {
        !file.ends_with("/left_out.rs") && fs::read_to_string(file).expect("a source").lines().any(prints)
    };
    assert_eq!(all.iter().filter(by_itself).collect::<Vec<_>>(), Vec::<&String>::new());
}
