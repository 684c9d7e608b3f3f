//! One connection: bytes in, messages out of them; messages in, bytes out.

use std::collections::VecDeque;
use std::io;
use std::net::TcpStream;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::Instant;

use nix::errno::Errno;
use nix::sys::epoll::EpollFlags;
use nix::sys::socket::{MsgFlags, recv, send};
use pmix_client::wire::{HELLO_LEN_MAX, Header, Hello, REQUEST_LEN_MAX};

use crate::engine::Transport;

/// Either kind of socket.
pub(super) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Socket::Tcp(stream) => stream.as_fd(),
            Socket::Unix(stream) => stream.as_fd(),
        }
    }
}

/// Where a connection is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// The first message is awaited, until the deadline.
    Hello(Instant),
    /// The first message is with the engine.
    Asked,
    /// Messages flow.
    Running,
}

/// A connection and its buffers.
pub(super) struct Connection {
    pub socket: Socket,
    pub transport: Transport,
    pub stage: Stage,
    input: Vec<u8>,
    /// Bytes at the front of `input` that are done with.
    consumed: usize,
    output: VecDeque<Vec<u8>>,
    /// Bytes of the first of `output` that are sent.
    sent: usize,
    /// Bytes queued.
    queued: usize,
    /// Since when the peer has taken nothing of what is queued.
    pub stuck_since: Option<Instant>,
    /// What the connection is watched for.
    watched: EpollFlags,
}

/// With more than this queued for a peer, its requests are left unread and events for it are dropped; replies never
/// are.
const QUEUE_MAX: usize = 16 << 20;

/// What became of reading.
pub(super) enum Read {
    /// There may be messages.
    Some,
    /// The peer is gone; the reason, where there is one to tell.
    End(Option<String>),
}

/// One part of the input: a handshake, or a message with its tag.
pub(super) enum Incoming {
    Hello(Vec<u8>),
    Message(u32, Vec<u8>),
}

/// Read at most so much at once, so that one peer does not starve the others.
const READ_MAX: usize = 1 << 18;

impl Connection {
    pub fn new(socket: Socket, transport: Transport, hello_deadline: Instant) -> Connection {
        Connection {
            socket,
            transport,
            stage: Stage::Hello(hello_deadline),
            input: Vec::new(),
            consumed: 0,
            output: VecDeque::new(),
            sent: 0,
            queued: 0,
            stuck_since: None,
            watched: EpollFlags::EPOLLIN,
        }
    }

    /// Reads what is there. Memory grows with what has come, never with what a length claims.
    pub fn read(&mut self) -> Read {
        self.input.drain(..self.consumed);
        self.consumed = 0;
        let mut chunk = [0; 1 << 14];
        let mut total = 0;
        while total < READ_MAX {
            match recv(self.socket.as_fd().as_raw_fd(), &mut chunk, MsgFlags::MSG_DONTWAIT) {
                Ok(0) => return Read::End(None),
                Ok(len) => {
                    self.input.extend_from_slice(&chunk[..len]);
                    total += len;
                    if len < chunk.len() {
                        break;
                    }
                }
                Err(Errno::EAGAIN) => break,
                Err(Errno::EINTR) => {}
                Err(Errno::ECONNRESET) => return Read::End(None),
                Err(error) => return Read::End(Some(error.desc().to_owned())),
            }
        }
        Read::Some
    }

    /// The next whole part of the input.
    ///
    /// # Errors
    /// What is wrong with a length.
    pub fn next(&mut self) -> Result<Option<Incoming>, String> {
        let input = &self.input[self.consumed..];
        let Some(head) = input.first_chunk::<{ Header::LEN }>() else { return Ok(None) };
        let hello = match self.stage {
            Stage::Hello(_) => true,
            Stage::Asked => return Ok(None),
            Stage::Running => false,
        };
        let header = Header::decode(head);
        let len = if hello {
            Hello::payload_len(head).map_err(|_| format!("no handshake, or one of more than {HELLO_LEN_MAX} bytes"))?
        } else if header.len as usize > REQUEST_LEN_MAX {
            return Err(format!("a message claims {} bytes, at most {REQUEST_LEN_MAX} are taken", header.len));
        } else {
            header.len as usize
        };
        let Some(payload) = input[Header::LEN..].get(..len) else { return Ok(None) };
        let payload = payload.to_vec();
        self.consumed += Header::LEN + len;
        Ok(Some(if hello { Incoming::Hello(payload) } else { Incoming::Message(header.tag, payload) }))
    }

    /// Whether the peer has begun its first message and not ended it.
    pub fn has_half_a_hello(&self) -> bool {
        matches!(self.stage, Stage::Hello(_)) && !self.input.is_empty()
    }

    /// Whether the peer has let too much of what is meant for it lie.
    pub fn is_full(&self) -> bool {
        self.queued > QUEUE_MAX
    }

    /// What the connection must be watched for now, where that is something else than before.
    pub fn watch(&mut self) -> Option<EpollFlags> {
        let mut wanted = EpollFlags::empty();
        wanted.set(EpollFlags::EPOLLIN, !self.is_full());
        wanted.set(EpollFlags::EPOLLOUT, self.queued > 0);
        (wanted != std::mem::replace(&mut self.watched, wanted)).then_some(wanted)
    }

    /// Queues bytes.
    pub fn queue(&mut self, bytes: Vec<u8>) {
        self.queued += bytes.len();
        self.output.push_back(bytes);
    }

    /// Sends what the peer takes now; tells whether something is left.
    ///
    /// # Errors
    /// The connection is broken.
    pub fn flush(&mut self, now: Instant) -> io::Result<bool> {
        while let Some(first) = self.output.front() {
            let fd = self.socket.as_fd().as_raw_fd();
            match send(fd, &first[self.sent..], MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL) {
                Ok(len) => {
                    self.stuck_since = None;
                    self.sent += len;
                    self.queued -= len;
                    if self.sent == first.len() {
                        self.output.pop_front();
                        self.sent = 0;
                    }
                }
                Err(Errno::EAGAIN) => {
                    self.stuck_since.get_or_insert(now);
                    return Ok(true);
                }
                Err(Errno::EINTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.stuck_since = None;
        Ok(false)
    }
}
