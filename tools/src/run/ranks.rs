//! The processes of the job: starting them, telling them to end, and how they ended.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};

use nix::sys::prctl;
use nix::sys::signal::{SigSet, Signal, killpg};
use nix::unistd::{Pid, getpid, getppid};

/// How one rank is started.
pub struct Start<'a> {
    /// Program and arguments.
    pub command: &'a [OsString],
    /// Variables to set.
    pub env: &'a [(String, String)],
    /// Working directory.
    pub wdir: &'a Path,
    /// Whether it gets a pipe as standard input, rather than nothing.
    pub stdin: bool,
}

/// A started rank.
pub struct Rank {
    /// Its rank.
    pub rank: u32,
    child: Child,
    ended: Option<ExitStatus>,
}

/// The ends of a rank's streams that stay here.
pub struct Streams {
    /// Where its standard input comes from, if it has one.
    pub stdin: Option<File>,
    /// Its standard output.
    pub stdout: File,
    /// Its standard error.
    pub stderr: File,
}

/// What an environment inherited from another PMIx launcher would wrongly tell a rank.
fn is_foreign(name: &str) -> bool {
    name.starts_with("PMIX_") && !name.starts_with("PMIX_MCA_") && name != "PMIX_DSTORE_SHM"
}

impl Rank {
    /// Starts a rank in a process group of its own. It is killed when this process dies.
    ///
    /// # Errors
    /// What `fork` or `exec` said; a missing program is `NotFound`.
    pub fn start(rank: u32, start: &Start<'_>) -> io::Result<(Rank, Streams)> {
        let mut command = Command::new(&start.command[0]);
        command.args(&start.command[1..]).current_dir(start.wdir).process_group(0);
        for (name, _) in std::env::vars_os() {
            if name.to_str().is_some_and(is_foreign) {
                command.env_remove(name);
            }
        }
        command.envs(start.env.iter().map(|(name, value)| (name, value)));
        command.stdin(if start.stdin { Stdio::piped() } else { Stdio::null() });
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let launcher = getpid();
        let prepare = move || -> io::Result<()> {
            prctl::set_pdeathsig(Signal::SIGKILL)?;
            // It may have died before the line above.
            if getppid() != launcher {
                return Err(io::Error::other("pmixrun has ended"));
            }
            // Signals that are blocked here, to be read from a descriptor, are not meant to be blocked there.
            SigSet::empty().thread_set_mask()?;
            Ok(())
        };
        // SAFETY: the closure runs between fork and exec and calls prctl, getppid and sigprocmask only, which are
        // async-signal-safe; its error allocates only where exec is not reached anyway.
        let mut child = unsafe { command.pre_exec(prepare) }.spawn()?;
        let file = |fd: OwnedFd| File::from(fd);
        let stdin = child.stdin.take().map(|pipe| file(pipe.into()));
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let (Some(stdout), Some(stderr)) = (stdout, stderr) else {
            return Err(io::Error::other("the process has no pipes"));
        };
        let streams = Streams { stdin, stdout: file(stdout.into()), stderr: file(stderr.into()) };
        Ok((Rank { rank, child, ended: None }, streams))
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Whether it has not been seen to end.
    pub fn is_running(&self) -> bool {
        self.ended.is_none()
    }

    /// How it ended, the first time that this is known.
    pub fn poll_end(&mut self) -> Option<ExitStatus> {
        if self.ended.is_some() {
            return None;
        }
        // An error means that somebody else took its status, which no part of this program does.
        self.ended = self.child.try_wait().ok().flatten();
        self.ended
    }

    /// Sends a signal to the rank and what it started.
    pub fn signal(&self, signal: Signal) {
        if self.is_running() {
            // Ended meanwhile: it is about to be noticed.
            let _ = killpg(Pid::from_raw(self.pid() as i32), signal);
        }
    }
}

/// The exit status of a shell for a process that ended so.
pub fn shell_status(status: ExitStatus) -> u8 {
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
    code as u8
}

/// In words, how a process ended.
pub fn describe(status: ExitStatus) -> String {
    match status.signal() {
        Some(number) => match Signal::try_from(number) {
            Ok(signal) => format!("was killed by signal {number} ({signal})"),
            Err(_) => format!("was killed by signal {number}"),
        },
        None => format!("exited with status {}", status.code().unwrap_or(0)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_is_told_as_a_shell_does() {
        for (raw, status, words) in [
            (0, 0, "exited with status 0"),
            (3 << 8, 3, "exited with status 3"),
            (9, 137, "was killed by signal 9 (SIGKILL)"),
            (11, 139, "was killed by signal 11 (SIGSEGV)"),
        ] {
            let ended = ExitStatus::from_raw(raw);
            assert_eq!((shell_status(ended), describe(ended).as_str()), (status, words));
        }
    }

    #[test]
    fn another_launchers_variables_are_not_passed_on() {
        for name in ["PMIX_RANK", "PMIX_NAMESPACE", "PMIX_SERVER_URI4", "PMIX_DSTORE_SECRET"] {
            assert!(is_foreign(name), "{name}");
        }
        for name in ["PMIX_MCA_gds", "PMIX_DSTORE_SHM", "PATH", "OMPI_MCA_btl"] {
            assert!(!is_foreign(name), "{name}");
        }
    }
}
