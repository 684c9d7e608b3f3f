//! Publisher and view over real files.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use super::random::Random;
use super::round_trip::{assert_same, build_modex};
use crate::job::JobData;
use crate::model::{Key, KeyRef, Nspace, Proc, Rank, Status, Value, keys};
use crate::modex::ModexData;
use crate::realm_resolution::{JobLookup, Realm};
use crate::recorder;
use crate::segment::directory::page::PAGE_CAPACITY;
use crate::segment::{
    AttachError, Directory, FastResult, FastValue, FileId, InspectOptions, IsOver, NamespaceView, PublishError,
    Publisher, SegmentKind, build_job, inspect_directory,
};

fn nspace() -> Nspace {
    Nspace::new("slurm.pmix.1234.0/with a slash").expect("a short namespace")
}

fn uid() -> u32 {
    nix::unistd::geteuid().as_raw()
}

fn tmpdir() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary directory")
}

fn create(tmp: &Path) -> Publisher {
    Publisher::create(tmp, &nspace(), None).expect("a directory")
}

fn attach(publisher: &Publisher) -> NamespaceView {
    attach_path(publisher.directory()).expect("an attached view")
}

fn job_of_size(size: u32) -> Vec<u8> {
    let mut job = JobData::new(nspace());
    job.job.insert(Key::from(keys::JOB_SIZE), Value::Uint32(size));
    build_job(&job, "test").expect("a segment")
}

/// A segment with the number `value` under `key` for each of `ranks`.
fn numbers(ranks: &[u32], key: &'static str, value: u32) -> Vec<u8> {
    let mut data = ModexData::default();
    for rank in ranks {
        data.set(Rank(*rank), Key::from(key), Value::Uint32(value)).unwrap();
    }
    build_modex(&nspace(), &data)
}

/// Attaches the segments directory at this path.
pub(crate) fn attach_path(path: &Path) -> Result<NamespaceView, AttachError> {
    let error = |error: std::io::Error| error.raw_os_error().unwrap_or(0);
    let id = FileId::of(path).map_err(|e| AttachError::Open { path: path.to_owned(), errno: error(e) })?;
    NamespaceView::attach(Directory::open(path, id)?)
}

#[track_caller]
fn assert_modex(view: &NamespaceView, rank: u32, key: &str, value: Option<u32>) {
    let value = value.map(Value::Uint32);
    assert_same(value.as_ref().map(Into::into), view.modex(Rank(rank), &KeyRef::from(key)), (rank, key));
}

fn files_of(directory: &Path) -> Vec<String> {
    let names = std::fs::read_dir(directory).expect("the directory");
    let mut names: Vec<String> =
        names.map(|entry| entry.expect("an entry").file_name().into_string().expect("ASCII")).collect();
    names.sort();
    names
}

#[test]
fn published_values_are_found_at_once() {
    let tmp = tmpdir();
    let mut publisher = create(tmp.path());
    let view = attach(&publisher);
    assert_eq!(view.nspace(), &nspace());
    assert!(view.job().is_none());
    assert_modex(&view, 0, "a", None);
    assert_eq!(publisher.publish(SegmentKind::Job, &job_of_size(7)).expect("room"), 1);
    assert_eq!(view.job().expect("the job").proc_count(), 7);
    assert_eq!(publisher.publish(SegmentKind::Modex, &numbers(&[0, 1], "a", 1)).expect("room"), 2);
    assert_modex(&view, 1, "a", Some(1));
    assert_eq!(publisher.publish(SegmentKind::Modex, &numbers(&[1, 2], "a", 2)).expect("room"), 3);
    assert_modex(&view, 0, "a", Some(1));
    assert_modex(&view, 1, "a", Some(2));
    assert_modex(&view, 2, "a", Some(2));
    assert_eq!(view.count(), 3);
    let stats = view.stats();
    assert_eq!((stats.entries, stats.segments_live, stats.segments_missing), (3, 3, 0));
    assert_eq!(stats.bytes_live, publisher.bytes_live());
}

