//! The format does not change by accident.
//!
//! The files in `tests/data` were written by this test with `PMIX_TEST_BLESS=1`. A difference is a decision about
//! compatibility: a new format version and new files beside the old ones, which stay to be refused or read.

use std::path::PathBuf;

use super::round_trip::{assert_same, build_modex, open_job, open_modex};
use crate::job::{JobData, Node};
use crate::model::{Info, Key, KeyRef, Nspace, Rank, Value, keys};
use crate::modex::ModexData;
use crate::realm_resolution::{JobLookup, Realm};
use crate::segment::write::build_job_made;
use crate::segment::{
    HeapRegion, InspectOptions, JobReader, ModexReader, SegmentError, build_job, inspect_segment, layout_text,
};

#[track_caller]
fn assert_golden(name: &str, bytes: &[u8]) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name);
    if std::env::var_os("PMIX_TEST_BLESS").is_some() {
        std::fs::write(&path, bytes).expect("room for the file");
    }
    let golden = std::fs::read(&path).expect("the golden file");
    if golden != bytes {
        let (golden, bytes) = (String::from_utf8_lossy(&golden), String::from_utf8_lossy(bytes));
        assert_eq!(golden, bytes, "{name}");
    }
}

/// A small job with every form of column.
fn job() -> JobData {
    let mut job = JobData::new(Nspace::new("golden").expect("a short namespace"));
    job.session.insert(Key::from(keys::SESSION_ID), Value::Uint32(7));
    job.job.insert(Key::from(keys::JOB_SIZE), Value::Uint32(8));
    job.job.insert(Key::from(keys::JOBID), Value::string("golden.0"));
    let infos = [Info::new(keys::RANK, Value::Rank(Rank(3))), Info::new("odd", Value::Undef)];
    job.job.insert(Key::from("an.array"), Value::infos(infos));
    job.apps.insert(2, [(Key::from(keys::APP_SIZE), Value::Uint32(8))].into());
    for row in 0..2u32 {
        let hostname = format!("node{row}");
        job.nodes.push(Node {
            nodeid: Some(10 + row),
            hostname: hostname.clone().into_bytes(),
            aliases: vec![format!("alias{row}").into_bytes()],
            values: [(Key::from(keys::HOSTNAME), Value::string(hostname))].into(),
            ..Node::default()
        });
    }
    for rank in 0..8u32 {
        let mut set = |key: &'static str, value| job.procs.set(Rank(rank), Key::from(key), value).expect("a rank");
        set(keys::RANK, Value::Rank(Rank(rank)));
        set(keys::NODEID, Value::Uint32(10 + rank / 4));
        set(keys::LOCAL_RANK, Value::Uint16(rank as u16 % 4));
        set(keys::HOSTNAME, Value::string(format!("node{}", rank / 4)));
        set("dense", Value::Int(i32::from([3i8, -1, 4, -1, 5, -9, 2, 6][rank as usize])));
        if rank == 5 {
            set("one", Value::ByteObject(vec![1, 2, 3].into()));
            set("dense", Value::String(None));
        }
    }
    job
}

/// The segment of a job with as many consecutive ranks on each node. Readers build its texts of ranks.
fn in_blocks(counts: &[u32]) -> Vec<u8> {
    let mut job = JobData::new(Nspace::new("golden").expect("a short namespace"));
    let names: Vec<String> = (0..counts.len()).map(|node| format!("node{node}")).collect();
    let mut ranks = 0..;
    let list = |count: &u32| ranks.by_ref().take(*count as usize).map(|rank: u32| rank.to_string()).collect::<Vec<_>>();
    let lists: Vec<String> = counts.iter().map(list).map(|list| list.join(",")).collect();
    let maps = [(keys::NODE_MAP, names.join(",")), (keys::PROC_MAP, format!("raw:{}", lists.join(";")))];
    job.register(&maps.map(|(key, map)| Info::new(key, Value::string(map))), b"node0").expect("maps");
    // Derived only by newer code; the file lacks it.
    job.job.remove(keys::MAX_PROCS.as_bytes());
    build_job_made(&job, "golden", 1..=u32::MAX).expect("a segment")
}

