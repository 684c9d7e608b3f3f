//! Directories of killed launchers.
//!
//! A name proves nothing: names recur, and other users can choose them. So each launcher holds a lock on a file in its
//! directory while it lives. The kernel releases the lock when the process ends, in whichever way. The file's name
//! contains the machine's boot ID: on a shared file system the locks of another machine may not be visible. The file is
//! empty, because the file system may be full.
//!
//! A launcher may be killed before it has the lock, or the file. So an empty directory and an unlocked file mean a
//! dead launcher, too. A living launcher that is about to take its lock detects that its directory was removed, and starts
//! over with another directory.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::unistd::{UnlinkatFlags, geteuid, unlinkat};

/// Prefix of the names of launchers' directories.
const PREFIX: &str = "pmixrun.";
/// The number of digits after the prefix.
const NAME_DIGITS: usize = 16;

/// A random name, so that no other user can create it first.
pub fn new_name() -> String {
    // The standard library's hashers have keys that come from the system's random numbers.
    format!("{PREFIX}{:0NAME_DIGITS$x}", RandomState::new().build_hasher().finish())
}

/// An exclusive lock of a file, held until this is dropped, even if a forked process has the file open, too.
struct Lock(File);

impl Drop for Lock {
    fn drop(&mut self) {
        // An open file that is locked can be unlocked.
        let _ = self.0.unlock();
    }
}

/// The lock that shows that the launcher of a directory lives.
pub struct Alive {
    lock: Lock,
    lock_name: String,
}

impl Alive {
    /// Locks the new directory `top`. `None` if another process took it for a dead launcher's directory and removes
    /// it.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn begin(top: &Path) -> io::Result<Option<Alive>> {
        let lock_name = lock_name()?;
        let file = match OpenOptions::new().write(true).create_new(true).mode(0o600).open(top.join(&lock_name)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file?,
        };
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(error),
            Ok(()) => {}
        }
        let lock = Lock(file);
        // A sweeper that considers this launcher dead removes the file with the lock held.
        let is_there = lock.0.metadata()?.nlink() > 0;
        Ok(is_there.then_some(Alive { lock, lock_name }))
    }

    /// The lock for a process that works in the directory for this launcher: while that one has it, nobody takes the launcher for dead.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn share(&self) -> io::Result<OwnedFd> {
        self.lock.0.as_fd().try_clone_to_owned()
    }

    /// Removes an unfinished directory `top`. Uses no descriptor, because none may be left.
    pub fn undo(top: &Path) {
        let _ = lock_name().and_then(|lock_name| fs::remove_file(top.join(lock_name)));
        let _ = fs::remove_dir(top);
    }

    /// Removes the directory `top`. The next launcher removes the rest if this fails.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn end(&self, top: &Path) -> io::Result<()> {
        match empty(&open(top, OFlag::O_DIRECTORY)?, &self.lock_name) {
            // Another process has removed the lock file.
            Err(error) if error.kind() == io::ErrorKind::NotFound => fs::remove_dir_all(top),
            Err(error) => Err(error),
            Ok(()) => fs::remove_dir(top),
        }
    }
}

/// Removes the directory `name` in the launcher's own directory `top`. Where other users may rename `top` they cannot lead this elsewhere:
/// links are not followed.
///
/// # Errors
/// Errors of the system.
pub fn remove_in(top: &Path, name: &OsStr) -> io::Result<()> {
    let top = open(top, OFlag::O_DIRECTORY)?;
    fs::remove_dir_all(inside(&top).join(name))
}

/// Removes the directory of a launcher that is ending: waits until the launcher releases its lock.
pub fn remove(top: &Path) {
    if let (Some(tmpdir), Some(name)) = (top.parent(), top.file_name())
        && let Ok(tmpdir) = open(tmpdir, OFlag::O_DIRECTORY)
        && let Ok(Some(dead)) = Dead::find(&tmpdir, name, File::lock)
    {
        // The next launcher tries again, and reports.
        let _ = dead.remove(&tmpdir, name);
    }
}