#[test]
fn values_stay_valid_when_their_segment_is_replaced() {
    let tmp = tmpdir();
    let mut publisher = create(tmp.path());
    let view = attach(&publisher);
    publisher.publish(SegmentKind::Job, &job_of_size(7)).expect("room");
    let job = view.job().expect("the job");
    let (key, _) = job.find_key(&KeyRef::from(keys::JOB_SIZE)).expect("the key");
    let old = job.value(Realm::Job, 0, key);
    publisher.publish(SegmentKind::Job, &job_of_size(8)).expect("room");
    assert_eq!(view.job().expect("the job").proc_count(), 8);
    assert_eq!(job.proc_count(), 7);
    assert_same(Some((&Value::Uint32(7)).into()), old, "old value");
    assert_eq!(publisher.live().count(), 1);
    assert_eq!(files_of(publisher.directory()), ["page-0", "segment-1"]);
}

#[test]
fn a_view_maps_a_bounded_number_of_segments() {
    let tmp = tmpdir();
    let mut publisher = create(tmp.path());
    publisher.publish(SegmentKind::Job, &job_of_size(7)).expect("room");
    publisher.publish(SegmentKind::Modex, &numbers(&[0], "a", 0)).expect("room");
    let id = publisher.directory_id();
    let opened = Arc::new(Directory::open(publisher.directory(), id).expect("it is there"));
    let view = NamespaceView::attach_at_most(4, opened).expect("a view");
    let key = KeyRef::from("a");
    let first = view.modex(Rank(0), &key);
    let mut replace = |value| {
        let last = publisher.count() - 1;
        publisher.publish_replacing(SegmentKind::Modex, &numbers(&[0], "a", value), last..=last).expect("room");
    };
    for value in 1..3 {
        replace(value);
        assert_modex(&view, 0, "a", Some(value));
    }
    assert!(view.is_complete() && view.last_error().is_none());
    for value in 3..5000 {
        replace(value);
        assert_modex(&view, 0, "a", None);
    }
    assert!(!view.is_complete() && matches!(view.last_error(), Some(AttachError::TooMany { mapped: 4, .. })));
    assert_same(Some((&Value::Uint32(0)).into()), first, "a borrowed value");
    publisher.publish(SegmentKind::Job, &job_of_size(8)).expect("room");
    assert_eq!(view.job().expect("the job").proc_count(), 8, "the job's values stay here");
    let stats = view.stats();
    assert_eq!((stats.entries, stats.segments_mapped, stats.segments_missing), (publisher.count(), 5, 1));
    // Each publication was looked at, and took no memory.
    assert!(stats.refreshes > 4990 && view.sets() < 10, "{stats:?}, {} sets", view.sets());
    let late = attach(&publisher);
    assert_modex(&late, 0, "a", Some(4999));
}

/// Number of mapped segments under a directory, removed files included.
fn mapped_under(directory: &Path) -> usize {
    let directory = directory.to_str().expect("ASCII");
    let maps = std::fs::read_to_string("/proc/self/maps").expect("the mappings of this process");
    maps.lines().filter(|line| line.contains(directory) && line.contains("/segment-")).count()
}

#[test]
fn a_view_that_is_reclaimed_maps_few_segments_however_many_are_published() {
    let publications = if std::env::var_os("PMIX_TEST_LARGE").is_some() { 20_000 } else { 1_000 };
    let tmp = tmpdir();
    let mut publisher = create(tmp.path());
    let first = publisher.publish(SegmentKind::Job, &job_of_size(7)).expect("room");
    let view = attach(&publisher);
    let key = KeyRef::from("a");
    let (mut lent, mut most) = (Vec::new(), (0, 0));
    for value in 0..publications {
        let last = publisher.count() - 1;
        let segment = numbers(&[0], "a", value);
        let published = match last < first {
            true => publisher.publish(SegmentKind::Modex, &segment),
            false => publisher.publish_replacing(SegmentKind::Modex, &segment, last..=last),
        };
        published.expect("room");
        assert_modex(&view, 0, "a", Some(value));
        if value.is_multiple_of(200) {
            let bytes = view.lent_fast_value(Rank(0), &key, Rank(0));
            assert!(matches!(bytes.result(), FastResult::Number { bits, .. } if bits == u64::from(value)));
            let segment = view.modex_segments().next().expect("one is live");
            assert!(!segment.is_lent(), "nothing points to a number in the segment");
            let segment = segment.bytes();
            assert!(view.lend(&segment[8..16]));
            // What a C caller keeps: a pointer without a borrow.
            lent.push((segment.as_ptr(), segment.len(), segment.to_vec()));
        }
        reclaim_unread(&view);
        if value.is_multiple_of(16) {
            let mapped = view.stats().segments_mapped as usize;
            most = (most.0.max(mapped), most.1.max(view.sets()));
        }
    }
    let (mapped, sets) = most;
    assert!(mapped < 100 + lent.len() && sets < 100, "{mapped} mapped segments, {sets} sets");
    assert!(mapped_under(tmp.path()) < 100 + lent.len());
    assert_eq!(view.stats().refreshes, u64::from(publications) + 1);
    assert!(view.is_complete() && view.last_error().is_none());
    for (start, len, bytes) in lent {
        // SAFETY: the segment was lent, so it stays mapped as long as the view.
        assert_eq!(unsafe { std::slice::from_raw_parts(start, len) }, bytes);
    }
    drop(view);
    assert_eq!(mapped_under(tmp.path()), 0);
}

