//! Jobs that ranks and tools start: `PMIx_Spawn`.

use std::ffi::{CStr, CString, OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use nix::sys::signal::Signal;
use nix::unistd::Pid;
use pmix_dstore::model::{App, Envar, Info, InfoFlags, Proc, Status, Value, keys};
use pmix_dstore::settings::is_of_launcher;

use super::super::acknowledged;
use super::super::args::{AppArgs, RANKS_MAX, Stops, split};
use super::super::host::Spawned;
use super::super::hosts;
use super::super::job::{Application, Plan};
use super::super::ranks::{Program, working_directory};
use super::Supervisor;
use super::kept::Kept;
use super::tree::{Front, LAUNCHED};

/// The largest number of a rank, which grows with the ranks of jobs that have ended and that the server still knows.
const NUMBERS_MAX: u32 = 1 << 24;
/// The most characters of a line about a spawn.
const LINE_CHARS_MAX: usize = 300;

/// Attributes that say who asks, or that are fulfilled without doing anything.
const PASSED_OVER: [&str; 14] = [
    keys::SPAWNED,
    keys::PARENT_ID,
    keys::USERID,
    keys::GRPID,
    keys::TIMEOUT,
    keys::REQUESTOR_IS_CLIENT,
    keys::REQUESTOR_IS_TOOL,
    keys::PERSONALITY,
    keys::NOTIFY_COMPLETION,
    keys::NOTIFY_JOB_EVENTS,
    keys::FWD_STDOUT,
    keys::FWD_STDERR,
    keys::FWD_STDDIAG,
    // Read with PMIX_DEBUG_STOP_IN_APP.
    keys::BREAKPOINT,
];

/// Why a job was not started: the status for the one who asked, and a line for the launcher's user.
struct Refusal(Status, String);

fn refused<T>(status: Status, why: impl Into<String>) -> Result<T, Refusal> {
    Err(Refusal(status, why.into()))
}

impl Supervisor<'_> {
    /// Starts a job for a process.
    pub(super) fn spawn(&mut self, by: Proc, infos: &[Info], apps: Vec<App>, done: Spawned) {
        if self.ended_lives + 1 < self.server.life() {
            // The request came through a server process that has since died; its exit event is still queued. Nobody gets an answer.
            return;
        }
        if let Some((job, written)) = acknowledged::resumed(infos) {
            return self.resume(&by, &job, written, done);
        }
        let who = format!("{}:{}", by.nspace, by.rank);
        match self.try_spawn(by.clone(), infos, apps) {
            Ok(job) => {
                self.invite_to_reconnect(&by);
                let nspace = self.jobs.get(&job).map(|job| job.nspace().clone());
                done.complete((Status::SUCCESS, nspace));
            }
            Err(Refusal(status, mut why)) => {
                if let Some((cut, _)) = why.char_indices().nth(LINE_CHARS_MAX) {
                    why.truncate(cut);
                    why += "...";
                }
                // A wrong call is the caller's to tell. Where nobody reads, the lines of a program that tries again and again would fill the
                // memory.
                if status != Status::ERR_BAD_PARAM {
                    self.say_for(&by, &format!("{who} spawns no job: {why}"));
                }
                done.complete((status, None));
            }
        }
    }

    fn try_spawn(&mut self, by: Proc, infos: &[Info], apps: Vec<App>) -> Result<u32, Refusal> {
        // What tools start belongs to the launched job, if there is one.
        let tree = self.tree_of(&by).or((!self.is_serving).then_some(LAUNCHED));
        if self.is_ending || tree.is_some_and(|tree| self.is_ending(tree)) {
            return refused(Status::ERR_JOB_CANCELED, "the launcher is ending its jobs");
        }
        let of_job = Directives::read(infos, &self.session.hostname)?;
        let plan = self.planned(&by, &of_job, apps, tree.is_none())?;
        let failed = |why: String| Refusal(Status::ERR_JOB_FAILED_TO_LAUNCH, why);
        // No name is given twice, also where the job does not come about.
        self.spawned += 1;
        let name = self.session.job_name(self.spawned).map_err(failed)?;
        let tree = match tree {
            Some(tree) => tree,
            None => self.plant_for(by, &of_job).map_err(failed)?,
        };
        let job = match self.add_job(tree, name, plan) {
            Ok(job) => job,
            // A tree without jobs closes in this turn.
            Err(why) => return Err(failed(why)),
        };
        if let Err(why) = self.start(job) {
            self.abandon(job);
            return Err(failed(why));
        }
        self.trees.entry(tree).and_modify(|tree| tree.is_started = true);
        Ok(job)
    }

    /// A tree for a job that a tool starts, which gets its output.
    fn plant_for(&mut self, by: Proc, of_job: &Directives) -> Result<u32, String> {
        let watchdog = Rc::new(self.watchdog.another()?);
        self.planted += 1;
        let Directives { window, timeout, is_separate, reconnects, .. } = *of_job;
        let kept = (reconnects && window.is_some() && self.args.restart.is_some()).then(Kept::default);
        let front =
            Front { tool: by, window, unacknowledged: 0, is_separate, life: self.server.life(), kept, is_told: false };
        self.plant(self.planted, watchdog, Some(front), timeout);
        Ok(self.planted)
    }

    /// What a job is to be; `is_root` is whether it begins a tree.
    fn planned(&mut self, by: &Proc, of_job: &Directives, apps: Vec<App>, is_root: bool) -> Result<Plan, Refusal> {
        let like = self.program_of(by);
        let mut plan = Plan {
            apps: Vec::new(),
            stops: of_job.stops.clone(),
            parent: Some(by.clone()),
            others: of_job.others.clone(),
            has_input: of_job.has_input && is_root,
        };
        let running = self.count_running() as u64;
        for app in apps {
            let ranks = u32::try_from(app.maxprocs).ok().filter(|ranks| (1..=RANKS_MAX).contains(ranks));
            let Some(ranks) = ranks else {
                let why = format!("{} ranks: their number goes from 1 to {RANKS_MAX}", app.maxprocs);
                return refused(Status::ERR_BAD_PARAM, why);
            };
            let more = u64::from(plan.ranks()) + u64::from(ranks);
            if running + more > u64::from(RANKS_MAX) {
                let why = format!("{more} ranks, and {running} run already: {RANKS_MAX} are the most");
                return refused(Status::ERR_OUT_OF_RESOURCE, why);
            }
            if more > u64::from(NUMBERS_MAX - self.free_numbers(more as u32).min(NUMBERS_MAX)) {
                return refused(Status::ERR_OUT_OF_RESOURCE, format!("{NUMBERS_MAX} ranks are known already"));
            }
            let own = Directives::read(&app.infos, &self.session.hostname)?;
            let program = self.program(app, (&own, of_job), &like)?;
            plan.stops.in_init |= own.stops.in_init;
            plan.stops.in_app = own.stops.in_app.or(plan.stops.in_app);
            plan.others.extend(own.others);
            plan.apps.push(Application { program, ranks, pset: own.pset });
        }
        if plan.apps.is_empty() {
            return refused(Status::ERR_BAD_PARAM, "no application is named");
        }
        Ok(plan)
    }

    /// The program of a rank. Jobs that it spawns inherit its variables and directory. A tool has those of the launched job.
    fn program_of(&self, by: &Proc) -> Program {
        let of = self.job_named(&by.nspace).map(|(_, job)| job);
        let app = of.map_or(0, |job| job.job.plan.app_of(by.rank.0).0);
        let launched = || self.trees.get(&LAUNCHED).and_then(|tree| self.jobs.get(&tree.root));
        let apps = of.or_else(launched).map_or(&[][..], |job| &job.job.plan.apps);
        apps.get(app as usize).map_or_else(Program::default, |app| app.program.clone())
    }

    /// The program of an application, with its own directives and those of its job. What these do not say is as in `like`.
    fn program(&self, app: App, (own, of_job): (&Directives, &Directives), like: &Program) -> Result<Program, Refusal> {
        let mut words = app.argv.iter().map(|word| os(word));
        let name = words.next();
        let program = app.cmd.as_deref().map(os).or_else(|| name.clone());
        let Some(program) = program.filter(|program| !program.is_empty()) else {
            return refused(Status::ERR_BAD_PARAM, "an application without a program");
        };
        let set = app.env.iter().filter_map(|text| split(OsStr::from_bytes(text.to_bytes())));
        let mut variables: Vec<(OsString, OsString)> = like.variables.iter().cloned().chain(set).collect();
        of_job.variables.iter().chain(&own.variables).for_each(|change| change.apply(&mut variables));
        // What a launcher gives its ranks is another rank's: a caller may hand over all of its environment.
        variables.retain(|(name, _)| !name.is_empty() && !name.as_bytes().contains(&b'=') && !is_of_launcher(name));
        let wdir = app.cwd.as_deref().or(own.wdir.as_deref()).or(of_job.wdir.as_deref());
        let wdir = wdir.filter(|path| !path.is_empty()).map(|path| PathBuf::from(os(path))).or(like.wdir.clone());
        if let Some(directory) = &wdir {
            working_directory(directory).map_err(|why| Refusal(Status::ERR_JOB_WDIR_NOT_FOUND, why))?;
        }
        let stops_on_exec = of_job.stops.on_exec || own.stops.on_exec;
        let app = AppArgs { ranks: 0, variables, wdir, pset: None, program, args: words.collect() };
        let program = Program::of(&app, &self.args.library, stops_on_exec)
            .map_err(|why| Refusal(Status::ERR_JOB_EXE_NOT_FOUND, why))?;
        Ok(Program { name: name.unwrap_or(program.name.clone()), ..program })
    }

    /// Ends a job that could not be started whole. Nobody has learnt its name, so nobody is told of its end.
    fn abandon(&mut self, id: u32) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        (job.is_ended_by_command, job.is_over) = (true, true);
        let (tree, numbers, nspace) = (job.tree, job.job.ranks.numbers(), job.nspace().clone());
        let pids: Vec<Pid> = job.running().map(|(_, rank)| rank.pid).collect();
        let is_root = self.trees.get(&tree).is_some_and(|tree| tree.root == id);
        let gone: Vec<u32> = numbers.filter(|number| self.rank(*number).is_none_or(|rank| !rank.running)).collect();
        for proc in gone.into_iter().filter_map(|number| self.proc(number)) {
            self.server.deregister_client(&proc);
        }
        self.events.job_ended(&nspace);
        if is_root {
            // Its tree ends with what has been started of it.
            if let Some(tree) = self.trees.get(&tree) {
                tree.watchdog.signal_all(Signal::SIGKILL);
            }
            return;
        }
        if !pids.is_empty() {
            self.signal(tree, Signal::SIGKILL, pids, None);
        }
        self.forget_programs(id);
        self.forget_job(id);
    }
}

