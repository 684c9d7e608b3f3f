//! Functions that construct, destruct, create and free the structures of the interface.
//!
//! `create` makes an array of constructed structures, in memory from `malloc`, which `free` frees. `destruct` leaves an empty
//! structure that may be destructed again. All functions accept NULL and do nothing with it.

use std::ptr;

use pmix_dstore::model::Rank;

use crate::convert::array;
use crate::convert::object::Object;
use crate::entry::entry;
use crate::memory::zeroed;
use crate::types::*;

/// A structure that can be made new. All zero is a valid value of it.
trait Construct: Sized {
    /// How many empty structures lie behind a new array.
    const BEHIND: usize = 0;

    /// Sets the fields that are not zero in a new structure. All others are zero already.
    fn fill(&mut self) {}
}

/// Makes a new structure, whose former contents do not count.
///
/// # Safety
/// `at` is NULL or has room for one structure.
unsafe fn construct<T: Construct>(at: *mut T) {
    if !at.is_null() {
        // SAFETY: not NULL, hence room for one structure, by the caller's promise.
        unsafe { at.write_bytes(0, 1) };
        // SAFETY: zeroed above, and all zero is an empty structure.
        unsafe { &mut *at }.fill();
    }
}

/// Frees what a structure holds.
///
/// # Safety
/// `at` is NULL or an initialised structure whose contents come from `malloc`.
unsafe fn destruct<T: Object>(at: *mut T) {
    if !at.is_null() {
        // SAFETY: not NULL, hence an initialised structure, by the caller's promise.
        unsafe { T::destroy(at) }
    }
}

/// An array of new structures; NULL for a count of zero, and where there is no memory.
fn create<T: Construct>(count: usize) -> *mut T {
    let behind = if count > 0 { T::BEHIND } else { 0 };
    let Ok(items) = zeroed::<T>(count.saturating_add(behind)) else { return ptr::null_mut() };
    for index in 0..count {
        // SAFETY: the array has `count` elements, and all zero is an empty structure.
        unsafe { &mut *items.add(index) }.fill();
    }
    items
}

/// Writes the four functions of structures.
macro_rules! lifecycle {
    ($($ty:ty: $construct:ident $($destruct:ident)?, $create:ident, $free:ident;)+) => {
        entry! {$(
            #[doc = concat!("`", stringify!($construct), "`.")]
            fn $construct(p: *mut $ty) {
                // SAFETY: `p` is NULL or has room for one structure.
                unsafe { construct(p) }
            }

            $(
                #[doc = concat!("`", stringify!($destruct), "`.")]
                fn $destruct(p: *mut $ty) {
                    // SAFETY: `p` is NULL or an initialised structure whose contents come from `malloc`.
                    unsafe { destruct(p) }
                }
            )?

            #[doc = concat!("`", stringify!($create), "`.")]
            fn $create(n: usize) -> *mut $ty {
                create(n)
            }

            #[doc = concat!("`", stringify!($free), "`.")]
            fn $free(p: *mut $ty, n: usize) {
                // SAFETY: `p` is NULL or an array of `n` structures from `malloc`, which the caller gives up.
                unsafe { array::free_array(p, n) }
            }
        )+}
    };
}

