//! Derives values that the host did not register from other registered data.
//!
//! A derived value has the standard's type. Locality and cpusets are never derived: only the host knows the binding. Derived
//! values are recorded as derived, so that they can be derived again when the host registers more.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;

use super::placement::Stretches;
use super::procs::FullColumn;
use super::refused::{Refused, Result};
use super::{Column, Formula, JobData, Node, Values, peers_of};
use crate::codec::ValueRef;
use crate::model::{DataType, Key, Rank, Value, keys};
use crate::{fallible_alloc, maps};

/// Attributes of an application that a host may register with the job, if the job has only one application.
const OF_APPS: [&str; 7] = [
    keys::APP_SIZE,
    keys::APPLDR,
    keys::WDIR,
    keys::APP_ARGV,
    keys::PSET_NAMES,
    keys::APP_MAP_TYPE,
    keys::APP_MAP_REGEX,
];

/// The row of a rank without a node.
const NOWHERE: u32 = u32::MAX;

/// The placement of ranks on nodes.
enum Placed {
    Stretches(Stretches),
    Listed(Listed),
}

/// Any placement.
struct Listed {
    /// The row of each rank's node.
    row_of: Vec<u32>,
    /// The placed ranks, node after node.
    ranks: Vec<u32>,
    /// Start of each node's ranks in `ranks`, then the end of all.
    starts: Vec<usize>,
}

/// The rows of nodes by name or alias, and by id.
struct NodeIndex {
    by_name: HashMap<Vec<u8>, u32>,
    by_id: HashMap<u32, u32>,
}

impl NodeIndex {
    /// If several nodes have the same name or id, the first one is indexed.
    fn of(nodes: &[Node]) -> NodeIndex {
        let mut index = NodeIndex { by_name: HashMap::new(), by_id: HashMap::new() };
        for (row, node) in (0..).zip(nodes) {
            for name in node.aliases.iter().chain([&node.hostname]).filter(|name| !name.is_empty()) {
                index.by_name.entry(name.clone()).or_insert(row);
            }
            if let Some(nodeid) = node.nodeid {
                index.by_id.entry(nodeid).or_insert(row);
            }
        }
        index
    }

    /// Adds a node with a name, and the id that one of its ranks has.
    fn add_named(&mut self, nodes: &mut Vec<Node>, name: &[u8], nodeid: Option<u32>) -> u32 {
        let row = nodes.len() as u32;
        let mut node = Node { hostname: name.to_vec(), ..Node::default() };
        node.derive(keys::HOSTNAME, || Value::string(name));
        nodes.push(node);
        self.by_name.insert(name.to_vec(), row);
        if let Some(nodeid) = nodeid {
            self.by_id.entry(nodeid).or_insert(row);
        }
        row
    }

    /// The row of an id; a node is added if there is none.
    fn row_of_id(&mut self, nodes: &mut Vec<Node>, nodeid: u32) -> u32 {
        *self.by_id.entry(nodeid).or_insert_with(|| {
            let mut node = Node { nodeid: Some(nodeid), ..Node::default() };
            node.derive(keys::NODEID, || Value::Uint32(nodeid));
            nodes.push(node);
            nodes.len() as u32 - 1
        })
    }
}

/// The refusal of a rank whose hostname contradicts the process map or a node's list of ranks.
fn on_two_nodes(rank: u32) -> Refused {
    Refused::new(
        keys::HOSTNAME,
        format!("rank {rank} is on another node in {} or {}", keys::PROC_MAP, keys::LOCAL_PEERS),
    )
}

impl Placed {
    /// Number of placed ranks.
    fn count(&self) -> u32 {
        match self {
            Placed::Stretches(stretches) => stretches.ranks(),
            Placed::Listed(listed) => listed.ranks.len() as u32,
        }
    }

    /// The ranks on a node. `mapped` are those of the process map.
    fn on<'a>(&'a self, row: usize, mapped: &'a [Vec<u32>]) -> &'a [u32] {
        match self {
            // A node behind the last one of the map has none.
            Placed::Stretches(_) => mapped.get(row).map_or(&[], Vec::as_slice),
            Placed::Listed(listed) => listed.on(row),
        }
    }
}

