//! What other registered data determine, where the host left it out.
//!
//! A derived value has the standard's type. Locality and cpusets are never derived: only the host knows the binding.

use super::JobData;
use crate::model::{Key, Rank, Result, Value, keys};
use crate::room;

impl JobData {
    /// Notes for each rank of a process map on which node it runs: `ranks[row]` are those of the node `row`.
    pub(super) fn place_ranks(&mut self, ranks: &[Vec<u32>]) -> Result<()> {
        for (row, ranks) in ranks.iter().enumerate() {
            let hostname = Value::string(&self.nodes[row].hostname);
            let nodeid = *self.nodes[row].nodeid.get_or_insert(row as u32);
            for rank in ranks {
                self.default_proc(Rank(*rank), keys::HOSTNAME, hostname.clone())?;
                self.default_proc(Rank(*rank), keys::NODEID, Value::Uint32(nodeid))?;
            }
            let node = &mut self.nodes[row];
            let list = ranks.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
            // The map is the whole truth about a node's ranks: it replaces what an earlier map said.
            if !ranks.is_empty() {
                node.values.insert(Key::from(keys::LOCAL_PEERS), Value::string(list));
            }
        }
        Ok(())
    }

    /// Fills in all that follows from what is there.
    pub(super) fn derive(&mut self) -> Result<()> {
        // Lists of the ranks of each node, as numbers and as text.
        room::expect(self.procs.rows() as usize * 64)?;
        for (row, node) in self.nodes.iter_mut().enumerate() {
            let nodeid = *node.nodeid.get_or_insert(row as u32);
            node.values.entry(Key::from(keys::NODEID)).or_insert(Value::Uint32(nodeid));
        }
        self.derive_peers();
        let peers: Vec<Vec<u32>> = self.nodes.iter().map(|node| peers_of(&node.values)).collect();
        for (row, ranks) in peers.iter().enumerate() {
            let values = &mut self.nodes[row].values;
            if let Some(first) = ranks.iter().min() {
                values.entry(Key::from(keys::LOCAL_SIZE)).or_insert(Value::Uint32(ranks.len() as u32));
                values.entry(Key::from(keys::LOCALLDR)).or_insert(Value::Rank(Rank(*first)));
            }
            for (local_rank, rank) in ranks.iter().enumerate() {
                let local_rank = Value::Uint16(u16::try_from(local_rank).unwrap_or(u16::MAX));
                self.default_proc(Rank(*rank), keys::LOCAL_RANK, local_rank.clone())?;
                self.default_proc(Rank(*rank), keys::NODE_RANK, local_rank)?;
            }
        }
        let placed: usize = peers.iter().map(Vec::len).sum();
        self.derive_job(placed as u32);
        self.derive_ranks()
    }

    /// Local peers of nodes for which only the ranks' hostnames or node numbers are known.
    fn derive_peers(&mut self) {
        let have = |node: &super::Node| node.values.contains_key(keys::LOCAL_PEERS.as_bytes());
        if self.procs.rows() == 0 || (!self.nodes.is_empty() && self.nodes.iter().all(have)) {
            return;
        }
        let mut ranks_of: Vec<Vec<u32>> = vec![Vec::new(); self.nodes.len()];
        let mut row_of = std::collections::HashMap::new();
        for rank in 0..self.procs.rows() {
            let name =
                self.procs.get(Rank(rank), keys::HOSTNAME.as_bytes()).and_then(Value::as_text).map(<[u8]>::to_vec);
            let nodeid = self.procs.get(Rank(rank), keys::NODEID.as_bytes()).and_then(Value::as_u32);
            if name.is_none() && nodeid.is_none() {
                continue;
            }
            let place = (name, nodeid);
            let row = match row_of.get(&place) {
                Some(row) => *row,
                None => {
                    let row = self.node_entry(place.0.as_deref(), place.1);
                    if self.nodes[row].nodeid.is_none() {
                        self.nodes[row].nodeid = nodeid;
                    }
                    ranks_of.resize(self.nodes.len().max(ranks_of.len()), Vec::new());
                    row_of.insert(place, row);
                    row
                }
            };
            ranks_of[row].push(rank);
        }
        for (node, ranks) in self.nodes.iter_mut().zip(ranks_of) {
            if !ranks.is_empty() {
                let list = ranks.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
                node.values.entry(Key::from(keys::LOCAL_PEERS)).or_insert_with(|| Value::string(list));
            }
        }
        for (row, node) in self.nodes.iter_mut().enumerate() {
            let nodeid = *node.nodeid.get_or_insert(row as u32);
            node.values.entry(Key::from(keys::NODEID)).or_insert(Value::Uint32(nodeid));
        }
    }

    fn derive_job(&mut self, placed: u32) {
        let size = if placed > 0 { placed } else { self.procs.rows() };
        if size > 0 {
            self.job.entry(Key::from(keys::JOB_SIZE)).or_insert(Value::Uint32(size));
        }
        if !self.nodes.is_empty() {
            self.job.entry(Key::from(keys::NUM_NODES)).or_insert(Value::Uint32(self.nodes.len() as u32));
            let names: Vec<&[u8]> = self.nodes.iter().map(|node| node.hostname.as_slice()).collect();
            let list = names.join(&b',');
            self.job.entry(Key::from(keys::NODE_LIST)).or_insert_with(|| Value::string(list));
        }
        let apps = self.apps.len().max(1) as u32;
        if size > 0 {
            self.job.entry(Key::from(keys::JOB_NUM_APPS)).or_insert(Value::Uint32(apps));
        }
    }

    fn derive_ranks(&mut self) -> Result<()> {
        let offset = self.job.get(keys::NPROC_OFFSET.as_bytes()).and_then(Value::as_u32).unwrap_or(0);
        let one_app = self.apps.len() <= 1;
        for rank in 0..self.procs.rows() {
            if self.procs.row(Rank(rank)).next().is_none() {
                continue;
            }
            self.default_proc(Rank(rank), keys::RANK, Value::Rank(Rank(rank)))?;
            self.default_proc(Rank(rank), keys::GLOBAL_RANK, Value::Rank(Rank(rank.saturating_add(offset))))?;
            if one_app {
                self.default_proc(Rank(rank), keys::APPNUM, Value::Uint32(0))?;
                self.default_proc(Rank(rank), keys::APP_RANK, Value::Rank(Rank(rank)))?;
            }
        }
        Ok(())
    }

    fn default_proc(&mut self, rank: Rank, key: &'static str, value: Value) -> Result<()> {
        if self.procs.get(rank, key.as_bytes()).is_none() {
            self.procs.set(rank, Key::from(key), value)?;
        }
        Ok(())
    }
}

/// The ranks in a node's list of local peers.
fn peers_of(values: &super::Values) -> Vec<u32> {
    let list = values.get(keys::LOCAL_PEERS.as_bytes()).and_then(Value::as_text).unwrap_or_default();
    list.split(|byte| *byte == b',')
        .filter_map(|rank| std::str::from_utf8(rank).ok()?.trim().parse::<u32>().ok())
        .filter(|rank| *rank <= super::ProcTable::RANK_MAX)
        .collect()
}
