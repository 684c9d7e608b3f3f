//! Runs a job: starts its ranks, forwards input and output, and ends the job as a whole.

mod checkpoints;
mod spawn;
mod speakers;
mod start;
mod tools;

use std::collections::{BTreeMap, VecDeque};
use std::io::IsTerminal;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::{Pid, getpgrp, read, tcgetpgrp, write};
use pmix_dstore::model::{Nspace, Proc, Rank, Status};
use pmix_server::{Server, Waiting};

use super::EXIT_OUTPUT;
use super::args::Args;
use super::binding::Binding;
use super::checkpoint::Checkpoints;
use super::control::JobRanks;
use super::directories::{Directories, JobDirectory};
use super::halts::Halts;
use super::hang;
use super::host::{Continuation, Event, Events, Infos, Jobs};
use super::job::{Job, Plan, Session};
use super::output::{Lines, Sink, Stream};
use super::pmi::Pmi;
use super::report::{Ended, Mapped};
use super::table;
use super::watchdog::{News, Watchdog};
use tools::Signalling;

/// Exit status of a job that exceeded its time limit, as of `timeout(1)`.
const EXIT_TIMEOUT: i32 = 124;
/// The delay before an abort takes effect. MPI ranks abort when they learn that another rank has died. The launcher may
/// learn of that death later, and should report it as the cause.
const ABORT_DELAY: Duration = Duration::from_millis(100);
/// Signals that are forwarded to the ranks.
const FORWARDED: [Signal; 6] =
    [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGQUIT, Signal::SIGUSR1, Signal::SIGUSR2];
/// Bytes moved at once. The limit keeps a rank that never stops printing from starving the launcher's other work.
const CHUNK: usize = 1 << 16;
/// The interval at which the launcher checks whether it is in the foreground of its terminal. No event reports that.
const FOREGROUND_CHECK: Duration = Duration::from_millis(200);
/// The most bytes that a pipe may still hold after its rank has ended.
const PIPE_LEN_MAX: usize = 1 << 20;

/// One of a rank's output streams while it is open.
struct Output {
    fd: OwnedFd,
    stream: Stream,
    lines: Lines,
}

/// One rank. Its number is its place among all of the launcher's.
struct RankState {
    /// The place of its job among the jobs.
    job: usize,
    /// Its rank in the job.
    rank: u32,
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

/// The first failure of the job.
#[derive(Clone, Copy)]
struct Failure {
    /// The launcher's exit status.
    exit: i32,
    /// What tools are told.
    status: Status,
}

/// The meaning of a polled descriptor.
#[derive(Clone, Copy)]
enum Source {
    Signals,
    Watchdog,
    Events,
    Pmi,
    Stdin,
    RankStdin,
    Output(usize),
    Sink(Stream),
}

/// An abort that a rank has called and that has not taken effect yet.
struct PendingAbort {
    until: Instant,
    /// None is a tool.
    rank: Option<usize>,
    status: i32,
    what: String,
}

/// What all jobs share.
#[derive(Clone, Copy)]
pub(super) struct Launcher<'a> {
    pub args: &'a Args,
    pub watchdog: &'a Watchdog,
    pub binding: &'a Binding,
    pub directories: &'a Directories,
    pub server: &'a Server,
}

/// A job whose ranks have been started.
struct RunningJob {
    job: Job,
    directory: JobDirectory,
    /// The watchdog's number of its first program.
    first_program: u32,
    /// Where its ranks wait for a debugger.
    halts: Halts,
    /// Whether it was ended by command, or could not be started: then the end of its ranks is no failure.
    is_ended_by_command: bool,
    /// Whether all its ranks have ended and its end has been told.
    is_over: bool,
    /// Whether it is forgotten: its plan and its breakpoints are gone.
    is_forgotten: bool,
    /// The time at which ranks that were sent SIGTERM, the job alone being ended, are killed.
    kill_at: Option<Instant>,
}

impl RunningJob {
    fn nspace(&self) -> &Nspace {
        &self.job.ranks.nspace
    }

