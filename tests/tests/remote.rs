//! Tools on other hosts, and munge. Two hosts are namespaces of this machine (`tests/remote/hosts.sh`).

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use pmix_tests::peers::{NOBODY, OFFENDER, PLAIN, Peer, RANKS, Target, Way, encode, log, tagged};
use pmix_tests::{Deadline, Ended, Host, Hosts, Library, Run, Stopped, WaitingJob, descriptors_of, pmixrun, program};
use pmix_wire::{Hello, PeerKind, Request, TAG_HEARTBEAT};

fn pmixctl() -> PathBuf {
    pmixrun().with_file_name("pmixctl")
}

/// A job of root on the host of the server that lets tools of other hosts in.
fn job(hosts: &Hosts) -> WaitingJob {
    let words = hosts.words(Host::Server);
    WaitingJob::start(RANKS, &format!("launcher=$1; shift; set -- {words} \"$launcher\" --remote \"$@\""))
}

/// A job of root on the host of the server, whose server cannot ask the kernel for the owners of connections.
fn job_without_table(hosts: &Hosts) -> WaitingJob {
    let (words, without) = (hosts.words(Host::Server), program("without"));
    WaitingJob::start(RANKS, &format!("set -- {words} {} table \"$@\"", without.display()))
}

/// The file of the job's server for tools on other hosts.
fn file(job: &WaitingJob) -> PathBuf {
    let entries = |path: PathBuf| std::fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut files = entries(job.directory()).flat_map(entries);
    let is_it =
        |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("pmix.remote."));
    files.find(is_it).expect("a file for tools on other hosts")
}

/// The server's URI for other hosts.
fn uri(job: &WaitingJob) -> String {
    let text = std::fs::read_to_string(file(job)).expect("the file");
    text.lines().next().expect("its first line").to_owned()
}

fn address(uri: &str) -> SocketAddr {
    uri.split_once(";tcp4://").expect("an address").1.parse().expect("an address")
}

/// What a tool says that claims to be of this user and shows this munge credential.
fn tool(user: u32, credential: Vec<u8>) -> Hello {
    Hello {
        psec: "munge".into(),
        credential,
        flag: PeerKind::Tool as u8,
        uid_gid: Some((user, user)),
        proc: None,
        version: "4.2.2".into(),
        module: PLAIN.module,
        buffer: PLAIN.buffer,
        gds: "hash".into(),
        infos: Vec::new(),
    }
}

/// Whether the server has let a peer in that has said this.
fn is_let_in(peer: &mut Peer) -> bool {
    let mut status = [1; 4];
    peer.io().read_exact(&mut status).is_ok() && status == [0; 4]
}

/// The number of lines in the server's log with all these texts.
fn told(ended: &Ended, texts: &[&str]) -> usize {
    log(ended).iter().filter(|line| texts.iter().all(|text| line.contains(text))).count()
}

#[test]
fn tools_on_other_hosts_are_let_in_by_munge() {
    let Some(hosts) = Hosts::start() else { return };
    let job = job(&hosts);
    let (uri, file) = (uri(&job), file(&job));
    let lists = |host, words: &[&str]| {
        let run = words.iter().fold(hosts.run(host, 0, pmixctl(), Library::ours()).arg("ps"), Run::arg);
        assert_eq!(run.succeed().count("running"), RANKS as usize);
    };
    lists(Host::Other, &["--uri", &uri]);
    lists(Host::Other, &["--file", &file.display().to_string()]);
    // An address that other hosts reach, from the same host.
    lists(Host::Server, &["--uri", &uri]);
    for library in [Library::ours(), Library::Stock] {
        let run = hosts.run(Host::Other, 0, program("tool"), library).args("--uri").arg(&uri).arg("servers");
        let ended = run.succeed();
        assert!(ended.stdout.contains("init: 0\n") && ended.stdout.contains("finalize: 0\n"), "{ended}");
    }
    // Claims do not count, nor does a user without processes there.
    for (user, security) in [(0, "native"), (NOBODY, "munge")] {
        let run = hosts.run(Host::Other, user, program("tool"), Library::Stock).env("PMIX_MCA_psec", security);
        let ended = run.args("--uri").arg(&uri).run();
        assert!(ended.stdout.contains("init: -25\n"), "{ended}");
    }
    let refused = hosts.run(Host::Other, NOBODY, pmixctl(), Library::ours()).args("ps --uri").arg(&uri).run();
    assert_eq!(refused.code(), 1, "{refused}");
    let ended = job.finish();
    assert_eq!(told(&ended, &["from other hosts munge alone counts, and not security module native"]), 2, "{ended}");
    assert_eq!(told(&ended, &["user 65534, who has no process here"]), 2, "{ended}");
    assert!(!file.exists());
}

