//! Framing: a header of sixteen bytes, then the payload.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, recv};

use crate::wire::Header;

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
        while let Some((header, body)) = rest.split_first_chunk::<{ Header::LEN }>() {
            let header = Header::decode(header);
            let len = header.len as usize;
            let Some(payload) = body.get(..len) else { break };
            frames.push(Frame { tag: header.tag, payload: payload.to_vec() });
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

    fn header(index: i32, tag: u32, len: u32) -> [u8; Header::LEN] {
        Header { index, tag, len }.encode()
    }

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
