//! Credentials of `PMIx_Get_credential`: those of munge, for the launcher's user, who is that of its ranks.

use std::ffi::CStr;
use std::time::Duration;

use nix::unistd::geteuid;
use pmix_dstore::model::{Info, Status, Value, keys};
use pmix_munge::{Decoded, Fault};
use pmix_server::Credential;

/// The type of these credentials, by which callers ask for them.
const TYPE: &[u8] = b"munge";
/// What the launcher adds to a credential. Servers take only those with other contents for the handshake of a tool, so whoever is shown this one
/// cannot connect with it.
const PURPOSE: &[u8] = b"PMIx_Get_credential";
/// How long munge may take.
const PATIENCE: Duration = Duration::from_secs(15);

/// The status for the caller, and the reason for the launcher's user.
pub(super) type Refusal = (Status, String);

/// A credential of the launcher's user. Waits for munge.
///
/// # Errors
/// `ERR_NO_PERMISSIONS` for another user, `ERR_NOT_SUPPORTED` where other types are asked for or there is no munge; and those of munge.
pub(super) fn get(infos: &[Info]) -> Result<Credential, Refusal> {
    check(infos)?;
    // The server names no user for a request without infos.
    let user = Info::find(infos, keys::USERID).and_then(Value::as_u32);
    let own = geteuid().as_raw();
    if let Some(user) = user.filter(|user| *user != own) {
        let why = format!("it is user {user}, and pmixrun has credentials of its own user, {own}, alone");
        return Err((Status::ERR_NO_PERMISSIONS, why));
    }
    let bytes = pmix_munge::encode(PURPOSE, PATIENCE).map_err(|fault| of_munge(&fault))?;
    Ok((bytes, vec![Info::new(keys::CRED_TYPE, Value::string(TYPE))]))
}

/// Whose a credential is. Waits for munge: call it where all signals are blocked.
///
/// # Errors
/// `ERR_INVALID_CRED` for one that munge refuses, or that was made for something else; and as [`get`].
pub(super) fn validate(credential: &[u8], infos: &[Info]) -> Result<Vec<Info>, Refusal> {
    check(infos)?;
    said(pmix_munge::decode(credential).map_err(|fault| of_munge(&fault))?)
}

fn said(Decoded { uid, gid, payload }: Decoded) -> Result<Vec<Info>, Refusal> {
    // A tool shows its credential to the server that it is for, and to no other: who else has it may not pass for the tool's user.
    if !payload.is_empty() && payload != PURPOSE {
        return Err((Status::ERR_INVALID_CRED, "it was made for something else than PMIx_Get_credential".to_owned()));
    }
    let (user, group) = (Value::Uint32(uid), Value::Uint32(gid));
    let kind = Info::new(keys::CRED_TYPE, Value::string(TYPE));
    Ok(vec![Info::new(keys::USERID, user), Info::new(keys::GRPID, group), kind])
}

/// Refuses a request for other types than munge's.
fn check(infos: &[Info]) -> Result<(), Refusal> {
    let Some(asked) = Info::find(infos, keys::CRED_TYPE) else { return Ok(()) };
    let asked =
        asked.as_c_str().map(CStr::to_bytes).ok_or((Status::ERR_BAD_PARAM, "PMIX_CRED_TYPE is a text".to_owned()))?;
    if asked.split(|byte| *byte == b',').any(|kind| kind.trim_ascii() == TYPE) {
        return Ok(());
    }
    Err((Status::ERR_NOT_SUPPORTED, "pmixrun has credentials of type munge alone".to_owned()))
}

fn of_munge(fault: &Fault) -> Refusal {
    let status = match fault {
        Fault::NoLibrary | Fault::NoDaemon(_) => Status::ERR_NOT_SUPPORTED,
        Fault::NoCredential | Fault::Refused(_) => Status::ERR_INVALID_CRED,
        Fault::Silent => Status::ERR_TIMEOUT,
        Fault::NoRoom => Status::ERR_OUT_OF_RESOURCE,
    };
    (status, fault.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(payload: &[u8]) -> Result<Vec<Info>, Status> {
        said(Decoded { uid: 7, gid: 8, payload: payload.to_vec() }).map_err(|(status, _)| status)
    }

    #[test]
    fn a_credential_tells_its_user_unless_it_is_for_something_else() {
        for payload in [&b""[..], PURPOSE] {
            let infos = decoded(payload).unwrap();
            let number = |key| Info::find(&infos, key).and_then(Value::as_u32);
            assert_eq!((number(keys::USERID), number(keys::GRPID)), (Some(7), Some(8)));
        }
        assert_eq!(decoded(b"run-n1-7.0;tcp4://127.0.0.1:1"), Err(Status::ERR_INVALID_CRED));
    }

    #[test]
    fn one_of_the_types_is_munge() {
        let ask =
            |types: &str| check(&[Info::new(keys::CRED_TYPE, Value::string(types))]).map_err(|(status, _)| status);
        assert_eq!(check(&[]), Ok(()));
        assert_eq!(["munge", "sss, munge"].map(ask), [Ok(()), Ok(())]);
        assert_eq!(["", "munged", "sss"].map(ask), [Err(Status::ERR_NOT_SUPPORTED); 3]);
        let number = Info::new(keys::CRED_TYPE, Value::Int(1));
        assert_eq!(check(&[number]).map_err(|(status, _)| status), Err(Status::ERR_BAD_PARAM));
    }

    #[test]
    fn another_user_gets_none() {
        let user = |user| get(&[Info::new(keys::USERID, Value::Uint32(user))]).map_err(|(status, _)| status);
        assert_eq!(user(geteuid().as_raw() + 1), Err(Status::ERR_NO_PERMISSIONS));
        assert_ne!(user(geteuid().as_raw()), Err(Status::ERR_NO_PERMISSIONS));
    }

    #[test]
    fn bytes_that_are_no_credential_are_invalid() {
        assert_eq!(validate(b"native", &[]).map_err(|(status, _)| status), Err(Status::ERR_INVALID_CRED));
    }
}
