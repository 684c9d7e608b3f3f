//! Several processes: this test binary starts itself with the name of one test and a directory in the environment.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use super::directory::attach_path;
use super::round_trip::build_modex;
use crate::codec::ValueRef;
use crate::model::{Key, KeyRef, Nspace, Rank, Value};
use crate::modex::ModexData;
use crate::segment::{PublishError, Publisher, SegmentKind};

const DIRECTORY: &str = "PMIX_DSTORE_TEST_DIRECTORY";

fn nspace() -> Nspace {
    Nspace::new("processes").expect("a short namespace")
}

fn segment(len: usize) -> Vec<u8> {
    let mut data = ModexData::default();
    data.set(Rank(1), Key::from("bytes"), Value::ByteObject(vec![0x5a; len].into())).unwrap();
    build_modex(&nspace(), &data)
}

fn start(test: &str, directory: &std::path::Path) -> Child {
    Command::new(std::env::current_exe().expect("the path of this program"))
        .args([&format!("segment::tests::processes::{test}"), "--exact", "--nocapture", "--test-threads=1"])
        .env(DIRECTORY, directory)
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .expect("a second process")
}

fn directory() -> Option<PathBuf> {
    std::env::var_os(DIRECTORY).map(PathBuf::from)
}

/// In the second process: finds the value, prints its address, and waits to be killed. Run alone, it does nothing.
#[test]
fn reader_process() {
    let Some(directory) = directory() else { return };
    // Shift the address space, so that an equal address would be a coincidence.
    let _shift = memmap2::MmapOptions::new().len(1 << 20).map_anon().expect("a megabyte");
    let view = attach_path(&directory).expect("an attached view");
    let value = view.modex(Rank(1), &KeyRef::from("bytes"));
    let Some(ValueRef::Bytes { bytes, .. }) = value else { panic!("{value:?}: {:?}", view.last_error()) };
    assert!(bytes.iter().all(|byte| *byte == 0x5a));
    println!("\nfound {} at {:p}", bytes.len(), bytes.as_ptr());
    loop {
        std::thread::park();
    }
}

#[test]
fn readers_map_at_any_address_and_may_be_killed() {
    let tmp = tempfile::tempdir().expect("a temporary directory");
    let mut publisher = Publisher::create(tmp.path(), &nspace(), None).expect("a directory");
    publisher.publish(SegmentKind::Modex, &segment(100_000)).expect("room");
    let view = attach_path(publisher.directory()).expect("an attached view");
    let value = view.modex(Rank(1), &KeyRef::from("bytes"));
    let Some(ValueRef::Bytes { bytes, .. }) = value else { panic!("{value:?}") };
    let mut child = start("reader_process", publisher.directory());
    let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let line = lines.map_while(Result::ok).find(|line| line.starts_with("found")).unwrap_or_default();
    child.kill().expect("our own child");
    child.wait().expect("our own child");
    let address = line.strip_prefix("found 100000 at ").expect("the value");
    assert_ne!(address, format!("{:p}", bytes.as_ptr()));
    publisher.publish(SegmentKind::Modex, &segment(5)).expect("room");
    let value = view.modex(Rank(1), &KeyRef::from("bytes"));
    assert!(matches!(value, Some(ValueRef::Bytes { bytes, .. }) if bytes.len() == 5), "{value:?}");
}

