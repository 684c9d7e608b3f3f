//! No function answers success without doing its work: what the library does not have says so, as a server and as a
//! client, and calls nothing back. `docs/missing.md` lists it; `symbols.rs` compares the list with the code.

mod programs;
mod tables;

use std::path::Path;
use std::process::Command;

/// The functions that `docs/missing.md` says to answer `PMIX_ERR_NOT_SUPPORTED`.
fn documented() -> Vec<&'static str> {
    let rows = include_str!("../../docs/missing.md").lines();
    rows.filter(|row| row.ends_with("| `PMIX_ERR_NOT_SUPPORTED` |")).filter_map(|row| row.split('`').nth(1)).collect()
}

/// A C argument for a parameter: memory, a function that is never called, a number.
fn argument(parameter: &str) -> String {
    let (ty, _) = parameter.rsplit_once(' ').unwrap_or((parameter, ""));
    if ty.ends_with("_cbfunc_t") || ty.ends_with("_fn_t") {
        format!("({ty}) callback")
    } else if parameter.contains(['*', '[']) || parameter.contains("pmix_nspace_t") {
        "(void *) memory.bytes".into()
    } else {
        "1".into()
    }
}

#[test]
fn what_is_missing_says_so_and_calls_nothing_back() {
    let names = documented();
    assert!(!names.is_empty());
    let functions = tables::table("functions");
    let mut calls = String::new();
    for name in &names {
        let prototype = functions.iter().find(|row| row[0] == *name).expect("a function of the interface")[4];
        let (_, parameters) = prototype.split_once('(').expect("a prototype has parameters");
        let parameters = parameters.trim_end_matches(')').split(", ").filter(|parameter| *parameter != "void");
        let arguments: Vec<String> = parameters.map(argument).collect();
        calls += &format!("    answered(\"{name}\", {name}({}));\n", arguments.join(", "));
    }
    let library = programs::library();
    std::fs::write(library.path().join("calls.h"), &calls).unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/missing.c");
    let search = format!("-L{0}", library.path().display());
    let include = format!("-I{}", library.path().display());
    let options = ["-std=gnu11", "-Wall", "-Werror", &search, &include, "-l:libpmix.so.2"];
    let (directory, program) = programs::compile("cc", &source, &programs::own_headers(), &options);
    let ended = Command::new(program)
        .env("LD_LIBRARY_PATH", library.path())
        .env("PMIX_SERVER_TMPDIR", directory.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ended.stdout);
    let well = ["client", "server"].map(|who| format!("{who}: status 0, 0 other answers, 0 callbacks\n"));
    assert_eq!(said, well.concat(), "{}{}", ended.status, String::from_utf8_lossy(&ended.stderr));
}
