//! Directories of namespaces whose servers have ended without removing them.
//!
//! A name proves nothing. A server holds a lock on the outer directory while it has it; the kernel releases the lock when the process ends, in
//! whichever way. Servers of releases without the lock are told by their socket, which takes connections while they live.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, openat};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, connect, socket};
use nix::sys::stat::{Mode, fstat, fstatat};
use nix::sys::statfs::fstatfs;
use nix::unistd::{UnlinkatFlags, geteuid, unlinkat};

use super::outer::{INNER_NAME, JOURNAL_NAME, JOURNAL_NEW_NAME, OUTER_PREFIX, SOCKET_NAME, lock};
use crate::file_ban;
use crate::rank_file;
use crate::segment::directory::files::FileId;
use crate::segment::directory::page::{PAGE_PREFIX, SEGMENT_PREFIX};

/// File systems that are programs, as `statfs(2)` calls them.
const FUSE: u64 = 0x6573_5546;
/// The digits of each of the two numbers in a name.
const DIGITS: usize = 16;

/// The directory of a namespace whose server has ended. Nobody else takes it while this lives.
#[derive(Debug)]
pub struct Abandoned {
    outer: OwnedFd,
    /// `None` if the server, or another process that removed the directory, was killed in between.
    inner: Option<OwnedFd>,
}

impl Abandoned {
    /// Whether a name is that of a namespace's directory.
    pub fn is_name(name: &OsStr) -> bool {
        let is_number =
            |text: &[u8]| text.len() == DIGITS && text.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        name.as_bytes().strip_prefix(OUTER_PREFIX.as_bytes()).is_some_and(|rest| {
            rest.len() == 2 * DIGITS + 1
                && rest[DIGITS] == b'-'
                && is_number(&rest[..DIGITS])
                && is_number(&rest[DIGITS + 1..])
        })
    }

