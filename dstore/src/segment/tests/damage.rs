//! Corrupt segments: an error, a miss that reports corruption, or the right value; never a panic or a read out of bounds.

use super::random::{self, Random, key_pool};
use super::round_trip::build_modex;
use crate::codec::ValueRef;
use crate::gather::GatherBuf;
use crate::job::JobData;
use crate::model::{Info, Key, KeyRef, Nspace, Rank, Value, keys};
use crate::modex::ModexData;
use crate::realm_resolution::{Caller, JobLookup, Realm, Selector, find};
use crate::segment::layout::bytes::check_of;
use crate::segment::layout::toc::{ArchivedJobToc, ArchivedModexToc, ColumnToc, Extent, ModexToc, SOURCE_PIECES};
use crate::segment::read::checked::CheckedSegment;
use crate::segment::write::build_job_made;
use crate::segment::write::header::sign;
use crate::segment::{
    HEADER_LEN, HeapRegion, InspectOptions, JobReader, ModexReader, RawHeader, SegmentError, SegmentKind, build_job,
    inspect_segment,
};

const CONTENT_HASH: usize = std::mem::offset_of!(crate::segment::layout::header::Header, content_hash);
const FEW: InspectOptions = InspectOptions { rows_max: 2, bytes_max: 4 };

/// Opens the bytes as both kinds of segment and reads everything.
fn exercise(bytes: &[u8]) {
    let pool = key_pool();
    let nothing = Selector::default();
    if let Ok(reader) = JobReader::open(Box::new(HeapRegion::new(bytes))) {
        let caller = Caller { rank: Some(Rank(1)), hostname: b"node000" };
        for key in &pool {
            let key_ref = KeyRef::from(key);
            for rank in [Rank(0), Rank(1), Rank(2), Rank(63), Rank(64), Rank(299), Rank(1 << 30), Rank::WILDCARD] {
                let _ = reader.fast_value(rank, &key_ref, Rank(1)).value().map(|value| value.to_value());
                let _ = find(&reader, rank, &key_ref, &nothing, &caller).map(|value| value.to_value());
            }
            let Some((handle, _)) = reader.find_key(&key_ref) else { continue };
            for realm in Realm::ALL {
                for row in [0, 1, 2, 3, 7, 63, 64, 65, 128, 299, u32::MAX] {
                    if let Some(value) = reader.value(realm, row, handle) {
                        let _ = value.to_value();
                    }
                }
            }
        }
        for node in 0..9u32 {
            let _ = reader.node_row_by_name(format!("node{node:03}").as_bytes());
            let _ = (reader.node_row_by_id(node), reader.node_row_by_id(1000 - 3 * node), reader.app_row(node));
            let _ = reader.node_ranks(node).map(|ranks| ranks.iter().len());
        }
        let _ = reader.node_ranks(u32::MAX);
        let _ = reader.keys().count();
    }
    if let Ok(reader) = ModexReader::open(Box::new(HeapRegion::new(bytes))) {
        let odd = [0, 1, 17, 18, 21, 4_000_000_000, 4_000_000_001, u32::MAX].map(Rank);
        let ranks: Vec<Rank> = reader.ranks().take(100).chain(odd).collect();
        for rank in ranks {
            for key in &pool {
                let _ = reader.fast_value(rank, &KeyRef::from(key)).value().map(|value| value.to_value());
                if let Some(value) = reader.get(rank, &KeyRef::from(key)) {
                    let _ = value.to_value();
                }
            }
            let _ = reader.rank(rank).count();
        }
    }
}

/// Segments of both kinds and several forms.
fn samples() -> Vec<Vec<u8>> {
    let nspace = Nspace::new("damage").expect("a short namespace");
    // The last one is in blocks, with texts of ranks that readers make.
    let jobs = [3, 4, 8, 20].map(|seed| build_job_made(&random::job(seed), "test", 1..=u32::MAX).expect("a segment"));
    let modex = (0..).map(|seed| build_modex(&nspace, &random::modex(seed)));
    let modex = modex.filter(|bytes| (2000..30_000).contains(&bytes.len())).take(4);
    let uneven = build_modex(&nspace, &random::uneven_modex());
    let all: Vec<Vec<u8>> = jobs.into_iter().chain(modex).chain([uneven]).collect();
    let described: String = all.iter().map(|bytes| inspect_segment(bytes, &FEW).to_text()).collect();
    for form in [
        " nodes in each row",
        " pieces with a formula each",
        "stride",
        "slots",
        "table",
        "sorted",
        "as index of",
        "some without a value",
        "sparse values",
    ] {
        assert!(described.contains(form), "no sample has {form}");
    }
    all
}

