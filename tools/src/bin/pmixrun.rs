//! Starts the ranks of a parallel program on this node and serves them.

#![forbid(unsafe_code)]

use std::io::{self, Write};
use std::process::ExitCode;

use clap::error::ErrorKind;
use pmix_tools::run::{self, args::Args};

/// Prints `text`. A reader that has closed stdout is no failure.
fn print(text: &str) -> ExitCode {
    let mut stdout = io::stdout();
    let written = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
    match &written {
        Err(error) if !run::is_written(&written) => {
            run::complain(&format!("cannot write to standard output: {error}"));
            ExitCode::FAILURE
        }
        _ => ExitCode::SUCCESS,
    }
}

fn main() -> ExitCode {
    match Args::parse(std::env::args_os()) {
        Ok(args) => ExitCode::from(u8::try_from(run::run(&args)).unwrap_or(1)),
        Err(said) if matches!(said.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) => {
            print(&said.to_string())
        }
        Err(mistake) => {
            let text = mistake.to_string();
            run::complain(text.strip_prefix("error: ").unwrap_or(&text).trim_end());
            ExitCode::from(2)
        }
    }
}
