//! Environments of C code: NULL-terminated arrays of `NAME=value` strings from `malloc`.

use std::ffi::{CStr, CString, c_char};

use pmix_dstore::model::{Result, Status};

use crate::memory::{copy_text, free};

unsafe extern "C" {
    /// The environment of this process.
    static environ: *mut *mut c_char;
}

/// Sets a variable, in place of the one of this name where there is one.
///
/// An array that is the process's own environment is left to `setenv`, which owns it.
///
/// # Errors
/// `NOMEM`; `BAD_PARAM` for a name or value with a NUL inside.
///
/// # Safety
/// `env` points to NULL or to an array from `malloc` of strings from `malloc`, or to `environ`.
pub unsafe fn set(env: *mut *mut *mut c_char, name: &str, value: &[u8]) -> Result<()> {
    let text = |text: &[u8]| CString::new(text).map_err(|_| Status::ERR_BAD_PARAM);
    let entry = text(&[name.as_bytes(), b"=", value].concat())?;
    // SAFETY: the caller's promise; the walk ends at the NULL of the array, and realloc gets what malloc gave.
    unsafe {
        if *env == environ && !(*env).is_null() {
            let (name, value) = (text(name.as_bytes())?, text(value)?);
            return if libc::setenv(name.as_ptr(), value.as_ptr(), 1) == 0 { Ok(()) } else { Err(Status::ERR_NOMEM) };
        }
        let mut count = 0;
        if !(*env).is_null() {
            loop {
                let at = (*env).add(count);
                if (*at).is_null() {
                    break;
                }
                if names(CStr::from_ptr(*at), name) {
                    let copy = copy_text(entry.to_bytes())?;
                    free(*at);
                    *at = copy;
                    return Ok(());
                }
                count += 1;
            }
        }
        let copy = copy_text(entry.to_bytes())?;
        let grown = libc::realloc((*env).cast(), (count + 2) * size_of::<*mut c_char>()).cast::<*mut c_char>();
        if grown.is_null() {
            free(copy);
            return Err(Status::ERR_NOMEM);
        }
        *env = grown;
        grown.add(count).write(copy);
        grown.add(count + 1).write(std::ptr::null_mut());
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
