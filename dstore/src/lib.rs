//! The data store of the PMIx library: the data model, its encodings and its storage.
//!
//! For users of the library:
//!
//! * [`model`]: namespaces, ranks, keys, values, infos and statuses.
//! * [`maps`]: the node and process maps of a job and their compressed forms.
//! * [`codec`]: the packing of values on the wire, in the forms that released libraries speak, and values borrowed from a
//!   store.
//! * [`segment`]: a job's data and the modex as position-independent files that every process of a node maps.
//!
//! For the crates above this one, without a stability promise: `fallible_alloc` (allocations that can fail), `gather` (buffers
//! that reference large values instead of copying them), `compression`, `qualified` (several values under one key, distinguished
//! by qualifiers), `realm_resolution` (which realm answers a `PMIx_Get`), `job` (a host's registration, sorted into realms),
//! `modex` (published values of a job's ranks), `recorder` (the last steps of a process, in a file of its own), `cancel` (threads with
//! cancellation disabled), `channel` (values from thread to thread), `log` (the log of all crates),
//! `environment` (a quick look for variables), `settings` (the library's own variables), `file_ban` (a debug check that no file system call happens with a lock held).
//!
//! `tests/house/layers.txt` has the order in which these modules import each other.
//!
//! This crate has no knowledge of sockets, the C interface or the host.
#![cfg_attr(not(test), warn(clippy::print_stdout, clippy::print_stderr, clippy::exit, clippy::unwrap_used))]

#[doc(hidden)]
pub mod cancel;
#[doc(hidden)]
pub mod channel;
pub mod codec;
#[doc(hidden)]
pub mod compression;
#[doc(hidden)]
pub mod environment;
#[doc(hidden)]
pub mod fallible_alloc;
#[doc(hidden)]
pub mod file_ban;
#[doc(hidden)]
pub mod gather;
#[doc(hidden)]
pub mod get_counts;
#[doc(hidden)]
pub mod job;
#[doc(hidden)]
pub mod log;
pub mod maps;
pub mod model;
#[doc(hidden)]
pub mod modex;
#[doc(hidden)]
pub mod qualified;
#[doc(hidden)]
pub mod rank_file;
#[doc(hidden)]
pub mod realm_resolution;
#[doc(hidden)]
pub mod recorder;
pub mod segment;
#[doc(hidden)]
pub mod settings;
mod status;
pub mod texts;
#[doc(hidden)]
pub mod thread_number;
