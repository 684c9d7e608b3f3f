//! A job of a host: its description, its registration, and the environment of its ranks.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;
use std::sync::Arc;

use nix::unistd::{getegid, geteuid};
use pmix_dstore::model::{Info, Nspace, Proc, Rank, attributes};
use pmix_dstore::settings;
use pmix_server::Server;

use crate::error::{Cause, Error, Result, done};

/// A variable of a known launcher. Open MPI 4 takes the job of a launcher that sets none for singletons (docs/hosts.md).
const LAUNCHED: (&str, &str) = ("JSM_JSRUN_PORT", "pmix");

/// The description of a job that is not registered yet: [`Host::job`](crate::Host::job) begins it.
///
/// From the nodes follow the sizes, the maps, and for each process its node, its rank there and its peers. What else the host knows is added
/// by [`JobBuilder::info`].
#[must_use = "a job is registered by `register`"]
pub struct JobBuilder {
    server: Arc<Server>,
    name: String,
    nodes: Vec<(String, Vec<u32>)>,
    infos: Vec<Info>,
}

/// A registered job.
pub struct Job {
    server: Arc<Server>,
    nspace: Nspace,
    /// The node of each rank.
    node_of: BTreeMap<u32, String>,
    here: String,
}

impl JobBuilder {
    pub(crate) fn new(server: Arc<Server>, name: &str) -> JobBuilder {
        JobBuilder { server, name: name.to_owned(), nodes: Vec::new(), infos: Vec::new() }
    }

    /// Adds a node and its ranks. Each host registers the whole job, with the nodes in the same order.
    pub fn node(mut self, name: &str, ranks: impl IntoIterator<Item = u32>) -> JobBuilder {
        self.nodes.push((name.to_owned(), ranks.into_iter().collect()));
        self
    }

    /// A job of this many ranks, all of them on this node.
    pub fn ranks_here(self, ranks: u32) -> JobBuilder {
        let here = self.server.client().hostname();
        self.node(&here, 0..ranks)
    }

    /// Adds a value of the job, or an array of values of a node, an application or a process (`PMIX_PROC_INFO_ARRAY` for example). It
    /// replaces the one that follows from the nodes.
    pub fn info(mut self, info: Info) -> JobBuilder {
        self.infos.push(info);
        self
    }

    /// Registers the job with this host's server.
    ///
    /// # Errors
    /// `ERR_BAD_PARAM` for a name that is none, a node without a name or named twice, and ranks that are not 0, 1, 2 ... with each on one
    /// node; the server's status.
    pub fn register(self) -> Result<Job> {
        let failed = |cause: Cause| Error::new("registration of a job", cause);
        let nspace = Nspace::new(&self.name).map_err(|error| failed(error.into()))?;
        let job = Proc::new(nspace.clone(), Rank::WILDCARD);
        let failed = |cause: Cause| failed(cause).with_process(&job);
        let node_of = self.node_of().map_err(|words| failed(words.into()))?;
        let here = self.server.client().hostname();
        let nlocal = node_of.values().filter(|node| **node == here).count();
        let status = self.server.register_nspace(nspace.clone(), nlocal as i32, self.all_infos(node_of.len()), None);
        done(status).map_err(|status| failed(status.into()))?;
        Ok(Job { server: self.server, nspace, node_of, here })
    }

    /// The node of each rank.
    ///
    /// # Errors
    /// What is wrong with the nodes, in words.
    fn node_of(&self) -> Result<BTreeMap<u32, String>, String> {
        let (mut names, mut node_of) = (BTreeSet::new(), BTreeMap::new());
        for (name, ranks) in &self.nodes {
            if name.is_empty() || name.contains([',', ';', '\0']) {
                return Err(format!("{name:?} is no name of a node"));
            }
            if !names.insert(name) {
                return Err(format!("node {name} is named twice; name it once, with all of its ranks"));
            }
            for rank in ranks {
                if let Some(other) = node_of.insert(*rank, name.clone()) {
                    return Err(format!("rank {rank} is on {other} and on {name}"));
                }
            }
        }
        let missing = node_of.keys().zip(0..).find(|(rank, number)| *rank != number);
        match missing {
            Some((_, number)) => Err(format!("rank {number} is on no node; ranks are 0, 1, 2 and so on")),
            None if node_of.is_empty() => Err("the job has no ranks; add a node with ranks".to_owned()),
            None => Ok(node_of),
        }
    }

    /// The values of the job, those that the caller gave in place of ours.
    fn all_infos(&self, size: usize) -> Vec<Info> {
        let size = size as u32;
        let names: Vec<&str> = self.nodes.iter().map(|(name, _)| name.as_str()).collect();
        let ranks: Vec<String> = self.nodes.iter().map(|(_, ranks)| list(ranks)).collect();
        let ours = [
            attributes::JOB_SIZE.info(size),
            attributes::UNIV_SIZE.info(size),
            attributes::MAX_PROCS.info(size),
            attributes::JOB_NUM_APPS.info(1_u32),
            attributes::NODE_MAP.info(names.join(",")),
            attributes::PROC_MAP.info(ranks.join(";")),
        ];
        let is_given = |info: &Info| self.infos.iter().any(|given| given.key == info.key);
        ours.into_iter().filter(|info| !is_given(info)).chain(self.infos.iter().cloned()).collect()
    }
}

