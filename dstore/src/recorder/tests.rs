//! Unit tests.

use std::fs;
use std::os::fd::AsFd;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, symlink};
use std::path::Path;
use std::time::Duration;

use super::record::{RECORD_COUNT, TEXT_LEN};
use super::*;
use crate::model::{Nspace, Proc, Rank, Status};
use crate::rank_file::remove_files;

fn me(rank: u32) -> Proc {
    Proc::new(Nspace::new("job").unwrap(), Rank(rank))
}

/// A directory as a server makes it, and the inner one.
fn directories() -> (tempfile::TempDir, fs::File) {
    let outer = tempfile::tempdir().unwrap();
    fs::set_permissions(outer.path(), fs::Permissions::from_mode(0o700)).unwrap();
    fs::create_dir(outer.path().join("s")).unwrap();
    let inner = fs::File::open(outer.path().join("s")).unwrap();
    (outer, inner)
}

fn history(path: &Path) -> History {
    History::parse(&fs::read(path).unwrap()).unwrap()
}

fn words(record: &Record) -> String {
    record.in_words(record.time + Duration::from_millis(4020)).to_string()
}

#[test]
fn steps_are_read_as_they_were_recorded() {
    let (outer, inner) = directories();
    let ring = Ring::create(inner.as_fd(), &me(3)).unwrap();
    let commit = Note::new(Step::Commit, 8, b"");
    let begun = ring.begin(commit);
    ring.end(begun, commit, Status::ERR_LOST_CONNECTION);
    ring.happen(Note::new(Step::Event, 2, b"job"), Status::ERR_PROC_ABORTED);
    let _get = ring.begin(Note::new(Step::Get, 1, &[b'k'; TEXT_LEN + 1]));
    let _fence = ring.begin(Note::new(Step::Fence, 0, b"a\nb\x1b"));
    let path = outer.path().join("steps-3");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o400);
    let history = history(&path);
    assert_eq!((history.nspace.as_str(), history.rank, history.damaged), ("job", 3, 0));
    assert_eq!(history.pid, std::process::id());
    let past = history.past();
    let open: Vec<_> = past.open.into_iter().map(words).collect();
    let key = "k".repeat(TEXT_LEN);
    assert_eq!(
        open,
        ["in PMIx_Fence of a?b? since 4.0 s".into(), format!("in PMIx_Get of {key} of rank 1 since 4.0 s")]
    );
    let over: Vec<_> = past.over.into_iter().map(words).collect();
    assert_eq!(over[0], "event from job:2: PMIX_ERR_PROC_ABORTED, 4.0 s ago");
    assert!(over[1].starts_with("PMIx_Commit of 8 values, 4.0 s ago, took "), "{}", over[1]);
    assert!(over[1].ends_with(" ms: PMIX_ERR_LOST_CONNECTION"), "{}", over[1]);
    let mut told = Vec::new();
    ring.tell(|line| told.push(line.to_string()));
    assert_eq!(told.len(), 4);
    assert!(told[0].starts_with("PMIx_Commit") && told[3].starts_with("in PMIx_Fence of a?b? since "), "{told:?}");
}

#[test]
fn the_last_steps_stay_and_a_step_that_waits_stays_longer() {
    let (outer, inner) = directories();
    let ring = Ring::create(inner.as_fd(), &me(0)).unwrap();
    let fence = Note::new(Step::Fence, 2, b"");
    let begun = ring.begin(fence);
    let rounds = RECORD_COUNT as u32 * 3;
    (0..rounds).for_each(|number| ring.happen(Note::new(Step::Event, number, b""), Status::SUCCESS));
    let path = outer.path().join("steps-0");
    let waits = history(&path);
    assert_eq!((waits.records.len(), waits.damaged), (RECORD_COUNT + 1, 0));
    let open: Vec<_> = waits.past().open.into_iter().map(words).collect();
    assert_eq!(open, ["in PMIx_Fence of 2 processes since 4.0 s"]);
    let mut told = Vec::new();
    ring.tell(|line| told.push(line.to_string()));
    assert!(told.last().unwrap().starts_with("in PMIx_Fence of 2 processes since "), "{told:?}");
    std::thread::sleep(Duration::from_millis(2));
    ring.end(begun, fence, Status::SUCCESS);
    let over = history(&path);
    assert_eq!((over.records.len(), over.damaged), (RECORD_COUNT, 0));
    let past = over.past();
    assert!(past.open.is_empty());
    assert_eq!(past.over[0].note, fence);
    assert!(past.over[0].took >= Duration::from_millis(2), "{:?}", past.over[0]);
    assert_eq!(past.over[1].note.number, rounds - 1);
    // The end is forgotten, too: the step stays over.
    (0..rounds).for_each(|number| ring.happen(Note::new(Step::Event, number, b""), Status::SUCCESS));
    assert!(history(&path).past().open.is_empty());
}

#[test]
fn places_of_steps_that_wait_are_used_again_and_more_steps_than_places_are_told() {
    let (outer, inner) = directories();
    let ring = Ring::create(inner.as_fd(), &me(0)).unwrap();
    let path = outer.path().join("steps-0");
    let note = |number| Note::new(Step::Fence, number, b"");
    let numbers = || history(&path).past().open.iter().map(|record| record.note.number).collect::<Vec<_>>();
    let begun = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10].map(|number| ring.begin(note(number)));
    assert_eq!(numbers(), [10, 9, 8, 7, 6, 5, 4, 3, 2, 1]);
    let forget = || (0..RECORD_COUNT).for_each(|_| ring.happen(note(0), Status::SUCCESS));
    forget();
    assert_eq!(numbers(), [8, 7, 6, 5, 4, 3, 2, 1], "only places are left");
    for (number, begun) in begun.into_iter().enumerate().skip(2) {
        ring.end(begun, note(number as u32 + 1), Status::SUCCESS);
    }
    let [_, _] = [20, 21].map(|number| ring.begin(note(number)));
    forget();
    assert_eq!(numbers(), [21, 20, 2, 1]);
}

