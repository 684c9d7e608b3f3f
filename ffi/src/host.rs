//! The upcalls: the host's C module as a [`Host`].
//!
//! The arguments of an upcall live until the host has called its callback, or, for an upcall without a callback, until the upcall
//! has returned. The `cbdata` that a host gets is the number of the upcall. A second callback with the same number finds nothing.
//!
//! Releases have appended slots to the module without changing its name. It has 28 slots up to 4.2, 29 in 5.0, and 32 from 6.0 on,
//! where the 29th slot is not the one of 5.0. So the library reads 28 slots, and more only from a host that tells the size of its
//! module. Hosts that are compiled with this project's headers do ([`MODULE_SIZE`]).

use std::any::Any;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr;
use std::sync::Arc;

use pmix_client::Task;
use pmix_dstore::fallible_alloc;
use pmix_dstore::gather::GatherBuf;
use pmix_dstore::model::{App, Bytes, Info, Key, Nspace, Pdata, Proc, Query, Result, Status};
use pmix_server::{Completion, Credential, FabricOperation, GroupOperation, Host};

use crate::callback::Callback;
use crate::convert::array::{self, CArray};
use crate::convert::object::Object;
use crate::entry::{guard, guard_call};
use crate::memory::{copy_string_list, free_string_list};
use crate::registry::{Registry, from_cbdata, to_cbdata};
use crate::stock;
use crate::types::*;

/// `PMIX_DSTORE_MODULE_SIZE` (size_t): an info of `PMIx_server_init` that tells the size of the caller's module.
pub const MODULE_SIZE: &str = "pmix.dstore.modsize";

/// The size of a module of release 5.0, whose last slot is for the control of sessions.
const MODULE_SIZE_5_0: usize = 232;

/// A host's module, copied: the host may free its own after `PMIx_server_init`.
pub struct CHost {
    module: Option<pmix_server_module_t>,
}

// SAFETY: the module is a set of function pointers, and the C interface allows calling them on the server's thread.
unsafe impl Send for CHost {}
// SAFETY: as for Send; the copy is never changed.
unsafe impl Sync for CHost {}

/// Calls a function of the module. Its arguments are kept until the callback if it returns `SUCCESS`, and freed now otherwise.
macro_rules! upcall {
    ($self:ident.$slot:ident, $done:expr, $arguments:expr, |$function:ident, $args:ident, $cbdata:ident| $call:expr) => {{
        let Some($function) = $self.slots().and_then(|slots| slots.$slot) else { return Status::ERR_NOT_SUPPORTED };
        let $args = match $arguments {
            Ok(arguments) => Arc::new(arguments),
            Err(status) => return status,
        };
        let number = $done.id() as usize;
        // This function keeps a share of the arguments: a host may answer inside the upcall and read them until it returns.
        ARGUMENTS.keep_as(number, UpcallArgs($args.clone()));
        let $cbdata = to_cbdata(number);
        // SAFETY: the host put the function into the slot of this upcall; its arguments live until the host answers.
        let status = Status(unsafe { $call });
        if status != Status::SUCCESS {
            ARGUMENTS.take(number);
        }
        status
    }};
}

impl CHost {
    /// A host with this module. With NULL it has no function for any upcall. `size` is the size of the module, if the host tells it.
    ///
    /// # Safety
    /// `module` is NULL or points to at least the 28 slots that every release has, and to `size` bytes.
    pub unsafe fn new(module: *const pmix_server_module_t, size: Option<usize>) -> CHost {
        // SAFETY: not NULL, hence a module with at least the slots of every release, and `size` bytes, by the caller's promise.
        let module = (!module.is_null()).then(|| unsafe { read_module(module, size.unwrap_or_default()) });
        CHost { module }
    }

    fn slots(&self) -> Option<&pmix_server_module_t> {
        self.module.as_ref()
    }
}

