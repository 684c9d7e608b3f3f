//! Initialising and finalizing a client, aborting, and the library's version.

use std::ffi::{c_char, c_int};

use pmix_client::process;
use pmix_dstore::model::{Info, Result, Status};

use super::{Out, client, infos, procs};
use crate::convert::text;
use crate::entry::{entry, status_call};
use crate::types::*;

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
