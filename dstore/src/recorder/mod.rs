//! The flight recorder: the last steps of a process in a file of its own, for `pmixctl doctor` to read when the process hangs or has
//! been killed.
//!
//! * `record`: the bytes of the file, and a step in words.
//! * `ring`: the file of this process, which it alone writes.
//! * `history`: what a file says, which may have any content.
//! * `files`: the files of a namespace's directory.
//!
//! The file (`rank_file`) is a ring of records of fixed size, and a few places for steps that have not ended. A check in each record tells a
//! reader whether all its words belong together.

mod files;
mod history;
mod record;
mod ring;

pub use files::{files_in, read_file};
pub use history::{FileError, History, Past};
pub use record::{FILE_LEN, MAGIC, Note, OPEN_COUNT, Phase, RECORD_COUNT, Record, Seconds, Step, VERSION};
pub use ring::{Open, Ring};

#[cfg(test)]
mod tests;
