//! The command line of `pmixrun`.

use std::ffi::{CString, OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::Duration;

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{ArgAction, ArgMatches, CommandFactory, FromArgMatches, Parser, ValueEnum};

use super::hosts;
use super::log::{self, Outlets};
use super::partner;
use super::placement::{BIND_TO, BindTo, MAP_BY, MapBy};
use super::spelling::spelled_out;

const USAGE: &str = "\
pmixrun -n N [OPTIONS] PROGRAM [ARGS...]
       pmixrun --serve [OPTIONS]
       pmixrun --dvm PID|URI|file:FILE -n N [OPTIONS] PROGRAM [ARGS...]";

const AFTER_HELP: &str = "\
The exit status is that of the first rank that failed, 128 + N for one killed by signal N; 124 after the time limit, 125 if the job could \
not be started, 2 for a wrong command line, 1 if only output was lost.

The job ends as a whole: all its processes get SIGTERM, and SIGKILL after the grace period. Standard input goes to rank 0. SIGINT, SIGTERM, \
SIGHUP, SIGQUIT, SIGUSR1 and SIGUSR2 are forwarded to all ranks. Before it ends the job for a signal or its time limit, and on SIGUSR1, \
pmixrun says what the ranks wait for.

Tools find the job by the process number of pmixrun, by its server's namespace, or by the address; see pmixctl(1). Ranks that wait for a \
debugger go on when it sends PMIX_DEBUGGER_RELEASE.

A colon before -n begins a further application of the same job, which may have -x, --genv, --mca and --wdir of its own. Its ranks follow \
those of the one before. After -- the program has all words.

With --serve, pmixrun starts no job: it serves those that --dvm and PMIx_Spawn start, until it gets SIGTERM or SIGINT or a tool ends it, \
and then ends the jobs that run. Each job ends alone, for its own failures. With --dvm, pmixrun is the front end of a job there: output, \
input, signals and the exit status are as without it.

Options with one dash that people know from mpirun and mpiexec, such as -np or -wdir, are taken, too.";

/// Start the ranks of a parallel program on this node and serve them as their PMIx server
#[derive(Parser, Debug)]
#[command(name = "pmixrun", version, after_help = AFTER_HELP, max_term_width = 120, override_usage = USAGE)]
pub struct Options {
    /// Number of ranks; without it, the slots of --host or --hostfile, or N of --map-by ppr:N:node
    #[arg(short = 'n', long = "np", alias = "n", short_alias = 'c', value_name = "N", value_parser = count)]
    ranks: Option<u32>,
    /// Where ranks run: this node alone, by its name or as localhost, with so many slots
    #[arg(short = 'H', long, aliases = ["hosts"], value_name = "HOST[:SLOTS],...", value_delimiter = ',')]
    host: Vec<String>,
    /// The same from a file with lines HOST, HOST slots=N or HOST:N
    #[arg(short = 'f', long, aliases = ["machinefile", "default-hostfile"], value_name = "FILE", conflicts_with = "host")]
    hostfile: Option<PathBuf>,
    /// Allow more ranks than slots
    #[arg(long)]
    oversubscribe: bool,
    /// Bind each rank to a core of its own, round-robin (core), or not (none)
    #[arg(long, value_name = "WHAT", value_parser = BIND_TO)]
    bind_to: Option<BindTo>,
    /// How ranks are placed: in their order (slot, node), one on each core, bound to it unless --bind-to says otherwise (core), so many on
    /// the node (ppr:N:node)
    #[arg(long, value_name = "WHAT", value_parser = MAP_BY)]
    map_by: Option<MapBy>,
    /// Set a variable for the ranks; with the name alone, pass on the value that it has here
    #[arg(short = 'x', value_name = "NAME[=VALUE]", action = ArgAction::Append)]
    variables: Vec<OsString>,
    /// Set a variable for the ranks, as mpiexec of MPICH does
    #[arg(long = "genv", alias = "env", num_args = 2, value_names = ["NAME", "VALUE"], action = ArgAction::Append)]
    pairs: Vec<OsString>,
    /// Set a parameter of Open MPI for the ranks
    #[arg(long, num_args = 2, value_names = ["NAME", "VALUE"], action = ArgAction::Append)]
    mca: Vec<OsString>,
    /// Directory in which the ranks start
    #[arg(long, aliases = ["wd", "chdir"], value_name = "DIR")]
    wdir: Option<PathBuf>,
    /// Process set of the application's ranks; applications may share one
    #[arg(long, value_name = "NAME", value_parser = process_set)]
    pset: Option<CString>,
    /// Directory of the libpmix.so.2 that ranks load; "system": the one that the loader finds, which is this library where
    /// LD_LIBRARY_PATH or pmix-dstore-switch leads to it. Default: the one beside pmixrun, unless LD_LIBRARY_PATH leads to one
    #[arg(long, value_name = "DIR")]
    lib: Option<PathBuf>,
    /// Begin each line of output with the rank that printed it
    #[arg(long, short_alias = 'l', aliases = ["label", "prepend-rank"])]
    tag_output: bool,
    /// The same (tag), as prterun spells it
    #[arg(long, value_enum, value_name = "HOW", hide_possible_values = true)]
    output: Option<Tag>,
    /// Time limit of the job
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    timeout: Option<Duration>,
    /// Time between SIGTERM and SIGKILL when the job ends
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "2")]
    grace: Duration,
    /// Directory for the job's files; without it, TMPDIR or /tmp
    #[arg(long, value_name = "DIR")]
    tmpdir: Option<PathBuf>,
    /// Print wire-up times, store sizes and the PMIx libraries in use on standard error
    #[arg(long)]
    report: bool,
    /// The same as one line of JSON
    #[arg(long)]
    json: bool,
    /// Write the report to a file
    #[arg(long, value_name = "FILE")]
    report_to: Option<PathBuf>,
    /// Write the server's address, for tools, to a file, - (standard output) or + (standard error), when the job has started
    #[arg(long, value_name = "TO", value_parser = place, allow_hyphen_values = true)]
    report_uri: Option<String>,
    /// File to which ranks and tools log the job's record (PMIX_LOG_JOB_RECORD of PMIx_Log); each record is appended
    #[arg(long, value_name = "FILE", value_parser = absolute)]
    log_file: Option<PathBuf>,
    /// Socket of the syslog service to which they log (PMIX_LOG_SYSLOG)
    #[arg(long, value_name = "SOCKET", value_parser = absolute, default_value = log::SYSLOG)]
    syslog: PathBuf,
    /// Let tools on other hosts connect, by munge, where the administrator permits it
    #[arg(long)]
    remote: bool,
    /// Start no job, and serve those that others start: a persistent pmixrun
    #[arg(long, conflicts_with = "dvm")]
    serve: bool,
    /// Start the job in the persistent pmixrun of this process number, of this address, or of the address in this file; ns:NAME is that of
    /// a namespace
    #[arg(long, aliases = ["dvm-uri"], value_name = "PID|URI|file:FILE", value_parser = Dvm::read)]
    dvm: Option<Dvm>,
    /// Name of the cluster that the job is told it runs on (PMIX_CLUSTER_ID)
    #[arg(long, value_name = "NAME", value_parser = partner::cluster)]
    cluster_id: Option<String>,
    /// Serve the processes together with those of another pmixrun of this user on this node, another cluster, that is given the same socket:
    /// they find each other's values and connect with each other. The first of both creates the socket, the second removes it
    #[arg(long, value_name = "SOCKET", requires = "cluster_id")]
    partner: Option<PathBuf>,
    /// Run the server in a process of its own, and start it again when it is killed: ranks wait so many seconds for the next one and go on
    #[arg(long, value_name = "SECONDS", value_parser = restart, conflicts_with = "partner")]
    restart: Option<u32>,
    /// Stop each rank before the first instruction of its program, for a debugger
    #[arg(long)]
    stop_on_exec: bool,
    /// Let each rank wait in PMIx_Init for a debugger
    #[arg(long)]
    stop_in_init: bool,
    /// Ask each rank to wait at a place of its own for a debugger
    #[arg(long, value_name = "BREAKPOINT", num_args = 0..=1, require_equals = true)]
    stop_in_app: Option<Option<String>>,
    /// Taken and without effect: pmixrun asks nobody's leave to run as root
    #[arg(long, hide = true)]
    allow_run_as_root: bool,
    /// The program and its arguments
    #[arg(required_unless_present = "serve", trailing_var_arg = true, value_name = "PROGRAM [ARGS]")]
    words: Vec<OsString>,
}

