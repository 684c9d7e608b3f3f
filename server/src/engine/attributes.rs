//! The supported functions, and the attributes of each.
//!
//! The library declares its own attributes here; the host registers its attributes. Attributes that only the host supports are passed
//! on in any function, and are not listed here.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{CStr, CString};

use pmix_dstore::model::attributes::{self as all, is_unknown_and_required};
use pmix_dstore::model::{DataArray, DataType, Info, Key, Regattr, Result, Status, Value, keys};
use pmix_dstore::texts;

use super::Engine;

/// The host's registered attributes, by function.
pub(super) type HostAttributes = BTreeMap<CString, Vec<Regattr>>;

impl Engine {
    /// Refuses required directives that neither the library nor the host has declared as supported.
    ///
    /// # Errors
    /// `ERR_NOT_SUPPORTED`.
    pub(super) fn check_required(&self, infos: &[Info]) -> Result<()> {
        let is_of_host = |info: &Info| self.host_attributes.values().flatten().any(|known| known.key == info.key);
        let is_unknown = |info: &Info| is_unknown_and_required(info.key.as_bytes(), info.flags) && !is_of_host(info);
        if infos.iter().any(is_unknown) { Err(Status::ERR_NOT_SUPPORTED) } else { Ok(()) }
    }
}

/// The functions of clients, servers and tools with their attributes, packed.
static OF_CLIENTS: [u8; packed_len(CLIENT)] = pack(CLIENT);
static OF_SERVERS: [u8; packed_len(SERVER)] = pack(SERVER);
static OF_TOOLS: [u8; packed_len(TOOL)] = pack(TOOL);

/// Name, key and type.
type Attribute = (&'static str, &'static str, DataType);
/// Names, and the attributes that each function reads in this library; the host declares further ones.
type Functions = &'static [(&'static str, &'static [&'static [Attribute]])];

macro_rules! attributes {
    ($($name:ident),* $(,)?) => {
        &[$((concat!("PMIX_", stringify!($name)), all::$name.key(), all::$name.data_type())),*]
    };
}

macro_rules! functions {
    ($($function:ident: [$($name:ident),*] $(+ $more:ident)*,)*) => {
        &[$((stringify!($function), &[attributes![$($name),*] $(, $more)*])),*]
    };
}

/// The length of these functions when they are packed.
const fn packed_len(functions: Functions) -> usize {
    pack_into(functions, None)
}

/// Functions and attributes as one text, without pointers that each process would have to relocate ([`texts`]). Each text ends with a
/// NUL. After a function's name come the name, and the type's number with the key, of each attribute; an empty text ends them.
const fn pack<const LEN: usize>(functions: Functions) -> [u8; LEN] {
    let mut packed = [0; LEN];
    pack_into(functions, Some(&mut packed));
    packed
}

/// Packs these functions, or measures them only; returns the length.
const fn pack_into(functions: Functions, mut packed: Option<&mut [u8]>) -> usize {
    let (mut at, mut function) = (0, 0);
    while function < functions.len() {
        let (name, groups) = functions[function];
        at = put(&mut packed, at, name);
        let mut group = 0;
        while group < groups.len() {
            let mut attribute = 0;
            while attribute < groups[group].len() {
                let (name, key, ty) = groups[group][attribute];
                assert!(0 < ty.0 && ty.0 < 256, "the number of a type is one byte, and not the NUL");
                at = put(&mut packed, at, name);
                if let Some(packed) = &mut packed {
                    packed[at] = ty.0 as u8;
                }
                at = put(&mut packed, at + 1, key);
                attribute += 1;
            }
            group += 1;
        }
        at = put(&mut packed, at, "");
        function += 1;
    }
    at
}

const fn put(packed: &mut Option<&mut [u8]>, at: usize, text: &str) -> usize {
    match packed {
        Some(packed) => texts::append(packed, at, text),
        None => at + texts::len_of(text),
    }
}

