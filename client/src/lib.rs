//! The client side of a PMIx library: one process's view of its job.
//!
//! * [`Client`]: what a process may ask and tell; [`instance`] holds the one of this process.
//! * [`Link`]: how requests reach the server, and [`Channel`](channel::Channel), the link over a socket.
//! * [`Environment`]: what a launched process finds in its environment.
//! * [`get`]: what a `PMIx_Get` asks for; [`events`]: handlers and what they are called with.
//! * [`socket_owner`]: whose a TCP peer or listener is, by the kernel's word.
//! * [`Operation`]: a call that is run either blocking or with a callback.
//!
//! A Get is answered on the calling thread from this process's own values, from the mapped segments, and from what
//! the server said before, in this order; only then does it become a request.
//!
//! # A rank
//!
//! Processes that a PMIx server launches find it in their environment. What each of them does at its start
//! (`client/examples/hello.rs`, which the example host of `pmix-server` runs, `pmixrun` or any other):
//!
//! ```no_run
#![doc = include_str!("../examples/hello.rs")]
//! ```
#![cfg_attr(not(test), warn(clippy::print_stdout, clippy::print_stderr, clippy::exit, clippy::unwrap_used))]

mod call;
pub mod channel;
mod client;
mod commit;
mod current;
mod debugger;
pub mod env;
pub mod events;
mod everything;
pub mod get;
mod groups;
mod input;
pub mod instance;
mod invitations;
mod known;
#[cfg(test)]
#[path = "../../tests/src/left_out.rs"]
mod left_out;
mod link;
mod local;
pub mod locality;
mod operation;
mod ops;
pub mod output;
mod overlay;
mod question;
pub mod rendezvous;
pub mod resolve;
mod singleton;
pub mod socket_owner;
mod thread;
pub mod tool;
pub mod trusted;
mod user_namespace;

pub use call::{Call, Returned};
pub use client::Client;
pub use env::Environment;
pub use events::{Event, EventDone, EventHandler, HandlerId};
pub use get::{GetOptions, GetRequest};
pub use link::{Job, Link, ReplyFn};
pub use operation::{Done, Operation};
pub use ops::Answer;
pub use resolve::Ranks;
