//! What a server is told when it starts.

use std::path::PathBuf;

use nix::unistd::{getegid, geteuid};
use pmix_dstore::model::{Info, Nspace, Proc, Rank, Result, Status, Value, keys};

use crate::rendezvous::Wanted;

/// The release that peers are told: they branch on it, so it is one that they know.
pub(crate) const ANNOUNCED_VERSION: &str = "4.2.2";

/// Settings of a server, from the attributes of `PMIx_server_init` and the environment.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    /// The server's own name.
    pub me: Proc,
    /// This node's name.
    pub hostname: String,
    /// Where namespace directories are made.
    pub server_tmpdir: PathBuf,
    /// The node's temporary directory.
    pub system_tmpdir: PathBuf,
    /// Where tools are to find the server.
    pub rendezvous: Wanted,
    /// Whose process this is.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
    /// Whether tools may come of users who have no process here.
    pub foreign_tools: bool,
    /// Whether values may lie in shared memory (`PMIX_DSTORE_SHM=0` turns it off).
    pub shared_memory: bool,
}

impl Config {
    /// Reads the settings.
    ///
    /// # Errors
    /// `BAD_PARAM` where a namespace is too long or a directory is not text.
    pub fn read(infos: &[Info]) -> Result<Config> {
        let find = |key: &str| infos.iter().find(|info| info.key.is(key)).map(|info| &info.value);
        let text = |key: &str| -> Result<Option<String>> {
            match find(key).and_then(Value::as_text) {
                None => Ok(None),
                Some(text) => String::from_utf8(text.to_vec()).map(Some).map_err(|_| Status::ERR_BAD_PARAM),
            }
        };
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let hostname = match text(keys::HOSTNAME)?.or_else(|| variable("PMIX_HOSTNAME")) {
            Some(name) => name,
            None => own_hostname(),
        };
        let nspace = text(keys::SERVER_NSPACE)?
            .or_else(|| variable("PMIX_SERVER_NAMESPACE"))
            .unwrap_or_else(|| format!("pmix-server.{hostname}.{}", std::process::id()));
        let rank = match find(keys::SERVER_RANK) {
            Some(rank) => rank.as_u32().ok_or(Status::ERR_BAD_PARAM)?,
            None => variable("PMIX_SERVER_RANK").and_then(|rank| rank.parse().ok()).unwrap_or(0),
        };
        let tmp = ["TMPDIR", "TEMP", "TMP"].into_iter().find_map(variable).unwrap_or_else(|| "/tmp".into());
        let system_tmpdir =
            text(keys::SYSTEM_TMPDIR)?.or_else(|| variable("PMIX_SYSTEM_TMPDIR")).unwrap_or_else(|| tmp.clone());
        let server_tmpdir = text(keys::SERVER_TMPDIR)?.or_else(|| variable("PMIX_SERVER_TMPDIR")).unwrap_or(tmp);
        let is_true = |key: &str| find(key).map(Value::is_true);
        let rendezvous = Wanted {
            system: is_true(keys::SERVER_SYSTEM_SUPPORT).unwrap_or(false),
            session: is_true(keys::SERVER_SESSION_SUPPORT).unwrap_or(false),
            tools: is_true(keys::SERVER_TOOL_SUPPORT).unwrap_or(false),
            scheduler: is_true(keys::SERVER_SCHEDULER).unwrap_or(false),
            file: text(keys::LAUNCHER_RENDEZVOUS_FILE)?
                .or_else(|| variable("PMIX_LAUNCHER_RENDEZVOUS_FILE"))
                .map(PathBuf::from),
            report: text(keys::TCP_REPORT_URI)?,
        };
        // A relative directory must keep its meaning when the host changes its working directory.
        let server_tmpdir = std::path::absolute(server_tmpdir).map_err(|_| Status::ERR_BAD_PARAM)?;
        Ok(Config {
            me: Proc::new(Nspace::new(nspace).map_err(|_| Status::ERR_BAD_PARAM)?, Rank(rank)),
            hostname,
            server_tmpdir,
            foreign_tools: is_true(keys::SERVER_ALLOW_FOREIGN_TOOLS)
                .unwrap_or(rendezvous.system || rendezvous.scheduler),
            rendezvous,
            uid: geteuid().as_raw(),
            gid: getegid().as_raw(),
            system_tmpdir: PathBuf::from(system_tmpdir),
            shared_memory: variable("PMIX_DSTORE_SHM").as_deref() != Some("0"),
        })
    }
}

/// The node's name up to its first dot, as released servers have it.
fn own_hostname() -> String {
    let name = nix::unistd::gethostname().ok().and_then(|name| name.into_string().ok()).unwrap_or_default();
    name.split('.').next().unwrap_or_default().to_owned()
}
