//! The marks that contributions to fences carry: by one of them servers of this library know each other.
//!
//! Each contribution of ours to a collecting fence that is in the form of released libraries begins with the mark. It announces that the
//! server reads contributions in columns (`super::forms`).
//!
//! It serves another purpose in a PRRTE job. A daemon that the variables of `docs/openmpi.md` did not reach serves its host by the stock
//! library, and its ranks run without shared memory; nothing fails. In the first fence of the whole namespace that collects data, a
//! contribution without the mark beside one with it is the stock library's. All servers see the same contributions. Of ours, the
//! gateway and the one with the lowest rank log the hosts, each once: daemons of other hosts than the gateway's mostly have no stderr.
//! A contribution without values, as of ranks that have put nothing, tells nothing about its host.

use pmix_dstore::model::{Key, Nspace, Proc, Rank, Value, keys};
use pmix_wire::blob::{Contribution, Form};

use super::collective::{Collective, Kind};
use super::{Engine, slurm};

/// The key of the mark. Servers of other libraries store it as a value of one of the sender's ranks; as [`super::slurm::MARK`], it
/// does not begin with `pmix`.
pub(super) const MARK: &str = "dstore.server";
/// Its value: the number of the newest form that the server reads beside those of released libraries. Servers of ours from before that
/// form have the value true.
pub(super) const ANNOUNCEMENT: Value = Value::Uint8(1);
/// About what it takes in a contribution.
pub(super) const LEN: usize = MARK.len() + 6;

/// What a contribution to a collecting fence has beside values.
#[derive(Clone, Copy)]
pub(super) struct Marks {
    /// Slurm's mark.
    pub of_slurm: bool,
    /// It may be in columns, which need no mark.
    pub columns: bool,
}

impl Marks {
    /// The first values of a contribution in the released form, in their order.
    pub fn values(self) -> Vec<(Key, Value)> {
        let slurm = self.of_slurm.then(|| (Key::from(slurm::MARK), Value::Bool(true)));
        slurm.into_iter().chain([(Key::from(MARK), ANNOUNCEMENT)]).collect()
    }
}

impl Engine {
    /// The marks of this server's contribution to a fence that goes to the host. The first fence of a namespace
    /// is the first at the host: fences of the same participants go there in the same order on all nodes, and what the ranks of a
    /// node give up before that, they begin again.
    pub(super) fn marks_for(&mut self, id: u64) -> Marks {
        let none = Marks { of_slurm: false, columns: false };
        let Some(fence) = self.collectives.get(&id).filter(|fence| fence.collect) else { return none };
        if let Some(state) = whole_namespace(fence).and_then(|nspace| self.nspaces.get_mut(nspace)) {
            state.first_fence.get_or_insert(id);
        }
        let of_slurm = self.is_marked(fence);
        // Slurm's mark is a value of the released form.
        Marks { of_slurm, columns: !of_slurm && self.sends_columns(&fence.signature) }
    }

    /// Removes the marks from the contributions of a fence, and logs the hosts whose servers have another library if it is a namespace's
    /// first. `origins` are the processes of the first values. Says of each contribution whether it had the announcement. Other
    /// values under the key are a program's own.
    pub(super) fn take_server_marks(
        &mut self,
        id: u64,
        signature: &[Proc],
        contributions: &mut [Contribution],
        origins: &[Option<Proc>],
    ) -> Vec<bool> {
        let first = match signature {
            [Proc { nspace, rank: Rank::WILDCARD }] => Some(nspace).filter(|_| self.config.stock_release.is_some()),
            _ => None,
        };
        let first = first.filter(|nspace| self.nspaces.get(*nspace).is_some_and(|state| state.first_fence == Some(id)));
        // In a namespace's first fence servers of ours from before the announcement mark as well.
        let take = |contribution: &mut Contribution| match contribution.form {
            Form::Relative { .. } => {
                slurm::take_mark(contribution, MARK, |value| first.is_some() || *value == ANNOUNCEMENT)
            }
            _ => None,
        };
        let marks: Vec<_> = contributions.iter_mut().map(take).collect();
        if let Some(nspace) = first {
            let is_ours = |(contribution, mark): (&Contribution, &Option<_>)| {
                mark.is_some() || contribution.form == Form::Columns
            };
            let ours: Vec<bool> = contributions.iter().zip(&marks).map(is_ours).collect();
            self.name_other_servers(nspace, &ours, origins);
        }
        marks.into_iter().map(|mark| mark.is_some_and(|mark| mark.value == ANNOUNCEMENT)).collect()
    }

    /// Logs the hosts of the contributions that are not ours, if it is on this server to do so.
    fn name_other_servers(&mut self, nspace: &Nspace, ours: &[bool], origins: &[Option<Proc>]) {
        let of = |has_mark: bool| {
            let those = origins.iter().zip(ours).filter(move |(_, is_ours)| **is_ours == has_mark);
            those.filter_map(|(origin, _)| origin.as_ref().filter(|proc| proc.nspace == *nspace).map(|proc| proc.rank))
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
