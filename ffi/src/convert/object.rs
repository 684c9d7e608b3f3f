//! Every structure of the interface: how it is read into the model, written from the model, and how its contents are freed.
//!
//! Each structure has one `impl` of [`Object`]. A structure of zeros is a valid empty one. For this reason a structure can be
//! destroyed after a write that failed halfway.

use std::ffi::{CString, c_char, c_void};
use std::mem::offset_of;
use std::{ptr, slice};

use libc::timeval;
use pmix_client::topology::{self, Topology};
use pmix_dstore::fallible_alloc;
use pmix_dstore::model::{
    App, Bytes, Coord, DataArray, DataType, Device, DeviceDistance, DiskStats, Endpoint, Envar, Geometry, Info,
    InfoFlags, Key, NetStats, NodeStats, Nspace, Pdata, Proc, ProcInfo, ProcStats, Query, Rank, Regattr, Result,
    Status, Value,
};
use pmix_hwloc::Hwloc;

use super::array;
pub use super::structure::Object;
use super::text;
use crate::convert::topology::is_hwlocs;
use crate::memory::{
    copy_bytes, copy_string, copy_string_list, copy_string_or_null, copy_text, free, free_string_list, zeroed,
};
use crate::types::*;

/// Implements [`Object`] for one structure from three bodies, which rely on the promises of the trait's functions about `at`.
macro_rules! object {
    ($c:ty as $model:ty; read($r:ident) $read:block write($m:ident, $w:ident) $write:block destroy($d:ident) $destroy:block) => {
        impl Object for $c {
            type Model = $model;

            unsafe fn read($r: *const Self) -> Result<$model> $read

            unsafe fn write($m: &$model, $w: *mut Self) -> Result<()> $write

            #[allow(unused_variables, reason = "some structures hold nothing")]
            unsafe fn destroy($d: *mut Self) $destroy
        }
    };
}

/// Implements [`Object`] for a number. Its destructor has nothing to free.
macro_rules! numbers {
    ($($c:ty as $model:ty,)+) => {$(
        object! { $c as $model;
            read(at) {
                // SAFETY: the number is initialised.
                Ok(unsafe { *at } as $model)
            }
            write(number, at) {
                // SAFETY: there is room for the number.
                unsafe { at.write(*number as $c) };
                Ok(())
            }
            destroy(at) {}
        }
    )+};
}

numbers! { u8 as u8, i8 as u8, u16 as u16, i32 as i32, u64 as u64, usize as u64, f32 as f32, }

/// Implements [`Object`] for a structure whose members are themselves objects, and arrays of objects with their counts. It names
/// for each member of the C structure the one of the model.
macro_rules! members {
    ($c:ident as $model:ident {
        $($member:ident => $part:ident),* $(; arrays: $($items:ident[$count:ident] => $list:ident),+)?
    }) => {
        object! { $c as $model;
            read(at) {
                Ok($model {
                    // SAFETY: a member of an initialised structure is an initialised object of its own type.
                    $($part: unsafe { Object::read(&raw const (*at).$member) }?,)*
                    // SAFETY: the pointer is NULL or leads to as many initialised structures as the count says.
                    $($($list: unsafe { array::read((*at).$items, (*at).$count) }?,)+)?
                })
            }
            write(model, at) {
                // SAFETY: a member of zeroed memory for the structure is zeroed memory for an object of its own type.
                $(unsafe { Object::write(&model.$part, &raw mut (*at).$member) }?;)*
                $($(
                    let items = array::write(&model.$list)?;
                    // SAFETY: there is room for the structure.
                    unsafe { ((*at).$items, (*at).$count) = (items, model.$list.len()) };
                )+)?
                Ok(())
            }
            destroy(at) {
                // SAFETY: what a member holds comes from `malloc`, as all contents of the structure do.
                $(unsafe { Object::destroy(&raw mut (*at).$member) };)*
                // SAFETY: the pointer is NULL or leads to as many structures from `malloc` as the count says.
                $($(unsafe { destroy_array(&raw mut (*at).$items, &raw mut (*at).$count) };)+)?
            }
        }
    };
}

object! { *mut c_char as Option<CString>;
    read(at) {
        // SAFETY: an initialised pointer, which is NULL or leads to a C string.
        unsafe { text::owned_string(*at) }
    }
    write(string, at) {
        let copy = copy_string_or_null(string.as_deref())?;
        // SAFETY: there is room for a pointer.
        unsafe { at.write(copy) };
        Ok(())
    }
    destroy(at) {
        // SAFETY: an initialised pointer, which is forgotten here.
        let string = unsafe { at.replace(ptr::null_mut()) };
        // SAFETY: NULL or from `malloc`, and no longer in the structure.
        unsafe { free(string) };
    }
}

