//! What a server that may be restarted notes for the next one, and what it takes from the one before (`docs/restart.md`).
//!
//! The engine makes the records; `crate::publisher` writes them, before any message that the records precede.

use std::collections::{BTreeSet, HashSet, VecDeque};

use pmix_dstore::gather::Slices;
use pmix_dstore::model::{Info, Key, Kval, Nspace, Proc, Rank, Result, Scope, Status, Value};
use pmix_wire::reply::FenceReply;
use pmix_wire::{ClientReply, FORMER_INDEX, Hello};

use super::collective::Arrival;
use super::ledger::DirectoryNumber;
use super::nspaces::NspaceState;
use super::peer::PeerId;
use super::{Engine, Output};
use crate::restart::{CONNECTIONS_OF_LIFE, Change, Estate, Fate, Record, add_released};

/// Bytes that a journal may grow before it is written anew, however short it was.
const ADDED_MIN: usize = 64 << 10;

/// What is to be done with a journal.
pub(crate) enum JournalEntry {
    /// Add a record.
    Append(Record),
    /// Replace all records.
    Rewrite(Vec<Record>),
    /// Remove it: something could not be noted.
    Stop(String),
}

/// Takes the index of the former connection out of a handshake, if there was one.
pub(super) fn take_former(infos: &mut Vec<Info>) -> Option<u32> {
    let at = infos.iter().position(|info| info.key.is(FORMER_INDEX))?;
    infos.remove(at).value.as_u32()
}

/// The value that stands for a deleted one.
static GONE: Value = Value::Undef;

/// A part of a commit with borrowed values.
type Part<'a> = (u8, Vec<(&'a Key, &'a Value)>);

impl NspaceState {
    /// Takes what the server before this one has left.
    ///
    /// # Errors
    /// `NOMEM`.
    fn take(&mut self, estate: Estate) -> Result<()> {
        for (rank, secret) in estate.secrets {
            self.heirs.entry(rank).or_default().secret = Some(secret);
        }
        for (rank, fate) in estate.fates {
            self.heirs.entry(rank).or_default().fate = fate;
            if fate.has_left {
                self.deregistered.insert(rank);
            }
        }
        self.released = estate.released;
        for segment in &estate.segments {
            for (rank, key, value) in &segment.contents {
                self.visible.set(*rank, key.clone(), value.clone())?;
            }
        }
        self.ledger.adopt(estate.segments)?;
        for change in estate.changes {
            match change {
                Change::Remote(rank, keys) => {
                    keys.into_iter().try_for_each(|key| self.share_published(rank, key))?;
                }
                Change::Commit(rank, parts) => {
                    self.heirs.entry(rank).or_default().committed = true;
                    parts.into_iter().try_for_each(|(code, kvals)| self.store_part(rank, code, kvals))?;
                }
            }
        }
        Ok(())
    }

    fn fate_of(&self, rank: Rank) -> Fate {
        Fate {
            finalized: self.cycle_of(rank),
            is_gone: self.gone.contains(&rank),
            is_over: self.over.contains(&rank),
            has_left: self.deregistered.contains(&rank),
            is_here: self.clients.get(&rank).is_some_and(|client| client.is_awaited || !client.connections.is_empty()),
        }
    }

    /// The directory with its journal.
    fn journal_number(&self) -> Option<DirectoryNumber> {
        self.ledger.number().filter(|_| !self.ledger.journal.is_off)
    }

    /// All of its journal, to be written anew. Not while values are on their way into a segment: then neither the segment nor the journal
    /// would have them.
    fn journal_anew(&mut self) -> JournalEntry {
        match self.records() {
            Ok(records) => {
                let base = records.iter().map(Record::total_len).sum();
                let journal = &mut self.ledger.journal;
                (journal.added, journal.base, journal.has_values) = (0, base, false);
                JournalEntry::Rewrite(records)
            }
            Err(status) => JournalEntry::Stop(status.to_string()),
        }
    }

