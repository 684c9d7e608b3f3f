//! The rendezvous files by which tools find this server, and other reports of its address.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use nix::unistd::close;
use pmix_client::env::URI_VARIABLES;
use pmix_client::regular_file::{OnLink, read_regular};
use pmix_client::rendezvous::{Contact, Point, date, proof_path};
use pmix_client::socket_owner::{Owner, Refusal, SocketTable};
use pmix_client::trusted::Trusted;
use pmix_dstore::segment::check_length;

use crate::config::{ANNOUNCED_VERSION, Config};
use crate::env;
use crate::secret::Secret;

/// A running server answers on the loopback interface at once.
const ALIVE_WAIT: Duration = Duration::from_millis(500);

/// The files of a server; a drop removes them.
#[derive(Default)]
pub(crate) struct Rendezvous {
    /// Paths and contents of the written files.
    files: Vec<(PathBuf, String)>,
    /// Directories that this server has created.
    directories: Vec<PathBuf>,
    /// The address for tools on this node.
    uri: String,
}

impl Rendezvous {
    /// Writes the files. A file of a server that has ended is replaced; the file of a running server stays. `log` gets a line about
    /// this, and about a file that cannot be written: a file of another user with this name must not keep the server from starting.
    ///
    /// # Errors
    /// The URI cannot be reported as the host requests: the path and the system's error.
    pub fn open(
        config: &Config,
        port: u16,
        remote: &[SocketAddr],
        log: impl Fn(String),
    ) -> Result<Rendezvous, (PathBuf, io::Error)> {
        pmix_dstore::file_ban::check();
        let Config { rendezvous: wanted, hostname, server_tmpdir: session, system_tmpdir: system, .. } = config;
        let uri = env::uri(config, port);
        let (pid, nspace) = (std::process::id().to_string(), config.me.nspace.to_string());
        let points = [
            (wanted.system, system, Point::System),
            (wanted.scheduler, system, Point::Scheduler),
            (wanted.session, session, Point::Session),
            (wanted.tools, session, Point::Server(&pid)),
            (wanted.tools, session, Point::Server(&nspace)),
        ];
        let wanted_points = points.into_iter().filter(|(is_wanted, ..)| *is_wanted);
        let paths: Vec<PathBuf> =
            wanted_points.map(|(_, directory, point)| directory.join(point.file_name(hostname))).collect();
        let mut rendezvous = Rendezvous { uri: uri.clone(), files: Vec::new(), directories: Vec::new() };
        if !wanted.files.is_empty() || !paths.is_empty() {
            let trusted = Trusted::of_node(&log);
            let text = contact_text(config, &uri);
            let proof = config.tool_secret.as_ref().map(|secret| format!("{uri}\n{}\n", secret.text()));
            let mut failed = Vec::new();
            for path in wanted.files.iter().chain(&paths) {
                if let Some(other) = living(path, &trusted) {
                    log(format!("{}: it is that of process {other}, which lives; it stays", path.display()));
                } else if let Err(error) = rendezvous.write_for_tools(path, &text, proof.as_deref()) {
                    failed.push((path.as_path(), error));
                }
            }
            let for_others = session.join(Point::Remote(&pid).file_name(hostname));
            if let Some(address) = remote.first()
                && let Err(error) =
                    rendezvous.write(&for_others, &contact_text(config, &env::uri_at(&config.me, *address)), 0o644)
            {
                // Without a proof: a secret does not go over the network.
                failed.push((for_others.as_path(), error));
            }
            if let Some(line) = failure(&failed) {
                log(line);
            }
        }
        if let Some(target) = &wanted.report {
            rendezvous.report(target).map_err(|error| (target.into(), error))?;
        }
        Ok(rendezvous)
    }

    /// Writes a file for tools, and the proof beside it.
    fn write_for_tools(&mut self, path: &Path, text: &str, proof: Option<&str>) -> io::Result<()> {
        // First the proof, so that a reader of the rendezvous file finds it.
        if let Some(proof) = proof {
            self.write(&proof_path(path), proof, 0o600)?;
        }
        self.write(path, text, 0o644)
    }

