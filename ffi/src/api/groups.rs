//! Groups of processes.

use std::ffi::{CStr, CString, c_char, c_void};

use pmix_dstore::model::{Proc, Result};

use super::{InfoResults, c_str, client, infos, optional_object, present};
use crate::callback::{Callback, start, start_answer};
use crate::convert::array;
use crate::entry::status_call;
use crate::types::*;

/// `PMIX_GROUP_ACCEPT`.
const ACCEPT: pmix_group_opt_t = 1;

/// The name of a group.
///
/// # Errors
/// `BAD_PARAM` for NULL.
///
/// # Safety
/// `group` is NULL or a C string.
unsafe fn name(group: *const c_char) -> Result<CString> {
    // SAFETY: the caller's promise.
    unsafe { c_str(group) }.map(CStr::to_owned)
}

/// The processes that are to be members.
///
/// # Errors
/// `BAD_PARAM` for NULL, `NOMEM`.
///
/// # Safety
/// `procs` is NULL or an array of `count` processes.
unsafe fn members(procs: *const pmix_proc_t, count: usize) -> Result<Vec<Proc>> {
    // SAFETY: the caller's promise.
    unsafe { array::read(present(procs)?, count) }
}

/// The processes that a construct names; none for a member that a leader adds.
///
/// # Errors
/// `BAD_PARAM` for NULL with a number, `NOMEM`.
///
/// # Safety
/// `procs` is NULL or an array of `count` processes.
unsafe fn leaders(procs: *const pmix_proc_t, count: usize) -> Result<Vec<Proc>> {
    // SAFETY: the caller's promise.
    if count == 0 { Ok(Vec::new()) } else { unsafe { members(procs, count) } }
}

