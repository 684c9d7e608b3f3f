//! The requests of clients and tools.

use std::ffi::CString;

use pmix_dstore::codec::{Dialect, Packer, Unpacker};
use pmix_dstore::fallible_alloc;
use pmix_dstore::gather::GatherBuf;
use pmix_dstore::model::{App, Bytes, DataType, Info, Key, Kval, Nspace, Proc, Query, Rank, Result, Status, Value};

use super::{Command, Version};

/// A request. [`reply`](super::reply) has the replies.
#[derive(Clone, Debug, PartialEq)]
pub enum Request {
    /// Get the data of the client's job. Answer: `JobInfoReply`.
    JobInfo,
    /// Abort processes. Answer: `StatusReply`.
    Abort {
        /// Exit status.
        status: Status,
        /// The text to print.
        message: Option<CString>,
        /// The processes to abort; empty for the whole job.
        procs: Vec<Proc>,
    },
    /// Store the values that the client put. Answer: `StatusReply`.
    Commit {
        /// The values by scope code. Stock clients send local values, then remote ones; global values are in both
        /// parts.
        parts: Vec<(u8, Vec<Kval>)>,
    },
    /// Enter a fence. Answer: `FenceReply`.
    Fence {
        /// The participants.
        procs: Vec<Proc>,
        /// Directives.
        infos: Vec<Info>,
    },
    /// Get data of a process or of a job. Answer: `GetReply`.
    Get {
        /// The namespace of the process.
        nspace: Nspace,
        /// The rank of the process.
        rank: Rank,
        /// Directives and qualifiers.
        infos: Vec<Info>,
        /// The key of the value; `None` for all.
        key: Option<Key>,
    },
    /// Get all values that the server currently has of a process: the first step of a Get with
    /// `PMIX_GET_REFRESH_CACHE`. Answer: `RefreshReply`.
    RefreshCache {
        /// The namespace of the process.
        nspace: Nspace,
        /// The rank of the process.
        rank: Rank,
    },
    /// The client finalizes. Answer: `StatusReply`.
    Finalize,
    /// Publish data. Answer: `StatusReply`.
    Publish {
        /// Effective uid of the publisher.
        uid: u32,
        /// Data and directives.
        infos: Vec<Info>,
    },
    /// Look up published data. Answer: `LookupReply`.
    Lookup {
        /// Effective uid of the caller.
        uid: u32,
        /// The keys of the values.
        keys: Vec<Key>,
        /// Directives.
        infos: Vec<Info>,
    },
    /// Unpublish data. Answer: `StatusReply`.
    Unpublish {
        /// Effective uid of the publisher.
        uid: u32,
        /// The keys of the values; empty for all.
        keys: Vec<Key>,
        /// Directives.
        infos: Vec<Info>,
    },
    /// Start a job. Answer: `SpawnReply`.
    Spawn {
        /// Directives for the job.
        infos: Vec<Info>,
        /// Its applications.
        apps: Vec<App>,
    },
    /// Connect processes. Answer: `ConnectReply`.
    Connect {
        /// The participants.
        procs: Vec<Proc>,
        /// Directives.
        infos: Vec<Info>,
        /// Endpoint and job data, one operation each; to and from 6.x only.
        extra: Vec<Info>,
    },
    /// Disconnect processes. Answer: `StatusReply`.
    Disconnect {
        /// The participants.
        procs: Vec<Proc>,
        /// Directives.
        infos: Vec<Info>,
    },
    /// An event has happened. Answer: `StatusReply`.
    Notify {
        /// The event's code.
        status: Status,
        /// The processes that get it (`pmix_data_range_t`).
        range: u8,
        /// Infos about it.
        infos: Vec<Info>,
    },
    /// Send events of these codes. Answer: `StatusReply`.
    RegisterEvents {
        /// The codes; empty for all.
        codes: Vec<Status>,
        /// Directives.
        infos: Vec<Info>,
    },
    /// Stop sending events of these codes. There is no answer.
    DeregisterEvents {
        /// The codes; [`Request::DEFAULT_HANDLER`] for a handler of all codes.
        codes: Vec<Status>,
    },
    /// Query the host. Answer: `InfosReply`.
    Query {
        /// The queries.
        queries: Vec<Query>,
    },
    /// Log data. Answer: `StatusReply`.
    Log {
        /// The time in seconds since 1970, 0 if not requested; not sent to servers before 3.0.
        timestamp: Option<i64>,
        /// The data.
        data: Vec<Info>,
        /// Directives.
        directives: Vec<Info>,
    },
    /// Request, extend or release an allocation. Answer: `InfosReply`.
    Allocate {
        /// `pmix_alloc_directive_t`.
        directive: u8,
        /// The requested resources.
        infos: Vec<Info>,
    },
    /// Act on processes. Answer: `InfosReply`.
    JobControl {
        /// The processes to act on.
        targets: Vec<Proc>,
        /// The actions.
        directives: Vec<Info>,
    },
    /// Monitor a process or a file. Answer: `InfosReply`.
    Monitor {
        /// The kind of monitoring.
        monitor: Info,
        /// The code of the event that reports a failure.
        status: Status,
        /// Directives.
        directives: Vec<Info>,
    },
    /// Get a credential. Answer: `CredentialReply`.
    GetCredential {
        /// Directives.
        infos: Vec<Info>,
    },
    /// Check a credential. Answer: `InfosReply`.
    ValidateCredential {
        /// The credential.
        credential: Vec<u8>,
        /// Directives.
        infos: Vec<Info>,
    },
    /// Send output of processes. Answer: `IoPullReply`.
    IoPull {
        /// The processes whose output to send.
        procs: Vec<Proc>,
        /// Directives.
        infos: Vec<Info>,
        /// The channels.
        channels: u16,
        /// The client's id of its handler.
        handler: Option<u64>,
    },
    /// Send input to processes. Answer: `StatusReply`.
    IoPush {
        /// The processes that get it.
        targets: Vec<Proc>,
        /// Directives.
        infos: Vec<Info>,
        /// The bytes; `None` at the end of the stream.
        data: Option<Vec<u8>>,
    },
    /// Form a group. Answer: `GroupReply`.
    GroupConstruct {
        /// The group's name.
        group: Option<CString>,
        /// Its members.
        procs: Vec<Proc>,
        /// Directives.
        infos: Vec<Info>,
    },
    /// Leave a group. Answer: `StatusReply`.
    GroupLeave {
        /// The group's name.
        group: Option<CString>,
        /// Directives.
        infos: Vec<Info>,
    },
    /// Dissolve a group. Answer: `StatusReply`.
    GroupDestruct {
        /// The group's name.
        group: Option<CString>,
        /// Its members; not between clients and servers before 4.2.4.
        procs: Vec<Proc>,
        /// Directives.
        infos: Vec<Info>,
    },
    /// Stop sending output. Answer: `StatusReply`.
    IoDeregister {
        /// Directives.
        infos: Vec<Info>,
        /// The server's id of the handler.
        handler: u64,
    },
    /// Describe a fabric. Answer: `InfosReply`.
    FabricRegister {
        /// Directives.
        infos: Vec<Info>,
    },
    /// Refresh the description of a fabric. Answer: `InfosReply`.
    FabricUpdate {
        /// The fabric's index.
        index: u64,
    },
    /// Define a resource block. Answer: `StatusReply`.
    ResourceBlock {
        /// `pmix_resource_block_directive_t`.
        directive: u8,
        /// Its name.
        block: Option<CString>,
        /// Pairs of a device type mask and a count.
        units: Vec<(u64, u64)>,
        /// Directives.
        infos: Vec<Info>,
    },
    /// Act on a session. Answer: `InfosReply`.
    SessionControl {
        /// Which.
        session: u32,
        /// The actions.
        infos: Vec<Info>,
    },
    /// Get the processes of a node. Answer: `PeersReply`.
    ResolvePeers {
        /// The node; `None` for all.
        node: Option<CString>,
        /// The job; `None` for all.
        nspace: Option<Nspace>,
    },
    /// Get the nodes of a job. Answer: `NodesReply`.
    ResolveNodes {
        /// The job; `None` for all.
        nspace: Option<Nspace>,
    },
    /// As [`Request::JobInfo`], from a client that cannot use the data store it named. Answer: `JobInfoReply`.
    JobInfoFallback {
        /// The data store to use instead.
        store: Option<CString>,
    },
    /// A request that this library does not know. The server answers it with `NOT_SUPPORTED`.
    Unknown {
        /// Its number.
        command: u8,
        /// Its fields.
        rest: Vec<u8>,
    },
}

