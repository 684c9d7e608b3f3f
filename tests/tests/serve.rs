//! The persistent `pmixrun`: jobs that front ends start in it, one after the other and at once; failures, ends, and what is left.

use std::fs;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, geteuid};
use pmix_tests::{Deadline, Ended, Library, Run, Serving, Traces, left_out, pmixrun, program};

/// A persistent pmixrun with our library in the ranks.
fn serving(traces: &Traces) -> Serving {
    Serving::start(traces, Library::ours(), &["--grace", "1"])
}

/// A shell command as so many ranks.
fn shell(serving: &Serving, ranks: u32, script: &str) -> Run {
    serving.front().args(&format!("-n {ranks} sh -c")).arg(script)
}

/// Waits until a file is there.
fn await_file(path: &std::path::Path) {
    let mut deadline = Deadline::new(Duration::from_secs(60));
    while !path.exists() {
        assert!(deadline.pause(), "{} does not come", path.display());
    }
}

/// The names of the jobs that it lists, each once.
fn jobs(serving: &Serving) -> Vec<String> {
    let listed = serving.pmixctl(&["ps", "--json"]).run();
    let json: serde_json::Value = serde_json::from_str(&listed.stdout).unwrap_or_else(|_| panic!("{listed}"));
    let ranks = json["ranks"].as_array().cloned().unwrap_or_default();
    let mut names: Vec<String> = ranks.iter().filter_map(|rank| rank["nspace"].as_str().map(str::to_owned)).collect();
    names.dedup();
    names
}

#[test]
fn a_job_is_as_without_it() {
    let traces = Traces::begin();
    let serving = serving(&traces);
    let script = "echo out $PMIX_RANK $COLOUR $PWD; echo err $PMIX_RANK >&2";
    let front = |options: &str| serving.front().args(options).args("-n 2 -x COLOUR=blue --wdir /tmp sh -c").arg(script);
    let ended = front("").run();
    assert_eq!((ended.code(), ended.sorted_lines()), (0, vec!["out 0 blue /tmp", "out 1 blue /tmp"]), "{ended}");
    let mut errors: Vec<&str> = ended.stderr.lines().collect();
    errors.sort_unstable();
    assert_eq!(errors, ["err 0", "err 1"], "{ended}");
    let ended = front("--tag-output").run();
    assert_eq!(ended.sorted_lines(), ["[0]<stdout>: out 0 blue /tmp", "[1]<stdout>: out 1 blue /tmp"], "{ended}");
    // Several applications, and the environment of the front end over that of the server.
    let run = serving.front().env("COLOUR", "red").args("-n 1 sh -c").arg("echo $PMIX_RANK $COLOUR");
    let ended = run.args(": -n 1 -x COLOUR=green sh -c").arg("echo $PMIX_RANK $COLOUR").run();
    assert_eq!((ended.code(), ended.sorted_lines()), (0, vec!["0 red", "1 green"]), "{ended}");
    let input: Vec<u8> = (0..3_000_000_u32).map(|at| (at % 251) as u8).collect();
    let ended = shell(&serving, 2, "cksum").input(input.clone()).run();
    let alone = Run::new("/usr/bin/cksum", Library::ours()).input(input).run();
    assert_eq!((ended.code(), ended.count(alone.stdout.trim()), ended.count("4294967295 0")), (0, 1, 1), "{ended}");
    // Files, as under pmixrun itself.
    let uri = traces.own().join("uri");
    let other = Serving::start(&traces, Library::ours(), &["--report-uri", uri.to_str().expect("a path")]);
    for dvm in [
        format!("file:{}", uri.display()),
        fs::read_to_string(&uri).expect("a file").lines().next().expect("a line").to_owned(),
    ] {
        let run = Run::new(pmixrun(), Library::ours()).traced(&traces).arg("--dvm").arg(dvm);
        let ended = run.args("-n 1 echo well").run();
        assert_eq!((ended.code(), ended.stdout.as_str()), (0, "well\n"), "{ended}");
    }
    other.end();
    serving.end();
    traces.assert_none_left("");
}

