//! A debug check: a thread that holds a lock which others wait for does no file work.
//!
//! A system call on a file may take as long as the file system wants, and whoever waits for the lock waits with it. The
//! holder of such a lock keeps a [`FileBan`]; every function that reaches a file system calls [`check`]. Both cost
//! nothing in release builds.

use std::marker::PhantomData;

#[cfg(debug_assertions)]
thread_local! {
    /// Bans of this thread that have not ended.
    static BANS: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
}

/// While it lives, file work of this thread panics in debug builds.
#[derive(Debug)]
pub struct FileBan(PhantomData<*const ()>);

impl FileBan {
    /// Begins a ban of the calling thread.
    #[inline]
    pub fn begin() -> FileBan {
        #[cfg(debug_assertions)]
        BANS.set(BANS.get() + 1);
        FileBan(PhantomData)
    }
}

impl Drop for FileBan {
    #[inline]
    fn drop(&mut self) {
        #[cfg(debug_assertions)]
        BANS.set(BANS.get() - 1);
    }
}

/// Called by each function that makes a system call on a file.
///
/// # Panics
/// In debug builds, where the calling thread has a [`FileBan`].
#[inline]
#[track_caller]
pub fn check() {
    #[cfg(debug_assertions)]
    assert!(BANS.get() == 0 || std::thread::panicking(), "file work with a lock held that other threads wait for");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_work_is_found_inside_a_ban_only() {
        check();
        let ban = FileBan::begin();
        let nested = FileBan::begin();
        drop(nested);
        assert_eq!(std::panic::catch_unwind(check).is_err(), cfg!(debug_assertions));
        std::thread::spawn(check).join().expect("a ban is of one thread");
        drop(ban);
        check();
    }
}
