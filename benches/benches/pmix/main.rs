//! The main benchmark: cost of calls, of wire-up, fences and large jobs beside the stock library, the limits of the machine, and the
//! targets.
//!
//! `make bench`, or `cargo bench -p pmix-benches --bench pmix -- [--rounds N] [--peer NAME=DIR]... [--full] [--out DIR]`. Its output is
//! also written to `bench.txt` in the directory, the same as JSON to `bench.json`, and a plot of the calls to `bench.svg`; both say when
//! it was measured, on which processor and kernel, the commit, the releases, and how far the rounds differ.
//! Each round runs the same programs (`benches/programs`) with each library in turn, on the server's and the clients' side. Calls of
//! nanoseconds alternate between the libraries in turns of a millisecond. Figures are medians over the rounds; ratios are taken
//! within a round. `--peer` adds the `libpmix.so` and `libpmix.so.2` of a directory under a name; an earlier version of ours takes
//! as many turns as ours. `--full` runs the jobs of 1,048,576 ranks with the stock library, too, which takes 10 GiB of memory.
//!
//! Cargo does not pass `--bench` in a test run. Then everything runs with small sizes, and each row must have its
//! figures.

mod measure;
mod origin;
mod report;
mod results;
mod targets;
mod turns;

use std::error::Error;
use std::path::PathBuf;
use std::{env, fs};

use nix::unistd::geteuid;
use pmix_tests::{Library, stock_release};

use measure::{FULL, SMALL, Sizes};
use origin::Origin;
use results::{Contender, Results};
use targets::Verdict;

type Failure = Box<dyn Error>;

struct Options {
    rounds: usize,
    /// Names and directories of other libraries.
    peers: Vec<(String, PathBuf)>,
    is_full: bool,
    out: Option<PathBuf>,
    is_small: bool,
}

impl Options {
    fn sizes(&self) -> &'static Sizes {
        if self.is_small { &SMALL } else { &FULL }
    }

    fn read() -> Result<Options, Failure> {
        let mut options = Options { rounds: 3, peers: Vec::new(), is_full: false, out: None, is_small: false };
        // Cargo passes `--bench` for a measurement; without it this runs as a test.
        options.is_small = !env::args().any(|arg| arg == "--bench");
        if options.is_small {
            return Ok(Options { rounds: 1, ..options });
        }
        let mut args = env::args().skip(1);
        while let Some(arg) = args.next() {
            let mut value = || args.next().ok_or_else(|| format!("{arg} needs a value"));
            match arg.as_str() {
                "--rounds" => options.rounds = value()?.parse()?,
                "--peer" => {
                    let peer = value()?;
                    let (name, directory) = peer.split_once('=').ok_or("--peer needs NAME=DIR")?;
                    options.peers.push((name.to_owned(), directory.into()));
                }
                "--full" => options.is_full = true,
                "--out" => options.out = Some(value()?.into()),
                "--bench" => {}
                _ => return Err(format!("unknown argument {arg}").into()),
            }
        }
        if options.rounds == 0 {
            return Err("at least one round".into());
        }
        Ok(options)
    }
}

fn main() -> Result<(), Failure> {
    let options = Options::read()?;
    let mut contenders = vec![
        Contender::new("stock".into(), Library::Stock.directory(), false)?,
        Contender::new("ours".into(), Library::ours().directory(), true)?,
    ];
    for (name, directory) in &options.peers {
        contenders.push(Contender::new(name.clone(), directory.clone(), false)?);
    }
    measure::warm_up(&contenders)?;
    let origin = Origin::now(&contenders);
    let mut results = Results::new(contenders);
    for round in 0..options.rounds {
        eprintln!("round {} of {}", round + 1, options.rounds);
        measure::limits(&mut results)?;
        measure::calls(&mut results, options.sizes())?;
        measure::cold_calls(&mut results, options.sizes())?;
        measure::wire_up(&mut results, options.sizes(), round)?;
        measure::fences(&mut results, options.sizes(), round)?;
        measure::growth(&mut results, options.sizes(), round)?;
        if geteuid().is_root() {
            measure::idle_connections(&mut results, options.sizes())?;
        }
        let count = results.contenders.len();
        for turn in 0..count {
            measure::scaling(&mut results, options.sizes(), (round + turn) % count)?;
        }
        measure::exchanges(&mut results, options.sizes(), round)?;
        measure::jobs(&mut results, options.sizes(), round, options.is_full)?;
        measure::placements(&mut results, options.sizes())?;
    }
    let targets = targets::targets(&results, options.sizes());
    let text = report::text(&results, &targets, &origin, options.rounds);
    let files = [
        ("bench.json", report::json(&results, &targets, &origin, &stock_release())),
        ("bench.svg", report::plot(&results)),
        ("bench.txt", text.clone()),
    ];
    if let Some(missing) = targets.iter().find(|target| target.verdict() == Verdict::NotMeasured) {
        return Err(format!("{}: not measured\n{text}", missing.what).into());
    }
    if options.is_small {
        // Figures of small sizes are not meaningful.
        return Ok(());
    }
    print!("{text}");
    if let Some(out) = options.out {
        fs::create_dir_all(&out)?;
        files.iter().try_for_each(|(name, content)| fs::write(out.join(name), content))?;
    }
    Ok(())
}
