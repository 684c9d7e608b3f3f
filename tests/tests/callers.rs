//! Guarantees for threads of programs and hosts: no callback runs before its call has returned, and a
//! cancelled thread leaves no lock or resource behind; a host may have values, children and names of its own.

use std::collections::BTreeMap;

use pmix_tests::{Library, Run, Traces, program};

/// How many callbacks of each kind of call had come when the call had returned, of so many.
fn early(library: Library, count: u32) -> BTreeMap<String, u32> {
    let ended = Run::new(program("returned"), library).arg(count.to_string()).succeed();
    let kinds = ended.stdout.lines().filter_map(|line| line.split_once(' '));
    kinds.map(|(kind, early)| (kind.to_owned(), early.parse().expect("a number"))).collect()
}

/// From outside a callback may seem early that is not, where the thread loses its processor between the return and the look. That
/// happens to all libraries; that none is early from inside is a test of `ffi/src/entry.rs`.
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
