//! The upcalls: calls from a server to the program that hosts it.

use std::ffi::CStr;

use pmix_dstore::gather::GatherBuf;
use pmix_dstore::model::{App, Bytes, Info, Key, Nspace, Pdata, Proc, Query, Status};

use crate::completion::{Completion, Credential};

/// An operation on a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupOperation {
    /// It is formed.
    Construct,
    /// It is dissolved.
    Destruct,
}

/// An operation on the fabrics that the host knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FabricOperation {
    /// Describe one.
    Request,
    /// Refresh the description; the fabric's index (`PMIX_FABRIC_INDEX`) is among the directives.
    Update,
}

/// The functions that a host offers to its server: the standard's `pmix_server_module_t`.
///
/// Each upcall is answered in one of three ways, as in C. It returns `SUCCESS` and calls the completion once, from any
/// thread, before or after the upcall has returned. It returns `OPERATION_SUCCEEDED`: it is done, and does not call the
/// completion. Or it returns an error: it has failed. The default of each function returns `ERR_NOT_SUPPORTED`.
///
/// Upcalls come one at a time, on the server's thread, with no lock held, so a host may call every function of
/// [`Server`](crate::Server) inside an upcall.
///
/// ```
/// use pmix_dstore::model::{Info, Proc, Status};
/// use pmix_server::{Completion, Host};
///
/// /// Refuses rank 13 and prints what clients log; everything else is not supported.
/// struct Launcher;
///
/// impl Host for Launcher {
///     fn client_connected(&self, proc: &Proc, _object: usize, _infos: &[Info]) -> Status {
///         if proc.rank.0 == 13 { Status::ERR_NO_PERMISSIONS } else { Status::OPERATION_SUCCEEDED }
///     }
///
///     fn log(&self, proc: &Proc, data: &[Info], _directives: &[Info], _done: Completion<Status>) -> Status {
///         data.iter().for_each(|info| println!("{proc}: {:?}", info.value));
///         Status::OPERATION_SUCCEEDED
///     }
/// }
/// ```
#[allow(unused_variables)]
pub trait Host: Send + Sync {
    /// A client has connected. Only the return value answers: `SUCCESS` or `OPERATION_SUCCEEDED` admits the client, an
    /// error refuses it.
    fn client_connected(&self, proc: &Proc, object: usize, infos: &[Info]) -> Status {
        Status::OPERATION_SUCCEEDED
    }

    /// A client called finalize. Its finalize completes when this is answered. With a [`Host::stock_release`] from 7 on, so does a
    /// tool's; `object` is 0 then.
    fn client_finalized(&self, proc: &Proc, object: usize, done: Completion<Status>) -> Status {
        Status::OPERATION_SUCCEEDED
    }

    /// The main release number of the stock library, if the host's process has that one loaded as well, as daemons of PRRTE have: the
    /// host was made for this release, so the server behaves as it does. Called once, when the server starts.
    fn stock_release(&self) -> Option<u32> {
        None
    }

    /// A client asks to abort `procs`, or its whole job if `procs` is empty.
    fn abort(
        &self,
        proc: &Proc,
        object: usize,
        status: i32,
        message: Option<&CStr>,
        procs: &[Proc],
        done: Completion<Status>,
    ) -> Status {
        Status::ERR_NOT_SUPPORTED
    }

    /// All local participants have entered a fence that reaches other servers. `data` is this server's contribution;
    /// the answer is the concatenation of all servers' contributions, in any order.
    fn fence_nb(&self, procs: &[Proc], infos: &[Info], data: GatherBuf, done: Completion<(Status, Bytes)>) -> Status {
        Status::ERR_NOT_SUPPORTED
    }

    /// A client requests the committed values of a process of another server. The answer is the result of
    /// [`Server::dmodex_request`](crate::Server::dmodex_request) there.
    fn direct_modex(&self, proc: &Proc, infos: &[Info], done: Completion<(Status, Bytes)>) -> Status {
        Status::ERR_NOT_SUPPORTED
    }

