//! The attributes of a job that a host registers. In a large job the arrays about processes are most of the data, so they are read
//! in place, without a copy in the model's form.

use std::ffi::CStr;
use std::marker::PhantomData;
use std::mem::offset_of;

use pmix_dstore::codec::ValueRef;
use pmix_dstore::fallible_alloc;
use pmix_dstore::job::{KeyText, LentInfos, ProcArrays, ProcTable};
use pmix_dstore::model::{DataType, Info, Key, Result, Status, Value, keys};

use super::object::Object;
use super::{text, value};
use crate::types::*;

/// Infos of C code. There is no slice of them, because the bytes of a key after its NUL may be uninitialised.
///
/// Whoever creates one promises that the array has `count` initialised infos, which stay unchanged for `'a`.
struct CInfos<'a> {
    items: *const pmix_info_t,
    count: usize,
    lent: PhantomData<&'a pmix_info_t>,
}

impl CInfos<'_> {
    /// One of them.
    fn at(&self, index: usize) -> *const pmix_info_t {
        assert!(index < self.count, "an info of the array");
        self.items.wrapping_add(index)
    }

    fn value_at(&self, index: usize) -> *const pmix_value_t {
        // SAFETY: `at` returns an info of the array.
        unsafe { &raw const (*self.at(index)).value }
    }
}

impl LentInfos for CInfos<'_> {
    fn len(&self) -> usize {
        self.count
    }

    #[inline]
    fn has_key(&self, index: usize, key: &KeyText) -> bool {
        // SAFETY: `at` returns an info of the array, which is initialised.
        unsafe { has_key(self.at(index), key) }
    }

    fn key(&self, index: usize) -> Result<Key> {
        // SAFETY: `at` returns an info of the array; its key has a NUL or all its 512 bytes.
        unsafe { text::key((&raw const (*self.at(index)).key).cast()) }
    }

    #[inline]
    fn plain(&self, index: usize) -> Option<ValueRef<'_>> {
        // SAFETY: a value of the array is initialised and stays unchanged while the array is lent.
        unsafe { value::borrow(self.value_at(index)) }
    }

    #[inline]
    fn number(&self, index: usize, key: &KeyText, ty: DataType, width: usize) -> Option<u64> {
        let info = self.at(index);
        // SAFETY: `at` returns an info of the array, which is initialised.
        let (is_it, at) = unsafe { ((*info).value.type_ == ty.0 && has_key(info, key), &raw const (*info).value.data) };
        if !is_it {
            return None;
        }
        // SAFETY: the union holds what the type says, which is a number of this width.
        Some(unsafe {
            match width {
                0 => 0,
                1 => at.cast::<u8>().read().into(),
                2 => at.cast::<u16>().read().into(),
                4 => at.cast::<u32>().read().into(),
                _ => at.cast::<u64>().read(),
            }
        })
    }

    #[inline]
    fn text(&self, index: usize) -> Option<&CStr> {
        let value = self.value_at(index);
        // SAFETY: the value is initialised; a union of this type holds a string, which stays unchanged while the array is lent.
        unsafe { if (*value).type_ == DataType::STRING.0 { text::string((*value).data.string) } else { None } }
    }

    fn value(&self, index: usize) -> Result<Value> {
        // SAFETY: a value of the array is initialised.
        unsafe { pmix_value_t::read(self.value_at(index)) }
    }
}

/// Whether an info has a key.
///
/// # Safety
/// `info` is initialised.
#[inline]
unsafe fn has_key(info: *const pmix_info_t, key: &KeyText) -> bool {
    // SAFETY: within the info.
    let at = unsafe { &raw const (*info).key }.cast::<u8>();
    match key.ends() {
        // SAFETY: the info's key has 512 bytes, and `ends` names two words of eight bytes within the length of a key.
        Some((first, last, start)) => unsafe { read_8(at) == first && read_8(at.add(start)) == last },
        // SAFETY: the info's key has 512 bytes; strncmp reads no more, and nothing after a NUL.
        None => unsafe { libc::strncmp(at.cast(), key.text().as_ptr(), size_of::<pmix_key_t>()) == 0 },
    }
}

/// The eight bytes at an address, as a word.
///
/// # Safety
/// Eight bytes are readable.
#[inline]
unsafe fn read_8(at: *const u8) -> u64 {
    // SAFETY: the caller's promise.
    unsafe { at.cast::<u64>().read_unaligned() }
}

