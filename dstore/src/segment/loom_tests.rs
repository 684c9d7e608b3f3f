//! The publication protocol under loom: publisher and views as they are, in every order that the memory model allows.
//!
//! One thread publishes, others attach and look up. The directory is a real one for each order that is tried; its pages
//! hold two entries, so that the second page is in the models, too, and the third one, to which segments are carried over.

use std::path::Path;

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, Ordering};
use loom::thread::{Builder, JoinHandle};

use super::{AttachError, Directory, FileId, ModexBuilder, NamespaceView, Publisher, SegmentKind, build_job};
use crate::codec::ValueRef;
use crate::job::JobData;
use crate::model::{Key, KeyRef, Nspace, Rank, Value, keys};
use crate::modex::ModexData;
use crate::realm_resolution::JobLookup;
use crate::segment::directory::page::PAGE_PREFIX;

/// Stack of a model's thread in words: building and checking segments needs more than loom's 32 KiB.
const STACK: usize = 1 << 17;

fn nspace() -> Nspace {
    Nspace::new("model").expect("a short namespace")
}

fn job(size: u32) -> Vec<u8> {
    let mut job = JobData::new(nspace());
    job.job.insert(Key::from(keys::JOB_SIZE), Value::Uint32(size));
    build_job(&job, "model").expect("a segment")
}

fn modex(version: u32) -> Vec<u8> {
    let mut data = ModexData::default();
    data.set(Rank(0), Key::from("version"), Value::Uint32(version)).expect("memory");
    let mut builder = ModexBuilder::new(nspace());
    builder.add_rank(Rank(0), data.rank(Rank(0))).expect("storable values");
    builder.finish("model").expect("a segment").into_own()
}

fn spawn(run: impl FnOnce() + Send + 'static) -> JoinHandle<()> {
    Builder::new().stack_size(STACK).spawn(run).expect("a thread of the model")
}

/// Runs `body` in each order with a directory of its own, which has a job.
fn check(name: &str, body: impl Fn(Publisher, NamespaceView) + Clone + Send + Sync + 'static) {
    check_empty(name, move |mut publisher| {
        publisher.publish(SegmentKind::Job, &job(1)).expect("room");
        let view = attach(publisher.directory());
        body(publisher, view);
    });
}

/// Runs `body` in each order with a directory of its own, which is empty.
fn check_empty(name: &str, body: impl Fn(Publisher) + Clone + Send + Sync + 'static) {
    let tmp = tempfile::tempdir_in("/dev/shm").expect("a temporary directory");
    let path = tmp.path().to_owned();
    let orders = std::sync::Arc::new(std::sync::atomic::AtomicU64::new(0));
    let counted = std::sync::Arc::clone(&orders);
    let mut model = loom::model::Builder::new();
    model.preemption_bound = model.preemption_bound.or(Some(3));
    model.check(move || {
        counted.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let (path, body) = (path.clone(), body.clone());
        let world = spawn(move || {
            body(Publisher::create(&path, &nspace(), None).expect("a directory"));
        });
        world.join().expect("nothing wrong was seen");
    });
    println!("{name}: {} orders", orders.load(std::sync::atomic::Ordering::Relaxed));
}

fn attach(directory: &Path) -> NamespaceView {
    let directory = FileId::of(directory).map(|id| Directory::open(directory, id));
    NamespaceView::attach(directory.expect("it is there").expect("it is ours")).expect("an attached view")
}

/// The version that a view finds, if it finds any.
fn version(view: &NamespaceView) -> Option<u32> {
    match view.modex(Rank(0), &KeyRef::from("version"))? {
        ValueRef::Scalar { bits, .. } => Some(bits as u32),
        other => panic!("{other:?}"),
    }
}

/// Looks up a value. It must not be older than the newest one known to be published or already seen.
fn read(view: &NamespaceView, known: &AtomicU32, times: u32) {
    let mut floor = 0;
    for _ in 0..times {
        floor = known.load(Ordering::Acquire).max(floor);
        let found = version(view);
        assert!(found.is_none_or(|found| found >= floor), "{found:?} after {floor}");
        // A look-up may find nothing if a file was removed before the new count arrived; then the view has recorded the error.
        assert!(found.is_some() || floor == 0 || view.last_error().is_some(), "lost {floor}");
        floor = floor.max(found.unwrap_or(0));
    }
}

