//! `libpmix.so.2`: the C interface of the PMIx library.
//!
//! This crate translates C arguments into the model of `pmix_dstore`, calls `pmix_client` or `pmix_server`, and translates the result
//! back. PMIx semantics live in those crates. The tables in `ffi/abi` say what is exported; the build compares names, types and
//! layouts with them, and `docs/abi.md` explains the decisions.
//!
//! | module | holds |
//! |---|---|
//! | [`api`] | the exported functions, in groups as in the standard |
//! | [`entry`] | the macros that write each entry point: panic boundary, trace, cancellation |
//! | [`host`] | the upcalls: the host's C module as a `pmix_server::Host` |
//! | [`types`], [`convert`] | the C structures; conversions between them and the model |
//! | [`memory`] | memory that C code frees, from `malloc` |
//! | [`pinned`] | values that C code only points to (`PMIX_GET_POINTER_VALUES`) |
//! | [`callback`], [`registry`] | callbacks of C code, and the objects that `cbdata` stands for |
//!
//! # Pointer rules
//!
//! Every function of [`api`] relies on the rules of the standard:
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
pub mod keepalive;
mod loaded;
pub mod memory;
pub mod pinned;
pub mod print;
pub mod registry;
pub mod stock;
pub mod strings;
pub mod types;
pub mod watch;
