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
    /// Whether the process has joined, with all that belongs to it.
    has_joined: Mutex<bool>,
}

impl Joinable {
    /// A link to nobody yet.
    ///
    /// # Errors
    /// `ERR_SYS_LIMITS_FILES` without descriptors to spare.
    pub fn new() -> Result<Joinable> {
        Ok(Joinable { offline: Offline::new()?, server: OnceLock::new(), has_joined: Mutex::default() })
    }

    /// Joins the server to which `connect` connects, unless there is one, and then runs `introduce`. If that fails, the next
    /// call runs it again, with the same server.
    ///
    /// # Errors
    /// Those of `connect` and `introduce`.
    pub fn join(
        &self,
        connect: impl FnOnce() -> Result<Channel>,
        introduce: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        let mut has_joined = self.has_joined.lock();
        if !*has_joined {
            if self.server.get().is_none() {
                // Nobody else sets it: the lock is held.
                let _ = self.server.set(connect()?);
            }
            introduce()?;
            *has_joined = true;
        }
        Ok(())
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

    fn request_until(&self, payload: Vec<u8>, deadline: Option<Instant>, reply: ReplyFn) {
        self.in_use().request_until(payload, deadline, reply);
    }

    fn is_callback_thread(&self) -> bool {
        self.in_use().is_callback_thread() || self.offline.is_callback_thread()
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

    fn progress(&self) {
        // What was due before the process joined a server.
        self.offline.progress();
        self.in_use().progress();
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

    fn awaits_commits(&self) -> bool {
        self.in_use().awaits_commits()
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

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;
    use std::sync::Arc;

    use pmix_dstore::codec::Module;
    use pmix_dstore::model::Status;

    use super::*;
    use crate::channel::mux::Mux;

    #[test]
    fn an_introduction_that_fails_is_made_again() {
        let (ours, _theirs) = UnixStream::pair().unwrap();
        let channel = Channel {
            awaits_commits: true,
            mux: Mux::new(ours.into(), 0, Arc::new(|_| ())).unwrap(),
            dialect: Dialect::plain(Module::V41),
            version: Version::OURS,
            is_ours: true,
        };
        let link = Joinable::new().unwrap();
        assert_eq!(link.join(|| Err(Status::ERR_UNREACH), || panic!("to nobody")), Err(Status::ERR_UNREACH));
        assert!(!link.has_server());
        assert_eq!(link.join(|| Ok(channel), || Err(Status::ERR_TIMEOUT)), Err(Status::ERR_TIMEOUT));
        assert!(link.has_server());
        assert_eq!(link.join(|| panic!("there is a server"), || Ok(())), Ok(()));
        assert_eq!(link.join(|| panic!("there is a server"), || panic!("it knows this process")), Ok(()));
        link.close();
    }
}
