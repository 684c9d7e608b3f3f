//! The start of a job's ranks.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::rc::Rc;

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::unistd::{Pid, getegid, geteuid};
use pmix_dstore::model::{Nspace, Proc, Rank};

use super::super::control::JobRanks;
use super::super::halts::Halts;
use super::super::job::{Application, Job, Plan};
use super::super::output::{Lines, Stream};
use super::super::pmi::Pmi;
use super::super::watchdog::Watchdog;
use super::super::{check, ranks};
use super::streams::Input;
use super::tree::LAUNCHED;
use super::{Output, RankState, RunningJob, Supervisor};

/// The most ranks that are requested from the watchdog before it confirms the start of the first of them.
const STARTS_AHEAD: usize = 8;
/// Descriptors of a job beside those of its ranks, in ranks: the server's, its watchdog's, those of its tool.
const DESCRIPTORS_OF_A_JOB: u32 = 3;

/// The output of a rank whose start has been requested.
type Asked = Vec<Output>;

/// The last part of a job's name: its other parts are the same for all jobs of a launcher.
fn short_name(nspace: &Nspace) -> String {
    nspace.to_string().rsplit('.').next().unwrap_or_default().to_owned()
}

impl Supervisor<'_> {
    /// The first of so many numbers that follow each other and that no rank has.
    pub(super) fn free_numbers(&self, size: u32) -> u32 {
        let mut free = 0;
        for (first, job) in &self.jobs {
            if first - free >= size {
                break;
            }
            free = first + job.job.ranks.size;
        }
        free
    }

    /// Adds a job to a tree. Returns the number of its rank 0.
    ///
    /// # Errors
    /// A message for the user; then there is no such job.
    pub(super) fn add_job(&mut self, tree: u32, nspace: Nspace, plan: Plan) -> Result<u32, String> {
        let (size, is_root) = (plan.ranks(), self.jobs_of(tree).next().is_none());
        let is_launched = is_root && tree == LAUNCHED;
        let ranks = JobRanks { nspace: nspace.clone(), first: self.free_numbers(size), size, is_launched };
        let first_program = self.trees.get(&tree).map_or(0, |tree| tree.programs);
        let pmi = if is_root { Some(Pmi::new(&nspace.to_string(), size)?) } else { None };
        let made = self.load(tree, &plan.apps, is_launched);
        let made = made.and_then(|()| self.directories.add_job(&short_name(&nspace), size));
        let directory = made.inspect_err(|_| {
            let trees = self.trees.get(&tree);
            trees.iter().for_each(|tree| (first_program..tree.programs).for_each(|one| tree.watchdog.unload(one)));
        })?;
        let beside = self.count_running() as u32;
        let job = Job::new(&self.session, (ranks.clone(), beside), plan, self.binding, (self.directories, &directory));
        let (halts, first) = (Halts::new(&ranks), ranks.first);
        // From here on the host knows the ranks, which may connect.
        self.of_host.lock().push(ranks);
        let job = RunningJob {
            job,
            tree,
            directory,
            first_program,
            ranks: Vec::new(),
            halts,
            pmi,
            input: None,
            is_ended_by_command: false,
            is_over: false,
            kill_at: None,
        };
        self.jobs.insert(first, job);
        if let Some(tree) = self.trees.get_mut(&tree).filter(|_| is_root) {
            tree.root = first;
        }
        Ok(first)
    }

    /// Tells the watchdog of the programs of a job. It has known those of the launched job from its start, so their command lines may be of
    /// any length.
    fn load(&mut self, tree: u32, apps: &[Application], is_launched: bool) -> Result<(), String> {
        let Some(tree) = self.trees.get_mut(&tree) else { return Err("there is no watchdog process".into()) };
        for app in apps {
            if !is_launched {
                tree.watchdog.load(app.program.clone())?;
            }
            tree.programs += 1;
        }
        Ok(())
    }

    /// Registers a job with its ranks.
    fn register(&mut self, job: u32) -> Result<(), String> {
        let Some(job) = self.jobs.get_mut(&job) else { return Ok(()) };
        let infos = job.job.take_infos();
        self.events.job_begins(&job.job.ranks, &infos);
        let JobRanks { nspace, size, .. } = &job.job.ranks;
        check("register the job", self.server.register_nspace(nspace.clone(), *size, infos))?;
        let (uid, gid) = (geteuid().as_raw(), getegid().as_raw());
        for (rank, number) in (0..).map(Rank).zip(job.job.ranks.numbers()) {
            let proc = Proc::new(nspace.clone(), rank);
            check("register a rank", self.server.register_client(proc, uid, gid, number))?;
        }
        // Before the ranks start, so that the first query of each knows the sets.
        for (name, members) in job.job.plan.process_sets(nspace) {
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
    pub(super) fn start(&mut self, job: u32) -> Result<(), String> {
        let mut asked = VecDeque::new();
        let started = self.register(job).and_then(|()| self.start_all(job, &mut asked));
        if started.is_err() {
            // What was requested before.
            while let Some(one) = asked.pop_front() {
                let pid = self.watchdog_of(job).and_then(|watchdog| watchdog.started().ok());
                self.add_rank(job, one, pid);
            }
            while self.jobs.get(&job).is_some_and(|job| job.ranks.len() < job.job.ranks.size as usize) {
                self.add_rank(job, Vec::new(), None);
            }
        }
        started
    }

    /// The watchdog of a job.
    fn watchdog_of(&self, job: u32) -> Option<Rc<Watchdog>> {
        Some(Rc::clone(&self.trees.get(&self.jobs.get(&job)?.tree)?.watchdog))
    }

    fn start_all(&mut self, job: u32, asked: &mut VecDeque<Asked>) -> Result<(), String> {
        let Some(watchdog) = self.watchdog_of(job) else { return Ok(()) };
        let (size, all) = (self.jobs[&job].job.ranks.size, self.jobs[&job].job.ranks_on_node());
        // The server has some descriptors for each job that it knows.
        ranks::allow_descriptors(all + DESCRIPTORS_OF_A_JOB * self.jobs.len() as u32);
        // MPI libraries wait for a fence in short sleeps.
        if let Some(slack) = pmix_client::timer_slack(all, self.binding.slots()) {
            watchdog.set_timer_slack(slack)?;
        }
        let binding = self.binding;
        let ahead_max = if binding.is_bound() { 0 } else { STARTS_AHEAD };
        for rank in 0..size {
            binding.bound(job + rank, watchdog.pid(), || {
                asked.push_back(self.request_start(job, rank, &watchdog)?);
                if asked.len() > ahead_max { self.has_started(job, asked, &watchdog) } else { Ok(()) }
            })??;
        }
        while !asked.is_empty() {
            self.has_started(job, asked, &watchdog)?;
        }
        Ok(())
    }

    /// Requests the start of a rank from the watchdog.
    fn request_start(&mut self, job: u32, rank: u32, watchdog: &Watchdog) -> Result<Asked, String> {
        let Some(running) = self.jobs.get_mut(&job) else { return Err("there is no such job".into()) };
        let RunningJob { job: of, first_program, pmi, input, tree, .. } = running;
        let (JobRanks { nspace, size, is_launched, .. }, all) = (&of.ranks, of.ranks_on_node());
        let words = |error: std::io::Error| {
            format!("no pipes for rank {rank}: {error}{}", ranks::hint_on_descriptors(&error, all))
        };
        let program = *first_program + of.plan.app_of(rank).0;
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
        let stdin = (of.plan.has_input && rank == 0).then(std::io::pipe).transpose().map_err(words)?;
        // One with an input has a connection for PMI-1: the watchdog takes the descriptors in this order.
        let pmi = pmi.as_mut().map(Pmi::add).transpose().map_err(words)?;
        env.extend(pmi.iter().flat_map(|_| Pmi::variables(rank, *size)));
        let theirs = [stdout.1.as_fd(), stderr.1.as_fd()].into_iter().chain(pmi.as_ref().map(AsFd::as_fd));
        let theirs: Vec<BorrowedFd<'_>> = theirs.chain(stdin.iter().map(|(read, _)| read.as_fd())).collect();
        watchdog.start(program, env, &theirs)?;
        let outputs = [(OwnedFd::from(stdout.0), Stream::Out), (stderr.0.into(), Stream::Err)];
        let nonblocking = outputs.iter().map(|(fd, _)| fd.as_fd());
        for fd in nonblocking.chain(stdin.iter().map(|(_, write)| write.as_fd())) {
            fcntl(fd, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).map_err(|error| format!("pipe: {error}"))?;
        }
        let name = if *is_launched { rank.to_string() } else { format!("{}:{rank}", short_name(nspace)) };
        // The tool that has started a job marks its output.
        let is_tagged = self.args.tag_output && *tree == LAUNCHED;
        let lines = |stream| Lines::new(&name, stream, is_tagged);
        let outputs = outputs.map(|(fd, stream)| Output { fd, stream, lines: lines(stream) }).into();
        if let Some((_, write)) = stdin {
            *input = Some(Input::new(write.into()));
        }
        Ok(outputs)
    }

    /// Waits until the first of the requested ranks has started.
    fn has_started(&mut self, job: u32, asked: &mut VecDeque<Asked>, watchdog: &Watchdog) -> Result<(), String> {
        let started = watchdog.started();
        let Some(first) = asked.pop_front() else { return started.map(drop) };
        let (pid, result) = match started {
            Ok(pid) => (Some(pid), Ok(())),
            Err(why) => (None, Err(why)),
        };
        self.add_rank(job, first, pid);
        result
    }

    /// The next rank of a job with its process; without one it has ended before it began, as a program that cannot be executed.
    fn add_rank(&mut self, job: u32, outputs: Asked, pid: Option<Pid>) {
        let Some(job) = self.jobs.get_mut(&job) else { return };
        self.started += 1;
        job.ranks.push(RankState {
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
