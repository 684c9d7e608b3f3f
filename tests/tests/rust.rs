//! The Rust API: the examples of the crates' documentation, as ranks and as host, with each other and with other
//! programs.

use pmix_tests::{Ended, Library, Pair, Run, Traces, example, program};

/// Asserts that a job of `size` ranks of `hello` succeeded: each rank got the values of all others.
fn assert_said(ended: &Ended, size: usize) {
    assert_eq!(ended.code(), 0, "{ended}");
    for rank in 0..size {
        for peer in 0..size {
            assert_eq!(ended.count(&format!("rank {rank} of {size}: rank {peer} is process ")), 1, "{ended}");
        }
    }
}

fn hello() -> std::path::PathBuf {
    example("hello")
}

#[test]
fn the_example_host_runs_the_example_rank() {
    for size in [1, 3] {
        let traces = Traces::begin();
        let host = Run::new(example("host"), Library::ours()).traced(&traces);
        let ended = host.arg(size.to_string()).arg(hello()).run();
        assert_said(&ended, size);
        assert_eq!(ended.stderr, "", "{ended}");
        traces.assert_none_left(&ended);
    }
}

#[test]
fn the_example_host_runs_ranks_of_c() {
    for pair in &Pair::all()[..2] {
        let traces = Traces::begin();
        let host = Run::new(example("host"), pair.ranks).traced(&traces);
        let ended = host.arg("2").arg(program("behave")).arg("meet").run();
        assert_eq!(ended.code(), 0, "{pair:?}: {ended}");
        assert_eq!(ended.count(": through"), 2, "{pair:?}: {ended}");
        traces.assert_none_left(&ended);
    }
}

/// Asserts that each of `size` ranks of `hello_client` got the values of all others and the greeting of rank 0.
fn assert_greeted(ended: &Ended, size: usize) {
    assert_eq!(ended.code(), 0, "{ended}");
    for rank in 0..size {
        let begin = format!("rank {rank} of {size}: ");
        for peer in 0..size {
            assert_eq!(ended.count(&format!("{begin}rank {peer} is process ")), 1, "{ended}");
        }
        let greeted =
            ended.stdout.lines().filter(|line| line.starts_with(&begin) && line.ends_with(" says good morning"));
        assert_eq!(greeted.count(), 1, "{ended}");
    }
}

#[test]
fn the_pmix_crates_host_runs_its_client() {
    for size in [1, 4] {
        let traces = Traces::begin();
        let host = Run::new(example("hello_host"), Library::ours()).traced(&traces);
        let ended = host.arg(size.to_string()).arg(example("hello_client")).run();
        assert_greeted(&ended, size);
        assert_eq!(ended.stderr, "", "{ended}");
        traces.assert_none_left(&ended);
    }
}

#[test]
fn the_pmix_crates_host_runs_ranks_of_c_and_of_mpi() {
    for ranks in [Library::ours(), Library::Stock] {
        for (name, word, said, count) in [("behave", "meet", ": through", 3), ("mpi", "hello", " of 3: library ", 3)] {
            let traces = Traces::begin();
            let host = Run::new(example("hello_host"), ranks).traced(&traces);
            let ended = host.arg("3").arg(program(name)).arg(word).run();
            assert_eq!((ended.code(), ended.count(said)), (0, count), "{ranks:?}, {name}: {ended}");
            traces.assert_none_left(&ended);
        }
    }
}

#[test]
fn the_pmix_crates_ranks_get_settings_and_nothing_of_an_outer_launcher() {
    let host = Run::new(example("hello_host"), Library::ours()).env("PMIX_OUTER", "1").env("PMIX_RANK", "9");
    let ended = host.env("PMIX_MCA_inner", "1").env("PMIX_DSTORE_SHM", "0").args("1 /usr/bin/env").succeed();
    for (line, count) in
        [("PMIX_OUTER=1", 0), ("PMIX_RANK=0", 1), ("PMIX_RANK=9", 0), ("PMIX_MCA_inner=1", 1), ("PMIX_DSTORE_SHM=0", 1)]
    {
        assert_eq!(ended.count(line), count, "{line}: {ended}");
    }
}

#[test]
fn the_pmix_crates_client_runs_under_others() {
    let traces = Traces::begin();
    let ended = Run::ranks(3, example("hello_client"), Library::ours()).traced(&traces).run();
    assert_greeted(&ended, 3);
    traces.assert_none_left(&ended);
    for server in [Library::ours(), Library::Stock] {
        let traces = Traces::begin();
        let ended = Run::new(program("host"), server).traced(&traces).args("-n 3").arg(example("hello_client")).run();
        assert_greeted(&ended, 3);
        traces.assert_none_left(&ended);
    }
}

#[test]
fn a_failure_of_the_pmix_crates_programs_is_told() {
    let host = example("hello_host");
    for (arguments, said) in [
        ("", "hello_host RANKS PROGRAM..."),
        ("2 /bin/false", "2 ranks failed"),
        ("1 /no/such", "No such file or directory"),
        ("0 /bin/true", "registration of a job of hello:wildcard: the job has no ranks; add a node with ranks"),
    ] {
        let ended = Run::new(&host, Library::ours()).args(arguments).run();
        assert_eq!(ended.code(), 1, "{ended}");
        assert!(ended.stderr.contains(said), "{ended}");
    }
    let ended = Run::new(example("hello_client"), Library::ours()).env("PMIX_NAMESPACE", "a").run();
    assert_eq!(ended.code(), 1, "{ended}");
    assert!(ended.stderr.contains("Error: reading the environment: PMIX_ERR_DATA_VALUE_NOT_FOUND"), "{ended}");
}

#[test]
fn the_example_ranks_run_under_others() {
    let traces = Traces::begin();
    let ended = Run::ranks(3, hello(), Library::ours()).traced(&traces).run();
    assert_said(&ended, 3);
    traces.assert_none_left(&ended);
    for server in [Library::ours(), Library::Stock] {
        for (name, said) in [("hello", "rank 1 of 2: rank 0 is process "), ("rank", ": done")] {
            let traces = Traces::begin();
            let host = Run::new(program("host"), server).traced(&traces);
            let ended = host.args("-n 2").arg(example(name)).run();
            assert_eq!(ended.code(), 0, "{ended}");
            assert!(ended.count(said) > 0, "{ended}");
            traces.assert_none_left(&ended);
        }
    }
}
