//! Upcalls of a server in another process.

use std::ffi::CString;

use pmix_dstore::codec::{Packer, Unpacker};
use pmix_dstore::model::{App, Info, Key, Proc, Query, Result, Status};
use pmix_server::{Completion, GroupOperation, Host};

use super::fields::object;

/// An upcall: a function of [`Host`] of the same name that the launcher has.
#[derive(Debug, PartialEq)]
pub(super) enum Call {
    ClientConnected { proc: Proc, object: u64 },
    ClientFinalized { proc: Proc, object: u64 },
    ToolConnected { infos: Vec<Info> },
    Abort { proc: Proc, object: u64, status: i32, message: Option<CString>, procs: Vec<Proc> },
    JobControl { proc: Proc, targets: Vec<Proc>, directives: Vec<Info> },
    Allocate { proc: Proc, directive: u8, infos: Vec<Info> },
    Spawn { proc: Proc, infos: Vec<Info>, apps: Vec<App> },
    Query { proc: Proc, queries: Vec<Query> },
    Publish { proc: Proc, infos: Vec<Info> },
    Lookup { proc: Proc, keys: Vec<Key>, infos: Vec<Info> },
    Unpublish { proc: Proc, keys: Vec<Key>, infos: Vec<Info> },
    NotifyEvent { code: Status, source: Proc, range: u8, infos: Vec<Info> },
    PushStdin { source: Proc, targets: Vec<Proc>, infos: Vec<Info>, data: Option<Vec<u8>> },
    Group { is_construct: bool, group: CString, procs: Vec<Proc>, infos: Vec<Info> },
    GetCredential { proc: Proc, infos: Vec<Info> },
    ValidateCredential { proc: Proc, credential: Vec<u8>, infos: Vec<Info> },
    Log { proc: Proc, data: Vec<Info>, directives: Vec<Info> },
}