impl Job {
    /// The job's name.
    pub fn nspace(&self) -> &Nspace {
        &self.nspace
    }

    /// How many ranks it has.
    pub fn size(&self) -> u32 {
        self.node_of.len() as u32
    }

    /// One of its processes.
    pub fn process(&self, rank: u32) -> Proc {
        Proc::new(self.nspace.clone(), Rank(rank))
    }

    /// The job as a whole.
    pub fn whole(&self) -> Proc {
        Proc::new(self.nspace.clone(), Rank::WILDCARD)
    }

    /// The ranks on this node, which this host starts.
    pub fn ranks_here(&self) -> impl Iterator<Item = u32> {
        self.node_of.iter().filter(|(_, node)| **node == self.here).map(|(rank, _)| *rank)
    }

    /// Registers a rank of this node as a process of this user, and gives the command the environment by which it finds the server.
    ///
    /// # Errors
    /// `ERR_BAD_PARAM` for a rank that the job does not have, or has on another node; the server's status.
    pub fn prepare(&self, rank: u32, command: &mut Command) -> Result<()> {
        self.prepare_for(rank, geteuid().as_raw(), getegid().as_raw(), command)
    }

    /// As [`Job::prepare`], for a process of another user; the command's user is the caller's to set.
    ///
    /// # Errors
    /// As [`Job::prepare`].
    pub fn prepare_for(&self, rank: u32, uid: u32, gid: u32, command: &mut Command) -> Result<()> {
        let process = self.process(rank);
        let failed = |cause: Cause| Error::new("preparation of a rank", cause).with_process(&process);
        match self.node_of.get(&rank) {
            None => return Err(failed(format!("the job has the ranks 0 to {}", self.size() - 1).into())),
            Some(node) if *node != self.here => {
                let words = format!("the rank is on {node}, this is {}: the host there starts it", self.here);
                return Err(failed(words.into()));
            }
            Some(_) => {}
        }
        let status = self.server.register_client(process.clone(), uid, gid, 0, None);
        done(status).map_err(|status| failed(status.into()))?;
        // Those of an outer launcher would lead the rank to its server.
        for (name, _) in std::env::vars_os().filter(|(name, _)| settings::is_of_launcher(name)) {
            command.env_remove(name);
        }
        let variables = self.server.setup_fork(&process).map_err(|status| failed(status.into()))?;
        command.env(LAUNCHED.0, LAUNCHED.1).envs(variables);
        Ok(())
    }

    /// Says that a rank will not come: it could not be started, or has ended before it connected. Others that wait for it go on.
    ///
    /// # Errors
    /// The server's status.
    pub fn forget(&self, rank: u32) -> Result<()> {
        let process = self.process(rank);
        let status = self.server.deregister_client(&process, None);
        done(status).map_err(|status| Error::new("deregistration of a rank", status).with_process(&process))
    }

    /// Removes the job and its files, when its ranks have ended.
    ///
    /// # Errors
    /// The server's status.
    pub fn deregister(self) -> Result<()> {
        let status = self.server.deregister_nspace(&self.nspace, None);
        done(status).map_err(|status| Error::new("deregistration of a job", status).with_process(&self.whole()))
    }
}

/// Ranks as a process map has them, with successive ones as a range.
fn list(ranks: &[u32]) -> String {
    let runs = ranks.chunk_by(|rank, next| rank.checked_add(1) == Some(*next)).map(|run| match run {
        [rank] => rank.to_string(),
        run => format!("{}-{}", run[0], run[run.len() - 1]),
    });
    runs.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_caller_gives_replaces_what_follows_from_the_nodes() -> Result<()> {
        let host = crate::Host::builder().hostname("n1").start()?;
        let infos = host.job("a").ranks_here(2).info(attributes::UNIV_SIZE.info(9_u32)).all_infos(2);
        let sizes = infos.iter().filter(|info| info.key.is(attributes::UNIV_SIZE.key()));
        assert!(sizes.eq([&attributes::UNIV_SIZE.info(9_u32)]), "{infos:?}");
        assert_eq!(attributes::JOB_SIZE.find(&infos), Some(2));
        host.finalize()
    }

    #[test]
    fn successive_ranks_are_a_range() {
        for (ranks, text) in [
            (&[0][..], "0"),
            (&[0, 1], "0-1"),
            (&[0, 2, 3, 4], "0,2-4"),
            (&[5, 3], "5,3"),
            (&[], ""),
            (&[u32::MAX, 0], "4294967295,0"),
        ] {
            assert_eq!(list(ranks), text);
        }
    }
}
