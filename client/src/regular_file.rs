//! Reads a small text file safely from a directory in which any user may create files.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// How to handle a path whose last component is a symbolic link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnLink {
    /// For a path that the caller chose.
    Follow,
    /// For a path in a shared directory, where another user's link may lead anywhere.
    Refuse,
}

/// The text of a regular file, and its metadata. Files of other types are not read, and opening one cannot block this
/// process.
///
/// # Errors
/// Errors of the system; `InvalidData` if it is not a regular file, is longer than `len_max`, or is not UTF-8.
pub fn read_regular(path: &Path, on_link: OnLink, len_max: u64) -> io::Result<(String, Metadata)> {
    let no_follow = if on_link == OnLink::Refuse { libc::O_NOFOLLOW } else { 0 };
    // Without these flags, opening a FIFO would wait for a writer, and a terminal could become the controlling
    // terminal.
    let flags = libc::O_NONBLOCK | libc::O_NOCTTY | no_follow;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    let metadata = file.metadata()?;
    let none = |why: &str| io::Error::new(io::ErrorKind::InvalidData, why);
    if !metadata.is_file() {
        return Err(none("not a regular file"));
    }
    let text = read_text(file, len_max)?.ok_or_else(|| none("too long"))?;
    Ok((text, metadata))
}

fn read_text(file: File, len_max: u64) -> io::Result<Option<String>> {
    let mut text = String::new();
    file.take(len_max + 1).read_to_string(&mut text)?;
    Ok(Some(text).filter(|text| text.len() as u64 <= len_max))
}
