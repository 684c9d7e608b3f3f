//! Output of other processes, and input for them.

use std::ffi::c_void;
use std::sync::Arc;

use pmix_client::output::IoDelivery;
use pmix_client::output::{OutputHandler, STDIN};
use pmix_client::process;
use pmix_dstore::model::{Bytes, Result, Status};
use pmix_server::process::server;

use super::server::done;
use super::{client, infos, object, optional_object};
use crate::callback::{Callback, start};
use crate::convert::array::{self, CArray};
use crate::entry::status_call;
use crate::types::*;

/// A handler of C code, which may read its arguments until it returns.
fn handler(function: pmix_iof_cbfunc_t) -> OutputHandler {
    Arc::new(move |number, output: IoDelivery| {
        let channel = output.channel;
        let arrays = || {
            Ok((
                CArray::<pmix_proc_t>::new(std::slice::from_ref(&output.source))?,
                CArray::<pmix_byte_object_t>::new(&[Bytes::copy_of(&output.data)?])?,
                CArray::<pmix_info_t>::new(&output.infos)?,
            ))
        };
        let arrays: Result<_> = arrays();
        // Without memory for the arguments, the handler cannot be called.
        let Ok((source, data, infos)) = arrays else { return };
        // SAFETY: the program registered the function to be called with output; the arrays outlive the call.
        unsafe { function(number as usize, channel, source.as_ptr(), data.as_ptr(), infos.as_ptr(), infos.len()) }
    })
}

status_call! {
    /// `PMIx_IOF_pull`: the callback gets the pull's number. Without a callback the call blocks and returns that number; in a
    /// server it returns `OPERATION_SUCCEEDED`. Without a handler the library writes the output itself.
    fn PMIx_IOF_pull(
        procs: *const pmix_proc_t,
        nprocs: usize,
        directives: *const pmix_info_t,
        ndirs: usize,
        channel: pmix_iof_channel_t,
        cbfunc: Option<pmix_iof_cbfunc_t>,
        regcbfunc: Option<pmix_hdlr_reg_cbfunc_t>,
        regcbdata: *mut c_void,
    ) {
        let client = client()?;
        // SAFETY: `procs` is an array of `nprocs` processes.
        let procs = unsafe { array::read(procs, nprocs) }?;
        // SAFETY: `directives` is an array of `ndirs` infos.
        let infos = unsafe { infos(directives, ndirs) }?;
        let operation = client.pull_output(procs, infos, channel, cbfunc.map(handler));
        let callback = Callback::new(regcbfunc, regcbdata);
        if callback.is_some() {
            return operation.start(Box::new(move |result| callback.call(result.map(|number| number as usize))));
        }
        let number = operation.wait()?;
        if process::servers().is_none() && server().is_ok() {
            return Err(Status::OPERATION_SUCCEEDED);
        }
        // The caller gets the pull's number as its status, and `Status::ok` treats every status but success as an error.
        match i32::try_from(number) {
            Ok(number) => Status(number).ok(),
            Err(_) => Err(Status::ERR_OUT_OF_RESOURCE),
        }
    }

    /// `PMIx_IOF_deregister`: blocks without a callback.
    fn PMIx_IOF_deregister(
        iofhdlr: usize,
        directives: *const pmix_info_t,
        ndirs: usize,
        cbfunc: Option<pmix_op_cbfunc_t>,
        cbdata: *mut c_void,
    ) {
        // SAFETY: `directives` is an array of `ndirs` infos.
        let operation = client()?.stop_output(iofhdlr as u64, unsafe { infos(directives, ndirs) }?);
        if cbfunc.is_some() { start(operation, cbfunc, cbdata) } else { operation.wait() }
    }

    /// `PMIx_IOF_push`: blocks without a callback. Without data the directives say what to do with this process's own input, and
    /// the answer is `OPERATION_SUCCEEDED`.
    fn PMIx_IOF_push(
        targets: *const pmix_proc_t,
        ntargets: usize,
        bo: *mut pmix_byte_object_t,
        directives: *const pmix_info_t,
        ndirs: usize,
        cbfunc: Option<pmix_op_cbfunc_t>,
        cbdata: *mut c_void,
    ) {
        let client = client()?;
        // SAFETY: `bo` is NULL or a byte object.
        let data = unsafe { optional_object(bo) }?.map(Bytes::into_vec).transpose()?;
        let is_own = data.is_none();
        // SAFETY: `targets` is an array of `ntargets` processes.
        let targets = unsafe { array::read(targets, ntargets) }?;
        // SAFETY: `directives` is an array of `ndirs` infos.
        let operation = client.push_input(targets, data, unsafe { infos(directives, ndirs) }?);
        if is_own {
            operation.wait()?;
            return Err(Status::OPERATION_SUCCEEDED);
        }
        if cbfunc.is_some() { start(operation, cbfunc, cbdata) } else { operation.wait() }
    }

    /// `PMIx_server_IOF_deliver`: delivers output to the processes that asked for it. Without a callback it blocks and answers
    /// `OPERATION_SUCCEEDED`.
    fn PMIx_server_IOF_deliver(
        source: *const pmix_proc_t,
        channel: pmix_iof_channel_t,
        bo: *const pmix_byte_object_t,
        info: *const pmix_info_t,
        ninfo: usize,
        cbfunc: Option<pmix_op_cbfunc_t>,
        cbdata: *mut c_void,
    ) {
        let server = server()?;
        // SAFETY: `source` is NULL or a process.
        let source = unsafe { object(source) }?;
        // SAFETY: `bo` is NULL or a byte object.
        let data = unsafe { object(bo) }?.into_vec()?;
        // SAFETY: `info` is an array of `ninfo` infos.
        let infos = unsafe { infos(info, ninfo) }?;
        server.deliver_output(source, channel, data, infos, done(cbfunc, cbdata)).ok()
    }

    /// `PMIx_server_IOF_flow_control`: tells the processes that push input, or one of them, to stop or to go on. Without a callback it
    /// blocks and answers `OPERATION_SUCCEEDED`.
    fn PMIx_server_IOF_flow_control(
        source: *const pmix_proc_t,
        channel: pmix_iof_channel_t,
        xoff: bool,
        directives: *const pmix_info_t,
        ndirs: usize,
        cbfunc: Option<pmix_op_cbfunc_t>,
        cbdata: *mut c_void,
    ) {
        let server = server()?;
        // SAFETY: `source` is NULL or a process.
        let source = unsafe { optional_object(source) }?;
        // This error is the status of the call: the callback does not come.
        if channel & STDIN == 0 {
            return Err(Status::ERR_NOT_SUPPORTED);
        }
        // SAFETY: `directives` is an array of `ndirs` infos.
        let infos = unsafe { infos(directives, ndirs) }?;
        server.control_input(source, channel, xoff, infos, done(cbfunc, cbdata)).ok()
    }
}
