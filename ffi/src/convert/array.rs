//! Arrays of structures: those that C code passes, and those handed to C code.

use std::ffi::c_char;
use std::slice;
use std::sync::OnceLock;

use pmix_client::Ranks;
use pmix_dstore::fallible_alloc;
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
    // SAFETY: the caller's promise.
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
        // SAFETY: the caller's promise.
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
    // SAFETY: the caller's promise.
    unsafe {
        for index in 0..count {
            T::destroy(items.add(index));
        }
        free(items);
    }
}

/// Processes of one job, without their ranks: arrays of processes are copied from them in one piece.
#[derive(Default)]
pub struct Names(OnceLock<Box<[pmix_proc_t; Names::COUNT]>>);

impl Names {
    /// As many as many a node runs, in 4 KiB.
    const COUNT: usize = 16;

    fn of(&self, nspace: &[u8]) -> &[pmix_proc_t; Names::COUNT] {
        self.0.get_or_init(|| {
            let mut name: pmix_nspace_t = [0; size_of::<pmix_nspace_t>()];
            // SAFETY: the buffer is of the length that is given.
            unsafe { text::write_name(name.as_mut_ptr(), name.len(), nspace) };
            Box::new([pmix_proc_t { nspace: name, rank: 0 }; Names::COUNT])
        })
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
        // SAFETY: new memory for so many processes, which nobody else knows; each is written whole.
        unsafe {
            for first in (0..count).step_by(Names::COUNT) {
                let some = names.len().min(count - first);
                items.add(first).copy_from_nonoverlapping(names.as_ptr(), some);
            }
            match ranks {
                Ranks::Run(run) => run.clone().enumerate().for_each(|(at, rank)| (*items.add(at)).rank = rank),
                Ranks::List(list) => list.iter().enumerate().for_each(|(at, rank)| (*items.add(at)).rank = rank.0),
            }
        }
        Ok((items, count))
    }
}

/// An array from `malloc` that is freed with its contents when dropped.
pub struct CArray<T: Object> {
    items: *mut T,
    count: usize,
}

// SAFETY: the array is owned and its memory is plain heap memory, free of ties to a thread.
unsafe impl<T: Object> Send for CArray<T> {}
// SAFETY: a shared array gives away its address and count, which do not change.
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
