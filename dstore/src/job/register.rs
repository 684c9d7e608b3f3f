//! Sorts a host's info array into realms.
//!
//! Hosts nest the arrays of the standard's server chapter (`PMIX_SESSION_INFO_ARRAY`, `PMIX_JOB_INFO_ARRAY`,
//! `PMIX_APP_INFO_ARRAY`, `PMIX_NODE_INFO_ARRAY`, `PMIX_PROC_INFO_ARRAY`) in any order and depth, and pass the same values loose.
//! The key decides the realm of a loose value: loose node-level values belong to the host's own node. A value in an array belongs
//! to the object of the array, whatever its key: sessions and applications have maps of their own.

use std::collections::HashMap;

use super::placement::Stretches;
use super::refused::{Refused, Result};
use super::{JobData, Maps, Node, ProcTable, Values, check, peers_of};
use crate::codec::ValueRef;
use crate::maps;
use crate::model::{Info, Key, KeyRef, Nspace, Rank, Status, Value, keys};
use crate::realm_resolution::{Realm, default_realm_of};
use crate::{fallible_alloc, qualified};

/// Infos nested deeper than this are refused.
const DEPTH_MAX: usize = 16;

/// A host's registration.
#[derive(Clone)]
pub struct Given<'a> {
    /// The infos of `PMIx_server_register_nspace`.
    pub infos: &'a [Info],
    /// Process values that were already read from arrays before or between `infos`. No info before such an array may be about
    /// processes ([`ProcArrays`](super::ProcArrays)).
    pub procs: ProcTable,
}

impl<'a, T: AsRef<[Info]> + ?Sized> From<&'a T> for Given<'a> {
    fn from(infos: &'a T) -> Given<'a> {
        Given { infos: infos.as_ref(), procs: ProcTable::default() }
    }
}

impl JobData {
    /// Adds a host's registration. `hostname` is the name of the host's node.
    ///
    /// A further call for a namespace adds and replaces values, and derives the dependent values again. A different process map
    /// voids all earlier placements of ranks.
    ///
    /// # Errors
    /// `BAD_PARAM` for contradictions and for values of a wrong type or form; `NOMEM`. After an error the data are unusable: to
    /// keep the earlier registration, a caller registers in a copy.
    pub fn register<'a>(&mut self, given: impl Into<Given<'a>>, hostname: &[u8]) -> Result<()> {
        let Given { infos, procs } = given.into();
        self.forget_derived()?;
        let mut reader = Reader::new(self, hostname, procs);
        reader.session = reader.own_session(infos);
        reader.find_maps(infos.iter(), true, 0)?;
        reader.forget_places();
        infos.iter().try_for_each(|info| reader.take(info, Destination::Loose))?;
        reader.take_procs()?;
        let stretches = reader.bring_together()?;
        self.derive(stretches)
    }
}

/// The realm for the values of the current array.
#[derive(Clone, Copy, PartialEq)]
enum Destination {
    /// Not in an array: the key decides.
    Loose,
    Session,
    OtherSession(u32),
    Job,
    App(u32),
    Node(usize),
    Proc(Rank),
}

/// State of one registration while its infos are read.
struct Reader<'a> {
    job: &'a mut JobData,
    hostname: &'a [u8],
    maps: Maps,
    own_node: Vec<Info>,
    /// Rows of the job's nodes by name or alias, and by number.
    rows_by_name: HashMap<Vec<u8>, usize>,
    rows_by_id: HashMap<u32, usize>,
    /// The job's session.
    session: Option<u32>,
    /// The application of the current array.
    app: Option<u32>,
    /// Process values of this registration.
    said: ProcTable,
}

