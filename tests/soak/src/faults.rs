//! Allocations and calls of the system that fail, one after the other, in a scripted job of two ranks under a host
//! (`tests/programs/scripted.c`, `failing.c`, `host.c`). The library must answer a status that it names, or do without: no crash, no end
//! of the process, no hang, no wrong value.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use pmix_tests::{Ended, Run, Traces, plugin, program};
use serde_json::{Value, json};

use crate::step::{Context, Part, Step, excerpt};

pub(crate) const OOM: Part = Part {
    name: "oom",
    about: "each allocation of a scripted job fails, one after the other, in a rank and in the server",
    goals: &[],
    every_in_short: 8,
    step: |context| step(context, "memory"),
};

pub(crate) const SYSCALLS: Part = Part {
    name: "syscalls",
    about: "each call of the system of a scripted job fails with each error that it can have, one after the other",
    goals: &[],
    every_in_short: 16,
    step: |context| step(context, "calls"),
};

/// Who fails: a rank, and the server.
const ROLES: [&str; 2] = ["0", "server"];
/// Allocations among what can fail, by whatever function.
const ALLOCATIONS: &str = "memory";
/// So many faults are one step.
const BATCH: u64 = 25;
/// A job that takes longer hangs. A rank ends itself earlier.
const WITHIN: Duration = Duration::from_secs(30);
const RANK_LIMIT: &str = "10";
/// Of the points from which on no allocation succeeds, each of this number is tried.
const EVERY_LASTING: usize = 10;

/// What can fail.
struct Points {
    role: &'static str,
    /// The function; none for all allocations.
    function: Option<String>,
    /// How often it is called.
    count: u64,
    /// How many errors it can have.
    errors: u64,
}

impl Points {
    /// Those that were counted of a role.
    fn of(context: &Context<'_>, role: &'static str) -> Vec<Points> {
        let counted = context.state.figures.get(&calls_of(role)).and_then(Value::as_object);
        let figure = |figures: &Value, name| figures.get(name).and_then(Value::as_u64).unwrap_or(0);
        let points = |(function, figures): (&String, &Value)| Points {
            role,
            function: Some(function.clone()).filter(|function| function != ALLOCATIONS),
            count: figure(figures, "count"),
            errors: figure(figures, "errors"),
        };
        counted.into_iter().flatten().map(points).collect()
    }

    fn fault(&self, at: u64, how: u64, lasts: bool) -> Fault {
        Fault { role: self.role, function: self.function.clone(), at, how, lasts }
    }
}

/// One fault.
struct Fault {
    role: &'static str,
    function: Option<String>,
    at: u64,
    /// Which of a call's errors.
    how: u64,
    /// All later ones fail, too.
    lasts: bool,
}

fn step(context: &Context<'_>, what: &str) -> Step {
    let mut step = Step::default();
    if context.number == 0 {
        count_points(context, what, &mut step);
        return step;
    }
    let faults = faults(context, what);
    if faults.is_empty() {
        step.lose("the points were not counted: begin again with --fresh");
    }
    let from = (context.number - 1) * BATCH;
    for fault in faults.iter().skip(from as usize).take(BATCH as usize) {
        one(context, what, fault, &mut step);
    }
    step.last = from + BATCH >= faults.len() as u64;
    step
}

/// All faults that are tried, in their order.
fn faults(context: &Context<'_>, what: &str) -> Vec<Fault> {
    let every = context.state.every as usize;
    let points: Vec<Points> = ROLES.iter().flat_map(|role| Points::of(context, role)).collect();
    let once = points.iter().flat_map(|points| {
        let hows = move |at| (0..points.errors).map(move |how| points.fault(at, how, false));
        (1..=points.count).flat_map(hows)
    });
    let lasting = points
        .iter()
        .flat_map(|points| (1..=points.count).step_by(EVERY_LASTING).map(move |at| points.fault(at, 0, true)));
    once.chain(lasting.filter(|_| what == "memory")).step_by(every).collect()
}

/// Counts the allocations, or the calls of each function, when none fails.
fn count_points(context: &Context<'_>, what: &str, step: &mut Step) {
    for role in ROLES {
        // They vary a little, with the order in which the threads run.
        let mut most = BTreeMap::new();
        for _ in 0..3 {
            let traces = Traces::begin();
            let log = traces.own().join("log");
            let run = job(context, what, role, &log);
            if step.succeed(run, &traces, WITHIN).is_none() {
                return;
            }
            for (function, [count, errors]) in calls_in(&fs::read_to_string(&log).unwrap_or_default(), what) {
                let most = most.entry(function).or_insert([0, 0]);
                *most = [count.max(most[0]), errors.max(most[1])];
            }
        }
        let points: u64 = most.values().map(|[count, _]| count).sum();
        if points == 0 {
            step.lose(format!("the shim has counted nothing in {role}"));
        }
        step.figures.insert(format!("points of {role}"), json!(points));
        let most: BTreeMap<_, _> = most
            .iter()
            .map(|(function, [count, errors])| (function, json!({ "count": count, "errors": errors })))
            .collect();
        step.figures.insert(calls_of(role), json!(most));
    }
}

