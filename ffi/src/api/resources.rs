//! Requests to the host about fabrics, sessions and blocks of resources.

use std::ffi::{c_char, c_void};
use std::mem;
use std::ptr::{self, NonNull};

use pmix_client::InfoReply;
use pmix_dstore::model::{Info, Result, Status, Value, keys};

use super::{client, infos, present};
use crate::callback::{Callback, start, start_answer};
use crate::convert::array::{self, CArray};
use crate::convert::text;
use crate::entry::{code, status_call};
use crate::types::*;

/// A fabric of the caller's, which the caller leaves to the library until the call on it has ended.
struct Fabric {
    at: NonNull<pmix_fabric_t>,
    /// Whether the fabric has infos that the library wrote. Without them its infos may be anything.
    is_registered: bool,
}

// SAFETY: the caller leaves the structure to the library until the callback, which may come on any thread.
unsafe impl Send for Fabric {}

impl Fabric {
    /// A fabric whose former contents do not count.
    ///
    /// # Errors
    /// `BAD_PARAM` for NULL.
    ///
    /// # Safety
    /// `at` is NULL or a fabric that only the library uses for as long as the `Fabric` is there.
    unsafe fn unregistered(at: *mut pmix_fabric_t) -> Result<Fabric> {
        Ok(Fabric { at: NonNull::new(at).ok_or(Status::ERR_BAD_PARAM)?, is_registered: false })
    }

    /// A fabric that has been registered, and the index by which the host knows it.
    ///
    /// # Errors
    /// `BAD_PARAM` for NULL.
    ///
    /// # Safety
    /// As [`Fabric::unregistered`], and the fabric is initialised: its infos are NULL or an array from `malloc`.
    unsafe fn registered(at: *mut pmix_fabric_t) -> Result<(Fabric, u64)> {
        let at = NonNull::new(at).ok_or(Status::ERR_BAD_PARAM)?;
        // SAFETY: an initialised fabric, by the caller's promise.
        let index = unsafe { at.as_ref() }.index as u64;
        Ok((Fabric { at, is_registered: true }, index))
    }

    /// Replaces what was known of the fabric by what the host told, and takes the fabric's index from there.
    fn learn(mut self, answer: InfoReply) -> Result<()> {
        let index = Info::find(&answer.infos, keys::FABRIC_INDEX).and_then(Value::as_u64);
        let (items, count) = CArray::<pmix_info_t>::new(&answer.infos)?.into_raw();
        self.forget();
        // SAFETY: a fabric that only the library uses, as the caller of `unregistered` or `registered` promised.
        let fabric = unsafe { self.at.as_mut() };
        (fabric.info, fabric.ninfo) = (items, count);
        if let Some(index) = index {
            fabric.index = index as usize;
        }
        answer.status.ok()
    }

    /// Frees what is known of the fabric, if it is registered.
    fn forget(&mut self) {
        if !self.is_registered {
            return;
        }
        // SAFETY: a fabric that only the library uses, as the caller of `registered` promised.
        let fabric = unsafe { self.at.as_mut() };
        let (items, count) = (mem::replace(&mut fabric.info, ptr::null_mut()), mem::take(&mut fabric.ninfo));
        // SAFETY: the infos of a registered fabric are NULL or an array from `malloc`; the fabric has them no more.
        unsafe { array::free_array(items, count) }
    }
}

/// Starts a call whose answer is about a fabric. The fabric is written before the callback comes.
///
/// # Errors
/// `BAD_PARAM` without a callback: the caller would not know when it may read the fabric.
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
        callback.call(Status(code(answer.and_then(|answer| fabric.learn(answer)))));
    }))
}