#[test]
fn torn_records_are_left_out_and_other_files_are_refused() {
    let (outer, inner) = directories();
    let ring = Ring::create(inner.as_fd(), &me(0)).unwrap();
    (0..4).for_each(|number| ring.happen(Note::new(Step::Event, number, b""), Status::SUCCESS));
    let bytes = fs::read(outer.path().join("steps-0")).unwrap();
    let with = |at: usize, by: u8| {
        let mut bytes = bytes.clone();
        bytes[at] ^= by;
        History::parse(&bytes)
    };
    // Each bit of a record counts.
    for at in 128..256 {
        let history = with(at, 1 << (at % 8)).unwrap();
        assert_eq!((history.records.len(), history.damaged), (3, 1), "{at}");
    }
    assert!(matches!(with(0, 1), Err(FileError::Magic)));
    assert!(matches!(with(8, 1), Err(FileError::Version(3))));
    for at in 16..128 {
        assert!(matches!(with(at, 1), Err(FileError::Header)), "{at}");
    }
    assert!(matches!(History::parse(&bytes[..bytes.len() - 1]), Err(FileError::Form(_))));
    assert!(matches!(History::parse(&[&bytes[..], b"x"].concat()), Err(FileError::Form(_))));
    for len in [0, 1, 127] {
        assert!(matches!(History::parse(&bytes[..len]), Err(FileError::Magic)), "{len}");
    }
}

#[test]
fn a_process_replaces_the_file_of_an_earlier_one_and_follows_no_link() {
    let (outer, inner) = directories();
    let path = outer.path().join("steps-0");
    let other = outer.path().join("other");
    fs::write(&other, "kept").unwrap();
    symlink(&other, &path).unwrap();
    let first = Ring::create(inner.as_fd(), &me(0)).unwrap();
    first.happen(Note::new(Step::Lost, 0, b""), Status::SUCCESS);
    assert_eq!(history(&path).records.len(), 1);
    let _second = Ring::create(inner.as_fd(), &me(0)).unwrap();
    first.happen(Note::new(Step::Lost, 0, b""), Status::SUCCESS);
    assert_eq!(history(&path).records.len(), 0, "the file is the second one's");
    assert_eq!(fs::read(&other).unwrap(), b"kept");
}

#[test]
fn a_directory_that_others_may_enter_gets_no_file() {
    let (outer, inner) = directories();
    fs::set_permissions(outer.path(), fs::Permissions::from_mode(0o755)).unwrap();
    assert!(Ring::create(inner.as_fd(), &me(0)).is_err());
    assert!(!outer.path().join("steps-0").exists());
}

/// What lies in the place of files: a link, a pipe, a directory, files of other lengths and with other contents.
fn hostile(outer: &Path) {
    // What it leads to would be told as another rank's steps.
    symlink(outer.join("steps-0"), outer.join("steps-1")).unwrap();
    nix::unistd::mkfifo(&outer.join("steps-2"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    fs::File::create(outer.join("steps-4")).unwrap().set_len(1 << 40).unwrap();
    fs::write(outer.join("steps-5"), vec![0xff; FILE_LEN]).unwrap();
    fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o000).open(outer.join("steps-6")).unwrap();
}

#[test]
fn hostile_files_are_named_and_removed() {
    let (outer, inner) = directories();
    drop(Ring::create(inner.as_fd(), &me(0)).unwrap());
    hostile(outer.path());
    fs::create_dir(outer.path().join("steps-3")).unwrap();
    for other in ["steps-", "steps-07", "steps-x", "steps-4294967296", "Steps-1", "notes"] {
        fs::write(outer.path().join(other), "").unwrap();
    }
    let found = files_in(outer.path(), |rank| rank < 6).unwrap();
    assert!(!found.has_more);
    let ranks: Vec<_> = found.files.iter().map(|(rank, history)| (*rank, history.is_ok())).collect();
    assert_eq!(ranks, [(0, true), (1, false), (2, false), (3, false), (4, false), (5, false)]);
    remove_files(fs::File::open(outer.path()).unwrap().as_fd());
    let mut left: Vec<_> =
        fs::read_dir(outer.path()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    left.sort();
    assert_eq!(left, ["Steps-1", "notes", "s", "steps-", "steps-07", "steps-3", "steps-4294967296", "steps-x"]);
}

#[test]
fn threads_that_record_at_a_time_leave_whole_records() {
    let (outer, inner) = directories();
    let ring = Ring::create(inner.as_fd(), &me(0)).unwrap();
    let path = outer.path().join("steps-0");
    let is_over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let threads = [b'a', b'b', b'c', b'd'].map(|letter| {
            let ring = &ring;
            scope.spawn(move || {
                for _ in 0..20_000 {
                    let note = Note::new(Step::Get, letter.into(), &[letter; TEXT_LEN]);
                    let begun = ring.begin(note);
                    ring.end(begun, note, Status::SUCCESS);
                }
            })
        });
        // The reader sees whole records only: all of one is of one thread.
        let reader = scope.spawn(|| {
            while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                for record in history(&path).records {
                    let letter = record.note.number as u8;
                    assert!(record.note.text().eq(std::iter::repeat_n(letter, TEXT_LEN)), "{record:?}");
                }
            }
        });
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
        reader.join().unwrap();
    });
    assert!(history(&path).past().open.is_empty());
}
