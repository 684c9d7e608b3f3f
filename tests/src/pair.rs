//! The library on either side: the server's and the ranks'.

use std::fmt;
use std::path::PathBuf;
use std::sync::LazyLock;

use crate::foreign::{self, MPIRUN_CRASHES, MPIRUN_LOCKS_UP, MPIRUN_READS_NOT};
use crate::run::generation;
use crate::{Ended, Library, Run, Traces, program, release_of_mpirun};

/// The source file in mpirun's message about a lost help text.
const LOST_TEXT: &str = "orte/util/show_help.c";

/// Whether mpirun is PRRTE's, as it is since Open MPI 5.
static HAS_PRRTE: LazyLock<bool> = LazyLock::new(|| {
    release_of_mpirun(None).and_then(|release| generation(&release)).is_some_and(|number| number >= 5)
});

/// The library of the server and the library of the ranks.
#[derive(Clone, Copy, Debug)]
pub struct Pair {
    /// The library of the launcher and its daemons.
    pub server: Library,
    /// The library of the ranks.
    pub ranks: Library,
}

impl Pair {
    /// All pairs with our library on at least one side: on both, for the server, for the ranks.
    pub fn all() -> [Pair; 3] {
        let (ours, stock) = (Library::ours(), Library::Stock);
        [Pair { server: ours, ranks: ours }, Pair { server: ours, ranks: stock }, Pair { server: stock, ranks: ours }]
    }

    /// The reference: the stock library on both sides.
    pub fn stock() -> Pair {
        Pair { server: Library::Stock, ranks: Library::Stock }
    }

    /// The program `mpi` with the ranks' library.
    pub fn program(self) -> [PathBuf; 3] {
        let library = format!("LD_LIBRARY_PATH={}", self.ranks.directory().display());
        ["env".into(), library.into(), program("mpi")]
    }

    /// `mpirun` with the server's library, for any number of ranks.
    pub fn mpirun(self, traces: &Traces) -> Run {
        let run = Run::new("mpirun", self.server).traced(traces).arg("--oversubscribe");
        if !*HAS_PRRTE {
            return run;
        }
        // Its TCP component is to take the one network that is there for sure.
        let run = run.env("OMPI_MCA_btl", "self,sm,tcp").env("OMPI_MCA_btl_tcp_if_include", "lo");
        run.env("LD_LIBRARY_PATH", self.server.directory_for_prrte())
    }

    /// A job of `size` ranks of the program `mpi` with `args`, under mpirun.
    pub fn job(self, traces: &Traces, size: usize, args: &str) -> Run {
        let run = self.mpirun(traces).args(&format!("-np {size}"));
        self.program().iter().fold(run, Run::arg).args(args)
    }

    /// Runs a job to its end.
    ///
    /// # Panics
    /// If it hangs, but not as a job that spawns does with the stock library.
    pub fn run(self, job: impl Fn(&Traces) -> Run) -> (Traces, Ended) {
        foreign::despite(self, &[MPIRUN_READS_NOT], || {
            let traces = Traces::begin();
            let outcome = job(&traces).attempt();
            (traces, outcome)
        })
    }

    /// Asserts that a job of `mpi` succeeded and printed nothing on stderr, and that its `count` processes, children
    /// included, had these libraries mapped.
    ///
    /// # Panics
    /// If one of these does not hold.
    pub fn assert_well(self, ended: &Ended, count: usize) {
        assert_eq!(ended.code(), 0, "{self:?}: {ended}");
        assert_eq!(ended.stderr, "", "{self:?}: {ended}");
        self.assert_mapped(ended, count);
        assert_eq!(ended.count(" done"), count, "{self:?}: {ended}");
        assert_eq!(ended.count("FAIL"), 0, "{self:?}: {ended}");
    }

    /// Runs a job that fails, and asserts that it ends as with the stock library on both sides: with status `code`,
    /// with `reason` on stderr and no message of the libraries, and without leftovers.
    ///
    /// mpirun sometimes frees a help text before it has copied it (`orte_rml_oob_send_buffer_nb` to itself). It then
    /// prints a line about that instead of the reason.
    ///
    /// # Panics
    /// If one of these does not hold.
    pub fn assert_fails(self, run: impl Fn(&Traces) -> Run, code: i32, reason: &str) -> Ended {
        let (traces, ended) = foreign::despite(self, &[MPIRUN_CRASHES, MPIRUN_LOCKS_UP], || {
            let traces = Traces::begin();
            let outcome = run(&traces).attempt();
            // A server that crashes leaves files, but no processes.
            traces.assert_no_process_left(outcome.as_ref().unwrap_or_else(|hung| &hung.ended));
            (traces, outcome)
        });
        assert_eq!(ended.code(), code, "{self:?}: {ended}");
        traces.assert_none_left(&ended);
        let (lost_texts, said): (Vec<_>, Vec<_>) =
            ended.stderr.lines().partition(|line| line.contains("ORTE_ERROR_LOG") && line.contains(LOST_TEXT));
        assert!(!lost_texts.is_empty() || ended.stderr.contains(reason), "{self:?}: {ended}");
        for complaint in ["PMIX ERROR", "ORTE_ERROR_LOG", "failed inside the library", "panicked"] {
            assert!(!said.iter().any(|line| line.contains(complaint)), "{self:?}: {ended}");
        }
        ended
    }

    /// Whether a rank's crash report has our library in its stack trace.
    pub(crate) fn has_crashed_in_ours(self, ended: &Ended) -> bool {
        self.ranks.is_ours() && ended.stderr.contains(&format!("{}(", self.ranks.file().display()))
    }

    /// Asserts that `count` processes of `mpi` reported that they and the daemon that started them had these libraries
    /// mapped.
    ///
    /// # Panics
    /// If one of these does not hold.
    pub fn assert_mapped(self, ended: &Ended, count: usize) {
        let mapped = format!(": library {} daemon {}", self.ranks.identity(), self.server.identity());
        assert_eq!(ended.count(&mapped), count, "{self:?}: {ended}");
    }
}

impl fmt::Display for Pair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |library| match library {
            Library::Stock => "stock",
            Library::Former(_) => "former",
            Library::Ours(_) | Library::Other(_) => "ours",
        };
        write!(f, "server {}, ranks {}", name(self.server), name(self.ranks))
    }
}

/// Whether thorough tests are requested: `PMIX_TEST_LARGE=1`.
pub fn is_large() -> bool {
    std::env::var_os("PMIX_TEST_LARGE").is_some_and(|value| value == "1")
}

/// `small` in ordinary tests, `large` in thorough ones.
pub fn times<T>(small: T, large: T) -> T {
    if is_large() { large } else { small }
}
