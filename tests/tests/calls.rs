//! Results of calls that need no peer, compared with those of stock libraries. They are equal, except for the
//! differences in `calls.tsv`, and for wrong calls those in `wrong_calls.tsv`. Each line of these names the row of
//! `docs/differences.md` with the reason. A line that begins with `~` is about a rare difference, which must occur only
//! in long runs. In the patterns of answers `*` matches anything, and `§` marks the point where the two answers begin
//! to differ: the text before it is the same in both. A second `§` marks the end of the difference.
//!
//! Debian's library is always compared; `PMIX_TEST_PEERS` names others.

use std::cell::Cell;
use std::collections::HashSet;
use std::fmt::Write;
use std::fs;

use pmix_tests::{Ended, Library, Run, Traces, is_large, program_with, repository, times};

/// The seed of this run's cases.
const SEED: u64 = 1;
/// Cases of one process.
const CHUNK: usize = 50_000;
/// The most differences that are shown.
const SHOWN_MAX: usize = 12;

/// Runs `calls` with a library; the stock library's standard error is ignored.
fn run(library: Library, words: &str) -> Ended {
    let traces = Traces::begin();
    let ended = Run::new(program_with("calls", Library::ours()), library).traced(&traces).args(words).succeed();
    assert!(ended.stdout.ends_with("\ndone\n"), "{ended}");
    if library.is_ours() {
        assert_eq!(ended.stderr, "", "{words}");
        traces.assert_none_left(&ended);
    }
    ended
}

/// One case, from a line of the program's output.
#[derive(Clone, Copy, PartialEq)]
struct Case<'a> {
    number: &'a str,
    what: &'a str,
    made: &'a str,
    answers: &'a str,
}

/// The library's version, and the cases.
fn cases(ended: &Ended) -> (&str, Vec<Case<'_>>) {
    let mut lines = ended.stdout.lines();
    let version = lines.next().unwrap_or_default();
    let case = |line| -> Option<Case<'_>> {
        let (head, answers) = str::split_once(line, "]: ")?;
        let (head, made) = head.split_once(" [")?;
        let (number, what) = head.split_once(' ')?;
        Some(Case { number, what, made: made.trim_end(), answers })
    };
    (version, lines.take_while(|line| *line != "done").map(|line| case(line).expect(line)).collect())
}

/// Whether a text matches a pattern, in which `*` matches anything.
fn matches(pattern: &str, text: &str) -> bool {
    let Some((begin, rest)) = pattern.split_once('*') else { return pattern == text };
    let (inner, end) = rest.rsplit_once('*').unwrap_or(("", rest));
    let Some(text) = text.strip_prefix(begin).and_then(|text| text.strip_suffix(end)) else { return false };
    // The first match suffices.
    let mut parts = inner.split('*');
    parts.try_fold(text, |text, part| text.split_once(part).map(|(_, rest)| rest)).is_some()
}

/// Two texts, each split into the common start, the difference, and the common end.
fn cut<'a>(one: &'a str, other: &'a str) -> [[&'a str; 3]; 2] {
    let same = |pairs: &mut dyn Iterator<Item = (char, char)>| -> usize {
        pairs.take_while(|(one, other)| one == other).map(|(one, _)| one.len_utf8()).sum()
    };
    let begin = same(&mut one.chars().zip(other.chars()));
    let (ones, others) = (&one[begin..], &other[begin..]);
    let end = same(&mut ones.chars().rev().zip(others.chars().rev()));
    [one, other].map(|text| [&text[..begin], &text[begin..text.len() - end], &text[text.len() - end..]])
}