#[test]
fn nothing_is_unmapped_while_somebody_reads_or_points_into_it() {
    let tmp = tmpdir();
    let mut publisher = create(tmp.path());
    let mut next = publisher.publish(SegmentKind::Job, &job_of_size(7)).expect("room");
    publisher.publish(SegmentKind::Modex, &numbers(&[0], "a", 0)).expect("room");
    let view = attach(&publisher);
    let mut replace_many = |view: &NamespaceView| {
        for value in 1..=100 {
            publisher.publish_replacing(SegmentKind::Modex, &numbers(&[0], "a", value), next..=next).expect("room");
            next += 1;
            assert_modex(view, 0, "a", Some(value));
        }
    };
    let first = view.modex(Rank(0), &KeyRef::from("a"));
    // A value may be lent by who found it before its segment was out of reach.
    let lent = view.modex_segments().next().expect("one is live");
    replace_many(&view);
    assert_eq!(view.stats().segments_mapped, 102);
    // SAFETY: it cannot tell.
    unsafe { view.reclaim(|| None) };
    assert_eq!(view.stats().segments_mapped, 102);
    let (is_over, times) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)));
    let begin = || {
        let (is_over, times) = (Arc::clone(&is_over), Arc::clone(&times));
        times.fetch_add(1, Ordering::Relaxed);
        Some(Box::new(move || is_over.load(Ordering::Relaxed)) as IsOver)
    };
    for _ in 0..2 {
        // SAFETY: it becomes true when nothing of before is used any more.
        unsafe { view.reclaim(begin) };
        replace_many(&view);
        assert_same(Some((&Value::Uint32(0)).into()), first, "a borrowed value");
    }
    assert_eq!((view.stats().segments_mapped, times.load(Ordering::Relaxed)), (302, 1), "one at a time");
    lent.lend();
    let (start, bytes) = (lent.bytes().as_ptr(), lent.bytes().to_vec());
    is_over.store(true, Ordering::Relaxed);
    // SAFETY: as above; from here on nothing that was borrowed is used.
    unsafe { view.reclaim(begin) };
    assert_eq!(view.stats().segments_mapped, 203, "what was replaced since may be read");
    for left in [3, 3] {
        reclaim_unread(&view);
        // Those of the job and of the newest values, and one that was lent.
        assert_eq!((view.stats().segments_mapped, view.sets(), mapped_under(tmp.path())), (left, 1, left as usize));
        replace_many(&view);
    }
    // SAFETY: the segment was lent, so it stays mapped as long as the view.
    assert_eq!(unsafe { std::slice::from_raw_parts(start, bytes.len()) }, bytes);
    let newest = view.modex_segments().next().expect("one is live").bytes();
    assert!(view.lend(&newest[8..16]) && !view.lend(&[0]));
    reclaim_unread(&view);
    assert_eq!(view.stats().segments_mapped, 3, "the newest is live");
    replace_many(&view);
    reclaim_unread(&view);
    assert_eq!(view.stats().segments_mapped, 4);
}

/// Reclaims in a test in which nobody has borrowed from the view.
fn reclaim_unread(view: &NamespaceView) {
    // SAFETY: no other thread uses the view, and this one uses nothing that it has borrowed before, but pointers into lent segments.
    unsafe { view.reclaim(|| Some(Box::new(|| true))) };
}

