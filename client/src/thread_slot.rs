//! What belongs to a thread, found in fewer steps than a thread's variables.
//!
//! A shared library that may be opened at any time asks the C library where its variables of a thread are, which was 22 of the
//! instructions of each Get. The register that the C library finds them by names the thread as well: here each thread has a
//! place that follows from it. Who finds no place, or another thread's, has the variables.

use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

/// As many threads have a place at a time, at most.
const LINES: usize = 64;

/// One thing of each of some threads.
pub struct ThreadSlotCache<T> {
    places: [CacheLine<T>; LINES],
}

struct CacheLine<T> {
    /// The thread, as [`own`] names it; 0 in a free place.
    thread: AtomicUsize,
    thing: AtomicPtr<T>,
}

impl<T> ThreadSlotCache<T> {
    /// Nothing of anybody.
    pub const fn new() -> ThreadSlotCache<T> {
        let places =
            [const { CacheLine { thread: AtomicUsize::new(0), thing: AtomicPtr::new(ptr::null_mut()) } }; LINES];
        ThreadSlotCache { places }
    }

    #[inline(always)]
    fn place_of(&self, thread: usize) -> &CacheLine<T> {
        // The stacks of threads begin a few megabytes and a page from each other.
        &self.places[(thread >> 12) % LINES]
    }

    /// What the calling thread has put here, or null.
    #[inline(always)]
    pub fn get(&self) -> *mut T {
        let own = own();
        let place = self.place_of(own);
        // Only this thread writes its own name.
        if place.thread.load(Ordering::Relaxed) == own { place.thing.load(Ordering::Relaxed) } else { ptr::null_mut() }
    }

    /// Puts a thing of the calling thread here, unless another thread has the place.
    pub fn put(&self, thing: *mut T) {
        let own = own();
        let place = self.place_of(own);
        if place.thread.compare_exchange(0, own, Ordering::Acquire, Ordering::Relaxed).is_ok() {
            place.thing.store(thing, Ordering::Relaxed);
        }
    }

    /// Takes it away again.
    pub fn take(&self, thing: *mut T) {
        if self.get() == thing {
            let place = self.place_of(own());
            place.thing.store(ptr::null_mut(), Ordering::Relaxed);
            place.thread.store(0, Ordering::Release);
        }
    }
}

/// The calling thread: no other one that lives has the same, and it is not 0.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline(always)]
fn own() -> usize {
    let own;
    // SAFETY: the register leads to its own address, which the platform's rules for variables of threads want there.
    unsafe {
        std::arch::asm!("mov {}, qword ptr fs:[0]", out(reg) own, options(pure, readonly, nostack, preserves_flags));
    }
    own
}

/// The same elsewhere.
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
fn own() -> usize {
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
                        let has_place = !THINGS.get().is_null();
                        // All of them live now. Who failed here would leave the others waiting.
                        together.wait();
                        let has_own = THINGS.get() == if has_place { &raw mut own } else { ptr::null_mut() };
                        THINGS.put(&mut other);
                        THINGS.take(&mut other);
                        let keeps_it = has_place != THINGS.get().is_null();
                        together.wait();
                        THINGS.take(&mut own);
                        (has_place, before.is_null() && has_own && keeps_it && THINGS.get().is_null())
                    })
                });
                threads.map(|thread| thread.join().unwrap())
            });
            assert!(found.iter().all(|(_, is_right)| *is_right), "{found:?}");
            let places = found.iter().filter(|(has_place, _)| *has_place).count();
            assert!((2..=LINES).contains(&places), "{places}");
        }
    }
}
