//! Whether who listens at a server's address is the server.

use pmix_dstore::model::{Result, Status};

use crate::rendezvous::Contact;
use crate::socket_owner::{Owner, Refusal, SocketTable, TRUST_CLAIMS, trusts_claims};
use crate::trusted::Trusted;

/// Makes sure that the listener at an address that a file names is of somebody who is trusted, or of the file's owner: the port of
/// a server that has ended is free for everybody. To be asked once this process is connected. A URI is the choice of whoever
/// names it, and tells no owner; of another host this one's kernel knows nothing.
///
/// # Errors
/// `NO_PERMISSIONS`, with a line for whoever runs the tool in `complain`.
pub(super) fn check(contact: &Contact, trusted: &Trusted, complain: impl FnOnce(String)) -> Result<()> {
    let Some((file, owner_of_file)) = &contact.file else { return Ok(()) };
    let address = contact.uri.address;
    if !address.ip().is_loopback() {
        return Ok(());
    }
    let why = match SocketTable::open().listener_at(address) {
        Owner::User(uid) if trusted.holds(uid) || uid == *owner_of_file => return Ok(()),
        Owner::User(uid) => format!("user {uid} listens there; remove the file if its server is gone"),
        Owner::Refused(Refusal::NoNumber) => {
            format!("{}; give the server's URI instead to connect nevertheless", Refusal::NoNumber)
        }
        Owner::Refused(refusal) => refusal.to_string(),
        Owner::NoTable if trusts_claims() => return Ok(()),
        Owner::NoTable => {
            format!("the kernel does not say whose listener that is; set {TRUST_CLAIMS}=1 to connect nevertheless")
        }
    };
    complain(format!("not connected to {address}, which {} names: {why}", file.display()));
    Err(Status::ERR_NO_PERMISSIONS)
}
