//! The functions of PMI-2 (`pmi2.h`).

use std::ffi::{CStr, c_char, c_int, c_void};

use crate::c::{entered, give, give_text, text};
use crate::job::{self, Error, Job, Result, current};

/// What the job has under a name; none if there is no such attribute.
fn attribute(job: &Job, name: &CStr) -> Result<Option<Vec<u8>>> {
    match name.to_bytes() {
        b"PMI_process_mapping" => job.get(None, name).map(Some),
        b"universeSize" => Ok(Some(job.universe_size()?.to_string().into_bytes())),
        _ => Ok(None),
    }
}

/// Connects; says whether another job has started this one, and the caller's place in its own.
///
/// # Safety
/// As the crate says of pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMI2_Init(
    spawned: *mut c_int,
    size: *mut c_int,
    rank: *mut c_int,
    appnum: *mut c_int,
) -> c_int {
    entered(|| {
        let job = job::begin()?;
        // SAFETY: the crate's rule for pointers.
        unsafe {
            give(spawned, u32::from(job.is_spawned()))?;
            give(size, job.size()?)?;
            give(rank, job.rank())?;
            give(appnum, job.app_number())
        }
    })
}

/// Ends the connection.
///
/// # Safety
/// As the crate says of pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMI2_Finalize() -> c_int {
    entered(job::end)
}

/// Whether this process is connected: 1 or 0.
#[unsafe(no_mangle)]
pub extern "C" fn PMI2_Initialized() -> c_int {
    c_int::from(job::has_begun())
}

/// Ends this process, and with a flag the job.
///
/// # Safety
/// As the crate says of pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMI2_Abort(flag: c_int, message: *const c_char) -> c_int {
    entered(|| {
        // SAFETY: the crate's rule for pointers.
        let message = unsafe { text(message) }.ok();
        match current() {
            Ok(job) if flag != 0 => job.abort(1, message),
            _ => job::leave(1),
        }
    })
}

/// Refused: no processes are started.
///
/// # Safety
/// Nothing is read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMI2_Job_Spawn(
    _count: c_int,
    _commands: *const *const c_char,
    _argcs: *const c_int,
    _argvs: *const *const *const c_char,
    _maxprocs: *const c_int,
    _info_sizes: *const c_int,
    _infos: *const *const c_void,
    _preput_size: c_int,
    _preput: *const *const c_void,
    _job: *mut c_char,
    _job_len: c_int,
    _errors: *mut c_int,
) -> c_int {
    entered(|| Err(Error::Fail))
}

/// The job's name.
///
/// # Safety
/// As the crate says of pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMI2_Job_GetId(id: *mut c_char, length: c_int) -> c_int {
    entered(|| {
        // SAFETY: the crate's rule for pointers.
        unsafe { give_text(id, length, current()?.name().as_bytes()) }
    })
}

/// The caller's rank.
///
/// # Safety
/// As the crate says of pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMI2_Job_GetRank(rank: *mut c_int) -> c_int {
    entered(|| {
        // SAFETY: the crate's rule for pointers.
        unsafe { give(rank, current()?.rank()) }
    })
}

/// The number of ranks on this node.
///
/// # Safety
/// As the crate says of pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMI2_Info_GetSize(size: *mut c_int) -> c_int {
    entered(|| {
        // SAFETY: the crate's rule for pointers.
        unsafe { give(size, current()?.peers()?.len() as u32) }
    })
}

/// Refused: jobs are not connected.
///
/// # Safety
/// As the crate says of pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMI2_Job_Connect(_job: *const c_char, _connection: *mut c_void) -> c_int {
    entered(|| Err(Error::Fail))
}

/// Refused, likewise.
///
/// # Safety
/// As the crate says of pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMI2_Job_Disconnect(_job: *const c_char) -> c_int {
    entered(|| Err(Error::Fail))
}

/// Stores a value for the other ranks.
///
/// # Safety
/// As the crate says of pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMI2_KVS_Put(key: *const c_char, value: *const c_char) -> c_int {
    entered(|| {
        // SAFETY: the crate's rule for pointers.
        unsafe { current()?.put(text(key)?, text(value)?) }
    })
}

