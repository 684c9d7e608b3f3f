//! Functions of the interface that the library does not have. `docs/missing.md` lists them.

use std::ffi::{c_char, c_void};

use crate::entry::not_supported;
use crate::types::*;

not_supported! {
    /// `PMIx_Fabric_deregister` (topology-fabric).
    fn PMIx_Fabric_deregister(fabric: *mut pmix_fabric_t);

    /// `PMIx_Fabric_deregister_nb` (topology-fabric).
    fn PMIx_Fabric_deregister_nb(fabric: *mut pmix_fabric_t, cbfunc: Option<pmix_op_cbfunc_t>, cbdata: *mut c_void);

    /// `PMIx_Fabric_register` (topology-fabric).
    fn PMIx_Fabric_register(fabric: *mut pmix_fabric_t, directives: *const pmix_info_t, ndirs: usize);

    /// `PMIx_Fabric_register_nb` (topology-fabric).
    fn PMIx_Fabric_register_nb(
        fabric: *mut pmix_fabric_t,
        directives: *const pmix_info_t,
        ndirs: usize,
        cbfunc: Option<pmix_op_cbfunc_t>,
        cbdata: *mut c_void,
    );

    /// `PMIx_Fabric_update` (topology-fabric).
    fn PMIx_Fabric_update(fabric: *mut pmix_fabric_t);

    /// `PMIx_Fabric_update_nb` (topology-fabric).
    fn PMIx_Fabric_update_nb(fabric: *mut pmix_fabric_t, cbfunc: Option<pmix_op_cbfunc_t>, cbdata: *mut c_void);

    /// `PMIx_Register_attributes` (server).
    fn PMIx_Register_attributes(function: *mut c_char, attrs: *mut *mut c_char);

    /// `PMIx_server_deregister_resources` (server).
    fn PMIx_server_deregister_resources(
        info: *mut pmix_info_t,
        ninfo: usize,
        cbfunc: Option<pmix_op_cbfunc_t>,
        cbdata: *mut c_void,
    );

    /// `PMIx_server_register_resources` (server).
    fn PMIx_server_register_resources(
        info: *mut pmix_info_t,
        ninfo: usize,
        cbfunc: Option<pmix_op_cbfunc_t>,
        cbdata: *mut c_void,
    );

    /// `PMIx_Session_control` (sessions and resources).
    fn PMIx_Session_control(
        session_id: u32,
        directives: *const pmix_info_t,
        ndirs: usize,
        cbfunc: Option<pmix_info_cbfunc_t>,
        cbdata: *mut c_void,
    );

    /// `PMIx_Resource_block` (sessions and resources).
    fn PMIx_Resource_block(
        directive: pmix_resource_block_directive_t,
        block: *mut c_char,
        res: *const pmix_resource_unit_t,
        nres: usize,
        info: *const pmix_info_t,
        ninfo: usize,
    );

    /// `PMIx_Resource_block_nb` (sessions and resources).
    fn PMIx_Resource_block_nb(
        directive: pmix_resource_block_directive_t,
        block: *mut c_char,
        res: *const pmix_resource_unit_t,
        nres: usize,
        info: *const pmix_info_t,
        ninfo: usize,
        cbfunc: Option<pmix_op_cbfunc_t>,
        cbdata: *mut c_void,
    );

    /// `PMIx_server_collect_job_info` (server).
    fn PMIx_server_collect_job_info(procs: *mut pmix_proc_t, nprocs: usize, dbuf: *mut pmix_data_buffer_t);

    /// `PMIx_generate_regex2` (maps).
    fn PMIx_generate_regex2(
        input: *const c_char,
        info: *mut pmix_info_t,
        ninfo: usize,
        regex: *mut pmix_regex2_t,
    );

    /// `PMIx_parse_regex2` (maps).
    fn PMIx_parse_regex2(
        regex: *const pmix_regex2_t,
        info: *mut pmix_info_t,
        ninfo: usize,
        output: *mut *mut c_char,
    );
}
