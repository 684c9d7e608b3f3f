//! The library on either side: who serves, and who is served.

use std::fmt;
use std::path::PathBuf;

use crate::{Ended, Library, Run, Traces, program};

/// Whose library serves, and whose the ranks have.
#[derive(Clone, Copy, Debug)]
pub struct Pair {
    /// The library of the launcher and its daemons.
    pub server: Library,
    /// The library of the ranks.
    pub ranks: Library,
}

impl Pair {
    /// All that have our library on one side at least: on both, for the server, for the ranks.
    pub fn all() -> [Pair; 3] {
        let (ours, stock) = (Library::ours(), Library::Stock);
        [Pair { server: ours, ranks: ours }, Pair { server: ours, ranks: stock }, Pair { server: stock, ranks: ours }]
    }

    /// The one that the others are measured by.
    pub fn stock() -> Pair {
        Pair { server: Library::Stock, ranks: Library::Stock }
    }

    /// The program `mpi` with the ranks' library.
    pub fn program(self) -> [PathBuf; 3] {
        let library = format!("LD_LIBRARY_PATH={}", self.ranks.directory().display());
        ["env".into(), library.into(), program("mpi")]
    }

    /// `mpirun` with the server's library, of any number of ranks.
    pub fn mpirun(self, traces: &Traces) -> Run {
        Run::new("mpirun", self.server).traced(traces).arg("--oversubscribe")
    }

    /// A job of `size` ranks of the program `mpi` under mpirun; `args` say what it does.
    pub fn job(self, traces: &Traces, size: usize, args: &str) -> Run {
        let run = self.mpirun(traces).args(&format!("-np {size}"));
        self.program().iter().fold(run, Run::arg).args(args)
    }

    /// Asserts that a job of `mpi` ended well and said nothing on stderr, and that its `count` processes, children and
    /// all, had these libraries mapped.
    ///
    /// # Panics
    /// Where that is not so.
    pub fn assert_well(self, ended: &Ended, count: usize) {
        assert_eq!(ended.code(), 0, "{self:?}: {ended}");
        assert_eq!(ended.stderr, "", "{self:?}: {ended}");
        self.assert_mapped(ended, count);
        assert_eq!(ended.count(" done"), count, "{self:?}: {ended}");
        assert_eq!(ended.count("FAIL"), 0, "{self:?}: {ended}");
    }

    /// Runs a job that fails, and asserts that it ends as with the stock library on both sides: with status `code`, with
    /// `reason` on stderr and no complaint of the libraries, and that it leaves nothing.
    ///
    /// Two failings of others have more than one try: the stock server crashes now and then while a job is ended, and
    /// mpirun sometimes frees a help text before it has copied it (`orte_rml_oob_send_buffer_nb` to itself), and says so.
    ///
    /// # Panics
    /// Where that is not so.
    pub fn assert_fails(self, run: impl Fn(&Traces) -> Run, code: i32, reason: &str) -> Ended {
        const TRIES: u32 = 5;
        let attempt = || {
            let traces = Traces::begin();
            let ended = run(&traces).run();
            let is_excused = match ended.code() == code {
                true => ended.stderr.contains("orte/util/show_help.c"),
                false => self.server == Library::Stock,
            };
            if !is_excused {
                traces.assert_none_left(&ended);
            }
            (ended, is_excused)
        };
        let mut ended = attempt();
        for _ in 1..TRIES {
            if ended.1 {
                ended = attempt();
            }
        }
        let (ended, _) = ended;
        assert_eq!(ended.code(), code, "{self:?}: {ended}");
        assert!(ended.stderr.contains(reason), "{self:?}: {ended}");
        for complaint in ["PMIX ERROR", "ORTE_ERROR_LOG", "failed inside the library", "panicked"] {
            assert!(!ended.stderr.contains(complaint), "{self:?}: {ended}");
        }
        ended
    }

    /// Asserts that `count` processes of `mpi` said that they and the daemon they came from had these libraries mapped.
    ///
    /// # Panics
    /// Where that is not so.
    pub fn assert_mapped(self, ended: &Ended, count: usize) {
        let mapped = format!(": library {} daemon {}", self.ranks.identity(), self.server.identity());
        assert_eq!(ended.count(&mapped), count, "{self:?}: {ended}");
    }
}

impl fmt::Display for Pair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |library| if library == Library::Stock { "stock" } else { "ours" };
        write!(f, "server {}, ranks {}", name(self.server), name(self.ranks))
    }
}

/// Whether thorough tests are wanted: `PMIX_TEST_LARGE=1`.
pub fn is_large() -> bool {
    std::env::var_os("PMIX_TEST_LARGE").is_some_and(|value| value == "1")
}

/// A number for every day, and one for thorough tests.
pub fn times<T>(small: T, large: T) -> T {
    if is_large() { large } else { small }
}
