//! The callbacks that C code passes, with their data.

use std::ffi::{c_char, c_void};
use std::ptr;

use pmix_client::{InfoReply, Operation};
use pmix_dstore::model::{DeviceDistance, Info, Nspace, Pdata, Proc, Rank, Result, Status, Value};

use crate::convert::array::CArray;
use crate::entry::code;
use crate::registry::{Registry, from_cbdata, to_cbdata};
use crate::types::*;

/// A function of C code and the data that it wants back.
#[derive(Clone, Copy)]
pub struct Callback<F> {
    function: Option<F>,
    data: *mut c_void,
}

// SAFETY: the C interface allows calling callbacks with their data on any thread.
unsafe impl<F> Send for Callback<F> {}
// SAFETY: as for Send; the pair itself is never changed.
unsafe impl<F> Sync for Callback<F> {}

impl<F> Callback<F> {
    /// A function and its data. Without a function, calls do nothing.
    pub fn new(function: Option<F>, data: *mut c_void) -> Callback<F> {
        Callback { function, data }
    }

    /// Whether there is a function to call.
    pub fn is_some(&self) -> bool {
        self.function.is_some()
    }
}

impl Callback<pmix_op_cbfunc_t> {
    /// Calls it with a status.
    pub fn call(self, status: Status) {
        if let Some(function) = self.function {
            // SAFETY: C code passed the function to be called with this data.
            unsafe { function(status.0, self.data) }
        }
    }
}

impl Callback<pmix_release_cbfunc_t> {
    /// Tells C code that the library does not need its memory any more.
    pub fn release(self) {
        if let Some(function) = self.function {
            // SAFETY: C code passed the function to be called with this data.
            unsafe { function(self.data) }
        }
    }
}

impl Callback<pmix_hdlr_reg_cbfunc_t> {
    /// Calls it with the number of what was registered.
    pub fn call(self, result: Result<usize>) {
        if let Some(function) = self.function {
            // SAFETY: C code passed the function to be called with this data.
            unsafe { function(code(result), result.unwrap_or(usize::MAX), self.data) }
        }
    }
}

impl Callback<pmix_value_cbfunc_t> {
    /// Calls it with a value that it may use until it returns.
    pub fn call(self, result: Result<Value>) {
        let Some(function) = self.function else { return };
        let array = result.and_then(|value| CArray::<pmix_value_t>::new(&[value]));
        let value = array.as_ref().map_or(ptr::null_mut(), CArray::as_ptr);
        // SAFETY: C code passed the function to be called with this data; the value outlives the call.
        unsafe { function(code(array.as_ref().map_err(|status| *status)), value, self.data) }
    }
}

impl Callback<pmix_lookup_cbfunc_t> {
    /// Calls it with published values that it may use until it returns.
    pub fn call(self, result: Result<Vec<Pdata>>) {
        let Some(function) = self.function else { return };
        let array = result.and_then(|found| CArray::<pmix_pdata_t>::new(&found));
        let (data, count) = array.as_ref().map_or((ptr::null_mut(), 0), |array| (array.as_ptr(), array.len()));
        // SAFETY: C code passed the function to be called with this data; the values outlive the call.
        unsafe { function(code(array.as_ref().map_err(|status| *status)), data, count, self.data) }
    }
}

impl Callback<pmix_spawn_cbfunc_t> {
    /// Calls it with the name of the new job.
    pub fn call(self, result: Result<Nspace>) {
        let Some(function) = self.function else { return };
        let mut name: pmix_nspace_t = [0; 256];
        if let Ok(nspace) = &result {
            // SAFETY: the buffer has the size of a namespace.
            unsafe { crate::convert::text::write_name(name.as_mut_ptr(), name.len(), nspace.as_bytes()) }
        }
        // SAFETY: C code passed the function to be called with this data; the name outlives the call.
        unsafe { function(code(result), name.as_mut_ptr(), self.data) }
    }
}

impl Callback<pmix_dstore_connect_cbfunc_t> {
    /// Calls it with the caller's new name, whose namespace it may use until it returns; without a name, with an empty one.
    pub fn call(self, result: Result<Option<Proc>>) {
        let Some(function) = self.function else { return };
        let mut name: pmix_nspace_t = [0; 256];
        let status = code(result.as_ref().map_err(|status| *status));
        let me = result.ok().flatten();
        if let Some(me) = &me {
            // SAFETY: the buffer has the size of a namespace.
            unsafe { crate::convert::text::write_name(name.as_mut_ptr(), name.len(), me.nspace.as_bytes()) }
        }
        // The RFC's callback has an int: the undefined rank is -1.
        let rank = me.map_or(Rank::UNDEF, |me| me.rank).0 as i32;
        // SAFETY: C code passed the function to be called with this data; the name outlives the call.
        unsafe { function(status, name.as_mut_ptr(), rank, self.data) }
    }
}

impl Callback<pmix_info_cbfunc_t> {
    /// Calls it with infos that it may use until it calls the release function.
    pub fn call(self, result: Result<InfoReply>) {
        let Some(function) = self.function else { return };
        let status = result.as_ref().map_or_else(|status| *status, |answer| answer.status);
        let infos = result.map(|answer| answer.infos).unwrap_or_default();
        let (status, array) = match CArray::<pmix_info_t>::new(&infos) {
            Ok(array) => (status, array),
            Err(failure) => (failure, CArray::default()),
        };
        let (items, count) = (array.as_ptr(), array.len());
        if array.is_empty() {
            // SAFETY: C code passed the function to be called with this data; there is nothing to release.
            unsafe { function(status.0, items, count, self.data, None, ptr::null_mut()) }
        } else {
            let release = to_cbdata(RELEASABLE.keep(array));
            // SAFETY: C code passed the function to be called with this data; the infos live until released.
            unsafe { function(status.0, items, count, self.data, Some(release_infos), release) }
        }
    }
}

