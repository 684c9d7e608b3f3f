//! Runs seeds: `pmix-simulate [STEPS [SEED]]`. It goes on from the seed until so many steps are done, and ends at the first that fails, with
//! the short script that still does.
#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::time::Instant;

use pmix_simulate::run_seed;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1).map(|text| text.parse::<u64>());
    let (steps, first) = match (arguments.next().transpose(), arguments.next().transpose()) {
        (Ok(steps), Ok(first)) => (steps.unwrap_or(1_000_000), first.unwrap_or(1)),
        _ => {
            eprintln!("usage: pmix-simulate [STEPS [SEED]], both numbers");
            return ExitCode::from(2);
        }
    };
    let (start, mut done, mut seed) = (Instant::now(), 0, first);
    while done < steps {
        match run_seed(seed) {
            Ok(steps) => done += steps,
            Err((violation, script)) => {
                println!("seed {seed} fails, after {done} steps of other seeds: {violation}");
                println!("its short script:");
                script.iter().for_each(|action| println!("  {action:?}"));
                println!("again: pmix-simulate 1 {seed}");
                return ExitCode::FAILURE;
            }
        }
        seed += 1;
    }
    let seconds = start.elapsed().as_secs_f64();
    let rate = done as f64 / seconds;
    println!(
        "simulation: {done} steps of {} seeds from {first} in {seconds:.1} s, {rate:.0} a second: nothing found",
        seed - first
    );
    ExitCode::SUCCESS
}
