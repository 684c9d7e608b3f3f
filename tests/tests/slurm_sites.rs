//! Slurm as sites run it: separated users, hundreds of steps, ranks in containers.
//!
//! `make test-slurm` runs these with `slurm.rs`. With `PMIX_TEST_LARGE=1` they are larger.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use nix::sched::{CloneFlags, setns};
use nix::unistd::{Gid, Uid, geteuid, setfsgid, setfsuid};
use pmix_tests::peers::{Target, Way, log};
use pmix_tests::{
    Cluster, Deadline, Ended, Library, Living, Pair, ROOT, Run, Traces, USERS, left_out, pmixrun, program, times,
};

/// Ours on both sides.
fn ours() -> Pair {
    Pair { server: Library::ours(), ranks: Library::ours() }
}

/// Waits until the job has written a file; returns its contents.
fn written(file: &Path) -> String {
    let mut deadline = Deadline::new(Duration::from_secs(60));
    loop {
        match fs::read_to_string(file) {
            Ok(text) => return text,
            Err(error) => assert!(deadline.pause(), "{}: {error}", file.display()),
        }
    }
}

/// Each rank writes its environment, waits until the gate file is removed, and does its Gets.
const WAIT_AND_WORK: &str = r#"
umask 077
env | grep ^PMIX_ > "$0.$PMIX_RANK.part" && mv "$0.$PMIX_RANK.part" "$0.$PMIX_RANK"
while test -e "$0"; do sleep 0.02; done
exec "$1" --gets 100
"#;

/// Runs `action` in a thread inside the network namespace of a process, with a user's file-system and socket identity.
fn within<T: Send>(process: u32, user: u32, action: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| {
        let there = scope.spawn(|| {
            let network = File::open(format!("/proc/{process}/ns/net")).expect("the process is there");
            setns(network, CloneFlags::CLONE_NEWNET).expect("root may");
            setfsgid(Gid::from_raw(user));
            setfsuid(Uid::from_raw(user));
            action()
        });
        there.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

#[test]
fn a_second_user_on_the_node_gets_nowhere() {
    let Some(cluster) = Cluster::start(1) else { return };
    let [user, stranger] = USERS;
    let gate = cluster.scratch().join("gate");
    fs::write(&gate, "").expect("the gate");
    let job = cluster.srun(ours(), user, "-n 2").args("sh -c").arg(WAIT_AND_WORK).arg(&gate).arg(program("latency"));
    let running = thread::spawn(move || job.run());
    let [target, other] = [0, 1].map(|rank| {
        let text = written(&gate.with_extension(rank.to_string()));
        let variables = text.lines().filter_map(|line| line.split_once('='));
        Target::new(&variables.map(|(name, value)| (name.into(), value.into())).collect::<HashMap<_, _>>())
    });
    let server = cluster.slurmstepds().into_iter().next().expect("a step runs");

    // The files, as a process of the other user on the node.
    let inner = target.socket.parent().expect("a directory").to_owned();
    let outer = inner.parent().expect("a directory").to_owned();
    let step = outer.parent().expect("a directory").to_owned();
    for directory in [&step, &outer, &inner] {
        let listed = |user| cluster.enter(server, user, "ls", Library::ours()).arg(directory).run();
        let (own, strangers) = (listed(user), listed(stranger));
        assert_eq!(own.code(), 0, "{own}");
        assert!(strangers.code() != 0 && strangers.stderr.contains("Permission denied"), "{strangers}");
    }
    for name in ["page-0", "segment-0"] {
        let read = |user| cluster.enter(server, user, "cat", Library::ours()).arg(inner.join(name)).run();
        assert_eq!(read(user).code(), 0);
        let strangers = read(stranger);
        assert!(strangers.code() != 0 && strangers.stdout.is_empty(), "{strangers}");
        let written =
            cluster.enter(server, user, "dd", Library::ours()).arg(format!("of={}", inner.join(name).display()));
        let written = written.args("if=/dev/zero count=1 conv=notrunc").run();
        assert!(written.stderr.contains("Permission denied"), "not even the user writes there: {written}");
    }
    let dialled = within(server, stranger, || UnixStream::connect(&target.socket).map(drop));
    assert_eq!(dialled.map_err(|error| error.kind()), Err(ErrorKind::PermissionDenied));

    // The job's name and the user id are not secret.
    let mut hello = target.hello(Way::Tcp);
    hello.credential = pmix_wire::Hello::native_credential(user, user);
    let say = |user, way, hello: &pmix_wire::Hello| within(server, user, || target.knock(way, hello));
    assert_eq!(say(stranger, Way::Tcp, &hello), b"", "over TCP, as the user");
    hello.credential = pmix_wire::Hello::native_credential(stranger, stranger);
    assert_eq!(say(stranger, Way::Tcp, &hello), b"", "over TCP, as himself");
    // Even a known secret gives no access over TCP.
    let mut hello = target.hello(Way::Unix);
    assert_eq!(say(stranger, Way::Tcp, &hello), b"", "over TCP, with the secret");
    // A rank that claims another rank with its own secret; root, which may connect, without a secret.
    hello.proc = Some(other.proc.clone());
    assert_eq!(say(user, Way::Unix, &hello), b"", "as another rank");
    hello.credential = vec![b'0'; 64];
    assert_eq!(say(ROOT, Way::Unix, &hello), b"", "root without the secret");

    fs::remove_file(&gate).expect("the gate");
    let ended = running.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    assert_eq!(ended.code(), 0, "{ended}");
    assert_eq!(ended.count("gets done"), 2, "{ended}");
    let said = log(&ended);
    let expected = [
        format!("refused a connection of user {stranger}, who has no process here"),
        format!("refused a connection of user {stranger}, who has no process here"),
        format!("refused a connection of user {stranger}, who has no process here"),
        "wrong secret".to_owned(),
        "wrong secret".to_owned(),
    ];
    assert_eq!(said.len(), expected.len(), "{ended}");
    assert!(said.iter().zip(&expected).all(|(line, why)| line.ends_with(why)), "{ended}");
    cluster.end();
}

/// The unshared memory of a process, in KiB.
fn memory(process: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).expect("the process is there");
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).expect("a kernel from 4.5 on");
    line.trim().trim_end_matches("kB").trim().parse().expect("a number")
}

