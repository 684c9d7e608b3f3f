//! The replies of a server.
//!
//! A server may answer any request with only a status: when it refuses, and when a host completes an operation at once.
//! So every reply except the one to a job-info request begins with its status, and the rest may be missing. This is the
//! short form.

use std::ffi::CString;

use pmix_dstore::codec::{Dialect, Module, Packer, Unpacker};
use pmix_dstore::fallible_alloc;
use pmix_dstore::model::{Info, Kval, Nspace, Pdata, Proc, Result, Status};

use super::{Version, packer};

/// A reply that can be encoded and decoded.
pub trait Reply: Sized {
    /// The payload for a client of this version.
    ///
    /// # Errors
    /// `UNKNOWN_DATA_TYPE` if a value has a type that the client's encoder does not know.
    fn encode(&self, dialect: Dialect, to: Version) -> Result<Vec<u8>>;

    /// The reply of a payload from a server of this version.
    ///
    /// # Errors
    /// Malformed bytes. A reply that reports a failed request is not an error here.
    fn decode(dialect: Dialect, from: Version, bytes: &[u8]) -> Result<Self>;
}

/// Answers `Abort`, `Commit`, `Finalize`, `Publish`, `Unpublish`, `Disconnect`, `Notify`, `RegisterEvents`, `Log`,
/// `IoPush`, `IoDeregister`, `GroupLeave`, `GroupDestruct` and `ResourceBlock`; and any other request in short form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatusReply {
    /// The result of the request.
    pub status: Status,
}

impl StatusReply {
    /// The payload; a status alone is the same for every version and cannot fail.
    pub fn bytes(self, dialect: Dialect) -> Vec<u8> {
        let mut packer = Packer::new(dialect);
        packer.status(self.status);
        packer.into_bytes()
    }
}

impl Reply for StatusReply {
    fn encode(&self, dialect: Dialect, _to: Version) -> Result<Vec<u8>> {
        Ok(self.bytes(dialect))
    }

    fn decode(dialect: Dialect, _from: Version, bytes: &[u8]) -> Result<StatusReply> {
        Ok(StatusReply { status: Unpacker::new(dialect, bytes).status()? })
    }
}

/// Answers `JobInfo` and `JobInfoFallback`, without a status. [`jobinfo`](super::jobinfo) reads and writes its
/// contents.
#[derive(Clone, Debug, PartialEq)]
pub struct JobInfoReply {
    /// The client's namespace.
    pub nspace: Nspace,
    /// Job-level values and, under separate keys, values of other realms.
    pub kvals: Vec<Kval>,
}

impl Reply for JobInfoReply {
    fn encode(&self, dialect: Dialect, to: Version) -> Result<Vec<u8>> {
        let mut packer = packer(dialect, to);
        packer.string(Some(self.nspace.as_bytes()))?;
        put_kvals(&mut packer, &self.kvals)?;
        Ok(packer.into_bytes())
    }

    fn decode(dialect: Dialect, _from: Version, bytes: &[u8]) -> Result<JobInfoReply> {
        let mut unpacker = Unpacker::new(dialect, bytes);
        Ok(JobInfoReply { nspace: unpacker.nspace()?, kvals: unpacker.kvals()? })
    }
}

/// Answers `Fence`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FenceReply {
    /// The result of the request.
    pub status: Status,
    /// The number of entries in the namespace's directory page, for clients that read our segments.
    pub segment_count: Option<u64>,
}

impl Reply for FenceReply {
    fn encode(&self, dialect: Dialect, _to: Version) -> Result<Vec<u8>> {
        let mut packer = Packer::new(dialect);
        packer.status(self.status);
        if let Some(count) = self.segment_count {
            packer.uint64(count);
        }
        Ok(packer.into_bytes())
    }

    fn decode(dialect: Dialect, _from: Version, bytes: &[u8]) -> Result<FenceReply> {
        let mut unpacker = Unpacker::new(dialect, bytes);
        // Fields after the status depend on the server's data store. Only our server sends this number, and only to
        // clients of its segments.
        Ok(FenceReply { status: unpacker.status()?, segment_count: unpacker.uint64().ok() })
    }
}

