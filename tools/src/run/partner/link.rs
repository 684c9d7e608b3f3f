//! The connection of two launchers of one user on one node: a Unix socket with a name that both are given.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use nix::unistd::geteuid;
use pmix_dstore::fallible_alloc;

use super::message::{FRAME_MAX, HEAD, Message};
use super::names;

/// How long a launcher that has connected may take to say who it is.
const GREETING_TIME: Duration = Duration::from_secs(5);
/// How long the one that was there first may take: it answers when its server has started.
const ANSWER_TIME: Duration = Duration::from_secs(15);
/// How long a partner may leave what it is sent unread.
const UNREAD_TIME: Duration = Duration::from_secs(60);
/// The most bytes that wait for a partner that does not read.
const QUEUE_MAX: usize = 2 * FRAME_MAX;
/// How much is read at once.
const CHUNK: usize = 1 << 16;
/// How often another launcher may come or go between two looks at the socket.
const TRIES: usize = 16;

/// Why the link to a launcher that has ended is of no use.
pub(super) const ENDED: &str = "it has ended";

/// How a launcher is linked to its partner.
pub(super) enum Opened {
    /// It was there first, and waits for the other one.
    First(Door),
    /// The other one was there: the link, and its cluster.
    Second(Link, String),
}

/// Opens the socket of this name, or connects to it if another launcher is there.
///
/// # Errors
/// A message for the user.
pub(super) fn open(path: &Path, cluster: &str) -> Result<Opened, String> {
    let failed = |what: String| format!("--partner {}: {what}", path.display());
    for _ in 0..TRIES {
        match UnixStream::connect(path) {
            Ok(stream) => {
                let (link, theirs) = greeted(stream, cluster, ANSWER_TIME).map_err(failed)?;
                return Ok(Opened::Second(link, theirs));
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
                return Err(failed("no launcher listens at this socket any more: remove it".into()));
            }
            Err(error) => return Err(failed(error.to_string())),
        }
        match Door::open(path) {
            Ok(door) => return Ok(Opened::First(door)),
            // Another launcher was faster.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(failed(error.to_string())),
        }
    }
    Err(failed("launchers come and go at this socket".into()))
}

/// The socket of the launcher that is there first. Its name goes when the other one has come, or with the launcher.
pub(super) struct Door {
    listener: UnixListener,
    path: PathBuf,
}

impl Door {
    /// The name appears when the socket can be connected to, and replaces no other one.
    fn open(path: &Path) -> io::Result<Door> {
        let mut draft = path.as_os_str().to_owned();
        draft.push(format!(".{}", std::process::id()));
        let draft = PathBuf::from(draft);
        let listener = UnixListener::bind(&draft)?;
        let opened = std::fs::set_permissions(&draft, std::fs::Permissions::from_mode(0o600))
            .and_then(|()| listener.set_nonblocking(true))
            .and_then(|()| std::fs::hard_link(&draft, path));
        let _ = std::fs::remove_file(&draft);
        opened.map(|()| Door { listener, path: path.to_owned() })
    }

    /// The next launcher at the door; `None` if there is none.
    ///
    /// # Errors
    /// Why it is not let in.
    pub fn admit(&self, cluster: &str) -> Result<Option<(Link, String)>, String> {
        match self.listener.accept() {
            Ok((stream, _)) => greeted(stream, cluster, GREETING_TIME).map(Some),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(None),
            Err(error) => Err(error.to_string()),
        }
    }

    pub fn fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Who is at the other end of a new connection: a launcher of this user. Both sides look, since either may have been led to the socket.
///
/// # Errors
/// Why it is no partner.
fn greeted(mut stream: UnixStream, cluster: &str, patience: Duration) -> Result<(Link, String), String> {
    let user = getsockopt(&stream, PeerCredentials).map_err(|error| error.to_string())?.uid();
    if user != geteuid().as_raw() {
        return Err(format!("the process there is of user {user}: a partner is a pmixrun of the same user"));
    }
    let theirs = exchange_greetings(&mut stream, cluster, patience).map_err(|error| match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => "the process there does not answer as a pmixrun does".into(),
        ErrorKind::InvalidData => "the process there is no pmixrun of this release".into(),
        _ => format!("the process there has closed the connection ({error})"),
    })?;
    let theirs = String::from_utf8(theirs).ok().and_then(|name| names::cluster(&name).ok());
    let theirs = theirs.ok_or("the process there has no --cluster-id")?;
    if theirs == cluster {
        return Err(format!("the pmixrun there has --cluster-id {cluster}, too: each needs one of its own"));
    }
    stream.set_nonblocking(true).map_err(|error| error.to_string())?;
    Ok((Link { stream, read: Vec::new(), queue: VecDeque::new(), queued: 0, sent: 0, unread_since: None }, theirs))
}

