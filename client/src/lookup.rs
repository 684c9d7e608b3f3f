//! A Get beyond its fast front: what is looked for, and who takes what is found.

use pmix_dstore::codec::ValueRef;
use pmix_dstore::compression;
use pmix_dstore::model::{DataType, Info, KeyRef, NSPACE_LEN_MAX, Rank, Result, Status, Value};

use crate::get_options::GetOptions;

/// The namespace argument of a Get.
#[derive(Clone, Copy)]
pub enum NspaceRef<'a> {
    /// The caller's own.
    Own,
    /// The namespace of this name; the empty name is the caller's own.
    Name(&'a [u8]),
    /// The name in a buffer of C code, where it ends with a NUL.
    Buffer(&'a [u8; NSPACE_LEN_MAX + 1]),
}

impl<'a> NspaceRef<'a> {
    /// The name; `None` for the caller's own.
    ///
    /// # Errors
    /// `BAD_PARAM` for a buffer without a NUL.
    pub fn name(self) -> Result<Option<&'a [u8]>> {
        let name = match self {
            NspaceRef::Own => None,
            NspaceRef::Name(name) => Some(name),
            NspaceRef::Buffer(buffer) => {
                let len = buffer.iter().position(|byte| *byte == 0).ok_or(Status::ERR_BAD_PARAM)?;
                Some(&buffer[..len])
            }
        };
        Ok(name.filter(|name| !name.is_empty()))
    }
}

/// A callback for the value that a look-up finds.
pub(crate) type Deliver<'a> = &'a mut dyn FnMut(ValueRef<'_>) -> Result<()>;

/// A Get on the slow path, with the results of the fast path.
pub(crate) struct Lookup<'a> {
    /// The name of the namespace.
    pub nspace: &'a [u8],
    /// Whether it is the caller's own namespace.
    pub is_own: bool,
    /// The rank.
    pub rank: Rank,
    /// The key; `None` for all values of the rank.
    pub key: Option<KeyRef<'a>>,
    /// The parsed directives.
    pub options: &'a GetOptions<'a>,
    /// The directives.
    pub infos: &'a dyn Fn() -> Vec<Info>,
    /// The fast path has searched own values and segments, and the value is not there.
    pub is_absent_here: bool,
}

/// Passes a value to `take` in the form for users: a compressed string is expanded.
pub(crate) fn deliver(value: ValueRef<'_>, take: Deliver<'_>) -> Result<()> {
    match value {
        ValueRef::Bytes { ty: DataType::COMPRESSED_STRING, bytes } => {
            take((&Value::String(Some(compression::expand_string(bytes)?))).into())
        }
        value => take(value),
    }
}
