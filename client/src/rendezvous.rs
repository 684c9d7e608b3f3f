//! Rendezvous files: how a tool finds a server that did not launch it.
//!
//! On request a server writes files with its address into the directories for temporary files. The first lines are the
//! URI, the release of the server's library and its process id; the rest is information for people.

use std::fmt;
use std::fs::Metadata;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::env::{ServerUri, parse_uri};
use crate::regular_file::{OnLink, read_regular};
use crate::trusted::Trusted;

/// The longest file that is read. Rendezvous files are short; a longer file of the same name is something else.
const LEN_MAX: u64 = 4096;

/// The number of lines that are read.
const LINES: usize = 3;

/// Length of a proof in hex digits.
const PROOF_LEN: usize = 64;

/// The path of the proof file of a server of ours, beside its rendezvous file, with mode 600. Its lines are the
/// server's URI and a secret. A tool that presents the secret proves that it runs as root or as the server's user. The
/// name begins with a dot, because released tools read every file with the prefix of a rendezvous file as one.
pub fn proof_path(rendezvous: &Path) -> PathBuf {
    let name = rendezvous.file_name().unwrap_or_default().to_string_lossy();
    rendezvous.with_file_name(format!(".{name}.proof"))
}

/// The kind of a rendezvous file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Point<'a> {
    /// Of the node's system server, in the system's directory.
    System,
    /// Of the scheduler, in the system's directory.
    Scheduler,
    /// Of a session, in its directory.
    Session,
    /// Of a server, named by its process id or its namespace, in its session's directory.
    Server(&'a str),
    /// For tools on other hosts, of a server with this process id, in its session's directory. No search finds it: its name has
    /// none of the beginnings that released tools look for.
    Remote(&'a str),
}

impl Point<'_> {
    /// The name of the file on this host.
    pub fn file_name(&self, hostname: &str) -> String {
        match self {
            Point::System => format!("pmix.sys.{hostname}"),
            Point::Scheduler => format!("pmix.sched.{hostname}"),
            Point::Session => format!("pmix.{hostname}.tool"),
            Point::Server(name) => format!("pmix.{hostname}.tool.{name}"),
            Point::Remote(pid) => format!("pmix.remote.{hostname}.{pid}"),
        }
    }
}

/// The contents of a rendezvous file.
#[derive(Clone, Debug, PartialEq)]
pub struct Contact {
    /// The server's name and address.
    pub uri: ServerUri,
    /// The release of its library; empty if the file has none.
    pub version: String,
    /// Its process id; `None` if the file has none.
    pub pid: Option<i32>,
    /// The file; `None` if the address does not come from a file.
    pub file: Option<ContactFile>,
}

/// The file from which a contact was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContactFile {
    /// Where it is.
    pub path: PathBuf,
    /// The user id of its owner.
    pub owner: u32,
    /// When it was written: a server writes its files when it starts.
    pub written: Option<SystemTime>,
}

/// Why a rendezvous file leads to no server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unusable {
    /// It cannot be read, or is not a regular file.
    Unreadable(String),
    /// This user owns it, and is not trusted.
    NotTrusted(u32),
    /// It is empty or ends within a line.
    Incomplete,
    /// Its first line is no address of a server.
    NoAddress,
    /// Its process has ended.
    Ended(i32),
    /// No process listens at its address.
    NobodyListens(SocketAddr),
    /// A user that is not trusted listens at its address.
    OtherUser(SocketAddr, u32),
    /// Its process lives, but another process listens at its address.
    OtherProcess(SocketAddr, i32),
}

impl Unusable {
    /// A word for programs; it does not change between releases of this library.
    pub fn code(&self) -> &'static str {
        match self {
            Unusable::Unreadable(_) => "unreadable",
            Unusable::NotTrusted(_) => "not-trusted",
            Unusable::Incomplete => "incomplete",
            Unusable::NoAddress => "no-address",
            Unusable::Ended(_) => "ended",
            Unusable::NobodyListens(_) => "nobody-listens",
            Unusable::OtherUser(..) => "other-user",
            Unusable::OtherProcess(..) => "other-process",
        }
    }
}

impl fmt::Display for Unusable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unusable::Unreadable(why) => write!(f, "it cannot be read: {why}"),
            Unusable::NotTrusted(uid) => write!(f, "user {uid} owns it"),
            Unusable::Incomplete => f.write_str("it is empty or ends within a line: it is not written completely"),
            Unusable::NoAddress => f.write_str("its first line is no address of a server"),
            Unusable::Ended(pid) => write!(f, "process {pid} has ended"),
            Unusable::NobodyListens(address) => write!(f, "no process listens at {address}"),
            Unusable::OtherUser(address, uid) => write!(f, "user {uid} listens at {address}"),
            Unusable::OtherProcess(address, pid) => {
                write!(f, "not process {pid}, but another process listens at {address}")
            }
        }
    }
}

