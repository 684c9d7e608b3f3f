//! Fences, connects and disconnects: gathering the local participants, exchanging through the host, releasing them.

use std::collections::HashMap;
use std::time::Instant;

use pmix_client::get::timeout_of;
use pmix_dstore::gather::GatherBuf;
use pmix_dstore::model::{Bytes, Info, Key, Nspace, Proc, Rank, Status, Value, keys};
use pmix_dstore::{fallible_alloc, qualified};
use pmix_wire::blob::{self, Contribution, Origin};
use pmix_wire::reply::{ConnectWriter, FenceReply};
use pmix_wire::{MESSAGE_LEN_MAX, jobinfo};

use super::apart::REFUSED;
use super::collective::{Arrival, Collective, Contributed, Kind, Sent, Terms};
use super::limits::FENCES_MAX;
use super::nspaces::recipient;
use super::peer::{Peer, PeerId};
use super::server_mark::{self, Marks};
use super::{Continuation, Engine, answer_of_host};
use crate::GroupOperation;
use crate::upcall::Upcall;

/// Marks a deleted key in a contribution, as servers from 7.0 on write and read it: contributions add to the values of other servers,
/// so leaving out a key does not delete it.
static GONE: Value = Value::Undef;

impl Engine {
    /// A client enters a collective.
    pub(super) fn enter(
        &mut self,
        kind: Kind,
        peer: PeerId,
        tag: u32,
        procs: Vec<Proc>,
        infos: Vec<Info>,
        now: Instant,
    ) {
        let Some(proc) = self.peers.get(&peer).map(|peer| peer.proc.clone()) else { return };
        let checked = Terms::read(&kind, &infos)
            .and_then(|terms| Ok((self.check_entry(&kind, &proc, procs, &infos, &terms)?, terms, Sent::of(&infos)?)));
        let ((procs, signature), terms, sent) = match checked {
            Ok(checked) => checked,
            Err(status) => return self.reply_status(peer, tag, status),
        };
        let collect = kind.collects(&infos);
        let deadline = timeout_of(&infos).map(|wait| now + wait);
        let asks = kind == Kind::Connect && Info::is_set(&infos, keys::CONNECT_NOTIFY_REQ);
        let is_told_of = matches!(kind, Kind::Connect | Kind::Disconnect);
        let tells_each = is_told_of && Info::is_set(&infos, keys::CONNECT_NOTIFY_EACH);
        if asks && self.is_out_of_reach(peer, &signature) {
            return self.reply_status(peer, tag, REFUSED);
        }
        let mut is_first = false;
        let id = match self.open_collective(&kind, &signature, &terms, &proc) {
            Some(id) => self.add_to_construct(id, infos),
            None if self.collectives.len() >= FENCES_MAX && self.fences_of(peer) >= FENCES_MAX => {
                return self.refuse_more(peer, tag, "collectives that are not over");
            }
            None => {
                self.collective_next += 1;
                is_first = true;
                let mut opened = Collective::new(kind, (procs, signature), infos, terms.clone(), now);
                (opened.has_asked, opened.sent) = (asks, sent);
                self.collectives.insert(self.collective_next, opened);
                self.collective_next
            }
        };
        let Some(collective) = self.collectives.get_mut(&id) else { return };
        // The earliest time-out ends it for all.
        collective.deadline = collective.deadline.into_iter().chain(deadline).min();
        let agrees = collective.kind != Kind::Connect || collective.terms == terms;
        if collective.collect != collect || !agrees {
            // All local participants must agree, as the exchange of released servers demands.
            collective.status = Status::ERR_BAD_PARAM;
        }
        // Of connected processes one may name their namespace, whose client adds the terms, and another one the processes.
        collective.terms.is_optional |= terms.is_optional;
        collective.terms.lets_end |= terms.lets_end;
        collective.present.insert(proc.clone());
        collective.arrived.push(Arrival { peer, tag, proc });
        if is_first && asks {
            self.ask_to_connect(peer, id, now);
        }
        if tells_each {
            self.tell_of_arrival(peer, id, now);
        }
        self.advance(id);
    }

