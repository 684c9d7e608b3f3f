//! Exchanging data: put, commit, fence, get, and who runs where.

use std::ffi::{CStr, c_char, c_void};

use pmix_client::{Client, GetOptions, GetRequest, instance, topology};
use pmix_dstore::model::{DataType, Info, Proc, Rank, Result, Scope, Status, Value, keys};

use super::short;
use super::{client, present, procs, writable};
use crate::callback::{Callback, start};
use crate::convert::array::CArray;
use crate::convert::object::Object;
use crate::convert::{array, text, value};
use crate::entry::{Inside, code, entry, status_call, status_entry};
use crate::memory::copy_text;
use crate::pinned::Pinned;
use crate::types::*;

/// Reads what a Get asks for and hands it to `run`. Only a request that goes to the server makes infos of the infos.
///
/// # Safety
/// The pointer rules of the crate for the arguments of `PMIx_Get`.
#[inline]
unsafe fn with_request<R>(
    proc: *const pmix_proc_t,
    key: *const c_char,
    info: *const pmix_info_t,
    ninfo: usize,
    run: impl FnOnce(&GetRequest<'_>) -> Result<R>,
) -> Result<R> {
    // SAFETY: the caller's promise.
    unsafe {
        let ninfo = if info.is_null() { 0 } else { ninfo };
        let infos = || -> Vec<Info> { array::read(info, ninfo).unwrap_or_default() };
        // Filled in place: what is written here in small pieces is read in large ones, which is slow if copied first.
        let mut request =
            GetRequest { nspace: None, rank: Rank::UNDEF, key: None, options: GetOptions::default(), infos: &infos };
        if !proc.is_null() {
            request.nspace = Some(text::nspace_text((&raw const (*proc).nspace).cast())?);
            request.rank = Rank((*proc).rank);
        }
        if !key.is_null() {
            request.key = Some(text::key_text(key)?);
        }
        for index in 0..ninfo {
            let at = info.add(index);
            let key = text::key_text((&raw const (*at).key).cast())?;
            // As what they are: to put them into a value and to look into that takes longer than all the rest.
            if let Some((ty, bits)) = value::borrow_number(&raw const (*at).value) {
                request.options.apply_number(key, (*at).flags, ty, bits);
            } else if (*at).value.type_ == DataType::STRING.0 {
                request.options.apply_text(key, (*at).flags, text::string((*at).value.data.string));
            } else if let Some(directive) = value::borrow(&raw const (*at).value) {
                request.options.apply(key, (*at).flags, directive);
            }
        }
        run(&request)
    }
}

/// Any Get.
///
/// # Safety
/// The pointer rules of the crate for the arguments of `PMIx_Get`.
#[inline(never)]
unsafe fn get(
    proc: *const pmix_proc_t,
    key: *const c_char,
    info: *const pmix_info_t,
    ninfo: usize,
    val: *mut *mut pmix_value_t,
) -> Result<()> {
    let _inside = Inside::enter();
    let of = |client: &Client| {
        let val = writable(val)?;
        // SAFETY: the caller's promise.
        unsafe { get_of(client, proc, key, info, ninfo, val) }
    };
    let get = || instance::with_current(|client, _| of(client)).unwrap_or(Err(Status::ERR_INIT));
    match get() {
        // SAFETY: the caller's promise.
        Err(Status::ERR_NOT_FOUND) if unsafe { is_of_topology(proc, key) } && store_topology().is_ok() => get(),
        result => result,
    }
}

/// Whether a Get is for the topology that this process has loaded, or could load.
///
/// # Safety
/// The pointer rules of the crate for the arguments of `PMIx_Get`.
#[cold]
unsafe fn is_of_topology(proc: *const pmix_proc_t, key: *const c_char) -> bool {
    // SAFETY: the caller's promise; a key is a C string.
    unsafe {
        let is_key = !key.is_null() && text::key_text(key).is_ok_and(|key| key == keys::TOPOLOGY2.as_bytes());
        is_key && !proc.is_null() && {
            let named = pmix_proc_t::read(proc);
            named.is_ok_and(|named| client().is_ok_and(|client| named == *client.me()))
        }
    }
}

/// Keeps the topology of this process for its own Gets, as stock libraries do when they load it.
#[cold]
fn store_topology() -> Result<()> {
    let client = client()?;
    client.store_internal(client.me(), keys::TOPOLOGY2.into(), topology::to_keep()?)
}

/// The same of an initialised process, into a place.
///
/// # Safety
/// As [`get`]; `val` is not NULL.
#[inline(always)]
unsafe fn get_of(
    client: &Client,
    proc: *const pmix_proc_t,
    key: *const c_char,
    info: *const pmix_info_t,
    ninfo: usize,
    val: *mut *mut pmix_value_t,
) -> Result<()> {
    // SAFETY: the caller's promise.
    unsafe {
        with_request(proc, key, info, ninfo, |request| {
            let options = &request.options;
            let mut at = std::ptr::null_mut();
            if options.static_values {
                at = writable(*val)?;
            } else {
                // As the stock library does: callers look at the pointer as well as at the status.
                *val = std::ptr::null_mut();
            }
            let pinned = match options.pointer_values {
                true => Some(client.attached::<Pinned>().ok_or(Status::ERROR)?),
                false => None,
            };
            // The copy is carried out by the closure itself: a result within a result would be copied once more.
            let mut given = Ok(());
            client.get(request, |found| {
                given = match pinned {
                    Some(pinned) if at.is_null() => pinned.pointer_to(client, found).map(|pointer| *val = pointer),
                    Some(pinned) => pinned.fill(client, found, at),
                    None if at.is_null() => value::allocate_ref(found).map(|copy| *val = copy),
                    None => value::write_ref(found, at),
                };
            })?;
            given
        })
    }
}

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
        // Before it is asked for: what the server answers comes on another thread.
        if is_of_topology(proc, key) {
            let optional = [Info::new(keys::OPTIONAL, Value::Bool(true))];
            if client.get_value(client.me(), keys::TOPOLOGY2, &optional).is_err() {
                // Where there is none the Get says so.
                let _ = store_topology();
            }
        }
        with_request(proc, key, info, ninfo, |request| {
            client.get_nb(request, Box::new(move |result| callback.call(result)))
        })
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
        let here = instance::with_current(|client, _| {
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
        let here = instance::with_current(|client, _| {
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
        match short::get(proc, key, (info, ninfo), val) {
            Some(status) => status.0,
            None => code(get(proc, key, info, ninfo, val)),
        }
    }

    /// `PMIx_Progress`: lets the library work on the calling thread where the caller asked to drive it.
    ///
    /// Blocking calls drive the connection themselves and everything else has its own thread, so nothing waits for it.
    fn PMIx_Progress() {}
}
