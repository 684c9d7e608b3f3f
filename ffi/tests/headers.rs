//! The C headers: they compile without a warning and say what the stock library's headers say.
//!
//! `probe.expected` is what the probe prints with the headers of release 4.2.2. Where those are installed, they are
//! asked as well.

use std::path::{Path, PathBuf};
use std::process::Command;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");
const STOCK_HEADERS: &str = "/usr/lib/x86_64-linux-gnu/pmix2/include";

/// Compiles a program of this directory into a fresh directory; gives that and the program.
fn compile(compiler: &str, source: &str, include: &Path, options: &[&str]) -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let program = directory.path().join("program");
    let output = Command::new(compiler)
        .arg("-I")
        .arg(include)
        .arg(Path::new(ROOT).join("tests").join(source))
        .args(options)
        .arg("-o")
        .arg(&program)
        .output()
        .unwrap();
    assert!(output.status.success(), "{compiler} {source}: {}", String::from_utf8_lossy(&output.stderr));
    (directory, program)
}

fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn own_headers() -> PathBuf {
    Path::new(ROOT).join("include")
}

const STRICT: &[&str] = &["-std=gnu11", "-Wall", "-Wextra", "-Werror"];

#[test]
fn values_and_layouts_are_those_of_the_stock_headers() {
    let (_own, program) = compile("cc", "probe.c", &own_headers(), STRICT);
    let ours = run(&mut Command::new(program));
    assert_eq!(ours, include_str!("probe.expected"));
    if Path::new(STOCK_HEADERS).join("pmix.h").exists() {
        let (_stock, program) = compile("cc", "probe.c", Path::new(STOCK_HEADERS), &["-std=gnu11", "-w"]);
        assert_eq!(ours, run(&mut Command::new(program)));
    }
}

#[test]
fn headers_are_valid_cpp() {
    compile("c++", "empty.cpp", &own_headers(), &["-std=c++17", "-Wall", "-Wextra", "-Werror"]);
}

/// The shared library under its own name, in a directory for the linker and the loader.
fn library() -> tempfile::TempDir {
    let mut library = std::env::current_exe().unwrap();
    while !library.join("libpmix.so").exists() {
        assert!(library.pop(), "libpmix.so was not built beside the test");
    }
    let soname = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(library.join("libpmix.so"), soname.path().join("libpmix.so.2")).unwrap();
    soname
}

/// What a program says that is compiled with these headers and runs with our library.
fn said_by(source: &str, include: &Path, options: &[&str]) -> String {
    let soname = library();
    let search = format!("-L{}", soname.path().display());
    let options: Vec<&str> = options.iter().copied().chain([search.as_str(), "-l:libpmix.so.2"]).collect();
    let (_directory, program) = compile("cc", source, include, &options);
    run(Command::new(program).env("LD_LIBRARY_PATH", soname.path()))
}

#[test]
fn macros_work() {
    let said = said_by("macros.c", &own_headers(), STRICT);
    assert!(said.contains("pmix-dstore"), "{said}");
}

#[test]
fn macros_answer_as_those_of_the_stock_headers() {
    let ours = said_by("macro_answers.c", &own_headers(), STRICT);
    assert_eq!(ours, include_str!("macro_answers.expected"));
    if Path::new(STOCK_HEADERS).join("pmix.h").exists() {
        assert_eq!(ours, said_by("macro_answers.c", Path::new(STOCK_HEADERS), &["-std=gnu11", "-w"]));
    }
}