/// The slots of a module.
///
/// # Safety
/// `module` points to at least the 28 slots that every release has, and to `size` bytes.
unsafe fn read_module(module: *const pmix_server_module_t, size: usize) -> pmix_server_module_t {
    const COMMON: usize = std::mem::offset_of!(pmix_server_module_t, tool_connected2);
    let is_whole = size >= size_of::<pmix_server_module_t>();
    let mut slots = std::mem::MaybeUninit::<pmix_server_module_t>::zeroed();
    let len = if is_whole { size_of::<pmix_server_module_t>() } else { COMMON };
    // SAFETY: the module has `len` bytes, by the caller's promise, and `slots` has room for them.
    unsafe { ptr::copy_nonoverlapping(module.cast::<u8>(), slots.as_mut_ptr().cast(), len) };
    // SAFETY: the slots that were not copied are zero, which is `None`.
    let mut slots = unsafe { slots.assume_init() };
    if !is_whole && size >= MODULE_SIZE_5_0 {
        // SAFETY: a module of this size has a slot after the common ones, which is the one for the control of sessions.
        slots.session_control = unsafe { module.cast::<u8>().add(COMMON).cast::<Option<_>>().read() };
    }
    slots
}

/// `PMIX_GROUP_CONSTRUCT` and `PMIX_GROUP_DESTRUCT`.
const GROUP_CONSTRUCT: pmix_group_operation_t = 0;
const GROUP_DESTRUCT: pmix_group_operation_t = 1;

/// `PMIX_FABRIC_REQUEST_INFO` and `PMIX_FABRIC_UPDATE_INFO`.
const FABRIC_REQUEST: pmix_fabric_operation_t = 0;
const FABRIC_UPDATE: pmix_fabric_operation_t = 1;

