/* Constants, attributes, structures and helper macros of PMIx.
 * Names, values and layouts are those of release 4.2.2, with what later releases added; written once from tables, then kept by hand. */
#ifndef PMIX_DSTORE_PMIX_COMMON_H
#define PMIX_DSTORE_PMIX_COMMON_H

#include <ctype.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/time.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#include <pmix_version.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PMIX_HAVE_VISIBILITY 1
#define PMIX_EXPORT __attribute__((__visibility__("default")))

#define PMIX_MAX_NSLEN 255
#define PMIX_MAX_KEYLEN 511

/* ---- scalar types ---- */

typedef char pmix_nspace_t[PMIX_MAX_NSLEN + 1];
typedef char pmix_key_t[PMIX_MAX_KEYLEN + 1];
typedef uint32_t pmix_rank_t;
typedef uint8_t pmix_proc_state_t;
typedef uint8_t pmix_job_state_t;
typedef int pmix_status_t;
typedef uint16_t pmix_data_type_t;
typedef uint8_t pmix_scope_t;
typedef uint8_t pmix_data_range_t;
typedef uint8_t pmix_persistence_t;
typedef uint32_t pmix_info_directives_t;
typedef uint8_t pmix_alloc_directive_t;
typedef uint8_t pmix_alloc_inheritance_t;
typedef uint8_t pmix_resource_block_directive_t;
typedef uint16_t pmix_iof_channel_t;
typedef uint64_t pmix_storage_medium_t;
typedef uint64_t pmix_storage_accessibility_t;
typedef uint64_t pmix_storage_persistence_t;
typedef uint16_t pmix_storage_access_type_t;
typedef uint8_t pmix_coord_view_t;
typedef uint8_t pmix_link_state_t;
typedef uint8_t pmix_bind_envelope_t;
typedef uint16_t pmix_locality_t;
typedef uint64_t pmix_device_type_t;

/* ---- enumerations ---- */

typedef enum {
    PMIX_EQUAL = 0,
    PMIX_VALUE1_GREATER = 1,
    PMIX_VALUE2_GREATER = 2,
    PMIX_VALUE_TYPE_DIFFERENT = 3,
    PMIX_VALUE_INCOMPATIBLE_OBJECTS = 4,
    PMIX_VALUE_COMPARISON_NOT_AVAIL = 5
} pmix_value_cmp_t;

typedef enum {
    PMIX_GROUP_DECLINE = 0,
    PMIX_GROUP_ACCEPT = 1
} pmix_group_opt_t;

typedef enum {
    PMIX_GROUP_CONSTRUCT = 0,
    PMIX_GROUP_DESTRUCT = 1,
    PMIX_GROUP_NONE = 2,
    PMIX_GROUP_CANCEL = 3
} pmix_group_operation_t;

typedef enum {
    PMIX_BOOL_TRUE = 0,
    PMIX_BOOL_FALSE = 1,
    PMIX_NON_BOOL = 2
} pmix_boolean_t;

typedef enum {
    PMIX_FABRIC_REQUEST_INFO = 0,
    PMIX_FABRIC_UPDATE_INFO = 1
} pmix_fabric_operation_t;

/* ---- pmix_rank_t ---- */

#define PMIX_RANK_UNDEF 0xffffffffU
#define PMIX_RANK_WILDCARD 0xfffffffeU
#define PMIX_RANK_LOCAL_NODE 0xfffffffdU
#define PMIX_RANK_LOCAL_PEERS 0xfffffffbU
#define PMIX_RANK_INVALID 0xfffffffcU
#define PMIX_RANK_VALID 0xffffffcdU
#define PMIX_APP_WILDCARD 0xffffffffU

/* ---- pmix_status_t ---- */

#define PMIX_SUCCESS 0
#define PMIX_ERROR -1
#define PMIX_ERR_PROC_RESTART -4
#define PMIX_ERR_PROC_CHECKPOINT -5
#define PMIX_ERR_PROC_MIGRATE -6
#define PMIX_ERR_EXISTS -11
#define PMIX_ERR_INVALID_CRED -12
#define PMIX_ERR_WOULD_BLOCK -15
#define PMIX_ERR_UNKNOWN_DATA_TYPE -16
#define PMIX_ERR_TYPE_MISMATCH -18
#define PMIX_ERR_UNPACK_INADEQUATE_SPACE -19
#define PMIX_ERR_UNPACK_FAILURE -20
#define PMIX_ERR_PACK_FAILURE -21
#define PMIX_ERR_NO_PERMISSIONS -23
#define PMIX_ERR_TIMEOUT -24
#define PMIX_ERR_UNREACH -25
#define PMIX_ERR_BAD_PARAM -27
#define PMIX_ERR_RESOURCE_BUSY -28
#define PMIX_ERR_OUT_OF_RESOURCE -29
#define PMIX_ERR_INIT -31
#define PMIX_ERR_NOMEM -32
#define PMIX_ERR_NOT_FOUND -46
#define PMIX_ERR_NOT_SUPPORTED -47
#define PMIX_ERR_PARAM_VALUE_NOT_SUPPORTED -59
#define PMIX_ERR_COMM_FAILURE -49
#define PMIX_ERR_UNPACK_READ_PAST_END_OF_BUFFER -50
#define PMIX_ERR_CONFLICTING_CLEANUP_DIRECTIVES -51
#define PMIX_ERR_PARTIAL_SUCCESS -52
#define PMIX_ERR_DUPLICATE_KEY -53
#define PMIX_ERR_EMPTY -60
#define PMIX_ERR_LOST_CONNECTION -61
#define PMIX_ERR_EXISTS_OUTSIDE_SCOPE -62
#define PMIX_PROCESS_SET_DEFINE -55
#define PMIX_PROCESS_SET_DELETE -56
#define PMIX_DEBUGGER_RELEASE -3
#define PMIX_READY_FOR_DEBUG -58
#define PMIX_QUERY_PARTIAL_SUCCESS -104
#define PMIX_JCTRL_CHECKPOINT -106
#define PMIX_JCTRL_CHECKPOINT_COMPLETE -107
#define PMIX_JCTRL_PREEMPT_ALERT -108
#define PMIX_MONITOR_HEARTBEAT_ALERT -109
#define PMIX_MONITOR_FILE_ALERT -110
#define PMIX_PROC_TERMINATED -111
#define PMIX_ERR_EVENT_REGISTRATION -144
#define PMIX_MODEL_DECLARED -147
#define PMIX_MODEL_RESOURCES -151
#define PMIX_OPENMP_PARALLEL_ENTERED -152
#define PMIX_OPENMP_PARALLEL_EXITED -153
#define PMIX_LAUNCHER_READY -155
#define PMIX_OPERATION_IN_PROGRESS -156
#define PMIX_OPERATION_SUCCEEDED -157
#define PMIX_ERR_INVALID_OPERATION -158
#define PMIX_GROUP_INVITED -159
#define PMIX_GROUP_LEFT -160
#define PMIX_GROUP_INVITE_ACCEPTED -161
#define PMIX_GROUP_INVITE_DECLINED -162
#define PMIX_GROUP_INVITE_FAILED -163
#define PMIX_GROUP_MEMBERSHIP_UPDATE -164
#define PMIX_GROUP_CONSTRUCT_ABORT -165
#define PMIX_GROUP_CONSTRUCT_COMPLETE -166
#define PMIX_GROUP_LEADER_SELECTED -167
#define PMIX_GROUP_LEADER_FAILED -168
#define PMIX_GROUP_CONTEXT_ID_ASSIGNED -169
#define PMIX_GROUP_MEMBER_FAILED -170
#define PMIX_ERR_REPEAT_ATTR_REGISTRATION -171
#define PMIX_ERR_IOF_FAILURE -172
#define PMIX_ERR_IOF_COMPLETE -173
#define PMIX_LAUNCH_COMPLETE -174
#define PMIX_FABRIC_UPDATED -175
#define PMIX_FABRIC_UPDATE_PENDING -176
#define PMIX_FABRIC_UPDATE_ENDPOINTS -113
#define PMIX_ERR_JOB_APP_NOT_EXECUTABLE -177
#define PMIX_ERR_JOB_NO_EXE_SPECIFIED -178
#define PMIX_ERR_JOB_FAILED_TO_MAP -179
#define PMIX_ERR_JOB_CANCELED -180
#define PMIX_ERR_JOB_FAILED_TO_LAUNCH -181
#define PMIX_ERR_JOB_ABORTED -182
#define PMIX_ERR_JOB_KILLED_BY_CMD -183
#define PMIX_ERR_JOB_ABORTED_BY_SIG -184
#define PMIX_ERR_JOB_TERM_WO_SYNC -185
#define PMIX_ERR_JOB_SENSOR_BOUND_EXCEEDED -186
#define PMIX_ERR_JOB_NON_ZERO_TERM -187
#define PMIX_ERR_JOB_ALLOC_FAILED -188
#define PMIX_ERR_JOB_ABORTED_BY_SYS_EVENT -189
#define PMIX_ERR_JOB_EXE_NOT_FOUND -190
#define PMIX_ERR_JOB_WDIR_NOT_FOUND -233
#define PMIX_ERR_JOB_INSUFFICIENT_RESOURCES -234
#define PMIX_ERR_JOB_SYS_OP_FAILED -235
#define PMIX_EVENT_JOB_START -191
#define PMIX_EVENT_JOB_END -145
#define PMIX_EVENT_SESSION_START -192
#define PMIX_EVENT_SESSION_END -193
#define PMIX_ERR_PROC_REQUESTED_ABORT -8
#define PMIX_ERR_PROC_TERM_WO_SYNC -200
#define PMIX_EVENT_PROC_TERMINATED -201
#define PMIX_ERR_PROC_KILLED_BY_CMD -400
#define PMIX_ERR_PROC_FAILED_TO_START -401
#define PMIX_ERR_PROC_ABORTED_BY_SIG -402
#define PMIX_ERR_PROC_SENSOR_BOUND_EXCEEDED -403
#define PMIX_ERR_EXIT_NONZERO_TERM -404
#define PMIX_EVENT_SYS_BASE -230
#define PMIX_EVENT_NODE_DOWN -231
#define PMIX_EVENT_NODE_OFFLINE -232
#define PMIX_EVENT_SYS_OTHER -330
#define PMIX_EVENT_NO_ACTION_TAKEN -331
#define PMIX_EVENT_PARTIAL_ACTION_TAKEN -332
#define PMIX_EVENT_ACTION_DEFERRED -333
#define PMIX_EVENT_ACTION_COMPLETE -334
#define PMIX_EXTERNAL_ERR_BASE -3000
#define PMIX_ERR_SILENT -2
#define PMIX_ERR_DEBUGGER_RELEASE -3
#define PMIX_ERR_PROC_ABORTED -7
#define PMIX_ERR_PROC_ABORTING -9
#define PMIX_ERR_SERVER_FAILED_REQUEST -10
#define PMIX_EXISTS -11
#define PMIX_ERR_HANDSHAKE_FAILED -13
#define PMIX_ERR_READY_FOR_HANDSHAKE -14
#define PMIX_ERR_PROC_ENTRY_NOT_FOUND -17
#define PMIX_ERR_PACK_MISMATCH -22
#define PMIX_ERR_IN_ERRNO -26
#define PMIX_ERR_DATA_VALUE_NOT_FOUND -30
#define PMIX_ERR_INVALID_ARG -33
#define PMIX_ERR_INVALID_KEY -34
#define PMIX_ERR_INVALID_KEY_LENGTH -35
#define PMIX_ERR_INVALID_VAL -36
#define PMIX_ERR_INVALID_VAL_LENGTH -37
#define PMIX_ERR_INVALID_LENGTH -38
#define PMIX_ERR_INVALID_NUM_ARGS -39
#define PMIX_ERR_INVALID_ARGS -40
#define PMIX_ERR_INVALID_NUM_PARSED -41
#define PMIX_ERR_INVALID_KEYVALP -42
#define PMIX_ERR_INVALID_SIZE -43
#define PMIX_ERR_INVALID_NAMESPACE -44
#define PMIX_ERR_SERVER_NOT_AVAIL -45
#define PMIX_ERR_NOT_IMPLEMENTED -48
#define PMIX_DEBUG_WAITING_FOR_NOTIFY -58
#define PMIX_ERR_FATAL -63
#define PMIX_ERR_NOT_AVAILABLE -64
#define PMIX_ERR_VALUE_OUT_OF_BOUNDS -65
#define PMIX_ERR_FILE_OPEN_FAILURE -67
#define PMIX_ERR_FILE_READ_FAILURE -68
#define PMIX_ERR_FILE_WRITE_FAILURE -69
#define PMIX_ERR_SYS_LIMITS_PIPES -70
#define PMIX_ERR_SYS_LIMITS_CHILDREN -71
#define PMIX_ERR_PIPE_SETUP_FAILURE -72
#define PMIX_ERR_EXE_NOT_ACCESSIBLE -73
#define PMIX_ERR_JOB_WDIR_NOT_ACCESSIBLE -74
#define PMIX_ERR_SYS_LIMITS_FILES -75
#define PMIX_ERR_LOST_CONNECTION_TO_SERVER -101
#define PMIX_ERR_LOST_PEER_CONNECTION -102
#define PMIX_ERR_LOST_CONNECTION_TO_CLIENT -103
#define PMIX_NOTIFY_ALLOC_COMPLETE -105
#define PMIX_ERR_INVALID_TERMINATION -112
#define PMIX_ERR_JOB_TERMINATED -145
#define PMIX_ERR_UPDATE_ENDPOINTS -146
#define PMIX_GDS_ACTION_COMPLETE -148
#define PMIX_PROC_HAS_CONNECTED -149
#define PMIX_CONNECT_REQUESTED -150
#define PMIX_ERR_NODE_DOWN -231
#define PMIX_ERR_NODE_OFFLINE -232
#define PMIX_ERR_SYS_BASE -230
#define PMIX_ERR_SYS_OTHER -330
#define PMIX_MONITOR_RESUSAGE_UPDATE -114
#define PMIX_ERR_LOST_PRECISION -202
#define PMIX_ERR_CHANGE_SIGN -203
#define PMIX_ERR_NOT_A_MEMBER -66
#define PMIX_ERR_IOF_XOFF -405
#define PMIX_ERR_DVM_MOD -196
#define PMIX_ALLOC_TIMEOUT_WARNING -194
#define PMIX_DVM_IS_READY -195

/* ---- pmix_data_type_t ---- */

#define PMIX_UNDEF 0
#define PMIX_BOOL 1
#define PMIX_BYTE 2
#define PMIX_STRING 3
#define PMIX_SIZE 4
#define PMIX_PID 5
#define PMIX_INT 6
#define PMIX_INT8 7
#define PMIX_INT16 8
#define PMIX_INT32 9
#define PMIX_INT64 10
#define PMIX_UINT 11
#define PMIX_UINT8 12
#define PMIX_UINT16 13
#define PMIX_UINT32 14
#define PMIX_UINT64 15
#define PMIX_FLOAT 16
#define PMIX_DOUBLE 17
#define PMIX_TIMEVAL 18
#define PMIX_TIME 19
#define PMIX_STATUS 20
#define PMIX_VALUE 21
#define PMIX_PROC 22
#define PMIX_APP 23
#define PMIX_INFO 24
#define PMIX_PDATA 25
#define PMIX_BYTE_OBJECT 27
#define PMIX_KVAL 28
#define PMIX_PERSIST 30
#define PMIX_POINTER 31
#define PMIX_SCOPE 32
#define PMIX_DATA_RANGE 33
#define PMIX_COMMAND 34
#define PMIX_INFO_DIRECTIVES 35
#define PMIX_DATA_TYPE 36
#define PMIX_PROC_STATE 37
#define PMIX_PROC_INFO 38
#define PMIX_DATA_ARRAY 39
#define PMIX_PROC_RANK 40
#define PMIX_QUERY 41
#define PMIX_COMPRESSED_STRING 42
#define PMIX_ALLOC_DIRECTIVE 43
#define PMIX_IOF_CHANNEL 45
#define PMIX_ENVAR 46
#define PMIX_COORD 47
#define PMIX_REGATTR 48
#define PMIX_REGEX 49
#define PMIX_JOB_STATE 50
#define PMIX_LINK_STATE 51
#define PMIX_PROC_CPUSET 52
#define PMIX_GEOMETRY 53
#define PMIX_DEVICE_DIST 54
#define PMIX_ENDPOINT 55
#define PMIX_TOPO 56
#define PMIX_DEVTYPE 57
#define PMIX_LOCTYPE 58
#define PMIX_COMPRESSED_BYTE_OBJECT 59
#define PMIX_PROC_NSPACE 60
#define PMIX_PROC_STATS 61
#define PMIX_DISK_STATS 62
#define PMIX_NET_STATS 63
#define PMIX_NODE_STATS 64
#define PMIX_DATA_BUFFER 65
#define PMIX_STOR_MEDIUM 66
#define PMIX_STOR_ACCESS 67
#define PMIX_STOR_PERSIST 68
#define PMIX_STOR_ACCESS_TYPE 69
#define PMIX_DATA_TYPE_MAX 500
#define PMIX_BUFFER 26
#define PMIX_DEVICE 70
#define PMIX_RESBLOCK_DIRECTIVE 71
#define PMIX_RESOURCE_UNIT 72
#define PMIX_NODE_PID 73
#define PMIX_REGEX2 74
#define PMIX_ALLOC_INHERIT 75

/* ---- pmix_proc_state_t ---- */

#define PMIX_PROC_STATE_UNDEF 0
#define PMIX_PROC_STATE_PREPPED 1
#define PMIX_PROC_STATE_LAUNCH_UNDERWAY 2
#define PMIX_PROC_STATE_RESTART 3
#define PMIX_PROC_STATE_TERMINATE 4
#define PMIX_PROC_STATE_RUNNING 5
#define PMIX_PROC_STATE_CONNECTED 6
#define PMIX_PROC_STATE_UNTERMINATED 15
#define PMIX_PROC_STATE_TERMINATED 20
#define PMIX_PROC_STATE_ERROR 50
#define PMIX_PROC_STATE_KILLED_BY_CMD 51
#define PMIX_PROC_STATE_ABORTED 52
#define PMIX_PROC_STATE_FAILED_TO_START 53
#define PMIX_PROC_STATE_ABORTED_BY_SIG 54
#define PMIX_PROC_STATE_TERM_WO_SYNC 55
#define PMIX_PROC_STATE_COMM_FAILED 56
#define PMIX_PROC_STATE_SENSOR_BOUND_EXCEEDED 57
#define PMIX_PROC_STATE_CALLED_ABORT 58
#define PMIX_PROC_STATE_HEARTBEAT_FAILED 59
#define PMIX_PROC_STATE_MIGRATING 60
#define PMIX_PROC_STATE_CANNOT_RESTART 61
#define PMIX_PROC_STATE_TERM_NON_ZERO 62
#define PMIX_PROC_STATE_FAILED_TO_LAUNCH 63

/* ---- pmix_job_state_t ---- */

#define PMIX_JOB_STATE_UNDEF 0
#define PMIX_JOB_STATE_AWAITING_ALLOC 1
#define PMIX_JOB_STATE_LAUNCH_UNDERWAY 2
#define PMIX_JOB_STATE_RUNNING 3
#define PMIX_JOB_STATE_SUSPENDED 4
#define PMIX_JOB_STATE_CONNECTED 5
#define PMIX_JOB_STATE_UNTERMINATED 15
#define PMIX_JOB_STATE_TERMINATED 20
#define PMIX_JOB_STATE_TERMINATED_WITH_ERROR 50
#define PMIX_JOB_STATE_PREPPED 1

/* ---- pmix_scope_t ---- */

#define PMIX_SCOPE_UNDEF 0
#define PMIX_LOCAL 1
#define PMIX_REMOTE 2
#define PMIX_GLOBAL 3
#define PMIX_INTERNAL 4
#define PMIX_DEL_LOCAL 5
#define PMIX_DEL_REMOTE 6
#define PMIX_DEL_GLOBAL 7
#define PMIX_DEL_INTERNAL 8