#[test]
fn mpi_programs_run_in_it_and_start_others() {
    let traces = Traces::begin();
    for library in [Library::ours(), Library::Stock] {
        let serving = Serving::start(&traces, library, &[]);
        for (ranks, words, processes) in [(4, "collectives", 4), (2, "spawn 2 2", 6), (4, "rendezvous", 4)] {
            let ended =
                serving.front().args(&format!("-n {ranks} --timeout 100")).arg(program("mpi")).args(words).run();
            assert_eq!((ended.code(), ended.count(" done")), (0, processes), "{library:?} {words}: {ended}");
            assert_eq!(ended.stderr, "", "{library:?} {words}: {ended}");
        }
        serving.end();
    }
    traces.assert_none_left("");
}

/// The jobs of two front ends meet by a published name.
#[test]
fn two_jobs_meet_by_a_published_name() {
    let traces = Traces::begin();
    let serving = serving(&traces);
    let file = traces.own().join("port");
    let side = |word: &str| serving.front().args("-n 2 --timeout 100").arg(program("mpi")).arg(word).arg(&file).run();
    let (served, visited) = thread::scope(|scope| {
        let served = scope.spawn(|| side("serve"));
        let visited = scope.spawn(|| side("visit"));
        (served.join().expect("an end"), visited.join().expect("an end"))
    });
    for ended in [served, visited] {
        assert_eq!((ended.code(), ended.count(" done")), (0, 2), "{ended}");
    }
    serving.end();
    traces.assert_none_left("");
}

#[test]
fn the_first_failure_decides_and_other_jobs_go_on() {
    let traces = Traces::begin();
    let serving = serving(&traces);
    let (begun, go) = (traces.own().join("begun"), traces.own().join("go"));
    let good_script =
        format!("touch {}; until [ -e {} ]; do sleep 0.05; done; echo well", begun.display(), go.display());
    thread::scope(|scope| {
        let good = scope.spawn(|| shell(&serving, 1, &good_script).run());
        await_file(&begun);
        let ended = shell(&serving, 3, "if [ $PMIX_RANK = 1 ]; then exit 7; fi; sleep 600").run();
        assert_eq!(ended.code(), 7, "{ended}");
        let said = ended.stderr.lines().next().unwrap_or_default();
        assert!(said.starts_with("pmixrun: rank 1 (pid ") && said.contains("exited with status 7; ending"), "{ended}");
        let ended = shell(&serving, 1, "kill -SEGV $$").run();
        assert_eq!(ended.code(), 139, "{ended}");
        let ended = serving.front().args("-n 1 --timeout 0.3 sleep 600").run();
        assert_eq!(ended.code(), 124, "{ended}");
        assert!(ended.stderr.contains("the job has run for 0.3 s, which is its limit"), "{ended}");
        let ended = serving.front().args("-n 2 --timeout 100").arg(program("mpi")).args("abort 9").run();
        assert_eq!(ended.code(), 9, "{ended}");
        assert_eq!(jobs(&serving).len(), 1, "one runs");
        fs::write(&go, "").expect("a file");
        let ended = good.join().expect("an end");
        assert_eq!((ended.code(), ended.stdout.as_str(), ended.stderr.as_str()), (0, "well\n", ""), "{ended}");
    });
    // What cannot be started is told, and nothing is left of it.
    let ended = serving.front().args("-n 1 ./no-such-program").run();
    assert_eq!(ended.code(), 125, "{ended}");
    assert!(ended.stderr.contains("no-such-program"), "{ended}");
    let script = traces.own().join("script");
    fs::write(&script, "#!/no/such/shell\n").expect("a file");
    let mut rights = fs::metadata(&script).expect("a file").permissions();
    std::os::unix::fs::PermissionsExt::set_mode(&mut rights, 0o755);
    fs::set_permissions(&script, rights).expect("a file");
    let ended = serving.front().args("-n 2").arg(&script).run();
    assert_eq!(ended.code(), 125, "{ended}");
    assert!(ended.stderr.contains("starts no job: PMIX_ERR_JOB_FAILED_TO_LAUNCH"), "{ended}");
    let ended = serving.front().args("-n 1 echo well").run();
    assert_eq!((ended.code(), ended.stdout.as_str()), (0, "well\n"), "{ended}");
    serving.end();
    traces.assert_none_left("");
}

