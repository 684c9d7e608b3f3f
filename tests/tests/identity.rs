//! Identity of peers: the kernel names the owner of a socket, over TCP and over the Unix socket. Other users are
//! refused in every way, and stock ranks are accepted however they are started. For users in containers under Slurm see
//! `slurm_sites.rs`.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::thread;
use std::time::Duration;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::unistd::geteuid;
use pmix_dstore::model::Status;
use pmix_tests::peers::{NOBODY, OFFENDER, Peer, RANKS, Target, Way, as_nobody, attacked, encode, log, message};
use pmix_tests::{
    Ended, Library, Run, Stopped, WaitingJob, descriptors_of, is_large, left_out, pmixrun, program, times,
};
use pmix_wire::{Hello, Request};

/// An ordinary user.
const USER: u32 = 60_001;

fn is_root() -> bool {
    let is_root = geteuid().is_root();
    if !is_root {
        left_out("root", "only root can be another user");
    }
    is_root
}

/// An intruder's messages. It claims to be the attacker's rank and aborts the job, so that a success would be noticed.
fn words(target: &Target) -> Vec<u8> {
    let abort = Request::Abort { status: Status::ERROR, message: None, procs: Vec::new() };
    let hello = Hello { credential: Hello::native_credential(0, 0), ..target.hello(Way::Tcp) };
    [hello.encode().unwrap(), message(&encode(&abort))].concat()
}

/// Another user connects and disconnects `count` times.
fn intrude(target: &Target, count: usize, how: &str) {
    let run = Run::new(program("intruder"), Library::ours()).args(&format!("{NOBODY} {} {count} {how}", target.port()));
    run.input(words(target)).within(10).succeed();
}

/// Asserts that no intruder was admitted and no rank is reported lost. Another connection, admitted after the
/// intruders', shows that all earlier messages are processed.
fn assert_no_intruder(job: WaitingJob, target: &Target) -> Ended {
    target.let_in(Way::Tcp).ask(&encode(&Request::Finalize));
    // Longer than the server waits before it reports a lost process to the host.
    thread::sleep(Duration::from_millis(1100));
    let ended = job.finish();
    let said = log(&ended);
    assert!(said.iter().all(|line| !line.contains("lost the connection")), "{ended}");
    ended
}

#[test]
fn a_connection_closed_while_the_server_stalls_is_refused() {
    if !is_root() {
        return;
    }
    for stall in [0, 500, 1500, 3000] {
        for how in ["linger", "close"] {
            let (job, target, _anchor) = attacked();
            let stopped = Stopped::new(job.server());
            intrude(&target, 15, how);
            thread::sleep(Duration::from_millis(stall));
            drop(stopped);
            assert_no_intruder(job, &target);
        }
    }
}

#[test]
fn a_connection_closed_behind_an_idle_flood_is_refused() {
    if !is_root() {
        return;
    }
    let (job, target, _anchor) = attacked();
    let idle = idle(&target, 600);
    intrude(&target, 15, "linger");
    assert_no_intruder(job, &target);
    drop(idle);
}

#[test]
fn a_reset_connection_is_refused() {
    if !is_root() {
        return;
    }
    let mut job = WaitingJob::start(RANKS, ":");
    // The server reads nothing from a reset connection, so it learns of it only by its end. The rank has no other
    // connection.
    let target = Target::new(&job.environment(OFFENDER));
    job.watch_server();
    intrude(&target, times(2000, 100_000), "reset");
    assert_no_intruder(job, &target);
}

