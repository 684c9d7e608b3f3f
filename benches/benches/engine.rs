//! Cost of the store without the C interface: building segments, attaching them, looking up values; and maps.
//!
//! `make bench-engine`, or `cargo bench -p pmix-benches --bench engine -- FILTER`. A job of 65,536 ranks on 1024 nodes, with
//! eight published values of 64 bytes a rank. Each look-up depends on the one before it, so that the figures are latencies:
//! *hot* ones are for one rank of four, *cold* ones for ranks all over the segment. *million* is a job of 1,048,576 ranks
//! with one published value each, read at random, beside a plain array of as many values as the lower bound.

use std::error::Error;
use std::hint::black_box;
use std::time::Duration;

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, Throughput};
use pmix_dstore::codec::ValueRef;
use pmix_dstore::job::{JobData, Node};
use pmix_dstore::maps::{generate_ppn, generate_regex, parse_nodes, parse_ppn};
use pmix_dstore::model::{Key, KeyRef, Nspace, Rank, Value, keys};
use pmix_dstore::realm_resolution::{JobLookup, Realm};
use pmix_dstore::segment::{Directory, ModexBuilder, NamespaceView, Publisher, SegmentKind, build_job};

const RANKS: u32 = 65536;
const RANKS_PER_NODE: u32 = 64;
const MANY_RANKS: u32 = 1 << 20;
const MAP_NODES: u32 = 16384;

fn main() -> Result<(), Box<dyn Error>> {
    let mut criterion = Criterion::default()
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2))
        .sample_size(50)
        .configure_from_args();
    let nspace = Nspace::new("bench")?;
    let job = job(&nspace, RANKS)?;
    let keys: Vec<Key> = (0..8).map(|index| Key::new(format!("btl.endpoint.{index}"))).collect::<Result<_, _>>()?;
    let values: Vec<Value> = (0..8).map(|index| Value::ByteObject(vec![index; 64].into())).collect();
    let modex = || {
        let mut builder = ModexBuilder::new(nspace.clone());
        for rank in 0..RANKS {
            builder.add_rank(Rank(rank), keys.iter().zip(&values))?;
        }
        builder.finish("bench")
    };
    let (job_bytes, modex_bytes) = (build_job(&job, "bench")?, modex()?);

    let mut group = criterion.benchmark_group("build");
    group.sample_size(10).throughput(Throughput::Elements(RANKS.into()));
    group.bench_function("job segment", |bencher| bencher.iter(|| build_job(&job, "bench").expect("built before")));
    group.bench_function("modex segment", |bencher| bencher.iter(|| modex().expect("built before")));
    group.finish();

    maps(&mut criterion);

    let mut publisher = Publisher::create("/dev/shm".as_ref(), &nspace, None)?;
    publisher.publish(SegmentKind::Job, &job_bytes)?;
    publisher.publish(SegmentKind::Modex, &modex_bytes)?;
    let attach = || -> Result<NamespaceView, Box<dyn Error>> {
        Ok(NamespaceView::attach(Directory::open(publisher.directory(), publisher.directory_id())?)?)
    };
    let view = attach()?;
    criterion.bench_function("attach two segments", |bencher| bencher.iter(|| attach().expect("attached before")));
    for (place, spread) in [("hot", 4), ("cold", RANKS)] {
        look_up(&mut criterion.benchmark_group(place), &view, spread);
    }
    drop((view, publisher));
    million(&mut criterion)?;
    criterion.final_summary();
    Ok(())
}

