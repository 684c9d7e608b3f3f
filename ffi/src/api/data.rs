//! Exchange of data: put, commit, fence, get; processes and nodes of a job.

use std::ffi::{CStr, c_char, c_void};

use pmix_client::{Inside, process};
use pmix_dstore::model::{Nspace, Proc, Result, Scope, Status, Value, keys};
use pmix_server::process::server;

use super::{Out, client, get, infos, object, procs};
use crate::callback::{Callback, start};
use crate::convert::array::CArray;
use crate::convert::text;
use crate::entry::{call, entries, status_call, status_entry};
use crate::memory::copy_text;
use crate::pinned::Pinned;
use crate::types::*;

status_call! {
    /// `PMIx_Put`: stores a value, which the next commit sends. With one of the scopes of release 7.0 that delete, it deletes a key
    /// instead; `val` may be NULL then.
    fn PMIx_Put(scope: pmix_scope_t, key: *const c_char, val: *mut pmix_value_t) {
        let client = client()?;
        if let Some(scope) = Scope::of_deletion(scope) {
            // SAFETY: `key` is NULL, or has a NUL or all its bytes.
            return client.delete(scope, unsafe { text::key(key) }?);
        }
        let scope = Scope::from_code(scope).ok_or(Status::ERR_BAD_PARAM)?;
        // SAFETY: `key` is NULL, or has a NUL or all its bytes.
        let key = unsafe { text::key(key) }?;
        // SAFETY: `val` is NULL or initialised.
        client.put(scope, key, unsafe { object(val) }?)
    }

    /// `PMIx_Store_internal`: keeps a value for this process alone.
    fn PMIx_Store_internal(proc: *const pmix_proc_t, key: *const c_char, val: *mut pmix_value_t) {
        let client = client()?;
        // SAFETY: `proc` is NULL or initialised.
        let proc = unsafe { object(proc) }?;
        // SAFETY: `key` is NULL, or has a NUL or all its bytes.
        let key = unsafe { text::key(key) }?;
        // SAFETY: `val` is NULL or initialised.
        let value: Value = unsafe { object(val) }?;
        if let (true, Value::Pid(pid), Ok(server)) = (key.is(keys::PROC_PID), &value, server()) {
            server.note_pid(&proc, *pid);
        }
        client.store_internal(&proc, key, value)
    }

    /// `PMIx_Commit`: sends what was put.
    fn PMIx_Commit() {
        client()?.commit()
    }

    /// `PMIx_Fence`: a barrier, with an exchange of data where asked for.
    fn PMIx_Fence(members: *const pmix_proc_t, nprocs: usize, info: *const pmix_info_t, ninfo: usize) {
        let client = client()?;
        // SAFETY: `members` is NULL or an array of `nprocs` processes.
        let members = unsafe { procs(members, nprocs) }?;
        // SAFETY: `info` is an array of `ninfo` infos.
        client.fence(&members, unsafe { infos(info, ninfo) }?).wait()
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
        let client = client()?;
        // SAFETY: `members` is NULL or an array of `nprocs` processes.
        let members = unsafe { procs(members, nprocs) }?;
        // SAFETY: `info` is an array of `ninfo` infos.
        start(client.fence_without_wait(&members, unsafe { infos(info, ninfo) }?), cbfunc, cbdata)
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
        // SAFETY: `proc` is NULL or initialised; `key` is NULL, or has a NUL or all its bytes; `info` is an array of `ninfo` infos.
        let request = unsafe { get::request(proc, key, info, ninfo) }?;
        client.get_nb(&request, Box::new(move |result| callback.call(result)))
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
        // SAFETY: `procs` and `nprocs` are NULL or places for the results.
        let (procs, nprocs) = unsafe { (Out::new(procs)?, Out::new(nprocs)?) };
        procs.set(std::ptr::null_mut());
        nprocs.set(0);
        // SAFETY: `nodename` is NULL or a C string.
        let node = unsafe { text::string(nodename) }.map(CStr::to_bytes);
        // SAFETY: `nspace` is NULL, or has a NUL or all its bytes.
        let name = unsafe { optional_nspace(nspace) }?;
        // The own job's processes are found without a lock.
        let here = process::with_reading(|client, reading| {
            let own = client.me().nspace.as_bytes();
            let ranks = name.filter(|name| *name == own).and_then(|_| client.peers_here(reading, node))?;
            let pinned = client.attached::<Pinned>()?;
            Some(ranks.and_then(|ranks| pinned.names.procs(own, &ranks)))
        });
        if let Some(here) = here.ok_or(Status::ERR_INIT)? {
            let (items, count) = here?;
            procs.set(items);
            nprocs.set(count);
            return Ok(());
        }
        let _inside = Inside::enter();
        let nspace = name.map(owned_nspace).transpose()?;
        let peers: Vec<Proc> = client()?.resolve_peers(node, nspace.as_ref())?;
        let (items, count) = CArray::<pmix_proc_t>::new(&peers)?.into_raw();
        procs.set(items);
        nprocs.set(count);
        Ok(())
    }

    /// `PMIx_Resolve_nodes`: the nodes of a job.
    fn PMIx_Resolve_nodes(nspace: *const c_char, nodelist: *mut *mut c_char) {
        // SAFETY: `nodelist` is NULL or a place for the result.
        let nodelist = unsafe { Out::new(nodelist) }?;
        nodelist.set(std::ptr::null_mut());
        // SAFETY: `nspace` is NULL, or has a NUL or all its bytes.
        let name = unsafe { optional_nspace(nspace) }?;
        let here = process::with_reading(|client, reading| {
            name.filter(|name| *name == client.me().nspace.as_bytes()).and_then(|_| client.nodes_here(reading, copy_text))
        });
        if let Some(here) = here.ok_or(Status::ERR_INIT)? {
            nodelist.set(here?);
            return Ok(());
        }
        let _inside = Inside::enter();
        let nspace = name.map(owned_nspace).transpose()?;
        if let Some(nodes) = client()?.resolve_nodes(nspace.as_ref())? {
            nodelist.set(copy_text(&nodes)?);
        }
        Ok(())
    }
}

