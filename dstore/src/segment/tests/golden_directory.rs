//! Directories that servers of this and former versions of the format have left: read value by value, or refused by name.
//!
//! `tests/golden/record.sh` made `tests/data/directory-v*`: the job is that of `tests/programs/host.c` on two nodes, the values are those of
//! `tests/programs/golden.c`.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::directory::attach_path;
use crate::model::{DataType, Info, Key, KeyRef, Nspace, Proc, Rank, Value, keys};
use crate::realm_resolution::Realm;
use crate::segment::directory::page::{PAGE_CAPACITY, position};
use crate::segment::layout::page::PAGE_LEN;
use crate::segment::{AttachError, FORMAT_VERSION, InspectOptions, NamespaceView, SegmentError, inspect_directory};

/// The version of pages that is in use.
const PAGE_VERSION: u32 = 2;

/// A copy of a recorded directory, as its server made it.
struct Golden {
    _place: tempfile::TempDir,
    inner: PathBuf,
}

impl Golden {
    fn of(version: u32) -> Golden {
        let from = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/data/directory-v{version}/s"));
        let place = tempfile::tempdir().expect("a temporary directory");
        let inner = place.path().join("s");
        fs::create_dir(&inner).expect("a directory");
        fs::set_permissions(&inner, fs::Permissions::from_mode(0o755)).expect("its mode");
        for entry in fs::read_dir(from).expect("the golden directory") {
            let entry = entry.expect("an entry");
            let mut bytes = fs::read(entry.path()).expect("the golden file");
            if entry.file_name() == "page-0" {
                bytes.resize(position(PAGE_CAPACITY), 0);
            }
            fs::write(inner.join(entry.file_name()), bytes).expect("room for the file");
        }
        let golden = Golden { _place: place, inner };
        golden.change("", |_| ());
        golden
    }

    /// Changes all files whose names begin so, and gives all files the mode that servers give them.
    fn change(&self, prefix: &str, change: impl Fn(&mut Vec<u8>)) {
        for entry in fs::read_dir(&self.inner).expect("the directory") {
            let entry = entry.expect("an entry");
            if entry.file_name().to_str().expect("a name").starts_with(prefix) {
                let mut bytes = fs::read(entry.path()).expect("a file");
                change(&mut bytes);
                fs::remove_file(entry.path()).expect("a file");
                fs::write(entry.path(), bytes).expect("room for the file");
                fs::set_permissions(entry.path(), fs::Permissions::from_mode(0o444)).expect("its mode");
            }
        }
    }

    /// The problems that `pmixctl inspect` names, one a line.
    fn problems(&self) -> String {
        let report = inspect_directory(&self.inner, &InspectOptions::default()).expect("a page");
        let text = report.to_text();
        assert!(!text.contains("pmix.job.size") && !text.contains("g.text"), "nothing is decoded: {text}");
        text.lines().filter(|line| line.contains(OTHER)).collect::<Vec<_>>().join("\n")
    }
}

const OTHER: &str = "to read it, use the release that wrote it";

type Values = BTreeMap<String, Value>;

fn values<const N: usize>(values: [(&str, Value); N]) -> Values {
    values.map(|(key, value)| (key.to_owned(), value)).into()
}

fn text(text: impl AsRef<[u8]>) -> Value {
    Value::string(text.as_ref())
}

/// What rank `rank` published that a process on node 0 can read.
fn published(rank: u32) -> Values {
    let nspace = Nspace::new("golden").expect("a short namespace");
    let bytes = |count: usize| Value::ByteObject(vec![b'a' + rank as u8; count].into());
    let mut all = values([
        ("g.text", text(format!("global of {rank}"))),
        ("g.empty", text("")),
        ("g.uint16", Value::Uint16(60_000 + rank as u16)),
        ("g.uint32", Value::Uint32(1000 + rank)),
        ("g.uint64", Value::Uint64((1 << 40) + u64::from(rank))),
        ("g.int", Value::Int(-7 * rank as i32)),
        ("g.bool", Value::Bool(rank % 2 == 1)),
        ("g.version", Value::Uint32(if rank == 1 { 2 } else { 1 })),
        ("g.proc", Value::Proc(Proc { nspace, rank: Rank(rank + 1) })),
        ("g.bytes", bytes(5)),
        ("g.many", bytes(500 * rank as usize)),
        (
            "g.infos",
            Value::infos([Info::new("inner.text", text("within")), Info::new("inner.number", Value::Uint32(rank))]),
        ),
    ]);
    // Ranks take turns on the two nodes.
    let scope = if rank.is_multiple_of(2) { "local" } else { "remote" };
    all.insert(format!("g.{scope}"), text(format!("{scope} of {rank}")));
    if rank == 1 {
        all.insert("g.late".to_owned(), text("of rank 1 alone"));
    }
    all
}

