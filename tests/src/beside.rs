use std::fs;

use crate::{Ended, Library, Run, Traces, pmixrun, program};

/// Runs `script` beside a host, as a process that is not one of its ranks. Of the PMIx variables its environment has
/// only the directories. `$PPID` is the host.
pub fn beside_host(server: Library, traces: &Traces, host_args: &str, script: &str) -> Ended {
    beside_host_with(server, traces, &[], host_args, script)
}

/// As [`beside_host`], with variables in the host's environment.
pub fn beside_host_with(
    server: Library,
    traces: &Traces,
    variables: &[(&str, &str)],
    host_args: &str,
    script: &str,
) -> Ended {
    let alone = "TEST_RANK=$PMIX_RANK; unset LD_LIBRARY_PATH $(env | sed -n 's/^\\(PMIX_[A-Z0-9_]*\\)=.*/\\1/p' | grep -v TMPDIR); ";
    let run = Run::new(program("host"), server).traced(traces);
    let ended = variables
        .iter()
        .fold(run, |run, (name, value)| run.env(name, value))
        .args("-n 1 --timeout 100")
        .args(host_args)
        .args("sh -c")
        .arg(format!("{alone}{script}"))
        .run();
    assert_eq!(ended.code(), 0, "{ended}");
    assert!(ended.stderr.lines().any(|line| line.contains(": library ") && server.is_named_in(line)), "{ended}");
    traces.assert_none_left(&ended);
    ended
}

/// Runs `script` beside a job of our launcher, whose ranks have the library `ranks`. `job` are the launcher's options and the ranks'
/// program; `sh $WAIT` is one that waits for the script's end. In the script `$P` is the launcher, `$URI` a file with its address, `$S` the
/// namespace of its server and `$J` that of the job. The last line of the output is the launcher's exit status.
///
/// # Panics
/// If the job leaves something.
pub fn beside_job(ranks: Library, traces: &Traces, job: &str, script: &str) -> Ended {
    beside_job_within("", ranks, traces, job, script)
}

/// As [`beside_job`], where the shell runs `before` with the launcher and its arguments as the last words.
pub fn beside_job_within(before: &str, ranks: Library, traces: &Traces, job: &str, script: &str) -> Ended {
    let (gate, wait) = (traces.own().join("gate"), traces.own().join("wait"));
    fs::write(&gate, "").expect("the gate");
    fs::write(&wait, format!("while test -e {}; do sleep 0.02; done", gate.display())).expect("a script");
    let begin = "while test ! -s $URI; do kill -0 $P || exit 1; sleep 0.02; done; S=$(sed -n '1s/\\.[0-9]*;.*//p' $URI); J=$S.job; ";
    let end = "rm $GATE; wait $P; echo \"job: $?\"";
    let ended = Run::new("/bin/sh", ranks)
        .traced(traces)
        .env("RUN", pmixrun())
        .env("GATE", gate)
        .env("WAIT", wait)
        .env("URI", traces.own().join("uri"))
        .arg("-c")
        .arg(format!("{before} $RUN --report-uri $URI {job} & P=$!; {begin}{script} {end}"))
        .run();
    assert_eq!(ended.code(), 0, "{ended}");
    traces.assert_none_left(&ended);
    ended
}
