//! The structures and callback types of the C interface.
//!
//! Names and members are those of the C headers; sizes and offsets are checked against what was measured in the
//! releases 4.2.2 to 7.0. All of them agree, except about the server module.

// Every item here is a C declaration that the standard documents under the same name.
#![allow(missing_docs, non_camel_case_types)]

use std::ffi::{c_char, c_int, c_void};

use libc::{pid_t, timeval};

/// Checks size, alignment and offsets of a structure at compile time.
macro_rules! layout {
    ($name:ident, $size:literal, $align:literal; $($field:ident @ $offset:literal),* $(,)?) => {
        const _: () = assert!(
            size_of::<$name>() == $size
                && align_of::<$name>() == $align
                $(&& std::mem::offset_of!($name, $field) == $offset)*
        );
    };
}

/// `PMIX_MAX_NSLEN + 1` bytes: a namespace, NUL-terminated.
pub type pmix_nspace_t = [c_char; 256];
/// `PMIX_MAX_KEYLEN + 1` bytes: a key, NUL-terminated.
pub type pmix_key_t = [c_char; 512];
pub type pmix_value_cmp_t = c_int;
/// [`BOOL_TRUE`], [`BOOL_FALSE`] or [`NON_BOOL`].
pub type pmix_boolean_t = c_int;
/// `PMIX_BOOL_TRUE`, which is zero.
pub const BOOL_TRUE: pmix_boolean_t = 0;
/// `PMIX_BOOL_FALSE`.
pub const BOOL_FALSE: pmix_boolean_t = 1;
/// `PMIX_NON_BOOL`.
pub const NON_BOOL: pmix_boolean_t = 2;
pub type pmix_group_opt_t = c_int;
pub type pmix_group_operation_t = c_int;
pub type pmix_fabric_operation_t = c_int;

/// What a value holds: by itself for numbers, strings, byte objects and environment variables, by pointer otherwise.
///
/// Numbers are read and written through `bytes`, by the width of their type.
#[repr(C)]
#[derive(Clone, Copy)]
pub union pmix_value_data {
    pub bytes: [u8; 24],
    pub words: [u64; 3],
    pub string: *mut c_char,
    pub pointer: *mut c_void,
    pub tv: timeval,
    pub bo: pmix_byte_object_t,
    pub envar: pmix_envar_t,
    pub darray: *mut pmix_data_array_t,
    pub proc: *mut pmix_proc_t,
}
pub type pmix_rank_t = u32;
pub type pmix_proc_state_t = u8;
pub type pmix_job_state_t = u8;
pub type pmix_status_t = c_int;
pub type pmix_data_type_t = u16;
pub type pmix_scope_t = u8;
pub type pmix_data_range_t = u8;
pub type pmix_persistence_t = u8;
pub type pmix_info_directives_t = u32;
pub type pmix_alloc_directive_t = u8;
pub type pmix_alloc_inheritance_t = u8;
pub type pmix_resource_block_directive_t = u8;
pub type pmix_iof_channel_t = u16;
pub type pmix_storage_medium_t = u64;
pub type pmix_storage_accessibility_t = u64;
pub type pmix_storage_persistence_t = u64;
pub type pmix_storage_access_type_t = u16;
pub type pmix_coord_view_t = u8;
pub type pmix_link_state_t = u8;
pub type pmix_bind_envelope_t = u8;
pub type pmix_locality_t = u16;
pub type pmix_device_type_t = u64;

#[repr(C)]
#[derive(Clone, Copy)]
pub struct pmix_coord_t {
    pub view: pmix_coord_view_t,
    pub coord: *mut u32,
    pub dims: usize,
}
layout!(pmix_coord_t, 24, 8; view @ 0, coord @ 8, dims @ 16);

#[repr(C)]
#[derive(Clone, Copy)]
pub struct pmix_cpuset_t {
    pub source: *mut c_char,
    pub bitmap: *mut c_void,
}
layout!(pmix_cpuset_t, 16, 8; source @ 0, bitmap @ 8);

