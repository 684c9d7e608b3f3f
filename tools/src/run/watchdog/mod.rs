//! The watchdog: a process beside the launcher that starts the ranks, is their parent, and ends with them.
//!
//! Every process that a rank starts is a descendant of the watchdog, and stays one: the watchdog is a subreaper, so a process whose
//! parent ends becomes its child, regardless of session and process group. If the launcher is killed, its end of
//! the socket is closed; the watchdog then kills its descendants and removes the job's directory. If the watchdog is
//! killed, the launcher, also a subreaper, kills the descendants. The watchdog has a process group and a name of its
//! own, so that a signal to the launcher's group or name does not kill it.
//!
//! A persistent launcher has a watchdog for each job that is started from outside. The first one forks it ([`Watchdog::another`]), because
//! the launcher has threads by then. So a job ends with all its descendants, and what the watchdog knows of it goes with the process.
//!
//! This module is the launcher's side. `process` is the watchdog's side, `family` tracks processes for both, `message` defines
//! the messages between them.

mod family;
mod message;
mod process;

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitStatus;
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::prctl;
use nix::sys::signal::{Signal, kill};
use nix::sys::socket::{AddressFamily, Shutdown, SockFlag, SockType, shutdown, socketpair};
use nix::sys::wait::waitpid;
use nix::unistd::{ForkResult, Pid, fork, setpgid};

use self::family::Family;
use self::message::{Reply, Request, receive_reply, send_request};
use super::ranks::Program;

/// News of the processes of the job.
#[derive(Debug)]
pub(super) enum News {
    /// The rank with this process has ended.
    Ended(Pid, ExitStatus),
    /// The rank with this process has stopped on exec.
    Halted(Pid),
    /// A process of another user, which we may not signal, is still running.
    Unreachable(Pid),
    /// The answer to [`Watchdog::signal_these`]; the error is that of a rank that could not be signalled.
    Signalled(Result<(), Errno>),
    /// All processes of the job have ended.
    Over,
    /// The watchdog has ended unexpectedly.
    Lost,
}

/// The launcher's connection to its watchdog.
pub(super) struct Watchdog {
    pid: Pid,
    socket: OwnedFd,
    /// What has arrived while the launcher waited for something else.
    early: RefCell<VecDeque<Reply>>,
}

impl Watchdog {
    /// Starts the watchdog, which knows these programs. Call this before the process starts a thread, opens files or blocks signals.
    pub fn begin(programs: &[Program]) -> Result<Watchdog, String> {
        let words = |error: Errno| format!("cannot start the watchdog process, which starts the ranks: {error}");
        // If the watchdog is killed, its descendants become this process's children.
        prctl::set_child_subreaper(true).map_err(words)?;
        let (socket, other) =
            socketpair(AddressFamily::Unix, SockType::SeqPacket, None, SockFlag::SOCK_CLOEXEC).map_err(words)?;
        // SAFETY: this process has one thread, so the child is not restricted to async-signal-safe functions.
        match unsafe { fork() }.map_err(words)? {
            ForkResult::Child => {
                drop(socket);
                process::run(other, programs)
            }
            ForkResult::Parent { child } => {
                // Parent and child both set the group, so that it is set before either continues. Ignore an error: the
                // child may have ended already.
                let _ = setpgid(child, child);
                Ok(Watchdog { pid: child, socket, early: RefCell::default() })
            }
        }
    }

    /// Has this watchdog fork another one, for processes that end by themselves. If that one is killed, this one kills its descendants.
    ///
    /// # Errors
    /// A message for the one who wants it.
    pub fn another(&self) -> Result<Watchdog, String> {
        let words = |error: Errno| format!("cannot start a watchdog process, which starts the ranks: {error}");
        let (socket, other) =
            socketpair(AddressFamily::Unix, SockType::SeqPacket, None, SockFlag::SOCK_CLOEXEC).map_err(words)?;
        self.send(&Request::Another, &[other.as_fd()])?;
        Ok(Watchdog { pid: self.started()?, socket, early: RefCell::default() })
    }

    /// The watchdog's process ID. Ranks are its children and inherit its attributes.
    pub fn pid(&self) -> Pid {
        self.pid
    }

    /// Asks the watchdog to remove a directory when the launcher dies. The directory need not exist yet.
    pub fn guard(&self, directory: &Path) -> Result<(), String> {
        self.send(&Request::Guard(directory.into()), &[])
    }

