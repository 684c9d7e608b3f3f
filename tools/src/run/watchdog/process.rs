//! The watchdog's own process.

use std::collections::{BTreeMap, VecDeque};
use std::fs::OpenOptions;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::prctl;
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::{ForkResult, Pid, dup2_stderr, dup2_stdin, dup2_stdout, fork, setpgid};
use pmix_server::leftovers::launchers;

use super::super::ranks::{Given, Program, Start, Starting};
use super::News;
use super::family::Family;
use super::message::{Reply, Request, receive_request, send_reply};

/// Serves the launcher until it ends.
pub(super) fn run(mut socket: OwnedFd, mut programs: &[Program]) -> ! {
    loop {
        let ended = match Process::begin(&socket, programs) {
            Ok(process) => process.serve(),
            // The launcher reads this as the reply to its first request for a rank.
            Err(why) => {
                let refused = Reply::Refused(format!("the watchdog process cannot start: {why}"));
                send_reply(socket.as_fd(), &refused).map(|()| None)
            }
        };
        match ended {
            // This is a new process, and all that the one before had is closed.
            Ok(Some(own)) => (socket, programs) = (own, &[]),
            ended => std::process::exit(i32::from(ended.is_err())),
        }
    }
}

/// What comes after a turn.
enum Next {
    /// Another turn.
    Turn,
    /// The end: the launcher has ended.
    End,
    /// This process is a new watchdog, with this socket.
    Own(OwnedFd),
}

struct Process<'a> {
    socket: &'a OwnedFd,
    /// How the ranks of each program are started, or why they cannot be. Those of jobs that have ended are gone.
    programs: BTreeMap<u32, Result<Start, String>>,
    /// How many programs there have been.
    loaded: u32,
    /// Ranks whose start is not answered yet, with their program, in the order of the requests.
    starting: VecDeque<Result<(Starting, u32), String>>,
    ended: SignalFd,
    family: Family,
    /// The job's directory.
    guarded: Option<PathBuf>,
    /// Whether new orphans are killed at once.
    is_killing: bool,
    /// Whether the launcher has asked to end all processes.
    is_finishing: bool,
    /// Whether the launcher was informed that all processes have ended.
    is_over: bool,
    /// The time at which processes that were sent SIGTERM are sent SIGKILL.
    kill_at: Option<Instant>,
}