/// Values of random ranks of a large job, copied.
fn million(criterion: &mut Criterion) -> Result<(), Box<dyn Error>> {
    let (nspace, key) = (Nspace::new("million")?, Key::from("btl.endpoint.0"));
    let mut publisher = Publisher::create("/dev/shm".as_ref(), &nspace, None)?;
    let values: Vec<Value> = (0..MANY_RANKS).map(|rank| Value::ByteObject(vec![rank as u8; 64].into())).collect();
    let mut builder = ModexBuilder::new(nspace.clone());
    for (rank, value) in (0..).zip(&values) {
        builder.add_rank(Rank(rank), [(&key, value)])?;
    }
    publisher.publish(SegmentKind::Modex, &builder.finish("bench")?)?;
    publisher.publish(SegmentKind::Job, &build_job(&job(&nspace, MANY_RANKS)?, "bench")?)?;
    let view = NamespaceView::attach(Directory::open(publisher.directory(), publisher.directory_id())?)?;
    let table: Vec<[u8; 64]> = (0..MANY_RANKS).map(|rank| [rank as u8; 64]).collect();
    let copied = |bytes: &[u8]| black_box(bytes.to_vec())[63].into();
    let get = |key: &'static str, rank: u32| match view
        .fast_value(Rank(rank), &KeyRef::new(black_box(key).as_bytes()), Rank(1))
        .value()?
    {
        ValueRef::Bytes { bytes, .. } => Some(copied(bytes)),
        value => Some(fold(&value)),
    };
    let group = &mut criterion.benchmark_group("million");
    measure(group, "a table of 64 bytes each", MANY_RANKS, &|rank| Some(copied(&table[rank as usize])));
    measure(group, "published, 64 bytes", MANY_RANKS, &|rank| get("btl.endpoint.0", rank));
    measure(group, "u16 by formula", MANY_RANKS, &|rank| get(keys::LOCAL_RANK, rank));
    measure(group, "u32 stored", MANY_RANKS, &|rank| get("stored.u32", rank));
    measure(group, "hostname", MANY_RANKS, &|rank| get(keys::HOSTNAME, rank));
    Ok(())
}

/// Look-ups of random ranks below `spread`, each of which depends on the one before.
fn measure(group: &mut BenchmarkGroup<'_, WallTime>, name: &str, spread: u32, lookup: &dyn Fn(u32) -> Option<u64>) {
    let mut state = 1u64;
    group.bench_function(name, |bencher| {
        bencher.iter(|| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let rank = (((state >> 33) * u64::from(spread)) >> 31) as u32;
            let found = lookup(rank).unwrap_or_else(|| panic!("rank {rank} has no value"));
            state ^= black_box(found) & 1;
        });
    });
}

/// The maps of a large job, in our form and in the shortest form that stock libraries write.
fn maps(criterion: &mut Criterion) {
    let names: Vec<String> = (0..MAP_NODES).map(|node| format!("nid{node:06}")).collect();
    let fields = (0..MAP_NODES).map(|node| format!("{}-{}", node * RANKS_PER_NODE, (node + 1) * RANKS_PER_NODE - 1));
    let (nodes, ppn) = (names.join(","), fields.collect::<Vec<_>>().join(";"));
    let written =
        (generate_regex(nodes.as_bytes()).expect("a node map"), generate_ppn(ppn.as_bytes()).expect("a process map"));
    let native = (format!("pmix[nid[6:0-{}]]", MAP_NODES - 1), format!("pmix[{ppn}]"));
    let mut group = criterion.benchmark_group("maps of 1,048,576 ranks on 16,384 nodes");
    group.sample_size(10);
    group.bench_function("write nodes", |bencher| bencher.iter(|| generate_regex(black_box(nodes.as_bytes()))));
    group.bench_function("write ranks", |bencher| bencher.iter(|| generate_ppn(black_box(ppn.as_bytes()))));
    group.bench_function("read nodes", |bencher| bencher.iter(|| parse_nodes(black_box(&written.0))));
    group.bench_function("read ranks", |bencher| bencher.iter(|| parse_ppn(black_box(&written.1))));
    group.bench_function("read nodes, run together", |bencher| {
        bencher.iter(|| parse_nodes(black_box(native.0.as_bytes())));
    });
    group.bench_function("read ranks, run together", |bencher| {
        bencher.iter(|| parse_ppn(black_box(native.1.as_bytes())));
    });
    group.finish();
}