impl Listed {
    fn new(row_of: Vec<u32>, nodes: usize) -> Result<Listed> {
        let somewhere = || (0..).zip(&row_of).filter(|(_, row)| **row != NOWHERE);
        let mut starts = fallible_alloc::filled(0, nodes + 1)?;
        somewhere().for_each(|(_, row)| starts[*row as usize + 1] += 1);
        for row in 0..nodes {
            starts[row + 1] += starts[row];
        }
        let mut ranks = fallible_alloc::filled(0, starts[nodes])?;
        let mut next = fallible_alloc::collect(starts.iter().copied())?;
        for (rank, row) in somewhere() {
            let at = &mut next[*row as usize];
            ranks[*at] = rank;
            *at += 1;
        }
        Ok(Listed { row_of, ranks, starts })
    }

    fn on(&self, row: usize) -> &[u32] {
        &self.ranks[self.starts[row]..self.starts[row + 1]]
    }

    fn on_mut(&mut self, row: usize) -> &mut [u32] {
        &mut self.ranks[self.starts[row]..self.starts[row + 1]]
    }
}

/// A number as a value of a type.
fn number(ty: DataType, number: u32) -> ValueRef<'static> {
    ValueRef::Scalar { ty, bits: number.into() }
}

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

/// Removes derived values.
fn forget(values: &mut Values, derived: &mut Vec<&'static str>) {
    for key in derived.drain(..) {
        values.remove(key.as_bytes());
    }
}

impl JobData {
    /// Removes all derived values; the host's values stay.
    pub(super) fn forget_derived(&mut self) -> Result<()> {
        self.forget_taken();
        forget(&mut self.job, &mut self.derived.job);
        for (appnum, keys) in &mut self.derived.apps {
            if let Some(values) = self.apps.get_mut(appnum) {
                forget(values, keys);
            }
        }
        self.apps.retain(|_, values| !values.is_empty());
        self.derived.apps.clear();
        self.derived.peers = false;
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
        Ok(self.procs.forget_derived()?)
    }

    /// Derives all values that follow from the registered ones. `stretches` are those of the process map.
    pub(super) fn derive(&mut self, stretches: Option<Stretches>) -> Result<()> {
        // The node of each rank, and the ranks of each node, as numbers and as text.
        fallible_alloc::probe(self.procs.rows() as usize * 64)?;
        let placed = match stretches {
            Some(stretches) if self.are_in(&stretches)? => Placed::Stretches(stretches),
            _ => {
                let row_of = self.node_rows()?;
                let mut listed = Listed::new(row_of, self.nodes.len())?;
                self.keep_order(&mut listed);
                Placed::Listed(listed)
            }
        };
        self.number_nodes(&placed);
        let is_mapped = self.maps.procs.is_some();
        let mapped = self.maps.procs.as_deref().unwrap_or_default();
        for (row, node) in self.nodes.iter_mut().enumerate() {
            let ranks = placed.on(row, mapped);
            if !is_mapped && ranks.is_empty() {
                continue;
            }
            node.derive(keys::LOCAL_SIZE, || Value::Uint32(ranks.len() as u32));
            // Open MPI 4.1 treats an empty list of ranks as non-empty and crashes, so that only the size of 0 is derived.
            if !ranks.is_empty() {
                node.derive(keys::LOCAL_PEERS, || Value::string(maps::write_ranks(ranks.iter().copied())));
            }
            if let Some(first) = ranks.iter().min() {
                node.derive(keys::LOCALLDR, || Value::Rank(Rank(*first)));
            }
        }
        self.derived.peers = matches!(placed, Placed::Stretches(_));
        match &placed {
            Placed::Stretches(stretches) => self.derive_stretches(stretches)?,
            Placed::Listed(listed) => self.derive_listed(listed)?,
        }
        self.derive_job(placed.count());
        self.derive_apps()
    }

    /// Whether nothing that is registered contradicts the stretches of the process map.
    fn are_in(&self, stretches: &Stretches) -> Result<bool> {
        let mapped = self.maps.procs.as_deref().unwrap_or_default();
        let is_listed = |(row, node): (usize, &Node)| {
            let list = node.values.get(keys::LOCAL_PEERS.as_bytes());
            let ranks = || mapped.get(row).into_iter().flatten().copied();
            // With an alias, a rank's hostname could differ from the node's name.
            !node.hostname.is_empty()
                && node.aliases.is_empty()
                && list.is_none_or(|list| list.as_text() == Some(&maps::write_ranks(ranks())))
        };
        let count = stretches.ranks();
        if count == 0 || self.procs.rows() > count || !self.nodes.iter().enumerate().all(is_listed) {
            return Ok(false);
        }
        self.procs.column(keys::HOSTNAME).map_or(Ok(true), |names| self.are_named(names, stretches))
    }

