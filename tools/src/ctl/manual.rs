//! Man pages and completions, from the definition of the command line.

use std::fs;
use std::path::Path;

use clap::{Command, CommandFactory};
use clap_complete::Shell;

use super::args::{Arguments, Program};
use crate::bench::args as bench;
use crate::run::args::Options;

/// The completions of a program's options in a shell.
pub fn completions(shell: Shell, program: Program) -> String {
    let mut text = Vec::new();
    let (mut command, name) = match program {
        Program::Pmixctl => (Arguments::command(), "pmixctl"),
        Program::Pmixrun => (Options::command(), "pmixrun"),
        Program::Pmixbench => (bench::Arguments::command(), "pmixbench"),
    };
    clap_complete::generate(shell, &mut command, name, &mut text);
    String::from_utf8_lossy(&text).into_owned()
}

/// Writes the man pages of the programs and one for each command of those that have some. Returns their names, a line each.
///
/// # Errors
/// The file that cannot be written, and why.
pub fn write(directory: &Path) -> Result<String, String> {
    let mut names = String::new();
    for (mut command, name) in [(Arguments::command(), "pmixctl"), (bench::Arguments::command(), "pmixbench")] {
        command.build();
        write_page(directory, command.clone(), name, &mut names)?;
        for sub in command.get_subcommands().filter(|sub| sub.get_name() != "help") {
            write_page(directory, sub.clone(), &format!("{name}-{}", sub.get_name()), &mut names)?;
        }
    }
    write_page(directory, Options::command(), "pmixrun", &mut names)?;
    Ok(names)
}

fn write_page(directory: &Path, command: Command, name: &str, names: &mut String) -> Result<(), String> {
    let file = directory.join(format!("{name}.1"));
    let said = |error: &dyn std::fmt::Display| format!("cannot write {}: {error}", file.display());
    let mut text = Vec::new();
    let page = clap_mangen::Man::new(command.name(name.to_owned()).version(env!("CARGO_PKG_VERSION")));
    page.render(&mut text).map_err(|error| said(&error))?;
    fs::create_dir_all(directory).and_then(|()| fs::write(&file, text)).map_err(|error| said(&error))?;
    *names += &format!("{name}.1\n");
    Ok(())
}
