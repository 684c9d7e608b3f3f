//! Tools under a host: Debian's command-line tools, with their own library, at servers of ours and of the stock library.

use std::io::Write;
use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use nix::unistd::{Uid, geteuid, setfsuid};
use pmix_tests::{Ended, Library, Run, Traces, beside_host, beside_host_with, beside_job, plugin, pmixrun, program};

/// The library in each of the two roles of a server.
fn servers() -> [Library; 2] {
    [Library::ours(), Library::Stock]
}

/// The number of lines with `text` in the host's log.
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
        // They query namespaces, which this host does not answer.
        assert_eq!(told(&ended, ": query pmix.qry.ns by 0"), 6, "{ended}");
    }
}

/// A stock host crashes when it refuses a tool.
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
fn a_tool_makes_the_requests_of_a_client() {
    for (server, library) in pairs() {
        let traces = Traces::begin();
        let asks =
            "--pid $PPID get=test-job:4294967294:pmix.job.size publish=key lookup=key lookup=other query=pmix.qry.ns";
        let hears = tool(library, "--system await=-3456").replace("; ", " & ");
        let tells = tool(library, "--system event=-3456");
        // The receiver may register late, so repeat the event.
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

/// What a tool declares is in its own queries, whatever the server answers; a tool without a server answers itself.
#[test]
fn attributes_of_a_tool_are_in_its_own_queries() {
    let words = "declare=Site_show:SITE_OWN declare=Site_show:SITE_OTHER support=pmix.tool.attrs:Site_show";
    for server in [Library::ours(), Library::Stock] {
        let traces = Traces::begin();
        let script = ["--pid $PPID", "--alone"].map(|how| tool(Library::ours(), &format!("{how} {words}"))).concat();
        let ended = beside_host(server, &traces, "--tools name", &script);
        assert_eq!(lines(&ended, "declare "), ["declare Site_show: 0", "declare Site_show: -171"].repeat(2), "{ended}");
        assert_eq!(lines(&ended, "support: "), ["support: 0 Site_show SITE_OWN"; 2], "{ended}");
    }
}

#[test]
fn a_tool_may_be_alone_or_find_no_server() {
    let wrong_uri = "--uri file:/nonexistent/pmix.uri";
    let script: String = ["--alone servers again", "--optional --nspace nobody servers", "--nspace nobody", wrong_uri]
        .iter()
        .map(|words| tool(Library::ours(), words))
        .collect();
    let traces = Traces::begin();
    let ended = beside_host(Library::ours(), &traces, "--tools name", &format!("{script} true"));
    assert_eq!(lines(&ended, "init: "), ["init: 0", "init: 0", "init: -25", "init: -25"], "{ended}");
    assert_eq!(lines(&ended, "servers: -25, 0").len(), 2, "{ended}");
    assert_eq!(lines(&ended, "again: 0, 0").len(), 1, "{ended}");
    assert_eq!(told(&ended, ": tool"), 0, "{ended}");
}

/// A tool with two servers. The second one's host assigns no name, because the tool has one already.
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

/// A user that is unrelated to the server.
const OTHER: u32 = 65_534;

/// Ends a thread, also if the test fails.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// A listener with another user's socket, which closes each connection until the end of `during`.
fn beside_listener_of<R>(uid: u32, during: impl FnOnce(u16) -> R) -> R {
    let bind = move || {
        setfsuid(Uid::from_raw(uid));
        TcpListener::bind("127.0.0.1:0").unwrap()
    };
    let listener = thread::spawn(bind).join().unwrap();
    let port = listener.local_addr().unwrap().port();
    listener.set_nonblocking(true).unwrap();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Acquire) {
                let _ = listener.accept();
                thread::sleep(Duration::from_millis(5));
            }
        });
        let _over = Ends(&is_over);
        during(port)
    })
}

/// Whether this is root. Otherwise reports the test, which needs other users, as left out.
fn is_root() -> bool {
    if !geteuid().is_root() {
        let _ = writeln!(std::io::stderr(), "left out: only root can act as another user");
    }
    geteuid().is_root()
}

/// A world-writable directory in which another user has left files with the names of rendezvous files.
const POISONED: &str =
    "D=$(mktemp -d -p $PMIX_SYSTEM_TMPDIR); chmod 1777 $D; H=$(hostname -s); REAL=$PMIX_SYSTEM_TMPDIR/pmix.sys.$H; ";

#[test]
fn foreign_files_in_a_shared_directory_do_not_mislead_tools() {
    if !is_root() {
        return;
    }
    let find = |words: &str| {
        tool(Library::ours(), &format!("--systmp $D --tmp $D {words}")).replace("LD_LIB", "timeout 60 env LD_LIB")
    };
    let script = [
        POISONED.to_owned(),
        // The address of a running server, in a file of another user.
        format!("cp $REAL $D/pmix.sys.$H; chown {OTHER} $D/pmix.sys.$H; "),
        find("--system servers"),
        find("servers"),
        "mv $D/pmix.sys.$H $D/pmix.sched.$H; cp -p $D/pmix.sched.$H $D/pmix.$H.tool; ".into(),
        find("--scheduler servers"),
        find("servers"),
        // In a directory of another user, which is not searched even for a file of root's.
        format!("rm $D/pmix.*; mkdir $D/theirs; cp $REAL $D/theirs/pmix.$H.tool; chown {OTHER} $D/theirs; "),
        find("servers"),
        // A FIFO: reading it would block.
        "mkfifo $D/pmix.sys.$H $D/pmix.$H.tool; ".into(),
        find("--timeout 1 --system servers"),
        find("--file $D/pmix.$H.tool servers"),
        find("servers"),
        "rm $D/pmix.*; mkdir $D/pmix.sys.$H $D/pmix.$H.tool; ".into(),
        find("--system servers"),
        find("servers"),
        "rm -r $D/pmix.*; ln -s $REAL $D/pmix.sys.$H; ".into(),
        find("--system servers"),
        // The caller's own choice.
        format!("cp $REAL $D/named; chown {OTHER} $D/named; ln -s $D/named $D/link; "),
        find("--file $D/link servers"),
        find("--uri file:$D/named servers"),
        "rm -r $D".into(),
    ];
    let traces = Traces::begin();
    let ended = beside_host(Library::ours(), &traces, "--tools name", &script.concat());
    let expected = ["init: -25"; 11].into_iter().chain(["init: 0"; 2]).collect::<Vec<_>>();
    assert_eq!(lines(&ended, "init: "), expected, "{ended}");
    let why = format!(
        "is ignored: user {OTHER} owns it; trusted are root, this user and the users listed in /etc/pmix-dstore/trusted-uids"
    );
    assert_eq!(ended.stderr.lines().filter(|line| line.contains(&why)).count(), 4, "{ended}");
}

