//! Debian's `python3-pmix`, as host, as client and as tool, in every combination of our library and the stock one. The results of its
//! methods and the upcalls to the host equal those with the stock library on both sides, except for [`DIFFERENCES`] and
//! [`TOOL_DIFFERENCES`].
//!
//! The module has bugs of its own, which limit the tests; `docs/hosts.md` lists them.

use std::sync::LazyLock;

use pmix_tests::{Ended, Library, Pair, Run, Traces, beside_host, pmixrun, repository};

/// The interpreter that the module is built for, regardless of `PATH`.
const PYTHON: &str = "/usr/bin/python3";

/// The module's classes, each with the script that calls its methods.
const CLASSES: [(&str, &str); 3] = [("PMIxClient", "client.py"), ("PMIxServer", "host.py"), ("PMIxTool", "tool.py")];

/// Methods that no script of ours calls, with the reason.
const NOT_CALLED: [(&str, &str); 1] = [(
    "PMIxServer.dmodex_request",
    "its callback uses Python without Python's lock, and ends the process with every library",
)];

/// A host's plan: for each job the number of ranks, the actions of each rank, and those of the host.
const PLAN: [&str; 5] = [
    "2:begin,data,peers,strings,services,query,requests,jobs,events,credentials,places,topology,fabric,formed,progress,end",
    "2:begin,hear,end:notify",
    "1:begin,put,hold,end:setup",
    "1:begin,abort,end",
    // The module frees an invalid pointer: this ends the process with every library.
    "1:begin,internal,end",
];

/// The side on which our library makes a difference.
#[derive(Clone, Copy, PartialEq)]
enum Side {
    Server,
    Ranks,
    Either,
    /// The server's side, and not the ranks'.
    OnlyServer,
}

/// A line, without its process, and the line in its place with our library.
struct Difference {
    ours: Side,
    stock: &'static str,
    instead: &'static str,
}

const fn differs(ours: Side, stock: &'static str, instead: &'static str) -> Difference {
    Difference { ours, stock, instead }
}

