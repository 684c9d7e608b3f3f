//! PMIx for Rust programs: what a rank of a parallel job calls, and what a launcher embeds.
//!
//! A **host** starts the processes of a job, the **ranks**, and embeds a PMIx server. Each rank is a **client** of the server of its node. It
//! puts values under keys, commits them, and gets the values of other ranks after a fence.
//!
//! | start with | for |
//! |---|---|
//! | [`Client`] | a rank: put, commit, fence, get, publish, events |
//! | [`Connect`], [`Connection`] | processes of one or several jobs that have a namespace together |
//! | [`Host`], [`JobBuilder`], [`Job`] | a launcher: the description of a job, and the environment of its ranks |
//! | [`Key`] and [`attributes`] | keys of the program's own, and those of the standard; the compiler checks the types of their values |
//! | [`Events`] | events as a stream: received with or without a time limit, or by an iterator |
//! | [`Answers`] and [`Upcalls`] | what the server asks its host: closures for the usual, a trait for all |
//! | [`Error`] | which operation failed, with which key and process, and why |
//!
//! The crate is a thin layer. All of the standard is in `pmix-client` and `pmix-server`, and [`Client::inner`] and [`Host::server`] lead there.
//!
//! # To a working client and host
//!
//! **1. A new package**, with this crate as its only dependency:
//!
//! ```sh
//! cargo new --vcs none hello && cd hello
//! cargo add pmix --path /path/to/pmix-dstore/client/pmix
//! mkdir src/bin
//! ```
//!
//! It needs Rust 1.95 or later, and Linux.
//!
//! **2. A rank**, `src/bin/hello_client.rs`:
//!
//! ```no_run
#![doc = include_str!("../examples/hello_client.rs")]
//! ```
//!
//! **3. A host**, `src/bin/hello_host.rs`:
//!
//! ```no_run
#![doc = include_str!("../examples/hello_host.rs")]
//! ```
//!
//! **4. Four ranks:**
//!
//! ```sh
//! cargo build
//! target/debug/hello_host 4 target/debug/hello_client
//! ```
//!
//! prints 20 lines in any order, among them
//!
//! ```text
//! rank 2 of 4: rank 0 is process 4711
//! rank 2 of 4: hello:0 says good morning
//! ```
//!
//! The same rank runs under any other launcher with PMIx: `pmixrun -n 4 target/debug/hello_client`, `srun --mpi=pmix`, `mpirun`. The same host
//! starts MPI programs of C: `target/debug/hello_host 4 ./a.out`. Both examples are in `client/pmix/examples`.
//!
//! # Keys and values
//!
//! A [`Key`] has the Rust type of its values. Those of the standard are in [`attributes`], written from the tables from which the C headers
//! are checked: [`attributes::JOB_SIZE`] is `PMIX_JOB_SIZE`, whose values are `u32`. Programs make their own by [`Key::own`]. A key also makes
//! the infos by which calls get their directives, and reads them:
//!
//! ```
//! use pmix::{Value, attributes};
//!
//! let infos = vec![attributes::TIMEOUT.info(5), attributes::HOSTNAME.info("n1")];
//! assert_eq!(infos[0].value, Value::Int(5));
//! assert_eq!(attributes::HOSTNAME.find(&infos).as_deref(), Some("n1"));
//! ```
//!
//! ```compile_fail,E0277
//! // A time limit is a number.
//! let info = pmix::attributes::TIMEOUT.info("five seconds");
//! ```
//!
//! # Errors
//!
//! The text of an [`Error`] is enough for a log: `get of hello.pid of hello:3: PMIX_ERR_NOT_FOUND (-46); the process has not put this key, ...`.
//! A program that decides by it asks [`Error::status`].
//!
//! # Threads
//!
//! There is no runtime to start and nothing to poll. Calls block the calling thread; a [`Client`] can be cloned into other threads. Upcalls
//! come one at a time on the server's thread; an upcall may call every function of the host, and must not wait for ranks.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::print_stdout, clippy::print_stderr, clippy::exit, clippy::unwrap_used))]

mod client;
mod connection;
mod error;
mod events;
mod host;
mod job;
mod upcalls;

pub use client::{Client, Fence, Published};
pub use connection::{Connect, Connection};
pub use error::{Cause, Error, Result};
pub use events::{Events, KEPT_EVENTS, Range};
pub use host::{Host, HostBuilder};
pub use job::{Job, JobBuilder};
pub use upcalls::{Abort, Answers};

pub use pmix_client::{Environment, Event};
#[doc(inline)]
pub use pmix_dstore::gather::GatherBuf;
/// A key without a type, as upcalls get it.
#[doc(inline)]
pub use pmix_dstore::model::Key as KeyName;
#[doc(inline)]
pub use pmix_dstore::model::attributes;
/// A key with the Rust type of its values: of the standard ([`attributes`]), or of the program's own ([`Key::own`]).
#[doc(inline)]
pub use pmix_dstore::model::attributes::Attribute as Key;
#[doc(inline)]
pub use pmix_dstore::model::{
    App, Bytes, DataArray, DataType, Envar, Info, InfoFlags, Nspace, Pdata, Proc, Query, Rank, Scope, Status, Value,
};
#[doc(inline)]
pub use pmix_server::{Completion, Credential, FabricOperation, GroupOperation, Host as Upcalls};
