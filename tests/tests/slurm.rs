//! Debian's Slurm, unmodified, on several nodes made of namespaces (`tests/slurm/cluster.sh`), with our library in
//! slurmstepd, in the ranks, or in both.
//!
//! `make test-slurm` runs these alone. With `PMIX_TEST_LARGE=1` they are larger.

use pmix_tests::{Cluster, Pair, ROOT};

#[test]
fn srun_with_our_library_on_either_side() {
    let Some(cluster) = Cluster::start(3) else { return };
    // Four ranks on one node, on two in turn, unevenly on three; each with the modex in a fence and direct.
    for layout in ["-N 1 -n 4", "-N 2 --ntasks-per-node=2 -m cyclic", "-N 3 -n 4 -m block"] {
        for modex in ["0", "1"] {
            for pair in Pair::all() {
                let job = cluster.job(pair, ROOT, layout, "collectives");
                // Debian's Slurm ends a fence of the other kind on each node alone, whatever the library.
                let ended = job.env("SLURM_PMIX_FENCE", "ring").env("OMPI_MCA_pmix_base_async_modex", modex).run();
                cluster.assert_well(pair, ROOT, &ended, 4);
            }
        }
    }
    cluster.end();
}
