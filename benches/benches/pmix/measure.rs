//! Runs the programs of `benches/programs` and parses their output.

use std::path::Path;
use std::process::Command;

use pmix_benches::figures::{lines, median, of_host};
use pmix_tests::{PLACEMENTS, benchmark_program, published};

use crate::Failure;
use crate::results::{Contender, Figure, Results};
use crate::targets::CALLS;
use crate::turns::{Player, play};

/// The sizes of the measurements.
pub struct Sizes {
    /// The numbers of clients for which wire-up is measured.
    pub wire_up: &'static [u32],
    /// The number of repetitions within a round. Most of the measured time is the system's and varies.
    pub repeats: usize,
    /// The number of processes started for one figure.
    pub starts: usize,
    /// The number of turns for each kind of call, in alternation with the limit and the other libraries.
    pub turns: usize,
    /// The number of turns of two threads and of one.
    pub threaded_turns: usize,
    /// The numbers of ranks on a node for which calls should take the same time.
    pub on_node: &'static [u32],
    /// The number of clients of each of four servers.
    pub clients: u32,
    /// The number of values of 4 KiB that each of 32 ranks contributes to the fence of 32 MiB.
    pub values: u32,
    /// The number of repetitions of that fence in a round, each followed by a plain copy; also of the sequence of many
    /// fences.
    pub fence_turns: usize,
    /// Few and many ranks of one server, between which a fence should take its threads the same time for a rank.
    pub growth: [u32; 2],
    /// The number of another user's idle connections while ranks start.
    pub idle: usize,
    /// The number of consecutive fences. The stock library's clients send all their values with each commit, so a
    /// thousand fences take it minutes.
    pub fences: usize,
    /// The same with the stock library.
    pub stock_fences: usize,
    /// The number of registrations of each large job with our library, in alternation with the others.
    pub job_turns: usize,
    /// The number of nodes of 64 ranks in the job that is large for the stock library.
    pub nodes: u32,
    /// The number of nodes of 64 ranks in the largest job.
    pub nodes_most: u32,
}

pub const FULL: Sizes = Sizes {
    wire_up: &[2, 8, 32, 128],
    repeats: 9,
    starts: 200,
    turns: 40,
    threaded_turns: 45,
    on_node: &[2, 8, 32, 128, 256],
    clients: 32,
    values: 256,
    fence_turns: 9,
    growth: [8, 128],
    idle: 2500,
    fences: 1000,
    stock_fences: 200,
    job_turns: 5,
    nodes: 1024,
    nodes_most: 16_384,
};

/// The smallest sizes with which every program runs and every row has figures.
pub const SMALL: Sizes = Sizes {
    wire_up: &[2],
    repeats: 1,
    starts: 2,
    turns: 1,
    threaded_turns: 1,
    on_node: &[2, 3],
    clients: 4,
    values: 2,
    fence_turns: 1,
    growth: [2, 4],
    idle: 20,
    fences: 20,
    stock_fences: 10,
    job_turns: 1,
    nodes: 16,
    nodes_most: 64,
};

const PER_NODE: u32 = 64;

/// Batches of 64 calls in a turn: a fraction of a millisecond of our calls, a few of the stock library's.
const BATCHES: usize = 64;
const STOCK_BATCHES: usize = 4;

/// A job of `nodes` nodes, of which only two ranks run.
fn large(nodes: u32) -> String {
    format!("--clients 2 --nodes {nodes} --per-node {PER_NODE} --timeout 600")
}

/// `benches/programs/host.c` with one library.
fn hosted(library: &Path, shape: &str, program: &Path, args: &str) -> Command {
    let mut command = Command::new(benchmark_program("host", &[]));
    command.args(shape.split(' ')).arg(program).args(args.split(' ').filter(|a| !a.is_empty()));
    command.env("LD_LIBRARY_PATH", library);
    command
}

/// Runs a program under `benches/programs/host.c` and returns its output.
fn host(library: &Path, shape: &str, program: &Path, args: &str) -> Result<String, Failure> {
    output(&mut hosted(library, shape, program, args))
}

/// Starts a job; its first rank makes calls in turns with other players.
fn player(contender: &Contender, shape: &str, args: &str) -> Result<Player, Failure> {
    let batches = if contender.is_quick { BATCHES } else { STOCK_BATCHES };
    let args = format!("--turns --cpu 0 {args}");
    Player::start(&mut hosted(&contender.directory, shape, &benchmark_program("calls", &[]), &args), batches)
}

