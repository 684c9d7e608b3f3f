//! Lists of strings as `main` and `execve` have them, and environments.

use std::ffi::{CStr, CString, c_char, c_int};
use std::ptr;

use pmix_dstore::model::{Result, Status};

use super::{present, writable};
use crate::convert::text;
use crate::entry::{entry, status_entry};
use crate::memory::{copy_string, copy_text, free, free_string_list, zeroed};

/// How many strings a list has; none for NULL.
///
/// # Safety
/// `list` is NULL or ends with a NULL.
unsafe fn count(list: *const *mut c_char) -> usize {
    let mut number = 0;
    // SAFETY: the list's NULL ends the walk.
    while !list.is_null() && unsafe { !(*list.add(number)).is_null() } {
        number += 1;
    }
    number
}

/// Puts a copy of a string into a list, before the string with this number.
///
/// # Errors
/// `NOMEM`; the list is as it was then.
///
/// # Safety
/// `*list` is NULL or comes from `malloc` and ends with a NULL; `index` is at most its length.
unsafe fn insert(list: *mut *mut *mut c_char, index: usize, string: &CStr) -> Result<()> {
    let copy = copy_string(string)?;
    // SAFETY: the caller's promise; the list has room for one string more and its NULL when it is written.
    unsafe {
        let number = count(*list);
        let grown = libc::realloc((*list).cast(), (number + 2) * size_of::<*mut c_char>()).cast::<*mut c_char>();
        if grown.is_null() {
            free(copy);
            return Err(Status::ERR_NOMEM);
        }
        *list = grown;
        grown.add(index + 1).copy_from(grown.add(index), number - index);
        *grown.add(index) = copy;
        *grown.add(number + 1) = ptr::null_mut();
    }
    Ok(())
}

/// A list of copies, NULL for none, and where there is no memory.
fn list_of<'a>(strings: impl Iterator<Item = &'a [u8]>) -> *mut *mut c_char {
    let strings: Vec<&[u8]> = strings.collect();
    if strings.is_empty() {
        return ptr::null_mut();
    }
    let Ok(list) = zeroed::<*mut c_char>(strings.len() + 1) else { return ptr::null_mut() };
    for (index, string) in strings.into_iter().enumerate() {
        // SAFETY: the list has one place more than there are strings, and the rest of it is NULL.
        unsafe {
            match copy_text(string) {
                Ok(copy) => *list.add(index) = copy,
                Err(_) => {
                    free_string_list(list);
                    return ptr::null_mut();
                }
            }
        }
    }
    list
}

/// The parts of a text between delimiters. The end of the text is none: nothing follows a delimiter there.
///
/// # Safety
/// `text` is NULL or a C string.
unsafe fn split(text: *const c_char, delimiter: c_int, with_empty: bool) -> *mut *mut c_char {
    // SAFETY: the caller's promise.
    let Some(text) = (unsafe { text::string(text) }) else { return ptr::null_mut() };
    let is_delimiter = |byte: &u8| c_int::from(*byte) == delimiter & 0xff;
    let text = match text.to_bytes() {
        [] => return ptr::null_mut(),
        [before @ .., last] if is_delimiter(last) => before,
        text => text,
    };
    let parts = text.split(is_delimiter).filter(|part| with_empty || !part.is_empty());
    list_of(parts)
}

