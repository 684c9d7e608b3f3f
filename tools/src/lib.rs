//! Command-line tools of the PMIx library.
//!
//! * [`run`]: `pmixrun` starts the ranks of a job on this node and serves them, the embedded default where no resource
//!   manager does.

pub mod run;

/// Small allocations have a reserve; large ones may fail.
#[global_allocator]
static ALLOCATOR: pmix_dstore::fallible_alloc::Allocator = pmix_dstore::fallible_alloc::Allocator;
