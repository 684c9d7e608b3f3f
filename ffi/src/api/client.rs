//! Initialising and finalizing a client, aborting, and the library's version.

use std::ffi::{CStr, c_char, c_int};

use pmix_client::process;
use pmix_dstore::model::{Info, Result, Status};

use super::{Out, c_text, client, infos, procs};
use crate::convert::text;
use crate::entry::{entry, status_call};
use crate::types::*;

/// What `PMIx_Get_version` answers.
///
/// The form is that of the stock library, because programs parse it: Open MPI's component refuses a string whose first
/// character is below `3` (a letter is above), and others look for the word `OpenPMIx` and read the release behind it.
/// The release is the one whose interface this library has. The part behind `repo rev` shows that this is not the stock
/// library, so that a comparison of the two does not load one of them twice by mistake.
const VERSION: &CStr = match CStr::from_bytes_with_nul(
    concat!(
        "OpenPMIx 4.2.2, repo rev: pmix-dstore-",
        env!("CARGO_PKG_VERSION"),
        " (PMIx Standard: 4.2, Stable ABI: 0.0, Provisional ABI: 0.0)\0"
    )
    .as_bytes(),
) {
    Ok(version) => version,
    Err(_) => c"",
};

status_call! {
    /// `PMIx_Init`: connects this process to its server; counted.
    fn PMIx_Init(proc: *mut pmix_proc_t, info: *mut pmix_info_t, ninfo: usize) {
        // SAFETY: `info` is an array of `ninfo` infos.
        let result = process::init(&unsafe { infos(info, ninfo) }?);
        // A process that no host launched has a name, too, although the call fails.
        // SAFETY: `proc` is NULL or a place for a process.
        if let (Some(client), Some(proc)) = (process::hold(), unsafe { Out::optional(proc) }) {
            proc.fill(client.me())?;
        }
        result.map(drop)
    }

    /// `PMIx_Finalize`: undoes one [`PMIx_Init`].
    fn PMIx_Finalize(info: *const pmix_info_t, ninfo: usize) {
        if process::count() == 0 {
            // As in the stock library, a process that is not initialised may be finalized.
            return Ok(());
        }
        // SAFETY: `info` is an array of `ninfo` infos.
        finalize(&unsafe { infos(info, ninfo) }?)
    }

    /// `PMIx_Abort`: asks the host to abort processes, or the whole job where none are named.
    fn PMIx_Abort(status: c_int, msg: *const c_char, targets: *mut pmix_proc_t, ntargets: usize) {
        let client = client()?;
        // SAFETY: `msg` is NULL or a C string.
        let message = unsafe { text::string(msg) };
        // SAFETY: `targets` is NULL or an array of `ntargets` processes.
        client.abort(Status(status), message, &unsafe { procs(targets, ntargets) }?)
    }
}

entry! {
    /// `PMIx_Initialized`: 1 if this process is initialised, otherwise 0.
    fn PMIx_Initialized() -> c_int {
        c_int::from(process::count() > 0)
    }

    /// `PMIx_Get_version`: which library this is.
    fn PMIx_Get_version() -> *const c_char {
        c_text(VERSION)
    }

    /// `PMIx_Progress_thread_stop`: does nothing. The connection's thread must go on until finalize.
    fn PMIx_Progress_thread_stop(_info: *const pmix_info_t, _ninfo: usize) {}
}

/// Undoes one initialisation. The last one also frees the values that callers have pointers to.
///
/// # Errors
/// The status that the server answers.
pub(super) fn finalize(infos: &[Info]) -> Result<()> {
    process::finalize(infos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_passes_the_hosts_checks() {
        let version = VERSION.to_bytes();
        assert!(version[0] >= b'3');
        assert!(version.starts_with(b"OpenPMIx 4.2.2"));
        assert!(version.windows(11).any(|part| part == b"pmix-dstore"));
    }
}
