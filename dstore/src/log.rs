//! The log: lines with a level and a target, from every part of the library, to standard error or to a file.
//!
//! `PMIX_DSTORE_LOG` sets the levels, `PMIX_DSTORE_LOG_FILE` names the file. They are read when a process first asks for a level. Nothing
//! stays open between lines: a file is opened for each line, so that the log takes no descriptor of the program's, a forked child
//! writes to a file of its own, and a file that is moved away is made anew.

use std::ffi::{OsStr, OsString};
use std::fmt::{self, Display};
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::PathBuf;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use crate::cancel::Uncancelled;
use crate::environment;
use crate::texts::{Names, names_len};

/// `error`, `warn`, `info`, `debug` or `trace`, alone or for one target (`store=debug`); several are separated by commas.
const LEVELS: &str = "PMIX_DSTORE_LOG";
/// The file, in whose name `%p` stands for the process id, `%h` for the name of the machine and `%%` for `%`.
pub const FILE: &str = "PMIX_DSTORE_LOG_FILE";
/// More characters than any path has.
const LINE_LEN_MAX: usize = 6000;

/// How much a line matters. The more serious levels are the lower ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Something does not work.
    Error,
    /// A fault that the library works around, or that a peer or user made. The default shows these and errors.
    Warn,
    /// What settings have led to.
    Info,
    /// Steps of the library.
    Debug,
    /// Each call of the C interface.
    Trace,
}

impl Level {
    const ALL: &[(Level, &str)] = &[
        (Level::Error, "error"),
        (Level::Warn, "warn"),
        (Level::Info, "info"),
        (Level::Debug, "debug"),
        (Level::Trace, "trace"),
    ];

    /// The level of this name, in whatever case.
    fn read(name: &str) -> Option<Level> {
        LEVEL_NAMES.number(name)
    }

    fn name(self) -> &'static str {
        LEVEL_NAMES.name(self).unwrap_or_default()
    }

    /// The level of a verbosity of OpenPMIx, where 0 adds nothing.
    fn of_verbosity(number: i64) -> Option<Level> {
        match number {
            ..=0 => None,
            1 => Some(Level::Info),
            2..=9 => Some(Level::Debug),
            _ => Some(Level::Trace),
        }
    }
}

/// What a line is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// The server, its jobs and collectives.
    Server,
    /// A rank's own calls.
    Client,
    /// A tool.
    Tool,
    /// Shared memory.
    Store,
    /// Connections and handshakes.
    Connection,
    /// Forwarded output.
    Output,
    /// The C interface.
    Api,
}

impl Target {
    const ALL: &[(Target, &str)] = &[
        (Target::Server, "server"),
        (Target::Client, "client"),
        (Target::Tool, "tool"),
        (Target::Store, "store"),
        (Target::Connection, "connection"),
        (Target::Output, "output"),
        (Target::Api, "api"),
    ];

    /// The target of this name, in whatever case.
    fn read(name: &str) -> Option<Target> {
        TARGET_NAMES.number(name)
    }
}

static LEVEL_NAMES: Names<Level, { Level::ALL.len() }, { names_len(Level::ALL) }> = Names::new(Level::ALL);
static TARGET_NAMES: Names<Target, { Target::ALL.len() }, { names_len(Target::ALL) }> = Names::new(Target::ALL);

/// OpenPMIx's variables for what a target stands for, as that library's users know them.
const VERBOSE: &[(Target, &str)] = &[
    (Target::Store, "PMIX_MCA_gds_base_verbose"),
    (Target::Connection, "PMIX_MCA_ptl_base_verbose"),
    (Target::Connection, "PMIX_MCA_psec_base_verbose"),
    (Target::Client, "PMIX_MCA_pmix_client_base_verbose"),
    (Target::Client, "PMIX_MCA_pmix_client_get_verbose"),
    (Target::Client, "PMIX_MCA_pmix_client_connect_verbose"),
    (Target::Client, "PMIX_MCA_pmix_client_fence_verbose"),
    (Target::Client, "PMIX_MCA_pmix_client_pub_verbose"),
    (Target::Client, "PMIX_MCA_pmix_client_spawn_verbose"),
    (Target::Client, "PMIX_MCA_pmix_client_event_verbose"),
    (Target::Output, "PMIX_MCA_pmix_client_iof_verbose"),
    (Target::Server, "PMIX_MCA_pmix_server_base_verbose"),
    (Target::Server, "PMIX_MCA_pmix_server_get_verbose"),
    (Target::Server, "PMIX_MCA_pmix_server_connect_verbose"),
    (Target::Server, "PMIX_MCA_pmix_server_fence_verbose"),
    (Target::Server, "PMIX_MCA_pmix_server_pub_verbose"),
    (Target::Server, "PMIX_MCA_pmix_server_event_verbose"),
    (Target::Output, "PMIX_MCA_pmix_server_iof_verbose"),
];
static VERBOSE_NAMES: Names<Target, { VERBOSE.len() }, { names_len(VERBOSE) }> = Names::new(VERBOSE);

