//! Strings and names of C code.
//!
//! Callers pass short strings where the interface says `pmix_key_t`. So no byte after the NUL may be read.

use std::ffi::{CStr, CString, c_char};

use pmix_dstore::fallible_alloc;
use pmix_dstore::model::{Key, Nspace, Result, Status};

/// Longest namespace, without its NUL.
const NSPACE_LEN_MAX: usize = 255;
/// Longest key, without its NUL.
const KEY_LEN_MAX: usize = 511;

/// The bytes before the NUL.
///
/// # Errors
/// `BAD_PARAM` for NULL and for a string longer than `len_max`.
///
/// # Safety
/// `text` is NULL or readable up to its NUL or `len_max + 1` bytes, and stays so for `'a`.
unsafe fn bounded<'a>(text: *const c_char, len_max: usize) -> Result<&'a [u8]> {
    if text.is_null() {
        return Err(Status::ERR_BAD_PARAM);
    }
    // SAFETY: strnlen reads up to the NUL and at most `len_max + 1` bytes, which the caller vouches for.
    let len = unsafe { libc::strnlen(text, len_max + 1) };
    if len > len_max {
        return Err(Status::ERR_BAD_PARAM);
    }
    // SAFETY: strnlen has just read these bytes.
    Ok(unsafe { std::slice::from_raw_parts(text.cast(), len) })
}

/// The text of a key.
///
/// # Errors
/// `BAD_PARAM` for NULL and for more than 511 bytes.
///
/// # Safety
/// `key` is NULL or readable up to its NUL or 512 bytes for `'a`.
pub unsafe fn key_text<'a>(key: *const c_char) -> Result<&'a [u8]> {
    // SAFETY: the caller's promise.
    unsafe { bounded(key, KEY_LEN_MAX) }
}

/// A key, copied.
///
/// # Errors
/// As [`key_text`].
///
/// # Safety
/// As [`key_text`].
pub unsafe fn key(key: *const c_char) -> Result<Key> {
    // SAFETY: the caller's promise.
    Key::new(unsafe { key_text(key) }?).map_err(|_| Status::ERR_BAD_PARAM)
}

/// The text of a namespace.
///
/// # Errors
/// `BAD_PARAM` for NULL and for more than 255 bytes.
///
/// # Safety
/// `nspace` is NULL or readable up to its NUL or 256 bytes for `'a`.
pub unsafe fn nspace_text<'a>(nspace: *const c_char) -> Result<&'a [u8]> {
    // SAFETY: the caller's promise.
    unsafe { bounded(nspace, NSPACE_LEN_MAX) }
}

/// A namespace, copied.
///
/// # Errors
/// As [`nspace_text`].
///
/// # Safety
/// As [`nspace_text`].
pub unsafe fn nspace(nspace: *const c_char) -> Result<Nspace> {
    // SAFETY: the caller's promise.
    Nspace::new(unsafe { nspace_text(nspace) }?).map_err(|_| Status::ERR_BAD_PARAM)
}

/// A string, or `None` for NULL.
///
/// # Safety
/// `text` is NULL or a C string that stays for `'a`.
pub unsafe fn string<'a>(text: *const c_char) -> Option<&'a CStr> {
    // SAFETY: not NULL, hence a C string by the caller's promise.
    (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) })
}

/// The bytes of a map of nodes or processes, which comes without its length. A plain map is a text that ends with a NUL. A
/// compressed map contains its own size.
///
/// # Safety
/// `map` is a C string. Where it begins as a compressed map does, it is a whole map as `PMIx_generate_regex` creates them. It
/// stays for `'a`.
pub unsafe fn map<'a>(map: *const c_char) -> &'a [u8] {
    // SAFETY: a C string, by the caller's promise.
    let kind = unsafe { CStr::from_ptr(map) }.to_bytes_with_nul();
    if kind != b"blob:\0" {
        return kind;
    }
    // SAFETY: a compressed map consists of three texts, one after the other, and bytes; this is the second text.
    let component = unsafe { CStr::from_ptr(map.add(kind.len())) }.to_bytes_with_nul();
    if component != b"component=zlib:\0" {
        return kind;
    }
    // SAFETY: the third text.
    let said = unsafe { CStr::from_ptr(map.add(kind.len() + component.len())) }.to_bytes_with_nul();
    let head = kind.len() + component.len() + said.len();
    let size = said.strip_prefix(b"size=").and_then(|said| said.strip_suffix(b":\0"));
    let size = size.and_then(|size| std::str::from_utf8(size).ok()?.parse::<usize>().ok());
    let size = size.filter(|size| *size <= isize::MAX as usize - head);
    // SAFETY: as many bytes as the third text says follow it.
    unsafe { std::slice::from_raw_parts(map.cast(), head + size.unwrap_or(0)) }
}

/// A string, copied, or `None` for NULL.
///
/// # Errors
/// `NOMEM`.
///
/// # Safety
/// `text` is NULL or a C string.
pub unsafe fn owned_string(text: *const c_char) -> Result<Option<CString>> {
    // SAFETY: the caller's promise.
    unsafe { string(text) }.map(fallible_alloc::copy_c_str).transpose()
}

/// The strings of a NULL-terminated array, none for NULL.
///
/// # Errors
/// `NOMEM`.
///
/// # Safety
/// `list` is NULL or an array of C strings with a NULL at its end.
pub unsafe fn string_list(list: *const *mut c_char) -> Result<Vec<CString>> {
    let mut strings = Vec::new();
    if list.is_null() {
        return Ok(strings);
    }
    let mut at = list;
    // SAFETY: the caller's array ends with a NULL, which ends the walk.
    while let Some(text) = unsafe { owned_string(*at) }? {
        fallible_alloc::push(&mut strings, text)?;
        // SAFETY: not the end yet.
        at = unsafe { at.add(1) };
    }
    Ok(strings)
}

/// Writes a name into a buffer of `capacity` bytes and fills the rest of the buffer with zeros.
///
/// A name that does not fit with its NUL is cut; the model's names fit their buffers.
///
/// # Safety
/// `at` has room for `capacity` bytes, at least one.
pub unsafe fn write_name(at: *mut c_char, capacity: usize, name: &[u8]) {
    let len = name.len().min(capacity - 1);
    // SAFETY: `len` bytes and the zeros behind them are within the buffer.
    unsafe {
        std::ptr::copy_nonoverlapping(name.as_ptr().cast(), at, len);
        at.add(len).write_bytes(0, capacity - len);
    }
}

/// Writes a name into a buffer and clears the rest, as [`write_name`] does.
pub fn fill_name<const CAPACITY: usize>(buffer: &mut [c_char; CAPACITY], name: &[u8]) {
    const { assert!(CAPACITY > 0) }
    // SAFETY: the buffer has this capacity, which is not zero.
    unsafe { write_name(buffer.as_mut_ptr(), CAPACITY, name) }
}
