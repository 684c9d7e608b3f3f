//! The functions of PMI-1 (`pmi.h`).

use std::ffi::{c_char, c_int, c_void};

use crate::c::{entered, give, give_numbers, give_text, text};
use crate::job::{self, Error, KEY_LEN_MAX, NAME_LEN_MAX, VALUE_LEN_MAX, current};

/// Connects; says whether another job has started this one.
///
/// # Safety
/// As the crate says of pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMI_Init(spawned: *mut c_int) -> c_int {
    entered(|| {
        let job = job::begin()?;
        // SAFETY: the crate's rule for pointers.
        unsafe { give(spawned, u32::from(job.is_spawned())) }
    })
}

/// Whether this process is connected.
///
/// # Safety
/// As the crate says of pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMI_Initialized(initialized: *mut c_int) -> c_int {
    entered(|| {
        // SAFETY: the crate's rule for pointers.
        unsafe { give(initialized, u32::from(job::has_begun())) }
    })
}

/// Ends the connection.
///
/// # Safety
/// As the crate says of pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMI_Finalize() -> c_int {
    entered(job::end)
}

/// The number of ranks.
///
/// # Safety
/// As the crate says of pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMI_Get_size(size: *mut c_int) -> c_int {
    entered(|| {
        // SAFETY: the crate's rule for pointers.
        unsafe { give(size, current()?.size()?) }
    })
}

/// The caller's rank.
///
/// # Safety
/// As the crate says of pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMI_Get_rank(rank: *mut c_int) -> c_int {
    entered(|| {
        // SAFETY: the crate's rule for pointers.
        unsafe { give(rank, current()?.rank()) }
    })
}

/// How many processes there may be in all.
///
/// # Safety
/// As the crate says of pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMI_Get_universe_size(size: *mut c_int) -> c_int {
    entered(|| {
        // SAFETY: the crate's rule for pointers.
        unsafe { give(size, current()?.universe_size()?) }
    })
}

/// The number of the caller's application.
///
/// # Safety
/// As the crate says of pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMI_Get_appnum(appnum: *mut c_int) -> c_int {
    entered(|| {
        // SAFETY: the crate's rule for pointers.
        unsafe { give(appnum, current()?.app_number()) }
    })
}

/// Publishes a port.
///
/// # Safety
/// As the crate says of pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMI_Publish_name(service: *const c_char, port: *const c_char) -> c_int {
    entered(|| {
        // SAFETY: the crate's rule for pointers.
        unsafe { current()?.publish(text(service)?, text(port)?) }
    })
}

/// Takes a published port away.
///
/// # Safety
/// As the crate says of pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMI_Unpublish_name(service: *const c_char) -> c_int {
    entered(|| {
        // SAFETY: the crate's rule for pointers.
        unsafe { current()?.unpublish(text(service)?) }
    })
}

/// The port of a service; there is room for 256 bytes.
///
/// # Safety
/// As the crate says of pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMI_Lookup_name(service: *const c_char, port: *mut c_char) -> c_int {
    entered(|| {
        // SAFETY: the crate's rule for pointers.
        unsafe { give_text(port, NAME_LEN_MAX as c_int, &current()?.look_up(text(service)?)?) }
    })
}

/// The job's name.
///
/// # Safety
/// As the crate says of pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMI_Get_id(id: *mut c_char, length: c_int) -> c_int {
    entered(|| {
        // SAFETY: the crate's rule for pointers.
        unsafe { give_text(id, length, current()?.name().as_bytes()) }
    })
}

/// The job's name.
///
/// # Safety
/// As the crate says of pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMI_Get_kvs_domain_id(id: *mut c_char, length: c_int) -> c_int {
    entered(|| {
        // SAFETY: the crate's rule for pointers.
        unsafe { give_text(id, length, current()?.name().as_bytes()) }
    })
}

/// The room that a job's name needs.
///
/// # Safety
/// As the crate says of pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMI_Get_id_length_max(length: *mut c_int) -> c_int {
    entered(|| {
        // SAFETY: the crate's rule for pointers.
        unsafe { give(length, NAME_LEN_MAX as u32) }
    })
}

/// Waits for all ranks, and brings what they have committed.
///
/// # Safety
/// As the crate says of pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMI_Barrier() -> c_int {
    entered(|| current()?.fence())
}

/// The number of ranks on this node.
///
/// # Safety
/// As the crate says of pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMI_Get_clique_size(size: *mut c_int) -> c_int {
    entered(|| {
        // SAFETY: the crate's rule for pointers.
        unsafe { give(size, current()?.peers()?.len() as u32) }
    })
}

/// The ranks on this node.
///
/// # Safety
/// As the crate says of pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMI_Get_clique_ranks(ranks: *mut c_int, length: c_int) -> c_int {
    entered(|| {
        // SAFETY: the crate's rule for pointers.
        unsafe { give_numbers(ranks, length, &current()?.peers()?) }
    })
}

/// Ends the job, and this process.
///
/// # Safety
/// As the crate says of pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMI_Abort(status: c_int, message: *const c_char) -> c_int {
    entered(|| {
        // SAFETY: the crate's rule for pointers.
        let message = unsafe { text(message) }.ok();
        match current() {
            Ok(job) => job.abort(status, message),
            // Nobody is told of it, so that the status must tell.
            Err(_) => job::leave(if status & 0xff == 0 { 1 } else { status }),
        }
    })
}

