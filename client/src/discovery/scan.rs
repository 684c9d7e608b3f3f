//! Searches directories for rendezvous files.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::net::{IpAddr, TcpStream};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::ifaddrs::getifaddrs;
use nix::sys::signal::kill;
use nix::sys::socket::SockaddrStorage;
use nix::unistd::Pid;

use crate::rendezvous::{Contact, ContactFile, Unusable};
use crate::socket_owner::{Owner, Refusal, SocketTable};
use crate::trusted::Trusted;

/// The depth to which directories are searched for rendezvous files.
const DEPTH_MAX: usize = 8;
/// The number of unusable files that a search reports. Any user can create files in directories for temporary files.
const UNUSABLE_MAX: usize = 100;
/// The number of entries that are looked at below directories of other users, who may make any number of them.
const ENTRIES_OF_OTHERS_MAX: usize = 20_000;
/// A node's own address answers at once.
const CONNECT_TIME: Duration = Duration::from_millis(500);

/// What a search has found.
#[derive(Default)]
pub(crate) struct Found {
    /// The files that name a server, and why it cannot be reached. The server's process may have ended.
    pub servers: Vec<(Contact, Option<Unusable>)>,
    /// Files and directories that cannot be used, and why.
    pub unusable: Vec<(PathBuf, Unusable)>,
    /// The files and directories that were read: a directory may be searched by itself and as part of another.
    seen: HashSet<PathBuf>,
    /// When to stop: a file system may be slow.
    until: Option<Instant>,
    /// What is left out, if that is counted.
    left_out: Option<LeftOut>,
}

/// Files of users who are not trusted, of which no more than the names are seen.
#[derive(Default)]
struct LeftOut {
    files: usize,
    entries: usize,
}

impl Found {
    /// Nothing, and a search that stops then.
    pub fn within(until: Instant) -> Found {
        Found { until: Some(until), ..Found::default() }
    }

    /// Nothing, and a search that counts the files of other users that it leaves out.
    pub fn counting() -> Found {
        Found { left_out: Some(LeftOut::default()), ..Found::default() }
    }

    /// The files of other users that were left out.
    pub fn left_out(&self) -> usize {
        self.left_out.as_ref().map_or(0, |left_out| left_out.files)
    }

    /// Whether the time is over, so that the search is not complete.
    pub fn is_late(&self) -> bool {
        self.until.is_some_and(|until| Instant::now() >= until)
    }

    /// The servers that can be reached.
    pub fn usable(&self) -> impl Iterator<Item = &Contact> {
        self.servers.iter().filter(|(_, unusable)| unusable.is_none()).map(|(contact, _)| contact)
    }

    /// The servers that can be reached, each once.
    pub fn distinct(&self) -> Vec<&Contact> {
        let mut all: Vec<&Contact> = Vec::new();
        for contact in self.usable() {
            if !all.iter().any(|other| other.uri == contact.uri) {
                all.push(contact);
            }
        }
        all
    }

    /// Reads one rendezvous file.
    pub fn add(&mut self, path: &Path, trusted: &Trusted) {
        if !self.seen.insert(path.to_owned()) {
            return;
        }
        match Contact::read_found(path, trusted) {
            Ok(contact) => self.servers.push((contact, None)),
            Err(why) => self.skip(path, why),
        }
    }

    fn skip(&mut self, path: &Path, why: Unusable) {
        if self.unusable.len() < UNUSABLE_MAX {
            self.unusable.push((path.to_owned(), why));
        } else if let (Unusable::NotTrusted(_), Some(left_out)) = (why, &mut self.left_out) {
            left_out.files += 1;
        }
    }

    /// Adds the files below a directory whose names are wanted. Directories of users who are not trusted are skipped:
    /// they may be of any size, and may change during the search.
    pub fn search(&mut self, directory: &Path, trusted: &Trusted, is_wanted: &mut impl FnMut(&str) -> bool) {
        self.search_at(directory, 0, trusted, is_wanted);
    }

    fn search_at(
        &mut self,
        directory: &Path,
        depth: usize,
        trusted: &Trusted,
        is_wanted: &mut impl FnMut(&str) -> bool,
    ) {
        if !self.seen.insert(directory.to_owned()) {
            return;
        }
        let entries = match fs::read_dir(directory) {
            Ok(entries) => entries,
            Err(error) => {
                // Below, private directories of other users are no news.
                if depth == 0 && error.kind() != io::ErrorKind::NotFound {
                    self.skip(directory, Unusable::Unreadable(error.to_string()));
                }
                return;
            }
        };
        for entry in entries.flatten() {
            if self.is_late() {
                return;
            }
            let Ok(kind) = entry.file_type() else { continue };
            let is_file = entry.file_name().to_str().is_some_and(&mut *is_wanted);
            if kind.is_dir() {
                if depth >= DEPTH_MAX {
                    continue;
                }
                if entry.metadata().is_ok_and(|metadata| trusted.holds(metadata.uid())) {
                    self.search_at(&entry.path(), depth + 1, trusted, is_wanted);
                } else if let Some(left_out) = &mut self.left_out {
                    left_out.count(&entry.path(), depth + 1, is_wanted);
                }
            } else if is_file {
                self.add(&entry.path(), trusted);
            }
        }
    }

