//! Looks at servers, jobs and files of the PMIx library, and controls jobs. `pmix_tools::ctl` is the program.

#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::Parser;
use pmix_tools::ctl::{args::Arguments, run, words_of};
use pmix_tools::usage;

fn main() -> ExitCode {
    match Arguments::try_parse_from(words_of(std::env::args_os())) {
        Ok(arguments) => ExitCode::from(run(&arguments)),
        Err(said) => usage::say("pmixctl", &said),
    }
}
