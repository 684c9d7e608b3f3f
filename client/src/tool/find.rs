//! Which server a tool is to connect to, and where that listens.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::unistd::geteuid;
use pmix_dstore::model::{Info, Result, Status, Value, keys};

use crate::Environment;
use crate::env::parse_uri;
use crate::rendezvous::{Contact, Point};

/// How deep below the directory for temporary files a server may keep its own.
const DEPTH_MAX: usize = 8;
/// How often is tried where only the time between two tries is given.
const RETRIES: u32 = 10;

/// What a tool says of the server that it wants.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Wanted {
    uri: Option<String>,
    file: Option<PathBuf>,
    /// A process number or a namespace.
    name: Option<String>,
    system: bool,
    system_first: bool,
    scheduler: bool,
    /// No server at all.
    pub nobody: bool,
    /// No server is fine, too.
    pub is_optional: bool,
    /// How often is tried again, after which time.
    pub retries: u32,
    pub delay: Duration,
    tmpdir: Option<PathBuf>,
    /// What else was said, of which a server may want to know.
    pub others: Vec<Info>,
}

impl Wanted {
    /// Reads the attributes of `PMIx_tool_init` and of attaching.
    ///
    /// # Errors
    /// `BAD_PARAM` for values of a wrong type.
    pub fn read(infos: &[Info]) -> Result<Wanted> {
        let mut others = Info::copies(infos)?;
        let mut take = |key: &str| {
            others.retain(|info| !info.key.is(key));
            Info::find(infos, key)
        };
        let text = |value: Option<&Value>| match value {
            None => Ok(None),
            Some(value) => {
                let text = value.as_text().ok_or(Status::ERR_BAD_PARAM)?;
                String::from_utf8(text.to_vec()).map(Some).map_err(|_| Status::ERR_BAD_PARAM)
            }
        };
        let number = |value: Option<&Value>| value.map(|value| value.as_u32().ok_or(Status::ERR_BAD_PARAM)).transpose();
        let is_true = |value: Option<&Value>| value.is_some_and(Value::is_true);
        let pid = match take(keys::SERVER_PIDINFO) {
            Some(Value::Pid(pid)) => Some(pid.to_string()),
            other => number(other)?.map(|pid| pid.to_string()),
        };
        let nspace = text(take(keys::SERVER_NSPACE))?;
        let tmpdirs = [text(take(keys::SYSTEM_TMPDIR))?, text(take(keys::SERVER_TMPDIR))?];
        let (retries, delay) = (number(take(keys::CONNECT_MAX_RETRIES))?, number(take(keys::CONNECT_RETRY_DELAY))?);
        Ok(Wanted {
            uri: text(take(keys::SERVER_URI))?,
            file: text(take(keys::TOOL_ATTACHMENT_FILE))?.map(PathBuf::from),
            name: pid.or(nspace),
            system: is_true(take(keys::CONNECT_TO_SYSTEM)),
            system_first: is_true(take(keys::CONNECT_SYSTEM_FIRST)),
            scheduler: is_true(take(keys::CONNECT_TO_SCHEDULER)),
            nobody: is_true(take(keys::TOOL_DO_NOT_CONNECT)),
            is_optional: is_true(take(keys::TOOL_CONNECT_OPTIONAL)),
            retries: retries.unwrap_or(if delay.is_some() { RETRIES } else { 0 }),
            delay: Duration::from_secs(delay.unwrap_or(1).into()),
            tmpdir: tmpdirs.into_iter().flatten().next().map(PathBuf::from),
            others,
        })
    }

    /// Whether a server is named, so that the one of the environment is not meant.
    pub fn is_particular(&self) -> bool {
        self.uri.is_some() || self.file.is_some() || self.name.is_some() || self.system || self.scheduler
    }

    /// The server that is meant.
    ///
    /// # Errors
    /// `UNREACH` where none is found, or more than one that may be meant; `BAD_PARAM` for a URI that is none.
    pub fn find(&self, env: &Environment) -> Result<Contact> {
        let hostname = String::from_utf8_lossy(&env.hostname).into_owned();
        let system_tmpdir = self.tmpdir.as_ref().unwrap_or(&env.system_tmpdir);
        let read = |path: &Path| Contact::read(path).map_err(|_| Status::ERR_UNREACH);
        let of_node = |point: Point<'_>| read(&system_tmpdir.join(point.file_name(&hostname)));
        if let Some(uri) = &self.uri {
            return match uri.strip_prefix("file:") {
                Some(path) => read(Path::new(path)),
                None => {
                    let uri = parse_uri(uri.as_bytes()).ok_or(Status::ERR_BAD_PARAM)?;
                    Ok(Contact { uri, version: String::new(), pid: None })
                }
            };
        }
        if let Some(path) = &self.file {
            return read(path);
        }
        if self.scheduler {
            return of_node(Point::Scheduler);
        }
        if self.system {
            return of_node(Point::System);
        }
        if self.system_first
            && let Ok(contact) = of_node(Point::System)
        {
            return Ok(contact);
        }
        if self.name.is_none() {
            if let Some(server) = &env.server {
                let version = env.server_version.clone();
                return Ok(Contact { uri: server.clone(), version, pid: None });
            }
            // Nothing is said: the node's server, before that of a session.
            if let Ok(contact) = of_node(Point::System) {
                return Ok(contact);
            }
        }
        let file_name = self.name.as_ref().map(|name| Point::Server(name).file_name(&hostname));
        let any = Point::Session.file_name(&hostname);
        let mut found = Vec::new();
        search(
            system_tmpdir,
            0,
            &mut |name| match &file_name {
                Some(wanted) => name == wanted,
                None => name.strip_prefix(&any).is_some_and(|rest| rest.is_empty() || rest.starts_with('.')),
            },
            &mut found,
        );
        match &found[..] {
            [first, others @ ..] if others.iter().all(|other| other.uri == first.uri) => Ok(first.clone()),
            _ => Err(Status::ERR_UNREACH),
        }
    }
}

