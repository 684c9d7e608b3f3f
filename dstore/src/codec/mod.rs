//! The packing of values on the wire, in the forms of released PMIx libraries.
//!
//! A payload is a sequence of *pack operations*. Each is a count and that many values of one type, back to back; in a
//! fully described buffer it also carries tags. [`Packer`] writes operations, [`Unpacker`] reads them; [`Dialect`]
//! selects the released form. There are two families, with fixed and with flexible integers, and one older dialect with
//! a few peculiarities.
//!
//! All parsers here take untrusted bytes: no input panics, [`DEPTH_MAX`] bounds nesting, and allocations grow with the bytes
//! received, never with a count that they claim.

mod dialect;
mod int;
mod pack;
mod text;
mod unpack;
mod value_ref;

#[cfg(test)]
mod tests;

pub use dialect::{BufferType, Dialect, Module, Untyped};
pub use pack::Packer;
pub use unpack::Unpacker;
pub use value_ref::ValueRef;

use crate::model::{DataType, Result, Status, Value};

/// Values nested deeper than this are neither packed nor unpacked.
pub const DEPTH_MAX: u8 = 32;

/// Packs a structure for a store: the flexible encoding, not described, without its type tag.
///
/// # Errors
/// `UNKNOWN_DATA_TYPE` for a value that contains a type without a packed form; `PACK_FAILURE` for more than [`DEPTH_MAX`] levels;
/// `NOMEM`.
pub fn pack_stored(value: &Value) -> Result<Vec<u8>> {
    let mut packer = Packer::new(Dialect::STORED);
    packer.bare(value)?;
    Ok(packer.into_bytes())
}

/// The inverse of [`pack_stored`].
///
/// # Errors
/// `UNPACK_FAILURE`, `UNPACK_READ_PAST_END_OF_BUFFER` or `UNKNOWN_DATA_TYPE` if the bytes are not exactly the packed form of
/// one value of this type.
pub fn unpack_stored(ty: DataType, bytes: &[u8]) -> Result<Value> {
    let mut unpacker = Unpacker::new(Dialect::STORED, bytes);
    let value = unpacker.bare(ty)?;
    if unpacker.is_empty() { Ok(value) } else { Err(Status::ERR_UNPACK_FAILURE) }
}
