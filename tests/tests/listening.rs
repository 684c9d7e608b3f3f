//! `pmixctl events`: it ends with its server, whatever it waits for.

use pmix_tests::{Library, Traces, beside_job, pmixrun};

#[test]
fn a_command_that_waits_for_events_ends_with_its_server() {
    let script = format!(
        "pmixctl() {{ {} \"$@\"; }}; OUT=$TMPDIR/../own/events; \
         {{ pmixctl events --pid $P --follow PMIX_EVENT_NODE_DOWN > $OUT 2>&1; echo \"exit: $?\" >> $OUT; }} & E=$!; \
         until test -s $OUT; do pmixctl notify --pid $P --event PMIX_EVENT_NODE_DOWN; sleep 0.1; done; \
         pmixctl kill --pid $P $J; wait $E; tail -n 2 $OUT;",
        pmixrun().with_file_name("pmixctl").display()
    );
    let ended = beside_job(Library::ours(), &Traces::begin(), "-n 1 sh -c '. $WAIT'", &script);
    assert!(ended.stdout.contains("the server has ended, or the connection is lost\nexit: 1\n"), "{ended}");
}
