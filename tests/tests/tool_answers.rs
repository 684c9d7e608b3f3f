//! Tools of both libraries and `pmixctl` get the same answers from one server, whichever library serves. docs/interop.md has the table.

use std::collections::BTreeMap;

use pmix_tests::{Cluster, Ended, Library, Pair, ROOT, Traces, beside_host, beside_job, pmixrun, program};

/// A script in which each tool asks a server about the job `$JOB`. `find` are the words by which it finds the server, `stock` the directory of
/// the stock library. Each answer is a line `tool: question: answer`.
fn questions(find: &str, stock: &str) -> String {
    let pmixctl = pmixrun().with_file_name("pmixctl");
    let ours = Library::ours().directory().display().to_string();
    let own_tools: String = [("ours", &*ours), ("stock", stock)]
        .map(|(name, directory)| {
            // tests/programs/tool.c: "get pmix.job.size: 0, 2"
            format!(
                "LD_LIBRARY_PATH={directory} {} {find} get=$JOB:4294967294:pmix.job.size get=$JOB:4294967294:pmix.num.nodes \
                 get=$JOB:4294967294:pmix.no.such query=pmix.qry.ns 2>/dev/null | sed 's/^/{name}: /';",
                program("tool").display()
            )
        })
        .concat();
    let pmixctl = pmixctl.display();
    // The same words from the table or the JSON of pmixctl.
    let get = |rank: &str, key: &str| {
        format!(
            "echo \"pmixctl: get {key}: $({pmixctl} get {find} $JOB '{rank}' {key} 2>&1 | sed 's/.*PMIX_ERR_NOT_FOUND.*/-46/')\";"
        )
    };
    let gets = [get("*", "pmix.job.size"), get("*", "pmix.num.nodes"), get("*", "pmix.no.such")].concat();
    let namespaces =
        format!("echo \"pmixctl: query pmix.qry.ns: $({pmixctl} query {find} pmix.qry.ns 2>&1 | tail -n 1)\";");
    format!("{own_tools} {gets} {namespaces}")
}

/// As [`questions`], of the server of process `$PID`.
fn questions_of_process() -> String {
    questions("--pid $PID", &stock())
}

/// A script that runs Debian's own programs, each of which says in one line with which status and last line it ended: `debian NAME: 0: text`.
/// `find` are the words by which they find the server, `stock` the directory of their library.
fn of_debian(find: &str, stock: &str, asks: &[(&str, &str, &str)]) -> String {
    let run = |(name, words, _): &(&str, &str, &str)| {
        format!(
            "said=$(LD_LIBRARY_PATH={stock} timeout 20 {name} {find} {words} 2>&1 </dev/null); code=$?; \
             echo \"debian {name}: $code: $(echo \"$said\" | tail -n 1)\";"
        )
    };
    let asks: String = asks.iter().map(run).collect();
    format!(
        "ulimit -c 0; {asks} echo \"debian: attributes of PMIx_Get: \
         $(LD_LIBRARY_PATH={stock} pattrs {find} --client PMIx_Get 2>&1 </dev/null | grep -c '^PMIX_')\"; \
         echo \"debian: $(LD_LIBRARY_PATH={stock} pmix_info | sed -n 's/^ *PMIX: //p')\";"
    )
}

/// Asserts what Debian's programs said, which is the third word of what they were asked.
fn assert_debians(ended: &Ended, asks: &[(&str, &str, &str)]) {
    let said: Vec<&str> = ended.stdout.lines().filter(|line| line.starts_with("debian")).collect();
    let expected = asks.iter().map(|(name, _, said)| format!("debian {name}: {said}"));
    // These two have the answers in their own library.
    let own = ["debian: attributes of PMIx_Get: 9", "debian: 4.2.2rc2"].map(str::to_owned);
    assert_eq!(said, expected.chain(own).collect::<Vec<_>>(), "{ended}");
}

/// Two of them crash at every server, before they ask.
const CRASHES: [(&str, &str, &str); 2] =
    [("pquery", "PMIX_QUERY_NAMESPACES", "136: "), ("plookup", "no.such", "139: ")];

/// `pps` at a server that lists no namespaces. There `pattrs` with `--host` is not run: a stock server crashes, or never answers.
const PPS_KNOWS_NONE: (&str, &str, &str) = ("pps", "", "0: PMIx Query returned an incorrect number of results: 0");
/// Of a host that has registered no attributes.
const NO_ATTRIBUTES: (&str, &str, &str) =
    ("pattrs", "--host PMIx_Query_info", "209: PMIx_Query_info returned: NOT-SUPPORTED");

