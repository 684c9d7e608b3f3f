//! The fixed preamble of every segment, and the check of it.

use std::fmt;
use std::mem::offset_of;

use xxhash_rust::xxh3::Xxh3;

use super::bytes::{u32_at, u64_at};
use super::toc::FINGERPRINT;
#[cfg(feature = "builder")]
use crate::model::Nspace;
#[cfg(feature = "builder")]
use crate::pieces::Pieces;
use crate::pieces::{Slices, behind};

/// First eight bytes of every segment.
pub const MAGIC: [u8; 8] = *b"PMIXDSEG";
/// Version of the format that this build writes and reads.
pub const FORMAT_VERSION: u32 = 2;
/// Length of the header; the first region follows.
pub const HEADER_LEN: usize = 512;
/// Feature bits that this build knows. A segment with another bit in `features` is refused.
pub const FEATURES_KNOWN: u64 = 0;
/// Room for the name of the program that wrote the segment, with its NUL.
pub const CREATOR_LEN: usize = 64;
/// Longest namespace in bytes.
const NSPACE_LEN_MAX: usize = 255;

/// The header as it lies in the file; all numbers little-endian. Used for its offsets only.
#[repr(C)]
pub(super) struct Header {
    pub(super) magic: [u8; 8],
    pub(super) format_version: u32,
    pub(super) header_len: u32,
    pub(super) features: u64,
    pub(super) features_optional: u64,
    pub(super) fingerprint: u64,
    pub(super) kind: u32,
    pub(super) nspace_len: u32,
    pub(super) total_len: u64,
    pub(super) content_hash: u64,
    pub(super) meta_hash: u64,
    pub(super) toc_pos: u64,
    pub(super) toc_len: u64,
    pub(super) reserved: [u8; 104],
    pub(super) creator: [u8; CREATOR_LEN],
    pub(super) nspace: [u8; 256],
}

const _: () = assert!(size_of::<Header>() == HEADER_LEN);
const _: () = assert!(align_of::<Header>() == 8);
const _: () = assert!(offset_of!(Header, creator) == 192);
const _: () = assert!(offset_of!(Header, nspace) == 256);

/// What a segment holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum SegmentKind {
    /// What the host registered about a job.
    Job = 1,
    /// What ranks published.
    Modex = 2,
}

impl SegmentKind {
    /// The kind of a code, if it is a known one.
    pub fn from_code(code: u32) -> Option<SegmentKind> {
        match code {
            1 => Some(SegmentKind::Job),
            2 => Some(SegmentKind::Modex),
            _ => None,
        }
    }

    /// The kind in one word.
    pub fn name(self) -> &'static str {
        match self {
            SegmentKind::Job => "job",
            SegmentKind::Modex => "modex",
        }
    }
}

