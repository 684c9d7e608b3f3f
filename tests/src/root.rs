//! Another Debian release in a directory, with its own Open MPI.

use std::fs;
use std::path::PathBuf;

use crate::build::once;
use crate::{Library, Run, Traces, repository};

/// A root directory that `tests/openmpi5/root.sh` has made.
#[derive(Clone, Debug)]
pub struct Root {
    path: PathBuf,
    programs: PathBuf,
}

impl Root {
    /// The root's program `mpi` with our library, as words of a command.
    pub const WITH_OURS: &'static str = "env LD_LIBRARY_PATH=/mnt/lib /mnt/bin/mpi";
    /// The root's program `mpi` with the library of that release.
    pub const WITH_THEIRS: &'static str = "/mnt/bin/mpi";

    /// The root that `PMIX_TEST_OPENMPI5` names, with the program `mpi` compiled there.
    ///
    /// # Errors
    /// The missing part, as a word of [`left_out`](crate::left_out), and the reason as text.
    ///
    /// # Panics
    /// If the program does not compile.
    pub fn named() -> Result<Root, (&'static str, &'static str)> {
        let named = std::env::var_os("PMIX_TEST_OPENMPI5");
        let path: PathBuf = named.ok_or(("openmpi5", "PMIX_TEST_OPENMPI5 names no directory"))?.into();
        if !nix::unistd::geteuid().is_root() {
            return Err(("root", "entering another root directory takes root"));
        }
        let programs = once("openmpi5", |directory| {
            fs::create_dir_all(directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
            let root = Root { path: path.clone(), programs: directory.to_owned() };
            let compile = "mpicc -O1 -g -Wall /mnt/project/tests/programs/mpi.c -o /mnt/bin/mpi";
            root.enter().args(compile).succeed();
        });
        Ok(Root { path, programs })
    }

    /// `mpirun` of that release, for any number of ranks.
    pub fn mpirun(&self, traces: &Traces) -> Run {
        self.enter().traced(traces).args("mpirun --oversubscribe")
    }

    /// A command that runs its further arguments in a chroot of the directory, in which our library is in `/mnt/lib`.
    pub fn enter(&self) -> Run {
        let run = Run::new(repository().join("tests/openmpi5/enter.sh"), Library::Stock);
        run.arg(&self.path).arg(repository()).arg(Library::ours().file()).arg(&self.programs)
    }
}
