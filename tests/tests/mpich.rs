//! Debian's MPICH under pmixrun, which serves its ranks by PMI-1, and ranks that write to that descriptor what they like.

use pmix_tests::{Ended, Library, Run, Traces, beside_job, left_out, mpich_program, pmixrun};

/// A job of MPICH's ranks; none without MPICH.
fn job(options: &str, args: &str) -> Option<Run> {
    let Some(program) = mpich_program() else {
        left_out("packages", "libmpich12, whose ranks speak PMI-1, is not installed");
        return None;
    };
    Some(Run::new(pmixrun(), Library::ours()).args(options).arg(program).args(args))
}

fn assert_done(ended: &Ended, size: usize) {
    assert_eq!((ended.count(&format!(" of {size} done")), ended.count("FAIL")), (size, 0), "{ended}");
    assert!(!ended.stderr.contains("pmix"), "{ended}");
}

#[test]
fn ranks_of_mpich_are_one_job() {
    for size in [1, 2, 4] {
        let traces = Traces::begin();
        let Some(job) = job(&format!("-n {size}"), "") else { return };
        let ended = job.traced(&traces).succeed();
        assert_done(&ended, size);
        traces.assert_none_left(&ended);
    }
}

#[test]
fn ranks_of_mpich_are_bound_and_reported() {
    let Some(job) = job("-n 3 --bind-to core --json", "") else { return };
    let ended = job.succeed();
    assert_eq!(ended.count(" of 3 done"), 3, "{ended}");
    assert!(ended.stderr.contains("\"clients_pmi\":3"), "{ended}");
}

/// The variables of another launcher do not reach ranks.
#[test]
fn a_job_within_ranks_of_another_job_is_a_job_of_its_own() {
    let foreign = [("PMI_FD", "99"), ("PMI_PORT", "localhost:1"), ("PMI_ID", "1"), ("PMI_SPAWNED", "1")];
    let job = Run::new(pmixrun(), Library::ours()).args("-n 1 env");
    let ended = foreign.iter().fold(job, |job, (name, value)| job.env(name, value)).succeed();
    let mut names: Vec<&str> = ended.stdout.lines().filter_map(|line| line.split('=').next()).collect();
    names.retain(|name| name.starts_with("PMI_"));
    names.sort_unstable();
    assert_eq!(names, ["PMI_FD", "PMI_RANK", "PMI_SIZE"], "{ended}");
    assert_eq!(ended.count("PMI_FD=99"), 0, "{ended}");
    let Some(inner) = mpich_program() else { return };
    let outer = Run::new(pmixrun(), Library::ours()).args("-n 1").arg(pmixrun()).args("-n 2").arg(inner);
    assert_done(&outer.succeed(), 2);
}

#[test]
fn the_job_ends_with_a_rank_and_its_status() {
    for (args, code, said) in [
        ("abort 2", 7, "rank 2 (pid N) called abort with status 7"),
        ("die 2", 137, "rank 2 (pid N) was killed by signal 9 (SIGKILL); ending the ranks"),
        ("fail 2", 5, "rank 2 (pid N) exited with status 5; ending the ranks"),
        ("leave 2", 1, "rank 2 (pid N) exited without finalizing; ending the ranks"),
    ] {
        let Some(job) = job("-n 4", args) else { return };
        let ended = job.run();
        assert_eq!(ended.code(), code, "{args}: {ended}");
        let lines: Vec<&str> = ended.stderr.lines().filter(|line| line.starts_with("pmixrun: ")).collect();
        let [line] = lines[..] else { panic!("{args}: not one line: {ended}") };
        let (before, after) = line.split_once("(pid ").unwrap_or_else(|| panic!("{args}: {ended}"));
        let line = format!("{before}(pid N{}", after.trim_start_matches(|byte: char| byte.is_ascii_digit()));
        assert!(line.starts_with(&format!("pmixrun: {said}")), "{args}: {ended}");
    }
}

#[test]
fn a_rank_that_does_not_come_to_a_barrier_is_named() {
    let Some(program) = mpich_program() else {
        return left_out("packages", "libmpich12, whose ranks speak PMI-1, is not installed");
    };
    let job = format!("-n 4 {} stay 2 $TMPDIR/../own 2> $TMPDIR/../own/err", program.display());
    let script = "ERR=$TMPDIR/../own/err; for R in 0 1 2 3; do until test -e $TMPDIR/../own/here.$R; do sleep 0.02; done; done; until grep -q 'entered 0, 1, 3;' $ERR; do kill -USR1 $P; sleep 0.1; done; \
                  kill -INT $P; wait $P; echo \"exit: $?\"; sed 's/^/told: /' $ERR;";
    let ended = beside_job(Library::ours(), &Traces::begin(), &job, script);
    assert!(ended.stdout.contains("told: pmixrun: PMI barrier of "), "{ended}");
    assert!(ended.stdout.contains(": entered 0, 1, 3; missing 2 (process "), "{ended}");
    assert!(ended.stdout.contains("exit: 130\n"), "{ended}");
}

