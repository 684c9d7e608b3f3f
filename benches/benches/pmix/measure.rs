//! Runs the programs of `benches/programs` and reads what they say.

use std::path::Path;
use std::process::Command;

use pmix_tests::{benchmark_program, published};

use crate::Failure;
use crate::results::{Contender, Figure, Results, median};

/// How much is measured.
pub struct Sizes {
    /// Clients of a server in whose wire-up, and how often in a round: so much of it is the system's.
    pub wire_up: &'static [u32],
    pub repeats: usize,
    /// Processes that are started for one figure.
    pub starts: usize,
    /// Calls of a class with the stock library, of which ours makes ten times as many where they are compared with each other only.
    pub calls: usize,
    pub threaded_calls: usize,
    /// Ranks of a node, among which calls are to take as long.
    pub on_node: &'static [u32],
    /// Clients of each of four servers.
    pub clients: u32,
    /// Fences one behind the other: the stock library's clients send all they have with each commit, a thousand take it minutes.
    pub fences: usize,
    pub stock_fences: usize,
    /// Nodes of 64 ranks: of the job that is a large one for the stock library, and of the largest.
    pub nodes: u32,
    pub nodes_most: u32,
}

pub const FULL: Sizes = Sizes {
    wire_up: &[2, 8, 32, 128],
    repeats: 9,
    starts: 200,
    calls: 20_000,
    threaded_calls: 500_000,
    on_node: &[2, 8, 32, 128, 256],
    clients: 32,
    fences: 1000,
    stock_fences: 200,
    nodes: 1024,
    nodes_most: 16_384,
};

/// So much that each program and each row is there, whatever it says.
pub const SMALL: Sizes = Sizes {
    wire_up: &[2],
    repeats: 1,
    starts: 2,
    calls: 64,
    threaded_calls: 200,
    on_node: &[2, 3],
    clients: 4,
    fences: 20,
    stock_fences: 10,
    nodes: 16,
    nodes_most: 64,
};

const PER_NODE: u32 = 64;

/// A job of so many nodes, two ranks of which are there.
fn large(nodes: u32) -> String {
    format!("--clients 2 --nodes {nodes} --per-node {PER_NODE} --timeout 600")
}

/// What `benches/programs/host.c` says with one library.
fn host(library: &Path, shape: &str, program: &Path, args: &str) -> Result<String, Failure> {
    let mut command = Command::new(benchmark_program("host", &[]));
    command.args(shape.split(' ')).arg(program).args(args.split(' ').filter(|a| !a.is_empty()));
    output(command.env("LD_LIBRARY_PATH", library))
}

/// Fills caches.
pub fn warm_up(contenders: &[Contender]) -> Result<(), Failure> {
    for contender in contenders {
        host(&contender.directory, "--clients 2", &benchmark_program("wire", &[]), "")?;
    }
    Ok(())
}

/// What the machine can do.
pub fn limits(results: &mut Results) -> Result<(), Failure> {
    let said = output(Command::new(benchmark_program("limit", &[])).args(["--cpu", "0"]))?;
    lines(&said, "limit").into_iter().for_each(|(name, fields)| results.add_limit(name, fields[0]));
    Ok(())
}

/// What it costs that ranks get ready, beyond what as many processes cost that do nothing, and what it costs to be linked to the
/// library. The libraries take turns within the round, and so do the processes that do nothing.
pub fn wire_up(results: &mut Results, sizes: &Sizes, round: usize) -> Result<(), Failure> {
    let (wire, idle, linked) =
        (benchmark_program("wire", &[]), benchmark_program("idle", &[]), benchmark_program("idle", &["-DLINKED"]));
    let count = results.contenders.len();
    for &clients in sizes.wire_up {
        // Until they are ready, and processor time of all: of idle processes, and of ranks.
        let mut all = vec![[const { Vec::new() }; 4]; count];
        for repeat in 0..sizes.repeats {
            for turn in 0..count {
                let which = (round + repeat + turn) % count;
                for (program, at) in [(&idle, 0), (&wire, 2)] {
                    let library = &results.contenders[which].directory;
                    let said = host(library, &format!("--clients {clients}"), program, "")?;
                    all[which][at].push(slowest(&said, 1));
                    all[which][at + 1].push(of_host(&said, "processor")? / f64::from(clients));
                }
            }
        }
        for (which, all) in all.iter().enumerate() {
            let [idle, idle_spent, ready, spent] = all.each_ref().map(|values| median(values));
            let name = |what| format!("{clients} ranks, {what}");
            let beyond = [("until the last is ready", ready - idle), ("processor time of a rank", spent - idle_spent)];
            for (what, figure) in beyond {
                results.add(which, ("wire-up, beyond processes that do nothing", name(what), "ms", figure));
            }
            results.add(which, ("as many processes that do nothing", name("all of them there"), "ms", idle));
        }
    }
    for which in 0..count {
        let mut command = Command::new(benchmark_program("start", &[]));
        command.arg(sizes.starts.to_string()).arg(&idle).arg(&linked);
        let said = output(command.env("LD_LIBRARY_PATH", &results.contenders[which].directory))?;
        let said = lines(&said, "start");
        let [(_, alone), (_, linked)] = said.as_slice() else { return Err("two programs are started".into()) };
        for (field, what, unit) in [(0, "time", "us"), (1, "processor time", "us"), (2, "page faults", "")] {
            let section = "start and end of a process";
            let more = linked[field] - alone[field];
            results.add(which, (section, format!("alone: {what}"), unit, alone[field]));
            results.add(which, (section, format!("linked to the library, more: {what}"), unit, more));
        }
    }
    Ok(())
}

