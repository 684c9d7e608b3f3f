//! A value in the form in which a segment stores it.

use std::borrow::Cow;
use std::ops::Deref;

use super::BuildError;
use crate::codec;
use crate::model::{Bytes, DataType, Key, Value};
use crate::segment::checked::number_mask;

/// A value ready to be stored.
pub(super) enum Stored<'a> {
    /// A number: the bits of its C type, zero-extended.
    Number(u64),
    /// Bytes: of a string without its NUL, of a byte object, or of a packed structure.
    Bytes(Text<'a>),
    /// A NULL string.
    Null,
}

/// Bytes to be stored.
pub(super) enum Text<'a> {
    /// A byte object.
    Object(&'a Bytes),
    /// Other bytes.
    Other(Cow<'a, [u8]>),
}

impl Text<'_> {
    /// Bytes of it that stay where they are when the segment is written.
    pub(super) fn shared_len(&self) -> usize {
        match self {
            Text::Object(bytes) if bytes.is_shared() => bytes.len(),
            _ => 0,
        }
    }
}

impl Deref for Text<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Text::Object(bytes) => bytes,
            Text::Other(bytes) => bytes,
        }
    }
}

impl<'a> Stored<'a> {
    /// The stored form of the value of `key`.
    ///
    /// # Errors
    /// A structure that the codec cannot pack, or a value of 4 GiB or more.
    pub(super) fn of(key: &Key, value: &'a Value) -> Result<Stored<'a>, BuildError> {
        let ty = value.data_type();
        if let (Some(bits), Some(mask)) = (value.scalar_bits(), number_mask(ty)) {
            return Ok(Stored::Number(bits & mask));
        }
        let bytes = match value {
            Value::String(None) => return Ok(Stored::Null),
            Value::String(Some(text)) => Text::Other(Cow::Borrowed(text.to_bytes())),
            Value::ByteObject(bytes)
            | Value::Regex(bytes)
            | Value::CompressedString(bytes)
            | Value::CompressedByteObject(bytes)
            | Value::DataBuffer(bytes) => Text::Object(bytes),
            Value::Undef => Text::Other(Cow::Borrowed(&[][..])),
            other => match codec::pack_stored(other) {
                Ok(packed) => Text::Other(Cow::Owned(packed)),
                Err(status) => return Err(BuildError::Pack { key: key.clone(), ty, status }),
            },
        };
        let len_max = u64::from(u32::MAX) - 8;
        if bytes.len() as u64 > len_max {
            return Err(BuildError::TooLarge { what: "bytes of a value", len: bytes.len() as u64, len_max });
        }
        Ok(Stored::Bytes(bytes))
    }
}

/// Whether values of this type lie on multiples of eight bytes and have no NUL behind them.
pub(super) fn is_aligned(ty: DataType) -> bool {
    ty != DataType::STRING
}
