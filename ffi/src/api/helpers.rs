//! Helpers for values, infos and their arrays.

use std::ffi::{c_char, c_void};

use pmix_dstore::compression;
use pmix_dstore::model::{Bytes, DataType, InfoFlags, Result, Status};

use super::buffer::{append, unread};
use super::{present, writable};
use crate::convert::object::{Object, destroy_any, element_size, read_any, write_any};
use crate::convert::{array, text, value};
use crate::entry::{entry, status_entry};
use crate::memory::{copy_bytes, copy_string_or_null, copy_text, zeroed};
use crate::types::*;

status_entry! {
    /// `PMIx_Value_load`: fills a value with a copy of what `data` points to, as the type says.
    ///
    /// A string is itself `data`. NULL leaves the value empty, or true for a directive of type BOOL. Types that a value
    /// cannot hold are accepted and leave it empty, as in the stock library.
    fn PMIx_Value_load(val: *mut pmix_value_t, data: *const c_void, type_: pmix_data_type_t) {
        value::load(writable(val)?, data, DataType(type_))
    }

    /// `PMIx_Value_unload`: copies what a value holds.
    ///
    /// Numbers, PROC and TIMEVAL go to the memory that `*data` points to, strings and other structures to new memory;
    /// the bytes of a byte object are shared with the value.
    fn PMIx_Value_unload(val: *mut pmix_value_t, data: *mut *mut c_void, sz: *mut usize) {
        let (data, sz) = (writable(data)?, writable(sz)?);
        if let Some((contents, size)) = value::unload(present(val)?, data)? {
            (*data, *sz) = (contents, size);
        }
        Ok(())
    }

    /// `PMIx_Value_xfer`: copies a value into another one, whose former contents are not freed.
    fn PMIx_Value_xfer(dest: *mut pmix_value_t, src: *const pmix_value_t) {
        value::transfer(writable(dest)?, present(src)?)
    }

    /// `PMIx_Info_load`: fills an info; a key that is too long is cut.
    fn PMIx_Info_load(info: *mut pmix_info_t, key: *const c_char, data: *const c_void, type_: pmix_data_type_t) {
        let info = writable(info)?;
        let key = text::string(present(key)?).unwrap_or_default();
        info.write_bytes(0, 1);
        text::write_name((&raw mut (*info).key).cast(), size_of::<pmix_key_t>(), key.to_bytes());
        value::load(&raw mut (*info).value, data, DataType(type_))
    }

    /// `PMIx_Info_xfer`: copies an info. A persistent one shares its value.
    fn PMIx_Info_xfer(dest: *mut pmix_info_t, src: *const pmix_info_t) {
        transfer_info(writable(dest)?, present(src)?)
    }

    /// `PMIx_Data_copy`: a copy of one object, in new memory.
    fn PMIx_Data_copy(dest: *mut *mut c_void, src: *mut c_void, type_: pmix_data_type_t) {
        let ty = DataType(type_);
        let (dest, src) = (writable(dest)?, present(src)?);
        // Texts and maps are themselves the objects here.
        if ty == DataType::STRING {
            *dest = copy_string_or_null(text::string(src.cast()))?.cast();
            return Ok(());
        }
        if ty == DataType::REGEX {
            *dest = copy_text(text::map(src.cast()))?.cast();
            return Ok(());
        }
        let copied = read_any(ty, src)?;
        let size = element_size(ty).ok_or(Status::ERR_UNKNOWN_DATA_TYPE)?;
        let copy = zeroed::<u8>(size)?.cast::<c_void>();
        if let Err(status) = write_any(&copied, copy) {
            destroy_any(ty, copy);
            crate::memory::free(copy);
            return Err(status);
        }
        *dest = copy;
        Ok(())
    }

    /// `PMIx_Data_load`: moves packed bytes into a buffer. A NULL payload leaves the buffer empty.
    fn PMIx_Data_load(buffer: *mut pmix_data_buffer_t, payload: *mut pmix_byte_object_t) {
        let buffer = writable(buffer)?;
        pmix_data_buffer_t::destroy(buffer);
        if payload.is_null() {
            return Ok(());
        }
        let (base, size) = ((*payload).bytes, (*payload).size);
        *buffer = pmix_data_buffer_t {
            base_ptr: base,
            pack_ptr: base.wrapping_add(size),
            unpack_ptr: base,
            bytes_allocated: size,
            bytes_used: size,
        };
        *payload = pmix_byte_object_t { bytes: std::ptr::null_mut(), size: 0 };
        Ok(())
    }

    /// `PMIx_Data_unload`: copies the bytes that have not been unpacked out of a buffer, and empties it.
    fn PMIx_Data_unload(buffer: *mut pmix_data_buffer_t, payload: *mut pmix_byte_object_t) {
        let (buffer, payload) = (writable(buffer)?, writable(payload)?);
        *payload = pmix_byte_object_t { bytes: copy_bytes(unread(buffer))?, size: unread(buffer).len() };
        pmix_data_buffer_t::destroy(buffer);
        Ok(())
    }

    /// `PMIx_Data_embed`: replaces the contents of a buffer by a copy of packed bytes. A NULL payload empties the buffer.
    fn PMIx_Data_embed(buffer: *mut pmix_data_buffer_t, payload: *const pmix_byte_object_t) {
        let buffer = writable(buffer)?;
        let bytes = if payload.is_null() { Bytes::default() } else { pmix_byte_object_t::read(payload)? };
        pmix_data_buffer_t::destroy(buffer);
        pmix_data_buffer_t::write(&bytes, buffer)
    }

    /// `PMIx_Data_copy_payload`: appends the bytes of `src` that have not been unpacked to `dest`.
    fn PMIx_Data_copy_payload(dest: *mut pmix_data_buffer_t, src: *mut pmix_data_buffer_t) {
        let (dest, src) = (writable(dest)?, writable(src)?);
        append(dest, unread(src))
    }
}