/// All differences, with reasons; `docs/differences.md` has more on each.
const DIFFERENCES: [Difference; 20] = [
    // Ours knows more.
    differs(
        Side::Either,
        "get b'pmix.job.size' of None: -46 None",
        "get b'pmix.job.size' of None: 0 {val_type: 14, value: 2}",
    ),
    differs(Side::Server, "get b'pmix.rank' of 0: -46 None", "get b'pmix.rank' of 0: 0 {val_type: 40, value: 0}"),
    differs(Side::Server, "get b'pmix.rank' of 1: -46 None", "get b'pmix.rank' of 1: 0 {val_type: 40, value: 1}"),
    differs(
        Side::Server,
        "get b'pmix.nmap' of 4294967294: -46 None",
        "get b'pmix.nmap' of 4294967294: 0 {val_type: 3, value: 'raw:HOST'}",
    ),
    differs(
        Side::Server,
        "get b'pmix.pmap' of 4294967294: -46 None",
        "get b'pmix.pmap' of 4294967294: 0 {val_type: 3, value: 'raw:0,1'}",
    ),
    // An unknown node has no processes. (-24 is an error about the namespace, -46 means not found.)
    differs(Side::Ranks, "resolve_peers nowhere: -24 []", "resolve_peers nowhere: 0 []"),
    differs(Side::OnlyServer, "resolve_peers nowhere: -24 []", "resolve_peers nowhere: -46 []"),
    // The host gets the requestor.
    differs(
        Side::Server,
        "query: {queries: [{keys: ['py.asked'], qualifiers: []}], source: {nspace: 'pmix-server', rank: PID}}",
        "query: {queries: [{keys: ['py.asked'], qualifiers: []}], source: {nspace: 'job0', rank: 0}}",
    ),
    differs(
        Side::Server,
        "query: {queries: [{keys: ['py.asked'], qualifiers: [{key: 'pmix.nspace', val_type: 3, value: 'job0'}]}], source: {nspace: 'pmix-server', rank: PID}}",
        "query: {queries: [{keys: ['py.asked'], qualifiers: [{key: 'pmix.nspace', val_type: 3, value: 'job0'}]}], source: {nspace: 'job0', rank: 0}}",
    ),
    // Another form of map, which both read.
    differs(Side::Server, "generate_regex: 0 b'pmix[node[1:1-2],other]'", "generate_regex: 0 b'raw:node1,node2,other'"),
    // Names of constants, as newer stock releases have them.
    differs(Side::Ranks, "error_string 0: 'SUCCESS'", "error_string 0: 'PMIX_SUCCESS'"),
    differs(Side::Ranks, "error_string -1: 'ERROR'", "error_string -1: 'PMIX_ERROR'"),
    differs(Side::Ranks, "error_string -46: 'NOT-FOUND'", "error_string -46: 'PMIX_ERR_NOT_FOUND'"),
    differs(Side::Ranks, "error_string -47: 'NOT-SUPPORTED'", "error_string -47: 'PMIX_ERR_NOT_SUPPORTED'"),
    differs(Side::Ranks, "error_string -1366: 'TAKE-NEXT-OPTION'", "error_string -1366: 'PMIX_ERR_TAKE_NEXT_OPTION'"),
    // Newer stock releases have one more.
    differs(Side::Ranks, "scope_string 5: 'UNKNOWN SCOPE'", "scope_string 5: 'DELETE FROM LOCAL NODE SCOPE'"),
    // The stock library computes it and then returns an error. (Node, NUMA, package and third-level cache.)
    differs(
        Side::Ranks,
        "get_relative_locality hwloc:NM0:SK0:L30:L21:L11:CR1:HT1: -1366 []",
        "get_relative_locality hwloc:NM0:SK0:L30:L21:L11:CR1:HT1: 0 [16, 32, 64, 16384]",
    ),
    differs(Side::Ranks, "get_relative_locality hwloc:SK1: -1366 []", "get_relative_locality hwloc:SK1: 0 [16384]"),
    // The host's answer; the stock library returns success.
    differs(Side::Ranks, "fabric_register: 0 []", "fabric_register: -47 []"),
    // The members, as newer stock releases report them, and no context ID that was not requested.
    differs(
        Side::Ranks,
        "group_construct: 0 [{key: 'pmix.grp.ctxid', val_type: 4, value: 18446744073709551615}]",
        "group_construct: 0 [{key: 'pmix.grp.mbrs', val_type: 39, value: {array: [{nspace: b'job0', rank: 4294967294}], type: 22}}]",
    ),
];

/// What our ranks also have our server ask the host: peers and nodes of all jobs.
const ALSO_ASKED: [&str; 2] = [
    "keys: ['pmix.qry.node'], qualifiers: []",
    "keys: ['pmix.qry.peers'], qualifiers: [{key: 'pmix.hname', val_type: 3, value: 'HOST'}]",
];

/// A tool's actions at one server and then at a second one: it stays with the first until it switches.
const TOOL_PLAN: &str = "servers asks=first pulls attaches=SECOND servers asks=attached turns=1 servers asks=turned turns=0 \
                         servers asks=returned turns=7 servers leaves=1";

/// All differences for a tool, with reasons.
const TOOL_DIFFERENCES: [Difference; 1] = [
    // The host does not answer, but our server knows its namespaces.
    differs(Side::Server, "query: -47 []", "query: 0 [{key: 'pmix.qry.ns', val_type: 3, value: 'test-job'}]"),
];

impl Difference {
    fn applies(&self, pair: Pair) -> bool {
        let (server, ranks) = (pair.server.is_ours(), pair.ranks.is_ours());
        match self.ours {
            Side::Server => server,
            Side::Ranks => ranks,
            Side::Either => server || ranks,
            Side::OnlyServer => server && !ranks,
        }
    }
}

/// Runs the host.
fn run(pair: Pair, plan: &[&str]) -> Ended {
    let traces = Traces::begin();
    let run = Run::new(PYTHON, pair.server)
        .traced(&traces)
        // Nothing is left beside the sources.
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .arg(repository().join("tests/python/host.py"))
        .arg(pair.ranks.directory());
    let ended = plan.iter().fold(run, Run::arg).succeed();
    if pair.server.is_ours() {
        traces.assert_none_left(&ended);
    }
    ended
}

