//! Peers that mean harm: whatever they say, and whoever they are, only they are harmed, and the log says so once.
//!
//! Each test attacks the server of a job whose ranks wait; then the ranks do their work.

use std::collections::HashMap;
use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::unistd::{Gid, Uid, getegid, geteuid, setfsgid, setfsuid};
use pmix_client::wire::{ClientReply, Header, Hello, PeerKind, Request, TAG_FIRST, Version};
use pmix_dstore::codec::{BufferType, Dialect, Module};
use pmix_dstore::model::{Info, Key, Kval, Nspace, Proc, Rank, Status, Value};
use pmix_tests::{Ended, Library, Run, WaitingJob, pmixrun, program};

const NOBODY: u32 = 65_534;
const PLAIN: Dialect = Dialect { module: Module::V41, buffer: BufferType::NonDescribed };
/// The last rank of each job is the one that misbehaves; its connections may be lost, and it comes back.
const RANKS: u32 = 3;
const OFFENDER: u32 = RANKS - 1;

/// A way to the server.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    Tcp,
    Unix,
}

const WAYS: [Way; 2] = [Way::Tcp, Way::Unix];

enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// The attacked server, as the environment of a rank names it.
struct Target {
    proc: Proc,
    address: SocketAddr,
    socket: std::path::PathBuf,
    secret: String,
}

impl Target {
    fn new(environment: &HashMap<String, String>) -> Target {
        let uri = &environment["PMIX_SERVER_URI41"];
        let (_, address) = uri.split_once(";tcp4://").expect("an address");
        let nspace = Nspace::new(&environment["PMIX_NAMESPACE"]).expect("a namespace");
        Target {
            proc: Proc::new(nspace, Rank(environment["PMIX_RANK"].parse().expect("a rank"))),
            address: address.parse().expect("an address"),
            socket: Path::new(&environment["PMIX_DSTORE_SEGMENTS"]).join("sock"),
            secret: environment["PMIX_DSTORE_SECRET"].clone(),
        }
    }

    fn hello(&self, way: Way) -> Hello {
        let (psec, credential) = match way {
            Way::Tcp => ("native", Hello::native_credential(geteuid().as_raw(), getegid().as_raw())),
            Way::Unix => ("pmix-dstore", self.secret.clone().into_bytes()),
        };
        Hello {
            psec: psec.into(),
            credential,
            flag: PeerKind::Client as u8,
            uid_gid: None,
            proc: Some(self.proc.clone()),
            version: "4.2.2".into(),
            module: PLAIN.module,
            buffer: PLAIN.buffer,
            gds: "hash".into(),
            infos: Vec::new(),
        }
    }

    fn connect(&self, way: Way) -> Peer {
        let stream = match way {
            Way::Tcp => Stream::Tcp(TcpStream::connect(self.address).expect("the server listens")),
            Way::Unix => Stream::Unix(UnixStream::connect(&self.socket).expect("the server listens")),
        };
        Peer { stream }
    }

    /// A connection that the server has let in.
    fn let_in(&self, way: Way) -> Peer {
        let mut peer = self.connect(way);
        peer.say(&self.hello(way).encode().unwrap());
        let mut welcome = [0; ClientReply::LEN];
        peer.io().read_exact(&mut welcome).expect("the server lets the client in");
        assert_eq!(welcome[..4], [0; 4]);
        peer
    }

    /// Says `bytes` in a new connection and nothing more; tells what the server says until it hangs up.
    fn say(&self, way: Way, bytes: &[u8]) -> Vec<u8> {
        let mut peer = self.connect(way);
        peer.say(bytes);
        peer.end()
    }
}

/// One connection to the server.
struct Peer {
    stream: Stream,
}

trait ReadWrite: Read + Write {}
impl<T: Read + Write> ReadWrite for T {}

impl Peer {
    fn io(&mut self) -> &mut dyn ReadWrite {
        match &mut self.stream {
            Stream::Tcp(stream) => stream,
            Stream::Unix(stream) => stream,
        }
    }

    fn say(&mut self, bytes: &[u8]) {
        match self.io().write_all(bytes) {
            // The server has hung up while we spoke.
            Err(error) if matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset) => {}
            result => result.expect("bytes are sent"),
        }
    }

    /// Says that there is nothing more to come, and hears the server out.
    fn end(mut self) -> Vec<u8> {
        // The server may have hung up already.
        let _ = match &self.stream {
            Stream::Tcp(stream) => stream.shutdown(Shutdown::Write),
            Stream::Unix(stream) => stream.shutdown(Shutdown::Write),
        };
        let mut heard = Vec::new();
        match self.io().read_to_end(&mut heard) {
            Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
            result => drop(result.expect("the server hangs up")),
        }
        heard
    }

    /// Asks and hears the reply.
    fn ask(&mut self, request: &[u8]) -> Vec<u8> {
        self.say(&message(request));
        let mut header = [0; Header::LEN];
        self.io().read_exact(&mut header).expect("a reply");
        let mut reply = vec![0; Header::decode(&header).len as usize];
        self.io().read_exact(&mut reply).expect("a reply");
        reply
    }
}

