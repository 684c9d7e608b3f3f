//! What the compiler compares with the tables, and the names of attributes.

use std::fmt::Write;

use super::newest;
use super::types::{function, rust_name};
use crate::tables;

/// Code that mentions each function with its type: a library that lacks one of them, or has it otherwise, is not made.
pub fn exports() -> String {
    let mut code = String::from("const _: () = {\n");
    for row in tables::table("functions") {
        let name = row[0];
        match row[4].split_once(&format!("{name}(")) {
            Some((answer, parameters)) => {
                let (parameters, result) = function(answer, parameters.trim_end_matches(')'));
                let ty = format!("unsafe extern \"C\" fn({}){result}", parameters.join(", "));
                writeln!(code, "    let _: {ty} = {name};").unwrap();
            }
            None => writeln!(code, "    let _ = &{name};").unwrap(),
        }
    }
    code + "};\n"
}

/// Code that compares the structures with their measured sizes, alignments, offsets and the sizes of members.
pub fn layouts() -> String {
    layouts_of(|_| true)
}

/// The same for the types with these names.
pub fn layouts_of(is_wanted: impl Fn(&str) -> bool) -> String {
    let mut code = String::from("const _: () = {\n");
    for row in tables::table("types").iter().filter(|row| is_wanted(row[0])) {
        let [name, size, align] = [row[0], row[3], row[4]];
        writeln!(code, "    assert!(size_of::<{name}>() == {size});").unwrap();
        writeln!(code, "    assert!(align_of::<{name}>() == {align});").unwrap();
    }
    // Members of the union are other ones in Rust.
    for row in tables::table("members").iter().filter(|row| !row[1].contains('.') && is_wanted(row[0])) {
        let [name, offset, size] = [row[0], row[3], row[4]];
        let member = rust_name(row[1]);
        writeln!(code, "    assert!(std::mem::offset_of!({name}, {member}) == {offset});").unwrap();
        writeln!(code, "    assert!(member_size(|whole: &{name}| &whole.{member}) == {size});").unwrap();
    }
    code + "};\n"
}

/// The attributes' names with the keys that they stand for, and with the newest ones, where these are others. Each text has
/// its length before it and a NUL behind it: a table of pointers would be relocated in every process.
pub fn attribute_names() -> String {
    let mut tables = [String::new(), String::new()];
    let mut types = String::new();
    for row in tables::table("attributes") {
        let ty = row[2].strip_prefix("PMIX_").expect("types have this prefix");
        writeln!(types, "    DataType::{ty},").unwrap();
        let newer = Some(newest(&row)).filter(|newer| *newer != row[1]);
        let entries = [Some(row[1]), newer];
        for (table, key) in tables.iter_mut().zip(entries).filter_map(|(table, key)| Some((table, key?))) {
            for text in [row[0], key] {
                let len = u8::try_from(text.len()).expect("names and keys are short");
                write!(table, "\\x{len:02x}{text}\\0").unwrap();
            }
            table.push_str("\\\n");
        }
    }
    let [all, newer] = tables;
    format!(
        "static ATTRIBUTES: &[u8] = b\"\\\n{all}\";\nstatic NEWER: &[u8] = b\"\\\n{newer}\";\n\
         static TYPES: &[DataType] = &[\n{types}];\n"
    )
}
