//! Questions and requests to the host: queries, logs, job control.

use std::ffi::c_void;

use pmix_client::InfoReply;
use pmix_dstore::model::{Status, keys};

use super::{InfoResults, client, infos, object, present, procs};
use crate::callback::{start, start_answer};
use crate::convert::array;
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
        // SAFETY: `queries` is NULL or an array of `nqueries` queries.
        let read = || unsafe { array::read(queries, nqueries) };
        let answer = match client() {
            Ok(client) => {
                present(queries)?;
                client.query(read()?).wait()?
            }
            Err(status) => read().ok().and_then(InfoReply::of_library).ok_or(status)?,
        };
        // SAFETY: `results` and `nresults` are NULL or places for the results.
        unsafe { InfoResults::new(results, nresults) }.hand_over(answer)
    }

    /// `PMIx_Query_info_nb`.
    fn PMIx_Query_info_nb(
        queries: *mut pmix_query_t,
        nqueries: usize,
        cbfunc: Option<pmix_info_cbfunc_t>,
        cbdata: *mut c_void,
    ) {
        let client = client()?;
        // SAFETY: `queries` is NULL or an array of `nqueries` queries.
        let queries = unsafe { array::read(present(queries)?, nqueries) }?;
        start_answer(client.query(queries), cbfunc, cbdata)
    }

    /// `PMIx_Log`.
    fn PMIx_Log(data: *const pmix_info_t, ndata: usize, directives: *const pmix_info_t, ndirs: usize) {
        let client = client()?;
        // SAFETY: `data` is NULL or an array of `ndata` infos.
        let data = unsafe { infos(present(data)?, ndata) }?;
        // SAFETY: `directives` is an array of `ndirs` infos.
        client.log(data, unsafe { infos(directives, ndirs) }?).wait()
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
        let client = client()?;
        // SAFETY: `data` is NULL or an array of `ndata` infos.
        let data = unsafe { infos(present(data)?, ndata) }?;
        // SAFETY: `directives` is an array of `ndirs` infos.
        start(client.log(data, unsafe { infos(directives, ndirs) }?), cbfunc, cbdata)
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
        let client = client()?;
        // SAFETY: `targets` is NULL or an array of `ntargets` processes.
        let targets = unsafe { procs(targets, ntargets) }?;
        // SAFETY: `directives` is an array of `ndirs` infos.
        let answer = client.job_control(targets, unsafe { infos(directives, ndirs) }?).wait()?;
        // SAFETY: `results` and `nresults` are NULL or places for the results.
        unsafe { InfoResults::new(results, nresults) }.hand_over(answer)
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
        let client = client()?;
        // SAFETY: `targets` is NULL or an array of `ntargets` processes.
        let targets = unsafe { procs(targets, ntargets) }?;
        // SAFETY: `directives` is an array of `ndirs` infos.
        start_answer(client.job_control(targets, unsafe { infos(directives, ndirs) }?), cbfunc, cbdata)
    }

    /// `PMIx_Allocation_request`.
    fn PMIx_Allocation_request(
        directive: pmix_alloc_directive_t,
        info: *mut pmix_info_t,
        ninfo: usize,
        results: *mut *mut pmix_info_t,
        nresults: *mut usize,
    ) {
        // SAFETY: `info` is an array of `ninfo` infos.
        let answer = client()?.allocate(directive, unsafe { infos(info, ninfo) }?).wait()?;
        // SAFETY: `results` and `nresults` are NULL or places for the results.
        unsafe { InfoResults::new(results, nresults) }.hand_over(answer)
    }

    /// `PMIx_Allocation_request_nb`.
    fn PMIx_Allocation_request_nb(
        directive: pmix_alloc_directive_t,
        info: *mut pmix_info_t,
        ninfo: usize,
        cbfunc: Option<pmix_info_cbfunc_t>,
        cbdata: *mut c_void,
    ) {
        // SAFETY: `info` is an array of `ninfo` infos.
        start_answer(client()?.allocate(directive, unsafe { infos(info, ninfo) }?), cbfunc, cbdata)
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
        // SAFETY: `monitor` is NULL or an info.
        let monitor = unsafe { object(monitor) }?;
        // SAFETY: `directives` is an array of `ndirs` infos.
        let answer = client.monitor(monitor, Status(error), unsafe { infos(directives, ndirs) }?).wait()?;
        // SAFETY: `results` and `nresults` are NULL or places for the results.
        unsafe { InfoResults::new(results, nresults) }.hand_over(answer)
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
        // SAFETY: `monitor` is NULL or an info.
        let monitor = unsafe { object(monitor) }?;
        // The heartbeat macro of older headers calls this without a callback; no thread has to wait for an answer then.
        if cbfunc.is_none() && monitor.key.is(keys::SEND_HEARTBEAT) {
            return client.beat();
        }
        // SAFETY: `directives` is an array of `ndirs` infos.
        let operation = client.monitor(monitor, Status(error), unsafe { infos(directives, ndirs) }?);
        start_answer(operation, cbfunc, cbdata)
    }
}

call! {
    /// `PMIx_Heartbeat`: tells the monitor of this process that the process lives.
    fn PMIx_Heartbeat() {
        // The caller gets no status. The monitor notices a heartbeat that does not come.
        let _ = client().and_then(|client| client.beat());
    }
}
