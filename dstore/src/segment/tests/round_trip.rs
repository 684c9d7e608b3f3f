//! Every look-up returns the same from a segment as from the heap.

use super::random::{self, Random, key_pool};
use crate::codec::ValueRef;
use crate::job::{JobData, Node, Values};
use crate::model::{Info, Key, KeyRef, Nspace, Rank, Value, keys};
use crate::modex::ModexData;
use crate::realm_resolution::{Caller, JobLookup, Realm, RealmMask, Selector, find};
use crate::segment::layout::raw_header::{RawHeader, content_hash};
use crate::segment::write::build_job_made;
use crate::segment::{
    FastValue, HeapRegion, JobReader, ModexBuilder, ModexReader, Publisher, SegmentKind, Target, build_job,
};

/// Structures are owned in the heap and packed in a segment. Texts of ranks are stored in the heap, and a segment's reader may
/// build them. Everything else must be equal.
#[track_caller]
pub(crate) fn assert_same(heap: Option<ValueRef<'_>>, segment: Option<ValueRef<'_>>, what: impl std::fmt::Debug) {
    match (heap, segment) {
        (Some(ValueRef::Owned(value)), Some(packed @ ValueRef::Packed { .. })) => {
            assert_eq!(packed.to_value().as_ref(), Ok(value), "{what:?}");
        }
        (Some(text), Some(made @ ValueRef::Ranks(_))) => assert_eq!(made.to_value(), text.to_value(), "{what:?}"),
        (heap, segment) => assert_eq!(heap, segment, "{what:?}"),
    }
}

pub(crate) fn open_job(bytes: &[u8]) -> JobReader {
    JobReader::open(Box::new(HeapRegion::new(bytes))).expect("a segment that was just built")
}

pub(crate) fn open_modex(bytes: &[u8]) -> ModexReader {
    ModexReader::open(Box::new(HeapRegion::new(bytes))).expect("a segment that was just built")
}

pub(crate) fn build_modex(nspace: &Nspace, data: &ModexData) -> Vec<u8> {
    let mut builder = ModexBuilder::new(nspace.clone());
    for rank in data.ranks() {
        builder.add_rank(rank, data.rank(rank)).expect("storable values");
    }
    builder.finish("test").expect("a segment").into_bytes().expect("memory")
}

/// The segment of a job, with texts of ranks stored and, if they can be, made.
fn build_both(job: &JobData) -> [Vec<u8>; 2] {
    [u32::MAX, 1].map(|first| build_job_made(job, "test", first..=u32::MAX).expect("a segment"))
}

fn assert_rows_same(job: &JobData, reader: &JobReader) {
    let rows = [1, 1, job.apps.len() as u32, job.nodes.len() as u32, job.procs.rows() + 2];
    let appnums: Vec<u32> = job.apps.keys().copied().collect();
    for key in key_pool() {
        for realm in Realm::ALL {
            for row in 0..rows[realm as usize] {
                // A segment has row indices for applications; in the heap the application's number is the row.
                let heap_row = if realm == Realm::App { appnums[row as usize] } else { row };
                let expected = job.value(realm, heap_row, KeyRef::from(&key));
                let found = reader.find_key(&KeyRef::from(&key)).and_then(|(id, realms)| {
                    let value = reader.value(realm, row, id);
                    assert!(value.is_none() || realms.has(realm), "{realm:?} of {key}");
                    value
                });
                assert_same(expected, found, (realm, row, &key));
            }
        }
    }
}

#[test]
fn job_values_are_the_same_in_every_realm_and_row() {
    let (mut runs, mut made_count) = (0, 0);
    for seed in 0..60 {
        let job = random::job(seed);
        let both = build_both(&job);
        let [reader, made] = [&both[0], &both[1]].map(|bytes| open_job(bytes));
        assert_rows_same(&job, &reader);
        assert_rows_same(&job, &made);
        made_count += u32::from(both[0] != both[1]);
        for (row, node) in (0..).zip(&job.nodes) {
            let Some(ranks) = reader.node_ranks(row) else { continue };
            let list: Vec<String> = ranks.iter().map(|rank| rank.0.to_string()).collect();
            let said = node.values.get(keys::LOCAL_PEERS.as_bytes()).and_then(Value::as_text);
            assert_eq!(said, Some(list.join(",").as_bytes()), "node {row} of job {seed}");
            runs += 1;
        }
        assert_eq!(both, build_both(&job), "equal data give equal bytes");
        assert_eq!(both[0], build_job(&job, "test").expect("a segment"), "of so few ranks texts are stored");
    }
    assert!(runs > 0 && made_count > 3, "some jobs are in blocks: {runs} nodes, {made_count} jobs");
}

