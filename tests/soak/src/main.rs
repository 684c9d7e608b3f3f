//! `make soak`: long runs under faults, in parts. Each part is a row of steps of at most about a minute, which seed and number determine. After
//! each step the figures are in a file under `target/soak`, from which a part that was stopped goes on.
#![forbid(unsafe_code)]

mod faults;
mod life;
mod restart;
mod slope;
mod state;
mod step;
mod storms;
mod threads;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Parser, Subcommand, ValueEnum};

use state::State;
use step::{Context, Part, Side};

/// All parts but the simulation (`tests/simulate`) and that of the persistent launcher (`benches/benches/serve.rs`), which are programs of their own.
const PARTS: [Part; 6] = [storms::PART, restart::PART, threads::PART, life::PART, faults::OOM, faults::SYSCALLS];

/// So many losses are enough to stop a part.
const LOSSES_MAX: usize = 20;

#[derive(Parser)]
#[command(name = "pmix-soak", about = "Long runs of the PMIx library under faults", disable_help_subcommand = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
    /// Where figures are kept.
    #[arg(long, global = true, value_name = "DIR", default_value = "target/soak")]
    out: PathBuf,
}

#[derive(Subcommand)]
enum Command {
    /// Lists the parts.
    List,
    /// Runs a part, or goes on with it where it was stopped.
    Run(Run),
    /// Runs all parts, each for an equal share of the time, from their beginnings; their figures are kept apart from those of whole runs.
    Short {
        /// The time for all of them, in seconds.
        #[arg(long, default_value_t = 600)]
        seconds: u64,
    },
    /// Prints the last figures of each part as rows of a table.
    Table,
}

#[derive(clap::Args)]
struct Run {
    /// Name of the part.
    part: String,
    /// Stops after so much time. Another call goes on from there.
    #[arg(long, default_value_t = 3600)]
    seconds: u64,
    /// Determines what is attacked when. A part that goes on keeps its own.
    #[arg(long)]
    seed: Option<u64>,
    /// The library on both sides.
    #[arg(long, value_enum, default_value = "ours")]
    library: Chosen,
    /// Begins again, even if the part was stopped in the middle.
    #[arg(long)]
    fresh: bool,
    /// Runs this step alone, prints what it says, and keeps no figures.
    #[arg(long, value_name = "STEP")]
    only: Option<u64>,
    /// Leaves out all but each Nth fault of a part that tries them one after the other.
    #[arg(long, value_name = "N", default_value_t = 1)]
    every: u64,
    /// Stops at the first step that has lost something.
    #[arg(long)]
    until_loss: bool,
    /// Prints the figures as JSON instead of a line.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Chosen {
    Ours,
    Stock,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let outcome = match arguments.command {
        Command::List => {
            println!("simulation  whole jobs in one process, from seeds (make soak PART=simulation)");
            println!("serve       a thousand jobs in a persistent pmixrun (make soak PART=serve)");
            PARTS.iter().for_each(|part| println!("{:<11} {}", part.name, part.about));
            Ok(true)
        }
        Command::Run(run) => one(&run, &arguments.out),
        Command::Short { seconds } => short(seconds, &arguments.out),
        Command::Table => state::table(&arguments.out),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(message) => {
            eprintln!("pmix-soak: {message}");
            ExitCode::from(2)
        }
    }
}

/// Runs a part as the command line says. Returns whether nothing was lost.
fn one(run: &Run, out: &Path) -> Result<bool, String> {
    let names = PARTS.map(|part| part.name).join(", ");
    let part = PARTS.iter().find(|part| part.name == run.part);
    let part = part.ok_or_else(|| format!("there is no part {:?}; there are {names}", run.part))?;
    let side = Side::new(matches!(run.library, Chosen::Stock));
    let file = out.join(format!("{}-{}.json", part.name, side.name()));
    if let Some(number) = run.only {
        // Some steps need what earlier ones have found.
        let kept = State::read(&file)?.filter(|state| run.seed.is_none_or(|seed| seed == state.seed));
        let state = kept.unwrap_or_else(|| State::begin(part.name, side.name(), run.seed.unwrap_or(1), run.every));
        let step = (part.step)(&Context { state: &state, number, side });
        println!("{:#}", step.json());
        return Ok(step.losses.is_empty());
    }
    let kept = if run.fresh { None } else { State::read(&file)?.filter(|state| !state.complete) };
    let mut state =
        kept.unwrap_or_else(|| State::begin(part.name, side.name(), run.seed.unwrap_or(state::today()), run.every));
    let losses_max = match run.library {
        _ if run.until_loss => 1,
        // It is counted how many there are.
        Chosen::Stock => usize::MAX,
        Chosen::Ours => LOSSES_MAX,
    };
    go_on(part, side, &mut state, Duration::from_secs(run.seconds), losses_max, &file)?;
    if run.json {
        println!("{:#}", state.json());
    } else {
        println!("{}", state.summary());
    }
    Ok(state.losses.is_empty())
}

/// Runs steps until the part is complete, the time is over, or too much was lost. Writes the state after each.
fn go_on(
    part: &Part,
    side: Side,
    state: &mut State,
    time: Duration,
    losses_max: usize,
    file: &Path,
) -> Result<(), String> {
    let start = Instant::now();
    while !state.complete && start.elapsed() < time && state.losses.len() < losses_max {
        let (begun, number) = (Instant::now(), state.next);
        let step = (part.step)(&Context { state, number, side });
        for loss in &step.losses {
            println!("{}: step {number} of seed {}: {loss}", part.name, state.seed);
            println!(
                "again: pmix-soak run {} --library {} --seed {} --only {number}",
                part.name,
                side.name(),
                state.seed
            );
        }
        state.add(step, begun.elapsed());
        state.complete |= part.reached(state);
        state.write(file)?;
    }
    Ok(())
}

/// All parts, each for its share of the time. Returns whether nothing was lost.
fn short(seconds: u64, out: &Path) -> Result<bool, String> {
    let mut well = true;
    for part in &PARTS {
        let side = Side::new(false);
        let mut state = State::begin(part.name, side.name(), state::today(), part.every_in_short);
        let file = out.join(format!("short-{}.json", part.name));
        go_on(part, side, &mut state, Duration::from_secs(seconds) / PARTS.len() as u32, LOSSES_MAX, &file)?;
        println!("{}", state.summary());
        well &= state.losses.is_empty();
    }
    Ok(well)
}