#[test]
fn what_a_job_leaves_behind_ends_with_it() {
    let traces = Traces::begin();
    let serving = serving(&traces);
    let idle = serving.holdings();
    // One in a session of its own, which ignores SIGTERM.
    let ended = shell(&serving, 1, "setsid sh -c 'trap \"\" TERM; sleep 600' & exit 0").run();
    assert_eq!(ended.code(), 0, "{ended}");
    assert_eq!(serving.holdings().processes, idle.processes);
    serving.end();
    traces.assert_none_left("");
}

#[test]
fn a_job_is_listed_and_ended_by_its_name() {
    let traces = Traces::begin();
    let serving = serving(&traces);
    assert_eq!(serving.pmixctl(&["ps"]).run().stdout, "no ranks\n");
    let begun = traces.own().join("begun");
    thread::scope(|scope| {
        let job = scope.spawn(|| shell(&serving, 2, &format!("touch {}; exec sleep 600", begun.display())).run());
        await_file(&begun);
        let names = jobs(&serving);
        let [name] = &names[..] else { panic!("{names:?}") };
        let killed = serving.pmixctl(&["kill", name]).run();
        assert_eq!(killed.code(), 0, "{killed}");
        let ended = job.join().expect("an end");
        assert_eq!(ended.code(), 137, "{ended}");
        assert!(ended.stderr.contains("PMIX_JOB_CTRL_KILL by "), "{ended}");
        // It is not listed any more, and known by its name.
        assert_eq!(jobs(&serving), Vec::<String>::new());
        let known = serving.pmixctl(&["ps", name]).run();
        assert!(known.stdout.contains("killed"), "{known}");
    });
    serving.end();
    traces.assert_none_left("");
}

#[test]
fn signals_to_the_front_end_end_its_job() {
    let traces = Traces::begin();
    let serving = serving(&traces);
    for (signal, code) in [(Signal::SIGTERM, Some(143)), (Signal::SIGINT, Some(130)), (Signal::SIGKILL, None)] {
        let begun = traces.own().join(format!("begun-{signal}"));
        let script = format!("touch {}; exec sleep 600", begun.display());
        let mut command = Command::new(pmixrun());
        command
            .args(["--dvm", &serving.pid().to_string(), "-n", "2", "sh", "-c", &script])
            .env("TMPDIR", traces.directory());
        let mut front = command.stdin(Stdio::null()).stderr(Stdio::null()).spawn().expect("pmixrun");
        await_file(&begun);
        kill(Pid::from_raw(front.id().cast_signed()), signal).expect("it runs");
        assert_eq!(front.wait().expect("a child").code(), code, "{signal}");
        let mut deadline = Deadline::new(Duration::from_secs(60));
        while !jobs(&serving).is_empty() {
            assert!(deadline.pause(), "{signal}: {:?}", jobs(&serving));
        }
    }
    serving.end();
    traces.assert_none_left("");
}

