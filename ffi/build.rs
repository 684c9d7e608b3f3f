//! Link settings of the shared library.

use std::path::Path;
use std::process::Command;
use std::{env, fs};

fn main() {
    // Programs linked against the stock library ask the loader for this name.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libpmix.so.2");
    // Open MPI and Slurm load the library through plugins that they also unload, perhaps without finalizing it first:
    // its threads must find their code then.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
    load_quickly();
    println!("cargo:rerun-if-changed=build.rs");
}

/// Every rank of a job loads the library before it does anything else.
fn load_quickly() {
    // The standard library's unwinder comes from the shared libgcc otherwise: one more library to map and relocate, whose
    // constructor asks the processor what it is, which a virtual machine answers slowly. The linker looks here first.
    write("libgcc_s.so", "INPUT(-lgcc_eh -lgcc)\n");
    println!("cargo:rustc-link-search=native={}", env::var("OUT_DIR").expect("cargo sets OUT_DIR"));
    // Pointers that are only moved take 24 bytes each in the old form, about one bit in this one, which the C library knows
    // since 2.36. `PMIX_GLIBC` names an older release that is to load the library (packaging/older-glibc).
    println!("cargo:rerun-if-env-changed=PMIX_GLIBC");
    if glibc().is_some_and(|version| version >= (2, 36)) {
        println!("cargo:rustc-cdylib-link-arg=-Wl,-z,pack-relative-relocs");
    }
    if env::var("PROFILE").is_ok_and(|profile| profile == "release") {
        let order = env::var("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR") + "/start.ld";
        println!("cargo:rustc-cdylib-link-arg=-Wl,-T,{order}");
        // What the loader relocates begins with a page, so that it takes one less of each process. GNU's linker does not know this and says
        // so; there it ends with a page.
        println!("cargo:rustc-cdylib-link-arg=-Wl,-z,separate-loadable-segments");
        println!("cargo:rerun-if-changed={order}");
    }
}

/// The release of the C library for which this is built, where it is that one.
fn glibc() -> Option<(u32, u32)> {
    let said = match env::var("PMIX_GLIBC") {
        Ok(release) => format!("glibc {release}"),
        Err(_) => String::from_utf8(Command::new("getconf").arg("GNU_LIBC_VERSION").output().ok()?.stdout).ok()?,
    };
    let (major, minor) = said.trim().strip_prefix("glibc ")?.split_once('.')?;
    Some((major.parse().ok()?, minor.split('.').next()?.parse().ok()?))
}

fn write(name: &str, code: &str) {
    let directory = env::var_os("OUT_DIR").expect("cargo sets OUT_DIR");
    fs::write(Path::new(&directory).join(name), code).expect("cargo's directory is writable");
}
