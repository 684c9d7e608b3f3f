//! `pmixrun --restart`: the server is a process of its own, which is killed and started again; ranks and jobs go on (`docs/restart.md`).

use std::thread;
use std::time::Duration;

use pmix_tests::restarting::{Watch, kill_process, server_processes};
use pmix_tests::{Deadline, Ended, Library, Run, Serving, Traces, is_large, pmixrun, program};

/// A launcher.
fn launcher(traces: &Traces, options: &str) -> Run {
    Run::new(pmixrun(), Library::ours()).traced(traces).args(options)
}

/// A job of `size` ranks of the program `restart`, which find the server's process in a file.
fn launched(traces: &Traces, size: usize, step: &str) -> Ended {
    let watch = Watch::begin(traces);
    let wait = "until [ -e \"$HOST_SERVER\" ]; do sleep 0.01; done; exec \"$@\"";
    let run = launcher(traces, &format!("--restart 60 --timeout 100 -n {size} sh -c")).arg(wait).arg("sh");
    run.arg(program("restart")).args(step).env("HOST_SERVER", &watch.file).run()
}

/// Asserts that all ranks have found what they expect, that `kills` servers were killed, and that nothing is left.
fn assert_well(traces: &Traces, ended: &Ended, size: usize, kills: usize, step: &str) {
    assert_eq!((ended.code(), ended.count(" done")), (0, size), "{step}: {ended}");
    assert_eq!(
        ended.stderr.matches("was killed by signal 9 (SIGKILL); starting it again").count(),
        kills,
        "{step}: {ended}"
    );
    let taken_over = ended.stderr.matches("taken over from a server that was killed").count();
    assert!((1..=kills).contains(&taken_over), "{step}: {ended}");
    for complaint in ["not taken over", "panicked", "lost the connection", "refused", "cannot go on"] {
        assert!(!ended.stderr.contains(complaint), "{step}: {ended}");
    }
    traces.assert_none_left(ended);
}

#[test]
fn ranks_go_on_when_the_server_of_pmixrun_is_killed_at_any_step() {
    for step in ["init", "fences", "commit", "ended", "half", "get", "event", "puts", "reads 1", "busy"] {
        let traces = Traces::begin();
        let ended = launched(&traces, 4, step);
        assert_well(&traces, &ended, 4, 1, step);
    }
}

#[test]
fn fences_complete_while_the_server_of_pmixrun_is_killed_again_and_again() {
    let kills = if is_large() { 100 } else { 8 };
    let traces = Traces::begin();
    let ended = launched(&traces, 4, &format!("storm {kills}"));
    assert_well(&traces, &ended, 4, kills, "storm");
}

/// What was published before is found, and ranks start jobs.
#[test]
fn pmixrun_answers_the_next_server_as_the_first_one() {
    let traces = Traces::begin();
    let ended = launched(&traces, 3, "services");
    assert_eq!(ended.count("a spawned rank has begun"), 2, "{ended}");
    assert_well(&traces, &ended, 3, 1, "services");
}

/// The variable of the launcher's environment does not count beside its option.
#[test]
fn the_option_counts_whatever_the_environment_says() {
    for value in ["0", "1", "nonsense"] {
        let traces = Traces::begin();
        let run = launcher(&traces, "--restart 30 -n 1 sh -c").arg("echo \"restart=$PMIX_DSTORE_RESTART.\"");
        let ended = run.env("PMIX_DSTORE_RESTART", value).run();
        assert_eq!((ended.code(), ended.stdout.as_str()), (0, "restart=30.\n"), "{value}: {ended}");
        traces.assert_none_left(&ended);
    }
    for wrong in ["0", "-1", "soon", "31536001"] {
        let ended = Run::new(pmixrun(), Library::ours()).args(&format!("--restart={wrong} -n 1 true")).run();
        assert_eq!(ended.code(), 2, "{ended}");
        assert!(ended.stderr.contains("the seconds for which ranks wait go from 1 to 31536000"), "{ended}");
    }
    let ended = Run::new(pmixrun(), Library::ours()).args("--server-process 1").run();
    assert_eq!(ended.code(), 125, "{ended}");
    assert!(ended.stderr.contains("--server-process is for pmixrun itself: its parent is no pmixrun"), "{ended}");
}

