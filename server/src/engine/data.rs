//! Commits, and the publication of ranks' values.

use std::sync::Arc;
use std::time::Instant;

use pmix_dstore::compression;
use pmix_dstore::model::{Backing, Info, Key, Kval, Nspace, Proc, Rank, Result, Scope, Status, Value, keys};
use pmix_dstore::{fallible_alloc, qualified};
use pmix_wire::{Deletion, TAG_DELETED, TAG_FIRST_COMMIT};

use super::nspaces::{JobPlan, NspaceState};
use super::peer::{Peer, PeerId};
use super::{Engine, PUBLISH_DELAY};

impl Engine {
    /// A client commits its local and its remote buffer, each complete or only the changes.
    pub(super) fn commit(&mut self, id: PeerId, tag: u32, parts: Vec<(u8, Vec<Kval>)>, len: usize) {
        let Some(peer) = self.peers.get(&id) else { return };
        let proc = peer.proc.clone();
        if id == PeerId::OWN {
            self.know_own_nspace(&proc.nspace);
        }
        self.journal_commit(&proc, &parts);
        let Some(state) = self.nspaces.get_mut(&proc.nspace) else {
            self.reply_status(id, tag, Status::ERR_NOT_FOUND);
            return;
        };
        let mut stale = false;
        let mut deleted = Vec::new();
        let mut stored: Result<()> = Ok(());
        for (code, kvals) in parts {
            let (scope, deletion) = (Scope::from_code(code), Scope::of_deletion(code));
            let Some(scope) = scope.or(deletion) else {
                self.reply_status(id, tag, Status::ERR_BAD_PARAM);
                return;
            };
            stored = stored.and_then(|()| match deletion {
                None => qualified::gather(kvals)?.into_iter().try_for_each(|Kval { key, value }| {
                    stale |= state.store(proc.rank, key, expanded(value)?, scope)?;
                    Ok(())
                }),
                Some(scope) => kvals.into_iter().try_for_each(|Kval { key, .. }| {
                    let (was_there, is_stale) = state.delete(proc.rank, &key, scope)?;
                    stale |= is_stale;
                    if was_there { fallible_alloc::push(&mut deleted, key) } else { Ok(()) }
                }),
            });
        }
        if let Some(client) = state.clients.get_mut(&proc.rank) {
            client.committed = true;
            client.refused = false;
        }
        if stale {
            self.publish(&proc.nspace);
        }
        if !deleted.is_empty() {
            // After the notification of a deletion, readers must not find the value in a segment.
            let of = proc.clone();
            self.after_publication([&proc.nspace], move |engine| {
                deleted.into_iter().for_each(|key| engine.notify_of_deletion(Some(id), of.clone(), key));
            });
        }
        match stored {
            Ok(()) if tag == TAG_FIRST_COMMIT => self.needs_no_reply(id, tag),
            // A value that was put again is seen by the node's readers once the commit is answered.
            Ok(()) if stale => {
                self.after_publication([&proc.nspace], move |engine| engine.reply_status(id, tag, Status::SUCCESS));
            }
            Ok(()) => self.reply_status(id, tag, Status::SUCCESS),
            // Stored values stay: the client may repeat the commit.
            Err(_) => self.refuse(id, tag, len, true),
        }
        self.committed(&proc);
    }

    /// The host itself commits, and need not have registered its own namespace: it is created here, because clients read the puts from it.
    fn know_own_nspace(&mut self, nspace: &Nspace) {
        if !self.nspaces.contains_key(nspace) {
            let no_data = [Info::new(keys::REGISTER_NODATA, Value::Bool(true))];
            if let Ok(plan) = JobPlan::read(nspace, 0, &no_data[..], None, &self.config.hostname) {
                self.register_nspace(plan);
            }
        }
    }

