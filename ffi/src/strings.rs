//! What the `PMIx_*_string` functions answer: for errors the texts of the newest release, which are the constants' names;
//! for all else those of release 4.2.2, and for codes that came later those of the release that has them. Programs
//! compare and parse these texts.
//!
//! None is inlined: only of a table that one function uses the compiler makes one without addresses, which the loader would
//! write in each process.
//!
//! Written by `make generate` from strings.tsv and constants.tsv of ffi/abi.

use std::ffi::CStr;

/// `PMIx_Error_string`.
#[inline(never)]
pub fn error(code: i32) -> &'static CStr {
    match code {
        -1367 => c"PMIX_ERR_TEMP_UNAVAILABLE",
        -1366 => c"PMIX_ERR_TAKE_NEXT_OPTION",
        -1363 => c"PMIX_ERR_FABRIC_NOT_PARSEABLE",
        -1361 => c"PMIX_ERR_PERM",
        -1149 => c"PMIX_PROC_HAS_DISCONNECTED",
        -405 => c"PMIX_ERR_IOF_XOFF",
        -404 => c"PMIX_ERR_EXIT_NONZERO_TERM",
        -403 => c"PMIX_ERR_PROC_SENSOR_BOUND_EXCEEDED",
        -402 => c"PMIX_ERR_PROC_ABORTED_BY_SIG",
        -401 => c"PMIX_ERR_PROC_FAILED_TO_START",
        -400 => c"PMIX_ERR_PROC_KILLED_BY_CMD",
        -334 => c"PMIX_EVENT_ACTION_COMPLETE",
        -333 => c"PMIX_EVENT_ACTION_DEFERRED",
        -332 => c"PMIX_EVENT_PARTIAL_ACTION_TAKEN",
        -331 => c"PMIX_EVENT_NO_ACTION_TAKEN",
        -330 => c"PMIX_EVENT_SYS_OTHER",
        -235 => c"PMIX_ERR_JOB_SYS_OP_FAILED",
        -234 => c"PMIX_ERR_JOB_INSUFFICIENT_RESOURCES",
        -233 => c"PMIX_ERR_JOB_WDIR_NOT_FOUND",
        -232 => c"PMIX_EVENT_NODE_OFFLINE",
        -231 => c"PMIX_EVENT_NODE_DOWN",
        -230 => c"PMIX_EVENT_SYS_BASE",
        -203 => c"PMIX_ERR_CHANGE_SIGN",
        -202 => c"PMIX_ERR_LOST_PRECISION",
        -201 => c"PMIX_EVENT_PROC_TERMINATED",
        -200 => c"PMIX_ERR_PROC_TERM_WO_SYNC",
        -196 => c"PMIX_ERR_DVM_MOD",
        -195 => c"PMIX_DVM_IS_READY",
        -194 => c"PMIX_ALLOC_TIMEOUT_WARNING",
        -193 => c"PMIX_EVENT_SESSION_END",
        -192 => c"PMIX_EVENT_SESSION_START",
        -191 => c"PMIX_EVENT_JOB_START",
        -190 => c"PMIX_ERR_JOB_EXE_NOT_FOUND",
        -189 => c"PMIX_ERR_JOB_ABORTED_BY_SYS_EVENT",
        -188 => c"PMIX_ERR_JOB_ALLOC_FAILED",
        -187 => c"PMIX_ERR_JOB_NON_ZERO_TERM",
        -186 => c"PMIX_ERR_JOB_SENSOR_BOUND_EXCEEDED",
        -185 => c"PMIX_ERR_JOB_TERM_WO_SYNC",
        -184 => c"PMIX_ERR_JOB_ABORTED_BY_SIG",
        -183 => c"PMIX_ERR_JOB_KILLED_BY_CMD",
        -182 => c"PMIX_ERR_JOB_ABORTED",
        -181 => c"PMIX_ERR_JOB_FAILED_TO_LAUNCH",
        -180 => c"PMIX_ERR_JOB_CANCELED",
        -179 => c"PMIX_ERR_JOB_FAILED_TO_MAP",
        -178 => c"PMIX_ERR_JOB_NO_EXE_SPECIFIED",
        -177 => c"PMIX_ERR_JOB_APP_NOT_EXECUTABLE",
        -176 => c"PMIX_FABRIC_UPDATE_PENDING",
        -175 => c"PMIX_FABRIC_UPDATED",
        -174 => c"PMIX_LAUNCH_COMPLETE",
        -173 => c"PMIX_ERR_IOF_COMPLETE",
        -172 => c"PMIX_ERR_IOF_FAILURE",
        -171 => c"PMIX_ERR_REPEAT_ATTR_REGISTRATION",
        -170 => c"PMIX_GROUP_MEMBER_FAILED",
        -169 => c"PMIX_GROUP_CONTEXT_ID_ASSIGNED",
        -168 => c"PMIX_GROUP_LEADER_FAILED",
        -167 => c"PMIX_GROUP_LEADER_SELECTED",
        -166 => c"PMIX_GROUP_CONSTRUCT_COMPLETE",
        -165 => c"PMIX_GROUP_CONSTRUCT_ABORT",
        -164 => c"PMIX_GROUP_MEMBERSHIP_UPDATE",
        -163 => c"PMIX_GROUP_INVITE_FAILED",
        -162 => c"PMIX_GROUP_INVITE_DECLINED",
        -161 => c"PMIX_GROUP_INVITE_ACCEPTED",
        -160 => c"PMIX_GROUP_LEFT",
        -159 => c"PMIX_GROUP_INVITED",
        -158 => c"PMIX_ERR_INVALID_OPERATION",
        -157 => c"PMIX_OPERATION_SUCCEEDED",
        -156 => c"PMIX_OPERATION_IN_PROGRESS",
        -155 => c"PMIX_LAUNCHER_READY",
        -153 => c"PMIX_OPENMP_PARALLEL_EXITED",
        -152 => c"PMIX_OPENMP_PARALLEL_ENTERED",
        -151 => c"PMIX_MODEL_RESOURCES",
        -150 => c"PMIX_CONNECT_REQUESTED",
        -149 => c"PMIX_PROC_HAS_CONNECTED",
        -148 => c"PMIX_GDS_ACTION_COMPLETE",
        -147 => c"PMIX_MODEL_DECLARED",
        -146 => c"PMIX_ERR_UPDATE_ENDPOINTS",
        -145 => c"PMIX_EVENT_JOB_END",
        -144 => c"PMIX_ERR_EVENT_REGISTRATION",
        -114 => c"PMIX_MONITOR_RESUSAGE_UPDATE",
        -113 => c"PMIX_FABRIC_UPDATE_ENDPOINTS",
        -112 => c"PMIX_ERR_INVALID_TERMINATION",
        -111 => c"PMIX_PROC_TERMINATED",
        -110 => c"PMIX_MONITOR_FILE_ALERT",
        -109 => c"PMIX_MONITOR_HEARTBEAT_ALERT",
        -108 => c"PMIX_JCTRL_PREEMPT_ALERT",
        -107 => c"PMIX_JCTRL_CHECKPOINT_COMPLETE",
        -106 => c"PMIX_JCTRL_CHECKPOINT",
        -105 => c"PMIX_NOTIFY_ALLOC_COMPLETE",
        -104 => c"PMIX_QUERY_PARTIAL_SUCCESS",
        -103 => c"PMIX_ERR_LOST_CONNECTION_TO_CLIENT",
        -102 => c"PMIX_ERR_LOST_PEER_CONNECTION",
        -101 => c"PMIX_ERR_LOST_CONNECTION_TO_SERVER",
        -75 => c"PMIX_ERR_SYS_LIMITS_FILES",
        -74 => c"PMIX_ERR_JOB_WDIR_NOT_ACCESSIBLE",
        -73 => c"PMIX_ERR_EXE_NOT_ACCESSIBLE",
        -72 => c"PMIX_ERR_PIPE_SETUP_FAILURE",
        -71 => c"PMIX_ERR_SYS_LIMITS_CHILDREN",
        -70 => c"PMIX_ERR_SYS_LIMITS_PIPES",
        -69 => c"PMIX_ERR_FILE_WRITE_FAILURE",
        -68 => c"PMIX_ERR_FILE_READ_FAILURE",
        -67 => c"PMIX_ERR_FILE_OPEN_FAILURE",
        -66 => c"PMIX_ERR_NOT_A_MEMBER",
        -65 => c"PMIX_ERR_VALUE_OUT_OF_BOUNDS",
        -64 => c"PMIX_ERR_NOT_AVAILABLE",
        -63 => c"PMIX_ERR_FATAL",
        -62 => c"PMIX_ERR_EXISTS_OUTSIDE_SCOPE",
        -61 => c"PMIX_ERR_LOST_CONNECTION",
        -60 => c"PMIX_ERR_EMPTY",
        -59 => c"PMIX_ERR_PARAM_VALUE_NOT_SUPPORTED",
        -58 => c"PMIX_READY_FOR_DEBUG",
        -56 => c"PMIX_PROCESS_SET_DELETE",
        -55 => c"PMIX_PROCESS_SET_DEFINE",
        -53 => c"PMIX_ERR_DUPLICATE_KEY",
        -52 => c"PMIX_ERR_PARTIAL_SUCCESS",
        -51 => c"PMIX_ERR_CONFLICTING_CLEANUP_DIRECTIVES",
        -50 => c"PMIX_ERR_UNPACK_READ_PAST_END_OF_BUFFER",
        -49 => c"PMIX_ERR_COMM_FAILURE",
        -48 => c"PMIX_ERR_NOT_IMPLEMENTED",
        -47 => c"PMIX_ERR_NOT_SUPPORTED",
        -46 => c"PMIX_ERR_NOT_FOUND",
        -45 => c"PMIX_ERR_SERVER_NOT_AVAIL",
        -44 => c"PMIX_ERR_INVALID_NAMESPACE",
        -43 => c"PMIX_ERR_INVALID_SIZE",
        -42 => c"PMIX_ERR_INVALID_KEYVALP",
        -41 => c"PMIX_ERR_INVALID_NUM_PARSED",
        -40 => c"PMIX_ERR_INVALID_ARGS",
        -39 => c"PMIX_ERR_INVALID_NUM_ARGS",
        -38 => c"PMIX_ERR_INVALID_LENGTH",
        -37 => c"PMIX_ERR_INVALID_VAL_LENGTH",
        -36 => c"PMIX_ERR_INVALID_VAL",
        -35 => c"PMIX_ERR_INVALID_KEY_LENGTH",
        -34 => c"PMIX_ERR_INVALID_KEY",
        -33 => c"PMIX_ERR_INVALID_ARG",
        -32 => c"PMIX_ERR_NOMEM",
        -31 => c"PMIX_ERR_INIT",
        -30 => c"PMIX_ERR_DATA_VALUE_NOT_FOUND",
        -29 => c"PMIX_ERR_OUT_OF_RESOURCE",
        -28 => c"PMIX_ERR_RESOURCE_BUSY",
        -27 => c"PMIX_ERR_BAD_PARAM",
        -26 => c"PMIX_ERR_IN_ERRNO",
        -25 => c"PMIX_ERR_UNREACH",
        -24 => c"PMIX_ERR_TIMEOUT",
        -23 => c"PMIX_ERR_NO_PERMISSIONS",
        -22 => c"PMIX_ERR_PACK_MISMATCH",
        -21 => c"PMIX_ERR_PACK_FAILURE",
        -20 => c"PMIX_ERR_UNPACK_FAILURE",
        -19 => c"PMIX_ERR_UNPACK_INADEQUATE_SPACE",
        -18 => c"PMIX_ERR_TYPE_MISMATCH",
        -17 => c"PMIX_ERR_PROC_ENTRY_NOT_FOUND",
        -16 => c"PMIX_ERR_UNKNOWN_DATA_TYPE",
        -15 => c"PMIX_ERR_WOULD_BLOCK",
        -14 => c"PMIX_ERR_READY_FOR_HANDSHAKE",
        -13 => c"PMIX_ERR_HANDSHAKE_FAILED",
        -12 => c"PMIX_ERR_INVALID_CRED",
        -11 => c"PMIX_ERR_EXISTS",
        -10 => c"PMIX_ERR_SERVER_FAILED_REQUEST",
        -9 => c"PMIX_ERR_PROC_ABORTING",
        -8 => c"PMIX_ERR_PROC_REQUESTED_ABORT",
        -7 => c"PMIX_ERR_PROC_ABORTED",
        -6 => c"PMIX_ERR_PROC_MIGRATE",
        -5 => c"PMIX_ERR_PROC_CHECKPOINT",
        -4 => c"PMIX_ERR_PROC_RESTART",
        -3 => c"PMIX_DEBUGGER_RELEASE",
        -2 => c"PMIX_ERR_SILENT",
        -1 => c"PMIX_ERROR",
        0 => c"PMIX_SUCCESS",
        _ => c"ERROR STRING NOT FOUND",
    }
}

