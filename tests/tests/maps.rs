//! Node and process maps between our library and the stock one: each reads the maps that the other generates.
//!
//! `PMIX_TEST_PEERS` may name stock libraries of other releases, which are then tested, too.

use std::collections::HashSet;
use std::process::Command;
use std::{env, fs, iter};

use pmix_dstore::maps::{generate_ppn, generate_regex, parse_nodes, parse_ppn};
use pmix_tests::registry::{self, bytes, success, text};
use pmix_tests::{Library, Pair, Random, Run, benchmark_program, left_out, program, release_of, times};

/// The placement of a job's ranks: nodes with their ranks.
type Layout = Vec<(String, Vec<u32>)>;

/// The number of lists for one process.
const CHUNK: usize = 500;

/// Names of nodes in the style of real sites.
fn names(random: &mut Random) -> Vec<String> {
    let count = 1 + random.below(12);
    let mut names: Vec<String> = Vec::new();
    while names.len() < count {
        let prefix = *random.pick(&["n", "node", "odin", "nid", "c", "gpu", "", "R", "x"]);
        let width = *random.pick(&[0, 0, 2, 3, 5]);
        let first = *random.pick(&[0, 1, 7, 8, 9, 98, 99, 100, 999, 12345, 99_999_999]);
        let suffix =
            *random.pick(&["", "", "", "a", "x", "-ib", "-hsn0", ".cluster", ".site.example.org", "s1b2", "n07"]);
        let middle = *random.pick(&["", "", "", "r1i2n", "-", "0-", "c0-0c1s", "_"]);
        for number in (first..).step_by(1 + random.below(3)).take(1 + random.below(6)) {
            names.push(format!("{prefix}{middle}{number:0width$}{suffix}"));
        }
        names.extend(random.one_in(8).then(|| format!("10.0.{}.{}", random.below(256), random.below(256))));
        names.extend(random.one_in(8).then(|| "login".to_owned()));
        if random.one_in(4) {
            random.shuffle(&mut names);
        }
    }
    // A job has each node once. For 5.0 and later, names that differ only after their first dot are the same node.
    let mut known = HashSet::new();
    names.retain(|name| known.insert(name.split('.').next().map(str::to_owned)));
    names
}

fn layout(random: &mut Random) -> Layout {
    let names = names(random);
    let per_node = 1 + random.below(6);
    let count = names.len() * per_node;
    let mut ranks: Vec<u32> = (0..count as u32).collect();
    match random.below(3) {
        0 => {}
        // Ranks on the nodes in turn.
        1 => ranks.sort_by_key(|rank| (*rank as usize % names.len(), *rank)),
        _ => random.shuffle(&mut ranks),
    }
    let mut rest = ranks.into_iter();
    let mut nodes: Layout = names.into_iter().map(|name| (name, rest.by_ref().take(per_node).collect())).collect();
    // Nodes have different numbers of ranks.
    for (_, ranks) in &mut nodes {
        let left = 1 + random.below(ranks.len());
        ranks.truncate(if random.one_in(3) { left } else { ranks.len() });
    }
    nodes
}

/// The node map and the process map, with ranges if `ranges`.
fn texts(layout: &Layout, ranges: bool) -> (String, String) {
    let names: Vec<&str> = layout.iter().map(|(name, _)| name.as_str()).collect();
    let fields = layout.iter().map(|(_, ranks)| {
        let is_range = ranges
            && ranks.len() > 1
            && ranks.is_sorted()
            && ranks.len() as u32 == ranks[ranks.len() - 1] - ranks[0] + 1;
        match is_range {
            true => format!("{}-{}", ranks[0], ranks[ranks.len() - 1]),
            false => ranks.iter().map(u32::to_string).collect::<Vec<_>>().join(","),
        }
    });
    (names.join(","), fields.collect::<Vec<_>>().join(";"))
}

/// The maps that a library generates.
fn generated(library: Library, maps: &[(String, String)]) -> Vec<(Vec<u8>, Vec<u8>)> {
    let script: String =
        maps.iter().map(|(nodes, ppn)| format!("nodemap {}\nprocmap {}\n", text(nodes), text(ppn))).collect();
    let answers = registry::run(library, &script);
    assert_eq!(answers.len(), 2 * maps.len());
    answers.chunks(2).map(|pair| (bytes(success(&pair[0])), bytes(success(&pair[1])))).collect()
}

