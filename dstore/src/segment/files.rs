//! Opening files of a namespace's directory with distrust.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::{OFlag, open, openat};
use nix::sys::stat::{FileStat, Mode, SFlag, fstat};

/// Why a file or directory was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FileError {
    /// The system call failed.
    Errno(Errno),
    /// Not what it must be; says what is wrong.
    Wrong(&'static str),
}

impl From<Errno> for FileError {
    fn from(errno: Errno) -> FileError {
        FileError::Errno(errno)
    }
}

/// Opens a directory; the last part of the path must not be a symbolic link.
pub(super) fn open_directory(path: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    open(path, flags, Mode::empty())
}

/// The file type bits of a mode.
pub(super) fn kind_of(stat: &FileStat) -> SFlag {
    SFlag::from_bits_truncate(stat.st_mode & SFlag::S_IFMT.bits())
}

/// Opens a regular file of `directory` for reading and requires that `uid` owns it and nobody else may write it.
pub(super) fn open_file(directory: impl AsFd, name: &str, uid: u32) -> Result<(File, FileStat), FileError> {
    // Without O_NONBLOCK, a pipe of that name would hold us.
    let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK;
    let fd = openat(directory, name, flags, Mode::empty())?;
    let stat = fstat(&fd)?;
    if kind_of(&stat) != SFlag::S_IFREG {
        return Err(FileError::Wrong("not a regular file"));
    }
    check_owner(&stat, uid)?;
    Ok((File::from(fd), stat))
}

/// Requires that `uid` owns a file or directory and nobody else may write it.
pub(super) fn check_owner(stat: &FileStat, uid: u32) -> Result<(), FileError> {
    if stat.st_uid != uid {
        return Err(FileError::Wrong("owned by another user than the server's"));
    }
    if stat.st_mode & 0o022 != 0 {
        return Err(FileError::Wrong("group or others may write it"));
    }
    Ok(())
}
