//! Values that belong to the library and that C code only points to: `PMIX_GET_POINTER_VALUES`.
//!
//! A caller may keep such a pointer until the library is finalized, and frees nothing. The data of a value lie in the mapped segment,
//! or in a copy that is made once for each distinct value; so a second call for a value takes no memory. It takes no lock either,
//! unless the value is a copy.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ffi::CStr;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use parking_lot::Mutex;
use pmix_client::Client;
use pmix_dstore::codec;
use pmix_dstore::codec::ValueRef;
use pmix_dstore::fallible_alloc;
use pmix_dstore::model::{DataType, Result, Status};

use crate::convert::array::{Names, free_array};
use crate::convert::value::{Plain, allocate_ref};
use crate::types::pmix_value_t;

/// The values that C code points to, which live as long as the client; and the names from which arrays of processes are copied.
#[derive(Default)]
pub struct Pinned {
    /// Processes of the caller's own job.
    pub names: Names,
    /// Values whose data are numbers or lie in mapped segments, by type and union.
    plain: Table,
    /// All other values, by type and contents.
    copies: Mutex<Copies>,
}

type Copies = HashMap<DataType, HashMap<Box<[u8]>, Copied>>;

/// A value from `malloc` that is freed at the end.
struct Copied(*mut pmix_value_t);

// SAFETY: the value is owned, and heap memory is not bound to a thread.
unsafe impl Send for Copied {}

impl Drop for Copied {
    fn drop(&mut self) {
        // SAFETY: one value from malloc; callers that have its address have finalized the library.
        unsafe { free_array(self.0, 1) }
    }
}

/// The C form of a value whose data are a number or lie in mapped segments.
#[inline]
fn plain_of(client: &Client, value: ValueRef<'_>) -> Option<Plain> {
    let is_mapped = |bytes: &[u8]| client.lend(bytes);
    match value {
        ValueRef::Scalar { ty, bits } => Some(Plain::number(ty, bits)),
        ValueRef::Str(Some(text)) if is_mapped(text.to_bytes_with_nul()) => Some(Plain::text(text.to_bytes_with_nul())),
        ValueRef::Bytes { ty, bytes } if ty != DataType::DATA_BUFFER && is_mapped(bytes) && !bytes.is_empty() => {
            Some(Plain::bytes(ty, bytes))
        }
        _ => None,
    }
}

#[inline(always)]
fn hash_of(plain: Plain) -> usize {
    let mixed = (plain.words[0] ^ u64::from(plain.ty.0) << 48).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ mixed >> 32) as usize
}

/// An open-addressed hash table of pointers to values. Finding takes no lock; adding takes one.
#[derive(Default)]
struct Table {
    slots: AtomicPtr<Slots>,
    /// All slots that the table has had: another thread may still read in those that became too small.
    all: Mutex<Vec<Arc<Slots>>>,
    count: AtomicUsize,
}

struct Slots {
    slots: Box<[AtomicPtr<pmix_value_t>]>,
}

impl Drop for Table {
    fn drop(&mut self) {
        // The newest slots hold all values.
        let all = self.all.get_mut();
        for slot in all.last().iter().flat_map(|newest| &newest.slots) {
            let value = slot.load(Ordering::Relaxed);
            if !value.is_null() {
                // SAFETY: made by `Box::into_raw` in `add`; callers that have its address have finalized the library.
                drop(unsafe { Box::from_raw(value) });
            }
        }
    }
}

impl Slots {
    fn new(count: usize) -> Result<Arc<Slots>> {
        let mut slots = fallible_alloc::vec(count)?;
        slots.resize_with(count, || AtomicPtr::new(ptr::null_mut()));
        Ok(Arc::new(Slots { slots: slots.into() }))
    }

    /// The value, or the slot where it belongs.
    #[inline]
    fn find(&self, plain: Plain) -> std::result::Result<*mut pmix_value_t, &AtomicPtr<pmix_value_t>> {
        let mask = self.slots.len() - 1;
        let mut index = hash_of(plain) & mask;
        // An empty slot ends the search: at most half of them are taken.
        loop {
            let value = self.slots[index].load(Ordering::Acquire);
            if value.is_null() {
                return Err(&self.slots[index]);
            }
            // SAFETY: values live as long as the table, and all words of a plain value's union are initialised.
            let (ty, words) = unsafe { ((*value).type_, (*value).data.words) };
            if ty == plain.ty.0 && words[..2] == plain.words {
                return Ok(value);
            }
            index = (index + 1) & mask;
        }
    }
}

impl Table {
    const SLOTS_MIN: usize = 64;

    #[inline]
    fn pointer_to(&self, plain: Plain) -> Result<*mut pmix_value_t> {
        // SAFETY: all slots that were ever stored here stay in `all`.
        let slots = unsafe { self.slots.load(Ordering::Acquire).as_ref() };
        match slots.and_then(|slots| slots.find(plain).ok()) {
            Some(value) => Ok(value),
            None => self.add(plain),
        }
    }

