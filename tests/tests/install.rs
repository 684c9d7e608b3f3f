//! The files of `make install`: a program is compiled through pkg-config or CMake and runs without any environment variable; a second
//! installation harms no running job, and `make uninstall` leaves nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use pmix_tests::{Library, pmixrun, program, repository};

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

/// `make install` or `make uninstall` of what was built for the tests. `make` does not build again.
fn make(target: &str, prefix: &Path, destination: Option<&Path>) -> Output {
    let tools = pmixrun();
    let built = tools.parent().expect("a directory").to_str().expect("text");
    let mut make = Command::new("make");
    make.current_dir(repository()).args(["-s", "-o", "build", target]).arg(format!("release={built}"));
    make.arg(format!("PREFIX={}", prefix.display()));
    if let Some(destination) = destination {
        make.arg(format!("DESTDIR={}", destination.display()));
    }
    make.output().expect("make runs")
}

fn install(prefix: &Path) {
    // What is installed beside the library and the programs.
    pmix_tests::pmi_library();
    let ended = make("install", prefix, None);
    assert!(ended.status.success(), "{ended:?}");
}

/// `packaging/install` itself, which must refuse; returns what it says.
fn refusal(prefix: &str, argument: &Path) -> String {
    let mut command = Command::new(repository().join("packaging/install"));
    let ended = command.arg(argument).env("PREFIX", prefix).env_remove("DESTDIR").output().expect("bash runs");
    assert!(!ended.status.success(), "{ended:?}");
    String::from_utf8(ended.stderr).expect("text")
}

/// All below a directory: paths, and what files contain or where links lead.
fn tree(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(directory).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_symlink() {
            let to = fs::read_link(&path).expect("a link");
            found.insert(path, to.into_os_string().into_encoded_bytes());
        } else if path.is_dir() {
            found.append(&mut tree(&path));
            found.insert(path, Vec::new());
        } else {
            let content = fs::read(&path).expect("a file");
            found.insert(path, content);
        }
    }
    found
}

/// Compiles the test's program by what `pkg-config` of this installation says, as a shell reads it; returns what the program prints.
fn by_pkg_config(prefix: &Path, options: &str, program: &Path) -> String {
    let source = repository().join("ffi/tests/macros.c");
    // Debian's own pmix must not be found.
    let script = format!(
        "eval cc -std=c99 -Wall -Wextra -Werror \\\"\\$SOURCE\\\" \"$(pkg-config {options} --cflags --libs pmix)\" -o \\\"\\$PROGRAM\\\""
    );
    let mut compile = Command::new("bash");
    compile
        .args(["-euc", &script])
        .env("PKG_CONFIG_LIBDIR", prefix.join("lib/pkgconfig"))
        .env_remove("PKG_CONFIG_PATH");
    said(compile.env("SOURCE", source).env("PROGRAM", program));
    said(Command::new(program).env_remove("LD_LIBRARY_PATH"))
}

/// The same by `find_package`.
fn by_cmake(prefix: &Path, directory: &Path) -> String {
    fs::create_dir(directory).expect("a directory");
    let project = "cmake_minimum_required(VERSION 3.18)\nproject(program C)\nfind_package(PMIx 4.1 CONFIG REQUIRED)\n\
                   add_executable(program macros.c)\ntarget_link_libraries(program PRIVATE PMIx::pmix)\n\
                   if(NOT PMIx_VERSION VERSION_GREATER_EQUAL 4.2)\n  message(FATAL_ERROR \"${PMIx_VERSION}\")\nendif()\n\
                   find_package(PMIx 99 CONFIG QUIET)\nif(PMIx_FOUND)\n  message(FATAL_ERROR 99)\nendif()\n";
    fs::write(directory.join("CMakeLists.txt"), project).expect("a file");
    fs::copy(repository().join("ffi/tests/macros.c"), directory.join("macros.c")).expect("a copy");
    let built = directory.join("built");
    let mut configure = Command::new("cmake");
    configure.arg("-S").arg(directory).arg("-B").arg(&built).arg(format!("-DCMAKE_PREFIX_PATH={}", prefix.display()));
    said(&mut configure);
    said(Command::new("cmake").arg("--build").arg(&built));
    said(Command::new(built.join("program")).env_remove("LD_LIBRARY_PATH"))
}