/// The lines of host and clients, sorted: role and rest of the line. Whether a wrong free ends a
/// process by SIGABRT or by SIGSEGV varies.
fn said(ended: &Ended) -> Vec<(&str, String)> {
    let of_us = |who: &str| who == "host" || who == "upcall" || who.starts_with("job");
    let lines = ended.stdout.lines().filter_map(|line| line.split_once(' ')).filter(|(who, _)| of_us(who));
    let crashed = |line: &str| line.replace("ended: -6", "crashed").replace("ended: -11", "crashed");
    let mut lines: Vec<_> = lines.map(|(who, line)| (who, unsigned(crashed(line)))).collect();
    lines.sort_unstable();
    lines
}

/// A line without its requestor: the stock library passes it in fewer upcalls than the standard requires.
fn unsigned(mut line: String) -> String {
    for key in ["pmix.euid", "pmix.egid", "pmix.req.client", "pmix.spawned", "pmix.parent"] {
        while let Some(start) = line.find(&format!("{{key: '{key}'")) {
            let mut depth = 0;
            let depths = line[start..].char_indices().map(|(at, letter)| {
                depth += i32::from(letter == '{') - i32::from(letter == '}');
                (at, depth)
            });
            let mut ends = depths.filter(|(_, depth)| *depth == 0);
            let end = start + ends.next().expect("an info ends").0 + 1;
            let rest = line[end..].strip_prefix(", ").unwrap_or(&line[end..]).to_owned();
            line.truncate(start);
            line.push_str(&rest);
        }
    }
    line.replace(", ]", "]").replace(", jobinfo: []", "")
}

/// The expected lines, given the lines `stock` with the stock library on both sides. Each difference must occur.
fn expected(pair: Pair, stock: &[(&str, String)], differences: &[Difference]) -> Vec<String> {
    let mut expected = Vec::new();
    let mut used = vec![false; differences.len()];
    for (who, line) in stock {
        if line.starts_with("library: ") {
            let library = if *who == "host" { pair.server } else { pair.ranks };
            expected.push(format!("{who} library: '{}'", library.identity()));
            continue;
        }
        let differs =
            |(_, difference): &(usize, &Difference)| difference.applies(pair) && difference.stock == line.as_str();
        match differences.iter().enumerate().find(differs) {
            None => expected.push(format!("{who} {line}")),
            Some((index, difference)) => {
                used[index] = true;
                expected.push(format!("{who} {}", difference.instead));
            }
        }
    }
    for (difference, used) in differences.iter().zip(used) {
        assert_eq!(used, difference.applies(pair), "{pair}: {:?}", difference.stock);
    }
    expected
}

/// With the stock library on both sides.
static STOCK: LazyLock<Ended> = LazyLock::new(|| run(Pair::stock(), &PLAN));

#[test]
fn the_module_behaves_as_with_the_stock_library() {
    for pair in Pair::all() {
        let ended = run(pair, &PLAN);
        let mut expected = expected(pair, &said(&STOCK), &DIFFERENCES);
        if pair.server.is_ours() && pair.ranks.is_ours() {
            let asked = |rank: u32| {
                ALSO_ASKED.map(|query| {
                    format!("upcall query: {{queries: [{{{query}}}], source: {{nspace: 'job0', rank: {rank}}}}}")
                })
            };
            expected.extend([0, 1].into_iter().flat_map(asked));
        }
        expected.sort_unstable();
        let found: Vec<_> = said(&ended).iter().map(|(who, line)| format!("{who} {line}")).collect();
        let missing: Vec<_> = expected.iter().filter(|line| !found.contains(line)).collect();
        let unexpected: Vec<_> = found.iter().filter(|line| !expected.contains(line)).collect();
        assert!(
            missing.is_empty() && unexpected.is_empty() && expected.len() == found.len(),
            "{pair}: missing {missing:#?}\nunexpected {unexpected:#?}\n{ended}"
        );
    }
}

