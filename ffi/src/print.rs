//! Objects and values as texts, in the same form as the newest release of the stock library.
//!
//! Texts are bytes: names and strings of C code need not be UTF-8.

use std::ffi::{CStr, CString};
use std::io::Write;

use pmix_client::topology;
use pmix_dstore::model::{App, Coord, DataArray, DataType, Info, InfoFlags, Proc, ProcInfo, Query, Rank, Value};

use crate::{attributes, strings};

/// The text before an object if the caller gives no other.
pub const PREFIX: &[u8] = b" ";

/// Adds formatted text. Writing into a vector does not fail.
macro_rules! add {
    ($out:expr, $($arg:tt)*) => {{
        let _ = write!($out, $($arg)*);
    }};
}

fn or_null(text: &Option<CString>) -> &[u8] {
    text.as_deref().map_or(b"NULL", CStr::to_bytes)
}

/// The name of the attribute with a key, or the key.
fn attribute(key: &[u8]) -> Vec<u8> {
    let name = CString::new(key).ok().and_then(|key| attributes::name_of(&key));
    name.map_or_else(|| key.to_vec(), |name| name.to_bytes().to_vec())
}

/// A rank as text: the special ranks by name, all others by number.
pub fn rank(rank: Rank) -> String {
    match rank {
        Rank::UNDEF => "UNDEF".into(),
        Rank::WILDCARD => "WILDCARD".into(),
        Rank::LOCAL_NODE => "LOCAL_NODE".into(),
        Rank::LOCAL_PEERS => "LOCAL_PEERS".into(),
        Rank::INVALID => "INVALID".into(),
        Rank(rank) => rank.to_string(),
    }
}

/// As [`rank`], in the longer form that is used inside objects. Fewer ranks have a name there.
fn long_rank(at: Rank) -> String {
    match at {
        Rank::UNDEF | Rank::WILDCARD | Rank::LOCAL_NODE => format!("PMIX_RANK_{}", rank(at)),
        Rank(rank) => rank.to_string(),
    }
}

/// The directives of an info.
pub fn directives(flags: u32) -> String {
    if flags & InfoFlags::QUALIFIER != 0 {
        return "QUALIFIER".into();
    }
    let mut text = String::from(if flags & InfoFlags::REQUIRED != 0 { "REQUIRED" } else { "OPTIONAL" });
    if flags & InfoFlags::REQUIRED_PROCESSED != 0 {
        text.push_str(":PROCESSED");
    }
    if flags & InfoFlags::ARRAY_END != 0 {
        text.push_str(":END");
    }
    if flags & InfoFlags::PERSISTENT != 0 {
        text.push_str(":PERSISTENT");
    }
    text
}

/// A value with its type.
pub fn value(prefix: &[u8], value: &Value) -> Vec<u8> {
    [prefix, b"PMIX_VALUE: ", &object(PREFIX, value)].concat()
}

/// A value whose type says that it points to an object, but whose pointer is NULL.
pub fn absent_value(prefix: &[u8], ty: DataType) -> Vec<u8> {
    let name = strings::data_type(ty.0).to_bytes();
    [prefix, b"PMIX_VALUE:  Data type: ", name, b"\tValue: NULL pointer"].concat()
}

/// An info: key, directives and value.
pub fn info(prefix: &[u8], info: &Info) -> Vec<u8> {
    let mut out = [prefix, b"KEY: ", &attribute(info.key.as_bytes()), b"\n"].concat();
    out.extend_from_slice(&[prefix, b"\t", prefix].concat());
    add!(out, "PMIX_INFO_DIRECTIVES\tValue: {}\n", directives(info.flags));
    [out.as_slice(), prefix, b"\t", &value(prefix, &info.value)].concat()
}

