//! The configuration of a server: attributes of its start, and environment.

use std::path::PathBuf;
use std::time::Duration;

use nix::sys::resource::{Resource, getrlimit};
use nix::unistd::{getegid, geteuid};
use pmix_client::socket_owner;
use pmix_dstore::model::attributes::is_unknown_and_required;
use pmix_dstore::model::{Info, InfoFlags, Nspace, Proc, Rank, Result, Status, Value, keys};
use pmix_dstore::settings;

use crate::access::Access;
use crate::secret::Secret;

/// The announced release: peers branch on it, so it must be one that they know.
pub(crate) const ANNOUNCED_VERSION: &str = "4.2.2";

/// With `1` tools of root and of the server's user need a proof: for nodes on which a relay of root or of that user forwards
/// connections of other users.
pub(crate) const TOOL_PROOF_VARIABLE: &str = "PMIX_DSTORE_TOOL_PROOF";

/// How long a Get waits for a key of a rank of this node that has committed others, if nothing is set: as long as at stock servers.
pub(crate) const LATE_KEY_WAIT: Duration = Duration::from_secs(2);

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
    pub rendezvous: RendezvousOptions,
    /// The user of this process.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
    /// The process that this server has been started for, which nobody launched.
    pub singleton: Option<Proc>,
    /// Whether this server is the gateway: it does for its own host what nodes cannot do for themselves, such as logging.
    pub is_gateway: bool,
    /// Whether tools of users without a process here are admitted.
    pub foreign_tools: bool,
    /// How many descriptors this process may have when the server starts.
    pub descriptors: usize,
    /// Users and groups that may reach other users' jobs.
    pub access: Access,
    /// The TCP port to listen at; 0 for any.
    pub port: u16,
    /// The file mode of the clients' sockets; the directories around them keep other users out.
    pub socket_mode: u32,
    /// Whether to use shared memory (`PMIX_DSTORE_SHM=0` turns it off).
    pub shared_memory: bool,
    /// Whether the host asks for connections from other hosts.
    pub wants_remote: bool,
    /// Whether munge tells whose a connection over loopback is, because the kernel does not.
    pub munge_for_loopback: bool,
    /// Whether a peer's claimed user over TCP is accepted if the kernel cannot confirm it (`PMIX_DSTORE_TRUST_CLAIMS=1`).
    pub trust_claims: bool,
    /// The secret of tools that may read the server's files; `None` if the system has no random numbers.
    pub tool_secret: Option<Secret>,
    /// When fences without data use Slurm's ring, as those with data do (`PMIX_DSTORE_SLURM_FENCE`).
    pub slurm_fence: SlurmFence,
    /// How long a Get waits for a key of a rank of this node that has committed others (`PMIX_DSTORE_GET_WAIT`).
    pub late_key_wait: Duration,
    /// [`Host::stock_release`](crate::Host::stock_release).
    pub stock_release: Option<u32>,
    /// For how long clients wait for the server that is started in the place of this one, if it is killed (`PMIX_DSTORE_RESTART`). `None`:
    /// nobody starts one.
    pub restart: Option<Duration>,
    /// How many servers were before this one.
    pub life: u32,
    /// The server's name as far as its host gives it, which is the same when the host is started again.
    pub lasting_name: String,
}

/// The host's settings for rendezvous files.
#[derive(Clone, Debug, Default)]
pub(crate) struct RendezvousOptions {
    /// Tools find the server of the node.
    pub system: bool,
    /// Tools find the server of the session.
    pub session: bool,
    /// Tools find the server by its process number or its namespace.
    pub tools: bool,
    /// The server is the scheduler.
    pub scheduler: bool,
    /// Further files for the launcher of this process.
    pub files: Vec<PathBuf>,
    /// Where to report the URI: `-` standard output, `+` standard error, a descriptor's number, or a file.
    pub report: Option<String>,
    /// Tools of root and of this server's user need the proof.
    pub demands_proof: bool,
}

/// When fences without data use Slurm's ring, as those with data do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SlurmFence {
    /// If all servers of the step have agreed.
    Agreed,
    /// Always: all nodes have this library.
    Always,
    /// Never.
    Never,
}