/// Adds the servers, by files that a user could trust, below a directory.
fn search(directory: &Path, depth: usize, is_wanted: &mut impl FnMut(&str) -> bool, found: &mut Vec<Contact>) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let Ok(kind) = entry.file_type() else { continue };
        if kind.is_dir() && depth < DEPTH_MAX {
            search(&entry.path(), depth + 1, is_wanted, found);
        } else if kind.is_file() && entry.file_name().to_str().is_some_and(&mut *is_wanted) {
            // In a directory for all anybody may leave a file.
            let owner = entry.metadata().map_or(u32::MAX, |metadata| metadata.uid());
            let contact = Contact::read(&entry.path()).ok().filter(|_| owner == 0 || owner == geteuid().as_raw());
            // One that a dead server has left.
            let lives = |contact: &Contact| contact.pid.is_none_or(|pid| Path::new(&format!("/proc/{pid}")).exists());
            found.extend(contact.filter(lives));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;

    /// A directory for temporary files with the servers of a node: their own names are their ports.
    fn node(files: &[(&str, &str)]) -> (tempfile::TempDir, Environment) {
        let directory = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = directory.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let path = directory.path().as_os_str().to_owned();
        let env = Environment::from_lookup(|name| match name {
            "PMIX_SYSTEM_TMPDIR" => Some(path.clone()),
            "PMIX_HOSTNAME" => Some(OsString::from("here")),
            _ => None,
        });
        (directory, env.unwrap())
    }

    fn port(env: &Environment, infos: &[(&'static str, Value)]) -> Result<u16> {
        let infos: Vec<Info> = infos.iter().map(|(key, value)| Info::new(*key, value.clone())).collect();
        Wanted::read(&infos)?.find(env).map(|contact| contact.uri.address.port())
    }

    const SYSTEM: &str = "sys.0;tcp4://127.0.0.1:1\n4.2.2\n1\n";
    const ONE: &str = "one.0;tcp4://127.0.0.1:2\n4.2.2\n1\n";
    const TWO: &str = "two.0;tcp4://127.0.0.1:3\n4.2.2\n1\n";
    /// Its process is none that there can be.
    const DEAD: &str = "dead.0;tcp4://127.0.0.1:4\n4.2.2\n999999999\n";

    #[test]
    fn a_server_is_found_by_what_is_said_of_it() {
        let (directory, env) = node(&[
            ("pmix.sys.here", SYSTEM),
            ("a/b/pmix.here.tool.17", ONE),
            ("a/b/pmix.here.tool.one", ONE),
            ("a/pmix.here.tool", TWO),
            ("pmix.elsewhere.tool.17", TWO),
        ]);
        let yes = || Value::Bool(true);
        assert_eq!(port(&env, &[(keys::SERVER_PIDINFO, Value::Pid(17))]), Ok(2));
        assert_eq!(port(&env, &[(keys::SERVER_PIDINFO, Value::Pid(1))]), Err(Status::ERR_UNREACH), "not a part of it");
        assert_eq!(port(&env, &[(keys::SERVER_NSPACE, Value::string("one"))]), Ok(2));
        assert_eq!(port(&env, &[(keys::CONNECT_TO_SYSTEM, yes())]), Ok(1));
        assert_eq!(port(&env, &[(keys::CONNECT_SYSTEM_FIRST, yes()), (keys::SERVER_PIDINFO, Value::Pid(17))]), Ok(1));
        assert_eq!(port(&env, &[(keys::CONNECT_TO_SCHEDULER, yes())]), Err(Status::ERR_UNREACH));
        assert_eq!(port(&env, &[]), Ok(1));
        let file = format!("{}/a/pmix.here.tool", directory.path().display());
        assert_eq!(port(&env, &[(keys::TOOL_ATTACHMENT_FILE, Value::string(file.as_str()))]), Ok(3));
        assert_eq!(port(&env, &[(keys::SERVER_URI, Value::string(format!("file:{file}")))]), Ok(3));
        assert_eq!(port(&env, &[(keys::SERVER_URI, Value::string("a.b.0;tcp4://127.0.0.1:9"))]), Ok(9));
        assert_eq!(port(&env, &[(keys::SERVER_URI, Value::string("nonsense"))]), Err(Status::ERR_BAD_PARAM));
        assert_eq!(port(&env, &[(keys::SERVER_URI, Value::Bool(true))]), Err(Status::ERR_BAD_PARAM));
    }

    #[test]
    fn where_nothing_is_said_there_must_be_one_that_lives() {
        let (_directory, env) =
            node(&[("a/pmix.here.tool.1", ONE), ("a/pmix.here.tool.one", ONE), ("pmix.here.tool.9", DEAD)]);
        assert_eq!(port(&env, &[]), Ok(2));
        let (_directory, env) = node(&[("a/pmix.here.tool.1", ONE), ("b/pmix.here.tool.2", TWO)]);
        assert_eq!(port(&env, &[]), Err(Status::ERR_UNREACH));
        let (_directory, env) = node(&[("pmix.here.toolbox", ONE), ("pmix.here.tool.9", DEAD)]);
        assert_eq!(port(&env, &[]), Err(Status::ERR_UNREACH));
    }
}
