//! `pmixctl trace`: the calls of a rank, from the file to which it writes its trace.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use pmix_dstore::log::{self, Level, Target};
use serde_json::json;

use super::Printout;
use super::args::Server;
use super::connection::{Connection, rank};
use super::jobs::has_ended;
use super::process::variable;
use crate::value::escaped;

/// How often a file is looked at for more.
const PAUSE: Duration = Duration::from_millis(100);
/// The library's lines are far shorter.
const LINE_LEN_MAX: usize = 1 << 16;

/// Prints the calls of a rank; with `follow` until it ends.
pub fn trace(server: &Server, job: &str, word: &str, follow: bool, json: bool) -> Result<Printout, String> {
    let pid = pid_of(server, job, word)?;
    let path = file_of(pid).map_err(|reason| format!("rank {word} of {job} (process {pid}) {reason}"))?;
    let file = open(&path, pid).map_err(|error| format!("{}: {error}", path.display()))?;
    let mut lines = Lines { file: BufReader::new(file), line: Vec::new(), is_too_long: false };
    let mut out = std::io::stdout().lock();
    let mut is_empty = true;
    loop {
        // Before the read, so that the last lines of a rank that ends are read.
        let goes_on = follow && Path::new(&format!("/proc/{pid}")).exists();
        while let Some(line) = lines.next().map_err(|error| format!("{}: {error}", path.display()))? {
            if let Some((time, call)) = call(&line, pid) {
                is_empty = false;
                let text = if json {
                    json!({ "time": time, "call": call }).to_string()
                } else {
                    format!("{time} {}", escaped(call))
                };
                // The reader has closed the pipe: it has seen enough.
                if writeln!(out, "{text}").is_err() {
                    return Ok(Printout::good(String::new()));
                }
            }
        }
        if !goes_on {
            return Ok(Printout { text: String::new(), is_good: !is_empty });
        }
        let _ = out.flush();
        sleep(PAUSE);
    }
}

/// The process of a rank on this node: the one that is connected, or else the one that the launcher started.
fn pid_of(server: &Server, job: &str, word: &str) -> Result<i32, String> {
    let wanted = rank(word)?;
    let connection = Connection::open(server)?;
    let processes = connection.processes(job);
    let inspected = connection.inspected();
    let host = connection.client().hostname();
    connection.close();
    let process = processes
        .map_err(|status| format!("job {job}: {status}"))?
        .into_iter()
        .find(|process| process.proc.rank == wanted)
        .ok_or_else(|| format!("job {job} has no rank {word}"))?;
    if process.hostname.as_ref().is_some_and(|name| name.to_bytes() != host.as_bytes()) {
        return Err(format!("rank {word} of {job} is on another node; ask there"));
    }
    if has_ended(&process) {
        return Err(format!("rank {word} of {job} has ended"));
    }
    let connected = inspected.connections.iter().find(|connection| connection.proc == process.proc);
    let pid = connected.and_then(|connection| connection.pid).unwrap_or(process.pid);
    if pid > 0 { Ok(pid) } else { Err(format!("the server knows no process of rank {word} of {job}")) }
}

/// The file of a process's trace.
///
/// # Errors
/// Why there is none, and what to do.
fn file_of(pid: i32) -> Result<PathBuf, &'static str> {
    let is_on = variable(pid, "PMIX_DSTORE_TRACE").is_some_and(|value| value == "1")
        || log::would_be_on(Level::Trace, Target::Api, |name| variable(pid, name));
    match variable(pid, log::FILE) {
        _ if !is_on => Err(
            "is not traced: start the job with PMIX_DSTORE_TRACE=1 and PMIX_DSTORE_LOG_FILE=/tmp/pmix.%p in its environment",
        ),
        None => Err("writes its trace to its standard error; PMIX_DSTORE_LOG_FILE=/tmp/pmix.%p gives it a file"),
        Some(template) => {
            let path = log::file_name(&template, pid.cast_unsigned());
            let start = std::fs::read_link(format!("/proc/{pid}/cwd")).unwrap_or_default();
            Ok(start.join(path))
        }
    }
}

/// Opens a file for reading, if it is a regular file of the process's user: its name comes from another process.
fn open(path: &Path, pid: i32) -> std::io::Result<File> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    let (found, process) = (file.metadata()?, std::fs::metadata(format!("/proc/{pid}"))?);
    if !found.is_file() || found.uid() != process.uid() {
        return Err(std::io::Error::other("not a regular file of that process's user"));
    }
    Ok(file)
}

/// The whole lines of a file that grows. Longer ones than the library writes are dropped: the file may be anybody's.
struct Lines<R> {
    file: R,
    /// The start of a line whose end is not written yet.
    line: Vec<u8>,
    /// The start of this line was dropped.
    is_too_long: bool,
}

impl<R: BufRead> Lines<R> {
    /// The next line that is whole; `None` if there is none yet.
    fn next(&mut self) -> std::io::Result<Option<String>> {
        while self.file.by_ref().take(LINE_LEN_MAX as u64).read_until(b'\n', &mut self.line)? > 0 {
            let is_whole = self.line.last() == Some(&b'\n');
            if !is_whole && self.line.len() < LINE_LEN_MAX {
                break;
            }
            let was_too_long = std::mem::replace(&mut self.is_too_long, !is_whole);
            let line = String::from_utf8_lossy(&std::mem::take(&mut self.line)).into_owned();
            if is_whole && !was_too_long {
                return Ok(Some(line));
            }
        }
        Ok(None)
    }
}

/// The time and the call of a line: `1700000000.000001 pmix-dstore[17]: PMIx_Get(...) -> PMIX_SUCCESS [...]`. Several processes may
/// share the file.
fn call(line: &str, pid: i32) -> Option<(&str, &str)> {
    let (time, rest) = line.trim_end().split_once(' ')?;
    let call = rest.strip_prefix(&format!("pmix-dstore[{pid}]: "))?;
    Some((time, call.strip_prefix("trace: ").unwrap_or(call))).filter(|(_, call)| call.starts_with("PMIx_"))
}

#[cfg(test)]
mod tests {
    use super::{LINE_LEN_MAX, Lines, call};

    #[test]
    fn a_line_is_shown_when_it_is_whole_and_an_endless_one_never() {
        let endless = "x".repeat(3 * LINE_LEN_MAX);
        let mut lines = Lines {
            file: format!("a\n{endless}\nb\nc").into_bytes().leak() as &[u8],
            line: Vec::new(),
            is_too_long: false,
        };
        let read = std::iter::from_fn(|| lines.next().unwrap()).collect::<Vec<_>>();
        assert_eq!(read, ["a\n", "b\n"]);
        lines.file = b"d\n";
        assert_eq!(lines.next().unwrap().as_deref(), Some("cd\n"));
    }

    #[test]
    fn only_calls_of_the_process_are_shown() {
        let line = "1700000000.000001 pmix-dstore[17]: PMIx_Commit() -> PMIX_SUCCESS [3 us]\n";
        assert_eq!(call(line, 17), Some(("1700000000.000001", "PMIx_Commit() -> PMIX_SUCCESS [3 us]")));
        assert_eq!(call(line, 18), None);
        assert_eq!(call("1700000000.000001 pmix-dstore client job:0: shared memory is used\n", 17), None);
        assert_eq!(call("", 17), None);
    }
}
