//! Finds the server that a tool connects to, and its address.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use pmix_dstore::model::{Info, Proc, Result, Status, Value, keys};

use crate::Environment;
use crate::discovery::scan::{Found, lives};
use crate::env::parse_uri;
use crate::rendezvous::{Contact, Point};
use crate::trusted::Trusted;

/// The number of retries if only the delay between them is given.
const RETRIES: u32 = 10;

/// The server that a tool requests, and how to connect to it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct ToolTarget {
    uri: Option<String>,
    file: Option<PathBuf>,
    /// A process id or a namespace.
    name: Option<String>,
    system: bool,
    system_first: bool,
    scheduler: bool,
    /// Do not connect to a server.
    pub do_not_connect: bool,
    /// Finding no server is not an error.
    pub is_optional: bool,
    /// The number of retries, and the delay before each.
    pub retries: u32,
    pub delay: Duration,
    system_tmpdir: Option<PathBuf>,
    server_tmpdir: Option<PathBuf>,
    /// Whether the caller is a launcher: PRRTE's launchers pass their own directory as `server_tmpdir`.
    is_launcher: bool,
    /// The other attributes, which are sent to the server.
    pub others: Vec<Info>,
}

/// A place to look for a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Candidate {
    /// The URI or file that the caller names.
    Named,
    /// The server that launched this process.
    Launcher,
    /// A rendezvous file of the node, in the system's directory.
    Node(Point<'static>),
    /// A rendezvous file of a session, below its directory.
    Session,
}

impl ToolTarget {
    /// Reads the attributes of `PMIx_tool_init` and of attaching.
    ///
    /// # Errors
    /// `BAD_PARAM` for values of a wrong type.
    pub fn read(infos: &[Info]) -> Result<ToolTarget> {
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
        let (uri, old_uri) = (text(take(keys::SERVER_URI))?, text(take(keys::TCP_URI))?);
        let (retries, delay) = (number(take(keys::CONNECT_MAX_RETRIES))?, number(take(keys::CONNECT_RETRY_DELAY))?);
        Ok(ToolTarget {
            uri: uri.or(old_uri),
            file: text(take(keys::TOOL_ATTACHMENT_FILE))?.map(PathBuf::from),
            name: pid.or(nspace),
            system: is_true(take(keys::CONNECT_TO_SYSTEM)),
            system_first: is_true(take(keys::CONNECT_SYSTEM_FIRST)),
            scheduler: is_true(take(keys::CONNECT_TO_SCHEDULER)),
            do_not_connect: is_true(take(keys::TOOL_DO_NOT_CONNECT)),
            is_optional: is_true(take(keys::TOOL_CONNECT_OPTIONAL)),
            retries: retries.unwrap_or(if delay.is_some() { RETRIES } else { 0 }),
            delay: Duration::from_secs(delay.unwrap_or(1).into()),
            system_tmpdir: text(take(keys::SYSTEM_TMPDIR))?.map(PathBuf::from),
            server_tmpdir: text(take(keys::SERVER_TMPDIR))?.map(PathBuf::from),
            is_launcher: Info::is_set(infos, keys::LAUNCHER),
            others,
        })
    }

    /// The server at a URI.
    pub fn at(uri: &str) -> ToolTarget {
        ToolTarget { uri: Some(uri.to_owned()), ..ToolTarget::default() }
    }

    /// The server that a URI names.
    pub fn proc(&self) -> Option<Proc> {
        Some(parse_uri(self.uri.as_ref()?.as_bytes())?.proc)
    }

    /// The places to look, in this order.
    pub fn candidates(&self, env: &Environment) -> Vec<Candidate> {
        if self.uri.is_some() || self.file.is_some() {
            return vec![Candidate::Named];
        }
        if self.scheduler {
            return vec![Candidate::Node(Point::Scheduler)];
        }
        let system = Candidate::Node(Point::System);
        if self.system {
            return vec![system];
        }
        let mut candidates = Vec::new();
        if self.name.is_none() && env.server.is_some() {
            candidates.push(Candidate::Launcher);
        }
        match self.system_first {
            true => candidates.insert(0, system),
            // By default the node's server comes before a session's.
            false if self.name.is_none() => candidates.push(system),
            false => {}
        }
        candidates.push(Candidate::Session);
        candidates
    }

