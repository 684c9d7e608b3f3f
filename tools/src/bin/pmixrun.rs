//! Starts the ranks of a parallel program on this node and serves them.

#![forbid(unsafe_code)]

use std::process::ExitCode;

use pmix_tools::run::{self, args::Args};
use pmix_tools::usage;

fn main() -> ExitCode {
    if let Some(status) = run::serve_launcher(std::env::args_os()) {
        return ExitCode::from(u8::try_from(status).unwrap_or(1));
    }
    match Args::parse(std::env::args_os()) {
        Ok(args) => ExitCode::from(u8::try_from(run::run(&args)).unwrap_or(1)),
        Err(said) => usage::say("pmixrun", &said),
    }
}
