//! `pmixrun` with programs that know nothing of PMIx: output, signals, limits, exit status.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// What takes this long hangs.
const LONG: Duration = Duration::from_secs(120);

fn pmixrun(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pmixrun"));
    command.args(args).stdin(Stdio::null());
    command
}

fn output(args: &[&str]) -> Output {
    pmixrun(args).output().expect("pmixrun")
}

/// Waits for a job to end, and ends it by force where it does not.
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
    // A line comes in two pieces, and the launcher has read the first of some when the second comes.
    let script = "for i in $(seq 500); do printf 'line '; test $((i % 100)) != 0 || sleep 0.1; echo $i; done";
    let output = output(&["-n", "3", "--tag-output", "sh", "-c", script]);
    assert_eq!(output.status.code(), Some(0));
    let text = String::from_utf8(output.stdout).unwrap();
    for rank in 0..3 {
        let tag = format!("[{rank}]<stdout>: line ");
        let numbers: Vec<u32> = text.lines().filter_map(|line| line.strip_prefix(&tag)?.parse().ok()).collect();
        assert_eq!(numbers, (1..=500).collect::<Vec<_>>());
    }
    assert_eq!(text.lines().count(), 1500);
}

#[test]
fn much_output_arrives_whole_at_a_slow_reader() {
    // More than the launcher takes before it is read; and no more, so that its ranks have ended by then.
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
    // The pipe is held open and never read.
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
fn ranks_are_bound_to_what_their_launcher_has() {
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
