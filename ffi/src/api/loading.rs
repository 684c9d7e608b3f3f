//! Structures filled from their parts, and copied.

use std::ffi::{c_char, c_void};
use std::ptr;

use pmix_dstore::model::{DataType, Result};

use super::argv::PMIx_Argv_append_nosize;
use super::helpers::{PMIx_Data_load, PMIx_Data_unload, PMIx_Value_load, PMIx_Value_xfer};
use super::lifecycle::{PMIx_Device_distance_construct, PMIx_Node_pid_construct, PMIx_Proc_construct};
use super::names::{load_key, load_proc};
use crate::convert::object::{Object, array_element_size};
use crate::convert::text;
use crate::entry::entry;
use crate::memory::{copy_string_or_null, free, zeroed};
use crate::types::*;

/// Makes an array of so many empty objects of a type; without any where nobody knows how large they are.
///
/// # Safety
/// `at` is writable.
unsafe fn make_array(at: *mut pmix_data_array_t, count: usize, ty: pmix_data_type_t) -> Result<()> {
    // SAFETY: the caller's promise.
    unsafe {
        *at = pmix_data_array_t { type_: ty, size: 0, array: ptr::null_mut() };
        if let Some(width) = array_element_size(DataType(ty)) {
            let items = zeroed::<u8>(count.saturating_mul(width))?.cast::<c_void>();
            for index in 0..count {
                let item = items.byte_add(index * width);
                // All others are zero when they are new.
                match DataType(ty) {
                    DataType::PROC => PMIx_Proc_construct(item.cast()),
                    DataType::DEVICE_DIST => PMIx_Device_distance_construct(item.cast()),
                    DataType::NODE_PID => PMIx_Node_pid_construct(item.cast()),
                    _ => break,
                }
            }
            ((*at).array, (*at).size) = (items, count);
        }
    }
    Ok(())
}

entry! {
    /// `PMIx_Data_array_init`: an array of a type, without items.
    fn PMIx_Data_array_init(p: *mut pmix_data_array_t, type_: pmix_data_type_t) {
        if !p.is_null() {
            *p = pmix_data_array_t { type_, size: 0, array: ptr::null_mut() };
        }
    }

    /// `PMIx_Data_array_construct`: an array of `num` empty items; of none where there is no memory, or where the type is
    /// not known.
    fn PMIx_Data_array_construct(p: *mut pmix_data_array_t, num: usize, type_: pmix_data_type_t) {
        if !p.is_null() {
            // What is left of a failure is an array without items, which is all that can be said here.
            let _ = make_array(p, num, type_);
        }
    }

    /// `PMIx_Data_array_create`: an array of `n` empty items, in new memory; NULL for none.
    fn PMIx_Data_array_create(n: usize, type_: pmix_data_type_t) -> *mut pmix_data_array_t {
        let Ok(made) = zeroed::<pmix_data_array_t>(usize::from(n > 0)) else { return ptr::null_mut() };
        if !made.is_null() && make_array(made, n, type_).is_err() {
            free(made);
            return ptr::null_mut();
        }
        made
    }

    /// `PMIx_Data_array_free`: frees an array from `PMIx_Data_array_create`.
    fn PMIx_Data_array_free(p: *mut pmix_data_array_t) {
        if !p.is_null() {
            pmix_data_array_t::destroy(p);
            free(p);
        }
    }

    /// `PMIx_Data_buffer_load`: hands packed bytes over to a buffer.
    fn PMIx_Data_buffer_load(b: *mut pmix_data_buffer_t, bytes: *mut c_char, sz: usize) {
        let mut payload = pmix_byte_object_t { bytes, size: sz };
        // Only NULL can go wrong, and then there is nothing to load.
        let _ = PMIx_Data_load(b, &raw mut payload);
    }

    /// `PMIx_Data_buffer_unload`: takes the bytes out of a buffer that have not been unpacked.
    fn PMIx_Data_buffer_unload(b: *mut pmix_data_buffer_t, bytes: *mut *mut c_char, sz: *mut usize) {
        let mut payload = pmix_byte_object_t { bytes: ptr::null_mut(), size: 0 };
        let done = PMIx_Data_unload(b, &raw mut payload) == 0;
        if bytes.is_null() || sz.is_null() {
            free(payload.bytes);
            return;
        }
        (*bytes, *sz) = if done { (payload.bytes, payload.size) } else { (ptr::null_mut(), 0) };
    }

    /// `PMIx_Byte_object_load`: hands bytes over to a byte object.
    fn PMIx_Byte_object_load(b: *mut pmix_byte_object_t, d: *mut c_char, sz: usize) {
        if !b.is_null() {
            *b = pmix_byte_object_t { bytes: d, size: sz };
        }
    }

    /// `PMIx_Envar_load`: fills an environment variable with copies.
    fn PMIx_Envar_load(e: *mut pmix_envar_t, var: *mut c_char, value: *mut c_char, separator: c_char) {
        if !e.is_null() {
            let copy = |string| copy_string_or_null(text::string(string)).unwrap_or(ptr::null_mut());
            *e = pmix_envar_t { envar: copy(var), value: copy(value), separator };
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
        if !dest.is_null() {
            dest.write_bytes(0, 1);
            if !p.is_null() {
                load_proc(&raw mut (*dest).proc, (&raw const (*p).nspace).cast(), (*p).rank);
            }
            load_key((&raw mut (*dest).key).cast(), key);
            PMIx_Value_load(&raw mut (*dest).value, data, type_);
        }
    }

    /// `PMIx_Pdata_xfer`: copies published data.
    fn PMIx_Pdata_xfer(dest: *mut pmix_pdata_t, src: *mut pmix_pdata_t) {
        if !dest.is_null() && !src.is_null() {
            dest.write_bytes(0, 1);
            load_proc(&raw mut (*dest).proc, (&raw const (*src).proc.nspace).cast(), (*src).proc.rank);
            load_key((&raw mut (*dest).key).cast(), (&raw const (*src).key).cast());
            PMIx_Value_xfer(&raw mut (*dest).value, &raw const (*src).value);
        }
    }

    /// `PMIx_Regattr_load`: fills what is said of an attribute with copies; a description is added to those there are.
    fn PMIx_Regattr_load(
        info: *mut pmix_regattr_t,
        name: *const c_char,
        key: *const c_char,
        type_: pmix_data_type_t,
        description: *const c_char,
    ) {
        if !info.is_null() {
            if !name.is_null() {
                (*info).name = copy_string_or_null(text::string(name)).unwrap_or(ptr::null_mut());
            }
            if !key.is_null() {
                load_key((&raw mut (*info).string).cast(), key);
            }
            (*info).type_ = type_;
            if !description.is_null() {
                PMIx_Argv_append_nosize(&raw mut (*info).description, description);
            }
        }
    }

    /// `PMIx_Regattr_xfer`: copies what is said of an attribute.
    fn PMIx_Regattr_xfer(dest: *mut pmix_regattr_t, src: *const pmix_regattr_t) {
        if !dest.is_null() && !src.is_null() {
            dest.write_bytes(0, 1);
            if let Err(_status) = pmix_regattr_t::read(src).and_then(|regattr| pmix_regattr_t::write(&regattr, dest)) {
                pmix_regattr_t::destroy(dest);
            }
        }
    }
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