/// An application, a line for each of its parts.
pub fn app(app: &App) -> Vec<u8> {
    let mut out = [b"CMD: ", or_null(&app.cmd)].concat();
    for (name, strings) in [("ARGV", &app.argv), ("ENV", &app.env)] {
        add!(out, "\n    {name}:");
        if strings.is_empty() {
            add!(out, "\n        NONE");
        }
        for (number, text) in strings.iter().enumerate() {
            add!(out, "\n        {name}[{number}]: ");
            out.extend_from_slice(text.to_bytes());
        }
    }
    add!(out, "\n    CWD: ");
    out.extend_from_slice(or_null(&app.cwd));
    add!(out, "\n    MAXPROCS: {}", app.maxprocs);
    add!(out, "\n    INFO:{}", if app.infos.is_empty() { " NONE" } else { "" });
    for (number, found) in app.infos.iter().enumerate() {
        add!(out, "\n        INFO[{number}]: ");
        out.extend_from_slice(&info(PREFIX, found));
    }
    out
}

fn proc(prefix: &[u8], proc: &Proc) -> Vec<u8> {
    let mut out = [prefix, b"PROC: ", proc.nspace.as_bytes(), b":"].concat();
    add!(out, "{}", long_rank(proc.rank));
    out
}

fn proc_info(prefix: &[u8], info: &ProcInfo) -> Vec<u8> {
    let deeper = [prefix, b"\t"].concat();
    let mut out = [prefix, b"Data type: PMIX_PROC_INFO\tValue:\n", &proc(&deeper, &info.proc), b"\n", &deeper].concat();
    let names: [&[u8]; 4] = [b"Hostname: ", or_null(&info.hostname), b"\tExecutable: ", or_null(&info.executable)];
    out.extend_from_slice(&names.concat());
    out.push(b'\n');
    out.extend_from_slice(&deeper);
    let state = strings::proc_state(info.state).to_string_lossy();
    add!(out, "Pid: {}\tExit code: {}\tState: {state}", i64::from(info.pid) as u64, info.exit_code);
    out
}

fn query(prefix: &[u8], query: &Query) -> Vec<u8> {
    let deeper = [prefix, b"\t"].concat();
    let mut out = [prefix, b"Data type: PMIX_QUERY\tValue:"].concat();
    for key in &query.keys {
        out.extend_from_slice(&[b"\n", deeper.as_slice(), b"Key: ", key.to_bytes()].concat());
    }
    for qualifier in &query.qualifiers {
        out.push(b'\n');
        out.extend_from_slice(&info(&deeper, qualifier));
    }
    out
}

fn array(prefix: &[u8], array: &DataArray) -> Vec<u8> {
    let mut out = [prefix, b"Data type: PMIX_DATA_ARRAY\tType: "].concat();
    out.extend_from_slice(strings::data_type(array.ty.0).to_bytes());
    add!(out, "\tSize: {}", array.items.len());
    for item in &array.items {
        out.extend_from_slice(&[b"\n", prefix, &object(prefix, item)].concat());
    }
    if array.items.is_empty() {
        out.extend_from_slice(&[b"\n", prefix, b"NULL"].concat());
    }
    out
}

fn coord(prefix: &[u8], coord: &Coord) -> Vec<u8> {
    let view = match coord.view {
        0 => "UNDEF",
        1 => "LOGICAL",
        2 => "PHYSICAL",
        _ => "UNRECOGNIZED",
    };
    let mut out = [prefix, b"Data type: PMIX_COORD\tView: "].concat();
    add!(out, "{view}\tDims: {}", coord.coords.len());
    out
}

/// The names of the bits that are set, with colons between them; `names` has those from the bit `first` on, with blanks between them.
fn bits(bits: u64, first: u32, names: &str) -> String {
    let names = names.split(' ').zip(first..);
    let set: Vec<&str> = names.filter(|(_, bit)| bits >> bit & 1 != 0).map(|(name, _)| name).collect();
    set.join(":")
}

fn locality(code: u64) -> String {
    match code {
        0 => "UNKNOWN".into(),
        0x8000 => "NONLOCAL".into(),
        code => match (bits(code, 0, "HWTHREAD CORE L1 L2 L3 CORE NUMA"), bits(code, 14, "NODE")) {
            (names, node) if names.is_empty() || node.is_empty() => names + &node,
            (names, node) => names + ":" + &node,
        },
    }
}