/// The job in which calls are made.
const SHAPE: &str = "--servers 2 --clients 2 --nodes 64 --per-node 16 --infos";
/// Sections that have a target.
pub const COLD: &str = "cold call / cold limit, 1,048,576 ranks";
pub const JOB: &str = "large job";
pub const PLACEMENT: &str = "large job by placement";
/// The placement node by node, all nodes alike.
pub const REGULAR: &str = "regular";
pub const REGISTER_TO_READING: &str = "register / reading eight infos of each rank once";
pub const INIT_TO_FEW: &str = "init / that among 2 ranks";
pub const BESIDE_IDLE: &str = "PMIx_Init of the slowest of 8 ranks beside idle connections of another user";
pub const SERVED_TO_BARE: &str = "that / a server's thread without a library (benches/programs/bare.c)";
pub const TO_ALONE: &str = "beside them / without them";
pub const GROWTH: &str = "CPU time of the server's threads for a rank and a fence";
pub const TO_FEW: &str = "among many ranks / among few";
pub const ON_NODE: &str = "one call among ranks of a node, one peer's keys / among the fewest";

/// Runs each library once to fill caches.
pub fn warm_up(contenders: &[Contender]) -> Result<(), Failure> {
    for contender in contenders {
        host(&contender.directory, "--clients 2", &benchmark_program("wire", &[]), "")?;
    }
    Ok(())
}

/// Measures the limits of the machine with `benches/programs/limit.c`.
pub fn limits(results: &mut Results) -> Result<(), Failure> {
    let said = output(Command::new(benchmark_program("limit", &[])).args(["--cpu", "0"]))?;
    lines(&said, "limit").into_iter().for_each(|(name, fields)| results.add_limit(name, "ns", fields[0]));
    Ok(())
}

/// Calls of each kind in turns with the machine's limit for it, all libraries at once.
pub fn calls(results: &mut Results, sizes: &Sizes) -> Result<(), Failure> {
    let mut limit =
        Player::start(Command::new(benchmark_program("limit", &[])).args(["--turns", "--cpu", "0"]), BATCHES)?;
    let contenders = results.contenders.iter();
    let mut libraries = contenders.map(|one| player(one, SHAPE, "")).collect::<Result<Vec<_>, _>>()?;
    for (call, of_limit, ..) in CALLS {
        let mut players = vec![(&mut limit, of_limit)];
        players.extend(libraries.iter_mut().map(|library| (library, call)));
        for (which, played) in play(&mut players, sizes.turns)?.into_iter().skip(1).enumerate() {
            results.add(which, ("one call", call.into(), "ns", played.ns));
            results.add(which, ("one call, p99", call.into(), "ns", played.most));
            results.add(which, ("one call / its limit", call.into(), "times", played.to_first));
        }
    }
    libraries.into_iter().try_for_each(Player::end)?;
    limit.end()?;

    let turns = sizes.threaded_turns.to_string();
    let said = output(Command::new(benchmark_program("limit", &[])).args(["--threads", &turns]))?;
    for (name, fields) in lines(&said, "threads") {
        results.add_limit(format!("{name}, two threads / one"), "times", fields[0]);
    }
    Ok(())
}

/// Gets of registered and published values of random ranks of a large job, in turns with the limit. Measures only our
/// library: the stock library takes longer for this than for the rest of a round.
pub fn cold_calls(results: &mut Results, sizes: &Sizes) -> Result<(), Failure> {
    let mut limit =
        Player::start(Command::new(benchmark_program("limit", &[])).args(["--turns", "--cpu", "0"]), BATCHES)?;
    let nodes = sizes.nodes_most;
    let published = published(nodes * PER_NODE);
    let shape = format!("{} --shape scattered --published {}", large(nodes), published.display());
    let ours = results.contenders.iter().position(|one| one.is_ours).ok_or("ours is always there")?;
    let mut library = player(&results.contenders[ours], &shape, "--cold")?;
    for call in ["cold-key", "cold-number", "cold-host"] {
        let played = play(&mut [(&mut limit, "cold"), (&mut library, call)], sizes.turns)?;
        results.add(ours, ("cold call, 1,048,576 ranks", call.into(), "ns", played[1].ns));
        results.add(ours, (COLD, call.into(), "times", played[1].to_first));
    }
    library.end()?;
    limit.end()
}