/// `PMIx_Data_type_string`.
#[inline(never)]
pub fn data_type(code: u16) -> &'static CStr {
    match code {
        1 => c"PMIX_BOOL",
        2 => c"PMIX_BYTE",
        3 => c"PMIX_STRING",
        4 => c"PMIX_SIZE",
        5 => c"PMIX_PID",
        6 => c"PMIX_INT",
        7 => c"PMIX_INT8",
        8 => c"PMIX_INT16",
        9 => c"PMIX_INT32",
        10 => c"PMIX_INT64",
        11 => c"PMIX_UINT",
        12 => c"PMIX_UINT8",
        13 => c"PMIX_UINT16",
        14 => c"PMIX_UINT32",
        15 => c"PMIX_UINT64",
        16 => c"PMIX_FLOAT",
        17 => c"PMIX_DOUBLE",
        18 => c"PMIX_TIMEVAL",
        19 => c"PMIX_TIME",
        20 => c"PMIX_STATUS",
        21 => c"PMIX_VALUE",
        22 => c"PMIX_PROC",
        23 => c"PMIX_APP",
        24 => c"PMIX_INFO",
        25 => c"PMIX_PDATA",
        26 => c"PMIX_BUFFER",
        27 => c"PMIX_BYTE_OBJECT",
        28 => c"PMIX_KVAL",
        29 => c"PMIX_MODEX",
        30 => c"PMIX_PERSIST",
        31 => c"PMIX_POINTER",
        32 => c"PMIX_SCOPE",
        33 => c"PMIX_DATA_RANGE",
        34 => c"PMIX_COMMAND",
        35 => c"PMIX_INFO_DIRECTIVES",
        36 => c"PMIX_DATA_TYPE",
        37 => c"PMIX_PROC_STATE",
        38 => c"PMIX_PROC_INFO",
        39 => c"PMIX_DATA_ARRAY",
        40 => c"PMIX_PROC_RANK",
        41 => c"PMIX_QUERY",
        42 => c"PMIX_COMPRESSED_STRING",
        43 => c"PMIX_ALLOC_DIRECTIVE",
        44 => c"PMIX_INFO_ARRAY",
        45 => c"PMIX_IOF_CHANNEL",
        46 => c"PMIX_ENVAR",
        47 => c"PMIX_COORD",
        48 => c"PMIX_REGATTR",
        49 => c"PMIX_REGEX",
        50 => c"PMIX_JOB_STATE",
        51 => c"PMIX_LINK_STATE",
        52 => c"PMIX_PROC_CPUSET",
        53 => c"PMIX_GEOMETRY",
        54 => c"PMIX_DEVICE_DIST",
        55 => c"PMIX_ENDPOINT",
        56 => c"PMIX_TOPO",
        57 => c"PMIX_DEVTYPE",
        58 => c"PMIX_LOCTYPE",
        59 => c"PMIX_COMPRESSED_BYTE_OBJECT",
        60 => c"PMIX_PROC_NSPACE",
        61 => c"PMIX_PROC_STATS",
        62 => c"PMIX_DISK_STATS",
        63 => c"PMIX_NET_STATS",
        64 => c"PMIX_NODE_STATS",
        65 => c"PMIX_DATA_BUFFER",
        66 => c"PMIX_STOR_MEDIUM",
        67 => c"PMIX_STOR_ACCESS",
        68 => c"PMIX_STOR_PERSIST",
        69 => c"PMIX_STOR_ACCESS_TYPE",
        70 => c"PMIX_DEVICE",
        71 => c"PMIX_RESBLOCK_DIRECTIVE",
        72 => c"PMIX_RESOURCE_UNIT",
        73 => c"PMIX_NODE_PID",
        74 => c"PMIX_REGEX2",
        75 => c"PMIX_ALLOC_INHERIT",
        _ => c"UNKNOWN",
    }
}