/// The layouts that a library reads from maps, with the nodes of `layouts`.
fn read(library: Library, maps: &[(Vec<u8>, Vec<u8>)], layouts: &[Layout]) -> Vec<Layout> {
    let mut script = String::new();
    for (number, ((nodes, ppn), layout)) in iter::zip(maps, layouts).enumerate() {
        // Most hosts pass maps as strings. Only the compressed form is not a string.
        let string = number % 2 == 0 && !nodes.starts_with(b"blob:") && !ppn.starts_with(b"blob:");
        let (ty, end) = if string { ("string", 1) } else { ("regex", 0) };
        let [nodes, ppn] = [nodes, ppn].map(|map| text(&map[..map.len() - end]));
        script += &format!("register job{number} 0 pmix.nmap {ty} {nodes} pmix.pmap {ty} {ppn}\nnodes job{number}\n");
        script.extend(layout.iter().map(|(name, _)| format!("peers {} job{number}\n", text(name))));
        script += &format!("deregister job{number}\n");
    }
    let answers = registry::run(library, &script);
    let mut answers = answers.iter();
    let mut next = || answers.next().expect("an answer to each question").as_str();
    let mut found = Vec::new();
    for layout in layouts {
        assert_eq!(next(), "status 0", "a registration");
        let names = String::from_utf8(bytes(success(next()))).expect("a text");
        let peers: Vec<Vec<u32>> = layout
            .iter()
            .map(|_| next().split(' ').filter_map(|word| word.split_once(':')?.1.parse().ok()).collect())
            .collect();
        let mut of_name = iter::zip(layout.iter().map(|(name, _)| name), peers);
        let in_order =
            names.split(',').map(|name| (name.to_owned(), of_name.next().map_or(Vec::new(), |(_, ranks)| ranks)));
        found.push(in_order.collect());
    }
    found
}

#[test]
fn maps_of_each_library_are_read_by_the_other() {
    let ours = Library::ours();
    let stock: Vec<Library> = iter::once(Library::Stock).chain(Library::others().iter().copied()).collect();
    let mut random = Random::new(1);
    for _ in 0..times(1, 20) {
        let layouts: Vec<Layout> = (0..CHUNK).map(|_| layout(&mut random)).collect();
        let maps: Vec<_> = layouts.iter().map(|layout| texts(layout, random.one_in(2))).collect();
        let written = generated(ours, &maps);
        for reader in stock.iter().chain([&ours]) {
            for (found, layout) in iter::zip(read(*reader, &written, &layouts), &layouts) {
                assert_eq!(found, *layout, "{reader:?} reads what we wrote");
            }
        }
        // Stock libraries do not read ranges in all forms in which they write them.
        let maps: Vec<_> = layouts.iter().map(|layout| texts(layout, false)).collect();
        for writer in &stock {
            let written = generated(*writer, &maps);
            let own = read(*writer, &written, &layouts);
            let ours = read(ours, &written, &layouts);
            for (number, layout) in layouts.iter().enumerate() {
                // 3.2 and 4.2 combine names across names without a number between them, so the order is lost.
                let is_disordered = written[number].0.starts_with(b"pmix[") && own[number] != *layout;
                assert_eq!(ours[number], if is_disordered { &own[number] } else { layout }.clone(), "{writer:?} wrote");
            }
        }
    }
}

#[test]
fn large_maps_are_read_by_both() {
    let per_node = 64;
    let nodes: Layout = (0..times(256, 16_384))
        .map(|node| (format!("nid{node:06}"), (node * per_node..(node + 1) * per_node).collect()))
        .collect();
    for ranges in [false, true] {
        let maps = [texts(&nodes, ranges)];
        let layouts = [nodes.clone()];
        for (writer, reader) in
            [(Library::ours(), Library::Stock), (Library::Stock, Library::ours()), (Library::ours(), Library::ours())]
        {
            // The stock library compresses a long text with its ranges, and does not expand them.
            if ranges && writer == Library::Stock {
                continue;
            }
            let written = generated(writer, &maps);
            if writer == Library::ours() {
                let len = texts(&nodes, true).1.len();
                assert_eq!(written[0].1.len(), len + "pmix[]".len() + 1, "ranges stay, and are found");
            }
            assert!(read(reader, &written, &layouts)[0] == nodes, "{writer:?} to {reader:?}, ranges {ranges}");
        }
    }
}