/// The format of output that the library writes.
const WRITING: &[Attribute] = attributes![
    IOF_TAG_OUTPUT,
    IOF_TAG_DETAILED_OUTPUT,
    IOF_TAG_FULLNAME_OUTPUT,
    IOF_RANK_OUTPUT,
    IOF_TIMESTAMP_OUTPUT,
    IOF_XML_OUTPUT,
    IOF_OUTPUT_RAW,
    IOF_MERGE_STDERR_STDOUT,
    IOF_OUTPUT_TO_FILE,
    IOF_OUTPUT_TO_DIRECTORY,
    IOF_FILE_PATTERN,
    IOF_FILE_ONLY,
    IOF_LOCAL_OUTPUT,
    TAG_OUTPUT,
    TIMESTAMP_OUTPUT,
    MERGE_STDERR_STDOUT,
    OUTPUT_TO_FILE,
    OUTPUT_TO_DIRECTORY,
    OUTPUT_NOCOPY,
];

/// Access to other users' jobs.
const ACCESS: &[Attribute] = attributes![ACCESS_PERMISSIONS, ACCESS_USERIDS, ACCESS_GRPIDS];

/// The server that a tool selects.
const WANTED: &[Attribute] = attributes![
    TCP_URI,
    SERVER_URI,
    TCP_URI,
    TOOL_ATTACHMENT_FILE,
    SERVER_PIDINFO,
    SERVER_NSPACE,
    CONNECT_TO_SYSTEM,
    CONNECT_SYSTEM_FIRST,
    CONNECT_TO_SCHEDULER,
    CONNECT_MAX_RETRIES,
    CONNECT_RETRY_DELAY,
    TOOL_DO_NOT_CONNECT,
    TOOL_CONNECT_OPTIONAL,
    SYSTEM_TMPDIR,
    SERVER_TMPDIR,
    TIMEOUT,
];

/// The qualifiers of [`QUERIES`].
const QUALIFIERS: &[Attribute] = attributes![
    NSPACE,
    RANK,
    PROCID,
    SESSION_INFO,
    SESSION_ID,
    JOB_INFO,
    APP_INFO,
    APPNUM,
    NODE_INFO,
    NODEID,
    HOSTNAME,
    PSET_NAME,
    GROUP_ID,
    QUERY_LOCAL_ONLY,
    QUERY_REPORT_AVG,
    TIMEOUT,
    CLIENT_FUNCTIONS,
    CLIENT_ATTRIBUTES,
    SERVER_FUNCTIONS,
    SERVER_ATTRIBUTES,
    TOOL_FUNCTIONS,
    TOOL_ATTRIBUTES,
    HOST_FUNCTIONS,
    HOST_ATTRIBUTES,
];