#[test]
fn merged_segments_stand_where_the_newest_that_they_replace_stood() {
    let tmp = tmpdir();
    let mut publisher = create(tmp.path());
    let view = attach(&publisher);
    for value in 0..4 {
        publisher.publish(SegmentKind::Modex, &numbers(&[0, value], "a", value)).expect("room");
    }
    // Orders 0 to 2 become one segment; order 3 stays newer although its entry is older.
    publisher.publish_replacing(SegmentKind::Modex, &numbers(&[0, 1, 2], "a", 12), 0..=2).expect("room");
    let late = attach(&publisher);
    for view in [&view, &late] {
        assert_modex(view, 0, "a", Some(3));
        assert_modex(view, 1, "a", Some(12));
    }
    let places: Vec<u64> = publisher.live().map(|live| live.order).collect();
    assert_eq!(places, [2, 3]);
    // A merged segment is merged again.
    let count = publisher.publish_replacing(SegmentKind::Modex, &numbers(&[0, 1, 2, 3], "a", 99), 2..=3).expect("room");
    let places: Vec<u64> = publisher.live().map(|live| live.order).collect();
    assert_eq!(places, [count - 1], "nothing newer stays behind");
    let late = attach(&publisher);
    for view in [&view, &late] {
        assert_modex(view, 0, "a", Some(99));
        assert_eq!(view.stats().segments_live, 1);
    }
    assert_eq!(publisher.live().count(), 1);
    assert_eq!(late.stats().segments_mapped, 1);
    assert!(matches!(
        publisher.publish_replacing(SegmentKind::Modex, &numbers(&[0], "a", 1), 7..=9),
        Err(PublishError::Range { first: 7, last: 9 })
    ));
}

#[test]
fn a_key_is_found_without_its_rank() {
    let tmp = tmpdir();
    let mut publisher = create(tmp.path());
    let view = attach(&publisher);
    publisher.publish(SegmentKind::Modex, &numbers(&[7, 9], "a", 1)).expect("room");
    publisher.publish(SegmentKind::Modex, &numbers(&[5, 7], "b", 2)).expect("room");
    publisher.publish(SegmentKind::Modex, &numbers(&[8, 7], "a", 3)).expect("room");
    let any = |key| view.modex_any(&KeyRef::new(key)).map(|(rank, value)| (rank.0, value.to_value()));
    assert_eq!(any(b"a"), Some((7, Ok(Value::Uint32(3)))));
    assert_eq!(any(b"b"), Some((5, Ok(Value::Uint32(2)))));
    assert_eq!(any(b"c"), None);
}

#[test]
fn the_directory_is_named_by_an_absolute_path() {
    let tmp = tmpdir();
    let here = std::env::current_dir().expect("a working directory");
    let up = "../".repeat(here.components().count() - 1);
    let relative = PathBuf::from(format!("{up}{}", tmp.path().display()).replace("//", "/"));
    assert!(relative.is_relative());
    let publisher = create(&relative);
    assert!(publisher.directory().is_absolute());
    attach(&publisher);
}

#[test]
fn a_merge_replaces_segments_of_its_kind_only() {
    let tmp = tmpdir();
    let mut publisher = create(tmp.path());
    publisher.publish(SegmentKind::Modex, &numbers(&[0], "a", 1)).expect("room");
    publisher.publish(SegmentKind::Job, &job_of_size(5)).expect("room");
    publisher.publish(SegmentKind::Modex, &numbers(&[1], "a", 2)).expect("room");
    publisher.publish_replacing(SegmentKind::Modex, &numbers(&[0, 1], "a", 3), 0..=2).expect("room");
    let view = attach(&publisher);
    assert_eq!(view.job().expect("the job").proc_count(), 5);
    assert_modex(&view, 1, "a", Some(3));
}

#[test]
fn full_pages_have_successors() {
    let tmp = tmpdir();
    let mut publisher = create(tmp.path());
    let early = attach(&publisher);
    let total = PAGE_CAPACITY * 2 + 3;
    for value in 0..total {
        let bytes = numbers(&[0], "a", value as u32);
        let first = value.saturating_sub(1);
        if value == 0 {
            publisher.publish(SegmentKind::Modex, &bytes).expect("room");
        } else {
            publisher.publish_replacing(SegmentKind::Modex, &bytes, first..=first).expect("room");
        }
        if value % 97 == 0 {
            assert_modex(&early, 0, "a", Some(value as u32));
        }
    }
    assert_eq!(publisher.count(), total);
    assert_eq!(files_of(publisher.directory()).len(), 4, "three pages and one segment");
    let late = attach(&publisher);
    for view in [&early, &late] {
        assert_modex(view, 0, "a", Some(total as u32 - 1));
    }
    assert_eq!(late.stats().segments_mapped, 1);
}

