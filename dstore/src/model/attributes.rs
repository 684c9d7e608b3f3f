//! Attributes as typed constants: a key together with the type of its value.
//!
//! [`JOB_SIZE`] is `PMIX_JOB_SIZE`, whose values are of type `PMIX_UINT32` and are a `u32` here. [`keys`] has the keys alone.

use std::fmt;
use std::marker::PhantomData;

use super::{DataArray, DataType, Envar, Info, InfoFlags, Proc, Rank, Result, Status, Value, keys};

/// Whether a directive is one that must be honoured and of which nobody knows what it means: its key is that of no attribute. One
/// that qualifies a value may have any key.
pub fn is_unknown_and_required(key: &[u8], flags: u32) -> bool {
    const ASIDE: u32 = InfoFlags::REQUIRED | InfoFlags::REQUIRED_PROCESSED | InfoFlags::QUALIFIER;
    flags & ASIDE == InfoFlags::REQUIRED && !KEYS.split(|byte| *byte == 0).any(|known| known == key)
}

/// The keys of all attributes, each with a NUL behind it. A list of slices would have to be relocated in each process that loads the
/// library.
static KEYS: [u8; keys_len()] = {
    let mut text = [0; keys_len()];
    let (mut row, mut at) = (0, 0);
    while row < ALL.len() {
        let key = ALL[row].1.as_bytes();
        let (head, _) = text.split_at_mut(at + key.len());
        head.split_at_mut(at).1.copy_from_slice(key);
        (row, at) = (row + 1, at + key.len() + 1);
    }
    text
};

const fn keys_len() -> usize {
    let (mut row, mut len) = (0, 0);
    while row < ALL.len() {
        (row, len) = (row + 1, len + ALL[row].1.len() + 1);
    }
    len
}

/// Refuses directives that must be honoured and that nobody knows, for what the library does by itself: what goes to the host
/// the host refuses.
///
/// # Errors
/// `ERR_NOT_SUPPORTED`.
pub fn check_required(infos: &[Info]) -> Result<()> {
    let is_unknown = |info: &Info| is_unknown_and_required(info.key.as_bytes(), info.flags);
    if infos.iter().any(is_unknown) { Err(Status::ERR_NOT_SUPPORTED) } else { Ok(()) }
}

/// An attribute whose values are a `T`.
///
/// ```
/// use pmix_dstore::model::{Value, attributes};
///
/// let infos = [attributes::TIMEOUT.info(5), attributes::HOSTNAME.info("n1"), attributes::OPTIONAL.info(true)];
/// assert_eq!(infos[0].value, Value::Int(5));
/// assert_eq!(attributes::HOSTNAME.find(&infos).as_deref(), Some("n1"));
/// assert_eq!(attributes::JOB_SIZE.find(&infos), None);
/// ```
pub struct Attribute<T> {
    key: &'static str,
    data_type: DataType,
    values: PhantomData<fn() -> T>,
}

impl<T> Attribute<T> {
    const fn new(key: &'static str, data_type: DataType) -> Attribute<T> {
        Attribute { key, data_type, values: PhantomData }
    }

    /// Its key.
    pub const fn key(&self) -> &'static str {
        self.key
    }

    /// The type of its values.
    pub const fn data_type(&self) -> DataType {
        self.data_type
    }
}

impl<T: Typed> Attribute<T> {
    /// An info with this attribute and a value.
    pub fn info(&self, value: impl Into<T>) -> Info {
        Info::new(self.key, value.into().into_value(self.data_type))
    }

    /// What a value of this attribute says. Numbers of another width are taken if they fit, since hosts differ in that.
    pub fn read(&self, value: &Value) -> Option<T> {
        T::from_value(value)
    }

    /// What the first of these infos says that has this attribute.
    pub fn find(&self, infos: &[Info]) -> Option<T> {
        Info::find(infos, self.key).and_then(|value| self.read(value))
    }
}

impl<T> Clone for Attribute<T> {
    fn clone(&self) -> Attribute<T> {
        *self
    }
}

impl<T> Copy for Attribute<T> {}

impl<T> fmt::Debug for Attribute<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({:?})", self.key, self.data_type)
    }
}

/// What values of attributes are in Rust.
pub trait Typed: Sized {
    /// The value of type `data_type`.
    fn into_value(self, data_type: DataType) -> Value;

    /// What the value says, if it is one of these.
    fn from_value(value: &Value) -> Option<Self>;
}