/// How output is marked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Tag {
    /// With the rank.
    #[value(help = "with the rank", alias = "rank")]
    Tag,
}

/// What `pmixrun` is called for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// To run a job.
    #[default]
    Job,
    /// To serve jobs that others start.
    Serve,
    /// To start a job in a persistent one.
    Front(Dvm),
}

/// How a persistent `pmixrun` is named; "DVM" is what people of this field call it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Dvm {
    /// By the number of its process.
    Pid(u32),
    /// By its namespace.
    Nspace(String),
    /// By its address, or by a file with it: `file:FILE`.
    Uri(String),
}

impl Dvm {
    fn read(text: &str) -> Result<Dvm, String> {
        let number = text.strip_prefix("pid:").unwrap_or(text);
        if let Ok(pid) = number.parse() {
            return Ok(Dvm::Pid(pid));
        }
        match text.split_once(':') {
            Some(("ns", name)) if !name.is_empty() => Ok(Dvm::Nspace(name.into())),
            Some(("uri", uri)) if !uri.is_empty() => Ok(Dvm::Uri(uri.into())),
            Some(("file", file)) if !file.is_empty() => Ok(Dvm::Uri(text.into())),
            _ if text.contains(';') => Ok(Dvm::Uri(text.into())),
            _ => {
                Err("a process number, an address NSPACE.RANK;tcp4://HOST:PORT, file:FILE or ns:NAMESPACE is expected"
                    .into())
            }
        }
    }
}

