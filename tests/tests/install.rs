//! The files of `make install`: a program is compiled through pkg-config and runs without any environment variable.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use pmix_tests::{Library, pmixrun, repository};

/// Runs a command that must succeed; returns its output.
fn said(command: &mut Command) -> String {
    let ended = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(ended.status.success(), "{command:?}: {}{}", ended.status, String::from_utf8_lossy(&ended.stderr));
    String::from_utf8(ended.stdout).expect("text")
}

fn names(directory: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect()
}

/// The man pages can be shown, bash completes commands and options, and the stock tools' names lead to `pmixctl`.
fn tools_are_documented_and_completed(prefix: &Path) {
    let pages = names(&prefix.join("share/man/man1"));
    for page in ["pmixctl.1", "pmixrun.1", "pmixctl-ps.1", "pmixctl-inspect.1", "pmixbench.1", "pmixbench-get.1"] {
        assert!(pages.contains(page), "{pages:?}");
        let page = prefix.join("share/man/man1").join(page);
        // A warning of the formatter would be on standard error.
        let shown = Command::new("man")
            .env("MANPAGER", "cat")
            .env("LC_ALL", "C")
            .args(["--warnings", "-l"])
            .arg(&page)
            .output();
        let shown = shown.expect("the package man-db");
        let text = String::from_utf8_lossy(&shown.stdout);
        assert!(text.contains("SYNOPSIS") && shown.stderr.is_empty(), "{}: {shown:?}", page.display());
    }
    let complete = |words: &str| {
        let program = words.split(' ').next().expect("a program");
        let script = format!(
            "source {}; COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); \
             _{program} {program} \"${{COMP_WORDS[-1]}}\" \"${{COMP_WORDS[-2]}}\"; echo ${{COMPREPLY[@]}}",
            prefix.join("share/bash-completion/completions").join(program).display()
        );
        said(Command::new("bash").args(["--norc", "-c"]).arg(script)).trim().to_owned()
    };
    assert_eq!(complete("pmixctl insp"), "inspect");
    assert_eq!(complete("pmixrun --bind-to c"), "core");
    assert_eq!(complete("pmixbench wire"), "wireup");
    assert!(
        complete("pmixctl inspect --").split(' ').any(|word| word == "--rows"),
        "{}",
        complete("pmixctl inspect --")
    );
    for shell in ["zsh/site-functions/_pmixctl", "fish/vendor_completions.d/pmixctl.fish"] {
        assert!(fs::read_to_string(prefix.join("share").join(shell)).expect("a file").contains("inspect"));
    }
    let links = names(&prefix.join("libexec/pmix-dstore/bin"));
    assert_eq!(links, ["pattrs", "pctrl", "pevent", "plookup", "pmix_info", "pps", "pquery"].map(str::to_owned).into());
    let info = said(&mut Command::new(prefix.join("libexec/pmix-dstore/bin/pmix_info")));
    assert!(info.starts_with("pmix-dstore "), "{info}");
}

/// Without a word of the user's, and unless the user has another library.
fn ranks_get_the_library_beside_the_launcher(prefix: &Path) {
    let search = |before: &str, options: &[&str]| {
        let mut command = Command::new(prefix.join("bin/pmixrun"));
        command.args(["-n", "1"]).args(options).args(["sh", "-c", "echo $LD_LIBRARY_PATH"]);
        said(command.env("LD_LIBRARY_PATH", before)).trim().to_owned()
    };
    let own = prefix.join("lib").display().to_string();
    let other = Library::Stock.directory().display().to_string();
    assert_eq!(search("", &[]), own);
    assert_eq!(search("/a", &[]), format!("{own}:/a"));
    assert_eq!(search(&other, &[]), other);
    assert_eq!(search(&other, &["--lib", &own]), format!("{own}:{other}"));
    assert_eq!(search("", &["--lib", "system"]), "");
}

#[test]
fn a_program_finds_the_installed_library_by_pkg_config() {
    let directory = tempfile::tempdir().expect("a directory");
    let prefix = directory.path().join("pmix");
    // Use the build for the tests; do not build again.
    let tools = pmixrun();
    let built = tools.parent().expect("a directory");
    let mut install = Command::new("make");
    install.current_dir(repository()).args(["-s", "-o", "build", "install"]);
    said(install.arg(format!("PREFIX={}", prefix.display())).arg(format!("release={}", built.display())));
    assert_eq!(names(&prefix.join("include")), names(&repository().join("ffi/include")));
    assert_eq!(names(&prefix.join("bin")), ["pmixbench", "pmixctl", "pmixrun"].map(str::to_owned).into());
    let files = ["libpmix.so", "libpmix.so.2", "pkgconfig", "prrte"].map(str::to_owned);
    assert_eq!(names(&prefix.join("lib")), files.into());
    assert_eq!(fs::read_link(prefix.join("lib/libpmix.so")).expect("a link"), Path::new("libpmix.so.2"));

    // The facade for PRRTE's daemons, and the stock library of this machine behind it.
    let facade = prefix.join("lib/prrte");
    let stock = Library::Stock.file();
    let files = ["libpmix-dstore.so", "libpmix-stock.so", "libpmix.so.2"].map(str::to_owned);
    assert_eq!(names(&facade), files.into());
    assert_eq!(facade.join("libpmix-stock.so").canonicalize().expect("a file"), stock);
    let checked = said(Command::new(prefix.join("bin/pmixctl")).arg("prrte").arg(&stock));
    assert!(checked.contains(&format!("good: LD_LIBRARY_PATH={} gives both", facade.display())), "{checked}");

    tools_are_documented_and_completed(&prefix);
    ranks_get_the_library_beside_the_launcher(&prefix);

    let pkg_config = |question: &[&str]| {
        let mut command = Command::new("pkg-config");
        // Debian's own pmix must not be found.
        command.env("PKG_CONFIG_LIBDIR", prefix.join("lib/pkgconfig")).env_remove("PKG_CONFIG_PATH");
        said(command.args(question).arg("pmix")).trim().to_owned()
    };
    let header = fs::read_to_string(prefix.join("include/pmix_version.h")).expect("the header");
    let number = |name: &str| {
        let define = format!("#define PMIX_VERSION_{name} ");
        header.lines().find_map(|line| line.strip_prefix(&define)).expect("a number").to_owned()
    };
    assert_eq!(pkg_config(&["--modversion"]), ["MAJOR", "MINOR", "RELEASE"].map(number).join("."));
    assert_eq!(Path::new(&pkg_config(&["--variable=libdir"])), prefix.join("lib"));

    let program = directory.path().join("program");
    let flags = pkg_config(&["--cflags", "--libs"]);
    let mut compile = Command::new("cc");
    compile.args(["-std=c99", "-Wall", "-Wextra", "-Werror"]).arg(repository().join("ffi/tests/macros.c"));
    said(compile.args(flags.split_whitespace()).arg("-o").arg(&program));
    let version = said(Command::new(&program).env_remove("LD_LIBRARY_PATH"));
    assert!(version.contains("pmix-dstore"), "{version}");
    let needed = said(Command::new("readelf").arg("-d").arg(&program));
    assert!(needed.contains("[libpmix.so.2]"), "{needed}");
    // In a process with both libraries the version is the stock library's, and what else is called is this one's.
    let joined = said(Command::new(&program).env("LD_LIBRARY_PATH", &facade));
    assert!(joined.contains("OpenPMIx 4.2.2") && !joined.contains("pmix-dstore"), "{joined}");
    assert_ne!(joined, version);
}
