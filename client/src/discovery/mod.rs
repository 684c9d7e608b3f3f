//! Finds the servers of this node by their rendezvous files.

pub(crate) mod scan;

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use pmix_dstore::model::{Info, Value, keys};

use self::scan::Found;
pub use self::scan::{ended, has_ended};
use crate::Environment;
use crate::env::ServerUri;
use crate::rendezvous::{Contact, ContactFile, Point, Unusable, date};
use crate::trusted::Trusted;

/// How a tool finds a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ServerKind {
    /// It has launched this process, whose environment names its address.
    Launcher,
    /// It is the node's system server: `PMIX_CONNECT_TO_SYSTEM`.
    System,
    /// It is the scheduler: `PMIX_CONNECT_TO_SCHEDULER`.
    Scheduler,
    /// It serves a session. A tool that asks for no particular server looks for it.
    Session,
    /// A file has its process id or namespace in the name: `PMIX_SERVER_PIDINFO`, `PMIX_SERVER_NSPACE`.
    Named,
}

impl ServerKind {
    /// A word for programs; it does not change between releases of this library.
    pub fn code(self) -> &'static str {
        match self {
            ServerKind::Launcher => "launcher",
            ServerKind::System => "system",
            ServerKind::Scheduler => "scheduler",
            ServerKind::Session => "session",
            ServerKind::Named => "named",
        }
    }
}

/// A server, with all files that name it; or a file or a directory that cannot be read.
///
/// Texts come from files. Their owners are trusted, but a text may hold any character: escape it before printing it on a
/// terminal.
#[derive(Clone, Debug, PartialEq)]
pub struct FoundServer {
    /// Its namespace, rank and address; `None` for a file that cannot be read.
    pub uri: Option<ServerUri>,
    /// Its process id; `None` if no file tells.
    pub pid: Option<i32>,
    /// The user id of the owner of its files; `None` if it has none that can be read.
    pub user: Option<u32>,
    /// The release of its PMIx library; empty if no file tells.
    pub release: String,
    /// When it started: the time at which it wrote its first file.
    pub started: Option<SystemTime>,
    /// How a tool finds it; each kind once.
    pub kinds: Vec<ServerKind>,
    /// The files that name it.
    pub files: Vec<PathBuf>,
    /// Why a tool cannot reach it; `None` if nothing is against it. The server itself may refuse the tool's user.
    pub unusable: Option<Unusable>,
}

impl FoundServer {
    /// The value in answers to `PMIX_QUERY_AVAIL_SERVERS`; `None` for a server that cannot be reached.
    pub fn as_info(&self) -> Option<Info> {
        let uri = self.uri.as_ref().filter(|_| self.unusable.is_none())?;
        let mut infos = vec![
            Info::new(keys::SERVER_NSPACE, Value::string(uri.proc.nspace.as_bytes())),
            Info::new(keys::SERVER_RANK, Value::Rank(uri.proc.rank)),
            Info::new(keys::SERVER_URI, Value::string(uri.to_string())),
            Info::new(keys::VERSION_INFO, Value::string(self.release.as_str())),
        ];
        let pid = self.pid.and_then(|pid| u32::try_from(pid).ok());
        infos.extend(pid.map(|pid| Info::new(keys::SERVER_PIDINFO, Value::Uint32(pid))));
        infos.extend(self.user.map(|user| Info::new(keys::USERID, Value::Uint32(user))));
        infos.extend(self.started.map(|time| Info::new(keys::SERVER_START_TIME, Value::string(date(time)))));
        Some(Info::new(keys::SERVER_INFO_ARRAY, Value::infos(infos)))
    }
}

/// The servers of this node that a tool with this environment could reach, then those that it could not, with reasons.
/// Nothing is sent to a server.
///
/// The directories that are searched are those of a search by `PMIx_tool_init` without attributes: `PMIX_SERVER_TMPDIR`
/// and `PMIX_SYSTEM_TMPDIR`, or the directory for temporary files. Files of users who are not trusted are listed without
/// their content.
pub fn servers(env: &Environment) -> Vec<FoundServer> {
    servers_for(env, &Trusted::of_node(drop), Found::default()).0
}

/// As [`servers`], with the number of rendezvous files of other users that were left out: those below directories of such users, as far
/// as this user can read them.
pub fn servers_and_left_out(env: &Environment) -> (Vec<FoundServer>, usize) {
    servers_for(env, &Trusted::of_node(drop), Found::counting())
}

