//! Writes segments: the server's half of this module.

mod column;
mod job;
mod keys;
mod modex;
mod stored;
mod writer;

use std::fmt;

pub use job::build_job;
pub use modex::ModexBuilder;

use crate::model::{DataType, Key, Status};

/// Why a segment could not be built.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BuildError {
    /// The codec cannot pack a value.
    Pack {
        /// Key of the value.
        key: Key,
        /// Its type.
        ty: DataType,
        /// What the codec said.
        status: Status,
    },
    /// A value, a record or the texts of all keys are longer than the format can say.
    TooLarge {
        /// What is too large.
        what: &'static str,
        /// Bytes or items there are.
        len: u64,
        /// How many the format allows.
        len_max: u64,
    },
    /// The table of contents could not be archived.
    Archive(String),
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BuildError::Pack { key, ty, status } => write!(f, "value of {key}, type {ty}, cannot be packed: {status}"),
            BuildError::TooLarge { what, len, len_max } => write!(f, "{what}: {len}, at most {len_max} are possible"),
            BuildError::Archive(what) => write!(f, "table of contents: {what}"),
        }
    }
}

impl std::error::Error for BuildError {}
