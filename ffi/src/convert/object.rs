//! Every structure of the interface: read into the model, written from it, and its contents freed.
//!
//! One `impl` of [`Object`] per structure says all that is known of it. An object that is all zero is a valid empty
//! one, so that a half-written one can be destroyed.

use std::ffi::{CString, c_char, c_void};
use std::slice;

use libc::timeval;
use pmix_client::topology::{self, Topology};
use pmix_dstore::fallible_alloc;
use pmix_dstore::model::{
    App, Bytes, Coord, DataArray, DataType, Device, DeviceDistance, DiskStats, Endpoint, Envar, Geometry, Info,
    InfoFlags, NetStats, NodeStats, Nspace, Pdata, Proc, ProcInfo, ProcStats, Query, Rank, Regattr, Result, Status,
    Value,
};
use pmix_hwloc::Hwloc;

use super::array;
pub use super::structure::Object;
use super::text::{self, write_name};
use crate::convert::topology::is_hwlocs;
use crate::memory::{
    copy_bytes, copy_string, copy_string_list, copy_string_or_null, copy_text, free, free_string_list, zeroed,
};
use crate::types::*;

/// Implements [`Object`] for one structure from three bodies, in which `at` may be dereferenced.
macro_rules! object {
    ($c:ty as $model:ty; read($r:ident) $read:block write($m:ident, $w:ident) $write:block destroy($d:ident) $destroy:block) => {
        impl Object for $c {
            type Model = $model;

            #[allow(unused_unsafe)]
            unsafe fn read($r: *const Self) -> Result<$model> {
                // SAFETY: the promise of `Object::read`, which holds for the objects inside, too.
                unsafe { $read }
            }

            #[allow(unused_unsafe)]
            unsafe fn write($m: &$model, $w: *mut Self) -> Result<()> {
                // SAFETY: the promise of `Object::write`.
                unsafe { $write }
            }

            #[allow(unused_unsafe, unused_variables)]
            unsafe fn destroy($d: *mut Self) {
                // SAFETY: the promise of `Object::destroy`.
                unsafe { $destroy }
            }
        }
    };
}

object! { *mut c_char as Option<CString>;
    read(at) { text::owned_string(*at) }
    write(string, at) {
        *at = copy_string_or_null(string.as_deref())?;
        Ok(())
    }
    destroy(at) {
        free(*at);
        *at = std::ptr::null_mut();
    }
}

/// A map of nodes or processes as its text, which says itself where it ends: what `PMIX_REGEX` is in a buffer and in memory of its
/// own. Values hold a byte object instead.
#[repr(transparent)]
pub struct MapText(*mut c_char);

object! { MapText as Bytes;
    read(at) {
        match (*at).0.cast_const() {
            map if map.is_null() => Err(Status::ERR_BAD_PARAM),
            map => Bytes::copy_of(text::map(map)),
        }
    }
    write(map, at) {
        (*at).0 = copy_text(map)?;
        Ok(())
    }
    destroy(at) { <*mut c_char>::destroy(&raw mut (*at).0) }
}

object! { timeval as (i64, i64);
    read(at) { Ok(((*at).tv_sec, (*at).tv_usec)) }
    write(time, at) {
        *at = timeval { tv_sec: time.0, tv_usec: time.1 };
        Ok(())
    }
    destroy(at) {}
}

object! { pmix_nspace_t as Nspace;
    read(at) { text::nspace(at.cast()) }
    write(nspace, at) {
        write_name(at.cast(), size_of::<pmix_nspace_t>(), nspace.as_bytes());
        Ok(())
    }
    destroy(at) {}
}

object! { pmix_proc_t as Proc;
    read(at) { Ok(Proc::new(text::nspace((&raw const (*at).nspace).cast())?, Rank((*at).rank))) }
    write(proc, at) {
        pmix_nspace_t::write(&proc.nspace, &raw mut (*at).nspace)?;
        (*at).rank = proc.rank.0;
        Ok(())
    }
    destroy(at) {}
}