impl Config {
    /// Reads the settings.
    ///
    /// # Errors
    /// `BAD_PARAM` if a namespace is too long or a directory is not text.
    pub fn read(infos: &[Info]) -> Result<Config> {
        let hostname = match text(infos, keys::HOSTNAME)?.or_else(|| variable("PMIX_HOSTNAME")) {
            Some(name) => name,
            None => own_hostname(),
        };
        let rendezvous = RendezvousOptions::read(infos)?;
        let (server_tmpdir, system_tmpdir) = temporary_directories(infos)?;
        Ok(Config {
            me: own_name(infos, &hostname)?,
            hostname,
            server_tmpdir,
            system_tmpdir,
            singleton: text(infos, keys::SINGLETON)?.map(|name| read_name(&name)).transpose()?,
            is_gateway: is_true(infos, keys::SERVER_GATEWAY).unwrap_or(false),
            foreign_tools: is_true(infos, keys::SERVER_ALLOW_FOREIGN_TOOLS)
                .unwrap_or(rendezvous.system || rendezvous.scheduler),
            descriptors: descriptors(),
            access: Access::read(infos),
            rendezvous,
            uid: geteuid().as_raw(),
            gid: getegid().as_raw(),
            port: match Info::find(infos, keys::TCP_IPV4_PORT) {
                None => 0,
                Some(port) => port.as_u64().and_then(|port| port.try_into().ok()).ok_or(Status::ERR_BAD_PARAM)?,
            },
            socket_mode: match Info::find(infos, keys::SOCKET_MODE) {
                None => 0o666,
                Some(mode) => mode.as_u32().ok_or(Status::ERR_BAD_PARAM)? & 0o777,
            },
            shared_memory: variable("PMIX_DSTORE_SHM").as_deref() != Some("0"),
            wants_remote: is_true(infos, keys::SERVER_REMOTE_CONNECTIONS).unwrap_or(false),
            munge_for_loopback: false,
            trust_claims: socket_owner::trusts_claims(),
            tool_secret: Secret::new().ok(),
            slurm_fence: match variable("PMIX_DSTORE_SLURM_FENCE").as_deref() {
                Some("always") => SlurmFence::Always,
                Some("never") => SlurmFence::Never,
                _ => SlurmFence::Agreed,
            },
            late_key_wait: variable("PMIX_DSTORE_GET_WAIT")
                .and_then(|value| settings::seconds(&value))
                .unwrap_or(LATE_KEY_WAIT),
            stock_release: None,
            restart: restart(infos, variable("PMIX_DSTORE_RESTART"), variable("PMIX_DSTORE_SECRET").is_some())?,
            life: 0,
            lasting_name: lasting_name(infos)?,
        })
    }

    /// Whether the host gets an upcall when a tool finalizes.
    pub fn reports_finalized_tools(&self) -> bool {
        self.stock_release.is_some_and(|release| release >= 7)
    }
}

impl RendezvousOptions {
    /// Whether the host wants tools: it has asked for a way by which they find the server.
    pub fn wants_tools(&self) -> bool {
        self.system || self.session || self.tools || self.scheduler || self.report.is_some() || !self.files.is_empty()
    }

    fn read(infos: &[Info]) -> Result<RendezvousOptions> {
        let is_set = |key| is_true(infos, key).unwrap_or(false);
        Ok(RendezvousOptions {
            system: is_set(keys::SERVER_SYSTEM_SUPPORT),
            session: is_set(keys::SERVER_SESSION_SUPPORT),
            tools: is_set(keys::SERVER_TOOL_SUPPORT),
            scheduler: is_set(keys::SERVER_SCHEDULER),
            files: rendezvous_files(text(infos, keys::LAUNCHER_RENDEZVOUS_FILE)?, variable),
            report: text(infos, keys::TCP_REPORT_URI)?,
            demands_proof: variable(TOOL_PROOF_VARIABLE).as_deref() == Some("1"),
        })
    }
}

/// The text of an attribute, if the host gives it.
fn text(infos: &[Info], key: &str) -> Result<Option<String>> {
    match Info::find(infos, key).and_then(Value::as_text) {
        None => Ok(None),
        Some(text) => String::from_utf8(text.to_vec()).map(Some).map_err(|_| Status::ERR_BAD_PARAM),
    }
}