/// The same, and segments whose tables stay in the file, because readers copy only small tables.
fn more_samples() -> Vec<Vec<u8>> {
    let nspace = Nspace::new("damage").expect("a short namespace");
    let large = [true, false].map(|is_scattered| build_modex(&nspace, &random::large_modex(is_scattered)));
    samples().into_iter().chain(large).collect()
}

fn open_any(bytes: &[u8]) -> Result<(), SegmentError> {
    let job = JobReader::open(Box::new(HeapRegion::new(bytes)));
    let modex = ModexReader::open(Box::new(HeapRegion::new(bytes)));
    match (job, modex) {
        (Ok(_), _) | (_, Ok(_)) => Ok(()),
        (Err(SegmentError::Kind { .. }), Err(error)) | (Err(error), _) => Err(error),
    }
}

fn toc_pos(bytes: &[u8]) -> usize {
    RawHeader::read(bytes).expect("a header").toc_pos as usize
}

/// The same with hashes that fit.
fn signed(bytes: Vec<u8>) -> Vec<u8> {
    let mut segment = GatherBuf::from(bytes);
    sign(&mut segment);
    segment.into_own()
}

#[test]
fn any_changed_byte_of_header_or_contents_is_noticed() {
    for good in samples() {
        assert_eq!(open_any(&good), Ok(()));
        for at in (0..HEADER_LEN).chain(toc_pos(&good)..good.len()) {
            // The content hash is for the inspector.
            if (CONTENT_HASH..CONTENT_HASH + 8).contains(&at) {
                continue;
            }
            let mut bad = good.clone();
            bad[at] ^= 1 << (at % 8);
            assert!(open_any(&bad).is_err(), "byte {at}");
        }
    }
}

#[test]
fn the_inspector_notices_any_changed_byte() {
    let nspace = Nspace::new("damage").expect("a short namespace");
    let mut data = ModexData::default();
    data.set(Rank(3), Key::from("k"), Value::ByteObject(vec![1, 2, 3].into())).unwrap();
    data.set(Rank(4), Key::from("l"), Value::string("text")).unwrap();
    let good = &build_modex(&nspace, &data);
    let is_good = |bytes: &[u8]| {
        let report = inspect_segment(bytes, &FEW);
        report.get("content hash matches") == Some(&true.into()) && report.get("problems").is_none()
    };
    assert!(is_good(good));
    for at in 0..good.len() {
        let mut bad = good.clone();
        bad[at] ^= 0x10;
        assert!(!is_good(&bad), "byte {at}");
    }
}

#[test]
fn a_cut_segment_is_refused() {
    for good in samples() {
        for len in (0..good.len()).step_by(13) {
            let error = open_any(&good[..len]).expect_err("cut");
            assert!(matches!(error, SegmentError::Short { .. } | SegmentError::Length { .. }), "{len}: {error}");
            if len % 5 == 0 {
                let _ = inspect_segment(&good[..len], &FEW).to_text();
            }
        }
    }
}

#[test]
fn forged_contents_stay_inside_the_segment() {
    let mut opened = 0;
    for good in samples() {
        let lies = [0, 1, 3, 0xff, u32::MAX, u32::MAX - 1, 1 << 31, good.len() as u32, good.len() as u32 + 1];
        let fields = (64..HEADER_LEN / 4).step_by(4).chain((toc_pos(&good)..good.len()).step_by(4));
        for at in fields {
            let lie = lies[(at / 4) % lies.len()];
            let mut bad = good.clone();
            bad[at..at + 4].copy_from_slice(&lie.to_le_bytes());
            // A liar knows how to compute a hash.
            let bad = signed(bad);
            opened += usize::from(open_any(&bad).is_ok());
            exercise(&bad);
            if at % 64 == 0 {
                let _ = inspect_segment(&bad, &FEW).to_text();
            }
        }
    }
    assert!(opened > 100, "{opened} of the lies were not seen through at once");
}

