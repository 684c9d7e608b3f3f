//! Link settings of the shared library, and what the tables of the interface ask of its Rust side.

use std::fmt::Write;
use std::path::Path;
use std::process::Command;
use std::{env, fs};

/// The tables: what the library exports, its structures, the functions that callers give it, the attributes.
const TABLES: [&str; 5] = ["functions", "types", "members", "callbacks", "attributes"];

fn main() {
    // Programs linked against the stock library ask the loader for this name.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libpmix.so.2");
    // Open MPI and Slurm load the library through plugins that they also unload, perhaps without finalizing it first:
    // its threads must find their code then.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
    load_quickly();
    let [functions, types, members, callbacks, attributes] = TABLES.map(table);
    write("exports.rs", &exports(&functions));
    write("layouts.rs", &(layouts(&types, &members) + &signatures(&callbacks)));
    write("attributes.rs", &names(&attributes));
    println!("cargo:rerun-if-changed=build.rs");
}

/// Every rank of a job loads the library before it does anything else.
fn load_quickly() {
    // The standard library's unwinder comes from the shared libgcc otherwise: one more library to map and relocate, whose
    // constructor asks the processor what it is, which a virtual machine answers slowly. The linker looks here first.
    write("libgcc_s.so", "INPUT(-lgcc_eh -lgcc)\n");
    println!("cargo:rustc-link-search=native={}", env::var("OUT_DIR").expect("cargo sets OUT_DIR"));
    // Pointers that are only moved take 24 bytes each in the old form, about one bit in this one, which the C library knows
    // since 2.36.
    if glibc().is_some_and(|version| version >= (2, 36)) {
        println!("cargo:rustc-cdylib-link-arg=-Wl,-z,pack-relative-relocs");
    }
    if env::var("PROFILE").is_ok_and(|profile| profile == "release") {
        let order = env::var("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR") + "/start.ld";
        println!("cargo:rustc-cdylib-link-arg=-Wl,-T,{order}");
        println!("cargo:rerun-if-changed={order}");
    }
}

/// The C library's release, where it is that one.
fn glibc() -> Option<(u32, u32)> {
    let said = Command::new("getconf").arg("GNU_LIBC_VERSION").output().ok()?;
    let said = String::from_utf8(said.stdout).ok()?;
    let (major, minor) = said.trim().strip_prefix("glibc ")?.split_once('.')?;
    Some((major.parse().ok()?, minor.split('.').next()?.parse().ok()?))
}

/// The rows of a table, without its heading.
fn table(name: &str) -> Vec<Vec<String>> {
    let path = format!("abi/{name}.tsv");
    println!("cargo:rerun-if-changed={path}");
    let text = fs::read_to_string(path).expect("the tables are beside the build script");
    text.lines().skip(1).map(|line| line.split('\t').map(str::to_owned).collect()).collect()
}

fn write(name: &str, code: &str) {
    let directory = env::var_os("OUT_DIR").expect("cargo sets OUT_DIR");
    fs::write(Path::new(&directory).join(name), code).expect("cargo's directory is writable");
}

/// Code that mentions each name with its type: a library that lacks one of them, or has it otherwise, is not made.
fn exports(functions: &[Vec<String>]) -> String {
    let mut code = String::from("const _: () = {\n");
    for row in functions {
        let name = &row[0];
        match row[4].split_once(&format!("{name}(")) {
            Some((answer, parameters)) => {
                let ty = function_type(answer, parameters.trim_end_matches(')'));
                writeln!(code, "    let _: {ty} = {name};").expect("a string takes it");
            }
            None => writeln!(code, "    let _ = &{name};").expect("a string takes it"),
        }
    }
    code + "};\n"
}

