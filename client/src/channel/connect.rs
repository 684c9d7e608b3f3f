//! Connecting to the server, and the handshake.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, connect, getsockopt, socket, sockopt};
use pmix_dstore::model::{Result, Status};
use pmix_dstore::segment::Directory;

use pmix_wire::{PeerKind, ToolReply};

/// The server's socket in a namespace's directory.
const SOCKET_NAME: &str = "sock";

/// A connected, non-blocking socket on which nothing has been sent yet.
pub enum Socket {
    /// To our own server, through the socket in the namespace's directory.
    Unix(UnixStream),
    /// To a server of any implementation.
    Tcp(TcpStream),
}

/// Connects to the server's socket in its directory, and checks that the listener's user owns the directory.
///
/// # Errors
/// If no process listens, if the listener runs as another user than the directory's owner, or if the server does not
/// accept the connection before the deadline.
pub fn dial(directory: &Directory, deadline: Instant) -> io::Result<Socket> {
    // A socket address holds at most 107 bytes of path; the directory's own path may be longer.
    let path = format!("/proc/self/fd/{}/{SOCKET_NAME}", directory.as_fd().as_raw_fd());
    let address = UnixAddr::new(path.as_str())?;
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let socket = UnixStream::from(socket(AddressFamily::Unix, SockType::Stream, flags, None)?);
    loop {
        match connect(socket.as_raw_fd(), &address) {
            Ok(()) => break,
            // The listen queue is full. A Unix socket gives no event to poll for, so sleep and retry.
            Err(Errno::EAGAIN) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(1)),
            Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let peer = getsockopt(&socket, sockopt::PeerCredentials)?;
    if peer.uid() != directory.uid() {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    Ok(Socket::Unix(socket))
}

/// Connects over TCP.
///
/// # Errors
/// If no process listens, or the connection is not established before the deadline.
pub fn dial_tcp(address: SocketAddr, deadline: Instant) -> io::Result<Socket> {
    let left = deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
    let socket = TcpStream::connect_timeout(&address, left)?;
    // Requests are small and a caller waits for each: do not delay them to fill packets.
    socket.set_nodelay(true)?;
    socket.set_nonblocking(true)?;
    Ok(Socket::Tcp(socket))
}

impl Socket {
    /// Sends `hello` and reads the server's answer to a launched client. Returns the peer index that later headers
    /// carry.
    ///
    /// # Errors
    /// `ERR_UNREACH` if the server closes the connection, which is one way to refuse; `ERR_TIMEOUT` after the deadline;
    /// `ERR_HANDSHAKE_FAILED` if the server asks for a further security exchange, which this library does not
    /// implement; otherwise the status with which the server refuses.
    pub fn introduce(mut self, hello: &[u8], deadline: Instant) -> Result<(OwnedFd, i32)> {
        self.write_all(hello, deadline)?;
        // The server sends status and index together. If it refuses, it sends only the status.
        let (mut answer, mut got) = ([0; 8], 0);
        while got < 4 {
            got += self.read_some(&mut answer[got..], deadline)?;
        }
        let [a, b, c, d, ..] = answer;
        match Status(i32::from_be_bytes([a, b, c, d])) {
            Status::SUCCESS => {}
            Status::ERR_READY_FOR_HANDSHAKE => return Err(Status::ERR_HANDSHAKE_FAILED),
            refused => return Err(refused),
        }
        self.fill(&mut answer[got..], deadline)?;
        let [.., a, b, c, d] = answer;
        Ok((self.into_descriptor(), i32::from_be_bytes([a, b, c, d])))
    }

    /// Sends `hello` and reads the server's answer to a tool.
    ///
    /// # Errors
    /// As [`Socket::introduce`].
    pub fn introduce_tool(mut self, hello: &[u8], kind: PeerKind, deadline: Instant) -> Result<(OwnedFd, ToolReply)> {
        self.write_all(hello, deadline)?;
        let mut answer = vec![0; ToolReply::len(kind)];
        let (status, rest) = answer.split_at_mut(4);
        self.fill(status, deadline)?;
        if status == [0; 4] {
            self.fill(rest, deadline)?;
        }
        let reply = ToolReply::decode(kind, &answer)?;
        match reply.security {
            Status::SUCCESS => Ok((self.into_descriptor(), reply)),
            Status::ERR_READY_FOR_HANDSHAKE => Err(Status::ERR_HANDSHAKE_FAILED),
            refused => Err(refused),
        }
    }

    fn into_descriptor(self) -> OwnedFd {
        match self {
            Socket::Unix(socket) => socket.into(),
            Socket::Tcp(socket) => socket.into(),
        }
    }

    fn write_all(&mut self, mut bytes: &[u8], deadline: Instant) -> Result<()> {
        while !bytes.is_empty() {
            bytes = &bytes[self.exchange(PollFlags::POLLOUT, |socket| socket.write(bytes), deadline)?..];
        }
        Ok(())
    }

    /// Reads at least one byte.
    fn read_some(&mut self, bytes: &mut [u8], deadline: Instant) -> Result<usize> {
        match self.exchange(PollFlags::POLLIN, |socket| socket.read(bytes), deadline)? {
            0 => Err(Status::ERR_UNREACH),
            got => Ok(got),
        }
    }

    fn fill(&mut self, mut bytes: &mut [u8], deadline: Instant) -> Result<()> {
        while !bytes.is_empty() {
            let got = self.read_some(bytes, deadline)?;
            bytes = &mut std::mem::take(&mut bytes)[got..];
        }
        Ok(())
    }

    /// Runs `action`; while it would block, polls the socket and retries.
    fn exchange<T>(
        &mut self,
        interest: PollFlags,
        mut action: impl FnMut(&mut dyn ReadWrite) -> io::Result<T>,
        deadline: Instant,
    ) -> Result<T> {
        loop {
            let result = match self {
                Socket::Unix(socket) => action(socket),
                Socket::Tcp(socket) => action(socket),
            };
            match result {
                Ok(result) => return Ok(result),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let mut fds = [PollFd::new(self.as_fd(), interest)];
                    // A signal or the peer's hang-up may end the poll early; the retry finds out.
                    if poll(&mut fds, poll_timeout(Some(deadline))) == Ok(0) {
                        return Err(Status::ERR_TIMEOUT);
                    }
                }
                Err(_) => return Err(Status::ERR_UNREACH),
            }
        }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Socket::Unix(socket) => socket.as_fd(),
            Socket::Tcp(socket) => socket.as_fd(),
        }
    }
}