#[test]
fn two_threads_of_a_view_see_published_values() {
    check("two threads of a view", |mut publisher, view| {
        let (view, known) = (Arc::new(view), Arc::new(AtomicU32::new(0)));
        let readers: Vec<_> = (0..2)
            .map(|_| {
                let (view, known) = (Arc::clone(&view), Arc::clone(&known));
                spawn(move || read(&view, &known, 1))
            })
            .collect();
        publisher.publish(SegmentKind::Modex, &modex(1)).expect("room");
        known.store(1, Ordering::Release);
        readers.into_iter().for_each(|reader| reader.join().expect("a reader"));
    });
}

#[test]
fn a_replaced_segment_is_not_missed() {
    check("replaced segments", |mut publisher, view| {
        let known = Arc::new(AtomicU32::new(0));
        let reader = spawn({
            let known = Arc::clone(&known);
            move || read(&view, &known, 2)
        });
        let first = publisher.publish(SegmentKind::Modex, &modex(1)).expect("room") - 1;
        known.store(1, Ordering::Release);
        publisher.publish_replacing(SegmentKind::Modex, &modex(2), first..=first).expect("room");
        known.store(2, Ordering::Release);
        reader.join().expect("a reader");
    });
}

#[test]
fn an_attaching_reader_sees_all_earlier_values() {
    check("attaching", |mut publisher, early| {
        drop(early);
        let known = Arc::new(AtomicU32::new(0));
        let reader = spawn({
            let (known, directory) = (Arc::clone(&known), publisher.directory().to_owned());
            move || read(&attach(&directory), &known, 2)
        });
        for next in 1..=2 {
            publisher.publish(SegmentKind::Modex, &modex(next)).expect("room");
            known.store(next, Ordering::Release);
        }
        reader.join().expect("a reader");
    });
}

/// Publishes this version in place of the one before.
fn replace(publisher: &mut Publisher, next: u32) {
    let newest = publisher.live().last().expect("one is published").order;
    publisher.publish_replacing(SegmentKind::Modex, &modex(next), newest..=newest).expect("room");
}

/// The directory's first two pages are full, each entry in place of the one before. The next publication begins page 2 with the live
/// segment, makes it the first one that is needed, and removes page 1.
fn check_carrying(name: &str, lookups: u32, read_before: fn(&NamespaceView), is_late: bool) {
    check_empty(name, move |mut publisher| {
        publisher.publish(SegmentKind::Modex, &modex(1)).expect("room");
        let early = (!is_late).then(|| attach(publisher.directory()));
        (2..=4).for_each(|next| replace(&mut publisher, next));
        early.iter().for_each(read_before);
        let known = Arc::new(AtomicU32::new(4));
        let reader = spawn({
            let (known, directory) = (Arc::clone(&known), publisher.directory().to_owned());
            move || {
                let view = early.unwrap_or_else(|| attach(&directory));
                read(&view, &known, lookups);
                // The file of a segment may be gone. But all pages that are needed are there, and the numbers fit.
                let error = view.last_error();
                let is_of_page = match &error {
                    Some(AttachError::Open { path, .. }) => path.to_string_lossy().contains(PAGE_PREFIX),
                    error => matches!(error, Some(AttachError::Page { .. })),
                };
                assert!(!is_of_page, "assertion failed: {error:?}");
            }
        });
        replace(&mut publisher, 5);
        known.store(5, Ordering::Release);
        reader.join().expect("a reader");
    });
}

#[test]
fn a_lagging_reader_goes_on_at_the_page_that_segments_are_carried_over_to() {
    check_carrying("carrying over, a reader that lags", 2, |_| (), false);
}

#[test]
fn a_reader_is_not_misled_by_the_entries_that_are_carried_over() {
    check_carrying("carrying over, a reader that has read all", 2, |view| assert_eq!(version(view), Some(4)), false);
}

#[test]
fn an_attaching_reader_begins_at_the_page_that_segments_are_carried_over_to() {
    check_carrying("carrying over, a reader that attaches", 1, |_| (), true);
}

#[test]
fn a_reader_of_a_retired_directory_has_seen_all_its_values() {
    check("giving up", |mut publisher, view| {
        let reader = spawn(move || {
            if view.is_retired() {
                assert_eq!(view.count(), 2);
                // Its file may be removed; the reader must not read the previous one any more.
                assert!(view.job().is_none_or(|job| job.proc_count() == 2));
            }
        });
        publisher.publish(SegmentKind::Job, &job(2)).expect("room");
        publisher.retire();
        reader.join().expect("a reader");
    });
}