#[test]
fn the_rules_find_the_same_values() {
    for seed in 100..160 {
        let job = random::job(seed);
        let reader = open_job(&build_both(&job)[seed as usize % 2]);
        assert_eq!(job.node_count(), reader.node_count());
        assert_eq!(job.app_count(), reader.app_count());
        assert_eq!(job.proc_count(), reader.proc_count());
        let random = &mut Random::new(seed);
        let names: Vec<Vec<u8>> = job
            .nodes
            .iter()
            .flat_map(|node| std::iter::once(node.hostname.clone()).chain(node.aliases.clone()))
            .chain([b"no-such-node".to_vec(), Vec::new()])
            .collect();
        for _ in 0..4000 {
            let pool = key_pool();
            let key = KeyRef::from(&pool[random.below(pool.len() as u64) as usize]);
            let rank = match random.below(6) {
                0 => Rank::WILDCARD,
                1 => Rank::UNDEF,
                _ => Rank(random.below(330) as u32),
            };
            let mut name = || names[random.below(names.len() as u64) as usize].as_slice();
            let (hostname, other) = (name(), name());
            let selector = Selector {
                session: random.one_in(8),
                session_id: random.one_in(8).then(|| random.below(6) as u32),
                job: random.one_in(8),
                app: random.one_in(8),
                node: random.one_in(6),
                appnum: random.one_in(8).then(|| random.below(6) as u32),
                nodeid: random.one_in(8).then(|| 1000 - random.below(9) as u32 * 3),
                hostname: random.one_in(8).then_some(other),
            };
            let caller = Caller { rank: (!random.one_in(4)).then(|| Rank(random.below(300) as u32)), hostname };
            assert_same(
                find(&job, rank, &key, &selector, &caller),
                find(&reader, rank, &key, &selector, &caller),
                (seed, rank, key, selector, caller),
            );
        }
    }
}

/// Compares the result of the fast path with that of the slow path, unless it needs the slow path. Returns 1 if it was compared.
#[track_caller]
fn assert_short(short: FastValue<'_>, long: Option<ValueRef<'_>>, what: impl std::fmt::Debug) -> u32 {
    if !short.needs_slow_path() {
        assert_eq!(short.value(), long, "{what:?}");
    }
    u32::from(!short.needs_slow_path())
}

#[test]
fn the_fast_path_agrees_with_realm_resolution() {
    let keys = [keys::LOCAL_RANK, keys::JOB_SIZE, keys::UNIV_SIZE, keys::LOCAL_SIZE, keys::APP_SIZE, "unclassified"];
    let (mut sure, mut asked) = (0, 0);
    // Each subset of the realms holds all keys once.
    for mask in 0..=RealmMask::ALL.0 {
        let values = |realm: Realm| -> Values {
            let value = Value::Uint32(realm as u32);
            let holds = RealmMask(mask).has(realm);
            keys.iter().filter(|_| holds).map(|key| (Key::from(*key), value.clone())).collect()
        };
        let mut job = JobData::new(Nspace::new("rules").expect("a short namespace"));
        job.session = values(Realm::Session);
        job.job = values(Realm::Job);
        job.apps.insert(0, values(Realm::App));
        job.nodes.push(Node { hostname: b"here".to_vec(), values: values(Realm::Node), ..Node::default() });
        job.procs.set(Rank(0), keys::HOSTNAME.into(), Value::string("here")).expect("a rank");
        for (key, value) in values(Realm::Proc) {
            job.procs.set(Rank(1), key, value).expect("a rank");
        }
        let reader = open_job(&build_job(&job, "test").expect("a segment"));
        let caller = Caller { rank: Some(Rank(0)), hostname: b"here" };
        for key in keys.map(KeyRef::from) {
            for rank in [Rank(0), Rank(1), Rank(2), Rank::WILDCARD, Rank::UNDEF] {
                let long = find(&job, rank, &key, &Selector::NOTHING, &caller);
                assert_eq!(find(&reader, rank, &key, &Selector::NOTHING, &caller), long);
                sure += assert_short(reader.fast_value(rank, &key, Rank(0)), long, (&key, rank, mask));
                asked += 1;
            }
        }
    }
    assert!(sure * 3 > asked, "{sure} of {asked}");
}

