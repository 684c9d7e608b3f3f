//! Inspects the files of the PMIx library: segments, contact files, directories of dead launchers; and the directory for PRRTE's daemons,
//! where it makes one link. It modifies nothing else.

#![forbid(unsafe_code)]

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use pmix_client::env::{SERVER_VARIABLE, URI_VARIABLES};
use pmix_dstore::segment::{InspectOptions, Report, inspect_directory, inspect_segment, layout_text};
use pmix_tools::prrte::{self, Check};

const HELP: &str = "\
pmixctl inspect [--json] [--rows N | --all] FILE|DIRECTORY...
    Prints a segment, or the directory of a namespace with all its live segments,
    decoding as much as possible where they are damaged.
    --json    print JSON instead of text
    --rows N  list the values of N rows or ranks of each table (8)
    --all     list all values, and all their bytes
pmixctl layout
    Prints the layout of segments and directory pages as this program has it.
pmixctl prrte [--json] [--directory DIRECTORY] [FILE...]
    Checks whether PRRTE's daemons can have this library: whether it and the stock library,
    to which DIRECTORY leads (lib/prrte beside this program's directory), have all PMIx names
    that the programs and libraries FILE need; without FILE, this system's libprrte.
pmixctl prrte --link [--directory DIRECTORY] [--stock FILE]
    Makes the link to the stock library there: FILE, or that of this system's package.
pmixctl server
    Run as a rank: prints the host, and whether the server of the rank is this library.
    mpirun --map-by ppr:1:node pmixctl server

Exit status: 0 nothing wrong found, 1 damage found or nothing to read, 2 wrong usage.
";

/// A parsed command line.
enum Command {
    Help,
    Layout,
    Inspect { paths: Vec<PathBuf>, json: bool, options: InspectOptions },
    Prrte { files: Vec<PathBuf>, directory: PathBuf, json: bool },
    LinkStock { directory: PathBuf, stock: Option<PathBuf> },
    Server,
}

fn main() -> ExitCode {
    let command = match parse(lexopt::Parser::from_env()) {
        Ok(command) => command,
        Err(error) => {
            eprintln!("pmixctl: {error}\n\n{HELP}");
            return ExitCode::from(2);
        }
    };
    match command {
        Command::Help => print(HELP),
        Command::Layout => print(&layout_text()),
        Command::Inspect { paths, json, options } => inspect(&paths, json, &options),
        Command::Prrte { files, directory, json } => check_prrte(files, &directory, json),
        Command::LinkStock { directory, stock } => link_stock(&directory, stock.as_deref()),
        Command::Server => server(),
    }
}

fn parse(mut parser: lexopt::Parser) -> Result<Command, lexopt::Error> {
    use lexopt::prelude::{Long, Short, Value, ValueExt};

    let mut words: Vec<OsString> = Vec::new();
    let (mut json, mut is_link, mut directory, mut stock) = (false, false, None, None);
    let mut options = InspectOptions::default();
    while let Some(argument) = parser.next()? {
        match argument {
            Long("json") => json = true,
            Long("link") => is_link = true,
            Long("directory") => directory = Some(PathBuf::from(parser.value()?)),
            Long("stock") => stock = Some(PathBuf::from(parser.value()?)),
            Long("rows") => options.rows_max = parser.value()?.parse()?,
            Long("all") => options = InspectOptions { rows_max: u32::MAX, bytes_max: usize::MAX },
            Short('h') | Long("help") => return Ok(Command::Help),
            Value(word) => words.push(word),
            other => return Err(other.unexpected()),
        }
    }
    let mut words = words.into_iter();
    let command = words.next();
    if command.as_ref().is_none_or(|word| word != "prrte") && (is_link || directory.is_some() || stock.is_some()) {
        return Err("--link, --directory and --stock are options of prrte".into());
    }
    match command {
        Some(word) if word == "layout" => Ok(Command::Layout),
        Some(word) if word == "inspect" => {
            let paths: Vec<PathBuf> = words.map(PathBuf::from).collect();
            if paths.is_empty() {
                return Err("inspect what?".into());
            }
            Ok(Command::Inspect { paths, json, options })
        }
        Some(word) if word == "prrte" => {
            let directory = directory.map_or_else(installed, Ok)?;
            let files: Vec<PathBuf> = words.map(PathBuf::from).collect();
            if is_link && (json || !files.is_empty()) {
                return Err("--link takes no files and no --json".into());
            }
            if stock.is_some() && !is_link {
                return Err("--stock needs --link".into());
            }
            Ok(if is_link {
                Command::LinkStock { directory, stock }
            } else {
                Command::Prrte { files, directory, json }
            })
        }
        Some(word) if word == "server" => Ok(Command::Server),
        Some(word) => Err(format!("unknown command {}", word.display()).into()),
        None => Err("a command is needed".into()),
    }
}

/// The directory of the installation that this program is of.
fn installed() -> Result<PathBuf, String> {
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let prefix = own.parent().and_then(Path::parent).ok_or("this program is in no prefix: --directory")?;
    Ok(prefix.join("lib/prrte"))
}

fn check_prrte(mut files: Vec<PathBuf>, directory: &Path, json: bool) -> ExitCode {
    if files.is_empty() {
        files = prrte::libraries_of_prrte();
    }
    let check = Check::of(directory, &files);
    let text = if json { format!("{:#}\n", check.json()) } else { check.text() };
    if print(&text) == ExitCode::SUCCESS && check.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn link_stock(directory: &Path, stock: Option<&Path>) -> ExitCode {
    match prrte::link_stock(directory, stock) {
        Ok(stock) => print(&format!("{}: leads to {}\n", directory.display(), stock.display())),
        Err(reason) => {
            let directory = directory.display();
            eprintln!("pmixctl: {reason}; later: pmixctl prrte --link --directory {directory} [--stock FILE]");
            ExitCode::FAILURE
        }
    }
}

/// Says by the environment of this rank which library its server is. Servers of this one set `SERVER_VARIABLE` to their address; it
/// may also come from a job around this one, whose server has another. Older ones are known by their store only.
fn server() -> ExitCode {
    let host = nix::unistd::gethostname().unwrap_or_default();
    let stores = std::env::var("PMIX_GDS_MODULE").unwrap_or_default();
    let has_server = std::env::var_os("PMIX_RANK").is_some();
    let named = std::env::var_os(SERVER_VARIABLE);
    let addresses: Vec<_> = URI_VARIABLES.iter().filter_map(|(name, ..)| std::env::var_os(name)).collect();
    let is_named =
        named.is_some_and(|named| !addresses.is_empty() && addresses.iter().all(|address| *address == named));
    let (library, status) = match (has_server, is_named || stores.starts_with("pmix-dstore")) {
        (false, _) => ("none: this is no rank", ExitCode::FAILURE),
        (true, true) => ("this library", ExitCode::SUCCESS),
        (true, false) => ("the stock library", ExitCode::FAILURE),
    };
    if print(&format!("{}: {library}\n", host.display())) == ExitCode::SUCCESS { status } else { ExitCode::FAILURE }
}

fn inspect(paths: &[PathBuf], json: bool, options: &InspectOptions) -> ExitCode {
    let mut is_good = true;
    for path in paths {
        let report = match report_of(path, options) {
            Ok(report) => report,
            Err(error) => {
                eprintln!("pmixctl: {}: {error}", path.display());
                is_good = false;
                continue;
            }
        };
        is_good &= !is_damaged(&report);
        let text = if json { format!("{:#}\n", to_json(&report)) } else { report.to_text() };
        if print(&text) != ExitCode::SUCCESS {
            return ExitCode::FAILURE;
        }
    }
    if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn report_of(path: &Path, options: &InspectOptions) -> std::io::Result<Report> {
    let kind = std::fs::metadata(path)?;
    if kind.is_dir() {
        // The outer directory of a namespace is accepted, too.
        let inner = path.join("s");
        let is_outer = !path.join("page-0").exists() && inner.join("page-0").exists();
        inspect_directory(if is_outer { &inner } else { path }, options)
    } else if kind.is_file() {
        Ok(inspect_segment(&std::fs::read(path)?, options))
    } else {
        Err(std::io::Error::other("neither a file nor a directory"))
    }
}

/// Whether a report contains corruption anywhere.
fn is_damaged(report: &Report) -> bool {
    match report {
        Report::Map(parts) => parts.iter().any(|(name, part)| match name.as_str() {
            "problem" | "problems" => true,
            // The names below these entries come from the job, so they do not mark corruption.
            "values by row" | "values by rank" | "columns" => false,
            "content hash matches" | "as its entry says" => *part == Report::Bool(false),
            _ => is_damaged(part),
        }),
        _ => false,
    }
}

fn to_json(report: &Report) -> serde_json::Value {
    match report {
        Report::Number(number) => (*number).into(),
        Report::Bool(truth) => (*truth).into(),
        Report::Text(words) => words.as_str().into(),
        Report::List(items) => items.iter().map(to_json).collect(),
        Report::Map(parts) => parts.iter().map(|(name, part)| (name.clone(), to_json(part))).collect(),
    }
}

/// Writes to standard output. Does not panic if the reader has closed it.
fn print(text: &str) -> ExitCode {
    match std::io::stdout().write_all(text.as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}