/// Answers `Get`.
#[derive(Clone, Debug, PartialEq)]
pub struct GetReply {
    /// The result of the request. An unknown job-level key is no error: then there are no objects.
    pub status: Status,
    /// Values by the process, or with a wildcard rank the job, that they belong to.
    pub objects: Vec<(Proc, Vec<Kval>)>,
}

impl Reply for GetReply {
    fn encode(&self, dialect: Dialect, to: Version) -> Result<Vec<u8>> {
        let mut writer = GetWriter::new(dialect, to, self.status);
        for (proc, kvals) in &self.objects {
            writer.object(proc, |object| put_kvals(object, kvals))?;
        }
        Ok(writer.into_bytes())
    }

    fn decode(dialect: Dialect, _from: Version, bytes: &[u8]) -> Result<GetReply> {
        let mut unpacker = Unpacker::new(dialect, bytes);
        let status = unpacker.status()?;
        let objects = get_objects(unpacker.clone()).or_else(|error| {
            // Stock servers encode a delayed answer with their own encoder, not with the client's.
            let other = dialect.with_module(Module::V41);
            if dialect.is_flexible() { Err(error) } else { get_objects(Unpacker::new(other, unpacker.rest())) }
        })?;
        Ok(GetReply { status, objects })
    }
}

fn get_objects(mut from: Unpacker<'_>) -> Result<Vec<(Proc, Vec<Kval>)>> {
    let mut objects = Vec::new();
    while !from.is_empty() {
        let bytes = from.byte_object()?;
        let mut object = from.nested(bytes);
        fallible_alloc::push(&mut objects, (object.proc()?, object.kvals()?))?;
    }
    Ok(objects)
}

/// Writes a [`GetReply`] directly from a store.
pub struct GetWriter {
    reply: Packer,
}

impl GetWriter {
    /// A reply without objects.
    pub fn new(dialect: Dialect, to: Version, status: Status) -> GetWriter {
        let mut reply = packer(dialect, to);
        reply.status(status);
        GetWriter { reply }
    }

    /// Adds the values of a process, or with a wildcard rank of a job: `values` packs them as kvals.
    ///
    /// # Errors
    /// Errors of `values`; the object is left out in this case.
    pub fn object(&mut self, proc: &Proc, values: impl FnOnce(&mut Packer) -> Result<()>) -> Result<()> {
        self.reply.byte_object_of(|object| {
            object.proc(proc);
            values(object)
        })
    }

    /// The payload.
    pub fn into_bytes(self) -> Vec<u8> {
        self.reply.into_bytes()
    }
}

/// Answers `RefreshCache`. Stock clients look for the value even if the status is an error.
#[derive(Clone, Debug, PartialEq)]
pub struct RefreshReply {
    /// The result of the request.
    pub status: Status,
    /// The process's values.
    pub kvals: Vec<Kval>,
}

impl Reply for RefreshReply {
    fn encode(&self, dialect: Dialect, to: Version) -> Result<Vec<u8>> {
        refresh_reply(dialect, to, self.status, |reply| put_kvals(reply, &self.kvals))
    }

    fn decode(dialect: Dialect, _from: Version, bytes: &[u8]) -> Result<RefreshReply> {
        let mut unpacker = Unpacker::new(dialect, bytes);
        Ok(RefreshReply { status: unpacker.status()?, kvals: unpacker.kvals()? })
    }
}

/// A [`RefreshReply`] packed directly from a store: `values` packs the kvals.
///
/// # Errors
/// Those of `values`.
pub fn refresh_reply(
    dialect: Dialect,
    to: Version,
    status: Status,
    values: impl FnOnce(&mut Packer) -> Result<()>,
) -> Result<Vec<u8>> {
    let mut reply = packer(dialect, to);
    reply.status(status);
    values(&mut reply)?;
    Ok(reply.into_bytes())
}

/// Answers `Lookup`.
#[derive(Clone, Debug, PartialEq)]
pub struct LookupReply {
    /// The result of the request.
    pub status: Status,
    /// The values found.
    pub data: Vec<Pdata>,
}

impl Reply for LookupReply {
    fn encode(&self, dialect: Dialect, to: Version) -> Result<Vec<u8>> {
        let mut packer = packer(dialect, to);
        packer.status(self.status);
        if self.status == Status::SUCCESS || !self.data.is_empty() {
            packer.size(self.data.len() as u64);
        }
        if !self.data.is_empty() {
            packer.pdata(&self.data)?;
        }
        Ok(packer.into_bytes())
    }