/// A count in front of what is one operation.
fn counted<T>(
    from: &mut Unpacker<'_>,
    read: impl FnOnce(&mut Unpacker<'_>, usize) -> Result<Vec<T>>,
) -> Result<Vec<T>> {
    match from.count()? {
        0 => Ok(Vec::new()),
        count => read(from, count),
    }
}

impl Call {
    fn code(&self) -> u8 {
        match self {
            Call::ClientConnected { .. } => 0,
            Call::ClientFinalized { .. } => 1,
            Call::ToolConnected { .. } => 2,
            Call::Abort { .. } => 3,
            Call::JobControl { .. } => 4,
            Call::Allocate { .. } => 5,
            Call::Spawn { .. } => 6,
            Call::Query { .. } => 7,
            Call::Publish { .. } => 8,
            Call::Lookup { .. } => 9,
            Call::Unpublish { .. } => 10,
            Call::NotifyEvent { .. } => 11,
            Call::PushStdin { .. } => 12,
            Call::Group { .. } => 13,
            Call::GetCredential { .. } => 14,
            Call::ValidateCredential { .. } => 15,
            Call::Log { .. } => 16,
        }
    }

    pub fn pack(&self, to: &mut Packer) -> Result<()> {
        to.byte(self.code());
        match self {
            Call::ClientConnected { proc, object } | Call::ClientFinalized { proc, object } => {
                to.proc(proc);
                to.uint64(*object);
            }
            Call::ToolConnected { infos } => to.infos(infos)?,
            Call::Abort { proc, object, status, message, procs } => {
                to.proc(proc);
                to.uint64(*object);
                to.int32(*status);
                to.c_string(message.as_deref())?;
                to.procs(procs)?;
            }
            Call::JobControl { proc, targets, directives } => {
                to.proc(proc);
                to.procs(targets)?;
                to.infos(directives)?;
            }
            Call::Allocate { proc, directive, infos } => {
                to.proc(proc);
                to.byte(*directive);
                to.infos(infos)?;
            }
            Call::Publish { proc, infos } | Call::GetCredential { proc, infos } => {
                to.proc(proc);
                to.infos(infos)?;
            }
            Call::Lookup { proc, keys, infos } | Call::Unpublish { proc, keys, infos } => {
                to.proc(proc);
                to.keys(keys)?;
                to.infos(infos)?;
            }
            Call::Log { proc, data, directives } => {
                to.proc(proc);
                to.infos(data)?;
                to.infos(directives)?;
            }
            rest => rest.pack_rest(to)?,
        }
        Ok(())
    }

    fn pack_rest(&self, to: &mut Packer) -> Result<()> {
        match self {
            Call::Spawn { proc, infos, apps } => {
                to.proc(proc);
                to.infos(infos)?;
                to.size(apps.len() as u64);
                if apps.is_empty() { Ok(()) } else { to.apps(apps) }
            }
            Call::Query { proc, queries } => {
                to.proc(proc);
                to.size(queries.len() as u64);
                if queries.is_empty() { Ok(()) } else { to.queries(queries) }
            }
            Call::NotifyEvent { code, source, range, infos } => {
                to.status(*code);
                to.proc(source);
                to.byte(*range);
                to.infos(infos)
            }
            Call::PushStdin { source, targets, infos, data } => {
                to.proc(source);
                to.procs(targets)?;
                to.infos(infos)?;
                to.bool(data.is_some());
                to.byte_object(data.as_deref().unwrap_or_default())
            }
            Call::Group { is_construct, group, procs, infos } => {
                to.bool(*is_construct);
                to.c_string(Some(group))?;
                to.procs(procs)?;
                to.infos(infos)
            }
            Call::ValidateCredential { proc, credential, infos } => {
                to.proc(proc);
                to.byte_object(credential)?;
                to.infos(infos)
            }
            _ => Ok(()),
        }
    }

    pub fn unpack(from: &mut Unpacker<'_>) -> Result<Call> {
        Ok(match from.byte()? {
            0 => Call::ClientConnected { proc: from.proc()?, object: from.uint64()? },
            1 => Call::ClientFinalized { proc: from.proc()?, object: from.uint64()? },
            2 => Call::ToolConnected { infos: from.infos()? },
            3 => Call::Abort {
                proc: from.proc()?,
                object: from.uint64()?,
                status: from.int32()?,
                message: from.string()?,
                procs: from.procs()?,
            },
            4 => Call::JobControl { proc: from.proc()?, targets: from.procs()?, directives: from.infos()? },
            5 => Call::Allocate { proc: from.proc()?, directive: from.byte()?, infos: from.infos()? },
            6 => Call::Spawn {
                proc: from.proc()?,
                infos: from.infos()?,
                apps: counted(from, |from, count| from.apps(count))?,
            },
            7 => Call::Query { proc: from.proc()?, queries: counted(from, |from, count| from.queries(count))? },
            8 => Call::Publish { proc: from.proc()?, infos: from.infos()? },
            9 => Call::Lookup { proc: from.proc()?, keys: from.keys()?, infos: from.infos()? },
            10 => Call::Unpublish { proc: from.proc()?, keys: from.keys()?, infos: from.infos()? },
            code => Call::unpack_rest(code, from)?,
        })
    }

    fn unpack_rest(code: u8, from: &mut Unpacker<'_>) -> Result<Call> {
        Ok(match code {
            11 => Call::NotifyEvent {
                code: from.status()?,
                source: from.proc()?,
                range: from.byte()?,
                infos: from.infos()?,
            },
            12 => {
                let (source, targets, infos) = (from.proc()?, from.procs()?, from.infos()?);
                let (is_some, data) = (from.bool()?, object(from)?);
                Call::PushStdin { source, targets, infos, data: is_some.then_some(data) }
            }
            13 => Call::Group {
                is_construct: from.bool()?,
                group: from.string()?.ok_or(Status::ERR_UNPACK_FAILURE)?,
                procs: from.procs()?,
                infos: from.infos()?,
            },
            14 => Call::GetCredential { proc: from.proc()?, infos: from.infos()? },
            15 => Call::ValidateCredential { proc: from.proc()?, credential: object(from)?, infos: from.infos()? },
            16 => Call::Log { proc: from.proc()?, data: from.infos()?, directives: from.infos()? },
            _ => return Err(Status::ERR_UNPACK_FAILURE),
        })
    }

    /// Makes the upcall; the answer to the upcall `id` may follow later.
    pub fn perform(&self, host: &dyn Host, id: u64) -> Status {
        match self {
            Call::ClientConnected { proc, object } => host.client_connected(proc, *object as usize, &[]),
            Call::ClientFinalized { proc, object } => {
                host.client_finalized(proc, *object as usize, Completion::by_id(id))
            }
            Call::ToolConnected { infos } => host.tool_connected(infos, Completion::by_id(id)),
            Call::Abort { proc, object, status, message, procs } => {
                host.abort(proc, *object as usize, *status, message.as_deref(), procs, Completion::by_id(id))
            }
            Call::JobControl { proc, targets, directives } => {
                host.job_control(proc, targets, directives, Completion::by_id(id))
            }
            Call::Allocate { proc, directive, infos } => host.allocate(proc, *directive, infos, Completion::by_id(id)),
            Call::Spawn { proc, infos, apps } => host.spawn(proc, infos, apps, Completion::by_id(id)),
            Call::Query { proc, queries } => host.query(proc, queries, Completion::by_id(id)),
            Call::Publish { proc, infos } => host.publish(proc, infos, Completion::by_id(id)),
            Call::Lookup { proc, keys, infos } => host.lookup(proc, keys, infos, Completion::by_id(id)),
            Call::Unpublish { proc, keys, infos } => host.unpublish(proc, keys, infos, Completion::by_id(id)),
            Call::NotifyEvent { code, source, range, infos } => {
                host.notify_event(*code, source, *range, infos, Completion::by_id(id))
            }
            Call::PushStdin { source, targets, infos, data } => {
                host.push_stdin(source, targets, infos, data.as_deref(), Completion::by_id(id))
            }
            Call::Group { is_construct, group, procs, infos } => {
                let operation = if *is_construct { GroupOperation::Construct } else { GroupOperation::Destruct };
                host.group(operation, group, procs, infos, Completion::by_id(id))
            }
            Call::GetCredential { proc, infos } => host.get_credential(proc, infos, Completion::by_id(id)),
            Call::ValidateCredential { proc, credential, infos } => {
                host.validate_credential(proc, credential, infos, Completion::by_id(id))
            }
            Call::Log { proc, data, directives } => host.log(proc, data, directives, Completion::by_id(id)),
        }
    }
}