    /// Whether a process may enter a collective of `procs`: the participants as it named them, without groups, and sorted.
    ///
    /// # Errors
    /// The status for its reply.
    fn check_entry(
        &self,
        kind: &Kind,
        proc: &Proc,
        procs: Vec<Proc>,
        infos: &[Info],
        terms: &Terms,
    ) -> Result<(Vec<Proc>, Vec<Proc>), Status> {
        let procs = self.members_of(proc, procs)?;
        if !procs.iter().any(|participant| participant.covers(proc)) {
            return Err(match kind {
                // The call succeeds as with released servers. Unlike there, it does not count as the arrival of a member.
                Kind::Fence => Status::SUCCESS,
                Kind::Construct(_) => Status::ERR_NOT_A_MEMBER,
                _ => Status::ERR_BAD_PARAM,
            });
        }
        if self.nspaces.get(&proc.nspace).is_some_and(|state| state.has_left(proc.rank)) {
            // The host may have reported the end of the process before its last message was read.
            return Err(Status::ERR_LOST_CONNECTION);
        }
        let mut signature = procs.clone();
        signature.sort();
        signature.dedup();
        if !self.is_of_host(kind, &signature, infos) {
            self.check_required(infos)?;
        }
        if *kind == Kind::Disconnect && !self.may_disconnect(proc, &signature, terms) {
            return Err(Status::ERR_INVALID_OPERATION);
        }
        Ok((procs, signature))
    }

    /// The collective of these participants that `proc` has not entered yet and still can.
    fn open_collective(&self, kind: &Kind, signature: &[Proc], terms: &Terms, proc: &Proc) -> Option<u64> {
        let is_open = |other: &Collective| {
            let same = other.kind == *kind && other.terms.id == terms.id && self.are_same(&other.signature, signature);
            same && !other.at_host && !other.present.contains(proc)
        };
        self.collectives.iter().find(|(_, other)| is_open(other)).map(|(id, _)| *id)
    }

    /// Whether a process may disconnect from others: it is connected with them, or a connect has begun, because a
    /// process need not wait for the connect before the disconnect.
    fn may_disconnect(&self, proc: &Proc, signature: &[Proc], terms: &Terms) -> bool {
        let is_connecting = |other: &Collective| {
            let same = other.signature == signature && other.terms.id == terms.id;
            other.kind == Kind::Connect && same && !other.terms.is_exchange_only && other.present.contains(proc)
        };
        self.are_connected(signature, terms) || self.collectives.values().any(is_connecting)
    }

    /// Whether a collective that has lost participants on this node fails.
    fn fails_by_loss(&self, collective: &Collective) -> bool {
        let Terms { is_optional, lets_end, .. } = collective.terms;
        if collective.kind == Kind::Connect {
            return !is_optional;
        }
        // Only what all of them said when they connected counts: one process must not decide it for the others.
        if lets_end && self.may_end_connected(collective) {
            return false;
        }
        let never_connected = if is_optional { self.never_connected(collective) } else { Vec::new() };
        never_connected.is_empty()
            || self.lost_participants(collective).iter().any(|proc| never_connected.binary_search(proc).is_err())
    }

    /// The participants on this node that cannot take part any more.
    fn lost_participants(&self, collective: &Collective) -> Vec<Proc> {
        let mut lost = self.over_for(collective);
        for member in &collective.signature {
            let Some(state) = self.nspaces.get(&member.nspace) else { continue };
            if member.rank == Rank::WILDCARD {
                lost.extend(state.ended().map(|rank| Proc::new(member.nspace.clone(), rank)));
            } else if state.is_local(member.rank) && !state.is_alive(member.rank) {
                lost.push(member.clone());
            }
        }
        lost
    }

    /// Whether two signatures denote the same processes. Signatures of a group may have been made before and after the loss of
    /// a member.
    fn are_same(&self, one: &[Proc], other: &[Proc]) -> bool {
        fn living<'a>(engine: &'a Engine, procs: &'a [Proc]) -> impl Iterator<Item = &'a Proc> {
            procs.iter().filter(|proc| !engine.is_lost(proc))
        }
        one == other || !self.groups.is_empty() && living(self, one).eq(living(self, other))
    }

