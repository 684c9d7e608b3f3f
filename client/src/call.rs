//! Detects when a call into the library has returned.
//!
//! The PMIx interface promises that no callback runs before the call that requested it has returned: hosts set up the
//! callback's data after the call, or hold a lock across it. The callback thread can be faster than the returning
//! thread. So the last action of a call is one store that marks it as over, and the callback thread waits for that
//! mark.

use std::cell::Cell;
use std::hint;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use pmix_dstore::cancel::Uncancelled;

thread_local! {
    /// Nesting depth of this thread's calls into the library: a call may make others.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
    /// Whether a [`Returned`] waits for the end of the outermost call.
    static IS_AWAITED: Cell<bool> = const { Cell::new(false) };
    /// Number of this thread's awaited calls that are over.
    static OVER: Arc<AtomicU64> = Arc::default();
}

/// A call of this thread into the library. The call is over when this thread's outermost `Call` is dropped.
pub struct Call(PhantomData<*const ()>);

impl Call {
    /// Begins a call.
    #[must_use = "the call is over when this is dropped"]
    pub fn begin() -> Call {
        DEPTH.set(DEPTH.get() + 1);
        Call(PhantomData)
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        DEPTH.set(DEPTH.get() - 1);
        if DEPTH.get() == 0 && IS_AWAITED.take() {
            // In a thread that ends, the thread-local value may be destroyed already; then `of_this_call` returned
            // `None`. Release: a thread that sees this call as over also sees all earlier writes of the calling thread
            // (RETURNED).
            let _ = OVER.try_with(|over| over.store(over.load(Ordering::Relaxed) + 1, Ordering::Release));
        }
    }
}

/// A call that may wait, enter the kernel or request a callback. The thread cannot be cancelled (`pthread_cancel`)
/// while this lives, and callbacks that the call requests run after it. Dropping this must be the last action of the
/// call.
pub struct Inside {
    _uncancelled: Uncancelled,
    // Dropped last: callbacks may run from then on.
    _call: Call,
}

impl Inside {
    /// Begins a call.
    #[must_use = "the call is over when this is dropped"]
    pub fn enter() -> Inside {
        let call = Call::begin();
        Inside { _uncancelled: Uncancelled::begin(), _call: call }
    }
}

/// Detects whether a call is over.
pub struct Returned {
    over: Arc<AtomicU64>,
    number: u64,
}

impl Returned {
    /// For the call that this thread is in; `None` outside of any call.
    pub fn of_this_call() -> Option<Returned> {
        if DEPTH.get() == 0 {
            return None;
        }
        let returned = OVER.try_with(|over| Returned { over: over.clone(), number: over.load(Ordering::Relaxed) + 1 });
        IS_AWAITED.set(returned.is_ok());
        returned.ok()
    }

    /// Whether the call is over. Also true on the call's own thread, which would wait for itself forever.
    pub fn is_over(&self) -> bool {
        let is_own = || OVER.try_with(|own| Arc::ptr_eq(own, &self.over)).unwrap_or(false);
        // Acquire: see RETURNED.
        self.over.load(Ordering::Acquire) >= self.number || is_own()
    }

    /// As [`Returned::is_over`], after a short spin that gives a call that is about to return the time to do so.
    pub fn is_over_soon(&self) -> bool {
        for _ in 0..100 {
            if self.is_over() {
                return true;
            }
            hint::spin_loop();
        }
        for _ in 0..2 {
            // The calling thread may need this processor.
            thread::yield_now();
            if self.is_over() {
                return true;
            }
        }
        false
    }

    /// Waits until the call is over. This polls, because the calling thread cannot notify: the store that marks the
    /// call as over must be its last action.
    pub fn wait(&self) {
        if !self.is_over_soon() {
            while !self.is_over() {
                thread::sleep(Duration::from_micros(20));
            }
        }
    }
}

#[cfg(test)]
mod tests {

    use crossbeam::channel::unbounded;

    use super::*;

    #[test]
    fn a_call_is_over_when_the_outermost_is() {
        assert!(Returned::of_this_call().is_none());
        let (sender, receiver) = unbounded();
        let (ask, asked) = unbounded::<()>();
        let caller = thread::spawn(move || {
            let outer = Call::begin();
            let inner = Call::begin();
            let returned = Returned::of_this_call().unwrap();
            assert!(returned.is_over(), "its own thread would wait in vain");
            drop(inner);
            sender.send((returned, Returned::of_this_call().unwrap())).unwrap();
            asked.recv().unwrap();
            drop(outer);
            // The next call is another one.
            let _next = Call::begin();
            sender.send((Returned::of_this_call().unwrap(), Returned::of_this_call().unwrap())).unwrap();
            asked.recv().unwrap();
        });
        let (first, again) = receiver.recv().unwrap();
        assert!(!first.is_over_soon() && !again.is_over());
        ask.send(()).unwrap();
        first.wait();
        again.wait();
        let (next, _) = receiver.recv().unwrap();
        assert!(first.is_over() && !next.is_over());
        ask.send(()).unwrap();
        next.wait();
        caller.join().unwrap();
    }
}
