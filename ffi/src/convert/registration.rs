//! What a host registers of a job. Of a large one the arrays about processes are most of it: they are read where they lie.

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

/// Infos of C code. Bytes of a key behind its NUL may be anything, so that there is no slice of them.
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
        // SAFETY: within the array.
        unsafe { &raw const (*self.at(index)).value }
    }
}

impl LentInfos for CInfos<'_> {
    fn len(&self) -> usize {
        self.count
    }

    #[inline]
    fn has_key(&self, index: usize, key: &KeyText) -> bool {
        // SAFETY: an info of the array, which stays as it is.
        unsafe { has_key(self.at(index), key) }
    }

    fn key(&self, index: usize) -> Result<Key> {
        // SAFETY: a key has a NUL or 512 bytes.
        unsafe { text::key((&raw const (*self.at(index)).key).cast()) }
    }

    #[inline]
    fn plain(&self, index: usize) -> Option<ValueRef<'_>> {
        // SAFETY: the value is initialised and stays as it is.
        unsafe { value::borrow(self.value_at(index)) }
    }

    #[inline]
    fn number(&self, index: usize, key: &KeyText, ty: DataType, width: usize) -> Option<u64> {
        let info = self.at(index);
        // SAFETY: an info of the array, which stays as it is; the union holds what the type says, which is a number of this width.
        unsafe {
            let value = &raw const (*info).value;
            if (*value).type_ != ty.0 || !has_key(info, key) {
                return None;
            }
            let at = &raw const (*value).data;
            Some(match width {
                0 => 0,
                1 => at.cast::<u8>().read().into(),
                2 => at.cast::<u16>().read().into(),
                4 => at.cast::<u32>().read().into(),
                _ => at.cast::<u64>().read(),
            })
        }
    }

    #[inline]
    fn text(&self, index: usize) -> Option<&CStr> {
        let value = self.value_at(index);
        // SAFETY: the union holds what the type says; the text stays as it is.
        unsafe { if (*value).type_ == DataType::STRING.0 { text::string((*value).data.string) } else { None } }
    }

    fn value(&self, index: usize) -> Result<Value> {
        // SAFETY: as above.
        unsafe { pmix_value_t::read(self.value_at(index)) }
    }
}

/// # Safety
/// `info` is initialised.
#[inline]
unsafe fn has_key(info: *const pmix_info_t, key: &KeyText) -> bool {
    // SAFETY: the info's key has 512 bytes; strncmp reads them to a NUL.
    unsafe {
        let at = (&raw const (*info).key).cast::<u8>();
        match key.ends() {
            Some((first, last, start)) => read_8(at) == first && read_8(at.add(start)) == last,
            None => libc::strncmp(at.cast(), key.text().as_ptr(), size_of::<pmix_key_t>()) == 0,
        }
    }
}

/// # Safety
/// There are eight bytes.
#[inline]
unsafe fn read_8(at: *const u8) -> u64 {
    // SAFETY: the caller's promise.
    unsafe { at.cast::<u64>().read_unaligned() }
}

/// Reads the infos of a registration: those about processes into columns, as long as none of the others is about processes,
/// and the others as they are.
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
    // What comes later counts: once the others speak of processes, all that follows goes their way.
    let mut is_in_order = true;
    for index in 0..count {
        // SAFETY: within the caller's array.
        let (info, array) = unsafe {
            let info = infos.add(index);
            look_ahead(info, count - index);
            (info, proc_array(info, &proc_data))
        };
        if is_in_order
            && let Some(array) = array
            && procs.take(&array)?
        {
            continue;
        }
        // SAFETY: the caller's promise.
        let info = unsafe { pmix_info_t::read(info) }?;
        is_in_order = is_in_order && !ProcArrays::are_in(&info);
        fallible_alloc::push(&mut others, info)?;
    }
    Ok((others, procs.into_table()?))
}

/// Has the processor fetch what will be read soon. Reading a large job is waiting for memory: each process has an array of its own
/// somewhere, in which keys and values lie pages apart, so that the processor foresees little of it.
///
/// # Safety
/// `infos` are so many initialised infos.
#[inline]
unsafe fn look_ahead(infos: *const pmix_info_t, count: usize) {
    /// The info whose own bytes are fetched, the one whose array's head is, and the one whose array's infos are.
    const AHEAD: [usize; 3] = [24, 16, 12];
    /// Infos of an array that are fetched.
    const INFOS_MAX: usize = 12;
    if count <= AHEAD[0] {
        return;
    }
    // SAFETY: within the array; the union holds what the type says.
    unsafe {
        fetch_info(infos.add(AHEAD[0]));
        let array_of = |index: usize| {
            let value = &raw const (*infos.add(index)).value;
            ((*value).type_ == DataType::DATA_ARRAY.0)
                .then(|| (*value).data.darray.cast_const())
                .filter(|at| !at.is_null())
        };
        array_of(AHEAD[1]).into_iter().for_each(fetch);
        if let Some(array) = array_of(AHEAD[2])
            && (*array).type_ == DataType::INFO.0
        {
            let items = (*array).array.cast::<pmix_info_t>();
            (0..(*array).size.min(INFOS_MAX)).for_each(|index| fetch_info(items.wrapping_add(index)));
        }
    }
}

/// Fetches the beginning of an info's key, and its value.
#[inline]
fn fetch_info(info: *const pmix_info_t) {
    fetch(info);
    fetch(info.wrapping_byte_add(offset_of!(pmix_info_t, value)));
}

/// Fetches a line of memory, which need not be there.
#[inline]
fn fetch<T>(at: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint, which faults nowhere.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(at.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}

/// The infos in an array about a process.
///
/// # Safety
/// The info is initialised and stays as it is for `'a`.
unsafe fn proc_array<'a>(info: *const pmix_info_t, proc_data: &KeyText) -> Option<CInfos<'a>> {
    // SAFETY: the union holds what the type says, and so does the array.
    unsafe {
        let value = &raw const (*info).value;
        if (*value).type_ != DataType::DATA_ARRAY.0 || !has_key(info, proc_data) {
            return None;
        }
        let array = (*value).data.darray.as_ref()?;
        let is_array = array.type_ == DataType::INFO.0 && !array.array.is_null() && array.size > 0;
        is_array.then(|| CInfos { items: array.array.cast(), count: array.size, lent: PhantomData })
    }
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
