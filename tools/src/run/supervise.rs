//! Runs jobs: starts their ranks, forwards input and output, and ends each job with what its ranks have started.

mod checkpoints;
mod ending;
mod kept;
mod reconnect;
mod spawn;
mod speakers;
mod start;
mod streams;
mod tools;
mod tree;

use std::collections::{BTreeMap, VecDeque};
use std::io::IsTerminal;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::ExitStatus;
use std::rc::Rc;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::Pid;
use pmix_dstore::model::{Nspace, Proc, Rank, Status};

use super::EXIT_OUTPUT;
use super::args::{Args, Mode};
use super::binding::Binding;
use super::checkpoint::Checkpoints;
use super::directories::{Directories, JobDirectory};
use super::halts::Halts;
use super::host::{Continuation, Event, Events, Infos, Jobs};
use super::job::{Job, Plan, Session};
use super::output::{Lines, Sink, Stream};
use super::pmi::Pmi;
use super::report::{Ended, Mapped};
use super::server::Serving;
use super::table;
use super::watchdog::{News, Watchdog};
use ending::PastJob;
use streams::Input;
pub(super) use streams::is_in_foreground;
use tree::{LAUNCHED, Tree};

/// Exit status of a job that exceeded its time limit, as of `timeout(1)`.
pub(super) const EXIT_TIMEOUT: i32 = 124;
/// The delay before an abort takes effect. MPI ranks abort when they learn that another rank has died. The launcher may
/// learn of that death later, and should report it as the cause.
const ABORT_DELAY: Duration = Duration::from_millis(100);
/// Signals that are forwarded to the ranks.
const FORWARDED: [Signal; 6] =
    [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGQUIT, Signal::SIGUSR1, Signal::SIGUSR2];
/// The interval at which the launcher checks whether it is in the foreground of its terminal. No event reports that.
const FOREGROUND_CHECK: Duration = Duration::from_millis(200);
/// The most bytes that a pipe may still hold after its rank has ended.
const PIPE_LEN_MAX: usize = 1 << 20;
/// Bytes moved at once. The limit keeps a rank that never stops printing from starving the launcher's other work.
const CHUNK: usize = 1 << 16;

/// One of a rank's output streams while it is open.
struct Output {
    fd: OwnedFd,
    stream: Stream,
    lines: Lines,
}

/// One rank of a job.
struct RankState {
    pid: Pid,
    running: bool,
    connected: bool,
    finalized: bool,
    /// How it ended, if it has.
    ended: Option<ExitStatus>,
    /// Whether it was killed on request of a tool or a rank.
    is_killed_by_command: bool,
    outputs: Vec<Output>,
}

/// The meaning of a polled descriptor.
#[derive(Clone, Copy)]
enum Source {
    Signals,
    /// The watchdog of a tree.
    Watchdog(u32),
    /// The first watchdog of a persistent launcher.
    FirstWatchdog,
    Events,
    /// The PMI-1 server of a job.
    Pmi(u32),
    Stdin,
    /// The standard input of a job.
    Input(u32),
    /// The output of a rank.
    Output(u32),
    Sink(Stream),
}

/// What all jobs share.
#[derive(Clone, Copy)]
pub(super) struct Launcher<'a> {
    pub args: &'a Args,
    pub watchdog: &'a Rc<Watchdog>,
    pub binding: &'a Binding,
    pub directories: &'a Directories,
    pub server: &'a Serving,
}

/// A job whose ranks have been started.
struct RunningJob {
    job: Job,
    /// The tree that it belongs to.
    tree: u32,
    directory: JobDirectory,
    /// The watchdog's number of its first program.
    first_program: u32,
    /// Its ranks; those that have not been started yet are not there.
    ranks: Vec<RankState>,
    /// Where its ranks wait for a debugger.
    halts: Halts,
    /// Serves ranks that speak PMI-1.
    pmi: Option<Pmi>,
    /// The standard input of rank 0, if it has one.
    input: Option<Input>,
    /// Whether it was ended by command, or could not be started: then the end of its ranks is no failure.
    is_ended_by_command: bool,
    /// Whether all its ranks have ended and its end has been told.
    is_over: bool,
    /// The time at which ranks that were sent SIGTERM, the job alone being ended, are killed.
    kill_at: Option<Instant>,
}

