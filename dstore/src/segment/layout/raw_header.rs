//! A header that was read from bytes, and its validation.

use std::mem::offset_of;

use xxhash_rust::xxh3::Xxh3;

use super::bytes::{u32_at, u64_at};
use super::error::SegmentError;
use super::fingerprint::FINGERPRINT;
use super::header::{
    CREATOR_LEN, FEATURES_KNOWN, FORMAT_VERSION, HEADER_LEN, Header, MAGIC, NSPACE_LEN_MAX, SegmentKind,
};
use crate::gather::{Slices, behind};

/// The fields of a header, not yet validated.
#[derive(Clone, Debug)]
pub struct RawHeader {
    /// Whether the magic bytes are correct.
    pub magic_ok: bool,
    /// Version of the format.
    pub format_version: u32,
    /// Length of the header.
    pub header_len: u32,
    /// Features that a reader must support.
    pub features: u64,
    /// Features that a reader may ignore.
    pub features_optional: u64,
    /// Fingerprint of the writer's layout.
    pub fingerprint: u64,
    /// Code of the [`SegmentKind`].
    pub kind: u32,
    /// Length of the whole segment in bytes.
    pub total_len: u64,
    /// xxh3 of the whole segment, with zeros in this field.
    pub content_hash: u64,
    /// xxh3 of header and table of contents, with zeros in both hash fields.
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
    /// Reads the fields; `None` if there are fewer bytes than a header has.
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

    /// Validates the header of the segment `bytes`.
    ///
    /// # Errors
    /// The first error found.
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

/// The hash of header and table of contents, with zeros in the two hash fields; `None` if the table of contents lies outside the
/// segment.
pub(crate) fn meta_hash(segment: &(impl Slices + ?Sized), toc_pos: u64) -> Option<u64> {
    let toc_pos = usize::try_from(toc_pos).ok().filter(|pos| *pos <= segment.total_len())?;
    let mut hasher = Xxh3::new();
    hash_header(&mut hasher, segment, true)?;
    behind(segment.slices(), toc_pos).for_each(|slice| hasher.update(slice));
    Some(hasher.digest())
}

/// The hash of a whole segment, with zeros in the field of that hash; `None` if the segment is shorter than a header.
pub fn content_hash(segment: &(impl Slices + ?Sized)) -> Option<u64> {
    let mut hasher = Xxh3::new();
    hash_header(&mut hasher, segment, false)?;
    behind(segment.slices(), HEADER_LEN).for_each(|slice| hasher.update(slice));
    Some(hasher.digest())
}

/// The first slice contains the whole header.
fn hash_header(hasher: &mut Xxh3, segment: &(impl Slices + ?Sized), without_meta: bool) -> Option<()> {
    let mut header: [u8; HEADER_LEN] = *segment.slices().next()?.first_chunk()?;
    header[offset_of!(Header, content_hash)..][..8].fill(0);
    if without_meta {
        header[offset_of!(Header, meta_hash)..][..8].fill(0);
    }
    hasher.update(&header);
    Some(())
}
