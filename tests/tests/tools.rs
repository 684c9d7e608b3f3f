//! Tools under a host: Debian's command-line tools, with their own library, at servers of ours and of the stock library.

use pmix_tests::{Ended, Library, Traces, beside_host, program};

/// The library in each of the two roles of a server.
fn servers() -> [Library; 2] {
    [Library::ours(), Library::Stock]
}

/// How many lines of the host's log hold `text`.
fn told(ended: &Ended, text: &str) -> usize {
    ended.stderr.lines().filter(|line| line.starts_with("host ") && line.contains(text)).count()
}

#[test]
fn stock_tools_find_the_server_and_are_named() {
    for server in servers() {
        let traces = Traces::begin();
        let find = "pps --pid $PPID; pps; pps --system-server; pps --system-server-first; pps --namespace test-host; \
                    pps --uri file:$PMIX_SYSTEM_TMPDIR/pmix.$(hostname -s).tool";
        let ended = beside_host(server, &traces, "--tools name", find);
        let named = ended.stderr.lines().filter(|line| line.contains(": tool without a name, "));
        assert_eq!(named.clone().count(), 6, "{ended}");
        assert_eq!(named.filter(|line| line.contains("=uint32:")).count(), 6, "{ended}");
        // They ask for namespaces, which this host does not tell.
        assert_eq!(told(&ended, ": query pmix.qry.ns by 0"), 6, "{ended}");
    }
}

/// A stock host dies of the tool that it refuses.
#[test]
fn a_host_turns_tools_away() {
    for (server, way) in [(Library::ours(), "refuse"), (Library::ours(), "none"), (Library::Stock, "none")] {
        let traces = Traces::begin();
        let ended = beside_host(server, &traces, &format!("--tools {way}"), "! pps --pid $PPID");
        assert_eq!(told(&ended, ": query"), 0, "{ended}");
        let asked = usize::from(way == "refuse");
        assert_eq!(told(&ended, ": tool without a name, "), asked, "{ended}");
        let log =
            ended.stderr.lines().filter(|line| line.contains("refused a process without a name (PMIx 4.2.2")).count();
        assert_eq!(log, usize::from(server.is_ours()), "{ended}");
    }
}

/// The words of `tests/programs/tool.c` with a library.
fn tool(library: Library, words: &str) -> String {
    let (directory, program) = (library.directory(), program("tool"));
    format!("LD_LIBRARY_PATH={} {} {words}; ", directory.display(), program.display())
}

/// Server and tool: ours on both sides or on one.
fn pairs() -> [(Library, Library); 3] {
    [(Library::ours(), Library::ours()), (Library::ours(), Library::Stock), (Library::Stock, Library::ours())]
}

/// The lines of the output that begin with `start`.
fn lines<'a>(ended: &'a Ended, start: &str) -> Vec<&'a str> {
    ended.stdout.lines().filter(|line| line.starts_with(start)).collect()
}

#[test]
fn a_tool_finds_its_server_in_every_way() {
    for (server, library) in pairs() {
        let traces = Traces::begin();
        let file = "$PMIX_SYSTEM_TMPDIR/pmix.$(hostname -s).tool";
        let script: String = [
            "--pid $PPID servers",
            "--nspace test-host servers",
            "--system servers",
            "--first servers",
            "--launcher servers",
            "--retry 2 servers",
            &format!("--file {file} servers"),
            &format!("--uri file:{file} servers"),
            &format!("--uri \"$(head -1 {file})\" servers"),
            "--name me:3 servers",
        ]
        .iter()
        .map(|words| tool(library, words))
        .collect();
        let ended = beside_host(server, &traces, "--tools name", &script);
        assert_eq!(lines(&ended, "init: 0").len(), 10, "{ended}");
        assert_eq!(lines(&ended, "servers: 0, 1, first test-host:0").len(), 10, "{ended}");
        let mut names: Vec<String> = (1..10).map(|number| format!("me: tool-{number}:0")).collect();
        names.push("me: me:3".into());
        assert_eq!(lines(&ended, "me: "), names, "{ended}");
        assert_eq!(lines(&ended, "finalize: 0").len(), 10, "{ended}");
        assert_eq!(told(&ended, ": tool me, "), 1, "{ended}");
    }
}