/* ---- pmix_data_range_t ---- */

#define PMIX_RANGE_UNDEF 0
#define PMIX_RANGE_RM 1
#define PMIX_RANGE_LOCAL 2
#define PMIX_RANGE_NAMESPACE 3
#define PMIX_RANGE_SESSION 4
#define PMIX_RANGE_GLOBAL 5
#define PMIX_RANGE_CUSTOM 6
#define PMIX_RANGE_PROC_LOCAL 7
#define PMIX_RANGE_INVALID 255

/* ---- pmix_persistence_t ---- */

#define PMIX_PERSIST_INDEF 0
#define PMIX_PERSIST_FIRST_READ 1
#define PMIX_PERSIST_PROC 2
#define PMIX_PERSIST_APP 3
#define PMIX_PERSIST_SESSION 4
#define PMIX_PERSIST_INVALID 255

/* ---- pmix_info_directives_t ---- */

#define PMIX_INFO_REQD 1
#define PMIX_INFO_ARRAY_END 2
#define PMIX_INFO_REQD_PROCESSED 4
#define PMIX_INFO_QUALIFIER 8
#define PMIX_INFO_PERSISTENT 16
#define PMIX_INFO_DIR_RESERVED 0xffff0000U

/* ---- pmix_alloc_directive_t ---- */

#define PMIX_ALLOC_NEW 1
#define PMIX_ALLOC_EXTEND 2
#define PMIX_ALLOC_RELEASE 3
#define PMIX_ALLOC_REAQUIRE 4
#define PMIX_ALLOC_EXTERNAL 128
#define PMIX_ALLOC_REQ_CANCEL 5

/* ---- pmix_iof_channel_t ---- */

#define PMIX_FWD_NO_CHANNELS 0
#define PMIX_FWD_STDIN_CHANNEL 1
#define PMIX_FWD_STDOUT_CHANNEL 2
#define PMIX_FWD_STDERR_CHANNEL 4
#define PMIX_FWD_STDDIAG_CHANNEL 8
#define PMIX_FWD_ALL_CHANNELS 255

/* ---- pmix_storage_medium_t ---- */

#define PMIX_STORAGE_MEDIUM_UNKNOWN 1
#define PMIX_STORAGE_MEDIUM_TAPE 2
#define PMIX_STORAGE_MEDIUM_HDD 4
#define PMIX_STORAGE_MEDIUM_SSD 8
#define PMIX_STORAGE_MEDIUM_NVME 16
#define PMIX_STORAGE_MEDIUM_PMEM 32
#define PMIX_STORAGE_MEDIUM_RAM 64

/* ---- pmix_storage_accessibility_t ---- */

#define PMIX_STORAGE_ACCESSIBILITY_NODE 1
#define PMIX_STORAGE_ACCESSIBILITY_SESSION 2
#define PMIX_STORAGE_ACCESSIBILITY_JOB 4
#define PMIX_STORAGE_ACCESSIBILITY_RACK 8
#define PMIX_STORAGE_ACCESSIBILITY_CLUSTER 16
#define PMIX_STORAGE_ACCESSIBILITY_REMOTE 32

/* ---- pmix_storage_persistence_t ---- */

#define PMIX_STORAGE_PERSISTENCE_TEMPORARY 1
#define PMIX_STORAGE_PERSISTENCE_NODE 2
#define PMIX_STORAGE_PERSISTENCE_SESSION 4
#define PMIX_STORAGE_PERSISTENCE_JOB 8
#define PMIX_STORAGE_PERSISTENCE_SCRATCH 16
#define PMIX_STORAGE_PERSISTENCE_PROJECT 32
#define PMIX_STORAGE_PERSISTENCE_ARCHIVE 64

/* ---- pmix_storage_access_type_t ---- */

#define PMIX_STORAGE_ACCESS_RD 1
#define PMIX_STORAGE_ACCESS_WR 2
#define PMIX_STORAGE_ACCESS_RDWR 3

/* ---- pmix_coord_view_t ---- */

#define PMIX_COORD_VIEW_UNDEF 0
#define PMIX_COORD_LOGICAL_VIEW 1
#define PMIX_COORD_PHYSICAL_VIEW 2

/* ---- pmix_link_state_t ---- */

#define PMIX_LINK_STATE_UNKNOWN 0
#define PMIX_LINK_DOWN 1
#define PMIX_LINK_UP 2

/* ---- pmix_bind_envelope_t ---- */

#define PMIX_CPUBIND_PROCESS 0
#define PMIX_CPUBIND_THREAD 1

/* ---- pmix_locality_t ---- */

#define PMIX_LOCALITY_UNKNOWN 0
#define PMIX_LOCALITY_NONLOCAL 32768
#define PMIX_LOCALITY_SHARE_HWTHREAD 1
#define PMIX_LOCALITY_SHARE_CORE 2
#define PMIX_LOCALITY_SHARE_L1CACHE 4
#define PMIX_LOCALITY_SHARE_L2CACHE 8
#define PMIX_LOCALITY_SHARE_L3CACHE 16
#define PMIX_LOCALITY_SHARE_PACKAGE 32
#define PMIX_LOCALITY_SHARE_NUMA 64
#define PMIX_LOCALITY_SHARE_NODE 16384

/* ---- pmix_device_type_t ---- */

#define PMIX_DEVTYPE_UNKNOWN 0
#define PMIX_DEVTYPE_BLOCK 1
#define PMIX_DEVTYPE_GPU 2
#define PMIX_DEVTYPE_NETWORK 4
#define PMIX_DEVTYPE_OPENFABRICS 8
#define PMIX_DEVTYPE_DMA 16
#define PMIX_DEVTYPE_COPROC 32
#define PMIX_DEVTYPE_MEMORY 64
#define PMIX_DEVTYPE_CORE 128
#define PMIX_DEVTYPE_HWT 256
#define PMIX_DEVTYPE_CPU 512
#define PMIX_DEVTYPE_NODE 1024

/* ---- pmix_resource_block_directive_t ---- */

#define PMIX_RESOURCE_BLOCK_DEFINE 1
#define PMIX_RESOURCE_BLOCK_EXTEND 2
#define PMIX_RESOURCE_BLOCK_REMOVE 3
#define PMIX_RESOURCE_BLOCK_DELETE 4
#define PMIX_RESOURCE_BLOCK_EXTERNAL 128

/* ---- pmix_alloc_inheritance_t ---- */

#define PMIX_ALLOC_INHERIT_NONE 1
#define PMIX_ALLOC_INHERIT_CHILD 2
#define PMIX_ALLOC_INHERIT_DEFAULT 3
#define PMIX_ALLOC_INHERIT_CHILD_DEFAULT 4

#define PMIX_RANK_IS_VALID(r) ((r) < PMIX_RANK_VALID)
#define PMIX_SYSTEM_EVENT(a) ((a) >= -330 && (a) <= PMIX_EVENT_SYS_BASE)

/* ---- attributes ---- */