impl RunningJob {
    fn nspace(&self) -> &Nspace {
        &self.job.ranks.nspace
    }

    /// The ranks that run, with their numbers.
    fn running(&self) -> impl Iterator<Item = (u32, &RankState)> {
        (self.job.ranks.first..).zip(&self.ranks).filter(|(_, rank)| rank.running)
    }

    fn has_running(&self) -> bool {
        self.ranks.iter().any(|rank| rank.running)
    }
}

/// Ranks have numbers: those of a job follow each other, and no two ranks that are known have the same. A job is known by the number of its
/// rank 0.
struct Supervisor<'a> {
    args: &'a Args,
    /// The first watchdog.
    watchdog: &'a Rc<Watchdog>,
    server: &'a Serving,
    binding: &'a Binding,
    directories: &'a Directories,
    session: Session,
    /// The jobs that the server knows.
    jobs: BTreeMap<u32, RunningJob>,
    trees: BTreeMap<u32, Tree>,
    /// How many trees there have been.
    planted: u32,
    /// A persistent launcher: it waits for jobs until it is ended, which has happened if the second is set.
    is_serving: bool,
    is_ending: bool,
    /// What the host knows of the jobs.
    of_host: Jobs,
    /// How many jobs have been spawned, or were to be.
    spawned: u32,
    /// How many ranks there have been.
    started: u32,
    /// The spawned jobs that have ended and that the server still knows, in the order of their ends.
    ended: VecDeque<u32>,
    /// Jobs that the server does not know any more.
    past: VecDeque<PastJob>,
    stdout: Sink,
    stderr: Sink,
    signals: SignalFd,
    events: Events,
    /// Whether our standard input is open and for the launched job.
    stdin_open: bool,
    /// Whether our standard input is a terminal, which another process group may be reading.
    stdin_is_terminal: bool,
    /// The exit status that the launched tree has left.
    exit: Option<i32>,
    /// Deadline for forwarding output after a signal or the time limit has ended the job.
    write_until: Option<Instant>,
    libraries: BTreeMap<Vec<String>, Mapped>,
    /// Texts of `PMIx_Log` that wait because too much output is queued.
    held: Vec<Held>,
    checkpoints: Checkpoints,
    /// The number of the last server process whose exit was handled.
    ended_lives: u32,
    /// There is no server any more.
    is_server_lost: bool,
    /// How many ranks have connected by PMI-1.
    pmi_ranks: u32,
}

/// A text to print, the process that has sent it, and the completion of its call.
type Held = (Proc, Vec<(Stream, Vec<u8>)>, Continuation);

/// Blocks the signals that the launcher reads from a descriptor; returns the descriptor.
pub(super) fn block_signals() -> Result<SignalFd, String> {
    let mut mask = SigSet::empty();
    FORWARDED.iter().for_each(|signal| mask.add(*signal));
    let signals = SignalFd::with_flags(&mask, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)
        .map_err(|error| format!("signalfd: {error}"))?;
    // A background read from a terminal then fails instead of stopping the process.
    mask.add(Signal::SIGTTIN);
    mask.thread_block().map_err(|error| format!("cannot block signals: {error}"))?;
    Ok(signals)
}

/// The next signal that has come.
pub(super) fn next_signal(signals: &SignalFd) -> Option<Signal> {
    let info = signals.read_signal().ok()??;
    Signal::try_from(info.ssi_signo as i32).ok()
}