#[test]
fn steps_begin_and_end_again_and_again() {
    const BATCH: usize = 20;
    let Some(cluster) = Cluster::start(1) else { return };
    let slurmd = cluster.slurmds()[0];
    let steps = |count: usize| {
        cluster.serve(Library::ours());
        // All steps are in one allocation, so that only steps begin and end.
        let script = format!("for i in $(seq {count}); do srun --mpi=pmix \"$0\" --gets 10 || exit; done");
        let run = cluster.command(USERS[0], "salloc", Library::ours()).args("--quiet -n 2 sh -c").arg(script);
        let ended = run.arg(program("latency")).succeed();
        assert_eq!(ended.count("gets done"), 2 * count, "{ended}");
        cluster.assert_no_steps(&ended);
    };
    // The first steps make one-time allocations.
    steps(3);
    let shm = PathBuf::from(format!("/proc/{slurmd}/root/dev/shm"));
    let in_shm = || fs::read_dir(&shm).expect("the node's").flatten().map(|entry| entry.path()).collect::<Vec<_>>();
    let (before, memory_before) = (Living::watch(slurmd), memory(slurmd));
    let total = times(10, 500);
    let mut left = total;
    while left > 0 {
        let count = left.min(BATCH);
        steps(count);
        left -= count;
        before.assert_holds_no_more();
        assert_eq!(in_shm(), Vec::<PathBuf>::new());
    }
    let grown = memory(slurmd).saturating_sub(memory_before);
    eprintln!("slurmd: {memory_before} KiB before {total} steps, {grown} KiB more after");
    assert!(grown < 1024, "slurmd has grown by {grown} KiB in {total} steps");
    cluster.end();
}