impl<'a> Reader<'a> {
    fn new(job: &'a mut JobData, hostname: &'a [u8], said: ProcTable) -> Reader<'a> {
        let mut reader = Reader {
            job,
            hostname,
            maps: Maps::default(),
            own_node: Vec::new(),
            rows_by_name: HashMap::new(),
            rows_by_id: HashMap::new(),
            session: None,
            app: None,
            said,
        };
        for row in 0..reader.job.nodes.len() {
            reader.index(row);
        }
        reader
    }

    /// Reads the job's maps first: they decide which values of earlier registrations stay valid. Arrays of other jobs and
    /// sessions are skipped, because they hold their own maps.
    fn find_maps<'i>(&mut self, infos: impl Iterator<Item = &'i Info>, is_job: bool, depth: usize) -> Result<()> {
        for info in infos {
            let key = &info.key;
            if depth > DEPTH_MAX {
                return Err(Refused::new(key.clone(), format!("nested deeper than {DEPTH_MAX}")));
            }
            if is_job && (key.is(keys::NODE_MAP) || key.is(keys::NODE_MAP_RAW)) {
                let names = maps::parse_nodes(&check::map_bytes(info)?).map_err(|status| no_map(key, status))?;
                self.maps.nodes = Some(names);
            } else if is_job && (key.is(keys::PROC_MAP) || key.is(keys::PROC_MAP_RAW)) {
                let ranks = maps::parse_ppn(&check::map_bytes(info)?).map_err(|status| no_map(key, status))?;
                self.maps.procs = Some(ranks);
            }
            let is_job = key.is(keys::JOB_INFO_ARRAY);
            let is_other = is_job && self.is_foreign(&info.value) || self.other_session(info).is_some();
            if !is_other {
                self.find_maps(info.value.iter_infos(), is_job, depth + 1)?;
            }
        }
        Ok(())
    }

    fn take(&mut self, info: &Info, destination: Destination) -> Result<()> {
        let key = &info.key;
        check::form(info)?;
        if key.is(keys::SESSION_INFO_ARRAY) {
            let destination = self.other_session(info).map_or(Destination::Session, Destination::OtherSession);
            return self.take_all(&info.value, destination);
        }
        if let Destination::OtherSession(id) = destination {
            // Jobs and nodes of other sessions have registrations of their own.
            let is_plain = !check::is_array(key);
            let session = self.job.other_sessions.entry(id).or_default();
            return if is_plain { put(session, info) } else { Ok(()) };
        }
        if key.is(keys::JOB_INFO_ARRAY) {
            if self.is_foreign(&info.value) {
                return Ok(());
            }
            return self.take_all(&info.value, Destination::Job);
        }
        if key.is(keys::APP_INFO_ARRAY) {
            return self.take_app(&info.value);
        }
        if key.is(keys::NODE_INFO_ARRAY) {
            return self.take_node(&info.value);
        }
        if key.is(keys::PROC_INFO_ARRAY) || key.is(keys::PROC_DATA) {
            return self.take_proc(&info.value);
        }
        match destination {
            Destination::Session | Destination::OtherSession(_) => put(&mut self.job.session, info),
            Destination::Job => put(&mut self.job.job, info),
            Destination::App(appnum) => put(self.job.apps.entry(appnum).or_default(), info),
            Destination::Node(row) => self.set_node_value(row, info),
            Destination::Proc(rank) => self.set_proc_value(rank, info),
            Destination::Loose => match loose_realm(key) {
                Realm::Session => put(&mut self.job.session, info),
                Realm::Node => {
                    self.own_node.push(info.copy()?);
                    Ok(())
                }
                _ => put(&mut self.job.job, info),
            },
        }
    }

    fn take_all(&mut self, array: &Value, destination: Destination) -> Result<()> {
        array.iter_infos().try_for_each(|info| self.take(info, destination))
    }

    /// The job's session: the one that its own infos name, else the one whose array contains the job's, else the known one, else
    /// the first in the infos.
    fn own_session(&self, infos: &[Info]) -> Option<u32> {
        let said = self.said_session(infos.iter(), 0);
        let arrays = || infos.iter().filter(|info| info.key.is(keys::SESSION_INFO_ARRAY));
        let number = |info: &Info| find(&info.value, keys::SESSION_ID).and_then(Value::as_u32);
        let has_job = |info: &&Info| {
            let mut jobs = info.value.iter_infos().filter(|inner| inner.key.is(keys::JOB_INFO_ARRAY));
            jobs.any(|job| !self.is_foreign(&job.value))
        };
        let around = || arrays().filter(has_job).find_map(number);
        said.or_else(around).or_else(|| self.job.session_id()).or_else(|| arrays().find_map(number))
    }

    /// The session id among the job's own infos.
    fn said_session<'i>(&self, mut infos: impl Iterator<Item = &'i Info>, depth: usize) -> Option<u32> {
        infos.find_map(|info| match () {
            () if info.key.is(keys::SESSION_ID) => info.value.as_u32(),
            () if depth < DEPTH_MAX && info.key.is(keys::JOB_INFO_ARRAY) && !self.is_foreign(&info.value) => {
                self.said_session(info.value.iter_infos(), depth + 1)
            }
            () => None,
        })
    }

    /// The id of a session to which the job does not belong, if the info is an array of one.
    fn other_session(&self, info: &Info) -> Option<u32> {
        let number = find(&info.value, keys::SESSION_ID).and_then(Value::as_u32)?;
        (info.key.is(keys::SESSION_INFO_ARRAY) && self.session != Some(number)).then_some(number)
    }

    /// Whether an array describes another job of the session.
    fn is_foreign(&self, array: &Value) -> bool {
        job_of(array).is_some_and(|nspace| nspace != self.job.nspace)
    }

    fn take_app(&mut self, array: &Value) -> Result<()> {
        // In a job with one application, the number may be absent.
        let appnum = find(array, keys::APPNUM).and_then(Value::as_u32).unwrap_or(0);
        self.job.apps.entry(appnum).or_default();
        let outer = self.app.replace(appnum);
        let taken = self.take_all(array, Destination::App(appnum));
        self.app = outer;
        taken
    }

    fn take_node(&mut self, array: &Value) -> Result<()> {
        let name = find(array, keys::HOSTNAME).and_then(Value::as_text);
        let nodeid = find(array, keys::NODEID).and_then(Value::as_u32);
        if name.is_none() && nodeid.is_none() {
            let why = format!("the array has neither {} nor {}", keys::HOSTNAME, keys::NODEID);
            return Err(Refused::new(keys::NODE_INFO_ARRAY, why));
        }
        let row = self.node_row(name, nodeid);
        self.job.nodes[row].is_given = true;
        self.take_all(array, Destination::Node(row))?;
        self.index(row);
        Ok(())
    }

    fn take_proc(&mut self, array: &Value) -> Result<()> {
        let rank = match (find(array, keys::RANK), find(array, keys::PROCID)) {
            (Some(rank), _) => Some(Rank(rank.as_u32().ok_or_else(|| Refused::new(keys::RANK, "is not a number"))?)),
            (None, Some(Value::Proc(proc))) if proc.nspace == self.job.nspace => Some(proc.rank),
            (None, Some(_)) => return Err(Refused::new(keys::PROCID, "is of another job")),
            (None, None) => None,
        };
        let Some(rank) = rank else {
            return Err(Refused::new(keys::PROC_INFO_ARRAY, format!("the array has no {}", keys::RANK)));
        };
        if rank.0 > ProcTable::RANK_MAX {
            return Err(Refused::new(keys::RANK, format!("{rank} is not the rank of a process")));
        }
        if let (Some(appnum), None) = (self.app, find(array, keys::APPNUM)) {
            self.set_proc_value(rank, &Info::new(keys::APPNUM, Value::Uint32(appnum)))?;
        }
        self.take_all(array, Destination::Proc(rank))
    }

    fn set_proc_value(&mut self, rank: Rank, info: &Info) -> Result<()> {
        let key = info.key.as_bytes();
        let said = self.said.get(rank, key);
        if check::is_place(&info.key) && said.is_some_and(|said| said != ValueRef::from(&info.value)) {
            return Err(Refused::new(info.key.clone(), format!("rank {rank} has two values")));
        }
        let old = said.or_else(|| self.job.procs.get(rank, key));
        let value = beside(old.and_then(ValueRef::owned), info)?;
        Ok(self.said.set(rank, info.key.clone(), value)?)
    }

    /// Merges this registration's process values into the job's.
    fn take_procs(&mut self) -> Result<()> {
        Ok(self.job.procs.merge(std::mem::take(&mut self.said))?)
    }

    /// Indexes the names and the number of a node.
    fn index(&mut self, row: usize) {
        let node = &self.job.nodes[row];
        for name in node.aliases.iter().chain([&node.hostname]).filter(|name| !name.is_empty()) {
            self.rows_by_name.entry(name.clone()).or_insert(row);
        }
        if let Some(nodeid) = node.nodeid {
            self.rows_by_id.entry(nodeid).or_insert(row);
        }
    }

    /// The row of the node with this name or number; a node is added if there is none.
    fn node_row(&mut self, name: Option<&[u8]>, nodeid: Option<u32>) -> usize {
        let by_name = name.and_then(|name| self.rows_by_name.get(name));
        let by_id = || nodeid.and_then(|id| self.rows_by_id.get(&id));
        // The name of a node that is known only by its number can follow later.
        let is_same = |row: &&usize| name.is_none() || self.job.nodes[**row].hostname.is_empty();
        let found = by_name.or_else(|| by_id().filter(is_same)).copied();
        let row = found.unwrap_or_else(|| {
            self.job.nodes.push(Node::default());
            self.job.nodes.len() - 1
        });
        let node = &mut self.job.nodes[row];
        if let (Some(name), true) = (name, node.hostname.is_empty()) {
            node.hostname = name.to_vec();
            node.values.insert(Key::from(keys::HOSTNAME), Value::string(name));
        }
        node.nodeid = nodeid.or(node.nodeid);
        self.index(row);
        row
    }

    fn set_node_value(&mut self, row: usize, info: &Info) -> Result<()> {
        let node = &mut self.job.nodes[row];
        if info.key.is(keys::NODEID) {
            node.nodeid = info.value.as_u32();
        } else if info.key.is(keys::HOSTNAME_ALIASES) {
            let list = info.value.as_text().unwrap_or_default();
            node.aliases =
                list.split(|byte| *byte == b',').filter(|name| !name.is_empty()).map(<[u8]>::to_vec).collect();
        }
        put(&mut node.values, info)
    }

    /// Applies the maps and the loose values of the host's own node to the node table. Returns the stretches of the process map.
    fn bring_together(mut self) -> Result<Option<Stretches>> {
        let maps = std::mem::take(&mut self.maps);
        let is_map_new = maps.nodes.is_some();
        let known = &mut self.job.maps;
        known.nodes = maps.nodes.or(known.nodes.take());
        known.procs = maps.procs.or(known.procs.take());
        let stretches = known.procs.as_deref().map_or(Ok(None), Stretches::of)?;
        check::maps(known, stretches.is_some())?;
        fallible_alloc::reserve_entries(&mut self.rows_by_name, known.nodes.as_ref().map_or(0, Vec::len))?;
        let names = known.nodes.take();
        if let Some(names) = &names {
            self.order_nodes(names);
        }
        self.job.maps.nodes = names;
        if !self.own_node.is_empty() {
            let row = self.own_node_row();
            let own_node = std::mem::take(&mut self.own_node);
            self.job.nodes[row].is_given = true;
            for info in &own_node {
                self.set_node_value(row, info)?;
            }
        }
        check::sizes(self.job, is_map_new)?;
        Ok(stretches)
    }

    /// If the process map has changed, removes earlier placements of ranks.
    fn forget_places(&mut self) {
        let (known, new) = (&self.job.maps.procs, &self.maps.procs);
        if known.is_none() || new.is_none() || known == new {
            return;
        }
        for key in check::PLACES {
            self.job.procs.remove(key);
        }
        for node in &mut self.job.nodes {
            for key in [keys::LOCAL_PEERS, keys::LOCAL_SIZE, keys::LOCALLDR] {
                node.values.remove(key.as_bytes());
            }
        }
        for key in [keys::JOB_SIZE, keys::NUM_NODES, keys::NODE_LIST] {
            self.job.job.remove(key.as_bytes());
        }
    }

    /// Sorts the node table in the order of the node map; nodes that are not in the map follow.
    fn order_nodes(&mut self, names: &[Vec<u8>]) {
        let mut old: Vec<Option<Node>> = std::mem::take(&mut self.job.nodes).into_iter().map(Some).collect();
        // A node that is known only by its number gets the name at that position of the map.
        let mut by_number = HashMap::new();
        for (row, node) in old.iter().flatten().enumerate() {
            if let (true, Some(nodeid)) = (node.hostname.is_empty(), node.nodeid) {
                by_number.insert(nodeid as usize, row);
            }
        }
        for (number, name) in names.iter().enumerate() {
            let found = self.rows_by_name.get(name).or_else(|| by_number.get(&number));
            let mut node = found.and_then(|row| old[*row].take()).unwrap_or_default();
            if node.hostname.is_empty() {
                node.hostname = name.clone();
                node.derive(keys::HOSTNAME, || Value::string(name));
            }
            self.job.nodes.push(node);
        }
        let mut rest: Vec<Node> = old.into_iter().flatten().collect();
        rest.sort_by(|a, b| (a.nodeid, &a.hostname).cmp(&(b.nodeid, &b.hostname)));
        self.job.nodes.extend(rest);
        self.rows_by_name.clear();
        self.rows_by_id.clear();
        (0..self.job.nodes.len()).for_each(|row| self.index(row));
    }

    /// The row of the host's own node: by name; by the name up to the first dot on either side; by the ranks that the host
    /// registers as its own; or the only node, unless its number of ranks differs. Otherwise the host is not in the job's maps,
    /// and a row is added.
    fn own_node_row(&mut self) -> usize {
        fn short(name: &[u8]) -> &[u8] {
            name.split(|byte| *byte == b'.').next().unwrap_or_default()
        }
        let by_name = self.rows_by_name.get(self.hostname).copied();
        let nodes = &self.job.nodes;
        let by_short = || nodes.iter().position(|node| short(&node.hostname) == short(self.hostname));
        match by_name.or_else(by_short).or_else(|| self.row_of_own_peers()) {
            Some(row) => row,
            None if nodes.len() == 1 && self.may_be_own(0) => 0,
            None => self.node_row(Some(self.hostname), None),
        }
    }

    /// The node whose ranks in the process map equal the host's own ranks. Flux gives nodes that share a hostname distinct names
    /// in the map.
    fn row_of_own_peers(&self) -> Option<usize> {
        let said = Info::find(&self.own_node, keys::LOCAL_PEERS).and_then(peers_of).filter(|said| !said.is_empty())?;
        let said = check::sorted(&said);
        self.job.maps.procs.as_ref()?.iter().position(|ranks| ranks.len() == said.len() && check::sorted(ranks) == said)
    }

    fn may_be_own(&self, row: usize) -> bool {
        let size = Info::find(&self.own_node, keys::LOCAL_SIZE).and_then(Value::as_u32);
        let mapped = self.job.maps.procs.as_ref().and_then(|procs| procs.get(row)).map(Vec::len);
        size.zip(mapped).is_none_or(|(size, mapped)| size as usize == mapped)
    }
}