object! { *mut *mut c_char as Vec<CString>;
    read(at) {
        // SAFETY: an initialised pointer, which is NULL or leads to an array of C strings with a NULL at its end.
        unsafe { text::string_list(*at) }
    }
    write(strings, at) {
        let list = copy_string_list(strings)?;
        // SAFETY: there is room for a pointer.
        unsafe { at.write(list) };
        Ok(())
    }
    destroy(at) {
        // SAFETY: an initialised pointer, which is forgotten here.
        let list = unsafe { at.replace(ptr::null_mut()) };
        // SAFETY: NULL, or the list and its strings are from `malloc`; it is no longer in the structure.
        unsafe { free_string_list(list) };
    }
}

/// A map of nodes or processes as its text, which contains its own length. This is the form of `PMIX_REGEX` in a buffer and in
/// memory of its own. Values hold a byte object instead.
#[repr(transparent)]
pub struct MapText(*mut c_char);

object! { MapText as Bytes;
    read(at) {
        // SAFETY: an initialised pointer.
        let map = unsafe { (*at).0.cast_const() };
        if map.is_null() {
            return Err(Status::ERR_BAD_PARAM);
        }
        // SAFETY: not NULL, hence a map by the promise of `Object::read`.
        Bytes::copy_of(unsafe { text::map(map) })
    }
    write(map, at) {
        let copy = copy_text(map)?;
        // SAFETY: there is room for a pointer.
        unsafe { at.write(MapText(copy)) };
        Ok(())
    }
    destroy(at) {
        // SAFETY: the pointer is NULL or from `malloc`, as that of a string is.
        unsafe { <*mut c_char>::destroy(&raw mut (*at).0) }
    }
}

object! { timeval as (i64, i64);
    read(at) {
        // SAFETY: the structure is initialised.
        let timeval { tv_sec, tv_usec } = unsafe { *at };
        Ok((tv_sec, tv_usec))
    }
    write(time, at) {
        // SAFETY: there is room for the structure.
        unsafe { at.write(timeval { tv_sec: time.0, tv_usec: time.1 }) };
        Ok(())
    }
    destroy(at) {}
}

object! { pmix_nspace_t as Nspace;
    read(at) {
        // SAFETY: a namespace has a NUL or all its 256 bytes.
        unsafe { text::nspace(at.cast()) }
    }
    write(nspace, at) {
        // SAFETY: there is room for a namespace, which is zeroed.
        text::fill_name(unsafe { &mut *at }, nspace.as_bytes());
        Ok(())
    }
    destroy(at) {}
}

object! { pmix_key_t as Key;
    read(at) {
        // SAFETY: a key has a NUL or all its 512 bytes.
        unsafe { text::key(at.cast()) }
    }
    write(key, at) {
        // SAFETY: there is room for a key, which is zeroed.
        text::fill_name(unsafe { &mut *at }, key.as_bytes());
        Ok(())
    }
    destroy(at) {}
}

object! { pmix_proc_t as Proc;
    read(at) {
        // SAFETY: the structure is initialised, and so is its namespace.
        let nspace = unsafe { pmix_nspace_t::read(&raw const (*at).nspace) }?;
        // SAFETY: the structure is initialised.
        Ok(Proc::new(nspace, Rank(unsafe { (*at).rank })))
    }
    write(proc, at) {
        // SAFETY: there is room for the structure, which is zeroed.
        let to = unsafe { &mut *at };
        text::fill_name(&mut to.nspace, proc.nspace.as_bytes());
        to.rank = proc.rank.0;
        Ok(())
    }
    destroy(at) {}
}

object! { pmix_byte_object_t as Bytes;
    read(at) {
        // SAFETY: the structure is initialised.
        let pmix_byte_object_t { bytes, size } = unsafe { *at };
        // SAFETY: the pointer is NULL or leads to as many bytes as the size says.
        Bytes::copy_of(unsafe { array::bytes(bytes, size) })
    }
    write(bytes, at) {
        let copy = copy_bytes(bytes)?;
        // SAFETY: there is room for the structure.
        unsafe { at.write(pmix_byte_object_t { bytes: copy, size: bytes.len() }) };
        Ok(())
    }
    destroy(at) {
        // SAFETY: an initialised structure, which is emptied here.
        let held = unsafe { at.replace(pmix_byte_object_t { bytes: ptr::null_mut(), size: 0 }) };
        // SAFETY: NULL or from `malloc`, and no longer in the structure.
        unsafe { free(held.bytes) };
    }
}

members! { pmix_envar_t as Envar { envar => name, value => value, separator => separator } }

object! { pmix_info_t as Info;
    read(at) {
        // SAFETY: the structure is initialised, and so are its members.
        let (key, flags, value) = unsafe {
            (Object::read(&raw const (*at).key)?, (*at).flags, Object::read(&raw const (*at).value)?)
        };
        Ok(Info { key, flags, value })
    }
    write(info, at) {
        // SAFETY: there is room for the structure, which is zeroed.
        let to = unsafe { &mut *at };
        text::fill_name(&mut to.key, info.key.as_bytes());
        to.flags = info.flags & !InfoFlags::PERSISTENT;
        // SAFETY: a member of zeroed memory is zeroed.
        unsafe { Object::write(&info.value, &raw mut to.value) }
    }
    destroy(at) {
        // SAFETY: the structure is initialised.
        let flags = unsafe { (*at).flags };
        // A persistent info shares its value with another info, which owns the value. Infos that this library writes are never
        // persistent.
        if flags & InfoFlags::PERSISTENT == 0 {
            // SAFETY: the info owns its value, whose contents come from `malloc`.
            unsafe { Object::destroy(&raw mut (*at).value) };
        }
    }
}

