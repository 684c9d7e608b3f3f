//! Tests of the codec: every type in every dialect, edge values, malformed input.

mod encoding;
mod generated;
mod malformed;
mod stock;

use std::ffi::CString;

use super::{BufferType, Dialect, Module, Packer, Unpacker, Untyped};
use super::{pack_stored, unpack_stored};
use crate::compression::compress;
use crate::model::{
    App, Coord, DataArray, DataType, Device, DeviceDistance, DiskStats, Endpoint, Envar, Geometry, Info, Kval,
    NetStats, NodeStats, Nspace, Pdata, Proc, ProcInfo, ProcStats, Query, Rank, Regattr, Status, Value,
};

fn dialects() -> impl Iterator<Item = Dialect> {
    let buffers = [BufferType::NonDescribed, BufferType::Described];
    Module::ALL.into_iter().flat_map(move |module| buffers.map(|buffer| Dialect::new(module, buffer)))
}

fn proc(nspace: &str, rank: u32) -> Proc {
    Proc::new(Nspace::new(nspace).unwrap(), Rank(rank))
}

fn text(text: &str) -> Option<CString> {
    Some(CString::new(text).unwrap())
}

fn infos() -> Vec<Info> {
    vec![
        Info::new("pmix.hname", Value::String(None)),
        Info { key: "pmix.timeout".into(), flags: 0xffff_ffef, value: Value::Int(-1) },
        Info::new("nested", Value::infos([Info::new("deep", Value::Undef)])),
    ]
}

