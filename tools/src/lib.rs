//! Command-line tools of the PMIx library.
//!
//! * [`run`]: `pmixrun`, which starts a job on one node.

pub mod run;
