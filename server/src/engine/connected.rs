//! Connected processes, by connect or by spawn: the sets that a disconnect may end, and the receivers of the event when one of them
//! ends.

use std::collections::{BTreeSet, HashSet};
use std::time::Instant;

use pmix_dstore::model::{Info, Nspace, Proc, Rank, Status, Value, keys};

use super::Engine;
use super::collective::{Collective, Kind, Terms};
use super::events::{Range, Sender};
use super::limits::CONNECTS_MAX;
use super::peer::PeerId;
use crate::upcall::Upcall;

/// Processes that are connected with each other.
pub(super) struct Connected {
    /// As in the collective that connected them: sorted, each once.
    procs: Vec<Proc>,
    /// The identifier of their connect.
    id: Option<Vec<u8>>,
    /// The set is a process and the job that it has spawned.
    is_by_spawn: bool,
    /// Members may end without a disconnect.
    lets_end: bool,
    /// Processes of this node that had ended before the others connected, sorted.
    never_connected: Vec<Proc>,
    /// The number of connects of this set without a disconnect.
    count: u32,
    /// Members on this node that have ended.
    ended: BTreeSet<Proc>,
}

impl Engine {
    /// The participants of a connect have become connected.
    pub(super) fn connect_all(&mut self, connect: &Collective) {
        let (procs, terms) = (&connect.signature, &connect.terms);
        let is_known = |set: &&mut Connected| !set.is_by_spawn && set.id == terms.id && set.procs == *procs;
        if let Some(set) = self.connected.iter_mut().find(is_known) {
            set.count += 1;
            set.lets_end &= terms.lets_end;
            return;
        }
        for proc in procs.iter().filter(|proc| proc.rank.is_process()) {
            self.forget_oldest_connect_of(proc);
        }
        self.connected.push(Connected {
            procs: procs.clone(),
            id: terms.id.clone(),
            is_by_spawn: false,
            lets_end: terms.lets_end,
            never_connected: if terms.is_optional { self.ended_before(connect) } else { Vec::new() },
            count: 1,
            ended: BTreeSet::new(),
        });
    }

    /// The processes of this node that a connect names and that have not come, sorted: it is over because they have ended.
    fn ended_before(&self, connect: &Collective) -> Vec<Proc> {
        let mut ended = Vec::new();
        for nspace in Self::nspaces_of(&connect.signature) {
            let Some(state) = self.nspaces.get(&nspace) else { continue };
            let is_in = |proc: &Proc| connect.signature.binary_search(proc).is_ok();
            let has_all = is_in(&Proc::new(nspace.clone(), Rank::WILDCARD));
            let procs = state.local_ranks().map(|rank| Proc::new(nspace.clone(), rank));
            ended.extend(procs.filter(|proc| !connect.present.contains(proc) && (has_all || is_in(proc))));
        }
        ended.sort();
        ended.dedup();
        ended
    }

    /// The processes that had ended before the participants of a later collective connected.
    pub(super) fn never_connected(&self, later: &Collective) -> Vec<Proc> {
        self.set_of(later).map(|set| set.never_connected.clone()).unwrap_or_default()
    }

    /// Whether the participants of a later collective have connected so that they may end without a disconnect.
    pub(super) fn may_end_connected(&self, later: &Collective) -> bool {
        self.set_of(later).is_some_and(|set| set.lets_end)
    }

    /// The connected processes that are the participants of a later collective.
    fn set_of(&self, later: &Collective) -> Option<&Connected> {
        self.connected.iter().find(|set| self.is_of_set(set, &later.signature, &later.terms))
    }

    /// A process is the first to enter a connect, and wants the others to be asked to enter it, too.
    pub(super) fn ask_to_connect(&mut self, peer: PeerId, connect: u64, now: Instant) {
        let Some(connect) = self.collectives.get(&connect) else { return };
        let Some(source) = self.peers.get(&peer).map(|peer| peer.proc.clone()) else { return };
        let (code, is_local) = (Status::CONNECT_REQUESTED, self.all_local(&connect.signature));
        let infos = event_infos(&source, &connect.signature, connect.terms.id.as_deref());
        if !is_local {
            let infos = infos.clone();
            let upcall = Upcall::NotifyEvent { code, source: source.clone(), range: Range::CUSTOM, infos };
            self.upcall(super::Continuation::Nothing, upcall);
        }
        // Kept for processes that register later: they may start later.
        self.deliver_event(Sender::Peer(peer), code, &source, Range::CUSTOM, infos, now);
    }

