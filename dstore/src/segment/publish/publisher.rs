//! The server's side of a namespace's directory: makes it, writes segments into it, removes it.

use std::ffi::OsStr;
use std::fmt;
use std::fs::File;
use std::io::{ErrorKind, IoSlice, Write};
use std::num::NonZeroU64;
use std::ops::RangeInclusive;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, open, openat};
use nix::sys::stat::{Mode, SFlag, fchmod, fstat, fstatat, mkdirat};
use nix::sys::statfs::fstatfs;
use nix::sys::statvfs::fstatvfs;
use nix::unistd::{Gid, Uid, UnlinkatFlags, fchown, geteuid, unlinkat};
use xxhash_rust::xxh3::xxh3_64;

use super::outer::{INNER_NAME, OUTER_PREFIX, lock};
use super::page_writer::PageWriter;
use crate::file_ban;
use crate::gather::Slices;
use crate::model::Nspace;
use crate::rank_file;
use crate::segment::directory::files::{FileId, kind_of};
use crate::segment::directory::limit::check_length;
use crate::segment::directory::page::{
    CARRIED_MAX, ENTRIES_MAX, Entry, PAGE_CAPACITY, PAGE_PREFIX, PAGES_KEPT, PAGES_MAX, page_name, segment_name,
};
use crate::segment::directory::sync::before_removal;
use crate::segment::layout::error::SegmentError;
use crate::segment::layout::header::SegmentKind;
use crate::segment::layout::raw_header::RawHeader;

/// Why a directory could not be made or a segment could not be published. Nothing partial is left.
#[derive(Debug)]
#[non_exhaustive]
pub enum PublishError {
    /// A system call failed.
    Io {
        /// The failed action.
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The error of the system.
        error: std::io::Error,
    },
    /// The file system is full, or a limit of the process was reached.
    Full {
        /// The file that was to be written.
        path: PathBuf,
        /// Its length in bytes.
        needed: u64,
        /// Bytes that the file system has free for this user.
        free: u64,
        /// The error of the system.
        error: std::io::Error,
    },
    /// The directory is on a network file system, which may not keep mappings coherent.
    NetworkFileSystem {
        /// The directory.
        path: PathBuf,
        /// Name of the file system's type.
        fs: &'static str,
    },
    /// The bytes are no segment of this namespace and kind.
    NotASegment(SegmentError),
    /// The range to replace is empty or not yet published.
    Range {
        /// First order.
        first: u64,
        /// Last order.
        last: u64,
    },
    /// The directory has as many entries as it can.
    TooManyEntries,
}

impl fmt::Display for PublishError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PublishError::Io { action, path, error } => write!(f, "{action} {}: {error}", path.display()),
            PublishError::Full { path, needed, free, error } => {
                write!(f, "write {}: {error}; {needed} bytes are needed, {free} are free", path.display())
            }
            PublishError::NetworkFileSystem { path, fs } => write!(
                f,
                "{} is on a network file system ({fs}); shared memory needs a local one (PMIX_SERVER_TMPDIR)",
                path.display()
            ),
            PublishError::NotASegment(error) => write!(f, "not published: {error}"),
            PublishError::Range { first, last } => write!(f, "there is nothing to replace at {first} to {last}"),
            PublishError::TooManyEntries => f.write_str("the namespace's directory is full"),
        }
    }
}

impl std::error::Error for PublishError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            PublishError::Io { error, .. } | PublishError::Full { error, .. } => Some(error),
            PublishError::NotASegment(error) => Some(error),
            _ => None,
        }
    }
}

/// A live segment of a directory: no other segment replaces it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LiveSegment {
    /// Its contents.
    pub kind: SegmentKind,
    /// Its position from old to new: one less than the count that [`Publisher::publish`] returned. This also holds for a
    /// replacing segment, unless newer segments than the replaced ones exist. Ranges of [`Publisher::publish_replacing`] consist
    /// of these.
    pub order: u64,
    /// Its length in bytes.
    pub len: u64,
}