members! { pmix_pdata_t as Pdata { proc => proc, key => key, value => value } }

members! {
    pmix_app_t as App {
        cmd => cmd, argv => argv, env => env, cwd => cwd, maxprocs => maxprocs; arrays: info[ninfo] => infos
    }
}

members! { pmix_query_t as Query { keys => keys; arrays: qualifiers[nqual] => qualifiers } }

members! {
    pmix_proc_info_t as ProcInfo {
        proc => proc, hostname => hostname, executable_name => executable, pid => pid, exit_code => exit_code, state => state
    }
}

object! { pmix_regattr_t as Regattr;
    read(at) {
        // SAFETY: the structure is initialised, and so are its members.
        let (name, key, type_, description) = unsafe {
            (
                Object::read(&raw const (*at).name)?,
                Object::read(&raw const (*at).string)?,
                (*at).type_,
                Object::read(&raw const (*at).description)?,
            )
        };
        Ok(Regattr { name, key, ty: DataType(type_), description })
    }
    write(regattr, at) {
        // SAFETY: there is room for the structure, which is zeroed.
        let to = unsafe { &mut *at };
        to.name = copy_string_or_null(regattr.name.as_deref())?;
        text::fill_name(&mut to.string, regattr.key.as_bytes());
        to.type_ = regattr.ty.0;
        to.description = copy_string_list(&regattr.description)?;
        Ok(())
    }
    destroy(at) {
        // SAFETY: the members are NULL or come from `malloc`, as the structure's contents do.
        unsafe {
            Object::destroy(&raw mut (*at).name);
            Object::destroy(&raw mut (*at).description);
        }
    }
}

object! { pmix_coord_t as Coord;
    read(at) {
        // SAFETY: the structure is initialised.
        let pmix_coord_t { view, coord, dims } = unsafe { *at };
        // SAFETY: not NULL, hence an array of as many numbers as `dims` says.
        let coords = if coord.is_null() { &[] } else { unsafe { slice::from_raw_parts(coord, dims) } };
        Ok(Coord { view, coords: fallible_alloc::collect(coords.iter().copied())? })
    }
    write(coord, at) {
        let dims = coord.coords.len();
        let numbers = zeroed::<u32>(dims)?;
        if !numbers.is_null() {
            // SAFETY: new memory for so many numbers.
            unsafe { numbers.copy_from_nonoverlapping(coord.coords.as_ptr(), dims) };
        }
        // SAFETY: there is room for the structure.
        unsafe { at.write(pmix_coord_t { view: coord.view, coord: numbers, dims }) };
        Ok(())
    }
    destroy(at) {
        // SAFETY: the pointer is initialised, and forgotten here; so is the count.
        let numbers = unsafe {
            (*at).dims = 0;
            (&raw mut (*at).coord).replace(ptr::null_mut())
        };
        // SAFETY: NULL or from `malloc`, and no longer in the structure.
        unsafe { free(numbers) };
    }
}

members! {
    pmix_geometry_t as Geometry {
        fabric => fabric, uuid => uuid, osname => osname; arrays: coordinates[ncoords] => coordinates
    }
}

members! {
    pmix_device_distance_t as DeviceDistance {
        uuid => uuid, osname => osname, type_ => ty, mindist => min, maxdist => max
    }
}

members! { pmix_device_t as Device { uuid => uuid, osname => osname, type_ => ty } }

object! { pmix_endpoint_t as Endpoint;
    read(at) {
        // SAFETY: the structure is initialised, and so are its members.
        let (uuid, osname, bytes) = unsafe {
            (
                Object::read(&raw const (*at).uuid)?,
                Object::read(&raw const (*at).osname)?,
                Object::read(&raw const (*at).endpt)?,
            )
        };
        Ok(Endpoint { uuid, osname, bytes: Bytes::into_vec(bytes)? })
    }
    write(endpoint, at) {
        // SAFETY: there is room for the structure, which is zeroed.
        let to = unsafe { &mut *at };
        to.uuid = copy_string_or_null(endpoint.uuid.as_deref())?;
        to.osname = copy_string_or_null(endpoint.osname.as_deref())?;
        to.endpt = pmix_byte_object_t { bytes: copy_bytes(&endpoint.bytes)?, size: endpoint.bytes.len() };
        Ok(())
    }
    destroy(at) {
        // SAFETY: the members are NULL or come from `malloc`, as the structure's contents do.
        unsafe {
            Object::destroy(&raw mut (*at).uuid);
            Object::destroy(&raw mut (*at).osname);
            Object::destroy(&raw mut (*at).endpt);
        }
    }
}

