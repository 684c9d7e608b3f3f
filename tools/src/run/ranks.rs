//! Starting ranks.

use std::collections::BTreeMap;
use std::ffi::{CStr, CString, OsStr, OsString};
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use libc::rlim_t;
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, FdFlag, OFlag, fcntl};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::{SigHandler, SigSet, Signal, signal};
use nix::sys::{prctl, ptrace};
use nix::unistd::{
    AccessFlags, ForkResult, Pid, access, chdir, dup2_stderr, dup2_stdin, dup2_stdout, execve, fork, getpid, getppid,
    pipe2, read, setpgid, write,
};

use pmix_dstore::settings;

use super::args::{AppArgs, Library};

/// A variable of a known launcher. MPI libraries check those to find out whether they were launched, and accept this one (docs/hosts.md).
const LAUNCHED: (&str, &str) = ("JSM_JSRUN_PORT", "pmixrun");

/// The program of an application's ranks.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Program {
    /// The program's file.
    pub path: PathBuf,
    /// Its name, as ranks get it in `argv[0]`.
    pub name: OsString,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// Variables that its ranks get beside, or instead of, those of this process.
    pub variables: Vec<(OsString, OsString)>,
    /// The directory in which it starts, if it is not this process's.
    pub wdir: Option<PathBuf>,
    /// Whether it is to stop before its first instruction.
    pub stops_on_exec: bool,
}

impl Program {
    /// The program of an application.
    ///
    /// # Errors
    /// A message for the user.
    pub fn of(app: &AppArgs, library: &Library, stops_on_exec: bool) -> Result<Program, String> {
        let wdir = app.wdir.as_ref().map(|directory| working_directory(directory)).transpose();
        let wdir = wdir.map_err(|why| format!("--wdir {why}"))?;
        let path = find_program(&app.program, wdir.as_deref())?;
        let mut variables = app.variables.clone();
        variables.extend(wdir.iter().map(|directory| ("PWD".into(), directory.clone().into_os_string())));
        let search = search_path(library, &variables)?;
        variables.extend(search.map(|search| (LD_LIBRARY_PATH.into(), search)));
        let (name, words) = (app.program.clone(), app.args.clone());
        Ok(Program { path, name, args: words, variables, wdir, stops_on_exec })
    }

    /// The words of its command line, as text.
    pub fn line(&self) -> String {
        let words = std::iter::once(&self.name).chain(&self.args).map(|word| word.to_string_lossy());
        words.collect::<Vec<_>>().join(" ")
    }
}

/// The whole path of a directory in which ranks can start.
///
/// # Errors
/// Why they cannot.
pub(super) fn working_directory(directory: &Path) -> Result<PathBuf, String> {
    let words = |error: &dyn std::fmt::Display| format!("{}: {error}", directory.display());
    let path = std::path::absolute(directory).map_err(|error| words(&error))?;
    match path.metadata() {
        Err(error) => Err(words(&error)),
        Ok(meta) if !meta.is_dir() => Err(words(&"not a directory")),
        Ok(_) => access(&path, AccessFlags::X_OK).map_err(|error| words(&error.desc())).map(|()| path),
    }
}

const LD_LIBRARY_PATH: &str = "LD_LIBRARY_PATH";
const LIBRARY: &str = "libpmix.so.2";

/// The ranks' `LD_LIBRARY_PATH`, if it is not to stay as it is.
///
/// # Errors
/// A message for the user: a directory without the library.
fn search_path(library: &Library, variables: &[(OsString, OsString)]) -> Result<Option<OsString>, String> {
    let before = given_path(variables);
    let directory = match library {
        Library::System => return Ok(None),
        Library::In(directory) => {
            std::path::absolute(directory).ok().filter(|directory| has_library(directory)).ok_or_else(|| {
                format!(
                    "--lib {}: there is no {LIBRARY} in this directory; name one that has it, or system",
                    directory.display()
                )
            })?
        }
        Library::Own => {
            let own = std::env::current_exe().ok().and_then(|path| Some(path.parent()?.parent()?.join("lib")));
            match own.filter(|own| chosen_library(variables).is_none() && has_library(own)) {
                Some(own) => own,
                None => return Ok(None),
            }
        }
    };
    let list = std::iter::once(directory).chain(before.iter().flat_map(std::env::split_paths));
    std::env::join_paths(list).map(Some).map_err(|error| format!("the directory of {LIBRARY}: {error}"))
}

