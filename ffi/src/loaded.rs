//! What runs when a program loads the library.

use pmix_client::process;

/// Before constructors of the program and of libraries that need this one: handlers of forks that they register run outside ours.
extern "C" fn loaded() {
    process::watch_forks();
}

#[used]
// SAFETY: the loader calls the functions of this section one after the other.
#[unsafe(link_section = ".init_array")]
static LOADED: extern "C" fn() = loaded;