/// Look-ups of ranks below `spread`.
fn look_up(group: &mut BenchmarkGroup<'_, WallTime>, view: &NamespaceView, spread: u32) {
    let get = |text: &str, rank: u32| {
        let key = KeyRef::new(black_box(text).as_bytes());
        view.fast_value(Rank(rank), &key, Rank(1)).value().map(|value| fold(&value))
    };
    let column = |text: &str, rank: u32| {
        let job = view.job()?;
        let (key, _) = job.find_key(&KeyRef::new(black_box(text).as_bytes()))?;
        job.value(Realm::Proc, rank, key).map(|value| fold(&value))
    };
    let mut run = |name: &str, lookup: &dyn Fn(u32) -> Option<u64>| measure(group, name, spread, lookup);
    run("nothing, the loop itself", &|rank| Some(rank.into()));
    run("a key's hash alone", &|rank| Some(KeyRef::new(black_box("pmix.lrank").as_bytes()).hash() ^ u64::from(rank)));
    run("column, u16 by formula", &|rank| column(keys::LOCAL_RANK, rank));
    run("column, u32 stored", &|rank| column("stored.u32", rank));
    run("column, hostname", &|rank| column(keys::HOSTNAME, rank));
    run("u16 by formula", &|rank| get(keys::LOCAL_RANK, rank));
    run("u32 stored, key without class", &|rank| get("stored.u32", rank));
    run("hostname", &|rank| get(keys::HOSTNAME, rank));
    run("job size, wildcard rank", &|_| get(keys::JOB_SIZE, Rank::WILDCARD.0));
    run("local peers of the own node", &|_| get(keys::LOCAL_PEERS, Rank::WILDCARD.0));
    run("unknown key", &|rank| get("no.such.key", rank).or(Some(1)));
    run("published, 64 bytes", &|rank| get("btl.endpoint.5", rank));
}

fn job(nspace: &Nspace, ranks: u32) -> Result<JobData, Box<dyn Error>> {
    let (nodes, per_node) = (ranks / RANKS_PER_NODE, RANKS_PER_NODE);
    let mut job = JobData::new(nspace.clone());
    job.job.insert(Key::from(keys::JOB_SIZE), Value::Uint32(ranks));
    for row in 0..nodes {
        let hostname = format!("node{row:05}");
        let mut node = Node { nodeid: Some(row), hostname: hostname.clone().into_bytes(), ..Node::default() };
        node.values.insert(Key::from(keys::HOSTNAME), Value::string(hostname));
        let peers: Vec<String> = (row * per_node..(row + 1) * per_node).map(|rank| rank.to_string()).collect();
        node.values.insert(Key::from(keys::LOCAL_PEERS), Value::string(peers.join(",")));
        job.nodes.push(node);
    }
    for rank in 0..ranks {
        let mut set =
            |key: &'static str, value| job.procs.set(Rank(rank), Key::from(key), value).map_err(|e| e.to_string());
        set(keys::RANK, Value::Rank(Rank(rank)))?;
        set(keys::GLOBAL_RANK, Value::Uint32(rank))?;
        set(keys::LOCAL_RANK, Value::Uint16((rank % per_node) as u16))?;
        set(keys::NODE_RANK, Value::Uint16((rank % per_node) as u16))?;
        set(keys::APPNUM, Value::Uint32(0))?;
        set(keys::NODEID, Value::Uint32(rank / per_node))?;
        set(keys::HOSTNAME, Value::string(format!("node{:05}", rank / per_node)))?;
        set("stored.u32", Value::Uint32(rank.wrapping_mul(2_654_435_761)))?;
    }
    Ok(job)
}

/// A number that depends on the value's bytes.
fn fold(value: &ValueRef<'_>) -> u64 {
    match value {
        ValueRef::Scalar { bits, .. } => *bits,
        ValueRef::Str(Some(text)) => text.to_bytes().last().copied().unwrap_or(0).into(),
        ValueRef::Bytes { bytes, .. } => bytes.last().copied().unwrap_or(0).into(),
        _ => 0,
    }
}
