//! The data store of the PMIx library: what values are, how they are packed, where they lie.
//!
//! Each module imports only from those above it in this list:
//!
//! * [`model`]: namespaces, ranks, keys, values, infos and statuses; with [`fallible_alloc`], which its copies need.
//! * [`gather`]: buffers that reference large values instead of copying them.
//! * [`compression`]: the compressed form of values and maps.
//! * [`maps`]: the node and process maps of a job and their compressed forms.
//! * [`codec`]: the packing of values on the wire, in the forms that released libraries speak, and values borrowed from where a
//!   store has them.
//! * [`qualified`]: several values under one key, told apart by qualifiers.
//! * [`realm_resolution`]: which realm answers a `PMIx_Get`.
//! * [`job`]: what a host registered about a job, sorted into realms.
//! * [`modex`]: what the ranks of a job published.
//! * [`cancel`]: threads that cannot be cancelled for a while.
//! * [`segment`]: a job's data and the modex as position-independent files that every process of a node maps.
//!
//! This crate knows nothing of sockets, of the C interface, or of who hosts the server.
#![cfg_attr(not(test), warn(clippy::print_stdout, clippy::print_stderr, clippy::exit, clippy::unwrap_used))]

pub mod cancel;
pub mod codec;
pub mod compression;
pub mod fallible_alloc;
pub mod gather;
pub mod job;
pub mod maps;
pub mod model;
pub mod modex;
pub mod qualified;
pub mod realm_resolution;
pub mod segment;
mod status;
