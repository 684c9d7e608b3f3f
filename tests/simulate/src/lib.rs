//! A seeded simulation of whole jobs in one process: the engines of several servers, their hosts and their ranks, without I/O, threads or
//! clock.
//!
//! A seed draws a script of actions ([`of_seed`]). A [`run`] carries them out in virtual time: messages are delayed (in order on one connection,
//! in any order between connections), hosts exchange contributions and answer late, twice or after the time-out, publishers have no room,
//! ranks die. What must hold are the [`Invariant`]s. A script that fails is made short ([`run_seed`]), and the same seed and script
//! fail again.
//!
//! Beside the ranks there are tools, each server's own process, and those who must be refused (`tools.rs`). What ranks do is in `actions.rs` and
//! `calls.rs`, services of the host in `services.rs`, questions about what is known in `queries.rs`, output and input in `output.rs`, monitors in
//! `monitors.rs`, and what hosts do by themselves in `hosts.rs`. In some seeds servers are killed and started again (`restart.rs`).
//!
//! The engines are those of `pmix-server`. The ranks are small clients over the requests and replies of `pmix-wire`: the client's
//! own code is bound to its socket and its mapped segments.
//!
//! Steps are what is counted: a message that arrives, an answer, a tick, an action.
#![forbid(unsafe_code)]

mod actions;
mod calls;
mod host;
mod hosts;
mod invariant;
mod monitors;
mod output;
mod queries;
mod random;
mod rank;
mod restart;
mod run;
mod script;
mod services;
mod shrink;
mod tools;
mod world;

pub use invariant::{Invariant, Violation};
pub use run::{run, run_seed};
pub use script::{Action, of_seed};