    /// Publish values for other jobs.
    fn publish(&self, proc: &Proc, infos: &[Info], done: Completion<Status>) -> Status {
        Status::ERR_NOT_SUPPORTED
    }

    /// Look up published values.
    fn lookup(&self, proc: &Proc, keys: &[Key], infos: &[Info], done: Completion<(Status, Vec<Pdata>)>) -> Status {
        Status::ERR_NOT_SUPPORTED
    }

    /// Unpublish values; all values of the process if `keys` is empty.
    fn unpublish(&self, proc: &Proc, keys: &[Key], infos: &[Info], done: Completion<Status>) -> Status {
        Status::ERR_NOT_SUPPORTED
    }

    /// Start new processes; the answer names their namespace. Where `proc` is the server itself, answering calls back whoever asked: see
    /// [`Completion::complete_and_leave`].
    fn spawn(&self, proc: &Proc, infos: &[Info], apps: &[App], done: Completion<(Status, Option<Nspace>)>) -> Status {
        Status::ERR_NOT_SUPPORTED
    }

    /// Processes of several servers connect; the local ones are all there.
    fn connect(&self, procs: &[Proc], infos: &[Info], done: Completion<Status>) -> Status {
        Status::ERR_NOT_SUPPORTED
    }

    /// Processes of several servers disconnect; the local ones are all there.
    fn disconnect(&self, procs: &[Proc], infos: &[Info], done: Completion<Status>) -> Status {
        Status::ERR_NOT_SUPPORTED
    }

    /// The first client has registered for these events, which only the environment sees.
    fn register_events(&self, codes: &[Status], infos: &[Info], done: Completion<Status>) -> Status {
        Status::ERR_NOT_SUPPORTED
    }

    /// No client is registered for these events any more. The answer is ignored.
    fn deregister_events(&self, codes: &[Status], done: Completion<Status>) -> Status {
        Status::ERR_NOT_SUPPORTED
    }

    /// A client reports an event that concerns processes of other servers.
    fn notify_event(&self, code: Status, source: &Proc, range: u8, infos: &[Info], done: Completion<Status>) -> Status {
        Status::ERR_NOT_SUPPORTED
    }

    /// Answer queries. After `QUERY_PARTIAL_SUCCESS` the server looks up the other keys. If one key is in several queries and the answer has it
    /// less often, the host is asked again for each of them alone: an info does not say to which query it belongs.
    fn query(&self, proc: &Proc, queries: &[Query], done: Completion<(Status, Vec<Info>)>) -> Status {
        Status::ERR_NOT_SUPPORTED
    }

    /// A tool has connected: a process that no host launched, or a launcher. `infos` contain its release (`PMIX_VERSION_INFO`), user and
    /// group (`PMIX_USERID`, which the server has verified, `PMIX_GRPID`), its name if it has one (`PMIX_NSPACE`, `PMIX_RANK`),
    /// and its own attributes. The answer is the tool's name; a name that it has already is kept. Without this upcall a tool with
    /// a name is admitted, and one without a name is refused.
    fn tool_connected(&self, infos: &[Info], done: Completion<(Status, Option<Proc>)>) -> Status {
        Status::ERR_NOT_SUPPORTED
    }

    /// Log `data`. The caller may wait for the answer: a host delays it for back-pressure.
    fn log(&self, proc: &Proc, data: &[Info], directives: &[Info], done: Completion<Status>) -> Status {
        Status::ERR_NOT_SUPPORTED
    }

    /// Change an allocation.
    fn allocate(&self, proc: &Proc, directive: u8, infos: &[Info], done: Completion<(Status, Vec<Info>)>) -> Status {
        Status::ERR_NOT_SUPPORTED
    }

    /// Control processes; the server performs some directives itself and does not pass them on.
    fn job_control(
        &self,
        proc: &Proc,
        targets: &[Proc],
        directives: &[Info],
        done: Completion<(Status, Vec<Info>)>,
    ) -> Status {
        Status::ERR_NOT_SUPPORTED
    }

