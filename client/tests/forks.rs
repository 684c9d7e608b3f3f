//! Forks of a program with handlers of its own (`pthread_atfork`). One test: handlers are the process's, and stay.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use pmix_client::process;
use pmix_dstore::model::{Scope, Status, Value};

/// How often the handler ran.
static BEFORE: AtomicU32 = AtomicU32::new(0);

/// Runs within this library's handlers, which are registered after it: as other libraries do, it forks.
extern "C" fn fork_within() {
    if BEFORE.fetch_add(1, Ordering::Relaxed) == 0 {
        fork_and(|| 0);
    }
}

/// Forks a child that exits with a status; it must be 0.
fn fork_and(child: impl FnOnce() -> i32) {
    // SAFETY: the child calls this library, which is made for that, and `_exit`.
    unsafe {
        let pid = libc::fork();
        if pid == 0 {
            libc::alarm(20);
            libc::_exit(child());
        }
        let mut status = 0;
        assert_eq!((libc::waitpid(pid, &raw mut status, 0), status), (pid, 0));
    }
}

/// Puts a value: a status for `exit`.
fn put(number: i32) -> i32 {
    let client = process::hold().expect("it is initialised");
    i32::from(client.put(Scope::Internal, "number".into(), Value::Int(number)).is_err())
}

#[test]
fn a_fork_within_a_fork_leaves_no_lock() {
    // SAFETY: a function that does not unwind.
    assert_eq!(unsafe { libc::pthread_atfork(Some(fork_within), None, None) }, 0);
    assert_eq!(process::init(&[]), Err(Status::ERR_UNREACH), "this process has no server");
    let begun = Instant::now();
    // A child, and a child of it.
    fork_and(|| {
        fork_and(|| put(3));
        put(2)
    });
    assert_eq!((put(1), BEFORE.load(Ordering::Relaxed)), (0, 2));
    assert_eq!(process::finalize(&[]), Ok(()));
    assert!(begun.elapsed() < Duration::from_secs(10));
}