/// Runs everything else once with one library.
pub fn rest(results: &mut Results, sizes: &Sizes, which: usize, is_full: bool) -> Result<(), Failure> {
    let is_ours = results.contenders[which].is_ours;
    let library = results.contenders[which].directory.clone();
    let bench = Bench { sizes, library: &library, is_ours };
    let mut figures = bench.calls()?;
    figures.extend(bench.exchanges()?);
    figures.extend(bench.jobs(is_ours || is_full)?);
    figures.into_iter().for_each(|figure| results.add(which, figure));
    Ok(())
}

struct Bench<'a> {
    sizes: &'a Sizes,
    library: &'a Path,
    is_ours: bool,
}

impl Bench<'_> {
    fn host(&self, shape: &str, program: &str, args: &str) -> Result<String, Failure> {
        host(self.library, shape, &benchmark_program(program, &[]), args)
    }

    fn calls(&self) -> Result<Vec<Figure>, Failure> {
        let mut figures: Vec<Figure> = Vec::new();
        let shape = "--servers 2 --clients 2 --nodes 64 --per-node 16 --infos";
        for (name, fields) in
            lines(&self.host(shape, "calls", &format!("--calls {} --cpu 0", self.sizes.calls))?, "class")
        {
            figures.push(("one call", name.clone(), "ns", fields[0]));
            figures.push(("one call, 99 of 100", name, "ns", fields[1]));
        }
        let of_threads = |threads: u32| {
            let said =
                self.host(shape, "calls", &format!("--calls {} --threads {threads}", self.sizes.threaded_calls))?;
            Ok::<_, Failure>(lines(&said, "threads").into_iter().map(|(class, fields)| (class, fields[1])))
        };
        for ((class, one), (_, two)) in of_threads(1)?.zip(of_threads(2)?) {
            figures.push(("calls of two threads, those of one", class, "times", two / one));
        }
        // Of all ranks' keys the processor's caches hold fewer, the more there are; of one's as many, always.
        let calls = self.sizes.calls * if self.is_ours { 10 } else { 1 };
        for (section, peers) in [
            ("one call among ranks of a node, one peer's keys", "--peers 1"),
            ("one call among ranks of a node, all peers' keys", ""),
        ] {
            for clients in self.sizes.on_node {
                let args = format!("--calls {calls} --cpu 0 --class local-key {peers}");
                let said = self.host(&format!("--clients {clients}"), "calls", &args)?;
                let found = lines(&said, "class").into_iter();
                figures.extend(found.map(|(_, fields)| (section, format!("{clients} ranks"), "ns", fields[0])));
            }
        }
        if self.is_ours {
            // The stock library takes longer for these than the rest of a round does.
            let nodes = self.sizes.nodes_most;
            let published = published(nodes * PER_NODE);
            let shape = format!("{} --scattered --published {}", large(nodes), published.display());
            for (class, fields) in
                lines(&self.host(&shape, "calls", &format!("--cold --calls {calls} --cpu 0"))?, "class")
            {
                figures.push(("a cold call, 1,048,576 ranks", class, "ns", fields[0]));
            }
        }
        Ok(figures)
    }

    fn exchanges(&self) -> Result<Vec<Figure>, Failure> {
        let mut figures: Vec<Figure> = Vec::new();
        let shape = format!("--servers 4 --clients {}", self.sizes.clients);
        let all = self.host(&shape, "wire", "--peers")?;
        figures.push(("ready after the first fence", "4 servers of 32 ranks".into(), "ms", slowest(&all, 1)));
        figures.push(("all peers' keys", "4 servers of 32 ranks, slowest".into(), "ms", slowest(&all, 3)));
        let all = self.host(&shape, "wire", "--memory")?;
        figures.push(("memory of a rank", "written until the first fence is over".into(), "KiB", slowest(&all, 2)));
        figures.push(("a server", "init".into(), "ms", of_host(&all, "init")?));

        let section = "a collecting fence";
        let volume =
            self.host("--servers 4 --clients 8", "wire", "--len 4096 --keys 1 --fences 1 --more 256 --copy")?;
        let fence = lines(&volume, "fence").first().ok_or("no fence")?.1[0];
        // All ranks copy at once, and begin when they are woken.
        let copies: Vec<_> =
            lines(&volume, "copy").into_iter().map(|(begun, ended)| (begun.parse(), ended[0])).collect();
        let begun = copies.iter().filter_map(|(begun, _)| begun.as_ref().ok().copied()).fold(f64::INFINITY, f64::min);
        let copy = copies.iter().map(|(_, ended)| *ended).fold(0.0, f64::max) - begun;
        figures.push((section, "4 servers of 8 ranks, 32 MiB".into(), "ms", fence));
        figures.push((section, "a plain copy of what it brings to the 4 nodes".into(), "ms", copy));
        figures.push((section, "32 MiB, in parts of a plain copy".into(), "times", fence / copy));
        let count = if self.is_ours { self.sizes.fences } else { self.sizes.stock_fences };
        let said = self.host("--servers 4 --clients 8", "wire", &format!("--fences {count}"))?;
        let often: Vec<_> = lines(&said, "fence").iter().map(|(_, fields)| fields[0]).collect();
        let ten = |last: usize| often.get(last - 10..last).map_or(f64::NAN, median);
        let name = |last: usize| format!("of many with as much new, last ten of {last}");
        figures.push((section, "of many with as much new, first ten".into(), "ms", ten(10)));
        figures.push((section, name(self.sizes.stock_fences), "ms", ten(self.sizes.stock_fences)));
        if self.is_ours {
            figures.push((section, name(count), "ms", ten(count)));
            figures.push((section, format!("{}, to first ten", name(count)), "times", ten(count) / ten(10)));
        }
        Ok(figures)
    }

    fn jobs(&self, with_most: bool) -> Result<Vec<Figure>, Failure> {
        let (nodes, most) = (self.sizes.nodes, self.sizes.nodes_most);
        let mut jobs = vec![
            ("2 ranks", "--clients 2".to_owned(), 2),
            ("65,536 ranks", format!("{} --infos", large(nodes)), nodes * PER_NODE),
            ("65,536 ranks, maps only", large(nodes), nodes * PER_NODE),
        ];
        if with_most {
            let ranks = most * PER_NODE;
            jobs.push(("1,048,576 ranks", format!("{} --infos", large(most)), ranks));
            jobs.push(("1,048,576 ranks, maps only", large(most), ranks));
            jobs.push(("1,048,576 ranks scattered, maps only", format!("{} --scattered", large(most)), ranks));
        }
        let mut figures: Vec<Figure> = Vec::new();
        for (name, shape, ranks) in jobs {
            let said = self.host(&shape, "wire", "")?;
            let mut add = |what, unit, figure| figures.push(("a large job", format!("{name}: {what}"), unit, figure));
            for (what, unit) in [("register", "ms"), ("memory", "KiB"), ("deregister", "ms")] {
                add(what, unit, of_host(&said, what)?);
            }
            add("stored, a rank", "B", of_host(&said, "stored")? / f64::from(ranks));
            let init = lines(&said, "rank").iter().map(|(first, _)| first.parse()).collect::<Result<Vec<f64>, _>>()?;
            add("init", "ms", init.into_iter().fold(0.0, f64::max));
        }
        Ok(figures)
    }
}

