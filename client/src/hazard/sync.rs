//! The atomics, the lock and the barriers of this module. They are in one place so that a model checker can replace
//! them: with `--cfg loom` (`tests/proof/hazard`) they are those of [loom](https://docs.rs/loom).

pub(super) use std::sync::Arc;

#[cfg(loom)]
pub(super) use loom::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
#[cfg(loom)]
pub(super) use modelled::{Mutex, heavy_barrier, light_barrier};

#[cfg(not(loom))]
pub(super) use crate::forked::Mutex;
#[cfg(not(loom))]
pub(super) use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

#[cfg(all(test, not(loom)))]
pub(super) use barrier::register;
#[cfg(not(loom))]
pub(super) use barrier::{heavy_barrier, light_barrier, prepare};

/// The same for the model: both barriers are fences, which have the effect of the kernel's barrier.
#[cfg(loom)]
mod modelled {
    use loom::sync::MutexGuard;
    use loom::sync::atomic::{Ordering, fence};

    pub(in super::super) struct Mutex<T>(loom::sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub(in super::super) fn new(value: T) -> Mutex<T> {
            Mutex(loom::sync::Mutex::new(value))
        }

        pub(in super::super) fn wait_lock(&self) -> MutexGuard<'_, T> {
            self.0.lock().expect("nobody panics with the lock")
        }
    }

    pub(in super::super) fn light_barrier() {
        fence(Ordering::SeqCst); // MANY
    }

    pub(in super::super) fn heavy_barrier() -> bool {
        fence(Ordering::SeqCst); // ONE
        true
    }
}

/// An asymmetric memory barrier. The frequent side costs no instruction; the rare side is a system call, in which the
/// kernel makes all threads of the process pass a barrier. If the kernel does not support that, both sides use a fence.
#[cfg(not(loom))]
mod barrier {
    use std::os::unix::fs::MetadataExt;
    use std::sync::atomic::{AtomicBool, Ordering, compiler_fence, fence};

    /// Whether the kernel provides the barrier. It never changes back to false. A thread that does not see the change
    /// yet uses a fence, which is correct too.
    static BY_KERNEL: AtomicBool = AtomicBool::new(false);

    /// Registers the process for `membarrier(2)` if it has one thread, which takes 3 us; must be called before the first use of the
    /// barrier. With more threads the kernel waits for all processors, 10 to 20 ms: more than a million fences take.
    pub(in super::super) fn prepare() {
        if is_single_threaded() {
            register();
        }
    }

    /// Registers the process.
    pub(in super::super) fn register() {
        if membarrier(libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) {
            BY_KERNEL.store(true, Ordering::Relaxed);
        }
    }

    /// Whether this process has one thread. False if that cannot be determined.
    fn is_single_threaded() -> bool {
        // Two links as every directory, and one for each thread.
        const LINKS_OF_ONE_THREAD: u64 = 3;
        // SAFETY: the name is a C string.
        let glibc = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"__libc_single_threaded".as_ptr()) }.cast::<u8>();
        // SAFETY: glibc 2.32 and newer have this variable, a byte of static storage. Only a process with threads writes it.
        if !glibc.is_null() && unsafe { glibc.read_volatile() } != 0 {
            return true;
        }
        // The variable stays 0 after the other threads have ended.
        std::fs::metadata("/proc/self/task").is_ok_and(|tasks| tasks.nlink() == LINKS_OF_ONE_THREAD)
    }

    /// The frequent side.
    #[inline]
    pub(in super::super) fn light_barrier() {
        if BY_KERNEL.load(Ordering::Relaxed) {
            compiler_fence(Ordering::SeqCst);
        } else {
            fence(Ordering::SeqCst);
        }
    }

    /// The rare side. False if the kernel refuses after all: then there was no barrier.
    pub(in super::super) fn heavy_barrier() -> bool {
        fence(Ordering::SeqCst);
        !BY_KERNEL.load(Ordering::Relaxed) || membarrier(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED)
    }

    fn membarrier(command: libc::c_int) -> bool {
        const NO_FLAGS: libc::c_uint = 0;
        const NO_CPU: libc::c_int = 0;
        // SAFETY: the call takes three integers and accesses no memory of this process.
        unsafe { libc::syscall(libc::SYS_membarrier, command, NO_FLAGS, NO_CPU) == 0 }
    }
}