    /// All that the next server needs and segments do not have.
    ///
    /// # Errors
    /// `NOMEM`, and errors of values that cannot be packed.
    fn records(&self) -> Result<Vec<Record>> {
        let mut records = Vec::new();
        let secrets = self.clients.iter().map(|(rank, client)| (*rank, &client.secret));
        let of_heirs = self.heirs.iter().filter_map(|(rank, heir)| Some((*rank, heir.secret.as_ref()?)));
        let early = self.early.iter().map(|(rank, secret)| (*rank, secret));
        for (rank, secret) in of_heirs.chain(early).chain(secrets) {
            records.push(Record::secret(rank, secret)?);
        }
        let unpublished: HashSet<(Rank, &[u8])> =
            self.ledger.unpublished().map(|(rank, key)| (rank, key.as_bytes())).collect();
        let ranks: BTreeSet<Rank> = self.local_ranks().chain(self.heirs.keys().copied()).collect();
        for rank in ranks {
            let heir = self.heirs.get(&rank);
            let fate = heir.map_or_else(|| self.fate_of(rank), |heir| heir.fate);
            if fate != Fate::default() {
                records.push(Record::fate(rank, fate)?);
            }
            let has_committed = self.clients.get(&rank).is_some_and(|client| client.committed);
            if has_committed || heir.is_some_and(|heir| heir.committed) {
                self.add_values(rank, &unpublished, &mut records)?;
            }
        }
        for ((rank, index), fences) in &self.released {
            for (tag, status) in fences {
                records.push(Record::released(*status, &[(*rank, *index, *tag)])?);
            }
        }
        Ok(records)
    }

    /// The values of a process: those that no segment has, and the names of those that are for other nodes, too.
    fn add_values(&self, rank: Rank, unpublished: &HashSet<(Rank, &[u8])>, to: &mut Vec<Record>) -> Result<()> {
        let is_new = |key: &Key| unpublished.contains(&(rank, key.as_bytes()));
        let (mut local, mut remote, mut global, mut shared) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for (key, value) in self.visible.rank(rank).filter(|(key, _)| is_new(key)) {
            let is_global = self.remote.get(rank, key.as_bytes()) == Some(value);
            if is_global { global.push((key, value)) } else { local.push((key, value)) }
        }
        for (key, value) in self.remote.rank(rank) {
            match self.visible.get(rank, key.as_bytes()) {
                Some(seen) if seen == value && is_new(key) => {}
                Some(seen) if seen == value => shared.push(key),
                _ => remote.push((key, value)),
            }
        }
        let deleted = self
            .ledger
            .unpublished()
            .filter(|(of, key)| *of == rank && self.visible.get(rank, key.as_bytes()).is_none());
        let deleted = deleted.map(|(_, key)| (key, &GONE)).collect();
        let parts: Vec<Part<'_>> = vec![
            (Scope::Local.deletion_code(), deleted),
            (Scope::Local as u8, local),
            (Scope::Remote as u8, remote),
            (Scope::Global as u8, global),
        ];
        let parts: Vec<Part<'_>> = parts.into_iter().filter(|(_, kvals)| !kvals.is_empty()).collect();
        to.push(Record::remote(rank, shared.into_iter())?);
        // Without values it says that the process has committed.
        to.push(Record::commit(rank, &parts)?);
        Ok(())
    }
}

/// A journal is written anew: what was noted before is among its records.
fn replace(journals: &mut VecDeque<(DirectoryNumber, JournalEntry)>, number: DirectoryNumber, entry: JournalEntry) {
    journals.retain(|(other, _)| *other != number);
    journals.push_back((number, entry));
}

impl Engine {
    /// Takes what servers that were killed have left, for when the host registers the namespaces again.
    pub fn expect_again(&mut self, estates: impl IntoIterator<Item = (Nspace, Estate)>) {
        self.estates.extend(estates);
    }

    /// The host registers a namespace, or a process of it: takes what the server before this one has left of it.
    pub(super) fn inherit(&mut self, nspace: &Nspace) {
        if self.estates.is_empty() {
            return;
        }
        let Some(estate) = self.estates.remove(nspace) else { return };
        let state = self.nspaces.entry(nspace.clone()).or_insert_with(|| NspaceState::new(nspace.clone()));
        let (secrets, segments) = (estate.secrets.len(), estate.segments.len());
        let line = match state.take(estate) {
            Ok(()) => format!(
                "namespace {nspace}: taken over from a server that was killed, with {secrets} processes and {segments} segments of values"
            ),
            Err(status) => format!("namespace {nspace}: some values of the server that was killed are lost: {status}"),
        };
        self.log(line);
    }

