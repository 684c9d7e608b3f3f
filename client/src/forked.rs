//! Locks that a forked child may take. A thread of the parent may have held one at the fork, and nobody releases the child's copy of it.
//!
//! So the thread that forks holds these locks during the fork (`process::forks` says which): the child has each of them free, and what it
//! protects whole. There are two exceptions. A thread that forks waits only so long for a lock; and a child that was made by `_Fork()` or by
//! the call `clone` itself runs no handlers. There `lock`, `read` and `write` refuse instead of waiting, the `wait_` forms wait.
//!
//! They are the standard library's locks. `parking_lot` keeps the threads that wait for its locks in a table of the process: a child that
//! releases a lock for which threads of the parent waited takes a lock of that table, which the fork may have left taken.
#![expect(clippy::disallowed_types, reason = "see above; that a thread has panicked with a lock is no error here")]

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{self, PoisonError, TryLockError};
use std::thread;
use std::time::{Duration, Instant};

pub(crate) use std::sync::{MutexGuard, RwLockReadGuard, RwLockWriteGuard};

use pmix_dstore::model::{Result, Status};

/// How long a fork waits for another thread's fork. The kernel may take long for that, but not without end.
pub(crate) const TURN_WAIT: Duration = Duration::from_secs(5);
/// How long a fork waits for a lock that is held for less than a microsecond. The program may fork in a signal handler, which has interrupted
/// the thread that holds the lock.
pub(crate) const FORK_WAIT: Duration = Duration::from_millis(100);
/// How long it waits for a lock that a thread may hold while it waits for the server.
pub(crate) const SHORT_FORK_WAIT: Duration = Duration::from_millis(1);

/// The process that initialised the library; 0 before.
static HOME: AtomicU32 = AtomicU32::new(0);

/// This process initialises the library: its threads release what they hold.
pub(crate) fn note_process() {
    HOME.store(std::process::id(), Ordering::Relaxed);
}

/// Whether this process is a child that was forked after the library was initialised.
pub(crate) fn is_child() -> bool {
    let home = HOME.load(Ordering::Relaxed);
    home != 0 && home != std::process::id()
}

/// A lock for one.
#[derive(Default)]
pub(crate) struct Mutex<T>(sync::Mutex<T>);

impl<T> Mutex<T> {
    pub const fn new(value: T) -> Mutex<T> {
        Mutex(sync::Mutex::new(value))
    }

    /// Locks.
    ///
    /// # Errors
    /// `ERR_UNREACH` in a forked child if the lock is taken.
    pub fn lock(&self) -> Result<MutexGuard<'_, T>> {
        at_once(self.0.try_lock()).map_or_else(|| wait(is_child(), || self.wait_lock()), Ok)
    }

    /// Locks and waits for it: for code that no child runs, or a lock that each fork holds.
    pub fn wait_lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks for a fork; `None` if another thread does not release it in this time.
    pub fn hold_for_fork(&self, limit: Duration) -> Option<MutexGuard<'_, T>> {
        try_for(limit, || at_once(self.0.try_lock()))
    }
}

/// A lock for one that writes or for many that read.
#[derive(Default)]
pub(crate) struct RwLock<T>(sync::RwLock<T>);

impl<T> RwLock<T> {
    /// Locks for reading.
    ///
    /// # Errors
    /// `ERR_UNREACH` in a forked child if the lock is taken.
    #[inline]
    pub fn read(&self) -> Result<RwLockReadGuard<'_, T>> {
        at_once(self.0.try_read()).map_or_else(|| wait(is_child(), || self.wait_read()), Ok)
    }

    /// Locks for writing.
    ///
    /// # Errors
    /// As [`RwLock::read`].
    pub fn write(&self) -> Result<RwLockWriteGuard<'_, T>> {
        at_once(self.0.try_write()).map_or_else(|| wait(is_child(), || self.wait_write()), Ok)
    }

    /// Locks for reading as [`Mutex::wait_lock`].
    pub fn wait_read(&self) -> RwLockReadGuard<'_, T> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks for writing as [`Mutex::wait_lock`].
    pub fn wait_write(&self) -> RwLockWriteGuard<'_, T> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks for a fork; `None` if other threads do not release it in time. For writing: a child must not find readers in it either, who
    /// are not there any more.
    pub fn hold_for_fork(&self) -> Option<RwLockWriteGuard<'_, T>> {
        try_for(FORK_WAIT, || at_once(self.0.try_write()))
    }
}