object! { pmix_byte_object_t as Bytes;
    read(at) { Bytes::copy_of(array::bytes((*at).bytes, (*at).size)) }
    write(bytes, at) {
        (*at).bytes = copy_bytes(bytes)?;
        (*at).size = bytes.len();
        Ok(())
    }
    destroy(at) {
        free((*at).bytes);
        (*at).bytes = std::ptr::null_mut();
        (*at).size = 0;
    }
}

object! { pmix_envar_t as Envar;
    read(at) {
        Ok(Envar {
            name: text::owned_string((*at).envar)?,
            value: text::owned_string((*at).value)?,
            separator: (*at).separator as u8,
        })
    }
    write(envar, at) {
        (*at).envar = copy_string_or_null(envar.name.as_deref())?;
        (*at).value = copy_string_or_null(envar.value.as_deref())?;
        (*at).separator = envar.separator as c_char;
        Ok(())
    }
    destroy(at) {
        <*mut c_char>::destroy(&raw mut (*at).envar);
        <*mut c_char>::destroy(&raw mut (*at).value);
    }
}

object! { pmix_info_t as Info;
    read(at) {
        Ok(Info {
            key: text::key((&raw const (*at).key).cast())?,
            flags: (*at).flags,
            value: pmix_value_t::read(&raw const (*at).value)?,
        })
    }
    write(info, at) {
        write_name((&raw mut (*at).key).cast(), size_of::<pmix_key_t>(), info.key.as_bytes());
        (*at).flags = info.flags & !InfoFlags::PERSISTENT;
        pmix_value_t::write(&info.value, &raw mut (*at).value)
    }
    destroy(at) {
        // A persistent info shares its value with another one, which owns it. What is written here never does.
        if (*at).flags & InfoFlags::PERSISTENT == 0 {
            pmix_value_t::destroy(&raw mut (*at).value);
        }
    }
}

object! { pmix_pdata_t as Pdata;
    read(at) {
        Ok(Pdata {
            proc: pmix_proc_t::read(&raw const (*at).proc)?,
            key: text::key((&raw const (*at).key).cast())?,
            value: pmix_value_t::read(&raw const (*at).value)?,
        })
    }
    write(pdata, at) {
        pmix_proc_t::write(&pdata.proc, &raw mut (*at).proc)?;
        write_name((&raw mut (*at).key).cast(), size_of::<pmix_key_t>(), pdata.key.as_bytes());
        pmix_value_t::write(&pdata.value, &raw mut (*at).value)
    }
    destroy(at) { pmix_value_t::destroy(&raw mut (*at).value) }
}

object! { pmix_app_t as App;
    read(at) {
        Ok(App {
            cmd: text::owned_string((*at).cmd)?,
            argv: text::string_list((*at).argv)?,
            env: text::string_list((*at).env)?,
            cwd: text::owned_string((*at).cwd)?,
            maxprocs: (*at).maxprocs,
            infos: array::read((*at).info, (*at).ninfo)?,
        })
    }
    write(app, at) {
        (*at).cmd = copy_string_or_null(app.cmd.as_deref())?;
        (*at).argv = copy_string_list(&app.argv)?;
        (*at).env = copy_string_list(&app.env)?;
        (*at).cwd = copy_string_or_null(app.cwd.as_deref())?;
        (*at).maxprocs = app.maxprocs;
        (*at).info = array::write(&app.infos)?;
        (*at).ninfo = app.infos.len();
        Ok(())
    }
    destroy(at) {
        <*mut c_char>::destroy(&raw mut (*at).cmd);
        destroy_list(&raw mut (*at).argv);
        destroy_list(&raw mut (*at).env);
        <*mut c_char>::destroy(&raw mut (*at).cwd);
        destroy_array(&raw mut (*at).info, &raw mut (*at).ninfo);
    }
}

