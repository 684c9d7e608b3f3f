//! Integers of the flexible encoders: as few bytes as the number needs.
//!
//! Base 128, least significant group first; bit 7 of a byte is set if more bytes follow. At most nine bytes: the ninth holds
//! eight bits without that flag, so that 64 bits fit. Signed numbers are zigzag-encoded first: 0, -1, 1, -2 become 0, 1, 2, 3.

/// Longest flexible integer in bytes.
const BYTES_MAX: usize = 9;

/// Appends a number.
pub(super) fn write_flexible(out: &mut Vec<u8>, mut number: u64) {
    if number < 0x80 {
        out.push(number as u8);
        return;
    }
    let mut bytes = [0; BYTES_MAX];
    let mut len = 0;
    while len < BYTES_MAX - 1 && number >= 0x80 {
        bytes[len] = number as u8 | 0x80;
        number >>= 7;
        len += 1;
    }
    bytes[len] = number as u8;
    out.extend_from_slice(&bytes[..=len]);
}

/// The number at the start of `bytes` and its length in bytes; `None` if it is truncated.
pub(super) fn read_flexible(bytes: &[u8]) -> Option<(u64, usize)> {
    let mut number = 0;
    for (place, &byte) in bytes.iter().take(BYTES_MAX).enumerate() {
        if place == BYTES_MAX - 1 {
            return Some((number | u64::from(byte) << 56, BYTES_MAX));
        }
        number |= u64::from(byte & 0x7f) << (7 * place);
        if byte & 0x80 == 0 {
            return Some((number, place + 1));
        }
    }
    None
}

/// Folds a signed number into an unsigned one, small absolute values into small numbers.
pub(super) fn fold(number: i64) -> u64 {
    ((number << 1) ^ (number >> 63)) as u64
}

/// The inverse of [`fold`].
pub(super) fn unfold(number: u64) -> i64 {
    (number >> 1) as i64 ^ -((number & 1) as i64)
}
