//! Command-line tools of the PMIx library.
//!
//! * [`run`]: `pmixrun` starts the ranks of a job on one node and hosts their server, where no resource manager does.
//! * `pmixctl` (`src/bin/pmixctl.rs`) prints segments and directories of a namespace with [`pmix_dstore::segment`]; it modifies
//!   nothing.

pub mod run;

/// Small allocations have a reserve; large ones may fail.
#[global_allocator]
static ALLOCATOR: pmix_dstore::fallible_alloc::Allocator = pmix_dstore::fallible_alloc::Allocator;