/// The `LD_LIBRARY_PATH` that the user has set for the ranks.
fn given_path(variables: &[(OsString, OsString)]) -> Option<OsString> {
    let set = variables.iter().rev().find(|(name, _)| name == LD_LIBRARY_PATH).map(|(_, value)| value.clone());
    set.or_else(|| std::env::var_os(LD_LIBRARY_PATH)).filter(|list| !list.is_empty())
}

fn has_library(directory: &Path) -> bool {
    directory.join(LIBRARY).exists()
}

/// The first PMIx library to which the user's own `LD_LIBRARY_PATH` leads.
pub(super) fn chosen_library(variables: &[(OsString, OsString)]) -> Option<PathBuf> {
    let list = given_path(variables)?;
    let found = std::env::split_paths(&list).find(|directory| has_library(directory))?;
    Some(found.join(LIBRARY))
}

/// The program's file, searched in `PATH` unless its name contains a directory. A relative one is below the ranks' directory.
///
/// # Errors
/// A message for the user.
fn find_program(program: &OsStr, wdir: Option<&Path>) -> Result<PathBuf, String> {
    let shown = program.to_string_lossy();
    if program.is_empty() {
        return Err("the program's name is empty: a variable on the command line has no value?".to_owned());
    }
    if program.as_encoded_bytes().contains(&b'/') {
        let path = wdir.map_or_else(|| PathBuf::from(program), |directory| directory.join(program));
        let below = |error| match std::path::absolute(&path) {
            Ok(path) if program.as_encoded_bytes()[0] != b'/' => {
                format!("the program {shown}, which is {}: {error}", path.display())
            }
            _ => format!("the program {shown}: {error}"),
        };
        let meta = path.metadata().map_err(below)?;
        if meta.is_dir() {
            return Err(format!("the program {shown} is a directory; name a file in it"));
        }
        if meta.permissions().mode() & 0o111 == 0 {
            return Err(format!("the program {shown} is not executable (chmod +x it?)"));
        }
        return Ok(path);
    }
    let is_program =
        |path: &PathBuf| path.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0);
    let search = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&search).map(|directory| directory.join(program)).find(is_program);
    found.ok_or_else(|| {
        let beside = std::env::current_exe().ok().and_then(|own| Some(own.parent()?.join(program))).filter(is_program);
        let hint = match beside {
            _ if Path::new(program).exists() => format!(" (it is in this directory: ./{shown}?)"),
            Some(beside) => format!(" (it is beside pmixrun: {}?)", beside.display()),
            None => "; check the name, or give the program's path".to_owned(),
        };
        format!("{shown}: no such program in PATH{hint}")
    })
}

/// The variable with the descriptor by which a rank speaks PMI-1.
const PMI_FD: &str = "PMI_FD";

/// Descriptors that the launcher may need for this many ranks: pipes, connections and what it opens for itself.
fn descriptors_for(ranks: u32) -> rlim_t {
    64 + 6 * rlim_t::from(ranks)
}

/// Raises the limit of descriptors if it is too low for this many ranks. The ranks are not children of this process, so they keep their
/// limit.
pub(super) fn allow_descriptors(ranks: u32) {
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else { return };
    let needed = descriptors_for(ranks).min(hard);
    if soft < needed {
        // If this fails, starting the rank that gets no descriptor reports an error.
        let _ = setrlimit(Resource::RLIMIT_NOFILE, needed, hard);
    }
}

