//! The server side of the PMIx library, embedded in a resource manager's daemon or in a launcher.
//!
//! * [`Server`]: what a host calls: register namespaces and clients, prepare their environment, ask for a rank's data.
//! * [`Host`]: what the server asks its host (the upcalls of the standard's server module).
//! * [`Completion`]: how a host answers an upcall, from any thread at any time.
//!
//! Inside, an engine that does no I/O turns messages, host answers and ticks into messages, upcalls and callbacks;
//! one thread moves the bytes and makes the calls. The values of a namespace lie in segments of
//! [`pmix_dstore`], which the clients of the node map.
//!
//! # A host
//!
//! What a launcher of one node does (`server/examples/host.rs`), from the registration of a job to its end:
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
mod env;
mod fork;
mod host;
mod io;
mod journal;
#[cfg(test)]
#[path = "../../tests/src/left_out.rs"]
mod left_out;
mod link;
mod publish;
mod rendezvous;
mod secret;
mod server;
mod upcall;
mod usage;

pub use completion::{Answer, Completion};
pub use host::{Credential, FabricOperation, GroupOperation, Host};
/// The name of our data store in the handshake and in `PMIX_GDS_MODULE`.
const STORE_NAME: &str = "pmix-dstore";
/// The name of our way to prove who a client is: its secret, over the Unix socket.
const SECURITY_NAME: &str = "pmix-dstore";

pub use server::{DmodexDone, OpDone, Server, SetupDone, Stats, setup_of_application};