/// Who writes a line: the line's beginning.
#[derive(Clone, Copy)]
pub enum Writer<'a> {
    /// The server of this process.
    Server,
    /// The client of this process, by its name.
    Client(&'a dyn Display),
    /// This process as a tool.
    Tool,
    /// The library.
    Library,
    /// The library, in a line that must tell which process it is about.
    Process,
}

impl Display for Writer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pid = std::process::id();
        match self {
            Writer::Server => write!(f, "pmix-dstore server {pid}: "),
            Writer::Client(me) => write!(f, "pmix-dstore client {me}: "),
            Writer::Tool => write!(f, "pmix-dstore tool {pid}: "),
            Writer::Library => f.write_str("pmix-dstore: "),
            Writer::Process => write!(f, "pmix-dstore[{pid}]: "),
        }
    }
}

/// The settings of a process.
#[derive(Debug, PartialEq)]
struct Settings {
    levels: [Level; Target::ALL.len()],
    file: Option<OsString>,
}

/// The settings of this process. What is wrong with them becomes a line when they are read.
static SETTINGS: LazyLock<Settings> = LazyLock::new(|| {
    let is_meant = |variable: &[u8]| {
        let is_verbosity = || variable.windows(9).any(|part| part == b"_verbose=");
        variable.starts_with(LEVELS.as_bytes()) || variable.starts_with(b"PMIX_MCA_") && is_verbosity()
    };
    if !environment::has(is_meant) {
        return Settings { levels: [Level::Warn; Target::ALL.len()], file: None };
    }
    let (settings, wrong) = Settings::read(|name| std::env::var_os(name));
    // A rank has the variables from where its server has them, and the server tells.
    let has_server = || environment::has(|variable| variable.starts_with(b"PMIX_SERVER_URI"));
    let wrong = if wrong.is_empty() || has_server() { Vec::new() } else { wrong };
    wrong.iter().for_each(|line| settings.put(&one_line(&format_args!("{}{line}", Writer::Library))));
    settings
});
/// Whether a line tells that the file cannot be written.
static FILE_IS_UNUSABLE: AtomicBool = AtomicBool::new(false);

impl Settings {
    /// Reads the variables; returns lines about bad values, too.
    fn read(lookup: impl Fn(&str) -> Option<OsString>) -> (Settings, Vec<String>) {
        let lookup = |name| lookup(name).filter(|value| !value.is_empty());
        let mut levels = [Level::Warn; Target::ALL.len()];
        let mut wrong = Vec::new();
        if let Some(text) = lookup(LEVELS) {
            let text = text.to_string_lossy();
            let words = || text.split(',').map(str::trim).filter(|word| !word.is_empty());
            // A target's own level counts wherever it stands in the list.
            for word in words().filter(|word| !word.contains('=')) {
                match Level::read(word) {
                    Some(level) => levels = [level; Target::ALL.len()],
                    None => wrong.push(bad_word(word)),
                }
            }
            for (word, (target, level)) in words().filter_map(|word| Some((word, word.split_once('=')?))) {
                match (Target::read(target.trim()), Level::read(level.trim())) {
                    (Some(target), Some(level)) => levels[target as usize] = level,
                    _ => wrong.push(bad_word(word)),
                }
            }
        }
        for (target, name) in VERBOSE_NAMES.rows() {
            let Some(text) = lookup(name) else { continue };
            match text.to_str().and_then(|text| text.trim().parse().ok()).map(Level::of_verbosity) {
                Some(Some(level)) => levels[target as usize] = level.max(levels[target as usize]),
                Some(None) => {}
                None => wrong.push(format!("{name}={} is ignored: it is not a number", text.to_string_lossy())),
            }
        }
        // Where the program has more rights than its user, the user does not choose a file.
        let file = lookup(FILE).filter(|_| !environment::is_privileged());
        let file = file.map(|file| std::path::absolute(&file).map_or(file, PathBuf::into_os_string));
        (Settings { levels, file }, wrong)
    }