/// Cost of wire-up, net of fork and exec (as many idle processes subtracted), and cost of being linked to the
/// library. The libraries and the idle processes take turns within the round.
pub fn wire_up(results: &mut Results, sizes: &Sizes, round: usize) -> Result<(), Failure> {
    let (wire, idle, linked) =
        (benchmark_program("wire", &[]), benchmark_program("idle", &[]), benchmark_program("idle", &["-DLINKED"]));
    let count = results.contenders.len();
    for &clients in sizes.wire_up {
        // For idle processes and for ranks: the time until they are ready, and the processor time of all. In the end, for ranks, that of
        // the server's own threads.
        let mut all = vec![[const { Vec::new() }; 5]; count];
        let mut limit = Vec::new();
        for repeat in 0..sizes.repeats {
            let said = output(Command::new(benchmark_program("bare", &[])).arg(clients.to_string()))?;
            limit
                .push(lines(&said, "bare").first().and_then(|(_, fields)| fields.first().copied()).ok_or("no figure")?);
            for turn in 0..count {
                let which = (round + repeat + turn) % count;
                for (program, at) in [(&idle, 0), (&wire, 2)] {
                    let library = &results.contenders[which].directory;
                    let said = host(library, &format!("--clients {clients}"), program, "")?;
                    all[which][at].push(slowest(&said, 1));
                    all[which][at + 1].push(of_host(&said, "processor")? / f64::from(clients));
                    if at == 2 {
                        all[which][4].push(of_host(&said, "served")? / f64::from(clients));
                    }
                }
            }
        }
        let limit = median(limit);
        results.add_limit(format!("server's thread for a rank, {clients} ranks"), "ms", limit);
        for (which, all) in all.iter().enumerate() {
            let [idle, idle_spent, ready, spent, served] = all.each_ref().map(|values| median(values.iter().copied()));
            let name = |what| format!("{clients} ranks, {what}");
            let beyond = [
                ("until the last is ready", ready - idle),
                ("CPU time of a rank", spent - idle_spent),
                ("CPU time of the server's threads for a rank", served),
            ];
            for (what, figure) in beyond {
                results.add(which, ("wire-up, net of fork and exec", name(what), "ms", figure));
            }
            results.add(which, ("wire-up, net of fork and exec", name(SERVED_TO_BARE), "times", served / limit));
            results.add(which, ("fork and exec of idle processes", format!("{clients} ranks"), "ms", idle));
        }
    }
    for which in 0..count {
        let mut command = Command::new(benchmark_program("start", &[]));
        command.arg(sizes.starts.to_string()).arg(&idle).arg(&linked);
        let said = output(command.env("LD_LIBRARY_PATH", &results.contenders[which].directory))?;
        let said = lines(&said, "start");
        let [(_, alone), (_, linked)] = said.as_slice() else { return Err("two programs are started".into()) };
        for (field, what, unit) in [(0, "elapsed", "us"), (1, "CPU time", "us"), (2, "page faults", "")] {
            let section = "start and exit of a process";
            let more = linked[field] - alone[field];
            results.add(which, (section, format!("not linked to the library: {what}"), unit, alone[field]));
            results.add(which, (section, format!("linked to the library, overhead: {what}"), unit, more));
        }
    }
    Ok(())
}

/// Time of `PMIx_Init` with our library while another user (takes root) holds idle connections to the server; with and
/// without them in turns.
pub fn idle_connections(results: &mut Results, sizes: &Sizes) -> Result<(), Failure> {
    let wire = benchmark_program("wire", &[]);
    let ours = results.contenders.iter().position(|one| one.is_ours).ok_or("ours is always there")?;
    for (way, shared_memory) in [("over the Unix socket", "1"), ("over TCP", "0")] {
        let (mut alone, mut beside) = (Vec::new(), Vec::new());
        for _ in 0..sizes.repeats {
            for (idle, figures) in [(0, &mut alone), (sizes.idle, &mut beside)] {
                let shape = format!("--clients 8 --idle {idle}");
                let mut command = hosted(&results.contenders[ours].directory, &shape, &wire, "");
                let said = output(command.env("PMIX_DSTORE_SHM", shared_memory))?;
                let init =
                    lines(&said, "rank").iter().map(|(first, _)| first.parse()).collect::<Result<Vec<f64>, _>>()?;
                figures.push(init.into_iter().fold(0.0, f64::max));
            }
        }
        let (alone, beside) = (median(alone), median(beside));
        results.add(ours, (BESIDE_IDLE, format!("{way}: without them"), "ms", alone));
        results.add(ours, (BESIDE_IDLE, format!("{way}: beside {}", sizes.idle), "ms", beside));
        results.add(ours, (BESIDE_IDLE, format!("{way}: {TO_ALONE}"), "times", beside / alone));
    }
    Ok(())
}