lifecycle! {
    pmix_value_t: PMIx_Value_construct, PMIx_Value_create, PMIx_Value_free;
    pmix_info_t: PMIx_Info_construct PMIx_Info_destruct, PMIx_Info_create, PMIx_Info_free;
    pmix_proc_t: PMIx_Proc_construct PMIx_Proc_destruct, PMIx_Proc_create, PMIx_Proc_free;
    pmix_proc_info_t: PMIx_Proc_info_construct PMIx_Proc_info_destruct, PMIx_Proc_info_create, PMIx_Proc_info_free;
    pmix_pdata_t: PMIx_Pdata_construct PMIx_Pdata_destruct, PMIx_Pdata_create, PMIx_Pdata_free;
    pmix_app_t: PMIx_App_construct PMIx_App_destruct, PMIx_App_create, PMIx_App_free;
    pmix_query_t: PMIx_Query_construct PMIx_Query_destruct, PMIx_Query_create, PMIx_Query_free;
    pmix_regattr_t: PMIx_Regattr_construct PMIx_Regattr_destruct, PMIx_Regattr_create, PMIx_Regattr_free;
    pmix_byte_object_t: PMIx_Byte_object_construct PMIx_Byte_object_destruct, PMIx_Byte_object_create,
        PMIx_Byte_object_free;
    pmix_endpoint_t: PMIx_Endpoint_construct PMIx_Endpoint_destruct, PMIx_Endpoint_create, PMIx_Endpoint_free;
    pmix_envar_t: PMIx_Envar_construct PMIx_Envar_destruct, PMIx_Envar_create, PMIx_Envar_free;
    pmix_geometry_t: PMIx_Geometry_construct PMIx_Geometry_destruct, PMIx_Geometry_create, PMIx_Geometry_free;
    pmix_device_t: PMIx_Device_construct PMIx_Device_destruct, PMIx_Device_create, PMIx_Device_free;
    pmix_device_distance_t: PMIx_Device_distance_construct PMIx_Device_distance_destruct, PMIx_Device_distance_create,
        PMIx_Device_distance_free;
    pmix_resource_unit_t: PMIx_Resource_unit_construct PMIx_Resource_unit_destruct, PMIx_Resource_unit_create,
        PMIx_Resource_unit_free;
    pmix_node_pid_t: PMIx_Node_pid_construct PMIx_Node_pid_destruct, PMIx_Node_pid_create, PMIx_Node_pid_free;
    pmix_cpuset_t: PMIx_Cpuset_construct, PMIx_Cpuset_create, PMIx_Cpuset_free;
    pmix_topology_t: PMIx_Topology_construct, PMIx_Topology_create, PMIx_Topology_free;
    pmix_regex2_t: PMIx_Regex2_construct PMIx_Regex2_destruct, PMIx_Regex2_create, PMIx_Regex2_free;
    pmix_proc_stats_t: PMIx_Proc_stats_construct PMIx_Proc_stats_destruct, PMIx_Proc_stats_create, PMIx_Proc_stats_free;
    pmix_disk_stats_t: PMIx_Disk_stats_construct PMIx_Disk_stats_destruct, PMIx_Disk_stats_create, PMIx_Disk_stats_free;
    pmix_net_stats_t: PMIx_Net_stats_construct PMIx_Net_stats_destruct, PMIx_Net_stats_create, PMIx_Net_stats_free;
    pmix_node_stats_t: PMIx_Node_stats_construct PMIx_Node_stats_destruct, PMIx_Node_stats_create, PMIx_Node_stats_free;
}

/// Structures that are zero when they are new.
macro_rules! new_is_zero {
    ($($ty:ty),+ $(,)?) => {$( impl Construct for $ty {} )+};
}

new_is_zero! {
    pmix_value_t, pmix_proc_info_t, pmix_pdata_t, pmix_app_t, pmix_query_t, pmix_regattr_t,
    pmix_byte_object_t, pmix_endpoint_t, pmix_envar_t, pmix_geometry_t, pmix_coord_t, pmix_device_t,
    pmix_resource_unit_t, pmix_cpuset_t, pmix_topology_t, pmix_regex2_t, pmix_data_buffer_t, pmix_proc_stats_t,
    pmix_disk_stats_t, pmix_net_stats_t, pmix_node_stats_t,
}

impl Construct for pmix_info_t {
    /// After a connect over several hosts PRRTE 3.0.8 destructs the info behind an array of one: a byte there that happens to say that
    /// the value is a string would free whatever lies there.
    const BEHIND: usize = 1;
}

impl Construct for pmix_proc_t {
    fn fill(&mut self) {
        self.rank = Rank::UNDEF.0;
    }
}

impl Construct for pmix_device_distance_t {
    fn fill(&mut self) {
        (self.mindist, self.maxdist) = (u16::MAX, u16::MAX);
    }
}