/// The directory of one namespace, owned by the server.
///
/// Dropping it retires the namespace: marks the page as retired for readers, and removes our own files and directories.
pub struct Publisher {
    pub(super) nspace: Nspace,
    pub(super) tmpdir: OwnedFd,
    pub(super) outer: OwnedFd,
    pub(super) inner: OwnedFd,
    pub(super) outer_name: String,
    pub(super) path: PathBuf,
    pub(super) outer_id: FileId,
    pub(super) inner_id: FileId,
    pub(super) pages: Pages,
    pub(super) count: u64,
    pub(super) next_file: u64,
    pub(super) live: Vec<Published>,
    /// Files to remove: pages, and files passed to [`Publisher::adopt`].
    pub(super) others: Vec<(String, FileId)>,
    pub(super) pid: u32,
    pub(super) is_retired: bool,
}

/// The pages that are still written: page 0, which has the words of the directory, and the newest one. Full ones are closed.
#[derive(Default)]
pub(super) struct Pages {
    zero: Option<PageWriter>,
    /// The newest one, if it is not page 0.
    newest: Option<PageWriter>,
    /// The number of the next page.
    next: u64,
    /// The number of the first one that readers need.
    first: u64,
}

impl Pages {
    /// Without any page yet.
    pub(super) fn from_first(first: u64) -> Pages {
        Pages { first, ..Pages::default() }
    }

    pub(super) fn add(&mut self, number: u64, page: PageWriter) {
        *(if number == 0 { &mut self.zero } else { &mut self.newest }) = Some(page);
        self.next = number + 1;
    }

    fn zero(&self) -> std::io::Result<&PageWriter> {
        self.zero.as_ref().ok_or_else(|| ErrorKind::NotFound.into())
    }

    /// Writes an entry of the newest page.
    fn write_entry(&mut self, index: u64, entry: &Entry) -> std::io::Result<()> {
        let newest = if index < PAGE_CAPACITY { &mut self.zero } else { &mut self.newest };
        let newest = newest.as_mut().ok_or_else(|| std::io::Error::from(ErrorKind::NotFound))?;
        newest.write_entry(index % PAGE_CAPACITY, entry)
    }

    /// Publishes all entries below `count`.
    fn publish(&self, count: u64) -> std::io::Result<()> {
        let Some(count) = NonZeroU64::new(count) else { return Ok(()) };
        self.zero()?.publish(count)
    }
}

pub(super) struct Published {
    pub(super) segment: LiveSegment,
    /// The number of its file.
    pub(super) file: u64,
    pub(super) name: String,
    pub(super) id: FileId,
    pub(super) content_hash: u64,
}

/// A step of carrying live segments over to a new page.
type CarryingStep = fn(&mut Publisher) -> Result<(), PublishError>;

/// How often another name is tried for a directory that another process took for one without a server.
const ATTEMPTS: u32 = 8;

impl Publisher {
    /// Makes the two directories of a namespace below `server_tmpdir`, and an empty directory page in the inner one.
    ///
    /// The outer directory keeps other users out: mode 0700, owned by `owner` if it is given and we are root, otherwise by us.
    /// The inner one has mode 0755 and is ours. The outer name contains a hash of the namespace and a number that is unique to
    /// this server and this namespace.
    ///
    /// # Errors
    /// A failed system call, or a network file system. Nothing is left behind.
    pub fn create(server_tmpdir: &Path, nspace: &Nspace, owner: Option<(u32, u32)>) -> Result<Publisher, PublishError> {
        file_ban::check();
        let io =
            |action, path: &Path, errno: Errno| PublishError::Io { action, path: path.to_owned(), error: errno.into() };
        // The host chooses this directory: it may be a symbolic link.
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let tmpdir = open(server_tmpdir, flags, Mode::empty()).map_err(|errno| io("open", server_tmpdir, errno))?;
        if let Some(fs) = network_file_system(&tmpdir) {
            return Err(PublishError::NetworkFileSystem { path: server_tmpdir.to_owned(), fs });
        }
        // Clients have other working directories.
        let absolute = std::path::absolute(server_tmpdir).map_err(|error| PublishError::Io {
            action: "find",
            path: server_tmpdir.to_owned(),
            error,
        })?;
        let (outer_name, outer, outer_id) = make_outer(&tmpdir, &absolute, nspace, mkdirat_private)?;
        let path = absolute.join(&outer_name).join(INNER_NAME);
        let (inner, inner_id) = match make_directory(&outer, INNER_NAME, 0o755) {
            Ok(made) => made,
            Err(errno) => {
                remove(&tmpdir, &outer_name, outer_id, UnlinkatFlags::RemoveDir);
                return Err(io("make directory", &path, errno));
            }
        };
        let mut publisher = Publisher {
            nspace: nspace.clone(),
            tmpdir,
            outer,
            inner,
            outer_name,
            path,
            outer_id,
            inner_id,
            pages: Pages::default(),
            count: 0,
            next_file: 0,
            live: Vec::new(),
            others: Vec::new(),
            pid: std::process::id(),
            is_retired: false,
        };
        // From here on, dropping the publisher removes the directories and files.
        publisher.add_page()?;
        if let Some(owner) = owner {
            publisher.give_to(owner)?;
        }
        Ok(publisher)
    }

