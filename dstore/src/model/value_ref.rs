//! Values as they lie in a store: borrowed, and decoded only as far as their type needs.

use std::ffi::CStr;

use super::{Bytes, DataType, Rank, Result, Status, Value};
use crate::maps::RankList;
use crate::{codec, room};

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
    /// A structure in the store's own packing: [`codec::pack_stored`].
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

impl DataType {
    /// The size in bytes of the C type, for types whose values are one number of up to eight bytes.
    pub fn scalar_width(self) -> Option<usize> {
        Some(match self {
            DataType::BOOL
            | DataType::BYTE
            | DataType::INT8
            | DataType::UINT8
            | DataType::PERSIST
            | DataType::SCOPE
            | DataType::DATA_RANGE
            | DataType::COMMAND
            | DataType::PROC_STATE
            | DataType::JOB_STATE
            | DataType::LINK_STATE
            | DataType::ALLOC_DIRECTIVE
            | DataType::RESBLOCK_DIRECTIVE
            | DataType::ALLOC_INHERIT => 1,
            DataType::INT16
            | DataType::UINT16
            | DataType::DATA_TYPE
            | DataType::IOF_CHANNEL
            | DataType::LOCTYPE
            | DataType::STOR_ACCESS_TYPE => 2,
            DataType::PID
            | DataType::INT
            | DataType::INT32
            | DataType::UINT
            | DataType::UINT32
            | DataType::FLOAT
            | DataType::STATUS
            | DataType::PROC_RANK
            | DataType::INFO_DIRECTIVES => 4,
            DataType::SIZE
            | DataType::INT64
            | DataType::UINT64
            | DataType::DOUBLE
            | DataType::TIME
            | DataType::POINTER
            | DataType::DEVTYPE
            | DataType::STOR_MEDIUM
            | DataType::STOR_ACCESS
            | DataType::STOR_PERSIST => 8,
            _ => return None,
        })
    }

    /// The bits that such a number may have.
    #[inline]
    pub fn scalar_mask(self) -> Option<u64> {
        self.scalar_width().map(|width| u64::MAX >> (64 - 8 * width))
    }
}

impl Value {
    /// The value of a type with a [`DataType::scalar_width`]: the inverse of [`Value::scalar_bits`].
    pub fn from_scalar(ty: DataType, bits: u64) -> Option<Value> {
        let width = ty.scalar_width()?;
        Some(match ty {
            DataType::BOOL => Value::Bool(bits & 0xff != 0),
            DataType::BYTE => Value::Byte(bits as u8),
            DataType::SIZE => Value::Size(bits),
            DataType::PID => Value::Pid(bits as i32),
            DataType::INT => Value::Int(bits as i32),
            DataType::INT8 => Value::Int8(bits as i8),
            DataType::INT16 => Value::Int16(bits as i16),
            DataType::INT32 => Value::Int32(bits as i32),
            DataType::INT64 => Value::Int64(bits as i64),
            DataType::UINT => Value::Uint(bits as u32),
            DataType::UINT8 => Value::Uint8(bits as u8),
            DataType::UINT16 => Value::Uint16(bits as u16),
            DataType::UINT32 => Value::Uint32(bits as u32),
            DataType::UINT64 => Value::Uint64(bits),
            DataType::FLOAT => Value::Float(f32::from_bits(bits as u32)),
            DataType::DOUBLE => Value::Double(f64::from_bits(bits)),
            DataType::TIME => Value::Time(bits as i64),
            DataType::STATUS => Value::Status(Status(bits as i32)),
            DataType::PROC_RANK => Value::Rank(Rank(bits as u32)),
            DataType::POINTER => Value::Pointer(bits as usize),
            ty => Value::Code { ty, bits: if width == 8 { bits } else { bits & ((1 << (8 * width)) - 1) } },
        })
    }

    /// The bytes of a number as its C type holds them, little-endian, zero-extended to eight.
    pub fn scalar_bits(&self) -> Option<u64> {
        Some(match *self {
            Value::Bool(flag) => flag.into(),
            Value::Byte(n) | Value::Uint8(n) => n.into(),
            Value::Size(n) | Value::Uint64(n) => n,
            Value::Pid(n) | Value::Int(n) | Value::Int32(n) | Value::Status(Status(n)) => u64::from(n as u32),
            Value::Int8(n) => u64::from(n as u8),
            Value::Int16(n) => u64::from(n as u16),
            Value::Int64(n) | Value::Time(n) => n as u64,
            Value::Uint(n) | Value::Uint32(n) | Value::Rank(Rank(n)) => n.into(),
            Value::Uint16(n) => n.into(),
            Value::Float(n) => n.to_bits().into(),
            Value::Double(n) => n.to_bits(),
            Value::Pointer(address) => address as u64,
            Value::Code { bits, .. } => bits,
            _ => return None,
        })
    }
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
    /// The value as an unsigned 32-bit number, if it is a number that fits; of what is packed none is looked for.
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

    /// The bytes of a string (without NUL), if the value is one that lies in its store, and not NULL; a string of ranks has none
    /// until [`ValueRef::to_value`] makes it.
    pub fn as_text(&self) -> Option<&'a [u8]> {
        match *self {
            ValueRef::Str(text) => text.map(CStr::to_bytes),
            _ => None,
        }
    }

    /// The value itself, where it is a structure in the heap of this process.
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

    /// A copy that stands on its own.
    ///
    /// # Errors
    /// `UNPACK_FAILURE` or what else the codec says where a packed structure does not decode; `NOMEM`.
    pub fn to_value(&self) -> Result<Value> {
        Ok(match *self {
            ValueRef::Scalar { ty, bits } => Value::from_scalar(ty, bits).ok_or(Status::ERR_UNKNOWN_DATA_TYPE)?,
            ValueRef::Str(text) => Value::String(text.map(room::copy_c_str).transpose()?),
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
            ValueRef::Packed { ty, bytes } => codec::unpack_stored(ty, bytes)?,
            ValueRef::Ranks(list) => Value::String(Some(list.text()?)),
            ValueRef::Owned(value) => value.copy()?,
        })
    }
}