impl Request {
    /// The code that deregisters a handler of all events.
    pub const DEFAULT_HANDLER: Status = Status(i32::MIN);

    /// The command code of the request.
    pub fn command(&self) -> Command {
        match self {
            Request::JobInfo => Command::JOB_INFO,
            Request::Abort { .. } => Command::ABORT,
            Request::Commit { .. } => Command::COMMIT,
            Request::Fence { .. } => Command::FENCE,
            Request::Get { .. } => Command::GET,
            Request::RefreshCache { .. } => Command::REFRESH_CACHE,
            Request::Finalize => Command::FINALIZE,
            Request::Publish { .. } => Command::PUBLISH,
            Request::Lookup { .. } => Command::LOOKUP,
            Request::Unpublish { .. } => Command::UNPUBLISH,
            Request::Spawn { .. } => Command::SPAWN,
            Request::Connect { .. } => Command::CONNECT,
            Request::Disconnect { .. } => Command::DISCONNECT,
            Request::Notify { .. } => Command::NOTIFY,
            Request::RegisterEvents { .. } => Command::REGISTER_EVENTS,
            Request::DeregisterEvents { .. } => Command::DEREGISTER_EVENTS,
            Request::Query { .. } => Command::QUERY,
            Request::Log { .. } => Command::LOG,
            Request::Allocate { .. } => Command::ALLOCATE,
            Request::JobControl { .. } => Command::JOB_CONTROL,
            Request::Monitor { .. } => Command::MONITOR,
            Request::GetCredential { .. } => Command::GET_CREDENTIAL,
            Request::ValidateCredential { .. } => Command::VALIDATE_CREDENTIAL,
            Request::IoPull { .. } => Command::IO_PULL,
            Request::IoPush { .. } => Command::IO_PUSH,
            Request::GroupConstruct { .. } => Command::GROUP_CONSTRUCT,
            Request::GroupLeave { .. } => Command::GROUP_LEAVE,
            Request::GroupDestruct { .. } => Command::GROUP_DESTRUCT,
            Request::IoDeregister { .. } => Command::IO_DEREGISTER,
            Request::FabricRegister { .. } => Command::FABRIC_REGISTER,
            Request::FabricUpdate { .. } => Command::FABRIC_UPDATE,
            Request::ResourceBlock { .. } => Command::RESOURCE_BLOCK,
            Request::SessionControl { .. } => Command::SESSION_CONTROL,
            Request::ResolvePeers { .. } => Command::RESOLVE_PEERS,
            Request::ResolveNodes { .. } => Command::RESOLVE_NODES,
            Request::JobInfoFallback { .. } => Command::JOB_INFO_FALLBACK,
            Request::Unknown { command, .. } => Command(*command),
        }
    }