object! { pmix_data_buffer_t as Bytes;
    read(at) {
        // SAFETY: the structure is initialised.
        let pmix_data_buffer_t { base_ptr, bytes_used, .. } = unsafe { *at };
        // SAFETY: the pointer is NULL or leads to the bytes that are used.
        Bytes::copy_of(unsafe { array::bytes(base_ptr, bytes_used) })
    }
    write(bytes, at) {
        let (base, len) = (copy_bytes(bytes)?, bytes.len());
        let buffer = pmix_data_buffer_t {
            base_ptr: base,
            pack_ptr: base.wrapping_add(len),
            unpack_ptr: base,
            bytes_allocated: len,
            bytes_used: len,
        };
        // SAFETY: there is room for the structure.
        unsafe { at.write(buffer) };
        Ok(())
    }
    destroy(at) {
        // SAFETY: the pointer is initialised; the structure is zeroed here, which is an empty buffer.
        let base = unsafe {
            let base = (*at).base_ptr;
            at.write_bytes(0, 1);
            base
        };
        // SAFETY: NULL or from `malloc`, and no longer in the structure.
        unsafe { free(base) };
    }
}

object! { pmix_cpuset_t as (Option<CString>, Option<CString>);
    read(at) {
        // SAFETY: the structure is initialised.
        let pmix_cpuset_t { source, bitmap } = unsafe { *at };
        // SAFETY: the source is NULL or a C string.
        let list = match unsafe { is_hwlocs(source) } {
            _ if bitmap.is_null() => None,
            false => return Err(Status::ERR_NOT_SUPPORTED),
            true => {
                let hwloc = Hwloc::get()?;
                // SAFETY: a cpuset whose source is hwloc holds a bitmap of hwloc.
                let list = unsafe { hwloc.list(bitmap) }?;
                Some(CString::new(list).map_err(|_| Status::ERR_BAD_PARAM)?)
            }
        };
        // SAFETY: the source is NULL or a C string.
        Ok((unsafe { text::owned_string(source) }?, list))
    }
    write(cpuset, at) {
        // SAFETY: there is room for the structure, which is zeroed.
        let to = unsafe { &mut *at };
        to.source = copy_string_or_null(cpuset.0.as_deref())?;
        if let Some(list) = &cpuset.1 {
            // SAFETY: the source has just been copied from a C string, or is NULL.
            if !unsafe { is_hwlocs(to.source) } {
                return Err(Status::ERR_NOT_SUPPORTED);
            }
            to.bitmap = Hwloc::get()?.parse(list)?;
        }
        Ok(())
    }
    destroy(at) {
        // SAFETY: the structure is initialised.
        let pmix_cpuset_t { source, bitmap } = unsafe { *at };
        // A bitmap of another library belongs to that library. Without hwloc there are no bitmaps of hwloc.
        // SAFETY: the source is NULL or a C string.
        if unsafe { is_hwlocs(source) } {
            if let (false, Ok(hwloc)) = (bitmap.is_null(), Hwloc::get()) {
                // SAFETY: a cpuset whose source is hwloc holds a bitmap of hwloc, which it owns.
                unsafe { hwloc.free(bitmap) };
            }
            // SAFETY: the source is from `malloc`; the structure forgets it and the bitmap.
            unsafe {
                free(source);
                at.write_bytes(0, 1);
            }
        }
    }
}

object! { pmix_topology_t as (Option<CString>, Vec<u8>);
    read(at) {
        // SAFETY: the structure is initialised.
        let pmix_topology_t { source, topology } = unsafe { *at };
        // SAFETY: the source is NULL or a C string.
        if !source.is_null() && !unsafe { is_hwlocs(source) } {
            return Err(Status::ERR_NOT_SUPPORTED);
        }
        if topology.is_null() {
            return Ok((None, Vec::new()));
        }
        let hwloc = Hwloc::get()?;
        // SAFETY: a topology whose source is hwloc, or not named, is one of hwloc.
        unsafe { Ok((Some(hwloc.xml(topology, false)?), hwloc.support(topology))) }
    }
    write(topology, at) {
        // SAFETY: there is room for the structure, which is zeroed.
        let to = unsafe { &mut *at };
        to.source = copy_string(c"hwloc")?;
        if let Some(xml) = &topology.0 {
            let hwloc = Hwloc::get()?;
            to.topology = hwloc.topology(Some(xml))?;
            // SAFETY: a topology of hwloc, which nobody else knows yet.
            unsafe { hwloc.set_support(to.topology, &topology.1) };
        }
        Ok(())
    }
    destroy(at) {
        // SAFETY: the structure is initialised.
        let pmix_topology_t { source, topology: held } = unsafe { *at };
        // As with cpusets. The topology that this process shares among all its callers is not destroyed.
        // SAFETY: the source is NULL or a C string.
        if unsafe { is_hwlocs(source) } {
            if let (false, Ok(hwloc)) = (held.is_null() || topology::is_own(Topology(held)), Hwloc::get()) {
                // SAFETY: a topology whose source is hwloc is one of hwloc; the structure owns it.
                unsafe { hwloc.destroy_topology(held) };
            }
            // SAFETY: the source is from `malloc`; the structure forgets it and the topology.
            unsafe {
                free(source);
                at.write_bytes(0, 1);
            }
        }
    }
}

