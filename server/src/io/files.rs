//! Checks monitored files on other threads than the server's: on a file system that does not answer, `stat` does not return.
//!
//! Each user with pending checks has a thread; it ends after the last check. A file that blocks a thread delays only the other
//! monitors of the same user.

use std::collections::{HashMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use pmix_dstore::fallible_alloc;

use crate::cleanup::FileState;

/// Pending checks of one user. The engine requests no second check of a monitor before the first is over, but checks of monitors that have
/// ended meanwhile count, too.
const WAITING_MAX: usize = 4096;
/// Users with a thread at one time.
const USERS_MAX: usize = 64;

/// User and group.
type User = (u32, u32);

/// A check of a file: the number of its monitor and the path.
type Look = (u64, PathBuf);

/// Checks a file with a user's permissions.
type See = dyn Fn(&Path, User) -> Option<FileState> + Send + Sync;

/// Receives the result of a check.
type Tell = dyn Fn(u64, Option<FileState>) + Send + Sync;

/// Pending checks.
#[derive(Default)]
struct Looks {
    /// By user; each of them has a thread.
    waiting: HashMap<User, VecDeque<Look>>,
    is_closed: bool,
}

/// What [`Files`] and its threads share: pending checks, and what they call.
struct FileChecks {
    looks: Mutex<Looks>,
    thread_ended: Condvar,
    see: Box<See>,
    tell: Box<Tell>,
}

pub(super) struct Files {
    checks: Arc<FileChecks>,
}

impl Files {
    /// `tell` is called with each result, from another thread.
    pub fn new(tell: impl Fn(u64, Option<FileState>) + Send + Sync + 'static) -> Files {
        Files::seen_by(|path, (uid, gid)| FileState::of(path, uid, gid), tell)
    }

    fn seen_by(
        see: impl Fn(&Path, User) -> Option<FileState> + Send + Sync + 'static,
        tell: impl Fn(u64, Option<FileState>) + Send + Sync + 'static,
    ) -> Files {
        let (looks, thread_ended) = (Mutex::default(), Condvar::new());
        Files { checks: Arc::new(FileChecks { looks, thread_ended, see: Box::new(see), tell: Box::new(tell) }) }
    }

    /// Queues a check of a file with a user's permissions; `false` if a limit is reached or no thread can be started.
    pub fn look(&self, user: User, look: Look) -> bool {
        let mut looks = self.checks.looks.lock();
        if let Some(waiting) = looks.waiting.get_mut(&user) {
            let has_room = waiting.len() < WAITING_MAX;
            if has_room {
                waiting.push_back(look);
            }
            return has_room;
        }
        if looks.waiting.len() >= USERS_MAX {
            return false;
        }
        let checks = self.checks.clone();
        // The new thread inherits the signal mask of the server's thread, which calls this: all signals are blocked.
        let begun = fallible_alloc::spawn("pmix-files", move || checks.run(user));
        if begun.is_ok() {
            looks.waiting.insert(user, VecDeque::from([look]));
        }
        begun.is_ok()
    }

    /// Drops pending checks, and waits at most `wait` for the threads. A thread that a file system blocks ends later
    /// and reports no result.
    pub fn close(&self, wait: Duration) {
        let end = Instant::now() + wait;
        let mut looks = self.checks.looks.lock();
        looks.is_closed = true;
        looks.waiting.values_mut().for_each(VecDeque::clear);
        while !looks.waiting.is_empty() && !self.checks.thread_ended.wait_until(&mut looks, end).timed_out() {}
    }
}

impl FileChecks {
    /// Runs a user's checks until none is pending.
    fn run(&self, user: User) {
        while let Some((monitor, path)) = self.next(user) {
            let seen = (self.see)(&path, user);
            if !self.looks.lock().is_closed {
                (self.tell)(monitor, seen);
            }
        }
    }

    /// The next check of a user; with `None` the thread ends.
    fn next(&self, user: User) -> Option<Look> {
        let mut looks = self.looks.lock();
        let next = looks.waiting.get_mut(&user).and_then(VecDeque::pop_front);
        if next.is_none() {
            looks.waiting.remove(&user);
            self.thread_ended.notify_all();
        }
        next
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use crossbeam::channel::{Receiver, Sender, unbounded};

    use super::*;

    const ANN: User = (2001, 2001);
    const BOB: User = (2002, 2002);

    /// Checks of which those of `/dead/...` block until the sender releases them, and the results.
    fn files() -> (Files, Sender<()>, Receiver<u64>) {
        let ((release, released), (sender, told)) = (unbounded(), unbounded());
        let see = move |path: &Path, _: User| {
            if path.starts_with("/dead") {
                let _ = released.recv();
            }
            None
        };
        let tell = move |monitor, _| {
            let _ = sender.send(monitor);
        };
        (Files::seen_by(see, tell), release, told)
    }

    fn look(files: &Files, user: User, monitor: u64, path: &str) -> bool {
        files.look(user, (monitor, path.into()))
    }

    fn threads(files: &Files) -> usize {
        files.checks.looks.lock().waiting.len()
    }

    fn wait_for_threads(files: &Files, count: usize) {
        while threads(files) != count {
            thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn a_file_that_does_not_answer_holds_neither_the_caller_nor_other_users() {
        let (files, release, told) = files();
        assert!(look(&files, ANN, 1, "/dead/file"));
        assert!(look(&files, ANN, 2, "/alive"));
        assert!(look(&files, BOB, 3, "/alive"));
        assert_eq!(told.recv(), Ok(3));
        wait_for_threads(&files, 1);
        assert!(told.try_recv().is_err(), "behind the one that does not answer");
        release.send(()).unwrap();
        assert_eq!((told.recv(), told.recv()), (Ok(1), Ok(2)));
        // Threads end after their last check.
        wait_for_threads(&files, 0);
    }

    #[test]
    fn waiting_file_requests_are_bounded() {
        let (files, release, told) = files();
        assert!(look(&files, ANN, 0, "/dead/file"));
        let taken = (1..2 * WAITING_MAX as u64).filter(|monitor| look(&files, ANN, *monitor, "/alive")).count();
        // Its thread may not have taken the first one yet.
        assert!((WAITING_MAX - 1..=WAITING_MAX).contains(&taken), "{taken}");
        let users = (0..2 * USERS_MAX as u32).filter(|user| look(&files, (*user, 0), 1, "/dead/file")).count();
        assert_eq!(users, USERS_MAX - 1);
        (0..=users).for_each(|_| release.send(()).unwrap());
        assert_eq!(told.iter().take(1 + users + taken).count(), 1 + users + taken);
        wait_for_threads(&files, 0);
    }

    #[test]
    fn the_end_of_the_server_waits_for_no_file_system() {
        let (files, release, told) = files();
        assert!(look(&files, ANN, 1, "/dead/file") && look(&files, ANN, 2, "/alive"));
        while files.checks.looks.lock().waiting[&ANN].len() > 1 {
            thread::sleep(Duration::from_millis(1));
        }
        files.close(Duration::from_millis(10));
        assert_eq!(threads(&files), 1);
        release.send(()).unwrap();
        wait_for_threads(&files, 0);
        assert!(told.try_recv().is_err(), "nobody is told any more");
        // `close` waits for threads that are not blocked.
        let (files, _release, _told) = self::files();
        (0..100).for_each(|monitor| assert!(look(&files, ANN, monitor, "/alive")));
        files.close(Duration::from_secs(600));
        assert_eq!(threads(&files), 0);
    }
}
