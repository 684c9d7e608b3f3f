//! `PMIx_Get` and `PMIx_Get_nb`: the arguments of C code, and where its values go.
//!
//! The client finds the value. This module translates the forms in which C code has its directives and wants the value. Copies and
//! values in place have functions of their own: in one function for both, the compiler keeps nothing in registers.

use std::ffi::c_char;
use std::ptr;

use pmix_client::{Client, Directive, GetFlags, GetRequest, Inside, NspaceRef, Receiver, process};
use pmix_dstore::codec::ValueRef;
use pmix_dstore::model::{DataType, Info, Rank, Result, Status};
use pmix_dstore::segment::{FastResult, FastValue};

use super::writable;
use crate::convert::object::Object;
use crate::convert::text;
use crate::convert::value::{self, Plain};
use crate::memory::{copy_bytes, copy_text, free};
use crate::pinned::Pinned;
use crate::types::*;
use crate::watch;

/// An initialised info of C code, which stays as it is for as long as it is borrowed.
#[repr(transparent)]
pub(super) struct CInfo(pmix_info_t);

/// The key of an info: all bytes of its array, of which the first NUL ends the text.
type KeyBytes = [u8; size_of::<pmix_key_t>()];

impl CInfo {
    /// The infos of an array; none for NULL.
    ///
    /// # Safety
    /// `info` is NULL or an array of `ninfo` initialised infos, which stay as they are for `'a`.
    #[inline(always)]
    unsafe fn slice<'a>(info: *const pmix_info_t, ninfo: usize) -> &'a [CInfo] {
        if info.is_null() {
            return &[];
        }
        // SAFETY: not NULL, hence an array of `ninfo` infos by the caller's promise; `CInfo` has the layout of an info.
        unsafe { std::slice::from_raw_parts(info.cast(), ninfo) }
    }

    #[inline(always)]
    fn key_bytes(&self) -> &KeyBytes {
        // SAFETY: a key is an array of as many characters, and each byte of an initialised info may be read.
        unsafe { &*(&raw const self.0.key).cast() }
    }

    #[inline(always)]
    fn data_type(&self) -> DataType {
        DataType(self.0.value.type_)
    }
}

impl Directive for CInfo {
    #[inline(always)]
    fn is<const N: usize>(&self, name: &'static [u8; N]) -> bool {
        self.key_bytes().starts_with(name)
    }

    #[inline(always)]
    fn as_bool(&self) -> Option<bool> {
        // SAFETY: the type says that the union holds a flag, which is one byte.
        (self.data_type() == DataType::BOOL).then(|| unsafe { self.0.value.data.bytes[0] } != 0)
    }

    #[inline(always)]
    fn as_u32(&self) -> Option<u32> {
        // SAFETY: the type says that the union holds a number of four bytes.
        (self.data_type() == DataType::UINT32).then(|| unsafe { (&raw const self.0.value.data).cast::<u32>().read() })
    }

    #[inline(always)]
    fn as_text(&self) -> Option<&[u8]> {
        if self.data_type() != DataType::STRING {
            return None;
        }
        // SAFETY: the type says that the union holds NULL or a C string.
        unsafe { text::string(self.0.value.data.string) }.map(|text| text.to_bytes())
    }

    fn key(&self) -> Result<&[u8]> {
        let key = self.key_bytes();
        key.iter().position(|byte| *byte == 0).map(|len| &key[..len]).ok_or(Status::ERR_BAD_PARAM)
    }

    fn flags(&self) -> u32 {
        self.0.flags
    }

    fn value(&self) -> Option<ValueRef<'_>> {
        // SAFETY: the value of an initialised info, which stays as it is while this is borrowed.
        unsafe { value::borrow(&raw const self.0.value) }
    }

    fn to_info(&self) -> Result<Info> {
        // SAFETY: an initialised info, as all `CInfo` are.
        unsafe { pmix_info_t::read(&raw const self.0) }
    }
}

/// The request that the arguments of C code stand for.
///
/// # Errors
/// `BAD_PARAM` for a key that is too long.
///
/// # Safety
/// The pointer rules of the crate for the arguments of `PMIx_Get`, for `'a`.
#[inline(always)]
pub(super) unsafe fn request<'a>(
    proc: *const pmix_proc_t,
    key: *const c_char,
    info: *const pmix_info_t,
    ninfo: usize,
) -> Result<GetRequest<'a, CInfo>> {
    // SAFETY: not NULL, hence readable to its NUL or to the capacity of a key for `'a`.
    let key = if key.is_null() { None } else { Some(unsafe { text::key_text(key) }?) };
    let (nspace, rank) = if proc.is_null() {
        (NspaceRef::Own, Rank::UNDEF)
    } else {
        // SAFETY: not NULL, hence a process for `'a`; a namespace is an array of as many characters.
        unsafe { (NspaceRef::Buffer(&*(&raw const (*proc).nspace).cast()), Rank((*proc).rank)) }
    };
    // SAFETY: `info` is NULL or an array of `ninfo` infos for `'a`.
    let directives = unsafe { CInfo::slice(info, ninfo) };
    Ok(GetRequest { nspace, rank, key, directives })
}

