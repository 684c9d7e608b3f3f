//! What other registered data determine, where the host left it out.
//!
//! A derived value has the standard's type. Locality and cpusets are never derived: only the host knows the binding. What is
//! derived is marked, so that it can be derived anew when the host registers more.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::register::{Refused, Result};
use super::{JobData, Node, Values, peers_of};
use crate::model::{Key, Rank, Value, keys};
use crate::room;

/// What belongs to an application and may be said of the job where that is its only one.
const OF_APPS: [&str; 7] = [
    keys::APP_SIZE,
    keys::APPLDR,
    keys::WDIR,
    keys::APP_ARGV,
    keys::PSET_NAMES,
    keys::APP_MAP_TYPE,
    keys::APP_MAP_REGEX,
];

/// The row of a rank that runs nowhere.
const NOWHERE: u32 = u32::MAX;

impl Node {
    /// Fills in a value that the host did not give.
    pub(super) fn derive(&mut self, key: &'static str, value: impl FnOnce() -> Value) {
        derive(&mut self.values, &mut self.derived, key, value);
    }
}

/// Fills in a value that the host did not give.
fn derive(values: &mut Values, derived: &mut Vec<&'static str>, key: &'static str, value: impl FnOnce() -> Value) {
    values.entry(Key::from(key)).or_insert_with(|| {
        derived.push(key);
        value()
    });
}

/// Takes out what was derived.
fn forget(values: &mut Values, derived: &mut Vec<&'static str>) {
    for key in derived.drain(..) {
        values.remove(key.as_bytes());
    }
}

impl JobData {
    /// Takes out all that was derived; what the host gave stays.
    pub(super) fn forget_derived(&mut self) {
        for key in std::mem::take(&mut self.derived.session) {
            self.session.remove(&key);
        }
        forget(&mut self.job, &mut self.derived.job);
        for (appnum, keys) in &mut self.derived.apps {
            if let Some(values) = self.apps.get_mut(appnum) {
                forget(values, keys);
            }
        }
        self.apps.retain(|_, values| !values.is_empty());
        self.derived.apps.clear();
        for node in &mut self.nodes {
            for key in &node.derived {
                match *key {
                    keys::NODEID => node.nodeid = None,
                    keys::HOSTNAME => node.hostname.clear(),
                    _ => {}
                }
            }
            forget(&mut node.values, &mut node.derived);
        }
        self.nodes.retain(|node| node.is_given);
        self.procs.forget_derived();
    }

    /// Fills in all that follows from what is there.
    pub(super) fn derive(&mut self) -> Result<()> {
        // The node of each rank, and the ranks of each node, as numbers and as text.
        room::expect(self.procs.rows() as usize * 64)?;
        let row_of = self.place()?;
        let mut ranks_of: Vec<Vec<u32>> = vec![Vec::new(); self.nodes.len()];
        for (rank, row) in (0..).zip(&row_of).filter(|(_, row)| **row != NOWHERE) {
            ranks_of[*row as usize].push(rank);
        }
        self.keep_order(&mut ranks_of);
        self.number_nodes(&ranks_of);
        let is_mapped = self.maps.procs.is_some();
        for (node, ranks) in self.nodes.iter_mut().zip(&ranks_of).filter(|(_, ranks)| is_mapped || !ranks.is_empty()) {
            node.derive(keys::LOCAL_SIZE, || Value::Uint32(ranks.len() as u32));
            // Open MPI 4.1 takes a list of no ranks for one of some, and crashes: a size of 0 has to do.
            if !ranks.is_empty() {
                let list = || ranks.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
                node.derive(keys::LOCAL_PEERS, || Value::string(list()));
            }
            if let Some(first) = ranks.iter().min() {
                node.derive(keys::LOCALLDR, || Value::Rank(Rank(*first)));
            }
        }
        self.derive_places(&row_of, &ranks_of)?;
        self.derive_job(ranks_of.iter().map(Vec::len).sum());
        self.derive_apps()
    }

    /// On which node each rank runs: as it says itself, else as the process map says, else as its node says.
    fn place(&mut self) -> Result<Vec<u32>> {
        let mapped = self.maps.procs.iter().flatten().enumerate();
        let mut highest = mapped.clone().flat_map(|(_, ranks)| ranks).max().map_or(0, |rank| rank + 1);
        let listed: Vec<(usize, Vec<u32>)> = (0..self.nodes.len())
            .filter_map(|row| Some((row, peers_of(self.nodes[row].values.get(keys::LOCAL_PEERS.as_bytes())?)?)))
            .collect();
        highest = highest.max(self.procs.rows());
        highest = highest.max(listed.iter().flat_map(|(_, ranks)| ranks).max().map_or(0, |rank| rank + 1));
        let mut row_of = room::filled(NOWHERE, highest as usize)?;
        for (row, ranks) in listed.iter().map(|(row, ranks)| (*row, ranks)).chain(mapped) {
            ranks.iter().for_each(|rank| row_of[*rank as usize] = row as u32);
        }
        self.place_by_own_word(&mut row_of)?;
        Ok(row_of)
    }