    fn decode(dialect: Dialect, _from: Version, bytes: &[u8]) -> Result<LookupReply> {
        let mut unpacker = Unpacker::new(dialect, bytes);
        let status = unpacker.status()?;
        let data = match if unpacker.is_empty() { 0 } else { unpacker.count()? } {
            0 => Vec::new(),
            count => unpacker.pdata(count)?,
        };
        Ok(LookupReply { status, data })
    }
}

/// Answers `Query`, `Allocate`, `JobControl`, `Monitor`, `ValidateCredential`, `FabricRegister`, `FabricUpdate` and
/// `SessionControl`.
#[derive(Clone, Debug, PartialEq)]
pub struct InfosReply {
    /// The result of the request.
    pub status: Status,
    /// The results; `None` in the short form.
    pub infos: Option<Vec<Info>>,
}

impl Reply for InfosReply {
    fn encode(&self, dialect: Dialect, to: Version) -> Result<Vec<u8>> {
        let mut packer = packer(dialect, to);
        packer.status(self.status);
        if let Some(infos) = &self.infos {
            packer.infos(infos)?;
        }
        Ok(packer.into_bytes())
    }

    fn decode(dialect: Dialect, _from: Version, bytes: &[u8]) -> Result<InfosReply> {
        let mut unpacker = Unpacker::new(dialect, bytes);
        let status = unpacker.status()?;
        Ok(InfosReply { status, infos: if unpacker.is_empty() { None } else { Some(unpacker.infos()?) } })
    }
}

/// Answers `Spawn`.
#[derive(Clone, Debug, PartialEq)]
pub struct SpawnReply {
    /// The result of the request.
    pub status: Status,
    /// The new job; `None` in the short form.
    pub nspace: Option<Nspace>,
    /// The server's data of the job so far, as in a job-info reply.
    pub kvals: Vec<Kval>,
}

impl Reply for SpawnReply {
    fn encode(&self, dialect: Dialect, to: Version) -> Result<Vec<u8>> {
        spawn_reply(dialect, to, self.status, self.nspace.as_ref(), |reply| put_kvals(reply, &self.kvals))
    }

    fn decode(dialect: Dialect, _from: Version, bytes: &[u8]) -> Result<SpawnReply> {
        let mut unpacker = Unpacker::new(dialect, bytes);
        let status = unpacker.status()?;
        let nspace = if unpacker.is_empty() { None } else { unpacker.optional_nspace()? };
        Ok(SpawnReply { status, nspace, kvals: unpacker.kvals()? })
    }
}

/// A [`SpawnReply`] packed directly from a store: `values` packs the kvals, if there is a job.
///
/// # Errors
/// Errors of `values`.
pub fn spawn_reply(
    dialect: Dialect,
    to: Version,
    status: Status,
    nspace: Option<&Nspace>,
    values: impl FnOnce(&mut Packer) -> Result<()>,
) -> Result<Vec<u8>> {
    let mut packer = packer(dialect, to);
    packer.status(status);
    if let Some(nspace) = nspace {
        packer.string(Some(nspace.as_bytes()))?;
        values(&mut packer)?;
    }
    Ok(packer.into_bytes())
}

/// Answers `Connect`.
#[derive(Clone, Debug, PartialEq)]
pub struct ConnectReply {
    /// The result of the request.
    pub status: Status,
    /// The data of every other participating job, as in a job-info reply.
    pub jobs: Vec<(Nspace, Vec<Kval>)>,
}

impl Reply for ConnectReply {
    fn encode(&self, dialect: Dialect, to: Version) -> Result<Vec<u8>> {
        let mut writer = ConnectWriter::new(dialect, to, self.status);
        for (nspace, kvals) in &self.jobs {
            writer.job(nspace, |job| put_kvals(job, kvals))?;
        }
        Ok(writer.into_bytes())
    }