fn stream_of(peer: &Peer) -> &UnixStream {
    match &peer.stream {
        Stream::Unix(stream) => stream,
        Stream::Tcp(_) => unreachable!("it came over the Unix socket"),
    }
}

fn message(payload: &[u8]) -> Vec<u8> {
    let header = Header { index: 0, tag: TAG_FIRST, len: payload.len() as u32 };
    [&header.encode(), payload].concat()
}

fn encode(request: &Request) -> Vec<u8> {
    request.encode(PLAIN, Version::OURS).unwrap()
}

/// A job, its server as the offender reaches it, and a connection that keeps the offender's rank from counting as lost
/// when others of its connections end: a fence without it would tell the others so.
fn start() -> (WaitingJob, Target, Peer) {
    let job = WaitingJob::start(RANKS, ":");
    let target = Target::new(&job.environment(OFFENDER));
    let anchor = target.let_in(Way::Unix);
    (job, target, anchor)
}

/// The server's log.
fn log(ended: &Ended) -> Vec<&str> {
    ended.stderr.lines().filter(|line| line.starts_with("pmix-dstore server ")).collect()
}

/// Runs `action` in a thread whose files and TCP sockets are another user's, if we may; or says that it was skipped.
fn as_nobody<T: Send>(action: impl FnOnce() -> T + Send) -> Option<T> {
    if !geteuid().is_root() {
        eprintln!("skipped: only root can be another user");
        return None;
    }
    Some(thread::scope(|scope| {
        let other = scope.spawn(|| {
            setfsgid(Gid::from_raw(NOBODY));
            setfsuid(Uid::from_raw(NOBODY));
            action()
        });
        other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }))
}

#[test]
fn garbage_and_halves_cost_one_line_each() {
    let (job, target, _anchor) = start();
    let mut attacks = 0;
    for way in WAYS {
        let hello = target.hello(way).encode().unwrap();
        let mut foreign = hello.clone();
        foreign[8..12].reverse();
        let mut wrong_kind = target.hello(way);
        wrong_kind.flag = PeerKind::Tool as u8;
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
    let (job, target, _anchor) = start();
    let mut hello = target.hello(Way::Tcp);
    hello.version = "4.2.2\npmix-dstore server 1: all is well\x1b[2J".into();
    hello.proc = Some(Proc::new(Nspace::new("a\nb").unwrap(), Rank(0)));
    assert_eq!(target.say(Way::Tcp, &hello.encode().unwrap()), b"");
    let ended = job.finish();
    let log = log(&ended);
    assert_eq!(log.len(), 1, "{ended}");
    assert!(log[0].contains(r"refused a\nb:0") && log[0].contains(r"all is well\u{1b}[2J"), "{ended}");
}

#[test]
fn every_mutation_of_a_handshake() {
    let (job, target, _anchor) = start();
    for way in WAYS {
        let hello = target.hello(way).encode().unwrap();
        for at in 0..hello.len() {
            for mask in [1, 0x80, 0xff] {
                let mut bytes = hello.clone();
                bytes[at] ^= mask;
                let heard = target.say(way, &bytes);
                assert!(heard.is_empty() || heard.len() == ClientReply::LEN, "byte {at} ^ {mask:#x}: {heard:?}");
            }
        }
    }
    job.finish();
}

#[test]
fn every_mutation_of_requests() {
    let (job, target, _anchor) = start();
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
        // Not the first byte of the payload's two for the command: another command is another test.
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
    let (job, target, _anchor) = start();
    let get = Request::Get {
        nspace: target.proc.nspace.clone(),
        rank: target.proc.rank,
        infos: Vec::new(),
        key: Some("claims".into()),
    };
    let get = encode(&get);
    // Whatever is allocated once is allocated before the measurement.
    target.let_in(Way::Unix).end();
    target.let_in(Way::Tcp).end();
    let before = job.server_memory();
    let mut open = Vec::new();
    for len in [u32::MAX, 1 << 31, (1 << 30) + 1, 1 << 30, 1 << 29] {
        let mut peer = target.let_in(Way::Unix);
        peer.say(&Header { index: 0, tag: TAG_FIRST, len }.encode());
        peer.say(&get);
        // They stay, as if the rest were still to come.
        open.push(peer);
    }
    // The longest numbers that the encoding has, in each place where a length or a count may stand.
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
    let (job, target, _anchor) = start();
    let mut witness = target.let_in(Way::Unix);
    let job_info = encode(&Request::JobInfo);
    let len = witness.ask(&job_info).len() as u64;
    let before = job.server_memory();
    let mut deaf = target.let_in(Way::Unix);
    stream_of(&deaf).set_nonblocking(true).unwrap();
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
        // Others are answered meanwhile.
        assert_eq!(witness.ask(&job_info).len() as u64, len);
    }
    let grown = job.server_memory().saturating_sub(before);
    assert!(grown < 64 * MIB, "the server has grown by {grown} bytes, {sent} bytes of requests were sent");
    drop(deaf);
    drop(witness);
    job.finish();
}

