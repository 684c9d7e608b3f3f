//! Files to remove when a client ends: the clean-up directives of `PMIx_Job_control`.
//!
//! The paths come from a user, and the server may run as root. The user could exchange a path's components meanwhile, so
//! nothing is removed by path: parents are opened first, and their entries are examined and removed through the
//! descriptors. Links are not followed, and only the user's own files are removed. Root assumes the user's file system
//! identity for this, so that the kernel checks the user's permissions.

use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use nix::dir::Dir;
use nix::fcntl::{AtFlags, OFlag, open, openat};
use nix::sys::stat::{FileStat, Mode, SFlag, fstat, fstatat, stat};
use nix::unistd::{Gid, Uid, UnlinkatFlags, geteuid, setfsgid, setfsuid, unlinkat};
use pmix_dstore::model::{Info, Status, Value, keys};

/// Files and directories to remove, and paths to keep.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cleanup {
    files: Vec<PathBuf>,
    directories: Vec<Directory>,
    ignore: Vec<PathBuf>,
    /// There are other directives, too.
    pub says_more: bool,
}

#[derive(Clone, Debug)]
struct Directory {
    path: PathBuf,
    /// Its subdirectories too.
    recursive: bool,
    /// Keep the directory itself.
    keep_top: bool,
}

impl Cleanup {
    /// Reads the clean-up directives among `directives`.
    ///
    /// # Errors
    /// `BAD_PARAM` for a path that is not text or not absolute: the server's working directory is not the client's.
    pub fn read(directives: &[Info]) -> Result<Cleanup, Status> {
        const HOW: [&str; 2] = [keys::CLEANUP_RECURSIVE, keys::CLEANUP_LEAVE_TOPDIR];
        let [recursive, keep_top] = HOW.map(|key| Info::is_set(directives, key));
        let mut asked = Cleanup::default();
        for info in directives {
            if info.key.is(keys::REGISTER_CLEANUP) {
                asked.files.extend(paths(&info.value)?);
            } else if info.key.is(keys::REGISTER_CLEANUP_DIR) {
                let new = paths(&info.value)?.into_iter().map(|path| Directory { path, recursive, keep_top });
                asked.directories.extend(new);
            } else if info.key.is(keys::CLEANUP_IGNORE) {
                asked.ignore.extend(paths(&info.value)?);
            } else if !HOW.iter().any(|key| info.key.is(key)) {
                asked.says_more = true;
            }
        }
        Ok(asked)
    }

    /// Whether there are no directives.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many paths there are.
    pub fn len(&self) -> usize {
        self.files.len() + self.directories.len() + self.ignore.len()
    }

    /// Adds further directives; the later one about a directory counts.
    pub fn add(&mut self, other: &Cleanup) {
        for directory in &other.directories {
            self.directories.retain(|old| old.path != directory.path);
            self.directories.push(directory.clone());
        }
        for (mine, others) in [(&mut self.files, &other.files), (&mut self.ignore, &other.ignore)] {
            for path in others {
                if !mine.contains(path) {
                    mine.push(path.clone());
                }
            }
        }
    }

    /// Removes the files of the user `uid`; missing files are skipped.
    ///
    /// Failures are not reported: the client that could get them has ended.
    pub fn run(&self, uid: u32, gid: u32) {
        pmix_dstore::file_ban::check();
        let Some(_identity) = Identity::assume(uid, gid) else { return };
        for file in self.files.iter().filter(|file| !self.ignore.contains(file)) {
            if let Some((parent, name)) = parent_of(file)
                && status_in(&parent, name, uid).is_some_and(|stat| !is_directory(&stat))
            {
                let _ = unlinkat(&parent, name, UnlinkatFlags::NoRemoveDir);
            }
        }
        for directory in self.directories.iter().filter(|directory| !self.ignore.contains(&directory.path)) {
            let Some((parent, name)) = parent_of(&directory.path) else { continue };
            if self.empty(&parent, name, &directory.path, directory.recursive, uid, 0) && !directory.keep_top {
                let _ = unlinkat(&parent, name, UnlinkatFlags::RemoveDir);
            }
        }
    }