status_entry! {
    /// `PMIx_Argv_append_nosize`: adds a copy of a string at the end of a list.
    fn PMIx_Argv_append_nosize(argv: *mut *mut *mut c_char, arg: *const c_char) {
        let (list, string) = (writable(argv)?, CStr::from_ptr(present(arg)?));
        insert(list, count(*list), string)
    }

    /// `PMIx_Argv_prepend_nosize`: puts a copy of a string at the beginning of a list.
    fn PMIx_Argv_prepend_nosize(argv: *mut *mut *mut c_char, arg: *const c_char) {
        let (list, string) = (writable(argv)?, CStr::from_ptr(present(arg)?));
        insert(list, 0, string)
    }

    /// `PMIx_Argv_append_unique_nosize`: adds a copy of a string that the list does not have yet.
    fn PMIx_Argv_append_unique_nosize(argv: *mut *mut *mut c_char, arg: *const c_char) {
        let (list, string) = (writable(argv)?, CStr::from_ptr(present(arg)?));
        let number = count(*list);
        if (0..number).any(|index| CStr::from_ptr(*(*list).add(index)) == string) {
            return Ok(());
        }
        insert(list, number, string)
    }

    /// `PMIx_Setenv`: sets a variable of an environment, or of this process's own where `*env` is `environ`.
    ///
    /// NULL as the value removes the variable from the process's own, and makes it an empty one in another. Where it is
    /// there and not to be overwritten it stays: without an error in the process's own, with `PMIX_ERR_EXISTS` in another.
    fn PMIx_Setenv(name: *const c_char, value: *const c_char, overwrite: bool, env: *mut *mut *mut c_char) {
        let (env, name) = (writable(env)?, CStr::from_ptr(present(name)?));
        let value = text::string(value);
        if !(*env).is_null() && ptr::eq(*env, libc_environ()) {
            let done = match value {
                Some(value) => libc::setenv(name.as_ptr(), value.as_ptr(), c_int::from(overwrite)),
                None => libc::unsetenv(name.as_ptr()),
            };
            return if done == 0 { Ok(()) } else { Err(Status::ERR_BAD_PARAM) };
        }
        let mut entry = name.to_bytes().to_vec();
        entry.push(b'=');
        let name_len = entry.len();
        entry.extend_from_slice(value.map(CStr::to_bytes).unwrap_or_default());
        let entry = CString::new(entry).map_err(|_| Status::ERR_BAD_PARAM)?;
        let number = count(*env);
        for index in 0..number {
            let at = (*env).add(index);
            if CStr::from_ptr(*at).to_bytes().starts_with(&entry.to_bytes()[..name_len]) {
                if !overwrite {
                    return Err(Status::ERR_EXISTS);
                }
                let copy = copy_string(&entry)?;
                free(*at);
                *at = copy;
                return Ok(());
            }
        }
        insert(env, number, &entry)
    }
}

/// The environment of this process, as C code sees it.
fn libc_environ() -> *mut *mut c_char {
    unsafe extern "C" {
        static mut environ: *mut *mut c_char;
    }
    // SAFETY: the C library's variable, read only; who changes the environment beside others is on his own, in C.
    unsafe { environ }
}

