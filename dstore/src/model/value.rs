//! Values and the structures that they can hold.

use std::ffi::{CStr, CString};

use super::{Bytes, DataType, Key, Nspace, Proc, Rank, Result, Status};
use crate::fallible_alloc;

/// A value of any PMIx type (`pmix_value_t`).
///
/// The variant keeps the exact PMIx type: a Get gives back the type that was put or registered. Strings are C strings;
/// `None` is the NULL pointer, which the wire distinguishes from the empty string.
///
/// ```
/// use pmix_dstore::model::{DataType, Value};
///
/// let (size, name) = (Value::Uint32(128), Value::string("n17"));
/// assert_eq!((size.data_type(), name.data_type()), (DataType::UINT32, DataType::STRING));
/// // Hosts register some numbers in other widths than the standard's: read them through these.
/// assert_eq!(size.as_u64(), Some(128));
/// assert_eq!(name.as_text(), Some(&b"n17"[..]));
/// assert_eq!(name.as_u32(), None);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// No value.
    Undef,
    /// A truth value.
    Bool(bool),
    /// One byte.
    Byte(u8),
    /// A C string or NULL.
    String(Option<CString>),
    /// `size_t`.
    Size(u64),
    /// `pid_t`.
    Pid(i32),
    /// C `int`.
    Int(i32),
    /// `int8_t`.
    Int8(i8),
    /// `int16_t`.
    Int16(i16),
    /// `int32_t`.
    Int32(i32),
    /// `int64_t`.
    Int64(i64),
    /// C `unsigned int`.
    Uint(u32),
    /// `uint8_t`.
    Uint8(u8),
    /// `uint16_t`.
    Uint16(u16),
    /// `uint32_t`.
    Uint32(u32),
    /// `uint64_t`.
    Uint64(u64),
    /// C `float`.
    Float(f32),
    /// C `double`.
    Double(f64),
    /// `struct timeval`.
    Timeval {
        /// Seconds.
        sec: i64,
        /// Microseconds.
        usec: i64,
    },
    /// `time_t`, seconds since 1970.
    Time(i64),
    /// A status.
    Status(Status),
    /// A rank.
    Rank(Rank),
    /// A process, or NULL.
    Proc(Proc),
    /// A namespace.
    ProcNspace(Nspace),
    /// Bytes. An empty one has size 0.
    ByteObject(Bytes),
    /// A string compressed by the sender: 4 bytes of original length, then a zlib stream.
    CompressedString(Bytes),
    /// Bytes compressed by the sender, in the same form.
    CompressedByteObject(Bytes),
    /// A node or process map in one of its compressed forms, with its final NUL where the form has one.
    Regex(Bytes),
    /// A data buffer: its packed bytes.
    DataBuffer(Bytes),
    /// An internal buffer on the wire: its buffer type byte and its bytes.
    Buffer {
        /// 1 not described, 2 fully described.
        kind: u8,
        /// The packed bytes.
        bytes: Vec<u8>,
    },
    /// An address in the process that made the value; meaningless elsewhere. The wire does not carry the address.
    Pointer(usize),
    /// A code or bit mask of one of the small enumerations: PERSIST, SCOPE, DATA_RANGE, COMMAND, INFO_DIRECTIVES,
    /// DATA_TYPE, PROC_STATE, JOB_STATE, LINK_STATE, ALLOC_DIRECTIVE, RESBLOCK_DIRECTIVE, ALLOC_INHERIT, IOF_CHANNEL,
    /// DEVTYPE, LOCTYPE, STOR_MEDIUM, STOR_ACCESS, STOR_PERSIST, STOR_ACCESS_TYPE.
    Code {
        /// Which enumeration.
        ty: DataType,
        /// The code, zero-extended.
        bits: u64,
    },
    /// An environment variable to set.
    Envar(Envar),
    /// An array of one type.
    DataArray(Box<DataArray>),
    /// A value in an array of values.
    Value(Box<Value>),
    /// A key with a value and directives.
    Info(Box<Info>),
    /// A published value and its publisher.
    Pdata(Box<Pdata>),
    /// A key with a value.
    Kval(Box<Kval>),
    /// An application to spawn.
    App(Box<App>),
    /// A query.
    Query(Box<Query>),
    /// State of a process.
    ProcInfo(Box<ProcInfo>),
    /// The description of an attribute.
    Regattr(Box<Regattr>),
    /// Fabric coordinates.
    Coord(Box<Coord>),
    /// Fabric coordinates of a device.
    Geometry(Box<Geometry>),
    /// The distance of a device from the process.
    DeviceDistance(Box<DeviceDistance>),
    /// A device.
    Device(Box<Device>),
    /// A fabric endpoint.
    Endpoint(Box<Endpoint>),
    /// A set of processing units in hwloc's list form, `None` when unbound. `source` names the library.
    Cpuset {
        /// `hwloc`, or `None`.
        source: Option<CString>,
        /// The list form.
        list: Option<CString>,
    },
    /// A topology of hwloc's.
    Topology {
        /// Its XML, if there is any.
        xml: Option<CString>,
        /// hwloc's support flags for it: one byte, 0 or 1, for each capability. Releases up to 6.1 send them after the XML.
        support: Vec<u8>,
    },
    /// A number of devices of a type.
    ResourceUnit {
        /// Device type mask.
        ty: u64,
        /// Number of them.
        count: u64,
    },
    /// A process of a node by its process id.
    NodePid {
        /// The node's name.
        hostname: Option<CString>,
        /// The node's number.
        nodeid: u32,
        /// Process id.
        pid: i32,
    },
    /// A map in the second form that releases have for it.
    Regex2 {
        /// The format of the bytes.
        ty: Option<CString>,
        /// The map.
        bytes: Vec<u8>,
    },
    /// Resource usage of a process.
    ProcStats(Box<ProcStats>),
    /// Statistics of a disk.
    DiskStats(Box<DiskStats>),
    /// Statistics of a network interface.
    NetStats(Box<NetStats>),
    /// Resource usage of a node.
    NodeStats(Box<NodeStats>),
}

