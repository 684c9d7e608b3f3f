//! The encoding of each type, and that the typed methods write the same bytes as the general one.

use super::*;
use crate::codec::ValueRef;
use crate::codec::{int, text};
use crate::compression::{decompress, expand};
use crate::model::{Key, Scope};

const V41: Dialect = Dialect::plain(Module::V41);
const V3: Dialect = Dialect::plain(Module::V3);
const V41_DESCRIBED: Dialect = Dialect::new(Module::V41, BufferType::Described);
const V20_DESCRIBED: Dialect = Dialect::new(Module::V20, BufferType::Described);

fn bare(dialect: Dialect, value: Value) -> Vec<u8> {
    let mut packer = Packer::new(dialect);
    packer.bare(&value).unwrap();
    packer.into_bytes()
}

fn packed(dialect: Dialect, write: impl FnOnce(&mut Packer)) -> Vec<u8> {
    let mut packer = Packer::new(dialect);
    write(&mut packer);
    packer.into_bytes()
}

#[test]
fn flexible_integers() {
    let cases: [(Value, &[u8]); 20] = [
        (Value::Int32(0), &[0x00]),
        (Value::Int32(1), &[0x02]),
        (Value::Int32(-1), &[0x01]),
        (Value::Status(Status(-46)), &[0x5b]),
        (Value::Status(Status(-3456)), &[0xff, 0x35]),
        (Value::Int32(i32::MIN), &[0xff, 0xff, 0xff, 0xff, 0x0f]),
        (Value::Uint32(300), &[0xac, 0x02]),
        (Value::Rank(Rank::WILDCARD), &[0xfe, 0xff, 0xff, 0xff, 0x0f]),
        (Value::Uint64(0xfedc_ba98_7654_3210), &[0x90, 0xe4, 0xd0, 0xb2, 0x87, 0xd3, 0xae, 0xee, 0xfe]),
        (Value::Uint64(u64::MAX), &[0xff; 9]),
        (Value::Uint64(1 << 56), &[0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01]),
        (Value::Uint64((1 << 56) - 1), &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f]),
        (Value::Int64(i64::MIN), &[0xff; 9]),
        (Value::Size(128), &[0x80, 0x01]),
        (Value::Uint(u32::MAX), &[0x01]),
        (Value::Int(-2), &[0x03]),
        (Value::Pid(7), &[0x0e, 0x07]),
        (Value::Int8(-1), &[0xff]),
        (Value::Int16(-64), &[0x7f]),
        (Value::Uint16(u16::MAX), &[0xff, 0xff, 0x03]),
    ];
    for (value, bytes) in cases {
        assert_eq!(bare(V41, value.clone()), bytes, "{value:?}");
    }
}

#[test]
fn fixed_integers() {
    let cases: [(Value, &[u8]); 8] = [
        (Value::Int32(-2), &[0xff, 0xff, 0xff, 0xfe]),
        (Value::Uint16(0x0102), &[1, 2]),
        (Value::Uint64(1), &[0, 0, 0, 0, 0, 0, 0, 1]),
        (Value::Int(-1), &[0, 9, 0xff, 0xff, 0xff, 0xff]),
        (Value::Uint(u32::MAX), &[0, 9, 0xff, 0xff, 0xff, 0xff]),
        (Value::Size(2), &[0, 15, 0, 0, 0, 0, 0, 0, 0, 2]),
        (Value::Pid(3), &[0, 14, 0, 0, 0, 3]),
        (Value::Int8(-1), &[0xff]),
    ];
    for (value, bytes) in cases {
        assert_eq!(bare(V3, value.clone()), bytes, "{value:?}");
    }
    // A number with a tag is read whichever integer type the tag names.
    let cases: [(&[u8], DataType, Value); 5] = [
        (&[0, 7, 0xff], DataType::INT, Value::Int(-1)),
        (&[0, 10, 0, 0, 0, 0, 0, 0, 0, 5], DataType::INT, Value::Int(5)),
        (&[0, 14, 0xff, 0xff, 0xff, 0xff], DataType::UINT, Value::Uint(u32::MAX)),
        (&[0, 14, 0, 0, 0, 5], DataType::SIZE, Value::Size(5)),
        (&[0, 9, 0, 0, 0, 5], DataType::PID, Value::Pid(5)),
    ];
    for (bytes, ty, value) in cases {
        assert_eq!(Unpacker::new(V3, bytes).bare(ty), Ok(value));
    }
}

