//! Groups whose members do not all know each other, and what members send each other: `tests/programs/groups.c` under `pmixrun`.

use pmix_dstore::model::Status;
use pmix_tests::{Ended, Library, Profile, Run, Traces, pmixrun, program};

const BOTH: [Library; 2] = [Library::Ours(Profile::Debug), Library::Stock];

/// Six ranks with a library.
fn groups(library: Library, what: &str) -> Ended {
    let traces = Traces::begin();
    let run = Run::new(pmixrun(), library).traced(&traces).args("-n 6 --timeout 60").arg(program("groups"));
    let ended = run.arg(what).run();
    traces.assert_none_left(&ended);
    ended
}

/// What each of these ranks prints, sorted.
fn each(ranks: &[u32], says: &[&str]) -> Vec<String> {
    let mut lines: Vec<String> =
        ranks.iter().flat_map(|rank| says.iter().map(move |says| format!("rank {rank}: {says}"))).collect();
    lines.sort_unstable();
    lines
}

#[test]
fn leaders_that_do_not_know_each_other_form_a_group_with_the_members_that_they_add() {
    let ended = groups(Library::ours(), "bootstrap");
    let told = each(&[0, 3, 4, 5], &["construct 0, members 0 3 4 5, context id: yes", "fence 0, destruct 0"]);
    assert_eq!((ended.code(), ended.sorted_lines()), (0, told.iter().map(String::as_str).collect()), "{ended}");
    assert_eq!(ended.stderr, "", "{ended}");
}

#[test]
fn leaders_that_know_each_other_add_members() {
    let ended = groups(Library::ours(), "add");
    let told = each(&[0, 1, 2, 3], &["construct 0, members 0 1 2 3, context id: no", "fence 0, destruct 0"]);
    assert_eq!((ended.code(), ended.sorted_lines()), (0, told.iter().map(String::as_str).collect()), "{ended}");
}

#[test]
fn members_read_what_the_others_have_sent_to_the_group() {
    for library in BOTH {
        let ended = groups(library, "info");
        let right = ended.stdout.lines().filter(|line| line.ends_with(": 6 values")).count();
        let used = ended.stdout.lines().filter(|line| line.ends_with(": fence 0, destruct 0")).count();
        assert_eq!((ended.code(), right, used), (0, 6, 6), "{library:?}: {ended}");
        assert!(!ended.stdout.contains("context id: no"), "{library:?}: {ended}");
    }
}

#[test]
fn who_is_missing_in_a_group_is_named() {
    let ended = groups(Library::ours(), "late");
    let told = each(&[0, 4], &["construct -24, members, context id: no"]);
    assert_eq!((ended.code(), ended.sorted_lines()), (0, told.iter().map(String::as_str).collect()), "{ended}");
    assert!(ended.stderr.contains("group construction timed out; missing: 1 of 2 leaders, and "), "{ended}");
}

#[test]
fn what_a_construct_may_not_say_is_refused() {
    let ended = groups(Library::ours(), "refused");
    let told = [Status::ERR_BAD_PARAM, Status::ERR_TYPE_MISMATCH, Status::ERR_BAD_PARAM];
    let told = told.map(|status| format!("rank 0: construct {}, members, context id: no\n", status.0)).concat();
    assert_eq!((ended.code(), &ended.stdout), (0, &told), "{ended}");
}