/// In the second process: publishes with a limit on the length of files. Alone it does nothing.
#[test]
fn limited_process() {
    let Some(directory) = directory() else { return };
    let limit = libc::rlimit { rlim_cur: 1 << 20, rlim_max: 1 << 20 };
    // SAFETY: plain system calls of this process, which does nothing else: they set a limit and ignore a signal.
    unsafe {
        assert_ne!(libc::signal(libc::SIGXFSZ, libc::SIG_IGN), libc::SIG_ERR);
        assert_eq!(libc::setrlimit(libc::RLIMIT_FSIZE, &limit), 0);
    }
    let mut publisher = Publisher::create(&directory, &nspace(), None).expect("a directory");
    publisher.publish(SegmentKind::Modex, &segment(10)).expect("room");
    let bytes = segment(3 << 20);
    let refused = publisher.publish(SegmentKind::Modex, &bytes).expect_err("no room");
    let text = refused.to_string();
    assert!(text.contains(&publisher.directory().join("segment-1").display().to_string()), "{text}");
    assert!(matches!(refused, PublishError::Full { needed, .. } if needed == bytes.len() as u64), "{text}");
    assert!(!publisher.directory().join("segment-1").exists());
    assert_eq!(publisher.count(), 1);
    let view = attach_path(publisher.directory()).expect("an attached view");
    assert!(view.modex(Rank(1), &KeyRef::from("bytes")).is_some());
    // A segment that fits is still published.
    publisher.publish(SegmentKind::Modex, &segment(20)).expect("room");
    let value = view.modex(Rank(1), &KeyRef::from("bytes"));
    assert!(matches!(value, Some(ValueRef::Bytes { bytes, .. }) if bytes.len() == 20), "{value:?}");
    drop(publisher);
    // The limit is below the length of a directory page.
    let limit = libc::rlimit { rlim_cur: 1000, rlim_max: 1000 };
    // SAFETY: as above.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &limit) }, 0);
    assert!(matches!(Publisher::create(&directory, &nspace(), None), Err(PublishError::Full { .. })));
    assert_eq!(std::fs::read_dir(&directory).expect("the directory").count(), 0);
    println!("\nlimits held");
}

#[test]
fn a_full_file_system_is_an_error_and_nothing_is_left_behind() {
    let tmp = tempfile::tempdir().expect("a temporary directory");
    let output = start("limited_process", tmp.path()).wait_with_output().expect("our own child");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("limits held"), "{text}");
}

/// In the second process: the limit on the length of files is set below the position of the next entry in the page. Run alone, it
/// does nothing.
#[test]
fn limited_page_process() {
    let Some(directory) = directory() else { return };
    let mut publisher = Publisher::create(&directory, &nspace(), None).expect("a directory");
    let mut publish = |len| publisher.publish(SegmentKind::Modex, &segment(len)).map_err(|error| error.to_string());
    for _ in 0..130 {
        publish(10).expect("room");
    }
    let limit = libc::rlimit { rlim_cur: 8 << 10, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: a plain system call of this process, which does nothing else. The signal is not ignored: it would end the process.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &limit) }, 0);
    assert!(segment(11).len() < 8 << 10, "the segment itself is short enough");
    let refused = publish(11).expect_err("no room for the entry");
    assert!(refused.contains("page-0"), "{refused}");
    let view = attach_path(publisher.directory()).expect("an attached view");
    let value = view.modex(Rank(1), &KeyRef::from("bytes"));
    assert!(matches!(value, Some(ValueRef::Bytes { bytes, .. }) if bytes.len() == 10), "{value:?}");
    // Readers see that the directory is retired.
    drop(publisher);
    assert!(view.is_retired());
    println!("\nlimits held");
}

#[test]
fn a_page_beyond_the_limit_is_an_error_and_no_signal() {
    let tmp = tempfile::tempdir().expect("a temporary directory");
    let output = start("limited_page_process", tmp.path()).wait_with_output().expect("our own child");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("limits held"), "{} {text}", output.status);
}

/// In the second process: forks, and the child drops its copy of the publisher. Alone it does nothing.
#[test]
fn forking_process() {
    let Some(directory) = directory() else { return };
    let publisher = Publisher::create(&directory, &nspace(), None).expect("a directory");
    // SAFETY: the child only frees memory, closes descriptors and leaves; this process has no other busy thread.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0);
    if pid == 0 {
        drop(publisher);
        // SAFETY: exits without running any code of the parent.
        unsafe { libc::_exit(0) };
    }
    let mut status = 0;
    // SAFETY: waits for our own child.
    assert_eq!(unsafe { libc::waitpid(pid, &mut status, 0) }, pid);
    assert_eq!(status, 0);
    assert!(publisher.directory().join("page-0").exists());
    assert!(!attach_path(publisher.directory()).expect("attached").is_retired());
    println!("\nstill there");
}

#[test]
fn a_forked_child_does_not_retire_its_parents_namespace() {
    let tmp = tempfile::tempdir().expect("a temporary directory");
    let output = start("forking_process", tmp.path()).wait_with_output().expect("our own child");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("still there"), "{text}");
}