/// Starts the ranks of the job of this plan and supervises them, and those of the jobs that they spawn, until the last one has ended.
/// Without a plan: serves those who start jobs, until it is to end.
pub(super) fn supervise(
    launcher: Launcher<'_>,
    session: Session,
    plan: Option<Plan>,
    (of_host, events): (Jobs, Events),
    signals: SignalFd,
) -> Result<Ended, String> {
    let started = Instant::now();
    let mut supervisor = Supervisor::new(launcher, session, (of_host, events), signals);
    if let Some(plan) = plan {
        let name = supervisor.session.job_name(0)?;
        let watchdog = Rc::clone(launcher.watchdog);
        supervisor.plant(LAUNCHED, watchdog, None, launcher.args.timeout);
        let started_job = supervisor.add_job(LAUNCHED, name, plan).and_then(|job| supervisor.start(job));
        // Only now: whoever waits for the address wants the job, too.
        let started_job = started_job.and_then(|()| super::report_uri(launcher.args, launcher.server));
        if let Err(message) = started_job {
            launcher.watchdog.signal_all(Signal::SIGKILL);
            supervisor.run();
            return Err(message);
        }
    }
    let forked = started.elapsed();
    supervisor.run();
    Ok(supervisor.into_ended(started.elapsed(), forked))
}

impl<'a> Supervisor<'a> {
    fn new(
        launcher: Launcher<'a>,
        session: Session,
        (of_host, events): (Jobs, Events),
        signals: SignalFd,
    ) -> Supervisor<'a> {
        let Launcher { args, watchdog, binding, directories, server } = launcher;
        Supervisor {
            args,
            watchdog,
            server,
            binding,
            directories,
            session,
            jobs: BTreeMap::new(),
            trees: BTreeMap::new(),
            planted: 0,
            is_serving: args.mode == Mode::Serve,
            is_ending: false,
            of_host,
            spawned: 0,
            started: 0,
            ended: VecDeque::new(),
            past: VecDeque::new(),
            stdout: Sink::new(Stream::Out),
            stderr: Sink::new(Stream::Err),
            signals,
            events,
            stdin_open: args.mode != Mode::Serve,
            stdin_is_terminal: std::io::stdin().is_terminal(),
            exit: None,
            write_until: None,
            libraries: BTreeMap::new(),
            held: Vec::new(),
            checkpoints: Checkpoints::default(),
            ended_lives: 0,
            is_server_lost: false,
            pmi_ranks: 0,
        }
    }
}