/// `PMIx_Get`. On a thread that has a token it takes no lock, if the client has the value in shared memory.
///
/// # Safety
/// The pointer rules of the crate for the arguments of `PMIx_Get`.
#[inline(always)]
pub(super) unsafe fn get(
    proc: *const pmix_proc_t,
    key: *const c_char,
    (info, ninfo): (*const pmix_info_t, usize),
    val: *mut *mut pmix_value_t,
) -> Status {
    if watch::is_on() {
        // SAFETY: these are the caller's arguments of `PMIx_Get`.
        return unsafe { get_watched(proc, key, (info, ninfo), val) };
    }
    let found = process::with_pinned(|client, pin| {
        // Calls with a NULL go to `get_by_any_thread`, so that the code below has no branches for them.
        if proc.is_null() || key.is_null() || val.is_null() {
            return None;
        }
        // SAFETY: these are the caller's arguments of `PMIx_Get`, which stay until it returns.
        let request = unsafe { request(proc, key, info, ninfo) }.ok()?;
        Some(client.get_into(Some(pin), &request, Output { val }))
    });
    match found {
        Some(status) => status,
        // SAFETY: these are the caller's arguments of `PMIx_Get`.
        None => unsafe { get_by_any_thread(proc, key, (info, ninfo), val) },
    }
}

/// `PMIx_Get` for any arguments and on any thread. The call may be the thread's first one or be made within another call, and the
/// process may not be initialised.
///
/// # Safety
/// As [`get`].
#[cold]
#[inline(never)]
unsafe fn get_by_any_thread(
    proc: *const pmix_proc_t,
    key: *const c_char,
    (info, ninfo): (*const pmix_info_t, usize),
    val: *mut *mut pmix_value_t,
) -> Status {
    let _inside = Inside::enter();
    let found = process::with_current(|client, pin| {
        let val = writable(val)?;
        // SAFETY: these are the caller's arguments of `PMIx_Get`, which stay until it returns.
        let request = unsafe { request(proc, key, info, ninfo)? };
        Ok(if watch::is_on() {
            client.get_with_source(&request, Output { val })
        } else {
            client.get_into(pin, &request, Output { val })
        })
    });
    found.unwrap_or(Err(Status::ERR_INIT)).unwrap_or_else(|status| status)
}

/// `PMIx_Get` of a process whose calls are watched. It takes the slow path, which knows where it finds the value.
///
/// # Safety
/// As [`get`].
#[cold]
#[inline(never)]
unsafe fn get_watched(
    proc: *const pmix_proc_t,
    key: *const c_char,
    (info, ninfo): (*const pmix_info_t, usize),
    val: *mut *mut pmix_value_t,
) -> Status {
    watch::begin(|line| {
        // SAFETY: the caller's arguments of `PMIx_Get`.
        unsafe {
            line.add("", proc);
            line.add("", key);
            if ninfo > 0 {
                line.add("", info);
                line.add("", ninfo);
            }
        }
    });
    // SAFETY: these are the caller's arguments of `PMIx_Get`.
    let status = unsafe { get_by_any_thread(proc, key, (info, ninfo), val) };
    // SAFETY: NULL or a key of the caller's.
    let key = if key.is_null() { None } else { unsafe { text::key_text(key) }.ok() };
    let proc = if proc.is_null() {
        (None, Rank::UNDEF)
    } else {
        // SAFETY: a process of the caller's; its namespace is an array of as many characters.
        let (nspace, rank) =
            unsafe { (&*(&raw const (*proc).nspace).cast::<[u8; size_of::<pmix_nspace_t>()]>(), (*proc).rank) };
        let end = nspace.iter().position(|byte| *byte == 0).unwrap_or(nspace.len());
        (Some(&nspace[..end]).filter(|name| !name.is_empty()), Rank(rank))
    };
    watch::end_get(proc, status, key);
    status
}

/// Where C code wants a value: in memory that it frees, in its own, or in the library's.
///
/// It is made of an argument of `PMIx_Get` that is not NULL, so the place may be written until `PMIx_Get` returns. Where the
/// directives ask for static values, the caller has put there NULL or the address of a value that may be written.
#[derive(Clone, Copy)]
struct Output {
    /// The caller's place for a pointer.
    val: *mut *mut pmix_value_t,
}