fn os(text: &CStr) -> OsString {
    OsStr::from_bytes(text.to_bytes()).to_owned()
}

/// What is done to a variable of the ranks.
#[derive(Clone, Debug, PartialEq)]
enum Change {
    Set(Envar),
    /// Only where it is not set.
    Add(Envar),
    Unset(CString),
    Prepend(Envar),
    Append(Envar),
}

impl Change {
    fn read(info: &Info) -> Option<Change> {
        let envar = || match &info.value {
            Value::Envar(envar) => Some(envar.clone()),
            _ => None,
        };
        let key = &info.key;
        if key.is(keys::SET_ENVAR) {
            envar().map(Change::Set)
        } else if key.is(keys::ADD_ENVAR) {
            envar().map(Change::Add)
        } else if key.is(keys::PREPEND_ENVAR) {
            envar().map(Change::Prepend)
        } else if key.is(keys::APPEND_ENVAR) {
            envar().map(Change::Append)
        } else if key.is(keys::UNSET_ENVAR) {
            info.value.as_c_str().map(|name| Change::Unset(name.into()))
        } else {
            None
        }
    }

    /// Changes the list of variables that are set beside those of this process.
    fn apply(&self, variables: &mut Vec<(OsString, OsString)>) {
        let before = |name: &OsStr, variables: &[(OsString, OsString)]| {
            let set = variables.iter().rev().find(|(set, _)| set == name).map(|(_, value)| value.clone());
            set.or_else(|| std::env::var_os(name))
        };
        let (envar, is_prepended) = match self {
            Change::Unset(name) => {
                // An empty one: it cannot be taken from what this process has.
                variables.retain(|(set, _)| *set != os(name));
                return variables.push((os(name), OsString::new()));
            }
            Change::Set(envar) | Change::Add(envar) | Change::Append(envar) => (envar, false),
            Change::Prepend(envar) => (envar, true),
        };
        let Some(name) = envar.name.as_deref().map(os) else { return };
        let value = envar.value.as_deref().map(os).unwrap_or_default();
        let before = before(&name, variables);
        let value = match (self, before) {
            (Change::Add(_), Some(_)) => return,
            (Change::Set(_) | Change::Add(_), _) | (_, None) => value,
            (_, Some(before)) => {
                let separator = OsStr::from_bytes(std::slice::from_ref(&envar.separator)).to_owned();
                let [first, last] = if is_prepended { [value, before] } else { [before, value] };
                [first, separator, last].into_iter().collect()
            }
        };
        variables.push((name, value));
    }
}

