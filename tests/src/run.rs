//! Commands with a deadline.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io::Read;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{LazyLock, mpsc};
use std::thread;
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use crate::build::{Library, pmixrun};
use crate::deadline::Deadline;
use crate::standing::Standing;
use crate::traces::{MARK, Traces};

/// A test that takes this long hangs, even on a machine that builds at the same time. Checkers of memory and threads
/// are slower: `PMIX_TEST_PATIENCE` multiplies this time for them.
static DEADLINE: LazyLock<Duration> = LazyLock::new(|| {
    let patience = std::env::var("PMIX_TEST_PATIENCE").ok().and_then(|times| times.parse().ok());
    Duration::from_secs(120) * patience.unwrap_or(1)
});
/// The time to continue reading the pipes of a command that has ended. Processes that it left behind may hold them
/// open.
const DRAIN: Duration = Duration::from_secs(5);

/// A command that runs in a process group of its own.
#[derive(Debug)]
pub struct Run {
    command: Command,
    words: Vec<OsString>,
    input: Vec<u8>,
    deadline: Duration,
}

impl Run {
    /// A program with a library, in an environment without another PMIx or Slurm job. `PMIX_TEST_WRAPPER` may name a
    /// command with arguments under which the program runs.
    pub fn new(program: impl AsRef<Path>, library: Library) -> Run {
        let program = program.as_ref();
        let wrapper = std::env::var("PMIX_TEST_WRAPPER").unwrap_or_default();
        let mut words: Vec<&OsStr> = wrapper.split_whitespace().map(OsStr::new).collect();
        words.push(program.as_os_str());
        let mut command = Command::new(words[0]);
        command.args(&words[1..]);
        for (name, _) in std::env::vars_os() {
            let foreign =
                name.to_str().is_none_or(|name| ["PMIX_", "OMPI_", "SLURM_"].iter().any(|p| name.starts_with(p)));
            if foreign {
                command.env_remove(name);
            }
        }
        command.env("LD_LIBRARY_PATH", library.directory());
        // More ranks than processors must not spin; mpirun refuses to run as root, which is the user in containers.
        command.env("OMPI_MCA_mpi_yield_when_idle", "1");
        for launcher in ["OMPI", "PRTE"] {
            command.env(format!("{launcher}_ALLOW_RUN_AS_ROOT"), "1");
            command.env(format!("{launcher}_ALLOW_RUN_AS_ROOT_CONFIRM"), "1");
        }
        Run { command, words: vec![program.into()], input: Vec::new(), deadline: *DEADLINE }
    }

    /// A program as `count` ranks under our launcher, with a library. Arguments added later are the program's.
    pub fn ranks(count: usize, program: impl AsRef<OsStr>, library: Library) -> Run {
        Run::new(pmixrun(), library).arg("-n").arg(count.to_string()).arg(program)
    }

    /// Lets `traces` find the command: gives it the test's directory for temporary files, and a mark that its
    /// descendants inherit.
    pub fn traced(self, traces: &Traces) -> Run {
        self.env("TMPDIR", traces.directory()).env(MARK, traces.mark())
    }

    /// Adds an argument.
    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Run {
        self.words.push(arg.as_ref().to_owned());
        self.command.arg(arg);
        self
    }

    /// Adds arguments, separated by blanks.
    pub fn args(self, args: &str) -> Run {
        args.split_whitespace().fold(self, Run::arg)
    }

    /// Sets a variable.
    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Run {
        self.command.env(name, value);
        self
    }

    /// Removes a variable.
    pub fn without(mut self, name: &str) -> Run {
        self.command.env_remove(name);
        self
    }

    /// Sets the command's standard input, which is empty by default.
    pub fn input(self, input: Vec<u8>) -> Run {
        Run { input, ..self }
    }

    /// Sets the command's deadline.
    pub fn deadline(self, deadline: Duration) -> Run {
        Run { deadline, ..self }
    }

    /// The deadline of a command that sets no other.
    pub fn deadline_by_default() -> Duration {
        *DEADLINE
    }

