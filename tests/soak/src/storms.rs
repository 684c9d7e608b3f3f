//! Kills at random moments, beside a job that goes on (`tests/programs/mortal.c`).
//!
//! | kind | who is killed | what must hold |
//! |---|---|---|
//! | ranks | three of four ranks of each job of one server | the fourth rank ends; the job beside, of the same server, fences and reads the right values |
//! | servers | a host with its server, under its ranks | each rank ends with a status; a server in the same directory goes on with its job; the next server removes the files |
//! | hosts | our launcher, alone or with its whole group; stock: mpirun | its ranks end, its files go; a job of another launcher in the same directory goes on |

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use pmix_tests::{Ended, Random, Run, Traces, pmixrun, program};

use crate::step::{Context, LIMIT, Part, Step, number_before};

pub(crate) const PART: Part = Part {
    name: "storms",
    about: "SIGKILL of ranks, servers and hosts at random moments, beside a job that goes on",
    goals: &[("ranks killed", 100_000), ("servers killed", 1000), ("hosts killed", 1000)],
    every_in_short: 1,
    step,
};

/// How long a storm lasts.
const STORM: Duration = Duration::from_secs(15);
/// About as long as a launcher lives that nobody kills.
const LIFE: Duration = Duration::from_millis(100);
/// A rank that takes longer hangs.
const RANK_LIMIT: &str = "20";

fn step(context: &Context<'_>) -> Step {
    let mut step = Step::default();
    // As many kinds of each as its goal needs time: most kills are those of ranks.
    let ranks = context.state.count("ranks killed") < PART.goals[0].1;
    match context.number % 4 {
        1 if context.state.count("servers killed") < PART.goals[1].1 || !ranks => servers(context, &mut step),
        3 if context.state.count("hosts killed") < PART.goals[2].1 || !ranks => hosts(context, &mut step),
        _ => of_ranks(context, &mut step),
    }
    step
}

fn mortal(context: &Context<'_>, traces: &Traces, mode: &str) -> Run {
    let run = with_store(Run::new(program("mortal"), context.side.0), context);
    let run = run.env("MORTAL_ALARM", RANK_LIMIT).env("MORTAL_OWN", traces.own());
    run.args(&format!("{mode} {} {}", STORM.as_secs(), context.seed()))
}

/// The stock library with its store `hash`: with its default one, values that are put after other fences are not found, without any kill.
fn with_store(run: Run, context: &Context<'_>) -> Run {
    if context.side.0.is_ours() { run } else { run.env("PMIX_MCA_gds", "hash") }
}

/// Adds what the job beside says of itself.
fn count_beside(ended: &Ended, step: &mut Step) {
    for line in ended.stdout.lines().filter(|line| line.starts_with("beside: rank")) {
        step.count("fences beside", number_before(line, "fences").unwrap_or(0));
        step.count("values right beside", number_before(line, "values").unwrap_or(0));
    }
}

fn of_ranks(context: &Context<'_>, step: &mut Step) {
    let traces = Traces::begin();
    let Some(ended) = step.succeed(mortal(context, &traces, "storm"), &traces, STORM + 3 * LIMIT) else { return };
    for line in ended.stdout.lines().filter(|line| line.starts_with("storm: ")) {
        step.count("ranks killed", number_before(line, "killed").unwrap_or(0));
        step.count("jobs of killed ranks", number_before(line, "jobs").unwrap_or(0));
    }
    count_beside(&ended, step);
}

fn servers(context: &Context<'_>, step: &mut Step) {
    let traces = Traces::begin();
    let Some(ended) = step.succeed(mortal(context, &traces, "servers"), &traces, STORM + 3 * LIMIT) else { return };
    for line in ended.stdout.lines().filter(|line| line.starts_with("servers: ")) {
        step.count("servers killed", number_before(line, "killed").unwrap_or(0));
        step.count("ranks of killed servers", number_before(line, "orphans").unwrap_or(0));
        step.count("hangs", number_before(line, "hangs").unwrap_or(0));
    }
    count_beside(&ended, step);
}

