//! The bytes of the file, and a step in words. Numbers are in the machine's order: a file is read where it was written.
#![forbid(unsafe_code)]

use std::fmt;
use std::time::Duration;

use crate::model::Status;
use crate::rank_file::{
    HEADER_WORDS, HeaderWords, Text as TextWords, nanoseconds, printable, text_bytes, text_words, with_check,
};

/// The first word of a file: `PMIXSTEP`.
pub const MAGIC: u64 = u64::from_ne_bytes(*b"PMIXSTEP");
/// The version of the layout.
pub const VERSION: u32 = 2;
/// Words of 8 bytes of each record, as of the header.
pub(super) const WORDS: usize = HEADER_WORDS;
/// The last records that a file keeps.
pub const RECORD_COUNT: usize = 55;
/// Places behind them for copies of the records of steps that have not ended: such a step may be older than the last records.
pub const OPEN_COUNT: usize = 8;
/// The version, and how many records there are.
pub(super) const VERSION_WORD: u64 = VERSION as u64 | (RECORD_COUNT as u64) << 32;
/// Bytes of a file.
pub const FILE_LEN: usize = (1 + RECORD_COUNT + OPEN_COUNT) * WORDS * 8;
/// Bytes of text in a record; longer texts are cut.
#[cfg(test)]
pub(super) const TEXT_LEN: usize = size_of::<TextWords>();

/// The words of a record. The last one is a check of the others.
pub(super) type Words = HeaderWords;

/// Writes the enumeration with what it needs.
macro_rules! steps {
    ($($(#[$doc:meta])* $name:ident = $code:literal $word:literal,)+) => {
        /// What a process did.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u16)]
        pub enum Step {
            $($(#[$doc])* $name = $code,)+
        }

        impl Step {
            /// Its name: that of the C function, if it is a call.
            pub fn name(self) -> &'static str {
                match self {
                    $(Step::$name => $word,)+
                }
            }

            /// The step of this number in a file.
            pub(super) fn of_code(code: u16) -> Option<Step> {
                match code {
                    $($code => Some(Step::$name),)+
                    _ => None,
                }
            }
        }
    };
}

steps! {
    /// The process connects to its server.
    Init = 1 "PMIx_Init",
    /// The number is that of the values.
    Commit = 2 "PMIx_Commit",
    /// The text is the job, or the number that of the participants.
    Fence = 3 "PMIx_Fence",
    /// A Get that the server answers: the number is the rank, the text the key.
    Get = 4 "PMIx_Get",
    /// The process asks for an abort.
    Abort = 5 "PMIx_Abort",
    /// The process leaves.
    Finalize = 6 "PMIx_Finalize",
    /// `PMIx_Publish`.
    Publish = 7 "PMIx_Publish",
    /// The text is the first key.
    Lookup = 8 "PMIx_Lookup",
    /// `PMIx_Unpublish`.
    Unpublish = 9 "PMIx_Unpublish",
    /// The text is the program.
    Spawn = 10 "PMIx_Spawn",
    /// As for a fence.
    Connect = 11 "PMIx_Connect",
    /// As for a fence.
    Disconnect = 12 "PMIx_Disconnect",
    /// The text is the first key.
    Query = 13 "PMIx_Query_info",
    /// `PMIx_Log`.
    Log = 14 "PMIx_Log",
    /// `PMIx_Job_control`.
    JobControl = 15 "PMIx_Job_control",
    /// `PMIx_Process_monitor`.
    Monitor = 16 "PMIx_Process_monitor",
    /// The text is the group.
    GroupConstruct = 17 "PMIx_Group_construct",
    /// The text is the group.
    GroupDestruct = 18 "PMIx_Group_destruct",
    /// The text is the group.
    GroupLeave = 19 "PMIx_Group_leave",
    /// An event came: its status, and its source in text and number.
    Event = 20 "event",
    /// Values come over the socket; the text says why.
    NoSharedMemory = 21 "no shared memory",
    /// The connection to the server broke.
    Lost = 22 "lost the server",
}

/// Which part of a step a record is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The step has begun and may wait.
    Begun,
    /// The step is over.
    Ended,
    /// A step without duration.
    Happened,
}

impl Phase {
    fn of_code(code: u16) -> Option<Phase> {
        [Phase::Begun, Phase::Ended, Phase::Happened].into_iter().find(|phase| *phase as u16 == code)
    }
}

/// A step with its details.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Note {
    /// The step.
    pub step: Step,
    /// A count or a rank.
    pub number: u32,
    text: TextWords,
}

impl Note {
    /// A step with a number and a text, of which the beginning counts.
    pub fn new(step: Step, number: u32, text: &[u8]) -> Note {
        Note { step, number, text: text_words(text) }
    }

    /// The bytes of the text.
    pub fn text(&self) -> impl Iterator<Item = u8> + Clone {
        text_bytes(&self.text)
    }
}

/// A record of a file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Record {
    /// Its number, from 1.
    pub serial: u64,
    /// When, since 1970.
    pub time: Duration,
    /// Which part of the step.
    pub phase: Phase,
    /// How long a step that is over took.
    pub took: Duration,
    /// The outcome, or an event's status.
    pub status: Status,
    /// The number of the record with which the step began; 0 if there is none. Its lower half.
    pub begun: u32,
    /// What.
    pub note: Note,
}