#[test]
fn a_connection_without_descriptors_left_is_refused() {
    if !is_root() {
        return;
    }
    let job = WaitingJob::start(RANKS, "ulimit -n 128");
    let target = Target::new(&job.environment(OFFENDER));
    let held = |descriptors: usize| {
        let open = || descriptors_of(job.server());
        let mut held = Vec::new();
        for rank in 0..RANKS {
            let target = Target::new(&job.environment(rank));
            while open() < descriptors && held.len() < 60 * (rank as usize + 1) {
                held.push(target.let_in(Way::Unix));
            }
        }
        held
    };
    for descriptors in [120, 124, 125, 126, 127] {
        let held = held(descriptors);
        intrude(&target, 30, "close");
        let staying = as_nobody(|| {
            let mut peers: Vec<Peer> = (0..30).map(|_| target.connect(Way::Tcp)).collect();
            peers.iter_mut().for_each(|peer| peer.say(&words(&target)));
            peers
        });
        thread::sleep(Duration::from_millis(100));
        // Finalize on these connections, so that their ranks do not count as lost.
        for mut peer in held {
            peer.ask(&encode(&Request::Finalize));
        }
        drop(staying);
    }
    assert_no_intruder(job, &target);
}

/// Runs a job. Its server cannot query the kernel by netlink, by /proc, or by both, as `variable` in its environment
/// says.
fn without(what: &str, variable: &str) -> WaitingJob {
    let without = program("without");
    WaitingJob::start(RANKS, &format!("set -- {} {what} env {variable} \"$@\"", without.display()))
}

#[test]
fn where_netlink_is_filtered_the_lists_tell() {
    if !is_root() {
        return;
    }
    let job = without("netlink", "A=B");
    let target = Target::new(&job.environment(OFFENDER));
    target.let_in(Way::Tcp).ask(&encode(&Request::Finalize));
    assert_eq!(as_nobody(|| target.knock(Way::Tcp, &target.hello(Way::Tcp))), Some(Vec::new()));
    intrude(&target, times(200, 5000), "reset");
    assert_no_intruder(job, &target);
}

#[test]
fn where_netlink_is_filtered_one_reading_of_the_lists_answers_for_many() {
    if !is_root() {
        return;
    }
    const FLOOD: usize = 400;
    let job = without("netlink", "A=B");
    let target = Target::new(&job.environment(OFFENDER));
    let _anchor = target.let_in(Way::Unix);
    let (process, stopped) = (job.server(), Stopped::new(job.server()));
    let _idle = idle(&target, FLOOD);
    let lists = || -> u64 {
        ["tcp", "tcp6"].iter().map(|list| fs::read(format!("/proc/{process}/net/{list}")).unwrap().len() as u64).sum()
    };
    let read = || -> u64 {
        let counts = fs::read_to_string(format!("/proc/{process}/io")).unwrap();
        counts.lines().find_map(|line| line.strip_prefix("rchar: ")?.parse().ok()).unwrap()
    };
    let (long, before) = (lists(), read());
    drop(stopped);
    // This connection is admitted after all of them.
    target.let_in(Way::Tcp).ask(&encode(&Request::Finalize));
    let readings = (read() - before) / long;
    assert!(readings < FLOOD as u64 / 4, "{readings} readings of the lists for {FLOOD} connections");
    job.finish();
}

#[test]
fn without_a_table_claims_count_only_where_the_administrator_says_so() {
    if !is_root() {
        return;
    }
    for (variable, is_believed) in [("A=B", false), ("PMIX_DSTORE_TRUST_CLAIMS=1", true)] {
        let job = without("table", variable);
        let target = Target::new(&job.environment(OFFENDER));
        let _anchor = target.let_in(Way::Unix);
        let hello = Hello { credential: Hello::native_credential(0, 0), ..target.hello(Way::Tcp) };
        if is_believed {
            drop(target.introduce(Way::Tcp, &hello));
            drop(as_nobody(|| target.introduce(Way::Tcp, &hello)));
        } else {
            assert_eq!(target.knock(Way::Tcp, &hello), b"");
            assert_eq!(as_nobody(|| target.knock(Way::Tcp, &hello)), Some(Vec::new()));
        }
        let ended = job.finish();
        let told = log(&ended).iter().filter(|line| line.contains("PMIX_DSTORE_TRUST_CLAIMS=1")).count();
        assert_eq!(told, usize::from(!is_believed), "{ended}");
    }
}