/// The administrator's list, in a mount namespace that contains it.
#[test]
fn a_user_listed_by_the_administrator_is_trusted() {
    if !is_root() {
        return;
    }
    let find = tool(Library::ours(), "--systmp $D --tmp $D --system servers");
    let inside = format!("mount --bind $D/etc /etc; {find} chmod 666 $D/etc/pmix-dstore/trusted-uids; {find} true");
    let script = format!(
        "{POISONED} cp $REAL $D/pmix.sys.$H; chown {OTHER} $D/pmix.sys.$H; cp -a /etc $D/etc; mkdir -p $D/etc/pmix-dstore; \
         printf '# the DVM\\n{OTHER}\\n' > $D/etc/pmix-dstore/trusted-uids; export D H; unshare -m sh -c '{inside}'; rm -r $D"
    );
    let traces = Traces::begin();
    let ended = beside_host(Library::ours(), &traces, "--tools name", &script);
    assert_eq!(lines(&ended, "init: "), ["init: 0", "init: -25"], "{ended}");
    assert_eq!(ended.stderr.matches("trusted-uids is ignored: user 0 owns it with mode 666").count(), 1, "{ended}");
}

/// Another user's process takes the port of a server that has ended.
#[test]
fn a_tool_refuses_a_foreign_process_on_a_servers_port() {
    if !is_root() {
        return;
    }
    for (uid, statuses) in [(OTHER, [-23, -23, -25, -25]), (0, [-25, -25, -25, -25])] {
        let ended = beside_listener_of(uid, |port| {
            let find = |words: &str| tool(Library::ours(), &format!("--systmp $D --tmp $D {words}"));
            let uri = format!("old.0;tcp4://127.0.0.1:{port}");
            let script = [
                POISONED.to_owned(),
                format!("printf '{uri}\\n4.2.2\\n%d\\n' $$ > $D/pmix.sys.$H; "),
                find("servers"),
                find("--file $D/pmix.sys.$H servers"),
                // A caller that names another user's file, or an address, means that server.
                format!("chown {OTHER} $D/pmix.sys.$H; "),
                find("--file $D/pmix.sys.$H servers"),
                find(&format!("--uri '{uri}' servers")),
                "rm -r $D".into(),
            ];
            beside_host(Library::ours(), &Traces::begin(), "--tools name", &script.concat())
        });
        assert_eq!(lines(&ended, "init: "), statuses.map(|status| format!("init: {status}")), "{ended}");
        let said = ended.stderr.lines().filter(|line| line.contains(&format!("user {OTHER} listens there"))).count();
        assert_eq!(said, if uid == 0 { 0 } else { 2 }, "{ended}");
    }
}

/// If the system server has ended or refuses the tool, the tool connects to a running session's server.
#[test]
fn a_tool_asks_the_next_server() {
    let ended = beside_listener_of(geteuid().as_raw(), |port| {
        let find = |words: &str| tool(Library::ours(), &format!("--systmp $D {words}"));
        let script = [
            "D=$(mktemp -d); H=$(hostname -s); ".to_owned(),
            // Its process ID is reused, and nothing listens on its port; then a listener closes the connection.
            "printf 'old.0;tcp4://127.0.0.1:1\\n4.2.2\\n%d\\n' $$ > $D/pmix.sys.$H; ".into(),
            find("--tmp $PMIX_SERVER_TMPDIR servers"),
            find("--tmp $PMIX_SERVER_TMPDIR --first servers"),
            find("servers"),
            find("--system servers"),
            format!("printf 'old.0;tcp4://127.0.0.1:{port}\\n4.2.2\\n%d\\n' $$ > $D/pmix.sys.$H; "),
            find("--tmp $PMIX_SERVER_TMPDIR servers"),
            find("--first --pid $PPID servers"),
            find("--system servers"),
            "rm -r $D".into(),
        ];
        beside_host(Library::ours(), &Traces::begin(), "--tools name", &script.concat())
    });
    let expected = [0, 0, 0, -25, 0, 0, -25].map(|status| format!("init: {status}"));
    assert_eq!(lines(&ended, "init: "), expected, "{ended}");
    assert_eq!(lines(&ended, "servers: 0, 1, first test-host:0").len(), 5, "{ended}");
}

