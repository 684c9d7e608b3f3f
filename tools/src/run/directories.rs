//! The job's directories: where ranks and the server keep files, removed at the end.

use std::fs::{self, DirBuilder};
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use super::abandoned::{self, Alive, PREFIX};

/// A directory of the session with one for the job and one for each rank in it.
pub(super) struct Directories {
    top: PathBuf,
    job: PathBuf,
    /// The process that made them removes them; a forked one does not.
    owner: u32,
    alive: Alive,
    /// Address space that is given up before they are removed, which takes some, and may be the end of a launcher without any.
    room: Vec<u8>,
}

/// Reading directories takes a buffer of 32 KiB for each level, and the C library asks for its memory in larger pieces.
const ROOM_TO_REMOVE: usize = 512 << 10;

impl Directories {
    /// Makes them below `tmpdir`, for this user alone.
    pub fn create(tmpdir: &Path, ranks: u32) -> Result<Directories, String> {
        let tmpdir = std::path::absolute(tmpdir).map_err(|error| format!("{}: {error}", tmpdir.display()))?;
        let owner = std::process::id();
        let create = |path: &Path| DirBuilder::new().mode(0o700).create(path);
        let make = |path: &Path| {
            create(path).map_err(|error| format!("cannot make the job's directory {}: {error}", path.display()))
        };
        let mut room = Vec::new();
        room.try_reserve_exact(ROOM_TO_REMOVE)
            .map_err(|error| format!("no memory for the job's directories: {error}"))?;
        abandoned::sweep(&tmpdir);
        // Names that are taken are passed over, whatever has taken them.
        let mut number = 0;
        let top = loop {
            let top = tmpdir.join(format!("{PREFIX}{owner}.{number}"));
            match create(&top) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists && number < 1000 => number += 1,
                Err(error) => return Err(format!("cannot make the job's directory {}: {error}", top.display())),
                Ok(()) => break top,
            }
        };
        let alive = match Alive::begin(&top) {
            Ok(alive) => alive,
            Err(error) => {
                // Without it nobody could tell whose it was; there is nothing else in it yet.
                let _ = fs::remove_dir_all(&top);
                return Err(format!("cannot make the job's directory {}: {error}", top.display()));
            }
        };
        let directories = Directories { job: top.join("job"), top, owner, alive, room };
        make(&directories.job)?;
        for rank in 0..ranks {
            make(&directories.rank(rank))?;
        }
        Ok(directories)
    }

    /// The session's directory.
    pub fn top(&self) -> &Path {
        &self.top
    }

    /// The job's directory.
    pub fn job(&self) -> &Path {
        &self.job
    }

    /// A rank's directory.
    pub fn rank(&self, rank: u32) -> PathBuf {
        self.job.join(rank.to_string())
    }
}

impl Drop for Directories {
    fn drop(&mut self) {
        if std::process::id() != self.owner {
            return;
        }
        self.room = Vec::new();
        // Whoever has removed them already has done what is wanted.
        if let Err(error) = self.alive.end(&self.top)
            && error.kind() != ErrorKind::NotFound
        {
            super::complain(&format!("cannot remove {}: {error}", self.top.display()));
        }
    }
}
