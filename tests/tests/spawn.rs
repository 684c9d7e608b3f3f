//! Jobs that ranks and tools start under `pmixrun`: `PMIx_Spawn`, with which MPI programs start children, and several applications.

use pmix_dstore::model::Status;
use pmix_tests::{Ended, Library, Run, Traces, pmixrun, program};

/// Two ranks of `tests/programs/spawns.c` with this library.
fn spawns(library: Library, words: &[&str]) -> Ended {
    spawns_with(library, "", words)
}

/// The same with further options of pmixrun.
fn spawns_with(library: Library, options: &str, words: &[&str]) -> Ended {
    let traces = Traces::begin();
    let run = Run::new(pmixrun(), library).traced(&traces).args("-n 2 --timeout 60").args(options);
    let run = run.arg(program("spawns"));
    let ended = words.iter().fold(run, Run::arg).run();
    traces.assert_none_left(&ended);
    ended
}

/// Both ranks have gone on to their end.
const ENDS: [&str; 2] = ["rank 0: fence 0, finalize 0", "rank 1: fence 0, finalize 0"];

fn with_ends<'a>(lines: &[&'a str]) -> Vec<&'a str> {
    let mut all = lines.to_vec();
    all.extend(ENDS);
    all.sort_unstable();
    all
}

const BOTH: [Library; 2] = [Library::Ours(pmix_tests::Profile::Debug), Library::Stock];

#[test]
fn a_rank_starts_a_job_and_hears_of_its_end() {
    for library in BOTH {
        let ended = spawns(library, &["shell", "echo child $PMIX_RANK $PWD $COLOUR"]);
        let told = ["child 0 /tmp blue", "child 1 /tmp blue", "end of .job1: 0", "spawn: 0 .job1"];
        assert_eq!((ended.code(), ended.sorted_lines()), (0, with_ends(&told)), "{ended}");
        assert_eq!(ended.stderr, "", "{ended}");
    }
}

#[test]
fn two_applications_are_one_job() {
    let ended = spawns(Library::ours(), &["two", "echo child $PMIX_RANK"]);
    let told = ["child 0", "child 1", "child 2", "end of .job1: 0", "spawn: 0 .job1"];
    assert_eq!((ended.code(), ended.sorted_lines()), (0, with_ends(&told)), "{ended}");
}

#[test]
fn children_know_their_parent_and_connect_to_it() {
    for library in BOTH {
        let ended = spawns(library, &["family"]);
        let told = [
            "child 0 of rank 0, spawned: 1",
            "child 1 of rank 0, spawned: 1",
            "child 0: connect 0, disconnect 0",
            "child 1: connect 0, disconnect 0",
            "colour of the second child: 0 green",
            "connect: 0",
            "disconnect: 0",
            "end of .job1: 0",
            "spawn: 0 .job1",
        ];
        assert_eq!((ended.code(), ended.sorted_lines()), (0, with_ends(&told)), "{library:?}: {ended}");
    }
}

#[test]
fn what_cannot_be_started_is_said_and_the_job_goes_on() {
    let ended = spawns(Library::ours(), &["missing"]);
    let statuses = [
        Status::ERR_JOB_EXE_NOT_FOUND,
        Status::ERR_JOB_WDIR_NOT_FOUND,
        Status::ERR_JOB_FAILED_TO_MAP,
        Status::ERR_BAD_PARAM,
        Status::ERR_NOT_SUPPORTED,
    ];
    let told = statuses.map(|status| format!("spawn: {} -", status.0));
    let spawned: Vec<&str> = ended.stdout.lines().filter(|line| line.starts_with("spawn: ")).collect();
    assert_eq!((ended.code(), spawned), (0, told.iter().map(String::as_str).collect()), "{ended}");
    for why in
        ["no-such-program: no such program in PATH", "/no/such/directory: No such file", "elsewhere is another node"]
    {
        assert!(ended.stderr.contains(&format!("spawns no job: {why}")), "{why}: {ended}");
    }
}

#[test]
fn a_spawned_job_is_ended_by_command_and_the_others_go_on() {
    let ended = spawns(Library::ours(), &["kill"]);
    let end = format!("end of .job1: {}", Status::ERR_JOB_KILLED_BY_CMD.0);
    let told = [end.as_str(), "control: 0", "spawn: 0 .job1"];
    assert_eq!((ended.code(), ended.sorted_lines()), (0, with_ends(&told)), "{ended}");
    assert_eq!(ended.stderr, "", "{ended}");
    // Ranks that ignore SIGTERM are killed after the grace period.
    let ended = spawns_with(Library::ours(), "--grace 0.3", &["terminate"]);
    assert_eq!((ended.code(), ended.sorted_lines()), (0, with_ends(&told)), "{ended}");
}

