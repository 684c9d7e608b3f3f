//! What a thread does before and after a `fork()` of the program: it holds the locks that the child may take.

use std::cell::Cell;
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicBool, Ordering};

use super::{CURRENT, SERVERS, STATE};
use crate::forked::Fork;
use crate::pin;

thread_local! {
    /// The locks of a thread that forks. It does not end meanwhile; a destructor would only keep this library from being unloaded.
    static FORK: Cell<Option<ManuallyDrop<Fork<'static>>>> = const { Cell::new(None) };
}

/// Makes the program's forks run the functions below, from now on. The C library forgets them when this library is unloaded. Where it has no
/// memory for them, a child gets `ERR_UNREACH` for locks that it finds taken.
pub(super) fn watch() {
    static IS_WATCHED: AtomicBool = AtomicBool::new(false);
    if !IS_WATCHED.swap(true, Ordering::Relaxed) {
        // SAFETY: three functions of this library, which neither unwind nor run after it was unloaded.
        let refused = unsafe { libc::pthread_atfork(Some(before), Some(after), Some(after)) } != 0;
        IS_WATCHED.store(!refused, Ordering::Relaxed);
    }
}

extern "C" fn before() {
    let mut fork = Fork::new();
    fork.hold(&STATE, |_| ());
    fork.hold(&SERVERS, |_| ());
    if let Some(client) = CURRENT.hold_for_fork(&mut fork) {
        // SAFETY: a client is removed only by who has the cell's lock. `fork` holds it, and releases it after the client's locks.
        unsafe { &*client }.inner.hold_for_fork(&mut fork);
    }
    pin::hold_for_fork(&mut fork);
    FORK.set(Some(ManuallyDrop::new(fork)));
}

/// In the parent and in the child.
extern "C" fn after() {
    drop(FORK.take().map(ManuallyDrop::into_inner));
}
