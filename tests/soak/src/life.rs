//! Long life: one server with a million small jobs, and one job with a million fences (`tests/programs/cycle.c`). What they hold and how long
//! a job or a fence takes must not grow: a slope by least squares over what follows the first fifth.

use std::collections::BTreeMap;
use std::time::Duration;

use pmix_tests::{Ended, Run, Traces, program};
use serde_json::json;

use crate::slope::slope;
use crate::step::{Context, Part, Step};

pub(crate) const PART: Part = Part {
    name: "life",
    about: "a server with a million small jobs, a job with a million fences: what they hold, and the time of each",
    goals: &[],
    every_in_short: 250,
    step,
};

/// Jobs, and fences.
const MANY: u64 = 1_000_000;
const WITHIN: Duration = Duration::from_secs(3000);

/// What is measured, and by how much it may have grown in the end.
const BOUNDS: [(&str, f64); 5] =
    [("KiB", 512.0), ("descriptors", 4.0), ("mappings", 8.0), ("files", 4.0), ("us", f64::INFINITY)];
/// The time of one job or fence may have grown by this part of its mean: other processes use the machine, too. In a run of fewer jobs or
/// fences it is told, and not judged: what else the machine does then changes more slowly than the run takes.
const TIME_BOUND: f64 = 0.25;
const TIMED_MIN: f64 = 100_000.0;

fn step(context: &Context<'_>) -> Step {
    let mut step = Step { last: context.number >= 1, ..Step::default() };
    let many = (MANY / context.state.every).max(500);
    let traces = Traces::begin();
    let (run, what) = if context.number == 0 {
        (Run::new(program("cycle"), context.side.0).args(&format!("jobs {many}")), "jobs")
    } else {
        let host = Run::new(program("host"), context.side.0).args(&format!("-n 4 --timeout {}", WITHIN.as_secs()));
        (host.arg(program("cycle")).args(&format!("steady {many}")), "fences")
    };
    let Some(ended) = step.succeed(run.env("CYCLE_SAMPLES", "1"), &traces, WITHIN) else { return step };
    if ended.code() == 0 {
        step.count(what, many);
        judge(&ended, what, many as f64, &mut step);
    }
    step
}

/// Samples by who holds it and what it is.
fn samples(ended: &Ended) -> BTreeMap<(String, String), Vec<(f64, f64)>> {
    let mut found: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for line in ended.stdout.lines().filter_map(|line| line.strip_prefix("sample ")) {
        let Some((head, figures)) = line.split_once(": ") else { continue };
        let Some((who, at)) = head.split_once(' ') else { continue };
        for figure in figures.split(", ") {
            let Some((number, unit)) = figure.split_once(' ') else { continue };
            if let (Ok(at), Ok(number)) = (at.parse::<f64>(), number.parse::<f64>()) {
                found.entry((who.to_owned(), unit.to_owned())).or_default().push((at, number));
            }
        }
    }
    found
}

fn judge(ended: &Ended, what: &str, many: f64, step: &mut Step) {
    for ((who, unit), samples) in samples(ended) {
        let later = &samples[samples.len() / 5..];
        let Some(slope) = slope(later) else { continue };
        let mean = later.iter().map(|(_, y)| y).sum::<f64>() / later.len() as f64;
        let bound = BOUNDS.iter().find(|(name, _)| *name == unit).map_or(0.0, |(_, bound)| *bound);
        let bound = match unit.as_str() {
            "us" if many < TIMED_MIN => f64::INFINITY,
            "us" => mean * TIME_BOUND,
            _ => bound,
        };
        let range = later[later.len() - 1].0 - later[0].0;
        let million = |each: f64| (each * 1e6 * 10.0).round() / 10.0;
        let (of_million, half) = (million(slope.each), million(slope.half));
        step.figures.insert(
            format!("{what}, {who}, {unit}"),
            json!({ "of": many, "mean": (mean * 10.0).round() / 10.0, "slope of a million": of_million, "plus or minus": half }),
        );
        if !slope.is_flat(range, bound) {
            step.lose(format!(
                "{unit} of the {who} grow with {what}: {of_million} +- {half} in a million, over {range} by more than {bound:.1}"
            ));
        }
    }
}
