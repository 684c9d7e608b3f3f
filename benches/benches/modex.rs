//! What a fence without data and direct modex cost beside a fence that collects data.
//!
//! `make bench-modex`, or `cargo bench -p pmix-benches --bench modex -- [--rounds N] [--jobs SERVERSxRANKS,...] [--out DIR]`. The
//! servers are processes of this machine that exchange through `benches/programs/host.c`; each rank puts two keys of 64 bytes
//! (`wire.c`). Libraries and both ways to exchange take turns within a round. Every rank reads the keys of all ranks, or of those 1, 2,
//! 4, 8 ... ranks further on; of more than 256 ranks only the latter. Prints a table and writes it as JSON, with one entry for each row:
//!
//! | column | is |
//! |---|---|
//! | elapsed | from the first `PMIx_Put` until the slowest rank has what it reads, when all ranks are initialised; ms |
//! | processor | of a rank and its part of the first server, from start to end; ms |
//! | requests | to hosts for a rank's data, by all servers |
//! | bytes | of contributions to fences and of answers to requests, of all servers |
//!
//! Cargo does not pass `--bench` in a test run. Then one small job runs, and its counts must be those that follow from its shape.

use std::error::Error;
use std::fmt::Write;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use pmix_benches::figures::{lines, of_host, spread};
use pmix_tests::{Library, benchmark_program};

type Failure = Box<dyn Error>;

/// Servers and ranks of a job.
type Job = (usize, usize);

/// Which keys a rank reads, as `wire.c` calls it.
const READERS: [&str; 2] = ["--neighbours", "--peers"];
/// In larger jobs no rank reads all others: asked for one by one, that takes minutes.
const PEERS_MAX: usize = 256;
const LIBRARIES: [&str; 2] = ["stock", "ours"];
/// Whether values are requested when they are read.
const WAYS: [bool; 2] = [false, true];

struct Options {
    rounds: usize,
    jobs: Vec<Job>,
    out: Option<PathBuf>,
}

