//! Starts the ranks of a parallel program on this node and serves them.

use std::io::{self, Write};
use std::process::ExitCode;

use pmix_tools::run::{self, args};

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
    match args::Command::parse(std::env::args_os().skip(1)) {
        Ok(args::Command::Help) => print(args::HELP),
        Ok(args::Command::Version) => print(concat!("pmixrun ", env!("CARGO_PKG_VERSION"), "\n")),
        Ok(args::Command::Run(args)) => ExitCode::from(u8::try_from(run::run(&args)).unwrap_or(1)),
        Err(message) => {
            run::complain(&message);
            ExitCode::from(2)
        }
    }
}
