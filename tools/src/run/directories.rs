//! The job's directories, in which ranks and the server keep files. They are removed at the end.

use std::fs::DirBuilder;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use nix::unistd::gethostname;
use pmix_server::leftovers::launchers::{self, Alive};
use pmix_server::leftovers::sweep;

use super::ranks::hint_on_descriptors;
use super::watchdog::Watchdog;

/// The session's directory. It contains a directory of each job, which contains one for each rank.
pub(super) struct Directories {
    top: PathBuf,
    /// The process that made the directories. Only it removes them, not a forked child.
    owner: u32,
    alive: Alive,
    /// Reserved descriptors and memory, released before the directories are removed.
    room: Option<Room>,
}

/// Reserved memory and descriptors: a launcher that has run out of them must still be able to remove the directories.
struct Room {
    _space: Vec<u8>,
    _descriptors: Vec<OwnedFd>,
}

impl Room {
    fn take(ranks: u32) -> Result<Room, String> {
        let mut space = Vec::new();
        space
            .try_reserve_exact(ROOM_TO_REMOVE)
            .map_err(|error| format!("no memory for the job's directories: {error}"))?;
        let some = (0..DESCRIPTORS_TO_REMOVE).map(|_| io::stderr().as_fd().try_clone_to_owned());
        let descriptors: io::Result<Vec<OwnedFd>> = some.collect();
        let descriptors = descriptors.map_err(|error| {
            format!("no descriptors for the job's directories: {error}{}", hint_on_descriptors(&error, ranks))
        })?;
        Ok(Room { _space: space, _descriptors: descriptors })
    }
}

/// Reading directories takes a buffer of 32 KiB for each level, and the C library requests memory in larger pieces.
const ROOM_TO_REMOVE: usize = 512 << 10;
/// One descriptor for each level, and some for files.
const DESCRIPTORS_TO_REMOVE: usize = 8;

/// The number of names to try.
const ATTEMPTS: u32 = 100;

/// Makes a directory that must not exist yet.
fn create(path: &Path) -> io::Result<()> {
    DirBuilder::new().mode(0o700).create(path)
}

fn refusal(path: &Path, error: &io::Error) -> String {
    format!(
        "cannot make the job's directory {}: {error}; set TMPDIR or --tmpdir to a directory on a local file system that this user may write to",
        path.display()
    )
}

impl Directories {
    /// Makes the session's directory below `tmpdir`, accessible only to this user, for a launched job of so many ranks. The watchdog removes
    /// it if this process is killed.
    pub fn create(tmpdir: &Path, ranks: u32, watchdog: &Watchdog) -> Result<Directories, String> {
        let tmpdir = std::path::absolute(tmpdir).map_err(|error| format!("{}: {error}", tmpdir.display()))?;
        let owner = std::process::id();
        let room = Some(Room::take(ranks)?);
        let hostname = gethostname().unwrap_or_default().to_string_lossy().into_owned();
        // What cannot be removed stays for the next one.
        sweep(&tmpdir, hostname.split('.').next().unwrap_or_default(), None);
        let (top, alive) = Self::begin(&tmpdir, watchdog)?;
        Ok(Directories { top, owner, alive, room })
    }

    /// Makes the directory of a job with its ranks'.
    pub fn add_job(&self, name: &str, ranks: u32) -> Result<JobDirectory, String> {
        let make = |path: &Path| create(path).map_err(|error| refusal(path, &error));
        let job = JobDirectory(self.top.join(name));
        make(&job.0)?;
        match (0..ranks).try_for_each(|rank| make(&job.rank(rank))) {
            Ok(()) => Ok(job),
            Err(why) => {
                job.remove();
                Err(why)
            }
        }
    }

    /// Makes the session's directory.
    fn begin(tmpdir: &Path, watchdog: &Watchdog) -> Result<(PathBuf, Alive), String> {
        let mut why = None;
        for _ in 0..ATTEMPTS {
            let top = tmpdir.join(launchers::new_name());
            // Inform the watchdog before the directory exists: this process may be killed at any time.
            watchdog.guard(&top)?;
            let made = create(&top).and_then(|()| Alive::begin(&top).inspect_err(|_| Alive::undo(&top)));
            match made {
                Ok(Some(alive)) => return Ok((top, alive)),
                // Another launcher took it for a dead launcher's directory before it was locked.
                Ok(None) => {}
                Err(error) if error.kind() == ErrorKind::AlreadyExists => why = Some(error),
                Err(error) => return Err(refusal(&top, &error)),
            }
        }
        let why = why.map_or("another process removes it each time".into(), |error| error.to_string());
        Err(format!("cannot make the job's directory in {}: {why}", tmpdir.display()))
    }

    /// The lock of the session's directory, for a process that works in it: while that one lives, nobody removes it but this launcher.
    pub fn lock(&self) -> Result<OwnedFd, String> {
        self.alive.share().map_err(|error| format!("the lock of {}: {error}", self.top.display()))
    }

    /// The session's directory.
    pub fn top(&self) -> &Path {
        &self.top
    }
}

/// A job's directory. It goes with the session's.
pub(super) struct JobDirectory(PathBuf);

impl JobDirectory {
    /// Its path.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// A rank's directory.
    pub fn rank(&self, rank: u32) -> PathBuf {
        self.0.join(rank.to_string())
    }

    /// Removes it. What cannot be removed goes with the session's.
    pub fn remove(&self) {
        if let (Some(top), Some(name)) = (self.0.parent(), self.0.file_name()) {
            let _ = launchers::remove_in(top, name);
        }
    }
}

impl Drop for Directories {
    fn drop(&mut self) {
        if std::process::id() != self.owner {
            return;
        }
        self.room = None;
        // Another process may have removed them already.
        if let Err(error) = self.alive.end(&self.top)
            && error.kind() != ErrorKind::NotFound
        {
            super::complain(&format!("cannot remove {}: {error}", self.top.display()));
        }
    }
}
