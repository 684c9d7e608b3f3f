//! The bytes of a value, which may stay in the message that brought them.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use super::Result;
use crate::fallible_alloc;

/// Immutable bytes. A clone of long bytes shares them: values, commits and contributions to fences reference the same buffer.
#[derive(Clone)]
pub struct Bytes(Repr);

#[derive(Clone)]
enum Repr {
    Own(Vec<u8>),
    Part { backing: Arc<Backing>, start: usize, len: usize },
}

/// The buffer that shared bytes are a part of, and keep alive.
pub enum Backing {
    /// A message.
    Message(Vec<u8>),
    /// Other memory, whose contents stay the same as long as it lives: a mapped file, or memory that a host lends.
    External(Box<dyn AsRef<[u8]> + Send + Sync>),
}

impl fmt::Debug for Backing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl Deref for Backing {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match self {
            Backing::Message(bytes) => bytes,
            Backing::External(memory) => (**memory).as_ref(),
        }
    }
}

impl Bytes {
    /// Minimum length of shared bytes. Copying fewer costs no more than counting a reference, and a short part must not keep a
    /// large message in memory.
    pub const SHARED_MIN: usize = 1024;

    /// All bytes of memory that is not a `Vec`. The memory is dropped together with the last part of it.
    pub fn external(memory: impl AsRef<[u8]> + Send + Sync + 'static) -> Bytes {
        let len = memory.as_ref().len();
        Bytes(Repr::Part { backing: Arc::new(Backing::External(Box::new(memory))), start: 0, len })
    }

    /// Shares a part of `backing` and keeps `backing` alive. Copies a part that is short or that does not lie in `backing`.
    ///
    /// # Errors
    /// `NOMEM`.
    pub(crate) fn part_of(backing: &Arc<Backing>, part: &[u8]) -> Result<Bytes> {
        let (outer, inner) = (backing.as_ptr_range(), part.as_ptr_range());
        if part.len() < Bytes::SHARED_MIN || inner.start < outer.start || inner.end > outer.end {
            return Bytes::copy_of(part);
        }
        let start = inner.start.addr() - outer.start.addr();
        Ok(Bytes(Repr::Part { backing: Arc::clone(backing), start, len: part.len() }))
    }

    /// A copy.
    ///
    /// # Errors
    /// `NOMEM`.
    pub fn copy_of(bytes: &[u8]) -> Result<Bytes> {
        fallible_alloc::copy(bytes).map(Bytes::from)
    }

    /// A clone: shared if possible, otherwise a copy.
    ///
    /// # Errors
    /// `NOMEM`.
    pub fn copy(&self) -> Result<Bytes> {
        match &self.0 {
            Repr::Own(bytes) => Bytes::copy_of(bytes),
            Repr::Part { .. } => Ok(self.clone()),
        }
    }

    /// Whether a clone is no copy.
    pub(crate) fn is_shared(&self) -> bool {
        matches!(self.0, Repr::Part { .. })
    }

    /// The buffer that these bytes are a part of, from which the caller can take more parts.
    pub fn backing(&self) -> Option<&Arc<Backing>> {
        match &self.0 {
            Repr::Own(_) => None,
            Repr::Part { backing, .. } => Some(backing),
        }
    }

    /// Whether these are a part of it.
    pub fn is_part_of(&self, backing: &Arc<Backing>) -> bool {
        self.backing().is_some_and(|own| Arc::ptr_eq(own, backing))
    }

    /// The bytes.
    #[inline]
    pub fn as_slice(&self) -> &[u8] {
        match &self.0 {
            Repr::Own(bytes) => bytes,
            Repr::Part { backing, start, len } => &backing[*start..*start + *len],
        }
    }

    /// The bytes as a vector, copied where others may hold them.
    ///
    /// # Errors
    /// `NOMEM`.
    pub fn into_vec(self) -> Result<Vec<u8>> {
        match self.0 {
            Repr::Own(bytes) => Ok(bytes),
            Repr::Part { backing, start, len } => match Arc::try_unwrap(backing) {
                Ok(Backing::Message(bytes)) if start == 0 && len == bytes.len() => Ok(bytes),
                Ok(backing) => fallible_alloc::copy(&backing[start..start + len]),
                Err(backing) => fallible_alloc::copy(&backing[start..start + len]),
            },
        }
    }
}

impl From<Vec<u8>> for Bytes {
    fn from(bytes: Vec<u8>) -> Bytes {
        match bytes.len() {
            len @ Bytes::SHARED_MIN.. => {
                Bytes(Repr::Part { backing: Arc::new(Backing::Message(bytes)), start: 0, len })
            }
            _ => Bytes(Repr::Own(bytes)),
        }
    }
}

impl Deref for Bytes {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        self.as_slice()
    }
}

impl AsRef<[u8]> for Bytes {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl PartialEq for Bytes {
    fn eq(&self, other: &Bytes) -> bool {
        // The same memory need not be read.
        std::ptr::eq(self.as_slice(), other.as_slice()) || self.as_slice() == other.as_slice()
    }
}

impl Eq for Bytes {}

impl Default for Bytes {
    fn default() -> Bytes {
        Bytes(Repr::Own(Vec::new()))
    }
}

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_slice().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_parts_stay_where_they_are_and_short_ones_do_not_hold_the_message() {
        let backing = Arc::new(Backing::Message(vec![7; 3 * Bytes::SHARED_MIN]));
        let long = Bytes::part_of(&backing, &backing[5..][..Bytes::SHARED_MIN]).unwrap();
        assert_eq!(long.as_ptr(), backing[5..].as_ptr());
        assert_eq!(long.copy().unwrap().as_ptr(), long.as_ptr());
        let short = Bytes::part_of(&backing, &backing[..Bytes::SHARED_MIN - 1]).unwrap();
        assert!(!short.is_shared());
        let elsewhere = vec![7; Bytes::SHARED_MIN];
        assert_eq!(Bytes::part_of(&backing, &elsewhere).unwrap(), long);
        assert_eq!(Arc::strong_count(&backing), 2);
        assert_eq!(long.into_vec().unwrap(), elsewhere);
        assert_eq!(Arc::strong_count(&backing), 1);
    }

    #[test]
    fn a_vector_comes_back_as_it_was() {
        for len in [0, 1, Bytes::SHARED_MIN, 5 * Bytes::SHARED_MIN] {
            let bytes = vec![1; len];
            let place = bytes.as_ptr();
            let back = Bytes::from(bytes).into_vec().unwrap();
            assert_eq!((back.len(), back.as_ptr()), (len, place));
        }
    }
}
