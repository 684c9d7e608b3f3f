//! Ranks, launchers and servers that die, with `tests/programs/mortal.c`: no call waits for ever, no value read is
//! wrong, and nothing is left.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use pmix_dstore::model::Status;
use pmix_tests::{Ended, Library, Run, Traces, pmixrun, program};

/// The program as a host.
fn mortal(traces: &Traces) -> Run {
    // Freed memory in the C library's cache would look like a leak.
    Run::new(program("mortal"), Library::ours()).traced(traces).env("GLIBC_TUNABLES", "glibc.malloc.tcache_count=0")
}

/// The program as a host of its own ranks.
fn host(args: &str, traces: &Traces) -> Ended {
    let ended = mortal(traces).args(args).run();
    assert_eq!(ended.code(), 0, "{ended}");
    assert!(!ended.left, "processes were left behind: {ended}");
    ended
}

/// Rank 1 of four dies in a call, at one of its system calls. The host continues.
fn dies(call: &str, moment: &str) -> Ended {
    let traces = Traces::begin();
    let ended = host(&format!("point {call} {moment}"), &traces);
    assert_eq!(ended.count("point done"), 1, "{ended}");
    // If a rank dies before its last fence, all others get the same status.
    let verdict = if call == "finalize" { "all fences complete: 0" } else { &lost_somebody() };
    assert_eq!(ended.count(verdict), 3, "{ended}");
    traces.assert_none_left(&ended);
    ended
}

/// The output line of a rank after a fence that lost a participant.
fn lost_somebody() -> String {
    format!("a fence lost somebody: {}", Status::ERR_PARTIAL_SUCCESS.0)
}

/// Asserts that the log names the rank: in the line of its lost connection or, if it had none yet, in that of the fence
/// that misses it.
fn assert_named(ended: &Ended) {
    let names =
        |line: &str| line.contains("mortal-0:1") && ["lost", "goes on without"].iter().any(|w| line.contains(w));
    assert!(ended.stderr.lines().any(names), "{ended}");
}

#[test]
fn before_it_connects_and_in_the_handshake() {
    assert_named(&dies("before", "anything"));
    for moment in ["connect", "send", "receive", "map"] {
        assert_named(&dies("init", moment));
    }
}

#[test]
fn in_commit_and_get() {
    for call in ["commit", "get"] {
        for moment in ["send", "receive"] {
            assert_named(&dies(call, moment));
        }
    }
}

#[test]
fn in_a_fence() {
    for moment in ["send", "wait", "receive"] {
        assert_named(&dies("fence", moment));
    }
}

#[test]
fn in_finalize() {
    assert_named(&dies("finalize", "send"));
    // It has finalized, so its end is not reported.
    dies("finalize", "receive");
}

/// One server with many jobs. Of each job 3 of 4 ranks are killed at a random moment. Returns the number of killed
/// ranks. The server itself checks that its resources do not grow.
fn random(rounds: u32, seed: u64, ranks: Library) -> u32 {
    let traces = Traces::begin();
    let run = mortal(&traces).args(&format!("random {rounds} {seed}")).within(3);
    let ended = run.env("MORTAL_RANK_LIBRARY", ranks.directory()).env("PMIX_MCA_gds", "hash").run();
    assert_eq!(ended.code(), 0, "{ended}");
    assert_eq!(ended.count("random done"), 1, "{ended}");
    traces.assert_none_left(&ended);
    // All ranks of a job get the same status.
    let broken = ended.count("a fence lost somebody");
    assert_eq!(ended.count(&lost_somebody()), broken, "{ended}");
    let killed = ended.stdout.lines().find_map(|line| line.strip_prefix("killed ")?.split(',').next()?.parse().ok());
    let figures = ended.stdout.lines().find(|line| line.starts_with("killed ")).unwrap_or_default();
    println!("seed {seed}: {figures}");
    killed.unwrap_or_else(|| panic!("no figures: {ended}"))
}

#[test]
fn ranks_at_random_moments() {
    // All of them in one run take too long for ordinary tests.
    let wanted = std::env::var("PMIX_TEST_KILLS").map_or(300, |text| text.parse().expect("a number"));
    let (mut killed, mut seed) = (0, 20_261_120);
    while killed < wanted {
        killed += random(150, seed, Library::ours());
        seed += 1;
    }
}

#[test]
fn ranks_of_the_stock_library_at_random_moments() {
    random(60, 20_261_120, Library::Stock);
}

