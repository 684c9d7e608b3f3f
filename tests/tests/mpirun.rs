//! Open MPI's unmodified mpirun and ranks, with our library on both sides or on one: the launcher's services that MPI
//! programs use, and the end of failing programs.
//!
//! `make test-mpirun` runs these alone. With `PMIX_TEST_LARGE=1` they are larger: up to 32 ranks, many more runs.

use std::thread;

use pmix_tests::{Library, Pair, Run, Traces, is_large, program, times};

/// Runs a job in each pair, and asserts that it succeeds, has `count` processes, and leaves nothing.
fn runs_well(size: usize, args: &str, count: usize) {
    for pair in Pair::all() {
        let (traces, ended) = pair.run(|traces| pair.job(traces, size, args));
        pair.assert_well(&ended, count);
        traces.assert_none_left(&ended);
    }
}

#[test]
fn collectives() {
    for size in if is_large() { vec![2, 8, 32] } else { vec![2, 8] } {
        runs_well(size, "collectives", size);
    }
}

#[test]
fn several_applications_in_one_job() {
    for pair in Pair::all() {
        let traces = Traces::begin();
        let mut run = pair.mpirun(&traces);
        for (number, size) in [2, 1, 3].into_iter().enumerate() {
            run = if number > 0 { run.arg(":") } else { run };
            run = pair.program().iter().fold(run.args(&format!("-np {size}")), Run::arg).args("apps 3");
        }
        let ended = run.run();
        pair.assert_well(&ended, 6);
        for (application, size) in [(0, 2), (1, 1), (2, 3)] {
            assert_eq!(ended.count(&format!("is of application {application} of 3")), size, "{ended}");
        }
        traces.assert_none_left(&ended);
    }
}

#[test]
fn spawned_children() {
    runs_well(2, "spawn 2 3", 2 + 3 * 2);
    runs_well(4, "spawn 4 1", 4 + 4);
    if is_large() {
        runs_well(8, "spawn 8 5", 8 + 5 * 8);
        runs_well(32, "spawn 32 1", 32 + 32);
    }
}

#[test]
fn children_of_two_kinds() {
    runs_well(2, "spawn-multiple", 2 + 3);
    if is_large() {
        runs_well(32, "spawn-multiple", 32 + 3);
    }
}

#[test]
fn halves_of_a_job_that_meet_by_a_published_name() {
    runs_well(times(4, 32), "rendezvous", times(4, 32));
    runs_well(2, "unpublish", 2);
}

/// Starts a name server with the library that `$1` names, and two jobs that connect through it.
const TWO_JOBS: &str = r#"
dir=$1 serve=$2 visit=$3 size=$4; shift 4
ompi-server --no-daemonize -r "$dir/uri" & server=$!
until test -s "$dir/uri"; do sleep 0.02; done
job() { mpirun --oversubscribe --ompi-server "file:$dir/uri" -np "$size" "$@" "$dir/port"; }
job "$@" "$serve" & first=$!
job "$@" "$visit" && echo "$visit: well"
wait $first && echo "$serve: well"
kill $server
wait $server
rm -f "$dir/uri" "$dir/port"
"#;

#[test]
fn two_jobs_that_meet() {
    let size = times(2, 8);
    for pair in Pair::all() {
        // By a name at the name server, and by a port from a file.
        for (serve, visit) in [("serve", "visit"), ("serve-file", "visit-file")] {
            let traces = Traces::begin();
            let run = Run::new("/bin/sh", pair.server).traced(&traces).arg("-c").arg(TWO_JOBS).arg("two-jobs");
            let run = run.arg(traces.own()).args(&format!("{serve} {visit} {size}"));
            let ended = pair.program().iter().fold(run, Run::arg).run();
            pair.assert_mapped(&ended, 2 * size);
            assert_eq!(ended.count(" done"), 2 * size, "{pair:?}: {ended}");
            assert_eq!(ended.count(": well"), 2, "{pair:?}: {ended}");
            assert_eq!(ended.stderr, "", "{pair:?}: {ended}");
            traces.assert_none_left(&ended);
        }
    }
}

#[test]
fn singletons() {
    for library in [Library::ours(), Library::Stock] {
        for (args, expected) in [("hello", 0), ("spawn 2 2", 4), ("spawn-multiple", 3)] {
            if library == Library::Stock && expected == 0 {
                continue;
            }
            let traces = Traces::begin();
            let run = Run::new(program("mpi"), library).traced(&traces).env("OMPI_MCA_rmaps_base_oversubscribe", "1");
            let ended = run.args(args).run();
            // The singleton's daemon ends with it and kills the children that have not finalized by then.
            let taken = |line: &&str| expected > 0 && line.contains(": lost the connection to ");
            let said: Vec<&str> = ended.stderr.lines().filter(|line| !taken(line)).collect();
            assert_eq!((ended.code(), said), (0, vec![]), "{ended}");
            assert_eq!(ended.count(&format!(" of 1: library {} ", library.identity())), 1, "{ended}");
            assert_eq!(ended.count("FAIL"), 0, "{ended}");
            // Children's output may be lost if the singleton ends first, because its daemon forwards that output.
            assert!(ended.count("child ") <= 2 * expected, "{ended}");
            traces.assert_none_left(&ended);
        }
    }
}