#[repr(C)]
#[derive(Clone, Copy)]
pub struct pmix_topology_t {
    pub source: *mut c_char,
    pub topology: *mut c_void,
}
layout!(pmix_topology_t, 16, 8; source @ 0, topology @ 8);

#[repr(C)]
#[derive(Clone, Copy)]
pub struct pmix_geometry_t {
    pub fabric: usize,
    pub uuid: *mut c_char,
    pub osname: *mut c_char,
    pub coordinates: *mut pmix_coord_t,
    pub ncoords: usize,
}
layout!(pmix_geometry_t, 40, 8; fabric @ 0, uuid @ 8, osname @ 16, coordinates @ 24, ncoords @ 32);

#[repr(C)]
#[derive(Clone, Copy)]
pub struct pmix_device_t {
    pub uuid: *mut c_char,
    pub osname: *mut c_char,
    pub type_: pmix_device_type_t,
}
layout!(pmix_device_t, 24, 8; uuid @ 0, osname @ 8, type_ @ 16);

#[repr(C)]
#[derive(Clone, Copy)]
pub struct pmix_resource_unit_t {
    pub type_: pmix_device_type_t,
    pub count: usize,
}
layout!(pmix_resource_unit_t, 16, 8; type_ @ 0, count @ 8);

#[repr(C)]
#[derive(Clone, Copy)]
pub struct pmix_device_distance_t {
    pub uuid: *mut c_char,
    pub osname: *mut c_char,
    pub type_: pmix_device_type_t,
    pub mindist: u16,
    pub maxdist: u16,
}
layout!(pmix_device_distance_t, 32, 8; uuid @ 0, osname @ 8, type_ @ 16, mindist @ 24, maxdist @ 26);

#[repr(C)]
#[derive(Clone, Copy)]
pub struct pmix_node_pid_t {
    pub hostname: *mut c_char,
    pub nodeid: u32,
    pub pid: pid_t,
}
layout!(pmix_node_pid_t, 16, 8; hostname @ 0, nodeid @ 8, pid @ 12);

#[repr(C)]
#[derive(Clone, Copy)]
pub struct pmix_byte_object_t {
    pub bytes: *mut c_char,
    pub size: usize,
}
layout!(pmix_byte_object_t, 16, 8; bytes @ 0, size @ 8);

#[repr(C)]
#[derive(Clone, Copy)]
pub struct pmix_regex2_t {
    pub type_: *mut c_char,
    pub bytes: *mut u8,
    pub len: usize,
}
layout!(pmix_regex2_t, 24, 8; type_ @ 0, bytes @ 8, len @ 16);

#[repr(C)]
#[derive(Clone, Copy)]
pub struct pmix_endpoint_t {
    pub uuid: *mut c_char,
    pub osname: *mut c_char,
    pub endpt: pmix_byte_object_t,
}
layout!(pmix_endpoint_t, 32, 8; uuid @ 0, osname @ 8, endpt @ 16);

#[repr(C)]
#[derive(Clone, Copy)]
pub struct pmix_envar_t {
    pub envar: *mut c_char,
    pub value: *mut c_char,
    pub separator: c_char,
}
layout!(pmix_envar_t, 24, 8; envar @ 0, value @ 8, separator @ 16);

#[repr(C)]
#[derive(Clone, Copy)]
pub struct pmix_data_buffer_t {
    pub base_ptr: *mut c_char,
    pub pack_ptr: *mut c_char,
    pub unpack_ptr: *mut c_char,
    pub bytes_allocated: usize,
    pub bytes_used: usize,
}
layout!(pmix_data_buffer_t, 40, 8; base_ptr @ 0, pack_ptr @ 8, unpack_ptr @ 16, bytes_allocated @ 24, bytes_used @ 32);

#[repr(C)]
#[derive(Clone, Copy)]
pub struct pmix_proc_t {
    pub nspace: pmix_nspace_t,
    pub rank: pmix_rank_t,
}
layout!(pmix_proc_t, 260, 4; nspace @ 0, rank @ 256);

