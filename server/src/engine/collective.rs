//! Fences: gathering the local participants, exchanging through the host, releasing them.

use std::collections::HashMap;
use std::time::Instant;

use pmix_client::get::timeout_of;
use pmix_client::wire::blob::{self, Contribution, Origin};
use pmix_client::wire::reply::FenceReply;
use pmix_dstore::model::{Info, Key, Nspace, Proc, Rank, Status, Value, keys};

use super::bounds::FENCES_MAX;
use super::peers::PeerId;
use super::{Engine, Then, directive};
use crate::upcall::Upcall;

/// One fence that is going on.
pub(super) struct Collective {
    /// The participants, as the first one named them: relative ranks follow this order.
    procs: Vec<Proc>,
    /// The participants, sorted: what tells one fence from another.
    signature: Vec<Proc>,
    infos: Vec<Info>,
    collect: bool,
    arrived: Vec<Arrival>,
    /// The host has been asked; nobody can join any more.
    at_host: bool,
    /// First failure among the local participants.
    status: Status,
    /// The first participant that was lost has been told of.
    told_of_loss: bool,
    deadline: Option<Instant>,
}

struct Arrival {
    peer: PeerId,
    tag: u32,
    proc: Proc,
}

impl Engine {
    /// A client enters a fence.
    pub(super) fn fence(&mut self, peer: PeerId, tag: u32, procs: Vec<Proc>, infos: Vec<Info>, now: Instant) {
        let Some(proc) = self.peers.get(&peer).map(|peer| peer.proc.clone()) else { return };
        if !procs.iter().any(|participant| participant.covers(&proc)) {
            self.reply_status(peer, tag, Status::ERR_BAD_PARAM);
            return;
        }
        if self.nspaces.get(&proc.nspace).is_some_and(|state| state.has_left(proc.rank)) {
            // What it sent before its end may be read after the host has told of that.
            self.reply_status(peer, tag, Status::ERR_LOST_CONNECTION);
            return;
        }
        let mut signature = procs.clone();
        signature.sort();
        signature.dedup();
        let collect = directive(&infos, keys::COLLECT_DATA);
        let deadline = timeout_of(&infos).map(|wait| now + wait);
        let open = self.collectives.iter().find(|(_, fence)| {
            !fence.at_host && fence.signature == signature && !fence.arrived.iter().any(|other| other.proc == proc)
        });
        let id = match open.map(|(id, _)| *id) {
            Some(id) => id,
            None if self.collectives.len() >= FENCES_MAX && self.fences_of(peer) >= FENCES_MAX => {
                return self.refuse(peer, tag, "fences that are not over");
            }
            None => {
                self.collective_next += 1;
                let fence = Collective {
                    procs,
                    signature,
                    infos,
                    collect,
                    arrived: Vec::new(),
                    at_host: false,
                    status: Status::SUCCESS,
                    told_of_loss: false,
                    deadline,
                };
                self.collectives.insert(self.collective_next, fence);
                self.collective_next
            }
        };
        let Some(fence) = self.collectives.get_mut(&id) else { return };
        // Whoever is the first to give up waiting ends it for all.
        fence.deadline = fence.deadline.into_iter().chain(deadline).min();
        if fence.collect != collect {
            // All local participants must agree, as the exchange of released servers demands.
            fence.status = Status::ERR_BAD_PARAM;
        }
        fence.arrived.push(Arrival { peer, tag, proc });
        self.advance(id);
    }

    /// How many processes of this node take part: those that can still come, and whether some cannot.
    fn local_participants(&self, signature: &[Proc]) -> (usize, bool) {
        let (mut count, mut lost) = (0, false);
        for nspace in Self::nspaces_of(signature) {
            let Some(state) = self.nspaces.get(&nspace) else { continue };
            let mut named = signature.iter().filter(|proc| proc.nspace == nspace);
            if named.clone().any(|proc| proc.rank == Rank::WILDCARD) {
                count += state.local_alive();
                lost |= state.local_alive() < state.local_size();
            } else {
                count += named.clone().filter(|proc| state.is_alive(proc.rank)).count();
                lost |= named.any(|proc| state.is_local(proc.rank) && !state.is_alive(proc.rank));
            }
        }
        (count, lost)
    }

    /// Whether every participant is a process of this node.
    fn all_local(&self, signature: &[Proc]) -> bool {
        signature.iter().all(|proc| match self.nspaces.get(&proc.nspace) {
            None => false,
            // Nothing at all is known of how large some jobs of other servers are.
            Some(state) if state.local_size() == 0 => false,
            Some(state) if proc.rank == Rank::WILDCARD => state.job.size() as usize == state.local_size(),
            Some(state) => state.is_local(proc.rank),
        })
    }