#[test]
fn random_bytes_stay_inside_the_segment() {
    // Another seed and more rounds for a longer hunt: `PMIX_DSTORE_FUZZ=<seed>,<rounds>`.
    let wish = std::env::var("PMIX_DSTORE_FUZZ").unwrap_or_default();
    let mut numbers = wish.split(',').map_while(|number| number.parse().ok());
    let random = &mut Random::new(numbers.next().unwrap_or(77));
    let rounds = numbers.next().unwrap_or(150);
    for good in more_samples() {
        for _ in 0..rounds {
            let mut bad = good.clone();
            for _ in 0..=random.below(20) {
                let at = HEADER_LEN as u64 + random.below((good.len() - HEADER_LEN) as u64);
                let len = 1 + random.below(8) as usize;
                let byte = [0, 0xff, 0x7f, random.next() as u8][random.below(4) as usize];
                let end = (at as usize + len).min(good.len());
                bad[at as usize..end].fill(byte);
            }
            let bad = signed(bad);
            exercise(&bad);
            if random.one_in(16) {
                let _ = inspect_segment(&bad, &FEW).to_text();
            }
        }
    }
}

/// The extent of a segment's bytes that no check covers: the values themselves.
fn values_of(bytes: &[u8]) -> Extent {
    let segment = CheckedSegment::open(Box::new(HeapRegion::new(bytes))).expect("a segment");
    match segment.toc::<ArchivedModexToc>(SegmentKind::Modex) {
        Ok(toc) => ModexToc::from(toc).records,
        Err(_) => (&segment.toc::<ArchivedJobToc>(SegmentKind::Job).expect("a table of contents").heap).into(),
    }
}

/// The value for each look-up of [`answers`], and whether corruption was found.
type Answers = Vec<(Option<Value>, bool)>;

/// Reads everything from a segment, each value with a new reader, which has found no corruption before.
fn answers(bytes: &[u8], ranks: &[Rank]) -> Answers {
    let pool = key_pool();
    let mut answers = Vec::new();
    let value = |value: Option<ValueRef<'_>>| value.map(|value| value.to_value().unwrap_or(Value::Undef));
    let number = |row: Option<u32>| row.map(Value::Uint32);
    let open = || JobReader::open(Box::new(HeapRegion::new(bytes)));
    if let Ok(mut reader) = open() {
        for key in &pool {
            for (realm, rows) in Realm::ALL.into_iter().zip([1, 1, 5, 9, 300]) {
                for row in (0..rows).step_by(if rows > 9 { 37 } else { 1 }) {
                    let found = reader.find_key(&KeyRef::from(key)).filter(|(_, realms)| realms.has(realm));
                    let found = found.and_then(|(handle, _)| reader.value(realm, row, handle));
                    answers.push((value(found), reader.is_damaged()));
                    if reader.is_damaged() {
                        reader = open().expect("a segment");
                    }
                }
            }
        }
        let caller = Caller { rank: Some(Rank(1)), hostname: b"node000" };
        for key in pool.iter().map(KeyRef::from) {
            for rank in [Rank(0), Rank(1), Rank(74), Rank(299), Rank::WILDCARD] {
                let short = reader.fast_value(rank, &key, Rank(1));
                let long = || find(&reader, rank, &key, &Selector::NOTHING, &caller);
                let found = value(if short.needs_slow_path() { long() } else { short.value() });
                // A value from a reader that has found corruption does not count.
                answers.push((found.filter(|_| !reader.is_damaged()), reader.is_damaged()));
                if reader.is_damaged() {
                    reader = open().expect("a segment");
                }
            }
        }
        for node in 0..9u32 {
            for question in 0..5 {
                let row = match question {
                    0 => reader.node_row_by_name(format!("node{node:03}").as_bytes()),
                    1 => reader.node_row_by_id(node),
                    2 => reader.node_row_by_id(1000 - 3 * node),
                    3 => reader.app_row(node),
                    // Another number for other ranks.
                    _ => {
                        reader.node_ranks(node).map(|ranks| ranks.iter().fold(1, |all, rank| all * 31 % 1009 + rank.0))
                    }
                };
                answers.push((number(row), reader.is_damaged()));
                if reader.is_damaged() {
                    reader = open().expect("a segment");
                }
            }
        }
    }
    let open = || ModexReader::open(Box::new(HeapRegion::new(bytes)));
    if let Ok(mut reader) = open() {
        let odd = [0, 1, 17, 18, 21, 4_000_000_000, 4_000_000_001, u32::MAX].map(Rank);
        for key in &pool {
            for rank in ranks.iter().copied().chain(odd) {
                let short = reader.fast_value(rank, &KeyRef::from(key));
                let found = reader.get(rank, &KeyRef::from(key));
                let is_same = short.needs_slow_path() || value(short.value()) == value(found);
                assert!(is_same || reader.is_damaged(), "{rank:?} {key:?}: {short:?} in place of {found:?}");
                answers.push((value(found), reader.is_damaged()));
                if reader.is_damaged() {
                    reader = open().expect("a segment");
                }
            }
            answers.push((number(reader.first_rank_with(&KeyRef::from(key)).map(|rank| rank.0)), reader.is_damaged()));
            if reader.is_damaged() {
                reader = open().expect("a segment");
            }
        }
    }
    answers
}

