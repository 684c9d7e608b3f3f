//! Messages on a socket: a header of sixteen bytes, then the payload. Both ends split and queue them here.
//!
//! Large payloads are not copied: they are received into their final buffer and sent from the original one. Memory grows with the
//! received bytes, not with a claimed length; if an allocation fails, the payload is skipped and the rest of the stream is read.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd};

use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, sendmsg};
use pmix_dstore::fallible_alloc;
use pmix_dstore::gather::GatherBuf;
use pmix_dstore::model::Result;

use crate::Header;

/// The most bytes that one read asks for.
pub(crate) const CHUNK_LEN: usize = 64 * 1024;

/// The most pieces of a message that one system call writes.
const PARTS_MAX: usize = 64;

/// The first size of a chunk.
const CHUNK_LEN_FIRST: usize = 512;
/// How much larger the next one is.
const CHUNK_GROWTH: usize = 8;

/// A read buffer. It grows only when a read fills it: most of a rank's replies have a few bytes, and each page that a buffer
/// touches costs memory.
pub struct Chunk {
    bytes: Vec<u8>,
    /// The last read filled the buffer: the socket may have more.
    is_short: bool,
}

impl Chunk {
    /// A small buffer.
    ///
    /// # Errors
    /// `ERR_NOMEM`.
    pub fn new() -> Result<Chunk> {
        Ok(Chunk { bytes: fallible_alloc::filled(0, CHUNK_LEN_FIRST)?, is_short: false })
    }

    /// The buffer for the next read.
    fn room(&mut self) -> &mut [u8] {
        if self.is_short
            && self.bytes.len() < CHUNK_LEN
            && let Ok(larger) = fallible_alloc::filled(0, (self.bytes.len() * CHUNK_GROWTH).min(CHUNK_LEN))
        {
            self.bytes = larger;
        }
        &mut self.bytes
    }
}

/// A received message.
#[derive(Debug, PartialEq)]
pub struct Frame {
    /// The tag of the request that it answers, or one of the reserved tags.
    pub tag: u32,
    /// The length of its payload.
    pub len: u32,
    /// Its payload; `ERR_NOMEM` if the allocation failed.
    pub payload: Result<Vec<u8>>,
}

/// A message of which a part has been received.
struct Partial {
    header: Header,
    /// The bytes received so far; an error after a failed allocation.
    payload: Result<Vec<u8>>,
    /// Bytes that have not been received yet.
    left: usize,
}

impl Partial {
    /// Takes the bytes that belong to the payload; returns the rest.
    fn take_in<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        let (own, rest) = bytes.split_at(self.left.min(bytes.len()));
        let len = self.header.len as usize;
        if let Ok(payload) = &mut self.payload {
            // Twice the received bytes, or the whole payload.
            let wanted = len.min(2 * (payload.len() + own.len())) - payload.len();
            let has_room = payload.capacity() - payload.len() >= own.len();
            match if has_room { Ok(()) } else { fallible_alloc::reserve_exact(payload, wanted) } {
                Ok(()) => payload.extend_from_slice(own),
                Err(status) => self.payload = Err(status),
            }
        }
        self.left -= own.len();
        rest
    }

    /// Room for further bytes of the payload: as many as were received, at least a chunk. `None` if the allocation fails, and for
    /// a payload that is skipped.
    fn room(&mut self) -> Option<&mut [MaybeUninit<u8>]> {
        let payload = self.payload.as_mut().ok()?;
        if payload.capacity() - payload.len() < CHUNK_LEN {
            let wanted = self.left.min(payload.len().max(CHUNK_LEN));
            fallible_alloc::reserve_exact(payload, wanted).ok()?;
        }
        let room = payload.spare_capacity_mut();
        let len = room.len().min(self.left);
        Some(&mut room[..len])
    }

    /// Counts `len` bytes that were received into [`Partial::room`].
    ///
    /// # Safety
    /// The first `len` bytes of the slice that [`Partial::room`] returned last have been written.
    unsafe fn took(&mut self, len: usize) {
        if let Ok(payload) = &mut self.payload {
            // SAFETY: the room begins after the payload's last byte, and the caller has written its first `len` bytes.
            unsafe { payload.set_len(payload.len() + len) };
            self.left -= len;
        }
    }
}

