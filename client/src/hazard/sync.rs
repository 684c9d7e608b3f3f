//! The atomics, the lock and the barrier of this module, in one place, so that a model checker can take theirs: with
//! `--cfg loom` (`tests/proof/hazard`) they are those of [loom](https://docs.rs/loom).

pub(super) use std::sync::Arc;

#[cfg(loom)]
pub(super) use loom::sync::atomic::{AtomicPtr, Ordering};
#[cfg(loom)]
pub(super) use modelled::{Mutex, heavy_barrier, light_barrier, prepare};

#[cfg(not(loom))]
pub(super) use parking_lot::Mutex;
#[cfg(not(loom))]
pub(super) use std::sync::atomic::{AtomicPtr, Ordering};

#[cfg(not(loom))]
pub(super) use barrier::{heavy_barrier, light_barrier, prepare};

/// The same for the model: the barrier is a fence on both sides, which is what the kernel's amounts to.
#[cfg(loom)]
mod modelled {
    use loom::sync::MutexGuard;
    use loom::sync::atomic::{Ordering, fence};

    pub(in super::super) struct Mutex<T>(loom::sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub(in super::super) fn new(value: T) -> Mutex<T> {
            Mutex(loom::sync::Mutex::new(value))
        }

        pub(in super::super) fn lock(&self) -> MutexGuard<'_, T> {
            self.0.lock().expect("nobody panics with the lock")
        }
    }

    pub(in super::super) fn prepare() {}

    pub(in super::super) fn light_barrier() {
        fence(Ordering::SeqCst); // MANY
    }

    pub(in super::super) fn heavy_barrier() -> bool {
        fence(Ordering::SeqCst); // ONE
        true
    }
}

/// A barrier between two accesses to memory that costs those who need it often nothing, and those who need it seldom a
/// system call: the kernel makes all threads of the process pass one. Where it does not know how, both sides fence.
#[cfg(not(loom))]
mod barrier {
    use std::sync::atomic::{AtomicBool, Ordering, compiler_fence, fence};

    /// Whether the kernel does it. Once true it stays so; a thread that has not seen it yet fences, which is right too.
    static BY_KERNEL: AtomicBool = AtomicBool::new(false);

    /// Asks the kernel whether it can; to be done before anybody relies on the barrier.
    pub(in super::super) fn prepare() {
        if membarrier(libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) {
            BY_KERNEL.store(true, Ordering::Relaxed);
        }
    }

    /// The side that is passed often.
    #[inline]
    pub(in super::super) fn light_barrier() {
        if BY_KERNEL.load(Ordering::Relaxed) {
            compiler_fence(Ordering::SeqCst);
        } else {
            fence(Ordering::SeqCst);
        }
    }

    /// The side that is passed seldom. False where the kernel has changed its mind: there was no barrier.
    pub(in super::super) fn heavy_barrier() -> bool {
        fence(Ordering::SeqCst);
        !BY_KERNEL.load(Ordering::Relaxed) || membarrier(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED)
    }

    fn membarrier(command: libc::c_int) -> bool {
        const NO_FLAGS: libc::c_uint = 0;
        const NO_CPU: libc::c_int = 0;
        // SAFETY: the call takes three numbers and touches no memory of ours.
        unsafe { libc::syscall(libc::SYS_membarrier, command, NO_FLAGS, NO_CPU) == 0 }
    }
}
