//! Publishing values for other jobs and looking them up.

use std::ffi::{CString, c_char, c_void};

use pmix_dstore::model::{Pdata, Result, Status};

use super::{client, writable};
use crate::callback::{Callback, fill, start};
use crate::convert::{array, text};
use crate::entry::status_call;
use crate::types::*;

/// The keys of the values that a lookup is to fill in.
///
/// # Safety
/// `data` is an array of `ndata` entries whose keys are set.
unsafe fn wanted_keys(data: *const pmix_pdata_t, ndata: usize) -> Result<Vec<CString>> {
    let keys = (0..ndata).map(|index| {
        // SAFETY: the caller's promise.
        let key = unsafe { text::key_text((&raw const (*data.add(index)).key).cast()) }?;
        CString::new(key).map_err(|_| Status::ERR_BAD_PARAM)
    });
    keys.collect()
}

/// Fills in what was found; the other entries stay as they are.
///
/// # Safety
/// As [`wanted_keys`], and the entries are writable.
unsafe fn fill_found(data: *mut pmix_pdata_t, keys: &[CString], found: &[Pdata]) -> Result<()> {
    for (index, key) in keys.iter().enumerate() {
        if let Some(pdata) = found.iter().find(|pdata| pdata.key.as_bytes() == key.as_bytes()) {
            // SAFETY: there is an entry for every key.
            unsafe { fill(pdata, data.add(index)) }?;
        }
    }
    Ok(())
}

status_call! {
    /// `PMIx_Publish`.
    fn PMIx_Publish(info: *const pmix_info_t, ninfo: usize) {
        client()?.publish(array::read(info, ninfo)?).wait()
    }

    /// `PMIx_Publish_nb`.
    fn PMIx_Publish_nb(
        info: *const pmix_info_t,
        ninfo: usize,
        cbfunc: Option<pmix_op_cbfunc_t>,
        cbdata: *mut c_void,
    ) {
        start(client()?.publish(array::read(info, ninfo)?), cbfunc, cbdata)
    }

    /// `PMIx_Lookup`: fills in publishers and values of the keys in `data`.
    fn PMIx_Lookup(data: *mut pmix_pdata_t, ndata: usize, info: *const pmix_info_t, ninfo: usize) {
        let client = client()?;
        let keys = wanted_keys(writable(data)?, ndata)?;
        let found = client.lookup(keys.clone(), array::read(info, ninfo)?).wait()?;
        fill_found(data, &keys, &found)
    }

    /// `PMIx_Lookup_nb`.
    fn PMIx_Lookup_nb(
        keys: *mut *mut c_char,
        info: *const pmix_info_t,
        ninfo: usize,
        cbfunc: Option<pmix_lookup_cbfunc_t>,
        cbdata: *mut c_void,
    ) {
        let callback = Callback::new(cbfunc, cbdata);
        let operation = client()?.lookup(text::string_list(writable(keys)?)?, array::read(info, ninfo)?);
        operation.start(Box::new(move |result| callback.call(result)))
    }

    /// `PMIx_Unpublish`.
    fn PMIx_Unpublish(keys: *mut *mut c_char, info: *const pmix_info_t, ninfo: usize) {
        client()?.unpublish(text::string_list(keys)?, array::read(info, ninfo)?).wait()
    }

    /// `PMIx_Unpublish_nb`.
    fn PMIx_Unpublish_nb(
        keys: *mut *mut c_char,
        info: *const pmix_info_t,
        ninfo: usize,
        cbfunc: Option<pmix_op_cbfunc_t>,
        cbdata: *mut c_void,
    ) {
        start(client()?.unpublish(text::string_list(keys)?, array::read(info, ninfo)?), cbfunc, cbdata)
    }
}