/// `PMIx_Proc_state_string`.
#[inline(never)]
pub fn proc_state(code: u8) -> &'static CStr {
    match code {
        0 => c"UNDEFINED",
        1 => c"PREPPED FOR LAUNCH",
        2 => c"LAUNCH UNDERWAY",
        3 => c"PROC READY FOR RESTART",
        4 => c"PROC MARKED FOR TERMINATION",
        5 => c"PROC EXECUTING",
        6 => c"PROC HAS CONNECTED TO LOCAL PMIX SERVER",
        15 => c"PROC HAS NOT TERMINATED",
        20 => c"PROC HAS TERMINATED",
        50 => c"PROC ERROR",
        51 => c"PROC KILLED BY CMD",
        52 => c"PROC ABNORMALLY ABORTED",
        53 => c"PROC FAILED TO START",
        54 => c"PROC ABORTED BY SIGNAL",
        55 => c"PROC TERMINATED WITHOUT CALLING PMIx_Finalize",
        56 => c"PROC LOST COMMUNICATION",
        57 => c"PROC SENSOR BOUND EXCEEDED",
        58 => c"PROC CALLED PMIx_Abort",
        59 => c"PROC FAILED TO REPORT HEARTBEAT",
        60 => c"PROC WAITING TO MIGRATE",
        61 => c"PROC CANNOT BE RESTARTED",
        62 => c"PROC TERMINATED WITH NON-ZERO STATUS",
        63 => c"PROC FAILED TO LAUNCH",
        _ => c"UNKNOWN STATE",
    }
}

