//! Packing into data buffers and unpacking from them.
//!
//! The format is that of releases 4.2 to 7.0, which is the same for all types that they have in common. A receiver whose release
//! does not know a type gets an error from its own library.

use std::ffi::{CStr, c_char, c_void};

use pmix_dstore::codec::{Dialect, Module, Packer, Unpacker};
use pmix_dstore::fallible_alloc;
use pmix_dstore::model::{Bytes, DataType, Result, Status, Value};

use super::{Out, client, present, writable};
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
        let mut packer = Packer::new(dialect());
        if is_octet(ty) {
            // SAFETY: `src` is an array of `num_vals` bytes, or NULL and not read.
            packer.octets(ty, unsafe { array::bytes(source.cast(), count) })?;
        } else {
            // SAFETY: `src` is an array of `num_vals` initialised objects of this type.
            packer.pack(ty, &unsafe { objects(ty, source, count, width) }?)?;
        }
        // SAFETY: `buffer` is not NULL, hence initialised; its memory is from `malloc`.
        unsafe { append(buffer, packer.as_bytes()) }
    }

    /// `PMIx_Data_unpack`: takes the next objects out of a buffer, as many as were packed together.
    ///
    /// If `dest` has room for fewer, the objects that fit are written, and the buffer stays as it is.
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
        // SAFETY: not NULL, hence an initialised number, which belongs to this call.
        let count = unsafe { &mut *count };
        let places = usize::try_from(*count).map_err(|_| Status::ERR_BAD_PARAM)?;
        if places == 0 {
            return Err(Status::ERR_UNPACK_INADEQUATE_SPACE);
        }
        *count = 0;
        // SAFETY: `buffer` is not NULL, hence initialised.
        let mut unpacker = Unpacker::new(dialect(), unsafe { unread(buffer) });
        let mut octets = None;
        let packed = if is_octet(ty) {
            let bytes = unpacker.octets(ty)?;
            *count = bytes.len().min(places) as i32;
            octets = Some(bytes.as_ptr());
            bytes.len()
        } else {
            let values: Vec<Value> = unpacker.unpack_all(ty)?;
            for (index, value) in values.iter().take(places).enumerate() {
                // SAFETY: `dest` has room for as many objects of this type as the caller said; the place is zeroed for `write_any`.
                unsafe {
                    let at = dest.byte_add(index * width);
                    at.cast::<u8>().write_bytes(0, width);
                    write_any(value, at)?;
                }
                *count += 1;
            }
            values.len()
        };
        let rest = unpacker.rest().len();
        if let Some(octets) = octets {
            // SAFETY: `dest` has room for as many bytes as the caller said. It may lie in the buffer, so the regions may overlap, and
            // nothing that was borrowed from the buffer is used any more.
            unsafe { dest.cast::<u8>().copy_from(octets, packed.min(places)) };
        }
        if packed > places {
            return Err(Status::ERR_UNPACK_INADEQUATE_SPACE);
        }
        // SAFETY: `buffer` is not NULL, hence initialised; `rest` bytes at its end have not been unpacked.
        unsafe { (*buffer).unpack_ptr = (*buffer).base_ptr.wrapping_add((*buffer).bytes_used - rest) };
        Ok(())
    }

    /// `PMIx_Data_print`: type and value of an object as a text, which the caller frees.
    fn PMIx_Data_print(output: *mut *mut c_char, prefix: *mut c_char, src: *mut c_void, type_: pmix_data_type_t) {
        // SAFETY: `output` is NULL or a place for a pointer.
        let output = unsafe { Out::new(output) }?;
        let src = present(src)?;
        let value = match DataType(type_) {
            // A string or a map is passed by its own address, other objects by the address of their C form.
            // SAFETY: not NULL, hence a C string, as the type says.
            DataType::STRING => Value::String(unsafe { text::owned_string(src.cast()) }?),
            // SAFETY: not NULL, hence a map, as the type says.
            DataType::REGEX => Value::Regex(Bytes::copy_of(unsafe { text::map(src.cast()) })?),
            // SAFETY: not NULL, hence an initialised object of this type.
            ty => unsafe { read_any(ty, src) }?,
        };
        // SAFETY: `prefix` is NULL or a C string.
        let prefix = unsafe { text::string(prefix) }.map_or(print::PREFIX, CStr::to_bytes);
        let shown = print::object(prefix, &value);
        // A NUL ends a text.
        output.set(copy_text(shown.split(|byte| *byte == 0).next().unwrap_or_default())?);
        Ok(())
    }
}