/// Launchers that are killed one after the other, in the directory of one that goes on.
fn hosts(context: &Context<'_>, step: &mut Step) {
    let (traces, mut random) = (Traces::begin(), Random::new(context.seed()));
    let stop = traces.own().join("stop");
    let (directory, mark) = (traces.directory(), traces.own().join("mark"));
    let is_ours = context.side.0.is_ours();
    let beside = thread::spawn({
        let run = launcher_run(context).env("TMPDIR", &directory).env("MORTAL_ALARM", RANK_LIMIT);
        let run = run.arg(program("mortal")).arg("steady").arg(&stop);
        move || run.deadline(STORM + 3 * LIMIT).attempt()
    });
    let start = Instant::now();
    // The one beside makes its directory first.
    while entries(&directory).is_empty() && start.elapsed() < LIMIT {
        thread::sleep(Duration::from_millis(5));
    }
    thread::sleep(Duration::from_millis(300));
    let mut number = 0;
    while start.elapsed() < STORM && step.losses.is_empty() && !beside.is_finished() {
        let before = entries(&directory);
        let mark = format!("{}.{number}", mark.display());
        let whole = random.one_in(4);
        let after = Duration::from_micros(random.below(LIFE.as_micros() as usize) as u64);
        one_host(context, &directory, &mark, whole, after, step);
        number += 1;
        // With its group killed, too, its watchdog removes nothing: the next launcher does.
        if is_ours && !whole {
            let begun = Instant::now();
            while entries(&directory).len() > before.len() && begun.elapsed() < LIMIT {
                thread::sleep(Duration::from_millis(5));
            }
            let left: Vec<_> = entries(&directory).into_iter().filter(|name| !before.contains(name)).collect();
            if !left.is_empty() {
                step.lose(format!("a killed launcher left {left:?} for {LIMIT:?}"));
            }
        }
    }
    if fs::write(&stop, "").is_err() {
        step.lose("the file that stops the job beside cannot be written");
    }
    let outcome = beside.join().unwrap_or_else(|_| panic!("the job beside cannot be started"));
    match outcome {
        Ok(ended) => {
            if ended.code() != 0 {
                step.lose(format!("the job beside: {ended}"));
            }
            count_beside(&ended, step);
        }
        Err(hung) => {
            step.count("hangs", 1);
            step.lose(format!("the job beside hangs: {hung}"));
        }
    }
    if is_ours {
        // What launchers killed with their groups have left is for the next one.
        let _ = Run::ranks(1, "true", context.side.0).env("TMPDIR", &directory).deadline(LIMIT).attempt();
    }
    if let Some(remains) = traces.remains(LIMIT) {
        step.lose(format!("left: {remains}"));
    }
}

/// A launcher that takes a program: ours, or mpirun.
fn launcher_run(context: &Context<'_>) -> Run {
    if context.side.0.is_ours() {
        return Run::new(pmixrun(), context.side.0).args("-n 4");
    }
    with_store(Run::new("mpirun", context.side.0), context).args("--oversubscribe -np 4")
}

fn entries(directory: &Path) -> Vec<String> {
    let names = fs::read_dir(directory).into_iter().flatten().flatten();
    names
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| !name.contains("canary"))
        .collect()
}

/// One launcher that is killed after so much time: alone, or with its group. Its ranks must end within the limit.
fn one_host(context: &Context<'_>, directory: &Path, mark: &str, whole: bool, after: Duration, step: &mut Step) {
    let library = context.side.0.directory();
    let mut command = if context.side.0.is_ours() {
        let mut command = Command::new(pmixrun());
        command.args(["-n", "4"]);
        command
    } else {
        let mut command = Command::new("mpirun");
        command.args(["--oversubscribe", "-np", "4"]);
        command
            .env("PMIX_MCA_gds", "hash")
            .env("OMPI_ALLOW_RUN_AS_ROOT", "1")
            .env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
        command
    };
    command.arg(program("mortal")).arg("rank");
    command
        .env("TMPDIR", directory)
        .env("LD_LIBRARY_PATH", library)
        .env("SOAK_MARK", mark)
        .env("MORTAL_ALARM", RANK_LIMIT);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => return step.lose(format!("cannot start a launcher: {error}")),
    };
    thread::sleep(after);
    let pid = Pid::from_raw(child.id().cast_signed());
    // Its number stays its own as long as nobody has waited for it.
    let ended = child.try_wait().is_ok_and(|status| status.is_some());
    step.count(if ended { "hosts that ended before" } else { "hosts killed" }, 1);
    if ended {
        return;
    }
    let _ = if whole { killpg(pid, Signal::SIGKILL) } else { kill(pid, Signal::SIGKILL) };
    let _ = child.wait();
    let begun = Instant::now();
    loop {
        let left = marked(mark);
        if left.is_empty() {
            return;
        }
        if begun.elapsed() > LIMIT {
            step.count("hangs", 1);
            for pid in &left {
                let _ = kill(Pid::from_raw(*pid), Signal::SIGKILL);
            }
            return step.lose(format!("processes {left:?} of a killed launcher live on after {LIMIT:?}"));
        }
        thread::sleep(Duration::from_millis(5));
    }
}

/// The processes with this mark in their environment.
fn marked(mark: &str) -> Vec<i32> {
    let variable = format!("SOAK_MARK={mark}");
    let is_marked = |pid: &i32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|it| it == variable.as_bytes())
    };
    let names = fs::read_dir("/proc").into_iter().flatten().flatten();
    names.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(is_marked).collect()
}
