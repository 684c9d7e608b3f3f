//! Slurm's default for a fence without data: it does not synchronise, unless the server requests it as a fence with data
//! (`server/src/engine/slurm.rs`). `TreeWidth` has its default here, and no setting selects an algorithm.
//!
//! `make test-slurm` runs these with `slurm.rs`; `make test-slurm-fence` runs the one with hundreds of jobs.

use std::collections::BTreeMap;

use pmix_tests::{Cluster, Ended, Library, Pair, ROOT, Run, program};

const NODES: usize = 4;

/// The times at which ranks entered a fence and left it, in nanoseconds.
#[derive(Default)]
struct Fence {
    came: Vec<u64>,
    left: Vec<u64>,
}

/// The fences of a job of `fences`.
fn fences_of(ended: &Ended) -> BTreeMap<usize, Fence> {
    let mut fences = BTreeMap::<usize, Fence>::new();
    for line in ended.stdout.lines() {
        if let ["rank", _, "fence", number, "came", came, "left", left] = line.split(' ').collect::<Vec<_>>()[..] {
            let number_of = |text: &str| text.parse::<u64>().expect("a number");
            let fence = fences.entry(number_of(number) as usize).or_default();
            fence.came.push(number_of(came));
            fence.left.push(number_of(left));
        }
    }
    fences
}

/// A step of `size` ranks of the program `fences`. Each node has its current server.
fn step(cluster: &Cluster, ranks: Library, size: usize, fences: &str) -> Run {
    let srun = cluster.command(ROOT, "srun", ranks).args("--quiet --mpi=pmix -N 4 -m cyclic");
    srun.args(&format!("-n {size}")).arg(program("fences")).args(fences)
}

/// Asserts that a step of `fences` succeeded, and returns the numbers of the fences that some rank left before another entered.
fn open_fences(ended: &Ended, size: usize) -> Vec<usize> {
    assert_eq!((ended.code(), ended.count(" done"), ended.count("FAIL")), (0, size, 0), "{ended}");
    let is_open = |fence: &Fence| fence.left.iter().min() < fence.came.iter().max();
    fences_of(ended).into_iter().filter(|(_, fence)| is_open(fence)).map(|(number, _)| number).collect()
}

#[test]
fn a_late_rank_holds_the_others_in_fences_without_data() {
    let Some(cluster) = Cluster::start(NODES) else { return };
    // The first fence is of all ranks, with data, as that of `MPI_Init` is.
    const FENCES: &str = "collect all:0 all:5 collect:2 all:1 all:3 all:0";
    for ranks in [Library::ours(), Library::Stock] {
        cluster.serve(Library::ours());
        let ended = step(&cluster, ranks, 6, FENCES).env("FENCES_OURS", "1").run();
        assert_eq!(open_fences(&ended, 6), [0; 0], "{ended}");
    }
    cluster.end();
}

#[test]
fn the_administrator_says_that_all_nodes_have_this_library() {
    const SETTING: &str = "PMIxEnv=PMIX_DSTORE_SLURM_FENCE=always";
    let Some(cluster) = Cluster::start_with(NODES, SETTING) else { return };
    cluster.serve(Library::ours());
    let ended = step(&cluster, Library::ours(), 4, "all:0 all:3 collect all:1").env("FENCES_OURS", "1").run();
    assert_eq!(open_fences(&ended, 4), [0; 0], "{ended}");
    cluster.end();
}

#[test]
fn steps_with_different_servers_do_not_hang() {
    let Some(cluster) = Cluster::start(NODES) else { return };
    let (ours, stock) = (Library::ours(), Library::Stock);
    for (most, others) in [(ours, stock), (stock, ours)] {
        cluster.serve(most);
        cluster.serve_on(0, others);
        for ranks in [ours, stock] {
            let what = format!("{most:?}, {others:?} on n0, ranks {ranks:?}");
            let fences = "collect all all:1 collect:3 all:0 all";
            // By default Slurm ends a fence without data on each node separately; with a ring all nodes wait for each
            // other.
            let ended = step(&cluster, ranks, 4, fences).run();
            open_fences(&ended, 4);
            let ended = step(&cluster, ranks, 4, fences).env("SLURM_PMIX_FENCE", "ring").run();
            assert_eq!(open_fences(&ended, 4), [0; 0], "{what}: {ended}");
            let mpi = || cluster.command(ROOT, "srun", ranks).args("--quiet --mpi=pmix -N 4 -n 4").arg(program("mpi"));
            let ended = mpi().env("SLURM_PMIX_FENCE", "ring").arg("collectives").run();
            assert_eq!((ended.code(), ended.count(" done"), ended.count("FAIL")), (0, 4, 0), "{what}: {ended}");
        }
    }
    cluster.end();
}

/// The number of MPI jobs of the long test for each pair.
const JOBS: usize = 100;

#[test]
#[ignore = "hundreds of jobs: make test-slurm-fence"]
fn hundreds_of_mpi_jobs_with_default_fences() {
    let Some(cluster) = Cluster::start(NODES) else { return };
    let jobs = std::env::var("PMIX_TEST_JOBS").map_or(JOBS, |jobs| jobs.parse().expect("PMIX_TEST_JOBS is a number"));
    let [both, server, _] = Pair::all();
    for pair in [both, server] {
        let failed: Vec<_> = (0..jobs)
            .map(|_| cluster.job(pair, ROOT, "-N 4 -n 8 -m cyclic", "collectives").run())
            .filter(|ended| (ended.code(), ended.count(" done"), ended.count("FAIL")) != (0, 8, 0))
            .collect();
        eprintln!("{pair}: {} of {jobs} jobs failed", failed.len());
        assert!(failed.is_empty(), "{pair}: {} of {jobs} jobs failed: {}", failed.len(), failed[0]);
    }
    cluster.end();
}