/// Says which cluster this is; returns what the other one says.
fn exchange_greetings(stream: &mut UnixStream, cluster: &str, patience: Duration) -> io::Result<Vec<u8>> {
    const GREETING_MAX: u32 = 1024;
    let wrong = || io::Error::from(ErrorKind::InvalidData);
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(patience))?;
    stream.set_write_timeout(Some(patience))?;
    let hello = Message::Hello { cluster: cluster.as_bytes().to_vec() };
    stream.write_all(&hello.frame().map_err(|_| wrong())?)?;
    let mut head = [0; HEAD];
    stream.read_exact(&mut head)?;
    let len = Some(u32::from_be_bytes(head)).filter(|len| *len <= GREETING_MAX).ok_or_else(wrong)?;
    let mut bytes = vec![0; len as usize];
    stream.read_exact(&mut bytes)?;
    match Message::read(&bytes) {
        Ok(Message::Hello { cluster }) => Ok(cluster),
        _ => Err(wrong()),
    }
}

/// The connection to the partner.
pub(super) struct Link {
    stream: UnixStream,
    /// What has been read and is no whole message yet.
    read: Vec<u8>,
    /// Frames to be written, of which the first `sent` bytes are.
    queue: VecDeque<Vec<u8>>,
    queued: usize,
    sent: usize,
    /// Since when the partner has read nothing of them.
    unread_since: Option<Instant>,
}

impl Link {
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }

    /// Whether something waits to be written.
    pub fn has_queue(&self) -> bool {
        !self.queue.is_empty()
    }

    /// When a partner that reads nothing is given up.
    pub fn deadline(&self) -> Option<Instant> {
        self.unread_since.map(|since| since + UNREAD_TIME)
    }

    /// Queues frames and writes what the partner takes.
    ///
    /// # Errors
    /// Why the link is of no use any more.
    pub fn write(&mut self, frames: impl IntoIterator<Item = Vec<u8>>, now: Instant) -> Result<(), String> {
        for frame in frames {
            self.queued += frame.len();
            self.queue.push_back(frame);
        }
        while let Some(first) = self.queue.front() {
            match self.stream.write(&first[self.sent..]) {
                Ok(len) => {
                    self.unread_since = None;
                    self.sent += len;
                    self.queued -= len;
                    if self.sent == first.len() {
                        self.queue.pop_front();
                        self.sent = 0;
                    }
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.unread_since.get_or_insert(now);
                    break;
                }
                // It has ended. What it said before is still to be read.
                Err(error) if has_ended(&error) => {
                    self.queue.clear();
                    (self.queued, self.sent, self.unread_since) = (0, 0, None);
                }
                Err(error) => return Err(error.to_string()),
            }
        }
        let is_late = self.deadline().is_some_and(|deadline| deadline <= now);
        if is_late || self.queued > QUEUE_MAX { Err("it does not read".into()) } else { Ok(()) }
    }

    /// The messages that have come; a bounded number of bytes is read for one call.
    ///
    /// # Errors
    /// Why the link is of no use any more.
    pub fn messages(&mut self) -> Result<Vec<Message>, String> {
        let mut chunk = vec![0; CHUNK];
        match self.stream.read(&mut chunk) {
            Ok(0) => return Err(ENDED.into()),
            Err(error) if has_ended(&error) => return Err(ENDED.into()),
            Ok(len) => fallible_alloc::extend(&mut self.read, &chunk[..len]).map_err(|status| status.to_string())?,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(error) => return Err(error.to_string()),
        }
        let mut messages = Vec::new();
        let mut at = 0;
        while let Some(head) = self.read[at..].first_chunk::<HEAD>() {
            let len = u32::from_be_bytes(*head) as usize;
            if len > FRAME_MAX {
                return Err(format!("it sends a message of {len} bytes"));
            }
            let Some(body) = self.read.get(at + HEAD..at + HEAD + len) else { break };
            messages.push(Message::read(body).map_err(|status| format!("it sends what cannot be read ({status})"))?);
            at += HEAD + len;
        }
        self.read.drain(..at);
        if self.read.is_empty() && self.read.capacity() > 2 * CHUNK {
            // A long message need not stay the measure.
            self.read = Vec::new();
        }
        Ok(messages)
    }
}

/// Whether there is nobody at the other end any more. The kernel says "reset" where something was left unread.
fn has_ended(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset)
}

#[cfg(test)]
#[path = "link_tests.rs"]
mod tests;
