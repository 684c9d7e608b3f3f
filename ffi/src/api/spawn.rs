//! Starting jobs and connecting them.

use std::ffi::{c_char, c_void};

use pmix_dstore::model::{Nspace, Rank, Status};

use super::{Out, client, infos, present, procs};
use crate::callback::{Callback, start};
use crate::convert::{array, text};
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

    /// `pmix_dstore_connect`, RFC0003's `PMIx_Connect`: connects processes and gives them a namespace.
    fn pmix_dstore_connect(
        members: *const pmix_proc_t,
        nprocs: usize,
        info: *const pmix_info_t,
        ninfo: usize,
        nspace: *mut c_char,
        newrank: *mut pmix_rank_t,
    ) {
        let client = client()?;
        // SAFETY: `nspace` and `newrank` are NULL or places for the results; `nspace` has room for a namespace.
        let (nspace, newrank) = unsafe { (Out::new(nspace.cast::<pmix_nspace_t>())?, Out::new(newrank)?) };
        // SAFETY: `members` is NULL or an array of `nprocs` processes.
        let members = unsafe { procs(members, nprocs) }?;
        // SAFETY: `info` is an array of `ninfo` infos.
        let me = client.connect_namespace(members, unsafe { infos(info, ninfo) }?).wait()?;
        newrank.set(me.as_ref().map_or(Rank::UNDEF, |me| me.rank).0);
        let none = || Nspace::new("").map_err(|_| Status::ERROR);
        nspace.fill(&me.map_or_else(none, |me| Ok(me.nspace))?)
    }

    /// `pmix_dstore_connect_nb`.
    fn pmix_dstore_connect_nb(
        members: *const pmix_proc_t,
        nprocs: usize,
        info: *const pmix_info_t,
        ninfo: usize,
        cbfunc: Option<pmix_dstore_connect_cbfunc_t>,
        cbdata: *mut c_void,
    ) {
        let callback = Callback::new(cbfunc, cbdata);
        let client = client()?;
        // SAFETY: `members` is NULL or an array of `nprocs` processes.
        let members = unsafe { procs(members, nprocs) }?;
        // SAFETY: `info` is an array of `ninfo` infos.
        let connect = client.connect_namespace(members, unsafe { infos(info, ninfo) }?);
        connect.start(Box::new(move |result| callback.call(result)))
    }

    /// `pmix_dstore_disconnect`, RFC0003's `PMIx_Disconnect`: of a namespace that a connect has given.
    fn pmix_dstore_disconnect(nspace: *const c_char, info: *const pmix_info_t, ninfo: usize) {
        let client = client()?;
        // SAFETY: `nspace` is NULL, or has a NUL or all its bytes.
        let nspace = unsafe { text::nspace(nspace) }?;
        // SAFETY: `info` is an array of `ninfo` infos.
        client.disconnect_namespace(&nspace, unsafe { infos(info, ninfo) }?).wait()
    }

    /// `pmix_dstore_disconnect_nb`.
    fn pmix_dstore_disconnect_nb(
        nspace: *const c_char,
        info: *const pmix_info_t,
        ninfo: usize,
        cbfunc: Option<pmix_op_cbfunc_t>,
        cbdata: *mut c_void,
    ) {
        let client = client()?;
        // SAFETY: `nspace` is NULL, or has a NUL or all its bytes.
        let nspace = unsafe { text::nspace(nspace) }?;
        // SAFETY: `info` is an array of `ninfo` infos.
        start(client.disconnect_namespace(&nspace, unsafe { infos(info, ninfo) }?), cbfunc, cbdata)
    }
}
