//! Operations as `PMIx_Data_pack` of libpmix 4.2.2 packs them, for the types that no recorded exchange holds.

use super::*;

const V41: Dialect = Dialect::plain(Module::V41);
const DESCRIBED: Dialect = Dialect::new(Module::V41, BufferType::Described);

fn hex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}

fn code(ty: DataType, bits: u64) -> Value {
    Value::Code { ty, bits }
}

fn array(ty: DataType, items: Vec<Value>) -> Value {
    Value::DataArray(Box::new(DataArray { ty, items }))
}

fn value(value: Value) -> Value {
    Value::Value(Box::new(value))
}

#[test]
fn operations_are_those_of_the_stock_library() {
    let coord = Coord { view: 2, coords: vec![0, 7, u32::MAX] };
    let small = Value::Coord(Box::new(Coord { view: 2, coords: vec![7] }));
    let geometry = Geometry { fabric: 9, uuid: text("u"), osname: None, coordinates: vec![coord.clone()] };
    let procinfo =
        ProcInfo { proc: proc("job", 3), hostname: text("h"), executable: None, pid: -1, exit_code: 0, state: 20 };
    let regattr = Regattr {
        name: text("PMIX_JOB_SIZE"),
        key: "pmix.job.size".into(),
        ty: DataType::UINT32,
        description: vec![c"line".into(), c"".into()],
    };
    let no_regattr = Regattr { name: None, key: "".into(), ty: DataType::UNDEF, description: Vec::new() };
    let distance = DeviceDistance { uuid: text("u"), osname: text("eth0"), ty: 4, min: 1, max: u16::MAX };
    let endpoint = |bytes: &[u8]| Endpoint { uuid: text("u"), osname: None, bytes: bytes.to_vec() };
    let wide = 0x12_3456_7890;
    let cases: Vec<(&str, Vec<Value>)> = vec![
        (
            "0612302e313030303030001431322e35303030303000142d302e30303030303000",
            [0.1, 12.5, -0.0].map(Value::Double).into(),
        ),
        ("040a2d696e660008696e6600", [f64::NEG_INFINITY, f64::INFINITY].map(Value::Double).into()),
        ("0212302e31303030303000", vec![Value::Float(0.1)]),
        ("02010a", vec![Value::Timeval { sec: -1, usec: 5 }]),
        ("02ffffffffffffffffff", vec![Value::Time(-1)]),
        ("02086a6f620003046800000effffffff0f14", vec![Value::ProcInfo(Box::new(procinfo))]),
        ("02044100003a", vec![Value::Envar(Envar { name: text("A"), value: None, separator: b':' })]),
        ("0202030007ffffffff0f", vec![Value::Coord(Box::new(coord))]),
        ("0209047500000102030007ffffffff0f", vec![Value::Geometry(Box::new(geometry))]),
        (
            "021c504d49585f4a4f425f53495a45001c706d69782e6a6f622e73697a65000e040a6c696e65000200",
            vec![Value::Regattr(Box::new(regattr))],
        ),
        ("020002000000", vec![Value::Regattr(Box::new(no_regattr))]),
        ("02706d69785b6f64696e5b333a312d335d5d00", vec![Value::Regex(b"pmix[odin[3:1-3]]\0".to_vec().into())]),
        ("027261773a612c6200", vec![Value::Regex(b"raw:a,b\0".to_vec().into())]),
        ("0207", vec![code(DataType::JOB_STATE, 7)]),
        ("0207", vec![code(DataType::LINK_STATE, 7)]),
        ("0207", vec![code(DataType::PROC_STATE, 7)]),
        ("0207", vec![code(DataType::ALLOC_DIRECTIVE, 7)]),
        ("020475000a65746830000401ffff03", vec![Value::DeviceDistance(Box::new(distance))]),
        ("020475000003616263", vec![Value::Endpoint(Box::new(endpoint(b"abc")))]),
        ("020475000000", vec![Value::Endpoint(Box::new(endpoint(b"")))]),
        ("0290f1d9a2a302", vec![code(DataType::DEVTYPE, wide)]),
        ("0290f1d9a2a302", vec![code(DataType::STOR_MEDIUM, wide)]),
        ("0290f1d9a2a302", vec![code(DataType::STOR_ACCESS, wide)]),
        ("0290f1d9a2a302", vec![code(DataType::STOR_PERSIST, wide)]),
        ("02b424", vec![code(DataType::LOCTYPE, 0x1234)]),
        ("02b424", vec![code(DataType::STOR_ACCESS_TYPE, 0x1234)]),
        ("02b424", vec![code(DataType::IOF_CHANNEL, 0x1234)]),
        ("02b424", vec![code(DataType::DATA_TYPE, 0x1234)]),
        ("02efffffff0f", vec![code(DataType::INFO_DIRECTIVES, 0xffff_ffef)]),
        ("0203616263", vec![Value::CompressedByteObject(b"abc".to_vec().into())]),
        ("0203616263", vec![Value::CompressedString(b"abc".to_vec().into())]),
        ("020c6a6f622e3100", vec![Value::ProcNspace(Nspace::new("job.1").unwrap())]),
        ("0202020a", vec![Value::DataBuffer(vec![2, 10].into())]),
        ("020000", vec![Value::Query(Box::new(Query { keys: Vec::new(), qualifiers: Vec::new() }))]),
        ("0201", vec![Value::Pointer(0)]),
        ("0601", vec![Value::Pointer(0); 3]),
        ("0200", vec![value(Value::Undef)]),
        ("0216086a6f620001", vec![value(Value::Proc(proc("job", 1)))]),
        ("023c086a6f6200", vec![value(Value::ProcNspace(Nspace::new("job").unwrap()))]),
        ("022f020107", vec![value(small.clone())]),
        ("023303", vec![value(code(DataType::LINK_STATE, 3))]),
        ("023904", vec![value(code(DataType::DEVTYPE, 4))]),
        ("020300", vec![value(Value::String(None))]),
        ("02270d00", vec![value(array(DataType::UINT16, Vec::new()))]),
        ("02271502000101", vec![value(array(DataType::VALUE, vec![value(Value::Undef), value(Value::Bool(true))]))]),
        ("02272f01020107", vec![value(array(DataType::COORD, vec![small]))]),
        ("02271f0301", vec![value(array(DataType::POINTER, vec![Value::Pointer(0); 3]))]),
    ];
    for (bytes, values) in cases {
        let (bytes, ty) = (hex(bytes), values[0].data_type());
        let mut packer = Packer::new(V41);
        packer.pack(ty, &values).unwrap();
        assert_eq!(packer.as_bytes(), bytes, "{values:?}");
        let mut unpacker = Unpacker::new(V41, &bytes);
        assert_eq!(unpacker.unpack_all(ty).as_ref(), Ok(&values));
        assert!(unpacker.is_empty());
    }
    // With the stock library's parameter for described buffers.
    let mut packer = Packer::new(DESCRIBED);
    packer.pack(DataType::PROC_NSPACE, &[Value::ProcNspace(Nspace::new("job.1").unwrap())]).unwrap();
    assert_eq!(packer.into_bytes(), hex("09023c0c6a6f622e3100"));
}