impl Value {
    /// A string value. A string with a NUL inside is cut there, as C would read it.
    pub fn string(text: impl AsRef<[u8]>) -> Value {
        let bytes = text.as_ref();
        let text = CString::new(bytes).or_else(|error| CString::new(&bytes[..error.nul_position()]));
        Value::String(text.ok())
    }

    /// The bytes of a BYTE_OBJECT, REGEX, COMPRESSED_STRING, COMPRESSED_BYTE_OBJECT or DATA_BUFFER.
    pub fn bytes(&self) -> Option<&Bytes> {
        match self {
            Value::ByteObject(bytes)
            | Value::Regex(bytes)
            | Value::CompressedString(bytes)
            | Value::CompressedByteObject(bytes)
            | Value::DataBuffer(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// The same with other bytes, where [`Value::bytes`] has some.
    #[doc(hidden)]
    pub fn with_bytes(&self, bytes: Bytes) -> Option<Value> {
        let kind = match self {
            Value::ByteObject(_) => Value::ByteObject,
            Value::Regex(_) => Value::Regex,
            Value::CompressedString(_) => Value::CompressedString,
            Value::CompressedByteObject(_) => Value::CompressedByteObject,
            Value::DataBuffer(_) => Value::DataBuffer,
            _ => return None,
        };
        Some(kind(bytes))
    }

    /// An array of infos.
    pub fn infos(infos: impl IntoIterator<Item = Info>) -> Value {
        let items = infos.into_iter().map(|info| Value::Info(Box::new(info))).collect();
        Value::DataArray(Box::new(DataArray { ty: DataType::INFO, items }))
    }

    /// An array of processes.
    pub fn procs(procs: impl IntoIterator<Item = Proc>) -> Value {
        let items = procs.into_iter().map(Value::Proc).collect();
        Value::DataArray(Box::new(DataArray { ty: DataType::PROC, items }))
    }

    /// A copy, by fallible allocation.
    ///
    /// # Errors
    /// `NOMEM`.
    pub fn copy(&self) -> Result<Value> {
        fallible_alloc::check()?;
        Ok(match self {
            Value::String(Some(text)) => Value::String(Some(fallible_alloc::copy_c_str(text)?)),
            Value::ByteObject(bytes) => Value::ByteObject(bytes.copy()?),
            Value::CompressedString(bytes) => Value::CompressedString(bytes.copy()?),
            Value::CompressedByteObject(bytes) => Value::CompressedByteObject(bytes.copy()?),
            Value::Regex(bytes) => Value::Regex(bytes.copy()?),
            Value::DataBuffer(bytes) => Value::DataBuffer(bytes.copy()?),
            Value::Buffer { kind, bytes } => Value::Buffer { kind: *kind, bytes: fallible_alloc::copy(bytes)? },
            Value::DataArray(array) => {
                let mut items = fallible_alloc::vec(array.items.len())?;
                for item in &array.items {
                    items.push(item.copy()?);
                }
                Value::DataArray(Box::new(DataArray { ty: array.ty, items }))
            }
            Value::Value(value) => Value::Value(Box::new(value.copy()?)),
            Value::Info(info) => Value::Info(Box::new(info.copy()?)),
            Value::Kval(kval) => Value::Kval(Box::new(Kval { key: kval.key.clone(), value: kval.value.copy()? })),
            // Names and numbers.
            other => other.clone(),
        })
    }

    /// The PMIx type of the value.
    pub fn data_type(&self) -> DataType {
        match self {
            Value::Undef => DataType::UNDEF,
            Value::Bool(_) => DataType::BOOL,
            Value::Byte(_) => DataType::BYTE,
            Value::String(_) => DataType::STRING,
            Value::Size(_) => DataType::SIZE,
            Value::Pid(_) => DataType::PID,
            Value::Int(_) => DataType::INT,
            Value::Int8(_) => DataType::INT8,
            Value::Int16(_) => DataType::INT16,
            Value::Int32(_) => DataType::INT32,
            Value::Int64(_) => DataType::INT64,
            Value::Uint(_) => DataType::UINT,
            Value::Uint8(_) => DataType::UINT8,
            Value::Uint16(_) => DataType::UINT16,
            Value::Uint32(_) => DataType::UINT32,
            Value::Uint64(_) => DataType::UINT64,
            Value::Float(_) => DataType::FLOAT,
            Value::Double(_) => DataType::DOUBLE,
            Value::Timeval { .. } => DataType::TIMEVAL,
            Value::Time(_) => DataType::TIME,
            Value::Status(_) => DataType::STATUS,
            Value::Rank(_) => DataType::PROC_RANK,
            Value::Proc(_) => DataType::PROC,
            Value::ProcNspace(_) => DataType::PROC_NSPACE,
            Value::ByteObject(_) => DataType::BYTE_OBJECT,
            Value::CompressedString(_) => DataType::COMPRESSED_STRING,
            Value::CompressedByteObject(_) => DataType::COMPRESSED_BYTE_OBJECT,
            Value::Regex(_) => DataType::REGEX,
            Value::DataBuffer(_) => DataType::DATA_BUFFER,
            Value::Buffer { .. } => DataType::BUFFER,
            Value::Pointer(_) => DataType::POINTER,
            Value::Code { ty, .. } => *ty,
            Value::Envar(_) => DataType::ENVAR,
            Value::DataArray(_) => DataType::DATA_ARRAY,
            Value::Value(_) => DataType::VALUE,
            Value::Info(_) => DataType::INFO,
            Value::Pdata(_) => DataType::PDATA,
            Value::Kval(_) => DataType::KVAL,
            Value::App(_) => DataType::APP,
            Value::Query(_) => DataType::QUERY,
            Value::ProcInfo(_) => DataType::PROC_INFO,
            Value::Regattr(_) => DataType::REGATTR,
            Value::Coord(_) => DataType::COORD,
            Value::Geometry(_) => DataType::GEOMETRY,
            Value::DeviceDistance(_) => DataType::DEVICE_DIST,
            Value::Device(_) => DataType::DEVICE,
            Value::Endpoint(_) => DataType::ENDPOINT,
            Value::Cpuset { .. } => DataType::PROC_CPUSET,
            Value::Topology { .. } => DataType::TOPO,
            Value::ResourceUnit { .. } => DataType::RESOURCE_UNIT,
            Value::NodePid { .. } => DataType::NODE_PID,
            Value::Regex2 { .. } => DataType::REGEX2,
            Value::ProcStats(_) => DataType::PROC_STATS,
            Value::DiskStats(_) => DataType::DISK_STATS,
            Value::NetStats(_) => DataType::NET_STATS,
            Value::NodeStats(_) => DataType::NODE_STATS,
        }
    }

    /// The value as an unsigned number, whichever integer type it has; negative numbers give `None`.
    pub fn as_u64(&self) -> Option<u64> {
        match *self {
            Value::Byte(n) | Value::Uint8(n) => Some(n.into()),
            Value::Size(n) | Value::Uint64(n) => Some(n),
            Value::Uint(n) | Value::Uint32(n) => Some(n.into()),
            Value::Uint16(n) => Some(n.into()),
            Value::Int(n) | Value::Int32(n) | Value::Pid(n) => n.try_into().ok(),
            Value::Int8(n) => n.try_into().ok(),
            Value::Int16(n) => n.try_into().ok(),
            Value::Int64(n) | Value::Time(n) => n.try_into().ok(),
            Value::Rank(Rank(n)) => Some(n.into()),
            Value::Code { bits, .. } => Some(bits),
            _ => None,
        }
    }

    /// The value as an unsigned 32-bit number, if it is a number that fits.
    pub fn as_u32(&self) -> Option<u32> {
        self.as_u64()?.try_into().ok()
    }

    /// The truth value of a directive. A boolean is itself; a directive without a value (`UNDEF`) is true; a string is true
    /// unless it is `false`, `no` or `0`; a number is true unless it is zero.
    pub fn is_true(&self) -> bool {
        match self {
            Value::Undef => true,
            Value::Bool(flag) => *flag,
            Value::String(Some(text)) => !matches!(text.to_bytes(), b"false" | b"False" | b"no" | b"0" | b"f" | b"n"),
            other => other.as_u64().is_none_or(|n| n != 0),
        }
    }

    /// The string, if the value is one and not NULL.
    pub fn as_c_str(&self) -> Option<&CStr> {
        match self {
            Value::String(Some(text)) => Some(text),
            _ => None,
        }
    }

    /// The bytes of a string (without NUL), if the value is one and not NULL.
    pub fn as_text(&self) -> Option<&[u8]> {
        self.as_c_str().map(CStr::to_bytes)
    }

    /// The infos of an array of infos; nothing for any other value.
    pub fn iter_infos(&self) -> impl Iterator<Item = &Info> {
        let items = match self {
            Value::DataArray(array) => array.items.as_slice(),
            _ => &[],
        };
        items.iter().filter_map(|item| match item {
            Value::Info(info) => Some(&**info),
            _ => None,
        })
    }

    /// The process, or the processes of an array; empty for other values.
    pub fn iter_procs(&self) -> impl Iterator<Item = &Proc> {
        let items = match self {
            Value::DataArray(array) => array.items.as_slice(),
            one => std::slice::from_ref(one),
        };
        items.iter().filter_map(|item| match item {
            Value::Proc(proc) => Some(proc),
            _ => None,
        })
    }
}

/// An array of values of one type (`pmix_data_array_t`).
#[derive(Clone, Debug, PartialEq)]
pub struct DataArray {
    /// Type of every item.
    pub ty: DataType,
    /// The items, each of type `ty`.
    pub items: Vec<Value>,
}

/// Flags of an info (`pmix_info_directives_t`).
pub struct InfoFlags;

impl InfoFlags {
    /// `PMIX_INFO_REQD`: the directive must be honoured.
    pub const REQUIRED: u32 = 1;
    /// `PMIX_INFO_ARRAY_END`: last of an array.
    pub const ARRAY_END: u32 = 2;
    /// `PMIX_INFO_REQD_PROCESSED`: a required directive that has been honoured.
    pub const REQUIRED_PROCESSED: u32 = 4;
    /// `PMIX_INFO_QUALIFIER`: qualifies the first info of its array.
    pub const QUALIFIER: u32 = 8;
    /// `PMIX_INFO_PERSISTENT`.
    pub const PERSISTENT: u32 = 16;
}

/// A key with a value and directives (`pmix_info_t`).
///
/// ```
/// use pmix_dstore::model::{Info, InfoFlags, Value, attributes, keys};
///
/// // By the key, or by the typed attribute.
/// let mut timeout = Info::new(keys::TIMEOUT, Value::Int(5));
/// assert_eq!(timeout, attributes::TIMEOUT.info(5));
/// // A receiver that does not know the key must refuse the call.
/// timeout.flags |= InfoFlags::REQUIRED;
///
/// let infos = [timeout, attributes::OPTIONAL.info(true)];
/// assert_eq!(Info::find(&infos, keys::TIMEOUT), Some(&Value::Int(5)));
/// assert!(Info::is_set(&infos, keys::OPTIONAL) && !Info::is_set(&infos, keys::IMMEDIATE));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Info {
    /// The key.
    pub key: Key,
    /// [`InfoFlags`].
    pub flags: u32,
    /// The value.
    pub value: Value,
}

impl Info {
    /// An info without flags.
    pub fn new(key: impl Into<Key>, value: Value) -> Info {
        Info { key: key.into(), flags: 0, value }
    }

    /// A copy, by fallible allocation.
    ///
    /// # Errors
    /// `NOMEM`.
    pub fn copy(&self) -> Result<Info> {
        Ok(Info { key: self.key.clone(), flags: self.flags, value: self.value.copy()? })
    }

    /// Copies of infos, by fallible allocation.
    ///
    /// # Errors
    /// `NOMEM`.
    pub fn copies(infos: &[Info]) -> Result<Vec<Info>> {
        let mut copies = fallible_alloc::vec(infos.len())?;
        for info in infos {
            copies.push(info.copy()?);
        }
        Ok(copies)
    }

    /// The value of the first of these infos that has this key.
    pub fn find<'i>(infos: &'i [Info], key: &str) -> Option<&'i Value> {
        infos.iter().find(|info| info.key.is(key)).map(|info| &info.value)
    }

