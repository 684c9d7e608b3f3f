//! Which functions there are, and which attributes each of them takes.
//!
//! The library knows its own; the host has registered its. Attributes that only the host understands are passed on in any
//! function, and are not named here.

use std::collections::BTreeMap;
use std::ffi::CString;

use pmix_dstore::model::{DataArray, DataType, Info, Key, Regattr, Value, attributes as all, keys};

use super::query::list;

/// What the host has registered, by function.
pub(super) type HostAttributes = BTreeMap<CString, Vec<Regattr>>;

/// Name, key and type.
type Attribute = (&'static str, &'static str, DataType);
type Functions = &'static [(&'static str, &'static [Attribute])];

macro_rules! functions {
    ($($function:ident: [$($name:ident),*],)*) => {
        &[$((stringify!($function), &[
            $((concat!("PMIX_", stringify!($name)), all::$name.key(), all::$name.data_type())),*
        ])),*]
    };
}

const CLIENT: Functions = functions! {
    PMIx_Init: [TIMEOUT, PROGRAMMING_MODEL, MODEL_LIBRARY_NAME, MODEL_LIBRARY_VERSION, THREADING_MODEL],
    PMIx_Finalize: [EMBED_BARRIER],
    PMIx_Put: [],
    PMIx_Commit: [],
    PMIx_Store_internal: [],
    PMIx_Get: [
        OPTIONAL, IMMEDIATE, TIMEOUT, GET_REFRESH_CACHE, GET_POINTER_VALUES, GET_STATIC_VALUES, DATA_SCOPE, SESSION_INFO,
        SESSION_ID, JOB_INFO, APP_INFO, APPNUM, NODE_INFO, NODEID, HOSTNAME
    ],
    PMIx_Fence: [COLLECT_DATA, TIMEOUT],
    PMIx_Publish: [TIMEOUT],
    PMIx_Lookup: [TIMEOUT],
    PMIx_Unpublish: [TIMEOUT],
    PMIx_Spawn: [TIMEOUT],
    PMIx_Connect: [TIMEOUT],
    PMIx_Disconnect: [TIMEOUT],
    PMIx_Resolve_peers: [],
    PMIx_Resolve_nodes: [],
    PMIx_Query_info: [TIMEOUT, NSPACE, RANK, SESSION_ID, NODEID, HOSTNAME, APPNUM, PSET_NAME],
    PMIx_Log: [TIMEOUT],
    PMIx_Allocation_request: [TIMEOUT],
    PMIx_Job_control: [
        TIMEOUT, REGISTER_CLEANUP, REGISTER_CLEANUP_DIR, CLEANUP_RECURSIVE, CLEANUP_IGNORE, CLEANUP_LEAVE_TOPDIR
    ],
    PMIx_Process_monitor: [TIMEOUT],
    PMIx_Get_credential: [TIMEOUT],
    PMIx_Validate_credential: [TIMEOUT],
    PMIx_Group_construct: [TIMEOUT],
    PMIx_Group_destruct: [TIMEOUT],
    PMIx_Abort: [],
};

const SERVER: Functions = functions! {
    PMIx_server_init: [
        SERVER_NSPACE, SERVER_RANK, SERVER_TMPDIR, SYSTEM_TMPDIR, SERVER_TOOL_SUPPORT, SERVER_SYSTEM_SUPPORT,
        SERVER_SESSION_SUPPORT
    ],
    PMIx_server_register_nspace: [
        REGISTER_NODATA, SESSION_INFO_ARRAY, JOB_INFO_ARRAY, APP_INFO_ARRAY, NODE_INFO_ARRAY, PROC_INFO_ARRAY
    ],
    PMIx_server_deregister_nspace: [],
    PMIx_server_register_client: [],
    PMIx_server_deregister_client: [],
    PMIx_server_register_resources: [],
    PMIx_server_deregister_resources: [],
    PMIx_server_setup_fork: [],
    PMIx_server_dmodex_request: [],
    PMIx_server_setup_application: [],
    PMIx_server_setup_local_support: [],
    PMIx_server_define_process_set: [],
    PMIx_server_delete_process_set: [],
};

const TOOL: Functions = functions! {
    PMIx_tool_init: [TIMEOUT],
    PMIx_tool_finalize: [],
    PMIx_tool_attach_to_server: [TIMEOUT],
    PMIx_tool_disconnect: [],
    PMIx_tool_get_servers: [],
    PMIx_tool_set_server: [],
};

/// The keys of queries that are answered without the host.
const QUERIES: [&str; 10] = [
    keys::QUERY_SUPPORTED_KEYS,
    keys::QUERY_SUPPORTED_QUALIFIERS,
    keys::QUERY_ATTRIBUTE_SUPPORT,
    keys::QUERY_NAMESPACES,
    keys::QUERY_NAMESPACE_INFO,
    keys::QUERY_PROC_TABLE,
    keys::QUERY_LOCAL_PROC_TABLE,
    keys::QUERY_NUM_PSETS,
    keys::QUERY_PSET_NAMES,
    keys::QUERY_PSET_MEMBERSHIP,
];

/// What may come with them.
const QUALIFIERS: [&str; 15] = [
    keys::NSPACE,
    keys::RANK,
    keys::SESSION_INFO,
    keys::SESSION_ID,
    keys::JOB_INFO,
    keys::APP_INFO,
    keys::APPNUM,
    keys::NODE_INFO,
    keys::NODEID,
    keys::HOSTNAME,
    keys::PSET_NAME,
    keys::TIMEOUT,
    keys::CLIENT_ATTRIBUTES,
    keys::SERVER_ATTRIBUTES,
    keys::HOST_ATTRIBUTES,
];

/// The keys that queries may have, where the host does not say.
pub(super) fn supported(key: &str) -> Option<Value> {
    let keys: &[&str] = match key {
        keys::QUERY_SUPPORTED_KEYS => &QUERIES,
        keys::QUERY_SUPPORTED_QUALIFIERS => &QUALIFIERS,
        _ => return None,
    };
    Some(list(keys.iter().map(|key| key.as_bytes())))
}

fn own(functions: Functions) -> HostAttributes {
    let describe = |(name, key, ty): &Attribute| Regattr {
        name: CString::new(*name).ok(),
        key: Key::from(*key),
        ty: *ty,
        description: Vec::new(),
    };
    let named = functions
        .iter()
        .filter_map(|(name, attributes)| Some((CString::new(*name).ok()?, attributes.iter().map(describe).collect())));
    named.collect()
}

/// The answer to a query for supported attributes; `None` where only the host could tell.
///
/// Without qualifiers it is everything; a qualifier names whose functions, or the attributes of which of their functions:
/// those in its text, or all.
pub(super) fn support(qualifiers: &[Info], host: &HostAttributes) -> Option<Value> {
    let whose = [
        (keys::CLIENT_FUNCTIONS, keys::CLIENT_ATTRIBUTES, own(CLIENT)),
        (keys::SERVER_FUNCTIONS, keys::SERVER_ATTRIBUTES, own(SERVER)),
        (keys::TOOL_FUNCTIONS, keys::TOOL_ATTRIBUTES, own(TOOL)),
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