#define PMIX_ATTR_UNDEF "pmix.undef"
#define PMIX_EXTERNAL_PROGRESS "pmix.evext"
#define PMIX_PROGRESS_THREAD_FLUSH "pmix.evflush"
#define PMIX_PROGRESS_THREAD_NAME "pmix.pthrdnm"
#define PMIX_EXTERNAL_AUX_EVENT_BASE "pmix.evaux"
#define PMIX_SERVER_TOOL_SUPPORT "pmix.srvr.tool"
#define PMIX_SERVER_ALLOW_FOREIGN_TOOLS "pmix.srvr.ftools"
#define PMIX_ALLOW_CLIENT_CLONES "pmix.allow.clones"
#define PMIX_SERVER_REMOTE_CONNECTIONS "pmix.srvr.remote"
#define PMIX_SERVER_SYSTEM_SUPPORT "pmix.srvr.sys"
#define PMIX_SERVER_SESSION_SUPPORT "pmix.srvr.sess"
#define PMIX_SERVER_TMPDIR "pmix.srvr.tmpdir"
#define PMIX_SYSTEM_TMPDIR "pmix.sys.tmpdir"
#define PMIX_SERVER_SHARE_TOPOLOGY "pmix.srvr.share"
#define PMIX_SERVER_ENABLE_MONITORING "pmix.srv.monitor"
#define PMIX_SERVER_NSPACE "pmix.srv.nspace"
#define PMIX_SERVER_RANK "pmix.srv.rank"
#define PMIX_SERVER_GATEWAY "pmix.srv.gway"
#define PMIX_SERVER_SYS_CONTROLLER "pmix.srv.ctrlr"
#define PMIX_SERVER_SCHEDULER "pmix.srv.sched"
#define PMIX_SERVER_START_TIME "pmix.srv.strtime"
#define PMIX_HOMOGENEOUS_SYSTEM "pmix.homo"
#define PMIX_SINGLETON "pmix.singleton"
#define PMIX_BIND_PROGRESS_THREAD "pmix.bind.pt"
#define PMIX_BIND_REQUIRED "pmix.bind.reqd"
#define PMIX_TOOL_NSPACE "pmix.tool.nspace"
#define PMIX_TOOL_RANK "pmix.tool.rank"
#define PMIX_SERVER_PIDINFO "pmix.srvr.pidinfo"
#define PMIX_CONNECT_TO_SYSTEM "pmix.cnct.sys"
#define PMIX_CONNECT_SYSTEM_FIRST "pmix.cnct.sys.first"
#define PMIX_CONNECT_TO_SCHEDULER "pmix.cnct.sched"
#define PMIX_CONNECT_TO_SYS_CONTROLLER "pmix.cnct.ctrlr"
#define PMIX_CONNECTION_ORDER "pmix.cnct.ord"
#define PMIX_SERVER_URI "pmix.srvr.uri"
#define PMIX_MYSERVER_URI "pmix.mysrvr.uri"
#define PMIX_SERVER_HOSTNAME "pmix.srvr.host"
#define PMIX_CONNECT_MAX_RETRIES "pmix.tool.mretries"
#define PMIX_CONNECT_RETRY_DELAY "pmix.tool.retry"
#define PMIX_TOOL_DO_NOT_CONNECT "pmix.tool.nocon"
#define PMIX_TOOL_CONNECT_OPTIONAL "pmix.tool.conopt"
#define PMIX_LAUNCHER "pmix.tool.launcher"
#define PMIX_LAUNCHER_RENDEZVOUS_FILE "pmix.tool.lncrnd"
#define PMIX_TOOL_ATTACHMENT_FILE "pmix.tool.attach"
#define PMIX_PRIMARY_SERVER "pmix.pri.srvr"
#define PMIX_NOHUP "pmix.nohup"
#define PMIX_LAUNCHER_DAEMON "pmix.lnch.dmn"
#define PMIX_EXEC_AGENT "pmix.exec.agnt"
#define PMIX_LAUNCH_DIRECTIVES "pmix.lnch.dirs"
#define PMIX_REALUID "pmix.ruid"
#define PMIX_USERID "pmix.euid"
#define PMIX_REALGID "pmix.rgid"
#define PMIX_GRPID "pmix.egid"
#define PMIX_REQUESTOR "pmix.requestor"
#define PMIX_VERSION_INFO "pmix.version"
#define PMIX_REQUESTOR_IS_TOOL "pmix.req.tool"
#define PMIX_REQUESTOR_IS_CLIENT "pmix.req.client"
#define PMIX_PSET_NAME "pmix.pset.nm"
#define PMIX_PSET_NAMES "pmix.pset.nms"
#define PMIX_PSET_MEMBERS "pmix.pset.mems"
#define PMIX_REINCARNATION "pmix.reinc"
#define PMIX_PROGRAMMING_MODEL "pmix.pgm.model"
#define PMIX_MODEL_LIBRARY_NAME "pmix.mdl.name"
#define PMIX_MODEL_LIBRARY_VERSION "pmix.mld.vrs"
#define PMIX_THREADING_MODEL "pmix.threads"
#define PMIX_MODEL_NUM_THREADS "pmix.mdl.nthrds"
#define PMIX_MODEL_NUM_CPUS "pmix.mdl.ncpu"
#define PMIX_MODEL_CPU_TYPE "pmix.mdl.cputype"
#define PMIX_MODEL_PHASE_NAME "pmix.mdl.phase"
#define PMIX_MODEL_PHASE_TYPE "pmix.mdl.ptype"
#define PMIX_MODEL_AFFINITY_POLICY "pmix.mdl.tap"
#define PMIX_TCP_REPORT_URI "pmix.tcp.repuri"
#define PMIX_TCP_URI "pmix.tcp.uri"
#define PMIX_TCP_IF_INCLUDE "pmix.tcp.ifinclude"
#define PMIX_TCP_IF_EXCLUDE "pmix.tcp.ifexclude"
#define PMIX_TCP_IPV4_PORT "pmix.tcp.ipv4"
#define PMIX_TCP_IPV6_PORT "pmix.tcp.ipv6"
#define PMIX_TCP_DISABLE_IPV4 "pmix.tcp.disipv4"
#define PMIX_TCP_DISABLE_IPV6 "pmix.tcp.disipv6"
#define PMIX_CPUSET "pmix.cpuset"
#define PMIX_CPUSET_BITMAP "pmix.bitmap"
#define PMIX_CREDENTIAL "pmix.cred"
#define PMIX_SPAWNED "pmix.spawned"
#define PMIX_NODE_OVERSUBSCRIBED "pmix.ndosub"
#define PMIX_TMPDIR "pmix.tmpdir"
#define PMIX_NSDIR "pmix.nsdir"
#define PMIX_PROCDIR "pmix.pdir"
#define PMIX_TDIR_RMCLEAN "pmix.tdir.rmclean"
#define PMIX_CLUSTER_ID "pmix.clid"
#define PMIX_PROCID "pmix.procid"
#define PMIX_NSPACE "pmix.nspace"
#define PMIX_JOBID "pmix.jobid"
#define PMIX_APPNUM "pmix.appnum"
#define PMIX_RANK "pmix.rank"
#define PMIX_GLOBAL_RANK "pmix.grank"
#define PMIX_APP_RANK "pmix.apprank"
#define PMIX_NPROC_OFFSET "pmix.offset"
#define PMIX_LOCAL_RANK "pmix.lrank"
#define PMIX_NODE_RANK "pmix.nrank"
#define PMIX_PACKAGE_RANK "pmix.pkgrank"
#define PMIX_LOCALLDR "pmix.lldr"
#define PMIX_APPLDR "pmix.aldr"
#define PMIX_PROC_PID "pmix.ppid"
#define PMIX_SESSION_ID "pmix.session.id"
#define PMIX_NODE_LIST "pmix.nlist"
#define PMIX_ALLOCATED_NODELIST "pmix.alist"
#define PMIX_HOSTNAME "pmix.hname"
#define PMIX_HOSTNAME_ALIASES "pmix.alias"
#define PMIX_HOSTNAME_KEEP_FQDN "pmix.fqdn"
#define PMIX_NODEID "pmix.nodeid"
#define PMIX_LOCAL_PEERS "pmix.lpeers"
#define PMIX_LOCAL_PROCS "pmix.lprocs"
#define PMIX_LOCAL_CPUSETS "pmix.lcpus"
#define PMIX_PARENT_ID "pmix.parent"
#define PMIX_EXIT_CODE "pmix.exit.code"
#define PMIX_SPAWN_TREE_ROOT "pmix.spwn.root"
#define PMIX_SPAWN_TREE_ACTIVE "pmix.spwn.actv"
#define PMIX_UNIV_SIZE "pmix.univ.size"
#define PMIX_JOB_SIZE "pmix.job.size"
#define PMIX_JOB_NUM_APPS "pmix.job.napps"
#define PMIX_APP_SIZE "pmix.app.size"
#define PMIX_LOCAL_SIZE "pmix.local.size"
#define PMIX_NODE_SIZE "pmix.node.size"
#define PMIX_MAX_PROCS "pmix.max.size"
#define PMIX_NUM_SLOTS "pmix.num.slots"
#define PMIX_NUM_NODES "pmix.num.nodes"
#define PMIX_NUM_ALLOCATED_NODES "pmix.num.anodes"
#define PMIX_AVAIL_PHYS_MEMORY "pmix.pmem"
#define PMIX_DAEMON_MEMORY "pmix.dmn.mem"
#define PMIX_CLIENT_AVG_MEMORY "pmix.cl.mem.avg"
#define PMIX_TOPOLOGY2 "pmix.topo2"
#define PMIX_LOCALITY_STRING "pmix.locstr"
#define PMIX_TOPOLOGY_INDEX "pmix.topo.index"
#define PMIX_COLLECT_DATA "pmix.collect"
#define PMIX_ALL_CLONES_PARTICIPATE "pmix.clone.part"
#define PMIX_COLLECT_GENERATED_JOB_INFO "pmix.collect.gen"
#define PMIX_TIMEOUT "pmix.timeout"
#define PMIX_IMMEDIATE "pmix.immediate"
#define PMIX_WAIT "pmix.wait"
#define PMIX_NOTIFY_COMPLETION "pmix.notecomp"
#define PMIX_RANGE "pmix.range"
#define PMIX_PERSISTENCE "pmix.persist"
#define PMIX_DATA_SCOPE "pmix.scope"
#define PMIX_OPTIONAL "pmix.optional"
#define PMIX_GET_STATIC_VALUES "pmix.get.static"
#define PMIX_GET_POINTER_VALUES "pmix.get.pntrs"
#define PMIX_EMBED_BARRIER "pmix.embed.barrier"
#define PMIX_JOB_TERM_STATUS "pmix.job.term.status"
#define PMIX_PROC_TERM_STATUS "pmix.proc.term.status"
#define PMIX_PROC_STATE_STATUS "pmix.proc.state"
#define PMIX_GET_REFRESH_CACHE "pmix.get.refresh"
#define PMIX_ACCESS_PERMISSIONS "pmix.aperms"
#define PMIX_ACCESS_USERIDS "pmix.auids"
#define PMIX_ACCESS_GRPIDS "pmix.agids"
#define PMIX_WAIT_FOR_CONNECTION "pmix.wait.conn"
#define PMIX_QUALIFIED_VALUE "pmix.qual.val"
#define PMIX_REGISTER_NODATA "pmix.reg.nodata"
#define PMIX_NODE_MAP "pmix.nmap"
#define PMIX_NODE_MAP_RAW "pmix.nmap.raw"
#define PMIX_PROC_MAP "pmix.pmap"
#define PMIX_PROC_MAP_RAW "pmix.pmap.raw"
#define PMIX_ANL_MAP "pmix.anlmap"
#define PMIX_APP_MAP_TYPE "pmix.apmap.type"
#define PMIX_APP_MAP_REGEX "pmix.apmap.regex"
#define PMIX_REQUIRED_KEY "pmix.req.key"
#define PMIX_LOCAL_COLLECTIVE_STATUS "pmix.loc.col.st"
#define PMIX_SORTED_PROC_ARRAY "pmix.sorted.parr"
#define PMIX_LOCAL_PARTICIPANTS "pmix.lcl.part"
#define PMIX_EVENT_HDLR_NAME "pmix.evname"
#define PMIX_EVENT_HDLR_FIRST "pmix.evfirst"
#define PMIX_EVENT_HDLR_LAST "pmix.evlast"
#define PMIX_EVENT_HDLR_FIRST_IN_CATEGORY "pmix.evfirstcat"
#define PMIX_EVENT_HDLR_LAST_IN_CATEGORY "pmix.evlastcat"
#define PMIX_EVENT_HDLR_BEFORE "pmix.evbefore"
#define PMIX_EVENT_HDLR_AFTER "pmix.evafter"
#define PMIX_EVENT_HDLR_PREPEND "pmix.evprepend"
#define PMIX_EVENT_HDLR_APPEND "pmix.evappend"
#define PMIX_EVENT_CUSTOM_RANGE "pmix.evrange"
#define PMIX_EVENT_AFFECTED_PROC "pmix.evproc"
#define PMIX_EVENT_AFFECTED_PROCS "pmix.evaffected"
#define PMIX_EVENT_NON_DEFAULT "pmix.evnondef"
#define PMIX_EVENT_RETURN_OBJECT "pmix.evobject"
#define PMIX_EVENT_DO_NOT_CACHE "pmix.evnocache"
#define PMIX_EVENT_SILENT_TERMINATION "pmix.evsilentterm"
#define PMIX_EVENT_PROXY "pmix.evproxy"
#define PMIX_EVENT_TEXT_MESSAGE "pmix.evtext"
#define PMIX_EVENT_TIMESTAMP "pmix.evtstamp"
#define PMIX_EVENT_ONESHOT "pmix.evone"
#define PMIX_EVENT_STAYS_LOCAL "pmix.evlocal"
#define PMIX_EVENT_TERMINATE_SESSION "pmix.evterm.sess"
#define PMIX_EVENT_TERMINATE_JOB "pmix.evterm.job"
#define PMIX_EVENT_TERMINATE_NODE "pmix.evterm.node"
#define PMIX_EVENT_TERMINATE_PROC "pmix.evterm.proc"
#define PMIX_EVENT_ACTION_TIMEOUT "pmix.evtimeout"
#define PMIX_PERSONALITY "pmix.pers"
#define PMIX_HOST "pmix.host"
#define PMIX_HOSTFILE "pmix.hostfile"
#define PMIX_ADD_HOST "pmix.addhost"
#define PMIX_ADD_HOSTFILE "pmix.addhostfile"
#define PMIX_PREFIX "pmix.prefix"
#define PMIX_WDIR "pmix.wdir"
#define PMIX_WDIR_USER_SPECIFIED "pmix.wdir.user"
#define PMIX_DISPLAY_MAP "pmix.dispmap"
#define PMIX_DISPLAY_MAP_DETAILED "pmix.dispmapdet"
#define PMIX_DISPLAY_ALLOCATION "pmix.dispalloc"
#define PMIX_DISPLAY_TOPOLOGY "pmix.disptopo"
#define PMIX_DISPLAY_PROCESSORS "pmix.dispcpus"
#define PMIX_DISPLAY_PARSEABLE_OUTPUT "pmix.dispparse"
#define PMIX_PPR "pmix.ppr"
#define PMIX_MAPBY "pmix.mapby"
#define PMIX_RANKBY "pmix.rankby"
#define PMIX_BINDTO "pmix.bindto"
#define PMIX_PRELOAD_BIN "pmix.preloadbin"
#define PMIX_PRELOAD_FILES "pmix.preloadfiles"
#define PMIX_STDIN_TGT "pmix.stdin"
#define PMIX_DEBUGGER_DAEMONS "pmix.debugger"
#define PMIX_COSPAWN_APP "pmix.cospawn"
#define PMIX_COLOCATE_PROCS "pmix.colproc"
#define PMIX_COLOCATE_NPERPROC "pmix.colnum.proc"
#define PMIX_COLOCATE_NPERNODE "pmix.colnum.node"
#define PMIX_SET_SESSION_CWD "pmix.ssncwd"
#define PMIX_INDEX_ARGV "pmix.indxargv"
#define PMIX_CPUS_PER_PROC "pmix.cpuperproc"
#define PMIX_NO_PROCS_ON_HEAD "pmix.nolocal"
#define PMIX_NO_OVERSUBSCRIBE "pmix.noover"
#define PMIX_REPORT_BINDINGS "pmix.repbind"
#define PMIX_REPORT_PHYSICAL_CPUS "pmix.repphys.cpus"
#define PMIX_CPU_LIST "pmix.cpulist"
#define PMIX_JOB_RECOVERABLE "pmix.recover"
#define PMIX_JOB_CONTINUOUS "pmix.continuous"
#define PMIX_MAX_RESTARTS "pmix.maxrestarts"
#define PMIX_FWD_STDIN "pmix.fwd.stdin"
#define PMIX_FWD_STDOUT "pmix.fwd.stdout"
#define PMIX_FWD_STDERR "pmix.fwd.stderr"
#define PMIX_FWD_STDDIAG "pmix.fwd.stddiag"
#define PMIX_SPAWN_TOOL "pmix.spwn.tool"
#define PMIX_CMD_LINE "pmix.cmd.line"
#define PMIX_FORKEXEC_AGENT "pmix.fe.agnt"
#define PMIX_JOB_TIMEOUT "pmix.job.time"
#define PMIX_SPAWN_TIMEOUT "pmix.sp.time"
#define PMIX_TIMEOUT_STACKTRACES "pmix.tim.stack"
#define PMIX_TIMEOUT_REPORT_STATE "pmix.tim.state"
#define PMIX_APP_ARGV "pmix.app.argv"
#define PMIX_NOTIFY_JOB_EVENTS "pmix.note.jev"
#define PMIX_NOTIFY_PROC_TERMINATION "pmix.noteproc"
#define PMIX_NOTIFY_PROC_ABNORMAL_TERMINATION "pmix.noteabproc"
#define PMIX_ENVARS_HARVESTED "pmix.evar.hvstd"
#define PMIX_RUNTIME_OPTIONS "pmix.runopt"
#define PMIX_ABORT_NON_ZERO_TERM "pmix.abnz"
#define PMIX_DO_NOT_LAUNCH "pmix.dnl"
#define PMIX_SHOW_LAUNCH_PROGRESS "pmix.showprog"
#define PMIX_AGGREGATE_HELP "pmix.agg.help"
#define PMIX_REPORT_CHILD_SEP "pmix.rptchildsep"
#define PMIX_SPAWN_CHILD_SEP "pmix.spchildsep"
#define PMIX_FWD_ENVIRONMENT "pmix.fwdenv"
#define PMIX_SPAWN_PTY "pmix.spawn.pty"
#define PMIX_PTY_TERMIO "pmix.pty.termio"
#define PMIX_PTY_WSIZE "pmix.pty.wsize"
#define PMIX_SPAWN_TARGET "pmix.spwn.tgt"
#define PMIX_QUERY_SUPPORTED_KEYS "pmix.qry.keys"
#define PMIX_QUERY_NAMESPACES "pmix.qry.ns"
#define PMIX_QUERY_NAMESPACE_INFO "pmix.qry.nsinfo"
#define PMIX_QUERY_JOB_STATUS "pmix.qry.jst"
#define PMIX_QUERY_QUEUE_LIST "pmix.qry.qlst"
#define PMIX_QUERY_QUEUE_STATUS "pmix.qry.qst"
#define PMIX_QUERY_PROC_TABLE "pmix.qry.ptable"
#define PMIX_QUERY_LOCAL_PROC_TABLE "pmix.qry.lptable"
#define PMIX_QUERY_AUTHORIZATIONS "pmix.qry.auths"
#define PMIX_QUERY_SPAWN_SUPPORT "pmix.qry.spawn"
#define PMIX_QUERY_DEBUG_SUPPORT "pmix.qry.debug"
#define PMIX_QUERY_MEMORY_USAGE "pmix.qry.mem"
#define PMIX_QUERY_ALLOC_STATUS "pmix.query.alloc"
#define PMIX_QUERY_ALLOCATION "pmix.query.allc"
#define PMIX_QUERY_ALLOC_IDS "pmix.query.alloc.ids"
#define PMIX_QUERY_ALLOC_PROPERTIES "pmix.query.alloc.prop"
#define PMIX_TIME_REMAINING "pmix.time.remaining"
#define PMIX_QUERY_NUM_PSETS "pmix.qry.psetnum"
#define PMIX_QUERY_PSET_NAMES "pmix.qry.psets"
#define PMIX_QUERY_PSET_MEMBERSHIP "pmix.qry.pmems"
#define PMIX_QUERY_NUM_GROUPS "pmix.qry.pgrpnum"
#define PMIX_QUERY_GROUP_NAMES "pmix.qry.pgrp"
#define PMIX_QUERY_GROUP_MEMBERSHIP "pmix.qry.pgrpmems"
#define PMIX_QUERY_ATTRIBUTE_SUPPORT "pmix.qry.attrs"
#define PMIX_CLIENT_FUNCTIONS "pmix.client.fns"
#define PMIX_SERVER_FUNCTIONS "pmix.srvr.fns"
#define PMIX_TOOL_FUNCTIONS "pmix.tool.fns"
#define PMIX_HOST_FUNCTIONS "pmix.host.fns"
#define PMIX_QUERY_AVAIL_SERVERS "pmix.qry.asrvrs"
#define PMIX_QUERY_QUALIFIERS "pmix.qry.quals"
#define PMIX_QUERY_RESULTS "pmix.qry.res"
#define PMIX_QUERY_MIN_ALLOC_UNIT "pmix.qry.minau"
#define PMIX_QUERY_RES_BLOCKS "pmix.qry.resblks"
#define PMIX_QUERY_RES_BLOCK_DEF "pmix.qry.resdef"
#define PMIX_QUERY_DEVICES "pmix.qry.dev"
#define PMIX_QUERY_AVAILABLE_SLOTS "pmix.qry.aslots"
#define PMIX_QUERY_RESOLVE_PEERS "pmix.qry.peers"
#define PMIX_QUERY_RESOLVE_NODE "pmix.qry.node"
#define PMIX_QUERY_PROC_RESOURCE_USAGE "pmix.qry.pres"
#define PMIX_QUERY_NODE_RESOURCE_USAGE "pmix.qry.nres"
#define PMIX_QUERY_REFRESH_CACHE "pmix.qry.rfsh"
#define PMIX_QUERY_LOCAL_ONLY "pmix.qry.local"
#define PMIX_QUERY_REPORT_AVG "pmix.qry.avg"
#define PMIX_QUERY_REPORT_MINMAX "pmix.qry.minmax"
#define PMIX_CLIENT_ATTRIBUTES "pmix.client.attrs"
#define PMIX_SERVER_ATTRIBUTES "pmix.srvr.attrs"
#define PMIX_HOST_ATTRIBUTES "pmix.host.attrs"
#define PMIX_TOOL_ATTRIBUTES "pmix.tool.attrs"
#define PMIX_QUERY_SUPPORTED_QUALIFIERS "pmix.qry.quals"
#define PMIX_RESOURCE_BLOCK_NAME "pmix.resblkname"
#define PMIX_SESSION_INFO "pmix.ssn.info"
#define PMIX_JOB_INFO "pmix.job.info"
#define PMIX_APP_INFO "pmix.app.info"
#define PMIX_NODE_INFO "pmix.node.info"
#define PMIX_SESSION_INFO_ARRAY "pmix.ssn.arr"
#define PMIX_JOB_INFO_ARRAY "pmix.job.arr"
#define PMIX_APP_INFO_ARRAY "pmix.app.arr"
#define PMIX_PROC_INFO_ARRAY "pmix.pdata"
#define PMIX_NODE_INFO_ARRAY "pmix.node.arr"
#define PMIX_SERVER_INFO_ARRAY "pmix.srv.arr"
#define PMIX_LOG_SOURCE "pmix.log.source"
#define PMIX_LOG_STDERR "pmix.log.stderr"
#define PMIX_LOG_STDOUT "pmix.log.stdout"
#define PMIX_LOG_SYSLOG "pmix.log.syslog"
#define PMIX_LOG_LOCAL_SYSLOG "pmix.log.lsys"
#define PMIX_LOG_GLOBAL_SYSLOG "pmix.log.gsys"
#define PMIX_LOG_SYSLOG_PRI "pmix.log.syspri"
#define PMIX_LOG_TIMESTAMP "pmix.log.tstmp"
#define PMIX_LOG_GENERATE_TIMESTAMP "pmix.log.gtstmp"
#define PMIX_LOG_TAG_OUTPUT "pmix.log.tag"
#define PMIX_LOG_TIMESTAMP_OUTPUT "pmix.log.tsout"
#define PMIX_LOG_XML_OUTPUT "pmix.log.xml"
#define PMIX_LOG_ONCE "pmix.log.once"
#define PMIX_LOG_MSG "pmix.log.msg"
#define PMIX_LOG_KEY "pmix.log.key"
#define PMIX_LOG_VAL "pmix.log.val"
#define PMIX_LOG_AGG "pmix.log.agg"
#define PMIX_LOG_EMAIL "pmix.log.email"
#define PMIX_LOG_EMAIL_ADDR "pmix.log.emaddr"
#define PMIX_LOG_EMAIL_SENDER_ADDR "pmix.log.emfaddr"
#define PMIX_LOG_EMAIL_SUBJECT "pmix.log.emsub"
#define PMIX_LOG_EMAIL_MSG "pmix.log.emmsg"
#define PMIX_LOG_EMAIL_SERVER "pmix.log.esrvr"
#define PMIX_LOG_EMAIL_SRVR_PORT "pmix.log.esrvrprt"
#define PMIX_LOG_GLOBAL_DATASTORE "pmix.log.gstore"
#define PMIX_LOG_JOB_RECORD "pmix.log.jrec"
#define PMIX_LOG_PROC_TERMINATION "pmix.logproc"
#define PMIX_LOG_PROC_ABNORMAL_TERMINATION "pmix.logabproc"
#define PMIX_LOG_JOB_EVENTS "pmix.log.jev"
#define PMIX_LOG_COMPLETION "pmix.logcomp"
#define PMIX_DEBUG_STOP_ON_EXEC "pmix.dbg.exec"
#define PMIX_DEBUG_STOP_IN_INIT "pmix.dbg.init"
#define PMIX_DEBUG_STOP_IN_APP "pmix.dbg.notify"
#define PMIX_BREAKPOINT "pmix.brkpnt"
#define PMIX_DEBUG_TARGET "pmix.dbg.tgt"
#define PMIX_DEBUG_DAEMONS_PER_PROC "pmix.dbg.dpproc"
#define PMIX_DEBUG_DAEMONS_PER_NODE "pmix.dbg.dpnd"
#define PMIX_RM_NAME "pmix.rm.name"
#define PMIX_RM_VERSION "pmix.rm.version"
#define PMIX_SET_ENVAR "pmix.envar.set"
#define PMIX_ADD_ENVAR "pmix.envar.add"
#define PMIX_UNSET_ENVAR "pmix.envar.unset"
#define PMIX_PREPEND_ENVAR "pmix.envar.prepnd"
#define PMIX_APPEND_ENVAR "pmix.envar.appnd"
#define PMIX_FIRST_ENVAR "pmix.envar.first"
#define PMIX_ALLOC_REQ_ID "pmix.alloc.reqid"
#define PMIX_ALLOC_ID "pmix.alloc.id"
#define PMIX_ALLOC_PROPERTY "pmix.alloc.property"
#define PMIX_ALLOC_RELEASABLE "pmix.alloc.releasable"
#define PMIX_ALLOC_NUM_NODES "pmix.alloc.nnodes"
#define PMIX_ALLOC_NODE_LIST "pmix.alloc.nlist"
#define PMIX_ALLOC_EXCLUDE "pmix.alloc.exclude"
#define PMIX_ALLOC_NUM_CPUS "pmix.alloc.ncpus"
#define PMIX_ALLOC_NUM_CPU_LIST "pmix.alloc.ncpulist"
#define PMIX_ALLOC_CPU_LIST "pmix.alloc.cpulist"
#define PMIX_ALLOC_MEM_SIZE "pmix.alloc.msize"
#define PMIX_ALLOC_FABRIC "pmix.alloc.net"
#define PMIX_ALLOC_FABRIC_ID "pmix.alloc.netid"
#define PMIX_ALLOC_BANDWIDTH "pmix.alloc.bw"
#define PMIX_ALLOC_FABRIC_QOS "pmix.alloc.netqos"
#define PMIX_ALLOC_TIME "pmix.alloc.time"
#define PMIX_ALLOC_WARN_TIMEOUT "pmix.alloc.wtmo"
#define PMIX_ALLOC_FABRIC_TYPE "pmix.alloc.nettype"
#define PMIX_ALLOC_FABRIC_PLANE "pmix.alloc.netplane"
#define PMIX_ALLOC_FABRIC_ENDPTS "pmix.alloc.endpts"
#define PMIX_ALLOC_FABRIC_ENDPTS_NODE "pmix.alloc.endpts.nd"
#define PMIX_ALLOC_FABRIC_SEC_KEY "pmix.alloc.nsec"
#define PMIX_ALLOC_QUEUE "pmix.alloc.queue"
#define PMIX_ALLOC_PREEMPTIBLE "pmix.alloc.preempt"
#define PMIX_ALLOC_LEND "pmix.alloc.lend"
#define PMIX_ALLOC_IMAGE "pmix.alloc.image"
#define PMIX_ALLOC_WAIT_ALL_NODES "pmix.alloc.waitall"
#define PMIX_ALLOC_SHARE "pmix.alloc.share"
#define PMIX_ALLOC_NOSHELL "pmix.alloc.noshell"
#define PMIX_ALLOC_DEPENDENCY "pmix.alloc.depend"
#define PMIX_ALLOC_BEGIN "pmix.alloc.begin"
#define PMIX_ALLOC_NOT_WAITING "pmix.alloc.notwait"
#define PMIX_ALLOC_RES_BLOCK "pmix.alloc.blk"
#define PMIX_ALLOC_NUM_BLOCKS "pmix.alloc.nblks"
#define PMIX_ALLOC_MAU "pmix.alloc.mau"
#define PMIX_ALLOC_CHILD_SEP "pmix.alloc.sep"
#define PMIX_MEM_ALLOC_KIND "pmix.alloc.mkind"
#define PMIX_GPU_SUPPORT "pmix.gpu.support"
#define PMIX_ALLOC_STATUS "pmix.alloc.status"
#define PMIX_ALLOC_TARGET "pmix.alloc.tgt"
#define PMIX_ALLOC_INHERITANCE "pmix.alloc.inhrt"
#define PMIX_JOB_CTRL_ID "pmix.jctrl.id"
#define PMIX_JOB_CTRL_PAUSE "pmix.jctrl.pause"
#define PMIX_JOB_CTRL_RESUME "pmix.jctrl.resume"
#define PMIX_JOB_CTRL_CANCEL "pmix.jctrl.cancel"
#define PMIX_JOB_CTRL_KILL "pmix.jctrl.kill"
#define PMIX_JOB_CTRL_RESTART "pmix.jctrl.restart"
#define PMIX_JOB_CTRL_CHECKPOINT "pmix.jctrl.ckpt"
#define PMIX_JOB_CTRL_CHECKPOINT_EVENT "pmix.jctrl.ckptev"
#define PMIX_JOB_CTRL_CHECKPOINT_SIGNAL "pmix.jctrl.ckptsig"
#define PMIX_JOB_CTRL_CHECKPOINT_TIMEOUT "pmix.jctrl.ckptsig"
#define PMIX_JOB_CTRL_CHECKPOINT_METHOD "pmix.jctrl.ckmethod"
#define PMIX_JOB_CTRL_SIGNAL "pmix.jctrl.sig"
#define PMIX_JOB_CTRL_PROVISION "pmix.jctrl.pvn"
#define PMIX_JOB_CTRL_PROVISION_IMAGE "pmix.jctrl.pvnimg"
#define PMIX_JOB_CTRL_PREEMPTIBLE "pmix.jctrl.preempt"
#define PMIX_JOB_CTRL_TERMINATE "pmix.jctrl.term"
#define PMIX_JOB_CTRL_DEFINE_PSET "pmix.jctrl.defpset"
#define PMIX_REGISTER_CLEANUP "pmix.reg.cleanup"
#define PMIX_REGISTER_CLEANUP_DIR "pmix.reg.cleanupdir"
#define PMIX_CLEANUP_RECURSIVE "pmix.clnup.recurse"
#define PMIX_CLEANUP_EMPTY "pmix.clnup.empty"
#define PMIX_CLEANUP_IGNORE "pmix.clnup.ignore"
#define PMIX_CLEANUP_LEAVE_TOPDIR "pmix.clnup.lvtop"
#define PMIX_JOB_CTRL_SEP "pmix.jctrl.sep"
#define PMIX_SESSION_CTRL_ID "pmix.ssnctrl.id"
#define PMIX_SESSION_INSTANTIATE "pmix.ssn.inst"
#define PMIX_SESSION_RESOURCES "pmix.ssn.res"
#define PMIX_SESSION_JOB "pmix.ssn.job"
#define PMIX_SESSION_APP "pmix.ssn.app"
#define PMIX_SESSION_PROVISION_NODES "pmix.ssn.pvnnds"
#define PMIX_SESSION_PROVISION_IMAGE "pmix.ssn.pvnimg"
#define PMIX_SESSION_PAUSE "pmix.ssn.pause"
#define PMIX_SESSION_RESUME "pmix.ssn.resume"
#define PMIX_SESSION_TERMINATE "pmix.ssn.terminate"
#define PMIX_SESSION_PREEMPT "pmix.ssn.preempt"
#define PMIX_SESSION_RESTORE "pmix.ssn.restore"
#define PMIX_SESSION_SIGNAL "pmix.ssn.sig"
#define PMIX_SESSION_SEP "pmix.ssn.sep"
#define PMIX_SESSION_EXTEND "pmix.ssn.xtend"
#define PMIX_SESSION_COMPLETE "pmix.ssn.complete"
#define PMIX_MONITOR_ID "pmix.monitor.id"
#define PMIX_MONITOR_PROXY "pmix.monitor.proxy"
#define PMIX_MONITOR_CANCEL "pmix.monitor.cancel"
#define PMIX_MONITOR_APP_CONTROL "pmix.monitor.appctrl"
#define PMIX_MONITOR_HEARTBEAT "pmix.monitor.mbeat"
#define PMIX_SEND_HEARTBEAT "pmix.monitor.beat"
#define PMIX_MONITOR_HEARTBEAT_TIME "pmix.monitor.btime"
#define PMIX_MONITOR_HEARTBEAT_DROPS "pmix.monitor.bdrop"
#define PMIX_MONITOR_FILE "pmix.monitor.fmon"
#define PMIX_MONITOR_FILE_SIZE "pmix.monitor.fsize"
#define PMIX_MONITOR_FILE_ACCESS "pmix.monitor.faccess"
#define PMIX_MONITOR_FILE_MODIFY "pmix.monitor.fmod"
#define PMIX_MONITOR_FILE_CHECK_TIME "pmix.monitor.ftime"
#define PMIX_MONITOR_FILE_DROPS "pmix.monitor.fdrop"
#define PMIX_MONITOR_RESOURCE_RATE "pmix.monitor.resrate"
#define PMIX_MONITOR_TARGET_PROCS "pmix.monitor.tgtproc"
#define PMIX_MONITOR_TARGET_PIDS "pmix.monitor.tgtpid"
#define PMIX_MONITOR_TARGET_NODES "pmix.monitor.tgtnode"
#define PMIX_MONITOR_TARGET_NODEIDS "pmix.monitor.tgtndids"
#define PMIX_MONITOR_TARGET_DISKS "pmix.monitor.tgtdks"
#define PMIX_MONITOR_TARGET_NETS "pmix.monitor.tgtnets"
#define PMIX_MONITOR_PROC_RESOURCE_USAGE "pmix.monitor.presuse"
#define PMIX_MONITOR_NODE_RESOURCE_USAGE "pmix.monitor.ndresuse"
#define PMIX_MONITOR_DISK_RESOURCE_USAGE "pmix.monitor.dkresuse"
#define PMIX_MONITOR_NET_RESOURCE_USAGE "pmix.monitor.netresuse"
#define PMIX_MONITOR_LOCAL_ONLY "pmix.monitor.local"
#define PMIX_PROC_RESOURCE_USAGE "pmix.proc.res"
#define PMIX_PROC_OS_STATE "pmix.proc.osstate"
#define PMIX_PROC_TIME "pmix.proc.time"
#define PMIX_PROC_PERCENT_CPU "pmix.proc.pcpu"
#define PMIX_PROC_PRIORITY "pmix.proc.pri"
#define PMIX_PROC_NUM_THREADS "pmix.proc.nthr"
#define PMIX_PROC_PSS "pmix.proc.pss"
#define PMIX_PROC_VSIZE "pmix.proc.vsize"
#define PMIX_PROC_RSS "pmix.proc.rss"
#define PMIX_PROC_PEAK_VSIZE "pmix.proc.pkvsize"
#define PMIX_PROC_CPU "pmix.proc.cpu"
#define PMIX_PROC_SAMPLE_TIME "pmix.proc.samptime"
#define PMIX_DISK_RESOURCE_USAGE "pmix.disk.res"
#define PMIX_DISK_ID "pmix.disk.id"
#define PMIX_DISK_READ_COMPLETED "pmix.disk.rdscomp"
#define PMIX_DISK_READ_MERGED "pmix.disk.rdsmrgd"
#define PMIX_DISK_READ_SECTORS "pmix.disk.rdsct"
#define PMIX_DISK_READ_MILLISEC "pmix.disk.rdms"
#define PMIX_DISK_WRITE_COMPLETED "pmix.disk.wtscomp"
#define PMIX_DISK_WRITE_MERGED "pmix.disk.wtsmrgd"
#define PMIX_DISK_WRITE_SECTORS "pmix.disk.wtsct"
#define PMIX_DISK_WRITE_MILLISEC "pmix.disk.wtms"
#define PMIX_DISK_IO_IN_PROGRESS "pmix.disk.ios"
#define PMIX_DISK_IO_MILLISEC "pmix.disk.ioms"
#define PMIX_DISK_IO_WEIGHTED "pmix.disk.iowght"
#define PMIX_DISK_SAMPLE_TIME "pmix.disk.samptime"
#define PMIX_NETWORK_RESOURCE_USAGE "pmix.net.res"
#define PMIX_NETWORK_ID "pmix.net.id"
#define PMIX_NET_RECVD_BYTES "pmix.net.rcb"
#define PMIX_NET_RECVD_PCKTS "pmix.net.rcp"
#define PMIX_NET_RECVD_ERRS "pmix.net.rcerr"
#define PMIX_NET_SENT_BYTES "pmix.net.sntb"
#define PMIX_NET_SENT_PCKTS "pmix.net.sntp"
#define PMIX_NET_SENT_ERRS "pmix.net.snterr"
#define PMIX_NET_SAMPLE_TIME "pmix.net.samptime"
#define PMIX_NODE_RESOURCE_USAGE "pmix.node.res"
#define PMIX_NODE_LOAD_AVG "pmix.node.la"
#define PMIX_NODE_LOAD_AVG5 "pmix.node.la5"
#define PMIX_NODE_LOAD_AVG15 "pmix.node.la15"
#define PMIX_NODE_MEM_TOTAL "pmix.node.mtot"
#define PMIX_NODE_MEM_FREE "pmix.node.mfree"
#define PMIX_NODE_MEM_BUFFERS "pmix.node.mbuf"
#define PMIX_NODE_MEM_CACHED "pmix.node.mcache"
#define PMIX_NODE_MEM_SWAP_CACHED "pmix.node.mswpc"
#define PMIX_NODE_SWAP_TOTAL "pmix.node.mswpt"
#define PMIX_NODE_MEM_SWAP_FREE "pmix.node.mswpfree"
#define PMIX_NODE_MEM_MAPPED "pmix.node.mmap"
#define PMIX_NODE_SAMPLE_TIME "pmix.node.samptime"
#define PMIX_CRED_TYPE "pmix.sec.ctype"
#define PMIX_IOF_CACHE_SIZE "pmix.iof.csize"
#define PMIX_IOF_DROP_OLDEST "pmix.iof.old"
#define PMIX_IOF_DROP_NEWEST "pmix.iof.new"
#define PMIX_IOF_BUFFERING_SIZE "pmix.iof.bsize"
#define PMIX_IOF_BUFFERING_TIME "pmix.iof.btime"
#define PMIX_IOF_COMPLETE "pmix.iof.cmp"
#define PMIX_IOF_PUSH_STDIN "pmix.iof.stdin"
#define PMIX_IOF_TAG_OUTPUT "pmix.iof.tag"
#define PMIX_IOF_TAG_DETAILED_OUTPUT "pmix.iof.tagdet"
#define PMIX_IOF_TAG_FULLNAME_OUTPUT "pmix.iof.tagfull"
#define PMIX_IOF_RANK_OUTPUT "pmix.iof.rank"
#define PMIX_IOF_TIMESTAMP_OUTPUT "pmix.iof.ts"
#define PMIX_IOF_MERGE_STDERR_STDOUT "pmix.iof.mrg"
#define PMIX_IOF_XML_OUTPUT "pmix.iof.xml"
#define PMIX_IOF_OUTPUT_TO_FILE "pmix.iof.file"
#define PMIX_IOF_FILE_PATTERN "pmix.iof.fpt"
#define PMIX_IOF_OUTPUT_TO_DIRECTORY "pmix.iof.dir"
#define PMIX_IOF_FILE_ONLY "pmix.iof.fonly"
#define PMIX_IOF_COPY "pmix.iof.cpy"
#define PMIX_IOF_REDIRECT "pmix.iof.redir"
#define PMIX_IOF_LOCAL_OUTPUT "pmix.iof.local"
#define PMIX_IOF_OUTPUT_RAW "pmix.iof.raw"
#define PMIX_IOF_INHERIT "pmix.iof.inhrt"
#define PMIX_SETUP_APP_ENVARS "pmix.setup.env"
#define PMIX_SETUP_APP_NONENVARS "pmix.setup.nenv"
#define PMIX_SETUP_APP_ALL "pmix.setup.all"
#define PMIX_GROUP_ID "pmix.grp.id"
#define PMIX_GROUP_LEADER "pmix.grp.ldr"
#define PMIX_GROUP_OPTIONAL "pmix.grp.opt"
#define PMIX_GROUP_NOTIFY_TERMINATION "pmix.grp.notterm"
#define PMIX_GROUP_FT_COLLECTIVE "pmix.grp.ftcoll"
#define PMIX_GROUP_MEMBERSHIP "pmix.grp.mbrs"
#define PMIX_GROUP_ASSIGN_CONTEXT_ID "pmix.grp.actxid"
#define PMIX_GROUP_CONTEXT_ID "pmix.grp.ctxid"
#define PMIX_GROUP_LOCAL_ONLY "pmix.grp.lcl"
#define PMIX_GROUP_ENDPT_DATA "pmix.grp.endpt"
#define PMIX_GROUP_NAMES "pmix.pgrp.nm"
#define PMIX_GROUP_INFO "pmix.grp.info"
#define PMIX_GROUP_INFO_ARRAY "pmix.grp.infoarray"
#define PMIX_GROUP_LOCAL_CID "pmix.grp.lclid"
#define PMIX_GROUP_ADD_MEMBERS "pmix.grp.add"
#define PMIX_GROUP_BOOTSTRAP "pmix.grp.btstrp"
#define PMIX_GROUP_JOB_INFO "pmix.grp.jinfo"
#define PMIX_GROUP_FINAL_MEMBERSHIP_ORDER "pmix.grp.finord"
#define PMIX_QUERY_STORAGE_LIST "pmix.strg.list"
#define PMIX_STORAGE_CAPACITY_LIMIT "pmix.strg.cap"
#define PMIX_STORAGE_OBJECT_LIMIT "pmix.strg.obj"
#define PMIX_STORAGE_ID "pmix.strg.id"
#define PMIX_STORAGE_PATH "pmix.strg.path"
#define PMIX_STORAGE_TYPE "pmix.strg.type"
#define PMIX_STORAGE_ACCESSIBILITY "pmix.strg.access"
#define PMIX_STORAGE_ACCESS_TYPE "pmix.strg.atype"
#define PMIX_STORAGE_BW_CUR "pmix.strg.bwcur"
#define PMIX_STORAGE_BW_MAX "pmix.strg.bwmax"
#define PMIX_STORAGE_CAPACITY_USED "pmix.strg.capuse"
#define PMIX_STORAGE_IOPS_CUR "pmix.strg.iopscur"
#define PMIX_STORAGE_IOPS_MAX "pmix.strg.iopsmax"
#define PMIX_STORAGE_MEDIUM "pmix.strg.medium"
#define PMIX_STORAGE_MINIMAL_XFER_SIZE "pmix.strg.minxfer"
#define PMIX_STORAGE_OBJECTS_USED "pmix.strg.objuse"
#define PMIX_STORAGE_PERSISTENCE "pmix.strg.persist"
#define PMIX_STORAGE_SUGGESTED_XFER_SIZE "pmix.strg.sxfer"
#define PMIX_STORAGE_VERSION "pmix.strg.ver"
#define PMIX_FABRIC_COST_MATRIX "pmix.fab.cm"
#define PMIX_FABRIC_GROUPS "pmix.fab.grps"
#define PMIX_FABRIC_VENDOR "pmix.fab.vndr"
#define PMIX_FABRIC_IDENTIFIER "pmix.fab.id"
#define PMIX_FABRIC_INDEX "pmix.fab.idx"
#define PMIX_FABRIC_COORDINATES "pmix.fab.coord"
#define PMIX_FABRIC_DEVICE_VENDORID "pmix.fabdev.vendid"
#define PMIX_FABRIC_NUM_DEVICES "pmix.fab.nverts"
#define PMIX_FABRIC_DIMS "pmix.fab.dims"
#define PMIX_FABRIC_PLANE "pmix.fab.plane"
#define PMIX_FABRIC_SWITCH "pmix.fab.switch"
#define PMIX_FABRIC_ENDPT "pmix.fab.endpt"
#define PMIX_FABRIC_SHAPE "pmix.fab.shape"
#define PMIX_FABRIC_SHAPE_STRING "pmix.fab.shapestr"
#define PMIX_SWITCH_PEERS "pmix.speers"
#define PMIX_FABRIC_DEVICE "pmix.fabdev"
#define PMIX_FABRIC_DEVICES "pmix.fab.devs"
#define PMIX_FABRIC_DEVICE_NAME "pmix.fabdev.nm"
#define PMIX_FABRIC_DEVICE_INDEX "pmix.fabdev.idx"
#define PMIX_FABRIC_DEVICE_VENDOR "pmix.fabdev.vndr"
#define PMIX_FABRIC_DEVICE_BUS_TYPE "pmix.fabdev.btyp"
#define PMIX_FABRIC_DEVICE_DRIVER "pmix.fabdev.driver"
#define PMIX_FABRIC_DEVICE_FIRMWARE "pmix.fabdev.fmwr"
#define PMIX_FABRIC_DEVICE_ADDRESS "pmix.fabdev.addr"
#define PMIX_FABRIC_DEVICE_COORDINATES "pmix.fab.coord"
#define PMIX_FABRIC_DEVICE_MTU "pmix.fabdev.mtu"
#define PMIX_FABRIC_DEVICE_SPEED "pmix.fabdev.speed"
#define PMIX_FABRIC_DEVICE_STATE "pmix.fabdev.state"
#define PMIX_FABRIC_DEVICE_TYPE "pmix.fabdev.type"
#define PMIX_FABRIC_DEVICE_PCI_DEVID "pmix.fabdev.pcidevid"
#define PMIX_DEVICE_DISTANCES "pmix.dev.dist"
#define PMIX_DEVICE_TYPE "pmix.dev.type"
#define PMIX_DEVICE_ID "pmix.dev.id"
#define PMIX_MAX_VALUE "pmix.descr.maxval"
#define PMIX_MIN_VALUE "pmix.descr.minval"
#define PMIX_ENUM_VALUE "pmix.descr.enum"
#define PMIX_QUERY_STABLE_ABI_VERSION "pmix.qry.stabiver"
#define PMIX_QUERY_PROVISIONAL_ABI_VERSION "pmix.qry.prabiver"
#define PMIX_VERSION_NUMERIC "pmix.vers.num"
#define PMIX_EVENT_BASE "pmix.evbase"
#define PMIX_CRYPTO_KEY "pmix.sec.key"
#define PMIX_TOPOLOGY "pmix.topo"
#define PMIX_DEBUG_JOB "pmix.dbg.job"
#define PMIX_RECONNECT_SERVER "pmix.cnct.recon"
#define PMIX_USOCK_DISABLE "pmix.usock.disable"
#define PMIX_SOCKET_MODE "pmix.sockmode"
#define PMIX_SINGLE_LISTENER "pmix.sing.listnr"
#define PMIX_ALLOC_NETWORK "pmix.alloc.net"
#define PMIX_ALLOC_NETWORK_ID "pmix.alloc.netid"
#define PMIX_ALLOC_NETWORK_QOS "pmix.alloc.netqos"
#define PMIX_ALLOC_NETWORK_TYPE "pmix.alloc.nettype"
#define PMIX_ALLOC_NETWORK_PLANE "pmix.alloc.netplane"
#define PMIX_ALLOC_NETWORK_ENDPTS "pmix.alloc.endpts"
#define PMIX_ALLOC_NETWORK_ENDPTS_NODE "pmix.alloc.endpts.nd"
#define PMIX_ALLOC_NETWORK_SEC_KEY "pmix.alloc.nsec"
#define PMIX_PROC_DATA "pmix.pdata"
#define PMIX_LOCALITY "pmix.loc"
#define PMIX_LOCAL_TOPO "pmix.ltopo"
#define PMIX_TOPOLOGY_XML "pmix.topo.xml"
#define PMIX_TOPOLOGY_FILE "pmix.topo.file"
#define PMIX_TOPOLOGY_SIGNATURE "pmix.toposig"
#define PMIX_HWLOC_SHMEM_ADDR "pmix.hwlocaddr"
#define PMIX_HWLOC_SHMEM_SIZE "pmix.hwlocsize"
#define PMIX_HWLOC_SHMEM_FILE "pmix.hwlocfile"
#define PMIX_HWLOC_XML_V1 "pmix.hwlocxml1"
#define PMIX_HWLOC_XML_V2 "pmix.hwlocxml2"
#define PMIX_HWLOC_SHARE_TOPO "pmix.hwlocsh"
#define PMIX_HWLOC_HOLE_KIND "pmix.hwlocholek"
#define PMIX_DSTPATH "pmix.dstpath"
#define PMIX_COLLECTIVE_ALGO "pmix.calgo"
#define PMIX_COLLECTIVE_ALGO_REQD "pmix.calreqd"
#define PMIX_PROC_BLOB "pmix.pblob"
#define PMIX_MAP_BLOB "pmix.mblob"
#define PMIX_MAPPER "pmix.mapper"
#define PMIX_NON_PMI "pmix.nonpmi"
#define PMIX_PROC_URI "pmix.puri"
#define PMIX_ARCH "pmix.arch"
#define PMIX_DEBUG_JOB_DIRECTIVES "pmix.dbg.jdirs"
#define PMIX_DEBUG_APP_DIRECTIVES "pmix.dbg.adirs"
#define PMIX_EVENT_NO_TERMINATION "pmix.evnoterm"
#define PMIX_EVENT_WANT_TERMINATION "pmix.evterm"
#define PMIX_TAG_OUTPUT "pmix.tagout"
#define PMIX_TIMESTAMP_OUTPUT "pmix.tsout"
#define PMIX_MERGE_STDERR_STDOUT "pmix.mergeerrout"
#define PMIX_OUTPUT_TO_FILE "pmix.outfile"
#define PMIX_OUTPUT_TO_DIRECTORY "pmix.outdir"
#define PMIX_OUTPUT_NOCOPY "pmix.nocopy"
#define PMIX_GDS_MODULE "pmix.gds.mod"
#define PMIX_BFROPS_MODULE "pmix.bfrops.mod"
#define PMIX_PNET_SETUP_APP "pmix.pnet.setapp"
#define PMIX_IOF_STOP "pmix.iof.stop"
#define PMIX_NOTIFY_LAUNCH "pmix.note.lnch"
#define PMIX_SESSION_PROVISION "pmix.ssn.pvn"

