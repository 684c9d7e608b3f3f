//! Shared parts of the tests of the PMIx library against real peers.
//!
//! `docs/developers.md`, "Where each kind of test goes", describes the files of `tests/tests`.
//!
//! * [`Library`]: the library under test is a parameter; the same programs run with ours and with Debian's.
//! * [`program`], [`plugin`]: the C programs of `tests/programs`, compiled once against the stock headers;
//!   [`program_with`]: against others.
//! * [`example`]: the Rust examples of the crates.
//! * [`Run`]: a command with a deadline, after which its whole process group is killed; [`release_of`]: a program's release.
//! * [`beside_host`], [`beside_job`]: a script that runs beside a host's ranks, or a job of our launcher, as tools do.
//! * [`Checked`]: a C host whose ranks make the checks of `tests/programs/client.c`.
//! * [`Pair`]: the library of the server and the library of the ranks.
//! * [`Root`]: another Debian release in a directory, with Open MPI 5 or 6.
//! * [`sides`]: its jobs with our library in daemons, ranks, or both, beside those with the stock one.
//! * [`Cluster`]: a private Slurm on several nodes.
//! * [`Hosts`]: two hosts with munge.
//! * [`WaitingJob`]: a job under our launcher whose ranks wait while a test attacks their server.
//! * [`peers`]: raw connections to a server that can send any bytes.
//! * [`published`]: published values of simulated ranks.
//! * [`registry`]: a host that executes a test's script of registrations and reads.
//! * [`Golden`]: recorded directories of namespaces; [`replaced`]: jobs whose library file is replaced.
//! * [`Traces`]: asserts that a test leaves no files, no processes and no damaged canaries.
//! * [`Living`]: descriptors, threads and mappings of an attacked process, before and after.
//!
//! * [`left_out`]: reports a test that cannot run on this machine; [`foreign`]: known faults of foreign programs.
//!
//! A test passes silently, or fails with the command and its output.
#![forbid(unsafe_code)]

mod beside;
mod build;
mod checked;
mod cluster;
mod deadline;
pub mod foreign;
mod golden;
mod hosts;
mod left_out;
mod pair;
pub mod peers;
mod processes;
mod published;
mod random;
pub mod registry;
pub mod replaced;
pub mod restarting;
mod root;
mod run;
mod serving;
pub mod sides;
mod standing;
mod traces;
mod waiting;

pub use beside::{beside_host, beside_host_with, beside_job, beside_job_within};
pub use build::{
    Library, PLACEMENTS, Profile, benchmark_program, example, floor_library, mpich_program, own_program, plugin,
    pmi_library, pmi_program, pmixrun, pmixrun_of, program, program_with, repository, stock_release,
};
pub use checked::Checked;
pub use cluster::{Cluster, Down, ROOT, USERS};
pub use deadline::Deadline;
pub use golden::Golden;
pub use hosts::{Host, Hosts};
pub use left_out::{left_out, note};
pub use pair::{Pair, is_large, times};
pub use processes::{Stopped, descriptors_of};
pub use published::published;
pub use random::Random;
pub use root::Root;
pub use run::{Ended, Hung, Run, release_of, release_of_mpirun};
pub use serving::{Holdings, Serving};
pub use traces::{Living, Traces};
pub use waiting::WaitingJob;