/// Receives the available bytes without blocking; returns their number.
fn receive(socket: BorrowedFd<'_>, room: &mut [MaybeUninit<u8>]) -> nix::Result<usize> {
    loop {
        // SAFETY: `recv` writes at most `room.len()` bytes, into memory that this function borrows mutably.
        let len = unsafe { libc::recv(socket.as_raw_fd(), room.as_mut_ptr().cast(), room.len(), libc::MSG_DONTWAIT) };
        match Errno::result(len) {
            Err(Errno::EINTR) => {}
            other => return other.map(|len| len as usize),
        }
    }
}

/// Splits the bytes from a socket into messages.
#[derive(Default)]
pub struct Frames {
    received: Vec<u8>,
    /// Bytes at the front of `received` that have been consumed.
    done: usize,
    /// The partial message, whose bytes precede `received`.
    partial: Option<Partial>,
}

impl Frames {
    /// Nothing received yet.
    pub fn new() -> Frames {
        Frames::default()
    }

    /// Receives the available bytes without blocking, as many as `chunk` or the partial message has room for. Returns
    /// their number, and whether there may be more.
    ///
    /// # Errors
    /// The socket's errno, `EAGAIN` included. A number of 0 means that the peer has closed.
    pub fn fill(&mut self, socket: BorrowedFd<'_>, chunk: &mut Chunk) -> nix::Result<(usize, bool)> {
        if let Some(partial) = self.partial.as_mut().filter(|partial| partial.left >= CHUNK_LEN)
            && let Some(room) = partial.room()
        {
            let room_len = room.len();
            let len = receive(socket, room)?;
            // SAFETY: `recv` has initialised that many bytes.
            unsafe { partial.took(len) };
            return Ok((len, len == room_len));
        }
        let room = chunk.room();
        // SAFETY: initialised bytes may be viewed as `MaybeUninit`, because `recv` writes only initialised bytes.
        let len = receive(socket, unsafe { &mut *(&raw mut *room as *mut [MaybeUninit<u8>]) })?;
        self.take_in(&room[..len]);
        chunk.is_short = len == chunk.bytes.len();
        Ok((len, chunk.is_short))
    }

    fn take_in(&mut self, bytes: &[u8]) {
        let rest = self.partial.as_mut().map_or(bytes, |partial| partial.take_in(bytes));
        self.received.drain(..self.done);
        self.done = 0;
        // Reserve exactly what is needed, without doubling: the emergency reserve (`pmix_dstore::fallible_alloc`) has
        // no large blocks.
        self.received.reserve_exact(rest.len());
        self.received.extend_from_slice(rest);
    }

    /// Received bytes outside any message. Handshake headers have another format, which the caller reads.
    pub fn unread(&self) -> &[u8] {
        &self.received[self.done..]
    }

    /// Consumes `len` of the [`Frames::unread`] bytes.
    pub fn skip(&mut self, len: usize) {
        self.done = (self.done + len).min(self.received.len());
    }

    /// The next message, if it is complete.
    ///
    /// # Errors
    /// The announced length of a message, if it is above `len_max`.
    pub fn next(&mut self, len_max: u32) -> Result<Option<Frame>, u32> {
        if self.partial.is_none() {
            let Some((head, body)) = self.unread().split_first_chunk::<{ Header::LEN }>() else { return Ok(None) };
            let header = Header::decode(head);
            let len = header.len as usize;
            if header.len > len_max {
                return Err(header.len);
            }
            if body.len() < len && len < CHUNK_LEN {
                // Wait for the rest of a short message, so that it is copied only once.
                return Ok(None);
            }
            let mut partial = Partial { header, payload: Ok(Vec::new()), left: len };
            let rest = partial.take_in(body).len();
            self.skip(self.unread().len() - rest);
            self.partial = Some(partial);
        }
        let whole = self.partial.take_if(|partial| partial.left == 0);
        Ok(whole.map(|Partial { header, payload, .. }| Frame { tag: header.tag, len: header.len, payload }))
    }
}

