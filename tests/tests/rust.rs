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
    example("pmix-client", "hello")
}

#[test]
fn the_example_host_runs_the_example_rank() {
    for size in [1, 3] {
        let traces = Traces::begin();
        let host = Run::new(example("pmix-server", "host"), Library::ours()).traced(&traces);
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
        let host = Run::new(example("pmix-server", "host"), pair.ranks).traced(&traces);
        let ended = host.arg("2").arg(program("behave")).arg("meet").run();
        assert_eq!(ended.code(), 0, "{pair:?}: {ended}");
        assert_eq!(ended.count(": through"), 2, "{pair:?}: {ended}");
        traces.assert_none_left(&ended);
    }
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
            let ended = host.args("-n 2").arg(example("pmix-client", name)).run();
            assert_eq!(ended.code(), 0, "{ended}");
            assert!(ended.count(said) > 0, "{ended}");
            traces.assert_none_left(&ended);
        }
    }
}
