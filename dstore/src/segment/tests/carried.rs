//! Long jobs: live segments are carried over to later pages, and the pages before them are removed.

use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;

use super::directory::attach_path;
use super::round_trip::build_modex;
use crate::job::JobData;
use crate::model::{Key, KeyRef, Nspace, Rank, Value, keys};
use crate::modex::ModexData;
use crate::realm_resolution::JobLookup;
use crate::segment::directory::page::{PAGE_CAPACITY, PAGES_KEPT, counted};
use crate::segment::{
    AttachError, InspectOptions, NamespaceView, Publisher, SegmentKind, build_job, inspect_directory,
};

/// Where a page has the number of the first one that readers need.
const FIRST_AT: u64 = 80;

fn nspace() -> Nspace {
    Nspace::new("long").expect("a short namespace")
}

fn number(key: &'static str, value: u32) -> Vec<u8> {
    let mut data = ModexData::default();
    data.set(Rank(0), Key::from(key), Value::Uint32(value)).unwrap();
    build_modex(&nspace(), &data)
}

/// A job, a value that stays, and one that will be replaced again and again.
fn create(tmp: &Path) -> Publisher {
    let mut publisher = Publisher::create(tmp, &nspace(), None).expect("a directory");
    let mut job = JobData::new(nspace());
    job.job.insert(Key::from(keys::JOB_SIZE), Value::Uint32(7));
    publisher.publish(SegmentKind::Job, &build_job(&job, "test").expect("a segment")).expect("room");
    publisher.publish(SegmentKind::Modex, &number("stays", 1)).expect("room");
    publisher.publish(SegmentKind::Modex, &number("changes", 0)).expect("room");
    publisher
}

fn change(publisher: &mut Publisher, value: u32) {
    let newest = publisher.live().last().expect("three segments").order;
    publisher.publish_replacing(SegmentKind::Modex, &number("changes", value), newest..=newest).expect("room");
}

/// Changes the value until the directory has so many entries, and returns it.
fn change_until(publisher: &mut Publisher, count: u64) -> u32 {
    while publisher.count() < count {
        change(publisher, publisher.count() as u32);
    }
    publisher.count() as u32 - 1
}

fn find(view: &NamespaceView, key: &str) -> Option<u32> {
    view.modex(Rank(0), &KeyRef::from(key)).and_then(|value| value.as_u32())
}

#[track_caller]
fn assert_sees(view: &NamespaceView, changes: u32) {
    assert_eq!(["stays", "changes"].map(|key| find(view, key)), [Some(1), Some(changes)], "{:?}", view.last_error());
    assert!(view.is_complete() && view.job().is_some_and(|job| job.proc_count() == 7));
    assert_eq!(view.stats().segments_live, 3);
}

fn pages(publisher: &Publisher) -> Vec<String> {
    let names = std::fs::read_dir(publisher.directory()).expect("the directory");
    let names = names.map(|entry| entry.expect("an entry").file_name().into_string().expect("ASCII"));
    let mut pages: Vec<String> = names.filter(|name| name.starts_with("page-")).collect();
    pages.sort();
    pages
}

#[test]
fn the_directory_of_a_long_job_does_not_grow() {
    const LAST: u32 = 10_000;
    let tmp = tempfile::tempdir().expect("a temporary directory");
    let mut publisher = create(tmp.path());
    let attach = |publisher: &Publisher| attach_path(publisher.directory()).expect("an attached view");
    let (eager, lagging) = (attach(&publisher), attach(&publisher));
    let stays = eager.modex(Rank(0), &KeyRef::from("stays")).map(|value| value.to_value());
    let mut middle = None;
    let (mut most, mut looks) = (0, (0, 0));
    for value in 1..=LAST {
        change(&mut publisher, value);
        if value % 97 == 0 {
            assert_sees(&eager, value);
            most = most.max(pages(&publisher).len());
            looks.0 += 1;
        }
        // More pages are begun in between than are kept, and it finds none of them any more.
        if value % (7 * PAGE_CAPACITY as u32 - 11) == 0 {
            assert_sees(&lagging, value);
            looks.1 += 1;
        }
        if value == LAST / 2 {
            middle = Some(attach(&publisher));
        }
        if value % 1000 == 0 {
            assert_sees(&attach(&publisher), value);
            middle.iter().for_each(|middle| assert_sees(middle, value));
        }
    }
    assert!(most <= PAGES_KEPT as usize + 2, "{most} pages");
    assert!(publisher.count() > u64::from(LAST) + 3, "segments were carried over");
    let late = attach(&publisher);
    for view in [&eager, &lagging, middle.as_ref().expect("attached"), &late] {
        assert_sees(view, LAST);
    }
    assert_eq!(late.stats().segments_mapped, 3);
    // What was carried over was not mapped again: one segment for each look that found a new one, and those of the beginning.
    assert_eq!((eager.stats().segments_mapped, lagging.stats().segments_mapped), (3 + looks.0 + 1, 3 + looks.1 + 1));
    assert_eq!(stays, Some(Ok(Value::Uint32(1))));
    let directory = publisher.directory().to_owned();
    drop(publisher);
    assert!(!directory.exists() && std::fs::read_dir(tmp.path()).expect("it is there").next().is_none());
}