/// The arguments of an upcall of any kind.
struct UpcallArgs(#[allow(dead_code, reason = "kept for its Drop")] Arc<dyn Any + Send + Sync>);

/// The arguments of upcalls that have not been answered, by the number of the upcall.
static ARGUMENTS: Registry<UpcallArgs> = Registry::new();

/// The arguments of upcalls that have no number of their own: of logs, and of clients that connect.
static UNNUMBERED: Registry<UpcallArgs> = Registry::new();

/// Keys as an array of C strings.
struct CKeys(*mut *mut c_char);

// SAFETY: the array is owned, and heap memory is not bound to a thread.
unsafe impl Send for CKeys {}
// SAFETY: a shared reference gives only the address, which does not change.
unsafe impl Sync for CKeys {}

impl CKeys {
    fn new(keys: &[Key]) -> Result<CKeys> {
        let strings: Result<Vec<CString>> =
            keys.iter().map(|key| CString::new(key.as_bytes()).map_err(|_| Status::ERR_BAD_PARAM)).collect();
        Ok(CKeys(copy_string_list(&strings?)?))
    }
}

impl Drop for CKeys {
    fn drop(&mut self) {
        // SAFETY: the array is owned and comes from malloc.
        unsafe { free_string_list(self.0) }
    }
}

fn one<T: Object>(model: &T::Model) -> Result<CArray<T>> {
    CArray::new(std::slice::from_ref(model))
}

fn c_codes(codes: &[Status]) -> Vec<pmix_status_t> {
    codes.iter().map(|code| code.0).collect()
}

type Procs = CArray<pmix_proc_t>;
type Infos = CArray<pmix_info_t>;

impl Host for CHost {
    fn client_connected(&self, proc: &Proc, object: usize, infos: &[Info]) -> Status {
        let Some(slots) = self.slots() else { return Status::OPERATION_SUCCEEDED };
        let arguments = one::<pmix_proc_t>(proc).and_then(|proc| Ok((proc, Infos::new(infos)?)));
        let (proc, infos) = match arguments {
            Ok(arguments) => arguments,
            Err(status) => return status,
        };
        let object = ptr::with_exposed_provenance_mut(object);
        if let Some(function) = slots.client_connected2 {
            // A host may call back before it returns, or later. Only its return value counts. PRRTE 5.0 reads the infos after it has
            // returned, until it calls back.
            let args = Arc::new((proc, infos));
            let number = UNNUMBERED.keep(UpcallArgs(args.clone()));
            let ((proc, infos), cbdata) = (&*args, to_cbdata(number));
            // SAFETY: the host put the function into this slot; its arguments live until it calls back.
            let status = Status(unsafe {
                function(proc.as_ptr(), object, infos.as_ptr(), infos.len(), Some(unnumbered_done), cbdata)
            });
            if status != Status::SUCCESS {
                drop(UNNUMBERED.take(number));
            }
            return status;
        }
        match slots.client_connected {
            // As in released servers, there is no callback, and the return value is the answer.
            // SAFETY: the host put the function into this slot; its arguments live until it returns.
            Some(function) => Status(unsafe { function(proc.as_ptr(), object, None, ptr::null_mut()) }),
            None => Status::OPERATION_SUCCEEDED,
        }
    }

    fn stock_release(&self) -> Option<u32> {
        stock::release()
    }

    fn client_finalized(&self, proc: &Proc, object: usize, done: Completion<Status>) -> Status {
        if self.slots().is_none_or(|slots| slots.client_finalized.is_none()) {
            return Status::OPERATION_SUCCEEDED;
        }
        let object = ptr::with_exposed_provenance_mut(object);
        upcall!(self.client_finalized, done, one::<pmix_proc_t>(proc), |function, proc, cbdata| {
            function(proc.as_ptr(), object, Some(op_done), cbdata)
        })
    }

    fn abort(
        &self,
        proc: &Proc,
        object: usize,
        status: i32,
        message: Option<&CStr>,
        procs: &[Proc],
        done: Completion<Status>,
    ) -> Status {
        let object = ptr::with_exposed_provenance_mut(object);
        let arguments = || Ok((one::<pmix_proc_t>(proc)?, message.map(CStr::to_owned), Procs::new(procs)?));
        upcall!(self.abort, done, arguments(), |function, args, cbdata| {
            let (proc, message, procs) = &*args;
            let message = message.as_ref().map_or(ptr::null(), |message| message.as_ptr());
            let status: c_int = status;
            function(proc.as_ptr(), object, status, message, procs.as_ptr(), procs.len(), Some(op_done), cbdata)
        })
    }

    fn fence_nb(&self, procs: &[Proc], infos: &[Info], data: GatherBuf, done: Completion<(Status, Bytes)>) -> Status {
        // The host frees the blob when it does not need it any more. So the blob is made last, when nothing else can fail.
        let arguments = || {
            let (procs, infos) = (Procs::new(procs)?, Infos::new(infos)?);
            Ok((procs, infos, crate::memory::copy_pieces(&data)?.expose_provenance()))
        };
        upcall!(self.fence_nb, done, arguments(), |function, args, cbdata| {
            let (procs, infos, blob) = &*args;
            function(
                procs.as_ptr(),
                procs.len(),
                infos.as_ptr(),
                infos.len(),
                ptr::with_exposed_provenance_mut(*blob),
                data.len(),
                Some(modex_done),
                cbdata,
            )
        })
    }

    fn direct_modex(&self, proc: &Proc, infos: &[Info], done: Completion<(Status, Bytes)>) -> Status {
        let arguments = || Ok((one::<pmix_proc_t>(proc)?, Infos::new(infos)?));
        upcall!(self.direct_modex, done, arguments(), |function, args, cbdata| {
            let (proc, infos) = &*args;
            function(proc.as_ptr(), infos.as_ptr(), infos.len(), Some(modex_done), cbdata)
        })
    }

    fn publish(&self, proc: &Proc, infos: &[Info], done: Completion<Status>) -> Status {
        let arguments = || Ok((one::<pmix_proc_t>(proc)?, Infos::new(infos)?));
        upcall!(self.publish, done, arguments(), |function, args, cbdata| {
            let (proc, infos) = &*args;
            function(proc.as_ptr(), infos.as_ptr(), infos.len(), Some(op_done), cbdata)
        })
    }

    fn lookup(&self, proc: &Proc, keys: &[Key], infos: &[Info], done: Completion<(Status, Vec<Pdata>)>) -> Status {
        let arguments = || Ok((one::<pmix_proc_t>(proc)?, CKeys::new(keys)?, Infos::new(infos)?));
        upcall!(self.lookup, done, arguments(), |function, args, cbdata| {
            let (proc, keys, infos) = &*args;
            function(proc.as_ptr(), keys.0, infos.as_ptr(), infos.len(), Some(lookup_done), cbdata)
        })
    }

    fn unpublish(&self, proc: &Proc, keys: &[Key], infos: &[Info], done: Completion<Status>) -> Status {
        let arguments = || Ok((one::<pmix_proc_t>(proc)?, CKeys::new(keys)?, Infos::new(infos)?));
        upcall!(self.unpublish, done, arguments(), |function, args, cbdata| {
            let (proc, keys, infos) = &*args;
            function(proc.as_ptr(), keys.0, infos.as_ptr(), infos.len(), Some(op_done), cbdata)
        })
    }

    fn spawn(&self, proc: &Proc, infos: &[Info], apps: &[App], done: Completion<(Status, Option<Nspace>)>) -> Status {
        let arguments = || Ok((one::<pmix_proc_t>(proc)?, Infos::new(infos)?, CArray::<pmix_app_t>::new(apps)?));
        upcall!(self.spawn, done, arguments(), |function, args, cbdata| {
            let (proc, infos, apps) = &*args;
            function(proc.as_ptr(), infos.as_ptr(), infos.len(), apps.as_ptr(), apps.len(), Some(spawn_done), cbdata)
        })
    }

    fn connect(&self, procs: &[Proc], infos: &[Info], done: Completion<Status>) -> Status {
        let arguments = || Ok((Procs::new(procs)?, Infos::new(infos)?));
        upcall!(self.connect, done, arguments(), |function, args, cbdata| {
            let (procs, infos) = &*args;
            function(procs.as_ptr(), procs.len(), infos.as_ptr(), infos.len(), Some(op_done), cbdata)
        })
    }

    fn disconnect(&self, procs: &[Proc], infos: &[Info], done: Completion<Status>) -> Status {
        let arguments = || Ok((Procs::new(procs)?, Infos::new(infos)?));
        upcall!(self.disconnect, done, arguments(), |function, args, cbdata| {
            let (procs, infos) = &*args;
            function(procs.as_ptr(), procs.len(), infos.as_ptr(), infos.len(), Some(op_done), cbdata)
        })
    }

    fn register_events(&self, codes: &[Status], infos: &[Info], done: Completion<Status>) -> Status {
        let arguments = || Ok((c_codes(codes), Infos::new(infos)?));
        upcall!(self.register_events, done, arguments(), |function, args, cbdata| {
            let (codes, infos) = &*args;
            let at = codes.as_ptr().cast_mut();
            function(at, codes.len(), infos.as_ptr(), infos.len(), Some(op_done), cbdata)
        })
    }

    fn deregister_events(&self, codes: &[Status], done: Completion<Status>) -> Status {
        upcall!(self.deregister_events, done, Ok(c_codes(codes)), |function, codes, cbdata| {
            function(codes.as_ptr().cast_mut(), codes.len(), Some(op_done), cbdata)
        })
    }

    fn notify_event(&self, code: Status, source: &Proc, range: u8, infos: &[Info], done: Completion<Status>) -> Status {
        let arguments = || Ok((one::<pmix_proc_t>(source)?, Infos::new(infos)?));
        upcall!(self.notify_event, done, arguments(), |function, args, cbdata| {
            let (source, infos) = &*args;
            function(code.0, source.as_ptr(), range, infos.as_ptr(), infos.len(), Some(op_done), cbdata)
        })
    }

    fn query(&self, proc: &Proc, queries: &[Query], done: Completion<(Status, Vec<Info>)>) -> Status {
        let arguments = || Ok((one::<pmix_proc_t>(proc)?, CArray::<pmix_query_t>::new(queries)?));
        upcall!(self.query, done, arguments(), |function, args, cbdata| {
            let (proc, queries) = &*args;
            function(proc.as_ptr(), queries.as_ptr(), queries.len(), Some(infos_done), cbdata)
        })
    }

    fn tool_connected(&self, infos: &[Info], done: Completion<(Status, Option<Proc>)>) -> Status {
        if self.slots().is_some_and(|slots| slots.tool_connected2.is_some()) {
            return upcall!(self.tool_connected2, done, Infos::new(infos), |function, infos, cbdata| {
                function(infos.as_ptr(), infos.len(), Some(tool_done), cbdata)
            });
        }
        upcall!(self.tool_connected, done, Infos::new(infos), |function, infos, cbdata| {
            function(infos.as_ptr(), infos.len(), Some(tool_done), cbdata);
            // The slot has no return value: the answer is its callback.
            Status::SUCCESS.0
        })
    }

    // A process that logs does not wait for the host, since not every host calls back.
    fn log(&self, proc: &Proc, data: &[Info], directives: &[Info], _done: Completion<Status>) -> Status {
        let Some((log, log2)) = self.slots().map(|slots| (slots.log, slots.log2)) else {
            return Status::ERR_NOT_SUPPORTED;
        };
        if log.is_none() && log2.is_none() {
            return Status::ERR_NOT_SUPPORTED;
        }
        let arguments =
            one::<pmix_proc_t>(proc).and_then(|proc| Ok((proc, Infos::new(data)?, Infos::new(directives)?)));
        let args = match arguments {
            Ok(arguments) => Arc::new(arguments),
            Err(status) => return status,
        };
        let number = UNNUMBERED.keep(UpcallArgs(args.clone()));
        let cbdata = to_cbdata(number);
        let (proc, data, directives) = &*args;
        let (data, ndata, directives, ndirs) = (data.as_ptr(), data.len(), directives.as_ptr(), directives.len());
        if let Some(function) = log2 {
            // SAFETY: the host put the function into this slot; its arguments live until it calls back.
            let status = Status(unsafe {
                function(proc.as_ptr(), data, ndata, directives, ndirs, Some(unnumbered_done), cbdata)
            });
            if status != Status::SUCCESS {
                drop(UNNUMBERED.take(number));
                return status;
            }
            return Status::OPERATION_SUCCEEDED;
        }
        if let Some(function) = log {
            // SAFETY: the host put the function into this slot; its arguments live until it calls back.
            unsafe { function(proc.as_ptr(), data, ndata, directives, ndirs, Some(unnumbered_done), cbdata) }
        }
        Status::OPERATION_SUCCEEDED
    }

    fn allocate(&self, proc: &Proc, directive: u8, infos: &[Info], done: Completion<(Status, Vec<Info>)>) -> Status {
        let arguments = || Ok((one::<pmix_proc_t>(proc)?, Infos::new(infos)?));
        upcall!(self.allocate, done, arguments(), |function, args, cbdata| {
            let (proc, infos) = &*args;
            function(proc.as_ptr(), directive, infos.as_ptr(), infos.len(), Some(infos_done), cbdata)
        })
    }

    fn job_control(
        &self,
        proc: &Proc,
        targets: &[Proc],
        directives: &[Info],
        done: Completion<(Status, Vec<Info>)>,
    ) -> Status {
        let arguments = || Ok((one::<pmix_proc_t>(proc)?, Procs::new(targets)?, Infos::new(directives)?));
        upcall!(self.job_control, done, arguments(), |function, args, cbdata| {
            let (proc, targets, infos) = &*args;
            function(
                proc.as_ptr(),
                targets.as_ptr(),
                targets.len(),
                infos.as_ptr(),
                infos.len(),
                Some(infos_done),
                cbdata,
            )
        })
    }

    fn monitor(
        &self,
        proc: &Proc,
        monitor: &Info,
        error: Status,
        directives: &[Info],
        done: Completion<(Status, Vec<Info>)>,
    ) -> Status {
        let arguments = || Ok((one::<pmix_proc_t>(proc)?, one::<pmix_info_t>(monitor)?, Infos::new(directives)?));
        upcall!(self.monitor, done, arguments(), |function, args, cbdata| {
            let (proc, monitor, infos) = &*args;
            function(proc.as_ptr(), monitor.as_ptr(), error.0, infos.as_ptr(), infos.len(), Some(infos_done), cbdata)
        })
    }

    fn get_credential(&self, proc: &Proc, infos: &[Info], done: Completion<(Status, Credential)>) -> Status {
        let arguments = || Ok((one::<pmix_proc_t>(proc)?, Infos::new(infos)?));
        upcall!(self.get_credential, done, arguments(), |function, args, cbdata| {
            let (proc, infos) = &*args;
            function(proc.as_ptr(), infos.as_ptr(), infos.len(), Some(credential_done), cbdata)
        })
    }

    fn validate_credential(
        &self,
        proc: &Proc,
        credential: &[u8],
        infos: &[Info],
        done: Completion<(Status, Vec<Info>)>,
    ) -> Status {
        let arguments = || {
            let credential = one::<pmix_byte_object_t>(&Bytes::copy_of(credential)?)?;
            Ok((one::<pmix_proc_t>(proc)?, credential, Infos::new(infos)?))
        };
        upcall!(self.validate_credential, done, arguments(), |function, args, cbdata| {
            let (proc, credential, infos) = &*args;
            let (directives, count) = (infos.as_ptr(), infos.len());
            function(proc.as_ptr(), credential.as_ptr(), directives, count, Some(validation_done), cbdata)
        })
    }

    fn iof_pull(&self, procs: &[Proc], infos: &[Info], channels: u16, done: Completion<Status>) -> Status {
        let arguments = || Ok((Procs::new(procs)?, Infos::new(infos)?));
        upcall!(self.iof_pull, done, arguments(), |function, args, cbdata| {
            let (procs, infos) = &*args;
            function(procs.as_ptr(), procs.len(), infos.as_ptr(), infos.len(), channels, Some(op_done), cbdata)
        })
    }

    fn push_stdin(
        &self,
        source: &Proc,
        targets: &[Proc],
        infos: &[Info],
        data: Option<&[u8]>,
        done: Completion<Status>,
    ) -> Status {
        let arguments = || {
            let data = data.map(|data| one::<pmix_byte_object_t>(&Bytes::copy_of(data)?)).transpose()?;
            Ok((one::<pmix_proc_t>(source)?, Procs::new(targets)?, Infos::new(infos)?, data))
        };
        upcall!(self.push_stdin, done, arguments(), |function, args, cbdata| {
            let (source, targets, infos, data) = &*args;
            let data = data.as_ref().map_or(ptr::null_mut(), |data| data.as_ptr());
            function(
                source.as_ptr(),
                targets.as_ptr(),
                targets.len(),
                infos.as_ptr(),
                infos.len(),
                data,
                Some(op_done),
                cbdata,
            )
        })
    }

    fn fabric(
        &self,
        proc: &Proc,
        operation: FabricOperation,
        directives: &[Info],
        done: Completion<(Status, Vec<Info>)>,
    ) -> Status {
        let operation = match operation {
            FabricOperation::Request => FABRIC_REQUEST,
            FabricOperation::Update => FABRIC_UPDATE,
        };
        let arguments = || Ok((one::<pmix_proc_t>(proc)?, Infos::new(directives)?));
        upcall!(self.fabric, done, arguments(), |function, args, cbdata| {
            let (proc, infos) = &*args;
            function(proc.as_ptr(), operation, infos.as_ptr(), infos.len(), Some(infos_done), cbdata)
        })
    }

    fn session_control(
        &self,
        proc: &Proc,
        session: u32,
        directives: &[Info],
        done: Completion<(Status, Vec<Info>)>,
    ) -> Status {
        let arguments = || Ok((one::<pmix_proc_t>(proc)?, Infos::new(directives)?));
        upcall!(self.session_control, done, arguments(), |function, args, cbdata| {
            let (proc, infos) = &*args;
            function(proc.as_ptr(), session, infos.as_ptr(), infos.len(), Some(infos_done), cbdata)
        })
    }

    fn resource_block(
        &self,
        proc: &Proc,
        directive: u8,
        block: Option<&CStr>,
        units: &[(u64, u64)],
        infos: &[Info],
        done: Completion<Status>,
    ) -> Status {
        let arguments = || {
            let units = CArray::<pmix_resource_unit_t>::new(units)?;
            Ok((one::<pmix_proc_t>(proc)?, block.map(CStr::to_owned), units, Infos::new(infos)?))
        };
        upcall!(self.resource_block, done, arguments(), |function, args, cbdata| {
            let (proc, block, units, infos) = &*args;
            let block = block.as_ref().map_or(ptr::null(), |block| block.as_ptr());
            let (units, count) = (units.as_ptr(), units.len());
            let (directives, ndirs) = (infos.as_ptr(), infos.len());
            function(proc.as_ptr(), directive, block, units, count, directives, ndirs, Some(op_done), cbdata)
        })
    }

    fn group(
        &self,
        operation: GroupOperation,
        group: &CStr,
        procs: &[Proc],
        infos: &[Info],
        done: Completion<(Status, Vec<Info>)>,
    ) -> Status {
        let operation = match operation {
            GroupOperation::Construct => GROUP_CONSTRUCT,
            GroupOperation::Destruct => GROUP_DESTRUCT,
        };
        let arguments = || Ok((group.to_owned(), Procs::new(procs)?, Infos::new(infos)?));
        upcall!(self.group, done, arguments(), |function, args, cbdata| {
            let (group, procs, infos) = &*args;
            let (name, directives, count) = (group.as_ptr().cast_mut(), infos.as_ptr(), infos.len());
            function(operation, name, procs.as_ptr(), procs.len(), directives, count, Some(infos_done), cbdata)
        })
    }
}

/// Ends an upcall: frees its arguments, then gives the server the answer.
fn answer<T: Into<pmix_server::UpcallResult>>(cbdata: *mut c_void, answer: T) {
    answer_and_release(cbdata, answer, None, ptr::null_mut());
}

/// The same for an answer that was copied from the host's memory, which the host then is told to release.
fn answer_and_release<T: Into<pmix_server::UpcallResult>>(
    cbdata: *mut c_void,
    answer: T,
    release_fn: Option<pmix_release_cbfunc_t>,
    release_cbdata: *mut c_void,
) {
    let number = from_cbdata(cbdata);
    drop(ARGUMENTS.take(number));
    let callback = Callback::new(release_fn, release_cbdata);
    let release = callback.is_some().then(|| Box::new(move || callback.release()) as Box<dyn FnOnce() + Send>);
    Completion::<T>::by_id(number as u64).complete_then(answer, release);
}

unsafe extern "C" fn op_done(status: pmix_status_t, cbdata: *mut c_void) {
    guard_call("a host's answer", || answer(cbdata, Status(status)));
}

unsafe extern "C" fn unnumbered_done(_status: pmix_status_t, cbdata: *mut c_void) {
    guard_call("a host's answer to a log or a connection", || drop(UNNUMBERED.take(from_cbdata(cbdata))));
}

/// Memory of the host. The host is told when the library does not need it any more.
struct Lent {
    start: *const u8,
    len: usize,
    callback: Callback<pmix_release_cbfunc_t>,
}

// SAFETY: the host does not write to the memory until its release function is called, which the C interface allows on any thread.
unsafe impl Send for Lent {}
// SAFETY: as for Send; shared references only read the memory.
unsafe impl Sync for Lent {}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: the host's data stays until its release function is called, which is when this is dropped.
        unsafe { std::slice::from_raw_parts(self.start, self.len) }
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        self.callback.release();
    }
}