/// In child processes of this program: the number of nodes of the maps that the process writes and reads, and nothing
/// else.
const COUNTED: &str = "PMIX_TEST_MAP_NODES";

/// Writes and reads the maps of a job in each form that needs no compressor.
fn write_and_read(count: u32) {
    let nodes: Layout =
        (0..count).map(|node| (format!("nid{node:06}"), (node * 16..(node + 1) * 16).collect())).collect();
    for ranges in [false, true] {
        let (names, ranks) = texts(&nodes, ranges);
        let run_together = (format!("pmix[nid[6:0-{}]]", count - 1), format!("pmix[{ranks}]"));
        let written = (generate_regex(names.as_bytes()), generate_ppn(ranks.as_bytes()));
        for (names, ranks) in [
            (written.0.expect("a node map"), written.1.expect("a process map")),
            (run_together.0.into_bytes(), run_together.1.into_bytes()),
        ] {
            let (names, ranks) = (parse_nodes(&names).expect("a node map"), parse_ppn(&ranks).expect("a process map"));
            let found = iter::zip(names, ranks);
            assert!(found.eq(nodes.iter().map(|(name, ranks)| (name.clone().into_bytes(), ranks.clone()))));
        }
    }
}

/// A map four times as long costs four times the instructions, as callgrind counts them. The test compares the growth
/// of the second step with that of the first one, so that the rest of the process does not matter.
#[test]
fn work_grows_as_the_map_does() {
    if let Some(count) = env::var(COUNTED).ok().and_then(|count| count.parse().ok()) {
        return write_and_read(count);
    }
    if release_of("valgrind").is_none() {
        left_out("packages", "valgrind counts the instructions, and is not installed");
        return;
    }
    let own = tempfile::tempdir().expect("a directory");
    let instructions = |nodes: u32| -> i64 {
        let file = own.path().join(nodes.to_string());
        let ended = Command::new("valgrind")
            .args(["-q", "--tool=callgrind"])
            .arg(format!("--callgrind-out-file={}", file.display()))
            .arg(env::current_exe().expect("this program"))
            .args(["--exact", "work_grows_as_the_map_does"])
            .env(COUNTED, nodes.to_string())
            .output()
            .expect("valgrind runs");
        assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stdout));
        let text = fs::read_to_string(file).expect("counts");
        let total = text.lines().find_map(|line| line.strip_prefix("summary:")).expect("a sum");
        total.trim().parse().expect("a number")
    };
    let [small, middle, large] = [64, 256, 1024].map(instructions);
    let (first, second) = (middle - small, large - middle);
    assert!(first > 100_000 && second < 5 * first, "{small}, {middle}, {large}");
}

/// Each rank reads the whole layout: from shared memory, from our server, from a stock one.
#[test]
fn ranks_of_a_large_job_read_its_maps() {
    let (nodes, per_node) = (times(400, 4_000), 64);
    for pair in Pair::all() {
        for shared_memory in ["1", "0"] {
            let run = Run::new(benchmark_program("host", &[]), pair.server).env("PMIX_DSTORE_SHM", shared_memory);
            let run = run.args(&format!("--servers 2 --clients 2 --nodes {nodes} --per-node {per_node} env"));
            let run = run.arg(format!("LD_LIBRARY_PATH={}", pair.ranks.directory().display()));
            let ended = run.arg(program("layout")).run();
            let last = nodes - 1;
            let told =
                format!(": {nodes} nodes, on node{last:05} ranks {} to {}", last * per_node, nodes * per_node - 1);
            assert_eq!((ended.code(), ended.count(&told)), (0, 4), "{pair}: {ended}");
            // Stock libraries complain in many words.
            assert_eq!(ended.stderr, "", "{pair}: {ended}");
        }
    }
}