/// On hosts with munge released tools show its credential over loopback, too.
#[test]
fn tools_with_munge_are_let_in_on_loopback() {
    let Some(hosts) = Hosts::start() else { return };
    let job = job(&hosts);
    let uri = job.environment(OFFENDER)["PMIX_SERVER_URI41"].clone();
    for (user, status) in [(0, "init: 0\n"), (NOBODY, "init: -25\n")] {
        for security in [None, Some("munge"), Some("native")] {
            let run = hosts.run(Host::Server, user, program("tool"), Library::Stock);
            let run = security.into_iter().fold(run, |run, security| run.env("PMIX_MCA_psec", security));
            let ended = run.args("--uri").arg(&uri).run();
            assert!(ended.stdout.contains(status), "{security:?}: {ended}");
        }
    }
    job.finish();
}

#[test]
fn credentials_of_others_do_not_count() {
    let Some(hosts) = Hosts::start() else { return };
    let job = job(&hosts);
    let uri = uri(&job);
    let here = address(&uri);
    let target = || Target::new(&job.environment(OFFENDER)).at(here);
    let secret = std::fs::read_dir(file(&job).parent().unwrap()).unwrap().flatten().find_map(|entry| {
        let is_proof = entry.file_name().to_string_lossy().ends_with(".proof");
        is_proof.then(|| std::fs::read_to_string(entry.path()).unwrap().lines().nth(1).unwrap().to_owned())
    });
    let of = |user, payload: &[u8], options: &str| hosts.credential(user, payload, options);
    let bound = |uri: &str| Hello::munge_payload(uri);
    let once = of(0, b"", "");
    let old = of(0, b"", "--ttl=1");
    thread::sleep(Duration::from_millis(2500));
    let rank = |credential| Hello { psec: "munge".into(), credential, ..target().hello(Way::Tcp) };
    let cases = [
        (tool(0, of(0, b"", "")), true, ""),
        (tool(0, of(0, &bound(&uri), "")), true, ""),
        (tool(0, once.clone()), true, ""),
        (tool(0, once), false, "munge says: Replayed credential"),
        (tool(0, old), false, "munge says: Expired credential"),
        (tool(0, of(NOBODY, b"", "")), false, "refused a connection of user 65534, who has no process here"),
        (tool(NOBODY, of(0, b"", "")), false, "of user 0 and group 0, and it claims to be another"),
        (tool(NOBODY, of(NOBODY, b"", "")), false, "refused a connection of user 65534, who has no process here"),
        // A server that has got it shows it here.
        (tool(0, of(0, &bound("other.0;tcp4://10.254.0.2:1"), "")), false, "was made for another server or address"),
        (tool(0, of(0, b"what another service asks for", "")), false, "was made for another server or address"),
        (tool(0, b"MUNGE:AAAA:\0".to_vec()), false, "munge says: "),
        (tool(0, b"root".to_vec()), false, "the bytes are no munge credential"),
        (tool(0, Vec::new()), false, "the bytes are no munge credential"),
        (rank(of(0, b"", "")), false, "only tools that come by themselves are let in from other hosts"),
        (target().hello(Way::Tcp), false, "only tools that come by themselves are let in from other hosts"),
        (target().hello(Way::Unix), false, "only tools that come by themselves are let in from other hosts"),
        (
            Hello { psec: "native".into(), credential: Hello::native_credential(0, 0), ..tool(0, Vec::new()) },
            false,
            "munge alone counts, and not security module native",
        ),
        (
            Hello { psec: "pmix-dstore".into(), ..tool(0, secret.expect("a proof").into_bytes()) },
            false,
            "munge alone counts, and not security module pmix-dstore",
        ),
        (
            Hello { psec: "none".into(), ..tool(0, Vec::new()) },
            false,
            "munge alone counts, and not security module none",
        ),
    ];
    let mut lines: Vec<&str> = Vec::new();
    for (number, (hello, is_right, line)) in cases.iter().enumerate() {
        let mut peer = hosts.on(Host::Other, || target().connect(Way::Tcp));
        peer.say(&hello.encode().unwrap());
        assert_eq!(is_let_in(&mut peer), *is_right, "case {number}: {line}");
        lines.extend(Some(*line).filter(|line| !line.is_empty()));
    }
    let ended = job.finish();
    for line in &lines {
        assert!(told(&ended, &[line]) >= 1, "no line has {line:?}: {ended}");
    }
}