/// The name of the figures of what can fail.
fn calls_of(role: &str) -> String {
    format!("calls of {role}")
}

/// How often each function was called by the log of the shim, and how many errors it can have.
fn calls_in(log: &str, what: &str) -> BTreeMap<String, [u64; 2]> {
    if what != "calls" {
        let total = log.lines().find_map(|line| line.strip_prefix("total ")?.parse().ok()).unwrap_or(0);
        return BTreeMap::from([(ALLOCATIONS.to_owned(), [total, 1])]);
    }
    let mut calls: BTreeMap<String, [u64; 2]> = BTreeMap::new();
    for line in log.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        if let ["errors", _, function, errors] = words[..] {
            let [count, most] = calls.entry(function.to_owned()).or_default();
            *count += 1;
            *most = errors.parse().unwrap_or(0).max(*most);
        }
    }
    calls
}

fn job(context: &Context<'_>, what: &str, role: &str, log: &Path) -> Run {
    Run::new(program("host"), context.side.0)
        .args("-n 2 --timeout 25")
        .arg(program("scripted"))
        .env("LD_PRELOAD", plugin("failing"))
        .env("FAILING_IN", role)
        .env("FAILING_WHAT", what)
        .env("FAILING_LOG", log)
        .env("SCRIPTED_ALARM", RANK_LIMIT)
        // A backtrace of a panic takes memory, too.
        .env("RUST_BACKTRACE", "0")
}

fn one(context: &Context<'_>, what: &str, fault: &Fault, step: &mut Step) {
    let traces = Traces::begin();
    let log = traces.own().join("log");
    let run = job(context, what, fault.role, &log).env("FAILING_AT", fault.at.to_string());
    let run = match &fault.function {
        Some(function) => run.env("FAILING_FUNCTION", function),
        None => run,
    };
    let run = run
        .env("FAILING_HOW", fault.how.to_string())
        .env("FAILING_TIMES", if fault.lasts { "1000000000" } else { "1" });
    let outcome = run.traced(&traces).deadline(WITHIN).attempt();
    let text = fs::read_to_string(&log).unwrap_or_default();
    let Some(failed) = text.lines().find_map(|line| line.strip_prefix("failed ")) else {
        step.count(if text.contains("none ") { "without such an error" } else { "not reached" }, 1);
        return;
    };
    let who = if fault.role == "server" { "server" } else { "rank" };
    let said = match &outcome {
        Ok(ended) => outcome_of(ended),
        Err(_) => "hang",
    };
    let lasts = if fault.lasts { ", for good" } else { "" };
    step.count(&format!("{who}{lasts}: {said}"), 1);
    step.count("faults", 1);
    let is_loss = matches!(said, "crash" | "hang" | "wrong value" | "end of the process" | "another end");
    if is_loss {
        // What the order of threads decides is not the same each time: the log says which it was.
        let context = outcome.map_or_else(|hung| hung.to_string(), |ended| ended.to_string());
        let what = format!("{said}: {who}, {what}, {failed}{lasts}: {}", excerpt(&context));
        // A process whose memory is gone for good is ended by Rust; which ones is in the figures.
        if fault.lasts && said == "end of the process" {
            return;
        }
        step.lose(what);
    }
}

/// How a job has ended.
fn outcome_of(ended: &Ended) -> &'static str {
    let says = |text: &str| ended.stderr.contains(text) || ended.stdout.contains(text);
    if says(": FAIL ") {
        return "wrong value";
    }
    if says("memory allocation of") || says("panicked") || says("failed inside the library") {
        return "end of the process";
    }
    // The host says how its ranks ended; what it ends itself it ends by SIGTERM, afterwards by SIGKILL.
    let ends = |signal: i32| says(&format!("ended with status {}", 128 + signal));
    if ends(14) || says("host: timed out") {
        return "hang";
    }
    if [4, 6, 7, 8, 11, 31].into_iter().any(ends) || ended.is_crash() {
        return "crash";
    }
    match ended.code() {
        0 => "success",
        3 | 71 | 143 | 137 => "named status",
        // The program or its libraries could not be loaded.
        127 => "named status",
        _ => "another end",
    }
}
