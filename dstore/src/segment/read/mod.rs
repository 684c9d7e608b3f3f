//! Reads segments without a lock, a system call or an allocation. No byte of a segment is trusted.

pub(crate) mod checked;
pub(crate) mod column;
pub(crate) mod fast_path;
pub(crate) mod job_reader;
pub(crate) mod key_table;
pub(crate) mod modex_reader;
pub(crate) mod region;
pub(crate) mod view;