/// Whether two texts match two patterns. In both, or in neither, `§` marks where the texts begin to differ, and a second
/// one where the difference ends.
fn differ_as(patterns: [&str; 2], texts: [[&str; 3]; 2]) -> bool {
    let marks = |pattern: &str| pattern.matches('§').count();
    let is_so = |pattern: &str, [begin, middle, end]: [&str; 3]| {
        let parts: Vec<&str> = pattern.split('§').collect();
        match parts[..] {
            [first] => matches(first, &[begin, middle, end].concat()),
            [first, second] => matches(first, begin) && matches(second, &[middle, end].concat()),
            [first, second, third] => matches(first, begin) && matches(second, middle) && matches(third, end),
            _ => panic!("{pattern}"),
        }
    };
    marks(patterns[0]) == marks(patterns[1])
        && patterns.into_iter().zip(texts).all(|(pattern, text)| is_so(pattern, text))
}

/// An explained difference.
struct Explained {
    line: String,
    is_rare: bool,
    releases: Vec<String>,
    what: Vec<String>,
    made: Vec<String>,
    ours: Vec<String>,
    stock: Vec<String>,
    is_used: Cell<bool>,
}

impl Explained {
    /// The lines of a list, after a check that `docs/differences.md` has the rows that they name.
    fn read(list: &str) -> Vec<Explained> {
        let text = fs::read_to_string(repository().join("tests/tests").join(list)).expect("the list");
        let explanations = fs::read_to_string(repository().join("docs/differences.md")).expect("the explanations");
        let lines = text.lines().skip(1).map(|line| {
            let (is_rare, line) = line.strip_prefix('~').map_or((false, line), |line| (true, line));
            let fields: Vec<&str> = line.split('\t').collect();
            let [releases, what, made, ours, stock, why] = fields[..] else { panic!("six fields: {line}") };
            assert!(explanations.contains(&format!("| {why} |")), "docs/differences.md does not have: {why}");
            let parts = |field: &str, by: char| field.split(by).map(str::to_owned).collect();
            Explained {
                line: line.to_owned(),
                is_rare,
                releases: parts(releases, ' '),
                what: parts(what, '|'),
                made: parts(made, ' '),
                ours: parts(ours, '|'),
                stock: parts(stock, '|'),
                is_used: Cell::new(false),
            }
        });
        lines.collect()
    }

    /// Whether this is about a release.
    fn is_of(&self, release: &str) -> bool {
        self.releases.iter().any(|of| of == "*" || release.starts_with(of))
    }

    fn explains(&self, ours: Case<'_>, stock: Case<'_>) -> bool {
        let made = |name: &String| name == "-" || ours.made.split(' ').any(|made| made == name);
        let texts = cut(ours.answers, stock.answers);
        self.what.iter().any(|what| matches(what, ours.what))
            && self.made.iter().any(made)
            && self.ours.iter().any(|of_ours| self.stock.iter().any(|of_stock| differ_as([of_ours, of_stock], texts)))
    }
}

/// The result of a comparison.
#[derive(Default)]
struct Comparison {
    same: usize,
    absent: usize,
    ended: usize,
    explained: usize,
    unexplained: usize,
    shown: String,
}

impl Comparison {
    fn add(&mut self, ours: &Ended, stock: &Ended, release: &str, list: &[Explained]) {
        let ((_, ours), (_, stock)) = (cases(ours), cases(stock));
        assert_eq!(ours.len(), stock.len());
        for (ours, stock) in ours.into_iter().zip(stock) {
            let ends = ["crash", "hang"];
            assert!(
                !ends.contains(&ours.answers) && !ours.answers.starts_with("absent"),
                "{} {}",
                ours.what,
                ours.answers
            );
            assert_eq!((ours.number, ours.what), (stock.number, stock.what));
            let explains = |of: &&Explained| of.is_of(release) && of.explains(ours, stock);
            if ours.answers == stock.answers {
                self.same += 1;
            } else if ends.contains(&stock.answers) {
                self.ended += 1;
            } else if stock.answers.starts_with("absent ") {
                self.absent += 1;
            } else if let Some(explained) = list.iter().find(explains) {
                explained.is_used.set(true);
                self.explained += 1;
            } else {
                self.unexplained += 1;
                if self.unexplained <= SHOWN_MAX {
                    let Case { number, what, made, answers } = ours;
                    let _ =
                        write!(self.shown, "\n{number} {what} [{made}]\n  ours  {answers}\n  stock {}", stock.answers);
                }
            }
        }
    }
}