/// One rank of many has larger values than the others, and one has none.
fn uneven() -> ModexData {
    let mut data = ModexData::default();
    for rank in (0..20u32).filter(|rank| *rank != 5) {
        data.set(Rank(rank), Key::from("blob"), Value::ByteObject(vec![rank as u8; 24].into())).unwrap();
        if rank == 2 {
            data.set(Rank(rank), Key::from("uri"), Value::string("tcp://2")).unwrap();
        }
    }
    data
}

fn modex(varying: bool) -> ModexData {
    let mut data = ModexData::default();
    for rank in 0..4u32 {
        let len = if varying { 40 * rank as usize * rank as usize } else { 5 };
        data.set(Rank(rank), Key::from("blob"), Value::ByteObject(vec![rank as u8; len].into())).unwrap();
        data.set(Rank(rank), Key::from("port"), Value::Uint16(1000 + rank as u16)).unwrap();
        data.set(Rank(rank), Key::from("uri"), Value::string(format!("tcp://{rank}"))).unwrap();
    }
    data
}

#[test]
fn job_segments_are_as_they_were() {
    let bytes = build_job(&job(), "golden").expect("a segment");
    assert_golden("job-v3.segment", &bytes);
    assert_golden("job-v3.txt", inspect_segment(&bytes, &InspectOptions::default()).to_text().as_bytes());
    for (name, counts) in [("job-ranks-v3", &[4, 4, 2][..]), ("job-runs-v3", &[40, 2, 40, 40, 20, 20])] {
        let bytes = in_blocks(counts);
        assert_golden(&format!("{name}.segment"), &bytes);
        assert_golden(&format!("{name}.txt"), inspect_segment(&bytes, &InspectOptions::default()).to_text().as_bytes());
    }
    let reader = open_job(&bytes);
    let job = job();
    for (key, column) in job.procs.columns() {
        let (handle, _) = reader.find_key(&KeyRef::from(key)).expect("a registered key");
        for rank in 0..column.rows() {
            let found = reader.value(Realm::Proc, rank, handle);
            assert_same(column.get(rank), found, (key, rank));
        }
    }
}

#[test]
fn modex_segments_are_as_they_were() {
    let nspace = Nspace::new("golden").expect("a short namespace");
    for (name, data, ranks) in
        [("modex-stride-v3", modex(false), 4), ("modex-table-v3", modex(true), 4), ("modex-slots-v3", uneven(), 19)]
    {
        let bytes = build_modex(&nspace, &data);
        assert_golden(&format!("{name}.segment"), &bytes);
        assert_golden(&format!("{name}.txt"), inspect_segment(&bytes, &InspectOptions::default()).to_text().as_bytes());
        assert_eq!(open_modex(&bytes).rank_count(), ranks);
    }
}

#[test]
fn segments_of_older_versions_are_refused() {
    for (name, version) in [
        ("job-v1", 1),
        ("modex-stride-v1", 1),
        ("modex-table-v1", 1),
        ("job-v2", 2),
        ("job-ranks-v2", 2),
        ("modex-stride-v2", 2),
        ("modex-table-v2", 2),
        ("modex-slots-v2", 2),
    ] {
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("tests/data/{name}.segment"));
        let bytes = std::fs::read(&path).expect("the golden file");
        let job = JobReader::open(Box::new(HeapRegion::new(&bytes))).err();
        let modex = ModexReader::open(Box::new(HeapRegion::new(&bytes))).err();
        let refused = Some(SegmentError::Version { found: version });
        assert_eq!((&job, &modex), (&refused, &refused), "{name}");
    }
}

#[test]
fn the_layout_is_as_it_was() {
    assert_golden("layout-v3.txt", layout_text().as_bytes());
}
