//! Gets of keys that nobody has put and of keys that are put late, of a rank that has committed another key: who waits, and for what.
//! What stock releases answer, and when, is in `docs/log/unknown-keys.md`.

use pmix_tests::{Ended, Library, Pair, Run, Traces, program};

/// The fences that come first: none, one without data, and one with data.
const WHEN: [&str; 3] = ["before", "fence", "collect"];

/// Longer than any test lasts. An answer that came by the end of a wait would not come.
const HOURS: &str = "100000";

/// Two ranks on so many servers; rank 0 asks, and waits for each answer so many seconds.
fn asked(pair: Pair, servers: usize, when: &str, questions: &str, seconds: &str) -> Ended {
    let (traces, directory) = (Traces::begin(), tempfile::tempdir().expect("a directory"));
    let run = Run::new(program("host"), pair.server).traced(&traces).env("PMIX_DSTORE_GET_WAIT", HOURS);
    let run = run.args(&format!("-s {servers} -n {} --rank-lib", 2 / servers)).arg(pair.ranks.directory());
    let run = run.arg(program("unknown")).arg(when).arg(directory.path());
    let ended = run.arg(questions).arg(seconds).run();
    assert_eq!(ended.code(), 0, "{pair:?} {when}: {ended}");
    traces.assert_none_left(&ended);
    ended
}

/// What rank 0 is answered, without times, and how often the host was asked for values.
fn answers(pair: Pair, servers: usize, when: &str, questions: &str) -> (Vec<String>, usize) {
    let ended = asked(pair, servers, when, questions, HOURS);
    let lines = ended.stdout.lines().filter_map(|line| line.rsplit_once(" after ").map(|(said, _)| said));
    // Releases have different texts of a code.
    let codes = lines.filter_map(|said| Some(format!("{} {}", said.split_once(": ")?.0, said.rsplit_once(' ')?.1)));
    (codes.collect(), ended.stderr.lines().filter(|line| line.contains(": direct modex ")).count())
}

/// The rank commits it 100 ms after the Get has begun, and has put another key before.
#[test]
fn a_key_that_is_committed_late_is_found_by_a_get_that_began_before() {
    for pair in Pair::all().into_iter().filter(|pair| pair.server == Library::ours()) {
        for when in WHEN {
            let (said, asked) = answers(pair, 1, when, "late");
            assert_eq!(said, ["late (0)", "late, asked after its commit (0)"], "{pair:?} {when}");
            assert_eq!(asked, 0, "{pair:?} {when}");
        }
    }
}

/// The host's answer has all that the rank of the other node has committed, and `PMIX_OPTIONAL` and `PMIX_IMMEDIATE` wait for nobody. The
/// other rank does nothing until all is answered.
#[test]
fn an_unknown_key_is_answered_at_once_where_stock_libraries_do_so() {
    const NOT_FOUND: [&str; 4] = ["optional (-46)", "immediate (-46)", "plain (-46)", "plain again (-46)"];
    for pair in Pair::all().into_iter().chain([Pair::stock()]) {
        for when in WHEN {
            let (said, asked) = answers(pair, 2, when, "optional,immediate,plain,again");
            assert_eq!(
                (&said[..], asked),
                (&NOT_FOUND.map(str::to_owned)[..], 2),
                "{pair:?} {when}: each is asked for once"
            );
            let (said, _) = answers(pair, 1, when, "optional,immediate");
            assert_eq!(said, NOT_FOUND[..2], "{pair:?} {when}");
        }
    }
}

/// Without the setting the answer would come after 2 s.
#[test]
fn a_local_rank_is_waited_for_as_long_as_is_set() {
    let ours = Library::ours();
    let ended = asked(Pair { server: ours, ranks: ours }, 1, "collect", "plain", "4");
    assert_eq!(ended.stdout, "plain: no answer within 4 s\n", "{ended}");
}
