//! Inspects the files of the PMIx library: segments, contact files, directories of dead launchers. Never modifies anything.

#![forbid(unsafe_code)]

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use pmix_dstore::segment::{InspectOptions, Report, inspect_directory, inspect_segment, layout_text};

const HELP: &str = "\
pmixctl inspect [--json] [--rows N | --all] FILE|DIRECTORY...
    Prints a segment, or the directory of a namespace with all its live segments,
    decoding as much as possible where they are damaged.
    --json    print JSON instead of text
    --rows N  list the values of N rows or ranks of each table (8)
    --all     list all values, and all their bytes
pmixctl layout
    Prints the layout of segments and directory pages as this program has it.

Exit status: 0 nothing wrong found, 1 damage found or nothing to read, 2 wrong usage.
";

/// A parsed command line.
enum Command {
    Help,
    Layout,
    Inspect { paths: Vec<PathBuf>, json: bool, options: InspectOptions },
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
    }
}

fn parse(mut parser: lexopt::Parser) -> Result<Command, lexopt::Error> {
    use lexopt::prelude::{Long, Short, Value, ValueExt};

    let mut words: Vec<OsString> = Vec::new();
    let mut json = false;
    let mut options = InspectOptions::default();
    while let Some(argument) = parser.next()? {
        match argument {
            Long("json") => json = true,
            Long("rows") => options.rows_max = parser.value()?.parse()?,
            Long("all") => options = InspectOptions { rows_max: u32::MAX, bytes_max: usize::MAX },
            Short('h') | Long("help") => return Ok(Command::Help),
            Value(word) => words.push(word),
            other => return Err(other.unexpected()),
        }
    }
    let mut words = words.into_iter();
    match words.next() {
        Some(word) if word == "layout" => Ok(Command::Layout),
        Some(word) if word == "inspect" => {
            let paths: Vec<PathBuf> = words.map(PathBuf::from).collect();
            if paths.is_empty() {
                return Err("inspect what?".into());
            }
            Ok(Command::Inspect { paths, json, options })
        }
        Some(word) => Err(format!("unknown command {}", word.display()).into()),
        None => Err("a command is needed".into()),
    }
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
