//! Commits, and the publication of what ranks put.

use std::time::Instant;

use pmix_dstore::codec;
use pmix_dstore::model::{Kval, Nspace, Rank, Scope, Status, Value};

use super::peers::PeerId;
use super::{Engine, Output, PUBLISH_DELAY};

impl Engine {
    /// A client commits: its local and its remote buffer, each whole or what changed.
    pub(super) fn commit(&mut self, id: PeerId, tag: u32, parts: Vec<(u8, Vec<Kval>)>) {
        let Some(peer) = self.peers.get(&id) else { return };
        let proc = peer.proc.clone();
        let Some(state) = self.nspaces.get_mut(&proc.nspace) else {
            self.reply_status(id, tag, Status::ERR_NOT_FOUND);
            return;
        };
        let mut stale = false;
        for (scope, kvals) in parts {
            let Some(scope) = Scope::from_code(scope) else {
                self.reply_status(id, tag, Status::ERR_BAD_PARAM);
                return;
            };
            for Kval { key, value } in kvals {
                let value = expanded(value);
                if scope.is_remote() {
                    state.remote.set(proc.rank, key.clone(), value.clone());
                }
                if scope.is_local() && state.visible.set(proc.rank, key.clone(), value) {
                    stale |= state.shared.note(proc.rank, &key);
                }
            }
        }
        if let Some(client) = state.clients.get_mut(&proc.rank) {
            client.committed = true;
        }
        // A value that was put again is seen by the node's readers once the commit is answered.
        if stale {
            self.publish(&proc.nspace);
        }
        self.reply_status(id, tag, Status::SUCCESS);
        self.committed(&proc);
    }

    /// Stores what another node's rank published, and notes it for publication.
    pub(super) fn store_remote(&mut self, nspace: &Nspace, rank: Rank, kvals: Vec<Kval>) {
        let Some(state) = self.nspaces.get_mut(nspace) else { return };
        // The node's own ranks are known better here: their local buffers, and no remote-only keys.
        if state.is_local(rank) {
            return;
        }
        for Kval { key, value } in kvals {
            if state.visible.set(rank, key.clone(), expanded(value)) {
                state.shared.note(rank, &key);
            }
        }
    }

    /// Publishes what is dirty in a namespace.
    pub(super) fn publish(&mut self, nspace: &Nspace) {
        if let Some(state) = self.nspaces.get_mut(nspace) {
            let line = state.shared.flush(&state.job, &state.visible);
            self.outputs.extend(line.map(Output::Log));
        }
    }

    /// Lets what is dirty in a namespace be published soon, together with what comes until then.
    pub(super) fn publish_soon(&mut self, nspace: &Nspace, now: Instant) {
        if let Some(state) = self.nspaces.get_mut(nspace)
            && state.shared.is_dirty()
        {
            state.shared.due.get_or_insert(now + PUBLISH_DELAY);
        }
    }

    pub(super) fn publish_due(&mut self, now: Instant) {
        let due: Vec<Nspace> = self
            .nspaces
            .iter()
            .filter(|(_, state)| state.shared.due.is_some_and(|due| due <= now))
            .map(|(nspace, _)| nspace.clone())
            .collect();
        for nspace in due {
            self.publish(&nspace);
        }
    }
}

/// A string that its sender compressed, as a string: 4.x readers crash on the compressed form.
fn expanded(value: Value) -> Value {
    match value {
        Value::CompressedString(bytes) => match codec::decompress(&bytes) {
            Ok(text) => Value::string(text),
            Err(_) => Value::CompressedString(bytes),
        },
        other => other,
    }
}
