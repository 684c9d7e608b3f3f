//! Credentials: getting them from the host and having it check them.

use std::ffi::c_void;

use pmix_client::InfoReply;
use pmix_dstore::model::Status;

use super::{client, present, writable};
use crate::callback::{Callback, fill, hand_over};
use crate::convert::array;
use crate::convert::object::Object;
use crate::entry::status_call;
use crate::types::*;

status_call! {
    /// `PMIx_Get_credential`.
    fn PMIx_Get_credential(info: *const pmix_info_t, ninfo: usize, credential: *mut pmix_byte_object_t) {
        let credential = writable(credential)?;
        let (bytes, _) = client()?.get_credential(array::read(info, ninfo)?).wait()?;
        fill(&bytes.into(), credential)
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
        let operation = client.get_credential(array::read(info, ninfo)?);
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
        let credential = pmix_byte_object_t::read(present(cred)?)?.into_vec()?;
        let answer: InfoReply = client()?.validate_credential(credential, array::read(info, ninfo)?).wait()?;
        hand_over(answer, results, nresults)
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
        let credential = pmix_byte_object_t::read(present(cred)?)?.into_vec()?;
        let operation = client.validate_credential(credential, array::read(info, ninfo)?);
        operation.start(Box::new(move |result| callback.call(result)))
    }
}
