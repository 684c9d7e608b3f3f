//! Another Debian release in a directory, with its own Open MPI.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::build::{once, pmixrun, program};
use crate::run::generation;
use crate::{Library, Pair, Run, Traces, release_of_mpirun, repository};

/// A root directory that `tests/openmpi5/root.sh` has made.
#[derive(Clone, Debug)]
pub struct Root {
    path: PathBuf,
    release: String,
    programs: PathBuf,
}

impl Root {
    /// The directory with the facade, for PRRTE's daemons.
    pub const FACADE: &'static str = "/mnt/lib/prrte";
    /// The root's program `mpi` with our library, as words of a command.
    pub const WITH_OURS: &'static str = "env LD_LIBRARY_PATH=/mnt/lib /mnt/bin/mpi";
    /// The root's program `mpi` with the library of that release.
    pub const WITH_THEIRS: &'static str = "env -u LD_LIBRARY_PATH /mnt/bin/mpi";

    /// The roots that `PMIX_TEST_OPENMPI5` and `PMIX_TEST_OPENMPI6` name, with our programs compiled there.
    ///
    /// # Errors
    /// The missing part, as a word of [`left_out`](crate::left_out), and the reason as text.
    ///
    /// # Panics
    /// As [`Root::at`].
    pub fn named() -> Result<Vec<Root>, (&'static str, &'static str)> {
        let named = |release| Some(PathBuf::from(std::env::var_os(format!("PMIX_TEST_OPENMPI{release}"))?));
        let named: Vec<_> = [5, 6].into_iter().filter_map(named).collect();
        if named.is_empty() {
            return Err(("openmpi5", "PMIX_TEST_OPENMPI5 and PMIX_TEST_OPENMPI6 name no directory"));
        }
        if !nix::unistd::geteuid().is_root() {
            return Err(("root", "entering another root directory takes root"));
        }
        Ok(named.into_iter().map(Root::at).collect())
    }

    /// The root in this directory, with our programs compiled there.
    ///
    /// # Panics
    /// If it has no Open MPI, or a program does not compile.
    pub fn at(path: impl Into<PathBuf>) -> Root {
        let path = path.into();
        let release = release_of_mpirun(Some(&path)).unwrap_or_else(|| panic!("no mpirun in {}", path.display()));
        let programs = once(&format!("openmpi-{release}"), |directory| {
            let said = |error| panic!("{}: {error}", directory.display());
            fs::create_dir_all(directory).unwrap_or_else(said);
            let mut facade = Command::new(repository().join("ffi/facade.sh"));
            assert!(facade.arg(directory.join("facade.so")).status().is_ok_and(|status| status.success()));
            for tool in ["pmixctl", "pmixrun"] {
                fs::copy(pmixrun().with_file_name(tool), directory.join(tool)).map(drop).unwrap_or_else(said);
            }
            fs::copy(program("tool"), directory.join("tool")).map(drop).unwrap_or_else(said);
            let root = Root { path: path.clone(), release: release.clone(), programs: directory.to_owned() };
            for (compiler, program) in [("mpicc", "mpi"), ("mpicc", "wireup"), ("cc", "stopwatch")] {
                let files = format!("/mnt/project/tests/programs/{program}.c -o /mnt/bin/{program}");
                root.enter().arg(compiler).args("-O1 -g -Wall").args(&files).succeed();
            }
        });
        Root { path, release, programs }
    }

    /// The release of its Open MPI, such as `5.0.7`.
    pub fn release(&self) -> &str {
        &self.release
    }

    /// The first number of that release.
    pub fn generation(&self) -> u32 {
        generation(&self.release).expect("a release begins with a number")
    }

    /// The directory of a library there, for its processes.
    pub fn directory(library: Library) -> &'static str {
        if library.is_ours() { "/mnt/lib" } else { "/usr/lib/x86_64-linux-gnu/pmix2/lib" }
    }

    /// The directory of a library there, for PRRTE's daemons.
    pub fn directory_for_prrte(library: Library) -> &'static str {
        if library.is_ours() { Root::FACADE } else { Root::directory(library) }
    }

    /// The directory itself.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// `mpirun` of that release for any number of ranks, with the library of the pair's server in its daemons.
    pub fn mpirun(&self, traces: &Traces, pair: Pair) -> Run {
        self.enter().traced(traces).args(&Root::mpirun_words(pair))
    }

    /// The same as words of a command inside.
    pub fn mpirun_words(pair: Pair) -> String {
        let library = if pair.server.is_ours() { format!("LD_LIBRARY_PATH={}", Root::FACADE) } else { String::new() };
        format!("env {library} mpirun --oversubscribe")
    }

    /// The program `mpi` there with the library of the pair's ranks, as words of a command.
    pub fn program(pair: Pair) -> &'static str {
        if pair.ranks.is_ours() { Root::WITH_OURS } else { Root::WITH_THEIRS }
    }

    /// A command that runs its further arguments in a chroot of the directory, where our library is in `/mnt/lib`.
    pub fn enter(&self) -> Run {
        let run = Run::new(repository().join("tests/openmpi5/enter.sh"), Library::Stock);
        run.arg(&self.path).arg(repository()).arg(Library::ours().file()).arg(&self.programs)
    }
}