fn storage(ty: DataType, code: u64) -> String {
    match ty {
        DataType::STOR_MEDIUM if code & 1 != 0 => "UNKNOWN".into(),
        DataType::STOR_MEDIUM => bits(code, 1, "TAPE HDD SSD NVME PMEM RAM"),
        DataType::STOR_ACCESS => bits(code, 0, "NODE SESSION JOB RACK CLUSTER REMOTE"),
        DataType::STOR_PERSIST => bits(code, 0, "TEMPORARY NODE SESSION JOB SCRATCH PROJECT ARCHIVE"),
        _ => bits(code, 0, "READ WRITE"),
    }
}

/// A number as `%f` of printf writes it.
fn real(number: f64) -> String {
    match number {
        number if number.is_nan() => (if number.is_sign_negative() { "-nan" } else { "nan" }).into(),
        number => format!("{number:.6}"),
    }
}

/// A time as `asctime` writes it, in the process's time zone; the number of seconds if the year is out of range.
fn time(seconds: i64) -> String {
    const DAYS: &str = "Sun Mon Tue Wed Thu Fri Sat";
    const MONTHS: &str = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec";
    // SAFETY: a zeroed tm is a valid one, which the call fills.
    let mut tm: libc::tm = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are to variables of this function.
    if unsafe { libc::localtime_r(&raw const seconds, &raw mut tm) }.is_null() {
        return seconds.to_string();
    }
    let name = |names: &'static str, at: i32| usize::try_from(at).ok().and_then(|at| names.split(' ').nth(at));
    let (day, month) = (name(DAYS, tm.tm_wday).unwrap_or("???"), name(MONTHS, tm.tm_mon).unwrap_or("???"));
    let year = i64::from(tm.tm_year) + 1900;
    format!("{day} {month}{:3} {:02}:{:02}:{:02} {year}", tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec)
}

/// The text of a code of a small enumeration.
fn code(ty: DataType, bits: u64) -> String {
    let text = match ty {
        DataType::SCOPE => strings::scope(bits as u8),
        DataType::DATA_RANGE => strings::data_range(bits as u8),
        DataType::PROC_STATE => strings::proc_state(bits as u8),
        DataType::JOB_STATE => strings::job_state(bits as u8),
        DataType::LINK_STATE => strings::link_state(bits as u8),
        DataType::ALLOC_DIRECTIVE => strings::alloc_directive(bits as u8),
        DataType::RESBLOCK_DIRECTIVE => strings::resource_block_directive(bits as u8),
        DataType::ALLOC_INHERIT => strings::alloc_inheritance(bits as u8),
        DataType::DATA_TYPE => strings::data_type(bits as u16),
        DataType::IOF_CHANNEL => strings::iof_channel(bits as u16),
        DataType::LOCTYPE => return locality(bits),
        DataType::DEVTYPE => return format!("{bits:#x}"),
        DataType::STOR_MEDIUM | DataType::STOR_ACCESS | DataType::STOR_PERSIST | DataType::STOR_ACCESS_TYPE => {
            return storage(ty, bits);
        }
        _ => return bits.to_string(),
    };
    text.to_string_lossy().into_owned()
}

