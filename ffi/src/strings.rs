//! What the `PMIx_*_string` functions answer: the texts of release 4.2.2, and for codes that came later those of the
//! release that has them. Programs compare and parse these texts.

use std::ffi::CStr;

/// `PMIx_Error_string`.
pub fn error(code: i32) -> &'static CStr {
    match code {
        -1367 => c"PMIX TEMPORARILY UNAVAILABLE",
        -1366 => c"TAKE-NEXT-OPTION",
        -1363 => c"FABRIC_NOT_PARSEABLE",
        -405 => c"PMIX_ERR_IOF_XOFF",
        -404 => c"PROC-EXIT-NONZERO-TERM",
        -403 => c"PROC-SENSOR-BOUND-EXCEEDED",
        -402 => c"PROC-ABORTED-BY-SIG",
        -401 => c"PROC-FAILED-TO-START",
        -400 => c"PROC-KILLED-BY-CMD",
        -334 => c"EVENT-ACTION-COMPLETE",
        -333 => c"EVENT-ACTION-DEFERRED",
        -332 => c"EVENT-PARTIAL-ACTION-TAKEN",
        -331 => c"EVENT-NO-ACTION-TAKEN",
        -330 => c"UNDEFINED-SYSTEM-EVENT",
        -235 => c"SYSTEM OPERATION FAILED",
        -234 => c"INSUFFICIENT RESOURCES",
        -233 => c"WORKING DIRECTORY NOT FOUND",
        -232 => c"NODE-OFFLINE",
        -231 => c"NODE-DOWN",
        -230 => c"SYSTEM BASE EVENT",
        -203 => c"PMIX_ERR_CHANGE_SIGN",
        -202 => c"PMIX_ERR_LOST_PRECISION",
        -201 => c"PROC TERMINATED",
        -200 => c"PROC TERMINATED WITHOUT SYNC",
        -196 => c"PMIX_ERR_DVM_MOD",
        -195 => c"PMIX_DVM_IS_READY",
        -194 => c"PMIX_ALLOC_TIMEOUT_WARNING",
        -193 => c"SESSION ENDED",
        -192 => c"SESSION STARTED",
        -191 => c"JOB STARTED",
        -190 => c"EXECUTABLE NOT FOUND",
        -189 => c"JOB ABORTED BY SYSTEM EVENT",
        -188 => c"FAILED TO OBTAIN ALLOCATION",
        -187 => c"NON-ZERO TERMINATION",
        -186 => c"SENSOR BOUND EXCEEDED",
        -185 => c"TERMINATED WITHOUT SYNC",
        -184 => c"ABORTED BY SIGNAL",
        -183 => c"KILLED BY COMMAND",
        -182 => c"JOB ABORTED",
        -181 => c"JOB FAILED TO LAUNCH",
        -180 => c"JOB CANCELED",
        -179 => c"JOB FAILED TO MAP",
        -178 => c"NO EXECUTABLE SPECIFIED",
        -177 => c"APPLICATION NOT EXECUTABLE",
        -176 => c"FABRIC-UPDATE-PENDING",
        -175 => c"FABRIC-UPDATED",
        -174 => c"PMIX LAUNCH COMPLETE",
        -173 => c"IOF COMPLETE",
        -172 => c"IOF FAILURE",
        -171 => c"REPEAT-ATTRIBUTE-REGISTRATION",
        -170 => c"GROUP-MEMBER-FAILED",
        -169 => c"GROUP-CONTEXT-ID-ASSIGNED",
        -168 => c"GROUP-LEADER-FAILED",
        -167 => c"GROUP-LEADER-SELECTED",
        -166 => c"GROUP-CONSTRUCT-COMPLETE",
        -165 => c"GROUP-CONSTRUCT-ABORT",
        -164 => c"GROUP-MEMBERSHIP-UPDATE",
        -163 => c"GROUP-INVITE-FAILED",
        -162 => c"GROUP-INVITE-DECLINED",
        -161 => c"GROUP-INVITE-ACCEPTED",
        -160 => c"GROUP-LEFT",
        -159 => c"GROUP-INVITED",
        -158 => c"INVALID-OPERATION",
        -157 => c"OPERATION-SUCCEEDED",
        -156 => c"OPERATION-IN-PROGRESS",
        -155 => c"LAUNCHER-READY",
        -153 => c"OPENMP-PARALLEL-EXITED",
        -152 => c"OPENMP-PARALLEL-ENTERED",
        -151 => c"PMIX_MODEL_RESOURCES",
        -150 => c"CONNECT-REQUESTED",
        -149 => c"PROC-HAS-CONNECTED",
        -148 => c"GDS-ACTION-COMPLETE",
        -147 => c"PMIX MODEL DECLARED",
        -146 => c"UPDATE-ENDPOINTS",
        -145 => c"JOB ENDED",
        -144 => c"EVENT-REGISTRATION",
        -114 => c"PMIX_MONITOR_RESUSAGE_UPDATE",
        -113 => c"FABRIC-UPDATE-ENDPOINTS",
        -112 => c"INVALID-TERMINATION",
        -111 => c"PROC-TERMINATED",
        -110 => c"PMIX FILE MONITOR ALERT",
        -109 => c"PMIX HEARTBEAT ALERT",
        -108 => c"PMIX PRE-EMPTION ALERT",
        -107 => c"PMIX JOB CONTROL CHECKPOINT COMPLETE",
        -106 => c"PMIX JOB CONTROL CHECKPOINT",
        -105 => c"PMIX ALLOC OPERATION COMPLETE",
        -104 => c"QUERY-PARTIAL-SUCCESS",
        -103 => c"PMIX_ERR_LOST_CONNECTION_TO_CLIENT",
        -102 => c"PMIX_ERR_LOST_PEER_CONNECTION",
        -101 => c"PMIX_ERR_LOST_CONNECTION_TO_SERVER",
        -75 => c"PMIX_ERR_SYS_LIMITS_FILES",
        -74 => c"WDIR NOT ACCESSIBLE",
        -73 => c"EXE NOT ACCESSIBLE",
        -72 => c"PIPE_SETUP_FAILURE",
        -71 => c"SYS_LIMITS_CHILDREN",
        -70 => c"SYS_LIMITS_PIPES",
        -69 => c"FILE_WRITE_FAILURE",
        -68 => c"FILE_READ_FAILURE",
        -67 => c"FILE_OPEN_FAILURE",
        -66 => c"PMIX_ERR_NOT_A_MEMBER",
        -65 => c"VALUE_OUT_OF_BOUNDS",
        -64 => c"NOT_AVAILABLE",
        -63 => c"FATAL",
        -62 => c"OUTSIDE-SCOPE",
        -61 => c"LOST_CONNECTION",
        -60 => c"EMPTY",
        -59 => c"PARAM-VALUE-NOT-SUPPORTED",
        -58 => c"READY-FOR-DEBUG",
        -56 => c"PMIX_PROCESS_SET_DELETE",
        -55 => c"PROCESS SET DEFINED",
        -53 => c"DUPLICATE KEY",
        -52 => c"PARTIAL SUCCESS",
        -51 => c"PMIX CONFLICTING CLEANUP DIRECTIVES",
        -50 => c"UNPACK-PAST-END",
        -49 => c"COMM-FAILURE",
        -48 => c"NOT-IMPLEMENTED",
        -47 => c"NOT-SUPPORTED",
        -46 => c"NOT-FOUND",
        -45 => c"SERVER-NOT-AVAIL",
        -44 => c"INVALID-NAMESPACE",
        -43 => c"INVALID-SIZE",
        -42 => c"INVALID-KEYVAL",
        -41 => c"INVALID-NUM-PARSED",
        -40 => c"INVALID-ARGS",
        -39 => c"INVALID-NUM-ARGS",
        -38 => c"INVALID-LENGTH",
        -37 => c"INVALID-VAL-LENGTH",
        -36 => c"INVALID-VAL",
        -35 => c"INVALID-KEY-LENGTH",
        -34 => c"INVALID-KEY",
        -33 => c"INVALID-ARG",
        -32 => c"NO-MEM",
        -31 => c"INIT",
        -30 => c"DATA-VALUE-NOT-FOUND",
        -29 => c"OUT-OF-RESOURCE",
        -28 => c"RESOURCE-BUSY",
        -27 => c"BAD-PARAM",
        -26 => c"ERR-IN-ERRNO",
        -25 => c"UNREACHABLE",
        -24 => c"TIMEOUT",
        -23 => c"NO-PERMISSIONS",
        -22 => c"PACK-MISMATCH",
        -21 => c"PACK-FAILURE",
        -20 => c"UNPACK-FAILURE",
        -19 => c"UNPACK-INADEQUATE-SPACE",
        -18 => c"TYPE-MISMATCH",
        -17 => c"PROC-ENTRY-NOT-FOUND",
        -16 => c"UNKNOWN-DATA-TYPE",
        -15 => c"WOULD-BLOCK",
        -14 => c"READY-FOR-HANDSHAKE",
        -13 => c"HANDSHAKE-FAILED",
        -12 => c"INVALID-CREDENTIAL",
        -11 => c"EXISTS",
        -10 => c"SERVER FAILED REQUEST",
        -9 => c"PROC-ABORTING",
        -8 => c"PROC-ABORT-REQUESTED",
        -7 => c"PROC-ABORTED",
        -6 => c"PROC-MIGRATE",
        -5 => c"PROC-CHECKPOINT-ERROR",
        -4 => c"PROC_RESTART",
        -3 => c"DEBUGGER-RELEASE",
        -2 => c"SILENT_ERROR",
        -1 => c"ERROR",
        0 => c"SUCCESS",
        _ => c"ERROR STRING NOT FOUND",
    }
}

