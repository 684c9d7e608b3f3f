//! `docs/coverage.md`, row by row: every attribute of the standard's chapters on reserved keys and on servers.
//!
//! The document is the data. Each row names the test that exercises it; the tests below go through the rows that name
//! them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::TcpListener;

use pmix_tests::registry::{self, text};
use pmix_tests::{Library, Run, program, repository};

const WILDCARD: u32 = u32::MAX - 1;
const OPTIONAL: &str = "pmix.optional bool 1";
const IMMEDIATE: &str = "pmix.immediate bool 1";

/// A row of the document.
struct Row {
    /// The row's number, which makes its values unique.
    number: usize,
    attribute: String,
    key: String,
    /// The type of its values in the standard.
    data_type: String,
    realms: Vec<String>,
    what: String,
    tests: Vec<String>,
}

/// All rows of the document's tables: lines with six cells, the first of which is an attribute.
fn rows() -> Vec<Row> {
    let document = fs::read_to_string(repository().join("docs/coverage.md")).expect("the document");
    let words = |cell: &str| -> Vec<String> {
        cell.split(',').map(|word| word.trim().trim_matches('`').to_owned()).filter(|word| !word.is_empty()).collect()
    };
    let mut rows = Vec::new();
    for line in document.lines().filter(|line| line.starts_with("| `PMIX_")) {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [attribute, key, data_type, realms, what, tests] = cells[..] else { panic!("six cells: {line}") };
        assert!(cells.iter().all(|cell| !cell.is_empty()), "a cell is empty: {line}");
        let bare = |cell: &str| cell.trim_matches('`').to_owned();
        rows.push(Row {
            number: rows.len(),
            attribute: bare(attribute),
            key: bare(key),
            data_type: bare(data_type),
            realms: words(realms),
            what: what.to_owned(),
            tests: words(tests),
        });
    }
    rows
}

/// The rows that name a test.
fn rows_of(test: &str) -> Vec<Row> {
    let rows: Vec<Row> = rows().into_iter().filter(|row| row.tests.iter().any(|name| name == test)).collect();
    assert!(!rows.is_empty(), "no row names {test}");
    rows
}

/// Attributes with a string in the standard that no release has.
const NO_RELEASE_HAS: [&str; 2] = ["PMIX_PROC_INFO", "PMIX_SERVER_START_TIME"];

#[test]
fn every_row_names_its_key_and_tests_that_exist() {
    let rows = rows();
    let attributes: BTreeSet<&str> = rows.iter().map(|row| row.attribute.as_str()).collect();
    assert_eq!(attributes.len(), rows.len(), "an attribute has two rows");
    let document = fs::read_to_string(repository().join("docs/coverage.md")).expect("the document");
    assert!(document.contains(&format!("{} attributes", rows.len())), "the document counts its {} rows", rows.len());
    let table = fs::read_to_string(repository().join("ffi/abi/attributes.tsv")).expect("the table");
    let keys: BTreeMap<&str, &str> = table.lines().filter_map(|line| line.split('\t').collect_pair()).collect();
    for row in &rows {
        if !NO_RELEASE_HAS.contains(&row.attribute.as_str()) {
            assert_eq!(keys.get(row.attribute.as_str()), Some(&row.key.as_str()), "{}", row.attribute);
        }
        assert!(row.what.len() > 3, "{} says what becomes of it", row.attribute);
        row.tests.iter().for_each(|test| assert_exists(test, &row.attribute));
    }
}

fn assert_exists(test: &str, of: &str) {
    let (file, name) = test.split_once(": ").unwrap_or(("tests/tests/coverage.rs", test));
    let source = fs::read_to_string(repository().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
    assert!(source.contains(&format!("fn {name}(")), "{of}: no {name} in {file}");
}

#[test]
fn every_point_of_an_rfc_names_tests_that_exist() {
    let document = fs::read_to_string(repository().join("docs/coverage.md")).expect("the document");
    for rfc in ["RFC0003", "RFC0010"] {
        let table = document.split(&format!("| {rfc} |")).nth(1).expect("the table");
        let lines: Vec<&str> = table.lines().skip(2).take_while(|line| line.starts_with('|')).collect();
        assert!(lines.len() > 10, "{lines:?}");
        for line in lines {
            let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
            let [point, what, tests] = cells[..] else { panic!("three cells: {line}") };
            assert!(what.len() > 3 && !tests.is_empty(), "{line}");
            tests.split(", ").for_each(|test| assert_exists(test.trim_matches('`'), point));
        }
    }
}

/// The first two of some words.
trait CollectPair<'a> {
    fn collect_pair(self) -> Option<(&'a str, &'a str)>;
}