impl Construct for pmix_node_pid_t {
    fn fill(&mut self) {
        (self.nodeid, self.pid) = (u32::MAX, -1);
    }
}

impl Construct for pmix_fabric_t {
    fn fill(&mut self) {
        self.index = usize::MAX;
    }
}

entry! {
    /// `PMIx_Coord_construct`.
    fn PMIx_Coord_construct(m: *mut pmix_coord_t) {
        // SAFETY: `m` is NULL or has room for one point.
        unsafe { construct(m) }
    }

    /// `PMIx_Coord_destruct`.
    fn PMIx_Coord_destruct(m: *mut pmix_coord_t) {
        // SAFETY: `m` is NULL or an initialised point whose contents come from `malloc`.
        unsafe { destruct(m) }
    }

    /// `PMIx_Coord_create`: `number` points, all at the origin of a space of `dims` dimensions.
    fn PMIx_Coord_create(dims: usize, number: usize) -> *mut pmix_coord_t {
        let points = create::<pmix_coord_t>(number);
        if points.is_null() {
            return points;
        }
        for index in 0..number {
            let Ok(numbers) = zeroed::<u32>(dims) else {
                // SAFETY: the array made above, of `number` points; those that have no numbers yet are empty.
                unsafe { array::free_array(points, number) };
                return ptr::null_mut();
            };
            // SAFETY: the array made above has `number` points.
            let point = unsafe { &mut *points.add(index) };
            (point.coord, point.dims) = (numbers, dims);
        }
        points
    }

    /// `PMIx_Coord_free`.
    fn PMIx_Coord_free(m: *mut pmix_coord_t, number: usize) {
        // SAFETY: `m` is NULL or an array of `number` points from `malloc`, which the caller gives up.
        unsafe { array::free_array(m, number) }
    }

    /// `PMIx_Data_buffer_construct`.
    fn PMIx_Data_buffer_construct(b: *mut pmix_data_buffer_t) {
        // SAFETY: `b` is NULL or has room for one buffer.
        unsafe { construct(b) }
    }

    /// `PMIx_Data_buffer_destruct`.
    fn PMIx_Data_buffer_destruct(b: *mut pmix_data_buffer_t) {
        // SAFETY: `b` is NULL or an initialised buffer whose memory comes from `malloc`.
        unsafe { destruct(b) }
    }

    /// `PMIx_Data_buffer_create`.
    fn PMIx_Data_buffer_create() -> *mut pmix_data_buffer_t {
        create(1)
    }

    /// `PMIx_Data_buffer_release`.
    fn PMIx_Data_buffer_release(b: *mut pmix_data_buffer_t) {
        // SAFETY: `b` is NULL or one buffer from `malloc`, which the caller gives up.
        unsafe { array::free_array(b, 1) }
    }

    /// `PMIx_App_release`: frees one application.
    fn PMIx_App_release(p: *mut pmix_app_t) {
        // SAFETY: `p` is NULL or one application from `malloc`, which the caller gives up.
        unsafe { array::free_array(p, 1) }
    }

    /// `PMIx_App_info_create`: gives an application new infos.
    fn PMIx_App_info_create(p: *mut pmix_app_t, n: usize) {
        // SAFETY: `p` is NULL or an initialised application of the caller's.
        if let Some(app) = unsafe { p.as_mut() } {
            app.info = create(n);
            app.ninfo = if app.info.is_null() { 0 } else { n };
        }
    }

    /// `PMIx_Query_release`: frees one query.
    fn PMIx_Query_release(p: *mut pmix_query_t) {
        // SAFETY: `p` is NULL or one query from `malloc`, which the caller gives up.
        unsafe { array::free_array(p, 1) }
    }

    /// `PMIx_Query_qualifiers_create`: gives a query new qualifiers.
    fn PMIx_Query_qualifiers_create(p: *mut pmix_query_t, n: usize) {
        // SAFETY: `p` is NULL or an initialised query of the caller's.
        if let Some(query) = unsafe { p.as_mut() } {
            query.qualifiers = create(n);
            query.nqual = if query.qualifiers.is_null() { 0 } else { n };
        }
    }

    /// `PMIx_Fabric_construct`: a fabric that is not registered.
    fn PMIx_Fabric_construct(p: *mut pmix_fabric_t) {
        // SAFETY: `p` is NULL or has room for one fabric.
        unsafe { construct(p) }
    }
}

