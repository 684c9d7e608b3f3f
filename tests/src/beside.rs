use crate::{Ended, Library, Run, Traces, program};

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
