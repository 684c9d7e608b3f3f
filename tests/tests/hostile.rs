//! Malicious peers: their messages affect only themselves, and the log reports each attack once.
//!
//! Each test attacks the server of a job with waiting ranks; then the ranks do their work.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use pmix_dstore::model::{Info, Key, Kval, Nspace, Proc, Rank, Status, Value};
use pmix_tests::peers::{NOBODY, OFFENDER, RANKS, Target, WAYS, Way, as_nobody, attacked, encode, log, message};
use pmix_tests::{Library, Run, Traces, WaitingJob, pmixrun, program};
use pmix_wire::{ClientReply, Header, PeerKind, Request, TAG_FIRST};

#[test]
fn garbage_and_halves_cost_one_line_each() {
    let (job, target, _anchor) = attacked();
    let mut attacks = 0;
    for way in WAYS {
        let hello = target.hello(way).encode().unwrap();
        let mut foreign = hello.clone();
        foreign[8..12].reverse();
        let mut wrong_kind = target.hello(way);
        // Tools of the job's own user are let in, but not those of releases before 3.0.
        wrong_kind.flag = PeerKind::LegacyTool as u8;
        (wrong_kind.uid_gid, wrong_kind.proc) = (Some((0, 0)), None);
        let said: [&[u8]; 9] = [
            b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\x00\x00\x00\x00\x00\x00",
            &[0xff; 4096],
            &[0; 16],
            &hello[..1],
            &hello[..16],
            &hello[..hello.len() - 1],
            &foreign,
            &wrong_kind.encode().unwrap(),
        ];
        for bytes in said {
            assert_eq!(target.say(way, bytes), b"", "{way:?}: {bytes:?}");
            attacks += 1;
        }
    }
    let ended = job.finish();
    assert_eq!(log(&ended).len(), attacks, "{ended}");
}

#[test]
fn lines_of_the_log_cannot_be_forged() {
    let (job, target, _anchor) = attacked();
    let mut hello = target.hello(Way::Tcp);
    hello.version = "4.2.2\npmix-dstore server 1: all is well\x1b[2J".into();
    hello.proc = Some(Proc::new(Nspace::new("a\nb").unwrap(), Rank(0)));
    assert_eq!(target.knock(Way::Tcp, &hello), b"");
    let ended = job.finish();
    let log = log(&ended);
    assert_eq!(log.len(), 1, "{ended}");
    assert!(log[0].contains(r"refused a\nb:0") && log[0].contains(r"all is well\u{1b}[2J"), "{ended}");
}

#[test]
fn every_mutation_of_a_handshake() {
    let (job, target, _anchor) = attacked();
    for way in WAYS {
        let said = target.hello(way);
        let hello = said.encode().unwrap();
        // The peer's name and its proof must be right; its release and the like may differ.
        let name_len = target.proc.nspace.as_bytes().len();
        let identity = 16..16 + (said.psec.len() + 1) + (4 + said.credential.len()) + 1 + (name_len + 1) + 4;
        // Over TCP the kernel identifies the socket's owner, and the peer's claim of a user is ignored.
        let claim = 16 + said.psec.len() + 1 + 4;
        let passed_over = claim..claim + if way == Way::Tcp { said.credential.len() } else { 0 };
        for at in 0..hello.len() {
            for mask in [1, 0x80, 0xff] {
                let mut bytes = hello.clone();
                bytes[at] ^= mask;
                let heard = target.say(way, &bytes);
                let proves_nothing = !identity.contains(&at) || passed_over.contains(&at);
                let may_be_let_in = proves_nothing && heard.len() == ClientReply::LEN;
                assert!(heard.is_empty() || may_be_let_in, "byte {at} ^ {mask:#x}: {heard:?}");
            }
        }
    }
    job.finish();
}