/// Cost of fences. The libraries take turns within the round.
pub fn fences(results: &mut Results, sizes: &Sizes, round: usize) -> Result<(), Failure> {
    let wire = benchmark_program("wire", &[]);
    let count = results.contenders.len();
    let mut medians = Medians::new(&results.contenders);
    for repeat in 0..sizes.fence_turns {
        for turn in 0..count {
            let which = (round + repeat + turn) % count;
            let Contender { directory, is_quick, .. } = &results.contenders[which];
            let fence = |args: &str| host(directory, "--servers 4 --clients 8", &wire, args);
            let mut add = |name, unit, figure| medians.push(which, ("collecting fence", name, unit, figure));

            let args = format!("--len 4096 --keys 1 --fences 1 --more {} --copy", sizes.values);
            let volume = fence(&args)?;
            let time = lines(&volume, "fence").first().ok_or("no fence")?.1[0];
            // All ranks copy at the same time, starting when they are woken.
            let copies: Vec<_> =
                lines(&volume, "copy").into_iter().map(|(begun, ended)| (begun.parse(), ended[0])).collect();
            let begun =
                copies.iter().filter_map(|(begun, _)| begun.as_ref().ok().copied()).fold(f64::INFINITY, f64::min);
            let copy = copies.iter().map(|(_, ended)| *ended).fold(0.0, f64::max) - begun;
            add("4 servers of 8 ranks, 32 MiB".into(), "ms", time);
            add("plain copy of what it brings to the 4 nodes".into(), "ms", copy);
            add("32 MiB / plain copy".into(), "times", time / copy);

            // The stock library's fences take seconds: measure them once.
            if *is_quick || repeat == 0 {
                let fences = if *is_quick { sizes.fences } else { sizes.stock_fences };
                let said = fence(&format!("--fences {fences}"))?;
                let often: Vec<_> = lines(&said, "fence").iter().map(|(_, fields)| fields[0]).collect();
                let ten = |last: usize| median(often.get(last - 10..last).into_iter().flatten().copied());
                let name = |last: usize| format!("small fences, last ten of {last}");
                add("small fences, first ten".into(), "ms", ten(10));
                add(name(sizes.stock_fences), "ms", ten(sizes.stock_fences));
                if *is_quick {
                    add(name(fences), "ms", ten(fences));
                    add(format!("{} / first ten", name(fences)), "times", ten(fences) / ten(10));
                }
            }
        }
    }
    medians.add_to(results);
    Ok(())
}

/// What a fence takes the server's threads for a rank, among few ranks of one server and among many. The libraries take turns within the
/// round.
pub fn growth(results: &mut Results, sizes: &Sizes, round: usize) -> Result<(), Failure> {
    /// Fences of a kind, each after a barrier.
    const FENCES: u32 = 20;
    let wire = benchmark_program("wire", &[]);
    let mut medians = Medians::new(&results.contenders);
    for which in turns(&results.contenders, sizes.job_turns, round) {
        let directory = &results.contenders[which].directory;
        let served = |ranks: u32, args: &str| {
            of_host(&host(directory, &format!("--clients {ranks}"), &wire, &format!("--len 32 {args}"))?, "served")
        };
        for (kind, more) in
            [("a barrier and a fence without new values", 0), ("a barrier and 64 values of 32 bytes", 64)]
        {
            let mut of_fence = [0.0; 2];
            for (spent, ranks) in of_fence.iter_mut().zip(sizes.growth) {
                let fences = served(ranks, &format!("--fences {FENCES} --more {more}"))? - served(ranks, "")?;
                *spent = fences * 1e3 / f64::from(FENCES * ranks);
                medians.push(which, (GROWTH, format!("{kind}: {ranks} ranks"), "us", *spent));
            }
            medians.push(which, (GROWTH, format!("{kind}: {TO_FEW}"), "times", of_fence[1] / of_fence[0]));
        }
    }
    medians.add_to(results);
    Ok(())
}

/// The libraries' turns within a round: whose turn it is in each repetition. A library that takes seconds has one turn.
fn turns(contenders: &[Contender], repeats: usize, round: usize) -> Vec<usize> {
    let count = contenders.len();
    let all = (0..repeats).flat_map(|repeat| (0..count).map(move |turn| (repeat, (round + repeat + turn) % count)));
    all.filter(|&(repeat, which)| repeat == 0 || contenders[which].is_quick).map(|(_, which)| which).collect()
}

