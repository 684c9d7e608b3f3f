//! Model of jobs too large for any machine here: cost of registration, exchange and memory, from measured figures of small jobs.
//!
//! `cargo run --release -p pmix-benches --bin scale [NAME=VALUE]...` prints tables. The costs of [`Costs`] are those that
//! `docs/performance.md` measured; arguments override them. The exchange of a collecting fence is simulated daemon by
//! daemon: a message starts when its sender holds the data and both ends are free, and takes latency plus transfer time.

use std::collections::BTreeMap;
use std::error::Error;

/// Cost parameters by name: bytes, nanoseconds, bytes per nanosecond.
struct Costs(BTreeMap<&'static str, f64>);

/// Name, default value and meaning of each parameter.
const COSTS: &[(&str, f64, &str)] = &[
    ("register_infos", 400.0, "ns a rank: registration with eight infos of each rank"),
    ("register_maps", 80.0, "ns a rank: registration with the maps alone"),
    ("server_infos", 55.0, "bytes a rank that the server keeps of a registration with infos"),
    ("server_maps", 55.0, "bytes a rank that it keeps of one with maps"),
    (
        "segment_texts",
        0.0,
        "texts of the job segment in which each rank's number stands: 2 of an irregular job, map and list of its node",
    ),
    ("segment_node", 142.0, "bytes a node there, beside its ranks"),
    (
        "runs",
        1.0,
        "runs of nodes with as many ranks, or with ranks dealt alike; with more than 4096 a job is irregular",
    ),
    ("segment_run", 320.0, "bytes there for each run: its formula, and pieces of nine columns (of the format)"),
    ("keys", 8.0, "keys that each rank publishes"),
    ("value", 64.0, "bytes of each value"),
    ("wire_value", 4.0, "bytes that a value takes in a contribution, beside its own (of the format)"),
    ("wire_rank", 10.0, "bytes that a rank takes there (of the format)"),
    (
        "mpi_rank",
        41.7,
        "bytes that a rank of Open MPI 5 over tcp takes in a contribution in the released form (tests/modex)",
    ),
    ("columns_rank", 1.0, "bytes that it takes in columns"),
    ("columns_node", 43.0, "bytes there beside"),
    ("fence", 3.2, "ns of a processor for each byte of a fence, from the ranks' commits to the published segment"),
    ("page", 0.25, "ns for each byte of a file in memory that is written: the least that a fence can cost"),
    ("latency", 2000.0, "ns from daemon to daemon (assumed)"),
    ("bandwidth", 12.5, "bytes a ns between two daemons (assumed: 100 Gbit/s)"),
];

impl Costs {
    fn read(args: impl Iterator<Item = String>) -> Result<Costs, Box<dyn Error>> {
        let mut costs: BTreeMap<_, _> = COSTS.iter().map(|(name, value, _)| (*name, *value)).collect();
        for arg in args {
            let (name, value) = arg.split_once('=').ok_or_else(|| format!("{arg}: NAME=VALUE is wanted"))?;
            let cost = costs.get_mut(name).ok_or_else(|| format!("there is no cost {name}"))?;
            *cost = value.parse()?;
        }
        Ok(Costs(costs))
    }

    fn of(&self, name: &str) -> f64 {
        self.0[name]
    }

    /// Time of a message.
    fn message(&self, bytes: f64) -> f64 {
        self.of("latency") + bytes / self.of("bandwidth")
    }
}

/// Result of an exchange: the time until the last daemon has all data, and the bytes of the busiest daemon.
struct Exchange {
    ns: f64,
    sent: f64,
    received: f64,
}

/// Contributions go up a tree, and the whole data goes down again.
fn tree(nodes: usize, block: f64, radix: usize, costs: &Costs) -> Exchange {
    let parent = |node: usize| (node - 1) / radix;
    let mut held = vec![block; nodes];
    let (mut ready, mut sent, mut received) = (vec![0.0; nodes], vec![0.0; nodes], vec![0.0; nodes]);
    // Children have higher numbers than their parents; a parent takes one message at a time.
    for node in (1..nodes).rev() {
        let (up, bytes) = (parent(node), held[node]);
        ready[up] = f64::max(ready[up], ready[node]) + costs.message(bytes);
        held[up] += bytes;
        sent[node] += bytes;
        received[up] += bytes;
    }
    let all = held[0];
    // Down again, to one child after the other.
    let mut free = ready.clone();
    let mut done = vec![ready[0]; nodes];
    free[0] = ready[0];
    for node in 1..nodes {
        let up = parent(node);
        free[up] = f64::max(free[up], done[up]) + costs.message(all);
        done[node] = free[up];
        sent[up] += all;
        received[node] += all;
    }
    Exchange { ns: largest(&done), sent: largest(&sent), received: largest(&received) }
}

/// Ring: each daemon forwards to the next the data that it received from the previous one.
fn ring(nodes: usize, block: f64, costs: &Costs) -> Exchange {
    let steps = (nodes - 1) as f64;
    Exchange { ns: steps * costs.message(block), sent: steps * block, received: steps * block }
}

/// Bruck's algorithm: in each round a daemon sends all data that it has and the receiver lacks, to a daemon twice as
/// far away as in the round before.
fn bruck(nodes: usize, block: f64, costs: &Costs) -> Exchange {
    let (mut held, mut ns, mut sent) = (1, 0.0, 0.0);
    while held < nodes {
        let blocks = held.min(nodes - held);
        ns += costs.message(blocks as f64 * block);
        sent += blocks as f64 * block;
        held += blocks;
    }
    Exchange { ns, sent, received: sent }
}

fn largest(values: &[f64]) -> f64 {
    values.iter().copied().fold(0.0, f64::max)
}

fn main() -> Result<(), Box<dyn Error>> {
    let costs = Costs::read(std::env::args().skip(1))?;
    println!("| cost | value | |\n|---|---|---|");
    for (name, _, what) in COSTS {
        println!("| {name} | {} | {what} |", costs.of(name));
    }
    let jobs: [(u32, u32); 4] = [(1 << 20, 16_384), (1 << 20, 100_000), (10 << 20, 16_384), (10 << 20, 100_000)];
    println!("\n| ranks | nodes | register, infos | maps | job segment | server, infos | maps | modex segment |");
    println!("|---|---|---|---|---|---|---|---|");
    for (ranks, nodes) in jobs {
        let of_ranks = |name: &str| f64::from(ranks) * costs.of(name);
        let segment = numbers_len(ranks) * costs.of("segment_texts")
            + f64::from(nodes) * costs.of("segment_node")
            + costs.of("runs") * costs.of("segment_run");
        println!(
            "| {ranks} | {nodes} | {} | {} | {} | {} | {} | {} |",
            time(of_ranks("register_infos")),
            time(of_ranks("register_maps")),
            bytes(segment),
            bytes(of_ranks("server_infos")),
            bytes(of_ranks("server_maps")),
            bytes(f64::from(ranks) * costs.of("keys") * costs.of("value")),
        );
    }
    print_exchanges(&jobs, &costs);
    print_forms(&jobs, &costs);
    Ok(())
}

/// The exchanges of eight values of each rank.
fn print_exchanges(jobs: &[(u32, u32)], costs: &Costs) {
    let head = ["ranks", "nodes", "exchange", "most sent by a daemon", "most received", "time on the network"];
    println!("\n| {} | then on each node | at least |", head.join(" | "));
    println!("|---|---|---|---|---|---|---|---|");
    for &(ranks, nodes) in jobs {
        let rank = costs.of("wire_rank") + costs.of("keys") * (costs.of("value") + costs.of("wire_value"));
        let (block, count) = (f64::from(ranks) / f64::from(nodes) * rank, nodes as usize);
        let exchanges = [
            ("tree of 2", tree(count, block, 2, costs)),
            ("tree of 64", tree(count, block, 64, costs)),
            ("ring", ring(count, block, costs)),
            ("Bruck", bruck(count, block, costs)),
        ];
        for (name, Exchange { ns, sent, received }) in exchanges {
            let (sent, received) = (bytes(sent), bytes(received));
            let here = |cost: &str| time(f64::from(ranks) * rank * costs.of(cost));
            let (now, least) = (here("fence"), here("page"));
            println!("| {ranks} | {nodes} | {name} | {sent} | {received} | {} | {now} | {least} |", time(ns));
        }
    }
}

/// The exchanges of what Open MPI puts, in both forms of contributions.
fn print_forms(jobs: &[(u32, u32)], costs: &Costs) {
    println!(
        "\n| ranks | nodes | exchange | received, released form | columns | time on the network, released form | columns |"
    );
    println!("|---|---|---|---|---|---|---|");
    for &(ranks, nodes) in jobs {
        let (each, count) = (f64::from(ranks) / f64::from(nodes), nodes as usize);
        let released = each * costs.of("mpi_rank");
        let columns = costs.of("columns_node") + each * costs.of("columns_rank");
        let both = |exchange: &dyn Fn(f64) -> Exchange| [exchange(released), exchange(columns)];
        let exchanges = [
            ("tree of 64", both(&|block| tree(count, block, 64, costs))),
            ("ring", both(&|block| ring(count, block, costs))),
            ("Bruck", both(&|block| bruck(count, block, costs))),
        ];
        for (name, [one, other]) in exchanges {
            let (received, ns) = ([one.received, other.received].map(bytes), [one.ns, other.ns].map(time));
            println!("| {ranks} | {nodes} | {name} | {} | {} | {} | {} |", received[0], received[1], ns[0], ns[1]);
        }
    }
}

/// Bytes of the numbers of all ranks, each with a comma.
fn numbers_len(ranks: u32) -> f64 {
    let mut len = 2.0 * f64::from(ranks);
    let mut longer = 10;
    while longer < ranks {
        len += f64::from(ranks - longer);
        longer = longer.saturating_mul(10);
    }
    len
}

/// Formats a value with its significant digits.
fn shown(value: f64, units: &[&str], step: f64) -> String {
    let (mut value, mut unit) = (value, 0);
    while value >= step && unit + 1 < units.len() {
        value /= step;
        unit += 1;
    }
    let digits = usize::from(value < 100.0);
    format!("{value:.digits$} {}", units[unit])
}

fn time(ns: f64) -> String {
    shown(ns, &["ns", "µs", "ms", "s"], 1000.0)
}

fn bytes(bytes: f64) -> String {
    shown(bytes, &["B", "KiB", "MiB", "GiB", "TiB"], 1024.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One nanosecond for each byte, and no latency.
    fn plain() -> Costs {
        let args = ["latency=0", "bandwidth=1"].map(String::from);
        Costs::read(args.into_iter()).expect("costs that there are")
    }

    #[test]
    fn small_exchanges_are_as_counted_by_hand() {
        let costs = plain();
        let of = |exchange: Exchange| (exchange.ns, exchange.sent, exchange.received);
        assert_eq!(of(ring(4, 10.0, &costs)), (30.0, 30.0, 30.0));
        assert_eq!(of(bruck(4, 10.0, &costs)), (30.0, 30.0, 30.0));
        assert_eq!(of(bruck(5, 10.0, &costs)), (40.0, 40.0, 40.0));
        // Two children: each sends 10 bytes up, one after the other; then 30 bytes go down to each, one after the
        // other.
        assert_eq!(of(tree(3, 10.0, 2, &costs)), (80.0, 60.0, 30.0));
        assert_eq!(of(tree(1, 10.0, 2, &costs)), (0.0, 0.0, 0.0));
        assert_eq!(numbers_len(1024), (0..1024).map(|rank: u32| rank.to_string().len() + 1).sum::<usize>() as f64);
        assert!(Costs::read(["nothing=1".into()].into_iter()).is_err());
    }
}
