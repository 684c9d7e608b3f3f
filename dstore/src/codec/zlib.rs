//! Compressed values: four bytes of original length in the sender's own byte order, then a zlib stream.

use std::ffi::CString;
use std::io::{Read, Write};

use flate2::Compression;
use flate2::read::ZlibDecoder;
use flate2::write::ZlibEncoder;

use crate::model::{Result, Status, Value};

/// Bytes of the original length before the stream.
const PREFIX_LEN: usize = 4;
/// Deflate cannot expand by more than about 1032; a claim above this ratio is a lie.
const RATIO_MAX: usize = 1040;
/// Nothing that is really exchanged expands to more bytes than this.
const EXPANDED_LEN_MAX: usize = 256 << 20;

/// Compresses bytes as strongly as released libraries do.
///
/// # Errors
/// `BAD_PARAM` for more bytes than the length prefix can tell.
pub fn compress(bytes: &[u8]) -> Result<Vec<u8>> {
    let len = u32::try_from(bytes.len()).map_err(|_| Status::ERR_BAD_PARAM)?;
    let mut encoder = ZlibEncoder::new(len.to_ne_bytes().to_vec(), Compression::best());
    encoder.write_all(bytes).map_err(|_| Status::ERR_PACK_FAILURE)?;
    encoder.finish().map_err(|_| Status::ERR_PACK_FAILURE)
}

/// Expands what [`compress`], or another library on a machine of the same byte order, compressed.
///
/// # Errors
/// `UNPACK_FAILURE` where the bytes are damaged, expand to another length than they claim, or claim more than a zlib
/// stream of their size can hold or than 256 MiB.
pub fn decompress(bytes: &[u8]) -> Result<Vec<u8>> {
    decompress_within(bytes, EXPANDED_LEN_MAX)
}

/// As [`decompress`], of what expands to at most `len_max` bytes.
pub(super) fn decompress_within(bytes: &[u8], len_max: usize) -> Result<Vec<u8>> {
    let (prefix, stream) = bytes.split_first_chunk::<PREFIX_LEN>().ok_or(Status::ERR_UNPACK_FAILURE)?;
    let len = u32::from_ne_bytes(*prefix) as usize;
    if len > len_max.min(stream.len().saturating_mul(RATIO_MAX)) {
        return Err(Status::ERR_UNPACK_FAILURE);
    }
    let mut expanded = Vec::new();
    // One byte more than claimed, to notice a stream that holds more.
    let read = ZlibDecoder::new(stream).take(len as u64 + 1).read_to_end(&mut expanded);
    match read {
        Ok(read) if read == len => Ok(expanded),
        _ => Err(Status::ERR_UNPACK_FAILURE),
    }
}

/// The value that a compressed value stands for: a string or a byte object; `None` for values that are not compressed.
///
/// # Errors
/// As [`decompress`]; `UNPACK_FAILURE` also for a string with a NUL inside.
pub fn expand(value: &Value) -> Result<Option<Value>> {
    match value {
        Value::CompressedString(bytes) => expand_string(bytes).map(|text| Some(Value::String(Some(text)))),
        Value::CompressedByteObject(bytes) => decompress(bytes).map(|bytes| Some(Value::ByteObject(bytes))),
        _ => Ok(None),
    }
}

/// The string of a COMPRESSED_STRING, which is compressed without its NUL.
pub(super) fn expand_string(bytes: &[u8]) -> Result<CString> {
    CString::new(decompress(bytes)?).map_err(|_| Status::ERR_UNPACK_FAILURE)
}
