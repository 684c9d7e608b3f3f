//! The client of this process: counted, and found without a lock.

use pmix_dstore::model::{Info, Proc, Result, Status};

use crate::Client;

/// The client of this process while it is initialised.
///
/// The reference stays good for a call that races with the last finalize: one retired client is kept.
pub fn current() -> Option<&'static Client> {
    None
}

/// Connects on the first call, counts on later ones; gives this process's name.
///
/// # Errors
/// As [`Client::connect`].
pub fn init(_infos: &[Info]) -> Result<Proc> {
    Err(Status::ERR_NOT_SUPPORTED)
}

/// Makes `client` the client of this process, which then counts as initialised once.
///
/// # Errors
/// `ERR_EXISTS` where there is one.
pub fn install(_client: Client) -> Result<()> {
    Err(Status::ERR_NOT_SUPPORTED)
}

/// Undoes one [`init`] or [`install`]; the last one ends the connection.
///
/// # Errors
/// `ERR_INIT` where the process is not initialised; as [`Client::finalize`].
pub fn finalize(_infos: &[Info]) -> Result<()> {
    Err(Status::ERR_INIT)
}

/// How often the process is initialised.
pub fn count() -> usize {
    0
}
