//! Measures the PMIx library of a job's ranks, and draws the figures. `pmix_tools::bench` is the program.

#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::Parser;
use pmix_tools::bench::{args::Arguments, run};
use pmix_tools::usage;

fn main() -> ExitCode {
    match Arguments::try_parse() {
        Ok(arguments) => ExitCode::from(run(&arguments)),
        Err(said) => usage::say_in_a_line("pmixbench", &said),
    }
}