#[repr(C)]
#[derive(Clone, Copy)]
pub struct pmix_proc_info_t {
    pub proc: pmix_proc_t,
    pub hostname: *mut c_char,
    pub executable_name: *mut c_char,
    pub pid: pid_t,
    pub exit_code: c_int,
    pub state: pmix_proc_state_t,
}
layout!(
    pmix_proc_info_t, 296, 8;
    proc @ 0, hostname @ 264, executable_name @ 272, pid @ 280, exit_code @ 284, state @ 288
);

#[repr(C)]
#[derive(Clone, Copy)]
pub struct pmix_data_array_t {
    pub type_: pmix_data_type_t,
    pub size: usize,
    pub array: *mut c_void,
}
layout!(pmix_data_array_t, 24, 8; type_ @ 0, size @ 8, array @ 16);

#[repr(C)]
#[derive(Clone, Copy)]
pub struct pmix_value_t {
    pub type_: pmix_data_type_t,
    pub data: pmix_value_data,
}
layout!(pmix_value_t, 32, 8; type_ @ 0, data @ 8);

#[repr(C)]
#[derive(Clone, Copy)]
pub struct pmix_info_t {
    pub key: pmix_key_t,
    pub flags: pmix_info_directives_t,
    pub value: pmix_value_t,
}
layout!(pmix_info_t, 552, 8; key @ 0, flags @ 512, value @ 520);

#[repr(C)]
#[derive(Clone, Copy)]
pub struct pmix_pdata_t {
    pub proc: pmix_proc_t,
    pub key: pmix_key_t,
    pub value: pmix_value_t,
}
layout!(pmix_pdata_t, 808, 8; proc @ 0, key @ 260, value @ 776);

#[repr(C)]
#[derive(Clone, Copy)]
pub struct pmix_app_t {
    pub cmd: *mut c_char,
    pub argv: *mut *mut c_char,
    pub env: *mut *mut c_char,
    pub cwd: *mut c_char,
    pub maxprocs: c_int,
    pub info: *mut pmix_info_t,
    pub ninfo: usize,
}
layout!(pmix_app_t, 56, 8; cmd @ 0, argv @ 8, env @ 16, cwd @ 24, maxprocs @ 32, info @ 40, ninfo @ 48);

#[repr(C)]
#[derive(Clone, Copy)]
pub struct pmix_query_t {
    pub keys: *mut *mut c_char,
    pub qualifiers: *mut pmix_info_t,
    pub nqual: usize,
}
layout!(pmix_query_t, 24, 8; keys @ 0, qualifiers @ 8, nqual @ 16);

#[repr(C)]
#[derive(Clone, Copy)]
pub struct pmix_regattr_t {
    pub name: *mut c_char,
    pub string: pmix_key_t,
    pub type_: pmix_data_type_t,
    pub description: *mut *mut c_char,
}
layout!(pmix_regattr_t, 536, 8; name @ 0, string @ 8, type_ @ 520, description @ 528);

#[repr(C)]
#[derive(Clone, Copy)]
pub struct pmix_fabric_t {
    pub name: *mut c_char,
    pub index: usize,
    pub info: *mut pmix_info_t,
    pub ninfo: usize,
    pub module: *mut c_void,
}
layout!(pmix_fabric_t, 40, 8; name @ 0, index @ 8, info @ 16, ninfo @ 24, module @ 32);