#[test]
fn the_fast_path_finds_the_same_job_values() {
    let (mut sure, mut sure_of_instances) = (0, 0);
    for seed in 200..260 {
        let job = random::job(seed);
        let reader = open_job(&build_both(&job)[seed as usize % 2]);
        let random = &mut Random::new(seed);
        let names: Vec<&[u8]> = job.nodes.iter().map(|node| &node.hostname[..]).chain([&b"no-such-node"[..]]).collect();
        let pool = key_pool();
        for _ in 0..2000 {
            let key = KeyRef::from(&pool[random.below(pool.len() as u64) as usize]);
            let rank = if random.one_in(3) { Rank::WILDCARD } else { Rank(random.below(330) as u32) };
            let me = Rank(random.below(4) as u32);
            let caller = Caller { rank: Some(me), hostname: b"no-such-node" };
            let long = |selector: &Selector<'_>| find(&reader, rank, &key, selector, &caller);
            let what = (seed, rank, key, me);
            sure += assert_short(reader.fast_value(rank, &key, me), long(&Selector::NOTHING), what);
            let (appnum, nodeid) = (random.below(6) as u32, 1000 - random.below(9) as u32 * 3);
            let name = names[random.below(names.len() as u64) as usize];
            let nothing = Selector::NOTHING;
            for (of, selector) in [
                (Target::App(appnum), Selector { appnum: Some(appnum), ..nothing }),
                (Target::NodeId(nodeid), Selector { nodeid: Some(nodeid), ..nothing }),
                (Target::NodeName(name), Selector { hostname: Some(name), ..nothing }),
            ] {
                sure_of_instances += assert_short(reader.fast_value_in(of, &key), long(&selector), (what, selector));
            }
        }
    }
    assert!(sure > 30_000 && sure_of_instances > 30_000, "{sure} {sure_of_instances}");
}

#[test]
fn modex_values_are_the_same_for_every_rank_and_key() {
    let mut sure = 0;
    let mut placements = std::collections::BTreeSet::new();
    let large = [true, false].map(random::large_modex);
    for (seed, data) in (0..).zip((0..80).map(random::modex).chain(large).chain([random::uneven_modex()])) {
        let nspace = Nspace::new("modex").expect("a short namespace");
        let bytes = build_modex(&nspace, &data);
        assert_eq!(bytes, build_modex(&nspace, &data), "equal data give equal bytes");
        let reader = open_modex(&bytes);
        placements.insert(reader.placement_name());
        let mut ranks: Vec<Rank> = data.ranks().collect();
        ranks.sort();
        assert_eq!(reader.ranks().collect::<Vec<_>>(), ranks);
        let neighbours = ranks.iter().flat_map(|rank| [rank.0.wrapping_sub(1), rank.0.wrapping_add(1)]).map(Rank);
        let odd = [Rank(0), Rank(1), Rank::WILDCARD, Rank::UNDEF];
        for rank in ranks.iter().copied().chain(neighbours).chain(odd) {
            for key in key_pool() {
                let expected = data.get(rank, key.as_bytes()).map(ValueRef::from);
                let found = reader.get(rank, &KeyRef::from(&key));
                assert_same(expected, found, (seed, rank, &key));
                sure += assert_short(reader.fast_value(rank, &KeyRef::from(&key)), found, (seed, rank, &key));
            }
            let all: Vec<Key> = reader.rank(rank).map(|(key, _)| Key::new(key.text()).expect("a key")).collect();
            let expected: Vec<Key> = data.rank(rank).map(|(key, _)| key.clone()).collect();
            assert_eq!(all, expected, "{seed} {rank}");
        }
    }
    assert_eq!(
        placements.into_iter().collect::<Vec<_>>(),
        ["slots", "sorted", "stride", "table"],
        "all forms were tried"
    );
    assert!(sure > 10_000, "{sure}");
}