/// Section, name and unit, and the figure of each turn.
type Turns = (&'static str, String, &'static str, Vec<f64>);

/// Figures of several turns of each library, whose medians are the figures of the round.
struct Medians {
    of: Vec<Vec<Turns>>,
}

impl Medians {
    fn new(contenders: &[Contender]) -> Medians {
        Medians { of: vec![Vec::new(); contenders.len()] }
    }

    fn push(&mut self, which: usize, (section, name, unit, figure): Figure) {
        let all = &mut self.of[which];
        match all.iter_mut().find(|(known, of, ..)| (*known, of) == (section, &name)) {
            Some((.., figures)) => figures.push(figure),
            None => all.push((section, name, unit, vec![figure])),
        }
    }

    fn add_to(self, results: &mut Results) {
        for (which, all) in self.of.into_iter().enumerate() {
            for (section, name, unit, figures) in all {
                results.add(which, (section, name, unit, median(figures)));
            }
        }
    }
}

/// Calls of one library: two threads beside one, and by the number of ranks on the node.
pub fn scaling(results: &mut Results, sizes: &Sizes, which: usize) -> Result<(), Failure> {
    let Contender { directory, .. } = &results.contenders[which];
    let mut figures: Vec<Figure> = Vec::new();
    let args = format!("--threads {}", sizes.threaded_turns);
    let said = host(directory, SHAPE, &benchmark_program("calls", &[]), &args)?;
    for (class, fields) in lines(&said, "threads") {
        figures.push(("throughput of two threads / one", class, "times", fields[0]));
    }
    // With more ranks, the processor's caches hold a smaller part of all ranks' keys. The keys of one rank fit in
    // any case.
    for (section, to_fewest, peers) in [
        ("one call among ranks of a node, one peer's keys", ON_NODE, "--peers 1"),
        (
            "one call among ranks of a node, all peers' keys",
            "one call among ranks of a node, all peers' keys / among the fewest",
            "",
        ),
    ] {
        let contender = &results.contenders[which];
        let jobs = sizes.on_node.iter().map(|clients| player(contender, &format!("--clients {clients}"), peers));
        let mut jobs = jobs.collect::<Result<Vec<_>, _>>()?;
        let mut players: Vec<_> = jobs.iter_mut().map(|job| (job, "local-key")).collect();
        for (clients, played) in sizes.on_node.iter().zip(play(&mut players, sizes.turns)?) {
            figures.push((section, format!("{clients} ranks"), "ns", played.ns));
            figures.push((to_fewest, format!("{clients} ranks"), "times", played.to_first));
        }
        jobs.into_iter().try_for_each(Player::end)?;
    }
    figures.into_iter().for_each(|figure| results.add(which, figure));
    Ok(())
}

/// The first fence of four servers and what follows it. The libraries take turns within the round.
pub fn exchanges(results: &mut Results, sizes: &Sizes, round: usize) -> Result<(), Failure> {
    let shape = format!("--servers 4 --clients {}", sizes.clients);
    let wire = benchmark_program("wire", &[]);
    let mut medians = Medians::new(&results.contenders);
    // The time that a rank waits for a processor is random, so repeat.
    for which in turns(&results.contenders, sizes.repeats, round) {
        let directory = &results.contenders[which].directory;
        let said = host(directory, &shape, &wire, "--peers")?;
        medians.push(which, ("first fence done", "4 servers of 32 ranks".into(), "ms", slowest(&said, 1)));
        medians.push(which, ("all peers' keys", "4 servers of 32 ranks, slowest".into(), "ms", slowest(&said, 3)));
        medians.push(which, ("server", "init".into(), "ms", of_host(&said, "init")?));
    }
    for which in 0..results.contenders.len() {
        let said = host(&results.contenders[which].directory, &shape, &wire, "--memory")?;
        let written = "private memory written until the end of the first fence";
        medians.push(which, ("memory of a rank", written.into(), "KiB", slowest(&said, 2)));
    }
    medians.add_to(results);
    Ok(())
}