/* ---- structures ---- */

typedef struct pmix_coord {
    pmix_coord_view_t view;
    uint32_t *coord;
    size_t dims;
} pmix_coord_t;

typedef struct {
    char *source;
    void *bitmap;
} pmix_cpuset_t;

typedef struct {
    char *source;
    void *topology;
} pmix_topology_t;

typedef struct pmix_geometry {
    size_t fabric;
    char *uuid;
    char *osname;
    pmix_coord_t *coordinates;
    size_t ncoords;
} pmix_geometry_t;

typedef struct pmix_device {
    char *uuid;
    char *osname;
    pmix_device_type_t type;
} pmix_device_t;

typedef struct pmix_resource_unit {
    pmix_device_type_t type;
    size_t count;
} pmix_resource_unit_t;

typedef struct pmix_device_distance {
    char *uuid;
    char *osname;
    pmix_device_type_t type;
    uint16_t mindist;
    uint16_t maxdist;
} pmix_device_distance_t;

typedef struct pmix_node_pid {
    char *hostname;
    uint32_t nodeid;
    pid_t pid;
} pmix_node_pid_t;

typedef struct pmix_regex2 {
    char *type;
    uint8_t *bytes;
    size_t len;
} pmix_regex2_t;

typedef struct pmix_byte_object {
    char *bytes;
    size_t size;
} pmix_byte_object_t;