/// Munge that does not answer delays those who need it, and nobody else.
#[test]
fn a_munge_that_is_stopped_holds_nobody_else() {
    let Some(hosts) = Hosts::start() else { return };
    let job = job(&hosts);
    let (uri, local) = (uri(&job), job.environment(OFFENDER)["PMIX_SERVER_URI41"].clone());
    let credentials: Vec<Vec<u8>> = (0..3).map(|_| hosts.credential(0, b"", "")).collect();
    let target = Target::new(&job.environment(OFFENDER)).at(address(&uri));
    let stopped = Stopped::new(hosts.munged());
    let mut waiting: Vec<Peer> = hosts.on(Host::Other, || {
        credentials
            .into_iter()
            .map(|credential| {
                let mut peer = target.connect(Way::Tcp);
                peer.say(&tool(0, credential).encode().unwrap());
                peer
            })
            .collect()
    });
    // Tools and ranks of this host.
    let ended = hosts.run(Host::Server, 0, pmixctl(), Library::ours()).args("ps --uri").arg(&local).succeed();
    assert_eq!(ended.count("running"), RANKS as usize, "{ended}");
    let rank = Target::new(&job.environment(OFFENDER));
    // Kept, so that its end does not count as that of the rank.
    let _rank = hosts.on(Host::Server, || rank.let_in(Way::Tcp));
    // A tool that cannot get a credential says so in bounded time.
    let ended = hosts.run(Host::Other, 0, pmixctl(), Library::ours()).args("ps --uri").arg(&uri).run();
    assert_eq!(ended.code(), 1, "{ended}");
    assert!(ended.stderr.contains("munged does not answer; look whether it is stopped"), "{ended}");
    drop(stopped);
    assert!(waiting.iter_mut().all(is_let_in), "they had only to wait");
    job.finish();
}

