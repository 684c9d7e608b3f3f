//! docs/host-guide.md: its programs are taken out of it, compiled and run, and its table of keys is measured.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use pmix::{Host, Info, Nspace, Proc, Rank, Status, attributes};
use pmix_tests::{Ended, Library, Run, Traces, program, repository};

fn guide() -> String {
    fs::read_to_string(repository().join("docs/host-guide.md")).expect("the guide")
}

/// The first block of code in this language.
fn block(language: &str) -> String {
    let guide = guide();
    let code = guide.split_once(&format!("\n```{language}\n")).and_then(|(_, rest)| rest.split_once("\n```\n"));
    code.unwrap_or_else(|| panic!("the guide has no block of {language}")).0.to_owned() + "\n"
}

/// The host in C, compiled with the headers of a library.
fn compiled(directory: &Path, headers: Library) -> PathBuf {
    let (source, output) = (directory.join("host.c"), directory.join(format!("host-{}", headers.is_ours())));
    fs::write(&source, block("c")).expect("a file");
    let mut compile = Command::new("cc");
    compile.args(["-O1", "-Wall", "-Wextra", "-Werror"]).arg(&source).arg("-o").arg(&output);
    compile.arg(format!("-I{}", headers.headers().display()));
    compile.arg(format!("-L{}", Library::Stock.directory().display())).args(["-Wl,--as-needed", "-lpmix"]);
    let ended = compile.output().expect("a C compiler");
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    output
}

#[test]
fn the_guides_host_in_c_runs_ranks_on_both_libraries() {
    let directory = tempfile::tempdir().expect("a directory");
    for headers in [Library::ours(), Library::Stock] {
        let host = compiled(directory.path(), headers);
        for library in [Library::ours(), Library::Stock] {
            for (name, word, said) in [("behave", "meet", ": through"), ("mpi", "hello", " of 3: library ")] {
                let traces = Traces::begin();
                let ended = Run::new(&host, library).traced(&traces).arg("3").arg(program(name)).arg(word).run();
                assert_eq!((ended.code(), ended.count(said)), (0, 3), "{library:?}, {name}: {ended}");
                assert!(!library.is_ours() || ended.stderr.is_empty(), "{ended}");
                if library.is_ours() {
                    traces.assert_none_left(&ended);
                }
            }
        }
        let ended = Run::new(&host, Library::ours()).args("2 /no/such/program").run();
        assert_eq!(ended.code(), 1, "{ended}");
        assert!(ended.stderr.contains("/no/such/program: No such file or directory"), "{ended}");
    }
}

#[test]
fn the_guides_host_in_rust_is_the_example_that_other_tests_run() {
    let example = fs::read_to_string(repository().join("client/pmix/examples/hello_host.rs")).expect("the example");
    assert_eq!(block("rust"), example);
}

const RANKS: u32 = 2;

/// The values that a host registers, but those that it leaves out.
fn registration(left_out: &[&str]) -> Vec<Info> {
    let all = [
        ("PMIX_JOB_SIZE", attributes::JOB_SIZE.info(RANKS)),
        ("PMIX_UNIV_SIZE", attributes::UNIV_SIZE.info(RANKS)),
        ("PMIX_MAX_PROCS", attributes::MAX_PROCS.info(RANKS)),
        ("PMIX_NODE_MAP", attributes::NODE_MAP.info("n1")),
        ("PMIX_PROC_MAP", attributes::PROC_MAP.info("0,1")),
    ];
    all.into_iter().filter(|(name, _)| !left_out.contains(name)).map(|(_, info)| info).collect()
}

