//! The environment variables of a launched process.

use std::ffi::OsString;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::time::Duration;

use pmix_dstore::codec::{BufferType, Module};
use pmix_dstore::environment;
use pmix_dstore::log::{self, Level, Target, Writer};
use pmix_dstore::model::{Nspace, Proc, Rank, Result, Status};
use pmix_dstore::segment::FileId;
use pmix_dstore::settings;

use crate::recorder::RecorderSettings;

/// The variables with the server's address, in the order in which clients try them. Each implies an encoder, and a server release for
/// when `PMIX_VERSION` is missing. There is one for each supported encoder, without those that would promise more than the announced
/// release has.
pub const URI_VARIABLES: [(&str, Module, &str); 5] = [
    ("PMIX_SERVER_URI41", Module::V41, "4.1.0"),
    ("PMIX_SERVER_URI4", Module::V4, "4.0.0"),
    ("PMIX_SERVER_URI3", Module::V3, "3.0.0"),
    ("PMIX_SERVER_URI21", Module::V21, "2.1.0"),
    ("PMIX_SERVER_URI2", Module::V20, "2.0.0"),
];

/// The address again, under a name that no other library sets: where another library's server has handed on this variable of a job
/// around it, the address is another one than in [`URI_VARIABLES`].
pub const SERVER_VARIABLE: &str = "PMIX_DSTORE_SERVER";

/// A server's process name and address.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerUri {
    /// The server.
    pub proc: Proc,
    /// Its address.
    pub address: SocketAddr,
}

impl fmt::Display for ServerUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let family = if self.address.is_ipv4() { "tcp4" } else { "tcp6" };
        write!(f, "{}.{};{family}://{}", self.proc.nspace, self.proc.rank, self.address)
    }
}

/// The environment variables of a launched process.
///
/// ```
/// use pmix_client::Environment;
/// use pmix_dstore::model::{Rank, Status};
///
/// let env = Environment::from_lookup(|name| match name {
///     "PMIX_NAMESPACE" => Some("job".into()),
///     "PMIX_RANK" => Some("3".into()),
///     "PMIX_SERVER_URI41" => Some("server.0;tcp4://127.0.0.1:4711".into()),
///     _ => None,
/// })?;
/// assert_eq!(env.proc().rank, Rank(3));
/// assert_eq!(env.server.map(|server| server.address.port()), Some(4711));
///
/// // A process that nobody launched is a job of its own.
/// assert!(Environment::from_lookup(|_| None)?.nspace.is_none());
/// # Ok::<(), Status>(())
/// ```
#[derive(Clone, Debug)]
pub struct Environment {
    /// `PMIX_NAMESPACE`. Without it the process is a singleton.
    pub nspace: Option<Nspace>,
    /// `PMIX_RANK`.
    pub rank: Option<Rank>,
    /// The server, by the first of the URI variables that is set.
    pub server: Option<ServerUri>,
    /// Whether that server uses this library: [`SERVER_VARIABLE`] has its address.
    pub server_is_ours: bool,
    /// The encoder that the URI variable implies.
    pub module: Module,
    /// `PMIX_BFROP_BUFFER_TYPE`.
    pub buffer: BufferType,
    /// The release of the server: `PMIX_VERSION`, or what the URI variable implies.
    pub server_version: String,
    /// `PMIX_SECURITY_MODE`: the security modules that the server accepts, in its order of preference.
    pub security: Option<Vec<String>>,
    /// `PMIX_HOSTNAME`, or the name of this machine up to its first dot.
    pub hostname: Vec<u8>,
    /// `PMIX_SERVER_TMPDIR`.
    pub server_tmpdir: Option<PathBuf>,
    /// `PMIX_SYSTEM_TMPDIR`, or the directory for temporary files.
    pub system_tmpdir: PathBuf,
    /// `PMIX_DSTORE_SEGMENTS`, set by our own server: the namespace's directory with segments and socket.
    pub directory: Option<PathBuf>,
    /// `PMIX_DSTORE_INODE`, set by our own server: device and inode of that directory. A client compares them, because
    /// the path may name another directory by now.
    pub directory_id: Option<FileId>,
    /// `PMIX_DSTORE_SECRET`, set by our own server: 64 hex digits.
    pub secret: Option<String>,
    /// `PMIX_DSTORE_RESTART`, set by our own server: for how long a process connects again to a server that was killed. `None` where nobody
    /// restarts it.
    pub restart: Option<Duration>,
    /// `PMIX_LAUNCHER_RNDZ_URI`: the address of the debugger that started this process as a launcher.
    pub launcher_rendezvous: Option<String>,
    /// Whether segments may be mapped: `PMIX_DSTORE_SHM` is not `0`.
    pub shared_memory: bool,
    /// Whether the steps of the process are recorded: `PMIX_DSTORE_RECORD=1`, `PMIX_DSTORE_DUMP_SIGNAL`.
    pub recorder: RecorderSettings,
    /// Whether the Gets of the process are counted: `PMIX_DSTORE_STATS=1`.
    pub counts_gets: bool,
}

