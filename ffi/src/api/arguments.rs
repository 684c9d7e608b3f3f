//! The arguments of an entry point: checked and read once, so that the rest of its body is safe code.
//!
//! The functions are unsafe because a pointer does not show what it points to. Who calls one says which of the pointer rules of
//! the [crate] its argument keeps.

use std::ffi::{CStr, c_char};
use std::ptr::{self, NonNull};

use pmix_client::InfoReply;
use pmix_dstore::model::{Info, Proc, Result, Status};

use crate::convert::array::{self, CArray};
use crate::convert::object::Object;
use crate::convert::text;
use crate::types::{pmix_info_t, pmix_proc_t};

/// A pointer that must not be NULL.
///
/// # Errors
/// `BAD_PARAM`.
pub(super) fn present<T>(pointer: *const T) -> Result<*const T> {
    if pointer.is_null() { Err(Status::ERR_BAD_PARAM) } else { Ok(pointer) }
}

/// An out parameter that must not be NULL.
///
/// # Errors
/// `BAD_PARAM`.
pub(super) fn writable<T>(pointer: *mut T) -> Result<*mut T> {
    if pointer.is_null() { Err(Status::ERR_BAD_PARAM) } else { Ok(pointer) }
}

/// A structure that must be there.
///
/// # Errors
/// `BAD_PARAM` for NULL, and what reading the structure says.
///
/// # Safety
/// `at` is NULL or points to an initialised structure.
pub(super) unsafe fn object<T: Object>(at: *const T) -> Result<T::Model> {
    // SAFETY: not NULL, hence an initialised structure by the caller's promise.
    unsafe { T::read(present(at)?) }
}

/// A structure that may be missing: `None` for NULL.
///
/// # Errors
/// What reading the structure says.
///
/// # Safety
/// `at` is NULL or points to an initialised structure.
pub(super) unsafe fn optional_object<T: Object>(at: *const T) -> Result<Option<T::Model>> {
    if at.is_null() {
        return Ok(None);
    }
    // SAFETY: not NULL, hence an initialised structure by the caller's promise.
    unsafe { T::read(at) }.map(Some)
}

/// The infos of an array; none for NULL with a count of zero.
///
/// # Errors
/// As [`array::read`].
///
/// # Safety
/// `infos` is NULL or an array of `count` initialised infos.
pub(super) unsafe fn infos(infos: *const pmix_info_t, count: usize) -> Result<Vec<Info>> {
    // SAFETY: the caller's promise.
    unsafe { array::read(infos, count) }
}

/// The processes of an array; none for NULL, as the functions that take processes mean the whole namespace then.
///
/// # Errors
/// `BAD_PARAM` for a namespace that is too long.
///
/// # Safety
/// `procs` is NULL or an array of `count` processes.
pub(super) unsafe fn procs(procs: *const pmix_proc_t, count: usize) -> Result<Vec<Proc>> {
    // SAFETY: the caller's promise.
    if procs.is_null() { Ok(Vec::new()) } else { unsafe { array::read(procs, count) } }
}

/// A string that must be there.
///
/// # Errors
/// `BAD_PARAM` for NULL.
///
/// # Safety
/// `text` is NULL or a C string that stays for `'a`.
pub(super) unsafe fn c_str<'a>(text: *const c_char) -> Result<&'a CStr> {
    // SAFETY: the caller's promise.
    unsafe { text::string(text) }.ok_or(Status::ERR_BAD_PARAM)
}

/// Where the caller wants a result: a place that is not NULL and may be written until the entry point returns.
pub(super) struct Out<T>(NonNull<T>);

impl<T> Out<T> {
    /// An out parameter that must not be NULL.
    ///
    /// # Errors
    /// `BAD_PARAM` for NULL.
    ///
    /// # Safety
    /// `at` is NULL, or may be written for as long as the `Out` is used.
    #[inline(always)]
    pub(super) unsafe fn new(at: *mut T) -> Result<Out<T>> {
        // SAFETY: the caller's promise.
        unsafe { Out::optional(at) }.ok_or(Status::ERR_BAD_PARAM)
    }

    /// An out parameter that may be missing: `None` for NULL.
    ///
    /// # Safety
    /// As [`Out::new`].
    #[inline(always)]
    pub(super) unsafe fn optional(at: *mut T) -> Option<Out<T>> {
        NonNull::new(at).map(Out)
    }

    /// Writes the result. What was there is not read, and nothing that it held is freed.
    #[inline(always)]
    pub(super) fn set(&self, value: T) {
        // SAFETY: it may be written, as the caller of `new` or `optional` promised.
        unsafe { self.0.write(value) }
    }
}

impl<T: Object> Out<T> {
    /// Makes the structure an empty one and lends it. What it held is not freed.
    pub(super) fn empty(&mut self) -> &mut T {
        // SAFETY: it may be written, as the caller of `new` or `optional` promised, and all zero is an empty structure.
        unsafe {
            self.0.write_bytes(0, 1);
            self.0.as_mut()
        }
    }

    /// Fills a structure that the caller provides and whose former contents do not count.
    ///
    /// # Errors
    /// What writing the structure says.
    pub(super) fn fill(&self, model: &T::Model) -> Result<()> {
        // SAFETY: it may be written, as the caller of `new` or `optional` promised, and is zeroed here, as `Object::write` wants it.
        unsafe {
            self.0.write_bytes(0, 1);
            T::write(model, self.0.as_ptr())
        }
    }
}

/// Where the caller wants infos: an array and its length, each of which may be missing.
pub(super) struct InfoResults {
    items: Option<Out<*mut pmix_info_t>>,
    count: Option<Out<usize>>,
}

impl InfoResults {
    /// A pair of out parameters.
    ///
    /// # Safety
    /// Each is NULL, or may be written for as long as the `InfoResults` is used.
    pub(super) unsafe fn new(items: *mut *mut pmix_info_t, count: *mut usize) -> InfoResults {
        // SAFETY: the caller's promise.
        unsafe { InfoResults { items: Out::optional(items), count: Out::optional(count) } }
    }

    /// Writes that there are no infos: callers look at them whatever the status says.
    pub(super) fn clear(&self) {
        if let Some(items) = &self.items {
            items.set(ptr::null_mut());
        }
        if let Some(count) = &self.count {
            count.set(0);
        }
    }

    /// Hands infos over to the caller, who frees them. A caller who gave only one of the two places gets none.
    ///
    /// # Errors
    /// `NOMEM`; the answer's status where it is not success: the infos are handed over then, too.
    pub(super) fn hand_over(&self, answer: InfoReply) -> Result<()> {
        if let (Some(items), Some(count)) = (&self.items, &self.count) {
            let (array, len) = CArray::<pmix_info_t>::new(&answer.infos)?.into_raw();
            items.set(array);
            count.set(len);
        }
        answer.status.ok()
    }
}