/// Makes in `$D` the directories `A` and `B` with the files of two servers, as if both were on this node.
const TWO_SERVERS: &str = "[ $TEST_RANK = 0 ] || exit 0; D=$(mktemp -d); H=$(hostname -s); S=$PMIX_SYSTEM_TMPDIR; \
    add() { mkdir $D/$1; for f in $2/pmix.node$1.tool*; do cp -p $f $D/$1/pmix.$H${f#$2/pmix.node$1}; done; }; \
    add A $S; add B $S/../1; PA=$(sed -n 3p $D/A/pmix.$H.tool); PB=$(sed -n 3p $D/B/pmix.$H.tool); echo pids: $PA $PB; \
    export PMIX_SYSTEM_TMPDIR=$D PMIX_SERVER_TMPDIR=$D; ";

/// The lines that a tool writes for its user.
fn complaints(ended: &Ended) -> Vec<&str> {
    let line = |line: &'_ str| line.starts_with("pmix-dstore tool ");
    ended.stderr.lines().filter(|text| line(text)).filter_map(|line| Some(line.split_once(": ")?.1)).collect()
}

/// A tool that has become a server is found by other tools, if its attributes ask for the files.
#[test]
fn a_tool_that_is_a_server_is_found_by_other_tools() {
    let library = Library::ours();
    let server = |words: &str| tool(library, &format!("--name l:0 --alone --tmp $D {words}")).replace("; ", " & ");
    let find = tool(library, "--tmp $D --nspace l servers");
    let script = format!(
        "D=$(mktemp -d); export H=$(hostname -s); {}while ! [ -e $D/pmix.$H.tool.l ]; do sleep 0.1; done; ls $D | wc -l; {find}\
         touch $D/done; wait; echo left: $(ls -A $D); rm $D/done; {}{}rm -r $D",
        server("--support serve-tools stay=$D/done"),
        tool(library, "--name l:0 --alone --tmp $D serve-tools"),
        find,
    );
    let ended = beside_host(library, &Traces::begin(), "--tools name", &script);
    assert_eq!(lines(&ended, "serve: "), ["serve: 0", "serve: 0"], "{ended}");
    assert_eq!(lines(&ended, "servers: 0, 1, first l:0").len(), 1, "{ended}");
    assert_eq!(lines(&ended, "me: "), ["me: l:0", "me: visitor:0", "me: l:0"], "{ended}");
    assert_eq!(lines(&ended, "left: "), ["left: done"], "{ended}");
}

/// A stock tool that has attached to a primary server does not end.
#[test]
fn a_tool_uses_a_primary_server_at_once() {
    for server in servers() {
        let words =
            "--file $PMIX_SYSTEM_TMPDIR/pmix.sys.nodeA primary=file:$PMIX_SYSTEM_TMPDIR/../1/pmix.nodeB.tool servers";
        let script = format!("[ $TEST_RANK = 0 ] || exit 0; {}", tool(Library::ours(), words));
        let ended = beside_host(server, &Traces::begin(), "-s 2 --tools name", &script);
        assert_eq!(lines(&ended, "servers: "), ["servers: 0, 2, first test-host:1"], "{ended}");
    }
}

/// Handlers hear of the events of each server that the tool is connected to, registered before or after it connected.
#[test]
fn event_handlers_go_along_from_server_to_server() {
    for (server, library) in pairs() {
        let traces = Traces::begin();
        let mut script = "[ $TEST_RANK = 0 ] || exit 0; A=$PMIX_SYSTEM_TMPDIR/pmix.sys.nodeA; B=$PMIX_SYSTEM_TMPDIR/../1/pmix.nodeB.tool; ".to_owned();
        // The server of the event, and what the tool does before it waits.
        for (from, words) in [
            ("$A", "attach=file:$B"),
            ("$B", "attach=file:$B"),
            ("$B", "attach=file:$B use=test-host:1"),
            ("$A", "attach=file:$B use=test-host:1"),
            ("$B", "attach=file:$B on=-3456 use=test-host:1"),
        ] {
            let await_ = if words.contains("on=") { "heard=-3456" } else { "await=-3456" };
            let hears = tool(library, &format!("--file $A {words} {await_}")).replace("; ", " & ");
            let tells = tool(library, &format!("--file {from} event=-3456 >/dev/null"));
            script += &format!("{hears}while kill -0 $! 2>/dev/null; do sleep 0.2; {tells} done; wait; ");
        }
        let ended = beside_host(server, &traces, "-s 2 --tools name", &script);
        assert_eq!(lines(&ended, "event: ").len(), 5, "{ended}");
        assert!(lines(&ended, "event: ").iter().all(|line| *line == "event: -3456"), "{ended}");
    }
}

/// Two launchers know nothing of each other's events. The stock library does not tell the other one of a later handler.
#[test]
fn a_later_handler_hears_of_a_server_that_is_not_in_use() {
    let traces = Traces::begin();
    let begin = "$RUN --report-uri $URI.2 -n 1 sh -c '. $WAIT' & Q=$!; while test ! -s $URI.2; do sleep 0.02; done; ";
    let hears = tool(Library::ours(), "--pid $P attach=file:$URI.2 servers on=-3456 heard=-3456").replace("; ", " & ");
    let tells = tool(Library::ours(), "--pid $Q event=-3456 >/dev/null");
    let script =
        format!("{begin}{hears} T=$!; while kill -0 $T 2>/dev/null; do sleep 0.2; {tells} done; wait $T; rm $URI.2;");
    // The second launcher ends with the first one's gate.
    let ended = beside_job(Library::ours(), &traces, "-n 1 sh -c '. $WAIT'", &script);
    assert_eq!(lines(&ended, "servers: 0, 2").len(), 1, "{ended}");
    assert_eq!(lines(&ended, "event: "), ["event: -3456"], "{ended}");
}

