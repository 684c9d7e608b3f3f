//! A server that is killed and started again: its ranks go on (`docs/restart.md`).

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use pmix_tests::{Ended, Library, Run, Traces, is_large, plugin, pmixrun, program};

/// A job of `size` ranks of the program `restart` under a host that is started again.
fn restarted(traces: &Traces, size: usize, options: &str, step: &str) -> Ended {
    let run = Run::new(program("host"), Library::ours()).traced(traces);
    let run = run.args(&format!("-n {size} --restartable 60 --timeout 100 {options}"));
    run.arg(program("restart")).args(step).run()
}

/// Lines that must not be in the log.
const COMPLAINTS: [&str; 5] = ["not taken over", "panicked", "lost the connection", "refused", "cannot go on"];

/// Asserts that all ranks have found what they expect, that `kills` servers were killed, and that nothing is left. A server may be killed
/// before it has taken over anything.
fn assert_well(traces: &Traces, ended: &Ended, size: usize, kills: usize, step: &str) {
    assert_eq!((ended.code(), ended.count(" done")), (0, size), "{step}: {ended}");
    assert_eq!(ended.stderr.matches("ended by signal 9").count(), kills, "{step}: {ended}");
    let taken_over = ended.stderr.matches("taken over from a server that was killed").count();
    assert!((1..=kills).contains(&taken_over), "{step}: {ended}");
    for complaint in COMPLAINTS {
        assert!(!ended.stderr.contains(complaint), "{step}: {ended}");
    }
    traces.assert_none_left(ended);
}

/// Kills the server once at each of these steps, with and without a while until the next one is there.
#[test]
fn ranks_go_on_when_their_server_is_killed_at_any_step() {
    for step in ["init", "fences", "commit", "ended", "half", "get", "event", "puts", "reads 1"] {
        for down in [0, 400] {
            let traces = Traces::begin();
            let ended = restarted(&traces, 4, &format!("--down {down}"), step);
            assert_well(&traces, &ended, 4, 1, step);
        }
    }
}

#[test]
fn fences_complete_and_values_never_get_older_while_the_server_is_killed_again_and_again() {
    let kills = if is_large() { 100 } else { 8 };
    let traces = Traces::begin();
    let ended = restarted(&traces, 4, "", &format!("storm {kills}"));
    assert_well(&traces, &ended, 4, kills, "storm");
}

/// Ranks that make no call for longer than the next server waits for them: `busy` computes for 8 s.
#[test]
fn ranks_that_compute_meanwhile_are_not_lost() {
    let traces = Traces::begin();
    let ended = restarted(&traces, 3, "--restartable 4", "busy");
    assert_well(&traces, &ended, 3, 1, "busy");
    assert!(!ended.stderr.contains("has not come again"), "{ended}");
}

#[test]
fn a_server_that_does_not_come_back_is_lost_after_that_time() {
    let traces = Traces::begin();
    let ended = restarted(&traces, 3, "--restartable 1 --lives 1", "lost");
    assert_eq!((ended.code(), ended.count(" done")), (0, 3), "{ended}");
}

/// Without the option nobody waits, and the next server sweeps the directory.
#[test]
fn without_the_option_the_connection_is_lost_at_once() {
    let traces = Traces::begin();
    let run = Run::new(program("host"), Library::ours()).traced(&traces).env("PMIX_DSTORE_RESTART", "0");
    let run = run.args("-n 2 --restartable 60 --lives 1 --timeout 100").arg(program("restart")).args("lost 1");
    let ended = run.run();
    assert_eq!((ended.code(), ended.count(" done")), (0, 2), "{ended}");
}

/// A job in which the server is killed before its `at`th call that others see, in its `life`th life; 0 kills nowhere. Before the second life
/// the first one is killed in the middle.
fn crashed(traces: &Traces, life: u32, at: u64) -> (Ended, String) {
    let log = traces.own().join("log");
    let run = Run::new(program("host"), Library::ours()).traced(traces);
    let run = run.args("-n 2 --restartable 60 --timeout 100").arg(program("restart"));
    let run = run.args(if life == 1 { "points 0" } else { "points 1" });
    let run = run.env("LD_PRELOAD", plugin("failing")).env("FAILING_IN", "server").env("FAILING_WHAT", "crash");
    let run = run.env("FAILING_LIFE", life.to_string()).env("FAILING_AT", at.to_string()).env("FAILING_LOG", &log);
    let ended = run.run();
    (ended, fs::read_to_string(&log).unwrap_or_default())
}

/// Kills the server before each of its calls that others see, or before each of a few; `make soak PART=restart` does so a hundred times each.
#[test]
fn ranks_go_on_wherever_their_server_is_killed() {
    let every = if is_large() { 1 } else { 9 };
    for life in [1, 2] {
        let traces = Traces::begin();
        let (ended, log) = crashed(&traces, life, 0);
        assert_eq!((ended.code(), ended.count(" done")), (0, 2), "{ended}");
        let total = log.lines().filter_map(|line| line.strip_prefix("total ")?.parse::<u64>().ok()).max();
        let total = total.unwrap_or_else(|| panic!("nothing was counted: {log}"));
        assert!(total > 50, "a start and a job have more calls than {total}");
        let mut killed = 0;
        for at in (1..=total).step_by(every) {
            let traces = Traces::begin();
            let (ended, log) = crashed(&traces, life, at);
            killed += u64::from(log.contains("killed "));
            let what = format!("life {life}, call {at}: {log}{ended}");
            assert_eq!((ended.code(), ended.count(" done")), (0, 2), "{what}");
            for complaint in COMPLAINTS {
                assert!(!ended.stderr.contains(complaint), "{complaint}: {what}");
            }
            traces.assert_none_left(&ended);
        }
        // With fewer calls than the first time some points are not reached.
        assert!(2 * killed > total / every as u64, "life {life}: {killed} of {total} points, each {every}th");
    }
}