#[test]
fn flexible_integers_survive_at_every_length() {
    for bit in 0..64 {
        for number in [1 << bit, (1 << bit) - 1, u64::MAX >> bit] {
            let mut bytes = Vec::new();
            int::write_flexible(&mut bytes, number);
            let len = bytes.len();
            assert_eq!(len, (64 - number.leading_zeros()).div_ceil(7).clamp(1, 9) as usize, "{number:#x}");
            assert_eq!(int::read_flexible(&bytes), Some((number, len)));
            assert_eq!(int::read_flexible(&bytes[..len - 1]), None);
            assert_eq!(int::unfold(int::fold(number as i64)), number as i64);
        }
    }
}

#[test]
fn operations() {
    assert_eq!(packed(V41, |packer| packer.command(0)), [2, 0]);
    assert_eq!(packed(V41_DESCRIBED, |packer| packer.command(0)), [9, 2, 0x22, 0]);
    assert_eq!(packed(V3, |packer| packer.command(4)), [0, 0, 0, 1, 4]);
    assert_eq!(packed(V20_DESCRIBED, |packer| packer.command(4)), [0, 9, 0, 0, 0, 1, 0, 14, 0, 0, 0, 4]);
    assert_eq!(packed(V41, |packer| packer.string(None).unwrap()), [2, 0]);
    assert_eq!(packed(V41, |packer| packer.string(Some(b"")).unwrap()), [2, 2, 0]);
    assert_eq!(packed(V41, |packer| packer.string(Some(b"ab\0c")).unwrap()), [2, 6, b'a', b'b', 0]);
    assert_eq!(packed(V41, |packer| packer.procs(&[]).unwrap()), [2, 0]);
    assert_eq!(packed(V41, |packer| packer.procs_uncounted(&[]).unwrap()), [0]);
    assert_eq!(
        packed(V41_DESCRIBED, |packer| packer.buffer_of(|packer| packer.raw(&[5])).unwrap()),
        [9, 2, 26, 2, 1, 5]
    );
    assert_eq!(packed(V41, |packer| packer.scope(Scope::Remote)), [2, 2]);
}

#[test]
fn older_encoder_has_its_own_habits() {
    let v20 = Dialect::plain(Module::V20);
    assert_eq!(packed(v20, |packer| packer.command(4)), [0, 0, 0, 1, 0, 0, 0, 4]);
    assert_eq!(Unpacker::new(v20, &[0, 0, 0, 1, 0, 0, 2, 12]).command(), Ok(12));
    let bytes = packed(v20, |packer| packer.buffer_of(|packer| packer.raw(&[5])).unwrap());
    assert_eq!(bytes, [0, 0, 0, 1, 0, 15, 0, 0, 0, 0, 0, 0, 0, 1, 5]);
    assert_eq!(Unpacker::new(v20, &bytes).buffer().unwrap().rest(), [5]);
    let pdata =
        Pdata { proc: Proc::new(Nspace::new("n").unwrap(), Rank(1)), key: "k".into(), value: Value::Bool(true) };
    let bytes = packed(v20, |packer| packer.pdata(&[pdata]).unwrap());
    assert_eq!(bytes[bytes.len() - 7..], [0, 9, 0, 0, 0, 1, 1]);
    assert_eq!(Unpacker::new(v20, &bytes).pdata(1).map(|pdata| pdata[0].value.clone()), Ok(Value::Bool(true)));
    let info = Info::new("k", Value::Bool(true));
    let bytes = packed(v20, |packer| packer.info(&info).unwrap());
    assert_eq!(bytes, [0, 0, 0, 1, 0, 0, 0, 2, b'k', 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 1, 1]);
    assert_eq!(Unpacker::new(v20, &bytes).info(), Ok(info));
    let array = Value::DataArray(Box::new(DataArray { ty: DataType::BYTE, items: vec![Value::Byte(7)] }));
    let count = [0, 15, 0, 0, 0, 0, 0, 0, 0, 1];
    assert_eq!(bare(v20, array.clone()), [&[0, 2], &count[..], &[7]].concat());
    assert_eq!(bare(V20_DESCRIBED, array), [&[0, 2], &count[..], &[0, 2, 7]].concat());
}

