//! Credentials: getting them from the host and having it check them.

use std::ffi::c_void;

use pmix_client::InfoReply;
use pmix_dstore::model::{Result, Status};

use super::{InfoResults, Out, client, infos, object};
use crate::callback::Callback;
use crate::entry::status_call;
use crate::types::*;

/// The bytes of a credential.
///
/// # Errors
/// `BAD_PARAM` for NULL, `NOMEM`.
///
/// # Safety
/// `credential` is NULL or a byte object.
unsafe fn bytes_of(credential: *const pmix_byte_object_t) -> Result<Vec<u8>> {
    // SAFETY: the caller's promise.
    unsafe { object(credential) }?.into_vec()
}

status_call! {
    /// `PMIx_Get_credential`.
    fn PMIx_Get_credential(info: *const pmix_info_t, ninfo: usize, credential: *mut pmix_byte_object_t) {
        // SAFETY: `credential` is NULL or a place for a byte object.
        let credential = unsafe { Out::new(credential) }?;
        // SAFETY: `info` is an array of `ninfo` infos.
        let (bytes, _) = client()?.get_credential(unsafe { infos(info, ninfo) }?).wait()?;
        credential.fill(&bytes.into())
    }

    /// `PMIx_Get_credential_nb`.
    fn PMIx_Get_credential_nb(
        info: *const pmix_info_t,
        ninfo: usize,
        cbfunc: Option<pmix_credential_cbfunc_t>,
        cbdata: *mut c_void,
    ) {
        let client = client()?;
        let callback = Callback::new(cbfunc, cbdata);
        if !callback.is_some() {
            return Err(Status::ERR_BAD_PARAM);
        }
        // SAFETY: `info` is an array of `ninfo` infos.
        let operation = client.get_credential(unsafe { infos(info, ninfo) }?);
        operation.start(Box::new(move |result| callback.call(result)))
    }

    /// `PMIx_Validate_credential`.
    fn PMIx_Validate_credential(
        cred: *const pmix_byte_object_t,
        info: *const pmix_info_t,
        ninfo: usize,
        results: *mut *mut pmix_info_t,
        nresults: *mut usize,
    ) {
        if results.is_null() || nresults.is_null() {
            // Before the host is asked: a credential is shown once.
            return Err(Status::ERR_BAD_PARAM);
        }
        // SAFETY: `cred` is NULL or a byte object.
        let credential = unsafe { bytes_of(cred) }?;
        // SAFETY: `info` is an array of `ninfo` infos.
        let answer: InfoReply = client()?.validate_credential(credential, unsafe { infos(info, ninfo) }?).wait()?;
        // SAFETY: `results` and `nresults` are places for the results.
        unsafe { InfoResults::new(results, nresults) }.hand_over(answer)
    }

    /// `PMIx_Validate_credential_nb`.
    fn PMIx_Validate_credential_nb(
        cred: *const pmix_byte_object_t,
        info: *const pmix_info_t,
        ninfo: usize,
        cbfunc: Option<pmix_validation_cbfunc_t>,
        cbdata: *mut c_void,
    ) {
        let client = client()?;
        let callback = Callback::new(cbfunc, cbdata);
        if !callback.is_some() {
            return Err(Status::ERR_BAD_PARAM);
        }
        // SAFETY: `cred` is NULL or a byte object.
        let credential = unsafe { bytes_of(cred) }?;
        // SAFETY: `info` is an array of `ninfo` infos.
        let operation = client.validate_credential(credential, unsafe { infos(info, ninfo) }?);
        operation.start(Box::new(move |result| callback.call(result)))
    }
}
