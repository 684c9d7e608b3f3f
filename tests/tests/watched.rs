//! Ranks that request monitoring or usage statistics from a host that provides neither: `tests/programs/watched.c`.

use pmix_tests::{Pair, Run, Traces, program};

fn run(pair: Pair, args: &str) {
    let traces = Traces::begin();
    let run = Run::new(program("host"), pair.server).traced(&traces).args("-n 2 --timeout 100 --rank-lib");
    let ended = run.arg(pair.ranks.directory()).arg(program("watched")).args(args).run();
    assert_eq!(ended.code(), 0, "{pair:?}: {ended}");
    assert_eq!(ended.count("FAIL"), 0, "{pair:?}: {ended}");
    assert_eq!(ended.count(": through"), 2, "{pair:?}: {ended}");
    traces.assert_none_left(&ended);
}

/// Debian's 4.2.2 accepts the request as a server and then reports nothing.
#[test]
fn a_rank_that_sends_no_heartbeats_is_told_of() {
    Pair::all().into_iter().filter(|pair| pair.server.is_ours()).for_each(|pair| run(pair, ""));
}

#[test]
fn a_file_that_does_not_change_is_told_of_and_a_monitor_that_was_ended_is_not() {
    Pair::all().into_iter().filter(|pair| pair.server.is_ours()).for_each(|pair| run(pair, "--files"));
}

/// Stock ranks connect over TCP, and 4.2.2 does not send its process id.
#[test]
fn usage_of_ranks_and_node_is_reported() {
    for pair in Pair::all().into_iter().filter(|pair| pair.server.is_ours()) {
        run(pair, if pair.ranks.is_ours() { "--usage 2" } else { "--usage 0" });
    }
}