/// The 28 slots that every release of the library has. A host built against an older header passes no more than
/// these, so nothing behind them is ever read.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pmix_server_module_t {
    pub client_connected: Option<pmix_server_client_connected_fn_t>,
    pub client_finalized: Option<pmix_server_client_finalized_fn_t>,
    pub abort: Option<pmix_server_abort_fn_t>,
    pub fence_nb: Option<pmix_server_fencenb_fn_t>,
    pub direct_modex: Option<pmix_server_dmodex_req_fn_t>,
    pub publish: Option<pmix_server_publish_fn_t>,
    pub lookup: Option<pmix_server_lookup_fn_t>,
    pub unpublish: Option<pmix_server_unpublish_fn_t>,
    pub spawn: Option<pmix_server_spawn_fn_t>,
    pub connect: Option<pmix_server_connect_fn_t>,
    pub disconnect: Option<pmix_server_disconnect_fn_t>,
    pub register_events: Option<pmix_server_register_events_fn_t>,
    pub deregister_events: Option<pmix_server_deregister_events_fn_t>,
    pub listener: Option<pmix_server_listener_fn_t>,
    pub notify_event: Option<pmix_server_notify_event_fn_t>,
    pub query: Option<pmix_server_query_fn_t>,
    pub tool_connected: Option<pmix_server_tool_connection_fn_t>,
    pub log: Option<pmix_server_log_fn_t>,
    pub allocate: Option<pmix_server_alloc_fn_t>,
    pub job_control: Option<pmix_server_job_control_fn_t>,
    pub monitor: Option<pmix_server_monitor_fn_t>,
    pub get_credential: Option<pmix_server_get_cred_fn_t>,
    pub validate_credential: Option<pmix_server_validate_cred_fn_t>,
    pub iof_pull: Option<pmix_server_iof_fn_t>,
    pub push_stdin: Option<pmix_server_stdin_fn_t>,
    pub group: Option<pmix_server_grp_fn_t>,
    pub fabric: Option<pmix_server_fabric_fn_t>,
    pub client_connected2: Option<pmix_server_client_connected2_fn_t>,
}
layout!(
    pmix_server_module_t, 224, 8;
    client_connected @ 0, client_finalized @ 8, abort @ 16, fence_nb @ 24, direct_modex @ 32, publish @ 40, lookup @ 48,
    unpublish @ 56, spawn @ 64, connect @ 72, disconnect @ 80, register_events @ 88, deregister_events @ 96,
    listener @ 104, notify_event @ 112, query @ 120, tool_connected @ 128, log @ 136, allocate @ 144, job_control @ 152,
    monitor @ 160, get_credential @ 168, validate_credential @ 176, iof_pull @ 184, push_stdin @ 192, group @ 200,
    fabric @ 208, client_connected2 @ 216
);

#[repr(C)]
#[derive(Clone, Copy)]
pub struct pmix_proc_stats_t {
    pub node: *mut c_char,
    pub proc: pmix_proc_t,
    pub pid: pid_t,
    pub cmd: *mut c_char,
    pub state: c_char,
    pub time: timeval,
    pub percent_cpu: f32,
    pub priority: i32,
    pub num_threads: u16,
    pub pss: f32,
    pub vsize: f32,
    pub rss: f32,
    pub peak_vsize: f32,
    pub processor: u16,
    pub sample_time: timeval,
}
layout!(
    pmix_proc_stats_t, 352, 8;
    node @ 0, proc @ 8, pid @ 268, cmd @ 272, state @ 280, time @ 288, percent_cpu @ 304, priority @ 308,
    num_threads @ 312, pss @ 316, vsize @ 320, rss @ 324, peak_vsize @ 328, processor @ 332, sample_time @ 336
);

#[repr(C)]
#[derive(Clone, Copy)]
pub struct pmix_disk_stats_t {
    pub disk: *mut c_char,
    pub num_reads_completed: u64,
    pub num_reads_merged: u64,
    pub num_sectors_read: u64,
    pub milliseconds_reading: u64,
    pub num_writes_completed: u64,
    pub num_writes_merged: u64,
    pub num_sectors_written: u64,
    pub milliseconds_writing: u64,
    pub num_ios_in_progress: u64,
    pub milliseconds_io: u64,
    pub weighted_milliseconds_io: u64,
}
layout!(
    pmix_disk_stats_t, 96, 8;
    disk @ 0, num_reads_completed @ 8, num_reads_merged @ 16, num_sectors_read @ 24, milliseconds_reading @ 32,
    num_writes_completed @ 40, num_writes_merged @ 48, num_sectors_written @ 56, milliseconds_writing @ 64,
    num_ios_in_progress @ 72, milliseconds_io @ 80, weighted_milliseconds_io @ 88
);

