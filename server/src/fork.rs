//! What a forked child may ask.
//!
//! Slurm makes a rank's environment in the child that becomes the rank. The server's thread is not there, and whatever it
//! had locked at that moment would stay locked for ever. So the thread that forks holds the engine meanwhile; in the child
//! it goes on holding it, and that is what [`setup_fork`] uses there.

use std::cell::RefCell;
use std::ffi::OsString;
use std::mem::ManuallyDrop;

use pmix_dstore::model::Proc;

use crate::engine_lock::{EngineLock, ForkGuard};
use crate::server::Inner;

thread_local! {
    /// The engine, while this thread forks and then in the child. There it is never let go of: nobody waits for it, and what
    /// remains of those who waited when the process was copied is no business of the child's.
    static HELD: RefCell<Option<ManuallyDrop<ForkGuard>>> = const { RefCell::new(None) };
}

/// Before a fork.
pub(crate) fn hold(engine: &EngineLock) {
    HELD.set(Some(ManuallyDrop::new(engine.lock_for_fork())));
}

/// After a fork, in the parent.
pub(crate) fn let_go() {
    drop(HELD.take().map(ManuallyDrop::into_inner));
}

/// The environment of a client, asked for in the process of the server or in a child that it has forked. In the server's process
/// what it tells of is made where it is missing.
pub(crate) fn setup_fork(inner: &Inner, proc: &Proc) -> Vec<(String, OsString)> {
    HELD.with_borrow_mut(|held| match held {
        // What the ledger says: whoever is at the directory is not in this process.
        Some(held) if inner.engine.is_of(held) => held.setup_fork(proc),
        _ => {
            let opening = inner.feed(|engine| {
                engine.prepare_client(proc);
                engine.opening(&proc.nspace)
            });
            inner.await_published(opening.as_slice(), true);
            inner.feed(|engine| engine.setup_fork(proc))
        }
    })
}
