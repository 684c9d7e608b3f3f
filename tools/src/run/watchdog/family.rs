//! The children of a subreaper: the ranks, and all their orphaned descendants.
//!
//! Signals go only to children and to their process groups: neither number can be reused before the
//! process is reaped, which happens only here. A grandchild in another group becomes a child when its parent
//! ends, so that repeated rounds reach every descendant.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::thread;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::ptrace;
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;

use super::ending;

/// The interval at which `end` checks for ended children.
const ROUND: Duration = Duration::from_millis(10);

/// A child. It may have ended without being reaped.
struct Child {
    pid: Pid,
    group: Pid,
}

/// State of the children of this process.
#[derive(Default)]
pub(super) struct Family {
    /// The ranks that run. Each leads a process group.
    ranks: BTreeSet<Pid>,
    /// The groups of all ranks, ended ones included.
    groups: BTreeSet<Pid>,
    /// The ranks that run and that were sent SIGSTOP here.
    stopped: BTreeSet<Pid>,
    /// The ranks that have stopped on exec since [`Family::take_halted`].
    halted: Vec<Pid>,
    /// Other watchdogs, which end their own descendants.
    watchdogs: BTreeSet<Pid>,
    /// One of them has been killed: its descendants are orphans of this process.
    has_orphans: bool,
    /// Children that were sent SIGTERM.
    terminated: BTreeSet<Pid>,
    /// Children that this user may not signal.
    unreachable: BTreeSet<Pid>,
}

impl Family {
    /// Adds a started rank.
    pub fn add(&mut self, rank: Pid) {
        self.ranks.insert(rank);
        self.groups.insert(rank);
    }

    /// Adds another watchdog.
    pub fn add_watchdog(&mut self, watchdog: Pid) {
        self.watchdogs.insert(watchdog);
    }

    /// Kills what a watchdog that was killed has left, and waits until it has ended.
    pub fn end_orphans(&mut self) {
        while std::mem::take(&mut self.has_orphans) {
            while self.has_some() {
                self.signal(Signal::SIGKILL);
                thread::sleep(ROUND);
                self.collect();
            }
        }
    }

    /// Reaps ended children; returns the ranks among them.
    pub fn collect(&mut self) -> Vec<(Pid, ExitStatus)> {
        let mut ended = Vec::new();
        while let Some((pid, status)) = next_ended() {
            if let Some(signal) = status.stopped_signal() {
                self.halt(pid, signal);
                continue;
            }
            self.terminated.remove(&pid);
            self.unreachable.remove(&pid);
            self.stopped.remove(&pid);
            if self.watchdogs.remove(&pid) {
                self.has_orphans |= !status.success();
            }
            if self.ranks.remove(&pid) {
                ended.push((pid, status));
            }
        }
        ended
    }

    /// A rank that has asked to be traced until its program is loaded (`Start::begin`) has stopped. It is stopped by a signal then instead, so
    /// that a debugger can trace it. Before that other signals stop it; they are passed on.
    fn halt(&mut self, pid: Pid, signal: i32) {
        // Ignore an error: only SIGKILL wakes it meanwhile.
        if signal == Signal::SIGTRAP as i32 {
            let _ = ptrace::detach(pid, Signal::SIGSTOP);
            self.stopped.insert(pid);
            self.halted.push(pid);
        } else {
            let _ = ptrace::cont(pid, Signal::try_from(signal).ok());
        }
    }

    /// The ranks that have stopped on exec since the last call.
    pub fn take_halted(&mut self) -> Vec<Pid> {
        std::mem::take(&mut self.halted)
    }

    /// Whether a child is left that this user may signal.
    pub fn has_some(&self) -> bool {
        let is_known = self.unreachable.is_empty() && self.watchdogs.is_empty();
        is_parent() && (is_known || self.children().iter().any(|child| self.is_reachable(child)))
    }

    /// Children that this user may not signal.
    pub fn unreachable(&self) -> impl Iterator<Item = Pid> {
        self.unreachable.iter().copied()
    }

    /// Sends a signal to the ranks that run.
    pub fn signal_ranks(&self, signal: Signal) {
        for rank in &self.ranks {
            // Ignore the error: the rank may just be ending.
            let _ = killpg(*rank, signal);
        }
    }

