//! Numbers of threads. `std::thread::current` makes a handle for a thread of a C program at its first use; that allocates memory, and ends the
//! process where there is none.

use std::sync::atomic::{AtomicU64, Ordering};

/// The number of a thread, which no other thread of the process gets, after its end neither. A forked child keeps that of the thread that
/// has forked it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadNumber(u64);

impl ThreadNumber {
    /// That of the calling thread.
    #[must_use]
    pub fn current() -> ThreadNumber {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        thread_local! {
            static NUMBER: ThreadNumber = ThreadNumber(NEXT.fetch_add(1, Ordering::Relaxed));
        }
        NUMBER.with(|number| *number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_threads_have_the_same_number() {
        let own = ThreadNumber::current();
        assert_eq!(own, ThreadNumber::current());
        let other = || std::thread::spawn(ThreadNumber::current).join().unwrap();
        let (first, second) = (other(), other());
        assert!(own != first && own != second && first != second);
    }
}