impl Environment {
    /// The environment of this process.
    ///
    /// # Errors
    /// As [`Environment::from_lookup`].
    pub fn from_process() -> Result<Environment> {
        // Two dozen searches through all variables would be a part of a rank's start that shows.
        let (mut text, mut ends) = (Vec::with_capacity(2048), Vec::with_capacity(32));
        let mut may_be_watched = false;
        environment::has(|variable| {
            text.extend_from_slice(variable);
            ends.push(text.len());
            may_be_watched |= variable.strip_prefix(b"PMIX_DSTORE_").is_some_and(|name| {
                // Lengths that the compiler knows: a comparison is no call.
                name.starts_with(b"RECORD=")
                    || name.starts_with(b"DUMP_SIGNAL=")
                    || name.starts_with(b"STATS=")
                    || name.starts_with(b"RESTART=")
            });
            false
        });
        let lookup = |name: &str| {
            if !name.starts_with(environment::PREFIX) {
                return std::env::var_os(name);
            }
            let mut start = 0;
            ends.iter().find_map(|end| {
                let variable = std::mem::replace(&mut start, *end)..*end;
                // Names of nearly all variables have another length.
                if text.get(variable.start + name.len()) != Some(&b'=') {
                    return None;
                }
                let value = text[variable].strip_prefix(name.as_bytes())?.strip_prefix(b"=")?;
                Some(OsString::from_vec(value.to_vec()))
            })
        };
        let env = Environment::unwatched(lookup).inspect_err(|_| {
            let wrong = wrong_variable(lookup);
            log::write(
                Level::Error,
                Target::Connection,
                Writer::Library,
                format_args!("{wrong}; a launcher sets it: start the program with one, or unset all PMIX_ variables"),
            );
        })?;
        Ok(if may_be_watched { env.watched(|name| std::env::var_os(name)) } else { env })
    }

    /// An environment in which `lookup` finds a variable by its name.
    ///
    /// # Errors
    /// `ERR_BAD_PARAM` for an invalid namespace, rank or URI; `ERR_DATA_VALUE_NOT_FOUND` for a namespace without a
    /// rank.
    pub fn from_lookup(lookup: impl Fn(&str) -> Option<OsString>) -> Result<Environment> {
        Ok(Environment::unwatched(&lookup)?.watched(lookup))
    }

    /// This environment with what the variables of recorder, counts and restart say. Hardly any process has them, so that their names are not
    /// searched for in each start.
    #[cold]
    fn watched(self, lookup: impl Fn(&str) -> Option<OsString>) -> Environment {
        let is_set = |name| lookup(name).is_some_and(|value| value == "1");
        let counts_gets = is_set("PMIX_DSTORE_STATS");
        let restart = lookup("PMIX_DSTORE_RESTART").and_then(|value| settings::seconds(value.to_str()?));
        let restart = restart.filter(|limit| !limit.is_zero());
        if environment::is_privileged() {
            return Environment { counts_gets, restart, ..self };
        }
        let dump_signal = lookup("PMIX_DSTORE_DUMP_SIGNAL").map(|value| value.to_string_lossy().into_owned());
        let recorder = RecorderSettings { file: is_set("PMIX_DSTORE_RECORD"), dump_signal };
        Environment { counts_gets, restart, recorder, ..self }
    }

