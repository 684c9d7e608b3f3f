//! The limit on the length of files (`RLIMIT_FSIZE`).

use std::io;

use nix::errno::Errno;
use nix::sys::resource::{Resource, getrlimit};

/// Checks that a write up to this length of a file is within the limit. With the error, the kernel sends `SIGXFSZ`, which ends a
/// host that does not handle it. So the library never attempts the write. The host may change the limit at any time.
///
/// # Errors
/// `EFBIG` if the length exceeds the limit.
pub fn check_length(end: u64) -> io::Result<()> {
    match getrlimit(Resource::RLIMIT_FSIZE) {
        Ok((soft, _)) if end > soft => Err(Errno::EFBIG.into()),
        _ => Ok(()),
    }
}
