//! Data type codes (`pmix_data_type_t`): the tag of a value in memory and on the wire.

mod generated;

use std::fmt;

use crate::texts::{Names, names_len};

/// The names of the codes.
static NAMES: Names<u16, { generated::NAMES.len() }, { names_len(generated::NAMES) }> = Names::new(generated::NAMES);

/// The type of a value. The numbers are those of the standard's `PMIX_*` type constants.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DataType(pub u16);

impl DataType {
    /// The constant's name without its `PMIX_` prefix, if the code is a known one.
    pub fn name(self) -> Option<&'static str> {
        NAMES.name(self.0)
    }
}

impl fmt::Debug for DataType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for DataType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "type {}", self.0),
        }
    }
}
