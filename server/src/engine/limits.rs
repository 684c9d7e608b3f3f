//! Limits of one connection's use of the server.
//!
//! An admitted client may be hostile, or repeat a call in an endless loop: its requests must not use up the server's memory.
//! A program that waits for answers never meets these limits. `docs/architecture.md` lists them.

use std::collections::{HashMap, VecDeque};

/// Unanswered requests of one connection.
const REQUESTS_MAX: usize = 65_536;
/// Bytes of them; a single request may have more.
const REQUEST_BYTES_MAX: usize = 16 << 20;
/// Fences and connects that one connection has entered and that are not over.
pub(super) const FENCES_MAX: usize = 1024;
/// Connects of one process without a disconnect.
pub(super) const CONNECTS_MAX: usize = 1024;
/// Groups that one process belongs to.
pub(super) const GROUPS_MAX: usize = 1024;
/// Processes that a construct of a group may name, each process of a job counted.
pub(super) const GROUP_MEMBERS_MAX: usize = 1 << 20;
/// Bytes that the processes of one node may send to a group that they construct.
pub(super) const GROUP_BYTES_MAX: usize = 8 << 20;
/// Pulls of output that one connection has open.
pub(super) const PULLS_MAX: usize = 1024;
/// Event codes that one connection has registered for.
pub(super) const CODES_MAX: usize = 65_536;
/// Connections of one process at a time.
pub(super) const CONNECTIONS_MAX: usize = 64;
/// Tools of one user at a time, or an eighth of the descriptors if that is less.
pub(super) const TOOLS_MAX: usize = 256;
/// Lower limit of it, however few descriptors there are.
pub(super) const TOOLS_MIN: usize = 16;
/// Monitors of one connection.
pub(super) const MONITORS_MAX: usize = 256;
/// Paths to remove at the end of one process, or of one user's processes of a job.
pub(super) const CLEANUP_PATHS_MAX: usize = 4096;

/// The requests of a connection that are not answered yet.
#[derive(Default)]
pub(super) struct Unanswered {
    count: usize,
    bytes: usize,
    /// The lengths by tag: a peer may use one tag for several requests.
    lens: HashMap<u32, VecDeque<usize>>,
    /// A refusal has been logged.
    pub is_logged: bool,
}

impl Unanswered {
    /// Counts a request of `len` bytes; `false` if the limit is reached.
    pub fn add(&mut self, tag: u32, len: usize) -> bool {
        if self.count >= REQUESTS_MAX || self.count > 0 && self.bytes + len > REQUEST_BYTES_MAX {
            return false;
        }
        self.count += 1;
        self.bytes += len;
        self.lens.entry(tag).or_default().push_back(len);
        true
    }

    /// Counts a request that will be refused, so that its reply is not counted as the reply of another one with the same tag.
    pub fn refused(&mut self, tag: u32) {
        self.count += 1;
        self.lens.entry(tag).or_default().push_front(0);
    }

    /// Counts a reply.
    pub fn answered(&mut self, tag: u32) {
        let Some(lens) = self.lens.get_mut(&tag) else { return };
        if let Some(len) = lens.pop_front() {
            self.count -= 1;
            self.bytes -= len;
        }
        if lens.is_empty() {
            self.lens.remove(&tag);
        }
    }
}
