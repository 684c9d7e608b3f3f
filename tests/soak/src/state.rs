//! The figures of a part, kept from step to step.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use crate::step::Step;

/// What a part has done so far.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) part: String,
    pub(crate) library: String,
    pub(crate) seed: u64,
    /// Of faults that are tried one after the other, each of this number is.
    pub(crate) every: u64,
    /// The number of the next step.
    pub(crate) next: u64,
    pub(crate) seconds: f64,
    pub(crate) complete: bool,
    pub(crate) counts: BTreeMap<String, u64>,
    pub(crate) losses: Vec<String>,
    pub(crate) figures: BTreeMap<String, Value>,
}

impl State {
    pub(crate) fn begin(part: &str, library: &str, seed: u64, every: u64) -> State {
        State {
            part: part.to_owned(),
            library: library.to_owned(),
            seed,
            every: every.max(1),
            next: 0,
            seconds: 0.0,
            complete: false,
            counts: BTreeMap::new(),
            losses: Vec::new(),
            figures: BTreeMap::new(),
        }
    }

    pub(crate) fn count(&self, name: &str) -> u64 {
        self.counts.get(name).copied().unwrap_or(0)
    }

    pub(crate) fn add(&mut self, step: Step, took: Duration) {
        for (name, more) in step.counts {
            *self.counts.entry(name).or_default() += more;
        }
        self.losses.extend(step.losses.into_iter().map(|loss| format!("step {}: {loss}", self.next)));
        self.figures.extend(step.figures);
        self.complete |= step.last;
        self.next += 1;
        self.seconds += took.as_secs_f64();
    }

    pub(crate) fn json(&self) -> Value {
        json!({
            "part": self.part, "library": self.library, "seed": self.seed, "every": self.every, "next": self.next,
            "seconds": self.seconds, "complete": self.complete, "counts": self.counts, "losses": self.losses,
            "figures": self.figures, "date": date("+%Y-%m-%d"),
        })
    }

    /// One line for all.
    pub(crate) fn summary(&self) -> String {
        let mut line = format!(
            "{}, {} library: {} steps of seed {} in {:.0} s",
            self.part, self.library, self.next, self.seed, self.seconds
        );
        for (name, count) in &self.counts {
            // Writing to a string does not fail.
            let _ = write!(line, ", {count} {name}");
        }
        let end = if self.complete { "complete" } else { "goes on from here when it is called again" };
        let _ = write!(line, "; {} losses; {end}", self.losses.len());
        line
    }

    /// Replaces the file as a whole.
    pub(crate) fn write(&self, file: &Path) -> Result<(), String> {
        let told = |error| format!("{}: {error}", file.display());
        let made = file.with_extension(format!("{}.new", std::process::id()));
        file.parent().map_or(Ok(()), fs::create_dir_all).map_err(told)?;
        fs::write(&made, format!("{:#}\n", self.json())).and_then(|()| fs::rename(&made, file)).map_err(told)
    }

    /// The state in a file; none if there is no such file.
    pub(crate) fn read(file: &Path) -> Result<Option<State>, String> {
        let text = match fs::read_to_string(file) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(format!("{}: {error}", file.display())),
        };
        let value = serde_json::from_str(&text).ok();
        let state = value.as_ref().and_then(State::of);
        state.map(Some).ok_or_else(|| format!("{} is no state of a part; --fresh begins again", file.display()))
    }

    fn of(value: &Value) -> Option<State> {
        let counts = value["counts"].as_object()?;
        let losses = value["losses"].as_array()?;
        Some(State {
            part: value["part"].as_str()?.to_owned(),
            library: value["library"].as_str()?.to_owned(),
            seed: value["seed"].as_u64()?,
            every: value["every"].as_u64()?,
            next: value["next"].as_u64()?,
            seconds: value["seconds"].as_f64()?,
            complete: value["complete"].as_bool()?,
            counts: counts.iter().filter_map(|(name, count)| Some((name.clone(), count.as_u64()?))).collect(),
            losses: losses.iter().filter_map(|loss| loss.as_str().map(str::to_owned)).collect(),
            figures: value["figures"].as_object()?.clone().into_iter().collect(),
        })
    }
}

/// The rows of all parts whose figures are there. Returns whether nothing was lost in any.
pub(crate) fn table(out: &Path) -> Result<bool, String> {
    let entries = fs::read_dir(out).map_err(|error| format!("{}: {error}", out.display()))?;
    let mut files: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    files.retain(|file| file.extension().is_some_and(|end| end == "json"));
    files.sort();
    println!("| part | library | seconds | counts | losses |\n|---|---|---|---|---|");
    let mut well = true;
    for file in &files {
        let Some(state) = State::read(file)? else { continue };
        let counts: Vec<String> = state.counts.iter().map(|(name, count)| format!("{count} {name}")).collect();
        let (part, library, losses) = (&state.part, &state.library, state.losses.len());
        println!("| {part} | {library} | {:.0} | {} | {losses} |", state.seconds, counts.join(", "));
        well &= state.losses.is_empty() || library == "stock";
    }
    Ok(well)
}

/// A seed of the date.
pub(crate) fn today() -> u64 {
    date("+%y%m%d").parse().unwrap_or(1)
}

fn date(form: &str) -> String {
    let output = Command::new("date").arg("-u").arg(form).output();
    output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_that_was_stopped_goes_on_with_its_figures() {
        let mut state = State::begin("storms", "ours", 7, 1);
        let mut step = Step::default();
        step.count("ranks killed", 12);
        step.lose("something");
        state.add(step, Duration::from_secs(2));
        let mut step = Step { last: true, ..Step::default() };
        step.count("ranks killed", 5);
        state.add(step, Duration::from_secs(1));
        let file = std::env::temp_dir().join(format!("pmix-soak.{}", std::process::id())).join("state.json");
        assert!(State::read(&file).unwrap().is_none());
        state.write(&file).unwrap();
        let read = State::read(&file).unwrap().unwrap();
        assert_eq!((read.seed, read.next, read.complete, read.seconds), (7, 2, true, 3.0));
        assert_eq!((read.count("ranks killed"), read.losses), (17, vec!["step 0: something".to_owned()]));
        fs::write(&file, "{}").unwrap();
        assert!(State::read(&file).unwrap_err().contains("--fresh"));
        fs::remove_dir_all(file.parent().unwrap()).unwrap();
    }
}