    /// Whether a process of this node will take part in no further collective.
    pub(super) fn is_lost(&self, proc: &Proc) -> bool {
        let state = self.nspaces.get(&proc.nspace).filter(|_| proc.rank.is_process());
        state.is_some_and(|state| state.is_local(proc.rank) && !state.is_alive(proc.rank))
    }

    /// The number of processes of this node that take part or still can, and whether the collective fails because some cannot any more.
    fn local_participants(&self, collective: &Collective) -> (usize, bool) {
        let signature = &collective.signature;
        let over = self.over_for(collective);
        let (mut count, mut lost) = (0, !over.is_empty());
        for nspace in Self::nspaces_of(signature) {
            let Some(state) = self.nspaces.get(&nspace) else { continue };
            let named = signature.iter().filter(|proc| proc.nspace == nspace);
            if named.clone().any(|proc| proc.rank == Rank::WILDCARD) {
                count += state.local_alive();
                lost |= state.ended().next().is_some();
            } else {
                // Some may be registered only later.
                let may_come = |rank| state.is_alive(rank) || !state.is_local(rank) && self.runs_here(state, rank);
                count += named.clone().filter(|proc| may_come(proc.rank)).count();
                lost |= named.into_iter().any(|proc| state.is_local(proc.rank) && !state.is_alive(proc.rank));
            }
        }
        (count.saturating_sub(over.len()), lost && self.fails_by_loss(collective))
    }

    /// The participants that have finalized and are not expected back by those that have arrived.
    pub(super) fn over_for(&self, collective: &Collective) -> Vec<Proc> {
        let mut over = Vec::new();
        let nspaces = Self::nspaces_of(&collective.signature);
        let states = || nspaces.iter().filter_map(|nspace| Some((nspace, self.nspaces.get(nspace)?)));
        if states().any(|(_, state)| state.has_over()) {
            let cycle = collective.arrived.iter().map(|arrival| self.cycle_of(&arrival.proc)).max().unwrap_or(0);
            for (nspace, state) in states() {
                let procs = state.over_for(cycle).map(|rank| Proc::new(nspace.clone(), rank));
                over.extend(procs.filter(|proc| collective.signature.iter().any(|member| member.covers(proc))));
            }
        }
        over
    }

    /// Whether every participant is a process of this node.
    pub(super) fn all_local(&self, signature: &[Proc]) -> bool {
        signature.iter().all(|proc| match self.nspaces.get(&proc.nspace) {
            None => false,
            // The size of some jobs of other servers is unknown.
            Some(state) if state.local_size() == 0 => false,
            Some(state) if proc.rank == Rank::WILDCARD => state.job.size() as usize == state.local_size(),
            Some(state) => state.is_local(proc.rank) || self.runs_here(state, proc.rank),
        })
    }