/// What to add to the words of an error: where descriptors have run out, how many are needed, and which limit it is.
pub(super) fn hint_on_descriptors(error: &std::io::Error, ranks: u32) -> String {
    if error.raw_os_error() != Some(libc::EMFILE) {
        return String::new();
    }
    let limit = getrlimit(Resource::RLIMIT_NOFILE).map_or(0, |(_, hard)| hard);
    let ranks_text = if ranks == 1 { "a rank".to_owned() } else { format!("{ranks} ranks") };
    format!(
        "; {ranks_text} may need {} descriptors, and the limit of open files (ulimit -Hn) is {limit}: raise it, or start fewer ranks",
        descriptors_for(ranks)
    )
}

/// Lets a write beyond the limit of a file's size fail instead of ending this process. Ranks have the default again.
pub(super) fn bear_full_files() -> Result<(), String> {
    // SAFETY: to ignore a signal is no function of ours.
    unsafe { signal(Signal::SIGXFSZ, SigHandler::SigIgn) }.map(drop).map_err(|error| format!("SIGXFSZ: {error}"))
}

/// What mpirun tells the ranks of an oversubscribed node: Open MPI 4.1 reads this variable, and not `PMIX_NODE_OVERSUBSCRIBED`. Its ranks
/// yield the processor then while they wait. A user's own value counts.
pub(super) fn when_oversubscribed() -> Option<(String, String)> {
    const VARIABLE: &str = "OMPI_MCA_mpi_oversubscribe";
    std::env::var_os(VARIABLE).is_none().then(|| (VARIABLE.into(), "1".into()))
}

/// How all ranks are started: what does not depend on the rank, made once.
pub(super) struct Start {
    path: CString,
    argv: Vec<CString>,
    /// The variables of this process that ranks get, as `NAME=VALUE`.
    env: Vec<CString>,
    wdir: Option<PathBuf>,
    stops_on_exec: bool,
}

/// The descriptors that a rank gets.
pub(super) struct Given {
    /// Its standard input; without one, that of this process.
    pub stdin: Option<OwnedFd>,
    /// Its standard output.
    pub stdout: OwnedFd,
    /// Its standard error.
    pub stderr: OwnedFd,
    /// Its connection to the launcher's PMI-1 server, if it may speak PMI-1. It keeps its number, which the rank learns from `PMI_FD`.
    pub pmi: Option<OwnedFd>,
}

/// A rank's process, which may not run its program yet.
pub(super) struct Starting {
    pub pid: Pid,
    /// The child writes an error number to its end if the program cannot be started; it is closed when the program runs.
    failure: OwnedFd,
}

impl Start {
    /// # Errors
    /// A message for the user: a word of the command line has a NUL.
    pub fn new(program: &Program) -> Result<Start, String> {
        let words =
            |word: &OsStr| CString::new(word.as_bytes()).map_err(|_| format!("{}: has a NUL", word.to_string_lossy()));
        let is_set = |name: &OsStr| program.variables.iter().any(|(set, _)| set == name);
        let passed_on = std::env::vars_os()
            .filter(|(name, _)| !settings::is_of_launcher(name) && name != LAUNCHED.0 && !is_set(name));
        // The last of several values of a variable counts.
        let set: BTreeMap<&OsString, &OsString> = program.variables.iter().map(|(name, value)| (name, value)).collect();
        let set = set.into_iter().map(|(name, value)| (name.clone(), value.clone()));
        let inherited = passed_on.chain(set).map(|(name, value)| [name.as_bytes(), b"=", value.as_bytes()].concat());
        let all = inherited.chain([format!("{}={}", LAUNCHED.0, LAUNCHED.1).into_bytes()]);
        Ok(Start {
            path: words(program.path.as_os_str())?,
            argv: std::iter::once(&program.name)
                .chain(&program.args)
                .map(|word| words(word))
                .collect::<Result<_, _>>()?,
            env: all.filter_map(|variable| CString::new(variable).ok()).collect(),
            wdir: program.wdir.clone(),
            stops_on_exec: program.stops_on_exec,
        })
    }

