//! The server side of the PMIx library, embedded in a resource manager's daemon or in a launcher.
//!
//! | start with | for |
//! |---|---|
//! | [`Server`] | a host's calls: register namespaces and clients, get their environment, request a rank's data |
//! | [`Host`] | the upcalls from the server to its host: the standard's server module |
//! | [`Completion`] | the answer to an upcall, from any thread at any time |
//!
//! Programs use it through the crate `pmix`, whose jobs follow from their nodes.
//!
//! Inside, an engine turns messages, host answers and ticks into messages, upcalls and callbacks, and does no I/O; one thread moves the
//! bytes and makes the calls. The values of a namespace lie in segments of [`pmix_dstore`], which the clients of the node map.
//! `docs/architecture.md` has pictures of both.
//!
//! # A host
//!
//! A launcher of one node, from the registration of a job to its end (`server/examples/host.rs`):
//!
//! ```no_run
#![doc = include_str!("../examples/host.rs")]
//! ```
#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::print_stdout, clippy::print_stderr, clippy::exit, clippy::unwrap_used))]

mod access;
mod application;
mod cleanup;
mod completion;
mod config;
mod engine;
mod engine_lock;
mod env;
mod fork;
mod host;
mod io;
mod journal;
mod keepalive;
#[cfg(test)]
#[path = "../../tests/src/left_out.rs"]
mod left_out;
pub mod leftovers;
mod link;
mod log;
mod own_requests;
pub mod process;
mod publisher;
mod remote;
mod rendezvous;
mod report;
mod restart;
mod secret;
mod server;
mod shared_state;
#[cfg(feature = "simulate")]
#[doc(hidden)]
pub mod simulate;
mod topology;
mod upcall;
mod usage;

pub use completion::{Completion, Credential, Relay, UpcallResult};
pub use host::{FabricOperation, GroupOperation, Host};
pub use keepalive::KEEPALIVE_VARIABLE;
/// The name of our data store in the handshake and in `PMIX_GDS_MODULE`.
const STORE_NAME: &str = "pmix-dstore";
/// The name of our security module: a client proves its identity by its secret, over the Unix socket.
const SECURITY_NAME: &str = "pmix-dstore";
/// The name of the security module of munge.
const MUNGE: &str = "munge";

pub use report::{DmodexDone, OpDone, SetupDone, Stats, Waiting};
pub use server::{Server, setup_of_application};