#[test]
fn a_damaged_table_gives_no_wrong_value_and_no_wrong_miss() {
    // Another seed and more rounds for a longer hunt: `PMIX_DSTORE_FUZZ=<seed>,<rounds>`.
    let wish = std::env::var("PMIX_DSTORE_FUZZ").unwrap_or_default();
    let mut numbers = wish.split(',').map_while(|number| number.parse().ok());
    let random = &mut Random::new(numbers.next().unwrap_or(5));
    let rounds = numbers.next().unwrap_or(60);
    let mut met = 0;
    for good in more_samples() {
        let modex = ModexReader::open(Box::new(HeapRegion::new(&good)));
        let ranks: Vec<Rank> = modex.map_or(Vec::new(), |modex| modex.ranks().step_by(7).collect());
        let right = answers(&good, &ranks);
        assert!(right.iter().all(|(_, is_damaged)| !is_damaged));
        let values = values_of(&good);
        let tables: Vec<usize> = (HEADER_LEN..toc_pos(&good))
            .filter(|at| !(values.pos..values.pos + values.count).contains(&(*at as u64)))
            .collect();
        for _ in 0..rounds {
            let mut bad = good.clone();
            let at = tables[random.below(tables.len() as u64) as usize];
            match random.below(4) {
                0 => bad[at] = random.next() as u8,
                // A word from another position, as a stray store leaves it.
                1 => {
                    let from = tables[random.below(tables.len() as u64) as usize] & !7;
                    let to = at & !7;
                    let word: [u8; 8] = *good[from..].first_chunk().expect("a word before the table of contents");
                    bad[to..to + 8].copy_from_slice(&word);
                }
                _ => bad[at] ^= 1 << random.below(8),
            }
            let found = answers(&bad, &ranks);
            assert_eq!(found.len(), right.len(), "header and contents are good");
            for (index, ((found, is_damaged), (right, _))) in found.iter().zip(&right).enumerate() {
                met += usize::from(*is_damaged);
                let is_right = if *is_damaged { found.is_none() } else { found == right };
                assert!(is_right, "byte {at}, question {index}: {found:?} in place of {right:?}, {is_damaged}");
            }
        }
    }
    assert!(met > 100, "{met}");
}