/// `PMIx_Job_state_string`.
#[inline(never)]
pub fn job_state(code: u8) -> &'static CStr {
    match code {
        0 => c"UNDEFINED",
        1 => c"PREPPED FOR LAUNCH",
        2 => c"LAUNCHING",
        3 => c"RUNNING",
        4 => c"SUSPENDED",
        5 => c"CONNECTED",
        15 => c"UNTERMINATED",
        20 => c"TERMINATED",
        50 => c"TERMINATED WITH ERROR",
        _ => c"UNKNOWN",
    }
}

/// `PMIx_Scope_string`.
#[inline(never)]
pub fn scope(code: u8) -> &'static CStr {
    match code {
        0 => c"UNDEFINED",
        1 => c"SHARE ON LOCAL NODE ONLY",
        2 => c"SHARE ON REMOTE NODES ONLY",
        3 => c"SHARE ACROSS ALL NODES",
        4 => c"STORE INTERNALLY",
        5 => c"DELETE FROM LOCAL NODE SCOPE",
        6 => c"DELETE FROM REMOTE NODE SCOPE",
        7 => c"DELETE FROM ALL SCOPES",
        8 => c"DELETE FROM INTERNAL STORE",
        _ => c"UNKNOWN SCOPE",
    }
}

/// `PMIx_Data_range_string`.
#[inline(never)]
pub fn data_range(code: u8) -> &'static CStr {
    match code {
        0 => c"UNDEFINED",
        1 => c"INTENDED FOR HOST RESOURCE MANAGER ONLY",
        2 => c"AVAIL ON LOCAL NODE ONLY",
        3 => c"AVAIL TO PROCESSES IN SAME JOB ONLY",
        4 => c"AVAIL TO PROCESSES IN SAME ALLOCATION ONLY",
        5 => c"AVAIL TO ANYONE WITH AUTHORIZATION",
        6 => c"AVAIL AS SPECIFIED IN DIRECTIVES",
        7 => c"AVAIL ON LOCAL PROC ONLY",
        255 => c"INVALID",
        _ => c"UNKNOWN",
    }
}