object! { pmix_resource_unit_t as (u64, u64);
    read(at) {
        // SAFETY: the structure is initialised.
        let pmix_resource_unit_t { type_, count } = unsafe { *at };
        Ok((type_, count as u64))
    }
    write(unit, at) {
        // SAFETY: there is room for the structure.
        unsafe { at.write(pmix_resource_unit_t { type_: unit.0, count: unit.1 as usize }) };
        Ok(())
    }
    destroy(at) {}
}

object! { pmix_node_pid_t as (Option<CString>, u32, i32);
    read(at) {
        // SAFETY: the structure is initialised.
        let pmix_node_pid_t { hostname, nodeid, pid } = unsafe { *at };
        // SAFETY: the host's name is NULL or a C string.
        Ok((unsafe { text::owned_string(hostname) }?, nodeid, pid))
    }
    write(process, at) {
        let hostname = copy_string_or_null(process.0.as_deref())?;
        // SAFETY: there is room for the structure.
        unsafe { at.write(pmix_node_pid_t { hostname, nodeid: process.1, pid: process.2 }) };
        Ok(())
    }
    destroy(at) {
        // SAFETY: the host's name is NULL or from `malloc`.
        unsafe { Object::destroy(&raw mut (*at).hostname) }
    }
}

object! { pmix_data_array_t as DataArray;
    read(at) {
        // SAFETY: the structure is initialised.
        let pmix_data_array_t { type_, size, array } = unsafe { *at };
        // An array does not say in which of two forms it holds maps: see `read_packed_array`.
        if DataType(type_) == DataType::REGEX && !array.is_null() && size > 0 {
            return Err(Status::ERR_UNKNOWN_DATA_TYPE);
        }
        // SAFETY: the promise of `Object::read`; there are no maps in the array.
        unsafe { read_packed_array(at) }
    }
    write(array, at) {
        // SAFETY: there is room for the structure, which is zeroed.
        let to = unsafe { &mut *at };
        to.type_ = array.ty.0;
        if array.items.is_empty() {
            return Ok(());
        }
        let width = array_element_size(array.ty).ok_or(Status::ERR_UNKNOWN_DATA_TYPE)?;
        let bytes = array.items.len().checked_mul(width).ok_or(Status::ERR_NOMEM)?;
        to.array = zeroed::<u8>(bytes)?.cast();
        to.size = array.items.len();
        for (index, item) in array.items.iter().enumerate() {
            if item.data_type() != array.ty {
                return Err(Status::ERR_TYPE_MISMATCH);
            }
            // SAFETY: the new array is zeroed and has an element of this width for each item.
            unsafe { write_any(item, to.array.byte_add(index * width)) }?;
        }
        Ok(())
    }
    destroy(at) {
        // SAFETY: the structure is initialised.
        let pmix_data_array_t { type_, size, array } = unsafe { *at };
        // All releases free maps in an array as byte objects.
        let ty = match DataType(type_) {
            DataType::REGEX => DataType::BYTE_OBJECT,
            ty => ty,
        };
        if let (Some(width), false) = (element_size(ty), array.is_null()) {
            for index in 0..size {
                // SAFETY: the array has as many elements of this type as its size says; they own what they hold.
                unsafe { destroy_any(ty, array.byte_add(index * width)) };
            }
        }
        // SAFETY: the array is NULL or from `malloc`; the structure forgets it.
        unsafe {
            free(array);
            ((*at).array, (*at).size) = (ptr::null_mut(), 0);
        }
    }
}

/// Reads an array as `PMIx_Data_pack` takes it.
///
/// The releases of the stock library treat maps in an array (`PMIX_REGEX`) in two ways: they pack them as texts and free them as
/// byte objects, and none of them creates, copies or unpacks such an array. So this library reads such an array only in order to
/// pack it.
///
/// # Errors
/// As [`Object::read`].
///
/// # Safety
/// As [`Object::read`], of an array whose maps are texts.
pub unsafe fn read_packed_array(at: *const pmix_data_array_t) -> Result<DataArray> {
    // SAFETY: the structure is initialised, by the caller's promise.
    let pmix_data_array_t { type_, size, array } = unsafe { *at };
    let ty = DataType(type_);
    if array.is_null() || size == 0 {
        return Ok(DataArray { ty, items: Vec::new() });
    }
    let width = element_size(ty).ok_or(Status::ERR_UNKNOWN_DATA_TYPE)?;
    // SAFETY: the array has as many initialised elements of this type as its size says.
    let items = (0..size).map(|index| unsafe { read_any(ty, array.byte_add(index * width)) });
    Ok(DataArray { ty, items: items.collect::<Result<_>>()? })
}