#[test]
fn a_value_added_again_replaces_the_first() {
    let nspace = Nspace::new("again").expect("a short namespace");
    let mut builder = ModexBuilder::new(nspace);
    let key = Key::from("k");
    let values = [Value::Uint32(1), Value::string("two")];
    values.iter().for_each(|value| builder.add(Rank(3), &key, value).expect("a storable value"));
    let reader = open_modex(&builder.finish("test").expect("a segment").into_bytes().expect("memory"));
    let found = reader.get(Rank(3), &KeyRef::from("k")).expect("the value").to_value();
    assert_eq!(found, Ok(Value::string("two")));
    assert_eq!(reader.rank_count(), 1);
}

#[test]
fn an_empty_modex_segment_finds_nothing() {
    let nspace = Nspace::new("empty").expect("a short namespace");
    let reader =
        open_modex(&ModexBuilder::new(nspace).finish("test").expect("a segment").into_bytes().expect("memory"));
    for rank in [Rank(0), Rank(1), Rank::WILDCARD, Rank::UNDEF] {
        assert_eq!(reader.get(rank, &KeyRef::from("k")), None);
        assert_eq!(reader.rank(rank).count(), 0);
    }
    assert_eq!(reader.ranks().count(), 0);
}

#[test]
fn values_given_by_a_formula_take_no_space() {
    let mut job = JobData::new(Nspace::new("formula").expect("a short namespace"));
    let ranks = 100_000;
    for rank in 0..ranks {
        let mut set = |key: &'static str, value| job.procs.set(Rank(rank), Key::from(key), value).expect("a rank");
        set(keys::RANK, Value::Rank(Rank(rank)));
        set(keys::NODEID, Value::Uint32(rank / 64));
        set(keys::LOCAL_RANK, Value::Uint16((rank % 64) as u16));
        set(keys::NODE_RANK, Value::Uint16((rank / 1000 % 7) as u16));
        set(keys::GLOBAL_RANK, Value::Int(5 - rank as i32));
        set(keys::APPNUM, Value::Uint32(3));
    }
    let bytes = build_job(&job, "test").expect("a segment");
    assert!(bytes.len() < 4096, "{} bytes for six formulas", bytes.len());
    let reader = open_job(&bytes);
    for (key, column) in job.procs.columns() {
        let (id, _) = reader.find_key(&KeyRef::from(key)).expect("a registered key");
        for rank in 0..column.rows() {
            assert_same(column.get(rank), reader.value(Realm::Proc, rank, id), (key, rank));
        }
    }
}

/// A job of `ranks` ranks on nodes of 60, and its process map, in blocks or round-robin.
fn large(ranks: u32, in_blocks: bool, map: impl Fn(String) -> String) -> (JobData, Value) {
    let nodes = ranks.div_ceil(60);
    let of_node = |node: u32| -> Vec<String> {
        let is_there = |rank: &u32| if in_blocks { rank / 60 == node } else { rank % nodes == node };
        let (first, step) = if in_blocks { (node * 60, 1) } else { (node, nodes as usize) };
        (first..ranks).step_by(step).take_while(is_there).map(|rank| rank.to_string()).collect()
    };
    let names: Vec<String> = (0..nodes).map(|node| format!("node{node:05}")).collect();
    let lists: Vec<String> = (0..nodes).map(|node| of_node(node).join(",")).collect();
    let map = Value::string(map(lists.join(";")));
    let infos = [Info::new(keys::NODE_MAP, Value::string(names.join(","))), Info::new(keys::PROC_MAP, map.clone())];
    let mut job = JobData::new(Nspace::new("large").expect("a short namespace"));
    job.register(&infos, b"node00000").expect("maps");
    (job, map)
}