/// Whether objects of a type are packed as they lie in memory. PRRTE packs standard input and whole messages so: as single values a
/// byte would take dozens of bytes.
fn is_octet(ty: DataType) -> bool {
    matches!(ty, DataType::BYTE | DataType::INT8 | DataType::UINT8)
}

/// The objects of an array, of `width` bytes each.
///
/// # Errors
/// `NOMEM`, and what is wrong with an object.
///
/// # Safety
/// `source` points to `count` initialised objects of this type.
unsafe fn objects(ty: DataType, source: *const c_void, count: usize, width: usize) -> Result<Vec<Value>> {
    let mut values = fallible_alloc::vec(count)?;
    for index in 0..count {
        let at = source.wrapping_byte_add(index * width);
        values.push(match ty {
            // SAFETY: the caller's promise; maps in arrays are texts where they are packed.
            DataType::DATA_ARRAY => Value::DataArray(Box::new(unsafe { read_packed_array(at.cast()) }?)),
            // SAFETY: the caller's promise.
            ty => unsafe { read_any(ty, at) }?,
        });
    }
    Ok(values)
}

/// The bytes of a buffer that have not been unpacked.
///
/// # Safety
/// `buffer` is an initialised buffer that stays unchanged for `'a`.
pub(super) unsafe fn unread<'a>(buffer: *const pmix_data_buffer_t) -> &'a [u8] {
    // SAFETY: the buffer is initialised, by the caller's promise.
    let pmix_data_buffer_t { base_ptr, unpack_ptr, bytes_used, .. } = unsafe { *buffer };
    if base_ptr.is_null() || unpack_ptr.is_null() {
        return &[];
    }
    let len = (base_ptr.addr() + bytes_used).saturating_sub(unpack_ptr.addr());
    // SAFETY: from the first byte that has not been unpacked to the last one that is used, all within the buffer's memory.
    unsafe { array::bytes(unpack_ptr, len) }
}

/// Adds bytes to a buffer, which grows by doubling.
///
/// # Errors
/// `NOMEM`; the buffer is as it was then.
///
/// # Safety
/// `buffer` is an initialised buffer whose memory comes from `malloc`.
pub(super) unsafe fn append(buffer: *mut pmix_data_buffer_t, bytes: &[u8]) -> Result<()> {
    // SAFETY: the buffer is initialised, by the caller's promise.
    let pmix_data_buffer_t { mut base_ptr, unpack_ptr, mut bytes_allocated, bytes_used, .. } = unsafe { *buffer };
    let used = if base_ptr.is_null() { 0 } else { bytes_used };
    let needed = used.checked_add(bytes.len()).ok_or(Status::ERR_NOMEM)?;
    let unpacked = unpack_ptr.addr().saturating_sub(base_ptr.addr()).min(used);
    if base_ptr.is_null() || needed > bytes_allocated {
        bytes_allocated = needed.next_power_of_two().max(FIRST_SIZE);
        // SAFETY: the buffer's memory is from `malloc`, by the caller's promise, or NULL.
        base_ptr = unsafe { libc::realloc(base_ptr.cast(), bytes_allocated) }.cast::<c_char>();
        if base_ptr.is_null() {
            return Err(Status::ERR_NOMEM);
        }
    }
    // SAFETY: there is room for `needed` bytes, which are those in use and the new ones.
    unsafe { base_ptr.add(used).copy_from_nonoverlapping(bytes.as_ptr().cast(), bytes.len()) };
    let grown = pmix_data_buffer_t {
        base_ptr,
        pack_ptr: base_ptr.wrapping_add(needed),
        unpack_ptr: base_ptr.wrapping_add(unpacked),
        bytes_allocated,
        bytes_used: needed,
    };
    // SAFETY: the buffer may be written, by the caller's promise.
    unsafe { buffer.write(grown) };
    Ok(())
}

/// The size of a buffer's first allocation.
const FIRST_SIZE: usize = 128;
