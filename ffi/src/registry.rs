//! Objects that C code refers to by number.
//!
//! C code passes an opaque `cbdata` back to the library's callbacks. It is a number here and never an address, so that a second call
//! of a callback, or a call after finalize, finds nothing and does no harm.

use std::collections::HashMap;
use std::ffi::c_void;

use parking_lot::Mutex;

/// Objects by number.
pub struct Registry<T> {
    things: Mutex<(usize, Option<HashMap<usize, T>>)>,
}

impl<T> Registry<T> {
    /// An empty registry.
    pub const fn new() -> Registry<T> {
        Registry { things: Mutex::new((0, None)) }
    }

    /// Stores an object and returns its number, which is never 0: as `cbdata` it would be NULL.
    pub fn keep(&self, thing: T) -> usize {
        let mut things = self.things.lock();
        things.0 += 1;
        let number = things.0;
        things.1.get_or_insert_default().insert(number, thing);
        number
    }

    /// Keeps a thing under a number that the caller chose. A registry uses either this or [`Registry::keep`].
    pub fn keep_as(&self, number: usize, thing: T) {
        self.things.lock().1.get_or_insert_default().insert(number, thing);
    }

    /// Changes a thing, if it is there.
    pub fn change<R>(&self, number: usize, change: impl FnOnce(&mut T) -> R) -> Option<R> {
        self.things.lock().1.as_mut()?.get_mut(&number).map(change)
    }

    /// Takes a thing out, if it is still there.
    pub fn take(&self, number: usize) -> Option<T> {
        self.things.lock().1.as_mut()?.remove(&number)
    }
}

impl<T> Default for Registry<T> {
    fn default() -> Registry<T> {
        Registry::new()
    }
}

/// A number as `cbdata`.
pub fn to_cbdata(number: usize) -> *mut c_void {
    std::ptr::without_provenance_mut(number)
}

/// The number in a `cbdata`.
pub fn from_cbdata(cbdata: *mut c_void) -> usize {
    cbdata.addr()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn things_are_taken_once() {
        static THINGS: Registry<&str> = Registry::new();
        let number = THINGS.keep("thing");
        assert_ne!(number, 0);
        assert_eq!(from_cbdata(to_cbdata(number)), number);
        assert_eq!(THINGS.change(number, |thing| thing.len()), Some(5));
        assert_eq!(THINGS.take(number), Some("thing"));
        assert_eq!(THINGS.take(number), None);
        THINGS.keep_as(77, "other");
        assert_eq!(THINGS.take(77), Some("other"));
    }
}
