//! Locks in a forked child. A thread of the parent may have held one at the fork; nobody releases the child's copy of it. So a child does not
//! wait for a lock that it does not get at once.

use std::sync::atomic::{AtomicU32, Ordering};

use parking_lot::{Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};
use pmix_dstore::model::{Result, Status};

/// The process that initialised the library; 0 before.
static HOME: AtomicU32 = AtomicU32::new(0);

/// This process initialises the library: its threads release what they hold.
pub(crate) fn note_process() {
    HOME.store(std::process::id(), Ordering::Relaxed);
}

/// Whether this process is a child that was forked after the library was initialised.
fn is_child() -> bool {
    let home = HOME.load(Ordering::Relaxed);
    home != 0 && home != std::process::id()
}

/// Locks for reading.
///
/// # Errors
/// `ERR_UNREACH` in a forked child if the lock is taken.
#[inline]
pub(crate) fn read<T>(lock: &RwLock<T>) -> Result<RwLockReadGuard<'_, T>> {
    lock.try_read().map_or_else(|| wait(is_child(), || lock.read()), Ok)
}

/// Locks for writing.
///
/// # Errors
/// As [`read`].
pub(crate) fn write<T>(lock: &RwLock<T>) -> Result<RwLockWriteGuard<'_, T>> {
    lock.try_write().map_or_else(|| wait(is_child(), || lock.write()), Ok)
}

/// Locks.
///
/// # Errors
/// As [`read`].
pub(crate) fn lock<T>(lock: &Mutex<T>) -> Result<MutexGuard<'_, T>> {
    lock.try_lock().map_or_else(|| wait(is_child(), || lock.lock()), Ok)
}

/// Waits for a lock that is taken, but not in a child.
#[cold]
fn wait<G>(is_child: bool, lock: impl FnOnce() -> G) -> Result<G> {
    if is_child { Err(Status::ERR_UNREACH) } else { Ok(lock()) }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn a_child_does_not_wait_for_a_lock_and_others_do() {
        let lock = RwLock::new(0);
        let held = lock.write();
        assert_eq!(wait(true, || lock.read()).err(), Some(Status::ERR_UNREACH));
        assert_eq!(wait(true, || lock.write()).err(), Some(Status::ERR_UNREACH));
        thread::scope(|scope| {
            let writing = scope.spawn(|| write(&lock).map(|mut number| *number += 1));
            let reading = scope.spawn(|| read(&lock).map(|number| *number < 2));
            drop(held);
            assert_eq!((writing.join().unwrap(), reading.join().unwrap()), (Ok(()), Ok(true)));
        });
        assert!(!is_child());
    }
}
