//! Fields of messages.

use pmix_dstore::codec::{Packer, Unpacker};
use pmix_dstore::fallible_alloc;
use pmix_dstore::model::{Nspace, Result, Status};

pub(super) fn pack_text(to: &mut Packer, text: &str) -> Result<()> {
    to.string(Some(text.as_bytes()))
}

pub(super) fn text(from: &mut Unpacker<'_>) -> Result<String> {
    let text = fallible_alloc::copy(from.bytes()?.unwrap_or_default())?;
    String::from_utf8(text).map_err(|_| Status::ERR_UNPACK_FAILURE)
}

pub(super) fn pack_nspace(to: &mut Packer, nspace: &Nspace) -> Result<()> {
    to.string(Some(nspace.as_bytes()))
}

pub(super) fn object(from: &mut Unpacker<'_>) -> Result<Vec<u8>> {
    fallible_alloc::copy(from.byte_object()?)
}