object! { pmix_query_t as Query;
    read(at) {
        Ok(Query { keys: text::string_list((*at).keys)?, qualifiers: array::read((*at).qualifiers, (*at).nqual)? })
    }
    write(query, at) {
        (*at).keys = copy_string_list(&query.keys)?;
        (*at).qualifiers = array::write(&query.qualifiers)?;
        (*at).nqual = query.qualifiers.len();
        Ok(())
    }
    destroy(at) {
        destroy_list(&raw mut (*at).keys);
        destroy_array(&raw mut (*at).qualifiers, &raw mut (*at).nqual);
    }
}

object! { pmix_proc_info_t as ProcInfo;
    read(at) {
        Ok(ProcInfo {
            proc: pmix_proc_t::read(&raw const (*at).proc)?,
            hostname: text::owned_string((*at).hostname)?,
            executable: text::owned_string((*at).executable_name)?,
            pid: (*at).pid,
            exit_code: (*at).exit_code,
            state: (*at).state,
        })
    }
    write(info, at) {
        pmix_proc_t::write(&info.proc, &raw mut (*at).proc)?;
        (*at).hostname = copy_string_or_null(info.hostname.as_deref())?;
        (*at).executable_name = copy_string_or_null(info.executable.as_deref())?;
        (*at).pid = info.pid;
        (*at).exit_code = info.exit_code;
        (*at).state = info.state;
        Ok(())
    }
    destroy(at) {
        <*mut c_char>::destroy(&raw mut (*at).hostname);
        <*mut c_char>::destroy(&raw mut (*at).executable_name);
    }
}

object! { pmix_regattr_t as Regattr;
    read(at) {
        Ok(Regattr {
            name: text::owned_string((*at).name)?,
            key: text::key((&raw const (*at).string).cast())?,
            ty: DataType((*at).type_),
            description: text::string_list((*at).description)?,
        })
    }
    write(regattr, at) {
        (*at).name = copy_string_or_null(regattr.name.as_deref())?;
        write_name((&raw mut (*at).string).cast(), size_of::<pmix_key_t>(), regattr.key.as_bytes());
        (*at).type_ = regattr.ty.0;
        (*at).description = copy_string_list(&regattr.description)?;
        Ok(())
    }
    destroy(at) {
        <*mut c_char>::destroy(&raw mut (*at).name);
        destroy_list(&raw mut (*at).description);
    }
}

object! { pmix_coord_t as Coord;
    read(at) {
        let coords = if (*at).coord.is_null() { &[] } else { slice::from_raw_parts((*at).coord, (*at).dims) };
        Ok(Coord { view: (*at).view, coords: fallible_alloc::collect(coords.iter().copied())? })
    }
    write(coord, at) {
        let numbers = zeroed::<u32>(coord.coords.len())?;
        if !numbers.is_null() {
            numbers.copy_from_nonoverlapping(coord.coords.as_ptr(), coord.coords.len());
        }
        *at = pmix_coord_t { view: coord.view, coord: numbers, dims: coord.coords.len() };
        Ok(())
    }
    destroy(at) {
        free((*at).coord);
        (*at).coord = std::ptr::null_mut();
        (*at).dims = 0;
    }
}

object! { pmix_geometry_t as Geometry;
    read(at) {
        Ok(Geometry {
            fabric: (*at).fabric as u64,
            uuid: text::owned_string((*at).uuid)?,
            osname: text::owned_string((*at).osname)?,
            coordinates: array::read((*at).coordinates, (*at).ncoords)?,
        })
    }
    write(geometry, at) {
        (*at).fabric = geometry.fabric as usize;
        (*at).uuid = copy_string_or_null(geometry.uuid.as_deref())?;
        (*at).osname = copy_string_or_null(geometry.osname.as_deref())?;
        (*at).coordinates = array::write(&geometry.coordinates)?;
        (*at).ncoords = geometry.coordinates.len();
        Ok(())
    }
    destroy(at) {
        <*mut c_char>::destroy(&raw mut (*at).uuid);
        <*mut c_char>::destroy(&raw mut (*at).osname);
        destroy_array(&raw mut (*at).coordinates, &raw mut (*at).ncoords);
    }
}

