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
    /// The mark of this server's contribution to a fence that goes to the host, if it has one: this module's or Slurm's. The first fence
    /// is the first at the host: fences of the same participants go there in the same order on all nodes, and what the ranks of a
    /// node give up before that, they begin again.
    pub(super) fn mark_for(&mut self, id: u64) -> Option<&'static str> {
        let fence = self.collectives.get(&id)?;
        if let Some(state) = whole_namespace(fence).and_then(|nspace| self.nspaces.get_mut(nspace)) {
            let is_first = *state.first_fence.get_or_insert(id) == id;
            if is_first && self.config.stock_release.is_some() && state.job.nodes.len() > 1 {
                return Some(MARK);
            }
        }
        self.is_marked(fence).then_some(slurm::MARK)
    }

    /// Removes the marks from the contributions of the first fence, and logs the hosts whose servers have another library. In other fences
    /// the key is a program's own.
    pub(super) fn take_server_marks(&mut self, id: u64, signature: &[Proc], contributions: &mut [Contribution]) {
        let [Proc { nspace, rank: Rank::WILDCARD }] = signature else { return };
        let is_first = self.nspaces.get(nspace).is_some_and(|state| state.first_fence == Some(id));
        if self.config.stock_release.is_none() || !is_first {
            return;
        }
        let first = |contribution: &Contribution| contribution.ranks.first().map(|(origin, _)| origin.clone());
        let origins: Vec<_> = contributions.iter().map(first).collect();
        let marked: Vec<_> =
            contributions.iter_mut().map(|contribution| slurm::take_mark(contribution, MARK)).collect();
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
