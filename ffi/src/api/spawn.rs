//! Starting jobs and connecting them.

use std::ffi::{c_char, c_void};

use super::{client, present, procs};
use crate::callback::{Callback, start};
use crate::convert::array;
use crate::convert::text::write_name;
use crate::entry::status_call;
use crate::types::*;

status_call! {
    /// `PMIx_Spawn`: starts a job and says its namespace.
    fn PMIx_Spawn(
        job_info: *const pmix_info_t,
        ninfo: usize,
        apps: *const pmix_app_t,
        napps: usize,
        nspace: *mut c_char,
    ) {
        let client = client()?;
        let started = client.spawn(array::read(job_info, ninfo)?, array::read(present(apps)?, napps)?).wait()?;
        if !nspace.is_null() {
            write_name(nspace, size_of::<pmix_nspace_t>(), started.as_bytes());
        }
        Ok(())
    }

    /// `PMIx_Spawn_nb`.
    fn PMIx_Spawn_nb(
        job_info: *const pmix_info_t,
        ninfo: usize,
        apps: *const pmix_app_t,
        napps: usize,
        cbfunc: Option<pmix_spawn_cbfunc_t>,
        cbdata: *mut c_void,
    ) {
        let callback = Callback::new(cbfunc, cbdata);
        let operation = client()?.spawn(array::read(job_info, ninfo)?, array::read(present(apps)?, napps)?);
        operation.start(Box::new(move |result| callback.call(result)))
    }

    /// `PMIx_Connect`.
    fn PMIx_Connect(members: *const pmix_proc_t, nprocs: usize, info: *const pmix_info_t, ninfo: usize) {
        client()?.connect_procs(procs(members, nprocs)?, array::read(info, ninfo)?).wait()
    }

    /// `PMIx_Connect_nb`.
    fn PMIx_Connect_nb(
        members: *const pmix_proc_t,
        nprocs: usize,
        info: *const pmix_info_t,
        ninfo: usize,
        cbfunc: Option<pmix_op_cbfunc_t>,
        cbdata: *mut c_void,
    ) {
        start(client()?.connect_procs(procs(members, nprocs)?, array::read(info, ninfo)?), cbfunc, cbdata)
    }

    /// `PMIx_Disconnect`.
    fn PMIx_Disconnect(members: *const pmix_proc_t, nprocs: usize, info: *const pmix_info_t, ninfo: usize) {
        client()?.disconnect_procs(procs(members, nprocs)?, array::read(info, ninfo)?).wait()
    }

    /// `PMIx_Disconnect_nb`.
    fn PMIx_Disconnect_nb(
        members: *const pmix_proc_t,
        nprocs: usize,
        info: *const pmix_info_t,
        ninfo: usize,
        cbfunc: Option<pmix_op_cbfunc_t>,
        cbdata: *mut c_void,
    ) {
        start(client()?.disconnect_procs(procs(members, nprocs)?, array::read(info, ninfo)?), cbfunc, cbdata)
    }
}