object! { pmix_regex2_t as (Option<CString>, Vec<u8>);
    read(at) {
        // SAFETY: the structure is initialised.
        let pmix_regex2_t { type_, bytes, len } = unsafe { *at };
        // SAFETY: the type is NULL or a C string.
        let ty = unsafe { text::owned_string(type_) }?;
        // SAFETY: the pointer is NULL or leads to as many bytes as the length says.
        Ok((ty, fallible_alloc::copy(unsafe { array::bytes(bytes.cast(), len) })?))
    }
    write(regex, at) {
        // SAFETY: there is room for the structure, which is zeroed.
        let to = unsafe { &mut *at };
        to.type_ = copy_string_or_null(regex.0.as_deref())?;
        to.bytes = copy_bytes(&regex.1)?.cast();
        to.len = regex.1.len();
        Ok(())
    }
    destroy(at) {
        // SAFETY: the structure is initialised, and emptied here.
        let held = unsafe { at.replace(pmix_regex2_t { type_: ptr::null_mut(), bytes: ptr::null_mut(), len: 0 }) };
        // SAFETY: NULL or from `malloc`, and no longer in the structure.
        unsafe {
            free(held.type_);
            free(held.bytes);
        }
    }
}

members! {
    pmix_proc_stats_t as ProcStats {
        node => node, proc => proc, pid => pid, cmd => cmd, state => state, time => time, percent_cpu => percent_cpu,
        priority => priority, num_threads => num_threads, pss => pss, vsize => vsize, rss => rss, peak_vsize => peak_vsize,
        processor => processor, sample_time => sample_time
    }
}

object! { pmix_disk_stats_t as DiskStats;
    read(at) {
        // SAFETY: the structure is initialised, and so is its name.
        let disk = unsafe { Object::read(&raw const (*at).disk) }?;
        // SAFETY: the structure is initialised; its eleven counts follow each other.
        let counts = unsafe { at.byte_add(offset_of!(pmix_disk_stats_t, num_reads_completed)).cast::<[u64; 11]>().read() };
        Ok(DiskStats { disk, counts })
    }
    write(stats, at) {
        let disk = copy_string_or_null(stats.disk.as_deref())?;
        // SAFETY: there is room for the structure; its eleven counts follow each other.
        unsafe {
            (*at).disk = disk;
            at.byte_add(offset_of!(pmix_disk_stats_t, num_reads_completed)).cast::<[u64; 11]>().write(stats.counts);
        }
        Ok(())
    }
    destroy(at) {
        // SAFETY: the name is NULL or from `malloc`.
        unsafe { Object::destroy(&raw mut (*at).disk) }
    }
}

object! { pmix_net_stats_t as NetStats;
    read(at) {
        // SAFETY: the structure is initialised, and so is its name.
        let interface = unsafe { Object::read(&raw const (*at).net_interface) }?;
        // SAFETY: the structure is initialised; its six counts follow each other.
        let counts = unsafe { at.byte_add(offset_of!(pmix_net_stats_t, num_bytes_recvd)).cast::<[u64; 6]>().read() };
        Ok(NetStats { interface, counts })
    }
    write(stats, at) {
        let interface = copy_string_or_null(stats.interface.as_deref())?;
        // SAFETY: there is room for the structure; its six counts follow each other.
        unsafe {
            (*at).net_interface = interface;
            at.byte_add(offset_of!(pmix_net_stats_t, num_bytes_recvd)).cast::<[u64; 6]>().write(stats.counts);
        }
        Ok(())
    }
    destroy(at) {
        // SAFETY: the name is NULL or from `malloc`.
        unsafe { Object::destroy(&raw mut (*at).net_interface) }
    }
}

object! { pmix_node_stats_t as NodeStats;
    read(at) {
        // SAFETY: the structure is initialised, and so are its members.
        let (node, sample_time) = unsafe { (Object::read(&raw const (*at).node)?, timeval::read(&raw const (*at).sample_time)?) };
        // SAFETY: the structure is initialised; its eleven amounts follow each other.
        let amounts = unsafe { at.byte_add(offset_of!(pmix_node_stats_t, la)).cast::<[f32; 11]>().read() };
        // SAFETY: each pointer is NULL or leads to as many structures as its count says.
        let (disks, interfaces) = unsafe {
            (array::read((*at).diskstats, (*at).ndiskstats)?, array::read((*at).netstats, (*at).nnetstats)?)
        };
        Ok(NodeStats { node, amounts, sample_time, disks, interfaces })
    }
    write(stats, at) {
        // SAFETY: there is room for the structure; its eleven amounts follow each other.
        unsafe { at.byte_add(offset_of!(pmix_node_stats_t, la)).cast::<[f32; 11]>().write(stats.amounts) };
        // SAFETY: there is room for the structure, which is zeroed but for the amounts.
        let to = unsafe { &mut *at };
        to.node = copy_string_or_null(stats.node.as_deref())?;
        to.sample_time = timeval { tv_sec: stats.sample_time.0, tv_usec: stats.sample_time.1 };
        to.diskstats = array::write(&stats.disks)?;
        to.ndiskstats = stats.disks.len();
        to.netstats = array::write(&stats.interfaces)?;
        to.nnetstats = stats.interfaces.len();
        Ok(())
    }
    destroy(at) {
        // SAFETY: each pointer is NULL or leads to as many structures as its count says; all come from `malloc`.
        unsafe {
            Object::destroy(&raw mut (*at).node);
            destroy_array(&raw mut (*at).diskstats, &raw mut (*at).ndiskstats);
            destroy_array(&raw mut (*at).netstats, &raw mut (*at).nnetstats);
        }
    }
}

