//! Lists of strings, as the `argv` of `main` and the environment of `execve` are.

use std::ffi::{CStr, CString, c_char, c_int};
use std::ptr;

use pmix_dstore::model::{Result, Status};

use super::{c_str, writable};
use crate::convert::text;
use crate::entry::{entry, status_entry};
use crate::memory::{copy_string, copy_text, free, free_string_list, zeroed};

/// How many strings a list has; none for NULL.
///
/// # Safety
/// `list` is NULL or ends with a NULL.
unsafe fn count(list: *const *mut c_char) -> usize {
    let mut number = 0;
    // SAFETY: the list has a NULL at its end, by the caller's promise, and is not read beyond it.
    while !list.is_null() && unsafe { !(*list.add(number)).is_null() } {
        number += 1;
    }
    number
}

/// The strings of a list; none for NULL.
///
/// # Safety
/// `list` is NULL or an array of C strings with a NULL at its end, which stays unchanged for `'a`.
unsafe fn strings<'a>(list: *const *mut c_char) -> impl Iterator<Item = &'a CStr> {
    // SAFETY: the caller's promise.
    let number = unsafe { count(list) };
    // SAFETY: none of the entries before the NULL is NULL; each is a C string, by the caller's promise.
    (0..number).map(move |index| unsafe { CStr::from_ptr(*list.add(index)) })
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
    // SAFETY: `*list` is NULL or ends with a NULL, by the caller's promise.
    let number = unsafe { count(*list) };
    let size = (number + 2) * size_of::<*mut c_char>();
    // SAFETY: `*list` is NULL or from `malloc`, by the caller's promise.
    let grown = unsafe { libc::realloc((*list).cast(), size) }.cast::<*mut c_char>();
    if grown.is_null() {
        // SAFETY: the copy is from `malloc`, and nobody else knows it.
        unsafe { free(copy) };
        return Err(Status::ERR_NOMEM);
    }
    // SAFETY: the list has room for the strings it had, one more and the NULL; `index` is at most the number it had.
    unsafe {
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
        match copy_text(string) {
            // SAFETY: the list has one entry more than there are strings.
            Ok(copy) => unsafe { list.add(index).write(copy) },
            Err(_) => {
                // SAFETY: the list is from `malloc`, and NULL behind the copies that it has; nobody else knows it.
                unsafe { free_string_list(list) };
                return ptr::null_mut();
            }
        }
    }
    list
}

/// The parts of a text between delimiters. There is no empty part after a delimiter at the end of the text.
///
/// # Safety
/// `text` is NULL or a C string.
unsafe fn split(text: *const c_char, delimiter: c_int, with_empty: bool) -> *mut *mut c_char {
    // SAFETY: NULL or a C string, by the caller's promise.
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
        let list = writable(argv)?;
        // SAFETY: `arg` is NULL or a C string.
        let string = unsafe { c_str(arg) }?;
        // SAFETY: `*argv` is NULL, or a list from `malloc` with a NULL at its end.
        unsafe { insert(list, count(*list), string) }
    }

    /// `PMIx_Argv_prepend_nosize`: puts a copy of a string at the beginning of a list.
    fn PMIx_Argv_prepend_nosize(argv: *mut *mut *mut c_char, arg: *const c_char) {
        let list = writable(argv)?;
        // SAFETY: `arg` is NULL or a C string.
        let string = unsafe { c_str(arg) }?;
        // SAFETY: `*argv` is NULL, or a list from `malloc` with a NULL at its end.
        unsafe { insert(list, 0, string) }
    }

    /// `PMIx_Argv_append_unique_nosize`: adds a copy of a string that the list does not have yet.
    fn PMIx_Argv_append_unique_nosize(argv: *mut *mut *mut c_char, arg: *const c_char) {
        let list = writable(argv)?;
        // SAFETY: `arg` is NULL or a C string.
        let string = unsafe { c_str(arg) }?;
        // SAFETY: `*argv` is NULL, or an array of C strings with a NULL at its end.
        if unsafe { strings(*list) }.any(|other| other == string) {
            return Ok(());
        }
        // SAFETY: `*argv` is NULL or from `malloc`, too.
        unsafe { insert(list, count(*list), string) }
    }

    /// `PMIx_Setenv`: sets a variable of an environment, or of this process's own where `*env` is `environ`.
    ///
    /// NULL as the value removes the variable from the process's own, and makes it an empty one in another. Where it is
    /// there and not to be overwritten it stays: without an error in the process's own, with `PMIX_ERR_EXISTS` in another.
    fn PMIx_Setenv(name: *const c_char, value: *const c_char, overwrite: bool, env: *mut *mut *mut c_char) {
        let env = writable(env)?;
        // SAFETY: `name` is NULL or a C string.
        let name = unsafe { c_str(name) }?;
        // SAFETY: `value` is NULL or a C string.
        let value = unsafe { text::string(value) };
        // SAFETY: not NULL, hence an environment or a place for one.
        let list = unsafe { *env };
        if !list.is_null() && ptr::eq(list, libc_environ()) {
            return set_own(name, value, overwrite);
        }
        // SAFETY: `*env` is NULL, or a list from `malloc` with a NULL at its end, whose strings are from `malloc`, too.
        unsafe { set_in_list(env, name, value.unwrap_or_default(), overwrite) }
    }
}

