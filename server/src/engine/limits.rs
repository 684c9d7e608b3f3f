//! Limits of one connection's use of the server.
//!
//! An admitted client may be hostile, or repeat a call in an endless loop: its requests must not use up the server's memory.
//! A program that waits for answers never meets these limits. `docs/architecture.md` lists them.

use std::collections::{HashMap, VecDeque};

use pmix_dstore::model::Status;

use super::Engine;
use super::peers::PeerId;

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
/// Pulls of output that one connection has open.
pub(super) const PULLS_MAX: usize = 1024;
/// Event codes that one connection has registered for.
pub(super) const CODES_MAX: usize = 65_536;
/// Connections of one process at a time.
pub(super) const CONNECTIONS_MAX: usize = 64;
/// Tools of one user at a time, or an eighth of the descriptors if that is less.
const TOOLS_MAX: usize = 256;
/// Lower limit of it, however few descriptors there are.
const TOOLS_MIN: usize = 16;
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
    is_told: bool,
}

impl Unanswered {
    /// Counts a request of `len` bytes; `false` if the limit is reached.
    fn add(&mut self, tag: u32, len: usize) -> bool {
        if self.count >= REQUESTS_MAX || self.count > 0 && self.bytes + len > REQUEST_BYTES_MAX {
            return false;
        }
        self.count += 1;
        self.bytes += len;
        self.lens.entry(tag).or_default().push_back(len);
        true
    }

    /// Counts a request that will be refused, so that its reply is not counted as the reply of another one with the same tag.
    fn refused(&mut self, tag: u32) {
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

impl Engine {
    /// How many descriptors this process may have.
    pub fn descriptors(&self) -> usize {
        self.config.descriptors
    }

    /// Whether there is room for one more tool of a user. Tools must leave descriptors for ranks, which connect later. Tools of root
    /// and of the server's user have no limit: these users could stop the server anyway.
    pub(super) fn has_room_for_tool(&self, uid: u32) -> bool {
        let is_bounded = |of: &u32| *of != 0 && *of != self.config.uid;
        let connected = self.peers.values().filter(|peer| peer.is_tool).map(|peer| peer.user.uid);
        let users = || connected.clone().chain(self.knocking_users()).filter(is_bounded);
        let of_user_max = (self.descriptors() / 8).clamp(TOOLS_MIN, TOOLS_MAX);
        let of_all_max = (self.descriptors() / 4).max(TOOLS_MIN);
        let of_user = users().filter(|of| *of == uid).count();
        !is_bounded(&uid) || of_user < of_user_max && users().count() < of_all_max
    }

    /// Counts a request of `len` bytes; refuses it if its connection has too many open.
    pub(super) fn open_request(&mut self, id: PeerId, tag: u32, len: usize) -> bool {
        let Some(peer) = self.peers.get_mut(&id).filter(|_| id != PeerId::OWN) else { return true };
        if peer.unanswered.add(tag, len) {
            return true;
        }
        peer.unanswered.refused(tag);
        self.refuse_more(id, tag, "requests that are not answered yet");
        false
    }

    /// Refuses a request beyond a limit of its connection; logs the first one.
    pub(super) fn refuse_more(&mut self, id: PeerId, tag: u32, what: &str) {
        let Some(peer) = self.peers.get_mut(&id) else { return };
        if !std::mem::replace(&mut peer.unanswered.is_told, true) {
            let proc = peer.proc.clone();
            self.log(format!("{proc} has too many {what}; more are refused"));
        }
        self.reply_status(id, tag, Status::ERR_OUT_OF_RESOURCE);
    }
}