    /// Writes a line that is ready.
    fn put(&self, line: &str) {
        let _uncancelled = Uncancelled::begin();
        if let Some(file) = &self.file {
            let path = file_name(file, std::process::id());
            match append(&path, line) {
                Ok(()) => return,
                Err(error) if !FILE_IS_UNUSABLE.swap(true, Ordering::Relaxed) => {
                    let place = path.display();
                    let why = format!("{FILE}: {place}: {error}; lines go to standard error");
                    to_stderr(&one_line(&format_args!("{}{why}", Writer::Library)));
                }
                Err(_) => {}
            }
        }
        to_stderr(line);
    }
}

fn bad_word(word: &str) -> String {
    let targets: Vec<&str> = TARGET_NAMES.rows().map(|(_, name)| name).collect();
    let targets = targets.join(", ");
    format!(
        "{LEVELS}: {word} is ignored: a level is error, warn, info, debug or trace, alone or as TARGET=LEVEL; targets are {targets}"
    )
}

/// The path of a process's file, from the value of [`FILE`].
pub fn file_name(template: &OsStr, pid: u32) -> PathBuf {
    let mut path = Vec::new();
    let mut bytes = template.as_bytes().iter().copied();
    while let Some(byte) = bytes.next() {
        match (byte, if byte == b'%' { bytes.next() } else { None }) {
            (b'%', Some(b'p')) => path.extend_from_slice(pid.to_string().as_bytes()),
            (b'%', Some(b'h')) => path.extend(nix::unistd::gethostname().map(OsString::into_vec).unwrap_or_default()),
            (b'%', Some(b'%')) => path.push(b'%'),
            (byte, other) => path.extend([byte].into_iter().chain(other)),
        }
    }
    PathBuf::from(OsString::from_vec(path))
}

/// Appends a line with the time, as seconds since 1970, to a file of this user's own.
fn append(path: &PathBuf, line: &str) -> io::Result<()> {
    // Neither a link nor a pipe or device that another user may have put there.
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC;
    let mut file = OpenOptions::new().append(true).create(true).mode(0o600).custom_flags(flags).open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() || metadata.uid() != nix::unistd::geteuid().as_raw() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file of this user's own"));
    }
    let time = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    // In one piece, since several processes may share the file.
    file.write_all(format!("{}.{:06} {line}", time.as_secs(), time.subsec_micros()).as_bytes())
}

fn to_stderr(line: &str) {
    // In one piece, since the processes of a job may share a terminal. A process may have closed its standard error; there is nowhere
    // else to complain.
    let _ = io::stderr().write_all(line.as_bytes());
}

/// The text as one line of limited length: control characters, which names of peers may contain, are escaped.
fn one_line(text: &dyn Display) -> String {
    text.to_string().chars().take(LINE_LEN_MAX).map(escaped).chain(["\n".to_owned()]).collect()
}

/// A character as it may be shown on a terminal: a control character is escaped.
pub fn escaped(character: char) -> String {
    if character.is_control() { character.escape_default().collect() } else { String::from(character) }
}

/// Whether lines of this level about this target are written: for callers to whom making a line is work.
pub fn is_on(level: Level, target: Target) -> bool {
    level <= SETTINGS.levels[target as usize]
}

/// As [`is_on`], of a process with these variables.
pub fn would_be_on(level: Level, target: Target, lookup: impl Fn(&str) -> Option<OsString>) -> bool {
    level <= Settings::read(lookup).0.levels[target as usize]
}

/// Writes a line, if its level is on. A line that is not a warning or an error begins with its level.
pub fn write(level: Level, target: Target, writer: Writer<'_>, line: fmt::Arguments<'_>) {
    if is_on(level, target) {
        let level = if level > Level::Warn { format!("{}: ", level.name()) } else { String::new() };
        SETTINGS.put(&one_line(&format_args!("{writer}{level}{line}")));
    }
}

/// Writes a line that the user has asked for by a variable of its own.
pub fn write_always(writer: Writer<'_>, line: fmt::Arguments<'_>) {
    SETTINGS.put(&one_line(&format_args!("{writer}{line}")));
}

#[cfg(test)]
mod tests;