#[test]
fn children_have_the_environment_of_their_parent_and_none_of_its_launcher() {
    let script = "echo child $FOO ${PMI_FD-none} ${OMPI_MCA_btl-none}";
    for kind in ["inherit", "shell"] {
        let ended = spawns_with(Library::ours(), "-x FOO=1 --mca btl self", &[kind, script]);
        assert!(ended.count("child 1 none self") > 0, "{kind}: {ended}");
    }
}

#[test]
fn a_command_line_that_is_too_long_is_refused_and_the_next_one_is_taken() {
    let ended = spawns(Library::ours(), &["long"]);
    let refused = format!("spawn: {} -", Status::ERR_JOB_FAILED_TO_LAUNCH.0);
    let told = [refused.as_str(), "end of .job2: 0", "spawn: 0 .job2", "short"];
    assert_eq!((ended.code(), ended.sorted_lines()), (0, with_ends(&told)), "{ended}");
    assert!(ended.stderr.contains("bytes, and 200000 are the most"), "{ended}");
    // The tag has the number of the name, also after one that was refused.
    let ended = spawns_with(Library::ours(), "--tag-output", &["long"]);
    assert_eq!(ended.count("[job2:0]<stdout>: short"), 1, "{ended}");
}

/// As under mpirun: a rank that fails ends all jobs of the launcher.
#[test]
fn a_child_that_fails_ends_everything() {
    let ended = spawns(Library::ours(), &["fail"]);
    assert_eq!(ended.code(), 3, "{ended}");
    assert!(ended.stderr.contains(".job1 (pid ") && ended.stderr.contains("exited with status 3"), "{ended}");
}

/// More than the server keeps of those that have ended.
#[test]
fn many_jobs_one_after_the_other() {
    let ended = spawns(Library::ours(), &["many", "100"]);
    assert_eq!((ended.code(), ended.count("end of .job")), (0, 100), "{ended}");
    // Jobs that have ended are kept for a while.
    assert_eq!(ended.count("spawned: 100, first known: 0, last known: 1"), 1, "{ended}");
}

/// Open MPI's dynamic programs; each process prints which library it has.
#[test]
fn mpi_programs_spawn_accept_and_publish() {
    for library in BOTH {
        for (ranks, words, processes) in [
            (2, "spawn 2 2", 6),
            (2, "spawn-multiple", 5),
            (4, "rendezvous", 4),
            (4, "meet-by-port", 4),
            (2, "unpublish", 2),
        ] {
            let traces = Traces::begin();
            let run = Run::new(pmixrun(), library).traced(&traces).args(&format!("-n {ranks} --timeout 100"));
            let ended = run.arg(program("mpi")).args(words).run();
            assert_eq!(ended.code(), 0, "{library:?} {words}: {ended}");
            assert_eq!(ended.count(" done"), processes, "{library:?} {words}: {ended}");
            assert_eq!(ended.stderr, "", "{library:?} {words}: {ended}");
            traces.assert_none_left(&ended);
        }
    }
}

#[test]
fn a_colon_separates_applications() {
    let run = Run::new(pmixrun(), Library::ours()).args("-n 2 --timeout 100").arg(program("mpi")).args("apps 3");
    let run = run.args(": -np 1 -x COLOUR=blue").arg(program("mpi")).args("apps 3");
    let ended = run.args(": -n 3 -wdir /tmp").arg(program("mpi")).args("apps 3").run();
    assert_eq!((ended.code(), ended.count(" done")), (0, 6), "{ended}");
    for (application, size) in [(0, 2), (1, 1), (2, 3)] {
        assert_eq!(ended.count(&format!("is of application {application} of 3")), size, "{ended}");
    }
    let shell = |words: &[&str]| words.iter().fold(Run::new(pmixrun(), Library::ours()), Run::arg).run();
    let echo = "echo $PMIX_RANK $COLOUR $PWD";
    let ended =
        shell(&["-n", "1", "sh", "-c", echo, ":", "-n", "1", "-x", "COLOUR=blue", "-wdir", "/tmp", "sh", "-c", echo]);
    assert!(ended.stdout.lines().any(|line| line == "1 blue /tmp"), "{ended}");
}
