//! `pmixctl trace`: the calls of a rank, while it runs.

use pmix_tests::{Library, Traces, beside_job, pmixrun, program};

#[test]
fn the_calls_of_a_rank_are_shown_while_it_waits() {
    let pmixctl = pmixrun().with_file_name("pmixctl");
    let job = format!(
        "-n 2 sh -c 'test $PMIX_RANK = 0 || export PMIX_DSTORE_TRACE=1 PMIX_DSTORE_LOG_FILE=$TMPDIR/../own/trace.%p; \
         exec {} --size 100 --between \". $WAIT\"'",
        program("large").display()
    );
    let script = format!(
        "pmixctl() {{ {} \"$@\"; }}; \
         until pmixctl trace --pid $P $J 1 2>&1 | grep -q 'PMIx_Get(.*:1,'; do kill -0 $P || exit 1; sleep 0.05; done; \
         pmixctl trace --pid $P $J 1 | sed 's/^/call: /'; pmixctl trace --pid $P --json $J 1 | sed 's/^/json: /'; \
         for rank in 0 7; do pmixctl trace --pid $P $J $rank 2>&1; echo \"exit: $?\"; done; \
        ",
        pmixctl.display()
    );
    let traces = Traces::begin();
    let ended = beside_job(Library::ours(), &traces, &job, &script);
    let of = |start: &str| -> Vec<&str> { ended.stdout.lines().filter_map(|line| line.strip_prefix(start)).collect() };
    let calls = of("call: ");
    let (init, get) = (calls.first().expect("a call"), calls.iter().rfind(|call| call.contains("PMIx_Get(")));
    let time = init.split(' ').next().and_then(|time| time.parse::<f64>().ok());
    assert!(time.is_some_and(|time| time > 1e9) && init.contains(" PMIx_Init("), "{ended}");
    assert!(get.is_some_and(|get| get.contains(" -> PMIX_SUCCESS [")), "{ended}");
    let json: Vec<serde_json::Value> = of("json: ").iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(json.len(), calls.len());
    assert!(json[0]["call"].as_str().is_some_and(|call| call.starts_with("PMIx_Init(")), "{ended}");
    assert_eq!(of("exit: "), ["1", "1"], "{ended}");
    assert!(ended.stdout.contains("is not traced: start the job with PMIX_DSTORE_TRACE=1"), "{ended}");
    assert!(ended.stdout.contains(".job has no rank 7"), "{ended}");
}
