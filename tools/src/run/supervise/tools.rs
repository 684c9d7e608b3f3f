//! What tools ask of the launcher: the ranks' processes, and to control them.

use std::time::Instant;

use nix::errno::Errno;
use nix::sys::signal::Signal;
use nix::unistd::Pid;
use pmix_dstore::model::{Proc, Status};

use super::super::control::{Action, Control, Ranks};
use super::super::host::Infos;
use super::super::table::{Row, Table};
use super::{RankState, Supervisor};

impl Supervisor<'_> {
    /// The ranks' processes and the state of the job.
    pub(super) fn table(&self) -> Table<'_> {
        let row = |rank: &RankState| Row {
            pid: rank.pid.as_raw(),
            is_connected: rank.connected && !rank.finalized,
            ended: rank.ended,
            is_killed_by_command: rank.is_killed_by_command,
        };
        Table {
            job: self.nspace,
            hostname: &self.job.hostname,
            executable: self.job.executable.clone(),
            rows: self.ranks.iter().map(row).collect(),
            status: self.failure.map_or(Status::SUCCESS, |failure| failure.status),
            for_debuggers: "",
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
        if control.ranks == Ranks::All && matches!(control.action, Action::Kill | Action::Terminate) {
            self.end_for(control.action, by);
            return done.complete((Status::SUCCESS, Vec::new()));
        }
        match self.watchdog.signal_these(control.action.signal(), pids) {
            Ok(()) => self.controls.push_back(done),
            Err(why) => {
                self.say(&why);
                done.complete((Status::ERR_OUT_OF_RESOURCE, Vec::new()));
            }
        }
    }

    /// Takes the watchdog's answer to the oldest signal.
    pub(super) fn confirm_control(&mut self, error: Errno) {
        let status = match error {
            Errno::UnknownErrno => Status::SUCCESS,
            Errno::EPERM => Status::ERR_NO_PERMISSIONS,
            _ => Status::ERROR,
        };
        if let Some(done) = self.controls.pop_front() {
            done.complete((status, Vec::new()));
        }
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
