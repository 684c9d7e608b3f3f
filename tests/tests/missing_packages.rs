//! What `.ci/deps` decides, with a package manager of the test's own: when it installs, when it only names, and when it refuses.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use std::process::Command;

use pmix_tests::repository;
use tempfile::TempDir;

/// What the simulation says of packages that are new.
const NEW: &str =
    "Inst cmake (3.25 Debian:12/stable [amd64])\nInst libuv1 (1.44 Debian:12/stable [amd64]) [cmake:amd64 ]\n";
/// The simulation of a package of the newest release, which brings systemd along.
const UPGRADES: &str =
    "Inst systemd [252.38] (252.39 Debian:12/stable [amd64]) []\nInst libudev-dev (252.39 Debian:12/stable [amd64])\n";

/// A machine on which programs are replaced; all that its `apt-get` is asked to do stands in a file.
struct Machine {
    directory: TempDir,
}

impl Machine {
    /// A Debian system with root, a compiler and cargo, where all packages are installed except these.
    fn without(missing: &[&str]) -> Machine {
        let machine = Machine { directory: tempfile::tempdir().expect("a directory") };
        for program in ["bash", "awk", "env", "grep"] {
            let file = ["/usr/bin", "/bin"].map(|directory| PathBuf::from(directory).join(program));
            let file = file.iter().find(|file| file.exists()).expect("a program of every system");
            symlink(file, machine.directory.path().join(program)).expect("a link");
        }
        machine.program("cargo", "");
        machine.program("cc", "");
        machine.program("id", "echo 0");
        let names = if missing.is_empty() { "none".into() } else { missing.join("|") };
        machine.program("dpkg-query", &format!("case \"$4\" in {names}) exit 1;; esac; echo installed"));
        machine.program("apt-cache", "");
        machine.apt(NEW, "");
        machine
    }

    fn program(&self, name: &str, script: &str) {
        let file = self.directory.path().join(name);
        fs::write(&file, format!("#!/bin/bash\n{script}\n")).expect("a file");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).expect("permissions");
    }

    fn remove(&self, name: &str) {
        fs::remove_file(self.directory.path().join(name)).expect("it was there");
    }

    /// `apt-get` whose simulation says `simulated`; `special` runs before.
    fn apt(&self, simulated: &str, special: &str) {
        let asked = self.directory.path().join("asked");
        self.program(
            "apt-get",
            &format!(
                "echo \"$*\" >> '{}'\n{special}\ncase \" $* \" in *' -s '*) echo -n '{simulated}';; esac",
                asked.display()
            ),
        );
    }

    /// Whether `.ci/deps` succeeds, what it says, and what it had `apt-get` do, without simulations.
    fn deps(&self, arguments: &str) -> (bool, String, Vec<String>) {
        let mut command = Command::new(repository().join(".ci/deps"));
        command.args(arguments.split(' ')).env_clear().env("PATH", self.directory.path());
        let output = command.output().expect("bash runs");
        let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).expect("text")).concat();
        let asked = fs::read_to_string(self.directory.path().join("asked")).unwrap_or_default();
        let done = asked.lines().filter(|line| !line.contains(" -s ")).map(str::to_owned).collect();
        (output.status.success(), said, done)
    }
}

#[test]
fn nothing_is_asked_where_nothing_is_missing() {
    for set in ["build", "check", "run", "test", "apps", "--check build", "--check test", "--upgrade test"] {
        assert_eq!(Machine::without(&[]).deps(set), (true, String::new(), Vec::new()), "{set}");
    }
}

#[test]
fn a_build_names_what_is_missing_and_changes_nothing() {
    let machine = Machine::without(&["gcc"]);
    machine.program("cc", "exit 1");
    let (succeeds, said, done) = machine.deps("--check build");
    assert!(!succeeds && done.is_empty(), "{said}{done:?}");
    assert!(
        said.contains("missing packages; run as root: apt-get install -y --no-install-recommends gcc libc6-dev\n"),
        "{said}"
    );
    // A compiler that no package of this name has will do; what tests alone need is not asked for.
    let machine = Machine::without(&["gcc", "libc6-dev", "libhwloc-dev", "libudev-dev", "pkg-config"]);
    assert_eq!(machine.deps("--check build"), (true, String::new(), Vec::new()));
    let (succeeds, said, done) = machine.deps("--check test");
    assert!(!succeeds && done.is_empty(), "{said}{done:?}");
    assert!(said.contains("pkg-config libhwloc-dev libudev-dev"), "{said}");
    machine.remove("cargo");
    let (succeeds, said, _) = machine.deps("--check build");
    assert!(!succeeds && said.contains("cargo is missing"), "{said}");
}

#[test]
fn the_targets_of_a_build_only_check() {
    let mut make = Command::new("make");
    make.current_dir(repository()).args(["-n", "install", "CARGO=:"]).env("MAKEFLAGS", "");
    let output = make.output().expect("make runs");
    let steps = String::from_utf8_lossy(&output.stdout);
    let asked: Vec<_> = steps.lines().filter(|line| line.contains(".ci/deps") || line.contains("apt")).collect();
    assert_eq!(asked, [".ci/deps --check build"], "{steps}");
}

#[test]
fn what_is_missing_is_named_and_then_installed() {
    let (succeeds, said, done) = Machine::without(&["cmake", "tcl"]).deps("test");
    assert!(succeeds, "{said}");
    assert!(said.starts_with("missing packages, which are installed now: cmake tcl\n"), "{said}");
    assert_eq!(done, ["update", "install -y --no-install-recommends --no-remove cmake tcl"]);
}

