//! Debian's Slurm, unmodified, on several nodes made of namespaces (`tests/slurm/cluster.sh`), with our library in
//! slurmstepd, in the ranks, or in both.
//!
//! `make test-slurm` runs these alone. With `PMIX_TEST_LARGE=1` they are larger.

use nix::unistd::geteuid;
use pmix_tests::{Library, Pair, Run, program, repository};

/// What a rank of the ring says where its server is ours.
const SERVED_BY_OURS: &str = "under a server that offers pmix-dstore";

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
    for Pair { server, ranks } in Pair::all() {
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
        let served = if server == Library::Stock { 0 } else { 4 * steps.len() };
        assert_eq!(ended.count(SERVED_BY_OURS), served, "{server:?}: {ended}");
        for node in ["n0", "n1", "n2"] {
            assert!(ended.count(&format!(" of 4 on {node};")) >= 2, "{ended}");
        }
        assert!(!ended.left, "{ended}");
    }
}