status_call! {
    /// `PMIx_Fabric_register`: fills the structure with what the host knows of fabrics.
    fn PMIx_Fabric_register(fabric: *mut pmix_fabric_t, directives: *const pmix_info_t, ndirs: usize) {
        // SAFETY: `fabric` is NULL or a fabric, which the caller leaves to the library until the call has ended.
        let fabric = unsafe { Fabric::unregistered(fabric) }?;
        // SAFETY: `directives` is an array of `ndirs` infos.
        fabric.learn(client()?.fabric_register(unsafe { infos(directives, ndirs) }?).wait()?)
    }

    /// `PMIx_Fabric_register_nb`.
    fn PMIx_Fabric_register_nb(
        fabric: *mut pmix_fabric_t,
        directives: *const pmix_info_t,
        ndirs: usize,
        cbfunc: Option<pmix_op_cbfunc_t>,
        cbdata: *mut c_void,
    ) {
        // SAFETY: `fabric` is NULL or a fabric, which the caller leaves to the library until the call has ended.
        let fabric = unsafe { Fabric::unregistered(fabric) }?;
        // SAFETY: `directives` is an array of `ndirs` infos.
        let operation = client()?.fabric_register(unsafe { infos(directives, ndirs) }?);
        start_fabric(operation, fabric, cbfunc, cbdata)
    }

    /// `PMIx_Fabric_update`: asks the host again.
    fn PMIx_Fabric_update(fabric: *mut pmix_fabric_t) {
        // SAFETY: `fabric` is NULL or a fabric, which the caller leaves to the library until the call has ended.
        let (fabric, index) = unsafe { Fabric::registered(fabric) }?;
        let answer = client()?.fabric_update(index).wait()?;
        fabric.learn(answer)
    }

    /// `PMIx_Fabric_update_nb`.
    fn PMIx_Fabric_update_nb(fabric: *mut pmix_fabric_t, cbfunc: Option<pmix_op_cbfunc_t>, cbdata: *mut c_void) {
        // SAFETY: `fabric` is NULL or a fabric, which the caller leaves to the library until the call has ended.
        let (fabric, index) = unsafe { Fabric::registered(fabric) }?;
        start_fabric(client()?.fabric_update(index), fabric, cbfunc, cbdata)
    }

    /// `PMIx_Fabric_deregister`: frees what is known of the fabric.
    fn PMIx_Fabric_deregister(fabric: *mut pmix_fabric_t) {
        // SAFETY: `fabric` is NULL or a fabric, which the caller leaves to the library until the call has ended.
        let (mut fabric, _index) = unsafe { Fabric::registered(fabric) }?;
        fabric.forget();
        Ok(())
    }

    /// `PMIx_Fabric_deregister_nb`: is done when it returns, answers `OPERATION_SUCCEEDED`, and does not call back.
    fn PMIx_Fabric_deregister_nb(fabric: *mut pmix_fabric_t, _cbfunc: Option<pmix_op_cbfunc_t>, _cbdata: *mut c_void) {
        // SAFETY: `fabric` is NULL or a fabric, which the caller leaves to the library until the call has ended.
        let (mut fabric, _index) = unsafe { Fabric::registered(fabric) }?;
        fabric.forget();
        Err(Status::OPERATION_SUCCEEDED)
    }

    /// `PMIx_Session_control`. Without a callback it waits for the answer, drops its infos, and answers `OPERATION_SUCCEEDED`.
    fn PMIx_Session_control(
        session_id: u32,
        directives: *const pmix_info_t,
        ndirs: usize,
        cbfunc: Option<pmix_info_cbfunc_t>,
        cbdata: *mut c_void,
    ) {
        // SAFETY: `directives` is an array of `ndirs` infos.
        let operation = client()?.session_control(session_id, unsafe { infos(directives, ndirs) }?);
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
        // SAFETY: `block` is NULL or a C string.
        let block = unsafe { text::owned_string(present(block)?) }?;
        // SAFETY: `res` is an array of `nres` units.
        let units = unsafe { array::read(res, nres) }?;
        // SAFETY: `info` is an array of `ninfo` infos.
        client()?.resource_block(directive, block, units, unsafe { infos(info, ninfo) }?).wait()
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
        // SAFETY: `block` is NULL or a C string.
        let block = unsafe { text::owned_string(present(block)?) }?;
        // SAFETY: `res` is an array of `nres` units.
        let units = unsafe { array::read(res, nres) }?;
        // SAFETY: `info` is an array of `ninfo` infos.
        start(client()?.resource_block(directive, block, units, unsafe { infos(info, ninfo) }?), cbfunc, cbdata)
    }
}
