//! The flight recorder: the last steps of a process in a file of its own, for `pmixctl doctor` to read when the process hangs or has
//! been killed.
//!
//! * `record`: the bytes of the file, and a step in words.
//! * `ring`: the file of this process, which it alone writes.
//! * `history`: what a file says, which may have any content.
//! * `files`: the files of a namespace's directory: opening and removing them.
//!
//! The file is a ring of records of fixed size, and a few places for steps that have not ended. A process writes a record by plain stores
//! into its mapping, so that nothing is lost if it is killed. A check in each record tells a reader whether all its words belong together.
//! Nobody else writes to a file, and no process decides anything by its own: a changed file leads to wrong words, not to wrong behaviour.
//! A file that is cut ends its process by SIGBUS at the next record. Its mode, 0400, keeps its user from that by mistake; root, and a user
//! who changes the mode, can do it.

mod files;
mod history;
mod record;
mod ring;

pub use files::{Found, NAMES_MAX, files_in, open_file, rank_of, remove_files};
pub use history::{FileError, History, Past};
pub use record::{FILE_LEN, MAGIC, Note, OPEN_COUNT, Phase, RECORD_COUNT, Record, Seconds, Step, VERSION};
pub use ring::{Open, Ring, now};

#[cfg(test)]
mod tests;