/// Waits for all ranks, and brings what they have put.
///
/// # Safety
/// As the crate says of pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMI2_KVS_Fence() -> c_int {
    entered(|| {
        let job = current()?;
        job.commit()?;
        job.fence()
    })
}

/// What a rank, or any if it is negative, has put. Without a job's name, of the own one.
///
/// # Safety
/// As the crate says of pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMI2_KVS_Get(
    space: *const c_char,
    rank: c_int,
    key: *const c_char,
    value: *mut c_char,
    max: c_int,
    len: *mut c_int,
) -> c_int {
    entered(|| {
        let job = current()?;
        if !space.is_null() {
            // SAFETY: the crate's rule for pointers.
            job.check_space(unsafe { text(space) }?)?;
        }
        // SAFETY: the crate's rule for pointers.
        let found = job.get(u32::try_from(rank).ok(), unsafe { text(key) }?)?;
        // SAFETY: the crate's rule for pointers.
        unsafe {
            give_text(value, max, &found)?;
            give(len, found.len() as u32)
        }
    })
}

/// Refused: nodes have no attributes.
///
/// # Safety
/// As the crate says of pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMI2_Info_GetNodeAttr(
    _name: *const c_char,
    _value: *mut c_char,
    _len: c_int,
    _found: *mut c_int,
    _waits: c_int,
) -> c_int {
    entered(|| Err(Error::Fail))
}

/// Refused, likewise.
///
/// # Safety
/// As the crate says of pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMI2_Info_GetNodeAttrIntArray(
    _name: *const c_char,
    _array: *mut c_int,
    _len: c_int,
    _out_len: *mut c_int,
    _found: *mut c_int,
) -> c_int {
    entered(|| Err(Error::Fail))
}

/// Refused, likewise.
///
/// # Safety
/// As the crate says of pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMI2_Info_PutNodeAttr(_name: *const c_char, _value: *const c_char) -> c_int {
    entered(|| Err(Error::Fail))
}

/// An attribute of the job: `PMI_process_mapping` or `universeSize`.
///
/// # Safety
/// As the crate says of pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMI2_Info_GetJobAttr(
    name: *const c_char,
    value: *mut c_char,
    len: c_int,
    found: *mut c_int,
) -> c_int {
    entered(|| {
        // SAFETY: the crate's rule for pointers.
        let attribute = attribute(&current()?, unsafe { text(name) }?)?;
        if let Some(text) = &attribute {
            // SAFETY: the crate's rule for pointers.
            unsafe { give_text(value, len, text) }?;
        }
        // SAFETY: the crate's rule for pointers.
        unsafe { give(found, u32::from(attribute.is_some())) }
    })
}

/// There are no arrays among the job's attributes.
///
/// # Safety
/// As the crate says of pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMI2_Info_GetJobAttrIntArray(
    _name: *const c_char,
    _array: *mut c_int,
    _len: c_int,
    _out_len: *mut c_int,
    found: *mut c_int,
) -> c_int {
    entered(|| {
        // SAFETY: the crate's rule for pointers.
        unsafe { give(found, 0) }
    })
}

/// Publishes a port.
///
/// # Safety
/// As the crate says of pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMI2_Nameserv_publish(
    service: *const c_char,
    _info: *const c_void,
    port: *const c_char,
) -> c_int {
    entered(|| {
        // SAFETY: the crate's rule for pointers.
        unsafe { current()?.publish(text(service)?, text(port)?) }
    })
}

/// The port of a service.
///
/// # Safety
/// As the crate says of pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMI2_Nameserv_lookup(
    service: *const c_char,
    _info: *const c_void,
    port: *mut c_char,
    len: c_int,
) -> c_int {
    entered(|| {
        // SAFETY: the crate's rule for pointers.
        unsafe { give_text(port, len, &current()?.look_up(text(service)?)?) }
    })
}

/// Takes a published port away.
///
/// # Safety
/// As the crate says of pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMI2_Nameserv_unpublish(service: *const c_char, _info: *const c_void) -> c_int {
    entered(|| {
        // SAFETY: the crate's rule for pointers.
        unsafe { current()?.unpublish(text(service)?) }
    })
}