/// Another job that a registration describes within its session.
pub struct OtherJob<'a> {
    /// The job.
    pub nspace: Nspace,
    /// The session whose array contains the job's array.
    session: Option<u32>,
    array: &'a Value,
}

impl OtherJob<'_> {
    /// The infos of the job, including its session.
    ///
    /// # Errors
    /// `NOMEM`.
    pub fn infos(&self) -> crate::model::Result<Vec<Info>> {
        let mut infos = self.array.iter_infos().map(Info::copy).collect::<crate::model::Result<Vec<_>>>()?;
        let session = self.session.filter(|_| find(self.array, keys::SESSION_ID).is_none());
        infos.extend(session.map(|id| Info::new(keys::SESSION_ID, Value::Uint32(id))));
        Ok(infos)
    }
}

/// The other jobs that the registration of `nspace` describes.
pub fn other_jobs<'a>(nspace: &Nspace, infos: &'a [Info]) -> Vec<OtherJob<'a>> {
    let mut jobs = Vec::new();
    find_other_jobs(nspace, infos.iter(), None, 0, &mut jobs);
    jobs
}

fn find_other_jobs<'a>(
    nspace: &Nspace,
    infos: impl Iterator<Item = &'a Info>,
    session: Option<u32>,
    depth: usize,
    jobs: &mut Vec<OtherJob<'a>>,
) {
    for info in infos.filter(|_| depth < DEPTH_MAX) {
        let is_session = info.key.is(keys::SESSION_INFO_ARRAY);
        let of = job_of(&info.value).filter(|of| of != nspace && !of.is_empty());
        match of.filter(|_| info.key.is(keys::JOB_INFO_ARRAY)) {
            Some(nspace) => jobs.push(OtherJob { nspace, session, array: &info.value }),
            None if is_session || info.key.is(keys::JOB_INFO_ARRAY) => {
                let number = find(&info.value, keys::SESSION_ID).and_then(Value::as_u32).filter(|_| is_session);
                find_other_jobs(nspace, info.value.iter_infos(), number.or(session), depth + 1, jobs);
            }
            None => {}
        }
    }
}