    fn decode(dialect: Dialect, _from: Version, bytes: &[u8]) -> Result<ConnectReply> {
        let mut unpacker = Unpacker::new(dialect, bytes);
        let status = unpacker.status()?;
        let mut jobs = Vec::new();
        while !unpacker.is_empty() {
            let bytes = unpacker.byte_object()?;
            let mut job = unpacker.nested(bytes);
            fallible_alloc::push(&mut jobs, (job.nspace()?, job.kvals()?))?;
        }
        Ok(ConnectReply { status, jobs })
    }
}

/// Writes a [`ConnectReply`] directly from a store.
pub struct ConnectWriter {
    reply: Packer,
}

impl ConnectWriter {
    /// A reply without jobs.
    pub fn new(dialect: Dialect, to: Version, status: Status) -> ConnectWriter {
        let mut reply = packer(dialect, to);
        reply.status(status);
        ConnectWriter { reply }
    }

    /// Adds a job: `values` packs its data as kvals.
    ///
    /// # Errors
    /// Errors of `values`; the job is left out in this case.
    pub fn job(&mut self, nspace: &Nspace, values: impl FnOnce(&mut Packer) -> Result<()>) -> Result<()> {
        self.reply.byte_object_of(|job| {
            job.string(Some(nspace.as_bytes()))?;
            values(job)
        })
    }

    /// The payload.
    pub fn into_bytes(self) -> Vec<u8> {
        self.reply.into_bytes()
    }
}

/// Answers `GetCredential`.
#[derive(Clone, Debug, PartialEq)]
pub struct CredentialReply {
    /// The result of the request.
    pub status: Status,
    /// The credential and infos about it; `None` in the short form.
    pub credential: Option<(Vec<u8>, Vec<Info>)>,
}

impl Reply for CredentialReply {
    fn encode(&self, dialect: Dialect, to: Version) -> Result<Vec<u8>> {
        let mut packer = packer(dialect, to);
        packer.status(self.status);
        if let Some((credential, infos)) = &self.credential {
            packer.byte_object(credential)?;
            packer.infos(infos)?;
        }
        Ok(packer.into_bytes())
    }

    fn decode(dialect: Dialect, _from: Version, bytes: &[u8]) -> Result<CredentialReply> {
        let mut unpacker = Unpacker::new(dialect, bytes);
        let status = unpacker.status()?;
        if unpacker.is_empty() {
            return Ok(CredentialReply { status, credential: None });
        }
        let credential = fallible_alloc::copy(unpacker.byte_object()?)?;
        Ok(CredentialReply { status, credential: Some((credential, unpacker.infos()?)) })
    }
}

/// Answers `IoPull`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IoPullReply {
    /// The result of the request.
    pub status: Status,
    /// The server's id of the handler; `None` in the short form.
    pub handler: Option<u64>,
}

impl Reply for IoPullReply {
    fn encode(&self, dialect: Dialect, _to: Version) -> Result<Vec<u8>> {
        let mut packer = Packer::new(dialect);
        packer.status(self.status);
        if let Some(handler) = self.handler {
            packer.size(handler);
        }
        Ok(packer.into_bytes())
    }

    fn decode(dialect: Dialect, _from: Version, bytes: &[u8]) -> Result<IoPullReply> {
        let mut unpacker = Unpacker::new(dialect, bytes);
        let status = unpacker.status()?;
        Ok(IoPullReply { status, handler: if unpacker.is_empty() { None } else { Some(unpacker.size()?) } })
    }
}

/// The result of a group construction.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// Its members; empty in the form before 4.2.4, unless `is_whole`.
    pub members: Vec<Proc>,
    /// Its context id, if one was requested.
    pub context: Option<u64>,
    /// Infos about it; in the form from 6.0 on, and where `is_whole` in that before 4.2.4.
    pub infos: Vec<Info>,
    /// The request does not tell its members, or there are infos. Then the form before 4.2.4, which ours is, has both after the
    /// fields of released libraries; these do not read on.
    pub is_whole: bool,
}

/// Answers `GroupConstruct`.
///
/// The form changed in 4.2.4 and in 6.0. Stock servers do not adapt it to the client, so the context id is lost between
/// different releases. [`Reply::encode`] takes the client's version, [`Reply::decode`] the server's.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupReply {
    /// The result of the request.
    pub status: Status,
    /// The group; `None` in the short form.
    pub group: Option<Group>,
}

