//! Raw peers of a server, for tests that attack it.

use std::collections::HashMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, SocketAddrV4, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use nix::unistd::{Gid, Uid, getegid, geteuid, setfsgid, setfsuid};
use pmix_dstore::codec::{Dialect, Module};
use pmix_dstore::model::{Nspace, Proc, Rank};
use pmix_wire::{ClientReply, Header, Hello, PeerKind, Request, TAG_FIRST, Version};

use crate::{Ended, WaitingJob, left_out};

/// The ranks of a job that is [`attacked`].
pub const RANKS: u32 = 3;
/// The last of them misbehaves. It may lose its connections and connect again.
pub const OFFENDER: u32 = RANKS - 1;
/// The user and group of an attack by another user.
pub const NOBODY: u32 = 65_534;
/// The default dialect of a [`Peer`].
pub const PLAIN: Dialect = Dialect::plain(Module::V41);

/// A way to the server.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Way {
    /// Over loopback.
    Tcp,
    /// Over the socket in the namespace's directory.
    Unix,
}

/// Both.
pub const WAYS: [Way; 2] = [Way::Tcp, Way::Unix];

enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// The attacked server, from the environment of a rank.
pub struct Target {
    /// The client.
    pub proc: Proc,
    address: SocketAddr,
    /// The socket in the namespace's directory.
    pub socket: PathBuf,
    /// The client's secret.
    pub secret: String,
}

impl Target {
    /// The server that the environment of one of its clients names.
    ///
    /// # Panics
    /// If the environment names none.
    pub fn new(environment: &HashMap<String, String>) -> Target {
        let uri = &environment["PMIX_SERVER_URI41"];
        let (_, address) = uri.split_once(";tcp4://").expect("an address");
        let nspace = Nspace::new(&environment["PMIX_NAMESPACE"]).expect("a namespace");
        Target {
            proc: Proc::new(nspace, Rank(environment["PMIX_RANK"].parse().expect("a rank"))),
            address: address.parse().expect("an address"),
            socket: Path::new(environment.get("PMIX_DSTORE_SEGMENTS").map_or("", String::as_str)).join("sock"),
            secret: environment.get("PMIX_DSTORE_SECRET").cloned().unwrap_or_default(),
        }
    }

    /// The same server at another address.
    pub fn at(self, address: SocketAddr) -> Target {
        Target { address, ..self }
    }

    /// The server's port on loopback.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// The hello that the client would send.
    pub fn hello(&self, way: Way) -> Hello {
        let (psec, credential) = match way {
            Way::Tcp => ("native", Hello::native_credential(geteuid().as_raw(), getegid().as_raw())),
            Way::Unix => ("pmix-dstore", self.secret.clone().into_bytes()),
        };
        Hello {
            psec: psec.into(),
            credential,
            flag: PeerKind::Client as u8,
            uid_gid: None,
            proc: Some(self.proc.clone()),
            version: "4.2.2".into(),
            module: PLAIN.module,
            buffer: PLAIN.buffer,
            gds: "hash".into(),
            infos: Vec::new(),
        }
    }

    /// A new connection.
    ///
    /// # Panics
    /// If the server does not listen.
    pub fn connect(&self, way: Way) -> Peer {
        let stream = match way {
            Way::Tcp => Stream::Tcp(TcpStream::connect(self.address).expect("the server listens")),
            Way::Unix => Stream::Unix(UnixStream::connect(&self.socket).expect("the server listens")),
        };
        Peer { stream }
    }

    /// A connection that the server has accepted after the client's hello.
    ///
    /// # Panics
    /// If the server refuses it.
    pub fn let_in(&self, way: Way) -> Peer {
        self.introduce(way, &self.hello(way))
    }

    /// A connection that the server has accepted after this hello.
    ///
    /// # Panics
    /// If the server refuses it.
    pub fn introduce(&self, way: Way, hello: &Hello) -> Peer {
        let mut peer = self.connect(way);
        peer.say(&hello.encode().expect("a first message"));
        let mut welcome = [0; ClientReply::LEN];
        peer.io().read_exact(&mut welcome).expect("the server lets the client in");
        assert_eq!(welcome[..4], [0; 4]);
        peer
    }

    /// Sends this hello, keeps the connection open, and returns the server's bytes until it closes the connection.
    ///
    /// # Panics
    /// If the server does not listen.
    pub fn knock(&self, way: Way, hello: &Hello) -> Vec<u8> {
        let mut peer = self.connect(way);
        peer.say(&hello.encode().expect("a first message"));
        peer.drain_inbound()
    }

    /// Sends `bytes` on a new connection, closes its sending side, and returns the server's bytes until it closes the
    /// connection.
    ///
    /// # Panics
    /// If the server does not listen.
    pub fn say(&self, way: Way, bytes: &[u8]) -> Vec<u8> {
        let mut peer = self.connect(way);
        peer.say(bytes);
        peer.end()
    }
}

/// One connection to the server.
pub struct Peer {
    stream: Stream,
}

/// A stream to read and write.
pub trait ReadWrite: Read + Write {}
impl<T: Read + Write> ReadWrite for T {}

impl Peer {
    /// The connection as a byte stream.
    pub fn io(&mut self) -> &mut dyn ReadWrite {
        match &mut self.stream {
            Stream::Tcp(stream) => stream,
            Stream::Unix(stream) => stream,
        }
    }