    /// Goes on with a collective that may have all its local participants now.
    pub(super) fn advance(&mut self, id: u64) {
        let Some(collective) = self.collectives.get(&id) else { return };
        let (expected, lost) = self.local_participants(collective);
        if collective.at_host || collective.arrived.len() < expected || self.awaits_agreement(collective) {
            return;
        }
        let Some(collective) = self.collectives.get_mut(&id) else { return };
        if lost && collective.status.is_success() {
            collective.status = match collective.kind {
                // The status that stock servers return.
                Kind::Fence => Status::ERR_PARTIAL_SUCCESS,
                Kind::Connect | Kind::Disconnect => Status::ERR_LOST_CONNECTION,
                Kind::Construct(_) if Info::is_set(&collective.infos, keys::GROUP_FT_COLLECTIVE) => Status::SUCCESS,
                Kind::Construct(_) => Status::GROUP_CONSTRUCT_ABORT,
                // Groups continue without lost members, so their destruction succeeds, too.
                Kind::Destruct(_) => Status::SUCCESS,
            };
        }
        if lost {
            self.log_absent_participants(id);
        }
        let Some(collective) = self.collectives.get(&id) else { return };
        if !self.is_of_host(&collective.kind, &collective.signature, &collective.infos) {
            let status = collective.status;
            self.complete(id, status);
            return;
        }
        let marks = self.marks_for(id);
        let Some(collective) = self.collectives.get(&id) else { return };
        let copies = Info::copies(&collective.infos);
        let mut failed = copies.as_ref().err().copied().unwrap_or(collective.status);
        let mut infos = copies.unwrap_or_default();
        let contribution = match collective.collect {
            true => self.contribution(collective, marks),
            false => self.empty_contribution(collective, &mut infos).map(|data| (data, Vec::new())),
        };
        let (data, changes) = contribution.unwrap_or_else(|status| {
            failed = status;
            Default::default()
        });
        let (kind, asked) = (collective.kind.clone(), Some(self.now()));
        infos.push(Info::new(keys::SORTED_PROC_ARRAY, Value::Bool(true)));
        infos.push(Info::new(keys::LOCAL_COLLECTIVE_STATUS, Value::Status(failed)));
        let procs = collective.signature.clone();
        if marks.of_slurm {
            self.asked_for_marked(id, &procs);
        }
        if let Some(collective) = self.collectives.get_mut(&id) {
            (collective.at_host, collective.asked) = (true, asked);
            collective.contributed = Contributed { len: data.len(), changes };
        }
        let upcall = match kind {
            Kind::Fence => Upcall::Fence { procs, infos, data },
            Kind::Connect => Upcall::Connect { procs, infos },
            Kind::Disconnect => Upcall::Disconnect { procs, infos },
            Kind::Construct(group) => Upcall::Group { operation: GroupOperation::Construct, group, procs, infos },
            Kind::Destruct(group) => Upcall::Group { operation: GroupOperation::Destruct, group, procs, infos },
        };
        self.upcall(Continuation::Collective(id), upcall);
    }

    /// Logs the participants that a collective lacks because they ended before they connected, or have finalized: no line about a lost
    /// connection names them.
    fn log_absent_participants(&mut self, id: u64) {
        let Some(collective) = self.collectives.get(&id) else { return };
        let over = self.over_for(collective);
        let mut ended_unconnected = Vec::new();
        for nspace in Self::nspaces_of(&collective.signature) {
            let Some(state) = self.nspaces.get_mut(&nspace) else { continue };
            let mut ranks = std::mem::take(&mut state.ended_unconnected);
            if state.is_ending {
                ranks.clear();
            }
            ended_unconnected.extend(ranks.into_iter().map(|rank| Proc::new(nspace.clone(), rank)));
        }
        let (word, procs) = (collective.kind.word(), Proc::list(&collective.procs));
        if !over.is_empty() {
            let over = Proc::list(&over);
            self.log(format!("a {word} of {procs} goes on without {over}, which finalized and has not come back"));
        }
        if !ended_unconnected.is_empty() {
            let ended_unconnected = Proc::list(&ended_unconnected);
            self.log(format!(
                "a {word} of {procs} goes on without {ended_unconnected}, which ended before it was connected"
            ));
        }
    }

    /// The modex delta of this server's participants for other nodes, in columns if `marks` allow that, otherwise in the form that all
    /// released servers read; and the number of each namespace's changes that the other servers have with it. Marks are its first values.
    fn contribution(&self, fence: &Collective, marks: Marks) -> Result<(GatherBuf, Vec<(Nspace, u64)>), Status> {
        let mut changes = Vec::new();
        for nspace in Self::nspaces_of(&fence.signature) {
            if let Some(state) = self.nspaces.get(&nspace) {
                fallible_alloc::push(&mut changes, (nspace, state.changes.count()))?;
            }
        }
        let first_rank = first_relative_ranks(&self.in_exchange(&fence.signature));
        let mut ranks: Vec<(Rank, Vec<(&Key, &Value)>)> = Vec::new();
        for arrival in &fence.arrived {
            let Some(state) = self.nspaces.get(&arrival.proc.nspace) else { continue };
            let first = first_rank.get(&arrival.proc.nspace).copied().unwrap_or(0);
            let rank = arrival.proc.rank;
            let values: Vec<_> = match state.changes.delivered(&fence.signature) {
                0 => {
                    let gone = state.changes.gone(rank).map(|key| (key, &GONE));
                    qualified::spread(state.remote.rank(rank).chain(gone)).collect()
                }
                delivered => {
                    let keys = state.changes.since(rank, delivered).into_iter();
                    let changed = keys.map(|key| (key, state.remote.get(rank, key.as_bytes()).unwrap_or(&GONE)));
                    qualified::spread(changed).collect()
                }
            };
            if !values.is_empty() {
                ranks.push((Rank(first + arrival.proc.rank.0), values));
            }
        }
        if marks.columns
            && let Some(columns) = Contribution::encode_columns(super::EXCHANGE, &ranks, server_mark::LEN)?
        {
            return Ok((columns, changes));
        }
        let marks = marks.values();
        if ranks.is_empty() {
            let first = fence
                .arrived
                .first()
                .map(|Arrival { proc, .. }| Rank(first_rank.get(&proc.nspace).copied().unwrap_or(0) + proc.rank.0));
            ranks.extend(first.map(|rank| (rank, Vec::new())));
        }
        if let Some((_, values)) = ranks.first_mut() {
            values.splice(0..0, marks.iter().map(|(key, value)| (key, value)));
        }
        Ok((Contribution::encode_borrowed(super::EXCHANGE, true, &ranks)?, changes))
    }

