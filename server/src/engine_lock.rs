//! The lock around the engine. Whoever holds it does no file work, which debug builds check.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use parking_lot::{ArcMutexGuard, Condvar, Mutex, MutexGuard, RawMutex};
use pmix_dstore::file_ban::FileBan;

use crate::engine::Engine;

/// An engine that several threads feed.
pub(crate) struct EngineLock(Arc<Mutex<Engine>>);

/// The engine, while this thread has it.
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

    /// The same for a thread that is about to fork. The child goes on holding it, and may do what it likes with its own files.
    pub fn lock_for_fork(&self) -> ForkGuard {
        self.0.lock_arc()
    }

    /// Whether a guard is of this engine.
    pub fn is_of(&self, guard: &ForkGuard) -> bool {
        Arc::ptr_eq(ArcMutexGuard::mutex(guard), &self.0)
    }
}

impl EngineGuard<'_> {
    /// Lets others have the engine until one of them notifies.
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
