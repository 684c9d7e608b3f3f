//! The environment that a client is started with.

use std::ffi::{OsStr, OsString};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use pmix_client::env::{SERVER_VARIABLE, ServerUri, URI_VARIABLES};
use pmix_dstore::model::Proc;
use pmix_dstore::segment::FileId;

use crate::STORE_NAME;
use crate::config::{ANNOUNCED_VERSION, Config};

/// The variables that lead a client to its namespace's directory.
pub(crate) struct SharedEnv {
    pub directory: PathBuf,
    pub id: FileId,
    pub secret: String,
}

/// The server's URI for peers on this node.
pub(crate) fn uri(config: &Config, port: u16) -> String {
    uri_at(&config.me, SocketAddr::from((Ipv4Addr::LOCALHOST, port)))
}

/// The server's URI with this address.
pub(crate) fn uri_at(me: &Proc, address: SocketAddr) -> String {
    ServerUri { proc: me.clone(), address }.to_string()
}

/// The variables of `proc`; `shared` where its namespace has a directory.
///
/// Names and paths are bytes: not all of them are UTF-8.
pub(crate) fn of_client(config: &Config, proc: &Proc, port: u16, shared: Option<SharedEnv>) -> Vec<(String, OsString)> {
    let uri = OsString::from(uri(config, port));
    let nspace = OsStr::from_bytes(proc.nspace.as_bytes()).to_owned();
    let mut env = vec![("PMIX_NAMESPACE".to_owned(), nspace), ("PMIX_RANK".to_owned(), proc.rank.0.to_string().into())];
    env.extend(URI_VARIABLES.map(|(name, ..)| (name.to_owned(), uri.clone())));
    env.push((SERVER_VARIABLE.to_owned(), uri));
    let stores = if shared.is_some() { format!("{STORE_NAME},hash") } else { "hash".to_owned() };
    for (name, value) in [
        ("PMIX_SECURITY_MODE", security_modes(config).into()),
        ("PMIX_BFROP_BUFFER_TYPE", "PMIX_BFROP_BUFFER_NON_DESC".into()),
        ("PMIX_GDS_MODULE", stores.into()),
        ("PMIX_SERVER_TMPDIR", config.server_tmpdir.clone().into()),
        ("PMIX_SYSTEM_TMPDIR", config.system_tmpdir.clone().into()),
        ("PMIX_HOSTNAME", config.hostname.clone().into()),
        ("PMIX_VERSION", ANNOUNCED_VERSION.into()),
    ] {
        env.push((name.to_owned(), value));
    }
    if let Some(SharedEnv { directory, id, secret }) = shared {
        env.push(("PMIX_DSTORE_SEGMENTS".to_owned(), directory.into()));
        env.push(("PMIX_DSTORE_INODE".to_owned(), id.to_string().into()));
        env.push(("PMIX_DSTORE_SECRET".to_owned(), secret.into()));
        if let Some(limit) = config.restart {
            env.push(("PMIX_DSTORE_RESTART".to_owned(), limit.as_secs_f64().to_string().into()));
        }
    }
    env
}

/// The security modules for clients over TCP. Our own, which counts on the Unix socket alone, is not named.
fn security_modes(config: &Config) -> &'static str {
    match (config.munge_for_loopback, config.trust_claims) {
        (false, _) => "native",
        (true, false) => "munge",
        (true, true) => "munge,native",
    }
}