    fn unwatched(lookup: impl Fn(&str) -> Option<OsString>) -> Result<Environment> {
        let text = |name: &str| lookup(name).and_then(|value| value.into_string().ok());
        let nspace = match lookup("PMIX_NAMESPACE") {
            Some(name) => Some(Nspace::new(name.as_bytes()).map_err(|_| Status::ERR_BAD_PARAM)?),
            None => None,
        };
        let rank = match lookup("PMIX_RANK") {
            Some(rank) => Some(parse_rank(rank.as_bytes()).ok_or(Status::ERR_BAD_PARAM)?),
            None => None,
        };
        if nspace.is_some() && rank.is_none() {
            return Err(Status::ERR_DATA_VALUE_NOT_FOUND);
        }
        let variable = URI_VARIABLES.iter().find_map(|variable| Some((lookup(variable.0)?, variable)));
        let server_is_ours = variable.as_ref().is_some_and(|(uri, _)| lookup(SERVER_VARIABLE).as_ref() == Some(uri));
        let (server, module, implied) = match variable {
            Some((uri, (_, module, implied))) => {
                (Some(parse_uri(uri.as_bytes()).ok_or(Status::ERR_BAD_PARAM)?), *module, *implied)
            }
            None => (None, Module::V41, "4.1.0"),
        };
        let described = text("PMIX_BFROP_BUFFER_TYPE").is_some_and(|kind| kind == "PMIX_BFROP_BUFFER_FULLY_DESC");
        let tmpdir = ["TMPDIR", "TEMP", "TMP"].iter().find_map(|name| lookup(name));
        let tmpdir = PathBuf::from(tmpdir.unwrap_or_else(|| "/tmp".into()));
        Ok(Environment {
            nspace,
            rank,
            server,
            server_is_ours,
            module,
            buffer: if described { BufferType::Described } else { BufferType::NonDescribed },
            server_version: text("PMIX_VERSION").unwrap_or_else(|| implied.into()),
            security: text("PMIX_SECURITY_MODE").map(|list| list.split(',').map(str::to_string).collect()),
            hostname: lookup("PMIX_HOSTNAME").map_or_else(own_hostname, OsString::into_vec),
            server_tmpdir: lookup("PMIX_SERVER_TMPDIR").map(PathBuf::from),
            system_tmpdir: lookup("PMIX_SYSTEM_TMPDIR").map_or(tmpdir, PathBuf::from),
            directory: lookup("PMIX_DSTORE_SEGMENTS").map(PathBuf::from),
            directory_id: text("PMIX_DSTORE_INODE").and_then(|id| id.parse().ok()),
            secret: text("PMIX_DSTORE_SECRET"),
            restart: None,
            launcher_rendezvous: text("PMIX_LAUNCHER_RNDZ_URI"),
            shared_memory: text("PMIX_DSTORE_SHM").is_none_or(|value| value != "0"),
            recorder: RecorderSettings::default(),
            counts_gets: false,
        })
    }

    /// This environment with the server that a report of its address names: `PMIX_TCP_REPORT_URI` of its host. Reports to a descriptor
    /// begin with the names of URI variables, which imply an encoder as these variables do.
    ///
    /// # Errors
    /// `ERR_BAD_PARAM` for a report without a URI.
    pub fn with_reported_server(self, report: &[u8]) -> Result<Environment> {
        let (names, uri) = match report.iter().position(|byte| *byte == b';') {
            Some(end) if report.starts_with(b"PMIX_SERVER_URI") => (&report[..end], &report[end + 1..]),
            _ => (&b""[..], report),
        };
        let is_named = |variable: &str| names.split(|byte| *byte == b':').any(|name| name == variable.as_bytes());
        let variable = URI_VARIABLES.iter().find(|(name, ..)| is_named(name)).unwrap_or(&URI_VARIABLES[0]);
        let server = parse_uri(uri).ok_or(Status::ERR_BAD_PARAM)?;
        let (module, server_version) = (variable.1, variable.2.into());
        Ok(Environment { server: Some(server), server_is_ours: false, module, server_version, ..self })
    }

    /// The process that this environment names.
    ///
    /// Without a namespace it is a singleton: a job of its own, named after the machine and the process.
    pub fn proc(&self) -> Proc {
        match (&self.nspace, self.rank) {
            (Some(nspace), Some(rank)) => Proc::new(nspace.clone(), rank),
            _ => {
                let mut name = b"singleton.".to_vec();
                name.extend_from_slice(&self.hostname[..self.hostname.len().min(200)]);
                name.extend_from_slice(format!(".{}", std::process::id()).as_bytes());
                name.retain(|byte| *byte != 0);
                Proc::new(Nspace::new(name).expect("shorter than the limit, and without a NUL"), Rank(0))
            }
        }
    }
}