/// For how long clients wait for a restarted server: as the administrator says, or else the host; `None` for no time.
///
/// # Errors
/// `BAD_PARAM` if the host's attribute is no number, or more than a year.
fn restart(infos: &[Info], set: Option<String>, is_rank: bool) -> Result<Option<Duration>> {
    // In a rank's environment our server has set it, for the rank as a client. A server that the rank starts must not take it as the
    // administrator's word.
    let set = set.filter(|_| !is_rank);
    let given = match Info::find(infos, keys::DSTORE_RESTART) {
        None => None,
        Some(value) => {
            let seconds = value.as_u32().and_then(|seconds| settings::seconds(&seconds.to_string()));
            Some(seconds.ok_or(Status::ERR_BAD_PARAM)?)
        }
    };
    let limit = set.and_then(|value| settings::seconds(&value)).or(given);
    Ok(limit.filter(|limit| !limit.is_zero()))
}

/// Whether an attribute is true, if the host gives it.
fn is_true(infos: &[Info], key: &str) -> Option<bool> {
    Info::find(infos, key).map(Value::is_true)
}

/// An environment variable that is set and not empty.
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// The server's namespace and rank as the host gives them.
fn given_name(infos: &[Info]) -> Result<(Option<String>, u32)> {
    let nspace = text(infos, keys::SERVER_NSPACE)?.or_else(|| variable("PMIX_SERVER_NAMESPACE"));
    let rank = match Info::find(infos, keys::SERVER_RANK) {
        Some(rank) => rank.as_u32().ok_or(Status::ERR_BAD_PARAM)?,
        None => variable("PMIX_SERVER_RANK").and_then(|rank| rank.parse().ok()).unwrap_or(0),
    };
    Ok((nspace, rank))
}

/// [`Config::lasting_name`].
fn lasting_name(infos: &[Info]) -> Result<String> {
    let (nspace, rank) = given_name(infos)?;
    Ok(format!("{}.{rank}", nspace.unwrap_or_default()))
}

/// The server's own namespace and rank.
fn own_name(infos: &[Info], hostname: &str) -> Result<Proc> {
    let (nspace, rank) = given_name(infos)?;
    let nspace = nspace.unwrap_or_else(|| format!("pmix-server.{hostname}.{}", std::process::id()));
    Ok(Proc::new(Nspace::new(nspace).map_err(|_| Status::ERR_BAD_PARAM)?, Rank(rank)))
}

/// The temporary directories of the server and of the node.
fn temporary_directories(infos: &[Info]) -> Result<(PathBuf, PathBuf)> {
    let tmp = || ["TMPDIR", "TEMP", "TMP"].into_iter().find_map(variable).unwrap_or_else(|| "/tmp".into());
    let of_system = text(infos, keys::SYSTEM_TMPDIR)?.or_else(|| variable("PMIX_SYSTEM_TMPDIR")).unwrap_or_else(tmp);
    let of_server = text(infos, keys::SERVER_TMPDIR)?.or_else(|| variable("PMIX_SERVER_TMPDIR")).unwrap_or_else(tmp);
    // A relative directory must keep its meaning when the host changes its working directory.
    let of_server = std::path::absolute(of_server).map_err(|_| Status::ERR_BAD_PARAM)?;
    Ok((of_server, PathBuf::from(of_system)))
}

/// A process as `NAMESPACE.RANK`; the namespace may hold dots.
fn read_name(name: &str) -> Result<Proc> {
    let (nspace, rank) = name.rsplit_once('.').ok_or(Status::ERR_BAD_PARAM)?;
    let rank = Rank(rank.parse().map_err(|_| Status::ERR_BAD_PARAM)?);
    let proc = Proc::new(Nspace::new(nspace).map_err(|_| Status::ERR_BAD_PARAM)?, rank);
    if proc.rank.is_process() && !proc.nspace.is_empty() { Ok(proc) } else { Err(Status::ERR_BAD_PARAM) }
}

/// The soft limit of descriptors, or the usual default if the system does not report one.
fn descriptors() -> usize {
    let soft = getrlimit(Resource::RLIMIT_NOFILE).map_or(1024, |(soft, _)| soft);
    usize::try_from(soft).unwrap_or(usize::MAX)
}

/// The rendezvous files that the starter of this process expects: one that the host or the environment names, and one
/// beside it.
fn rendezvous_files(named: Option<String>, variable: impl Fn(&str) -> Option<String>) -> Vec<PathBuf> {
    let named = named.or_else(|| variable("PMIX_LAUNCHER_RENDEZVOUS_FILE"));
    let mut files: Vec<PathBuf> =
        named.into_iter().chain(variable("PMIX_LAUNCHER_RNDZ_FILE")).map(PathBuf::from).collect();
    files.dedup();
    files
}