const CLIENT: Functions = functions! {
    PMIx_Init: [
        SERVER_URI, TIMEOUT, PROGRAMMING_MODEL, MODEL_LIBRARY_NAME, MODEL_LIBRARY_VERSION, THREADING_MODEL, EXTERNAL_PROGRESS
    ],
    PMIx_Finalize: [EMBED_BARRIER],
    PMIx_Abort: [],
    PMIx_Put: [],
    PMIx_Commit: [],
    PMIx_Store_internal: [],
    PMIx_Get: [
        OPTIONAL, IMMEDIATE, TIMEOUT, GET_REFRESH_CACHE, GET_POINTER_VALUES, GET_STATIC_VALUES, DATA_SCOPE, SESSION_INFO,
        SESSION_ID, JOB_INFO, APP_INFO, APPNUM, NODE_INFO, NODEID, HOSTNAME
    ],
    PMIx_Fence: [COLLECT_DATA, TIMEOUT, CONNECT_ID, CONNECT_OPTIONAL, CONNECT_EARLY_TERM_ALLOWED],
    PMIx_Publish: [TIMEOUT],
    PMIx_Lookup: [TIMEOUT],
    PMIx_Unpublish: [TIMEOUT],
    PMIx_Spawn: [TIMEOUT, FWD_STDOUT, FWD_STDERR, FWD_STDDIAG] + WRITING,
    PMIx_Connect: [
        TIMEOUT, CONNECT_ID, CONNECT_NOTIFY_EACH, CONNECT_NOTIFY_REQ, CONNECT_OPTIONAL, CONNECT_XCHG_ONLY,
        CONNECT_EARLY_TERM_ALLOWED
    ],
    PMIx_Disconnect: [TIMEOUT, CONNECT_ID, CONNECT_NOTIFY_EACH],
    PMIx_Resolve_peers: [],
    PMIx_Resolve_nodes: [],
    PMIx_Register_event_handler: [
        EVENT_HDLR_NAME, EVENT_HDLR_FIRST, EVENT_HDLR_LAST, EVENT_HDLR_FIRST_IN_CATEGORY, EVENT_HDLR_LAST_IN_CATEGORY,
        EVENT_HDLR_PREPEND, EVENT_HDLR_APPEND, EVENT_HDLR_BEFORE, EVENT_HDLR_AFTER, EVENT_RETURN_OBJECT, EVENT_ONESHOT,
        EVENT_AFFECTED_PROC, EVENT_AFFECTED_PROCS, EVENT_CUSTOM_RANGE, RANGE
    ],
    PMIx_Deregister_event_handler: [],
    PMIx_Notify_event: [
        EVENT_NON_DEFAULT, EVENT_CUSTOM_RANGE, EVENT_AFFECTED_PROC, EVENT_AFFECTED_PROCS, EVENT_DO_NOT_CACHE
    ],
    PMIx_Query_info: [] + QUALIFIERS,
    PMIx_Log: [TIMEOUT, LOG_GENERATE_TIMESTAMP],
    PMIx_Allocation_request: [TIMEOUT],
    PMIx_Job_control: [
        TIMEOUT, REGISTER_CLEANUP, REGISTER_CLEANUP_DIR, CLEANUP_RECURSIVE, CLEANUP_IGNORE, CLEANUP_LEAVE_TOPDIR
    ],
    PMIx_Process_monitor: [
        TIMEOUT, RANGE, SEND_HEARTBEAT, MONITOR_ID, MONITOR_CANCEL, MONITOR_HEARTBEAT, MONITOR_HEARTBEAT_TIME,
        MONITOR_HEARTBEAT_DROPS, MONITOR_FILE, MONITOR_FILE_SIZE, MONITOR_FILE_ACCESS, MONITOR_FILE_MODIFY,
        MONITOR_FILE_CHECK_TIME, MONITOR_FILE_DROPS, MONITOR_PROC_RESOURCE_USAGE, MONITOR_NODE_RESOURCE_USAGE,
        MONITOR_DISK_RESOURCE_USAGE, MONITOR_NET_RESOURCE_USAGE, MONITOR_RESOURCE_RATE, MONITOR_TARGET_PROCS,
        MONITOR_TARGET_PIDS, MONITOR_TARGET_NODES, MONITOR_TARGET_NODEIDS, MONITOR_TARGET_DISKS, MONITOR_TARGET_NETS
    ],
    PMIx_Fabric_register: [TIMEOUT],
    PMIx_Session_control: [TIMEOUT],
    PMIx_Resource_block: [TIMEOUT],
    PMIx_Heartbeat: [],
    PMIx_Get_credential: [TIMEOUT],
    PMIx_Validate_credential: [TIMEOUT],
    PMIx_Group_construct: [
        TIMEOUT, GROUP_LOCAL_ONLY, GROUP_ASSIGN_CONTEXT_ID, GROUP_NOTIFY_TERMINATION, GROUP_FT_COLLECTIVE,
        GROUP_BOOTSTRAP, GROUP_ADD_MEMBERS, GROUP_INFO
    ],
    PMIx_Group_destruct: [TIMEOUT],
    PMIx_Group_invite: [TIMEOUT, GROUP_OPTIONAL, GROUP_ASSIGN_CONTEXT_ID],
    PMIx_Group_join: [TIMEOUT],
    PMIx_Group_leave: [TIMEOUT],
    PMIx_IOF_pull: [
        IOF_CACHE_SIZE, IOF_DROP_OLDEST, IOF_DROP_NEWEST, IOF_BUFFERING_SIZE, IOF_BUFFERING_TIME
    ] + WRITING,
    PMIx_IOF_deregister: [],
    PMIx_IOF_push: [IOF_PUSH_STDIN, IOF_COMPLETE],
    PMIx_Load_topology: [],
    PMIx_Get_cpuset: [],
    PMIx_Get_relative_locality: [],
    PMIx_Parse_cpuset_string: [],
    PMIx_Compute_distances: [DEVICE_TYPE, DEVICE_ID],
};

