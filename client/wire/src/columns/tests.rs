//! The column form, written and read, and what readers refuse.

use pmix_dstore::codec::{Dialect, Module, Unpacker};
use pmix_dstore::gather::Slices;
use pmix_dstore::model::{Bytes, DataArray, DataType, Info, Key, Kval, Rank, Status, Value};

use super::{Allowance, KIND_BITS, MAGIC, PREFIXES, number, read, write};
use crate::blob::{self, Form, Origin};

const V61: Dialect = Dialect::plain(Module::V61);

type Ranks = Vec<(Rank, Vec<Kval>)>;

fn kval(key: &str, value: Value) -> Kval {
    Kval { key: Key::new(key).unwrap(), value }
}

fn object(bytes: &[u8]) -> Value {
    Value::ByteObject(bytes.to_vec().into())
}

fn written(ranks: &Ranks) -> Option<Vec<u8>> {
    let borrowed: Vec<_> = ranks
        .iter()
        .map(|(rank, kvals)| (*rank, kvals.iter().map(|kval| (&kval.key, &kval.value)).collect()))
        .collect();
    write(V61, &borrowed, 0).unwrap().map(|pieces| pieces.into_bytes().unwrap())
}

/// What is in the envelope.
fn body(bytes: &[u8]) -> Vec<u8> {
    Unpacker::new(V61, bytes).byte_object().unwrap().to_vec()
}

fn read_body(body: &[u8]) -> Result<Option<Ranks>, Status> {
    read(&Unpacker::new(V61, body))
}

fn with_magic(bytes: &[u8]) -> Vec<u8> {
    [&MAGIC[..], bytes].concat()
}

/// What a node of four ranks of Open MPI 5 puts, the ranks in the order in which they came.
fn open_mpi() -> Ranks {
    let address = |last| {
        let mut bytes = [0; 32];
        bytes[..4].copy_from_slice(&[10, 255, 1, 0]);
        (bytes[16], bytes[20], bytes[24], bytes[25], bytes[28], bytes[29]) = (2, 16, 0x27, 0x10, 4, last);
        kval("btl.tcp.5.0", object(&bytes))
    };
    let mut ranks: Ranks = [6, 4, 5, 7].map(|rank| (Rank(rank), vec![address(rank as u8)])).into();
    ranks[1].1.push(kval("pml.base.2.0", object(b"ob1\0")));
    ranks
}

#[test]
fn a_contribution_has_the_bytes_of_the_document() {
    let expected = "02 39 02407e 01 04 03 02 01 03 352e30 23 00 15 30 01 08 01 08 11 02 04 \
         021b200aff01 02 10 2710000004 04 05 06 07 02 03 322e30 07 01 00 00 15 00 021b046f6231";
    let bytes = written(&open_mpi()).unwrap();
    let text: String = expected.split_whitespace().collect();
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(hex, text);
}

#[test]
fn values_come_back_by_rank() {
    let mut ranks = open_mpi();
    let bytes = written(&ranks).unwrap();
    ranks.sort_by_key(|(rank, _)| rank.0);
    assert_eq!(read_body(&body(&bytes)), Ok(Some(ranks.clone())));
    let decoded = blob::decode_fence(V61, &bytes).unwrap();
    assert_eq!((decoded.len(), decoded[0].form, decoded[0].collected), (1, Form::Columns, true));
    let of_ranks: Vec<_> = ranks.into_iter().map(|(rank, kvals)| (Origin::Relative(rank), kvals)).collect();
    assert_eq!(decoded[0].ranks, of_ranks);
    assert_eq!(decoded[0].encode_again(V61).as_ref(), Ok(&bytes));
    assert_eq!(written(&Vec::new()).map(|bytes| read_body(&body(&bytes))), Some(Ok(Some(Vec::new()))));
}

/// Numbers that look drawn; a seed replays a run.
fn below(state: &mut u64, end: u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 33) % end
}

