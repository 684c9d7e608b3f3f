//! RFC0003's connect, which gives the connected processes a namespace: ranks of a job under `pmixrun` use it in all calls.

use std::collections::{BTreeMap, BTreeSet};

use pmix_tests::{Ended, Library, Run, Traces, own_program, pmixrun};

const RANKS: usize = 4;

/// A job whose ranks all succeed, and how often each rank of each namespace was given.
fn run(what: &str) -> (Ended, BTreeMap<String, Vec<u32>>) {
    let traces = Traces::begin();
    let job = Run::new(pmixrun(), Library::ours()).traced(&traces).args(&format!("-n {RANKS}"));
    let ended = job.arg(own_program("namespaces")).arg(what).run();
    assert_eq!((ended.code(), ended.count("FAIL"), ended.count(": done")), (0, 0, RANKS), "{what}: {ended}");
    let mut given: BTreeMap<String, Vec<u32>> = BTreeMap::new();
    for line in ended.stdout.lines() {
        if let Some((rank, nspace)) = line.strip_prefix("rank ").and_then(|line| line.split_once(" of ")) {
            given.entry(nspace.to_owned()).or_default().push(rank.parse().expect("a rank"));
        }
    }
    traces.assert_none_left(&ended);
    (ended, given)
}

/// Asserts that the processes agree on so many namespaces, each of `members` ranks.
fn assert_namespaces(what: &str, count: usize, members: u32) {
    let (ended, given) = run(what);
    assert_eq!(given.len(), count, "{ended}");
    for (nspace, ranks) in &given {
        let distinct: BTreeSet<u32> = ranks.iter().copied().collect();
        assert!(nspace.starts_with("connect.") && distinct.iter().copied().eq(0..members), "{ended}");
    }
}

#[test]
fn all_of_a_job_use_the_namespace_of_their_connect() {
    assert_namespaces("whole", 1, RANKS as u32);
}

#[test]
fn ranks_in_the_namespace_are_those_of_the_sorted_members() {
    assert_namespaces("part", 1, 2);
}

#[test]
fn connects_of_the_same_processes_go_on_at_a_time() {
    assert_namespaces("parallel", 2, RANKS as u32);
}

#[test]
fn directives_of_a_connect_are_obeyed() {
    assert_namespaces("directives", 1, RANKS as u32);
}

#[test]
fn processes_that_never_connect_are_not_missed_if_all_may_stay_away() {
    assert_namespaces("optional", 1, RANKS as u32 - 1);
}

#[test]
fn a_process_that_ends_connected_is_told_of_unless_it_may() {
    for what in ["early", "late"] {
        assert_namespaces(what, 1, RANKS as u32);
    }
}
