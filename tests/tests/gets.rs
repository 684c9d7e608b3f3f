//! The values that Open MPI's processes request from libpmix, and the answers: the same with our library as with the stock one.
//!
//! `tests/programs/gets.c` is interposed before the library in every process, mpirun included, and logs each Get with its
//! answer, and each Put and each stored value. A job with our library on either side must log the same as with the stock
//! library on both, call by call: an answer that Open MPI never gets from the stock library could lead it into untested
//! code. There is no list of exceptions: no job differs.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use pmix_tests::{Cluster, Ended, Library, Pair, ROOT, Run, is_large, plugin};

const STOCK: Pair = Pair { server: Library::Stock, ranks: Library::Stock };

/// A job that leaves its logs in a directory.
fn logged(directory: &Path, job: Run) -> Run {
    job.env("LD_PRELOAD", plugin("gets")).env("GETS_LOG", directory.join("gets-log"))
}

/// The requests of a job's processes, and the answers, sorted, from the logs in a directory, which are removed.
fn asked(directory: &Path, ended: &Ended) -> Vec<String> {
    assert_eq!((ended.code(), ended.count("FAIL")), (0, 0), "{ended}");
    let mut lines: Vec<String> = Vec::new();
    for file in fs::read_dir(directory).expect("a directory of the test").flatten() {
        if file.file_name().to_string_lossy().starts_with("gets-log.") {
            lines.extend(fs::read_to_string(file.path()).expect("a log").lines().map(str::to_owned));
            fs::remove_file(file.path()).expect("a log");
        }
    }
    lines.sort();
    lines
}

/// Asserts that a job has the same requests and answers in each pair, and that `processes` of its processes make
/// requests.
fn assert_same_answers(processes: usize, asked: impl Fn(Pair) -> Vec<String>) {
    let stock = asked(STOCK);
    let asking: BTreeSet<_> =
        stock.iter().filter_map(|line| line.split_once(" PMIx_Get ")).map(|(who, _)| who).collect();
    assert_eq!(asking.len(), processes, "{asking:?}");
    for pair in Pair::all() {
        let ours = asked(pair);
        let only_in = |some: &[String], others: &[String]| -> Vec<String> {
            some.iter().filter(|line| !others.contains(line)).cloned().collect()
        };
        let different = (only_in(&stock, &ours), only_in(&ours, &stock));
        assert_eq!(different, (Vec::new(), Vec::new()), "{pair:?}: only with the stock library, only with ours");
        // The lines are the same; check now that each occurs equally often.
        assert_eq!(stock, ours, "{pair:?}");
    }
}

/// A job of `size` ranks under mpirun, in which `processes` processes make requests.
fn under_mpirun(size: usize, args: &str, processes: usize) {
    assert_same_answers(processes, |pair| {
        let (traces, ended) = pair.run(|traces| logged(&traces.own(), pair.job(traces, size, args)));
        let lines = asked(&traces.own(), &ended);
        traces.assert_none_left(args);
        lines
    });
}

#[test]
fn ranks() {
    for size in if is_large() { vec![1, 2, 8, 32] } else { vec![2, 8] } {
        under_mpirun(size, "collectives", size);
    }
}

#[test]
fn parents_and_children() {
    under_mpirun(2, "spawn 2 2", 2 + 2 * 2);
    under_mpirun(2, "spawn-multiple", 2 + 3);
    if is_large() {
        under_mpirun(8, "spawn 8 1", 8 + 8);
    }
}

#[test]
fn those_that_meet_by_a_name() {
    under_mpirun(4, "rendezvous", 4);
    under_mpirun(2, "unpublish", 2);
}

#[test]
fn ranks_under_slurm() {
    let Some(cluster) = Cluster::start(2) else { return };
    assert_same_answers(4, |pair| {
        let job = cluster.job(pair, ROOT, "-N 2 --ntasks-per-node=2", "collectives");
        // Debian's Slurm ends a tree fence on each node alone, with any library.
        let ended = logged(&cluster.scratch(), job.env("SLURM_PMIX_FENCE", "ring")).run();
        asked(&cluster.scratch(), &ended)
    });
    cluster.end();
}
