//! Tools of both libraries and `pmixctl` get the same answers from one server, whichever library serves. docs/interop.md has the table.

use std::collections::BTreeMap;

use pmix_tests::{Ended, Library, Traces, beside_host, beside_job, pmixrun, program};

/// A script in which each tool asks the server of process `$PID` about the job `$JOB`. Each answer is a line `tool: question: answer`.
fn questions() -> String {
    let pmixctl = pmixrun().with_file_name("pmixctl");
    let own_tools: String = [("ours", Library::ours()), ("stock", Library::Stock)]
        .map(|(name, library)| {
            // tests/programs/tool.c: "get pmix.job.size: 0, 2"
            format!(
                "LD_LIBRARY_PATH={} {} --pid $PID get=$JOB:4294967294:pmix.job.size get=$JOB:4294967294:pmix.num.nodes get=$JOB:4294967294:pmix.no.such \
                 query=pmix.qry.ns 2>/dev/null | sed 's/^/{name}: /';",
                library.directory().display(),
                program("tool").display()
            )
        })
        .concat();
    let pmixctl = pmixctl.display();
    // The same words from the table or the JSON of pmixctl.
    let get = |rank: &str, key: &str| {
        format!(
            "echo \"pmixctl: get {key}: $({pmixctl} get --pid $PID $JOB '{rank}' {key} 2>&1 | sed 's/.*PMIX_ERR_NOT_FOUND.*/-46/')\";"
        )
    };
    let gets = [get("*", "pmix.job.size"), get("*", "pmix.num.nodes"), get("*", "pmix.no.such")].concat();
    let namespaces =
        format!("echo \"pmixctl: query pmix.qry.ns: $({pmixctl} query --pid $PID pmix.qry.ns 2>&1 | tail -n 1)\";");
    format!("{own_tools} {gets} {namespaces}")
}

/// The answers of each tool, by question. Statuses and counts before a value are dropped: only the C tools print them.
fn answers(ended: &Ended) -> BTreeMap<String, BTreeMap<String, String>> {
    let mut answers: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
    for line in ended.stdout.lines() {
        let mut parts = line.splitn(3, ": ");
        let (Some(tool), Some(question), Some(answer)) = (parts.next(), parts.next(), parts.next()) else { continue };
        if question.starts_with("get ") || question.starts_with("query ") {
            let word = answer.rsplit([' ', ',']).next().unwrap_or(answer).to_owned();
            answers.entry(question.to_owned()).or_default().insert(tool.to_owned(), word);
        }
    }
    answers
}

fn assert_alike(ended: &Ended, expected: &[(&str, &str)]) {
    let answers = answers(ended);
    for (question, answer) in expected {
        let all = answers.get(*question).cloned().unwrap_or_default();
        let wanted = ["ours", "pmixctl", "stock"].map(|tool| (tool.to_owned(), (*answer).to_owned()));
        assert_eq!(all, BTreeMap::from(wanted), "{question}: {ended}");
    }
}

#[test]
fn under_our_launcher() {
    let script = format!("PID=$P JOB=$J; echo \"job=$J\"; {}", questions());
    let ended = beside_job(Library::ours(), &Traces::begin(), "-n 2 sh -c '. $WAIT'", &script);
    let job = ended.stdout.lines().find_map(|line| line.strip_prefix("job=")).expect("the job's name").to_owned();
    assert_alike(
        &ended,
        &[
            ("get pmix.job.size", "2"),
            ("get pmix.num.nodes", "1"),
            ("get pmix.no.such", "-46"),
            ("query pmix.qry.ns", &job),
        ],
    );
}

#[test]
fn under_hosts_of_both_libraries() {
    for server in [Library::Stock, Library::ours()] {
        let script = format!("PID=$PPID JOB=test-job; {}", questions());
        let ended = beside_host(server, &Traces::begin(), "--tools name", &script);
        assert_alike(&ended, &[("get pmix.job.size", "1"), ("get pmix.num.nodes", "1"), ("get pmix.no.such", "-46")]);
    }
}