/// Frees an array inside a structure and empties it.
///
/// # Safety
/// `*items` is NULL or an array from `malloc` of `*count` structures.
unsafe fn destroy_array<T: Object>(items: *mut *mut T, count: *mut usize) {
    // SAFETY: pointer and count are initialised, by the caller's promise, and forgotten here.
    let (array, len) = unsafe { (items.replace(ptr::null_mut()), count.replace(0)) };
    // SAFETY: the array is NULL, or from `malloc` and of this length, by the caller's promise.
    unsafe { array::free_array(array, len) };
}

/// From one table: how a structure of a type is read, written, destroyed, and how large it is.
macro_rules! structures {
    ($($ty:ident: $c:ty, $read:expr, $pattern:pat => $model:expr;)+) => {
        /// The size of an object of this type, as it lies in an array or is packed.
        pub fn element_size(ty: DataType) -> Option<usize> {
            match ty {
                $(DataType::$ty => Some(size_of::<$c>()),)+
                ty => ty.scalar_width(),
            }
        }

        /// Reads an object of any type.
        ///
        /// # Errors
        /// As [`Object::read`].
        ///
        /// # Safety
        /// `at` points to an initialised object of the type's C form.
        pub unsafe fn read_any(ty: DataType, at: *const c_void) -> Result<Value> {
            match ty {
                // SAFETY: the caller's promise, of the form that this type has.
                $(DataType::$ty => unsafe { <$c as Object>::read(at.cast()) }.map($read),)+
                // SAFETY: the caller's promise; the type is a number, or nothing is read.
                ty => Value::from_scalar(ty, unsafe { read_bits(ty, at) }?).ok_or(Status::ERR_UNKNOWN_DATA_TYPE),
            }
        }

        /// Writes an object of any type.
        ///
        /// # Errors
        /// As [`Object::write`].
        ///
        /// # Safety
        /// `at` points to zeroed memory of the type's [`element_size`].
        pub unsafe fn write_any(value: &Value, at: *mut c_void) -> Result<()> {
            match value {
                // SAFETY: the caller's promise, of the form that this type has.
                $($pattern => unsafe { <$c as Object>::write($model, at.cast()) },)+
                value => {
                    let bits = value.scalar_bits().ok_or(Status::ERR_NOT_SUPPORTED)?;
                    // SAFETY: the caller's promise; the type is a number.
                    unsafe { write_bits(value.data_type(), bits, at) }
                }
            }
        }

        /// Frees what an object of any type holds.
        ///
        /// # Safety
        /// `at` points to an object of the type's C form whose contents come from `malloc`.
        pub unsafe fn destroy_any(ty: DataType, at: *mut c_void) {
            match ty {
                // SAFETY: the caller's promise, of the form that this type has.
                $(DataType::$ty => unsafe { <$c as Object>::destroy(at.cast()) },)+
                _ => {}
            }
        }
    };
}

