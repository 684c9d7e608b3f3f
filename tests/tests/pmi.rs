//! Programs that are linked to Slurm's libraries for PMI-1 and PMI-2, with ours of these names, under pmixrun and mpirun; `slurm_pmi.rs` has them
//! under Slurm.

use pmix_tests::{Ended, Library, Pair, Run, Traces, pmi_library, pmi_program, pmixrun};

/// The programs that are linked to Slurm's libraries for PMI, and the name of each.
const LINKED: [(&str, &str); 2] = [("pmi1", "libpmi.so.0"), ("pmi2", "libpmi2.so.0")];

/// A job of such a program with our libraries for PMI beside the PMIx library of its launcher.
fn linked(run: Run, library: Library, (name, soname): (&str, &str)) -> Run {
    let path = format!("LD_LIBRARY_PATH={}:{}", pmi_library().display(), library.directory().display());
    run.arg("env").arg(path).arg(pmi_program(name, soname))
}

fn assert_linked(what: &str, ended: &Ended, size: usize) {
    assert_eq!((ended.count(&format!(" of {size} done")), ended.count("FAIL")), (size, 0), "{what}: {ended}");
}

#[test]
fn programs_linked_to_slurms_libraries_run_over_our_server() {
    for program in LINKED {
        for size in [1, 4] {
            let traces = Traces::begin();
            let run = Run::new(pmixrun(), Library::ours()).traced(&traces).args(&format!("-n {size} --json"));
            let ended = linked(run, Library::ours(), program).succeed();
            assert_linked(program.0, &ended, size);
            assert!(ended.stderr.contains(&format!("\"clients_shared_memory\":{size}")), "{ended}");
            traces.assert_none_left(&ended);
        }
        let alone = linked(Run::new("env", Library::ours()), Library::ours(), program).succeed();
        assert_linked(program.0, &alone, 1);
    }
}

#[test]
fn programs_linked_to_slurms_libraries_run_under_mpirun() {
    for program in LINKED {
        for server in [Library::ours(), Library::Stock] {
            let pair = Pair { server, ranks: Library::ours() };
            let traces = Traces::begin();
            let ended = linked(pair.mpirun(&traces).args("-np 4"), Library::ours(), program).succeed();
            assert_linked(program.0, &ended, 4);
        }
    }
}

#[test]
fn an_abort_by_pmi_ends_the_job_with_its_status() {
    for (program, code) in LINKED.into_iter().zip([7, 1]) {
        let ended =
            linked(Run::new(pmixrun(), Library::ours()).args("-n 4"), Library::ours(), program).arg("abort").run();
        assert_eq!(ended.code(), code, "{}: {ended}", program.0);
        let said = "rank 2 (pid ";
        assert!(ended.stderr.contains(said), "{}: {ended}", program.0);
        assert!(
            ended.stderr.contains(&format!(") called abort with status {code}: no more")),
            "{}: {ended}",
            program.0
        );
    }
}

/// Without this a program would run as so many jobs of one.
#[test]
fn under_a_launcher_without_pmix_the_library_refuses() {
    for program in LINKED {
        let ended = linked(Run::new("env", Library::ours()).env("PMI_FD", "7"), Library::ours(), program).run();
        assert_eq!(ended.code(), 9, "{ended}");
        assert!(ended.stderr.contains("PMI_FD is set, and PMIX_NAMESPACE is not"), "{ended}");
    }
}

/// Nor where the server of its job has ended.
#[test]
fn without_the_server_of_its_job_the_library_refuses() {
    let gone = [("PMIX_NAMESPACE", "gone"), ("PMIX_RANK", "2"), ("PMIX_SERVER_URI41", "gone.0;tcp4://127.0.0.1:1")];
    for program in LINKED {
        let run = linked(Run::new("env", Library::ours()), Library::ours(), program);
        let ended = gone.into_iter().fold(run, |run, (name, value)| run.env(name, value)).run();
        assert_eq!((ended.code(), ended.count("FAIL PMI")), (9, 1), "{ended}");
        assert!(ended.stderr.contains("no connection to server gone:0 at 127.0.0.1:1"), "{ended}");
    }
}