/// Runs a tool beside a host; `$PPID` is the host.
fn run_tool(pair: Pair, host_args: &str, args: &str) -> Ended {
    let traces = Traces::begin();
    let script = format!(
        "[ $TEST_RANK = 0 ] || exit 0; LD_LIBRARY_PATH={} PYTHONDONTWRITEBYTECODE=1 {PYTHON} {} {args}",
        pair.ranks.directory().display(),
        repository().join("tests/python/tool.py").display(),
    );
    beside_host(pair.server, &traces, &format!("{host_args} --tools name"), &script)
}

#[test]
fn a_tool_of_the_module_goes_from_server_to_server() {
    let run = |pair| {
        let plan = TOOL_PLAN.replace("SECOND", "file:$PMIX_SYSTEM_TMPDIR/../1/pmix.nodeB.tool");
        run_tool(pair, "-s 2", &format!("pmix.srvr.uri file:$PMIX_SYSTEM_TMPDIR/pmix.sys.nodeA {plan}"))
    };
    // The lines in the tool's order.
    let of_tool = |ended: &Ended| -> Vec<_> {
        let lines = ended.stdout.lines().filter_map(|line| line.strip_prefix("tool "));
        lines.map(|line| ("tool", line.to_owned())).collect()
    };
    let stock = of_tool(&run(Pair::stock()));
    for pair in Pair::all() {
        let ended = run(pair);
        let found: Vec<_> = of_tool(&ended).iter().map(|(who, line)| format!("{who} {line}")).collect();
        assert_eq!(found, expected(pair, &stock, &TOOL_DIFFERENCES), "{pair}: {ended}");
        for (name, host) in [("first", 0), ("attached", 0), ("turned", 1), ("returned", 0)] {
            let publish = ended.stderr.lines().find(|line| line.contains(&format!(": publish {name} by 0")));
            assert!(publish.is_some_and(|line| line.starts_with(&format!("host {host}:"))), "{pair}: {name}: {ended}");
        }
    }
}

/// With servers of both libraries, the stock library's process waits for ever on memory that it has freed.
#[test]
fn a_tool_found_by_its_servers_process_pushes() {
    for pair in Pair::all() {
        let pushes = if pair.ranks.is_ours() { "pushes" } else { "" };
        let ended = run_tool(pair, "", &format!("pmix.srvr.pidinfo $PPID servers {pushes}"));
        assert_eq!(ended.count("tool get_servers: 0 [{nspace: 'test-host', rank: 0}]"), 1, "{pair}: {ended}");
        assert_eq!(ended.count("tool iof_push: 0"), usize::from(pair.ranks.is_ours()), "{pair}: {ended}");
        assert_eq!(ended.count("tool finalize: 0"), 1, "{pair}: {ended}");
    }
}

#[test]
fn a_regex_that_is_no_regex_does_not_end_our_process() {
    for pair in Pair::all() {
        let ended = run(pair, &["1:begin,regex,end"]);
        // The stock library crashes when it packs the value.
        let status = if pair.ranks.is_ours() { 0 } else { -11 };
        assert_eq!(ended.count(&format!("host job0.0 ended: {status}")), 1, "{pair}: {ended}");
    }
}

/// The module as host does not answer group upcalls. Our library makes them only if it must, so clients of both
/// libraries can destruct the group that they have constructed.
#[test]
fn groups_of_one_node_are_dissolved_without_the_host() {
    for pair in Pair::all().into_iter().filter(|pair| pair.server.is_ours()) {
        let ended = run(pair, &["2:begin,formed,dissolved,end"]);
        assert_eq!(ended.count(" group_destruct: 0"), 2, "{pair}: {ended}");
        assert_eq!(ended.count("upcall group"), 0, "{pair}: {ended}");
    }
}

