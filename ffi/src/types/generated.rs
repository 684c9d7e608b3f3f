//! The structures, numbers and callback types of the C interface, under the names of the C headers.
//!
//! Written by `make generate` from types.tsv, members.tsv and callbacks.tsv of ffi/abi.

// Every item here is a C declaration that the standard documents under the same name.
#![allow(missing_docs, non_camel_case_types)]

use std::ffi::{c_char, c_int, c_void};

use libc::{pid_t, timeval};

use super::pmix_value_data;

/// `PMIX_MAX_NSLEN + 1` bytes: a namespace, NUL-terminated.
pub type pmix_nspace_t = [c_char; 256];
/// `PMIX_MAX_KEYLEN + 1` bytes: a key, NUL-terminated.
pub type pmix_key_t = [c_char; 512];
pub type pmix_rank_t = u32;
pub type pmix_proc_state_t = u8;
pub type pmix_job_state_t = u8;
pub type pmix_status_t = c_int;
pub type pmix_value_cmp_t = c_int;
pub type pmix_data_type_t = u16;
pub type pmix_scope_t = u8;
pub type pmix_data_range_t = u8;
pub type pmix_persistence_t = u8;
pub type pmix_info_directives_t = u32;
pub type pmix_alloc_directive_t = u8;
pub type pmix_alloc_inheritance_t = u8;
pub type pmix_resource_block_directive_t = u8;
pub type pmix_iof_channel_t = u16;
pub type pmix_group_opt_t = c_int;
pub type pmix_group_operation_t = c_int;
pub type pmix_storage_medium_t = u64;
pub type pmix_storage_accessibility_t = u64;
pub type pmix_storage_persistence_t = u64;
pub type pmix_storage_access_type_t = u16;
pub type pmix_coord_view_t = u8;
pub type pmix_link_state_t = u8;
pub type pmix_bind_envelope_t = u8;
pub type pmix_locality_t = u16;
pub type pmix_device_type_t = u64;
/// [`BOOL_TRUE`](super::BOOL_TRUE), [`BOOL_FALSE`](super::BOOL_FALSE) or
/// [`NON_BOOL`](super::NON_BOOL).
pub type pmix_boolean_t = c_int;
pub type pmix_fabric_operation_t = c_int;