impl<'a, I: Iterator<Item = &'a str>> CollectPair<'a> for I {
    fn collect_pair(mut self) -> Option<(&'a str, &'a str)> {
        Some((self.next()?, self.next()?))
    }
}

/* ---- registrations of hosts ----------------------------------------------------------------------------------------- */

/// The owner of a value.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Level {
    Session,
    Job,
    App(usize),
    Node(usize),
    Proc(usize),
}

use Level::{App, Job, Node, Proc, Session};

const LEVELS: [Level; 10] = [Session, Job, App(0), App(1), Node(0), Node(1), Proc(0), Proc(1), Proc(2), Proc(3)];

/// Numbers of the applications; their ranks are 0 and 1, 2 and 3.
const APPNUMS: [u32; 2] = [5, 9];
/// Names and numbers of the nodes; their ranks are 0 and 2, 1 and 3.
const NODES: [(&str, u32); 2] = [("node0", 70), ("node1", 71)];
const NODE_MAP: &str = "node0,node1";
const PROC_MAP: &str = "0,2;1,3";

impl Level {
    fn realm(self) -> &'static str {
        match self {
            Session => "session",
            Job => "job",
            App(_) => "app",
            Node(_) => "node",
            Proc(_) => "proc",
        }
    }

    /// A number that is unique to the place.
    fn number(self) -> usize {
        LEVELS.iter().position(|place| *place == self).expect("one of them")
    }

    /// Rank and infos of the Gets for this place.
    fn questions(self) -> Vec<(u32, String)> {
        match self {
            Session => vec![(WILDCARD, "pmix.ssn.info bool 1".into())],
            Job => vec![(WILDCARD, "pmix.job.info bool 1".into())],
            App(app) => vec![
                (WILDCARD, format!("pmix.app.info bool 1 pmix.appnum uint32 {}", APPNUMS[app])),
                (2 * app as u32, "pmix.app.info bool 1".into()),
            ],
            Node(node) => vec![
                (WILDCARD, format!("pmix.node.info bool 1 pmix.hname string {}", NODES[node].0)),
                (node as u32, "pmix.node.info bool 1".into()),
            ],
            Proc(rank) => vec![(rank as u32, String::new())],
        }
    }
}

impl Row {
    fn has(&self, place: Level) -> bool {
        self.realms.iter().any(|realm| realm == place.realm())
    }

    /// Whether the place belongs to the realm of a Get without a realm and of a value outside arrays.
    fn is_main(&self, place: Level) -> bool {
        self.realms[0] == place.realm()
    }

