//! Open MPI 5 with its PRRTE, from another Debian release in a directory that `PMIX_TEST_OPENMPI5` names. Its mpirun
//! serves with the stock library of that release; the ranks have ours.
//!
//! `make test-openmpi5 ROOT=DIRECTORY` runs only these, and makes the directory if it does not exist. `docs/interop.md`
//! has the results.

use std::time::Duration;

use pmix_tests::foreign::{self, PRRTE_STANDS};
use pmix_tests::{Ended, Library, Pair, Root, Run, Traces, left_out, times};

/// The server has the release's library, the ranks have ours.
const PAIR: fn() -> Pair = || Pair { server: Library::Stock, ranks: Library::ours() };
/// An abort takes a second or two.
const STANDS_AFTER: Duration = Duration::from_secs(30);

/// Runs a test if there is such a directory, and reports it as left out otherwise.
fn with_root(test: impl Fn(&Root)) {
    match Root::named() {
        Ok(root) => test(&root),
        Err((what, reason)) => left_out(what, reason),
    }
}

/// A job of `size` ranks with our library.
fn job(root: &Root, traces: &Traces, size: usize, args: &str) -> Run {
    root.mpirun(traces).args(&format!("-np {size}")).args(Root::WITH_OURS).args(args)
}

/// Runs a job, and asserts that it succeeds, has `count` processes that all have our library, and leaves nothing.
fn runs_well(root: &Root, size: usize, args: &str, count: usize) {
    let traces = Traces::begin();
    let ended = job(root, &traces, size, args).run();
    assert_well(&ended, count, count);
    traces.assert_none_left(&ended);
}

/// Asserts that a job of `count` processes succeeded, and that `ours` of them and no daemon had our library.
fn assert_well(ended: &Ended, count: usize, ours: usize) {
    assert_eq!((ended.code(), ended.stderr.as_str()), (0, ""), "{ended}");
    assert_eq!(ended.count(" done"), count, "{ended}");
    assert_eq!(ended.count("FAIL"), 0, "{ended}");
    let identity = Library::ours().identity();
    assert_eq!(ended.count(&format!(": library {identity} daemon ")), ours, "{ended}");
    assert_eq!(ended.count(&format!(" daemon {identity}")), 0, "{ended}");
}

/// Runs a job of two ranks that fails, and asserts that it ends with this status and reason.
fn fails(root: &Root, args: &str, code: i32, reason: &str) {
    let traces = Traces::begin();
    let ended = job(root, &traces, 2, args).run();
    assert_eq!(ended.code(), code, "{ended}");
    assert!(ended.stderr.contains(reason), "{ended}");
    assert!(!ended.stderr.contains("failed inside the library"), "{ended}");
    traces.assert_none_left(&ended);
}

#[test]
fn collectives() {
    with_root(|root| {
        for size in times(vec![2, 8], vec![2, 8, 32]) {
            runs_well(root, size, "collectives", size);
        }
    });
}

#[test]
fn values_that_are_asked_for_before_they_are_put() {
    with_root(|root| {
        for _ in 0..times(2, 20) {
            let traces = Traces::begin();
            let run = root.mpirun(&traces).args("--mca pmix_base_async_modex 1 -np 8").args(Root::WITH_OURS);
            let ended = run.arg("collectives").run();
            assert_well(&ended, 8, 8);
            traces.assert_none_left(&ended);
        }
    });
}

#[test]
fn a_job_of_both_libraries() {
    with_root(|root| {
        let traces = Traces::begin();
        // Every other rank has the library of the release. The stock server keeps one store for the whole job.
        let (ours, theirs) = (Root::WITH_OURS, Root::WITH_THEIRS);
        let script = format!(
            "export PMIX_MCA_gds=hash; case $PMIX_RANK in *[02468]) exec {ours} collectives;; *) exec {theirs} collectives;; esac"
        );
        let ended = root.mpirun(&traces).args("-np 4 sh -c").arg(script).run();
        assert_well(&ended, 4, 2);
        traces.assert_none_left(&ended);
    });
}

#[test]
fn spawned_children() {
    with_root(|root| {
        runs_well(root, 2, "spawn 2 3", 2 + 3 * 2);
        runs_well(root, 4, "spawn 4 1", 4 + 4);
    });
}

#[test]
fn halves_of_a_job_that_meet_by_a_published_name() {
    with_root(|root| {
        runs_well(root, times(4, 16), "rendezvous", times(4, 16));
        runs_well(root, 2, "unpublish", 2);
    });
}

#[test]
fn a_process_without_a_launcher() {
    with_root(|root| {
        let traces = Traces::begin();
        // Open MPI itself leaves its session directory, with the stock library, too.
        let ended = root.enter().traced(&traces).args(Root::WITH_OURS).arg("hello").run();
        assert_well(&ended, 1, 1);
    });
}

#[test]
fn ranks_that_fail() {
    with_root(|root| {
        fails(root, "exit 3", 3, "exited with non-zero status");
        fails(root, "exit 0", 1, "exited without calling \"finalize\"");
        fails(root, "crash", 139, "signal 11 (Segmentation fault)");
        fails(root, "early 4", 4, "exited with non-zero status");
    });
}

#[test]
fn a_rank_that_aborts() {
    with_root(|root| {
        let (_, ended) = foreign::despite(PAIR(), &[PRRTE_STANDS], || {
            let traces = Traces::begin();
            let run = job(root, &traces, 4, "abort 7").deadline(STANDS_AFTER);
            (traces, run.attempt())
        });
        assert_eq!(ended.code(), 7, "{ended}");
        assert!(ended.stderr.contains("MPI_ABORT was invoked on rank 1"), "{ended}");
    });
}