unsafe extern "C" fn modex_done(
    status: pmix_status_t,
    data: *const c_char,
    ndata: usize,
    cbdata: *mut c_void,
    release_fn: Option<pmix_release_cbfunc_t>,
    release_cbdata: *mut c_void,
) {
    guard_call("a host's answer to a fence or direct modex", || {
        // SAFETY: `data` is NULL or has `ndata` bytes, which the host keeps until its release function is called.
        let bytes = unsafe { array::bytes(data, ndata) };
        let callback = Callback::new(release_fn, release_cbdata);
        let data = match callback.is_some() {
            true => Ok(Bytes::external(Lent { start: bytes.as_ptr(), len: bytes.len(), callback })),
            // A host without a release function may free the data when this returns.
            false => fallible_alloc::copy(bytes).map(Bytes::from),
        };
        answer(cbdata, combined(status, data));
    });
}

unsafe extern "C" fn lookup_done(status: pmix_status_t, data: *mut pmix_pdata_t, ndata: usize, cbdata: *mut c_void) {
    guard_call("a host's answer to a lookup", || {
        // SAFETY: `data` is NULL or an array of `ndata` entries, which the host keeps until this returns.
        let found: Result<Vec<Pdata>> = unsafe { read_or_none(data, ndata) };
        answer(cbdata, combined(status, found));
    });
}