    /// Gives the outer directory to a user and group, if we are root and the user does not own it.
    ///
    /// # Errors
    /// An error of the system.
    pub fn give_to(&self, (uid, gid): (u32, u32)) -> Result<(), PublishError> {
        file_ban::check();
        let failed = |errno: Errno| PublishError::Io {
            action: "give away",
            path: self.path.parent().unwrap_or(&self.path).to_owned(),
            error: errno.into(),
        };
        if geteuid().is_root() && fstat(&self.outer).map_err(failed)?.st_uid != uid {
            fchown(&self.outer, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid))).map_err(failed)?;
        }
        Ok(())
    }

    /// Writes a segment and publishes it. A job segment replaces the previous job segment.
    ///
    /// Returns the new count of the directory. A reader that has loaded this count sees the segment.
    ///
    /// # Errors
    /// If a file cannot be written. Readers then see no change.
    pub fn publish(&mut self, kind: SegmentKind, segment: &(impl Slices + ?Sized)) -> Result<u64, PublishError> {
        let older = self.live.iter().filter(|other| kind == SegmentKind::Job && other.segment.kind == kind);
        let replaces = older.map(|other| (other.segment.order, other.segment.order)).reduce(|a, b| (a.0, b.1));
        self.publish_entry(kind, segment, replaces)
    }

    /// As [`Publisher::publish`] for a job segment, unless the live one is the same: readers notice nothing then.
    ///
    /// # Errors
    /// As [`Publisher::publish`].
    pub fn publish_changed_job(&mut self, segment: &(impl Slices + ?Sized)) -> Result<u64, PublishError> {
        let header = segment.slices().next().and_then(RawHeader::read);
        let hash = header.map(|header| header.content_hash);
        let is_same = |live: &Published| live.segment.kind == SegmentKind::Job && Some(live.content_hash) == hash;
        if self.live.iter().any(is_same) { Ok(self.count) } else { self.publish(SegmentKind::Job, segment) }
    }

    /// Writes a segment that contains all values of the live segments of its kind with these orders, and publishes it in their
    /// place. Orders are those of [`Publisher::live`]. The files of the replaced segments are removed.
    ///
    /// # Errors
    /// A file that could not be written, or a range without a live segment.
    pub fn publish_replacing(
        &mut self,
        kind: SegmentKind,
        segment: &(impl Slices + ?Sized),
        orders: RangeInclusive<u64>,
    ) -> Result<u64, PublishError> {
        let (first, last) = (*orders.start(), *orders.end());
        let is_there = |live: &Published| live.segment.kind == kind && orders.contains(&live.segment.order);
        if !self.live.iter().any(is_there) {
            return Err(PublishError::Range { first, last });
        }
        self.publish_entry(kind, segment, Some((first, last)))
    }

    /// The live segments, oldest first.
    pub fn live(&self) -> impl Iterator<Item = LiveSegment> {
        self.live.iter().map(|live| live.segment)
    }

    /// The inner directory: `PMIX_DSTORE_SEGMENTS` of the clients.
    pub fn directory(&self) -> &Path {
        &self.path
    }

    /// The identity of that directory: `PMIX_DSTORE_INODE` of the clients.
    pub fn directory_id(&self) -> FileId {
        self.inner_id
    }

    /// The inner directory, to make the server's socket in it.
    pub fn dir_fd(&self) -> BorrowedFd<'_> {
        self.inner.as_fd()
    }

    /// Whether this process has it; a forked child has but a copy.
    pub fn is_of_this_process(&self) -> bool {
        self.pid == std::process::id()
    }

    /// Entries published so far.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Bytes of the live segments.
    pub fn bytes_live(&self) -> u64 {
        self.live.iter().map(|live| live.segment.len).sum()
    }

    /// Registers a file that the server made in the inner directory, its socket for example, for removal at the end.
    ///
    /// # Errors
    /// The file does not exist.
    pub fn adopt(&mut self, name: &str) -> Result<(), PublishError> {
        file_ban::check();
        let stat = fstatat(&self.inner, name, AtFlags::AT_SYMLINK_NOFOLLOW).map_err(|errno| PublishError::Io {
            action: "stat",
            path: self.path.join(name),
            error: errno.into(),
        })?;
        self.others.push((name.to_owned(), FileId::from(&stat)));
        Ok(())
    }

    /// Marks the namespace as ended for readers, and removes our own files and directories. Mappings of readers stay valid.
    pub fn retire(self) {
        drop(self);
    }

    fn publish_entry(
        &mut self,
        kind: SegmentKind,
        segment: &(impl Slices + ?Sized),
        replaces: Option<(u64, u64)>,
    ) -> Result<u64, PublishError> {
        file_ban::check();
        let len = segment.total_len() as u64;
        let header = segment.slices().next().and_then(RawHeader::read);
        let header = header.ok_or(PublishError::NotASegment(SegmentError::Short { len }))?;
        let found = header.check(segment).map_err(PublishError::NotASegment)?;
        if found != kind {
            return Err(PublishError::NotASegment(SegmentError::Kind { found: found as u32 }));
        }
        if header.nspace != self.nspace.as_bytes() {
            return Err(PublishError::NotASegment(SegmentError::OtherNspace));
        }
        self.make_room()?;
        let name = segment_name(self.next_file);
        let (_, id) = self.write_file(&name, segment)?;
        let index = self.count;
        let order = match replaces {
            // Segments newer than the replaced ones stay newer than the new one.
            Some((_, last)) if self.live.iter().any(|l| l.segment.kind == kind && l.segment.order > last) => last,
            _ => index,
        };
        let (file, content_hash) = (self.next_file, header.content_hash);
        let entry = Entry { kind, file, len, content_hash, order, replaces, is_carried: false };
        self.next_file += 1;
        let written = self.pages.write_entry(index, &entry).and_then(|()| self.pages.publish(index + 1));
        if let Err(error) = written {
            remove(&self.inner, &name, id, UnlinkatFlags::NoRemoveDir);
            return Err(self.page_error(index / PAGE_CAPACITY, error));
        }
        self.count += 1;
        let (replaced, mut live): (Vec<_>, Vec<_>) =
            self.live.drain(..).partition(|other| entry.does_replace(other.segment.kind, other.segment.order));
        live.push(Published { segment: LiveSegment { kind, order, len }, file, name, id, content_hash });
        live.sort_by_key(|live| live.segment.order);
        self.live = live;
        // Only now, when readers can find the data in the new segment.
        for old in replaced {
            remove(&self.inner, &old.name, old.id, UnlinkatFlags::NoRemoveDir);
        }
        Ok(self.count)
    }

    /// Makes a page for the next entry if it needs one, and carries the live segments over to it if that is due.
    fn make_room(&mut self) -> Result<(), PublishError> {
        let number = self.count / PAGE_CAPACITY;
        let kept = number - self.pages.first;
        if kept >= PAGES_MAX || self.count > ENTRIES_MAX {
            return Err(PublishError::TooManyEntries);
        }
        if number == self.pages.next {
            self.add_page()?;
        }
        let is_begun = !self.count.is_multiple_of(PAGE_CAPACITY);
        if is_begun || kept < PAGES_KEPT || self.live.is_empty() || self.live.len() as u64 > CARRIED_MAX {
            return Ok(());
        }
        Self::CARRYING.iter().try_for_each(|step| step(self))
    }

    /// The steps by which a page becomes the first one that readers need. After each of them, readers of either page find all values, and
    /// a server that is started in place of this one goes on.
    pub(super) const CARRYING: [CarryingStep; 4] =
        [Publisher::write_carried, Publisher::count_carried, Publisher::store_first, Publisher::remove_pages];

    /// Writes an entry for each live segment at the beginning of the newest page.
    fn write_carried(&mut self) -> Result<(), PublishError> {
        for (index, live) in (self.count..).zip(&self.live) {
            let LiveSegment { kind, order, len } = live.segment;
            let (file, content_hash) = (live.file, live.content_hash);
            let entry = Entry { kind, file, len, content_hash, order, replaces: None, is_carried: true };
            let written = self.pages.write_entry(index, &entry);
            written.map_err(|error| self.page_error(index / PAGE_CAPACITY, error))?;
        }
        Ok(())
    }

    /// Publishes them, all at once: a reader that begins with their page finds all of them.
    fn count_carried(&mut self) -> Result<(), PublishError> {
        let count = self.count + self.live.len() as u64;
        self.pages.publish(count).map_err(|error| self.page_error(0, error))?;
        self.count = count;
        Ok(())
    }

    /// Makes the newest page the first one that readers need.
    fn store_first(&mut self) -> Result<(), PublishError> {
        let number = self.pages.next - 1;
        self.pages.zero().and_then(|page| page.begin_at(number)).map_err(|error| self.page_error(0, error))?;
        self.pages.first = number;
        Ok(())
    }

    /// Removes the pages that no reader needs. Page 0 stays.
    #[expect(
        clippy::unnecessary_wraps,
        reason = "a step of carrying over; what cannot be removed is tried again at the end"
    )]
    fn remove_pages(&mut self) -> Result<(), PublishError> {
        let kept = [0, self.pages.next - 1].map(page_name);
        let inner = &self.inner;
        before_removal();
        self.others.retain(|(name, id)| {
            let is_old = name.starts_with(PAGE_PREFIX) && !kept.contains(name);
            !(is_old && remove(inner, name, *id, UnlinkatFlags::NoRemoveDir))
        });
        Ok(())
    }

    fn page_error(&self, number: u64, error: std::io::Error) -> PublishError {
        PublishError::Io { action: "write", path: self.path.join(page_name(number)), error }
    }

    /// Makes the next page's file.
    pub(super) fn add_page(&mut self) -> Result<(), PublishError> {
        let number = self.pages.next;
        let name = page_name(number);
        let (file, id) = self.write_file(&name, &PageWriter::image(&self.nspace, number))?;
        match PageWriter::new(file) {
            Ok(page) => {
                self.pages.add(number, page);
                self.others.push((name, id));
                Ok(())
            }
            Err(error) => {
                remove(&self.inner, &name, id, UnlinkatFlags::NoRemoveDir);
                Err(PublishError::Io { action: "open", path: self.path.join(name), error })
            }
        }
    }

    /// Writes a new file of the inner directory; a file that could not be written whole is removed.
    fn write_file(&self, name: &str, bytes: &(impl Slices + ?Sized)) -> Result<(File, FileId), PublishError> {
        file_ban::check();
        let needed = bytes.total_len() as u64;
        check_length(needed).map_err(|error| self.write_error(name, 0, needed, error))?;
        let path = || self.path.join(name);
        let io = |action, error: std::io::Error| PublishError::Io { action, path: path(), error };
        let flags = OFlag::O_RDWR | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let fd = openat(&self.inner, name, flags, Mode::from_bits_truncate(0o600));
        let fd = fd.map_err(|errno| self.write_error(name, 0, needed, errno.into()))?;
        let stat = fstat(&fd).map_err(|errno| io("stat", errno.into()))?;
        let id = FileId::from(&stat);
        let mut file = File::from(fd);
        let written = write_all(&mut file, bytes)
            .map_err(|(written, error)| self.write_error(name, written, needed, error))
            .and_then(|()| {
                // On the descriptor, because the host's umask must not apply.
                fchmod(&file, Mode::from_bits_truncate(0o444)).map_err(|errno| io("set mode of", errno.into()))
            });
        match written {
            Ok(()) => Ok((file, id)),
            Err(error) => {
                remove(&self.inner, name, id, UnlinkatFlags::NoRemoveDir);
                Err(error)
            }
        }
    }

    fn write_error(&self, name: &str, written: u64, needed: u64, error: std::io::Error) -> PublishError {
        let path = self.path.join(name);
        let is_full = matches!(error.raw_os_error(), Some(libc::ENOSPC | libc::EDQUOT | libc::EFBIG))
            || error.kind() == ErrorKind::WriteZero;
        if !is_full {
            return PublishError::Io { action: "write", path, error };
        }
        let free = fstatvfs(&self.inner).map_or(0, |stat| stat.blocks_available() * stat.fragment_size());
        // Removing this file frees the bytes already written to it.
        PublishError::Full { path, needed, free: free + written, error }
    }
}

