//! An upcall with its arguments, to be made when no lock is held.

use std::ffi::CString;

use pmix_dstore::gather::GatherBuf;
use pmix_dstore::model::{App, Info, Key, Proc, Query, Status, renamed};

use crate::{Completion, FabricOperation, GroupOperation, Host};

/// One upcall. The fields are the arguments of the method of the same name in [`Host`].
#[derive(Debug)]
pub(crate) enum Upcall {
    ClientConnected { proc: Proc, object: usize, infos: Vec<Info> },
    ClientFinalized { proc: Proc, object: usize },
    Abort { proc: Proc, object: usize, status: Status, message: Option<CString>, procs: Vec<Proc> },
    Fence { procs: Vec<Proc>, infos: Vec<Info>, data: GatherBuf },
    DirectModex { proc: Proc, infos: Vec<Info> },
    Publish { proc: Proc, infos: Vec<Info> },
    Lookup { proc: Proc, keys: Vec<Key>, infos: Vec<Info> },
    Unpublish { proc: Proc, keys: Vec<Key>, infos: Vec<Info> },
    Spawn { proc: Proc, infos: Vec<Info>, apps: Vec<App> },
    Connect { procs: Vec<Proc>, infos: Vec<Info> },
    Disconnect { procs: Vec<Proc>, infos: Vec<Info> },
    RegisterEvents { codes: Vec<Status>, infos: Vec<Info> },
    DeregisterEvents { codes: Vec<Status> },
    NotifyEvent { code: Status, source: Proc, range: u8, infos: Vec<Info> },
    Query { proc: Proc, queries: Vec<Query> },
    ToolConnected { infos: Vec<Info> },
    Log { proc: Proc, data: Vec<Info>, directives: Vec<Info> },
    Allocate { proc: Proc, directive: u8, infos: Vec<Info> },
    JobControl { proc: Proc, targets: Vec<Proc>, directives: Vec<Info> },
    Monitor { proc: Proc, monitor: Info, error: Status, directives: Vec<Info> },
    GetCredential { proc: Proc, infos: Vec<Info> },
    ValidateCredential { proc: Proc, credential: Vec<u8>, infos: Vec<Info> },
    IofPull { procs: Vec<Proc>, infos: Vec<Info>, channels: u16 },
    PushStdin { source: Proc, targets: Vec<Proc>, infos: Vec<Info>, data: Option<Vec<u8>> },
    Fabric { proc: Proc, operation: FabricOperation, directives: Vec<Info> },
    SessionControl { proc: Proc, session: u32, directives: Vec<Info> },
    ResourceBlock { proc: Proc, directive: u8, block: Option<CString>, units: Vec<(u64, u64)>, infos: Vec<Info> },
    Group { operation: GroupOperation, group: CString, procs: Vec<Proc>, infos: Vec<Info> },
}

