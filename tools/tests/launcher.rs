//! `pmixrun` with programs that do not use PMIx: output, signals, limits, exit status.

#[path = "../../tests/src/left_out.rs"]
mod left_out;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use left_out::left_out;

/// The time after which a program counts as hanging.
const LONG: Duration = Duration::from_secs(120);

fn pmixrun(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pmixrun"));
    command.args(args).stdin(Stdio::null());
    command
}

fn output(args: &[&str]) -> Output {
    pmixrun(args).output().expect("pmixrun")
}

/// Waits for a job to end; kills it after `limit`.
fn status_within(command: &mut Command, limit: Duration) -> Option<i32> {
    let mut child = command.spawn().expect("pmixrun");
    let end = Instant::now() + limit;
    while Instant::now() < end {
        if let Some(status) = child.try_wait().expect("a status") {
            return status.code();
        }
        thread::sleep(Duration::from_millis(10));
    }
    child.kill().expect("it can be ended");
    child.wait().expect("a status");
    None
}

#[test]
fn output_comes_whole_and_in_order() {
    // A line is written in two pieces. For some lines the launcher has read the first piece before the second is
    // written.
    let script = "for i in $(seq 500); do printf 'line '; test $((i % 100)) != 0 || sleep 0.1; echo $i; done";
    for option in [&["--tag-output"][..], &["--output", "tag"]] {
        let output = output(&[&["-n", "3"], option, &["sh", "-c", script]].concat());
        assert_eq!(output.status.code(), Some(0));
        let text = String::from_utf8(output.stdout).unwrap();
        for rank in 0..3 {
            let tag = format!("[{rank}]<stdout>: line ");
            let numbers: Vec<u32> = text.lines().filter_map(|line| line.strip_prefix(&tag)?.parse().ok()).collect();
            assert_eq!(numbers, (1..=500).collect::<Vec<_>>(), "{option:?}");
        }
        assert_eq!(text.lines().count(), 1500, "{option:?}");
    }
}

#[test]
fn much_output_arrives_whole_at_a_slow_reader() {
    // First more than the launcher queues before its output is read; then less, so that its ranks have ended by then.
    for len in [3_000_000, 150_000] {
        let args = ["-n", "2", "head", "-c", &len.to_string(), "/dev/zero"];
        let mut child = pmixrun(&args).stdout(Stdio::piped()).spawn().unwrap();
        thread::sleep(Duration::from_millis(400));
        let mut bytes = Vec::new();
        child.stdout.take().unwrap().read_to_end(&mut bytes).unwrap();
        assert_eq!(bytes.len(), 2 * len);
        assert_eq!(child.wait().unwrap().code(), Some(0));
    }
}

#[test]
fn a_time_limit_holds_whoever_reads_the_output() {
    // The pipe stays open and is never read.
    let mut command = pmixrun(&["--timeout", "1", "--grace", "0.1", "-n", "2", "yes"]);
    let status = status_within(command.stdout(Stdio::piped()), LONG);
    assert_eq!(status, Some(124));
    let mut command = pmixrun(&["--timeout", "1", "--grace", "0.1", "-n", "2", "sh", "-c", "yes & yes & yes & yes"]);
    assert_eq!(status_within(command.stdout(Stdio::null()), LONG), Some(124));
}