#[test]
fn modes_do_not_depend_on_the_umask() {
    let tmp = tmpdir();
    let old = nix::sys::stat::umask(nix::sys::stat::Mode::from_bits_truncate(0o077));
    let mut publisher = create(tmp.path());
    publisher.publish(SegmentKind::Job, &job_of_size(1)).expect("room");
    nix::sys::stat::umask(old);
    let mode = |path: &Path| std::fs::metadata(path).expect("a file").permissions().mode() & 0o7777;
    assert_eq!(mode(publisher.directory()), 0o755);
    assert_eq!(mode(publisher.directory().parent().expect("the outer directory")), 0o700);
    for name in files_of(publisher.directory()) {
        assert_eq!(mode(&publisher.directory().join(name)), 0o444);
    }
}

#[test]
fn retiring_removes_only_our_files() {
    let tmp = tmpdir();
    let mut publisher = create(tmp.path());
    publisher.publish(SegmentKind::Job, &job_of_size(1)).expect("room");
    publisher.publish(SegmentKind::Modex, &numbers(&[0], "a", 1)).expect("room");
    std::fs::write(publisher.directory().join("sock"), "").expect("room");
    publisher.adopt("sock").expect("the file is there");
    let view = attach(&publisher);
    let outer = publisher.directory().parent().expect("the outer directory").to_owned();
    let borrowed = view.modex(Rank(0), &KeyRef::from("a"));
    assert!(!view.is_retired() && view.is_complete());
    publisher.retire();
    assert!(view.is_retired() && !view.is_complete());
    assert!(!outer.exists());
    // Mapped segments stay, but the view would not learn of newer values.
    assert_eq!(view.job().expect("the job").proc_count(), 1);
    assert_same(Some((&Value::Uint32(1)).into()), borrowed, "borrowed before");
    assert_modex(&view, 0, "a", None);
    assert_eq!(view.modex_any(&KeyRef::from("a")), None);

    let mut publisher = create(tmp.path());
    publisher.publish(SegmentKind::Modex, &numbers(&[0], "a", 1)).expect("room");
    let directory = publisher.directory().to_owned();
    let swapped = directory.join("segment-0");
    // Made while ours is still there: a file system may give a freed inode number to the next file.
    let other = tmp.path().join("other");
    std::fs::write(&other, "somebody else's").expect("room");
    std::fs::rename(&other, &swapped).expect("the same file system");
    drop(publisher);
    assert_eq!(std::fs::read(&swapped).expect("not removed"), b"somebody else's");
    assert_eq!(files_of(&directory), ["segment-0"]);
}

#[test]
fn a_namespace_used_again_gets_another_directory() {
    let tmp = tmpdir();
    let first = create(tmp.path());
    let second = create(tmp.path());
    assert_ne!(first.directory(), second.directory());
    let view = attach(&first);
    first.retire();
    assert!(view.is_retired());
    assert!(!attach(&second).is_retired());
}

