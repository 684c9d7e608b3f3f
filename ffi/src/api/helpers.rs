//! Helpers for values, infos and their arrays.

use std::ffi::{c_char, c_void};
use std::ptr;

use pmix_dstore::model::{Bytes, DataType, InfoFlags, Result};
use pmix_dstore::{compression, fallible_alloc};

use super::buffer::{append, unread};
use super::{Out, c_str, optional_object, present, writable};
use crate::convert::object::Object;
use crate::convert::{array, text, value};
use crate::entry::{entry, status_entry};
use crate::memory::{copy_bytes, copy_string_or_null, copy_text};
use crate::types::*;

status_entry! {
    /// `PMIx_Value_load`: fills a value with a copy of what `data` points to, as the type says.
    ///
    /// A string is itself `data`. NULL leaves the value empty, or true for a directive of type BOOL. Types that a value
    /// cannot hold are accepted and leave it empty, as in the stock library.
    fn PMIx_Value_load(val: *mut pmix_value_t, data: *const c_void, type_: pmix_data_type_t) {
        // SAFETY: `val` is NULL or has room for a value; `data` is what the type says.
        unsafe { value::load(writable(val)?, data, DataType(type_)) }
    }

    /// `PMIx_Value_unload`: copies what a value holds.
    ///
    /// Numbers, PROC and TIMEVAL go to the memory that `*data` points to, strings and other structures to new memory;
    /// the bytes of a byte object are shared with the value.
    fn PMIx_Value_unload(val: *mut pmix_value_t, data: *mut *mut c_void, sz: *mut usize) {
        let (val, room) = (present(val)?, writable(data)?);
        // SAFETY: each is NULL or a place for a result.
        let (data, sz) = unsafe { (Out::new(data)?, Out::new(sz)?) };
        // SAFETY: `val` is not NULL, hence initialised; for a type that goes there, `*data` is NULL or memory for an object of it.
        if let Some((contents, size)) = unsafe { value::unload(val, room) }? {
            data.set(contents);
            sz.set(size);
        }
        Ok(())
    }

    /// `PMIx_Value_xfer`: copies a value into another one, whose former contents are not freed.
    fn PMIx_Value_xfer(dest: *mut pmix_value_t, src: *const pmix_value_t) {
        // SAFETY: `dest` is NULL or has room for a value; `src` is NULL or initialised.
        unsafe { value::transfer(writable(dest)?, present(src)?) }
    }

    /// `PMIx_Info_load`: fills an info; a key that is too long is cut.
    fn PMIx_Info_load(info: *mut pmix_info_t, key: *const c_char, data: *const c_void, type_: pmix_data_type_t) {
        // SAFETY: `info` is NULL or has room for an info.
        let mut info = unsafe { Out::new(info) }?;
        // SAFETY: `key` is NULL or a C string.
        let key = unsafe { c_str(key) }?;
        let to = info.empty();
        text::fill_name(&mut to.key, key.to_bytes());
        // SAFETY: the value is empty; `data` is what the type says.
        unsafe { value::load(&raw mut to.value, data, DataType(type_)) }
    }

    /// `PMIx_Info_xfer`: copies an info. A persistent one shares its value.
    fn PMIx_Info_xfer(dest: *mut pmix_info_t, src: *const pmix_info_t) {
        // SAFETY: `dest` is NULL or has room for an info; `src` is NULL or initialised.
        unsafe { transfer_info(writable(dest)?, present(src)?) }
    }

    /// `PMIx_Data_copy`: a copy of one object, in new memory.
    fn PMIx_Data_copy(dest: *mut *mut c_void, src: *mut c_void, type_: pmix_data_type_t) {
        let ty = DataType(type_);
        // SAFETY: `dest` is NULL or a place for a pointer.
        let dest = unsafe { Out::new(dest) }?;
        let src = present(src)?;
        // A string or a map is passed by its own address, other objects by the address of their C form.
        dest.set(match ty {
            // SAFETY: not NULL, hence a C string, as the type says.
            DataType::STRING => copy_string_or_null(unsafe { text::string(src.cast()) })?.cast(),
            // SAFETY: not NULL, hence a map, as the type says.
            DataType::REGEX => copy_text(unsafe { text::map(src.cast()) })?.cast(),
            // SAFETY: not NULL, hence an initialised object of this type.
            ty => unsafe { value::copy_object(ty, src) }?,
        });
        Ok(())
    }

    /// `PMIx_Data_load`: moves packed bytes into a buffer. A NULL payload leaves the buffer empty.
    fn PMIx_Data_load(buffer: *mut pmix_data_buffer_t, payload: *mut pmix_byte_object_t) {
        let buffer = writable(buffer)?;
        // SAFETY: `buffer` is not NULL, hence initialised; its memory is from `malloc`.
        unsafe { pmix_data_buffer_t::destroy(buffer) };
        // SAFETY: `payload` is NULL or an initialised byte object.
        let Some(payload) = (unsafe { payload.as_mut() }) else { return Ok(()) };
        let held = std::mem::replace(payload, pmix_byte_object_t { bytes: std::ptr::null_mut(), size: 0 });
        let loaded = pmix_data_buffer_t {
            base_ptr: held.bytes,
            pack_ptr: held.bytes.wrapping_add(held.size),
            unpack_ptr: held.bytes,
            bytes_allocated: held.size,
            bytes_used: held.size,
        };
        // SAFETY: `buffer` is not NULL, hence has room for a buffer.
        unsafe { buffer.write(loaded) };
        Ok(())
    }

    /// `PMIx_Data_unload`: copies the bytes that have not been unpacked out of a buffer, and empties it.
    fn PMIx_Data_unload(buffer: *mut pmix_data_buffer_t, payload: *mut pmix_byte_object_t) {
        let buffer = writable(buffer)?;
        // SAFETY: `payload` is NULL or has room for a byte object.
        let payload = unsafe { Out::new(payload) }?;
        // SAFETY: `buffer` is not NULL, hence initialised.
        let bytes = unsafe { unread(buffer) };
        payload.set(pmix_byte_object_t { bytes: copy_bytes(bytes)?, size: bytes.len() });
        // SAFETY: the memory of a buffer is from `malloc`.
        unsafe { pmix_data_buffer_t::destroy(buffer) };
        Ok(())
    }

    /// `PMIx_Data_embed`: replaces the contents of a buffer by a copy of packed bytes. A NULL payload empties the buffer.
    fn PMIx_Data_embed(buffer: *mut pmix_data_buffer_t, payload: *const pmix_byte_object_t) {
        let buffer = writable(buffer)?;
        // SAFETY: `payload` is NULL or an initialised byte object.
        let bytes: Bytes = unsafe { optional_object(payload) }?.unwrap_or_default();
        // SAFETY: `buffer` is not NULL, hence initialised, and its memory is from `malloc`; `destroy` leaves zeros.
        unsafe {
            pmix_data_buffer_t::destroy(buffer);
            pmix_data_buffer_t::write(&bytes, buffer)
        }
    }

    /// `PMIx_Data_copy_payload`: appends the bytes of `src` that have not been unpacked to `dest`.
    fn PMIx_Data_copy_payload(dest: *mut pmix_data_buffer_t, src: *mut pmix_data_buffer_t) {
        let (dest, src) = (writable(dest)?, writable(src)?);
        // A buffer may be copied into itself, and moves when it grows.
        // SAFETY: not NULL, hence an initialised buffer, which nobody changes before the copy is made.
        let bytes = fallible_alloc::copy(unsafe { unread(src) })?;
        // SAFETY: not NULL, hence an initialised buffer, whose memory is from `malloc`.
        unsafe { append(dest, &bytes) }
    }
}

