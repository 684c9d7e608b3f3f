//! Every blocking call honours `PMIX_TIMEOUT`, and the log says who is missing.

use std::collections::BTreeMap;

use pmix_tests::foreign::{self, HOST_CRASHES_IN_TIMEOUTS};
use pmix_tests::{Ended, Library, Pair, Run, Traces, program_with};

/// What is missing where a row of `tests/programs/timeouts.c` times out. `host SLOT`: the answer of the host to this upcall. `client TEXT`: a
/// line of the client. Else a line of the server.
const ROWS: [(&str, &str); 58] = [
    ("fence", "a fence timed out; missing: job:1"),
    ("fence_far", "a fence timed out; missing: the answer of the host to its fence_nb upcall"),
    ("fence_nb", "a fence timed out; missing: the answer of the host to its fence_nb upcall"),
    ("connects", "a connect timed out; missing: job:1"),
    ("connect_far", "a connect timed out; missing: the answer of the host to its connect upcall"),
    ("connect_nb", "a connect timed out; missing: the answer of the host to its connect upcall"),
    ("disconnects", "a disconnect timed out; missing: job:1"),
    ("rfc_connect", "a connect timed out; missing: the answer of the host to its connect upcall"),
    ("rfc_disconnect", "a disconnect timed out; missing: job:1"),
    ("get", "a Get of job:0 timed out; missing: key never.put of job:1, which has committed nothing"),
    (
        "get_far",
        "a Get of job:0 timed out; missing: key never.put of job:2, the answer of the host to its direct_modex upcall",
    ),
    (
        "get_nb",
        "a Get of job:0 timed out; missing: key never.put.too of job:2, the answer of the host to its direct_modex upcall",
    ),
    ("publish", "host publish"),
    ("publish_nb", "host publish"),
    ("lookup", "host lookup"),
    ("lookup_nb", "host lookup"),
    ("unpublish", "host unpublish"),
    ("unpublish_nb", "host unpublish"),
    ("spawn", "host spawn"),
    ("spawn_nb", "host spawn"),
    ("query", "host query"),
    ("query_nb", "host query"),
    // Not every host calls back, so a process that logs does not wait.
    ("logs", ""),
    ("log_nb", ""),
    ("allocate", "host allocate"),
    ("allocate_nb", "host allocate"),
    ("job_control", "host job_control"),
    ("job_control_nb", "host job_control"),
    ("monitor", "host monitor"),
    ("monitor_nb", "host monitor"),
    ("get_credential", "host get_credential"),
    ("get_credential_nb", "host get_credential"),
    ("validate_credential", "host validate_credential"),
    ("validate_credential_nb", "host validate_credential"),
    ("iof_pull", "host iof_pull"),
    ("iof_pull_nb", "host iof_pull"),
    ("iof_deregister", "host iof_pull"),
    ("iof_push", "host push_stdin"),
    ("iof_push_nb", "host push_stdin"),
    ("notify", "host notify_event"),
    ("notify_nb", "host notify_event"),
    ("registers", "host register_events"),
    ("registers_nb", "host register_events"),
    ("construct", "a group construction timed out; missing: job:1"),
    ("construct_far", "a group construction timed out; missing: the answer of the host to its group upcall"),
    ("construct_nb", "a group construction timed out; missing: the answer of the host to its group upcall"),
    ("destruct", "a group destruction timed out; missing: job:1"),
    ("leave", "host notify_event"),
    ("invite", "an invitation to group invited timed out; missing: job:1"),
    ("invite_nb", "an invitation to group invited too timed out; missing: job:1"),
    ("join", "joining to group joined timed out; missing: job:1"),
    ("join_nb", "joining to group joined too timed out; missing: job:1"),
    ("fabric", "host fabric"),
    ("session", "host session_control"),
    ("block", "host resource_block"),
    ("finalize", "client job:3: PMIx_Finalize timed out; missing: the answer of the server"),
    ("tool_init", "and was not admitted; missing: the answer of the host to its tool_connected upcall"),
    ("attach", "and was not admitted; missing: the answer of the host to its tool_connected upcall"),
];

