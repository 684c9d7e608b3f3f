//! Link settings of the shared library.

fn main() {
    // The name that programs ask for which are linked to Slurm's `-lpmi`; by a link the file is `libpmi2.so.0`, too.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libpmi.so.0");
    // Its threads must find their code even if a plugin that uses it is unloaded.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
    println!("cargo:rerun-if-changed=build.rs");
}
