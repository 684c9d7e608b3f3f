//! A file that a process of this node has mapped: which PMIx library it is.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::prrte::{self, Kind};

/// No PMIx library is longer than this.
const LIBRARY_LEN_MAX: u64 = 256 << 20;

/// A path of a process, as seen from outside: the process may have another root or other mounts.
pub fn seen_from_here(pid: i32, path: &Path) -> Option<PathBuf> {
    Some(Path::new(&format!("/proc/{pid}/root")).join(path.strip_prefix("/").ok()?))
}

/// Opens a file of a process. The process chooses its name: it may be a pipe, for which nobody waits.
pub fn open(pid: i32, path: &Path) -> Option<File> {
    File::options().read(true).custom_flags(libc::O_NONBLOCK).open(seen_from_here(pid, path)?).ok()
}

/// Which PMIx library a file is; `None` for anything else.
pub fn kind_of(file: &File) -> Option<Kind> {
    let data = file.metadata().ok()?;
    let is_library = data.is_file() && data.len() <= LIBRARY_LEN_MAX;
    is_library.then(|| prrte::kind_of(Path::new(&format!("/proc/self/fd/{}", file.as_raw_fd()))).ok())?
}
