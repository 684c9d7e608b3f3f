//! Why a registration is refused.

use std::fmt;

use crate::model::{Key, Status};

/// Why a registration is refused.
#[derive(Clone, Debug, PartialEq)]
pub struct Refused {
    /// The status that the host receives.
    pub status: Status,
    /// The key with the wrong value; empty if the error is not about a key.
    pub key: Key,
    /// Description of the error.
    pub why: String,
}

impl Refused {
    pub(super) fn new(key: impl Into<Key>, why: impl Into<String>) -> Refused {
        Refused { status: Status::ERR_BAD_PARAM, key: key.into(), why: why.into() }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.key.as_bytes() {
            b"" => write!(f, "{}", self.why),
            key => write!(f, "{}: {}", String::from_utf8_lossy(key), self.why),
        }
    }
}

impl From<Status> for Refused {
    fn from(status: Status) -> Refused {
        Refused { status, key: Key::from(""), why: status.to_string() }
    }
}

impl From<Refused> for Status {
    fn from(refused: Refused) -> Status {
        refused.status
    }
}

pub(super) type Result<T> = std::result::Result<T, Refused>;
