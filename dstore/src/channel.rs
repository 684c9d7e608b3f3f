//! Channels between threads. Those of crates ask for the standard library's handle of the thread that waits, whose allocation ends the
//! process where it fails (`thread_number`).

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use parking_lot::{Condvar, Mutex};

/// The end that sends. Clones send to the same receiver.
pub struct Sender<T>(Arc<Shared<T>>);

/// The end that receives.
pub struct Receiver<T>(Arc<Shared<T>>);

/// Why nothing was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missed {
    /// Nothing has come yet.
    Nothing,
    /// All senders are gone, and what they had sent is received.
    Closed,
}

struct Shared<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
    senders: AtomicUsize,
}

struct State<T> {
    sent: VecDeque<T>,
    /// No more will come, or nobody will receive it.
    is_closed: bool,
}

/// A channel that holds any number of values.
#[must_use]
pub fn channel<T>() -> (Sender<T>, Receiver<T>) {
    let state = Mutex::new(State { sent: VecDeque::new(), is_closed: false });
    let shared = Arc::new(Shared { state, changed: Condvar::new(), senders: AtomicUsize::new(1) });
    (Sender(shared.clone()), Receiver(shared))
}

impl<T> Sender<T> {
    /// Sends a value.
    ///
    /// # Errors
    /// The value, if the receiver is gone.
    pub fn send(&self, value: T) -> Result<(), T> {
        let mut state = self.0.state.lock();
        if state.is_closed {
            return Err(value);
        }
        state.sent.push_back(value);
        drop(state);
        self.0.changed.notify_one();
        Ok(())
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Sender<T> {
        self.0.senders.fetch_add(1, Ordering::Relaxed);
        Sender(self.0.clone())
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        if self.0.senders.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.state.lock().is_closed = true;
            self.0.changed.notify_all();
        }
    }
}

impl<T> Receiver<T> {
    /// Receives what has come.
    ///
    /// # Errors
    /// [`Missed`].
    pub fn try_receive(&self) -> Result<T, Missed> {
        take(&mut self.0.state.lock())
    }

    /// Receives the next value, and waits for it until a deadline, or without end.
    ///
    /// # Errors
    /// [`Missed`].
    pub fn receive(&self, deadline: Option<Instant>) -> Result<T, Missed> {
        let mut state = self.0.state.lock();
        loop {
            match (take(&mut state), deadline) {
                (Err(Missed::Nothing), None) => self.0.changed.wait(&mut state),
                (Err(Missed::Nothing), Some(deadline)) => {
                    if self.0.changed.wait_until(&mut state, deadline).timed_out() {
                        return take(&mut state);
                    }
                }
                (taken, _) => return taken,
            }
        }
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        let left = {
            let mut state = self.0.state.lock();
            state.is_closed = true;
            std::mem::take(&mut state.sent)
        };
        // Its end may send, or take another lock.
        drop(left);
    }
}

fn take<T>(state: &mut State<T>) -> Result<T, Missed> {
    let nothing = if state.is_closed { Missed::Closed } else { Missed::Nothing };
    state.sent.pop_front().ok_or(nothing)
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::Duration;

    use super::*;

    #[test]
    fn values_come_in_their_order_and_the_end_after_them() {
        let (sender, receiver) = channel();
        assert_eq!(receiver.try_receive(), Err(Missed::Nothing));
        let other = sender.clone();
        sender.send(1).unwrap();
        other.send(2).unwrap();
        drop(sender);
        assert_eq!((receiver.try_receive(), receiver.receive(None)), (Ok(1), Ok(2)));
        assert_eq!(receiver.try_receive(), Err(Missed::Nothing));
        drop(other);
        assert_eq!((receiver.try_receive(), receiver.receive(None)), (Err(Missed::Closed), Err(Missed::Closed)));
    }

    #[test]
    fn a_thread_waits_for_a_value_the_end_or_its_deadline() {
        let (sender, receiver) = channel();
        let soon = || Some(Instant::now() + Duration::from_millis(5));
        assert_eq!(receiver.receive(soon()), Err(Missed::Nothing));
        thread::scope(|scope| {
            let waiting = scope.spawn(|| (receiver.receive(None), receiver.receive(None)));
            thread::sleep(Duration::from_millis(5));
            sender.send("value").unwrap();
            thread::sleep(Duration::from_millis(5));
            drop(sender);
            assert_eq!(waiting.join().unwrap(), (Ok("value"), Err(Missed::Closed)));
        });
    }

    #[test]
    fn what_nobody_will_receive_comes_back() {
        let (sender, receiver) = channel();
        let kept = Arc::new(());
        sender.send(kept.clone()).unwrap();
        drop(receiver);
        assert_eq!(Arc::strong_count(&kept), 1);
        assert_eq!(sender.send(kept.clone()), Err(kept));
    }
}