#[test]
fn typed_methods_write_the_same_bytes_as_the_general_one() {
    let values = infos();
    let procs = [proc("a", 1), proc("b", Rank::WILDCARD.0)];
    let boxed: Vec<_> = values.iter().map(|info| Value::Info(Box::new(info.clone()))).collect();
    for dialect in dialects() {
        let general = |ty, values: &[Value]| packed(dialect, |packer| packer.pack(ty, values).unwrap());
        let typed = |write: &dyn Fn(&mut Packer)| packed(dialect, write);
        let three = general(DataType::SIZE, &[Value::Size(3)]);
        assert_eq!(typed(&|p| p.infos(&values).unwrap()), [three, general(DataType::INFO, &boxed)].concat());
        let two = general(DataType::SIZE, &[Value::Size(2)]);
        let general_procs = general(DataType::PROC, &procs.clone().map(Value::Proc));
        assert_eq!(typed(&|p| p.procs(&procs).unwrap()), [two, general_procs].concat());
        assert_eq!(typed(&|p| p.status(Status(-46))), general(DataType::STATUS, &[Value::Status(Status(-46))]));
        assert_eq!(typed(&|p| p.uint32(9)), general(DataType::UINT32, &[Value::Uint32(9)]));
        assert_eq!(typed(&|p| p.rank(Rank(9))), general(DataType::PROC_RANK, &[Value::Rank(Rank(9))]));
        assert_eq!(typed(&|p| p.byte(9)), general(DataType::BYTE, &[Value::Byte(9)]));
        assert_eq!(typed(&|p| p.bool(true)), general(DataType::BOOL, &[Value::Bool(true)]));
        assert_eq!(typed(&|p| p.time(9)), general(DataType::TIME, &[Value::Time(9)]));
        assert_eq!(
            typed(&|p| p.byte_object(b"xy").unwrap()),
            general(DataType::BYTE_OBJECT, &[Value::ByteObject(b"xy".to_vec().into())])
        );
        for value in samples() {
            let key = Key::from("k");
            let mut packer = Packer::new(dialect);
            let by_value = packer.kval(&key, &value);
            let mut by_ref = Packer::new(dialect);
            assert_eq!(by_ref.kval_ref(b"k", ValueRef::from(&value)), by_value);
            assert_eq!(by_ref.as_bytes(), packer.as_bytes());
            if let Ok(stored) = pack_stored(&value) {
                let mut by_stored = Packer::new(dialect);
                let stored = ValueRef::Packed { ty: value.data_type(), bytes: &stored };
                assert_eq!(by_stored.kval_ref(b"k", stored), by_value);
                assert_eq!(by_stored.as_bytes(), packer.as_bytes());
            }
            if by_value.is_ok() {
                let mut unpacker = Unpacker::new(dialect, packer.as_bytes());
                assert_eq!(unpacker.kval(), Ok(Kval { key, value }));
            }
        }
    }
}

