//! The link of a process that no server launched.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;
use pmix_dstore::codec::{Dialect, Module};
use pmix_dstore::gather::GatherBuf;
use pmix_dstore::model::{Result, Status};

use super::mux::Mux;
use crate::{Link, ReplyFn, Task};
use pmix_wire::Version;

/// A link to nobody. It runs callbacks like any other; requests are answered `ERR_UNREACH`.
pub struct Offline {
    mux: Arc<Mux>,
    /// The other end of the socket, where nobody is.
    nobody: Mutex<Option<OwnedFd>>,
}

impl Offline {
    /// A link to nobody.
    ///
    /// # Errors
    /// `ERR_SYS_LIMITS_FILES` without descriptors to spare.
    pub fn new() -> Result<Offline> {
        let (socket, nobody) = UnixStream::pair().map_err(|_| Status::ERR_SYS_LIMITS_FILES)?;
        Ok(Offline { mux: Mux::new(socket.into(), 0, Arc::new(|_| {}))?, nobody: Mutex::new(Some(nobody.into())) })
    }
}

impl Link for Offline {
    fn ready(&self) -> Result<()> {
        self.mux.ready()
    }

    fn request(&self, _payload: Vec<u8>, reply: ReplyFn) {
        self.defer(Box::new(|| reply(Err(Status::ERR_UNREACH))));
    }

    fn request_wait(&self, _payload: GatherBuf, _deadline: Option<Instant>) -> Result<Vec<u8>> {
        Err(Status::ERR_UNREACH)
    }

    fn send(&self, _payload: Vec<u8>) -> Result<()> {
        Err(Status::ERR_UNREACH)
    }

    fn beat(&self) -> Result<()> {
        Err(Status::ERR_UNREACH)
    }

    fn defer(&self, task: Task) {
        self.mux.defer(task);
    }

    fn dialect(&self) -> Dialect {
        Dialect::plain(Module::V41)
    }

    fn has_server(&self) -> bool {
        false
    }

    fn server_version(&self) -> Version {
        Version::OURS
    }

    fn close(&self) {
        self.mux.close();
        *self.nobody.lock() = None;
    }
}