    /// A value for a place: unique to its row and place, unless the layout of the job determines it. Numbers in
    /// registrations without arrays are wider than in the standard, because a Get returns the registered type.
    fn value(&self, place: Level, is_wide: bool) -> String {
        let number = self.number * LEVELS.len() + place.number();
        let name = format!("{}.{}", self.attribute, place.number());
        let of = |ty: &str, number: u32| match ty {
            "uint16" if is_wide => format!("uint32 {number}"),
            "uint32" | "rank" if is_wide => format!("uint64 {number}"),
            _ => format!("{ty} {number}"),
        };
        match (self.attribute.as_str(), place) {
            ("PMIX_NSPACE", _) => "string job".into(),
            // If it were true, the host would get no upcall for the group.
            ("PMIX_GROUP_LOCAL_ONLY", _) => "bool 0".into(),
            ("PMIX_NODE_MAP" | "PMIX_NODE_MAP_RAW", Job) => format!("string {}", text(NODE_MAP)),
            ("PMIX_PROC_MAP" | "PMIX_PROC_MAP_RAW", Job) => format!("string {}", text(PROC_MAP)),
            ("PMIX_JOB_SIZE", _) => of("uint32", 4),
            ("PMIX_JOB_NUM_APPS" | "PMIX_NUM_NODES", Job) => of("uint32", 2),
            ("PMIX_APP_SIZE" | "PMIX_LOCAL_SIZE", _) => of("uint32", 2),
            ("PMIX_LOCAL_PEERS", Node(node)) => format!("string {node}%2C{}", node + 2),
            ("PMIX_HOSTNAME", Node(node)) => format!("string {}", NODES[node].0),
            ("PMIX_HOSTNAME", Proc(rank)) => format!("string {}", NODES[rank % 2].0),
            ("PMIX_NODEID", Node(node)) => of("uint32", NODES[node].1),
            ("PMIX_NODEID", Proc(rank)) => of("uint32", NODES[rank % 2].1),
            ("PMIX_APPNUM", App(app)) => of("uint32", APPNUMS[app]),
            ("PMIX_APPNUM", Proc(rank)) => of("uint32", APPNUMS[rank / 2]),
            ("PMIX_RANK", Proc(rank)) => format!("rank {rank}"),
            ("PMIX_PROCID", Proc(rank)) => format!("proc job {rank}"),
            ("PMIX_LOCAL_PROCS", _) => format!("array proc 2 job {number} other 0"),
            ("PMIX_DEVICE_DISTANCES", _) => format!("array distance 2 {name} ib0 {number} 7 uuid ib1 8 {number}"),
            _ => match self.data_type.as_str() {
                "char*" | "string" => format!("string {name}"),
                "bool" => format!("bool {}", number % 2),
                "uint16_t" => of("uint16", number as u32),
                "uint32_t" => of("uint32", number as u32),
                "float" => format!("float {number}.5"),
                "size_t" => format!("size {number}"),
                "time_t" => format!("time {number}"),
                "pmix_status_t" => format!("status -{number}"),
                "pmix_data_range_t" => "range 4".into(),
                "pmix_persistence_t" => "persistence 2".into(),
                "array" => format!("( site.key string {name} )"),
                "uint64_t" => format!("uint64 {}", number + (1 << 40)),
                "int" => format!("int {number}"),
                "pid_t" => format!("pid {number}"),
                "pmix_rank_t" => of("rank", number as u32),
                "pmix_proc_t" => format!("proc {name} {number}"),
                "pmix_byte_object_t" => format!("bytes {name}%00%FF"),
                "pmix_cpuset_t*" => format!("cpuset hwloc%3A{}", place.number()),
                "pmix_data_array_t" | "pmix_data_array_t*" => format!("array string 2 {name}.1 {name}.2"),
                other => panic!("{}: no values of {other}", self.attribute),
            },
        }
    }
}

/// The infos of a place, its identifying ones first.
fn infos(rows: &[Row], place: Level, is_wide: bool, is_meant: impl Fn(&Row) -> bool) -> String {
    const FIRST: [&str; 4] = ["PMIX_RANK", "PMIX_APPNUM", "PMIX_HOSTNAME", "PMIX_NODEID"];
    let mut rows: Vec<&Row> = rows.iter().filter(|row| row.has(place) && is_meant(row)).collect();
    rows.sort_by_key(|row| FIRST.iter().position(|first| *first == row.attribute).unwrap_or(FIRST.len()));
    rows.iter().map(|row| format!("{} {} ", row.key, row.value(place, is_wide))).collect()
}

/// A Get, and its expected answer.
struct Asked {
    attribute: String,
    question: String,
    answer: String,
}

fn ask(row: &Row, (rank, infos): (u32, String), answer: String) -> Asked {
    // Without shared memory only the server has the maps, so the client may request them, but the server must not wait.
    let how = if matches!(row.attribute.as_str(), "PMIX_NODE_MAP" | "PMIX_PROC_MAP") { IMMEDIATE } else { OPTIONAL };
    let question = format!("get job {rank} {} {infos} {how}", row.key);
    Asked { attribute: row.attribute.clone(), question, answer: format!("{answer} status 0") }
}