/// The directory of a dead launcher. Nobody else removes it while this lives.
pub(super) struct Dead {
    top: File,
    lock_name: String,
    /// `None` in an empty directory: the launcher was killed before it had the lock.
    lock: Option<Lock>,
}

impl Dead {
    /// The directory of this name; `None` if its launcher lives, or if it is no directory of a launcher of this user in this boot of this machine.
    /// `lock` takes the launcher's lock, and waits for it or does not.
    ///
    /// # Errors
    /// Why it is not touched, though it is this user's.
    pub fn find(parent: &File, name: &OsStr, lock: impl FnOnce(&File) -> io::Result<()>) -> io::Result<Option<Dead>> {
        let lock_name = lock_name()?;
        let path = inside(parent).join(name);
        let own = geteuid().as_raw();
        let top = match open(&path, OFlag::O_DIRECTORY) {
            Err(_) if path.symlink_metadata().is_ok_and(|found| found.uid() == own && !found.is_dir()) => {
                return Err(io::Error::new(io::ErrorKind::PermissionDenied, "it is no directory"));
            }
            // Another user's may be anything.
            Err(error) if is_of_others(&error) => return Ok(None),
            top => top?,
        };
        if top.metadata()?.uid() != own {
            return Ok(None);
        }
        match lock_of_the_dead(&top, &lock_name, lock) {
            Ok(lock) => Ok(Some(Dead { top, lock_name, lock: Some(lock) })),
            // The holder of the lock is a living launcher, or removes the directory.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let is_empty = fs::read_dir(inside(&top))?.next().is_none();
                Ok(is_empty.then_some(Dead { top, lock_name, lock: None }))
            }
            Err(error) => Err(error),
        }
    }

    /// Removes it from `parent`.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn remove(self, parent: &File, name: &OsStr) -> io::Result<()> {
        if self.lock.is_some() {
            empty(&self.top, &self.lock_name)?;
        }
        // Removes only an empty directory, even if another file has this name by now.
        Ok(unlinkat(parent, name, UnlinkatFlags::RemoveDir)?)
    }
}

/// Whether a name has the form of [`new_name`].
pub(super) fn is_name(name: &OsStr) -> bool {
    let digits = name.to_str().and_then(|name| name.strip_prefix(PREFIX)).unwrap_or_default();
    digits.len() == NAME_DIGITS && digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Takes the lock of a dead launcher's directory, so that no other process sweeps it at the same time.
fn lock_of_the_dead(top: &File, lock_name: &str, lock: impl FnOnce(&File) -> io::Result<()>) -> io::Result<Lock> {
    let file = open(&inside(top).join(lock_name), OFlag::O_NONBLOCK)?;
    for (file, is_kind) in [(top, fs::Metadata::is_dir as fn(&fs::Metadata) -> bool), (&file, fs::Metadata::is_file)] {
        let status = file.metadata()?;
        if status.uid() != geteuid().as_raw() || !is_kind(&status) {
            let why = "its lock is no file of this user's";
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
        }
    }
    lock(&file)?;
    Ok(Lock(file))
}

/// Removes the contents of a directory, the lock file last: if this process is killed here, the next launcher continues.
fn empty(top: &File, lock_name: &str) -> io::Result<()> {
    let path = inside(top);
    for entry in fs::read_dir(&path)? {
        let entry = entry?;
        if entry.file_name() == lock_name {
            continue;
        }
        if entry.file_type()?.is_dir() { fs::remove_dir_all(entry.path())? } else { fs::remove_file(entry.path())? }
    }
    fs::remove_file(path.join(lock_name))
}

/// Whether an error is one of opening what another user has put under a launcher's name: nothing, a directory that is closed, a file, a link.
fn is_of_others(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error().map(Errno::from_raw),
        Some(Errno::ENOENT | Errno::EACCES | Errno::ENOTDIR | Errno::ELOOP)
    )
}

/// The path of an open directory. Other users cannot redirect it to another directory.
pub(super) fn inside(directory: &File) -> PathBuf {
    format!("/proc/self/fd/{}", directory.as_fd().as_raw_fd()).into()
}

