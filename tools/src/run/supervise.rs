//! The loop that watches over the job: output, input, signals, aborts, and processes that end.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::{getpgrp, isatty, tcgetpgrp};

use super::complain;
use super::host::{Abort, LaunchHost};
use super::options::Options;
use super::output::{Figure, Forward, Lines, Stream};
use super::ranks::{Rank, Streams, describe, shell_status};

/// How long ranks have between SIGTERM and SIGKILL.
const GRACE: Duration = Duration::from_secs(2);
/// How long output is waited for after the last rank has ended: something that it started may keep it open.
const LINGER: Duration = Duration::from_millis(500);
/// The exit status after a timeout, as timeout(1) has it.
const EXIT_TIMEOUT: u8 = 124;
/// What is read of standard input at once.
const INPUT_LEN: usize = 64 << 10;

/// Signals that are passed to all ranks.
const PASSED: [Signal; 6] =
    [Signal::SIGHUP, Signal::SIGINT, Signal::SIGQUIT, Signal::SIGTERM, Signal::SIGUSR1, Signal::SIGUSR2];

/// How a job ended.
#[derive(Debug)]
pub struct Outcome {
    /// pmixrun's exit status.
    pub status: u8,
    /// What the ranks printed for the report.
    pub figures: Vec<Figure>,
}

/// pmixrun's standard input on its way to rank 0.
struct Input {
    /// Rank 0's end.
    to: File,
    pending: Vec<u8>,
    /// Our own end has been read to its end.
    ended: bool,
}

/// What is known of the running job.
pub struct Supervisor {
    host: Arc<LaunchHost>,
    signals: SignalFd,
    ranks: Vec<Rank>,
    outputs: Vec<Forward<File>>,
    input: Option<Input>,
    tag_output: bool,
    figures: bool,
    deadline: Option<Instant>,
    /// Set with the first failure; the job is then ended.
    status: Option<u8>,
    /// When what still runs is killed.
    kill_at: Option<Instant>,
    /// When output is no longer waited for.
    close_at: Option<Instant>,
    /// A second signal to stop does not wait.
    interrupted: bool,
}

