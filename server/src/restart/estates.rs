//! Finds what servers have left that were killed and are to be restarted.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use nix::errno::Errno;
use nix::fcntl::{OFlag, openat};
use nix::sys::socket::sockopt::PeerCredentials;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, connect, getsockopt, socket};
use nix::sys::stat::{Mode, fchmod, fstat};
use nix::unistd::geteuid;
use pmix_client::tool::has_ended;
use pmix_dstore::fallible_alloc;
use pmix_dstore::model::{Key, Nspace};
use pmix_dstore::segment::{Abandoned, FileId, JOURNAL_NAME, ModexReader, Publisher, SOCKET_NAME};

use super::LIVES_MAX;
use super::file;
use super::record::{Estate, HEADER_MAX, Origin, Segment};

/// The longest journal that is read.
const JOURNAL_MAX: u64 = 2 << 30;
/// How long the locks of servers that were killed may be held by their children, for all directories together.
const LOCK_WAIT: Duration = Duration::from_secs(5);
/// How many names of the directory are looked at.
const NAMES_MAX: usize = 16_384;

/// The directory of a namespace that nobody has registered again so far. Dropping it removes the directory.
pub(crate) struct Inherited(Option<Publisher>);

impl Inherited {
    /// The directory.
    pub fn into_publisher(mut self) -> Option<Publisher> {
        self.0.take()
    }
}

impl Drop for Inherited {
    fn drop(&mut self) {
        if let Some(publisher) = &self.0
            && publisher.is_of_this_process()
        {
            file::remove(publisher.dir_fd());
        }
    }
}

/// What was found.
#[derive(Default)]
pub(crate) struct Estates {
    pub estates: HashMap<Nspace, Estate>,
    pub directories: HashMap<Nspace, Inherited>,
    /// How many servers were before this one.
    pub life: u32,
    /// Lines for the log.
    pub lines: Vec<String>,
}

/// Looks in a directory for namespaces of servers of this lasting name that were killed, and takes them over.
pub(crate) fn find(server_tmpdir: &Path, server: &str) -> Estates {
    let mut found = Estates::default();
    // A server that cannot use the directory says so itself.
    let Ok(directory) = File::open(server_tmpdir) else { return found };
    let Ok(entries) = fs::read_dir(server_tmpdir) else { return found };
    let mut journals = Vec::new();
    let names = entries.flatten().map(|entry| entry.file_name()).filter(|name| Abandoned::is_name(name));
    let until = Instant::now() + LOCK_WAIT;
    for name in names.take(NAMES_MAX) {
        // Otherwise its server lives, or whoever sweeps the directory says what is wrong with it.
        let abandoned = match find_killed(&directory, &name, until) {
            Ok(Some(abandoned)) => abandoned,
            Ok(None) => continue,
            Err(why) => {
                found.refuse(server_tmpdir, &name, why);
                continue;
            }
        };
        match abandoned.inner().map(|inner| read_journal(inner, server, server_tmpdir, &name)) {
            Some(Ok(Some((estate, written)))) => journals.push((written, name, abandoned, estate)),
            Some(Err(why)) => found.refuse(server_tmpdir, &name, &why),
            Some(Ok(None)) | None => {}
        }
    }
    // The newest of a name counts.
    journals.sort_by_key(|(written, ..)| std::cmp::Reverse(*written));
    for (_, name, abandoned, (mut estate, line)) in journals {
        found.lines.extend(line);
        if found.estates.contains_key(&estate.nspace) {
            found.refuse(server_tmpdir, &name, "there is a newer one of the same job");
            continue;
        }
        let taken = Publisher::take_over(abandoned, server_tmpdir, &name, &estate.nspace);
        let taken = taken.and_then(|(publisher, readers)| {
            for (live, reader) in readers {
                estate.segments.push(contents_of(live.order, live.len, &reader)?);
            }
            Ok(publisher)
        });
        match taken {
            Ok(publisher) => {
                found.life = found.life.max(estate.origin.life + 1);
                found.directories.insert(estate.nspace.clone(), Inherited(Some(publisher)));
                found.estates.insert(estate.nspace.clone(), estate);
            }
            Err(why) => found.refuse(server_tmpdir, &name, &why),
        }
    }
    found
}