    /// The participating namespaces in the order in which all servers number their ranks, and their sizes. Servers of several clusters
    /// know those of their own one by a shorter name, and go by the names with the clusters.
    fn in_exchange(&self, procs: &[Proc]) -> Vec<(Nspace, u32)> {
        let mut nspaces = Self::nspaces_of(procs);
        if nspaces.iter().any(Nspace::has_cluster) {
            nspaces.sort_by_cached_key(|nspace| match self.cluster_of(nspace) {
                Some(cluster) if !nspace.has_cluster() => [cluster, nspace.as_bytes()].join(&b':'),
                _ => nspace.as_bytes().to_vec(),
            });
        }
        let size = |nspace: &Nspace| self.nspaces.get(nspace).map_or(0, |state| state.job.size());
        nspaces.into_iter().map(|nspace| (nspace.clone(), size(&nspace))).collect()
    }

    /// Takes the host's answer; for a collecting fence, `data` are the contributions of all servers.
    pub(super) fn collective_answered(&mut self, id: u64, status: Status, data: Bytes) {
        let Some(collective) = self.collectives.get(&id) else { return };
        let status = if status == Status::OPERATION_SUCCEEDED { Status::SUCCESS } else { status };
        let mut result = status;
        if status.is_success() && collective.collect && !data.is_empty() {
            let signature = collective.signature.clone();
            result = self.store_exchange(id, &signature, &data).err().unwrap_or(Status::SUCCESS);
            if result.is_success() {
                self.contributed(id, &signature, data.len());
            }
        }
        self.complete(id, result);
    }

    /// A fence has delivered `len` bytes. If that is no more than this server's own part, that part may not have been
    /// sent, and the delta is not advanced.
    fn contributed(&mut self, id: u64, signature: &[Proc], len: usize) {
        let Some(collective) = self.collectives.get_mut(&id).filter(|fence| fence.contributed.len < len) else {
            return;
        };
        for (nspace, count) in std::mem::take(&mut collective.contributed.changes) {
            if let Some(state) = self.nspaces.get_mut(&nspace) {
                state.changes.mark_delivered(signature, count);
            }
        }
    }