/// What a program printed.
fn output(command: &mut Command) -> Result<String, Failure> {
    let ended = command.output()?;
    if !ended.status.success() {
        let said = String::from_utf8_lossy(&ended.stderr);
        return Err(format!("{command:?}: {}\n{said}", ended.status).into());
    }
    Ok(String::from_utf8(ended.stdout)?)
}

/// Lines that begin with `kind`: the word behind it, and the numbers behind that.
fn lines(text: &str, kind: &str) -> Vec<(String, Vec<f64>)> {
    let of_kind = text.lines().filter_map(|line| line.strip_prefix(kind)?.strip_prefix(' '));
    let parts = of_kind.filter_map(|line| {
        let mut words = line.split(' ');
        let name = words.next()?.to_owned();
        Some((name, words.filter_map(|word| word.parse().ok()).collect()))
    });
    parts.collect()
}

/// The figure of this name that the first server gives.
fn of_host(text: &str, name: &str) -> Result<f64, Failure> {
    let found = lines(text, "host").into_iter().find(|(known, _)| known == name);
    Ok(found.ok_or_else(|| format!("the host does not say {name}"))?.1[0])
}

/// The largest of a field of all ranks; the first is the name of the line.
fn slowest(text: &str, field: usize) -> f64 {
    lines(text, "rank").iter().map(|(_, fields)| fields[field - 1]).fold(0.0, f64::max)
}
