//! What a file says. It may have any content: another program may have written it, and its process may be writing while it is read.
#![forbid(unsafe_code)]

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::time::Duration;

use super::record::{FILE_LEN, MAGIC, Phase, RECORD_COUNT, Record, VERSION, VERSION_WORD, WORDS};
use crate::rank_file::Header;

/// Why a file is not a recorder's.
#[derive(Debug)]
#[non_exhaustive]
pub enum FileError {
    /// It cannot be opened or read.
    Io(io::Error),
    /// It is no regular file, or has another length.
    Form(&'static str),
    /// Its beginning is another one.
    Magic,
    /// It has another version of the layout.
    Version(u32),
    /// Its header is torn or changed.
    Header,
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FileError::Io(error) => write!(f, "{error}"),
            FileError::Form(what) => f.write_str(what),
            FileError::Magic => f.write_str("not a file with the steps of a process"),
            FileError::Version(version) => {
                write!(f, "version {version} of a file with the steps of a process; this program reads {VERSION}")
            }
            FileError::Header => f.write_str("a file with the steps of a process, whose header is damaged"),
        }
    }
}

impl std::error::Error for FileError {}

impl From<io::Error> for FileError {
    fn from(error: io::Error) -> FileError {
        FileError::Io(error)
    }
}

/// The steps of a process, as its file has them.
#[derive(Debug)]
pub struct History {
    /// The beginning of the job's name.
    pub nspace: String,
    /// The process's rank in it.
    pub rank: u32,
    /// The process.
    pub pid: u32,
    /// When the file was made, since 1970.
    pub time: Duration,
    /// The records that are whole, oldest first.
    pub records: Vec<Record>,
    /// The number of records that are neither whole nor empty.
    pub damaged: usize,
}

/// What a process does and did, from its history.
pub struct Past<'a> {
    /// Steps that have begun and not ended, newest first.
    pub open: Vec<&'a Record>,
    /// Steps that are over, newest first.
    pub over: Vec<&'a Record>,
}

impl History {
    /// Reads an open file, which must have the length of a recorder's.
    ///
    /// # Errors
    /// The file is none, or cannot be read.
    pub fn read(mut file: &File) -> Result<History, FileError> {
        let mut bytes = vec![0; FILE_LEN];
        file.read_exact(&mut bytes)?;
        History::parse(&bytes)
    }

    /// The history in these bytes of a whole file.
    ///
    /// # Errors
    /// They are none.
    pub fn parse(bytes: &[u8]) -> Result<History, FileError> {
        let (words, rest) = bytes.as_chunks::<8>();
        let words: Vec<u64> = words.iter().take(FILE_LEN / 8).map(|word| u64::from_ne_bytes(*word)).collect();
        let (blocks, _) = words.as_chunks::<WORDS>();
        let Some(([magic, version, ..], records)) = blocks.split_first() else { return Err(FileError::Magic) };
        if *magic != MAGIC {
            return Err(FileError::Magic);
        }
        if *version != VERSION_WORD {
            return Err(FileError::Version(*version as u32));
        }
        if bytes.len() != FILE_LEN || !rest.is_empty() {
            return Err(FileError::Form("its length is not that of a file with the steps of a process"));
        }
        let header = Header::of_words(&blocks[0]).ok_or(FileError::Header)?;
        let (last, open) = records.split_at(RECORD_COUNT);
        // In a place that was cleared only the number is.
        let used = last.iter().filter(|words| **words != [0; WORDS]).count()
            + open.iter().filter(|words| words[0] != 0).count();
        let mut records: Vec<Record> = records.iter().filter_map(Record::of_words).collect();
        let damaged = used - records.len();
        records.sort_by_key(|record| record.serial);
        records.dedup_by_key(|record| record.serial);
        let nspace = header.nspace();
        let Header { pid, rank, time, .. } = header;
        Ok(History { nspace, rank, pid, time, damaged, records })
    }

    /// What the process does and did.
    pub fn past(&self) -> Past<'_> {
        let has_ended = |begun: &Record| {
            let ends = |record: &Record| record.phase == Phase::Ended && record.begun == begun.serial as u32;
            self.records.iter().any(ends)
        };
        let newest = || self.records.iter().rev();
        Past {
            open: newest().filter(|record| record.phase == Phase::Begun && !has_ended(record)).collect(),
            over: newest().filter(|record| record.phase != Phase::Begun).collect(),
        }
    }
}