    /// Whether each rank with a hostname has the name of its node.
    fn are_named(&self, names: &Column, stretches: &Stretches) -> Result<bool> {
        let mut blocks = stretches.blocks().peekable();
        let mut row_of = |ranks: Range<u32>| {
            while blocks.next_if(|(block, _)| block.end <= ranks.start).is_some() {}
            blocks.peek().filter(|(block, _)| ranks.end <= block.end).map(|(_, row)| *row)
        };
        let is_of = |row: u32, name: ValueRef<'_>| name.as_text() == Some(&self.nodes[row as usize].hostname);
        let Some(whole) = names.full() else {
            let mut all = names.iter();
            return Ok(all.all(|(Rank(rank), name)| row_of(rank..rank + 1).is_some_and(|row| is_of(row, name))));
        };
        // Ranks that follow each other mostly have the same name, and dealt ranks the names of those before, in turn: each name is
        // compared once.
        let mut row_of_text = fallible_alloc::filled(NOWHERE, names.text_count())?;
        let mut first = 0;
        Ok(whole.runs().all(|(number, count)| {
            let ranks = first..first + count;
            first = ranks.end;
            let Some((row, known)) = row_of(ranks.clone()).zip(row_of_text.get_mut(number as usize)) else {
                return false;
            };
            if *known != row && !is_of(row, whole.value(ranks.start)) {
                return false;
            }
            *known = row;
            true
        }))
    }

    /// The node of each rank: by the rank's own attributes, else by the process map, else by a node's list of local peers.
    fn node_rows(&mut self) -> Result<Vec<u32>> {
        let mapped = self.maps.procs.iter().flatten().enumerate();
        let listed: Vec<(usize, Vec<u32>)> = (0..self.nodes.len())
            .filter_map(|row| Some((row, peers_of(self.nodes[row].values.get(keys::LOCAL_PEERS.as_bytes())?)?)))
            .collect();
        let all = || listed.iter().map(|(row, ranks)| (*row, ranks)).chain(mapped.clone());
        let highest = all().filter_map(|(_, ranks)| ranks.iter().max()).max().map_or(0, |rank| rank + 1);
        let mut row_of = fallible_alloc::filled(NOWHERE, highest.max(self.procs.rows()) as usize)?;
        for (row, ranks) in all() {
            ranks.iter().for_each(|rank| row_of[*rank as usize] = row as u32);
        }
        self.apply_process_attributes(&mut row_of)?;
        Ok(row_of)
    }

    /// Places the ranks by their own hostname or node id, and adds nodes that only these attributes name.
    fn apply_process_attributes(&mut self, row_of: &mut [u32]) -> Result<()> {
        let JobData { procs, nodes, .. } = self;
        let (names, ids) = (procs.column(keys::HOSTNAME), procs.column(keys::NODEID));
        if names.is_none() && ids.is_none() {
            return Ok(());
        }
        let mut index = NodeIndex::of(nodes);
        // Many ranks have the same name: it is looked up once.
        let mut row_of_text = fallible_alloc::filled(NOWHERE, names.map_or(0, Column::text_count))?;
        for rank in 0..procs.rows() {
            let text = names.and_then(|names| names.text_number(rank)).map(|number| number as usize);
            let placed = row_of[rank as usize];
            let known = text.map_or(NOWHERE, |text| row_of_text[text]);
            if known != NOWHERE && (placed == NOWHERE || placed == known) {
                row_of[rank as usize] = known;
                continue;
            }
            let nodeid = ids.and_then(|ids| ids.get(rank)?.as_u32());
            row_of[rank as usize] = match (names.and_then(|names| names.get(rank)?.as_text()), nodeid) {
                (None, None) => continue,
                (Some(name), nodeid) => match index.by_name.get(name) {
                    Some(row) if placed == NOWHERE || placed == *row => {
                        text.into_iter().for_each(|text| row_of_text[text] = *row);
                        *row
                    }
                    Some(_) => return Err(on_two_nodes(rank)),
                    // A name that the maps lack is an alias of the same node.
                    None if placed != NOWHERE => placed,
                    None => index.add_named(nodes, name, nodeid),
                },
                (None, Some(_)) if placed != NOWHERE => placed,
                (None, Some(nodeid)) => index.row_of_id(nodes, nodeid),
            };
        }
        Ok(())
    }