#[test]
fn readers_that_are_gone_end_the_job_as_they_would_end_its_ranks() {
    let mut child = pmixrun(&["-n", "2", "yes"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    drop(child.stderr.take());
    assert_eq!(child.wait().unwrap().code(), Some(128 + 13), "SIGPIPE, and no panic about it");
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    assert_eq!(pmixrun(&["--help"]).stdout(writer).status().unwrap().code(), Some(0));
}

#[test]
fn a_low_limit_of_descriptors_is_raised_for_the_launcher_only() {
    let program = env!("CARGO_BIN_EXE_pmixrun");
    let line = format!("ulimit -Sn 64; exec {program} -n 40 sh -c 'ulimit -Sn'");
    let output = Command::new("sh").args(["-c", &line]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "64\n".repeat(40));
}

/// The processors that a line of `/proc/self/status` names.
fn processors(status: &str) -> BTreeSet<u32> {
    let list = status.lines().find_map(|line| line.split_once("Cpus_allowed_list:")).expect("a list").1;
    let range = |range: &str| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        first.parse().expect("a number")..=last.parse::<u32>().expect("a number")
    };
    list.trim().split(',').flat_map(range).collect()
}

#[test]
fn ranks_that_are_bound_have_a_core_each() {
    let ours = processors(&std::fs::read_to_string("/proc/self/status").unwrap());
    let core = |processor: &u32| {
        let path = format!("/sys/devices/system/cpu/cpu{processor}/topology/thread_siblings_list");
        std::fs::read_to_string(path).unwrap_or(processor.to_string())
    };
    let cores = ours.iter().map(core).collect::<BTreeSet<String>>().len();
    let ranks = (2 * cores).to_string();
    let output = output(&["-n", &ranks, "--bind-to", "core", "grep", "Cpus_allowed_list", "/proc/self/status"]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let mut times: BTreeMap<BTreeSet<u32>, usize> = BTreeMap::new();
    text.lines().for_each(|line| *times.entry(processors(line)).or_default() += 1);
    assert_eq!(times.len(), cores, "{text}");
    assert!(times.values().all(|count| *count == 2), "each core has two ranks: {text}");
    assert_eq!(times.keys().map(BTreeSet::len).sum::<usize>(), ours.len(), "and no processor belongs to two: {text}");
}

#[test]
fn ranks_are_bound_within_the_launchers_cpuset() {
    let ours = processors(&std::fs::read_to_string("/proc/self/status").unwrap());
    for processor in ours {
        let mut command = Command::new("taskset");
        command.args(["--cpu-list", &processor.to_string(), env!("CARGO_BIN_EXE_pmixrun")]).stdin(Stdio::null());
        command.args(["-n", "2", "--bind-to", "core", "grep", "Cpus_allowed_list", "/proc/self/status"]);
        let output = command.output().expect("taskset");
        let text = String::from_utf8(output.stdout).unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        let bound: Vec<_> = text.lines().map(processors).collect();
        assert_eq!(bound, vec![BTreeSet::from([processor]); 2], "{text}");
    }
}

#[test]
fn times_beyond_all_clocks_are_no_time_limits() {
    assert_eq!(
        output(&["--timeout", "1e19", "--grace", "1e19", "-n", "1", "sh", "-c", "exit 3"]).status.code(),
        Some(3)
    );
}

#[test]
fn signals_end_the_job_and_leave_nothing_behind() {
    let tmp = tempfile::tempdir().unwrap();
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGQUIT] {
        let mut command = pmixrun(&["-n", "2", "--grace", "0.1", "sleep", "100"]);
        let mut child = command.env("TMPDIR", tmp.path()).stderr(Stdio::null()).spawn().unwrap();
        while std::fs::read_dir(tmp.path()).unwrap().next().is_none() {
            thread::sleep(Duration::from_millis(1));
        }
        let pid = nix::unistd::Pid::from_raw(child.id() as i32);
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::try_from(signal).unwrap()).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(128 + signal));
        assert_eq!(std::fs::read_dir(tmp.path()).unwrap().count(), 0);
    }
}

/// As by a user who types the interrupt twice.
#[test]
fn nothing_outlives_a_launcher_that_is_interrupted_twice() {
    let tmp = tempfile::tempdir().unwrap();
    let (mut child, mark) = staying("interrupted twice", tmp.path());
    let pid = nix::unistd::Pid::from_raw(child.id() as i32);
    for _ in 0..2 {
        // The launcher may have ended between the two.
        let _ = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGINT);
        thread::sleep(Duration::from_millis(20));
    }
    child.wait().unwrap();
    assert_none_marked(&mark, "the launcher was interrupted twice");
}

/// A value for an environment variable that marks the processes of a test. Descendants inherit it.
fn mark(name: &str) -> String {
    format!("{name}.{}", std::process::id())
}

const MARK: &str = "PMIXRUN_TEST_MARK";

/// The processes with a mark, and with a name if one is given.
fn marked(mark: &str, name: Option<&str>) -> Vec<i32> {
    let wanted = format!("{MARK}={mark}");
    let pids = std::fs::read_dir("/proc").unwrap().flatten().filter_map(|e| e.file_name().to_str()?.parse().ok());
    let is_wanted = |pid: &i32| {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        let is_marked = environment.split(|byte| *byte == 0).any(|variable| variable == wanted.as_bytes());
        let comm = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        is_marked && name.is_none_or(|name| comm.trim() == name)
    };
    pids.filter(is_wanted).collect()
}

/// Asserts that no process with a mark is left after a while.
fn assert_none_marked(mark: &str, context: &str) {
    let end = Instant::now() + LONG;
    while !marked(mark, None).is_empty() {
        assert!(Instant::now() < end, "{context}: processes are left: {:?}", marked(mark, None));
        thread::sleep(Duration::from_millis(10));
    }
}