#[test]
fn every_mutation_of_requests() {
    let (job, target, _anchor) = attacked();
    let procs = vec![target.proc.clone()];
    let infos = || vec![Info::new("pmix.timeout", Value::Int(1))];
    let kvals = vec![Kval { key: "mutant".into(), value: Value::string("text") }];
    let get = |key: &'static str| {
        let nspace = target.proc.nspace.clone();
        Request::Get { nspace, rank: target.proc.rank, infos: infos(), key: Some(key.into()) }
    };
    let requests = [
        Request::Commit { parts: vec![(1, kvals.clone()), (2, kvals)] },
        Request::Fence { procs, infos: infos() },
        get("mutant"),
        Request::Publish { uid: u32::MAX, infos: infos() },
        Request::Lookup { uid: 0, keys: vec![Key::from("never")], infos: infos() },
        Request::RegisterEvents { codes: vec![Status(-1)], infos: infos() },
        Request::Query { queries: Vec::new() },
        Request::Finalize,
    ];
    for request in &requests {
        let bytes = message(&encode(request));
        // Skip the byte with the command's number: another command is another test.
        for at in (0..bytes.len()).filter(|at| *at != Header::LEN + 1) {
            for mask in [1, 0x80] {
                let mut peer = target.let_in(Way::Unix);
                let mut bytes = bytes.clone();
                bytes[at] ^= mask;
                peer.say(&bytes);
                peer.end();
            }
        }
    }
    job.finish();
}

#[test]
fn lengths_that_claim_gigabytes_cost_no_memory() {
    const MIB: u64 = 1 << 20;
    let (job, target, _anchor) = attacked();
    let get = Request::Get {
        nspace: target.proc.nspace.clone(),
        rank: target.proc.rank,
        infos: Vec::new(),
        key: Some("claims".into()),
    };
    let get = encode(&get);
    // One-time allocations happen before the measurement.
    target.let_in(Way::Unix).end();
    target.let_in(Way::Tcp).end();
    let before = job.server_memory();
    let mut open = Vec::new();
    for len in [u32::MAX, 1 << 31, (1 << 30) + 1, 1 << 30, 1 << 29] {
        let mut peer = target.let_in(Way::Unix);
        peer.say(&Header { index: 0, tag: TAG_FIRST, len }.encode());
        peer.say(&get);
        // Keep the connections open, as if the rest were still to come.
        open.push(peer);
    }
    // The longest numbers of the encoding, in each place of a length or a count.
    for at in 2..get.len() {
        for claim in [&b"\xff\xff\xff\xff\x0f"[..], b"\xff\xff\xff\xff\xff\xff\xff\xff\x7f"] {
            let mut peer = target.let_in(Way::Unix);
            peer.say(&message(&[&get[..at], claim, &get[at..]].concat()));
            peer.end();
        }
    }
    let grown = job.server_memory().saturating_sub(before);
    assert!(grown < MIB, "the server has grown by {grown} bytes");
    drop(open);
    job.finish();
}

#[test]
fn a_peer_that_never_reads_is_not_kept_in_memory() {
    const MIB: u64 = 1 << 20;
    let (job, target, _anchor) = attacked();
    let mut witness = target.let_in(Way::Unix);
    let job_info = encode(&Request::JobInfo);
    let len = witness.ask(&job_info).len() as u64;
    let before = job.server_memory();
    let mut deaf = target.let_in(Way::Unix);
    deaf.set_nonblocking(true);
    // As many requests as would fill 256 MiB with replies.
    let flood = message(&job_info).repeat((256 * MIB / len) as usize);
    let mut sent = 0;
    for _ in 0..1000 {
        match deaf.io().write(&flood[sent..]) {
            Ok(0) => break,
            Ok(count) => sent += count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => panic!("the server hangs up: {error}"),
        }
        // Other peers are served meanwhile.
        assert_eq!(witness.ask(&job_info).len() as u64, len);
    }
    let grown = job.server_memory().saturating_sub(before);
    assert!(grown < 64 * MIB, "the server has grown by {grown} bytes, {sent} bytes of requests were sent");
    drop(deaf);
    drop(witness);
    job.finish();
}