    /// Marks the servers whose processes have ended, or do not listen.
    pub fn check(&mut self, trusted: &Trusted) {
        // Not always opened, because that takes a connection of this process to itself.
        let mut table = None;
        for (contact, unusable) in self.servers.iter_mut().filter(|(_, unusable)| unusable.is_none()) {
            *unusable = match contact.pid {
                Some(pid) if !lives(pid) => Some(Unusable::Ended(pid)),
                _ => not_listening(contact, trusted, table.get_or_insert_with(SocketTable::open)),
            };
        }
    }
}

impl LeftOut {
    /// Counts the files below a directory whose names are wanted. What this user cannot read is not counted.
    fn count(&mut self, directory: &Path, depth: usize, is_wanted: &mut impl FnMut(&str) -> bool) {
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            if self.entries >= ENTRIES_OF_OTHERS_MAX {
                return;
            }
            self.entries += 1;
            let Ok(kind) = entry.file_type() else { continue };
            if kind.is_dir() && depth < DEPTH_MAX {
                self.count(&entry.path(), depth + 1, is_wanted);
            } else if kind.is_file() && entry.file_name().to_str().is_some_and(&mut *is_wanted) {
                self.files += 1;
            }
        }
    }
}

/// Whether a process has ended, though its parent may not have taken note of it.
#[must_use]
pub fn has_ended(pid: i32) -> bool {
    if pid <= 0 {
        return false;
    }
    if !lives(pid) {
        return true;
    }
    let stat = fs::read(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The state comes after the name, which may contain any bytes.
    let end = stat.iter().rposition(|byte| *byte == b')').unwrap_or_default();
    stat.get(end + 2).is_some_and(|state| matches!(state, b'Z' | b'X'))
}

/// Whether a process may be alive. The check must allow for EPERM, because the process may be another user's.
pub(crate) fn lives(pid: i32) -> bool {
    pid > 0 && kill(Pid::from_raw(pid), None) != Err(Errno::ESRCH)
}

/// Why no server of this user stands behind a contact file: its process has ended, and nobody of this user listens at its address. `None` if
/// one may. Each alone proves nothing: a server may have another process number where it runs, and a port is somebody's again.
pub fn ended(path: &Path, trusted: &Trusted) -> Option<Unusable> {
    let contact = Contact::read_found(path, trusted).ok()?;
    if contact.pid.is_some_and(lives) {
        return None;
    }
    let (pid, address) = (contact.pid, contact.uri.address);
    let silent = if address.ip().is_loopback() {
        not_listening(&Contact { pid: None, ..contact }, trusted, &mut SocketTable::open())
    } else {
        // At an address of this node a server listens for other hosts. One that is another's by now tells nothing of it.
        if !is_of_this_node(address.ip()) {
            return None;
        }
        let refused = TcpStream::connect_timeout(&address, CONNECT_TIME);
        let is_refused = refused.is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused);
        is_refused.then_some(Unusable::NobodyListens(address))
    };
    silent.map(|silent| pid.map_or(silent, Unusable::Ended))
}

fn is_of_this_node(address: IpAddr) -> bool {
    let is_same = |found: SockaddrStorage| match address {
        IpAddr::V4(address) => found.as_sockaddr_in().is_some_and(|found| found.ip() == address),
        IpAddr::V6(address) => found.as_sockaddr_in6().is_some_and(|found| found.ip() == address),
    };
    getifaddrs().is_ok_and(|mut all| all.any(|interface| interface.address.is_some_and(is_same)))
}

/// Why a server does not listen at its address, as far as this kernel tells.
fn not_listening(contact: &Contact, trusted: &Trusted, table: &mut SocketTable) -> Option<Unusable> {
    let address = contact.uri.address;
    // This kernel does not know sockets of other hosts.
    if !address.ip().is_loopback() {
        return None;
    }
    let owner_of_file = contact.file.as_ref().map(|ContactFile { owner, .. }| *owner);
    match table.listener_at(address) {
        Owner::User(uid) if !trusted.holds(uid) && Some(uid) != owner_of_file => {
            Some(Unusable::OtherUser(address, uid))
        }
        Owner::User(_) => {
            let pid = contact.pid?;
            let is_others = table.is_listener_of(address, pid) == Some(false);
            is_others.then_some(Unusable::OtherProcess(address, pid))
        }
        Owner::Refused(Refusal::NoSocket | Refusal::State(_) | Refusal::NotHeld) => {
            Some(Unusable::NobodyListens(address))
        }
        Owner::Refused(_) | Owner::NoTable => None,
    }
}
