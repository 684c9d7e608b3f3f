//! Rust files that are written from the tables of `ffi/abi`.

mod bench;
mod checks;
mod model;
mod strings;
mod types;

use crate::tables::{self, Row};

/// The paths in the repository with what belongs there.
pub fn files() -> Vec<(&'static str, String)> {
    let model = "the tables attributes.tsv and constants.tsv";
    vec![
        ("dstore/src/model/keys.rs", model::keys()),
        ("dstore/src/status/generated.rs", head(model) + &model::statuses()),
        ("dstore/src/model/data_type/generated.rs", head(model) + &model::data_types()),
        ("dstore/src/model/attributes/generated.rs", head(model) + &model::attributes()),
        ("ffi/src/types/generated.rs", types::types()),
        ("ffi/src/strings.rs", strings::strings()),
        ("ffi/src/attributes/generated.rs", head("attributes.tsv") + &checks::attribute_names()),
        ("ffi/src/api/exports.rs", head("functions.tsv") + &checks::exports()),
        ("ffi/src/types/layouts.rs", head("types.tsv and members.tsv") + &checks::layouts()),
        ("tools/src/bench/abi/generated.rs", head("types.tsv, members.tsv and functions.tsv") + &bench::declarations()),
    ]
}

/// The first line of a file without documentation of its own.
fn head(tables: &str) -> String {
    format!("// Written by `make generate` from {tables} of ffi/abi.\n\n")
}

/// The rows of constants.tsv of one type.
fn constants(ty: &str) -> Vec<Row> {
    tables::table("constants").into_iter().filter(|row| row[1] == ty).collect()
}

/// A name without the prefix that all names of constants have.
fn short(name: &str) -> &str {
    name.strip_prefix("PMIX_").expect("names of constants begin with PMIX_")
}

/// The newest key of an attribute: where releases differ, it is no other attribute's.
pub fn newest(row: &Row) -> &'static str {
    tables::value_in(row[1], row[4], "master")
}

/// The longest line, as in rustfmt.toml.
const MAX_WIDTH: usize = 120;

/// `LEFT = RIGHT;` on one line, or on two where that is too long.
fn assignment(indent: &str, left: &str, right: &str) -> String {
    let line = format!("{indent}{left} = {right};\n");
    match line.len() <= MAX_WIDTH + 1 {
        true => line,
        false => format!("{indent}{left} =\n{indent}    {right};\n"),
    }
}