/// `PMIx_Persistence_string`.
#[inline(never)]
pub fn persistence(code: u8) -> &'static CStr {
    match code {
        0 => c"INDEFINITE",
        1 => c"DELETE ON FIRST ACCESS",
        2 => c"RETAIN UNTIL PUBLISHING PROCESS TERMINATES",
        3 => c"RETAIN UNTIL APPLICATION OF PUBLISHING PROCESS TERMINATES",
        4 => c"RETAIN UNTIL ALLOCATION OF PUBLISHING PROCESS TERMINATES",
        255 => c"INVALID",
        _ => c"UNKNOWN PERSISTENCE",
    }
}

/// `PMIx_Alloc_directive_string`.
#[inline(never)]
pub fn alloc_directive(code: u8) -> &'static CStr {
    match code {
        1 => c"NEW",
        2 => c"EXTEND",
        3 => c"RELEASE",
        4 => c"REACQUIRE",
        5 => c"CANCEL REQUEST",
        _ => c"UNSPECIFIED",
    }
}

/// `PMIx_Link_state_string`.
#[inline(never)]
pub fn link_state(code: u8) -> &'static CStr {
    match code {
        1 => c"INACTIVE",
        2 => c"ACTIVE",
        _ => c"UNKNOWN",
    }
}

/// `PMIx_IOF_channel_string`.
#[inline(never)]
pub fn iof_channel(code: u16) -> &'static CStr {
    // Bits that name no channel are passed over.
    match code & 15 {
        0 => c"NONE",
        1 => c"STDIN ",
        2 => c"STDOUT ",
        3 => c"STDIN STDOUT ",
        4 => c"STDERR ",
        5 => c"STDIN STDERR ",
        6 => c"STDOUT STDERR ",
        7 => c"STDIN STDOUT STDERR ",
        8 => c"STDDIAG ",
        9 => c"STDIN STDDIAG ",
        10 => c"STDOUT STDDIAG ",
        11 => c"STDIN STDOUT STDDIAG ",
        12 => c"STDERR STDDIAG ",
        13 => c"STDIN STDERR STDDIAG ",
        14 => c"STDOUT STDERR STDDIAG ",
        _ => c"STDIN STDOUT STDERR STDDIAG ",
    }
}