object! { pmix_device_distance_t as DeviceDistance;
    read(at) {
        Ok(DeviceDistance {
            uuid: text::owned_string((*at).uuid)?,
            osname: text::owned_string((*at).osname)?,
            ty: (*at).type_,
            min: (*at).mindist,
            max: (*at).maxdist,
        })
    }
    write(distance, at) {
        (*at).uuid = copy_string_or_null(distance.uuid.as_deref())?;
        (*at).osname = copy_string_or_null(distance.osname.as_deref())?;
        (*at).type_ = distance.ty;
        (*at).mindist = distance.min;
        (*at).maxdist = distance.max;
        Ok(())
    }
    destroy(at) {
        <*mut c_char>::destroy(&raw mut (*at).uuid);
        <*mut c_char>::destroy(&raw mut (*at).osname);
    }
}

object! { pmix_device_t as Device;
    read(at) {
        Ok(Device {
            uuid: text::owned_string((*at).uuid)?,
            osname: text::owned_string((*at).osname)?,
            ty: (*at).type_,
        })
    }
    write(device, at) {
        (*at).uuid = copy_string_or_null(device.uuid.as_deref())?;
        (*at).osname = copy_string_or_null(device.osname.as_deref())?;
        (*at).type_ = device.ty;
        Ok(())
    }
    destroy(at) {
        <*mut c_char>::destroy(&raw mut (*at).uuid);
        <*mut c_char>::destroy(&raw mut (*at).osname);
    }
}

object! { pmix_endpoint_t as Endpoint;
    read(at) {
        Ok(Endpoint {
            uuid: text::owned_string((*at).uuid)?,
            osname: text::owned_string((*at).osname)?,
            bytes: pmix_byte_object_t::read(&raw const (*at).endpt)?.into_vec()?,
        })
    }
    write(endpoint, at) {
        (*at).uuid = copy_string_or_null(endpoint.uuid.as_deref())?;
        (*at).osname = copy_string_or_null(endpoint.osname.as_deref())?;
        (*at).endpt = pmix_byte_object_t { bytes: copy_bytes(&endpoint.bytes)?, size: endpoint.bytes.len() };
        Ok(())
    }
    destroy(at) {
        <*mut c_char>::destroy(&raw mut (*at).uuid);
        <*mut c_char>::destroy(&raw mut (*at).osname);
        pmix_byte_object_t::destroy(&raw mut (*at).endpt);
    }
}

object! { pmix_data_buffer_t as Bytes;
    read(at) { Bytes::copy_of(array::bytes((*at).base_ptr, (*at).bytes_used)) }
    write(bytes, at) {
        let base = copy_bytes(bytes)?;
        *at = pmix_data_buffer_t {
            base_ptr: base,
            pack_ptr: base.wrapping_add(bytes.len()),
            unpack_ptr: base,
            bytes_allocated: bytes.len(),
            bytes_used: bytes.len(),
        };
        Ok(())
    }
    destroy(at) {
        free((*at).base_ptr);
        at.write_bytes(0, 1);
    }
}

object! { pmix_cpuset_t as (Option<CString>, Option<CString>);
    read(at) {
        let list = match ((*at).bitmap, is_hwlocs((*at).source)) {
            (bitmap, _) if bitmap.is_null() => None,
            (_, false) => return Err(Status::ERR_NOT_SUPPORTED),
            (bitmap, true) => Some(CString::new(Hwloc::get()?.list(bitmap)?).map_err(|_| Status::ERR_BAD_PARAM)?),
        };
        Ok((text::owned_string((*at).source)?, list))
    }
    write(cpuset, at) {
        (*at).source = copy_string_or_null(cpuset.0.as_deref())?;
        if let Some(list) = &cpuset.1 {
            if !is_hwlocs((*at).source) {
                return Err(Status::ERR_NOT_SUPPORTED);
            }
            (*at).bitmap = Hwloc::get()?.parse(list)?;
        }
        Ok(())
    }
    destroy(at) {
        // What another library made is its own; without hwloc there are no bitmaps of it.
        if is_hwlocs((*at).source) {
            if let (false, Ok(hwloc)) = ((*at).bitmap.is_null(), Hwloc::get()) {
                hwloc.free((*at).bitmap);
            }
            free((*at).source);
            at.write_bytes(0, 1);
        }
    }
}

