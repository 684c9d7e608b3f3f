//! Servers that are killed and started again under their ranks (`docs/restart.md`, `tests/programs/restart.c`, `host.c --restartable`).
//!
//! | step | what is done | what must hold |
//! |---|---|---|
//! | 0 | counts the points at which a server can be killed: before each of its calls that other processes see the effect of (`failing.c`), in a first life and in a second one, which takes over | |
//! | 1 | turns of reads in shared memory, with and without a restart in their middle | no read fails |
//! | others | kills a server at each point, a hundred times | all ranks read what they have put, their fences complete, nothing is left |

use std::fs;
use std::thread;
use std::time::Duration;

use pmix_tests::{Run, Traces, plugin, program};
use serde_json::{Value, json};

use crate::step::{Context, Part, Step, excerpt, number_before};

pub(crate) const PART: Part = Part {
    name: "restart",
    about: "a server killed at each of its steps, a hundred times each, and started again; reads meanwhile",
    goals: &[],
    every_in_short: 97,
    step,
};

/// How often a server is killed at each point.
const TIMES: u64 = 100;
/// The lives of a job's server in which it is killed at a point.
const LIVES: [u32; 2] = [1, 2];
/// So many kills are one step, of which so many are made at once.
const BATCH: usize = 60;
const AT_ONCE: usize = 2;
/// A job that takes longer hangs.
const WITHIN: Duration = Duration::from_secs(90);
/// Turns with and without a restart, and how long the reads of one go on.
const TURNS: u64 = 25;
const TURNS_IN_SHORT: u64 = 4;
const READS_MS: u64 = 1000;
/// What a job's output must not have.
const COMPLAINTS: [&str; 4] = ["panicked", "lost the connection", "cannot go on", "timed out"];

fn step(context: &Context<'_>) -> Step {
    let mut step = Step::default();
    if !context.side.0.is_ours() {
        step.last = true;
        step.lose("the stock library has no restart: its ranks lose their server");
        return step;
    }
    match context.number {
        0 => count_points(context, &mut step),
        1 => read_turns(context, &mut step),
        _ => kill_at_points(context, &mut step),
    }
    step
}

fn job(context: &Context<'_>, what: &str) -> Run {
    let run = Run::new(program("host"), context.side.0).args("-n 2 --restartable 60 --timeout 80");
    run.arg(program("restart")).args(what)
}

/// A job whose server is killed before its `at`th call in this life; 0 kills it nowhere. The first one is killed in the middle of the job
/// where a second one is to be.
fn job_killed(context: &Context<'_>, life: u32, at: u64, traces: &Traces) -> Run {
    let run = job(context, if life == 1 { "points 0" } else { "points 1" }).env("LD_PRELOAD", plugin("failing"));
    let run = run.env("FAILING_IN", "server").env("FAILING_WHAT", "crash").env("FAILING_LIFE", life.to_string());
    run.env("FAILING_AT", at.to_string()).env("FAILING_LOG", traces.own().join("log"))
}

fn log_of(traces: &Traces) -> String {
    fs::read_to_string(traces.own().join("log")).unwrap_or_default()
}

fn figure_of(life: u32) -> String {
    format!("points of life {life}")
}

fn count_points(context: &Context<'_>, step: &mut Step) {
    for life in LIVES {
        // They vary a little, with the order in which the threads run.
        let mut most = 0;
        for _ in 0..3 {
            let traces = Traces::begin();
            if step.succeed(job_killed(context, life, 0, &traces), &traces, WITHIN).is_none() {
                return;
            }
            let log = log_of(&traces);
            let totals = log.lines().filter_map(|line| line.strip_prefix("total ")?.parse::<u64>().ok());
            most = most.max(totals.max().unwrap_or(0));
        }
        if most == 0 {
            step.lose(format!("nothing was counted in life {life}"));
        }
        step.figures.insert(figure_of(life), json!(most));
    }
}

/// All kills, in their order: each point once, then each once more.
fn kills(context: &Context<'_>) -> Vec<(u32, u64)> {
    let points = |life| context.state.figures.get(&figure_of(life)).and_then(Value::as_u64).unwrap_or(0);
    let once: Vec<(u32, u64)> = LIVES.iter().flat_map(|life| (1..=points(*life)).map(move |at| (*life, at))).collect();
    let all = (0..TIMES).flat_map(|_| once.iter().copied());
    all.step_by(context.state.every as usize).collect()
}