impl Contact {
    /// Reads a file that the caller names, whatever its owner.
    ///
    /// # Errors
    /// Errors of the system; `InvalidData` if it is not a rendezvous file, or not written completely yet.
    pub fn read(path: &Path) -> io::Result<Contact> {
        let (text, metadata) = read_regular(path, OnLink::Follow, LEN_MAX)?;
        Contact::of_file(&text, path, &metadata).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// Reads a file that was found by its name. Nothing of a file is read whose owner is not trusted.
    ///
    /// # Errors
    /// Why the file leads to no server.
    pub fn read_found(path: &Path, trusted: &Trusted) -> Result<Contact, Unusable> {
        let (text, metadata) = read_regular(path, OnLink::Refuse, LEN_MAX).map_err(|error| {
            // Also of a file that may not be read, the owner is the reason that helps.
            let owner = path.symlink_metadata().ok().map(|metadata| metadata.uid());
            match owner.filter(|uid| !trusted.holds(*uid)) {
                Some(uid) => Unusable::NotTrusted(uid),
                None => Unusable::Unreadable(error.to_string()),
            }
        })?;
        if !trusted.holds(metadata.uid()) {
            return Err(Unusable::NotTrusted(metadata.uid()));
        }
        // Otherwise a port or a process id may lack digits.
        let is_complete = text.ends_with('\n') || text.matches('\n').count() >= LINES;
        if !is_complete {
            return Err(Unusable::Incomplete);
        }
        Contact::of_file(&text, path, &metadata).ok_or(Unusable::NoAddress)
    }

    fn of_file(text: &str, path: &Path, metadata: &Metadata) -> Option<Contact> {
        let file = ContactFile { path: path.to_owned(), owner: metadata.uid(), written: metadata.modified().ok() };
        Some(Contact { file: Some(file), ..Contact::parse(text)? })
    }

    /// The server's proof, if this process may read it: as root, or as the server's user. The proof file must have the
    /// same owner as the rendezvous file, have a single hard link, name this server's URI, and have the form of a
    /// proof. These checks ensure that no other file's content is ever sent to a server.
    pub fn read_proof(&self) -> Option<String> {
        let ContactFile { path, owner, .. } = self.file.as_ref()?;
        let (text, metadata) = read_regular(&proof_path(path), OnLink::Refuse, LEN_MAX).ok()?;
        let mut lines = text.lines();
        let is_of_server = lines.next()? == self.uri.to_string();
        let proof = lines.next()?;
        let is_proof = proof.len() == PROOF_LEN && proof.bytes().all(|byte| byte.is_ascii_hexdigit());
        (is_of_server && is_proof && metadata.uid() == *owner && metadata.nlink() == 1).then(|| proof.to_owned())
    }

    /// Parses the text of a file.
    pub fn parse(text: &str) -> Option<Contact> {
        let mut lines = text.lines();
        let uri = parse_uri(lines.next()?.trim().as_bytes())?;
        let version = lines.next().unwrap_or_default().trim().trim_start_matches('v').to_owned();
        let pid = lines.next().and_then(|pid| pid.trim().parse().ok());
        Some(Contact { uri, version, pid, file: None })
    }
}

/// A time as `ctime` writes it, in UTC.
pub fn date(time: SystemTime) -> String {
    const DAYS: &str = "Thu Fri Sat Sun Mon Tue Wed";
    const MONTHS: &str = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec";
    let seconds = time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let is_leap = |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let (mut year, mut day) = (1970, days);
    while day >= 365 + u64::from(is_leap(year)) {
        day -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let lengths = [31, 28 + u64::from(is_leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 0;
    while day >= lengths[month] {
        day -= lengths[month];
        month += 1;
    }
    let name = |names: &'static str, at: usize| names.split(' ').nth(at).unwrap_or_default();
    let (weekday, month) = (name(DAYS, (days % 7) as usize), name(MONTHS, month));
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{weekday} {month} {:2} {hour:02}:{minute:02}:{second:02} {year}", day + 1)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, OpenOptions};
    use std::io::Write;
    use std::os::unix::fs::{chown, symlink};
    use std::time::Duration;

    use nix::sys::stat::Mode;
    use nix::unistd::{geteuid, mkfifo};

    use super::*;

    const TEXT: &str = "a.0;tcp4://127.0.0.1:1\n4.2.2\n1\n";

    #[test]
    fn files_that_are_irregular_or_untrusted_are_skipped_without_blocking() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        let trusted = Trusted::only(&[geteuid().as_raw()]);
        fs::write(path("good"), TEXT).unwrap();
        fs::write(path("long"), format!("{TEXT}{}", " ".repeat(LEN_MAX as usize))).unwrap();
        fs::create_dir(path("directory")).unwrap();
        mkfifo(&path("fifo"), Mode::S_IRWXU).unwrap();
        symlink(path("good"), path("link")).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(path("socket")).unwrap();
        let found = |name: &str| Contact::read_found(&path(name), &trusted).map(|contact| contact.pid);
        assert_eq!(found("good").unwrap(), Some(1));
        for name in ["long", "directory", "fifo", "link", "socket", "missing"] {
            assert!(found(name).is_err(), "{name}");
        }
        // A file that the caller names may be a link, and may have any owner.
        let nobody = Trusted::only(&[]);
        assert_eq!(Contact::read(&path("link")).unwrap().file.unwrap().owner, geteuid().as_raw());
        let error = Contact::read_found(&path("good"), &nobody).unwrap_err();
        assert_eq!(error, Unusable::NotTrusted(geteuid().as_raw()));
        if geteuid().is_root() {
            chown(path("good"), Some(65_534), None).unwrap();
            assert!(found("good").is_err());
            assert!(Contact::read_found(&path("good"), &Trusted::only(&[65_534])).is_ok());
        }
        // A FIFO with a writer is refused, too: its content could be anything.
        let mut writer = OpenOptions::new().read(true).write(true).open(path("fifo")).unwrap();
        writer.write_all(TEXT.as_bytes()).unwrap();
        assert!(Contact::read(&path("fifo")).is_err());
    }

    #[test]
    fn a_file_that_is_not_written_completely_is_not_read() {
        let directory = tempfile::tempdir().unwrap();
        let (path, trusted) = (directory.path().join("file"), Trusted::only(&[geteuid().as_raw()]));
        let read = |text: &str| {
            fs::write(&path, text).unwrap();
            Contact::read_found(&path, &trusted).map(|contact| contact.pid)
        };
        for end in 0..TEXT.len() {
            let expected = match &TEXT[end..] {
                // Released servers of old end here.
                "4.2.2\n1\n" | "1\n" => Ok(None),
                _ => Err(Unusable::Incomplete),
            };
            assert_eq!(read(&TEXT[..end]), expected, "{:?}", &TEXT[..end]);
        }
        assert_eq!(read(TEXT), Ok(Some(1)));
        // The lines behind these do not matter.
        assert_eq!(read(&format!("{TEXT}0:")), Ok(Some(1)));
        assert_eq!(read("#!/bin/sh\n"), Err(Unusable::NoAddress));
    }

    #[test]
    fn nothing_but_a_proof_of_the_same_owner_is_shown() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pmix.sys.here");
        let (beside, secret) = (proof_path(&path), "0123456789abcdef".repeat(4));
        assert_eq!(beside.file_name().unwrap(), ".pmix.sys.here.proof");
        fs::write(&path, TEXT).unwrap();
        let shown = || Contact::read(&path).unwrap().read_proof();
        assert_eq!(shown(), None);
        let of = |uri: &str, proof: &str| fs::write(&beside, format!("{uri}\n{proof}\n")).unwrap();
        for other in ["", "root:x:0:0", &secret[1..], &"z".repeat(64)] {
            of("a.0;tcp4://127.0.0.1:1", other);
            assert_eq!(shown(), None, "{other:?}");
        }
        // The proof of an earlier server in the same place.
        of("a.0;tcp4://127.0.0.1:2", &secret);
        assert_eq!(shown(), None);
        of("a.0;tcp4://127.0.0.1:1", &secret);
        assert_eq!(shown(), Some(secret.clone()));
        let second = directory.path().join("second");
        fs::hard_link(&beside, &second).unwrap();
        assert_eq!(shown(), None);
        fs::remove_file(&beside).unwrap();
        symlink(&second, &beside).unwrap();
        assert_eq!(shown(), None);
        if geteuid().is_root() {
            fs::rename(&second, &beside).unwrap();
            assert_eq!(shown(), Some(secret));
            chown(&beside, Some(65_534), None).unwrap();
            assert_eq!(shown(), None);
        }
    }

    #[test]
    fn files_of_servers_and_reports_of_uris_are_read() {
        let of_stock = "1603731456.0;tcp4://127.0.0.1:33669\n4.2.2rc2\n13161\n0:0\nFri Nov 20 23:55:02 2026\n\n";
        let contact = Contact::parse(of_stock).unwrap();
        assert_eq!((contact.version.as_str(), contact.pid), ("4.2.2rc2", Some(13161)));
        assert_eq!(contact.uri.address.port(), 33669);
        let reported = Contact::parse("a.b.3;tcp4://127.0.0.1:1\nv3.2.5\n").unwrap();
        assert_eq!((reported.version.as_str(), reported.pid), ("3.2.5", None));
        assert_eq!(reported.uri.proc.to_string(), "a.b:3");
        assert_eq!(Contact::parse("").map(drop), None);
        assert_eq!(Contact::parse("#!/bin/sh\n").map(drop), None);
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        let at = |seconds| date(UNIX_EPOCH + Duration::from_secs(seconds));
        assert_eq!(at(0), "Thu Jan  1 00:00:00 1970");
        assert_eq!(at(951_782_400), "Tue Feb 29 00:00:00 2000");
        assert_eq!(at(1_795_218_902), "Fri Nov 20 23:55:02 2026");
    }
}
