//! `libpmix.so.2`: the C interface of the PMIx library.
//!
//! * [`api`]: the functions, grouped as in the standard; [`entry`] writes them.
//! * [`host`]: the upcalls, the other way round.
//! * [`types`]: the structures; [`convert`]: between them and the model; [`memory`]: what C code frees.
//! * [`pinned`]: values that C code only points to.
//! * [`callback`], [`registry`]: functions of C code, and what waits for them.
//!
//! # Pointer rules
//!
//! They are those of the standard, and every function of [`api`] relies on them:
//! * a pointer is NULL or points to an object of its C type, initialised where it is read;
//! * an array has as many elements as its count says, and a NULL-terminated one ends with NULL;
//! * strings end with a NUL; keys and namespaces are readable to their NUL or to their full capacity;
//! * what a value holds lies where its type says;
//! * callbacks may be called from any thread, with the data they were passed with;
//! * memory that the library is to free, or gives away to be freed, comes from `malloc`.
#![cfg_attr(not(test), warn(clippy::print_stdout, clippy::print_stderr, clippy::exit, clippy::unwrap_used))]

/// Small allocations have a reserve; large ones may fail.
#[global_allocator]
static ALLOCATOR: pmix_dstore::fallible_alloc::Allocator = pmix_dstore::fallible_alloc::Allocator;

pub mod api;
pub mod attributes;
pub mod callback;
pub mod convert;
pub mod entry;
pub mod environment;
pub mod host;
mod hwloc;
pub mod memory;
pub mod pinned;
pub mod print;
pub mod registry;
pub mod strings;
mod topology;
pub mod types;
