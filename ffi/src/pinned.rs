//! Values that belong to the library and that C code only points to: `PMIX_GET_POINTER_VALUES`.
//!
//! A caller may keep such a pointer until the library is finalized, and frees nothing. Each distinct value is made
//! once, however often and under however many keys it is asked for, so that asking again costs no memory.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ffi::CStr;

use parking_lot::Mutex;
use pmix_dstore::codec;
use pmix_dstore::model::{DataType, Result, ValueRef};

use crate::convert::array::free_array;
use crate::convert::value::allocate_ref;
use crate::types::pmix_value_t;

/// A value from `malloc` that is freed at the end.
struct Pinned(*mut pmix_value_t);

// SAFETY: the value is owned, and its memory is plain heap memory, free of ties to a thread.
unsafe impl Send for Pinned {}

impl Drop for Pinned {
    fn drop(&mut self) {
        // SAFETY: one value from malloc; those who point to it have finalized the library.
        unsafe { free_array(self.0, 1) }
    }
}

/// The values by type and by what they hold.
type Values = HashMap<DataType, HashMap<Box<[u8]>, Pinned>>;

static VALUES: Mutex<Option<Values>> = Mutex::new(None);

/// The library's own copy of a value.
///
/// # Errors
/// `NOMEM`, and what packing or decoding a structure says.
pub fn pointer_to(value: ValueRef<'_>) -> Result<*mut pmix_value_t> {
    let number;
    let held: Cow<'_, [u8]> = match value {
        ValueRef::Scalar { bits, .. } => {
            number = bits.to_le_bytes();
            Cow::Borrowed(&number)
        }
        // With its NUL, so that the empty string is not NULL.
        ValueRef::Str(text) => Cow::Borrowed(text.map(CStr::to_bytes_with_nul).unwrap_or_default()),
        ValueRef::Bytes { bytes, .. } | ValueRef::Packed { bytes, .. } => Cow::Borrowed(bytes),
        ValueRef::Owned(value) => Cow::Owned(codec::pack_stored(value)?),
    };
    let mut values = VALUES.lock();
    let of_type = values.get_or_insert_default().entry(value.data_type()).or_default();
    if let Some(pinned) = of_type.get(&*held) {
        return Ok(pinned.0);
    }
    let copy = allocate_ref(value)?;
    of_type.insert(held.into(), Pinned(copy));
    Ok(copy)
}

/// Frees all of them: the library has been finalized.
pub fn clear() {
    drop(VALUES.lock().take());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::convert::object::Object;
    use pmix_dstore::model::{Nspace, Proc, Rank, Value};

    #[test]
    fn equal_values_are_one() {
        let proc = Value::Proc(Proc::new(Nspace::new("n").unwrap(), Rank(1)));
        let values = [
            Value::Uint32(7),
            Value::Int32(7),
            Value::string(""),
            Value::String(None),
            Value::string("text"),
            Value::ByteObject(b"text\0".to_vec()),
            proc,
        ];
        let pointers: Vec<_> = values.iter().map(|value| pointer_to(ValueRef::from(value)).unwrap()).collect();
        for (index, value) in values.iter().enumerate() {
            assert_eq!(pointer_to(ValueRef::from(value)).unwrap(), pointers[index]);
            assert!(!pointers[..index].contains(&pointers[index]), "{value:?}");
            // SAFETY: the pinned value is still there.
            assert_eq!(unsafe { pmix_value_t::read(pointers[index]) }.as_ref(), Ok(value));
        }
        clear();
    }
}
