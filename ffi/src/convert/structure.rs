//! The trait of all structures of the interface: reading, writing, destroying. [`object`](super::object) implements it for each.

use pmix_dstore::model::Result;

/// A C structure that has a form in the model.
pub trait Object: Sized {
    /// Its form in the model.
    type Model;

    /// Reads the structure.
    ///
    /// # Errors
    /// `BAD_PARAM` for names that are too long, `UNKNOWN_DATA_TYPE` or `NOT_SUPPORTED` for values of unknown or unsupported types.
    ///
    /// # Safety
    /// `at` points to an initialised structure whose pointers are valid or NULL.
    unsafe fn read(at: *const Self) -> Result<Self::Model>;

    /// Writes the structure; what it holds comes from `malloc`.
    ///
    /// # Errors
    /// `NOMEM`, or `NOT_SUPPORTED` for values that have no C form. The structure can be destroyed then, too.
    ///
    /// # Safety
    /// `at` points to zeroed memory for one structure.
    unsafe fn write(model: &Self::Model, at: *mut Self) -> Result<()>;

    /// Frees what the structure holds and leaves it empty.
    ///
    /// # Safety
    /// `at` points to a structure whose contents come from `malloc`.
    unsafe fn destroy(at: *mut Self);
}