/// The text of a namespace; `None` for NULL.
///
/// # Errors
/// `BAD_PARAM` for more than 255 bytes.
///
/// # Safety
/// `nspace` is NULL or readable up to its NUL or 256 bytes for `'a`.
#[inline(always)]
unsafe fn optional_nspace<'a>(nspace: *const c_char) -> Result<Option<&'a [u8]>> {
    // SAFETY: the caller's promise.
    if nspace.is_null() { Ok(None) } else { unsafe { text::nspace_text(nspace) }.map(Some) }
}

/// A namespace, copied.
fn owned_nspace(name: &[u8]) -> Result<Nspace> {
    Nspace::new(name).map_err(|_| Status::ERR_BAD_PARAM)
}

entries! {
    guard_unwatched:
    /// `PMIx_Get`: a value in memory that the caller frees. With `PMIX_GET_STATIC_VALUES` it is written into the caller's own memory,
    /// with `PMIX_GET_POINTER_VALUES` it stays in the library's memory.
    fn PMIx_Get(
        proc: *const pmix_proc_t,
        key: *const c_char,
        info: *const pmix_info_t,
        ninfo: usize,
        val: *mut *mut pmix_value_t,
    ) -> pmix_status_t {
        // SAFETY: `proc` is NULL or initialised; `key` is NULL, or has a NUL or all its bytes; `info` is an array of `ninfo` infos;
        // `val` is NULL or a place for the result.
        unsafe { get::get(proc, key, (info, ninfo), val) }.0
    }
}

call! {
    /// `PMIx_Progress`: receives what has arrived and runs callbacks, in a process that was initialised with
    /// `PMIX_EXTERNAL_PROGRESS`. In others there is nothing to do: blocking calls drive the connection themselves, and everything else
    /// runs on the library's own thread.
    fn PMIx_Progress() {
        if let Ok(client) = client() {
            client.progress();
        }
    }
}
