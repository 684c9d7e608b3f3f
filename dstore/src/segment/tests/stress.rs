//! One publisher and many concurrent readers.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use super::directory::attach_path;
use super::round_trip::build_modex;
use crate::codec::ValueRef;
use crate::job::JobData;
use crate::model::{Key, KeyRef, Nspace, Rank, Value, keys};
use crate::modex::ModexData;
use crate::realm_resolution::JobLookup;
use crate::segment::{NamespaceView, Publisher, SegmentKind, build_job};

fn nspace() -> Nspace {
    Nspace::new("stress").expect("a short namespace")
}

fn segment(version: u32) -> Vec<u8> {
    let mut data = ModexData::default();
    for rank in 0..3 {
        data.set(Rank(rank), Key::from("version"), Value::Uint32(version)).unwrap();
        // Long enough to span pages, so that a part of another version would show.
        data.set(Rank(rank), Key::from("block"), Value::ByteObject(version.to_le_bytes().repeat(3000).into())).unwrap();
    }
    build_modex(&nspace(), &data)
}

fn job(size: u32) -> Vec<u8> {
    let mut job = JobData::new(nspace());
    job.job.insert(Key::from(keys::JOB_SIZE), Value::Uint32(size));
    build_job(&job, "test").expect("a segment")
}

/// A reader never sees an older value after a newer one, a torn value, or a value older than one known to be published.
fn read(view: &NamespaceView, published: &AtomicU32, done: &AtomicBool) -> u32 {
    let mut seen = 0;
    let mut rounds = 0;
    while !done.load(Ordering::Relaxed) || rounds == 0 {
        rounds += 1;
        let floor = published.load(Ordering::Acquire).max(seen);
        let value = view.modex(Rank(rounds % 3), &KeyRef::from("version"));
        let Some(ValueRef::Scalar { bits, .. }) = value else { panic!("{value:?}, {:?}", view.last_error()) };
        assert!(bits >= floor.into(), "{bits} after {floor}");
        seen = bits as u32;
        let block = view.modex(Rank(0), &KeyRef::from("block"));
        let Some(ValueRef::Bytes { bytes, .. }) = block else { panic!("{block:?}") };
        let first = u32::from_le_bytes(*bytes.first_chunk().expect("twelve kilobytes"));
        assert!(first >= seen && bytes.chunks(4).all(|word| word == first.to_le_bytes()));
        assert!(view.job().expect("a job segment").proc_count() >= seen);
    }
    seen
}

#[test]
fn readers_see_every_publication_and_never_an_older_value() {
    let tmp = tempfile::tempdir().expect("a temporary directory");
    let mut publisher = Publisher::create(tmp.path(), &nspace(), None).expect("a directory");
    publisher.publish(SegmentKind::Job, &job(1)).expect("room");
    publisher.publish(SegmentKind::Modex, &segment(1)).expect("room");
    let (published, done) = (AtomicU32::new(1), AtomicBool::new(false));
    let shared = attach_path(publisher.directory()).expect("an attached view");
    let directory = publisher.directory().to_owned();
    let last = 1300;
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..4)
            .map(|index| {
                let (shared, directory, published, done) = (&shared, &directory, &published, &done);
                scope.spawn(move || match index {
                    // Two threads share a view, one has its own, one attaches again and again.
                    0 | 1 => read(shared, published, done),
                    2 => read(&attach_path(directory).expect("attached"), published, done),
                    _ => {
                        let once = AtomicBool::new(true);
                        let mut seen = 0;
                        while !done.load(Ordering::Relaxed) {
                            let view = attach_path(directory).expect("attached");
                            seen = read(&view, published, &once);
                        }
                        seen
                    }
                })
            })
            .collect();
        for version in 2..=last {
            if version % 50 == 0 {
                publisher.publish(SegmentKind::Job, &job(version + 50)).expect("room");
            } else if version < 50 {
                publisher.publish(SegmentKind::Job, &job(50)).expect("room");
            }
            let bytes = segment(version);
            let live: Vec<_> = publisher.live().filter(|live| live.kind == SegmentKind::Modex).collect();
            if live.len() > 4 {
                let orders = live[1].order..=live[live.len() - 1].order;
                publisher.publish_replacing(SegmentKind::Modex, &bytes, orders).expect("room");
            } else {
                publisher.publish(SegmentKind::Modex, &bytes).expect("room");
            }
            published.store(version, Ordering::Release);
        }
        done.store(true, Ordering::Relaxed);
        for reader in readers {
            reader.join().expect("a reader that saw nothing wrong");
        }
    });
    assert!(publisher.count() > crate::segment::directory::page::PAGE_CAPACITY, "a second page was needed");
    let stats = shared.stats();
    assert_eq!((stats.entries, stats.segments_missing), (publisher.count(), 0));
}
