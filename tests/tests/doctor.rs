//! What `pmixctl doctor` says of staged troubles.

use pmix_tests::{Ended, Library, Traces, beside_job, pmixrun};

/// What doctor says of a job of `pmixrun`, whose ranks have this library, and its exit status. `before` is run first; `$J` is the job.
fn said(library: Library, job: &str, before: &str) -> Ended {
    let traces = Traces::begin();
    let pmixctl = pmixrun().with_file_name("pmixctl");
    let script = format!(
        "pmixctl() {{ {} \"$@\"; }}; for rank in 0 1; do while test ! -s $TMPDIR/../own/here.$rank; do sleep 0.02; done; done; \
         {before} pmixctl doctor --pid $P; echo \"doctor: $?\"; {{ pmixctl doctor --pid $P --json; }} | grep '\"code\"'; \
         pmixctl resume --pid $P $J >/dev/null;",
        pmixctl.display()
    );
    beside_job(library, &traces, &format!("-n 2 {job}"), &script)
}

/// Ranks that say that they are here, and wait.
const SHELLS: &str = "sh -c 'echo > $TMPDIR/../own/here.$PMIX_RANK; . $WAIT'";

fn assert_says(ended: &Ended, exit: i32, code: Option<&str>, text: &str) {
    assert!(ended.stdout.contains(&format!("doctor: {exit}\n")), "{ended}");
    assert!(ended.stdout.contains(text), "{text}: {ended}");
    if let Some(code) = code {
        assert!(ended.stdout.contains(&format!("\"code\": \"{code}\"")), "{code}: {ended}");
    }
}

#[test]
fn a_stopped_rank_and_programs_without_pmix_are_named() {
    let ended = said(Library::ours(), SHELLS, "pmixctl pause --pid $P $J 1;");
    assert_says(&ended, 1, Some("stopped"), "rank 1 (process ");
    assert_says(&ended, 1, None, "stopped (SIGSTOP, or a debugger)\n  pmixctl resume");
    assert_says(&ended, 1, Some("no-library"), "ranks 0, 1: no libpmix is loaded");
}

#[test]
fn files_that_lead_to_no_server_are_named() {
    let stale = "echo 'gone.0;tcp4://127.0.0.1:1' > $TMPDIR/pmix.$(hostname -s).tool.gone; echo 4.2.2 >> $TMPDIR/pmix.$(hostname -s).tool.gone; \
                 echo 999999999 >> $TMPDIR/pmix.$(hostname -s).tool.gone;";
    let remove = "trap 'rm -f $TMPDIR/pmix.*.tool.gone' EXIT;";
    let ended = said(Library::ours(), SHELLS, &format!("{remove} {stale}"));
    assert_says(&ended, 1, Some("rendezvous-file"), "leads to no server: process 999999999 has ended");
}