/// The form of the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Report {
    /// For people.
    Text,
    /// For scripts.
    Json,
}

/// The directory of the library that ranks load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Library {
    /// That of this installation, unless the user's `LD_LIBRARY_PATH` leads to one.
    Own,
    /// None: ranks find one by themselves.
    System,
    /// This one.
    In(PathBuf),
}

/// Where ranks are to wait for a debugger.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stops {
    /// When their program is loaded.
    pub on_exec: bool,
    /// In `PMIx_Init`.
    pub in_init: bool,
    /// At a place of the program's own, which may have a name.
    pub in_app: Option<Option<String>>,
}

/// An application: ranks with one program.
#[derive(Clone, Debug, PartialEq)]
pub struct AppArgs {
    /// The number of its ranks.
    pub ranks: u32,
    /// Variables that the command line sets for them, in its order.
    pub variables: Vec<(OsString, OsString)>,
    /// The directory in which they start, if it is not this process's.
    pub wdir: Option<PathBuf>,
    /// Their process set.
    pub pset: Option<CString>,
    /// The program.
    pub program: OsString,
    /// Its arguments.
    pub args: Vec<OsString>,
}

/// The programs to run, and the options.
#[derive(Clone, Debug, PartialEq)]
pub struct Args {
    /// What it is called for.
    pub mode: Mode,
    /// The applications, of which there is at least one, but for a persistent launcher. Their ranks follow each other.
    pub apps: Vec<AppArgs>,
    /// Binding.
    pub bind_to: BindTo,
    /// Tag each line of output.
    pub tag_output: bool,
    /// The job's time limit.
    pub timeout: Option<Duration>,
    /// The time between SIGTERM and SIGKILL.
    pub grace: Duration,
    /// The directory for the job's files.
    pub tmpdir: PathBuf,
    /// The form of the report at the end; `None` for no report.
    pub report: Option<Report>,
    /// The file of the report; stderr if `None`.
    pub report_to: Option<PathBuf>,
    /// Where to write the server's address: a file, `-` (standard output) or `+` (standard error).
    pub report_uri: Option<String>,
    /// Tools on other hosts may connect.
    pub remote: bool,
    /// Where ranks and tools log.
    pub outlets: Outlets,
    /// The name of the cluster.
    pub cluster_id: Option<String>,
    /// The socket by which another launcher is reached.
    pub partner: Option<PathBuf>,
    /// For how many seconds ranks wait for a server that is started again; none if it is not.
    pub restart: Option<u32>,
    /// Where ranks are to wait.
    pub stops: Stops,
    /// What the user should know before the job starts.
    pub warnings: Vec<String>,
    /// The library that ranks load.
    pub library: Library,
}

/// How a command line may begin to tell the number of ranks.
const RANKS_NAMES: [&str; 5] = ["-n", "-np", "--np", "--n", "-c"];
/// The most ranks; a larger number is taken for a mistake.
pub const RANKS_MAX: u32 = 65_536;

impl Args {
    /// Reads a command line that begins with the program's own name.
    ///
    /// # Errors
    /// What to print: the mistake and its remedy, the help or the version.
    pub fn parse(words: impl IntoIterator<Item = OsString>) -> Result<Args, clap::Error> {
        let words: Vec<OsString> = words.into_iter().collect();
        let wrong = |why: String| Options::command().error(ErrorKind::ValueValidation, why);
        let mut parts = parts(&words);
        let first = parts.remove(0);
        let mut further = Vec::new();
        for part in parts {
            let words = words.iter().take(1).cloned().chain(part).collect();
            let (words, _) = spelled_out(&Options::command(), words);
            let matches = Options::command().try_get_matches_from(words)?;
            if let Some(id) = matches.ids().find(|id| is_of_job(&matches, id.as_str())) {
                let name = id.as_str().replace('_', "-");
                return Err(wrong(format!("--{name} is for the whole job: it belongs before the first program")));
            }
            further.push(Options::from_arg_matches(&matches)?);
        }
        let (first, _) = spelled_out(&Options::command(), first);
        let matches = Options::command().try_get_matches_from(first)?;
        let options = Options::from_arg_matches(&matches)?;
        if let Some(why) = options.misplaced(&matches) {
            return Err(wrong(why));
        }
        options.checked(&further).map_err(wrong)
    }

