//! Guarantees for threads of programs and hosts. No callback runs before its call has returned. A cancelled thread
//! leaves no lock or resource behind. A host may have its own values, children and names.

use std::collections::BTreeMap;

use pmix_tests::{Library, Run, Traces, beside_host, program};

/// For each kind of call, the number of callbacks among `count` that had run before the caller saw the call return.
fn early(library: Library, count: u32) -> BTreeMap<String, u32> {
    let ended = Run::new(program("returned"), library).arg(count.to_string()).succeed();
    let kinds = ended.stdout.lines().filter_map(|line| line.split_once(' '));
    kinds.map(|(kind, early)| (kind.to_owned(), early.parse().expect("a number"))).collect()
}

/// A callback may seem early from outside although it is not, if the thread is preempted between the return and the
/// check. That happens with all libraries. A test in `ffi/src/entry.rs` checks from inside that none is early.
#[test]
fn callbacks_come_after_their_calls() {
    let (stock, ours) = (early(Library::Stock, 3000), early(Library::ours(), 3000));
    assert_eq!(ours.len(), 6, "{ours:?}");
    let sum = |kinds: &BTreeMap<String, u32>| kinds.values().sum::<u32>();
    assert!(sum(&ours) <= sum(&stock), "of 3000 each, ours: {ours:?}, stock: {stock:?}");
}

#[test]
fn threads_that_are_cancelled_in_calls_take_nothing_with_them() {
    for server in [Library::ours(), Library::Stock] {
        let traces = Traces::begin();
        let run = Run::new(program("host"), server).traced(&traces).args("-n 2 --rank-lib");
        let ended = run.arg(Library::ours().directory()).arg(program("cancelled")).arg("80").succeed();
        assert_eq!((ended.count("FAIL"), ended.count(": through")), (0, 2), "{ended}");
        traces.assert_none_left(&ended);
    }
}

/// Ranks that progress the library themselves have one thread, and no callback comes outside of `PMIx_Progress`.
#[test]
fn ranks_that_progress_the_library_themselves_have_no_other_thread() {
    for server in [Library::ours(), Library::Stock] {
        let traces = Traces::begin();
        let run = Run::new(program("host"), server).traced(&traces).args("-n 2 --timeout 100 --rank-lib");
        let ended = run.arg(Library::ours().directory()).arg(program("progress")).succeed();
        assert_eq!((ended.count("FAIL"), ended.count(": through")), (0, 2), "{ended}");
        traces.assert_none_left(&ended);
    }
}

/// A tool, too; a call that waits for callbacks runs them.
#[test]
fn a_tool_progresses_the_library_itself() {
    let traces = Traces::begin();
    let words = "--pid $PPID --external on=-3456 event=-3456 buffer=test-job:0:100:0:0: say=test-job:0:rest cease pull=test-job:0 \
                 say=test-job:0:more take=2 threads";
    let line =
        format!("LD_LIBRARY_PATH={} {} {words}", Library::ours().directory().display(), program("tool").display());
    let ended = beside_host(Library::ours(), &traces, "--tools name", &line);
    for said in ["register: 1", "notify: 0", "cease: 0", "taken: 2", "threads: 1", "finalize: 0"] {
        assert_eq!(ended.stdout.lines().filter(|line| *line == said).count(), 1, "{said}: {ended}");
    }
    let (rest, _) = ended.stdout.split_once("cease").unwrap();
    assert!(rest.contains("took of 2 from test-job:0: rest"), "{ended}");
}

/// A host commits its own puts, a forked child ends only its copy of the server, and a namespace need not be
/// UTF-8.
#[test]
fn hosts_have_values_children_and_names_of_their_own() {
    for ranks in [Library::ours(), Library::Stock] {
        let traces = Traces::begin();
        let run = Run::new(program("own"), Library::ours()).traced(&traces).env("OWN_RANK_LIB", ranks.directory());
        let ended = run.arg("host").arg(program("own")).succeed();
        assert!(ended.stdout.ends_with("rank finalize 0\nthe rank 0\nfinalize 0\n"), "{ended}");
        traces.assert_none_left(&ended);
    }
}

/// Registering for the kernel's barriers takes 10 ms where a process has threads, and is refused in some containers.
#[test]
fn the_kernels_barriers_are_asked_for_once_and_only_by_a_process_of_one_thread() {
    for (of, is_asked) in [("server", 1), ("server threads", 0), ("client", 1), ("client threads", 0)] {
        let ended = Run::new(program("registers"), Library::ours()).args(of).succeed();
        assert_eq!(ended.stdout, format!("asked {is_asked}, reads 100, status 0\n"), "{of}: {ended}");
    }
}

/// A program of `tests/programs` as ranks of a host of our library, each of which says "done" in the end.
fn at_moments(ranks: usize, name: &str, arguments: &str) {
    let traces = Traces::begin();
    let run = Run::new(program("host"), Library::ours()).traced(&traces).args(&format!("-n {ranks} --timeout 100"));
    let ended = run.arg(program(name)).args(arguments).succeed();
    assert_eq!((ended.count("FAIL"), ended.count(" done")), (0, ranks), "{ended}");
    traces.assert_none_left(&ended);
}

#[test]
fn ranks_call_in_constructors_and_destructors() {
    at_moments(2, "moments", "structors");
}

/// A child that calls while threads of its parent do has a value or a status.
#[test]
fn ranks_fork_while_their_threads_call() {
    at_moments(2, "moments", "forks 300");
}

#[test]
fn ranks_are_interrupted_by_signals_everywhere() {
    at_moments(2, "moments", "signals 50");
}

#[test]
fn ranks_open_and_close_the_library() {
    at_moments(1, "reopened", "40");
}
