//! What the launcher does for checkpoints of its ranks.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{CStr, CString};
use std::time::Instant;

use nix::sys::signal::Signal;
use nix::unistd::Pid;
use pmix_client::events::range;
use pmix_dstore::model::{Info, Proc, Status, Value, keys};

use super::super::checkpoint::{Over, Request, Trigger};
use super::super::control::Ranks;
use super::super::host::Infos;
use super::super::refused;
use super::{RunningJob, Supervisor};
use crate::value::escaped;

impl Supervisor<'_> {
    /// A process asks for a checkpoint of ranks, or tells how those of its job want to be asked.
    pub(super) fn checkpoint(&mut self, request: Request, ranks: &Ranks, by: Proc, done: Infos) {
        match request {
            Request::Declare(trigger) => {
                let job = self.job_named(&by.nspace).map(|(job, _)| job);
                if let Some(job) = job {
                    self.checkpoints.declare(job, trigger);
                }
                let status = if job.is_some() { Status::SUCCESS } else { Status::ERR_INVALID_NAMESPACE };
                done.complete((status, Vec::new()));
            }
            Request::Take { id, trigger, limit } => {
                let running = self.jobs.values().flat_map(RunningJob::running).map(|(rank, _)| rank);
                let running: Vec<u32> = running.filter(|rank| ranks.contains(*rank as usize)).collect();
                if running.is_empty() {
                    return done.complete((Status::ERR_NOT_FOUND, Vec::new()));
                }
                let of_rank = |rank: &u32| match trigger.is_none() {
                    true => self.checkpoints.method(self.job_of(*rank)?),
                    false => Some(trigger),
                };
                let Some(triggers) = running.iter().map(of_rank).collect::<Option<Vec<Trigger>>>() else {
                    let (proc, why) = (by, refused::checkpoint());
                    return self.refuse(&proc, &why, done);
                };
                let asked: Vec<(u32, Trigger)> = running.iter().copied().zip(triggers).collect();
                self.send_checkpoint(&id, &asked);
                match limit.and_then(|limit| Instant::now().checked_add(limit)) {
                    Some(until) => self.checkpoints.wait(id, by, running.into_iter(), until, done),
                    // They have been asked.
                    None => done.complete((Status::SUCCESS, Vec::new())),
                }
            }
        }
    }

    fn send_checkpoint(&mut self, id: &CStr, asked: &[(u32, Trigger)]) {
        let by_event = asked.iter().filter(|(_, trigger)| trigger.is_event);
        let procs: Vec<Proc> = by_event.filter_map(|(rank, _)| self.proc(*rank)).collect();
        if !procs.is_empty() {
            let mut infos = vec![
                Info::new(keys::EVENT_NON_DEFAULT, Value::Bool(true)),
                Info::new(keys::EVENT_CUSTOM_RANGE, Value::procs(procs)),
            ];
            if !id.is_empty() {
                infos.push(Info::new(keys::JOB_CTRL_CHECKPOINT, Value::String(Some(id.to_owned()))));
            }
            // The server keeps it for ranks that register soon.
            self.server.notify_event(Status::JCTRL_CHECKPOINT, self.session.server.clone(), range::CUSTOM, infos);
        }
        let signals: BTreeSet<Signal> = asked.iter().filter_map(|(_, trigger)| trigger.signal).collect();
        for signal in signals {
            let of_signal = asked.iter().filter(|(_, trigger)| trigger.signal == Some(signal));
            let mut pids: BTreeMap<u32, Vec<Pid>> = BTreeMap::new();
            for (rank, _) in of_signal {
                if let (Some(job), Some(state)) = (self.job_of(*rank), self.rank(*rank)) {
                    pids.entry(self.jobs[&job].tree).or_default().push(state.pid);
                }
            }
            pids.into_iter().for_each(|(tree, pids)| self.signal(tree, signal, pids, None));
        }
    }

    /// A rank has told that its checkpoint is complete, or that it failed.
    pub(super) fn checkpointed(&mut self, rank: u32, id: Option<CString>, is_complete: bool) {
        let over = self.checkpoints.told(rank, id.as_deref(), is_complete);
        self.answer_checkpoints(over);
    }

    /// A rank has ended, and saves nothing any more.
    pub(super) fn checkpoints_without(&mut self, rank: u32) {
        let over = self.checkpoints.told(rank, None, false);
        self.answer_checkpoints(over);
    }

    /// Answers those whose time is over.
    pub(super) fn expire_checkpoints(&mut self, now: Instant) {
        let over = self.checkpoints.expire(now);
        self.answer_checkpoints(over);
    }

    fn answer_checkpoints(&mut self, over: Vec<Over>) {
        if over.iter().any(|over| over.status == Status::ERR_TIMEOUT) && self.checkpoints.next().is_none() {
            // A rank that registers later should not begin one that nobody waits for any more.
            self.server.forget_events(Status::JCTRL_CHECKPOINT);
        }
        for Over { id, by, status, missing, failed, done } in over {
            if status != Status::SUCCESS {
                let names = |ranks: &BTreeSet<u32>| {
                    let names: Vec<String> = ranks.iter().map(|rank| self.name(*rank)).collect();
                    names.join(", ")
                };
                let of = |what: &str, ranks: &BTreeSet<u32>| match ranks.is_empty() {
                    true => String::new(),
                    false => format!("; {what}: {}", names(ranks)),
                };
                let (missing, failed) = (of("not complete", &missing), of("failed or ended", &failed));
                let id = match id.is_empty() {
                    true => "without a name".to_owned(),
                    false => escaped(&id.to_string_lossy()),
                };
                let answer = refused::named(status);
                self.say_for(&by, &format!("{by} asked for checkpoint {id}, and gets {answer}{missing}{failed}"));
            }
            done.complete((status, Vec::new()));
        }
    }
}
