//! Between C objects and the model, in both directions.
//!
//! * [`text`]: strings and names, read to their NUL and no further.
//! * [`structure`]: the trait of all structures; [`object`]: each of them: reading, writing, and freeing what it holds.
//! * [`value`]: `pmix_value_t`, which holds any of them, also borrowed for the paths that must not allocate.
//! * [`registration`]: what a host registers of a job, read where it lies.
//! * [`topology`]: which cpusets and topologies are hwloc's.
//! * [`mod@array`]: arrays of structures: those C code passes, and those handed to C code.

pub mod array;
pub mod object;
pub mod registration;
pub mod structure;
pub mod text;
pub mod topology;
pub mod value;