    /// The numbers of its ranks.
    fn numbers(&self) -> Range<usize> {
        let JobRanks { first, size, .. } = self.job.ranks;
        first as usize..(first + size) as usize
    }
}

struct Supervisor<'a> {
    args: &'a Args,
    watchdog: &'a Watchdog,
    server: &'a Server,
    binding: &'a Binding,
    directories: &'a Directories,
    session: Session,
    /// The launched job is the first.
    jobs: Vec<RunningJob>,
    /// What the host knows of them.
    of_host: Jobs,
    /// How many programs the watchdog has been told of.
    programs: u32,
    /// How many jobs have been spawned, or were to be.
    spawned: u32,
    /// The spawned jobs that have ended and that the server still knows, in the order of their ends.
    ended: VecDeque<usize>,
    /// All ranks have ended, and what they have started is being ended.
    is_closing: bool,
    stdout: Sink,
    stderr: Sink,
    signals: SignalFd,
    events: Events,
    ranks: Vec<RankState>,
    /// The pipe to rank 0's standard input, while it is open.
    rank_stdin: Option<OwnedFd>,
    /// Input for rank 0 that is not written yet.
    stdin_pending: Vec<u8>,
    stdin_open: bool,
    /// Whether our standard input is a terminal, which another process group may be reading.
    stdin_is_terminal: bool,
    /// All processes of the job have ended.
    is_over: bool,
    failure: Option<Failure>,
    /// A rank's abort, while it may still be only the consequence of another rank's death.
    abort: Option<PendingAbort>,
    /// The time at which ranks that were sent SIGTERM are killed.
    kill_at: Option<Instant>,
    timeout_at: Option<Instant>,
    /// Deadline for forwarding output after a signal or the time limit has ended the job.
    write_until: Option<Instant>,
    libraries: BTreeMap<Vec<String>, Mapped>,
    /// Texts of `PMIx_Log` that wait because too much output is queued.
    held: Vec<Held>,
    /// Signals to ranks that the watchdog has not confirmed yet. The first is under way, the others wait for it.
    controls: VecDeque<Signalling>,
    checkpoints: Checkpoints,
    /// Serves ranks of the launched job that speak PMI-1.
    pmi: Pmi,
    /// How many have connected so.
    pmi_ranks: u32,
}

/// A text to print, and the completion of the call that asked for it.
type Held = (Vec<(Stream, Vec<u8>)>, Continuation);

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

/// Starts the ranks of the job of this plan and supervises them, and those of the jobs that they spawn, until the last one has ended.
pub(super) fn supervise(
    launcher: Launcher<'_>,
    session: Session,
    plan: Plan,
    (of_host, events): (Jobs, Events),
    signals: SignalFd,
) -> Result<Ended, String> {
    let Launcher { args, watchdog, binding, directories, server } = launcher;
    let started = Instant::now();
    let name = session.job_name(0)?;
    let mut supervisor = Supervisor {
        args,
        watchdog,
        server,
        binding,
        directories,
        pmi: Pmi::new(&name.to_string(), plan.ranks())?,
        session,
        jobs: Vec::new(),
        of_host,
        programs: 0,
        spawned: 0,
        ended: VecDeque::new(),
        is_closing: false,
        stdout: Sink::new(Stream::Out),
        stderr: Sink::new(Stream::Err),
        signals,
        events,
        ranks: Vec::new(),
        rank_stdin: None,
        stdin_pending: Vec::new(),
        stdin_open: true,
        stdin_is_terminal: std::io::stdin().is_terminal(),
        is_over: false,
        failure: None,
        abort: None,
        kill_at: None,
        timeout_at: args.timeout.and_then(|time| started.checked_add(time)),
        write_until: None,
        libraries: BTreeMap::new(),
        held: Vec::new(),
        controls: VecDeque::new(),
        checkpoints: Checkpoints::default(),
        pmi_ranks: 0,
    };
    let started_job = supervisor.add_job(name, plan).and_then(|job| supervisor.start(job));
    // Only now: whoever waits for the address wants the job, too.
    let started_job = started_job.and_then(|()| supervisor.report_uri());
    if let Err(message) = started_job {
        supervisor.watchdog.signal_all(Signal::SIGKILL);
        supervisor.run();
        return Err(message);
    }
    let forked = started.elapsed();
    supervisor.run();
    Ok(supervisor.into_ended(started.elapsed(), forked))
}

