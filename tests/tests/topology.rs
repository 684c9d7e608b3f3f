//! Topologies, localities of cpusets and distances of devices: the same as Debian's library, for this machine and for others.

use std::fs;

use pmix_tests::{Ended, Library, Pair, Run, Traces, program};

/// This machine, a synthetic one with packages, shared caches and threads, and one with NUMA nodes.
const MACHINES: [Option<&str>; 3] = [None, Some("package:2 l3:2 core:4 pu:2"), Some("node:2 pack:1 l2:2 core:2 pu:1")];
const CPUSETS: &str = "hwloc:0 hwloc:0-3 hwloc:1,3 hwloc:0-15 hwloc:0-99 hwloc:";

/// Two pairs of processors, a network device at one of them.
const WITH_DEVICE: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE topology SYSTEM "hwloc2.dtd">
<topology version="2.0">
<object type="Machine" os_index="0" cpuset="0xf" complete_cpuset="0xf" allowed_cpuset="0xf" nodeset="0x1" complete_nodeset="0x1" allowed_nodeset="0x1" gp_index="1">
 <object type="Package" os_index="0" cpuset="0xf" complete_cpuset="0xf" nodeset="0x1" complete_nodeset="0x1" gp_index="2">
  <object type="NUMANode" os_index="0" cpuset="0xf" complete_cpuset="0xf" nodeset="0x1" complete_nodeset="0x1" gp_index="3" local_memory="1048576"/>
  <object type="L3Cache" os_index="0" cpuset="0x3" complete_cpuset="0x3" nodeset="0x1" complete_nodeset="0x1" gp_index="4" cache_size="65536" depth="3" cache_linesize="64" cache_associativity="8" cache_type="0">
   <object type="PU" os_index="0" cpuset="0x1" complete_cpuset="0x1" nodeset="0x1" complete_nodeset="0x1" gp_index="5"/>
   <object type="PU" os_index="1" cpuset="0x2" complete_cpuset="0x2" nodeset="0x1" complete_nodeset="0x1" gp_index="6"/>
   <object type="Bridge" gp_index="7" bridge_type="0-1" depth="0" bridge_pci="0000:[00-00]">
    <object type="PCIDev" gp_index="8" pci_busid="0000:00:01.0" pci_type="0200 [8086:1572] [0000:0000] 00" pci_link_speed="0.000000">
     <object type="OSDev" gp_index="9" name="net0" osdev_type="2"><info name="Address" value="00:11:22:33:44:55"/></object>
    </object>
   </object>
  </object>
  <object type="L3Cache" os_index="1" cpuset="0xc" complete_cpuset="0xc" nodeset="0x1" complete_nodeset="0x1" gp_index="10" cache_size="65536" depth="3" cache_linesize="64" cache_associativity="8" cache_type="0">
   <object type="PU" os_index="2" cpuset="0x4" complete_cpuset="0x4" nodeset="0x1" complete_nodeset="0x1" gp_index="11"/>
   <object type="PU" os_index="3" cpuset="0x8" complete_cpuset="0x8" nodeset="0x1" complete_nodeset="0x1" gp_index="12"/>
  </object>
 </object>
</object>
</topology>
"#;

fn run(pair: Pair, machine: Option<&str>, args: &str) -> Ended {
    run_with(pair, &machine.map(|machine| ("HWLOC_SYNTHETIC", machine)), args)
}

fn run_with(pair: Pair, machine: &Option<(&str, &str)>, args: &str) -> Ended {
    let traces = Traces::begin();
    let run = Run::new(program("topology"), pair.server).traced(&traces).env("CLIENT_LIBRARY", pair.ranks.directory());
    let run = machine.iter().fold(run, |run, (name, value)| run.env(name, value));
    let ended = run.args(args).succeed();
    if pair.server.is_ours() {
        traces.assert_none_left(&ended);
    }
    ended
}

/// The library's output. If there are no distances, a stock library tries to query a server, and reports that it
/// cannot. For a foreign machine 4.2.2 reports that nothing can be bound there.
fn lines(ended: &Ended) -> Vec<String> {
    let plain = |line: &str| match line.split_once(": -").filter(|_| line.starts_with("distances")) {
        Some((what, _)) => format!("{what}: none"),
        None => line.to_owned(),
    };
    let is_other =
        |line: &str| line.contains("\tBind ") && ["not available", "FALSE"].iter().any(|end| line.ends_with(end));
    let said = ended.stdout.lines().filter(|line| !line.starts_with("identified ") && !is_other(line));
    said.map(plain).collect()
}

