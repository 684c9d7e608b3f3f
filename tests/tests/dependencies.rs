//! Checks that `.ci/dependencies` enforces deny.toml: each rule is made stricter than the dependencies, and the
//! violation is reported.

use std::fs;
use std::process::Command;

use pmix_tests::repository;

/// The exit status and the findings with deny.toml after `change`.
fn findings(change: impl FnOnce(String) -> String) -> (bool, String) {
    let directory = tempfile::tempdir().expect("a directory");
    let config = directory.path().join("deny.toml");
    fs::write(&config, change(fs::read_to_string(repository().join("deny.toml")).expect("deny.toml"))).expect("a file");
    let output = Command::new(repository().join(".ci/dependencies")).arg(&config).output().expect("python3 runs");
    (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn the_dependencies_are_those_that_deny_toml_allows() {
    assert_eq!(findings(|config| config), (true, String::new()));
}

#[test]
fn each_rule_is_enforced() {
    for (rule, stricter, finding) in [
        ("\"BSL-1.0\", ", "", "xxhash-rust 0."),
        ("\"Unicode-3.0\", ", "", "licence (MIT OR Apache-2.0) AND Unicode-3.0"),
        ("crate = \"tokio\"", "crate = \"memmap2\"", "memmap2, which pmix-dstore uses, is banned"),
        ("wrappers = [\"pmix-hwloc\"]", "wrappers = []", "hwlocality, which pmix-hwloc uses, is banned"),
        ("crate = \"syn@2\"", "crate = \"syn@1\"", "syn: versions 2."),
        (
            "https://github.com/rust-lang/",
            "https://example.org/",
            "crates.io-index: none of those that deny.toml allows",
        ),
        ("unknown-git = \"deny\"", "required-git-spec = \"rev\"", "sources.required-git-spec: not known"),
    ] {
        let (passes, said) = findings(|config| {
            assert!(config.contains(rule), "{rule}");
            config.replace(rule, stricter)
        });
        assert!(!passes && said.contains(finding), "{rule}: {said}");
    }
}
