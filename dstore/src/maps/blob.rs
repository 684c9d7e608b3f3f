//! The compressed form of a map: text fields that end in NUL, then a length and a zlib stream.

use std::io::Read;

use flate2::read::ZlibDecoder;

use crate::model::{Result, Status};

/// A map of a million nodes with names of 24 bytes has 25 MB.
const TEXT_LEN_MAX: usize = 64 << 20;
/// No zlib stream shrinks its input further than this.
const RATIO_MAX: usize = 1032;

/// The text of a map in the compressed form; `None` where it has another form.
///
/// # Errors
/// `BAD_PARAM` where the envelope or the stream is damaged or names another compressor.
pub(super) fn inflate(map: &[u8]) -> Result<Option<Vec<u8>>> {
    let Some(mut rest) = map.strip_prefix(b"blob:\0") else { return Ok(None) };
    if let Some(component) = field(&mut rest, b"component=") {
        if component != b"zlib" {
            return Err(Status::ERR_BAD_PARAM);
        }
    }
    let size = field(&mut rest, b"size=").ok_or(Status::ERR_BAD_PARAM)?;
    let size = usize::try_from(super::number(size)?).map_err(|_| Status::ERR_BAD_PARAM)?;
    let body = rest.get(..size).ok_or(Status::ERR_BAD_PARAM)?;
    let (len, stream) = body.split_first_chunk::<4>().ok_or(Status::ERR_BAD_PARAM)?;
    // In the byte order of the sender, which is a process of this node.
    let len = u32::from_ne_bytes(*len) as usize;
    if len > TEXT_LEN_MAX || len > stream.len().saturating_mul(RATIO_MAX) {
        return Err(Status::ERR_BAD_PARAM);
    }
    let mut text = Vec::with_capacity(len);
    let read = ZlibDecoder::new(stream).take(len as u64 + 1).read_to_end(&mut text);
    if read.is_err() || text.len() != len {
        return Err(Status::ERR_BAD_PARAM);
    }
    Ok(Some(text))
}

/// Takes the field `name` with its ending `:` NUL from the front of `rest`, if it is there.
fn field<'a>(rest: &mut &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let value = rest.strip_prefix(name)?;
    let end = value.windows(2).take(64).position(|pair| pair == b":\0")?;
    *rest = &value[end + 2..];
    Some(&value[..end])
}
