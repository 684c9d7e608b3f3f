//! What a lookup in segments costs, without the C interface around it.
//!
//! `cargo run --release -p pmix-benches --bin segment_get [RANKS]` builds a job and a modex segment, publishes them in a
//! temporary directory and looks values up through a view. Each lookup depends on the one before it, so that the figures
//! are latencies. *Hot* asks for one rank of a few, *cold* for ranks all over the segment.

use std::error::Error;
use std::hint::black_box;
use std::time::Instant;

use pmix_dstore::job::{JobData, Node};
use pmix_dstore::model::{Key, KeyRef, Nspace, Rank, Value, ValueRef, keys};
use pmix_dstore::rules::{Caller, JobLookup, Realm, Selector, find};
use pmix_dstore::segment::{Directory, ModexBuilder, NamespaceView, Publisher, SegmentKind, build_job};

fn main() -> Result<(), Box<dyn Error>> {
    let ranks: u32 = std::env::args().nth(1).map_or(Ok(65536), |text| text.parse())?;
    let nodes = (ranks / 64).max(1);
    let nspace = Nspace::new("bench")?;
    let job = job(&nspace, ranks, nodes)?;

    let started = Instant::now();
    let job_bytes = build_job(&job, "bench")?;
    println!("job: {ranks} ranks x 8 keys, {nodes} nodes: {:?}, {} bytes", started.elapsed(), job_bytes.len());

    let keys: Vec<Key> = (0..8).map(|index| Key::new(format!("btl.endpoint.{index}"))).collect::<Result<_, _>>()?;
    let values: Vec<Value> = (0..8).map(|index| Value::ByteObject(vec![index; 64])).collect();
    let started = Instant::now();
    let mut builder = ModexBuilder::new(nspace.clone());
    for rank in 0..ranks {
        builder.add_rank(Rank(rank), keys.iter().zip(&values))?;
    }
    println!("modex, adding: {:?}", started.elapsed());
    let modex_bytes = builder.finish("bench")?;
    println!("modex: {ranks} ranks x 8 x 64 B: {:?}, {} bytes", started.elapsed(), modex_bytes.len());

    let tmp = std::env::temp_dir();
    let mut publisher =
        Publisher::create(if tmp.starts_with("/dev/shm") { &tmp } else { "/dev/shm".as_ref() }, &nspace, None)?;
    let started = Instant::now();
    publisher.publish(SegmentKind::Job, &job_bytes)?;
    publisher.publish(SegmentKind::Modex, &modex_bytes)?;
    println!("publish both: {:?}", started.elapsed());
    let started = Instant::now();
    let view = NamespaceView::attach(Directory::open(publisher.directory(), publisher.directory_id())?)?;
    println!("attach: {:?}\n", started.elapsed());

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
    for (place, spread) in [("hot", 4), ("cold", ranks)] {
        let run = |name: &str, lookup: &dyn Fn(u32) -> Option<u64>| {
            let (min, median) = nanoseconds(spread, lookup);
            println!("{place:4} {name:40} min {min:6.1}  median {median:6.1} ns");
        };
        run("nothing (the loop itself)", &|rank| Some(rank.into()));
        run("key hash alone", &|rank| Some(KeyRef::new(black_box("pmix.lrank").as_bytes()).hash() ^ u64::from(rank)));
        run("job reader: u16 formula", &|rank| column(keys::LOCAL_RANK, rank));
        run("job reader: u32 stored", &|rank| column("stored.u32", rank));
        run("job reader: hostname", &|rank| column(keys::HOSTNAME, rank));
        run("rules: u16 formula", &|rank| get(keys::LOCAL_RANK, rank));
        run("rules: u32 stored, key without class", &|rank| get("stored.u32", rank));
        run("rules: hostname", &|rank| get(keys::HOSTNAME, rank));
        run("rules: job size, wildcard rank", &|_| get(keys::JOB_SIZE, Rank::WILDCARD.0));
        run("rules: local peers of my node", &|_| get(keys::LOCAL_PEERS, Rank::WILDCARD.0));
        run("rules: miss, unknown key", &|rank| get("no.such.key", rank).or(Some(1)));
        run("modex: 64 B", &|rank| modex("btl.endpoint.5", rank));
        run("modex: miss, unknown key", &|rank| modex("no.such.key", rank).or(Some(1)));
        println!();
    }
    Ok(())
}

fn job(nspace: &Nspace, ranks: u32, nodes: u32) -> Result<JobData, Box<dyn Error>> {
    let mut job = JobData::new(nspace.clone());
    job.job.insert(Key::from(keys::JOB_SIZE), Value::Uint32(ranks));
    for row in 0..nodes {
        let hostname = format!("node{row:05}");
        let mut node = Node { nodeid: Some(row), hostname: hostname.clone().into_bytes(), ..Node::default() };
        node.values.insert(Key::from(keys::HOSTNAME), Value::string(hostname));
        let peers: Vec<String> = (row * 64..(row + 1) * 64).map(|rank| rank.to_string()).collect();
        node.values.insert(Key::from(keys::LOCAL_PEERS), Value::string(peers.join(",")));
        job.nodes.push(node);
    }
    for rank in 0..ranks {
        let mut set =
            |key: &'static str, value| job.procs.set(Rank(rank), Key::from(key), value).map_err(|e| e.to_string());
        set(keys::RANK, Value::Rank(Rank(rank)))?;
        set(keys::GLOBAL_RANK, Value::Uint32(rank))?;
        set(keys::LOCAL_RANK, Value::Uint16((rank % 64) as u16))?;
        set(keys::NODE_RANK, Value::Uint16((rank % 64) as u16))?;
        set(keys::APPNUM, Value::Uint32(0))?;
        set(keys::NODEID, Value::Uint32(rank / 64))?;
        set(keys::HOSTNAME, Value::string(format!("node{:05}", rank / 64)))?;
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

/// Least and median over rounds of the time of one lookup, each for a rank below `spread` that depends on the last answer.
fn nanoseconds(spread: u32, lookup: &dyn Fn(u32) -> Option<u64>) -> (f64, f64) {
    const LOOKUPS: u32 = 4_000;
    let mut state = 1u64;
    let mut rounds: Vec<f64> = (0..101)
        .map(|_| {
            let started = Instant::now();
            for _ in 0..LOOKUPS {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let rank = (((state >> 33) * u64::from(spread)) >> 31) as u32;
                let found = lookup(rank).unwrap_or_else(|| panic!("rank {rank} has no value"));
                state ^= black_box(found) & 1;
            }
            started.elapsed().as_nanos() as f64 / f64::from(LOOKUPS)
        })
        .collect();
    rounds.sort_by(f64::total_cmp);
    (rounds[0], rounds[rounds.len() / 2])
}