/// Whole numbers, which several types of values hold.
macro_rules! whole_numbers {
    ($($ty:ty),+) => {$(
        impl Typed for $ty {
            fn into_value(self, data_type: DataType) -> Value {
                // The table below gives each type of values a Rust type of the same numbers.
                Value::from_scalar(data_type, self as u64).unwrap_or(Value::Undef)
            }

            fn from_value(value: &Value) -> Option<$ty> {
                match *value {
                    Value::Int(n) | Value::Int32(n) | Value::Pid(n) | Value::Status(Status(n)) => n.try_into().ok(),
                    Value::Int8(n) => n.try_into().ok(),
                    Value::Int16(n) => n.try_into().ok(),
                    Value::Int64(n) | Value::Time(n) => n.try_into().ok(),
                    _ => value.as_u64()?.try_into().ok(),
                }
            }
        }
    )+};
}

whole_numbers!(u8, u16, u32, u64, i32, i64);

/// Types that a variant holds as they are.
macro_rules! variants {
    ($($ty:ty: $variant:ident;)+) => {$(
        impl Typed for $ty {
            fn into_value(self, _: DataType) -> Value {
                Value::$variant(self)
            }

            fn from_value(value: &Value) -> Option<$ty> {
                if let Value::$variant(inner) = value { Some(inner.clone()) } else { None }
            }
        }
    )+};
}

variants! {
    f32: Float;
    f64: Double;
    Proc: Proc;
    Envar: Envar;
}

impl Typed for Vec<u8> {
    fn into_value(self, _: DataType) -> Value {
        Value::ByteObject(self.into())
    }

    fn from_value(value: &Value) -> Option<Vec<u8>> {
        if let Value::ByteObject(bytes) = value { Some(bytes.to_vec()) } else { None }
    }
}

impl Typed for DataArray {
    fn into_value(self, _: DataType) -> Value {
        Value::DataArray(Box::new(self))
    }

    fn from_value(value: &Value) -> Option<DataArray> {
        if let Value::DataArray(array) = value { Some((**array).clone()) } else { None }
    }
}

/// Types that only a value of the model holds.
impl Typed for Value {
    fn into_value(self, _: DataType) -> Value {
        self
    }

    fn from_value(value: &Value) -> Option<Value> {
        Some(value.clone())
    }
}

impl Typed for bool {
    fn into_value(self, _: DataType) -> Value {
        Value::Bool(self)
    }

    /// As [`Value::is_true`]: a directive without a value is meant.
    fn from_value(value: &Value) -> Option<bool> {
        Some(value.is_true())
    }
}

impl Typed for String {
    /// Up to its first NUL.
    fn into_value(self, _: DataType) -> Value {
        Value::string(self)
    }

    /// What is not UTF-8 is replaced; [`Value::as_text`] has the bytes.
    fn from_value(value: &Value) -> Option<String> {
        value.as_text().map(|text| String::from_utf8_lossy(text).into_owned())
    }
}

impl Typed for Rank {
    fn into_value(self, _: DataType) -> Value {
        Value::Rank(self)
    }

    fn from_value(value: &Value) -> Option<Rank> {
        u32::from_value(value).map(Rank)
    }
}

impl Typed for Status {
    fn into_value(self, _: DataType) -> Value {
        Value::Status(self)
    }

    fn from_value(value: &Value) -> Option<Status> {
        i32::from_value(value).map(Status)
    }
}

/// Writes the constants, and a list of them.
macro_rules! attributes {
    ($($ty:ty, $data_type:ident: $($name:ident),+;)+) => {
        $($(
            #[doc = concat!("`PMIX_", stringify!($name), "`, of type `PMIX_", stringify!($data_type), "`.")]
            pub const $name: Attribute<$ty> = Attribute::new(keys::$name, DataType::$data_type);
        )+)+

        /// The names of all of them with their keys and the types of their values.
        pub const ALL: &[(&str, &str, DataType)] =
            &[$($((concat!("PMIX_", stringify!($name)), keys::$name, DataType::$data_type)),+),+];
    };
}