entry! {
    /// `PMIx_Argv_count`: how many strings a list has.
    fn PMIx_Argv_count(a: *mut *mut c_char) -> c_int {
        c_int::try_from(count(a)).unwrap_or(c_int::MAX)
    }

    /// `PMIx_Argv_free`: frees a list and its strings.
    fn PMIx_Argv_free(argv: *mut *mut c_char) {
        free_string_list(argv);
    }

    /// `PMIx_Argv_split`: the parts of a text between delimiters, but the empty ones; NULL for none.
    fn PMIx_Argv_split(src_string: *const c_char, delimiter: c_int) -> *mut *mut c_char {
        split(src_string, delimiter, false)
    }

    /// `PMIx_Argv_split_with_empty`: the parts of a text between delimiters.
    fn PMIx_Argv_split_with_empty(src_string: *const c_char, delimiter: c_int) -> *mut *mut c_char {
        split(src_string, delimiter, true)
    }

    /// `PMIx_Argv_split_inter`: one of the two.
    fn PMIx_Argv_split_inter(src_string: *const c_char, delimiter: c_int, include_empty: bool) -> *mut *mut c_char {
        split(src_string, delimiter, include_empty)
    }

    /// `PMIx_Argv_join`: the strings of a list with delimiters between them; an empty text for none.
    fn PMIx_Argv_join(argv: *mut *mut c_char, delimiter: c_int) -> *mut c_char {
        let strings: Vec<&[u8]> = (0..count(argv)).map(|index| CStr::from_ptr(*argv.add(index)).to_bytes()).collect();
        copy_text(&strings.join(&(delimiter as u8))).unwrap_or(ptr::null_mut())
    }

    /// `PMIx_Argv_copy`: a list of copies; NULL for NULL.
    fn PMIx_Argv_copy(argv: *mut *mut c_char) -> *mut *mut c_char {
        if argv.is_null() {
            return ptr::null_mut();
        }
        match count(argv) {
            0 => zeroed(1).unwrap_or(ptr::null_mut()),
            number => list_of((0..number).map(|index| CStr::from_ptr(*argv.add(index)).to_bytes())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a text is split into.
    type Parts = Option<&'static [&'static str]>;

    /// The strings of a list, which is freed.
    fn taken(list: *mut *mut c_char) -> Option<Vec<String>> {
        if list.is_null() {
            return None;
        }
        // SAFETY: a list of this module.
        unsafe {
            let strings = text::string_list(list).unwrap();
            free_string_list(list);
            Some(strings.into_iter().map(|string| string.into_string().unwrap()).collect())
        }
    }

    #[test]
    fn texts_are_split_and_joined() {
        let comma = c_int::from(b',');
        // SAFETY: C strings, and lists that end with NULL.
        unsafe {
            let cases: [(&CStr, Parts, Parts); 7] = [
                (c"a,b", Some(&["a", "b"]), Some(&["a", "b"])),
                (c"a,,b,", Some(&["a", "b"]), Some(&["a", "", "b"])),
                (c",a", Some(&["a"]), Some(&["", "a"])),
                (c",", None, Some(&[""])),
                (c",,", None, Some(&["", ""])),
                (c"", None, None),
                (c"one", Some(&["one"]), Some(&["one"])),
            ];
            for (text, plain, with_empty) in cases {
                let owned = |parts: Parts| -> Option<Vec<String>> {
                    parts.map(|parts| parts.iter().map(|&part| part.into()).collect())
                };
                assert_eq!(taken(PMIx_Argv_split(text.as_ptr(), comma)), owned(plain), "{text:?}");
                assert_eq!(taken(PMIx_Argv_split_with_empty(text.as_ptr(), comma)), owned(with_empty), "{text:?}");
            }
            assert!(PMIx_Argv_split(ptr::null(), comma).is_null());
            let list = PMIx_Argv_split(c"a,b,c".as_ptr(), comma);
            assert_eq!(PMIx_Argv_count(list), 3);
            let joined = PMIx_Argv_join(list, c_int::from(b';'));
            assert_eq!(CStr::from_ptr(joined), c"a;b;c");
            free(joined);
            assert_eq!(taken(PMIx_Argv_copy(list)), taken(list));
            let empty = PMIx_Argv_join(ptr::null_mut(), comma);
            assert_eq!(CStr::from_ptr(empty), c"");
            free(empty);
        }
    }

    #[test]
    fn lists_grow_at_both_ends() {
        let mut list = ptr::null_mut();
        // SAFETY: a list of this module.
        unsafe {
            assert_eq!(PMIx_Argv_append_nosize(&raw mut list, c"b".as_ptr()), 0);
            assert_eq!(PMIx_Argv_append_unique_nosize(&raw mut list, c"b".as_ptr()), 0);
            assert_eq!(PMIx_Argv_append_unique_nosize(&raw mut list, c"c".as_ptr()), 0);
            assert_eq!(PMIx_Argv_prepend_nosize(&raw mut list, c"a".as_ptr()), 0);
            assert_eq!(PMIx_Argv_append_nosize(&raw mut list, ptr::null()), Status::ERR_BAD_PARAM.0);
        }
        assert_eq!(taken(list).unwrap(), ["a", "b", "c"]);
    }

    #[test]
    fn variables_are_set_in_a_list() {
        let mut env = ptr::null_mut();
        // SAFETY: a list of this module.
        unsafe {
            let mut set = |name: &CStr, value: &CStr, overwrite| {
                PMIx_Setenv(name.as_ptr(), value.as_ptr(), overwrite, &raw mut env)
            };
            assert_eq!(set(c"A", c"1", false), 0);
            assert_eq!(set(c"AB", c"2", false), 0);
            assert_eq!(set(c"A", c"3", false), Status::ERR_EXISTS.0);
            assert_eq!(set(c"A", c"4", true), 0);
        }
        assert_eq!(taken(env).unwrap(), ["A=4", "AB=2"]);
    }

    #[test]
    fn variables_are_set_in_the_process() {
        // SAFETY: no other test reads or sets this variable, nor changes the environment.
        unsafe {
            let mut own = libc_environ();
            assert_eq!(PMIx_Setenv(c"PMIX_FFI_ARGV".as_ptr(), c"here".as_ptr(), true, &raw mut own), 0);
            assert_eq!(std::env::var("PMIX_FFI_ARGV").unwrap(), "here");
            let mut own = libc_environ();
            assert_eq!(PMIx_Setenv(c"PMIX_FFI_ARGV".as_ptr(), ptr::null(), true, &raw mut own), 0);
            assert!(std::env::var_os("PMIX_FFI_ARGV").is_none());
        }
    }
}
