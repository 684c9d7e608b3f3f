//! Requests for resource usage, and their access check: a process sees the processes of its own job and of its user's jobs.

use std::collections::BTreeMap;

use pmix_dstore::job::JobData;
use pmix_dstore::model::{Info, Key, Proc, Result, Status, Value, keys};
use pmix_dstore::realm_resolution::JobLookup;

use super::Engine;
use super::apart::{REFUSED, Reach};
use super::peer::{Actor, PeerId};
use crate::usage::{self, Subject, Target, Usage};

/// The requested usage, processes and nodes.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Statistics {
    pub usage: Usage,
    procs: Vec<Proc>,
    pids: Vec<Pid>,
    nodes: Vec<Node>,
}

/// A process by its number on a node; -1 is every one there.
#[derive(Clone, Debug, PartialEq)]
struct Pid {
    node: Node,
    pid: i32,
}

#[derive(Clone, Debug, PartialEq)]
enum Node {
    Name(Vec<u8>),
    Number(u32),
}

impl Statistics {
    /// Reads a request; `None` for another one.
    ///
    /// # Errors
    /// `BAD_PARAM` for values of a wrong type.
    pub fn read(monitor: &Info, directives: &[Info]) -> Result<Option<Statistics>> {
        let subjects = [
            (keys::MONITOR_PROC_RESOURCE_USAGE, Subject::Processes),
            (keys::MONITOR_NODE_RESOURCE_USAGE, Subject::Node),
            (keys::MONITOR_DISK_RESOURCE_USAGE, Subject::Disks),
            (keys::MONITOR_NET_RESOURCE_USAGE, Subject::Networks),
        ];
        let Some((_, subject)) = subjects.into_iter().find(|(key, _)| monitor.key.is(key)) else { return Ok(None) };
        if !matches!(monitor.value, Value::DataArray(_) | Value::Undef) {
            return Err(Status::ERR_BAD_PARAM);
        }
        let mut disks = each(directives, keys::MONITOR_TARGET_DISKS, name)?;
        let mut networks = each(directives, keys::MONITOR_TARGET_NETS, name)?;
        let mut fields: Vec<Key> = Vec::new();
        for info in monitor.value.iter_infos() {
            match () {
                () if info.key.is(keys::DISK_ID) => disks.push(name(&info.value).ok_or(Status::ERR_BAD_PARAM)?),
                () if info.key.is(keys::NETWORK_ID) => networks.push(name(&info.value).ok_or(Status::ERR_BAD_PARAM)?),
                () => fields.push(info.key.clone()),
            }
        }
        let procs = each(directives, keys::MONITOR_TARGET_PROCS, |item| match item {
            Value::Proc(proc) => Some(proc.clone()),
            _ => None,
        })?;
        let pids = each(directives, keys::MONITOR_TARGET_PIDS, |item| match item {
            Value::NodePid { hostname: Some(name), pid, .. } => {
                Some(Pid { node: Node::Name(name.as_bytes().to_vec()), pid: *pid })
            }
            Value::NodePid { hostname: None, nodeid, pid } => Some(Pid { node: Node::Number(*nodeid), pid: *pid }),
            _ => None,
        })?;
        let mut nodes = each(directives, keys::MONITOR_TARGET_NODES, |item| name(item).map(Node::Name))?;
        nodes.extend(each(directives, keys::MONITOR_TARGET_NODEIDS, |item| item.as_u32().map(Node::Number))?);
        let usage = Usage { subject, fields, disks, networks };
        Ok(Some(Statistics { usage, procs, pids, nodes }))
    }

    fn names_processes(&self) -> bool {
        !self.procs.is_empty() || !self.pids.is_empty()
    }
}

fn name(value: &Value) -> Option<Vec<u8>> {
    value.as_text().map(<[u8]>::to_vec)
}

/// The items of all arrays with a key.
fn each<T>(directives: &[Info], key: &str, read: impl Fn(&Value) -> Option<T>) -> Result<Vec<T>> {
    let mut all = Vec::new();
    for info in directives.iter().filter(|info| info.key.is(key)) {
        let Value::DataArray(array) = &info.value else { return Err(Status::ERR_BAD_PARAM) };
        for item in &array.items {
            all.push(read(item).ok_or(Status::ERR_BAD_PARAM)?);
        }
    }
    Ok(all)
}

impl Engine {
    /// Checks that the request concerns this node, and that the process may see it.
    ///
    /// # Errors
    /// `NOT_SUPPORTED` if it concerns only other nodes, which only a host reaches. `NO_PERMISSIONS` for another user's processes.
    pub(super) fn is_of_here(&self, id: PeerId, wanted: &Statistics) -> Result<()> {
        let Some(peer) = self.peers.get(&id) else { return Err(Status::ERR_NOT_FOUND) };
        if wanted.procs.iter().any(|proc| self.reads(&peer.proc, peer.user, &proc.nspace) == Reach::Nothing) {
            return Err(REFUSED);
        }
        let is_client = |proc: &Proc| {
            let state = self.nspaces.get(&proc.nspace);
            state.is_some_and(|state| {
                state.clients.keys().any(|rank| proc.covers(&Proc::new(proc.nspace.clone(), *rank)))
            })
        };
        let is_here = |node: &Node| self.is_this_node(&peer.proc, node);
        let has_named = wanted.procs.iter().any(is_client) || wanted.pids.iter().any(|pid| is_here(&pid.node));
        let is_this_node = wanted.nodes.is_empty() || wanted.nodes.iter().any(is_here);
        let is_here = match wanted.usage.subject {
            Subject::Processes if wanted.names_processes() => has_named,
            _ => is_this_node,
        };
        if is_here { Ok(()) } else { Err(Status::ERR_NOT_SUPPORTED) }
    }

