//! The start of a job's ranks.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::unistd::{Pid, getegid, geteuid};
use pmix_dstore::model::{Nspace, Proc, Rank};

use super::super::control::JobRanks;
use super::super::halts::Halts;
use super::super::job::{Application, Job, Plan};
use super::super::output::{Lines, Stream};
use super::super::pmi::Pmi;
use super::super::{check, ranks};
use super::{Output, RankState, RunningJob, Supervisor};

/// The most ranks that are requested from the watchdog before it confirms the start of the first of them.
const STARTS_AHEAD: usize = 8;

/// A rank whose start has been requested.
pub(super) struct Asked {
    job: usize,
    rank: u32,
    outputs: Vec<Output>,
}

/// The last part of a job's name: its other parts are the same for all jobs of a launcher.
fn short_name(nspace: &Nspace) -> String {
    nspace.to_string().rsplit('.').next().unwrap_or_default().to_owned()
}

impl Supervisor<'_> {
    /// Adds a job, whose ranks' numbers follow those of all others. Returns its place among the jobs.
    ///
    /// # Errors
    /// A message for the user; then there is no such job.
    pub(super) fn add_job(&mut self, nspace: Nspace, plan: Plan) -> Result<usize, String> {
        let ranks = JobRanks { nspace: nspace.clone(), first: self.ranks.len() as u32, size: plan.ranks() };
        let first_program = self.programs;
        let made = self.load(&plan.apps).and_then(|()| self.directories.add_job(&short_name(&nspace), ranks.size));
        let directory = made.inspect_err(|_| {
            (first_program..self.programs).for_each(|program| self.watchdog.unload(program));
        })?;
        let beside = self.count_running() as u32;
        let job = Job::new(&self.session, (ranks.clone(), beside), plan, self.binding, (self.directories, &directory));
        let halts = Halts::new(&ranks);
        // From here on the host knows the ranks, which may connect.
        self.of_host.lock().push(ranks);
        let (is_ended_by_command, is_over, kill_at) = (false, false, None);
        let is_forgotten = false;
        self.jobs.push(RunningJob {
            job,
            directory,
            first_program,
            halts,
            is_ended_by_command,
            is_over,
            is_forgotten,
            kill_at,
        });
        Ok(self.jobs.len() - 1)
    }

    /// Tells the watchdog of the programs of a job. It has known those of the launched job from its start, so their command lines may be of
    /// any length.
    fn load(&mut self, apps: &[Application]) -> Result<(), String> {
        for app in apps {
            if !self.jobs.is_empty() {
                self.watchdog.load(app.program.clone())?;
            }
            self.programs += 1;
        }
        Ok(())
    }

    /// Registers a job with its ranks.
    fn register(&mut self, job: usize) -> Result<(), String> {
        let infos = self.jobs[job].job.take_infos();
        self.events.job_begins(&self.jobs[job].job.ranks, &infos);
        let JobRanks { nspace, size, .. } = &self.jobs[job].job.ranks;
        check("register the job", self.server.register_nspace(nspace.clone(), *size as i32, infos, None))?;
        let (uid, gid) = (geteuid().as_raw(), getegid().as_raw());
        for (rank, number) in (0..).map(Rank).zip(self.jobs[job].job.ranks.numbers()) {
            let proc = Proc::new(nspace.clone(), rank);
            check("register a rank", self.server.register_client(proc, uid, gid, number as usize, None))?;
        }
        // Before the ranks start, so that the first query of each knows the sets.
        for (name, members) in self.jobs[job].job.plan.process_sets(nspace) {
            check("define a process set", self.server.define_process_set(name, members))?;
        }
        Ok(())
    }

    /// Registers a job and starts its ranks. A few are requested from the watchdog at a time. Otherwise each start would wait until the
    /// scheduler has run both processes, among the ranks that already run. With binding, ranks are started one by one, because the watchdog
    /// itself is bound as each of them.
    ///
    /// # Errors
    /// A message for the user. Then each rank of the job has its place all the same: as one that has ended, if it does not run.
    pub(super) fn start(&mut self, job: usize) -> Result<(), String> {
        let mut asked = VecDeque::new();
        let started = self.register(job).and_then(|()| self.start_all(job, &mut asked));
        if started.is_err() {
            // What was requested before.
            while let Some(one) = asked.pop_front() {
                let pid = self.watchdog.started().ok();
                self.add_rank(one, pid);
            }
            let JobRanks { first, size, .. } = self.jobs[job].job.ranks;
            for rank in self.ranks.len() as u32 - first..size {
                self.add_rank(Asked { job, rank, outputs: Vec::new() }, None);
            }
        }
        started
    }

    fn start_all(&mut self, job: usize, asked: &mut VecDeque<Asked>) -> Result<(), String> {
        let JobRanks { first, size, .. } = self.jobs[job].job.ranks;
        let all = self.jobs[job].job.ranks_on_node();
        // The server has some descriptors for each job that has ended and that it still knows.
        ranks::allow_descriptors(all + self.ended.len() as u32);
        // MPI libraries wait for a fence in short sleeps.
        if let Some(slack) = pmix_client::timer_slack(all, self.binding.slots()) {
            self.watchdog.set_timer_slack(slack)?;
        }
        let binding = self.binding;
        let ahead_max = if binding.is_bound() { 0 } else { STARTS_AHEAD };
        for rank in 0..size {
            binding.bound(first + rank, self.watchdog.pid(), || {
                asked.push_back(self.request_start(job, rank)?);
                if asked.len() > ahead_max { self.has_started(asked) } else { Ok(()) }
            })??;
        }
        while !asked.is_empty() {
            self.has_started(asked)?;
        }
        Ok(())
    }

    /// Requests the start of a rank from the watchdog.
    fn request_start(&mut self, job: usize, rank: u32) -> Result<Asked, String> {
        let RunningJob { job: of, first_program, .. } = &self.jobs[job];
        let (JobRanks { nspace, size, .. }, all) = (&of.ranks, of.ranks_on_node());
        let size = *size;
        let words = |error: std::io::Error| {
            format!("no pipes for rank {rank}: {error}{}", ranks::hint_on_descriptors(&error, all))
        };
        let program = first_program + of.plan.app_of(rank).0;
        let proc = Proc::new(nspace.clone(), Rank(rank));
        let env =
            self.server.setup_fork(&proc).map_err(|status| format!("no environment for rank {rank}: {status}"))?;
        // The names are our own and UTF-8. Paths that are not UTF-8 are converted with loss.
        let mut env: Vec<_> =
            env.into_iter().map(|(name, value)| (name, value.to_string_lossy().into_owned())).collect();
        if self.binding.is_oversubscribed(all) {
            env.extend(ranks::when_oversubscribed());
        }
        let stdout = std::io::pipe().map_err(words)?;
        let stderr = std::io::pipe().map_err(words)?;
        // Only rank 0 of the launched job has a standard input, and only this job's ranks are served by PMI-1.
        let is_launched = job == 0;
        let stdin = (is_launched && rank == 0).then(std::io::pipe).transpose().map_err(words)?;
        let pmi = if is_launched { Some(self.pmi.add().map_err(words)?) } else { None };
        env.extend(pmi.iter().flat_map(|_| Pmi::variables(rank, size)));
        let theirs = [stdout.1.as_fd(), stderr.1.as_fd()].into_iter().chain(pmi.as_ref().map(AsFd::as_fd));
        let theirs: Vec<BorrowedFd<'_>> = theirs.chain(stdin.iter().map(|(read, _)| read.as_fd())).collect();
        self.watchdog.start(program, env, &theirs)?;
        self.rank_stdin = self.rank_stdin.take().or(stdin.map(|(_, write)| write.into()));
        let outputs = [(OwnedFd::from(stdout.0), Stream::Out), (stderr.0.into(), Stream::Err)];
        let nonblocking = outputs.iter().map(|(fd, _)| fd.as_fd());
        for fd in nonblocking.chain(self.rank_stdin.as_ref().map(AsFd::as_fd)) {
            fcntl(fd, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).map_err(|error| format!("pipe: {error}"))?;
        }
        let name = if is_launched { rank.to_string() } else { format!("{}:{rank}", short_name(nspace)) };
        let lines = |stream| Lines::new(&name, stream, self.args.tag_output);
        let outputs = outputs.map(|(fd, stream)| Output { fd, stream, lines: lines(stream) }).into();
        Ok(Asked { job, rank, outputs })
    }

    /// Waits until the first of the requested ranks has started.
    fn has_started(&mut self, asked: &mut VecDeque<Asked>) -> Result<(), String> {
        let started = self.watchdog.started();
        let Some(first) = asked.pop_front() else { return started.map(drop) };
        let (pid, result) = match started {
            Ok(pid) => (Some(pid), Ok(())),
            Err(why) => (None, Err(why)),
        };
        self.add_rank(first, pid);
        result
    }

    /// A rank with its process; without one it has ended before it began, as a program that cannot be executed.
    fn add_rank(&mut self, Asked { job, rank, outputs }: Asked, pid: Option<Pid>) {
        self.ranks.push(RankState {
            job,
            rank,
            pid: pid.unwrap_or(Pid::from_raw(0)),
            running: pid.is_some(),
            connected: false,
            finalized: false,
            ended: pid.is_none().then(|| ExitStatus::from_raw(127 << 8)),
            is_killed_by_command: false,
            outputs: if pid.is_some() { outputs } else { Vec::new() },
        });
    }
}