    /// Removes all puts of a process of this node.
    pub(super) fn forget_values(&mut self, proc: &Proc) {
        let Some(state) = self.nspaces.get_mut(&proc.nspace) else { return };
        let all = state.visible.rank(proc.rank).chain(state.remote.rank(proc.rank));
        let keys: Vec<Key> = all.map(|(key, _)| key.clone()).collect();
        let mut gone = Vec::new();
        for key in keys {
            // Without memory to note it, readers of segments may keep it until the next one is published.
            if state.delete(proc.rank, &key, Scope::Global).is_ok_and(|(was_there, _)| was_there) {
                gone.push(key);
            }
        }
        state.visible.forget_rank(proc.rank);
        state.remote.forget_rank(proc.rank);
        self.publish(&proc.nspace);
        let of = proc.clone();
        self.after_publication([&proc.nspace], move |engine| {
            gone.into_iter().for_each(|key| engine.notify_of_deletion(None, of.clone(), key));
        });
    }

    /// Notifies peers with a cache of a deleted key, except the one that has deleted it. It is gone from shared memory
    /// already.
    fn notify_of_deletion(&mut self, by: Option<PeerId>, proc: Proc, key: Key) {
        let is_receiver = |(id, peer): &(&PeerId, &Peer)| peer.gets_deletions && peer.admitted && Some(**id) != by;
        let peers: Vec<PeerId> = self.peers.iter().filter(is_receiver).map(|(id, _)| *id).collect();
        let deletion = Deletion { proc, scope: Scope::Global, key };
        for id in peers {
            self.send(id, TAG_DELETED, |dialect, version| deletion.encode(dialect, version));
        }
    }

    /// Stores values of another node's rank, and notes them for publication. A key without a value has been deleted.
    ///
    /// # Errors
    /// `NOMEM`; a part of it may be stored.
    pub(super) fn store_remote(&mut self, nspace: &Nspace, rank: Rank, kvals: Vec<Kval>) -> Result<()> {
        let Some(state) = self.nspaces.get_mut(nspace) else { return Ok(()) };
        // For the node's own ranks this server has the local buffers, which are more complete and have no remote-only keys.
        if state.is_local(rank) {
            return Ok(());
        }
        let mut deleted = Vec::new();
        let stored = qualified::gather(kvals)?.into_iter().try_for_each(|Kval { key, value }| {
            if value == Value::Undef {
                let (was_there, _) = state.delete(rank, &key, Scope::Local)?;
                return if was_there { fallible_alloc::push(&mut deleted, key) } else { Ok(()) };
            }
            state.store(rank, key, expanded(value)?, Scope::Local)?;
            Ok(())
        });
        let proc = Proc::new(nspace.clone(), rank);
        deleted.into_iter().for_each(|key| self.notify_of_deletion(None, proc.clone(), key));
        stored
    }

    /// Publishes the dirty values of a namespace.
    pub(super) fn publish(&mut self, nspace: &Nspace) {
        let Some(ledger) = self.nspaces.get_mut(nspace).map(|state| &mut state.ledger) else { return };
        ledger.due = None;
        // Without a directory, before the first client, values stay noted and are published when it is made.
        if let Some(number) = ledger.number().filter(|_| ledger.is_dirty()) {
            self.want_publication(number);
        }
    }

    /// Schedules the publication of a namespace's dirty values after a short delay, so that later ones go with it.
    pub(super) fn publish_soon(&mut self, nspace: &Nspace, now: Instant) {
        if let Some(state) = self.nspaces.get_mut(nspace)
            && state.ledger.is_dirty()
        {
            state.ledger.due.get_or_insert(now + PUBLISH_DELAY);
        }
    }

    pub(super) fn publish_due(&mut self, now: Instant) {
        let due: Vec<Nspace> = self
            .nspaces
            .iter()
            .filter(|(_, state)| state.ledger.due.is_some_and(|due| due <= now))
            .map(|(nspace, _)| nspace.clone())
            .collect();
        for nspace in due {
            self.publish(&nspace);
        }
    }
}