    /// Orders the ranks of a node as a list or a map names them: local ranks follow this order.
    fn keep_order(&self, listed: &mut Listed) {
        for row in 0..self.nodes.len() {
            let said = self.nodes[row].values.get(keys::LOCAL_PEERS.as_bytes()).and_then(peers_of);
            let mapped = || self.maps.procs.as_ref().and_then(|procs| procs.get(row));
            let Some(order) = said.as_ref().or_else(mapped).filter(|order| !order.is_sorted()) else { continue };
            let ranks = listed.on_mut(row);
            let mut left: HashSet<u32> = ranks.iter().copied().collect();
            // If a rank occurs twice, its first position counts.
            let mut ordered: Vec<u32> = order.iter().copied().filter(|rank| left.remove(rank)).collect();
            ordered.extend(ranks.iter().filter(|rank| left.contains(rank)));
            ranks.copy_from_slice(&ordered);
        }
    }

    /// Numbers each node: the host's number for the node, else for its first rank, else the row, else the lowest free number.
    fn number_nodes(&mut self, placed: &Placed) {
        let mut taken: HashSet<u32> = HashSet::with_capacity(self.nodes.len());
        taken.extend(self.nodes.iter().filter_map(|node| node.nodeid));
        let mut next = 0;
        for row in 0..self.nodes.len() {
            if self.nodes[row].nodeid.is_none() {
                let mapped = self.maps.procs.as_deref().unwrap_or_default();
                let first = placed.on(row, mapped).first();
                let said = first.and_then(|rank| self.procs.get(Rank(*rank), keys::NODEID.as_bytes())?.as_u32());
                let nodeid = said.filter(|id| !taken.contains(id)).unwrap_or_else(|| {
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

    /// Derives each rank's attributes from its node.
    fn derive_stretches(&mut self, placed: &Stretches) -> Result<()> {
        if !self.procs.is_whole(keys::HOSTNAME, placed.ranks()) {
            let names = fallible_alloc::collect(self.nodes.iter().map(|node| Value::string(&node.hostname)))?;
            let names = fallible_alloc::collect(names.iter().map(ValueRef::from))?;
            self.procs.derive_of_nodes(keys::HOSTNAME, placed, &names)?;
        }
        // All nodes have a number by now.
        let ids = self.nodes.iter().map(|node| number(DataType::UINT32, node.nodeid.unwrap_or(0)));
        let ids = fallible_alloc::collect(ids)?;
        self.procs.derive_of_nodes(keys::NODEID, placed, &ids)?;
        for key in [keys::LOCAL_RANK, keys::NODE_RANK] {
            self.procs.derive_locals(key, placed, DataType::UINT16)?;
        }
        Ok(())
    }

    fn derive_listed(&mut self, placed: &Listed) -> Result<()> {
        let rows = placed.row_of.len() as u32;
        let nodes = || (0..).map(Rank).zip(&placed.row_of).filter(|(_, row)| **row != NOWHERE);
        let names = fallible_alloc::collect(self.nodes.iter().map(|node| Value::string(&node.hostname)))?;
        let named = nodes().filter(|(_, row)| !self.nodes[**row as usize].hostname.is_empty());
        self.procs.derive(keys::HOSTNAME, rows, named.map(|(rank, row)| (rank, (&names[*row as usize]).into())))?;
        let nodeid = |row: &u32| self.nodes[*row as usize].nodeid;
        let numbered = nodes().filter_map(|(rank, row)| Some((rank, number(DataType::UINT32, nodeid(row)?))));
        self.procs.derive(keys::NODEID, rows, numbered)?;
        if [keys::LOCAL_RANK, keys::NODE_RANK].iter().all(|key| self.procs.is_whole(key, rows)) {
            return Ok(());
        }
        let mut local_rank_of = fallible_alloc::filled(0u16, placed.row_of.len())?;
        for row in 0..self.nodes.len() {
            for (local_rank, rank) in placed.on(row).iter().enumerate() {
                local_rank_of[*rank as usize] = u16::try_from(local_rank).unwrap_or(u16::MAX);
            }
        }
        for key in [keys::LOCAL_RANK, keys::NODE_RANK] {
            let local = |rank: Rank| number(DataType::UINT16, local_rank_of[rank.0 as usize].into());
            self.procs.derive(key, rows, nodes().map(|(rank, _)| (rank, local(rank))))?;
        }
        Ok(())
    }

    fn derive_job(&mut self, placed: u32) {
        let size = if placed > 0 { placed } else { self.procs.rows() };
        let (job, derived) = (&mut self.job, &mut self.derived.job);
        if size > 0 {
            derive(job, derived, keys::JOB_SIZE, || Value::Uint32(size));
            // Released servers derive it, too, and Open MPI 4.1 needs it.
            derive(job, derived, keys::MAX_PROCS, || Value::Uint32(size));
        }
        // The host may have registered nodes that are not the job's.
        let count = self.maps.nodes.as_ref().map_or(self.nodes.len(), Vec::len);
        if count > 0 {
            derive(job, derived, keys::NUM_NODES, || Value::Uint32(count as u32));
            let names: Vec<&[u8]> = self.nodes[..count].iter().map(|node| node.hostname.as_slice()).collect();
            derive(job, derived, keys::NODE_LIST, || Value::string(names.join(&b',')));
        }
    }

    /// Derives the rank of each process within its application. Returns the number of ranks and the first rank of each
    /// application.
    fn derive_app_ranks(&mut self) -> Result<BTreeMap<u32, (u32, u32)>> {
        let rows = self.procs.rows();
        let appnums = self.procs.column(keys::APPNUM);
        let is_same = |all: &FullColumn<'_>| all.runs().next().is_some_and(|(_, count)| count == all.rows());
        if let Some(all) = appnums.and_then(Column::full).filter(is_same) {
            let (count, appnum) = (all.rows(), all.value(0).as_u32());
            self.procs.derive_numbers(keys::APP_RANK, count, DataType::PROC_RANK, Formula::counting(0))?;
            return Ok(appnum.map(|appnum| (appnum, (count, 0))).into_iter().collect());
        }
        let mut apps: BTreeMap<u32, (u32, u32)> = BTreeMap::new();
        let is_said = self.procs.is_whole(keys::APP_RANK, rows);
        let mut app_ranks =
            fallible_alloc::vec(appnums.filter(|_| !is_said).map_or(0, |appnums| appnums.rows() as usize))?;
        for (rank, appnum) in appnums.into_iter().flat_map(Column::iter) {
            let Some(appnum) = appnum.as_u32() else { continue };
            let (count, _) = apps.entry(appnum).or_insert((0, rank.0));
            if !is_said {
                app_ranks.push((rank, number(DataType::PROC_RANK, *count)));
            }
            *count += 1;
        }
        self.procs.derive(keys::APP_RANK, rows, app_ranks.into_iter())?;
        Ok(apps)
    }

    /// Derives values from each rank's application.
    fn derive_apps(&mut self) -> Result<()> {
        let offset = self.job.get(keys::NPROC_OFFSET.as_bytes()).and_then(Value::as_u64).unwrap_or(0);
        let only = match self.apps.len() {
            0 => Some(0),
            1 => self.apps.keys().next().copied(),
            _ => None,
        };
        self.procs.derive_of_all(keys::RANK, DataType::PROC_RANK, Formula::counting(0))?;
        self.procs.derive_of_all(keys::GLOBAL_RANK, DataType::PROC_RANK, Formula::counting(offset))?;
        if let Some(appnum) = only {
            self.procs.derive_of_all(keys::APPNUM, DataType::UINT32, Formula::constant(appnum.into()))?;
        }
        let apps = self.derive_app_ranks()?;
        for (appnum, (size, leader)) in apps {
            let (values, derived) =
                (self.apps.entry(appnum).or_default(), self.derived.apps.entry(appnum).or_default());
            derive(values, derived, keys::APPNUM, || Value::Uint32(appnum));
            for key in OF_APPS {
                if let (Some(_), Some(value)) = (only, self.job.get(key.as_bytes())) {
                    derive(values, derived, key, || value.clone());
                }
            }
            derive(values, derived, keys::APP_SIZE, || Value::Uint32(size));
            derive(values, derived, keys::APPLDR, || Value::Rank(Rank(leader)));
        }
        let count = self.apps.len() as u32;
        if count > 0 {
            derive(&mut self.job, &mut self.derived.job, keys::JOB_NUM_APPS, || Value::Uint32(count));
        }
        Ok(())
    }
}
