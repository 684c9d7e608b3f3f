//! What the store costs, without the C interface around it: building segments, attaching them, looking values up; and maps.
//!
//! `make bench-engine`, or `cargo bench -p pmix-benches --bench engine -- FILTER`. A job of 65,536 ranks on 1024 nodes, with
//! eight published values of 64 bytes a rank. Each look-up depends on the one before it, so that the figures are latencies:
//! *hot* ones are for one rank of four, *cold* ones for ranks all over the segment.

use std::error::Error;
use std::hint::black_box;
use std::time::Duration;

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, Throughput};
use pmix_dstore::job::{JobData, Node};
use pmix_dstore::maps::{generate_ppn, generate_regex, parse_nodes, parse_ppn};
use pmix_dstore::model::{Key, KeyRef, Nspace, Rank, Value, ValueRef, keys};
use pmix_dstore::rules::{Caller, JobLookup, Realm, Selector, find};
use pmix_dstore::segment::{Directory, ModexBuilder, NamespaceView, Publisher, SegmentKind, build_job};

const RANKS: u32 = 65536;
const RANKS_PER_NODE: u32 = 64;
const MAP_NODES: u32 = 16384;

fn main() -> Result<(), Box<dyn Error>> {
    let mut criterion = Criterion::default()
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2))
        .sample_size(50)
        .configure_from_args();
    let nspace = Nspace::new("bench")?;
    let job = job(&nspace)?;
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
    criterion.final_summary();
    Ok(())
}

/// The maps of a large job, in the form that we write and in the shortest that stock libraries do.
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
    let caller = Caller { rank: Some(Rank(1)), hostname: b"node00000" };
    let get = |text: &str, rank: u32| {
        let key = KeyRef::new(black_box(text).as_bytes());
        let job = view.job()?;
        find(job, Rank(rank), &key, &Selector::default(), &caller).map(|value| fold(&value))
    };
    let column = |text: &str, rank: u32| {
        let job = view.job()?;
        let (key, _) = job.find_key(&KeyRef::new(black_box(text).as_bytes()))?;
        job.value(Realm::Proc, rank, key).map(|value| fold(&value))
    };
    let modex = |text: &str, rank: u32| {
        view.modex(Rank(rank), &KeyRef::new(black_box(text).as_bytes())).map(|value| fold(&value))
    };
    let mut run = |name: &str, lookup: &dyn Fn(u32) -> Option<u64>| {
        let mut state = 1u64;
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let rank = (((state >> 33) * u64::from(spread)) >> 31) as u32;
                let found = lookup(rank).unwrap_or_else(|| panic!("rank {rank} has no value"));
                state ^= black_box(found) & 1;
            });
        });
    };
    run("nothing, the loop itself", &|rank| Some(rank.into()));
    run("a key's hash alone", &|rank| Some(KeyRef::new(black_box("pmix.lrank").as_bytes()).hash() ^ u64::from(rank)));
    run("column, u16 by formula", &|rank| column(keys::LOCAL_RANK, rank));
    run("column, u32 stored", &|rank| column("stored.u32", rank));
    run("column, hostname", &|rank| column(keys::HOSTNAME, rank));
    run("rules, u16 by formula", &|rank| get(keys::LOCAL_RANK, rank));
    run("rules, u32 stored, key without class", &|rank| get("stored.u32", rank));
    run("rules, hostname", &|rank| get(keys::HOSTNAME, rank));
    run("rules, job size, wildcard rank", &|_| get(keys::JOB_SIZE, Rank::WILDCARD.0));
    run("rules, local peers of the own node", &|_| get(keys::LOCAL_PEERS, Rank::WILDCARD.0));
    run("rules, unknown key", &|rank| get("no.such.key", rank).or(Some(1)));
    run("published, 64 bytes", &|rank| modex("btl.endpoint.5", rank));
    run("published, unknown key", &|rank| modex("no.such.key", rank).or(Some(1)));
}

fn job(nspace: &Nspace) -> Result<JobData, Box<dyn Error>> {
    let (ranks, nodes, per_node) = (RANKS, RANKS / RANKS_PER_NODE, RANKS_PER_NODE);
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