#[test]
fn infos_of_a_realm_are_an_array_of_infos() {
    let values = infos().map_keys();
    let realm = values.iter().map(|(key, value)| (key.as_bytes(), ValueRef::from(value)));
    for dialect in dialects() {
        let mut by_realm = Packer::new(dialect);
        by_realm.kval_infos("pmix.node.arr", realm.clone()).unwrap();
        let infos = values.iter().map(|(key, value)| Info { key: key.clone(), flags: 0, value: value.clone() });
        let mut by_value = Packer::new(dialect);
        by_value.kval(&"pmix.node.arr".into(), &Value::infos(infos)).unwrap();
        assert_eq!(by_realm.as_bytes(), by_value.as_bytes(), "{dialect:?}");
    }
}

trait MapKeys {
    fn map_keys(self) -> Vec<(Key, Value)>;
}

impl MapKeys for Vec<Info> {
    fn map_keys(self) -> Vec<(Key, Value)> {
        self.into_iter().map(|info| (info.key, info.value)).collect()
    }
}

#[test]
fn types_belong_to_encoders() {
    let newest_of = [
        (Module::V20, 43),
        (Module::V21, 43),
        (Module::V3, 46),
        (Module::V4, 59),
        (Module::V41, 69),
        (Module::V51, 72),
        (Module::V61, 75),
    ];
    for (module, newest) in newest_of {
        assert!(module.knows(DataType(newest)), "{module:?}");
        assert!((newest + 1..200).all(|code| !module.knows(DataType(code))), "{module:?}");
        assert_eq!(Module::from_name(module.name().as_bytes()), Some(module));
        let mut packer = Packer::new(Dialect::plain(module));
        let unknown = Value::DataArray(Box::new(DataArray {
            ty: DataType::VALUE,
            items: vec![
                Value::Value(Box::new(Value::Int(1))),
                Value::Value(Box::new(Value::Code { ty: DataType(newest + 1), bits: 0 })),
            ],
        }));
        packer.command(1);
        let before = packer.len();
        assert_eq!(packer.value(&unknown), Err(Status::ERR_UNKNOWN_DATA_TYPE));
        assert_eq!(
            packer.infos(&[Info::new("a", Value::Bool(true)), Info::new("b", unknown)]),
            Err(Status::ERR_UNKNOWN_DATA_TYPE)
        );
        assert_eq!(packer.len(), before, "what failed leaves nothing behind");
    }
    assert_eq!(Module::from_name(b"v12"), None);
    assert_eq!(Module::from_name(b""), None);
}

#[test]
fn floating_point_numbers_are_text() {
    assert_eq!(bare(V41, Value::Float(12.5)), b"\x1412.500000\0");
    assert_eq!(bare(V41, Value::Double(-2.25)), b"\x14-2.250000\0");
    assert_eq!(text::from_double(0.1), "0.100000");
    assert_eq!(text::from_double(-0.0), "-0.000000");
    assert_eq!(text::from_double(1e-9), "1e-9", "six decimals would lose it");
    assert_eq!(text::from_float(1.0 / 3.0), "3.3333334e-1");
    assert_eq!(text::from_double(f64::NAN), "nan");
    assert_eq!(text::to_double(b"-inf"), Some(f64::NEG_INFINITY));
    assert!(text::to_double(b"-nan").unwrap().is_nan());
    assert!(text::to_float(b"nan").unwrap().is_nan());
    assert_eq!(text::to_double(b" 1.5 "), Some(1.5));
    assert_eq!(text::to_double(b"0x"), None);
    assert_eq!(text::to_double(b"\xff"), None);
}

#[test]
fn regexes_tell_where_they_end() {
    assert_eq!(text::regex_len(b"pmix[a]\0rest"), Some(8));
    assert_eq!(text::regex_len(b"raw:\0"), Some(5));
    assert_eq!(text::regex_len(b"no end"), None);
    assert_eq!(text::regex_len(b"blob:\0component=zlib:\0size=3:\0a\0crest"), Some(33));
    assert_eq!(text::regex_len(b"blob:\0component=zlib:\0size=4:\0abc"), None);
    assert_eq!(text::regex_len(b"blob:\0component=zlib:\0size=99999999999999999999:\0abc"), None);
    assert_eq!(text::regex_len(b"blob:\0component=zlib:\0siz=1:\0abc"), None);
    assert_eq!(text::regex_len(b"blob:\0"), None);
    assert_eq!(bare(V41, Value::Regex(b"raw:a".to_vec().into())), b"raw:a\0", "an end is added where it is missing");
    assert_eq!(Packer::new(V41).bare(&Value::Regex(b"raw:a\0b".to_vec().into())), Err(Status::ERR_PACK_FAILURE));
}

