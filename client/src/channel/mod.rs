//! The link over a socket.

mod connect;
mod frame;
mod mux;
mod offline;

use std::sync::Arc;
use std::time::Instant;

use nix::unistd::{getegid, geteuid};
use pmix_dstore::codec::Dialect;
use pmix_dstore::model::{Proc, Result, Status};

use crate::wire::{Hello, PeerKind, Version};
use crate::{Environment, Job, Link, ReplyFn};

use connect::{Directory, Socket, dial_tcp};
use mux::Mux;
pub use mux::{Incoming, Sink};
pub use offline::Offline;

/// How our own server lets itself be convinced: by the secret that it put into the environment.
pub const OUR_SECURITY: &str = "pmix-dstore";

/// The link over a socket.
pub struct Channel {
    mux: Arc<Mux>,
    dialect: Dialect,
    version: Version,
}

impl Channel {
    /// Connects to the server of a launched process: over the socket in the namespace's directory where the
    /// environment names one, otherwise over TCP. `store` is the data store to be used with it.
    ///
    /// # Errors
    /// `ERR_UNREACH` where no server is named, none listens, or it hangs up; `ERR_TIMEOUT` after the deadline;
    /// `ERR_INIT` where the server wants to be convinced in a way that this library does not know; what it refuses
    /// with.
    pub fn connect(env: &Environment, me: &Proc, store: &str, deadline: Instant, sink: Sink) -> Result<Channel> {
        let mut hello = Hello {
            psec: OUR_SECURITY.into(),
            credential: Vec::new(),
            flag: PeerKind::Client as u8,
            uid_gid: None,
            proc: Some(me.clone()),
            version: Version::OURS.to_string(),
            module: env.module,
            buffer: env.buffer,
            gds: store.into(),
            infos: Vec::new(),
        };
        let version = Version::parse(&env.server_version).unwrap_or(Version::OURS);
        let socket = match dial_directory(env, deadline) {
            Some((socket, secret)) => {
                hello.credential = secret.into();
                socket
            }
            None => {
                let server = env.server.as_ref().ok_or(Status::ERR_UNREACH)?;
                let socket = dial_tcp(server.address, deadline).map_err(|_| Status::ERR_UNREACH)?;
                let (psec, credential) = credential(env)?;
                (hello.psec, hello.credential) = (psec.into(), credential);
                socket
            }
        };
        let (socket, index) = socket.introduce(&hello.encode()?, deadline)?;
        Ok(Channel { mux: Mux::new(socket, index, sink)?, dialect: hello.dialect(), version })
    }
}

/// The server's socket in the namespace's directory, and the secret to say there.
fn dial_directory(env: &Environment, deadline: Instant) -> Option<(Socket, &str)> {
    let (path, secret) = (env.directory.as_ref()?, env.secret.as_ref()?);
    let socket = Directory::open(path).and_then(|directory| directory.dial(deadline)).ok()?;
    Some((socket, secret))
}

/// What convinces a server of another kind: the best of its modules that this library knows.
fn credential(env: &Environment) -> Result<(&'static str, Vec<u8>)> {
    let native = || ("native", Hello::native_credential(geteuid().as_raw(), getegid().as_raw()));
    let Some(modules) = &env.security else { return Ok(native()) };
    let known = modules.iter().find_map(|module| match module.trim() {
        "native" => Some(native()),
        "none" => Some(("none", Vec::new())),
        _ => None,
    });
    known.ok_or(Status::ERR_INIT)
}

impl Link for Channel {
    fn request(&self, payload: Vec<u8>, reply: ReplyFn) {
        self.mux.request(&payload, reply);
    }

    fn request_wait(&self, payload: Vec<u8>, deadline: Option<Instant>) -> Result<Vec<u8>> {
        self.mux.request_wait(&payload, deadline)
    }

    fn send(&self, payload: Vec<u8>) -> Result<()> {
        self.mux.send(&payload)
    }

    fn defer(&self, job: Job) {
        self.mux.defer(job);
    }

    fn dialect(&self) -> Dialect {
        self.dialect
    }

    fn server_version(&self) -> Version {
        self.version
    }

    fn close(&self) {
        self.mux.close();
    }
}
