//! The standing of a user at this server: whether its connections are admitted, and how many are still expected.

use std::collections::HashMap;

use pmix_dstore::model::Proc;

use super::Engine;

/// A user's standing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Has processes here, or is the server's user or root.
    Member {
        /// Registered processes that have not connected yet.
        expected: usize,
    },
    /// Has none; tools of all users are admitted.
    Stranger,
    /// Has none, and is not admitted.
    Nobody,
}

/// A registered process of this user has connected for the first time. All ranks of a node do, and for each new connection a standing is
/// looked up: counting all processes again each time would take the square of their number.
pub(super) fn note_arrival(standings: &mut HashMap<u32, Standing>, uid: u32) {
    if let Some(Standing::Member { expected }) = standings.get_mut(&uid) {
        *expected = expected.saturating_sub(1);
    }
}

impl Engine {
    /// How many descriptors this process may have.
    pub fn descriptors(&self) -> usize {
        self.config.descriptors
    }

    /// Settings for accepting connections: how many descriptors there may be, the server's own name, and whether munge tells whose a
    /// connection over loopback is.
    pub fn settings_of_connections(&self) -> (usize, Proc, bool) {
        (self.config.descriptors, self.config.me.clone(), self.config.munge_for_loopback)
    }

    /// The standing of a user. `None` is any user, if the kernel cannot tell it: ranks if claims are accepted or munge tells it
    /// later, otherwise tools with a proof.
    pub fn standing(&mut self, user: Option<u32>) -> Standing {
        let Some(uid) = user else {
            return match self.config.trust_claims || self.config.munge_for_loopback {
                true => Standing::Member { expected: self.expected_of(|_| true) },
                false => Standing::Stranger,
            };
        };
        if let Some(standing) = self.standings.get(&uid) {
            debug_assert_eq!(*standing, self.count_standing(uid));
            return *standing;
        }
        let standing = self.count_standing(uid);
        self.standings.insert(uid, standing);
        standing
    }

    /// The same, counted anew.
    pub(super) fn count_standing(&self, uid: u32) -> Standing {
        let jobs = || self.nspaces.values().filter(|state| !state.is_of_tools);
        let is_here = || jobs().any(|state| state.clients.values().any(|client| client.uid == uid));
        match uid == 0 || uid == self.config.uid || is_here() {
            true => Standing::Member { expected: self.expected_of(|of| of == uid) },
            false if self.config.foreign_tools => Standing::Stranger,
            false => Standing::Nobody,
        }
    }

    fn expected_of(&self, is_meant: impl Fn(u32) -> bool) -> usize {
        let clients = self.nspaces.values().flat_map(|state| state.clients.values());
        clients.filter(|client| !client.has_connected && is_meant(client.uid)).count()
    }
}
