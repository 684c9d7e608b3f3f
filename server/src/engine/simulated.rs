//! For simulations: the time is given, and what is kept can be counted.

use std::time::Instant;

use super::Engine;
use super::peer::PeerId;

/// What an engine still keeps for requests that are not over: all zero when nobody waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    /// Collectives that are not over.
    pub collectives: usize,
    /// Gets that wait.
    pub gets: usize,
    /// Questions to the host without an answer.
    pub questions: usize,
    /// Sets of connected processes.
    pub connected: usize,
    /// Groups.
    pub groups: usize,
    /// Jobs.
    pub jobs: usize,
    /// Connections beside the server's own.
    pub peers: usize,
}

impl Engine {
    /// From now on it is this time, whatever the clock says.
    pub fn set_time(&mut self, now: Instant) {
        self.simulated = Some(now);
    }

    /// What is kept for requests that are not over.
    pub fn kept(&self) -> Kept {
        Kept {
            collectives: self.collectives.len(),
            gets: self.gets.waiting().count(),
            questions: self.upcalls.len(),
            connected: self.connected.len(),
            groups: self.groups.len(),
            jobs: self.nspaces.len(),
            peers: self.peers.keys().filter(|id| **id != PeerId::OWN).count(),
        }
    }
}