/// What a peer sends before munge has told its user stays in the kernel.
#[test]
fn a_peer_that_munge_has_not_identified_fills_no_memory() {
    let Some(hosts) = Hosts::start() else { return };
    let job = job(&hosts);
    let uri = uri(&job);
    let server = job.server();
    let descriptors = || descriptors_of(server);
    let credentials: Vec<Vec<u8>> = (0..2).map(|_| hosts.credential(0, b"", "")).collect();
    let target = Target::new(&job.environment(OFFENDER)).at(address(&uri));
    // An answer shows that the server has taken turns since, in which it could have read.
    let mut witness = Target::new(&job.environment(OFFENDER)).let_in(Way::Unix);
    let mut take_turns = || (0..8).for_each(|_| drop(witness.ask(&encode(&Request::JobInfo))));
    take_turns();
    let before = descriptors();
    let stopped = Stopped::new(hosts.munged());
    let mut peers: Vec<Peer> = hosts.on(Host::Other, || credentials.iter().map(|_| target.connect(Way::Tcp)).collect());
    for (peer, credential) in peers.iter_mut().zip(credentials) {
        peer.say(&tool(0, credential).encode().unwrap());
    }
    take_turns();
    let ended = peers.pop();
    let mut flood = peers.pop().unwrap();
    let beats = tagged(TAG_HEARTBEAT, b"").repeat(4096);
    flood.set_nonblocking(true);
    let mut sent = 0;
    loop {
        let sent_before = sent;
        loop {
            match flood.io().write(&beats[sent % beats.len()..]) {
                Ok(count) => sent += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => panic!("after {sent} bytes: {error}"),
            }
            // More than the kernel keeps of a connection.
            assert!(sent < 40 << 20, "the server reads on");
        }
        take_turns();
        if sent == sent_before {
            break;
        }
    }
    flood.set_nonblocking(false);
    // The end of a connection is seen all the same.
    drop(ended);
    let mut deadline = Deadline::new(Duration::from_secs(20));
    while descriptors() > before + 1 {
        assert!(deadline.pause(), "the connection is kept");
    }
    drop(stopped);
    assert!(is_let_in(&mut flood), "it had only to wait");
    // The kernel takes more only if the server reads now.
    flood.say(&beats[sent % beats.len()..]);
    flood.say(&beats);
    job.finish();
}

/// Connections of another host that say nothing make room for newer ones.
#[test]
fn a_host_whose_connections_say_nothing_has_a_bounded_number() {
    let Some(hosts) = Hosts::start() else { return };
    let job = job(&hosts);
    let uri = uri(&job);
    let server = job.server();
    let descriptors = || descriptors_of(server);
    let before = descriptors();
    let target = Target::new(&job.environment(OFFENDER)).at(address(&uri));
    let silent: Vec<Peer> = hosts.on(Host::Other, || (0..200).map(|_| target.connect(Way::Tcp)).collect());
    // The server has accepted them before this tool.
    hosts.run(Host::Other, 0, pmixctl(), Library::ours()).args("ps --uri").arg(&uri).succeed();
    let held = descriptors() - before;
    assert!(held <= 17, "{held} connections");
    drop(silent);
    let ended = job.finish();
    assert!(told(&ended, &["dropped a connection that said nothing while others waited"]) >= 1, "{ended}");
}

/// Where the kernel does not tell whose a connection over loopback is, munge does.
#[test]
fn without_a_table_munge_tells_users_on_loopback() {
    let Some(hosts) = Hosts::start() else { return };
    let job = job_without_table(&hosts);
    let environment = job.environment(OFFENDER);
    assert_eq!(environment["PMIX_SECURITY_MODE"], "munge");
    let target = Target::new(&environment);
    let _anchor = target.let_in(Way::Unix);
    let rank = |credential| Hello { psec: "munge".into(), credential, ..target.hello(Way::Tcp) };
    hosts.on(Host::Server, || {
        drop(target.introduce(Way::Tcp, &rank(hosts.credential(0, b"", ""))));
        for refused in [rank(hosts.credential(NOBODY, b"", "")), rank(b"MUNGE:".to_vec()), target.hello(Way::Tcp)] {
            assert_eq!(target.knock(Way::Tcp, &refused), b"");
        }
    });
    // Released tools and ranks show munge what they are.
    let uri = environment["PMIX_SERVER_URI41"].clone();
    for library in [Library::ours(), Library::Stock] {
        let run = hosts.run(Host::Server, 0, program("tool"), library).env("PMIX_SECURITY_MODE", "munge");
        let ended = run.args("--uri").arg(&uri).succeed();
        assert!(ended.stdout.contains("init: 0\n"), "{ended}");
    }
    let ended = job.finish();
    assert_eq!(told(&ended, &["user 65534, who has no process here"]), 1, "{ended}");
    assert_eq!(
        told(&ended, &["the kernel does not tell whose it is, so it needs a munge credential and shows native"]),
        1,
        "{ended}"
    );
}

