//! `pmixrun --restart`: the server is a process of its own, which is killed and started again; ranks and jobs go on (`docs/restart.md`).

use std::thread;
use std::time::Duration;

use nix::sys::signal::Signal;
use pmix_tests::restarting::{Watch, kill_process, server_processes};
use pmix_tests::{Deadline, Ended, Library, Run, Serving, Stopped, Traces, is_large, pmixrun, program};

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
    traces.processes().values().filter(|words| words.starts_with("sleep ")).count()
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

/// A persistent launcher whose server is started again.
fn serving(traces: &Traces, seconds: &str) -> Serving {
    Serving::start(traces, Library::ours(), &["--restart", seconds, "--grace", "1"])
}

/// Kills the server `times` times, each after a while and when the next one is there, while `is_over` does not say so. Not before the jobs
/// run, and their front ends know that: a front end whose job has not started is lost with the server.
fn kill_servers(traces: &Traces, times: usize, is_over: impl Fn() -> bool) -> usize {
    let is_rank = |words: &String| !words.contains("pmix") || words.contains("program-");
    until(|| is_over() || traces.processes().values().any(is_rank));
    thread::sleep(Duration::from_secs(1));
    let mut killed = Vec::new();
    while killed.len() < times && !is_over() {
        thread::sleep(Duration::from_millis(300));
        let found = server_processes(traces).into_iter().find(|pid| !killed.contains(pid));
        if let Some(pid) = found.filter(|_| !is_over()) {
            kill_process(pid);
            killed.push(pid);
        }
    }
    killed.len()
}

/// Runs a front end while the server is killed so many times.
fn front_over_restarts(traces: &Traces, run: Run, times: usize) -> Ended {
    thread::scope(|scope| {
        let front = scope.spawn(|| run.run());
        let killed = kill_servers(traces, times, || front.is_finished());
        let ended = front.join().expect("an end");
        assert_eq!(killed, times, "the job ended too early: {ended}");
        ended
    })
}

/// No line is lost or comes twice, whether the front end is slow or the ranks are, and the exit status is the job's.
#[test]
fn the_output_of_front_ends_is_whole_over_restarts() {
    let line = |rank: usize, at: usize| format!("line {rank} {at}");
    let slow = "i=0; while [ $i -lt 400 ]; do i=$((i+1)); echo line $PMIX_RANK $i; sleep 0.01; done";
    let fast = "for part in 0 1 2 3 4 5 6 7 8 9; do seq -f \"line $PMIX_RANK %.0f\" $((part*20000+1)) $((part*20000+20000)); sleep 0.4; done";
    for (script, lines) in [(slow, 400), (fast, 200_000)] {
        for tag in ["", "--tag-output"] {
            let traces = Traces::begin();
            let serving = serving(&traces, "60");
            let run = serving.front().args(&format!("{tag} -n 2 sh -c")).arg(script);
            let ended = front_over_restarts(&traces, run, 4);
            assert_eq!((ended.code(), ended.stderr.as_str()), (0, ""));
            let of = |rank: usize| {
                let mark = if tag.is_empty() { String::new() } else { format!("[{rank}]<stdout>: ") };
                let own = ended.stdout.lines().filter(move |text| text.contains(&format!("line {rank} ")));
                own.map(move |text| text.strip_prefix(&mark).unwrap_or("no mark").to_owned()).collect::<Vec<_>>()
            };
            for rank in 0..2 {
                let (found, wanted) = (of(rank), (1..=lines).map(|at| line(rank, at)).collect::<Vec<_>>());
                let differs = found.iter().zip(&wanted).position(|(found, wanted)| found != wanted);
                assert_eq!((found.len(), differs), (lines, None), "rank {rank}: {}", ended.stderr);
            }
            serving.end();
            traces.assert_none_left("");
        }
    }
}

/// More than the launcher holds, for a rank that reads slowly at first.
#[test]
fn the_input_of_front_ends_is_whole_over_restarts() {
    let traces = Traces::begin();
    let serving = serving(&traces, "60");
    let input: Vec<u8> = (0..24_000_000_u32).map(|at| (at % 251) as u8).collect();
    let run = serving.front().args("-n 2 sh -c").arg("[ $PMIX_RANK = 0 ] && sleep 4; cksum").input(input.clone());
    let ended = front_over_restarts(&traces, run, 4);
    let alone = Run::new("/usr/bin/cksum", Library::ours()).input(input).run();
    assert_eq!((ended.code(), ended.count(alone.stdout.trim()), ended.count("4294967295 0")), (0, 1, 1), "{ended}");
    serving.end();
    traces.assert_none_left("");
}

