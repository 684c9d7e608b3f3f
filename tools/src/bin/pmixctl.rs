//! Looks at servers, jobs and files of the PMIx library, and controls jobs. `pmix_tools::ctl` is the program.

#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::Parser;
use pmix_tools::ctl::{args::Arguments, run, words_of};

fn main() -> ExitCode {
    ExitCode::from(run(&Arguments::parse_from(words_of(std::env::args_os()))))
}
