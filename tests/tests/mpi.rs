//! The MPI program of the demonstration, unmodified, under our launcher and others.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use nix::unistd::geteuid;
use pmix_tests::{Ended, Library, Run, pmixrun, program, repository};

/// Asserts that the ring went round `size` ranks, of which each had mapped one of `libraries`, `size` in all.
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
        let ended = Run::new(pmixrun(), library).args("-n 3").arg(program("client")).args(args).succeed();
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

/// Asserts that all ranks were served by a library.
fn assert_served(ended: &Ended, size: usize, server: Library) {
    let expected = if server == Library::Stock { 0 } else { size };
    assert_eq!(ended.count("under a server that offers pmix-dstore"), expected, "{server:?}: {ended}");
}

/// Each side's library, with ours on one side at least.
fn sides() -> [(Library, Library); 3] {
    [(Library::ours(), Library::ours()), (Library::Stock, Library::ours()), (Library::ours(), Library::Stock)]
}

#[test]
fn mpirun_with_our_library_on_either_side() {
    for (server, ranks) in sides() {
        let ended = Run::new("mpirun", server)
            .env("RING_LIBRARY", "1")
            .args("--oversubscribe -np 4 env")
            .arg(format!("LD_LIBRARY_PATH={}", ranks.directory().display()))
            .arg(program("ring"))
            .succeed();
        assert_ring(&ended, 4, &[(ranks, 4)]);
        assert_served(&ended, 4, server);
    }
}

#[test]
fn srun_with_our_library_on_either_side() {
    if !geteuid().is_root() {
        eprintln!("left out: starting Slurm's daemons takes root");
        return;
    }
    // Four ranks on one node, on two in turn, unevenly on three; each with the modex in a fence and direct.
    let layouts = ["-N 1 -n 4", "-N 2 --ntasks-per-node=2 -m cyclic", "-N 3 -n 4 -m block"];
    let steps: Vec<String> = ["0", "1"]
        .iter()
        .flat_map(|modex| layouts.map(|layout| format!("OMPI_MCA_pmix_base_async_modex={modex} srun {layout} \"$0\"")))
        .collect();
    for (server, ranks) in sides() {
        let mut run = Run::new(repository().join("tests/slurm/cluster.sh"), ranks)
            .env("RING_LIBRARY", "1")
            // Debian's Slurm ends a fence of the other kind on each node alone, whatever the library.
            .env("SLURM_PMIX_FENCE", "ring")
            .args("--nodes 3");
        if server != Library::Stock {
            run = run.arg("--lib").arg(server.directory());
        }
        let ended = run.args("bash -ec").arg(steps.join("\n")).arg(program("ring")).succeed();
        assert_eq!(ended.count("ring of 4 ranks done"), steps.len(), "{ended}");
        assert_eq!(ended.count("FAIL"), 0, "{ended}");
        let library = format!("library {}", ranks.file().display());
        assert_eq!(ended.count(&library), 4 * steps.len(), "{ranks:?}: {ended}");
        assert_served(&ended, 4 * steps.len(), server);
        for node in ["n0", "n1", "n2"] {
            assert!(ended.count(&format!(" of 4 on {node};")) >= 2, "{ended}");
        }
        assert!(!ended.left, "{ended}");
    }
}