impl Record {
    pub(super) fn to_words(self) -> Words {
        let mut words = [0; WORDS];
        words[0] = self.serial;
        words[1] = nanoseconds(self.time);
        words[2] = u64::from(self.note.step as u16)
            | u64::from(self.phase as u16) << 16
            | u64::from(self.status.0.cast_unsigned()) << 32;
        words[3] = u64::from(self.note.number) | u64::from(self.begun) << 32;
        words[4] = nanoseconds(self.took);
        words[5..15].copy_from_slice(&self.note.text);
        with_check(words)
    }

    /// The record; `None` if it is empty, torn or of an unknown kind.
    pub(super) fn of_words(words: &Words) -> Option<Record> {
        if words[0] == 0 || with_check(*words) != *words {
            return None;
        }
        let [code, phase] = [words[2] as u16, (words[2] >> 16) as u16];
        let mut note = Note::new(Step::of_code(code)?, words[3] as u32, &[]);
        note.text.copy_from_slice(&words[5..15]);
        Some(Record {
            serial: words[0],
            time: Duration::from_nanos(words[1]),
            phase: Phase::of_code(phase)?,
            took: Duration::from_nanos(words[4]),
            status: Status(((words[2] >> 32) as u32).cast_signed()),
            begun: (words[3] >> 32) as u32,
            note,
        })
    }

    /// The step in words, without times and outcome.
    pub fn details(&self) -> impl fmt::Display {
        Details(&self.note)
    }

    /// The record in words at the time `now`. It allocates nothing: a signal handler calls it, too.
    pub fn in_words(&self, now: Duration) -> impl fmt::Display {
        InWords { record: *self, now }
    }
}

struct InWords {
    record: Record,
    now: Duration,
}

impl fmt::Display for InWords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Record { note, phase, status, time, took, .. } = &self.record;
        let ago = Seconds(self.now.saturating_sub(*time));
        match phase {
            Phase::Begun => write!(f, "in {} since {ago}", Details(note)),
            Phase::Ended => {
                write!(f, "{}, {ago} ago, took {}", Details(note), Seconds(*took))?;
                outcome(f, *status)
            }
            Phase::Happened => {
                write!(f, "{}", Details(note))?;
                outcome(f, *status)?;
                write!(f, ", {ago} ago")
            }
        }
    }
}

/// The status, unless it is success.
fn outcome(f: &mut fmt::Formatter<'_>, status: Status) -> fmt::Result {
    match (status, status.name()) {
        (Status::SUCCESS, _) => Ok(()),
        (_, Some(name)) => write!(f, ": {name}"),
        (Status(code), None) => write!(f, ": status {code}"),
    }
}

/// A step with its details.
struct Details<'a>(&'a Note);

impl fmt::Display for Details<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (note, text) = (self.0, Text(self.0));
        f.write_str(note.step.name())?;
        match (note.step, note.number) {
            (Step::Commit, 1) => f.write_str(" of 1 value"),
            (Step::Commit, number) => write!(f, " of {number} values"),
            (Step::Get, number) => write!(f, " of {text} of rank {}", Rank(number)),
            (Step::Event, number) => write!(f, " from {text}:{}", Rank(number)),
            (Step::NoSharedMemory, _) => write!(f, ": {text}"),
            (_, 0) if note.text[0] != 0 => write!(f, " of {text}"),
            (Step::Fence | Step::Connect | Step::Disconnect, number) => write!(f, " of {number} processes"),
            _ => Ok(()),
        }
    }
}

/// A rank, which may stand for all.
struct Rank(u32);

impl fmt::Display for Rank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == crate::model::Rank::WILDCARD.0 { f.write_str("*") } else { write!(f, "{}", self.0) }
    }
}

/// A text in which only printable characters are themselves: a file may hold any bytes.
struct Text<'a>(&'a Note);

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.text().try_for_each(|byte| fmt::Write::write_char(f, printable(byte)))
    }
}

/// A time in a unit that fits. Without floating point: a signal handler formats it.
pub struct Seconds(pub Duration);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, milliseconds) = (self.0.as_secs(), self.0.subsec_millis());
        match seconds {
            0 if milliseconds < 100 => write!(f, "{milliseconds}.{} ms", self.0.subsec_micros() % 1000 / 100),
            _ => write!(f, "{seconds}.{} s", milliseconds / 100),
        }
    }
}
