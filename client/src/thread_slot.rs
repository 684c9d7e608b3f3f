//! A cache for one pointer per thread, faster than thread-local variables.
//!
//! A shared library that may be loaded with `dlopen` calls the C library to find its thread-local variables; that took
//! 22 of the instructions of each Get. The register through which the C library finds them also identifies the thread.
//! Here that value selects the thread's cache line. A thread that does not own its line uses the thread-local variable
//! instead.

use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

/// The largest number of threads that can own a line at the same time.
const LINES: usize = 64;

/// One pointer for each of up to [`LINES`] threads.
pub struct ThreadSlotCache<T> {
    lines: [CacheLine<T>; LINES],
}

struct CacheLine<T> {
    /// The owner, as [`thread_id`] identifies it; 0 if the line is free.
    thread: AtomicUsize,
    pointer: AtomicPtr<T>,
}

impl<T> ThreadSlotCache<T> {
    /// An empty cache.
    pub const fn new() -> ThreadSlotCache<T> {
        let lines =
            [const { CacheLine { thread: AtomicUsize::new(0), pointer: AtomicPtr::new(ptr::null_mut()) } }; LINES];
        ThreadSlotCache { lines }
    }

    #[inline(always)]
    fn line_of(&self, thread: usize) -> &CacheLine<T> {
        // Thread stacks, and with them these ids, are a few megabytes plus a guard page apart, so that consecutive
        // threads get different lines.
        &self.lines[(thread >> 12) % LINES]
    }

    /// The calling thread's pointer, or null.
    #[inline(always)]
    pub fn get(&self) -> *mut T {
        let id = thread_id();
        let line = self.line_of(id);
        // Relaxed is enough: only this thread writes its own id, and the pointer beside it.
        if line.thread.load(Ordering::Relaxed) == id { line.pointer.load(Ordering::Relaxed) } else { ptr::null_mut() }
    }

    /// Stores a pointer for the calling thread, unless another thread owns the line.
    pub fn put(&self, pointer: *mut T) {
        let id = thread_id();
        let line = self.line_of(id);
        if line.thread.compare_exchange(0, id, Ordering::Acquire, Ordering::Relaxed).is_ok() {
            line.pointer.store(pointer, Ordering::Relaxed);
        }
    }

    /// Removes the calling thread's pointer and frees the line.
    pub fn take(&self, pointer: *mut T) {
        if self.get() == pointer {
            let line = self.line_of(thread_id());
            line.pointer.store(ptr::null_mut(), Ordering::Relaxed);
            line.thread.store(0, Ordering::Release);
        }
    }
}

/// An id of the calling thread: unique among the living threads, and not 0.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline(always)]
fn thread_id() -> usize {
    let id;
    // SAFETY: the x86-64 ABI for thread-local storage requires that `fs:0` holds its own address; this only reads it.
    unsafe {
        std::arch::asm!("mov {}, qword ptr fs:[0]", out(reg) id, options(pure, readonly, nostack, preserves_flags));
    }
    id
}

/// On other platforms: the address of a thread-local variable.
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
fn thread_id() -> usize {
    thread_local! {
        static OWN: u8 = const { 0 };
    }
    OWN.with(|own| ptr::from_ref(own).addr())
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::thread;

    use super::*;

    #[test]
    fn each_thread_has_its_own_or_nothing() {
        const THREADS: usize = 100;
        static THINGS: ThreadSlotCache<usize> = ThreadSlotCache::new();
        let together = Barrier::new(THREADS);
        for _ in 0..2 {
            let found = thread::scope(|scope| {
                let threads = [(); THREADS].map(|()| {
                    scope.spawn(|| {
                        let (mut own, mut other) = (1, 2);
                        let before = THINGS.get();
                        THINGS.put(&mut own);
                        let has_line = !THINGS.get().is_null();
                        // All threads are alive now. No assertions here: a panic would leave the others waiting at the
                        // barrier.
                        together.wait();
                        let has_own = THINGS.get() == if has_line { &raw mut own } else { ptr::null_mut() };
                        THINGS.put(&mut other);
                        THINGS.take(&mut other);
                        let keeps_it = has_line != THINGS.get().is_null();
                        together.wait();
                        THINGS.take(&mut own);
                        (has_line, before.is_null() && has_own && keeps_it && THINGS.get().is_null())
                    })
                });
                threads.map(|thread| thread.join().unwrap())
            });
            assert!(found.iter().all(|(_, is_right)| *is_right), "{found:?}");
            let lines = found.iter().filter(|(has_line, _)| *has_line).count();
            assert!((2..=LINES).contains(&lines), "{lines}");
        }
    }
}