/// In a user namespace without mappings all users have the same id, the server's own user included.
#[test]
fn unmapped_uids_are_refused_over_tcp() {
    if !is_root() {
        return;
    }
    if Run::new("unshare", Library::ours()).args("--user true").run().code() != 0 {
        return left_out("kernel", "user namespaces are not for this user");
    }
    for map in ["", "--map-root-user"] {
        let job = WaitingJob::start(RANKS, &format!("set -- unshare --user {map} \"$@\""));
        let target = Target::new(&job.environment(OFFENDER));
        // The directory and the secret are sufficient proof.
        let _anchor = target.let_in(Way::Unix);
        assert_eq!(as_nobody(|| target.knock(Way::Tcp, &target.hello(Way::Tcp))), Some(Vec::new()), "{map}");
        // Mapped users are identified; the server's own user is unmapped in the first of these.
        match map {
            "" => assert_eq!(target.knock(Way::Tcp, &target.hello(Way::Tcp)), b""),
            _ => drop(target.introduce(Way::Tcp, &target.hello(Way::Tcp))),
        }
        job.finish();
    }
}

/// Runs a user's job and starts its ranks through the wrapper `wrapped`.
fn of_user(count: usize, library: Library, wrapped: &[&str]) -> Ended {
    let place = tempfile::tempdir().unwrap();
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o700)).unwrap();
    chown(place.path(), Some(USER), Some(USER)).unwrap();
    let run = Run::new("setpriv", library).env("TMPDIR", place.path()).env("HOME", place.path());
    let run = run.args(&format!("--reuid {USER} --regid {USER} --clear-groups"));
    let run = run.arg(pmixrun()).args(&format!("-n {count} --tmpdir")).arg(place.path());
    let run = wrapped.iter().fold(run, Run::arg);
    run.arg(program("latency")).args("--gets 10").within(3).run()
}

/// Sets the library path again: login shells may drop it.
fn library_of(library: Library) -> String {
    format!("LD_LIBRARY_PATH={}", library.directory().display())
}

#[test]
fn stock_ranks_get_in_however_they_are_started() {
    if !is_root() {
        return;
    }
    let library = library_of(Library::Stock);
    let ways: [&[&str]; 7] = [
        &[],
        &["unshare", "--map-root-user"],
        &["unshare", "--map-current-user"],
        &["unshare", "--map-root-user", "--pid", "--fork", "--mount", "--mount-proc"],
        &["sh", "-lc", "exec \"$0\" \"$@\"", "env", &library],
        &["sh", "-c", "\"$0\" \"$@\"; exit $?", "env", &library],
        &["env", "PMIX_DSTORE_SHM=0"],
    ];
    for way in ways {
        let ended = of_user(3, Library::Stock, way);
        assert_eq!((ended.code(), ended.count("gets done")), (0, 3), "{way:?}: {ended}");
        assert_eq!(log(&ended), Vec::<&str>::new(), "{way:?}: {ended}");
    }
}

#[test]
fn many_stock_ranks_of_one_user_get_in_at_once() {
    if !is_root() {
        return;
    }
    let count = times(32, 256);
    let ended = of_user(count, Library::Stock, &[]);
    assert_eq!((ended.code(), ended.count("gets done")), (0, count), "{ended}");
    assert_eq!(log(&ended), Vec::<&str>::new(), "{ended}");
}

#[test]
fn a_rank_in_another_network_comes_over_the_unix_socket() {
    if !is_root() {
        return;
    }
    let ended = of_user(3, Library::ours(), &["unshare", "--map-root-user", "--net"]);
    assert_eq!((ended.code(), ended.count("gets done")), (0, 3), "{ended}");
    assert_eq!(log(&ended), Vec::<&str>::new(), "{ended}");
}

#[test]
fn a_rank_of_an_unregistered_user_is_refused() {
    if !is_root() {
        return;
    }
    // The stock library connects over TCP. So does ours, because this user cannot enter the directory with the Unix
    // socket.
    for library in [Library::Stock, Library::ours()] {
        let run = Run::new(pmixrun(), library).args(&format!("-n 1 setpriv --reuid {USER} --clear-groups"));
        let ended = run.arg(program("latency")).args("--gets 10").run();
        assert!(ended.code() != 0 && ended.count("gets done") == 0, "{ended}");
        let why = format!("refused a connection of user {USER}, who has no process here");
        assert!(log(&ended).iter().any(|line| line.ends_with(&why)), "{ended}");
    }
}

