//! Fences without data under Slurm, whose plugin waits for all nodes only in fences with data.
//!
//! Slurm's plugin has two algorithms for a fence: a ring, and a tree. Unless the job selects one, the ring is for
//! fences whose upcall has `PMIX_COLLECT_DATA` among its infos and at least one byte of data; all others take the tree.
//! `TreeWidth` determines the tree: if that is larger than the step's number of nodes, as it is by default, no node has
//! a parent or a child, and each ends the fence separately (`docs/slurm.md`). So the server requests a fence without
//! data as one with data, and sends the contribution of a node without values. It ignores the data of the result.
//!
//! A server of another library uses the tree, and would never enter that ring. So our servers use the ring only when
//! they know that all servers of the step do: each marks its contribution to the first fence of the whole namespace
//! that collects data. The host delivers all contributions to all servers, so all reach the same decision. Fences of
//! the same participants have the same order on all nodes. A fence that begins before the marked one is over waits for
//! it: otherwise servers that get its result at different times would choose different algorithms. A fence with a time
//! limit is not marked: a server that gives it up does not learn the others' decision.
//!
//! This is for fences of the whole namespace. Fences of some ranks have no common order with the marked one; and if some nodes do
//! not participate in a fence, Slurm's ring sends to the wrong nodes and never ends (22.05).
//!
//! Slurm is recognised by the namespace, which its plugin names `slurm.pmix.JOB.STEP` in all releases. The name is the same on all
//! nodes. The title and the executable of the process may differ from node to node, and change while it runs.

use pmix_dstore::gather::GatherBuf;
use pmix_dstore::model::{Info, Kval, Nspace, Proc, Rank, Result, Value, keys};
use pmix_wire::blob::Contribution;

use super::collective::{Collective, Kind};
use super::nspaces::Agreement;
use super::{EXCHANGE, Engine};
use crate::config::SlurmFence;

/// How the plugin's namespaces begin.
const NSPACES: &[u8] = b"slurm.pmix.";

/// The key of the mark. Servers of other libraries store it as a value of one of the sender's ranks. It does not begin with `pmix`,
/// because they refuse a fence with an unknown reserved key (4.2.2 does).
pub(super) const MARK: &str = "dstore.slurm.ring";

impl Engine {
    /// Whether a fence carries this server's mark. A fence with a time-out does not: after the time-out this server would not learn
    /// the others' decision.
    pub(super) fn is_marked(&self, fence: &Collective) -> bool {
        fence.collect
            && !fence.may_expire()
            && self.config.slurm_fence != SlurmFence::Never
            && self.agreement_for(fence) == Some(Agreement::Open)
    }

    /// A marked fence goes to the host.
    pub(super) fn asked_for_marked(&mut self, id: u64, signature: &[Proc]) {
        if let Some(state) = step_of(signature).and_then(|nspace| self.nspaces.get_mut(nspace)) {
            state.agreement = Agreement::Asked(id);
        }
    }

    /// Whether a fence waits for the end of the marked one before it.
    pub(super) fn awaits_agreement(&self, fence: &Collective) -> bool {
        !fence.collect && matches!(self.agreement_for(fence), Some(Agreement::Asked(_)))
    }

    /// Whether a fence without data requests the ring.
    fn asks_for_ring(&self, fence: &Collective) -> bool {
        let agreement = self.agreement_for(fence).filter(|_| !fence.collect);
        agreement.is_some_and(|agreement| match self.config.slurm_fence {
            SlurmFence::Never => false,
            SlurmFence::Agreed => agreement == Agreement::Reached,
            SlurmFence::Always => true,
        })
    }

    /// The contribution to a fence without data; adds the matching infos.
    pub(super) fn empty_contribution(&self, fence: &Collective, infos: &mut Vec<Info>) -> Result<GatherBuf> {
        if !self.asks_for_ring(fence) {
            return Ok(GatherBuf::default());
        }
        infos.retain(|info| !info.key.is(keys::COLLECT_DATA));
        infos.push(Info::new(keys::COLLECT_DATA, Value::Bool(true)));
        Contribution::encode_borrowed(EXCHANGE, true, &[])
    }

    /// Removes the marks from a fence's contributions, and checks whether each of the namespace's nodes has sent one.
    pub(super) fn take_marks(&mut self, id: u64, signature: &[Proc], contributions: &mut [Contribution]) {
        let marked =
            contributions.iter_mut().filter_map(|contribution| take_mark(contribution, MARK, |_| true)).count();
        let state = step_of(signature).and_then(|nspace| self.nspaces.get_mut(nspace));
        if let Some(state) = state.filter(|state| state.agreement == Agreement::Asked(id))
            && marked == contributions.len()
            && marked == state.job.nodes.len()
        {
            state.agreement = Agreement::Reached;
        }
    }

    /// A fence that collected data is over. If it was the marked one and did not produce an agreement, there is none.
    /// The fences that waited for it continue.
    pub(super) fn conclude_agreement(&mut self, id: u64, signature: &[Proc]) {
        let Some(state) = step_of(signature).and_then(|nspace| self.nspaces.get_mut(nspace)) else { return };
        if state.agreement == Agreement::Asked(id) {
            state.agreement = Agreement::Refused;
        }
        let waits = |other: &Collective| other.kind == Kind::Fence && other.signature == signature && !other.at_host;
        let waiting = self.collectives.iter().filter(|(_, other)| waits(other));
        for id in waiting.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.advance(id);
        }
    }

    /// The agreement that applies to a fence of all ranks of a step.
    fn agreement_for(&self, fence: &Collective) -> Option<Agreement> {
        let nspace = step_of(&fence.signature).filter(|_| fence.kind == Kind::Fence)?;
        self.nspaces.get(nspace).map(|state| state.agreement)
    }
}

/// The Slurm step, if the participants are its wildcard rank. A list of all its ranks is another signature.
fn step_of(signature: &[Proc]) -> Option<&Nspace> {
    match signature {
        [Proc { nspace, rank: Rank::WILDCARD }] if nspace.as_bytes().starts_with(NSPACES) => Some(nspace),
        _ => None,
    }
}

/// Removes this mark from a contribution, if it is the first value, and one that a mark may have.
pub(super) fn take_mark(contribution: &mut Contribution, mark: &str, is_mark: impl Fn(&Value) -> bool) -> Option<Kval> {
    let (_, values) = contribution.ranks.first_mut()?;
    values.first().filter(|kval| kval.key.is(mark) && is_mark(&kval.value))?;
    let mark = values.remove(0);
    if values.is_empty() {
        contribution.ranks.remove(0);
    }
    Some(mark)
}
