//! Blocking calls in callbacks of every kind work, or return at once with the status that `docs/reliability.md` names.

use std::collections::BTreeMap;
use std::thread;

use pmix_tests::{Ended, Library, Run, Traces, pmixrun, program};

const WOULD_BLOCK: i32 = -15;
const UNREACH: i32 = -25;
const INIT: i32 = -31;
const OPERATION_SUCCEEDED: i32 = -157;

/// What each call returned, by kind of callback.
fn told(ended: &Ended) -> BTreeMap<String, BTreeMap<String, i32>> {
    assert_eq!((ended.code(), ended.count("FAIL"), ended.count("stuck")), (0, 0, 0), "{ended}");
    let mut all: BTreeMap<_, BTreeMap<_, _>> = BTreeMap::new();
    for line in ended.stdout.lines() {
        if let [kind, call, status] = line.split(' ').collect::<Vec<_>>()[..]
            && let Ok(status) = status.parse()
        {
            all.entry(kind.to_owned()).or_default().insert(call.to_owned(), status);
        }
    }
    all
}

/// Two ranks in turn in each kind of callback, and outside of all.
fn of_ranks(run: Run, mode: &str, kinds: &[&str]) {
    let traces = Traces::begin();
    let ended = run.traced(&traces).arg(program("callbacks")).args(mode).run();
    let told = told(&ended);
    let outside = &told["outside"];
    assert!(outside.len() == 28 && outside.values().filter(|status| **status == 0).count() >= 23, "{ended}");
    for kind in kinds {
        let mut expected = outside.clone();
        // Answers to invitations are events, which come when the callback has returned.
        if !mode.contains("external") {
            expected.insert("group_invite".into(), WOULD_BLOCK);
            expected.insert("group_join".into(), 0);
        } else if *kind == "event" {
            expected.insert("group_join".into(), 0);
        }
        assert_eq!(told[*kind], expected, "{kind}: {ended}");
    }
    // Callbacks that are due at the end come inside PMIx_Finalize, without a server.
    for call in ["fence", "group_invite", "group_join", "resolve_nodes", "get_missing", "publish", "notify", "register"]
    {
        assert_eq!(told["finalizer"][call], UNREACH, "{call}: {ended}");
    }
    assert_eq!((told["finalizer"]["get"], told["finalizer"]["finalize"]), (0, INIT), "{ended}");
    traces.assert_none_left(&ended);
}

const KINDS: [&str; 8] = ["event", "op", "value", "lookup", "info", "spawn", "registration", "deregistration"];

#[test]
fn ranks_may_call_what_blocks_in_callbacks() {
    // At once: most of the time is spent waiting for time-outs.
    thread::scope(|scope| {
        for mode in ["", "external"] {
            let launcher = Run::new(pmixrun(), Library::ours()).args("--timeout 100 -n 2");
            scope.spawn(move || of_ranks(launcher, mode, &KINDS));
            let host = Run::new(program("host"), Library::ours()).args("-n 2 --timeout 100");
            scope.spawn(move || of_ranks(host, &format!("output {mode}"), &["output"]));
        }
    });
}

#[test]
fn the_last_finalize_may_be_in_a_callback() {
    for kind in ["event", "completion"] {
        let traces = Traces::begin();
        let ended =
            Run::ranks(1, program("callbacks"), Library::ours()).traced(&traces).args("ends").arg(kind).succeed();
        let said = [
            format!("{kind} finalize 0"),
            format!("{kind} get {INIT}"),
            "threads 1".into(),
            "init again 0".into(),
            "finalize again 0".into(),
        ];
        assert_eq!(ended.stdout.lines().collect::<Vec<_>>(), said, "{ended}");
        traces.assert_none_left(&ended);
    }
}

/// The calls that a host's thread would have to answer itself while it is in an upcall or a callback.
const OF_HOST: [&str; 7] = ["fence_alone", "publish", "lookup", "unpublish", "query", "log", "spawn"];

#[test]
fn hosts_may_call_what_blocks_in_upcalls_and_callbacks() {
    let traces = Traces::begin();
    let ended = Run::new(program("callbacks"), Library::ours()).traced(&traces).args("host").run();
    let told = told(&ended);
    for kind in ["namespace", "client", "setup", "event", "own", "connected", "modex", "upcall", "finalized"] {
        let calls = &told[kind];
        assert_eq!(calls.len(), 19, "{kind}: {ended}");
        for (call, status) in calls {
            let expected = match call.as_str() {
                // Done when they return.
                "register_nspace" | "register_client" => OPERATION_SUCCEEDED,
                call if OF_HOST.contains(&call) => WOULD_BLOCK,
                _ => 0,
            };
            assert_eq!(*status, expected, "{call} in {kind}: {ended}");
        }
    }
    // What would block has not been done: the host's own publish outside, and the rank's.
    assert!(ended.stdout.contains("published 2, looked up 0\n"), "{ended}");
    // The end of the server, in a callback.
    assert!(ended.stdout.ends_with("server_finalize 0\nthreads 1\n"), "{ended}");
    traces.assert_none_left(&ended);
}