const TIMEOUT: &str = "-24";

/// The status of each row.
fn statuses(ended: &Ended) -> BTreeMap<String, String> {
    let rows = ended.stdout.lines().filter_map(|line| line.strip_prefix("row ")?.split_once(' '));
    rows.map(|(row, status)| (row.to_owned(), status.to_owned())).collect()
}

#[test]
fn calls_end_in_time_under_a_host_that_never_answers_and_say_who_is_missing() {
    let traces = Traces::begin();
    let ended = Run::new(program_with("timeouts", Library::ours()), Library::ours()).traced(&traces).run();
    assert_eq!((ended.code(), ended.count("FAIL")), (0, 0), "{ended}");
    let told = statuses(&ended);
    assert_eq!(told.len(), ROWS.len(), "{ended}");
    let mut lines = BTreeMap::new();
    for (row, missing) in ROWS {
        let status = if missing.is_empty() { "0" } else { TIMEOUT };
        assert_eq!(told.get(row).map(String::as_str), Some(status), "{row}: {ended}");
        let line = match missing.strip_prefix("host ") {
            Some(slot) => {
                format!("a request of job:0 timed out; missing: the answer of the host to its {slot} upcall, asked ")
            }
            None => missing.to_owned(),
        };
        *lines.entry(line).or_insert(0) += usize::from(!missing.is_empty());
    }
    for (line, count) in lines {
        assert!(ended.stderr.matches(&line).count() >= count, "{count} times {line}: {ended}");
    }
    // A fence that the finalize of a rank made.
    assert!(ended.stderr.contains("a fence timed out; missing: job:0 job:1\n"), "{ended}");
    // The server has forgotten them, and takes late answers for nobody's.
    for said in ["open pmix.dstore.collectives PMIX_SUCCESS 0", "open pmix.dstore.waits PMIX_SUCCESS 0", " late\n"] {
        assert!(ended.stdout.contains(said), "{said}: {ended}");
    }
    for said in ["finalize 0 0", "finalize 1 0", "finalize tool 0", "server_finalize 0"] {
        assert_eq!(ended.stdout.lines().filter(|line| *line == said).count(), 1, "{said}: {ended}");
    }
    traces.assert_none_left(&ended);
}

/// What 4.2.2 answers itself, at once.
const OF_STOCK: [(&str, &str); 9] = [
    ("notify", "0"),
    ("notify_nb", "0"),
    ("monitor", "-27"),
    ("monitor_nb", "-27"),
    ("fabric", "-27"),
    ("leave", "-47"),
    ("session", "-47"),
    ("block", "-47"),
    ("rfc_disconnect", "-44"),
];

/// The server of 4.2.2 keeps few of these times, and its host answers none. So the client keeps them.
#[test]
fn calls_end_in_time_at_a_server_that_keeps_no_time() {
    let pair = Pair { server: Library::Stock, ranks: Library::ours() };
    let ((), ended) = foreign::despite(pair, &[HOST_CRASHES_IN_TIMEOUTS], || {
        let run = Run::new(program_with("timeouts", pair.ranks), pair.server).env("TIMEOUTS_STOCK", "1");
        ((), run.env("TIMEOUTS_RANK_LIB", pair.ranks.directory()).attempt())
    });
    let (told, of_stock) = (statuses(&ended), BTreeMap::from(OF_STOCK));
    for (row, _) in ROWS.iter().filter(|(row, _)| !matches!(*row, "tool_init" | "attach")) {
        let status = told.get(*row).map(String::as_str);
        assert_eq!(status, Some(of_stock.get(row).copied().unwrap_or(TIMEOUT)), "{row}: {ended}");
    }
    for call in ["PMIx_Publish", "PMIx_Spawn", "PMIx_Group_construct", "PMIx_IOF_push", "PMIx_Get"] {
        let line =
            format!("pmix-dstore client job:0: {call} timed out; missing: the answer of the server (release 4.2.2)");
        assert!(ended.stderr.contains(&line), "{call}: {ended}");
    }
}
