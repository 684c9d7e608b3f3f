//! Values that are put repeatedly while threads of all ranks read them (`tests/programs/generations.c`): no value is
//! torn, none is older than the last fence, and none that was read by pointer changes.

use pmix_tests::{Library, Run, Traces, program, times};

fn generations_of(ranks: usize, threads: usize, shared_memory: &str) {
    // After this many, three out of four segments have been merged with others and their files removed.
    run(ranks, times(150, 3_000), &threads.to_string(), shared_memory);
}

/// `arguments` are those of the program after the number of generations.
fn run(ranks: usize, generations: usize, arguments: &str, shared_memory: &str) {
    let traces = Traces::begin();
    let ended = Run::ranks(ranks, program("generations"), Library::ours())
        .traced(&traces)
        .env("PMIX_DSTORE_SHM", shared_memory)
        .args(&format!("{generations} {arguments}"))
        .within(10)
        .succeed();
    assert_eq!(ended.count(&format!(": {generations} generations, read ")), ranks, "{ended}");
    assert_eq!(ended.stderr, "", "{ended}");
    traces.assert_none_left(&ended);
}

/// The publications of a rank's life are not all mapped at a time, and what it points to stays.
#[test]
fn replaced_segments_are_unmapped_under_threads_that_read() {
    const THREADS: usize = 2;
    // The live ones, those of a grace period and of the next one, and those to which threads point.
    let mapped = 350 + 8 * THREADS;
    run(times(2, 6), times(400, 20_000), &format!("{THREADS} {mapped}"), "1");
}

#[test]
fn threads_of_one_process_read_its_own() {
    generations_of(1, times(4, 12), "1");
}

#[test]
fn threads_of_several_processes_read_each_others() {
    generations_of(times(3, 6), times(3, 6), "1");
}

#[test]
fn threads_read_over_the_socket() {
    generations_of(times(3, 6), 3, "0");
}
