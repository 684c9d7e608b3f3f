//! Encodes a job's data as the reply to a job-info request, and decodes it.
//!
//! The reply is a list of keys with values. Most are job-level values. Session, nodes, applications and ranks have keys
//! of their own: their values are arrays of infos or, for ranks, nested buffers. The replies to `Get` of a wildcard
//! rank, `Spawn` and `Connect` carry the data of another job in the same form.

use std::collections::HashMap;

use pmix_dstore::codec::ValueRef;
use pmix_dstore::codec::{Dialect, Packer, Unpacker};
use pmix_dstore::job::{JobData, Node, Values};
use pmix_dstore::model::{DataType, Info, Key, Kval, Nspace, Rank, Result, Status, Value, keys};
use pmix_dstore::qualified;

use super::{Version, packer};

/// The id of an unnamed session: session values are an array that begins with the session's id.
const SESSION_DEFAULT: u32 = u32::MAX;

/// Ranks below this limit are accepted in any reply. Higher ranks are accepted only from replies of matching size,
/// because some loops visit all ranks below the highest.
const RANK_FREE_MAX: usize = 1 << 16;
/// Further ranks for each byte of the reply.
const RANKS_PER_BYTE: usize = 16;

/// The receiver of a reply.
#[derive(Clone, Copy, Debug)]
pub struct Recipient<'a> {
    /// The form of its buffers.
    pub dialect: Dialect,
    /// Its release.
    pub version: Version,
    /// Its release as in its handshake; the reply repeats it.
    pub version_text: &'a str,
    /// The name of its node. Some old releases get the values of their own node a second time.
    pub hostname: &'a [u8],
}

/// The reply for one client.
///
/// Values of types that the client's encoder does not know are left out. Process-level values are sent for `ranks`
/// only; clients request the others when they need them.
///
/// # Errors
/// `PACK_FAILURE` for values that are too long.
pub fn encode(job: &JobData, to: &Recipient<'_>, ranks: impl Iterator<Item = Rank>) -> Result<Vec<u8>> {
    let mut packer = packer(to.dialect, to.version);
    packer.string(Some(job.nspace.as_bytes()))?;
    pack(&mut packer, job, to, ranks)?;
    Ok(packer.into_bytes())
}

/// The reply for one client, with all ranks if that is not longer than `len_max`, otherwise with the ranks of `local`.
///
/// # Errors
/// As [`encode`].
pub fn encode_within(
    job: &JobData,
    to: &Recipient<'_>,
    len_max: usize,
    local: impl Iterator<Item = Rank>,
) -> Result<Vec<u8>> {
    let reply = encode(job, to, all_ranks(job))?;
    if reply.len() > len_max { encode(job, to, local) } else { Ok(reply) }
}

/// Packs the part of a job-info reply after the namespace; other replies that carry a job's data contain the same.
///
/// # Errors
/// As [`encode`].
pub fn pack(packer: &mut Packer, job: &JobData, to: &Recipient<'_>, ranks: impl Iterator<Item = Rank>) -> Result<()> {
    pack_with(packer, job, to, ranks, |_| None)
}

/// As [`pack`], with the number that a rank's process has beside the registered data.
///
/// # Errors
/// As [`encode`].
pub fn pack_with(
    packer: &mut Packer,
    job: &JobData,
    to: &Recipient<'_>,
    ranks: impl Iterator<Item = Rank>,
    pid: impl Fn(Rank) -> Option<i32>,
) -> Result<()> {
    for (key, value) in qualified::spread(job.job.iter()) {
        if !is_map(key, value) {
            packer.kval_if_known(key, value)?;
        }
    }
    if !job.job.contains_key(keys::BFROPS_MODULE.as_bytes()) {
        packer.kval(&keys::BFROPS_MODULE.into(), &Value::string(to.version_text))?;
    }
    if to.version.reads_session_arrays() {
        put_session(packer, job)?;
    } else {
        put_plain(packer, &job.session)?;
    }
    for node in &job.nodes {
        put_node(packer, node, to)?;
    }
    for (appnum, values) in &job.apps {
        let first = Value::Uint32(*appnum);
        put_realm(packer, keys::APP_INFO_ARRAY, &[(keys::APPNUM, &first)], values)?;
    }
    let mut row = packer.nested();
    for rank in ranks {
        row.clear();
        row.rank(rank);
        let empty = row.len();
        qualified::spread_refs(job.procs.row(rank)).try_for_each(|(key, value)| row.kval_ref_if_known(key, value))?;
        if let Some(pid) = pid(rank).filter(|_| !job.procs.row(rank).any(|(key, _)| key.is(keys::PROC_PID))) {
            row.kval(&keys::PROC_PID.into(), &Value::Pid(pid))?;
        }
        if row.len() > empty {
            packer.kval_bytes(keys::PROC_BLOB, row.as_bytes())?;
        }
    }
    Ok(())
}