/// Without a choice by the caller no server is picked; the stock library does not pick one, either.
#[test]
fn servers_that_could_be_meant_are_listed_and_none_is_picked() {
    let searches = ["servers", "--nspace test-host servers", "--optional servers"];
    let choices = ["--pid $PB servers", "--uri file:$D/A/pmix.$H.tool servers", "--pid $PA available servers"];
    for (server, library) in pairs() {
        let traces = Traces::begin();
        // A stock tool that may do without a server does not return from its initialization.
        let searches = if library.is_ours() { &searches[..] } else { &searches[..2] };
        let of_tools = searches.iter().chain(&choices).map(|words| tool(library, words));
        let script = format!("{TWO_SERVERS}{}rm -r $D", of_tools.collect::<String>());
        let ended = beside_host(server, &traces, "-s 2 --tools name", &script);
        let pids = lines(&ended, "pids: ")[0].strip_prefix("pids: ").unwrap().split_once(' ').unwrap();
        let statuses: Vec<&str> = lines(&ended, "init: ");
        let expected = ["init: -25"; 2].into_iter().chain(["init: 0"; 3 + 1]).take(searches.len() + choices.len());
        assert_eq!(statuses, expected.collect::<Vec<_>>(), "{ended}");
        let connected = [1, 0, 0].map(|rank| format!("servers: 0, 1, first test-host:{rank}"));
        let said: Vec<&str> = lines(&ended, "servers: 0, ");
        assert_eq!(said, connected, "{ended}");
        let said = complaints(&ended);
        if !library.is_ours() {
            assert!(ended.stderr.contains("multiple possible servers"), "{ended}");
            continue;
        }
        let available = lines(&ended, "available");
        assert_eq!(available.len(), 2, "{ended}");
        assert!(available.iter().all(|line| line.starts_with("available pmix.srv.arr: test-host:")), "{ended}");
        // Two tools, each with a heading and two lines.
        assert_eq!(said.len(), 6, "{ended}");
        let heading = "not connected: 2 servers could be meant; choose one:";
        assert_eq!(said.iter().filter(|line| **line == heading).count(), 2, "{ended}");
        for pid in [pids.0, pids.1] {
            let about = format!("process {pid}, user {}, started ", geteuid());
            let ways = [
                format!(" UTC, namespace test-host: PMIX_SERVER_PIDINFO={pid} or PMIX_SERVER_URI=file:"),
                " UTC, namespace test-host: PMIX_SERVER_URI=file:".to_owned(),
            ];
            for way in ways {
                let of_way = said.iter().filter(|line| line.starts_with(&about) && line.contains(&way));
                assert_eq!(of_way.count(), 1, "{about}{way}: {ended}");
            }
        }
    }
}

#[test]
fn stale_files_of_servers_are_skipped_and_named_if_there_is_no_other() {
    let stale = "U=$(head -1 $D/A/pmix.$H.tool); rm -r $D/B; mkdir $D/C; cd $D/C; \
        printf '%s\\n4.2.2\\n999999999\\n' \"$U\" > pmix.$H.tool.dead; \
        printf '%s\\n4.2.2\\n%d\\n' \"$U\" $$ > pmix.$H.tool.reused; \
        printf 'old.0;tcp4://127.0.0.1:1\\n4.2.2\\n%d\\n' $$ > pmix.$H.tool.closed; \
        printf 'half.0;tcp4://127.0.0.1:4' > pmix.$H.tool.half; \
        printf '\\033[2J\\n' > pmix.$H.tool.hostile; mkfifo pmix.$H.tool.fifo; mkdir pmix.$H.tool.directory; ";
    let find = tool(Library::ours(), "servers");
    let script = format!("{TWO_SERVERS}{stale}{find}rm -r $D/A; {find}cd /; rm -r $D");
    let ended = beside_host(Library::ours(), &Traces::begin(), "-s 2 --tools name", &script);
    assert_eq!(lines(&ended, "init: "), ["init: 0", "init: -25"], "{ended}");
    assert_eq!(lines(&ended, "servers: "), ["servers: 0, 1, first test-host:0"], "{ended}");
    let mut said: Vec<String> =
        complaints(&ended).iter().map(|line| line.rsplit_once(".tool.").expect("a file's name").1.to_owned()).collect();
    said.sort();
    let starts = [
        "closed is ignored: no process listens at 127.0.0.1:1; remove it",
        "dead is ignored: process 999999999 has ended; remove it",
        "fifo is ignored: it cannot be read: not a regular file",
        "half is ignored: it is empty or ends within a line: it is not written completely",
        "hostile is ignored: its first line is no address of a server",
        "reused is ignored: not process ",
    ];
    assert_eq!(said.len(), starts.len(), "{ended}");
    assert!(said.iter().zip(starts).all(|(said, start)| said.starts_with(start)), "{ended}");
}

/// A file system that is slow to open files: the server is found, or the time limit is what is told.
#[test]
fn a_slow_file_system_takes_longer_and_leads_nobody_astray() {
    let ps = format!("{} ps --pid $P", pmixrun().with_file_name("pmixctl").display());
    let slow = format!("LD_PRELOAD={} SLOW_DIRECTORY=$TMPDIR", plugin("slow").display());
    let script = format!(
        "{ps} > $TMPDIR/../own/fast; {slow} SLOW_MS=50 {ps} > $TMPDIR/../own/slow 2> /dev/null; \
         awk '{{ $6 = \"\"; print }}' $TMPDIR/../own/fast > $TMPDIR/../own/a; awk '{{ $6 = \"\"; print }}' $TMPDIR/../own/slow > $TMPDIR/../own/b; \
         grep -c '\\.job' $TMPDIR/../own/fast; cmp $TMPDIR/../own/a $TMPDIR/../own/b && echo alike; \
         {slow} SLOW_MS=1500 {ps} --timeout 1; echo \"exit: $?\";"
    );
    let ended = beside_job(Library::ours(), &Traces::begin(), &format!("-n 2 {RANKS}"), &[PID, &script].concat());
    assert!(ended.stdout.contains("2\nalike\nexit: 1\n"), "{ended}");
    // When the time is over, nothing more is read.
    assert_eq!(ended.stderr.lines().filter(|line| line.starts_with("slow: ")).count(), 1, "{ended}");
    assert!(
        ended.stderr.contains("PMIX_ERR_TIMEOUT (-24). It did not answer, or the files of servers were not read, in time; --timeout SECONDS"),
        "{ended}"
    );
}

