//! Lists of infos that grow, behind an opaque handle.

use std::ffi::{c_char, c_void};
use std::ptr;

use pmix_dstore::model::{DataType, Info, InfoFlags, Key, Result, Status, Value};

use super::{present, writable};
use crate::convert::array::CArray;
use crate::convert::object::Object;
use crate::convert::{text, value};
use crate::entry::{entry, status_entry};
use crate::registry::{Registry, from_cbdata, to_cbdata};
use crate::types::*;

/// Infos, each in its C form at an address of its own, which callers may look at.
type List = Vec<CArray<pmix_info_t>>;

/// The lists, by their handles.
static LISTS: Registry<List> = Registry::new();

/// Does something with a list.
///
/// # Errors
/// `BAD_PARAM` for a handle that is not one, and what is done says.
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

/// Adds to a list that does not have the key yet; to one that does, only where its value is to be overwritten.
fn add_unique(list: *mut c_void, info: Info, overwrite: bool) -> Result<()> {
    let new = CArray::<pmix_info_t>::new(std::slice::from_ref(&info))?;
    with(list, |infos| {
        for old in infos.iter() {
            let (old, new) = (old.as_ptr(), new.as_ptr());
            // SAFETY: both are infos of our own; what one of them holds after the exchange is freed with it.
            unsafe {
                if text::key_text((&raw const (*old).key).cast())? == info.key.as_bytes() {
                    if overwrite {
                        ptr::swap(&raw mut (*old).value, &raw mut (*new).value);
                    }
                    return Ok(());
                }
            }
        }
        infos.push(new);
        Ok(())
    })
}

/// An info of a key and what `data` points to.
///
/// # Safety
/// As for `PMIx_Info_load`.
unsafe fn loaded(key: *const c_char, data: *const c_void, ty: pmix_data_type_t) -> Result<Info> {
    // SAFETY: the caller's promise; a zeroed value is an empty one.
    unsafe {
        let key: Key = text::key(key)?;
        let mut loaded: pmix_value_t = std::mem::zeroed();
        value::load(&raw mut loaded, data, DataType(ty))?;
        let read: Result<Value> = pmix_value_t::read(&raw const loaded);
        pmix_value_t::destroy(&raw mut loaded);
        Ok(Info { key, flags: 0, value: read? })
    }
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

    /// `PMIx_Info_list_get_info`: an info of the list itself, the first one where `prev` is NULL. `*next` leads to the one
    /// behind it, as `prev` of another call, and is NULL at the end.
    fn PMIx_Info_list_get_info(list: *mut c_void, prev: *mut c_void, next: *mut *mut c_void) -> *mut pmix_info_t {
        if next.is_null() {
            return ptr::null_mut();
        }
        let place = from_cbdata(prev);
        let found = LISTS.change(from_cbdata(list), |infos| {
            let more = place + 1 < infos.len();
            (infos.get(place).map_or(ptr::null_mut(), CArray::as_ptr), more)
        });
        let (info, more) = found.unwrap_or((ptr::null_mut(), false));
        *next = if more { to_cbdata(place + 1) } else { ptr::null_mut() };
        info
    }
}

status_entry! {
    /// `PMIx_Info_list_add`: adds a copy of a value.
    fn PMIx_Info_list_add(list: *mut c_void, key: *const c_char, data: *const c_void, type_: pmix_data_type_t) {
        add(list, loaded(key, data, type_)?)
    }

    /// `PMIx_Info_list_prepend`: puts a copy of a value before all others.
    fn PMIx_Info_list_prepend(list: *mut c_void, key: *const c_char, data: *const c_void, type_: pmix_data_type_t) {
        let info = CArray::new(&[loaded(key, data, type_)?])?;
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
        add_unique(list, loaded(key, data, type_)?, overwrite)
    }

    /// `PMIx_Info_list_add_value`: adds a copy of a value.
    fn PMIx_Info_list_add_value(list: *mut c_void, key: *const c_char, value: *const pmix_value_t) {
        add(list, Info { key: text::key(key)?, flags: 0, value: pmix_value_t::read(present(value)?)? })
    }

    /// `PMIx_Info_list_add_value_unique`: adds a copy of a value whose key the list does not have, or overwrites it.
    fn PMIx_Info_list_add_value_unique(
        list: *mut c_void,
        key: *const c_char,
        value: *const pmix_value_t,
        overwrite: bool,
    ) {
        let info = Info { key: text::key(key)?, flags: 0, value: pmix_value_t::read(present(value)?)? };
        add_unique(list, info, overwrite)
    }

    /// `PMIx_Info_list_insert`: adds an info that keeps its value for itself.
    fn PMIx_Info_list_insert(list: *mut c_void, info: *mut pmix_info_t) {
        let mut info: Info = pmix_info_t::read(present(info)?)?;
        info.flags &= !InfoFlags::PERSISTENT;
        add(list, info)
    }

    /// `PMIx_Info_list_xfer`: adds a copy of an info.
    fn PMIx_Info_list_xfer(list: *mut c_void, info: *const pmix_info_t) {
        add(list, pmix_info_t::read(present(info)?)?)
    }

    /// `PMIx_Info_list_xfer_unique`: adds a copy of an info whose key the list does not have, or overwrites its value.
    fn PMIx_Info_list_xfer_unique(list: *mut c_void, info: *const pmix_info_t, overwrite: bool) {
        add_unique(list, pmix_info_t::read(present(info)?)?, overwrite)
    }

    /// `PMIx_Info_list_convert`: an array of copies of the infos; the list stays.
    fn PMIx_Info_list_convert(list: *mut c_void, par: *mut pmix_data_array_t) {
        let par = writable(par)?;
        *par = pmix_data_array_t { type_: DataType::INFO.0, size: 0, array: ptr::null_mut() };
        let infos: Vec<Info> = with(list, |infos| {
            // SAFETY: the infos of a list are initialised.
            infos.iter().map(|info| unsafe { pmix_info_t::read(info.as_ptr()) }).collect()
        })?;
        if infos.is_empty() {
            return Err(Status::ERR_EMPTY);
        }
        let (items, count) = CArray::<pmix_info_t>::new(&infos)?.into_raw();
        (*par).array = items.cast();
        (*par).size = count;
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
