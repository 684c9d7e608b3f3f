//! Publishing values for other jobs and looking them up.

use std::ffi::{CString, c_char, c_void};

use pmix_dstore::model::{Pdata, Result, Status};

use super::{Out, client, infos, writable};
use crate::callback::{Callback, start};
use crate::convert::text;
use crate::entry::status_call;
use crate::types::*;

/// The keys of the values that a lookup is to fill in.
///
/// # Safety
/// `data` is an array of `ndata` entries whose keys are set.
unsafe fn wanted_keys(data: *const pmix_pdata_t, ndata: usize) -> Result<Vec<CString>> {
    let keys = (0..ndata).map(|index| {
        // SAFETY: the entry is one of the array, and its key is set, by the caller's promise.
        let key = unsafe { text::key_text((&raw const (*data.add(index)).key).cast()) }?;
        CString::new(key).map_err(|_| Status::ERR_BAD_PARAM)
    });
    keys.collect()
}

/// Fills in what was found; the other entries stay as they are.
///
/// # Safety
/// `data` is an array of as many entries as there are keys, which may be written.
unsafe fn fill_found(data: *mut pmix_pdata_t, keys: &[CString], found: &[Pdata]) -> Result<()> {
    for (index, key) in keys.iter().enumerate() {
        if let Some(pdata) = found.iter().find(|pdata| pdata.key.as_bytes() == key.as_bytes()) {
            // SAFETY: there is an entry for every key, and it may be written, by the caller's promise.
            let entry = unsafe { Out::new(data.add(index)) }?;
            entry.fill(pdata)?;
        }
    }
    Ok(())
}

status_call! {
    /// `PMIx_Publish`.
    fn PMIx_Publish(info: *const pmix_info_t, ninfo: usize) {
        // SAFETY: `info` is an array of `ninfo` infos.
        client()?.publish(unsafe { infos(info, ninfo) }?).wait()
    }

    /// `PMIx_Publish_nb`.
    fn PMIx_Publish_nb(
        info: *const pmix_info_t,
        ninfo: usize,
        cbfunc: Option<pmix_op_cbfunc_t>,
        cbdata: *mut c_void,
    ) {
        // SAFETY: `info` is an array of `ninfo` infos.
        start(client()?.publish(unsafe { infos(info, ninfo) }?), cbfunc, cbdata)
    }

    /// `PMIx_Lookup`: fills in publishers and values of the keys in `data`.
    fn PMIx_Lookup(data: *mut pmix_pdata_t, ndata: usize, info: *const pmix_info_t, ninfo: usize) {
        let client = client()?;
        // SAFETY: `data` is an array of `ndata` entries, in each of which the caller has set the key.
        let keys = unsafe { wanted_keys(writable(data)?, ndata) }?;
        // SAFETY: `info` is an array of `ninfo` infos.
        let found = client.lookup(keys.clone(), unsafe { infos(info, ninfo) }?).wait()?;
        // SAFETY: the entries are the caller's, for the results; a key was read from each of them.
        unsafe { fill_found(data, &keys, &found) }
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
        let client = client()?;
        // SAFETY: `keys` is an array of C strings that ends with NULL.
        let keys = unsafe { text::string_list(writable(keys)?) }?;
        // SAFETY: `info` is an array of `ninfo` infos.
        let operation = client.lookup(keys, unsafe { infos(info, ninfo) }?);
        operation.start(Box::new(move |result| callback.call(result)))
    }

    /// `PMIx_Unpublish`.
    fn PMIx_Unpublish(keys: *mut *mut c_char, info: *const pmix_info_t, ninfo: usize) {
        let client = client()?;
        // SAFETY: `keys` is NULL or an array of C strings that ends with NULL.
        let keys = unsafe { text::string_list(keys) }?;
        // SAFETY: `info` is an array of `ninfo` infos.
        client.unpublish(keys, unsafe { infos(info, ninfo) }?).wait()
    }

    /// `PMIx_Unpublish_nb`.
    fn PMIx_Unpublish_nb(
        keys: *mut *mut c_char,
        info: *const pmix_info_t,
        ninfo: usize,
        cbfunc: Option<pmix_op_cbfunc_t>,
        cbdata: *mut c_void,
    ) {
        let client = client()?;
        // SAFETY: `keys` is NULL or an array of C strings that ends with NULL.
        let keys = unsafe { text::string_list(keys) }?;
        // SAFETY: `info` is an array of `ninfo` infos.
        start(client.unpublish(keys, unsafe { infos(info, ninfo) }?), cbfunc, cbdata)
    }
}
