//! When a call has returned.
//!
//! The interface promises that no callback comes before the call that asked for it has returned: hosts set up what the callback
//! needs behind the call, or hold a lock across it. The thread that runs callbacks may be faster than the one that returns, so a
//! call says when it is over, with one store as its last act, and whoever runs its callback looks for that.

use std::cell::Cell;
use std::hint;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use pmix_dstore::cancel::Uncancelled;

thread_local! {
    /// How many calls into the library this thread is in: one may make others.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
    /// Whether somebody looks for the end of the outermost one.
    static IS_AWAITED: Cell<bool> = const { Cell::new(false) };
    /// How many awaited calls of this thread are over.
    static OVER: Arc<AtomicU64> = Arc::default();
}

/// A call of this thread into the library. It is over when the outermost one that this thread is in is dropped.
pub struct Call(PhantomData<*const ()>);

impl Call {
    /// The call begins.
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
            // A thread that is ending may have no values of its own any more; then nobody got this one.
            // Release: who sees the call over sees what its caller's thread did before (RETURNED).
            let _ = OVER.try_with(|over| over.store(over.load(Ordering::Relaxed) + 1, Ordering::Release));
        }
    }
}

/// This thread is in a call that may wait, enter the kernel or ask for a callback: it is not cancelled there, and callbacks that it
/// asks for come after it. The end of that is the last act of a call.
pub struct Inside {
    _uncancelled: Uncancelled,
    // Last, since callbacks may come from then on.
    _call: Call,
}

impl Inside {
    /// The call begins.
    #[must_use = "the call is over when this is dropped"]
    pub fn enter() -> Inside {
        let call = Call::begin();
        Inside { _uncancelled: Uncancelled::begin(), _call: call }
    }
}

/// Tells whether a call is over.
pub struct Returned {
    over: Arc<AtomicU64>,
    number: u64,
}

impl Returned {
    /// Of the call that this thread is in; `None` outside of any.
    pub fn of_this_call() -> Option<Returned> {
        if DEPTH.get() == 0 {
            return None;
        }
        let returned = OVER.try_with(|over| Returned { over: over.clone(), number: over.load(Ordering::Relaxed) + 1 });
        IS_AWAITED.set(returned.is_ok());
        returned.ok()
    }

    /// Whether the call is over, or this is its own thread, which would look in vain.
    pub fn is_over(&self) -> bool {
        let is_own = || OVER.try_with(|own| Arc::ptr_eq(own, &self.over)).unwrap_or(false);
        // Acquire: see RETURNED.
        self.over.load(Ordering::Acquire) >= self.number || is_own()
    }

    /// The same after a moment in which a call that is about to return has done so.
    pub fn is_over_soon(&self) -> bool {
        for _ in 0..100 {
            if self.is_over() {
                return true;
            }
            hint::spin_loop();
        }
        for _ in 0..2 {
            // Its thread may wait for this processor.
            thread::yield_now();
            if self.is_over() {
                return true;
            }
        }
        false
    }

    /// Waits until the call is over. Its thread wakes nobody: what it did so would be its last act but one.
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