#[test]
fn nothing_is_installed_that_would_change_an_installed_package() {
    for (simulated, named) in [
        (UPGRADES, "  systemd 252.38 would become 252.39\n"),
        ("Remv nano [7.2]\nInst libudev-dev (252.39 Debian)\n", "  nano would be removed\n"),
    ] {
        let machine = Machine::without(&["libudev-dev"]);
        machine.apt(simulated, "");
        let (succeeds, said, done) = machine.deps("test");
        assert!(!succeeds && said.contains(named) && said.contains("Nothing was installed"), "{said}");
        assert!(said.contains(".ci/deps --upgrade test\n"), "{said}");
        assert_eq!(done, ["update"]);
        // The word of whoever owns the machine.
        let (succeeds, said, done) = machine.deps("--upgrade test");
        assert!(succeeds, "{said}");
        assert_eq!(done.last().expect("a call"), "install -y --no-install-recommends libudev-dev");
    }
}

#[test]
fn an_older_version_is_taken_where_the_newest_would_upgrade() {
    let machine = Machine::without(&["libudev-dev", "cmake"]);
    let older = "case \" $* \" in *' -s '*libudev-dev=252.38*) echo 'Inst libudev-dev (252.38 Debian)'; exit;; \
                 *' -s '*libudev-dev*) ;; *' -s '*) echo 'Inst cmake (3.25 Debian)'; exit;; esac";
    machine.apt(UPGRADES, older);
    machine.program(
        "apt-cache",
        "echo ' libudev-dev | 252.39 | a'; echo ' libudev-dev | 252.40 | b'; echo ' libudev-dev | 252.38 | c'",
    );
    let (succeeds, said, done) = machine.deps("test");
    assert!(succeeds, "{said}");
    assert!(said.contains("installing libudev-dev=252.38 cmake\n"), "{said}");
    assert_eq!(done, ["update", "install -y --no-install-recommends --no-remove libudev-dev=252.38 cmake"]);
}

#[test]
fn an_older_version_of_what_comes_along_is_taken_too() {
    let machine = Machine::without(&["libopenmpi-dev"]);
    let upgrades = "Inst libevent [8] (9 Debian)\nInst libevent-dev (9 Debian)\nInst libopenmpi-dev (4.1 Debian)\n";
    let older = "case \" $* \" in *' -s '*libevent-dev=8*) echo 'Inst libevent-dev (8 Debian)'; exit;; esac";
    machine.apt(upgrades, older);
    machine.program("apt-cache", "echo \" $2 | 9 | a\"; echo \" $2 | 8 | b\"");
    let (succeeds, said, done) = machine.deps("test");
    assert!(succeeds, "{said}");
    assert_eq!(done, ["update", "install -y --no-install-recommends --no-remove libopenmpi-dev libevent-dev=8"]);
    // The archive has no such version.
    machine.program("apt-cache", "echo \" $2 | 9 | a\"");
    let (succeeds, said, _) = machine.deps("test");
    assert!(!succeeds && said.contains("  libevent 8 would become 9\n"), "{said}");
}

#[test]
fn a_simulation_that_fails_is_a_refusal() {
    let machine = Machine::without(&["cmake"]);
    machine.apt("", "case \" $* \" in *' -s '*) echo 'E: Unable to locate package cmake' >&2; exit 100;; esac");
    let (succeeds, said, done) = machine.deps("test");
    assert!(!succeeds && said.contains("cannot install cmake; nothing was installed"), "{said}");
    assert!(said.contains("E: Unable to locate package cmake"), "{said}");
    assert_eq!(done, ["update"]);
}

#[test]
fn lists_that_cannot_be_updated_do_and_an_installation_that_fails_is_said() {
    let machine = Machine::without(&["cmake"]);
    machine.apt(NEW, "if [ \"$1\" = update ]; then exit 100; fi");
    let (succeeds, said, done) = machine.deps("test");
    assert!(succeeds && said.contains("could not be updated") && done.len() == 2, "{said}{done:?}");
    machine.apt(NEW, "case \" $* \" in *' -s '*) ;; *) exit 100;; esac");
    let (succeeds, said, _) = machine.deps("test");
    assert!(!succeeds && said.contains("installing failed; needed: cmake\n"), "{said}");
}

#[test]
fn without_root_or_without_apt_it_is_named() {
    for take in [|machine: &Machine| machine.program("id", "echo 1000"), |machine: &Machine| machine.remove("apt-get")]
    {
        let machine = Machine::without(&["cmake"]);
        take(&machine);
        let (succeeds, said, done) = machine.deps("test");
        assert!(!succeeds && done.is_empty(), "{said}{done:?}");
        assert!(
            said.contains("missing packages; run as root: apt-get install -y --no-install-recommends cmake\n"),
            "{said}"
        );
    }
    // Where there are no packages at all, what they hold may be there all the same.
    let machine = Machine::without(&[]);
    machine.remove("dpkg-query");
    let (succeeds, said, done) = machine.deps("run");
    assert!(succeeds && done.is_empty() && said.contains("openmpi-bin libopenmpi-dev"), "{said}{done:?}");
    machine.program("cc", "exit 1");
    let (succeeds, said, _) = machine.deps("--check build");
    assert!(!succeeds && said.contains("a C compiler is missing"), "{said}");
}
