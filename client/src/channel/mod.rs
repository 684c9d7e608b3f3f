//! The link over a socket.

mod again;
mod connect;
mod credential;
mod joinable;
mod mux;
mod offline;

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use nix::unistd::{getegid, geteuid};
use pmix_dstore::codec::Dialect;
use pmix_dstore::gather::GatherBuf;
use pmix_dstore::log::{self, Level, Target, Writer};
use pmix_dstore::model::{Info, Proc, Result, Status};
use pmix_dstore::segment::Directory;

use crate::{Environment, FirstCommit, Link, ReplyFn, Task};
use pmix_wire::{Hello, PeerKind, ToolReply, Version};

pub use again::{Greet, may_repeat};
use again::{OurServer, Redial};
use connect::{Socket, dial, dial_tcp};
pub use credential::{Credential, of_tool as credentials_of_tool};
pub use joinable::Joinable;
use mux::Mux;
pub use mux::{Incoming, Sink};
pub use offline::Offline;

/// The security module of our own server: the client proves itself with the secret that the server put into the
/// environment.
const OUR_SECURITY: &str = "pmix-dstore";
/// The name of our data store in the handshake.
pub(crate) const OUR_STORE: &str = "pmix-dstore";
/// The data store that every server has: everything over the socket.
pub(crate) const ANY_STORE: &str = "hash";

/// The link over a socket.
pub struct Channel {
    mux: Arc<Mux>,
    dialect: Dialect,
    version: Version,
    is_ours: bool,
    awaits_commits: bool,
}

impl Channel {
    /// Connects to our own server, over the socket in the namespace's directory. `store` names the data store in the
    /// handshake. `again` is for a server that may be restarted: for how long to connect to it again, and what to tell it then.
    ///
    /// # Errors
    /// Why not, for the log: no process listens there, or the server refuses. Another way may still lead to a server: the
    /// environment of an inner job may hold the variables of an outer one.
    pub fn connect_ours(
        env: &Environment,
        directory: &Arc<Directory>,
        (me, store): (&Proc, &str),
        deadline: Instant,
        sink: &Sink,
        again: Option<(Duration, Greet)>,
    ) -> std::result::Result<Channel, String> {
        let secret = env.secret.as_ref().ok_or("PMIX_DSTORE_SECRET is not set")?;
        let hello = hello(env, me, store, OUR_SECURITY, secret.as_bytes().into());
        let patience = again.as_ref().map(|(patience, _)| *patience);
        let redial = again.map(|(patience, greet)| {
            let server = OurServer {
                directory: Arc::clone(directory),
                me: me.clone(),
                hello: hello.clone(),
                dialect: hello.dialect(release(env)),
                patience,
                greet,
                has_warned: AtomicBool::new(false),
            };
            Box::new(server) as Box<dyn Redial>
        });
        let connect = || {
            let socket = dial(directory, deadline).map_err(|error| (is_absent(&error), error.to_string()))?;
            let welcomed = socket.introduce(&hello.encode().map_err(|status| (false, status.to_string()))?, deadline);
            welcomed.map_err(|status| (status == Status::ERR_UNREACH, format!("the handshake ended with {status}")))
        };
        let (socket, index) = match patience {
            None => connect().map_err(|(_, why)| why)?,
            Some(patience) => again::insist(connect, deadline.min(Instant::now() + patience))?,
        };
        Channel::of(env, (socket, index), &hello, sink, redial).map_err(|status| status.to_string())
    }

    /// Connects over TCP to the server that the environment names, whichever implementation it is.
    ///
    /// # Errors
    /// `ERR_UNREACH` if the environment names no server, none listens, or it closes the connection; `ERR_TIMEOUT` after
    /// the deadline; `ERR_INIT` if this library has none of the security modules that the server accepts; otherwise the
    /// status with which the server refuses.
    pub fn connect_any(env: &Environment, me: &Proc, deadline: Instant, sink: &Sink) -> Result<Channel> {
        let server = env.server.as_ref().ok_or(Status::ERR_UNREACH)?;
        let complain =
            |line: String| log::write(Level::Warn, Target::Connection, Writer::Client(me), format_args!("{line}"));
        let (security, credential) = credential::of_client(env, server, deadline, complain)?;
        let socket = dial_tcp(server.address, deadline).map_err(|_| Status::ERR_UNREACH)?;
        Channel::introduce(env, socket, &hello(env, me, ANY_STORE, security, credential), deadline, sink)
    }

    fn introduce(env: &Environment, socket: Socket, hello: &Hello, deadline: Instant, sink: &Sink) -> Result<Channel> {
        let introduced = socket.introduce(&hello.encode()?, deadline)?;
        Channel::of(env, introduced, hello, sink, None)
    }