    /// Whether one of these infos sets a boolean directive to true. An absent directive is false.
    pub fn is_set(infos: &[Info], key: &str) -> bool {
        infos.iter().any(|info| info.key.is(key) && info.value.is_true())
    }
}

/// A key with a value, as stores return it (`pmix_kval_t`).
#[derive(Clone, Debug, PartialEq)]
pub struct Kval {
    /// The key.
    pub key: Key,
    /// The value.
    pub value: Value,
}

/// A published value and its publisher (`pmix_pdata_t`).
#[derive(Clone, Debug, PartialEq)]
pub struct Pdata {
    /// The publisher.
    pub proc: Proc,
    /// The key.
    pub key: Key,
    /// The value.
    pub value: Value,
}

/// An environment variable and how to add to it (`pmix_envar_t`).
#[derive(Clone, Debug, PartialEq)]
pub struct Envar {
    /// Name.
    pub name: Option<CString>,
    /// Value.
    pub value: Option<CString>,
    /// Separator when adding to a list.
    pub separator: u8,
}

/// An application to spawn (`pmix_app_t`).
#[derive(Clone, Debug, PartialEq)]
pub struct App {
    /// Program.
    pub cmd: Option<CString>,
    /// Arguments, the program's name first.
    pub argv: Vec<CString>,
    /// Environment, `NAME=value`.
    pub env: Vec<CString>,
    /// Working directory.
    pub cwd: Option<CString>,
    /// Number of processes.
    pub maxprocs: i32,
    /// Attributes.
    pub infos: Vec<Info>,
}

