//! `pmixctl kill`, `signal`, `pause`, `resume` and `control`.

use pmix_dstore::model::{Info, Proc, Rank, Value, keys};

use super::Printout;
use super::args::{Control, Server, Target};
use super::connection::{Connection, nspace, process};

/// What is to happen to processes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// They end at once.
    Kill,
    /// They are asked to end.
    Terminate,
    /// They get a signal.
    Signal(i32),
    /// They stop.
    Pause,
    /// They go on.
    Resume,
    /// The host saves their state under this name.
    Checkpoint(String),
    /// The host starts them anew from this checkpoint.
    Restart(String),
    /// A request of this name is cancelled.
    Cancel(String),
    /// They become a process set of this name.
    DefinePset(String),
}

impl Action {
    /// The one that the command line names.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn of(asked: &Control) -> Result<Action, String> {
        let switches = [
            (asked.kill, Action::Kill),
            (asked.terminate, Action::Terminate),
            (asked.pause, Action::Pause),
            (asked.resume, Action::Resume),
        ];
        let switched = switches.into_iter().find(|(is_asked, _)| *is_asked).map(|(_, action)| action);
        let signal = asked.signal.as_deref().map(signal).transpose()?.map(Action::Signal);
        let named = |name: &Option<String>, action: fn(String) -> Action| name.clone().map(action);
        switched
            .or(signal)
            .or(named(&asked.checkpoint, Action::Checkpoint))
            .or(named(&asked.restart, Action::Restart))
            .or(named(&asked.cancel, Action::Cancel))
            .or(named(&asked.pset, Action::DefinePset))
            .ok_or_else(|| "nothing to do; pmixctl control --help lists what can be done".to_owned())
    }

    fn info(&self) -> Info {
        match self {
            Action::Kill => Info::new(keys::JOB_CTRL_KILL, Value::Bool(true)),
            Action::Terminate => Info::new(keys::JOB_CTRL_TERMINATE, Value::Bool(true)),
            Action::Signal(number) => Info::new(keys::JOB_CTRL_SIGNAL, Value::Int(*number)),
            Action::Pause => Info::new(keys::JOB_CTRL_PAUSE, Value::Bool(true)),
            Action::Resume => Info::new(keys::JOB_CTRL_RESUME, Value::Bool(true)),
            Action::Checkpoint(name) => Info::new(keys::JOB_CTRL_CHECKPOINT, Value::string(name)),
            Action::Restart(name) => Info::new(keys::JOB_CTRL_RESTART, Value::string(name)),
            Action::Cancel(name) => Info::new(keys::JOB_CTRL_CANCEL, Value::string(name)),
            Action::DefinePset(name) => Info::new(keys::JOB_CTRL_DEFINE_PSET, Value::string(name)),
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

/// Controls ranks of a job.
pub fn ranks(action: Action, target: &Target) -> Result<Printout, String> {
    let job = nspace(&target.nspace)?;
    let ranks =
        if target.ranks.is_empty() { vec![Rank::WILDCARD] } else { target.ranks.iter().copied().map(Rank).collect() };
    let procs = ranks.into_iter().map(|rank| Proc::new(job.clone(), rank)).collect();
    ask(&target.server, &format!("job {}", target.nspace), procs, vec![action.info()])
}

/// Controls processes, as `pctrl` does.
pub fn processes(server: &Server, action: Action, targets: &[String], id: Option<&str>) -> Result<Printout, String> {
    let procs = targets.iter().map(|target| process(target)).collect::<Result<Vec<_>, _>>()?;
    let id = id.map(|id| Info::new(keys::JOB_CTRL_ID, Value::string(id)));
    let named = if targets.is_empty() { "all processes".to_owned() } else { targets.join(",") };
    ask(server, &named, procs, [action.info()].into_iter().chain(id).collect())
}

/// Asks the host to control processes. `what` names them for people.
fn ask(server: &Server, what: &str, procs: Vec<Proc>, mut directives: Vec<Info>) -> Result<Printout, String> {
    let connection = Connection::open(server)?;
    directives.push(connection.limit());
    let answer = connection.client().job_control(procs, directives).wait();
    connection.close();
    answer.map(|_| Printout::good(String::new())).map_err(|status| format!("{what}: the host answers {status}"))
}

#[cfg(test)]
mod tests {
    use super::super::args::{Arguments, Command};
    use super::*;

    /// The action of a command line.
    fn action(line: &str) -> Option<Action> {
        let words = format!("pmixctl control --targets job:* {line}");
        let words = super::super::words_of(words.split(' ').map(std::ffi::OsString::from));
        match <Arguments as clap::Parser>::try_parse_from(words).ok()?.command {
            Command::Control { action, .. } => Action::of(&action).ok(),
            _ => None,
        }
    }

    #[test]
    fn one_action_is_asked_for() {
        for (line, asked) in [
            ("--kill", Action::Kill),
            ("--terminate", Action::Terminate),
            ("--pause", Action::Pause),
            ("--resume", Action::Resume),
            ("--signal USR1", Action::Signal(10)),
            ("--checkpoint c --request-id r", Action::Checkpoint("c".into())),
            ("--restart c", Action::Restart("c".into())),
            ("--cancel r", Action::Cancel("r".into())),
            ("--pset s", Action::DefinePset("s".into())),
        ] {
            assert_eq!(action(line), Some(asked), "{line}");
        }
        for wrong in ["", "--kill --pause", "--signal NO", "--request-id r"] {
            assert_eq!(action(wrong.trim()), None, "{wrong}");
        }
    }

    #[test]
    fn signals_are_known_by_name_and_number() {
        for word in ["TERM", "SIGTERM", "term", "15"] {
            assert_eq!(signal(word), Ok(15));
        }
        assert!(signal("0").is_err() && signal("SIGSIG").is_err() && signal("999").is_err());
    }
}
