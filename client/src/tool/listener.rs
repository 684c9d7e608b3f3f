//! Checks that the listener at a server's address is the server.

use pmix_dstore::model::{Result, Status};

use crate::rendezvous::{Contact, ContactFile};
use crate::socket_owner::{Owner, Refusal, SocketTable, TRUST_CLAIMS, trusts_claims};
use crate::trusted::Trusted;

/// Checks that a trusted user, or the rendezvous file's owner, owns the listener at the address in the file: after the
/// end of a server any user can take its port. Must be called after connecting. There is no check for an address that
/// the caller gave as a URI, because there is no file owner to compare, nor for an address on another host, because
/// this kernel does not know its sockets.
///
/// # Errors
/// `NO_PERMISSIONS`; then `complain` gets a line for the tool's user.
pub(super) fn check(contact: &Contact, trusted: &Trusted, complain: impl FnOnce(String)) -> Result<()> {
    let Some(ContactFile { path, owner, .. }) = &contact.file else { return Ok(()) };
    let address = contact.uri.address;
    if !address.ip().is_loopback() {
        return Ok(());
    }
    let why = match SocketTable::open().listener_at(address) {
        Owner::User(uid) if trusted.holds(uid) || uid == *owner => return Ok(()),
        Owner::User(uid) => format!("user {uid} listens there; remove the file if its server is gone"),
        Owner::Refused(Refusal::NoNumber) => {
            format!("{}; to connect without this check, give the server's URI instead", Refusal::NoNumber)
        }
        Owner::Refused(refusal) => refusal.to_string(),
        Owner::NoTable if trusts_claims() => return Ok(()),
        Owner::NoTable => {
            format!(
                "the kernel does not report the owner of the listener; set {TRUST_CLAIMS}=1 to connect without this check"
            )
        }
    };
    complain(format!("not connected to {address}, which {} names: {why}", path.display()));
    Err(Status::ERR_NO_PERMISSIONS)
}