/// The script of a rank. It starts a child in its process group, one in a session of its own, one whose parent has
/// ended, and one of that kind that ignores SIGTERM. Each signals that it runs by a file `$0.WHO.RANK`.
const OFFSPRING: &str = "
    there() { : > \"$0.$1.$PMIX_RANK\"; }; stay='while :; do sleep 1; done'
    sh -c \": > '$0.child.$PMIX_RANK'; $stay\" &
    setsid sh -c \": > '$0.session.$PMIX_RANK'; $stay\" &
    setsid sh -c \"sh -c \\\": > '$0.orphan.$PMIX_RANK'; $stay\\\" & exit\" &
    setsid sh -c \"trap '' TERM INT; sh -c \\\": > '$0.deaf.$PMIX_RANK'; $stay\\\" & exit\" &
    for who in child session orphan deaf; do while test ! -e \"$0.$who.$PMIX_RANK\"; do sleep 0.01; done; done
";

/// A job of two ranks. They run `then` when all their children run.
fn with_offspring(name: &str, options: &[&str], then: &str, tmp: &std::path::Path) -> (Command, String) {
    let mark = mark(name);
    let script = format!("{OFFSPRING}\n{then}");
    let file = tmp.join("there").display().to_string();
    let mut command = pmixrun(&[&["-n", "2", "--grace", "0.3"], options, &["sh", "-c", &script, &file]].concat());
    command.env(MARK, &mark).env("TMPDIR", tmp).stderr(Stdio::null()).stdout(Stdio::null());
    (command, mark)
}

#[test]
fn children_of_ranks_end_with_the_job() {
    for (name, options, then, status) in [
        ("fails", &[][..], "test $PMIX_RANK = 0 || exit 3; sleep 1000", 3),
        ("goes well", &[], "exit 0", 0),
        ("takes too long", &["--timeout", "1"], "while :; do sleep 1; done", 124),
        ("cannot be told", &["--timeout", "1"], "trap '' TERM; while :; do sleep 1; done", 124),
    ] {
        let tmp = tempfile::tempdir().unwrap();
        let (mut command, mark) = with_offspring(name, options, then, tmp.path());
        assert_eq!(status_within(&mut command, LONG), Some(status), "{name}");
        // The launcher waits for all descendants, so none is left now.
        assert_eq!(marked(&mark, None), Vec::<i32>::new(), "{name}");
    }
}

/// Starts a job whose ranks keep running, and waits until all its processes run.
fn staying(name: &str, tmp: &std::path::Path) -> (std::process::Child, String) {
    let (mut command, mark) = with_offspring(name, &[], ": > \"$0.all.$PMIX_RANK\"; sleep 1000", tmp);
    let mut child = command.spawn().unwrap();
    let end = Instant::now() + LONG;
    while (0..2).any(|rank| !tmp.join(format!("there.all.{rank}")).exists()) {
        assert!(child.try_wait().unwrap().is_none(), "the launcher has ended before its ranks began");
        assert!(Instant::now() < end, "{name}: the job does not come up");
        thread::sleep(Duration::from_millis(10));
    }
    (child, mark)
}

fn kill(pid: i32) {
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::Signal::SIGKILL).unwrap();
}

#[test]
fn nothing_outlives_a_launcher_that_is_killed() {
    let tmp = tempfile::tempdir().unwrap();
    let (mut child, mark) = staying("launcher killed", tmp.path());
    child.kill().unwrap();
    child.wait().unwrap();
    assert_none_marked(&mark, "the launcher was killed");
    // Its directory is removed, too.
    let left = std::fs::read_dir(tmp.path()).unwrap().flatten().map(|entry| entry.file_name());
    assert!(left.into_iter().all(|name| name.to_str().unwrap().starts_with("there.")), "directories are left");
}

#[test]
fn nothing_outlives_a_watchdog_that_is_killed() {
    let tmp = tempfile::tempdir().unwrap();
    let (mut child, mark) = staying("watchdog killed", tmp.path());
    let watchdogs = marked(&mark, Some("pmix-watchdog"));
    assert_eq!(watchdogs.len(), 1);
    kill(watchdogs[0]);
    assert_eq!(child.wait().unwrap().code(), Some(1));
    assert_eq!(marked(&mark, None), Vec::<i32>::new());
}