typedef struct pmix_endpoint {
    char *uuid;
    char *osname;
    pmix_byte_object_t endpt;
} pmix_endpoint_t;

typedef struct {
    char *envar;
    char *value;
    char separator;
} pmix_envar_t;

typedef struct pmix_data_buffer {
    char *base_ptr;
    char *pack_ptr;
    char *unpack_ptr;
    size_t bytes_allocated;
    size_t bytes_used;
} pmix_data_buffer_t;

typedef struct pmix_proc {
    pmix_nspace_t nspace;
    pmix_rank_t rank;
} pmix_proc_t;

typedef struct pmix_proc_info {
    pmix_proc_t proc;
    char *hostname;
    char *executable_name;
    pid_t pid;
    int exit_code;
    pmix_proc_state_t state;
} pmix_proc_info_t;

typedef struct pmix_proc_stats {
    char *node;
    pmix_proc_t proc;
    pid_t pid;
    char *cmd;
    char state;
    struct timeval time;
    float percent_cpu;
    int32_t priority;
    uint16_t num_threads;
    float pss;
    float vsize;
    float rss;
    float peak_vsize;
    uint16_t processor;
    struct timeval sample_time;
} pmix_proc_stats_t;

typedef struct {
    char *disk;
    uint64_t num_reads_completed;
    uint64_t num_reads_merged;
    uint64_t num_sectors_read;
    uint64_t milliseconds_reading;
    uint64_t num_writes_completed;
    uint64_t num_writes_merged;
    uint64_t num_sectors_written;
    uint64_t milliseconds_writing;
    uint64_t num_ios_in_progress;
    uint64_t milliseconds_io;
    uint64_t weighted_milliseconds_io;
} pmix_disk_stats_t;

typedef struct {
    char *net_interface;
    uint64_t num_bytes_recvd;
    uint64_t num_packets_recvd;
    uint64_t num_recv_errs;
    uint64_t num_bytes_sent;
    uint64_t num_packets_sent;
    uint64_t num_send_errs;
} pmix_net_stats_t;

typedef struct {
    char *node;
    float la;
    float la5;
    float la15;
    float total_mem;
    float free_mem;
    float buffers;
    float cached;
    float swap_cached;
    float swap_total;
    float swap_free;
    float mapped;
    struct timeval sample_time;
    pmix_disk_stats_t *diskstats;
    size_t ndiskstats;
    pmix_net_stats_t *netstats;
    size_t nnetstats;
} pmix_node_stats_t;

typedef struct pmix_data_array {
    pmix_data_type_t type;
    size_t size;
    void *array;
} pmix_data_array_t;

typedef struct pmix_value {
    pmix_data_type_t type;
    union {
        bool flag;
        uint8_t byte;
        char *string;
        size_t size;
        pid_t pid;
        int integer;
        int8_t int8;
        int16_t int16;
        int32_t int32;
        int64_t int64;
        unsigned int uint;
        uint8_t uint8;
        uint16_t uint16;
        uint32_t uint32;
        uint64_t uint64;
        float fval;
        double dval;
        struct timeval tv;
        time_t time;
        pmix_status_t status;
        pmix_rank_t rank;
        pmix_nspace_t *nspace;
        pmix_proc_t *proc;
        pmix_byte_object_t bo;
        pmix_persistence_t persist;
        pmix_scope_t scope;
        pmix_data_range_t range;
        pmix_proc_state_t state;
        pmix_proc_info_t *pinfo;
        pmix_data_array_t *darray;
        void *ptr;
        pmix_alloc_directive_t adir;
        pmix_resource_block_directive_t rbdir;
        pmix_alloc_inheritance_t inheritance;
        pmix_envar_t envar;
        pmix_coord_t *coord;
        pmix_link_state_t linkstate;
        pmix_job_state_t jstate;
        pmix_topology_t *topo;
        pmix_cpuset_t *cpuset;
        pmix_locality_t locality;
        pmix_geometry_t *geometry;
        pmix_device_type_t devtype;
        pmix_device_t *device;
        pmix_device_distance_t *devdist;
        pmix_endpoint_t *endpoint;
        pmix_data_buffer_t *dbuf;
        pmix_resource_unit_t *resunit;
        pmix_node_pid_t *nodepid;
        pmix_regex2_t *regex2;
        pmix_proc_stats_t *pstats;
        pmix_disk_stats_t *dkstats;
        pmix_net_stats_t *netstats;
        pmix_node_stats_t *ndstats;
    } data;
} pmix_value_t;

typedef struct pmix_info {
    pmix_key_t key;
    pmix_info_directives_t flags;
    pmix_value_t value;
} pmix_info_t;

typedef struct pmix_pdata {
    pmix_proc_t proc;
    pmix_key_t key;
    pmix_value_t value;
} pmix_pdata_t;

typedef struct pmix_app {
    char *cmd;
    char **argv;
    char **env;
    char *cwd;
    int maxprocs;
    pmix_info_t *info;
    size_t ninfo;
} pmix_app_t;

typedef struct pmix_query {
    char **keys;
    pmix_info_t *qualifiers;
    size_t nqual;
} pmix_query_t;

typedef struct pmix_regattr_t {
    char *name;
    pmix_key_t string;
    pmix_data_type_t type;
    char **description;
} pmix_regattr_t;

typedef struct pmix_fabric_s {
    char *name;
    size_t index;
    pmix_info_t *info;
    size_t ninfo;
    void *module;
} pmix_fabric_t;

/* ---- callbacks ---- */

typedef void (*pmix_release_cbfunc_t)(void *cbdata);
typedef void (*pmix_modex_cbfunc_t)(pmix_status_t status, const char *data, size_t ndata, void *cbdata, pmix_release_cbfunc_t release_fn, void *release_cbdata);
typedef void (*pmix_spawn_cbfunc_t)(pmix_status_t status, pmix_nspace_t nspace, void *cbdata);
typedef void (*pmix_op_cbfunc_t)(pmix_status_t status, void *cbdata);
typedef void (*pmix_lookup_cbfunc_t)(pmix_status_t status, pmix_pdata_t data[], size_t ndata, void *cbdata);
typedef void (*pmix_event_notification_cbfunc_fn_t)(pmix_status_t status, pmix_info_t *results, size_t nresults, pmix_op_cbfunc_t cbfunc, void *thiscbdata, void *notification_cbdata);
typedef void (*pmix_notification_fn_t)(size_t evhdlr_registration_id, pmix_status_t status, const pmix_proc_t *source, pmix_info_t info[], size_t ninfo, pmix_info_t *results, size_t nresults, pmix_event_notification_cbfunc_fn_t cbfunc, void *cbdata);
typedef void (*pmix_hdlr_reg_cbfunc_t)(pmix_status_t status, size_t refid, void *cbdata);
typedef void (*pmix_evhdlr_reg_cbfunc_t)(pmix_status_t status, size_t refid, void *cbdata);
typedef void (*pmix_value_cbfunc_t)(pmix_status_t status, pmix_value_t *kv, void *cbdata);
typedef void (*pmix_info_cbfunc_t)(pmix_status_t status, pmix_info_t *info, size_t ninfo, void *cbdata, pmix_release_cbfunc_t release_fn, void *release_cbdata);
typedef void (*pmix_credential_cbfunc_t)(pmix_status_t status, pmix_byte_object_t *credential, pmix_info_t info[], size_t ninfo, void *cbdata);
typedef void (*pmix_validation_cbfunc_t)(pmix_status_t status, pmix_info_t info[], size_t ninfo, void *cbdata);
typedef void (*pmix_device_dist_cbfunc_t)(pmix_status_t status, pmix_device_distance_t *dist, size_t ndist, void *cbdata, pmix_release_cbfunc_t release_fn, void *release_cbdata);

/* ---- functions that the macros below use ---- */

PMIX_EXPORT void PMIx_Cpuset_destruct(pmix_cpuset_t *cpuset);
PMIX_EXPORT void PMIx_Data_array_destruct(pmix_data_array_t *d);
PMIX_EXPORT pmix_status_t PMIx_Data_load(pmix_data_buffer_t *buffer, pmix_byte_object_t *payload);
PMIX_EXPORT pmix_status_t PMIx_Data_unload(pmix_data_buffer_t *buffer, pmix_byte_object_t *payload);
PMIX_EXPORT pmix_status_t PMIx_Info_list_add(void *ptr, const char *key, const void *value, pmix_data_type_t type);
PMIX_EXPORT pmix_status_t PMIx_Info_list_convert(void *ptr, pmix_data_array_t *par);
PMIX_EXPORT pmix_status_t PMIx_Info_list_insert(void *ptr, pmix_info_t *info);
PMIX_EXPORT void PMIx_Info_list_release(void *ptr);
PMIX_EXPORT void *PMIx_Info_list_start(void);
PMIX_EXPORT pmix_status_t PMIx_Info_list_xfer(void *ptr, const pmix_info_t *info);
PMIX_EXPORT pmix_status_t PMIx_Info_load(pmix_info_t *info, const char *key, const void *data, pmix_data_type_t type);
PMIX_EXPORT pmix_status_t PMIx_Info_xfer(pmix_info_t *dest, const pmix_info_t *src);
PMIX_EXPORT void PMIx_Topology_destruct(pmix_topology_t *topo);
PMIX_EXPORT pmix_value_cmp_t PMIx_Value_compare(pmix_value_t *v1, pmix_value_t *v2);
PMIX_EXPORT void PMIx_Value_destruct(pmix_value_t *val);
PMIX_EXPORT pmix_status_t PMIx_Value_load(pmix_value_t *val, const void *data, pmix_data_type_t type);
PMIX_EXPORT pmix_status_t PMIx_Value_unload(pmix_value_t *val, void **data, size_t *sz);
PMIX_EXPORT pmix_status_t PMIx_Value_xfer(pmix_value_t *dest, const pmix_value_t *src);

/* ---- functions for what is declared above; release 4.2.2 has them as macros only, or not at all ---- */

/* lists of strings, environments */
PMIX_EXPORT pmix_status_t PMIx_Argv_append_nosize(char ***argv, const char *arg);
PMIX_EXPORT pmix_status_t PMIx_Argv_append_unique_nosize(char ***argv, const char *arg);
PMIX_EXPORT char **PMIx_Argv_copy(char **argv);
PMIX_EXPORT int PMIx_Argv_count(char **a);
PMIX_EXPORT void PMIx_Argv_free(char **argv);
PMIX_EXPORT char *PMIx_Argv_join(char **argv, int delimiter);
PMIX_EXPORT pmix_status_t PMIx_Argv_prepend_nosize(char ***argv, const char *arg);
PMIX_EXPORT char **PMIx_Argv_split(const char *src_string, int delimiter);
PMIX_EXPORT char **PMIx_Argv_split_inter(const char *src_string, int delimiter, bool include_empty);
PMIX_EXPORT char **PMIx_Argv_split_with_empty(const char *src_string, int delimiter);
PMIX_EXPORT pmix_status_t PMIx_Setenv(const char *name, const char *value, bool overwrite, char ***env);

/* keys, namespaces, ranks, processes */
PMIX_EXPORT bool PMIx_Check_key(const char *key, const char *str);
PMIX_EXPORT bool PMIx_Check_nspace(const char *key1, const char *key2);
PMIX_EXPORT bool PMIx_Check_nspace_strict(const char *key1, const char *key2);
PMIX_EXPORT bool PMIx_Check_procid(const pmix_proc_t *a, const pmix_proc_t *b);
PMIX_EXPORT bool PMIx_Check_procid_strict(const pmix_proc_t *a, const pmix_proc_t *b);
PMIX_EXPORT bool PMIx_Check_rank(pmix_rank_t a, pmix_rank_t b);
PMIX_EXPORT bool PMIx_Check_reserved_key(const char *key);
PMIX_EXPORT void PMIx_Load_key(pmix_key_t key, const char *src);
PMIX_EXPORT void PMIx_Load_nspace(pmix_nspace_t nspace, const char *str);
PMIX_EXPORT void PMIx_Load_procid(pmix_proc_t *p, const char *ns, pmix_rank_t rk);
PMIX_EXPORT void PMIx_Multicluster_nspace_construct(pmix_nspace_t target, pmix_nspace_t cluster, pmix_nspace_t nspace);
PMIX_EXPORT void PMIx_Multicluster_nspace_parse(pmix_nspace_t target, pmix_nspace_t cluster, pmix_nspace_t nspace);
PMIX_EXPORT bool PMIx_Nspace_invalid(const char *nspace);
PMIX_EXPORT void PMIx_Proc_load(pmix_proc_t *p, const char *nspace, pmix_rank_t rank);
PMIX_EXPORT bool PMIx_Procid_invalid(const pmix_proc_t *p);
PMIX_EXPORT bool PMIx_Rank_valid(pmix_rank_t a);
PMIX_EXPORT void PMIx_Xfer_procid(pmix_proc_t *dst, const pmix_proc_t *src);

/* directives of infos */
PMIX_EXPORT bool PMIx_Info_is_end(const pmix_info_t *p);
PMIX_EXPORT bool PMIx_Info_is_optional(const pmix_info_t *p);
PMIX_EXPORT bool PMIx_Info_is_persistent(const pmix_info_t *p);
PMIX_EXPORT bool PMIx_Info_is_qualifier(const pmix_info_t *p);
PMIX_EXPORT bool PMIx_Info_is_required(const pmix_info_t *p);
PMIX_EXPORT void PMIx_Info_optional(pmix_info_t *p);
PMIX_EXPORT void PMIx_Info_persistent(pmix_info_t *p);
PMIX_EXPORT void PMIx_Info_processed(pmix_info_t *p);
PMIX_EXPORT void PMIx_Info_qualifier(pmix_info_t *p);
PMIX_EXPORT void PMIx_Info_required(pmix_info_t *p);
PMIX_EXPORT void PMIx_Info_set_end(pmix_info_t *p);
PMIX_EXPORT bool PMIx_Info_was_processed(const pmix_info_t *p);

/* lists of infos */
PMIX_EXPORT pmix_status_t PMIx_Info_list_add_unique(void *ptr, const char *key, const void *value, pmix_data_type_t type, bool overwrite);
PMIX_EXPORT pmix_status_t PMIx_Info_list_add_value(void *ptr, const char *key, const pmix_value_t *value);
PMIX_EXPORT pmix_status_t PMIx_Info_list_add_value_unique(void *ptr, const char *key, const pmix_value_t *value, bool overwrite);
PMIX_EXPORT pmix_info_t *PMIx_Info_list_get_info(void *ptr, void *prev, void **next);
PMIX_EXPORT size_t PMIx_Info_list_get_size(void *ptr);
PMIX_EXPORT pmix_status_t PMIx_Info_list_prepend(void *ptr, const char *key, const void *value, pmix_data_type_t type);
PMIX_EXPORT pmix_status_t PMIx_Info_list_xfer_unique(void *ptr, const pmix_info_t *info, bool overwrite);

/* truth, numbers, sizes */
PMIX_EXPORT pmix_boolean_t PMIx_Info_true(const pmix_info_t *p);
PMIX_EXPORT pmix_status_t PMIx_Value_get_number(const pmix_value_t *value, void *dest, pmix_data_type_t type);
PMIX_EXPORT pmix_boolean_t PMIx_Value_true(const pmix_value_t *v);

/* structures filled and copied */
PMIX_EXPORT void PMIx_Byte_object_load(pmix_byte_object_t *b, char *d, size_t sz);
PMIX_EXPORT void PMIx_Data_array_construct(pmix_data_array_t *p, size_t num, pmix_data_type_t type);
PMIX_EXPORT pmix_data_array_t *PMIx_Data_array_create(size_t n, pmix_data_type_t type);
PMIX_EXPORT void PMIx_Data_array_free(pmix_data_array_t *p);
PMIX_EXPORT void PMIx_Data_array_init(pmix_data_array_t *p, pmix_data_type_t type);
PMIX_EXPORT void PMIx_Data_buffer_load(pmix_data_buffer_t *b, char *bytes, size_t sz);
PMIX_EXPORT void PMIx_Data_buffer_unload(pmix_data_buffer_t *b, char **bytes, size_t *sz);
PMIX_EXPORT void PMIx_Envar_load(pmix_envar_t *e, char *var, char *value, char separator);
PMIX_EXPORT void PMIx_Pdata_load(pmix_pdata_t *dest, const pmix_proc_t *p, const char *key, const void *data, pmix_data_type_t type);
PMIX_EXPORT void PMIx_Pdata_xfer(pmix_pdata_t *dest, pmix_pdata_t *src);
PMIX_EXPORT void PMIx_Regattr_load(pmix_regattr_t *info, const char *name, const char *key, pmix_data_type_t type, const char *description);
PMIX_EXPORT void PMIx_Regattr_xfer(pmix_regattr_t *dest, const pmix_regattr_t *src);