    #[cold]
    fn add(&self, plain: Plain) -> Result<*mut pmix_value_t> {
        let mut all = self.all.lock();
        let count = self.count.load(Ordering::Relaxed);
        let capacity = all.last().map_or(0, |slots| slots.slots.len());
        if let Some(Ok(value)) = all.last().map(|slots| slots.find(plain)) {
            return Ok(value);
        }
        if 2 * (count + 1) > capacity {
            let larger = Slots::new((2 * capacity).max(Table::SLOTS_MIN))?;
            fallible_alloc::reserve(&mut all, 1)?;
            if let Some(old) = all.last() {
                for slot in &old.slots {
                    let value = slot.load(Ordering::Relaxed);
                    if value.is_null() {
                        continue;
                    }
                    // SAFETY: values live as long as the table, and all words of a plain value's union are initialised.
                    let (ty, words) = unsafe { (DataType((*value).type_), (*value).data.words) };
                    if let Err(empty) = larger.find(Plain { ty, words: [words[0], words[1]] }) {
                        empty.store(value, Ordering::Relaxed);
                    }
                }
            }
            self.slots.store(Arc::as_ptr(&larger).cast_mut(), Ordering::Release);
            all.push(larger);
        }
        let slots = all.last().ok_or(Status::ERR_NOMEM)?;
        match slots.find(plain) {
            Ok(value) => Ok(value),
            Err(empty) => {
                let value = Box::into_raw(Box::new(plain.to_c()));
                empty.store(value, Ordering::Release);
                self.count.store(count + 1, Ordering::Relaxed);
                Ok(value)
            }
        }
    }
}

impl Pinned {
    /// A pointer to the library's own copy of a value.
    ///
    /// # Errors
    /// `NOMEM`, and what packing or decoding a structure says.
    #[inline]
    pub fn pointer_to(&self, client: &Client, value: ValueRef<'_>) -> Result<*mut pmix_value_t> {
        match plain_of(client, value) {
            Some(plain) => self.pointer_to_plain(plain),
            None => self.copy_of(value),
        }
    }

    /// The same for a value whose data are a number or lie in mapped segments.
    ///
    /// # Errors
    /// `NOMEM`.
    #[inline(always)]
    pub fn pointer_to_plain(&self, plain: Plain) -> Result<*mut pmix_value_t> {
        self.plain.pointer_to(plain)
    }

    /// Fills the caller's value, whose data stay the library's.
    ///
    /// # Errors
    /// As [`Pinned::pointer_to`].
    ///
    /// # Safety
    /// `at` has room for one value.
    #[inline]
    pub unsafe fn fill(&self, client: &Client, value: ValueRef<'_>, at: *mut pmix_value_t) -> Result<()> {
        let filled = match plain_of(client, value) {
            Some(plain) => plain.to_c(),
            // SAFETY: copies live as long as this, and are initialised.
            None => unsafe { self.copy_of(value)?.read() },
        };
        // SAFETY: there is room for one value, by the caller's promise.
        unsafe { at.write(filled) };
        Ok(())
    }

    #[cold]
    fn copy_of(&self, value: ValueRef<'_>) -> Result<*mut pmix_value_t> {
        let held: Cow<'_, [u8]> = match value {
            ValueRef::Scalar { bits, .. } => Cow::Owned(bits.to_le_bytes().into()),
            // With its NUL, so that the empty string is not NULL.
            ValueRef::Str(text) => Cow::Borrowed(text.map(CStr::to_bytes_with_nul).unwrap_or_default()),
            ValueRef::Bytes { bytes, .. } | ValueRef::Packed { bytes, .. } => Cow::Borrowed(bytes),
            ValueRef::Ranks(list) => Cow::Owned(list.text()?.into_bytes_with_nul()),
            ValueRef::Owned(value) => Cow::Owned(codec::pack_stored(value)?),
        };
        let mut copies = self.copies.lock();
        let of_type = copies.entry(value.data_type()).or_default();
        if let Some(pinned) = of_type.get(&*held) {
            return Ok(pinned.0);
        }
        let copy = allocate_ref(value)?;
        of_type.insert(held.into(), Copied(copy));
        Ok(copy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::convert::object::Object;
    use pmix_dstore::model::{Nspace, Proc, Rank, Value};

    #[test]
    fn equal_values_are_one() {
        let proc = Value::Proc(Proc::new(Nspace::new("n").unwrap(), Rank(1)));
        let values = [
            Value::Uint32(7),
            Value::Int32(7),
            Value::string(""),
            Value::String(None),
            Value::string("text"),
            Value::ByteObject(b"text\0".to_vec().into()),
            proc,
        ];
        let pinned = Pinned::default();
        let pointers: Vec<_> = values.iter().map(|value| pinned.copy_of(ValueRef::from(value)).unwrap()).collect();
        for (index, value) in values.iter().enumerate() {
            assert_eq!(pinned.copy_of(ValueRef::from(value)).unwrap(), pointers[index]);
            assert!(!pointers[..index].contains(&pointers[index]), "{value:?}");
            // SAFETY: the pinned value is still there.
            assert_eq!(unsafe { pmix_value_t::read(pointers[index]) }.as_ref(), Ok(value));
        }
    }

    #[test]
    fn plain_values_are_one_however_many_there_are() {
        let table = Table::default();
        let number = |bits: u64| Plain::number(DataType::UINT64, bits);
        let first: Vec<_> = (0..1000).map(|bits| table.pointer_to(number(bits)).unwrap()).collect();
        for (bits, pointer) in first.iter().enumerate() {
            assert_eq!(table.pointer_to(number(bits as u64)), Ok(*pointer));
            // SAFETY: the value is still there.
            assert_eq!(unsafe { pmix_value_t::read(*pointer) }, Ok(Value::Uint64(bits as u64)));
        }
        let other = Plain::number(DataType::INT64, 1);
        assert_ne!(table.pointer_to(other), Ok(first[1]));
    }

    #[test]
    fn threads_that_ask_at_once_get_one_value() {
        let table = Table::default();
        let ask = || -> Vec<usize> {
            let plain = |bits| Plain::number(DataType::UINT64, bits % 3000_u64);
            (0..9000).map(|bits| table.pointer_to(plain(bits)).unwrap().expose_provenance()).collect()
        };
        let all: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(ask)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(all.iter().all(|pointers| *pointers == all[0]));
        assert_eq!(all[0][..3000], all[0][3000..6000]);
    }
}