const SERVER: Functions = functions! {
    PMIx_server_init: [
        SERVER_NSPACE, SERVER_RANK, HOSTNAME, SERVER_TMPDIR, SYSTEM_TMPDIR, SERVER_TOOL_SUPPORT, SERVER_SYSTEM_SUPPORT,
        SERVER_SESSION_SUPPORT, SERVER_SCHEDULER, SINGLETON, SERVER_ALLOW_FOREIGN_TOOLS, SERVER_GATEWAY, LAUNCHER_RENDEZVOUS_FILE,
        TCP_REPORT_URI,
        TCP_IPV4_PORT, SOCKET_MODE, DSTORE_RESTART, SERVER_SHARE_TOPOLOGY, TOPOLOGY, TOPOLOGY2
    ] + ACCESS + WRITING,
    PMIx_server_finalize: [],
    PMIx_server_register_nspace: [
        REGISTER_NODATA, SESSION_INFO_ARRAY, JOB_INFO_ARRAY, APP_INFO_ARRAY, NODE_INFO_ARRAY, PROC_INFO_ARRAY, USERID
    ] + ACCESS,
    PMIx_server_deregister_nspace: [],
    PMIx_server_register_client: [],
    PMIx_server_deregister_client: [],
    PMIx_server_register_resources: [],
    PMIx_server_deregister_resources: [],
    PMIx_server_register_session: [],
    PMIx_server_deregister_session: [],
    PMIx_server_setup_fork: [],
    PMIx_server_dmodex_request: [],
    PMIx_server_setup_application: [SETUP_APP_ENVARS, SETUP_APP_ALL, PROGRAMMING_MODEL, PERSONALITY],
    PMIx_server_setup_local_support: [],
    PMIx_server_collect_inventory: [],
    PMIx_server_deliver_inventory: [],
    PMIx_server_collect_job_info: [],
    PMIx_server_define_process_set: [],
    PMIx_server_delete_process_set: [],
    PMIx_generate_regex2: [],
    PMIx_parse_regex2: [],
    PMIx_server_generate_cpuset_string: [],
    PMIx_server_generate_locality_string: [],
    PMIx_server_IOF_deliver: [],
    PMIx_server_IOF_flow_control: [],
    PMIx_Register_attributes: [],
};

const TOOL: Functions = functions! {
    PMIx_tool_init: [
        TOOL_NSPACE, TOOL_RANK, LAUNCHER, EXTERNAL_PROGRESS, SERVER_TOOL_SUPPORT, SERVER_SESSION_SUPPORT, SERVER_SYSTEM_SUPPORT, TCP_REPORT_URI
    ] + WANTED + WRITING,
    PMIx_tool_finalize: [],
    PMIx_tool_attach_to_server: [PRIMARY_SERVER] + WANTED,
    PMIx_tool_connect_to_server: [PRIMARY_SERVER] + WANTED,
    PMIx_tool_disconnect: [],
    PMIx_tool_is_connected: [],
    PMIx_tool_get_servers: [],
    PMIx_tool_set_server: [WAIT_FOR_CONNECTION, TIMEOUT],
    PMIx_tool_set_server_module: [],
};

/// The keys of queries that are answered without the host.
const QUERIES: [&str; 20] = [
    keys::QUERY_SUPPORTED_KEYS,
    keys::QUERY_SUPPORTED_QUALIFIERS,
    keys::QUERY_ATTRIBUTE_SUPPORT,
    keys::QUERY_NAMESPACES,
    keys::QUERY_NAMESPACE_INFO,
    keys::QUERY_JOB_STATUS,
    keys::QUERY_PROC_TABLE,
    keys::QUERY_LOCAL_PROC_TABLE,
    keys::QUERY_NUM_PSETS,
    keys::QUERY_PSET_NAMES,
    keys::QUERY_PSET_MEMBERSHIP,
    keys::QUERY_NUM_GROUPS,
    keys::QUERY_GROUP_NAMES,
    keys::QUERY_GROUP_MEMBERSHIP,
    keys::QUERY_MEMORY_USAGE,
    keys::QUERY_SPAWN_SUPPORT,
    keys::QUERY_DEBUG_SUPPORT,
    keys::QUERY_AVAIL_SERVERS,
    keys::QUERY_RESOLVE_PEERS,
    keys::QUERY_RESOLVE_NODE,
];

