//! The job's directories: where ranks and the server keep files, removed at the end.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// A directory of the session with one for the job and one for each rank in it.
pub(super) struct Directories {
    top: PathBuf,
    job: PathBuf,
    /// The process that made them removes them; a forked one does not.
    owner: u32,
}

impl Directories {
    /// Makes them below `tmpdir`, for this user alone.
    pub fn create(tmpdir: &Path, ranks: u32) -> Result<Directories, String> {
        let tmpdir = std::path::absolute(tmpdir).map_err(|error| format!("{}: {error}", tmpdir.display()))?;
        let owner = std::process::id();
        let make = |path: &Path| {
            let made = DirBuilder::new().mode(0o700).create(path);
            made.map_err(|error| format!("cannot make the job's directory {}: {error}", path.display()))
        };
        let top = (0..1000).map(|n| tmpdir.join(format!("pmixrun.{owner}.{n}"))).find(|path| !path.exists());
        let top = top.ok_or_else(|| format!("{}: too many left-over directories of pmixrun", tmpdir.display()))?;
        make(&top)?;
        let directories = Directories { job: top.join("job"), top, owner };
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
        if let Err(error) = fs::remove_dir_all(&self.top) {
            eprintln!("pmixrun: cannot remove {}: {error}", self.top.display());
        }
    }
}