/// Release 5.0.3 of the stock library crashes on a directory.
#[test]
fn a_file_that_holds_no_address_is_no_server_and_pmixctl_says_why() {
    let files = ["directory", "fifo", "empty", "noise", "absent"];
    let make = "D=$(mktemp -d); cd $D; mkdir directory; mkfifo fifo; : > empty; head -c 4000 /dev/urandom > noise; ";
    let pmixctl = pmixrun().with_file_name("pmixctl").display().to_string();
    let of_file = |file: &str| {
        let library = tool(Library::ours(), &format!("--file $D/{file} servers"));
        format!("{library}{pmixctl} ps --file $D/{file} 2>&1; ")
    };
    let script = format!("{make}{}cd /; rm -r $D", files.map(of_file).concat());
    let ended = beside_host(Library::ours(), &Traces::begin(), "--tools name", &script);
    assert_eq!(lines(&ended, "init: "), ["init: -25"; 5], "{ended}");
    let why = lines(&ended, "pmixctl: ").into_iter().filter_map(|line| line.rsplit_once(": ").map(|(_, why)| why));
    let (none, next) =
        ("no file with a server's address", "; pmixctl servers lists the servers, with --json their files");
    let expected =
        ["(not a regular file)", "(not a regular file)", "(invalid data)", "(stream did not contain valid UTF-8)"];
    let mut expected: Vec<String> = expected.iter().map(|why| format!("{none} {why}{next}")).collect();
    expected.push(format!("No such file or directory (os error 2){next}"));
    assert_eq!(why.collect::<Vec<_>>(), expected, "{ended}");
}

/// A tool that starts before its server waits for it, if it is told to.
#[test]
fn a_tool_tries_again_until_its_server_is_there() {
    for (server, library) in pairs() {
        let late = format!(
            "mv $D $D.later; mkdir $D; (sleep 1; mv $D.later/A $D) & {}wait; ",
            tool(library, "--retry 60 servers")
        );
        let script = format!("{TWO_SERVERS}{late}rm -r $D $D.later");
        let ended = beside_host(server, &Traces::begin(), "-s 2 --tools name", &script);
        // A stock tool tries again to connect, but not to find a server.
        let expected = if library.is_ours() { ["init: 0"] } else { ["init: -25"] };
        assert_eq!(lines(&ended, "init: "), expected, "{ended}");
        assert_eq!(complaints(&ended), [""; 0], "{ended}");
    }
}

#[test]
fn a_tool_may_give_only_its_namespace_or_the_old_address_variable() {
    for (server, library) in pairs() {
        // The stock library also requires the rank.
        let called = if library.is_ours() { tool(library, "--called me servers") } else { String::new() };
        let by_uri = tool(library, "--tcp \"$(head -1 $PMIX_SYSTEM_TMPDIR/pmix.$(hostname -s).tool)\" servers");
        let traces = Traces::begin();
        let ended = beside_host(server, &traces, "--tools name", &format!("{called}{by_uri}"));
        assert_eq!(
            lines(&ended, "servers: 0, 1, first test-host:0").len(),
            1 + usize::from(library.is_ours()),
            "{ended}"
        );
        assert_eq!(lines(&ended, "me: me:0").len(), usize::from(library.is_ours()), "{ended}");
    }
}

/// The starter of a launcher names in its environment a file for the launcher's address, beside other files.
#[test]
fn a_launcher_leaves_the_file_that_its_starter_looks_at() {
    // The headers name the second variable, but stock servers ignore it.
    for variable in ["PMIX_LAUNCHER_RENDEZVOUS_FILE", "PMIX_LAUNCHER_RNDZ_FILE"] {
        let traces = Traces::begin();
        let file = traces.directory().join("launcher");
        let file = file.to_str().unwrap();
        let find = tool(Library::ours(), &format!("--file {file} servers"));
        let ended = beside_host_with(Library::ours(), &traces, &[(variable, file)], "--tools name", &find);
        assert_eq!(lines(&ended, "servers: 0, 1, first test-host:0").len(), 1, "{ended}");
    }
}