    /// Places the ranks that say themselves where they run, and makes the nodes of which nobody else speaks.
    fn place_by_own_word(&mut self, row_of: &mut [u32]) -> Result<()> {
        let mut by_name: HashMap<Vec<u8>, u32> = HashMap::new();
        let mut by_id: HashMap<u32, u32> = HashMap::new();
        for (row, node) in (0..).zip(&self.nodes) {
            for name in node.aliases.iter().chain([&node.hostname]).filter(|name| !name.is_empty()) {
                by_name.entry(name.clone()).or_insert(row);
            }
            if let Some(nodeid) = node.nodeid {
                by_id.entry(nodeid).or_insert(row);
            }
        }
        for rank in 0..self.procs.rows() {
            let name = self.procs.get(Rank(rank), keys::HOSTNAME.as_bytes()).and_then(Value::as_text);
            let nodeid = self.procs.get(Rank(rank), keys::NODEID.as_bytes()).and_then(Value::as_u32);
            let placed = row_of[rank as usize];
            let row = match (name, nodeid) {
                (None, None) => continue,
                (Some(name), nodeid) => match by_name.get(name) {
                    Some(row) if placed == NOWHERE || placed == *row => *row,
                    Some(_) => {
                        let why =
                            format!("rank {rank} is on another node for {} or {}", keys::PROC_MAP, keys::LOCAL_PEERS);
                        return Err(Refused::new(keys::HOSTNAME, why));
                    }
                    // A name that the maps do not have is another one of the same node.
                    None if placed != NOWHERE => placed,
                    None => {
                        let row = self.nodes.len() as u32;
                        let mut node = Node { hostname: name.to_vec(), ..Node::default() };
                        node.derive(keys::HOSTNAME, || Value::string(name));
                        self.nodes.push(node);
                        by_name.insert(name.to_vec(), row);
                        if let Some(nodeid) = nodeid {
                            by_id.entry(nodeid).or_insert(row);
                        }
                        row
                    }
                },
                (None, Some(_)) if placed != NOWHERE => placed,
                (None, Some(nodeid)) => *by_id.entry(nodeid).or_insert_with(|| {
                    let mut node = Node { nodeid: Some(nodeid), ..Node::default() };
                    node.derive(keys::NODEID, || Value::Uint32(nodeid));
                    self.nodes.push(node);
                    self.nodes.len() as u32 - 1
                }),
            };
            row_of[rank as usize] = row;
        }
        Ok(())
    }

    /// The ranks of a node in the order in which a list or a map names them: the local ranks go by it.
    fn keep_order(&self, ranks_of: &mut [Vec<u32>]) {
        for (row, ranks) in ranks_of.iter_mut().enumerate() {
            let listed = self.nodes[row].values.get(keys::LOCAL_PEERS.as_bytes()).and_then(peers_of);
            let mapped = || self.maps.procs.as_ref().and_then(|procs| procs.get(row)).cloned();
            let Some(order) = listed.or_else(mapped).filter(|order| !order.is_sorted()) else { continue };
            let here: HashSet<u32> = ranks.iter().copied().collect();
            let named: HashSet<u32> = order.iter().copied().collect();
            let rest = ranks.iter().copied().filter(|rank| !named.contains(rank));
            *ranks = order.iter().copied().filter(|rank| here.contains(rank)).chain(rest).collect();
        }
    }

    /// Gives each node the number that the host gave it, or its ranks, or else that of its row.
    fn number_nodes(&mut self, ranks_of: &[Vec<u32>]) {
        let mut taken: HashSet<u32> = self.nodes.iter().filter_map(|node| node.nodeid).collect();
        let mut next = 0;
        for (row, ranks) in ranks_of.iter().enumerate() {
            if self.nodes[row].nodeid.is_none() {
                let said = ranks.first().and_then(|rank| self.procs.get(Rank(*rank), keys::NODEID.as_bytes()));
                let said = said.and_then(Value::as_u32).filter(|id| !taken.contains(id));
                let nodeid = said.unwrap_or_else(|| {
                    let own = row as u32;
                    if !taken.contains(&own) {
                        return own;
                    }
                    while taken.contains(&next) {
                        next += 1;
                    }
                    next
                });
                taken.insert(nodeid);
                self.nodes[row].nodeid = Some(nodeid);
                self.nodes[row].derive(keys::NODEID, || Value::Uint32(nodeid));
            }
        }
    }