/// Ranks of both libraries come over TCP to a server that asks munge.
#[test]
fn without_a_table_ranks_come_in_by_munge() {
    let Some(hosts) = Hosts::start() else { return };
    for ranks in [Library::ours(), Library::Stock] {
        let words = format!("{} table env PMIX_DSTORE_SHM=0", program("without").display());
        let words = format!("{} {words} {} -n 3", hosts.words(Host::Server), pmixrun().display());
        let (first, rest) = words.split_once(' ').unwrap();
        let ended = Run::new(first, ranks).args(rest).arg(program("latency")).args("--gets 10").succeed();
        assert!(log(&ended).is_empty(), "{ended}");
    }
}

/// A released server that takes munge alone takes the credentials of our ranks and tools, to which the server's URI is added.
#[test]
fn a_released_server_takes_our_munge_credentials() {
    let Some(hosts) = Hosts::start() else { return };
    let (rank, tool) = (program("latency"), program("tool"));
    let script = format!(
        "echo mode: $PMIX_SECURITY_MODE; export LD_LIBRARY_PATH={}; {} --gets 10 && {} --pid $PPID servers",
        Library::ours().directory().display(),
        rank.display(),
        tool.display()
    );
    let run = hosts.run(Host::Server, 0, program("host"), Library::Stock).env("PMIX_MCA_psec", "munge");
    let ended = run.args("-n 1 --timeout 100 --tools name sh -c").arg(script).succeed();
    for line in ["mode: munge\n", "10 gets done\n", "init: 0\n"] {
        assert!(ended.stdout.contains(line), "{ended}");
    }
}

#[test]
fn without_munge_there_is_no_listener_and_a_line_says_why() {
    let Some(hosts) = Hosts::start() else { return };
    let start = |host, before: &str| {
        let words = format!("{} unshare --mount sh -c", hosts.words(host));
        let (first, rest) = words.split_once(' ').unwrap();
        let script = format!("{before} \"$@\"");
        let run = Run::new(first, Library::ours()).args(rest).arg(script).arg("sh").arg(pmixrun());
        run.args("--remote -n 1 true").run()
    };
    let hide = "mount --bind /dev/null \"$(ldconfig -p | sed -n 's/.*libmunge.so.2 .*=> //p' | head -1)\";";
    for (before, why) in [
        (hide, "libmunge.so.2 cannot be opened; install munge's library"),
        (
            "mount -t tmpfs none /run/munge;",
            "munged cannot be reached (Socket communication error); start it on this node",
        ),
        ("rm /etc/pmix-dstore/remote;", "the administrator has named no interface in /etc/pmix-dstore/remote"),
        ("echo lo >/etc/pmix-dstore/remote;", "/etc/pmix-dstore/remote names no address of this node"),
        (
            "chmod 646 /etc/pmix-dstore/remote;",
            "/etc/pmix-dstore/remote: user 0 owns it with mode 646; root must own it",
        ),
    ] {
        // The file is put back, since both hosts share it.
        let kept = format!(
            "mount -t tmpfs none /mnt; cp -a /etc/pmix-dstore /mnt/x; mount --bind /mnt/x /etc/pmix-dstore; {before}"
        );
        let ended = start(Host::Server, &kept);
        assert_eq!(ended.code(), 125, "{ended}");
        assert_eq!(told(&ended, &["tools on other hosts cannot connect: ", why]), 1, "{ended}");
    }
    let ended = start(Host::Server, "");
    assert_eq!((ended.code(), ended.stderr.as_str()), (0, ""), "{ended}");
}
