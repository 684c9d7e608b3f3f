//! Tests of the PMIx library against real peers: what the tests share.
//!
//! * [`Library`]: the library under test is a parameter; the same programs run with ours and with Debian's.
//! * [`program`], [`plugin`]: the C programs of `tests/programs`, compiled once against the stock headers;
//!   [`program_with`]: against others.
//! * [`example`]: the Rust examples of the crates.
//! * [`Run`]: a command with a deadline, after which its whole process group is killed; [`release_of`]: which programs there are.
//! * [`beside_host`]: a script at a host of which it is no rank, as tools are.
//! * [`Pair`]: whose library serves, and whose the ranks have.
//! * [`Root`]: another Debian release in a directory, with Open MPI 5.
//! * [`Cluster`]: a Slurm of the test's own, on several nodes.
//! * [`WaitingJob`]: a job under our launcher whose ranks wait while a test attacks their server.
//! * [`peers`]: connections to a server that say what they like.
//! * [`published`]: what ranks that do not run have published.
//! * [`registry`]: a host that registers what a test says, and what can then be read of it.
//! * [`Traces`]: what a test leaves behind, which must be nothing: files, processes, harmed canaries.
//! * [`Living`]: what a process that a test attacks holds before and after.
//!
//! * [`left_out`]: says that a test cannot be made on this machine; [`foreign`]: faults of other people's programs.
//!
//! A test prints nothing and passes, or fails with the command and all that it printed.
#![forbid(unsafe_code)]

mod beside;
mod build;
mod cluster;
pub mod foreign;
mod left_out;
mod pair;
pub mod peers;
mod published;
mod random;
pub mod registry;
mod root;
mod run;
mod traces;
mod waiting;

pub use beside::{beside_host, beside_host_with};
pub use build::{Library, Profile, benchmark_program, example, plugin, pmixrun, program, program_with, repository};
pub use cluster::{Cluster, Down, ROOT, USERS};
pub use left_out::{left_out, note};
pub use pair::{Pair, is_large, times};
pub use published::published;
pub use random::Random;
pub use root::Root;
pub use run::{Ended, Hung, Run, release_of};
pub use traces::{Living, Traces};
pub use waiting::WaitingJob;
