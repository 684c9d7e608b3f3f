//! How jobs of Open MPI 5 and 6 end by signals, time-outs and lost ranks, with our library in daemons and ranks and in one of them,
//! beside the stock one.

use pmix_tests::sides::{Seen, assert_as_with_stock, assert_like_stock};
use pmix_tests::{Pair, Root, Run, Traces};

/// When the two ranks of a job have come so far, sends a signal to mpirun, which takes this process.
const SIGNALLED: &str = r#"
signal=$1 gate=$2; shift 2
> "$gate"
{ for rank in 0 1; do until test -e "$gate.$rank"; do sleep 0.02; done; done; kill -"$signal" $$; } &
exec "$@" "$gate"
"#;

/// A job whose mpirun gets a signal when its two ranks wait.
fn signalled(root: &Root, pair: Pair, traces: &Traces, signal: &str, kind: &str) -> Run {
    let run = root.enter().traced(traces).args("sh -c").arg(SIGNALLED).arg("signalled");
    let run = run.arg(signal).arg(traces.own().join("gate")).args(&Root::mpirun_words(pair));
    run.args("-np 2").args(Root::program(pair)).arg(kind)
}

#[test]
fn an_mpirun_that_is_told_to_end() {
    for signal in ["TERM", "INT"] {
        let run = |root: &Root, pair: Pair, traces: &Traces| signalled(root, pair, traces, signal, "wait");
        // mpirun does not wait for what the ranks have written just before.
        assert_like_stock(run, |stock: &Seen| assert_ne!(stock.code, 0, "{signal}: {stock:?}"));
    }
}

#[test]
fn a_signal_that_mpirun_hands_on() {
    let run = |root: &Root, pair: Pair, traces: &Traces| signalled(root, pair, traces, "USR1", "signal");
    assert_as_with_stock(run, 2, |stock| {
        assert_eq!((stock.code, stock.count(" has got the signal")), (0, 2), "{stock:?}");
    });
}

#[test]
fn a_job_that_takes_too_long() {
    let run = |root: &Root, pair: Pair, traces: &Traces| {
        let gate = traces.own().join("gate");
        std::fs::write(&gate, "").expect("a file");
        root.mpirun(traces, pair).args("-np 2 --timeout 5").args(Root::program(pair)).arg("wait").arg(gate)
    };
    // On a slow machine the ranks have not come so far as to say what they have mapped.
    assert_like_stock(run, |stock| assert_eq!(stock.count("Timeout: 5 seconds"), 1, "{stock:?}"));
}

#[test]
fn ranks_that_go_on_without_one_that_was_killed() {
    let run = |root: &Root, pair: Pair, traces: &Traces| {
        root.mpirun(traces, pair).args("--with-ft ulfm -np 4").args(Root::program(pair)).arg("survive")
    };
    assert_as_with_stock(run, 4, |stock| assert_eq!((stock.code, stock.count(" done")), (0, 3), "{stock:?}"));
}
