//! The atomics, the lock and the barrier of this module, in one place, so that a model checker can take theirs.

pub(super) use std::sync::Arc;
pub(super) use std::sync::atomic::{AtomicPtr, Ordering};

pub(super) use parking_lot::Mutex;

pub(super) use barrier::{barrier_of_many, barrier_of_one, prepare};

/// A barrier between two accesses to memory that costs those who need it often nothing, and those who need it seldom a
/// system call: the kernel makes all threads of the process pass one. Where it does not know how, both sides fence.
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
    pub(in super::super) fn barrier_of_many() {
        if BY_KERNEL.load(Ordering::Relaxed) {
            compiler_fence(Ordering::SeqCst);
        } else {
            fence(Ordering::SeqCst);
        }
    }

    /// The side that is passed seldom. False where the kernel has changed its mind: there was no barrier.
    pub(in super::super) fn barrier_of_one() -> bool {
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
