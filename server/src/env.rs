//! The environment that a client is started with.

use std::path::PathBuf;

use pmix_dstore::model::Proc;
use pmix_dstore::segment::FileId;

use crate::STORE_NAME;
use crate::config::{ANNOUNCED_VERSION, Config};

/// Where peers of each release look for the server's address: the encoders that we speak, without those that would
/// promise more than the announced release has.
pub(crate) const URI_VARIABLES: [&str; 5] =
    ["PMIX_SERVER_URI41", "PMIX_SERVER_URI4", "PMIX_SERVER_URI3", "PMIX_SERVER_URI21", "PMIX_SERVER_URI2"];

/// What leads a client into its namespace's directory.
pub(crate) struct SharedEnv {
    pub directory: PathBuf,
    pub id: FileId,
    pub secret: String,
}

/// Where the server listens, as peers are told.
pub(crate) fn uri(config: &Config, port: u16) -> String {
    format!("{}.{};tcp4://127.0.0.1:{port}", config.me.nspace, config.me.rank)
}

/// The variables of `proc`; `shared` where its namespace has a directory.
pub(crate) fn of_client(config: &Config, proc: &Proc, port: u16, shared: Option<SharedEnv>) -> Vec<(String, String)> {
    let uri = uri(config, port);
    let mut env =
        vec![("PMIX_NAMESPACE".to_owned(), proc.nspace.to_string()), ("PMIX_RANK".to_owned(), proc.rank.0.to_string())];
    env.extend(URI_VARIABLES.map(|name| (name.to_owned(), uri.clone())));
    let stores = if shared.is_some() { format!("{STORE_NAME},hash") } else { "hash".to_owned() };
    for (name, value) in [
        // Released clients know `native` and pass over our own name, which only counts on the Unix socket.
        ("PMIX_SECURITY_MODE", "native".to_owned()),
        ("PMIX_BFROP_BUFFER_TYPE", "PMIX_BFROP_BUFFER_NON_DESC".to_owned()),
        ("PMIX_GDS_MODULE", stores),
        ("PMIX_SERVER_TMPDIR", config.server_tmpdir.to_string_lossy().into_owned()),
        ("PMIX_SYSTEM_TMPDIR", config.system_tmpdir.to_string_lossy().into_owned()),
        ("PMIX_HOSTNAME", config.hostname.clone()),
        ("PMIX_VERSION", ANNOUNCED_VERSION.to_owned()),
    ] {
        env.push((name.to_owned(), value));
    }
    if let Some(SharedEnv { directory, id, secret }) = shared {
        env.push(("PMIX_DSTORE_SEGMENTS".to_owned(), directory.to_string_lossy().into_owned()));
        env.push(("PMIX_DSTORE_INODE".to_owned(), id.to_string()));
        env.push(("PMIX_DSTORE_SECRET".to_owned(), secret));
    }
    env
}