/// Compares the output of `calls WORDS` with all stock libraries', chunk by chunk.
fn compare(chunks: &[String], list: &str) {
    let list = Explained::read(list);
    let mut releases = HashSet::new();
    let mut failures = String::new();
    for library in [Library::Stock].iter().chain(Library::others()) {
        let mut comparison = Comparison::default();
        let mut release = String::new();
        for words in chunks {
            let (ours, stock) = (run(Library::ours(), words), run(*library, words));
            let version = cases(&stock).0;
            release = version.split(' ').nth(1).unwrap_or_default().trim_end_matches(',').to_owned();
            comparison.add(&ours, &stock, &release, &list);
        }
        let Comparison { same, absent, ended, explained, unexplained, shown } = comparison;
        let counts = format!(
            "{release}: {same} cases the same, {explained} explained, {absent} of functions it lacks, {ended} that it does \
             not survive, {unexplained} that nothing explains"
        );
        eprintln!("{counts}");
        if unexplained > 0 {
            let _ = writeln!(failures, "{counts}{shown}");
        }
        releases.insert(release);
    }
    assert!(failures.is_empty(), "{failures}");
    let is_missed = |explained: &&Explained| !explained.is_rare || is_large();
    let is_asked = |explained: &&Explained| releases.iter().any(|release| explained.is_of(release));
    let unused = list.iter().filter(is_asked).filter(is_missed).filter(|explained| !explained.is_used.get());
    let unused: Vec<&str> = unused.map(|explained| explained.line.as_str()).collect();
    assert_eq!(unused, Vec::<&str>::new(), "differences that are not there any more");
}

#[test]
fn calls_are_answered_as_by_stock_libraries() {
    let count = times(20_000, 1_000_000);
    let generated = |first: usize| format!("generated {SEED} {first} {}", CHUNK.min(count - first));
    let mut chunks = vec!["fixed".to_owned()];
    chunks.extend((0..count).step_by(CHUNK).map(generated));
    compare(&chunks, "calls.tsv");
}

/// NULL for each pointer in turn, as a host, and calls before initialisation or after finalize. If a stock library
/// returns an error, ours does too.
#[test]
fn wrong_calls_are_refused_as_by_stock_libraries() {
    compare(&["null", "before", "after"].map(str::to_owned), "wrong_calls.tsv");
}

/// All cases in one process, for memory checkers. The process frees everything that it gets.
#[test]
fn calls_of_one_process_answer_the_same() {
    let count = times(2_000, 20_000);
    one_process(["fixed".to_owned(), format!("generated {SEED} 0 {count}")]);
}

/// The same for wrong calls, whose arguments are never freed.
#[test]
fn wrong_calls_of_one_process_answer_the_same() {
    one_process(["null", "before", "after"].map(str::to_owned));
}

fn one_process(chunks: impl IntoIterator<Item = String>) {
    for words in chunks {
        let traces = Traces::begin();
        let alone = Run::new(program_with("calls", Library::ours()), Library::ours());
        let alone = alone.traced(&traces).env("CALLS_ALONE", "1").args(&words).succeed();
        traces.assert_none_left(&alone);
        // valgrind reports memory of threads that a forked child does not have as lost.
        if std::env::var_os("PMIX_TEST_WRAPPER").is_some() {
            continue;
        }
        let (alone, apart) = (cases(&alone).1, run(Library::ours(), &words));
        let differ = alone.into_iter().zip(cases(&apart).1).find(|(alone, apart)| alone.answers != apart.answers);
        assert!(differ.is_none_or(|(alone, apart)| panic!(
            "{} {}: {} or {}",
            alone.number, alone.what, alone.answers, apart.answers
        )));
    }
}