impl Receiver for Output {
    #[inline(always)]
    fn prepare(self, form: GetFlags) -> Result<()> {
        if form.static_values() {
            // SAFETY: the caller has put a pointer there.
            return writable(unsafe { *self.val }).map(drop);
        }
        // As in the stock library, since callers look at the pointer as well as at the status.
        // SAFETY: the caller's place for a pointer.
        unsafe { *self.val = ptr::null_mut() };
        Ok(())
    }

    #[inline(always)]
    fn take_plain(self, client: &Client, value: FastValue<'_>, form: GetFlags) -> Option<Status> {
        if form.is_copy() {
            self.copy(value)
        } else if form.pointer_values() {
            self.place(client, value, form)
        } else {
            self.fill(value)
        }
    }

    fn take(self, client: &Client, value: ValueRef<'_>, form: GetFlags) -> Result<()> {
        let pinned = match form.pointer_values() {
            true => Some(client.attached::<Pinned>().ok_or(Status::ERROR)?),
            false => None,
        };
        // SAFETY: the caller's place for a pointer; for static values `prepare` has seen that it holds one, to a place for a value.
        unsafe {
            match (pinned, form.static_values()) {
                (Some(pinned), false) => *self.val = pinned.pointer_to(client, value)?,
                (Some(pinned), true) => pinned.fill(client, value, *self.val)?,
                (None, false) => *self.val = value::allocate_ref(value)?,
                (None, true) => value::write_ref(value, *self.val)?,
            }
        }
        Ok(())
    }
}

impl Output {
    /// Gives the caller a copy.
    #[inline(always)]
    fn copy(self, value: FastValue<'_>) -> Option<Status> {
        let Ok(plain) = copied(value)? else { return Some(Status::ERR_NOMEM) };
        let status = self.allocate(plain);
        if status != Status::SUCCESS && !matches!(value.result(), FastResult::Number { .. }) {
            // SAFETY: of a value that is no number, `copied` has allocated the data with `malloc`; no other code has their address.
            unsafe { free(ptr::with_exposed_provenance_mut::<u8>(plain.words[0] as usize)) };
        }
        Some(status)
    }

    /// Fills the caller's storage with a copy, of which the caller frees the data.
    #[inline(always)]
    fn fill(self, value: FastValue<'_>) -> Option<Status> {
        let Ok(plain) = copied(value)? else { return Some(Status::ERR_NOMEM) };
        // SAFETY: `prepare` has seen that the caller's place holds a pointer, to a place for a value.
        unsafe { (*self.val).write(plain.to_c()) };
        Some(Status::SUCCESS)
    }

    #[inline(always)]
    fn allocate(self, plain: Plain) -> Status {
        let Some(at) = value::allocate(plain) else { return Status::ERR_NOMEM };
        // SAFETY: the caller's place for a pointer.
        unsafe { *self.val = at };
        Status::SUCCESS
    }

    /// Gives the caller a value whose data stay in the segment, in its own storage or the library's.
    #[inline(always)]
    fn place(self, client: &Client, value: FastValue<'_>, form: GetFlags) -> Option<Status> {
        let plain = match value.result() {
            FastResult::Number { ty, bits } => Plain::number(ty, bits),
            FastResult::Text(text) if text.last() == Some(&0) => Plain::text(text),
            FastResult::Bytes { ty, bytes } if !bytes.is_empty() => Plain::bytes(ty, bytes),
            _ => return None,
        };
        if form.static_values() {
            // SAFETY: `prepare` has seen that the caller's place holds a pointer, to a place for a value.
            unsafe { (*self.val).write(plain.to_c()) };
        } else {
            let pointer = client.attached::<Pinned>()?.pointer_to_plain(plain).ok()?;
            // SAFETY: the caller's place for a pointer.
            unsafe { *self.val = pointer };
        }
        Some(Status::SUCCESS)
    }
}

/// A value with a copy of its data from `malloc`; `None` if only the slow path can find it.
#[inline(always)]
fn copied(value: FastValue<'_>) -> Option<Result<Plain>> {
    let (ty, len, data) = match value.result() {
        FastResult::Number { ty, bits } => return Some(Ok(Plain::number(ty, bits))),
        FastResult::Text(text) => {
            (DataType::STRING, 0, copy_text(text.split_last().map_or(text, |(_, before)| before)))
        }
        FastResult::Bytes { ty, bytes } => (ty, bytes.len(), copy_bytes(bytes)),
        FastResult::Absent | FastResult::NeedSlowPath => return None,
    };
    Some(data.map(|data| Plain { ty, words: [data.expose_provenance() as u64, len as u64] }))
}

#[cfg(test)]
#[path = "get_tests.rs"]
mod tests;
