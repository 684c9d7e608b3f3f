//! Trees: a job that was started from outside, with all that its ranks start. They have a watchdog of their own, fail together, and end
//! together with all processes that they have left.

use std::collections::VecDeque;
use std::ffi::CString;
use std::rc::Rc;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use nix::unistd::Pid;
use pmix_dstore::model::{Proc, Status};
use pmix_server::Waiting;

use super::super::hang;
use super::super::host::Infos;
use super::super::watchdog::Watchdog;
use super::kept::Kept;
use super::{ABORT_DELAY, EXIT_TIMEOUT, RunningJob, Stream, Supervisor};

/// The number of the tree of the job that the launcher was called for. A persistent launcher has none.
pub(super) const LAUNCHED: u32 = 0;

/// The first failure of a tree.
#[derive(Clone, Copy)]
pub(super) struct Failure {
    /// The exit status of who waits for the tree.
    pub exit: i32,
    /// What tools are told.
    pub status: Status,
}

/// An abort that a rank has called and that has not taken effect yet.
pub(super) struct PendingAbort {
    pub until: Instant,
    /// None is a tool.
    pub rank: Option<u32>,
    status: i32,
    what: String,
}

/// A signal that the watchdog has not confirmed yet.
pub(super) struct Signalling {
    pub signal: Signal,
    pub pids: Vec<Pid>,
    /// The answer to the process that asked for it.
    pub done: Option<Infos>,
}

/// The tool that has started a tree and gets its output.
pub(super) struct Front {
    pub tool: Proc,
    /// The most bytes of output that it may not have acknowledged yet; none if it acknowledges nothing.
    pub window: Option<u64>,
    /// How many it has not.
    pub unacknowledged: u64,
    /// Whether the job goes on when the tool is lost.
    pub is_separate: bool,
    /// The server's process by which it is connected.
    pub life: u32,
    /// What is kept for it, if it reconnects.
    pub kept: Option<Kept>,
    /// The end of its job was sent.
    pub is_told: bool,
}

pub(super) struct Tree {
    pub watchdog: Rc<Watchdog>,
    /// The job that was started from outside.
    pub root: u32,
    /// None: the tree is the launched one, and its output goes to the launcher's.
    pub front: Option<Front>,
    /// How many programs the watchdog has been told of.
    pub programs: u32,
    pub failure: Option<Failure>,
    /// A rank's abort, while it may still be only the consequence of another rank's death.
    pub abort: Option<PendingAbort>,
    /// The time at which ranks that were sent SIGTERM are killed.
    pub kill_at: Option<Instant>,
    timeout: Option<Duration>,
    /// The time limit.
    pub timeout_at: Option<Instant>,
    /// Signals to ranks that the watchdog has not confirmed yet. The first is under way, the others wait for it.
    pub controls: VecDeque<Signalling>,
    /// All ranks have ended, and what they have started is being ended.
    pub is_closing: bool,
    /// All processes have ended.
    pub is_over: bool,
    /// Whether its job was started, so that somebody waits for its end.
    pub is_started: bool,
}

impl Tree {
    /// When something is to be done.
    pub fn deadline(&self) -> Option<Instant> {
        let abort = self.abort.as_ref().map(|abort| abort.until);
        let front = self.front.as_ref().and_then(|front| front.kept.as_ref()?.until);
        // One that is over goes in this turn.
        [self.kill_at, self.timeout_at, abort, front].into_iter().flatten().min()
    }

    /// Whether its front end was sent its end.
    pub fn is_told(&self) -> bool {
        self.front.as_ref().is_some_and(|front| front.is_told)
    }
}