const LOOPBACK: &str = "the server listens on the loopback interface only";
const IPV4: &str = "the server listens on IPv4 only";
const THREAD: &str = "the server has a thread of its own";

/// The attribute, whether its value requests the feature, and the reason for the refusal.
type Refusal = (&'static str, fn(&Value) -> bool, &'static str);

/// Attributes of a host that are refused.
const REFUSED: [Refusal; 6] = [
    (keys::TCP_IF_INCLUDE, |value| !names_loopback(value), LOOPBACK),
    (keys::TCP_IF_EXCLUDE, names_loopback, LOOPBACK),
    (keys::TCP_IPV6_PORT, |_| true, IPV4),
    (keys::TCP_DISABLE_IPV4, Value::is_true, IPV4),
    (keys::EXTERNAL_PROGRESS, Value::is_true, THREAD),
    (keys::EVENT_BASE, |_| true, THREAD),
];

/// The refused attributes, as lines for the log; and whether the host marked one as required.
pub(crate) fn refused(infos: &[Info]) -> (Vec<String>, bool) {
    let (mut lines, mut is_needed) = (Vec::new(), false);
    for info in infos {
        if is_unknown_and_required(info.key.as_bytes(), info.flags) {
            lines.push(format!("{} is refused: it is required, and no attribute that is known here", info.key));
            is_needed = true;
        }
        let Some((key, _, why)) = REFUSED.iter().find(|(key, asks, _)| info.key.is(key) && asks(&info.value)) else {
            continue;
        };
        lines.push(format!("{key} is refused: {why}"));
        is_needed |= info.flags & InfoFlags::REQUIRED != 0;
    }
    (lines, is_needed)
}

/// Whether the host requires connections from other hosts. Every server of PRRTE's asks for them, and requires nothing.
pub(crate) fn requires_remote(infos: &[Info]) -> bool {
    let required = |info: &&Info| info.key.is(keys::SERVER_REMOTE_CONNECTIONS) && info.flags & InfoFlags::REQUIRED != 0;
    infos.iter().find(required).is_some_and(|info| info.value.is_true())
}

/// Whether the loopback interface is in a list of interfaces and networks.
fn names_loopback(value: &Value) -> bool {
    let list = value.as_text().unwrap_or_default();
    list.split(|byte| *byte == b',').any(|name| name == b"lo" || name.starts_with(b"127."))
}