structures! {
    STRING: *mut c_char, Value::String, Value::String(m) => m;
    TIMEVAL: timeval, |(sec, usec)| Value::Timeval { sec, usec }, Value::Timeval { sec, usec } => &(*sec, *usec);
    PROC_NSPACE: pmix_nspace_t, Value::ProcNspace, Value::ProcNspace(m) => m;
    PROC: pmix_proc_t, Value::Proc, Value::Proc(m) => m;
    BYTE_OBJECT: pmix_byte_object_t, Value::ByteObject, Value::ByteObject(m) => m;
    REGEX: MapText, Value::Regex, Value::Regex(m) => m;
    COMPRESSED_STRING: pmix_byte_object_t, Value::CompressedString, Value::CompressedString(m) => m;
    COMPRESSED_BYTE_OBJECT: pmix_byte_object_t, Value::CompressedByteObject, Value::CompressedByteObject(m) => m;
    ENVAR: pmix_envar_t, Value::Envar, Value::Envar(m) => m;
    VALUE: pmix_value_t, |m| Value::Value(Box::new(m)), Value::Value(m) => m;
    INFO: pmix_info_t, |m| Value::Info(Box::new(m)), Value::Info(m) => m;
    PDATA: pmix_pdata_t, |m| Value::Pdata(Box::new(m)), Value::Pdata(m) => m;
    APP: pmix_app_t, |m| Value::App(Box::new(m)), Value::App(m) => m;
    QUERY: pmix_query_t, |m| Value::Query(Box::new(m)), Value::Query(m) => m;
    PROC_INFO: pmix_proc_info_t, |m| Value::ProcInfo(Box::new(m)), Value::ProcInfo(m) => m;
    REGATTR: pmix_regattr_t, |m| Value::Regattr(Box::new(m)), Value::Regattr(m) => m;
    COORD: pmix_coord_t, |m| Value::Coord(Box::new(m)), Value::Coord(m) => m;
    GEOMETRY: pmix_geometry_t, |m| Value::Geometry(Box::new(m)), Value::Geometry(m) => m;
    DEVICE_DIST: pmix_device_distance_t, |m| Value::DeviceDistance(Box::new(m)), Value::DeviceDistance(m) => m;
    DEVICE: pmix_device_t, |m| Value::Device(Box::new(m)), Value::Device(m) => m;
    ENDPOINT: pmix_endpoint_t, |m| Value::Endpoint(Box::new(m)), Value::Endpoint(m) => m;
    DATA_BUFFER: pmix_data_buffer_t, Value::DataBuffer, Value::DataBuffer(m) => m;
    DATA_ARRAY: pmix_data_array_t, |m| Value::DataArray(Box::new(m)), Value::DataArray(m) => m;
    PROC_CPUSET: pmix_cpuset_t, |(source, list)| Value::Cpuset { source, list },
        Value::Cpuset { source, list } => &(source.clone(), list.clone());
    TOPO: pmix_topology_t, |(xml, support)| Value::Topology { xml, support },
        Value::Topology { xml, support } => &(xml.clone(), support.clone());
    RESOURCE_UNIT: pmix_resource_unit_t, |(ty, count)| Value::ResourceUnit { ty, count },
        Value::ResourceUnit { ty, count } => &(*ty, *count);
    NODE_PID: pmix_node_pid_t, |(hostname, nodeid, pid)| Value::NodePid { hostname, nodeid, pid },
        Value::NodePid { hostname, nodeid, pid } => &(hostname.clone(), *nodeid, *pid);
    REGEX2: pmix_regex2_t, |(ty, bytes)| Value::Regex2 { ty, bytes },
        Value::Regex2 { ty, bytes } => &(ty.clone(), bytes.clone());
    PROC_STATS: pmix_proc_stats_t, |m| Value::ProcStats(Box::new(m)), Value::ProcStats(m) => m;
    DISK_STATS: pmix_disk_stats_t, |m| Value::DiskStats(Box::new(m)), Value::DiskStats(m) => m;
    NET_STATS: pmix_net_stats_t, |m| Value::NetStats(Box::new(m)), Value::NetStats(m) => m;
    NODE_STATS: pmix_node_stats_t, |m| Value::NodeStats(Box::new(m)), Value::NodeStats(m) => m;
}

/// The size of an element of a data array of this type; none where releases do not agree on what the elements are.
pub fn array_element_size(ty: DataType) -> Option<usize> {
    if ty == DataType::REGEX { None } else { element_size(ty) }
}

/// Reads a number of the width of its type, zero-extended; any truth value but zero is 1.
///
/// # Errors
/// `UNKNOWN_DATA_TYPE` where the type is not a number.
///
/// # Safety
/// `at` points to an initialised number of the type's width.
pub unsafe fn read_bits(ty: DataType, at: *const c_void) -> Result<u64> {
    let width = ty.scalar_width().ok_or(Status::ERR_UNKNOWN_DATA_TYPE)?;
    // SAFETY: the widths are 1, 2, 4 and 8, and the caller vouches for that many bytes.
    let bits = unsafe {
        match width {
            1 => u64::from(at.cast::<u8>().read()),
            2 => u64::from(at.cast::<u16>().read_unaligned()),
            4 => u64::from(at.cast::<u32>().read_unaligned()),
            _ => at.cast::<u64>().read_unaligned(),
        }
    };
    Ok(if ty == DataType::BOOL { u64::from(bits != 0) } else { bits })
}

/// Writes a number in the width of its type.
///
/// # Errors
/// `UNKNOWN_DATA_TYPE` where the type is not a number.
///
/// # Safety
/// `at` has room for a number of the type's width.
pub unsafe fn write_bits(ty: DataType, bits: u64, at: *mut c_void) -> Result<()> {
    let width = ty.scalar_width().ok_or(Status::ERR_UNKNOWN_DATA_TYPE)?;
    // SAFETY: the widths are 1, 2, 4 and 8, and the caller vouches for that many bytes.
    unsafe {
        match width {
            1 => at.cast::<u8>().write(bits as u8),
            2 => at.cast::<u16>().write_unaligned(bits as u16),
            4 => at.cast::<u32>().write_unaligned(bits as u32),
            _ => at.cast::<u64>().write_unaligned(bits),
        }
    }
    Ok(())
}