    /// Sends a signal to those of the ranks that run and have these processes. A stopped one that is to end is also continued.
    ///
    /// # Errors
    /// That of a rank that could not be signalled.
    pub fn signal_these_ranks(&mut self, pids: &[Pid], signal: Signal) -> Result<(), Errno> {
        let mut result = Ok(());
        for rank in pids.iter().filter(|pid| self.ranks.contains(pid)) {
            match killpg(*rank, signal) {
                // It has ended just now.
                Err(Errno::ESRCH) => {}
                Err(error) => result = Err(error),
                Ok(()) if signal == Signal::SIGSTOP => drop(self.stopped.insert(*rank)),
                Ok(()) if signal == Signal::SIGCONT => drop(self.stopped.remove(rank)),
                Ok(()) if signal == Signal::SIGTERM && self.stopped.remove(rank) => {
                    let _ = killpg(*rank, Signal::SIGCONT);
                }
                Ok(()) => {}
            }
        }
        result
    }

    /// Continues the ranks that were stopped: they could not obey a signal that ends them.
    fn wake_stopped(&mut self) {
        for rank in std::mem::take(&mut self.stopped) {
            let _ = killpg(rank, Signal::SIGCONT);
        }
    }

    /// Sends a signal to all children and to the groups of the ranks, ended ones included, in which there is one.
    pub fn signal(&mut self, signal: Signal) {
        let children = self.children();
        self.signal_these(&children, signal);
    }

    /// Sends SIGTERM to all children that have not got one.
    pub fn terminate(&mut self) {
        let mut children = self.children();
        children.retain(|child| !self.terminated.contains(&child.pid));
        self.signal_these(&children, Signal::SIGTERM);
    }

    /// Kills all descendants. Returns when none is left that this user may kill.
    pub fn end(&mut self) {
        // Other watchdogs, too: their ranks end with them, and what these have started becomes this process's.
        self.watchdogs.clear();
        self.collect();
        while self.has_some() {
            self.signal(Signal::SIGKILL);
            thread::sleep(ROUND);
            self.collect();
        }
    }

    fn signal_these(&mut self, children: &[Child], signal: Signal) {
        let mut groups = BTreeMap::new();
        for child in children {
            let sent = if child.group == child.pid || self.groups.contains(&child.group) {
                *groups.entry(child.group).or_insert_with(|| killpg(child.group, signal))
            } else {
                kill(child.pid, signal)
            };
            if sent == Err(Errno::EPERM) {
                self.unreachable.insert(child.pid);
            }
            if signal == Signal::SIGTERM {
                self.terminated.insert(child.pid);
            }
        }
        if is_ending(signal) {
            self.wake_stopped();
        }
    }

    fn is_reachable(&self, child: &Child) -> bool {
        !self.unreachable.contains(&child.pid)
    }

    /// The children, from `/proc`; if `/proc` cannot be read, only the ranks.
    fn children(&self) -> Vec<Child> {
        // The usual case at the end of a job. To read `/proc` takes longer the more processes the node has.
        if !is_parent() {
            return Vec::new();
        }
        let own = std::process::id() as i32;
        let Ok(entries) = fs::read_dir("/proc") else {
            return self.ranks.iter().map(|rank| Child { pid: *rank, group: *rank }).collect();
        };
        let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let child = |pid: i32| {
            // The name of a process may be any bytes.
            let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
            let (parent, group) = parent_and_group(&String::from_utf8_lossy(&stat))?;
            let is_mine = parent == own && !self.watchdogs.contains(&Pid::from_raw(pid));
            is_mine.then_some(Child { pid: Pid::from_raw(pid), group: Pid::from_raw(group) })
        };
        pids.filter_map(child).collect()
    }
}

/// Parent and process group from the text of `/proc/PID/stat`. The fields begin after the name, which may contain any character.
fn parent_and_group(stat: &str) -> Option<(i32, i32)> {
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(1);
    Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
}

/// Whether a signal asks a process to end, which a stopped process cannot do.
fn is_ending(signal: Signal) -> bool {
    matches!(signal, Signal::SIGTERM | Signal::SIGINT | Signal::SIGHUP | Signal::SIGQUIT)
}

/// Reaps one ended child, if there is one. A child that is traced is also returned when it has stopped.
fn next_ended() -> Option<(Pid, ExitStatus)> {
    let mut status = 0;
    // SAFETY: the status is written to a variable of this function. (nix's waitpid does not support real-time signals.)
    let pid = unsafe { libc::waitpid(-1, &raw mut status, libc::WNOHANG) };
    (pid > 0).then(|| (Pid::from_raw(pid), ending(status)))
}

/// Whether there is a child, ended or not.
fn is_parent() -> bool {
    use nix::sys::wait::{Id, WaitPidFlag, waitid};
    waitid(Id::All, WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT) != Err(Errno::ECHILD)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_processes_hold_anything() {
        assert_eq!(parent_and_group("12 (a) b) (c) S 7 8 9 0 -1"), Some((7, 8)));
        assert_eq!(parent_and_group("12 (gone"), None);
    }
}