impl Supervisor<'_> {
    /// Adds a tree without jobs.
    pub(super) fn plant(&mut self, id: u32, watchdog: Rc<Watchdog>, front: Option<Front>, timeout: Option<Duration>) {
        let tree = Tree {
            watchdog,
            root: 0,
            front,
            programs: 0,
            failure: None,
            abort: None,
            kill_at: None,
            timeout,
            timeout_at: timeout.and_then(|time| Instant::now().checked_add(time)),
            controls: VecDeque::new(),
            is_closing: false,
            is_over: false,
            is_started: false,
        };
        self.trees.insert(id, tree);
    }

    pub(super) fn jobs_of(&self, tree: u32) -> impl Iterator<Item = (u32, &RunningJob)> {
        self.jobs.iter().filter(move |(_, job)| job.tree == tree).map(|(id, job)| (*id, job))
    }

    fn has_running(&self, tree: u32) -> bool {
        self.jobs_of(tree).any(|(_, job)| job.has_running())
    }

    /// Whether a tree has failed or all its ranks have ended.
    pub(super) fn is_ending(&self, tree: u32) -> bool {
        self.trees.get(&tree).is_none_or(|tree| tree.failure.is_some() || tree.is_closing)
    }

    /// Does what is due, and ends the trees whose ranks have ended.
    pub(super) fn tend_trees(&mut self, now: Instant) {
        let ids: Vec<u32> = self.trees.keys().copied().collect();
        for id in ids {
            self.tend(id, now);
        }
    }

    fn tend(&mut self, id: u32, now: Instant) {
        let Some(tree) = self.trees.get_mut(&id) else { return };
        if tree.abort.as_ref().is_some_and(|abort| abort.until <= now) {
            self.finish_abort(id);
        }
        self.tend_front(id, now);
        let Some(tree) = self.trees.get_mut(&id) else { return };
        if tree.timeout_at.take_if(|at| *at <= now).is_some() {
            self.time_is_over(id);
        }
        let is_running = self.has_running(id);
        let Some(tree) = self.trees.get_mut(&id) else { return };
        if tree.is_over {
            return self.tree_is_over(id);
        }
        if !is_running && !tree.is_closing {
            tree.is_closing = true;
            // Descendants of the ranks get the rest of the ranks' time to end.
            let rest = tree.kill_at.take().map(|at| at.saturating_duration_since(now));
            tree.watchdog.finish(rest.unwrap_or(self.args.grace));
        }
        if tree.kill_at.take_if(|at| *at <= now).is_some() {
            tree.watchdog.signal_all(Signal::SIGKILL);
        }
    }

    fn time_is_over(&mut self, id: u32) {
        let waiting = self.waiting_of(id);
        let seconds = self.trees.get(&id).and_then(|tree| tree.timeout).unwrap_or_default().as_secs_f64();
        if id == LAUNCHED {
            self.write_until = Instant::now().checked_add(self.args.grace);
        }
        let what = format!("the job has run for {seconds} s, which is its limit");
        self.fail(id, EXIT_TIMEOUT, Status::ERR_TIMEOUT, &what);
        self.say_what_waits(id, &waiting);
    }

    /// Handles a failure of a tree. The first failure is reported and decides the exit status; the other ranks get
    /// SIGTERM.
    pub(super) fn fail(&mut self, id: u32, exit: i32, status: Status, what: &str) {
        let left = self.jobs_of(id).flat_map(|(_, job)| job.running()).count();
        let kill_at = Instant::now().checked_add(self.args.grace);
        // A tree whose end was told is no more than what its front end has still to get.
        let may_fail = |tree: &&mut Tree| tree.failure.is_none() && !tree.is_told();
        let Some(tree) = self.trees.get_mut(&id).filter(may_fail) else { return };
        tree.failure = Some(Failure { exit, status });
        tree.kill_at = kill_at;
        let ending = if left == 0 { String::new() } else { format!("; ending the ranks that still run ({left})") };
        self.say_to(id, &format!("{what}{ending}"));
        self.announce_end(id);
        if let Some(tree) = self.trees.get(&id) {
            tree.watchdog.signal_all(Signal::SIGTERM);
        }
    }

    /// Tells the user what has become of the server's processes. Without a server all jobs end, and a persistent launcher.
    pub(super) fn tend_server(&mut self) {
        for line in self.server.take_lines() {
            self.say(&line);
        }
        let Some(why) = self.server.lost().filter(|_| !self.is_server_lost) else { return };
        self.is_server_lost = true;
        // Nobody reconnects.
        self.trees.values_mut().filter_map(|tree| tree.front.as_mut()).for_each(|front| front.kept = None);
        if self.is_serving {
            self.end_serving(&why);
            self.exit = Some(1);
        } else {
            self.fail(LAUNCHED, 1, Status::ERR_JOB_ABORTED, &why);
        }
    }

    /// Lets the server take the losses that follow for the launcher's work.
    pub(super) fn announce_end(&self, id: u32) {
        let running = self.jobs_of(id).filter(|(_, job)| !job.is_over);
        running.for_each(|(_, job)| self.server.announce_end(job.nspace()));
    }

    /// A rank, or a tool, ends a tree.
    pub(super) fn abort(&mut self, rank: Option<u32>, by: &Proc, status: i32, message: Option<CString>) {
        let said = message.map_or(String::new(), |text| format!(": {}", text.to_string_lossy()));
        // An aborted job must not exit with a status that a shell reads as success.
        let status = if status & 0xff == 0 { 1 } else { status & 0xff };
        let who = rank.map_or_else(|| format!("tool {}", by.nspace), |rank| self.name(rank));
        let what = format!("{who} called abort with status {status}{said}");
        let until = Instant::now() + ABORT_DELAY;
        let of_rank = rank.and_then(|rank| self.job_of(rank)).and_then(|job| self.jobs.get(&job)).map(|job| job.tree);
        for (id, tree) in &mut self.trees {
            // A tool means the launched job, or those that it has started.
            let is_of_tool = tree.front.as_ref().is_none_or(|front| front.tool == *by);
            if of_rank.map_or(is_of_tool, |of| of == *id) {
                tree.abort.get_or_insert(PendingAbort { until, rank, status, what: what.clone() });
            }
        }
    }

    /// Makes a pending abort the tree's failure, if there is none yet.
    pub(super) fn finish_abort(&mut self, id: u32) {
        if let Some(abort) = self.trees.get_mut(&id).and_then(|tree| tree.abort.take()) {
            self.fail(id, abort.status, Status::ERR_JOB_ABORTED, &abort.what);
        }
    }

    /// A tool is gone without a farewell: the jobs that it waited for end.
    pub(super) fn tool_is_lost(&mut self, tool: &Proc) {
        let is_its = |tree: &Tree| tree.front.as_ref().is_some_and(|front| front.tool == *tool);
        let ids: Vec<u32> = self.trees.iter().filter(|(_, tree)| is_its(tree)).map(|(id, _)| *id).collect();
        for id in ids {
            let Some(front) = self.trees.get_mut(&id).and_then(|tree| tree.front.as_mut()) else { continue };
            // Nobody acknowledges any more.
            (front.window, front.unacknowledged, front.kept) = (None, 0, None);
            if !front.is_separate {
                self.fail(
                    id,
                    1,
                    Status::ERR_JOB_KILLED_BY_CMD,
                    &format!("tool {tool}, which waited for the job, is gone"),
                );
            }
        }
    }

    /// Forwards a signal to the launched tree; a signal that ends the job sets a deadline.
    pub(super) fn forward(&mut self, signal: Signal) {
        if signal == Signal::SIGUSR1 {
            let waiting = self.waiting_of(LAUNCHED);
            self.say_what_waits(LAUNCHED, &waiting);
        }
        let Some(tree) = self.trees.get(&LAUNCHED) else { return };
        if matches!(signal, Signal::SIGUSR1 | Signal::SIGUSR2) {
            return tree.watchdog.signal_ranks(signal);
        }
        let is_failing = tree.failure.is_some();
        if is_failing && signal == Signal::SIGINT {
            // This is the second request, or the job is ending already.
            return tree.watchdog.signal_all(Signal::SIGKILL);
        }
        self.say(&format!("{signal}: ending the job"));
        let waiting = (!is_failing).then(|| self.waiting_of(LAUNCHED));
        let (exit, status) = (128 + signal as i32, Status::ERR_JOB_KILLED_BY_CMD);
        let end = Instant::now().checked_add(self.args.grace);
        self.write_until = end;
        self.announce_end(LAUNCHED);
        if let Some(tree) = self.trees.get_mut(&LAUNCHED) {
            tree.failure.get_or_insert(Failure { exit, status });
            tree.kill_at = tree.kill_at.or(end);
            tree.watchdog.signal_all(signal);
        }
        // The ranks have their signal: this may take a while where they are many.
        if let Some(waiting) = waiting {
            self.say_what_waits(LAUNCHED, &waiting);
        }
    }

    /// Does what a signal to a persistent launcher asks for.
    pub(super) fn obey(&mut self, signal: Signal) {
        match signal {
            Signal::SIGUSR1 => {
                let waiting = self.waiting();
                let lines = hang::explained(&self.tables(), &waiting);
                lines.iter().for_each(|line| self.say(line));
            }
            Signal::SIGUSR2 => {}
            // The second request.
            Signal::SIGINT if self.is_ending => {
                self.trees.values().for_each(|tree| tree.watchdog.signal_all(Signal::SIGKILL));
            }
            signal => self.end_serving(signal.as_ref()),
        }
    }

    /// Ends all trees, and after them the persistent launcher.
    pub(super) fn end_serving(&mut self, why: &str) {
        if std::mem::replace(&mut self.is_ending, true) {
            return;
        }
        let jobs = if self.trees.is_empty() { String::new() } else { format!("; ending {} jobs", self.trees.len()) };
        self.say(&format!("{why}: the persistent pmixrun ends{jobs}"));
        self.write_until = Instant::now().checked_add(self.args.grace);
        let exit = 128 + Signal::SIGTERM as i32;
        let ids: Vec<u32> = self.trees.keys().copied().collect();
        for id in ids {
            self.fail(id, exit, Status::ERR_JOB_KILLED_BY_CMD, &format!("{why}: the persistent pmixrun ends"));
            self.limit_wait_for_front(id);
        }
    }

    /// Prints a message to the user who waits for a tree, after the output of the ranks so far.
    pub(super) fn say_to(&mut self, id: u32, message: &str) {
        let root = self.trees.get(&id).filter(|tree| tree.front.is_some()).map(|tree| tree.root);
        match root.and_then(|root| self.jobs.get(&root)).filter(|job| job.tree == id) {
            Some(job) => {
                let source = job.whole();
                self.deliver(id, source, Stream::Err, format!("pmixrun: {message}\n").into_bytes());
            }
            None => self.say(message),
        }
    }

    /// Prints a message about what a process does, unless too much output waits already.
    pub(super) fn say_for(&mut self, by: &Proc, message: &str) {
        let tree = self.tree_of(by).unwrap_or(LAUNCHED);
        if !self.is_full(tree, Stream::Err) {
            self.say_to(tree, message);
        }
    }

    /// The tree of a process's job; none of a tool.
    pub(super) fn tree_of(&self, by: &Proc) -> Option<u32> {
        self.job_named(&by.nspace).map(|(_, job)| job.tree)
    }

    /// Says what the ranks of a tree wait for.
    fn say_what_waits(&mut self, id: u32, waiting: &Waiting) {
        let root = self.trees.get(&id).map(|tree| tree.root);
        let mut jobs: Vec<(u32, &RunningJob)> = self.jobs_of(id).collect();
        // The others are named.
        jobs.sort_by_key(|(number, _)| Some(*number) != root);
        let tables: Vec<_> = jobs.into_iter().map(|(_, job)| self.table(job)).collect();
        let lines = hang::explained(&tables, waiting);
        lines.iter().for_each(|line| self.say_to(id, line));
    }

    /// What the processes of a tree wait for.
    fn waiting_of(&self, id: u32) -> Waiting {
        let mut waiting = self.waiting();
        let is_its = |proc: &Proc| self.jobs_of(id).any(|(_, job)| *job.nspace() == proc.nspace);
        // A launched job is alone, but for what waits of tools.
        if id != LAUNCHED {
            waiting.collectives.retain(|collective| collective.entered.iter().chain(&collective.absent).any(is_its));
            waiting.gets.retain(|get| is_its(&get.asker));
        }
        waiting
    }
}
