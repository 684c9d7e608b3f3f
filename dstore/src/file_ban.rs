//! A debug check: no file system call happens on a thread that holds a lock for which others wait.
//!
//! A system call on a file can take any time, and all threads that wait for the lock wait for it. The holder of the lock keeps
//! a [`FileBan`]; every function that makes file system calls calls [`check`]. Both cost nothing in release builds.

use std::marker::PhantomData;

#[cfg(debug_assertions)]
thread_local! {
    /// Number of active bans of this thread.
    static BANS: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
}

/// While it exists, file system calls of this thread panic in debug builds.
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
/// In debug builds, if the calling thread has a [`FileBan`].
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