#[test]
fn a_signal_to_the_group_of_the_launcher_does_not_reach_its_watchdog() {
    use std::os::unix::process::CommandExt;
    let tmp = tempfile::tempdir().unwrap();
    let (mut command, mark) = with_offspring("group", &[], ": > \"$0.all.$PMIX_RANK\"; sleep 1000", tmp.path());
    let mut child = command.process_group(0).spawn().unwrap();
    while (0..2).any(|rank| !tmp.path().join(format!("there.all.{rank}")).exists()) {
        assert!(child.try_wait().unwrap().is_none(), "the launcher has ended before its ranks began");
        thread::sleep(Duration::from_millis(10));
    }
    let group = nix::unistd::Pid::from_raw(child.id() as i32);
    nix::sys::signal::killpg(group, nix::sys::signal::Signal::SIGKILL).unwrap();
    child.wait().unwrap();
    assert_none_marked(&mark, "the group was killed");
}

#[test]
fn launchers_that_are_killed_early_leave_nothing() {
    let tmp = tempfile::tempdir().unwrap();
    let mark = mark("early");
    for turn in 0..60 {
        let mut command = pmixrun(&["-n", "1", "sleep", "1000"]);
        let mut child = command.env(MARK, &mark).env("TMPDIR", tmp.path()).stderr(Stdio::null()).spawn().unwrap();
        thread::sleep(Duration::from_micros(turn * 400));
        child.kill().unwrap();
        child.wait().unwrap();
    }
    assert_none_marked(&mark, "launchers were killed");
    assert_eq!(std::fs::read_dir(tmp.path()).unwrap().count(), 0);
}

