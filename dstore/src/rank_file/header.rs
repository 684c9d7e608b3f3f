//! The beginning of a file. Numbers are in the machine's order: a file is read where it was written.
#![forbid(unsafe_code)]

use std::time::{Duration, SystemTime};

use crate::model::Proc;

/// Words of 8 bytes of the header.
pub const HEADER_WORDS: usize = 16;
/// The words of a header. The last one is a check of the others.
pub type HeaderWords = [u64; HEADER_WORDS];
/// A text of at most 80 bytes, filled with zeros.
pub(crate) type Text = [u64; 10];

/// Whose file it is.
pub struct Header {
    /// The kind of the file.
    pub magic: u64,
    /// The version of the layout, and in the upper half a number that belongs to it.
    pub version: u64,
    /// The process that made the file.
    pub pid: u32,
    /// Its rank.
    pub rank: u32,
    /// When the file was made, since 1970.
    pub time: Duration,
    nspace: Text,
}

impl Header {
    /// The header of this process's file.
    pub fn new((magic, version): (u64, u64), me: &Proc, time: Duration) -> Header {
        let nspace = text_words(me.nspace.as_bytes());
        Header { magic, version, pid: std::process::id(), rank: me.rank.0, time, nspace }
    }

    /// The words of the file.
    pub fn to_words(&self) -> HeaderWords {
        let mut words = [0; HEADER_WORDS];
        words[0] = self.magic;
        words[1] = self.version;
        words[2] = u64::from(self.pid) | u64::from(self.rank) << 32;
        words[3] = nanoseconds(self.time);
        words[5..15].copy_from_slice(&self.nspace);
        with_check(words)
    }

    /// A file of this length that begins with the header.
    pub fn image(&self, len: usize) -> Vec<u8> {
        let mut image: Vec<u8> = self.to_words().iter().flat_map(|word| word.to_ne_bytes()).collect();
        image.resize(len, 0);
        image
    }

    /// The header in these words; `None` if they do not belong together.
    pub fn of_words(words: &HeaderWords) -> Option<Header> {
        if with_check(*words) != *words {
            return None;
        }
        let mut nspace = Text::default();
        nspace.copy_from_slice(&words[5..15]);
        Some(Header {
            magic: words[0],
            version: words[1],
            pid: words[2] as u32,
            rank: (words[2] >> 32) as u32,
            time: Duration::from_nanos(words[3]),
            nspace,
        })
    }

    /// The beginning of the namespace's name; bytes that are not printable are `?`.
    pub fn nspace(&self) -> String {
        text_bytes(&self.nspace).map(printable).collect()
    }
}

/// These words with their check as the last one: a number that follows from all others. It tells torn words from whole ones; whoever
/// writes a file on purpose can compute it, too.
pub(crate) fn with_check<const N: usize>(mut words: [u64; N]) -> [u64; N] {
    const START: u64 = u64::from_ne_bytes(*b"PMIXSTEP");
    let fold = |sum: u64, word: &u64| (sum ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    words[N - 1] = words[..N - 1].iter().fold(START, fold);
    words
}

/// The time since 1970, in which files tell when.
pub fn now() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

/// Nanoseconds, at most as many as a word holds.
pub(crate) fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// The beginning of a text.
pub(crate) fn text_words(text: &[u8]) -> Text {
    let mut bytes = [0; size_of::<Text>()];
    // A NUL ends the text.
    for (place, byte) in bytes.iter_mut().zip(text.iter().take_while(|byte| **byte != 0)) {
        *place = *byte;
    }
    let mut words = Text::default();
    for (word, bytes) in words.iter_mut().zip(bytes.as_chunks().0) {
        *word = u64::from_ne_bytes(*bytes);
    }
    words
}

/// The bytes of a text.
pub(crate) fn text_bytes(words: &Text) -> impl Iterator<Item = u8> + Clone {
    words.iter().flat_map(|word| word.to_ne_bytes()).take_while(|byte| *byte != 0)
}

/// The character of a byte, `?` for one that is not printable.
pub(crate) fn printable(byte: u8) -> char {
    if matches!(byte, b' '..=b'~') { char::from(byte) } else { '?' }
}
