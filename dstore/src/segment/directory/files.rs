//! Opens files of a namespace's directory without trusting them.

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

/// Identity of a file or directory on this machine, independent of its name. While the file is open, no other file can have these
/// numbers. Bind mounts and user namespaces do not change them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileId {
    device: u64,
    inode: u64,
}

impl FileId {
    /// The identity of the file, directory or symbolic link at `path`.
    ///
    /// # Errors
    /// An error of the system.
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

/// The inner directory of a namespace, verified to be the one that the server made.
#[derive(Debug)]
pub struct Directory {
    fd: OwnedFd,
    path: PathBuf,
    uid: u32,
}

impl Directory {
    /// Opens the directory at `path`, which must be `id`. The path alone is not enough: in a system directory where other users
    /// can rename entries, it could be a directory of theirs.
    ///
    /// # Errors
    /// The directory does not exist, is another one, or is writable by others.
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

    /// Whether the directory has been removed since.
    pub fn is_removed(&self) -> bool {
        fstat(&self.fd).is_ok_and(|stat| stat.st_nlink == 0)
    }

    /// The owner, which is the server's user, as seen in this user namespace.
    pub fn uid(&self) -> u32 {
        self.uid
    }

    /// The descriptor, to reach the server's socket in the directory.
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

/// Opens a regular file of `directory` for reading. The directory's owner must own it, and no one else may write it.
pub(crate) fn open_file(directory: &Directory, name: &str) -> Result<(File, FileStat), FileError> {
    file_ban::check();
    // Without O_NONBLOCK, opening a pipe of that name would block.
    let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK;
    let fd = openat(&directory.fd, name, flags, Mode::empty())?;
    let stat = fstat(&fd)?;
    if kind_of(&stat) != SFlag::S_IFREG {
        return Err(FileError::Wrong("not a regular file"));
    }
    check_owner(&stat, directory.uid)?;
    Ok((File::from(fd), stat))
}

/// Requires that `uid` owns a file or directory, and that neither group nor others may write it.
fn check_owner(stat: &FileStat, uid: u32) -> Result<(), FileError> {
    if stat.st_uid != uid {
        return Err(FileError::Wrong("owned by another user than the server's"));
    }
    if stat.st_mode & 0o022 != 0 {
        return Err(FileError::Wrong("group or others may write it"));
    }
    Ok(())
}