#[test]
fn foreign_or_odd_files_are_refused() {
    let tmp = tmpdir();
    let mut publisher = create(tmp.path());
    publisher.publish(SegmentKind::Modex, &numbers(&[0], "a", 1)).expect("room");
    let directory = publisher.directory().to_owned();
    let other = FileId::of(tmp.path()).expect("a directory");
    let refused = Directory::open(&directory, other).err();
    assert!(matches!(refused, Some(AttachError::File { .. })), "{refused:?}");
    std::fs::set_permissions(&directory, PermissionsExt::from_mode(0o775)).expect("our own directory");
    let refused = attach_path(&directory).err();
    assert!(matches!(refused, Some(AttachError::File { .. })), "{refused:?}");
    std::fs::set_permissions(&directory, PermissionsExt::from_mode(0o755)).expect("our own directory");
    if uid() == 0 {
        // The files are then another user's than the directory.
        std::os::unix::fs::chown(&directory, Some(65_534), None).expect("we are root");
        let refused = attach_path(&directory).err();
        assert!(matches!(refused, Some(AttachError::File { .. })), "{refused:?}");
        std::os::unix::fs::chown(&directory, Some(0), None).expect("we are root");
    }
    let link = tmp.path().join("link");
    std::os::unix::fs::symlink(&directory, &link).expect("room");
    let refused = attach_path(&link).err();
    assert!(matches!(refused, Some(AttachError::Open { .. })), "{refused:?}");
    let refused = attach_path(&tmp.path().join("nowhere")).err();
    assert!(matches!(refused, Some(AttachError::Open { .. })), "{refused:?}");

    let segment = directory.join("segment-0");
    let good = std::fs::read(&segment).expect("the segment");
    let replace = |change: &dyn Fn(&PathBuf)| {
        std::fs::remove_file(&segment).expect("the segment");
        change(&segment);
    };
    let assert_missing = |what: &str| {
        let view = attach_path(&directory).expect("the page is good");
        assert_modex(&view, 0, "a", None);
        assert_eq!(view.stats().segments_missing, 1, "{what}");
        assert!(!view.is_complete());
        let error = view.last_error().expect("a reason");
        assert!(error.to_string().contains("segment-0"), "{what}: {error}");
    };
    replace(&|path| std::fs::write(path, &good[..good.len() - 1]).expect("room"));
    assert_missing("cut");
    replace(&|path| {
        std::fs::write(path, &good).expect("room");
        std::fs::set_permissions(path, PermissionsExt::from_mode(0o664)).expect("our own file");
    });
    assert_missing("writable by others");
    let elsewhere = tmp.path().join("elsewhere");
    std::fs::write(&elsewhere, &good).expect("room");
    replace(&|path| std::os::unix::fs::symlink(&elsewhere, path).expect("room"));
    assert_missing("a link");
    replace(&|path| {
        nix::unistd::mkfifo(path, nix::sys::stat::Mode::from_bits_truncate(0o400)).expect("room");
    });
    assert_missing("a pipe");
    replace(&|path| std::fs::write(path, vec![0; good.len()]).expect("room"));
    assert_missing("zeros");
    let other = Nspace::new("another").expect("a short namespace");
    let mut data = ModexData::default();
    data.set(Rank(0), Key::from("a"), Value::Uint32(1)).unwrap();
    let mut foreign = build_modex(&other, &data);
    foreign.resize(good.len(), 0);
    replace(&|path| std::fs::write(path, &foreign).expect("room"));
    assert_missing("of another namespace");
}

#[test]
fn a_damaged_page_leads_nowhere() {
    let tmp = tmpdir();
    let mut publisher = create(tmp.path());
    publisher.publish(SegmentKind::Job, &job_of_size(5)).expect("room");
    for value in 0..4 {
        publisher.publish(SegmentKind::Modex, &numbers(&[value], "a", value)).expect("room");
    }
    publisher.publish_replacing(SegmentKind::Modex, &numbers(&[1, 2], "a", 9), 2..=3).expect("room");
    let directory = publisher.directory().to_owned();
    let page = directory.join("page-0");
    let good = std::fs::read(&page).expect("the page");
    let random = &mut Random::new(9);
    let mut attached = 0;
    for round in 0..600 {
        let mut bad = good.clone();
        let lies = [0, 1, 2, 6, 7, 1016, 1017, 5000, 4096 * 1016 + 1, u64::MAX, random.next()];
        for _ in 0..=random.below(3) {
            // Changes single words of header and entries; every fourth round only of entries.
            let words = if round % 4 == 0 { 64..64 + 6 * 8 } else { 0..64 + 8 * 8 };
            let at = 8 * (words.start + random.below(words.end - words.start)) as usize;
            let lie = lies[random.below(lies.len() as u64) as usize];
            bad[at..at + 8].copy_from_slice(&lie.to_le_bytes());
        }
        // A new file: the old one is mapped.
        std::fs::remove_file(&page).expect("our own file");
        std::fs::write(&page, &bad).expect("room");
        let _ = inspect_directory(&directory, &InspectOptions { rows_max: 1, bytes_max: 1 });
        let Ok(view) = attach_path(&directory) else { continue };
        attached += 1;
        for (rank, right) in [Some(0), Some(9), Some(9), Some(3), None].into_iter().enumerate() {
            let value = view.modex(Rank(rank as u32), &KeyRef::from("a")).map(|value| value.to_value());
            let right = right.map(|number| Ok(Value::Uint32(number)));
            // For a miss that is not reliable, the reader asks the server.
            assert!(value == right || value.is_none() && !view.is_complete(), "round {round}: {value:?}");
        }
        let _ = (view.job().map(JobLookup::proc_count), view.stats(), view.last_error(), view.is_retired());
    }
    assert!(attached > 100, "{attached}");
}

