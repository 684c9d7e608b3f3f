//! Disables cancellation of threads for a while.
//!
//! `pthread_cancel` ends a thread by unwinding its stack from the current system call. Rust frames cannot be unwound this way:
//! the process would end. So code of this library that runs on a foreign thread and may reach such a call disables cancellation.
//! A request that arrives meanwhile stays pending, and acts at the next cancellation point of the thread's own code.

use std::ffi::c_int;
use std::marker::PhantomData;

/// `PTHREAD_CANCEL_DISABLE`.
const DISABLE: c_int = 1;

unsafe extern "C" {
    fn pthread_setcancelstate(state: c_int, former: *mut c_int) -> c_int;
}

/// Sets whether this thread can be cancelled, and returns the former state.
fn set(state: c_int) -> c_int {
    let mut former = 0;
    if cfg!(not(miri)) {
        // SAFETY: the state is one of the two defined ones, or one that this function returned; `former` is writable.
        unsafe { pthread_setcancelstate(state, &raw mut former) };
    }
    former
}

/// Cancellation of this thread is disabled until this is dropped.
pub struct Uncancelled {
    former: c_int,
    of_this_thread: PhantomData<*const ()>,
}

impl Uncancelled {
    /// Turns cancellation off.
    #[must_use = "cancellation is on again when this is dropped"]
    pub fn begin() -> Uncancelled {
        Uncancelled { former: set(DISABLE), of_this_thread: PhantomData }
    }
}

impl Drop for Uncancelled {
    fn drop(&mut self) {
        set(self.former);
    }
}
