//! Numbers of the column form: base 128, least significant group first; bit 7 of a byte is set if more bytes follow. At most nine bytes.

use pmix_dstore::fallible_alloc;
use pmix_dstore::model::{Result, Status};

/// Numbers are below 2^63.
const BYTES_MAX: u32 = 9;

/// Appends a number.
///
/// # Errors
/// `NOMEM`.
pub fn put(out: &mut Vec<u8>, mut number: u64) -> Result<()> {
    while number >= 0x80 {
        fallible_alloc::push(out, number as u8 | 0x80)?;
        number >>= 7;
    }
    fallible_alloc::push(out, number as u8)
}

/// Takes a number from the start of `bytes`.
///
/// # Errors
/// `UNPACK_FAILURE` if it has no end within nine bytes or within `bytes`.
pub fn take(bytes: &mut &[u8]) -> Result<u64> {
    let mut number = 0;
    for place in 0..BYTES_MAX {
        let (first, rest) = bytes.split_first().ok_or(Status::ERR_UNPACK_FAILURE)?;
        *bytes = rest;
        number |= u64::from(first & 0x7f) << (7 * place);
        if first & 0x80 == 0 {
            return Ok(number);
        }
    }
    Err(Status::ERR_UNPACK_FAILURE)
}

/// Takes `len` bytes.
///
/// # Errors
/// `UNPACK_FAILURE` if there are fewer.
pub fn take_bytes<'a>(bytes: &mut &'a [u8], len: u64) -> Result<&'a [u8]> {
    let len = usize::try_from(len).map_err(|_| Status::ERR_UNPACK_FAILURE)?;
    let (taken, rest) = bytes.split_at_checked(len).ok_or(Status::ERR_UNPACK_FAILURE)?;
    *bytes = rest;
    Ok(taken)
}
