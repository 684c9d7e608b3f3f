//! Reports of a server to its host: results of calls, and statistics.

use std::time::Duration;

use pmix_client::inspection::{Collective, Wait};
use pmix_dstore::model::{Info, Status};

/// Called once, on the server's thread, when an operation is done and the call that began it has returned.
pub type OpDone = Box<dyn FnOnce(Status) + Send>;

/// Called once, as [`OpDone`], with a rank's published data.
pub type DmodexDone = Box<dyn FnOnce(Status, Vec<u8>) + Send>;

/// Called once, as [`OpDone`], with the infos for the start of a job.
pub type SetupDone = Box<dyn FnOnce(Vec<Info>) + Send>;

/// What processes of the server's jobs wait for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Waiting {
    /// Collectives that are not over.
    pub collectives: Vec<Collective>,
    /// Gets that wait.
    pub gets: Vec<Wait>,
}

/// Figures about a server, for reports.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stats {
    /// Bytes of the job segments published.
    pub job_segment_bytes: u64,
    /// Bytes of the modex segments published.
    pub modex_segment_bytes: u64,
    /// How many segments are published.
    pub segments: u64,
    /// Clients that connected and read shared memory.
    pub clients_shared: u64,
    /// Clients that connected and get everything over the socket.
    pub clients_socket: u64,
    /// Get requests answered over the socket.
    pub gets: u64,
    /// Fences completed.
    pub fences: u64,
    /// From the first environment made for a client to the latest connection of one.
    pub connected: Option<Duration>,
    /// From the first environment made for a client to the end of the first fence that collected data, or of the
    /// first fence while none has.
    pub wireup: Option<Duration>,
}
