//! A process of this node, as the kernel shows it: its state, and what it has mapped of PMIx.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::mapped::{self, seen_from_here};
use crate::prrte::Kind;

/// A process of this node.
#[derive(Debug, Default)]
pub struct Process {
    /// Its number.
    pub pid: i32,
    /// Whether it is there and may be looked at.
    pub is_seen: bool,
    /// Stopped by a signal or a debugger.
    pub is_stopped: bool,
    /// The PMIx libraries that it has mapped.
    pub libraries: Vec<PathBuf>,
    /// It has mapped a segment of that directory.
    pub has_segments: bool,
    /// The directory of its segments, if its server made some.
    pub directory: Option<PathBuf>,
    /// `PMIX_DSTORE_SHM=0` in its environment.
    pub is_switched_off: bool,
    /// `PMIX_MCA_gds` in its environment, which has no effect under a server of ours.
    pub has_stock_store: bool,
}

impl Process {
    /// Looks at a process.
    pub fn look(pid: i32) -> Process {
        // Names of files and of the process may be any bytes.
        let read = |name: &str| {
            fs::read(format!("/proc/{pid}/{name}")).map(|text| String::from_utf8_lossy(&text).into_owned())
        };
        let Ok(maps) = read("maps") else { return Process { pid, ..Process::default() } };
        let state = read("status").unwrap_or_default();
        let directory = variable(pid, "PMIX_DSTORE_SEGMENTS").map(PathBuf::from);
        let mut libraries: Vec<PathBuf> = mapped(&maps).filter(|path| is_library(path)).map(PathBuf::from).collect();
        libraries.sort();
        libraries.dedup();
        // The kernel names files without links and "..", which the variable may have.
        let real = directory.as_ref().and_then(|path| fs::canonicalize(seen_from_here(pid, path)?).ok());
        let is_segment =
            |path: &str| directory.iter().chain(&real).any(|directory| Path::new(path).starts_with(directory));
        Process {
            pid,
            is_seen: true,
            is_stopped: state
                .lines()
                .any(|line| line.strip_prefix("State:").is_some_and(|word| word.trim().starts_with('T'))),
            libraries,
            has_segments: mapped(&maps).any(is_segment),
            has_stock_store: variable(pid, "PMIX_MCA_gds").is_some(),
            is_switched_off: variable(pid, "PMIX_DSTORE_SHM").is_some_and(|value| value == "0"),
            directory,
        }
    }

    /// The directory of its segments, as seen from outside.
    pub fn directory_from_here(&self) -> Option<PathBuf> {
        seen_from_here(self.pid, self.directory.as_ref()?)
    }

    /// Whether it has mapped this project's library, and whether a stock one that it should not have: with the library of `lib/prrte` it
    /// has both.
    pub fn has_ours_and_stock(&self) -> (bool, bool) {
        let files = self.libraries.iter().filter_map(|path| mapped::open(self.pid, path));
        let kinds: Vec<Kind> = files.filter_map(|file| mapped::kind_of(&file)).collect();
        let has_both = kinds.contains(&Kind::Both);
        (has_both || kinds.contains(&Kind::Ours), !has_both && kinds.contains(&Kind::Stock))
    }

    /// The bytes of its server's segments that are in use; `None` if the directory cannot be read.
    pub fn segment_bytes(&self) -> Option<u64> {
        let files = fs::read_dir(self.directory_from_here()?).ok()?.flatten();
        Some(
            files
                .filter_map(|file| file.metadata().ok())
                .filter(|data| data.is_file())
                .map(|data| data.blocks() * 512)
                .sum(),
        )
    }
}

/// The value of a variable in the environment with which a process started.
pub fn variable(pid: i32, name: &str) -> Option<OsString> {
    let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
    let value =
        environment.split(|byte| *byte == 0).find_map(|text| text.strip_prefix(name.as_bytes())?.strip_prefix(b"="));
    value.map(|value| OsString::from_vec(value.to_vec()))
}

/// The files of `/proc/PID/maps`.
fn mapped(maps: &str) -> impl Iterator<Item = &str> {
    maps.lines().filter_map(|line| line.find('/').map(|at| &line[at..]))
}

fn is_library(path: &str) -> bool {
    Path::new(path).file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with("libpmix"))
}
