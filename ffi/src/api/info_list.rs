//! Lists of infos that grow, behind an opaque handle.

use std::ffi::{c_char, c_void};
use std::ptr;

use pmix_dstore::model::{DataType, Info, InfoFlags, Key, Result, Status, Value};

use super::{Out, object};
use crate::convert::array::CArray;
use crate::convert::object::Object;
use crate::convert::{text, value};
use crate::entry::{entry, status_entry};
use crate::registry::{Registry, from_cbdata, to_cbdata};
use crate::types::*;

/// Infos. Each is an array of its own in C form, because callers get its address, which must not change.
type List = Vec<CArray<pmix_info_t>>;

/// The lists, by their handles.
static LISTS: Registry<List> = Registry::new();

/// Calls a function with a list.
///
/// # Errors
/// `BAD_PARAM` for an unknown handle, and the errors of the function.
fn with<R>(list: *mut c_void, change: impl FnOnce(&mut List) -> Result<R>) -> Result<R> {
    LISTS.change(from_cbdata(list), change).ok_or(Status::ERR_BAD_PARAM)?
}

/// Adds to a list.
fn add(list: *mut c_void, info: Info) -> Result<()> {
    let info = CArray::new(&[info])?;
    with(list, |infos| {
        infos.push(info);
        Ok(())
    })
}

/// Adds an info to a list. If the list has the key already, its value is overwritten or stays.
fn add_unique(list: *mut c_void, info: Info, overwrite: bool) -> Result<()> {
    let new = CArray::<pmix_info_t>::new(std::slice::from_ref(&info))?;
    with(list, |infos| {
        for old in infos.iter() {
            let (old, new) = (old.as_ptr(), new.as_ptr());
            // SAFETY: an info of the list is initialised, and this module has written its key.
            if unsafe { text::key_text((&raw const (*old).key).cast()) }? == info.key.as_bytes() {
                if overwrite {
                    // SAFETY: both infos belong to this module. Each array frees the value that it has after the exchange.
                    unsafe { ptr::swap(&raw mut (*old).value, &raw mut (*new).value) };
                }
                return Ok(());
            }
        }
        infos.push(new);
        Ok(())
    })
}

/// An info with a key and a copy of the object that `data` points to.
///
/// # Safety
/// `key` is NULL, or has a NUL or all its bytes; `data` as for [`value::load`].
unsafe fn loaded(key: *const c_char, data: *const c_void, ty: pmix_data_type_t) -> Result<Info> {
    // SAFETY: the caller's promise.
    let key: Key = unsafe { text::key(key) }?;
    // SAFETY: a value of zeros is an empty one.
    let mut loaded: pmix_value_t = unsafe { std::mem::zeroed() };
    // SAFETY: there is room for a value; `data` is what the type says, by the caller's promise.
    unsafe { value::load(&raw mut loaded, data, DataType(ty)) }?;
    // SAFETY: `load` has filled the value.
    let read: Result<Value> = unsafe { pmix_value_t::read(&raw const loaded) };
    // SAFETY: what `load` put into the value is from `malloc`.
    unsafe { pmix_value_t::destroy(&raw mut loaded) };
    Ok(Info { key, flags: 0, value: read? })
}

/// An info with a key and a copy of a value.
///
/// # Safety
/// `key` is NULL, or has a NUL or all its bytes; `value` is NULL or initialised.
unsafe fn keyed(key: *const c_char, value: *const pmix_value_t) -> Result<Info> {
    // SAFETY: the caller's promise.
    Ok(Info { key: unsafe { text::key(key) }?, flags: 0, value: unsafe { object(value) }? })
}

