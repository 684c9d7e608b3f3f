//! The persistent `pmixrun`.
//!
//! `make bench-serve`, or `cargo bench -p pmix-benches --bench serve -- [--rounds N] [--ranks N]`: the time of a whole MPI job whose front end
//! is `pmixrun --dvm`, beside a `pmixrun` of its own and beside mpirun. In each round each of them runs one job, and each round starts with
//! another of them, so that other load of the machine affects all alike.
//!
//! `make soak PART=serve`, or with `--soak JOBS`: so many jobs in turn and 50 at once, of an MPI program and of `true`. Memory, descriptors and
//! files of the persistent one and of its watchdog must stay as they are after the first 64 jobs, of which it keeps a record each.

use std::error::Error;
use std::fmt::Write;
use std::thread;
use std::time::Instant;

use pmix_benches::figures::{median, quartiles};
use pmix_tests::{Ended, Holdings, Library, Pair, Profile, Run, Serving, Traces, pmixrun, program};

/// The jobs at once.
const AT_ONCE: usize = 50;
/// The jobs of which the persistent launcher keeps a record.
const KEPT: usize = 64;
/// So much more memory may be in use in the end, in KiB: pages of the allocator that no job holds.
const SLACK: usize = 1024;

struct Options {
    rounds: usize,
    ranks: usize,
    soak: Option<usize>,
}