object! { pmix_topology_t as (Option<CString>, Vec<u8>);
    read(at) {
        let held = (*at).topology;
        if !(*at).source.is_null() && !is_hwlocs((*at).source) {
            return Err(Status::ERR_NOT_SUPPORTED);
        }
        if held.is_null() {
            return Ok((None, Vec::new()));
        }
        let hwloc = Hwloc::get()?;
        Ok((Some(hwloc.xml(held, false)?), hwloc.support(held)))
    }
    write(topology, at) {
        (*at).source = copy_string(c"hwloc")?;
        if let Some(xml) = &topology.0 {
            let hwloc = Hwloc::get()?;
            (*at).topology = hwloc.topology(Some(xml))?;
            hwloc.set_support((*at).topology, &topology.1);
        }
        Ok(())
    }
    destroy(at) {
        // As of cpusets. One that everybody is given stays.
        if is_hwlocs((*at).source) {
            let held = (*at).topology;
            if let (false, Ok(hwloc)) = (held.is_null() || topology::is_own(Topology(held)), Hwloc::get()) {
                hwloc.destroy_topology(held);
            }
            free((*at).source);
            at.write_bytes(0, 1);
        }
    }
}

object! { pmix_resource_unit_t as (u64, u64);
    read(at) { Ok(((*at).type_, (*at).count as u64)) }
    write(unit, at) {
        *at = pmix_resource_unit_t { type_: unit.0, count: unit.1 as usize };
        Ok(())
    }
    destroy(at) {}
}

object! { pmix_node_pid_t as (Option<CString>, u32, i32);
    read(at) { Ok((text::owned_string((*at).hostname)?, (*at).nodeid, (*at).pid)) }
    write(process, at) {
        (*at).hostname = copy_string_or_null(process.0.as_deref())?;
        (*at).nodeid = process.1;
        (*at).pid = process.2;
        Ok(())
    }
    destroy(at) { <*mut c_char>::destroy(&raw mut (*at).hostname) }
}

object! { pmix_data_array_t as DataArray;
    read(at) {
        // Nobody says of which form those in the array are: see `read_packed_array`.
        match DataType((*at).type_) {
            DataType::REGEX if !(*at).array.is_null() && (*at).size > 0 => Err(Status::ERR_UNKNOWN_DATA_TYPE),
            _ => read_packed_array(at),
        }
    }
    write(array, at) {
        (*at).type_ = array.ty.0;
        if array.items.is_empty() {
            return Ok(());
        }
        let width = array_element_size(array.ty).ok_or(Status::ERR_UNKNOWN_DATA_TYPE)?;
        let bytes = array.items.len().checked_mul(width).ok_or(Status::ERR_NOMEM)?;
        (*at).array = zeroed::<u8>(bytes)?.cast();
        (*at).size = array.items.len();
        for (index, item) in array.items.iter().enumerate() {
            if item.data_type() != array.ty {
                return Err(Status::ERR_TYPE_MISMATCH);
            }
            write_any(item, (*at).array.byte_add(index * width))?;
        }
        Ok(())
    }
    destroy(at) {
        // All releases free maps in an array as byte objects.
        let ty = match DataType((*at).type_) {
            DataType::REGEX => DataType::BYTE_OBJECT,
            ty => ty,
        };
        if let (Some(width), false) = (element_size(ty), (*at).array.is_null()) {
            for index in 0..(*at).size {
                destroy_any(ty, (*at).array.byte_add(index * width));
            }
        }
        free((*at).array);
        (*at).array = std::ptr::null_mut();
        (*at).size = 0;
    }
}

