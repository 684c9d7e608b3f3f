//! The files of a namespace's directory. Whoever may write there can have put anything in their places.
#![forbid(unsafe_code)]

use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::{OFlag, open, openat};
use nix::sys::stat::{Mode, SFlag, fstat};
use nix::unistd::{UnlinkatFlags, unlinkat};

use super::history::{FileError, History};
use super::record::FILE_LEN;
use crate::file_ban;

/// What names begin with; the rank follows.
const PREFIX: &str = "steps-";
/// Entries of a directory that are looked at. A job has one file for each rank of the node.
pub const NAMES_MAX: usize = 16_384;

/// Files that are read.
const FILES_MAX: usize = 1024;

/// The name of a rank's file.
pub(super) fn name_of(rank: u32) -> String {
    format!("{PREFIX}{rank}")
}

/// The rank whose file has this name.
pub fn rank_of(name: &[u8]) -> Option<u32> {
    let digits = name.strip_prefix(PREFIX.as_bytes())?;
    let rank: u32 = str::from_utf8(digits).ok()?.parse().ok()?;
    (name_of(rank).as_bytes() == name).then_some(rank)
}

/// Opens a file for [`History::read`]: a regular file of the right length, whatever a name leads to.
///
/// # Errors
/// It is none, or cannot be opened.
pub fn open_file(directory: BorrowedFd<'_>, name: &OsStr) -> Result<File, FileError> {
    file_ban::check();
    // Without O_NONBLOCK, opening a pipe of that name would block.
    let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
    let file = File::from(openat(directory, name, flags, Mode::empty()).map_err(std::io::Error::from)?);
    let stat = fstat(&file).map_err(std::io::Error::from)?;
    if SFlag::from_bits_truncate(stat.st_mode & SFlag::S_IFMT.bits()) != SFlag::S_IFREG {
        return Err(FileError::Form("not a regular file"));
    }
    if stat.st_size != FILE_LEN as i64 {
        return Err(FileError::Form("its length is not that of a file with the steps of a process"));
    }
    Ok(file)
}

/// The files of a directory.
pub struct Found {
    /// Rank, and what its file says.
    pub files: Vec<(u32, Result<History, FileError>)>,
    /// The directory has more than were read.
    pub has_more: bool,
}

/// Reads the files of ranks that `is_meant` chooses, in the directory at `path` around a namespace's directory. They are sorted by rank.
///
/// # Errors
/// The directory cannot be read.
pub fn files_in(path: &Path, is_meant: impl Fn(u32) -> bool) -> std::io::Result<Found> {
    file_ban::check();
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    let directory = open(path, flags, Mode::empty())?;
    let (mut ranks, mut has_more) = ranks_in(directory.as_fd())?;
    ranks.retain(|rank| is_meant(*rank));
    ranks.sort_unstable();
    has_more |= ranks.len() > FILES_MAX;
    ranks.truncate(FILES_MAX);
    let read = |rank: u32| {
        let file = open_file(directory.as_fd(), OsStr::new(&name_of(rank)));
        (rank, file.and_then(|file| History::read(&file)))
    };
    Ok(Found { files: ranks.into_iter().map(read).collect(), has_more })
}

/// The ranks that files are named after, and whether the directory has more entries than were looked at.
fn ranks_in(directory: BorrowedFd<'_>) -> Result<(Vec<u32>, bool), Errno> {
    // A descriptor of its own: reading a directory moves the place in it.
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    let mut entries = Dir::openat(directory, ".", flags, Mode::empty())?;
    let mut ranks = Vec::new();
    for (seen, entry) in entries.iter().enumerate() {
        if seen == NAMES_MAX {
            return Ok((ranks, true));
        }
        ranks.extend(rank_of(entry?.file_name().to_bytes()));
    }
    Ok((ranks, false))
}

/// Removes the files of all ranks from the directory around a namespace's directory, for the server when the namespace ends. Only names
/// are removed: whatever a link leads to stays.
pub fn remove_files(directory: BorrowedFd<'_>) {
    file_ban::check();
    let Ok((ranks, _)) = ranks_in(directory) else { return };
    for rank in ranks {
        // A failure is ignored: a directory of that name stays, and with it the directory around it.
        let _ = unlinkat(directory, OsStr::from_bytes(name_of(rank).as_bytes()), UnlinkatFlags::NoRemoveDir);
    }
}
