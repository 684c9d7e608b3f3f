//! Threads that cannot be cancelled for a while.
//!
//! `pthread_cancel` ends a thread by unwinding its stack from the system call that it is in. Frames of Rust cannot be unwound so:
//! the process would end. Whatever runs on a thread of somebody else and may reach such a call has cancellation off. A request that
//! comes meanwhile is kept, and acts where the thread's own code next lets it.

use std::ffi::c_int;
use std::marker::PhantomData;

/// `PTHREAD_CANCEL_DISABLE`.
const DISABLE: c_int = 1;

unsafe extern "C" {
    fn pthread_setcancelstate(state: c_int, former: *mut c_int) -> c_int;
}

/// Sets whether this thread can be cancelled, and gives what was set before.
fn set(state: c_int) -> c_int {
    let mut former = 0;
    if cfg!(not(miri)) {
        // SAFETY: the state is one of the two that there are, or what this function gave; the place is writable.
        unsafe { pthread_setcancelstate(state, &raw mut former) };
    }
    former
}

/// This thread cannot be cancelled until this is dropped.
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
