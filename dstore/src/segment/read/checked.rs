//! A segment with a validated header and table of contents.

use std::ffi::CStr;
use std::sync::atomic::{AtomicBool, Ordering};

use rkyv::api::high::HighValidator;
use rkyv::bytecheck::CheckBytes;
use rkyv::{Portable, rancor};

use super::region::Region;
use crate::codec::ValueRef;
use crate::model::DataType;
use crate::segment::layout::bytes::{Miss, Read, Table, slice_at};
use crate::segment::layout::error::SegmentError;
use crate::segment::layout::header::SegmentKind;
use crate::segment::layout::raw_header::RawHeader;
use crate::segment::layout::toc::{Extent, NULL_LEN};

/// The bytes of a segment with a validated header.
pub(crate) struct CheckedSegment {
    bytes: &'static [u8],
    header: RawHeader,
    kind: Option<SegmentKind>,
    /// Set when a look-up finds corruption.
    is_damaged: AtomicBool,
    /// Set when a caller gets a value that it may point to as long as the client lives.
    is_lent: AtomicBool,
    /// Keeps the bytes where they are; dropped with them.
    _region: Box<dyn Region>,
}

impl CheckedSegment {
    /// Validates the header of a region.
    ///
    /// # Errors
    /// The first error in the header.
    pub(crate) fn open(region: Box<dyn Region>) -> Result<CheckedSegment, SegmentError> {
        let mut segment = CheckedSegment::open_damaged(region)?;
        segment.kind = Some(segment.header.check(segment.bytes)?);
        Ok(segment)
    }

    /// Accepts a region without validating its header, for the inspector. Only reads beyond the bytes are prevented.
    ///
    /// # Errors
    /// Fewer bytes than a header.
    pub(crate) fn open_damaged(region: Box<dyn Region>) -> Result<CheckedSegment, SegmentError> {
        let bytes = region.bytes();
        // SAFETY: the trait's contract: bytes stay the same at the same address while the region lives, and it lives
        // as long as this struct, which hands the slice out for its own lifetime only.
        let bytes: &'static [u8] = unsafe { std::slice::from_raw_parts(bytes.as_ptr(), bytes.len()) };
        let header = RawHeader::read(bytes).ok_or(SegmentError::Short { len: bytes.len() as u64 })?;
        let kind = SegmentKind::from_code(header.kind);
        Ok(CheckedSegment {
            bytes,
            header,
            kind,
            is_damaged: AtomicBool::new(false),
            is_lent: AtomicBool::new(false),
            _region: region,
        })
    }

    /// All bytes of the segment.
    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        self.bytes
    }

    /// Converts the result of a read. Corruption is recorded and becomes `None`.
    #[inline]
    pub(crate) fn found<T>(&self, read: Read<T>) -> Option<T> {
        match read {
            Ok(found) => Some(found),
            Err(Miss::Absent) => None,
            Err(Miss::Damaged) => self.met_damage(),
        }
    }

    #[cold]
    fn met_damage<T>(&self) -> Option<T> {
        self.is_damaged.store(true, Ordering::Relaxed);
        None
    }

    /// Whether a look-up has found corruption. Results of this segment are not reliable from then on.
    #[inline]
    pub(crate) fn is_damaged(&self) -> bool {
        self.is_damaged.load(Ordering::Relaxed)
    }

    /// Notes that a caller may point to a value of this segment from now on.
    ///
    /// Relaxed is enough: who unmaps segments synchronises with each thread that has read in them before it looks at this
    /// ([`NamespaceView::reclaim`](super::view::NamespaceView::reclaim)).
    #[inline(always)]
    pub(crate) fn lend(&self) {
        // No store where there was one: other threads read this line.
        if !self.is_lent.load(Ordering::Relaxed) {
            self.is_lent.store(true, Ordering::Relaxed);
        }
    }

    /// Whether a caller may point to a value of this segment.
    pub(crate) fn is_lent(&self) -> bool {
        self.is_lent.load(Ordering::Relaxed)
    }

    /// The header.
    pub(crate) fn header(&self) -> &RawHeader {
        &self.header
    }

    /// The table of contents, of a segment of kind `kind`.
    ///
    /// # Errors
    /// Another kind of segment, or an archive that does not validate.
    pub(crate) fn toc<T>(&self, kind: SegmentKind) -> Result<&T, SegmentError>
    where
        T: Portable + for<'a> CheckBytes<HighValidator<'a, rancor::Error>>,
    {
        if self.kind != Some(kind) {
            return Err(SegmentError::Kind { found: self.header.kind });
        }
        // The root is the last object of the table of contents. Only these bytes are validated, so relative pointers in them
        // cannot lead outside.
        let toc = slice_at(self.bytes, self.header.toc_pos, self.header.toc_len)
            .map_err(|_| SegmentError::Extent("table of contents"))?;
        rkyv::access::<T, rancor::Error>(toc).map_err(|error| SegmentError::Archive(error.to_string()))
    }
}

/// The checked part of a segment or, if `judge` accepts its error, an empty one.
pub(crate) fn or_empty<T: Default>(
    checked: Result<T, SegmentError>,
    judge: &mut dyn FnMut(SegmentError) -> Result<(), SegmentError>,
) -> Result<T, SegmentError> {
    match checked {
        Ok(part) => Ok(part),
        Err(error) => judge(error).map(|()| T::default()),
    }
}

/// The table at an extent of a file of `len` bytes; an empty one if `judge` accepts that the extent is wrong.
pub(crate) fn table<T>(
    extent: Extent,
    len: usize,
    what: &'static str,
    judge: &mut dyn FnMut(SegmentError) -> Result<(), SegmentError>,
) -> Result<Table<T>, SegmentError> {
    or_empty(Table::check(extent, len).ok_or(SegmentError::Extent(what)), judge)
}

/// The variable value of `len` bytes at `pos`.
///
/// # Errors
/// If it is not within the region, or not a value of its type.
#[inline(always)]
pub(crate) fn payload(bytes: &[u8], ty: DataType, pos: u64, len: u32) -> Read<ValueRef<'_>> {
    if ty == DataType::STRING {
        if len == NULL_LEN {
            return Ok(ValueRef::Str(None));
        }
        let text = slice_at(bytes, pos, u64::from(len) + 1)?;
        if !has_length(text) {
            return Err(Miss::Damaged);
        }
        // SAFETY: there is one NUL, at the end.
        return Ok(ValueRef::Str(Some(unsafe { CStr::from_bytes_with_nul_unchecked(text) })));
    }
    let bytes = slice_at(bytes, pos, len.into())?;
    match ty {
        DataType::BYTE_OBJECT
        | DataType::REGEX
        | DataType::COMPRESSED_STRING
        | DataType::COMPRESSED_BYTE_OBJECT
        | DataType::DATA_BUFFER => Ok(ValueRef::Bytes { ty, bytes }),
        _ if ty.scalar_width().is_some() => Err(Miss::Damaged),
        _ => Ok(ValueRef::Packed { ty, bytes }),
    }
}

/// Whether the last byte is the only NUL. The C library scans many bytes at a time, and never beyond these: the scan stays in
/// bounds even if the file changes meanwhile.
#[inline(always)]
pub(crate) fn has_length(text: &[u8]) -> bool {
    // SAFETY: the slice has that many bytes.
    let before = unsafe { libc::strnlen(text.as_ptr().cast(), text.len()) };
    before + 1 == text.len()
}