fn kill_at_points(context: &Context<'_>, step: &mut Step) {
    let kills = kills(context);
    let from = (context.number - 2) as usize * BATCH;
    let batch = kills.iter().skip(from).take(BATCH).copied().collect::<Vec<_>>();
    step.last = from + BATCH >= kills.len();
    let shares = batch.chunks(BATCH / AT_ONCE).map(<[_]>::to_vec);
    thread::scope(|scope| {
        let made: Vec<_> = shares
            .map(|share| {
                scope.spawn(move || {
                    let mut step = Step::default();
                    share.iter().for_each(|(life, at)| kill_at(context, *life, *at, &mut step));
                    step
                })
            })
            .collect();
        for made in made {
            let Ok(made) = made.join() else { return step.lose("a job could not be started") };
            made.counts.iter().for_each(|(name, more)| step.count(name, *more));
            step.losses.extend(made.losses);
        }
    });
}

fn kill_at(context: &Context<'_>, life: u32, at: u64, step: &mut Step) {
    let traces = Traces::begin();
    let ended = step.succeed(job_killed(context, life, at, &traces), &traces, WITHIN);
    let log = log_of(&traces);
    // A run in which the threads made fewer calls.
    let Some(killed) = log.lines().find_map(|line| line.strip_prefix("killed ")) else {
        return step.count("not reached", 1);
    };
    step.count(&format!("servers killed at a point of life {life}"), 1);
    let Some(ended) = ended else { return };
    if ended.stderr.contains("not taken over") {
        step.count("refused by name", 1);
    }
    let complaint = COMPLAINTS.iter().find(|complaint| ended.stderr.contains(*complaint));
    if complaint.is_some() || ended.count(" done") != 2 {
        step.lose(format!("life {life}, {killed}: {complaint:?}: {}", excerpt(&ended.to_string())));
    }
}

/// The times of one turn, in ns: the slowest read, and that than which one of 10,000 is slower.
struct Turn {
    slowest: u64,
    slow: u64,
}

fn read_turns(context: &Context<'_>, step: &mut Step) {
    let mut of = [Vec::new(), Vec::new()];
    let turns = if context.state.every > 1 { TURNS_IN_SHORT } else { TURNS };
    for _ in 0..turns {
        for (kills, turns) in of.iter_mut().enumerate() {
            let traces = Traces::begin();
            let run = job(context, &format!("reads {kills} {READS_MS}"));
            let Some(ended) = step.succeed(run, &traces, WITHIN) else { return };
            let line = ended.stdout.lines().find(|line| line.starts_with("reads: ")).unwrap_or_default().to_owned();
            let number = |word| number_before(&line, word);
            let (Some(reads), Some(failed), Some(slowest), Some(slow)) =
                (number("reads"), number("failed"), number("slowest_ns"), number("slow_ns"))
            else {
                return step.lose(format!("no line of reads: {}", excerpt(&ended.to_string())));
            };
            let with = ["without a restart", "with a restart"][kills];
            step.count(&format!("reads {with}"), reads);
            step.count(&format!("failed reads {with}"), failed);
            if ended.stderr.matches("ended by signal 9").count() != kills {
                step.lose(format!("not {kills} servers were killed: {}", excerpt(&ended.to_string())));
            }
            turns.push(Turn { slowest, slow });
        }
    }
    for (with, turns) in ["without a restart", "with a restart"].iter().zip(&of) {
        let spread = |of: fn(&Turn) -> u64| {
            let mut all: Vec<u64> = turns.iter().map(of).collect();
            all.sort_unstable();
            let at = |part: usize| all.get((all.len() - 1) * part / 4).copied();
            json!({ "least": at(0), "first quarter": at(1), "median": at(2), "third quarter": at(3), "most": at(4), "turns": all.len() })
        };
        step.figures.insert(format!("slowest read of a turn {with}, ns"), spread(|turn| turn.slowest));
        step.figures.insert(format!("99.99 % of reads of a turn {with}, ns"), spread(|turn| turn.slow));
    }
}
