//! Why a directory is refused.

use std::fmt;
use std::path::PathBuf;

use nix::errno::Errno;

use super::page::PageError;
use crate::segment::layout::error::SegmentError;

/// Why a file or directory was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileError {
    /// The system call failed.
    Errno(Errno),
    /// A wrong property, with a description.
    Wrong(&'static str),
}

impl From<Errno> for FileError {
    fn from(errno: Errno) -> FileError {
        FileError::Errno(errno)
    }
}

/// A directory or segment of a namespace cannot be used. The caller continues over the socket.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum AttachError {
    /// A file or directory could not be opened or mapped.
    Open {
        /// Which one.
        path: PathBuf,
        /// The system's error number.
        errno: i32,
    },
    /// A file or directory has a wrong type, owner, mode or length.
    File {
        /// Which one.
        path: PathBuf,
        /// The wrong property.
        what: &'static str,
    },
    /// The directory page has a wrong magic or another layout.
    Page {
        /// Which one.
        path: PathBuf,
        /// The wrong property.
        what: &'static str,
    },
    /// The directory page is of another version.
    PageVersion {
        /// Which one.
        path: PathBuf,
        /// Its version.
        found: u32,
    },
    /// A segment was refused.
    Segment {
        /// Which one.
        path: PathBuf,
        /// Why.
        error: SegmentError,
    },
    /// This process has mapped as many segments of the directory as it may.
    TooMany {
        /// The directory.
        path: PathBuf,
        /// How many.
        mapped: usize,
    },
    /// The namespace was deregistered.
    Retired,
}

impl AttachError {
    /// Adds the path to an error of a file or directory.
    pub(crate) fn of_file(path: PathBuf, error: FileError) -> AttachError {
        match error {
            FileError::Errno(errno) => AttachError::Open { path, errno: errno as i32 },
            FileError::Wrong(what) => AttachError::File { path, what },
        }
    }

    /// Adds the path to an error of a directory page.
    pub(crate) fn of_page(path: PathBuf, error: PageError) -> AttachError {
        match error {
            PageError::Io(error) => AttachError::Open { path, errno: error.raw_os_error().unwrap_or(0) },
            PageError::Version(found) => AttachError::PageVersion { path, found },
            PageError::Wrong(what) => AttachError::Page { path, what },
        }
    }

    /// Whether a later attempt may succeed: this process, or the system, has too few descriptors or too little memory.
    pub fn may_pass(&self) -> bool {
        match self {
            AttachError::Open { errno, .. } => matches!(*errno, libc::EMFILE | libc::ENFILE | libc::ENOMEM),
            _ => false,
        }
    }

    /// Whether the error is no fault: the directory does not exist, as in a container with another one, or the namespace has ended.
    pub fn is_usual(&self) -> bool {
        match self {
            AttachError::Open { errno, .. } => matches!(*errno, libc::ENOENT | libc::ENOTDIR),
            AttachError::Retired => true,
            _ => false,
        }
    }
}

impl fmt::Display for AttachError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AttachError::Open { path, errno } => {
                write!(f, "{}: {}", path.display(), std::io::Error::from_raw_os_error(*errno))
            }
            AttachError::File { path, what } => write!(f, "{}: {what}", path.display()),
            AttachError::Page { path, what } => write!(f, "{}: {}", path.display(), PageError::Wrong(what)),
            AttachError::PageVersion { path, found } => write!(f, "{}: {}", path.display(), PageError::Version(*found)),
            AttachError::Segment { path, error } => write!(f, "{}: {error}", path.display()),
            AttachError::TooMany { path, mapped } => write!(
                f,
                "{}: {mapped} segments were mapped one after the other, and no more are: published values come over the socket",
                path.display()
            ),
            AttachError::Retired => f.write_str("the namespace was deregistered"),
        }
    }
}

impl std::error::Error for AttachError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_not_there_is_no_fault() {
        let open = |errno| AttachError::Open { path: "/d".into(), errno }.is_usual();
        assert!(open(libc::ENOENT) && open(libc::ENOTDIR) && AttachError::Retired.is_usual());
        for errno in [libc::EACCES, libc::EMFILE, libc::ENFILE, libc::ENOMEM, libc::ELOOP, libc::EIO] {
            assert!(!open(errno), "{errno}");
        }
        assert!(!AttachError::File { path: "/d".into(), what: "owner" }.is_usual());
    }

    #[test]
    fn only_what_is_short_may_be_there_later() {
        let open = |errno| AttachError::Open { path: "/d".into(), errno }.may_pass();
        assert!(open(libc::EMFILE) && open(libc::ENFILE) && open(libc::ENOMEM));
        assert!(!open(libc::EACCES) && !open(libc::ENOENT) && !AttachError::Retired.may_pass());
    }
}