#[test]
fn a_tool_asks_what_clients_ask() {
    for (server, library) in pairs() {
        let traces = Traces::begin();
        let asks =
            "--pid $PPID get=test-job:4294967294:pmix.job.size publish=key lookup=key lookup=other query=pmix.qry.ns";
        let hears = tool(library, "--system await=-3456").replace("; ", " & ");
        let tells = tool(library, "--system event=-3456");
        // The one that hears may come late: it is told again.
        let again = format!("while kill -0 $! 2>/dev/null; do sleep 0.2; {tells} done; wait");
        let ended = beside_host(server, &traces, "--tools name", &format!("{}{hears}{again}", tool(library, asks)));
        assert_eq!(lines(&ended, "get pmix.job.size: 0, 1").len(), 1, "{ended}");
        assert_eq!(lines(&ended, "publish: 0").len(), 1, "{ended}");
        assert_eq!(lines(&ended, "lookup: "), ["lookup: 0, 77 of tool-1:0", "lookup: -46, 0 of :0"], "{ended}");
        assert_eq!(lines(&ended, "event: -3456").len(), 1, "{ended}");
        // The host does not answer.
        let found = if server.is_ours() { "query pmix.qry.ns: 0, 1, test-job" } else { "query pmix.qry.ns: -47, 0, -" };
        assert_eq!(lines(&ended, found).len(), 1, "{ended}");
    }
}

#[test]
fn a_tool_may_be_alone_or_find_nobody() {
    let script: String = ["--alone servers again", "--optional --nspace nobody servers", "--nspace nobody"]
        .iter()
        .map(|words| tool(Library::ours(), words))
        .collect();
    let traces = Traces::begin();
    let ended = beside_host(Library::ours(), &traces, "--tools name", &format!("{script} true"));
    assert_eq!(lines(&ended, "init: "), ["init: 0", "init: 0", "init: -25"], "{ended}");
    assert_eq!(lines(&ended, "servers: -25, 0").len(), 2, "{ended}");
    assert_eq!(lines(&ended, "again: 0, 0").len(), 1, "{ended}");
    assert_eq!(told(&ended, ": tool"), 0, "{ended}");
}

/// A tool with two servers. The second one's host names nobody again, as the tool has its name already.
#[test]
fn a_tool_turns_from_server_to_server() {
    for server in servers() {
        let traces = Traces::begin();
        let second = "file:$PMIX_SYSTEM_TMPDIR/../1/pmix.nodeB.tool";
        let words = format!(
            "--file $PMIX_SYSTEM_TMPDIR/pmix.sys.nodeA attach={second} servers publish=first use=test-host:1 servers publish=second \
             leave=test-host:1 servers leave=test-host:1 attach={second} servers"
        );
        let first = format!("[ $TEST_RANK = 0 ] || exit 0; {}", tool(Library::ours(), &words));
        let ended = beside_host(server, &traces, "-s 2 --tools name", &first);
        let ours = "servers: 0, ";
        assert_eq!(lines(&ended, "attach: 0, test-host:1").len(), 2, "{ended}");
        let expected =
            [(2, 0), (2, 1), (1, 0), (2, 0)].map(|(count, rank)| format!("{ours}{count}, first test-host:{rank}"));
        assert_eq!(lines(&ended, "servers: "), expected, "{ended}");
        assert_eq!(lines(&ended, "leave: "), ["leave: 0", "leave: -46"], "{ended}");
        assert_eq!(lines(&ended, "me: tool-1:0").len(), 1, "{ended}");
        let publisher = |key: &str| {
            ended
                .stderr
                .lines()
                .find(|line| line.contains(&format!("publish {key} by")))
                .map(|line| line[..6].to_owned())
        };
        assert_eq!(
            (publisher("first").as_deref(), publisher("second").as_deref()),
            (Some("host 0"), Some("host 1")),
            "{ended}"
        );
        assert_eq!(told(&ended, "host 1: tool tool-1, "), 2, "{ended}");
    }
}