impl Upcall {
    /// Calls the host; the answer to the upcall `id` may follow later.
    pub fn call(self, host: &dyn Host, id: u64) -> Status {
        match self {
            Upcall::ClientConnected { proc, object, infos } => host.client_connected(&proc, object, &infos),
            Upcall::ClientFinalized { proc, object } => host.client_finalized(&proc, object, Completion::by_id(id)),
            Upcall::Abort { proc, object, status, message, procs } => {
                host.abort(&proc, object, status.0, message.as_deref(), &procs, Completion::by_id(id))
            }
            Upcall::Fence { procs, infos, data } => host.fence_nb(&procs, &infos, data, Completion::by_id(id)),
            Upcall::DirectModex { proc, infos } => host.direct_modex(&proc, &infos, Completion::by_id(id)),
            Upcall::Publish { proc, infos } => host.publish(&proc, &infos, Completion::by_id(id)),
            Upcall::Lookup { proc, keys, infos } => host.lookup(&proc, &keys, &infos, Completion::by_id(id)),
            Upcall::Unpublish { proc, keys, infos } => host.unpublish(&proc, &keys, &infos, Completion::by_id(id)),
            Upcall::Spawn { proc, infos, apps } => host.spawn(&proc, &infos, &apps, Completion::by_id(id)),
            Upcall::Connect { procs, infos } => host.connect(&procs, &infos, Completion::by_id(id)),
            Upcall::Disconnect { procs, infos } => host.disconnect(&procs, &infos, Completion::by_id(id)),
            Upcall::RegisterEvents { codes, infos } => host.register_events(&codes, &infos, Completion::by_id(id)),
            Upcall::DeregisterEvents { codes } => host.deregister_events(&codes, Completion::by_id(id)),
            Upcall::NotifyEvent { code, source, range, infos } => {
                host.notify_event(code, &source, range, &infos, Completion::by_id(id))
            }
            Upcall::Query { proc, mut queries } => {
                renamed::say_both(&mut queries);
                host.query(&proc, &queries, Completion::by_id(id))
            }
            Upcall::ToolConnected { infos } => host.tool_connected(&infos, Completion::by_id(id)),
            Upcall::Log { proc, data, directives } => host.log(&proc, &data, &directives, Completion::by_id(id)),
            Upcall::Allocate { proc, directive, infos } => {
                host.allocate(&proc, directive, &infos, Completion::by_id(id))
            }
            Upcall::JobControl { proc, targets, directives } => {
                host.job_control(&proc, &targets, &directives, Completion::by_id(id))
            }
            Upcall::Monitor { proc, monitor, error, directives } => {
                host.monitor(&proc, &monitor, error, &directives, Completion::by_id(id))
            }
            Upcall::GetCredential { proc, infos } => host.get_credential(&proc, &infos, Completion::by_id(id)),
            Upcall::ValidateCredential { proc, credential, infos } => {
                host.validate_credential(&proc, &credential, &infos, Completion::by_id(id))
            }
            Upcall::IofPull { procs, infos, channels } => {
                host.iof_pull(&procs, &infos, channels, Completion::by_id(id))
            }
            Upcall::PushStdin { source, targets, infos, data } => {
                host.push_stdin(&source, &targets, &infos, data.as_deref(), Completion::by_id(id))
            }
            Upcall::Fabric { proc, operation, directives } => {
                host.fabric(&proc, operation, &directives, Completion::by_id(id))
            }
            Upcall::SessionControl { proc, session, directives } => {
                host.session_control(&proc, session, &directives, Completion::by_id(id))
            }
            Upcall::ResourceBlock { proc, directive, block, units, infos } => {
                host.resource_block(&proc, directive, block.as_deref(), &units, &infos, Completion::by_id(id))
            }
            Upcall::Group { operation, group, procs, infos } => {
                host.group(operation, &group, &procs, &infos, Completion::by_id(id))
            }
        }
    }

    /// The name of the host's function, as the C module has it.
    pub fn slot(&self) -> &'static str {
        match self {
            Upcall::ClientConnected { .. } => "client_connected",
            Upcall::ClientFinalized { .. } => "client_finalized",
            Upcall::Abort { .. } => "abort",
            Upcall::Fence { .. } => "fence_nb",
            Upcall::DirectModex { .. } => "direct_modex",
            Upcall::Publish { .. } => "publish",
            Upcall::Lookup { .. } => "lookup",
            Upcall::Unpublish { .. } => "unpublish",
            Upcall::Spawn { .. } => "spawn",
            Upcall::Connect { .. } => "connect",
            Upcall::Disconnect { .. } => "disconnect",
            Upcall::RegisterEvents { .. } => "register_events",
            Upcall::DeregisterEvents { .. } => "deregister_events",
            Upcall::NotifyEvent { .. } => "notify_event",
            Upcall::Query { .. } => "query",
            Upcall::ToolConnected { .. } => "tool_connected",
            Upcall::Log { .. } => "log",
            Upcall::Allocate { .. } => "allocate",
            Upcall::JobControl { .. } => "job_control",
            Upcall::Monitor { .. } => "monitor",
            Upcall::GetCredential { .. } => "get_credential",
            Upcall::ValidateCredential { .. } => "validate_credential",
            Upcall::IofPull { .. } => "iof_pull",
            Upcall::PushStdin { .. } => "push_stdin",
            Upcall::Fabric { .. } => "fabric",
            Upcall::SessionControl { .. } => "session_control",
            Upcall::ResourceBlock { .. } => "resource_block",
            Upcall::Group { .. } => "group",
        }
    }

    /// Whether the return value is the whole answer, so that success does not mean "later".
    pub fn answered_at_once(&self) -> bool {
        matches!(self, Upcall::ClientConnected { .. })
    }
}
