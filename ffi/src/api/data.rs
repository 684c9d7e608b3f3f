//! Exchanging data: put, commit, fence, get, and who runs where.

use std::ffi::{CStr, c_char, c_void};

use pmix_client::{Inside, process};
use pmix_dstore::model::{Proc, Scope, Status};

use super::{client, get, present, procs, writable};
use crate::callback::{Callback, start};
use crate::convert::array::CArray;
use crate::convert::object::Object;
use crate::convert::{array, text};
use crate::entry::{entry, status_call, status_entry};
use crate::memory::copy_text;
use crate::pinned::Pinned;
use crate::types::*;

status_call! {
    /// `PMIx_Put`: offers a value, or with the scopes of 7.0 that say so deletes a key; the next commit sends it. There need be no
    /// value then.
    fn PMIx_Put(scope: pmix_scope_t, key: *const c_char, val: *mut pmix_value_t) {
        let client = client()?;
        if let Some(scope) = Scope::of_deletion(scope) {
            return client.delete(scope, text::key(key)?);
        }
        let scope = Scope::from_code(scope).ok_or(Status::ERR_BAD_PARAM)?;
        client.put(scope, text::key(key)?, pmix_value_t::read(present(val)?)?)
    }

    /// `PMIx_Store_internal`: keeps a value for this process alone.
    fn PMIx_Store_internal(proc: *const pmix_proc_t, key: *const c_char, val: *mut pmix_value_t) {
        let client = client()?;
        client.store_internal(&pmix_proc_t::read(present(proc)?)?, text::key(key)?, pmix_value_t::read(present(val)?)?)
    }

    /// `PMIx_Commit`: sends what was put.
    fn PMIx_Commit() {
        client()?.commit()
    }

    /// `PMIx_Fence`: a barrier, with an exchange of data where asked for.
    fn PMIx_Fence(members: *const pmix_proc_t, nprocs: usize, info: *const pmix_info_t, ninfo: usize) {
        client()?.fence(&procs(members, nprocs)?, array::read(info, ninfo)?).wait()
    }

    /// `PMIx_Fence_nb`.
    fn PMIx_Fence_nb(
        members: *const pmix_proc_t,
        nprocs: usize,
        info: *const pmix_info_t,
        ninfo: usize,
        cbfunc: Option<pmix_op_cbfunc_t>,
        cbdata: *mut c_void,
    ) {
        start(client()?.fence(&procs(members, nprocs)?, array::read(info, ninfo)?), cbfunc, cbdata)
    }

    /// `PMIx_Get_nb`.
    fn PMIx_Get_nb(
        proc: *const pmix_proc_t,
        key: *const c_char,
        info: *const pmix_info_t,
        ninfo: usize,
        cbfunc: Option<pmix_value_cbfunc_t>,
        cbdata: *mut c_void,
    ) {
        let client = client()?;
        let callback = Callback::new(cbfunc, cbdata);
        if !callback.is_some() {
            return Err(Status::ERR_BAD_PARAM);
        }
        client.get_nb(&get::request(proc, key, info, ninfo)?, Box::new(move |result| callback.call(result)))
    }

}

status_entry! {
    /// `PMIx_Resolve_peers`: the processes of a job on a node.
    fn PMIx_Resolve_peers(
        nodename: *const c_char,
        nspace: *const c_char,
        procs: *mut *mut pmix_proc_t,
        nprocs: *mut usize,
    ) {
        let (procs, nprocs) = (writable(procs)?, writable(nprocs)?);
        (*procs, *nprocs) = (std::ptr::null_mut(), 0);
        let node = text::string(nodename).map(CStr::to_bytes);
        let name = if nspace.is_null() { None } else { Some(text::nspace_text(nspace)?) };
        // Of the own job it is known here, without a lock.
        let here = process::with_current(|client, _| {
            let own = client.me().nspace.as_bytes();
            let ranks = name.filter(|name| *name == own).and_then(|_| client.peers_here(node))?;
            let pinned = client.attached::<Pinned>()?;
            Some(ranks.and_then(|ranks| pinned.names.procs(own, &ranks)))
        });
        if let Some(here) = here.ok_or(Status::ERR_INIT)? {
            (*procs, *nprocs) = here?;
            return Ok(());
        }
        let _inside = Inside::enter();
        let nspace = if nspace.is_null() { None } else { Some(text::nspace(nspace)?) };
        let peers: Vec<Proc> = client()?.resolve_peers(node, nspace.as_ref())?;
        (*procs, *nprocs) = CArray::<pmix_proc_t>::new(&peers)?.into_raw();
        Ok(())
    }

    /// `PMIx_Resolve_nodes`: the nodes of a job.
    fn PMIx_Resolve_nodes(nspace: *const c_char, nodelist: *mut *mut c_char) {
        let nodelist = writable(nodelist)?;
        *nodelist = std::ptr::null_mut();
        let name = if nspace.is_null() { None } else { Some(text::nspace_text(nspace)?) };
        let here = process::with_current(|client, _| {
            name.filter(|name| *name == client.me().nspace.as_bytes()).and_then(|_| client.nodes_here(copy_text))
        });
        if let Some(here) = here.ok_or(Status::ERR_INIT)? {
            *nodelist = here?;
            return Ok(());
        }
        let _inside = Inside::enter();
        let nspace = if nspace.is_null() { None } else { Some(text::nspace(nspace)?) };
        if let Some(nodes) = client()?.resolve_nodes(nspace.as_ref())? {
            *nodelist = copy_text(&nodes)?;
        }
        Ok(())
    }
}

entry! {
    /// `PMIx_Get`: a value, in memory that the caller frees; in the caller's own with `PMIX_GET_STATIC_VALUES`; in the
    /// library's with `PMIX_GET_POINTER_VALUES`.
    fn PMIx_Get(
        proc: *const pmix_proc_t,
        key: *const c_char,
        info: *const pmix_info_t,
        ninfo: usize,
        val: *mut *mut pmix_value_t,
    ) -> pmix_status_t {
        get::get(proc, key, (info, ninfo), val).0
    }

    /// `PMIx_Progress`: lets the library work on the calling thread where the caller asked to drive it.
    ///
    /// Blocking calls drive the connection themselves and everything else has its own thread, so nothing waits for it.
    fn PMIx_Progress() {}
}