    /// Multiplies the default deadline.
    pub fn within(self, times: u32) -> Run {
        Run { deadline: self.deadline * times, ..self }
    }

    /// Runs the command to its end.
    ///
    /// # Panics
    /// If the command cannot be started, or is still running at the deadline. Its process group is then killed.
    pub fn run(self) -> Ended {
        self.attempt().unwrap_or_else(|hung| panic!("{hung}"))
    }

    /// Runs the command to its end, or to the deadline and then kills its process group.
    ///
    /// # Errors
    /// The state of its processes at the deadline.
    ///
    /// # Panics
    /// If the command cannot be started.
    pub fn attempt(mut self) -> Result<Ended, Box<Hung>> {
        self.command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let mut child = match self.command.spawn() {
            Ok(child) => child,
            Err(error) => panic!("{}: {error}", self.words[0].display()),
        };
        let group = Pid::from_raw(child.id() as i32);
        if let Some(mut stdin) = child.stdin.take() {
            let input = std::mem::take(&mut self.input);
            // Ignore the error of a program that does not read its input.
            thread::spawn(move || std::io::Write::write_all(&mut stdin, &input));
        }
        let (stdout, stderr) = (collect(child.stdout.take()), collect(child.stderr.take()));
        let mut deadline = Deadline::new(self.deadline);
        let status = loop {
            match child.try_wait() {
                Ok(Some(status)) => break Some(status),
                Ok(None) if deadline.pause() => {}
                Ok(None) => break None,
                Err(error) => panic!("waiting for {}: {error}", self.words[0].display()),
            }
        };
        let standing = if status.is_none() { Standing::of_group(group) } else { Vec::new() };
        // Kills the remaining processes of the group: all of it after the deadline, usually none otherwise.
        let left = killpg(group, Signal::SIGKILL).is_ok();
        let (stdout, stderr) = (drain(&stdout), drain(&stderr));
        let Some(status) = status else {
            let _ = child.wait();
            let status = ExitStatus::from_raw(Signal::SIGKILL as i32);
            let ended = Ended { words: self.words, status, stdout, stderr, left };
            return Err(Box::new(Hung { ended, after: self.deadline, standing }));
        };
        Ok(Ended { words: self.words, status, stdout, stderr, left })
    }

    /// Runs the command and asserts that it exits with status 0.
    ///
    /// # Panics
    /// As [`Run::run`], and if it fails.
    pub fn succeed(self) -> Ended {
        let ended = self.run();
        assert_eq!(ended.code(), 0, "{ended}");
        ended
    }
}

/// A command that was still running at its deadline.
#[derive(Debug)]
pub struct Hung {
    /// Its output until then.
    pub ended: Ended,
    after: Duration,
    standing: Vec<Standing>,
}

impl Hung {
    /// Whether a process with this name has at least two threads that wait for locks.
    pub fn waits_for_itself(&self, name: &str) -> bool {
        self.standing.iter().any(|process| process.name == name && process.at_locks >= 2)
    }

    /// Whether a process with this name leaves bytes of exactly one of its TCP connections unread. One that has stopped reading altogether
    /// leaves those of several.
    pub fn leaves_one_unread(&self, name: &str) -> bool {
        self.standing.iter().any(|process| process.name == name && process.unread == 1)
    }

    /// Whether there was a process with this name.
    pub fn has(&self, name: &str) -> bool {
        self.standing.iter().any(|process| process.name == name)
    }

    /// A command that hangs with processes of these names, and with so many threads of each that wait for locks.
    #[cfg(test)]
    pub(crate) fn among(processes: &[(&str, usize)]) -> Hung {
        let (stdout, stderr, status) = (String::new(), String::new(), ExitStatus::from_raw(Signal::SIGKILL as i32));
        let ended = Ended { words: Vec::new(), status, stdout, stderr, left: true };
        let standing = |(name, at_locks): &(&str, usize)| Standing {
            name: (*name).to_owned(),
            words: "prterun -np 2 /mnt/bin/mpi".to_owned(),
            at_locks: *at_locks,
            unread: 0,
        };
        Hung { ended, after: Duration::ZERO, standing: processes.iter().map(standing).collect() }
    }
}