#[test]
fn a_table_of_another_segment_gives_nothing() {
    // Two segments with the same layout that differ in the owners of the values.
    let nspace = Nspace::new("swapped").expect("a short namespace");
    let build = |order: [u32; 2]| {
        let mut data = ModexData::default();
        for (rank, number) in order.into_iter().zip([10, 900]) {
            data.set(Rank(rank), Key::from("k"), Value::string("x".repeat(number))).expect("room");
        }
        build_modex(&nspace, &data)
    };
    let (one, other) = (build([0, 1]), build([1, 0]));
    assert_eq!((one.len(), toc_pos(&one)), (other.len(), toc_pos(&other)));
    let get = |bytes: &[u8], rank| {
        let reader = ModexReader::open(Box::new(HeapRegion::new(bytes))).expect("header and contents are good");
        let value = reader.get(Rank(rank), &KeyRef::from("k")).map(|value| value.to_value().expect("a string"));
        (value, reader.is_damaged())
    };
    // Exchanged locations: each is valid only at its own position.
    let places = {
        let segment = CheckedSegment::open(Box::new(HeapRegion::new(&one))).expect("a segment");
        ModexToc::from(segment.toc::<ArchivedModexToc>(SegmentKind::Modex).expect("contents")).places
    };
    assert_eq!(places.count, 2);
    let (at, width) = (places.pos as usize, places.width as usize);
    let mut bad = one.clone();
    bad.copy_within(at..at + width, at + width);
    assert_eq!(get(&one, 1), (Some(Value::string("x".repeat(900))), false));
    assert_eq!(get(&bad, 1), (None, true));
    assert_eq!(get(&bad, 0), (Some(Value::string("x".repeat(10))), false));
}

#[test]
fn a_damaged_place_in_a_slot_hides_its_record_alone() {
    let (data, nspace) = (random::uneven_modex(), Nspace::new("slots").expect("a short namespace"));
    let good = build_modex(&nspace, &data);
    let toc = {
        let segment = CheckedSegment::open(Box::new(HeapRegion::new(&good))).expect("a segment");
        ModexToc::from(segment.toc::<ArchivedModexToc>(SegmentKind::Modex).expect("contents"))
    };
    let key = &key_pool()[0];
    let get = |bytes: &[u8], rank| {
        let reader = ModexReader::open(Box::new(HeapRegion::new(bytes))).expect("header and contents are good");
        let short = reader.fast_value(Rank(rank), &KeyRef::from(key)).value();
        assert!(short.is_none() || short == reader.get(Rank(rank), &KeyRef::from(key)));
        (reader.get(Rank(rank), &KeyRef::from(key)).map(|value| value.to_value().expect("memory")), reader.is_damaged())
    };
    let put = |rank| data.get(Rank(rank), key.as_bytes()).cloned();
    let slot = |rank: u64| (toc.records.pos + rank * toc.stride) as usize;
    // The location has 24 bytes; the padding of the slot after it is ignored.
    for at in slot(3)..slot(4) {
        let mut bad = good.clone();
        bad[at] ^= 4;
        let is_place = at < slot(3) + 24;
        assert_eq!(get(&bad, 3), if is_place { (None, true) } else { (put(3), false) }, "byte {at}");
        assert_eq!((get(&bad, 2), get(&bad, 29), get(&bad, 11)), ((put(2), false), (put(29), false), (None, false)));
    }
    // The location of another slot.
    let mut bad = good.clone();
    bad.copy_within(slot(29)..slot(29) + 24, slot(3));
    assert_eq!((get(&bad, 3), get(&bad, 29)), ((None, true), (put(29), false)));
    // Slots that are too short for a location are refused.
    let mut short = good.clone();
    let stride = toc_pos(&good) + 88;
    short[stride..stride + 8].copy_from_slice(&16u64.to_le_bytes());
    let refused = ModexReader::open(Box::new(HeapRegion::new(&signed(short)))).err();
    assert_eq!(refused, Some(SegmentError::Extent("stride")));
}