/// All ranks for which the server has values, for [`encode`].
pub fn all_ranks(job: &JobData) -> impl Iterator<Item = Rank> + use<> {
    job.procs.ranks()
}

/// Whether the value is a map. The node and process maps are not sent, because their contents are sent expanded. The
/// maps of sessions and applications are not sent either: a look-up that misses the job's map would find them instead.
fn is_map(key: &Key, value: &Value) -> bool {
    value.data_type() == DataType::REGEX || is_left_out(key.as_bytes())
}

/// Whether values of this key are not sent with a job's data.
pub fn is_left_out(key: &[u8]) -> bool {
    key == keys::NODE_MAP.as_bytes() || key == keys::PROC_MAP.as_bytes()
}

/// Packs the values of a realm as if they were the job's.
fn put_plain(packer: &mut Packer, values: &Values) -> Result<()> {
    qualified::spread(values.iter()).try_for_each(|(key, value)| packer.kval_if_known(key, value))
}

fn put_session(packer: &mut Packer, job: &JobData) -> Result<()> {
    let session = &job.session;
    if session.is_empty() {
        return Ok(());
    }
    // The session's id may be among the job's values.
    let default = Value::Uint32(job.session_id().unwrap_or(SESSION_DEFAULT));
    let id = session.get(keys::SESSION_ID.as_bytes()).unwrap_or(&default);
    put_realm(packer, keys::SESSION_INFO_ARRAY, &[(keys::SESSION_ID, id)], session)
}

fn put_node(packer: &mut Packer, node: &Node, to: &Recipient<'_>) -> Result<()> {
    let hostname = (!node.hostname.is_empty()).then(|| Value::string(&node.hostname));
    let nodeid = node.nodeid.map(Value::Uint32);
    let mut first = Vec::new();
    first.extend(hostname.as_ref().map(|name| (keys::HOSTNAME, name)));
    first.extend(nodeid.as_ref().map(|id| (keys::NODEID, id)));
    if to.version.reads_node_arrays() || node.hostname.is_empty() {
        return put_realm(packer, keys::NODE_INFO_ARRAY, &first, &node.values);
    }
    let name = Key::new(&node.hostname).map_err(|_| Status::ERR_PACK_FAILURE)?;
    let infos = Value::infos(
        realm(&first, &node.values)
            .filter_map(|(key, value)| Some(Info { key: Key::new(key).ok()?, flags: 0, value: value.clone() })),
    );
    packer.kval_if_known(&name, &infos)?;
    if node.hostname == to.hostname {
        put_plain(packer, &node.values)?;
    }
    Ok(())
}

/// The values of a realm, with `first` before the others.
fn realm<'a>(
    first: &'a [(&'static str, &'a Value)],
    values: &'a Values,
) -> impl Iterator<Item = (&'a [u8], &'a Value)> {
    let is_other = |key: &Key, value: &Value| !is_map(key, value) && !first.iter().any(|(name, _)| key.is(name));
    let others = qualified::spread(values.iter()).filter(move |(key, value)| is_other(key, value));
    first
        .iter()
        .map(|(name, value)| (name.as_bytes(), *value))
        .chain(others.map(|(key, value)| (key.as_bytes(), value)))
}

