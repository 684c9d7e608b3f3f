//! Files that a rank makes for itself in the directory around its namespace's segments, for tools to read: the steps of the flight
//! recorder, and the counts of Gets.
//!
//! Such a file has a fixed length and begins with a [`Header`]. Its rank alone writes to it, by plain stores into a mapping, so that
//! nothing is lost if it is killed. No process decides anything by its own file: a changed file leads to wrong words, not to wrong
//! behaviour. A file that is cut ends its process by SIGBUS at the next store. Its mode, 0400, keeps its user from that by mistake; root,
//! and a user who changes the mode, can do it.
//!
//! Whoever may write to the directory can have put anything in the place of a file.

mod header;
mod memory;

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::{OFlag, open, openat};
use nix::sys::stat::{Mode, SFlag, fstat};
use nix::unistd::{UnlinkatFlags, unlinkat};

use crate::file_ban;
pub use header::{HEADER_WORDS, Header, HeaderWords, now};
pub(crate) use header::{Text, nanoseconds, printable, text_bytes, text_words, with_check};
pub use memory::RankMemory;

/// Entries of a directory that are looked at. A job has at most two files for each rank of the node.
pub const NAMES_MAX: usize = 16_384;

/// A kind of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The last steps of a rank.
    Steps,
    /// The counts of a rank's Gets.
    Gets,
}

impl Kind {
    const ALL: [Kind; 2] = [Kind::Steps, Kind::Gets];

    /// What names begin with; the rank follows.
    fn prefix(self) -> &'static str {
        match self {
            Kind::Steps => "steps-",
            Kind::Gets => "gets-",
        }
    }

    /// The name of a rank's file.
    pub fn name(self, rank: u32) -> String {
        format!("{}{rank}", self.prefix())
    }

    /// The rank whose file has this name.
    pub fn rank_of(self, name: &[u8]) -> Option<u32> {
        let digits = name.strip_prefix(self.prefix().as_bytes())?;
        let rank: u32 = str::from_utf8(digits).ok()?.parse().ok()?;
        (self.name(rank).as_bytes() == name).then_some(rank)
    }
}

/// Opens a file for reading: a regular file of this length, whatever the name leads to.
///
/// # Errors
/// It is none, or cannot be opened.
pub fn open_file(directory: BorrowedFd<'_>, name: &OsStr, len: usize) -> io::Result<File> {
    file_ban::check();
    // Without O_NONBLOCK, opening a pipe of that name would block.
    let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
    let file = File::from(openat(directory, name, flags, Mode::empty())?);
    let stat = fstat(&file)?;
    if SFlag::from_bits_truncate(stat.st_mode & SFlag::S_IFMT.bits()) != SFlag::S_IFREG {
        return Err(io::Error::other("not a regular file"));
    }
    if usize::try_from(stat.st_size) != Ok(len) {
        return Err(io::Error::other("its length is not that of a file of this kind"));
    }
    Ok(file)
}

/// The files of a directory.
pub struct Found<T> {
    /// Rank, and what its file says.
    pub files: Vec<(u32, T)>,
    /// The directory has more than were read.
    pub has_more: bool,
}

/// Reads at most `max` files of ranks that `is_meant` chooses, in the directory at `path` around a namespace's directory. They are sorted
/// by rank. `read` is given the directory and a name.
///
/// # Errors
/// The directory cannot be read.
pub fn files_in<T>(
    path: &Path,
    (kind, max): (Kind, usize),
    is_meant: impl Fn(u32) -> bool,
    read: impl Fn(BorrowedFd<'_>, &OsStr) -> T,
) -> io::Result<Found<T>> {
    file_ban::check();
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    let directory = open(path, flags, Mode::empty())?;
    let (names, mut has_more) = names_in(directory.as_fd())?;
    let of_kind = names.into_iter().filter(|(of, _)| *of == kind).map(|(_, rank)| rank);
    let mut ranks: Vec<u32> = of_kind.filter(|rank| is_meant(*rank)).collect();
    ranks.sort_unstable();
    has_more |= ranks.len() > max;
    ranks.truncate(max);
    let read = |rank: u32| (rank, read(directory.as_fd(), OsStr::new(&kind.name(rank))));
    Ok(Found { files: ranks.into_iter().map(read).collect(), has_more })
}

/// The kinds and ranks that files are named after, and whether the directory has more entries than were looked at.
fn names_in(directory: BorrowedFd<'_>) -> Result<(Vec<(Kind, u32)>, bool), Errno> {
    // A descriptor of its own: reading a directory moves the place in it.
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    let mut entries = Dir::openat(directory, ".", flags, Mode::empty())?;
    let mut names = Vec::new();
    for (seen, entry) in entries.iter().enumerate() {
        if seen == NAMES_MAX {
            return Ok((names, true));
        }
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        names.extend(Kind::ALL.into_iter().find_map(|kind| Some((kind, kind.rank_of(name)?))));
    }
    Ok((names, false))
}

/// Removes the files of all ranks from the directory around a namespace's directory, for the server when the namespace ends. Only names
/// are removed: whatever a link leads to stays.
pub fn remove_files(directory: BorrowedFd<'_>) {
    file_ban::check();
    loop {
        let Ok((names, has_more)) = names_in(directory) else { return };
        let remove = |(kind, rank): &(Kind, u32)| {
            let name = kind.name(*rank);
            unlinkat(directory, OsStr::from_bytes(name.as_bytes()), UnlinkatFlags::NoRemoveDir).is_ok()
        };
        // What stays is a directory of that name, and with it the directory around it.
        if names.iter().filter(|name| remove(name)).count() == 0 || !has_more {
            return;
        }
    }
}