/// A debugger that has started a launcher names its own address in the launcher's environment, and releases the
/// launcher with an event.
#[test]
fn a_launcher_waits_for_the_debugger_that_has_started_it() {
    let file = "$PMIX_SYSTEM_TMPDIR/pmix.$(hostname -s).tool";
    let debugged =
        |words: &str| format!("export PMIX_LAUNCHER_RNDZ_URI=\"$(head -1 {file})\"; {}", tool(Library::ours(), words));
    let words = "servers get=l:0:pmix.parent";
    for server in servers() {
        // For a launcher without another server, and for one that is connected to this server already.
        for (start, is_connected) in [("--name l:0 --alone", 0), ("--name l:0 --pid $PPID", 1)] {
            let script = [
                format!(
                    "({}) > $TMPDIR/launcher & sleep 0.3; echo \"before: $(cat $TMPDIR/launcher)\"; ",
                    debugged(&format!("{start} {words}"))
                ),
                tool(Library::ours(), "--pid $PPID event=-3"),
                "wait; sed 's/^/launcher /' $TMPDIR/launcher".into(),
            ]
            .concat();
            let traces = Traces::begin();
            let temporary = tempfile::tempdir().unwrap();
            let variables = [("TMPDIR", temporary.path().to_str().unwrap())];
            let ended = beside_host_with(server, &traces, &variables, "--tools name", &script);
            let said = lines(&ended, "launcher ");
            let connected = format!("launcher is connected: {is_connected}");
            let expected = [
                "launcher init: 0",
                "launcher me: l:0",
                "launcher servers: 0, 1, first test-host:0",
                &connected,
                "launcher get pmix.parent: 0, test-host:0",
                "launcher finalize: 0",
            ];
            assert_eq!((lines(&ended, "before: "), said), (vec!["before: "], expected.to_vec()), "{start}: {ended}");
        }
    }
    let traces = Traces::begin();
    let nobody =
        format!("export PMIX_LAUNCHER_RNDZ_URI='gone.0;tcp4://127.0.0.1:1'; {}", tool(Library::ours(), "--alone"));
    let script = format!("({}); ({nobody}); true", debugged("--alone --timeout 1"));
    let ended = beside_host(Library::ours(), &traces, "--tools name", &script);
    assert_eq!(lines(&ended, "init: "), ["init: -24", "init: -25"], "not released, and by nobody: {ended}");
}

#[test]
fn a_launcher_tool_collects_setup_data_of_a_job() {
    for (server, library) in pairs() {
        let words = "--launcher --pid $PPID setup";
        let traces = Traces::begin();
        let ended =
            beside_host(server, &traces, "--tools name", &format!("export PMIX_MCA_test=1; {}", tool(library, words)));
        assert_eq!(lines(&ended, "setup: 0, 1").len(), 1, "{ended}");
    }
    let traces = Traces::begin();
    let ended = beside_host(Library::ours(), &traces, "--tools name", &tool(Library::ours(), "--pid $PPID setup"));
    assert_eq!(lines(&ended, "setup: -31, -1").len(), 1, "{ended}");
}

/// If the administrator requires it, tools of root and of the server's user prove their identity by reading a file.
#[test]
fn a_tool_proves_itself_by_a_file_of_the_server() {
    let file = "$PMIX_SYSTEM_TMPDIR/pmix.$(hostname -s).tool";
    let script = [
        tool(Library::ours(), "--pid $PPID servers"),
        tool(Library::ours(), &format!("--file {file} servers")),
        // An address names no file.
        tool(Library::ours(), &format!("--uri \"$(head -1 {file})\" servers")),
        "if pps --pid $PPID >/dev/null; then echo stock: in; else echo stock: out; fi; ".into(),
        format!("stat -c 'mode: %a' $(dirname {file})/.$(basename {file}).proof; "),
        format!("sed -i 's/^[0-9a-f]*$/{}/' $(dirname {file})/.$(basename {file}).proof; ", "0".repeat(64)),
        tool(Library::ours(), &format!("--file {file} servers")),
        "true".into(),
    ]
    .concat();
    for (demand, statuses, stock) in [("1", [0, 0, -25, -25], "out"), ("0", [0, 0, 0, -25], "in")] {
        let traces = Traces::begin();
        let variables = [("PMIX_DSTORE_TOOL_PROOF", demand)];
        let ended = beside_host_with(Library::ours(), &traces, &variables, "--tools name", &script);
        assert_eq!(lines(&ended, "init: "), statuses.map(|status| format!("init: {status}")), "{ended}");
        assert_eq!(lines(&ended, "stock: "), [format!("stock: {stock}")], "{ended}");
        assert_eq!(lines(&ended, "mode: "), ["mode: 600"], "{ended}");
        assert_eq!(ended.stderr.matches("wrong secret").count(), 1, "{ended}");
        let unproven = ended.stderr.matches("shows no proof, which PMIX_DSTORE_TOOL_PROOF=1 demands").count();
        assert_eq!(unproven, if demand == "1" { 2 } else { 0 }, "{ended}");
    }
}

/// A tool's resolve becomes a query to the host. If the host never answers, the server does.
#[test]
fn a_host_resolves_peers_and_nodes_or_blocks_no_client() {
    let peers = "peers=far:far1 peers=test-job:$(hostname -s)";
    let resolved = ["peers of far: -44, 0", "peers of test-job: 0, 1"];
    for (way, nodes, peers, resolved) in [
        ("resolve", "0, far1,far2", peers, &resolved[..]),
        ("refuse", "-44, none", peers, &resolved),
        // It takes the host's time limit.
        ("silent", "-44, none", "", &[]),
    ] {
        let traces = Traces::begin();
        let script = tool(Library::ours(), &format!("--pid $PPID nodes=far {peers}"));
        let ended = beside_host(Library::ours(), &traces, &format!("--tools name --queries {way}"), &script);
        assert_eq!(lines(&ended, "nodes of far: "), [format!("nodes of far: {nodes}")], "{ended}");
        assert_eq!(lines(&ended, "peers of "), resolved, "{ended}");
        assert_eq!(told(&ended, ": query pmix.qry.node by 0"), 1, "{ended}");
    }
}

