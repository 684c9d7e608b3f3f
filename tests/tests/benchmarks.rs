//! The programs of `make bench` with small sizes, and the number of instructions of each kind of call.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;

use pmix_tests::{
    Library, PLACEMENTS, Profile, Run, benchmark_program, floor_library, left_out, program, published, release_of,
    release_of_mpirun, repository, times,
};

/// Calls that the stock library does not serve in this job.
const OURS_ONLY: [&str; 2] = ["own-host", "static-bytes"];

/// The benchmark programs' lines for each call, with one library.
fn calls(library: Library, shape: &str) -> Vec<String> {
    let run = Run::new(benchmark_program("host", &[]), library).args(shape);
    let ended = run.arg(benchmark_program("calls", &[])).args("--calls 256").succeed();
    let classes = ended.stdout.lines().filter_map(|line| line.strip_prefix("class "));
    let names: Vec<_> = classes.filter_map(|line| line.split(' ').next()).map(str::to_owned).collect();
    let missing: Vec<_> = ended.stdout.lines().filter_map(|line| line.strip_prefix("missing ")).collect();
    assert_eq!(missing, if library == Library::Stock { &OURS_ONLY[..] } else { &[] }, "{ended}");
    names
}

#[test]
fn calls_of_every_kind_are_measured() {
    let ours = calls(Library::ours(), "--servers 2 --clients 2 --nodes 8 --per-node 4 --infos");
    assert_eq!(ours.len(), 20, "{ours:?}");
    let stock = calls(Library::Stock, "--servers 2 --clients 2 --nodes 8 --per-node 4 --infos");
    assert!(stock.iter().eq(ours.iter().filter(|call| !OURS_ONLY.contains(&call.as_str()))), "{stock:?}");
    let alone = calls(Library::ours(), "--clients 2");
    assert_eq!(alone.len(), 19, "there is no rank on another node: {alone:?}");
}

/// Values of a large job equal the host's registration; with `PMIX_TEST_LARGE`, 100,000 values of a job of 1,048,576 ranks.
#[test]
fn values_of_random_ranks_equal_the_registered_ones() {
    let (nodes, gets) = times((32, 9_000), (16_384, 100_000));
    let regular = ["--infos", "", "--infos --shape scattered"].map(str::to_owned);
    for given in regular.into_iter().chain(PLACEMENTS.map(|shape| format!("--shape {shape}"))) {
        let run = Run::new(benchmark_program("host", &[]), Library::ours());
        let run = run.args(&format!("--clients 2 --per-node 64 --timeout 240 --nodes {nodes} {given}"));
        let ended = run.arg(benchmark_program("calls", &[])).args(&format!("--check {gets}")).succeed();
        assert!(ended.stdout.contains(&format!("checked {gets}\n")), "{ended}");
    }
}

/// A fence delivers published values of simulated ranks. Each Get reads the key that the previous value selects.
#[test]
fn values_lead_from_rank_to_rank() {
    let file = published(8 * 64);
    for (library, shape) in [(Library::ours(), "--shape scattered"), (Library::ours(), ""), (Library::Stock, "")] {
        let run = Run::new(benchmark_program("host", &[]), library);
        let run = run.args(&format!("--clients 2 --nodes 8 --per-node 64 {shape} --published")).arg(&file);
        let ended = run.arg(benchmark_program("calls", &[])).args("--cold --calls 64").succeed();
        assert_eq!((ended.count("class cold-"), ended.count("missing ")), (4, 0), "{ended}");
    }
}

#[test]
fn ranks_get_ready_and_read_all_peers() {
    for library in [Library::ours(), Library::Stock] {
        let run = Run::new(benchmark_program("host", &[]), library).args("--servers 2 --clients 4 --per-node 6");
        let ended = run.arg(benchmark_program("wire", &[])).args("--peers --fences 2 --copy").succeed();
        let count = |kind: &str| ended.stdout.lines().filter(|line| line.starts_with(kind)).count();
        assert_eq!((count("rank "), count("fence "), count("copy "), count("host ")), (8, 2, 8, 10), "{ended}");
    }
}