    /// Looks for a server in one place. A file that the caller names may have any owner. A file that is found by a
    /// search must have a trusted owner, and its server must be alive.
    ///
    /// # Errors
    /// `UNREACH` if there is no server, or more than one match; `BAD_PARAM` for a malformed URI; `TIMEOUT` if the search is not over in time.
    pub fn look(&self, candidate: Candidate, env: &Environment, trusted: &Trusted, until: Instant) -> Result<Contact> {
        match candidate {
            Candidate::Named => self.named(),
            Candidate::Launcher => {
                let uri = env.server.clone().ok_or(Status::ERR_UNREACH)?;
                Ok(Contact { uri, version: env.server_version.clone(), pid: None, file: None })
            }
            Candidate::Node(point) => {
                let found = Contact::read_found(&self.node_file(point, env), trusted).ok();
                found.filter(|contact| contact.pid.is_none_or(lives)).ok_or(Status::ERR_UNREACH)
            }
            Candidate::Session => self.of_session(env, trusted, until),
        }
    }

    fn node_file(&self, point: Point<'_>, env: &Environment) -> PathBuf {
        self.system_directory(env).join(point.file_name(&hostname(env)))
    }

    /// The files of node servers that were looked for, usable or not.
    pub fn search_nodes(&self, env: &Environment, trusted: &Trusted) -> Found {
        let mut found = Found::default();
        for candidate in self.candidates(env) {
            if let Candidate::Node(point) = candidate {
                let path = self.node_file(point, env);
                if path.symlink_metadata().is_ok() {
                    found.add(&path, trusted);
                }
            }
        }
        found.check(trusted);
        found
    }

    fn named(&self) -> Result<Contact> {
        let read = |path: &Path| Contact::read(path).map_err(|_| Status::ERR_UNREACH);
        match (&self.uri, &self.file) {
            (Some(uri), _) => match uri.strip_prefix("file:") {
                Some(path) => read(Path::new(path)),
                None => {
                    let uri = parse_uri(uri.as_bytes()).ok_or(Status::ERR_BAD_PARAM)?;
                    Ok(Contact { uri, version: String::new(), pid: None, file: None })
                }
            },
            (None, Some(path)) => read(path),
            (None, None) => Err(Status::ERR_UNREACH),
        }
    }

    fn system_directory<'a>(&'a self, env: &'a Environment) -> &'a Path {
        self.system_tmpdir.as_ref().unwrap_or(&env.system_tmpdir)
    }

    /// The directories to search for session files, the most specific first. If the caller names a session's directory,
    /// it is the only one, unless the caller is a launcher: that may mean its own directory.
    fn session_directories<'a>(&'a self, env: &'a Environment) -> Vec<&'a Path> {
        let named = self.server_tmpdir.as_deref();
        let usual = [env.server_tmpdir.as_deref(), Some(self.system_directory(env))];
        let usual = usual.into_iter().flatten().filter(|_| named.is_none() || self.is_launcher);
        named.into_iter().chain(usual).collect()
    }

    fn of_session(&self, env: &Environment, trusted: &Trusted, until: Instant) -> Result<Contact> {
        let found = self.search_sessions(env, trusted, Found::within(until));
        if found.is_late() {
            // What was not read may be another server that could be meant.
            return Err(Status::ERR_TIMEOUT);
        }
        match &found.distinct()[..] {
            [only] => Ok((*only).clone()),
            // The caller tells the tool's user.
            _ => Err(Status::ERR_UNREACH),
        }
    }