/// A queued message.
struct Outgoing {
    head: [u8; Header::LEN],
    /// Bytes of the header; 0 for a handshake's answer.
    head_len: usize,
    payload: GatherBuf,
}

impl Outgoing {
    /// Fills `parts` with the pieces after the first `sent` bytes; returns their number.
    fn rest<'a>(&'a self, sent: usize, parts: &mut [IoSlice<'a>; PARTS_MAX]) -> usize {
        let head = self.head[..self.head_len].get(sent..).unwrap_or_default();
        let payload = self.payload.slices_from(sent.saturating_sub(self.head_len));
        let pieces = std::iter::once(head).chain(payload).filter(|piece| !piece.is_empty());
        parts.iter_mut().zip(pieces).map(|(part, piece)| *part = IoSlice::new(piece)).count()
    }
}

/// Messages that wait to be written. The first may be partly written.
#[derive(Default)]
pub struct Outbox {
    messages: VecDeque<Outgoing>,
    /// Bytes of the first message that are written.
    sent: usize,
    /// The number of unwritten bytes.
    queued: usize,
}

impl Outbox {
    /// Adds a message. The header's length must be that of the payload.
    pub fn push(&mut self, header: Header, payload: impl Into<GatherBuf>) {
        self.add(Outgoing { head: header.encode(), head_len: Header::LEN, payload: payload.into() });
    }

    /// Adds bytes that are not a message.
    pub fn push_bare(&mut self, bytes: Vec<u8>) {
        self.add(Outgoing { head: [0; Header::LEN], head_len: 0, payload: bytes.into() });
    }

    fn add(&mut self, message: Outgoing) {
        self.queued += message.head_len + message.payload.len();
        self.messages.push_back(message);
    }

    /// The number of unwritten bytes.
    pub fn len(&self) -> usize {
        self.queued
    }

    /// Whether everything is written.
    pub fn is_empty(&self) -> bool {
        self.queued == 0
    }

    /// Discards the unwritten messages.
    pub fn clear(&mut self) {
        *self = Outbox::default();
    }

