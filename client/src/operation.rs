//! A call that is run either blocking or with a callback.

use pmix_dstore::model::{Result, Status};

/// Takes the result of an [`Operation`]. Called once, on the thread where callbacks run.
pub type Done<T> = Box<dyn FnOnce(Result<T>) + Send>;

/// One call of the PMIx interface, described but not yet sent: [`Operation::wait`] is the blocking form,
/// [`Operation::start`] the `_nb` form.
#[must_use = "an operation does nothing until it is run"]
pub struct Operation<T> {
    result: std::marker::PhantomData<fn() -> T>,
}

impl<T> Operation<T> {
    pub(crate) fn refused() -> Operation<T> {
        Operation { result: std::marker::PhantomData }
    }

    /// Runs it and waits for its result.
    ///
    /// # Errors
    /// What the server answers; `ERR_TIMEOUT` where a `PMIX_TIMEOUT` passed; `ERR_LOST_CONNECTION`, `ERR_UNREACH`.
    pub fn wait(self) -> Result<T> {
        Err(Status::ERR_NOT_SUPPORTED)
    }

    /// Starts it; `done` is called with its result on the thread where callbacks run, never inside this call.
    ///
    /// # Errors
    /// Where it cannot be started; then `done` is not called.
    pub fn start(self, done: Done<T>) -> Result<()> {
        drop(done);
        Err(Status::ERR_NOT_SUPPORTED)
    }
}
