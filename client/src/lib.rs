//! The client side of a PMIx library: one process's view of its job.
//!
//! | start with | for |
//! |---|---|
//! | [`Client`] | connecting, put, commit, fence, Get, publish, spawn, events |
//! | [`Environment`] | the environment variables of a launched process |
//! | [`GetRequest`], [`GetOptions`] | a Get with directives, whose value is borrowed from the store |
//! | [`Operation`] | a call that is run either blocking or with a callback |
//! | [`EventHandler`], [`Event`] | handlers of events and their arguments |
//! | [`tool`] | processes that nobody launched and that connect to a server by themselves |
//!
//! Programs use it through the crate `pmix`, which has typed keys, errors in words, and streams of events.
//!
//! Values have the types of [`pmix_dstore::model`]; [`pmix_dstore::model::attributes`] has the attributes as typed constants.
//!
//! A Get is answered on the calling thread, without a system call, from this process's own values, from the mapped
//! segments, and from earlier replies of the server, in this order. Only then does it become a request. Requests reach
//! the server through a [`Link`]: a socket to the server, or a call into the server of this process.
//!
//! # A rank
//!
//! A process that a PMIx server launched finds its server in the environment. It connects, puts a value, and reads the others' values after
//! a fence (`client/examples/hello.rs`; start it with `pmixrun`, the example host of `pmix-server`, or any other launcher):
//!
//! ```no_run
#![doc = include_str!("../examples/hello.rs")]
//! ```
#![cfg_attr(not(test), warn(clippy::print_stdout, clippy::print_stderr, clippy::exit, clippy::unwrap_used))]

mod call;
pub mod channel;
mod client;
mod commit;
mod debugger;
mod discovery;
pub mod env;
pub mod events;
mod forked;
pub mod get;
pub mod get_counts;
mod get_options;
mod hazard;
pub mod inspection;
mod invitations;
mod late;
#[cfg(test)]
#[path = "../../tests/src/left_out.rs"]
mod left_out;
mod link;
mod local;
pub mod locality;
mod lookup;
mod operation;
mod other_jobs;
pub mod output;
mod overlay;
mod own_segments;
mod patience;
mod pin;
mod polled_fence;
pub mod process;
mod recorder;
#[doc(hidden)]
pub mod regular_file;
pub mod rendezvous;
mod reply_cache;
pub mod resolve;
mod singleton;
pub mod socket_owner;
#[doc(hidden)]
pub mod source;
mod thread_slot;
pub mod tool;
pub mod topology;
pub mod trusted;
mod unserved_task;
#[doc(hidden)]
pub mod user_namespace;

pub use call::{Call, Inside, Returned};
pub use client::Client;
pub use client::attributes::Level as AttributeLevel;
pub use client::connections::connect_id;
pub use client::ops::InfoReply;
pub use env::Environment;
pub use events::{Event, EventDone, EventHandler, HandlerId};
pub use get::{Directive, GetFlags, GetOptions, GetRequest, NspaceRef, Receiver};
pub use link::{FirstCommit, Link, ReplyFn, Task};
pub use operation::{Done, Operation};
pub use own_segments::ViewRef;
pub use patience::timer_slack;
pub use recorder::RecorderSettings;
