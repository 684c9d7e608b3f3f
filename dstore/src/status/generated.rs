// Written by `make generate` from the tables attributes.tsv and constants.tsv of ffi/abi.

use super::Status;

impl Status {
    /// `PMIX_SUCCESS`.
    pub const SUCCESS: Status = Status(0);
    /// `PMIX_ERROR`.
    pub const ERROR: Status = Status(-1);
    /// `PMIX_ERR_PROC_RESTART`.
    pub const ERR_PROC_RESTART: Status = Status(-4);
    /// `PMIX_ERR_PROC_CHECKPOINT`.
    pub const ERR_PROC_CHECKPOINT: Status = Status(-5);
    /// `PMIX_ERR_PROC_MIGRATE`.
    pub const ERR_PROC_MIGRATE: Status = Status(-6);
    /// `PMIX_ERR_EXISTS`.
    pub const ERR_EXISTS: Status = Status(-11);
    /// `PMIX_ERR_INVALID_CRED`.
    pub const ERR_INVALID_CRED: Status = Status(-12);
    /// `PMIX_ERR_WOULD_BLOCK`.
    pub const ERR_WOULD_BLOCK: Status = Status(-15);
    /// `PMIX_ERR_UNKNOWN_DATA_TYPE`.
    pub const ERR_UNKNOWN_DATA_TYPE: Status = Status(-16);
    /// `PMIX_ERR_TYPE_MISMATCH`.
    pub const ERR_TYPE_MISMATCH: Status = Status(-18);
    /// `PMIX_ERR_UNPACK_INADEQUATE_SPACE`.
    pub const ERR_UNPACK_INADEQUATE_SPACE: Status = Status(-19);
    /// `PMIX_ERR_UNPACK_FAILURE`.
    pub const ERR_UNPACK_FAILURE: Status = Status(-20);
    /// `PMIX_ERR_PACK_FAILURE`.
    pub const ERR_PACK_FAILURE: Status = Status(-21);
    /// `PMIX_ERR_NO_PERMISSIONS`.
    pub const ERR_NO_PERMISSIONS: Status = Status(-23);
    /// `PMIX_ERR_TIMEOUT`.
    pub const ERR_TIMEOUT: Status = Status(-24);
    /// `PMIX_ERR_UNREACH`.
    pub const ERR_UNREACH: Status = Status(-25);
    /// `PMIX_ERR_BAD_PARAM`.
    pub const ERR_BAD_PARAM: Status = Status(-27);
    /// `PMIX_ERR_RESOURCE_BUSY`.
    pub const ERR_RESOURCE_BUSY: Status = Status(-28);
    /// `PMIX_ERR_OUT_OF_RESOURCE`.
    pub const ERR_OUT_OF_RESOURCE: Status = Status(-29);
    /// `PMIX_ERR_INIT`.
    pub const ERR_INIT: Status = Status(-31);
    /// `PMIX_ERR_NOMEM`.
    pub const ERR_NOMEM: Status = Status(-32);
    /// `PMIX_ERR_NOT_FOUND`.
    pub const ERR_NOT_FOUND: Status = Status(-46);
    /// `PMIX_ERR_NOT_SUPPORTED`.
    pub const ERR_NOT_SUPPORTED: Status = Status(-47);
    /// `PMIX_ERR_PARAM_VALUE_NOT_SUPPORTED`.
    pub const ERR_PARAM_VALUE_NOT_SUPPORTED: Status = Status(-59);
    /// `PMIX_ERR_COMM_FAILURE`.
    pub const ERR_COMM_FAILURE: Status = Status(-49);
    /// `PMIX_ERR_UNPACK_READ_PAST_END_OF_BUFFER`.
    pub const ERR_UNPACK_READ_PAST_END_OF_BUFFER: Status = Status(-50);
    /// `PMIX_ERR_CONFLICTING_CLEANUP_DIRECTIVES`.
    pub const ERR_CONFLICTING_CLEANUP_DIRECTIVES: Status = Status(-51);
    /// `PMIX_ERR_PARTIAL_SUCCESS`.
    pub const ERR_PARTIAL_SUCCESS: Status = Status(-52);
    /// `PMIX_ERR_DUPLICATE_KEY`.
    pub const ERR_DUPLICATE_KEY: Status = Status(-53);
    /// `PMIX_ERR_EMPTY`.
    pub const ERR_EMPTY: Status = Status(-60);
    /// `PMIX_ERR_LOST_CONNECTION`.
    pub const ERR_LOST_CONNECTION: Status = Status(-61);
    /// `PMIX_ERR_EXISTS_OUTSIDE_SCOPE`.
    pub const ERR_EXISTS_OUTSIDE_SCOPE: Status = Status(-62);
    /// `PMIX_PROCESS_SET_DEFINE`.
    pub const PROCESS_SET_DEFINE: Status = Status(-55);
    /// `PMIX_PROCESS_SET_DELETE`.
    pub const PROCESS_SET_DELETE: Status = Status(-56);
    /// `PMIX_DEBUGGER_RELEASE`.
    pub const DEBUGGER_RELEASE: Status = Status(-3);
    /// `PMIX_READY_FOR_DEBUG`.
    pub const READY_FOR_DEBUG: Status = Status(-58);
    /// `PMIX_QUERY_PARTIAL_SUCCESS`.
    pub const QUERY_PARTIAL_SUCCESS: Status = Status(-104);
    /// `PMIX_JCTRL_CHECKPOINT`.
    pub const JCTRL_CHECKPOINT: Status = Status(-106);
    /// `PMIX_JCTRL_CHECKPOINT_COMPLETE`.
    pub const JCTRL_CHECKPOINT_COMPLETE: Status = Status(-107);
    /// `PMIX_JCTRL_PREEMPT_ALERT`.
    pub const JCTRL_PREEMPT_ALERT: Status = Status(-108);
    /// `PMIX_MONITOR_HEARTBEAT_ALERT`.
    pub const MONITOR_HEARTBEAT_ALERT: Status = Status(-109);
    /// `PMIX_MONITOR_FILE_ALERT`.
    pub const MONITOR_FILE_ALERT: Status = Status(-110);
    /// `PMIX_PROC_TERMINATED`.
    pub const PROC_TERMINATED: Status = Status(-111);
    /// `PMIX_ERR_EVENT_REGISTRATION`.
    pub const ERR_EVENT_REGISTRATION: Status = Status(-144);
    /// `PMIX_MODEL_DECLARED`.
    pub const MODEL_DECLARED: Status = Status(-147);
    /// `PMIX_MODEL_RESOURCES`.
    pub const MODEL_RESOURCES: Status = Status(-151);
    /// `PMIX_OPENMP_PARALLEL_ENTERED`.
    pub const OPENMP_PARALLEL_ENTERED: Status = Status(-152);
    /// `PMIX_OPENMP_PARALLEL_EXITED`.
    pub const OPENMP_PARALLEL_EXITED: Status = Status(-153);
    /// `PMIX_LAUNCHER_READY`.
    pub const LAUNCHER_READY: Status = Status(-155);
    /// `PMIX_OPERATION_IN_PROGRESS`.
    pub const OPERATION_IN_PROGRESS: Status = Status(-156);
    /// `PMIX_OPERATION_SUCCEEDED`.
    pub const OPERATION_SUCCEEDED: Status = Status(-157);
    /// `PMIX_ERR_INVALID_OPERATION`.
    pub const ERR_INVALID_OPERATION: Status = Status(-158);
    /// `PMIX_GROUP_INVITED`.
    pub const GROUP_INVITED: Status = Status(-159);
    /// `PMIX_GROUP_LEFT`.
    pub const GROUP_LEFT: Status = Status(-160);
    /// `PMIX_GROUP_INVITE_ACCEPTED`.
    pub const GROUP_INVITE_ACCEPTED: Status = Status(-161);
    /// `PMIX_GROUP_INVITE_DECLINED`.
    pub const GROUP_INVITE_DECLINED: Status = Status(-162);
    /// `PMIX_GROUP_INVITE_FAILED`.
    pub const GROUP_INVITE_FAILED: Status = Status(-163);
    /// `PMIX_GROUP_MEMBERSHIP_UPDATE`.
    pub const GROUP_MEMBERSHIP_UPDATE: Status = Status(-164);
    /// `PMIX_GROUP_CONSTRUCT_ABORT`.
    pub const GROUP_CONSTRUCT_ABORT: Status = Status(-165);
    /// `PMIX_GROUP_CONSTRUCT_COMPLETE`.
    pub const GROUP_CONSTRUCT_COMPLETE: Status = Status(-166);
    /// `PMIX_GROUP_LEADER_SELECTED`.
    pub const GROUP_LEADER_SELECTED: Status = Status(-167);
    /// `PMIX_GROUP_LEADER_FAILED`.
    pub const GROUP_LEADER_FAILED: Status = Status(-168);
    /// `PMIX_GROUP_CONTEXT_ID_ASSIGNED`.
    pub const GROUP_CONTEXT_ID_ASSIGNED: Status = Status(-169);
    /// `PMIX_GROUP_MEMBER_FAILED`.
    pub const GROUP_MEMBER_FAILED: Status = Status(-170);
    /// `PMIX_ERR_REPEAT_ATTR_REGISTRATION`.
    pub const ERR_REPEAT_ATTR_REGISTRATION: Status = Status(-171);
    /// `PMIX_ERR_IOF_FAILURE`.
    pub const ERR_IOF_FAILURE: Status = Status(-172);
    /// `PMIX_ERR_IOF_COMPLETE`.
    pub const ERR_IOF_COMPLETE: Status = Status(-173);
    /// `PMIX_LAUNCH_COMPLETE`.
    pub const LAUNCH_COMPLETE: Status = Status(-174);
    /// `PMIX_FABRIC_UPDATED`.
    pub const FABRIC_UPDATED: Status = Status(-175);
    /// `PMIX_FABRIC_UPDATE_PENDING`.
    pub const FABRIC_UPDATE_PENDING: Status = Status(-176);
    /// `PMIX_FABRIC_UPDATE_ENDPOINTS`.
    pub const FABRIC_UPDATE_ENDPOINTS: Status = Status(-113);
    /// `PMIX_ERR_JOB_APP_NOT_EXECUTABLE`.
    pub const ERR_JOB_APP_NOT_EXECUTABLE: Status = Status(-177);
    /// `PMIX_ERR_JOB_NO_EXE_SPECIFIED`.
    pub const ERR_JOB_NO_EXE_SPECIFIED: Status = Status(-178);
    /// `PMIX_ERR_JOB_FAILED_TO_MAP`.
    pub const ERR_JOB_FAILED_TO_MAP: Status = Status(-179);
    /// `PMIX_ERR_JOB_CANCELED`.
    pub const ERR_JOB_CANCELED: Status = Status(-180);
    /// `PMIX_ERR_JOB_FAILED_TO_LAUNCH`.
    pub const ERR_JOB_FAILED_TO_LAUNCH: Status = Status(-181);
    /// `PMIX_ERR_JOB_ABORTED`.
    pub const ERR_JOB_ABORTED: Status = Status(-182);
    /// `PMIX_ERR_JOB_KILLED_BY_CMD`.
    pub const ERR_JOB_KILLED_BY_CMD: Status = Status(-183);
    /// `PMIX_ERR_JOB_ABORTED_BY_SIG`.
    pub const ERR_JOB_ABORTED_BY_SIG: Status = Status(-184);
    /// `PMIX_ERR_JOB_TERM_WO_SYNC`.
    pub const ERR_JOB_TERM_WO_SYNC: Status = Status(-185);
    /// `PMIX_ERR_JOB_SENSOR_BOUND_EXCEEDED`.
    pub const ERR_JOB_SENSOR_BOUND_EXCEEDED: Status = Status(-186);
    /// `PMIX_ERR_JOB_NON_ZERO_TERM`.
    pub const ERR_JOB_NON_ZERO_TERM: Status = Status(-187);
    /// `PMIX_ERR_JOB_ALLOC_FAILED`.
    pub const ERR_JOB_ALLOC_FAILED: Status = Status(-188);
    /// `PMIX_ERR_JOB_ABORTED_BY_SYS_EVENT`.
    pub const ERR_JOB_ABORTED_BY_SYS_EVENT: Status = Status(-189);
    /// `PMIX_ERR_JOB_EXE_NOT_FOUND`.
    pub const ERR_JOB_EXE_NOT_FOUND: Status = Status(-190);
    /// `PMIX_ERR_JOB_WDIR_NOT_FOUND`.
    pub const ERR_JOB_WDIR_NOT_FOUND: Status = Status(-233);
    /// `PMIX_ERR_JOB_INSUFFICIENT_RESOURCES`.
    pub const ERR_JOB_INSUFFICIENT_RESOURCES: Status = Status(-234);
    /// `PMIX_ERR_JOB_SYS_OP_FAILED`.
    pub const ERR_JOB_SYS_OP_FAILED: Status = Status(-235);
    /// `PMIX_EVENT_JOB_START`.
    pub const EVENT_JOB_START: Status = Status(-191);
    /// `PMIX_EVENT_JOB_END`.
    pub const EVENT_JOB_END: Status = Status(-145);
    /// `PMIX_EVENT_SESSION_START`.
    pub const EVENT_SESSION_START: Status = Status(-192);
    /// `PMIX_EVENT_SESSION_END`.
    pub const EVENT_SESSION_END: Status = Status(-193);
    /// `PMIX_ERR_PROC_REQUESTED_ABORT`.
    pub const ERR_PROC_REQUESTED_ABORT: Status = Status(-8);
    /// `PMIX_ERR_PROC_TERM_WO_SYNC`.
    pub const ERR_PROC_TERM_WO_SYNC: Status = Status(-200);
    /// `PMIX_EVENT_PROC_TERMINATED`.
    pub const EVENT_PROC_TERMINATED: Status = Status(-201);
    /// `PMIX_ERR_PROC_KILLED_BY_CMD`.
    pub const ERR_PROC_KILLED_BY_CMD: Status = Status(-400);
    /// `PMIX_ERR_PROC_FAILED_TO_START`.
    pub const ERR_PROC_FAILED_TO_START: Status = Status(-401);
    /// `PMIX_ERR_PROC_ABORTED_BY_SIG`.
    pub const ERR_PROC_ABORTED_BY_SIG: Status = Status(-402);
    /// `PMIX_ERR_PROC_SENSOR_BOUND_EXCEEDED`.
    pub const ERR_PROC_SENSOR_BOUND_EXCEEDED: Status = Status(-403);
    /// `PMIX_ERR_EXIT_NONZERO_TERM`.
    pub const ERR_EXIT_NONZERO_TERM: Status = Status(-404);
    /// `PMIX_EVENT_SYS_BASE`.
    pub const EVENT_SYS_BASE: Status = Status(-230);
    /// `PMIX_EVENT_NODE_DOWN`.
    pub const EVENT_NODE_DOWN: Status = Status(-231);
    /// `PMIX_EVENT_NODE_OFFLINE`.
    pub const EVENT_NODE_OFFLINE: Status = Status(-232);
    /// `PMIX_EVENT_SYS_OTHER`.
    pub const EVENT_SYS_OTHER: Status = Status(-330);
    /// `PMIX_EVENT_NO_ACTION_TAKEN`.
    pub const EVENT_NO_ACTION_TAKEN: Status = Status(-331);
    /// `PMIX_EVENT_PARTIAL_ACTION_TAKEN`.
    pub const EVENT_PARTIAL_ACTION_TAKEN: Status = Status(-332);
    /// `PMIX_EVENT_ACTION_DEFERRED`.
    pub const EVENT_ACTION_DEFERRED: Status = Status(-333);
    /// `PMIX_EVENT_ACTION_COMPLETE`.
    pub const EVENT_ACTION_COMPLETE: Status = Status(-334);
    /// `PMIX_EXTERNAL_ERR_BASE`.
    pub const EXTERNAL_ERR_BASE: Status = Status(-3000);
    /// `PMIX_ERR_SILENT`.
    pub const ERR_SILENT: Status = Status(-2);
    /// `PMIX_ERR_DEBUGGER_RELEASE`.
    pub const ERR_DEBUGGER_RELEASE: Status = Status(-3);
    /// `PMIX_ERR_PROC_ABORTED`.
    pub const ERR_PROC_ABORTED: Status = Status(-7);
    /// `PMIX_ERR_PROC_ABORTING`.
    pub const ERR_PROC_ABORTING: Status = Status(-9);
    /// `PMIX_ERR_SERVER_FAILED_REQUEST`.
    pub const ERR_SERVER_FAILED_REQUEST: Status = Status(-10);
    /// `PMIX_EXISTS`.
    pub const EXISTS: Status = Status(-11);
    /// `PMIX_ERR_HANDSHAKE_FAILED`.
    pub const ERR_HANDSHAKE_FAILED: Status = Status(-13);
    /// `PMIX_ERR_READY_FOR_HANDSHAKE`.
    pub const ERR_READY_FOR_HANDSHAKE: Status = Status(-14);
    /// `PMIX_ERR_PROC_ENTRY_NOT_FOUND`.
    pub const ERR_PROC_ENTRY_NOT_FOUND: Status = Status(-17);
    /// `PMIX_ERR_PACK_MISMATCH`.
    pub const ERR_PACK_MISMATCH: Status = Status(-22);
    /// `PMIX_ERR_IN_ERRNO`.
    pub const ERR_IN_ERRNO: Status = Status(-26);
    /// `PMIX_ERR_DATA_VALUE_NOT_FOUND`.
    pub const ERR_DATA_VALUE_NOT_FOUND: Status = Status(-30);
    /// `PMIX_ERR_INVALID_ARG`.
    pub const ERR_INVALID_ARG: Status = Status(-33);
    /// `PMIX_ERR_INVALID_KEY`.
    pub const ERR_INVALID_KEY: Status = Status(-34);
    /// `PMIX_ERR_INVALID_KEY_LENGTH`.
    pub const ERR_INVALID_KEY_LENGTH: Status = Status(-35);
    /// `PMIX_ERR_INVALID_VAL`.
    pub const ERR_INVALID_VAL: Status = Status(-36);
    /// `PMIX_ERR_INVALID_VAL_LENGTH`.
    pub const ERR_INVALID_VAL_LENGTH: Status = Status(-37);
    /// `PMIX_ERR_INVALID_LENGTH`.
    pub const ERR_INVALID_LENGTH: Status = Status(-38);
    /// `PMIX_ERR_INVALID_NUM_ARGS`.
    pub const ERR_INVALID_NUM_ARGS: Status = Status(-39);
    /// `PMIX_ERR_INVALID_ARGS`.
    pub const ERR_INVALID_ARGS: Status = Status(-40);
    /// `PMIX_ERR_INVALID_NUM_PARSED`.
    pub const ERR_INVALID_NUM_PARSED: Status = Status(-41);
    /// `PMIX_ERR_INVALID_KEYVALP`.
    pub const ERR_INVALID_KEYVALP: Status = Status(-42);
    /// `PMIX_ERR_INVALID_SIZE`.
    pub const ERR_INVALID_SIZE: Status = Status(-43);
    /// `PMIX_ERR_INVALID_NAMESPACE`.
    pub const ERR_INVALID_NAMESPACE: Status = Status(-44);
    /// `PMIX_ERR_SERVER_NOT_AVAIL`.
    pub const ERR_SERVER_NOT_AVAIL: Status = Status(-45);
    /// `PMIX_ERR_NOT_IMPLEMENTED`.
    pub const ERR_NOT_IMPLEMENTED: Status = Status(-48);
    /// `PMIX_DEBUG_WAITING_FOR_NOTIFY`.
    pub const DEBUG_WAITING_FOR_NOTIFY: Status = Status(-58);
    /// `PMIX_ERR_FATAL`.
    pub const ERR_FATAL: Status = Status(-63);
    /// `PMIX_ERR_NOT_AVAILABLE`.
    pub const ERR_NOT_AVAILABLE: Status = Status(-64);
    /// `PMIX_ERR_VALUE_OUT_OF_BOUNDS`.
    pub const ERR_VALUE_OUT_OF_BOUNDS: Status = Status(-65);
    /// `PMIX_ERR_FILE_OPEN_FAILURE`.
    pub const ERR_FILE_OPEN_FAILURE: Status = Status(-67);
    /// `PMIX_ERR_FILE_READ_FAILURE`.
    pub const ERR_FILE_READ_FAILURE: Status = Status(-68);
    /// `PMIX_ERR_FILE_WRITE_FAILURE`.
    pub const ERR_FILE_WRITE_FAILURE: Status = Status(-69);
    /// `PMIX_ERR_SYS_LIMITS_PIPES`.
    pub const ERR_SYS_LIMITS_PIPES: Status = Status(-70);
    /// `PMIX_ERR_SYS_LIMITS_CHILDREN`.
    pub const ERR_SYS_LIMITS_CHILDREN: Status = Status(-71);
    /// `PMIX_ERR_PIPE_SETUP_FAILURE`.
    pub const ERR_PIPE_SETUP_FAILURE: Status = Status(-72);
    /// `PMIX_ERR_EXE_NOT_ACCESSIBLE`.
    pub const ERR_EXE_NOT_ACCESSIBLE: Status = Status(-73);
    /// `PMIX_ERR_JOB_WDIR_NOT_ACCESSIBLE`.
    pub const ERR_JOB_WDIR_NOT_ACCESSIBLE: Status = Status(-74);
    /// `PMIX_ERR_SYS_LIMITS_FILES`.
    pub const ERR_SYS_LIMITS_FILES: Status = Status(-75);
    /// `PMIX_ERR_LOST_CONNECTION_TO_SERVER`.
    pub const ERR_LOST_CONNECTION_TO_SERVER: Status = Status(-101);
    /// `PMIX_ERR_LOST_PEER_CONNECTION`.
    pub const ERR_LOST_PEER_CONNECTION: Status = Status(-102);
    /// `PMIX_ERR_LOST_CONNECTION_TO_CLIENT`.
    pub const ERR_LOST_CONNECTION_TO_CLIENT: Status = Status(-103);
    /// `PMIX_NOTIFY_ALLOC_COMPLETE`.
    pub const NOTIFY_ALLOC_COMPLETE: Status = Status(-105);
    /// `PMIX_ERR_INVALID_TERMINATION`.
    pub const ERR_INVALID_TERMINATION: Status = Status(-112);
    /// `PMIX_ERR_JOB_TERMINATED`.
    pub const ERR_JOB_TERMINATED: Status = Status(-145);
    /// `PMIX_ERR_UPDATE_ENDPOINTS`.
    pub const ERR_UPDATE_ENDPOINTS: Status = Status(-146);
    /// `PMIX_GDS_ACTION_COMPLETE`.
    pub const GDS_ACTION_COMPLETE: Status = Status(-148);
    /// `PMIX_PROC_HAS_CONNECTED`.
    pub const PROC_HAS_CONNECTED: Status = Status(-149);
    /// `PMIX_CONNECT_REQUESTED`.
    pub const CONNECT_REQUESTED: Status = Status(-150);
    /// `PMIX_PROC_HAS_DISCONNECTED`.
    pub const PROC_HAS_DISCONNECTED: Status = Status(-1149);
    /// `PMIX_ERR_NODE_DOWN`.
    pub const ERR_NODE_DOWN: Status = Status(-231);
    /// `PMIX_ERR_NODE_OFFLINE`.
    pub const ERR_NODE_OFFLINE: Status = Status(-232);
    /// `PMIX_ERR_SYS_BASE`.
    pub const ERR_SYS_BASE: Status = Status(-230);
    /// `PMIX_ERR_SYS_OTHER`.
    pub const ERR_SYS_OTHER: Status = Status(-330);
    /// `PMIX_MONITOR_RESUSAGE_UPDATE`.
    pub const MONITOR_RESUSAGE_UPDATE: Status = Status(-114);
    /// `PMIX_ERR_LOST_PRECISION`.
    pub const ERR_LOST_PRECISION: Status = Status(-202);
    /// `PMIX_ERR_CHANGE_SIGN`.
    pub const ERR_CHANGE_SIGN: Status = Status(-203);
    /// `PMIX_ERR_NOT_A_MEMBER`.
    pub const ERR_NOT_A_MEMBER: Status = Status(-66);
    /// `PMIX_ERR_IOF_XOFF`.
    pub const ERR_IOF_XOFF: Status = Status(-405);
    /// `PMIX_ERR_DVM_MOD`.
    pub const ERR_DVM_MOD: Status = Status(-196);
    /// `PMIX_ALLOC_TIMEOUT_WARNING`.
    pub const ALLOC_TIMEOUT_WARNING: Status = Status(-194);
    /// `PMIX_DVM_IS_READY`.
    pub const DVM_IS_READY: Status = Status(-195);
}