impl Supervisor {
    /// Blocks the signals that the loop will read; call it before other threads start.
    ///
    /// # Errors
    /// Where the kernel gives no descriptor.
    pub fn new(host: Arc<LaunchHost>, options: &Options) -> io::Result<Supervisor> {
        let mut mask = SigSet::from_iter(PASSED);
        mask.add(Signal::SIGCHLD);
        mask.thread_block()?;
        let signals = SignalFd::with_flags(&mask, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?;
        Ok(Supervisor {
            host,
            signals,
            ranks: Vec::new(),
            outputs: Vec::new(),
            input: None,
            tag_output: options.tag_output,
            figures: options.report.is_some(),
            deadline: options.timeout.and_then(|timeout| Instant::now().checked_add(timeout)),
            status: None,
            kill_at: None,
            close_at: None,
            interrupted: false,
        })
    }

    /// Takes a started rank into the watch.
    pub fn add(&mut self, rank: Rank, streams: Streams) {
        for (source, stream) in [(streams.stdout, Stream::Out), (streams.stderr, Stream::Err)] {
            let lines = Lines::new(rank.rank, stream, self.tag_output, self.figures);
            self.outputs.push(Forward::new(source, lines, stream));
        }
        self.input = self.input.take().or(streams.stdin.and_then(Input::new));
        self.ranks.push(rank);
    }

    /// Kills what has been started: the job does not come about.
    pub fn abandon(&mut self) {
        self.signal_all(Signal::SIGKILL);
        for rank in &mut self.ranks {
            while rank.is_running() {
                rank.poll_end();
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }

    /// Watches until all ranks have ended.
    pub fn watch(mut self) -> Outcome {
        loop {
            let now = Instant::now();
            let next = self.due(now);
            if self.is_over(now) {
                break;
            }
            self.wait(next.map(|at| at.saturating_duration_since(now)));
            self.read_signals();
            if let Some(abort) = self.host.take_abort() {
                self.aborted(&abort);
            }
            self.collect();
        }
        let figures = self.outputs.iter_mut().flat_map(Forward::take_figures).collect();
        Outcome { status: self.status.unwrap_or(0), figures }
    }

    /// Nothing runs, and the output has ended or is no longer waited for.
    fn is_over(&mut self, now: Instant) -> bool {
        if self.ranks.iter().any(Rank::is_running) {
            return false;
        }
        let close_at = *self.close_at.get_or_insert(now + LINGER);
        close_at <= now || self.outputs.iter().all(|output| output.source().is_none())
    }

    /// Does what is due now; returns when something will be due.
    fn due(&mut self, now: Instant) -> Option<Instant> {
        let lookups = self.host.expire(now);
        if self.deadline.is_some_and(|deadline| deadline <= now) {
            self.deadline = None;
            complain("the time for the job is over; its ranks are terminated");
            self.end_job(EXIT_TIMEOUT);
        }
        if self.kill_at.is_some_and(|at| at <= now) {
            self.kill_at = None;
            self.signal_all(Signal::SIGKILL);
        }
        [lookups, self.deadline, self.kill_at, self.close_at].into_iter().flatten().min()
    }

    /// Waits until a descriptor is ready, and passes on input and output.
    fn wait(&mut self, timeout: Option<Duration>) {
        // Rounded up: a wait that ends early would only be repeated.
        let timeout = timeout.map_or(PollTimeout::NONE, |timeout| {
            PollTimeout::try_from(timeout + Duration::from_millis(1)).unwrap_or(PollTimeout::MAX)
        });
        let stdin = io::stdin();
        let mut fds = vec![
            PollFd::new(self.signals.as_fd(), PollFlags::POLLIN),
            PollFd::new(self.host.wake().as_fd(), PollFlags::POLLIN),
        ];
        let input = self.input.as_ref().and_then(|input| input.interest(stdin.as_fd()));
        fds.extend(input);
        let fixed = fds.len();
        let open: Vec<usize> = (0..self.outputs.len()).filter(|at| self.outputs[*at].source().is_some()).collect();
        fds.extend(
            open.iter().filter_map(|at| Some(PollFd::new(self.outputs[*at].source()?.as_fd(), PollFlags::POLLIN))),
        );
        if poll(&mut fds, timeout).is_err() {
            // Interrupted; everything is looked at again.
            return;
        }
        let ready: Vec<bool> = fds.iter().map(|fd| fd.any().unwrap_or(false)).collect();
        drop(fds);
        if ready[1] {
            // Whatever it counts, the loop looks once.
            let _ = self.host.wake().read();
        }
        if fixed == 3 && ready[2] && self.input.as_mut().is_some_and(|input| !input.advance(&stdin)) {
            self.input = None;
        }
        for (at, ready) in open.into_iter().zip(&ready[fixed..]) {
            if *ready {
                self.outputs[at].forward();
            }
        }
    }

    fn read_signals(&mut self) {
        while let Ok(Some(info)) = self.signals.read_signal() {
            let Ok(signal) = Signal::try_from(info.ssi_signo as i32) else { continue };
            if signal == Signal::SIGCHLD {
                continue;
            }
            let stops = !matches!(signal, Signal::SIGUSR1 | Signal::SIGUSR2);
            if stops && self.interrupted {
                self.signal_all(Signal::SIGKILL);
                continue;
            }
            self.signal_all(signal);
            if stops {
                self.interrupted = true;
                self.status.get_or_insert(128 + signal as i32 as u8);
                self.kill_at.get_or_insert(Instant::now() + GRACE);
            }
        }
    }

    /// Ends the job because a rank asked for it.
    fn aborted(&mut self, abort: &Abort) {
        if self.status.is_some() {
            return;
        }
        let pid = self.ranks.iter().find(|rank| rank.rank == abort.rank).map_or(0, Rank::pid);
        let message = abort.message.as_deref().map(|text| format!(": {text}")).unwrap_or_default();
        complain(&format!("rank {} (pid {pid}) aborted the job with status {}{message}", abort.rank, abort.status));
        // A status that would look like success is none for an abort.
        self.end_job(match abort.status as u8 {
            0 => 1,
            status => status,
        });
    }

    /// Notices ranks that have ended.
    fn collect(&mut self) {
        let ended: Vec<(u32, u32, ExitStatus)> =
            self.ranks.iter_mut().filter_map(|rank| Some((rank.rank, rank.pid(), rank.poll_end()?))).collect();
        for (rank, pid, end) in ended {
            if rank == 0 {
                self.input = None;
            }
            // Nobody has failed yet: later ends follow from the first.
            if self.status.is_some() {
                continue;
            }
            let others = if self.ranks.iter().any(Rank::is_running) { "; the other ranks are terminated" } else { "" };
            if !end.success() {
                complain(&format!("rank {rank} (pid {pid}) {}{others}", describe(end)));
                self.end_job(shell_status(end));
            } else if self.host.is_connected(rank) {
                complain(&format!("rank {rank} (pid {pid}) ended without calling PMIx_Finalize{others}"));
                self.end_job(1);
            }
        }
    }

    fn end_job(&mut self, status: u8) {
        self.status.get_or_insert(status);
        self.signal_all(Signal::SIGTERM);
        self.kill_at.get_or_insert(Instant::now() + GRACE);
    }

    fn signal_all(&self, signal: Signal) {
        for rank in &self.ranks {
            rank.signal(signal);
        }
    }
}

impl Input {
    fn new(to: File) -> Option<Input> {
        let flags = fcntl(&to, FcntlArg::F_GETFL).map(OFlag::from_bits_retain).ok()?;
        fcntl(&to, FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK)).ok()?;
        Some(Input { to, pending: Vec::new(), ended: false })
    }

    /// What to wait for: room for what is pending, or more to read.
    fn interest<'a>(&'a self, stdin: BorrowedFd<'a>) -> Option<PollFd<'a>> {
        if !self.pending.is_empty() {
            return Some(PollFd::new(self.to.as_fd(), PollFlags::POLLOUT));
        }
        // A job in the background that reads its terminal would be stopped.
        let background = isatty(stdin).unwrap_or(false) && tcgetpgrp(stdin).is_ok_and(|group| group != getpgrp());
        (!background).then(|| PollFd::new(stdin, PollFlags::POLLIN))
    }

    /// Reads or writes once; false when there is nothing more to do.
    fn advance(&mut self, stdin: &io::Stdin) -> bool {
        if self.pending.is_empty() {
            let mut bytes = vec![0; INPUT_LEN];
            match nix::unistd::read(stdin, &mut bytes) {
                Ok(0) => self.ended = true,
                Ok(len) => self.pending.extend_from_slice(&bytes[..len]),
                Err(nix::errno::Errno::EINTR | nix::errno::Errno::EAGAIN) => return true,
                Err(_) => self.ended = true,
            }
        }
        match self.to.write(&self.pending) {
            Ok(len) => {
                self.pending.drain(..len);
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            // Rank 0 reads no more.
            Err(_) => return false,
        }
        !(self.ended && self.pending.is_empty())
    }
}