impl<T> From<T> for RwLock<T> {
    fn from(value: T) -> RwLock<T> {
        RwLock(sync::RwLock::new(value))
    }
}

/// A wait for a change under a [`Mutex`].
pub(crate) struct Condvar(sync::Condvar);

impl Condvar {
    pub const fn new() -> Condvar {
        Condvar(sync::Condvar::new())
    }

    pub fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        self.0.wait(guard).unwrap_or_else(PoisonError::into_inner)
    }

    pub fn notify_all(&self) {
        self.0.notify_all();
    }
}

/// Tries until it succeeds or the time is over. In a child once: whoever has the lock is not there any more.
fn try_for<G>(limit: Duration, mut attempt: impl FnMut() -> Option<G>) -> Option<G> {
    const YIELDS: u32 = 64;
    const PAUSE: Duration = Duration::from_micros(50);
    let until = Instant::now() + limit;
    for count in 0.. {
        let held = attempt();
        if held.is_some() || is_child() || Instant::now() >= until {
            return held;
        }
        if count < YIELDS { thread::yield_now() } else { thread::sleep(PAUSE) }
    }
    None
}

/// The lock, unless it is taken.
#[inline]
fn at_once<G>(tried: sync::TryLockResult<G>) -> Option<G> {
    match tried {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(left)) => Some(left.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// Waits for a lock that is taken, but not in a child.
#[cold]
fn wait<G>(is_child: bool, lock: impl FnOnce() -> G) -> Result<G> {
    if is_child { Err(Status::ERR_UNREACH) } else { Ok(lock()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_does_not_wait_for_a_lock_and_others_do() {
        let lock = RwLock::from(0);
        let held = lock.wait_write();
        assert_eq!(wait(true, || lock.wait_read()).err(), Some(Status::ERR_UNREACH));
        assert_eq!(wait(true, || lock.wait_write()).err(), Some(Status::ERR_UNREACH));
        thread::scope(|scope| {
            let writing = scope.spawn(|| lock.write().map(|mut number| *number += 1));
            let reading = scope.spawn(|| lock.read().map(|number| *number < 2));
            drop(held);
            assert_eq!((writing.join().unwrap(), reading.join().unwrap()), (Ok(()), Ok(true)));
        });
        assert!(!is_child());
    }

    #[test]
    fn a_lock_is_there_after_a_panic_with_it() {
        let (one, many) = (Mutex::new(1), RwLock::from(2));
        let panicked = thread::scope(|scope| {
            let panics = || {
                let _held = (one.wait_lock(), many.wait_write());
                panic!("with both locks");
            };
            scope.spawn(panics).join()
        });
        panicked.unwrap_err();
        assert_eq!((*one.lock().unwrap(), *many.write().unwrap()), (1, 2));
        assert_eq!(*many.read().unwrap(), 2);
    }

    #[test]
    fn a_fork_waits_for_a_lock_and_not_for_ever() {
        let (free, taken, read) = (Mutex::new(1), Mutex::new(2), RwLock::from(3));
        let held = taken.wait_lock();
        let holding = (free.hold_for_fork(FORK_WAIT), read.hold_for_fork());
        assert!(holding.0.is_some() && holding.1.is_some() && at_once(read.0.try_read()).is_none());
        thread::scope(|scope| {
            assert!(scope.spawn(|| taken.hold_for_fork(SHORT_FORK_WAIT).is_none()).join().unwrap());
            let waiting = scope.spawn(|| taken.hold_for_fork(Duration::from_secs(60)).is_some());
            drop(held);
            assert!(waiting.join().unwrap());
        });
    }
}