/// Reads an array as `PMIx_Data_pack` takes it.
///
/// Releases do not agree with themselves on maps in an array (`PMIX_REGEX`): all of them pack texts and free byte objects, and none
/// makes, copies or unpacks such an array. So it is read where it is packed, and nowhere else.
///
/// # Errors
/// As [`Object::read`].
///
/// # Safety
/// As [`Object::read`], of an array whose maps are texts.
pub unsafe fn read_packed_array(at: *const pmix_data_array_t) -> Result<DataArray> {
    // SAFETY: the caller's promise.
    unsafe {
        let (ty, base) = (DataType((*at).type_), (*at).array.cast_const());
        if base.is_null() || (*at).size == 0 {
            return Ok(DataArray { ty, items: Vec::new() });
        }
        let width = element_size(ty).ok_or(Status::ERR_UNKNOWN_DATA_TYPE)?;
        let items = (0..(*at).size).map(|index| read_any(ty, base.byte_add(index * width)));
        Ok(DataArray { ty, items: items.collect::<Result<_>>()? })
    }
}

object! { pmix_regex2_t as (Option<CString>, Vec<u8>);
    read(at) {
        Ok((text::owned_string((*at).type_)?, fallible_alloc::copy(array::bytes((*at).bytes.cast(), (*at).len))?))
    }
    write(regex, at) {
        (*at).type_ = copy_string_or_null(regex.0.as_deref())?;
        (*at).bytes = copy_bytes(&regex.1)?.cast();
        (*at).len = regex.1.len();
        Ok(())
    }
    destroy(at) {
        <*mut c_char>::destroy(&raw mut (*at).type_);
        free((*at).bytes);
        (*at).bytes = std::ptr::null_mut();
        (*at).len = 0;
    }
}

object! { pmix_proc_stats_t as ProcStats;
    read(at) {
        Ok(ProcStats {
            node: text::owned_string((*at).node)?,
            proc: pmix_proc_t::read(&raw const (*at).proc)?,
            pid: (*at).pid,
            cmd: text::owned_string((*at).cmd)?,
            state: (*at).state as u8,
            time: timeval::read(&raw const (*at).time)?,
            percent_cpu: (*at).percent_cpu,
            priority: (*at).priority,
            num_threads: (*at).num_threads,
            pss: (*at).pss,
            vsize: (*at).vsize,
            rss: (*at).rss,
            peak_vsize: (*at).peak_vsize,
            processor: (*at).processor,
            sample_time: timeval::read(&raw const (*at).sample_time)?,
        })
    }
    write(stats, at) {
        (*at).node = copy_string_or_null(stats.node.as_deref())?;
        pmix_proc_t::write(&stats.proc, &raw mut (*at).proc)?;
        (*at).pid = stats.pid;
        (*at).cmd = copy_string_or_null(stats.cmd.as_deref())?;
        (*at).state = stats.state as c_char;
        timeval::write(&stats.time, &raw mut (*at).time)?;
        (*at).percent_cpu = stats.percent_cpu;
        (*at).priority = stats.priority;
        (*at).num_threads = stats.num_threads;
        (*at).pss = stats.pss;
        (*at).vsize = stats.vsize;
        (*at).rss = stats.rss;
        (*at).peak_vsize = stats.peak_vsize;
        (*at).processor = stats.processor;
        timeval::write(&stats.sample_time, &raw mut (*at).sample_time)
    }
    destroy(at) {
        <*mut c_char>::destroy(&raw mut (*at).node);
        <*mut c_char>::destroy(&raw mut (*at).cmd);
    }
}

object! { pmix_disk_stats_t as DiskStats;
    read(at) {
        // The counts follow each other.
        Ok(DiskStats { disk: text::owned_string((*at).disk)?, counts: (&raw const (*at).num_reads_completed).cast::<[u64; 11]>().read() })
    }
    write(stats, at) {
        (*at).disk = copy_string_or_null(stats.disk.as_deref())?;
        (&raw mut (*at).num_reads_completed).cast::<[u64; 11]>().write(stats.counts);
        Ok(())
    }
    destroy(at) { <*mut c_char>::destroy(&raw mut (*at).disk) }
}