/// Why a segment was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SegmentError {
    /// Shorter than a header.
    Short {
        /// Its length in bytes.
        len: u64,
    },
    /// The first bytes are not those of a segment.
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
    /// Neither a job nor a modex segment, or not the one expected.
    Kind {
        /// Code of the file.
        found: u32,
    },
    /// The header's length is not that of the file.
    Length {
        /// Length in the header.
        header: u64,
        /// Length of the file.
        file: u64,
    },
    /// Header or table of contents were changed after they were written.
    MetaHash,
    /// The header holds something impossible.
    Header(&'static str),
    /// The table of contents is not a valid archive.
    Archive(String),
    /// A region does not lie within the file or has items of the wrong size.
    Extent(&'static str),
    /// The segment is of another namespace.
    OtherNspace,
    /// The segment is not the one that the directory page means: an older one, or one of another directory.
    OtherSegment,
    /// A table was changed after it was written; noticed by a lookup.
    Table,
}

impl fmt::Display for SegmentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SegmentError::Short { len } => write!(f, "{len} bytes are fewer than a header of {HEADER_LEN}"),
            SegmentError::Magic => f.write_str("not a segment: the magic bytes are missing"),
            SegmentError::Version { found } => {
                write!(f, "format version {found}, this build reads version {FORMAT_VERSION}")
            }
            SegmentError::Features { unknown } => write!(f, "needs unknown features {unknown:#x}"),
            SegmentError::Fingerprint { found } => {
                write!(f, "layout fingerprint {found:#018x}, this build has {FINGERPRINT:#018x}")
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

/// A header read from bytes, its fields not yet judged.
#[derive(Clone, Debug)]
pub struct RawHeader {
    /// Whether the magic bytes are there.
    pub magic_ok: bool,
    /// Version of the format.
    pub format_version: u32,
    /// Length of the header.
    pub header_len: u32,
    /// Features that a reader must know.
    pub features: u64,
    /// Features that a reader may ignore.
    pub features_optional: u64,
    /// Fingerprint of the writer's layout.
    pub fingerprint: u64,
    /// Code of the [`SegmentKind`].
    pub kind: u32,
    /// Length of the whole segment in bytes.
    pub total_len: u64,
    /// xxh3 of the whole segment with this field as zero.
    pub content_hash: u64,
    /// xxh3 of header and table of contents with both hash fields as zero.
    pub meta_hash: u64,
    /// Position of the table of contents.
    pub toc_pos: u64,
    /// Its length; the root is its last object.
    pub toc_len: u64,
    /// The program that wrote it.
    pub creator: Vec<u8>,
    /// Length of the namespace as stated.
    pub nspace_len: u32,
    /// The namespace.
    pub nspace: Vec<u8>,
}

impl RawHeader {
    /// Reads the fields; `None` where there are fewer bytes than a header has.
    pub fn read(bytes: &[u8]) -> Option<RawHeader> {
        let header = bytes.get(..HEADER_LEN)?;
        let creator = header.get(offset_of!(Header, creator)..)?.get(..CREATOR_LEN)?;
        let creator_len = creator.iter().position(|byte| *byte == 0).unwrap_or(CREATOR_LEN);
        let nspace_len = u32_at(header, offset_of!(Header, nspace_len)).ok()?;
        let nspace = header.get(offset_of!(Header, nspace)..)?;
        Some(RawHeader {
            magic_ok: header.starts_with(&MAGIC),
            format_version: u32_at(header, offset_of!(Header, format_version)).ok()?,
            header_len: u32_at(header, offset_of!(Header, header_len)).ok()?,
            features: u64_at(header, offset_of!(Header, features)).ok()?,
            features_optional: u64_at(header, offset_of!(Header, features_optional)).ok()?,
            fingerprint: u64_at(header, offset_of!(Header, fingerprint)).ok()?,
            kind: u32_at(header, offset_of!(Header, kind)).ok()?,
            total_len: u64_at(header, offset_of!(Header, total_len)).ok()?,
            content_hash: u64_at(header, offset_of!(Header, content_hash)).ok()?,
            meta_hash: u64_at(header, offset_of!(Header, meta_hash)).ok()?,
            toc_pos: u64_at(header, offset_of!(Header, toc_pos)).ok()?,
            toc_len: u64_at(header, offset_of!(Header, toc_len)).ok()?,
            creator: creator[..creator_len].to_vec(),
            nspace_len,
            nspace: nspace[..nspace.len().min(nspace_len as usize)].to_vec(),
        })
    }

    /// Judges the header of the segment `bytes`.
    ///
    /// # Errors
    /// The first thing that is not as it must be.
    pub fn check(&self, segment: &(impl Slices + ?Sized)) -> Result<SegmentKind, SegmentError> {
        let file_len = segment.total_len() as u64;
        if !self.magic_ok {
            return Err(SegmentError::Magic);
        }
        if self.format_version != FORMAT_VERSION {
            return Err(SegmentError::Version { found: self.format_version });
        }
        if self.features & !FEATURES_KNOWN != 0 {
            return Err(SegmentError::Features { unknown: self.features & !FEATURES_KNOWN });
        }
        if self.fingerprint != FINGERPRINT {
            return Err(SegmentError::Fingerprint { found: self.fingerprint });
        }
        if self.total_len != file_len {
            return Err(SegmentError::Length { header: self.total_len, file: file_len });
        }
        if self.header_len as usize != HEADER_LEN {
            return Err(SegmentError::Header("header length"));
        }
        if self.nspace_len as usize > NSPACE_LEN_MAX {
            return Err(SegmentError::Header("namespace length"));
        }
        let toc_in_place = self.toc_pos >= HEADER_LEN as u64
            && self.toc_pos.is_multiple_of(16)
            && self.toc_pos.checked_add(self.toc_len) == Some(self.total_len);
        if !toc_in_place {
            return Err(SegmentError::Header("position of the table of contents"));
        }
        if meta_hash(segment, self.toc_pos) != Some(self.meta_hash) {
            return Err(SegmentError::MetaHash);
        }
        SegmentKind::from_code(self.kind).ok_or(SegmentError::Kind { found: self.kind })
    }
}

/// The hash of header and table of contents, the two hash fields taken as zero; `None` where the position of the
/// table of contents is outside.
pub(super) fn meta_hash(segment: &(impl Slices + ?Sized), toc_pos: u64) -> Option<u64> {
    let toc_pos = usize::try_from(toc_pos).ok().filter(|pos| *pos <= segment.total_len())?;
    let mut hasher = Xxh3::new();
    hash_header(&mut hasher, segment, true)?;
    behind(segment.slices(), toc_pos).for_each(|slice| hasher.update(slice));
    Some(hasher.digest())
}

/// The hash of a whole segment, the field that holds it taken as zero; `None` for fewer bytes than a header.
pub fn content_hash(segment: &(impl Slices + ?Sized)) -> Option<u64> {
    let mut hasher = Xxh3::new();
    hash_header(&mut hasher, segment, false)?;
    behind(segment.slices(), HEADER_LEN).for_each(|slice| hasher.update(slice));
    Some(hasher.digest())
}

/// The header lies in the first slice.
fn hash_header(hasher: &mut Xxh3, segment: &(impl Slices + ?Sized), without_meta: bool) -> Option<()> {
    let mut header: [u8; HEADER_LEN] = *segment.slices().next()?.first_chunk()?;
    header[offset_of!(Header, content_hash)..][..8].fill(0);
    if without_meta {
        header[offset_of!(Header, meta_hash)..][..8].fill(0);
    }
    hasher.update(&header);
    Some(())
}

/// Fills the header of a finished segment, whose first [`HEADER_LEN`] bytes are own ones and zero.
#[cfg(feature = "builder")]
pub(super) fn fill(segment: &mut Pieces, kind: SegmentKind, nspace: &Nspace, creator: &str, toc_pos: u64) {
    let total_len = segment.len() as u64;
    let bytes = segment.own();
    let mut put = |offset: usize, field: &[u8]| bytes[offset..offset + field.len()].copy_from_slice(field);
    put(offset_of!(Header, magic), &MAGIC);
    put(offset_of!(Header, format_version), &FORMAT_VERSION.to_le_bytes());
    put(offset_of!(Header, header_len), &(HEADER_LEN as u32).to_le_bytes());
    put(offset_of!(Header, fingerprint), &FINGERPRINT.to_le_bytes());
    put(offset_of!(Header, kind), &(kind as u32).to_le_bytes());
    put(offset_of!(Header, nspace_len), &(nspace.as_bytes().len() as u32).to_le_bytes());
    put(offset_of!(Header, total_len), &total_len.to_le_bytes());
    put(offset_of!(Header, toc_pos), &toc_pos.to_le_bytes());
    put(offset_of!(Header, toc_len), &(total_len - toc_pos).to_le_bytes());
    let creator = creator.as_bytes();
    put(offset_of!(Header, creator), &creator[..creator.len().min(CREATOR_LEN - 1)]);
    put(offset_of!(Header, nspace), nspace.as_bytes());
    sign(segment);
}

/// Writes the two hashes of a segment whose other bytes are final.
#[cfg(feature = "builder")]
pub(super) fn sign(segment: &mut Pieces) {
    let toc_pos = u64_at(segment.own(), offset_of!(Header, toc_pos)).unwrap_or(0);
    let meta = meta_hash(segment, toc_pos).unwrap_or(0);
    segment.own()[offset_of!(Header, meta_hash)..][..8].copy_from_slice(&meta.to_le_bytes());
    let content = content_hash(segment).unwrap_or(0);
    segment.own()[offset_of!(Header, content_hash)..][..8].copy_from_slice(&content.to_le_bytes());
}