/// Waits until `is_there`, while the launcher runs.
fn until(mut is_there: impl FnMut() -> bool) {
    let mut deadline = Deadline::new(Duration::from_secs(60));
    while !is_there() {
        assert!(deadline.pause(), "it does not come");
    }
}

/// How many ranks of `sleep` there are.
fn sleeping(traces: &Traces) -> usize {
    traces.processes().values().filter(|words| words.starts_with("sleep 600")).count()
}

/// The processes of servers while a job of two ranks runs, and how it ends when `end` was done with the launcher's process.
fn while_it_runs<T>(options: &str, end: impl FnOnce(&Traces, u32) -> T) -> (Traces, Ended, T) {
    let traces = Traces::begin();
    let (ended, done) = thread::scope(|scope| {
        let run = launcher(&traces, options).args("--grace 1 -n 2 sleep 600");
        let ended = scope.spawn(|| run.run());
        until(|| sleeping(&traces) == 2 || ended.is_finished());
        let is_launcher = |words: &str| words.contains("pmixrun") && words.contains("sleep 600");
        // The watchdog has the same command line, and a later number.
        let found = traces.processes().into_iter().find(|(_, words)| is_launcher(words));
        let done = end(&traces, found.expect("a launcher").0);
        (ended.join().expect("an end"), done)
    });
    (traces, ended, done)
}

#[test]
fn the_server_is_a_process_of_its_own_with_the_option_alone() {
    for (options, count) in [("", 0), ("--restart 60", 1)] {
        let count_and_end = |traces: &Traces, launcher: u32| {
            let found = server_processes(traces).len();
            let pid = nix::unistd::Pid::from_raw(launcher.cast_signed());
            nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).expect("it runs");
            found
        };
        let (traces, ended, found) = while_it_runs(options, count_and_end);
        assert_eq!((ended.code(), found), (143, count), "{options}: {ended}");
        traces.assert_none_left(&ended);
    }
}

/// Neither ranks nor the server outlive the launcher, and its directory goes.
#[test]
fn pmixrun_that_is_killed_ends_its_ranks_and_its_server() {
    let (traces, ended, ()) = while_it_runs("--restart 60", |_, launcher| kill_process(launcher));
    assert_eq!(ended.code(), 137, "{ended}");
    traces.assert_none_left(&ended);
}

/// A server that is killed as soon as it is there.
#[test]
fn pmixrun_gives_up_servers_that_achieve_nothing() {
    let kill_each = |traces: &Traces, _| {
        let mut deadline = Deadline::new(Duration::from_secs(60));
        while sleeping(traces) > 0 && deadline.pause() {
            server_processes(traces).into_iter().for_each(kill_process);
        }
    };
    let (traces, ended, ()) = while_it_runs("--restart 60", kill_each);
    assert_eq!(ended.code(), 1, "{ended}");
    let given_up = "was killed by signal 9 (SIGKILL), as 10 before it in a row that had achieved nothing; it is not started again; ending the ranks that still run (2)";
    assert_eq!(
        (ended.stderr.matches("starting it again, attempt ").count(), ended.stderr.matches(given_up).count()),
        (10, 1),
        "{ended}"
    );
    traces.assert_none_left(&ended);
}

/// The jobs of front ends end with their connections; others are started as before.
#[test]
fn a_persistent_pmixrun_goes_on_without_the_front_ends_of_its_former_server() {
    let traces = Traces::begin();
    let serving = Serving::start(&traces, Library::ours(), &["--restart", "60", "--grace", "1"]);
    for _ in 0..3 {
        let ended = thread::scope(|scope| {
            let front = scope.spawn(|| serving.front().args("-n 2 sleep 600").run());
            until(|| sleeping(&traces) == 2);
            // The front end is to know that its job has started.
            thread::sleep(Duration::from_secs(1));
            server_processes(&traces).into_iter().for_each(kill_process);
            front.join().expect("an end")
        });
        assert_eq!(ended.code(), 1, "{ended}");
        assert!(ended.stderr.ends_with("pmixrun: the persistent pmixrun is gone, and with it the job\n"), "{ended}");
        until(|| sleeping(&traces) == 0);
        let ended = serving.front().args("-n 3 --timeout 100").arg(program("fences")).args("collect all").run();
        assert_eq!((ended.code(), ended.count(" done")), (0, 3), "{ended}");
    }
    serving.end();
    traces.assert_none_left("");
}
