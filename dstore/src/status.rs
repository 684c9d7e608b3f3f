//! Status codes: results of calls and codes of events (`pmix_status_t`).

mod generated;

use std::fmt;

use crate::texts::{Names, names_len};

/// A result or event code. Zero is success, errors are negative.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Status(pub i32);

/// The names of the codes.
static NAMES: Names<i32, { generated::NAMES.len() }, { names_len(generated::NAMES) }> = Names::new(generated::NAMES);

/// The result of an operation that fails with a [`Status`].
pub type Result<T, E = Status> = std::result::Result<T, E>;

impl Status {
    /// Whether this is [`Status::SUCCESS`].
    pub fn is_success(self) -> bool {
        self == Status::SUCCESS
    }

    /// `Ok(())` for success, otherwise the status as an error.
    pub fn ok(self) -> Result<()> {
        if self.is_success() { Ok(()) } else { Err(self) }
    }

    /// The constant's name with its `PMIX_` prefix, if the code is a known one.
    pub fn name(self) -> Option<&'static str> {
        NAMES.name(self.0)
    }

    /// The status with a name, for example `PMIX_ERR_NOT_FOUND`; case-insensitive.
    pub fn from_name(name: &str) -> Option<Status> {
        NAMES.number(name).map(Status)
    }
}

impl fmt::Debug for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => write!(f, "{name} ({})", self.0),
            None => write!(f, "status {}", self.0),
        }
    }
}

impl std::error::Error for Status {}
