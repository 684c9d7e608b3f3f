//! Names that are no text: of processes.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use pmix_tests::{Library, Run, Traces, pmixrun};

#[test]
fn a_rank_whose_name_is_no_text_is_ended_with_its_job() {
    let traces = Traces::begin();
    let program = traces.own().join(OsStr::from_bytes(b"sleep-\xff"));
    std::fs::copy("/bin/sleep", &program).expect("a copy of a program");
    let run = Run::new(pmixrun(), Library::ours()).traced(&traces).args("--timeout 1 --grace 100 -n 1");
    let ended = run.arg(&program).arg("100").deadline(Duration::from_secs(30)).run();
    assert_ne!(ended.code(), 0, "{ended}");
    traces.assert_none_left(&ended);
}
