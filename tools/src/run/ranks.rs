//! Starting ranks.

use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use libc::rlim_t;
use nix::sys::prctl;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::{SigSet, Signal};
use nix::unistd::Pid;

/// The program of the ranks. The watchdog is forked after this is determined, so no message carries it.
#[derive(Clone)]
pub(super) struct Program {
    /// The program's file.
    pub path: PathBuf,
    /// Its name, as ranks get it in `argv[0]`.
    pub name: OsString,
    /// Its arguments.
    pub args: Vec<OsString>,
}

/// The program's file, searched in `PATH` unless its name contains a directory.
///
/// # Errors
/// A message for the user.
pub(super) fn find_program(program: &OsStr) -> Result<PathBuf, String> {
    let shown = program.to_string_lossy();
    if program.as_encoded_bytes().contains(&b'/') {
        let path = Path::new(program);
        let meta = path.metadata().map_err(|error| format!("{shown}: {error}"))?;
        if meta.is_dir() {
            return Err(format!("{shown} is a directory"));
        }
        if meta.permissions().mode() & 0o111 == 0 {
            return Err(format!("{shown} is not executable (chmod +x it?)"));
        }
        return Ok(path.to_owned());
    }
    let is_program =
        |path: &PathBuf| path.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0);
    let search = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&search).map(|directory| directory.join(program)).find(is_program);
    found.ok_or_else(|| {
        let here = Path::new(program).exists();
        let hint = if here { format!(" (it is in this directory: ./{shown}?)") } else { String::new() };
        format!("{shown}: no such program in PATH{hint}")
    })
}

/// Whether a variable belongs to the PMIx server of an outer launcher. A client would use it, so ranks do not get it.
/// Ranks do get the variables with which users configure the library.
fn is_foreign(name: &OsStr) -> bool {
    let name = name.as_encoded_bytes();
    name.starts_with(b"PMIX_") && !name.starts_with(b"PMIX_MCA_") && name != b"PMIX_DSTORE_SHM"
}

/// Raises the limit of descriptors if it is too low for the pipes and connections of this many ranks. The ranks are not
/// children of this process, so they keep their limit.
pub(super) fn allow_descriptors(ranks: u32) {
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else { return };
    let needed = (64 + 5 * rlim_t::from(ranks)).min(hard);
    if soft < needed {
        // If this fails, starting the rank that gets no descriptor reports an error.
        let _ = setrlimit(Resource::RLIMIT_NOFILE, needed, hard);
    }
}

/// What mpirun tells the ranks of an oversubscribed node: Open MPI 4.1 reads this variable, and not `PMIX_NODE_OVERSUBSCRIBED`. Its ranks
/// yield the processor then while they wait. A user's own value counts.
pub(super) fn when_oversubscribed() -> Option<(String, String)> {
    const VARIABLE: &str = "OMPI_MCA_mpi_oversubscribe";
    std::env::var_os(VARIABLE).is_none().then(|| (VARIABLE.into(), "1".into()))
}

/// Starts a rank in a process group of its own. The rank is killed when the calling process ends. Its streams are the
/// three given ones; it inherits no other descriptor.
///
/// # Errors
/// A message with the reason why the program cannot be started.
pub(super) fn start(
    program: &Program,
    env: Vec<(String, String)>,
    stdin: Option<OwnedFd>,
    stdout: OwnedFd,
    stderr: OwnedFd,
) -> Result<Pid, String> {
    let parent = nix::unistd::getpid();
    let mut command = Command::new(&program.path);
    command.arg0(&program.name).args(&program.args).process_group(0);
    std::env::vars_os().map(|(name, _)| name).filter(|name| is_foreign(name)).for_each(|name| {
        command.env_remove(name);
    });
    command.envs(env);
    // MPI libraries check the variables of known launchers to find out whether they were launched. They accept this one
    // (see the docs).
    command.env("JSM_JSRUN_PORT", "pmixrun");
    command.stdin(stdin.map_or_else(Stdio::null, Stdio::from)).stdout(stdout).stderr(stderr);
    // SAFETY: between fork and exec the closure makes only async-signal-safe system calls: sigprocmask, prctl, getppid.
    // It allocates nothing and takes no lock.
    unsafe {
        command.pre_exec(move || {
            SigSet::empty().thread_set_mask()?;
            prctl::set_pdeathsig(Signal::SIGKILL)?;
            // The parent may have ended before prctl was called.
            if nix::unistd::getppid() == parent { Ok(()) } else { Err(nix::errno::Errno::ESRCH.into()) }
        });
    }
    let child = command.spawn().map_err(|error| format!("cannot start {}: {error}", program.path.display()))?;
    Ok(Pid::from_raw(child.id() as i32))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_librarys_own_variables_are_passed_on() {
        for name in ["PMIX_RANK", "PMIX_SERVER_URI61", "PMIX_DSTORE_SECRET"] {
            assert!(is_foreign(OsStr::new(name)), "{name}");
        }
        for name in ["PMIX_MCA_gds", "PMIX_DSTORE_SHM", "OMPI_MCA_btl", "PATH"] {
            assert!(!is_foreign(OsStr::new(name)), "{name}");
        }
    }

    #[test]
    fn programs_are_found_or_their_absence_is_explained() {
        assert!(find_program(OsStr::new("sh")).is_ok());
        assert!(find_program(OsStr::new("/bin/sh")).is_ok());
        for (program, word) in
            [("no-such-program", "no such program"), ("/etc", "directory"), ("/etc/passwd", "not executable")]
        {
            let error = find_program(OsStr::new(program)).unwrap_err();
            assert!(error.contains(word), "{error}");
        }
    }
}
