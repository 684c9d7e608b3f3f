//! What a part is made of.

use std::collections::BTreeMap;
use std::time::Duration;

use pmix_tests::{Ended, Hung, Library, Run, Traces};
use serde_json::{Value, json};

use crate::state::State;

/// What is still there after this time counts as left, and a command that runs on for so long beyond its own end as one that hangs.
pub(crate) const LIMIT: Duration = Duration::from_secs(30);

/// A part of `make soak`.
pub(crate) struct Part {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    /// The part is complete when each of these counts has come so far; without goals it ends by itself.
    pub(crate) goals: &'static [(&'static str, u64)],
    /// In `make soak-short`, of faults that are tried one after the other, each of this number is.
    pub(crate) every_in_short: u64,
    pub(crate) step: fn(&Context<'_>) -> Step,
}

impl Part {
    pub(crate) fn reached(&self, state: &State) -> bool {
        !self.goals.is_empty() && self.goals.iter().all(|(name, goal)| state.count(name) >= *goal)
    }
}

/// Where a step stands.
pub(crate) struct Context<'a> {
    pub(crate) state: &'a State,
    pub(crate) number: u64,
    pub(crate) side: Side,
}

impl Context<'_> {
    /// The seed of this step.
    pub(crate) fn seed(&self) -> u64 {
        self.state.seed.wrapping_mul(1_000_003).wrapping_add(self.number)
    }
}

/// The library on both sides.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Side(pub(crate) Library);

impl Side {
    pub(crate) fn new(stock: bool) -> Side {
        Side(if stock { Library::Stock } else { Library::ours() })
    }

    pub(crate) fn name(self) -> &'static str {
        if self.0.is_ours() { "ours" } else { "stock" }
    }
}

/// What a step has found.
#[derive(Debug, Default)]
pub(crate) struct Step {
    /// Added up over steps.
    pub(crate) counts: BTreeMap<String, u64>,
    /// What must not be, each in words.
    pub(crate) losses: Vec<String>,
    /// Figures that are not added up: the last step's count.
    pub(crate) figures: BTreeMap<String, Value>,
    /// Whether it was the last one.
    pub(crate) last: bool,
}

impl Step {
    pub(crate) fn count(&mut self, name: &str, more: u64) {
        *self.counts.entry(name.to_owned()).or_default() += more;
    }

    pub(crate) fn lose(&mut self, what: impl Into<String>) {
        self.losses.push(what.into());
    }

    pub(crate) fn json(&self) -> Value {
        json!({ "counts": self.counts, "losses": self.losses, "figures": self.figures, "last": self.last })
    }

    /// Runs a command to its end; a hang is a loss. What it leaves is one, too. Returns its end, if it has ended.
    pub(crate) fn run(&mut self, run: Run, traces: &Traces, after: Duration) -> Option<Ended> {
        let outcome = run.traced(traces).deadline(after).attempt();
        let ended = self.ended(outcome, after);
        if let Some(remains) = traces.remains(LIMIT) {
            self.count("things left", 1);
            self.lose(format!("left: {remains}"));
        }
        ended
    }

    fn ended(&mut self, outcome: Result<Ended, Box<Hung>>, after: Duration) -> Option<Ended> {
        match outcome {
            Ok(ended) => Some(ended),
            Err(hung) => {
                self.count("hangs", 1);
                self.lose(format!("hangs for {after:?}: {}", excerpt(&hung.to_string())));
                None
            }
        }
    }

    /// As [`Step::run`]; another exit status than 0 is a loss.
    pub(crate) fn succeed(&mut self, run: Run, traces: &Traces, after: Duration) -> Option<Ended> {
        let ended = self.run(run, traces, after)?;
        if ended.code() != 0 {
            self.count("failures", 1);
            self.lose(excerpt(&ended.to_string()));
        }
        Some(ended)
    }
}

/// The beginning and the end of a long text.
pub(crate) fn excerpt(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    if lines.len() <= 40 {
        return text.to_owned();
    }
    let (head, tail) = (&lines[..10], &lines[lines.len() - 30..]);
    format!("{}\n... {} lines ...\n{}", head.join("\n"), lines.len() - 40, tail.join("\n"))
}

/// The number in front of `word` in a line of figures, such as `storm: 69 killed, 29 jobs`.
pub(crate) fn number_before(line: &str, word: &str) -> Option<u64> {
    let words: Vec<&str> = line.split([' ', ',', ':']).filter(|word| !word.is_empty()).collect();
    words.windows(2).find(|pair| pair[1] == word).and_then(|pair| pair[0].parse().ok())
}