/* the life of structures */
PMIX_EXPORT void PMIx_App_construct(pmix_app_t *p);
PMIX_EXPORT pmix_app_t *PMIx_App_create(size_t n);
PMIX_EXPORT void PMIx_App_destruct(pmix_app_t *p);
PMIX_EXPORT void PMIx_App_free(pmix_app_t *p, size_t n);
PMIX_EXPORT void PMIx_App_info_create(pmix_app_t *p, size_t n);
PMIX_EXPORT void PMIx_App_release(pmix_app_t *p);
PMIX_EXPORT void PMIx_Byte_object_construct(pmix_byte_object_t *b);
PMIX_EXPORT pmix_byte_object_t *PMIx_Byte_object_create(size_t n);
PMIX_EXPORT void PMIx_Byte_object_destruct(pmix_byte_object_t *g);
PMIX_EXPORT void PMIx_Byte_object_free(pmix_byte_object_t *g, size_t n);
PMIX_EXPORT void PMIx_Coord_construct(pmix_coord_t *m);
PMIX_EXPORT pmix_coord_t *PMIx_Coord_create(size_t dims, size_t number);
PMIX_EXPORT void PMIx_Coord_destruct(pmix_coord_t *m);
PMIX_EXPORT void PMIx_Coord_free(pmix_coord_t *m, size_t number);
PMIX_EXPORT void PMIx_Cpuset_construct(pmix_cpuset_t *cpuset);
PMIX_EXPORT pmix_cpuset_t *PMIx_Cpuset_create(size_t n);
PMIX_EXPORT void PMIx_Cpuset_free(pmix_cpuset_t *c, size_t n);
PMIX_EXPORT void PMIx_Data_buffer_construct(pmix_data_buffer_t *b);
PMIX_EXPORT pmix_data_buffer_t *PMIx_Data_buffer_create(void);
PMIX_EXPORT void PMIx_Data_buffer_destruct(pmix_data_buffer_t *b);
PMIX_EXPORT void PMIx_Data_buffer_release(pmix_data_buffer_t *b);
PMIX_EXPORT void PMIx_Device_construct(pmix_device_t *d);
PMIX_EXPORT pmix_device_t *PMIx_Device_create(size_t n);
PMIX_EXPORT void PMIx_Device_destruct(pmix_device_t *d);
PMIX_EXPORT void PMIx_Device_distance_construct(pmix_device_distance_t *d);
PMIX_EXPORT pmix_device_distance_t *PMIx_Device_distance_create(size_t n);
PMIX_EXPORT void PMIx_Device_distance_destruct(pmix_device_distance_t *d);
PMIX_EXPORT void PMIx_Device_distance_free(pmix_device_distance_t *d, size_t n);
PMIX_EXPORT void PMIx_Device_free(pmix_device_t *d, size_t n);
PMIX_EXPORT void PMIx_Disk_stats_construct(pmix_disk_stats_t *p);
PMIX_EXPORT pmix_disk_stats_t *PMIx_Disk_stats_create(size_t n);
PMIX_EXPORT void PMIx_Disk_stats_destruct(pmix_disk_stats_t *p);
PMIX_EXPORT void PMIx_Disk_stats_free(pmix_disk_stats_t *p, size_t n);
PMIX_EXPORT void PMIx_Endpoint_construct(pmix_endpoint_t *e);
PMIX_EXPORT pmix_endpoint_t *PMIx_Endpoint_create(size_t n);
PMIX_EXPORT void PMIx_Endpoint_destruct(pmix_endpoint_t *e);
PMIX_EXPORT void PMIx_Endpoint_free(pmix_endpoint_t *e, size_t n);
PMIX_EXPORT void PMIx_Envar_construct(pmix_envar_t *e);
PMIX_EXPORT pmix_envar_t *PMIx_Envar_create(size_t n);
PMIX_EXPORT void PMIx_Envar_destruct(pmix_envar_t *e);
PMIX_EXPORT void PMIx_Envar_free(pmix_envar_t *e, size_t n);
PMIX_EXPORT void PMIx_Fabric_construct(pmix_fabric_t *p);
PMIX_EXPORT void PMIx_Geometry_construct(pmix_geometry_t *g);
PMIX_EXPORT pmix_geometry_t *PMIx_Geometry_create(size_t n);
PMIX_EXPORT void PMIx_Geometry_destruct(pmix_geometry_t *g);
PMIX_EXPORT void PMIx_Geometry_free(pmix_geometry_t *g, size_t n);
PMIX_EXPORT void PMIx_Info_construct(pmix_info_t *p);
PMIX_EXPORT pmix_info_t *PMIx_Info_create(size_t n);
PMIX_EXPORT void PMIx_Info_destruct(pmix_info_t *p);
PMIX_EXPORT void PMIx_Info_free(pmix_info_t *p, size_t n);
PMIX_EXPORT void PMIx_Net_stats_construct(pmix_net_stats_t *p);
PMIX_EXPORT pmix_net_stats_t *PMIx_Net_stats_create(size_t n);
PMIX_EXPORT void PMIx_Net_stats_destruct(pmix_net_stats_t *p);
PMIX_EXPORT void PMIx_Net_stats_free(pmix_net_stats_t *p, size_t n);
PMIX_EXPORT void PMIx_Node_pid_construct(pmix_node_pid_t *d);
PMIX_EXPORT pmix_node_pid_t *PMIx_Node_pid_create(size_t n);
PMIX_EXPORT void PMIx_Node_pid_destruct(pmix_node_pid_t *d);
PMIX_EXPORT void PMIx_Node_pid_free(pmix_node_pid_t *d, size_t n);
PMIX_EXPORT void PMIx_Node_stats_construct(pmix_node_stats_t *p);
PMIX_EXPORT pmix_node_stats_t *PMIx_Node_stats_create(size_t n);
PMIX_EXPORT void PMIx_Node_stats_destruct(pmix_node_stats_t *p);
PMIX_EXPORT void PMIx_Node_stats_free(pmix_node_stats_t *p, size_t n);
PMIX_EXPORT void PMIx_Pdata_construct(pmix_pdata_t *p);
PMIX_EXPORT pmix_pdata_t *PMIx_Pdata_create(size_t n);
PMIX_EXPORT void PMIx_Pdata_destruct(pmix_pdata_t *p);
PMIX_EXPORT void PMIx_Pdata_free(pmix_pdata_t *p, size_t n);
PMIX_EXPORT void PMIx_Proc_construct(pmix_proc_t *p);
PMIX_EXPORT pmix_proc_t *PMIx_Proc_create(size_t n);
PMIX_EXPORT void PMIx_Proc_destruct(pmix_proc_t *p);
PMIX_EXPORT void PMIx_Proc_free(pmix_proc_t *p, size_t n);
PMIX_EXPORT void PMIx_Proc_info_construct(pmix_proc_info_t *p);
PMIX_EXPORT pmix_proc_info_t *PMIx_Proc_info_create(size_t n);
PMIX_EXPORT void PMIx_Proc_info_destruct(pmix_proc_info_t *p);
PMIX_EXPORT void PMIx_Proc_info_free(pmix_proc_info_t *p, size_t n);
PMIX_EXPORT void PMIx_Proc_stats_construct(pmix_proc_stats_t *p);
PMIX_EXPORT pmix_proc_stats_t *PMIx_Proc_stats_create(size_t n);
PMIX_EXPORT void PMIx_Proc_stats_destruct(pmix_proc_stats_t *p);
PMIX_EXPORT void PMIx_Proc_stats_free(pmix_proc_stats_t *p, size_t n);
PMIX_EXPORT void PMIx_Query_construct(pmix_query_t *p);
PMIX_EXPORT pmix_query_t *PMIx_Query_create(size_t n);
PMIX_EXPORT void PMIx_Query_destruct(pmix_query_t *p);
PMIX_EXPORT void PMIx_Query_free(pmix_query_t *p, size_t n);
PMIX_EXPORT void PMIx_Query_qualifiers_create(pmix_query_t *p, size_t n);
PMIX_EXPORT void PMIx_Query_release(pmix_query_t *p);
PMIX_EXPORT void PMIx_Regattr_construct(pmix_regattr_t *p);
PMIX_EXPORT pmix_regattr_t *PMIx_Regattr_create(size_t n);
PMIX_EXPORT void PMIx_Regattr_destruct(pmix_regattr_t *p);
PMIX_EXPORT void PMIx_Regattr_free(pmix_regattr_t *p, size_t n);
PMIX_EXPORT void PMIx_Regex2_construct(pmix_regex2_t *d);
PMIX_EXPORT pmix_regex2_t *PMIx_Regex2_create(size_t n);
PMIX_EXPORT void PMIx_Regex2_destruct(pmix_regex2_t *d);
PMIX_EXPORT void PMIx_Regex2_free(pmix_regex2_t *d, size_t n);
PMIX_EXPORT void PMIx_Resource_unit_construct(pmix_resource_unit_t *d);
PMIX_EXPORT pmix_resource_unit_t *PMIx_Resource_unit_create(size_t n);
PMIX_EXPORT void PMIx_Resource_unit_destruct(pmix_resource_unit_t *d);
PMIX_EXPORT void PMIx_Resource_unit_free(pmix_resource_unit_t *d, size_t n);
PMIX_EXPORT void PMIx_Topology_construct(pmix_topology_t *t);
PMIX_EXPORT pmix_topology_t *PMIx_Topology_create(size_t n);
PMIX_EXPORT void PMIx_Topology_free(pmix_topology_t *t, size_t n);
PMIX_EXPORT void PMIx_Value_construct(pmix_value_t *val);
PMIX_EXPORT pmix_value_t *PMIx_Value_create(size_t n);
PMIX_EXPORT void PMIx_Value_free(pmix_value_t *v, size_t n);

/* ---- memory that crosses the boundary comes from malloc ---- */

static inline void *pmix_malloc(size_t n) { return malloc(n); }
static inline void pmix_free(void *m) { free(m); }
static inline void *pmix_calloc(size_t n, size_t m) { return calloc(n, m); }

/* An array of n cleared objects; NULL for none. */
static inline void *pmixds_create(size_t n, size_t size) { return n == 0 ? NULL : calloc(n, size); }

static inline void pmixds_free_string(char **text)
{
    free(*text);
    *text = NULL;
}

/* As strdup, which programs of plain C do not see; NULL for NULL. */
static inline char *pmixds_copy_string(const char *text)
{
    size_t size = text == NULL ? 0 : strlen(text) + 1;
    char *copy = text == NULL ? NULL : (char *) malloc(size);
    if (copy != NULL) {
        memcpy(copy, text, size);
    }
    return copy;
}

/* Copies at most len characters and ends the copy with a NUL; dest has room for len + 1. */
static inline void pmix_strncpy(char *dest, const char *src, size_t len)
{
    size_t n = 0;
    while (n < len && src[n] != '\0') {
        dest[n] = src[n];
        n++;
    }
    dest[n] = '\0';
}

static inline size_t pmix_keylen(const char *src)
{
    size_t n = 0;
    while (n < PMIX_MAX_KEYLEN && src[n] != '\0') {
        n++;
    }
    return n;
}

static inline size_t pmix_nslen(const char *src)
{
    size_t n = 0;
    while (n < PMIX_MAX_NSLEN && src[n] != '\0') {
        n++;
    }
    return n;
}

/* ---- keys, namespaces, processes ---- */

static inline void pmixds_load_name(char *dest, size_t len_max, const char *src)
{
    memset(dest, 0, len_max + 1);
    if (src != NULL) {
        pmix_strncpy(dest, src, len_max);
    }
}

static inline bool pmixds_same_name(const char *a, const char *b, size_t len_max)
{
    return a != NULL && b != NULL && strncmp(a, b, len_max) == 0;
}

/* No namespace stands for any. */
static inline bool pmixds_same_nspace(const char *a, const char *b)
{
    return a == NULL || b == NULL || a[0] == '\0' || b[0] == '\0' || strncmp(a, b, PMIX_MAX_NSLEN) == 0;
}

#define PMIX_LOAD_KEY(a, b) pmixds_load_name((a), PMIX_MAX_KEYLEN, (b))
#define PMIX_CHECK_KEY(a, b) pmixds_same_name((a)->key, (b), PMIX_MAX_KEYLEN)
#define PMIX_CHECK_RESERVED_KEY(a) (strncmp((a), "pmix", 4) == 0)
#define PMIX_LOAD_NSPACE(a, b) pmixds_load_name((a), PMIX_MAX_NSLEN, (b))
#define PMIX_CHECK_NSPACE(a, b) pmixds_same_nspace((a), (b))
#define PMIX_NSPACE_INVALID(a) ((a) == NULL || pmix_nslen((a)) == 0)
#define PMIX_LOAD_PROCID(a, b, c)             \
    do {                                      \
        PMIX_LOAD_NSPACE((a)->nspace, (b));   \
        (a)->rank = (c);                      \
    } while (0)
#define PMIX_XFER_PROCID(a, b) memcpy((a), (b), sizeof(pmix_proc_t))
#define PMIX_CHECK_RANK(a, b) ((a) == (b) || (a) == PMIX_RANK_WILDCARD || (b) == PMIX_RANK_WILDCARD)
#define PMIX_CHECK_PROCID(a, b) \
    (PMIX_CHECK_NSPACE((a)->nspace, (b)->nspace) && PMIX_CHECK_RANK((a)->rank, (b)->rank))
#define PMIX_PROCID_INVALID(a) (PMIX_NSPACE_INVALID((a)->nspace) || (a)->rank == PMIX_RANK_INVALID)

/* A namespace of several clusters is "cluster:namespace". */
static inline void pmixds_join_nspace(char *target, const char *cluster, const char *nspace)
{
    pmix_nspace_t joined;
    size_t n = pmix_nslen(cluster);
    memset(joined, 0, sizeof(joined));
    pmix_strncpy(joined, cluster, n);
    if (n < PMIX_MAX_NSLEN) {
        joined[n++] = ':';
        pmix_strncpy(joined + n, nspace, PMIX_MAX_NSLEN - n);
    }
    memcpy(target, joined, sizeof(joined));
}

static inline void pmixds_split_nspace(const char *target, char *cluster, char *nspace)
{
    size_t n = 0;
    PMIX_LOAD_NSPACE(cluster, NULL);
    while (n < PMIX_MAX_NSLEN && target[n] != '\0' && target[n] != ':') {
        cluster[n] = target[n];
        n++;
    }
    PMIX_LOAD_NSPACE(nspace, target[n] == ':' ? target + n + 1 : "");
}

#define PMIX_MULTICLUSTER_NSPACE_CONSTRUCT(t, c, n) pmixds_join_nspace((t), (c), (n))
#define PMIX_MULTICLUSTER_NSPACE_PARSE(t, c, n) pmixds_split_nspace((t), (c), (n))

/* ---- NULL-terminated arrays of strings ---- */

static inline int pmix_argv_count(char **argv)
{
    int n = 0;
    while (argv != NULL && argv[n] != NULL) {
        n++;
    }
    return n;
}

static inline void pmix_argv_free(char **argv)
{
    size_t n;
    if (argv == NULL) {
        return;
    }
    for (n = 0; argv[n] != NULL; n++) {
        free(argv[n]);
    }
    free(argv);
}

/* Puts a copy of text at a position, moving what is there and behind. */
static inline pmix_status_t pmixds_argv_insert(char ***argv, int at, const char *text)
{
    int count = pmix_argv_count(*argv);
    char *copy = pmixds_copy_string(text);
    char **grown = (char **) realloc(*argv, (size_t) (count + 2) * sizeof(char *));
    if (copy == NULL || grown == NULL) {
        free(copy);
        if (grown != NULL) {
            *argv = grown;
        }
        return PMIX_ERR_OUT_OF_RESOURCE;
    }
    memmove(grown + at + 1, grown + at, (size_t) (count - at) * sizeof(char *));
    grown[at] = copy;
    grown[count + 1] = NULL;
    *argv = grown;
    return PMIX_SUCCESS;
}

static inline pmix_status_t pmix_argv_append_nosize(char ***argv, const char *arg)
{
    return pmixds_argv_insert(argv, pmix_argv_count(*argv), arg);
}

static inline pmix_status_t pmix_argv_prepend_nosize(char ***argv, const char *arg)
{
    return pmixds_argv_insert(argv, 0, arg);
}

static inline pmix_status_t pmix_argv_append_unique_nosize(char ***argv, const char *arg)
{
    int n;
    for (n = 0; n < pmix_argv_count(*argv); n++) {
        if (strcmp((*argv)[n], arg) == 0) {
            return PMIX_SUCCESS;
        }
    }
    return pmix_argv_append_nosize(argv, arg);
}

/* The parts between delimiters; empty ones only if asked for. */
static inline char **pmix_argv_split_inter(const char *text, int delimiter, bool include_empty)
{
    char **parts = NULL;
    while (text != NULL && *text != '\0') {
        const char *end = strchr(text, delimiter);
        size_t len = end == NULL ? strlen(text) : (size_t) (end - text);
        if (len > 0 || include_empty) {
            char *part = (char *) calloc(len + 1, 1);
            if (part == NULL) {
                pmix_argv_free(parts);
                return NULL;
            }
            memcpy(part, text, len);
            if (pmix_argv_append_nosize(&parts, part) != PMIX_SUCCESS) {
                free(part);
                pmix_argv_free(parts);
                return NULL;
            }
            free(part);
        }
        text = end == NULL ? text + len : end + 1;
    }
    return parts;
}

static inline char **pmix_argv_split(const char *text, int delimiter)
{
    return pmix_argv_split_inter(text, delimiter, false);
}

static inline char **pmix_argv_split_with_empty(const char *text, int delimiter)
{
    return pmix_argv_split_inter(text, delimiter, true);
}

static inline char *pmix_argv_join(char **argv, int delimiter)
{
    size_t len = 0, used = 0;
    int n;
    char *joined;
    for (n = 0; n < pmix_argv_count(argv); n++) {
        len += strlen(argv[n]) + 1;
    }
    joined = (char *) calloc(len + 1, 1);
    for (n = 0; joined != NULL && n < pmix_argv_count(argv); n++) {
        if (n > 0) {
            joined[used++] = (char) delimiter;
        }
        memcpy(joined + used, argv[n], strlen(argv[n]));
        used += strlen(argv[n]);
    }
    return joined;
}

static inline char **pmix_argv_copy(char **argv)
{
    char **copy = NULL;
    int n;
    if (argv == NULL) {
        return NULL;
    }
    copy = (char **) calloc(1, sizeof(char *));
    for (n = 0; copy != NULL && argv[n] != NULL; n++) {
        if (pmix_argv_append_nosize(&copy, argv[n]) != PMIX_SUCCESS) {
            pmix_argv_free(copy);
            return NULL;
        }
    }
    return copy;
}

/* Sets a variable in an environment; without a value to nothing, or takes it away from the process's own. */
static inline pmix_status_t pmix_setenv(const char *name, const char *value, bool overwrite, char ***env)
{
    extern char **environ;
#if defined(__STRICT_ANSI__) && !defined(__cplusplus)
    extern int setenv(const char *, const char *, int);
    extern int unsetenv(const char *);
#endif
    size_t len = strlen(name);
    char *entry;
    int n, rest;
    pmix_status_t rc = PMIX_SUCCESS;
    if (env == NULL) {
        return PMIX_ERR_BAD_PARAM;
    }
    if (*env == environ && *env != NULL) {
        rc = value == NULL ? unsetenv(name) : setenv(name, value, overwrite ? 1 : 0);
        return rc == 0 ? PMIX_SUCCESS : PMIX_ERR_OUT_OF_RESOURCE;
    }
    for (n = 0; n < pmix_argv_count(*env); n++) {
        if (strncmp((*env)[n], name, len) == 0 && (*env)[n][len] == '=') {
            if (!overwrite) {
                return PMIX_ERR_EXISTS;
            }
            rest = pmix_argv_count(*env) - n;
            free((*env)[n]);
            memmove(*env + n, *env + n + 1, (size_t) rest * sizeof(char *));
            break;
        }
    }
    value = value == NULL ? "" : value;
    entry = (char *) malloc(len + strlen(value) + 2);
    if (entry == NULL) {
        return PMIX_ERR_OUT_OF_RESOURCE;
    }
    sprintf(entry, "%s=%s", name, value);
    rc = pmix_argv_append_nosize(env, entry);
    free(entry);
    return rc;
}

#define PMIX_ARGV_COUNT(r, a) (r) = pmix_argv_count(a)
#define PMIX_ARGV_APPEND(r, a, b) (r) = pmix_argv_append_nosize(&(a), (b))
#define PMIX_ARGV_PREPEND(r, a, b) (r) = pmix_argv_prepend_nosize(&(a), (b))
#define PMIX_ARGV_APPEND_UNIQUE(r, a, b) (r) = pmix_argv_append_unique_nosize(a, b)
#define PMIX_ARGV_FREE(a) pmix_argv_free(a)
#define PMIX_ARGV_SPLIT(a, b, c) (a) = pmix_argv_split((b), (c))
#define PMIX_ARGV_JOIN(a, b, c) (a) = pmix_argv_join((b), (c))
#define PMIX_ARGV_COPY(a, b) (a) = pmix_argv_copy(b)
#define PMIX_SETENV(r, a, b, c) (r) = pmix_setenv((a), (b), true, (c))

/* ---- values ---- */

#define PMIX_VALUE_CONSTRUCT(m) memset((m), 0, sizeof(pmix_value_t))
#define PMIX_VALUE_DESTRUCT(m) PMIx_Value_destruct(m)
#define PMIX_VALUE_CREATE(m, n) (m) = (pmix_value_t *) pmixds_create((n), sizeof(pmix_value_t))
#define PMIX_VALUE_RELEASE(m)         \
    do {                              \
        PMIX_VALUE_DESTRUCT(m);       \
        free(m);                      \
        (m) = NULL;                   \
    } while (0)