#[test]
fn a_thousand_idle_connections_block_no_rank() {
    // More connections of both kinds than the server has descriptors.
    let mut job = WaitingJob::start(RANKS, "ulimit -n 400");
    job.watch_server();
    let target = Target::new(&job.environment(OFFENDER));
    // This process holds the other ends, and tests that run at the same time need some descriptors too.
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, hard.min(8192), hard).unwrap();
    let stop = AtomicBool::new(false);
    let mut idle = Vec::new();
    thread::scope(|scope| {
        for way in WAYS {
            for _ in 0..100 {
                idle.push(target.connect(way));
            }
        }
        let others = scope.spawn(|| {
            // The rest connect at the same time as the ranks, and wait in the listener's queue with them.
            let mut held = Vec::new();
            while held.len() < 800 && !stop.load(Ordering::Acquire) {
                match UnixStream::connect(&target.socket) {
                    Ok(stream) => held.push(stream),
                    Err(_) => break,
                }
            }
        });
        job.let_work();
        stop.store(true, Ordering::Release);
        others.join().unwrap();
    });
    drop(idle);
    let ended = job.finish();
    assert!(log(&ended).iter().all(|line| line.contains("said nothing while others waited")), "{ended}");
}

#[test]
fn another_ranks_secret_is_refused() {
    let (job, target, _anchor) = attacked();
    let other = Target::new(&job.environment(0));
    let mut hello = target.hello(Way::Unix);
    for credential in [other.secret.as_bytes(), b"", &target.secret.as_bytes()[..63], &[0; 100_000]] {
        hello.credential = credential.to_vec();
        assert_eq!(target.knock(Way::Unix, &hello), b"");
    }
    let ended = job.finish();
    let log = log(&ended);
    assert_eq!(log.len(), 4, "{ended}");
    assert!(log.iter().all(|line| line.contains("wrong secret")), "{ended}");
}

#[test]
fn a_secret_ends_with_its_process() {
    let mut job = WaitingJob::left_by_one();
    job.watch_server();
    let target = Target::new(&job.environment(1));
    // A connection that arrives before the server has seen the process's end counts as the rank's, which would then
    // have ended without finalizing. So enter a fence with that rank, which never enters it: the fence ends when the
    // server has seen the end.
    let stays = Target::new(&job.environment(0));
    let mut witness = stays.let_in(Way::Unix);
    let procs = vec![stays.proc.clone(), target.proc.clone()];
    witness.ask(&encode(&Request::Fence { procs, infos: Vec::new() }));
    witness.ask(&encode(&Request::Finalize));
    drop(witness);
    assert_eq!(target.knock(Way::Unix, &target.hello(Way::Unix)), b"");
    // Its user id and its rank do not give it access in another way.
    assert_eq!(target.knock(Way::Tcp, &target.hello(Way::Tcp)), b"");
    let ended = job.finish();
    let refused = log(&ended).into_iter().filter(|line| line.contains("no such client registered")).count();
    assert_eq!(refused, 2, "{ended}");
}

#[test]
fn a_directory_that_another_user_puts_in_the_place_of_ours_is_not_used() {
    let mut job = WaitingJob::start(RANKS, ":");
    job.watch_server();
    let target = Target::new(&job.environment(OFFENDER));
    let inner = target.socket.parent().unwrap().to_owned();
    let outer = inner.parent().unwrap().to_owned();
    let parent = outer.parent().unwrap().to_owned();
    // All users may rename files here, as in a temporary directory without the sticky bit.
    for directory in parent.ancestors().take_while(|directory| directory.starts_with(job.directory())) {
        fs::set_permissions(directory, fs::Permissions::from_mode(0o777)).unwrap();
    }
    fs::set_permissions(job.directory().parent().unwrap(), fs::Permissions::from_mode(0o755)).unwrap();
    let away = parent.join("away");
    let theirs = as_nobody(|| {
        fs::rename(&outer, &away).unwrap();
        fs::create_dir_all(&inner).unwrap();
        fs::set_permissions(&inner, fs::Permissions::from_mode(0o755)).unwrap();
        let here = fs::File::open(&inner).unwrap();
        let short = format!("/proc/self/fd/{}/sock", std::os::fd::AsRawFd::as_raw_fd(&here));
        let listener = UnixListener::bind(short).unwrap();
        fs::set_permissions(inner.join("sock"), fs::Permissions::from_mode(0o666)).unwrap();
        listener.set_nonblocking(true).unwrap();
        listener
    });
    let Some(theirs) = theirs else {
        job.finish();
        return;
    };
    let ended = job.finish();
    assert!(theirs.accept().is_err(), "a client has dialled them");
    let told = ended.stderr.lines().filter(|line| line.contains("not the directory that the server made"));
    assert_eq!(told.count(), RANKS as usize, "{ended}");
}