/// The jobs that are registered: name, shape, ranks.
fn job_shapes(sizes: &Sizes, with_most: bool) -> Vec<(&'static str, String, u32)> {
    let (nodes, most) = (sizes.nodes, sizes.nodes_most);
    let mut jobs = vec![
        ("2 ranks", "--clients 2".to_owned(), 2),
        ("65,536 ranks", format!("{} --infos", large(nodes)), nodes * PER_NODE),
        ("65,536 ranks, maps only", large(nodes), nodes * PER_NODE),
    ];
    if with_most {
        let ranks = most * PER_NODE;
        jobs.push(("1,048,576 ranks", format!("{} --infos", large(most)), ranks));
        jobs.push(("1,048,576 ranks, maps only", large(most), ranks));
        jobs.push(("1,048,576 ranks scattered, maps only", format!("{} --shape scattered", large(most)), ranks));
    }
    jobs
}

/// Registration of jobs, from small to large. The libraries take turns within the round.
pub fn jobs(results: &mut Results, sizes: &Sizes, round: usize, is_full: bool) -> Result<(), Failure> {
    let mut limit =
        Player::start(Command::new(benchmark_program("limit", &[])).args(["--turns", "--cpu", "0"]), BATCHES)?;
    let mut medians = Medians::new(&results.contenders);
    for which in turns(&results.contenders, sizes.job_turns, round) {
        let contender = &results.contenders[which];
        let mut among_few = f64::NAN;
        for (job, shape, ranks) in job_shapes(sizes, contender.is_quick || is_full) {
            let mut add = |what: &str, unit, figure| medians.push(which, (JOB, format!("{job}: {what}"), unit, figure));
            let reading_before = median(limit.play("infos")?);
            let said = host(&contender.directory, &shape, &benchmark_program("wire", &[]), "")?;
            let reading = (reading_before + median(limit.play("infos")?)) / 2.0;
            for (what, unit) in [("register", "ms"), ("memory", "KiB"), ("deregister", "ms")] {
                add(what, unit, of_host(&said, what)?);
            }
            if shape.contains("--infos") {
                // Nanoseconds of a rank to milliseconds of all.
                let reading = reading * f64::from(ranks) / 1e6;
                add(REGISTER_TO_READING, "times", of_host(&said, "register")? / reading);
            }
            add("files, per rank", "B", of_host(&said, "stored")? / f64::from(ranks));
            let init = lines(&said, "rank").iter().map(|(first, _)| first.parse()).collect::<Result<Vec<f64>, _>>()?;
            // The kernel may run both on one processor, so that one waits for the other.
            let init = init.into_iter().fold(f64::INFINITY, f64::min);
            add("init", "ms", init);
            if ranks == 2 {
                among_few = init;
            } else {
                add(INIT_TO_FEW, "times", init / among_few);
            }
        }
    }
    limit.end()?;
    medians.add_to(results);
    Ok(())
}

/// The largest job by the placement of its ranks, registered with maps only, in turns. Measures only our library.
pub fn placements(results: &mut Results, sizes: &Sizes) -> Result<(), Failure> {
    let ours = results.contenders.iter().position(|one| one.is_ours).ok_or("ours is always there")?;
    let directory = results.contenders[ours].directory.clone();
    let mut medians = Medians::new(&results.contenders);
    for placement in (0..sizes.job_turns).flat_map(|_| std::iter::once("").chain(PLACEMENTS)) {
        let shape = large(sizes.nodes_most);
        let mut command = hosted(&directory, &shape, &benchmark_program("calls", &[]), "--cold --class cold-peers");
        let said = output(command.env("BENCH_SHAPE", placement))?;
        let name = if placement.is_empty() { REGULAR } else { placement };
        let mut add = |what, unit, figure| medians.push(ours, (PLACEMENT, format!("{name}: {what}"), unit, figure));
        for (what, unit) in [("register", "ms"), ("memory", "KiB")] {
            add(what, unit, of_host(&said, what)?);
        }
        add("files, per rank", "B", of_host(&said, "stored")? / f64::from(sizes.nodes_most * PER_NODE));
        let peers = lines(&said, "class").into_iter().find(|(call, _)| call == "cold-peers");
        add("peers of any node", "ns", peers.ok_or("no call was made")?.1[0]);
    }
    medians.add_to(results);
    Ok(())
}

/// The standard output of a program.
fn output(command: &mut Command) -> Result<String, Failure> {
    let ended = command.output()?;
    if !ended.status.success() {
        let said = String::from_utf8_lossy(&ended.stderr);
        return Err(format!("{command:?}: {}\n{said}", ended.status).into());
    }
    Ok(String::from_utf8(ended.stdout)?)
}

/// The maximum of a field over all ranks. Field 0 is the name of the line.
fn slowest(text: &str, field: usize) -> f64 {
    lines(text, "rank").iter().map(|(_, fields)| fields[field - 1]).fold(0.0, f64::max)
}
