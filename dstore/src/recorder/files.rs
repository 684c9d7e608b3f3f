//! The recorders' files of a namespace's directory.
#![forbid(unsafe_code)]

use std::ffi::OsStr;
use std::os::fd::BorrowedFd;
use std::path::Path;

use super::history::{FileError, History};
use super::record::FILE_LEN;
use crate::rank_file::{self, Found, Kind};

/// Files that are read.
const FILES_MAX: usize = 1024;

/// Reads a file, whatever its name leads to.
///
/// # Errors
/// It is none, or cannot be read.
pub fn read_file(directory: BorrowedFd<'_>, name: &OsStr) -> Result<History, FileError> {
    History::read(&rank_file::open_file(directory, name, FILE_LEN)?)
}

/// Reads the files of ranks that `is_meant` chooses, in the directory at `path` around a namespace's directory. They are sorted by rank.
///
/// # Errors
/// The directory cannot be read.
pub fn files_in(path: &Path, is_meant: impl Fn(u32) -> bool) -> std::io::Result<Found<Result<History, FileError>>> {
    rank_file::files_in(path, (Kind::Steps, FILES_MAX), is_meant, read_file)
}
