//! Connecting again to a server that was killed and started again (`docs/restart.md`).
//!
//! The connection is made as at the start: the same directory, the same check of the listener's user, the same secret. What waits for a reply
//! is sent again where that is safe, as [`COMMANDS`] says.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use pmix_dstore::codec::{Dialect, Unpacker};
use pmix_dstore::gather::{GatherBuf, Slices};
use pmix_dstore::log::{self, Level, Target, Writer};
use pmix_dstore::model::{Info, Proc, Status, Value};
use pmix_dstore::segment::Directory;
use pmix_wire::{Command, FORMER_INDEX, Hello};

use super::connect;

/// The pauses between two attempts: the first, and the longest.
const PAUSES: [Duration; 2] = [Duration::from_millis(2), Duration::from_millis(100)];

/// Whether a request whose reply has not come may be sent to the restarted server, which may have done before its end what it asks for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Repeat {
    /// It only reads, or doing it twice is doing it once; or the server knows that it has done it.
    Safe,
    /// Its caller gets [`Status::ERR_COMM_FAILURE`], and the connection goes on.
    Never,
}

/// All requests.
const COMMANDS: [(Command, Repeat); 38] = [
    (Command::JOB_INFO, Repeat::Safe),
    (Command::COMMIT, Repeat::Safe),
    // The server's journal has the fences that are over.
    (Command::FENCE, Repeat::Safe),
    (Command::GET, Repeat::Safe),
    (Command::FINALIZE, Repeat::Safe),
    (Command::LOOKUP, Repeat::Safe),
    (Command::REGISTER_EVENTS, Repeat::Safe),
    (Command::DEREGISTER_EVENTS, Repeat::Safe),
    (Command::QUERY, Repeat::Safe),
    (Command::GET_CREDENTIAL, Repeat::Safe),
    (Command::VALIDATE_CREDENTIAL, Repeat::Safe),
    (Command::IO_PULL, Repeat::Safe),
    (Command::IO_DEREGISTER, Repeat::Safe),
    (Command::FABRIC_REGISTER, Repeat::Safe),
    (Command::FABRIC_UPDATE, Repeat::Safe),
    (Command::DEVICE_DISTANCES, Repeat::Safe),
    (Command::REFRESH_CACHE, Repeat::Safe),
    (Command::SYSTEM_INFO, Repeat::Safe),
    (Command::RESOLVE_PEERS, Repeat::Safe),
    (Command::RESOLVE_NODES, Repeat::Safe),
    (Command::JOB_INFO_FALLBACK, Repeat::Safe),
    (Command::ABORT, Repeat::Never),
    (Command::PUBLISH, Repeat::Never),
    (Command::UNPUBLISH, Repeat::Never),
    (Command::SPAWN, Repeat::Never),
    (Command::CONNECT, Repeat::Never),
    (Command::DISCONNECT, Repeat::Never),
    (Command::NOTIFY, Repeat::Never),
    (Command::LOG, Repeat::Never),
    (Command::ALLOCATE, Repeat::Never),
    (Command::JOB_CONTROL, Repeat::Never),
    (Command::MONITOR, Repeat::Never),
    (Command::IO_PUSH, Repeat::Never),
    (Command::GROUP_CONSTRUCT, Repeat::Never),
    (Command::GROUP_LEAVE, Repeat::Never),
    (Command::GROUP_DESTRUCT, Repeat::Never),
    (Command::RESOURCE_BLOCK, Repeat::Never),
    (Command::SESSION_CONTROL, Repeat::Never),
];

/// Whether an encoded request, of which `first` is the beginning at least, may be sent to the restarted server again.
pub fn may_repeat(dialect: Dialect, first: &[u8]) -> bool {
    let command = Unpacker::new(dialect, first).command();
    command.is_ok_and(|code| COMMANDS.contains(&(Command(code), Repeat::Safe)))
}

/// How a connection that has ended is made again.
pub trait Redial: Send + Sync {
    /// For how long it is tried.
    fn patience(&self) -> Duration;

    /// Tries once; `former` is the index of the former connection.
    fn dial(&self, former: i32, deadline: Instant) -> Dialled;

    /// Requests that the restarted server gets first.
    fn greetings(&self) -> Vec<Vec<u8>>;

    /// Whether a request may be sent again.
    fn may_repeat(&self, payload: &GatherBuf) -> bool;
}

/// What came of an attempt.
pub enum Dialled {
    /// The server has let this process in, with this index.
    Connected(OwnedFd, i32),
    /// No server listens yet, or it does not know this process yet.
    NotYet,
    /// No server will come.
    Never,
}

