//! A persistent `pmixrun`, and what it holds.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::build::{Library, pmixrun};
use crate::run::Run;
use crate::traces::{MARK, Traces, patiently};

/// A running `pmixrun --serve`.
#[derive(Debug)]
pub struct Serving {
    child: Child,
    library: Library,
    /// Its directory for temporary files.
    directory: PathBuf,
    mark: String,
    /// The line that it has printed.
    pub line: String,
}

/// What it holds, with its watchdogs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holdings {
    /// Its processes.
    pub processes: usize,
    /// Their descriptors.
    pub descriptors: usize,
    /// Their threads.
    pub threads: usize,
    /// Files and directories below its directory for temporary files, and those of its segments.
    pub files: usize,
    /// The memory of the processes that no file backs, in KiB.
    pub memory: usize,
}

impl Holdings {
    /// Whether it holds more of anything that is counted: not of memory, of which an allocator keeps some.
    pub fn is_more_than(&self, other: &Holdings) -> bool {
        self.processes > other.processes
            || self.descriptors > other.descriptors
            || self.threads > other.threads
            || self.files > other.files
    }
}

impl Serving {
    /// Starts one with a library for the ranks, and with options.
    ///
    /// # Panics
    /// If it does not serve.
    pub fn start(traces: &Traces, library: Library, options: &[&str]) -> Serving {
        let mut command = Command::new(pmixrun());
        for (name, _) in std::env::vars_os() {
            if name.to_str().is_some_and(|name| name.starts_with("PMIX_")) {
                command.env_remove(name);
            }
        }
        command.arg("--serve").args(options).env("TMPDIR", traces.directory()).env(MARK, traces.mark());
        command.env("LD_LIBRARY_PATH", library.directory()).stdin(Stdio::null()).stdout(Stdio::piped());
        let errors = fs::File::create(traces.own().join("serving.err")).expect("a file");
        let mut child = command.stderr(errors).spawn().expect("pmixrun starts");
        let mut line = String::new();
        let mut stdout = BufReader::new(child.stdout.take().expect("a pipe"));
        stdout.read_line(&mut line).expect("a line");
        let said = fs::read_to_string(traces.own().join("serving.err")).unwrap_or_default();
        assert!(line.contains("serves as"), "{line}{said}");
        Serving { child, library, directory: traces.directory(), mark: traces.mark().to_owned(), line }
    }

    /// The number of its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// A front end of it. Arguments that are added are options, and the program.
    pub fn front(&self) -> Run {
        let run = Run::new(pmixrun(), self.library).env("TMPDIR", &self.directory).env(MARK, &self.mark);
        run.arg("--dvm").arg(self.pid().to_string())
    }

    /// `pmixctl` with a command, at it.
    pub fn pmixctl(&self, words: &[&str]) -> Run {
        let pid = self.pid().to_string();
        let (command, rest) = words.split_first().expect("a command");
        let run = Run::new(pmixrun().with_file_name("pmixctl"), self.library).env("TMPDIR", &self.directory);
        rest.iter().fold(run.arg(command).arg("--pid").arg(pid), Run::arg)
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.pid().cast_signed()), signal).expect("it runs");
    }

    /// Waits for its end; returns the exit status.
    pub fn wait(mut self) -> Option<i32> {
        self.child.wait().expect("a child").code()
    }

    /// Ends it in order.
    ///
    /// # Panics
    /// If it fails.
    pub fn end(self) {
        self.signal(Signal::SIGTERM);
        assert_eq!(self.wait(), Some(0), "the persistent pmixrun fails");
    }

    /// What it holds when that is no more than `bound`, or after a while: it notices a moment later that a front end has gone.
    pub fn settled(&self, bound: &Holdings) -> Holdings {
        let more = patiently(|| Some(self.holdings()).filter(|held| held.is_more_than(bound)));
        more.unwrap_or_else(|| self.holdings())
    }

    /// What it holds when it has no job: waits until its watchdogs have ended.
    ///
    /// # Panics
    /// If some do not end.
    pub fn holdings(&self) -> Holdings {
        let busy = patiently(|| Some(self.processes()).filter(|processes| processes.len() > 2));
        assert!(busy.is_none(), "watchdogs are left: {busy:?}");
        let processes = self.processes();
        let count = |directory: &str| {
            let counts =
                processes.iter().map(|pid| fs::read_dir(format!("/proc/{pid}/{directory}")).map_or(0, Iterator::count));
            counts.sum()
        };
        Holdings {
            processes: processes.len(),
            descriptors: count("fd"),
            threads: count("task"),
            files: files_below(&self.directory),
            memory: processes.iter().map(|pid| own_memory(*pid)).sum(),
        }
    }

    /// It and its descendants.
    fn processes(&self) -> Vec<u32> {
        let mut found = vec![self.pid()];
        let mut next = 0;
        while let Some(pid) = found.get(next) {
            let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
            found.extend(children.split_whitespace().filter_map(|child| child.parse::<u32>().ok()));
            next += 1;
        }
        found
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        // Of a test that has failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn files_below(directory: &Path) -> usize {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.map(|entry| 1 + if entry.path().is_dir() { files_below(&entry.path()) } else { 0 }).sum()
}

/// The memory of a process that no file backs, in KiB. What is swapped out counts: a machine may do so with what rests.
fn own_memory(pid: u32) -> usize {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
    let of = |line: &str| line.split_whitespace().nth(1).and_then(|kib| kib.parse::<usize>().ok());
    text.lines().filter(|line| line.starts_with("Anonymous:") || line.starts_with("Swap:")).filter_map(of).sum()
}