/// The job prints and ends while its front end is away; and several at once, whose ranks fence. A front end knows after a moment that its job
/// has started.
#[test]
fn front_ends_hear_of_ends_that_came_meanwhile() {
    let traces = Traces::begin();
    let serving = serving(&traces, "60");
    for number in 0..3 {
        let go = traces.own().join(format!("go-{number}"));
        let script = "until [ -e \"$FILE\" ]; do sleep 0.01; done; head -c 900000 /dev/zero | tr '\\0' x; echo last words; exit 9";
        let run = serving.front().env("FILE", &go).args("-n 1 sh -c").arg(script);
        let is_running = || traces.processes().values().any(|words| words.starts_with("sh -c until"));
        let ended = thread::scope(|scope| {
            let front = scope.spawn(move || run.run());
            until(is_running);
            thread::sleep(Duration::from_millis(500));
            let stopped = Stopped::new(fronts(&traces)[0]);
            server_processes(&traces).into_iter().for_each(kill_process);
            std::fs::write(&go, "").expect("a file");
            until(|| !is_running());
            drop(stopped);
            front.join().expect("an end")
        });
        let expected = (9, 900_000 + "last words\n".len(), true);
        let found = (ended.code(), ended.stdout.len(), ended.stdout.ends_with("xlast words\n"));
        assert_eq!(found, expected, "{}", ended.stderr);
    }
    thread::scope(|scope| {
        let fronts = [3, 4].map(|ranks| {
            let run = serving.front().args(&format!("-n {ranks} --timeout 100")).arg(program("fences"));
            let run = run.args(&"collect:0 all collect:1 all ".repeat(6));
            scope.spawn(move || run.run())
        });
        kill_servers(&traces, 3, || fronts.iter().all(thread::ScopedJoinHandle::is_finished));
        for front in fronts {
            let ended = front.join().expect("an end");
            assert_eq!(ended.code(), 0, "{ended}");
        }
    });
    serving.end();
    traces.assert_none_left("");
}

/// A front end that is stopped does not say that it has heard of the end of its job. The launcher does not wait for it when it is to end.
#[test]
fn a_launcher_ends_without_the_word_of_a_front_end_that_is_stopped() {
    let traces = Traces::begin();
    let serving = serving(&traces, "600");
    let run = serving.front().args("-n 1 sleep 2");
    let ended = thread::scope(|scope| {
        let front = scope.spawn(move || run.run());
        until(|| sleeping(&traces) == 1);
        // The front end is to know that the job has started.
        thread::sleep(Duration::from_millis(500));
        let stopped = Stopped::new(fronts(&traces)[0]);
        until(|| sleeping(&traces) == 0);
        serving.signal(Signal::SIGTERM);
        let stat = format!("/proc/{}/stat", serving.pid());
        until(|| std::fs::read_to_string(&stat).is_ok_and(|stat| stat.contains(") Z ")));
        drop(stopped);
        front.join().expect("an end")
    });
    // The launcher may take the signal before the end of the rank.
    let outcomes = [(0, ""), (143, "pmixrun: SIGTERM: the persistent pmixrun ends\n")];
    assert!(outcomes.contains(&(ended.code(), ended.stderr.as_str())), "{ended}");
    assert_eq!(serving.wait(), Some(0));
    traces.assert_none_left(&ended);
}

/// The processes of front ends.
fn fronts(traces: &Traces) -> Vec<u32> {
    traces.processes().into_iter().filter(|(_, words)| words.contains("--dvm")).map(|(pid, _)| pid).collect()
}

/// A front end that does not reconnect, and one whose launcher is gone.
#[test]
fn jobs_end_without_their_front_ends_and_front_ends_without_their_launcher() {
    let traces = Traces::begin();
    let serving_for_a_second = serving(&traces, "1");
    let said = traces.own().join("serving.err");
    thread::scope(|scope| {
        let front = scope.spawn(|| serving_for_a_second.front().args("-n 2 sleep 600").run());
        until(|| sleeping(&traces) == 2);
        thread::sleep(Duration::from_millis(500));
        // The server first: it is not to tell of the front end's end.
        server_processes(&traces).into_iter().chain(fronts(&traces)).for_each(kill_process);
        assert_eq!(front.join().expect("an end").code(), 137);
    });
    until(|| sleeping(&traces) == 0);
    let told = std::fs::read_to_string(&said).expect("a file");
    assert!(told.contains("was killed by signal 9 (SIGKILL); starting it again"), "{told}");
    serving_for_a_second.end();
    let serving = serving(&traces, "60");
    let begun = std::time::Instant::now();
    let ended = thread::scope(|scope| {
        let front = scope.spawn(|| serving.front().args("-n 1 sleep 600").run());
        until(|| sleeping(&traces) == 1);
        // The front end is to know that the job has started.
        thread::sleep(Duration::from_millis(500));
        kill_process(serving.pid());
        front.join().expect("an end")
    });
    assert_eq!(ended.code(), 1, "{ended}");
    assert_eq!(ended.stderr, "pmixrun: the persistent pmixrun is gone, and with it the job\n", "{ended}");
    assert!(begun.elapsed().as_secs() < 50, "it waits no minute for a launcher that is gone: {ended}");
    drop(serving);
    traces.assert_none_left(&ended);
}