/// Tries until the server is there, or will not come. `is_over` waits for the given time, and tells whether nobody wants the connection any
/// more.
pub fn dial(redial: &dyn Redial, former: i32, is_over: impl Fn(Duration) -> bool) -> Option<(OwnedFd, i32)> {
    let until = Instant::now() + redial.patience();
    let [mut pause, longest] = PAUSES;
    loop {
        match redial.dial(former, until) {
            Dialled::Connected(socket, index) => return Some((socket, index)),
            Dialled::Never => return None,
            Dialled::NotYet => {}
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() || is_over(pause.min(left)) {
            return None;
        }
        pause = (2 * pause).min(longest);
    }
}

/// Makes a first connection to a server that may be about to be restarted. `connect` also tells whether the server may come yet.
///
/// # Errors
/// The last one of `connect`.
pub fn insist<T>(connect: impl Fn() -> Result<T, (bool, String)>, until: Instant) -> Result<T, String> {
    let [mut pause, longest] = PAUSES;
    loop {
        match connect() {
            Ok(connected) => return Ok(connected),
            Err((true, _)) if Instant::now() < until => std::thread::sleep(pause),
            Err((_, why)) => return Err(why),
        }
        pause = (2 * pause).min(longest);
    }
}

/// Encodes the requests that a restarted server gets first.
pub type Greet = Box<dyn Fn(Dialect) -> Vec<Vec<u8>> + Send + Sync>;

/// The way to our own server, over the socket in the namespace's directory.
pub struct OurServer {
    /// The directory, which the restarted server takes over.
    pub directory: Arc<Directory>,
    /// This process.
    pub me: Proc,
    /// The former handshake.
    pub hello: Hello,
    /// The encoding of payloads.
    pub dialect: Dialect,
    /// For how long it is tried.
    pub patience: Duration,
    /// What the server gets first.
    pub greet: Greet,
    /// The line about a listener of another user has been written.
    pub has_warned: AtomicBool,
}

impl OurServer {
    fn log(&self, level: Level, line: &str) {
        log::write(level, Target::Connection, Writer::Client(&self.me), format_args!("{line}"));
    }
}

impl Redial for OurServer {
    fn patience(&self) -> Duration {
        self.patience
    }

    fn dial(&self, former: i32, deadline: Instant) -> Dialled {
        // A server that ends as its host wants removes the directory.
        if self.directory.is_removed() {
            return Dialled::Never;
        }
        let socket = match connect::dial(&self.directory, deadline) {
            Ok(socket) => socket,
            Err(error) => {
                if error.kind() == std::io::ErrorKind::PermissionDenied
                    && !self.has_warned.swap(true, Ordering::Relaxed)
                {
                    let path = self.directory.path().display();
                    let line = format!(
                        "another user than the server's listens at the socket in {path}; this process does not connect there"
                    );
                    self.log(Level::Warn, &line);
                }
                return Dialled::NotYet;
            }
        };
        let infos = vec![Info::new(FORMER_INDEX, Value::Uint32(former as u32))];
        let Ok(hello) = (Hello { infos, ..self.hello.clone() }).encode() else { return Dialled::Never };
        match socket.introduce(&hello, deadline) {
            Ok((socket, index)) => {
                self.log(Level::Info, "the server was restarted; connected to it again");
                Dialled::Connected(socket, index)
            }
            // It closes the connection without an answer until its host has registered this process again.
            Err(Status::ERR_UNREACH | Status::ERR_TIMEOUT) => Dialled::NotYet,
            Err(_) => Dialled::Never,
        }
    }

    fn greetings(&self) -> Vec<Vec<u8>> {
        (self.greet)(self.dialect)
    }

    fn may_repeat(&self, payload: &GatherBuf) -> bool {
        may_repeat(self.dialect, payload.slices().next().unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::net::UnixListener;

    use nix::unistd::geteuid;
    use pmix_dstore::codec::{BufferType, Module};
    use pmix_dstore::model::{Nspace, Rank};
    use pmix_dstore::segment::FileId;

    use super::*;
    use crate::left_out::left_out;

    #[test]
    fn a_listener_of_another_user_gets_nothing_and_a_removed_directory_ends_the_wait() {
        if !geteuid().is_root() {
            return left_out("root", "only root can give files away");
        }
        let temporary = tempfile::tempdir().unwrap();
        let path = temporary.path().join("s");
        std::fs::create_dir(&path).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        std::os::unix::fs::chown(&path, Some(65_534), None).unwrap();
        let listener = UnixListener::bind(path.join("sock")).unwrap();
        let me = Proc::new(Nspace::new("job").unwrap(), Rank(0));
        let hello = Hello {
            psec: "test".into(),
            credential: b"secret".to_vec(),
            flag: 0,
            uid_gid: None,
            proc: Some(me.clone()),
            version: "4.2.2".into(),
            module: Module::V41,
            buffer: BufferType::NonDescribed,
            gds: "test".into(),
            infos: Vec::new(),
        };
        let server = OurServer {
            directory: Arc::new(Directory::open(&path, FileId::of(&path).unwrap()).unwrap()),
            me,
            hello,
            dialect: Dialect::plain(Module::V41),
            patience: Duration::from_secs(60),
            greet: Box::new(|_| Vec::new()),
            has_warned: AtomicBool::new(false),
        };
        let deadline = Instant::now() + Duration::from_secs(60);
        assert!(matches!(server.dial(3, deadline), Dialled::NotYet));
        assert!(server.has_warned.load(Ordering::Relaxed));
        let (mut peer, _) = listener.accept().unwrap();
        assert_eq!(peer.read(&mut [0]).unwrap(), 0, "not even the secret");
        drop(listener);
        std::fs::remove_dir_all(&path).unwrap();
        assert!(matches!(server.dial(3, deadline), Dialled::Never));
    }

    #[test]
    fn each_command_is_in_the_table_once() {
        for code in 0..=u8::MAX {
            let entries = COMMANDS.iter().filter(|(command, _)| command.0 == code).count();
            let is_sent = Command(code).name() != "UNKNOWN"
                && ![Command::GROUP_JOIN, Command::GROUP_INVITE].contains(&Command(code));
            assert_eq!(entries, usize::from(is_sent), "{}", Command(code).name());
        }
    }
}
