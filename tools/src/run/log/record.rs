//! The job's record, a file to which each call of `PMIx_Log` appends. It is opened anew each time, so that others may move it away.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use nix::unistd::geteuid;

/// Makes the file, if there is none.
pub(super) fn check(path: &Path) -> io::Result<()> {
    open(path).map(drop)
}

/// Appends whole lines in one piece, also where an earlier one was cut off by a full disk.
pub(super) fn append(path: &Path, mut lines: String) -> io::Result<()> {
    let mut file = open(path)?;
    if !ends_a_line(&file)? {
        lines.insert(0, '\n');
    }
    match file.write(lines.as_bytes())? {
        written if written == lines.len() => Ok(()),
        _ => Err(io::Error::new(io::ErrorKind::StorageFull, "only a part of it could be written")),
    }
}

/// Opens a regular file of this user's. In a directory that others may write to, a link or another name of a file could lead anywhere, and
/// a FIFO would hold the launcher.
fn open(path: &Path) -> io::Result<File> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY;
    // Read, too, for the end of the last line.
    let file = OpenOptions::new().read(true).append(true).create(true).custom_flags(flags).open(path)?;
    let metadata = file.metadata()?;
    let wrong = |what: &str| Err(io::Error::new(io::ErrorKind::InvalidInput, what));
    if !metadata.is_file() {
        return wrong("it is no regular file");
    }
    if metadata.uid() != geteuid().as_raw() {
        return wrong("it is another user's");
    }
    if metadata.nlink() > 1 {
        return wrong("it has a second name");
    }
    Ok(file)
}

fn ends_a_line(file: &File) -> io::Result<bool> {
    let mut last = [b'\n'];
    match file.metadata()?.len() {
        0 => Ok(true),
        len => file.read_at(&mut last, len - 1).map(|_| last == *b"\n"),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use nix::sys::stat::Mode;
    use nix::unistd::mkfifo;

    use super::*;

    #[test]
    fn each_record_begins_a_line_of_the_file_that_has_the_name_now() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("record");
        append(&path, "one\n".into()).unwrap();
        append(&path, "two\nthree\n".into()).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "one\ntwo\nthree\n");
        fs::write(&path, "cut o").unwrap();
        append(&path, "four\n".into()).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "cut o\nfour\n");
        fs::rename(&path, directory.path().join("record.1")).unwrap();
        append(&path, "five\n".into()).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "five\n");
    }

    #[test]
    fn what_may_be_another_file_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let (target, path) = (directory.path().join("target"), directory.path().join("record"));
        fs::write(&target, "").unwrap();
        symlink(&target, &path).unwrap();
        assert!(append(&path, "x\n".into()).is_err(), "a link");
        fs::remove_file(&path).unwrap();
        fs::hard_link(&target, &path).unwrap();
        assert!(append(&path, "x\n".into()).unwrap_err().to_string().contains("a second name"));
        fs::remove_file(&path).unwrap();
        mkfifo(&path, Mode::from_bits_truncate(0o600)).unwrap();
        assert!(append(&path, "x\n".into()).unwrap_err().to_string().contains("no regular file"));
        assert_eq!(fs::read_to_string(&target).unwrap(), "");
        assert!(check(&directory.path().join("none/record")).is_err());
    }
}