#[test]
fn a_front_end_whose_launcher_does_not_answer_ends_at_a_signal() {
    let traces = Traces::begin();
    let serving = serving(&traces);
    serving.signal(Signal::SIGSTOP);
    let mut command = Command::new(pmixrun());
    command.args(["--dvm", &serving.pid().to_string(), "-n", "1", "sleep", "600"]).env("TMPDIR", traces.directory());
    let mut front = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().expect("pmixrun");
    // It reads its signals from a descriptor before it asks.
    let pid = Pid::from_raw(front.id().cast_signed());
    let mut deadline = Deadline::new(Duration::from_secs(60));
    while !blocks(pid, Signal::SIGTERM) {
        assert!(deadline.pause(), "it does not start");
    }
    kill(pid, Signal::SIGTERM).expect("it runs");
    let mut deadline = Deadline::new(Duration::from_secs(60));
    while front.try_wait().expect("a child").is_none() {
        if !deadline.pause() {
            front.kill().expect("it runs");
        }
    }
    let ended = front.wait_with_output().expect("a child");
    let stderr = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(143), "{stderr}");
    assert!(stderr.starts_with("pmixrun: SIGTERM: the persistent pmixrun has not answered yet"), "{stderr}");
    serving.signal(Signal::SIGCONT);
    serving.end();
    traces.assert_none_left("");
}

/// Whether a process blocks a signal.
fn blocks(pid: Pid, signal: Signal) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let mask = status.lines().find_map(|line| line.strip_prefix("SigBlk:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).expect("a mask");
    mask & 1 << (signal as i32 - 1) != 0
}

/// Runs a job in each of two front ends, ends the server, and returns how they have ended.
fn ended_by(traces: &Traces, serving: Serving, end: impl FnOnce(&Serving)) -> (Vec<Ended>, Option<i32>) {
    let fronts: Vec<_> = (0..2)
        .map(|number| {
            let begun = traces.own().join(format!("job-{number}"));
            let run = shell(&serving, 2, &format!("touch {}; exec sleep 600", begun.display()));
            (begun, thread::spawn(|| run.run()))
        })
        .collect();
    fronts.iter().for_each(|(begun, _)| await_file(begun));
    end(&serving);
    let code = serving.wait();
    (fronts.into_iter().map(|(_, front)| front.join().expect("an end")).collect(), code)
}

#[test]
fn the_end_of_the_server_ends_all_jobs() {
    for by_tool in [false, true] {
        let traces = Traces::begin();
        let serving = serving(&traces);
        let (ended, code) = ended_by(&traces, serving, |serving| match by_tool {
            false => serving.signal(Signal::SIGTERM),
            true => {
                let asked = serving.pmixctl(&["control", "--terminate"]).run();
                assert_eq!(asked.code(), 0, "{asked}");
            }
        });
        assert_eq!(code, Some(0));
        for ended in ended {
            assert_eq!(ended.code(), 143, "{ended}");
            assert!(ended.stderr.contains("the persistent pmixrun ends"), "{ended}");
        }
        traces.assert_none_left("");
    }
}

#[test]
fn a_killed_server_leaves_nothing() {
    let traces = Traces::begin();
    let serving = serving(&traces);
    let (ended, _) = ended_by(&traces, serving, |serving| serving.signal(Signal::SIGKILL));
    for ended in ended {
        // A rank may run before its front end has learnt of it.
        assert!([1, 125].contains(&ended.code()), "{ended}");
        assert!(ended.stderr.contains("the persistent pmixrun is gone"), "{ended}");
    }
    traces.assert_none_left("");
}

/// The process of a rank's parent.
fn parent_of(pid: &str) -> i32 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("it runs");
    stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(1)?.parse().ok()).expect("a number")
}

#[test]
fn a_killed_watchdog_ends_its_job_alone() {
    let traces = Traces::begin();
    let serving = serving(&traces);
    let pids = traces.own().join("pids");
    let script = format!("setsid sleep 600 & echo $$ >{0}.new; mv {0}.new {0}; wait", pids.display());
    thread::scope(|scope| {
        let job = scope.spawn(|| shell(&serving, 1, &script).run());
        await_file(&pids);
        // The launcher answers when it has heard of the start.
        assert_eq!(jobs(&serving).len(), 1);
        let watchdog = parent_of(fs::read_to_string(&pids).expect("a file").trim());
        kill(Pid::from_raw(watchdog), Signal::SIGKILL).expect("it runs");
        let ended = job.join().expect("an end");
        assert_eq!(ended.code(), 1, "{ended}");
        assert!(ended.stderr.contains(&format!("process {watchdog}, which started the ranks, is gone")), "{ended}");
    });
    let ended = serving.front().args("-n 1 echo well").run();
    assert_eq!((ended.code(), ended.stdout.as_str()), (0, "well\n"), "{ended}");
    serving.end();
    traces.assert_none_left("");
}

