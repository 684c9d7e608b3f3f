//! What `pmixrun` refuses: the caller's status, and the line that says who has asked, for what, and what to do.

use pmix_dstore::model::Status;
use pmix_tests::{Library, Profile, Run, Traces, pmixrun, program};

/// `tests/programs/refused.c` with both libraries in the ranks.
#[test]
fn each_refusal_has_its_reason_and_the_job_goes_on() {
    let refused = Status::ERR_NOT_SUPPORTED.0;
    let refused = ["checkpoint", "new", "release"].map(|what| format!("{what}: {refused}"));
    let [checkpoint, new, release] = refused.each_ref().map(String::as_str);
    let told = [checkpoint, new, "rank 0: fence 0, finalize 0", "rank 1: fence 0, finalize 0", release, "results: 0"];
    for library in [Library::Ours(Profile::Debug), Library::Stock] {
        let traces = Traces::begin();
        let ended =
            Run::new(pmixrun(), library).traced(&traces).args("-n 2 --timeout 60").arg(program("refused")).run();
        traces.assert_none_left(&ended);
        assert_eq!((ended.code(), ended.sorted_lines()), (0, told.to_vec()), "{library:?}: {ended}");
        let alone = "pmixrun has this node alone and no resource manager; run the job under one";
        let asked = [
            ("asks for a new allocation (nodes: 2)", alone),
            ("gives back resources (nodes: 2)", alone),
            ("asks for PMIX_JOB_CTRL_CHECKPOINT", "pmixrun has no checkpointer; let the program write its own state"),
        ];
        assert_eq!(ended.stderr.lines().count(), asked.len(), "{library:?}: {ended}");
        for (line, (what, why)) in ended.stderr.lines().zip(asked) {
            assert!(
                line.contains(&format!(".job:0 {what}, and gets PMIX_ERR_NOT_SUPPORTED: {why}")),
                "{library:?}: {line}"
            );
        }
    }
}
