//! What a host calls.

use std::sync::Arc;
use std::time::Duration;

use pmix_client::Client;
use pmix_dstore::model::{Info, Nspace, Proc, Rank, Result, Status};

use crate::Host;

/// Called once, on the server's thread, when an operation is done.
pub type OpDone = Box<dyn FnOnce(Status) + Send>;

/// Called once, on the server's thread, with a rank's published data.
pub type DmodexDone = Box<dyn FnOnce(Status, Vec<u8>) + Send>;

/// Figures about a server, for reports.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stats {
    /// Bytes of the job segments that are published now.
    pub job_segment_bytes: u64,
    /// Bytes of the modex segments that are published now.
    pub modex_segment_bytes: u64,
    /// How many segments are published now.
    pub segments: u64,
    /// Clients that connected and read shared memory.
    pub clients_shared: u64,
    /// Clients that connected and get everything over the socket.
    pub clients_socket: u64,
    /// Get requests answered over the socket.
    pub gets: u64,
    /// Fences completed.
    pub fences: u64,
    /// From the first registration of a client's environment to the end of the latest fence.
    pub wireup: Option<Duration>,
}

/// A PMIx server.
pub struct Server {
    _private: (),
}

impl Server {
    /// Starts a server: its listener, its thread, and its own client face.
    ///
    /// `infos` are the attributes of `PMIx_server_init`.
    pub fn init(host: Arc<dyn Host>, infos: &[Info]) -> Result<Arc<Server>> {
        let _ = (host, infos);
        Err(Status::ERR_NOT_SUPPORTED)
    }

    /// The server process as a client of itself: every client call works there.
    pub fn client(&self) -> Arc<Client> {
        unreachable!("a server that could not be started")
    }

    /// Registers a job with all that is known of it; again with more, or `PMIX_REGISTER_NODATA`.
    ///
    /// With `done`: answers `SUCCESS` and calls it later. Without: `OPERATION_SUCCEEDED`.
    pub fn register_nspace(&self, nspace: Nspace, nlocal: i32, infos: Vec<Info>, done: Option<OpDone>) -> Status {
        let _ = (nspace, nlocal, infos, done);
        Status::ERR_NOT_SUPPORTED
    }

    /// Forgets a job and all that belongs to it.
    pub fn deregister_nspace(&self, nspace: &Nspace, done: Option<OpDone>) -> Status {
        let _ = (nspace, done);
        Status::ERR_NOT_SUPPORTED
    }

    /// Registers a process that will be started on this node. `object` comes back in upcalls.
    pub fn register_client(&self, proc: Proc, uid: u32, gid: u32, object: usize, done: Option<OpDone>) -> Status {
        let _ = (proc, uid, gid, object, done);
        Status::ERR_NOT_SUPPORTED
    }

    /// Forgets a process.
    pub fn deregister_client(&self, proc: &Proc, done: Option<OpDone>) -> Status {
        let _ = (proc, done);
        Status::ERR_NOT_SUPPORTED
    }

    /// The environment variables that a registered client must be started with.
    pub fn setup_fork(&self, proc: &Proc) -> Result<Vec<(String, String)>> {
        let _ = proc;
        Err(Status::ERR_NOT_SUPPORTED)
    }

    /// Asks for what a local process published for other nodes, on behalf of another server; waits for its commit.
    pub fn dmodex_request(&self, proc: Proc, done: DmodexDone) -> Status {
        let _ = (proc, done);
        Status::ERR_NOT_SUPPORTED
    }

    /// Figures for reports.
    pub fn stats(&self) -> Stats {
        Stats::default()
    }

    /// Stops: clients see a lost connection, files are removed, the thread ends.
    pub fn finalize(&self) -> Status {
        Status::ERR_NOT_SUPPORTED
    }

    /// The server's own name.
    pub fn me(&self) -> Proc {
        Proc::new(Nspace::new("").unwrap_or_else(|_| unreachable!()), Rank::UNDEF)
    }
}