#[test]
fn swapped_segments_are_refused() {
    let tmp = tmpdir();
    let mut publisher = create(tmp.path());
    publisher.publish(SegmentKind::Job, &job_of_size(1)).expect("room");
    publisher.publish(SegmentKind::Modex, &numbers(&[0], "a", 1)).expect("room");
    publisher.publish(SegmentKind::Modex, &numbers(&[0], "a", 2)).expect("room");
    let directory = publisher.directory().to_owned();
    let early = attach(&publisher);
    assert_modex(&early, 0, "a", Some(2));
    let newest = directory.join("segment-2");
    let good = std::fs::read(&newest).expect("the segment");
    // The same length: an older value, the job's data, and a value of another incarnation of the namespace.
    let padded = |mut bytes: Vec<u8>| {
        bytes.resize(good.len(), 0);
        bytes
    };
    let swaps = [
        (std::fs::read(directory.join("segment-1")).expect("the segment"), "not the segment that"),
        (padded(std::fs::read(directory.join("segment-0")).expect("the segment")), "the header says"),
        (numbers(&[0], "a", 3), "not the segment that"),
    ];
    for (bytes, why) in swaps {
        let other = tmp.path().join("other");
        std::fs::write(&other, padded(bytes)).expect("room");
        std::fs::rename(&other, &newest).expect("the same file system");
        let late = attach(&publisher);
        assert_modex(&late, 0, "a", None);
        assert!(!late.is_complete());
        let error = late.last_error().expect("a reason").to_string();
        assert!(error.contains("segment-2") && error.contains(why), "{error}");
        assert_modex(&early, 0, "a", Some(2));
    }
}

#[test]
fn a_miss_is_final_only_with_all_segments_present() {
    let tmp = tmpdir();
    let mut publisher = create(tmp.path());
    publisher.publish(SegmentKind::Job, &job_of_size(1)).expect("room");
    publisher.publish(SegmentKind::Modex, &numbers(&[0], "a", 1)).expect("room");
    let (absent, unsure) = (|short: FastValue<'_>| short.is_absent(), |short: FastValue<'_>| short.needs_slow_path());
    let fast_value = |view: &NamespaceView, key: &str, is: fn(FastValue<'_>) -> bool| {
        is(view.fast_value(Rank(0), &KeyRef::from(key), Rank(0)))
    };
    let view = attach(&publisher);
    std::fs::remove_file(publisher.directory().join("segment-1")).expect("the segment");
    let late = attach(&publisher);
    for key in ["b", keys::CPUSET] {
        assert!(fast_value(&view, key, absent) && fast_value(&late, key, unsure), "{key}");
    }
    publisher.retire();
    assert!(fast_value(&view, keys::CPUSET, unsure) && fast_value(&view, "b", unsure));
}

#[test]
fn damage_under_a_reader_is_noticed() {
    let tmp = tmpdir();
    let mut publisher = create(tmp.path());
    let key = "a.key";
    publisher.publish(SegmentKind::Modex, &numbers(&[0, 1], key, 1)).expect("room");
    publisher.publish(SegmentKind::Modex, &numbers(&[0], key, 2)).expect("room");
    publisher.publish(SegmentKind::Job, &job_of_size(7)).expect("room");
    let view = attach(&publisher);
    assert_modex(&view, 0, key, Some(2));
    assert!(view.is_complete());
    let flip = |name: &str, near: &[u8], offset: usize| {
        let path = publisher.directory().join(name);
        let bytes = std::fs::read(&path).expect("the segment");
        let at = offset + bytes.windows(near.len()).position(|window| window == near).expect("it is there");
        let file = std::fs::OpenOptions::new().write(true).open(&path);
        // Only root may write the files.
        let Ok(file) = file else { return false };
        std::os::unix::fs::FileExt::write_at(&file, &[bytes[at] ^ 1], at as u64).expect("room");
        true
    };
    // The reader has copied the key's slot, so its own copy stays intact.
    if !flip("segment-1", &KeyRef::from(key).hash().to_le_bytes(), 24) {
        return;
    }
    assert_modex(&view, 0, key, Some(2));
    assert!(view.is_complete());
    // The text of a key is read each time.
    assert!(flip("segment-1", key.as_bytes(), 0));
    // Not the older value in the next segment.
    assert_modex(&view, 0, key, None);
    assert!(!view.is_complete());
    let error = view.last_error().expect("a reason").to_string();
    assert!(error.ends_with("segment-1: a table is damaged"), "{error}");
    let job = view.job().expect("the job");
    assert!(flip("segment-2", keys::JOB_SIZE.as_bytes(), 0));
    assert!(job.find_key(&KeyRef::from(keys::JOB_SIZE)).is_none() && job.is_damaged());
    assert!(view.job().is_none());
}

