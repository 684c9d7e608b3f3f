//! `pmixctl`: servers, their jobs and the files of the library, for people and scripts.
//!
//! Each command returns a `Printout`, which `pmixctl` prints. What can go wrong is said in words, with what to do next.

pub mod args;
mod clean;
mod connection;
mod control;
mod data;
mod doctor;
mod events;
mod gets;
mod here;
mod info;
mod inspect;
mod jobs;
mod links;
mod manual;
mod process;
mod servers;
mod steps;
mod top;
mod trace;

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use pmix_dstore::segment::{InspectOptions, layout_text};

use self::args::{Arguments, Command};
use self::control::Action;
use crate::prrte::{self, Check};
use crate::usage;

pub use self::links::words_of;

/// What a command prints, and whether all is well.
struct Printout {
    text: String,
    is_good: bool,
}

impl Printout {
    fn good(text: String) -> Printout {
        Printout { text, is_good: true }
    }
}

/// Runs a command; returns the exit status.
pub fn run(arguments: &Arguments) -> u8 {
    match answer(&arguments.command) {
        Ok(Printout { text, is_good }) => u8::from(!(print(&text) && is_good)),
        Err(reason) => {
            usage::complain("pmixctl", &reason);
            1
        }
    }
}

fn answer(command: &Command) -> Result<Printout, String> {
    match command {
        Command::Ps { server, nspace, json } => jobs::ps(server, nspace.as_deref(), *json),
        Command::Servers { json } => servers::servers(*json),
        Command::Top { server, interval, json } => top::top(server, *interval, *json),
        Command::Trace { server, nspace, rank, follow, json } => trace::trace(server, nspace, rank, *follow, *json),
        Command::Doctor { server, directory: None, json } => doctor::doctor(server, *json),
        Command::Doctor { directory: Some(directory), json, .. } => doctor::of_left_directory(directory, *json),
        Command::Query { server, keys, qualifiers, json } => data::query(server, keys, qualifiers, *json),
        Command::Get { server, nspace, rank, key, wait, json } => {
            data::get(server, (nspace, rank, key.as_deref()), *wait, *json)
        }
        Command::Lookup { server, keys, wait, json } => data::lookup(server, keys, *wait, *json),
        Command::Events { server, codes, follow, json } => events::events(server, codes, *follow, *json),
        Command::Notify { server, code, range, to, infos } => events::notify(server, code, *range, to, infos),
        Command::Kill(target) => control::ranks(Action::Kill, target),
        Command::Signal { signal, target } => control::ranks(Action::Signal(control::signal(signal)?), target),
        Command::Pause(target) => control::ranks(Action::Pause, target),
        Command::Resume(target) => control::ranks(Action::Resume, target),
        Command::Control { server, action, targets, request_id } => {
            control::processes(server, Action::of(action)?, targets, request_id.as_deref())
        }
        Command::Attrs { server, functions, json } => data::attrs(server, functions, *json),
        Command::Info { json } => Ok(info::info(*json)),
        Command::Inspect { json, rows, all, paths } => {
            let rows = InspectOptions { rows_max: *rows, ..InspectOptions::default() };
            let options = if *all { InspectOptions { rows_max: u32::MAX, bytes_max: usize::MAX } } else { rows };
            Ok(inspect::inspect(paths, *json, &options))
        }
        Command::Clean { dry_run, directories, json } => clean::clean(directories, *dry_run, *json),
        Command::Layout => Ok(Printout::good(layout_text())),
        Command::Prrte { json, directory, link, stock, files } => {
            let directory = directory.clone().map_or_else(installed, Ok)?;
            if *link { link_stock(&directory, stock.as_deref()) } else { Ok(check_prrte(files, &directory, *json)) }
        }
        Command::Server => Ok(here::server()),
        Command::Completions { shell, program } => Ok(Printout::good(manual::completions(*shell, *program))),
        Command::Links => Ok(Printout::good(links::names())),
        Command::Man { directory } => manual::write(directory).map(Printout::good),
    }
}

/// The directory for PRRTE of the installation that this program is of.
fn installed() -> Result<PathBuf, String> {
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let prefix =
        own.parent().and_then(Path::parent).ok_or("this program is in no prefix: --directory names the directory")?;
    Ok(prefix.join("lib/prrte"))
}

fn check_prrte(files: &[PathBuf], directory: &Path, json: bool) -> Printout {
    let files = if files.is_empty() { prrte::libraries_of_prrte() } else { files.to_vec() };
    let check = Check::of(directory, &files);
    let text = if json { format!("{:#}\n", check.json()) } else { check.text() };
    Printout { text, is_good: check.is_good() }
}

fn link_stock(directory: &Path, stock: Option<&Path>) -> Result<Printout, String> {
    let directory_name = directory.display();
    match prrte::link_stock(directory, stock) {
        Ok(stock) => Ok(Printout::good(format!("{directory_name}: leads to {}\n", stock.display()))),
        Err(reason) => Err(format!(
            "{reason}; once the stock library is installed, or with its file: pmixctl prrte --link --directory {directory_name} [--stock FILE]"
        )),
    }
}

/// Writes to standard output. Does not panic if the reader has closed it, and returns whether it has not.
fn print(text: &str) -> bool {
    io::stdout().write_all(text.as_bytes()).and_then(|()| io::stdout().flush()).is_ok()
}