    /// Empties the user's directory `name` in `parent`; returns whether it is one. `path` is the user's path to it.
    fn empty(&self, parent: &OwnedFd, name: &OsStr, path: &Path, recursive: bool, uid: u32, depth: usize) -> bool {
        /// Directories nested deeper than this stay: each level holds a descriptor.
        const DEPTH_MAX: usize = 64;
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let Ok(directory) = openat(parent, name, flags, Mode::empty()) else { return false };
        if !fstat(&directory).is_ok_and(|stat| stat.st_uid == uid) {
            return false;
        }
        for name in names(&directory) {
            let (name, path) = (name.as_os_str(), path.join(&name));
            if self.ignore.contains(&path) {
                continue;
            }
            match status_in(&directory, name, uid) {
                Some(stat) if !is_directory(&stat) => {
                    let _ = unlinkat(&directory, name, UnlinkatFlags::NoRemoveDir);
                }
                Some(_)
                    if recursive
                        && depth < DEPTH_MAX
                        && self.empty(&directory, name, &path, recursive, uid, depth + 1) =>
                {
                    let _ = unlinkat(&directory, name, UnlinkatFlags::RemoveDir);
                }
                _ => {}
            }
        }
        true
    }
}

/// The comma-separated absolute paths of a directive.
fn paths(value: &Value) -> Result<Vec<PathBuf>, Status> {
    let text = value.as_text().ok_or(Status::ERR_BAD_PARAM)?;
    let paths = text.split(|byte| *byte == b',').filter(|path| !path.is_empty());
    let paths: Vec<PathBuf> = paths.map(|path| OsStr::from_bytes(path).into()).collect();
    if paths.iter().all(|path| path.is_absolute()) { Ok(paths) } else { Err(Status::ERR_BAD_PARAM) }
}

/// Opens the directory of `path`, and returns it with the name there.
fn parent_of(path: &Path) -> Option<(OwnedFd, &OsStr)> {
    let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    Some((open(path.parent()?, flags, Mode::empty()).ok()?, path.file_name()?))
}

/// The status of the entry `name`, if it belongs to the user.
fn status_in(parent: &OwnedFd, name: &OsStr, uid: u32) -> Option<FileStat> {
    fstatat(parent, name, AtFlags::AT_SYMLINK_NOFOLLOW).ok().filter(|stat| stat.st_uid == uid)
}

fn is_directory(stat: &FileStat) -> bool {
    SFlag::from_bits_truncate(stat.st_mode & SFlag::S_IFMT.bits()) == SFlag::S_IFDIR
}

/// The names in a directory, without itself and its parent.
fn names(directory: &OwnedFd) -> Vec<OsString> {
    let Some(mut entries) = directory.try_clone().ok().and_then(|fd| Dir::from_fd(fd).ok()) else { return Vec::new() };
    let names = entries.iter().flatten().map(|entry| entry.file_name().to_owned());
    let names = names.filter(|name| name.as_c_str() != c"." && name.as_c_str() != c"..");
    names.map(|name| OsStr::from_bytes(name.to_bytes()).to_owned()).collect()
}

/// The properties of a file that change with use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileState {
    pub size: i64,
    /// Seconds and nanoseconds.
    pub accessed: (i64, i64),
    pub modified: (i64, i64),
}

impl FileState {
    /// The state of a file as a user sees it; `None` if there is no file.
    pub fn of(path: &Path, uid: u32, gid: u32) -> Option<FileState> {
        pmix_dstore::file_ban::check();
        let _identity = Identity::assume(uid, gid)?;
        let stat = stat(path).ok()?;
        Some(FileState {
            size: stat.st_size,
            accessed: (stat.st_atime, stat.st_atime_nsec),
            modified: (stat.st_mtime, stat.st_mtime_nsec),
        })
    }
}

/// The file system identity of the calling thread, while it is another user's.
struct Identity {
    before: Option<(Uid, Gid)>,
}

impl Identity {
    /// Takes on the user's identity where this process is root and the user is not; other processes act as themselves.
    fn assume(uid: u32, gid: u32) -> Option<Identity> {
        if !geteuid().is_root() || uid == 0 {
            return Some(Identity { before: None });
        }
        // Each call returns the earlier id, even if it changed nothing; only a second call shows the present one.
        let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
        let before = (setfsgid(gid), setfsuid(uid));
        let identity = Identity { before: Some((before.1, before.0)) };
        let unchanged = || (setfsuid(Uid::from_raw(u32::MAX)), setfsgid(Gid::from_raw(u32::MAX)));
        (unchanged() == (uid, gid)).then_some(identity)
    }
}