#[test]
fn a_key_table_without_an_empty_slot_is_searched_once_around() {
    let good = &samples()[0];
    let reader = JobReader::open(Box::new(HeapRegion::new(good))).expect("a segment");
    let missing = KeyRef::new(b"certainly not there");
    assert!(reader.find_key(&missing).is_none());
    let mut bad = good.clone();
    // Slots are the first region; an empty one has all bits of its id set.
    for at in (HEADER_LEN..toc_pos(good)).step_by(64) {
        let slot = &mut bad[at..at + 64];
        if slot[16..20] == [0xff; 4] && slot[24..44] == [0xff; 20] {
            slot[16..20].fill(0);
            // A liar knows how to compute a check.
            let check = check_of(&slot[..44], at as u64);
            slot[44..48].copy_from_slice(&check.to_le_bytes());
        }
    }
    assert_ne!(&bad, good);
    let reader = JobReader::open(Box::new(HeapRegion::new(&bad))).expect("header and contents are good");
    assert!(reader.find_key(&missing).is_none() && !reader.is_damaged());
    assert!(reader.find_key(&KeyRef::from(keys::RANK)).is_some());
}

#[test]
fn a_key_never_gets_the_column_of_another() {
    let mut job = JobData::new(Nspace::new("columns").expect("a short namespace"));
    for (key, value) in [("first", 1), ("second", 2)] {
        job.procs.set(Rank(0), Key::from(key), Value::Uint32(value)).expect("a rank");
    }
    job.job.insert(Key::from("first"), Value::Uint32(3));
    let good = build_job(&job, "test").expect("a segment");
    let slot = |key: &str| {
        let hash = KeyRef::from(key).hash().to_le_bytes();
        HEADER_LEN + 64 * good[HEADER_LEN..].chunks(64).position(|slot| slot.starts_with(&hash)).expect("its slot")
    };
    let get = |bytes: &[u8], realm, key: &str| {
        let reader = JobReader::open(Box::new(HeapRegion::new(bytes))).expect("header and contents are good");
        let (handle, _) = reader.find_key(&KeyRef::from(key))?;
        reader.value(realm, 0, handle).map(|value| value.to_value())
    };
    // Of another key, then of another realm of the same key.
    for (from, to) in [(slot("second") + 24 + 16, slot("first") + 24 + 16), (slot("first") + 28, slot("first") + 40)] {
        let mut bad = good.clone();
        bad.copy_within(from..from + 4, to);
        let of = to - (to - HEADER_LEN) % 64;
        let check = check_of(&bad[of..of + 44], of as u64);
        bad[of + 44..of + 48].copy_from_slice(&check.to_le_bytes());
        assert_ne!(bad, good);
        assert_eq!(get(&bad, Realm::Proc, "first"), None);
        assert_eq!(get(&bad, Realm::Proc, "second"), Some(Ok(Value::Uint32(2))));
        assert_eq!(get(&bad, Realm::Job, "first"), Some(Ok(Value::Uint32(3))));
    }
    assert_eq!(get(&good, Realm::Proc, "first"), Some(Ok(Value::Uint32(1))));
}

#[test]
fn a_node_is_not_found_by_the_hash_of_its_name_alone() {
    let mut job = JobData::new(Nspace::new("names").expect("a short namespace"));
    job.nodes.push(crate::job::Node { hostname: b"node-of-the-test".to_vec(), ..Default::default() });
    let good = build_job(&job, "test").expect("a segment");
    let at = good.windows(16).position(|window| window == b"node-of-the-test").expect("the name");
    let mut bad = good.clone();
    bad[at] = b'N';
    for (bytes, row) in [(good, Some(0)), (bad, None)] {
        let reader = JobReader::open(Box::new(HeapRegion::new(&bytes))).expect("header and contents are good");
        assert_eq!(reader.node_row_by_name(b"node-of-the-test"), row);
    }
}

#[test]
fn a_string_with_a_nul_inside_is_no_string() {
    let mut data = ModexData::default();
    data.set(Rank(0), Key::from("k"), Value::string("abcdefgh")).unwrap();
    let good = build_modex(&Nspace::new("nul").expect("a short namespace"), &data);
    let at = good.windows(8).position(|window| window == b"abcdefgh").expect("the string");
    // Inside, and missing at the end.
    for (damage, byte) in [(at + 3, 0), (at + 8, b'!')] {
        let mut bad = good.clone();
        bad[damage] = byte;
        let reader = ModexReader::open(Box::new(HeapRegion::new(&bad))).expect("header and contents are good");
        assert_eq!(reader.get(Rank(0), &KeyRef::from("k")), None);
    }
}