/// `PMIx_Data_type_string`.
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
pub fn link_state(code: u8) -> &'static CStr {
    match code {
        1 => c"INACTIVE",
        2 => c"ACTIVE",
        _ => c"UNKNOWN",
    }
}

/// `PMIx_IOF_channel_string`.
pub fn iof_channel(code: u16) -> &'static CStr {
    match code {
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
        15 => c"STDIN STDOUT STDERR STDDIAG ",
        _ => c"UNKNOWN",
    }
}

/// `PMIx_Device_type_string`.
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
pub fn alloc_inheritance(inheritance: u8) -> &'static CStr {
    match inheritance {
        1 => c"NONE",
        2 => c"CHILD",
        3 => c"DEFAULT",
        4 => c"CHILD_DEFAULT",
        _ => c"UNSPECIFIED",
    }
}

/// `PMIx_Resource_block_directive_string`.
pub fn resource_block_directive(directive: u8) -> &'static CStr {
    match directive {
        1 => c"DEFINE",
        2 => c"EXTEND",
        3 => c"REMOVE",
        4 => c"DELETE",
        _ => c"UNSPECIFIED",
    }
}

/// `PMIx_Group_operation_string`.
pub fn group_operation(operation: i32) -> &'static CStr {
    match operation {
        0 => c"CONSTRUCT",
        1 => c"DESTRUCT",
        2 => c"NONE",
        3 => c"CANCEL",
        _ => c"UNKNOWN VALUE",
    }
}
