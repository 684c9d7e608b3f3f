//! What a host knows of fabrics, and what schedulers and controllers ask of it: sessions and blocks of resources.

use std::ffi::{c_char, c_void};
use std::{mem, ptr};

use pmix_client::InfoReply;
use pmix_dstore::model::{Info, Result, Status, Value, keys};

use super::{client, present, writable};
use crate::callback::{Callback, start, start_answer};
use crate::convert::array::{self, CArray};
use crate::convert::text;
use crate::entry::{code, status_call};
use crate::types::*;

/// A fabric of the caller's, which stays until the call on it has ended.
struct Fabric {
    at: *mut pmix_fabric_t,
    /// The infos of one that has not been registered before may be anything.
    is_registered: bool,
}

// SAFETY: the caller leaves the structure to the library until it is called back, on whatever thread.
unsafe impl Send for Fabric {}

impl Fabric {
    /// Puts what the host told of the fabric in the place of what was known of it, and takes its index from there.
    fn learn(&self, answer: InfoReply) -> Result<()> {
        let index = Info::find(&answer.infos, keys::FABRIC_INDEX).and_then(Value::as_u64);
        let (items, count) = CArray::<pmix_info_t>::new(&answer.infos)?.into_raw();
        // SAFETY: the structure is the caller's; where it has been registered, its infos are those that were written here.
        unsafe {
            let fabric = &mut *self.at;
            if self.is_registered {
                forget(fabric);
            }
            (fabric.info, fabric.ninfo) = (items, count);
            if let Some(index) = index {
                fabric.index = index as usize;
            }
        }
        answer.status.ok()
    }
}

/// Frees what is known of a fabric.
///
/// # Safety
/// Its infos are NULL, or an array from `malloc`.
unsafe fn forget(fabric: &mut pmix_fabric_t) {
    // SAFETY: the caller's promise.
    unsafe { array::free_array(mem::replace(&mut fabric.info, ptr::null_mut()), mem::take(&mut fabric.ninfo)) }
}

/// Starts a call that tells of a fabric, which is written before the callback comes.
///
/// # Errors
/// `BAD_PARAM` without a callback: nobody would know when the fabric may be read.
fn start_fabric(
    operation: pmix_client::Operation<InfoReply>,
    fabric: Fabric,
    cbfunc: Option<pmix_op_cbfunc_t>,
    cbdata: *mut c_void,
) -> Result<()> {
    let callback = Callback::new(cbfunc, cbdata);
    if !callback.is_some() {
        return Err(Status::ERR_BAD_PARAM);
    }
    operation.start(Box::new(move |answer| {
        let fabric = fabric;
        callback.call(Status(code(answer.and_then(|answer| fabric.learn(answer)))));
    }))
}

status_call! {
    /// `PMIx_Fabric_register`: what the host knows of fabrics comes into the structure.
    fn PMIx_Fabric_register(fabric: *mut pmix_fabric_t, directives: *const pmix_info_t, ndirs: usize) {
        let fabric = Fabric { at: writable(fabric)?, is_registered: false };
        fabric.learn(client()?.fabric_register(array::read(directives, ndirs)?).wait()?)
    }

    /// `PMIx_Fabric_register_nb`.
    fn PMIx_Fabric_register_nb(
        fabric: *mut pmix_fabric_t,
        directives: *const pmix_info_t,
        ndirs: usize,
        cbfunc: Option<pmix_op_cbfunc_t>,
        cbdata: *mut c_void,
    ) {
        let fabric = Fabric { at: writable(fabric)?, is_registered: false };
        start_fabric(client()?.fabric_register(array::read(directives, ndirs)?), fabric, cbfunc, cbdata)
    }

    /// `PMIx_Fabric_update`: the host is asked again.
    fn PMIx_Fabric_update(fabric: *mut pmix_fabric_t) {
        let fabric = Fabric { at: writable(fabric)?, is_registered: true };
        fabric.learn(client()?.fabric_update((*fabric.at).index as u64).wait()?)
    }

    /// `PMIx_Fabric_update_nb`.
    fn PMIx_Fabric_update_nb(fabric: *mut pmix_fabric_t, cbfunc: Option<pmix_op_cbfunc_t>, cbdata: *mut c_void) {
        let fabric = Fabric { at: writable(fabric)?, is_registered: true };
        start_fabric(client()?.fabric_update((*fabric.at).index as u64), fabric, cbfunc, cbdata)
    }

    /// `PMIx_Fabric_deregister`: frees what is known of the fabric.
    fn PMIx_Fabric_deregister(fabric: *mut pmix_fabric_t) {
        forget(&mut *writable(fabric)?);
        Ok(())
    }

    /// `PMIx_Fabric_deregister_nb`: is done when it returns, which its status says, and calls nothing back.
    fn PMIx_Fabric_deregister_nb(fabric: *mut pmix_fabric_t, _cbfunc: Option<pmix_op_cbfunc_t>, _cbdata: *mut c_void) {
        forget(&mut *writable(fabric)?);
        Err(Status::OPERATION_SUCCEEDED)
    }

    /// `PMIx_Session_control`. Without a callback it waits for the answer, whose infos nobody gets; its status says that all is done.
    fn PMIx_Session_control(
        session_id: u32,
        directives: *const pmix_info_t,
        ndirs: usize,
        cbfunc: Option<pmix_info_cbfunc_t>,
        cbdata: *mut c_void,
    ) {
        let operation = client()?.session_control(session_id, array::read(directives, ndirs)?);
        match cbfunc {
            Some(_) => start_answer(operation, cbfunc, cbdata),
            None => operation.wait()?.status.ok().and(Err(Status::OPERATION_SUCCEEDED)),
        }
    }

    /// `PMIx_Resource_block`.
    fn PMIx_Resource_block(
        directive: pmix_resource_block_directive_t,
        block: *mut c_char,
        res: *const pmix_resource_unit_t,
        nres: usize,
        info: *const pmix_info_t,
        ninfo: usize,
    ) {
        let (block, units) = (text::owned_string(present(block)?)?, array::read(res, nres)?);
        client()?.resource_block(directive, block, units, array::read(info, ninfo)?).wait()
    }

    /// `PMIx_Resource_block_nb`.
    fn PMIx_Resource_block_nb(
        directive: pmix_resource_block_directive_t,
        block: *mut c_char,
        res: *const pmix_resource_unit_t,
        nres: usize,
        info: *const pmix_info_t,
        ninfo: usize,
        cbfunc: Option<pmix_op_cbfunc_t>,
        cbdata: *mut c_void,
    ) {
        let (block, units) = (text::owned_string(present(block)?)?, array::read(res, nres)?);
        start(client()?.resource_block(directive, block, units, array::read(info, ninfo)?), cbfunc, cbdata)
    }
}