impl Options {
    fn read() -> Result<Options, Box<dyn Error>> {
        let mut options = Options { rounds: 21, ranks: 4, soak: None };
        let mut args = std::env::args().skip(1);
        while let Some(arg) = args.next() {
            let mut value = || args.next().ok_or_else(|| format!("{arg} needs a value"));
            match arg.as_str() {
                "--rounds" => options.rounds = value()?.parse()?,
                "--ranks" => options.ranks = value()?.parse()?,
                "--soak" => options.soak = Some(value()?.parse()?),
                // Cargo adds this option.
                "--bench" => {}
                _ => return Err(format!("unknown argument {arg}").into()),
            }
        }
        if options.rounds == 0 || options.ranks == 0 {
            return Err("at least one round, of one rank".into());
        }
        Ok(options)
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let options = Options::read()?;
    match options.soak {
        Some(jobs) => soak(jobs),
        None => compare(&options),
    }
}

/// Runs a job; returns its time in milliseconds.
fn timed(run: Run, ranks: usize) -> Result<f64, Box<dyn Error>> {
    let begin = Instant::now();
    let ended = run.run();
    let time = begin.elapsed();
    match (ended.code(), ended.count(" done")) {
        (0, done) if done == ranks => Ok(time.as_secs_f64() * 1e3),
        _ => Err(format!("a job has failed: {ended}").into()),
    }
}

/// Starts a job in one of the ways that are compared.
type Starter<'s> = Box<dyn Fn() -> Run + 's>;

fn compare(options: &Options) -> Result<(), Box<dyn Error>> {
    let (ours, ranks) = (Library::Ours(Profile::Release), options.ranks);
    let traces = Traces::begin();
    let serving = Serving::start(&traces, ours, &[]);
    let pair = Pair { server: ours, ranks: ours };
    let job = |run: Run| run.arg(program("mpi")).arg("collectives");
    let own = || Run::new(pmixrun(), ours).traced(&traces).args(&format!("-n {ranks}"));
    let starters: [(&str, Starter<'_>); 4] = [
        ("pmixrun --dvm", Box::new(|| job(serving.front().args(&format!("-n {ranks}"))))),
        ("pmixrun", Box::new(|| job(own()))),
        ("mpirun, this library", Box::new(|| pair.job(&traces, ranks, "collectives"))),
        ("mpirun, stock library", Box::new(|| Pair::stock().job(&traces, ranks, "collectives"))),
    ];
    let mut times: Vec<Vec<f64>> = vec![Vec::new(); starters.len()];
    // The first round fills caches.
    for round in 0..=options.rounds {
        for turn in 0..starters.len() {
            let which = (round + turn) % starters.len();
            let time = timed(starters[which].1(), ranks)?;
            if round > 0 {
                times[which].push(time);
            }
        }
    }
    let mut text = format!("whole MPI job of {ranks} ranks, {} rounds, ms\n", options.rounds);
    for ((name, _), times) in starters.iter().zip(&times) {
        let [low, middle, high] = quartiles(times.iter().copied());
        writeln!(text, "{name:24} median {middle:7.1}  quartiles {low:7.1} {high:7.1}")?;
    }
    let ratio = |beside: usize| -> f64 {
        let ratios: Vec<f64> = times[0].iter().zip(&times[beside]).map(|(one, other)| other / one).collect();
        median(ratios)
    };
    for (beside, (name, _)) in starters.iter().enumerate().skip(1) {
        writeln!(text, "{name:24} / pmixrun --dvm, within a round: {:.2}", ratio(beside))?;
    }
    drop(starters);
    serving.end();
    print!("{text}");
    Ok(())
}

/// A job must end well.
fn well(ended: &Ended, lines: usize) -> Result<(), Box<dyn Error>> {
    match (ended.code(), ended.stdout.lines().count()) {
        (0, count) if count >= lines && ended.stderr.is_empty() => Ok(()),
        _ => Err(format!("a job has failed: {ended}").into()),
    }
}

fn soak(jobs: usize) -> Result<(), Box<dyn Error>> {
    let traces = Traces::begin();
    let begin = Instant::now();
    let serving = Serving::start(&traces, Library::Ours(Profile::Release), &[]);
    // Each fourth job is an MPI program: the others start and end alone.
    let one = |number: usize| match number % 4 {
        0 => (serving.front().args("-n 4 --timeout 100").arg(program("mpi")).arg("collectives"), 8),
        _ => (serving.front().args("-n 2 --timeout 100 --pset set echo"), 2),
    };
    let in_turn = |count: usize| -> Result<Holdings, Box<dyn Error>> {
        for number in 0..count {
            let (run, lines) = one(number);
            well(&run.run(), lines)?;
        }
        Ok(serving.holdings())
    };
    let at_once = || -> Result<Holdings, Box<dyn Error>> {
        let run = || serving.front().args("-n 2 --timeout 100 sh -c").arg("echo; sleep 1");
        let fronts: Vec<_> = (0..AT_ONCE).map(|_| run()).map(|run| thread::spawn(|| run.run())).collect();
        for front in fronts {
            well(&front.join().map_err(|_| "a thread has failed")?, 2)?;
        }
        Ok(serving.holdings())
    };
    let idle = serving.holdings();
    // What is kept in any case, and the memory that jobs at once need.
    in_turn(KEPT)?;
    let warm = at_once()?;
    in_turn(jobs / 2)?;
    let half = serving.settled(&warm);
    in_turn(jobs - jobs / 2)?;
    let turned = serving.settled(&warm);
    at_once()?;
    let last = serving.settled(&warm);
    serving.end();
    traces.assert_none_left("");
    let as_json = |held: Holdings| {
        let Holdings { processes, descriptors, threads, files, memory } = held;
        serde_json::json!({ "processes": processes, "descriptors": descriptors, "threads": threads, "files": files, "anonymous_kib": memory })
    };
    let is_flat =
        [half, turned, last].iter().all(|held| !held.is_more_than(&warm) && held.memory <= warm.memory + SLACK);
    let summary = serde_json::json!({
        "part": "serve", "jobs_in_turn": jobs, "jobs_at_once": AT_ONCE, "seconds": begin.elapsed().as_secs(), "flat": is_flat,
        "idle": as_json(idle), "after_first_jobs": as_json(warm), "half": as_json(half), "in_turn": as_json(turned), "at_once": as_json(last),
    });
    println!("{summary}");
    if is_flat { Ok(()) } else { Err("something grows with the jobs".into()) }
}
