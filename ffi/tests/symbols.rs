//! The shared library exports what is in `abi.tsv` and nothing else, under the stock library's name.

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

/// The lines of `abi.tsv`: name, group, releases, callers.
fn table() -> impl Iterator<Item = [&'static str; 4]> {
    let columns = |line: &'static str| line.split('\t').collect::<Vec<_>>().try_into().expect("four columns");
    include_str!("../abi.tsv").lines().skip(1).map(columns)
}

/// The functions that answer `PMIX_ERR_NOT_SUPPORTED`.
fn missing() -> Vec<&'static str> {
    let source = include_str!("../src/api/missing.rs").lines();
    source.filter_map(|line| line.trim().strip_prefix("fn ")).filter_map(|line| line.split('(').next()).collect()
}

#[test]
fn exports_are_the_listed_names() {
    let listed: Vec<&str> = table().map(|[name, ..]| name).collect();
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
    let documented: Vec<&str> = document
        .lines()
        .filter(|line| line.ends_with("| `PMIX_ERR_NOT_SUPPORTED` |"))
        .filter_map(|line| line.split('`').nth(1))
        .collect();
    assert_eq!(documented, missing());
}

#[test]
fn the_document_has_the_table() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/abi.md");
    let document = std::fs::read_to_string(path).unwrap();
    let missing = missing();
    let mut wanted = String::from("| name | group | since | called by | |\n|---|---|---|---|---|\n");
    for [name, group, releases, callers] in table() {
        let state = if missing.contains(&name) { "not supported" } else { "" };
        wanted += &format!("| `{name}` | {group} | {releases} | {callers} | {state} |\n");
    }
    let start = document.find("| name | group |").unwrap_or(document.len());
    if std::env::var_os("PMIX_ABI_TABLE").is_some_and(|value| value == "write") {
        std::fs::write(path, format!("{}{wanted}", &document[..start])).unwrap();
    } else {
        assert!(document[start..] == wanted, "PMIX_ABI_TABLE=write writes the table anew");
    }
}