#[repr(C)]
#[derive(Clone, Copy)]
pub struct pmix_net_stats_t {
    pub net_interface: *mut c_char,
    pub num_bytes_recvd: u64,
    pub num_packets_recvd: u64,
    pub num_recv_errs: u64,
    pub num_bytes_sent: u64,
    pub num_packets_sent: u64,
    pub num_send_errs: u64,
}
layout!(
    pmix_net_stats_t, 56, 8;
    net_interface @ 0, num_bytes_recvd @ 8, num_packets_recvd @ 16, num_recv_errs @ 24, num_bytes_sent @ 32,
    num_packets_sent @ 40, num_send_errs @ 48
);

#[repr(C)]
#[derive(Clone, Copy)]
pub struct pmix_node_stats_t {
    pub node: *mut c_char,
    pub la: f32,
    pub la5: f32,
    pub la15: f32,
    pub total_mem: f32,
    pub free_mem: f32,
    pub buffers: f32,
    pub cached: f32,
    pub swap_cached: f32,
    pub swap_total: f32,
    pub swap_free: f32,
    pub mapped: f32,
    pub sample_time: timeval,
    pub diskstats: *mut pmix_disk_stats_t,
    pub ndiskstats: usize,
    pub netstats: *mut pmix_net_stats_t,
    pub nnetstats: usize,
}
layout!(
    pmix_node_stats_t, 104, 8;
    node @ 0, la @ 8, la5 @ 12, la15 @ 16, total_mem @ 20, free_mem @ 24, buffers @ 28, cached @ 32, swap_cached @ 36,
    swap_total @ 40, swap_free @ 44, mapped @ 48, sample_time @ 56, diskstats @ 72, ndiskstats @ 80, netstats @ 88,
    nnetstats @ 96
);

pub type pmix_release_cbfunc_t = unsafe extern "C" fn(cbdata: *mut c_void);
pub type pmix_modex_cbfunc_t = unsafe extern "C" fn(
    status: pmix_status_t,
    data: *const c_char,
    ndata: usize,
    cbdata: *mut c_void,
    release_fn: Option<pmix_release_cbfunc_t>,
    release_cbdata: *mut c_void,
);
pub type pmix_spawn_cbfunc_t = unsafe extern "C" fn(status: pmix_status_t, nspace: *mut c_char, cbdata: *mut c_void);
pub type pmix_op_cbfunc_t = unsafe extern "C" fn(status: pmix_status_t, cbdata: *mut c_void);
pub type pmix_lookup_cbfunc_t =
    unsafe extern "C" fn(status: pmix_status_t, data: *mut pmix_pdata_t, ndata: usize, cbdata: *mut c_void);
pub type pmix_event_notification_cbfunc_fn_t = unsafe extern "C" fn(
    status: pmix_status_t,
    results: *mut pmix_info_t,
    nresults: usize,
    cbfunc: Option<pmix_op_cbfunc_t>,
    thiscbdata: *mut c_void,
    notification_cbdata: *mut c_void,
);
pub type pmix_notification_fn_t = unsafe extern "C" fn(
    evhdlr_registration_id: usize,
    status: pmix_status_t,
    source: *const pmix_proc_t,
    info: *mut pmix_info_t,
    ninfo: usize,
    results: *mut pmix_info_t,
    nresults: usize,
    cbfunc: Option<pmix_event_notification_cbfunc_fn_t>,
    cbdata: *mut c_void,
);
pub type pmix_hdlr_reg_cbfunc_t = unsafe extern "C" fn(status: pmix_status_t, refid: usize, cbdata: *mut c_void);
pub type pmix_evhdlr_reg_cbfunc_t = unsafe extern "C" fn(status: pmix_status_t, refid: usize, cbdata: *mut c_void);
pub type pmix_value_cbfunc_t = unsafe extern "C" fn(status: pmix_status_t, kv: *mut pmix_value_t, cbdata: *mut c_void);
pub type pmix_info_cbfunc_t = unsafe extern "C" fn(
    status: pmix_status_t,
    info: *mut pmix_info_t,
    ninfo: usize,
    cbdata: *mut c_void,
    release_fn: Option<pmix_release_cbfunc_t>,
    release_cbdata: *mut c_void,
);
pub type pmix_credential_cbfunc_t = unsafe extern "C" fn(
    status: pmix_status_t,
    credential: *mut pmix_byte_object_t,
    info: *mut pmix_info_t,
    ninfo: usize,
    cbdata: *mut c_void,
);
pub type pmix_validation_cbfunc_t =
    unsafe extern "C" fn(status: pmix_status_t, info: *mut pmix_info_t, ninfo: usize, cbdata: *mut c_void);
