//! Recorded directories of namespaces (`dstore/tests/data/directory-v*`, made by `tests/golden/record.sh`), as their servers left them.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::repository;

/// The length of a directory page, whose last zeros are not kept in the recorded file.
const PAGE_LEN: usize = 65_536;

/// A copy of a recorded directory.
#[derive(Debug)]
pub struct Golden {
    /// The outer directory.
    pub outer: PathBuf,
}

impl Golden {
    /// Makes the directory of this version of the format in `place`, under a name as servers give; `number` tells several apart.
    ///
    /// # Panics
    /// If there is no such version, or a file cannot be made.
    pub fn copy(version: u32, place: &Path, number: u8) -> Golden {
        let from = repository().join(format!("dstore/tests/data/directory-v{version}"));
        let outer = place.join(format!("pmix-dstore-{number:016x}-{:016x}", 7));
        copy_files(&from, &outer, 0o700);
        copy_files(&from.join("s"), &outer.join("s"), 0o755);
        Golden { outer }
    }

    /// The inner directory.
    pub fn inner(&self) -> PathBuf {
        self.outer.join("s")
    }

    /// Gives all files whose names begin so another version.
    ///
    /// # Panics
    /// If one cannot be written.
    pub fn set_version(&self, prefix: &str, version: u32) {
        for entry in fs::read_dir(self.inner()).expect("the directory").flatten() {
            if entry.file_name().to_string_lossy().starts_with(prefix) {
                let mut bytes = fs::read(entry.path()).expect("a file");
                bytes[8..12].copy_from_slice(&version.to_le_bytes());
                fs::remove_file(entry.path()).expect("a file");
                write(&entry.path(), &bytes);
            }
        }
    }
}

fn copy_files(from: &Path, to: &Path, mode: u32) {
    fs::create_dir(to).unwrap_or_else(|error| panic!("{}: {error}", to.display()));
    fs::set_permissions(to, fs::Permissions::from_mode(mode)).expect("a mode");
    for entry in fs::read_dir(from).unwrap_or_else(|error| panic!("{}: {error}", from.display())).flatten() {
        if entry.path().is_file() {
            let mut bytes = fs::read(entry.path()).expect("a recorded file");
            if entry.file_name() == "page-0" {
                bytes.resize(PAGE_LEN, 0);
            }
            write(&to.join(entry.file_name()), &bytes);
        }
    }
}

fn write(path: &Path, bytes: &[u8]) {
    fs::write(path, bytes).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    fs::set_permissions(path, fs::Permissions::from_mode(0o444)).expect("a mode");
}