/// Values of every type, with the edges of their ranges.
fn samples() -> Vec<Value> {
    let array = |ty, items| Value::DataArray(Box::new(DataArray { ty, items }));
    let coord = Coord { view: 1, coords: vec![0, 7, u32::MAX] };
    let disk = DiskStats { disk: text("sda"), counts: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, u64::MAX] };
    let net = NetStats { interface: None, counts: [u64::MAX, 0, 1, 2, 3, 4] };
    let mut values = vec![
        Value::Undef,
        Value::Bool(false),
        Value::Bool(true),
        Value::Byte(0xff),
        Value::String(None),
        Value::string(""),
        Value::string("text"),
        Value::string("x".repeat(20_000)),
        Value::Float(12.5),
        Value::Float(f32::MIN_POSITIVE),
        Value::Float(f32::INFINITY),
        Value::Double(-2.25),
        Value::Double(0.1),
        Value::Double(f64::MAX),
        Value::Double(f64::NEG_INFINITY),
        Value::Timeval { sec: i64::MIN, usec: 999_999 },
        Value::Proc(proc("job.1", Rank::WILDCARD.0)),
        Value::Proc(proc("", 0)),
        Value::ProcNspace(Nspace::new("n").unwrap()),
        Value::ByteObject(Vec::new().into()),
        Value::ByteObject(vec![0, 1, 0xff].into()),
        Value::CompressedString(compress(b"long text").unwrap().into()),
        Value::CompressedByteObject(compress(b"").unwrap().into()),
        Value::Regex(b"pmix[odin[3:1-3]]\0".to_vec().into()),
        Value::Regex(b"raw:a,b\0".to_vec().into()),
        Value::Regex(b"blob:\0component=zlib:\0size=4:\0\0\x01\0\x02".to_vec().into()),
        Value::DataBuffer(vec![9; 300].into()),
        Value::Buffer { kind: 1, bytes: vec![1, 2] },
        Value::Pointer(0),
        Value::Envar(Envar { name: text("A"), value: None, separator: b':' }),
        array(DataType::UNDEF, Vec::new()),
        array(DataType::INT32, Vec::new()),
        array(DataType::UINT16, vec![Value::Uint16(0), Value::Uint16(u16::MAX)]),
        array(DataType::STRING, vec![Value::string("one"), Value::String(None)]),
        array(DataType::POINTER, vec![Value::Pointer(0); 3]),
        array(DataType::VALUE, vec![Value::Value(Box::new(Value::Undef)), Value::Value(Box::new(Value::Int(5)))]),
        array(DataType::PROC, vec![Value::Proc(proc("a", 1)), Value::Proc(proc("b", 2))]),
        array(DataType::DATA_ARRAY, vec![array(DataType::BOOL, vec![Value::Bool(true)])]),
        Value::infos(infos()),
        Value::Value(Box::new(Value::Size(3))),
        Value::Info(Box::new(infos().remove(2))),
        Value::Pdata(Box::new(Pdata { proc: proc("p", 3), key: "k".into(), value: Value::string("v") })),
        Value::Kval(Box::new(Kval { key: "k".into(), value: Value::Bool(true) })),
        Value::App(Box::new(App {
            cmd: text("prog"),
            argv: vec![c"prog".into(), c"".into()],
            env: vec![c"A=B".into()],
            cwd: None,
            maxprocs: -1,
            infos: infos(),
        })),
        Value::Query(Box::new(Query { keys: vec![c"pmix.qry.ns".into()], qualifiers: infos() })),
        Value::Query(Box::new(Query { keys: Vec::new(), qualifiers: Vec::new() })),
        Value::ProcInfo(Box::new(ProcInfo {
            proc: proc("p", 3),
            hostname: text("h"),
            executable: None,
            pid: -1,
            exit_code: 0,
            state: 20,
        })),
        Value::Regattr(Box::new(Regattr {
            name: text("PMIX_JOB_SIZE"),
            key: "pmix.job.size".into(),
            ty: DataType::UINT32,
            description: vec![c"line".into(), c"".into()],
        })),
        Value::Coord(Box::new(coord.clone())),
        Value::Geometry(Box::new(Geometry {
            fabric: u64::MAX,
            uuid: text("u"),
            osname: None,
            coordinates: vec![coord.clone(), coord],
        })),
        Value::DeviceDistance(Box::new(DeviceDistance {
            uuid: text("u"),
            osname: text("eth0"),
            ty: u64::MAX,
            min: 0,
            max: u16::MAX,
        })),
        Value::Device(Box::new(Device { uuid: None, osname: text("eth0"), ty: 4 })),
        Value::Endpoint(Box::new(Endpoint { uuid: text("u"), osname: None, bytes: vec![1, 2, 3] })),
        Value::Cpuset { source: text("hwloc"), list: text("0-3,8") },
        Value::Cpuset { source: text("hwloc"), list: None },
        Value::Topology { xml: text("<topology/>"), support: [1; 32].to_vec() },
        Value::Topology { xml: None, support: Vec::new() },
        Value::ResourceUnit { ty: 8, count: u64::MAX },
        Value::NodePid { hostname: text("h"), nodeid: u32::MAX, pid: i32::MAX },
        Value::Regex2 { ty: text("zlib"), bytes: vec![0, 1, 2] },
        Value::Regex2 { ty: None, bytes: Vec::new() },
        Value::ProcStats(Box::new(proc_stats())),
        Value::DiskStats(Box::new(disk.clone())),
        Value::NetStats(Box::new(net.clone())),
        Value::NodeStats(Box::new(NodeStats {
            node: text("n"),
            amounts: [0.0, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 1e9],
            sample_time: (1, -1),
            disks: vec![disk; 2],
            interfaces: vec![net],
        })),
    ];
    let edges = [0, 1, 0x7f, 0x80, 0xff, 0x3fff, 0x4000, 0x7fff, 0x8000, 0xffff, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff];
    let edges = edges.into_iter().chain((5..64).map(|bit| (1 << bit) - 1)).chain([1 << 63, u64::MAX]);
    for bits in edges {
        for code in 0..=DataType::ALLOC_INHERIT.0 {
            let ty = DataType(code);
            let float = matches!(ty, DataType::FLOAT | DataType::DOUBLE | DataType::POINTER);
            let width = ty.scalar_width().unwrap_or(0);
            if !float && width > 0 && (width == 8 || bits >> (8 * width) == 0) {
                values.push(Value::from_scalar(ty, bits).unwrap());
            }
        }
    }
    values
}