/// Means "no context id" in messages in which the field is mandatory.
const NO_CONTEXT: u64 = u64::MAX;

impl Reply for GroupReply {
    fn encode(&self, dialect: Dialect, to: Version) -> Result<Vec<u8>> {
        let mut packer = packer(dialect, to);
        packer.status(self.status);
        let Some(group) = &self.group else {
            return Ok(packer.into_bytes());
        };
        if to.names_group_members() {
            packer.procs(&group.members)?;
        }
        if !to.has_long_group_reply() {
            packer.size(group.context.unwrap_or(NO_CONTEXT));
            if group.is_whole && !to.names_group_members() {
                packer.procs(&group.members)?;
                packer.infos(&group.infos)?;
            }
            return Ok(packer.into_bytes());
        }
        packer.bool(group.context.is_some());
        if let Some(context) = group.context {
            packer.size(context);
        }
        packer.size(group.infos.len() as u64);
        group.infos.iter().try_for_each(|info| packer.info(info))?;
        Ok(packer.into_bytes())
    }

    fn decode(dialect: Dialect, from: Version, bytes: &[u8]) -> Result<GroupReply> {
        let mut unpacker = Unpacker::new(dialect, bytes);
        let status = unpacker.status()?;
        if unpacker.is_empty() {
            return Ok(GroupReply { status, group: None });
        }
        let members = if from.names_group_members() { unpacker.procs()? } else { Vec::new() };
        let mut group = Group { members, context: None, infos: Vec::new(), is_whole: false };
        if from.has_long_group_reply() {
            if unpacker.bool()? {
                group.context = Some(unpacker.size()?);
            }
            for _ in 0..unpacker.count()? {
                fallible_alloc::push(&mut group.infos, unpacker.info()?)?;
            }
        } else {
            group.context = Some(unpacker.size()?).filter(|context| *context != NO_CONTEXT);
            if !from.names_group_members() && !unpacker.is_empty() {
                (group.members, group.infos, group.is_whole) = (unpacker.procs()?, unpacker.infos()?, true);
            }
        }
        Ok(GroupReply { status, group: Some(group) })
    }
}

/// Answers `ResolvePeers`.
#[derive(Clone, Debug, PartialEq)]
pub struct PeersReply {
    /// The result of the request.
    pub status: Status,
    /// The processes; `None` in the short form.
    pub procs: Option<Vec<Proc>>,
}

impl Reply for PeersReply {
    fn encode(&self, dialect: Dialect, _to: Version) -> Result<Vec<u8>> {
        let mut packer = Packer::new(dialect);
        packer.status(self.status);
        if let Some(procs) = &self.procs {
            packer.procs(procs)?;
        }
        Ok(packer.into_bytes())
    }

    fn decode(dialect: Dialect, _from: Version, bytes: &[u8]) -> Result<PeersReply> {
        let mut unpacker = Unpacker::new(dialect, bytes);
        let status = unpacker.status()?;
        Ok(PeersReply { status, procs: if unpacker.is_empty() { None } else { Some(unpacker.procs()?) } })
    }
}

/// Answers `ResolveNodes`.
#[derive(Clone, Debug, PartialEq)]
pub struct NodesReply {
    /// The result of the request.
    pub status: Status,
    /// Node names, separated by commas; `None` in the short form.
    pub nodes: Option<CString>,
}

impl Reply for NodesReply {
    fn encode(&self, dialect: Dialect, _to: Version) -> Result<Vec<u8>> {
        let mut packer = Packer::new(dialect);
        packer.status(self.status);
        if let Some(nodes) = &self.nodes {
            packer.c_string(Some(nodes))?;
        }
        Ok(packer.into_bytes())
    }

    fn decode(dialect: Dialect, _from: Version, bytes: &[u8]) -> Result<NodesReply> {
        let mut unpacker = Unpacker::new(dialect, bytes);
        let status = unpacker.status()?;
        Ok(NodesReply { status, nodes: if unpacker.is_empty() { None } else { unpacker.string()? } })
    }
}

fn put_kvals(packer: &mut Packer, kvals: &[Kval]) -> Result<()> {
    kvals.iter().try_for_each(|kval| packer.kval(&kval.key, &kval.value))
}