unsafe extern "C" fn spawn_done(status: pmix_status_t, nspace: *mut c_char, cbdata: *mut c_void) {
    let mut own: Option<Task> = None;
    guard_call("a host's answer to a spawn", || {
        let name = if nspace.is_null() {
            Ok(None)
        } else {
            // SAFETY: not NULL, hence a namespace, which the host keeps until this returns.
            unsafe { crate::convert::text::nspace(nspace) }.map(Some)
        };
        let number = from_cbdata(cbdata);
        drop(ARGUMENTS.take(number));
        own = Completion::by_id(number as u64).complete_and_leave(combined(status, name));
    });
    // Outside the call: this callback may wait for others.
    if let Some(callback) = own {
        guard("the callback of a host's own spawn", callback);
    }
}

unsafe extern "C" fn tool_done(status: pmix_status_t, proc: *mut pmix_proc_t, cbdata: *mut c_void) {
    guard_call("a host's answer to a tool", || {
        let read = |proc: *mut pmix_proc_t| {
            // SAFETY: not NULL, hence a process, which the host keeps until this returns.
            unsafe { pmix_proc_t::read(proc) }
        };
        let name = (!proc.is_null()).then(|| read(proc)).transpose();
        answer(cbdata, combined(status, name));
    });
}

unsafe extern "C" fn infos_done(
    status: pmix_status_t,
    info: *mut pmix_info_t,
    ninfo: usize,
    cbdata: *mut c_void,
    release_fn: Option<pmix_release_cbfunc_t>,
    release_cbdata: *mut c_void,
) {
    guard_call("a host's answer", || {
        // SAFETY: `info` is NULL or an array of `ninfo` infos, which the host keeps until its release function is called.
        let infos: Result<Vec<Info>> = unsafe { read_or_none(info, ninfo) };
        answer_and_release(cbdata, combined(status, infos), release_fn, release_cbdata);
    });
}

