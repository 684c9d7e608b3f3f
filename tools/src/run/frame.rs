//! Frames: a length and a packed message, as two processes of this program send them to each other.

use std::io::{self, ErrorKind, Read};

use pmix_dstore::codec::{Dialect, Packer, Unpacker};
use pmix_dstore::fallible_alloc;
use pmix_dstore::model::{Result, Status};

/// The longest message.
pub(super) const FRAME_MAX: usize = 256 << 20;

/// The length in front of a message.
pub(super) const HEAD: usize = 4;

/// The frame of a message that `pack` packs.
///
/// # Errors
/// Those of packing; `ERR_OUT_OF_RESOURCE` for a message that is too long.
pub(super) fn framed(pack: impl FnOnce(&mut Packer) -> Result<()>) -> Result<Vec<u8>> {
    let mut packer = Packer::new(Dialect::STORED);
    packer.raw(&[0; HEAD])?;
    pack(&mut packer)?;
    let mut frame = packer.into_bytes();
    let len = frame.len() - HEAD;
    let head = u32::try_from(len).ok().filter(|_| len <= FRAME_MAX).ok_or(Status::ERR_OUT_OF_RESOURCE)?;
    frame[..HEAD].copy_from_slice(&head.to_be_bytes());
    Ok(frame)
}

/// Reads a message without its length.
///
/// # Errors
/// Those of unpacking, for everything that is not exactly one message.
pub(super) fn whole<T>(bytes: &[u8], unpack: impl FnOnce(&mut Unpacker<'_>) -> Result<T>) -> Result<T> {
    let mut from = Unpacker::new(Dialect::STORED, bytes);
    let message = unpack(&mut from)?;
    if from.is_empty() { Ok(message) } else { Err(Status::ERR_UNPACK_FAILURE) }
}

/// Waits for the next message; `None` at the end of the stream.
///
/// # Errors
/// Those of the system; `InvalidData` for a message that is too long, `UnexpectedEof` for an end in a message, `OutOfMemory`.
pub(super) fn receive(from: &mut impl Read) -> io::Result<Option<Vec<u8>>> {
    let mut head = [0; HEAD];
    // The end of the stream before the first byte is the end of the messages.
    if !fill_or_end(from, &mut head)? {
        return Ok(None);
    }
    let len = u32::from_be_bytes(head) as usize;
    if len > FRAME_MAX {
        return Err(io::Error::new(ErrorKind::InvalidData, format!("a message of {len} bytes")));
    }
    let mut message = fallible_alloc::filled(0, len).map_err(|_| io::Error::from(ErrorKind::OutOfMemory))?;
    from.read_exact(&mut message)?;
    Ok(Some(message))
}

fn fill_or_end(from: &mut impl Read, head: &mut [u8; HEAD]) -> io::Result<bool> {
    loop {
        match from.read(&mut head[..1]) {
            Ok(0) => return Ok(false),
            Ok(_) => return from.read_exact(&mut head[1..]).map(|()| true),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_in_turn_and_an_end_within_one_is_an_error() {
        let one = framed(|to| {
            to.uint32(7);
            Ok(())
        });
        let one = one.unwrap();
        let both = [&one[..], &one].concat();
        let mut from = &both[..];
        for _ in 0..2 {
            let message = receive(&mut from).unwrap().unwrap();
            assert_eq!(whole(&message, |from| from.uint32()), Ok(7));
            assert!(whole(&[&message[..], b"x"].concat(), |from| from.uint32()).is_err());
        }
        assert!(receive(&mut from).unwrap().is_none());
        for len in 1..one.len() {
            let error = receive(&mut &one[..len]).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::UnexpectedEof);
        }
        let long = (FRAME_MAX as u32 + 1).to_be_bytes();
        assert_eq!(receive(&mut &long[..]).unwrap_err().kind(), ErrorKind::InvalidData);
    }
}