/// Makes a rank's container with its own /tmp. The directories `$3` and `$4`, which may be in the outer /tmp, are
/// visible in it.
const CONTAINER: &str = r#"
set -e
kind=$1 hidden=$2 seen=$3 built=$4; shift 4
mount -t tmpfs tmpfs /mnt
mkdir /mnt/seen /mnt/built
mount --rbind "$seen" /mnt/seen
mount --rbind "$built" /mnt/built
mount -t tmpfs tmpfs /tmp
mkdir -p "$seen" "$built"
mount --rbind /mnt/seen "$seen"
mount --rbind /mnt/built "$built"
case $kind in
hidden) mount -t tmpfs tmpfs "$hidden" ;;
root)
    mkdir /tmp/root
    mount --rbind / /tmp/root
    mount -t tmpfs tmpfs /tmp/root/dev/shm
    exec chroot /tmp/root "$@" ;;
esac
exec "$@"
"#;

/// The kinds of containers: one sees the directories of jobs; one sees them under another root and with another
/// /dev/shm; one does not see them.
const KINDS: [&str; 3] = ["seen", "root", "hidden"];

/// Runs each rank in a container of its own.
fn contained(run: Run, map: &str, kind: &str, seen: &Path, hidden: &Path) -> Run {
    let programs = program("client");
    let built = programs.ancestors().nth(2).expect("cargo's directory");
    run.args(&format!("unshare --mount --pid --fork --kill-child --mount-proc --user {map} sh -c"))
        .arg(CONTAINER)
        .args(&format!("sh {kind}"))
        .arg(hidden)
        .arg(seen)
        .arg(built)
}

/// The program that a rank runs, and its last line: it checks that shared memory is in use where our library can
/// use it. Under Debian's server, Slurm ends a step whose ranks raise events, as `client` does.
fn checker(pair: Pair, kind: &str) -> (&'static str, &'static str, &'static str) {
    match (pair.server, pair.ranks) {
        (Library::Stock, _) => ("latency", "--gets 100", "gets done"),
        (_, Library::Stock) => ("client", "--no-publish", " checks, 0 failed"),
        _ if kind == "hidden" => ("client", "--no-publish --unshared", " checks, 0 failed"),
        _ => ("client", "--no-publish --shared", " checks, 0 failed"),
    }
}

fn check(run: Run, pair: Pair, kind: &str) -> Ended {
    let (name, args, last) = checker(pair, kind);
    let ended = run.arg(program(name)).args(args).run();
    assert_eq!((ended.code(), ended.count(last), ended.count("FAIL")), (0, 2, 0), "{pair:?} {kind}: {ended}");
    ended
}

#[test]
fn ranks_in_containers() {
    let Some(cluster) = Cluster::start(1) else { return };
    let hidden = cluster.directory().join("spool.n0");
    for pair in Pair::all() {
        // Debian's server compares the user ids outside the container.
        let maps = ["--map-current-user --keep-caps", "--map-root-user"];
        for map in maps.into_iter().take(if pair.server == Library::Stock { 1 } else { 2 }) {
            for kind in KINDS {
                let what = format!("{pair:?} {map} {kind}");
                let step = || contained(cluster.srun(pair, USERS[0], "-n 2"), map, kind, cluster.directory(), &hidden);
                check(step(), pair, kind);
                // Ranks that can reach each other's memory neither through /dev/shm nor by process id.
                let ended = step().env("OMPI_MCA_btl", "self,tcp").arg(program("mpi")).args("collectives").run();
                assert_eq!((ended.code(), ended.count(" done")), (0, 2), "{what}: {ended}");
            }
        }
    }
    cluster.end();
}

#[test]
fn ranks_in_containers_under_our_launcher() {
    if !geteuid().is_root() {
        left_out("root", "containers whose files are those outside take root");
        return;
    }
    for pair in Pair::all().into_iter().filter(|pair| pair.server != Library::Stock) {
        for kind in KINDS {
            let traces = Traces::begin();
            let place = traces.directory();
            let run = Run::new(pmixrun(), pair.server).traced(&traces).args("-n 2 --tmpdir").arg(&place);
            let library = format!("LD_LIBRARY_PATH={}", pair.ranks.directory().display());
            let run = contained(run, "--map-root-user", kind, &place, &place);
            traces.assert_none_left(check(run.arg("env").arg(library), pair, kind));
        }
    }
}
