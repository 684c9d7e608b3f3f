//! Makes segments from data: the server's half of the format.

mod column;
pub(crate) mod header;
mod job;
mod keys;
mod modex;
mod stored;
mod writer;

use std::fmt;

pub use job::build_job;
#[cfg(all(test, not(loom)))]
pub(crate) use job::build_job_made;
pub use modex::ModexBuilder;

use crate::fallible_alloc;
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
        /// The error of the codec.
        status: Status,
    },
    /// A value, a record or the texts of all keys exceed the lengths of the format.
    TooLarge {
        /// The part that is too large.
        what: &'static str,
        /// Actual number of bytes or items.
        len: u64,
        /// Limit of the format.
        len_max: u64,
    },
    /// The table of contents could not be archived.
    Archive(String),
    /// There is not enough memory.
    NoMemory {
        /// Requested number of bytes.
        needed: u64,
    },
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BuildError::Pack { key, ty, status } => write!(f, "value of {key}, type {ty}, cannot be packed: {status}"),
            BuildError::TooLarge { what, len, len_max } => write!(f, "{what}: {len}, at most {len_max} are possible"),
            BuildError::Archive(what) => write!(f, "table of contents: {what}"),
            BuildError::NoMemory { needed } => write!(f, "out of memory: {needed} bytes are needed"),
        }
    }
}

impl std::error::Error for BuildError {}

/// Reserves capacity for `more` items of a vector.
fn reserve<T>(vec: &mut Vec<T>, more: usize) -> Result<(), BuildError> {
    let needed = (vec.len() + more) * size_of::<T>();
    fallible_alloc::reserve(vec, more).map_err(|_| BuildError::NoMemory { needed: needed as u64 })
}

/// An empty vector with capacity for `len` items.
fn vec_for<T>(len: usize) -> Result<Vec<T>, BuildError> {
    let mut vec = Vec::new();
    reserve(&mut vec, len)?;
    Ok(vec)
}
