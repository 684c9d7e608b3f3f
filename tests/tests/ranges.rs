//! Who gets an event of each range under `pmixrun`: `tests/programs/ranges.c`, with this library and with the stock one in ranks and tool.

use std::collections::BTreeSet;

use pmix_tests::{Library, Profile, Run, Traces, pmixrun, program};

/// What ranks get: the handler (`s` of a single code, `m` of several, `d` the default one, `l` one that was registered after the event),
/// the sender and the range. A process gets its own events of all ranges that it is in. The custom range is `a1` and `b0`.
const RANKS: [(&str, &str); 4] = [
    (
        "a0",
        "d:a0/plain d:tool/plain m:a0/local m:a0/session m:tool/local m:tool/session s:a0/global s:a0/namespace s:a0/proc s:a0/rm s:tool/global",
    ),
    (
        "a1",
        "d:a0/plain d:tool/plain l:a0/kept l:tool/kept m:a0/custom m:a0/local m:a0/session m:tool/custom m:tool/local m:tool/session \
         s:a0/global s:a0/namespace s:tool/global",
    ),
    (
        "b0",
        "d:a0/plain d:tool/plain l:a0/kept l:tool/kept m:a0/custom m:a0/local m:a0/session m:tool/custom m:tool/local m:tool/session \
         s:a0/global s:tool/global",
    ),
    (
        "b1",
        "d:a0/plain d:tool/plain l:a0/kept l:tool/kept m:a0/local m:a0/session m:tool/local m:tool/session s:a0/global s:tool/global",
    ),
];

/// What the tool gets, which registers after the events of `a0`.
const TOOL: &str = "d:a0/plain d:tool/plain m:a0/local m:a0/session m:tool/local m:tool/session s:a0/global s:tool/global s:tool/namespace \
                    s:tool/proc s:tool/rm";

/// A stock tool gets its own events twice, also those of the custom range, and kept ones again from a source without a name.
fn without_repetitions(got: &str) -> String {
    let words: BTreeSet<&str> =
        got.split(' ').filter(|word| !word.contains(":?/") && *word != "m:tool/custom").collect();
    words.into_iter().collect::<Vec<_>>().join(" ")
}

#[test]
fn an_event_reaches_those_in_its_range_and_no_others() {
    for library in [Library::Ours(Profile::Debug), Library::Stock] {
        let directory = tempfile::tempdir().unwrap();
        let uri = directory.path().join("uri");
        let traces = Traces::begin();
        let run = Run::new(pmixrun(), library).traced(&traces).args("-n 2 --timeout 120 --report-uri").arg(&uri);
        let ended = run.arg(program("ranges")).arg(format!("file:{}", uri.display())).run();
        traces.assert_none_left(&ended);
        let lines = ended.sorted_lines();
        let told: Vec<(&str, &str)> = lines.iter().filter_map(|line| line.split_once(": ")).collect();
        let [ranks @ .., ("tool", of_tool)] = &told[..] else { panic!("{library:?}: {ended}") };
        assert_eq!((ended.code(), ranks, ended.stderr.as_str()), (0, &RANKS[..], ""), "{library:?}: {ended}");
        let of_tool = if library.is_ours() { (*of_tool).to_owned() } else { without_repetitions(of_tool) };
        assert_eq!(of_tool, TOOL, "{library:?}: {ended}");
    }
}
