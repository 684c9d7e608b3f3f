//! The server's side of a directory: writes files and makes them known to readers.

pub(crate) mod abandoned;
mod page_writer;
pub(crate) mod publisher;
