//! Resolves the names of processes in requests: groups, the ranks of the caller's node, jobs of its cluster.

use pmix_dstore::maps;
use pmix_dstore::model::{KeyRef, Nspace, Proc, Rank, Status, keys};
use pmix_dstore::realm_resolution::{self, Caller, Selector};

use super::Engine;

impl Engine {
    /// Resolves the processes that `caller` names: an empty namespace is its own job, a group its members, the ranks `LOCAL_PEERS` and
    /// `LOCAL_NODE` the processes of this node, and a name with the caller's cluster (`cluster:nspace`) the namespace.
    ///
    /// # Errors
    /// `BAD_PARAM` for an index beyond a group's members.
    pub(super) fn members_of(&self, caller: &Proc, mut procs: Vec<Proc>) -> Result<Vec<Proc>, Status> {
        procs.iter_mut().filter(|proc| proc.nspace.is_empty()).for_each(|proc| proc.nspace = caller.nspace.clone());
        let procs = self.of_this_node(self.of_this_cluster(caller, procs));
        self.of_groups(procs)
    }

    /// Removes the name of the caller's cluster from the names of jobs: `cluster:nspace`.
    fn of_this_cluster(&self, caller: &Proc, mut procs: Vec<Proc>) -> Vec<Proc> {
        for proc in procs.iter_mut().filter(|proc| !self.nspaces.contains_key(&proc.nspace)) {
            let Some((cluster, name)) = proc.nspace.split_cluster() else { continue };
            if let (true, Ok(name)) = (self.cluster_of(&caller.nspace) == Some(cluster), Nspace::new(name)) {
                proc.nspace = name;
            }
        }
        procs
    }

    /// The name of the cluster that a job is in, if the host has told it.
    pub(super) fn cluster_of(&self, nspace: &Nspace) -> Option<&[u8]> {
        let job = self.nspaces.get(nspace).map(|state| &state.job)?;
        let id = keys::CLUSTER_ID.as_bytes();
        job.session.get(id).or_else(|| job.job.get(id))?.as_text()
    }

    /// Replaces the special ranks by this node's processes, of the named job or of all jobs.
    fn of_this_node(&self, procs: Vec<Proc>) -> Vec<Proc> {
        let is_special = |proc: &Proc| matches!(proc.rank, Rank::LOCAL_PEERS | Rank::LOCAL_NODE);
        if !procs.iter().any(is_special) {
            return procs;
        }
        let mut members = Vec::new();
        for proc in procs {
            match proc.rank {
                Rank::LOCAL_PEERS => members.extend(self.peers_here(&proc.nspace)),
                Rank::LOCAL_NODE => members.extend(self.nspaces.keys().flat_map(|nspace| self.peers_here(nspace))),
                _ => members.push(proc),
            }
        }
        members.sort();
        members.dedup();
        members
    }

    /// The processes of a job on this node: those of its maps, because hosts may register clients one after the other; without maps the
    /// registered ones.
    fn peers_here(&self, nspace: &Nspace) -> Vec<Proc> {
        let Some(state) = self.nspaces.get(nspace).filter(|state| !state.is_of_tools) else { return Vec::new() };
        let of = |rank| Proc::new(nspace.clone(), rank);
        let caller = Caller { rank: state.clients.keys().next().copied(), hostname: self.config.hostname.as_bytes() };
        let key = KeyRef::from(keys::LOCAL_PEERS);
        let said = realm_resolution::find(&*state.job, Rank::WILDCARD, &key, &Selector::NOTHING, &caller);
        let said = said.filter(|_| state.nlocal > 0).and_then(|said| said.to_value().ok());
        match said.as_ref().and_then(|said| maps::parse_ranks(said.as_text()?).ok()) {
            Some(ranks) => ranks.into_iter().map(|rank| of(Rank(rank))).collect(),
            None => state.clients.keys().map(|rank| of(*rank)).collect(),
        }
    }
}