attributes! {
    Value, POINTER:
        ATTR_UNDEF, EXTERNAL_AUX_EVENT_BASE, EVENT_RETURN_OBJECT, FABRIC_COST_MATRIX, EVENT_BASE, TOPOLOGY;
    bool, BOOL:
        EXTERNAL_PROGRESS, PROGRESS_THREAD_FLUSH, SERVER_TOOL_SUPPORT, SERVER_ALLOW_FOREIGN_TOOLS, ALLOW_CLIENT_CLONES,
        SERVER_REMOTE_CONNECTIONS, SERVER_SYSTEM_SUPPORT, SERVER_SESSION_SUPPORT, SERVER_SHARE_TOPOLOGY,
        SERVER_ENABLE_MONITORING, SERVER_GATEWAY, SERVER_SYS_CONTROLLER, SERVER_SCHEDULER, HOMOGENEOUS_SYSTEM,
        BIND_REQUIRED, CONNECT_TO_SYSTEM, CONNECT_SYSTEM_FIRST, CONNECT_TO_SCHEDULER, CONNECT_TO_SYS_CONTROLLER,
        TOOL_DO_NOT_CONNECT, TOOL_CONNECT_OPTIONAL, LAUNCHER, PRIMARY_SERVER, NOHUP, REQUESTOR_IS_TOOL,
        REQUESTOR_IS_CLIENT, TCP_DISABLE_IPV4, TCP_DISABLE_IPV6, SPAWNED, NODE_OVERSUBSCRIBED, TDIR_RMCLEAN,
        HOSTNAME_KEEP_FQDN, COLLECT_DATA, ALL_CLONES_PARTICIPATE, COLLECT_GENERATED_JOB_INFO, IMMEDIATE,
        NOTIFY_COMPLETION, OPTIONAL, GET_STATIC_VALUES, GET_POINTER_VALUES, EMBED_BARRIER, GET_REFRESH_CACHE,
        WAIT_FOR_CONNECTION, REGISTER_NODATA, SORTED_PROC_ARRAY, EVENT_HDLR_FIRST, EVENT_HDLR_LAST,
        EVENT_HDLR_FIRST_IN_CATEGORY, EVENT_HDLR_LAST_IN_CATEGORY, EVENT_HDLR_PREPEND, EVENT_HDLR_APPEND,
        EVENT_NON_DEFAULT, EVENT_DO_NOT_CACHE, EVENT_SILENT_TERMINATION, EVENT_ONESHOT, EVENT_STAYS_LOCAL,
        EVENT_TERMINATE_SESSION, EVENT_TERMINATE_JOB, EVENT_TERMINATE_NODE, EVENT_TERMINATE_PROC, WDIR_USER_SPECIFIED,
        DISPLAY_MAP, DISPLAY_MAP_DETAILED, DISPLAY_ALLOCATION, DISPLAY_PARSEABLE_OUTPUT, PRELOAD_BIN, DEBUGGER_DAEMONS,
        COSPAWN_APP, SET_SESSION_CWD, INDEX_ARGV, NO_PROCS_ON_HEAD, NO_OVERSUBSCRIBE, REPORT_BINDINGS,
        REPORT_PHYSICAL_CPUS, JOB_RECOVERABLE, JOB_CONTINUOUS, FWD_STDIN, FWD_STDOUT, FWD_STDERR, FWD_STDDIAG,
        SPAWN_TOOL, TIMEOUT_STACKTRACES, TIMEOUT_REPORT_STATE, NOTIFY_JOB_EVENTS, NOTIFY_PROC_TERMINATION,
        NOTIFY_PROC_ABNORMAL_TERMINATION, ENVARS_HARVESTED, ABORT_NON_ZERO_TERM, DO_NOT_LAUNCH, SHOW_LAUNCH_PROGRESS,
        AGGREGATE_HELP, REPORT_CHILD_SEP, SPAWN_CHILD_SEP, FWD_ENVIRONMENT, SPAWN_PTY, QUERY_REFRESH_CACHE,
        QUERY_LOCAL_ONLY, QUERY_REPORT_AVG, QUERY_REPORT_MINMAX, QUERY_SUPPORTED_QUALIFIERS, SESSION_INFO, JOB_INFO,
        APP_INFO, NODE_INFO, LOG_GENERATE_TIMESTAMP, LOG_TAG_OUTPUT, LOG_TIMESTAMP_OUTPUT, LOG_XML_OUTPUT, LOG_ONCE,
        LOG_AGG, LOG_GLOBAL_DATASTORE, LOG_JOB_RECORD, LOG_PROC_TERMINATION, LOG_PROC_ABNORMAL_TERMINATION,
        LOG_JOB_EVENTS, LOG_COMPLETION, ALLOC_RELEASABLE, ALLOC_PREEMPTIBLE, ALLOC_WAIT_ALL_NODES, ALLOC_SHARE,
        ALLOC_NOSHELL, ALLOC_NOT_WAITING, ALLOC_CHILD_SEP, GPU_SUPPORT, JOB_CTRL_PAUSE, JOB_CTRL_RESUME, JOB_CTRL_KILL,
        JOB_CTRL_CHECKPOINT_EVENT, JOB_CTRL_PREEMPTIBLE, JOB_CTRL_TERMINATE, CLEANUP_RECURSIVE, CLEANUP_EMPTY,
        CLEANUP_LEAVE_TOPDIR, JOB_CTRL_SEP, SESSION_INSTANTIATE, SESSION_PAUSE, SESSION_RESUME, SESSION_TERMINATE,
        SESSION_PREEMPT, SESSION_RESTORE, SESSION_SEP, SESSION_EXTEND, SESSION_COMPLETE, MONITOR_APP_CONTROL,
        MONITOR_HEARTBEAT, SEND_HEARTBEAT, MONITOR_FILE_SIZE, MONITOR_LOCAL_ONLY, IOF_DROP_OLDEST, IOF_DROP_NEWEST,
        IOF_COMPLETE, IOF_PUSH_STDIN, IOF_TAG_OUTPUT, IOF_TAG_DETAILED_OUTPUT, IOF_TAG_FULLNAME_OUTPUT, IOF_RANK_OUTPUT,
        IOF_TIMESTAMP_OUTPUT, IOF_MERGE_STDERR_STDOUT, IOF_XML_OUTPUT, IOF_FILE_PATTERN, IOF_FILE_ONLY, IOF_COPY,
        IOF_REDIRECT, IOF_LOCAL_OUTPUT, IOF_OUTPUT_RAW, IOF_INHERIT, SETUP_APP_ENVARS, SETUP_APP_NONENVARS,
        SETUP_APP_ALL, GROUP_LEADER, GROUP_OPTIONAL, GROUP_NOTIFY_TERMINATION, GROUP_FT_COLLECTIVE,
        GROUP_ASSIGN_CONTEXT_ID, GROUP_LOCAL_ONLY, RECONNECT_SERVER, USOCK_DISABLE, SINGLE_LISTENER, HWLOC_SHARE_TOPO,
        COLLECTIVE_ALGO_REQD, NON_PMI, EVENT_NO_TERMINATION, EVENT_WANT_TERMINATION, TAG_OUTPUT, TIMESTAMP_OUTPUT,
        MERGE_STDERR_STDOUT, OUTPUT_NOCOPY, IOF_STOP, NOTIFY_LAUNCH;
    String, STRING:
        PROGRESS_THREAD_NAME, SERVER_TMPDIR, SYSTEM_TMPDIR, SERVER_NSPACE, SERVER_START_TIME, SINGLETON,
        BIND_PROGRESS_THREAD, TOOL_NSPACE, CONNECTION_ORDER, SERVER_URI, MYSERVER_URI, SERVER_HOSTNAME,
        LAUNCHER_RENDEZVOUS_FILE, TOOL_ATTACHMENT_FILE, LAUNCHER_DAEMON, EXEC_AGENT, VERSION_INFO, PSET_NAME,
        PROGRAMMING_MODEL, MODEL_LIBRARY_NAME, MODEL_LIBRARY_VERSION, THREADING_MODEL, MODEL_CPU_TYPE, MODEL_PHASE_NAME,
        MODEL_PHASE_TYPE, MODEL_AFFINITY_POLICY, TCP_REPORT_URI, TCP_URI, TCP_IF_INCLUDE, TCP_IF_EXCLUDE, CPUSET,
        CREDENTIAL, TMPDIR, NSDIR, PROCDIR, CLUSTER_ID, NSPACE, JOBID, NODE_LIST, ALLOCATED_NODELIST, HOSTNAME,
        HOSTNAME_ALIASES, LOCAL_PEERS, LOCAL_CPUSETS, SPAWN_TREE_ROOT, LOCALITY_STRING, NODE_MAP, NODE_MAP_RAW,
        PROC_MAP, PROC_MAP_RAW, ANL_MAP, APP_MAP_TYPE, APP_MAP_REGEX, REQUIRED_KEY, EVENT_HDLR_NAME, EVENT_HDLR_BEFORE,
        EVENT_HDLR_AFTER, EVENT_TEXT_MESSAGE, PERSONALITY, HOST, HOSTFILE, ADD_HOST, ADD_HOSTFILE, PREFIX, WDIR,
        DISPLAY_TOPOLOGY, DISPLAY_PROCESSORS, PPR, MAPBY, RANKBY, BINDTO, PRELOAD_FILES, CPU_LIST, CMD_LINE,
        FORKEXEC_AGENT, APP_ARGV, RUNTIME_OPTIONS, QUERY_SUPPORTED_KEYS, QUERY_NAMESPACES, QUERY_QUEUE_LIST,
        QUERY_SPAWN_SUPPORT, QUERY_DEBUG_SUPPORT, QUERY_ALLOC_STATUS, QUERY_PSET_NAMES, CLIENT_FUNCTIONS,
        SERVER_FUNCTIONS, TOOL_FUNCTIONS, HOST_FUNCTIONS, QUERY_RESOLVE_NODE, QUERY_NODE_RESOURCE_USAGE,
        CLIENT_ATTRIBUTES, SERVER_ATTRIBUTES, HOST_ATTRIBUTES, TOOL_ATTRIBUTES, RESOURCE_BLOCK_NAME, LOG_STDERR,
        LOG_STDOUT, LOG_SYSLOG, LOG_LOCAL_SYSLOG, LOG_GLOBAL_SYSLOG, LOG_KEY, LOG_VAL, LOG_EMAIL_ADDR,
        LOG_EMAIL_SENDER_ADDR, LOG_EMAIL_SUBJECT, LOG_EMAIL_MSG, LOG_EMAIL_SERVER, BREAKPOINT, RM_NAME, RM_VERSION,
        UNSET_ENVAR, ALLOC_REQ_ID, ALLOC_ID, ALLOC_PROPERTY, ALLOC_NODE_LIST, ALLOC_EXCLUDE, ALLOC_NUM_CPU_LIST,
        ALLOC_CPU_LIST, ALLOC_FABRIC_ID, ALLOC_FABRIC_QOS, ALLOC_TIME, ALLOC_FABRIC_TYPE, ALLOC_FABRIC_PLANE,
        ALLOC_QUEUE, ALLOC_LEND, ALLOC_IMAGE, ALLOC_DEPENDENCY, ALLOC_BEGIN, ALLOC_RES_BLOCK, MEM_ALLOC_KIND,
        ALLOC_TARGET, JOB_CTRL_ID, JOB_CTRL_CANCEL, JOB_CTRL_RESTART, JOB_CTRL_CHECKPOINT, JOB_CTRL_PROVISION,
        JOB_CTRL_PROVISION_IMAGE, JOB_CTRL_DEFINE_PSET, REGISTER_CLEANUP, REGISTER_CLEANUP_DIR, CLEANUP_IGNORE,
        SESSION_CTRL_ID, SESSION_PROVISION_NODES, SESSION_PROVISION_IMAGE, MONITOR_ID, MONITOR_CANCEL, MONITOR_FILE,
        MONITOR_FILE_ACCESS, MONITOR_FILE_MODIFY, PROC_OS_STATE, DISK_ID, NETWORK_ID, CRED_TYPE, IOF_OUTPUT_TO_FILE,
        IOF_OUTPUT_TO_DIRECTORY, GROUP_ID, QUERY_STORAGE_LIST, STORAGE_ID, STORAGE_PATH, STORAGE_TYPE, STORAGE_VERSION,
        FABRIC_GROUPS, FABRIC_VENDOR, FABRIC_IDENTIFIER, FABRIC_DEVICE_VENDORID, FABRIC_PLANE, FABRIC_SWITCH,
        FABRIC_SHAPE_STRING, FABRIC_DEVICE_NAME, FABRIC_DEVICE_VENDOR, FABRIC_DEVICE_BUS_TYPE, FABRIC_DEVICE_DRIVER,
        FABRIC_DEVICE_FIRMWARE, FABRIC_DEVICE_ADDRESS, FABRIC_DEVICE_TYPE, FABRIC_DEVICE_PCI_DEVID, DEVICE_ID,
        ENUM_VALUE, QUERY_STABLE_ABI_VERSION, QUERY_PROVISIONAL_ABI_VERSION, DEBUG_JOB, ALLOC_NETWORK_ID,
        ALLOC_NETWORK_QOS, ALLOC_NETWORK_TYPE, ALLOC_NETWORK_PLANE, LOCAL_TOPO, TOPOLOGY_XML, TOPOLOGY_FILE,
        TOPOLOGY_SIGNATURE, HWLOC_SHMEM_FILE, HWLOC_XML_V1, HWLOC_XML_V2, HWLOC_HOLE_KIND, DSTPATH, COLLECTIVE_ALGO,
        MAPPER, PROC_URI, OUTPUT_TO_FILE, OUTPUT_TO_DIRECTORY, GDS_MODULE, BFROPS_MODULE;
    Rank, PROC_RANK:
        SERVER_RANK, RANK, GLOBAL_RANK, APP_RANK, NPROC_OFFSET, LOCALLDR, APPLDR;
    u32, UINT32:
        TOOL_RANK, CONNECT_MAX_RETRIES, CONNECT_RETRY_DELAY, REALUID, USERID, REALGID, GRPID, REINCARNATION, APPNUM,
        SESSION_ID, NODEID, SPAWN_TREE_ACTIVE, UNIV_SIZE, JOB_SIZE, JOB_NUM_APPS, APP_SIZE, LOCAL_SIZE, NODE_SIZE,
        MAX_PROCS, NUM_SLOTS, NUM_NODES, NUM_ALLOCATED_NODES, CPUS_PER_PROC, MAX_RESTARTS, TIME_REMAINING,
        QUERY_AVAILABLE_SLOTS, ALLOC_WARN_TIMEOUT, MONITOR_HEARTBEAT_TIME, MONITOR_HEARTBEAT_DROPS,
        MONITOR_FILE_CHECK_TIME, MONITOR_FILE_DROPS, MONITOR_RESOURCE_RATE, IOF_CACHE_SIZE, IOF_BUFFERING_SIZE,
        IOF_BUFFERING_TIME, FABRIC_DIMS, FABRIC_DEVICE_INDEX, VERSION_NUMERIC, SOCKET_MODE, ARCH;
    i32, PID:
        SERVER_PIDINFO, PROC_PID;
    DataArray, DATA_ARRAY:
        LAUNCH_DIRECTIVES, PSET_NAMES, PSET_MEMBERS, LOCAL_PROCS, ACCESS_PERMISSIONS, ACCESS_USERIDS, ACCESS_GRPIDS,
        QUALIFIED_VALUE, LOCAL_PARTICIPANTS, EVENT_CUSTOM_RANGE, EVENT_AFFECTED_PROCS, COLOCATE_PROCS,
        QUERY_NAMESPACE_INFO, QUERY_QUEUE_STATUS, QUERY_PROC_TABLE, QUERY_LOCAL_PROC_TABLE, QUERY_AUTHORIZATIONS,
        QUERY_MEMORY_USAGE, QUERY_ALLOCATION, QUERY_ALLOC_IDS, QUERY_ALLOC_PROPERTIES, QUERY_PSET_MEMBERSHIP,
        QUERY_GROUP_NAMES, QUERY_GROUP_MEMBERSHIP, QUERY_ATTRIBUTE_SUPPORT, QUERY_AVAIL_SERVERS, QUERY_QUALIFIERS,
        QUERY_RESULTS, QUERY_MIN_ALLOC_UNIT, QUERY_RES_BLOCKS, QUERY_RES_BLOCK_DEF, QUERY_DEVICES, QUERY_RESOLVE_PEERS,
        SESSION_INFO_ARRAY, JOB_INFO_ARRAY, APP_INFO_ARRAY, PROC_INFO_ARRAY, NODE_INFO_ARRAY, SERVER_INFO_ARRAY,
        LOG_EMAIL, ALLOC_FABRIC, ALLOC_MAU, JOB_CTRL_CHECKPOINT_METHOD, SESSION_RESOURCES, SESSION_JOB, SESSION_APP,
        MONITOR_TARGET_PROCS, MONITOR_TARGET_PIDS, MONITOR_TARGET_NODES, MONITOR_TARGET_NODEIDS, MONITOR_TARGET_DISKS,
        MONITOR_TARGET_NETS, MONITOR_PROC_RESOURCE_USAGE, MONITOR_NODE_RESOURCE_USAGE, MONITOR_DISK_RESOURCE_USAGE,
        MONITOR_NET_RESOURCE_USAGE, PROC_RESOURCE_USAGE, DISK_RESOURCE_USAGE, NETWORK_RESOURCE_USAGE,
        NODE_RESOURCE_USAGE, GROUP_MEMBERSHIP, GROUP_ENDPT_DATA, GROUP_NAMES, GROUP_INFO, GROUP_INFO_ARRAY,
        GROUP_ADD_MEMBERS, GROUP_FINAL_MEMBERSHIP_ORDER, FABRIC_COORDINATES, FABRIC_ENDPT, FABRIC_SHAPE, SWITCH_PEERS,
        FABRIC_DEVICE, FABRIC_DEVICES, DEVICE_DISTANCES, ALLOC_NETWORK, PROC_DATA, DEBUG_JOB_DIRECTIVES,
        DEBUG_APP_DIRECTIVES, SESSION_PROVISION;
    Proc, PROC:
        REQUESTOR, PROCID, PARENT_ID, EVENT_AFFECTED_PROC, EVENT_PROXY, STDIN_TGT, QUERY_PROC_RESOURCE_USAGE,
        LOG_SOURCE, DEBUG_TARGET, MONITOR_PROXY;
    u64, UINT64:
        MODEL_NUM_THREADS, MODEL_NUM_CPUS, AVAIL_PHYS_MEMORY, ALLOC_NUM_NODES, ALLOC_NUM_CPUS, ALLOC_NUM_BLOCKS,
        DISK_READ_COMPLETED, DISK_READ_MERGED, DISK_READ_SECTORS, DISK_READ_MILLISEC, DISK_WRITE_COMPLETED,
        DISK_WRITE_MERGED, DISK_WRITE_SECTORS, DISK_WRITE_MILLISEC, DISK_IO_IN_PROGRESS, DISK_IO_MILLISEC,
        DISK_IO_WEIGHTED, NET_RECVD_BYTES, NET_RECVD_PCKTS, NET_RECVD_ERRS, NET_SENT_BYTES, NET_SENT_PCKTS,
        NET_SENT_ERRS, STORAGE_CAPACITY_LIMIT, STORAGE_OBJECT_LIMIT, STORAGE_ACCESSIBILITY, STORAGE_MEDIUM,
        STORAGE_OBJECTS_USED, STORAGE_PERSISTENCE;
    i32, INT:
        TCP_IPV4_PORT, TCP_IPV6_PORT, EXIT_CODE, TOPOLOGY_INDEX, TIMEOUT, WAIT, EVENT_ACTION_TIMEOUT, JOB_TIMEOUT,
        SPAWN_TIMEOUT, SPAWN_TARGET, LOG_SYSLOG_PRI, DEBUG_STOP_ON_EXEC, DEBUG_STOP_IN_INIT, DEBUG_STOP_IN_APP,
        JOB_CTRL_CHECKPOINT_SIGNAL, JOB_CTRL_CHECKPOINT_TIMEOUT, JOB_CTRL_SIGNAL, SESSION_SIGNAL, MAX_VALUE, MIN_VALUE;
    Value, PROC_CPUSET:
        CPUSET_BITMAP;
    u16, UINT16:
        LOCAL_RANK, NODE_RANK, PACKAGE_RANK, COLOCATE_NPERPROC, COLOCATE_NPERNODE, DEBUG_DAEMONS_PER_PROC,
        DEBUG_DAEMONS_PER_NODE, PROC_NUM_THREADS, PROC_CPU, STORAGE_ACCESS_TYPE, LOCALITY;
    f32, FLOAT:
        DAEMON_MEMORY, CLIENT_AVG_MEMORY, ALLOC_MEM_SIZE, ALLOC_BANDWIDTH, PROC_PERCENT_CPU, PROC_PSS, PROC_VSIZE,
        PROC_RSS, PROC_PEAK_VSIZE, NODE_LOAD_AVG, NODE_LOAD_AVG5, NODE_LOAD_AVG15, NODE_MEM_TOTAL, NODE_MEM_FREE,
        NODE_MEM_BUFFERS, NODE_MEM_CACHED, NODE_MEM_SWAP_CACHED, NODE_SWAP_TOTAL, NODE_MEM_SWAP_FREE, NODE_MEM_MAPPED;
    Value, TOPO:
        TOPOLOGY2;
    u8, UINT8:
        RANGE, PERSISTENCE, DATA_SCOPE;
    Status, STATUS:
        JOB_TERM_STATUS, PROC_TERM_STATUS, LOCAL_COLLECTIVE_STATUS, QUERY_JOB_STATUS, ALLOC_STATUS;
    Value, PROC_STATE:
        PROC_STATE_STATUS;
    i64, TIME:
        EVENT_TIMESTAMP, LOG_TIMESTAMP, PROC_SAMPLE_TIME, DISK_SAMPLE_TIME, NET_SAMPLE_TIME, NODE_SAMPLE_TIME;
    Vec<u8>, BYTE_OBJECT:
        PTY_TERMIO, PTY_WSIZE, LOG_MSG, ALLOC_FABRIC_SEC_KEY, GROUP_JOB_INFO, CRYPTO_KEY, ALLOC_NETWORK_SEC_KEY,
        PROC_BLOB, MAP_BLOB, PNET_SETUP_APP;
    u64, SIZE:
        QUERY_NUM_PSETS, QUERY_NUM_GROUPS, ALLOC_FABRIC_ENDPTS, ALLOC_FABRIC_ENDPTS_NODE, GROUP_CONTEXT_ID,
        GROUP_LOCAL_CID, GROUP_BOOTSTRAP, FABRIC_INDEX, FABRIC_NUM_DEVICES, FABRIC_DEVICE_MTU, FABRIC_DEVICE_SPEED,
        ALLOC_NETWORK_ENDPTS, ALLOC_NETWORK_ENDPTS_NODE, HWLOC_SHMEM_ADDR, HWLOC_SHMEM_SIZE;
    i32, INT32:
        LOG_EMAIL_SRVR_PORT, PROC_PRIORITY;
    Envar, ENVAR:
        SET_ENVAR, ADD_ENVAR, PREPEND_ENVAR, APPEND_ENVAR, FIRST_ENVAR;
    Value, ALLOC_INHERIT:
        ALLOC_INHERITANCE;
    Value, TIMEVAL:
        PROC_TIME;
    f64, DOUBLE:
        STORAGE_BW_CUR, STORAGE_BW_MAX, STORAGE_CAPACITY_USED, STORAGE_IOPS_CUR, STORAGE_IOPS_MAX,
        STORAGE_MINIMAL_XFER_SIZE, STORAGE_SUGGESTED_XFER_SIZE;
    Value, GEOMETRY:
        FABRIC_DEVICE_COORDINATES;
    Value, LINK_STATE:
        FABRIC_DEVICE_STATE;
    Value, DEVTYPE:
        DEVICE_TYPE;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_the_type_of_their_attribute() {
        assert_eq!(TIMEOUT.info(3).value, Value::Int(3));
        assert_eq!(SERVER_PIDINFO.info(7).value, Value::Pid(7));
        assert_eq!(JOB_SIZE.info(4_u32).value, Value::Uint32(4));
        assert_eq!(GLOBAL_RANK.info(Rank(2)).value, Value::Rank(Rank(2)));
        assert_eq!(LOCAL_RANK.info(1_u16).value, Value::Uint16(1));
        assert_eq!(JOB_TERM_STATUS.info(Status::ERR_TIMEOUT).value, Value::Status(Status::ERR_TIMEOUT));
        for (name, key, data_type) in ALL {
            assert!(key.starts_with("pmix."), "{name}");
            assert_ne!(*data_type, DataType::UNDEF, "{name}");
        }
    }

    #[test]
    fn what_must_be_honoured_and_nobody_knows_is_refused() {
        let check = |key: &'static str, flags| check_required(&[Info { flags, ..Info::new(key, Value::Bool(true)) }]);
        let required = InfoFlags::REQUIRED;
        assert_eq!(check("pmix.nobody", required), Err(Status::ERR_NOT_SUPPORTED));
        for flags in [0, required | InfoFlags::REQUIRED_PROCESSED, required | InfoFlags::QUALIFIER] {
            assert_eq!(check("pmix.nobody", flags), Ok(()), "{flags}");
        }
        for (_, key, _) in ALL {
            assert_eq!(check(key, required), Ok(()), "{key}");
        }
        for part in ["", "pmix", "pmix.", "pmix.collec"] {
            assert_eq!(check(part, required).is_ok(), part.is_empty(), "{part}");
        }
    }

    #[test]
    fn numbers_of_another_width_are_read_if_they_fit() {
        assert_eq!(JOB_SIZE.read(&Value::Int(4)), Some(4));
        assert_eq!(JOB_SIZE.read(&Value::Int(-4)), None);
        assert_eq!(JOB_SIZE.read(&Value::Uint64(1 << 40)), None);
        assert_eq!(TIMEOUT.read(&Value::Int16(-2)), Some(-2));
        assert_eq!(TIMEOUT.read(&Value::string("5")), None);
        assert_eq!(GLOBAL_RANK.read(&Value::Uint32(5)), Some(Rank(5)));
        assert_eq!(OPTIONAL.read(&Value::Undef), Some(true));
        assert_eq!(HOSTNAME.read(&Value::string("n1")).as_deref(), Some("n1"));
    }
}
