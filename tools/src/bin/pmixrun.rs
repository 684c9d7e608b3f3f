//! Starts the ranks of a parallel program on this node and serves them.

#![forbid(unsafe_code)]

use std::process::ExitCode;

use pmix_tools::run::{self, args::Args};
use pmix_tools::usage;

fn main() -> ExitCode {
    match Args::parse(std::env::args_os()) {
        Ok(args) => ExitCode::from(u8::try_from(run::run(&args)).unwrap_or(1)),
        Err(said) => usage::say("pmixrun", &said),
    }
}