/// What a module file does, told by a Tcl interpreter in which each of its commands prints its words.
fn module(file: &Path) -> String {
    let script = "foreach name {module-whatis conflict prepend-path setenv} { proc $name args \"puts \\[list $name {*}\\$args\\]\" }\n\
                  source [lindex $argv 0]";
    let directory = tempfile::tempdir().expect("a directory");
    let interpreter = directory.path().join("module.tcl");
    fs::write(&interpreter, script).expect("a file");
    said(Command::new("tclsh").arg(&interpreter).arg(file))
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

/// Which library the ranks have had, and why. They wait for rank 2 until the job is ended: the report cannot tell of ranks that have ended
/// before they are looked at.
#[test]
fn a_report_tells_whether_ranks_had_this_library() {
    let check = |library: &Path, own: u32, word: &str| {
        let report = |kind: &str| {
            let directory = tempfile::tempdir().expect("a directory");
            let file = directory.path().join("report");
            let mut command = Command::new(pmixrun());
            command.args(["-n", "3", "--timeout", "100", "--lib", "system", kind, "--report-to"]).arg(&file);
            command.arg(program("stuck")).arg("fence").arg(directory.path()).arg("tell");
            command.env("LD_LIBRARY_PATH", library).stdout(Stdio::piped()).stderr(Stdio::piped());
            let mut job = command.spawn().expect("pmixrun runs");
            // pmixrun has looked at a rank before it passes that rank's line on.
            let lines = BufReader::new(job.stdout.take().expect("a pipe")).lines().take(3);
            assert_eq!(lines.filter_map(Result::ok).filter(|line| line == "connected").count(), 3);
            kill(Pid::from_raw(job.id().cast_signed()), Signal::SIGINT).expect("it runs");
            let ended = job.wait_with_output().expect("pmixrun ends");
            assert_eq!(ended.status.code(), Some(130), "{ended:?}");
            fs::read_to_string(file).expect("the report")
        };
        let text = report("--report");
        let line = text.lines().find(|line| line.starts_with("  PMIx library ")).expect("a library");
        assert!(line.ends_with(&format!(" (3 ranks): {word}")), "{text}");
        let why = "  --lib system          the loader has chosen this library; LD_LIBRARY_PATH leads to it: unset it for the stock library";
        assert_eq!(text.lines().any(|line| line == why), own > 0, "{text}");
        let json: serde_json::Value = serde_json::from_str(&report("--json")).expect("JSON");
        assert_eq!(json["own_library_ranks"], own, "{json}");
        assert_eq!(json["libraries"].as_object().expect("paths").values().collect::<Vec<_>>(), [3], "{json}");
    };
    std::thread::scope(|scope| {
        scope.spawn(|| check(&Library::ours().directory(), 3, "this library"));
        scope.spawn(|| check(&Library::Stock.directory(), 0, "a stock library"));
        let facade = Library::ours().directory_for_prrte();
        scope.spawn(move || check(&facade, 3, "this library and the stock one, by lib/prrte"));
    });
}

#[test]
fn a_program_finds_the_installed_library_by_pkg_config() {
    let directory = tempfile::tempdir().expect("a directory");
    let prefix = directory.path().join("pmix");
    install(&prefix);
    assert_eq!(names(&prefix.join("include")), names(&repository().join("ffi/include")));
    assert_eq!(names(&prefix.join("bin")), ["pmixbench", "pmixctl", "pmixrun"].map(str::to_owned).into());
    let files = ["cmake", "libpmix.so", "libpmix.so.2", "pkgconfig", "pmi", "prrte"].map(str::to_owned);
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
    let version = by_pkg_config(&prefix, "", &program);
    assert!(version.contains("pmix-dstore"), "{version}");
    let needed = said(Command::new("readelf").arg("-d").arg(&program));
    assert!(needed.contains("[libpmix.so.2]"), "{needed}");
    // In a process with both libraries the version is the stock library's, and what else is called is this one's.
    let joined = said(Command::new(&program).env("LD_LIBRARY_PATH", &facade));
    assert!(joined.contains("OpenPMIx 4.2.2") && !joined.contains("pmix-dstore"), "{joined}");
    assert_ne!(joined, version);
}

#[test]
fn spaces_and_quotes_in_the_name_and_a_move_do_no_harm() {
    let directory = tempfile::tempdir().expect("a directory");
    let prefix = directory.path().join("it's \"our\" new");
    install(&prefix);
    let expected = by_pkg_config(&prefix, "", &directory.path().join("first"));
    assert!(expected.contains("pmix-dstore"), "{expected}");
    assert_eq!(by_cmake(&prefix, &directory.path().join("second")), expected);
    let module_of = |name: &str, before: &Path| {
        let versions = before.join("share/modulefiles").join(name);
        module(&versions.join(env!("CARGO_PKG_VERSION")))
    };
    let commands = module_of("pmix-dstore", &prefix);
    let shown = format!("{{{}/lib}}", prefix.display());
    assert!(commands.contains(&format!("prepend-path LD_LIBRARY_PATH {shown}\n")), "{commands}");
    let commands = module_of("pmix-dstore-prrte", &prefix);
    let shown = format!("{{{}/lib/prrte}}", prefix.display());
    assert!(commands.contains(&format!("setenv PRTE_MCA_plm_ssh_pass_libpath {shown}\n")), "{commands}");

    // The name may have blanks where the tools of the C language relocate it.
    let moved = directory.path().join("another place");
    fs::rename(&prefix, &moved).expect("a move");
    assert_eq!(by_pkg_config(&moved, "--define-prefix", &directory.path().join("third")), expected);
    assert_eq!(by_cmake(&moved, &directory.path().join("fourth")), expected);

    // Packages are put together below another directory, which no file names.
    let packed = directory.path().join("it's packed");
    let ended = make("install", Path::new("/opt/a b"), Some(&packed));
    assert!(ended.status.success(), "{ended:?}");
    let root = packed.join("opt/a b");
    let commands = module_of("pmix-dstore", &root);
    assert!(commands.contains("prepend-path LD_LIBRARY_PATH {/opt/a b/lib}\n"), "{commands}");
    for (path, content) in tree(&root) {
        let is_named = content.windows(9).any(|window| window == b"it's pack");
        assert!(!is_named, "{}", path.display());
    }
    assert!(make("uninstall", Path::new("/opt/a b"), Some(&packed)).status.success());
    assert!(names(&packed.join("opt")).is_empty());
}

#[test]
fn a_running_job_keeps_its_library_while_another_is_installed() {
    let directory = tempfile::tempdir().expect("a directory");
    let prefix = directory.path().join("pmix");
    install(&prefix);
    let library = prefix.join("lib/libpmix.so.2");
    let mut mapped = fs::File::open(&library).expect("the library");
    let content = fs::read(&library).expect("the library");
    // A file that the release before has had, and one of somebody else's.
    let manifest = prefix.join("share/pmix-dstore/manifest");
    let listed = fs::read_to_string(&manifest).expect("a manifest");
    fs::write(&manifest, format!("{listed}lib/former/\nlib/former/file\n")).expect("a manifest");
    fs::create_dir(prefix.join("lib/former")).expect("a directory");
    fs::write(prefix.join("lib/former/file"), "").expect("a file");
    fs::write(prefix.join("lib/libother.so"), "").expect("a file");
    install(&prefix);
    assert_ne!(mapped.metadata().expect("a file").ino(), fs::metadata(&library).expect("a file").ino());
    let mut kept = Vec::new();
    mapped.read_to_end(&mut kept).expect("a file");
    assert_eq!(kept, content);
    assert!(!prefix.join("lib/former").exists() && prefix.join("lib/libother.so").exists());
    assert_eq!(fs::read_to_string(&manifest).expect("a manifest"), listed);
    let hidden = |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
    let left: Vec<_> = tree(&prefix).into_keys().filter(hidden).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn uninstall_leaves_what_was_there_before() {
    let directory = tempfile::tempdir().expect("a directory");
    let prefix = directory.path().join("pmix");
    fs::create_dir_all(prefix.join("share/man/man1")).expect("a directory");
    fs::write(prefix.join("share/man/man1/other.1"), "other").expect("a file");
    let before = tree(directory.path());
    for times in [1, 2] {
        for _ in 0..times {
            install(&prefix);
        }
        let licences = names(&prefix.join("share/doc/pmix-dstore"));
        assert_eq!(licences, ["LICENSE", "THIRD-PARTY-LICENSES"].map(str::to_owned).into());
        let ended = make("uninstall", &prefix, None);
        assert!(ended.status.success() && ended.stdout.is_empty(), "{ended:?}");
        assert_eq!(tree(directory.path()), before);
    }
    let ended = make("uninstall", &prefix, None);
    let text = String::from_utf8_lossy(&ended.stderr);
    assert!(!ended.status.success() && text.contains("nothing to remove"), "{text}");

    // An installation that ends in the middle, here at a directory in the place of a program, can be removed as well.
    fs::create_dir_all(prefix.join("bin/pmixrun/mine")).expect("a directory");
    let before = tree(directory.path());
    assert!(!make("install", &prefix, None).status.success());
    assert!(prefix.join("bin/pmixctl").exists());
    let ended = make("uninstall", &prefix, None);
    let text = String::from_utf8_lossy(&ended.stdout);
    assert!(ended.status.success() && text.contains("bin/pmixrun stays: it has become a directory"), "{ended:?}");
    assert_eq!(tree(directory.path()), before);
}

#[test]
fn what_cannot_be_installed_or_removed_is_refused_before_a_file_is_written() {
    let directory = tempfile::tempdir().expect("a directory");
    let tools = pmixrun();
    let built = tools.parent().expect("a directory");
    for part in ["a:b", "a$b", "a\\b", "a`b", "a#b", "a\nb", "a;b"] {
        let prefix = format!("{}/{part}", directory.path().display());
        assert!(refusal(&prefix, built).contains("choose another directory"), "{part}");
    }
    let prefix = directory.path().join("pmix");
    let text = refusal(prefix.to_str().expect("text"), directory.path());
    assert!(text.contains("libpmix.so is not there: run `make build` first"), "{text}");
    assert!(names(directory.path()).is_empty());
    for path in ["../kept", "/kept", "lib/../../kept", ".."] {
        fs::create_dir_all(prefix.join("share/pmix-dstore")).expect("a directory");
        fs::write(prefix.join("share/pmix-dstore/manifest"), format!("share/\n{path}\n")).expect("a file");
        fs::write(directory.path().join("kept"), "").expect("a file");
        let text = refusal(prefix.to_str().expect("text"), Path::new("--remove"));
        assert!(text.contains("names a path outside of"), "{path}: {text}");
        assert!(directory.path().join("kept").exists());
    }
}

#[test]
fn what_is_built_needs_no_newer_glibc_than_the_documents_say() {
    let tools = pmixrun();
    let mut directories = vec![tools.parent().expect("a directory").to_owned()];
    directories.extend(std::env::var_os("PMIX_TEST_RELEASE").map(PathBuf::from));
    let document = fs::read_to_string(repository().join("docs/install.md")).expect("a document");
    let stated = document.split_once("with glibc ").and_then(|(_, rest)| rest.split(' ').next()).expect("a release");
    let number = |release: &str| -> Vec<u32> {
        release.trim().split('.').map(|part| part.parse().unwrap_or_else(|_| panic!("{release}"))).collect()
    };
    for directory in directories {
        let mut command = Command::new(repository().join("packaging/glibc"));
        let needed = said(command.args(["libpmix.so", "pmixrun", "pmixctl"].map(|file| directory.join(file))));
        assert!(number(&needed) <= number(stated), "{}: {needed}", directory.display());
    }
    let ended = Command::new(repository().join("packaging/glibc")).arg(repository().join("Makefile")).output();
    assert!(!ended.expect("bash runs").status.success(), "a file that is no program");
}
