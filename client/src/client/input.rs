//! Input for other processes: what the caller has, or what the library collects from this process's own.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::signal::SigSet;
use parking_lot::{Condvar, Mutex};
use pmix_dstore::model::{Info, Proc, Result, Status, keys};

use super::ops::done;
use super::{Client, ClientKind, Inner};
use crate::operation::Operation;
use pmix_wire::{FlowControl, Request};

/// So much is sent at a time.
const PIECE: usize = 8192;

/// What a process does with input.
#[derive(Default)]
pub(crate) struct Inputs {
    /// What collects this process's input, once that was asked for.
    collector: Mutex<Option<Arc<Collector>>>,
}

/// Collects this process's input for others.
struct Collector {
    /// Wakes it out of its poll for good.
    stop: EventFd,
    is_stopped: AtomicBool,
    flow: Mutex<Flow>,
    changed: Condvar,
}

#[derive(Default)]
struct Flow {
    /// A server wants no more for the time being.
    is_paused: bool,
    /// How often it said that it does again. That may be heard before the answer that it came after.
    resumed: usize,
}

impl Client {
    /// Sends input to processes; none at all is the end of their input. Without data the directives count: to collect this
    /// process's own input (`PMIX_IOF_PUSH_STDIN`), and to end that (`PMIX_IOF_COMPLETE`).
    ///
    /// # Errors
    /// `UNREACH`; `NOT_SUPPORTED` where the host does not take it; `OUT_OF_RESOURCE` where nothing can be collected.
    pub fn push_input(&self, targets: Vec<Proc>, data: Option<Vec<u8>>, directives: Vec<Info>) -> Operation<()> {
        let inner = &self.inner;
        if inner.kind == ClientKind::Singleton {
            return Operation::ready(&inner.link, Err(Status::ERR_UNREACH));
        }
        if data.is_some() {
            return inner.ask(Request::IoPush { targets, infos: directives, data }, None, done);
        }
        let is_true = |key: &str| Info::is_set(&directives, key);
        let is_said = |key: &str| directives.iter().any(|info| info.key.is(key));
        let result = if is_true(keys::IOF_COMPLETE) || is_said(keys::IOF_PUSH_STDIN) && !is_true(keys::IOF_PUSH_STDIN) {
            inner.inputs.stop();
            Ok(())
        } else if is_true(keys::IOF_PUSH_STDIN) {
            inner.collect(targets, directives)
        } else {
            Err(Status::ERR_BAD_PARAM)
        };
        Operation::ready(&inner.link, result)
    }

    /// Takes flow control of this server's process for its own input.
    pub fn control_input(&self, control: &FlowControl) {
        self.inner.inputs.control(control);
    }
}

impl Inputs {
    /// Ends collecting.
    pub fn stop(&self) {
        if let Some(collector) = self.collector.lock().take() {
            collector.stop();
        }
    }

    /// A server has enough for the time being, or can take more.
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

    fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::Acquire)
    }

    /// The next piece of input; empty at its end.
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
            // Meanwhile a server may have said that it wants no more.
            if fds[0].any().unwrap_or(true) && !self.flow.lock().is_paused && !self.is_stopped() {
                let mut piece = vec![0; PIECE];
                match nix::unistd::read(input, &mut piece) {
                    Ok(len) => {
                        piece.truncate(len);
                        return Ok(Some(piece));
                    }
                    Err(Errno::EAGAIN | Errno::EINTR) => {}
                    // What cannot be read has ended.
                    Err(_) => return Ok(Some(Vec::new())),
                }
            }
        }
    }
}

impl Inner {
    /// Collects this process's input for `targets`, on a thread of its own. Where it is being collected it goes on as it does.
    fn collect(self: &Arc<Inner>, targets: Vec<Proc>, directives: Vec<Info>) -> Result<()> {
        let mut current = self.inputs.collector.lock();
        if current.is_some() {
            return Ok(());
        }
        let collector = Arc::new(Collector::new()?);
        // Somebody must hear when a server wants no more.
        self.link.defer(Box::new(|| {}));
        let (inner, own) = (Arc::clone(self), Arc::clone(&collector));
        let thread = std::thread::Builder::new().name("pmix-stdin".into()).spawn(move || {
            // The application's signals are for its own threads.
            let _ = SigSet::all().thread_set_mask();
            inner.push_all(&own, &targets, &directives);
        });
        thread.map_err(|_| Status::ERR_OUT_OF_RESOURCE)?;
        *current = Some(collector);
        Ok(())
    }

    /// Sends piece after piece, each when the one before is taken.
    fn push_all(self: &Arc<Inner>, collector: &Arc<Collector>, targets: &[Proc], directives: &[Info]) {
        while let Ok(Some(piece)) = collector.read(io::stdin().as_fd()) {
            let is_end = piece.is_empty();
            let resumed = collector.flow.lock().resumed;
            let request = Info::copies(directives).and_then(|infos| {
                self.encode(&Request::IoPush { targets: targets.to_vec(), infos, data: Some(piece) })
            });
            let taken = request.and_then(|request| self.link.request_wait(request.into(), None));
            match taken.and_then(|reply| done(self, self.decode(&reply)?)) {
                Ok(()) => {}
                // It was taken; no more until a server says so.
                Err(Status::ERR_IOF_XOFF) => {
                    let mut flow = collector.flow.lock();
                    flow.is_paused = flow.resumed == resumed;
                }
                // Nobody takes it.
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
    use std::time::Duration;

    use super::*;

    #[test]
    fn input_stopped_by_the_server_is_not_read_even_by_a_waiting_reader() {
        // So long that a fault would be seen; nothing else depends on it.
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
            // It is there when the server wants it.
            let collector = Collector::new().unwrap();
            assert_eq!(collector.read(ours.as_fd()), Ok(Some(b"more".to_vec())));
        }
    }
}