    /// The number of ranks of all applications.
    pub fn ranks(&self) -> u32 {
        self.apps.iter().map(|app| app.ranks).sum()
    }
}

/// The parts of a command line, one for each application. Programs may have the word for themselves; with a number of ranks behind it,
/// it separates applications. After `--` all words are the program's.
fn parts(words: &[OsString]) -> Vec<Vec<OsString>> {
    let mut parts = Vec::new();
    let mut rest = words;
    while let Some(at) = (0..rest.len()).find(|at| rest[*at] == ":" && rest.get(at + 1).is_some_and(tells_ranks)) {
        // A further application has no name before its options.
        let own = if parts.is_empty() { rest[..at].to_vec() } else { [&words[..1], &rest[..at]].concat() };
        if spelled_out(&Options::command(), own).1 {
            break;
        }
        parts.push(rest[..at].to_vec());
        rest = &rest[at + 1..];
    }
    parts.push(rest.to_vec());
    parts
}

/// Whether a word tells the number of ranks, which may be a part of it: `-n`, `-n4`, `-np=4`.
fn tells_ranks(word: &OsString) -> bool {
    let word = word.to_string_lossy();
    let is_number = |rest: &str| rest.trim_start_matches('=').parse::<u32>().is_ok();
    RANKS_NAMES.iter().any(|name| word == *name || word.strip_prefix(name).is_some_and(is_number))
}

/// Whether the command line of a further application has this option, which is for the whole job.
fn is_of_job(matches: &ArgMatches, id: &str) -> bool {
    const OF_APPLICATIONS: [&str; 7] = ["ranks", "variables", "pairs", "mca", "wdir", "pset", "words"];
    let is_argument = matches.try_contains_id(id).is_ok() && id != "Options";
    let is_given = is_argument && matches.value_source(id) == Some(ValueSource::CommandLine);
    is_given && !OF_APPLICATIONS.contains(&id)
}

/// The name of a process set.
fn process_set(name: &str) -> Result<CString, String> {
    // `PMIX_MAX_KEYLEN`, which bounds names in the standard.
    const LENGTH_MAX: usize = 511;
    if name.is_empty() || name.len() > LENGTH_MAX {
        return Err(format!("the name of a process set has 1 to {LENGTH_MAX} bytes"));
    }
    CString::new(name).map_err(|error| error.to_string())
}

impl Options {
    /// The job; `further` are the applications after the first.
    fn checked(self, further: &[Options]) -> Result<Args, String> {
        let apps = if self.serve { Vec::new() } else { self.applications(further)? };
        // As mpirun binds where ranks are mapped.
        let by_map = self.map_by.filter(|map| map.by_core).map_or(BindTo::None, |_| BindTo::Core);
        let warnings = std::iter::once(&self).chain(further).flat_map(Options::missing).collect();
        let tmpdir = || std::env::var_os("TMPDIR").filter(|dir| !dir.is_empty()).unwrap_or_else(|| "/tmp".into());
        let report = if self.json {
            Some(Report::Json)
        } else {
            (self.report || self.report_to.is_some()).then_some(Report::Text)
        };
        let mode = match self.dvm {
            _ if self.serve => Mode::Serve,
            Some(dvm) => Mode::Front(dvm),
            None => Mode::Job,
        };
        Ok(Args {
            mode,
            apps,
            bind_to: self.bind_to.unwrap_or(by_map),
            tag_output: self.tag_output || self.output.is_some(),
            timeout: self.timeout,
            grace: self.grace,
            tmpdir: self.tmpdir.unwrap_or_else(|| tmpdir().into()),
            report,
            report_to: self.report_to,
            report_uri: self.report_uri,
            remote: self.remote,
            outlets: Outlets { syslog: self.syslog, record: self.log_file },
            cluster_id: self.cluster_id,
            partner: self.partner,
            restart: self.restart,
            stops: Stops { on_exec: self.stop_on_exec, in_init: self.stop_in_init, in_app: self.stop_in_app },
            warnings,
            library: match self.lib {
                None => Library::Own,
                Some(name) if name.as_os_str() == "system" => Library::System,
                Some(directory) => Library::In(directory),
            },
        })
    }