/// The node's name up to its first dot, as released servers have it.
fn own_hostname() -> String {
    let name = nix::unistd::gethostname().ok().and_then(|name| name.into_string().ok()).unwrap_or_default();
    name.split('.').next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsupported_attributes_are_refused() {
        let asked = [
            (keys::TCP_IF_INCLUDE, Value::string("eth0,10.0.0.0/8")),
            (keys::TCP_IF_EXCLUDE, Value::string("eth0,lo")),
            (keys::TCP_IPV6_PORT, Value::Int(4711)),
            (keys::TCP_DISABLE_IPV4, Value::Bool(true)),
            (keys::EXTERNAL_PROGRESS, Value::Bool(true)),
            (keys::EVENT_BASE, Value::Undef),
        ];
        for (key, value) in asked {
            let mut info = Info::new(key, value);
            let (lines, is_needed) = refused(std::slice::from_ref(&info));
            assert_eq!((lines.len(), is_needed), (1, false), "{key}");
            info.flags = InfoFlags::REQUIRED;
            let (lines, is_needed) = refused(&[info]);
            assert!(is_needed && lines.len() == 1 && lines[0].starts_with(key), "{key}: {lines:?}");
        }
    }

    #[test]
    fn a_launcher_is_found_by_each_file_that_is_asked_for() {
        let files = |named: Option<&str>, variables: &[(&str, &str)]| {
            let find =
                |name: &str| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
            rendezvous_files(named.map(str::to_owned), find)
        };
        let (old, new) = (("PMIX_LAUNCHER_RENDEZVOUS_FILE", "/a"), ("PMIX_LAUNCHER_RNDZ_FILE", "/b"));
        assert_eq!(files(None, &[]), Vec::<PathBuf>::new());
        assert_eq!(files(None, &[new]), [PathBuf::from("/b")]);
        assert_eq!(files(None, &[new, old]), [PathBuf::from("/a"), PathBuf::from("/b")]);
        assert_eq!(files(Some("/b"), &[new, old]), [PathBuf::from("/b")]);
    }

    #[test]
    fn the_administrator_says_how_long_clients_wait_for_a_restarted_server_or_the_host() {
        let host = |value| [Info::new(keys::DSTORE_RESTART, value)];
        let (ten, half) = (Some(Duration::from_secs(10)), Some(Duration::from_millis(500)));
        let text = |text: &str| Some(text.to_owned());
        assert_eq!(restart(&[], None, false), Ok(None));
        assert_eq!(restart(&host(Value::Uint32(10)), None, false), Ok(ten));
        assert_eq!(restart(&host(Value::Uint32(10)), text("0.5"), false), Ok(half));
        assert_eq!(restart(&host(Value::Uint32(10)), text("0"), false), Ok(None));
        assert_eq!(restart(&host(Value::Uint32(10)), text("soon"), false), Ok(ten), "which is complained of");
        assert_eq!(restart(&[], text("0.5"), true), Ok(None), "a rank's own server");
        assert_eq!(restart(&host(Value::Uint32(0)), None, false), Ok(None));
        assert_eq!(restart(&host(Value::string("ten")), None, false), Err(Status::ERR_BAD_PARAM));
        assert_eq!(restart(&host(Value::Uint64(u64::MAX)), None, false), Err(Status::ERR_BAD_PARAM));
        assert_eq!(restart(&host(Value::Uint32(u32::MAX)), None, false), Err(Status::ERR_BAD_PARAM));
    }

    #[test]
    fn unknown_attributes_are_refused_if_required() {
        let mut info = Info::new("pmix.nobody", Value::Bool(true));
        assert_eq!(refused(std::slice::from_ref(&info)), (Vec::new(), false));
        info.flags = InfoFlags::REQUIRED;
        let (lines, is_needed) = refused(&[info]);
        assert!(is_needed && lines.len() == 1 && lines[0].starts_with("pmix.nobody"), "{lines:?}");
    }

    #[test]
    fn a_singleton_is_named_by_namespace_and_rank() {
        let read = |name| Config::read(&[Info::new(keys::SINGLETON, Value::string(name))]);
        let proc = read("singleton.n1.4711.0").unwrap().singleton.unwrap();
        assert_eq!((proc.nspace.as_bytes(), proc.rank), (&b"singleton.n1.4711"[..], Rank(0)));
        assert!(["alone", ".0", "alone.", "alone.x", "alone.4294967294"].iter().all(|name| read(name).is_err()));
        assert_eq!(Config::read(&[]).unwrap().singleton, None);
    }

    #[test]
    fn the_mode_of_sockets_is_read() {
        let mode = |infos: &[Info]| Config::read(infos).map(|config| config.socket_mode);
        assert_eq!(mode(&[]), Ok(0o666));
        assert_eq!(mode(&[Info::new(keys::SOCKET_MODE, Value::Uint32(0o100_600))]), Ok(0o600));
        assert_eq!(mode(&[Info::new(keys::SOCKET_MODE, Value::string("rw"))]), Err(Status::ERR_BAD_PARAM));
    }

    #[test]
    fn attributes_that_change_nothing_are_accepted() {
        let asked = [
            (keys::TCP_IF_INCLUDE, Value::string("127.0.0.0/8")),
            (keys::TCP_IF_EXCLUDE, Value::string("eth0")),
            (keys::SERVER_REMOTE_CONNECTIONS, Value::Bool(true)),
            (keys::TCP_DISABLE_IPV6, Value::Bool(true)),
            (keys::USOCK_DISABLE, Value::Bool(true)),
            (keys::SINGLE_LISTENER, Value::Bool(true)),
            (keys::HOMOGENEOUS_SYSTEM, Value::Bool(true)),
            (keys::SERVER_GATEWAY, Value::Bool(true)),
            (keys::SERVER_ENABLE_MONITORING, Value::Bool(true)),
        ];
        for (key, value) in asked {
            let mut info = Info::new(key, value);
            info.flags = InfoFlags::REQUIRED;
            assert_eq!(refused(&[info]), (Vec::new(), false), "{key}");
        }
    }
}
