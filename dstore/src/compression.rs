//! Compressed values: four bytes of original length in the sender's own byte order, then a zlib stream.

use std::ffi::CString;
use std::io::{ErrorKind, Read, Write};

use flate2::Compression;
use flate2::read::ZlibDecoder;
use flate2::write::ZlibEncoder;

use crate::fallible_alloc;
use crate::model::{Result, Status, Value};

/// Bytes of the original length before the stream.
const PREFIX_LEN: usize = 4;
/// Deflate expands at most by a factor of about 1032; a claim above this ratio is wrong.
const RATIO_MAX: usize = 1040;
/// Upper limit of the expanded length; no real data is longer.
const EXPANDED_LEN_MAX: usize = 256 << 20;
/// Capacity reserved before expansion. The buffer then grows with the actual output.
const ROOM_AT_ONCE: usize = 64 << 10;

/// Compresses bytes with the level of released libraries.
///
/// # Errors
/// `BAD_PARAM` for more bytes than the length prefix can hold; `NOMEM`.
pub fn compress(bytes: &[u8]) -> Result<Vec<u8>> {
    let len = u32::try_from(bytes.len()).map_err(|_| Status::ERR_BAD_PARAM)?;
    let mut encoder = ZlibEncoder::new(Growing(len.to_ne_bytes().to_vec()), Compression::best());
    encoder.write_all(bytes).and_then(|()| encoder.finish()).map(|out| out.0).map_err(|error| match error.kind() {
        ErrorKind::OutOfMemory => Status::ERR_NOMEM,
        _ => Status::ERR_PACK_FAILURE,
    })
}

/// A vector whose growth can fail.
struct Growing(Vec<u8>);

impl Write for Growing {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        fallible_alloc::extend(&mut self.0, bytes).map_err(|_| ErrorKind::OutOfMemory)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Expands the output of [`compress`], or of another library on a machine with the same byte order.
///
/// # Errors
/// `UNPACK_FAILURE` if the bytes are corrupt, expand to another length than claimed, or claim more than a zlib stream of their
/// size can hold or more than 256 MiB; `NOMEM`.
pub fn decompress(bytes: &[u8]) -> Result<Vec<u8>> {
    decompress_within(bytes, EXPANDED_LEN_MAX)
}

/// As [`decompress`], with a limit of `len_max` bytes.
pub(crate) fn decompress_within(bytes: &[u8], len_max: usize) -> Result<Vec<u8>> {
    let (prefix, stream) = bytes.split_first_chunk::<PREFIX_LEN>().ok_or(Status::ERR_UNPACK_FAILURE)?;
    let len = u32::from_ne_bytes(*prefix) as usize;
    if len > len_max.min(stream.len().saturating_mul(RATIO_MAX)) {
        return Err(Status::ERR_UNPACK_FAILURE);
    }
    // Most data are small, and the claimed length is not trusted.
    let mut expanded = fallible_alloc::vec(len.min(ROOM_AT_ONCE) + 1)?;
    // One byte more than claimed, to detect a longer stream.
    let read = ZlibDecoder::new(stream).take(len as u64 + 1).read_to_end(&mut expanded);
    match read {
        Ok(read) if read == len => Ok(expanded),
        Err(error) if error.kind() == ErrorKind::OutOfMemory => Err(Status::ERR_NOMEM),
        _ => Err(Status::ERR_UNPACK_FAILURE),
    }
}

/// The original of a compressed value: a string or a byte object. `None` for values that are not compressed.
///
/// # Errors
/// As [`decompress`]; `UNPACK_FAILURE` also for a string with a NUL inside.
pub fn expand(value: &Value) -> Result<Option<Value>> {
    match value {
        Value::CompressedString(bytes) => expand_string(bytes).map(|text| Some(Value::String(Some(text)))),
        Value::CompressedByteObject(bytes) => decompress(bytes).map(|bytes| Some(Value::ByteObject(bytes.into()))),
        _ => Ok(None),
    }
}

/// The string of a COMPRESSED_STRING, which is compressed without its NUL.
///
/// # Errors
/// As [`expand`].
pub fn expand_string(bytes: &[u8]) -> Result<CString> {
    let mut text = decompress(bytes)?;
    fallible_alloc::push(&mut text, 0)?;
    CString::from_vec_with_nul(text).map_err(|_| Status::ERR_UNPACK_FAILURE)
}