    /// Sets how much later than asked the ranks that start from now on may wake from a sleep. A longer slack that this process has counts.
    ///
    /// # Errors
    /// If the request cannot be sent.
    pub fn set_timer_slack(&self, slack: Duration) -> Result<(), String> {
        self.send(&Request::TimerSlack(slack), &[])
    }

    /// Tells the watchdog of a further program. Ranks are started by its number; those of [`Watchdog::begin`] have the first ones,
    /// from 0 on.
    ///
    /// # Errors
    /// If it cannot be sent: a command line with its variables may be too long.
    pub fn load(&self, program: Program) -> Result<(), String> {
        let request = Request::Load(program);
        match request.excess() {
            Some((len, most)) => {
                Err(format!("the command line with its variables has {len} bytes, and {most} are the most"))
            }
            None => self.send(&request, &[]),
        }
    }

    /// Lets the watchdog forget a program, whose ranks have ended.
    pub fn unload(&self, program: u32) {
        // Ignore the error: if the watchdog is gone, `News::Lost` reports it.
        let _ = self.send(&Request::Unload(program), &[]);
    }

    /// Requests the start of a rank of a program with these variables and descriptors: standard output, standard error, its connection for
    /// PMI-1 and its standard input, if it has them. A rank with an input has a connection for PMI-1. Call [`Watchdog::started`] once for
    /// each request, and often enough that neither side's socket buffer fills.
    ///
    /// # Errors
    /// If the request cannot be sent.
    pub fn start(&self, program: u32, env: Vec<(String, String)>, streams: &[BorrowedFd<'_>]) -> Result<(), String> {
        self.send(&Request::Start(program, streams.len() as u32, env), streams)
    }

    /// Waits for the next requested rank to start; returns its process.
    ///
    /// # Errors
    /// A message with the reason why the program cannot be started.
    pub fn started(&self) -> Result<Pid, String> {
        match self.next(|reply| !matches!(reply, Reply::News(_))) {
            Some(Reply::Started(pid)) => Ok(pid),
            Some(Reply::Refused(why)) => Err(why),
            _ => Err(self.is_lost()),
        }
    }

    /// Sends a signal to the ranks that run.
    pub fn signal_ranks(&self, signal: Signal) {
        // Ignore the error: if the watchdog is gone, `News::Lost` reports it.
        let _ = self.send(&Request::SignalRanks(signal), &[]);
    }

    /// Sends a signal to the ranks with these processes. [`News::Signalled`] answers.
    ///
    /// # Errors
    /// If the request cannot be sent.
    pub fn signal_these(&self, signal: Signal, pids: Vec<Pid>) -> Result<(), String> {
        self.send(&Request::SignalThese(signal, pids), &[])
    }

    /// Sends a signal to the ranks and their orphans; after SIGKILL, orphans that appear later are killed, too.
    pub fn signal_all(&self, signal: Signal) {
        let _ = self.send(&Request::SignalAll(signal), &[]);
    }

    /// Ends all processes of the job, by SIGTERM and after `grace` by SIGKILL. [`News::Over`] reports the end.
    pub fn finish(&self, grace: Duration) {
        let _ = self.send(&Request::Finish(grace), &[]);
    }

    /// A descriptor that is readable while there may be news.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Whether there is queued news, for which the descriptor does not become readable.
    pub fn has_early_news(&self) -> bool {
        self.early.borrow().iter().any(|reply| matches!(reply, Reply::News(_)))
    }

    /// Waits for the next piece of news.
    pub fn news(&self) -> News {
        match self.next(|reply| matches!(reply, Reply::News(_))) {
            Some(Reply::News(news)) => news,
            _ => News::Lost,
        }
    }

    /// Waits for the next reply of a kind; keeps others. `None` if the watchdog is gone.
    fn next(&self, is_wanted: impl Fn(&Reply) -> bool) -> Option<Reply> {
        let mut early = self.early.borrow_mut();
        if let Some(at) = early.iter().position(&is_wanted) {
            return early.remove(at);
        }
        loop {
            match self.receive()? {
                reply if is_wanted(&reply) => return Some(reply),
                other => early.push_back(other),
            }
        }
    }

    /// Kills the orphans of a lost watchdog, and waits until they have ended.
    pub fn end_the_rest(&self) {
        Family::default().end();
    }

    fn receive(&self) -> Option<Reply> {
        receive_reply(self.socket.as_fd()).ok().flatten()
    }

    /// Sends a request. Where the watchdog's socket has no room, it may itself wait for room in ours: so its replies are read meanwhile.
    fn send(&self, request: &Request, streams: &[BorrowedFd<'_>]) -> Result<(), String> {
        loop {
            match send_request(self.socket.as_fd(), request, streams) {
                Err(Errno::EAGAIN) => self.await_room(),
                sent => {
                    return sent.map_err(|error| match error {
                        Errno::EPIPE | Errno::ECONNRESET => self.is_lost(),
                        error => {
                            format!("cannot send a request to process {}, which starts the ranks: {error}", self.pid)
                        }
                    });
                }
            }
        }
    }

    /// Waits until there is room in the watchdog's socket, or it has sent something, which is kept.
    fn await_room(&self) {
        let mut polled = [PollFd::new(self.socket.as_fd(), PollFlags::POLLIN | PollFlags::POLLOUT)];
        // An error shows at the next attempt.
        let _ = poll(&mut polled, PollTimeout::NONE);
        if polled[0].revents().is_some_and(|events| events.contains(PollFlags::POLLIN)) {
            let reply = self.receive();
            self.early.borrow_mut().extend(reply);
        }
    }

    fn is_lost(&self) -> String {
        format!("process {}, which starts and ends the ranks, is gone", self.pid)
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        // The watchdog ends when it reads the end of the socket. It need not wait: all processes of the job have ended. One that was forked by
        // another is not this process's child.
        if shutdown(self.socket.as_raw_fd(), Shutdown::Both).is_err() {
            // Denied, as in some containers. Closing ends it as well, and without a descriptor to put in its place a signal does.
            match File::open("/dev/null") {
                Ok(nothing) => self.socket = nothing.into(),
                Err(_) => drop(kill(self.pid, Signal::SIGKILL)),
            }
        }
        while waitpid(self.pid, None) == Err(Errno::EINTR) {}
    }
}

/// The exit status in the form of `waitpid`.
fn ending(status: i32) -> ExitStatus {
    ExitStatus::from_raw(status)
}

#[cfg(test)]
mod tests {
    use super::message::{receive_request, send_reply};
    use super::*;

    /// Each end has more to send than the other's socket has room for. If both waited, they would wait for ever.
    #[test]
    fn launcher_and_watchdog_do_not_wait_for_each_other() {
        const MANY: i32 = 3000;
        let (socket, other) =
            socketpair(AddressFamily::Unix, SockType::SeqPacket, None, SockFlag::SOCK_CLOEXEC).expect("sockets");
        let side = std::thread::spawn(move || {
            for pid in 1..=MANY {
                let ended = Reply::News(News::Ended(Pid::from_raw(pid), ending(0)));
                send_reply(other.as_fd(), &ended).expect("the launcher reads");
            }
            send_reply(other.as_fd(), &Reply::Started(Pid::from_raw(7))).expect("the launcher reads");
            let mut requests = 0;
            while let Ok(Some(_)) = receive_request(other.as_fd()) {
                requests += 1;
            }
            requests
        });
        // No process: its number is that of a child that does not exist.
        let watchdog =
            std::mem::ManuallyDrop::new(Watchdog { pid: Pid::from_raw(0), socket, early: RefCell::default() });
        for _ in 0..MANY {
            watchdog.load(Program { path: "x".repeat(2000).into(), ..Program::default() }).expect("it is sent");
        }
        assert_eq!(watchdog.started(), Ok(Pid::from_raw(7)));
        for pid in 1..=MANY {
            assert!(matches!(watchdog.news(), News::Ended(of, _) if of == Pid::from_raw(pid)), "in their order");
        }
        shutdown(watchdog.socket.as_raw_fd(), Shutdown::Both).expect("the end");
        assert_eq!(side.join().expect("the other end"), MANY);
    }

    #[test]
    fn a_command_line_that_is_too_long_is_refused_with_its_length() {
        let (socket, _other) =
            socketpair(AddressFamily::Unix, SockType::SeqPacket, None, SockFlag::SOCK_CLOEXEC).expect("sockets");
        let watchdog =
            std::mem::ManuallyDrop::new(Watchdog { pid: Pid::from_raw(0), socket, early: RefCell::default() });
        let long = Program { args: vec!["x".repeat(200_000).into()], ..Program::default() };
        let why = watchdog.load(long).expect_err("it is too long");
        assert!(why.ends_with("and 200000 are the most"), "{why}");
    }
}
