//! Calls of a forked child.
//!
//! Slurm requests a rank's environment in the child that becomes the rank. The server's thread does not exist there, and a mutex
//! that another thread had locked at the fork would stay locked for ever. So the thread that forks holds the engine's lock during
//! the fork; in the child it still holds it, and [`setup_fork`] uses this guard there.

use std::cell::{Cell, RefCell};
use std::ffi::OsString;
use std::mem::ManuallyDrop;

use pmix_dstore::model::Proc;

use crate::engine_lock::{EngineLock, ForkGuard};
use crate::shared_state::SharedState;

thread_local! {
    /// How many forks this thread has begun and not ended: a handler of another library, or a signal handler, may fork within a fork.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
    /// The engine's guard with the process that took it, while this thread forks and then in the child. The child never releases it:
    /// unlocking would touch the state of the parent's waiting threads, which do not exist in the child.
    static HELD: RefCell<Option<(u32, ManuallyDrop<ForkGuard>)>> = const { RefCell::new(None) };
}

/// Before a fork; `None` where no server runs.
pub(crate) fn begin(engine: Option<&EngineLock>) {
    let depth = DEPTH.get();
    DEPTH.set(depth + 1);
    // A child that forks again holds the lock already.
    if depth == 0
        && let Some(engine) = engine
        && !holds(engine)
    {
        HELD.set(Some((std::process::id(), ManuallyDrop::new(engine.lock_for_fork()))));
    }
}

/// After a fork, in the parent.
pub(crate) fn end() {
    let depth = DEPTH.get();
    if depth == 1 {
        let own = HELD.with_borrow_mut(|held| held.take_if(|(process, _)| *process == std::process::id()));
        drop(own.map(|(_, guard)| ManuallyDrop::into_inner(guard)));
    }
    // Afterwards: a signal handler may fork meanwhile.
    DEPTH.set(depth - 1);
}

/// After a fork, in the child.
pub(crate) fn end_in_child() {
    DEPTH.set(DEPTH.get() - 1);
}

/// Whether this thread holds this engine: within a fork, or in a child.
pub(crate) fn holds(engine: &EngineLock) -> bool {
    HELD.with_borrow(|held| held.as_ref().is_some_and(|(_, guard)| engine.is_of(guard)))
}

/// The environment of a client, requested in the server's process or in a forked child. In the server's process a missing
/// secret or directory is created first.
pub(crate) fn setup_fork(shared: &SharedState, proc: &Proc) -> Vec<(String, OsString)> {
    HELD.with_borrow_mut(|held| match held {
        // Ledger data only: a thread that works on the directory does not exist in this process.
        Some((_, held)) if shared.engine.is_of(held) => held.setup_fork(proc),
        _ => {
            let opening = shared.feed(|engine| {
                engine.prepare_client(proc);
                engine.opening(&proc.nspace)
            });
            shared.await_published(opening.as_slice(), true);
            shared.write_journals();
            shared.feed(|engine| engine.setup_fork(proc))
        }
    })
}
