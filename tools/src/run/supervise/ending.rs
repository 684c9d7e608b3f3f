//! The ends of ranks, jobs and trees, and what is left of them.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use nix::sys::signal::Signal;
use pmix_client::events::range;
use pmix_dstore::model::{Info, Nspace, Proc, Rank, Status, Value, keys};

use super::super::table::{Row, Table};
use super::super::watchdog::News;
use super::tools::FOR_DEBUGGERS;
use super::tree::LAUNCHED;
use super::{PIPE_LEN_MAX, RankState, RunningJob, Supervisor};

/// How many spawned jobs that have ended are still known to the server: others may yet disconnect from them. Each takes some descriptors.
/// Of so many older ones queries are still answered.
const ENDED_KEPT: usize = 64;
/// The most ranks of these.
const PAST_RANKS_MAX: usize = 65_536;

/// What queries are told of a job that the server does not know any more.
pub(super) struct PastJob {
    nspace: Nspace,
    rows: Vec<Row>,
    status: Option<Status>,
}

impl PastJob {
    pub fn table<'t>(&'t self, hostname: &'t str) -> Table<'t> {
        let (rows, for_debuggers) = (self.rows.clone(), &FOR_DEBUGGERS);
        Table { job: &self.nspace, hostname, rows, status: self.status, for_debuggers, is_default: false }
    }
}

impl RunningJob {
    /// All its ranks.
    pub(super) fn whole(&self) -> Proc {
        Proc::new(self.nspace().clone(), Rank::WILDCARD)
    }

    /// How it has ended, all ranks having ended.
    fn status(&self) -> Status {
        let has_failed = |rank: &RankState| !rank.ended.is_some_and(|status| status.success());
        match self.ranks.iter().any(has_failed) {
            true if self.is_ended_by_command => Status::ERR_JOB_KILLED_BY_CMD,
            true => Status::ERR_JOB_ABORTED,
            false => Status::SUCCESS,
        }
    }
}

