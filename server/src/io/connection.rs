//! One connection: splits received bytes into messages, and queues messages for sending.

use std::io;
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::Instant;

use nix::errno::Errno;
use nix::sys::epoll::EpollFlags;
use pmix_wire::framing::{Chunk, Frame, Frames, Outbox};
use pmix_wire::{HELLO_LEN_MAX, Header, Hello, REQUEST_LEN_MAX};

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

/// The stage of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Waits for the first message.
    Hello,
    /// The first message is with the engine.
    Asked,
    /// The handshake is complete.
    Running,
}

/// A connection and its buffers.
pub(super) struct Connection {
    pub socket: Socket,
    pub transport: Transport,
    pub stage: Stage,
    input: Frames,
    pub output: Outbox,
    /// When the peer stopped taking queued bytes; `None` while it takes them.
    pub stuck_since: Option<Instant>,
    /// The epoll flags of the connection.
    watched: EpollFlags,
}

/// Limit of a peer's send queue in bytes. Beyond it the peer's requests are not read and events for it are dropped; replies never
/// are.
const QUEUE_MAX: usize = 16 << 20;

/// The result of a read.
pub(super) enum Read {
    /// There may be messages.
    Some,
    /// The peer is gone; the reason, unless it closed the connection in the normal way.
    End(Option<String>),
}

/// One part of the input.
pub(super) enum Incoming {
    /// A handshake.
    Hello(Vec<u8>),
    /// A message.
    Message(Frame),
}

/// Limit of bytes read in one turn, so that one peer does not starve the others.
const READ_MAX: usize = 1 << 18;

impl Connection {
    pub fn new(socket: Socket, transport: Transport) -> Connection {
        Connection {
            socket,
            transport,
            stage: Stage::Hello,
            input: Frames::new(),
            output: Outbox::default(),
            stuck_since: None,
            watched: EpollFlags::EPOLLIN,
        }
    }

    /// Reads the available bytes, each time as many as `chunk` or the partial message has room for. Memory grows with
    /// the received bytes, never with an announced length.
    pub fn read(&mut self, chunk: &mut Chunk) -> Read {
        let mut total = 0;
        while total < READ_MAX {
            match self.input.fill(self.socket.as_fd(), chunk) {
                Ok((0, _)) | Err(Errno::ECONNRESET) => return Read::End(None),
                Ok((_, false)) => break,
                Ok((len, true)) => total += len,
                Err(Errno::EAGAIN) => break,
                Err(error) => return Read::End(Some(io::Error::from(error).to_string())),
            }
        }
        Read::Some
    }

    /// The next complete part of the input.
    ///
    /// # Errors
    /// A length is invalid.
    pub fn next(&mut self) -> Result<Option<Incoming>, String> {
        match self.stage {
            Stage::Hello => {
                let Some((head, rest)) = self.input.unread().split_first_chunk::<{ Header::LEN }>() else {
                    return Ok(None);
                };
                let len = Hello::payload_len(head)
                    .map_err(|_| format!("no handshake, or one of more than {HELLO_LEN_MAX} bytes"))?;
                let Some(payload) = rest.get(..len).map(<[u8]>::to_vec) else { return Ok(None) };
                self.input.skip(Header::LEN + len);
                Ok(Some(Incoming::Hello(payload)))
            }
            Stage::Asked => Ok(None),
            Stage::Running => {
                let next = self.input.next(REQUEST_LEN_MAX as u32);
                let refused = |len| format!("a message claims {len} bytes, at most {REQUEST_LEN_MAX} are taken");
                next.map(|frame| frame.map(Incoming::Message)).map_err(refused)
            }
        }
    }

    /// Whether the peer has sent only a part of its first message.
    pub fn has_half_a_hello(&self) -> bool {
        matches!(self.stage, Stage::Hello) && !self.input.unread().is_empty()
    }

    /// Whether the send queue has reached its limit.
    pub fn is_full(&self) -> bool {
        self.output.len() > QUEUE_MAX
    }

    /// The epoll flags that the connection needs now, if they have changed.
    pub fn watch(&mut self) -> Option<EpollFlags> {
        let mut wanted = EpollFlags::empty();
        // What a peer sends before its answer stays in the kernel, which bounds it. Its end is still reported.
        let is_asked = self.stage == Stage::Asked;
        wanted.set(EpollFlags::EPOLLIN, !is_asked && !self.is_full());
        wanted.set(EpollFlags::EPOLLRDHUP, is_asked);
        wanted.set(EpollFlags::EPOLLOUT, !self.output.is_empty());
        (wanted != std::mem::replace(&mut self.watched, wanted)).then_some(wanted)
    }

    /// Sends as much as the peer takes now; returns whether bytes are left.
    ///
    /// # Errors
    /// The connection is broken.
    pub fn flush(&mut self, now: Instant) -> io::Result<bool> {
        while !self.output.is_empty() {
            match self.output.write(self.socket.as_fd()) {
                Ok(_) => self.stuck_since = None,
                Err(Errno::EAGAIN) => {
                    self.stuck_since.get_or_insert(now);
                    return Ok(true);
                }
                Err(error) => return Err(error.into()),
            }
        }
        self.stuck_since = None;
        Ok(false)
    }
}