entry! {
    /// `PMIx_Info_list_start`: a new list.
    fn PMIx_Info_list_start() -> *mut c_void {
        to_cbdata(LISTS.keep(Vec::new()))
    }

    /// `PMIx_Info_list_release`: frees a list.
    fn PMIx_Info_list_release(list: *mut c_void) {
        drop(LISTS.take(from_cbdata(list)));
    }

    /// `PMIx_Info_list_get_size`: how many infos a list has.
    fn PMIx_Info_list_get_size(list: *mut c_void) -> usize {
        LISTS.change(from_cbdata(list), |infos| infos.len()).unwrap_or(0)
    }

    /// `PMIx_Info_list_get_info`: an info of the list itself, not a copy: the first one if `prev` is NULL. `*next` becomes the
    /// `prev` of the call that returns the following info, and NULL at the end.
    fn PMIx_Info_list_get_info(list: *mut c_void, prev: *mut c_void, next: *mut *mut c_void) -> *mut pmix_info_t {
        // SAFETY: `next` is NULL or a place for a pointer.
        let Some(next) = (unsafe { Out::optional(next) }) else { return ptr::null_mut() };
        let place = from_cbdata(prev);
        let found = LISTS.change(from_cbdata(list), |infos| {
            let more = place + 1 < infos.len();
            (infos.get(place).map_or(ptr::null_mut(), CArray::as_ptr), more)
        });
        let (info, more) = found.unwrap_or((ptr::null_mut(), false));
        next.set(if more { to_cbdata(place + 1) } else { ptr::null_mut() });
        info
    }
}

