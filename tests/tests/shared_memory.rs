//! Gets are served from shared memory without system calls, also if mapping is difficult.

use std::fs;

use pmix_tests::{Ended, Library, Profile, Run, pmixrun, program};

fn latency(args: &str) -> Run {
    Run::new(pmixrun(), Library::ours()).args("-n 2 --json").arg(program("latency")).args(args)
}

/// Asserts that both ranks did their Gets through shared memory.
fn assert_shared(ended: &Ended) {
    assert_eq!(ended.count("gets done"), 2, "{ended}");
    let line = ended.stderr.lines().find(|line| line.starts_with('{')).unwrap_or_default();
    let report: serde_json::Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {ended}"));
    assert_eq!(report["clients_shared_memory"], 2, "{ended}");
    assert_eq!(report["clients_socket_only"], 0, "{ended}");
    assert_eq!(report["gets_over_socket"], 0, "{ended}");
}

/// The system calls between the marks of the traced program.
fn traced_calls(args: &str) -> Vec<String> {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let trace = directory.path().join("trace");
    Run::new(pmixrun(), Library::ours())
        .args("-n 1 strace -f -o")
        .arg(&trace)
        .arg(program("latency"))
        .args(args)
        .succeed();
    let text = fs::read_to_string(&trace).expect("strace has written");
    let between = text.lines().skip_while(|line| !line.contains("close(-70001)")).skip(1);
    let calls: Vec<String> = between.take_while(|line| !line.contains("close(-70002)")).map(str::to_owned).collect();
    assert!(text.contains("close(-70001)") && text.contains("close(-70002)"), "no marks in the trace:\n{text}");
    calls
}

#[test]
fn ten_thousand_gets_make_no_system_call() {
    assert_eq!(traced_calls("--gets 10000"), Vec::<String>::new());
}

#[test]
fn a_planted_system_call_is_noticed() {
    let calls = traced_calls("--gets 1000 --plant");
    assert_eq!(calls.len(), 1, "{calls:?}");
    assert!(calls[0].contains("getppid()"), "{calls:?}");
}

#[test]
fn blocking_calls_alone_start_no_thread() {
    let ended = latency("--gets 100 --threads").succeed();
    assert_eq!(ended.count(": 1 threads"), 2, "{ended}");
    assert_shared(&ended);
}

#[test]
fn the_server_maps_none_of_its_files() {
    let ended = latency("--gets 100 --occupy").succeed();
    let occupied = |line: &str| line.strip_prefix("occupied ")?.parse::<u32>().ok();
    let counts: Vec<u32> = ended.stdout.lines().filter_map(occupied).collect();
    assert_eq!(counts.len(), 2, "{ended}");
    assert!(counts.iter().all(|count| *count == 0), "whoever cuts a file would end the server: {ended}");
    assert_shared(&ended);
}

#[test]
fn where_address_space_is_short() {
    let script = "ulimit -v 200000; exec \"$0\" --gets 100";
    let ended =
        Run::new(pmixrun(), Library::ours()).args("-n 2 --json sh -c").arg(script).arg(program("latency")).succeed();
    assert_shared(&ended);
}

#[test]
fn where_addresses_are_random_and_where_not() {
    for personality in ["", "setarch --addr-no-randomize"] {
        let ended = Run::new(pmixrun(), Library::ours())
            .args("-n 2 --json")
            .args(personality)
            .arg(program("latency"))
            .args("--gets 100")
            .succeed();
        assert_shared(&ended);
    }
    let random = fs::read_to_string("/proc/sys/kernel/randomize_va_space").unwrap_or_default();
    assert_ne!(random.trim(), "0", "this machine does not randomise addresses: the test says nothing");
}

#[test]
fn between_builds_of_different_optimisation() {
    for library in [Library::Ours(Profile::Debug), Library::Ours(Profile::Release)] {
        let ended = latency("--gets 100").env("LD_LIBRARY_PATH", library.directory()).succeed();
        assert_shared(&ended);
    }
}
