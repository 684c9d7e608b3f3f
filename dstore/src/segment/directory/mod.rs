//! The directory of a namespace: its files, opened with distrust, and the directory page, which says what segments there are.

pub(crate) mod error;
pub(crate) mod files;
#[cfg(feature = "builder")]
pub(crate) mod limit;
pub(crate) mod page;
pub(crate) mod sync;
