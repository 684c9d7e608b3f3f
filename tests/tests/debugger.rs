//! Ranks that wait in `PMIx_Init` until a debugger releases them, as the job's data requests. The host is
//! `tests/programs/host.c`, the ranks are `tests/programs/stopped.c`.

use std::collections::BTreeMap;

use pmix_dstore::model::Status;
use pmix_tests::{Ended, Library, Pair, Run, Traces, program};

/// Two ranks, some of which stop. `seconds` is the time limit of each, if given.
fn stopped(pair: Pair, traces: &Traces, who: &str, seconds: &str) -> Ended {
    let run = Run::new(program("host"), pair.server).traced(traces).args("-n 2 --stop").arg(who);
    run.arg("--rank-lib").arg(pair.ranks.directory()).arg(program("stopped")).args(seconds).run()
}

/// The number of lines with `text` in the host's log.
fn told(ended: &Ended, text: &str) -> usize {
    ended.stderr.lines().filter(|line| line.starts_with("host ") && line.contains(text)).count()
}

/// Asserts that the host got reports of `count` ranks. Stock servers report all at once.
fn assert_ready(ended: &Ended, pair: Pair, count: usize) {
    let count = if pair.server == Library::Stock { 1 } else { count };
    assert_eq!(told(ended, " stops at pmix-init"), count, "{pair:?}: {ended}");
    assert_eq!(told(ended, &format!("event {} from ", Status::READY_FOR_DEBUG.0)), count, "{pair:?}: {ended}");
}

#[test]
fn a_rank_reports_ready_for_debug_and_waits_for_release() {
    for pair in Pair::all() {
        for who in ["all", "1"] {
            let traces = Traces::begin();
            let ended = stopped(pair, &traces, who, "");
            assert_eq!((ended.code(), ended.count(": through")), (0, 2), "{pair:?} {who}: {ended}");
            // Stock libraries of 4.2 stop all ranks, whichever is named. Later ones and ours stop only the named one.
            let count = if who == "all" || pair.ranks == Library::Stock { 2 } else { 1 };
            assert_ready(&ended, pair, count);
            traces.assert_none_left(&ended);
        }
    }
}

#[test]
fn the_wait_for_a_debugger_ends_at_its_timeout() {
    let ours = Library::ours();
    for server in [ours, Library::Stock] {
        let traces = Traces::begin();
        let pair = Pair { server, ranks: ours };
        let ended = stopped(pair, &traces, "never", "1");
        assert_eq!(ended.code(), 0, "{server:?}: {ended}");
        assert_ready(&ended, pair, 2);
        assert_eq!(ended.count(&format!("({})", Status::ERR_TIMEOUT.0)), 2, "{server:?}: {ended}");
        traces.assert_none_left(&ended);
    }
}

#[test]
fn the_wait_for_a_debugger_ends_with_the_server() {
    let traces = Traces::begin();
    let ended = stopped(Pair { server: Library::ours(), ranks: Library::ours() }, &traces, "die", "");
    // A rank that does not wait yet may lose the connection earlier; it reports the failed call.
    assert!(ended.count(&format!("({})", Status::ERR_LOST_CONNECTION.0)) > 0, "{ended}");
    assert_eq!(ended.count(": through"), 0, "{ended}");
    assert_eq!(traces.processes(), BTreeMap::new(), "{ended}");
}
