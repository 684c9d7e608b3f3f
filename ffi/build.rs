//! Gives the shared library its name: programs linked against the stock library ask the loader for this one.

fn main() {
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libpmix.so.2");
    println!("cargo:rerun-if-changed=build.rs");
}