#[test]
fn topologies_localities_and_distances_are_those_of_the_stock_library() {
    for machine in MACHINES {
        let ours = Pair { server: Library::ours(), ranks: Library::ours() };
        let (ours, stock) = (run(ours, machine, CPUSETS), run(Pair::stock(), machine, CPUSETS));
        assert_eq!(lines(&ours), lines(&stock), "{machine:?}: {ours}");
        assert_eq!(ours.count("host load: 0, hwloc 1, again 0, the same 1"), 1, "{ours}");
        assert_eq!(ours.count("locality hwloc:0: 0 SK0:"), 1, "{ours}");
        assert_eq!(ours.count("host get own topology: 0, hwloc 1"), 2, "{ours}");
        assert_eq!(ours.count("host got topology: as loaded 1"), 2, "{ours}");
        assert_eq!(ours.count(" Data type: PMIX_TOPO\tValue: Type: Machine Number of child objects: "), 1, "{ours}");
        assert_eq!(ours.count("Bind support:    not available"), usize::from(machine.is_some()), "{ours}");
        assert_eq!(ours.count("inventory: 0, 0, delivered -157"), 1, "{ours}");
        // An identified device need not have a named type.
        let by_identity = ours.stdout.lines().filter(|line| line.starts_with("identified "));
        let (of_nothing, of_devices): (Vec<_>, Vec<_>) = by_identity.partition(|line| line.contains(" by nothing: "));
        assert!(!of_nothing.is_empty() && of_nothing.iter().all(|line| line.ends_with(", 0")), "{ours}");
        assert_eq!(of_devices.len(), 2 * ours.count("distance "), "{ours}");
        assert!(of_devices.iter().all(|line| line.ends_with(": 0, 1")), "{ours}");
    }
}

/// 4.2.2 returns only the distance to the farthest processors; 7.0 returns the nearest and the farthest.
#[test]
fn a_device_is_as_far_as_the_nearest_and_the_farthest_processor() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("machine.xml");
    fs::write(&file, WITH_DEVICE).expect("a file");
    let machine = Some(("HWLOC_XMLFILE", file.to_str().expect("a name")));
    let distances = |library: Library| {
        let ended =
            run_with(Pair { server: library, ranks: library }, &machine, "hwloc:0 hwloc:0-1 hwloc:2-3 hwloc:0,2");
        let lines = ended.stdout.lines().filter_map(|line| line.strip_prefix("distance hwloc:"));
        lines
            .filter_map(|line| Some(line.split_once(": ipv4://00:11:22:33:44:55 net0 4, ")?.1.to_owned()))
            .collect::<Vec<_>>()
    };
    assert_eq!(distances(Library::ours()), ["2 to 2", "2 to 2", "3 to 3", "2 to 3"]);
    assert_eq!(distances(Library::Stock), ["2 to 2", "2 to 2", "3 to 3", "3 to 3"]);
}

/// The client's environment names no topology, so its data come from the server.
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
            assert_eq!(ended.count("client get own topology: 0, hwloc 1"), 1, "{pair}: {machine:?}: {ended}");
            assert_eq!(
                ended.count("client get own topology later: 0, 0, topology 1"),
                1,
                "{pair}: {machine:?}: {ended}"
            );
            assert_eq!(ended.count("client got topology: as loaded 1"), 1, "{pair}: {machine:?}: {ended}");
            for key in ["pmix.hwlocxml2", "pmix.hwlocxml1", "pmix.ltopo"] {
                assert_eq!(ended.count(&format!("client get {key}: 0, xml 1")), 1, "{pair}: {machine:?}: {ended}");
            }
            assert_eq!(ended.count("client ended: 0"), 1, "{pair}: {ended}");
        }
    }
}

/// A host that has a topology passes it to its server, and gets it back from there.
#[test]
fn a_host_brings_its_own_topology() {
    for pair in [Pair::stock(), Pair { server: Library::ours(), ranks: Library::ours() }] {
        let ended = run(pair, None, "given");
        assert_eq!(ended.count("host levels: 1 2 6"), 1, "{pair}: {ended}");
        assert_eq!(ended.count("given: the same 1"), 1, "{pair}: {ended}");
        assert_eq!(ended.count("host got topology: as loaded 1"), 2, "{pair}: {ended}");
    }
}

/// A process that does not use topologies does not load hwloc.
#[test]
fn hwloc_is_not_loaded_unasked() {
    let library = Library::ours().directory().join("libpmix.so.2");
    let needed = std::process::Command::new("readelf").arg("-d").arg(library).output().expect("binutils are there");
    let needed = String::from_utf8_lossy(&needed.stdout).into_owned();
    assert!(needed.contains("libc.so.6") && !needed.contains("hwloc"), "{needed}");
}