/// As Open MPI's singletons do it to spawn. The puts that the process made before go with its commit, and its handlers hear of events.
#[test]
fn a_process_that_nobody_launched_joins_the_server_that_it_starts() {
    for (server, process) in pairs() {
        let traces = Traces::begin();
        let directory = tempfile::tempdir().unwrap();
        let run = Run::new(program("alone"), process).traced(&traces).env("ALONE_TMPDIR", directory.path());
        let run = if server.is_ours() { run.env("ALONE_OUTPUT", "1") } else { run };
        let ended = run.arg(server.directory()).succeed();
        assert_eq!(ended.stdout.contains("child: hello"), server.is_ours(), "{ended}");
        let said =
            |who: &str| -> Vec<&str> { ended.stdout.lines().filter_map(|line| line.strip_prefix(who)).collect() };
        let mut steps = said("process: ");
        // It may come before the spawn's answer. Stock processes do not tell the server that they want to hear of it.
        let place = steps.iter().position(|step| *step == "heard the news");
        assert_eq!(place.is_some(), process.is_ours(), "{ended}");
        place.map(|place| steps.remove(place));
        let expected =
            ["init -25", "put 0", "join 0", "commit 0", "spawn 0 children", "get 0 4711", "finalize 0", "server 0"];
        assert_eq!(steps, expected, "{server:?} {process:?}: {ended}");
        let steps = said("server: ");
        assert!(steps.iter().any(|step| step.ends_with(":0 spawns child")), "{ended}");
        assert!(steps.contains(&"get 0 4711"), "{ended}");
        assert!(steps.iter().any(|step| step.ends_with(":0 connected, object none")), "{ended}");
        assert!(steps.contains(&"the variable is gone") && steps.contains(&"the starter has ended"), "{ended}");
        let ends = steps.iter().filter(|step| step.ends_with(":0 finalized")).count();
        assert_eq!(ends, usize::from(process.is_ours()), "stock processes come as tools: {ended}");
        traces.assert_none_left(&ended);
    }
}

/// `$PMIX_SERVER_TMPDIR` is not needed: tools search the launcher's `--tmpdir`, which is the tool's `TMPDIR`.
#[test]
fn a_tool_finds_the_launcher_of_a_job_in_every_way() {
    for library in servers() {
        let find: String = [
            "--pid $P servers",
            "--nspace $S servers",
            "servers",
            "--file $TMPDIR/pmixrun.*/pmix.$(hostname -s).tool servers",
            "--uri file:$URI servers",
            "--uri \"$(head -1 $URI)\" servers query=pmix.qry.ns",
        ]
        .iter()
        .map(|words| tool(library, words))
        .collect();
        let traces = Traces::begin();
        let script =
            format!("echo \"server: $S\"; {find}env -u LD_LIBRARY_PATH pps --pid $P >/dev/null && echo pps: in;");
        let ended = beside_job(Library::ours(), &traces, "-n 2 sh $WAIT", &script);
        let server = lines(&ended, "server: ")[0].trim_start_matches("server: ");
        assert_eq!(lines(&ended, &format!("servers: 0, 1, first {server}:0")).len(), 6, "{library:?}: {ended}");
        let names: Vec<String> = (1..=6).map(|number| format!("me: {server}.tool-{number}:0")).collect();
        assert_eq!(lines(&ended, "me: "), names, "{ended}");
        assert_eq!(lines(&ended, "query "), [format!("query pmix.qry.ns: 0, 1, {server}.job")], "{ended}");
        assert_eq!((lines(&ended, "pps: "), lines(&ended, "job: ")), (vec!["pps: in"], vec!["job: 0"]), "{ended}");
    }
}

/// A tool asks its server once for the segments of a job, and reads them then.
#[test]
fn a_tool_reads_the_segments_of_a_job() {
    let gets = "--pid $P get=$J:4294967294:pmix.job.size get=$J:1:pmix.lrank";
    let traced = |variables: &str| {
        let tool =
            tool(Library::ours(), gets).replace("LD_LIB", &format!("env PMIX_DSTORE_TRACE=1 {variables} LD_LIB"));
        let traces = Traces::begin();
        let ended = beside_job(Library::ours(), &traces, "-n 2 sh $WAIT", &tool);
        assert_eq!(lines(&ended, "get "), ["get pmix.job.size: 0, 2", "get pmix.lrank: 0, 1"], "{ended}");
        let from = |line: &str| Some(line.split_once("PMIx_Get(")?.1.split_once('[')?.1.split_once(',')?.0.to_owned());
        ended.stderr.lines().filter_map(from).collect::<Vec<_>>()
    };
    assert_eq!(traced(""), ["job segment", "job segment"]);
    assert_eq!(traced("PMIX_DSTORE_SHM=0"), ["server", "server"]);
}

/// A tool's abort ends the job, and is not taken for one of rank 0.
#[test]
fn a_tool_ends_the_job_of_a_launcher() {
    let traces = Traces::begin();
    let ended =
        beside_job(Library::ours(), &traces, "-n 2 sh $WAIT", &tool(Library::ours(), "--pid $P abort=$J:4294967294"));
    assert_eq!((lines(&ended, "abort: "), lines(&ended, "job: ")), (vec!["abort: 0"], vec!["job: 3"]), "{ended}");
    assert!(ended.stderr.contains(".tool-1 called abort with status 3: ended by a tool"), "{ended}");
}

/// Rows of the process table: rank, state, and the program's name without its directory.
fn rows(ended: &Ended) -> Vec<String> {
    let row = |line: &str| {
        let (start, rest) = line.split_once(", pid ").unwrap();
        format!("{start} {}", rest.split_once(' ').unwrap().1.split_once(" on ").unwrap().0)
    };
    lines(ended, "row ").into_iter().map(row).collect()
}

/// The file of rank 0's process, whose number the script needs.
const PID: &str = "while test ! -s $TMPDIR/../own/pid.0; do sleep 0.02; done; read R < $TMPDIR/../own/pid.0; ";

/// Ranks that write their processes' numbers and wait.
const RANKS: &str = "sh -c 'echo $$ > $TMPDIR/../own/pid.$PMIX_RANK; . $WAIT'";