/// The baselines of wire-up: idle processes of the same host, and one that is linked to the library.
#[test]
fn processes_that_do_nothing_are_measured() {
    let (idle, linked) = (benchmark_program("idle", &[]), benchmark_program("idle", &["-DLINKED"]));
    for library in [Library::ours(), Library::Stock] {
        let ended = Run::new(benchmark_program("host", &[]), library).args("--clients 3").arg(&idle).succeed();
        let count = |kind: &str| ended.stdout.lines().filter(|line| line.starts_with(kind)).count();
        assert_eq!((count("rank 0 "), count("host processor ")), (3, 1), "{ended}");
        let ended = Run::new(benchmark_program("start", &[]), library).arg("3").arg(&idle).arg(&linked).succeed();
        let said = |program: &std::path::Path| format!("start {} ", program.display());
        let lines: Vec<_> = ended.stdout.lines().collect();
        assert!(
            lines.len() == 2 && lines[0].starts_with(&said(&idle)) && lines[1].starts_with(&said(&linked)),
            "{ended}"
        );
    }
}

/// The floor beneath whole jobs: ranks that find each other, and the result of whose allreduce is right, without a server.
#[test]
fn ranks_without_a_server_do_a_whole_job() {
    if release_of_mpirun(None).is_none_or(|release| !release.starts_with("4.")) {
        return left_out("packages", "Open MPI 4, whose calls the floor answers");
    }
    for topology in ["/dev/null", "/nonexistent"] {
        let run = Run::new(benchmark_program("floor", &[]), Library::Stock);
        let run = run.env("LD_LIBRARY_PATH", floor_library()).args(&format!("3 {topology}")).arg(program("wireup"));
        let ended = run.run();
        let is_well = topology == "/dev/null";
        assert_eq!((ended.code() == 0, ended.count("wired up at ")), (is_well, if is_well { 3 } else { 0 }), "{ended}");
    }
}

/// The number of counted calls of each kind.
const COUNTED: u64 = 500;
/// A larger excess over the recorded count, in percent, is a regression.
const TOLERANCE: u64 = 5;

