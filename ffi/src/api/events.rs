//! Events: handlers of C code, and notifying others.

use std::ffi::c_void;
use std::sync::Arc;

use pmix_client::{Event, EventDone, EventHandler, HandlerId};
use pmix_dstore::model::{Info, Result, Status};
use pmix_server::process::server;

use super::server::done;
use super::{client, infos, optional_object};
use crate::callback::{Callback, start};
use crate::convert::array::{self, CArray};
use crate::entry::{guard_call, status_call};
use crate::registry::{Registry, from_cbdata, to_cbdata};
use crate::types::*;

/// The arguments of a handler of C code, which may read them until it is done.
struct Arguments {
    source: CArray<pmix_proc_t>,
    infos: CArray<pmix_info_t>,
    results: CArray<pmix_info_t>,
}

impl Arguments {
    fn new(event: &Event) -> Result<Arguments> {
        Ok(Arguments {
            source: CArray::new(std::slice::from_ref(&event.source))?,
            infos: CArray::new(&event.infos)?,
            results: CArray::new(&event.results)?,
        })
    }
}

/// Handlers that have been called and are not done.
static RUNNING: Registry<(EventDone, Arc<Arguments>)> = Registry::new();

/// A handler of C code. Without a function, each event goes on to the next handler.
fn handler(function: Option<pmix_notification_fn_t>) -> EventHandler {
    Arc::new(move |id: HandlerId, event: Event, done: EventDone| {
        let Some(function) = function else { return done.finish(Status::SUCCESS, Vec::new()) };
        let arguments = match Arguments::new(&event) {
            Ok(arguments) => Arc::new(arguments),
            Err(status) => return done.finish(status, Vec::new()),
        };
        // This function keeps a share of the arguments: a handler may call `handler_done` and read them until it returns.
        let running = RUNNING.keep((done, arguments.clone()));
        // SAFETY: the program registered the function to be called with events. The arguments live until it has returned and has
        // called `handler_done`.
        unsafe {
            function(
                id,
                event.status.0,
                arguments.source.as_ptr(),
                arguments.infos.as_ptr(),
                arguments.infos.len(),
                arguments.results.as_ptr(),
                arguments.results.len(),
                Some(handler_done),
                to_cbdata(running),
            )
        }
    })
}

/// What a handler calls when it is done.
unsafe extern "C" fn handler_done(
    status: pmix_status_t,
    results: *mut pmix_info_t,
    nresults: usize,
    cbfunc: Option<pmix_op_cbfunc_t>,
    thiscbdata: *mut c_void,
    notification_cbdata: *mut c_void,
) {
    guard_call("end of an event handler", || {
        // SAFETY: `results` is an array of `nresults` infos, which the handler keeps until `cbfunc` is called.
        let results: Result<Vec<Info>> = unsafe { array::read(results, nresults) };
        if let Some((done, _arguments)) = RUNNING.take(from_cbdata(notification_cbdata)) {
            done.finish(Status(status), results.unwrap_or_default());
        }
    });
    // After the library's own call has ended: the handler's callback may wait for another callback, and callbacks come only when all
    // calls of this thread have ended.
    Callback::new(cbfunc, thiscbdata).call(Status::SUCCESS);
}

status_call! {
    /// `PMIx_Register_event_handler`: with a callback for the handler's number; without one it blocks and answers the
    /// number itself.
    fn PMIx_Register_event_handler(
        codes: *mut pmix_status_t,
        ncodes: usize,
        info: *mut pmix_info_t,
        ninfo: usize,
        evhdlr: Option<pmix_notification_fn_t>,
        cbfunc: Option<pmix_hdlr_reg_cbfunc_t>,
        cbdata: *mut c_void,
    ) {
        let ncodes = if codes.is_null() { 0 } else { ncodes };
        // SAFETY: `codes` is an array of `ncodes` codes.
        let codes = (0..ncodes).map(|index| Status(unsafe { *codes.add(index) })).collect();
        let client = client()?;
        // SAFETY: `info` is an array of `ninfo` infos.
        let infos = unsafe { infos(info, ninfo) }?;
        let operation = client.register_event_handler(codes, infos, handler(evhdlr));
        let callback = Callback::new(cbfunc, cbdata);
        if callback.is_some() {
            return operation.start(Box::new(move |result| callback.call(result)));
        }
        // The caller gets the handler's number as its status, and `Status::ok` makes an error of each status but success.
        match i32::try_from(operation.wait()?) {
            Ok(number) => Status(number).ok(),
            Err(_) => Err(Status::ERR_EVENT_REGISTRATION),
        }
    }

    /// `PMIx_Deregister_event_handler`: blocks without a callback.
    fn PMIx_Deregister_event_handler(
        evhdlr_ref: usize,
        cbfunc: Option<pmix_op_cbfunc_t>,
        cbdata: *mut c_void,
    ) {
        let operation = client()?.deregister_event_handler(evhdlr_ref);
        if cbfunc.is_some() { start(operation, cbfunc, cbdata) } else { operation.wait() }
    }

    /// `PMIx_Notify_event`: blocks without a callback. Without a source the caller is the source.
    fn PMIx_Notify_event(
        status: pmix_status_t,
        source: *const pmix_proc_t,
        range: pmix_data_range_t,
        info: *const pmix_info_t,
        ninfo: usize,
        cbfunc: Option<pmix_op_cbfunc_t>,
        cbdata: *mut c_void,
    ) {
        let client = client()?;
        // SAFETY: `source` is NULL or a process.
        let source = unsafe { optional_object(source) }?.unwrap_or_else(|| client.me().clone());
        // SAFETY: `info` is an array of `ninfo` infos.
        let infos = unsafe { infos(info, ninfo) }?;
        // A host forwards events of other processes to its clients.
        if let Ok(server) = server() {
            return match server.notify_event(Status(status), source, range, infos, done(cbfunc, cbdata)) {
                Status::OPERATION_SUCCEEDED => Ok(()),
                status => status.ok(),
            };
        }
        let operation = client.notify_event(Status(status), source, range, infos);
        if cbfunc.is_some() { start(operation, cbfunc, cbdata) } else { operation.wait() }
    }
}

#[cfg(test)]
mod tests {
    use std::ptr;
    use std::sync::atomic::{AtomicU32, Ordering};

    use pmix_client::Returned;

    use super::*;

    /// 1 for a callback outside of any call, 2 for one inside.
    static CAME: AtomicU32 = AtomicU32::new(0);

    unsafe extern "C" fn came(_status: pmix_status_t, _cbdata: *mut c_void) {
        CAME.store(if Returned::of_this_call().is_none() { 1 } else { 2 }, Ordering::Relaxed);
    }

    #[test]
    fn a_handler_that_is_done_is_called_back_outside_of_any_call() {
        // SAFETY: no results, and a handler that is not running.
        unsafe { handler_done(0, ptr::null_mut(), 0, Some(came), ptr::null_mut(), ptr::null_mut()) };
        assert_eq!(CAME.load(Ordering::Relaxed), 1);
    }
}