/// The storms of `make soak`, for some seconds.
#[test]
fn a_job_beside_killed_ranks_or_servers_sees_nothing_of_it() {
    for (storm, counts) in [("storm", "storm: "), ("servers", "servers: ")] {
        let traces = Traces::begin();
        let run = mortal(&traces).env("MORTAL_OWN", traces.own()).args(&format!("{storm} 3 20261127"));
        let ended = run.run();
        assert_eq!(ended.code(), 0, "{ended}");
        let killed = ended.stdout.lines().find_map(|line| line.strip_prefix(counts)?.split(' ').next()?.parse().ok());
        assert!(killed.is_some_and(|killed: u32| killed > 0), "{ended}");
        assert_eq!(ended.count("beside: rank"), 4, "{ended}");
        traces.assert_none_left(&ended);
    }
}

#[test]
fn a_server_under_its_ranks() {
    let traces = Traces::begin();
    let ended = host("orphans", &traces);
    assert_eq!(ended.count("orphans done"), 1, "{ended}");
    // The server's files are removed with the session's directory.
    let entries = fs::read_dir(traces.directory()).expect("a directory").flatten().map(|entry| entry.path());
    let is_of_job = |path: &PathBuf| {
        let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
        name.starts_with("pmix-dstore-") && !name.contains("canary")
    };
    let left: Vec<PathBuf> = entries.filter(is_of_job).collect();
    assert_eq!(left.len(), 1, "{left:?}: {ended}");
    fs::remove_dir_all(&left[0]).expect("a directory");
    traces.assert_none_left(&ended);
}

/// A job of our launcher. The launcher must end it as a whole, report the reason, and leave nothing.
fn launched(args: &str, status: i32, said: &str) {
    let traces = Traces::begin();
    let ended = Run::ranks(4, program("mortal"), Library::ours()).traced(&traces).args(args).run();
    assert_eq!(ended.code(), status, "{ended}");
    assert!(ended.stderr.contains("rank 1 (pid ") && ended.stderr.contains(said), "{ended}");
    assert!(!ended.left, "processes were left behind: {ended}");
    traces.assert_none_left(&ended);
}

#[test]
fn a_job_of_our_launcher_ends_as_a_whole() {
    launched("rank before anything", 137, "was killed by signal 9 (SIGKILL) before it was connected");
    for (call, moment) in [("init", "receive"), ("commit", "receive"), ("fence", "wait"), ("finalize", "send")] {
        launched(&format!("rank {call} {moment}"), 128 + 31, "was killed by signal 31");
    }
    launched("rank exit quietly", 1, "exited without finalizing");
}

/// Ranks are started side by side: that the program cannot run shows when other ranks have a process already.
#[test]
fn a_program_that_cannot_run_is_named() {
    let traces = Traces::begin();
    let script = traces.directory().join("no-interpreter");
    fs::write(&script, "#!/no/such/interpreter\n").expect("a file");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).expect("a file of ours");
    let ended = Run::ranks(20, &script, Library::ours()).traced(&traces).run();
    fs::remove_file(&script).expect("a file of ours");
    let said = format!(
        "pmixrun: cannot start {}: No such file or directory (its first line asks for /no/such/interpreter, which is not there)\n",
        script.display()
    );
    assert_eq!((ended.code(), ended.stderr.as_str()), (125, said.as_str()), "{ended}");
    assert!(!ended.left, "processes were left behind: {ended}");
    traces.assert_none_left(&ended);
}

#[test]
fn a_launcher_takes_its_ranks_along_and_the_next_one_its_files() {
    let traces = Traces::begin();
    let script = "\"$0\" -n 4 \"$1\" rank stay for-ever > \"$2\" & launcher=$!\n\
                  while [ $(grep -c staying \"$2\") != 4 ]; do sleep 0.01; done\n\
                  kill -9 $launcher; wait $launcher\n\
                  for pid in $(sed -n 's/^staying //p' \"$2\"); do\n\
                  while [ -e /proc/$pid ] && ! grep -q '^State:.*Z' /proc/$pid/status; do sleep 0.01; done; done";
    let output = traces.own().join("output");
    fs::write(&output, "").expect("a file");
    let ended = Run::new(Path::new("/bin/sh"), Library::ours())
        .traced(&traces)
        .arg("-c")
        .arg(script)
        .arg(pmixrun())
        .arg(program("mortal"))
        .arg(&output)
        .succeed();
    assert_eq!(fs::read_to_string(&output).expect("the output").lines().count(), 4, "{ended}");
    // The next launcher removes its leftovers, and nothing else.
    Run::ranks(1, "true", Library::ours()).traced(&traces).succeed();
    traces.assert_none_left(&ended);
}
