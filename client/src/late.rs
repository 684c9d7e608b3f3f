//! What is said of a server that has not answered in the time that a caller gave it.

use std::time::Instant;

use pmix_dstore::log::{self, Level, Target, Writer};
use pmix_dstore::model::{Proc, Result, Status};
use pmix_wire::Request;

use crate::Link;

/// A call with a time limit. A server of this library answers in time and logs who is missing; this is for all others, and for one that
/// is stopped.
#[derive(Clone, Copy)]
pub(crate) struct Limited {
    call: &'static str,
    since: Instant,
}

impl Limited {
    /// The call that makes this request now.
    pub fn by(request: &Request) -> Limited {
        Limited { call: call_of(request), since: Instant::now() }
    }

    /// A Get that begins now.
    pub fn by_get() -> Limited {
        Limited { call: "PMIx_Get", since: Instant::now() }
    }

    /// Logs that the call has ended without an answer, if that is so.
    pub fn ended(self, link: &dyn Link, me: &Proc, reply: &Result<Vec<u8>>) {
        if *reply != Err(Status::ERR_TIMEOUT) {
            return;
        }
        let (call, seconds) = (self.call, self.since.elapsed().as_secs_f64());
        let release = link.server_version();
        log::write(
            Level::Warn,
            Target::Client,
            Writer::Client(me),
            format_args!(
                "{call} timed out; missing: the answer of the server (release {release}), asked {seconds:.1} s ago"
            ),
        );
    }
}

/// The function of the C interface that makes a request.
fn call_of(request: &Request) -> &'static str {
    match request {
        Request::Fence { .. } => "PMIx_Fence",
        Request::Finalize => "PMIx_Finalize",
        Request::Publish { .. } => "PMIx_Publish",
        Request::Lookup { .. } => "PMIx_Lookup",
        Request::Unpublish { .. } => "PMIx_Unpublish",
        Request::Spawn { .. } => "PMIx_Spawn",
        Request::Connect { .. } => "PMIx_Connect",
        Request::Disconnect { .. } => "PMIx_Disconnect",
        Request::Notify { .. } => "PMIx_Notify_event",
        Request::RegisterEvents { .. } => "PMIx_Register_event_handler",
        Request::Query { .. } => "PMIx_Query_info",
        Request::Log { .. } => "PMIx_Log",
        Request::Allocate { .. } => "PMIx_Allocation_request",
        Request::JobControl { .. } => "PMIx_Job_control",
        Request::Monitor { .. } => "PMIx_Process_monitor",
        Request::GetCredential { .. } => "PMIx_Get_credential",
        Request::ValidateCredential { .. } => "PMIx_Validate_credential",
        Request::IoPull { .. } => "PMIx_IOF_pull",
        Request::IoDeregister { .. } => "PMIx_IOF_deregister",
        Request::IoPush { .. } => "PMIx_IOF_push",
        Request::GroupConstruct { .. } => "PMIx_Group_construct",
        Request::GroupDestruct { .. } => "PMIx_Group_destruct",
        Request::GroupLeave { .. } => "PMIx_Group_leave",
        Request::FabricRegister { .. } => "PMIx_Fabric_register",
        Request::SessionControl { .. } => "PMIx_Session_control",
        Request::ResourceBlock { .. } => "PMIx_Resource_block",
        _ => "a request",
    }
}