    /// Writes a file under another name and renames it: no reader sees a part of it, an existing file is replaced, and no link is followed.
    fn write(&mut self, path: &Path, text: &str, mode: u32) -> io::Result<()> {
        check_length(text.len() as u64)?;
        let directory = path.parent().unwrap_or(Path::new("."));
        self.make_directories(directory)?;
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_string_lossy();
        // Random, because another user could occupy a predictable name beforehand.
        let secret = Secret::new().map_err(io::Error::other)?;
        let new = directory.join(format!(".{name}.{}", &secret.text()[..16]));
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
        let written = file
            // Independent of the umask: a rendezvous file is not secret, and the server itself refuses users without access.
            .set_permissions(fs::Permissions::from_mode(mode))
            .and_then(|()| file.write_all(text.as_bytes()))
            .and_then(|()| fs::rename(&new, path));
        if written.is_err() {
            let _ = fs::remove_file(&new);
        }
        written?;
        self.files.push((path.to_owned(), text.to_owned()));
        Ok(())
    }

    fn make_directories(&mut self, directory: &Path) -> io::Result<()> {
        let missing: Vec<&Path> =
            directory.ancestors().take_while(|path| !path.as_os_str().is_empty() && !path.exists()).collect();
        for path in missing.into_iter().rev() {
            fs::DirBuilder::new().mode(0o755).create(path)?;
            self.directories.push(path.to_owned());
        }
        Ok(())
    }

    /// The address for tools on this node.
    pub fn uri(&self) -> &str {
        &self.uri
    }

    /// Writes the address where the host wants it: to stdout (`-`), stderr (`+`), a descriptor or a file.
    pub fn report(&mut self, target: &str) -> io::Result<()> {
        let uri = self.uri.clone();
        match target {
            "-" => writeln!(io::stdout(), "{uri}"),
            "+" => writeln!(io::stderr(), "{uri}"),
            _ => match target.parse::<i32>() {
                Ok(descriptor) => {
                    let names = URI_VARIABLES.map(|(name, ..)| name).join(":");
                    let path = format!("/proc/self/fd/{descriptor}");
                    let written =
                        File::options().write(true).open(path)?.write_all(format!("{names};{uri}\0").as_bytes());
                    // Closed, because the reader waits for the end of file.
                    let _ = close(descriptor);
                    written
                }
                Err(_) => {
                    let text = format!("{uri}\nv{ANNOUNCED_VERSION}\n");
                    self.write(&std::path::absolute(target)?, &text, 0o644)
                }
            },
        }
    }
}

impl Drop for Rendezvous {
    fn drop(&mut self) {
        for (path, text) in &self.files {
            // Another server may have replaced the file meanwhile.
            let found = read_regular(path, OnLink::Refuse, text.len() as u64);
            if found.is_ok_and(|(found, _)| found == *text) {
                let _ = fs::remove_file(path);
            }
        }
        // `remove_dir` fails for a directory with files of others; it stays.
        self.directories.iter().rev().for_each(|directory| drop(fs::remove_dir(directory)));
    }
}

/// The text of a file for tools.
fn contact_text(config: &Config, uri: &str) -> String {
    let (pid, date) = (std::process::id(), date(SystemTime::now()));
    format!("{uri}\n{ANNOUNCED_VERSION}\n{pid}\n{}:{}\n{date}\n\n", config.uid, config.gid)
}

/// One line about all files that could not be written: a full file system is the same cause for each.
fn failure(failed: &[(&Path, io::Error)]) -> Option<String> {
    let ((path, error), rest) = failed.split_first()?;
    let (more, these) = if rest.is_empty() {
        (String::new(), "this file")
    } else {
        (format!(" and {} more", rest.len()), "these files")
    };
    Some(format!(
        "{}{more}: {error}; tools cannot find this server by {these}; remove the cause and restart the server",
        path.display()
    ))
}