    /// Stores the contributions of all servers. Values of local ranks, in this server's own part, are skipped.
    fn store_exchange(&mut self, id: u64, signature: &[Proc], data: &Bytes) -> Result<(), Status> {
        let nspaces = self.in_exchange(signature);
        let first_rank = first_relative_ranks(&nspaces);
        let mut contributions = blob::decode_shared_fence(super::EXCHANGE, data).inspect_err(|status| {
            let line = format!("a fence brought {} bytes that cannot be read: {status}", data.len());
            self.outputs.push_back(super::Output::Log(crate::journal::Reason::here(), line));
        })?;
        let proc_of = |origin: &Origin| match origin {
            Origin::Proc(proc) => Some(proc.clone()),
            Origin::Relative(Rank(rank)) => {
                let owner = nspaces.iter().rev().find(|(nspace, _)| first_rank.get(nspace).is_some_and(|f| f <= rank));
                owner.map(|(nspace, _)| Proc::new(nspace.clone(), Rank(rank - first_rank[nspace])))
            }
        };
        let first = |contribution: &Contribution| contribution.ranks.first().and_then(|(origin, _)| proc_of(origin));
        let origins: Vec<Option<Proc>> = contributions.iter().map(first).collect();
        self.take_marks(id, signature, &mut contributions);
        let announced = self.take_server_marks(id, signature, &mut contributions, &origins);
        self.note_forms(signature, &contributions, &announced, &origins)?;
        let mut awaited = Vec::new();
        let mut values = contributions.into_iter().flat_map(|contribution| contribution.ranks);
        let stored = values.try_for_each(|(origin, kvals)| {
            let Some(proc) = proc_of(&origin) else { return Ok(()) };
            let stored = self.store_remote(&proc.nspace, proc.rank, kvals);
            if self.gets.is_asked(&proc) {
                awaited.push(proc);
            }
            stored
        });
        self.fenced(&awaited);
        stored
    }

    /// Publishes the new values and releases the participants.
    fn complete(&mut self, id: u64, status: Status) {
        let Some(collective) = self.collectives.remove(&id) else { return };
        if status.is_success() {
            let nspaces = Self::nspaces_of(&collective.signature);
            self.let_read(collective.participants().map(|(peer, _)| peer), &nspaces, collective.at_host);
        }
        match collective.kind.clone() {
            Kind::Construct(group) => self.complete_construct(group, collective, status),
            Kind::Destruct(group) => self.complete_destruct(&group, collective, status),
            Kind::Fence => self.complete_fence(id, collective, status),
            Kind::Connect => {
                if status.is_success() && !collective.terms.is_exchange_only {
                    self.connect_all(&collective);
                }
                self.withdraw_request(&collective);
                self.complete_connect(&collective, status);
            }
            Kind::Disconnect => {
                if status.is_success() || status == Status::ERR_LOST_CONNECTION {
                    self.disconnect_all(&collective.signature, &collective.terms);
                }
                for arrival in collective.arrived {
                    self.reply_status(arrival.peer, arrival.tag, status);
                }
            }
        }
    }

    fn complete_fence(&mut self, id: u64, fence: Collective, status: Status) {
        let nspaces = Self::nspaces_of(&fence.signature);
        nspaces.iter().for_each(|nspace| self.publish(nspace));
        let concluded = fence.collect.then(|| fence.signature.clone());
        self.after_publication(&nspaces, move |engine| engine.release_fence(fence, status));
        // Not after the publication: a fence that waits for this one must not be overtaken by one that is entered meanwhile.
        if let Some(signature) = concluded {
            self.conclude_agreement(id, &signature);
        }
    }

    /// Answers the participants of a fence, after the publication of its values.
    fn release_fence(&mut self, fence: Collective, status: Status) {
        self.stats.fences += 1;
        if self.stats.wireup.is_none() || (fence.collect && !self.collected) {
            self.stats.wireup = self.first_fork.map(|start| start.elapsed());
            self.collected |= fence.collect;
        }
        self.journal_released(&fence.arrived, status);
        for arrival in fence.arrived {
            let shared = self.peers.get(&arrival.peer).is_some_and(|peer| peer.shared);
            let count = self.nspaces.get(&arrival.proc.nspace).and_then(|state| state.ledger.count());
            let reply = FenceReply { status, segment_count: count.filter(|_| shared) };
            self.reply(arrival.peer, arrival.tag, &reply);
        }
    }

