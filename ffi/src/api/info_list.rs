//! Lists of infos that grow, behind an opaque handle.

use std::ffi::{c_char, c_void};

use pmix_dstore::model::{DataType, Info, InfoFlags, Key, Result, Status, Value};

use super::{present, writable};
use crate::convert::array::CArray;
use crate::convert::object::Object;
use crate::convert::{text, value};
use crate::entry::{entry, status_entry};
use crate::registry::{Registry, from_cbdata, to_cbdata};
use crate::types::*;

/// The lists, by their handles.
static LISTS: Registry<Vec<Info>> = Registry::new();

/// Adds to a list.
///
/// # Errors
/// `BAD_PARAM` for a handle that is not one.
fn add(list: *mut c_void, info: Info) -> Result<()> {
    LISTS.change(from_cbdata(list), |infos| infos.push(info)).ok_or(Status::ERR_BAD_PARAM)
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
}

status_entry! {
    /// `PMIx_Info_list_add`: adds a copy of a value.
    fn PMIx_Info_list_add(list: *mut c_void, key: *const c_char, data: *const c_void, type_: pmix_data_type_t) {
        let key: Key = text::key(key)?;
        let mut loaded: pmix_value_t = std::mem::zeroed();
        value::load(&raw mut loaded, data, DataType(type_))?;
        let read: Result<Value> = pmix_value_t::read(&raw const loaded);
        pmix_value_t::destroy(&raw mut loaded);
        add(list, Info { key, flags: 0, value: read? })
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

    /// `PMIx_Info_list_convert`: an array of copies of the infos; the list stays.
    fn PMIx_Info_list_convert(list: *mut c_void, par: *mut pmix_data_array_t) {
        let par = writable(par)?;
        let infos = LISTS.change(from_cbdata(list), |infos| infos.clone()).ok_or(Status::ERR_BAD_PARAM)?;
        *par = pmix_data_array_t { type_: DataType::INFO.0, size: 0, array: std::ptr::null_mut() };
        if infos.is_empty() {
            return Err(Status::ERR_EMPTY);
        }
        let (items, count) = CArray::<pmix_info_t>::new(&infos)?.into_raw();
        (*par).array = items.cast();
        (*par).size = count;
        Ok(())
    }
}
