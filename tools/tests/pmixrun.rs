//! `pmixrun` from its command line, with programs that do not use PMIx.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

fn pmixrun(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pmixrun"));
    command.args(args).stdin(Stdio::null());
    command
}

fn run(args: &[&str]) -> Output {
    pmixrun(args).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn sorted_lines(bytes: &[u8]) -> Vec<String> {
    let mut lines: Vec<String> = text(bytes).lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

/// Asserts an exit status and that stderr holds all of `parts`.
fn assert_fails(args: &[&str], status: i32, parts: &[&str]) {
    let output = run(args);
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(status), "{args:?}: {stderr}");
    for part in parts {
        assert!(stderr.contains(part), "{args:?}: {part} is missing in: {stderr}");
    }
}

#[test]
fn every_rank_runs_with_its_environment() {
    let output = run(&["-n", "3", "sh", "-c", "echo $PMIX_RANK ${JSM_JSRUN_PORT:+launched} $0", "name"]);
    assert!(output.status.success());
    assert_eq!(sorted_lines(&output.stdout), ["0 launched name", "1 launched name", "2 launched name"]);
    assert_eq!(text(&output.stderr), "");
}

#[test]
fn another_launchers_environment_is_not_passed_on() {
    let output = pmixrun(&["-n", "1", "env"])
        .envs([("PMIX_SERVER_URI61", "elsewhere"), ("PMIX_RANK", "77"), ("PMIX_MCA_gds", "hash")])
        .output()
        .unwrap();
    let lines = sorted_lines(&output.stdout);
    assert!(lines.contains(&"PMIX_RANK=0".to_owned()), "{lines:?}");
    assert!(lines.contains(&"PMIX_MCA_gds=hash".to_owned()), "{lines:?}");
    assert!(!lines.iter().any(|line| line.contains("elsewhere")), "{lines:?}");
}

#[test]
fn hwloc_looks_for_plugins_in_the_ranks_alone() {
    for ranks in ["1", "4"] {
        let show = ["sh", "-c", "echo ${HWLOC_PLUGINS_PATH-unset}"];
        let mut command = pmixrun(&[&["-n", ranks][..], &show].concat());
        let output = command.env_remove("HWLOC_PLUGINS_PATH").env("HWLOC_PLUGINS_VERBOSE", "1").output().unwrap();
        let (said, shown) = (text(&output.stderr), text(&output.stdout));
        // It speaks only of the directory.
        assert!(said.contains("/nonexistent") && !said.contains("found"), "{said}");
        assert!(shown.lines().all(|line| line == "unset"), "{shown}");
    }
}

#[test]
fn ranks_that_share_processors_may_wake_later() {
    let slack = |launcher: &mut Command| {
        let output = launcher.output().unwrap();
        let slacks: Vec<u64> = text(&output.stdout).lines().map(|line| line.parse().unwrap()).collect();
        (slacks.len(), slacks[0], slacks.iter().all(|slack| *slack == slacks[0]))
    };
    let processors = nix::unistd::sysconf(nix::unistd::SysconfVar::_NPROCESSORS_ONLN).unwrap().unwrap() as usize;
    let show = ["cat", "/proc/self/timerslack_ns"];
    let (_, own, _) = slack(Command::new(show[0]).arg(show[1]));
    assert_eq!(slack(&mut pmixrun(&[&["-n", "1"][..], &show].concat())), (1, own, true));
    let many = (2 * processors).to_string();
    // 0.1 ms for each rank of a processor.
    let shared = slack(&mut pmixrun(&[&["-n", &many][..], &show].concat()));
    assert_eq!(shared, (2 * processors, own.max(200_000), true));
}

#[test]
fn ranks_that_share_processors_are_told() {
    let show = ["sh", "-c", "echo ${OMPI_MCA_mpi_oversubscribe-unset}"];
    let processors = nix::unistd::sysconf(nix::unistd::SysconfVar::_NPROCESSORS_ONLN).unwrap().unwrap() as usize;
    let told = |ranks: usize, user: Option<&str>| {
        let ranks = ranks.to_string();
        let mut command = pmixrun(&[&["-n", &ranks][..], &show].concat());
        command.env_remove("OMPI_MCA_mpi_oversubscribe");
        let output = command.envs(user.map(|value| ("OMPI_MCA_mpi_oversubscribe", value))).output().unwrap();
        text(&output.stdout).lines().next().unwrap().to_owned()
    };
    assert_eq!(told(1, None), "unset");
    assert_eq!(told(processors + 1, None), "1");
    assert_eq!(told(processors + 1, Some("0")), "0");
}

#[test]
fn output_is_tagged_on_request() {
    let output = run(&["-n", "2", "--tag-output", "sh", "-c", "echo out; echo err >&2"]);
    assert_eq!(sorted_lines(&output.stdout), ["[0]<stdout>: out", "[1]<stdout>: out"]);
    assert_eq!(sorted_lines(&output.stderr), ["[0]<stderr>: err", "[1]<stderr>: err"]);
}

#[test]
fn input_goes_to_rank_0() {
    let mut child = pmixrun(&["-n", "3", "sh", "-c", "echo $PMIX_RANK $(wc -c)"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // More than a pipe holds.
    child.stdin.take().unwrap().write_all(&vec![b'x'; 1 << 20]).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(sorted_lines(&output.stdout), ["0 1048576", "1 0", "2 0"]);
}

#[test]
fn the_first_failure_decides() {
    assert_fails(&["-n", "1", "sh", "-c", "exit 3"], 3, &["rank 0 (pid ", "exited with status 3"]);
    let script = "[ $PMIX_RANK != 1 ] || kill -9 $$; sleep 60 & wait";
    assert_fails(
        &["-n", "3", "sh", "-c", script],
        137,
        &["rank 1 (pid ", "killed by signal 9 (SIGKILL)", "ending the ranks that still run (2)"],
    );
}

#[test]
fn ranks_that_do_not_end_are_killed() {
    let directory = tempfile::tempdir().unwrap();
    let ready = directory.path().join("ready").display().to_string();
    let script = "trap '' TERM; if [ $PMIX_RANK = 0 ]; then while [ ! -e $0 ]; do sleep 0.02; done; exit 4; fi; \
                  : > $0; while :; do sleep 1; done";
    let told = ["exited with status 4", "ending the ranks that still run (1)"];
    assert_fails(&["-n", "2", "--grace", "0.2", "sh", "-c", script, &ready], 4, &told);
}

#[test]
fn a_job_has_its_time() {
    assert_fails(&["-n", "2", "--timeout", "0.2", "sleep", "60"], 124, &["0.2 s"]);
}

#[test]
fn signals_are_passed_on() {
    let script = "trap 'echo told; exit 0' TERM; trap 'echo used' USR1; echo ready; while :; do sleep 0.05; done";
    let mut child =
        pmixrun(&["-n", "2", "sh", "-c", script]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let pid = Pid::from_raw(child.id() as i32);
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let mut expect = |text: &str| (0..2).for_each(|_| assert_eq!(lines.next().as_deref(), Some(text)));
    expect("ready");
    kill(pid, Signal::SIGUSR1).unwrap();
    expect("used");
    kill(pid, Signal::SIGTERM).unwrap();
    expect("told");
    assert_eq!(child.wait().unwrap().code(), Some(128 + 15));
}

#[test]
fn ranks_end_with_a_launcher_that_is_killed() {
    // A killed launcher leaves its directory behind.
    let tmp = tempfile::tempdir().unwrap();
    let mut command = pmixrun(&["-n", "1", "sh", "-c", "echo $$; exec sleep 60"]);
    let mut child = command.env("TMPDIR", tmp.path()).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let rank = Pid::from_raw(line.trim().parse().unwrap());
    child.kill().unwrap();
    child.wait().unwrap();
    let end = Instant::now() + Duration::from_secs(20);
    while kill(rank, None).is_ok() && !is_zombie(rank) {
        assert!(Instant::now() < end, "rank {rank} goes on");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Whether a process has ended but has not been reaped. In a container that may take a while.
fn is_zombie(pid: Pid) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('Z'))
}

/// A stock server empties a directory that was there before.
#[test]
fn what_others_have_in_the_temporary_directory_stays() {
    let directory = tempfile::tempdir().unwrap();
    let names = ["file", "pmix.elsewhere.tool.1", "pmix.sys.elsewhere", "pmix_dstor_1", "directory/file"];
    std::fs::create_dir(directory.path().join("directory")).unwrap();
    names.iter().for_each(|name| std::fs::write(directory.path().join(name), name).unwrap());
    let mut run = pmixrun(&["-n", "2", "sh", "-c", "ls $TMPDIR | wc -l"]);
    let output = run.env("TMPDIR", directory.path()).output().unwrap();
    let count: usize = sorted_lines(&output.stdout)[0].trim().parse().unwrap();
    assert!(count > names.len(), "the job has files of its own there: {count}");
    names
        .iter()
        .for_each(|name| assert_eq!(std::fs::read(directory.path().join(name)).unwrap(), name.as_bytes(), "{name}"));
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), names.len());
}

#[test]
fn nothing_is_left_on_disk() {
    let directory = tempfile::tempdir().unwrap();
    let output =
        pmixrun(&["-n", "2", "sh", "-c", "echo $PMIX_DSTORE_SEGMENTS"]).env("TMPDIR", directory.path()).output();
    let output = output.unwrap();
    assert!(text(&output.stdout).starts_with(&directory.path().display().to_string()), "{}", text(&output.stdout));
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
}

#[test]
fn the_report_is_for_people_or_scripts() {
    let output = run(&["-n", "2", "--report", "true"]);
    assert!(text(&output.stderr).contains("2 ranks"), "{}", text(&output.stderr));
    let output = run(&["-n", "2", "--json", "true"]);
    let report: serde_json::Value = serde_json::from_slice(&output.stderr).unwrap();
    assert_eq!(report["ranks"], 2);
    assert_eq!(report["exit_status"], 0);
}
