//! The tables of the interface.

#![allow(dead_code, reason = "each test uses what it needs")]

/// The releases whose interface was measured.
pub const RELEASES: [&str; 5] = ["4.2.2", "4.2.9", "5.0", "6.1", "master"];

/// What is in this library and in no release that was measured.
const HERE_ALONE: &str = "here alone";

/// A line of a table: what is in its columns, the first one first.
pub type Row = Vec<&'static str>;

/// The lines of `ffi/abi/NAME.tsv`.
pub fn table(name: &str) -> Vec<Row> {
    let text = match name {
        "attributes" => include_str!("../../abi/attributes.tsv"),
        "callbacks" => include_str!("../../abi/callbacks.tsv"),
        "constants" => include_str!("../../abi/constants.tsv"),
        "functions" => include_str!("../../abi/functions.tsv"),
        "macros" => include_str!("../../abi/macros.tsv"),
        "strings" => include_str!("../../abi/strings.tsv"),
        "members" => include_str!("../../abi/members.tsv"),
        "types" => include_str!("../../abi/types.tsv"),
        _ => panic!("there is no table of {name}"),
    };
    text.lines().skip(1).map(|line| line.split('\t').collect()).collect()
}

/// Whether what is in `releases`, such as `4.2.9` or `4.2.9 to 5.0`, is in one of them. What is in none is `here alone`.
pub fn is_in(releases: &str, release: &str) -> bool {
    if releases == HERE_ALONE {
        return false;
    }
    let at = |name| RELEASES.iter().position(|known| *known == name).unwrap_or_else(|| panic!("release {name}"));
    let (first, last) = releases.split_once(" to ").unwrap_or((releases, "master"));
    (at(first)..=at(last)).contains(&at(release))
}

/// What is in a release: `value`, unless `elsewhere` has another one for it, as in `5.0: 224; 6.1: 256`.
pub fn value_in<'a>(value: &'a str, elsewhere: &'a str, release: &str) -> &'a str {
    let others = elsewhere.split("; ").filter_map(|other| other.split_once(": "));
    others.filter(|(known, _)| *known == release).map(|(_, other)| other).next().unwrap_or(value)
}
