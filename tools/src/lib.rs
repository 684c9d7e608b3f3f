//! Command-line tools of the PMIx library.
//!
//! * [`run`]: `pmixrun` starts the ranks of a job on one node and hosts their server, for use without a resource manager.
//! * [`ctl`]: `pmixctl` asks servers and shows their jobs, prints segments and directories of a namespace; and makes and checks the link
//!   to the stock library that PRRTE's daemons need ([`prrte`]).
//! * [`mod@bench`]: `pmixbench` measures a PMIx library, this one or another, from the ranks of a job, and draws the figures.

pub mod bench;
pub mod ctl;
pub mod machine;
mod mapped;
pub mod prrte;
pub mod run;
mod table;
pub mod usage;
mod value;
mod waits;

/// The allocator with a reserve for small allocations; large ones may fail.
#[global_allocator]
static ALLOCATOR: pmix_dstore::fallible_alloc::Allocator = pmix_dstore::fallible_alloc::Allocator;