fn servers_for(env: &Environment, trusted: &Trusted, mut found: Found) -> (Vec<FoundServer>, usize) {
    let names = Names::on(&String::from_utf8_lossy(&env.hostname));
    for name in [&names.system, &names.scheduler] {
        let path = env.system_tmpdir.join(name);
        if path.symlink_metadata().is_ok() {
            found.add(&path, trusted);
        }
    }
    for directory in [env.server_tmpdir.as_ref(), Some(&env.system_tmpdir)].into_iter().flatten() {
        found.search(directory, trusted, &mut |name| names.of_session(name).is_some());
    }
    if let Some(uri) = &env.server {
        let version = env.server_version.clone();
        found.servers.push((Contact { uri: uri.clone(), version, pid: None, file: None }, None));
    }
    found.check(trusted);
    let left_out = found.left_out();
    let mut list: Vec<FoundServer> = Vec::new();
    for (contact, unusable) in found.servers {
        merge(&mut list, &names, contact, unusable);
    }
    for (path, why) in found.unusable {
        if !list.iter().any(|server| server.files.contains(&path)) {
            list.push(FoundServer::unread(path, &names, why));
        }
    }
    for server in &mut list {
        server.kinds.sort();
        server.files.sort();
    }
    // Stable: otherwise in the order in which a tool looks.
    list.sort_by_key(|server| server.unusable.is_some());
    (list, left_out)
}

/// Adds a server, or one more file of a server.
fn merge(list: &mut Vec<FoundServer>, names: &Names, contact: Contact, unusable: Option<Unusable>) {
    let Contact { uri, version, pid, file } = contact;
    let kind = match &file {
        Some(ContactFile { path, .. }) => names.kind(path),
        None => Some(ServerKind::Launcher),
    };
    let is_same = |server: &&mut FoundServer| {
        server.uri.as_ref() == Some(&uri) && (server.pid == pid || server.pid.is_none() || pid.is_none())
    };
    let started = file.as_ref().and_then(|file| file.written);
    let Some(server) = list.iter_mut().find(is_same) else {
        let owner = file.as_ref().map(|file| file.owner);
        let files = file.into_iter().map(|file| file.path).collect();
        let kinds = kind.into_iter().collect();
        return list.push(FoundServer {
            uri: Some(uri),
            pid,
            user: owner,
            release: version,
            started,
            kinds,
            files,
            unusable,
        });
    };
    server.pid = server.pid.or(pid);
    server.started = server.started.into_iter().chain(started).min();
    server.kinds.extend(kind.filter(|kind| !server.kinds.contains(kind)));
    if let Some(ContactFile { path, .. }) = file.filter(|file| !server.files.contains(&file.path)) {
        server.files.push(path);
    }
}

impl FoundServer {
    fn unread(path: PathBuf, names: &Names, why: Unusable) -> FoundServer {
        let user = match why {
            Unusable::NotTrusted(uid) => Some(uid),
            _ => None,
        };
        FoundServer {
            uri: None,
            pid: None,
            user,
            release: String::new(),
            started: None,
            kinds: names.kind(&path).into_iter().collect(),
            files: vec![path],
            unusable: Some(why),
        }
    }
}

/// The names of rendezvous files on this host.
struct Names {
    system: String,
    scheduler: String,
    session: String,
}

impl Names {
    fn on(hostname: &str) -> Names {
        let of = |point: Point<'_>| point.file_name(hostname);
        Names { system: of(Point::System), scheduler: of(Point::Scheduler), session: of(Point::Session) }
    }

    /// The kind of a file in a session's directory.
    fn of_session(&self, name: &str) -> Option<ServerKind> {
        match name.strip_prefix(&self.session)? {
            "" => Some(ServerKind::Session),
            rest => rest.starts_with('.').then_some(ServerKind::Named),
        }
    }