/// Packs the values of a realm as an array of infos.
fn put_realm(packer: &mut Packer, key: &str, first: &[(&'static str, &Value)], values: &Values) -> Result<()> {
    let infos: Vec<_> = realm(first, values).map(|(key, value)| (key, ValueRef::from(value))).collect();
    match packer.kval_infos(key, infos.iter().copied()) {
        Err(Status::ERR_UNKNOWN_DATA_TYPE) => {}
        other => return other,
    }
    let known: Vec<_> = infos.into_iter().filter(|(_, value)| packer.nested().kval_ref(b"", *value).is_ok()).collect();
    packer.kval_infos(key, known.into_iter())
}

/// The job of a job-info reply.
///
/// # Errors
/// Malformed bytes.
pub fn decode(dialect: Dialect, bytes: &[u8]) -> Result<JobData> {
    let mut unpacker = Unpacker::new(dialect, bytes);
    let nspace = unpacker.nspace()?;
    let mut reader = Reader::new(nspace, dialect, bytes.len());
    while !unpacker.is_empty() {
        reader.take(unpacker.kval()?)?;
    }
    Ok(reader.job)
}

/// The data of a job from the list of keys and values in a reply to `Get`, `Spawn` or `Connect`.
///
/// # Errors
/// Malformed bytes in a nested buffer.
pub fn from_kvals(nspace: Nspace, dialect: Dialect, kvals: Vec<Kval>) -> Result<JobData> {
    let bytes: usize = kvals.iter().map(|kval| size_of::<Kval>() + heap_len(&kval.value)).sum();
    let mut reader = Reader::new(nspace, dialect, bytes);
    kvals.into_iter().try_for_each(|kval| reader.take(kval))?;
    Ok(reader.job)
}

fn heap_len(value: &Value) -> usize {
    match value {
        Value::ByteObject(bytes) => bytes.len(),
        Value::DataArray(array) => array.items.len() * size_of::<Info>(),
        _ => 0,
    }
}

/// Collects the parts of a job.
struct Reader {
    job: JobData,
    dialect: Dialect,
    rank_end: usize,
    nodes_by_name: HashMap<Vec<u8>, usize>,
    nodes_by_id: HashMap<u32, usize>,
}

impl Reader {
    fn new(nspace: Nspace, dialect: Dialect, bytes: usize) -> Reader {
        Reader {
            job: JobData::new(nspace),
            dialect,
            rank_end: RANK_FREE_MAX.saturating_add(bytes.saturating_mul(RANKS_PER_BYTE)),
            nodes_by_name: HashMap::new(),
            nodes_by_id: HashMap::new(),
        }
    }

    fn take(&mut self, Kval { key, value }: Kval) -> Result<()> {
        match (key.as_bytes(), value) {
            (name, Value::ByteObject(bytes)) if name == keys::PROC_BLOB.as_bytes() => self.take_proc_blob(&bytes),
            (name, Value::ByteObject(bytes)) if name == keys::MAP_BLOB.as_bytes() => self.take_map_blob(&bytes),
            (_, value @ Value::DataArray(_)) => self.take_array(key, value),
            (_, value) => {
                self.job.job.insert(key, value);
                Ok(())
            }
        }
    }

    fn take_array(&mut self, key: Key, value: Value) -> Result<()> {
        let realm = key.as_bytes();
        if realm == keys::SESSION_INFO_ARRAY.as_bytes() {
            let default = Value::Uint32(SESSION_DEFAULT);
            for info in into_infos(value) {
                match info.value {
                    Value::DataArray(_) => self.take_array(info.key, info.value)?,
                    id if info.key.is(keys::SESSION_ID) && id == default => {}
                    other => drop(self.job.session.insert(info.key, other)),
                }
            }
        } else if realm == keys::JOB_INFO_ARRAY.as_bytes() {
            into_infos(value).into_iter().try_for_each(|Info { key, value, .. }| self.take(Kval { key, value }))?;
        } else if realm == keys::NODE_INFO_ARRAY.as_bytes() {
            self.take_node(None, into_infos(value));
        } else if realm == keys::APP_INFO_ARRAY.as_bytes() {
            let infos = into_infos(value);
            let appnum = Info::find(&infos, keys::APPNUM).and_then(Value::as_u32);
            let app = self.job.apps.entry(appnum.unwrap_or(0)).or_default();
            app.extend(infos.into_iter().map(|info| (info.key, info.value)));
        } else if realm == keys::PROC_INFO_ARRAY.as_bytes() {
            let infos = into_infos(value);
            let rank = Info::find(&infos, keys::RANK).and_then(Value::as_u32);
            let rank = Rank(rank.ok_or(Status::ERR_UNPACK_FAILURE)?);
            infos.into_iter().try_for_each(|info| self.set(rank, info.key, info.value))?;
        } else if realm == keys::QUALIFIED_VALUE.as_bytes() {
            if qualified::is_one(&value) {
                let all = qualified::merge(self.job.job.get(realm), &value)?;
                self.job.job.insert(key, all);
            }
        } else if !key.is_reserved() && value.iter_infos().any(|info| info.key.is(keys::LOCAL_PEERS)) {
            // Old servers use the node's name as the key of its values.
            let name = realm.to_vec();
            self.take_node(Some(name), into_infos(value));
        } else {
            self.job.job.insert(key, value);
        }
        Ok(())
    }

    fn take_node(&mut self, name: Option<Vec<u8>>, infos: Vec<Info>) {
        let find = |key: &str| Info::find(&infos, key);
        let name = find(keys::HOSTNAME).and_then(Value::as_text).map(<[u8]>::to_vec).or(name);
        let nodeid = find(keys::NODEID).and_then(Value::as_u32);
        let aliases = find(keys::HOSTNAME_ALIASES).and_then(Value::as_text).unwrap_or_default().to_vec();
        let row = self.node_row(name, nodeid);
        let node = &mut self.job.nodes[row];
        node.values.extend(infos.into_iter().map(|info| (info.key, info.value)));
        for alias in aliases.split(|byte| *byte == b',').filter(|alias| !alias.is_empty()) {
            if !node.aliases.iter().any(|known| known == alias) {
                node.aliases.push(alias.to_vec());
            }
        }
    }

    /// The index of the node with this name or number. Adds the node if it is new.
    fn node_row(&mut self, name: Option<Vec<u8>>, nodeid: Option<u32>) -> usize {
        let by_name = name.as_ref().and_then(|name| self.nodes_by_name.get(name));
        let row = match by_name.or_else(|| nodeid.and_then(|id| self.nodes_by_id.get(&id))) {
            Some(row) => *row,
            None => {
                self.job.nodes.push(Node::default());
                self.job.nodes.len() - 1
            }
        };
        let node = &mut self.job.nodes[row];
        if let Some(name) = name {
            if node.hostname.is_empty() {
                node.values.entry(keys::HOSTNAME.into()).or_insert_with(|| Value::string(&name));
                node.hostname.clone_from(&name);
            }
            self.nodes_by_name.insert(name, row);
        }
        if let Some(nodeid) = nodeid {
            node.nodeid = Some(nodeid);
            self.nodes_by_id.insert(nodeid, row);
        }
        row
    }

    fn take_proc_blob(&mut self, bytes: &[u8]) -> Result<()> {
        let mut blob = Unpacker::new(self.dialect, bytes);
        let rank = blob.rank()?;
        while !blob.is_empty() {
            let Kval { key, value } = blob.kval()?;
            self.set(rank, key, value)?;
        }
        Ok(())
    }

    /// The nodes of the ranks, in the format of old servers.
    fn take_map_blob(&mut self, bytes: &[u8]) -> Result<()> {
        let mut blob = Unpacker::new(self.dialect, bytes);
        blob.size()?;
        while !blob.is_empty() {
            let Kval { key, value } = blob.kval()?;
            let name = key.as_bytes();
            let row = self.node_row(Some(name.to_vec()), None);
            for rank in value.as_text().unwrap_or_default().split(|byte| *byte == b',') {
                let Some(rank) = std::str::from_utf8(rank).ok().and_then(|rank| rank.parse().ok()).map(Rank) else {
                    continue;
                };
                if self.job.procs.get(rank, keys::HOSTNAME.as_bytes()).is_none() {
                    self.set(rank, keys::HOSTNAME.into(), Value::string(name))?;
                }
            }
            self.job.nodes[row].values.entry(keys::LOCAL_PEERS.into()).or_insert(value);
        }
        Ok(())
    }

    fn set(&mut self, rank: Rank, key: Key, value: Value) -> Result<()> {
        if rank.0 as usize >= self.rank_end {
            return Err(Status::ERR_UNPACK_FAILURE);
        }
        let value = match qualified::is_key(&key) {
            true if !qualified::is_one(&value) => return Ok(()),
            true => qualified::merge(self.job.procs.get(rank, key.as_bytes()).and_then(ValueRef::owned), &value)?,
            false => value,
        };
        self.job.procs.set(rank, key, value)
    }
}

fn into_infos(value: Value) -> Vec<Info> {
    let Value::DataArray(array) = value else {
        return Vec::new();
    };
    let infos = array.items.into_iter().filter_map(|item| match item {
        Value::Info(info) => Some(*info),
        _ => None,
    });
    infos.collect()
}