/// Too many live segments to carry over: all pages stay.
#[test]
fn many_live_segments_keep_their_pages() {
    let tmp = tempfile::tempdir().expect("a temporary directory");
    let mut publisher = create(tmp.path());
    for value in 0..PAGE_CAPACITY / 4 {
        publisher.publish(SegmentKind::Modex, &number("more", value as u32)).expect("room");
    }
    change_until(&mut publisher, (PAGES_KEPT + 2) * PAGE_CAPACITY + 1);
    assert_eq!(pages(&publisher).len() as u64, PAGES_KEPT + 3);
    // Fewer of them: the next page is the first that is needed.
    let orders: Vec<u64> = publisher.live().skip(3).map(|live| live.order).collect();
    let merged = number("more", 9);
    let last = orders[orders.len() - 2];
    publisher.publish_replacing(SegmentKind::Modex, &merged, orders[0]..=last).expect("room");
    let value = change_until(&mut publisher, (PAGES_KEPT + 3) * PAGE_CAPACITY + 10);
    assert_eq!(pages(&publisher), ["page-0", "page-7"]);
    let late = attach_path(publisher.directory()).expect("an attached view");
    assert_eq!((find(&late, "changes"), find(&late, "more"), find(&late, "stays")), (Some(value), Some(9), Some(1)));
}

/// The word with the number of the first page that is needed comes from a file.
#[test]
fn a_corrupt_first_page_leads_nowhere() {
    let tmp = tempfile::tempdir().expect("a temporary directory");
    let mut publisher = create(tmp.path());
    let attach = |publisher: &Publisher| attach_path(publisher.directory()).expect("the page is good");
    let (lagging, other) = (attach(&publisher), attach(&publisher));
    let value = change_until(&mut publisher, (PAGES_KEPT + 2) * PAGE_CAPACITY);
    assert_eq!(pages(&publisher), ["page-0", "page-4", "page-5"]);
    let page = publisher.directory().join("page-0");
    std::fs::set_permissions(&page, PermissionsExt::from_mode(0o600)).expect("our own file");
    let file = std::fs::OpenOptions::new().write(true).open(&page).expect("our own file");
    std::fs::set_permissions(&page, PermissionsExt::from_mode(0o444)).expect("our own file");
    let store = |word: u64| file.write_all_at(&word.to_le_bytes(), FIRST_AT).expect("room");
    let good = counted(PAGES_KEPT);
    let flips = (0..64).map(|bit| good ^ 1 << bit);
    let others = (0..9).filter(|number| *number != PAGES_KEPT).map(counted);
    for lie in flips.chain(others).chain([0, PAGES_KEPT, u64::MAX, 0xffff_ffff, counted(0xffff_ffff)]) {
        store(lie);
        let view = attach(&publisher);
        for key in ["stays", "changes", "more"] {
            assert_eq!(find(&view, key), None, "{lie:#x}");
        }
        assert!(!view.is_complete() && view.last_error().is_some(), "{lie:#x}");
        let report = inspect_directory(publisher.directory(), &InspectOptions::default()).expect("a page").to_text();
        assert!(report.contains("problems"), "{lie:#x}: {report}");
    }
    // A reader that is attached asks the server, too.
    store(good ^ 2);
    assert_eq!(["stays", "changes"].map(|key| find(&lagging, key)), [None, None]);
    assert!(matches!(lagging.last_error(), Some(AttachError::Page { what: "impossible first page", .. })));
    store(good);
    assert_sees(&other, value);
    assert_sees(&attach(&publisher), value);
    change(&mut publisher, 1);
    assert_eq!(["stays", "changes"].map(|key| find(&lagging, key)), [Some(1), Some(1)]);
    assert!(!lagging.is_complete(), "it missed values before");
}

#[test]
fn a_missing_page_is_no_end() {
    let tmp = tempfile::tempdir().expect("a temporary directory");
    let mut publisher = create(tmp.path());
    let attach = |publisher: &Publisher| attach_path(publisher.directory()).expect("the page is good");
    let lagging = attach(&publisher);
    change_until(&mut publisher, PAGES_KEPT * PAGE_CAPACITY + 20);
    std::fs::remove_file(publisher.directory().join("page-4")).expect("our own file");
    let late = attach(&publisher);
    for view in [&lagging, &late] {
        assert_eq!(["stays", "changes"].map(|key| find(view, key)), [None, None]);
        assert!(!view.is_complete() && view.last_error().is_some());
    }
    assert!(late.last_error().is_some_and(|error| error.to_string().contains("page-4")));
}

#[test]
fn a_long_directory_is_reported() {
    let tmp = tempfile::tempdir().expect("a temporary directory");
    let mut publisher = create(tmp.path());
    change_until(&mut publisher, PAGES_KEPT * PAGE_CAPACITY + 4);
    let report = |publisher: &Publisher| {
        inspect_directory(publisher.directory(), &InspectOptions::default()).expect("a page").to_text()
    };
    let text = report(&publisher);
    for line in [
        "first page that is needed: 4",
        "4064: job segment-0, ",
        "place 0, carried, live",
        "place 1, carried, live",
        "4066: modex segment-4063, ",
        "place 4063, carried, replaced",
        "4067: modex segment-4064, ",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
    assert!(!text.contains("problems") && !text.contains("4063: "), "{text}");
    assert_eq!(text.matches("as its entry says: yes").count(), 3, "{text}");
}