/// What the host registered, and what follows from it, by realm and row.
fn registered(realm: Realm, row: u32) -> Values {
    match realm {
        Realm::Session => values([
            (keys::ALLOCATED_NODELIST, text("nodeA,nodeB")),
            (keys::CLUSTER_ID, text("test-cluster")),
            (keys::HOSTNAME_KEEP_FQDN, Value::Bool(true)),
            (keys::MAX_PROCS, Value::Uint32(8)),
            (keys::SESSION_ID, Value::Uint32(42)),
            (keys::TMPDIR, text(DIRECTORY)),
            (keys::UNIV_SIZE, Value::Uint32(7)),
        ]),
        Realm::Job => values([
            (keys::BINDTO, text("none")),
            (keys::JOB_NUM_APPS, Value::Uint32(1)),
            (keys::JOB_SIZE, Value::Uint32(4)),
            (keys::JOBID, text("job-7")),
            (keys::MAPBY, text("node")),
            (keys::MAX_PROCS, Value::Uint32(6)),
            (keys::NODE_LIST, text("nodeA,nodeB")),
            (keys::NODE_MAP, text("raw:nodeA,nodeB")),
            (keys::NSDIR, text(DIRECTORY)),
            (keys::NSPACE, text("golden")),
            (keys::NUM_NODES, Value::Uint32(2)),
            (keys::NPROC_OFFSET, Value::Uint32(0)),
            (keys::PROC_MAP, text("raw:0,2;1,3")),
            (keys::RANKBY, text("node")),
            (keys::SERVER_NSPACE, text("test-host")),
            (keys::SERVER_RANK, Value::Rank(Rank(0))),
        ]),
        Realm::App => values([
            (keys::APPLDR, Value::Rank(Rank(0))),
            (keys::APP_ARGV, text("golden")),
            (keys::APP_SIZE, Value::Uint32(4)),
            (keys::APPNUM, Value::Uint32(0)),
            (keys::WDIR, text("/")),
        ]),
        Realm::Node => {
            let name = ["nodeA", "nodeB"][row as usize];
            values([
                (keys::HOSTNAME_ALIASES, text(format!("{name}-alias"))),
                (keys::HOSTNAME, text(name)),
                (keys::LOCALLDR, Value::Rank(Rank(row))),
                (keys::LOCAL_SIZE, Value::Uint32(2)),
                (keys::LOCAL_PEERS, text(["0,2", "1,3"][row as usize])),
                (keys::NODE_SIZE, Value::Uint32(2)),
                (keys::NODEID, Value::Uint32(row)),
                (keys::AVAIL_PHYS_MEMORY, Value::Uint64(1_000_000 * (u64::from(row) + 1))),
            ])
        }
        Realm::Proc => {
            let mut all = values([
                (keys::APPNUM, Value::Uint32(0)),
                (keys::APP_RANK, Value::Rank(Rank(row))),
                (keys::GLOBAL_RANK, Value::Rank(Rank(row))),
                (keys::HOSTNAME, text(["nodeA", "nodeB"][row as usize % 2])),
                (keys::LOCAL_RANK, Value::Uint16(row as u16 / 2)),
                (keys::NODEID, Value::Uint32(row % 2)),
                (keys::NODE_RANK, Value::Uint16(row as u16 / 2)),
                (keys::RANK, Value::Rank(Rank(row))),
                (keys::REINCARNATION, Value::Uint32(0)),
                (keys::SPAWNED, Value::Bool(false)),
            ]);
            if row.is_multiple_of(2) {
                all.insert(keys::LOCALITY_STRING.to_owned(), text(format!("NM0:CR{}", row / 2)));
                all.insert(keys::PROCDIR.to_owned(), text(format!("{DIRECTORY}/{row}")));
            }
            all
        }
    }
}

/// The server's directory when `record.sh` ran.
const DIRECTORY: &str = "/tmp/pmix-dstore-golden";