    /// An option that is given and that is not for what `pmixrun` is called for.
    fn misplaced(&self, matches: &ArgMatches) -> Option<String> {
        // What a persistent launcher decides for all its jobs.
        const OF_SERVER: [&str; 15] = [
            "bind_to",
            "lib",
            "grace",
            "tmpdir",
            "report",
            "json",
            "report_to",
            "report_uri",
            "remote",
            "serve",
            "syslog",
            "log_file",
            "cluster_id",
            "partner",
            "restart",
        ];
        const OF_BOTH: [&str; 2] = ["map_by", "allow_run_as_root"];
        let given = |id: &&str| matches.value_source(id) == Some(ValueSource::CommandLine);
        let ids = matches.ids().map(clap::Id::as_str).filter(|id| *id != "Options");
        let name = |id: &str| match id {
            "ranks" => "-n".to_owned(),
            "variables" => "-x".to_owned(),
            "pairs" => "--genv".to_owned(),
            "words" => "the program".to_owned(),
            id => format!("--{}", id.replace('_', "-")),
        };
        let mut given = ids.filter(given);
        if self.serve {
            let reports = ["report", "json", "report_to"];
            let is_of_job = |id: &&str| !OF_SERVER.contains(id) && !OF_BOTH.contains(id) || reports.contains(id);
            let name = name(given.find(is_of_job)?);
            return Some(format!(
                "{name} is of a job, and --serve starts none: give it to pmixrun --dvm, which starts one there"
            ));
        }
        self.dvm.as_ref()?;
        let binds = self.map_by.is_some_and(|map| map.by_core);
        let name = name(given.find(|id| OF_SERVER.contains(id) || *id == "map_by" && binds)?);
        Some(format!("{name} is decided by the persistent pmixrun for all its jobs: give it to pmixrun --serve"))
    }

    fn applications(&self, further: &[Options]) -> Result<Vec<AppArgs>, String> {
        let count = |options: &Options| options.ranks.map(u64::from).ok_or("the number of ranks is missing");
        let of_further: u64 = further.iter().map(count).sum::<Result<u64, _>>()?;
        let mut apps = vec![self.application(self.count_of_ranks(of_further)?)?];
        for options in further {
            apps.push(options.application(options.ranks.unwrap_or_default())?);
        }
        Ok(apps)
    }

    fn application(&self, ranks: u32) -> Result<AppArgs, String> {
        let mut words = self.words.iter().cloned();
        let (program, variables) = (words.next().unwrap_or_default(), self.variables()?);
        let (wdir, pset) = (self.wdir.clone(), self.pset.clone());
        Ok(AppArgs { ranks, variables, wdir, pset, program, args: words.collect() })
    }

    /// The number of ranks, which the slots limit; there are `further` ones of other applications.
    fn count_of_ranks(&self, further: u64) -> Result<u32, String> {
        let map = self.map_by.unwrap_or_default();
        let (listed, option) = match &self.hostfile {
            Some(file) => (Some(hosts::slots_of_file(file)?), "--hostfile"),
            None => (hosts::slots(&self.host)?, "--host"),
        };
        let (slots, option) = match map.per_node.filter(|count| listed.is_none_or(|listed| *count <= listed)) {
            Some(count) => (Some(count), "--map-by"),
            None => (listed, option),
        };
        let ranks = self.ranks.or(map.per_node).or(slots);
        let ranks = ranks.ok_or("the number of ranks is missing: pmixrun -n N PROGRAM")?;
        let all = u64::from(ranks) + further;
        match slots.filter(|slots| u64::from(*slots) < all && !self.oversubscribe && !map.oversubscribes) {
            Some(slots) => Err(format!(
                "-n {all}: too many ranks for the slots of {option} ({slots}); --oversubscribe allows them"
            )),
            None if all > u64::from(RANKS_MAX) => Err(format!("{all} ranks: their number goes from 1 to {RANKS_MAX}")),
            None => Ok(ranks),
        }
    }

    /// Variables that are to be passed on and do not exist. mpirun goes on without them, too.
    fn missing(&self) -> Vec<String> {
        let is_missing = |word: &&OsString| split(word).is_none() && std::env::var_os(word).is_none();
        let words = |word: &OsString| {
            let name = word.to_string_lossy();
            format!("-x {name}: there is no variable {name} here; -x {name}=VALUE sets it for the ranks")
        };
        self.variables.iter().filter(is_missing).map(words).collect()
    }

