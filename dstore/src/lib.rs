//! The data store of the PMIx library: what values are, how they are packed, where they lie.
//!
//! * [`model`]: namespaces, ranks, keys, values, infos and statuses.
//! * [`codec`]: the packing of values on the wire, in the forms that released libraries speak.
//! * [`maps`]: the node and process maps of a job and their compressed forms.
//! * [`job`]: what a host registered about a job, sorted into realms.
//! * [`qualified`]: several values under one key, told apart by qualifiers.
//! * [`rules`]: which realm answers a `PMIx_Get`.
//! * [`modex`]: what the ranks of a job published.
//! * [`pieces`]: messages and segments whose large values stay where they are.
//! * [`segment`]: both of these as position-independent files that every process of a node maps.
//! * [`room`]: memory that may not be there.
//! * [`cancel`]: threads that cannot be cancelled for a while.
//!
//! This crate knows nothing of sockets, of the C interface, or of who hosts the server.
#![cfg_attr(not(test), warn(clippy::print_stdout, clippy::print_stderr, clippy::exit, clippy::unwrap_used))]

pub mod cancel;
pub mod codec;
pub mod job;
pub mod maps;
pub mod model;
pub mod modex;
pub mod pieces;
pub mod qualified;
pub mod room;
pub mod rules;
pub mod segment;
