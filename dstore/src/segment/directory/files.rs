//! Opening files of a namespace's directory with distrust.

use std::fmt;
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use nix::errno::Errno;
use nix::fcntl::{OFlag, open, openat};
use nix::sys::stat::{FileStat, Mode, SFlag, fstat, lstat};

use super::error::{AttachError, FileError};
use crate::file_ban;

/// Which file or directory of this machine it is, whatever its name. While somebody has it open, no other one can
/// have these numbers, and neither bind mounts nor user namespaces change them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileId {
    device: u64,
    inode: u64,
}

impl FileId {
    /// The file or directory, or the symbolic link, that has this name now.
    ///
    /// # Errors
    /// What the system says.
    pub fn of(path: &Path) -> std::io::Result<FileId> {
        file_ban::check();
        Ok(FileId::from(&lstat(path)?))
    }
}

impl From<&FileStat> for FileId {
    fn from(stat: &FileStat) -> FileId {
        FileId { device: stat.st_dev, inode: stat.st_ino }
    }
}

impl fmt::Display for FileId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}:{:x}", self.device, self.inode)
    }
}

impl FromStr for FileId {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<FileId, Self::Err> {
        let (device, inode) = text.split_once(':').unwrap_or((text, ""));
        Ok(FileId { device: u64::from_str_radix(device, 16)?, inode: u64::from_str_radix(inode, 16)? })
    }
}

/// The inner directory of a namespace, found to be the one that the server made.
#[derive(Debug)]
pub struct Directory {
    fd: OwnedFd,
    path: PathBuf,
    uid: u32,
}

impl Directory {
    /// Opens the directory that has this path and must be `id`: in a directory of the system where others may rename, the
    /// path alone could mean theirs.
    ///
    /// # Errors
    /// It is not there, is another one, or others may write it.
    pub fn open(path: &Path, id: FileId) -> Result<Directory, AttachError> {
        let at = |error: FileError| AttachError::of_file(path.to_owned(), error);
        let fd = open_directory(path).map_err(|errno| at(errno.into()))?;
        let stat = fstat(&fd).map_err(|errno| at(errno.into()))?;
        if FileId::from(&stat) != id {
            return Err(at(FileError::Wrong("not the directory that the server made")));
        }
        check_owner(&stat, stat.st_uid).map_err(at)?;
        Ok(Directory { fd, path: path.to_owned(), uid: stat.st_uid })
    }

    /// The path by which it was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whose it is: the server's, as this user namespace has it.
    pub fn uid(&self) -> u32 {
        self.uid
    }

    /// The directory itself, to reach the server's socket in it.
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Opens a directory; the last part of the path must not be a symbolic link.
fn open_directory(path: &Path) -> Result<OwnedFd, Errno> {
    file_ban::check();
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    open(path, flags, Mode::empty())
}

/// The file type bits of a mode.
pub(crate) fn kind_of(stat: &FileStat) -> SFlag {
    SFlag::from_bits_truncate(stat.st_mode & SFlag::S_IFMT.bits())
}

/// Opens a regular file of `directory` for reading and requires that its owner owns it and nobody else may write it.
pub(crate) fn open_file(directory: &Directory, name: &str) -> Result<(File, FileStat), FileError> {
    file_ban::check();
    // Without O_NONBLOCK, a pipe of that name would hold us.
    let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK;
    let fd = openat(&directory.fd, name, flags, Mode::empty())?;
    let stat = fstat(&fd)?;
    if kind_of(&stat) != SFlag::S_IFREG {
        return Err(FileError::Wrong("not a regular file"));
    }
    check_owner(&stat, directory.uid)?;
    Ok((File::from(fd), stat))
}

/// Requires that `uid` owns a file or directory and nobody else may write it.
fn check_owner(stat: &FileStat, uid: u32) -> Result<(), FileError> {
    if stat.st_uid != uid {
        return Err(FileError::Wrong("owned by another user than the server's"));
    }
    if stat.st_mode & 0o022 != 0 {
        return Err(FileError::Wrong("group or others may write it"));
    }
    Ok(())
}
