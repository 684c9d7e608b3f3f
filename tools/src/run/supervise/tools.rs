//! What tools ask of the launcher: the ranks' processes, and to control them.

use std::ffi::CStr;
use std::time::Instant;

use nix::errno::Errno;
use nix::sys::signal::Signal;
use nix::unistd::Pid;
use pmix_client::events::range;
use pmix_dstore::model::{Info, Proc, Rank, Status, Value, keys};

use super::super::control::{Action, Control, Ranks};
use super::super::halts::ON_EXEC;
use super::super::host::Infos;
use super::super::table::{Row, Table};
use super::{RankState, RunningJob, Supervisor};

/// What the launcher offers for debuggers, on its command line and in a spawn.
const FOR_DEBUGGERS: [&str; 4] =
    [keys::DEBUG_STOP_ON_EXEC, keys::DEBUG_STOP_IN_INIT, keys::DEBUG_STOP_IN_APP, keys::DEBUGGER_DAEMONS];

/// A signal that the watchdog has not confirmed yet.
pub(super) struct Signalling {
    signal: Signal,
    pids: Vec<Pid>,
    /// The answer to the process that asked for it.
    done: Option<Infos>,
}

impl Supervisor<'_> {
    /// The ranks' processes and the states of the jobs.
    pub(super) fn tables(&self) -> Vec<Table<'_>> {
        self.jobs.iter().filter(|job| !job.is_forgotten).map(|job| self.table(job)).collect()
    }

    fn table<'j>(&'j self, job: &'j RunningJob) -> Table<'j> {
        let row = |rank: &RankState| Row {
            pid: rank.pid.as_raw(),
            executable: job.job.executable(rank.rank),
            is_connected: rank.connected && !rank.finalized,
            is_finalized: rank.finalized,
            ended: rank.ended,
            is_killed_by_command: rank.is_killed_by_command,
        };
        Table {
            job: job.nspace(),
            hostname: &self.session.hostname,
            rows: self.ranks.get(job.numbers()).unwrap_or_default().iter().map(row).collect(),
            status: match self.failure {
                Some(failure) => Some(failure.status),
                None => job.halts.is_whole(self.running_numbers(job)).then_some(Status::READY_FOR_DEBUG),
            },
            for_debuggers: &FOR_DEBUGGERS,
        }
    }

    /// Does to ranks what a tool or a rank asks. To end all of them is to end the job, with all processes that they have started.
    pub(super) fn control(&mut self, control: &Control, by: &Proc, done: Infos) {
        let pids: Vec<Pid> = self.running(&control.ranks).map(|rank| rank.pid).collect();
        if pids.is_empty() {
            return done.complete((Status::ERR_NOT_FOUND, Vec::new()));
        }
        if control.action == Action::Kill {
            for rank in self.ranks.iter_mut().enumerate().filter(|(index, _)| control.ranks.contains(*index)) {
                rank.1.is_killed_by_command = true;
            }
        }
        if matches!(control.action, Action::Kill | Action::Terminate) {
            if control.ranks == Ranks::All {
                self.end_for(control.action, by);
                return done.complete((Status::SUCCESS, Vec::new()));
            }
            // A spawned job that is ended as a whole leaves the others alone.
            let kill_at = Instant::now().checked_add(self.args.grace);
            for job in self.jobs.iter_mut().skip(1).filter(|job| !job.is_over) {
                if job.numbers().all(|number| control.ranks.contains(number)) {
                    job.is_ended_by_command = true;
                    job.kill_at = kill_at.filter(|_| control.action == Action::Terminate);
                }
            }
        }
        if control.action == Action::Resume {
            // A debugger may also continue by this those that were stopped on exec. Others wait for its release.
            self.jobs.iter_mut().for_each(|job| job.halts.resume(&control.ranks));
        }
        self.signal(control.action.signal(), pids, Some(done));
    }

    /// Kills what a job that was terminated has left running after the grace period.
    pub(super) fn kill_terminated_jobs(&mut self, now: Instant) {
        let late = |job: &RunningJob| job.kill_at.is_some_and(|at| at <= now);
        let jobs: Vec<usize> = (0..self.jobs.len()).filter(|job| late(&self.jobs[*job])).collect();
        for job in jobs {
            self.jobs[job].kill_at = None;
            let running = self.running_numbers(&self.jobs[job]).map(|number| self.ranks[number].pid);
            let pids: Vec<Pid> = running.collect();
            if !pids.is_empty() {
                self.signal(Signal::SIGKILL, pids, None);
            }
        }
    }

    /// Sends a signal to the ranks with these processes; `done` is answered when it is sent.
    pub(super) fn signal(&mut self, signal: Signal, pids: Vec<Pid>, done: Option<Infos>) {
        self.controls.push_back(Signalling { signal, pids, done });
        if self.controls.len() == 1 {
            self.send_control();
        }
    }

    /// Sends the oldest signal to the watchdog. Only one is under way at a time: with many, launcher and watchdog could wait for room
    /// in each other's socket for ever.
    fn send_control(&mut self) {
        while let Some(next) = self.controls.front_mut() {
            let Err(why) = self.watchdog.signal_these(next.signal, std::mem::take(&mut next.pids)) else { return };
            let done = self.controls.pop_front().and_then(|failed| failed.done);
            self.say(&why);
            done.into_iter().for_each(|done| done.complete((Status::ERR_OUT_OF_RESOURCE, Vec::new())));
        }
    }

    /// A rank has stopped on exec, and can be traced.
    pub(super) fn has_stopped_on_exec(&mut self, pid: Pid) {
        if let Some(rank) = self.ranks.iter().position(|rank| rank.running && rank.pid == pid) {
            self.halted(rank, ON_EXEC);
        }
    }

    /// A rank waits for a debugger.
    pub(super) fn halted(&mut self, rank: usize, breakpoint: &CStr) {
        let Some(job) = self.ranks.get(rank).map(|rank| rank.job) else { return };
        self.jobs[job].halts.add(rank, breakpoint);
        self.report_halts(job);
    }

    /// Tells tools when all ranks of a job wait for a debugger. The server keeps the event for tools that come soon after; later ones ask
    /// for the status of the job.
    pub(super) fn report_halts(&mut self, job: usize) {
        let running: Vec<usize> = self.running_numbers(&self.jobs[job]).collect();
        let Some(breakpoint) = self.jobs[job].halts.report(running.into_iter()) else { return };
        let job = Proc::new(self.jobs[job].nspace().clone(), Rank::WILDCARD);
        let infos = vec![
            Info::new(keys::EVENT_NON_DEFAULT, Value::Bool(true)),
            Info::new(keys::EVENT_AFFECTED_PROC, Value::Proc(job)),
            Info::new(keys::BREAKPOINT, Value::String(Some(breakpoint))),
        ];
        self.server.notify_event(Status::READY_FOR_DEBUG, self.session.server.clone(), range::LOCAL, infos, None);
    }

    /// A debugger has released ranks. The server has told them, unless the event was for the launcher alone.
    pub(super) fn released(&mut self, ranks: &Ranks, is_ours: bool) {
        let on_exec: Vec<usize> = self.jobs.iter_mut().flat_map(|job| job.halts.release(ranks)).collect();
        // Neither holds for later tools, nor for what ranks wait for after they have been stopped on exec.
        for code in [Status::READY_FOR_DEBUG, Status::DEBUGGER_RELEASE] {
            self.server.forget_events(code);
        }
        let pids: Vec<Pid> = on_exec.into_iter().map(|rank| self.ranks[rank].pid).collect();
        if !pids.is_empty() {
            self.signal(Signal::SIGCONT, pids, None);
        }
        if is_ours {
            let running = (0..self.ranks.len()).filter(|rank| self.ranks[*rank].running && ranks.contains(*rank));
            let procs: Vec<Proc> = running.map(|rank| self.proc(rank)).collect();
            let infos = vec![
                Info::new(keys::EVENT_NON_DEFAULT, Value::Bool(true)),
                Info::new(keys::EVENT_CUSTOM_RANGE, Value::procs(procs)),
            ];
            self.server.notify_event(Status::DEBUGGER_RELEASE, self.session.server.clone(), range::CUSTOM, infos, None);
        }
    }

    /// The ranks of a job that run, by their numbers.
    fn running_numbers(&self, job: &RunningJob) -> impl Iterator<Item = usize> {
        let is_running = |number: &usize| self.ranks.get(*number).is_some_and(|rank| rank.running);
        job.numbers().filter(is_running)
    }

    /// Takes the watchdog's answer to the oldest signal.
    pub(super) fn confirm_control(&mut self, result: Result<(), Errno>) {
        let status = match result {
            Ok(()) => Status::SUCCESS,
            Err(Errno::EPERM) => Status::ERR_NO_PERMISSIONS,
            Err(_) => Status::ERROR,
        };
        if let Some(done) = self.controls.pop_front().and_then(|confirmed| confirmed.done) {
            done.complete((status, Vec::new()));
        }
        self.send_control();
    }

    fn end_for(&mut self, action: Action, by: &Proc) {
        let signal = action.signal();
        let (exit, status) = (128 + signal as i32, Status::ERR_JOB_KILLED_BY_CMD);
        self.fail(exit, status, &format!("{} by {}:{}", action.attribute(), by.nspace, by.rank));
        if signal == Signal::SIGKILL {
            self.kill_at = Some(Instant::now());
        }
    }

    fn running(&self, ranks: &Ranks) -> impl Iterator<Item = &RankState> {
        let is_meant = move |(index, rank): &(usize, &RankState)| rank.running && ranks.contains(*index);
        self.ranks.iter().enumerate().filter(is_meant).map(|(_, rank)| rank)
    }
}