/// The library's answer about supported keys and qualifiers, if the host gives none.
pub(super) fn supported(key: &str) -> Option<Value> {
    match key {
        keys::QUERY_SUPPORTED_KEYS => Some(list(QUERIES.iter().map(|key| key.as_bytes()))),
        keys::QUERY_SUPPORTED_QUALIFIERS => own(&OF_CLIENTS)
            .get(c"PMIx_Query_info")
            .map(|qualifiers| list(qualifiers.iter().map(|qualifier| qualifier.key.as_bytes()))),
        _ => None,
    }
}

/// The attributes that a spawn may have.
pub(super) fn of_spawn(host: &HostAttributes) -> Value {
    keys_in_use(host, |function, _| function == c"PMIx_Spawn")
}

/// The attributes for debuggers, of all functions.
pub(super) fn of_debuggers(host: &HostAttributes) -> Value {
    keys_in_use(host, |_, key| key.starts_with(b"pmix.dbg."))
}

/// The keys of the attributes of the library and the host, each once.
fn keys_in_use(host: &HostAttributes, is_wanted: impl Fn(&CStr, &[u8]) -> bool) -> Value {
    let tables = [own(&OF_CLIENTS), own(&OF_SERVERS), own(&OF_TOOLS)];
    let all = tables.iter().chain([host]).flatten();
    let wanted = all.flat_map(|(name, attributes)| {
        attributes.iter().map(|attribute| attribute.key.as_bytes()).filter(|key| is_wanted(name, key))
    });
    list(wanted.collect::<BTreeSet<_>>().into_iter())
}

/// Unpacks what [`pack`] made.
fn own(packed: &[u8]) -> HostAttributes {
    let mut functions = HostAttributes::new();
    let mut texts = packed.split(|byte| *byte == 0);
    let mut next = || texts.next().filter(|text| !text.is_empty());
    while let Some(function) = next() {
        let mut attributes = Vec::new();
        while let Some(name) = next() {
            let Some([ty, key @ ..]) = next() else { break };
            attributes.extend(Key::new(key).ok().map(|key| Regattr {
                name: CString::new(name).ok(),
                key,
                ty: DataType(u16::from(*ty)),
                description: Vec::new(),
            }));
        }
        functions.extend(CString::new(function).ok().map(|name| (name, attributes)));
    }
    functions
}

/// The answer to a query for supported attributes; `None` if only the host can answer.
///
/// Without qualifiers the answer contains everything. A qualifier selects the functions of clients, servers, tools or the host, or
/// the attributes of the functions in its text, or of all of them.
pub(super) fn support(qualifiers: &[Info], host: &HostAttributes) -> Option<Value> {
    let whose = [
        (keys::CLIENT_FUNCTIONS, keys::CLIENT_ATTRIBUTES, own(&OF_CLIENTS)),
        (keys::SERVER_FUNCTIONS, keys::SERVER_ATTRIBUTES, own(&OF_SERVERS)),
        (keys::TOOL_FUNCTIONS, keys::TOOL_ATTRIBUTES, own(&OF_TOOLS)),
        (keys::HOST_FUNCTIONS, keys::HOST_ATTRIBUTES, host.clone()),
    ];
    let mut infos = Vec::new();
    for (functions, attributes, table) in whose.iter().filter(|(_, _, table)| !table.is_empty()) {
        let asked = |key: &str| qualifiers.iter().find(|info| info.key.is(key));
        if qualifiers.is_empty() || asked(functions).is_some() {
            infos.push(Info::new(*functions, list(table.keys().map(|name| name.as_bytes()))));
        }
        let Some(wanted) = asked(attributes).map(|info| info.value.as_text()).or(qualifiers.is_empty().then_some(None))
        else {
            continue;
        };
        let is_wanted = |name: &CString| {
            let mut names = wanted.into_iter().flat_map(|text| text.split(|byte| *byte == b','));
            wanted.is_none() || names.any(|one| one == name.as_bytes() || one == b"all")
        };
        for (name, attributes) in table.iter().filter(|(name, _)| is_wanted(name)) {
            let items = attributes.iter().map(|attribute| Value::Regattr(Box::new(attribute.clone()))).collect();
            let value = Value::DataArray(Box::new(DataArray { ty: DataType::REGATTR, items }));
            infos.extend(Key::new(name.as_bytes()).ok().map(|key| Info { key, flags: 0, value }));
        }
    }
    (!infos.is_empty()).then(|| Value::infos(infos))
}