/// Values of all shapes: those of one key mostly of one length, with some bytes that differ.
fn drawn(seed: &mut u64) -> Ranks {
    let mut ranks = Ranks::new();
    let mut rank = 0;
    for _ in 0..below(seed, 20) {
        rank += 1 + below(seed, 3) as u32 % 2;
        let mut kvals = Vec::new();
        for key in 0..below(seed, 6) {
            let name = format!("{}name{key}", PREFIXES[below(seed, 12) as usize / (key as usize + 1)]);
            let value = match below(seed, 6) {
                0 => Value::Uint32(below(seed, 300) as u32),
                1 => Value::string(format!("host{}", below(seed, 200))),
                2 => Value::Undef,
                3 => Value::DataArray(Box::new(DataArray {
                    ty: DataType::INFO,
                    items: vec![Value::Info(Box::new(Info::new("key", Value::Bool(true))))],
                })),
                _ => {
                    let mut bytes = vec![7; [0, 1, 40, 3000][below(seed, 4) as usize]];
                    for _ in 0..bytes.len().min(4) {
                        let at = below(seed, bytes.len() as u64) as usize;
                        bytes[at] = below(seed, 256) as u8;
                    }
                    object(&bytes)
                }
            };
            kvals.push(kval(&name, value));
        }
        kvals.sort_by(|one, other| one.key.as_bytes().cmp(other.key.as_bytes()));
        kvals.dedup_by(|one, other| one.key == other.key);
        ranks.push((Rank(rank), kvals));
    }
    ranks
}

fn sorted(mut ranks: Ranks) -> Ranks {
    ranks.iter_mut().for_each(|(_, kvals)| kvals.sort_by(|one, other| one.key.as_bytes().cmp(other.key.as_bytes())));
    ranks
}

#[test]
fn what_is_written_is_read() {
    let (mut seed, mut suited) = (1, 0);
    for _ in 0..2000 {
        let ranks = drawn(&mut seed);
        if let Some(bytes) = written(&ranks) {
            suited += 1;
            assert_eq!(read_body(&body(&bytes)).map(|read| read.map(sorted)), Ok(Some(sorted(ranks))));
        }
    }
    assert!((500..1990).contains(&suited), "{suited} of 2000 suit");
}

#[test]
fn long_values_are_neither_copied_nor_looked_into() {
    let long = |byte| Value::ByteObject(Bytes::from(vec![byte; 5000]));
    let kvals = || vec![kval("key", long(7)), kval("short", object(&[7; 40]))];
    let ranks: Ranks = (0..4).map(|rank| (Rank(rank), kvals())).collect();
    let borrowed: Vec<_> = ranks
        .iter()
        .map(|(rank, kvals)| (*rank, kvals.iter().map(|kval| (&kval.key, &kval.value)).collect()))
        .collect();
    let pieces = write(V61, &borrowed, 0).unwrap().unwrap();
    assert_eq!(pieces.shared_len(), 4 * 5000);
    assert!(pieces.total_len() < 4 * 5000 + 100);
    let message = Bytes::from(pieces.into_bytes().unwrap());
    let read = blob::decode_shared_fence(V61, &message).unwrap().remove(0);
    for ((_, kvals), (_, expected)) in read.ranks.iter().zip(&ranks) {
        assert_eq!(kvals, expected);
        let Value::ByteObject(bytes) = &kvals[0].value else { panic!("{kvals:?}") };
        assert!(bytes.is_part_of(message.backing().unwrap()));
    }
}

/// Only byte objects stay where they are.
#[test]
fn long_values_of_other_types_may_be_as_long() {
    let values = [Value::string("a".repeat(1999)), object(&[7; 2000])];
    for order in [[0, 1, 0, 1], [1, 0, 1, 0]] {
        let kvals = order.iter().map(|which| vec![kval("key", values[*which].clone())]);
        let ranks: Ranks = (0..).map(Rank).zip(kvals).collect();
        assert_eq!(read_body(&body(&written(&ranks).unwrap())), Ok(Some(ranks)));
    }
}

