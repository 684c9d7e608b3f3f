//! A server that is killed and started again: its ranks go on (`docs/restart.md`).

use pmix_tests::{Ended, Library, Run, Traces, is_large, program};

/// A job of `size` ranks of the program `restart` under a host that is started again.
fn restarted(traces: &Traces, size: usize, options: &str, step: &str) -> Ended {
    let run = Run::new(program("host"), Library::ours()).traced(traces);
    let run = run.args(&format!("-n {size} --restartable 60 --timeout 100 {options}"));
    run.arg(program("restart")).args(step).run()
}

/// Asserts that all ranks have found what they expect, that `kills` servers were killed, and that nothing is left. A server may be killed
/// before it has taken over anything.
fn assert_well(traces: &Traces, ended: &Ended, size: usize, kills: usize, step: &str) {
    assert_eq!((ended.code(), ended.count(" done")), (0, size), "{step}: {ended}");
    assert_eq!(ended.stderr.matches("ended by signal 9").count(), kills, "{step}: {ended}");
    let taken_over = ended.stderr.matches("taken over from a server that was killed").count();
    assert!((1..=kills).contains(&taken_over), "{step}: {ended}");
    for complaint in ["not taken over", "panicked", "lost the connection", "refused", "cannot go on"] {
        assert!(!ended.stderr.contains(complaint), "{step}: {ended}");
    }
    traces.assert_none_left(ended);
}

/// Kills the server once at each of these steps, with and without a while until the next one is there.
#[test]
fn ranks_go_on_when_their_server_is_killed_at_any_step() {
    for step in ["init", "fences", "commit", "ended", "half", "get", "event"] {
        for down in [0, 400] {
            let traces = Traces::begin();
            let ended = restarted(&traces, 4, &format!("--down {down}"), step);
            assert_well(&traces, &ended, 4, 1, step);
        }
    }
}

#[test]
fn fences_complete_and_values_never_get_older_while_the_server_is_killed_again_and_again() {
    let kills = if is_large() { 100 } else { 8 };
    let traces = Traces::begin();
    let ended = restarted(&traces, 4, "", &format!("storm {kills}"));
    assert_well(&traces, &ended, 4, kills, "storm");
}

#[test]
fn a_server_that_does_not_come_back_is_lost_after_that_time() {
    let traces = Traces::begin();
    let run = Run::new(program("host"), Library::ours()).traced(&traces);
    let run = run.args("-n 3 --restartable 1 --lives 1 --timeout 100").arg(program("restart")).arg("lost");
    let ended = run.run();
    assert_eq!((ended.code(), ended.count(" done")), (0, 3), "{ended}");
}

/// Without the option nobody waits, and the next server sweeps the directory.
#[test]
fn without_the_option_the_connection_is_lost_at_once() {
    let traces = Traces::begin();
    let run = Run::new(program("host"), Library::ours()).traced(&traces).env("PMIX_DSTORE_RESTART", "0");
    let run = run.args("-n 2 --restartable 60 --lives 1 --timeout 100").arg(program("restart")).arg("lost");
    let ended = run.run();
    assert_eq!((ended.code(), ended.count("gave up after 0.")), (1, 2), "{ended}");
}