impl Supervisor<'_> {
    /// What has become of the jobs.
    fn into_ended(self, runtime: Duration, forked: Duration) -> Ended {
        Ended {
            exit_status: self.exit.unwrap_or(if self.has_lost_output() { EXIT_OUTPUT } else { 0 }),
            spawned: self.started.saturating_sub(self.args.ranks()),
            runtime,
            forked,
            libraries: self.libraries,
            pmi_ranks: self.pmi_ranks,
        }
    }

    fn run(&mut self) {
        while !self.is_done() {
            self.turn();
        }
        // What has been logged last may still be on its way.
        self.events.finish_logging(self.args.grace);
        self.take_events();
        self.print_held(Some(LAUNCHED));
        self.write_rest();
    }

    fn is_done(&self) -> bool {
        self.trees.is_empty() && (!self.is_serving || self.is_ending)
    }

    /// Waits until all output is written; a signal or the time limit ends the wait.
    fn write_rest(&mut self) {
        while self.stdout.is_waiting() || self.stderr.is_waiting() {
            let sinks = [&self.stdout, &self.stderr].into_iter().filter(|sink| sink.is_waiting());
            let mut polled: Vec<_> = sinks.map(|sink| PollFd::new(sink.fd(), PollFlags::POLLOUT)).collect();
            polled.push(PollFd::new(self.signals.as_fd(), PollFlags::POLLIN));
            let end = self.write_until;
            let limit = end.map(|at| at.saturating_duration_since(Instant::now()) + Duration::from_millis(1));
            let wait = limit.map_or(PollTimeout::NONE, |wait| PollTimeout::try_from(wait).unwrap_or(PollTimeout::MAX));
            let polled = poll(&mut polled, wait);
            let is_end = |signal| !matches!(signal, Signal::SIGUSR1 | Signal::SIGUSR2);
            let late = end.is_some_and(|at| at <= Instant::now());
            let signal = next_signal(&self.signals);
            if late || signal.is_some_and(is_end) || polled.is_err_and(|error| error != Errno::EINTR) {
                return;
            }
            self.stdout.flush();
            self.stderr.flush();
            self.report_lost_output();
        }
    }

    /// Reports a failed write once for each of our streams.
    fn report_lost_output(&mut self) {
        for (stream, name) in [(Stream::Out, "standard output"), (Stream::Err, "standard error")] {
            if let Some(error) = self.sink(stream).unreported_failure() {
                self.say(&format!("cannot write to {name}: {error}; what the ranks print there from here on is lost"));
            }
        }
    }

    fn has_lost_output(&self) -> bool {
        self.stdout.has_failed() || self.stderr.has_failed()
    }

    fn sink(&mut self, stream: Stream) -> &mut Sink {
        match stream {
            Stream::Out => &mut self.stdout,
            Stream::Err => &mut self.stderr,
        }
    }

    /// Prints a message to the launcher's user, after the output of the ranks so far.
    fn say(&mut self, message: &str) {
        self.stderr.write(format!("pmixrun: {message}\n").as_bytes());
    }

    fn deadline(&self, now: Instant) -> Option<Instant> {
        let stdin = (self.wants_stdin() && !self.may_read_stdin()).then(|| now + FOREGROUND_CHECK);
        let of_jobs = self.jobs.values().filter_map(|job| job.kill_at);
        let of_trees = self.trees.values().filter_map(Tree::deadline);
        let asked = [self.events.expire(now), self.checkpoints.next()].into_iter().flatten();
        of_jobs.chain(of_trees).chain(stdin).chain(asked).min()
    }

    fn turn(&mut self) {
        self.take_early_news();
        let now = Instant::now();
        // It may be the end of the last rank: then nothing would end the wait.
        self.tend_trees(now);
        if self.is_done() {
            return;
        }
        let wait = match self.deadline(now) {
            None => PollTimeout::NONE,
            Some(deadline) => {
                let wait = deadline.saturating_duration_since(now) + Duration::from_millis(1);
                PollTimeout::try_from(wait).unwrap_or(PollTimeout::MAX)
            }
        };
        for source in self.poll(wait) {
            match source {
                Source::Signals => self.take_signals(),
                Source::Watchdog(tree) => self.take_news(tree),
                Source::FirstWatchdog => self.take_first_news(),
                Source::Events => self.take_events(),
                Source::Pmi(job) => self.answer_pmi(job),
                Source::Stdin => self.read_stdin(),
                Source::Input(job) => self.write_input(job),
                Source::Output(rank) => self.pass_output(rank, CHUNK),
                Source::Sink(stream) => self.sink(stream).flush(),
            }
        }
        self.tend_server();
        self.print_held(None);
        self.report_lost_output();
        let now = Instant::now();
        self.kill_terminated_jobs(now);
        self.expire_checkpoints(now);
        self.tend_trees(now);
    }

    fn poll(&mut self, wait: PollTimeout) -> Vec<Source> {
        let stdin = std::io::stdin();
        let mut fds: Vec<(Source, BorrowedFd<'_>, PollFlags)> = vec![
            (Source::Signals, self.signals.as_fd(), PollFlags::POLLIN),
            (Source::Events, self.events.wake.as_fd(), PollFlags::POLLIN),
        ];
        if self.is_serving && !self.is_ending {
            fds.push((Source::FirstWatchdog, self.watchdog.fd(), PollFlags::POLLIN));
        }
        let living = self.trees.iter().filter(|(_, tree)| !tree.is_over);
        fds.extend(living.map(|(id, tree)| (Source::Watchdog(*id), tree.watchdog.fd(), PollFlags::POLLIN)));
        if self.wants_stdin() && self.may_read_stdin() {
            fds.push((Source::Stdin, stdin.as_fd(), PollFlags::POLLIN));
        }
        for (id, job) in &self.jobs {
            fds.extend(job.pmi.as_ref().map(|pmi| (Source::Pmi(*id), pmi.fd(), PollFlags::POLLIN)));
            let input = job.input.as_ref().and_then(Input::waiting_for_room);
            fds.extend(input.map(|fd| (Source::Input(*id), fd, PollFlags::POLLOUT)));
            let full = [Stream::Out, Stream::Err].map(|stream| self.is_full(job.tree, stream));
            for (number, rank) in (*id..).zip(&job.ranks) {
                let outputs = rank.outputs.iter().filter(|output| !full[usize::from(output.stream == Stream::Err)]);
                fds.extend(outputs.map(|output| (Source::Output(number), output.fd.as_fd(), PollFlags::POLLIN)));
            }
        }
        for (stream, sink) in [(Stream::Out, &self.stdout), (Stream::Err, &self.stderr)] {
            if sink.is_waiting() {
                fds.push((Source::Sink(stream), sink.fd(), PollFlags::POLLOUT));
            }
        }
        let mut polled: Vec<PollFd<'_>> = fds.iter().map(|(_, fd, flags)| PollFd::new(*fd, *flags)).collect();
        match poll(&mut polled, wait) {
            Ok(_) => {}
            Err(Errno::EINTR) => return Vec::new(),
            Err(error) => {
                // Without poll nothing can be supervised: end the jobs.
                self.say(&format!("poll: {error}"));
                self.is_ending = true;
                self.trees.values().for_each(|tree| tree.watchdog.signal_all(Signal::SIGKILL));
                return self.trees.keys().map(|tree| Source::Watchdog(*tree)).collect();
            }
        }
        let ready = polled.iter().zip(&fds).filter(|(fd, _)| fd.any().unwrap_or(false));
        ready.map(|(_, (source, ..))| *source).collect()
    }

    fn take_signals(&mut self) {
        while let Some(signal) = next_signal(&self.signals) {
            match self.is_serving {
                true => self.obey(signal),
                false => self.forward(signal),
            }
        }
    }

    fn take_early_news(&mut self) {
        loop {
            let early = |tree: &Tree| !tree.is_over && tree.watchdog.has_early_news();
            let Some(tree) = self.trees.iter().find(|(_, tree)| early(tree)).map(|(id, _)| *id) else { return };
            self.take_news(tree);
        }
    }

    fn take_news(&mut self, tree: u32) {
        // One that is over has said so last.
        let Some(watchdog) = self.trees.get(&tree).filter(|tree| !tree.is_over).map(|tree| &tree.watchdog) else {
            return;
        };
        match watchdog.news() {
            News::Ended(pid, status) => {
                if let Some(number) = self.number_of(tree, pid) {
                    self.rank_ended(number, status);
                }
            }
            News::Unreachable(pid) => {
                self.say_to(tree, &format!("process {pid} is still running: this user may not end it"));
            }
            News::Halted(pid) => self.has_stopped_on_exec(tree, pid),
            News::Signalled(result) => self.confirm_control(tree, result),
            News::Over => {
                if let Some(tree) = self.trees.get_mut(&tree) {
                    tree.is_over = true;
                }
            }
            News::Lost => self.watchdog_is_lost(tree),
        }
    }

    fn take_events(&mut self) {
        let events: Vec<Event> = self.events.take().collect();
        events.into_iter().for_each(|event| self.take_event(event));
    }

    fn take_event(&mut self, event: Event) {
        match event {
            Event::Connected(rank) => self.connected(rank),
            Event::Finalized(rank) => {
                if let Some(state) = self.rank_mut(rank) {
                    state.finalized = true;
                }
            }
            Event::Halted(rank, breakpoint) => self.halted(rank, &breakpoint),
            Event::Released { ranks, is_ours } => self.released(&ranks, is_ours),
            Event::Control { control, by, done } => self.control(&control, &by, done),
            Event::Checkpoint { request, ranks, by, done } => self.checkpoint(request, &ranks, by, done),
            Event::Checkpointed { rank, id, is_complete } => self.checkpointed(rank, id, is_complete),
            Event::Refused { by, why, done } => self.refuse(&by, &why, done),
            Event::Query(queries, done) => done.complete(table::answer(&self.tables(), &queries)),
            Event::Spawn { by, infos, apps, done } => self.spawn(by, &infos, apps, done),
            Event::Print(by, texts, done) => self.held.push((by, texts, done)),
            Event::Input { by, targets, data, at, done } => self.take_input(by, &targets, (data, at), done),
            Event::Taken { by, bytes } => self.output_was_taken(&by, bytes),
            Event::EndHeard(tool) => self.end_was_heard(&tool),
            Event::ToolLost(tool) => self.tool_is_lost(&tool),
            Event::ServerEnded(number) => {
                self.ended_lives = number;
                self.server.has_ended(number);
            }
            Event::Abort { rank, by, status, message } => self.abort(rank, &by, status, message),
        }
    }

    /// Answers a request for what the launcher does not have.
    fn refuse(&mut self, by: &Proc, why: &str, done: Infos) {
        // Where nobody reads, the lines of a program that asks again and again would fill the memory.
        self.say_for(by, &format!("{by} {why}"));
        done.complete((Status::ERR_NOT_SUPPORTED, Vec::new()));
    }

    /// A rank has connected.
    fn connected(&mut self, rank: u32) {
        let Some(state) = self.rank_mut(rank) else { return };
        let was_here = state.connected && !state.finalized;
        (state.connected, state.finalized) = (true, false);
        let pid = state.pid.as_raw();
        if was_here {
            // To a server that was started again.
            return;
        }
        if self.args.report.is_some()
            && let Some(paths) = pmix_libraries(pid)
        {
            self.libraries.entry(paths).or_insert_with_key(|paths| Mapped::open(pid, paths)).ranks += 1;
        }
    }

    /// The job that has a rank of this number.
    fn job_of(&self, number: u32) -> Option<u32> {
        let (first, job) = self.jobs.range(..=number).next_back()?;
        job.job.ranks.numbers().contains(&number).then_some(*first)
    }

    fn rank(&self, number: u32) -> Option<&RankState> {
        let job = self.job_of(number)?;
        self.jobs.get(&job)?.ranks.get((number - job) as usize)
    }

    fn rank_mut(&mut self, number: u32) -> Option<&mut RankState> {
        let job = self.job_of(number)?;
        self.jobs.get_mut(&job)?.ranks.get_mut((number - job) as usize)
    }

    /// The rank of a tree that runs as this process.
    fn number_of(&self, tree: u32, pid: Pid) -> Option<u32> {
        let jobs = self.jobs.values().filter(|job| job.tree == tree);
        jobs.flat_map(RunningJob::running).find(|(_, rank)| rank.pid == pid).map(|(number, _)| number)
    }

    /// How many ranks run, of all jobs.
    fn count_running(&self) -> usize {
        self.jobs.values().flat_map(RunningJob::running).count()
    }

    /// The job that has this name.
    fn job_named(&self, nspace: &Nspace) -> Option<(u32, &RunningJob)> {
        self.jobs.iter().find(|(_, job)| job.nspace() == nspace).map(|(id, job)| (*id, job))
    }

    /// The name of a rank.
    fn proc(&self, number: u32) -> Option<Proc> {
        let job = self.job_of(number)?;
        Some(Proc::new(self.jobs.get(&job)?.nspace().clone(), Rank(number - job)))
    }

    /// A rank for a line to the user: the job that was started from outside is not named.
    fn name(&self, number: u32) -> String {
        let Some((job, state)) = self.job_of(number).zip(self.rank(number)) else { return format!("rank {number}") };
        let (rank, pid) = (number - job, state.pid);
        match self.trees.get(&self.jobs[&job].tree).is_some_and(|tree| tree.root == job) {
            true => format!("rank {rank} (pid {pid})"),
            false => format!("rank {rank} of {} (pid {pid})", self.jobs[&job].nspace()),
        }
    }
}

/// The most PMIx libraries of a process that are looked at: with that of `lib/prrte` it has three.
const LIBRARIES_MAX: usize = 8;

/// The PMIx libraries that a process has mapped, if there are any.
fn pmix_libraries(pid: i32) -> Option<Vec<String>> {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).ok()?;
    let files = maps.lines().filter_map(|line| Some(&line[line.find('/')?..]));
    let mut paths: Vec<String> = files.filter(|path| path.contains("/libpmix.so")).map(str::to_owned).collect();
    paths.dedup();
    paths.truncate(LIBRARIES_MAX);
    (!paths.is_empty()).then_some(paths)
}
