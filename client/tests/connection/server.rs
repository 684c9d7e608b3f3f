//! A scripted server: one connection, answered request by request.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixListener;
use std::path::Path;

use pmix_dstore::codec::Dialect;
use pmix_dstore::job::JobData;
use pmix_dstore::model::{Nspace, Status, Value, keys};
use pmix_wire::jobinfo::{self, Recipient};
use pmix_wire::{ClientReply, Header, Hello, Request, Version};

trait Stream: Read + Write + Send {}
impl<T: Read + Write + Send> Stream for T {}

/// The listening socket.
pub enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

/// The process that connected.
pub struct Peer {
    stream: Box<dyn Stream>,
    /// Its handshake message.
    pub hello: Hello,
    /// The index in each header that it sent.
    pub indices: Vec<i32>,
}

impl Listener {
    pub fn tcp() -> Listener {
        Listener::Tcp(TcpListener::bind("127.0.0.1:0").unwrap())
    }

    /// Binds the socket in a namespace's directory, through `/proc` because the path is too long for a socket address.
    pub fn unix(directory: &Path) -> Listener {
        let file = std::fs::File::open(directory).unwrap();
        Listener::Unix(UnixListener::bind(format!("/proc/self/fd/{}/sock", file.as_raw_fd())).unwrap())
    }

    pub fn uri(&self) -> String {
        match self {
            Listener::Tcp(listener) => format!("the.server.0;tcp4://{}", listener.local_addr().unwrap()),
            Listener::Unix(_) => panic!("a URI is for TCP"),
        }
    }

    /// Whether a connection waits to be accepted.
    pub fn is_dialled(&self) -> bool {
        match self {
            Listener::Tcp(listener) => listener.set_nonblocking(true).is_ok() && listener.accept().is_ok(),
            Listener::Unix(listener) => listener.set_nonblocking(true).is_ok() && listener.accept().is_ok(),
        }
    }

    pub fn accept(&self) -> Peer {
        let mut stream: Box<dyn Stream> = match self {
            Listener::Tcp(listener) => Box::new(listener.accept().unwrap().0),
            Listener::Unix(listener) => Box::new(listener.accept().unwrap().0),
        };
        let mut header = [0; 16];
        stream.read_exact(&mut header).unwrap();
        let mut payload = vec![0; Hello::payload_len(&header).unwrap()];
        stream.read_exact(&mut payload).unwrap();
        let hello = Hello::decode(&payload).unwrap();
        Peer { stream, hello, indices: Vec::new() }
    }
}

impl Peer {
    pub fn dialect(&self) -> Dialect {
        self.hello.dialect(self.hello.release())
    }

    pub fn version(&self) -> Version {
        Version::parse(&self.hello.version).unwrap()
    }

    pub fn welcome(&mut self, index: u32) {
        self.stream.write_all(&ClientReply { status: Status::SUCCESS, index }.encode()).unwrap();
    }

    pub fn refuse(&mut self, status: Status) {
        self.stream.write_all(&ClientReply { status, index: 0 }.encode()).unwrap();
    }

    /// Answers requests until the client closes the connection, or `answer` returns `None`.
    pub fn serve(&mut self, answer: impl Fn(&Peer, Request) -> Option<Vec<u8>>) {
        let mut header = [0; 16];
        while self.stream.read_exact(&mut header).is_ok() {
            let header = Header::decode(&header);
            let mut payload = vec![0; header.len as usize];
            self.stream.read_exact(&mut payload).unwrap();
            self.indices.push(header.index);
            let request = Request::decode(self.dialect(), self.version(), &payload).unwrap();
            let Some(reply) = answer(self, request) else { return };
            let header = Header { index: 0, tag: header.tag, len: reply.len() as u32 };
            self.stream.write_all(&[&header.encode(), reply.as_slice()].concat()).unwrap();
        }
    }

    /// The reply to a job-info request: a job of this size.
    pub fn job_info(&self, nspace: &str, size: u32) -> Vec<u8> {
        let mut job = JobData::new(Nspace::new(nspace).unwrap());
        job.job.insert(keys::JOB_SIZE.into(), Value::Uint32(size));
        let (dialect, version) = (self.dialect(), self.version());
        let to = Recipient { dialect, version, version_text: &self.hello.version, hostname: b"n0" };
        jobinfo::encode(&job, &to, std::iter::empty()).unwrap()
    }
}
