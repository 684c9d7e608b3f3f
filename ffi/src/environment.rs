//! Environments of C code: NULL-terminated arrays of `NAME=value` strings from `malloc`.

use std::ffi::{CStr, CString, c_char};

use pmix_dstore::model::{Result, Status};

use crate::convert::text::string;
use crate::memory::{copy_text, free};

unsafe extern "C" {
    /// The environment of this process.
    static environ: *mut *mut c_char;
}

/// Sets a variable, also where the environment has one of this name.
///
/// Only `setenv` may change the process's own environment, so this calls it where `*env` is `environ`.
///
/// # Errors
/// `NOMEM`; `BAD_PARAM` for a name or value with a NUL inside.
///
/// # Safety
/// `env` points to NULL or to an array from `malloc` of strings from `malloc`, or to `environ`.
pub unsafe fn set(env: *mut *mut *mut c_char, name: &str, value: &[u8]) -> Result<()> {
    let text = |text: &[u8]| CString::new(text).map_err(|_| Status::ERR_BAD_PARAM);
    let entry = text(&[name.as_bytes(), b"=", value].concat())?;
    // SAFETY: `env` points to the address of an array or to NULL, by the caller's promise.
    let list = unsafe { *env };
    // SAFETY: the C library's variable, which is only read here.
    if !list.is_null() && list == unsafe { environ } {
        let (name, value) = (text(name.as_bytes())?, text(value)?);
        // SAFETY: two C strings, which setenv copies.
        let is_set = unsafe { libc::setenv(name.as_ptr(), value.as_ptr(), 1) } == 0;
        return if is_set { Ok(()) } else { Err(Status::ERR_NOMEM) };
    }
    let mut count = 0;
    if !list.is_null() {
        // SAFETY: an array of C strings that ends with NULL, where this loop ends.
        while let Some(old) = unsafe { string(*list.add(count)) } {
            if names(old, name) {
                let copy = copy_text(entry.to_bytes())?;
                // SAFETY: one of the array's strings, which come from `malloc`; the copy takes its place.
                unsafe { free(list.add(count).replace(copy)) };
                return Ok(());
            }
            count += 1;
        }
    }
    let copy = copy_text(entry.to_bytes())?;
    // SAFETY: NULL or an array from `malloc`, by the caller's promise.
    let grown = unsafe { libc::realloc(list.cast(), (count + 2) * size_of::<*mut c_char>()) }.cast::<*mut c_char>();
    if grown.is_null() {
        // SAFETY: made above, and no other code has its address.
        unsafe { free(copy) };
        return Err(Status::ERR_NOMEM);
    }
    // SAFETY: the array now has room for two pointers after its `count` strings; `env` must not keep the address of the old array.
    unsafe {
        grown.add(count).write(copy);
        grown.add(count + 1).write(std::ptr::null_mut());
        env.write(grown);
    }
    Ok(())
}

/// Whether an entry sets the variable `name`.
fn names(entry: &CStr, name: &str) -> bool {
    entry.to_bytes().strip_prefix(name.as_bytes()).is_some_and(|rest| rest.first() == Some(&b'='))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::convert::text::string_list;
    use crate::memory::{copy_string_list, free_string_list};

    #[test]
    fn variables_are_added_and_replaced() {
        let start = [c"AB=2".to_owned(), c"A=1".to_owned()];
        let mut env = copy_string_list(&start).unwrap();
        // SAFETY: the array comes from malloc.
        unsafe {
            set(&raw mut env, "A", b"9").unwrap();
            set(&raw mut env, "C", b"\xff").unwrap();
            assert_eq!(string_list(env).unwrap(), [c"AB=2".to_owned(), c"A=9".to_owned(), c"C=\xff".to_owned()]);
            free_string_list(env);
            let mut none = std::ptr::null_mut();
            set(&raw mut none, "A", b"1").unwrap();
            assert_eq!(string_list(none).unwrap(), [c"A=1".to_owned()]);
            free_string_list(none);
        }
    }
}
