//! Questions and requests to the host: queries, logs, job control.

use std::ffi::c_void;

use pmix_client::InfoReply;
use pmix_dstore::model::{Status, keys};

use super::{client, present, procs};
use crate::callback::{hand_over, start, start_answer};
use crate::convert::array;
use crate::convert::object::Object;
use crate::entry::{call, status_call};
use crate::types::*;

status_call! {
    /// `PMIx_Query_info`.
    fn PMIx_Query_info(
        queries: *mut pmix_query_t,
        nqueries: usize,
        results: *mut *mut pmix_info_t,
        nresults: *mut usize,
    ) {
        let answer = match client() {
            Ok(client) => client.query(array::read(present(queries)?, nqueries)?).wait()?,
            Err(status) => array::read(queries, nqueries).ok().and_then(InfoReply::of_library).ok_or(status)?,
        };
        hand_over(answer, results, nresults)
    }

    /// `PMIx_Query_info_nb`.
    fn PMIx_Query_info_nb(
        queries: *mut pmix_query_t,
        nqueries: usize,
        cbfunc: Option<pmix_info_cbfunc_t>,
        cbdata: *mut c_void,
    ) {
        start_answer(client()?.query(array::read(present(queries)?, nqueries)?), cbfunc, cbdata)
    }

    /// `PMIx_Log`.
    fn PMIx_Log(data: *const pmix_info_t, ndata: usize, directives: *const pmix_info_t, ndirs: usize) {
        client()?.log(array::read(present(data)?, ndata)?, array::read(directives, ndirs)?).wait()
    }

    /// `PMIx_Log_nb`.
    fn PMIx_Log_nb(
        data: *const pmix_info_t,
        ndata: usize,
        directives: *const pmix_info_t,
        ndirs: usize,
        cbfunc: Option<pmix_op_cbfunc_t>,
        cbdata: *mut c_void,
    ) {
        start(client()?.log(array::read(present(data)?, ndata)?, array::read(directives, ndirs)?), cbfunc, cbdata)
    }

    /// `PMIx_Job_control`.
    fn PMIx_Job_control(
        targets: *const pmix_proc_t,
        ntargets: usize,
        directives: *const pmix_info_t,
        ndirs: usize,
        results: *mut *mut pmix_info_t,
        nresults: *mut usize,
    ) {
        let answer = client()?.job_control(procs(targets, ntargets)?, array::read(directives, ndirs)?).wait()?;
        hand_over(answer, results, nresults)
    }

    /// `PMIx_Job_control_nb`.
    fn PMIx_Job_control_nb(
        targets: *const pmix_proc_t,
        ntargets: usize,
        directives: *const pmix_info_t,
        ndirs: usize,
        cbfunc: Option<pmix_info_cbfunc_t>,
        cbdata: *mut c_void,
    ) {
        let operation = client()?.job_control(procs(targets, ntargets)?, array::read(directives, ndirs)?);
        start_answer(operation, cbfunc, cbdata)
    }

    /// `PMIx_Allocation_request`.
    fn PMIx_Allocation_request(
        directive: pmix_alloc_directive_t,
        info: *mut pmix_info_t,
        ninfo: usize,
        results: *mut *mut pmix_info_t,
        nresults: *mut usize,
    ) {
        let answer = client()?.allocate(directive, array::read(info, ninfo)?).wait()?;
        hand_over(answer, results, nresults)
    }

    /// `PMIx_Allocation_request_nb`.
    fn PMIx_Allocation_request_nb(
        directive: pmix_alloc_directive_t,
        info: *mut pmix_info_t,
        ninfo: usize,
        cbfunc: Option<pmix_info_cbfunc_t>,
        cbdata: *mut c_void,
    ) {
        start_answer(client()?.allocate(directive, array::read(info, ninfo)?), cbfunc, cbdata)
    }

    /// `PMIx_Process_monitor`.
    fn PMIx_Process_monitor(
        monitor: *const pmix_info_t,
        error: pmix_status_t,
        directives: *const pmix_info_t,
        ndirs: usize,
        results: *mut *mut pmix_info_t,
        nresults: *mut usize,
    ) {
        let client = client()?;
        let monitor = pmix_info_t::read(present(monitor)?)?;
        let answer = client.monitor(monitor, Status(error), array::read(directives, ndirs)?).wait()?;
        hand_over(answer, results, nresults)
    }

    /// `PMIx_Process_monitor_nb`.
    fn PMIx_Process_monitor_nb(
        monitor: *const pmix_info_t,
        error: pmix_status_t,
        directives: *const pmix_info_t,
        ndirs: usize,
        cbfunc: Option<pmix_info_cbfunc_t>,
        cbdata: *mut c_void,
    ) {
        let client = client()?;
        let monitor = pmix_info_t::read(present(monitor)?)?;
        // As the macro of older headers says it: no thread is needed for an answer that nobody waits for.
        if cbfunc.is_none() && monitor.key.is(keys::SEND_HEARTBEAT) {
            return client.beat();
        }
        start_answer(client.monitor(monitor, Status(error), array::read(directives, ndirs)?), cbfunc, cbdata)
    }
}

call! {
    /// `PMIx_Heartbeat`: tells whoever monitors this process that it lives.
    fn PMIx_Heartbeat() {
        // Nobody waits for an answer; who monitors notices what does not come.
        let _ = client().and_then(|client| client.beat());
    }
}
