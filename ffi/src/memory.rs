//! Memory that C code will free. All of it comes from `malloc`.

use std::ffi::{CStr, CString, c_char};
use std::ptr;

use pmix_dstore::fallible_alloc;
use pmix_dstore::gather::{GatherBuf, Slices};
use pmix_dstore::model::{Result, Status};

/// Room for `count` zeroed objects; NULL for none.
///
/// # Errors
/// `NOMEM` where `malloc` has none left.
pub fn zeroed<T>(count: usize) -> Result<*mut T> {
    if count == 0 {
        return Ok(ptr::null_mut());
    }
    // SAFETY: calloc checks the product of its arguments and has no other precondition.
    let memory = unsafe { libc::calloc(count, size_of::<T>()) };
    if memory.is_null() { Err(Status::ERR_NOMEM) } else { Ok(memory.cast()) }
}

/// Room for one object, not initialised.
///
/// # Errors
/// `NOMEM` where `malloc` has none left.
#[inline]
pub fn reserve<T>() -> Result<*mut T> {
    reserve_many(1)
}

/// Room for `count` objects, at least one, not initialised.
///
/// # Errors
/// `NOMEM` where `malloc` has none left.
#[inline]
pub fn reserve_many<T>(count: usize) -> Result<*mut T> {
    let len = count.checked_mul(size_of::<T>()).ok_or(Status::ERR_NOMEM)?;
    // SAFETY: malloc has no precondition.
    let memory = unsafe { libc::malloc(len) };
    if memory.is_null() { Err(Status::ERR_NOMEM) } else { Ok(memory.cast()) }
}

/// A copy of `bytes`; NULL for none.
///
/// # Errors
/// `NOMEM`.
pub fn copy_bytes(bytes: &[u8]) -> Result<*mut c_char> {
    if bytes.is_empty() {
        return Ok(ptr::null_mut());
    }
    copy_with_tail(bytes, 0)
}

/// One copy of bytes that lie in pieces; NULL for none.
///
/// # Errors
/// `NOMEM`.
pub fn copy_pieces(pieces: &GatherBuf) -> Result<*mut c_char> {
    if pieces.is_empty() {
        return Ok(ptr::null_mut());
    }
    let memory = reserve_many::<u8>(pieces.len())?;
    fallible_alloc::advise(memory, pieces.len());
    let mut at = memory;
    for slice in pieces.slices() {
        // SAFETY: the new block has room for all slices in sequence, and no other code has its address.
        unsafe {
            ptr::copy_nonoverlapping(slice.as_ptr(), at, slice.len());
            at = at.add(slice.len());
        }
    }
    Ok(memory.cast())
}

/// A copy of a string with its NUL.
///
/// # Errors
/// `NOMEM`.
pub fn copy_string(text: &CStr) -> Result<*mut c_char> {
    copy_with_tail(text.to_bytes(), 1)
}

/// A copy of `text` with a NUL after it.
///
/// # Errors
/// `NOMEM`.
pub fn copy_text(text: &[u8]) -> Result<*mut c_char> {
    copy_with_tail(text, 1)
}

/// A copy of a string, or NULL for `None`.
///
/// # Errors
/// `NOMEM`.
pub fn copy_string_or_null(text: Option<&CStr>) -> Result<*mut c_char> {
    text.map_or(Ok(ptr::null_mut()), copy_string)
}

fn copy_with_tail(bytes: &[u8], zeros: usize) -> Result<*mut c_char> {
    // SAFETY: malloc has no precondition.
    let memory = unsafe { libc::malloc(bytes.len() + zeros) }.cast::<u8>();
    if memory.is_null() {
        return Err(Status::ERR_NOMEM);
    }
    // SAFETY: the new block has room for the bytes and the zeros after them, and no other code has its address.
    unsafe {
        ptr::copy_nonoverlapping(bytes.as_ptr(), memory, bytes.len());
        memory.add(bytes.len()).write_bytes(0, zeros);
    }
    Ok(memory.cast())
}

/// A NULL-terminated array of copied strings; NULL for none.
///
/// # Errors
/// `NOMEM`.
pub fn copy_string_list(strings: &[CString]) -> Result<*mut *mut c_char> {
    if strings.is_empty() {
        return Ok(ptr::null_mut());
    }
    let list = zeroed::<*mut c_char>(strings.len() + 1)?;
    for (index, text) in strings.iter().enumerate() {
        match copy_string(text) {
            // SAFETY: the list has one element more than there are strings.
            Ok(copy) => unsafe { list.add(index).write(copy) },
            Err(status) => {
                // SAFETY: after the strings written so far the list is zero, so it ends with NULL; the copies come from malloc.
                unsafe { free_string_list(list) };
                return Err(status);
            }
        }
    }
    Ok(list)
}

/// Frees what `malloc` gave, or nothing for NULL.
///
/// # Safety
/// `memory` is NULL or comes from `malloc` and is not used again.
pub unsafe fn free<T>(memory: *mut T) {
    // SAFETY: NULL or from `malloc` and not used again, by the caller's promise.
    unsafe { libc::free(memory.cast()) }
}

/// Frees a NULL-terminated array of strings with its strings.
///
/// # Safety
/// `list` is NULL, or it and its strings come from `malloc` and are not used again.
pub unsafe fn free_string_list(list: *mut *mut c_char) {
    if list.is_null() {
        return;
    }
    let mut at = list;
    // SAFETY: not NULL, hence an array that ends with a NULL, where this loop ends; its strings come from `malloc`.
    unsafe {
        while !(*at).is_null() {
            free(*at);
            at = at.add(1);
        }
    }
    // SAFETY: from `malloc` and not used again, by the caller's promise.
    unsafe { free(list) };
}