/// Codes and names; of several names of a code the newest release's comes first.
pub const NAMES: &[(i32, &str)] = &[
    (0, "PMIX_SUCCESS"),
    (-1, "PMIX_ERROR"),
    (-4, "PMIX_ERR_PROC_RESTART"),
    (-5, "PMIX_ERR_PROC_CHECKPOINT"),
    (-6, "PMIX_ERR_PROC_MIGRATE"),
    (-11, "PMIX_ERR_EXISTS"),
    (-12, "PMIX_ERR_INVALID_CRED"),
    (-15, "PMIX_ERR_WOULD_BLOCK"),
    (-16, "PMIX_ERR_UNKNOWN_DATA_TYPE"),
    (-18, "PMIX_ERR_TYPE_MISMATCH"),
    (-19, "PMIX_ERR_UNPACK_INADEQUATE_SPACE"),
    (-20, "PMIX_ERR_UNPACK_FAILURE"),
    (-21, "PMIX_ERR_PACK_FAILURE"),
    (-23, "PMIX_ERR_NO_PERMISSIONS"),
    (-24, "PMIX_ERR_TIMEOUT"),
    (-25, "PMIX_ERR_UNREACH"),
    (-27, "PMIX_ERR_BAD_PARAM"),
    (-28, "PMIX_ERR_RESOURCE_BUSY"),
    (-29, "PMIX_ERR_OUT_OF_RESOURCE"),
    (-31, "PMIX_ERR_INIT"),
    (-32, "PMIX_ERR_NOMEM"),
    (-46, "PMIX_ERR_NOT_FOUND"),
    (-47, "PMIX_ERR_NOT_SUPPORTED"),
    (-59, "PMIX_ERR_PARAM_VALUE_NOT_SUPPORTED"),
    (-49, "PMIX_ERR_COMM_FAILURE"),
    (-50, "PMIX_ERR_UNPACK_READ_PAST_END_OF_BUFFER"),
    (-51, "PMIX_ERR_CONFLICTING_CLEANUP_DIRECTIVES"),
    (-52, "PMIX_ERR_PARTIAL_SUCCESS"),
    (-53, "PMIX_ERR_DUPLICATE_KEY"),
    (-60, "PMIX_ERR_EMPTY"),
    (-61, "PMIX_ERR_LOST_CONNECTION"),
    (-62, "PMIX_ERR_EXISTS_OUTSIDE_SCOPE"),
    (-55, "PMIX_PROCESS_SET_DEFINE"),
    (-56, "PMIX_PROCESS_SET_DELETE"),
    (-3, "PMIX_DEBUGGER_RELEASE"),
    (-58, "PMIX_READY_FOR_DEBUG"),
    (-104, "PMIX_QUERY_PARTIAL_SUCCESS"),
    (-106, "PMIX_JCTRL_CHECKPOINT"),
    (-107, "PMIX_JCTRL_CHECKPOINT_COMPLETE"),
    (-108, "PMIX_JCTRL_PREEMPT_ALERT"),
    (-109, "PMIX_MONITOR_HEARTBEAT_ALERT"),
    (-110, "PMIX_MONITOR_FILE_ALERT"),
    (-111, "PMIX_PROC_TERMINATED"),
    (-144, "PMIX_ERR_EVENT_REGISTRATION"),
    (-147, "PMIX_MODEL_DECLARED"),
    (-151, "PMIX_MODEL_RESOURCES"),
    (-152, "PMIX_OPENMP_PARALLEL_ENTERED"),
    (-153, "PMIX_OPENMP_PARALLEL_EXITED"),
    (-155, "PMIX_LAUNCHER_READY"),
    (-156, "PMIX_OPERATION_IN_PROGRESS"),
    (-157, "PMIX_OPERATION_SUCCEEDED"),
    (-158, "PMIX_ERR_INVALID_OPERATION"),
    (-159, "PMIX_GROUP_INVITED"),
    (-160, "PMIX_GROUP_LEFT"),
    (-161, "PMIX_GROUP_INVITE_ACCEPTED"),
    (-162, "PMIX_GROUP_INVITE_DECLINED"),
    (-163, "PMIX_GROUP_INVITE_FAILED"),
    (-164, "PMIX_GROUP_MEMBERSHIP_UPDATE"),
    (-165, "PMIX_GROUP_CONSTRUCT_ABORT"),
    (-166, "PMIX_GROUP_CONSTRUCT_COMPLETE"),
    (-167, "PMIX_GROUP_LEADER_SELECTED"),
    (-168, "PMIX_GROUP_LEADER_FAILED"),
    (-169, "PMIX_GROUP_CONTEXT_ID_ASSIGNED"),
    (-170, "PMIX_GROUP_MEMBER_FAILED"),
    (-171, "PMIX_ERR_REPEAT_ATTR_REGISTRATION"),
    (-172, "PMIX_ERR_IOF_FAILURE"),
    (-173, "PMIX_ERR_IOF_COMPLETE"),
    (-174, "PMIX_LAUNCH_COMPLETE"),
    (-175, "PMIX_FABRIC_UPDATED"),
    (-176, "PMIX_FABRIC_UPDATE_PENDING"),
    (-113, "PMIX_FABRIC_UPDATE_ENDPOINTS"),
    (-177, "PMIX_ERR_JOB_APP_NOT_EXECUTABLE"),
    (-178, "PMIX_ERR_JOB_NO_EXE_SPECIFIED"),
    (-179, "PMIX_ERR_JOB_FAILED_TO_MAP"),
    (-180, "PMIX_ERR_JOB_CANCELED"),
    (-181, "PMIX_ERR_JOB_FAILED_TO_LAUNCH"),
    (-182, "PMIX_ERR_JOB_ABORTED"),
    (-183, "PMIX_ERR_JOB_KILLED_BY_CMD"),
    (-184, "PMIX_ERR_JOB_ABORTED_BY_SIG"),
    (-185, "PMIX_ERR_JOB_TERM_WO_SYNC"),
    (-186, "PMIX_ERR_JOB_SENSOR_BOUND_EXCEEDED"),
    (-187, "PMIX_ERR_JOB_NON_ZERO_TERM"),
    (-188, "PMIX_ERR_JOB_ALLOC_FAILED"),
    (-189, "PMIX_ERR_JOB_ABORTED_BY_SYS_EVENT"),
    (-190, "PMIX_ERR_JOB_EXE_NOT_FOUND"),
    (-233, "PMIX_ERR_JOB_WDIR_NOT_FOUND"),
    (-234, "PMIX_ERR_JOB_INSUFFICIENT_RESOURCES"),
    (-235, "PMIX_ERR_JOB_SYS_OP_FAILED"),
    (-191, "PMIX_EVENT_JOB_START"),
    (-145, "PMIX_EVENT_JOB_END"),
    (-192, "PMIX_EVENT_SESSION_START"),
    (-193, "PMIX_EVENT_SESSION_END"),
    (-8, "PMIX_ERR_PROC_REQUESTED_ABORT"),
    (-200, "PMIX_ERR_PROC_TERM_WO_SYNC"),
    (-201, "PMIX_EVENT_PROC_TERMINATED"),
    (-400, "PMIX_ERR_PROC_KILLED_BY_CMD"),
    (-401, "PMIX_ERR_PROC_FAILED_TO_START"),
    (-402, "PMIX_ERR_PROC_ABORTED_BY_SIG"),
    (-403, "PMIX_ERR_PROC_SENSOR_BOUND_EXCEEDED"),
    (-404, "PMIX_ERR_EXIT_NONZERO_TERM"),
    (-230, "PMIX_EVENT_SYS_BASE"),
    (-231, "PMIX_EVENT_NODE_DOWN"),
    (-232, "PMIX_EVENT_NODE_OFFLINE"),
    (-330, "PMIX_EVENT_SYS_OTHER"),
    (-331, "PMIX_EVENT_NO_ACTION_TAKEN"),
    (-332, "PMIX_EVENT_PARTIAL_ACTION_TAKEN"),
    (-333, "PMIX_EVENT_ACTION_DEFERRED"),
    (-334, "PMIX_EVENT_ACTION_COMPLETE"),
    (-2, "PMIX_ERR_SILENT"),
    (-7, "PMIX_ERR_PROC_ABORTED"),
    (-9, "PMIX_ERR_PROC_ABORTING"),
    (-10, "PMIX_ERR_SERVER_FAILED_REQUEST"),
    (-13, "PMIX_ERR_HANDSHAKE_FAILED"),
    (-14, "PMIX_ERR_READY_FOR_HANDSHAKE"),
    (-17, "PMIX_ERR_PROC_ENTRY_NOT_FOUND"),
    (-22, "PMIX_ERR_PACK_MISMATCH"),
    (-26, "PMIX_ERR_IN_ERRNO"),
    (-30, "PMIX_ERR_DATA_VALUE_NOT_FOUND"),
    (-33, "PMIX_ERR_INVALID_ARG"),
    (-34, "PMIX_ERR_INVALID_KEY"),
    (-35, "PMIX_ERR_INVALID_KEY_LENGTH"),
    (-36, "PMIX_ERR_INVALID_VAL"),
    (-37, "PMIX_ERR_INVALID_VAL_LENGTH"),
    (-38, "PMIX_ERR_INVALID_LENGTH"),
    (-39, "PMIX_ERR_INVALID_NUM_ARGS"),
    (-40, "PMIX_ERR_INVALID_ARGS"),
    (-41, "PMIX_ERR_INVALID_NUM_PARSED"),
    (-42, "PMIX_ERR_INVALID_KEYVALP"),
    (-43, "PMIX_ERR_INVALID_SIZE"),
    (-44, "PMIX_ERR_INVALID_NAMESPACE"),
    (-45, "PMIX_ERR_SERVER_NOT_AVAIL"),
    (-48, "PMIX_ERR_NOT_IMPLEMENTED"),
    (-63, "PMIX_ERR_FATAL"),
    (-64, "PMIX_ERR_NOT_AVAILABLE"),
    (-65, "PMIX_ERR_VALUE_OUT_OF_BOUNDS"),
    (-67, "PMIX_ERR_FILE_OPEN_FAILURE"),
    (-68, "PMIX_ERR_FILE_READ_FAILURE"),
    (-69, "PMIX_ERR_FILE_WRITE_FAILURE"),
    (-70, "PMIX_ERR_SYS_LIMITS_PIPES"),
    (-71, "PMIX_ERR_SYS_LIMITS_CHILDREN"),
    (-72, "PMIX_ERR_PIPE_SETUP_FAILURE"),
    (-73, "PMIX_ERR_EXE_NOT_ACCESSIBLE"),
    (-74, "PMIX_ERR_JOB_WDIR_NOT_ACCESSIBLE"),
    (-75, "PMIX_ERR_SYS_LIMITS_FILES"),
    (-101, "PMIX_ERR_LOST_CONNECTION_TO_SERVER"),
    (-102, "PMIX_ERR_LOST_PEER_CONNECTION"),
    (-103, "PMIX_ERR_LOST_CONNECTION_TO_CLIENT"),
    (-105, "PMIX_NOTIFY_ALLOC_COMPLETE"),
    (-112, "PMIX_ERR_INVALID_TERMINATION"),
    (-146, "PMIX_ERR_UPDATE_ENDPOINTS"),
    (-148, "PMIX_GDS_ACTION_COMPLETE"),
    (-149, "PMIX_PROC_HAS_CONNECTED"),
    (-150, "PMIX_CONNECT_REQUESTED"),
    (-1149, "PMIX_PROC_HAS_DISCONNECTED"),
    (-114, "PMIX_MONITOR_RESUSAGE_UPDATE"),
    (-202, "PMIX_ERR_LOST_PRECISION"),
    (-203, "PMIX_ERR_CHANGE_SIGN"),
    (-66, "PMIX_ERR_NOT_A_MEMBER"),
    (-405, "PMIX_ERR_IOF_XOFF"),
    (-196, "PMIX_ERR_DVM_MOD"),
    (-194, "PMIX_ALLOC_TIMEOUT_WARNING"),
    (-195, "PMIX_DVM_IS_READY"),
    (-3000, "PMIX_EXTERNAL_ERR_BASE"),
    (-3, "PMIX_ERR_DEBUGGER_RELEASE"),
    (-11, "PMIX_EXISTS"),
    (-58, "PMIX_DEBUG_WAITING_FOR_NOTIFY"),
    (-145, "PMIX_ERR_JOB_TERMINATED"),
    (-231, "PMIX_ERR_NODE_DOWN"),
    (-232, "PMIX_ERR_NODE_OFFLINE"),
    (-230, "PMIX_ERR_SYS_BASE"),
    (-330, "PMIX_ERR_SYS_OTHER"),
];