    /// The directory with a journal of a namespace.
    fn journal_of(&self, nspace: &Nspace) -> Option<(DirectoryNumber, &NspaceState)> {
        let state = self.config.restart.and_then(|_| self.nspaces.get(nspace))?;
        Some((state.journal_number()?, state))
    }

    /// Notes a record, or that it could not be made.
    fn note(&mut self, nspace: &Nspace, record: Result<Record>) {
        if self.config.restart.is_none() {
            return;
        }
        let Some(state) = self.nspaces.get_mut(nspace) else { return };
        let Some(number) = state.journal_number() else { return };
        match record {
            Ok(record) => {
                let journal = &state.ledger.journal;
                let is_long = journal.added > ADDED_MIN.max(2 * journal.base);
                if is_long && !self.publications.is_writing(number) {
                    // Before this record: what it tells may not be stored yet, and would be neither in the state that is written anew nor in the
                    // journal.
                    replace(&mut self.journal, number, state.journal_anew());
                }
                state.ledger.journal.added += record.total_len();
                self.journal.push_back((number, JournalEntry::Append(record)));
            }
            Err(status) => {
                state.ledger.journal.is_off = true;
                self.journal.push_back((number, JournalEntry::Stop(status.to_string())));
            }
        }
    }

    /// Values have been published: the journal need not have them any more. If others are on their way into a segment, it stays: then neither
    /// the segment nor the journal would have them.
    pub(super) fn shorten_journal(&mut self, nspace: &Nspace) {
        let state = self.nspaces.get_mut(nspace).filter(|state| state.ledger.journal.has_values);
        let Some((state, number)) = state.and_then(|state| state.journal_number().map(|number| (state, number))) else {
            return;
        };
        if !self.publications.is_writing(number) {
            replace(&mut self.journal, number, state.journal_anew());
        }
    }

    /// The first records of a namespace whose directory is about to be made, or why there are none.
    pub(super) fn first_records(&self, nspace: &Nspace) -> Option<Result<Vec<Record>>> {
        let (_, state) = self.journal_of(nspace)?;
        state.ledger.is_opening().then(|| state.records())
    }

