//! Input for other processes: data from the caller, or data that the library reads from this process's stdin.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::signal::SigSet;
use parking_lot::{Condvar, Mutex};
use pmix_dstore::fallible_alloc;
use pmix_dstore::model::{Info, Proc, Result, Status, keys};

use super::ops::done;
use super::{Client, ClientKind, Inner};
use crate::get_options::timeout_of;
use crate::operation::Operation;
use pmix_wire::{FlowControl, Request};

/// The most bytes that one request sends.
const PIECE: usize = 8192;

/// The first and the longest delay of input to a stock server that wants no more for now. See [`Collector::delay`].
const DELAYS: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(128));

/// The state of input forwarding in this process.
#[derive(Default)]
pub(crate) struct Inputs {
    /// The reader of this process's stdin, while it runs.
    collector: Mutex<Option<Arc<Collector>>>,
}

/// Reads this process's stdin for other processes.
struct Collector {
    /// Ends its poll, permanently.
    stop: EventFd,
    is_stopped: AtomicBool,
    flow: Mutex<Flow>,
    changed: Condvar,
}

#[derive(Default)]
struct Flow {
    /// A server has paused input.
    is_paused: bool,
    /// How often a server has resumed input. The resume may be processed before the answer that paused it.
    resumed: usize,
}

impl Client {
    /// Sends input to processes; empty data ends their input. If `data` is `None`, the directives decide:
    /// `PMIX_IOF_PUSH_STDIN` starts forwarding this process's stdin, `PMIX_IOF_COMPLETE` ends it.
    ///
    /// # Errors
    /// `UNREACH` without a server; `NOT_SUPPORTED` if the host does not take input; `OUT_OF_RESOURCE` if the reader of
    /// stdin cannot be started; `BAD_PARAM` with neither data nor such a directive.
    pub fn push_input(&self, targets: Vec<Proc>, data: Option<Vec<u8>>, directives: Vec<Info>) -> Operation<()> {
        let inner = &self.inner;
        if inner.kind() == ClientKind::Singleton {
            return Operation::ready(&inner.link, Err(Status::ERR_UNREACH));
        }
        if data.is_some() {
            let timeout = timeout_of(&directives);
            return inner.ask(Request::IoPush { targets, infos: directives, data }, timeout, done);
        }
        let is_true = |key: &str| Info::is_set(&directives, key);
        let is_given = |key: &str| directives.iter().any(|info| info.key.is(key));
        let result = if is_true(keys::IOF_COMPLETE) || is_given(keys::IOF_PUSH_STDIN) && !is_true(keys::IOF_PUSH_STDIN)
        {
            inner.inputs.stop();
            Ok(())
        } else if is_true(keys::IOF_PUSH_STDIN) {
            inner.collect(targets, directives)
        } else {
            Err(Status::ERR_BAD_PARAM)
        };
        Operation::ready(&inner.link, result)
    }

    /// Applies flow control to this process's own input.
    pub fn control_input(&self, control: &FlowControl) {
        self.inner.inputs.control(control);
    }
}

impl Inputs {
    /// Ends the reader of stdin.
    pub fn stop(&self) {
        if let Some(collector) = self.collector.lock().take() {
            collector.stop();
        }
    }

    /// Pauses or resumes the reader of stdin, as a server asks.
    pub fn control(&self, control: &FlowControl) {
        if control.channel & crate::output::STDIN != 0
            && let Some(collector) = &*self.collector.lock()
        {
            collector.control(control.is_off);
        }
    }
}

impl Collector {
    /// # Errors
    /// `OUT_OF_RESOURCE`.
    fn new() -> Result<Collector> {
        let stop = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)
            .map_err(|_| Status::ERR_OUT_OF_RESOURCE)?;
        Ok(Collector { stop, is_stopped: AtomicBool::new(false), flow: Mutex::default(), changed: Condvar::new() })
    }

    fn stop(&self) {
        self.is_stopped.store(true, Ordering::Release);
        // The counter cannot be full in practice.
        let _ = self.stop.write(1);
        self.control(false);
    }

    fn control(&self, is_off: bool) {
        let mut flow = self.flow.lock();
        flow.is_paused = is_off;
        flow.resumed += usize::from(!is_off);
        self.changed.notify_all();
    }

    fn wait_for_flow(&self) {
        let mut flow = self.flow.lock();
        while flow.is_paused && !self.is_stopped() {
            self.changed.wait(&mut flow);
        }
    }

    /// Waits before the next piece, unless stopped: each time twice as long, up to a limit.
    fn delay(&self, delay: &mut Duration) {
        let mut flow = self.flow.lock();
        let until = Instant::now() + *delay;
        while !self.is_stopped() && !self.changed.wait_until(&mut flow, until).timed_out() {}
        *delay = (*delay * 2).min(DELAYS.1);
    }

    fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::Acquire)
    }

    /// Reads the next piece of input; empty at its end, `None` after a stop.
    fn read(&self, input: BorrowedFd<'_>) -> Result<Option<Vec<u8>>> {
        let mut fds = [PollFd::new(input, PollFlags::POLLIN), PollFd::new(self.stop.as_fd(), PollFlags::POLLIN)];
        loop {
            self.wait_for_flow();
            if self.is_stopped() {
                return Ok(None);
            }
            match poll(&mut fds, PollTimeout::NONE) {
                Ok(_) | Err(Errno::EINTR) => {}
                Err(_) => return Err(Status::ERROR),
            }
            // A server may have paused input during the poll.
            if fds[0].any().unwrap_or(true) && !self.flow.lock().is_paused && !self.is_stopped() {
                let mut piece = vec![0; PIECE];
                match nix::unistd::read(input, &mut piece) {
                    Ok(len) => {
                        piece.truncate(len);
                        return Ok(Some(piece));
                    }
                    Err(Errno::EAGAIN | Errno::EINTR) => {}
                    // Treat a read error as the end of input.
                    Err(_) => return Ok(Some(Vec::new())),
                }
            }
        }
    }
}

