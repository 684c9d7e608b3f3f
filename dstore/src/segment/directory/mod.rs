//! The directory of a namespace: its files, which are not trusted, and the directory page, which lists the segments.

pub(crate) mod error;
pub(crate) mod files;
#[cfg(feature = "builder")]
pub(crate) mod limit;
pub(crate) mod page;
pub(crate) mod sync;
