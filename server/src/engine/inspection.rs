//! What this server tells tools of itself: what waits for whom, and who is connected.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::CStr;
use std::time::Instant;

use pmix_client::inspection::{self, Connection, JobDirectory, Lost, Missed, Wait, answer};
use pmix_dstore::model::{Info, Key, Nspace, Proc, Rank, keys};

use super::Engine;
use super::collective::Collective;
use super::nspaces::NspaceState;
use super::peer::{Actor, PeerId};
use crate::report::Waiting;

/// Upper limit of the counted keys; keys beyond it are not counted.
const MISSED_MAX: usize = 256;

/// The keys that processes waited for in vain, with the number of Gets.
#[derive(Default)]
pub(super) struct MissedKeys(BTreeMap<(Nspace, Rank, Key), u64>);

impl MissedKeys {
    /// Counts a Get that failed because its key did not come.
    pub fn count(&mut self, proc: &Proc, key: &Key) {
        let entry = (proc.nspace.clone(), proc.rank, key.clone());
        if self.0.len() < MISSED_MAX || self.0.contains_key(&entry) {
            *self.0.entry(entry).or_default() += 1;
        }
    }

    /// The number of keys.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Forgets a job.
    pub fn forget(&mut self, nspace: &Nspace) {
        self.0.retain(|(of, ..), _| of != nspace);
    }
}

impl Engine {
    /// Answers a query about this server itself.
    pub(super) fn inspect(
        &self,
        key: &CStr,
        qualifiers: &[Info],
        (id, asker): (PeerId, &Actor),
        now: Instant,
    ) -> Option<Info> {
        let sees = |nspace: &Nspace| self.sees(&asker.proc, asker.user, nspace);
        let value = match key.to_str().ok()? {
            inspection::COLLECTIVES => {
                let is_seen = |collective: &&Collective| collective.signature.iter().all(|proc| sees(&proc.nspace));
                answer(self.collectives.values().filter(is_seen).map(|collective| self.view_of(collective, now)))
            }
            inspection::WAITS => {
                answer(self.waits(now).filter(|wait| sees(&wait.of.nspace) && sees(&wait.asker.nspace)))
            }
            inspection::MISSED => {
                // A key that came after all is none that is missed.
                let is_there = |nspace: &Nspace, rank: Rank, key: &Key| {
                    self.nspaces.get(nspace).is_some_and(|state| state.visible.get(rank, key.as_bytes()).is_some())
                };
                let missed = self.missed.0.iter().filter(|((nspace, rank, key), _)| !is_there(nspace, *rank, key));
                let seen = missed.filter(|((nspace, ..), _)| sees(nspace));
                answer(seen.map(|((nspace, rank, key), count)| Missed {
                    of: Proc::new(nspace.clone(), *rank),
                    key: key.to_string(),
                    count: *count,
                }))
            }
            inspection::CONNECTIONS => {
                let mut peers: Vec<_> =
                    self.peers.iter().filter(|(id, peer)| **id != PeerId::OWN && peer.admitted).collect();
                peers.sort_by_key(|(id, _)| **id);
                let seen = peers.into_iter().map(|(_, peer)| peer).filter(|peer| sees(&peer.proc.nspace));
                answer(seen.map(|peer| Connection {
                    proc: peer.proc.clone(),
                    pid: peer.pid,
                    release: peer.version_text.clone(),
                    is_shared: peer.shared,
                    is_tool: peer.is_tool,
                }))
            }
            inspection::LOST => {
                let lost_of = |(nspace, state): (&Nspace, &NspaceState)| {
                    let nspace = nspace.clone();
                    let lost: BTreeSet<Rank> = state.local_ranks().filter(|rank| state.is_lost(*rank)).collect();
                    lost.into_iter().map(move |rank| Lost { proc: Proc::new(nspace.clone(), rank) })
                };
                answer(self.nspaces.iter().filter(|(nspace, _)| sees(nspace)).flat_map(lost_of))
            }
            inspection::DIRECTORY => {
                let found = self.directory_for(id, qualifiers).filter(|(nspace, _)| sees(nspace));
                answer(found.map(|(_, directory)| directory))
            }
            _ => return None,
        };
        Some(Info { key: Key::new(key.to_bytes()).ok()?, flags: 0, value })
    }

    /// The job that the qualifiers name, and its directory. On another host the path would lead to nothing.
    fn directory_for(&self, id: PeerId, qualifiers: &[Info]) -> Option<(Nspace, JobDirectory)> {
        self.peers.get(&id).filter(|peer| !peer.is_remote)?;
        let nspace = Nspace::new(Info::find(qualifiers, keys::NSPACE)?.as_text()?).ok()?;
        let (path, directory) = self.nspaces.get(&nspace)?.ledger.directory()?;
        Some((nspace, JobDirectory { path, id: directory }))
    }

    /// What processes wait for, of all jobs.
    pub fn waiting(&self, now: Instant) -> Waiting {
        let collectives = self.collectives.values().map(|collective| self.view_of(collective, now)).collect();
        let mut gets: Vec<Wait> = self.waits(now).collect();
        gets.sort_by(|one, other| one.asker.cmp(&other.asker));
        Waiting { collectives, gets }
    }

    fn view_of(&self, collective: &Collective, now: Instant) -> inspection::Collective {
        let mut entered: Vec<Proc> = collective.present.iter().cloned().collect();
        entered.sort();
        inspection::Collective {
            operation: collective.kind.word().to_owned(),
            procs: collective.procs.iter().take(inspection::PROCS_MAX).cloned().collect(),
            named: collective.procs.len() as u64,
            age: now.saturating_duration_since(collective.since),
            entered,
            absent: if collective.at_host { Vec::new() } else { self.absent_from(collective) },
            at_host: collective.at_host,
        }
    }

    /// The processes of this node that a collective waits for, sorted.
    fn absent_from(&self, collective: &Collective) -> Vec<Proc> {
        let over: BTreeSet<Proc> = self.over_for(collective).into_iter().collect();
        let mut absent = Vec::new();
        for nspace in Self::nspaces_of(&collective.signature) {
            let Some(state) = self.nspaces.get(&nspace) else { continue };
            // Sorted, and possibly as long as the job: each rank is looked up, not compared with all.
            let is_in = |proc: &Proc| collective.signature.binary_search(proc).is_ok();
            let has_all = is_in(&Proc::new(nspace.clone(), Rank::WILDCARD));
            let is_named = |proc: &Proc| has_all || is_in(proc);
            let alive = state.local_ranks().filter(|rank| state.is_alive(*rank));
            let procs = alive.map(|rank| Proc::new(nspace.clone(), rank)).filter(is_named);
            absent.extend(procs.filter(|proc| !collective.present.contains(proc) && !over.contains(proc)));
        }
        absent.sort();
        absent.dedup();
        absent
    }

    /// The Gets that wait.
    fn waits(&self, now: Instant) -> impl Iterator<Item = Wait> {
        self.gets.waiting().filter_map(move |(of, get)| {
            Some(Wait {
                asker: self.peers.get(&get.peer)?.proc.clone(),
                of: of.clone(),
                key: get.key.as_ref().map(ToString::to_string),
                age: now.saturating_duration_since(get.since),
                at_host: self.gets.is_asked(of),
            })
        })
    }
}
