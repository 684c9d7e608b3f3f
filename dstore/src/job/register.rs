//! Sorting a host's info array into realms.
//!
//! Hosts nest the arrays of the standard's server chapter (`PMIX_SESSION_INFO_ARRAY`, `PMIX_JOB_INFO_ARRAY`,
//! `PMIX_APP_INFO_ARRAY`, `PMIX_NODE_INFO_ARRAY`, `PMIX_PROC_INFO_ARRAY`) in any order and depth, and pass the same
//! values loose. A loose value goes where its key belongs: loose node-level values speak of the host's own node.

use std::collections::HashMap;

use super::{JobData, Node, Values};
use crate::maps;
use crate::model::{Info, Key, Rank, Result, Status, Value, keys};
use crate::rules::Realm;

/// Where the values of the array being read go.
#[derive(Clone, Copy)]
enum Place {
    /// Not in an array: the key decides.
    Loose,
    /// In the array of the session.
    Session,
    /// In the array of the job.
    Job,
}

/// Nested deeper than this is not data.
const DEPTH_MAX: usize = 16;

impl JobData {
    /// Takes in what a host registered: `infos` of `PMIx_server_register_nspace`, on the node named `hostname`.
    ///
    /// Called again for a namespace, it adds and replaces.
    ///
    /// # Errors
    /// `BAD_PARAM` for an array without the key that says whose it is or with a wrong type for it, or for maps that
    /// do not parse or do not fit each other; `NOMEM`, and then a part of it may be taken in.
    pub fn register(&mut self, infos: &[Info], hostname: &[u8]) -> Result<()> {
        let mut maps = Maps::default();
        for info in infos {
            self.take(info, Place::Loose, hostname, &mut maps, 0)?;
        }
        self.take_maps(&maps)?;
        self.derive()
    }

    fn take(&mut self, info: &Info, place: Place, hostname: &[u8], maps: &mut Maps, depth: usize) -> Result<()> {
        if depth > DEPTH_MAX {
            return Err(Status::ERR_BAD_PARAM);
        }
        let key = &info.key;
        let nested = |this: &mut Self, place, maps: &mut Maps| {
            info.value.iter_infos().try_for_each(|info| this.take(info, place, hostname, maps, depth + 1))
        };
        if key.is(keys::SESSION_INFO_ARRAY) {
            return nested(self, Place::Session, maps);
        }
        if key.is(keys::JOB_INFO_ARRAY) {
            return nested(self, Place::Job, maps);
        }
        if key.is(keys::APP_INFO_ARRAY) {
            return self.take_app(&info.value, hostname, maps, depth);
        }
        if key.is(keys::NODE_INFO_ARRAY) {
            return self.take_node(&info.value, hostname, maps, depth);
        }
        if key.is(keys::PROC_INFO_ARRAY) || key.is(keys::PROC_DATA) {
            return self.take_proc(&info.value, hostname, maps, depth);
        }
        if key.is(keys::NODE_MAP) || key.is(keys::NODE_MAP_RAW) {
            maps.nodes = Some(maps::parse_nodes(map_bytes(&info.value)?)?);
            return Ok(());
        }
        if key.is(keys::PROC_MAP) || key.is(keys::PROC_MAP_RAW) {
            maps.procs = Some(maps::parse_ppn(map_bytes(&info.value)?)?);
            return Ok(());
        }
        match place {
            Place::Session => put(&mut self.session, info)?,
            Place::Job => put(&mut self.job, info)?,
            Place::Loose => match loose_realm(key) {
                Realm::Session => put(&mut self.session, info)?,
                Realm::Node => maps.own_node.push(info.copy()?),
                _ => put(&mut self.job, info)?,
            },
        }
        if maps.own_hostname.is_empty() {
            maps.own_hostname = hostname.to_vec();
        }
        Ok(())
    }

    fn take_app(&mut self, array: &Value, hostname: &[u8], maps: &mut Maps, depth: usize) -> Result<()> {
        let appnum = match find(array, keys::APPNUM) {
            Some(value) => value.as_u32().ok_or(Status::ERR_BAD_PARAM)?,
            // A job of one application may leave its number out.
            None => 0,
        };
        for info in array.iter_infos() {
            if is_array(&info.key) {
                self.take(info, Place::Loose, hostname, maps, depth + 1)?;
            } else {
                put(self.apps.entry(appnum).or_default(), info)?;
            }
        }
        Ok(())
    }