/// Reads the infos of a registration: arrays about processes into columns, all others into infos of the model. Once one of the
/// others concerns processes, too, all infos after it are read into infos of the model.
///
/// # Errors
/// `BAD_PARAM` for NULL with a count, `NOMEM`, and what reading an info says.
///
/// # Safety
/// `infos` is NULL or an array of `count` initialised infos.
pub unsafe fn read(infos: *const pmix_info_t, count: usize) -> Result<(Vec<Info>, ProcTable)> {
    if count == 0 {
        return Ok((Vec::new(), ProcTable::default()));
    }
    if infos.is_null() {
        return Err(Status::ERR_BAD_PARAM);
    }
    // `PMIX_PROC_INFO_ARRAY`, which has two names.
    let proc_data = KeyText::new(keys::PROC_DATA.as_bytes())?;
    let mut others = Vec::new();
    let mut procs = ProcArrays::default();
    // Of two infos about the same thing the later one counts. Their order is kept only among `others`.
    let mut is_in_order = true;
    for index in 0..count {
        // SAFETY: within the caller's array.
        let info = unsafe { infos.add(index) };
        // SAFETY: so many infos of the array are left, and all are initialised.
        unsafe { look_ahead(info, count - index) };
        // SAFETY: the info is initialised, and nobody changes it during this call.
        let array = unsafe { proc_array(info, &proc_data) };
        if is_in_order
            && let Some(array) = array
            && procs.take(&array)?
        {
            continue;
        }
        // SAFETY: the info is initialised, by the caller's promise.
        let info = unsafe { pmix_info_t::read(info) }?;
        is_in_order = is_in_order && !ProcArrays::are_in(&info);
        fallible_alloc::push(&mut others, info)?;
    }
    Ok((others, procs.into_table()?))
}

/// Lets the processor fetch memory that will be read soon. The time to read a large job is mostly latency of memory: each process
/// has an array of its own, and keys and values in it are far apart, so the processor's own prefetching helps little.
///
/// # Safety
/// `infos` is an array of `count` initialised infos.
#[inline]
unsafe fn look_ahead(infos: *const pmix_info_t, count: usize) {
    /// The info whose own bytes are fetched, the one whose array's head is, and the one whose array's infos are.
    const AHEAD: [usize; 3] = [24, 16, 12];
    /// Infos of an array that are fetched.
    const INFOS_MAX: usize = 12;
    if count <= AHEAD[0] {
        return;
    }
    let array_of = |index: usize| {
        // SAFETY: the numbers in `AHEAD` are less than `count`; a union of this type holds a pointer to an array.
        let array = unsafe {
            let value = &raw const (*infos.add(index)).value;
            ((*value).type_ == DataType::DATA_ARRAY.0).then(|| (*value).data.darray.cast_const())
        };
        array.filter(|at| !at.is_null())
    };
    fetch_info(infos.wrapping_add(AHEAD[0]));
    array_of(AHEAD[1]).into_iter().for_each(fetch);
    if let Some(array) = array_of(AHEAD[2]) {
        // SAFETY: not NULL, hence an initialised array.
        let (ty, items, size) = unsafe { ((*array).type_, (*array).array.cast::<pmix_info_t>(), (*array).size) };
        if ty == DataType::INFO.0 {
            (0..size.min(INFOS_MAX)).for_each(|index| fetch_info(items.wrapping_add(index)));
        }
    }
}

/// Prefetches the beginning of an info's key, and its value.
#[inline]
fn fetch_info(info: *const pmix_info_t) {
    fetch(info);
    fetch(info.wrapping_byte_add(offset_of!(pmix_info_t, value)));
}

/// Prefetches the cache line at an address, which need not be valid.
#[inline]
fn fetch<T>(at: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the instruction is a hint and never faults.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(at.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}

/// The infos in an array about a process.
///
/// # Safety
/// The info is initialised and stays unchanged for `'a`.
unsafe fn proc_array<'a>(info: *const pmix_info_t, proc_data: &KeyText) -> Option<CInfos<'a>> {
    // SAFETY: the info is initialised, by the caller's promise.
    let is_it = unsafe { (*info).value.type_ == DataType::DATA_ARRAY.0 && has_key(info, proc_data) };
    if !is_it {
        return None;
    }
    // SAFETY: a union of this type holds NULL or a pointer to an array.
    let array = unsafe { (*info).value.data.darray.as_ref() }?;
    let is_array = array.type_ == DataType::INFO.0 && !array.array.is_null() && array.size > 0;
    is_array.then(|| CInfos { items: array.array.cast(), count: array.size, lent: PhantomData })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn process_arrays_have_one_key() {
        for key in [keys::PROC_DATA, keys::PROC_INFO_ARRAY] {
            assert!(key == keys::PROC_DATA && ProcArrays::is_key(&key.into()));
        }
    }
}