#[test]
fn what_does_not_suit_is_not_written() {
    let twice = vec![kval("key", object(&[1; 100])), kval("key", object(&[1; 100]))];
    assert_eq!(written(&vec![(Rank(0), twice)]), None, "a key twice");
    let lengths = vec![kval("key", object(&[1; 100])), kval("key", object(&[1; 90]))];
    assert_eq!(written(&vec![(Rank(0), lengths)]), None, "with values of two lengths");
    let one = |rank| (Rank(rank), vec![kval("key", object(&[1; 100]))]);
    assert!(written(&vec![one(3), one(4)]).is_some());
    assert_eq!(written(&vec![one(3), one(3)]), None, "a rank twice");
    let drawn = [3, 141, 59, 26, 53, 58, 97, 93, 23, 84];
    assert_eq!(written(&vec![(Rank(0), vec![kval("k", object(&drawn))])]), None, "it is not shorter");
    let long = || Value::ByteObject(Bytes::from(vec![7; 5000]));
    let mostly = |rank| (Rank(rank), vec![kval("a", long()), kval("b", long()), kval("c", object(&[1; 100]))]);
    assert_eq!(written(&(0..4).map(mostly).collect()), None, "most values are long");
    let many = |count| (0..count).map(one).collect::<Ranks>();
    assert!(written(&many(500)).is_some());
    assert_eq!(written(&many(5000)), None, "it stands for more than readers allow");
}

#[test]
fn nothing_but_the_whole_is_read() {
    let whole = body(&written(&open_mpi()).unwrap());
    for len in MAGIC.len()..whole.len() {
        assert_eq!(read_body(&whole[..len]), Err(Status::ERR_UNPACK_FAILURE), "{len} bytes");
    }
    assert_eq!(read_body(&whole[..2]), Ok(None), "that is another form");
    assert!(read_body(&[&whole[..], &[0]].concat()).is_err(), "bytes behind it");
}

#[test]
fn changed_bytes_are_refused_or_read_and_never_more_than_is_allowed() {
    let whole = body(&written(&open_mpi()).unwrap());
    for at in MAGIC.len()..whole.len() {
        for byte in 0..=255 {
            let mut changed = whole.clone();
            changed[at] = byte;
            if let Ok(Some(ranks)) = read_body(&changed) {
                let values: usize = ranks.iter().map(|(_, kvals)| kvals.len()).sum();
                assert!(Allowance::of(changed.len()).take((ranks.len() + values) as u64, 0), "byte {at} is {byte}");
            }
        }
    }
}

/// Each is a few bytes that stand for much, or for nothing that is there.
#[test]
fn lies_are_refused() {
    let huge = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f];
    // A column of zeros, longer than any memory.
    let zeros = |before: &[u8]| {
        let mut bytes = with_magic(before);
        number::put(&mut bytes, 1 << 50).unwrap();
        bytes.push(0);
        number::put(&mut bytes, ((1 << 50) - 1) << KIND_BITS).unwrap();
        bytes
    };
    let lies: [(&str, Vec<u8>); 12] = [
        ("runs of ranks", with_magic(&huge)),
        ("ranks", with_magic(&[&[1, 0], &[0xff, 0xff, 0xff, 0x7f, 0][..]].concat())),
        ("a rank above all", with_magic(&[1, 0x80, 0x80, 0x80, 0x80, 0x10, 0, 0])),
        ("a number without end", with_magic(&[0xff; 12])),
        ("columns", with_magic(&[&[1, 0, 0], &huge[..]].concat())),
        ("a prefix that there is not", with_magic(&[1, 0, 0, 1, 31, 1, b'k', 3, 0, 8, 2, 0])),
        ("a name that no column has had", with_magic(&[1, 0, 0, 1, 32, 3, 0, 9, 2, 0, 0])),
        ("the length of a value of zeros", zeros(&[1, 0, 0, 1, 0, 1, b'k'])),
        ("that of a value for no rank", zeros(&[0, 1, 0, 1, b'k'])),
        ("a kind of segment", with_magic(&[1, 0, 0, 1, 0, 1, b'k', 3, 0, 0x0b, 2, 0, 0])),
        ("a member that is no rank", with_magic(&[1, 0, 0, 1, 0, 1, b'k', 3, 1, 1, 0, 9, 2, 0, 0])),
        ("more members than ranks", with_magic(&[1, 0, 1, 1, 0, 1, b'k', 3, 2, 0, 1, 0, 0, 9, 2, 0, 0])),
    ];
    for (lie, bytes) in lies {
        assert_eq!(read_body(&bytes), Err(Status::ERR_UNPACK_FAILURE), "{lie}");
    }
    let truth = with_magic(&[1, 0, 0, 1, 0, 1, b'k', 3, 0, 9, 2, 1, 1]);
    assert_eq!(read_body(&truth), Ok(Some(vec![(Rank(0), vec![kval("k", Value::Bool(true))])])));
}
