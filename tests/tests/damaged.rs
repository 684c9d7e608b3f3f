//! Segments that are corrupted while ranks of a job use them. Every value read is correct, for readers that attached
//! before and for later ones, and a reader that refuses a segment reports the reason.

use std::fs::{self, File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};

use pmix_dstore::model::{Key, Nspace, Rank, Value};
use pmix_dstore::segment::{HEADER_LEN, ModexBuilder, RawHeader};
use pmix_tests::peers::NOBODY;
use pmix_tests::{Ended, WaitingJob, left_out};

const RANKS: u32 = 2;

/// A job whose ranks have attached and read, and its segments. Its server, which serves corrupt values, may hold no
/// more resources afterwards.
fn start() -> (WaitingJob, PathBuf, Vec<PathBuf>) {
    let mut job = WaitingJob::reading(RANKS);
    job.watch_server();
    let directory = PathBuf::from(&job.environment(0)["PMIX_DSTORE_SEGMENTS"]);
    let mut segments: Vec<PathBuf> = fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    segments.retain(|path| path.file_name().unwrap().to_str().unwrap().starts_with("segment-"));
    segments.sort();
    assert_eq!(segments.len(), 2, "one of the job, one of what ranks published");
    (job, directory, segments)
}

/// The log lines of clients that do not use their segments.
fn refusals(ended: &Ended) -> Vec<&str> {
    ended.stderr.lines().filter(|line| line.contains("pmix-dstore client ")).collect()
}

/// Changes bytes of a file in place, under its mappings.
fn change(path: &Path, change: impl Fn(&mut [u8])) {
    let before = fs::read(path).unwrap();
    let mut after = before.clone();
    change(&mut after);
    let mode = fs::metadata(path).unwrap().mode();
    fs::set_permissions(path, fs::Permissions::from_mode(mode | 0o200)).unwrap();
    let file = OpenOptions::new().write(true).open(path).unwrap();
    for (at, (before, after)) in before.iter().zip(&after).enumerate().filter(|(_, (before, after))| before != after) {
        assert_ne!(before, after);
        file.write_all_at(&[*after], at as u64).unwrap();
    }
    fs::set_permissions(path, fs::Permissions::from_mode(mode & 0o7777)).unwrap();
}

/// Replaces a file by another one.
fn replace(path: &Path, bytes: &[u8]) {
    let other = path.with_extension("new");
    fs::write(&other, bytes).unwrap();
    fs::set_permissions(&other, fs::Permissions::from_mode(0o444)).unwrap();
    fs::rename(&other, path).unwrap();
}

/// Asserts that readers reported the corruption: all new ones, and old ones if `by_all`.
fn assert_told(ended: &Ended, why: &str, by_all: bool) {
    let told = refusals(ended);
    let expected = if by_all { 2 * RANKS } else { RANKS } as usize;
    assert_eq!(told.len(), expected, "{ended}");
    assert!(told.iter().all(|line| line.contains(why)), "{ended}");
}

#[test]
fn flipped_bytes_of_tables() {
    let (job, _, segments) = start();
    for segment in &segments {
        change(segment, |bytes| {
            // Key tables come first; a slot is 64 bytes, and its number at offset 16 selects the values.
            let keys = RawHeader::read(bytes).unwrap().toc_pos.min(HEADER_LEN as u64 + 64 * 4) as usize;
            (HEADER_LEN..keys).step_by(64).for_each(|slot| bytes[slot + 16] ^= 1);
        });
    }
    // Readers that attached before have copied the slots.
    assert_told(&job.finish(), "a table is damaged", false);
}

#[test]
fn flipped_bytes_of_names_of_keys() {
    let (job, _, segments) = start();
    for segment in &segments {
        change(segment, |bytes| {
            let end = RawHeader::read(bytes).unwrap().toc_pos as usize;
            for name in [&b"pmix."[..], b"r.bytes", b"r.number"] {
                let found = bytes[..end].windows(name.len()).enumerate().filter(|(_, window)| window == &name);
                let found: Vec<_> = found.map(|(at, _)| at).collect();
                found.iter().for_each(|at| bytes[*at] ^= 1);
            }
        });
    }
    assert_told(&job.finish(), "a table is damaged", true);
}

