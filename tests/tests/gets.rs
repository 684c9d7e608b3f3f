//! Which values Open MPI's processes ask of libpmix, and what they are answered: with our library as with the stock one.
//!
//! `tests/programs/gets.c` stands in front of the library in every process, mpirun too, and writes down each Get with its
//! answer, and each Put and each value stored. A job does the same with our library on either side as with the stock
//! library on both, call by call: an answer that Open MPI does not know from the stock library could lead it where nobody
//! has been. There is no list of exceptions: no job differs.

use std::collections::BTreeSet;
use std::fs;

use nix::unistd::geteuid;
use pmix_tests::{Library, Pair, Run, Traces, is_large, plugin, program, repository};

const STOCK: Pair = Pair { server: Library::Stock, ranks: Library::Stock };

/// Runs the job that `make` makes in a pair; gives what its processes asked and were answered, in alphabetical order.
fn asked(pair: Pair, make: impl Fn(Pair, &Traces) -> Run) -> Vec<String> {
    let traces = Traces::begin();
    let ended = make(pair, &traces).env("GETS_LOG", traces.own().join("log")).succeed();
    assert_eq!(ended.count("FAIL"), 0, "{pair:?}: {ended}");
    let mut lines: Vec<String> = Vec::new();
    for entry in fs::read_dir(traces.own()).expect("the test's own directory").flatten() {
        if entry.file_name().to_string_lossy().starts_with("log.") {
            lines.extend(fs::read_to_string(entry.path()).expect("a log").lines().map(str::to_owned));
            fs::remove_file(entry.path()).expect("a log");
        }
    }
    traces.assert_none_left(&ended);
    lines.sort();
    lines
}

/// Asserts that the job that `make` makes asks and is told the same in each pair, and that `processes` of it ask for
/// something.
fn assert_same_answers(processes: usize, make: impl Fn(Pair, &Traces) -> Run) {
    let stock = asked(STOCK, &make);
    let asking: BTreeSet<_> =
        stock.iter().filter_map(|line| line.split_once(" PMIx_Get ")).map(|(who, _)| who).collect();
    assert_eq!(asking.len(), processes, "{asking:?}");
    for pair in Pair::all() {
        let ours = asked(pair, &make);
        let only_in = |some: &[String], others: &[String]| -> Vec<String> {
            some.iter().filter(|line| !others.contains(line)).cloned().collect()
        };
        // A difference in how often something is asked shows in the second comparison only.
        let different = (only_in(&stock, &ours), only_in(&ours, &stock));
        assert_eq!(different, (Vec::new(), Vec::new()), "{pair:?}: only with the stock library, only with ours");
        assert_eq!(stock, ours, "{pair:?}");
    }
}

/// A job of `size` ranks under mpirun, in which `processes` processes ask.
fn under_mpirun(size: usize, args: &str, processes: usize) {
    assert_same_answers(processes, |pair, traces| pair.job(traces, size, args).env("LD_PRELOAD", plugin("gets")));
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
    if !geteuid().is_root() {
        eprintln!("left out: starting Slurm's daemons takes root");
        return;
    }
    assert_same_answers(4, |Pair { server, ranks }, traces| {
        let mut run = Run::new(repository().join("tests/slurm/cluster.sh"), ranks).traced(traces).args("--nodes 2");
        if server != Library::Stock {
            run = run.arg("--lib").arg(server.directory());
        }
        let step = format!("LD_PRELOAD={} srun -N 2 --ntasks-per-node=2 \"$@\"", plugin("gets").display());
        // Debian's Slurm ends a fence of the other kind on each node alone, whatever the library.
        let run = run.env("SLURM_PMIX_FENCE", "ring").args("sh -c").arg(step).arg("step");
        run.arg(program("mpi")).arg("collectives")
    });
}
