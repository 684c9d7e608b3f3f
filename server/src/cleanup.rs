//! What a client wants removed when it ends: the clean-up directives of `PMIx_Job_control`.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use pmix_dstore::model::{Info, Status, Value, keys};

/// Files and directories to remove, and what to leave alone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cleanup {
    files: Vec<PathBuf>,
    directories: Vec<Directory>,
    ignore: Vec<PathBuf>,
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
    /// Takes the clean-up directives out of `directives`; tells whether there were any.
    ///
    /// # Errors
    /// `BAD_PARAM` for a path that is not absolute text: where the process runs is not where the server runs.
    pub fn take(&mut self, directives: &[Info]) -> Result<bool, Status> {
        let flag = |key: &str| directives.iter().any(|info| info.key.is(key) && info.value.is_true());
        let (recursive, keep_top) = (flag(keys::CLEANUP_RECURSIVE), flag(keys::CLEANUP_LEAVE_TOPDIR));
        let mut any = false;
        for info in directives {
            if info.key.is(keys::REGISTER_CLEANUP) {
                self.files.extend(paths(&info.value)?);
                any = true;
            } else if info.key.is(keys::REGISTER_CLEANUP_DIR) {
                let new = paths(&info.value)?.into_iter().map(|path| Directory { path, recursive, keep_top });
                for directory in new {
                    self.directories.retain(|old| old.path != directory.path);
                    self.directories.push(directory);
                }
                any = true;
            } else if info.key.is(keys::CLEANUP_IGNORE) {
                self.ignore.extend(paths(&info.value)?);
                any = true;
            }
        }
        Ok(any)
    }

    /// Removes what belongs to the user `uid`, follows no links, and passes over what is gone already.
    pub fn run(&self, uid: u32) {
        let owned = |path: &Path| fs::symlink_metadata(path).is_ok_and(|meta| meta.uid() == uid);
        for file in &self.files {
            if owned(file) && !self.ignore.contains(file) && fs::symlink_metadata(file).is_ok_and(|m| !m.is_dir()) {
                // A file that cannot be removed is the user's to look at; nobody waits for an answer any more.
                let _ = fs::remove_file(file);
            }
        }
        for directory in &self.directories {
            if owned(&directory.path) && !self.ignore.contains(&directory.path) {
                self.empty(&directory.path, directory.recursive, uid, 0);
                if !directory.keep_top {
                    let _ = fs::remove_dir(&directory.path);
                }
            }
        }
    }

    fn empty(&self, directory: &Path, recursive: bool, uid: u32, depth: usize) {
        const DEPTH_MAX: usize = 64;
        let Ok(entries) = fs::read_dir(directory) else { return };
        for entry in entries.flatten() {
            let path = entry.path();
            let Ok(meta) = fs::symlink_metadata(&path) else { continue };
            if meta.uid() != uid || self.ignore.contains(&path) {
                continue;
            }
            if !meta.is_dir() {
                let _ = fs::remove_file(&path);
            } else if recursive && depth < DEPTH_MAX {
                self.empty(&path, recursive, uid, depth + 1);
                let _ = fs::remove_dir(&path);
            }
        }
    }
}

/// The comma-separated absolute paths of a directive.
fn paths(value: &Value) -> Result<Vec<PathBuf>, Status> {
    let text = value.as_text().and_then(|text| std::str::from_utf8(text).ok()).ok_or(Status::ERR_BAD_PARAM)?;
    let paths: Vec<PathBuf> = text.split(',').filter(|path| !path.is_empty()).map(PathBuf::from).collect();
    if paths.iter().all(|path| path.is_absolute()) { Ok(paths) } else { Err(Status::ERR_BAD_PARAM) }
}
