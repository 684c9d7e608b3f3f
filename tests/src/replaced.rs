//! Jobs whose library file is replaced while they run.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::{Ended, Library, Run, Traces, pmixrun_of, program};

/// What hosts the server of such a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hosted {
    /// The launcher of the first library.
    ByLauncher,
    /// `tests/programs/host.c`, whose server has the file mapped, too.
    ByHost,
}

/// Runs `ranks` ranks of `tests/programs/replaced.c` with the first library. When they have published, its file is replaced by that of the
/// second one, by a rename as `make install` does it. Asserts that all calls of the ranks succeed then, that they still have the file
/// that has no name any more, and that two children, which are started afterwards, have the new one.
///
/// # Panics
/// If one of these does not hold.
pub fn replace_under_job(hosted: Hosted, (first, second): (Library, Library), ranks: usize) -> Ended {
    let traces = Traces::begin();
    let place = tempfile::tempdir().expect("a temporary directory");
    let (used, next) = (place.path().join("libpmix.so.2"), place.path().join("next"));
    let copy = |library: Library, to: &Path| {
        fs::copy(library.file(), to).unwrap_or_else(|error| panic!("{}: {error}", to.display()));
        fs::metadata(to).expect("the copy").ino()
    };
    let inodes = [copy(first, &used), copy(second, &next)];
    let run = match hosted {
        Hosted::ByLauncher => Run::new(pmixrun_of(first), first).args(&format!("-n {ranks} --timeout 90")),
        Hosted::ByHost => Run::new(program("host"), first).args(&format!("-s 1 -n {ranks} --timeout 90")),
    };
    let command = format!("mv {} {}", next.display(), used.display());
    let run = run.traced(&traces).env("LD_LIBRARY_PATH", place.path()).arg(program("replaced")).arg(command);
    let ended = run.run();
    assert_eq!((ended.code(), ended.count("FAIL")), (0, 0), "{hosted:?}: {ended}");
    assert_eq!(ended.count(&format!(": inode {} deleted, 0 failed", inodes[0])), ranks, "{hosted:?}: {ended}");
    let of_children = format!(": inode {}, 0 failed", inodes[1]);
    assert_eq!((ended.count(&of_children), ended.count("child ")), (2, 2), "{hosted:?}: {ended}");
    traces.assert_none_left(&ended);
    ended
}