impl Options {
    fn read() -> Result<Options, Failure> {
        let sizes = [4, 16, 64, 256, 1008];
        let jobs = [1, 4, 16].iter().flat_map(|&servers| sizes.map(|ranks| (servers, ranks)));
        let jobs = jobs.filter(|(servers, ranks)| servers <= ranks).collect();
        let mut options = Options { rounds: 5, jobs, out: None };
        let mut args = std::env::args().skip(1);
        while let Some(arg) = args.next() {
            let mut value = || args.next().ok_or_else(|| format!("{arg} needs a value"));
            match arg.as_str() {
                "--rounds" => options.rounds = value()?.parse()?,
                "--jobs" => options.jobs = value()?.split(',').map(job).collect::<Result<_, _>>()?,
                "--out" => options.out = Some(value()?.into()),
                // Cargo adds this option.
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

/// A job from `SERVERSxRANKS`.
fn job(text: &str) -> Result<Job, Failure> {
    let (servers, ranks) = text.split_once('x').ok_or("a job is SERVERSxRANKS")?;
    let (servers, ranks): Job = (servers.parse()?, ranks.parse()?);
    if servers == 0 || !ranks.is_multiple_of(servers) {
        return Err("each server has as many ranks".into());
    }
    Ok((servers, ranks))
}

/// The figures of one run.
#[derive(Clone, Copy)]
struct Figures {
    elapsed: f64,
    processor: f64,
    requests: f64,
    bytes: f64,
}

/// Runs a job.
fn run(library: Library, (servers, ranks): Job, reader: &str, is_direct: bool) -> Result<Figures, Failure> {
    let clients = ranks / servers;
    let mut command = Command::new(benchmark_program("host", &[]));
    command.args(["--servers", &servers.to_string(), "--clients", &clients.to_string()]);
    command.arg(benchmark_program("wire", &[])).args(["--settled", "--keys", "2", "--len", "64", reader]);
    command.args(is_direct.then_some("--direct")).env("LD_LIBRARY_PATH", library.directory());
    let output = command.output()?;
    let said = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        return Err(format!("{command:?}: {}\n{said}{}", output.status, String::from_utf8_lossy(&output.stderr)).into());
    }
    let times = lines(&said, "exchange");
    if times.len() != ranks {
        return Err(format!("{} of {ranks} ranks: {said}", times.len()).into());
    }
    let (mut begun, mut ended) = (f64::INFINITY, 0.0);
    for (first, last) in times {
        begun = first.parse::<f64>()?.min(begun);
        ended = last.first().ok_or("a line of two times")?.max(ended);
    }
    Ok(Figures {
        elapsed: ended - begun,
        processor: of_host(&said, "processor")? / clients as f64,
        requests: of_host(&said, "requests")?,
        bytes: of_host(&said, "fenced")? + of_host(&said, "answered")?,
    })
}

/// The figures of all rounds of one row, collecting and direct.
struct Row {
    job: Job,
    reader: &'static str,
    library: &'static str,
    rounds: Vec<[Figures; 2]>,
}

impl Row {
    fn of(&self, figure: impl Fn(&Figures) -> f64) -> [[f64; 3]; 2] {
        [0, 1].map(|way| spread(self.rounds.iter().map(|round| figure(&round[way]))))
    }

    /// Direct through collecting, within a round.
    fn ratio(&self, figure: impl Fn(&Figures) -> f64) -> [f64; 3] {
        spread(self.rounds.iter().map(|[collecting, direct]| figure(direct) / figure(collecting)))
    }

    fn text(&self) -> String {
        let [elapsed, processor] = [self.of(|f| f.elapsed), self.of(|f| f.processor)].map(|of| of.map(|way| way[0]));
        let [requests, bytes] = [self.of(|f| f.requests), self.of(|f| f.bytes)].map(|of| of.map(|way| way[0]));
        let ([time, least, most], [work, ..]) = (self.ratio(|f| f.elapsed), self.ratio(|f| f.processor));
        let ((servers, ranks), reads) = (self.job, self.reader.trim_start_matches('-'));
        format!(
            "| {servers} | {ranks} | {reads} | {} | {:.1} | {:.1} | {time:.2} ({least:.2} to {most:.2}) | {:.2} | {:.2} | {work:.2} | {} | {} | {} |",
            self.library, elapsed[0], elapsed[1], processor[0], processor[1], requests[1], bytes[0], bytes[1],
        )
    }

    fn json(&self) -> String {
        let ((servers, ranks), reads) = (self.job, self.reader.trim_start_matches('-'));
        let mut text = format!(
            "{{\"servers\": {servers}, \"ranks\": {ranks}, \"reads\": \"{reads}\", \"library\": \"{}\"",
            self.library
        );
        type Read = fn(&Figures) -> f64;
        let figures: [(&str, Read); 4] = [
            ("elapsed_ms", |f| f.elapsed),
            ("processor_ms", |f| f.processor),
            ("requests", |f| f.requests),
            ("bytes", |f| f.bytes),
        ];
        for (name, figure) in figures {
            let [collecting, direct] = self.of(figure);
            write!(text, ", \"{name}\": {{\"collecting\": {collecting:?}, \"direct\": {direct:?}}}").expect("memory");
        }
        text + "}"
    }
}

/// All ways of one job in turn, each round beginning with another one.
fn measure(job: Job, rounds: usize) -> Result<Vec<Row>, Failure> {
    let mut rows = Vec::new();
    for reader in READERS {
        if reader == "--peers" && job.1 > PEERS_MAX {
            continue;
        }
        let mut of = LIBRARIES.map(|library| Row { job, reader, library, rounds: Vec::new() });
        for round in 0..rounds {
            for turn in 0..LIBRARIES.len() {
                let which = (round + turn) % LIBRARIES.len();
                let library = [Library::Stock, Library::ours()][which];
                let mut ways = WAYS.map(|is_direct| (is_direct, None));
                ways.rotate_left(round % 2);
                for (is_direct, figures) in &mut ways {
                    *figures = Some(run(library, job, reader, *is_direct)?);
                }
                ways.sort_by_key(|(is_direct, _)| *is_direct);
                of[which].rounds.push(ways.map(|(_, figures)| figures.expect("each way has run")));
            }
        }
        rows.extend(of);
    }
    Ok(rows)
}

/// A small job: each server asks its host once for each rank elsewhere that any of its ranks reads, whatever the number of readers and
/// keys; with a collecting fence it asks for none.
fn check() -> Result<(), Failure> {
    let (servers, ranks) = (2, 8);
    // On each server, the last rank reads furthest: 1, 2 and 4 ranks on, which are all ranks of the other one.
    for reader in READERS {
        for is_direct in WAYS {
            let figures = run(Library::ours(), (servers, ranks), reader, is_direct)?;
            let expected = if is_direct { servers * (ranks - ranks / servers) } else { 0 };
            if figures.requests != expected as f64 {
                return Err(format!("{reader} {is_direct}: {} requests for {expected} ranks", figures.requests).into());
            }
        }
    }
    Ok(())
}

fn main() -> Result<(), Failure> {
    if !std::env::args().any(|arg| arg == "--bench") {
        return check();
    }
    let options = Options::read()?;
    let mut rows = Vec::new();
    println!(
        "| servers | ranks | reads | library | collecting, ms | direct, ms | direct / collecting (range) | a rank's processor time, ms | direct | ratio | requests | bytes, collecting | direct |"
    );
    println!("|{}", "---|".repeat(13));
    for &job in &options.jobs {
        for row in measure(job, options.rounds)? {
            println!("{}", row.text());
            rows.push(row.json());
        }
    }
    if let Some(out) = options.out {
        fs::create_dir_all(&out)?;
        fs::write(out.join("modex.json"), format!("[\n{}\n]\n", rows.join(",\n")))?;
    }
    Ok(())
}
