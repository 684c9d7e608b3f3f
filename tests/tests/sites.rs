//! Jobs in surroundings that containers and sites make: name spaces of the kernel, file systems, system calls that are denied, limits of
//! memory. A job completes, with shared memory or over the socket, or it ends with a line that says why.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use nix::libc;
use nix::unistd::geteuid;
use pmix_tests::{Ended, Library, Run, Traces, left_out, plugin, pmixrun, program};

/// What becomes of a job.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Outcome {
    /// Its ranks read shared memory.
    Shared,
    /// Its ranks read over the socket.
    Socket,
    /// It ends with a line that has this text.
    Line(&'static str),
}

/// A command that runs the launcher, or each rank, in other surroundings.
type Wrapper = Vec<String>;

fn shell(script: &str) -> Wrapper {
    ["sh", "-c", &format!("{script} && exec \"$@\""), "sh"].map(str::to_owned).to_vec()
}

fn words(text: &str) -> Wrapper {
    text.split_whitespace().map(str::to_owned).collect()
}

/// Runs two ranks that check each of a client's calls, the launcher and the ranks each in their surroundings.
fn job(launcher: &[String], ranks: &[String], outcome: Outcome, traces: &Traces) -> Ended {
    let expects = match outcome {
        Outcome::Shared => "--shared",
        Outcome::Socket => "--unshared",
        Outcome::Line(_) => "",
    };
    // What is to fail may wait for what is denied; what is to work has time, also where many tests run.
    let limit = if matches!(outcome, Outcome::Line(_)) { "--timeout 20 -n 2" } else { "--timeout 90 -n 2" };
    let start = [launcher, &[pmixrun().display().to_string()]].concat();
    let run = Run::new(&start[0], Library::ours()).traced(traces).env("TEST_NODES", "1");
    let run = start[1..].iter().fold(run, |run, word| run.arg(word)).args(limit);
    let run = ranks.iter().fold(run, |run, word| run.arg(word)).arg(program("client")).args(expects);
    run.deadline(Duration::from_secs(100)).run()
}

/// Asserts that a job has this outcome, and leaves nothing.
fn assert_outcome(launcher: &[String], ranks: &[String], outcome: Outcome) {
    let traces = Traces::begin();
    let ended = job(launcher, ranks, outcome, &traces);
    match outcome {
        Outcome::Shared | Outcome::Socket => {
            assert_eq!((ended.code(), ended.count(" checks, 0 failed")), (0, 2), "{outcome:?}: {ended}");
        }
        Outcome::Line(text) => {
            let is_said = ended.stderr.contains(text) || ended.stdout.contains(text);
            assert!(ended.code() > 0 && is_said, "{outcome:?}: {ended}");
        }
    }
    traces.assert_none_left(&ended);
}

/// Whether this process may make name spaces and mount.
fn may_mount() -> bool {
    if !geteuid().is_root() {
        left_out("root", "only root can mount and make name spaces");
        return false;
    }
    true
}

/// A container of each rank, as Singularity, Podman and Slurm's plugins make them; and one of the whole job.
#[test]
fn jobs_run_across_name_spaces_of_the_kernel() {
    if !may_mount() {
        return;
    }
    let unshared = |kinds: &str, script: &str| {
        [words(&format!("unshare --propagation private --mount {kinds}")), shell(script)].concat()
    };
    let hides = "mount -t tmpfs none \"$TMPDIR\"";
    let of_ranks = [
        (unshared("--pid --fork", "true"), Outcome::Shared),
        (unshared("--uts --ipc", "hostname elsewhere"), Outcome::Shared),
        // The Unix socket is a file.
        (unshared("--net", "true"), Outcome::Shared),
        (unshared("--net --pid --fork --uts --ipc --cgroup", "true"), Outcome::Shared),
        // Neither files nor Unix socket: TCP is left.
        (unshared("", hides), Outcome::Socket),
        (unshared("--pid --fork", hides), Outcome::Socket),
        // Nothing is left.
        (unshared("--net", hides), Outcome::Line("no connection to server run-")),
    ];
    for (ranks, outcome) in of_ranks {
        assert_outcome(&[], &ranks, outcome);
    }
    for (launcher, outcome) in [
        (unshared("", hides), Outcome::Shared),
        (unshared("--pid --fork --mount-proc --kill-child", hides), Outcome::Shared),
        (unshared("--net --uts --ipc", "ip link set lo up"), Outcome::Shared),
        // Without loopback there is no address to listen at for tools and stock ranks.
        (unshared("--net", "true"), Outcome::Shared),
    ] {
        assert_outcome(&launcher, &[], outcome);
    }
}

