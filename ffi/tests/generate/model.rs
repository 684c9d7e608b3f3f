//! Keys, statuses, data types and typed attributes: the files of `dstore`.

use std::fmt::Write;

use super::{MAX_WIDTH, assignment, constants, newest, short, strings};
use crate::tables;

pub fn keys() -> String {
    let mut code = String::from(
        "//! Attribute names: the key strings of the PMIx standard and of released libraries, as constants.\n\
         //!\n\
         //! The constant for the attribute `PMIX_JOB_SIZE` is [`JOB_SIZE`]; its value is the string that goes over the wire.\n\
         //!\n\
         //! Written by `make generate` from attributes.tsv of ffi/abi.\n\n",
    );
    for row in tables::table("attributes") {
        writeln!(code, "/// `{}`.", row[0]).unwrap();
        code += &assignment("", &format!("pub const {}: &str", short(row[0])), &format!("{:?}", newest(&row)));
    }
    code
}

pub fn statuses() -> String {
    let rows = constants("pmix_status_t");
    let texts = strings::texts("PMIx_Error_string");
    // Of several names of a code the one that is its text comes first.
    let is_text = |name: &str| texts.iter().any(|(_, text)| *text == name);
    let names = rows.iter().filter(|row| is_text(row[0])).chain(rows.iter().filter(|row| !is_text(row[0])));
    let names: Vec<_> = names.map(|row| (row[2], row[0])).collect();
    "use super::Status;\n\n".to_owned()
        + &codes("Status", rows.iter().map(|row| (row[0], row[2])))
        + &table("Codes and names; of several names of a code the newest release's comes first.", "i32", &names)
}

pub fn data_types() -> String {
    let rows = constants("pmix_data_type_t");
    let names: Vec<_> = rows.iter().filter(|row| is_type(row[0])).map(|row| (row[2], short(row[0]))).collect();
    "use super::DataType;\n\n".to_owned()
        + &codes("DataType", rows.iter().filter(|row| is_type(row[0])).map(|row| (row[0], row[2])))
        + &table("Codes and names.", "u16", &names)
}

/// Whether a constant is a type, and not the largest number that one may have.
fn is_type(name: &str) -> bool {
    name != "PMIX_DATA_TYPE_MAX"
}

/// The constants of a type.
fn codes<'a>(ty: &str, rows: impl Iterator<Item = (&'a str, &'a str)>) -> String {
    let mut code = format!("impl {ty} {{\n");
    for (name, number) in rows {
        writeln!(code, "    /// `{name}`.").unwrap();
        code += &assignment("    ", &format!("pub const {}: {ty}", short(name)), &format!("{ty}({number})"));
    }
    code + "}\n\n"
}

fn table(doc: &str, number: &str, rows: &[(&str, &str)]) -> String {
    let mut code = format!("/// {doc}\npub const NAMES: &[({number}, &str)] = &[\n");
    rows.iter().for_each(|(number, name)| writeln!(code, "    ({number}, {name:?}),").unwrap());
    code + "];\n"
}

pub fn attributes() -> String {
    let mut types: Vec<&str> = Vec::new();
    let table = tables::table("attributes");
    for row in &table {
        if !types.contains(&row[2]) {
            types.push(row[2]);
        }
    }
    let mut code = String::from("attributes! {\n");
    for ty in types {
        writeln!(code, "    {}, {}:", rust_type(short(ty)), short(ty)).unwrap();
        let names = table.iter().filter(|row| row[2] == ty).map(|row| short(row[0]));
        code += &wrapped(names);
    }
    code + "}\n"
}

/// The Rust type of an attribute's values.
fn rust_type(data_type: &str) -> &'static str {
    match data_type {
        "BOOL" => "bool",
        "STRING" => "String",
        "PROC_RANK" => "Rank",
        "STATUS" => "Status",
        "UINT8" => "u8",
        "UINT16" => "u16",
        "UINT32" => "u32",
        "UINT64" | "SIZE" => "u64",
        "INT" | "INT32" | "PID" => "i32",
        "TIME" => "i64",
        "FLOAT" => "f32",
        "DOUBLE" => "f64",
        "BYTE_OBJECT" => "Vec<u8>",
        "DATA_ARRAY" => "DataArray",
        "PROC" => "Proc",
        "ENVAR" => "Envar",
        _ => "Value",
    }
}

/// Names in lines that are as long as they may be.
fn wrapped<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let (mut code, mut line) = (String::new(), String::from("       "));
    for name in names {
        if line.len() + name.len() + 2 > MAX_WIDTH {
            code += &std::mem::replace(&mut line, String::from("       "));
            code.push('\n');
        }
        write!(line, " {name},").unwrap();
    }
    code + line.trim_end_matches(',') + ";\n"
}