#[test]
fn compressed_values_expand() {
    let long = vec![b'q'; 9000];
    let compressed = compress(&long).unwrap();
    assert_eq!(compressed[..4], 9000u32.to_ne_bytes());
    assert_eq!(compressed[4..6], [0x78, 0xda], "the strongest compression, as released libraries use");
    assert_eq!(decompress(&compressed), Ok(long.clone()));
    assert_eq!(decompress(&compress(b"").unwrap()), Ok(Vec::new()));
    let value = Value::CompressedString(compressed.clone().into());
    assert_eq!(expand(&value), Ok(Some(Value::string(&long))));
    assert_eq!(
        expand(&Value::CompressedByteObject(compressed.clone().into())),
        Ok(Some(Value::ByteObject(long.clone().into())))
    );
    assert_eq!(expand(&Value::string("plain")), Ok(None));
    // For a peer that breaks on compressed strings they are packed as plain ones, at any depth.
    let array = DataArray { ty: DataType::COMPRESSED_STRING, items: vec![value.clone()] };
    let nested = Value::infos([Info::new("a", value), Info::new("b", Value::DataArray(Box::new(array)))]);
    let text = Value::string(&long);
    let array = DataArray { ty: DataType::STRING, items: vec![text.clone()] };
    let plain = Value::infos([Info::new("a", text), Info::new("b", Value::DataArray(Box::new(array)))]);
    let mut packer = Packer::new(V3).expanding(true).nested();
    packer.value(&nested).unwrap();
    assert_eq!(packer.into_bytes(), packed(V3, |packer| packer.value(&plain).unwrap()));
}

#[test]
fn numbers_of_the_machines_own_width_have_one_tag_for_all() {
    let pids = [Value::Pid(1), Value::Pid(-1)];
    let mut packer = Packer::new(Dialect::plain(Module::V41));
    packer.pack(DataType::PID, &pids).unwrap();
    assert_eq!(packer.as_bytes(), [4, 14, 1, 0xff, 0xff, 0xff, 0xff, 0x0f]);
    let sizes = [Value::Size(1), Value::Size(2)];
    let mut packer = Packer::new(Dialect::plain(Module::V3));
    packer.pack(DataType::SIZE, &sizes).unwrap();
    let [count, tag, first, second] =
        [&[0, 0, 0, 2][..], &[0, 15], &[0, 0, 0, 0, 0, 0, 0, 1], &[0, 0, 0, 0, 0, 0, 0, 2]];
    assert_eq!(packer.as_bytes(), [count, tag, first, second].concat());
    for dialect in dialects() {
        for (ty, items) in [
            (DataType::PID, pids.to_vec()),
            (DataType::SIZE, sizes.to_vec()),
            (DataType::INT, vec![Value::Int(-5), Value::Int(i32::MAX)]),
            (DataType::UINT, vec![Value::Uint(5), Value::Uint(u32::MAX)]),
        ] {
            let array = Value::DataArray(Box::new(DataArray { ty, items: items.clone() }));
            let mut packer = Packer::new(dialect);
            packer.pack(ty, &items).unwrap();
            packer.value(&array).unwrap();
            let mut unpacker = Unpacker::new(dialect, packer.as_bytes());
            assert_eq!(unpacker.unpack_all(ty).as_ref(), Ok(&items), "{dialect:?}");
            assert_eq!(unpacker.value().as_ref(), Ok(&array), "{dialect:?}");
        }
    }
}