    /// Whether the server or the job of a process has this name or number for this node.
    fn is_this_node(&self, proc: &Proc, node: &Node) -> bool {
        let job = self.nspaces.get(&proc.nspace).and_then(|state| Some((&*state.job, self.own_row(state)?)));
        let is_row =
            |row: fn(&JobData, &Node) -> Option<u32>| job.is_some_and(|(job, own)| row(job, node) == Some(own));
        let is_own_name = matches!(node, Node::Name(name) if name == self.config.hostname.as_bytes());
        is_own_name
            || is_row(|job, node| match node {
                Node::Name(name) => job.node_row_by_name(name),
                Node::Number(number) => job.node_row_by_id(*number),
            })
    }

    /// The requested ranks that the process sees, each once: connected ranks with a known pid.
    pub(super) fn targets(&self, id: PeerId, wanted: &Statistics) -> Vec<Target> {
        let asker = self.peers.get(&id).filter(|_| wanted.usage.subject == Subject::Processes);
        asker.map(|asker| self.targets_for(&asker.actor(), wanted)).unwrap_or_default()
    }

    fn targets_for(&self, asker: &Actor, wanted: &Statistics) -> Vec<Target> {
        let is_meant = |proc: &Proc, number: i32| {
            let is_pid = |wanted: &Pid| {
                (wanted.pid == -1 || wanted.pid == number) && self.is_this_node(&asker.proc, &wanted.node)
            };
            !wanted.names_processes()
                || wanted.procs.iter().any(|wanted| wanted.covers(proc))
                || wanted.pids.iter().any(is_pid)
        };
        let mut targets = BTreeMap::new();
        for (other, peer) in self.peers.iter().filter(|(_, peer)| peer.admitted && !peer.is_tool) {
            let Some(pid) = peer.pid.filter(|pid| is_meant(&peer.proc, *pid)) else { continue };
            // A process's children may have connections in its name; the first is its own.
            let name = (peer.proc.nspace.clone(), peer.proc.rank);
            if targets.get(&name).is_some_and(|(first, _)| first < other)
                || !self.sees(&asker.proc, asker.user, &peer.proc.nspace)
            {
                continue;
            }
            targets.insert(name, (*other, Target { proc: peer.proc.clone(), pid, uid: peer.user.uid }));
        }
        targets.into_values().map(|(_, target)| target).collect()
    }

    /// What `PMIX_QUERY_MEMORY_USAGE` asks for: the memory of some processes, or of this server and all processes that the asker sees.
    pub(super) fn memory_query(&self, asker: &Actor, procs: Vec<Proc>, wants_each: bool) -> MemoryQuery {
        let fields = [keys::PROC_RSS, keys::PROC_VSIZE, keys::PROC_PEAK_VSIZE].map(Key::from).to_vec();
        let usage = Usage { subject: Subject::Processes, fields, disks: Vec::new(), networks: Vec::new() };
        let of_node = procs.is_empty();
        let wanted = Statistics { usage, procs, pids: Vec::new(), nodes: Vec::new() };
        let targets = self.targets_for(asker, &wanted);
        MemoryQuery { usage: wanted.usage, targets, hostname: self.config.hostname.clone(), of_node, wants_each }
    }
}

/// A query about memory. It is read outside the engine, as all usage is.
#[derive(Debug)]
pub(crate) struct MemoryQuery {
    usage: Usage,
    targets: Vec<Target>,
    hostname: String,
    /// The server's own memory counts, too.
    of_node: bool,
    /// Each process is told, not only their average.
    wants_each: bool,
}

impl MemoryQuery {
    /// The answer: resident memory, in which pages that processes share count for each of them.
    pub fn read(&self) -> Value {
        let each = self.usage.read(&self.targets, &self.hostname);
        let resident = each.iter().filter_map(|process| {
            let value = process.value.iter_infos().find(|info| info.key.is(keys::PROC_RSS))?;
            match value.value {
                Value::Float(megabytes) => Some(f64::from(megabytes)),
                _ => None,
            }
        });
        let (count, sum) = resident.fold((0_u32, 0.0), |(count, sum), megabytes| (count + 1, sum + megabytes));
        let mut infos = vec![Info::new(keys::HOSTNAME, Value::string(&self.hostname))];
        if self.of_node {
            infos.extend(usage::own_memory().map(|memory| Info::new(keys::DAEMON_MEMORY, memory)));
        }
        if count > 0 {
            let average = (sum / f64::from(count)) as f32;
            infos.push(Info::new(keys::CLIENT_AVG_MEMORY, Value::Float(average)));
        }
        if self.wants_each {
            infos.extend(each);
        }
        Value::infos(infos)
    }
}