/// A query (`pmix_query_t`).
#[derive(Clone, Debug, PartialEq)]
pub struct Query {
    /// The queried keys.
    pub keys: Vec<CString>,
    /// Qualifiers that narrow the query.
    pub qualifiers: Vec<Info>,
}

/// State of a process (`pmix_proc_info_t`).
#[derive(Clone, Debug, PartialEq)]
pub struct ProcInfo {
    /// The process.
    pub proc: Proc,
    /// The host that it runs on.
    pub hostname: Option<CString>,
    /// The executable that it runs.
    pub executable: Option<CString>,
    /// Process id.
    pub pid: i32,
    /// Exit code; not carried by the wire.
    pub exit_code: i32,
    /// `pmix_proc_state_t`.
    pub state: u8,
}

/// The description of an attribute (`pmix_regattr_t`).
#[derive(Clone, Debug, PartialEq)]
pub struct Regattr {
    /// Name, for example `PMIX_JOB_SIZE`.
    pub name: Option<CString>,
    /// Key, for example `pmix.job.size`.
    pub key: Key,
    /// Type of its value.
    pub ty: DataType,
    /// Lines of text.
    pub description: Vec<CString>,
}

/// Fabric coordinates (`pmix_coord_t`).
#[derive(Clone, Debug, PartialEq)]
pub struct Coord {
    /// `pmix_coord_view_t`.
    pub view: u8,
    /// One number per dimension.
    pub coords: Vec<u32>,
}