#[test]
fn texts_of_ranks_in_blocks_take_no_room_and_read_as_they_were() {
    let ranks = 70_007;
    let raw = |list: String| format!("raw:{list}");
    let first_apart = |list: String| list.replacen("0,1,", "0-1,", 1);
    for (what, (job, map), per_rank_max) in [
        ("raw", large(ranks, true, raw), 4),
        ("plain", large(ranks, true, |list| list), 4),
        ("a map in another spelling", large(ranks, true, first_apart), 10),
        ("dealt round", large(ranks, false, raw), 4),
        ("few", large(6_000, true, raw), 20),
    ] {
        let bytes = build_job(&job, "test").expect("a segment");
        assert!(bytes.len() < per_rank_max * job.procs.rows() as usize, "{what}: {}", bytes.len());
        let reader = open_job(&bytes);
        let get = |realm, row, key: &str| {
            let (id, _) = reader.find_key(&KeyRef::from(key)).expect("a key");
            reader.value(realm, row, id).map(|value| value.to_value().expect("a text"))
        };
        assert_eq!(get(Realm::Job, 0, keys::PROC_MAP), Some(map), "{what}");
        for (row, node) in (0..).zip(&job.nodes) {
            let list = node.values.get(keys::LOCAL_PEERS.as_bytes());
            assert_eq!(get(Realm::Node, row, keys::LOCAL_PEERS).as_ref(), list, "{what}");
        }
        assert_eq!(get(Realm::Node, job.nodes.len() as u32, keys::LOCAL_PEERS), None);
    }
}

/// The node of each rank by how many each node has: of those from a node on that have room, each takes `at_once` ranks in turn.
fn dealt(counts: &[u32], at_once: u32) -> Vec<u32> {
    let (mut left, mut node_of) = (counts.to_vec(), Vec::new());
    while left.iter().any(|left| *left > 0) {
        for (node, left) in (0..).zip(&mut left) {
            let count = at_once.min(*left);
            *left -= count;
            node_of.extend(std::iter::repeat_n(node, count as usize));
        }
    }
    node_of
}

/// The job whose maps place the ranks on these nodes.
fn placed(node_of: &[u32]) -> JobData {
    let nodes = node_of.iter().max().map_or(0, |node| node + 1);
    let mut lists = vec![Vec::new(); nodes as usize];
    (0..).zip(node_of).for_each(|(rank, node): (u32, _)| lists[*node as usize].push(rank.to_string()));
    let names: Vec<String> = (0..nodes).map(|node| format!("node{node:05}")).collect();
    let lists: Vec<String> = lists.iter().map(|list| list.join(",")).collect();
    let maps = [(keys::NODE_MAP, names.join(",")), (keys::PROC_MAP, format!("raw:{}", lists.join(";")))];
    let mut job = JobData::new(Nspace::new("placed").expect("a short namespace"));
    job.register(&maps.map(|(key, map)| Info::new(key, Value::string(map))), b"node00000").expect("maps");
    job
}

