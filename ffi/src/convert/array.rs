//! Arrays of structures: those that C code passes, and those handed to C code.

use std::ffi::c_char;
use std::slice;
use std::sync::OnceLock;

use pmix_dstore::fallible_alloc;
use pmix_dstore::maps::Ranks;
use pmix_dstore::model::{Result, Status};

use super::structure::Object;
use super::text;
use crate::memory::{free, reserve_many, zeroed};
use crate::types::{pmix_nspace_t, pmix_proc_t};

/// The bytes of a C array; none for NULL.
///
/// # Safety
/// `at` is NULL or readable for `len` bytes during `'a`.
pub unsafe fn bytes<'a>(at: *const c_char, len: usize) -> &'a [u8] {
    if at.is_null() || len == 0 {
        return &[];
    }
    // SAFETY: not NULL, hence readable for `len` bytes during `'a`, by the caller's promise.
    unsafe { slice::from_raw_parts(at.cast(), len) }
}

/// Reads the structures of an array; none for NULL with a count of zero.
///
/// # Errors
/// `BAD_PARAM` for NULL with a count, `NOMEM`, and what reading a structure says.
///
/// # Safety
/// `items` is NULL or an array of `count` initialised structures.
pub unsafe fn read<T: Object>(items: *const T, count: usize) -> Result<Vec<T::Model>> {
    if count == 0 {
        return Ok(Vec::new());
    }
    if items.is_null() {
        return Err(Status::ERR_BAD_PARAM);
    }
    let mut models = fallible_alloc::vec(count)?;
    for index in 0..count {
        // SAFETY: within the array, whose structures are initialised, by the caller's promise.
        models.push(unsafe { T::read(items.add(index)) }?);
    }
    Ok(models)
}

/// An array from `malloc` of the structures; NULL for none.
///
/// # Errors
/// `NOMEM`, and what writing a structure says; nothing is left allocated then.
pub fn write<T: Object>(models: &[T::Model]) -> Result<*mut T> {
    Ok(CArray::<T>::new(models)?.into_raw().0)
}

/// Frees an array of structures with what they hold.
///
/// # Safety
/// `items` is NULL or an array from `malloc` of `count` structures, not used again.
pub unsafe fn free_array<T: Object>(items: *mut T, count: usize) {
    if items.is_null() {
        return;
    }
    for index in 0..count {
        // SAFETY: within the array, whose structures own what they hold, by the caller's promise.
        unsafe { T::destroy(items.add(index)) };
    }
    // SAFETY: from `malloc` and not used again, by the caller's promise.
    unsafe { free(items) };
}

/// Processes of one job, without their ranks. An array of processes is copied from them in large pieces; the ranks are written
/// afterwards.
#[derive(Default)]
pub struct Names(OnceLock<Box<Template>>);

/// Begins with a cache line: the speed of a copy hangs on where its source lies.
#[repr(align(64))]
struct Template([pmix_proc_t; Names::COUNT]);

impl Names {
    /// About as many processes as a node runs; they take 4 KiB.
    const COUNT: usize = 16;

    fn of(&self, nspace: &[u8]) -> &[pmix_proc_t; Names::COUNT] {
        let template = self.0.get_or_init(|| {
            let mut name: pmix_nspace_t = [0; size_of::<pmix_nspace_t>()];
            text::fill_name(&mut name, nspace);
            Box::new(Template([pmix_proc_t { nspace: name, rank: 0 }; Names::COUNT]))
        });
        &template.0
    }

    /// Processes of the job `nspace`, which is the same in all calls, in an array that C code frees; NULL for none.
    ///
    /// # Errors
    /// `NOMEM`.
    pub fn procs(&self, nspace: &[u8], ranks: &Ranks) -> Result<(*mut pmix_proc_t, usize)> {
        let count = ranks.iter().len();
        if count == 0 {
            return Ok((std::ptr::null_mut(), 0));
        }
        let names = self.of(nspace);
        let items = reserve_many::<pmix_proc_t>(count)?;
        for first in (0..count).step_by(Names::COUNT) {
            let some = names.len().min(count - first);
            // SAFETY: new memory for `count` processes, which nobody else knows.
            unsafe { items.add(first).copy_from_nonoverlapping(names.as_ptr(), some) };
        }
        // SAFETY: the loop has written all `count` processes, and there are as many ranks.
        let set_rank = |(at, rank): (usize, u32)| unsafe { (*items.add(at)).rank = rank };
        match ranks {
            Ranks::Run(run) => run.clone().enumerate().for_each(set_rank),
            Ranks::List(list) => list.iter().map(|rank| rank.0).enumerate().for_each(set_rank),
        }
        Ok((items, count))
    }
}

/// An array from `malloc` that is freed with its contents when dropped.
pub struct CArray<T: Object> {
    items: *mut T,
    count: usize,
}

// SAFETY: the array is owned, and heap memory is not bound to a thread.
unsafe impl<T: Object> Send for CArray<T> {}
// SAFETY: a shared reference gives only the address and the count, which do not change.
unsafe impl<T: Object> Sync for CArray<T> {}

impl<T: Object> CArray<T> {
    /// An array of these structures.
    ///
    /// # Errors
    /// `NOMEM`, and what writing a structure says.
    pub fn new(models: &[T::Model]) -> Result<CArray<T>> {
        let array: CArray<T> = CArray { items: zeroed(models.len())?, count: models.len() };
        for (index, model) in models.iter().enumerate() {
            // SAFETY: the array is zeroed and has an element for every model.
            unsafe { T::write(model, array.items.add(index)) }?;
        }
        Ok(array)
    }

    /// The first structure, or NULL for none.
    pub fn as_ptr(&self) -> *mut T {
        self.items
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Hands the array over to C code, which frees it.
    pub fn into_raw(self) -> (*mut T, usize) {
        let raw = (self.items, self.count);
        std::mem::forget(self);
        raw
    }
}

impl<T: Object> Drop for CArray<T> {
    fn drop(&mut self) {
        // SAFETY: the array is owned and every element is zeroed or written.
        unsafe { free_array(self.items, self.count) }
    }
}

impl<T: Object> Default for CArray<T> {
    fn default() -> CArray<T> {
        CArray { items: std::ptr::null_mut(), count: 0 }
    }
}