    /// Answers each participant with the data of the other jobs. Participants of one job and release get the same bytes.
    fn complete_connect(&mut self, connect: &Collective, status: Status) {
        let nspaces = Self::nspaces_of(&connect.signature);
        // Without a process of it an optional connect is no consent of a job.
        let has_come = |nspace: &Nspace| {
            !connect.terms.is_optional
                || connect.at_host
                || connect.arrived.iter().any(|one| one.proc.nspace == *nspace)
        };
        let has_come: Vec<bool> = nspaces.iter().map(has_come).collect();
        let mut replies: HashMap<_, Result<Vec<u8>, Status>> = HashMap::new();
        for Arrival { peer, tag, proc } in &connect.arrived {
            let Some(to) = self.peers.get(peer) else { continue };
            let of_peer = (&proc.nspace, to.user.uid, to.dialect, to.version_text.clone());
            let reply = replies.entry(of_peer).or_insert_with(|| {
                let others = nspaces.iter().zip(&has_come).filter(|(nspace, has_come)| {
                    **nspace != proc.nspace && status.is_success() && (**has_come || self.sees(proc, to.user, nspace))
                });
                self.connect_reply(to, status, others.map(|(nspace, _)| nspace))
            });
            let reply = reply.as_ref().map_err(|status| *status).and_then(|reply| fallible_alloc::copy(reply));
            self.send(*peer, *tag, |_, _| reply);
        }
    }