/// Fabric coordinates of a device (`pmix_geometry_t`).
#[derive(Clone, Debug, PartialEq)]
pub struct Geometry {
    /// Index of the fabric.
    pub fabric: u64,
    /// Device's unique name.
    pub uuid: Option<CString>,
    /// Device's name in the operating system.
    pub osname: Option<CString>,
    /// Its coordinates.
    pub coordinates: Vec<Coord>,
}

/// The distance of a device from a process (`pmix_device_distance_t`).
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceDistance {
    /// Device's unique name.
    pub uuid: Option<CString>,
    /// Device's name in the operating system.
    pub osname: Option<CString>,
    /// `pmix_device_type_t`.
    pub ty: u64,
    /// Smallest distance.
    pub min: u16,
    /// Largest distance.
    pub max: u16,
}

/// A device (`pmix_device_t`).
#[derive(Clone, Debug, PartialEq)]
pub struct Device {
    /// Device's unique name.
    pub uuid: Option<CString>,
    /// Device's name in the operating system.
    pub osname: Option<CString>,
    /// `pmix_device_type_t`.
    pub ty: u64,
}

/// A fabric endpoint (`pmix_endpoint_t`).
#[derive(Clone, Debug, PartialEq)]
pub struct Endpoint {
    /// Device's unique name.
    pub uuid: Option<CString>,
    /// Device's name in the operating system.
    pub osname: Option<CString>,
    /// The endpoint.
    pub bytes: Vec<u8>,
}