/// The attributes of a job or of an application.
#[derive(Debug, Default)]
struct Directives {
    variables: Vec<Change>,
    wdir: Option<CString>,
    stops: Stops,
    /// Process set of an application's ranks.
    pset: Option<CString>,
    /// Whether rank 0 gets input from the tool that starts the job.
    has_input: bool,
    /// The job's time limit.
    timeout: Option<Duration>,
    /// Whether the job goes on when the tool that starts it is lost.
    is_separate: bool,
    /// The most output that the tool may not have acknowledged yet.
    window: Option<u64>,
    /// Whether the tool reconnects when the server was killed.
    reconnects: bool,
    /// What the ranks are told.
    others: Vec<Info>,
}

impl Directives {
    /// # Errors
    /// `ERR_NOT_SUPPORTED` for what is required and not known; those of [`check_hosts`].
    fn read(infos: &[Info], hostname: &str) -> Result<Directives, Refusal> {
        let mut all = Directives::default();
        let breakpoint = Info::find(infos, keys::BREAKPOINT).and_then(Value::as_text);
        let breakpoint = breakpoint.map(|name| String::from_utf8_lossy(name).into_owned());
        for info in infos {
            let key = &info.key;
            if let Some(change) = Change::read(info) {
                all.variables.push(change);
            } else if key.is(keys::WDIR) {
                all.wdir = info.value.as_c_str().map(Into::into);
            } else if key.is(keys::HOST) {
                check_hosts(info, hostname)?;
            } else if key.is(keys::PSET_NAME) {
                all.pset = info.value.as_c_str().filter(|name| !name.is_empty()).map(Into::into);
            } else if key.is(keys::FWD_STDIN) {
                all.has_input = is_for_rank_0(info)?;
            } else if key.is(keys::JOB_TIMEOUT) {
                all.timeout = Some(seconds(&info.value)?).filter(|time| !time.is_zero());
            } else if key.is(keys::SPAWN_CHILD_SEP) {
                all.is_separate = info.value.is_true();
            } else if key.is(acknowledged::WINDOW) {
                all.window = info.value.as_u64();
            } else if key.is(acknowledged::RECONNECTS) {
                all.reconnects = info.value.is_true();
            } else if key.is(keys::DEBUG_STOP_ON_EXEC) {
                all.stops.on_exec = info.value.is_true();
            } else if key.is(keys::DEBUG_STOP_IN_INIT) {
                all.stops.in_init = info.value.is_true();
            } else if key.is(keys::DEBUG_STOP_IN_APP) {
                all.stops.in_app = info.value.is_true().then(|| breakpoint.clone());
            } else if [keys::DEBUGGER_DAEMONS, keys::DEBUG_TARGET, keys::DEBUG_JOB].iter().any(|known| key.is(known)) {
                // Daemons of a debugger are ranks like others; these tell them what to look at.
                all.others.push(info.clone());
            } else if info.flags & InfoFlags::REQUIRED != 0 && !PASSED_OVER.iter().any(|known| key.is(known)) {
                return refused(Status::ERR_NOT_SUPPORTED, format!("{key} is required, and pmixrun does not have it"));
            }
        }
        Ok(all)
    }
}