    /// A connect is over: nobody is asked to enter it any more.
    pub(super) fn withdraw_request(&mut self, connect: &Collective) {
        if connect.has_asked {
            let procs = Value::procs(connect.signature.iter().cloned());
            let id = connect.terms.id.as_deref().map(Value::string);
            self.events.forget(Status::CONNECT_REQUESTED, |infos| {
                Info::find(infos, keys::EVENT_CUSTOM_RANGE) == Some(&procs)
                    && Info::find(infos, keys::CONNECT_ID) == id.as_ref()
            });
        }
    }

    /// A process has entered a connect or disconnect, and wants the other participants on this node to hear of it.
    pub(super) fn tell_of_arrival(&mut self, peer: PeerId, collective: u64, now: Instant) {
        let Some(collective) = self.collectives.get(&collective) else { return };
        let Some(source) = self.peers.get(&peer).map(|peer| peer.proc.clone()) else { return };
        let code = match collective.kind {
            Kind::Disconnect => Status::PROC_HAS_DISCONNECTED,
            _ => Status::PROC_HAS_CONNECTED,
        };
        let mut infos = event_infos(&source, &collective.signature, collective.terms.id.as_deref());
        infos.push(Info::new(keys::EVENT_DO_NOT_CACHE, Value::Bool(true)));
        self.deliver_event(Sender::Peer(peer), code, &source, Range::CUSTOM, infos, now);
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
            self.connected.push(Connected {
                procs,
                id: None,
                is_by_spawn: true,
                lets_end: false,
                never_connected: Vec::new(),
                count: 1,
                ended: BTreeSet::new(),
            });
        }
    }

    /// Whether processes are connected, so that they can be disconnected.
    pub(super) fn are_connected(&self, procs: &[Proc], terms: &Terms) -> bool {
        self.connected.iter().any(|set| self.is_of_set(set, procs, terms))
    }

    fn is_of_set(&self, set: &Connected, procs: &[Proc], terms: &Terms) -> bool {
        if set.id != terms.id {
            return false;
        }
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
    pub(super) fn disconnect_all(&mut self, procs: &[Proc], terms: &Terms) {
        let exact = |set: &Connected| !set.is_by_spawn && set.id == terms.id && set.procs == procs;
        let exact = self.connected.iter().position(exact);
        let Some(at) = exact.or_else(|| self.connected.iter().position(|set| self.is_of_set(set, procs, terms))) else {
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
            let is_news = set.procs.iter().any(|member| member.covers(gone)) && set.ended.insert(gone.clone());
            if is_news && !set.lets_end {
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
            let mut infos = event_infos(gone, &others, None);
            infos.push(Info::new(keys::EVENT_DO_NOT_CACHE, Value::Bool(true)));
            infos
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

    /// Processes are gone: drops the sets that name one of them.
    pub(super) fn forget_connected(&mut self, is_gone: impl Fn(&Proc) -> bool) {
        self.connected.retain(|set| !set.procs.iter().any(&is_gone));
    }
}

/// The infos of an event about a process for `procs`, which a connect with this identifier names.
fn event_infos(affected: &Proc, procs: &[Proc], id: Option<&[u8]>) -> Vec<Info> {
    let mut infos = vec![
        Info::new(keys::EVENT_AFFECTED_PROC, Value::Proc(affected.clone())),
        Info::new(keys::EVENT_NON_DEFAULT, Value::Bool(true)),
        Info::new(keys::EVENT_CUSTOM_RANGE, Value::procs(procs.iter().cloned())),
    ];
    infos.extend(id.map(|id| Info::new(keys::CONNECT_ID, Value::string(id))));
    infos
}