    fn take_node(&mut self, array: &Value, hostname: &[u8], maps: &mut Maps, depth: usize) -> Result<()> {
        let name = find(array, keys::HOSTNAME).and_then(Value::as_text);
        let nodeid = find(array, keys::NODEID).and_then(Value::as_u32);
        let row = match (name, nodeid) {
            (None, None) => return Err(Status::ERR_BAD_PARAM),
            (name, nodeid) => self.node_entry(name, nodeid),
        };
        for info in array.iter_infos() {
            if is_array(&info.key) {
                self.take(info, Place::Loose, hostname, maps, depth + 1)?;
            } else {
                self.set_node_value(row, info)?;
            }
        }
        Ok(())
    }

    fn take_proc(&mut self, array: &Value, hostname: &[u8], maps: &mut Maps, depth: usize) -> Result<()> {
        let rank = find(array, keys::RANK).and_then(Value::as_u32).ok_or(Status::ERR_BAD_PARAM)?;
        for info in array.iter_infos() {
            if is_array(&info.key) {
                self.take(info, Place::Loose, hostname, maps, depth + 1)?;
            } else {
                self.procs.set(Rank(rank), info.key.clone(), info.value.copy()?)?;
            }
        }
        Ok(())
    }

    /// The row of the node with this name or number, made where there is none.
    pub(super) fn node_entry(&mut self, name: Option<&[u8]>, nodeid: Option<u32>) -> usize {
        let found = match (name, nodeid) {
            (Some(name), _) => self.nodes.iter().position(|node| node.is_named(name)),
            (None, Some(id)) => self.nodes.iter().position(|node| node.nodeid == Some(id)),
            (None, None) => None,
        };
        let row = found.unwrap_or_else(|| {
            self.nodes.push(Node::default());
            self.nodes.len() - 1
        });
        let node = &mut self.nodes[row];
        if let (Some(name), true) = (name, node.hostname.is_empty()) {
            node.hostname = name.to_vec();
            node.values.insert(Key::from(keys::HOSTNAME), Value::string(name));
        }
        row
    }

    fn set_node_value(&mut self, row: usize, info: &Info) -> Result<()> {
        let node = &mut self.nodes[row];
        if info.key.is(keys::NODEID) {
            node.nodeid = info.value.as_u32();
        } else if info.key.is(keys::HOSTNAME_ALIASES) {
            let list = info.value.as_text().unwrap_or_default();
            node.aliases =
                list.split(|byte| *byte == b',').filter(|name| !name.is_empty()).map(<[u8]>::to_vec).collect();
        }
        put(&mut node.values, info)
    }

    /// Brings the maps, and the loose values about the host's own node, into the node table.
    fn take_maps(&mut self, maps: &Maps) -> Result<()> {
        if let Some(names) = &maps.nodes {
            self.order_nodes(names);
        }
        if let Some(ranks) = &maps.procs {
            // The process map speaks of the nodes of the node map, which may have come with an earlier registration.
            if ranks.len() > self.nodes.len() {
                return Err(Status::ERR_BAD_PARAM);
            }
            self.place_ranks(ranks)?;
        }
        if !maps.own_node.is_empty() {
            let row = self.own_node_row(&maps.own_hostname);
            for info in &maps.own_node {
                self.set_node_value(row, info)?;
            }
        }
        Ok(())
    }

