//! What launchers that were killed have left: found and removed by the next one.
//!
//! A number in a name proves nothing, since numbers come again. So each launcher holds a lock on a file in its directory
//! for as long as it lives; the kernel ends the lock with the process, however that ends. The file gets its name when it
//! is locked, so that one under that name without a lock is a dead launcher's. The name holds the machine's boot: on a file
//! system that other machines share, a lock may not tell us of theirs. The file is empty, as there may be room for none.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::fcntl::{Flock, FlockArg, OFlag};
use nix::unistd::{UnlinkatFlags, geteuid, unlinkat};

/// What the names of launchers' directories begin with.
pub(super) const PREFIX: &str = "pmixrun.";

/// Shows that the launcher of a directory lives.
pub(super) struct Alive {
    _lock: Flock<File>,
    lock_name: String,
}

impl Alive {
    /// Begins with the new directory `top`.
    pub fn begin(top: &Path) -> io::Result<Alive> {
        let unlocked = top.join("launcher.new");
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&unlocked)?;
        let lock = Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|(_, error)| error)?;
        let lock_name = lock_name()?;
        fs::rename(&unlocked, top.join(&lock_name))?;
        Ok(Alive { _lock: lock, lock_name })
    }

    /// Removes the directory `top`. What cannot be removed, or is not because the launcher is killed, is the next one's.
    pub fn end(&self, top: &Path) -> io::Result<()> {
        match empty(&open(top, OFlag::O_DIRECTORY)?, &self.lock_name) {
            // Somebody has removed the file with the lock.
            Err(error) if error.kind() == io::ErrorKind::NotFound => fs::remove_dir_all(top),
            Err(error) => Err(error),
            Ok(()) => fs::remove_dir(top),
        }
    }
}

/// Removes the directories in `tmpdir` whose launchers were this user's, on this machine, and are dead. What cannot be
/// looked at or removed stays.
pub(super) fn sweep(tmpdir: &Path) {
    let Ok(lock_name) = lock_name() else { return };
    let Ok(parent) = open(tmpdir, OFlag::O_DIRECTORY) else { return };
    for entry in fs::read_dir(tmpdir).into_iter().flatten().flatten() {
        let name = entry.file_name();
        if is_ours(&name)
            && let Ok(top) = open(&tmpdir.join(&name), OFlag::O_DIRECTORY)
            && let Ok(_lock) = lock_of_the_dead(&top, &lock_name)
            && empty(&top, &lock_name).is_ok()
        {
            // Removes nothing but an empty directory, whatever has this name by now.
            let _ = unlinkat(&parent, name.as_os_str(), UnlinkatFlags::RemoveDir);
        }
    }
}

/// Whether a name is that of a launcher's directory: the prefix and two numbers.
fn is_ours(name: &OsStr) -> bool {
    let numbers = name.to_str().and_then(|name| name.strip_prefix(PREFIX)).and_then(|rest| rest.split_once('.'));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    numbers.is_some_and(|(pid, number)| is_number(pid) && is_number(number))
}

/// The lock of a directory whose launcher is dead, so that no other sweeps it meanwhile.
fn lock_of_the_dead(top: &File, lock_name: &str) -> io::Result<Flock<File>> {
    let file = open(&inside(top).join(lock_name), OFlag::O_NONBLOCK)?;
    for (file, is_kind) in [(top, fs::Metadata::is_dir as fn(&fs::Metadata) -> bool), (&file, fs::Metadata::is_file)] {
        let status = file.metadata()?;
        if status.uid() != geteuid().as_raw() || !is_kind(&status) {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
    }
    Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|(_, error)| error.into())
}

/// Removes what is in a directory, the file with the lock last: who is killed here leaves the rest to the next.
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

/// The path of an open directory, which others cannot make to mean another one.
fn inside(directory: &File) -> PathBuf {
    format!("/proc/self/fd/{}", directory.as_fd().as_raw_fd()).into()
}

fn open(path: &Path, flags: OFlag) -> io::Result<File> {
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

    #[test]
    fn only_what_the_dead_have_left_goes() {
        let tmpdir = tempfile::tempdir().unwrap();
        let make = |name: &str| {
            let top = tmpdir.path().join(name);
            fs::create_dir_all(top.join("job/0")).unwrap();
            fs::write(top.join("job/0/file"), "").unwrap();
            top
        };
        let dead = make("pmixrun.1.0");
        drop(Alive::begin(&dead).unwrap());
        symlink(tmpdir.path(), dead.join("job/link")).unwrap();
        let alive = make("pmixrun.4194304.0");
        let lock = Alive::begin(&alive).unwrap();
        let others = [
            make("pmixrun.2.0"),
            make("pmixrun.3"),
            make("pmixrun.notes.0"),
            make("elsewhere"),
            make("pmixrun.5.0"),
            make("pmixrun.6.0"),
            make("pmixrun.7.0"),
        ];
        for other in &others[1..4] {
            drop(Alive::begin(other).unwrap());
        }
        // Of another machine; of one that was being made; a link to what is dead.
        let lock_name = lock_name().unwrap();
        fs::write(others[4].join("launcher.00000000-0000-0000-0000-000000000000"), "").unwrap();
        fs::write(others[5].join("launcher.new"), "").unwrap();
        symlink(others[3].join(&lock_name), others[6].join(&lock_name)).unwrap();
        symlink(&others[3], tmpdir.path().join("pmixrun.8.0")).unwrap();
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
}