impl Drop for Publisher {
    fn drop(&mut self) {
        // A child that was forked without exec has a copy of this publisher; the directory does not belong to it.
        if self.is_retired || self.pid != std::process::id() {
            return;
        }
        file_ban::check();
        self.is_retired = true;
        if let Some(page) = &self.pages.zero {
            // A failure is ignored: readers notice that the files are gone.
            let _ = page.retire();
        }
        for live in &self.live {
            remove(&self.inner, &live.name, live.id, UnlinkatFlags::NoRemoveDir);
        }
        for (name, id) in &self.others {
            remove(&self.inner, name, *id, UnlinkatFlags::NoRemoveDir);
        }
        remove(&self.outer, INNER_NAME, self.inner_id, UnlinkatFlags::RemoveDir);
        if !remove(&self.tmpdir, &self.outer_name, self.outer_id, UnlinkatFlags::RemoveDir) {
            rank_file::remove_files(self.outer.as_fd());
            remove(&self.tmpdir, &self.outer_name, self.outer_id, UnlinkatFlags::RemoveDir);
        }
    }
}

/// Writes everything; an error comes with the number of bytes that were written before it.
fn write_all(file: &mut File, bytes: &(impl Slices + ?Sized)) -> Result<(), (u64, std::io::Error)> {
    /// Maximum number of pieces in one system call.
    const AT_ONCE: usize = 1024;
    let mut written = 0;
    let mut slices = bytes.slices().filter(|slice| !slice.is_empty()).map(IoSlice::new).peekable();
    let mut room = [IoSlice::new(&[]); AT_ONCE];
    while slices.peek().is_some() {
        let mut count = 0;
        while count < AT_ONCE
            && let Some(slice) = slices.next()
        {
            room[count] = slice;
            count += 1;
        }
        let mut left = &mut room[..count];
        while !left.is_empty() {
            match file.write_vectored(left) {
                Ok(0) => return Err((written, ErrorKind::WriteZero.into())),
                Ok(len) => {
                    written += len as u64;
                    IoSlice::advance_slices(&mut left, len);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err((written, error)),
            }
        }
    }
    Ok(())
}

/// Whether an error is that of a file system without locks.
fn has_no_locks(error: &std::io::Error) -> bool {
    matches!(error.raw_os_error().map(Errno::from_raw), Some(Errno::ENOSYS | Errno::ENOLCK | Errno::EOPNOTSUPP))
}

/// Makes and opens the outer directory, and locks it for as long as it is open: so other processes know that its server lives. `make` is
/// [`mkdirat_private`], or a test's function.
fn make_outer(
    tmpdir: &OwnedFd,
    path: &Path,
    nspace: &Nspace,
    make: impl Fn(&OwnedFd, &str) -> Result<(), Errno>,
) -> Result<(String, OwnedFd, FileId), PublishError> {
    for _ in 0..ATTEMPTS {
        let name = unused_name(nspace);
        let failed = |action, error| PublishError::Io { action, path: path.join(&name), error };
        let make_failed = |errno: Errno| failed("make directory", errno.into());
        make(tmpdir, &name).map_err(make_failed)?;
        // Until it is locked, another process may take it for one that is left, and remove it.
        let (outer, id) = match open_made(tmpdir, &name, 0o700) {
            Err(Errno::ENOENT) => continue,
            made => made.map_err(make_failed)?,
        };
        match outer.try_clone().and_then(lock) {
            Ok(Some(outer)) => return Ok((name, outer, id)),
            Ok(None) => drop(remove(tmpdir, &name, id, UnlinkatFlags::RemoveDir)),
            // Nobody else gets a lock there either, and without one nobody removes it.
            Err(error) if has_no_locks(&error) => return Ok((name, outer, id)),
            Err(error) => {
                remove(tmpdir, &name, id, UnlinkatFlags::RemoveDir);
                return Err(failed("lock", error));
            }
        }
    }
    let error = std::io::Error::other("another process removes it each time");
    Err(PublishError::Io { action: "make directory", path: path.join(OUTER_PREFIX), error })
}

/// A name for the outer directory: a hash of the namespace, which may contain any byte, and a hash of process and time. Neither a
/// second server nor an earlier namespace of the same name has the same one.
fn unused_name(nspace: &Nspace) -> String {
    static SERIAL: AtomicU64 = AtomicU64::new(0);
    let mut seed = Vec::with_capacity(40);
    seed.extend_from_slice(&std::process::id().to_le_bytes());
    seed.extend_from_slice(&SERIAL.fetch_add(1, Ordering::Relaxed).to_le_bytes());
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    seed.extend_from_slice(&since.as_nanos().to_le_bytes());
    format!("{OUTER_PREFIX}{:016x}-{:016x}", xxh3_64(nspace.as_bytes()), xxh3_64(&seed))
}

/// Makes a directory and opens it; nothing is left behind on failure.
fn make_directory(parent: &OwnedFd, name: &str, mode: u32) -> Result<(OwnedFd, FileId), Errno> {
    mkdirat_private(parent, name)?;
    open_made(parent, name, mode)
}

/// Makes a directory with mode 0700, so that no other user can enter before it is complete.
fn mkdirat_private(parent: &OwnedFd, name: &str) -> Result<(), Errno> {
    file_ban::check();
    mkdirat(parent, name, Mode::from_bits_truncate(0o700))
}

/// Opens the directory that this process has just made, and sets its mode; removes it on failure.
fn open_made(parent: &OwnedFd, name: &str, mode: u32) -> Result<(OwnedFd, FileId), Errno> {
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let made = openat(parent, name, flags, Mode::empty()).and_then(|fd| {
        let stat = fstat(&fd)?;
        if stat.st_uid != geteuid().as_raw() || kind_of(&stat) != SFlag::S_IFDIR {
            return Err(Errno::EPERM);
        }
        fchmod(&fd, Mode::from_bits_truncate(mode))?;
        Ok((fd, FileId::from(&stat)))
    });
    if made.is_err() {
        // It removes an empty directory only, so no data are lost even if the directory is another one.
        let _ = unlinkat(parent, name, UnlinkatFlags::RemoveDir);
    }
    made
}

/// Removes a file or directory if its name still refers to the one that we made. Returns whether it did: nothing but a directory that is
/// not empty depends on that.
pub(super) fn remove(parent: &OwnedFd, name: &str, id: FileId, flags: UnlinkatFlags) -> bool {
    file_ban::check();
    let name = OsStr::from_bytes(name.as_bytes());
    let is_ours = fstatat(parent, name, AtFlags::AT_SYMLINK_NOFOLLOW).is_ok_and(|stat| FileId::from(&stat) == id);
    is_ours && unlinkat(parent, name, flags).is_ok()
}

/// The name of the directory's file system type, if it is a network file system.
fn network_file_system(directory: &OwnedFd) -> Option<&'static str> {
    let kind = fstatfs(directory).ok()?.filesystem_type().0;
    network_file_system_name(kind as u32)
}