    /// Writes as much as the socket takes now, at most the rest of the first message; returns the number of bytes.
    ///
    /// # Errors
    /// The socket's errno, `EAGAIN` included.
    pub fn write(&mut self, socket: BorrowedFd<'_>) -> nix::Result<usize> {
        let Some(first) = self.messages.front() else { return Ok(0) };
        let whole = first.head_len + first.payload.len();
        let mut parts = [IoSlice::new(&[]); PARTS_MAX];
        let count = first.rest(self.sent, &mut parts);
        let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
        let len = loop {
            match sendmsg::<()>(socket.as_raw_fd(), &parts[..count], &[], flags, None) {
                Err(Errno::EINTR) => {}
                other => break other?,
            }
        };
        self.queued -= len;
        self.sent += len;
        if self.sent == whole {
            self.messages.pop_front();
            self.sent = 0;
        }
        Ok(len)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    use pmix_dstore::model::Status;

    use super::*;

    fn header(tag: u32, len: usize) -> Header {
        Header { index: 0, tag, len: len as u32 }
    }

    fn all(frames: &mut Frames) -> Vec<(u32, Vec<u8>)> {
        let next = || frames.next(u32::MAX).unwrap();
        std::iter::from_fn(next).map(|frame| (frame.tag, frame.payload.unwrap())).collect()
    }

    #[test]
    fn messages_are_found_however_the_bytes_are_split() {
        let long = vec![7; CHUNK_LEN + 3];
        let sent = [(101, b"first".to_vec()), (0, Vec::new()), (102, long), (103, b"last".to_vec())];
        let mut bytes = Vec::new();
        for (tag, payload) in &sent {
            bytes.extend_from_slice(&header(*tag, payload.len()).encode());
            bytes.extend_from_slice(payload);
        }
        for piece in (1..70).chain([1000, CHUNK_LEN, bytes.len()]) {
            let mut frames = Frames::new();
            let mut found = Vec::new();
            for part in bytes.chunks(piece) {
                frames.take_in(part);
                found.extend(all(&mut frames));
            }
            assert_eq!(found, sent, "in pieces of {piece}");
            assert!(frames.unread().is_empty());
        }
    }

    #[test]
    fn a_claimed_length_reserves_nothing_and_may_be_too_much() {
        let mut frames = Frames::new();
        frames.take_in(&header(101, u32::MAX as usize).encode());
        assert_eq!(frames.next(1 << 30), Err(u32::MAX));
        assert_eq!(frames.next(u32::MAX), Ok(None));
        frames.take_in(&[1; 100]);
        assert_eq!(frames.next(u32::MAX), Ok(None));
        let partial = frames.partial.unwrap();
        assert!(partial.payload.unwrap().capacity() < 1000);
    }

    #[test]
    fn messages_without_memory_are_skipped() {
        let mut frames = Frames::new();
        frames.take_in(&header(101, CHUNK_LEN).encode());
        assert_eq!(frames.next(u32::MAX), Ok(None));
        frames.partial.as_mut().unwrap().payload = Err(Status::ERR_NOMEM);
        frames.take_in(&vec![1; CHUNK_LEN]);
        frames.take_in(&header(102, 1).encode());
        frames.take_in(&[2]);
        let refused = Frame { tag: 101, len: CHUNK_LEN as u32, payload: Err(Status::ERR_NOMEM) };
        assert_eq!(frames.next(u32::MAX), Ok(Some(refused)));
        assert_eq!(all(&mut frames), [(102, vec![2])]);
    }

    #[test]
    fn a_message_in_pieces_arrives_in_one() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let mut payload = GatherBuf::new();
        for index in 0..1000 {
            payload.push(&vec![index as u8; 3000].into()).unwrap();
            payload.own().push(7);
        }
        let sent = payload.clone().into_bytes().unwrap();
        let mut outbox = Outbox::default();
        outbox.push(header(101, sent.len()), payload);
        outbox.push(header(102, 1), vec![8]);
        let (mut frames, mut chunk) = (Frames::new(), Chunk::new().unwrap());
        let mut received = Vec::new();
        while received.len() < 2 {
            match outbox.write(ours.as_fd()) {
                Ok(_) | Err(Errno::EAGAIN) => {}
                Err(error) => panic!("{error}"),
            }
            while frames.fill(theirs.as_fd(), &mut chunk).is_ok() {
                received.extend(all(&mut frames));
            }
        }
        assert!(outbox.is_empty());
        assert!(received == [(101, sent), (102, vec![8])]);
    }

    #[test]
    fn the_send_queue_keeps_order_under_partial_writes() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let mut outbox = Outbox::default();
        let mut expected = b"bare".to_vec();
        outbox.push_bare(b"bare".to_vec());
        for (tag, len) in [(101, 3_000_000), (102, 0), (103, 5)] {
            outbox.push(header(tag, len), vec![tag as u8; len]);
            expected.extend_from_slice(&header(tag, len).encode());
            expected.extend_from_slice(&vec![tag as u8; len]);
        }
        assert_eq!(outbox.len(), expected.len());
        let mut received = Vec::new();
        let mut chunk = vec![0; 1 << 16];
        while !outbox.is_empty() {
            match outbox.write(ours.as_fd()) {
                Ok(_) => {}
                Err(Errno::EAGAIN) => {
                    let len = theirs.read(&mut chunk).unwrap();
                    received.extend_from_slice(&chunk[..len]);
                }
                Err(error) => panic!("{error}"),
            }
        }
        drop(ours);
        theirs.read_to_end(&mut received).unwrap();
        assert!(received == expected);
    }
}