impl Estates {
    fn refuse(&mut self, server_tmpdir: &Path, name: &OsStr, why: &str) {
        let path = server_tmpdir.join(name);
        self.lines.push(format!("{}: not taken over from the server that was killed: {why}", path.display()));
    }
}

/// The directory of a server that was killed. Its lock may be held for a moment longer, and its socket may take connections: a child that it had
/// forked, and that has not become another program yet, has copies of both.
fn find_killed(directory: &File, name: &OsStr, until: Instant) -> Result<Option<Abandoned>, &'static str> {
    // A socket's address is short.
    let inside = PathBuf::from(format!("/proc/self/fd/{}", directory.as_raw_fd()));
    let inner = inside.join(name).join("s");
    let mut listener = Listener::Unknown;
    loop {
        match Abandoned::find(directory.as_fd(), name) {
            Ok(Some(abandoned)) => return Ok(Some(abandoned)),
            Ok(None) => {}
            // Whoever sweeps the directory says it.
            Err(_) => return Ok(None),
        }
        // That of another user; of a server that has not come so far; of none of those that may be started again.
        let is_own = |journal: Metadata| journal.uid() == geteuid().as_raw();
        if !inner.join(JOURNAL_NAME).symlink_metadata().is_ok_and(is_own) {
            return Ok(None);
        }
        if listener == Listener::Unknown {
            listener = Listener::of(&inner.join(SOCKET_NAME));
        }
        match listener {
            Listener::Alive => return Ok(None),
            Listener::Unknown if Instant::now() >= until => return Ok(None),
            Listener::Dead if Instant::now() >= until => {
                return Err("another process has it: a child of that server, or one that takes it over");
            }
            _ => thread::sleep(Duration::from_millis(5)),
        }
    }
}

/// Who listens at a socket.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Listener {
    /// A process that lives.
    Alive,
    /// Nobody, or children of a process that has ended: the socket has a name, or a copy, and nobody takes what comes.
    Dead,
    /// So many wait there that no more may come.
    Unknown,
}

impl Listener {
    fn of(path: &Path) -> Listener {
        let connected = || {
            let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
            let socket = socket(AddressFamily::Unix, SockType::Stream, flags, None)?;
            connect(socket.as_raw_fd(), &UnixAddr::new(path)?)?;
            // The one that has called `listen`, not those that have copies.
            getsockopt(&socket, PeerCredentials)
        };
        match connected() {
            Ok(who) if has_ended(who.pid()) => Listener::Dead,
            Err(Errno::ECONNREFUSED | Errno::ENOENT) => Listener::Dead,
            Err(Errno::EAGAIN) => Listener::Unknown,
            // Of a process that cannot be seen from here nothing is known.
            Ok(_) | Err(_) => Listener::Alive,
        }
    }
}

/// An estate with the line about it, and when its journal was last written.
type Found = ((Estate, Option<String>), SystemTime);

/// Opens the journal of a directory; `None` if there is none.
fn open_journal(inner: BorrowedFd<'_>) -> Result<Option<(File, Metadata)>, String> {
    let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK;
    let file = match openat(inner, JOURNAL_NAME, flags, Mode::empty()) {
        Ok(file) => File::from(file),
        Err(Errno::ENOENT) => return Ok(None),
        Err(errno) => return Err(format!("its journal: {}", io::Error::from(errno))),
    };
    let status = file.metadata().map_err(|error| format!("its journal: {error}"))?;
    if !status.is_file() || status.uid() != geteuid().as_raw() || status.mode() & 0o077 != 0 {
        return Err("its journal is no file that this server's user alone may read".into());
    }
    Ok(Some((file, status)))
}

