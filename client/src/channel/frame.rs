//! Framing: a header of sixteen bytes, then the payload.

use std::io;
use std::os::fd::BorrowedFd;

use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, recv};
use std::os::fd::AsRawFd;

/// Bytes of a header.
pub const HEADER_LEN: usize = 16;
/// Bytes asked from the socket at once.
const CHUNK_LEN: usize = 64 * 1024;

/// A message as it came: its tag and its payload.
#[derive(Debug, PartialEq)]
pub struct Frame {
    /// What it answers, or one of the reserved tags.
    pub tag: u32,
    /// What it says.
    pub payload: Vec<u8>,
}

/// The header of a message from the peer with this index.
pub fn header(index: i32, tag: u32, len: u32) -> [u8; HEADER_LEN] {
    let mut bytes = [0; HEADER_LEN];
    bytes[..4].copy_from_slice(&index.to_be_bytes());
    bytes[4..8].copy_from_slice(&tag.to_be_bytes());
    bytes[8..12].copy_from_slice(&len.to_be_bytes());
    bytes
}

/// Cuts what comes from a socket into messages.
///
/// The buffer grows with the bytes that came, not with what a header claims.
pub struct Frames {
    received: Vec<u8>,
    chunk: Box<[u8]>,
}

impl Frames {
    /// Nothing received yet.
    pub fn new() -> Frames {
        Frames { received: Vec::new(), chunk: vec![0; CHUNK_LEN].into_boxed_slice() }
    }

    /// Takes what the socket has, without waiting. `false` where it has nothing now.
    ///
    /// # Errors
    /// `UnexpectedEof` where the peer has closed; what else the socket says.
    pub fn fill(&mut self, socket: BorrowedFd<'_>) -> io::Result<bool> {
        loop {
            match recv(socket.as_raw_fd(), &mut self.chunk, MsgFlags::MSG_DONTWAIT) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(len) => {
                    self.received.extend_from_slice(&self.chunk[..len]);
                    return Ok(true);
                }
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => return Ok(false),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// The messages that are whole, in order.
    pub fn take(&mut self) -> Vec<Frame> {
        let mut frames = Vec::new();
        let mut rest = self.received.as_slice();
        while let Some((header, body)) = rest.split_first_chunk::<HEADER_LEN>() {
            let word = |at: usize| u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
            let len = word(8) as usize;
            let Some(payload) = body.get(..len) else { break };
            frames.push(Frame { tag: word(4), payload: payload.to_vec() });
            rest = &body[len..];
        }
        let used = self.received.len() - rest.len();
        if used == self.received.len() {
            // One large message must not hold its memory for the rest of the job.
            if self.received.capacity() > CHUNK_LEN {
                self.received = Vec::new();
            }
            self.received.clear();
        } else {
            self.received.drain(..used);
        }
        frames
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_cut_wherever_the_bytes_were() {
        let mut bytes = Vec::new();
        for (tag, payload) in [(101, &b"first"[..]), (0, b""), (102, b"second")] {
            bytes.extend_from_slice(&header(0, tag, payload.len() as u32));
            bytes.extend_from_slice(payload);
        }
        for piece in 1..bytes.len() {
            let mut frames = Frames::new();
            let mut found = Vec::new();
            for part in bytes.chunks(piece) {
                frames.received.extend_from_slice(part);
                found.extend(frames.take());
            }
            let tags: Vec<_> = found.iter().map(|frame| (frame.tag, frame.payload.as_slice())).collect();
            assert_eq!(tags, [(101, &b"first"[..]), (0, b""), (102, b"second")], "in pieces of {piece}");
            assert!(frames.received.is_empty());
        }
    }

    #[test]
    fn a_claimed_length_reserves_nothing() {
        let mut frames = Frames::new();
        frames.received.extend_from_slice(&header(0, 101, u32::MAX));
        assert_eq!(frames.take(), []);
        assert!(frames.received.capacity() < CHUNK_LEN);
    }
}