status_entry! {
    /// `PMIx_Info_list_add`: adds a copy of a value.
    fn PMIx_Info_list_add(list: *mut c_void, key: *const c_char, data: *const c_void, type_: pmix_data_type_t) {
        // SAFETY: `key` is NULL, or has a NUL or all its bytes; `data` is what the type says.
        add(list, unsafe { loaded(key, data, type_) }?)
    }

    /// `PMIx_Info_list_prepend`: puts a copy of a value before all others.
    fn PMIx_Info_list_prepend(list: *mut c_void, key: *const c_char, data: *const c_void, type_: pmix_data_type_t) {
        // SAFETY: `key` is NULL, or has a NUL or all its bytes; `data` is what the type says.
        let info = CArray::new(&[unsafe { loaded(key, data, type_) }?])?;
        with(list, |infos| {
            infos.insert(0, info);
            Ok(())
        })
    }

    /// `PMIx_Info_list_add_unique`: adds a copy of a value whose key the list does not have, or overwrites it.
    fn PMIx_Info_list_add_unique(
        list: *mut c_void,
        key: *const c_char,
        data: *const c_void,
        type_: pmix_data_type_t,
        overwrite: bool,
    ) {
        // SAFETY: `key` is NULL, or has a NUL or all its bytes; `data` is what the type says.
        add_unique(list, unsafe { loaded(key, data, type_) }?, overwrite)
    }

    /// `PMIx_Info_list_add_value`: adds a copy of a value.
    fn PMIx_Info_list_add_value(list: *mut c_void, key: *const c_char, value: *const pmix_value_t) {
        // SAFETY: `key` is NULL, or has a NUL or all its bytes; `value` is NULL or initialised.
        add(list, unsafe { keyed(key, value) }?)
    }

    /// `PMIx_Info_list_add_value_unique`: adds a copy of a value whose key the list does not have, or overwrites it.
    fn PMIx_Info_list_add_value_unique(
        list: *mut c_void,
        key: *const c_char,
        value: *const pmix_value_t,
        overwrite: bool,
    ) {
        // SAFETY: `key` is NULL, or has a NUL or all its bytes; `value` is NULL or initialised.
        add_unique(list, unsafe { keyed(key, value) }?, overwrite)
    }

    /// `PMIx_Info_list_insert`: adds a copy of an info. The copy owns its value, even if the info is persistent.
    fn PMIx_Info_list_insert(list: *mut c_void, info: *mut pmix_info_t) {
        // SAFETY: `info` is NULL or initialised.
        let mut info: Info = unsafe { object(info) }?;
        info.flags &= !InfoFlags::PERSISTENT;
        add(list, info)
    }

    /// `PMIx_Info_list_xfer`: adds a copy of an info.
    fn PMIx_Info_list_xfer(list: *mut c_void, info: *const pmix_info_t) {
        // SAFETY: `info` is NULL or initialised.
        add(list, unsafe { object(info) }?)
    }

    /// `PMIx_Info_list_xfer_unique`: adds a copy of an info whose key the list does not have, or overwrites its value.
    fn PMIx_Info_list_xfer_unique(list: *mut c_void, info: *const pmix_info_t, overwrite: bool) {
        // SAFETY: `info` is NULL or initialised.
        add_unique(list, unsafe { object(info) }?, overwrite)
    }

    /// `PMIx_Info_list_convert`: an array of copies of the infos; the list stays.
    fn PMIx_Info_list_convert(list: *mut c_void, par: *mut pmix_data_array_t) {
        // SAFETY: `par` is NULL or has room for an array.
        let par = unsafe { Out::new(par) }?;
        par.set(pmix_data_array_t { type_: DataType::INFO.0, size: 0, array: ptr::null_mut() });
        let infos: Vec<Info> = with(list, |infos| {
            // SAFETY: the infos of a list are initialised.
            infos.iter().map(|info| unsafe { pmix_info_t::read(info.as_ptr()) }).collect()
        })?;
        if infos.is_empty() {
            return Err(Status::ERR_EMPTY);
        }
        let (items, count) = CArray::<pmix_info_t>::new(&infos)?.into_raw();
        par.set(pmix_data_array_t { type_: DataType::INFO.0, size: count, array: items.cast() });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The keys and numbers of a list, by walking it.
    fn walked(list: *mut c_void) -> Vec<(String, u64)> {
        let mut found = Vec::new();
        let mut at = ptr::null_mut();
        loop {
            let mut next = ptr::null_mut();
            // SAFETY: a list of this module.
            unsafe {
                let info = PMIx_Info_list_get_info(list, at, &raw mut next);
                if !info.is_null() {
                    let info = pmix_info_t::read(info).unwrap();
                    found.push((info.key.to_string(), info.value.as_u64().unwrap()));
                }
            }
            if next.is_null() {
                return found;
            }
            at = next;
        }
    }

    #[test]
    fn lists_are_walked_and_keep_keys_once_where_asked() {
        let number = |n: &u32| (n as *const u32).cast::<c_void>();
        // SAFETY: a list of this module, C strings, numbers on the stack.
        unsafe {
            let list = PMIx_Info_list_start();
            assert_eq!(walked(list), []);
            assert_eq!(PMIx_Info_list_add(list, c"b".as_ptr(), number(&1), DataType::UINT32.0), 0);
            assert_eq!(PMIx_Info_list_prepend(list, c"a".as_ptr(), number(&2), DataType::UINT32.0), 0);
            let first = PMIx_Info_list_get_info(list, ptr::null_mut(), &raw mut *Box::new(ptr::null_mut()));
            assert_eq!(PMIx_Info_list_add_unique(list, c"a".as_ptr(), number(&3), DataType::UINT32.0, false), 0);
            assert_eq!(walked(list), [("a".into(), 2), ("b".into(), 1)]);
            assert_eq!(PMIx_Info_list_add_unique(list, c"a".as_ptr(), number(&4), DataType::UINT32.0, true), 0);
            assert_eq!(PMIx_Info_list_xfer_unique(list, first, true), 0);
            assert_eq!(PMIx_Info_list_add_value_unique(list, c"c".as_ptr(), &raw const (*first).value, true), 0);
            assert_eq!(PMIx_Info_list_add_value(list, c"c".as_ptr(), &raw const (*first).value), 0);
            assert_eq!(walked(list), [("a".into(), 4), ("b".into(), 1), ("c".into(), 4), ("c".into(), 4)]);
            assert_eq!(PMIx_Info_list_get_size(list), 4);
            // What a caller looks at stays where it is when its value is overwritten.
            assert_eq!((*first).value.data.bytes[0], 4);
            PMIx_Info_list_release(list);
            assert_eq!(PMIx_Info_list_get_size(list), 0);
            assert_eq!(PMIx_Info_list_add_value(list, c"c".as_ptr(), ptr::null()), Status::ERR_BAD_PARAM.0);
        }
    }
}