/// Ranks that are bash scripts. `ask TEXT` writes a line to the launcher and prints its answer.
fn scripts(size: usize, script: &str) -> Run {
    let ask = "ask() { printf '%s\\n' \"$1\" >&$PMI_FD; read -r answer <&$PMI_FD; echo \"$answer\"; }; ";
    let run = Run::new(pmixrun(), Library::ours()).args(&format!("-n {size} --timeout 60 bash -c"));
    run.arg(format!("{ask}{script}"))
}

#[test]
fn each_command_has_its_answer() {
    let ended = scripts(
        1,
        "ask 'cmd=init pmi_version=2 pmi_subversion=0'; ask 'cmd=init pmi_version=1 pmi_subversion=1'; ask cmd=get_maxes; \
         ask cmd=get_universe_size; ask cmd=get_appnum; K=$(ask cmd=get_my_kvsname); K=${K##*=}; \
         ask \"cmd=put kvsname=$K key=k value=v\"; ask \"cmd=get kvsname=$K key=k\"; ask \"cmd=get kvsname=$K key=none\"; \
         ask \"cmd=get kvsname=$K key=PMI_process_mapping\"; ask cmd=barrier_in; ask 'cmd=lookup_name service=s'; \
         ask $'mcmd=spawn\\nnprocs=1\\ntotspawns=1\\nspawnssofar=1\\nendcmd'; ask cmd=finalize",
    )
    .succeed();
    let told: Vec<&str> = ended.stdout.lines().collect();
    assert_eq!(
        told,
        [
            "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=-1",
            "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0",
            "cmd=maxes rc=0 kvsname_max=256 keylen_max=64 vallen_max=960",
            "cmd=universe_size rc=0 size=1",
            "cmd=appnum rc=0 appnum=0",
            "cmd=put_result rc=0 msg=success",
            "cmd=get_result rc=0 msg=success value=v",
            "cmd=get_result rc=-1 msg=key_not_found value=unknown",
            "cmd=get_result rc=0 msg=success value=(vector,(0,1,1))",
            "cmd=barrier_out rc=0",
            "cmd=lookup_result rc=-1 info=not_supported msg=not_supported port=unknown",
            "cmd=spawn_result rc=-1 msg=not_supported",
            "cmd=finalize_ack rc=0",
        ],
        "{ended}"
    );
}

#[test]
fn what_is_no_message_ends_the_job_and_is_named() {
    let begin = "ask 'cmd=init pmi_version=1 pmi_subversion=1'; ";
    for (sent, said) in [
        ("ask 'hello'", "a line without a command"),
        ("ask 'cmd=no_such thing=1'", "the unknown command no_such"),
        ("ask 'cmd=put kvsname=a key=k'", "a command without a proper value"),
        ("head -c 20000 /dev/zero >&$PMI_FD; sleep 100", "a line of more than 8192 bytes"),
        ("printf 'cmd=barrier_in\\ncmd=barrier_in\\n' >&$PMI_FD; sleep 100", "a command inside a barrier"),
    ] {
        let ended = scripts(2, &format!("[ $PMI_RANK = 0 ] && sleep 100; {begin} {sent}")).run();
        assert_eq!(ended.code(), 1, "{sent}: {ended}");
        let line = ended.stderr.lines().find(|line| line.starts_with("pmixrun: rank 1 (pid "));
        let told = format!(") sent by PMI-1 what is not understood: {said}; ending the ranks that still run (2)");
        assert!(line.is_some_and(|line| line.ends_with(&told)), "{sent}: {ended}");
    }
}

#[test]
fn a_rank_that_does_not_read_its_answers_holds_up_nobody() {
    let traces = Traces::begin();
    let ended = scripts(
        2,
        "if [ $PMI_RANK = 1 ]; then yes cmd=get_maxes >&$PMI_FD & Y=$!; until test -e $TMPDIR/done; do sleep 0.02; done; kill $Y; \
         else sleep 0.5; for i in $(seq 200); do ask cmd=get_appnum; done; : > $TMPDIR/done; fi",
    )
    .traced(&traces)
    .succeed();
    assert_eq!(ended.count("cmd=appnum rc=0 appnum=0"), 200, "{ended}");
}

#[test]
fn who_has_ended_is_not_waited_for_in_a_barrier() {
    let script = "[ $PMI_RANK = 1 ] && exit 0; ask 'cmd=init pmi_version=1 pmi_subversion=1'; ask cmd=barrier_in";
    let ended = scripts(2, script).run();
    assert_eq!(ended.code(), 1, "{ended}");
    let told = ") ended before a PMI barrier, in which others wait; ending the ranks that still run (1)";
    assert!(ended.stderr.lines().any(|line| line.starts_with("pmixrun: rank 1 ") && line.ends_with(told)), "{ended}");
}