entry! {
    /// `PMIx_Value_destruct`: frees what a value holds.
    fn PMIx_Value_destruct(val: *mut pmix_value_t) {
        if !val.is_null() {
            pmix_value_t::destroy(val);
        }
    }

    /// `PMIx_Data_array_destruct`: frees what an array holds.
    fn PMIx_Data_array_destruct(d: *mut pmix_data_array_t) {
        if !d.is_null() {
            pmix_data_array_t::destroy(d);
        }
    }
}

entry! {
    /// `PMIx_Data_compress`: returns whether the bytes were compressed. As in the stock library, short data are not.
    fn PMIx_Data_compress(
        inbytes: *const u8,
        size: usize,
        outbytes: *mut *mut u8,
        nbytes: *mut usize,
    ) -> bool {
        if outbytes.is_null() || nbytes.is_null() || size < COMPRESS_LEN_MIN {
            return false;
        }
        let compressed = compression::compress(array::bytes(inbytes.cast(), size));
        compressed.is_ok_and(|bytes| bytes.len() < size && give_bytes(&bytes, outbytes, nbytes))
    }

    /// `PMIx_Data_decompress`: returns whether the bytes were expanded.
    fn PMIx_Data_decompress(
        inbytes: *const u8,
        size: usize,
        outbytes: *mut *mut u8,
        nbytes: *mut usize,
    ) -> bool {
        if outbytes.is_null() || nbytes.is_null() {
            return false;
        }
        let expanded = compression::decompress(array::bytes(inbytes.cast(), size));
        expanded.is_ok_and(|bytes| give_bytes(&bytes, outbytes, nbytes))
    }
}

/// The least number of bytes that is compressed.
const COMPRESS_LEN_MIN: usize = 4096;

/// Gives C code a copy of bytes, followed by a NUL. Returns false without memory for it.
///
/// # Safety
/// The pointers are writable.
unsafe fn give_bytes(bytes: &[u8], out: *mut *mut u8, len: *mut usize) -> bool {
    let Ok(copy) = copy_text(bytes) else { return false };
    // SAFETY: the caller's promise.
    unsafe {
        out.write(copy.cast());
        len.write(bytes.len());
    }
    true
}

/// Copies an info into memory whose former contents are overwritten without being freed.
///
/// # Errors
/// The status of copying the value.
///
/// # Safety
/// `dest` is writable and `src` initialised.
pub(super) unsafe fn transfer_info(dest: *mut pmix_info_t, src: *const pmix_info_t) -> Result<()> {
    // SAFETY: the caller's promise.
    unsafe {
        let key = text::key_text((&raw const (*src).key).cast())?;
        dest.write_bytes(0, 1);
        text::write_name((&raw mut (*dest).key).cast(), size_of::<pmix_key_t>(), key);
        (*dest).flags = (*src).flags;
        if (*src).flags & InfoFlags::PERSISTENT != 0 {
            (*dest).value = (*src).value;
            return Ok(());
        }
        value::transfer(&raw mut (*dest).value, &raw const (*src).value)
    }
}