    /// The files of sessions in the directories up to the first that has a server, added to what is found already.
    pub fn search_sessions(&self, env: &Environment, trusted: &Trusted, mut found: Found) -> Found {
        let hostname = hostname(env);
        let file_name = self.name.as_ref().map(|name| Point::Server(name).file_name(&hostname));
        let any = Point::Session.file_name(&hostname);
        let mut is_wanted = |name: &str| match &file_name {
            Some(wanted) => name == wanted,
            None => name.strip_prefix(&any).is_some_and(|rest| rest.is_empty() || rest.starts_with('.')),
        };
        for directory in self.session_directories(env) {
            found.search(directory, trusted, &mut is_wanted);
            found.check(trusted);
            if found.usable().next().is_some() || found.is_late() {
                break;
            }
        }
        found
    }
}

fn hostname(env: &Environment) -> String {
    String::from_utf8_lossy(&env.hostname).into_owned()
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::fs;
    use std::net::TcpListener;
    use std::sync::LazyLock;

    use super::*;

    /// Listeners in place of the ports 1 to 4.
    static LISTENERS: LazyLock<Vec<TcpListener>> =
        LazyLock::new(|| (1..5).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect());

    fn port_of(listener: &TcpListener) -> u16 {
        listener.local_addr().unwrap().port()
    }

    /// The text of a file with a port from 1 to 4 and process 1, of this process and one of its listeners.
    fn living(text: &str) -> String {
        let mut text = text.replace("\n1\n", &format!("\n{}\n", std::process::id()));
        for (index, listener) in LISTENERS.iter().enumerate() {
            text = text.replace(&format!(":{}\n", index + 1), &format!(":{} \n", port_of(listener)));
        }
        text
    }

    /// A directory for temporary files with the rendezvous files of a node's servers.
    fn node(files: &[(&str, &str)]) -> (tempfile::TempDir, Environment) {
        let directory = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = directory.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, living(text)).unwrap();
        }
        let path = directory.path().as_os_str().to_owned();
        let env = Environment::from_lookup(|name| match name {
            "PMIX_SYSTEM_TMPDIR" => Some(path.clone()),
            "PMIX_HOSTNAME" => Some(OsString::from("here")),
            _ => None,
        });
        (directory, env.unwrap())
    }

    /// The ports of the servers that are tried in turn, as if each but the last refused the tool.
    fn ports(env: &Environment, infos: &[(&'static str, Value)]) -> Result<Vec<u16>> {
        let infos: Vec<Info> = infos.iter().map(|(key, value)| Info::new(*key, value.clone())).collect();
        let (wanted, trusted) = (ToolTarget::read(&infos)?, Trusted::of_node(|line| panic!("{line}")));
        let mut ports = Vec::new();
        for candidate in wanted.candidates(env) {
            match wanted.look(candidate, env, &trusted, Instant::now() + Duration::from_secs(60)) {
                Ok(contact) => {
                    let port = contact.uri.address.port();
                    let index = LISTENERS.iter().position(|listener| port_of(listener) == port);
                    ports.push(index.map_or(port, |index| index as u16 + 1));
                }
                Err(Status::ERR_UNREACH) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(ports)
    }

    fn port(env: &Environment, infos: &[(&'static str, Value)]) -> Result<u16> {
        ports(env, infos)?.first().copied().ok_or(Status::ERR_UNREACH)
    }

    const SYSTEM: &str = "sys.0;tcp4://127.0.0.1:1\n4.2.2\n1\n";
    const ONE: &str = "one.0;tcp4://127.0.0.1:2\n4.2.2\n1\n";
    const TWO: &str = "two.0;tcp4://127.0.0.1:3\n4.2.2\n1\n";
    /// Its process id cannot exist.
    const DEAD: &str = "dead.0;tcp4://127.0.0.1:4\n4.2.2\n999999999\n";

    #[test]
    fn a_server_is_found_by_each_of_its_attributes() {
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

    /// The caller names the directories of the node and of a session.
    #[test]
    fn each_file_is_looked_for_in_its_own_directory() {
        let (directory, env) = node(&[("system/pmix.sys.here", SYSTEM), ("session/a/pmix.here.tool", ONE)]);
        let path = |name: &str| Value::string(directory.path().join(name).to_str().unwrap());
        let both = || [(keys::SYSTEM_TMPDIR, path("system")), (keys::SERVER_TMPDIR, path("session"))];
        assert_eq!(ports(&env, &both()), Ok(vec![1, 2]));
        let with = |key| both().into_iter().chain([(key, Value::Bool(true))]).collect::<Vec<_>>();
        assert_eq!(ports(&env, &with(keys::CONNECT_SYSTEM_FIRST)), Ok(vec![1, 2]));
        assert_eq!(ports(&env, &with(keys::CONNECT_TO_SYSTEM)), Ok(vec![1]));
        // The environment names both, or each side names one.
        let variables = |names: &[(&str, &str)]| {
            let names: Vec<(String, OsString)> =
                names.iter().map(|(name, at)| ((*name).to_owned(), directory.path().join(at).into())).collect();
            Environment::from_lookup(|name| match name {
                "PMIX_HOSTNAME" => Some(OsString::from("here")),
                _ => names.iter().find(|(variable, _)| variable == name).map(|(_, path)| path.clone()),
            })
            .unwrap()
        };
        let env = variables(&[("PMIX_SYSTEM_TMPDIR", "system"), ("PMIX_SERVER_TMPDIR", "session")]);
        assert_eq!(ports(&env, &[]), Ok(vec![1, 2]));
        let env = variables(&[("PMIX_SERVER_TMPDIR", "session")]);
        assert_eq!(ports(&env, &both()[..1]), Ok(vec![1, 2]));
        // A session's directory that the caller names is the only one that is searched, except for a launcher.
        assert_eq!(ports(&env, &[(keys::SERVER_TMPDIR, path("system"))]), Ok(vec![]));
        let launcher = |tmpdir| [(keys::SERVER_TMPDIR, path(tmpdir)), (keys::LAUNCHER, Value::Bool(true))];
        assert_eq!(ports(&env, &launcher("nowhere")), Ok(vec![2]));
        let env = variables(&[("PMIX_SYSTEM_TMPDIR", "system")]);
        assert_eq!(ports(&env, &launcher("nowhere")), Ok(vec![1]));
        assert_eq!(ports(&env, &launcher("session")), Ok(vec![1, 2]));
    }

    #[test]
    fn the_servers_that_may_be_meant_are_tried_in_turn() {
        let (_directory, mut env) = node(&[("pmix.sys.here", SYSTEM), ("a/pmix.here.tool.17", ONE)]);
        assert_eq!(ports(&env, &[]), Ok(vec![1, 2]));
        let first = (keys::CONNECT_SYSTEM_FIRST, Value::Bool(true));
        assert_eq!(ports(&env, &[first.clone(), (keys::SERVER_PIDINFO, Value::Pid(17))]), Ok(vec![1, 2]));
        env.server = parse_uri(b"launcher.0;tcp4://127.0.0.1:9");
        assert_eq!(ports(&env, &[]), Ok(vec![9, 1, 2]));
        assert_eq!(ports(&env, &[first]), Ok(vec![1, 9, 2]));
        let (_directory, env) = node(&[("pmix.sys.here", DEAD), ("a/pmix.here.tool.17", ONE)]);
        assert_eq!(ports(&env, &[]), Ok(vec![2]), "a dead server has left the other file");
    }

    #[test]
    fn the_old_name_of_the_address_is_known() {
        let (_directory, env) = node(&[]);
        let uri = |port: u16| Value::string(format!("a.0;tcp4://127.0.0.1:{port}"));
        assert_eq!(port(&env, &[(keys::TCP_URI, uri(5))]), Ok(5));
        assert_eq!(port(&env, &[(keys::TCP_URI, uri(5)), (keys::SERVER_URI, uri(6))]), Ok(6));
    }
}