#[test]
fn another_user_is_refused_over_either_way() {
    let (job, target, _anchor) = attacked();
    // Namespace, rank and user id are not secret.
    let hello = target.hello(Way::Tcp);
    let Some(heard) = as_nobody(|| target.knock(Way::Tcp, &hello)) else {
        job.finish();
        return;
    };
    assert_eq!(heard, b"");
    let dialled = as_nobody(|| UnixStream::connect(&target.socket).map(drop).map_err(|error| error.kind()));
    assert_eq!(dialled, Some(Err(ErrorKind::PermissionDenied)));
    let listed = as_nobody(|| fs::read_dir(target.socket.parent().unwrap()).is_ok());
    assert_eq!(listed, Some(false));
    let ended = job.finish();
    let log = log(&ended);
    assert_eq!(log.len(), 1, "{ended}");
    assert!(log[0].ends_with(&format!("refused a connection of user {NOBODY}, who has no process here")), "{ended}");
}

#[test]
fn races_on_our_directories_spare_the_canary() {
    // With the sticky bit, as in /tmp, and without it, where other users may rename our files.
    for mode in [0o1777, 0o777] {
        let top = tempfile::tempdir().unwrap();
        fs::set_permissions(top.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let (shared, canaries) = (top.path().join("tmp"), top.path().join("canaries"));
        fs::create_dir(&shared).unwrap();
        fs::set_permissions(&shared, fs::Permissions::from_mode(mode)).unwrap();
        fs::create_dir_all(canaries.join("job/0")).unwrap();
        for name in ["canary", "job/canary", "job/0/canary", "page-0", "sock"] {
            fs::write(canaries.join(name), name).unwrap();
        }
        let (stop, traces) = (AtomicBool::new(false), Traces::begin());
        let raced = thread::scope(|scope| {
            let attacker = scope.spawn(|| as_nobody(|| race(&shared, &canaries, &stop)));
            // This also stops the thread if an assertion fails.
            let stopping = Stopping(&stop);
            for _ in 0..20 {
                let ended = Run::new(pmixrun(), Library::ours())
                    .traced(&traces)
                    .args("-n 2 --tmpdir")
                    .arg(&shared)
                    .arg(program("latency"))
                    .args("--gets 10")
                    .run();
                let served = ended.code() == 0 && ended.count("gets done") == 2;
                // If others may remove our directories, the job may fail, but not by a signal or without a message.
                let told = mode == 0o777 && ended.code() < 128 && !ended.stderr.is_empty();
                assert!(served || told, "{ended}");
            }
            drop(stopping);
            attacker.join().unwrap()
        });
        for name in ["canary", "job/canary", "job/0/canary", "page-0", "sock"] {
            assert_eq!(fs::read_to_string(canaries.join(name)).unwrap(), name, "a canary");
        }
        traces.assert_none_left("");
        // If others cannot remove our directories, nothing of ours is left.
        let mut left = fs::read_dir(&shared).unwrap().map(|entry| entry.unwrap());
        assert!(mode == 0o777 || left.all(|entry| entry.file_type().unwrap().is_symlink()));
        if raced.is_none() {
            return;
        }
    }
}

/// Stops a thread when this is dropped.
struct Stopping<'a>(&'a AtomicBool);

impl Drop for Stopping<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// Removes, replaces and predicts the directories of jobs until it is stopped.
fn race(shared: &Path, canaries: &Path, stop: &AtomicBool) {
    let mut turn = 0;
    while !stop.load(Ordering::Acquire) {
        turn += 1;
        // The names that launchers would use if they were made from their process ids.
        let newest = fs::read_to_string("/proc/loadavg").unwrap_or_default();
        let pid: u32 = newest.split_whitespace().last().and_then(|pid| pid.parse().ok()).unwrap_or(1);
        for pid in pid..pid + 4 {
            let _ = symlink(canaries, shared.join(format!("pmixrun.{pid}.0")));
        }
        for entry in fs::read_dir(shared).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_symlink()) {
                continue;
            }
            let away = shared.join(format!("away.{turn}"));
            if fs::rename(entry.path(), &away).is_ok() {
                let _ = symlink(canaries, entry.path());
            }
        }
        thread::sleep(Duration::from_micros(200));
    }
}
