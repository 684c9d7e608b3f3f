//! What tools ask of the launcher: the ranks' processes, and to control them.

use std::collections::BTreeMap;
use std::ffi::CStr;
use std::time::Instant;

use nix::errno::Errno;
use nix::sys::signal::Signal;
use nix::unistd::Pid;
use pmix_client::events::range;
use pmix_dstore::model::{Info, Proc, Status, Value, keys};

use super::super::control::{Action, Control, Ranks};
use super::super::halts::ON_EXEC;
use super::super::host::Infos;
use super::super::table::{Row, Table};
use super::tree::{LAUNCHED, Signalling};
use super::{RankState, RunningJob, Supervisor};

/// What the launcher offers for debuggers, on its command line and in a spawn.
pub(super) const FOR_DEBUGGERS: [&str; 4] =
    [keys::DEBUG_STOP_ON_EXEC, keys::DEBUG_STOP_IN_INIT, keys::DEBUG_STOP_IN_APP, keys::DEBUGGER_DAEMONS];

impl Supervisor<'_> {
    /// The ranks' processes and the states of the jobs.
    pub(super) fn tables(&self) -> Vec<Table<'_>> {
        let known = self.jobs.values().map(|job| self.table(job));
        known.chain(self.past.iter().map(|job| job.table(&self.session.hostname))).collect()
    }

    pub(super) fn table<'j>(&'j self, job: &'j RunningJob) -> Table<'j> {
        let failure = self.trees.get(&job.tree).and_then(|tree| tree.failure);
        Table {
            job: job.nspace(),
            hostname: &self.session.hostname,
            rows: self.rows(job),
            status: match failure {
                Some(failure) => Some(failure.status),
                None => job.halts.is_whole(numbers_of_running(job)).then_some(Status::READY_FOR_DEBUG),
            },
            for_debuggers: &FOR_DEBUGGERS,
            is_default: job.job.ranks.is_launched,
        }
    }

    /// The ranks of a job for queries.
    pub(super) fn rows(&self, job: &RunningJob) -> Vec<Row> {
        let row = |(number, rank): (u32, &RankState)| Row {
            pid: rank.pid.as_raw(),
            executable: job.job.executable(number),
            is_connected: rank.connected && !rank.finalized,
            is_finalized: rank.finalized,
            ended: rank.ended,
            is_killed_by_command: rank.is_killed_by_command,
        };
        (0..).zip(&job.ranks).map(row).collect()
    }

    /// Does to ranks what a tool or a rank asks. To end all of them is to end the launched job, with all processes that they have started,
    /// or the persistent launcher.
    pub(super) fn control(&mut self, control: &Control, by: &Proc, done: Infos) {
        let Control { ranks, action } = control;
        let is_end = matches!(action, Action::Kill | Action::Terminate);
        let mut pids: BTreeMap<u32, Vec<Pid>> = BTreeMap::new();
        for job in self.jobs.values() {
            let meant = job.running().filter(|(number, _)| ranks.contains(*number as usize));
            let meant: Vec<Pid> = meant.map(|(_, rank)| rank.pid).collect();
            if !meant.is_empty() {
                pids.entry(job.tree).or_default().extend(meant);
            }
        }
        if is_end && *ranks == Ranks::All && self.is_serving {
            self.end_serving(&format!("{} by {by}", action.attribute()));
            return done.complete((Status::SUCCESS, Vec::new()));
        }
        if pids.is_empty() {
            return done.complete((Status::ERR_NOT_FOUND, Vec::new()));
        }
        if *action == Action::Kill {
            for (first, job) in &mut self.jobs {
                let meant = (*first..).zip(&mut job.ranks).filter(|(number, _)| ranks.contains(*number as usize));
                meant.for_each(|(_, rank)| rank.is_killed_by_command = true);
            }
        }
        if is_end {
            for tree in self.end_jobs(control) {
                self.end_for(tree, *action, by);
                pids.remove(&tree);
            }
        }
        if *action == Action::Resume {
            // A debugger may also continue by this those that were stopped on exec. Others wait for its release.
            self.jobs.values_mut().for_each(|job| job.halts.resume(ranks));
        }
        let mut done = Some(done);
        while let Some((tree, pids_of_tree)) = pids.pop_first() {
            // The one who asks hears of the last ones.
            let last = if pids.is_empty() { done.take() } else { None };
            self.signal(tree, action.signal(), pids_of_tree, last);
        }
        if let Some(done) = done {
            done.complete((Status::SUCCESS, Vec::new()));
        }
    }

    /// Jobs are ended as a whole: a spawned one alone, one that was started from outside with its tree. Returns these trees.
    fn end_jobs(&mut self, control: &Control) -> Vec<u32> {
        let kill_at = Instant::now().checked_add(self.args.grace);
        let mut trees = Vec::new();
        for (first, job) in self.jobs.iter_mut().filter(|(_, job)| !job.is_over) {
            if job.job.ranks.numbers().any(|number| !control.ranks.contains(number as usize)) {
                continue;
            }
            // The launched job, only if all are meant.
            let is_root = self.trees.get(&job.tree).is_some_and(|tree| tree.root == *first);
            if is_root && (job.tree != LAUNCHED || control.ranks == Ranks::All) {
                trees.push(job.tree);
            } else if !is_root {
                job.is_ended_by_command = true;
                job.kill_at = kill_at.filter(|_| control.action == Action::Terminate);
            }
        }
        trees
    }

    /// Kills what a job that was terminated has left running after the grace period.
    pub(super) fn kill_terminated_jobs(&mut self, now: Instant) {
        let mut late = Vec::new();
        for job in self.jobs.values_mut() {
            if job.kill_at.take_if(|at| *at <= now).is_some() {
                late.push((job.tree, job.running().map(|(_, rank)| rank.pid).collect::<Vec<Pid>>()));
            }
        }
        for (tree, pids) in late.into_iter().filter(|(_, pids)| !pids.is_empty()) {
            self.signal(tree, Signal::SIGKILL, pids, None);
        }
    }

    /// Sends a signal to the ranks of a tree with these processes; `done` is answered when it is sent.
    pub(super) fn signal(&mut self, tree: u32, signal: Signal, pids: Vec<Pid>, done: Option<Infos>) {
        let Some(controls) = self.trees.get_mut(&tree).map(|tree| &mut tree.controls) else {
            return done.into_iter().for_each(|done| done.complete((Status::ERR_NOT_FOUND, Vec::new())));
        };
        controls.push_back(Signalling { signal, pids, done });
        if controls.len() == 1 {
            self.send_control(tree);
        }
    }

    /// Sends the oldest signal to the watchdog. Only one is under way at a time: with many, launcher and watchdog could wait for room
    /// in each other's socket for ever.
    fn send_control(&mut self, id: u32) {
        while let Some(tree) = self.trees.get_mut(&id) {
            let Some(next) = tree.controls.front_mut() else { return };
            let Err(why) = tree.watchdog.signal_these(next.signal, std::mem::take(&mut next.pids)) else { return };
            let done = tree.controls.pop_front().and_then(|failed| failed.done);
            self.say(&why);
            done.into_iter().for_each(|done| done.complete((Status::ERR_OUT_OF_RESOURCE, Vec::new())));
        }
    }

    /// A rank has stopped on exec, and can be traced.
    pub(super) fn has_stopped_on_exec(&mut self, tree: u32, pid: Pid) {
        if let Some(rank) = self.number_of(tree, pid) {
            self.halted(rank, ON_EXEC);
        }
    }

    /// A rank waits for a debugger.
    pub(super) fn halted(&mut self, rank: u32, breakpoint: &CStr) {
        let Some(id) = self.job_of(rank) else { return };
        if let Some(job) = self.jobs.get_mut(&id) {
            job.halts.add(rank as usize, breakpoint);
        }
        self.report_halts(id);
    }

    /// Tells tools when all ranks of a job wait for a debugger. The server keeps the event for tools that come soon after; later ones ask
    /// for the status of the job.
    pub(super) fn report_halts(&mut self, job: u32) {
        let Some(job) = self.jobs.get_mut(&job) else { return };
        let running: Vec<usize> = numbers_of_running(job).collect();
        let Some(breakpoint) = job.halts.report(running.into_iter()) else { return };
        let job = job.whole();
        let infos = vec![
            Info::new(keys::EVENT_NON_DEFAULT, Value::Bool(true)),
            Info::new(keys::EVENT_AFFECTED_PROC, Value::Proc(job)),
            Info::new(keys::BREAKPOINT, Value::String(Some(breakpoint))),
        ];
        self.server.notify_event(Status::READY_FOR_DEBUG, self.session.server.clone(), range::LOCAL, infos);
    }

    /// A debugger has released ranks. The server has told them, unless the event was for the launcher alone.
    pub(super) fn released(&mut self, ranks: &Ranks, is_ours: bool) {
        let on_exec = self.jobs.values_mut().map(|job| (job.tree, job.halts.release(ranks)));
        let on_exec: Vec<(u32, Vec<usize>)> = on_exec.filter(|(_, ranks)| !ranks.is_empty()).collect();
        // Neither holds for later tools, nor for what ranks wait for after they have been stopped on exec.
        for code in [Status::READY_FOR_DEBUG, Status::DEBUGGER_RELEASE] {
            self.server.forget_events(code);
        }
        for (tree, numbers) in on_exec {
            let pids = numbers.into_iter().filter_map(|number| self.rank(number as u32)).map(|rank| rank.pid).collect();
            self.signal(tree, Signal::SIGCONT, pids, None);
        }
        if is_ours {
            let running = self.jobs.values().flat_map(RunningJob::running);
            let meant = running.map(|(number, _)| number).filter(|number| ranks.contains(*number as usize));
            let procs: Vec<Proc> = meant.filter_map(|number| self.proc(number)).collect();
            let infos = vec![
                Info::new(keys::EVENT_NON_DEFAULT, Value::Bool(true)),
                Info::new(keys::EVENT_CUSTOM_RANGE, Value::procs(procs)),
            ];
            self.server.notify_event(Status::DEBUGGER_RELEASE, self.session.server.clone(), range::CUSTOM, infos);
        }
    }

    /// Takes the watchdog's answer to the oldest signal.
    pub(super) fn confirm_control(&mut self, tree: u32, result: Result<(), Errno>) {
        let status = match result {
            Ok(()) => Status::SUCCESS,
            Err(Errno::EPERM) => Status::ERR_NO_PERMISSIONS,
            Err(_) => Status::ERROR,
        };
        let confirmed = self.trees.get_mut(&tree).and_then(|tree| tree.controls.pop_front());
        if let Some(done) = confirmed.and_then(|confirmed| confirmed.done) {
            done.complete((status, Vec::new()));
        }
        self.send_control(tree);
    }

    fn end_for(&mut self, tree: u32, action: Action, by: &Proc) {
        let signal = action.signal();
        let (exit, status) = (128 + signal as i32, Status::ERR_JOB_KILLED_BY_CMD);
        self.fail(tree, exit, status, &format!("{} by {}:{}", action.attribute(), by.nspace, by.rank));
        if signal == Signal::SIGKILL {
            let kill_at = Some(Instant::now());
            self.trees.entry(tree).and_modify(|tree| tree.kill_at = kill_at);
        }
    }
}

/// The ranks of a job that run, by their numbers.
fn numbers_of_running(job: &RunningJob) -> impl Iterator<Item = usize> {
    job.running().map(|(number, _)| number as usize)
}
