//! The server's side of a directory: writes files and makes them known to readers.

pub(crate) mod abandoned;
pub(crate) mod outer;
mod page_writer;
pub(crate) mod publisher;
pub(crate) mod takeover;
