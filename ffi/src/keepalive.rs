//! The pipe from the process that started a server, as that process passes it on (`PMIX_KEEPALIVE_PIPE`).

use std::env;
use std::ffi::CString;
use std::mem::MaybeUninit;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};

use pmix_server::KEEPALIVE_VARIABLE;

/// The read end of the pipe, if the starter passed one. Children get neither the variable nor the descriptor.
pub fn take() -> Option<OwnedFd> {
    // A program with more rights than its user does not let the user choose the descriptor.
    // SAFETY: the call takes a number and touches no memory of ours.
    if unsafe { libc::getauxval(libc::AT_SECURE) } != 0 {
        return None;
    }
    let number = env::var(KEEPALIVE_VARIABLE).ok()?.parse::<RawFd>().ok();
    let name = CString::new(KEEPALIVE_VARIABLE).ok()?;
    // SAFETY: a C string. glibc frees nothing here and moves pointers within the environment, so that a thread of the host that reads
    // the environment at the same time finds valid strings.
    unsafe { libc::unsetenv(name.as_ptr()) };
    let number = number?;
    if number <= libc::STDERR_FILENO || !is_read_end(number) {
        return None;
    }
    // SAFETY: the call takes numbers and touches no memory of ours.
    unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) };
    // SAFETY: the descriptor is open, and the starter opened it for this library alone.
    Some(unsafe { OwnedFd::from_raw_fd(number) })
}

/// Whether this descriptor is the read end of a pipe. The variable may be an old one, and the number one of the host's own by now.
fn is_read_end(number: RawFd) -> bool {
    let mut status = MaybeUninit::<libc::stat>::zeroed();
    // SAFETY: the call writes no more than one structure.
    let is_open = unsafe { libc::fstat(number, status.as_mut_ptr()) } == 0;
    // SAFETY: all zero is a value of the structure.
    let is_pipe = is_open && unsafe { status.assume_init() }.st_mode & libc::S_IFMT == libc::S_IFIFO;
    // SAFETY: the call takes numbers and touches no memory of ours.
    is_pipe && unsafe { libc::fcntl(number, libc::F_GETFL) } & libc::O_ACCMODE == libc::O_RDONLY
}
