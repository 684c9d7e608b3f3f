//! Link settings of the shared library, and the list of what it exports.

use std::path::Path;
use std::{env, fs};

/// What the library exports: a line for each name, of which the name is the first column and the group the second.
const EXPORTS: &str = "abi.tsv";

fn main() {
    // Programs linked against the stock library ask the loader for this name.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libpmix.so.2");
    // Open MPI and Slurm load the library through plugins that they also unload, perhaps without finalizing it first:
    // its threads must find their code then.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
    // Code that mentions each name: a library that lacks one of them is not made.
    let table = fs::read_to_string(EXPORTS).expect("the table of exports is beside the build script");
    let names = table.lines().skip(1).filter_map(|line| line.split('\t').next());
    let mentions: String = names.map(|name| format!("    let _ = &{name};\n")).collect();
    let directory = env::var_os("OUT_DIR").expect("cargo sets OUT_DIR");
    let written = fs::write(Path::new(&directory).join("exports.rs"), format!("const _: () = {{\n{mentions}}};\n"));
    written.expect("cargo's directory is writable");
    println!("cargo:rerun-if-changed={EXPORTS}");
    println!("cargo:rerun-if-changed=build.rs");
}
