//! A run: the script, and the end of all that is there.

use pmix_server::simulate::Kept;

use crate::invariant::{Invariant, Violation};
use crate::rank::{Call, Role};
use crate::script::{self, Action};
use crate::shrink::shrink;
use crate::world::{SERVERS, What, World};

/// The actions of a run of a seed.
pub const ACTIONS: usize = 240;

/// Runs a script with the delays of a seed. Returns the number of steps.
///
/// # Errors
/// The first violation.
pub fn run(seed: u64, script: &[Action]) -> Result<u64, Violation> {
    let mut world = World::new(seed);
    let mut time = 20;
    for (number, action) in script.iter().enumerate() {
        time += match action {
            Action::Wait { milliseconds } => u64::from(*milliseconds),
            _ => world.delay("action", number as u64, 0) / 4,
        };
        world.at(time, What::Act(*action));
    }
    world.at(time + 20_000, What::EndMonitors);
    world.at(time + 40_000, What::EndMonitors);
    world.run();
    world.answer_late();
    world.run();
    world.check_quiet();
    world.check_events();
    world.check_output();
    world.end_all();
    world.violation.map_or(Ok(world.steps), Err)
}

/// As [`run`], of the script that the seed draws; a failing one is shrunk.
///
/// # Errors
/// The violation of the short script, and that script.
pub fn run_seed(seed: u64) -> Result<u64, (Violation, Vec<Action>)> {
    let script = script::of_seed(seed, ACTIONS);
    let violation = match run(seed, &script) {
        Ok(steps) => return Ok(steps),
        Err(violation) => violation,
    };
    // Another violation would be another fault.
    let fails = |script: &[Action]| run(seed, script).is_err_and(|other| other.invariant == violation.invariant);
    let short = shrink(&script, fails);
    Err((run(seed, &short).err().unwrap_or(violation), short))
}

impl World {
    /// Nobody who lives waits.
    fn check_quiet(&mut self) {
        for rank in 0..self.ranks.len() {
            let one = &self.ranks[rank];
            if one.lives && (!one.is_admitted || !one.calls.is_empty() || !one.program.is_empty()) {
                let waits: Vec<String> = one.calls.values().map(|call| self.in_words(call)).collect();
                let what = format!("{} waits in {}; admitted: {}", one.proc, waits.join(" and "), one.is_admitted);
                self.violated(Invariant::NobodyWaits, what);
            }
        }
    }

    fn in_words(&self, call: &Call) -> String {
        match call {
            Call::Enter(number) => {
                let operation = &self.operations[*number];
                let state = |rank: &usize| {
                    let one = &self.ranks[*rank];
                    let comes = one.program.iter().any(|call| *call == Call::Enter(*number));
                    let is_in = one.calls.values().any(|call| *call == Call::Enter(*number));
                    (*rank, one.server, one.lives, one.is_known_dead, one.cycle, comes, is_in)
                };
                let states: Vec<_> = operation.members.iter().map(state).collect();
                format!(
                    "{:?} {number}, done: {:?}; rank, server, lives, is known to be dead, cycle, comes, is in: {states:?}",
                    operation.kind, operation.results
                )
            }
            other => format!("{other:?}"),
        }
    }

    /// All ranks finalize, all jobs end; nothing is left.
    fn end_all(&mut self) {
        for rank in 0..self.ranks.len() {
            if self.ranks[rank].lives && self.ranks[rank].role != Role::Server {
                self.ranks[rank].program.push_back(Call::Finalize { returns: false });
                self.go_on(rank);
            }
        }
        self.run();
        // Some servers end before their jobs do.
        let is_abrupt = self.happens("abrupt", 0, 0, 4);
        for server in 0..SERVERS {
            for job in 0..self.jobs.len() {
                // A tool's ends with it.
                if is_abrupt || matches!(self.ranks[self.jobs[job].ranks[0]].role, Role::Tool(_)) {
                    continue;
                }
                let nspace = self.jobs[job].nspace.clone();
                self.servers[server].deregister_nspace(&nspace);
                self.take_from(server);
            }
        }
        self.run();
        self.answer_late();
        self.run();
        for server in 0..SERVERS {
            if is_abrupt {
                self.servers[server].shut_down();
                (0..3).for_each(|_| self.publish_all(server));
            }
            let (kept, is_publishing) = (self.servers[server].kept(), self.servers[server].is_publishing());
            if kept != Kept::default() || is_publishing {
                let what = format!("server {server} keeps {kept:?}, publishes: {is_publishing}");
                self.violated(Invariant::NothingLeft, what);
            }
            self.servers[server].shut_down();
            if !self.servers[server].end() {
                let what = format!("server {server} has not done its last task");
                self.violated(Invariant::NothingLeft, what);
            }
        }
    }

    /// The publisher of a server does what there is to do.
    fn publish_all(&mut self, server: usize) {
        let numbers: Vec<u64> = (1..=64).filter(|number| self.servers[server].begin_publication(*number)).collect();
        for number in numbers {
            self.servers[server].end_publication(number, false);
        }
        let _ = self.servers[server].take_events();
    }
}