/// File systems whose mappings other nodes can change, or that give no guarantee about mappings.
fn network_file_system_name(magic: u32) -> Option<&'static str> {
    Some(match magic {
        0x6969 => "NFS",
        0x517b => "SMB",
        0xfe53_4d42 => "SMB2",
        0xff53_4d42 => "CIFS",
        0x0bd0_0bd0 => "Lustre",
        0x4750_4653 => "GPFS",
        0x1983_0326 => "BeeGFS",
        0x00c3_6400 => "Ceph",
        0x5346_414f => "AFS",
        0x7375_7245 => "Coda",
        0xaad7_aaea => "PanFS",
        0x2003_0528 => "OrangeFS",
        0x0102_1997 => "9P",
        0x0116_1970 => "GFS2",
        0x7461_636f => "OCFS2",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::model::{Key, KeyRef, Rank, Value};
    use crate::segment::{Directory, ModexBuilder, NamespaceView};

    #[test]
    fn network_file_systems_are_told_from_local_ones() {
        let local = [libc::TMPFS_MAGIC, libc::EXT4_SUPER_MAGIC, libc::XFS_SUPER_MAGIC, libc::OVERLAYFS_SUPER_MAGIC];
        assert!(local.iter().all(|magic| network_file_system_name(*magic as u32).is_none()));
        assert_eq!(network_file_system_name(libc::NFS_SUPER_MAGIC as u32), Some("NFS"));
        assert_eq!(network_file_system_name(libc::SMB_SUPER_MAGIC as u32), Some("SMB"));
    }

    #[test]
    fn the_last_entries_of_a_directory_are_found_and_then_it_is_full() {
        let tmp = tempfile::tempdir().expect("a temporary directory");
        let nspace = Nspace::new("job").expect("a short namespace");
        let segment = |number: u32| {
            let value = Value::Uint32(number);
            let mut builder = ModexBuilder::new(nspace.clone());
            builder.add(Rank(0), &Key::from("key"), &value).expect("a number");
            builder.finish("test").expect("a segment")
        };
        let mut publisher = Publisher::create(tmp.path(), &nspace, None).expect("a directory");
        publisher.publish(SegmentKind::Modex, &segment(0)).expect("room");
        // As after so many publications.
        let number = ENTRIES_MAX / PAGE_CAPACITY;
        publisher.count = number * PAGE_CAPACITY;
        (publisher.pages.next, publisher.pages.first) = (number, number - PAGES_KEPT);
        let mut view: Option<NamespaceView> = None;
        let refused = (1..).try_for_each(|number| {
            let newest = publisher.live().last().expect("it is live").order;
            publisher.publish_replacing(SegmentKind::Modex, &segment(number), newest..=newest)?;
            let view = view.get_or_insert_with(|| {
                let directory = Directory::open(publisher.directory(), publisher.directory_id()).expect("our own");
                NamespaceView::attach(directory).expect("the page is good")
            });
            let found = view.modex(Rank(0), &KeyRef::from("key")).and_then(|value| value.as_u32());
            assert_eq!((found, view.is_complete()), (Some(number), true), "{:?}", view.last_error());
            Ok(())
        });
        assert!(matches!(refused, Err(PublishError::TooManyEntries)), "{refused:?}");
        assert!(publisher.count() > ENTRIES_MAX && publisher.count() <= u32::MAX.into(), "{}", publisher.count());
        // Too many pages that are needed, of few entries.
        publisher.count = PAGES_MAX * PAGE_CAPACITY;
        publisher.pages.first = 0;
        let refused = publisher.publish(SegmentKind::Modex, &segment(0));
        assert!(matches!(refused, Err(PublishError::TooManyEntries)), "{refused:?}");
    }

    #[test]
    fn a_directory_that_is_removed_before_it_is_opened_is_made_again() {
        let tmp = tempfile::tempdir().expect("a temporary directory");
        let tmpdir = OwnedFd::from(std::fs::File::open(tmp.path()).expect("it is there"));
        let nspace = Nspace::new("job").expect("a short namespace");
        let make = |removals: u32| {
            let left = Cell::new(removals);
            make_outer(&tmpdir, tmp.path(), &nspace, |parent, name| {
                mkdirat_private(parent, name)?;
                match left.replace(left.get().saturating_sub(1)) {
                    0 => Ok(()),
                    // As another server that starts, and takes it for one that is left.
                    _ => unlinkat(parent, name, UnlinkatFlags::RemoveDir),
                }
            })
        };
        let (name, ..) = make(ATTEMPTS - 1).expect("a directory");
        assert!(tmp.path().join(name).is_dir());
        let refused = make(ATTEMPTS).expect_err("no directory stays").to_string();
        assert!(refused.contains("another process removes it each time"), "{refused}");
    }
}
