//! Conversions between C objects and the model, in both directions.
//!
//! * [`text`]: strings and names. Nothing after the NUL is read.
//! * [`structure`]: the trait of all structures. [`object`]: its implementation for each structure: read, write, free the contents.
//! * [`value`]: `pmix_value_t`, which holds any structure; also a borrowed form for the paths that must not allocate.
//! * [`registration`]: the attributes of a job that a host registers, read in place.
//! * [`topology`]: which cpusets and topologies are hwloc's.
//! * [`mod@array`]: arrays of structures, both those that C code passes and those that C code gets.

pub mod array;
pub mod object;
pub mod registration;
pub mod structure;
pub mod text;
pub mod topology;
pub mod value;