    /// Starts a rank in a process group of its own, with these variables beside those of this process. The rank is killed when the
    /// calling process ends, which has one thread. It inherits the given descriptors and no other. The program may not run yet:
    /// [`Starting::outcome`] tells.
    ///
    /// # Errors
    /// A message with the reason why there is no process.
    pub fn begin(&self, env: &[(String, String)], given: &Given) -> Result<Starting, String> {
        let is_replaced = |variable: &CString| {
            let bytes = variable.as_bytes();
            env.iter().any(|(name, _)| bytes.strip_prefix(name.as_bytes()).is_some_and(|rest| rest.starts_with(b"=")))
        };
        let own = env.iter().map(|(name, value)| format!("{name}={value}"));
        let own = own.chain(given.pmi.as_ref().map(|pmi| format!("{PMI_FD}={}", pmi.as_raw_fd())));
        let own: Vec<CString> = own.filter_map(|variable| CString::new(variable).ok()).collect();
        let env: Vec<&CStr> =
            self.env.iter().filter(|variable| !is_replaced(variable)).chain(&own).map(|it| &**it).collect();
        let argv: Vec<&CStr> = self.argv.iter().map(|word| &**word).collect();
        let words = |error| self.words(error);
        let (failure, report) = pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK).map_err(words)?;
        let parent = getpid();
        // SAFETY: this process has one thread, so the child is not restricted to async-signal-safe functions.
        match unsafe { fork() }.map_err(words)? {
            ForkResult::Parent { child } => {
                // Parent and child both set the group, so that it is set before either continues. Ignore an error: the child may run its
                // program or have ended already.
                let _ = setpgid(child, child);
                Ok(Starting { pid: child, failure })
            }
            ForkResult::Child => {
                let Err(error) = become_rank(parent, given)
                    .and_then(|()| self.wdir.as_deref().map_or(Ok(()), chdir))
                    .and_then(|()| if self.stops_on_exec { ptrace::traceme() } else { Ok(()) })
                    .and_then(|()| execve(&self.path, &argv, &env));
                let _ = write(&report, &(error as i32).to_ne_bytes());
                // SAFETY: ends the process without running what the parent has registered for its own end.
                unsafe { libc::_exit(127) }
            }
        }
    }

    /// The message for a user of this outcome of a start.
    pub fn words(&self, error: Errno) -> String {
        let path = self.path.to_string_lossy();
        let hint = match error {
            Errno::EAGAIN => " (the limit of this user's processes may be reached: ulimit -u)".to_owned(),
            // In some containers.
            Errno::EPERM if self.stops_on_exec => " (--stop-on-exec needs permission for ptrace)".to_owned(),
            Errno::ENOENT => match interpreter(Path::new(OsStr::from_bytes(self.path.as_bytes()))) {
                Some(interpreter) => format!(" (its first line asks for {interpreter}, which is not there)"),
                None => " (it may ask for a loader that is not there: ldd shows it)".to_owned(),
            },
            Errno::ENOEXEC => {
                " (it is no program for this machine, and no script with #! in its first line)".to_owned()
            }
            _ => String::new(),
        };
        format!("cannot start {path}: {}{hint}", error.desc())
    }
}

/// The program that a script's first line asks for.
fn interpreter(path: &Path) -> Option<String> {
    let mut line = Vec::new();
    BufReader::new(File::open(path).ok()?.take(256)).read_until(b'\n', &mut line).ok()?;
    let line = String::from_utf8_lossy(line.strip_prefix(b"#!")?).into_owned();
    line.split_whitespace().next().map(str::to_owned)
}

impl Starting {
    /// Whether the program runs or cannot be started; none while that is not known yet. [`Starting::fd`] becomes readable then.
    pub fn outcome(&self) -> Option<Result<(), Errno>> {
        let mut number = [0; 4];
        match read(&self.failure, &mut number) {
            Ok(0) => Some(Ok(())),
            Ok(_) => Some(Err(Errno::from_raw(i32::from_ne_bytes(number)))),
            Err(Errno::EAGAIN | Errno::EINTR) => None,
            Err(error) => Some(Err(error)),
        }
    }