/// The job's directory on overlay file systems, as in most containers, and everything but that directory read-only.
#[test]
fn jobs_run_on_overlays_and_read_only_roots() {
    if !may_mount() {
        return;
    }
    let within = |script: &str| [words("unshare --propagation private --mount"), shell(script)].concat();
    let overlay = "mkdir \"$TMPDIR/room\" && mount -t tmpfs none \"$TMPDIR/room\" && cd \"$TMPDIR/room\" && mkdir low up work && \
                   mount -t overlay -o lowerdir=low,upperdir=up,workdir=work none \"$TMPDIR\" && cd /";
    let read_only = "mount --bind / /mnt && mount --rbind \"$TMPDIR\" \"/mnt$TMPDIR\" && mount --rbind /proc /mnt/proc && \
                     mount --rbind /dev /mnt/dev && mount -o remount,ro,bind /mnt && set -- chroot /mnt \"$@\"";
    for script in [overlay, read_only] {
        let traces = Traces::begin();
        let ended = job(&within(script), &[], Outcome::Shared, &traces);
        assert_eq!((ended.code(), ended.count(" checks, 0 failed")), (0, 2), "{script}: {ended}");
        // The mount points of the overlay are the test's own.
        let room = traces.directory().join("room");
        assert!(!room.exists() || fs::remove_dir(&room).is_ok(), "{ended}");
        traces.assert_none_left(&ended);
    }
}

/// The job's directory on a file system of another machine. This machine's kernel has none, so `fstatfs` says so: segments are refused by
/// the name of the file system, and values go over the socket. Without a lock service `pmixrun` refuses the directory.
#[test]
fn jobs_on_network_file_systems_go_over_the_socket() {
    let preloaded =
        |variables: &str| shell(&format!("export LD_PRELOAD={} {variables}", plugin("remote_fs").display()));
    for (magic, name) in [("0x6969", "NFS"), ("0x0bd00bd0", "Lustre")] {
        let traces = Traces::begin();
        let ended = job(&preloaded(&format!("REMOTE_FS={magic}")), &[], Outcome::Socket, &traces);
        assert_eq!((ended.code(), ended.count(" checks, 0 failed")), (0, 2), "{name}: {ended}");
        let line =
            format!("is on a network file system ({name}); shared memory needs a local one (PMIX_SERVER_TMPDIR)");
        assert_eq!(ended.stderr.matches(&line).count(), 1, "{name}: {ended}");
        traces.assert_none_left(&ended);
    }
    // Without locks nobody could tell that the launcher lives.
    assert_outcome(&preloaded("REMOTE_FS=0x6969 REMOTE_FS_LOCKS=none"), &[], Outcome::Line("No locks available"));
}

/// `tests/programs/denied.c` before a program: these system calls fail with `EPERM`.
fn denied(calls: &str) -> Wrapper {
    vec![program("denied").display().to_string(), libc::EPERM.to_string(), calls.to_owned()]
}

