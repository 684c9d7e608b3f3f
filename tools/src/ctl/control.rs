//! `pmixctl kill`, `signal`, `pause` and `resume`.

use pmix_dstore::model::{Info, Proc, Rank, Value, keys};

use super::Printout;
use super::args::Target;
use super::connection::{Connection, nspace};

/// What is to happen to processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// They end at once.
    Kill,
    /// They get a signal.
    Signal(i32),
    /// They stop.
    Pause,
    /// They go on.
    Resume,
}

impl Action {
    fn info(self) -> Info {
        match self {
            Action::Kill => Info::new(keys::JOB_CTRL_KILL, Value::Bool(true)),
            Action::Signal(number) => Info::new(keys::JOB_CTRL_SIGNAL, Value::Int(number)),
            Action::Pause => Info::new(keys::JOB_CTRL_PAUSE, Value::Bool(true)),
            Action::Resume => Info::new(keys::JOB_CTRL_RESUME, Value::Bool(true)),
        }
    }
}

/// A signal by its name, with or without `SIG`, or by its number.
///
/// # Errors
/// What is wrong with it.
pub fn signal(word: &str) -> Result<i32, String> {
    let upper = word.to_ascii_uppercase();
    let name = if upper.starts_with("SIG") { upper } else { format!("SIG{upper}") };
    let by_name = name.parse::<nix::sys::signal::Signal>().ok().map(|signal| signal as i32);
    let by_number = word.parse::<i32>().ok().filter(|number| (1..=64).contains(number));
    by_name
        .or(by_number)
        .ok_or_else(|| format!("there is no signal {word}; names are such as TERM or SIGUSR1, numbers 1 to 64"))
}

/// Asks the host.
pub fn control(action: Action, target: &Target) -> Result<Printout, String> {
    let job = nspace(&target.nspace)?;
    let ranks =
        if target.ranks.is_empty() { vec![Rank::WILDCARD] } else { target.ranks.iter().copied().map(Rank).collect() };
    let procs: Vec<Proc> = ranks.into_iter().map(|rank| Proc::new(job.clone(), rank)).collect();
    let connection = Connection::open(&target.server)?;
    let answer = connection.client().job_control(procs, vec![action.info(), connection.limit()]).wait();
    connection.close();
    match answer {
        Ok(_) => Ok(Printout::good(String::new())),
        Err(status) => Err(format!("job {}: the host answers {status}", target.nspace)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_are_known_by_name_and_number() {
        for word in ["TERM", "SIGTERM", "term", "15"] {
            assert_eq!(signal(word), Ok(15));
        }
        assert!(signal("0").is_err() && signal("SIGSIG").is_err() && signal("999").is_err());
    }
}