/// Code that compares the structures with their sizes, alignments, offsets and the sizes of members.
fn layouts(types: &[Vec<String>], members: &[Vec<String>]) -> String {
    let mut code = String::from("const _: () = {\n");
    for row in types {
        let [name, size, align] = [&row[0], &row[3], &row[4]];
        writeln!(code, "    assert!(size_of::<{name}>() == {size});").expect("a string takes it");
        writeln!(code, "    assert!(align_of::<{name}>() == {align});").expect("a string takes it");
    }
    // Members of the union are other ones in Rust.
    for row in members.iter().filter(|row| !row[1].contains('.')) {
        let [name, offset, size] = [&row[0], &row[3], &row[4]];
        let member = if row[1] == "type" { "type_" } else { &row[1] };
        writeln!(code, "    assert!(std::mem::offset_of!({name}, {member}) == {offset});").expect("a string takes it");
        writeln!(code, "    assert!(member_size(|whole: &{name}| &whole.{member}) == {size});")
            .expect("a string takes it");
    }
    code + "};\n"
}

/// Code that compares the types of the functions that callers give.
fn signatures(callbacks: &[Vec<String>]) -> String {
    let mut code = String::new();
    for row in callbacks {
        let name = &row[0];
        let (answer, parameters) = row[1].split_once(&format!("(*{name})(")).expect("a signature names its type");
        let ty = function_type(answer, parameters.trim_end_matches(')'));
        writeln!(code, "#[allow(clippy::type_complexity)]\nconst _: fn({name}) -> {ty} = |function| function;")
            .expect("a string takes it");
    }
    code
}

/// The attributes' names with the keys that they stand for, and with the newest ones, where these are others. Each text has
/// its length before it and a NUL behind it: a table of pointers would be relocated in every process.
fn names(attributes: &[Vec<String>]) -> String {
    let mut tables = [String::new(), String::new()];
    let mut types = String::new();
    for row in attributes {
        let ty = row[2].strip_prefix("PMIX_").expect("types have this prefix");
        writeln!(types, "    DataType::{ty},").expect("a string takes it");
        let newest = row[4].split("; ").find_map(|other| other.strip_prefix("master: "));
        let entries = [Some(row[1].as_str()), newest];
        for (table, key) in tables.iter_mut().zip(entries).filter_map(|(table, key)| Some((table, key?))) {
            for text in [row[0].as_str(), key] {
                let len = u8::try_from(text.len()).expect("names and keys are short");
                write!(table, "\\x{len:02x}{text}\\0").expect("a string takes it");
            }
            table.push_str("\\\n");
        }
    }
    let [all, newer] = tables;
    format!(
        "static ATTRIBUTES: &[u8] = b\"{all}\";\nstatic NEWER: &[u8] = b\"{newer}\";\n\
         static TYPES: &[DataType] = &[\n{types}];\n"
    )
}

/// The Rust type of a C function.
fn function_type(answer: &str, parameters: &str) -> String {
    let parameters = parameters.split(", ").filter(|parameter| *parameter != "void");
    let parameters: Vec<String> = parameters.map(|parameter| rust_type(parameter, true)).collect();
    let answer = match rust_type(answer.trim(), false).as_str() {
        "c_void" => String::new(),
        ty => format!(" -> {ty}"),
    };
    format!("unsafe extern \"C\" fn({}){answer}", parameters.join(", "))
}

/// The Rust type of a C declaration, such as `const pmix_info_t info[]`.
fn rust_type(declaration: &str, is_named: bool) -> String {
    let (is_const, rest) = match declaration.strip_prefix("const ") {
        Some(rest) => (true, rest),
        None => (false, declaration),
    };
    let base = rest.split(' ').next().expect("a declaration begins with its type");
    let mut pointers = rest.matches('*').count() + rest.matches("[]").count();
    let name = match base {
        "void" => "c_void",
        "char" => "c_char",
        "int" => "c_int",
        "size_t" => "usize",
        "int32_t" => "i32",
        "uint8_t" => "u8",
        "uint32_t" => "u32",
        "uid_t" => "libc::uid_t",
        "gid_t" => "libc::gid_t",
        // Arrays, which C passes by their address.
        "pmix_nspace_t" | "pmix_key_t" if is_named => {
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