unsafe extern "C" fn credential_done(
    status: pmix_status_t,
    credential: *mut pmix_byte_object_t,
    info: *mut pmix_info_t,
    ninfo: usize,
    cbdata: *mut c_void,
) {
    guard_call("a host's answer", || {
        let read = || {
            // SAFETY: `credential` is NULL or a byte object, which the host keeps until this returns.
            let credential = unsafe { read_or_none(credential, 1) }?.pop().unwrap_or_default();
            // SAFETY: `info` is NULL or an array of `ninfo` infos, which the host keeps until this returns.
            Ok((credential.into_vec()?, unsafe { read_or_none(info, ninfo) }?))
        };
        answer(cbdata, combined(status, read()));
    });
}

unsafe extern "C" fn validation_done(status: pmix_status_t, info: *mut pmix_info_t, ninfo: usize, cbdata: *mut c_void) {
    guard_call("a host's answer", || {
        // SAFETY: `info` is NULL or an array of `ninfo` infos, which the host keeps until this returns.
        let infos: Result<Vec<Info>> = unsafe { read_or_none(info, ninfo) };
        answer(cbdata, combined(status, infos));
    });
}

/// Reads an array, which may be NULL whatever its count.
///
/// # Safety
/// As [`array::read`].
unsafe fn read_or_none<T: Object>(items: *const T, count: usize) -> Result<Vec<T::Model>> {
    // SAFETY: not NULL, hence an array of `count` structures, by the caller's promise.
    if items.is_null() { Ok(Vec::new()) } else { unsafe { array::read(items, count) } }
}

/// The host's status with what it answered, or why that could not be read.
fn combined<T: Default>(status: pmix_status_t, answered: Result<T>) -> (Status, T) {
    match answered {
        Ok(answered) => (Status(status), answered),
        Err(failure) => (failure, T::default()),
    }
}