/// Whether a journal is of this boot, and of the directory that it is in.
fn is_of(origin: &Origin, inner: BorrowedFd<'_>) -> Result<(), String> {
    // An empty one: the boot could not be read.
    if origin.boot.is_empty() || origin.boot != file::boot() {
        return Err("its journal is of another boot of this machine".into());
    }
    let id = fstat(inner).map_err(|errno| format!("its directory: {}", io::Error::from(errno)))?;
    if origin.directory != FileId::from(&id).to_string().as_bytes() {
        return Err("its journal is that of another directory".into());
    }
    Ok(())
}

/// Whether the directory of a killed server must stay for the one that is started in its place: clients may be waiting. Who starts nobody
/// in that place knows so by the server's lasting name, `own`. When a server was killed no file tells. So the first one who asks takes the
/// right to write away from the journal, if `marks`, which changes nothing else; the kernel notes when, and the time counts from there.
pub(crate) fn is_kept(abandoned: &Abandoned, own: Option<&str>, marks: bool) -> bool {
    let Some((inner, Ok(Some((mut file, status))))) = abandoned.inner().map(|inner| (inner, open_journal(inner)))
    else {
        return false;
    };
    let mut first = Vec::new();
    let is_read = file.by_ref().take(HEADER_MAX as u64).read_to_end(&mut first).is_ok();
    let origin = Estate::read_origin(&first).filter(|origin| is_read && is_of(origin, inner).is_ok());
    let Some(origin) = origin.filter(|origin| own.is_none_or(|own| own.as_bytes() != origin.server)) else {
        return false;
    };
    if status.mode() & 0o200 == 0 {
        let time = Duration::new(status.ctime().max(0).cast_unsigned(), status.ctime_nsec() as u32);
        let since = SystemTime::UNIX_EPOCH + time;
        return since.elapsed().is_ok_and(|time| time <= Duration::from_secs(origin.patience.into()));
    }
    // Where it cannot be marked, it would stay for ever.
    !marks || fchmod(&file, Mode::S_IRUSR).is_ok()
}

/// Reads the journal of a directory; `None` if there is none.
fn read_journal(
    inner: BorrowedFd<'_>,
    server: &str,
    server_tmpdir: &Path,
    name: &OsStr,
) -> Result<Option<Found>, String> {
    let Some((mut file, status)) = open_journal(inner)? else { return Ok(None) };
    if status.len() > JOURNAL_MAX {
        return Err(format!("its journal has {} bytes, more than {JOURNAL_MAX}", status.len()));
    }
    let mut bytes =
        fallible_alloc::filled(0, status.len() as usize).map_err(|error| format!("its journal: {error}"))?;
    file.read_exact(&mut bytes).map_err(|error| format!("its journal: {error}"))?;
    let (estate, cut) = Estate::read(&bytes).map_err(|why| format!("its journal: {why}"))?;
    is_of(&estate.origin, inner)?;
    if estate.origin.server != server.as_bytes() {
        let other = String::from_utf8_lossy(&estate.origin.server);
        return Err(format!("it is that of the server {other:?}, and this one is {server:?}"));
    }
    if estate.origin.life >= LIVES_MAX {
        return Err(format!("it has had {LIVES_MAX} servers"));
    }
    let path = server_tmpdir.join(name);
    let line =
        (cut > 0).then(|| format!("{}: the last {cut} bytes of its journal were not written whole", path.display()));
    let written = status.modified().unwrap_or(SystemTime::UNIX_EPOCH);
    Ok(Some(((estate, line), written)))
}

/// The values of a segment, in the order of ranks and keys.
fn contents_of(place: u64, bytes: u64, reader: &ModexReader) -> Result<Segment, String> {
    let mut contents = Vec::new();
    for rank in reader.ranks() {
        for (key, value) in reader.rank(rank) {
            let key = Key::new(key.text()).map_err(|_| "a segment has a key that is none")?;
            let value = value.to_value().map_err(|status| format!("a value of a segment: {status}"))?;
            fallible_alloc::push(&mut contents, (rank, key, Arc::new(value))).map_err(|error| error.to_string())?;
        }
    }
    if reader.is_damaged() {
        return Err("a segment is damaged".into());
    }
    Ok(Segment { place, bytes, contents })
}

#[cfg(test)]
#[path = "estates_tests.rs"]
mod tests;
