//! Bytes that no library packs.

use super::*;
use crate::codec::DEPTH_MAX;
use crate::compression::decompress_within;
use crate::compression::{decompress, expand};

const V41: Dialect = Dialect::plain(Module::V41);
const V3: Dialect = Dialect::plain(Module::V3);
const DESCRIBED: Dialect = Dialect::new(Module::V41, BufferType::Described);

const ENDED: Status = Status::ERR_UNPACK_READ_PAST_END_OF_BUFFER;
const MALFORMED: Status = Status::ERR_UNPACK_FAILURE;

#[test]
fn ends_inside_a_value_are_noticed() {
    for dialect in dialects() {
        for value in samples() {
            let mut packer = Packer::new(dialect);
            // The support flags after the XML of a topology are optional.
            if packer.value(&value).is_err() || value.data_type() == DataType::TOPO {
                continue;
            }
            let bytes = packer.into_bytes();
            let ends = (0..bytes.len()).filter(|end| *end < 64 || bytes.len() - end < 64);
            for end in ends {
                let result = Unpacker::new(dialect, &bytes[..end]).value();
                assert!(result.is_err(), "{dialect:?} {value:?} cut to {end} gave {result:?}");
            }
        }
    }
}

#[test]
fn types_without_a_reader_are_refused() {
    for code in [29, 44, 76, 200, 0x3fff] {
        let mut packer = Packer::new(V41);
        packer.code(DataType::VALUE, 0);
        let mut bytes = vec![2];
        bytes.extend_from_slice(&bare_tag(code));
        bytes.extend_from_slice(&[0; 32]);
        assert_eq!(Unpacker::new(V41, &bytes).value(), Err(Status::ERR_UNKNOWN_DATA_TYPE), "type {code}");
        assert_eq!(unpack_stored(DataType(code), &[0; 8]), Err(Status::ERR_UNKNOWN_DATA_TYPE));
    }
}

fn bare_tag(code: u16) -> Vec<u8> {
    pack_stored(&Value::Uint16(code)).unwrap()
}

#[test]
fn counts_and_tags_must_be_those_expected() {
    assert_eq!(Unpacker::new(V41, &[]).command(), Err(ENDED));
    assert_eq!(Unpacker::new(V41, &[4, 0, 0]).command(), Err(MALFORMED), "two where one is expected");
    let three = [6, 2, 4, 6];
    let numbers = [Value::Int16(1), Value::Int16(2), Value::Int16(3)];
    assert_eq!(Unpacker::new(V41, &three).unpack_all(DataType::INT16).as_deref(), Ok(numbers.as_slice()));
    assert_eq!(Unpacker::new(V41, &three).unpack(DataType::INT16, 3).as_deref(), Ok(numbers.as_slice()));
    assert_eq!(Unpacker::new(V41, &three).unpack(DataType::INT16, 2), Err(MALFORMED));
    assert_eq!(Unpacker::new(V41, &[1, 0]).command(), Err(MALFORMED), "minus one");
    assert_eq!(Unpacker::new(DESCRIBED, &[9, 2, 0x22, 7]).command(), Ok(7));
    assert_eq!(Unpacker::new(DESCRIBED, &[8, 2, 0x22, 7]).command(), Err(Status::ERR_TYPE_MISMATCH));
    assert_eq!(Unpacker::new(DESCRIBED, &[9, 2, 0x21, 7]).command(), Err(Status::ERR_TYPE_MISMATCH));
    assert_eq!(Unpacker::new(DESCRIBED, &[9, 2, 0x0e, 7]).command(), Err(Status::ERR_TYPE_MISMATCH));
    assert_eq!(Unpacker::new(V41, &[2, 2, 1, 0]).buffer().map(drop), Err(Status::ERR_TYPE_MISMATCH));
}

#[test]
fn numbers_must_fit_their_types() {
    assert_eq!(unpack_stored(DataType::UINT32, &[0xff, 0xff, 0xff, 0xff, 0x1f]), Err(MALFORMED));
    assert_eq!(unpack_stored(DataType::INT32, &[0x80, 0x80, 0x80, 0x80, 0x10]), Err(MALFORMED));
    assert_eq!(unpack_stored(DataType::UINT16, &[0x80, 0x80, 0x04]), Err(MALFORMED));
    assert_eq!(unpack_stored(DataType::PID, &[0x0f, 0x80, 0x80, 0x80, 0x80, 0x10]), Err(MALFORMED));
    assert_eq!(unpack_stored(DataType::PID, &[3, 0]), Err(Status::ERR_TYPE_MISMATCH));
    assert_eq!(Unpacker::new(V3, &[0, 9, 0xff, 0xff, 0xff, 0xff]).bare(DataType::SIZE), Err(MALFORMED), "minus one");
}

