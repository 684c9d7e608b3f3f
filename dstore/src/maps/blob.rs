//! The compressed form of a map: text fields that end in NUL, then a length and a zlib stream.

use crate::compression::decompress;
use crate::model::{Result, Status};

/// The text of a map in the compressed form; `None` if it has another form.
///
/// # Errors
/// `BAD_PARAM` if the envelope or the stream is corrupt or names another compressor.
pub(super) fn inflate(map: &[u8]) -> Result<Option<Vec<u8>>> {
    let Some(mut rest) = map.strip_prefix(b"blob:\0") else { return Ok(None) };
    if field(&mut rest, b"component=").is_some_and(|component| component != b"zlib") {
        return Err(Status::ERR_BAD_PARAM);
    }
    let size = field(&mut rest, b"size=").ok_or(Status::ERR_BAD_PARAM)?;
    let size = usize::try_from(super::number(size)?).map_err(|_| Status::ERR_BAD_PARAM)?;
    let body = rest.get(..size).ok_or(Status::ERR_BAD_PARAM)?;
    // The length is in the byte order of the sender, which is a process of this node.
    decompress(body).map(Some).map_err(|_| Status::ERR_BAD_PARAM)
}

/// Takes the field `name` with its final `:` and NUL from the front of `rest`, if `rest` begins with it.
fn field<'a>(rest: &mut &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let value = rest.strip_prefix(name)?;
    let end = value.windows(2).take(64).position(|pair| pair == b":\0")?;
    *rest = &value[end + 2..];
    Some(&value[..end])
}