    /// Whether the server answers it.
    pub fn has_reply(&self) -> bool {
        self.command() != Command::DEREGISTER_EVENTS
    }

    /// The payload for a server of this version.
    ///
    /// # Errors
    /// `UNKNOWN_DATA_TYPE` if a value has a type that the encoder does not know; `PACK_FAILURE` for values that are too
    /// long or nested too deeply.
    pub fn encode(&self, dialect: Dialect, to: Version) -> Result<Vec<u8>> {
        let mut packer = Packer::new(dialect);
        packer.command(self.command().0);
        self.pack(&mut packer, to)?;
        Ok(packer.into_bytes())
    }

    /// The payload of [`Request::Commit`], from borrowed values.
    ///
    /// # Errors
    /// As [`Request::encode`].
    pub fn encode_commit(dialect: Dialect, parts: &[(u8, Vec<(&Key, &Value)>)]) -> Result<GatherBuf> {
        let mut packer = Packer::new(dialect).sharing();
        packer.command(Command::COMMIT.0);
        for (scope, kvals) in parts {
            pack_part(&mut packer, *scope, kvals.iter().copied())?;
        }
        Ok(packer.into_pieces())
    }

    /// Whether these bytes begin a [`Request::Commit`].
    pub fn is_commit(dialect: Dialect, bytes: &[u8]) -> bool {
        Unpacker::new(dialect, bytes).command() == Ok(Command::COMMIT.0)
    }