    /// Goes on with a fence that may have all its local participants now.
    fn advance(&mut self, id: u64) {
        let Some(fence) = self.collectives.get(&id) else { return };
        let (expected, lost) = self.local_participants(&fence.signature);
        if fence.at_host || fence.arrived.len() < expected {
            return;
        }
        let Some(fence) = self.collectives.get_mut(&id) else { return };
        if lost && fence.status.is_success() {
            fence.status = Status::ERR_LOST_CONNECTION;
        }
        let Some(fence) = self.collectives.get(&id) else { return };
        if self.all_local(&fence.signature) {
            let status = fence.status;
            self.complete(id, status);
            return;
        }
        let mut failed = fence.status;
        let data = match fence.collect.then(|| self.contribution(fence)) {
            None => Vec::new(),
            Some(Ok(data)) => data,
            Some(Err(status)) => {
                failed = status;
                Vec::new()
            }
        };
        let mut infos = fence.infos.clone();
        infos.push(Info::new(keys::SORTED_PROC_ARRAY, Value::Bool(true)));
        infos.push(Info::new(keys::LOCAL_COLLECTIVE_STATUS, Value::Status(failed)));
        let procs = fence.signature.clone();
        if let Some(fence) = self.collectives.get_mut(&id) {
            fence.at_host = true;
        }
        self.upcall(Then::Fence(id), Upcall::Fence { procs, infos, data });
    }

    /// What this server's participants put for other nodes, in the form that all released servers read.
    fn contribution(&self, fence: &Collective) -> Result<Vec<u8>, Status> {
        let first_rank = self.first_relative_ranks(&fence.signature);
        let mut ranks: Vec<(Rank, Vec<(&Key, &Value)>)> = Vec::new();
        for arrival in &fence.arrived {
            let Some(state) = self.nspaces.get(&arrival.proc.nspace) else { continue };
            let first = first_rank.get(&arrival.proc.nspace).copied().unwrap_or(0);
            let values: Vec<_> = state.remote.rank(arrival.proc.rank).collect();
            if !values.is_empty() {
                ranks.push((Rank(first + arrival.proc.rank.0), values));
            }
        }
        Contribution::encode_borrowed(super::EXCHANGE, true, &ranks)
    }

    /// The relative rank of rank 0 of each participating namespace: with several, they are numbered through.
    fn first_relative_ranks(&self, procs: &[Proc]) -> HashMap<Nspace, u32> {
        let mut first = 0;
        let mut ranks = HashMap::new();
        for nspace in Self::nspaces_of(procs) {
            let size = self.nspaces.get(&nspace).map_or(0, |state| state.job.size());
            ranks.insert(nspace, first);
            first += size;
        }
        ranks
    }

    /// The exchange is over.
    pub(super) fn fence_answered(&mut self, id: u64, status: Status, data: &[u8]) {
        let Some(fence) = self.collectives.get(&id) else { return };
        let status = if status == Status::OPERATION_SUCCEEDED { Status::SUCCESS } else { status };
        let mut result = status;
        if status.is_success() && fence.collect && !data.is_empty() {
            result = self.store_exchange(&fence.signature.clone(), data).err().unwrap_or(Status::SUCCESS);
        }
        self.complete(id, result);
    }

    /// Stores what all servers contributed. The own part names local ranks, which are skipped.
    fn store_exchange(&mut self, signature: &[Proc], data: &[u8]) -> Result<(), Status> {
        let nspaces = Self::nspaces_of(signature);
        let first_rank = self.first_relative_ranks(signature);
        let contributions = blob::decode_fence(super::EXCHANGE, data).inspect_err(|status| {
            let line = format!("a fence brought {} bytes that are no contributions: {status}", data.len());
            self.outputs.push_back(super::Output::Log(line));
        })?;
        for (origin, kvals) in contributions.into_iter().flat_map(|contribution| contribution.ranks) {
            let proc = match origin {
                Origin::Proc(proc) => Some(proc),
                Origin::Relative(Rank(rank)) => {
                    let owner = nspaces.iter().rev().find(|nspace| first_rank.get(*nspace).is_some_and(|f| *f <= rank));
                    owner.map(|nspace| Proc::new(nspace.clone(), Rank(rank - first_rank[nspace])))
                }
            };
            if let Some(proc) = proc {
                self.store_remote(&proc.nspace, proc.rank, kvals);
            }
        }
        Ok(())
    }

