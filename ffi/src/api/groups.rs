//! Groups of processes.

use std::ffi::{CString, c_char, c_void};

use pmix_dstore::model::{Proc, Result};

use super::{client, present};
use crate::callback::{Callback, hand_over, start, start_answer};
use crate::convert::array;
use crate::convert::object::Object;
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
    // SAFETY: not NULL, hence a C string by the caller's promise.
    unsafe { Ok(std::ffi::CStr::from_ptr(present(group)?).to_owned()) }
}

/// A leader; none for NULL.
///
/// # Safety
/// `leader` is NULL or a process.
unsafe fn leader_of(leader: *const pmix_proc_t) -> Result<Option<Proc>> {
    // SAFETY: not NULL, hence a process by the caller's promise.
    if leader.is_null() { Ok(None) } else { unsafe { pmix_proc_t::read(leader) }.map(Some) }
}

/// Sets results to none: callers look at them whatever the status says.
///
/// # Safety
/// The pointers are NULL or writable.
unsafe fn no_results(results: *mut *mut pmix_info_t, count: *mut usize) {
    // SAFETY: not NULL, hence writable by the caller's promise.
    unsafe {
        if !results.is_null() {
            results.write(std::ptr::null_mut());
        }
        if !count.is_null() {
            count.write(0);
        }
    }
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
        no_results(results, nresults);
        let client = client()?;
        let (group, procs) = (name(grp)?, array::read(present(procs)?, nprocs)?);
        hand_over(client.group_construct(group, procs, array::read(directives, ndirs)?).wait()?, results, nresults)
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
        let (group, procs) = (name(grp)?, array::read(present(procs)?, nprocs)?);
        start_answer(client.group_construct(group, procs, array::read(info, ninfo)?), cbfunc, cbdata)
    }

    /// `PMIx_Group_destruct`.
    fn PMIx_Group_destruct(grp: *const c_char, info: *const pmix_info_t, ninfo: usize) {
        client()?.group_destruct(name(grp)?, array::read(info, ninfo)?).wait()
    }

    /// `PMIx_Group_destruct_nb`.
    fn PMIx_Group_destruct_nb(
        grp: *const c_char,
        info: *const pmix_info_t,
        ninfo: usize,
        cbfunc: Option<pmix_op_cbfunc_t>,
        cbdata: *mut c_void,
    ) {
        start(client()?.group_destruct(name(grp)?, array::read(info, ninfo)?), cbfunc, cbdata)
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
        no_results(results, nresult);
        let client = client()?;
        let (group, procs) = (name(grp)?, array::read(present(procs)?, nprocs)?);
        let answer = client.group_invite_wait(group, procs, &array::read(info, ninfo)?)?;
        hand_over(answer, results, nresult)
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
        let (group, procs) = (name(grp)?, array::read(present(procs)?, nprocs)?);
        let callback = Callback::new(cbfunc, cbdata);
        let then = Box::new(move |answer| callback.call(answer));
        client.group_invite(group, procs, &array::read(info, ninfo)?, then)
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
        no_results(results, nresult);
        let (client, infos) = (client()?, array::read(info, ninfo)?);
        let answer = client.group_join_wait(name(grp)?, leader_of(leader)?, opt == ACCEPT, &infos)?;
        hand_over(answer, results, nresult)
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
        let (client, infos) = (client()?, array::read(info, ninfo)?);
        let callback = Callback::new(cbfunc, cbdata);
        let then = Box::new(move |answer| callback.call(answer));
        client.group_join(name(grp)?, leader_of(leader)?, opt == ACCEPT, &infos, then)
    }

    /// `PMIx_Group_leave`.
    fn PMIx_Group_leave(grp: *const c_char, info: *const pmix_info_t, ninfo: usize) {
        client()?.group_leave(name(grp)?, array::read(info, ninfo)?).wait()
    }

    /// `PMIx_Group_leave_nb`.
    fn PMIx_Group_leave_nb(
        grp: *const c_char,
        info: *const pmix_info_t,
        ninfo: usize,
        cbfunc: Option<pmix_op_cbfunc_t>,
        cbdata: *mut c_void,
    ) {
        start(client()?.group_leave(name(grp)?, array::read(info, ninfo)?), cbfunc, cbdata)
    }
}