    /// The fields after the command.
    fn pack(&self, packer: &mut Packer, to: Version) -> Result<()> {
        match self {
            Request::JobInfo | Request::Finalize => Ok(()),
            Request::Abort { status, message, procs } => {
                packer.status(*status);
                packer.c_string(message.as_deref())?;
                packer.procs(procs)
            }
            Request::Commit { parts } => parts.iter().try_for_each(|(scope, kvals)| {
                pack_part(packer, *scope, kvals.iter().map(|kval| (&kval.key, &kval.value)))
            }),
            Request::Fence { procs, infos } | Request::Disconnect { procs, infos } => {
                packer.procs(procs)?;
                packer.infos(infos)
            }
            Request::Connect { procs, infos, extra } => {
                packer.procs(procs)?;
                packer.infos(infos)?;
                let extra = if to.takes_connect_data() { extra.as_slice() } else { &[] };
                extra.iter().try_for_each(|info| packer.info(info))
            }
            Request::Get { nspace, rank, infos, key } => {
                packer.string(Some(nspace.as_bytes()))?;
                packer.rank(*rank);
                packer.infos(infos)?;
                key.iter().try_for_each(|key| packer.string(Some(key.as_bytes())))
            }
            Request::RefreshCache { nspace, rank } => {
                packer.string(Some(nspace.as_bytes()))?;
                packer.rank(*rank);
                Ok(())
            }
            Request::Publish { uid, infos } => {
                packer.uint32(*uid);
                packer.infos(infos)
            }
            Request::Lookup { uid, keys, infos } | Request::Unpublish { uid, keys, infos } => {
                packer.uint32(*uid);
                packer.keys(keys)?;
                packer.infos(infos)
            }
            Request::Spawn { infos, apps } => {
                packer.infos(infos)?;
                packer.size(apps.len() as u64);
                if apps.is_empty() { Ok(()) } else { packer.apps(apps) }
            }
            Request::Notify { status, range, infos } => {
                packer.status(*status);
                packer.code(DataType::DATA_RANGE, (*range).into());
                packer.infos(infos)
            }
            Request::RegisterEvents { codes, infos } => {
                packer.size(codes.len() as u64);
                if !codes.is_empty() {
                    packer.statuses(codes)?;
                }
                packer.infos(infos)
            }
            Request::DeregisterEvents { codes } => codes.iter().try_for_each(|code| packer.statuses(&[*code])),
            Request::Query { queries } => {
                packer.size(queries.len() as u64);
                if queries.is_empty() { Ok(()) } else { packer.queries(queries) }
            }
            Request::Log { timestamp, data, directives } => {
                if to.takes_log_timestamp() {
                    packer.time(timestamp.unwrap_or(0));
                }
                packer.infos(data)?;
                packer.infos(directives)
            }
            Request::Allocate { directive, infos } => {
                packer.code(DataType::ALLOC_DIRECTIVE, (*directive).into());
                packer.infos(infos)
            }
            Request::JobControl { targets, directives } => {
                packer.procs(targets)?;
                packer.infos(directives)
            }
            Request::Monitor { monitor, status, directives } => {
                packer.info(monitor)?;
                packer.status(*status);
                packer.infos(directives)
            }
            Request::GetCredential { infos } | Request::FabricRegister { infos } => packer.infos(infos),
            Request::ValidateCredential { credential, infos } => {
                packer.byte_object(credential)?;
                packer.infos(infos)
            }
            Request::IoPull { procs, infos, channels, handler } => {
                packer.procs(procs)?;
                packer.infos(infos)?;
                packer.code(DataType::IOF_CHANNEL, (*channels).into());
                handler.iter().for_each(|handler| packer.size(*handler));
                Ok(())
            }
            Request::IoPush { targets, infos, data } => {
                packer.procs(targets)?;
                packer.infos(infos)?;
                data.iter().try_for_each(|data| packer.byte_object(data))
            }
            Request::GroupConstruct { group, procs, infos } => {
                packer.c_string(group.as_deref())?;
                packer.procs(procs)?;
                packer.infos(infos)
            }
            Request::GroupLeave { group, infos } => {
                packer.c_string(group.as_deref())?;
                packer.infos(infos)
            }
            Request::GroupDestruct { group, procs, infos } => {
                packer.c_string(group.as_deref())?;
                if to.names_group_members() {
                    packer.size(procs.len() as u64);
                    // In this message an empty array is packed, too; elsewhere it is left out.
                    packer.procs_uncounted(procs)?;
                }
                packer.infos(infos)
            }
            Request::IoDeregister { infos, handler } => {
                packer.infos(infos)?;
                packer.size(*handler);
                Ok(())
            }
            Request::FabricUpdate { index } => {
                packer.size(*index);
                Ok(())
            }
            Request::ResourceBlock { directive, block, units, infos } => {
                packer.code(DataType::RESBLOCK_DIRECTIVE, (*directive).into());
                packer.c_string(block.as_deref())?;
                packer.size(units.len() as u64);
                if !units.is_empty() {
                    packer.resource_units(units)?;
                }
                packer.infos(infos)
            }
            Request::SessionControl { session, infos } => {
                packer.uint32(*session);
                packer.infos(infos)
            }
            Request::ResolvePeers { node, nspace } => {
                packer.c_string(node.as_deref())?;
                packer.string(nspace.as_ref().map(Nspace::as_bytes))
            }
            Request::ResolveNodes { nspace } => packer.string(nspace.as_ref().map(Nspace::as_bytes)),
            Request::JobInfoFallback { store } => packer.c_string(store.as_deref()),
            Request::Unknown { rest, .. } => packer.raw(rest),
        }
    }