#[test]
fn strings_must_end() {
    assert_eq!(unpack_stored(DataType::STRING, &[4, b'a', b'b']), Err(MALFORMED));
    assert_eq!(unpack_stored(DataType::STRING, &[1, 0]), Err(MALFORMED), "length minus one");
    assert_eq!(unpack_stored(DataType::STRING, &[6, b'a', 0, 0]), Ok(Value::string("a")), "as C would read it");
    assert_eq!(unpack_stored(DataType::DOUBLE, &[0]), Err(MALFORMED), "NULL");
    assert_eq!(unpack_stored(DataType::DOUBLE, b"\x04x\0"), Err(MALFORMED));
    let long = [b"\x82\x04".as_slice(), &[b'n'; 256], b"\0\x07"].concat();
    assert_eq!(unpack_stored(DataType::PROC, &long), Err(MALFORMED), "a namespace of 256 bytes");
}

#[test]
fn nesting_is_bounded() {
    let nest = |depth: u8| {
        let mut value = Value::Bool(true);
        for _ in 0..depth {
            value = Value::Value(Box::new(value));
        }
        value
    };
    let deepest = nest(DEPTH_MAX - 1);
    let bytes = pack_stored(&deepest).unwrap();
    assert_eq!(unpack_stored(DataType::VALUE, &bytes), Ok(deepest));
    assert_eq!(pack_stored(&nest(DEPTH_MAX)), Err(Status::ERR_PACK_FAILURE));
    assert_eq!(unpack_stored(DataType::VALUE, &[&[21], bytes.as_slice()].concat()), Err(MALFORMED));
    // Deep enough to overrun the stack, were it followed: values, arrays of one array, infos with infos.
    assert_eq!(unpack_stored(DataType::VALUE, &vec![21; 1 << 20]), Err(MALFORMED));
    assert_eq!(unpack_stored(DataType::DATA_ARRAY, &[39, 1].repeat(1 << 20)), Err(MALFORMED));
    assert_eq!(unpack_stored(DataType::INFO, &[0, 0, 24].repeat(1 << 20)), Err(MALFORMED));
    assert_eq!(unpack_stored(DataType::KVAL, &[0, 28].repeat(1 << 20)), Err(MALFORMED));
    assert_eq!(unpack_stored(DataType::PDATA, &[0, 0, 0, 25].repeat(1 << 20)), Err(MALFORMED));
}

#[test]
fn claimed_counts_are_not_believed() {
    // A claimed count of 2^62 elements without any element. Memory for the claimed count would end the process.
    let claim = [0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x40];
    for code in 1..=DataType::ALLOC_INHERIT.0 {
        let array = [bare_tag(code).as_slice(), &claim].concat();
        assert!(unpack_stored(DataType::DATA_ARRAY, &array).is_err(), "array of type {code}");
        assert!(unpack_stored(DataType::DATA_ARRAY, &[array.as_slice(), &[1]].concat()).is_err());
        assert!(unpack_stored(DataType(code), &claim).is_err() || DataType(code).scalar_width().is_some());
    }
    assert!(Unpacker::new(V41, &[2, 0x80, 0x80, 0x80, 0x80, 0x40]).infos().is_err());
    assert_eq!(
        unpack_stored(DataType::DATA_ARRAY, &[[0].as_slice(), &claim].concat()),
        Ok(Value::DataArray(Box::new(DataArray { ty: DataType::UNDEF, items: Vec::new() })))
    );
}

#[test]
fn compressed_data_must_match_its_header() {
    let good = compress(&[7; 5000]).unwrap();
    let with_len = |len: u32| [&len.to_ne_bytes(), &good[4..]].concat();
    assert_eq!(decompress_within(&good, 5000), Ok(vec![7; 5000]));
    assert_eq!(decompress_within(&good, 4999), Err(MALFORMED), "more than is allowed");
    assert_eq!(decompress(&with_len(4999)), Err(MALFORMED));
    assert_eq!(decompress(&with_len(5001)), Err(MALFORMED));
    assert_eq!(decompress(&with_len(u32::MAX)), Err(MALFORMED));
    assert_eq!(decompress(&good[..good.len() - 5]), Err(MALFORMED));
    assert_eq!(decompress(&good[..3]), Err(MALFORMED));
    assert_eq!(decompress(&[]), Err(MALFORMED));
    let nul = Value::CompressedString(compress(b"a\0b").unwrap().into());
    assert_eq!(expand(&nul), Err(MALFORMED));
    assert_eq!(Packer::new(V3).expanding(true).value(&nul), Err(MALFORMED));
}
