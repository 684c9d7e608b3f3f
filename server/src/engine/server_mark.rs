//! Notices servers of other libraries among those of a PRRTE job.
//!
//! A daemon of PRRTE that the variables of `docs/openmpi.md` did not reach serves its host by the stock library, and its ranks run without
//! shared memory; nothing fails. So each of our servers marks its contribution to the first fence of the whole namespace that
//! collects data. Daemons of PRRTE can only have this library together with the stock one, so only such servers mark, and a contribution
//! without the mark beside one with it is the stock library's. All servers see the same contributions. Of ours, the
//! gateway and the one with the lowest rank log the hosts, each once: daemons of other hosts than the gateway's mostly have no stderr.
//!
//! A contribution without values, as of ranks that have put nothing, tells nothing about its host.

use pmix_dstore::model::{Nspace, Proc, Rank, keys};
use pmix_wire::blob::{Contribution, Origin};

use super::collective::{Collective, Kind};
use super::{Engine, slurm};

/// The key of the mark. Servers of other libraries store it as a value of one of the sender's ranks; as [`super::slurm::MARK`], it
/// does not begin with `pmix`.
pub(super) const MARK: &str = "dstore.server";

impl Engine {
    /// The mark of this server's contribution to a fence, if it has one: this module's or Slurm's.
    pub(super) fn mark_for(&self, fence: &Collective) -> Option<&'static str> {
        let state = whole_namespace(fence).and_then(|nspace| self.nspaces.get(nspace));
        match fence.is_first && self.config.has_stock && state.is_some_and(|state| state.job.nodes.len() > 1) {
            true => Some(MARK),
            false => self.is_marked(fence).then_some(slurm::MARK),
        }
    }

    /// Notes whether a new fence is the first one that collects data of a whole namespace. What counts is who is entered first, in the
    /// same order on all nodes, not who ends: a server that gives the first one up marks no other.
    pub(super) fn note_first(&mut self, fence: &mut Collective) {
        let state = whole_namespace(fence).and_then(|nspace| self.nspaces.get_mut(nspace));
        fence.is_first = state.is_some_and(|state| !std::mem::replace(&mut state.had_first, true));
    }

    /// All who had entered a fence are gone before it was at the host: whoever enters next begins it again.
    pub(super) fn forget_first(&mut self, fence: &Collective) {
        if let Some(nspace) = whole_namespace(fence).filter(|_| fence.is_first) {
            self.has_no_first(nspace);
        }
    }

    /// The next fence of a namespace is its first one.
    pub(super) fn has_no_first(&mut self, nspace: &Nspace) {
        if let Some(state) = self.nspaces.get_mut(nspace) {
            state.had_first = false;
        }
    }

    /// Removes the marks from the contributions of the first fence, and logs the hosts whose servers have another library. In other fences
    /// the key is a program's own.
    pub(super) fn take_server_marks(&mut self, id: u64, signature: &[Proc], contributions: &mut [Contribution]) {
        if !self.config.has_stock || !self.collectives.get(&id).is_some_and(|fence| fence.is_first) {
            return;
        }
        let first = |contribution: &Contribution| contribution.ranks.first().map(|(origin, _)| origin.clone());
        let origins: Vec<_> = contributions.iter().map(first).collect();
        let marked: Vec<_> =
            contributions.iter_mut().map(|contribution| slurm::take_mark(contribution, MARK)).collect();
        let [Proc { nspace, rank: Rank::WILDCARD }] = signature else { return };
        let of = |has_mark: bool| {
            let those = origins.iter().zip(&marked).filter(move |(_, mark)| mark.is_some() == has_mark);
            those.filter_map(|(origin, _)| rank_of(origin.as_ref()?, nspace))
        };
        let Some(state) = self.nspaces.get(nspace) else { return };
        let speaks = of(true).min().is_some_and(|rank| self.config.is_gateway || state.is_local(rank));
        if !speaks {
            return;
        }
        let host_of = |rank| state.job.procs.get(rank, keys::HOSTNAME.as_bytes());
        let hosts = of(false).filter_map(host_of).filter_map(|host| host.as_text().map(<[u8]>::to_vec));
        let mut hosts: Vec<_> = hosts.filter(|host| !self.foreign_hosts.contains(host)).collect();
        hosts.sort();
        hosts.dedup();
        if !hosts.is_empty() {
            let names: Vec<_> = hosts.iter().map(|host| String::from_utf8_lossy(host)).collect();
            let line = format!(
                "{nspace}: the stock library serves on {}; is PRTE_MCA_plm_ssh_pass_libpath set, and its directory there?",
                names.join(" ")
            );
            self.foreign_hosts.extend(hosts);
            self.log(line);
        }
    }
}

/// The namespace of all participants of a fence that collects data.
fn whole_namespace(fence: &Collective) -> Option<&Nspace> {
    match fence.signature.as_slice() {
        [Proc { nspace, rank: Rank::WILDCARD }] if fence.kind == Kind::Fence && fence.collect => Some(nspace),
        _ => None,
    }
}

/// The rank in a fence of one namespace.
fn rank_of(origin: &Origin, nspace: &Nspace) -> Option<Rank> {
    match origin {
        Origin::Relative(rank) => Some(*rank),
        Origin::Proc(proc) => (proc.nspace == *nspace).then_some(proc.rank),
    }
}
