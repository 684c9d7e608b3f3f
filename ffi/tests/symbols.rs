//! The shared library exports what is in `symbols.txt` and nothing else, under the stock library's name.

use std::path::PathBuf;
use std::process::Command;

/// The shared library that was built beside this test.
fn library() -> PathBuf {
    let mut directory = std::env::current_exe().unwrap();
    while directory.pop() {
        let library = directory.join("libpmix.so");
        if library.exists() {
            return library;
        }
    }
    panic!("libpmix.so was not built beside the test");
}

fn output(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).arg(library()).output().unwrap();
    assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn exports_are_the_listed_names() {
    let listed: Vec<&str> = include_str!("../symbols.txt").lines().collect();
    assert!(listed.is_sorted());
    let table = output("nm", &["-D", "--defined-only"]);
    let mut exported: Vec<&str> = table.lines().filter_map(|line| line.split(' ').nth(2)).collect();
    exported.sort_unstable();
    assert_eq!(exported, listed);
}

#[test]
fn soname_is_that_of_the_stock_library() {
    let dynamic = output("readelf", &["-d"]);
    assert!(dynamic.lines().any(|line| line.contains("SONAME") && line.contains("[libpmix.so.2]")), "{dynamic}");
}

#[test]
fn library_stays_loaded_for_its_threads() {
    let dynamic = output("readelf", &["-d"]);
    assert!(dynamic.lines().any(|line| line.contains("FLAGS_1") && line.contains("NODELETE")), "{dynamic}");
}

#[test]
fn missing_functions_are_documented() {
    let document = include_str!("../../docs/missing.md");
    let source = include_str!("../src/api/missing.rs");
    let documented: Vec<&str> = document
        .lines()
        .filter(|line| line.ends_with("| `PMIX_ERR_NOT_SUPPORTED` |"))
        .filter_map(|line| line.split('`').nth(1))
        .collect();
    let missing: Vec<&str> = source
        .lines()
        .filter_map(|line| line.trim().strip_prefix("fn "))
        .filter_map(|line| line.split('(').next())
        .collect();
    assert_eq!(documented, missing);
}
