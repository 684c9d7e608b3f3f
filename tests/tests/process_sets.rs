//! Process sets of the command line of `pmixrun`, with this library and with the stock one in the ranks.

use pmix_tests::{Library, Profile, Run, pmixrun, program};

/// Each set has the ranks of the applications that name it; two applications share one.
#[test]
fn applications_are_in_the_process_sets_of_the_command_line() {
    for library in [Library::Ours(Profile::Debug), Library::Stock] {
        let script = "query pmix.qry.psets bool 1 ) )\nquery pmix.qry.pmems bool 1 ) pmix.pset.nm string ends )\n";
        let run = Run::new(pmixrun(), library).args("--timeout 60 -n 1 --pset ends").arg(program("upcalls"));
        let run = run.args("ask : -n 2 --pset middle true : -n 1 --pset ends true");
        let ended = run.input(script.as_bytes().to_vec()).run();
        let told: Vec<&str> = ended.stdout.lines().collect();
        let [names, members] = told[..] else { panic!("{library:?}: {ended}") };
        assert_eq!(
            (ended.code(), names),
            (0, "query status 0 ( pmix.qry.psets string ends%2Cmiddle )"),
            "{library:?}: {ended}"
        );
        let words: Vec<&str> = members.split(' ').collect();
        let ["query", "status", "0", "(", "pmix.qry.pmems", "array", "proc", "2", first, "0", second, "3", ")"] =
            words[..]
        else {
            panic!("{library:?}: {ended}")
        };
        assert!(first == second && first.starts_with("run-"), "{library:?}: {ended}");
    }
}