    /// What `-x`, `--genv` and `--mca` set.
    fn variables(&self) -> Result<Vec<(OsString, OsString)>, String> {
        let mut all = Vec::new();
        for word in &self.variables {
            // Without a value: all variables of this process are passed on anyway.
            let Some((name, value)) = split(word) else { continue };
            all.push((name, value));
        }
        all.extend(self.pairs.as_chunks().0.iter().map(|[name, value]| (name.clone(), value.clone())));
        let parameter = |[name, value]: &[OsString; 2]| {
            let mut variable = OsString::from("OMPI_MCA_");
            variable.push(name);
            (variable, value.clone())
        };
        all.extend(self.mca.as_chunks().0.iter().map(parameter));
        match all.iter().find(|(name, _)| name.is_empty() || name.as_encoded_bytes().contains(&b'=')) {
            Some((name, _)) => Err(format!("{name:?} is no name of a variable")),
            None => Ok(all),
        }
    }
}

/// Name and value of `NAME=VALUE`.
pub(super) fn split(word: &OsStr) -> Option<(OsString, OsString)> {
    let bytes = word.as_bytes();
    let at = bytes.iter().position(|byte| *byte == b'=')?;
    let text = |bytes| OsStr::from_bytes(bytes).to_owned();
    Some((text(&bytes[..at]), text(&bytes[at + 1..])))
}

/// A stream or a file. The server takes a number for a descriptor, so a file gets its whole path.
fn place(text: &str) -> Result<String, String> {
    if text == "-" || text == "+" {
        return Ok(text.to_owned());
    }
    let path = std::path::absolute(text).map_err(|error| error.to_string())?;
    path.into_os_string().into_string().map_err(|path| format!("{} is not UTF-8", path.display()))
}

/// A path that stays the same file whatever directory this process is in.
fn absolute(text: &str) -> Result<PathBuf, String> {
    std::path::absolute(text).map_err(|error| error.to_string())
}

fn count(text: &str) -> Result<u32, String> {
    let count = text.parse().ok().filter(|count| (1..=RANKS_MAX).contains(count));
    count.ok_or_else(|| format!("the number of ranks goes from 1 to {RANKS_MAX}"))
}

