//! The pipe from the process that started a server, as that process passes it on (`PMIX_KEEPALIVE_PIPE`).

use std::env;
use std::ffi::CString;
use std::mem::MaybeUninit;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};

use pmix_server::KEEPALIVE_VARIABLE;

/// The read end of the pipe, if the starter passed one. Children get neither the variable nor the descriptor. A program that
/// [is secure](pmix_dstore::environment::is_secure) does not let its user choose the descriptor: it only removes the variable.
pub fn take(is_secure: bool) -> Option<OwnedFd> {
    let number = env::var_os(KEEPALIVE_VARIABLE)?;
    let name = CString::new(KEEPALIVE_VARIABLE).ok()?;
    // SAFETY: a C string. glibc frees nothing here and moves pointers within the environment, so that a thread of the host that reads
    // the environment at the same time finds valid strings.
    unsafe { libc::unsetenv(name.as_ptr()) };
    let number = number.to_str()?.parse::<RawFd>().ok()?;
    if is_secure || number <= libc::STDERR_FILENO || !is_read_end(number) {
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