/// The object of any type that `value` holds.
pub fn object(prefix: &[u8], value: &Value) -> Vec<u8> {
    let ty = value.data_type();
    // Types with another name than in `PMIx_Data_type_string`.
    let name: &[u8] = match ty {
        DataType::LOCTYPE => b"PMIX_LOCALITY",
        DataType::DEVTYPE => b"PMIX_DEVICE_TYPE",
        DataType::COMPRESSED_STRING => b"PMIX_BYTE_OBJECT",
        DataType::PROC_CPUSET => b"PMIX_CPUSET",
        ty => strings::data_type(ty.0).to_bytes(),
    };
    let mut out = [prefix, b"Data type: ", name].concat();
    let device_type = |ty: u64| strings::device_type(ty).to_string_lossy();
    match value {
        Value::Undef => {}
        Value::Value(inner) => return self::value(prefix, inner),
        Value::Info(inner) => return info(prefix, inner),
        Value::App(inner) => return [prefix, &app(inner)].concat(),
        Value::Query(inner) => return query(prefix, inner),
        Value::Proc(inner) => return proc(prefix, inner),
        Value::ProcInfo(inner) => return proc_info(prefix, inner),
        Value::DataArray(inner) => return array(prefix, inner),
        Value::Coord(inner) => return coord(prefix, inner),
        Value::Pdata(pdata) => {
            let key = attribute(pdata.key.as_bytes());
            let value = self::value(prefix, &pdata.value);
            return [prefix, b"  ", &proc(prefix, &pdata.proc), b"  KEY: ", &key, b" ", &value].concat();
        }
        Value::DataBuffer(bytes) => {
            let mut out = [prefix, b"PMIX_DATA_BUFFER NumBytesUsed: "].concat();
            add!(out, "{}", bytes.len());
            return out;
        }
        Value::Code { ty: DataType::INFO_DIRECTIVES, bits } => {
            let mut out = [prefix, b"PMIX_INFO_DIRECTIVES\tValue: "].concat();
            add!(out, "{}", directives(*bits as u32));
            return out;
        }
        Value::Bool(flag) => add!(out, "\tValue: {}", if *flag { "TRUE" } else { "FALSE" }),
        Value::Byte(byte) => add!(out, "\tValue: {byte:x}"),
        Value::Status(status) => add!(out, "\tValue: {}", strings::error(status.0).to_string_lossy()),
        Value::String(text) => {
            let text = text.as_deref().map_or(&b"NULL pointer"[..], CStr::to_bytes);
            out.extend_from_slice(&[b"\tValue: ", text].concat());
        }
        Value::ProcNspace(nspace) => out.extend_from_slice(&[b"\tValue: ", nspace.as_bytes()].concat()),
        Value::Rank(rank) => add!(out, "\tValue: {}", long_rank(*rank)),
        Value::Float(number) => add!(out, "\tValue: {}", real((*number).into())),
        Value::Double(number) => add!(out, "\tValue: {}", real(*number)),
        Value::Timeval { sec, usec } => add!(out, "\tValue: {}.{}", *sec as u64, *usec as u64),
        Value::Time(seconds) => add!(out, "\tValue: {}", time(*seconds)),
        Value::Pid(pid) => add!(out, "\tValue: {}", i64::from(*pid) as u64),
        Value::Int(n) | Value::Int32(n) => add!(out, "\tValue: {n}"),
        Value::Int8(n) => add!(out, "\tValue: {n}"),
        Value::Int16(n) => add!(out, "\tValue: {n}"),
        Value::Int64(n) => add!(out, "\tValue: {n}"),
        Value::Uint8(n) => add!(out, "\tValue: {n}"),
        Value::Uint16(n) => add!(out, "\tValue: {n}"),
        Value::Uint(n) | Value::Uint32(n) => add!(out, "\tValue: {n}"),
        Value::Size(n) | Value::Uint64(n) => add!(out, "\tValue: {n}"),
        Value::Code { ty, bits } => add!(out, "\tValue: {}", code(*ty, *bits)),
        Value::Pointer(address) => add!(out, "\tAddress: {address:#x}"),
        Value::ByteObject(bytes) | Value::CompressedString(bytes) | Value::CompressedByteObject(bytes) => {
            add!(out, "\tSize: {}", bytes.len());
        }
        Value::Buffer { bytes, .. } => add!(out, "\tSize: {}", bytes.len()),
        Value::Regex(bytes) => {
            let text = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
            out.extend_from_slice(&[b"\tName: ", text].concat());
        }
        Value::Regex2 { ty, bytes } => {
            out.extend_from_slice(&[b"\tType: ", or_null(ty)].concat());
            add!(out, "\tLen: {}", bytes.len());
        }
        Value::Envar(envar) => {
            let separator = [if envar.separator == 0 { b' ' } else { envar.separator }];
            let parts: [&[u8]; 6] =
                [b"\tName: ", or_null(&envar.name), b"\tValue: ", or_null(&envar.value), b"\tSeparator: ", &separator];
            out.extend_from_slice(&parts.concat());
        }
        Value::Regattr(regattr) => {
            let key = regattr.key.as_bytes();
            let key = if key.is_empty() { b"NULL" } else { key };
            out.extend_from_slice(&[b"\tName: ", or_null(&regattr.name), b"\tString: ", key].concat());
        }
        Value::Geometry(geometry) => {
            add!(out, "\tValue: Fabric: {} UUID: ", geometry.fabric);
            out.extend_from_slice(&[or_null(&geometry.uuid), b" OSName: ", or_null(&geometry.osname)].concat());
            for point in &geometry.coordinates {
                out.push(b'\n');
                out.extend_from_slice(&coord(prefix, point));
            }
        }
        Value::Device(device) => {
            let names: [&[u8]; 4] = [b"\tValue: UUID: ", or_null(&device.uuid), b" OSName: ", or_null(&device.osname)];
            out.extend_from_slice(&names.concat());
            add!(out, " Type: {}", device_type(device.ty));
        }
        Value::DeviceDistance(distance) => {
            let names: [&[u8]; 4] =
                [b"\tValue: UUID: ", or_null(&distance.uuid), b" OSName: ", or_null(&distance.osname)];
            out.extend_from_slice(&names.concat());
            add!(out, " Type: {} Min: {} Max: {}", device_type(distance.ty), distance.min, distance.max);
        }
        Value::Endpoint(endpoint) => {
            out.extend_from_slice(&[b"\tValue: ", or_null(&endpoint.uuid), b"(", or_null(&endpoint.osname)].concat());
            add!(out, ") #bytes: {}", endpoint.bytes.len());
        }
        Value::ResourceUnit { ty, count } => add!(out, "\tValue: Type: {}  Count: {count}", device_type(*ty)),
        Value::NodePid { hostname, nodeid, pid } => {
            out.extend_from_slice(&[b"\tValue: Host ", or_null(hostname)].concat());
            add!(out, "({nodeid}) PID {pid}");
        }
        Value::Topology { xml, support } => {
            // Without hwloc the XML text is shown.
            let words = xml.as_deref().and_then(|xml| topology::in_words(xml, support).ok());
            out.extend_from_slice(&[b"\tValue: ", words.as_deref().unwrap_or(or_null(xml))].concat());
        }
        Value::Cpuset { list, .. } => out.extend_from_slice(&[b"\tValue: ", or_null(list)].concat()),
        Value::Kval(_) | Value::ProcStats(_) | Value::DiskStats(_) | Value::NetStats(_) | Value::NodeStats(_) => {
            add!(out, "\tValue: {value:?}")
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directives_read_as_in_the_stock_library() {
        assert_eq!(directives(0), "OPTIONAL");
        assert_eq!(directives(7), "REQUIRED:PROCESSED:END");
        assert_eq!(directives(9), "QUALIFIER");
        assert_eq!(directives(17), "REQUIRED:PERSISTENT");
    }

    #[test]
    fn bytes_stay_as_they_are() {
        let text = Value::string(b"\xff\xc3");
        assert_eq!(object(PREFIX, &text), b" Data type: PMIX_STRING\tValue: \xff\xc3");
        let infos = Value::infos([Info::new("pmix.timeout", Value::Int(-2))]);
        let shown = String::from_utf8(value(b"", &infos)).unwrap();
        assert!(shown.starts_with("PMIX_VALUE:  Data type: PMIX_DATA_ARRAY\tType: PMIX_INFO\tSize: 1\n"), "{shown}");
        assert!(shown.contains("KEY: PMIX_TIMEOUT\n"), "{shown}");
    }
}
