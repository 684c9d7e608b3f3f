//! Programs of PMI-1 and PMI-2 under Slurm: those that are linked to its libraries, with ours over PMIx, and MPICH's over Slurm's own.

use pmix_tests::{Cluster, Library, Pair, ROOT, left_out, mpich_program, pmi_library, pmi_program};

#[test]
fn programs_linked_to_slurms_libraries_run_over_pmix() {
    let Some(cluster) = Cluster::start(2) else { return };
    for server in [Library::ours(), Library::Stock] {
        let pair = Pair { server, ranks: Library::ours() };
        for (name, soname, layouts) in [
            ("pmi1", "libpmi.so.0", &["-N 1 -n 4", "-N 2 -n 4 --ntasks-per-node 2"][..]),
            ("pmi2", "libpmi2.so.0", &["-N 1 -n 4"]),
        ] {
            for layout in layouts {
                let run = cluster.srun(pair, ROOT, layout).arg("env");
                let run = run.arg(format!("LD_LIBRARY_PATH={}", pmi_library().display()));
                let placed = if layout.contains("-N 2") { "MAPPING=(vector,(0,2,2)) CLIQUE=2" } else { "" };
                // Slurm publishes no names.
                let ended = run.arg("NO_NAMES=1").args(placed).arg(pmi_program(name, soname)).succeed();
                let counts = (ended.count(" of 4 done"), ended.count("FAIL"));
                assert_eq!(counts, (4, 0), "{name} {layout} {pair}: {ended}");
            }
        }
    }
    cluster.end();
}

#[test]
fn ranks_of_mpich_run_over_slurms_own_pmi2() {
    let Some(program) = mpich_program() else {
        return left_out("packages", "libmpich12, whose ranks speak PMI-1, is not installed");
    };
    let Some(cluster) = Cluster::start(1) else { return };
    let run = cluster.command(ROOT, "srun", Library::ours()).args("--mpi=pmi2 -n 4");
    let ended = run.arg(program).succeed();
    assert_eq!((ended.count(" of 4 done"), ended.count("FAIL")), (4, 0), "{ended}");
    cluster.end();
}