/// The name of the job's key-value space.
///
/// # Safety
/// As the crate says of pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMI_KVS_Get_my_name(name: *mut c_char, length: c_int) -> c_int {
    entered(|| {
        // SAFETY: the crate's rule for pointers.
        unsafe { give_text(name, length, current()?.name().as_bytes()) }
    })
}

/// The room that its name needs.
///
/// # Safety
/// As the crate says of pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMI_KVS_Get_name_length_max(length: *mut c_int) -> c_int {
    entered(|| {
        // SAFETY: the crate's rule for pointers.
        unsafe { give(length, NAME_LEN_MAX as u32) }
    })
}

/// The room that a key needs.
///
/// # Safety
/// As the crate says of pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMI_KVS_Get_key_length_max(length: *mut c_int) -> c_int {
    entered(|| {
        // SAFETY: the crate's rule for pointers.
        unsafe { give(length, KEY_LEN_MAX as u32) }
    })
}

/// The room that a value needs.
///
/// # Safety
/// As the crate says of pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMI_KVS_Get_value_length_max(length: *mut c_int) -> c_int {
    entered(|| {
        // SAFETY: the crate's rule for pointers.
        unsafe { give(length, VALUE_LEN_MAX as u32) }
    })
}

/// Refused: a job has one key-value space.
///
/// # Safety
/// As the crate says of pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMI_KVS_Create(_name: *mut c_char, _length: c_int) -> c_int {
    entered(|| Err(Error::Fail))
}

/// Refused.
///
/// # Safety
/// As the crate says of pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMI_KVS_Destroy(_name: *const c_char) -> c_int {
    entered(|| Err(Error::Fail))
}

/// Stores a value for the other ranks.
///
/// # Safety
/// As the crate says of pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMI_KVS_Put(space: *const c_char, key: *const c_char, value: *const c_char) -> c_int {
    entered(|| {
        // SAFETY: the crate's rule for pointers.
        let (space, key, value) = unsafe { (text(space)?, text(key)?, text(value)?) };
        let job = current()?;
        job.check_space(space)?;
        job.put(key, value)
    })
}

/// Makes what was put visible to the others, by the next barrier.
///
/// # Safety
/// As the crate says of pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMI_KVS_Commit(space: *const c_char) -> c_int {
    entered(|| {
        // SAFETY: the crate's rule for pointers.
        let space = unsafe { text(space) }?;
        let job = current()?;
        job.check_space(space)?;
        job.commit()
    })
}

/// What a rank has put.
///
/// # Safety
/// As the crate says of pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMI_KVS_Get(
    space: *const c_char,
    key: *const c_char,
    value: *mut c_char,
    length: c_int,
) -> c_int {
    entered(|| {
        // SAFETY: the crate's rule for pointers.
        let (space, key) = unsafe { (text(space)?, text(key)?) };
        let job = current()?;
        job.check_space(space)?;
        let found = job.get(None, key)?;
        // SAFETY: the crate's rule for pointers.
        unsafe { give_text(value, length, &found) }
    })
}

/// Refused: values are asked for by their keys.
///
/// # Safety
/// As the crate says of pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMI_KVS_Iter_first(
    _space: *const c_char,
    _key: *mut c_char,
    _key_len: c_int,
    _value: *mut c_char,
    _value_len: c_int,
) -> c_int {
    entered(|| Err(Error::Fail))
}

/// Refused.
///
/// # Safety
/// As the crate says of pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMI_KVS_Iter_next(
    _space: *const c_char,
    _key: *mut c_char,
    _key_len: c_int,
    _value: *mut c_char,
    _value_len: c_int,
) -> c_int {
    entered(|| Err(Error::Fail))
}

/// Refused: no processes are started.
///
/// # Safety
/// Nothing is read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMI_Spawn_multiple(
    _count: c_int,
    _commands: *const *const c_char,
    _argvs: *const *const *const c_char,
    _maxprocs: *const c_int,
    _info_sizes: *const c_int,
    _infos: *const *const c_void,
    _preput_size: c_int,
    _preput: *const c_void,
    _errors: *mut c_int,
) -> c_int {
    entered(|| Err(Error::Fail))
}

/// Refused: the launcher reads its own options.
///
/// # Safety
/// As the crate says of pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMI_Parse_option(
    _count: c_int,
    _args: *mut *mut c_char,
    _parsed: *mut c_int,
    _pairs: *mut *mut c_void,
    _size: *mut c_int,
) -> c_int {
    entered(|| Err(Error::Fail))
}

/// Refused, likewise.
///
/// # Safety
/// As the crate says of pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMI_Args_to_keyval(
    _count: *mut c_int,
    _args: *mut c_void,
    _pairs: *mut *mut c_void,
    _size: *mut c_int,
) -> c_int {
    entered(|| Err(Error::Fail))
}

/// Refused, likewise: none were made.
///
/// # Safety
/// As the crate says of pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMI_Free_keyvals(_pairs: *mut c_void, _size: c_int) -> c_int {
    entered(|| Err(Error::Fail))
}

/// Refused, likewise.
///
/// # Safety
/// As the crate says of pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMI_Get_options(_text: *mut c_char, _length: *mut c_int) -> c_int {
    entered(|| Err(Error::Fail))
}