    fn kind(&self, path: &Path) -> Option<ServerKind> {
        match path.file_name()?.to_str()? {
            name if name == self.system => Some(ServerKind::System),
            name if name == self.scheduler => Some(ServerKind::Scheduler),
            name => self.of_session(name),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::fs;
    use std::net::{SocketAddr, TcpListener};
    use std::os::unix::fs::{PermissionsExt, chown};

    use nix::sys::stat::Mode;
    use nix::unistd::{Uid, geteuid, mkfifo, setfsuid};

    use super::*;
    use crate::left_out::left_out;

    const OTHER: u32 = 60_003;

    /// The list of a node whose files have these names and texts.
    fn list(directory: &Path, files: &[(&str, String)], launcher: Option<String>) -> Vec<FoundServer> {
        list_and_left_out(directory, files, launcher).0
    }

    fn list_and_left_out(
        directory: &Path,
        files: &[(&str, String)],
        launcher: Option<String>,
    ) -> (Vec<FoundServer>, usize) {
        for (name, text) in files {
            let path = directory.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let env = Environment::from_lookup(|name| match name {
            "PMIX_SYSTEM_TMPDIR" => Some(directory.into()),
            "PMIX_SERVER_TMPDIR" => Some(directory.join("session").into()),
            "PMIX_HOSTNAME" => Some(OsString::from("here")),
            "PMIX_SERVER_URI41" => launcher.clone().map(OsString::from),
            _ => None,
        });
        servers_for(&env.unwrap(), &Trusted::only(&[geteuid().as_raw()]), Found::counting())
    }

    fn text(name: &str, address: SocketAddr, pid: u32) -> String {
        format!("{name};tcp4://{address}\n4.2.2\n{pid}\n0:0\nFri Nov 20 23:55:02 2026\n\n")
    }

    fn listener() -> (TcpListener, SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        (listener, address)
    }

    fn reasons(list: &[FoundServer]) -> Vec<(Vec<String>, Option<&'static str>)> {
        let names = |server: &FoundServer| -> Vec<String> {
            server.files.iter().map(|file| file.file_name().unwrap().to_string_lossy().into_owned()).collect()
        };
        list.iter().map(|server| (names(server), server.unusable.as_ref().map(Unusable::code))).collect()
    }

    #[test]
    fn a_server_stands_once_with_all_its_files_and_kinds() {
        let directory = tempfile::tempdir().unwrap();
        let own = std::process::id();
        let ((_one, system), (_two, session)) = (listener(), listener());
        let launcher = format!("host.3;tcp4://{session}");
        let files = [
            ("pmix.sys.here", text("system.0", system, own)),
            ("pmix.sched.here", text("system.0", system, own)),
            ("session/a/pmix.here.tool", text("host.3", session, own)),
            ("session/a/pmix.here.tool.17", text("host.3", session, own)),
            ("session/a/pmix.here.tool.host", text("host.3", session, own)),
            // Other names are no rendezvous files of this node.
            ("pmix.sys.there", text("there.0", session, own)),
            ("session/a/pmix.here.toolbox", text("box.0", session, own)),
            ("session/a/pmix.sys.here", text("deep.0", session, own)),
        ];
        let list = list(directory.path(), &files, Some(launcher));
        let about = |server: &FoundServer| {
            let ServerUri { proc, address } = server.uri.clone().unwrap();
            (proc.to_string(), address, server.pid, server.user, server.release.clone(), server.kinds.clone())
        };
        let (pid, user) = (Some(own as i32), Some(geteuid().as_raw()));
        let release = || "4.2.2".to_owned();
        let of_node = vec![ServerKind::System, ServerKind::Scheduler];
        let of_session = vec![ServerKind::Launcher, ServerKind::Session, ServerKind::Named];
        let expected = [
            ("system:0".to_owned(), system, pid, user, release(), of_node),
            ("host:3".to_owned(), session, pid, user, release(), of_session),
        ];
        assert_eq!(list.iter().map(about).collect::<Vec<_>>(), expected);
        assert_eq!(list.iter().map(|server| server.files.len()).collect::<Vec<_>>(), [2, 3]);
        let written = fs::metadata(directory.path().join("pmix.sys.here")).unwrap().modified().unwrap();
        assert_eq!(list[0].started, Some(written));
        assert!(list.iter().all(|server| server.unusable.is_none()));
    }

    #[test]
    fn a_file_that_leads_to_no_server_is_listed_with_the_reason() {
        let directory = tempfile::tempdir().unwrap();
        let own = std::process::id();
        let (_listener, address) = listener();
        let closed = listener().1;
        let mut other = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let files = [
            ("1/pmix.here.tool", text("dead.0", address, 999_999_999)),
            ("2/pmix.here.tool", text("closed.0", closed, own)),
            ("3/pmix.here.tool", text("reused.0", address, other.id())),
            ("4/pmix.here.tool.half", format!("half.0;tcp4://{}", address.to_string().trim_end_matches('1'))),
            ("4/pmix.here.tool.none", "\u{1b}[2J\n".to_owned()),
            ("5/pmix.here.tool.good", text("good.0", address, own)),
        ];
        for (name, _) in &files {
            fs::create_dir_all(directory.path().join(name).parent().unwrap()).unwrap();
        }
        mkfifo(&directory.path().join("4/pmix.here.tool.fifo"), Mode::S_IRWXU).unwrap();
        let mut found = reasons(&list(directory.path(), &files, None));
        other.kill().unwrap();
        other.wait().unwrap();
        assert_eq!(found.remove(0), (vec!["pmix.here.tool.good".to_owned()], None));
        found.sort();
        let expected = [
            ("pmix.here.tool", "ended"),
            ("pmix.here.tool", "nobody-listens"),
            ("pmix.here.tool", "other-process"),
            ("pmix.here.tool.fifo", "unreadable"),
            ("pmix.here.tool.half", "incomplete"),
            ("pmix.here.tool.none", "no-address"),
        ];
        assert_eq!(found, expected.map(|(name, why)| (vec![name.to_owned()], Some(why))));
    }

    #[test]
    fn nothing_of_another_users_file_is_read() {
        if !geteuid().is_root() {
            return left_out("root", "only root can act as another user");
        }
        let directory = tempfile::tempdir().unwrap();
        let own = std::process::id();
        let (_listener, address) = listener();
        let bind = || {
            setfsuid(Uid::from_raw(OTHER));
            listener()
        };
        let (_theirs, their_address) = std::thread::spawn(bind).join().unwrap();
        let path = |name: &str| directory.path().join(name);
        fs::write(path("pmix.sys.here"), text("theirs.0", address, own)).unwrap();
        chown(path("pmix.sys.here"), Some(OTHER), None).unwrap();
        fs::create_dir(path("theirs")).unwrap();
        chown(path("theirs"), Some(OTHER), None).unwrap();
        let files = [
            ("theirs/pmix.here.tool", text("hidden.0", address, own)),
            ("theirs/deep/pmix.here.tool.17", text("hidden.0", address, own)),
            // Of another node.
            ("theirs/pmix.there.tool", text("hidden.0", address, own)),
            ("ours/pmix.here.tool", text("ours.0", their_address, own)),
        ];
        let (list, left_out) = list_and_left_out(directory.path(), &files, None);
        assert_eq!(left_out, 2);
        let mut found = reasons(&list);
        found.sort();
        let expected = [("pmix.here.tool", "other-user"), ("pmix.sys.here", "not-trusted")];
        assert_eq!(found, expected.map(|(name, why)| (vec![name.to_owned()], Some(why))));
        let foreign = list.iter().find(|server| server.uri.is_none()).unwrap();
        assert_eq!((foreign.user, foreign.pid, foreign.release.as_str()), (Some(OTHER), None, ""));
    }

    #[test]
    fn an_unreadable_directory_is_listed_if_it_is_the_one_to_search() {
        let directory = tempfile::tempdir().unwrap();
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
        for name in ["session", "private"] {
            fs::create_dir(directory.path().join(name)).unwrap();
            fs::set_permissions(directory.path().join(name), fs::Permissions::from_mode(0o000)).unwrap();
        }
        // Root can read any directory; a thread of root's with another user's number for files cannot.
        let search = || {
            if geteuid().is_root() {
                setfsuid(Uid::from_raw(OTHER));
            }
            reasons(&list(directory.path(), &[], None))
        };
        let found = std::thread::scope(|scope| scope.spawn(search).join().unwrap());
        assert_eq!(found, [(vec!["session".to_owned()], Some("unreadable"))]);
    }

    #[test]
    fn a_flood_of_unusable_files_is_cut_and_hides_no_server() {
        let directory = tempfile::tempdir().unwrap();
        let (_listener, address) = listener();
        for number in 0..300 {
            fs::write(directory.path().join(format!("pmix.here.tool.{number}")), "").unwrap();
        }
        let good = ("pmix.here.tool.good", text("good.0", address, std::process::id()));
        let (list, left_out) = list_and_left_out(directory.path(), &[good], None);
        assert_eq!((list.len(), list[0].unusable.is_none(), left_out), (101, true, 0));
    }

    #[test]
    fn files_of_another_user_that_are_cut_are_counted_as_far_as_the_bound() {
        if !geteuid().is_root() {
            return left_out("root", "only root can act as another user");
        }
        let directory = tempfile::tempdir().unwrap();
        for number in 0..130 {
            let path = directory.path().join(format!("pmix.here.tool.{number}"));
            fs::write(&path, "").unwrap();
            chown(&path, Some(OTHER), None).unwrap();
        }
        let (list, left_out) = list_and_left_out(directory.path(), &[], None);
        assert_eq!((list.len(), left_out), (100, 30));
        let theirs = directory.path().join("theirs");
        fs::create_dir(&theirs).unwrap();
        for number in 0..20_100 {
            fs::write(theirs.join(format!("pmix.here.tool.{number}")), "").unwrap();
        }
        chown(&theirs, Some(OTHER), None).unwrap();
        assert_eq!(list_and_left_out(directory.path(), &[], None).1, 20_030);
    }
}