impl Drop for Identity {
    fn drop(&mut self) {
        if let Some((uid, gid)) = self.before {
            setfsuid(uid);
            setfsgid(gid);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};

    use super::*;
    use crate::left_out::left_out;

    const NOBODY: u32 = 65_534;

    fn directives(dir: &Path, others: &[(&'static str, bool)]) -> Vec<Info> {
        let text = dir.as_os_str().as_encoded_bytes();
        let mut infos = vec![Info::new(keys::REGISTER_CLEANUP_DIR, Value::string(text))];
        infos.extend(others.iter().map(|(key, value)| Info::new(*key, Value::Bool(*value))));
        infos
    }

    fn us() -> (u32, u32) {
        (geteuid().as_raw(), nix::unistd::getegid().as_raw())
    }

    #[test]
    fn directories_go_as_far_as_was_asked() {
        let top = tempfile::tempdir().unwrap();
        let dir = top.path().join("dir");
        let make = || {
            fs::create_dir_all(dir.join("a/b")).unwrap();
            fs::write(dir.join("a/b/file"), "").unwrap();
            fs::write(dir.join("file"), "").unwrap();
        };
        let run = |others: &[(&'static str, bool)]| {
            make();
            Cleanup::read(&directives(&dir, others)).unwrap().run(us().0, us().1);
        };
        run(&[]);
        assert!(dir.join("a/b/file").exists() && !dir.join("file").exists());
        run(&[(keys::CLEANUP_RECURSIVE, true), (keys::CLEANUP_LEAVE_TOPDIR, true)]);
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 0);
        run(&[(keys::CLEANUP_RECURSIVE, true)]);
        assert!(!dir.exists());
        let mut infos = directives(&dir, &[(keys::CLEANUP_RECURSIVE, true)]);
        infos.push(Info::new(keys::CLEANUP_IGNORE, Value::string(dir.join("a/b").as_os_str().as_encoded_bytes())));
        make();
        Cleanup::read(&infos).unwrap().run(us().0, us().1);
        assert!(dir.join("a/b/file").exists() && !dir.join("file").exists());
        assert_eq!(
            Cleanup::read(&directives(Path::new("relative"), &[])).unwrap_err(),
            Status::ERR_BAD_PARAM,
            "a path that means something else here"
        );
    }

    #[test]
    fn links_are_removed_and_not_followed() {
        let top = tempfile::tempdir().unwrap();
        let (dir, other) = (top.path().join("dir"), top.path().join("other"));
        fs::create_dir(&other).unwrap();
        fs::write(other.join("file"), "").unwrap();
        fs::create_dir(&dir).unwrap();
        symlink(&other, dir.join("link")).unwrap();
        symlink(&other, top.path().join("top")).unwrap();
        let recursive = [(keys::CLEANUP_RECURSIVE, true)];
        Cleanup::read(&directives(&top.path().join("top"), &recursive)).unwrap().run(us().0, us().1);
        Cleanup::read(&directives(&dir, &recursive)).unwrap().run(us().0, us().1);
        assert!(!dir.exists() && other.join("file").exists());
    }

    #[test]
    fn root_removes_only_files_that_the_user_could_remove() {
        if !geteuid().is_root() {
            return left_out("root", "only root can give files away");
        }
        let top = tempfile::tempdir().unwrap();
        fs::set_permissions(top.path(), fs::Permissions::from_mode(0o755)).unwrap();
        // The user's file in a directory that is not the user's, and root's file in one that is.
        let (ours, theirs) = (top.path().join("ours"), top.path().join("theirs"));
        for dir in [&ours, &theirs] {
            fs::create_dir(dir).unwrap();
            fs::write(dir.join("theirs"), "").unwrap();
            fs::write(dir.join("ours"), "").unwrap();
            chown(dir.join("theirs"), Some(NOBODY), Some(NOBODY)).unwrap();
        }
        chown(&theirs, Some(NOBODY), Some(NOBODY)).unwrap();
        let files = [ours.join("theirs"), theirs.join("ours"), theirs.join("theirs")];
        let text = files.iter().map(|path| path.to_str().unwrap()).collect::<Vec<_>>().join(",");
        let infos = [Info::new(keys::REGISTER_CLEANUP, Value::string(text))];
        Cleanup::read(&infos).unwrap().run(NOBODY, NOBODY);
        assert_eq!(files.map(|path| path.exists()), [true, true, false]);
        Cleanup::read(&directives(&ours, &[])).unwrap().run(NOBODY, NOBODY);
        assert!(ours.join("theirs").exists());
        let probe = top.path().join("probe");
        fs::write(&probe, "").unwrap();
        assert_eq!(fs::metadata(probe).unwrap().uid(), 0, "the thread is root's again");
    }

    #[test]
    fn the_latest_state_of_a_directory_counts() {
        let mut all = Cleanup::read(&directives(Path::new("/a"), &[])).unwrap();
        let again = Cleanup::read(&directives(Path::new("/a"), &[(keys::CLEANUP_RECURSIVE, true)])).unwrap();
        all.add(&again);
        assert_eq!(all.directories.len(), 1);
        assert!(all.directories[0].recursive);
    }
}
