//! Seeds of the simulation. `PMIX_SIMULATE_STEPS=1000000 PMIX_SIMULATE_SEED=77` asks for more, or for one that failed.

use pmix_simulate::{Action, of_seed, run, run_seed};

/// A number from the environment, or another one.
fn from_environment(name: &str, or: u64) -> u64 {
    std::env::var(name).map_or(or, |text| text.parse().unwrap_or_else(|_| panic!("{name} is no number: {text}")))
}

#[test]
fn seeds_hold_all_invariants() {
    let steps = from_environment("PMIX_SIMULATE_STEPS", 50_000);
    let first = from_environment("PMIX_SIMULATE_SEED", 1);
    let mut done = 0;
    for seed in first.. {
        match run_seed(seed) {
            Ok(steps) => done += steps,
            Err((violation, script)) => panic!("seed {seed}: {violation}\n{script:#?}"),
        }
        if done >= steps {
            println!("{done} steps of {} seeds", seed - first + 1);
            return;
        }
    }
}

#[test]
fn a_seed_is_run_again_step_by_step() {
    for seed in 1..20 {
        let script = of_seed(seed, 60);
        assert_eq!(run(seed, &script), run(seed, &script), "seed {seed}");
    }
}

#[test]
fn a_fence_goes_on_without_a_member_that_dies() {
    let fence = Action::Fence { job: 0, members: u8::MAX, collects: true, is_lost: false };
    for seed in 1..20 {
        let result = run(seed, &[fence, Action::Kill { rank: 4 }, fence]);
        assert!(result.is_ok(), "seed {seed}: {result:?}");
    }
}