    /// Sends bytes. A server that has closed the connection is no failure.
    ///
    /// # Panics
    /// If they cannot be sent.
    pub fn say(&mut self, bytes: &[u8]) {
        match self.io().write_all(bytes) {
            // The server has closed the connection meanwhile.
            Err(error) if matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset) => {}
            result => result.expect("bytes are sent"),
        }
    }

    /// Closes the sending side and reads until the server closes the connection.
    ///
    /// # Panics
    /// If the connection breaks in another way than by a close.
    pub fn end(self) -> Vec<u8> {
        if let Stream::Tcp(stream) = &self.stream {
            // The server refuses a connection that the peer has closed before the accept.
            wait_until_read(stream);
        }
        // The server may have closed the connection already.
        let _ = match &self.stream {
            Stream::Tcp(stream) => stream.shutdown(Shutdown::Write),
            Stream::Unix(stream) => stream.shutdown(Shutdown::Write),
        };
        self.drain_inbound()
    }

    /// Reads until the server closes the connection.
    ///
    /// # Panics
    /// If the connection breaks in another way than by a close.
    fn drain_inbound(mut self) -> Vec<u8> {
        let mut heard = Vec::new();
        match self.io().read_to_end(&mut heard) {
            Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
            result => drop(result.expect("the server hangs up")),
        }
        heard
    }

    /// Sends a request and reads the reply.
    ///
    /// # Panics
    /// If the server closes the connection.
    pub fn ask(&mut self, request: &[u8]) -> Vec<u8> {
        self.say(&message(request));
        self.hear().expect("a reply").1
    }

    /// The next message with its tag; `None` if the server has closed the connection.
    pub fn hear(&mut self) -> Option<(u32, Vec<u8>)> {
        let mut header = [0; Header::LEN];
        self.io().read_exact(&mut header).ok()?;
        let header = Header::decode(&header);
        let mut payload = vec![0; header.len as usize];
        self.io().read_exact(&mut payload).ok()?;
        Some((header.tag, payload))
    }

    /// Sets whether reading and writing block.
    ///
    /// # Panics
    /// If the system call fails.
    pub fn set_nonblocking(&self, nonblocking: bool) {
        match &self.stream {
            Stream::Tcp(stream) => stream.set_nonblocking(nonblocking),
            Stream::Unix(stream) => stream.set_nonblocking(nonblocking),
        }
        .expect("a socket");
    }
}

/// Waits until the server has read all bytes sent to it, or has closed the connection.
fn wait_until_read(stream: &TcpStream) {
    let (Ok(SocketAddr::V4(ours)), Ok(SocketAddr::V4(theirs))) = (stream.local_addr(), stream.peer_addr()) else {
        // The server has closed the connection.
        return;
    };
    let address =
        |address: SocketAddrV4| format!("{:08X}:{:04X}", u32::from_ne_bytes(address.ip().octets()), address.port());
    // The server's end in the kernel's list: ESTABLISHED, then the bytes that wait to be written and to be read.
    let their_end = format!(" {} {} 01 ", address(theirs), address(ours));
    loop {
        let list = std::fs::read_to_string("/proc/thread-self/net/tcp").expect("the list of sockets");
        let queues = list.lines().find_map(|line| line.split_once(&their_end)).map(|(_, queues)| queues);
        if queues.is_none_or(|queues| queues.get(9..17) == Some("00000000")) {
            return;
        }
        thread::sleep(Duration::from_millis(1));
    }
}

/// A job whose ranks wait, its server as a target, and a connection of the attacker's rank. The connection keeps that
/// rank from counting as lost when its other connections end; a fence would report the loss to the other ranks. The
/// server may hold no more resources after the attack than it does now.
///
/// # Panics
/// As [`WaitingJob::start`].
pub fn attacked() -> (WaitingJob, Target, Peer) {
    let mut job = WaitingJob::start(RANKS, ":");
    let target = Target::new(&job.environment(OFFENDER));
    let anchor = target.let_in(Way::Unix);
    job.watch_server();
    (job, target, anchor)
}

/// A request as a [`PLAIN`] peer packs it.
///
/// # Panics
/// If a value cannot be packed.
pub fn encode(request: &Request) -> Vec<u8> {
    request.encode(PLAIN, Version::OURS).expect("a request")
}

/// A request as a message with the first tag.
pub fn message(payload: &[u8]) -> Vec<u8> {
    tagged(TAG_FIRST, payload)
}

/// A request as a message.
pub fn tagged(tag: u32, payload: &[u8]) -> Vec<u8> {
    let header = Header { index: 0, tag, len: payload.len() as u32 };
    [&header.encode(), payload].concat()
}

/// The lines that the server of a job has logged.
pub fn log(ended: &Ended) -> Vec<&str> {
    ended.stderr.lines().filter(|line| line.starts_with("pmix-dstore server ")).collect()
}

/// Runs `action` in a thread with another user's file-system and socket identity; reports `left_out` without root.
///
/// # Panics
/// As `action`.
pub fn as_nobody<T: Send>(action: impl FnOnce() -> T + Send) -> Option<T> {
    if !geteuid().is_root() {
        left_out("root", "only root can be another user");
        return None;
    }
    Some(thread::scope(|scope| {
        let other = scope.spawn(|| {
            setfsgid(Gid::from_raw(NOBODY));
            setfsuid(Uid::from_raw(NOBODY));
            action()
        });
        other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }))
}