    /// The request of a payload that a client of this version sent.
    ///
    /// # Errors
    /// `UNKNOWN_DATA_TYPE` for a value of a type that this library cannot read: refuse the request. Otherwise the bytes
    /// are malformed.
    pub fn decode(dialect: Dialect, peer: Version, bytes: &[u8]) -> Result<Request> {
        Request::read(&mut Unpacker::new(dialect, bytes), peer)
    }

    /// As [`Request::decode`]; long values of a commit share the message's memory.
    ///
    /// # Errors
    /// As [`Request::decode`].
    pub fn decode_message(dialect: Dialect, peer: Version, message: &Bytes) -> Result<Request> {
        match Request::is_commit(dialect, message) {
            true => Request::read(&mut Unpacker::sharing(dialect, message), peer),
            false => Request::decode(dialect, peer, message),
        }
    }

    fn read(from: &mut Unpacker<'_>, peer: Version) -> Result<Request> {
        Ok(match Command(from.command()?) {
            Command::JOB_INFO => Request::JobInfo,
            Command::ABORT => Request::Abort { status: from.status()?, message: from.string()?, procs: from.procs()? },
            Command::COMMIT => {
                let mut parts = Vec::new();
                while !from.is_empty() {
                    let scope = from.code(DataType::SCOPE)? as u8;
                    fallible_alloc::push(&mut parts, (scope, from.buffer()?.kvals()?))?;
                }
                Request::Commit { parts }
            }
            Command::FENCE => Request::Fence { procs: from.procs()?, infos: from.infos()? },
            Command::GET => Request::Get {
                nspace: from.nspace()?,
                rank: from.rank()?,
                infos: from.infos()?,
                key: if from.is_empty() { None } else { from.optional_key()? },
            },
            Command::REFRESH_CACHE => Request::RefreshCache { nspace: from.nspace()?, rank: from.rank()? },
            Command::FINALIZE => Request::Finalize,
            Command::PUBLISH => Request::Publish { uid: from.uint32()?, infos: from.infos()? },
            Command::LOOKUP => Request::Lookup { uid: from.uint32()?, keys: from.keys()?, infos: from.infos()? },
            Command::UNPUBLISH => Request::Unpublish { uid: from.uint32()?, keys: from.keys()?, infos: from.infos()? },
            Command::SPAWN => {
                let infos = from.infos()?;
                let apps = match from.count()? {
                    0 => Vec::new(),
                    count => from.apps(count)?,
                };
                Request::Spawn { infos, apps }
            }
            Command::CONNECT => {
                let (procs, infos) = (from.procs()?, from.infos()?);
                let mut extra = Vec::new();
                while !from.is_empty() {
                    fallible_alloc::push(&mut extra, from.info()?)?;
                }
                Request::Connect { procs, infos, extra }
            }
            Command::DISCONNECT => Request::Disconnect { procs: from.procs()?, infos: from.infos()? },
            Command::NOTIFY => Request::Notify {
                status: from.status()?,
                range: from.code(DataType::DATA_RANGE)? as u8,
                infos: from.infos()?,
            },
            Command::REGISTER_EVENTS => {
                let codes = match from.count()? {
                    0 => Vec::new(),
                    count => from.statuses(count)?,
                };
                Request::RegisterEvents { codes, infos: from.infos()? }
            }
            Command::DEREGISTER_EVENTS => {
                let mut codes = Vec::new();
                while !from.is_empty() {
                    fallible_alloc::push(&mut codes, from.status()?)?;
                }
                Request::DeregisterEvents { codes }
            }
            Command::QUERY => {
                let queries = match from.count()? {
                    0 => Vec::new(),
                    count => from.queries(count)?,
                };
                Request::Query { queries }
            }
            Command::LOG => {
                Request::Log { timestamp: Some(from.time()?), data: from.infos()?, directives: from.infos()? }
            }
            Command::ALLOCATE => {
                Request::Allocate { directive: from.code(DataType::ALLOC_DIRECTIVE)? as u8, infos: from.infos()? }
            }
            Command::JOB_CONTROL => Request::JobControl { targets: from.procs()?, directives: from.infos()? },
            Command::MONITOR => {
                Request::Monitor { monitor: from.info()?, status: from.status()?, directives: from.infos()? }
            }
            Command::GET_CREDENTIAL => Request::GetCredential { infos: from.infos()? },
            Command::VALIDATE_CREDENTIAL => Request::ValidateCredential {
                credential: fallible_alloc::copy(from.byte_object()?)?,
                infos: from.infos()?,
            },
            Command::IO_PULL => Request::IoPull {
                procs: from.procs()?,
                infos: from.infos()?,
                channels: from.code(DataType::IOF_CHANNEL)? as u16,
                handler: if from.is_empty() { None } else { Some(from.size()?) },
            },
            Command::IO_PUSH => Request::IoPush {
                targets: from.procs()?,
                infos: from.infos()?,
                data: if from.is_empty() { None } else { Some(fallible_alloc::copy(from.byte_object()?)?) },
            },
            Command::GROUP_CONSTRUCT => {
                Request::GroupConstruct { group: from.string()?, procs: from.procs()?, infos: from.infos()? }
            }
            Command::GROUP_LEAVE => Request::GroupLeave { group: from.string()?, infos: from.infos()? },
            Command::GROUP_DESTRUCT => {
                let group = from.string()?;
                let procs = match peer.names_group_members() {
                    true => {
                        let count = from.count()?;
                        from.procs_uncounted(count)?
                    }
                    false => Vec::new(),
                };
                Request::GroupDestruct { group, procs, infos: from.infos()? }
            }
            Command::IO_DEREGISTER => Request::IoDeregister { infos: from.infos()?, handler: from.size()? },
            Command::FABRIC_REGISTER => Request::FabricRegister { infos: from.infos()? },
            Command::FABRIC_UPDATE => Request::FabricUpdate { index: from.size()? },
            Command::RESOURCE_BLOCK => {
                let directive = from.code(DataType::RESBLOCK_DIRECTIVE)? as u8;
                let block = from.string()?;
                let units = match from.count()? {
                    0 => Vec::new(),
                    count => from.unpack(DataType::RESOURCE_UNIT, count)?,
                };
                let units = units.iter().filter_map(|unit| match unit {
                    Value::ResourceUnit { ty, count } => Some((*ty, *count)),
                    _ => None,
                });
                Request::ResourceBlock { directive, block, units: units.collect(), infos: from.infos()? }
            }
            Command::SESSION_CONTROL => Request::SessionControl { session: from.uint32()?, infos: from.infos()? },
            Command::RESOLVE_PEERS => Request::ResolvePeers { node: from.string()?, nspace: from.optional_nspace()? },
            Command::RESOLVE_NODES => Request::ResolveNodes { nspace: from.optional_nspace()? },
            Command::JOB_INFO_FALLBACK => Request::JobInfoFallback { store: from.string()? },
            Command(command) => Request::Unknown { command, rest: fallible_alloc::copy(from.rest())? },
        })
    }
}

/// Packs the values for one scope of a commit.
fn pack_part<'a>(packer: &mut Packer, scope: u8, mut kvals: impl Iterator<Item = (&'a Key, &'a Value)>) -> Result<()> {
    packer.code(DataType::SCOPE, scope.into());
    packer.buffer_of(|values| kvals.try_for_each(|(key, value)| values.kval(key, value)))
}