pub type pmix_device_dist_cbfunc_t = unsafe extern "C" fn(
    status: pmix_status_t,
    dist: *mut pmix_device_distance_t,
    ndist: usize,
    cbdata: *mut c_void,
    release_fn: Option<pmix_release_cbfunc_t>,
    release_cbdata: *mut c_void,
);
pub type pmix_server_client_connected_fn_t = unsafe extern "C" fn(
    proc: *const pmix_proc_t,
    server_object: *mut c_void,
    cbfunc: Option<pmix_op_cbfunc_t>,
    cbdata: *mut c_void,
) -> pmix_status_t;
pub type pmix_server_client_connected2_fn_t = unsafe extern "C" fn(
    proc: *const pmix_proc_t,
    server_object: *mut c_void,
    info: *mut pmix_info_t,
    ninfo: usize,
    cbfunc: Option<pmix_op_cbfunc_t>,
    cbdata: *mut c_void,
) -> pmix_status_t;
pub type pmix_server_client_finalized_fn_t = unsafe extern "C" fn(
    proc: *const pmix_proc_t,
    server_object: *mut c_void,
    cbfunc: Option<pmix_op_cbfunc_t>,
    cbdata: *mut c_void,
) -> pmix_status_t;
pub type pmix_server_abort_fn_t = unsafe extern "C" fn(
    proc: *const pmix_proc_t,
    server_object: *mut c_void,
    status: c_int,
    msg: *const c_char,
    procs: *mut pmix_proc_t,
    nprocs: usize,
    cbfunc: Option<pmix_op_cbfunc_t>,
    cbdata: *mut c_void,
) -> pmix_status_t;
pub type pmix_server_fencenb_fn_t = unsafe extern "C" fn(
    procs: *const pmix_proc_t,
    nprocs: usize,
    info: *const pmix_info_t,
    ninfo: usize,
    data: *mut c_char,
    ndata: usize,
    cbfunc: Option<pmix_modex_cbfunc_t>,
    cbdata: *mut c_void,
) -> pmix_status_t;
pub type pmix_server_dmodex_req_fn_t = unsafe extern "C" fn(
    proc: *const pmix_proc_t,
    info: *const pmix_info_t,
    ninfo: usize,
    cbfunc: Option<pmix_modex_cbfunc_t>,
    cbdata: *mut c_void,
) -> pmix_status_t;
pub type pmix_server_publish_fn_t = unsafe extern "C" fn(
    proc: *const pmix_proc_t,
    info: *const pmix_info_t,
    ninfo: usize,
    cbfunc: Option<pmix_op_cbfunc_t>,
    cbdata: *mut c_void,
) -> pmix_status_t;
pub type pmix_server_lookup_fn_t = unsafe extern "C" fn(
    proc: *const pmix_proc_t,
    keys: *mut *mut c_char,
    info: *const pmix_info_t,
    ninfo: usize,
    cbfunc: Option<pmix_lookup_cbfunc_t>,
    cbdata: *mut c_void,
) -> pmix_status_t;
pub type pmix_server_unpublish_fn_t = unsafe extern "C" fn(
    proc: *const pmix_proc_t,
    keys: *mut *mut c_char,
    info: *const pmix_info_t,
    ninfo: usize,
    cbfunc: Option<pmix_op_cbfunc_t>,
    cbdata: *mut c_void,
) -> pmix_status_t;
pub type pmix_server_spawn_fn_t = unsafe extern "C" fn(
    proc: *const pmix_proc_t,
    job_info: *const pmix_info_t,
    ninfo: usize,
    apps: *const pmix_app_t,
    napps: usize,
    cbfunc: Option<pmix_spawn_cbfunc_t>,
    cbdata: *mut c_void,
) -> pmix_status_t;
pub type pmix_server_connect_fn_t = unsafe extern "C" fn(
    procs: *const pmix_proc_t,
    nprocs: usize,
    info: *const pmix_info_t,
    ninfo: usize,
    cbfunc: Option<pmix_op_cbfunc_t>,
    cbdata: *mut c_void,
) -> pmix_status_t;
pub type pmix_server_disconnect_fn_t = unsafe extern "C" fn(
    procs: *const pmix_proc_t,
    nprocs: usize,
    info: *const pmix_info_t,
    ninfo: usize,
    cbfunc: Option<pmix_op_cbfunc_t>,
    cbdata: *mut c_void,
) -> pmix_status_t;
pub type pmix_server_register_events_fn_t = unsafe extern "C" fn(
    codes: *mut pmix_status_t,
    ncodes: usize,
    info: *const pmix_info_t,
    ninfo: usize,
    cbfunc: Option<pmix_op_cbfunc_t>,
    cbdata: *mut c_void,
) -> pmix_status_t;
pub type pmix_server_deregister_events_fn_t = unsafe extern "C" fn(
    codes: *mut pmix_status_t,
    ncodes: usize,
    cbfunc: Option<pmix_op_cbfunc_t>,
    cbdata: *mut c_void,
) -> pmix_status_t;
pub type pmix_server_notify_event_fn_t = unsafe extern "C" fn(
    code: pmix_status_t,
    source: *const pmix_proc_t,
    range: pmix_data_range_t,
    info: *mut pmix_info_t,
    ninfo: usize,
    cbfunc: Option<pmix_op_cbfunc_t>,
    cbdata: *mut c_void,
) -> pmix_status_t;
pub type pmix_connection_cbfunc_t = unsafe extern "C" fn(incoming_sd: c_int, cbdata: *mut c_void);
pub type pmix_server_listener_fn_t = unsafe extern "C" fn(
    listening_sd: c_int,
    cbfunc: Option<pmix_connection_cbfunc_t>,
    cbdata: *mut c_void,
) -> pmix_status_t;
pub type pmix_server_query_fn_t = unsafe extern "C" fn(
    proct: *mut pmix_proc_t,
    queries: *mut pmix_query_t,
    nqueries: usize,
    cbfunc: Option<pmix_info_cbfunc_t>,
    cbdata: *mut c_void,
) -> pmix_status_t;
pub type pmix_tool_connection_cbfunc_t =
    unsafe extern "C" fn(status: pmix_status_t, proc: *mut pmix_proc_t, cbdata: *mut c_void);
