//! Structures, numbers and callback types.

use std::fmt::Write;

use super::{MAX_WIDTH, assignment};
use crate::tables::{self, Row};

pub fn types() -> String {
    let mut code = String::from(
        "//! The structures, numbers and callback types of the C interface, under the names of the C headers.\n\
         //!\n\
         //! Written by `make generate` from types.tsv, members.tsv and callbacks.tsv of ffi/abi.\n\n\
         // Every item here is a C declaration that the standard documents under the same name.\n\
         #![allow(missing_docs, non_camel_case_types)]\n\n\
         use std::ffi::{c_char, c_int, c_void};\n\n\
         use libc::{pid_t, timeval};\n\n\
         use super::pmix_value_data;\n\n",
    );
    let types = tables::table("types");
    for row in types.iter().filter(|row| row[1] != "struct") {
        code += &number_of(row);
    }
    let members = tables::table("members");
    for row in types.iter().filter(|row| row[1] == "struct") {
        code += &structure(row, &members);
    }
    code.push('\n');
    for row in tables::table("callbacks") {
        code += &callback(&row);
    }
    code
}

/// The declaration of a type that is no structure.
pub fn number_of(row: &Row) -> String {
    documentation(row[0]) + &format!("pub type {} = {};\n", row[0], number(row))
}

/// The declaration of a structure, after an empty line.
pub fn structure(row: &Row, members: &[Row]) -> String {
    let mut code = "\n".to_owned() + &documentation(row[0]);
    writeln!(code, "#[repr(C)]\n#[derive(Clone, Copy)]\npub struct {} {{", row[0]).unwrap();
    for member in members.iter().filter(|member| member[0] == row[0] && !member[1].contains('.')) {
        let ty =
            if member[2].starts_with("union") { "pmix_value_data".to_owned() } else { rust_type(member[2], false) };
        writeln!(code, "    pub {}: {ty},", rust_name(member[1])).unwrap();
    }
    code + "}\n"
}

/// What there is to say of a declaration that its name does not.
fn documentation(name: &str) -> String {
    let lines: &[&str] = match name {
        "pmix_nspace_t" => &["`PMIX_MAX_NSLEN + 1` bytes: a namespace, NUL-terminated."],
        "pmix_key_t" => &["`PMIX_MAX_KEYLEN + 1` bytes: a key, NUL-terminated."],
        "pmix_boolean_t" => {
            &["[`BOOL_TRUE`](super::BOOL_TRUE), [`BOOL_FALSE`](super::BOOL_FALSE) or", "[`NON_BOOL`](super::NON_BOOL)."]
        }
        "pmix_server_module_t" => &[
            "The host's upcalls. The first 28 slots are those of every release; how many follow, only a host knows that says so",
            "([`host`](crate::host)).",
        ],
        _ => &[],
    };
    lines.iter().map(|line| format!("/// {line}\n")).collect()
}

/// The Rust type of a row of types.tsv that is no structure.
fn number(row: &Row) -> String {
    match row[1] {
        "array" => format!("[c_char; {}]", row[3]),
        "enum" => "c_int".to_owned(),
        _ => rust_type(row[2], false),
    }
}

/// The Rust type of a number, without its alias.
pub fn scalar(name: &str) -> String {
    let table = tables::table("types");
    let row = table.iter().find(|row| row[0] == name).unwrap_or_else(|| panic!("types.tsv has no {name}"));
    if number(row) == "c_int" { "i32".to_owned() } else { number(row) }
}

/// A callback's type, in the lines that rustfmt makes of it.
fn callback(row: &Row) -> String {
    let name = row[0];
    let (answer, parameters) = row[1].split_once(&format!("(*{name})(")).expect("a signature names its type");
    let (named, result) = function(answer, parameters.trim_end_matches(')'));
    let left = format!("pub type {name}");
    let line = format!("unsafe extern \"C\" fn({}){result}", named.join(", "));
    if line.len() + 5 <= MAX_WIDTH {
        return assignment("", &left, &line);
    }
    let parameters: String = named.iter().map(|parameter| format!("    {parameter},\n")).collect();
    format!("{left} = unsafe extern \"C\" fn(\n{parameters}){result};\n")
}

/// The parameters of a C function with their names, and its result.
pub fn function(answer: &str, parameters: &str) -> (Vec<String>, String) {
    let parameters = parameters.split(", ").filter(|parameter| *parameter != "void");
    let named = parameters.map(|parameter| {
        let name = parameter.rsplit([' ', '*']).next().expect("a parameter has a name").trim_end_matches("[]");
        format!("{}: {}", rust_name(name), rust_type(parameter, true))
    });
    let result = match rust_type(answer.trim(), false).as_str() {
        "c_void" => String::new(),
        ty => format!(" -> {ty}"),
    };
    (named.collect(), result)
}

/// The name of a member or parameter: in small letters, and none of Rust's keywords.
pub fn rust_name(name: &str) -> String {
    match name {
        "type" | "ref" => format!("{name}_"),
        "sessionID" => "session_id".to_owned(),
        other => other.to_owned(),
    }
}

/// The Rust type of a C declaration, such as `const pmix_info_t info[]`.
pub fn rust_type(declaration: &str, is_parameter: bool) -> String {
    let (is_const, rest) = match declaration.strip_prefix("const ") {
        Some(rest) => (true, rest),
        None => (false, declaration),
    };
    let rest = rest.strip_prefix("struct ").unwrap_or(rest);
    let base = rest.split(' ').next().expect("a declaration begins with its type");
    let mut pointers = rest.matches('*').count() + rest.matches("[]").count();
    let name = match base {
        "void" => "c_void",
        "char" => "c_char",
        "int" => "c_int",
        "float" => "f32",
        "size_t" => "usize",
        "int32_t" => "i32",
        "uint8_t" => "u8",
        "uint16_t" => "u16",
        "uint32_t" => "u32",
        "uint64_t" => "u64",
        "uid_t" => "libc::uid_t",
        "gid_t" => "libc::gid_t",
        // Arrays, which C passes by their address.
        "pmix_nspace_t" | "pmix_key_t" if is_parameter => {
            pointers += 1;
            "c_char"
        }
        other => other,
    };
    if name.contains("_fn_t") || name.contains("cbfunc") {
        return format!("Option<{name}>");
    }
    let innermost = if is_const { "*const " } else { "*mut " };
    match pointers {
        0 => name.to_owned(),
        more => "*mut ".repeat(more - 1) + innermost + name,
    }
}
