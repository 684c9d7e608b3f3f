//! C programs, compiled by the tests.

#![allow(dead_code, reason = "each test uses what it needs")]

use std::path::{Path, PathBuf};
use std::process::Command;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// Compiles a program into a fresh directory; gives that and the program.
pub fn compile(compiler: &str, source: &Path, include: &Path, options: &[&str]) -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let program = directory.path().join("program");
    let output = Command::new(compiler)
        .arg("-I")
        .arg(include)
        .arg(source)
        .args(options)
        .arg("-o")
        .arg(&program)
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{compiler} {options:?} {}: {errors}", source.display());
    (directory, program)
}

pub fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

pub fn own_headers() -> PathBuf {
    Path::new(ROOT).join("include")
}

/// A program of this directory.
pub fn source(name: &str) -> PathBuf {
    Path::new(ROOT).join("tests").join(name)
}

/// Writes a generated program with an extension into a fresh directory.
pub fn written(code: &str, extension: &str) -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("generated").with_extension(extension);
    std::fs::write(&path, code).unwrap();
    (directory, path)
}

/// The shared library under its own name, in a directory for the linker and the loader.
pub fn library() -> tempfile::TempDir {
    let mut library = std::env::current_exe().unwrap();
    while !library.join("libpmix.so").exists() {
        assert!(library.pop(), "libpmix.so was not built beside the test");
    }
    let soname = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(library.join("libpmix.so"), soname.path().join("libpmix.so.2")).unwrap();
    soname
}

/// Compiles a program of this directory with these headers, against our library.
pub fn linked(name: &str, include: &Path, options: &[&str]) -> (tempfile::TempDir, PathBuf) {
    let soname = library();
    let search = format!("-L{}", soname.path().display());
    let options: Vec<&str> = options.iter().copied().chain([search.as_str(), "-l:libpmix.so.2"]).collect();
    compile("cc", &source(name), include, &options)
}

/// What such a program says with our library.
pub fn said_by(name: &str, include: &Path, options: &[&str]) -> String {
    let (_directory, program) = linked(name, include, options);
    run(Command::new(program).env("LD_LIBRARY_PATH", library().path()))
}