/// The instructions of each kind of call as callgrind counts them, compared with `benches/instructions.tsv`.
///
/// `PMIX_BENCH_COUNTS=write` writes that file. Counts hold for one compiler's code in the installed profile, with the
/// string functions that the C library selects under valgrind; counts of another compiler are not compared.
#[test]
fn instructions_of_each_call() {
    let (Some(compiler), Some(valgrind)) = (release_of("rustc"), release_of("valgrind")) else {
        left_out("packages", "valgrind counts the instructions, and is not installed");
        return;
    };
    if Library::ours() != Library::Ours(Profile::Release) {
        left_out("release", "instructions are counted of the installed profile, which `make test` runs");
        return;
    }
    let own = tempfile::tempdir().unwrap();
    let counted = "if [ \"$PMIX_RANK\" = 0 ]; then\n\
        exec valgrind -q --tool=callgrind --callgrind-out-file=\"$OUT\" \"$@\"\nfi\nexec \"$@\"";
    let run = Run::new(benchmark_program("host", &[]), Library::ours());
    let run =
        run.args("--servers 2 --clients 2 --nodes 64 --per-node 16 --infos").arg("/bin/sh").arg("-c").arg(counted);
    let program = benchmark_program("calls", &["-DCOUNTED"]);
    let run = run.env("OUT", own.path().join("counts")).arg("sh").arg(program).args("--count --calls");
    let ended = run.arg(COUNTED.to_string()).succeed();

    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    for file in fs::read_dir(own.path()).unwrap() {
        let text = fs::read_to_string(file.unwrap().path()).unwrap();
        let after = |start: &str| text.lines().find_map(|line| line.strip_prefix(start)).map(str::trim);
        if let (Some(class), Some(total)) = (after("desc: Trigger: Client Request:"), after("summary:")) {
            counts.insert(class.to_owned(), total.parse::<u64>().unwrap() / COUNTED);
        }
    }
    assert_eq!(counts.len(), 20, "{ended}");
    let file = repository().join("benches/instructions.tsv");
    if std::env::var("PMIX_BENCH_COUNTS").is_ok_and(|value| value == "write") {
        let mut text = format!("# {compiler}; {valgrind}\ncall\tinstructions\n");
        counts.iter().for_each(|(class, count)| writeln!(text, "{class}\t{count}").unwrap());
        fs::write(file, text).unwrap();
        return;
    }
    let recorded = fs::read_to_string(file).unwrap();
    let mut lines = recorded.lines();
    if lines.next() != Some(format!("# {compiler}; {valgrind}").as_str()) {
        let reason = format!("the recorded counts are another compiler's or valgrind's; here they are {counts:?}");
        left_out("toolchain", reason);
        return;
    }
    let recorded: BTreeMap<_, u64> = lines
        .skip(1)
        .map(|line| line.split_once('\t').expect("two columns"))
        .map(|(class, count)| (class.to_owned(), count.parse().unwrap()))
        .collect();
    assert!(recorded.keys().eq(counts.keys()), "{recorded:?} {counts:?}");
    let worse: Vec<_> =
        counts.iter().filter(|(class, count)| **count * 100 > recorded[*class] * (100 + TOLERANCE)).collect();
    assert!(worse.is_empty(), "more than before: {worse:?}, recorded {recorded:?}; see the head of this test");
}

/// `ffi/start.ld` names the functions that a rank runs, so that they lie side by side in the installed library. Renamed functions drop
/// out of it, and each rank's start takes more page faults.
#[test]
fn functions_of_a_start_are_listed() {
    if Library::ours() != Library::Ours(Profile::Release) {
        left_out("release", "functions have an order in the installed profile alone");
        return;
    }
    if release_of("valgrind").is_none() {
        left_out("valgrind", "it finds the functions that a rank runs");
        return;
    }
    let check = Run::new(repository().join("ffi/start.sh"), Library::Stock);
    check.arg("--check").arg(Library::ours().directory()).succeed();
}

/// The most pages of the installed library that a rank may have written, in KiB: what the loader relocates, and variables. One more than today.
const WRITTEN_PAGES_MAX: u64 = 44;

/// Each page that the loader or the library writes is memory of every rank. Tables of texts, formatted errors of foreign crates, and places of
/// panics have pointers, which are relocated: docs/log/wire-up.md tells where they come from and how `ffi/start.ld` lays out variables.
///
/// The bound holds for one compiler's code.
#[test]
fn pages_of_the_library_that_a_rank_writes() {
    if Library::ours() != Library::Ours(Profile::Release) {
        left_out("release", "the linker removes what is not needed in the installed profile alone");
        return;
    }
    let recorded = fs::read_to_string(repository().join("benches/instructions.tsv")).unwrap();
    if !release_of("rustc").is_some_and(|rustc| recorded.starts_with(&format!("# {rustc};"))) {
        left_out("toolchain", "the bound is for another compiler's code");
        return;
    }
    let run = Run::new(benchmark_program("host", &[]), Library::ours()).args("--clients 2");
    let ended = run.arg(benchmark_program("wire", &[])).arg("--pages").succeed();
    let pages = ended.stdout.lines().filter_map(|line| line.strip_prefix("pages ")?.parse::<u64>().ok());
    let pages: Vec<_> = pages.collect();
    assert!(pages.len() == 2 && pages.iter().all(|kib| (1..=WRITTEN_PAGES_MAX).contains(kib)), "{pages:?}; {ended}");
}