/// Registers a job on two nodes; rank 0 makes the Gets, with shared memory and without. Returns the attributes with
/// wrong answers, and these answers.
fn wrong_answers(infos: &str, asked: &[Asked]) -> BTreeMap<String, String> {
    let mut wrong = BTreeMap::new();
    let library = text(Library::ours().directory().display().to_string());
    let readers = ["", "PMIX_DSTORE_SHM=0"];
    let mut script = format!("init pmix.hname string node0\nregister job 2 {infos}\nclient job 0\n");
    for variable in readers {
        script += &format!("rank job 0 {library} {variable}\n");
        asked.iter().for_each(|asked| script += &format!("{}\n", asked.question));
        script += "end\n";
    }
    let answers = registry::run(Library::ours(), &script);
    assert_eq!(answers[..2], ["status 0", "status 0"], "{infos}");
    let mut answers = answers[2..].iter();
    for variable in readers {
        for Asked { attribute, question, answer } in asked {
            let found = answers.next().expect("an answer to each question");
            if found != answer {
                wrong.entry(attribute.clone()).or_insert(format!("{question} {variable}: {found}, not {answer}"));
            }
        }
        assert_eq!(answers.next().map(String::as_str), Some("rank ended with 0"));
    }
    wrong
}

/// A host's registration in the arrays of the realms, nested as in the chapter.
fn in_arrays(rows: &[Row]) -> String {
    let of = |place| infos(rows, place, false, |_| true);
    let proc = |rank| format!("pmix.pdata ( {}) ", of(Proc(rank)));
    let app = |app| format!("pmix.app.arr ( {}{}{}) ", of(App(app)), proc(2 * app), proc(2 * app + 1));
    let node = |node| format!("pmix.node.arr ( {}) ", of(Node(node)));
    let job = format!("pmix.job.arr ( {}{}{}{}{}) ", of(Job), app(0), node(0), app(1), node(1));
    format!("pmix.ssn.arr ( {}{job}) ", of(Session))
}

#[test]
fn registered() {
    let rows = rows_of("registered");
    let mut asked = Vec::new();
    for row in &rows {
        for place in LEVELS.into_iter().filter(|place| row.has(*place)) {
            let answer = || row.value(place, false);
            asked.extend(place.questions().into_iter().map(|question| ask(row, question, answer())));
            // Gets that name no realm: rank 0 is in application 0 and on node 0.
            match place {
                Session | Job | Node(0) if row.is_main(place) => {
                    asked.push(ask(row, (WILDCARD, String::new()), answer()));
                }
                App(app) if row.is_main(place) => asked.push(ask(row, (2 * app as u32, String::new()), answer())),
                _ => {}
            }
        }
    }
    let wrong = wrong_answers(&in_arrays(&rows), &asked);
    assert!(wrong.is_empty(), "{wrong:#?}");
    // The library derives none of these values by itself.
    let maps = format!("pmix.nmap string {} pmix.pmap string {} ", text(NODE_MAP), text(PROC_MAP));
    let wrong = wrong_answers(&maps, &asked);
    let by_itself: Vec<&str> = rows
        .iter()
        .filter(|row| LEVELS.into_iter().any(|place| row.has(place)) && !row.tests.iter().any(|name| name == "derived"))
        .filter(|row| !wrong.contains_key(&row.attribute))
        .map(|row| row.attribute.as_str())
        .collect();
    assert_eq!(by_itself, [""; 0], "answered without having been registered");
}