#[test]
fn programs_without_mpi() {
    for pair in Pair::all() {
        let traces = Traces::begin();
        let ended = pair.mpirun(&traces).args("-np 4 echo hello").run();
        assert_eq!((ended.code(), ended.stderr.as_str()), (0, ""), "{pair:?}: {ended}");
        assert_eq!(ended.count("hello"), 4, "{pair:?}: {ended}");
        traces.assert_none_left(&ended);
    }
}

/// Asserts that a job fails in each pair, as [`Pair::assert_fails`] describes.
fn fails(run: impl Fn(Pair, &Traces) -> Run, code: i32, reason: &str) {
    Pair::all().iter().for_each(|pair| drop(pair.assert_fails(|traces| run(*pair, traces), code, reason)));
}

#[test]
fn a_rank_that_aborts() {
    for pair in &Pair::all() {
        let run = |traces: &Traces| pair.job(traces, times(4, 32), "abort 7");
        let ended = pair.assert_fails(run, 7, "MPI_ABORT was invoked on rank 1");
        assert!(!ended.stderr.contains("pmix-dstore server"), "the rank has said it already: {ended}");
    }
}

#[test]
fn a_rank_that_exits_without_finalize() {
    fails(|pair, traces| pair.job(traces, 2, "exit 3"), 3, "1 process returned\na non-zero exit code");
    fails(|pair, traces| pair.job(traces, 2, "exit 0"), 1, "exited without calling \"finalize\"");
}

#[test]
fn a_rank_that_crashes() {
    fails(|pair, traces| pair.job(traces, 2, "crash"), 139, "exited on signal 11 (Segmentation fault)");
}

#[test]
fn a_rank_that_exits_before_it_begins() {
    fails(|pair, traces| pair.job(traces, 2, "early 4"), 4, "1 process returned\na non-zero exit code");
}

#[test]
fn a_program_that_is_missing() {
    let run = |pair: Pair, traces: &Traces| pair.mpirun(traces).args("-np 2 /nonexistent/program");
    fails(run, 132, "could not access\nor execute an executable");
}

#[test]
fn a_program_without_mpi_that_fails() {
    fails(|pair, traces| pair.mpirun(traces).args("-np 2 sh -c").arg("exit 3"), 3, "returned\na non-zero exit code");
}

/// Rank 1 reports its process id; the other rank waits until that process has ended.
const AFTER_RANK_1: &str = r#"
if [ "$OMPI_COMM_WORLD_RANK" = 1 ]; then
    echo $$ > "$0.part" && mv "$0.part" "$0"
else
    until test -e "$0"; do sleep 0.02; done
    while kill -0 "$(cat "$0")" 2> /dev/null; do sleep 0.02; done
fi
exec "$@"
"#;

/// Under a stock server the other ranks wait for ever.
#[test]
fn a_rank_that_ends_before_the_others_start_blocks_none() {
    let [both, server, _] = Pair::all();
    for pair in [both, server] {
        let traces = Traces::begin();
        let run = pair.mpirun(&traces).args("-np 2 sh -c").arg(AFTER_RANK_1).arg(traces.own().join("rank-1"));
        let ended = pair.program().iter().fold(run, Run::arg).args("early 0").run();
        assert_eq!(ended.code(), 1, "{pair:?}: {ended}");
        traces.assert_none_left(&ended);
    }
}

/// Without a modex at the start, ranks request each other's values before they are put. Under a stock server most of
/// these jobs fail.
#[test]
fn values_that_are_asked_for_before_they_are_put() {
    let [both, server, _] = Pair::all();
    for pair in [both, server] {
        for _ in 0..times(3, 50) {
            let traces = Traces::begin();
            let run = pair.mpirun(&traces).args("--mca pmix_base_async_modex 1 -np 8");
            let ended = pair.program().iter().fold(run, Run::arg).args("collectives").run();
            pair.assert_well(&ended, 8);
            traces.assert_none_left(&ended);
        }
    }
}

#[test]
fn jobs_in_a_row_and_at_once_leave_nothing() {
    for pair in Pair::all() {
        let traces = Traces::begin();
        for _ in 0..times(5, 200) {
            pair.assert_well(&pair.job(&traces, 2, "hello").run(), 2);
        }
        traces.assert_none_left(format!("{pair:?}: jobs in a row"));
        // Each has its own directory for temporary files: an mpirun that ends removes the directory in which others are
        // about to make theirs.
        thread::scope(|scope| {
            for _ in 0..times(4, 20) {
                scope.spawn(|| {
                    let traces = Traces::begin();
                    let ended = pair.job(&traces, 2, "collectives").run();
                    pair.assert_well(&ended, 2);
                    traces.assert_none_left(&ended);
                });
            }
        });
    }
}