#[test]
fn numbers_beyond_all_digits_are_those_of_the_stock_library() {
    // `%f` of 1e300: the exact decimal form of the double, 301 digits before the point.
    let mut packer = Packer::new(V41);
    packer.pack(DataType::DOUBLE, &[Value::Double(1e300)]).unwrap();
    let start = [b"\x02\xea\x04".as_slice(), b"1000000000000000052504760255204420248704"].concat();
    let end = b"6865459400540160.000000\0";
    let bytes = packer.into_bytes();
    assert!(bytes.starts_with(&start) && bytes.ends_with(end) && bytes.len() == 3 + 309);
}

/// The bytes that clients of several releases sent for an array without a type, followed by `changing` = 1 and `last` = 9. They
/// were recorded from commits; 7.0 sent a NULL pointer instead of an array.
#[test]
fn arrays_without_a_type_have_a_count_by_release() {
    let kval = |key: &'static str, value| Kval { key: key.into(), value };
    let untyped = || Value::DataArray(Box::new(DataArray { ty: DataType::UNDEF, items: Vec::new() }));
    let kvals = |name| vec![kval(name, untyped()), kval("changing", Value::Uint32(1)), kval("last", Value::Uint32(9))];
    let behind = b"\x02\x12changing\0\x0e\x01\x02\x0alast\0\x0e\x09";
    let counted = [&b"\x02\x10untyped\0\x27\0\0"[..], behind].concat();
    let bare = [&b"\x02\x10untyped\0\x27\0"[..], behind].concat();
    let null = [&b"\x02\x0anull\0\x27\0"[..], behind].concat();
    let replaced = [&b"\x02\x10untyped\0\x27\x02\0"[..], behind].concat();
    let v61 = Dialect::plain(Module::V61);
    let (either, only) = (v61.with_untyped(Untyped::Either), v61.with_untyped(Untyped::Bare));
    let exchanged = v61.with_untyped(Untyped::Replaced);
    let write = |dialect| {
        let mut packer = Packer::new(dialect);
        kvals("untyped").iter().for_each(|kval| packer.kval(&kval.key, &kval.value).unwrap());
        packer.into_bytes()
    };
    for (dialect, bytes) in [(V41, &counted), (either, &bare), (only, &bare), (exchanged, &replaced)] {
        assert_eq!(write(dialect), *bytes, "{dialect:?}");
    }
    for (dialect, bytes, name) in [
        (V41, &counted, "untyped"),
        (either, &counted, "untyped"),
        (either, &bare, "untyped"),
        (either, &null, "null"),
        (only, &bare, "untyped"),
        (only, &null, "null"),
        (exchanged, &counted, "untyped"),
        (exchanged, &bare, "untyped"),
    ] {
        assert_eq!(Unpacker::new(dialect, bytes).kvals().as_ref(), Ok(&kvals(name)), "{dialect:?}");
    }
    assert_ne!(Unpacker::new(V41, &bare).kvals().as_ref(), Ok(&kvals("untyped")));
    let read = Unpacker::new(exchanged, &replaced).kvals().unwrap();
    assert_eq!(read[0].value, Value::DataArray(Box::new(DataArray { ty: DataType::BYTE, items: Vec::new() })));
    // Where the array ends the message.
    for ends in [&bare[..12], &counted[..13]] {
        assert_eq!(Unpacker::new(either, ends).kvals().map(|kvals| kvals.len()), Ok(1));
    }
    // This encoder has always written the count.
    let v20 = Dialect::plain(Module::V20);
    assert_eq!(write(v20.with_untyped(Untyped::Bare)), write(v20));
}
