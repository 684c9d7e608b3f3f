//! `pmixbench`: measures a PMIx library from the ranks of a job, under any launcher and with any library, and draws the figures.
//!
//! Each rank measures (`get`, `wireup`, `fence`) and publishes what it found; rank 0 reads that by the same library, and prints it
//! (`document`, `printed`). `report` makes a page of such documents. Ranks touch nothing of it.

mod abi;
pub mod args;
mod document;
mod fence;
mod get;
mod job;
mod library;
mod printed;
mod report;
mod sampling;
mod wireup;

use std::fs;
use std::io::{self, Write};

use serde_json::Value;

use self::args::{Arguments, Command, Output};
use self::job::Measured;
use crate::usage;

/// Runs a command; returns the exit status.
pub fn run(arguments: &Arguments) -> u8 {
    let (name, output, measured) = match &arguments.command {
        Command::Get(get) => ("get", &get.output, get::measure(get)),
        Command::Wireup(wireup) => ("wireup", &wireup.output, wireup::times(wireup)),
        Command::Memory(memory) => ("memory", &memory.output, wireup::memory(memory)),
        Command::Fence(fence) => ("fence", &fence.output, fence::measure(fence)),
        Command::Report(report) => return status(report::write(&report.files, &report.page)),
    };
    let gathered = measured.and_then(Measured::gather);
    status(gathered.and_then(|ranks| match ranks {
        Some(ranks) => print(output, &document::of(name, &ranks)),
        None => Ok(()),
    }))
}

fn status(done: Result<(), String>) -> u8 {
    match done {
        Ok(()) => 0,
        Err(reason) => {
            usage::complain("pmixbench", &reason);
            1
        }
    }
}

fn print(output: &Output, document: &Value) -> Result<(), String> {
    let text = match output {
        Output { json: true, .. } => format!("{document:#}\n"),
        Output { csv: true, .. } => printed::csv(document),
        _ => printed::text(document),
    };
    if let Some(file) = &output.file {
        return fs::write(file, text).map_err(|error| format!("{}: {error}", file.display()));
    }
    let mut stdout = io::stdout();
    let written = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
    match &written {
        Err(error) if !usage::is_written(&written) => Err(format!("cannot write to standard output: {error}")),
        _ => Ok(()),
    }
}
