//! Packing into data buffers and unpacking from them.
//!
//! The bytes are those of releases 4.2 to 7.0, which agree on all types that they share. Whoever the other end is, it
//! understands them or is told so by its own library.

use std::ffi::{CStr, c_char, c_void};

use pmix_dstore::codec::{Dialect, Module, Packer, Unpacker};
use pmix_dstore::fallible_alloc;
use pmix_dstore::model::{Bytes, DataType, Result, Status, Value};

use super::{client, present, writable};
use crate::convert::object::{element_size, read_any, read_packed_array, write_any};
use crate::convert::{array, text};
use crate::entry::status_entry;
use crate::memory::copy_text;
use crate::print;
use crate::types::*;

fn dialect() -> Dialect {
    Dialect::plain(Module::Own)
}

status_entry! {
    /// `PMIx_Data_pack`: adds objects of one type to a buffer. The target makes no difference.
    fn PMIx_Data_pack(
        _target: *const pmix_proc_t,
        buffer: *mut pmix_data_buffer_t,
        src: *mut c_void,
        num_vals: i32,
        type_: pmix_data_type_t,
    ) {
        client()?;
        let (buffer, ty) = (writable(buffer)?, DataType(type_));
        let count = usize::try_from(num_vals).map_err(|_| Status::ERR_BAD_PARAM)?;
        let width = element_size(ty).ok_or(Status::ERR_UNKNOWN_DATA_TYPE)?;
        let source = if count == 0 { src.cast_const() } else { present(src)? };
        let mut values = fallible_alloc::vec(count)?;
        for index in 0..count {
            let at = source.wrapping_byte_add(index * width);
            values.push(match ty {
                DataType::DATA_ARRAY => Value::DataArray(Box::new(read_packed_array(at.cast())?)),
                ty => read_any(ty, at)?,
            });
        }
        let mut packer = Packer::new(dialect());
        packer.pack(ty, &values)?;
        append(buffer, packer.as_bytes())
    }

    /// `PMIx_Data_unpack`: takes the next objects out of a buffer, as many as were packed together.
    ///
    /// Where there is room for fewer, those that fit are given and the buffer stays as it is.
    fn PMIx_Data_unpack(
        _source: *const pmix_proc_t,
        buffer: *mut pmix_data_buffer_t,
        dest: *mut c_void,
        max_num_values: *mut i32,
        type_: pmix_data_type_t,
    ) {
        client()?;
        let (buffer, dest, count) = (writable(buffer)?, writable(dest)?, writable(max_num_values)?);
        let ty = DataType(type_);
        let width = element_size(ty).ok_or(Status::ERR_UNKNOWN_DATA_TYPE)?;
        let places = usize::try_from(*count).map_err(|_| Status::ERR_BAD_PARAM)?;
        if places == 0 {
            return Err(Status::ERR_UNPACK_INADEQUATE_SPACE);
        }
        *count = 0;
        let mut unpacker = Unpacker::new(dialect(), unread(buffer));
        let values: Vec<Value> = unpacker.unpack_all(ty)?;
        let rest = unpacker.rest().len();
        for (index, value) in values.iter().take(places).enumerate() {
            let at = dest.byte_add(index * width);
            at.cast::<u8>().write_bytes(0, width);
            write_any(value, at)?;
            *count += 1;
        }
        if values.len() > places {
            return Err(Status::ERR_UNPACK_INADEQUATE_SPACE);
        }
        (*buffer).unpack_ptr = (*buffer).base_ptr.wrapping_add((*buffer).bytes_used - rest);
        Ok(())
    }

    /// `PMIx_Data_print`: type and value of an object as a text, which the caller frees.
    fn PMIx_Data_print(output: *mut *mut c_char, prefix: *mut c_char, src: *mut c_void, type_: pmix_data_type_t) {
        let (output, src, ty) = (writable(output)?, present(src)?, DataType(type_));
        let value = match ty {
            // Texts and maps are themselves the objects here.
            DataType::STRING => Value::String(text::owned_string(src.cast())?),
            DataType::REGEX => Value::Regex(Bytes::copy_of(text::map(src.cast()))?),
            ty => read_any(ty, src)?,
        };
        let prefix = text::string(prefix).map_or(print::PREFIX, CStr::to_bytes);
        let shown = print::object(prefix, &value);
        // A NUL ends a text.
        *output = copy_text(shown.split(|byte| *byte == 0).next().unwrap_or_default())?;
        Ok(())
    }
}

/// The bytes of a buffer that have not been unpacked.
///
/// # Safety
/// `buffer` is an initialised buffer that stays unchanged for `'a`.
pub(super) unsafe fn unread<'a>(buffer: *const pmix_data_buffer_t) -> &'a [u8] {
    // SAFETY: the caller's promise; a buffer's pointers are ordered.
    unsafe {
        let start = (*buffer).unpack_ptr;
        if (*buffer).base_ptr.is_null() || start.is_null() {
            return &[];
        }
        let len = ((*buffer).base_ptr.addr() + (*buffer).bytes_used).saturating_sub(start.addr());
        array::bytes(start, len)
    }
}

/// Adds bytes to a buffer, which grows by doubling.
///
/// # Errors
/// `NOMEM`; the buffer is as it was then.
///
/// # Safety
/// `buffer` is an initialised buffer whose memory comes from `malloc`.
pub(super) unsafe fn append(buffer: *mut pmix_data_buffer_t, bytes: &[u8]) -> Result<()> {
    // SAFETY: the caller's promise; there is room for the bytes when they are written.
    unsafe {
        let used = if (*buffer).base_ptr.is_null() { 0 } else { (*buffer).bytes_used };
        let needed = used.checked_add(bytes.len()).ok_or(Status::ERR_NOMEM)?;
        let unpacked = (*buffer).unpack_ptr.addr().saturating_sub((*buffer).base_ptr.addr()).min(used);
        if (*buffer).base_ptr.is_null() || needed > (*buffer).bytes_allocated {
            let size = needed.next_power_of_two().max(FIRST_SIZE);
            let grown = libc::realloc((*buffer).base_ptr.cast(), size).cast::<c_char>();
            if grown.is_null() {
                return Err(Status::ERR_NOMEM);
            }
            (*buffer).base_ptr = grown;
            (*buffer).bytes_allocated = size;
        }
        let base = (*buffer).base_ptr;
        base.add(used).copy_from_nonoverlapping(bytes.as_ptr().cast(), bytes.len());
        (*buffer).bytes_used = needed;
        (*buffer).pack_ptr = base.add(needed);
        (*buffer).unpack_ptr = base.add(unpacked);
    }
    Ok(())
}

/// What a buffer has room for at first.
const FIRST_SIZE: usize = 128;