/// Resource usage of a process (`pmix_proc_stats_t`).
#[derive(Clone, Debug, PartialEq)]
pub struct ProcStats {
    /// The node it runs on.
    pub node: Option<CString>,
    /// The process.
    pub proc: Proc,
    /// Process id.
    pub pid: i32,
    /// The command that it runs.
    pub cmd: Option<CString>,
    /// One letter.
    pub state: u8,
    /// Processor time, in seconds and microseconds.
    pub time: (i64, i64),
    /// Share of a processor; not carried to peers of other libraries.
    pub percent_cpu: f32,
    /// Its priority.
    pub priority: i32,
    /// Its threads.
    pub num_threads: u16,
    /// Its own share of shared memory, MiB.
    pub pss: f32,
    /// Virtual memory, MiB.
    pub vsize: f32,
    /// Resident memory, MiB.
    pub rss: f32,
    /// The most virtual memory it ever had, MiB.
    pub peak_vsize: f32,
    /// The processor it ran on last.
    pub processor: u16,
    /// When this was seen.
    pub sample_time: (i64, i64),
}

/// Statistics of a disk (`pmix_disk_stats_t`).
#[derive(Clone, Debug, PartialEq)]
pub struct DiskStats {
    /// Its name.
    pub disk: Option<CString>,
    /// The counts, in the order of the structure.
    pub counts: [u64; 11],
}