    /// Publishes what is new and releases the participants.
    fn complete(&mut self, id: u64, status: Status) {
        let Some(fence) = self.collectives.remove(&id) else { return };
        for nspace in Self::nspaces_of(&fence.signature) {
            self.publish(&nspace);
        }
        self.stats.fences += 1;
        if self.stats.wireup.is_none() || (fence.collect && !self.collected) {
            self.stats.wireup = self.first_fork.map(|start| start.elapsed());
            self.collected |= fence.collect;
        }
        for arrival in fence.arrived {
            let shared = self.peers.get(&arrival.peer).is_some_and(|peer| peer.shared);
            let count = self.nspaces.get(&arrival.proc.nspace).and_then(|state| state.shared.count());
            let reply = FenceReply { status, segment_count: count.filter(|_| shared) };
            self.reply(arrival.peer, arrival.tag, &reply);
        }
    }

    /// How many fences a connection has entered that are not over.
    fn fences_of(&self, peer: PeerId) -> usize {
        let is_in = |fence: &&Collective| fence.arrived.iter().any(|arrival| arrival.peer == peer);
        self.collectives.values().filter(is_in).count()
    }

    /// A connection is gone: its process is in no fence any more.
    pub(super) fn withdraw(&mut self, peer: PeerId) {
        for fence in self.collectives.values_mut() {
            fence.arrived.retain(|arrival| arrival.peer != peer);
        }
        // A fence that nobody is in any more is none.
        self.collectives.retain(|_, fence| fence.at_host || !fence.arrived.is_empty());
    }

    /// A process will not come any more: the fences that wait for it go on without it.
    pub(super) fn leave_collectives(&mut self, gone: &Proc) {
        let concerned: Vec<u64> = self
            .collectives
            .iter()
            .filter(|(_, fence)| !fence.at_host && fence.signature.iter().any(|proc| proc.covers(gone)))
            .map(|(id, _)| *id)
            .collect();
        for id in concerned {
            let Some(fence) = self.collectives.get_mut(&id) else { continue };
            // The host may know of its end before its connection does: it must not stand in for one that is still to come.
            let withdrawn: Vec<Arrival> = fence.arrived.extract_if(.., |arrival| arrival.proc == *gone).collect();
            let is_empty = fence.arrived.is_empty();
            for Arrival { peer, tag, .. } in withdrawn {
                self.reply_status(peer, tag, Status::ERR_LOST_CONNECTION);
            }
            if is_empty {
                self.collectives.remove(&id);
                continue;
            }
            let Some(fence) = self.collectives.get_mut(&id) else { continue };
            if !std::mem::replace(&mut fence.told_of_loss, true) {
                let (procs, arrived) = (in_words(&fence.procs), fence.arrived.len());
                self.log(format!("a fence of {procs}, which {arrived} local processes have entered, lost {gone}"));
            }
            self.advance(id);
        }
    }

    /// A namespace is gone: there will be no fence with it.
    pub(super) fn end_fences_of(&mut self, nspace: &Nspace) {
        let of_nspace = |fence: &Collective| fence.signature.iter().any(|proc| proc.nspace == *nspace);
        let ended: Vec<u64> =
            self.collectives.iter().filter(|(_, fence)| of_nspace(fence)).map(|(id, _)| *id).collect();
        for id in ended {
            self.complete(id, Status::ERR_NOT_FOUND);
        }
    }

    pub(super) fn expire_collectives(&mut self, now: Instant) {
        let late: Vec<u64> = self
            .collectives
            .iter()
            .filter(|(_, fence)| fence.deadline.is_some_and(|deadline| deadline <= now))
            .map(|(id, _)| *id)
            .collect();
        for id in late {
            if let Some(fence) = self.collectives.get(&id) {
                let missing = self.missing(fence);
                self.log(format!("a fence timed out; missing: {missing}"));
            }
            self.complete(id, Status::ERR_TIMEOUT);
        }
    }

    pub(super) fn collective_deadline(&self) -> Option<Instant> {
        self.collectives.values().filter_map(|fence| fence.deadline).min()
    }

    /// The local participants that have not arrived, in words.
    fn missing(&self, fence: &Collective) -> String {
        if fence.at_host {
            return "the answer of the host".into();
        }
        let mut missing = Vec::new();
        for nspace in Self::nspaces_of(&fence.signature) {
            let Some(state) = self.nspaces.get(&nspace) else { continue };
            for rank in state.clients.keys() {
                let proc = Proc::new(nspace.clone(), *rank);
                let takes_part = fence.signature.iter().any(|participant| participant.covers(&proc));
                if takes_part && !fence.arrived.iter().any(|arrival| arrival.proc == proc) {
                    missing.push(proc);
                }
            }
        }
        in_words(&missing)
    }
}

/// The first of some processes, and how many more there are.
fn in_words(procs: &[Proc]) -> String {
    const NAMED_MAX: usize = 8;
    let mut words: Vec<String> = procs.iter().take(NAMED_MAX).map(Proc::to_string).collect();
    if procs.len() > NAMED_MAX {
        words.push(format!("and {} more", procs.len() - NAMED_MAX));
    }
    words.join(" ")
}
