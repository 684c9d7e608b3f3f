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

/// Nobody but the host can tell the server of its end: it is not connected.
#[test]
fn who_ends_between_two_cycles_is_not_waited_for() {
    let connect = Action::Connect { members: 0b110, disconnects: false, is_lost: false, form: 0 };
    let returns = [1, 2].map(|rank| Action::Return { rank });
    for seed in 1..80 {
        let wait = Action::Wait { milliseconds: seed };
        let script = [returns[0], returns[1], connect, wait, Action::Kill { rank: 2 }];
        let result = run(seed.into(), &script);
        assert!(result.is_ok(), "seed {seed}: {result:?}");
    }
}

/// Runs a script in several seeds.
fn holds(script: &[Action]) {
    for seed in 1..20 {
        let result = run(seed, script);
        assert!(result.is_ok(), "seed {seed}: {result:?}");
    }
}

/// Rank 8 is of another user than rank 1, and its job of one server alone.
#[test]
fn of_a_job_that_a_server_does_not_know_the_host_lets_its_user_alone_have_output() {
    holds(&[
        Action::Spawn { rank: 8, is_lost: false },
        Action::Wait { milliseconds: 5000 },
        Action::Pull { rank: 1, owner: 12, form: 1, is_lost: false },
        Action::Pull { rank: 7, owner: 12, form: 1, is_lost: false },
        Action::Wait { milliseconds: 5000 },
        Action::Write { rank: 12, channel: 0 },
    ]);
}

#[test]
fn a_fence_of_a_node_is_not_taken_for_a_lost_one_of_the_same_processes() {
    holds(&[
        Action::Fence { job: 0, members: 0b10010, collects: true, is_lost: true },
        Action::FenceHere { job: 0, server: 1, collects: false },
    ]);
}

/// The second job that a rank spawns is registered at all servers, and has no process at one.
#[test]
fn a_server_need_not_tell_of_a_job_that_has_no_process_there() {
    holds(&[
        Action::Spawn { rank: 1, is_lost: false },
        Action::Spawn { rank: 1, is_lost: false },
        Action::Wait { milliseconds: 9000 },
        Action::Query { rank: 0, kind: 67, about: 15, is_lost: false },
        Action::Query { rank: 1, kind: 67, about: 15, is_lost: false },
        Action::Query { rank: 2, kind: 67, about: 15, is_lost: false },
    ]);
}

#[test]
fn an_alert_reaches_all_of_its_namespace() {
    holds(&[
        Action::Spawn { rank: 4, is_lost: false },
        Action::Wait { milliseconds: 9000 },
        Action::Register { rank: 13, code: 14 },
        Action::Tool { server: 2, user: 0, form: 8 },
        Action::Wait { milliseconds: 9000 },
        Action::Watch { rank: 14, kind: 0 },
    ]);
}

/// Seeds whose scripts went wrong before what is simulated was mended (`docs/reliability.md`, "Simulation").
#[test]
fn seeds_that_failed_once_hold() {
    let seeds = [3495, 3575, 6498, 6526, 7020, 11274, 12082, 12937, 16540, 19755, 19871, 20167, 21888, 26191, 40411];
    for seed in seeds {
        let result = run(seed, &of_seed(seed, 240));
        assert!(result.is_ok(), "seed {seed}: {result:?}");
    }
}
