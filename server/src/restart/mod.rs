//! What a server keeps so that another one can go on in its place, and what that one finds (`docs/restart.md`).
//!
//! Beside the segments of a namespace lies a journal: the secrets of its processes, the values that are in no segment yet, which processes have
//! ended, and which fences are over. It is written to the page cache and not to the disk: it outlives the process, not the machine.

mod estates;
mod file;
mod record;

pub(crate) use self::estates::{Estates, Inherited, find, is_kept};
pub(crate) use self::file::{JournalFile, remove as remove_journal};
pub(crate) use self::record::{Change, Estate, Fate, Origin, Record, Released, Segment, add_released};
#[cfg(feature = "simulate")]
pub(crate) use self::{file::write as write_journal, record::Journal};

/// How often a namespace may pass from one server to the next.
const LIVES_MAX: u32 = 1000;

/// How many connections a server may have before those of the next one. So no two connections of a namespace have the same index.
pub(crate) const CONNECTIONS_OF_LIFE: u64 = 1 << 20;