    /// The reply to a connect: the data of the jobs `others`. A job that runs only at other servers may be unknown here.
    fn connect_reply<'a>(
        &self,
        to: &Peer,
        status: Status,
        others: impl Iterator<Item = &'a Nspace> + Clone,
    ) -> Result<Vec<u8>, Status> {
        let recipient = recipient(to, &self.config.hostname);
        let write = |with_ranks: bool| {
            let mut reply = ConnectWriter::new(to.dialect, to.version, status);
            for (nspace, state) in others.clone().filter_map(|nspace| Some((nspace, self.nspaces.get(nspace)?))) {
                let ranks = jobinfo::all_ranks(&state.job).filter(|_| with_ranks);
                reply.job(nspace, |job| jobinfo::pack(job, &state.job, &recipient, ranks))?;
            }
            Ok(reply.into_bytes())
        };
        // Clients request missing ranks' values if a job is too large for one message.
        write(true).and_then(|reply| if reply.len() > MESSAGE_LEN_MAX { write(false) } else { Ok(reply) })
    }

    /// The number of unfinished collectives that a connection has entered.
    pub(super) fn fences_of(&self, peer: PeerId) -> usize {
        let is_in = |fence: &&Collective| fence.arrived.iter().any(|arrival| arrival.peer == peer);
        self.collectives.values().filter(is_in).count()
    }

    /// A connection is gone: removes its process from all collectives.
    pub(super) fn withdraw(&mut self, peer: PeerId) {
        for collective in self.collectives.values_mut() {
            for arrival in collective.arrived.extract_if(.., |arrival| arrival.peer == peer) {
                collective.present.remove(&arrival.proc);
            }
        }
        // A collective without participants ends.
        self.collectives.retain(|_, collective| collective.at_host || !collective.arrived.is_empty());
    }

    /// A request to enter a collective is taken back. Returns the collective if nobody else has entered it: it has never been.
    pub(super) fn withdraw_arrival(&mut self, peer: PeerId, tag: u32) -> Option<u64> {
        let is_it = |arrival: &Arrival| arrival.peer == peer && arrival.tag == tag;
        let id = *self.collectives.iter().find(|(_, other)| other.arrived.iter().any(is_it))?.0;
        let collective = self.collectives.get_mut(&id)?;
        if collective.arrived.len() == 1 {
            self.collectives.remove(&id);
            return Some(id);
        }
        if !collective.at_host {
            for arrival in collective.arrived.extract_if(.., |arrival| is_it(arrival)) {
                collective.present.remove(&arrival.proc);
            }
        }
        None
    }

    /// A process is lost: the collectives that wait for it continue without it.
    pub(super) fn leave_collectives(&mut self, gone: &Proc) {
        let concerned: Vec<u64> = self
            .collectives
            .iter()
            .filter(|(_, other)| !other.at_host && other.signature.iter().any(|proc| proc.covers(gone)))
            .map(|(id, _)| *id)
            .collect();
        for id in concerned {
            let Some(collective) = self.collectives.get_mut(&id) else { continue };
            // The host may report the process's end before its connection is closed: its arrival must not count in
            // place of a later one.
            let withdrawn: Vec<Arrival> = collective.arrived.extract_if(.., |arrival| arrival.proc == *gone).collect();
            collective.present.remove(gone);
            let is_empty = collective.arrived.is_empty();
            for Arrival { peer, tag, .. } in withdrawn {
                self.reply_status(peer, tag, Status::ERR_LOST_CONNECTION);
            }
            if is_empty {
                self.collectives.remove(&id);
                continue;
            }
            let Some(collective) = self.collectives.get_mut(&id) else { continue };
            if !std::mem::replace(&mut collective.is_loss_logged, true) {
                let (word, arrived) = (collective.kind.word(), collective.arrived.len());
                let procs = Proc::list(&collective.procs);
                let state = self.nspaces.get_mut(&gone.nspace);
                let is_news = state.is_none_or(|state| {
                    state.ended_unconnected.remove(&gone.rank);
                    !state.is_ending
                });
                if is_news {
                    self.log(format!("a {word} of {procs}, which {arrived} local processes have entered, lost {gone}"));
                }
            }
            self.advance(id);
        }
    }

    /// A process has finalized and is not expected back: the collectives that wait for it continue without it.
    pub(super) fn go_on_without(&mut self, over: &Proc) {
        let concerned = |other: &Collective| !other.at_host && other.signature.iter().any(|proc| proc.covers(over));
        let ids: Vec<u64> = self.collectives.iter().filter(|(_, other)| concerned(other)).map(|(id, _)| *id).collect();
        ids.into_iter().for_each(|id| self.advance(id));
    }

    /// Processes are gone that come back under no circumstances: there will be no collective that names one of them.
    pub(super) fn end_collectives(&mut self, is_gone: impl Fn(&Proc) -> bool) {
        let is_over = |collective: &Collective| collective.signature.iter().any(&is_gone);
        let ended: Vec<u64> = self.collectives.iter().filter(|(_, other)| is_over(other)).map(|(id, _)| *id).collect();
        for id in ended {
            self.complete(id, Status::ERR_NOT_FOUND);
        }
    }

    pub(super) fn expire_collectives(&mut self, now: Instant) {
        let late: Vec<u64> = self
            .collectives
            .iter()
            .filter(|(_, other)| other.deadline.is_some_and(|deadline| deadline <= now))
            .map(|(id, _)| *id)
            .collect();
        for id in late {
            if let Some(collective) = self.collectives.get(&id) {
                let (word, missing) = (collective.kind.word(), self.missing(collective, now));
                self.log(format!("a {word} timed out; missing: {missing}"));
            }
            let ended = self.ending_with(id);
            // Nobody waits for what the host answers later.
            self.upcalls.retain(|_, then| !matches!(then, Continuation::Collective(id) if ended.contains(id)));
            ended.into_iter().for_each(|id| self.complete(id, Status::ERR_TIMEOUT));
        }
    }

    pub(super) fn collective_deadline(&self) -> Option<Instant> {
        self.collectives.values().filter_map(|collective| collective.deadline).min()
    }

    /// The local participants that have not arrived, or the host's answer, in words.
    fn missing(&self, collective: &Collective, now: Instant) -> String {
        if collective.at_host {
            let of_host = || answer_of_host(collective.kind.slot(), collective.asked.unwrap_or(collective.since), now);
            return self.missing_of_construct(collective).unwrap_or_else(of_host);
        }
        let mut missing = Vec::new();
        for nspace in Self::nspaces_of(&collective.signature) {
            let Some(state) = self.nspaces.get(&nspace) else { continue };
            for rank in state.clients.keys() {
                let proc = Proc::new(nspace.clone(), *rank);
                let takes_part = collective.signature.iter().any(|participant| participant.covers(&proc));
                if takes_part && !collective.present.contains(&proc) {
                    missing.push(proc);
                }
            }
        }
        Proc::list(&missing)
    }
}

/// The relative rank of rank 0 of each participating namespace: with several, they are numbered through.
fn first_relative_ranks(nspaces: &[(Nspace, u32)]) -> HashMap<Nspace, u32> {
    let mut first = 0;
    let mut ranks = HashMap::new();
    for (nspace, size) in nspaces {
        ranks.insert(nspace.clone(), first);
        first += size;
    }
    ranks
}