/// The variable for which there is no environment, in words.
fn wrong_variable(lookup: impl Fn(&str) -> Option<OsString>) -> String {
    let is_wrong = |name: &str, is_good: &dyn Fn(&[u8]) -> bool| {
        let value = lookup(name).filter(|value| !is_good(value.as_bytes()))?;
        Some(format!("{name} is {}", value.to_string_lossy()))
    };
    is_wrong("PMIX_NAMESPACE", &|name| Nspace::new(name).is_ok())
        .map(|wrong| wrong + ", which is no namespace")
        .or_else(|| is_wrong("PMIX_RANK", &|rank| parse_rank(rank).is_some()).map(|wrong| wrong + ", which is no rank"))
        .or_else(|| {
            let address = URI_VARIABLES.iter().find(|(name, ..)| lookup(name).is_some())?;
            is_wrong(address.0, &|uri| parse_uri(uri).is_some())
                .map(|wrong| wrong + ", which is no address of a server")
        })
        .unwrap_or_else(|| "PMIX_NAMESPACE is set, and PMIX_RANK is not".to_owned())
}

/// A rank as decimal digits.
fn parse_rank(text: &[u8]) -> Option<Rank> {
    std::str::from_utf8(text).ok()?.trim().parse().ok().map(Rank)
}

/// Reads `<nspace>.<rank>;tcp4://<host>:<port>` or the same with `tcp6`. A namespace may hold dots.
pub(crate) fn parse_uri(uri: &[u8]) -> Option<ServerUri> {
    let semicolon = uri.iter().position(|byte| *byte == b';')?;
    let (name, place) = (&uri[..semicolon], std::str::from_utf8(&uri[semicolon + 1..]).ok()?);
    let dot = name.iter().rposition(|byte| *byte == b'.')?;
    let proc = Proc::new(Nspace::new(&name[..dot]).ok()?, parse_rank(&name[dot + 1..])?);
    let place = place.strip_prefix("tcp4://").or_else(|| place.strip_prefix("tcp6://"))?;
    let (host, port) = place.rsplit_once(':')?;
    let host: IpAddr = host.trim_start_matches('[').trim_end_matches(']').parse().ok()?;
    Some(ServerUri { proc, address: SocketAddr::new(host, port.trim().parse().ok()?) })
}

