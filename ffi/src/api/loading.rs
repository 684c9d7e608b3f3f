//! Structures filled from their parts, and copied.

use std::ffi::{CStr, c_char, c_void};
use std::ptr;

use pmix_dstore::model::{DataType, Result};

use super::Out;
use super::argv::PMIx_Argv_append_nosize;
use super::helpers::{PMIx_Data_load, PMIx_Data_unload, PMIx_Value_load, PMIx_Value_xfer};
use super::lifecycle::{PMIx_Device_distance_construct, PMIx_Node_pid_construct, PMIx_Proc_construct};
use super::names::{load_key, load_proc};
use crate::convert::object::{Object, array_element_size};
use crate::convert::{array, text};
use crate::entry::entry;
use crate::memory::{copy_string_or_null, free, zeroed};
use crate::types::*;

/// An array without items.
fn empty_array(type_: pmix_data_type_t) -> pmix_data_array_t {
    pmix_data_array_t { type_, size: 0, array: ptr::null_mut() }
}

/// An array of `count` empty objects of a type. An unknown type has no known size; the array has no items then.
///
/// # Errors
/// `NOMEM`.
fn new_array(count: usize, type_: pmix_data_type_t) -> Result<pmix_data_array_t> {
    let Some(width) = array_element_size(DataType(type_)) else { return Ok(empty_array(type_)) };
    let items = zeroed::<u8>(count.saturating_mul(width))?.cast::<c_void>();
    for index in 0..count {
        // SAFETY: within the new memory.
        let item = unsafe { items.byte_add(index * width) };
        // All other objects are zero when they are new.
        match DataType(type_) {
            // SAFETY: the item has room for a process.
            DataType::PROC => unsafe { PMIx_Proc_construct(item.cast()) },
            // SAFETY: the item has room for a distance.
            DataType::DEVICE_DIST => unsafe { PMIx_Device_distance_construct(item.cast()) },
            // SAFETY: the item has room for a process of a node.
            DataType::NODE_PID => unsafe { PMIx_Node_pid_construct(item.cast()) },
            _ => break,
        }
    }
    Ok(pmix_data_array_t { type_, size: count, array: items })
}