impl Supervisor<'_> {
    /// What has become of the jobs.
    fn into_ended(self, runtime: Duration, forked: Duration) -> Ended {
        Ended {
            exit_status: self.exit_status(),
            spawned: (self.ranks.len() as u32).saturating_sub(self.args.ranks()),
            runtime,
            forked,
            libraries: self.libraries,
            pmi_ranks: self.pmi_ranks,
        }
    }

    /// Writes the server's address where the command line wants it.
    fn report_uri(&self) -> Result<(), String> {
        let Some(target) = &self.args.report_uri else { return Ok(()) };
        self.server
            .report_uri(target)
            .map_err(|error| format!("cannot write the address of the server to {target}: {error}"))
    }

    fn exit_status(&self) -> i32 {
        self.failure.map_or(if self.has_lost_output() { EXIT_OUTPUT } else { 0 }, |failure| failure.exit)
    }

    fn run(&mut self) {
        // When the job is over, do not wait for a rank that this user may not signal.
        while !self.is_over && self.ranks.iter().any(|rank| rank.running) {
            self.turn();
        }
        self.is_closing = true;
        // Descendants of the ranks get the rest of the ranks' time to end.
        let kill_at = self.kill_at.take().map(|at| at.saturating_duration_since(Instant::now()));
        self.watchdog.finish(kill_at.unwrap_or(self.args.grace));
        while !self.is_over {
            self.turn();
        }
        for index in 0..self.ranks.len() {
            self.pass_output(index, PIPE_LEN_MAX);
            self.close_outputs(index);
        }
        // What has been logged last may still be on its way.
        self.events.finish_logging(self.args.grace);
        self.take_events();
        self.print_held(true);
        self.write_rest();
    }

    /// Waits until all output is written; a signal or the time limit ends the wait.
    fn write_rest(&mut self) {
        while self.stdout.is_waiting() || self.stderr.is_waiting() {
            let sinks = [&self.stdout, &self.stderr].into_iter().filter(|sink| sink.is_waiting());
            let mut polled: Vec<_> = sinks.map(|sink| PollFd::new(sink.fd(), PollFlags::POLLOUT)).collect();
            polled.push(PollFd::new(self.signals.as_fd(), PollFlags::POLLIN));
            let now = Instant::now();
            let end = [self.timeout_at, self.write_until].into_iter().flatten().min();
            let limit = end.map(|at| at.saturating_duration_since(now) + Duration::from_millis(1));
            let wait = limit.map_or(PollTimeout::NONE, |wait| PollTimeout::try_from(wait).unwrap_or(PollTimeout::MAX));
            let polled = poll(&mut polled, wait);
            let is_end = |signal| !matches!(signal, Signal::SIGUSR1 | Signal::SIGUSR2);
            let late = end.is_some_and(|at| at <= Instant::now());
            if late || self.next_signal().is_some_and(is_end) || polled.is_err_and(|error| error != Errno::EINTR) {
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

    /// Prints a message to the user, after the output of the ranks so far.
    fn say(&mut self, message: &str) {
        self.stderr.write(format!("pmixrun: {message}\n").as_bytes());
    }

    /// Says what the ranks wait for.
    fn say_what_waits(&mut self, waiting: &Waiting) {
        let lines = hang::explained(&self.tables(), waiting);
        lines.iter().for_each(|line| self.say(line));
    }

    fn deadline(&self, now: Instant) -> Option<Instant> {
        let abort = self.abort.as_ref().map(|abort| abort.until);
        let stdin = (self.wants_stdin() && !self.may_read_stdin()).then(|| now + FOREGROUND_CHECK);
        let of_jobs = self.jobs.iter().filter_map(|job| job.kill_at);
        let asked = [self.events.expire(now), self.checkpoints.next()];
        let others = [self.kill_at, self.timeout_at, abort, stdin].into_iter().chain(asked).flatten();
        of_jobs.chain(others).min()
    }

    fn wants_stdin(&self) -> bool {
        self.stdin_open && self.rank_stdin.is_some() && self.stdin_pending.is_empty()
    }

    /// Whether the launcher may read its input. In the background of a terminal it may not: the input is for the
    /// foreground job.
    fn may_read_stdin(&self) -> bool {
        // A terminal that does not control our session has no foreground group, and any process may read it.
        !self.stdin_is_terminal || tcgetpgrp(std::io::stdin()).map_or(true, |group| group == getpgrp())
    }

    fn turn(&mut self) {
        while self.watchdog.has_early_news() {
            self.take_news();
        }
        let now = Instant::now();
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
                Source::Watchdog => self.take_news(),
                Source::Events => self.take_events(),
                Source::Pmi => self.answer_pmi(),
                Source::Stdin => self.read_stdin(),
                Source::RankStdin => self.write_stdin(),
                Source::Output(rank) => self.pass_output(rank, CHUNK),
                Source::Sink(stream) => self.sink(stream).flush(),
            }
        }
        self.print_held(false);
        self.report_lost_output();
        let now = Instant::now();
        if self.abort.as_ref().is_some_and(|abort| abort.until <= now) {
            self.finish_abort();
        }
        if self.timeout_at.is_some_and(|at| at <= now) {
            self.timeout_at = None;
            self.write_until = now.checked_add(self.args.grace);
            let waiting = self.waiting();
            let seconds = self.args.timeout.unwrap_or_default().as_secs_f64();
            self.fail(
                EXIT_TIMEOUT,
                Status::ERR_TIMEOUT,
                &format!("the job has run for {seconds} s, which is its limit"),
            );
            self.say_what_waits(&waiting);
        }
        if self.kill_at.is_some_and(|at| at <= now) {
            self.kill_at = None;
            self.watchdog.signal_all(Signal::SIGKILL);
        }
        self.kill_terminated_jobs(now);
        self.expire_checkpoints(now);
    }

    fn poll(&mut self, wait: PollTimeout) -> Vec<Source> {
        let stdin = std::io::stdin();
        let mut fds: Vec<(Source, BorrowedFd<'_>, PollFlags)> = vec![
            (Source::Signals, self.signals.as_fd(), PollFlags::POLLIN),
            (Source::Events, self.events.wake.as_fd(), PollFlags::POLLIN),
            (Source::Pmi, self.pmi.fd(), PollFlags::POLLIN),
        ];
        if !self.is_over {
            fds.push((Source::Watchdog, self.watchdog.fd(), PollFlags::POLLIN));
        }
        if self.wants_stdin() && self.may_read_stdin() {
            fds.push((Source::Stdin, stdin.as_fd(), PollFlags::POLLIN));
        }
        if let Some(rank_stdin) = self.rank_stdin.as_ref().filter(|_| !self.stdin_pending.is_empty()) {
            fds.push((Source::RankStdin, rank_stdin.as_fd(), PollFlags::POLLOUT));
        }
        for (index, rank) in self.ranks.iter().enumerate() {
            let full = |stream| if stream == Stream::Out { self.stdout.is_full() } else { self.stderr.is_full() };
            let outputs = rank.outputs.iter().filter(|output| !full(output.stream));
            fds.extend(outputs.map(|output| (Source::Output(index), output.fd.as_fd(), PollFlags::POLLIN)));
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
                // Without poll nothing can be supervised: end the job.
                self.say(&format!("poll: {error}"));
                self.watchdog.signal_all(Signal::SIGKILL);
                return vec![Source::Watchdog];
            }
        }
        let ready = polled.iter().zip(&fds).filter(|(fd, _)| fd.any().unwrap_or(false));
        ready.map(|(_, (source, ..))| *source).collect()
    }

    fn take_signals(&mut self) {
        while let Some(signal) = self.next_signal() {
            self.forward(signal);
        }
    }

    fn take_news(&mut self) {
        match self.watchdog.news() {
            News::Ended(pid, status) => {
                if let Some(index) = self.ranks.iter().position(|rank| rank.running && rank.pid == pid) {
                    self.rank_ended(index, status);
                }
            }
            News::Unreachable(pid) => {
                self.say(&format!("process {pid} is still running: this user may not end it"));
            }
            News::Halted(pid) => self.has_stopped_on_exec(pid),
            News::Signalled(result) => self.confirm_control(result),
            News::Over => self.is_over = true,
            News::Lost => self.watchdog_is_lost(),
        }
    }

    /// Handles the death of the watchdog, and of the ranks with it. Their descendants are now this process's children.
    fn watchdog_is_lost(&mut self) {
        let pid = self.watchdog.pid();
        self.fail(1, Status::ERR_JOB_ABORTED, &format!("process {pid}, which started the ranks, is gone"));
        self.watchdog.end_the_rest();
        self.is_over = true;
        for index in 0..self.ranks.len() {
            self.ranks[index].running = false;
        }
    }

    fn next_signal(&self) -> Option<Signal> {
        let info = self.signals.read_signal().ok()??;
        Signal::try_from(info.ssi_signo as i32).ok()
    }

    /// Forwards a signal; a signal that ends the job sets a deadline.
    fn forward(&mut self, signal: Signal) {
        if matches!(signal, Signal::SIGUSR1 | Signal::SIGUSR2) {
            if signal == Signal::SIGUSR1 {
                self.say_what_waits(&self.waiting());
            }
            return self.watchdog.signal_ranks(signal);
        }
        if self.failure.is_some() && signal == Signal::SIGINT {
            // This is the second request, or the job is ending already.
            return self.watchdog.signal_all(Signal::SIGKILL);
        }
        self.say(&format!("{signal}: ending the job"));
        let waiting = self.failure.is_none().then(|| self.waiting());
        let (exit, status) = (128 + signal as i32, Status::ERR_JOB_KILLED_BY_CMD);
        self.failure.get_or_insert(Failure { exit, status });
        self.write_until = Instant::now().checked_add(self.args.grace);
        self.kill_at = self.kill_at.or_else(|| Instant::now().checked_add(self.args.grace));
        self.announce_end();
        self.watchdog.signal_all(signal);
        // The ranks have their signal: this may take a while where they are many.
        if let Some(waiting) = waiting {
            self.say_what_waits(&waiting);
        }
    }

    fn take_events(&mut self) {
        let events: Vec<Event> = self.events.take().collect();
        events.into_iter().for_each(|event| self.take_event(event));
    }

    fn take_event(&mut self, event: Event) {
        match event {
            Event::Connected(rank) => {
                let Some(state) = self.ranks.get_mut(rank as usize) else { return };
                (state.connected, state.finalized) = (true, false);
                let pid = state.pid.as_raw();
                if self.args.report.is_some()
                    && let Some(paths) = pmix_libraries(pid)
                {
                    self.libraries.entry(paths).or_insert_with_key(|paths| Mapped::open(pid, paths)).ranks += 1;
                }
            }
            Event::Finalized(rank) => {
                if let Some(state) = self.ranks.get_mut(rank as usize) {
                    state.finalized = true;
                }
            }
            Event::Halted(rank, breakpoint) => self.halted(rank as usize, &breakpoint),
            Event::Released { ranks, is_ours } => self.released(&ranks, is_ours),
            Event::Control { control, by, done } => self.control(&control, &by, done),
            Event::Checkpoint { request, ranks, by, done } => self.checkpoint(request, &ranks, by, done),
            Event::Checkpointed { rank, id, is_complete } => self.checkpointed(rank, id, is_complete),
            Event::Refused { by, why, done } => self.refuse(&by, &why, done),
            Event::Query(queries, done) => done.complete(table::answer(&self.tables(), &queries)),
            Event::Spawn { by, infos, apps, done } => self.spawn(by, &infos, apps, done),
            Event::Print(texts, done) => self.held.push((texts, done)),
            Event::Abort { rank, by, status, message } => {
                let said = message.map_or(String::new(), |text| format!(": {}", text.to_string_lossy()));
                // An aborted job must not exit with a status that a shell reads as success.
                let status = if status & 0xff == 0 { 1 } else { status & 0xff };
                let rank = rank.map(|rank| rank as usize);
                let who = rank.map_or_else(|| format!("tool {}", by.nspace), |rank| self.name(rank));
                let what = format!("{who} called abort with status {status}{said}");
                let until = Instant::now() + ABORT_DELAY;
                self.abort.get_or_insert(PendingAbort { until, rank, status, what });
            }
        }
    }

    /// Answers a request for what the launcher does not have.
    fn refuse(&mut self, by: &Proc, why: &str, done: Infos) {
        // Where nobody reads, the lines of a program that asks again and again would fill the memory.
        if !self.stderr.is_full() {
            self.say(&format!("{by} {why}"));
        }
        done.complete((Status::ERR_NOT_SUPPORTED, Vec::new()));
    }

    /// Prints texts of `PMIx_Log` until too much output is queued; the remaining calls wait.
    fn print_held(&mut self, no_more_ranks: bool) {
        for (texts, done) in std::mem::take(&mut self.held) {
            let is_full = texts.iter().any(|(stream, _)| self.sink(*stream).is_full());
            if is_full && !no_more_ranks {
                self.held.push((texts, done));
                continue;
            }
            texts.iter().for_each(|(stream, text)| self.sink(*stream).write(text));
            done.complete();
        }
    }

    fn rank_ended(&mut self, index: usize, status: ExitStatus) {
        self.ranks[index].running = false;
        self.ranks[index].ended = Some(status);
        self.pass_output(index, PIPE_LEN_MAX);
        // An event of its finalize may have arrived since events were last taken.
        self.take_events();
        let job = self.ranks[index].job;
        if job == 0 {
            self.take_rest(index as u32);
        }
        let killed = status.signal();
        if self.abort.as_ref().is_some_and(|abort| killed.is_none() || abort.rank == Some(index)) {
            self.finish_abort();
        }
        let who = self.name(index);
        let state = &self.ranks[index];
        match (status.code(), killed) {
            _ if self.jobs[state.job].is_ended_by_command => {}
            (Some(0), _) if state.connected && !state.finalized => {
                self.fail(1, Status::ERR_JOB_TERM_WO_SYNC, &format!("{who} exited without finalizing"));
            }
            (Some(0), _) => {}
            (_, Some(number)) => {
                let name = Signal::try_from(number).map_or("real-time", Signal::as_str);
                // A rank that ends before it connects is unknown to its server.
                let when = if state.connected { "" } else { " before it was connected (PMIx_Init)" };
                let told = match state.is_killed_by_command {
                    true => Status::ERR_JOB_KILLED_BY_CMD,
                    false => Status::ERR_JOB_ABORTED_BY_SIG,
                };
                self.fail(128 + number, told, &format!("{who} was killed by signal {number} ({name}){when}"));
            }
            (code, None) => {
                let code = code.unwrap_or(1);
                self.fail(code, Status::ERR_JOB_NON_ZERO_TERM, &format!("{who} exited with status {code}"));
            }
        }
        self.report_halts(job);
        self.events.process_ended(&self.proc(index));
        self.checkpoints_without(index);
        // This completes operations that wait for the rank.
        self.server.deregister_client(&self.proc(index), None);
        if job == 0 {
            self.pmi_rank_ended(index as u32);
        }
        self.end_job(job);
    }

    /// How many ranks run, of all jobs.
    fn count_running(&self) -> usize {
        self.ranks.iter().filter(|rank| rank.running).count()
    }

    fn proc(&self, index: usize) -> Proc {
        let RankState { job, rank, .. } = &self.ranks[index];
        Proc::new(self.jobs[*job].nspace().clone(), Rank(*rank))
    }

    /// Lets the server take the losses that follow for the launcher's work.
    fn announce_end(&self) {
        self.jobs.iter().filter(|job| !job.is_over).for_each(|job| self.server.announce_end(job.nspace()));
    }

    /// Makes a pending abort the job's failure, if there is none yet.
    fn finish_abort(&mut self) {
        if let Some(abort) = self.abort.take() {
            self.fail(abort.status, Status::ERR_JOB_ABORTED, &abort.what);
        }
    }

    fn name(&self, index: usize) -> String {
        let RankState { job, rank, pid, .. } = &self.ranks[index];
        match job {
            0 => format!("rank {rank} (pid {pid})"),
            job => format!("rank {rank} of {} (pid {pid})", self.jobs[*job].nspace()),
        }
    }

    /// Handles a failure of the job. The first failure is reported and decides the exit status; the other ranks get
    /// SIGTERM.
    fn fail(&mut self, exit: i32, status: Status, what: &str) {
        if self.failure.is_some() {
            return;
        }
        self.failure = Some(Failure { exit, status });
        let left = self.count_running();
        let ending = if left == 0 { String::new() } else { format!("; ending the ranks that still run ({left})") };
        self.say(&format!("{what}{ending}"));
        self.kill_at = Instant::now().checked_add(self.args.grace);
        self.announce_end();
        self.watchdog.signal_all(Signal::SIGTERM);
    }

    /// Forwards output of a rank, about `len_max` bytes of each stream at most.
    fn pass_output(&mut self, rank: usize, len_max: usize) {
        let mut buffer = vec![0; CHUNK];
        let mut outputs = std::mem::take(&mut self.ranks[rank].outputs);
        outputs.retain_mut(|output| {
            let sink = self.sink(output.stream);
            let mut passed = 0;
            while passed < len_max {
                match read(&output.fd, &mut buffer) {
                    Ok(0) => {
                        sink.write(&output.lines.finish());
                        return false;
                    }
                    Ok(len) => {
                        passed += len;
                        sink.write(&output.lines.take(&buffer[..len]));
                        if sink.is_closed() {
                            // The reader of our output has closed it. Close the rank's pipe: the rank gets SIGPIPE or
                            // EPIPE, as it would without us.
                            return false;
                        }
                    }
                    Err(Errno::EAGAIN) => return true,
                    Err(Errno::EINTR) => {}
                    Err(_) => return false,
                }
            }
            true
        });
        self.ranks[rank].outputs = outputs;
    }

    fn close_outputs(&mut self, rank: usize) {
        for mut output in std::mem::take(&mut self.ranks[rank].outputs) {
            let rest = output.lines.finish();
            self.sink(output.stream).write(&rest);
        }
    }

    fn read_stdin(&mut self) {
        let mut buffer = vec![0; CHUNK];
        match read(std::io::stdin().as_fd(), &mut buffer) {
            // Our parent may have made our standard input non-blocking.
            Err(Errno::EAGAIN | Errno::EINTR) => {}
            // The launcher has moved to the background since the check.
            Err(Errno::EIO) if !self.may_read_stdin() => {}
            Ok(0) | Err(_) => {
                // Rank 0 sees the end of its input.
                self.stdin_open = false;
                self.rank_stdin = None;
            }
            Ok(len) => {
                buffer.truncate(len);
                self.stdin_pending = buffer;
                self.write_stdin();
            }
        }
    }

    fn write_stdin(&mut self) {
        let Some(fd) = &self.rank_stdin else { return };
        match write(fd, &self.stdin_pending) {
            Ok(len) => {
                self.stdin_pending.drain(..len);
            }
            Err(Errno::EAGAIN | Errno::EINTR) => {}
            Err(_) => {
                // Rank 0 has closed its input.
                self.stdin_pending.clear();
                self.rank_stdin = None;
            }
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