#[test]
fn registered_loose() {
    let rows = rows_of("registered_loose");
    // Infos outside arrays belong to the only application and to the host's node. Process data are in arrays.
    let is_own = |place: &Level| matches!(place, Session | Job | App(0) | Node(0) | Proc(_));
    let is_main = |row: &Row, place: Level| row.is_main(place) && !row.attribute.ends_with("_RAW");
    let mut infos_of_job = String::new();
    let mut asked = Vec::new();
    for place in LEVELS.into_iter().filter(is_own) {
        let of_place = infos(&rows, place, true, |row| is_main(row, place));
        infos_of_job += &match place {
            Proc(_) => format!("pmix.pdata ( {of_place}) "),
            _ => of_place,
        };
        for row in rows.iter().filter(|row| row.has(place) && is_main(row, place)) {
            let named = match place {
                App(_) => vec![(WILDCARD, "pmix.app.info bool 1".to_owned()), (0, String::new())],
                Session | Job | Node(_) => vec![place.questions().remove(0), (WILDCARD, String::new())],
                Proc(_) => place.questions(),
            };
            asked.extend(named.into_iter().map(|question| ask(row, question, row.value(place, true))));
        }
    }
    let wrong = wrong_answers(&infos_of_job, &asked);
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// The value that the server derives from maps and applications if the host registers none.
fn derived_value(attribute: &str, place: Level) -> Option<String> {
    Some(match (attribute, place) {
        ("PMIX_JOB_SIZE" | "PMIX_MAX_PROCS", Job) => "uint32 4".into(),
        ("PMIX_NUM_NODES" | "PMIX_JOB_NUM_APPS", Job) => "uint32 2".into(),
        ("PMIX_NODE_LIST", Job) => format!("string {}", text(NODE_MAP)),
        ("PMIX_APPNUM", App(app)) => format!("uint32 {}", APPNUMS[app]),
        ("PMIX_APP_SIZE", App(_)) => "uint32 2".into(),
        ("PMIX_APPLDR", App(app)) => format!("rank {}", 2 * app),
        ("PMIX_HOSTNAME", Node(node)) => format!("string {}", NODES[node].0),
        ("PMIX_NODEID", Node(node)) => format!("uint32 {node}"),
        ("PMIX_LOCAL_SIZE", Node(_)) => "uint32 2".into(),
        ("PMIX_LOCAL_PEERS", Node(node)) => format!("string {node}%2C{}", node + 2),
        ("PMIX_LOCALLDR", Node(node)) => format!("rank {node}"),
        ("PMIX_HOSTNAME", Proc(rank)) => format!("string {}", NODES[rank % 2].0),
        ("PMIX_NODEID", Proc(rank)) => format!("uint32 {}", rank % 2),
        ("PMIX_APPNUM", Proc(rank)) => format!("uint32 {}", APPNUMS[rank / 2]),
        ("PMIX_RANK" | "PMIX_GLOBAL_RANK", Proc(rank)) => format!("rank {rank}"),
        ("PMIX_APP_RANK", Proc(rank)) => format!("rank {}", rank % 2),
        ("PMIX_LOCAL_RANK" | "PMIX_NODE_RANK", Proc(rank)) => format!("uint16 {}", rank / 2),
        _ => return None,
    })
}

#[test]
fn derived() {
    let rows = rows_of("derived");
    let proc = |rank: usize| format!("pmix.pdata ( pmix.rank rank {rank} site.key uint32 1 ) ");
    let app = |app: usize| {
        format!("pmix.app.arr ( pmix.appnum uint32 {} {}{}) ", APPNUMS[app], proc(2 * app), proc(2 * app + 1))
    };
    let maps = format!("pmix.nmap string {} pmix.pmap string {} ", text(NODE_MAP), text(PROC_MAP));
    let mut asked = Vec::new();
    for row in &rows {
        let before = asked.len();
        for place in LEVELS {
            let Some(answer) = derived_value(&row.attribute, place) else { continue };
            asked.extend(place.questions().into_iter().map(|question| ask(row, question, answer.clone())));
        }
        assert!(asked.len() > before, "{} is not derived", row.attribute);
    }
    let wrong = wrong_answers(&format!("{maps}{}{}", app(0), app(1)), &asked);
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/* ---- requests of processes to the host --------------------------------------------------------------------------------- */

/// The calls of `tests/programs/upcalls.c`. Some have a second list of infos: the rows' "CALL directives" and "CALL
/// qualifiers".
const CALLS: [&str; 16] = [
    "publish",
    "lookup",
    "unpublish",
    "spawn",
    "fence",
    "connect",
    "disconnect",
    "alloc",
    "jobctrl",
    "monitor",
    "log",
    "query",
    "getcred",
    "valcred",
    "fabric",
    "get",
];

/// A rank makes calls, each with infos. Returns the host's upcalls and the rank's answers as lines.
fn told_in_upcalls(script: &str) -> Vec<String> {
    let ended = Run::new(program("upcalls"), Library::ours()).input(script.as_bytes().to_vec()).run();
    assert_eq!(ended.code(), 0, "{ended}");
    assert!(ended.stdout.ends_with("rank ended with 0\n"), "{ended}");
    ended.stdout.lines().map(|line| format!("{line} ")).collect()
}

impl Row {
    /// Whether it is an argument of this call.
    fn is_of(&self, call: &str) -> bool {
        self.realms.iter().any(|realm| realm == call)
    }

    /// The info that a process passes in a call.
    fn said(&self) -> String {
        format!("{} {} ", self.key, self.value(Job, false))
    }
}

#[test]
fn handed_up() {
    let rows = rows_of("handed_up");
    let of = |call: &str| rows.iter().filter(|row| row.is_of(call)).collect::<Vec<_>>();
    let text = |rows: &[&Row]| rows.iter().map(|row| row.said()).collect::<String>();
    for call in CALLS {
        let second = match call {
            "spawn" => of(call),
            "query" => of("query qualifiers"),
            _ => of(&format!("{call} directives")),
        };
        let first = match call {
            // A call monitors one thing.
            "monitor" => of(call).into_iter().map(|row| vec![row]).collect(),
            _ => vec![of(call)],
        };
        for first in first {
            let lines = told_in_upcalls(&format!("{call} {}) {}\n", text(&first), text(&second)));
            let of_call = format!("upcall {call} ");
            let upcall = lines.iter().find(|line| line.starts_with(&of_call)).unwrap_or_else(|| panic!("{lines:?}"));
            let (in_first, in_second) = upcall.split_once(" | ").unwrap_or((upcall, ""));
            for row in first {
                // A query passes names only.
                let said = if call == "query" { format!("{} string asked ", row.key) } else { row.said() };
                assert!(in_first.contains(&format!(" {said}")), "{}: {upcall}", row.attribute);
            }
            for row in &second {
                assert!(in_second.contains(&format!(" {}", row.said())), "{}: {upcall}", row.attribute);
            }
            // The host's results.
            let answer = lines.iter().find(|line| line.starts_with(&format!("{call} status "))).expect("an answer");
            let comes_back = match call {
                "alloc" | "fabric" | "jobctrl" | "query" | "valcred" => {
                    in_first.split_once(" ( ").map_or("", |(_, infos)| infos)
                }
                "monitor" => in_second,
                _ => "",
            };
            assert!(answer.contains(comes_back.trim_end()), "{answer}: not {comes_back}");
        }
    }
}

/// The server adds infos about the requestor and ignores the process's own claims.
#[test]
fn added() {
    let rows = rows_of("added");
    let lie = "pmix.euid uint32 77 pmix.egid uint32 77 pmix.parent proc nobody 7 pmix.spawned bool 0";
    let (uid, gid) = (nix::unistd::geteuid(), nix::unistd::getegid());
    let value = |attribute: &str| match attribute {
        "PMIX_USERID" => format!("uint32 {uid}"),
        "PMIX_GRPID" => format!("uint32 {gid}"),
        "PMIX_SPAWNED" | "PMIX_REQUESTOR_IS_CLIENT" => "bool 1".into(),
        "PMIX_PARENT_ID" | "PMIX_LOG_SOURCE" => "proc job 0".into(),
        "PMIX_LOCAL_COLLECTIVE_STATUS" => "status 0".into(),
        "PMIX_REQUIRED_KEY" => "string site.key".into(),
        other => panic!("{other} is not added"),
    };
    for call in CALLS.into_iter().chain(["events", "group"]) {
        let script = match call {
            "monitor" | "log" | "query" => format!("{call} site.first string what ) {lie}\n"),
            "fence" | "connect" | "disconnect" | "group" | "get" => format!("{call}\n"),
            _ => format!("{call} {lie}\n"),
        };
        let lines = told_in_upcalls(&script);
        let of_call = format!("upcall {call} ");
        let upcall = lines.iter().find(|line| line.starts_with(&of_call)).unwrap_or_else(|| panic!("{lines:?}"));
        for row in rows.iter().filter(|row| row.is_of(&format!("to {call}"))) {
            let said = format!(" {} {} ", row.key, value(&row.attribute));
            assert!(upcall.contains(&said), "{}: {upcall}", row.attribute);
            assert_eq!(upcall.matches(&format!(" {} ", row.key)).count(), 1, "{}: {upcall}", row.attribute);
        }
    }
}

/// The members of a group get the host's infos and those that the server adds.
#[test]
fn given_to_groups() {
    let rows = rows_of("given_to_groups");
    let said: String = rows.iter().filter(|row| row.is_of("group")).map(Row::said).collect();
    let lines = told_in_upcalls(&format!("group {said}\n"));
    let upcall = lines.iter().find(|line| line.starts_with("upcall group ")).unwrap_or_else(|| panic!("{lines:?}"));
    let answer = lines.iter().find(|line| line.starts_with("group status 0 ")).unwrap_or_else(|| panic!("{lines:?}"));
    for row in &rows {
        if row.is_of("group") {
            assert!(upcall.contains(&format!(" {}", row.said())), "{}: {upcall}", row.attribute);
        } else {
            assert!(answer.contains(&format!(" {} ", row.key)), "{}: {answer}", row.attribute);
        }
    }
    assert!(answer.contains("pmix.grp.ctxid size 4711 "), "{answer}");
}

/* ---- attributes of PMIx_server_init ----------------------------------------------------------------------------------- */

#[test]
fn server_name_and_address() {
    let rows = rows_of("server_name_and_address");
    let key = |attribute: &str| {
        let row = rows.iter().find(|row| row.attribute == attribute);
        row.map(|row| row.key.as_str()).unwrap_or_else(|| panic!("{attribute} names this test"))
    };
    let [nspace, rank, report, port] =
        ["PMIX_SERVER_NSPACE", "PMIX_SERVER_RANK", "PMIX_TCP_REPORT_URI", "PMIX_TCP_IPV4_PORT"].map(key);
    let told = format!("{nspace} string host {rank} rank 7 {report} string %2D");
    let ended = registry::ended(Library::ours(), &format!("init {told}\n"));
    assert!(ended.stdout.starts_with("host.7;tcp4://127.0.0.1:"), "{ended}");
    // A port that is in use cannot be taken.
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let number = taken.local_addr().expect("a port").port();
    let ended = registry::ended(Library::ours(), &format!("init {told} {port} int {number}\n"));
    assert_eq!((ended.code(), ended.stdout.as_str()), (71, ""), "{ended}");
    assert!(ended.stderr.contains("registry: PMIx_server_init: "), "{ended}");
}

#[test]
fn local_output() {
    for row in rows_of("local_output") {
        for is_wanted in [true, false] {
            let init = format!("init {} bool {}", row.key, u8::from(is_wanted));
            let ended = registry::ended(
                Library::ours(),
                &format!("{init}\nregister job 1 pmix.job.size uint32 1\ndeliver job 0 text%0A\n"),
            );
            assert_eq!(ended.stdout.lines().any(|line| line == "text"), is_wanted, "{ended}");
        }
    }
}

#[test]
fn logged_by_a_gateway() {
    let keys: Vec<String> = rows_of("logged_by_a_gateway").into_iter().map(|row| row.key).collect();
    let [gateway, streams @ ..] = &keys[..] else { panic!("no rows") };
    for is_gateway in [true, false] {
        let logs: String = streams.iter().map(|key| format!("log {key} {key}%0A\n")).collect();
        let init = format!("init {gateway} bool {} pmix.iof.local bool 1", u8::from(is_gateway));
        let ended = registry::ended(Library::ours(), &format!("{init}\n{logs}"));
        let answers = ended.stdout.lines().filter(|line| *line == "status 0").count();
        assert_eq!(answers, if is_gateway { streams.len() } else { 0 }, "{ended}");
        for key in streams {
            let is_output = key.ends_with("stdout");
            let (written, other) =
                if is_output { (&ended.stdout, &ended.stderr) } else { (&ended.stderr, &ended.stdout) };
            assert_eq!(written.lines().any(|line| line == key), is_gateway, "{ended}");
            assert!(!other.lines().any(|line| line == key), "{ended}");
        }
    }
}

#[test]
fn without_data() {
    for row in rows_of("without_data") {
        for is_asked in [true, false] {
            let register = format!("register job 0 {} bool {} pmix.job.size uint32 4", row.key, u8::from(is_asked));
            let get = format!("get job {WILDCARD} pmix.job.size {OPTIONAL}");
            let answers = registry::run(Library::ours(), &format!("{register}\n{get}\n"));
            assert_eq!(answers[1] == "uint32 4 status 0", !is_asked, "{answers:?}");
        }
    }
}