entry! {
    /// `PMIx_Data_array_init`: an array of a type, without items.
    fn PMIx_Data_array_init(p: *mut pmix_data_array_t, type_: pmix_data_type_t) {
        // SAFETY: `p` is NULL or has room for an array.
        if let Some(to) = unsafe { Out::optional(p) } {
            to.set(empty_array(type_));
        }
    }

    /// `PMIx_Data_array_construct`: an array of `num` empty items. It has no items if there is no memory, or if the type is
    /// unknown.
    fn PMIx_Data_array_construct(p: *mut pmix_data_array_t, num: usize, type_: pmix_data_type_t) {
        // SAFETY: `p` is NULL or has room for an array.
        if let Some(to) = unsafe { Out::optional(p) } {
            // The function has no status to answer. The caller sees that the array has no items.
            to.set(new_array(num, type_).unwrap_or_else(|_| empty_array(type_)));
        }
    }

    /// `PMIx_Data_array_create`: an array of `n` empty items, in new memory; NULL for none.
    fn PMIx_Data_array_create(n: usize, type_: pmix_data_type_t) -> *mut pmix_data_array_t {
        if n == 0 {
            return ptr::null_mut();
        }
        let Ok(made) = zeroed::<pmix_data_array_t>(1) else { return ptr::null_mut() };
        match new_array(n, type_) {
            Ok(array) => {
                // SAFETY: new memory for one array.
                unsafe { made.write(array) };
                made
            }
            Err(_) => {
                // SAFETY: from `malloc`, and nobody else knows it.
                unsafe { free(made) };
                ptr::null_mut()
            }
        }
    }

    /// `PMIx_Data_array_free`: frees an array from `PMIx_Data_array_create`.
    fn PMIx_Data_array_free(p: *mut pmix_data_array_t) {
        // SAFETY: `p` is NULL, or an array in memory from `malloc` whose contents are from `malloc`, too.
        unsafe { array::free_array(p, 1) };
    }

    /// `PMIx_Data_buffer_load`: hands packed bytes over to a buffer.
    fn PMIx_Data_buffer_load(b: *mut pmix_data_buffer_t, bytes: *mut c_char, sz: usize) {
        let mut payload = pmix_byte_object_t { bytes, size: sz };
        // The only error is that `b` is NULL. There is nothing to load then.
        // SAFETY: `b` is NULL or an initialised buffer; the `sz` bytes are from `malloc`.
        let _ = unsafe { PMIx_Data_load(b, &raw mut payload) };
    }

    /// `PMIx_Data_buffer_unload`: moves the bytes that have not been unpacked out of a buffer.
    fn PMIx_Data_buffer_unload(b: *mut pmix_data_buffer_t, bytes: *mut *mut c_char, sz: *mut usize) {
        // SAFETY: each is NULL or a place for a result.
        let places = unsafe { (Out::optional(bytes), Out::optional(sz)) };
        let mut payload = pmix_byte_object_t { bytes: ptr::null_mut(), size: 0 };
        // SAFETY: `b` is NULL or an initialised buffer, whose memory is from `malloc`.
        let done = unsafe { PMIx_Data_unload(b, &raw mut payload) } == 0;
        let (Some(bytes), Some(size)) = places else {
            // SAFETY: NULL or the copy that `PMIx_Data_unload` has made.
            unsafe { free(payload.bytes) };
            return;
        };
        bytes.set(if done { payload.bytes } else { ptr::null_mut() });
        size.set(if done { payload.size } else { 0 });
    }

    /// `PMIx_Byte_object_load`: hands bytes over to a byte object.
    fn PMIx_Byte_object_load(b: *mut pmix_byte_object_t, d: *mut c_char, sz: usize) {
        // SAFETY: `b` is NULL or has room for a byte object.
        if let Some(to) = unsafe { Out::optional(b) } {
            to.set(pmix_byte_object_t { bytes: d, size: sz });
        }
    }

    /// `PMIx_Envar_load`: fills an environment variable with copies.
    fn PMIx_Envar_load(e: *mut pmix_envar_t, var: *mut c_char, value: *mut c_char, separator: c_char) {
        // SAFETY: `e` is NULL or has room for a variable.
        if let Some(to) = unsafe { Out::optional(e) } {
            // SAFETY: `var` and `value` are NULL or C strings.
            let (var, value) = unsafe { (text::string(var), text::string(value)) };
            to.set(pmix_envar_t { envar: copy_or_null(var), value: copy_or_null(value), separator });
        }
    }

    /// `PMIx_Pdata_load`: fills published data with copies.
    fn PMIx_Pdata_load(
        dest: *mut pmix_pdata_t,
        p: *const pmix_proc_t,
        key: *const c_char,
        data: *const c_void,
        type_: pmix_data_type_t,
    ) {
        // SAFETY: `dest` is NULL or has room for published data.
        let Some(mut dest) = (unsafe { Out::optional(dest) }) else { return };
        let to = dest.empty();
        if !p.is_null() {
            // SAFETY: not NULL, hence an initialised process.
            unsafe { load_proc(&raw mut to.proc, (&raw const (*p).nspace).cast(), (*p).rank) };
        }
        // SAFETY: there is room for a key; `key` is NULL, or has a NUL or all its bytes.
        unsafe { load_key((&raw mut to.key).cast(), key) };
        // SAFETY: the value is empty; `data` is what its type says.
        unsafe { PMIx_Value_load(&raw mut to.value, data, type_) };
    }

    /// `PMIx_Pdata_xfer`: copies published data.
    fn PMIx_Pdata_xfer(dest: *mut pmix_pdata_t, src: *mut pmix_pdata_t) {
        if src.is_null() {
            return;
        }
        // SAFETY: `dest` is NULL or has room for published data.
        let Some(mut dest) = (unsafe { Out::optional(dest) }) else { return };
        let to = dest.empty();
        // SAFETY: `src` is not NULL, hence initialised, and there is room for each of its members.
        unsafe {
            load_proc(&raw mut to.proc, (&raw const (*src).proc.nspace).cast(), (*src).proc.rank);
            load_key((&raw mut to.key).cast(), (&raw const (*src).key).cast());
            PMIx_Value_xfer(&raw mut to.value, &raw const (*src).value);
        }
    }

    /// `PMIx_Regattr_load`: fills the description of an attribute with copies. `description` is added to the lines that are there.
    fn PMIx_Regattr_load(
        info: *mut pmix_regattr_t,
        name: *const c_char,
        key: *const c_char,
        type_: pmix_data_type_t,
        description: *const c_char,
    ) {
        if info.is_null() {
            return;
        }
        // SAFETY: `name` is NULL or a C string.
        if let Some(name) = unsafe { text::string(name) } {
            // SAFETY: `info` is not NULL, hence an initialised structure.
            unsafe { (*info).name = copy_or_null(Some(name)) };
        }
        if !key.is_null() {
            // SAFETY: there is room for a key; `key` is not NULL, hence has a NUL or all its bytes.
            unsafe { load_key((&raw mut (*info).string).cast(), key) };
        }
        // SAFETY: `info` is not NULL, hence an initialised structure.
        unsafe { (*info).type_ = type_ };
        if !description.is_null() {
            // SAFETY: the structure's list is NULL or from `malloc`; `description` is not NULL, hence a C string.
            unsafe { PMIx_Argv_append_nosize(&raw mut (*info).description, description) };
        }
    }

    /// `PMIx_Regattr_xfer`: copies the description of an attribute. After an error the copy is empty.
    fn PMIx_Regattr_xfer(dest: *mut pmix_regattr_t, src: *const pmix_regattr_t) {
        if src.is_null() {
            return;
        }
        // SAFETY: `dest` is NULL or has room for the structure.
        let Some(mut to) = (unsafe { Out::optional(dest) }) else { return };
        to.empty();
        // SAFETY: `src` is not NULL, hence an initialised structure.
        if let Ok(regattr) = unsafe { pmix_regattr_t::read(src) }
            && to.fill(&regattr).is_err()
        {
            // SAFETY: `fill` leaves a structure that can be destroyed.
            unsafe { pmix_regattr_t::destroy(dest) };
        }
    }
}

