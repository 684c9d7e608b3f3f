//! Topologies, what of them cpusets are in, and how far devices are: as Debian's library has them, of this machine and of others.

use pmix_tests::{Ended, Library, Pair, Run, Traces, program};

/// This machine, one with packages, shared caches and threads, and one whose memory is apart.
const MACHINES: [Option<&str>; 3] = [None, Some("package:2 l3:2 core:4 pu:2"), Some("node:2 pack:1 l2:2 core:2 pu:1")];
const CPUSETS: &str = "hwloc:0 hwloc:0-3 hwloc:1,3 hwloc:0-15 hwloc:0-99 hwloc:";

fn run(pair: Pair, machine: Option<&str>, args: &str) -> Ended {
    let traces = Traces::begin();
    let run = Run::new(program("topology"), pair.server).traced(&traces).env("CLIENT_LIBRARY", pair.ranks.directory());
    let run = machine.into_iter().fold(run, |run, machine| run.env("HWLOC_SYNTHETIC", machine));
    let ended = run.args(args).succeed();
    if pair.server.is_ours() {
        traces.assert_none_left(&ended);
    }
    ended
}

/// What the library says. Where there are no distances, a stock library wants to ask a server, and says that it cannot.
fn lines(ended: &Ended) -> Vec<String> {
    let plain = |line: &str| match line.split_once(": -").filter(|_| line.starts_with("distances")) {
        Some((what, _)) => format!("{what}: none"),
        None => line.to_owned(),
    };
    ended.stdout.lines().filter(|line| !line.starts_with("identified ")).map(plain).collect()
}

#[test]
fn topologies_localities_and_distances_are_those_of_the_stock_library() {
    for machine in MACHINES {
        let ours = Pair { server: Library::ours(), ranks: Library::ours() };
        let (ours, stock) = (run(ours, machine, CPUSETS), run(Pair::stock(), machine, CPUSETS));
        assert_eq!(lines(&ours), lines(&stock), "{machine:?}: {ours}");
        assert_eq!(ours.count("host load: 0, hwloc 1, again 0, the same 1"), 1, "{ours}");
        assert_eq!(ours.count("locality hwloc:0: 0 SK0:"), 1, "{ours}");
        assert_eq!(ours.count("inventory: 0, 0, delivered -157"), 1, "{ours}");
        // One that is identified need not be of a type that is named.
        let by_identity = ours.stdout.lines().filter(|line| line.starts_with("identified "));
        let (of_nothing, of_devices): (Vec<_>, Vec<_>) = by_identity.partition(|line| line.contains(" by nothing: "));
        assert!(!of_nothing.is_empty() && of_nothing.iter().all(|line| line.ends_with(", 0")), "{ours}");
        assert_eq!(of_devices.len(), 2 * ours.count("distance "), "{ours}");
        assert!(of_devices.iter().all(|line| line.ends_with(": 0, 1")), "{ours}");
    }
}

/// The client's environment names no machine: what it knows comes from its server.
#[test]
fn clients_are_told_of_the_machine() {
    for pair in Pair::all() {
        for machine in MACHINES {
            let ended = run(pair, machine, "share");
            let levels = |who: &str| {
                let line = ended.stdout.lines().find_map(|line| line.strip_prefix(who)?.strip_prefix(" levels:"));
                line.map(str::to_owned).unwrap_or_else(|| panic!("{who}: {ended}"))
            };
            assert_eq!(levels("host"), levels("client"), "{pair}: {machine:?}: {ended}");
            for key in ["pmix.hwlocxml2", "pmix.hwlocxml1", "pmix.ltopo"] {
                assert_eq!(ended.count(&format!("client get {key}: 0, xml 1")), 1, "{pair}: {machine:?}: {ended}");
            }
            assert_eq!(ended.count("client ended: 0"), 1, "{pair}: {ended}");
        }
    }
}

/// A host that has one gives it to its server, and gets it from there.
#[test]
fn a_host_brings_its_own_topology() {
    for pair in [Pair::stock(), Pair { server: Library::ours(), ranks: Library::ours() }] {
        let ended = run(pair, None, "given");
        assert_eq!(ended.count("host levels: 1 2 6"), 1, "{pair}: {ended}");
        assert_eq!(ended.count("given: the same 1"), 1, "{pair}: {ended}");
    }
}

/// Nobody who does not ask for it has hwloc in its memory.
#[test]
fn hwloc_is_not_loaded_unasked() {
    let library = Library::ours().directory().join("libpmix.so.2");
    let needed = std::process::Command::new("readelf").arg("-d").arg(library).output().expect("binutils are there");
    let needed = String::from_utf8_lossy(&needed.stdout).into_owned();
    assert!(needed.contains("libc.so.6") && !needed.contains("hwloc"), "{needed}");
}
