//! Values that are one number of up to eight bytes, and their bits.

use super::{DataType, Rank, Status, Value};

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

    /// A mask of the bits that a value of this type can have; `None` for types that are not scalar.
    #[inline]
    pub(crate) fn scalar_mask(self) -> Option<u64> {
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
