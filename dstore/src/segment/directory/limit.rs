//! The limit on the length of files (`RLIMIT_FSIZE`).

use std::io;

use nix::errno::Errno;
use nix::sys::resource::{Resource, getrlimit};

/// Makes sure that a write that ends at this length of a file is within the limit. The kernel sends `SIGXFSZ` with the error, which
/// ends a host that does not handle it, so the library never makes the attempt. The host may change the limit at any time.
///
/// # Errors
/// `EFBIG` where it is not.
pub(crate) fn check_length(end: u64) -> io::Result<()> {
    match getrlimit(Resource::RLIMIT_FSIZE) {
        Ok((soft, _)) if end > soft => Err(Errno::EFBIG.into()),
        _ => Ok(()),
    }
}