#[test]
fn every_type_survives_every_dialect_that_knows_it() {
    for dialect in dialects() {
        for value in samples() {
            let ty = value.data_type();
            let mut packer = Packer::new(dialect);
            match packer.value(&value) {
                Ok(()) => {}
                Err(Status::ERR_UNKNOWN_DATA_TYPE) => {
                    assert!(packer.is_empty(), "{dialect:?} {value:?}");
                    assert!(dialect.module < Module::V61 || !dialect.module.knows(ty), "{dialect:?} {value:?}");
                    continue;
                }
                Err(error) => panic!("{dialect:?} {value:?}: {error}"),
            }
            assert!(dialect.module.knows(ty));
            let bytes = packer.into_bytes();
            let mut unpacker = Unpacker::new(dialect, &bytes);
            assert_eq!(unpacker.value().as_ref(), Ok(&value), "{dialect:?}");
            assert!(unpacker.is_empty());
        }
    }
}

#[test]
fn bytes_at_once_are_packed_as_single_ones() {
    let bytes = [0, 1, 127, 128, 255];
    for ty in [DataType::BYTE, DataType::UINT8, DataType::INT8] {
        let value = |byte: u8| Value::from_scalar(ty, u64::from(byte)).unwrap();
        for dialect in dialects() {
            let (mut one_by_one, mut at_once) = (Packer::new(dialect), Packer::new(dialect));
            one_by_one.pack(ty, &bytes.map(value)).unwrap();
            at_once.octets(ty, &bytes).unwrap();
            assert_eq!(at_once.as_bytes(), one_by_one.as_bytes());
            let mut unpacker = Unpacker::new(dialect, at_once.as_bytes());
            assert_eq!((unpacker.octets(ty), unpacker.rest()), (Ok(&bytes[..]), &[][..]));
            let cut = &at_once.as_bytes()[..at_once.len() - 1];
            assert_eq!(
                Unpacker::new(dialect, cut).octets(ty),
                Unpacker::new(dialect, cut).unpack_all(ty).map(|_| &[][..])
            );
            assert!(Unpacker::new(dialect, cut).octets(ty).is_err());
        }
    }
}

fn proc_stats() -> ProcStats {
    ProcStats {
        node: text("n"),
        proc: proc("p", 3),
        pid: 4,
        cmd: None,
        state: b'R',
        time: (i64::MIN, i64::MAX),
        percent_cpu: 0.0,
        priority: -20,
        num_threads: u16::MAX,
        pss: 1.5,
        vsize: 2.5,
        rss: 3.5,
        peak_vsize: 4.5,
        processor: 0x8000,
        sample_time: (5, 6),
    }
}

#[test]
fn our_encoding_keeps_statistics_that_the_peers_encoding_drops() {
    let stats = Value::ProcStats(Box::new(ProcStats { percent_cpu: 0.25, ..proc_stats() }));
    assert_eq!(unpack_stored(DataType::PROC_STATS, &pack_stored(&stats).unwrap()).as_ref(), Ok(&stats));
    let mut packer = Packer::new(Dialect::plain(Module::V41));
    packer.value(&stats).unwrap();
    let read = Unpacker::new(packer.dialect(), packer.as_bytes()).value();
    assert_eq!(read, Ok(Value::ProcStats(Box::new(proc_stats()))));
}

#[test]
fn stored_form_survives() {
    for value in samples() {
        let bytes = pack_stored(&value).unwrap();
        assert_eq!(unpack_stored(value.data_type(), &bytes).as_ref(), Ok(&value));
        let longer = [bytes.as_slice(), b"\0"].concat();
        assert!(unpack_stored(value.data_type(), &longer).is_err(), "{value:?}");
    }
}
