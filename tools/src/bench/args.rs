//! The command line of `pmixbench`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};

const AFTER_HELP: &str = "\
Start get, wireup, fence and memory as the ranks of a job: pmixrun -n 4 pmixbench get, mpirun -n 4 pmixbench get, \
srun -n 4 --mpi=pmix pmixbench get. The library is the libpmix.so.2 that the dynamic linker finds: LD_LIBRARY_PATH, or pmixrun --lib, \
chooses it. Rank 0 prints the figures of all ranks, with the library and the server that they belong to.

The exit status is 0, 1 if something failed, 2 for a wrong command line.";

/// Measure the PMIx library of a job's ranks, and draw the figures
#[derive(Parser, Debug)]
#[command(name = "pmixbench", version, after_help = AFTER_HELP, max_term_width = 120)]
pub struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What is done.
#[derive(Subcommand, Debug)]
pub enum Command {
    /// Time PMIx_Get of a job's key, and of keys of the own rank, of ranks of this node and of others, and of a key that is missing
    ///
    /// All ranks measure at the same time. A sample is the time of one call, with the freeing of its value, within a batch; batches are so
    /// large that the clock's part is below 2 %. Percentiles are those of a rank's samples.
    Get(Get),
    /// Time PMIx_Init, the publishing of keys, the first fence and the reading of all ranks' keys
    Wireup(Published),
    /// Time fences: without data, and with data that each rank has put since the last one
    Fence(Fence),
    /// Tell how much memory of a rank the library takes: after PMIx_Init, after the fence, after the reading of all ranks' keys
    Memory(Published),
    /// Make a page of the figures in files that --json has written
    Report(Report),
}

/// Options of `get`.
#[derive(Args, Debug)]
pub struct Get {
    /// Where figures go, and how.
    #[command(flatten)]
    pub output: Output,
    /// Sizes of the values in bytes
    #[arg(long, value_name = "BYTES,...", value_delimiter = ',', default_value = "64,1024,16384", value_parser = size)]
    pub sizes: Vec<usize>,
    /// Samples of each kind of call
    #[arg(long, value_name = "N", default_value = "10000", value_parser = count)]
    pub samples: u32,
    /// Longest time for each kind of call
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = seconds)]
    pub time: Duration,
    /// Measure in rank 0 only, while the other ranks sleep in a fence
    #[arg(long)]
    pub alone: bool,
}

/// Options of `wireup` and `memory`.
#[derive(Args, Debug)]
pub struct Published {
    /// Where figures go, and how.
    #[command(flatten)]
    pub output: Output,
    /// Keys that each rank publishes
    #[arg(long, value_name = "N", default_value = "8", value_parser = count)]
    pub keys: u32,
    /// Size of their values in bytes
    #[arg(long, value_name = "BYTES", default_value = "128", value_parser = size)]
    pub size: usize,
}

/// Options of `fence`.
#[derive(Args, Debug)]
pub struct Fence {
    /// Where figures go, and how.
    #[command(flatten)]
    pub output: Output,
    /// Bytes that each rank puts before a fence; 0 is a fence without data
    #[arg(long, value_name = "BYTES,...", value_delimiter = ',', default_value = "0,64,4096", value_parser = size_or_none)]
    pub sizes: Vec<usize>,
    /// Fences of each size
    #[arg(long, value_name = "N", default_value = "200", value_parser = count)]
    pub rounds: u32,
}

/// Where figures go, and how.
#[derive(Args, Debug)]
pub struct Output {
    /// Print one document of JSON, with the figures of each rank
    #[arg(long, conflicts_with = "csv")]
    pub json: bool,
    /// Print a line for each rank and figure, separated by commas
    #[arg(long)]
    pub csv: bool,
    /// Write to a file; rank 0 writes it on its node
    #[arg(short = 'o', long = "output", value_name = "FILE")]
    pub file: Option<PathBuf>,
}

/// Options of `report`.
#[derive(Args, Debug)]
pub struct Report {
    /// Files that pmixbench --json has written
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// The page
    #[arg(short = 'o', long = "output", value_name = "FILE", default_value = "report.html")]
    pub page: PathBuf,
}

/// Values are at most this large: each rank keeps some of each size.
const SIZE_MAX: usize = 16 << 20;

fn size(text: &str) -> Result<usize, String> {
    match size_or_none(text) {
        Ok(0) => Err("a value has at least 1 byte".into()),
        other => other,
    }
}

fn size_or_none(text: &str) -> Result<usize, String> {
    let bytes = text.parse().ok().filter(|bytes| *bytes <= SIZE_MAX);
    bytes.ok_or_else(|| format!("not a number of bytes up to {SIZE_MAX}"))
}

fn count(text: &str) -> Result<u32, String> {
    let number = text.parse().ok().filter(|number| (1..=10_000_000).contains(number));
    number.ok_or_else(|| "not a number from 1 to 10000000".into())
}

fn seconds(text: &str) -> Result<Duration, String> {
    let time = text.parse().ok().filter(|seconds| *seconds > 0.0 && *seconds <= 3600.0);
    time.map(Duration::from_secs_f64).ok_or_else(|| "not a number of seconds up to 3600".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(words: &str) -> String {
        Arguments::try_parse_from(words.split(' ')).expect_err("it is refused").to_string()
    }

    #[test]
    fn bad_values_are_refused_in_a_line() {
        for words in [
            "get --sizes 0",
            "get --samples 0",
            "get --time 0",
            "get --json --csv",
            "fence --sizes 17000000",
            "report",
            "put",
        ] {
            let said = refused(&format!("pmixbench {words}"));
            assert!(said.starts_with("error: "), "{words}: {said}");
        }
    }

    #[test]
    fn lists_are_separated_by_commas() {
        let arguments = Arguments::try_parse_from(["pmixbench", "fence", "--sizes", "0,8"]).expect("it is taken");
        let Command::Fence(fence) = arguments.command else { panic!("a fence") };
        assert_eq!((fence.sizes, fence.rounds), (vec![0, 8], 200));
    }
}
