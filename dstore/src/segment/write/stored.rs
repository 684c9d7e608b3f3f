//! A value in the form in which a segment stores it.

use std::borrow::Cow;

use super::BuildError;
use crate::codec;
use crate::codec::ValueRef;
use crate::model::{DataType, Key, Value};

/// A value ready to be stored.
pub(crate) enum Stored<'a> {
    /// A number: the bits of its C type, zero-extended.
    Number(u64),
    /// Bytes: of a string without its NUL, of a byte object, or of a packed structure.
    Bytes(Cow<'a, [u8]>),
    /// A NULL string.
    Null,
}

impl<'a> Stored<'a> {
    /// The stored form of the value of `key`.
    ///
    /// # Errors
    /// A structure that the codec cannot pack, or a value of 4 GiB or more.
    pub(crate) fn of(key: &Key, value: ValueRef<'a>) -> Result<Stored<'a>, BuildError> {
        let ty = value.data_type();
        let failed = |status| BuildError::Pack { key: key.clone(), ty, status };
        if let (ValueRef::Scalar { bits, .. }, Some(mask)) = (value, ty.scalar_mask()) {
            return Ok(Stored::Number(bits & mask));
        }
        let bytes = match value {
            ValueRef::Str(None) => return Ok(Stored::Null),
            ValueRef::Str(Some(text)) => Cow::Borrowed(text.to_bytes()),
            ValueRef::Bytes { bytes, .. } | ValueRef::Packed { bytes, .. } => Cow::Borrowed(bytes),
            ValueRef::Owned(Value::Undef) => Cow::Borrowed(&[][..]),
            ValueRef::Owned(structure) => Cow::Owned(codec::pack_stored(structure).map_err(failed)?),
            unknown => Cow::Owned(codec::pack_stored(&unknown.to_value().map_err(failed)?).map_err(failed)?),
        };
        let len_max = u64::from(u32::MAX) - 8;
        if bytes.len() as u64 > len_max {
            return Err(BuildError::TooLarge { what: "bytes of a value", len: bytes.len() as u64, len_max });
        }
        Ok(Stored::Bytes(bytes))
    }
}

/// Whether values of this type are aligned to eight bytes and have no NUL after them.
pub(crate) fn is_aligned(ty: DataType) -> bool {
    ty != DataType::STRING
}