impl Inner {
    /// Starts a thread that forwards this process's stdin to `targets`. Does nothing if stdin is being forwarded
    /// already.
    fn collect(self: &Arc<Inner>, targets: Vec<Proc>, directives: Vec<Info>) -> Result<()> {
        let mut current = self.inputs.collector.lock();
        if current.is_some() {
            return Ok(());
        }
        let collector = Arc::new(Collector::new()?);
        // The callback thread must run to receive flow control.
        self.link.defer(Box::new(|| {}));
        let (inner, own) = (Arc::clone(self), Arc::clone(&collector));
        let thread = fallible_alloc::spawn("pmix-stdin", move || {
            // The application's signals must be delivered to its own threads.
            let _ = SigSet::all().thread_set_mask();
            inner.push_all(&own, io::stdin().as_fd(), &targets, &directives);
        });
        thread.map_err(|_| Status::ERR_OUT_OF_RESOURCE)?;
        *current = Some(collector);
        Ok(())
    }

    /// Sends piece after piece, each after the server has accepted the one before.
    fn push_all(
        self: &Arc<Inner>,
        collector: &Arc<Collector>,
        input: BorrowedFd<'_>,
        targets: &[Proc],
        directives: &[Info],
    ) {
        let mut delay = DELAYS.0;
        while let Ok(Some(piece)) = collector.read(input) {
            let is_end = piece.is_empty();
            let resumed = collector.flow.lock().resumed;
            let request = Info::copies(directives).and_then(|infos| {
                self.encode(&Request::IoPush { targets: targets.to_vec(), infos, data: Some(piece) })
            });
            let taken = request.and_then(|request| self.link.request_wait(request.into(), None));
            match taken.and_then(|reply| done(self, self.decode(&reply)?)) {
                Ok(()) => delay = DELAYS.0,
                // The piece was accepted. Our server resumes input later.
                Err(Status::ERR_IOF_XOFF) if self.link.is_ours() => {
                    let mut flow = collector.flow.lock();
                    flow.is_paused = flow.resumed == resumed;
                }
                // A stock server resumes only clients that announce release 7 or later, as this library does not: a pause would last
                // for ever. Without a delay the host would have to hold all that comes.
                Err(Status::ERR_IOF_XOFF) if !is_end => collector.delay(&mut delay),
                Err(Status::ERR_IOF_XOFF) => {}
                // The server or the host refuses input.
                Err(_) => break,
            }
            if is_end {
                break;
            }
        }
        let mut current = self.inputs.collector.lock();
        if current.as_ref().is_some_and(|current| Arc::ptr_eq(current, collector)) {
            *current = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use pmix_wire::Version;

    use super::*;
    use crate::client::tests::stage_under;

    #[test]
    fn input_stopped_by_the_server_is_not_read_even_by_a_waiting_reader() {
        // Long enough to expose a race; correctness does not depend on it.
        let wait = || std::thread::sleep(Duration::from_millis(5));
        for _ in 0..20 {
            let (ours, mut theirs) = io::pipe().unwrap();
            let collector = Collector::new().unwrap();
            std::thread::scope(|scope| {
                let reading = scope.spawn(|| collector.read(ours.as_fd()));
                wait();
                collector.control(true);
                theirs.write_all(b"more").unwrap();
                wait();
                collector.stop();
                assert_eq!(reading.join().unwrap(), Ok(None));
            });
            // The data is still there for the next reader.
            let collector = Collector::new().unwrap();
            assert_eq!(collector.read(ours.as_fd()), Ok(Some(b"more".to_vec())));
        }
    }

    #[test]
    fn a_stock_server_does_not_pause_input() {
        for is_ours in [false, true] {
            let stage = stage_under(Version::OURS, is_ours);
            for status in [Status::ERR_IOF_XOFF, Status::SUCCESS, Status::SUCCESS] {
                stage.answers_status(status);
            }
            let (input, mut theirs) = io::pipe().unwrap();
            theirs.write_all(&[b'x'; 2 * PIECE]).unwrap();
            drop(theirs);
            let collector = Arc::new(Collector::new().unwrap());
            std::thread::scope(|scope| {
                let (pushed, end) = crossbeam::channel::bounded(1);
                let (inner, collector) = (&stage.client.inner, &collector);
                scope.spawn(move || {
                    inner.push_all(collector, input.as_fd(), &[], &[]);
                    pushed.send(()).unwrap();
                });
                while is_ours && !collector.flow.lock().is_paused {
                    assert!(end.is_empty(), "a server that is ours pauses input");
                    std::thread::yield_now();
                }
                if is_ours {
                    assert_eq!(stage.asked().len(), 1);
                    collector.control(false);
                }
                let has_ended = end.recv_timeout(Duration::from_secs(60)).is_ok();
                collector.stop();
                assert!(has_ended, "input is paused by a server that is ours: {is_ours}");
            });
            let last = [vec![b'x'; PIECE], Vec::new()];
            let asked = stage.asked().into_iter().rev().take(2).rev().map(|request| match request {
                Request::IoPush { data: Some(data), .. } => data,
                other => panic!("{other:?}"),
            });
            assert!(asked.eq(last));
        }
    }
}