/// Whether a job's input, of which an attribute says for which rank it is, is for rank 0, the only one that gets it.
fn is_for_rank_0(info: &Info) -> Result<bool, Refusal> {
    match info.value {
        Value::Bool(is_asked) => Ok(is_asked),
        Value::Undef => Ok(true),
        _ if info.value.as_u64() == Some(0) => Ok(true),
        _ if info.flags & InfoFlags::REQUIRED == 0 => Ok(false),
        _ => refused(
            Status::ERR_NOT_SUPPORTED,
            "input for another rank than 0 is required, and pmixrun does not have it",
        ),
    }
}

/// A number of seconds.
fn seconds(value: &Value) -> Result<Duration, Refusal> {
    let seconds = match value {
        Value::Double(seconds) => Some(*seconds),
        Value::Float(seconds) => Some((*seconds).into()),
        value => value.as_u64().map(|seconds| seconds as f64),
    };
    let seconds = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    seconds.ok_or_else(|| Refusal(Status::ERR_BAD_PARAM, "PMIX_JOB_TIMEOUT is no number of seconds".into()))
}

/// All jobs run on this node.
///
/// # Errors
/// `ERR_JOB_FAILED_TO_MAP` for another node, `ERR_BAD_PARAM` for what is no text.
fn check_hosts(info: &Info, hostname: &str) -> Result<(), Refusal> {
    let Some(text) = info.value.as_text().map(String::from_utf8_lossy) else {
        return refused(Status::ERR_BAD_PARAM, "PMIX_HOST is no text");
    };
    let mut names = text.split(',').map(|entry| hosts::host_and_slots(entry.trim()).0);
    match names.find(|host| !host.is_empty() && !hosts::is_named(hostname, host)) {
        Some(other) => {
            refused(Status::ERR_JOB_FAILED_TO_MAP, format!("{other} is another node, and pmixrun has this one alone"))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn envar(name: &str, value: &str) -> Envar {
        let text = |text: &str| Some(CString::new(text).unwrap());
        Envar { name: text(name), value: text(value), separator: b':' }
    }

    #[test]
    fn variables_are_set_added_to_and_emptied() {
        let mut variables = vec![("A".into(), "1".into())];
        for change in [
            Change::Set(envar("B", "2")),
            Change::Add(envar("A", "no")),
            Change::Prepend(envar("A", "0")),
            Change::Append(envar("A", "9")),
            Change::Append(envar("NO_SUCH_VARIABLE", "x")),
            Change::Unset(c"B".into()),
        ] {
            change.apply(&mut variables);
        }
        let last = |name: &str| variables.iter().rev().find(|(set, _)| set == name).map(|(_, value)| value.to_str());
        assert_eq!(last("A"), Some(Some("0:1:9")));
        assert_eq!(last("NO_SUCH_VARIABLE"), Some(Some("x")));
        assert_eq!(last("B"), Some(Some("")));
    }

    #[test]
    fn directives_are_read_or_refused() {
        let read = |infos: &[Info]| Directives::read(infos, "n1").map_err(|Refusal(status, why)| (status, why));
        let host = |text: &str| read(&[Info::new(keys::HOST, Value::string(text))]).err();
        assert_eq!((host("n1:4,localhost"), host("n1.example.org")), (None, None));
        assert!(
            host("n1,n2").is_some_and(|(status, why)| status == Status::ERR_JOB_FAILED_TO_MAP && why.contains("n2 is"))
        );
        let wdir = read(&[Info::new(keys::WDIR, Value::string("/tmp"))]).unwrap();
        assert_eq!(wdir.wdir.as_deref(), Some(c"/tmp"));
        let stop = read(&[Info::new(keys::DEBUG_STOP_ON_EXEC, Value::Bool(true))]).unwrap();
        assert!(stop.stops.on_exec);
        let unknown = Info::new("pmix.unknown", Value::Bool(true));
        assert!(read(std::slice::from_ref(&unknown)).is_ok());
        let required = Info { flags: InfoFlags::REQUIRED, ..unknown };
        assert_eq!(read(&[required]).unwrap_err().0, Status::ERR_NOT_SUPPORTED);
    }
}
