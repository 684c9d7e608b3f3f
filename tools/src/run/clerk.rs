//! A thread for calls that may wait, such as those to files and to other services: neither the server's thread nor the launcher's may.

use std::time::Duration;

use crossbeam::channel::{Receiver, Sender, unbounded};
use nix::sys::signal::SigSet;
use parking_lot::Mutex;
use pmix_dstore::fallible_alloc;

/// What the thread is to do.
type Task = Box<dyn FnOnce() + Send>;

/// Runs tasks in turn, in a thread that starts with the first of them. How many wait is bounded by the requests that the server takes.
pub(super) struct Clerk {
    name: &'static str,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    is_closed: bool,
    running: Option<Running>,
}

struct Running {
    tasks: Sender<Task>,
    /// Hung up when the thread has ended.
    end: Receiver<()>,
}

impl Clerk {
    /// One whose thread has this name.
    pub fn new(name: &'static str) -> Clerk {
        Clerk { name, state: Mutex::default() }
    }

    /// Has a task done. Returns whether it will be: not after [`Clerk::close`], nor where there is no thread for it.
    pub fn ask(&self, task: impl FnOnce() + Send + 'static) -> bool {
        let mut state = self.state.lock();
        if state.is_closed {
            return false;
        }
        if state.running.is_none() {
            let ((tasks, to_do), (ends, end)) = (unbounded::<Task>(), unbounded::<()>());
            let work = move || {
                // libmunge may raise SIGPIPE, and the launcher reads the other signals from a descriptor.
                let _ = SigSet::all().thread_block();
                to_do.iter().for_each(|task| task());
                drop(ends);
            };
            if fallible_alloc::spawn(self.name, work).is_err() {
                return false;
            }
            state.running = Some(Running { tasks, end });
        }
        state.running.as_ref().is_some_and(|running| running.tasks.send(Box::new(task)).is_ok())
    }

    /// Takes no more tasks, and waits at most `wait` until all are done.
    pub fn close(&self, wait: Duration) {
        let mut state = self.state.lock();
        state.is_closed = true;
        let running = state.running.take();
        drop(state);
        if let Some(Running { tasks, end }) = running {
            drop(tasks);
            let _ = end.recv_timeout(wait);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::Instant;

    use super::*;

    #[test]
    fn tasks_are_done_in_turn_and_before_the_end() {
        let clerk = Clerk::new("test");
        let (sender, receiver) = unbounded();
        for number in 0..100 {
            let sender = sender.clone();
            assert!(clerk.ask(move || sender.send((number, thread::current().id())).unwrap()));
        }
        clerk.close(Duration::from_secs(600));
        let done: Vec<_> = receiver.try_iter().collect();
        assert!(done.iter().map(|(number, _)| *number).eq(0..100), "{done:?}");
        assert!(done.iter().all(|(_, id)| *id == done[0].1 && *id != thread::current().id()));
        assert!(!clerk.ask(|| {}), "it is closed");
    }

    #[test]
    fn a_task_that_hangs_does_not_hold_the_end() {
        let clerk = Clerk::new("test");
        let (release, released) = unbounded::<()>();
        assert!(clerk.ask(move || {
            let _ = released.recv();
        }));
        let begun = Instant::now();
        clerk.close(Duration::from_millis(1));
        assert!(begun.elapsed() < Duration::from_secs(600));
        drop(release);
    }
}