/// The process of a rendezvous file, if it is another process and still listens. A file of a user who is not trusted is ignored:
/// any user can name a pid and a port. Any process can get the pid and the port of a server that has ended, so the listener counts
/// only if its user is trusted.
fn living(path: &Path, trusted: &Trusted) -> Option<i32> {
    let Contact { uri, pid, .. } = Contact::read_found(path, trusted).ok()?;
    let pid = pid.filter(|pid| *pid != std::process::id() as i32)?;
    if !Path::new(&format!("/proc/{pid}")).exists() {
        return None;
    }
    // Opened before the connection: opening takes time, in which the listener could close.
    let mut table = SocketTable::open();
    let _connected = TcpStream::connect_timeout(&uri.address, ALIVE_WAIT).ok()?;
    let lives = match table.listener_at(uri.address) {
        Owner::User(uid) => trusted.holds(uid),
        // It has answered, and is gone. This kernel has no sockets of another host's address.
        Owner::Refused(Refusal::NoSocket | Refusal::State(_) | Refusal::NotHeld) => !uri.address.ip().is_loopback(),
        // The user has no uid in this user namespace, so it is not trusted.
        Owner::Refused(Refusal::NoNumber) => false,
        // The kernel does not report the user.
        Owner::Refused(_) | Owner::NoTable => true,
    };
    lives.then_some(pid)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::os::unix::fs::{FileTypeExt, chown};
    use std::thread;

    use nix::sys::stat::Mode;
    use nix::unistd::{Uid, geteuid, mkfifo, setfsuid};
    use parking_lot::Mutex;
    use pmix_dstore::model::{Info, Value, keys};

    use super::*;
    use crate::left_out::left_out;

    fn config(directory: &Path, flags: &[&'static str]) -> Config {
        let path = |name: &str| Value::string(directory.join(name).into_os_string().into_encoded_bytes());
        let mut infos = vec![
            Info::new(keys::SERVER_TMPDIR, path("session/deep")),
            Info::new(keys::SYSTEM_TMPDIR, path("")),
            Info::new(keys::HOSTNAME, Value::string("here")),
            Info::new(keys::SERVER_NSPACE, Value::string("host")),
        ];
        infos.extend(flags.iter().map(|flag| Info::new(*flag, Value::Bool(true))));
        Config::read(&infos).unwrap()
    }

    fn names(directory: &Path) -> Vec<String> {
        let mut found: Vec<String> = fs::read_dir(directory)
            .map(|entries| entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect())
            .unwrap_or_default();
        found.sort();
        found
    }

    #[test]
    fn files_are_there_as_wanted_and_go_with_the_server() {
        let temporary = tempfile::tempdir().unwrap();
        let config = config(
            temporary.path(),
            &[
                keys::SERVER_SYSTEM_SUPPORT,
                keys::SERVER_SESSION_SUPPORT,
                keys::SERVER_TOOL_SUPPORT,
                keys::SERVER_SCHEDULER,
            ],
        );
        let rendezvous = Rendezvous::open(&config, 4711, &[], |line| panic!("{line}")).unwrap();
        let public = |directory: &Path| {
            let mut all = names(directory);
            all.retain(|name| !name.starts_with('.'));
            all
        };
        assert_eq!(public(temporary.path()), ["pmix.sched.here", "pmix.sys.here", "session"]);
        let session = temporary.path().join("session/deep");
        let own = format!("pmix.here.tool.{}", std::process::id());
        assert_eq!(public(&session), ["pmix.here.tool", &own, "pmix.here.tool.host"]);
        // Each has the same proof beside it, readable for the server's user only.
        let proof = fs::read_to_string(session.join(".pmix.here.tool.proof")).unwrap();
        assert!(proof.ends_with(&format!("\n{}\n", config.tool_secret.as_ref().unwrap().text())), "{proof}");
        for path in [temporary.path().join(".pmix.sys.here.proof"), session.join(format!(".{own}.proof"))] {
            assert_eq!(fs::read_to_string(&path).unwrap(), proof);
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o600);
        }
        let contact = Contact::read(&session.join(own)).unwrap();
        assert_eq!((contact.uri.address.port(), contact.version.as_str()), (4711, ANNOUNCED_VERSION));
        assert_eq!(contact.pid, Some(std::process::id() as i32));
        drop(rendezvous);
        assert!(names(temporary.path()).is_empty(), "with the directories that were made for them");
    }

    #[test]
    fn a_file_of_a_dead_server_is_replaced_and_that_of_a_living_one_stays() {
        let temporary = tempfile::tempdir().unwrap();
        let config = config(temporary.path(), &[keys::SERVER_SYSTEM_SUPPORT]);
        let path = temporary.path().join("pmix.sys.here");
        let there = TcpListener::bind("127.0.0.1:0").unwrap();
        let living = format!("other.0;tcp4://{}\n4.2.2\n1\n0:0\n\n", there.local_addr().unwrap());
        fs::write(&path, &living).unwrap();
        let lines = Mutex::new(Vec::new());
        let log = |line| lines.lock().push(line);
        drop(Rendezvous::open(&config, 1, &[], log).unwrap());
        assert_eq!(fs::read_to_string(&path).unwrap(), living);
        assert!(lines.lock()[0].contains("process 1, which lives"), "{lines:?}");
        // The process lives, but does not listen any more.
        drop(there);
        let rendezvous = Rendezvous::open(&config, 1, &[], |line| panic!("{line}")).unwrap();
        assert!(fs::read_to_string(&path).unwrap().starts_with("host.0;tcp4://127.0.0.1:1\n"));
        // Another server has replaced the file.
        fs::remove_file(&path).unwrap();
        fs::write(&path, "theirs").unwrap();
        drop(rendezvous);
        assert_eq!(fs::read_to_string(&path).unwrap(), "theirs");
    }

    #[test]
    fn no_link_is_followed() {
        let temporary = tempfile::tempdir().unwrap();
        let config = config(temporary.path(), &[keys::SERVER_SYSTEM_SUPPORT]);
        let precious = temporary.path().join("precious");
        fs::write(&precious, "mine").unwrap();
        std::os::unix::fs::symlink(&precious, temporary.path().join("pmix.sys.here")).unwrap();
        drop(Rendezvous::open(&config, 1, &[], |line| panic!("{line}")).unwrap());
        assert_eq!(fs::read_to_string(&precious).unwrap(), "mine");
    }

    /// Files of other users in the place of the server's file; the server starts in each of these cases.
    #[test]
    fn the_server_starts_over_any_file_of_its_contact_name() {
        let temporary = tempfile::tempdir().unwrap();
        let path = temporary.path().join("pmix.sys.here");
        let config = config(temporary.path(), &[keys::SERVER_SYSTEM_SUPPORT]);
        // A FIFO without a writer.
        mkfifo(&path, Mode::S_IRWXU).unwrap();
        let rendezvous = Rendezvous::open(&config, 1, &[], |line| panic!("{line}")).unwrap();
        assert!(fs::read_to_string(&path).unwrap().contains("127.0.0.1:1\n"));
        // The same in the place of the server's own, when it ends.
        fs::remove_file(&path).unwrap();
        mkfifo(&path, Mode::S_IRWXU).unwrap();
        drop(rendezvous);
        assert!(fs::symlink_metadata(&path).unwrap().file_type().is_fifo());
        fs::remove_file(&path).unwrap();
        // A directory, which cannot be replaced, and is logged.
        fs::create_dir(&path).unwrap();
        let lines = Mutex::new(Vec::new());
        drop(Rendezvous::open(&config, 1, &[], |line| lines.lock().push(line)).unwrap());
        let lines = lines.into_inner();
        assert!(lines.len() == 1 && lines[0].contains("pmix.sys.here: "), "{lines:?}");
        assert_eq!(names(temporary.path()), ["pmix.sys.here"], "and nothing else is left");
        fs::remove_dir(&path).unwrap();
        // The temporary name of the new file.
        fs::create_dir(temporary.path().join(format!(".pmix.sys.here.{}", std::process::id()))).unwrap();
        drop(Rendezvous::open(&config, 1, &[], |line| panic!("{line}")).unwrap());
    }

    #[test]
    fn a_foreign_contact_file_is_no_living_server() {
        if !geteuid().is_root() {
            return left_out("root", "only root can have another user's files");
        }
        let temporary = tempfile::tempdir().unwrap();
        let config = config(temporary.path(), &[keys::SERVER_SYSTEM_SUPPORT]);
        let path = temporary.path().join("pmix.sys.here");
        let there = TcpListener::bind("127.0.0.1:0").unwrap();
        fs::write(&path, format!("other.0;tcp4://{}\n4.2.2\n1\n0:0\n\n", there.local_addr().unwrap())).unwrap();
        chown(&path, Some(65_534), None).unwrap();
        let _rendezvous = Rendezvous::open(&config, 1, &[], |line| panic!("{line}")).unwrap();
        assert!(fs::read_to_string(&path).unwrap().starts_with("host.0;tcp4://127.0.0.1:1\n"));
    }

    #[test]
    fn a_listener_of_another_user_is_no_living_server() {
        if !geteuid().is_root() {
            return left_out("root", "only root can have another user's sockets");
        }
        let temporary = tempfile::tempdir().unwrap();
        let config = config(temporary.path(), &[keys::SERVER_SYSTEM_SUPPORT]);
        let path = temporary.path().join("pmix.sys.here");
        // The server has ended, and another process has its pid and its port.
        let there = thread::spawn(|| {
            setfsuid(Uid::from_raw(65_534));
            TcpListener::bind("127.0.0.1:0").unwrap()
        });
        let there = there.join().unwrap();
        fs::write(&path, format!("other.0;tcp4://{}\n4.2.2\n1\n0:0\n\n", there.local_addr().unwrap())).unwrap();
        let _rendezvous = Rendezvous::open(&config, 1, &[], |line| panic!("{line}")).unwrap();
        assert!(fs::read_to_string(&path).unwrap().starts_with("host.0;tcp4://127.0.0.1:1\n"));
    }
}
