//! What calls cost and how long ranks take to get ready, beside the stock library and what the machine can do.
//!
//! `make bench`, or `cargo bench -p pmix-benches --bench pmix -- [--rounds N] [--peer DIR]... [--full] [--out DIR]`. What it prints is
//! also written to `bench.txt` in the directory, the same as JSON to `bench.json`, and a plot of the calls to `bench.svg`.
//! Each round runs the same programs (`benches/programs`) with each library in turn, on the server's and the clients' side;
//! figures are medians over the rounds, ratios are taken within a round. `--peer` adds a directory with another release's
//! `libpmix.so.2`, `--full` a job of 1,048,576 ranks, which takes 10 GiB of memory with the stock library.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use pmix_tests::{Library, benchmark_program};

type Failure = Box<dyn Error>;

struct Options {
    rounds: usize,
    peers: Vec<PathBuf>,
    is_full: bool,
    out: Option<PathBuf>,
}

impl Options {
    fn read() -> Result<Options, Failure> {
        let mut options = Options { rounds: 5, peers: Vec::new(), is_full: false, out: None };
        let mut args = env::args().skip(1);
        while let Some(arg) = args.next() {
            let mut value = || args.next().ok_or_else(|| format!("{arg} needs a value"));
            match arg.as_str() {
                "--rounds" => options.rounds = value()?.parse()?,
                "--peer" => options.peers.push(value()?.into()),
                "--full" => options.is_full = true,
                "--out" => options.out = Some(value()?.into()),
                // Cargo's own.
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

/// A library, and what it is called in tables.
struct Contender {
    name: String,
    directory: PathBuf,
}

/// One line of a table: what was measured, and the figure of each library in each round.
struct Row {
    section: &'static str,
    name: String,
    unit: &'static str,
    figures: Vec<Vec<f64>>,
}

fn main() -> Result<(), Failure> {
    let options = Options::read()?;
    let contender = |name: &str, directory| Contender { name: name.into(), directory };
    let mut contenders =
        vec![contender("stock", Library::Stock.directory()), contender("ours", Library::ours().directory())];
    for peer in &options.peers {
        contenders.push(contender(&peer.display().to_string(), peer.clone()));
    }
    let mut rows: Vec<Row> = Vec::new();
    let limits = output(Command::new(benchmark_program("limit", &[])).args(["--cpu", "0"]))?;
    // The first round fills caches.
    for round in 0..=options.rounds {
        eprint!("\rround {round} of {}", options.rounds);
        let mut figures = wire_up(&contenders, round)?;
        for turn in 0..contenders.len() {
            let which = (round + turn) % contenders.len();
            let measured = measure(&contenders[which].directory, options.is_full)?;
            figures.extend(measured.into_iter().map(|figure| (which, figure)));
        }
        if round == 0 {
            continue;
        }
        for (which, (section, name, unit, figure)) in figures {
            let known = rows.iter().position(|row| row.section == section && row.name == name);
            let row = known.unwrap_or_else(|| {
                let figures = vec![Vec::new(); contenders.len()];
                rows.push(Row { section, name, unit, figures });
                rows.len() - 1
            });
            rows[row].figures[which].push(figure);
        }
    }
    eprintln!();
    let sections: Vec<_> = rows.iter().map(|row| row.section).collect();
    rows.sort_by_key(|row| sections.iter().position(|section| *section == row.section));
    let text = text(&rows, &contenders, &limits, options.rounds);
    print!("{text}");
    if let Some(out) = options.out {
        fs::create_dir_all(&out)?;
        fs::write(out.join("bench.txt"), text)?;
        fs::write(out.join("bench.json"), json(&rows, &contenders, &limits))?;
        fs::write(out.join("bench.svg"), plot(&rows, &limits))?;
    }
    Ok(())
}

type Figure = (&'static str, String, &'static str, f64);

/// What `benches/programs/host.c` says with one library.
fn host(library: &Path, shape: &str, program: &Path, args: &str) -> Result<String, Failure> {
    let mut command = Command::new(benchmark_program("host", &[]));
    command.args(shape.split(' ')).arg(program).args(args.split(' ').filter(|a| !a.is_empty()));
    output(command.env("LD_LIBRARY_PATH", library))
}

/// How often wire-up is measured in a round, and how many processes are started for one figure: so much of it is the system's.
const REPEATS: usize = 9;
const STARTS: usize = 200;

/// What it costs that ranks get ready, beyond what as many processes cost that do nothing, and what it costs to be linked to the
/// library. The libraries take turns within the round, and so do the processes that do nothing.
fn wire_up(contenders: &[Contender], round: usize) -> Result<Vec<(usize, Figure)>, Failure> {
    let (wire, idle, linked) =
        (benchmark_program("wire", &[]), benchmark_program("idle", &[]), benchmark_program("idle", &["-DLINKED"]));
    let mut figures: Vec<(usize, Figure)> = Vec::new();
    for clients in [2, 8, 32, 128] {
        // Until they are ready, and processor time of all: of idle processes, and of ranks.
        let mut all = vec![[const { Vec::new() }; 4]; contenders.len()];
        for repeat in 0..REPEATS {
            for turn in 0..contenders.len() {
                let which = (round + repeat + turn) % contenders.len();
                for (program, at) in [(&idle, 0), (&wire, 2)] {
                    let said = host(&contenders[which].directory, &format!("--clients {clients}"), program, "")?;
                    let spent = lines(&said, "host").into_iter().find(|(name, _)| name == "processor");
                    all[which][at].push(slowest(&said, 1));
                    all[which][at + 1].push(spent.ok_or("no processor time")?.1[0] / f64::from(clients));
                }
            }
        }
        for (which, all) in all.iter().enumerate() {
            let [idle, idle_spent, ready, spent] = all.each_ref().map(|values| median(values));
            let name = |what| format!("{clients} ranks, {what}");
            let beyond = [("until the last is ready", ready - idle), ("processor time of a rank", spent - idle_spent)];
            for (what, figure) in beyond {
                figures.push((which, ("wire-up, beyond processes that do nothing", name(what), "ms", figure)));
            }
            figures.push((which, ("as many processes that do nothing", name("all of them there"), "ms", idle)));
        }
    }
    for (which, contender) in contenders.iter().enumerate() {
        let mut command = Command::new(benchmark_program("start", &[]));
        command.arg(STARTS.to_string()).arg(&idle).arg(&linked);
        let said = lines(&output(command.env("LD_LIBRARY_PATH", &contender.directory))?, "start");
        let [(_, alone), (_, linked)] = said.as_slice() else { return Err("two programs are started".into()) };
        for (field, what, unit) in [(0, "time", "us"), (1, "processor time", "us"), (2, "page faults", "")] {
            figures.push((which, ("start and end of a process", format!("alone: {what}"), unit, alone[field])));
            let more = linked[field] - alone[field];
            figures.push((
                which,
                ("start and end of a process", format!("linked to the library, more: {what}"), unit, more),
            ));
        }
    }
    Ok(figures)
}

/// Runs everything else once with one library.
fn measure(library: &Path, is_full: bool) -> Result<Vec<Figure>, Failure> {
    let host = |shape: &str, program: &str, args: &str| host(library, shape, &benchmark_program(program, &[]), args);
    let mut figures: Vec<Figure> = Vec::new();

    let of_calls = host("--servers 2 --clients 2 --nodes 64 --per-node 16 --infos", "calls", "--calls 20000 --cpu 0")?;
    for (name, fields) in lines(&of_calls, "class") {
        figures.push(("one call", name.clone(), "ns", fields[0]));
        figures.push(("one call, 99 of 100", name, "ns", fields[1]));
    }
    let of_threads = |threads: u32| {
        let args = format!("--calls 500000 --threads {threads}");
        let said = host("--servers 2 --clients 2 --nodes 64 --per-node 16 --infos", "calls", &args)?;
        Ok::<_, Failure>(lines(&said, "threads").into_iter().map(|(class, fields)| (class, fields[1])))
    };
    for ((class, one), (_, two)) in of_threads(1)?.zip(of_threads(2)?) {
        figures.push(("calls of two threads, those of one", class, "times", two / one));
    }
    for clients in [2, 32, 128, 256] {
        let said = host(&format!("--clients {clients}"), "calls", "--calls 20000 --cpu 0 --class local-key")?;
        for (class, fields) in lines(&said, "class") {
            figures.push(("one call among ranks of a node", format!("{class}, {clients} ranks"), "ns", fields[0]));
        }
    }
    let all = host("--servers 4 --clients 32", "wire", "--peers")?;
    figures.push(("ready after the first fence", "4 servers of 32 ranks".into(), "ms", slowest(&all, 1)));
    figures.push(("all peers' keys", "4 servers of 32 ranks, slowest".into(), "ms", slowest(&all, 3)));
    let all = host("--servers 4 --clients 32", "wire", "--memory")?;
    figures.push(("memory of a rank", "written until the first fence is over".into(), "KiB", slowest(&all, 2)));
    let own = lines(&all, "host").into_iter().find(|(name, _)| name == "init");
    figures.push(("a server", "init".into(), "ms", own.ok_or("no init")?.1[0]));
    let volume = host("--servers 4 --clients 8", "wire", "--len 4096 --keys 1 --fences 1 --more 256")?;
    for (_, fields) in lines(&volume, "fence") {
        figures.push(("a collecting fence", "4 servers of 8 ranks, 32 MiB".into(), "ms", fields[0]));
    }
    // The stock library's clients send all they have with each commit: a thousand take it minutes.
    let often = lines(&host("--servers 4 --clients 8", "wire", "--fences 200")?, "fence");
    for (name, range) in [("first to tenth", 0..10), ("191st to 200th", 190..200)] {
        let times = often.get(range).unwrap_or_default().iter().map(|(_, fields)| fields[0]);
        figures.push(("a collecting fence", format!("of 200, {name}"), "ms", median(&times.collect::<Vec<_>>())));
    }

    let mut registered = |shape: &str, name: &str| -> Result<(), Failure> {
        let said = host(shape, "wire", "")?;
        for (what, fields) in lines(&said, "host") {
            if !["register", "memory", "deregister"].contains(&what.as_str()) {
                continue;
            }
            let unit = if what == "memory" { "KiB" } else { "ms" };
            figures.push(("a large job", format!("{name}: {what}"), unit, fields[0]));
        }
        let init = lines(&said, "rank").iter().map(|(first, _)| first.parse()).collect::<Result<Vec<f64>, _>>()?;
        figures.push(("a large job", format!("{name}: init"), "ms", init.into_iter().fold(0.0, f64::max)));
        Ok(())
    };
    registered("--clients 2 --nodes 1024 --per-node 64 --infos", "65,536 ranks")?;
    registered("--clients 2 --nodes 1024 --per-node 64", "65,536 ranks, maps only")?;
    if is_full {
        registered("--clients 2 --nodes 16384 --per-node 64 --infos --timeout 600", "1,048,576 ranks")?;
        registered("--clients 2 --nodes 16384 --per-node 64 --timeout 600", "1,048,576 ranks, maps only")?;
    }
    Ok(figures)
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

/// The largest of a field of all ranks; the first is the name of the line.
fn slowest(text: &str, field: usize) -> f64 {
    lines(text, "rank").iter().map(|(_, fields)| fields[field - 1]).fold(0.0, f64::max)
}

fn median(values: &[f64]) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

impl Row {
    /// How often the first library's figure is that of another one, within a round.
    fn ratio(&self, which: usize) -> f64 {
        let pairs = self.figures[0].iter().zip(&self.figures[which]);
        median(&pairs.map(|(first, other)| first / other).collect::<Vec<_>>())
    }
}

fn text(rows: &[Row], contenders: &[Contender], limits: &str, rounds: usize) -> String {
    let mut text =
        format!("{rounds} rounds, medians; a ratio is the stock library's figure in parts of the other one's\n\n");
    text.push_str("| what this machine can do | ns |\n|---|---|\n");
    for (name, fields) in lines(limits, "limit") {
        let _ = writeln!(text, "| {name} | {:.1} |", fields[0]);
    }
    let mut section = "";
    for row in rows {
        if section != row.section {
            section = row.section;
            let names: Vec<_> = contenders.iter().map(|c| c.name.as_str()).collect();
            let ratios: String = names[1..].iter().map(|name| format!(" stock / {name} |")).collect();
            let _ = writeln!(text, "\n| {section} | unit | {} |{ratios}", names.join(" | "));
            let _ = writeln!(text, "|---|---|{}", "---|".repeat(2 * names.len() - 1));
        }
        let _ = write!(text, "| {} | {} |", row.name, row.unit);
        let figures = row.figures.iter().map(|figures| shown(median(figures)));
        let ratios = (1..contenders.len()).map(|which| shown(row.ratio(which)));
        let cells: Vec<_> = figures.chain(ratios).collect();
        let _ = writeln!(text, " {} |", cells.join(" | "));
    }
    text
}

/// A figure with the digits that mean something.
fn shown(figure: f64) -> String {
    if figure.is_nan() {
        return "-".into();
    }
    let digits = if figure >= 100.0 {
        0
    } else if figure >= 10.0 {
        1
    } else {
        2
    };
    format!("{figure:.digits$}")
}

fn json(rows: &[Row], contenders: &[Contender], limits: &str) -> String {
    let number = |figure: f64| if figure.is_finite() { format!("{figure:.4}") } else { "null".into() };
    let limits: Vec<_> = lines(limits, "limit").iter().map(|(name, f)| format!("{name:?}:{}", number(f[0]))).collect();
    let rows: Vec<_> = rows
        .iter()
        .map(|row| {
            let of = |(which, contender): (usize, &Contender)| {
                let (median, ratio) = (number(median(&row.figures[which])), number(row.ratio(which)));
                format!("{:?}:{{\"median\":{median},\"stock_ratio\":{ratio}}}", contender.name)
            };
            let figures: Vec<_> = contenders.iter().enumerate().map(of).collect();
            let Row { section, name, unit, .. } = row;
            format!(
                "{{\"section\":{section:?},\"name\":{name:?},\"unit\":{unit:?},\"figures\":{{{}}}}}",
                figures.join(",")
            )
        })
        .collect();
    format!("{{\"limits_ns\":{{{}}},\"rows\":[{}]}}", limits.join(","), rows.join(","))
}

/// The calls as bars on a logarithmic scale, of the stock library and ours, and what a lookup and a copy cost at least.
fn plot(rows: &[Row], limits: &str) -> String {
    let calls: BTreeMap<_, _> =
        rows.iter().filter(|row| row.section == "one call").map(|row| (&row.name, row)).collect();
    let (left, width, step) = (150.0, 600.0, 30.0);
    // From 10 ns to 100 µs.
    let x = |ns: f64| (ns.max(10.0).log10() - 1.0) / 4.0 * width;
    let height = calls.len() as f64 * step + 50.0;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{}\" height=\"{height}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
        left + width + 60.0
    );
    for (index, (name, row)) in calls.iter().enumerate() {
        let top = index as f64 * step + 10.0;
        let _ = writeln!(svg, "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{name}</text>", left - 8.0, top + 15.0);
        for (which, (color, place)) in [("#b0b0b0", 0.0), ("#1f77b4", 11.0)].into_iter().enumerate() {
            let ns = median(&row.figures[which]);
            if ns.is_nan() {
                continue;
            }
            let (y, end) = (top + place, x(ns));
            let _ = writeln!(svg, "<rect x=\"{left}\" y=\"{y}\" width=\"{end:.1}\" height=\"10\" fill=\"{color}\"/>");
            let _ = writeln!(
                svg,
                "<text x=\"{:.1}\" y=\"{}\" font-size=\"9\">{}</text>",
                left + end + 3.0,
                y + 9.0,
                shown(ns)
            );
        }
    }
    for (name, fields) in lines(limits, "limit").iter().filter(|(name, _)| ["lookup", "copy"].contains(&name.as_str()))
    {
        let at = left + x(fields[0]);
        let _ = writeln!(
            svg,
            "<line x1=\"{at:.1}\" y1=\"6\" x2=\"{at:.1}\" y2=\"{}\" stroke=\"#d62728\" stroke-dasharray=\"3\"><title>{name}</title></line>",
            height - 28.0
        );
    }
    let foot = height - 12.0;
    for (power, label) in [(1, "10 ns"), (2, "100 ns"), (3, "1 µs"), (4, "10 µs"), (5, "100 µs")] {
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{foot}\" text-anchor=\"middle\">{label}</text>",
            left + x(10f64.powi(power))
        );
    }
    let _ = writeln!(
        svg,
        "<text x=\"8\" y=\"{foot}\"><tspan fill=\"#808080\">stock</tspan> <tspan fill=\"#1f77b4\">ours</tspan> <tspan fill=\"#d62728\">limits</tspan></text>"
    );
    svg.push_str("</svg>\n");
    svg
}
