//! The result of a look-up on the fast path.
//!
//! Most Gets ask for a number, a string or bytes of a process or of its job, in an intact segment. For these the readers have
//! functions that find the value directly. For anything unusual (a structure, a value of a type other than its column's, a table
//! that was too large to copy, corruption) they answer [`FastResult::NeedSlowPath`], and the caller continues on the slow path.

use std::marker::PhantomData;
use std::ptr;

use super::checked::has_length;
use crate::codec::ValueRef;
use crate::model::{DataType, Value};
use crate::segment::layout::bytes::slice_at;

/// The result of a look-up on the fast path: two words, which a function returns in registers.
#[derive(Clone, Copy, Debug)]
pub struct FastValue<'a> {
    /// The kind, the type from bit 16 on, and from bit 32 on the length of a string, without its NUL, or of bytes.
    head: u64,
    /// The bits of a number, or the start of a string or of bytes.
    word: *const u8,
    life: PhantomData<&'a [u8]>,
}

/// A value that was verified when its segment was attached, so that it need not be verified again: a number, or the position of
/// the value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CachedValue {
    /// Position in the file, or the bits of a number.
    start: usize,
    /// As in [`FastValue`].
    head: u64,
}

impl CachedValue {
    /// Caches the value that a look-up found in the segment `bytes`; `None` if it found none.
    pub(crate) fn of(found: FastValue<'_>, bytes: &[u8]) -> Option<CachedValue> {
        let start = match found.result() {
            FastResult::Number { bits, .. } => bits as usize,
            FastResult::Text(lying) | FastResult::Bytes { bytes: lying, .. } => {
                lying.as_ptr().addr() - bytes.as_ptr().addr()
            }
            FastResult::Absent | FastResult::NeedSlowPath => return None,
        };
        Some(CachedValue { start, head: found.head })
    }
}

const ABSENT: u64 = 0;
const NEED_SLOW_PATH: u64 = 1;
const NUMBER: u64 = 2;
const TEXT: u64 = 3;
const BYTES: u64 = 4;

/// [`FastValue`] as an enum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FastResult<'a> {
    /// There is no value: the tables that were read are intact and do not list it.
    Absent,
    /// Only the slow path can find the value.
    NeedSlowPath,
    /// A value of up to eight bytes, as [`ValueRef::Scalar`].
    Number {
        /// Its type.
        ty: DataType,
        /// The bytes of the C type, little-endian, zero-extended.
        bits: u64,
    },
    /// A string whose last byte is its only NUL. The check was made when the segment was attached, or in this look-up.
    Text(&'a [u8]),
    /// Bytes.
    Bytes {
        /// BYTE_OBJECT or REGEX.
        ty: DataType,
        /// The bytes.
        bytes: &'a [u8],
    },
}

const _: () = assert!(size_of::<usize>() == 8, "a word holds the bits of a number");

impl<'a> FastValue<'a> {
    /// See [`FastResult::Absent`].
    pub const ABSENT: FastValue<'static> = FastValue { head: ABSENT, word: ptr::null(), life: PhantomData };
    /// See [`FastResult::NeedSlowPath`].
    pub const NEED_SLOW_PATH: FastValue<'static> =
        FastValue { head: NEED_SLOW_PATH, word: ptr::null(), life: PhantomData };

