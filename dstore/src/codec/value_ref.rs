//! Values in a store: borrowed, and decoded only as far as their type needs.

use std::ffi::CStr;

use super::unpack_stored;
use crate::fallible_alloc;
use crate::maps::RankList;
use crate::model::{Bytes, DataType, Result, Status, Value};

/// A value read from a store, borrowed from it.
///
/// Numbers and strings are ready to use; structures are decoded by [`ValueRef::to_value`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ValueRef<'a> {
    /// A value of up to eight bytes.
    Scalar {
        /// Its type, one with a [`DataType::scalar_width`].
        ty: DataType,
        /// The bytes of the C type, little-endian, zero-extended.
        bits: u64,
    },
    /// A C string, or NULL.
    Str(Option<&'a CStr>),
    /// Bytes of unknown meaning.
    Bytes {
        /// BYTE_OBJECT, REGEX, COMPRESSED_STRING, COMPRESSED_BYTE_OBJECT or DATA_BUFFER.
        ty: DataType,
        /// The bytes.
        bytes: &'a [u8],
    },
    /// A structure in the store's own packing: [`pack_stored`](super::pack_stored).
    Packed {
        /// Its type.
        ty: DataType,
        /// The packed bytes.
        bytes: &'a [u8],
    },
    /// A string of ranks.
    Ranks(RankList<'a>),
    /// A structure in the heap of this process.
    Owned(&'a Value),
}

impl<'a> From<&'a Value> for ValueRef<'a> {
    fn from(value: &'a Value) -> ValueRef<'a> {
        if let Some(bits) = value.scalar_bits() {
            return ValueRef::Scalar { ty: value.data_type(), bits };
        }
        if let Some(bytes) = value.bytes() {
            return ValueRef::Bytes { ty: value.data_type(), bytes };
        }
        match value {
            Value::String(text) => ValueRef::Str(text.as_deref()),
            other => ValueRef::Owned(other),
        }
    }
}

impl<'a> ValueRef<'a> {
    /// The value as an unsigned 32-bit number, if it is a number that fits; `None` for packed structures.
    pub fn as_u32(&self) -> Option<u32> {
        match *self {
            ValueRef::Scalar { ty: DataType::UINT16 | DataType::UINT32 | DataType::PROC_RANK, bits } => {
                u32::try_from(bits).ok()
            }
            ValueRef::Scalar { ty, bits } => Value::from_scalar(ty, bits)?.as_u32(),
            ValueRef::Owned(value) => value.as_u32(),
            _ => None,
        }
    }

    /// The bytes of a string (without NUL) that lies in its store; `None` for NULL and other types. A rank list has no bytes
    /// until [`ValueRef::to_value`] builds the string.
    pub fn as_text(&self) -> Option<&'a [u8]> {
        match *self {
            ValueRef::Str(text) => text.map(CStr::to_bytes),
            _ => None,
        }
    }

    /// The value itself, if it is a structure in the heap of this process.
    pub fn owned(self) -> Option<&'a Value> {
        match self {
            ValueRef::Owned(value) => Some(value),
            _ => None,
        }
    }
}

impl ValueRef<'_> {
    /// The type of the value.
    pub fn data_type(&self) -> DataType {
        match self {
            ValueRef::Scalar { ty, .. } | ValueRef::Bytes { ty, .. } | ValueRef::Packed { ty, .. } => *ty,
            ValueRef::Str(_) | ValueRef::Ranks(_) => DataType::STRING,
            ValueRef::Owned(value) => value.data_type(),
        }
    }

    /// An owned copy.
    ///
    /// # Errors
    /// `UNPACK_FAILURE` or another error of the codec where a packed structure is corrupt; `NOMEM`.
    pub fn to_value(&self) -> Result<Value> {
        Ok(match *self {
            ValueRef::Scalar { ty, bits } => Value::from_scalar(ty, bits).ok_or(Status::ERR_UNKNOWN_DATA_TYPE)?,
            ValueRef::Str(text) => Value::String(text.map(fallible_alloc::copy_c_str).transpose()?),
            ValueRef::Bytes { ty, bytes } => {
                let bytes = Bytes::copy_of(bytes)?;
                match ty {
                    DataType::REGEX => Value::Regex(bytes),
                    DataType::COMPRESSED_STRING => Value::CompressedString(bytes),
                    DataType::COMPRESSED_BYTE_OBJECT => Value::CompressedByteObject(bytes),
                    DataType::DATA_BUFFER => Value::DataBuffer(bytes),
                    _ => Value::ByteObject(bytes),
                }
            }
            ValueRef::Packed { ty: DataType::UNDEF, .. } => Value::Undef,
            ValueRef::Packed { ty, bytes } => unpack_stored(ty, bytes)?,
            ValueRef::Ranks(list) => Value::String(Some(list.text()?)),
            ValueRef::Owned(value) => value.copy()?,
        })
    }
}