/// Statistics of a network interface (`pmix_net_stats_t`).
#[derive(Clone, Debug, PartialEq)]
pub struct NetStats {
    /// Its name.
    pub interface: Option<CString>,
    /// The counts, in the order of the structure.
    pub counts: [u64; 6],
}

/// Resource usage of a node (`pmix_node_stats_t`).
#[derive(Clone, Debug, PartialEq)]
pub struct NodeStats {
    /// Its name.
    pub node: Option<CString>,
    /// Loads and sizes of memory, in the order of the structure.
    pub amounts: [f32; 11],
    /// When this was seen.
    pub sample_time: (i64, i64),
    /// Its disks.
    pub disks: Vec<DiskStats>,
    /// Its network interfaces.
    pub interfaces: Vec<NetStats>,
}

/// The processes that may read a put value (`pmix_scope_t`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Scope {
    /// Processes of the same node.
    Local = 1,
    /// Processes of other nodes.
    Remote = 2,
    /// All processes.
    Global = 3,
    /// Only the process itself.
    Internal = 4,
}

/// A code that deletes from a scope is the scope's code plus this.
const DELETION: u8 = 4;

impl Scope {
    /// The scope of a `pmix_scope_t`, if it is one that data can be put with.
    pub fn from_code(code: u8) -> Option<Scope> {
        Some(match code {
            1 => Scope::Local,
            2 => Scope::Remote,
            3 => Scope::Global,
            4 => Scope::Internal,
            _ => return None,
        })
    }

    /// The scope from which a `pmix_scope_t` deletes a key (`PMIX_DEL_LOCAL` and the codes that follow it); `None` for other
    /// codes.
    pub fn of_deletion(code: u8) -> Option<Scope> {
        Scope::from_code(code.checked_sub(DELETION)?)
    }

    /// The `pmix_scope_t` that deletes a key from this scope.
    pub fn deletion_code(self) -> u8 {
        self as u8 + DELETION
    }

    /// The scope whose readers are the readers of this scope and of `other`. An internal scope adds no readers.
    pub fn with(self, other: Scope) -> Scope {
        Scope::of_readers(self.is_local() || other.is_local(), self.is_remote() || other.is_remote()).unwrap_or(self)
    }

    /// The scope of the remaining readers after a deletion from the scope `deleted`; `None` if only the process itself
    /// remains.
    pub fn without(self, deleted: Scope) -> Option<Scope> {
        Scope::of_readers(self.is_local() && !deleted.is_local(), self.is_remote() && !deleted.is_remote())
    }

    fn of_readers(is_local: bool, is_remote: bool) -> Option<Scope> {
        match (is_local, is_remote) {
            (true, true) => Some(Scope::Global),
            (true, false) => Some(Scope::Local),
            (false, true) => Some(Scope::Remote),
            (false, false) => None,
        }
    }

    /// Whether ranks of the same node may read it.
    pub fn is_local(self) -> bool {
        matches!(self, Scope::Local | Scope::Global)
    }

    /// Whether ranks of other nodes may read it.
    pub fn is_remote(self) -> bool {
        matches!(self, Scope::Remote | Scope::Global)
    }
}