    /// Readable when the outcome is known.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.failure.as_fd()
    }
}

/// Gives this new process what a rank has before its program runs.
fn become_rank(parent: Pid, given: &Given) -> Result<(), Errno> {
    setpgid(Pid::from_raw(0), Pid::from_raw(0))?;
    if let Some(stdin) = &given.stdin {
        dup2_stdin(stdin)?;
    }
    dup2_stdout(&given.stdout)?;
    dup2_stderr(&given.stderr)?;
    if let Some(pmi) = &given.pmi {
        fcntl(pmi, FcntlArg::F_SETFD(FdFlag::empty()))?;
    }
    // SAFETY: the default action is no function of ours. Rust programs ignore the signal, and children inherit that.
    unsafe { signal(Signal::SIGPIPE, SigHandler::SigDfl) }?;
    // SAFETY: as above. The launcher ignores this one, too.
    unsafe { signal(Signal::SIGXFSZ, SigHandler::SigDfl) }?;
    SigSet::empty().thread_set_mask()?;
    prctl::set_pdeathsig(Signal::SIGKILL)?;
    // The parent may have ended before prctl was called.
    if getppid() == parent { Ok(()) } else { Err(Errno::ESRCH) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_librarys_own_variables_are_passed_on() {
        for name in [
            "PMIX_RANK",
            "PMIX_SERVER_URI61",
            "PMIX_DSTORE_SECRET",
            "PMIX_DSTORE_SEGMENTS",
            "PMIX_DSTORE_INODE",
            "PMI_FD",
            "PMI_PORT",
        ] {
            assert!(settings::is_of_launcher(OsStr::new(name)), "{name}");
        }
        for name in [
            "PMIX_MCA_gds",
            "PMIX_DSTORE_SHM",
            "PMIX_DSTORE_LOG",
            "PMIX_DSTORE_TRACE",
            "PMIX_DSTORE_RECORD",
            "OMPI_MCA_btl",
            "PMI_DEBUG",
            "PATH",
        ] {
            assert!(!settings::is_of_launcher(OsStr::new(name)), "{name}");
        }
    }

    #[test]
    fn a_relative_program_is_below_the_ranks_directory() {
        assert_eq!(find_program(OsStr::new("bin/sh"), Some(Path::new("/usr"))), Ok("/usr/bin/sh".into()));
        assert!(working_directory(Path::new("/no/such")).unwrap_err().contains("/no/such: No such file"));
        assert!(working_directory(Path::new("/etc/passwd")).unwrap_err().contains("not a directory"));
    }

    #[test]
    fn the_users_search_path_counts_unless_a_library_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let set = |value: &str| vec![(OsString::from(LD_LIBRARY_PATH), OsString::from(value))];
        let named = Library::In(directory.path().into());
        assert!(search_path(&named, &[]).unwrap_err().contains("there is no libpmix.so.2"));
        std::fs::write(directory.path().join(LIBRARY), "").unwrap();
        let with = format!("{}:/a", directory.path().display());
        assert_eq!(search_path(&named, &set("/a")), Ok(Some(with.clone().into())));
        assert_eq!(search_path(&Library::System, &set("/a")), Ok(None));
        // Another library is chosen, whether or not this program has one beside it.
        assert_eq!(search_path(&Library::Own, &set(&with)), Ok(None));
    }

    #[test]
    fn programs_are_found_or_their_absence_is_explained() {
        assert!(find_program(OsStr::new("sh"), None).is_ok());
        assert!(find_program(OsStr::new("/bin/sh"), None).is_ok());
        for (program, word) in
            [("no-such-program", "no such program"), ("/etc", "directory"), ("/etc/passwd", "not executable")]
        {
            let error = find_program(OsStr::new(program), None).unwrap_err();
            assert!(error.contains(word), "{error}");
        }
    }
}