/// Sets a variable of this process's environment, or removes it.
///
/// # Errors
/// `BAD_PARAM` where the C library rejects the name, or has no memory.
fn set_own(name: &CStr, value: Option<&CStr>, overwrite: bool) -> Result<()> {
    // SAFETY: both are C strings. That no other thread uses the environment now is up to the caller of `PMIx_Setenv`, as with
    // setenv.
    let done = unsafe {
        match value {
            Some(value) => libc::setenv(name.as_ptr(), value.as_ptr(), c_int::from(overwrite)),
            None => libc::unsetenv(name.as_ptr()),
        }
    };
    if done == 0 { Ok(()) } else { Err(Status::ERR_BAD_PARAM) }
}

/// Sets a variable in a list of variables.
///
/// # Errors
/// `EXISTS` for a variable that is there and not to be overwritten, `NOMEM`; the list is as it was then.
///
/// # Safety
/// `*env` is NULL, or a list from `malloc` with a NULL at its end, whose strings are C strings from `malloc`.
unsafe fn set_in_list(env: *mut *mut *mut c_char, name: &CStr, value: &CStr, overwrite: bool) -> Result<()> {
    let entry = [name.to_bytes(), b"=", value.to_bytes()].concat();
    let entry = CString::new(entry).map_err(|_| Status::ERR_BAD_PARAM)?;
    let start = &entry.to_bytes()[..=name.count_bytes()];
    // SAFETY: the caller's promise.
    let Some(index) = unsafe { strings(*env) }.position(|old| old.to_bytes().starts_with(start)) else {
        // SAFETY: the caller's promise; the list has so many strings.
        return unsafe { insert(env, count(*env), &entry) };
    };
    if !overwrite {
        return Err(Status::ERR_EXISTS);
    }
    let copy = copy_string(&entry)?;
    // SAFETY: the string with this number, which is from `malloc`; the list forgets it.
    unsafe { free((*env).add(index).replace(copy)) };
    Ok(())
}

/// The environment of this process, as C code sees it.
fn libc_environ() -> *mut *mut c_char {
    unsafe extern "C" {
        static mut environ: *mut *mut c_char;
    }
    // SAFETY: the C library's variable, which is only read here. A program must not change its environment while other threads
    // use it.
    unsafe { environ }
}

entry! {
    /// `PMIx_Argv_count`: how many strings a list has.
    fn PMIx_Argv_count(a: *mut *mut c_char) -> c_int {
        // SAFETY: `a` is NULL or ends with a NULL.
        c_int::try_from(unsafe { count(a) }).unwrap_or(c_int::MAX)
    }

    /// `PMIx_Argv_free`: frees a list and its strings.
    fn PMIx_Argv_free(argv: *mut *mut c_char) {
        // SAFETY: `argv` is NULL, or the list and its strings are from `malloc`.
        unsafe { free_string_list(argv) };
    }

    /// `PMIx_Argv_split`: the parts of a text between delimiters, without the empty ones; NULL for none.
    fn PMIx_Argv_split(src_string: *const c_char, delimiter: c_int) -> *mut *mut c_char {
        // SAFETY: `src_string` is NULL or a C string.
        unsafe { split(src_string, delimiter, false) }
    }

    /// `PMIx_Argv_split_with_empty`: the parts of a text between delimiters.
    fn PMIx_Argv_split_with_empty(src_string: *const c_char, delimiter: c_int) -> *mut *mut c_char {
        // SAFETY: `src_string` is NULL or a C string.
        unsafe { split(src_string, delimiter, true) }
    }

    /// `PMIx_Argv_split_inter`: the parts of a text between delimiters, with or without the empty ones.
    fn PMIx_Argv_split_inter(src_string: *const c_char, delimiter: c_int, include_empty: bool) -> *mut *mut c_char {
        // SAFETY: `src_string` is NULL or a C string.
        unsafe { split(src_string, delimiter, include_empty) }
    }

    /// `PMIx_Argv_join`: the strings of a list with delimiters between them; an empty text for none.
    fn PMIx_Argv_join(argv: *mut *mut c_char, delimiter: c_int) -> *mut c_char {
        // SAFETY: `argv` is NULL, or an array of C strings with a NULL at its end.
        let strings: Vec<&[u8]> = unsafe { strings(argv) }.map(CStr::to_bytes).collect();
        copy_text(&strings.join(&(delimiter as u8))).unwrap_or(ptr::null_mut())
    }

    /// `PMIx_Argv_copy`: a list of copies; NULL for NULL.
    fn PMIx_Argv_copy(argv: *mut *mut c_char) -> *mut *mut c_char {
        if argv.is_null() {
            return ptr::null_mut();
        }
        // SAFETY: not NULL, hence an array of C strings with a NULL at its end.
        let mut strings = unsafe { strings(argv) }.map(CStr::to_bytes).peekable();
        if strings.peek().is_none() { zeroed(1).unwrap_or(ptr::null_mut()) } else { list_of(strings) }
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