entry! {
    /// `PMIx_Value_destruct`: frees what a value holds.
    fn PMIx_Value_destruct(val: *mut pmix_value_t) {
        if !val.is_null() {
            // SAFETY: not NULL, hence initialised; what it holds is from `malloc`.
            unsafe { pmix_value_t::destroy(val) };
        }
    }

    /// `PMIx_Data_array_destruct`: frees what an array holds.
    fn PMIx_Data_array_destruct(d: *mut pmix_data_array_t) {
        if !d.is_null() {
            // SAFETY: not NULL, hence initialised; what it holds is from `malloc`.
            unsafe { pmix_data_array_t::destroy(d) };
        }
    }

    /// `PMIx_Data_compress`: returns whether the bytes were compressed. As in the stock library, short data are not compressed.
    fn PMIx_Data_compress(
        inbytes: *const u8,
        size: usize,
        outbytes: *mut *mut u8,
        nbytes: *mut usize,
    ) -> bool {
        // SAFETY: each is NULL or a place for a result.
        let (Some(out), Some(len)) = (unsafe { (Out::optional(outbytes), Out::optional(nbytes)) }) else { return false };
        give_nothing(&out, &len);
        if size < COMPRESS_LEN_MIN {
            return false;
        }
        // SAFETY: `inbytes` is NULL or an array of `size` bytes.
        let compressed = compression::compress(unsafe { array::bytes(inbytes.cast(), size) });
        compressed.is_ok_and(|bytes| bytes.len() < size && give_bytes(&bytes, &out, &len))
    }

    /// `PMIx_Data_decompress`: returns whether the bytes were expanded.
    fn PMIx_Data_decompress(
        inbytes: *const u8,
        size: usize,
        outbytes: *mut *mut u8,
        nbytes: *mut usize,
    ) -> bool {
        // SAFETY: each is NULL or a place for a result.
        let (Some(out), Some(len)) = (unsafe { (Out::optional(outbytes), Out::optional(nbytes)) }) else { return false };
        give_nothing(&out, &len);
        // SAFETY: `inbytes` is NULL or an array of `size` bytes.
        let expanded = compression::decompress(unsafe { array::bytes(inbytes.cast(), size) });
        expanded.is_ok_and(|bytes| give_bytes(&bytes, &out, &len))
    }
}

/// The least number of bytes that is compressed.
const COMPRESS_LEN_MIN: usize = 4096;

/// What C code gets with `false`: callers such as PRRTE free the pointer whatever the answer is.
fn give_nothing(out: &Out<*mut u8>, len: &Out<usize>) {
    out.set(ptr::null_mut());
    len.set(0);
}

/// Gives C code a copy of bytes, followed by a NUL. Returns false without memory for it.
fn give_bytes(bytes: &[u8], out: &Out<*mut u8>, len: &Out<usize>) -> bool {
    let Ok(copy) = copy_text(bytes) else { return false };
    out.set(copy.cast());
    len.set(bytes.len());
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
    // SAFETY: `src` is initialised; its key has a NUL or all its 512 bytes.
    let key = unsafe { text::key_text((&raw const (*src).key).cast()) }?;
    // SAFETY: `dest` has room for an info, and all zero is an empty one.
    let to = unsafe {
        dest.write_bytes(0, 1);
        &mut *dest
    };
    text::fill_name(&mut to.key, key);
    // SAFETY: `src` is initialised.
    to.flags = unsafe { (*src).flags };
    if to.flags & InfoFlags::PERSISTENT != 0 {
        // SAFETY: `src` is initialised. Both infos now share what the value holds; neither frees it, as both are persistent.
        to.value = unsafe { (*src).value };
        return Ok(());
    }
    // SAFETY: there is room for a value, and the value of `src` is initialised.
    unsafe { value::transfer(&raw mut to.value, &raw const (*src).value) }
}