#[test]
fn flipped_bytes_of_headers() {
    let (job, _, segments) = start();
    for segment in &segments {
        change(segment, |bytes| bytes[100] ^= 0x10);
    }
    assert_told(&job.finish(), "header or table of contents are damaged", false);
}

#[test]
fn another_version_and_another_layout() {
    for (at, why) in [(8, "format version"), (32, "layout fingerprint")] {
        let (job, _, segments) = start();
        for segment in &segments {
            change(segment, |bytes| bytes[at] ^= 0x40);
        }
        assert_told(&job.finish(), why, false);
    }
}

#[test]
fn a_damaged_page() {
    // The page's count, which old readers have read, and an entry.
    for (at, why, by_all) in [(64, "impossible count", true), (512 + 16, "damaged entry", false)] {
        let (job, directory, _) = start();
        change(&directory.join("page-0"), |bytes| bytes[at] ^= 1);
        assert_told(&job.finish(), why, by_all);
    }
}

#[test]
fn cut_files() {
    for keep in [0, 100, HEADER_LEN, 3000] {
        let (job, _, segments) = start();
        for segment in &segments {
            // Replace the file instead of truncating it in place, which only the server's own user could do.
            let bytes = fs::read(segment).unwrap();
            replace(segment, &bytes[..keep.min(bytes.len() - 1)]);
        }
        assert_told(&job.finish(), "its length is not that of the entry", false);
    }
}

#[test]
fn missing_files() {
    let (job, _, segments) = start();
    for segment in &segments {
        fs::remove_file(segment).unwrap();
    }
    // A late reader finds the file gone; that is normal and not reported.
    assert_eq!(refusals(&job.finish()), [""; 0]);
}

#[test]
fn another_owner() {
    let (job, _, segments) = start();
    for segment in &segments {
        match chown(segment, Some(NOBODY), None) {
            Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                left_out("root", "only root can give files away");
                job.finish();
                return;
            }
            result => result.unwrap(),
        }
    }
    assert_told(&job.finish(), "owned by another user than the server's", false);
}

#[test]
fn swapped_files() {
    // One segment in place of the other: the lengths differ, and with equal lengths the headers.
    let (job, _, segments) = start();
    let (of_job, of_modex) = (fs::read(&segments[0]).unwrap(), fs::read(&segments[1]).unwrap());
    replace(&segments[0], &of_modex);
    replace(&segments[1], &of_job);
    assert_told(&job.finish(), "its length is not that of the entry", false);

    let (job, _, segments) = start();
    let (mut of_job, len) = (fs::read(&segments[0]).unwrap(), fs::metadata(&segments[1]).unwrap().len());
    of_job.resize(len as usize, 0);
    replace(&segments[1], &of_job);
    assert_told(&job.finish(), "the header says", false);

    // A segment with a value of the right type and length, from an earlier job with the same name, and from another
    // job.
    for (own, why) in [(true, "not the segment that the directory page means"), (false, "segment of another namespace")]
    {
        let (job, _, segments) = start();
        let bytes = fs::read(&segments[1]).unwrap();
        let own_name = RawHeader::read(&bytes).unwrap().nspace;
        let mut other_name = own_name.clone();
        other_name[0] ^= 1;
        let blobs: Vec<_> =
            (0..RANKS).map(|rank| Value::ByteObject(vec![7; 40 + 900 * rank as usize].into())).collect();
        let mut builder = ModexBuilder::new(Nspace::new(if own { own_name } else { other_name }).unwrap());
        for (rank, blob) in (0..).map(Rank).zip(&blobs) {
            builder.add(rank, &Key::from("r.bytes"), blob).unwrap();
            builder.add(rank, &Key::from("r.number"), &Value::Uint32(7)).unwrap();
        }
        let forged = builder.finish("forger").unwrap().into_bytes().unwrap();
        assert_eq!(forged.len(), bytes.len());
        replace(&segments[1], &forged);
        assert_told(&job.finish(), why, false);
    }
}

#[test]
fn a_file_that_may_be_written_by_others() {
    let (job, _, segments) = start();
    for segment in &segments {
        File::open(segment).unwrap().set_permissions(fs::Permissions::from_mode(0o464)).unwrap();
    }
    assert_told(&job.finish(), "group or others may write it", false);
}
