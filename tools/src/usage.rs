//! What is said of a command line: help, version and mistakes.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::error::ErrorKind;

/// Prints what clap says, help and version on standard output and mistakes on standard error; returns the exit status.
pub fn say(program: &str, said: &clap::Error) -> ExitCode {
    let text = said.to_string();
    if matches!(said.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        let mut stdout = io::stdout();
        return match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
            // A reader that has seen enough is no failure.
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                complain(program, &format!("cannot write to standard output: {error}"));
                ExitCode::FAILURE
            }
            _ => ExitCode::SUCCESS,
        };
    }
    complain(program, text.strip_prefix("error: ").unwrap_or(&text).trim_end());
    ExitCode::from(2)
}

/// A closed stderr is ignored.
fn complain(program: &str, message: &str) {
    let _ = writeln!(io::stderr(), "{program}: {message}");
}