#[test]
fn many_ranks_under_mpirun_with_few_descriptors() {
    if !is_root() || !is_large() {
        return;
    }
    let script = "ulimit -n 1024; exec mpirun --oversubscribe -np 220 env \"$0\" \"$@\"";
    let run = Run::new("sh", Library::ours()).args("-c").arg(script).arg(library_of(Library::Stock));
    let ended = run.arg(program("latency")).args("--gets 10").within(5).run();
    assert_eq!((ended.code(), ended.count("gets done")), (0, 220), "{ended}");
    assert_eq!(log(&ended), Vec::<&str>::new(), "{ended}");
}

#[test]
fn programs_of_these_tests_are_there_for_other_users() {
    for path in [pmixrun(), program("latency")] {
        let reaches = |path: &Path| fs::metadata(path).is_ok_and(|it| it.permissions().mode() & 0o005 == 0o005);
        assert!(path.ancestors().filter(|path| path.is_absolute()).all(reaches), "{}", path.display());
    }
}

/// Raises this process's own limit of descriptors.
fn many_descriptors() {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, hard.min(20_000), hard).unwrap();
}

/// Whether the server has closed a connection.
fn is_closed(peer: &mut Peer) -> bool {
    peer.set_nonblocking(true);
    !matches!(peer.io().read(&mut [0]), Err(error) if error.kind() == ErrorKind::WouldBlock)
}

/// `count` idle connections of another user.
fn idle(target: &Target, count: usize) -> Vec<Peer> {
    as_nobody(|| (0..count).map(|_| target.connect(Way::Tcp)).collect()).unwrap()
}

#[test]
fn idle_connections_of_another_user_are_closed_in_their_turn() {
    if !is_root() {
        return;
    }
    many_descriptors();
    let (job, target, _anchor) = attacked();
    let server = Stopped::new(job.server());
    // In order of connection: other users, a rank of the job that sends nothing yet, other users again. All of them fit
    // into the queue of the stopped listener.
    let mut before = idle(&target, times(400, 1500));
    let mut silent = target.connect(Way::Tcp);
    let mut after = idle(&target, times(200, 1000));
    // Another listener's queue.
    let mut of_unix = target.connect(Way::Unix);
    drop(server);
    // This connection is admitted after all of them.
    target.let_in(Way::Tcp).ask(&encode(&Request::Finalize));
    assert!(before.iter_mut().chain(&mut after).all(is_closed), "strangers");
    assert!(!is_closed(&mut silent) && !is_closed(&mut of_unix), "a user with processes to come");
    // It sends its hello late, and is admitted nevertheless.
    silent.set_nonblocking(false);
    silent.say(&target.hello(Way::Tcp).encode().unwrap());
    silent.io().read_exact(&mut [0; 8]).unwrap();
    silent.ask(&encode(&Request::Finalize));
    drop((of_unix, silent));
    let ended = job.finish();
    let said = log(&ended);
    let is_about_strangers = |line: &&str| line.ends_with(&format!("user {NOBODY}, who has no process here"));
    assert!(said.iter().all(is_about_strangers), "{ended}");
    assert!(said.len() <= 21, "a flood is counted: {ended}");
}

#[test]
fn ranks_come_on_both_ways_while_another_user_floods_the_server() {
    if !is_root() {
        return;
    }
    many_descriptors();
    for shared_memory in ["1", "0"] {
        // Few descriptors: the ranks need those that connections of other users would take.
        let job = WaitingJob::start(8, &format!("export PMIX_DSTORE_SHM={shared_memory}; ulimit -n 96"));
        let target = Target::new(&job.environment(0));
        let idle = idle(&target, times(600, 2500));
        let ended = job.finish();
        assert!(log(&ended).iter().all(|line| line.ends_with(", who has no process here")), "{ended}");
        drop(idle);
    }
}