    /// Watch processes.
    fn monitor(
        &self,
        proc: &Proc,
        monitor: &Info,
        error: Status,
        directives: &[Info],
        done: Completion<(Status, Vec<Info>)>,
    ) -> Status {
        Status::ERR_NOT_SUPPORTED
    }

    /// Give a process a credential.
    fn get_credential(&self, proc: &Proc, infos: &[Info], done: Completion<(Status, Credential)>) -> Status {
        Status::ERR_NOT_SUPPORTED
    }

    /// Check a credential that a process was shown.
    fn validate_credential(
        &self,
        proc: &Proc,
        credential: &[u8],
        infos: &[Info],
        done: Completion<(Status, Vec<Info>)>,
    ) -> Status {
        Status::ERR_NOT_SUPPORTED
    }

    /// A client pulls the output of `procs` on `channels`, a mask, or stops the pull (`PMIX_IOF_STOP` among the infos). The host
    /// delivers it by [`Server::deliver_output`](crate::Server::deliver_output).
    fn iof_pull(&self, procs: &[Proc], infos: &[Info], channels: u16, done: Completion<Status>) -> Status {
        Status::ERR_NOT_SUPPORTED
    }

    /// `source` has input for `targets`; empty input is its end. The answer `ERR_IOF_XOFF` accepts the input and pauses
    /// further input, until [`Server::control_input`](crate::Server::control_input) resumes it. Peers before release 7.0, which know no
    /// pause, get their reply then.
    fn push_stdin(
        &self,
        source: &Proc,
        targets: &[Proc],
        infos: &[Info],
        data: Option<&[u8]>,
        done: Completion<Status>,
    ) -> Status {
        Status::ERR_NOT_SUPPORTED
    }

    /// Describe a fabric: the answer should contain its index (`PMIX_FABRIC_INDEX`), by which the process requests an update.
    fn fabric(
        &self,
        proc: &Proc,
        operation: FabricOperation,
        directives: &[Info],
        done: Completion<(Status, Vec<Info>)>,
    ) -> Status {
        Status::ERR_NOT_SUPPORTED
    }

    /// Act on a session, on request of the scheduler or the system's controller.
    fn session_control(
        &self,
        proc: &Proc,
        session: u32,
        directives: &[Info],
        done: Completion<(Status, Vec<Info>)>,
    ) -> Status {
        Status::ERR_NOT_SUPPORTED
    }

    /// Define, change or delete a block of resources, of that name. `directive` is a `pmix_resource_block_directive_t`; the units
    /// are masks of device types, and how many of each.
    fn resource_block(
        &self,
        proc: &Proc,
        directive: u8,
        block: Option<&CStr>,
        units: &[(u64, u64)],
        infos: &[Info],
        done: Completion<Status>,
    ) -> Status {
        Status::ERR_NOT_SUPPORTED
    }

    /// A group with members at other servers, or with a request for a context id, is formed or dissolved; all local members have
    /// entered. The answer to a construct contains the context id (`PMIX_GROUP_CONTEXT_ID`), the same on all servers, if it was
    /// requested (`PMIX_GROUP_ASSIGN_CONTEXT_ID`). What members send each other is among the infos (`PMIX_GROUP_INFO`,
    /// `PMIX_PROC_INFO_ARRAY`, one for each member); the answer contains that of the members at other servers, the latter as
    /// `PMIX_GROUP_ENDPT_DATA`.
    ///
    /// A leader that knows only how many there are (`PMIX_GROUP_BOOTSTRAP`), and a member that leaders add
    /// (`PMIX_GROUP_ADD_MEMBERS`), is told by itself, the member without processes and named by `PMIX_PROCID`. The first answer with
    /// the group's name is the answer to all of them; it contains the members (`PMIX_GROUP_MEMBERSHIP`).
    fn group(
        &self,
        operation: GroupOperation,
        group: &CStr,
        procs: &[Proc],
        infos: &[Info],
        done: Completion<(Status, Vec<Info>)>,
    ) -> Status {
        Status::ERR_NOT_SUPPORTED
    }
}