/// `PMIx_Device_type_string`.
#[inline(never)]
pub fn device_type(code: u64) -> &'static CStr {
    match code {
        1 => c"BLOCK",
        2 => c"GPU",
        4 => c"NETWORK",
        8 => c"OPENFABRICS",
        16 => c"DMA",
        32 => c"COPROCESSOR",
        64 => c"MEMORY",
        128 => c"CORE",
        256 => c"HWT",
        512 => c"CPU",
        1024 => c"NODE",
        _ => c"UNKNOWN",
    }
}

/// `PMIx_Value_comparison_string`.
#[inline(never)]
pub fn value_comparison(code: i32) -> &'static CStr {
    match code {
        0 => c"EQUAL",
        1 => c"VALUE1 GREATER",
        2 => c"VALUE2 GREATER",
        3 => c"DIFFERENT TYPES",
        4 => c"INCOMPATIBLE OBJECTS",
        5 => c"COMPARISON NOT AVAILABLE",
        _ => c"UNKNOWN VALUE",
    }
}

/// `PMIx_Alloc_inheritance_string`.
#[inline(never)]
pub fn alloc_inheritance(code: u8) -> &'static CStr {
    match code {
        1 => c"NONE",
        2 => c"CHILD",
        3 => c"DEFAULT",
        4 => c"CHILD_DEFAULT",
        _ => c"UNSPECIFIED",
    }
}

/// `PMIx_Resource_block_directive_string`.
#[inline(never)]
pub fn resource_block_directive(code: u8) -> &'static CStr {
    match code {
        1 => c"DEFINE",
        2 => c"EXTEND",
        3 => c"REMOVE",
        4 => c"DELETE",
        _ => c"UNSPECIFIED",
    }
}

/// `PMIx_Group_operation_string`.
#[inline(never)]
pub fn group_operation(code: i32) -> &'static CStr {
    match code {
        0 => c"CONSTRUCT",
        1 => c"DESTRUCT",
        2 => c"NONE",
        3 => c"CANCEL",
        _ => c"UNKNOWN VALUE",
    }
}