    fn derive_places(&mut self, row_of: &[u32], ranks_of: &[Vec<u32>]) -> Result<()> {
        let mut local_rank_of = room::filled(0u16, row_of.len())?;
        for ranks in ranks_of {
            for (local_rank, rank) in ranks.iter().enumerate() {
                local_rank_of[*rank as usize] = u16::try_from(local_rank).unwrap_or(u16::MAX);
            }
        }
        for (rank, row) in (0..).map(Rank).zip(row_of).filter(|(_, row)| **row != NOWHERE) {
            let node = &self.nodes[*row as usize];
            let local_rank = Value::Uint16(local_rank_of[rank.0 as usize]);
            if !node.hostname.is_empty() {
                self.procs.derive(rank, keys::HOSTNAME, || Value::string(&node.hostname))?;
            }
            if let Some(nodeid) = node.nodeid {
                self.procs.derive(rank, keys::NODEID, || Value::Uint32(nodeid))?;
            }
            self.procs.derive(rank, keys::LOCAL_RANK, || local_rank.clone())?;
            self.procs.derive(rank, keys::NODE_RANK, || local_rank)?;
        }
        Ok(())
    }

    fn derive_job(&mut self, placed: usize) {
        let size = if placed > 0 { placed as u32 } else { self.procs.rows() };
        let (job, derived) = (&mut self.job, &mut self.derived.job);
        if size > 0 {
            derive(job, derived, keys::JOB_SIZE, || Value::Uint32(size));
        }
        // The host may have spoken of nodes that are not the job's.
        let count = self.maps.nodes.as_ref().map_or(self.nodes.len(), Vec::len);
        if count > 0 {
            derive(job, derived, keys::NUM_NODES, || Value::Uint32(count as u32));
            let names: Vec<&[u8]> = self.nodes[..count].iter().map(|node| node.hostname.as_slice()).collect();
            derive(job, derived, keys::NODE_LIST, || Value::string(names.join(&b',')));
        }
    }

    /// What follows from which application each rank is of.
    fn derive_apps(&mut self) -> Result<()> {
        let offset = self.job.get(keys::NPROC_OFFSET.as_bytes()).and_then(Value::as_u32).unwrap_or(0);
        let only = match self.apps.len() {
            0 => Some(0),
            1 => self.apps.keys().next().copied(),
            _ => None,
        };
        let mut apps: BTreeMap<u32, (u32, u32)> = BTreeMap::new();
        for rank in (0..self.procs.rows()).map(Rank) {
            if self.procs.row(rank).next().is_none() {
                continue;
            }
            self.procs.derive(rank, keys::RANK, || Value::Rank(rank))?;
            self.procs.derive(rank, keys::GLOBAL_RANK, || Value::Rank(Rank(rank.0.saturating_add(offset))))?;
            if let Some(appnum) = only {
                self.procs.derive(rank, keys::APPNUM, || Value::Uint32(appnum))?;
            }
            if let Some(appnum) = self.procs.get(rank, keys::APPNUM.as_bytes()).and_then(Value::as_u32) {
                let (count, _) = apps.entry(appnum).and_modify(|(count, _)| *count += 1).or_insert((0, rank.0));
                let app_rank = *count;
                self.procs.derive(rank, keys::APP_RANK, || Value::Rank(Rank(app_rank)))?;
            }
        }
        for (appnum, (last, leader)) in apps {
            let (values, derived) =
                (self.apps.entry(appnum).or_default(), self.derived.apps.entry(appnum).or_default());
            derive(values, derived, keys::APPNUM, || Value::Uint32(appnum));
            for key in OF_APPS {
                if let (Some(_), Some(value)) = (only, self.job.get(key.as_bytes())) {
                    derive(values, derived, key, || value.clone());
                }
            }
            derive(values, derived, keys::APP_SIZE, || Value::Uint32(last + 1));
            derive(values, derived, keys::APPLDR, || Value::Rank(Rank(leader)));
        }
        let count = self.apps.len() as u32;
        if count > 0 {
            derive(&mut self.job, &mut self.derived.job, keys::JOB_NUM_APPS, || Value::Uint32(count));
        }
        Ok(())
    }
}