/// How long ranks wait for a server.
fn restart(text: &str) -> Result<u32, String> {
    const YEAR: u32 = 365 * 24 * 3600;
    let seconds = text.parse().ok().filter(|seconds| (1..=YEAR).contains(seconds));
    seconds.ok_or_else(|| format!("the seconds for which ranks wait go from 1 to {YEAR}"))
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse::<f64>().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    seconds.ok_or_else(|| "a number of seconds is expected".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Args, String> {
        let words = std::iter::once("pmixrun").chain(line.split_whitespace());
        Args::parse(words.map(OsString::from)).map_err(|error| error.to_string())
    }

    fn run(line: &str) -> Args {
        parse(line).unwrap_or_else(|error| panic!("{line}: {error}"))
    }

    #[test]
    fn the_definition_is_sound() {
        Options::command().debug_assert();
    }

    /// The first application.
    fn app(line: &str) -> AppArgs {
        run(line).apps.remove(0)
    }

    #[test]
    fn options_end_at_the_program() {
        let args = run("-n 4 --tag-output --bind-to core prog -n 7 --report");
        assert_eq!((args.ranks(), args.bind_to, args.tag_output), (4, BindTo::Core, true));
        assert_eq!(args.apps[0].program, "prog");
        assert_eq!(args.apps[0].args, ["-n", "7", "--report"]);
        assert_eq!(args.report, None);
        let one = app("-n 1 -- -prog -- -x");
        assert_eq!((one.program, one.args), ("-prog".into(), vec!["--".into(), "-x".into()]));
        assert_eq!(app("-n 1 prog : x").args, [":", "x"]);
        assert_eq!(app("-n 1 -- prog : -n 3").args, [":", "-n", "3"]);
        let one = app("-n 1 -x A=-n prog -np 3 -wdir /");
        assert_eq!((one.ranks, one.args), (1, ["-np", "3", "-wdir", "/"].map(OsString::from).into()));
    }

    #[test]
    fn a_colon_begins_a_further_application() {
        let args = run("--timeout 5 -n 2 -x A=1 one x : -np 3 -wdir /tmp -x B=2 two : y : -n 1 three");
        assert_eq!((args.ranks(), args.apps.len(), args.timeout), (6, 3, Some(Duration::from_secs(5))));
        let words = |app: &AppArgs| (app.ranks, app.program.to_string_lossy().into_owned(), app.args.len());
        let told: Vec<_> = args.apps.iter().map(words).collect();
        assert_eq!(told, [(2, "one".into(), 1), (3, "two".into(), 2), (1, "three".into(), 0)]);
        assert_eq!(args.apps[1].wdir, Some("/tmp".into()));
        assert_eq!(args.apps[1].variables, [("B".into(), "2".into())]);
        assert_eq!((args.apps[0].wdir.clone(), args.apps[2].variables.len()), (None, 0));
        assert_eq!(run("-n 1 one : -n2 two : -np=3 three").ranks(), 6);
        let args = run("-n 1 one : -n 1 -- two : -n 1 three");
        assert_eq!((args.apps.len(), &args.apps[1].args[..]), (2, &[":", "-n", "1", "three"].map(OsString::from)[..]));
    }

    /// A FIFO has nothing to read a second time.
    #[test]
    fn a_hostfile_is_read_once() {
        let directory = tempfile::tempdir().unwrap();
        let fifo = directory.path().join("hosts");
        nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let line = format!("-hostfile {} one : -n 1 two", fifo.display());
        std::thread::spawn(move || ["localhost slots=2\n", ""].map(|text| std::fs::write(&fifo, text)));
        let error = parse(&line).unwrap_err();
        assert!(error.contains("-n 3: too many ranks for the slots of --hostfile (2)"), "{error}");
    }

    #[test]
    fn spellings_of_other_launchers_are_taken() {
        for line in [
            "-np 3 p",
            "--np 3 p",
            "--n 3 p",
            "-c 3 p",
            "-n3 p",
            "-np=3 p",
            "-host localhost:3 p",
            "-H localhost:2,localhost p",
        ] {
            assert_eq!(run(line).ranks(), 3, "{line}");
        }
        for line in ["-l", "-prepend-rank", "--label", "-tag-output", "--output tag", "--output=rank"] {
            assert!(run(&format!("-n 1 {line} p")).tag_output, "{line}");
        }
        for line in ["-wdir /x", "--wdir /x", "-wd /x", "--chdir=/x"] {
            assert_eq!(app(&format!("-n 1 {line} p")).wdir, Some("/x".into()), "{line}");
        }
        let args = run("-n 1 --allow-run-as-root -x A=1=2 -genv B 2 -env C - -mca btl tcp --lib system p");
        let set = [("A", "1=2"), ("B", "2"), ("C", "-"), ("OMPI_MCA_btl", "tcp")];
        assert_eq!(args.apps[0].variables, set.map(|(name, value)| (name.into(), value.into())));
        assert_eq!(args.library, Library::System);
        for (line, bind_to) in [
            ("-map-by core", BindTo::Core),
            ("--map-by slot", BindTo::None),
            ("--map-by core --bind-to none", BindTo::None),
            ("--map-by node -bind-to core", BindTo::Core),
        ] {
            assert_eq!(run(&format!("-n 1 {line} p")).bind_to, bind_to, "{line}");
        }
        assert_eq!(run("--map-by ppr:3:node p").ranks(), 3);
        assert_eq!(run("-n 5 --map-by ppr:3:node:oversubscribe p").ranks(), 5);
        let args = run("-n 1 -x PATH -x PMIX_TEST_NO_SUCH p");
        assert_eq!((args.apps[0].variables.len(), args.warnings.len()), (0, 1));
    }

    #[test]
    fn reports() {
        assert_eq!(run("-n 1 --report prog").report, Some(Report::Text));
        assert_eq!(run("-n 1 --json prog").report, Some(Report::Json));
        assert_eq!(run("--json -n1 --report --timeout 0.5 prog").report, Some(Report::Json));
        assert_eq!(run("-n 1 --report-uri - prog").report_uri.as_deref(), Some("-"));
        assert!(run("-n 1 --remote prog").remote && !run("-n 1 prog --remote").remote);
        assert!(
            run("-n 1 --report-uri 7 prog")
                .report_uri
                .is_some_and(|path| path.starts_with('/') && path.ends_with("/7"))
        );
        assert_eq!(run("-n 1 --timeout 0.5 prog").timeout, Some(Duration::from_millis(500)));
    }

    #[test]
    fn a_persistent_launcher_and_its_front_ends() {
        let args = run("--serve --grace 1 --bind-to core --report-uri -");
        assert_eq!((args.mode, args.apps.len(), args.bind_to), (Mode::Serve, 0, BindTo::Core));
        assert_eq!(run("-n 1 prog --serve").mode, Mode::Job);
        for (text, dvm) in [
            ("77", Dvm::Pid(77)),
            ("pid:77", Dvm::Pid(77)),
            ("a.0;tcp4://127.0.0.1:5", Dvm::Uri("a.0;tcp4://127.0.0.1:5".into())),
            ("file:/x", Dvm::Uri("file:/x".into())),
            ("ns:a", Dvm::Nspace("a".into())),
        ] {
            assert_eq!(run(&format!("--dvm {text} -n 2 --map-by slot prog")).mode, Mode::Front(dvm), "{text}");
        }
        assert_eq!(run("-dvm-uri file:/x -n 1 prog").mode, Mode::Front(Dvm::Uri("file:/x".into())));
        for (line, word) in [
            ("--serve -n 1 prog", "-n is of a job"),
            ("--serve prog", "the program is of a job"),
            ("--serve --timeout 3", "--timeout is of a job"),
            ("--serve --json", "--json is of a job"),
            ("--serve --dvm 7", "cannot be used with"),
            ("--dvm 7 -n 1 --bind-to core prog", "--bind-to is decided by the persistent pmixrun"),
            ("--dvm 7 -n 1 --map-by core prog", "--map-by is decided by the persistent pmixrun"),
            ("--dvm 7 -n 1 --grace 1 prog", "--grace is decided"),
            ("--dvm 7 -n 1 --lib system prog", "--lib is decided"),
            ("--dvm 7 -n 1 --report prog", "--report is decided"),
            ("--dvm 7 -n 1 --log-file f prog", "--log-file is decided"),
            ("--dvm 7 -n 1 --cluster-id A prog", "--cluster-id is decided"),
            ("--dvm here -n 1 prog", "a process number, an address"),
            ("--dvm 7 -n 1", "PROGRAM"),
        ] {
            let error = parse(line).expect_err(line);
            assert!(error.contains(word), "{line}: {error}");
        }
    }

    #[test]
    fn a_partner_is_another_cluster() {
        let args = run("-n 1 --cluster-id A --partner /tmp/link prog");
        assert_eq!((args.cluster_id.as_deref(), args.partner), (Some("A"), Some("/tmp/link".into())));
        let args = run("-n 1 --cluster-id A prog");
        assert_eq!((args.cluster_id.as_deref(), args.partner), (Some("A"), None));
    }

    #[test]
    fn stops_for_debuggers() {
        assert_eq!(run("-n 1 prog").stops, Stops::default());
        let stops = run("-n 1 --stop-on-exec --stop-in-init --stop-in-app prog").stops;
        assert_eq!((stops.on_exec, stops.in_init, stops.in_app), (true, true, Some(None)));
        assert_eq!(run("-n 1 --stop-in-app=solver prog").stops.in_app, Some(Some("solver".into())));
    }

    #[test]
    fn mistakes_are_told() {
        for (line, word) in [
            ("-n 0 prog", "from 1 to 65536"),
            ("-n -3 prog", "-3"),
            ("-n x prog", "invalid value 'x'"),
            ("-n 99999999 prog", "from 1 to 65536"),
            ("prog", "missing"),
            ("-n 2", "PROGRAM"),
            ("-n 2 --bind-to socket prog", "type core"),
            ("-n 2 -map-by socket prog", "not placed by socket"),
            ("-n 3 --map-by ppr:2:node prog", "slots of --map-by (2)"),
            ("--host localhost --map-by ppr:2:node prog", "slots of --host (1)"),
            ("--host elsewhere.invalid:2 --map-by ppr:2:node prog", "elsewhere.invalid is not this node"),
            ("-hostfile /no/such prog", "/no/such"),
            ("-hostfile /dev/null prog", "no host"),
            ("-n 2 -hostfile /dev/null --host localhost prog", "cannot be used with"),
            ("-n 2 --nonsense prog", "--nonsense"),
            ("-npernode 2 prog", "--npernode"),
            ("-n 2 -loud prog", "--loud"),
            ("-n 2 -y prog", "'-y'"),
            ("-n 2 --timeout soon prog", "number of seconds"),
            ("-n 3 --host localhost:2 prog", "too many ranks"),
            ("--host elsewhere.invalid:2 prog", "elsewhere.invalid is not this node"),
            ("--host localhost:many prog", "localhost:many"),
            ("-n 1 -x =1 prog", "no name of a variable"),
            ("-n 2 prog : -n 1 --timeout 5 prog", "--timeout is for the whole job"),
            ("-n 2 --partner /tmp/link prog", "--cluster-id"),
            ("-n 2 --cluster-id a:b prog", "none of them a colon"),
            ("-n 2 prog : -n 1", "PROGRAM"),
            ("--host localhost:2 -n 2 prog : -n 1 prog", "-n 3: too many ranks"),
            ("-n 60000 prog : -n 60000 prog", "120000 ranks: their number goes from 1 to 65536"),
        ] {
            let error = parse(line).expect_err(line);
            assert!(error.contains(word), "{line}: {error}");
        }
    }
}
