//! The link of a process without a server.

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

/// A link without a server. It runs callbacks like any other link; every request fails with `ERR_UNREACH`.
pub struct Offline {
    mux: Arc<Mux>,
    /// The other end of the socket pair. No process reads it; it is kept open so that the connection does not end.
    other_end: Mutex<Option<OwnedFd>>,
}

impl Offline {
    /// Makes a link without a server.
    ///
    /// # Errors
    /// `ERR_SYS_LIMITS_FILES` if the process can open no more descriptors.
    pub fn new() -> Result<Offline> {
        let (socket, other_end) = UnixStream::pair().map_err(|_| Status::ERR_SYS_LIMITS_FILES)?;
        Ok(Offline {
            mux: Mux::new(socket.into(), 0, Arc::new(|_| {}))?,
            other_end: Mutex::new(Some(other_end.into())),
        })
    }
}

impl Link for Offline {
    fn ready(&self) -> Result<()> {
        self.mux.ready()
    }

    fn request(&self, _payload: Vec<u8>, reply: ReplyFn) {
        self.defer(Box::new(|| reply(Err(Status::ERR_UNREACH))));
    }

    fn is_callback_thread(&self) -> bool {
        self.mux.is_callback_thread()
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

    fn progress(&self) {
        self.mux.progress();
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
        *self.other_end.lock() = None;
    }
}
