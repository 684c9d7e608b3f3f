//! The link of a process that no server launched, and that may join one later.

use std::sync::OnceLock;
use std::time::Instant;

use parking_lot::Mutex;
use pmix_dstore::codec::Dialect;
use pmix_dstore::gather::GatherBuf;
use pmix_dstore::model::Result;

use super::{Channel, Offline};
use crate::{Link, ReplyFn, Returned, Task};
use pmix_wire::Version;

/// A link to nobody until the process joins a server, and to that server from then on.
pub struct Joinable {
    offline: Offline,
    server: OnceLock<Channel>,
    joining: Mutex<()>,
}

impl Joinable {
    /// A link to nobody yet.
    ///
    /// # Errors
    /// `ERR_SYS_LIMITS_FILES` without descriptors to spare.
    pub fn new() -> Result<Joinable> {
        Ok(Joinable { offline: Offline::new()?, server: OnceLock::new(), joining: Mutex::default() })
    }

    /// Joins the server to which `connect` connects, unless there is one. Gives whether there was none.
    ///
    /// # Errors
    /// Those of `connect`.
    pub fn join(&self, connect: impl FnOnce() -> Result<Channel>) -> Result<bool> {
        let _joining = self.joining.lock();
        if self.server.get().is_some() {
            return Ok(false);
        }
        // Nobody else sets it: the lock is held.
        let _ = self.server.set(connect()?);
        Ok(true)
    }

    fn in_use(&self) -> &dyn Link {
        match self.server.get() {
            Some(server) => server,
            None => &self.offline,
        }
    }
}

impl Link for Joinable {
    fn ready(&self) -> Result<()> {
        self.in_use().ready()
    }

    fn request(&self, payload: Vec<u8>, reply: ReplyFn) {
        self.in_use().request(payload, reply);
    }

    fn request_wait(&self, payload: GatherBuf, deadline: Option<Instant>) -> Result<Vec<u8>> {
        self.in_use().request_wait(payload, deadline)
    }

    fn send(&self, payload: Vec<u8>) -> Result<()> {
        self.in_use().send(payload)
    }

    fn beat(&self) -> Result<()> {
        self.in_use().beat()
    }

    fn defer(&self, task: Task) {
        self.in_use().defer(task);
    }

    fn after(&self, returned: Returned, task: Task) {
        self.in_use().after(returned, task);
    }

    fn dialect(&self) -> Dialect {
        self.in_use().dialect()
    }

    fn server_version(&self) -> Version {
        self.in_use().server_version()
    }

    fn is_ours(&self) -> bool {
        self.in_use().is_ours()
    }

    fn has_server(&self) -> bool {
        self.in_use().has_server()
    }

    fn close(&self) {
        self.offline.close();
        if let Some(server) = self.server.get() {
            server.close();
        }
    }
}
