//! What C hands over, and how it enters.
//!
//! A call ends with a number: 0, or that of an [`Error`]. A panic becomes a failure. NULL is refused where a pointer is needed.

use std::ffi::{CStr, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};

use pmix_client::Inside;

use crate::job::{Error, Result};

/// Runs the body of a function of C's.
pub fn entered(body: impl FnOnce() -> Result<()>) -> c_int {
    let _inside = Inside::enter();
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => 0,
        Ok(Err(error)) => error as c_int,
        Err(_) => Error::Fail as c_int,
    }
}

/// A string of C's.
///
/// # Safety
/// It is NULL or ends with a NUL, and is not changed while the result is used.
pub unsafe fn text<'a>(pointer: *const c_char) -> Result<&'a CStr> {
    if pointer.is_null() {
        return Err(Error::Argument);
    }
    // SAFETY: it is not NULL, and the caller says the rest.
    Ok(unsafe { CStr::from_ptr(pointer) })
}

/// Writes a number.
///
/// # Safety
/// `to` is NULL or may be written.
pub unsafe fn give(to: *mut c_int, number: u32) -> Result<()> {
    if to.is_null() {
        return Err(Error::Argument);
    }
    // SAFETY: it is not NULL, and the caller says that it may be written.
    unsafe { to.write(c_int::try_from(number).map_err(|_| Error::Fail)?) };
    Ok(())
}

/// Writes a text with its NUL.
///
/// # Safety
/// `to` is NULL or has room for `len` bytes.
pub unsafe fn give_text(to: *mut c_char, len: c_int, text: &[u8]) -> Result<()> {
    if to.is_null() {
        return Err(Error::Argument);
    }
    if usize::try_from(len).map_or(true, |len| len <= text.len()) {
        return Err(Error::Length);
    }
    // SAFETY: there is room for more than the text, which lies elsewhere: it is memory of this library's own.
    unsafe {
        to.copy_from_nonoverlapping(text.as_ptr().cast(), text.len());
        to.add(text.len()).write(0);
    }
    Ok(())
}

/// Writes numbers.
///
/// # Safety
/// `to` is NULL or has room for `len` numbers.
pub unsafe fn give_numbers(to: *mut c_int, len: c_int, numbers: &[u32]) -> Result<()> {
    if to.is_null() {
        return Err(Error::Argument);
    }
    if usize::try_from(len).map_or(true, |len| len < numbers.len()) {
        return Err(Error::Length);
    }
    for (at, number) in numbers.iter().enumerate() {
        // SAFETY: there is room for all of them.
        unsafe { give(to.add(at), *number) }?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_written_beyond_the_room() {
        let mut room = [9; 4];
        let to = room.as_mut_ptr();
        // SAFETY: there is room for four.
        let written = |len, text| unsafe { give_text(to, len, text) };
        assert_eq!(written(4, b"abcd"), Err(Error::Length));
        assert_eq!(written(-1, b""), Err(Error::Length));
        assert_eq!(written(0, b""), Err(Error::Length));
        assert_eq!(written(3, b"ab"), Ok(()));
        assert_eq!(room, [b'a' as c_char, b'b' as c_char, 0, 9]);
        // SAFETY: NULL is refused.
        assert_eq!(unsafe { give_text(std::ptr::null_mut(), 4, b"a") }, Err(Error::Argument));
        let mut numbers = [7; 2];
        // SAFETY: there is room for two.
        assert_eq!(unsafe { give_numbers(numbers.as_mut_ptr(), 1, &[1, 2]) }, Err(Error::Length));
        assert_eq!(numbers, [7, 7]);
    }

    #[test]
    fn a_panic_is_a_failure() {
        std::panic::set_hook(Box::new(|_| {}));
        assert_eq!(entered(|| panic!("planted")), -1);
        assert_eq!(entered(|| Err(Error::Space)), 14);
    }
}
