//! Sessions that the host describes apart from their jobs.

use std::ffi::c_void;

use pmix_dstore::model::Status;
use pmix_server::process::server;

use super::infos;
use super::server::{done, finish};
use crate::entry::{call, status_call};
use crate::types::*;

status_call! {
    /// `PMIx_server_register_session`: what is known of a session, before its first job and after its last one. Without a callback
    /// it blocks, and answers `SUCCESS` as the stock library does, unlike for a namespace.
    fn PMIx_server_register_session(
        session: u32,
        info: *mut pmix_info_t,
        ninfo: usize,
        cbfunc: Option<pmix_op_cbfunc_t>,
        cbdata: *mut c_void,
    ) {
        // SAFETY: `info` is an array of `ninfo` infos.
        let infos = unsafe { infos(info, ninfo) }?;
        match server()?.register_session(session, infos, done(cbfunc, cbdata)) {
            Status::OPERATION_SUCCEEDED => Ok(()),
            status => status.ok(),
        }
    }
}

call! {
    /// `PMIx_server_deregister_session`: forgets a session. Its jobs stay, without what was registered with it.
    fn PMIx_server_deregister_session(session: u32, cbfunc: Option<pmix_op_cbfunc_t>, cbdata: *mut c_void) {
        finish(server().map(|server| server.deregister_session(session, done(cbfunc, cbdata))), cbfunc, cbdata);
    }
}