    /// The directory of this name in `parent`; `None` if its server lives, or if it is not a server's of this user.
    ///
    /// # Errors
    /// Why it is not touched, though it is this user's.
    pub fn find(parent: BorrowedFd<'_>, name: &OsStr) -> io::Result<Option<Abandoned>> {
        file_ban::check();
        let refused = |why: &str| io::Error::new(ErrorKind::PermissionDenied, why);
        let own = geteuid().as_raw();
        let is_own = |directory: BorrowedFd<'_>, name: &OsStr| {
            fstatat(directory, name, AtFlags::AT_SYMLINK_NOFOLLOW).is_ok_and(|stat| stat.st_uid == own)
        };
        let outer = match open_in(parent, name) {
            Ok(outer) => outer,
            Err(Errno::ELOOP | Errno::ENOTDIR) if is_own(parent, name) => return Err(refused("it is no directory")),
            Err(Errno::ELOOP | Errno::ENOTDIR | Errno::ENOENT | Errno::EACCES) => return Ok(None),
            Err(errno) => return Err(errno.into()),
        };
        // Some of these do not show the locks of other machines.
        if fstatfs(&outer)?.filesystem_type().0 as u64 == FUSE {
            return Ok(None);
        }
        // A server of root's gives the outer directory to the job's user, and the inner one is its own.
        let is_owner = fstat(&outer)?.st_uid == own;
        if !is_owner && own != 0 {
            return Ok(None);
        }
        let inner = match open_in(outer.as_fd(), OsStr::new(INNER_NAME)) {
            Ok(inner) => Some(inner),
            Err(Errno::ENOENT) if is_owner => None,
            Err(Errno::ELOOP | Errno::ENOTDIR) if is_owner => return Err(refused("what is in it is no directory")),
            Err(_) => return Ok(None),
        };
        if let Some(inner) = &inner {
            let stat = fstat(inner)?;
            if stat.st_uid != own {
                return Ok(None);
            }
            if stat.st_mode & 0o022 != 0 {
                return Err(refused("group or others may write to the directory in it"));
            }
        }
        let Some(outer) = lock(outer)? else { return Ok(None) };
        let abandoned = Abandoned { outer, inner };
        Ok((!abandoned.is_served()?).then_some(abandoned))
    }

    /// The inner directory, if there is one.
    pub fn inner(&self) -> Option<BorrowedFd<'_>> {
        self.inner.as_ref().map(AsFd::as_fd)
    }

    /// The outer directory, which is locked, and the inner one.
    pub(super) fn into_parts(self) -> Option<(OwnedFd, OwnedFd)> {
        Some((self.outer, self.inner?))
    }

    /// Whether a server takes connections at the socket.
    fn is_served(&self) -> io::Result<bool> {
        let Some(inner) = &self.inner else { return Ok(false) };
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let socket = socket(AddressFamily::Unix, SockType::Stream, flags, None)?;
        let address = UnixAddr::new(&inside(inner).join(SOCKET_NAME))?;
        match connect(socket.as_raw_fd(), &address) {
            // Without a place in its queue: it is stopped, or has much to do.
            Ok(()) | Err(Errno::EAGAIN | Errno::EINPROGRESS) => Ok(true),
            Err(Errno::ECONNREFUSED | Errno::ENOENT) => Ok(false),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Removes the directory, which is the one of this name in `parent`, with all that a server and its ranks put there, of whatever version
    /// of the format. What has another name stays, and with it the directory with all files of the server.
    ///
    /// # Errors
    /// An error of the system. Another call goes on from there.
    pub fn remove(self, parent: BorrowedFd<'_>, name: &OsStr) -> io::Result<()> {
        file_ban::check();
        if let Some(inner) = &self.inner {
            let directory = inside(inner);
            // A directory of a newer release, perhaps: what is there is left together.
            for entry in fs::read_dir(&directory)? {
                let name = entry?.file_name();
                if !is_of_server(&name) {
                    let name = name.as_bytes().escape_ascii();
                    let why = format!("{name} in it is no file that this release makes; remove the directory yourself");
                    return Err(io::Error::new(ErrorKind::DirectoryNotEmpty, why));
                }
            }
            for entry in fs::read_dir(&directory)? {
                let name = entry?.file_name();
                if is_of_server(&name) {
                    unlinkat(inner, name.as_os_str(), UnlinkatFlags::NoRemoveDir)?;
                }
            }
            unlinkat(&self.outer, INNER_NAME, UnlinkatFlags::RemoveDir)?;
        }
        rank_file::remove_files(self.outer.as_fd());
        let found = fstatat(parent, name, AtFlags::AT_SYMLINK_NOFOLLOW)?;
        if FileId::from(&found) != FileId::from(&fstat(&self.outer)?) {
            return Err(io::Error::new(ErrorKind::PermissionDenied, "its name is that of another file by now"));
        }
        Ok(unlinkat(parent, name, UnlinkatFlags::RemoveDir)?)
    }
}

fn open_in(parent: BorrowedFd<'_>, name: &OsStr) -> nix::Result<OwnedFd> {
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    openat(parent, name, flags, Mode::empty())
}

/// The path of an open directory. Other users cannot lead it elsewhere.
fn inside(directory: &OwnedFd) -> PathBuf {
    format!("/proc/self/fd/{}", directory.as_raw_fd()).into()
}

/// Whether a server makes files of this name in the inner directory.
fn is_of_server(name: &OsStr) -> bool {
    let is_other = [SOCKET_NAME, JOURNAL_NAME, JOURNAL_NEW_NAME].iter().any(|other| name == *other);
    is_other || is_numbered(name, PAGE_PREFIX) || is_numbered(name, SEGMENT_PREFIX)
}

/// Whether the name is the prefix with a number. A file of another name may be one of a later release.
pub(super) fn is_numbered(name: &OsStr, prefix: &str) -> bool {
    let number = name.as_bytes().strip_prefix(prefix.as_bytes());
    number.is_some_and(|number| !number.is_empty() && number.iter().all(u8::is_ascii_digit))
}