/// The others are told when the time is over for which a rank waits, though no connection of the dead one ends.
#[test]
fn a_rank_that_dies_while_there_is_no_server_is_lost() {
    let traces = Traces::begin();
    let ended = restarted(&traces, 3, "--restartable 10 --deaths ignore --down 300", "dead");
    assert_eq!((ended.code(), ended.count(" done")), (0, 2), "{ended}");
    assert!(ended.stderr.contains("test-job:2 was connected to the server that was killed"), "{ended}");
    traces.assert_none_left(&ended);
}

/// Hosts with servers in one directory, each killed and started again, beside each other; they differ in the names of their jobs and servers.
#[test]
fn servers_in_one_directory_take_over_each_its_own() {
    let traces = Traces::begin();
    let shared = traces.own().join("shared");
    fs::create_dir(&shared).unwrap();
    let hosts = ["one", "two", "three"].map(|name| {
        let run = Run::new(program("host"), Library::ours()).traced(&traces).env("HOST_DIRECTORY", &shared);
        let run = run.env("HOST_SERVER_FILE", traces.own().join(name));
        let run = run.args(&format!("-n 2 --restartable 60 --nspace {name} --server {name} --timeout 100 --down 100"));
        let run = run.arg(program("restart")).args("storm 4");
        std::thread::spawn(move || run.run())
    });
    for host in hosts {
        let ended = host.join().unwrap();
        assert_eq!((ended.code(), ended.count(" done")), (0, 2), "{ended}");
        assert_eq!(ended.stderr.matches("ended by signal 9").count(), 4, "{ended}");
        assert!(!ended.stderr.contains("panicked"), "{ended}");
    }
    let left: Vec<_> = fs::read_dir(&shared).unwrap().flatten().map(|entry| entry.path()).collect();
    assert!(left.is_empty(), "{left:?}");
}

/// The journals below a directory.
fn journals(below: &Path) -> Vec<PathBuf> {
    let found = Command::new("find").arg(below).args(["-name", "journal*"]).output().unwrap();
    String::from_utf8(found.stdout).unwrap().lines().map(PathBuf::from).collect()
}

/// A host with or without the option, and what its ranks find: the journals, and their own variable.
fn what_is_kept(option: &str) -> (Vec<PathBuf>, Vec<u32>, String) {
    let traces = Traces::begin();
    let directory = traces.own().join("directory");
    fs::create_dir(&directory).unwrap();
    let run = Run::new(program("host"), Library::ours()).traced(&traces).env("HOST_DIRECTORY", &directory);
    let script = "echo \"restart=$PMIX_DSTORE_RESTART.\"; touch $HOST_DIRECTORY/started; while [ ! -e $HOST_DIRECTORY/seen ]; do sleep 0.02; done";
    let run = run.args(&format!("-n 1 {option} --timeout 60")).arg("sh").arg("-c").arg(script);
    let host = std::thread::spawn(move || run.run());
    while !directory.join("started").exists() {
        assert!(!host.is_finished(), "{}", host.join().unwrap());
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let found = journals(&directory);
    let modes = found.iter().map(|file| fs::metadata(file).unwrap().permissions().mode() & 0o7777).collect();
    fs::write(directory.join("seen"), "").unwrap();
    let ended = host.join().unwrap();
    assert_eq!(ended.code(), 0, "{ended}");
    (found, modes, ended.stdout)
}

#[test]
fn a_journal_is_the_servers_user_s_alone_and_without_the_option_there_is_none() {
    let (found, modes, told) = what_is_kept("--restartable 60");
    assert_eq!((found.len(), modes), (1, vec![0o600]));
    assert!(told.contains("restart=60."), "{told}");
    let (found, _, told) = what_is_kept("");
    assert!(found.is_empty() && told.contains("restart=."), "{found:?} {told}");
}

/// Its server is its own process, and its watchdog does not let ranks wait for another one.
#[test]
fn pmixrun_that_is_killed_ends_its_ranks_whatever_the_option_says() {
    let traces = Traces::begin();
    let file = traces.own().join("server");
    let script = format!("echo $$ > {}; exec \"$@\"", file.display());
    let run = Run::new("sh", Library::ours()).traced(&traces).arg("-c").arg(script).arg("sh");
    let run = run.arg(pmixrun()).args("-n 2").arg(program("restart")).arg("lost");
    let begun = std::time::Instant::now();
    let ended = run.env("PMIX_DSTORE_RESTART", "60").env("HOST_SERVER", &file).run();
    assert_eq!((ended.code(), ended.count(" done")), (137, 0), "{ended}");
    traces.assert_none_left(&ended);
    assert!(begun.elapsed().as_secs() < 40, "{ended}");
}