/// Names, with commas between them.
pub(super) fn list<'a>(names: impl Iterator<Item = &'a [u8]>) -> Value {
    Value::string(names.collect::<Vec<_>>().join(&b','))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    /// Reads the part of a source file before its tests.
    fn source(file: &str) -> String {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(file);
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{file}: {error}"));
        text.split("\n#[cfg(test)]").next().unwrap_or_default().to_owned()
    }

    /// The constants of keys that a source names.
    fn keys_in(source: &str) -> BTreeSet<String> {
        let is_of_name = |letter: char| letter.is_ascii_uppercase() || letter.is_ascii_digit() || letter == '_';
        // A Get's directives have constants of their own, which end in NUL.
        let uses = ["keys::", "name::"].into_iter().flat_map(|module| source.split(module).skip(1));
        let names = uses.map(|rest| rest.split(|letter| !is_of_name(letter)).next());
        names.flatten().filter(|name| !name.is_empty()).map(|name| format!("PMIX_{name}")).collect()
    }

    fn functions() -> impl Iterator<Item = &'static (&'static str, &'static [&'static [Attribute]])> {
        CLIENT.iter().chain(SERVER).chain(TOOL)
    }

    /// The names of a function's attributes.
    fn attributes_of(function: &str) -> BTreeSet<String> {
        let (_, attributes) = functions().find(|(name, _)| *name == function).expect(function);
        attributes.iter().copied().flatten().map(|(name, ..)| (*name).to_owned()).collect()
    }

    #[test]
    fn packed_functions_have_the_attributes_of_their_tables() {
        for (functions, packed) in [(CLIENT, &OF_CLIENTS[..]), (SERVER, &OF_SERVERS), (TOOL, &OF_TOOLS)] {
            let own = own(packed);
            assert_eq!(own.len(), functions.len());
            for (name, groups) in functions {
                let table = groups.iter().copied().flatten();
                let table: Vec<_> = table.map(|(name, key, ty)| (name.as_bytes(), key.as_bytes(), *ty)).collect();
                let unpacked = own[&CString::new(*name).expect("a name")].iter();
                let unpacked: Vec<_> = unpacked
                    .map(|attribute| (attribute.name.as_ref().map_or(&b""[..], |name| name.as_bytes()), attribute))
                    .map(|(name, attribute)| (name, attribute.key.as_bytes(), attribute.ty))
                    .collect();
                assert_eq!(unpacked, table, "{name}");
            }
        }
    }

    /// The files in which functions read their attributes, and the keys there that are not read: keys that are written, looked up or
    /// refused.
    const READERS: &[(&str, &[&str], &[&str])] = &[
        ("client/src/get_options.rs", &["PMIx_Get"], &[]),
        ("client/src/client/mod.rs", &["PMIx_Init", "PMIx_Finalize"], &["QUALIFIED_VALUE"]),
        ("server/src/engine/monitors.rs", &["PMIx_Process_monitor"], &["EVENT_AFFECTED_PROC"]),
        (
            "server/src/engine/statistics.rs",
            &["PMIx_Process_monitor"],
            &[
                "CLIENT_AVG_MEMORY",
                "DAEMON_MEMORY",
                "DISK_ID",
                "HOSTNAME",
                "NETWORK_ID",
                "PROC_PEAK_VSIZE",
                "PROC_RSS",
                "PROC_VSIZE",
            ],
        ),
        (
            "client/src/client/ops.rs",
            &["PMIx_Log", "PMIx_Process_monitor"],
            &["QUERY_AVAIL_SERVERS", "QUERY_STABLE_ABI_VERSION", "QUERY_PROVISIONAL_ABI_VERSION"],
        ),
        ("client/src/client/events.rs", &["PMIx_Init", "PMIx_Notify_event"], &[]),
        ("client/src/process.rs", &["PMIx_Init", "PMIx_tool_init"], &[]),
        ("client/src/events/directives.rs", &["PMIx_Register_event_handler", "PMIx_Notify_event"], &[]),
        (
            "client/src/invitations.rs",
            &["PMIx_Group_invite"],
            &[
                "EVENT_AFFECTED_PROC",
                "EVENT_CUSTOM_RANGE",
                "EVENT_NON_DEFAULT",
                "GROUP_CONTEXT_ID",
                "GROUP_ID",
                "GROUP_MEMBERSHIP",
                "DATA_SCOPE",
                "PROCID",
                "PROC_INFO_ARRAY",
                "QUALIFIED_VALUE",
            ],
        ),
        ("client/src/client/input.rs", &["PMIx_IOF_push"], &[]),
        (
            "client/src/output/format.rs",
            &["PMIx_IOF_pull", "PMIx_Spawn", "PMIx_tool_init", "PMIx_server_init"],
            &["IOF_BUFFERING_SIZE", "IOF_BUFFERING_TIME", "IOF_CACHE_SIZE", "IOF_DROP_OLDEST", "IOF_DROP_NEWEST"],
        ),
        ("client/src/tool/find.rs", &["PMIx_tool_init", "PMIx_tool_attach_to_server"], &[]),
        (
            "client/src/tool/mod.rs",
            &["PMIx_tool_init", "PMIx_tool_attach_to_server", "PMIx_tool_connect_to_server", "PMIx_tool_set_server"],
            &["CMD_LINE", "PARENT_ID", "PROC_PID"],
        ),
        (
            "server/src/config.rs",
            &["PMIx_server_init"],
            &[
                "TCP_IF_INCLUDE",
                "TCP_IF_EXCLUDE",
                "SERVER_REMOTE_CONNECTIONS",
                "TCP_IPV6_PORT",
                "TCP_DISABLE_IPV4",
                "EXTERNAL_PROGRESS",
                "EVENT_BASE",
            ],
        ),
        ("server/src/server/start.rs", &["PMIx_server_init"], &[]),
        ("ffi/src/api/server.rs", &["PMIx_server_init"], &[]),
        ("ffi/src/convert/topology.rs", &["PMIx_server_init"], &[]),
        ("server/src/process.rs", &["PMIx_server_init"], &[]),
        ("server/src/topology.rs", &["PMIx_server_init"], &["HWLOC_XML_V1", "HWLOC_XML_V2", "LOCAL_TOPO"]),
        ("client/src/topology.rs", &["PMIx_Compute_distances"], &["HWLOC_XML_V1", "HWLOC_XML_V2", "OPTIONAL"]),
        ("server/src/access.rs", &["PMIx_server_init", "PMIx_server_register_nspace"], &[]),
        ("server/src/cleanup.rs", &["PMIx_Job_control"], &[]),
        (
            "server/src/application.rs",
            &["PMIx_server_setup_application"],
            &[
                "ALLOC_BANDWIDTH",
                "ALLOC_FABRIC",
                "ALLOC_FABRIC_ENDPTS",
                "ALLOC_FABRIC_ENDPTS_NODE",
                "ALLOC_FABRIC_ID",
                "ALLOC_FABRIC_PLANE",
                "ALLOC_FABRIC_QOS",
                "ALLOC_FABRIC_SEC_KEY",
                "ALLOC_FABRIC_TYPE",
                "SET_ENVAR",
            ],
        ),
        ("server/src/engine/nspaces.rs", &["PMIx_server_register_nspace"], &[]),
        (
            "server/src/engine/groups.rs",
            &["PMIx_Group_construct"],
            &["EVENT_AFFECTED_PROC", "EVENT_CUSTOM_RANGE", "EVENT_NON_DEFAULT", "GROUP_ID"],
        ),
        (
            "server/src/engine/constructs.rs",
            &["PMIx_Group_construct"],
            &[
                "GROUP_CONTEXT_ID",
                "GROUP_ENDPT_DATA",
                "GROUP_INFO_ARRAY",
                "GROUP_MEMBERSHIP",
                "LOCAL_COLLECTIVE_STATUS",
                "PROCID",
                "PROC_INFO_ARRAY",
                "QUALIFIED_VALUE",
            ],
        ),
        ("server/src/engine/collective.rs", &["PMIx_Fence", "PMIx_Connect", "PMIx_Disconnect"], &[]),
        // The server reads an identifier by it, too.
        (
            "client/src/client/connections.rs",
            &["PMIx_Fence", "PMIx_Connect", "PMIx_Disconnect"],
            &[
                "CLUSTER_ID",
                "EVENT_AFFECTED_PROC",
                "EVENT_AFFECTED_PROCS",
                "EVENT_CUSTOM_RANGE",
                "IMMEDIATE",
                "JOB_SIZE",
            ],
        ),
        (
            "server/src/engine/collectives.rs",
            &["PMIx_Fence", "PMIx_Connect", "PMIx_Disconnect", "PMIx_Group_construct"],
            &["LOCAL_COLLECTIVE_STATUS", "SORTED_PROC_ARRAY"],
        ),
        ("server/src/engine/buffering.rs", &["PMIx_IOF_pull"], &[]),
        (
            "server/src/engine/output.rs",
            &["PMIx_Spawn"],
            &["IOF_STOP", "LOG_ONCE", "LOG_SOURCE", "LOG_STDERR", "LOG_STDOUT"],
        ),
        ("server/src/engine/events.rs", &["PMIx_Notify_event"], &[]),
    ];

    /// Files in which the attributes of these functions are only a part of the keys.
    const READERS_OF_MORE: [(&str, &str); 3] = [
        ("server/src/engine/query.rs", "PMIx_Query_info"),
        ("server/src/engine/attributes.rs", "PMIx_Query_info"),
        ("dstore/src/job/register.rs", "PMIx_server_register_nspace"),
    ];

    #[test]
    fn the_attributes_of_a_function_are_those_that_are_read() {
        let by_get = keys_in(&source("client/src/get_options.rs"));
        let mut read: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
        for (file, names, others) in READERS {
            let keys = keys_in(&source(file));
            let others: BTreeSet<String> = others.iter().map(|name| format!("PMIX_{name}")).collect();
            assert!(others.is_subset(&keys), "{file} does not name all of {others:?}");
            let known: BTreeSet<String> = names.iter().flat_map(|name| attributes_of(name)).collect();
            for key in keys.difference(&others) {
                assert!(known.contains(key), "{file} reads {key}: an attribute of one of {names:?}?");
            }
            names.iter().for_each(|name| read.entry(name).or_default().extend(keys.difference(&others).cloned()));
        }
        for (file, name) in READERS_OF_MORE {
            read.entry(name).or_default().extend(keys_in(&source(file)));
        }
        // Queries read their qualifiers as Gets do; the older function to connect reads the same attributes.
        read.entry("PMIx_Query_info").or_default().extend(by_get);
        let attached = read["PMIx_tool_attach_to_server"].clone();
        read.entry("PMIx_tool_connect_to_server").or_default().extend(attached);
        for (name, _) in functions() {
            // One place reads the time for all.
            let unread = attributes_of(name).into_iter().filter(|key| key != "PMIX_TIMEOUT");
            let unread: Vec<String> =
                unread.filter(|key| !read.get(name).is_some_and(|read| read.contains(key))).collect();
            assert!(unread.is_empty(), "{name}: nothing reads {unread:?}");
        }
    }

    #[test]
    fn every_function_that_takes_attributes_is_there() {
        let api = Path::new(env!("CARGO_MANIFEST_DIR")).join("../ffi/src/api");
        let files = fs::read_dir(api).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut with_infos = BTreeSet::new();
        let mut exported = BTreeSet::new();
        for file in files {
            for function in source(&format!("ffi/src/api/{file}")).split("    fn PMIx_").skip(1) {
                let (name, parameters) = function.split_once('(').expect(function);
                let parameters = parameters.split('{').next().unwrap_or_default();
                exported.insert(format!("PMIx_{name}"));
                let is_helper =
                    ["Info_", "App_", "Query_", "Data_", "Value_"].iter().any(|what| name.starts_with(what));
                let is_call = !name.ends_with("_nb") && (!is_helper || name == "Query_info");
                with_infos.extend((is_call && parameters.contains("pmix_info_t")).then(|| format!("PMIx_{name}")));
            }
        }
        let named: BTreeSet<String> = functions().map(|(name, _)| (*name).to_owned()).collect();
        // Its infos are not read.
        with_infos.remove("PMIx_Progress_thread_stop");
        let missing: Vec<_> = with_infos.difference(&named).collect();
        assert!(missing.is_empty(), "{missing:?} take attributes");
        let unknown: Vec<_> = named.difference(&exported).collect();
        assert!(unknown.is_empty(), "{unknown:?} are not there");
    }
}
