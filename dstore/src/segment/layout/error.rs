//! Why a segment is refused.

use std::fmt;

use super::fingerprint::FINGERPRINT;
use super::header::{FORMAT_VERSION, HEADER_LEN};

/// What to do about a file of another version.
pub(crate) const OTHER_RELEASE: &str = "to read it, use the release that wrote it";

/// Why a segment was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SegmentError {
    /// Shorter than a header.
    Short {
        /// Its length in bytes.
        len: u64,
    },
    /// The first bytes are not a segment's magic.
    Magic,
    /// Written in another version of the format.
    Version {
        /// Version of the file.
        found: u32,
    },
    /// Needs features that this build does not know.
    Features {
        /// The unknown bits.
        unknown: u64,
    },
    /// Written by a build with another layout.
    Fingerprint {
        /// Fingerprint of the file.
        found: u64,
    },
    /// Neither a job nor a modex segment, or not the expected kind.
    Kind {
        /// Code of the file.
        found: u32,
    },
    /// The header's length differs from the file's.
    Length {
        /// Length in the header.
        header: u64,
        /// Length of the file.
        file: u64,
    },
    /// Header or table of contents are corrupt.
    MetaHash,
    /// The header has an impossible field.
    Header(&'static str),
    /// The table of contents is not a valid archive.
    Archive(String),
    /// A region does not lie within the file or has items of the wrong size.
    Extent(&'static str),
    /// The segment is of another namespace.
    OtherNspace,
    /// The segment is not the one of the entry in the directory page: it is an older one, or from another directory.
    OtherSegment,
    /// A look-up found that a table is corrupt.
    Table,
}

impl SegmentError {
    /// Whether another release wrote the segment, so that nothing behind its header can be decoded.
    pub(crate) fn is_of_other_release(&self) -> bool {
        matches!(self, SegmentError::Version { .. } | SegmentError::Features { .. } | SegmentError::Fingerprint { .. })
    }
}

impl fmt::Display for SegmentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SegmentError::Short { len } => write!(f, "{len} bytes are fewer than a header of {HEADER_LEN}"),
            SegmentError::Magic => f.write_str("not a segment: the magic bytes are missing"),
            SegmentError::Version { found } => {
                write!(f, "format version {found}, this build reads version {FORMAT_VERSION}: {OTHER_RELEASE}")
            }
            SegmentError::Features { unknown } => write!(f, "needs unknown features {unknown:#x}: {OTHER_RELEASE}"),
            SegmentError::Fingerprint { found } => {
                write!(f, "layout fingerprint {found:#018x}, this build has {FINGERPRINT:#018x}: {OTHER_RELEASE}")
            }
            SegmentError::Kind { found } => write!(f, "segment kind {found} was not expected"),
            SegmentError::Length { header, file } => {
                write!(f, "the header says {header} bytes, the file has {file}")
            }
            SegmentError::MetaHash => f.write_str("header or table of contents are damaged"),
            SegmentError::Header(what) => write!(f, "impossible header: {what}"),
            SegmentError::Archive(what) => write!(f, "table of contents: {what}"),
            SegmentError::Extent(what) => write!(f, "region out of bounds: {what}"),
            SegmentError::OtherNspace => f.write_str("segment of another namespace"),
            SegmentError::OtherSegment => f.write_str("not the segment that the directory page means"),
            SegmentError::Table => f.write_str("a table is damaged"),
        }
    }
}

impl std::error::Error for SegmentError {}