/// An invited process crashes with the stock library: the module reads results that are not set.
#[test]
fn an_invited_process_joins_under_either_server() {
    for pair in Pair::all().into_iter().filter(|pair| pair.ranks.is_ours()) {
        let ended = run(pair, &["2:begin,invited,end"]);
        for line in ["job0.0 group_invite: 0", "job0.1 group_join: 0 [{", "job0.1 heard: [-159, -166]"] {
            assert_eq!(ended.count(line), 1, "{pair}: {line}: {ended}");
        }
        let joined = ended.stdout.lines().find(|line| line.starts_with("job0.1 group_join:")).unwrap_or_default();
        assert!(joined.contains("py.invited"), "{pair}: {ended}");
    }
}

/// The module passes an uninitialised structure: the stock library's answer depends on its contents.
#[test]
fn a_client_has_the_processors_that_the_kernel_gives_it() {
    for pair in Pair::all().into_iter().filter(|pair| pair.ranks.is_ours()) {
        let ended = run(pair, &["1:begin,cpuset,end"]);
        let line = ended.stdout.lines().find_map(|line| line.strip_prefix("job0.0 get_cpuset: 0 'hwloc:"));
        let (set, allowed) = line.and_then(|line| line.split_once("' [")).unwrap_or_else(|| panic!("{pair}: {ended}"));
        let mut each = Vec::new();
        for range in set.split(',') {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let number = |text: &str| text.parse::<u32>().unwrap_or_else(|_| panic!("{pair}: {ended}"));
            each.extend((number(first)..=number(last)).map(|number| number.to_string()));
        }
        assert_eq!(each.join(", "), allowed.trim_end_matches(']'), "{pair}: {ended}");
    }
}

#[test]
fn clients_under_our_launcher_are_answered_where_the_module_as_host_would_not() {
    let said_under_pmixrun = |ranks: Library| {
        let traces = Traces::begin();
        let ended = Run::new(pmixrun(), Library::ours())
            .traced(&traces)
            .args("-n 2 env PYTHONDONTWRITEBYTECODE=1")
            .arg(format!("LD_LIBRARY_PATH={}", ranks.directory().display()))
            .arg(PYTHON)
            .arg(repository().join("tests/python/client.py"))
            .args("begin heeded contexts end")
            .succeed();
        traces.assert_none_left(&ended);
        assert_eq!(ended.count(&format!(" library: '{}'", ranks.identity())), 2, "{ended}");
        assert_eq!(ended.stderr.matches("a line").count(), 2, "{ended}");
        // Without the process names, which differ in each run.
        let lines = ended.stdout.lines().filter_map(|line| line.split_once(' ')).map(|(_, line)| line.to_owned());
        let mut lines: Vec<_> =
            lines.filter(|line| !line.starts_with("library") && !line.starts_with("init:")).collect();
        lines.sort_unstable();
        lines
    };
    let ours = said_under_pmixrun(Library::ours());
    for line in ["log: 0", "group_leave: 0", "group_construct with a context id: 0 [True]"] {
        assert!(ours.iter().any(|said| said == line), "{line}: {ours:#?}");
    }
    assert_eq!(ours, said_under_pmixrun(Library::Stock));
}

#[test]
fn every_method_of_the_module_is_called() {
    let list = "import pmix, inspect; [print(f'{kind.__name__}.{name}') for _, kind in inspect.getmembers(pmix, inspect.isclass) \
                if kind.__name__.startswith('PMIx') for name in vars(kind) if not name.startswith('__')]";
    let methods = Run::new(PYTHON, Library::ours()).arg("-Wignore").arg("-c").arg(list).succeed();
    let scripts = CLASSES.map(|(class, name)| {
        let script = repository().join("tests/python").join(name);
        (class, std::fs::read_to_string(script).expect("a script"))
    });
    let mut not_called: Vec<_> = methods.stdout.lines().collect();
    assert!(not_called.len() >= 87, "{methods}");
    not_called.retain(|called| {
        let (class, method) = called.split_once('.').expect("class and method");
        let (_, script) = scripts.iter().find(|(of, _)| *of == class).unwrap_or_else(|| panic!("a class {class}"));
        let forms = [format!("\"{method}\""), format!("self.client.{method}"), format!("self.server.{method}")];
        !forms.iter().any(|form| script.contains(form))
    });
    not_called.sort_unstable();
    assert_eq!(not_called, NOT_CALLED.map(|(method, _)| method));
}