pub type pmix_server_tool_connection_fn_t = unsafe extern "C" fn(
    info: *mut pmix_info_t,
    ninfo: usize,
    cbfunc: Option<pmix_tool_connection_cbfunc_t>,
    cbdata: *mut c_void,
);
pub type pmix_server_log_fn_t = unsafe extern "C" fn(
    client: *const pmix_proc_t,
    data: *const pmix_info_t,
    ndata: usize,
    directives: *const pmix_info_t,
    ndirs: usize,
    cbfunc: Option<pmix_op_cbfunc_t>,
    cbdata: *mut c_void,
);
pub type pmix_server_alloc_fn_t = unsafe extern "C" fn(
    client: *const pmix_proc_t,
    directive: pmix_alloc_directive_t,
    data: *const pmix_info_t,
    ndata: usize,
    cbfunc: Option<pmix_info_cbfunc_t>,
    cbdata: *mut c_void,
) -> pmix_status_t;
pub type pmix_server_job_control_fn_t = unsafe extern "C" fn(
    requestor: *const pmix_proc_t,
    targets: *const pmix_proc_t,
    ntargets: usize,
    directives: *const pmix_info_t,
    ndirs: usize,
    cbfunc: Option<pmix_info_cbfunc_t>,
    cbdata: *mut c_void,
) -> pmix_status_t;
pub type pmix_server_monitor_fn_t = unsafe extern "C" fn(
    requestor: *const pmix_proc_t,
    monitor: *const pmix_info_t,
    error: pmix_status_t,
    directives: *const pmix_info_t,
    ndirs: usize,
    cbfunc: Option<pmix_info_cbfunc_t>,
    cbdata: *mut c_void,
) -> pmix_status_t;
pub type pmix_server_get_cred_fn_t = unsafe extern "C" fn(
    proc: *const pmix_proc_t,
    directives: *const pmix_info_t,
    ndirs: usize,
    cbfunc: Option<pmix_credential_cbfunc_t>,
    cbdata: *mut c_void,
) -> pmix_status_t;
pub type pmix_server_validate_cred_fn_t = unsafe extern "C" fn(
    proc: *const pmix_proc_t,
    cred: *const pmix_byte_object_t,
    directives: *const pmix_info_t,
    ndirs: usize,
    cbfunc: Option<pmix_validation_cbfunc_t>,
    cbdata: *mut c_void,
) -> pmix_status_t;
pub type pmix_server_iof_fn_t = unsafe extern "C" fn(
    procs: *const pmix_proc_t,
    nprocs: usize,
    directives: *const pmix_info_t,
    ndirs: usize,
    channels: pmix_iof_channel_t,
    cbfunc: Option<pmix_op_cbfunc_t>,
    cbdata: *mut c_void,
) -> pmix_status_t;
pub type pmix_server_stdin_fn_t = unsafe extern "C" fn(
    source: *const pmix_proc_t,
    targets: *const pmix_proc_t,
    ntargets: usize,
    directives: *const pmix_info_t,
    ndirs: usize,
    bo: *const pmix_byte_object_t,
    cbfunc: Option<pmix_op_cbfunc_t>,
    cbdata: *mut c_void,
) -> pmix_status_t;
pub type pmix_server_grp_fn_t = unsafe extern "C" fn(
    op: pmix_group_operation_t,
    grp: *mut c_char,
    procs: *const pmix_proc_t,
    nprocs: usize,
    directives: *const pmix_info_t,
    ndirs: usize,
    cbfunc: Option<pmix_info_cbfunc_t>,
    cbdata: *mut c_void,
) -> pmix_status_t;
pub type pmix_server_fabric_fn_t = unsafe extern "C" fn(
    requestor: *const pmix_proc_t,
    op: pmix_fabric_operation_t,
    directives: *const pmix_info_t,
    ndirs: usize,
    cbfunc: Option<pmix_info_cbfunc_t>,
    cbdata: *mut c_void,
) -> pmix_status_t;
pub type pmix_dmodex_response_fn_t =
    unsafe extern "C" fn(status: pmix_status_t, data: *mut c_char, sz: usize, cbdata: *mut c_void);
pub type pmix_setup_application_cbfunc_t = unsafe extern "C" fn(
    status: pmix_status_t,
    info: *mut pmix_info_t,
    ninfo: usize,
    provided_cbdata: *mut c_void,
    cbfunc: Option<pmix_op_cbfunc_t>,
    cbdata: *mut c_void,
);
pub type pmix_iof_cbfunc_t = unsafe extern "C" fn(
    iofhdlr: usize,
    channel: pmix_iof_channel_t,
    source: *mut pmix_proc_t,
    payload: *mut pmix_byte_object_t,
    info: *mut pmix_info_t,
    ninfo: usize,
);
