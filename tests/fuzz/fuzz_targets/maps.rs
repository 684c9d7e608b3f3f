//! Node and process maps in all forms: what a map says comes back when it is written as text again.
//!
//! Input: which map, then its bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pmix_dstore::maps::{self, NODE_COUNT_MAX, RANK_COUNT_MAX};
use pmix_fuzz::bounded;

/// Heap for maps that are as large as maps may be: names with their vectors, ranks while their vector grows.
const HEAP_MAX: usize = 256 << 20;
/// Maps of more names or ranks are not written again: it takes long and shows nothing new.
const WRITTEN_MAX: usize = 10_000;
/// Longer numbers are the way to maps of the largest size. They are tried once in a while: each takes long.
const DIGITS_MAX: usize = 5;

fuzz_target!(|input: &[u8]| {
    let [selector, map @ ..] = input else { return };
    let has_long_number = map.split(|byte| !byte.is_ascii_digit()).any(|digits| digits.len() > DIGITS_MAX);
    if has_long_number && selector % 64 > 1 {
        return;
    }
    bounded(HEAP_MAX, 1, || match selector % 2 {
        0 => nodes(map),
        _ => procs(map),
    });
});

fn nodes(map: &[u8]) {
    let Ok(names) = maps::parse_nodes(map) else { return };
    assert!(names.len() <= NODE_COUNT_MAX);
    assert!(names.iter().all(|name| !name.contains(&0)));
    // Numbered names may hold what separates names elsewhere.
    if names.len() > WRITTEN_MAX || names.iter().any(|name| name.contains(&b',')) {
        return;
    }
    let text = names.join(&b',');
    // One empty name and no name are the same text, and a text may look like a map that is written already.
    if text.is_empty() || text.starts_with(b"raw:") {
        return;
    }
    let written = maps::generate_regex(&text).expect("no NUL in it");
    assert_eq!(maps::parse_nodes(&written).as_ref(), Ok(&names));
    assert_eq!(maps::generate_regex(&written[..written.len() - 1]).as_ref(), Ok(&written));
}

fn procs(map: &[u8]) {
    let Ok(nodes) = maps::parse_ppn(map) else { return };
    let count: usize = nodes.iter().map(Vec::len).sum();
    assert!(count <= RANK_COUNT_MAX);
    if count > WRITTEN_MAX {
        return;
    }
    let text: Vec<String> =
        nodes.iter().map(|ranks| ranks.iter().map(u32::to_string).collect::<Vec<_>>().join(",")).collect();
    let text = text.join(";");
    if text.is_empty() {
        return;
    }
    let written = maps::generate_ppn(text.as_bytes()).expect("no NUL in it");
    assert_eq!(maps::parse_ppn(&written).as_ref(), Ok(&nodes));
}
