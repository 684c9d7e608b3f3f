//! Wrong use of the library, with `tests/programs/wrong.c`: the documented status, and no crash or hang.

use std::collections::BTreeSet;
use std::fs;

use pmix_tests::{Ended, Library, Run, Traces, program, repository};

/// Asserts that the program found no error in any of its processes, and that the library did not panic.
fn assert_right(ended: &Ended, mode: &str, processes: usize) {
    assert_eq!(ended.code(), 0, "{ended}");
    assert_eq!(ended.count(&format!("{mode} done")), processes, "{ended}");
    // Right uses, of which there is something to say: nobody joins that group, and the launcher has no such channel.
    let is_right = |line: &str| {
        line.ends_with(": an invitation to group nowhere timed out; missing: wrong-job:0")
            || line.contains(" logs to PMIX_TIMEOUT, and gets PMIX_ERR_NOT_SUPPORTED: ")
    };
    assert_eq!(ended.stderr.lines().find(|line| !is_right(line)), None, "{ended}");
}

/// As a program without a host. It may leave nothing in the directory for temporary files.
fn alone(mode: &str) -> Ended {
    let traces = Traces::begin();
    let ended = Run::new(program("wrong"), Library::ours()).traced(&traces).arg(mode).run();
    assert_right(&ended, mode, 1);
    traces.assert_none_left(&ended);
    for path in ended.stdout.lines().filter_map(|line| line.strip_prefix("segments ")) {
        let inside = path.strip_prefix(&traces.directory().display().to_string());
        assert!(inside.is_some_and(|inside| !inside.contains("..")), "{path} lies elsewhere: {ended}");
    }
    ended
}

/// As the ranks of a job.
fn as_ranks(ranks: usize, mode: &str, shared_memory: &str) -> Ended {
    let traces = Traces::begin();
    let run = Run::ranks(ranks, program("wrong"), Library::ours()).traced(&traces);
    let ended = run.env("PMIX_DSTORE_SHM", shared_memory).arg(mode).run();
    assert_right(&ended, mode, ranks);
    traces.assert_none_left(&ended);
    ended
}

/// The functions that were called with NULL.
fn covered(ended: &Ended) -> BTreeSet<String> {
    ended.stdout.lines().filter_map(|line| line.strip_prefix("covered ")).map(str::to_owned).collect()
}

#[test]
fn null_for_each_pointer() {
    let mut called = covered(&alone("uninitialised"));
    called.append(&mut covered(&alone("server")));
    called.append(&mut covered(&as_ranks(1, "client", "1")));
    // The remaining functions take no pointer.
    let table = fs::read_to_string(repository().join("ffi/abi/functions.tsv")).expect("the table of exports");
    let exported = table.lines().skip(1).filter_map(|line| line.split('\t').next());
    let functions = exported.filter(|name| name.starts_with("PMIx_"));
    let without_pointers = |name: &&str| {
        let numbers_only =
            name.ends_with("_string") && !["Info", "Value", "attribute"].iter().any(|w| name.contains(w));
        let odd = ["PMIx_Value_comparison_string", "PMIx_Info_directives_string", "PMIx_Get_attribute_name"];
        let none = ["PMIx_Commit", "PMIx_Info_list_start", "PMIx_Initialized", "PMIx_Progress", "PMIx_Get_version"];
        let ends = ["PMIx_server_finalize", "PMIx_tool_finalize"];
        let later = ["PMIx_Check_rank", "PMIx_Rank_valid", "PMIx_Heartbeat", "PMIx_tool_is_connected"];
        numbers_only || name.ends_with("_create") || [&odd[..], &none, &ends, &later].concat().contains(name)
    };
    let missed: Vec<&str> = functions.filter(|name| !called.contains(*name) && !without_pointers(name)).collect();
    assert_eq!(missed, Vec::<&str>::new());
}

#[test]
fn keys_and_namespaces_too_long_or_odd() {
    as_ranks(2, "names", "1");
    as_ranks(2, "names", "0");
}

#[test]
fn namespaces_that_a_host_registers() {
    let ended = alone("hosts");
    assert_eq!(ended.count("segments "), 11, "{ended}");
}

#[test]
fn values_of_every_type_and_of_64_mib() {
    as_ranks(2, "values", "1");
    as_ranks(2, "values", "0");
}

#[test]
fn initialised_and_finalized_too_often() {
    as_ranks(2, "twice", "1");
}

#[test]
fn calls_of_sixteen_threads() {
    as_ranks(2, "threads", "1");
    as_ranks(2, "threads", "0");
}

#[test]
fn calls_while_another_thread_finalizes() {
    as_ranks(1, "race", "1");
}

#[test]
fn an_abort_without_message_and_processes() {
    let traces = Traces::begin();
    let ended = Run::ranks(2, program("wrong"), Library::ours()).traced(&traces).arg("abort").run();
    assert_eq!(ended.code(), 3, "{ended}");
    assert!(ended.stderr.contains("called abort with status 3"), "{ended}");
    traces.assert_none_left(&ended);
}
