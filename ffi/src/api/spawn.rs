//! Starting jobs and connecting them.

use std::ffi::{c_char, c_void};

use super::{Out, client, infos, present, procs};
use crate::callback::{Callback, start};
use crate::convert::array;
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
        // SAFETY: `job_info` is an array of `ninfo` infos.
        let job_info = unsafe { infos(job_info, ninfo) }?;
        // SAFETY: `apps` is NULL or an array of `napps` applications.
        let apps = unsafe { array::read(present(apps)?, napps) }?;
        let started = client.spawn(job_info, apps).wait()?;
        // SAFETY: `nspace` is NULL or has room for a namespace.
        let nspace = unsafe { Out::optional(nspace.cast::<pmix_nspace_t>()) };
        nspace.map_or(Ok(()), |nspace| nspace.fill(&started))
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
        let client = client()?;
        // SAFETY: `job_info` is an array of `ninfo` infos.
        let job_info = unsafe { infos(job_info, ninfo) }?;
        // SAFETY: `apps` is NULL or an array of `napps` applications.
        let apps = unsafe { array::read(present(apps)?, napps) }?;
        client.spawn(job_info, apps).start(Box::new(move |result| callback.call(result)))
    }

    /// `PMIx_Connect`.
    fn PMIx_Connect(members: *const pmix_proc_t, nprocs: usize, info: *const pmix_info_t, ninfo: usize) {
        let client = client()?;
        // SAFETY: `members` is NULL or an array of `nprocs` processes.
        let members = unsafe { procs(members, nprocs) }?;
        // SAFETY: `info` is an array of `ninfo` infos.
        client.connect_procs(members, unsafe { infos(info, ninfo) }?).wait()
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
        let client = client()?;
        // SAFETY: `members` is NULL or an array of `nprocs` processes.
        let members = unsafe { procs(members, nprocs) }?;
        // SAFETY: `info` is an array of `ninfo` infos.
        start(client.connect_procs(members, unsafe { infos(info, ninfo) }?), cbfunc, cbdata)
    }

    /// `PMIx_Disconnect`.
    fn PMIx_Disconnect(members: *const pmix_proc_t, nprocs: usize, info: *const pmix_info_t, ninfo: usize) {
        let client = client()?;
        // SAFETY: `members` is NULL or an array of `nprocs` processes.
        let members = unsafe { procs(members, nprocs) }?;
        // SAFETY: `info` is an array of `ninfo` infos.
        client.disconnect_procs(members, unsafe { infos(info, ninfo) }?).wait()
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
        let client = client()?;
        // SAFETY: `members` is NULL or an array of `nprocs` processes.
        let members = unsafe { procs(members, nprocs) }?;
        // SAFETY: `info` is an array of `ninfo` infos.
        start(client.disconnect_procs(members, unsafe { infos(info, ninfo) }?), cbfunc, cbdata)
    }
}
