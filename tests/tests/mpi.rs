//! The MPI program of the demonstration, unmodified, under our launcher and others.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use pmix_tests::{Ended, Library, Pair, Run, pmixrun, program};

/// The output line of a rank under our server.
const SERVED_BY_OURS: &str = "under a server that offers pmix-dstore";

/// Asserts that the ring passed `size` ranks, and that they had mapped `libraries`, each in the given number of ranks.
fn assert_ring(ended: &Ended, size: usize, libraries: &[(Library, usize)]) {
    assert_eq!(ended.code(), 0, "{ended}");
    assert_eq!(ended.count(&format!("ring of {size} ranks done")), 1, "{ended}");
    assert_eq!(ended.count(&format!(" of {size} on ")), size, "{ended}");
    assert_eq!(ended.count("FAIL"), 0, "{ended}");
    for (library, count) in libraries {
        let file = library.file();
        assert_eq!(ended.count(&format!("library {}", file.display())), *count, "{library:?}: {ended}");
    }
}

fn ring(args: &str, library: Library) -> Run {
    Run::new(pmixrun(), library).env("RING_LIBRARY", "1").args(args).arg(program("ring"))
}

/// The report of `--json`.
fn report(ended: &Ended) -> serde_json::Value {
    let line = ended.stderr.lines().find(|line| line.starts_with('{'));
    serde_json::from_str(line.unwrap_or_else(|| panic!("no report: {ended}"))).expect("the report is JSON")
}

#[test]
fn ranks_on_our_library_use_shared_memory() {
    for size in [1, 2, 4, 32] {
        let ended = ring(&format!("-n {size} --json"), Library::ours()).succeed();
        assert_ring(&ended, size, &[(Library::ours(), size)]);
        let report = report(&ended);
        assert_eq!(report["clients_shared_memory"], size, "{ended}");
        assert_eq!(report["clients_socket_only"], 0, "{ended}");
    }
}

#[test]
fn many_ranks() {
    let ended = ring("-n 128 --json", Library::ours()).succeed();
    assert_ring(&ended, 128, &[(Library::ours(), 128)]);
    assert_eq!(report(&ended)["clients_shared_memory"], 128, "{ended}");
}

#[test]
fn bound_ranks() {
    let ended = ring("-n 3 --bind-to core", Library::ours()).succeed();
    assert_ring(&ended, 3, &[(Library::ours(), 3)]);
}

/// How many files below `/sys` the ranks of a job open.
fn looks_at_the_machine(size: usize, library: Library) -> usize {
    let traces = tempfile::tempdir().expect("a temporary directory");
    let run = Run::new(pmixrun(), library).args(&format!("-n {size} strace -ff -e trace=openat -o"));
    let ended = run.arg(traces.path().join("of")).arg(program("ring")).succeed();
    assert_ring(&ended, size, &[]);
    let files = fs::read_dir(traces.path()).expect("strace has written");
    let texts = files.map(|file| fs::read_to_string(file.expect("a trace").path()).expect("a trace is text"));
    texts.map(|text| text.lines().filter(|line| line.contains("\"/sys/")).count()).sum()
}

/// One rank alone gets no topology from the launcher and discovers the machine itself: it is the measure.
#[test]
fn ranks_have_the_topology_from_the_launcher() {
    for library in [Library::ours(), Library::Stock] {
        let (alone, four) = (looks_at_the_machine(1, library), looks_at_the_machine(4, library));
        assert!(four < alone, "{library:?}: one rank opens {alone} files below /sys, four ranks open {four}");
    }
}

#[test]
fn ranks_on_the_stock_library() {
    for size in [1, 4] {
        let ended = ring(&format!("-n {size} --json"), Library::Stock).succeed();
        assert_ring(&ended, size, &[(Library::Stock, size)]);
        assert_eq!(report(&ended)["clients_socket_only"], size, "{ended}");
    }
}

#[test]
fn the_launcher_hosts_the_checks_of_a_client() {
    for (library, args) in [(Library::ours(), "--strict --reput"), (Library::Stock, "--reput")] {
        let ended = Run::ranks(3, program("client"), library).args(args).succeed();
        assert_eq!(ended.count(" checks, 0 failed"), 3, "{ended}");
        assert_eq!(ended.count("FAIL"), 0, "{ended}");
    }
}

/// A script that runs its arguments, odd ranks with the stock library.
fn half_stock() -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let script = directory.path().join("half-stock");
    let stock = Library::Stock.directory();
    let text =
        format!("#!/bin/sh\n[ $((PMIX_RANK % 2)) -eq 0 ] || export LD_LIBRARY_PATH={}\nexec \"$@\"\n", stock.display());
    fs::write(&script, text).expect("the script is written");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).expect("the script becomes executable");
    (directory, script)
}

#[test]
fn half_of_the_ranks_on_each_library() {
    let (_directory, script) = half_stock();
    let ended = Run::new(pmixrun(), Library::ours())
        .env("RING_LIBRARY", "1")
        .args("-n 4 --json")
        .arg(script)
        .arg(program("ring"))
        .succeed();
    assert_ring(&ended, 4, &[(Library::ours(), 2), (Library::Stock, 2)]);
    let report = report(&ended);
    assert_eq!(report["clients_shared_memory"], 2, "{ended}");
    assert_eq!(report["clients_socket_only"], 2, "{ended}");
}

#[test]
fn shared_memory_can_be_turned_off() {
    let ended = ring("-n 2 --json", Library::ours()).env("PMIX_DSTORE_SHM", "0").succeed();
    assert_ring(&ended, 2, &[(Library::ours(), 2)]);
    assert_eq!(report(&ended)["clients_shared_memory"], 0, "{ended}");
}

#[test]
fn an_mpi_abort_ends_the_job() {
    for library in [Library::ours(), Library::Stock] {
        let ended = ring("-n 3", library).env("RING_ABORT", "1").run();
        assert_eq!(ended.code(), 3, "{ended}");
        assert!(ended.stderr.contains("rank 1 (pid "), "{ended}");
        assert!(!ended.left, "{ended}");
    }
}

#[test]
fn a_killed_rank_ends_the_job() {
    let ended = ring("-n 3", Library::ours()).env("RING_DIE", "2").run();
    assert_eq!(ended.code(), 137, "{ended}");
    assert!(ended.stderr.contains("rank 2 (pid ") && ended.stderr.contains("SIGKILL"), "{ended}");
    assert!(!ended.left, "{ended}");
}

#[test]
fn mpirun_with_our_library_on_either_side() {
    for Pair { server, ranks } in Pair::all() {
        let ended = Run::new("mpirun", server)
            .env("RING_LIBRARY", "1")
            .args("--oversubscribe -np 4 env")
            .arg(format!("LD_LIBRARY_PATH={}", ranks.directory().display()))
            .arg(program("ring"))
            .succeed();
        assert_ring(&ended, 4, &[(ranks, 4)]);
        assert_eq!(ended.count(SERVED_BY_OURS), if server == Library::Stock { 0 } else { 4 }, "{server:?}: {ended}");
    }
}
