//! Fills the header of a finished segment.

use std::mem::offset_of;

use crate::gather::GatherBuf;
use crate::model::Nspace;
use crate::segment::layout::bytes::u64_at;
use crate::segment::layout::fingerprint::FINGERPRINT;
use crate::segment::layout::header::{CREATOR_LEN, FORMAT_VERSION, HEADER_LEN, Header, MAGIC, SegmentKind};
use crate::segment::layout::raw_header::{content_hash, meta_hash};

/// Fills in the header of a finished segment. Its first [`HEADER_LEN`] bytes are own bytes and zero.
pub(crate) fn fill(segment: &mut GatherBuf, kind: SegmentKind, nspace: &Nspace, creator: &str, toc_pos: u64) {
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

/// Writes the two hashes of a segment. All other bytes must be final.
pub(crate) fn sign(segment: &mut GatherBuf) {
    let toc_pos = u64_at(segment.own(), offset_of!(Header, toc_pos)).unwrap_or(0);
    let meta = meta_hash(segment, toc_pos).unwrap_or(0);
    segment.own()[offset_of!(Header, meta_hash)..][..8].copy_from_slice(&meta.to_le_bytes());
    let content = content_hash(segment).unwrap_or(0);
    segment.own()[offset_of!(Header, content_hash)..][..8].copy_from_slice(&content.to_le_bytes());
}