impl fmt::Display for Hung {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "still running after {:?}: {}", self.after, self.ended)?;
        self.standing.iter().try_for_each(|process| writeln!(f, "{process:?}"))
    }
}

/// Reads a pipe to its end in a thread, piece by piece.
fn collect(mut source: Option<impl Read + Send + 'static>) -> mpsc::Receiver<Vec<u8>> {
    let (read, collected) = mpsc::channel();
    thread::spawn(move || {
        let mut piece = vec![0; 1 << 16];
        // Keeps the bytes read before an error. Stops when the receiver is dropped.
        while let Some(count @ 1..) = source.as_mut().and_then(|source| source.read(&mut piece).ok())
            && read.send(piece[..count].to_vec()).is_ok()
        {}
    });
    collected
}

/// All bytes from a pipe, until it ends or is silent for [`DRAIN`].
fn drain(collected: &mpsc::Receiver<Vec<u8>>) -> String {
    let pieces = std::iter::from_fn(|| collected.recv_timeout(DRAIN).ok());
    String::from_utf8_lossy(&pieces.flatten().collect::<Vec<u8>>()).into_owned()
}

/// The version text of an installed program; `None` if it is not installed.
pub fn release_of(program: &str) -> Option<String> {
    let output = Command::new(program).arg("--version").output().ok()?;
    Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// The release of the installed Open MPI, such as `5.0.7`, of this machine or in a root directory.
pub fn release_of_mpirun(root: Option<&Path>) -> Option<String> {
    let mut command = Command::new(if root.is_some() { "chroot" } else { "mpirun" });
    if let Some(root) = root {
        command.arg(root).arg("mpirun");
    }
    let output = command.arg("--version").output().ok()?;
    // "mpirun (Open MPI) 5.0.7"
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().next()?.split_once("(Open MPI) ").map(|(_, release)| release.trim().to_owned())
}

/// The first number of a release.
pub(crate) fn generation(release: &str) -> Option<u32> {
    release.split('.').next()?.parse().ok()
}

/// A command that has ended, with its output.
#[derive(Debug)]
pub struct Ended {
    words: Vec<OsString>,
    status: ExitStatus,
    /// Its standard output.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
    /// Whether processes of its group were left behind.
    pub left: bool,
}

impl Ended {
    /// The exit status as a shell reports it.
    pub fn code(&self) -> i32 {
        self.status.code().unwrap_or_else(|| 128 + self.status.signal().unwrap_or(0))
    }

    /// Whether the command itself, or the command that `cluster.sh` ran, crashed. A report that another process crashed
    /// does not count.
    pub fn is_crash(&self) -> bool {
        let signals = [Signal::SIGSEGV, Signal::SIGBUS, Signal::SIGABRT];
        let by_shell = |line: &str| {
            line.contains("/cluster.sh: line ")
                && ["Segmentation fault", "Bus error", "Aborted"].iter().any(|signal| line.contains(signal))
        };
        self.status.signal().is_some_and(|signal| signals.iter().any(|it| *it as i32 == signal))
            || self.stderr.lines().any(by_shell)
    }

    /// The number of output lines with `text`.
    pub fn count(&self, text: &str) -> usize {
        self.stdout.lines().filter(|line| line.contains(text)).count()
    }

    /// The lines of its standard output, sorted: ranks print in any order.
    pub fn sorted_lines(&self) -> Vec<&str> {
        let mut lines: Vec<&str> = self.stdout.lines().collect();
        lines.sort_unstable();
        lines
    }
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<_> = self.words.iter().map(|word| word.to_string_lossy()).collect();
        writeln!(f, "{}: {}", words.join(" "), self.status)?;
        write!(f, "--- stdout\n{}--- stderr\n{}---", self.stdout, self.stderr)
    }
}