#[test]
fn a_thousand_idle_connections_keep_nobody_out() {
    // Connections of both kinds queue before the door of a server that has descriptors for a few of them only.
    let job = WaitingJob::start(RANKS, "ulimit -n 400");
    let target = Target::new(&job.environment(OFFENDER));
    // This process holds the other ends, and the tests beside this one need some too.
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, hard.min(8192), hard).unwrap();
    let stop = AtomicBool::new(false);
    let mut idle = Vec::new();
    let ended = thread::scope(|scope| {
        for way in WAYS {
            for _ in 0..100 {
                idle.push(target.connect(way));
            }
        }
        let others = scope.spawn(|| {
            // The rest come while the ranks do, and wait in the listener's queue themselves.
            let mut held = Vec::new();
            while held.len() < 800 && !stop.load(Ordering::Acquire) {
                match UnixStream::connect(&target.socket) {
                    Ok(stream) => held.push(stream),
                    Err(_) => break,
                }
            }
            held.len()
        });
        let ended = job.finish();
        stop.store(true, Ordering::Release);
        others.join().unwrap();
        ended
    });
    assert!(log(&ended).iter().all(|line| line.contains("said nothing while others waited")), "{ended}");
}

#[test]
fn another_ranks_secret_is_refused() {
    let (job, target, _anchor) = start();
    let other = Target::new(&job.environment(0));
    let mut hello = target.hello(Way::Unix);
    for credential in [other.secret.as_bytes(), b"", &target.secret.as_bytes()[..63], &[0; 100_000]] {
        hello.credential = credential.to_vec();
        assert_eq!(target.say(Way::Unix, &hello.encode().unwrap()), b"");
    }
    let ended = job.finish();
    let log = log(&ended);
    assert_eq!(log.len(), 4, "{ended}");
    assert!(log.iter().all(|line| line.contains("wrong secret")), "{ended}");
}

#[test]
fn another_user_is_refused_over_either_way() {
    let (job, target, _anchor) = start();
    // The name, the rank and the user's number are no secrets.
    let hello = target.hello(Way::Tcp).encode().unwrap();
    let Some(heard) = as_nobody(|| target.say(Way::Tcp, &hello)) else {
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
    assert!(log[0].contains(&format!("its socket is user {NOBODY}'s")), "{ended}");
}

#[test]
fn races_on_our_directories_spare_the_canary() {
    // With the sticky bit, as /tmp has it, and without, where others may rename what is ours.
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
        let stop = AtomicBool::new(false);
        let raced = thread::scope(|scope| {
            let attacker = scope.spawn(|| as_nobody(|| race(&shared, &canaries, &stop)));
            for _ in 0..20 {
                let ended = Run::new(pmixrun(), Library::ours())
                    .args("-n 2 --tmpdir")
                    .arg(&shared)
                    .arg(program("latency"))
                    .args("--gets 10")
                    .run();
                let served = ended.code() == 0 && ended.count("gets done") == 2;
                // Where others may take our directories away the job may fail, but not by a signal or in silence.
                let told = mode == 0o777 && ended.code() < 128 && !ended.stderr.is_empty();
                assert!(served || told, "{ended}");
            }
            stop.store(true, Ordering::Release);
            attacker.join().unwrap()
        });
        for name in ["canary", "job/canary", "job/0/canary", "page-0", "sock"] {
            assert_eq!(fs::read_to_string(canaries.join(name)).unwrap(), name, "a canary");
        }
        if raced.is_none() {
            return;
        }
    }
}

/// Takes away, replaces and foresees the directories of jobs, for as long as there are some.
fn race(shared: &Path, canaries: &Path, stop: &AtomicBool) {
    let mut turn = 0;
    while !stop.load(Ordering::Acquire) {
        turn += 1;
        // The names that launchers will take, if they are to be foreseen.
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