    /// Sorts the node table in the order of the node map; nodes that are not in the map follow.
    fn order_nodes(&mut self, names: &[Vec<u8>]) {
        let mut old: Vec<Option<Node>> = std::mem::take(&mut self.nodes).into_iter().map(Some).collect();
        let mut by_name = HashMap::new();
        // A node of which only the number is known has the name at that place.
        let mut by_number = HashMap::new();
        for (row, node) in old.iter().flatten().enumerate() {
            for name in node.aliases.iter().chain([&node.hostname]).filter(|name| !name.is_empty()) {
                by_name.insert(name.clone(), row);
            }
            if let (true, Some(nodeid)) = (node.hostname.is_empty(), node.nodeid) {
                by_number.insert(nodeid as usize, row);
            }
        }
        for (number, name) in names.iter().enumerate() {
            let found = by_name.get(name).or_else(|| by_number.get(&number));
            let mut node = found.and_then(|row| old[*row].take()).unwrap_or_default();
            if node.hostname.is_empty() {
                node.hostname = name.clone();
                node.values.insert(Key::from(keys::HOSTNAME), Value::string(name));
            }
            self.nodes.push(node);
        }
        let mut rest: Vec<Node> = old.into_iter().flatten().collect();
        rest.sort_by(|a, b| (a.nodeid, &a.hostname).cmp(&(b.nodeid, &b.hostname)));
        self.nodes.extend(rest);
    }

    /// The row of the host's own node: by name, by the name up to its first dot on either side, or the only one.
    fn own_node_row(&mut self, hostname: &[u8]) -> usize {
        fn short(name: &[u8]) -> &[u8] {
            name.split(|byte| *byte == b'.').next().unwrap_or_default()
        }
        let by_name = self.nodes.iter().position(|node| node.is_named(hostname));
        let by_short = || self.nodes.iter().position(|node| short(&node.hostname) == short(hostname));
        match by_name.or_else(by_short) {
            Some(row) => row,
            None if self.nodes.len() == 1 => 0,
            None => self.node_entry(Some(hostname), None),
        }
    }
}

impl Node {
    /// Whether `name` is this node's name or one of its aliases.
    pub(super) fn is_named(&self, name: &[u8]) -> bool {
        self.hostname == name || self.aliases.iter().any(|alias| alias == name)
    }
}

/// What is known only when all infos have been read.
#[derive(Default)]
struct Maps {
    nodes: Option<Vec<Vec<u8>>>,
    procs: Option<Vec<Vec<u32>>>,
    own_node: Vec<Info>,
    own_hostname: Vec<u8>,
}

fn put(values: &mut Values, info: &Info) -> Result<()> {
    values.insert(info.key.clone(), info.value.copy()?);
    Ok(())
}

fn find<'a>(array: &'a Value, key: &str) -> Option<&'a Value> {
    array.iter_infos().find(|info| info.key.is(key)).map(|info| &info.value)
}

fn is_array(key: &Key) -> bool {
    [
        keys::SESSION_INFO_ARRAY,
        keys::JOB_INFO_ARRAY,
        keys::APP_INFO_ARRAY,
        keys::NODE_INFO_ARRAY,
        keys::PROC_INFO_ARRAY,
        keys::PROC_DATA,
        keys::NODE_MAP,
        keys::PROC_MAP,
    ]
    .iter()
    .any(|array| key.is(array))
}

fn map_bytes(value: &Value) -> Result<&[u8]> {
    match value {
        Value::Regex(bytes) | Value::ByteObject(bytes) => Ok(bytes),
        other => other.as_text().ok_or(Status::ERR_BAD_PARAM),
    }
}

/// The realm of a value that a host passed outside any array: as stock servers sort them, since stock clients look for
/// them there only.
fn loose_realm(key: &Key) -> Realm {
    const SESSION: [&str; 8] = [
        keys::SESSION_ID,
        keys::CLUSTER_ID,
        keys::UNIV_SIZE,
        keys::TMPDIR,
        keys::TDIR_RMCLEAN,
        keys::HOSTNAME_KEEP_FQDN,
        keys::RM_NAME,
        keys::RM_VERSION,
    ];
    const NODE: [&str; 11] = [
        keys::HOSTNAME,
        keys::HOSTNAME_ALIASES,
        keys::NODEID,
        keys::NODE_SIZE,
        keys::LOCAL_SIZE,
        keys::LOCAL_PEERS,
        keys::LOCALLDR,
        keys::LOCAL_CPUSETS,
        keys::LOCAL_PROCS,
        keys::AVAIL_PHYS_MEMORY,
        keys::NODE_OVERSUBSCRIBED,
    ];
    if SESSION.iter().any(|name| key.is(name)) {
        Realm::Session
    } else if NODE.iter().any(|name| key.is(name)) {
        Realm::Node
    } else {
        Realm::Job
    }
}
