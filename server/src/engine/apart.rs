//! Isolation between jobs of different users at one server.
//!
//! A process reaches its own job and the other jobs of its user. Root and the server's user reach all jobs; the host admits further
//! users (`PMIX_ACCESS_PERMISSIONS`). The user of a job is unknown if it has no process here and its registration names no user:
//! the host decides then, and gets the asker's identity.

use pmix_dstore::model::{Info, Nspace, Proc, Status, Value, keys};

use super::Engine;
use super::nspaces::NspaceState;
use super::peer::{Actor, Peer, PeerId};
use crate::access::User;

/// The access of a process to a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// As to its own job.
    All,
    /// Nothing.
    Nothing,
    /// Only the host knows the job's user.
    HostSays,
}

impl Engine {
    /// Whether a user reaches everything here.
    pub(super) fn is_privileged(&self, user: User) -> bool {
        user.uid == 0 || user.uid == self.config.uid
    }

    /// The access of a process to `nspace`.
    pub(super) fn reach(&self, proc: &Proc, user: User, nspace: &Nspace) -> Reach {
        if self.is_privileged(user) {
            return Reach::All;
        }
        let state = self.nspaces.get(nspace);
        // A host may have put tools of several users together, and a tool may have taken the name of a job that is not its user's.
        let is_its = |state: &NspaceState| !state.is_of_tools && !state.is_guest(user.uid);
        if proc.nspace == *nspace && state.is_none_or(is_its) {
            return Reach::All;
        }
        match state {
            _ if self.config.access.admits(user) => Reach::All,
            Some(state) if state.users.contains(&user.uid) || state.access.admits(user) => Reach::All,
            Some(state) if !state.users.is_empty() => Reach::Nothing,
            _ => Reach::HostSays,
        }
    }

    /// As [`Engine::reach`], for reading: the host and the job itself can grant more.
    pub(super) fn reads(&self, proc: &Proc, user: User, nspace: &Nspace) -> Reach {
        let is_let = |nspace| self.nspaces.get(nspace).is_some_and(|state| state.readers.contains(&user.uid));
        match self.reach(proc, user, nspace) {
            Reach::All => Reach::All,
            _ if is_let(nspace) => Reach::All,
            other => other,
        }
    }

    /// Whether a process may know that the job exists.
    pub(super) fn sees(&self, proc: &Proc, user: User, nspace: &Nspace) -> bool {
        self.reads(proc, user, nspace) == Reach::All
    }

    /// Refuses a request of a peer that is to act on a process out of its reach. The empty name of a namespace is every one.
    pub(super) fn is_out_of_reach<'p>(&self, id: PeerId, procs: impl IntoIterator<Item = &'p Proc>) -> bool {
        let Some(peer) = self.peers.get(&id) else { return true };
        let is_out = |target: &Proc| match target.nspace.is_empty() {
            true => !self.is_privileged(peer.user),
            false => self.reach(&peer.proc, peer.user, &target.nspace) == Reach::Nothing,
        };
        procs.into_iter().any(is_out)
    }

    /// Permits the users of a collective's participants to read each other's jobs: participation is consent. A job
    /// without a participant here has not consented, unless the host says so (`is_of_host`).
    pub(super) fn let_read(&mut self, peers: impl Iterator<Item = PeerId>, nspaces: &[Nspace], is_of_host: bool) {
        if nspaces.len() < 2 {
            return;
        }
        let present: Vec<Actor> = peers.filter_map(|id| self.peers.get(&id)).map(Peer::actor).collect();
        let uids: Vec<u32> = present.iter().map(|actor| actor.user.uid).collect();
        for nspace in nspaces {
            let has_come = present.iter().any(|actor| actor.proc.nspace == *nspace);
            if let Some(state) = self.nspaces.get_mut(nspace).filter(|_| has_come || is_of_host) {
                state.readers.extend(&uids);
            }
        }
    }

    /// The group of a user: the server's own, or the one that the host has registered for a client.
    pub(super) fn group_of(&self, uid: u32) -> Option<u32> {
        if uid == self.config.uid {
            return Some(self.config.gid);
        }
        let jobs = self.nspaces.values().filter(|state| !state.is_of_tools);
        jobs.flat_map(|state| state.clients.values()).find(|client| client.uid == uid).map(|client| client.gid)
    }
}

/// Adds the requester's user and group for the host; the process's own claims are removed.
pub(super) fn sign(infos: &mut Vec<Info>, user: User) {
    infos.retain(|info| !info.key.is(keys::USERID) && !info.key.is(keys::GRPID));
    infos.push(Info::new(keys::USERID, Value::Uint32(user.uid)));
    infos.extend(user.gid.map(|gid| Info::new(keys::GRPID, Value::Uint32(gid))));
}

/// The same for an upcall that does not name the requester.
pub(super) fn sign_with_name(infos: &mut Vec<Info>, actor: &Actor) {
    sign(infos, actor.user);
    infos.retain(|info| !info.key.is(keys::REQUESTOR));
    infos.push(Info::new(keys::REQUESTOR, Value::Proc(actor.proc.clone())));
}

/// The answer to a request for another user's job.
pub(super) const REFUSED: Status = Status::ERR_NO_PERMISSIONS;