#[repr(C)]
#[derive(Clone, Copy)]
pub struct pmix_coord_t {
    pub view: pmix_coord_view_t,
    pub coord: *mut u32,
    pub dims: usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct pmix_cpuset_t {
    pub source: *mut c_char,
    pub bitmap: *mut c_void,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct pmix_topology_t {
    pub source: *mut c_char,
    pub topology: *mut c_void,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct pmix_geometry_t {
    pub fabric: usize,
    pub uuid: *mut c_char,
    pub osname: *mut c_char,
    pub coordinates: *mut pmix_coord_t,
    pub ncoords: usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct pmix_device_t {
    pub uuid: *mut c_char,
    pub osname: *mut c_char,
    pub type_: pmix_device_type_t,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct pmix_resource_unit_t {
    pub type_: pmix_device_type_t,
    pub count: usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct pmix_device_distance_t {
    pub uuid: *mut c_char,
    pub osname: *mut c_char,
    pub type_: pmix_device_type_t,
    pub mindist: u16,
    pub maxdist: u16,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct pmix_node_pid_t {
    pub hostname: *mut c_char,
    pub nodeid: u32,
    pub pid: pid_t,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct pmix_byte_object_t {
    pub bytes: *mut c_char,
    pub size: usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct pmix_regex2_t {
    pub type_: *mut c_char,
    pub bytes: *mut u8,
    pub len: usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct pmix_endpoint_t {
    pub uuid: *mut c_char,
    pub osname: *mut c_char,
    pub endpt: pmix_byte_object_t,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct pmix_envar_t {
    pub envar: *mut c_char,
    pub value: *mut c_char,
    pub separator: c_char,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct pmix_data_buffer_t {
    pub base_ptr: *mut c_char,
    pub pack_ptr: *mut c_char,
    pub unpack_ptr: *mut c_char,
    pub bytes_allocated: usize,
    pub bytes_used: usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct pmix_proc_t {
    pub nspace: pmix_nspace_t,
    pub rank: pmix_rank_t,
}

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

#[repr(C)]
#[derive(Clone, Copy)]
pub struct pmix_data_array_t {
    pub type_: pmix_data_type_t,
    pub size: usize,
    pub array: *mut c_void,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct pmix_value_t {
    pub type_: pmix_data_type_t,
    pub data: pmix_value_data,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct pmix_info_t {
    pub key: pmix_key_t,
    pub flags: pmix_info_directives_t,
    pub value: pmix_value_t,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct pmix_pdata_t {
    pub proc: pmix_proc_t,
    pub key: pmix_key_t,
    pub value: pmix_value_t,
}

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

#[repr(C)]
#[derive(Clone, Copy)]
pub struct pmix_query_t {
    pub keys: *mut *mut c_char,
    pub qualifiers: *mut pmix_info_t,
    pub nqual: usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct pmix_regattr_t {
    pub name: *mut c_char,
    pub string: pmix_key_t,
    pub type_: pmix_data_type_t,
    pub description: *mut *mut c_char,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct pmix_fabric_t {
    pub name: *mut c_char,
    pub index: usize,
    pub info: *mut pmix_info_t,
    pub ninfo: usize,
    pub module: *mut c_void,
}

/// The host's upcalls. The first 28 slots are those of every release; how many follow, only a host knows that says so
/// ([`host`](crate::host)).
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
    pub tool_connected2: Option<pmix_server_tool_connection2_fn_t>,
    pub log2: Option<pmix_server_log2_fn_t>,
    pub session_control: Option<pmix_server_session_control_fn_t>,
    pub resource_block: Option<pmix_server_resource_block_fn_t>,
}

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
pub type pmix_server_tool_connection2_fn_t = unsafe extern "C" fn(
    info: *mut pmix_info_t,
    ninfo: usize,
    cbfunc: Option<pmix_tool_connection_cbfunc_t>,
    cbdata: *mut c_void,
) -> pmix_status_t;
pub type pmix_server_log_fn_t = unsafe extern "C" fn(
    client: *const pmix_proc_t,
    data: *const pmix_info_t,
    ndata: usize,
    directives: *const pmix_info_t,
    ndirs: usize,
    cbfunc: Option<pmix_op_cbfunc_t>,
    cbdata: *mut c_void,
);
pub type pmix_server_log2_fn_t = unsafe extern "C" fn(
    client: *const pmix_proc_t,
    data: *const pmix_info_t,
    ndata: usize,
    directives: *const pmix_info_t,
    ndirs: usize,
    cbfunc: Option<pmix_op_cbfunc_t>,
    cbdata: *mut c_void,
) -> pmix_status_t;
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
pub type pmix_server_session_control_fn_t = unsafe extern "C" fn(
    requestor: *const pmix_proc_t,
    session_id: u32,
    directives: *const pmix_info_t,
    ndirs: usize,
    cbfunc: Option<pmix_info_cbfunc_t>,
    cbdata: *mut c_void,
) -> pmix_status_t;
pub type pmix_server_resource_block_fn_t = unsafe extern "C" fn(
    requestor: *const pmix_proc_t,
    directive: pmix_resource_block_directive_t,
    block: *const c_char,
    units: *const pmix_resource_unit_t,
    nunit: usize,
    info: *const pmix_info_t,
    ninfo: usize,
    cbfunc: Option<pmix_op_cbfunc_t>,
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
pub type pmix_dstore_connect_cbfunc_t =
    unsafe extern "C" fn(status: pmix_status_t, nspace: *mut c_char, rank: c_int, cbdata: *mut c_void);
