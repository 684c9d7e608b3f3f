//! Processes whose environment names a server that has ended.

use pmix_tests::{Ended, Library, Run, Traces, program};

/// Nobody listens at this port.
const GONE: [(&str, &str); 3] =
    [("PMIX_NAMESPACE", "gone"), ("PMIX_RANK", "2"), ("PMIX_SERVER_URI41", "gone.0;tcp4://127.0.0.1:1")];

fn run(library: Library, args: &str) -> Ended {
    let traces = Traces::begin();
    let run = Run::new(program("unreached"), library).traced(&traces).args(args);
    let ended = GONE.into_iter().fold(run, |run, (name, value)| run.env(name, value)).succeed();
    traces.assert_no_process_left(&ended);
    ended
}

/// Open MPI 5 takes the process for a singleton, and waits for the number of its event handler.
#[test]
fn a_process_whose_server_has_ended_goes_on_as_beside_the_stock_library() {
    let (ours, stock) = (run(Library::ours(), ""), run(Library::Stock, ""));
    assert_eq!(ours.stdout, stock.stdout);
    for line in
        ["PMIx_Init: -25", "I am gone:2", "PMIx_Register_event_handler: 0", "callback: 0", "PMIx_Init again: -25"]
    {
        assert_eq!(ours.count(line), 1, "{ours}");
    }
    let said = "pmix-dstore client gone:2: no connection to server gone:0 at 127.0.0.1:1 (release 4.1.0): PMIX_ERR_UNREACH (-25); ";
    assert!(ours.stderr.starts_with(said) && ours.stderr.lines().count() == 1, "{ours}");
}

/// Stock releases before 7.0 crash in the last `PMIx_Finalize`.
#[test]
fn such_a_process_ends_the_library_and_may_begin_it_again() {
    let ended = run(Library::ours(), "finalize");
    let after =
        "PMIx_Finalize: 0\nPMIx_Finalize: 0\ninitialized: 0\nPMIx_Init: -25\nPMIx_Finalize: 0\ninitialized: 0\ndone\n";
    assert!(ended.stdout.ends_with(after), "{ended}");
}