#[cfg(test)]
mod tests {
    use pmix_dstore::model::DataType;

    use super::*;

    #[test]
    fn arrays_hold_new_structures() {
        // SAFETY: the arrays are as long as they were made, and freed once.
        unsafe {
            assert!(PMIx_Info_create(0).is_null());
            let procs = PMIx_Proc_create(3);
            assert!((0..3).all(|index| (*procs.add(index)).rank == u32::MAX));
            PMIx_Proc_free(procs, 3);
            let distances = PMIx_Device_distance_create(2);
            assert_eq!(((*distances.add(1)).mindist, (*distances.add(1)).maxdist), (0xffff, 0xffff));
            PMIx_Device_distance_free(distances, 2);
            let points = PMIx_Coord_create(4, 2);
            assert_eq!((*points.add(1)).dims, 4);
            assert_eq!(std::slice::from_raw_parts((*points.add(1)).coord, 4), [0; 4]);
            PMIx_Coord_free(points, 2);
        }
    }

    #[test]
    fn the_info_behind_an_array_is_empty() {
        // SAFETY: `create` makes one info more than it was asked for; the arrays are freed once.
        unsafe {
            for count in [1, 3] {
                let infos = PMIx_Info_create(count);
                assert!(libc::malloc_usable_size(infos.cast()) >= (count + 1) * size_of::<pmix_info_t>());
                let behind = infos.add(count);
                assert_eq!(((*behind).value.type_, (*behind).key[0]), (DataType::UNDEF.0, 0));
                PMIx_Info_destruct(behind);
                PMIx_Info_free(infos, count);
            }
        }
    }

    #[test]
    fn destructed_structures_are_empty() {
        // SAFETY: structures on the stack whose contents come from malloc.
        unsafe {
            let mut app = std::mem::MaybeUninit::<pmix_app_t>::uninit();
            let app = app.as_mut_ptr();
            PMIx_App_construct(app);
            (*app).cmd = crate::memory::copy_text(b"a.out").unwrap();
            PMIx_App_info_create(app, 2);
            assert_eq!((*app).ninfo, 2);
            for _ in 0..2 {
                PMIx_App_destruct(app);
                assert!((*app).cmd.is_null() && (*app).info.is_null() && (*app).ninfo == 0);
            }
        }
    }

    #[test]
    fn a_value_that_holds_nothing_is_not_written() {
        use crate::api::helpers::PMIx_Value_destruct;
        // SAFETY: an info on the stack, of which each byte is written; no type in it holds anything.
        unsafe {
            let mut info = std::mem::MaybeUninit::<pmix_info_t>::uninit();
            let info = info.as_mut_ptr();
            let bytes = std::slice::from_raw_parts(info.cast::<u8>(), size_of::<pmix_info_t>());
            for ty in [DataType::UNDEF.0, DataType::INFO.0, 4711] {
                info.write_bytes(0x6e, 1);
                (*info).flags = 0;
                (*info).value.type_ = ty;
                let before = bytes.to_vec();
                PMIx_Info_destruct(info);
                PMIx_Value_destruct(&raw mut (*info).value);
                assert!(*bytes == before, "type {ty}");
            }
        }
    }

    #[test]
    fn null_is_ignored() {
        // SAFETY: NULL is allowed everywhere.
        unsafe {
            PMIx_Value_construct(ptr::null_mut());
            PMIx_Info_destruct(ptr::null_mut());
            PMIx_Query_free(ptr::null_mut(), 3);
            PMIx_Data_buffer_release(ptr::null_mut());
            PMIx_Fabric_construct(ptr::null_mut());
            PMIx_App_info_create(ptr::null_mut(), 1);
        }
    }
}