object! { pmix_net_stats_t as NetStats;
    read(at) {
        Ok(NetStats { interface: text::owned_string((*at).net_interface)?, counts: (&raw const (*at).num_bytes_recvd).cast::<[u64; 6]>().read() })
    }
    write(stats, at) {
        (*at).net_interface = copy_string_or_null(stats.interface.as_deref())?;
        (&raw mut (*at).num_bytes_recvd).cast::<[u64; 6]>().write(stats.counts);
        Ok(())
    }
    destroy(at) { <*mut c_char>::destroy(&raw mut (*at).net_interface) }
}

object! { pmix_node_stats_t as NodeStats;
    read(at) {
        Ok(NodeStats {
            node: text::owned_string((*at).node)?,
            amounts: (&raw const (*at).la).cast::<[f32; 11]>().read(),
            sample_time: timeval::read(&raw const (*at).sample_time)?,
            disks: array::read((*at).diskstats, (*at).ndiskstats)?,
            interfaces: array::read((*at).netstats, (*at).nnetstats)?,
        })
    }
    write(stats, at) {
        (*at).node = copy_string_or_null(stats.node.as_deref())?;
        (&raw mut (*at).la).cast::<[f32; 11]>().write(stats.amounts);
        timeval::write(&stats.sample_time, &raw mut (*at).sample_time)?;
        (*at).diskstats = array::write(&stats.disks)?;
        (*at).ndiskstats = stats.disks.len();
        (*at).netstats = array::write(&stats.interfaces)?;
        (*at).nnetstats = stats.interfaces.len();
        Ok(())
    }
    destroy(at) {
        <*mut c_char>::destroy(&raw mut (*at).node);
        destroy_array(&raw mut (*at).diskstats, &raw mut (*at).ndiskstats);
        destroy_array(&raw mut (*at).netstats, &raw mut (*at).nnetstats);
    }
}

/// Frees a list of strings inside a structure and forgets it.
///
/// # Safety
/// As [`free_string_list`].
unsafe fn destroy_list(list: *mut *mut *mut c_char) {
    // SAFETY: the caller's promise.
    unsafe {
        free_string_list(*list);
        *list = std::ptr::null_mut();
    }
}

/// Frees an array inside a structure and forgets it.
///
/// # Safety
/// `*items` is NULL or an array from `malloc` of `*count` structures.
unsafe fn destroy_array<T: Object>(items: *mut *mut T, count: *mut usize) {
    // SAFETY: the caller's promise.
    unsafe {
        array::free_array(*items, *count);
        *items = std::ptr::null_mut();
        *count = 0;
    }
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
            // SAFETY: the caller's promise, by type.
            unsafe {
                match ty {
                    $(DataType::$ty => <$c as Object>::read(at.cast()).map($read),)+
                    ty => Value::from_scalar(ty, read_bits(ty, at)?).ok_or(Status::ERR_UNKNOWN_DATA_TYPE),
                }
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
            // SAFETY: the caller's promise, by type.
            unsafe {
                match value {
                    $($pattern => <$c as Object>::write($model, at.cast()),)+
                    value => write_bits(value.data_type(), value.scalar_bits().ok_or(Status::ERR_NOT_SUPPORTED)?, at),
                }
            }
        }

        /// Frees what an object of any type holds.
        ///
        /// # Safety
        /// `at` points to an object of the type's C form whose contents come from `malloc`.
        pub unsafe fn destroy_any(ty: DataType, at: *mut c_void) {
            // SAFETY: the caller's promise, by type.
            unsafe {
                match ty {
                    $(DataType::$ty => <$c as Object>::destroy(at.cast()),)+
                    _ => {}
                }
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