    /// A number. Its bits are masked to its type.
    #[inline(always)]
    pub(crate) fn number(ty: DataType, bits: u64) -> FastValue<'a> {
        let word = ptr::without_provenance(bits as usize);
        FastValue { head: NUMBER | u64::from(ty.0) << 16, word, life: PhantomData }
    }

    /// The first `len` of these bytes; the caller has checked the length.
    #[inline(always)]
    fn lying(kind: u64, ty: DataType, len: u32, bytes: &'a [u8]) -> FastValue<'a> {
        let head = kind | u64::from(ty.0) << 16 | u64::from(len) << 32;
        FastValue { head, word: bytes.as_ptr(), life: PhantomData }
    }

    /// The variable value of `len` bytes at `pos`. A corrupt value, or one of another type, needs the slow path.
    #[inline(always)]
    pub(crate) fn payload(bytes: &'a [u8], ty: DataType, pos: u64, len: u32) -> FastValue<'a> {
        match ty {
            // A NULL string's length is out of range for any text.
            DataType::STRING => match slice_at(bytes, pos, u64::from(len) + 1) {
                Ok(text) if has_length(text) => FastValue::lying(TEXT, ty, len, text),
                _ => FastValue::NEED_SLOW_PATH,
            },
            DataType::BYTE_OBJECT | DataType::REGEX => match slice_at(bytes, pos, len.into()) {
                Ok(found) => FastValue::lying(BYTES, ty, len, found),
                Err(_) => FastValue::NEED_SLOW_PATH,
            },
            _ => FastValue::NEED_SLOW_PATH,
        }
    }

    /// A value that was cached in the segment `bytes`.
    #[inline(always)]
    pub(crate) fn cached(bytes: &'a [u8], cached: &CachedValue) -> FastValue<'a> {
        let CachedValue { start, head } = *cached;
        if head & 0xffff == NUMBER {
            return FastValue { head, word: ptr::without_provenance(start), life: PhantomData };
        }
        // A string includes its NUL.
        let len = (head >> 32) as usize + usize::from(head & 0xffff == TEXT);
        match bytes.get(start..).and_then(|bytes| bytes.get(..len)) {
            Some(found) => FastValue { head, word: found.as_ptr(), life: PhantomData },
            None => FastValue::NEED_SLOW_PATH,
        }
    }

    /// A value in this process's own memory. A structure needs the slow path.
    #[inline(always)]
    pub fn of(value: &'a Value) -> FastValue<'a> {
        let (kind, ty, bytes) = match value {
            Value::ByteObject(bytes) => (BYTES, DataType::BYTE_OBJECT, bytes.as_slice()),
            Value::String(Some(text)) => (TEXT, DataType::STRING, text.as_bytes_with_nul()),
            other => {
                let bits = other.scalar_bits();
                return bits.map_or(FastValue::NEED_SLOW_PATH, |bits| FastValue::number(other.data_type(), bits));
            }
        };
        match u32::try_from(bytes.len()) {
            Ok(len) if kind == TEXT => FastValue::lying(kind, ty, len - 1, bytes),
            Ok(len) => FastValue::lying(kind, ty, len, bytes),
            Err(_) => FastValue::NEED_SLOW_PATH,
        }
    }

    /// Whether there is no value.
    #[inline(always)]
    pub fn is_absent(self) -> bool {
        self.head == ABSENT
    }

    /// Whether the value is text or bytes, which are read in place.
    #[inline(always)]
    pub(crate) fn is_in_place(self) -> bool {
        matches!(self.head & 0xffff, TEXT | BYTES)
    }

    /// Whether only the slow path can find the value.
    #[inline(always)]
    pub fn needs_slow_path(self) -> bool {
        self.head == NEED_SLOW_PATH
    }

    /// The result as an enum.
    #[inline(always)]
    pub fn result(self) -> FastResult<'a> {
        // SAFETY: the pointer and length are from a slice, which lives at least as long as `self`.
        let slice = |len: usize| unsafe { std::slice::from_raw_parts(self.word, len) };
        let (kind, ty, len) = (self.head & 0xffff, DataType((self.head >> 16) as u16), (self.head >> 32) as usize);
        if kind == BYTES {
            FastResult::Bytes { ty, bytes: slice(len) }
        } else if kind == NUMBER {
            FastResult::Number { ty, bits: self.word.addr() as u64 }
        } else if kind == TEXT {
            FastResult::Text(slice(len + 1))
        } else if self.is_absent() {
            FastResult::Absent
        } else {
            FastResult::NeedSlowPath
        }
    }

    /// The value, if there is one.
    pub fn value(self) -> Option<ValueRef<'a>> {
        match self.result() {
            FastResult::Absent | FastResult::NeedSlowPath => None,
            FastResult::Number { ty, bits } => Some(ValueRef::Scalar { ty, bits }),
            FastResult::Text(text) => {
                std::ffi::CStr::from_bytes_with_nul(text).ok().map(|text| ValueRef::Str(Some(text)))
            }
            FastResult::Bytes { ty, bytes } => Some(ValueRef::Bytes { ty, bytes }),
        }
    }
}
