//! The server's side of a directory: writes files and makes them known to readers.

mod page_writer;
pub(crate) mod publisher;
