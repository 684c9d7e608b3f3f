//! Values that a process knows about itself without a server, or loads at the first Get.

use pmix_dstore::model::{KeyRef, Rank, Result, Value, keys};

use super::{Deliver, Lookup, deliver};
use crate::client::{ClientKind, Inner};
use crate::overlay::Origin;
use crate::source::{self, Source};
use crate::topology;

/// Whether a miss in the segments is not final: [`Inner::self_attribute`] may provide the value, ranks may have put it
/// under a key that the fast path does not search in their values, or it is the topology, which is loaded on demand.
#[inline]
pub(super) fn may_be_self_attribute(rank: Rank, key: &[u8]) -> bool {
    // The keys about the server have 13 or 15 bytes, and few other keys have the same prefix or suffix.
    const LENGTHS: u64 = 1 << 13 | 1 << 15 | 1 << keys::GROUP_LOCAL_CID.len() | 1 << keys::TOPOLOGY2.len();
    let is_candidate = || {
        let is_of_server = key.starts_with(b"pmix.srv") || key.ends_with(b".uri");
        is_of_server || key == keys::GROUP_LOCAL_CID.as_bytes() || key == keys::TOPOLOGY2.as_bytes()
    };
    LENGTHS >> (key.len() % 64) & 1 != 0 && is_candidate() || matches!(rank, Rank::UNDEF | Rank::INVALID)
}

impl Inner {
    /// The name of this process, for a Get that names no process; the server's name and address, for a Get that names
    /// this process or none.
    pub(super) fn self_attribute(
        &self,
        lookup: &Lookup<'_>,
        key: &KeyRef<'_>,
        take: Deliver<'_>,
    ) -> Option<Result<()>> {
        if !lookup.is_own || !may_be_self_attribute(lookup.rank, key.text()) {
            return None;
        }
        let is_asked = |name: &str, rank: Rank| lookup.rank == rank && key.is(name);
        let is_of_me = |name: &str| is_asked(name, self.me.rank) || is_asked(name, Rank::UNDEF);
        let is_server = self.initial_kind == ClientKind::InProcessServer;
        let value = if is_asked(keys::PROCID, Rank::UNDEF) {
            Value::Proc(self.me.clone())
        } else if is_asked(keys::RANK, Rank::INVALID) || is_asked(keys::RANK, Rank::UNDEF) {
            Value::Rank(self.me.rank)
        } else if is_of_me(keys::SERVER_URI) || is_server && is_of_me(keys::MYSERVER_URI) {
            Value::string(self.server_uri.get()?.as_bytes())
        } else if is_of_me(keys::SERVER_NSPACE) {
            Value::string(self.server_name()?.0)
        } else if is_of_me(keys::SERVER_RANK) {
            Value::Rank(self.server_name()?.1)
        } else {
            return None;
        };
        source::note(Source::Own);
        Some(deliver((&value).into(), take))
    }

    /// The server's namespace and rank, from the beginning of its URI.
    fn server_name(&self) -> Option<(&str, Rank)> {
        let (nspace, rank) = self.server_uri.get()?.split_once(';')?.0.rsplit_once('.')?;
        Some((nspace, Rank(rank.parse().ok()?)))
    }

    /// Loads the topology of this machine, for a Get that names this process, and stores it for later Gets. `None` for
    /// any other Get, and if the topology cannot be loaded.
    #[cold]
    pub(super) fn load_and_get(&self, lookup: &Lookup<'_>, take: Deliver<'_>) -> Option<Result<()>> {
        let is_of_me = lookup.is_own && lookup.rank == self.me.rank;
        lookup.key.filter(|key| is_of_me && key.is(keys::TOPOLOGY2))?;
        let topology = topology::to_keep().ok()?;
        let kept = self.local.overlay.set(&self.me.nspace, self.me.rank, keys::TOPOLOGY2.into(), topology, Origin::Own);
        kept.ok()?;
        self.get_here(lookup, take)
    }
}
