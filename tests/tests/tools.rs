//! Tools under a host: Debian's command-line tools, with their own library, at servers of ours and of the stock library.

use pmix_tests::{Ended, Library, Run, Traces, program};

/// The library in each of the two roles of a server.
fn servers() -> [Library; 2] {
    [Library::ours(), Library::Stock]
}

/// Runs `script` beside a host, as a process that is none of its ranks: with nothing of PMIx in its environment but the
/// directories. `$PPID` is the host.
fn beside_host(server: Library, traces: &Traces, host_args: &str, script: &str) -> Ended {
    let alone = "unset LD_LIBRARY_PATH $(env | sed -n 's/^\\(PMIX_[A-Z0-9_]*\\)=.*/\\1/p' | grep -v TMPDIR); ";
    let ended = Run::new(program("host"), server)
        .traced(traces)
        .args("-n 1 --timeout 100")
        .args(host_args)
        .args("sh -c")
        .arg(format!("{alone}{script}"))
        .run();
    assert_eq!(ended.code(), 0, "{ended}");
    assert!(ended.stderr.lines().any(|line| line.contains(": library ") && server.is_named_in(line)), "{ended}");
    traces.assert_none_left(&ended);
    ended
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
        assert_eq!(told(&ended, ": tool without a name, "), 6, "{ended}");
        assert_eq!(told(&ended, "=uint32:"), 6, "{ended}");
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