/// The numbers of system calls as `denied` wants them.
fn numbers(calls: &[libc::c_long]) -> String {
    calls.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

/// What containers' filters and security modules deny in practice, and what a start needs: where the library can do without, it does;
/// otherwise a line says what was denied.
#[test]
fn denied_system_calls_are_done_without_or_named() {
    use nix::libc::*;
    // Nothing is lost: each has another way, or is not needed.
    let spared = [
        SYS_statx,
        SYS_openat2,
        SYS_close_range,
        SYS_membarrier,
        SYS_memfd_create,
        SYS_pidfd_open,
        SYS_pidfd_send_signal,
        SYS_kcmp,
        SYS_process_vm_readv,
        SYS_fallocate,
        SYS_madvise,
        SYS_sched_setaffinity,
        SYS_renameat2,
        SYS_prlimit64,
        SYS_inotify_init1,
        SYS_getrusage,
        SYS_sysinfo,
        SYS_set_robust_list,
        SYS_sigaltstack,
        SYS_shutdown,
    ];
    let spared = numbers(&spared);
    assert_outcome(&[], &denied(&spared), Outcome::Shared);
    assert_outcome(&denied(&spared), &[], Outcome::Shared);
    assert_outcome(&[], &denied("netlink"), Outcome::Shared);
    assert_outcome(&denied("netlink"), &[], Outcome::Shared);
    for (call, of_ranks, of_all) in [
        // Values go over the socket.
        (SYS_pwrite64, Outcome::Shared, Outcome::Socket),
        (SYS_fchmod, Outcome::Shared, Outcome::Socket),
        (SYS_chmod, Outcome::Shared, Outcome::Socket),
        (SYS_mkdirat, Outcome::Shared, Outcome::Socket),
        // The users of both ends are not known over the Unix socket; over TCP the kernel's socket table tells them.
        (SYS_getsockopt, Outcome::Socket, Outcome::Socket),
        // Nothing goes without these.
        (SYS_connect, Outcome::Line("no connection to server run-"), Outcome::Line("no connection to server run-")),
        (SYS_sendmsg, Outcome::Line("PMIX_ERR_LOST_CONNECTION"), Outcome::Line("Operation not permitted")),
        (SYS_recvfrom, Outcome::Line("PMIX_ERR_UNREACH"), Outcome::Line("PMIX_ERR_UNREACH")),
        (SYS_accept4, Outcome::Shared, Outcome::Line("cannot take new connections for now: Operation not permitted")),
        (SYS_listen, Outcome::Shared, Outcome::Line("cannot start: listen on 127.0.0.1")),
        (SYS_epoll_create1, Outcome::Shared, Outcome::Line("cannot start: watch the listeners")),
        (SYS_socketpair, Outcome::Shared, Outcome::Line("cannot start the watchdog process")),
        (SYS_flock, Outcome::Shared, Outcome::Line("cannot make the job's directory")),
        (SYS_clone3, Outcome::Line("PMIX_ERR_OUT_OF_RESOURCE"), Outcome::Line("cannot start: start a thread")),
    ] {
        assert_outcome(&[], &denied(&numbers(&[call])), of_ranks);
        assert_outcome(&denied(&numbers(&[call])), &[], of_all);
    }
}

/// A control group with a limit of memory, which is removed in the end.
struct Group(PathBuf);

impl Group {
    /// `None` where this machine lets nobody make one.
    fn new(name: &str, bytes: u64) -> Option<Group> {
        let name = format!("pmix-test-{}-{name}", std::process::id());
        let (parent, limit) = if fs::exists("/sys/fs/cgroup/memory/memory.limit_in_bytes").unwrap_or(false) {
            ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")
        } else {
            ("/sys/fs/cgroup", "memory.max")
        };
        let group = Group(PathBuf::from(parent).join(name));
        let made = fs::create_dir(&group.0).and_then(|()| fs::write(group.0.join(limit), bytes.to_string()));
        match made {
            Ok(()) => Some(group),
            Err(error) => {
                left_out("kernel", format!("no control group with a limit of memory: {error}"));
                None
            }
        }
    }

    /// Puts a program into the group.
    fn wrapper(&self) -> Wrapper {
        shell(&format!("echo $$ > {}/cgroup.procs", self.0.display()))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // The kernel lets go of the last process a little later.
        for _ in 0..100 {
            if fs::remove_dir(&self.0).is_ok() || !self.0.exists() {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// The kernel kills what takes more than its group may have. What lives says who was killed.
#[test]
fn a_limit_of_memory_ends_a_job_with_a_line() {
    if !may_mount() {
        return;
    }
    let Some(group) = Group::new("wide", 512 << 20) else { return };
    assert_outcome(&group.wrapper(), &[], Outcome::Shared);
    let Some(group) = Group::new("narrow", 24 << 20) else { return };
    let traces = Traces::begin();
    let takes = "python3 -c 'b = bytearray(64 << 20); print(len(b))'";
    let ended = Run::ranks(2, "sh", Library::ours()).traced(&traces).arg("-c");
    let script = format!("echo $$ > {}/cgroup.procs; exec {}", group.0.display(), takes);
    let ended = ended.arg(script).run();
    assert_eq!(ended.code(), 128 + libc::SIGKILL, "{ended}");
    assert!(ended.stderr.contains("was killed by signal 9 (SIGKILL)"), "{ended}");
    traces.assert_none_left(&ended);
}
