//! Starts the ranks of a parallel program on this node and serves them.

use std::process::ExitCode;

use pmix_tools::run::{self, args};

fn main() -> ExitCode {
    match args::Command::parse(std::env::args_os().skip(1)) {
        Ok(args::Command::Help) => {
            print!("{}", args::HELP);
            ExitCode::SUCCESS
        }
        Ok(args::Command::Version) => {
            println!("pmixrun {}", env!("CARGO_PKG_VERSION"));
            ExitCode::SUCCESS
        }
        Ok(args::Command::Run(args)) => ExitCode::from(u8::try_from(run::run(&args)).unwrap_or(1)),
        Err(message) => {
            eprintln!("pmixrun: {message}");
            ExitCode::from(2)
        }
    }
}