impl NspaceState {
    /// Copies the values that reference memory before it is returned to the host.
    ///
    /// # Errors
    /// `NOMEM`; some values still reference it then.
    pub fn copy_out_of(&mut self, whole: &Arc<Backing>) -> Result<()> {
        self.visible.copy_parts_of(whole)?;
        self.ledger.reference_copies(whole, &self.visible);
        Ok(())
    }

    /// Stores a value for the readers in its scope; returns whether readers of segments may have an older one.
    pub(super) fn store(&mut self, rank: Rank, key: Key, value: Value, scope: Scope) -> Result<bool> {
        let mut value = Arc::new(value);
        if qualified::is_key(&key) {
            if scope == Scope::Global {
                // Local and remote readers may have values with other qualifiers, which must not mix, so each is merged apart.
                self.store(rank, key.clone(), value.copy()?, Scope::Remote)?;
                return self.store(rank, key, Value::clone(&value), Scope::Local);
            }
            // Values with other qualifiers stay.
            let known = if scope.is_local() { &self.visible } else { &self.remote };
            value = Arc::new(qualified::merge(known.get(rank, key.as_bytes()), &value)?);
        }
        // A global value arrives once per buffer; both share one copy.
        let other = if scope.is_local() { &self.remote } else { &self.visible };
        if let Some(same) = other.shared(rank, key.as_bytes()).filter(|same| **same == value) {
            value = Arc::clone(same);
        }
        if scope.is_remote() {
            self.changes.make_room(rank)?;
            if self.remote.set(rank, key.clone(), Arc::clone(&value))? {
                self.changes.note(rank, &key);
            }
        }
        if !scope.is_local() {
            return Ok(false);
        }
        self.ledger.make_room()?;
        Ok(self.visible.set(rank, key.clone(), value)? && self.ledger.note(rank, &key))
    }

    /// The published value of a key is for other nodes, too.
    ///
    /// # Errors
    /// `NOMEM`.
    pub(super) fn share_published(&mut self, rank: Rank, key: Key) -> Result<()> {
        let Some(value) = self.visible.shared(rank, key.as_bytes()).cloned() else { return Ok(()) };
        self.changes.make_room(rank)?;
        if self.remote.set(rank, key.clone(), value)? {
            self.changes.note(rank, &key);
        }
        Ok(())
    }

    /// Stores or deletes the values of a part of a commit that the server before this one has taken.
    ///
    /// # Errors
    /// `NOMEM`.
    pub(super) fn store_part(&mut self, rank: Rank, code: u8, kvals: Vec<Kval>) -> Result<()> {
        if let Some(scope) = Scope::of_deletion(code) {
            return kvals.into_iter().try_for_each(|kval| self.delete(rank, &kval.key, scope).map(drop));
        }
        let Some(scope) = Scope::from_code(code) else { return Ok(()) };
        let mut kvals = qualified::gather(kvals)?.into_iter();
        kvals.try_for_each(|Kval { key, value }| self.store(rank, key, expanded(value)?, scope).map(drop))
    }

    /// Deletes a value for the readers in its scope; returns whether local readers had one, and whether readers of segments may still
    /// have it.
    fn delete(&mut self, rank: Rank, key: &Key, scope: Scope) -> Result<(bool, bool)> {
        if scope.is_remote() {
            self.changes.make_room(rank)?;
            if self.remote.remove(rank, key.as_bytes()) {
                self.changes.note_gone(rank, key);
            }
        }
        if !scope.is_local() {
            return Ok((false, false));
        }
        self.ledger.make_room()?;
        let was_there = self.visible.remove(rank, key.as_bytes());
        Ok((was_there, was_there && self.ledger.note(rank, key)))
    }
}

/// A string that its sender compressed, as a string: 4.x readers crash on the compressed form.
fn expanded(value: Value) -> Result<Value> {
    match value {
        Value::CompressedString(bytes) => match compression::expand_string(&bytes) {
            Ok(text) => Ok(Value::String(Some(text))),
            Err(Status::ERR_NOMEM) => Err(Status::ERR_NOMEM),
            Err(_) => Ok(Value::CompressedString(bytes)),
        },
        other => Ok(other),
    }
}
