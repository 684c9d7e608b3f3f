//! Reads a small text file from a directory where anybody may leave files.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// What to do where the last part of a path is a symbolic link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnLink {
    /// A path that the caller names is the caller's choice.
    Follow,
    /// In a directory for everybody a link may lead anywhere.
    Refuse,
}

/// The text of a regular file, and whose it is. Whatever else has its name neither stops this process nor is read.
///
/// # Errors
/// What the system says; `InvalidData` for what is no regular file, is longer than `len_max` or no text.
pub fn read_regular(path: &Path, on_link: OnLink, len_max: u64) -> io::Result<(String, Metadata)> {
    let no_follow = if on_link == OnLink::Refuse { libc::O_NOFOLLOW } else { 0 };
    // To open a FIFO would wait for a writer, and a terminal would become the one of this process.
    let flags = libc::O_NONBLOCK | libc::O_NOCTTY | no_follow;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    let metadata = file.metadata()?;
    let none = |why: &str| io::Error::new(io::ErrorKind::InvalidData, why);
    if !metadata.is_file() {
        return Err(none("not a regular file"));
    }
    let text = read_text(file, len_max)?.ok_or_else(|| none("longer than such a file can be"))?;
    Ok((text, metadata))
}

fn read_text(file: File, len_max: u64) -> io::Result<Option<String>> {
    let mut text = String::new();
    file.take(len_max + 1).read_to_string(&mut text)?;
    Ok(Some(text).filter(|text| text.len() as u64 <= len_max))
}