#[test]
fn a_tool_pauses_and_resumes_ranks_and_sees_their_processes() {
    for library in servers() {
        let traces = Traces::begin();
        let words = "--pid $P table=$J status=$J act=$J:0:pause seen=$R:T act=$J:0:resume seen=$R:S act=$J:4294967294:pause seen=$R:T \
                     act=$J:4294967294:resume seen=$R:S act=$S.other:0:pause act=$J:7:kill act=$J:0:4711";
        let ended =
            beside_job(Library::ours(), &traces, &format!("-n 2 {RANKS}"), &[PID, &tool(library, words)].concat());
        let exe = ["/usr/bin/sh", "/bin/sh"]
            .into_iter()
            .find(|path| ended.stdout.contains(path))
            .unwrap_or_else(|| panic!("{ended}"));
        assert_eq!(rows(&ended), [0, 1].map(|rank| format!("row {rank}: state 5 {exe}")), "{library:?}: {ended}");
        let said: Vec<&str> =
            ended.stdout.lines().filter(|line| line.starts_with("act ") || line.starts_with("seen")).collect();
        let pause = ["act pause: 0", "seen: T", "act resume: 0", "seen: S"];
        assert_eq!(said[..8], [pause, pause].concat(), "{library:?}: {ended}");
        assert_eq!(said[8..], ["act pause: -44", "act kill: -46", "act 4711: -27"], "{library:?}: {ended}");
        assert_eq!(
            (lines(&ended, "status: "), lines(&ended, "job: ")),
            (vec!["status: -156"], vec!["job: 0"]),
            "{ended}"
        );
    }
}

#[test]
fn a_tool_ends_ranks_or_the_job() {
    let all = "4294967294";
    for (words, exit, said) in [
        (format!("act=$J:{all}:kill"), 137, "PMIX_JOB_CTRL_KILL by "),
        (format!("act=$J:{all}:pause act=$J:{all}:terminate"), 143, "PMIX_JOB_CTRL_TERMINATE by "),
        ("act=$J:1:kill".into(), 137, "rank 1 (pid "),
        ("act=$J:1:pause act=$J:1:terminate".into(), 143, "rank 1 (pid "),
        ("act=$J:1:10".into(), 138, "rank 1 (pid "),
    ] {
        for library in servers() {
            let traces = Traces::begin();
            // With this grace period a stopped rank that is not continued would hang the test.
            let job = format!("--grace 10000 -n 2 {RANKS}");
            let ended = beside_job(
                Library::ours(),
                &traces,
                &job,
                &[PID, &tool(library, &format!("--pid $P {words}"))].concat(),
            );
            assert!(lines(&ended, "act ").iter().all(|line| line.ends_with(": 0")), "{words} {library:?}: {ended}");
            assert_eq!(lines(&ended, "job: "), [format!("job: {exit}")], "{words} {library:?}: {ended}");
            assert!(ended.stderr.contains(said), "{words}: {ended}");
        }
    }
}

#[test]
fn many_signals_at_once_are_all_answered() {
    let job = "-n 2 sh -c 'trap : WINCH; echo $$ > $TMPDIR/../own/pid.$PMIX_RANK; . $WAIT'";
    let words = "--pid $P acts=$J:4294967294:28:5000 seen=$R:S";
    let ended = beside_job(Library::ours(), &Traces::begin(), job, &[PID, &tool(Library::ours(), words)].concat());
    assert_eq!(
        (lines(&ended, "acts: "), lines(&ended, "job: ")),
        (vec!["acts: 5000 of 5000"], vec!["job: 0"]),
        "{ended}"
    );
}

#[test]
fn a_signal_for_one_rank_continues_no_other_one() {
    let job = "-n 2 sh -c 'trap : TERM USR1; echo $$ > $TMPDIR/../own/pid.$PMIX_RANK; . $WAIT'";
    let words = "--pid $P act=$J:0:pause seen=$R:T act=$J:1:terminate seen=$R:T act=$J:1:10 seen=$R:T act=$J:0:terminate seen=$R:S";
    let traces = Traces::begin();
    let script =
        [PID, "while test ! -s $TMPDIR/../own/pid.1; do sleep 0.02; done; ", &tool(Library::ours(), words)].concat();
    let ended = beside_job(Library::ours(), &traces, job, &script);
    assert_eq!(lines(&ended, "seen: "), ["seen: T", "seen: T", "seen: T", "seen: S"], "{ended}");
}

/// A rank that has ended is in the table as long as others run.
#[test]
fn the_process_table_shows_how_ranks_ended() {
    let job = "-n 2 sh -c 'test $PMIX_RANK = 1 && exit; . $WAIT'";
    let traces = Traces::begin();
    let find = tool(Library::ours(), "--pid $P table=$J | grep -q 'row 1: state 20'");
    let ended = beside_job(Library::ours(), &traces, job, &format!("until {find} do sleep 0.1; done; echo found;"));
    assert_eq!((lines(&ended, "found").len(), lines(&ended, "job: ")), (1, vec!["job: 0"]), "{ended}");
}

#[test]
fn another_users_tool_does_not_reach_the_launcher_of_a_job() {
    if !is_root() {
        return;
    }
    let other = tool(Library::ours(), "--uri \"$(head -1 $URI)\" servers")
        .replace("LD_LIB", "setpriv --reuid 65534 --clear-groups env LD_LIB");
    let traces = Traces::begin();
    let ended = beside_job(Library::ours(), &traces, "-n 1 sh $WAIT", &other);
    assert_eq!(lines(&ended, "init: "), ["init: -25"], "{ended}");
    assert_eq!(
        ended.stderr.matches("refused a connection of user 65534, who has no process here").count(),
        1,
        "{ended}"
    );
}