#[test]
fn the_directory_of_this_version_is_read_value_by_value() {
    let golden = Golden::of(FORMAT_VERSION);
    let view = attach_path(&golden.inner).expect("an attached view");
    assert_eq!(view.nspace().as_bytes(), b"golden");
    let name = |key: &KeyRef<'_>| String::from_utf8(key.text().to_vec()).expect("a name");
    for rank in 0..4 {
        let expected = published(rank);
        // Newer values come first.
        let mut found = Values::new();
        for (key, value) in view.modex_rank(Rank(rank)) {
            found.entry(name(&key)).or_insert(value.to_value().expect("a value"));
        }
        assert_eq!(found, expected, "rank {rank}");
        for (key, value) in &expected {
            let key = Key::new(key.as_str()).expect("a key");
            let found = view.modex(Rank(rank), &KeyRef::from(&key)).expect("a value");
            assert_eq!(found.to_value().as_ref(), Ok(value), "{key} of rank {rank}");
        }
    }
    let job = view.job().expect("the job");
    let rows = [1, 1, 1, 2, 4];
    for realm in Realm::ALL {
        assert_eq!(job.rows(realm), rows[realm as usize], "{realm:?}");
        for row in 0..job.rows(realm) {
            let found = job.values(realm, row).map(|(key, value)| (name(&key), value.to_value().expect("a value")));
            assert_eq!(found.collect::<Values>(), registered(realm, row), "{realm:?} {row}");
        }
    }
    assert!(view.is_complete() && view.last_error().is_none(), "{:?}", view.last_error());
    assert_eq!(view.modex(Rank(0), &KeyRef::from("g.remote")), None, "only for other nodes");
    assert_eq!(
        job.column_form(&KeyRef::from(keys::RANK), Realm::Proc).as_deref(),
        Some(&*format!("{}: 0 + 1 * row", DataType::PROC_RANK))
    );
}

/// Asserts that the segments of a directory are refused for their version, by readers and by the report, and nothing of them is decoded.
#[track_caller]
fn assert_refused(golden: &Golden, version: u32) {
    let view = attach_path(&golden.inner).expect("an attached view");
    assert!(view.job().is_none() && !view.is_complete());
    assert_eq!(view.modex(Rank(0), &KeyRef::from("g.text")), None);
    assert!(view.fast_value(Rank(0), &KeyRef::from(keys::RANK), Rank(0)).needs_slow_path());
    let Some(AttachError::Segment { path, error }) = view.last_error() else { panic!("{:?}", view.last_error()) };
    assert_eq!(error, SegmentError::Version { found: version });
    let line = format!("format version {version}, this build reads version {FORMAT_VERSION}: {OTHER}");
    assert_eq!(AttachError::Segment { path: path.clone(), error }.to_string(), format!("{}: {line}", path.display()));
    let line = format!("    problem: {line}");
    assert_eq!(golden.problems(), [line.as_str(); 3].join("\n"));
}

#[test]
fn a_directory_of_the_former_version_is_refused_by_name() {
    assert_refused(&Golden::of(2), 2);
}

#[test]
fn a_directory_of_the_next_version_is_refused_by_name() {
    let golden = Golden::of(FORMAT_VERSION);
    golden.change("segment-", |bytes| bytes[8..12].copy_from_slice(&(FORMAT_VERSION + 1).to_le_bytes()));
    assert_refused(&golden, FORMAT_VERSION + 1);
}

/// The refusal of a page, by readers and by the report.
#[track_caller]
fn assert_page_refused(golden: &Golden, version: u32) {
    let error =
        attach_path(&golden.inner).map(|view: NamespaceView| view.nspace().clone()).expect_err("another version");
    assert!(matches!(error, AttachError::PageVersion { found, .. } if found == version), "{error}");
    let page = golden.inner.join("page-0");
    let line = format!("directory page of version {version}, this build reads version {PAGE_VERSION}: {OTHER}");
    assert_eq!(error.to_string(), format!("{}: {line}", page.display()));
    assert!(!error.is_usual() && !error.may_pass());
    assert_eq!(golden.problems(), format!("  - page-0: {line}"));
}

#[test]
fn a_page_of_another_version_is_refused_by_name() {
    let golden = Golden::of(FORMAT_VERSION);
    golden.change("page-", |bytes| bytes[8..12].copy_from_slice(&(PAGE_VERSION + 1).to_le_bytes()));
    assert_page_refused(&golden, PAGE_VERSION + 1);
    // The next version may have longer pages.
    golden.change("page-", |bytes| bytes.resize(2 * PAGE_LEN, 0));
    assert_page_refused(&golden, PAGE_VERSION + 1);
}