/// The namespace in a job's array.
fn job_of(array: &Value) -> Option<Nspace> {
    Nspace::new(find(array, keys::NSPACE)?.as_text()?).ok()
}

fn put(values: &mut Values, info: &Info) -> Result<()> {
    let value = beside(values.get(info.key.as_bytes()), info)?;
    values.insert(info.key.clone(), value);
    Ok(())
}

/// The new value for an info's key: the info's value replaces `old`, but a qualified value is merged into `old`.
fn beside(old: Option<&Value>, info: &Info) -> Result<Value> {
    if !qualified::is_key(&info.key) {
        return Ok(info.value.copy()?);
    }
    qualified::merge(old, &info.value).map_err(|status| match status {
        Status::ERR_NOMEM => status.into(),
        _ => Refused::new(info.key.clone(), "is not an array of a value and its qualifiers"),
    })
}

fn find<'a>(array: &'a Value, key: &str) -> Option<&'a Value> {
    array.iter_infos().find(|info| info.key.is(key)).map(|info| &info.value)
}

fn no_map(key: &Key, status: Status) -> Refused {
    match status {
        Status::ERR_NOMEM => status.into(),
        _ => Refused::new(key.clone(), "not a map, or a map with too many nodes or ranks"),
    }
}

/// The realm of a value outside any array, as in stock servers: stock clients look only there. A loose name or number of a node
/// belongs to the host's own node.
fn loose_realm(key: &Key) -> Realm {
    match default_realm_of(&KeyRef::from(key)) {
        Some(realm @ (Realm::Session | Realm::Node)) => realm,
        _ if key.is(keys::HOSTNAME) || key.is(keys::NODEID) => Realm::Node,
        _ => Realm::Job,
    }
}