impl Process<'_> {
    fn begin<'a>(socket: &'a OwnedFd, programs: &[Program]) -> Result<Process<'a>, String> {
        let programs: BTreeMap<u32, _> = (0..).zip(programs.iter().map(Start::new)).collect();
        let loaded = programs.len() as u32;
        let ended = Process::stand_alone().map_err(|error| error.to_string())?;
        Ok(Process {
            socket,
            programs,
            loaded,
            starting: VecDeque::new(),
            ended,
            family: Family::default(),
            guarded: None,
            is_killing: false,
            is_finishing: false,
            is_over: false,
            kill_at: None,
        })
    }

    /// Separates this process from the launcher. Returns the descriptor that tells of ended children.
    fn stand_alone() -> Result<SignalFd, Errno> {
        // Signals to the launcher's process group or name must not reach this process.
        setpgid(Pid::from_raw(0), Pid::from_raw(0))?;
        prctl::set_name(c"pmix-watchdog")?;
        prctl::set_child_subreaper(true)?;
        SigSet::all().thread_block()?;
        // This process must not keep the launcher's output open: the reader would wait for its end.
        let null = OpenOptions::new().read(true).write(true).open("/dev/null");
        let null = null.map_err(|error| error.raw_os_error().map_or(Errno::EIO, Errno::from_raw))?;
        dup2_stdin(&null)?;
        dup2_stdout(&null)?;
        dup2_stderr(&null)?;
        drop(null);
        let mut mask = SigSet::empty();
        mask.add(Signal::SIGCHLD);
        SignalFd::with_flags(&mask, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)
    }

    /// Serves until the launcher has ended. Returns the socket of a new watchdog in that one's process.
    fn serve(mut self) -> Result<Option<OwnedFd>, Errno> {
        loop {
            match self.turn() {
                Ok(Next::Turn) => {}
                Ok(Next::Own(socket)) => return Ok(Some(socket)),
                // An error means that the launcher has ended, as does the end of the socket.
                Ok(Next::End) | Err(_) => break,
            }
        }
        self.family.end();
        if let Some(directory) = &self.guarded {
            launchers::remove(directory);
        }
        Ok(None)
    }

    /// Handles one request or event.
    fn turn(&mut self) -> Result<Next, Errno> {
        let now = Instant::now();
        let wait = self.kill_at.map_or(PollTimeout::NONE, |at| {
            let wait = at.saturating_duration_since(now) + Duration::from_millis(1);
            PollTimeout::try_from(wait).unwrap_or(PollTimeout::MAX)
        });
        let next = self.starting.front().and_then(|start| start.as_ref().ok());
        let fds = [self.socket.as_fd(), self.ended.as_fd()].into_iter().chain(next.map(|(starting, _)| starting.fd()));
        let mut polled: Vec<_> = fds.map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect();
        match poll(&mut polled, wait) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(error),
        }
        let is_asked = polled[0].any().unwrap_or(false);
        while let Ok(Some(_)) = self.ended.read_signal() {}
        self.collect()?;
        self.answer_starts()?;
        if is_asked {
            match receive_request(self.socket.as_fd())? {
                Some((Request::Another, streams)) => {
                    if let Some(own) = self.fork_another(streams)? {
                        return Ok(Next::Own(own));
                    }
                }
                Some((request, streams)) => self.handle(request, streams)?,
                None => return Ok(Next::End),
            }
        }
        self.end_processes()?;
        Ok(Next::Turn)
    }

    /// Forks another watchdog. Returns its socket in the new process.
    fn fork_another(&mut self, streams: Vec<OwnedFd>) -> Result<Option<OwnedFd>, Errno> {
        let forked = match streams.into_iter().next() {
            None => Err(Errno::EMFILE),
            // SAFETY: this process has one thread, so the child is not restricted to async-signal-safe functions.
            Some(own) => match unsafe { fork() } {
                Ok(ForkResult::Child) => return Ok(Some(own)),
                Ok(ForkResult::Parent { child }) => Ok(child),
                Err(error) => Err(error),
            },
        };
        let reply = match forked {
            Ok(child) => {
                self.family.add_watchdog(child);
                Reply::Started(child)
            }
            Err(error) => Reply::Refused(format!("cannot start a watchdog process: {}", error.desc())),
        };
        send_reply(self.socket.as_fd(), &reply)?;
        Ok(None)
    }

    fn collect(&mut self) -> Result<(), Errno> {
        let ended = self.family.collect();
        self.family.end_orphans();
        let halted = self.family.take_halted();
        halted.into_iter().try_for_each(|rank| self.report(News::Halted(rank)))?;
        ended.into_iter().try_for_each(|(rank, status)| self.report(News::Ended(rank, status)))
    }

    fn handle(&mut self, request: Request, streams: Vec<OwnedFd>) -> Result<(), Errno> {
        match request {
            Request::Guard(directory) => self.guarded = Some(directory),
            Request::Load(program) => {
                self.programs.insert(self.loaded, Start::new(&program));
                self.loaded += 1;
            }
            Request::Unload(program) => drop(self.programs.remove(&program)),
            Request::Start(program, count, env) => {
                let starting = match streams.len() == count as usize {
                    true => self.start(program, &env, streams),
                    false => Err(format!("no descriptors for a rank: {}", Errno::EMFILE.desc())),
                };
                self.starting.push_back(starting);
                return self.answer_starts();
            }
            Request::TimerSlack(slack) => {
                // Children inherit it. This process sleeps only to kill what has not ended by itself.
                let slack = u64::try_from(slack.as_nanos()).unwrap_or(u64::MAX);
                if u64::from(prctl::get_timerslack()?.unsigned_abs()) < slack {
                    prctl::set_timerslack(slack)?;
                }
            }
            Request::SignalRanks(signal) => self.family.signal_ranks(signal),
            Request::SignalThese(signal, pids) => {
                let result = self.family.signal_these_ranks(&pids, signal);
                return self.report(News::Signalled(result));
            }
            Request::SignalAll(signal) => {
                self.is_killing |= signal == Signal::SIGKILL;
                self.family.signal(signal);
            }
            // `turn` handles it.
            Request::Another => {}
            Request::Finish(grace) => {
                self.is_finishing = true;
                self.kill_at = Instant::now().checked_add(grace);
            }
        }
        Ok(())
    }

    /// Starts a rank without waiting for its program: meanwhile the next one is started.
    fn start(
        &mut self,
        number: u32,
        env: &[(String, String)],
        streams: Vec<OwnedFd>,
    ) -> Result<(Starting, u32), String> {
        let program = self.programs.get(&number).ok_or("no such program")?.as_ref().map_err(Clone::clone)?;
        let mut streams = streams.into_iter();
        let (Some(stdout), Some(stderr), pmi, stdin) = (streams.next(), streams.next(), streams.next(), streams.next())
        else {
            return Err("a rank without output".into());
        };
        let starting = program.begin(env, &Given { stdin, stdout, stderr, pmi })?;
        self.family.add(starting.pid);
        Ok((starting, number))
    }

    /// Answers the requests for ranks whose programs run or cannot be started.
    fn answer_starts(&mut self) -> Result<(), Errno> {
        while let Some(next) = self.starting.front() {
            let reply = match next {
                Err(why) => Reply::Refused(why.clone()),
                Ok((starting, program)) => match (starting.outcome(), self.programs.get(program)) {
                    (None, _) => return Ok(()),
                    (Some(Err(error)), Some(Ok(program))) => Reply::Refused(program.words(error)),
                    (Some(_), _) => Reply::Started(starting.pid),
                },
            };
            self.starting.pop_front();
            send_reply(self.socket.as_fd(), &reply)?;
        }
        Ok(())
    }

    /// Signals processes that have appeared since the last round, and reports when none is left.
    fn end_processes(&mut self) -> Result<(), Errno> {
        if self.kill_at.is_some_and(|at| at <= Instant::now()) {
            self.kill_at = None;
            self.is_killing = true;
        }
        if self.is_killing {
            self.family.signal(Signal::SIGKILL);
        } else if self.is_finishing {
            self.family.terminate();
        }
        if !(self.is_finishing || self.is_killing) || self.is_over || self.family.has_some() {
            return Ok(());
        }
        (self.is_over, self.kill_at) = (true, None);
        let unreachable: Vec<Pid> = self.family.unreachable().collect();
        unreachable.into_iter().try_for_each(|pid| self.report(News::Unreachable(pid)))?;
        self.report(News::Over)
    }

    fn report(&self, news: News) -> Result<(), Errno> {
        send_reply(self.socket.as_fd(), &Reply::News(news))
    }
}
