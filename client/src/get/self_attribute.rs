//! What a process knows of itself: before anybody tells it, or by loading it when it is first asked for.

use pmix_dstore::model::{KeyRef, Rank, Result, Value, keys};

use super::{Deliver, Lookup, deliver};
use crate::client::{ClientKind, Inner};
use crate::overlay::Origin;
use crate::topology;

/// Whether a miss in the segments is not the last word: [`Inner::self_attribute`] may have the value, the fast path has not looked for
/// what ranks put under the key, or the topology is loaded when it is asked for.
#[inline]
pub(super) fn may_be_self_attribute(rank: Rank, key: &[u8]) -> bool {
    // The keys about the server have 13 or 15 bytes, and few others begin or end like them.
    const LENGTHS: u64 = 1 << 13 | 1 << 15 | 1 << keys::GROUP_LOCAL_CID.len() | 1 << keys::TOPOLOGY2.len();
    let is_such = || {
        let is_of_server = key.starts_with(b"pmix.srv") || key.ends_with(b".uri");
        is_of_server || key == keys::GROUP_LOCAL_CID.as_bytes() || key == keys::TOPOLOGY2.as_bytes()
    };
    LENGTHS >> (key.len() % 64) & 1 != 0 && is_such() || matches!(rank, Rank::UNDEF | Rank::INVALID)
}

impl Inner {
    /// The name of this process, asked for without naming one; and who its server is and where it listens, asked for of itself or
    /// without naming a process.
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
        let is_server = self.kind == ClientKind::InProcessServer;
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
        Some(deliver((&value).into(), take))
    }

    /// The server's namespace and rank, which its address begins with.
    fn server_name(&self) -> Option<(&str, Rank)> {
        let (nspace, rank) = self.server_uri.get()?.split_once(';')?.0.rsplit_once('.')?;
        Some((nspace, Rank(rank.parse().ok()?)))
    }

    /// The topology of this machine, asked for of this process, which keeps it for its further Gets; `None` for all else, and where it
    /// cannot be loaded.
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