#[test]
fn a_launcher_with_few_descriptors_leaves_nothing() {
    let tmp = tempfile::tempdir().unwrap();
    for limit in 3..28 {
        let line = format!("ulimit -n {limit}; exec {} -n 1 true", env!("CARGO_BIN_EXE_pmixrun"));
        let output = Command::new("sh").args(["-c", &line]).env("TMPDIR", tmp.path()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(matches!(output.status.code(), Some(0 | 125 | 127)), "{limit}: {:?} {said}", output.status);
        assert_eq!(std::fs::read_dir(tmp.path()).unwrap().count(), 0, "{limit}: {said}");
    }
}

#[test]
fn squatted_names_do_not_stop_a_launcher() {
    let tmp = tempfile::tempdir().unwrap();
    // Another user who sees a launcher start can derive predictable names from its process id and try them all.
    let line = format!(
        "for n in $(seq 0 1100); do mkdir \"$TMPDIR/pmixrun.$$.$n\"; done; exec {} -n 1 true",
        env!("CARGO_BIN_EXE_pmixrun")
    );
    let output = Command::new("sh").args(["-c", &line]).env("TMPDIR", tmp.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(std::fs::read_dir(tmp.path()).unwrap().count(), 1101);
}

#[test]
fn output_that_cannot_be_written_is_a_failure() {
    let full = || std::fs::File::options().write(true).open("/dev/full").unwrap();
    // The rank is not ended because of the failed write.
    let script = "echo lost; echo lost >&2; sleep 0.1; echo lost; echo lost >&2; exec true";
    let output = pmixrun(&["-n", "1", "sh", "-c", script]).stdout(full()).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert_eq!(said.matches("cannot write to standard output").count(), 1, "{said}");
    assert!(said.contains("No space left on device") && said.contains("lost\n"), "{said}");
    assert_eq!(pmixrun(&["-n", "1", "sh", "-c", script]).stderr(full()).status().unwrap().code(), Some(1));
    // A failure of the job itself takes precedence.
    let script = "echo lost; exit 3";
    assert_eq!(
        pmixrun(&["-n", "1", "sh", "-c", script]).stdout(full()).stderr(Stdio::null()).status().unwrap().code(),
        Some(3)
    );
    for args in [&["--help"][..], &["--version"]] {
        assert_eq!(pmixrun(args).stdout(full()).stderr(Stdio::null()).status().unwrap().code(), Some(1));
    }
    assert_eq!(pmixrun(&["-n", "1", "--report", "true"]).stderr(full()).status().unwrap().code(), Some(1));
    let report = ["-n", "1", "--report-to", "/dev/full", "true"];
    assert_eq!(pmixrun(&report).stderr(Stdio::null()).status().unwrap().code(), Some(1));
}

#[test]
fn a_rank_that_a_real_time_signal_kills_has_failed() {
    let output = output(&["-n", "1", "sh", "-c", "kill -37 $$"]);
    assert_eq!(output.status.code(), Some(128 + 37), "{}", String::from_utf8_lossy(&output.stderr));
}

/// The terminal stays open and has no end of the input: a launcher that goes on reading it for nobody would never end.
#[test]
fn a_job_that_has_read_one_line_of_a_terminal_ends() {
    let pty = nix::pty::openpty(None, None).unwrap();
    let mut terminal = std::fs::File::from(pty.master);
    std::io::Write::write_all(&mut terminal, b"typed\nnot read\n").unwrap();
    let mut command = Command::new("setsid");
    command.args([
        "--ctty",
        "--wait",
        env!("CARGO_BIN_EXE_pmixrun"),
        "-n",
        "1",
        "sh",
        "-c",
        "read line; test $line = typed",
    ]);
    command.stdin(pty.slave.try_clone().unwrap());
    assert_eq!(status_within(&mut command, LONG), Some(0));
    drop((terminal, pty.slave));
}

#[test]
fn a_launcher_in_the_background_of_a_terminal_goes_on() {
    let tmp = tempfile::tempdir().unwrap();
    let pty = nix::pty::openpty(None, None).unwrap();
    // Input arrives while the job is in the background. Then the job moves to the foreground.
    let program = env!("CARGO_BIN_EXE_pmixrun");
    let script = format!(
        "set -m; {program} -n 1 sh -c ': > ready; while test ! -e go; do sleep 0.01; done' & \
         while test ! -e ready; do sleep 0.01; done; : > typing; wait $! && : > went-on; \
         {program} -n 1 sh -c 'while read line; do test $line != typed || exec touch read; done' & \
         sleep 0.3; : > typing-again; fg"
    );
    let mut command = Command::new("setsid");
    command.args(["--ctty", "--wait", "bash", "-c", &script]).current_dir(tmp.path());
    command.stdin(pty.slave.try_clone().unwrap()).stdout(pty.slave.try_clone().unwrap()).stderr(pty.slave);
    let mut child = command.spawn().unwrap();
    drop(command);
    let mut terminal = std::fs::File::from(pty.master);
    let come = |name: &str| {
        let end = Instant::now() + LONG;
        while !tmp.path().join(name).exists() {
            if Instant::now() >= end {
                return false;
            }
            thread::sleep(Duration::from_millis(10));
        }
        true
    };
    assert!(come("typing"));
    std::io::Write::write_all(&mut terminal, b"not for the job\n").unwrap();
    thread::sleep(Duration::from_millis(500));
    std::fs::write(tmp.path().join("go"), "").unwrap();
    let went_on = come("went-on");
    if went_on {
        assert!(come("typing-again"));
    }
    std::io::Write::write_all(&mut terminal, b"typed\n").unwrap();
    if !went_on {
        child.kill().unwrap();
    }
    drop(child.wait());
    assert!(went_on, "it was stopped");
    assert!(tmp.path().join("read").exists(), "in the foreground it does not read");
}

#[test]
fn a_process_that_the_user_may_not_end_is_named_and_not_waited_for() {
    use std::os::unix::fs::{PermissionsExt, chown};
    if !nix::unistd::geteuid().is_root() {
        return left_out("root", "only root can make a program that takes root's user");
    }
    let tmp = tempfile::Builder::new().permissions(std::fs::Permissions::from_mode(0o755)).tempdir().unwrap();
    let file = |name: &str| tmp.path().join(name);
    std::fs::copy("/usr/bin/setpriv", file("as-root")).unwrap();
    std::fs::set_permissions(file("as-root"), std::fs::Permissions::from_mode(0o4755)).unwrap();
    std::fs::copy(env!("CARGO_BIN_EXE_pmixrun"), file("pmixrun")).unwrap();
    std::fs::create_dir(file("files")).unwrap();
    chown(file("files"), Some(65_534), Some(65_534)).unwrap();
    let mut command = Command::new("setpriv");
    command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]).arg(file("pmixrun")).stdin(Stdio::null());
    command.args(["-n", "1", "--timeout", "1", "--grace", "0.1"]).arg(file("as-root"));
    command.args(["--reuid", "0", "--regid", "0", "--clear-groups", "sleep", "1000"]);
    let output = command.env("TMPDIR", file("files")).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(124), "{said}");
    assert!(said.contains("is still running: this user may not end it"), "{said}");
    assert_eq!(std::fs::read_dir(file("files")).unwrap().count(), 0, "{said}");
    let pid = said.split("pmixrun: process ").nth(1).and_then(|rest| rest.split(' ').next()).expect("a process");
    kill(pid.parse().expect("a number"));
}