/// This machine's name, up to its first dot.
fn own_hostname() -> Vec<u8> {
    let name = nix::unistd::gethostname().map(OsString::into_vec).unwrap_or_default();
    let end = name.iter().position(|byte| *byte == b'.').filter(|end| *end > 0).unwrap_or(name.len());
    name[..end].to_vec()
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    fn environment(variables: &[(&str, &str)]) -> Result<Environment> {
        let variables: HashMap<_, _> = variables.iter().copied().collect();
        Environment::from_lookup(|name| variables.get(name).map(OsString::from))
    }

    #[test]
    fn a_reported_server_is_read_with_and_without_names_of_variables() {
        let read = |report: &str| environment(&[]).unwrap().with_reported_server(report.as_bytes());
        for (names, module) in
            [("", Module::V41), ("PMIX_SERVER_URI41:PMIX_SERVER_URI2;", Module::V41), ("PMIX_SERVER_URI3;", Module::V3)]
        {
            let env = read(&format!("{names}prte.host@0.0;tcp4://127.0.0.1:4711\n")).unwrap();
            assert_eq!(
                (env.server.unwrap().to_string().as_str(), env.module),
                ("prte.host@0.0;tcp4://127.0.0.1:4711", module)
            );
        }
        assert_eq!(read("PMIX_SERVER_URI41;nobody").err(), Some(Status::ERR_BAD_PARAM));
        assert_eq!(read("nobody").err(), Some(Status::ERR_BAD_PARAM));
    }

    #[test]
    fn the_best_uri_variable_decides_server_and_encoder() {
        let base = [("PMIX_NAMESPACE", "prte.job@1"), ("PMIX_RANK", "3")];
        let uri = "prte.host.5;tcp4://127.0.0.1:4711";
        for (names, module, version) in [
            (&["PMIX_SERVER_URI2", "PMIX_SERVER_URI41", "PMIX_SERVER_URI61"][..], Module::V41, "4.1.0"),
            (&["PMIX_SERVER_URI4", "PMIX_SERVER_URI3"], Module::V4, "4.0.0"),
            (&["PMIX_SERVER_URI3", "PMIX_SERVER_URI21"], Module::V3, "3.0.0"),
            (&["PMIX_SERVER_URI21", "PMIX_SERVER_URI2"], Module::V21, "2.1.0"),
            (&["PMIX_SERVER_URI2"], Module::V20, "2.0.0"),
        ] {
            let mut variables = base.to_vec();
            variables.extend(names.iter().map(|name| (*name, uri)));
            let env = environment(&variables).unwrap();
            assert_eq!((env.module, env.server_version.as_str()), (module, version));
            let server = env.server.as_ref().unwrap();
            assert_eq!(server.proc.to_string(), "prte.host:5");
            assert_eq!(server.address, SocketAddr::from(([127, 0, 0, 1], 4711)));
            assert_eq!(server.to_string(), uri);
            assert_eq!(env.proc().to_string(), "prte.job@1:3");
        }
    }

    #[test]
    fn a_server_is_ours_if_the_variable_that_others_do_not_set_has_its_address() {
        let (uri, outer) = ("prte.host.5;tcp4://127.0.0.1:4711", "outer.0;tcp4://127.0.0.1:4712");
        for (named, is_ours) in [(Some(uri), true), (Some(outer), false), (None, false)] {
            let mut variables = vec![("PMIX_SERVER_URI41", uri)];
            variables.extend(named.map(|named| (SERVER_VARIABLE, named)));
            assert_eq!(environment(&variables).unwrap().server_is_ours, is_ours, "{named:?}");
        }
        assert!(!environment(&[(SERVER_VARIABLE, uri)]).unwrap().server_is_ours);
    }

    #[test]
    fn addresses_of_both_families_are_read() {
        let address = |uri: &str| parse_uri(uri.as_bytes()).map(|uri| uri.address.to_string());
        assert_eq!(address("a.0;tcp4://10.0.0.1:80"), Some("10.0.0.1:80".into()));
        assert_eq!(address("a.0;tcp6://::1:80"), Some("[::1]:80".into()));
        assert_eq!(address("a.0;tcp6://[::1]:80"), Some("[::1]:80".into()));
        for broken in
            ["", "a.0", "a;tcp4://10.0.0.1:80", "a.0;usock://x", "a.0;tcp4://10.0.0.1", "a.x;tcp4://10.0.0.1:1"]
        {
            assert_eq!(address(broken), None, "{broken:?}");
        }
    }

    #[test]
    fn missing_or_invalid_variables_are_named() {
        assert_eq!(environment(&[("PMIX_NAMESPACE", "a")]).err(), Some(Status::ERR_DATA_VALUE_NOT_FOUND));
        assert_eq!(environment(&[("PMIX_NAMESPACE", "a"), ("PMIX_RANK", "x")]).err(), Some(Status::ERR_BAD_PARAM));
        let alone = environment(&[("PMIX_HOSTNAME", "n1")]).unwrap();
        assert!(alone.nspace.is_none() && alone.server.is_none());
        assert_eq!(alone.proc().to_string(), format!("singleton.n1.{}:0", std::process::id()));
    }

    #[test]
    fn settings_have_their_defaults() {
        let env = environment(&[("TEMP", "/t"), ("PMIX_SERVER_TMPDIR", "/s")]).unwrap();
        assert_eq!((env.server_tmpdir, env.system_tmpdir), (Some("/s".into()), "/t".into()));
        assert_eq!(env.buffer, BufferType::NonDescribed);
        assert!(env.shared_memory && env.security.is_none() && !env.hostname.contains(&b'.'));
        let env = environment(&[
            ("PMIX_BFROP_BUFFER_TYPE", "PMIX_BFROP_BUFFER_FULLY_DESC"),
            ("PMIX_DSTORE_SHM", "0"),
            ("PMIX_SECURITY_MODE", "munge,native"),
            ("PMIX_VERSION", "4.2.2"),
            ("PMIX_DSTORE_RECORD", "1"),
            ("PMIX_DSTORE_DUMP_SIGNAL", "12"),
        ])
        .unwrap();
        assert_eq!(env.recorder, RecorderSettings { file: true, dump_signal: Some("12".into()) });
        assert_eq!(env.buffer, BufferType::Described);
        assert!(!env.shared_memory);
        assert_eq!(env.security.unwrap(), ["munge", "native"]);
        assert_eq!(env.server_version, "4.2.2");
    }
}