/// What becomes of a job of MPI under a host that leaves these out, in the guide's words.
fn outcome_without(left_out: &[&str]) -> (&'static str, String) {
    let traces = Traces::begin();
    let host =
        Host::builder().hostname("n1").info(attributes::SERVER_TMPDIR.info(traces.directory().to_string_lossy()));
    let host = host.start().expect("a host");
    let server = host.server();
    let job = Nspace::new("guide").expect("a name");
    match server.register_nspace(job.clone(), RANKS as i32, registration(left_out), None) {
        Status::OPERATION_SUCCEEDED => {}
        refused => return ("the registration is refused", refused.to_string()),
    }
    let runs = (0..RANKS).map(|rank| {
        let proc = Proc::new(job.clone(), Rank(rank));
        let (uid, gid) = (nix::unistd::geteuid().as_raw(), nix::unistd::getegid().as_raw());
        assert_eq!(server.register_client(proc.clone(), uid, gid, 0, None), Status::OPERATION_SUCCEEDED);
        let variables = server.setup_fork(&proc).expect("an environment");
        let run = Run::new(program("mpi"), Library::ours()).traced(&traces).arg("hello");
        let run = variables.iter().fold(run, |run, (name, value)| run.env(name, value));
        if left_out.contains(&"JSM_JSRUN_PORT") { run } else { run.env("JSM_JSRUN_PORT", "host") }
    });
    let runs: Vec<Run> = runs.collect();
    // Singletons of Open MPI all make this directory, and one fails where another is faster, or removes it again.
    let node = fs::read_to_string("/proc/sys/kernel/hostname").expect("the machine's name");
    let sessions = traces.directory().join(format!("ompi.{}.{}", node.trim(), nix::unistd::getuid()));
    DirBuilder::new().mode(0o700).create(&sessions).expect("a directory");
    fs::create_dir(sessions.join("kept")).expect("a directory");
    let ended: Vec<Ended> = thread::scope(|scope| {
        let running: Vec<_> = runs.into_iter().map(|run| scope.spawn(|| run.run())).collect();
        running.into_iter().map(|run| run.join().expect("a rank")).collect()
    });
    host.finalize().expect("the host ends");
    let all = |holds: &dyn Fn(&Ended) -> bool| ended.iter().all(holds);
    let said = ended.iter().map(Ended::to_string).collect();
    if all(&|rank| rank.code() == 0 && rank.count(" of 2: library ") == 1) {
        ("it runs", said)
    } else if all(&|rank| rank.code() == 0 && rank.count("rank 0 of 1: library ") == 1) {
        ("two jobs of one rank", said)
    } else if all(&|rank| rank.code() != 0 && rank.stderr.contains("An error occurred in MPI_Init")) {
        ("`MPI_Init` fails", said)
    } else {
        ("none of these", said)
    }
}

#[test]
fn open_mpi_needs_of_a_host_what_the_guide_says() {
    let guide = guide();
    for (row, left_out) in [
        ("nothing", &[][..]),
        ("`PMIX_JOB_SIZE`, `PMIX_UNIV_SIZE`, `PMIX_MAX_PROCS`", &["PMIX_JOB_SIZE", "PMIX_UNIV_SIZE", "PMIX_MAX_PROCS"]),
        ("`PMIX_NODE_MAP`", &["PMIX_NODE_MAP"]),
        ("`PMIX_PROC_MAP`", &["PMIX_PROC_MAP"]),
        ("`PMIX_NODE_MAP`, `PMIX_PROC_MAP`", &["PMIX_NODE_MAP", "PMIX_PROC_MAP"]),
        ("the variable `JSM_JSRUN_PORT`", &["JSM_JSRUN_PORT"]),
    ] {
        let (outcome, said) = outcome_without(left_out);
        let row = format!("| {row} | {outcome} |");
        assert!(guide.contains(&row), "the guide does not say:\n{row}\n{said}");
    }
}

/// What Open MPI 4.1 reads without `PMIX_OPTIONAL`, by the records of `tests/modex`.
#[test]
fn the_guide_names_all_that_open_mpi_must_find() {
    let (guide, reads) =
        (guide(), fs::read_to_string(repository().join("tests/modex/reads.tsv")).expect("the records"));
    let needed = guide.lines().find(|line| line.starts_with("Open MPI 4.1 must find ")).expect("the list of the guide");
    let mut count = 0;
    for line in reads.lines() {
        let columns: Vec<&str> = line.split('\t').collect();
        if let ["4.1.4", _, _, _, "job" | "itself", key, "-", ..] = columns[..] {
            let name = attributes::ALL.iter().find(|(_, known, _)| *known == key).expect("a key of the standard").0;
            assert!(needed.contains(&format!("`{name}`")), "{name}: {needed}");
            count += 1;
        }
    }
    assert!(count > 0, "no reads of Open MPI 4.1.4");
}