/// The answers to questions about numbers in pieces and about runs of nodes; none where damage was found.
fn in_pieces(bytes: &[u8], columns: &[(Key, u32)], nodes: u32) -> Vec<Option<Value>> {
    let open = || JobReader::open(Box::new(HeapRegion::new(bytes))).expect("header and contents are good");
    let mut reader = open();
    let mut answers = Vec::new();
    let mut add = |ask: &dyn Fn(&JobReader) -> Option<Value>| {
        let answer = ask(&reader);
        answers.push(answer.filter(|_| !reader.is_damaged()));
        if reader.is_damaged() {
            reader = open();
        }
    };
    let value = |reader: &JobReader, realm, row, key: &Key| {
        let (handle, _) = reader.find_key(&KeyRef::from(key))?;
        reader.value(realm, row, handle).map(|value| value.to_value().expect("memory"))
    };
    for (key, rows) in columns {
        for row in (0..*rows).step_by(5) {
            add(&|reader| value(reader, Realm::Proc, row, key));
            add(&|reader| {
                let short = reader.fast_value(Rank(row), &KeyRef::from(key), Rank(0)).value();
                short.map(|value| value.to_value().expect("memory"))
            });
        }
    }
    for node in 0..nodes {
        let list = |reader: &JobReader| reader.node_ranks(node).map(|ranks| ranks.iter().map(|rank| rank.0).collect());
        add(&|reader| list(reader).map(|ranks: Vec<u32>| Value::string(format!("{ranks:?}"))));
        add(&|reader| value(reader, Realm::Node, node, &Key::from(keys::LOCAL_PEERS)));
    }
    answers
}

#[test]
fn damaged_pieces_and_runs_give_no_wrong_number() {
    let mut job = JobData::new(Nspace::new("pieces").expect("a short namespace"));
    let mut ranks = 0..;
    let mut list =
        |count: usize| ranks.by_ref().take(count).map(|rank: u32| rank.to_string()).collect::<Vec<_>>().join(",");
    let lists = [40, 2, 40, 40, 20, 20, 20].map(&mut list).join(";");
    let maps = [(keys::NODE_MAP, "a,b,c,d,e,f,g"), (keys::PROC_MAP, &lists)];
    job.register(&maps.map(|(key, map)| Info::new(key, Value::string(map))), b"a").expect("maps");
    let good = build_job_made(&job, "test", 1..=u32::MAX).expect("a segment");
    let (columns, tables) = {
        let segment = CheckedSegment::open(Box::new(HeapRegion::new(&good))).expect("a segment");
        let toc = segment.toc::<ArchivedJobToc>(SegmentKind::Job).expect("a table of contents");
        let pieces: Vec<_> =
            toc.columns.iter().map(ColumnToc::from).filter(|column| column.source == SOURCE_PIECES).collect();
        let reader = JobReader::open(Box::new(HeapRegion::new(&good))).expect("a segment");
        let key = |id: u32| Key::new(reader.keys().nth(id as usize).expect("a key").0.text()).expect("a key");
        let columns: Vec<(Key, u32)> = pieces.iter().map(|column| (key(column.key), column.rows)).collect();
        (
            columns,
            pieces.iter().map(|column| column.numbers).chain([Extent::from(&toc.node_runs)]).collect::<Vec<Extent>>(),
        )
    };
    assert!(columns.len() >= 3 && tables.iter().all(|table| table.count > 1), "{columns:?}");
    let right = in_pieces(&good, &columns, 7);
    assert!(right.iter().all(Option::is_some));
    for table in tables {
        for at in table.pos as usize..(table.pos + table.count * u64::from(table.width)) as usize {
            let mut bad = good.clone();
            bad[at] ^= 1 << (at % 8);
            let found = in_pieces(&bad, &columns, 7);
            assert!(found.iter().zip(&right).all(|(found, right)| found.is_none() || found == right), "byte {at}");
            assert!(found.iter().any(Option::is_none), "byte {at} was not noticed");
        }
    }
}