    /// Takes what is to be written to journals that exist.
    pub fn take_journal(&mut self, exists: impl Fn(DirectoryNumber) -> bool) -> Vec<(DirectoryNumber, JournalEntry)> {
        if self.journal.is_empty() {
            return Vec::new();
        }
        let (taken, kept): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.journal).into_iter().partition(|(number, _)| exists(*number));
        self.journal = kept.into();
        taken
    }

    /// A journal could not be written, and there is none any more.
    pub fn journal_failed(&mut self, number: DirectoryNumber) {
        self.journal.retain(|(other, _)| *other != number);
        let state = self.nspaces.values_mut().find(|state| state.ledger.number() == Some(number));
        if let Some(state) = state {
            state.ledger.journal.is_off = true;
        }
    }

    /// Notes the secret of a process.
    pub(super) fn journal_client(&mut self, proc: &Proc) {
        let Some((_, state)) = self.journal_of(&proc.nspace) else { return };
        let of_client = state.clients.get(&proc.rank).map(|client| &client.secret);
        let Some(secret) = of_client.or_else(|| state.early.get(&proc.rank)) else { return };
        let record = Record::secret(proc.rank, secret);
        self.note(&proc.nspace, record);
    }

    /// Notes what has become of a process.
    pub(super) fn journal_fate(&mut self, proc: &Proc) {
        let Some((_, state)) = self.journal_of(&proc.nspace) else { return };
        let record = Record::fate(proc.rank, state.fate_of(proc.rank));
        self.note(&proc.nspace, record);
    }

    /// Notes a commit, before it is stored.
    pub(super) fn journal_commit(&mut self, proc: &Proc, parts: &[(u8, Vec<Kval>)]) {
        if self.journal_of(&proc.nspace).is_none() {
            return;
        }
        let parts: Vec<Part<'_>> = parts
            .iter()
            .map(|(code, kvals)| (*code, kvals.iter().map(|kval| (&kval.key, &kval.value)).collect()))
            .collect();
        let record = Record::commit(proc.rank, &parts);
        self.note(&proc.nspace, record);
        if let Some(state) = self.nspaces.get_mut(&proc.nspace) {
            state.ledger.journal.has_values = true;
        }
    }

    /// Notes that a fence is over for these, before they are told.
    pub(super) fn journal_released(&mut self, arrived: &[Arrival], status: Status) {
        if self.config.restart.is_none() {
            return;
        }
        let nspaces: BTreeSet<&Nspace> = arrived.iter().map(|arrival| &arrival.proc.nspace).collect();
        for nspace in nspaces {
            let of_nspace =
                arrived.iter().filter(|arrival| arrival.proc.nspace == *nspace && arrival.peer != PeerId::OWN);
            let participants: Vec<(Rank, u32, u32)> =
                of_nspace.map(|arrival| (arrival.proc.rank, arrival.peer.index(), arrival.tag)).collect();
            let Some(state) = self.nspaces.get_mut(nspace).filter(|_| !participants.is_empty()) else { continue };
            for (rank, index, tag) in &participants {
                add_released(&mut state.released, (*rank, *index), (*tag, status));
            }
            self.note(nspace, Record::released(status, &participants));
        }
    }

    /// Whether a client may come that has had the connection `former`. If that was to this server, it is told that its connection is lost.
    /// One that the server before this one knew and the host has not registered again yet is to come later, and no line tells of it.
    pub(super) fn may_come_again(&mut self, peer: PeerId, former: Option<u32>, hello: &Hello) -> bool {
        let is_of_this = |former| u64::from(former) >= u64::from(self.config.life) * CONNECTIONS_OF_LIFE;
        if former.is_some_and(is_of_this) {
            let reply = ClientReply { status: Status::ERR_LOST_CONNECTION, index: peer.index() }.encode();
            self.outputs.push_back(Output::Admit { peer, status: Status::ERR_LOST_CONNECTION, reply });
            return false;
        }
        let Some(proc) = &hello.proc else { return true };
        let is_heir = |state: &NspaceState| state.heirs.contains_key(&proc.rank);
        let is_too_early =
            self.estates.contains_key(&proc.nspace) || self.nspaces.get(&proc.nspace).is_some_and(is_heir);
        if is_too_early {
            self.outputs.push_back(Output::Close(peer));
        }
        !is_too_early
    }

    /// A client has come again: fences that are over for its former connection are over for this one. They stay over for the former one: if this
    /// server is killed before the client hears that it is let in, it comes to the next one with the same former connection. So those of lives
    /// before that are not asked for any more.
    pub(super) fn take_former_fences(&mut self, proc: &Proc, former: u32, peer: PeerId) {
        let Some(state) = self.nspaces.get_mut(&proc.nspace) else { return };
        let life = |index: u32| u64::from(index) / CONNECTIONS_OF_LIFE;
        state.released.retain(|(rank, index), _| *rank != proc.rank || life(*index) >= life(former));
        let Some(fences) = state.released.get(&(proc.rank, former)).cloned() else { return };
        for (tag, status) in &fences {
            self.note(&proc.nspace, Record::released(*status, &[(proc.rank, peer.index(), *tag)]));
        }
        if let Some(state) = self.nspaces.get_mut(&proc.nspace) {
            state.released.insert((proc.rank, peer.index()), fences);
        }
    }

    /// Answers a fence that was over at the server before this one, whose reply was lost with it; whether it was.
    pub(super) fn is_over_for_former(&mut self, peer: PeerId, tag: u32) -> bool {
        let status = self.status_of_former(peer, tag);
        if let Some(status) = status {
            self.reply(peer, tag, &FenceReply { status, segment_count: None });
        }
        status.is_some()
    }

    fn status_of_former(&self, peer: PeerId, tag: u32) -> Option<Status> {
        self.config.restart?;
        let proc = &self.peers.get(&peer)?.proc;
        let fences = self.nspaces.get(&proc.nspace)?.released.get(&(proc.rank, peer.index()))?;
        fences.iter().find(|(of, _)| *of == tag).map(|(_, status)| *status)
    }

    /// A connection is gone: nobody asks for its fences again.
    pub(super) fn forget_fences_of(&mut self, id: PeerId, proc: &Proc) {
        if self.config.restart.is_none() {
            return;
        }
        if let Some(state) = self.nspaces.get_mut(&proc.nspace) {
            state.released.remove(&(proc.rank, id.index()));
        }
    }
}