impl Supervisor<'_> {
    pub(super) fn rank_ended(&mut self, number: u32, status: ExitStatus) {
        let Some((job, proc)) = self.job_of(number).zip(self.proc(number)) else { return };
        if let Some(rank) = self.rank_mut(number) {
            (rank.running, rank.ended) = (false, Some(status));
        }
        self.pass_output(number, PIPE_LEN_MAX);
        // An event of its finalize may have arrived since events were last taken, or be on its way from the server.
        self.server.catch_up();
        self.take_events();
        self.take_rest(number);
        let killed = status.signal();
        let tree = self.jobs[&job].tree;
        let abort = self.trees.get(&tree).and_then(|tree| tree.abort.as_ref());
        if abort.is_some_and(|abort| killed.is_none() || abort.rank == Some(number)) {
            self.finish_abort(tree);
        }
        if !self.jobs[&job].is_ended_by_command {
            self.judge_end(tree, number, status);
        }
        self.report_halts(job);
        self.events.process_ended(&proc);
        self.checkpoints_without(number);
        // This completes operations that wait for the rank.
        self.server.deregister_client(&proc);
        self.pmi_rank_ended(number);
        self.end_job(job);
    }

    /// Whether the end of a rank is a failure, and which.
    fn judge_end(&mut self, tree: u32, number: u32, status: ExitStatus) {
        let who = self.name(number);
        let Some(&RankState { connected, finalized, is_killed_by_command, .. }) = self.rank(number) else { return };
        match (status.code(), status.signal()) {
            (Some(0), _) if connected && !finalized => {
                self.fail(tree, 1, Status::ERR_JOB_TERM_WO_SYNC, &format!("{who} exited without finalizing"));
            }
            (Some(0), _) => {}
            (_, Some(number)) => {
                let name = Signal::try_from(number).map_or("real-time", Signal::as_str);
                // A rank that ends before it connects is unknown to its server.
                let when = if connected { "" } else { " before it was connected (PMIx_Init)" };
                let told = match is_killed_by_command {
                    true => Status::ERR_JOB_KILLED_BY_CMD,
                    false => Status::ERR_JOB_ABORTED_BY_SIG,
                };
                self.fail(tree, 128 + number, told, &format!("{who} was killed by signal {number} ({name}){when}"));
            }
            (code, None) => {
                let code = code.unwrap_or(1);
                self.fail(tree, code, Status::ERR_JOB_NON_ZERO_TERM, &format!("{who} exited with status {code}"));
            }
        }
    }

    /// Once all ranks of a job have ended: frees what the job had, and sends the event of a spawned job's end. The job that was started
    /// from outside ends with its tree.
    pub(super) fn end_job(&mut self, id: u32) {
        let Some(job) = self.jobs.get_mut(&id).filter(|job| !job.is_over && !job.has_running()) else { return };
        (job.is_over, job.pmi, job.input) = (true, None, None);
        let (nspace, tree, status) = (job.nspace().clone(), job.tree, job.status());
        self.events.job_ended(&nspace);
        if self.trees.get(&tree).is_some_and(|tree| tree.root == id) {
            return;
        }
        self.tell_end(id, status, None);
        self.forget_programs(id);
        self.ended.push_back(id);
        if self.ended.len() > ENDED_KEPT
            && let Some(oldest) = self.ended.pop_front()
        {
            self.forget_job(oldest);
        }
    }

    /// Sends the event of a job's end.
    pub(super) fn tell_end(&self, id: u32, status: Status, exit: Option<i32>) {
        let Some(job) = self.jobs.get(&id) else { return };
        let mut infos = vec![
            // Programs that register a handler for whatever happens must not take it for a fault.
            Info::new(keys::EVENT_NON_DEFAULT, Value::Bool(true)),
            Info::new(keys::EVENT_AFFECTED_PROC, Value::Proc(job.whole())),
            Info::new(keys::JOB_TERM_STATUS, Value::Status(status)),
        ];
        infos.extend(exit.map(|exit| Info::new(keys::EXIT_CODE, Value::Int(exit))));
        self.server.notify_event(Status::EVENT_JOB_END, self.session.server.clone(), range::GLOBAL, infos);
    }

    /// All processes of a tree have ended: frees all that it had, and tells the tool that has started it.
    pub(super) fn tree_is_over(&mut self, id: u32) {
        if self.has_told_front(id) {
            return;
        }
        self.take_events();
        let jobs: Vec<u32> = self.jobs_of(id).map(|(job, _)| job).collect();
        for job in &jobs {
            let numbers = self.jobs[job].job.ranks.numbers();
            for number in numbers {
                self.pass_output(number, PIPE_LEN_MAX);
                self.close_outputs(number);
            }
        }
        self.print_held(Some(id));
        if self.tell_front(id) {
            return;
        }
        let Some(mut tree) = self.trees.remove(&id) else { return };
        // The processes that they were for are gone.
        let controls = tree.controls.drain(..).filter_map(|control| control.done);
        controls.for_each(|done| done.complete((Status::ERR_NOT_FOUND, Vec::new())));
        if id == LAUNCHED {
            self.exit = tree.failure.map(|failure| failure.exit);
            // What is not written yet has the same limit.
            self.write_until = self.write_until.into_iter().chain(tree.timeout_at).min();
            return;
        }
        let exit = tree.failure.map_or(0, |failure| failure.exit);
        if tree.is_started && !tree.is_told() {
            let status = tree.failure.map_or(Status::SUCCESS, |failure| failure.status);
            self.tell_end(tree.root, status, Some(exit));
        }
        for job in jobs {
            self.keep_record(job, tree.failure.map(|failure| failure.status).filter(|_| tree.is_started));
            self.forget_programs(job);
            self.forget_job(job);
        }
    }

    /// Keeps what queries are told of a job that is about to be forgotten.
    fn keep_record(&mut self, id: u32, status: Option<Status>) {
        let Some(job) = self.jobs.get(&id) else { return };
        self.past.push_back(PastJob { nspace: job.nspace().clone(), rows: self.rows(job), status });
        let mut ranks: usize = self.past.iter().map(|job| job.rows.len()).sum();
        while self.past.len() > ENDED_KEPT || (self.past.len() > 1 && ranks > PAST_RANKS_MAX) {
            ranks -= self.past.pop_front().map_or(0, |job| job.rows.len());
        }
    }

    /// Frees what the ranks of a job that has ended had.
    pub(super) fn forget_programs(&mut self, id: u32) {
        let Some(RunningJob { tree, first_program, directory, job, .. }) = self.jobs.get(&id) else { return };
        directory.remove();
        if let Some(tree) = self.trees.get(tree) {
            (*first_program..).zip(&job.plan.apps).for_each(|(program, _)| tree.watchdog.unload(program));
        }
    }

    /// Forgets a job: neither the server nor the host knows it any more.
    pub(super) fn forget_job(&mut self, id: u32) {
        let Some(RunningJob { job, .. }) = self.jobs.remove(&id) else { return };
        self.ended.retain(|ended| *ended != id);
        self.checkpoints.forget(id);
        let sets = job.plan.process_sets(&job.ranks.nspace);
        for name in sets.into_keys() {
            // Another job may have one of the same name.
            let has_it = |other: &RunningJob| other.job.plan.apps.iter().any(|app| app.pset.as_ref() == Some(&name));
            if !self.jobs.values().any(has_it) {
                self.server.delete_process_set(name);
            }
        }
        self.server.deregister_nspace(&job.ranks.nspace);
        self.events.job_is_forgotten(&job.ranks.nspace);
        self.of_host.lock().retain(|known| known.nspace != job.ranks.nspace);
    }

    /// Handles the death of a tree's watchdog, and of the ranks with it. The first watchdog kills their descendants; those of its own are
    /// now this process's children.
    pub(super) fn watchdog_is_lost(&mut self, id: u32) {
        let Some(pid) = self.trees.get(&id).map(|tree| tree.watchdog.pid()) else { return };
        self.fail(id, 1, Status::ERR_JOB_ABORTED, &format!("process {pid}, which started the ranks, is gone"));
        if !self.is_serving {
            self.watchdog.end_the_rest();
        }
        self.ranks_are_gone(id);
    }

    fn ranks_are_gone(&mut self, id: u32) {
        let running: Vec<u32> = self.jobs_of(id).flat_map(|(_, job)| job.running()).map(|(number, _)| number).collect();
        for number in running {
            self.rank_mut(number).into_iter().for_each(|rank| rank.running = false);
            self.proc(number).into_iter().for_each(|proc| self.events.process_ended(&proc));
            self.checkpoints_without(number);
        }
        let jobs: Vec<u32> = self.jobs_of(id).map(|(job, _)| job).collect();
        if id != LAUNCHED {
            jobs.into_iter().for_each(|job| self.end_job(job));
        }
        if let Some(tree) = self.trees.get_mut(&id) {
            tree.is_over = true;
        }
    }

    /// News of the first watchdog of a persistent launcher, which has no ranks: it is gone, and with it nobody removes the directory or
    /// starts jobs.
    pub(super) fn take_first_news(&mut self) {
        if !matches!(self.watchdog.news(), News::Lost) {
            return;
        }
        self.end_serving(&format!("process {}, which starts the jobs, is gone", self.watchdog.pid()));
        self.exit = Some(1);
        self.watchdog.end_the_rest();
        let ids: Vec<u32> = self.trees.keys().copied().collect();
        ids.into_iter().for_each(|id| self.ranks_are_gone(id));
    }
}