    fn of(
        env: &Environment,
        (socket, index): (OwnedFd, i32),
        hello: &Hello,
        sink: &Sink,
        redial: Option<Box<dyn Redial>>,
    ) -> Result<Channel> {
        let version = release(env);
        let is_ours = hello.psec == OUR_SECURITY;
        Ok(Channel {
            mux: Mux::restartable(socket, index, Arc::clone(sink), redial)?,
            dialect: hello.dialect(version),
            version,
            is_ours,
            awaits_commits: is_ours || env.server_is_ours,
        })
    }
}

/// A connection of a tool to a server, before the handshake.
pub struct Reached(Socket);

impl Reached {
    /// Connects to the server that listens at an address.
    ///
    /// # Errors
    /// `ERR_UNREACH` if no server listens there, or the connection is not established before the deadline.
    pub fn at(address: SocketAddr, deadline: Instant) -> Result<Reached> {
        dial_tcp(address, deadline).map(Reached).map_err(|_| Status::ERR_UNREACH)
    }

    /// Introduces this process as a tool to the server that the environment names. `me` is the tool's name, if it
    /// already has one. The credential is one of [`credentials_of_tool`]; `infos` describe the tool.
    ///
    /// # Errors
    /// As [`Channel::connect_any`].
    pub fn introduce(
        self,
        env: &Environment,
        kind: PeerKind,
        me: Option<&Proc>,
        ((security, credential), infos): (Credential, Vec<Info>),
        deadline: Instant,
        sink: &Sink,
    ) -> Result<(Channel, ToolReply)> {
        let hello = Hello {
            psec: security.into(),
            credential,
            flag: kind as u8,
            uid_gid: Some((geteuid().as_raw(), getegid().as_raw())),
            proc: me.filter(|_| kind.has_proc()).cloned(),
            version: Version::OURS.to_string(),
            module: env.module,
            buffer: env.buffer,
            gds: ANY_STORE.into(),
            infos,
        };
        let (socket, reply) = self.0.introduce_tool(&hello.encode()?, kind, deadline)?;
        let version = Version::parse(&env.server_version).unwrap_or(Version::OURS);
        // Tools have no index.
        let mux = Mux::new(socket, -1, Arc::clone(sink))?;
        let is_ours = hello.psec == OUR_SECURITY;
        // A tool is no neighbour of ranks.
        let awaits_commits = true;
        Ok((Channel { mux, dialect: hello.dialect(version), version, is_ours, awaits_commits }, reply))
    }
}

/// Whether no server listens.
fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused)
}

/// The release of the server's library.
fn release(env: &Environment) -> Version {
    Version::parse(&env.server_version).unwrap_or(Version::OURS)
}

/// The hello of a launched client.
fn hello(env: &Environment, me: &Proc, store: &str, security: &str, credential: Vec<u8>) -> Hello {
    Hello {
        psec: security.into(),
        credential,
        flag: PeerKind::Client as u8,
        uid_gid: None,
        proc: Some(me.clone()),
        version: Version::OURS.to_string(),
        module: env.module,
        buffer: env.buffer,
        gds: store.into(),
        infos: Vec::new(),
    }
}

impl Link for Channel {
    fn ready(&self) -> Result<()> {
        self.mux.ready()
    }

    fn request(&self, payload: Vec<u8>, reply: ReplyFn) {
        self.mux.request(payload, reply);
    }

    fn request_until(&self, payload: Vec<u8>, deadline: Option<Instant>, reply: ReplyFn) {
        self.mux.request_until(payload, deadline, reply);
    }

    fn is_callback_thread(&self) -> bool {
        self.mux.is_callback_thread()
    }

    fn request_wait(&self, payload: GatherBuf, deadline: Option<Instant>) -> Result<Vec<u8>> {
        self.mux.request_wait(payload, deadline)
    }

    fn send(&self, payload: Vec<u8>) -> Result<()> {
        self.mux.send(payload)
    }

    fn first_commit(&self) -> Option<&dyn FirstCommit> {
        self.is_ours.then_some(self)
    }

    fn beat(&self) -> Result<()> {
        self.mux.beat()
    }

    fn defer(&self, task: Task) {
        self.mux.defer(task);
    }

    fn progress(&self) {
        self.mux.progress();
    }

    fn dialect(&self) -> Dialect {
        self.dialect
    }

    fn server_version(&self) -> Version {
        self.version
    }

    fn is_ours(&self) -> bool {
        self.is_ours
    }

    fn awaits_commits(&self) -> bool {
        self.awaits_commits
    }

    fn close(&self) {
        self.mux.close();
    }

    fn close_and_leave(&self) -> Vec<Task> {
        self.mux.end_and_leave()
    }
}

impl FirstCommit for Channel {
    fn send(&self, payload: GatherBuf) -> Result<()> {
        self.mux.send_first_commit(payload)
    }

    fn take_refusal(&self) -> Option<Result<Vec<u8>>> {
        self.mux.take_commit_refusal()
    }
}