#[test]
fn a_missing_segment_hides_older_segments() {
    let tmp = tmpdir();
    let mut publisher = create(tmp.path());
    publisher.publish(SegmentKind::Modex, &numbers(&[0, 1], "a", 1)).expect("room");
    publisher.publish(SegmentKind::Modex, &numbers(&[1], "a", 2)).expect("room");
    publisher.publish(SegmentKind::Modex, &numbers(&[2], "a", 3)).expect("room");
    std::fs::remove_file(publisher.directory().join("segment-1")).expect("our own file");
    let view = attach(&publisher);
    assert_modex(&view, 2, "a", Some(3));
    // The lost segment may have had a newer value of either rank.
    assert_modex(&view, 1, "a", None);
    assert_modex(&view, 0, "a", None);
}

#[test]
fn only_segments_of_the_namespace_are_published() {
    let tmp = tmpdir();
    let mut publisher = create(tmp.path());
    let good = job_of_size(1);
    let mut other = JobData::new(Nspace::new("another").expect("a short namespace"));
    other.job.insert(Key::from(keys::JOB_SIZE), Value::Uint32(1));
    let other = build_job(&other, "test").expect("a segment");
    for (kind, bytes) in [
        (SegmentKind::Modex, good.as_slice()),
        (SegmentKind::Job, &good[..good.len() - 1]),
        (SegmentKind::Job, &good[..3]),
        (SegmentKind::Job, &other),
    ] {
        let refused = publisher.publish(kind, bytes);
        assert!(matches!(refused, Err(PublishError::NotASegment(_))), "{refused:?}");
    }
    assert_eq!(publisher.count(), 0);
    assert_eq!(files_of(publisher.directory()), ["page-0"]);
}

#[test]
fn the_outer_directory_belongs_to_the_owner_where_we_are_root() {
    let tmp = tmpdir();
    let publisher = Publisher::create(tmp.path(), &nspace(), Some((4321, 8765))).expect("a directory");
    let inner = std::fs::metadata(publisher.directory()).expect("the inner directory");
    let outer = publisher.directory().parent().expect("the outer directory");
    let outer = std::fs::metadata(outer).expect("the outer directory");
    let expected = if uid() == 0 { (4321, 8765) } else { (uid(), outer.gid()) };
    assert_eq!((outer.uid(), outer.gid()), expected);
    assert_eq!(inner.uid(), uid());
    assert_eq!(outer.mode() & 0o7777, 0o700);
}

/// Any process of the server's user can do this.
#[test]
fn a_page_that_was_cut_is_an_error_and_no_signal() {
    let tmp = tmpdir();
    let mut publisher = create(tmp.path());
    publisher.publish(SegmentKind::Job, &job_of_size(1)[..]).unwrap();
    let page = publisher.directory().join("page-0");
    std::fs::set_permissions(&page, PermissionsExt::from_mode(0o600)).unwrap();
    std::fs::OpenOptions::new().write(true).open(&page).unwrap().set_len(0).unwrap();
    let before = std::fs::read_dir(publisher.directory()).unwrap().count();
    let refused = publisher.publish(SegmentKind::Modex, &numbers(&[0], "key", 1)[..]);
    assert!(matches!(refused, Err(PublishError::Io { action: "write", .. })), "{refused:?}");
    assert_eq!(std::fs::read_dir(publisher.directory()).unwrap().count(), before, "the segment is removed");
    drop(publisher);
    assert_eq!(std::fs::read_dir(tmp.path()).unwrap().count(), 0);
}

#[test]
fn what_ranks_have_recorded_is_removed_with_the_directory() {
    let tmp = tmpdir();
    let publisher = create(tmp.path());
    let outer = publisher.directory().parent().expect("the outer directory").to_owned();
    for rank in 0..3 {
        let me = Proc::new(nspace(), Rank(rank));
        let ring = recorder::Ring::create(publisher.dir_fd(), &me).expect("a file");
        ring.happen(recorder::Note::new(recorder::Step::Lost, 0, &[]), Status::SUCCESS);
    }
    let other = tmp.path().join("other");
    std::fs::write(&other, "kept").unwrap();
    std::os::unix::fs::symlink(&other, outer.join("steps-3")).unwrap();
    assert_eq!(recorder::files_in(&outer, |_| true).unwrap().files.len(), 4);
    publisher.retire();
    assert!(!outer.exists());
    assert!(other.exists());
}