/// A copy of a string; NULL for none, and without memory.
fn copy_or_null(string: Option<&CStr>) -> *mut c_char {
    copy_string_or_null(string).unwrap_or(ptr::null_mut())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_are_made_and_freed() {
        // SAFETY: arrays of this module, freed once.
        unsafe {
            let array = PMIx_Data_array_create(3, DataType::INFO.0);
            assert_eq!(((*array).size, (*array).type_), (3, DataType::INFO.0));
            let infos = (*array).array.cast::<pmix_info_t>();
            PMIx_Value_load(&raw mut (*infos.add(2)).value, c"text".as_ptr().cast(), DataType::STRING.0);
            PMIx_Data_array_free(array);
            assert!(PMIx_Data_array_create(0, DataType::INFO.0).is_null());
            let mut unknown = pmix_data_array_t { type_: 1, size: 1, array: ptr::dangling_mut() };
            PMIx_Data_array_construct(&raw mut unknown, 3, 999);
            assert!(unknown.array.is_null() && unknown.size == 0);
        }
    }

    #[test]
    fn attributes_are_described_and_copied() {
        // SAFETY: a zeroed structure is an empty one.
        unsafe {
            let (mut one, mut other): (pmix_regattr_t, pmix_regattr_t) = (std::mem::zeroed(), std::mem::zeroed());
            let name = c"PMIX_JOB_SIZE".as_ptr();
            for line in [c"first", c"second"] {
                PMIx_Regattr_load(&raw mut one, ptr::null(), c"pmix.job.size".as_ptr(), 14, line.as_ptr());
            }
            PMIx_Regattr_load(&raw mut one, name, ptr::null(), 14, ptr::null());
            PMIx_Regattr_xfer(&raw mut other, &raw const one);
            let (read, copied) = (pmix_regattr_t::read(&raw const one), pmix_regattr_t::read(&raw const other));
            assert_eq!(read, copied);
            assert_eq!(read.unwrap().description, [c"first".to_owned(), c"second".to_owned()]);
            pmix_regattr_t::destroy(&raw mut one);
            pmix_regattr_t::destroy(&raw mut other);
        }
    }
}