#define PMIX_VALUE_LOAD(v, d, t) PMIx_Value_load((v), (d), (t))
#define PMIX_VALUE_UNLOAD(r, k, d, s) (r) = PMIx_Value_unload((k), (d), (s))
#define PMIX_VALUE_XFER_DIRECT(r, v, s) (r) = PMIx_Value_xfer((v), (s))
#define PMIX_VALUE_XFER(r, v, s)                                       \
    do {                                                               \
        if ((v) == NULL) {                                             \
            (v) = (pmix_value_t *) calloc(1, sizeof(pmix_value_t));    \
        }                                                              \
        (r) = (v) == NULL ? PMIX_ERR_NOMEM : PMIx_Value_xfer((v), (s)); \
    } while (0)

/* A number of any of the numeric types, converted to type t. */
#define PMIX_VALUE_GET_NUMBER(s, m, n, t)                               \
    do {                                                                \
        (s) = PMIX_SUCCESS;                                             \
        switch ((m)->type) {                                            \
        case PMIX_SIZE: (n) = (t) ((m)->data.size); break;              \
        case PMIX_INT: (n) = (t) ((m)->data.integer); break;            \
        case PMIX_INT8: (n) = (t) ((m)->data.int8); break;              \
        case PMIX_INT16: (n) = (t) ((m)->data.int16); break;            \
        case PMIX_INT32: (n) = (t) ((m)->data.int32); break;            \
        case PMIX_INT64: (n) = (t) ((m)->data.int64); break;            \
        case PMIX_UINT: (n) = (t) ((m)->data.uint); break;              \
        case PMIX_UINT8: (n) = (t) ((m)->data.uint8); break;            \
        case PMIX_UINT16: (n) = (t) ((m)->data.uint16); break;          \
        case PMIX_UINT32: (n) = (t) ((m)->data.uint32); break;          \
        case PMIX_UINT64: (n) = (t) ((m)->data.uint64); break;          \
        case PMIX_FLOAT: (n) = (t) ((m)->data.fval); break;             \
        case PMIX_DOUBLE: (n) = (t) ((m)->data.dval); break;            \
        case PMIX_PID: (n) = (t) ((m)->data.pid); break;                \
        case PMIX_PROC_RANK: (n) = (t) ((m)->data.rank); break;         \
        default: (s) = PMIX_ERR_BAD_PARAM; break;                       \
        }                                                               \
    } while (0)

/* Truth of a value that may be a boolean or a word for one. */
static inline pmix_boolean_t pmix_check_true(const pmix_value_t *value)
{
    const char *text;
    if (value->type == PMIX_UNDEF) {
        return PMIX_BOOL_TRUE;
    }
    if (value->type == PMIX_BOOL) {
        return value->data.flag ? PMIX_BOOL_TRUE : PMIX_BOOL_FALSE;
    }
    if (value->type != PMIX_STRING) {
        return PMIX_NON_BOOL;
    }
    text = value->data.string;
    if (text == NULL) {
        return PMIX_BOOL_TRUE;
    }
    while (isspace((unsigned char) *text)) {
        text++;
    }
    if (*text == '\0') {
        return PMIX_BOOL_TRUE;
    }
    if (isdigit((unsigned char) *text)) {
        return strtol(text, NULL, 10) != 0 ? PMIX_BOOL_TRUE : PMIX_BOOL_FALSE;
    }
    if (strncasecmp(text, "yes", 3) == 0 || strncasecmp(text, "true", 4) == 0) {
        return PMIX_BOOL_TRUE;
    }
    if (strncasecmp(text, "no", 2) == 0 || strncasecmp(text, "false", 5) == 0) {
        return PMIX_BOOL_FALSE;
    }
    return PMIX_NON_BOOL;
}

#define PMIX_CHECK_TRUE(a) (pmix_check_true(a) == PMIX_BOOL_TRUE)

/* ---- infos ---- */

static inline void pmixds_info_destruct(pmix_info_t *info)
{
    /* A persistent info shares its value with another one. */
    if ((info->flags & PMIX_INFO_PERSISTENT) == 0) {
        PMIx_Value_destruct(&info->value);
    }
}

/* The last info of an array says that it is. */
static inline pmix_info_t *pmixds_info_create(size_t n)
{
    pmix_info_t *infos = (pmix_info_t *) pmixds_create(n, sizeof(pmix_info_t));
    if (infos != NULL) {
        infos[n - 1].flags = PMIX_INFO_ARRAY_END;
    }
    return infos;
}

#define PMIX_INFO_CONSTRUCT(m) memset((m), 0, sizeof(pmix_info_t))
#define PMIX_INFO_DESTRUCT(m) pmixds_info_destruct(m)
#define PMIX_INFO_CREATE(m, n) (m) = pmixds_info_create(n)
#define PMIX_INFO_LOAD(i, k, d, t) (void) PMIx_Info_load((i), (k), (d), (t))
#define PMIX_INFO_XFER(d, s) (void) PMIx_Info_xfer((d), (s))
#define PMIX_INFO_REQUIRED(m) ((m)->flags |= PMIX_INFO_REQD)
#define PMIX_INFO_OPTIONAL(m) ((m)->flags &= ~(pmix_info_directives_t) PMIX_INFO_REQD)
#define PMIX_INFO_IS_REQUIRED(m) (((m)->flags & PMIX_INFO_REQD) != 0)
#define PMIX_INFO_IS_OPTIONAL(m) (((m)->flags & PMIX_INFO_REQD) == 0)
#define PMIX_INFO_PROCESSED(m) ((m)->flags |= PMIX_INFO_REQD_PROCESSED)
#define PMIX_INFO_WAS_PROCESSED(m) (((m)->flags & PMIX_INFO_REQD_PROCESSED) != 0)
#define PMIX_INFO_SET_END(m) ((m)->flags |= PMIX_INFO_ARRAY_END)
#define PMIX_INFO_IS_END(m) (((m)->flags & PMIX_INFO_ARRAY_END) != 0)
#define PMIX_INFO_SET_QUALIFIER(i) ((i)->flags |= PMIX_INFO_QUALIFIER)
#define PMIX_INFO_IS_QUALIFIER(i) (((i)->flags & PMIX_INFO_QUALIFIER) != 0)
#define PMIX_INFO_SET_PERSISTENT(ii) ((ii)->flags |= PMIX_INFO_PERSISTENT)
#define PMIX_INFO_IS_PERSISTENT(ii) (((ii)->flags & PMIX_INFO_PERSISTENT) != 0)
#define PMIX_INFO_TRUE(m) (pmix_check_true(&(m)->value) == PMIX_BOOL_TRUE)
#define PMIX_INFO_LIST_START(p) (p) = PMIx_Info_list_start()
#define PMIX_INFO_LIST_ADD(r, p, a, v, t) (r) = PMIx_Info_list_add((p), (a), (v), (t))
#define PMIX_INFO_LIST_PREPEND(r, p, a, v, t) (r) = PMIx_Info_list_prepend((p), (a), (v), (t))
#define PMIX_INFO_LIST_INSERT(r, p, i) (r) = PMIx_Info_list_insert((p), (i))
#define PMIX_INFO_LIST_XFER(r, p, a) (r) = PMIx_Info_list_xfer((p), (a))
#define PMIX_INFO_LIST_CONVERT(r, p, m) (r) = PMIx_Info_list_convert((p), (m))
#define PMIX_INFO_LIST_RELEASE(p) PMIx_Info_list_release(p)

/* ---- what the other structures hold ---- */

static inline void pmixds_coord_destruct(pmix_coord_t *m)
{
    free(m->coord);
    memset(m, 0, sizeof(*m));
}

static inline pmix_coord_t *pmixds_coord_create(size_t n, size_t dims)
{
    size_t i;
    pmix_coord_t *m = (pmix_coord_t *) pmixds_create(n, sizeof(pmix_coord_t));
    for (i = 0; m != NULL && i < n; i++) {
        m[i].coord = (uint32_t *) pmixds_create(dims, sizeof(uint32_t));
        m[i].dims = m[i].coord == NULL ? 0 : dims;
    }
    return m;
}

static inline void pmixds_geometry_destruct(pmix_geometry_t *m)
{
    size_t i;
    for (i = 0; m->coordinates != NULL && i < m->ncoords; i++) {
        pmixds_coord_destruct(&m->coordinates[i]);
    }
    free(m->coordinates);
    free(m->uuid);
    free(m->osname);
    memset(m, 0, sizeof(*m));
}

static inline void pmixds_distance_construct(pmix_device_distance_t *m)
{
    memset(m, 0, sizeof(*m));
    m->mindist = UINT16_MAX;
    m->maxdist = UINT16_MAX;
}

static inline pmix_device_distance_t *pmixds_distance_create(size_t n)
{
    size_t i;
    pmix_device_distance_t *m = (pmix_device_distance_t *) pmixds_create(n, sizeof(*m));
    for (i = 0; m != NULL && i < n; i++) {
        pmixds_distance_construct(&m[i]);
    }
    return m;
}

static inline void pmixds_distance_destruct(pmix_device_distance_t *m)
{
    pmixds_free_string(&m->uuid);
    pmixds_free_string(&m->osname);
}

static inline void pmixds_device_destruct(pmix_device_t *m)
{
    pmixds_free_string(&m->uuid);
    pmixds_free_string(&m->osname);
}

static inline void pmixds_byte_object_destruct(pmix_byte_object_t *m)
{
    pmixds_free_string(&m->bytes);
    m->size = 0;
}

static inline void pmixds_endpoint_destruct(pmix_endpoint_t *m)
{
    pmixds_free_string(&m->uuid);
    pmixds_free_string(&m->osname);
    pmixds_byte_object_destruct(&m->endpt);
}

static inline void pmixds_envar_destruct(pmix_envar_t *m)
{
    pmixds_free_string(&m->envar);
    pmixds_free_string(&m->value);
}

static inline void pmixds_data_buffer_destruct(pmix_data_buffer_t *m)
{
    free(m->base_ptr);
    memset(m, 0, sizeof(*m));
}

static inline void pmixds_proc_info_destruct(pmix_proc_info_t *m)
{
    pmixds_free_string(&m->hostname);
    pmixds_free_string(&m->executable_name);
}

static inline void pmixds_proc_stats_destruct(pmix_proc_stats_t *m)
{
    pmixds_free_string(&m->node);
    pmixds_free_string(&m->cmd);
}

static inline void pmixds_disk_stats_destruct(pmix_disk_stats_t *m) { pmixds_free_string(&m->disk); }

static inline void pmixds_net_stats_destruct(pmix_net_stats_t *m) { pmixds_free_string(&m->net_interface); }

static inline void pmixds_node_stats_destruct(pmix_node_stats_t *m)
{
    size_t i;
    pmixds_free_string(&m->node);
    for (i = 0; m->diskstats != NULL && i < m->ndiskstats; i++) {
        pmixds_disk_stats_destruct(&m->diskstats[i]);
    }
    for (i = 0; m->netstats != NULL && i < m->nnetstats; i++) {
        pmixds_net_stats_destruct(&m->netstats[i]);
    }
    free(m->diskstats);
    free(m->netstats);
    m->diskstats = NULL;
    m->netstats = NULL;
    m->ndiskstats = 0;
    m->nnetstats = 0;
}

static inline void pmixds_node_pid_destruct(pmix_node_pid_t *m) { pmixds_free_string(&m->hostname); }

static inline void pmixds_infos_free(pmix_info_t **infos, size_t *n)
{
    size_t i;
    for (i = 0; *infos != NULL && i < *n; i++) {
        pmixds_info_destruct(&(*infos)[i]);
    }
    free(*infos);
    *infos = NULL;
    *n = 0;
}

static inline void pmixds_pdata_destruct(pmix_pdata_t *m) { PMIx_Value_destruct(&m->value); }

static inline void pmixds_app_destruct(pmix_app_t *m)
{
    pmixds_free_string(&m->cmd);
    pmix_argv_free(m->argv);
    pmix_argv_free(m->env);
    m->argv = NULL;
    m->env = NULL;
    pmixds_free_string(&m->cwd);
    pmixds_infos_free(&m->info, &m->ninfo);
}

static inline void pmixds_query_destruct(pmix_query_t *m)
{
    pmix_argv_free(m->keys);
    m->keys = NULL;
    pmixds_infos_free(&m->qualifiers, &m->nqual);
}

static inline void pmixds_regattr_destruct(pmix_regattr_t *m)
{
    pmixds_free_string(&m->name);
    pmix_argv_free(m->description);
    m->description = NULL;
}

static inline void pmixds_regattr_xfer(pmix_regattr_t *dest, const pmix_regattr_t *src)
{
    memset(dest, 0, sizeof(*dest));
    dest->name = pmixds_copy_string(src->name);
    PMIX_LOAD_KEY(dest->string, src->string);
    dest->type = src->type;
    dest->description = pmix_argv_copy(src->description);
}

static inline void pmixds_proc_nothing(const pmix_proc_t *m) { (void) m; }

/* Destroys and frees an array of objects and forgets it. */
#define PMIXDS_FREE(destruct, m, n)                                \
    do {                                                           \
        size_t pmixds_i;                                           \
        if ((m) != NULL) {                                         \
            for (pmixds_i = 0; pmixds_i < (size_t) (n); pmixds_i++) { \
                destruct(&(m)[pmixds_i]);                          \
            }                                                      \
            free(m);                                               \
            (m) = NULL;                                            \
        }                                                          \
    } while (0)
#define PMIXDS_CREATE(type, m, n) (m) = (type *) pmixds_create((n), sizeof(type))
#define PMIXDS_CLEAR(type, m) memset((m), 0, sizeof(type))

#define PMIX_VALUE_FREE(m, n) PMIXDS_FREE(PMIx_Value_destruct, m, n)
#define PMIX_INFO_FREE(m, n) PMIXDS_FREE(pmixds_info_destruct, m, n)

/* Release 4.2.2 has these as functions, too. */
static inline void pmix_proc_stats_free(pmix_proc_stats_t *m, size_t n) { PMIXDS_FREE(pmixds_proc_stats_destruct, m, n); }
static inline void pmix_disk_stats_free(pmix_disk_stats_t *m, size_t n) { PMIXDS_FREE(pmixds_disk_stats_destruct, m, n); }
static inline void pmix_net_stats_free(pmix_net_stats_t *m, size_t n) { PMIXDS_FREE(pmixds_net_stats_destruct, m, n); }
static inline void pmix_node_stats_free(pmix_node_stats_t *m, size_t n) { PMIXDS_FREE(pmixds_node_stats_destruct, m, n); }
static inline void pmix_app_free(pmix_app_t *m, size_t n) { PMIXDS_FREE(pmixds_app_destruct, m, n); }
static inline void pmix_pdata_free(pmix_pdata_t *m, size_t n) { PMIXDS_FREE(pmixds_pdata_destruct, m, n); }

#define PMIX_COORD_CONSTRUCT(m) PMIXDS_CLEAR(pmix_coord_t, m)
#define PMIX_COORD_DESTRUCT(m) pmixds_coord_destruct(m)
#define PMIX_COORD_CREATE(m, n, d) (m) = pmixds_coord_create((n), (d))
#define PMIX_COORD_FREE(m, n) PMIXDS_FREE(pmixds_coord_destruct, m, n)

#define PMIX_CPUSET_CONSTRUCT(m) PMIXDS_CLEAR(pmix_cpuset_t, m)
#define PMIX_CPUSET_DESTRUCT(m) PMIx_Cpuset_destruct(m)
#define PMIX_CPUSET_CREATE(m, n) PMIXDS_CREATE(pmix_cpuset_t, m, n)
#define PMIX_CPUSET_FREE(m, n) PMIXDS_FREE(PMIx_Cpuset_destruct, m, n)

#define PMIX_GEOMETRY_CONSTRUCT(m) PMIXDS_CLEAR(pmix_geometry_t, m)
#define PMIX_GEOMETRY_DESTRUCT(m) pmixds_geometry_destruct(m)
#define PMIX_GEOMETRY_CREATE(m, n) PMIXDS_CREATE(pmix_geometry_t, m, n)
#define PMIX_GEOMETRY_FREE(m, n) PMIXDS_FREE(pmixds_geometry_destruct, m, n)

#define PMIX_DEVICE_CONSTRUCT(m) PMIXDS_CLEAR(pmix_device_t, m)
#define PMIX_DEVICE_DESTRUCT(m) pmixds_device_destruct(m)
#define PMIX_DEVICE_CREATE(m, n) PMIXDS_CREATE(pmix_device_t, m, n)
#define PMIX_DEVICE_FREE(m, n) PMIXDS_FREE(pmixds_device_destruct, m, n)

#define PMIX_BYTE_OBJECT_CONSTRUCT(m) PMIXDS_CLEAR(pmix_byte_object_t, m)
#define PMIX_BYTE_OBJECT_DESTRUCT(m) pmixds_byte_object_destruct(m)
#define PMIX_BYTE_OBJECT_CREATE(m, n) PMIXDS_CREATE(pmix_byte_object_t, m, n)
#define PMIX_BYTE_OBJECT_FREE(m, n) PMIXDS_FREE(pmixds_byte_object_destruct, m, n)

#define PMIX_ENDPOINT_CONSTRUCT(m) PMIXDS_CLEAR(pmix_endpoint_t, m)
#define PMIX_ENDPOINT_DESTRUCT(m) pmixds_endpoint_destruct(m)
#define PMIX_ENDPOINT_CREATE(m, n) PMIXDS_CREATE(pmix_endpoint_t, m, n)
#define PMIX_ENDPOINT_FREE(m, n) PMIXDS_FREE(pmixds_endpoint_destruct, m, n)

#define PMIX_ENVAR_CONSTRUCT(m) PMIXDS_CLEAR(pmix_envar_t, m)
#define PMIX_ENVAR_DESTRUCT(m) pmixds_envar_destruct(m)
#define PMIX_ENVAR_CREATE(m, n) PMIXDS_CREATE(pmix_envar_t, m, n)
#define PMIX_ENVAR_FREE(m, n) PMIXDS_FREE(pmixds_envar_destruct, m, n)

#define PMIX_PROC_CONSTRUCT(m) PMIXDS_CLEAR(pmix_proc_t, m)
#define PMIX_PROC_DESTRUCT(m) pmixds_proc_nothing(m)
#define PMIX_PROC_CREATE(m, n) PMIXDS_CREATE(pmix_proc_t, m, n)
#define PMIX_PROC_FREE(m, n) PMIXDS_FREE(pmixds_proc_nothing, m, n)
#define PMIX_PROC_RELEASE(m) PMIXDS_FREE(pmixds_proc_nothing, m, 1)

#define PMIX_PROC_INFO_CONSTRUCT(m) PMIXDS_CLEAR(pmix_proc_info_t, m)
#define PMIX_PROC_INFO_DESTRUCT(m) pmixds_proc_info_destruct(m)
#define PMIX_PROC_INFO_CREATE(m, n) PMIXDS_CREATE(pmix_proc_info_t, m, n)
#define PMIX_PROC_INFO_FREE(m, n) PMIXDS_FREE(pmixds_proc_info_destruct, m, n)
#define PMIX_PROC_INFO_RELEASE(m) PMIXDS_FREE(pmixds_proc_info_destruct, m, 1)

#define PMIX_PROC_STATS_CONSTRUCT(m) PMIXDS_CLEAR(pmix_proc_stats_t, m)
#define PMIX_PROC_STATS_DESTRUCT(m) pmixds_proc_stats_destruct(m)
#define PMIX_PROC_STATS_CREATE(m, n) PMIXDS_CREATE(pmix_proc_stats_t, m, n)
#define PMIX_PROC_STATS_FREE(m, n) PMIXDS_FREE(pmixds_proc_stats_destruct, m, n)
#define PMIX_PROC_STATS_RELEASE(m) PMIXDS_FREE(pmixds_proc_stats_destruct, m, 1)

