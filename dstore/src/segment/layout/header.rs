//! The header of every segment.

use std::mem::offset_of;

/// First eight bytes of every segment.
pub const MAGIC: [u8; 8] = *b"PMIXDSEG";
/// Version of the format that this build writes and reads.
pub const FORMAT_VERSION: u32 = 3;
/// Length of the header; the first region follows.
pub const HEADER_LEN: usize = 512;
/// Known feature bits. A segment with another bit in `features` is refused.
pub(crate) const FEATURES_KNOWN: u64 = 0;
/// Size of the field for the name of the program that wrote the segment, including its NUL.
pub(crate) const CREATOR_LEN: usize = 64;
/// Longest namespace in bytes.
pub(crate) const NSPACE_LEN_MAX: usize = 255;

/// Layout of the header; all numbers little-endian. Used for its offsets only.
#[repr(C)]
pub(crate) struct Header {
    pub(crate) magic: [u8; 8],
    pub(crate) format_version: u32,
    pub(crate) header_len: u32,
    pub(crate) features: u64,
    pub(crate) features_optional: u64,
    pub(crate) fingerprint: u64,
    pub(crate) kind: u32,
    pub(crate) nspace_len: u32,
    pub(crate) total_len: u64,
    pub(crate) content_hash: u64,
    pub(crate) meta_hash: u64,
    pub(crate) toc_pos: u64,
    pub(crate) toc_len: u64,
    pub(crate) reserved: [u8; 104],
    pub(crate) creator: [u8; CREATOR_LEN],
    pub(crate) nspace: [u8; 256],
}

const _: () = assert!(size_of::<Header>() == HEADER_LEN);
const _: () = assert!(align_of::<Header>() == 8);
const _: () = assert!(offset_of!(Header, creator) == 192);
const _: () = assert!(offset_of!(Header, nspace) == 256);

/// The contents of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum SegmentKind {
    /// The host's registration of a job.
    Job = 1,
    /// Published values of ranks.
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

    /// The kind as one word.
    pub fn name(self) -> &'static str {
        match self {
            SegmentKind::Job => "job",
            SegmentKind::Modex => "modex",
        }
    }
}
