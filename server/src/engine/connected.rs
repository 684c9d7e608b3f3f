//! Connected processes, by connect or by spawn: the sets that a disconnect may end, and the receivers of the event when one of them
//! ends.

use std::collections::{BTreeSet, HashSet};
use std::time::Instant;

use pmix_dstore::model::{Info, Nspace, Proc, Rank, Status, Value, keys};

use super::Engine;
use super::events::{Range, Sender};
use super::limits::CONNECTS_MAX;
use crate::upcall::Upcall;

/// Processes that are connected with each other.
pub(super) struct Connected {
    /// As in the collective that connected them: sorted, each once.
    procs: Vec<Proc>,
    /// The set is a process and the job that it has spawned.
    is_by_spawn: bool,
    /// The number of connects of this set without a disconnect.
    count: u32,
    /// Members on this node that have ended.
    ended: BTreeSet<Proc>,
}

impl Engine {
    /// Processes have become connected.
    pub(super) fn connect_all(&mut self, procs: &[Proc]) {
        if let Some(set) = self.connected.iter_mut().find(|set| !set.is_by_spawn && set.procs == procs) {
            set.count += 1;
            return;
        }
        for proc in procs.iter().filter(|proc| proc.rank.is_process()) {
            self.forget_oldest_connect_of(proc);
        }
        let procs = procs.to_vec();
        self.connected.push(Connected { procs, is_by_spawn: false, count: 1, ended: BTreeSet::new() });
    }

    /// Makes room for one more connect of a process by dropping its oldest. Some programs never disconnect, for example a server
    /// that accepts clients under Open MPI: they must not be refused, and their sets must not accumulate.
    fn forget_oldest_connect_of(&mut self, proc: &Proc) {
        let is_of = |set: &Connected| !set.is_by_spawn && set.procs.iter().any(|member| member.covers(proc));
        if self.connected.iter().filter(|set| is_of(set)).count() >= CONNECTS_MAX
            && let Some(oldest) = self.connected.iter().position(is_of)
        {
            self.connected.remove(oldest);
        }
    }

    /// A job was registered: connects its processes with the process that has spawned it.
    pub(super) fn connect_spawned(&mut self, nspace: &Nspace) {
        let job = self.nspaces.get(nspace).map(|state| &state.job);
        let Some(Value::Proc(parent)) = job.and_then(|job| job.job.get(keys::PARENT_ID.as_bytes())) else { return };
        let procs = vec![parent.clone(), Proc::new(nspace.clone(), Rank::WILDCARD)];
        if !self.connected.iter().any(|set| set.is_by_spawn && set.procs == procs) {
            self.connected.push(Connected { procs, is_by_spawn: true, count: 1, ended: BTreeSet::new() });
        }
    }

    /// Whether processes are connected, so that they can be disconnected.
    pub(super) fn are_connected(&self, procs: &[Proc]) -> bool {
        self.connected.iter().any(|set| self.is_of_set(set, procs))
    }

    fn is_of_set(&self, set: &Connected, procs: &[Proc]) -> bool {
        if set.is_by_spawn {
            // Programs name the one process or all of its job.
            let jobs: HashSet<&Nspace> = set.procs.iter().map(|proc| &proc.nspace).collect();
            return procs.iter().all(|proc| jobs.contains(&proc.nspace));
        }
        set.procs == procs || self.each_named(&set.procs) == self.each_named(procs)
    }

    /// The processes, with wildcard ranks expanded if the size of the job is known.
    fn each_named(&self, procs: &[Proc]) -> Vec<Proc> {
        let mut each = self.each_one(procs.to_vec());
        each.sort();
        each.dedup();
        each
    }

    /// Processes have disconnected.
    pub(super) fn disconnect_all(&mut self, procs: &[Proc]) {
        let exact = self.connected.iter().position(|set| !set.is_by_spawn && set.procs == procs);
        let Some(at) = exact.or_else(|| self.connected.iter().position(|set| self.is_of_set(set, procs))) else {
            return;
        };
        self.connected[at].count -= 1;
        if self.connected[at].count == 0 {
            self.connected.remove(at);
        }
    }

    /// A process of this node has ended without a disconnect: sends the event to the connected processes. If it
    /// has called finalize, other nodes are not notified: hosts do not expect an event for every process that ends normally.
    pub(super) fn notify_connected_of_end(&mut self, gone: &Proc, has_finalized: bool, now: Instant) {
        let mut others = Vec::new();
        for set in &mut self.connected {
            if set.procs.iter().any(|member| member.covers(gone)) && set.ended.insert(gone.clone()) {
                others.extend(set.procs.iter().filter(|member| *member != gone).cloned());
            }
        }
        if others.is_empty() {
            return;
        }
        others.sort();
        others.dedup();
        let code = Status::ERR_PROC_TERM_WO_SYNC;
        let is_local = self.all_local(&others);
        let infos = || {
            vec![
                Info::new(keys::EVENT_AFFECTED_PROC, Value::Proc(gone.clone())),
                Info::new(keys::EVENT_NON_DEFAULT, Value::Bool(true)),
                Info::new(keys::EVENT_DO_NOT_CACHE, Value::Bool(true)),
                Info::new(keys::EVENT_CUSTOM_RANGE, Value::procs(others.clone())),
            ]
        };
        self.deliver_event(Sender::Server, code, gone, Range::CUSTOM, infos(), now);
        if !is_local && !has_finalized {
            let upcall = Upcall::NotifyEvent { code, source: gone.clone(), range: Range::CUSTOM, infos: infos() };
            self.upcall(super::Continuation::Nothing, upcall);
        }
        self.forget_ended();
    }

    /// Drops the sets without a member left on this node.
    fn forget_ended(&mut self) {
        let peers = &self.peers;
        self.connected.retain(|set| {
            let is_left = |proc: &Proc| set.procs.iter().any(|member| member.covers(proc)) && !set.ended.contains(proc);
            set.ended.is_empty() || peers.values().any(|peer| is_left(&peer.proc))
        });
    }

    /// A namespace is gone: drops the sets with its processes.
    pub(super) fn forget_connected(&mut self, nspace: &Nspace) {
        self.connected.retain(|set| set.procs.iter().all(|proc| proc.nspace != *nspace));
    }
}
