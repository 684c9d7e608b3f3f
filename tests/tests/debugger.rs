//! Ranks that wait until a debugger releases them, in `PMIx_Init` or elsewhere. The host is `tests/programs/host.c`, or our launcher with
//! the front end `tests/programs/frontend.c` beside it; the ranks are `tests/programs/stopped.c`.

use std::collections::BTreeMap;

use pmix_dstore::model::Status;
use pmix_tests::{Ended, Library, Pair, Run, Traces, beside_job, program};

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

/// A job of our launcher with these options, two ranks with one library and a front end with another.
fn debugged(ranks: Library, front: Library, options: &str, words: &str) -> Ended {
    let (directory, front_end, rank) = (front.directory(), program("frontend"), program("stopped"));
    let script = format!("LD_LIBRARY_PATH={} {} --pid $P {words}; ", directory.display(), front_end.display());
    beside_job(ranks, &Traces::begin(), &format!("--timeout 100 {options} -n 2 {}", rank.display()), &script)
}

/// The lines of the output that begin with `start`.
fn lines<'a>(ended: &'a Ended, start: &str) -> Vec<&'a str> {
    ended.stdout.lines().filter(|line| line.starts_with(start)).collect()
}

/// Asserts that a front end has seen two ranks at each of `stops` breakpoints, and that they have run to their end.
fn assert_debugged(ended: &Ended, stops: usize) {
    assert_eq!(lines(ended, "release: 0").len(), stops, "{ended}");
    for rank in 0..2 {
        let rows = lines(ended, &format!("rank {rank}: pid "));
        assert!(rows.iter().all(|row| row.ends_with(&program("stopped").display().to_string())), "{ended}");
        assert_eq!(rows.len(), stops, "{ended}");
    }
    assert_eq!((ended.count(": through"), lines(ended, "job: 0").len()), (2, 1), "{ended}");
}

#[test]
fn a_front_end_releases_ranks_that_stop_in_init() {
    let both = [Library::ours(), Library::Stock];
    for (ranks, front) in both.into_iter().flat_map(|ranks| both.map(|front| (ranks, front))) {
        let ended = debugged(ranks, front, "--stop-in-init", "");
        assert_debugged(&ended, 1);
        // Connected.
        assert_eq!(ended.count(", state 6, "), 2, "{ranks:?} {front:?}: {ended}");
        let supported = "stops: pmix.dbg.exec,pmix.dbg.init,pmix.dbg.notify,pmix.debugger";
        assert!(lines(&ended, "job: ")[0].ends_with(supported), "{ranks:?} {front:?}: {ended}");
    }
}

/// The front end starts a daemon beside the ranks while they wait, which is told of its target and sees its processes.
#[test]
fn a_front_end_starts_a_daemon_beside_the_ranks() {
    let both = [Library::ours(), Library::Stock];
    for (ranks, front) in both.into_iter().flat_map(|ranks| both.map(|front| (ranks, front))) {
        let words = format!("--daemon {}", program("daemon").display());
        let ended = debugged(ranks, front, "--stop-in-init", &words);
        assert_debugged(&ended, 1);
        assert_eq!(
            (lines(&ended, "daemon: 0").len(), lines(&ended, "the daemon has ended: 0").len()),
            (1, 1),
            "{ended}"
        );
        let pid = |line: &&str| line.rsplit_once("pid ").map(|(_, pid)| pid.split(' ').next().unwrap().to_owned());
        let mut attached: Vec<_> = lines(&ended, "daemon: would attach to rank ").iter().filter_map(pid).collect();
        let shown = (0..2).filter_map(|rank| {
            let line = lines(&ended, &format!("rank {rank}: pid "))[0].to_owned();
            line.split("pid ").nth(1)?.split(' ').next().map(str::to_owned)
        });
        let mut shown: Vec<String> = shown.collect();
        attached.sort_unstable();
        shown.sort_unstable();
        assert_eq!(attached, shown, "{ranks:?} {front:?}: {ended}");
    }
}

#[test]
fn a_release_may_be_for_the_launcher_or_for_the_node() {
    for (range, options) in
        ["rm", "local"].into_iter().flat_map(|range| ["--stop-in-init", "--stop-on-exec"].map(|stop| (range, stop)))
    {
        assert_debugged(&debugged(Library::ours(), Library::ours(), options, &format!("--range {range}")), 1);
    }
}

/// They are stopped by a signal, with their program loaded, and nobody traces them: so a debugger can.
#[test]
fn a_front_end_continues_ranks_that_stop_on_exec() {
    let show = "--show 'for p in $PIDS; do sed -n \"s/^State:.\\(.\\).*/state: \\1/p; s/^TracerPid:./tracer: /p\" /proc/$p/status; \
                readlink /proc/$p/exe; grep -c libpmix /proc/$p/maps; done; true'";
    for front in [Library::ours(), Library::Stock] {
        let ended = debugged(Library::ours(), front, "--stop-on-exec", show);
        assert_debugged(&ended, 1);
        let rank = std::fs::canonicalize(program("stopped")).unwrap();
        assert_eq!(
            (lines(&ended, "state: "), lines(&ended, "tracer: ")),
            (vec!["state: T"; 2], vec!["tracer: 0"; 2]),
            "{ended}"
        );
        assert_eq!(lines(&ended, &rank.display().to_string()).len(), 2, "{ended}");
        assert_eq!(ended.stdout.lines().filter(|line| *line == "0").count(), 2, "no library is loaded yet: {ended}");
    }
}

/// A release for one stop is not taken for that of the next one.
#[test]
fn ranks_stop_on_exec_in_init_and_at_a_place_of_their_own() {
    let options = "--stop-on-exec --stop-in-init --stop-in-app=solver";
    for ranks in [Library::ours(), Library::Stock] {
        let ended = debugged(ranks, Library::ours(), options, "--stops 3");
        assert_debugged(&ended, 3);
        assert_eq!(ended.count(": on from solver"), 2, "{ranks:?}: {ended}");
        // The first event may come after the front end has seen the job's status, and is forgotten then.
        let ready: Vec<&str> =
            lines(&ended, "ready: at ").into_iter().filter(|line| !line.ends_with("pmix-exec")).collect();
        assert_eq!(ready, ["ready: at pmix-init", "ready: at solver"], "{ranks:?}: {ended}");
    }
}

#[test]
fn ranks_that_are_stopped_end_with_their_job() {
    // With this grace period a rank that is not continued would hang the test.
    let job = |more: &str| format!("--grace 10000 {more} --stop-on-exec -n 2 {}", program("stopped").display());
    let ended = beside_job(Library::ours(), &Traces::begin(), &job("--timeout 1"), "");
    assert_eq!(lines(&ended, "job: "), ["job: 124"], "{ended}");
    let ended = beside_job(Library::ours(), &Traces::begin(), &job(""), "kill -INT $P;");
    assert_eq!(lines(&ended, "job: "), ["job: 130"], "{ended}");
}