#[test]
fn another_user_is_refused() {
    if !geteuid().is_root() {
        return left_out("root", "only root can be another user");
    }
    let traces = Traces::begin();
    let uri = traces.own().join("uri");
    let serving = Serving::start(&traces, Library::ours(), &["--report-uri", uri.to_str().expect("a path")]);
    let address = fs::read_to_string(&uri).expect("a file");
    let run = Run::new("setpriv", Library::ours()).args("--reuid 20002 --regid 20002 --clear-groups").arg(pmixrun());
    let ended = run.arg("--dvm").arg(address.lines().next().expect("a line")).args("-n 1 echo never").run();
    assert_eq!((ended.code(), ended.stdout.as_str()), (125, ""), "{ended}");
    assert!(ended.stderr.contains("cannot reach the persistent pmixrun"), "{ended}");
    serving.end();
    traces.assert_none_left("");
}

/// Output that nobody reads for a while is neither lost nor kept in memory.
#[test]
fn a_slow_reader_loses_nothing() {
    let traces = Traces::begin();
    let serving = serving(&traces);
    let before = serving.holdings();
    let line = format!(
        "{} --dvm {} -n 2 sh -c 'head -c 30000000 /dev/zero' | {{ sleep 1; wc -c; }}",
        pmixrun().display(),
        serving.pid()
    );
    let ended = Run::new("/bin/sh", Library::ours()).traced(&traces).arg("-c").arg(line).run();
    assert_eq!(ended.stdout.trim(), "60000000", "{ended}");
    let after = serving.holdings();
    assert!(after.memory < before.memory + (8 << 10), "{before:?} {after:?}");
    // A reader that closes the output ends the job.
    let line = format!("{} --dvm {} -n 1 yes | head -n 1; echo", pmixrun().display(), serving.pid());
    let ended = Run::new("/bin/sh", Library::ours()).traced(&traces).arg("-c").arg(line).run();
    assert_eq!(ended.stdout, "y\n\n", "{ended}");
    serving.end();
    traces.assert_none_left("");
}

#[test]
fn jobs_at_once() {
    let traces = Traces::begin();
    let serving = serving(&traces);
    let fronts: Vec<_> =
        (0..12).map(|number| (number, shell(&serving, 2, &format!("echo {number}; exit {number}")))).collect();
    let fronts: Vec<_> = fronts.into_iter().map(|(number, run)| (number, thread::spawn(|| run.run()))).collect();
    for (number, front) in fronts {
        let ended = front.join().expect("an end");
        assert_eq!(ended.code(), number, "{ended}");
        assert!(ended.stdout.lines().all(|line| line == number.to_string()) && !ended.stdout.is_empty(), "{ended}");
    }
    serving.end();
    traces.assert_none_left("");
}

/// Values that ranks publish for their job go with it, and those of the session stay: `make soak PART=serve` has more jobs.
#[test]
fn nothing_grows_with_the_jobs() {
    let traces = Traces::begin();
    let serving = serving(&traces);
    let run = |jobs: u32| {
        for _ in 0..jobs {
            let ended =
                serving.front().args("-n 2 --timeout 100 --pset set").arg(program("mpi")).arg("collectives").run();
            assert_eq!((ended.code(), ended.count(" done")), (0, 2), "{ended}");
        }
        serving.holdings()
    };
    let first = run(10);
    run(40);
    let last = serving.settled(&first);
    assert!(!last.is_more_than(&first), "{first:?} {last:?}");
    // The records of 40 jobs, and what the allocator does with the rest.
    assert!(last.memory <= first.memory + 4096, "{first:?} {last:?}");
    serving.end();
    traces.assert_none_left("");
}