/// The time to a deadline in whole milliseconds, rounded up so that one poll is enough.
pub(super) fn poll_timeout(deadline: Option<Instant>) -> PollTimeout {
    let Some(deadline) = deadline else { return PollTimeout::NONE };
    let left = deadline.saturating_duration_since(Instant::now()) + Duration::from_micros(999);
    PollTimeout::try_from(left.as_millis()).unwrap_or(PollTimeout::MAX)
}

trait ReadWrite: Read + Write {}
impl<T: Read + Write> ReadWrite for T {}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::net::UnixListener;
    use std::thread;

    use nix::unistd::geteuid;
    use pmix_dstore::segment::FileId;

    use super::*;
    use crate::left_out::left_out;

    fn in_a_minute() -> Instant {
        Instant::now() + Duration::from_secs(60)
    }

    /// Introduces a client to a server that reads `len` bytes, sends `answer` and closes the connection.
    fn introduce_to(len: usize, answer: &'static [u8], deadline: Instant) -> Result<i32> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = thread::spawn(move || {
            let (mut peer, _) = listener.accept().unwrap();
            let mut bytes = vec![0; len];
            peer.read_exact(&mut bytes).unwrap();
            for byte in answer {
                peer.write_all(&[*byte]).unwrap();
            }
            // Without an answer the client times out. Wait for it to close the connection first.
            if answer.is_empty() && len > 0 {
                let _ = peer.read(&mut [0]);
            }
            bytes
        });
        let result = dial_tcp(address, in_a_minute()).unwrap().introduce(b"hello", deadline);
        let result = result.map(|(_, index)| index);
        assert_eq!(server.join().unwrap(), &b"hello"[..len]);
        result
    }

    #[test]
    fn the_server_welcomes_refuses_hangs_up_or_stays_silent() {
        assert_eq!(introduce_to(5, &[0, 0, 0, 0, 0, 0, 1, 2], in_a_minute()), Ok(258));
        assert_eq!(introduce_to(5, &[0xff, 0xff, 0xff, 0xf4], in_a_minute()), Err(Status::ERR_INVALID_CRED));
        assert_eq!(introduce_to(5, &[0xff, 0xff, 0xff, 0xf2], in_a_minute()), Err(Status::ERR_HANDSHAKE_FAILED));
        assert_eq!(introduce_to(5, &[0, 0, 0, 0, 0, 0], in_a_minute()), Err(Status::ERR_UNREACH));
        // Long enough for the hello to arrive on a slow machine, too.
        let soon = Instant::now() + Duration::from_secs(1);
        assert_eq!(introduce_to(5, &[], soon), Err(Status::ERR_TIMEOUT));
    }

    #[test]
    fn a_socket_is_reached_in_a_directory_with_a_long_name() {
        let temporary = tempfile::tempdir().unwrap();
        let long = temporary.path().join("x".repeat(120)).join("y".repeat(120));
        std::fs::create_dir_all(&long).unwrap();
        std::fs::set_permissions(&long, std::fs::Permissions::from_mode(0o755)).unwrap();
        let directory = Directory::open(&long, FileId::of(&long).unwrap()).unwrap();
        assert!(dial(&directory, in_a_minute()).is_err());
        let _listener = UnixListener::bind(format!("/proc/self/fd/{}/sock", directory.as_fd().as_raw_fd())).unwrap();
        assert!(dial(&directory, in_a_minute()).is_ok());
        if geteuid().is_root() {
            // The listener's user is not the directory's owner.
            std::os::unix::fs::chown(&long, Some(65_534), None).unwrap();
            let theirs = Directory::open(&long, FileId::of(&long).unwrap()).unwrap();
            let refused = dial(&theirs, in_a_minute()).err().map(|error| error.kind());
            assert_eq!(refused, Some(io::ErrorKind::PermissionDenied));
        } else {
            left_out("root", "only root can give files away");
        }
    }
}