#define PMIX_DISK_STATS_CONSTRUCT(m) PMIXDS_CLEAR(pmix_disk_stats_t, m)
#define PMIX_DISK_STATS_DESTRUCT(m) pmixds_disk_stats_destruct(m)
#define PMIX_DISK_STATS_CREATE(m, n) PMIXDS_CREATE(pmix_disk_stats_t, m, n)
#define PMIX_DISK_STATS_FREE(m, n) PMIXDS_FREE(pmixds_disk_stats_destruct, m, n)
#define PMIX_DISK_STATS_RELEASE(m) PMIXDS_FREE(pmixds_disk_stats_destruct, m, 1)

#define PMIX_NET_STATS_CONSTRUCT(m) PMIXDS_CLEAR(pmix_net_stats_t, m)
#define PMIX_NET_STATS_DESTRUCT(m) pmixds_net_stats_destruct(m)
#define PMIX_NET_STATS_CREATE(m, n) PMIXDS_CREATE(pmix_net_stats_t, m, n)
#define PMIX_NET_STATS_FREE(m, n) PMIXDS_FREE(pmixds_net_stats_destruct, m, n)
#define PMIX_NET_STATS_RELEASE(m) PMIXDS_FREE(pmixds_net_stats_destruct, m, 1)

#define PMIX_NODE_STATS_CONSTRUCT(m) PMIXDS_CLEAR(pmix_node_stats_t, m)
#define PMIX_NODE_STATS_DESTRUCT(m) pmixds_node_stats_destruct(m)
#define PMIX_NODE_STATS_CREATE(m, n) PMIXDS_CREATE(pmix_node_stats_t, m, n)
#define PMIX_NODE_STATS_FREE(m, n) PMIXDS_FREE(pmixds_node_stats_destruct, m, n)
#define PMIX_NODE_STATS_RELEASE(m) PMIXDS_FREE(pmixds_node_stats_destruct, m, 1)

#define PMIX_NODE_PID_CONSTRUCT(m) PMIXDS_CLEAR(pmix_node_pid_t, m)
#define PMIX_NODE_PID_DESTRUCT(m) pmixds_node_pid_destruct(m)
#define PMIX_NODE_PID_CREATE(m, n) PMIXDS_CREATE(pmix_node_pid_t, m, n)
#define PMIX_NODE_PID_FREE(m, n) PMIXDS_FREE(pmixds_node_pid_destruct, m, n)

#define PMIX_RESOURCE_UNIT_CONSTRUCT(m) PMIXDS_CLEAR(pmix_resource_unit_t, m)
#define PMIX_RESOURCE_UNIT_DESTRUCT(m) PMIXDS_CLEAR(pmix_resource_unit_t, m)
#define PMIX_RESOURCE_UNIT_CREATE(m, n) PMIXDS_CREATE(pmix_resource_unit_t, m, n)
#define PMIX_RESOURCE_UNIT_FREE(m, n) PMIXDS_FREE(PMIX_RESOURCE_UNIT_DESTRUCT, m, n)

#define PMIX_PDATA_CONSTRUCT(m) PMIXDS_CLEAR(pmix_pdata_t, m)
#define PMIX_PDATA_DESTRUCT(m) pmixds_pdata_destruct(m)
#define PMIX_PDATA_CREATE(m, n) PMIXDS_CREATE(pmix_pdata_t, m, n)
#define PMIX_PDATA_FREE(m, n) PMIXDS_FREE(pmixds_pdata_destruct, m, n)
#define PMIX_PDATA_RELEASE(m) PMIXDS_FREE(pmixds_pdata_destruct, m, 1)

#define PMIX_APP_CONSTRUCT(m) PMIXDS_CLEAR(pmix_app_t, m)
#define PMIX_APP_DESTRUCT(m) pmixds_app_destruct(m)
#define PMIX_APP_CREATE(m, n) PMIXDS_CREATE(pmix_app_t, m, n)
#define PMIX_APP_FREE(m, n) PMIXDS_FREE(pmixds_app_destruct, m, n)
#define PMIX_APP_RELEASE(m) PMIXDS_FREE(pmixds_app_destruct, m, 1)

#define PMIX_QUERY_CONSTRUCT(m) PMIXDS_CLEAR(pmix_query_t, m)
#define PMIX_QUERY_DESTRUCT(m) pmixds_query_destruct(m)
#define PMIX_QUERY_CREATE(m, n) PMIXDS_CREATE(pmix_query_t, m, n)
#define PMIX_QUERY_FREE(m, n) PMIXDS_FREE(pmixds_query_destruct, m, n)
#define PMIX_QUERY_RELEASE(m) PMIXDS_FREE(pmixds_query_destruct, m, 1)

#define PMIX_REGATTR_CONSTRUCT(m) PMIXDS_CLEAR(pmix_regattr_t, m)
#define PMIX_REGATTR_DESTRUCT(m) pmixds_regattr_destruct(m)
#define PMIX_REGATTR_CREATE(m, n) PMIXDS_CREATE(pmix_regattr_t, m, n)
#define PMIX_REGATTR_FREE(m, n) PMIXDS_FREE(pmixds_regattr_destruct, m, n)

#define PMIX_DEVICE_DIST_CONSTRUCT(m) pmixds_distance_construct(m)
#define PMIX_DEVICE_DIST_DESTRUCT(m) pmixds_distance_destruct(m)
#define PMIX_DEVICE_DIST_CREATE(m, n) (m) = pmixds_distance_create(n)
#define PMIX_DEVICE_DIST_FREE(m, n) PMIXDS_FREE(pmixds_distance_destruct, m, n)

#define PMIX_TOPOLOGY_CONSTRUCT(m) PMIXDS_CLEAR(pmix_topology_t, m)
#define PMIX_TOPOLOGY_CREATE(m, n) PMIXDS_CREATE(pmix_topology_t, m, n)
#define PMIX_TOPOLOGY_DESTRUCT(x) PMIx_Topology_destruct(x)
#define PMIX_TOPOLOGY_FREE(m, n) PMIXDS_FREE(PMIx_Topology_destruct, m, n)

#define PMIX_FABRIC_CONSTRUCT(x) PMIXDS_CLEAR(pmix_fabric_t, x)

#define PMIX_DATA_BUFFER_CONSTRUCT(m) PMIXDS_CLEAR(pmix_data_buffer_t, m)
#define PMIX_DATA_BUFFER_DESTRUCT(m) pmixds_data_buffer_destruct(m)
#define PMIX_DATA_BUFFER_CREATE(m) PMIXDS_CREATE(pmix_data_buffer_t, m, 1)
#define PMIX_DATA_BUFFER_RELEASE(m) PMIXDS_FREE(pmixds_data_buffer_destruct, m, 1)
#define PMIX_DATA_BUFFER_LOAD(b, d, s)                         \
    do {                                                       \
        pmix_byte_object_t pmixds_bo;                          \
        pmixds_bo.bytes = (char *) (d);                        \
        pmixds_bo.size = (s);                                  \
        PMIx_Data_load((b), &pmixds_bo);                       \
    } while (0)
#define PMIX_DATA_BUFFER_UNLOAD(b, d, s)                       \
    do {                                                       \
        pmix_byte_object_t pmixds_bo;                          \
        pmix_status_t pmixds_rc = PMIx_Data_unload((b), &pmixds_bo); \
        (d) = pmixds_rc == PMIX_SUCCESS ? pmixds_bo.bytes : NULL; \
        (s) = pmixds_rc == PMIX_SUCCESS ? pmixds_bo.size : 0;  \
    } while (0)

/* Hands bytes over. */
#define PMIX_BYTE_OBJECT_LOAD(b, d, s)   \
    do {                                 \
        (b)->bytes = (char *) (d);       \
        (d) = NULL;                      \
        (b)->size = (s);                 \
        (s) = 0;                         \
    } while (0)
#define PMIX_ENVAR_LOAD(m, e, v, s)                  \
    do {                                             \
        (m)->envar = pmixds_copy_string(e);          \
        (m)->value = pmixds_copy_string(v);          \
        (m)->separator = (s);                        \
    } while (0)
#define PMIX_PROC_LOAD(m, n, r)                      \
    do {                                             \
        PMIX_PROC_CONSTRUCT(m);                      \
        PMIX_LOAD_PROCID((m), (n), (r));             \
    } while (0)
#define PMIX_PDATA_LOAD(m, p, k, v, t)                          \
    do {                                                        \
        PMIX_PDATA_CONSTRUCT(m);                                \
        PMIX_LOAD_PROCID(&(m)->proc, (p)->nspace, (p)->rank);   \
        PMIX_LOAD_KEY((m)->key, (k));                           \
        PMIx_Value_load(&(m)->value, (v), (t));                 \
    } while (0)
#define PMIX_PDATA_XFER(d, s)                                                 \
    do {                                                                      \
        PMIX_PDATA_CONSTRUCT(d);                                              \
        PMIX_LOAD_PROCID(&(d)->proc, (s)->proc.nspace, (s)->proc.rank);       \
        PMIX_LOAD_KEY((d)->key, (s)->key);                                    \
        PMIx_Value_xfer(&(d)->value, &(s)->value);                            \
    } while (0)
#define PMIX_APP_INFO_CREATE(m, n)                   \
    do {                                             \
        (m)->ninfo = (n);                            \
        PMIX_INFO_CREATE((m)->info, (n));            \
    } while (0)
#define PMIX_QUERY_QUALIFIERS_CREATE(m, n)           \
    do {                                             \
        (m)->nqual = (n);                            \
        PMIX_INFO_CREATE((m)->qualifiers, (n));      \
    } while (0)
#define PMIX_REGATTR_LOAD(a, n, k, t, v)                                 \
    do {                                                                 \
        PMIX_REGATTR_CONSTRUCT(a);                                       \
        (a)->name = pmixds_copy_string(n);                               \
        PMIX_LOAD_KEY((a)->string, (k));                                 \
        (a)->type = (t);                                                 \
        if ((v) != NULL) {                                               \
            (void) pmix_argv_append_nosize(&(a)->description, (v));      \
        }                                                                \
    } while (0)
#define PMIX_REGATTR_XFER(a, b) pmixds_regattr_xfer((a), (b))

/* ---- arrays of one type ---- */

static inline size_t pmixds_element_size(pmix_data_type_t type)
{
    switch (type) {
    case PMIX_BOOL: return sizeof(bool);
    case PMIX_BYTE: case PMIX_INT8: case PMIX_UINT8: case PMIX_PERSIST: case PMIX_SCOPE: case PMIX_DATA_RANGE:
    case PMIX_PROC_STATE: case PMIX_JOB_STATE: case PMIX_LINK_STATE: case PMIX_ALLOC_DIRECTIVE: case PMIX_COMMAND:
        return sizeof(uint8_t);
    case PMIX_INT16: case PMIX_UINT16: case PMIX_DATA_TYPE: case PMIX_IOF_CHANNEL: case PMIX_LOCTYPE:
    case PMIX_STOR_ACCESS_TYPE:
        return sizeof(uint16_t);
    case PMIX_INT: case PMIX_UINT: case PMIX_INT32: case PMIX_UINT32: case PMIX_PID: case PMIX_FLOAT:
    case PMIX_STATUS: case PMIX_PROC_RANK: case PMIX_INFO_DIRECTIVES:
        return sizeof(uint32_t);
    case PMIX_SIZE: case PMIX_INT64: case PMIX_UINT64: case PMIX_DOUBLE: case PMIX_TIME: case PMIX_POINTER:
    case PMIX_DEVTYPE: case PMIX_STOR_MEDIUM: case PMIX_STOR_ACCESS: case PMIX_STOR_PERSIST: case PMIX_STRING:
        return sizeof(uint64_t);
    case PMIX_TIMEVAL: return sizeof(struct timeval);
    case PMIX_VALUE: return sizeof(pmix_value_t);
    case PMIX_PROC: return sizeof(pmix_proc_t);
    case PMIX_PROC_NSPACE: return sizeof(pmix_nspace_t);
    case PMIX_PROC_INFO: return sizeof(pmix_proc_info_t);
    case PMIX_APP: return sizeof(pmix_app_t);
    case PMIX_INFO: return sizeof(pmix_info_t);
    case PMIX_PDATA: return sizeof(pmix_pdata_t);
    case PMIX_QUERY: return sizeof(pmix_query_t);
    case PMIX_BYTE_OBJECT: case PMIX_COMPRESSED_STRING: case PMIX_COMPRESSED_BYTE_OBJECT:
        return sizeof(pmix_byte_object_t);
    case PMIX_ENVAR: return sizeof(pmix_envar_t);
    case PMIX_COORD: return sizeof(pmix_coord_t);
    case PMIX_REGATTR: return sizeof(pmix_regattr_t);
    case PMIX_PROC_CPUSET: return sizeof(pmix_cpuset_t);
    case PMIX_TOPO: return sizeof(pmix_topology_t);
    case PMIX_GEOMETRY: return sizeof(pmix_geometry_t);
    case PMIX_DEVICE_DIST: return sizeof(pmix_device_distance_t);
    case PMIX_ENDPOINT: return sizeof(pmix_endpoint_t);
    case PMIX_DEVICE: return sizeof(pmix_device_t);
    case PMIX_RESOURCE_UNIT: return sizeof(pmix_resource_unit_t);
    case PMIX_NODE_PID: return sizeof(pmix_node_pid_t);
    case PMIX_DATA_BUFFER: return sizeof(pmix_data_buffer_t);
    case PMIX_DATA_ARRAY: return sizeof(pmix_data_array_t);
    case PMIX_PROC_STATS: return sizeof(pmix_proc_stats_t);
    case PMIX_DISK_STATS: return sizeof(pmix_disk_stats_t);
    case PMIX_NET_STATS: return sizeof(pmix_net_stats_t);
    case PMIX_NODE_STATS: return sizeof(pmix_node_stats_t);
    default: return 0;
    }
}

static inline void pmixds_data_array_construct(pmix_data_array_t *m, size_t n, pmix_data_type_t type)
{
    size_t size = pmixds_element_size(type);
    m->type = type;
    m->array = size == 0 ? NULL : pmixds_create(n, size);
    m->size = m->array == NULL ? 0 : n;
}

#define PMIX_DATA_ARRAY_INIT(m, t)   \
    do {                             \
        (m)->type = (t);             \
        (m)->size = 0;               \
        (m)->array = NULL;           \
    } while (0)
#define PMIX_DATA_ARRAY_CONSTRUCT(m, n, t) pmixds_data_array_construct((m), (n), (t))
#define PMIX_DATA_ARRAY_DESTRUCT(m) PMIx_Data_array_destruct(m)
#define PMIX_DATA_ARRAY_CREATE(m, n, t)                             \
    do {                                                            \
        PMIXDS_CREATE(pmix_data_array_t, m, 1);                     \
        if ((m) != NULL) {                                          \
            PMIX_DATA_ARRAY_CONSTRUCT((m), (n), (t));               \
        }                                                           \
    } while (0)
#define PMIX_DATA_ARRAY_FREE(m) PMIXDS_FREE(PMIx_Data_array_destruct, m, 1)

/* ---- static initialisers ---- */

#define PMIX_COORD_STATIC_INIT { .view = 0, .coord = NULL, .dims = 0 }
#define PMIX_CPUSET_STATIC_INIT { .source = NULL, .bitmap = NULL }
#define PMIX_TOPOLOGY_STATIC_INIT { .source = NULL, .topology = NULL }
#define PMIX_GEOMETRY_STATIC_INIT { .fabric = 0, .uuid = NULL, .osname = NULL, .coordinates = NULL, .ncoords = 0 }
#define PMIX_DEVICE_STATIC_INIT { .uuid = NULL, .osname = NULL, .type = 0 }
#define PMIX_DEVICE_DIST_STATIC_INIT \
    { .uuid = NULL, .osname = NULL, .type = 0, .mindist = UINT16_MAX, .maxdist = UINT16_MAX }
#define PMIX_NODE_PID_STATIC_INIT { .hostname = NULL, .nodeid = 0, .pid = 0 }
#define PMIX_RESOURCE_UNIT_STATIC_INIT { .type = 0, .count = 0 }
#define PMIX_BYTE_OBJECT_STATIC_INIT { .bytes = NULL, .size = 0 }
#define PMIX_REGEX2_STATIC_INIT { .type = NULL, .bytes = NULL, .len = 0 }
#define PMIX_ENDPOINT_STATIC_INIT { .uuid = NULL, .osname = NULL, .endpt = PMIX_BYTE_OBJECT_STATIC_INIT }
#define PMIX_ENVAR_STATIC_INIT { .envar = NULL, .value = NULL, .separator = '\0' }
#define PMIX_DATA_BUFFER_STATIC_INIT \
    { .base_ptr = NULL, .pack_ptr = NULL, .unpack_ptr = NULL, .bytes_allocated = 0, .bytes_used = 0 }
#define PMIX_PROC_STATIC_INIT { .nspace = {0}, .rank = PMIX_RANK_UNDEF }
#define PMIX_PROC_INFO_STATIC_INIT \
    { .proc = PMIX_PROC_STATIC_INIT, .hostname = NULL, .executable_name = NULL, .pid = 0, .exit_code = 0, .state = 0 }
#define PMIX_DATA_ARRAY_STATIC_INIT { .type = PMIX_UNDEF, .size = 0, .array = NULL }
#define PMIX_VALUE_STATIC_INIT { .type = PMIX_UNDEF, .data = { .ptr = NULL } }
#define PMIX_INFO_STATIC_INIT { .key = {0}, .flags = 0, .value = PMIX_VALUE_STATIC_INIT }
#define PMIX_LOOKUP_STATIC_INIT { .proc = PMIX_PROC_STATIC_INIT, .key = {0}, .value = PMIX_VALUE_STATIC_INIT }
#define PMIX_APP_STATIC_INIT \
    { .cmd = NULL, .argv = NULL, .env = NULL, .cwd = NULL, .maxprocs = 0, .info = NULL, .ninfo = 0 }
#define PMIX_QUERY_STATIC_INIT { .keys = NULL, .qualifiers = NULL, .nqual = 0 }
#define PMIX_REGATTR_STATIC_INIT { .name = NULL, .string = {0}, .type = PMIX_UNDEF, .description = NULL }
#define PMIX_PROC_STATS_STATIC_INIT                                                                      \
    { .node = NULL, .proc = PMIX_PROC_STATIC_INIT, .pid = 0, .cmd = NULL, .state = '\0', .time = {0, 0}, \
      .percent_cpu = 0, .priority = 0, .num_threads = 0, .pss = 0, .vsize = 0, .rss = 0, .peak_vsize = 0, \
      .processor = 0, .sample_time = {0, 0} }
#define PMIX_DISK_STATS_STATIC_INIT                                                                        \
    { .disk = NULL, .num_reads_completed = 0, .num_reads_merged = 0, .num_sectors_read = 0,               \
      .milliseconds_reading = 0, .num_writes_completed = 0, .num_writes_merged = 0,                       \
      .num_sectors_written = 0, .milliseconds_writing = 0, .num_ios_in_progress = 0, .milliseconds_io = 0, \
      .weighted_milliseconds_io = 0 }
#define PMIX_NET_STATS_STATIC_INIT                                                                         \
    { .net_interface = NULL, .num_bytes_recvd = 0, .num_packets_recvd = 0, .num_recv_errs = 0,            \
      .num_bytes_sent = 0, .num_packets_sent = 0, .num_send_errs = 0 }
#define PMIX_NODE_STATS_STATIC_INIT                                                                        \
    { .node = NULL, .la = 0, .la5 = 0, .la15 = 0, .total_mem = 0, .free_mem = 0, .buffers = 0,            \
      .cached = 0, .swap_cached = 0, .swap_total = 0, .swap_free = 0, .mapped = 0, .sample_time = {0, 0}, \
      .diskstats = NULL, .ndiskstats = 0, .netstats = NULL, .nnetstats = 0 }
#define PMIX_FABRIC_STATIC_INIT { .name = NULL, .index = 0, .info = NULL, .ninfo = 0, .module = NULL }

#ifdef __cplusplus
}
#endif

#endif
