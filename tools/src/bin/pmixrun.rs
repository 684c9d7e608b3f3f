//! Starts the processes of a job on this node: `pmixrun -n N PROGRAM ARGS...`.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(pmix_tools::run::run(std::env::args_os().skip(1)))
}
