//! Many threads, forks and starts, and calls at moments at which programs seldom call: `tests/programs/wrong.c`, `cycle.c`, `cancelled.c`,
//! `moments.c` and `reopened.c`, each as ranks of a host of the same library. `tests/proof/sanitizer.sh thread soak` runs those without forks
//! under ThreadSanitizer.

use std::time::Duration;

use pmix_tests::{Ended, Run, Traces, program};

use crate::step::{Context, Part, Step};

pub(crate) const PART: Part = Part {
    name: "threads",
    about: "64 threads of mixed calls with init and finalize, forks, starts, dlopen, constructors, cancellation, signals",
    goals: &[("rounds of 64 threads", 40), ("forks", 10_000), ("starts of one process", 10_000), ("dlopens", 10_000)],
    every_in_short: 1,
    step,
};

/// Nothing here takes so long, on a machine that others use as well either.
const WITHIN: Duration = Duration::from_secs(400);

type Kind = fn(&Context<'_>, &mut Step);

const KINDS: [Kind; 8] = [mixed, forks_of_ranks, starts, reopened, cancelled, signals, forks_of_servers, structors];
/// ThreadSanitizer knows no threads after a fork, and has its own mind of libraries that are opened late.
const CHECKED: [Kind; 3] = [mixed, race, signals];

fn step(context: &Context<'_>) -> Step {
    let mut step = Step::default();
    let kinds: &[Kind] = if is_checked() { &CHECKED } else { &KINDS };
    let kind = (context.number % kinds.len() as u64) as usize;
    kinds[kind](context, &mut step);
    // Threads that race with finalize take as long as all others together.
    if !is_checked() && context.number.is_multiple_of(4 * kinds.len() as u64) {
        race(context, &mut step);
    }
    step
}

fn is_checked() -> bool {
    std::env::var_os("PROOF_SANITIZER").is_some()
}

/// Patience of processes under a checker.
fn patience() -> u32 {
    std::env::var("PMIX_TEST_PATIENCE").ok().and_then(|text| text.parse().ok()).unwrap_or(1)
}

/// A program as ranks of a host, on one library.
fn ranks(context: &Context<'_>, count: u32, name: &str, arguments: &str) -> Run {
    let limit = (WITHIN * patience()).as_secs();
    let run = Run::new(program("host"), context.side.0).args(&format!("-n {count} --timeout {limit}"));
    run.env("WRONG_ALARM", limit.to_string()).arg(program(name)).args(arguments)
}

/// Runs it, and counts `done` in its output, of which there must be one for each rank. Without that it is lost.
fn run(
    context: &Context<'_>,
    step: &mut Step,
    count: u32,
    name: &str,
    arguments: &str,
    done: &str,
    threads: u32,
) -> Option<Ended> {
    let traces = Traces::begin();
    let run = ranks(context, count, name, arguments).env("WRONG_THREADS", threads.to_string());
    let ended = step.succeed(run, &traces, (WITHIN + Duration::from_secs(10)) * patience())?;
    if ended.code() == 0 && ended.count(done) != count as usize {
        step.lose(format!("{name} {arguments} did not say {done:?}: {ended}"));
    }
    (ended.code() == 0).then_some(ended)
}

fn mixed(context: &Context<'_>, step: &mut Step) {
    if run(context, step, 1, "wrong", "threads", "threads done", 64).is_some() {
        step.count("rounds of 64 threads", 1);
    }
}

fn race(context: &Context<'_>, step: &mut Step) {
    if run(context, step, 1, "wrong", "race", "race done", 64).is_some() {
        step.count("finalized under 64 threads", 101);
    }
}

fn forks_of_ranks(context: &Context<'_>, step: &mut Step) {
    if run(context, step, 2, "moments", "forks 400", "forks done", 1).is_some() {
        step.count("forks", 800);
    }
}

/// As slurmstepd: a host that forks while its threads are busy; each child asks for the environment of a rank.
fn forks_of_servers(context: &Context<'_>, step: &mut Step) {
    let traces = Traces::begin();
    let run = Run::new(program("cycle"), context.side.0).args("fork 400");
    if step.succeed(run, &traces, WITHIN).is_some_and(|ended| ended.count("children done") == 1) {
        step.count("forks", 400);
    }
}

fn starts(context: &Context<'_>, step: &mut Step) {
    // All in one process, at first; afterwards shorter.
    let count = if context.state.count("starts of one process") == 0 { 10_000 } else { 500 };
    let Some(ended) = run(context, step, 1, "cycle", &format!("client {count}"), "after: ", 1) else { return };
    let line = |when: &str| ended.stdout.lines().find_map(|line| line.strip_prefix(when)).map(str::to_owned);
    if line("before: ") != line("after: ") {
        step.lose(format!("{count} starts of one process: {ended}"));
    }
    step.count("starts of one process", count);
}

fn reopened(context: &Context<'_>, step: &mut Step) {
    if run(context, step, 1, "reopened", "1000", "reopened done", 1).is_some() {
        step.count("dlopens", 1000);
    }
}

fn structors(context: &Context<'_>, step: &mut Step) {
    for _ in 0..10 {
        if run(context, step, 2, "moments", "structors", "structors done", 1).is_some() {
            step.count("constructors and destructors", 2);
        }
    }
}

fn cancelled(context: &Context<'_>, step: &mut Step) {
    let Some(ended) = run(context, step, 2, "cancelled", "80", ": through", 1) else { return };
    if ended.count("FAIL") > 0 {
        step.lose(format!("cancelled threads: {ended}"));
    }
    step.count("cancelled threads", 80);
}

fn signals(context: &Context<'_>, step: &mut Step) {
    let Some(ended) = run(context, step, 2, "moments", "signals 200", "signals done", 1) else { return };
    let taken =
        ended.stdout.lines().filter_map(|line| line.split_once(": ")?.1.strip_suffix(" signals")?.parse::<u64>().ok());
    step.count("signals", taken.sum());
}