/// The directory of Debian's library.
fn stock() -> String {
    Library::Stock.directory().display().to_string()
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

/// A script in which a tool waits for an event until Debian's `pevent` has sent it.
fn heard_from_debian() -> String {
    let tool = format!("LD_LIBRARY_PATH={} {}", Library::ours().directory().display(), program("tool").display());
    format!(
        "{tool} --pid $PID await=-3456 & T=$!; while kill -0 $T 2>/dev/null; do sleep 0.2; \
         env -u LD_LIBRARY_PATH pevent --pid $PID --event -3456 --range session </dev/null; done; wait $T;"
    )
}

#[test]
fn under_our_launcher() {
    let [pquery, plookup] = CRASHES;
    let named = |pps| [("pps", "", pps), NO_ATTRIBUTES, pquery, plookup];
    let asks = [questions_of_process(), of_debian("--pid $PID", &stock(), &named("")), heard_from_debian()].concat();
    let script = format!("PID=$P JOB=$J; echo \"job=$J\"; {asks}");
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
    assert_debians(&ended, &named(&format!("0: Active nspaces: {job}")));
    assert_eq!(ended.count("event: -3456"), 1, "{ended}");
}

#[test]
fn under_hosts_of_both_libraries() {
    let [pquery, plookup] = CRASHES;
    let at_ours = [("pps", "", "0: Active nspaces: test-job"), NO_ATTRIBUTES, pquery, plookup];
    let at_stock = [PPS_KNOWS_NONE, pquery, plookup];
    for (server, named) in [(Library::Stock, &at_stock[..]), (Library::ours(), &at_ours)] {
        let asks = [questions_of_process(), of_debian("--pid $PID", &stock(), named), heard_from_debian()].concat();
        let ended = beside_host(server, &Traces::begin(), "--tools name", &format!("PID=$PPID JOB=test-job; {asks}"));
        assert_alike(&ended, &[("get pmix.job.size", "1"), ("get pmix.num.nodes", "1"), ("get pmix.no.such", "-46")]);
        assert_debians(&ended, named);
        assert_eq!(ended.count("event: -3456"), 1, "{server:?}: {ended}");
    }
}

/// Slurm's step daemon writes no files for tools: they reach it as ranks of the step. It ends the step for an event of `pevent`, and
/// for a program that crashes.
#[test]
fn under_slurms_step_daemon() {
    let Some(cluster) = Cluster::start(1) else { return };
    let stock = cluster.directory_of(Library::Stock).display().to_string();
    for server in [Library::ours(), Library::Stock] {
        let named = |pps| if server.is_ours() { vec![("pps", "", pps), NO_ATTRIBUTES] } else { vec![PPS_KNOWS_NONE] };
        let asks = [questions("", &stock), of_debian("", &stock, &named(""))].concat();
        let pair = Pair { server, ranks: Library::ours() };
        let script = format!("JOB=$PMIX_NAMESPACE; echo \"job=$JOB\"; {asks}");
        let ended = cluster.srun(pair, ROOT, "-n 1").args("sh -c").arg(script).run();
        assert_eq!(ended.code(), 0, "{server:?}: {ended}");
        let job = ended.stdout.lines().find_map(|line| line.strip_prefix("job=")).expect("the job's name").to_owned();
        assert_alike(&ended, &[("get pmix.job.size", "1"), ("get pmix.num.nodes", "1"), ("get pmix.no.such", "-46")]);
        match server.is_ours() {
            true => assert_alike(&ended, &[("query pmix.qry.ns", &job)]),
            false => assert_eq!(ended.count("query pmix.qry.ns: -25"), 2, "{ended}"),
        }
        assert_debians(&ended, &named(&format!("0: Active nspaces: {job}")));
    }
    cluster.end();
}

/// Open MPI 4.1 admits no tools. With the stock library in it, it crashes when one comes.
#[test]
fn mpirun_refuses_each_tool_and_goes_on() {
    let refused =
        [("pps", "", "231: PMIx_tool_init failed: -25"), ("plookup", "key", "231: PMIx_tool_init failed: -25")];
    let asks = [questions("", &stock()), of_debian("", &stock(), &refused)].concat();
    let pair = Pair { server: Library::ours(), ranks: Library::ours() };
    let traces = Traces::begin();
    let ended = pair.mpirun(&traces).args("-np 1 sh -c").arg(format!("JOB=$PMIX_NAMESPACE; {asks} true")).run();
    assert_eq!((ended.code(), ended.count("init: 0"), ended.count("get pmix.job.size: 0")), (0, 0, 0), "{ended}");
    let said: Vec<&str> = ended.stdout.lines().filter(|line| line.starts_with("debian p")).collect();
    assert_eq!(said, refused.map(|(name, _, said)| format!("debian {name}: {said}")), "{ended}");
    // Two C programs, four calls of pmixctl, and Debian's.
    let refusals =
        ended.stderr.lines().filter(|line| line.contains("the host answered PMIX_ERR_NOT_SUPPORTED")).count();
    assert!(refusals >= 2 + 4 + refused.len(), "{ended}");
    traces.assert_none_left(&ended);
}