status_call! {
    /// `PMIx_Group_construct`.
    fn PMIx_Group_construct(
        grp: *const c_char,
        procs: *const pmix_proc_t,
        nprocs: usize,
        directives: *const pmix_info_t,
        ndirs: usize,
        results: *mut *mut pmix_info_t,
        nresults: *mut usize,
    ) {
        // SAFETY: `results` and `nresults` are NULL or places for the results.
        let results = unsafe { InfoResults::new(results, nresults) };
        results.clear();
        let client = client()?;
        // SAFETY: `grp` is NULL or a C string.
        let group = unsafe { name(grp) }?;
        // SAFETY: `procs` is NULL or an array of `nprocs` processes.
        let members = unsafe { leaders(procs, nprocs) }?;
        // SAFETY: `directives` is an array of `ndirs` infos.
        results.hand_over(client.group_construct(group, members, unsafe { infos(directives, ndirs) }?).wait()?)
    }

    /// `PMIx_Group_construct_nb`.
    fn PMIx_Group_construct_nb(
        grp: *const c_char,
        procs: *const pmix_proc_t,
        nprocs: usize,
        info: *const pmix_info_t,
        ninfo: usize,
        cbfunc: Option<pmix_info_cbfunc_t>,
        cbdata: *mut c_void,
    ) {
        let client = client()?;
        // SAFETY: `grp` is NULL or a C string.
        let group = unsafe { name(grp) }?;
        // SAFETY: `procs` is NULL or an array of `nprocs` processes.
        let members = unsafe { leaders(procs, nprocs) }?;
        // SAFETY: `info` is an array of `ninfo` infos.
        start_answer(client.group_construct(group, members, unsafe { infos(info, ninfo) }?), cbfunc, cbdata)
    }

    /// `PMIx_Group_destruct`.
    fn PMIx_Group_destruct(grp: *const c_char, info: *const pmix_info_t, ninfo: usize) {
        let client = client()?;
        // SAFETY: `grp` is NULL or a C string.
        let group = unsafe { name(grp) }?;
        // SAFETY: `info` is an array of `ninfo` infos.
        client.group_destruct(group, unsafe { infos(info, ninfo) }?).wait()
    }

    /// `PMIx_Group_destruct_nb`.
    fn PMIx_Group_destruct_nb(
        grp: *const c_char,
        info: *const pmix_info_t,
        ninfo: usize,
        cbfunc: Option<pmix_op_cbfunc_t>,
        cbdata: *mut c_void,
    ) {
        let client = client()?;
        // SAFETY: `grp` is NULL or a C string.
        let group = unsafe { name(grp) }?;
        // SAFETY: `info` is an array of `ninfo` infos.
        start(client.group_destruct(group, unsafe { infos(info, ninfo) }?), cbfunc, cbdata)
    }

    /// `PMIx_Group_invite`.
    fn PMIx_Group_invite(
        grp: *const c_char,
        procs: *const pmix_proc_t,
        nprocs: usize,
        info: *const pmix_info_t,
        ninfo: usize,
        results: *mut *mut pmix_info_t,
        nresult: *mut usize,
    ) {
        // SAFETY: `results` and `nresult` are NULL or places for the results.
        let results = unsafe { InfoResults::new(results, nresult) };
        results.clear();
        let client = client()?;
        // SAFETY: `grp` is NULL or a C string.
        let group = unsafe { name(grp) }?;
        // SAFETY: `procs` is NULL or an array of `nprocs` processes.
        let members = unsafe { members(procs, nprocs) }?;
        // SAFETY: `info` is an array of `ninfo` infos.
        results.hand_over(client.group_invite_wait(group, members, &unsafe { infos(info, ninfo) }?)?)
    }

    /// `PMIx_Group_invite_nb`.
    fn PMIx_Group_invite_nb(
        grp: *const c_char,
        procs: *const pmix_proc_t,
        nprocs: usize,
        info: *const pmix_info_t,
        ninfo: usize,
        cbfunc: Option<pmix_info_cbfunc_t>,
        cbdata: *mut c_void,
    ) {
        let client = client()?;
        // SAFETY: `grp` is NULL or a C string.
        let group = unsafe { name(grp) }?;
        // SAFETY: `procs` is NULL or an array of `nprocs` processes.
        let members = unsafe { members(procs, nprocs) }?;
        let callback = Callback::new(cbfunc, cbdata);
        let then = Box::new(move |answer| callback.call(answer));
        // SAFETY: `info` is an array of `ninfo` infos.
        client.group_invite(group, members, &unsafe { infos(info, ninfo) }?, then)
    }

    /// `PMIx_Group_join`.
    fn PMIx_Group_join(
        grp: *const c_char,
        leader: *const pmix_proc_t,
        opt: pmix_group_opt_t,
        info: *const pmix_info_t,
        ninfo: usize,
        results: *mut *mut pmix_info_t,
        nresult: *mut usize,
    ) {
        // SAFETY: `results` and `nresult` are NULL or places for the results.
        let results = unsafe { InfoResults::new(results, nresult) };
        results.clear();
        let client = client()?;
        // SAFETY: `info` is an array of `ninfo` infos.
        let infos = unsafe { infos(info, ninfo) }?;
        // SAFETY: `grp` is NULL or a C string.
        let group = unsafe { name(grp) }?;
        // SAFETY: `leader` is NULL or a process.
        let leader = unsafe { optional_object(leader) }?;
        results.hand_over(client.group_join_wait(group, leader, opt == ACCEPT, &infos)?)
    }

    /// `PMIx_Group_join_nb`.
    fn PMIx_Group_join_nb(
        grp: *const c_char,
        leader: *const pmix_proc_t,
        opt: pmix_group_opt_t,
        info: *const pmix_info_t,
        ninfo: usize,
        cbfunc: Option<pmix_info_cbfunc_t>,
        cbdata: *mut c_void,
    ) {
        let client = client()?;
        // SAFETY: `info` is an array of `ninfo` infos.
        let infos = unsafe { infos(info, ninfo) }?;
        // SAFETY: `grp` is NULL or a C string.
        let group = unsafe { name(grp) }?;
        // SAFETY: `leader` is NULL or a process.
        let leader = unsafe { optional_object(leader) }?;
        let callback = Callback::new(cbfunc, cbdata);
        let then = Box::new(move |answer| callback.call(answer));
        client.group_join(group, leader, opt == ACCEPT, &infos, then)
    }

    /// `PMIx_Group_leave`.
    fn PMIx_Group_leave(grp: *const c_char, info: *const pmix_info_t, ninfo: usize) {
        let client = client()?;
        // SAFETY: `grp` is NULL or a C string.
        let group = unsafe { name(grp) }?;
        // SAFETY: `info` is an array of `ninfo` infos.
        client.group_leave(group, unsafe { infos(info, ninfo) }?).wait()
    }

    /// `PMIx_Group_leave_nb`.
    fn PMIx_Group_leave_nb(
        grp: *const c_char,
        info: *const pmix_info_t,
        ninfo: usize,
        cbfunc: Option<pmix_op_cbfunc_t>,
        cbdata: *mut c_void,
    ) {
        let client = client()?;
        // SAFETY: `grp` is NULL or a C string.
        let group = unsafe { name(grp) }?;
        // SAFETY: `info` is an array of `ninfo` infos.
        start(client.group_leave(group, unsafe { infos(info, ninfo) }?), cbfunc, cbdata)
    }
}
