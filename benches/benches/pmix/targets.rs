//! The performance targets, and whether each is met.

use crate::measure::{
    BESIDE_IDLE, COLD, INIT_TO_FEW, JOB, ON_NODE, REGISTER_TO_READING, SERVED_TO_BARE, Sizes, TO_ALONE,
};
use crate::results::Results;

/// The bound of a figure.
#[derive(Clone, Copy)]
pub enum Bound {
    AtMost(f64),
    AtLeast(f64),
}

/// One row of the table of targets.
pub struct Target {
    pub what: String,
    pub unit: &'static str,
    pub figure: f64,
    pub bound: Bound,
}

impl Target {
    /// `None` if there is no figure.
    pub fn is_met(&self) -> Option<bool> {
        let is_met = match self.bound {
            Bound::AtMost(most) => self.figure <= most,
            Bound::AtLeast(least) => self.figure >= least,
        };
        (!self.figure.is_nan()).then_some(is_met)
    }
}

/// A call, the limit with which it is compared, and the largest allowed ratio.
pub const CALLS: [(&str, &str, f64); 18] = [
    ("own-key", "copy", 1.0),
    ("local-key", "copy", 1.0),
    ("remote-key", "copy", 1.0),
    ("rank-number", "copy", 0.6),
    ("rank-host", "copy", 1.0),
    ("job", "copy", 0.6),
    ("session", "copy", 0.6),
    ("app", "copy", 0.6),
    ("node-by-id", "copy", 1.0),
    ("node-by-name", "copy", 1.0),
    ("local-peers", "copy", 1.0),
    ("miss", "copy", 0.6),
    ("reserved-miss", "copy", 0.6),
    ("pointer", "lookup", 1.0),
    ("static-scalar", "lookup", 1.0),
    ("static-pointer", "lookup", 1.0),
    ("resolve-peers", "array", 2.0),
    ("resolve-nodes", "list", 2.0),
];

/// All targets, for the second library, which is ours.
pub fn targets(results: &Results, sizes: &Sizes) -> Vec<Target> {
    const OURS: usize = 1;
    let mut targets = Vec::new();
    let mut add = |what: String, unit, figure, bound| targets.push(Target { what, unit, figure, bound });
    let row = |section: &str, name: &str| results.section(section).find(|row| row.name == name);
    let ours = |section, name: &str| row(section, name).map_or(f64::NAN, |row| row.median(OURS));
    let ratio = |section, name: &str| row(section, name).map_or(f64::NAN, |row| row.ratio(OURS));

    for (call, limit, most) in CALLS {
        let figure = ours("one call / its limit", call);
        add(format!("one call / {limit} of the machine: {call}"), "times", figure, Bound::AtMost(most));
    }
    for (call, ..) in CALLS {
        add(format!("one call, stock / ours: {call}"), "times", ratio("one call", call), Bound::AtLeast(200.0));
    }
    for (call, ..) in CALLS {
        let section = "throughput of two threads / one";
        add(format!("{section}: {call}"), "times", ours(section, call), Bound::AtLeast(1.9));
    }
    for row in results.section(COLD) {
        add(format!("{COLD}: {}", row.name), "times", row.median(OURS), Bound::AtMost(1.3));
    }
    let parts: Vec<_> = results.section(ON_NODE).map(|row| row.median(OURS)).collect();
    let spread = parts.iter().copied().reduce(f64::max).zip(parts.iter().copied().reduce(f64::min));
    let figure = spread.map_or(f64::NAN, |(most, least)| most / least);
    add("one call among 2 to 256 ranks of a node, longest / shortest".into(), "times", figure, Bound::AtMost(1.1));

    for ranks in sizes.wire_up {
        let section = "wire-up, net of fork and exec";
        let figure = ratio(section, &format!("{ranks} ranks, until the last is ready"));
        add(format!("{section}, stock / ours: {ranks} ranks"), "times", figure, Bound::AtLeast(5.0));
    }
    for ranks in sizes.wire_up.iter().filter(|ranks| **ranks >= 128) {
        let figure = ours("wire-up, net of fork and exec", &format!("{ranks} ranks, {SERVED_TO_BARE}"));
        add(
            format!("server's thread in the wire-up / without a library: {ranks} ranks"),
            "times",
            figure,
            Bound::AtMost(2.0),
        );
    }
    for row in results.section(BESIDE_IDLE).filter(|row| row.name.ends_with(TO_ALONE)) {
        add(format!("{BESIDE_IDLE}, {}", row.name), "times", row.median(OURS), Bound::AtMost(2.0));
    }
    let figure = ratio("all peers' keys", "4 servers of 32 ranks, slowest");
    add("all peers' keys, stock / ours: 4 servers of 32 ranks".into(), "times", figure, Bound::AtLeast(1000.0));
    let figure = ours("memory of a rank", "private memory written until the end of the first fence");
    add("memory of a rank".into(), "KiB", figure, Bound::AtMost(256.0));

    let fence = "collecting fence";
    let figure = ratio(fence, "4 servers of 8 ranks, 32 MiB");
    add(format!("{fence} of 32 MiB, stock / ours"), "times", figure, Bound::AtLeast(3.0));
    let figure = ours(fence, "32 MiB / plain copy");
    add(format!("{fence}, each new byte / plain copy"), "times", figure, Bound::AtMost(3.0));
    let figure = ours(fence, &format!("small fences, last ten of {} / first ten", sizes.fences));
    add(format!("{fence}, last ten of {} / first ten", sizes.fences), "times", figure, Bound::AtMost(1.1));

    let large = |name: &str| ours(JOB, name);
    for (what, unit, figure, most) in [
        (
            "registered with infos / reading them once",
            "times",
            large(&format!("1,048,576 ranks: {REGISTER_TO_READING}")),
            1.5,
        ),
        ("registered with maps only", "ms", large("1,048,576 ranks, maps only: register"), 100.0),
        ("memory of the server, with infos", "MiB", large("1,048,576 ranks: memory") / 1024.0, 64.0),
        ("memory of the server, with maps only", "MiB", large("1,048,576 ranks, maps only: memory") / 1024.0, 64.0),
        ("files, with infos", "bytes a rank", large("1,048,576 ranks: files, per rank"), 8.0),
        ("files, with maps only", "bytes a rank", large("1,048,576 ranks, maps only: files, per rank"), 8.0),
        (
            "files, ranks scattered",
            "bytes a rank",
            large("1,048,576 ranks scattered, maps only: files, per rank"),
            32.0,
        ),
        ("deregistered, with infos", "ms", large("1,048,576 ranks: deregister"), 10.0),
        ("deregistered, with maps only", "ms", large("1,048,576 ranks, maps only: deregister"), 10.0),
        ("PMIx_Init, with infos / that among 2 ranks", "times", large(&format!("1,048,576 ranks: {INIT_TO_FEW}")), 1.1),
        (
            "PMIx_Init, with maps only / that among 2 ranks",
            "times",
            large(&format!("1,048,576 ranks, maps only: {INIT_TO_FEW}")),
            1.1,
        ),
    ] {
        add(format!("1,048,576 ranks: {what}"), unit, figure, Bound::AtMost(most));
    }
    targets
}
