//! Starting and stopping the library many times in one process leaks nothing.

use pmix_tests::{Ended, Library, Run, is_large, program, times};

/// The counts after `when`, without the segments: how many are mapped depends on how the server merged them.
fn counts(ended: &Ended, when: &str) -> Vec<(Vec<String>, u32)> {
    let lines = ended.stdout.lines().filter_map(|line| line.strip_prefix(when));
    lines
        .map(|line| {
            let (segments, others): (Vec<_>, Vec<_>) = line
                .trim_start_matches(": ")
                .split(", ")
                .map(str::to_owned)
                .partition(|part| part.contains("segments"));
            let segments = segments[0].split(' ').next().and_then(|number| number.parse().ok());
            (others, segments.expect("a number of segments"))
        })
        .collect()
}

fn assert_nothing_grew(ended: &Ended, processes: usize) {
    let (mut before, mut after) = (counts(ended, "before"), counts(ended, "after"));
    assert_eq!((before.len(), after.len()), (processes, processes), "{ended}");
    before.sort();
    after.sort();
    for ((before, _), (after, segments)) in before.iter().zip(&after) {
        assert_eq!(before, after, "{ended}");
        // Segments of one cycle: the job, the directory page, and a few of published values.
        assert!(*segments < 12, "{ended}");
    }
}

#[test]
fn a_client_starts_and_stops() {
    for library in [Library::ours(), Library::Stock] {
        let run = Run::ranks(2, program("cycle"), library);
        assert_nothing_grew(&run.args("client 30").succeed(), 2);
    }
    // Debian's server is left out. It may count a connection that has just ended as a participant of the next cycle's
    // fence, and then returns PARTIAL_SUCCESS to all ranks, including stock ones.
}

#[test]
fn a_server_starts_and_stops() {
    // Debian's 4.2.2 aborts in its second cycle.
    let directory = tempfile::tempdir().expect("a temporary directory");
    let run = Run::new(program("cycle"), Library::ours()).env("TMPDIR", directory.path());
    let ended = run.args("server 30").succeed();
    let grown = counts(&ended, "after");
    assert_eq!(grown, counts(&ended, "before"), "{ended}");
    assert_eq!(grown[0].1, 0, "{ended}");
    let left = std::fs::read_dir(directory.path()).expect("the directory").count();
    assert_eq!(left, 0, "files are left: {ended}");
}

#[test]
fn setup_fork_works_while_the_server_is_busy() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let run = Run::new(program("cycle"), Library::ours()).env("TMPDIR", directory.path());
    let ended = run.args(&format!("fork {}", times(300, 5000))).succeed();
    assert_eq!(ended.count(" children done"), 1, "{ended}");
}

/// A forked child has none of the server's threads, so its calls must not wait for one. The thread that writes large
/// segments exists as long as the server.
#[test]
fn a_server_forks_while_large_segments_are_written() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let run = Run::new(program("cycle"), Library::ours()).env("TMPDIR", directory.path());
    let ended = run.args(&format!("fences {}", times(12, 200))).succeed();
    assert_eq!(ended.count("some children, 1 threads more, 1 threads left"), 1, "{ended}");
    assert_eq!(std::fs::read_dir(directory.path()).expect("the directory").count(), 0, "{ended}");
}

/// The resources that a host of many jobs reports, and its memory in KiB.
fn held(ended: &Ended, when: &str) -> (Vec<String>, u64) {
    let line = ended.stdout.lines().find_map(|line| line.strip_prefix(when));
    let mut held: Vec<String> =
        line.unwrap_or_else(|| panic!("{when}: {ended}")).split(", ").map(str::to_owned).collect();
    let memory = held.pop().and_then(|memory| memory.strip_suffix(" KiB")?.parse().ok());
    (held, memory.expect("a number of KiB"))
}

#[test]
fn a_server_outlives_its_jobs_and_keeps_nothing_of_them() {
    // Debian's 4.2.2 leaves a file for each job.
    let directory = tempfile::tempdir().expect("a temporary directory");
    let run = Run::new(program("cycle"), Library::ours()).env("TMPDIR", directory.path());
    let ended = run.args(&format!("jobs {}", times(1000, 100_000))).within(times(1, 20)).succeed();
    let (early, memory) = held(&ended, "10 %: ");
    for when in ["50 %: ", "100 %: "] {
        let (later, more) = held(&ended, when);
        assert_eq!(later, early, "{ended}");
        assert!(more < memory + 512, "{ended}");
    }
    if is_large() {
        eprint!("{}", ended.stdout);
    }
    let left = std::fs::read_dir(directory.path()).expect("the directory").count();
    assert_eq!(left, 0, "files are left: {ended}");
}
