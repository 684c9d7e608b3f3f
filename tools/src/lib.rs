//! Command-line tools of the PMIx library.
//!
//! * [`run`]: `pmixrun` starts the ranks of a job on this node and serves them, the embedded default where no resource
//!   manager does.

pub mod run;
