//! The outer directory of a namespace: names, and the lock by which its server shows that it lives.

use std::fs::{File, TryLockError};
use std::io;
use std::os::fd::OwnedFd;

use nix::sys::stat::fstat;

/// What the names of outer directories begin with.
pub(super) const OUTER_PREFIX: &str = "pmix-dstore-";
/// The inner directory.
pub(super) const INNER_NAME: &str = "s";
/// The server's socket in the inner directory.
pub const SOCKET_NAME: &str = "sock";
/// The journal of a server that may be restarted, in the inner directory.
pub const JOURNAL_NAME: &str = "journal";
/// The next journal, until it takes the place of the former.
pub const JOURNAL_NEW_NAME: &str = "journal.new";

/// Takes the lock of a directory that a server has; `None` if another process has it, or has removed the directory. The lock is the
/// descriptor's: it ends with the last copy of it, in forked children, too.
pub(super) fn lock(directory: OwnedFd) -> io::Result<Option<OwnedFd>> {
    let file = File::from(directory);
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => return Ok(None),
        Err(TryLockError::Error(error)) => return Err(error),
        Ok(()) => {}
    }
    // Who has had the lock may have removed the directory.
    Ok((fstat(&file)?.st_nlink > 0).then(|| OwnedFd::from(file)))
}