impl Callback<pmix_setup_application_cbfunc_t> {
    /// Calls it with infos that it may use until it calls the function that it is given.
    pub fn call(self, infos: &[Info]) {
        let Some(function) = self.function else { return };
        let (status, array) = match CArray::<pmix_info_t>::new(infos) {
            Ok(array) => (Status::SUCCESS, array),
            Err(failure) => (failure, CArray::default()),
        };
        let (items, count) = (array.as_ptr(), array.len());
        let release = to_cbdata(RELEASABLE.keep(array));
        // SAFETY: C code passed the function to be called with this data; the infos live until released.
        unsafe { function(status.0, items, count, self.data, Some(release_setup), release) }
    }
}

impl Callback<pmix_credential_cbfunc_t> {
    /// Calls it with a credential and its infos, which it may use until it returns.
    pub fn call(self, result: Result<(Vec<u8>, Vec<Info>)>) {
        let Some(function) = self.function else { return };
        let arrays = result.and_then(|(credential, infos)| {
            Ok((CArray::<pmix_byte_object_t>::new(&[credential.into()])?, CArray::<pmix_info_t>::new(&infos)?))
        });
        let status = code(arrays.as_ref().map_err(|status| *status));
        let (credential, infos) = arrays.unwrap_or_default();
        // SAFETY: C code passed the function to be called with this data; the arrays outlive the call.
        unsafe { function(status, credential.as_ptr(), infos.as_ptr(), infos.len(), self.data) }
    }
}

impl Callback<pmix_validation_cbfunc_t> {
    /// Calls it with infos that it may use until it returns.
    pub fn call(self, result: Result<InfoReply>) {
        let Some(function) = self.function else { return };
        let status = result.as_ref().map_or_else(|status| *status, |answer| answer.status);
        let infos = result.map(|answer| answer.infos).unwrap_or_default();
        let (status, infos) = match CArray::<pmix_info_t>::new(&infos) {
            Ok(infos) => (status, infos),
            Err(failure) => (failure, CArray::default()),
        };
        // SAFETY: C code passed the function to be called with this data; the infos outlive the call.
        unsafe { function(status.0, infos.as_ptr(), infos.len(), self.data) }
    }
}

impl Callback<pmix_dmodex_response_fn_t> {
    /// Calls it with packed data that it may use until it returns.
    pub fn call(self, status: Status, mut data: Vec<u8>) {
        let Some(function) = self.function else { return };
        let bytes = if data.is_empty() { ptr::null_mut() } else { data.as_mut_ptr().cast::<c_char>() };
        // SAFETY: C code passed the function to be called with this data; the bytes outlive the call.
        unsafe { function(status.0, bytes, data.len(), self.data) }
    }
}

impl Callback<pmix_device_dist_cbfunc_t> {
    /// Calls it with distances that it may use until it calls the release function.
    pub fn call(self, distances: &[DeviceDistance]) {
        let Some(function) = self.function else { return };
        let (status, array) = match CArray::<pmix_device_distance_t>::new(distances) {
            Ok(array) => (Status::SUCCESS, array),
            Err(failure) => (failure, CArray::default()),
        };
        let (items, count) = (array.as_ptr(), array.len());
        let release = to_cbdata(DISTANCES.keep(array));
        // SAFETY: C code passed the function to be called with this data; the distances live until released.
        unsafe { function(status.0, items, count, self.data, Some(release_distances), release) }
    }
}

/// Distances that C code uses until it releases them.
static DISTANCES: Registry<CArray<pmix_device_distance_t>> = Registry::new();

/// Frees distances that a callback was given.
unsafe extern "C" fn release_distances(cbdata: *mut c_void) {
    crate::entry::guard("release of distances", || drop(DISTANCES.take(from_cbdata(cbdata))));
}

/// Infos that C code uses until it releases them.
static RELEASABLE: Registry<CArray<pmix_info_t>> = Registry::new();

/// Frees infos that a callback was given.
unsafe extern "C" fn release_infos(cbdata: *mut c_void) {
    crate::entry::guard("release of infos", || drop(RELEASABLE.take(from_cbdata(cbdata))));
}

/// The same as a function that gets a status, too.
unsafe extern "C" fn release_setup(_status: pmix_status_t, cbdata: *mut c_void) {
    // SAFETY: the caller passes the data of the release, which is all that `release_infos` uses.
    unsafe { release_infos(cbdata) }
}

/// Starts an operation without a result for C code.
///
/// # Errors
/// The status where it cannot be started; the callback is not called then.
pub fn start(operation: Operation<()>, cbfunc: Option<pmix_op_cbfunc_t>, cbdata: *mut c_void) -> Result<()> {
    let callback = Callback::new(cbfunc, cbdata);
    operation.start(Box::new(move |result| callback.call(Status(code(result)))))
}

/// Starts an operation whose result is infos.
///
/// # Errors
/// As [`start`].
pub fn start_answer(
    operation: Operation<InfoReply>,
    cbfunc: Option<pmix_info_cbfunc_t>,
    cbdata: *mut c_void,
) -> Result<()> {
    let callback = Callback::new(cbfunc, cbdata);
    operation.start(Box::new(move |result| callback.call(result)))
}
