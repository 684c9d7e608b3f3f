//! Link settings of the shared library.

fn main() {
    // Programs linked against the stock library ask the loader for this name.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libpmix.so.2");
    // Open MPI and Slurm load the library through plugins that they also unload, perhaps without finalizing it first:
    // its threads must find their code then.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
    println!("cargo:rerun-if-changed=build.rs");
}
