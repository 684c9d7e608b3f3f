//! What the programs say on standard output and standard error.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};

/// Prints what clap says, help and version on standard output and mistakes on standard error; returns the exit status.
pub fn say(program: &str, said: &clap::Error) -> ExitCode {
    let text = said.to_string();
    match missing(said) {
        Some(missing) => {
            let behind = text.split_once("\n\n").map_or("", |(_, behind)| behind);
            say_text(program, said.kind(), &format!("missing on the command line: {missing}\n\n{behind}"))
        }
        None => say_text(program, said.kind(), &text),
    }
}

/// What the command line lacks.
fn missing(said: &clap::Error) -> Option<String> {
    match said.get(ContextKind::InvalidArg)? {
        ContextValue::Strings(names) if said.kind() == ErrorKind::MissingRequiredArgument => Some(names.join(", ")),
        _ => None,
    }
}

/// The same with mistakes in one line, for programs that many ranks run.
pub fn say_in_a_line(program: &str, said: &clap::Error) -> ExitCode {
    let text = said.to_string();
    if matches!(said.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        return say_text(program, said.kind(), &text);
    }
    if said.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        return say_text(program, said.kind(), &format!("a command is missing; see {program} --help"));
    }
    // What follows the first empty line says how to go on.
    let first: Vec<&str> = text.lines().take_while(|line| !line.is_empty()).map(str::trim).collect();
    say_text(program, said.kind(), &format!("{}; see {program} --help", first.join(" ")))
}

fn say_text(program: &str, kind: ErrorKind, text: &str) -> ExitCode {
    if matches!(kind, ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        let mut stdout = io::stdout();
        let written = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
        return match &written {
            Err(error) if !is_written(&written) => {
                complain(program, &format!("cannot write to standard output: {error}"));
                ExitCode::FAILURE
            }
            _ => ExitCode::SUCCESS,
        };
    }
    complain(program, text.strip_prefix("error: ").unwrap_or(text).trim_end());
    ExitCode::from(2)
}

/// Prints a message to the user of a program. A closed stderr is ignored.
pub fn complain(program: &str, message: &str) {
    let _ = writeln!(io::stderr(), "{program}: {message}");
}

/// Whether a write succeeded, or failed only because the reader has closed the stream.
pub fn is_written(written: &io::Result<()>) -> bool {
    written.as_ref().err().is_none_or(|error| error.kind() == io::ErrorKind::BrokenPipe)
}