pub(super) fn open(path: &Path, flags: OFlag) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags((flags | OFlag::O_NOFOLLOW).bits()).open(path)
}

/// The name of the file with the lock, in this boot of this machine.
fn lock_name() -> io::Result<String> {
    Ok(format!("launcher.{}", fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn sweep(tmpdir: &Path) {
        crate::leftovers::sweep(tmpdir, "here", None);
    }

    /// A directory name in our form that ends with `end`.
    fn name(end: &str) -> String {
        format!("{PREFIX}{end:0>NAME_DIGITS$}")
    }

    #[test]
    fn only_leftovers_of_dead_launchers_are_removed() {
        let tmpdir = tempfile::tempdir().unwrap();
        let make = |name: &str| {
            let top = tmpdir.path().join(name);
            fs::create_dir_all(top.join("job/0")).unwrap();
            fs::write(top.join("job/0/file"), "").unwrap();
            top
        };
        let begin = |top: &Path| Alive::begin(top).unwrap().unwrap();
        let dead = make(&new_name());
        drop(begin(&dead));
        symlink(tmpdir.path(), dead.join("job/link")).unwrap();
        let alive = make(&new_name());
        let lock = begin(&alive);
        let others = [
            make(&name("2")),
            make("pmixrun.3"),
            make("pmixrun.0000000notes0000"),
            make("elsewhere"),
            make(&name("5")),
            make(&name("7")),
        ];
        for other in &others[1..4] {
            drop(begin(other));
        }
        // Another machine's directory; a dangling link.
        let lock_name = lock_name().unwrap();
        fs::write(others[4].join("launcher.00000000-0000-0000-0000-000000000000"), "").unwrap();
        symlink(others[3].join(&lock_name), others[5].join(&lock_name)).unwrap();
        symlink(&others[3], tmpdir.path().join(name("8"))).unwrap();
        sweep(tmpdir.path());
        assert!(!dead.exists());
        assert!(alive.join("job/0/file").exists());
        for other in others {
            assert!(other.join("job/0/file").exists(), "{}", other.display());
        }
        drop(lock);
        sweep(tmpdir.path());
        assert!(!alive.exists());
    }

    #[test]
    fn launchers_that_were_killed_early_leave_nothing() {
        let tmpdir = tempfile::tempdir().unwrap();
        let make = || {
            let top = tmpdir.path().join(new_name());
            fs::create_dir(&top).unwrap();
            top
        };
        // One was killed before it made the file, one before it took the lock.
        let tops = [make(), make()];
        fs::write(tops[1].join(lock_name().unwrap()), "").unwrap();
        sweep(tmpdir.path());
        assert_eq!(fs::read_dir(tmpdir.path()).unwrap().count(), 0);
        // A living launcher then makes another directory.
        assert!(Alive::begin(&tops[0]).unwrap().is_none());
        let top = make();
        let alive = Alive::begin(&top).unwrap();
        sweep(tmpdir.path());
        assert!(top.exists() && alive.is_some());
        drop(alive);
        remove(&top);
        assert!(!top.exists());
    }

    #[test]
    fn a_directory_inside_is_not_removed_through_a_link() {
        let tmpdir = tempfile::tempdir().unwrap();
        let (top, other) = (tmpdir.path().join("top"), tmpdir.path().join("other"));
        fs::create_dir_all(other.join("job/0")).unwrap();
        symlink(&other, &top).unwrap();
        assert!(remove_in(&top, OsStr::new("job")).is_err());
        assert!(other.join("job/0").exists());
        remove_in(&other, OsStr::new("job")).unwrap();
        assert!(other.exists() && !other.join("job").exists());
    }

    #[test]
    fn a_lock_that_was_taken_first_is_another_ones() {
        let top = tempfile::tempdir().unwrap();
        let path = top.path().join(lock_name().unwrap());
        let begin = |top: &Path| Alive::begin(top).map(|alive| alive.is_some());
        // An existing lock file belongs to another launcher.
        fs::write(&path, "").unwrap();
        assert!(begin(top.path()).is_err());
        Alive::undo(top.path());
        assert!(!top.path().exists());
    }
}