/// Unequal nodes: what each rank and each node has in the segment is what a plain model says, and takes little.
#[test]
fn ranks_on_unequal_nodes_take_as_little_as_on_equal_ones() {
    let odd = |at: usize| (0..1200).map(|node| if node == at { 2 } else { 64 }).collect::<Vec<u32>>();
    let groups = |count: u32| (0..1200).map(|node| 60 + 8 * (node * count / 1200 % 5)).collect::<Vec<u32>>();
    let random = &mut Random::new(9);
    let mut drawn = dealt(&odd(7), u32::MAX);
    (1..drawn.len()).for_each(|rank| drawn.swap(rank, random.below(rank as u64 + 1) as usize));
    for (what, node_of, most) in [
        ("equal", dealt(&[64; 1200], u32::MAX), 3),
        ("the first is odd", dealt(&odd(0), u32::MAX), 3),
        ("one in the middle is odd", dealt(&odd(599), u32::MAX), 3),
        ("the last is odd", dealt(&odd(1199), u32::MAX), 3),
        ("two groups", dealt(&groups(2), u32::MAX), 3),
        ("sixteen groups", dealt(&groups(16), u32::MAX), 3),
        ("dealt", dealt(&[64; 1200], 1), 3),
        ("dealt to unequal nodes", dealt(&groups(3), 1), 3),
        ("by socket", dealt(&odd(5), 2), 3),
        ("at random", drawn, 30),
    ] {
        let job = placed(&node_of);
        let bytes = build_job(&job, "test").expect("a segment");
        assert!(bytes.len() < most * node_of.len(), "{what}: {} for {}", bytes.len(), node_of.len());
        assert!(job.procs.bytes() < most * node_of.len(), "{what}: {}", job.procs.bytes());
        let reader = open_job(&bytes);
        let number = |row, key: &str| {
            let (id, _) = reader.find_key(&KeyRef::from(key)).expect("a derived key");
            reader.value(Realm::Proc, row, id).and_then(|value| value.as_u32())
        };
        let mut lists = vec![Vec::new(); job.nodes.len()];
        for (rank, node) in (0..).zip(&node_of) {
            let list = &mut lists[*node as usize];
            assert_eq!(number(rank, keys::NODEID), Some(*node), "{what}: {rank}");
            assert_eq!(number(rank, keys::LOCAL_RANK), Some(list.len() as u32), "{what}: {rank}");
            let name = reader.fast_value(Rank(rank), &KeyRef::from(keys::HOSTNAME), Rank(0)).value();
            assert_eq!(
                name.and_then(|name| name.as_text()),
                Some(&*job.nodes[*node as usize].hostname),
                "{what}: {rank}"
            );
            list.push(Rank(rank));
        }
        for (node, list) in (0..).zip(&lists) {
            let found = reader.node_ranks(node).map(|ranks| ranks.iter().collect::<Vec<_>>());
            assert_eq!(found.as_ref(), Some(list).filter(|_| most == 3), "{what}: {node}");
        }
        assert_eq!((reader.node_ranks(1200), reader.is_damaged()), (None, false));
    }
}

#[test]
fn equal_strings_are_stored_once() {
    let mut job = JobData::new(Nspace::new("strings").expect("a short namespace"));
    let name = "a-rather-long-name-of-a-node-in-a-cluster-somewhere";
    for rank in 0..1000 {
        let text = format!("{name}-{}", [2, 0, 1, 1][rank as usize % 4]);
        job.procs.set(Rank(rank), Key::from(keys::HOSTNAME), Value::string(text)).expect("a rank");
    }
    let bytes = build_job(&job, "test").expect("a segment");
    let count = bytes.windows(name.len()).filter(|window| *window == name.as_bytes()).count();
    assert_eq!(count, 3);
}

#[test]
fn a_segment_in_pieces_is_published_and_read_as_one() {
    let nspace = Nspace::new("pieces").expect("a short namespace");
    let lens = [0, 1023, 1024, 5000, 70_000, 8, 1025];
    let values: Vec<Value> = lens.iter().map(|len| Value::ByteObject(vec![*len as u8; *len].into())).collect();
    let mut builder = ModexBuilder::new(nspace.clone());
    // Of one length in all ranks, and of several.
    for rank in 0..values.len() {
        builder.add(Rank(rank as u32), &Key::from("same"), &values[3]).expect("a storable value");
        builder.add(Rank(rank as u32), &Key::from("own"), &values[rank]).expect("a storable value");
    }
    let pieces = builder.finish("test").expect("a segment");
    assert!(pieces.shared_len() >= 7 * 5000, "long values are where they were");
    let bytes = pieces.clone().into_bytes().expect("memory");
    assert_eq!(content_hash(&bytes), Some(RawHeader::read(&bytes).expect("a header").content_hash));
    let parent = tempfile::tempdir().expect("a temporary directory");
    let mut publisher = Publisher::create(parent.path(), &nspace, None).expect("a directory");
    publisher.publish(SegmentKind::Modex, &pieces).expect("room");
    assert_eq!(std::fs::read(publisher.directory().join("segment-0")).expect("the segment"), bytes);
    let reader = open_modex(&bytes);
    for (rank, value) in values.iter().enumerate() {
        let get = |key: &str| reader.get(Rank(rank as u32), &KeyRef::from(key)).expect("the value").to_value();
        assert_eq!((get("own").as_ref(), get("same").as_ref()), (Ok(value), Ok(&values[3])));
    }
}
