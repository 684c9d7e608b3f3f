//! The constants of the Rust side are those of the tables, and all of them.

mod tables;

use pmix_dstore::model::Status;

const KEYS: &str = include_str!("../../dstore/src/model/keys.rs");
const STATUSES: &str = include_str!("../../dstore/src/model/status.rs");

/// The constants of a file, with what is between `before` and `after` in their definitions, under their names in C.
fn constants<'a>(file: &'a str, before: &str, after: &str) -> Vec<(String, &'a str)> {
    let definitions = file.lines().filter_map(|line| line.trim().strip_prefix("pub const "));
    let parts = definitions.filter_map(|line| {
        let (name, rest) = line.split_once(before)?;
        Some((format!("PMIX_{name}"), rest.strip_suffix(after)?))
    });
    parts.collect()
}

/// The newest string of an attribute: where releases differ, it is no other attribute's.
fn newest(row: &tables::Row) -> &'static str {
    tables::value_in(row[1], row[4], "master")
}

#[test]
fn keys_are_the_attributes_of_the_table() {
    let mut keys = constants(KEYS, ": &str = \"", "\";");
    let mut listed: Vec<(String, &str)> =
        tables::table("attributes").iter().map(|row| (row[0].to_owned(), newest(row))).collect();
    keys.sort_unstable();
    listed.sort_unstable();
    assert_eq!(keys, listed);
}

#[test]
fn statuses_are_those_of_the_table() {
    let mut statuses = constants(STATUSES, ": Status = Status(", ");");
    let mut listed: Vec<(String, &str)> = tables::table("constants")
        .iter()
        .filter(|row| row[1] == "pmix_status_t")
        .map(|row| (row[0].to_owned(), row[2]))
        .collect();
    statuses.sort_unstable();
    listed.sort_unstable();
    assert_eq!(statuses, listed);
    for (name, number) in &listed {
        assert_eq!(Status::from_name(name), Some(Status(number.parse().unwrap())), "{name}");
    }
}
