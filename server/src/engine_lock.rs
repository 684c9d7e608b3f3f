//! The lock around the engine. A thread that holds it must not access files, which debug builds check.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use parking_lot::{ArcMutexGuard, Condvar, Mutex, MutexGuard, RawMutex};
use pmix_dstore::file_ban::FileBan;

use crate::engine::Engine;

/// An engine that several threads feed.
pub(crate) struct EngineLock(Arc<Mutex<Engine>>);

/// The locked engine.
pub(crate) struct EngineGuard<'a> {
    engine: MutexGuard<'a, Engine>,
    _ban: FileBan,
}

/// The engine, while this thread forks and then in the child.
pub(crate) type ForkGuard = ArcMutexGuard<RawMutex, Engine>;

impl EngineLock {
    pub fn new(engine: Engine) -> EngineLock {
        EngineLock(Arc::new(Mutex::new(engine)))
    }

    /// Waits for the engine.
    pub fn lock(&self) -> EngineGuard<'_> {
        EngineGuard { engine: self.0.lock(), _ban: FileBan::begin() }
    }

    /// The same for a thread that is about to fork, without the check: the child keeps the lock, and may access files.
    pub fn lock_for_fork(&self) -> ForkGuard {
        self.0.lock_arc()
    }

    /// Whether a guard is of this engine.
    pub fn is_of(&self, guard: &ForkGuard) -> bool {
        Arc::ptr_eq(ArcMutexGuard::mutex(guard), &self.0)
    }
}

impl EngineGuard<'_> {
    /// Releases the lock until another thread notifies.
    pub fn wait(&mut self, notified: &Condvar) {
        notified.wait(&mut self.engine);
    }
}

impl Deref for EngineGuard<'_> {
    type Target = Engine;

    fn deref(&self) -> &Engine {
        &self.engine
    }
}

impl DerefMut for EngineGuard<'_> {
    fn deref_mut(&mut self) -> &mut Engine {
        &mut self.engine
    }
}
